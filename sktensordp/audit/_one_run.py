"""Audit by one run with many canaries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._waiting import watched
from ._bounds import Gaussian, curve_bound_of_guesses, epsilon_of_mu
from ._guesses import epsilon_bound, guessed, n_right
from ._report import AuditReport


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
        Number of bits to guess; all by default. Choose it before the run. About half
        are guessed as ones; how many depends on the widest gap between the scores.
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
    correct = n_right(bits, guessed(scores, guesses))
    numbers = correct, guesses, n_canaries
    mu = None
    if gaussian:
        mu = curve_bound_of_guesses(*numbers, Gaussian(), 1 - confidence)
        bound = epsilon_of_mu(mu, delta)
    else:
        bound = epsilon_bound(*numbers, epsilon, delta, 1 - confidence)
    return AuditReport(
        epsilon_lower=bound,
        mu_lower=mu,
        confidence=confidence,
        delta=delta,
        claimed=epsilon,
        event=f"{correct} of {guesses} bits of canaries guessed",
        n_trials=n_canaries,
    )
