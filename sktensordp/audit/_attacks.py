"""Two attackers who guess the bits of canaries from what four fits answered.

The audit compares four fits, on data that differ in the bits of the canaries alone:

- the pilot, from which the attackers learn how to guess, and how many guesses to make;
- two references with opposite bits, so that each canary is once in and once out;
- the fit that is audited, whose bits are guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ._guesses import epsilon_bound, guessed, n_right

# The shares of the canaries that an attacker may decide to guess.
_SHARES = (1.0, 0.5, 0.25)

_Scoring = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Attack:
    """What one attacker guessed of the canaries, and what that proves.

    Parameters
    ----------
    n_right, n_guesses, n_canaries : int
        Numbers of right guesses, of all guesses, and of canaries.
    epsilon_lower : float
        Lower bound on epsilon, valid at the confidence of the report by itself.
    statistic : str
        What the attacker looked at.
    scores : ndarray of shape (n_canaries,)
        Large if the bit of the canary looks like a one. For internal use: these are
        scores of people.
    bits : ndarray of shape (n_canaries,), bool
        The bits that were drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.audit import Attack
    >>> attack = Attack(
    ...     n_right=99, n_guesses=100, n_canaries=400, epsilon_lower=3.02,
    ...     statistic="score", scores=np.zeros(400), bits=np.zeros(400, dtype=bool))
    >>> print(attack)
    99 of 100 guesses right (400 canaries), by score
    """

    n_right: int
    n_guesses: int
    n_canaries: int
    epsilon_lower: float
    statistic: str
    scores: NDArray[np.float64] = field(repr=False)
    bits: NDArray[np.bool_] = field(repr=False)

    def __str__(self) -> str:
        return (
            f"{self.n_right} of {self.n_guesses} guesses right ({self.n_canaries} "
            f"canaries), by {self.statistic}"
        )


@dataclass(frozen=True)
class Bits:
    """The bits of all canaries in the four fits."""

    pilot: NDArray[np.bool_] = field(repr=False)
    reference: NDArray[np.bool_] = field(repr=False)
    audited: NDArray[np.bool_] = field(repr=False)

    @classmethod
    def drawn(cls, n_canaries: int, rng: np.random.Generator) -> Bits:
        """Fair, independent bits for the audit; half ones for the others."""
        pilot, reference = (
            rng.permutation(n_canaries) < n_canaries // 2 for _ in range(2)
        )
        return cls(pilot, reference, audited=rng.random(n_canaries) < 0.5)

    @property
    def of_fits(self) -> tuple[NDArray[np.bool_], ...]:
        """Bits of the pilot, of the two references, and of the audited fit."""
        return self.pilot, self.reference, ~self.reference, self.audited


def attacks(
    statistics: Sequence[NDArray[np.float64]],
    names: Sequence[str],
    bits: Bits,
    delta: float,
    alpha: float,
) -> tuple[Attack, Attack]:
    """Guess the bits of the audited fit, with and without the references.

    Given the pilot and the references, the guesses are a function of the answers of the
    audited fit, and their number is fixed; the bits of the audited fit are independent
    of both. So Theorem 5.2 of Steinke, Nasr and Jagielski (2023) bounds the number of
    right guesses of each attacker.

    Parameters
    ----------
    statistics : sequence of four ndarrays of shape (n_canaries, n_statistics)
        In the order of `Bits.of_fits`.
    names : sequence of str
        Names of the statistics.
    bits : Bits
    delta, alpha : float
        Delta of the bound, and the chance that each bound is above the truth.

    Returns
    -------
    account, insider : Attack
        The first sees the answers of the audited fit alone, and the pilot. The second
        also compares them with the references, as someone can who knows all other data.
    """
    pilot, first, second, audited = statistics
    relative, their_names = _relative_to(first, second, bits.reference, names)
    return (
        _attack(pilot, audited, names, bits, delta, alpha),
        _attack(relative(pilot), relative(audited), their_names, bits, delta, alpha),
    )


def _relative_to(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    bits: NDArray[np.bool_],
    names: Sequence[str],
) -> tuple[_Scoring, list[str]]:
    """Statistics beside their values in the references, and the names of all."""
    is_one = bits[:, np.newaxis]
    difference = np.where(is_one, first - second, second - first)
    middle = (first + second) / 2
    common = np.sign(np.median(difference, axis=0))
    common[common == 0] = 1

    def relative(values: NDArray[np.float64]) -> NDArray[np.float64]:
        moved = values - middle
        return np.hstack([values, moved * common, moved * np.sign(difference)])

    return relative, [
        *names,
        *(f"{name} against the references" for name in names),
        *(f"{name} against the canary's own references" for name in names),
    ]


def _attack(
    pilot: NDArray[np.float64],
    audited: NDArray[np.float64],
    names: Sequence[str],
    bits: Bits,
    delta: float,
    alpha: float,
) -> Attack:
    """Choose how to guess from the pilot, then guess the bits of the audited fit."""
    n = len(pilot)
    best: tuple[float, float, str, int, _Scoring] | None = None
    candidates = list(_candidates(pilot, names, bits.pilot))
    for share in _SHARES:
        n_guesses = max(round(share * n), 1)
        right = [
            n_right(bits.pilot, guessed(scores, n_guesses))
            for _, _, scores in candidates
        ]
        place = int(np.argmax(right))
        bound = epsilon_bound(right[place], n_guesses, n, None, delta, alpha)
        name, scoring, _ = candidates[place]
        found = bound, right[place] / n_guesses, name, n_guesses, scoring
        # Equal bounds are decided by the share of right guesses.
        if best is None or found[:2] > best[:2]:
            best = found
    assert best is not None
    *_, name, n_guesses, scoring = best
    scores = scoring(audited)
    correct = n_right(bits.audited, guessed(scores, n_guesses))
    return Attack(
        n_right=correct,
        n_guesses=n_guesses,
        n_canaries=n,
        epsilon_lower=epsilon_bound(correct, n_guesses, n, None, delta, alpha),
        statistic=name,
        scores=scores,
        bits=bits.audited,
    )


def _candidates(
    pilot: NDArray[np.float64], names: Sequence[str], bits: NDArray[np.bool_]
) -> list[tuple[str, _Scoring, NDArray[np.float64]]]:
    """Ways to score canaries: name, function of statistics, scores of the pilot."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    found: list[tuple[str, _Scoring, NDArray[np.float64]]] = []
    for k, name in enumerate(names):
        for sign, words in ((1.0, name), (-1.0, f"minus {name}")):

            def scoring(
                values: NDArray[np.float64], k: int = k, sign: float = sign
            ) -> NDArray[np.float64]:
                return sign * values[:, k]

            found.append((words, scoring, scoring(pilot)))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    halves = StratifiedKFold(2, shuffle=True, random_state=0)
    # What the pilot taught the model is judged on the other half of the canaries.
    judged = cross_val_predict(
        model, pilot, bits, cv=halves, method="decision_function"
    )
    learned = model.fit(pilot, bits).decision_function
    found.append(("logistic regression on all statistics", learned, judged))
    return found
