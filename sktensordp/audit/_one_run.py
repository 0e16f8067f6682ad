"""Audit of one run with many canaries."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._bounds import lower_epsilon_of_guesses
from ._report import AuditReport

__all__ = ["audit_one_run"]


def audit_one_run(
    run: Callable[[NDArray[np.bool_]], ArrayLike],
    n_canaries: int,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    n_guesses: int | None = None,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> AuditReport:
    """Lower bound on epsilon from one run, by guessing the bits of many canaries.

    Every canary gets an independent fair bit, and the mechanism runs once on data
    in which each canary is as its bit says. The bits of the canaries with the most
    extreme scores are guessed; under a true claim the number of right guesses is
    bounded.

    Parameters
    ----------
    run : callable
        ``run(bits)`` puts the canaries in, runs the mechanism once, and returns a
        score for each canary, large where the bit looks like one. Two data sets
        that differ in one bit must be neighbours in the sense of the claim.
    n_canaries : int
        How many, at least one.
    epsilon : float, default=None
        The epsilon claimed at `delta`.
    delta : float, default=0.0
        The delta of the claim, in [0, 1).
    n_guesses : int, default=None
        How many bits to guess, half of them as ones; all by default. To be chosen
        before the run.
    confidence : float, default=0.95
        One minus the chance that the bound is above the truth, in (0, 1).
    random_state : int, default=None
        Seed of the bits.

    Returns
    -------
    report : AuditReport

    Raises
    ------
    ValueError
        If a parameter is out of range or the scores are not one a canary.

    References
    ----------
    Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run",
    NeurIPS 2023, Theorem 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.audit import audit_one_run
    >>> rng = np.random.default_rng(0)
    >>> def noisy_bits(bits):
    ...     return bits + rng.laplace(scale=1 / 2.0, size=bits.size)
    >>> report = audit_one_run(noisy_bits, 2000, epsilon=2.0, random_state=0)
    >>> 0.5 < report.epsilon_lower < 2
    True
    """
    guesses = n_canaries if n_guesses is None else n_guesses
    if not 1 <= guesses <= n_canaries:
        raise ValueError(
            f"n_guesses must be between 1 and the {n_canaries} canaries, got {guesses}."
        )
    if not 0 <= delta < 1 or not 0 < confidence < 1:
        raise ValueError("delta must be in [0, 1) and confidence in (0, 1).")
    # A stream of its own, in case the caller seeds the noise with the same integer.
    seed = None if random_state is None else [random_state, n_canaries]
    bits = np.random.default_rng(seed).random(n_canaries) < 0.5
    scores = np.asarray(run(bits.copy()), dtype=float).ravel()
    if scores.size != n_canaries:
        raise ValueError(
            f"run returned {scores.size} scores for {n_canaries} canaries."
        )
    order = np.argsort(scores, kind="stable")
    n_ones = guesses // 2
    ones, zeros = order[n_canaries - n_ones :], order[: guesses - n_ones]
    correct = int(bits[ones].sum() + (~bits[zeros]).sum())
    return AuditReport(
        epsilon_lower=lower_epsilon_of_guesses(
            correct, guesses, n_canaries, delta, 1 - confidence
        ),
        mu_lower=None,
        confidence=confidence,
        delta=delta,
        claimed=epsilon,
        event=f"{correct} of {guesses} bits of canaries guessed",
        n_trials=n_canaries,
    )
