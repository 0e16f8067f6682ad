"""Randomised response on a scale of levels: a level is kept, or moved at random.

With probability `keep` the level stays the same; otherwise it moves from x to y with
probability proportional to w(distance of x and y). Every level can give every output,
so the loss is bounded. At every epsilon, the two levels that are furthest apart are the
easiest to tell apart: doc/local.md has the proof.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln


@dataclass(frozen=True)
class LevelDistribution:
    """Distribution of the output of a level that is not kept.

    Parameters
    ----------
    noise : {"laplace", "gaussian", "geometric", "wrapped"}
        w(d) = exp(-rate d) for "laplace", "geometric" and "wrapped", exp(-rate d^2) for
        "gaussian". The levels are 0, ..., k - 1 and so are the outputs, except that
        "geometric" moves to any integer. The distance d is that of two integers; for
        "wrapped", it is the distance around the circle.
    n_levels : int
        k, at least 2.
    rate : float
        At least 0; positive for "geometric". With 0, all levels are equally likely.
    """

    noise: str
    n_levels: int
    rate: float

    def __reduce__(self) -> tuple[Any, ...]:
        # Without cached values, so that equal distributions have equal pickles.
        return LevelDistribution, (self.noise, self.n_levels, self.rate)

    @staticmethod
    def span_of(noise: str, n_levels: int) -> int:
        """Loss of the two furthest levels if nothing is kept, in units of `rate`."""
        if noise == "wrapped":
            return n_levels // 2
        return (n_levels - 1) ** 2 if noise == "gaussian" else n_levels - 1

    @property
    def span(self) -> int:
        """Loss of the two furthest levels if nothing is kept, in units of `rate`."""
        return self.span_of(self.noise, self.n_levels)

    @cached_property
    def mass(self) -> float:
        """Sum of w over the outputs, from level 0."""
        if self.noise == "geometric":
            return 1 / math.tanh(self.rate / 2)
        return math.fsum(self._weights_from_first)

    @cached_property
    def _weights_from_first(self) -> NDArray[np.float64]:
        steps = np.arange(self.n_levels, dtype=float)
        if self.noise == "wrapped":
            steps = np.minimum(steps, self.n_levels - steps)
        elif self.noise == "gaussian":
            steps **= 2
        return np.exp(-self.rate * steps)

    def epsilon(self, keep: float) -> float:
        """Pure epsilon of one level that is kept with probability `keep`."""
        if keep == 1:
            return math.inf
        return self.span * self.rate + math.log1p(keep * self.mass / (1 - keep))

    def keep(self, epsilon: float) -> float:
        """Probability of keeping a level under pure `epsilon`.

        It is 0 if moving alone uses up epsilon.
        """
        odds = math.expm1(max(epsilon - self.span * self.rate, 0.0)) / self.mass
        return odds / (1 + odds)

    def moves(self) -> NDArray[np.float64]:
        """Probabilities of the moves; not for "geometric".

        Returns
        -------
        moves : ndarray of shape (n_levels, n_levels)
            Row x has the probabilities of the outputs from level x.
        """
        levels = np.arange(self.n_levels)
        distances = np.abs(np.subtract.outer(levels, levels))
        weights = self._weights_from_first[distances]
        return weights / weights.sum(axis=1, keepdims=True)

    def extreme_pair(
        self, keep: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Output probabilities from the two levels that are furthest apart.

        Returns
        -------
        first, last : ndarray of shape (n_outputs,)
            For "geometric", all outputs below the scale are pooled into one, and so are
            all above it: within each pool, the loss is constant.
        """
        if self.noise == "geometric":
            a, k = math.exp(-self.rate), self.n_levels
            inside = np.exp(-self.rate * np.arange(k)) * -math.expm1(-self.rate)
            ends = a, math.exp(-self.rate * k)
            first = np.concatenate([ends[:1], inside, ends[1:]]) / (1 + a) * (1 - keep)
            first[1] += keep
            return first, first[::-1]
        first = self._weights_from_first / self.mass * (1 - keep)
        last = np.roll(first, self.span) if self.noise == "wrapped" else first[::-1]
        first, last = first.copy(), last.copy()
        first[0] += keep
        last[self.n_levels // 2 if self.noise == "wrapped" else -1] += keep
        return first, last

    def hockey_stick(
        self, keep: float, epsilon: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Largest hockey-stick divergence of two levels, at an array of epsilons."""
        first, last = self.extreme_pair(keep)
        loss = np.log(first) - np.log(last)
        order = np.argsort(-loss)
        upper = np.append(0.0, np.cumsum(first[order]))
        lower = np.append(0.0, np.cumsum(last[order]))
        n = np.searchsorted(-loss[order], -epsilon, side="left")
        return upper[n] - np.exp(epsilon) * lower[n]


def optimal_composition_delta(
    pure_epsilon: float, n_releases: int, epsilon: float
) -> float:
    """Delta at `epsilon` of any `n_releases` releases, each of pure `pure_epsilon`.

    The sum over i of C(n, i) [e^(i e0) - e^(epsilon + (n - i) e0)]_+ / (1 + e^e0)^n
    (Kairouz, Oh and Viswanath, "The composition theorem for differential privacy",
    2017, Theorem 3.3).
    """
    successes = np.arange(n_releases + 1)
    log_mass = gammaln(n_releases + 1) - gammaln(successes + 1)
    log_mass -= gammaln(n_releases - successes + 1)
    log_mass -= (n_releases - successes) * pure_epsilon
    log_mass -= n_releases * math.log1p(math.exp(-pure_epsilon))
    loss = (2 * successes - n_releases) * pure_epsilon
    above = loss * (1 + 1e-15) > epsilon
    # The difference is rounded away from 0, so that delta is not rounded down.
    difference = epsilon - loss[above] - 1e-15 * loss[above]
    terms = np.exp(log_mass[above]) * -np.expm1(difference)
    # The log-gammas have relative errors up to 2^-52.
    rounding = 1 + 1e-15 * (16 + n_releases * math.log(n_releases + 1))
    return min(1.0, math.fsum(terms) * rounding + 5e-324)
