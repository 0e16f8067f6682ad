"""Bounds on epsilon and mu from counts, valid at a stated confidence."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import beta, binom

from ..privacy import gaussian_delta

__all__ = [
    "Gaussian",
    "Pure",
    "certified_bound",
    "epsilon_of_mu",
    "lower_epsilon_of_guesses",
    "quick_bound",
]

_NUISANCE_POINTS = 25
# No number of trials proves more; beyond it a search for the bound has failed.
_LARGEST = 1e3


def _lower(hits: ArrayLike, n: int, alpha: float) -> NDArray[np.float64]:
    """Clopper-Pearson: the rate is at least this with probability 1 - alpha."""
    hits = np.asarray(hits)
    return np.where(hits == 0, 0.0, beta.ppf(alpha, np.maximum(hits, 1), n - hits + 1))


def _upper(hits: ArrayLike, n: int, alpha: float) -> NDArray[np.float64]:
    """Clopper-Pearson: the rate is at most this with probability 1 - alpha."""
    hits = np.asarray(hits)
    bound = beta.ppf(1 - alpha, hits + 1, np.maximum(n - hits, 1))
    return np.where(hits == n, 1.0, bound)


def quick_bound(
    hits: ArrayLike,
    false_hits: ArrayLike,
    n: int,
    claim: "Pure | Gaussian",
    alpha: float,
) -> Any:
    """Lower bound on a parameter from an event in two arms, for many events at once.

    The rates of both arms are bounded by Clopper and Pearson, at alpha / 2 each.

    Parameters
    ----------
    hits, false_hits : int or ndarray
        How often the event happened in the arms 1 and 0.
    n : int
        Trials in each arm.
    claim : Pure, or Gaussian
        What is bounded.
    alpha : float
        Chance that the bound is above the truth.

    Returns
    -------
    bound : float or ndarray
        At least 0.
    """
    return np.maximum(_quick(hits, false_hits, n, claim, alpha), 0.0)


def _quick(
    hits: ArrayLike,
    false_hits: ArrayLike,
    n: int,
    claim: "Pure | Gaussian",
    alpha: float,
) -> Any:
    return claim.parameter(_lower(hits, n, alpha / 2), _upper(false_hits, n, alpha / 2))


def certified_bound(
    hits: int, false_hits: int, n: int, claim: "Pure | Gaussian", alpha: float
) -> float:
    """Lower bound on a parameter from an event in two arms, sharpened by exact tests.

    A parameter is refuted if counts that the quick bound ranks as high as these
    have probability at most alpha under it (Buehler 1957), whatever the rate of the
    arm 0 is within an interval of confidence 1 - alpha / 50, which is paid for
    (Berger and Boos 1994). The probabilities are those of the two binomials. The
    parameters are those of `quick_bound`.
    """
    observed = float(_quick(hits, false_hits, n, claim, alpha))
    if not np.isfinite(observed):
        return 0.0
    gamma = alpha / 50
    least = float(_lower(false_hits, n, gamma / 2))
    most = float(_upper(false_hits, n, gamma / 2))
    spread = 7 * math.sqrt(n * most * (1 - least)) + 7
    counts = np.arange(max(0, int(n * least - spread)), min(n, n * most + spread) + 1)
    # The fewest hits that rank at least as high beside so many false hits; a little
    # less than `observed`, so that these counts themselves are ranked so.
    boundary = claim.rate(_upper(counts, n, alpha / 2), observed - 1e-7)
    needed = binom.isf(alpha / 2, n, boundary) + 1
    grid = np.linspace(least, most, _NUISANCE_POINTS)

    def excess(parameter: float) -> float:
        corner = np.clip(claim.corner(parameter), least, most)
        chance = max(
            np.dot(
                binom.pmf(counts, n, rate),
                binom.sf(needed - 1, n, claim.rate(rate, parameter)),
            )
            for rate in (*grid, corner)
        )
        return chance + gamma - alpha

    if excess(0.0) >= 0:
        return 0.0
    high = max(observed, 0.0) + 0.1
    while excess(high) < 0 and high < _LARGEST:
        high *= 2
    if high >= _LARGEST:
        return 0.0
    return float(brentq(excess, 0.0, high, xtol=1e-7))


class Pure:
    """Epsilon at a given delta: P(event | 1) <= e^epsilon P(event | 0) + delta."""

    def __init__(self, delta: float) -> None:
        self.delta = delta

    def rate(self, rate: float | NDArray[np.float64], parameter: float) -> Any:
        """Largest rate of arm 1, given that of arm 0."""
        return np.minimum(1.0, np.exp(parameter) * rate + self.delta)

    def corner(self, parameter: float) -> float:
        """Rate of arm 0 from which that of arm 1 may be one."""
        return (1 - self.delta) * math.exp(-parameter)

    def parameter(
        self, rate: NDArray[np.float64], false_rate: NDArray[np.float64]
    ) -> Any:
        """Least parameter that allows these two rates; minus infinity for any."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(rate - self.delta, 0) / false_rate)


class Gaussian:
    """Mu of a Gaussian mechanism: Phi^-1(P(event | 1)) <= Phi^-1(P(event | 0)) + mu.

    Dong, Roth and Su (2022), Definition 3.
    """

    def rate(self, rate: float | NDArray[np.float64], parameter: float) -> Any:
        """Largest rate of arm 1, given that of arm 0."""
        return ndtr(ndtri(rate) + parameter)

    def corner(self, parameter: float) -> float:
        """Rate of arm 0 from which that of arm 1 may be one: there is none."""
        return 1.0

    def parameter(
        self, rate: NDArray[np.float64], false_rate: NDArray[np.float64]
    ) -> Any:
        """Least parameter that allows these two rates; minus infinity for any."""
        with np.errstate(invalid="ignore"):
            bound = ndtri(rate) - ndtri(false_rate)
        return np.where(np.isfinite(bound), bound, -np.inf)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Epsilon of mu-GDP at `delta`."""
    if mu == 0 or gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if delta == 0:
        return math.inf
    high = 1.0
    while gaussian_delta(high, mu) > delta:
        high *= 2
    return brentq(lambda e: gaussian_delta(e, mu) - delta, 0.0, high)


def lower_epsilon_of_guesses(
    correct: int, guesses: int, n_canaries: int, delta: float, alpha: float
) -> float:
    """Lower bound on epsilon from guesses of many canaries' bits in one run.

    Under (epsilon, delta)-DP the number of right guesses is dominated by a binomial
    of success e^epsilon / (1 + e^epsilon), up to a term in delta (Steinke, Nasr and
    Jagielski 2023, Theorem 5.2).

    Parameters
    ----------
    correct, guesses : int
        Right guesses, and guesses made.
    n_canaries : int
        Canaries, guessed or not.
    delta : float
        The delta of the claim.
    alpha : float
        Chance that the bound is above the truth.

    Returns
    -------
    epsilon : float
    """

    def p_value(epsilon: float) -> float:
        rate = 1 / (1 + math.exp(-epsilon))
        chance = binom.sf(correct - 1, guesses, rate)
        if delta == 0:
            return chance
        steps = np.arange(1, correct + 1)
        mass = np.cumsum(binom.pmf(correct - steps, guesses, rate))
        slack = np.max(mass / steps, initial=0.0)
        return min(1.0, chance + 2 * n_canaries * delta * slack)

    if p_value(0.0) >= alpha:
        return 0.0
    high = 1.0
    while p_value(high) < alpha:
        high *= 2
        if high > 500:
            return 500.0
    return brentq(lambda e: p_value(e) - alpha, 0.0, high)
