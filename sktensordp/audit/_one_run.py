"""Audit by one run with many canaries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._waiting import watched
from ._bounds import (
    Gaussian,
    Pure,
    curve_bound_of_guesses,
    epsilon_of_mu,
    lower_epsilon_of_guesses,
)
from ._report import AuditReport

# Epsilon at which the bounds are compared if none is claimed.
_TYPICAL = 3.0


@watched
def audit_one_run(
    run: Callable[[NDArray[np.bool_]], ArrayLike],
    n_canaries: int,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    n_guesses: int | None = None,
    confidence: float = 0.95,
    gaussian: bool = False,
    random_state: int | None = None,
) -> AuditReport:
    """Lower bound on epsilon from one run, by guessing the bits of many canaries.

    A canary is a record that you plant in the data. The audit draws an independent fair
    bit for every canary, and runs the mechanism once on data that you make from the
    bits. It then guesses the bits of the canaries with the most extreme scores. A true
    claim limits the number of right guesses.

    Parameters
    ----------
    run : callable
        ``run(bits)`` puts the canaries into the data, runs the mechanism once, and
        returns one score per canary, which is large if the bit looks like a one. Two
        data sets that differ in one bit must be neighbours in the sense of the claim.
    n_canaries : int
        Number of canaries, at least one.
    epsilon : float, default=None
        Claimed epsilon at `delta`.
    delta : float, default=0.0
        Delta of the claim, in [0, 1).
    n_guesses : int, default=None
        Number of bits to guess, half of them as ones; all by default. Choose it before
        the run.
    confidence : float, default=0.95
        In (0, 1). The bound is above the true epsilon with probability at most
        1 - `confidence`.
    gaussian : bool, default=False
        Whether to bound mu of Gaussian differential privacy, and epsilon through mu.
        This tests the whole trade-off curve of mu-GDP, which is tighter, but it can
        refute only a claim about Gaussian noise.
    random_state : int, default=None
        Seed of the bits.

    Returns
    -------
    report : AuditReport

    Raises
    ------
    ValueError
        If a parameter is out of range, or `run` does not return one score per canary.

    References
    ----------
    Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run",
    NeurIPS 2023, Theorem 5.2. Mahloujifar, Melis and Chaudhuri, "Auditing
    f-differential privacy in one run", arXiv:2410.22235, for trade-off curves. Without
    `gaussian`, the audit uses the theorem that should prove more, chosen before it
    counts the right guesses.

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
    # A separate stream, in case the caller seeds the noise with the same integer.
    seed = None if random_state is None else [random_state, n_canaries]
    bits = np.random.default_rng(seed).random(n_canaries) < 0.5
    scores = np.asarray(run(bits.copy()), dtype=float).ravel()
    if scores.size != n_canaries:
        raise ValueError(
            f"run returned {scores.size} scores for {n_canaries} canaries; it must "
            f"return one per canary."
        )
    order = np.argsort(scores, kind="stable")
    n_ones = guesses // 2
    ones, zeros = order[n_canaries - n_ones :], order[: guesses - n_ones]
    correct = int(bits[ones].sum() + (~bits[zeros]).sum())
    numbers = correct, guesses, n_canaries
    mu = None
    if gaussian:
        mu = curve_bound_of_guesses(*numbers, Gaussian(), 1 - confidence)
        bound = epsilon_of_mu(mu, delta)
    else:
        bound = _epsilon_bound(*numbers, epsilon, delta, 1 - confidence)
    return AuditReport(
        epsilon_lower=bound,
        mu_lower=mu,
        confidence=confidence,
        delta=delta,
        claimed=epsilon,
        event=f"{correct} of {guesses} bits of canaries guessed",
        n_trials=n_canaries,
    )


def _epsilon_bound(
    correct: int,
    guesses: int,
    n_canaries: int,
    claimed: float | None,
    delta: float,
    alpha: float,
) -> float:
    """Lower bound on epsilon, by the theorem that should prove more.

    The choice costs no confidence: it compares the two for the number of right guesses
    that the claim allows, and does not see how many are right.
    """

    def by_epsilon(right: int) -> float:
        return lower_epsilon_of_guesses(right, guesses, n_canaries, delta, alpha)

    def by_curve(right: int) -> float:
        return curve_bound_of_guesses(right, guesses, n_canaries, Pure(delta), alpha)

    epsilon = _TYPICAL if claimed is None else claimed
    allowed = round(guesses / (1 + np.exp(-epsilon)))
    chosen = by_curve if by_curve(allowed) > by_epsilon(allowed) else by_epsilon
    return chosen(correct)
