"""Normal equations of the rows of a mode: expected sums over their entries.

The rows of one mode, given those of all others, are regressions of the values on the
products of the other rows. These are known up to their covariances, so second moments
stand in for squares. Which pairs of columns are summed, and where their covariances
are, depends only on which columns are fixed. It is planned once for all sweeps.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ._algebra import upper_triangle
from ._observations import Fibers, Observations

# Largest number of columns that are summed at a time: by compiled loops, which gather a
# row once for all of them; for fibers, where the rows of one table are summed; of few
# entries of a tensor; and of a matrix by SciPy, where more would not fit into the
# caches (three times slower at 1,400).
_MOST_COMPILED, _MOST_FOR_FIBERS, _MOST_GATHERED, _MOST_COLUMNS = 512, 128, 256, 64
# Number of rows whose moments are computed at a time, so that the factors of products
# stay in the caches.
_ROWS = 512
_NO_COLUMNS = np.empty(0, dtype=np.intp)


class GaussianRows(Protocol):
    """Rows of all modes with their means and covariances, as `Rows` has them."""

    @property
    def fixed(self) -> NDArray[np.bool_]:
        """Columns that are known exactly, of shape (n_modes, n_columns)."""

    @property
    def means(self) -> tuple[NDArray[np.floating], ...]:
        """Means by mode, of shape (n_rows, n_columns)."""

    @property
    def covariances(self) -> tuple[NDArray[np.floating], ...]:
        """Packed covariances of the free columns by mode, of shape (n_rows, P)."""

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """Weights of the rows of the first mode; None if all are one."""


class Sums(NamedTuple):
    """Expected sums over the entries of some rows of a mode.

    Let y be the value of an entry and b its regressors. The columns of b are those that
    are free in this mode, and then the fixed ones.

    Attributes
    ----------
    gram : ndarray of shape (n_rows, n_needed, n_columns)
        Sum of b b^T; only the upper triangle is written. It has the first rows only:
        those of free columns, or all rows in the first mode.
    projection : ndarray of shape (n_rows, n_columns)
        Sum of y b; only the first `n_needed` columns are written.
    """

    gram: NDArray[np.float64]
    projection: NDArray[np.float64]


class Pairs(NamedTuple):
    """Pairs of columns of a mode's rows, and where their covariances are.

    Attributes
    ----------
    one, other : ndarray of shape (n_pairs,), int
        Numbers of the columns.
    both : ndarray of int
        The pairs whose columns are both free, so that they have a covariance.
    at : ndarray of the same shape, int
        Where it is in an upper triangle, row by row.
    products : list of (slice, int, slice or ndarray of int)
        Consecutive pairs with the same first column: which ones, this column, and the
        second columns.
    covariances : list of (slice, slice)
        Consecutive pairs whose covariances are next to each other: which ones, and
        where these are.
    """

    one: NDArray[np.integer]
    other: NDArray[np.integer]
    both: NDArray[np.integer]
    at: NDArray[np.integer]
    products: list[tuple[slice, int, slice | NDArray[np.integer]]]
    covariances: list[tuple[slice, slice]]

    @classmethod
    def from_columns(
        cls,
        fixed: NDArray[np.bool_],
        one: NDArray[np.integer],
        other: NDArray[np.integer],
    ) -> "Pairs":
        """Pairs of columns; one beyond the last counts as fixed.

        Parameters
        ----------
        fixed : ndarray of shape (n_columns,), bool
            The columns of the mode that are fixed.
        one, other : ndarray of shape (n_pairs,), int
        """
        fixed = np.append(fixed, True)
        both = np.flatnonzero(~(fixed[one] | fixed[other]))
        number = np.cumsum(~fixed) - 1
        a, b = number[one[both]], number[other[both]]
        a, b, n = np.minimum(a, b), np.maximum(a, b), np.sum(~fixed)
        at = a * n - a * (a - 1) // 2 + b - a
        products = [
            (run, int(one[run.start]), as_slice(other[run])) for run in runs(one)
        ]
        breaks = np.cumsum((np.diff(both) != 1) | (np.diff(at) != 1))
        covariances = [
            (as_slice(both[run]), as_slice(at[run]))
            for run in runs(np.append(0, breaks)[: len(both)])
        ]
        return cls(one, other, both, at, products, covariances)


class ColumnPlan(NamedTuple):
    """The columns of the normal equations of a mode.

    Attributes
    ----------
    order : ndarray of shape (n_columns,), int
        The free columns of the mode, and then the fixed ones.
    n_needed : int
        Number of rows of a Gram matrix; see `Sums`.
    takes_squares : bool
        Whether Gram matrices begin as products of matrices of means.
    one, other : ndarray of shape (n_pairs,), int
        The pairs, by their places in `order`, whose second moments are summed.
    blocks : list of slice
        The pairs that are summed at a time. The first block also has the projections,
        unless they come with the squares.
    pairs : list by block of list by mode of Pairs
        Those of `mode` itself are not used.
    among_all : list by block of ndarray of int
        Where the pairs and, after them, means of columns are among all; see
        `_sums_of_fibers`.
    """

    order: NDArray[np.integer]
    n_needed: int
    takes_squares: bool
    one: NDArray[np.integer]
    other: NDArray[np.integer]
    blocks: list[slice]
    pairs: list[list[Pairs]]
    among_all: list[NDArray[np.integer]]

    def n_means(self, block: int) -> int:
        """The number of columns whose projections are summed with a block."""
        return 0 if block or self.takes_squares else self.n_needed


def column_plan(fixed: NDArray[np.bool_], mode: int, compiled: bool) -> ColumnPlan:
    """The columns of the normal equations of a mode.

    If none of the other modes has a covariance for a pair of columns, the second moment
    of the regressors is that of their means. If this holds for most pairs, the Gram
    matrices of means are products of matrices, and moments are summed only for the
    other pairs.

    Parameters
    ----------
    fixed : ndarray of shape (n_modes, n_columns), bool
    mode : int
    compiled : bool
        Whether compiled loops add the columns up.
    """
    return _column_plan(fixed.tobytes(), fixed.shape, mode, compiled)


@lru_cache(maxsize=64)
def _column_plan(
    packed_fixed: bytes, shape: tuple[int, int], mode: int, compiled: bool
) -> ColumnPlan:
    fixed = np.frombuffer(packed_fixed, dtype=bool).reshape(shape)
    others = [m for m in range(len(fixed)) if m != mode]
    free = np.flatnonzero(~fixed[mode])
    order = np.concatenate([free, np.flatnonzero(fixed[mode])])
    n_columns = len(order)
    n_needed = n_columns if mode == 0 else len(free)
    one, other = np.triu_indices(n_needed, m=n_columns)
    varies = np.zeros(len(one), dtype=bool)
    for m in others:
        varies |= ~(fixed[m, order[one]] | fixed[m, order[other]])
    # Both sides count columns of sums. Matrix products are 8 times as fast as sums in
    # SciPy, and 3 times as fast as compiled ones.
    ratio = 3 if compiled and len(fixed) > 2 else 8
    of_squares = n_columns * (n_columns + 24) / ratio
    takes_squares = bool(np.count_nonzero(varies) + of_squares < len(one))
    if takes_squares:
        one, other = one[varies], other[varies]
    width = _MOST_COLUMNS if len(fixed) == 2 else _MOST_GATHERED
    width = _MOST_COMPILED if compiled else width
    begins = range(0, max(len(one), 0 if takes_squares else 1), width)
    blocks = [slice(begin, begin + width) for begin in begins]
    a, b = order[one], order[other]
    pairs = [
        [Pairs.from_columns(known, a[block], b[block]) for known in fixed]
        for block in blocks
    ]
    nothing_known, n_pairs = (
        np.zeros(n_columns, dtype=bool),
        math.comb(n_columns + 1, 2),
    )
    among_all = [
        np.append(
            Pairs.from_columns(nothing_known, a[block], b[block]).at,
            n_pairs + order[: n_needed * (block.start == 0)],
        )
        for block in blocks
    ]
    plan = order, n_needed, takes_squares, one, other, blocks, pairs, among_all
    return ColumnPlan(*plan)


def sums(
    rows: GaussianRows, entries: Observations, mode: int, some: slice | None = None
) -> Sums:
    """Expected sums over the entries of some rows of a mode; by default, of all.

    Each entry counts with the weight of its row of the first mode.
    """
    if some is None:
        some = slice(0, len(rows.means[mode]))
    return summing(rows, entries, mode)(some)


def summing(
    rows: GaussianRows, entries: Observations, mode: int, n_threads: int = 1
) -> Callable[[slice], Sums]:
    """A function that returns the sums over the entries of some rows; see `sums`.

    The moments of the other modes' rows are the same for all rows of this mode. They
    are computed once for all, unless there are many columns.
    """
    plan = column_plan(rows.fixed, mode, entries.is_compiled)
    n_columns, weights = len(plan.order), rows.weights if mode else None
    # Tables for all blocks at once could take much more memory.
    kept = None
    if len(plan.blocks) == 1:
        kept = _adding(rows, entries, mode, plan, 0, n_threads)

    def of_some(some: slice) -> Sums:
        if plan.takes_squares:
            others = [own for m, own in enumerate(rows.means) if m != mode]
            means = [own[:, plan.order].astype(float) for own in others]
            squares = entries.squares(mode, some, means, weights)
            gram, projection = squares[:, : plan.n_needed, :-1], squares[:, :-1, -1]
        else:
            n = some.stop - some.start
            gram = np.zeros((n, plan.n_needed, n_columns))
            projection = np.zeros((n, n_columns))
        for number, block in enumerate(plan.blocks):
            add = kept or _adding(rows, entries, mode, plan, number, n_threads)
            found, one, other = add(some), plan.one[block], plan.other[block]
            for run in runs(one):
                gram[:, one[run.start], as_slice(other[run])] = found[:, run]
            if found.shape[1] > len(one):
                projection[:, : plan.n_needed] = found[:, len(one) :]
        if mode == 0 and rows.weights is not None:
            own = rows.weights[some, np.newaxis]
            gram, projection = gram * own[..., np.newaxis], projection * own
        return Sums(gram, projection)

    return of_some


def _adding(
    rows: GaussianRows,
    entries: Observations,
    mode: int,
    plan: ColumnPlan,
    block: int,
    n_threads: int,
) -> Callable[[slice], NDArray[np.float64]]:
    """A function that sums a block of columns of the plan over entries of some rows."""
    others = [m for m in range(len(rows.means)) if m != mode]
    n_means = plan.n_means(block)
    kept = plan.order[:n_means]

    def table_of(other: int) -> NDArray[np.float64]:
        pairs, compiled = plan.pairs[block][other], entries.is_compiled
        return _table(rows, other, pairs, kept, weighted=mode > 0, compiled=compiled)

    n_columns = len(plan.order)
    fibers = entries.fibers_for(math.comb(n_columns + 1, 2) + n_columns)
    if fibers is None or plan.takes_squares:
        return entries.product_sums(mode, [table_of(m) for m in others], n_means)
    if mode == fibers.mode:
        return fibers.product_sums([table_of(m) for m in others], n_means, n_threads)
    of_fibers = _sums_of_fibers(rows, fibers, n_threads)
    tables = [
        of_fibers[:, plan.among_all[block]] if m == fibers.mode else table_of(m)
        for m in others
    ]
    return fibers.entries.product_sums(mode, tables)


def _sums_of_fibers(
    rows: GaussianRows, fibers: Fibers, n_threads: int
) -> NDArray[np.float64]:
    """Sums over every fiber of the moments of its entries' rows.

    The columns are all pairs of columns and, multiplied by the values, all means. So
    the updates of several modes can share them.
    """
    mode, columns = fibers.mode, np.arange(rows.fixed.shape[1])

    def added() -> NDArray[np.float64]:
        n_pairs = math.comb(len(columns) + 1, 2)
        found = np.empty((fibers.entries.n_entries, n_pairs + len(columns)))
        # In blocks of columns, whose table takes less memory.
        for begin, pairs in _all_pairs(rows.fixed[mode].tobytes()):
            end = begin + _MOST_FOR_FIBERS
            kept = columns if end >= n_pairs else _NO_COLUMNS
            table = _table(rows, mode, pairs, kept, weighted=True, compiled=True)
            to = slice(begin, begin + table.shape[1])
            found[:, to] = fibers.sums(table, len(kept), n_threads)
        return found

    weights = rows.weights if mode == 0 else None
    read = rows.means[mode], rows.covariances[mode], weights, rows.fixed
    return fibers.latest.of(read, added)


@lru_cache(maxsize=8)
def _all_pairs(packed_fixed: bytes) -> list[tuple[int, Pairs]]:
    """All pairs of columns in blocks, and where these begin."""
    fixed = np.frombuffer(packed_fixed, dtype=bool)
    one, other = upper_triangle(len(fixed))
    blocks = [
        slice(begin, begin + _MOST_FOR_FIBERS)
        for begin in range(0, max(len(one), 1), _MOST_FOR_FIBERS)
    ]
    return [
        (some.start, Pairs.from_columns(fixed, one[some], other[some]))
        for some in blocks
    ]


def _table(
    rows: GaussianRows,
    mode: int,
    pairs: Pairs,
    kept: NDArray[np.integer],
    *,
    weighted: bool,
    compiled: bool,
) -> NDArray[np.float64]:
    """The moments of a mode's rows and, after them, the means of some columns."""
    means = rows.means[mode].astype(float, copy=False)
    covariances = rows.covariances[mode]
    table = second_moments(means, covariances, pairs, kept, compiled=compiled)
    if weighted and mode == 0 and rows.weights is not None:
        table *= rows.weights[:, np.newaxis]
    return table


def second_moments(
    means: NDArray[np.float64],
    covariances: NDArray[np.floating],
    pairs: Pairs,
    kept: NDArray[np.integer] = _NO_COLUMNS,
    *,
    compiled: bool = False,
) -> NDArray[np.float64]:
    """Second moments of pairs of columns of rows and, after them, means.

    Parameters
    ----------
    means : ndarray of shape (n_rows, n_columns)
    covariances : ndarray of shape (n_rows, P)
    pairs : Pairs
    kept : ndarray of shape (n_kept,), int, default=none
        The columns whose means follow.
    compiled : bool, default=False
        Whether to use the compiled loop, which is several times as fast once loaded.

    Returns
    -------
    table : ndarray of shape (n_rows, n_pairs + n_kept), float64
    """
    n_pairs = len(pairs.one)
    table = np.empty((len(means), n_pairs + len(kept)))
    if compiled:
        from .kernels._rows import moments

        moments(means, covariances, *pairs[:4], kept, table)
        return table
    for begin in range(0, len(means), _ROWS):
        block = slice(begin, begin + _ROWS)
        own, some, of_some = table[block], means[block], covariances[block]
        for to, one, others in pairs.products:
            np.multiply(some[:, one, np.newaxis], some[:, others], out=own[:, to])
        for to, at in pairs.covariances:
            own[:, to] += of_some[:, at]
        own[:, n_pairs:] = some[:, kept]
    return table


def runs(numbers: NDArray[np.integer]) -> list[slice]:
    """Slices of equal numbers."""
    if not len(numbers):
        return []
    changes = np.flatnonzero(np.diff(numbers)) + 1
    return [slice(*pair) for pair in pairwise([0, *changes.tolist(), len(numbers)])]


def as_slice(numbers: NDArray[np.integer]) -> Any:
    """Ascending numbers as a slice, if they have no gaps."""
    first, last = int(numbers[0]), int(numbers[-1])
    return slice(first, last + 1) if last - first + 1 == len(numbers) else numbers
