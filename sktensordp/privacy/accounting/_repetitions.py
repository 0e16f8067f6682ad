"""The number of tries of a private search: its distributions, and what they cost.

The best of K tries, K random and secret, is released with its score (Liu and Talwar
2019; Papernot and Steinke 2022). Let g be the derivative of the generating function of
K, and let t and t' be the probabilities, under two neighbours, that one try scores
below the release. The density of the release is then g(t) times that of one try. The
bounds need only two facts about g: g(t) <= g(1) = E[K], and for t >= t'

    truncated negative binomial:  g(t) <= g(t') ((1 - a t') / (1 - a t))^(eta + 1)
    Poisson:                      g(t) <= g(t') exp(mu (t - t'))

They hold for weights w_k of K if (k + 1) w_{k+1} <= a (k + eta) w_k, respectively
(k + 1) w_{k+1} <= mu w_k, for k >= 1: compare the coefficients of (1/a - t) g'(t) with
those of (eta + 1) g(t), and those of g'(t) with those of mu g(t). Integer weights that
are rounded down, one after the other, satisfy these inequalities, end at some k, and
can be drawn from exactly. Rounding thus costs no privacy, not even at delta = 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

# The sum of all weights stays below 2**63.
_TOTAL = 2.0**62
_MAX_TERMS = 100_000
_LARGEST_MEAN, _LARGEST_POISSON_MEAN = 1000.0, 30.0


@dataclass(frozen=True)
class RepetitionDistribution:
    """A distribution of the number of tries.

    Parameters
    ----------
    weights : tuple of int
        Weights of 0, 1, 2, ... tries.
    eta : float or None
        Parameter of the truncated negative binomial distribution, in [0, 1]; None for
        Poisson.
    rate : float
        a = 1 - gamma of the truncated negative binomial distribution, mu of Poisson.

    Raises
    ------
    ValueError
        If the weights violate the inequality that the bounds need.
    """

    weights: tuple[int, ...]
    eta: float | None
    rate: float

    def __repr__(self) -> str:
        return (
            f"RepetitionDistribution(mean={self.mean:.4g}, eta={self.eta}, "
            f"rate={self.rate:.4g})"
        )

    def __post_init__(self) -> None:
        if len(self.weights) < 2 or min(self.weights) < 0 or not any(self.weights[1:]):
            raise ValueError(
                "`weights` must be >= 0, and positive for some number of tries >= 1."
            )
        eta = self.eta
        if eta is not None and (self.weights[0] or not 0 <= eta <= 1):
            raise ValueError(
                "A truncated distribution needs eta in [0, 1], and a weight of 0 for "
                "no try."
            )
        if not 0 < self.rate < (math.inf if eta is None else 1):
            raise ValueError(f"rate = {self.rate} is out of range.")
        for k in range(1, len(self.weights) - 1):
            if self.weights[k + 1] > _largest_next_weight(
                self.weights[k], k, self.eta, self.rate
            ):
                raise ValueError("The `weights` do not fall as fast as they must.")

    def __hash__(self) -> int:
        return hash((self.eta, self.rate, self.weights[:4]))

    @cached_property
    def mean(self) -> float:
        """Expected number of tries, rounded up."""
        tries = sum(k * weight for k, weight in enumerate(self.weights))
        mean = float(Fraction(tries, sum(self.weights)))
        return math.nextafter(mean, math.inf)

    def shift(self, curve: Callable[[float], float], reach: float) -> float:
        """Bound on how much choosing the best try adds to the privacy loss.

        It bounds log(g(t) / g(t')) for neighbours whose single tries have the curve:
        1 - t' is at most e^h (1 - t) + curve(h), for every h >= 0. The best try
        therefore has a delta of at most ``mean * curve(epsilon - shift)`` at epsilon.

        Parameters
        ----------
        curve : callable
            The delta of one try at an epsilon.
        reach : float
            An epsilon at which the curve is small, or zero.

        Returns
        -------
        shift : float
        """
        if self.eta is None:
            return self.rate * curve(0.0) * (1 + 1e-14)
        odds = self.rate / (1 - self.rate) * (1 + 1e-14)
        epsilons = np.append(reach * np.linspace(0.0, 1.0, 257)[:-1], reach)
        log_ratio = min(np.logaddexp(h, _log(odds * curve(h))) for h in epsilons)
        return (self.eta + 1) * float(log_ratio) * (1 + 1e-14)

    def __reduce__(self) -> tuple[Any, ...]:
        return RepetitionDistribution, (self.weights, self.eta, self.rate)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _largest_next_weight(weight: int, k: int, eta: float | None, rate: float) -> int:
    """Largest weight of k + 1 tries, if `weight` is that of k >= 1."""
    factor = Fraction(rate) if eta is None else Fraction(rate) * (k + Fraction(eta))
    return weight * factor.numerator // (factor.denominator * (k + 1))


def _from_first_weights(
    first: tuple[int, int], eta: float | None, rate: float
) -> RepetitionDistribution:
    """Distribution with these weights of 0 and 1 tries, and the largest others."""
    weights = list(first)
    while weights[-1] and len(weights) < _MAX_TERMS:
        weights.append(_largest_next_weight(weights[-1], len(weights) - 1, eta, rate))
    return RepetitionDistribution(tuple(weights[:-1]), eta, rate)


@lru_cache(maxsize=64)
def negative_binomial(mean: float, eta: float) -> RepetitionDistribution:
    """Truncated negative binomial distribution of the number of tries, at least one.

    Papernot and Steinke (2022), Definition 1.

    Parameters
    ----------
    mean : float
        Expected number of tries, above 1 and at most 1000.
    eta : float
        In [0, 1]: 0 is the logarithmic distribution, 1 the geometric one.

    Returns
    -------
    distribution : RepetitionDistribution
        Its mean is `mean`, except for the rounding of the weights, and because it ends
        at 100,000 tries.

    Raises
    ------
    ValueError
        If a number is out of range.
    """
    if not 1 < mean <= _LARGEST_MEAN or not 0 <= eta <= 1:
        raise ValueError(
            f"The expected number of tries must be above 1 and at most "
            f"{_LARGEST_MEAN:g}, and eta must be in [0, 1]; got {mean:g} and {eta:g}."
        )

    def excess(log_gamma: float) -> float:
        odds = math.expm1(-log_gamma)
        if eta == 0:
            return odds / -log_gamma - mean
        return eta * odds / -math.expm1(eta * log_gamma) - mean

    log_gamma = brentq(excess, -20.0, -1e-9, xtol=1e-12)
    rate = -math.expm1(log_gamma)
    # Probability of one try: rate / log(1 / gamma), or eta rate / (gamma^-eta - 1).
    scale = math.expm1(-eta * log_gamma) / eta if eta else -log_gamma
    return _from_first_weights((0, int(_TOTAL * rate / scale)), eta, rate)


@lru_cache(maxsize=64)
def poisson(mean: float) -> RepetitionDistribution:
    """Poisson distribution of the number of tries, which may be zero.

    Parameters
    ----------
    mean : float
        Expected number of tries, above 0 and at most 30.

    Returns
    -------
    distribution : RepetitionDistribution

    Raises
    ------
    ValueError
        If the mean is out of range.
    """
    if not 0 < mean <= _LARGEST_POISSON_MEAN:
        raise ValueError(
            f"The mean of a Poisson number of tries must be above 0 and at most "
            f"{_LARGEST_POISSON_MEAN:g}, got {mean:g}."
        )
    first = int(_TOTAL * math.exp(-mean))
    return _from_first_weights((first, max(int(first * mean), 1)), None, float(mean))
