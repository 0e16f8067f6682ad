"""The convex envelope of an upper bound of a privacy curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._convex import lower_envelope


@dataclass(frozen=True, eq=False)
class ConvexEnvelope:
    """A curve above the true one, from bounds of delta at a few epsilons.

    Every curve is convex in exp(epsilon), so the largest convex function below the
    bounds is still above it. It holds for both directions of two neighbours.

    Parameters
    ----------
    bound : callable
        Upper bound of delta at an epsilon >= 0.
    epsilons : ndarray of shape (n_knots,)
        Where it is evaluated, rising from 0. Losses beyond the last count as infinite.
    """

    bound: Callable[[float], float]
    epsilons: NDArray[np.float64]

    @cached_property
    def _hull(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Corners of the envelope: exp(epsilon), and delta."""
        deltas = np.array([self.bound(e) for e in self.epsilons.tolist()])
        factors = np.exp(self.epsilons)
        # In the other direction: 1 - x + x delta(-log x), at x = exp(-epsilon).
        x = np.concatenate([[0.0], 1 / factors[::-1], factors[1:]])
        reversed_deltas = 1 - (1 - deltas[::-1]) / factors[::-1]
        y = np.concatenate([[1.0], reversed_deltas, deltas[1:]])
        middle = len(deltas)
        y[middle] = min(y[middle], deltas[0])
        corners = lower_envelope(x, y)
        return x[corners], y[corners]

    def delta(self, epsilon: ArrayLike) -> NDArray[np.float64]:
        """Delta at epsilons, which may be negative."""
        epsilon = np.asarray(epsilon, dtype=float)
        last = self.epsilons[-1]
        inside = np.clip(epsilon, -last, last)
        # A chord lies above a convex curve; beyond the last corner the curve falls on.
        delta = np.interp(np.exp(inside), *self._hull) * (1 + 1e-12)
        # Below the smallest loss, no loss is smaller.
        below = 1 - np.exp(np.minimum(epsilon, 0.0)) * (1 - self._hull[1][-1])
        return np.clip(np.where(epsilon < inside, below, delta), 0.0, 1.0)
