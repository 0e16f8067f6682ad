"""Bisection for the largest epsilon at which a condition holds."""

import math
from collections.abc import Callable


def narrowed(
    low: float, high: float, holds: Callable[[float], bool], precision: float
) -> tuple[float, float]:
    """Bring `low`, where a condition holds, and `high`, where it does not, together.

    Parameters
    ----------
    low, high : float
        Positive; `high` is at least `low`.
    holds : callable
        Says whether the condition holds at an epsilon.
    precision : float
        Relative difference at which to stop.

    Returns
    -------
    low, high : float
    """
    while high > low * (1 + precision):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
