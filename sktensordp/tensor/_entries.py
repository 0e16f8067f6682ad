"""Observed entries of a tensor, as coordinates or as an array with a mask.

Both sum over the entries of every row of one mode, given the other modes. With b_e the
product of the rows that entry e meets in the other modes, these are sum_e E[b_e b_e^T]
and sum_e y_e E[b_e]. Coordinates gather rows entry by entry, in a compiled kernel; an
array contracts its mask and its values with the moments of the other modes, by one
product of matrices and sums.

Symmetric matrices of size Q are upper triangles, row by row: vectors of length
P = Q (Q + 1) / 2.
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ._algebra import packed_squares
from ._coordinates import group_by_mode

__all__ = ["DenseEntries", "Entries", "SparseEntries", "array_of"]

# Rows of which the sums are held at once.
_BLOCK = 512
# Solving a row takes about as long as summing so many entries.
_SOLVE_COST = 100
# Less than the sums of so many entries is not worth a thread.
_LEAST_WORK = 2000


class Entries(Protocol):
    """What a fit asks of entries, here or elsewhere."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.floating]
    n_entries: int
    energy: float

    def observed(self, mode: int) -> NDArray[np.bool_]: ...
    def ranges(self, mode: int, n_threads: int) -> NDArray[np.integer]: ...
    def as_array(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]: ...
    def fit_class(self, local: type) -> Any: ...


class _Local:
    """Mixin of entries that are here."""

    def fit_class(self, local: type) -> Any:
        """The fit to such entries."""
        return local


class SparseEntries(_Local):
    """Entries as coordinates, grouped by their row, once for every mode.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int32
        Fastest if its columns are contiguous.
    values : ndarray of shape (n,), float32 or float64
    shape : tuple of int
    """

    def __init__(
        self,
        coordinates: NDArray[np.integer],
        values: NDArray[np.floating],
        shape: Sequence[int],
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = values.dtype
        self.n_entries = len(values)
        self.energy = float(np.sum(values**2, dtype=float))
        n_modes = len(shape)
        offsets = np.concatenate([[0], np.cumsum(shape)[:-1]]).astype(np.int32)
        self.groups: list[Any] = [None] * n_modes
        for mode, starts, order in group_by_mode(coordinates, shape):
            others = np.empty((len(values), n_modes - 1), dtype=np.int32)
            for column, other in enumerate(np.delete(np.arange(n_modes), mode)):
                others[:, column] = coordinates[:, other][order]
                others[:, column] += offsets[other]
            self.groups[mode] = starts, others, values[order]

    def observed(self, mode: int) -> NDArray[np.bool_]:
        """Which rows of a mode have an entry: a mask of shape (size of the mode,)."""
        return np.diff(self.groups[mode][0]) > 0

    def ranges(self, mode: int, n_threads: int) -> NDArray[np.integer]:
        """Ranges of rows with about equal work, enough for the threads."""
        starts = self.groups[mode][0]
        work = starts + _SOLVE_COST * np.arange(len(starts))
        shared = n_threads > 1 and work[-1] > _LEAST_WORK
        n = max(8 * n_threads, len(starts) // _BLOCK) if shared else 1
        cuts = np.searchsorted(work, np.linspace(0, work[-1], n + 1)[1:-1])
        cuts = np.union1d(cuts, np.arange(0, len(starts) - 1, _BLOCK))
        return np.unique([0, *cuts, len(starts) - 1])

    def as_array(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The tensor, means where an entry is there twice, and which are observed."""
        starts, others, values = self.groups[0]
        coordinates = [np.repeat(np.arange(self.shape[0]), np.diff(starts))]
        begins = np.cumsum(self.shape)
        coordinates += [o - begin for o, begin in zip(others.T, begins, strict=False)]
        return array_of(coordinates, values, self.shape)

    def sums(
        self,
        mode: int,
        first: int,
        last: int,
        rows: Sequence[slice],
        means: NDArray[np.floating],
        moments: NDArray[np.floating] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums over the entries of the rows [first, last) of a mode.

        Parameters
        ----------
        mode, first, last : int
        rows : list of slice
            The rows of every mode, among those of all modes.
        means : ndarray of shape (n_rows, Q)
            Of the rows of all modes.
        moments : ndarray of shape (n_rows, P), default=None
            Second moments; without, those of the means.

        Returns
        -------
        gram : ndarray of shape (last - first, P), float64
            Expected sum of b b^T.
        projection : ndarray of shape (last - first, Q), float64
            Expected sum of y b.
        """
        from .kernels._cp import moment_sums, point_sums

        n_columns = means.shape[1]
        gram = np.empty((last - first, n_columns * (n_columns + 1) // 2))
        projection = np.empty((last - first, n_columns))
        sums = *self.groups[mode], means
        if moments is None:
            point_sums(first, last, *sums, gram, projection)
        else:
            moment_sums(first, last, *sums, moments, gram, projection)
        return gram, projection


class DenseEntries(_Local):
    """Entries as an array, of which a mask says what was observed.

    Parameters
    ----------
    values : ndarray of shape (I_1, ..., I_N), float32 or float64
        Zero where nothing was observed.
    mask : ndarray of shape (I_1, ..., I_N), bool
    """

    def __init__(self, values: NDArray[np.floating], mask: NDArray[np.bool_]) -> None:
        self.shape = values.shape
        self.dtype = values.dtype
        self.n_entries = int(np.count_nonzero(mask))
        self.energy = float(np.sum(values**2, dtype=float))
        self.values = np.ascontiguousarray(values)
        self.mask = np.ascontiguousarray(mask, dtype=values.dtype)
        modes = range(values.ndim)
        self._observed: list[Any] = [
            mask.any(axis=tuple(k for k in modes if k != mode)) for mode in modes
        ]

    def observed(self, mode: int) -> NDArray[np.bool_]:
        """Which rows of a mode have an entry: a mask of shape (size of the mode,)."""
        return self._observed[mode]

    def ranges(self, mode: int, n_threads: int) -> NDArray[np.integer]:
        """All rows at once: the product of matrices has threads of its own."""
        return np.array([0, self.shape[mode]])

    def as_array(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The tensor, zero where there is no entry, and which are observed."""
        return self.values.astype(float), self.mask > 0

    def sums(
        self,
        mode: int,
        first: int,
        last: int,
        rows: Sequence[slice],
        means: NDArray[np.floating],
        moments: NDArray[np.floating] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums over the entries of all rows of a mode; see `SparseEntries.sums`."""
        if moments is None:
            moments = packed_squares(means)
        gram = _contract(self.mask, mode, [moments[r] for r in rows])
        projection = _contract(self.values, mode, [means[r] for r in rows])
        return gram.astype(float), projection.astype(float)


def array_of(
    coordinates: Sequence[NDArray[np.integer]] | NDArray[np.integer],
    values: NDArray[np.floating],
    shape: Sequence[int],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A tensor from its entries, zero where there is none, and which are observed.

    Parameters
    ----------
    coordinates : sequence by mode of ndarray of shape (n,), int
    values : ndarray of shape (n,)
        Where coordinates occur twice, their mean is taken.
    shape : tuple of int

    Returns
    -------
    tensor : ndarray of shape `shape`, float
    observed : ndarray of shape `shape`, bool
    """
    where, size = np.ravel_multi_index(coordinates, shape), math.prod(shape)
    counts = np.bincount(where, minlength=size)
    sums = np.bincount(where, weights=values, minlength=size)
    tensor = (sums / np.maximum(counts, 1)).reshape(shape)
    return tensor, (counts > 0).reshape(shape)


def _contract(
    tensor: NDArray[np.floating], mode: int, factors: Sequence[NDArray[np.floating]]
) -> NDArray[np.floating]:
    """Sum over all modes but one of a tensor times the rows of the other modes.

    Parameters
    ----------
    tensor : ndarray of shape (I_1, ..., I_N)
    mode : int
        The mode that is left.
    factors : list of ndarray of shape (I_k, n_columns)

    Returns
    -------
    contracted : ndarray of shape (I_mode, n_columns)
    """
    sizes = list(tensor.shape)
    modes = list(range(len(sizes)))
    last = modes[-1] != mode
    # The first contraction is the large one, a product of matrices.
    k = modes.pop() if last else modes.pop(0)
    if last:
        found = tensor.reshape(-1, sizes[k]) @ factors[k]
    else:
        found = tensor.reshape(sizes[k], -1).T @ factors[k]
    while len(modes) > 1:
        if modes[-1] != mode:
            k = modes.pop()
            found = found.reshape(-1, sizes[k], found.shape[-1])
            found = np.einsum("ikc,kc->ic", found, factors[k])
        else:
            k = modes.pop(0)
            found = found.reshape(sizes[k], -1, found.shape[-1])
            found = np.einsum("kic,kc->ic", found, factors[k])
    return found
