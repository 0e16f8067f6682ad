"""The curve of a group of units, from the curve of one unit.

Let F(a) be the largest power of a test of level a that tells neighbours apart: 1 minus
the trade-off function. Inputs that differ in k units are joined by k steps from
neighbour to neighbour. A test of level a at the first input is a test of level F(a), at
most, at the second one, and so on. So its power at the last input is at most
F(F(...F(a))), with k steps (Dong, Roth and Su 2022, group privacy).

If one unit has delta(e) at epsilon e, then F(a) <= e^e a + delta(e), for every e. With
e_1, ..., e_k for the k steps, the group has, at epsilon e_1 + ... + e_k, a delta of

    sum_j exp(e_(j+1) + ... + e_k) delta(e_j).

Every choice of the e_j gives a bound. They are chosen by following a level through the
steps: e_j belongs to the line that bounds F best at the level that step j begins with.
The best of these bounds is the curve of F(F(...F(a))) itself, because F is the least of
its lines. Some e_j are negative: for e > 0, exchanging the neighbours gives
delta(-e) = 1 - e^-e (1 - delta(e)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._bisection import first_where
from ._convex import lower_envelope

# Losses beyond this count as infinite.
_LARGEST_LOSS = 650.0
_LEAST_DELTA = 1e-17
_N_LINES, _MOST_LEVELS = 300, 4000
# Larger groups count as unprotected, if all that is known is the curve of one unit.
_LARGEST_SIZE = 10_000


@dataclass(frozen=True)
class GroupCurve:
    """Deltas of a release at all epsilons, for inputs that differ in several units.

    Parameters
    ----------
    delta_of_one : callable
        Delta at an epsilon >= 0 for one unit, in the worse order of the neighbours.
    size : int
        Number of units, at least 1.
    """

    delta_of_one: Callable[[float], float]
    size: int

    @cached_property
    def _reach(self) -> float:
        """Epsilon beyond which the delta of one unit hardly falls."""
        least = self.delta_of_one(_LARGEST_LOSS)
        target = max(least * (1 + 1e-9), _LEAST_DELTA)
        low, high = 0.0, 2.0**-30
        while high < _LARGEST_LOSS and self.delta_of_one(high) > target:
            low, high = high, 2 * high
        high = min(high, _LARGEST_LOSS)
        return first_where(
            lambda e: self.delta_of_one(e) <= target, low, high, relative=1e-12
        )

    @property
    def protects(self) -> bool:
        """Whether any finite epsilon holds with a delta below 1."""
        if self.size > _LARGEST_SIZE or self.delta_of_one(_LARGEST_LOSS) >= 1:
            return False
        return self.delta(self.losses[1]) < 1

    @property
    def losses(self) -> tuple[float, float]:
        """Smallest and largest loss that does not count as infinite."""
        largest = min(self.size * self._reach, _LARGEST_LOSS)
        return -largest, largest

    @cached_property
    def _lines(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Epsilon and delta of the lines that bound F, by increasing epsilon."""
        positive = np.linspace(0.0, self._reach, _N_LINES)
        deltas = np.array([self.delta_of_one(e) for e in positive])
        factors = np.exp(-positive[:0:-1])
        exchanged = factors * deltas[:0:-1] - np.expm1(-positive[:0:-1])
        epsilons = np.concatenate([-positive[:0:-1], positive])
        deltas = np.concatenate([exchanged, deltas])
        corners = lower_envelope(np.exp(epsilons), deltas)
        # If the slopes of several lines are the same float, keep the upper line.
        _, first = np.unique(np.exp(epsilons[corners]), return_index=True)
        return epsilons[corners][first], deltas[corners][first]

    def _levels(self) -> NDArray[np.float64]:
        """Levels that begin with every line, at one of the steps."""
        epsilons, deltas = self._lines
        factors = np.exp(epsilons)
        changes = _levels_of_change(factors, deltas)
        ends = np.concatenate([[0.0], changes, [1.0]])
        powers = factors[:0:-1] * changes + deltas[:0:-1]
        level = np.unique((ends[1:] + ends[:-1]) / 2)
        levels = [np.zeros(1), level]
        for _ in range(self.size - 1):
            line = len(factors) - 1 - np.searchsorted(powers, level)
            with np.errstate(over="ignore"):
                level = (level - deltas[line]) / factors[line]
            level = np.unique(np.maximum(level, 0.0))
            levels.append(level)
        every = np.unique(np.concatenate(levels))
        chosen = np.linspace(0, len(every) - 1, min(_MOST_LEVELS, len(every)))
        return every[chosen.astype(int)]

    @cached_property
    def _hull(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Corners of the bound of the group: exp(epsilon), and delta."""
        epsilons, deltas = self._lines
        factors = np.exp(epsilons)
        changes = _levels_of_change(factors, deltas)
        level = self._levels()
        epsilon, delta = np.zeros_like(level), np.zeros_like(level)
        for _ in range(self.size):
            line = len(factors) - 1 - np.searchsorted(changes, level)
            level = np.minimum(factors[line] * level + deltas[line], 1.0)
            with np.errstate(over="ignore"):
                delta = factors[line] * delta + deltas[line]
            epsilon += epsilons[line]
        inside = (epsilon <= _LARGEST_LOSS) & (delta < 1)
        # Further to the right, no delta is larger.
        epsilon = epsilon[inside] + 1e-14 * (self.size + np.abs(epsilon[inside]))
        x = np.concatenate([[0.0], np.exp(epsilon)])
        y = np.concatenate([[1.0], delta[inside] * (1 + 1e-12)])
        order = np.lexsort((y, x))
        x, y = x[order], np.minimum.accumulate(y[order])
        corners = lower_envelope(x, y)
        return x[corners], y[corners]

    def delta(self, epsilon: ArrayLike) -> Any:
        """Delta at an epsilon, which may be negative, or at an array of them."""
        epsilon = np.asarray(epsilon, dtype=float)
        # A chord lies above a convex curve; beyond the last corner the curve falls on.
        x = np.exp(np.minimum(epsilon, _LARGEST_LOSS + 1))
        delta = np.interp(x, *self._hull) * (1 + 1e-12)
        return np.clip(delta, 0.0, 1.0)


def _levels_of_change(
    factors: NDArray[np.float64], deltas: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Increasing levels at which the least line changes, from the steepest line on."""
    changes = (-np.diff(deltas) / np.diff(factors))[::-1]
    return np.clip(np.maximum.accumulate(changes), 0.0, 1.0)
