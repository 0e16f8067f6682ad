"""What the best of a secret number of releases reveals: the curve of a private choice.

Of one release, delta(e) is known. The best of them has ``mean * delta(e - shift)`` at e
(Koskela, Redberg and Wang 2024, Theorem 5, is this for their laws), and what follows
from the convexity of every curve in exp(e), and from its holding for both orders.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._repetitions import RepetitionDistribution

__all__ = ["SelectionCurve"]

_KNOTS = 600
# Losses beyond are taken to be infinite.
_LARGEST_LOSS = 650.0


@dataclass(frozen=True)
class SelectionCurve:
    """Deltas of a private choice at all epsilons.

    Parameters
    ----------
    law : RepetitionDistribution
        Of the number of tries.
    epsilon_of_one, delta_of_one : callable
        The curve of one try: epsilon at a delta, and delta at an epsilon.
    """

    distribution: RepetitionDistribution
    epsilon_of_one: Callable[[float], float]
    delta_of_one: Callable[[float], float]

    @cached_property
    def reach(self) -> float:
        """Where the delta of one release is next to nothing; infinity if nowhere."""
        pure = self.epsilon_of_one(0.0)
        if math.isfinite(pure):
            return pure
        for exponent in range(-17, 0):
            found = self.epsilon_of_one(10.0**exponent)
            if math.isfinite(found):
                return found
        return math.inf

    @property
    def protects(self) -> bool:
        """Whether any finite epsilon holds with a delta below 1."""
        return math.isfinite(self.reach)

    @cached_property
    def shift(self) -> float:
        """By how much a loss grows for the choice."""
        return self.distribution.shift(self.delta_of_one, self.reach)

    @property
    def losses(self) -> tuple[float, float]:
        """Smallest and largest loss that is not taken to be infinite."""
        most = min(self.shift + self.reach, _LARGEST_LOSS)
        return -most, most

    @cached_property
    def _hull(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Corners of the lower convex envelope: exp(epsilon), and delta there."""
        epsilons = np.linspace(0.0, self.losses[1], _KNOTS)
        deltas = np.array([self._directly(e) for e in epsilons])
        factors = np.exp(epsilons)
        # Of the other order: 1 - x + x delta(-log x), at x = exp(-epsilon).
        x = np.concatenate([[0.0], 1 / factors[::-1], factors[1:]])
        other = 1 - (1 - deltas[::-1]) / factors[::-1]
        y = np.concatenate([[1.0], other, deltas[1:]])
        y[_KNOTS] = min(y[_KNOTS], deltas[0])
        corners: list[int] = []
        for i in range(len(x)):
            while len(corners) > 1:
                j, k = corners[-2:]
                if (y[k] - y[j]) * (x[i] - x[j]) < (y[i] - y[j]) * (x[k] - x[j]):
                    break
                corners.pop()
            corners.append(i)
        return x[corners], y[corners]

    def _directly(self, epsilon: float) -> float:
        if epsilon < self.shift:
            return 1.0
        return min(
            1.0, self.distribution.mean * self.delta_of_one(epsilon - self.shift)
        )

    def delta(self, epsilon: ArrayLike) -> Any:
        """Delta at an epsilon, which may be negative, or at an array of them."""
        epsilon = np.asarray(epsilon, dtype=float)
        inside = np.clip(epsilon, *self.losses)
        # A chord lies above a convex curve; beyond the last corner the curve falls on.
        found = np.interp(np.exp(inside), *self._hull) * (1 + 1e-12)
        if found.ndim == 0 and epsilon >= 0:
            found = np.minimum(found, self._directly(float(epsilon)))
        # Below the least loss, the curve is that of a loss which is at least that.
        below = 1 - np.exp(np.minimum(epsilon, 0.0)) * (1 - self._hull[1][-1])
        return np.clip(np.where(epsilon < inside, below, found), 0.0, 1.0)
