"""Public scales of values, and which of them holds the values of a fit.

A scale is a range, and perhaps the step of its levels. The family of scales is fixed:
those of ratings and counts, and ranges with round ends. The score of a scale is minus
the number of values that it does not hold, minus a public price of its width and of its
number of levels for every value. Scores are whole numbers, in thousandths of a value.

**Sensitivity.** Take two data sets that differ in one value; their number n is equal.
Each value is counted by itself, so the number that a scale does not hold changes by at
most 1, and every score by at most `PER_VALUE`, up or down. Prices are the same. So
the changes of all scores lie in an interval of length `SPREAD`. The score of "no usual
scale" follows from n alone.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._random import BLOCK
from ._domain import Domain
from ._entries import Entries

PER_VALUE = 1000
"""What one value counts in a score."""
SPREAD = 2 * PER_VALUE
"""Length of an interval that holds the changes of all scores."""

# What twice the width, and twice as many levels, cost for every value: a scale that is
# twice as wide has to hold a hundredth more of the values. See doc/constants.md.
_PRICE_OF_WIDTH, _PRICE_OF_LEVELS = 10, 20
# Scales with more levels, and ranges, cost as much as this number of levels.
_MOST_LEVELS = 256
# The score of no scale for every value: three quarters of the values are off a scale.
_PRICE_OF_NONE = 750

# Steps of levels. A range has none, which is the first.
_STEPS = (0.0, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0)
# How far a value may be from a level, in steps, and from an end, relative to it.
_OFF_STEP, _OFF_END = 1e-3, 1e-6
# Scales that people use, with the logarithms of their priors: (low, high, step, prior).
_USUAL = (
    (1, 5, 1, 5),
    (0.5, 5, 0.5, 4), (1, 10, 1, 4), (0, 1, 1, 4),
    (0, 5, 1, 3), (0, 10, 1, 3), (0, 100, 1, 3), (1, 100, 1, 3), (1, 7, 1, 3),
    (-1, 1, 1, 3), (0, 1, 0, 3),
    (1, 2, 1, 2), (0, 10, 0, 2), (0, 100, 0, 2), (-10, 10, 0, 2),
    (-1, 5, 1, 1), (-1, 10, 1, 1),
)  # fmt: skip
_COUNTS = (*range(1, 13), 15, 20, 25, 30, 40, 50, 60, 100, 200)


class _Family(NamedTuple):
    """All scales, one in each row, and what scores need of them.

    Attributes
    ----------
    scales : ndarray of shape (n_scales, 3)
        Lower end, upper end and step; the step of a range is 0.
    prices, log_priors : ndarray of shape (n_scales,), int64
    edges : ndarray of shape (2 * n_ends,)
        Where a value begins to count as one at an end, and where it does no longer,
        end by end. They divide the line into cells: the even ones lie between ends.
    first, last, step : ndarray of shape (n_scales,), int
        First and last cell of each scale, and the number of its step.
    """

    scales: NDArray[np.float64]
    prices: NDArray[np.int64]
    log_priors: NDArray[np.int64]
    edges: NDArray[np.float64]
    first: NDArray[np.intp]
    last: NDArray[np.intp]
    step: NDArray[np.intp]


def family() -> _Family:
    """The public family of scales."""
    return _priced(_PRICE_OF_WIDTH, _PRICE_OF_LEVELS)


@cache
def _priced(of_width: int, of_levels: int) -> _Family:
    """The family, if twice the width and twice as many levels have these prices."""
    found: dict[tuple[float, float, float], int] = {}
    for low, high, step, log_prior in _members():
        # A scale that occurs twice has the prior of the first.
        found.setdefault((round(low, 9), round(high, 9), step), log_prior)
    scales = np.array(list(found), dtype=float)
    low, high, step = scales.T
    steps = np.where(step > 0, step, np.inf)
    levels = np.where(step > 0, np.rint((high - low) / steps) + 1, _MOST_LEVELS)
    levels = np.minimum(levels, _MOST_LEVELS)
    costs = of_width * np.log2(high - low) + of_levels * np.log2(levels)
    ends = np.unique(scales[:, :2])
    margins = _OFF_END * np.maximum(np.abs(ends), 1e-3)
    return _Family(
        scales,
        np.rint(costs - costs.min()).astype(np.int64),
        np.array(list(found.values()), dtype=np.int64),
        np.stack([ends - margins, ends + margins], axis=1).ravel(),
        2 * np.searchsorted(ends, low) + 1,
        2 * np.searchsorted(ends, high) + 1,
        np.searchsorted(_STEPS, step),
    )


def _members() -> Iterator[tuple[float, float, float, int]]:
    """Scales with the logarithms of their priors, the usual ones first."""
    yield from _USUAL
    for high in _COUNTS:
        yield from ((low, high, 1.0, 1) for low in (0, 1) if low < high)
    yield from ((-end, end, 1.0, 1) for end in (1, 2, 3, 4, 5, 10, 100))
    for step in (0.1, 0.25, 0.5):
        for high in range(1, 11):
            yield from ((low, high, step, 0) for low in (0, step, 1) if low < high)
        yield from ((-end, end, step, 0) for end in (1, 2, 5))
    for step in (5.0, 10.0):
        yield from ((low, 100, step, 0) for low in (0, step))
    rounds = [digit * 10.0**power for power in range(-3, 7) for digit in (1, 2, 5)]
    for place, width in enumerate(rounds):
        yield 0, width, 0.0, 0
        yield -width, width, 0.0, -3
        yield -width, 0, 0.0, -1
        yield from ((low, width, 0.0, -1) for low in rounds[max(place - 5, 0) : place])
        if 1e-2 <= width <= 1e5:
            # Ranges far from 0, such as years.
            for half in range(-100, 101):
                yield half * width / 2, (half / 2 + 1) * width, 0.0, -4


def cells_of(entries: Entries) -> NDArray[np.int64]:
    """Count the values of entries in each cell, by the steps on which they lie.

    Each value is counted by itself, so counts of chunks add up. NaN and infinite values
    are in no cell of any scale.

    Returns
    -------
    counts : ndarray of shape (n_steps, n_cells), int64
    """
    edges = family().edges
    counts = np.zeros((len(_STEPS), len(edges) + 1), dtype=np.int64)
    for start in range(0, len(entries.values), BLOCK):
        values = entries.values[start : start + BLOCK].astype(float)
        cells = np.searchsorted(edges, values, side="right")
        for own, step in zip(counts, _STEPS, strict=True):
            own += np.bincount(cells[_is_on(step, values)], minlength=counts.shape[1])
    return counts


def _is_on(step: float, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values are multiples of a step; all are of 0."""
    if not step:
        return np.ones(len(values), dtype=bool)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = values / step
        return np.abs(steps - np.rint(steps)) <= _OFF_STEP


def scale_scores(counts: NDArray[np.int64], n_values: int) -> list[int]:
    """Scores of all scales, and last that of "no usual scale".

    Parameters
    ----------
    counts : ndarray of shape (n_steps, n_cells), int64
        See `cells_of`.
    n_values : int
        Number of all values; public.
    """
    known = family()
    up_to = np.cumsum(np.insert(counts, 0, 0, axis=1), axis=1)
    held = up_to[known.step, known.last + 1] - up_to[known.step, known.first]
    scores = PER_VALUE * (held - n_values) - known.prices * n_values
    return [*scores.tolist(), -_PRICE_OF_NONE * n_values]


def log_priors() -> list[int]:
    """Logarithms of the priors of all scales, and of "no usual scale"."""
    return [*family().log_priors.tolist(), 0]


def domain_of_scale(index: int) -> Domain | None:
    """The range and the levels of a scale; None for "no usual scale"."""
    scales = family().scales
    if index == len(scales):
        return None
    low, high, step = scales[index].tolist()
    if not step:
        return Domain((low, high))
    n_steps = round((high - low) / step)
    levels = (round(low + step * number, 9) for number in range(n_steps + 1))
    return Domain((low, high), tuple(levels))
