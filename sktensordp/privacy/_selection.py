"""What the best of a secret number of releases reveals: the curve of a private choice.

Of one release, delta(e) is known. The best of them has ``mean * delta(e - shift)`` at e
(Koskela, Redberg and Wang 2024, Theorem 5, is this for their laws), and what follows
from the convexity of every curve in exp(e), and from its holding for both orders.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from dp_accounting import DpEvent

from ._events import SelectionDpEvent
from ._ledger import read

__all__ = ["pure_selection", "selection_curve", "selection_residual"]

_KNOTS = 600
# Losses beyond are taken to be infinite.
_LARGEST_LOSS = 650.0


@lru_cache(maxsize=64)
def selection_curve(event: SelectionDpEvent) -> "SelectionCurve":
    """The curve of a private choice, its shift computed once."""
    return SelectionCurve(event)


def pure_selection(event: SelectionDpEvent) -> float:
    """Pure epsilon of a private choice; infinity where there is none."""
    from ._accounting import event_epsilon

    return event_epsilon(event.event, 0.0) + selection_curve(event).shift


def selection_residual(event: DpEvent, count: int) -> tuple[float, float]:
    """What so many private choices are away from those of ideal laws.

    The sampler of one try and its ideal law are neighbours of a kind, whose curve is
    the residual delta at the residual epsilon: the choice keeps them as close as it
    keeps those of data. Nothing for other events.
    """
    if not isinstance(event, SelectionDpEvent):
        return 0.0, 0.0
    found = [(one.residual_epsilon, one.residual_delta) for one in read(event.event)]
    e1, d1 = (max(values) for values in zip(*found, strict=True))
    law = event.law
    if law.eta is None:
        shift = law.rate * (math.expm1(min(e1, 700.0)) + d1)
    else:
        lost = law.rate / (1 - law.rate) * d1
        shift = (1 + law.eta) * (e1 + math.log1p(lost * math.exp(-e1)))
    return count * (e1 + shift), count * law.mean * d1


@dataclass(frozen=True)
class SelectionCurve:
    """Deltas of a private choice at all epsilons.

    Parameters
    ----------
    event : SelectionDpEvent
    """

    event: SelectionDpEvent

    @cached_property
    def reach(self):
        """Where the delta of one release is next to nothing; infinity if nowhere."""
        from ._accounting import event_epsilon

        pure = event_epsilon(self.event.event, 0.0)
        if math.isfinite(pure):
            return pure
        for exponent in range(-17, 0):
            found = event_epsilon(self.event.event, 10.0**exponent)
            if math.isfinite(found):
                return found
        return math.inf

    @property
    def protects(self):
        """Whether any finite epsilon holds with a delta below 1."""
        return math.isfinite(self.reach)

    @cached_property
    def shift(self):
        """By how much a loss grows for the choice."""
        return self.event.law.shift(self._of_one, self.reach)

    def _of_one(self, epsilon):
        from ._accounting import event_delta

        return event_delta(self.event.event, epsilon)

    @property
    def losses(self):
        """Smallest and largest loss that is not taken to be infinite."""
        most = min(self.shift + self.reach, _LARGEST_LOSS)
        return -most, most

    @cached_property
    def _hull(self):
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

    def _directly(self, epsilon):
        if epsilon < self.shift:
            return 1.0
        return min(1.0, self.event.law.mean * self._of_one(epsilon - self.shift))

    def delta(self, epsilon):
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
