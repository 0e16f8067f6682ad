"""The norm bound of samples, found privately: about the median of their norms.

**Guarantee.** For data sets of equally many samples that differ in one of them,
`found_bound` is epsilon-DP. Adding or removing a sample changes what it returns as
little, if epsilon stays as it is; `search_epsilon` takes it from the number of samples,
which is public.

**Proof.** A sample falls into a bin of a public grid by its own cells alone. Let N be
the number of samples that are not 0, k the rank of their (lower) median, N / 2 rounded
up, and c_j the number of those in bins up to j. Bin j then holds the ranks from
c_{j-1} + 1 to c_j, and its score is minus the distance of k from them,

    -max(0, c_{j-1} + 1 - k, k - c_j).

So it is 0 in the bin that holds the median, also if all norms are equal, and negative
in all others. If one sample is added, c_j - k changes by 1 - d from its bin on and by
-d below, where k rises by d = 0 or 1. If one is replaced by another and neither is 0, k
stays, and c_j changes by 1 or -1 between their bins and nowhere else. A sample of zeros
changes nothing. In each of these cases, all scores change by -1, 0 or 1: an interval of
length 2. `select` in ``measure/_selection.py`` does the rest.

Where a person may have several samples, "sample" above stands for a person, whose norm
is that of one vector with the cells of all samples: the norm that ``_sums.py`` bounds.

**Norms.** A sample is divided by its largest cell and rounded to whole numbers, few
enough bits that the sum of their squares stays below 2^53. So it is exact, in any order
and in any chunk. What rounding changes is far below `_SLACK`, by which a sample may
exceed the end of its bin.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams
from ..measure import select

# The ends of the bins: steps of 19% from 1e-15 to 1e15.
_GRID = 2.0 ** (np.arange(-200, 201) / 4)
# A sample that is this much longer than the end of a bin is still in it, so that
# samples that were divided by their norms are all in one.
_SLACK = 1.01
# The search takes `_NEEDED` over the number of samples, but at most this share of
# epsilon. With fewer samples times epsilon than `_FEWEST`, it would often fail.
_NEEDED, _MOST, _FEWEST = 120.0, 0.1, 500.0
_CELLS_AT_ONCE = 2**20
# Squares of so many bits add up to less than 2^63, however many samples a person has.
_JOINT_BITS = 18
_LARGEST = float(np.finfo(float).max)


class Counted(Protocol):
    """Samples in any place; see `Samples`."""

    def counted(self) -> NDArray[np.int64]:
        """Numbers of samples by bins of their norms; see `bin_counts`."""


def search_epsilon(n_samples: int, epsilon: float, name: str) -> float:
    """Epsilon of the search for a norm bound.

    Parameters
    ----------
    n_samples : int
        Public.
    epsilon : float
        Of the fit; finite.
    name : str
        Of the estimator, for the message.

    Raises
    ------
    ValueError
        If the samples are too few to find it.
    """
    if n_samples * epsilon < _FEWEST:
        raise ValueError(
            f"norm_bound is not declared, and {n_samples} samples are too few to find "
            f"it at epsilon = {epsilon:g}: that takes {math.ceil(_FEWEST / epsilon)}. "
            f"Pass a typical norm of a sample, from public knowledge, such as "
            f"{name}(norm_bound=1.0)."
        )
    return min(_NEEDED / n_samples, most_of(epsilon))


def most_of(epsilon: float) -> float:
    """Largest epsilon of a search in any number of samples."""
    return _MOST * epsilon


def found_bound(
    samples: Counted, epsilon: float, streams: NoiseStreams | None
) -> float:
    """Release about the median norm of samples, with pure epsilon."""
    scores = scores_of(samples.counted()).tolist()
    return float(_GRID[select(scores, spread=2, epsilon=epsilon, streams=streams)])


def is_at_end(bound: float) -> bool:
    """Whether a bound is at an end of the grid, so that norms may be beyond it."""
    return bound in (_GRID[0], _GRID[-1])


def bin_counts(
    rows: NDArray[np.floating], sizes: NDArray[np.intp] | None = None
) -> NDArray[np.int64]:
    """Numbers of people by bins of their norms, without those who have only zeros.

    People who are shorter or longer than the grid count at its ends.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_cells)
    sizes : ndarray of shape (n_people,), default=None
        How many samples each person has, at least one; they follow each other. None if
        everybody has one. Several have the norm of one vector with the cells of all.
    """
    size = max(_CELLS_AT_ONCE // rows.shape[1], 1)
    blocks = range(0, len(rows), size)
    norms = np.concatenate(
        [np.empty(0), *(_norms(rows[start : start + size]) for start in blocks)]
    )
    if sizes is not None:
        norms = _joint_norms(norms, sizes)
    bins = np.searchsorted(_SLACK * _GRID[:-1], norms[norms > 0])
    return np.bincount(bins, minlength=len(_GRID))


def scores_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Scores of bins, from the numbers of samples in them."""
    ends = np.cumsum(counts)
    rank = (ends[-1] + 1) // 2
    distances = np.maximum(ends - counts + 1 - rank, rank - ends)
    return -np.maximum(distances, 0)


def _norms(rows: NDArray[np.floating]) -> NDArray[np.float64]:
    """Norms of samples, each the same whatever the others are."""
    cells = np.array(rows, dtype=float, order="C")
    bits = (53 - math.ceil(math.log2(cells.shape[1]))) // 2
    largest = np.abs(cells).max(axis=1)
    cells /= np.where(largest > 0, largest, 1.0)[:, np.newaxis]
    cells *= 2.0**bits
    np.rint(cells, out=cells)
    lengths = np.sqrt(np.einsum("ij,ij->i", cells, cells)) * 2.0**-bits
    with np.errstate(over="ignore"):
        return lengths * largest


def _joint_norms(
    norms: NDArray[np.float64], sizes: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Norms of people, from those of their samples; again with whole numbers."""
    starts = np.cumsum(sizes) - sizes
    largest = np.minimum(np.maximum.reduceat(norms, starts), _LARGEST)
    unit = np.where(largest > 0, largest, 1.0)
    shares = np.minimum(norms, _LARGEST) / np.repeat(unit, sizes)
    whole = np.rint(shares * 2.0**_JOINT_BITS).astype(np.int64)
    lengths = np.sqrt(np.add.reduceat(np.square(whole), starts)) * 2.0**-_JOINT_BITS
    with np.errstate(over="ignore"):
        return lengths * largest
