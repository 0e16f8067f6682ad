"""Observed entries of a tensor, as coordinates or as an array with a mask.

Both compute the sums over entries that a CP fit needs for every row of one mode, given
the other modes. With y_e the value of entry e, and b_e the product of its rows in the
other modes, these are sum_e E[b_e b_e^T] and sum_e y_e E[b_e]. `SparseEntries` gathers
rows entry by entry in a compiled kernel. `DenseEntries` contracts its mask and its
values with the moments of the other modes: one large matrix product, then small sums.

Symmetric matrices of size Q are packed as upper triangles, row by row, into vectors of
length P = Q (Q + 1) / 2.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ._algebra import diagonal, packed_squares
from ._likelihood import TableLikelihood

# Offset and scale.
_Units: TypeAlias = tuple[float, float]
# Largest number of rows whose sums are in memory at a time.
_BLOCK = 512
# Cost of solving a row, as a number of entries that take as long to sum.
_SOLVE_COST = 40
# Least work, as a number of entries, that is shared among threads.
_LEAST_WORK = 2000


class GroupedEntries(Protocol):
    """What a fit needs of entries, wherever they are stored."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.floating]
    n_entries: int
    energy: float

    @property
    def row_energies(self) -> NDArray[np.float64]: ...
    @property
    def row_counts(self) -> NDArray[np.integer]: ...
    def observed(self, mode: int) -> NDArray[np.bool_]: ...
    def ranges(self, mode: int, n_threads: int) -> NDArray[np.integer]: ...
    def as_array(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]: ...
    def fit_class(self, local: type) -> Any: ...


class _LocalEntries:
    """Mixin of entries in the memory of this process.

    Attributes
    ----------
    offset, scale : float
        The values are those of the tensor less `offset`, divided by `scale`.
    """

    offset, scale = 0.0, 1.0
    energy: float
    # Modes by whose rows the values are stored.
    stored_modes: range

    def fit_class(self, local: type) -> Any:
        """The class that fits to these entries: the local class itself."""
        return local

    def rescale(self, offset: float, scale: float, move: float = 0.0) -> None:
        """Change offset and scale, and the values in place; they stay grouped.

        Parameters
        ----------
        offset, scale : float
        move : float, default=0.0
            Added to each value of the tensor first, with its sign.
        """
        units = (self.offset, self.scale), (offset, scale)
        self.energy = self._rescale(*units, move)
        self.offset, self.scale = offset, scale
        vars(self).pop("row_energies", None)

    def _rescale(self, before: _Units, after: _Units, move: float) -> float:
        """Change the values in place, and return their sum of squares."""
        raise NotImplementedError


class SparseEntries(_LocalEntries):
    """Entries as coordinates, grouped by row once for every mode.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int32
        Column-major (Fortran) order is fastest.
    values : ndarray of shape (n,), float32 or float64
    shape : tuple of int
    signs : ndarray of shape (n,), int8, default=None
        Signs with which `rescale` moves the values, 1 or -1.
    outputs : ndarray of shape (n,), uint8, default=None
        Numbers of the outputs of the table that randomised the values, which `observe`
        reads.
    """

    def __init__(
        self,
        coordinates: NDArray[np.integer],
        values: NDArray[np.floating],
        shape: Sequence[int],
        signs: NDArray[np.int8] | None = None,
        outputs: NDArray[np.uint8] | None = None,
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = values.dtype
        self.n_entries = len(values)
        self.energy = _sum_of_squares(values)
        n_modes = len(shape)
        offsets = np.concatenate([[0], np.cumsum(shape)[:-1]]).astype(np.int32)
        self.groups: list[Any] = [None] * n_modes
        self._positive: list[Any] = [None] * n_modes
        self._outputs: list[Any] = [None] * n_modes
        self.stored_modes = range(n_modes)
        for mode, starts, order in group_by_mode(coordinates, shape):
            others = np.empty((len(values), n_modes - 1), dtype=np.int32)
            for column, other in enumerate(np.delete(np.arange(n_modes), mode)):
                others[:, column] = coordinates[:, other][order]
                others[:, column] += offsets[other]
            self.groups[mode] = starts, others, values[order]
            if signs is not None:
                self._positive[mode] = np.packbits(signs[order] > 0)
            if outputs is not None:
                self._outputs[mode] = outputs[order]

    def _rescale(self, before: _Units, after: _Units, move: float) -> float:
        for (*_, values), positive in zip(self.groups, self._positive, strict=True):
            _rescale(values, before, after, move, positive)
        return _sum_of_squares(values)

    def observe(
        self,
        mode: int,
        rows: slice,
        fitted: NDArray[np.floating],
        likelihood: TableLikelihood,
    ) -> NDArray[np.float64]:
        """Replace values by observations of their means; see `TableLikelihood`.

        Call it for all rows of all `stored_modes`, then `values_changed`.

        Parameters
        ----------
        mode : int
        rows : slice
            Rows of the mode whose entries are replaced.
        fitted : ndarray of shape (n,)
            Predictions of these entries.
        likelihood : TableLikelihood

        Returns
        -------
        counts : ndarray of shape (n_grid, n_outputs)
            Number of these entries by prediction and output.
        """
        starts, _, values = self.groups[mode]
        at = slice(starts[rows.start], starts[rows.stop])
        return likelihood.observe(fitted, self._outputs[mode][at], values[at])

    def values_changed(self) -> None:
        """Compute sums of squares anew, after `observe`."""
        self.energy = _sum_of_squares(self.groups[0][2])
        vars(self).pop("row_energies", None)

    def with_values_copied(self) -> "SparseEntries":
        """A copy that shares all but the values, which may be changed in place."""
        copied = copy.copy(self)
        copied.groups = [(*group[:2], group[2].copy()) for group in self.groups]
        return copied

    def coordinates(self, mode: int, rows: slice) -> NDArray[np.int64]:
        """Coordinates of the entries of some rows of a mode, in the order of rows."""
        starts, others, _ = self.groups[mode]
        at = slice(starts[rows.start], starts[rows.stop])
        first = np.delete(np.cumsum([0, *self.shape[:-1]]), mode)
        where = np.empty((at.stop - at.start, len(self.shape)), dtype=np.int64)
        where[:, mode] = np.repeat(
            np.arange(rows.start, rows.stop),
            np.diff(starts[rows.start : rows.stop + 1]),
        )
        where[:, np.arange(len(self.shape)) != mode] = others[at] - first
        return where

    def __sizeof__(self) -> int:
        """Bytes of the arrays, from which Dask expects how long a copy takes."""
        arrays = [array for group in self.groups for array in group]
        return sum(a.nbytes for a in (*arrays, *self._outputs) if a is not None)

    def observed(self, mode: int) -> NDArray[np.bool_]:
        """Mask of the rows of a mode that have entries: shape (size of the mode,)."""
        return np.diff(self.groups[mode][0]) > 0

    @cached_property
    def row_counts(self) -> NDArray[np.integer]:
        """Number of entries of every row of the first mode."""
        return np.diff(self.groups[0][0])

    @cached_property
    def row_energies(self) -> NDArray[np.float64]:
        """Sum of the squared values of every row of the first mode."""
        starts, _, values = self.groups[0]
        energies = []
        for first, last in pairwise(self.ranges(0, 1).tolist()):
            squares = values[starts[first] : starts[last]].astype(float) ** 2
            sums = np.append(0.0, np.cumsum(squares))
            energies.append(np.diff(sums[starts[first : last + 1] - starts[first]]))
        return np.concatenate(energies)

    def ranges(self, mode: int, n_threads: int) -> NDArray[np.integer]:
        """Boundaries of ranges of rows with about equal work, for the threads."""
        starts = self.groups[mode][0]
        work = starts + _SOLVE_COST * np.arange(len(starts))
        shared = n_threads > 1 and work[-1] > _LEAST_WORK
        n = max(8 * n_threads, len(starts) // _BLOCK) if shared else 1
        cuts = np.searchsorted(work, np.linspace(0, work[-1], n + 1)[1:-1])
        cuts = np.union1d(cuts, np.arange(0, len(starts) - 1, _BLOCK))
        return np.unique([0, *cuts, len(starts) - 1])

    def as_array(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The dense tensor, and a mask of its observed entries; see `array_of`."""
        starts, others, values = self.groups[0]
        coordinates = [np.repeat(np.arange(self.shape[0]), np.diff(starts))]
        offsets = np.cumsum(self.shape)
        coordinates += [o - first for o, first in zip(others.T, offsets, strict=False)]
        return array_of(coordinates, values, self.shape)

    def sums(
        self,
        mode: int,
        first: int,
        last: int,
        rows: Sequence[slice],
        means: NDArray[np.floating],
        moments: NDArray[np.floating],
        weights: NDArray[np.floating] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums over the entries of the rows [first, last) of a mode.

        Parameters
        ----------
        mode, first, last : int
        rows : list of slice
            The rows of every mode in the stacked arrays that follow.
        means : ndarray of shape (n_rows, Q)
            Means of the rows of all modes.
        moments : ndarray of shape (n_rows, P) or (n_rows, Q)
            Their second moments; or their expected squares, if the columns of a row
            are independent of one another.
        weights : ndarray of shape (n_rows,), default=None
            Weights of the rows of all modes, positive and of the type of the means.
            The weight of an entry is the product of those of its rows. None weighs all
            entries equally.

        Returns
        -------
        gram : ndarray of shape (last - first, P), float64
            Expected sum of b b^T.
        projection : ndarray of shape (last - first, Q), float64
            Expected sum of y b.
        """
        from .kernels._cp import mean_sums, moment_sums

        n_columns = means.shape[1]
        gram = np.empty((last - first, math.comb(n_columns + 1, 2)))
        projection = np.empty((last - first, n_columns))
        add = mean_sums if moments.shape[1] == n_columns else moment_sums
        add(
            first,
            last,
            *self.groups[mode],
            np.empty(0, means.dtype) if weights is None else weights,
            means,
            moments,
            gram,
            projection,
        )
        if weights is not None:
            own = weights[rows[mode]][first:last, np.newaxis]
            gram *= own
            projection *= own
        return gram, projection


class DenseEntries(_LocalEntries):
    """Entries as an array, with a mask of those that were observed.

    Parameters
    ----------
    values : ndarray of shape (I_1, ..., I_N), float32 or float64
        Zero where nothing was observed.
    mask : ndarray of shape (I_1, ..., I_N), bool
    signs : ndarray of shape (n,), int8, default=None
        Signs with which `rescale` moves the observed values, 1 or -1.
    outputs : ndarray of shape (n,), uint8, default=None
        Numbers of the outputs of the table that randomised the observed values.
    """

    stored_modes = range(1)

    def __init__(
        self,
        values: NDArray[np.floating],
        mask: NDArray[np.bool_],
        signs: NDArray[np.int8] | None = None,
        outputs: NDArray[np.uint8] | None = None,
    ) -> None:
        self.shape = values.shape
        self.dtype = values.dtype
        self.n_entries = int(np.count_nonzero(mask))
        self.energy = _sum_of_squares(values)
        self.values = np.ascontiguousarray(values)
        self.mask = np.ascontiguousarray(mask, dtype=values.dtype)
        modes = range(values.ndim)
        self._positive = None if signs is None else np.packbits(signs > 0)
        self._outputs = outputs
        self._observed: list[Any] = [
            mask.any(axis=tuple(k for k in modes if k != mode)) for mode in modes
        ]

    def _rescale(self, before: _Units, after: _Units, move: float) -> float:
        observed = self.mask > 0
        values = self.values[observed]
        _rescale(values, before, after, move, self._positive)
        self.values[observed] = values
        return _sum_of_squares(values)

    def observe(
        self,
        mode: int,
        rows: slice,
        fitted: NDArray[np.floating],
        likelihood: TableLikelihood,
    ) -> NDArray[np.float64]:
        """Replace all values by observations of their means; see `SparseEntries`."""
        values = np.empty_like(fitted)
        outputs = cast("NDArray[np.uint8]", self._outputs)
        counts = likelihood.observe(fitted, outputs, values)
        self.values[self.mask > 0] = values
        return counts

    def values_changed(self) -> None:
        """Compute sums of squares anew, after `observe`."""
        self.energy = _sum_of_squares(self.values)
        vars(self).pop("row_energies", None)

    def observed(self, mode: int) -> NDArray[np.bool_]:
        """Mask of the rows of a mode that have entries: shape (size of the mode,)."""
        return self._observed[mode]

    @cached_property
    def row_counts(self) -> NDArray[np.integer]:
        """Number of entries of every row of the first mode."""
        return np.count_nonzero(self.mask.reshape(len(self.mask), -1), axis=1)

    @cached_property
    def row_energies(self) -> NDArray[np.float64]:
        """Sum of the squared values of every row of the first mode."""
        rows = self.values.reshape(len(self.values), -1)
        return np.einsum("ri,ri->r", rows, rows, dtype=float)

    def ranges(self, mode: int, n_threads: int) -> NDArray[np.integer]:
        """One range of all rows: the matrix product uses the threads of BLAS."""
        return np.array([0, self.shape[mode]])

    def as_array(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The tensor, zero where nothing was observed, and a mask of its entries."""
        return self.values.astype(float), self.mask > 0

    def sums(
        self,
        mode: int,
        first: int,
        last: int,
        rows: Sequence[slice],
        means: NDArray[np.floating],
        moments: NDArray[np.floating],
        weights: NDArray[np.floating] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums over the entries of all rows of a mode; see `SparseEntries.sums`."""
        if moments.shape[1] == means.shape[1]:
            squares, moments = moments, packed_squares(means)
            moments[:, diagonal(means.shape[1])] = squares
        if weights is not None:
            means, moments = (x * weights[:, np.newaxis] for x in (means, moments))
        gram = _contract(self.mask, mode, [moments[r] for r in rows])
        projection = _contract(self.values, mode, [means[r] for r in rows])
        if weights is not None:
            own = weights[rows[mode], np.newaxis]
            gram, projection = gram * own, projection * own
        return gram.astype(float), projection.astype(float)


def _rescale(
    values: NDArray[np.floating],
    before: _Units,
    after: _Units,
    move: float,
    positive: NDArray[np.uint8] | None,
) -> None:
    """Change the offset and scale of values in place.

    Parameters
    ----------
    values : ndarray of shape (n,)
    before, after : tuple of (float, float)
        Offset and scale.
    move : float
        Added to each value first, with its sign.
    positive : ndarray of uint8
        Packed bits: whether the sign is positive. Not read if nothing is moved.
    """
    values *= before[1]
    values += before[0]
    if move:
        bits = np.unpackbits(cast("NDArray[np.uint8]", positive), count=len(values))
        values += np.array([-move, move], values.dtype)[bits]
    values -= after[0]
    values /= after[1]


def _sum_of_squares(values: NDArray[np.floating]) -> float:
    return float(np.sum(values**2, dtype=float))


def array_of(
    coordinates: Sequence[NDArray[np.integer]] | NDArray[np.integer],
    values: NDArray[np.floating],
    shape: Sequence[int],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The dense tensor of the entries, and a mask of those that were observed.

    Parameters
    ----------
    coordinates : sequence by mode of ndarray of shape (n,), int
    values : ndarray of shape (n,)
        Values at the same coordinates are averaged.
    shape : tuple of int

    Returns
    -------
    tensor : ndarray of shape `shape`, float
        Zero where nothing was observed.
    observed : ndarray of shape `shape`, bool
    """
    positions, size = np.ravel_multi_index(coordinates, shape), math.prod(shape)
    counts = np.bincount(positions, minlength=size)
    sums = np.bincount(positions, weights=values, minlength=size)
    tensor = (sums / np.maximum(counts, 1)).reshape(shape)
    return tensor, (counts > 0).reshape(shape)


def _contract(
    tensor: NDArray[np.floating], mode: int, factors: Sequence[NDArray[np.floating]]
) -> NDArray[np.floating]:
    """Contract a tensor with a factor in every mode but one, column by column.

    Parameters
    ----------
    tensor : ndarray of shape (I_1, ..., I_N)
    mode : int
        The mode that remains.
    factors : list of ndarray of shape (I_k, n_columns)
        One for each mode; that of `mode` is not read.

    Returns
    -------
    contracted : ndarray of shape (I_mode, n_columns)
    """
    sizes = list(tensor.shape)
    modes = list(range(len(sizes)))
    last = modes[-1] != mode
    # The first contraction is the large one; a matrix product does it.
    k = modes.pop() if last else modes.pop(0)
    if last:
        product = tensor.reshape(-1, sizes[k]) @ factors[k]
    else:
        product = tensor.reshape(sizes[k], -1).T @ factors[k]
    while len(modes) > 1:
        if modes[-1] != mode:
            k = modes.pop()
            product = product.reshape(-1, sizes[k], product.shape[-1])
            product = np.einsum("ikc,kc->ic", product, factors[k])
        else:
            k = modes.pop(0)
            product = product.reshape(sizes[k], -1, product.shape[-1])
            product = np.einsum("kic,kc->ic", product, factors[k])
    return product


def as_coordinates(where: NDArray[Any]) -> NDArray[np.integer]:
    """Coordinates of the entries that a mask marks; coordinates stay as they are."""
    if where.dtype != bool:
        return where
    return np.stack(np.nonzero(where), axis=1, dtype=np.int32)


def group_by_mode(
    coordinates: NDArray[np.integer], shape: Sequence[int]
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.integer]]]:
    """Group the entries by their row, once for every mode.

    Counting sorts take linear time. Within a row, entries are sorted by their index in
    the largest of the other modes, so that code that gathers rows of that mode reads
    memory in one direction.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int32
        Column-major (Fortran) order is fastest.
    shape : tuple of int

    Yields
    ------
    mode : int
    starts : ndarray of shape (shape[mode] + 1,), int64
        The entries of row r are ``order[starts[r]:starts[r + 1]]``.
    order : ndarray of shape (n,), int32
        A permutation of the entries 0 to n - 1.
    """
    largest, second, *others = np.argsort(shape, kind="stable")[::-1].tolist()
    by_second = _sort(coordinates, shape, second)[1]
    yield largest, *_sort(coordinates, shape, largest, by_second)
    del by_second
    by_largest = _sort(coordinates, shape, largest)[1]
    for mode in (second, *others):
        yield mode, *_sort(coordinates, shape, mode, by_largest)


def _sort(
    coordinates: NDArray[np.integer],
    shape: Sequence[int],
    mode: int,
    order: NDArray[np.integer] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
    """Sort entries stably by their index in a mode, starting from `order`."""
    from .kernels._cp import counting_sort

    n = len(coordinates)
    dtype: type[np.integer] = np.int32 if n < 2**31 else np.int64
    previous = np.arange(n, dtype=dtype) if order is None else order
    starts, order = np.zeros(shape[mode] + 1, dtype=np.int64), np.empty(n, dtype=dtype)
    counting_sort(coordinates[:, mode], previous, starts, order)
    return starts, order


def times_recurring(sets: Sequence[NDArray[np.integer]]) -> int:
    """The largest number of sets that share a coordinate.

    Only coordinates whose first index occurs in the last set are counted: for a growing
    list of sets, the counts of the others have not changed since the last call.

    Parameters
    ----------
    sets : list of ndarray of shape (n_i, n_modes), int32
        A coordinate that occurs several times in one set counts once for that set.

    Returns
    -------
    times : int
    """
    in_last = np.zeros(1 + max(s[:, 0].max() for s in sets), dtype=bool)
    in_last[sets[-1][:, 0]] = True
    relevant = [s[in_last[s[:, 0]]] for s in sets]
    set_numbers = np.repeat(np.arange(len(sets), dtype=np.int32), [*map(len, relevant)])
    # Rows are a coordinate and, last, the number of its set.
    rows = np.column_stack([np.concatenate(relevant), set_numbers])
    rows = rows[np.lexsort(rows.T[::-1])]
    changed = rows[1:] != rows[:-1]
    is_new_row = np.concatenate([[True], changed.any(axis=1)])
    is_new_coordinate = np.concatenate([[True], changed[:, :-1].any(axis=1)])
    starts = np.flatnonzero(is_new_coordinate)
    return int(np.add.reduceat(is_new_row, starts, dtype=np.int64).max())
