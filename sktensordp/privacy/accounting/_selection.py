"""The curve of a private choice: what the best of a secret number of tries reveals.

Let one try have delta(e) at e. The best one then has at most ``mean * delta(e -
shift)`` (Koskela, Redberg and Wang 2024, Theorem 5, is this for their distributions).
The bound is tightened in two ways: every curve is convex in exp(e), and this one holds
for both directions of two neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._envelope import ConvexEnvelope
from ._repetitions import RepetitionDistribution

_KNOTS = 600
# Losses beyond this count as infinite.
_LARGEST_LOSS = 650.0


@dataclass(frozen=True)
class SelectionCurve:
    """Deltas of a private choice at all epsilons.

    Parameters
    ----------
    distribution : RepetitionDistribution
        Distribution of the number of tries.
    epsilon_of_try, delta_of_try : callable
        The curve of one try: epsilon at a delta, and delta at an epsilon.
    """

    distribution: RepetitionDistribution
    epsilon_of_try: Callable[[float], float]
    delta_of_try: Callable[[float], float]

    @cached_property
    def reach(self) -> float:
        """Epsilon at which the delta of one try is negligible; infinite if none is."""
        pure = self.epsilon_of_try(0.0)
        if math.isfinite(pure):
            return pure
        for exponent in range(-17, 0):
            epsilon = self.epsilon_of_try(10.0**exponent)
            if math.isfinite(epsilon):
                return epsilon
        return math.inf

    @property
    def protects(self) -> bool:
        """Whether any finite epsilon holds with a delta below 1."""
        return math.isfinite(self.reach)

    @cached_property
    def shift(self) -> float:
        """Bound on how much the choice adds to the privacy loss."""
        return self.distribution.shift(self.delta_of_try, self.reach)

    @property
    def losses(self) -> tuple[float, float]:
        """Smallest and largest loss that does not count as infinite."""
        largest = min(self.shift + self.reach, _LARGEST_LOSS)
        return -largest, largest

    @cached_property
    def _envelope(self) -> ConvexEnvelope:
        return ConvexEnvelope(self._bound, np.linspace(0.0, self.losses[1], _KNOTS))

    def _bound(self, epsilon: float) -> float:
        """Delta at `epsilon` >= 0 by the theorem, before it is tightened."""
        if epsilon < self.shift:
            return 1.0
        return min(
            1.0, self.distribution.mean * self.delta_of_try(epsilon - self.shift)
        )

    def delta(self, epsilon: ArrayLike) -> NDArray[np.float64]:
        """Delta at an epsilon, which may be negative, or at an array of them."""
        epsilon = np.asarray(epsilon, dtype=float)
        delta = self._envelope.delta(epsilon)
        if epsilon.ndim == 0 and epsilon >= 0:
            delta = np.minimum(delta, self._bound(float(epsilon)))
        return delta
