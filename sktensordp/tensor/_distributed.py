"""Entries that are spread over parts: all entries of some rows of one mode in each.

The rows of that mode, and their posterior, stay where their entries are. Sums over the
entries of the rows of the other modes are computed part by part and added; these rows
are solved for where the fit was called. What a part is asked for is a function of its
entries and of what is passed along, hence the same wherever, and however often, it is
computed. Dask decides where, and computes again what was lost.
"""

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray

from ._algebra import packed_squares
from ._cp_fit import _Fit
from ._entries import SparseEntries, array_of
from ._row_fit import RowFit, diagonal
from ._tucker_fit import _TuckerFit

__all__ = ["DistributedEntries", "computed", "in_memory", "tree_sum"]

# Parts that are added at once.
_BRANCHES = 8


def computed(*delayed: Any) -> tuple[Any, ...]:
    """What delayed values are."""
    with _large_graphs():
        return dask.compute(*delayed)


def in_memory(*delayed: Any) -> tuple[Any, ...]:
    """Delayed values that are computed now, and stay in the memory of the workers."""
    with _large_graphs():
        return dask.persist(*delayed)


@contextmanager
def _large_graphs() -> Iterator[None]:
    with warnings.catch_warnings():
        # What is passed along is in the graph, which outlives any worker.
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def tree_sum(delayed: Iterable[Any]) -> Any:
    """The sum of delayed tuples of numbers or arrays, element by element."""
    delayed, add = list(delayed), dask.delayed(_add, pure=False)
    while len(delayed) > 1:
        groups = range(0, len(delayed), _BRANCHES)
        delayed = [add(*delayed[start : start + _BRANCHES]) for start in groups]
    return delayed[0]


def _add(*parts: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        sum(elements[1:], elements[0]) for elements in zip(*parts, strict=True)
    )


class DistributedEntries:
    """Entries of a tensor in parts.

    Parameters
    ----------
    parts : list of Delayed of SparseEntries
        The rows of `mode` are those of the part, numbered from 0.
    cuts : ndarray of shape (n_parts + 1,), int
        Part k has the rows cuts[k] to cuts[k + 1] of the mode.
    mode : int
        0 or 1.
    shape : tuple of int
    counts : list by mode of ndarray of shape (size of the mode,), int
        Entries of every row.
    dtype : dtype
        Of the values.
    """

    def __init__(
        self,
        parts: Iterable[Any],
        cuts: NDArray[np.integer],
        mode: int,
        shape: Iterable[int],
        counts: Sequence[NDArray[np.integer]],
        dtype: np.dtype,
    ) -> None:
        self.parts = in_memory(*parts)
        self.cuts, self.mode, self.shape = cuts, mode, tuple(shape)
        self.dtype = dtype
        self.n_entries = int(counts[0].sum())
        self._observed = [own > 0 for own in counts]
        energy = dask.delayed(_energy, pure=False)
        self.energy = computed(tree_sum(map(energy, self.parts)))[0][0]

    def observed(self, mode: int) -> NDArray[np.bool_]:
        """Which rows of a mode have an entry: a mask of shape (size of the mode,)."""
        return self._observed[mode]

    def ranges(self, mode: int, n_threads: int) -> NDArray[np.integer]:
        """All rows at once: their sums are from all parts."""
        return np.array([0, self.shape[mode]])

    def as_array(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The tensor, means where an entry is there twice, and which are observed."""
        found = computed(*map(dask.delayed(_as_list, pure=False), self.parts))
        for (coordinates, _), first in zip(found, self.cuts, strict=False):
            coordinates[self.mode] += first
        coordinates = np.concatenate([c for c, _ in found], axis=1)
        values = np.concatenate([v for _, v in found])
        return array_of(coordinates, values, self.shape)

    def split(self, rows: NDArray[np.floating] | None) -> list[Any]:
        """Rows of the mode, part by part; None for each if there are none."""
        if rows is None:
            return [None] * len(self.parts)
        return np.split(rows, self.cuts[1:-1])

    def fit_class(self, local: type) -> Any:
        """The fit that asks the parts, for one to entries that are here."""
        return {_Fit: _DistributedCP, _TuckerFit: _DistributedTucker}[local]


def _energy(entries: SparseEntries) -> tuple[float]:
    return (entries.energy,)


def _as_list(entries: SparseEntries) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """Coordinates and values of the entries of a part."""
    starts, others, values = entries.groups[0]
    coordinates = np.empty((len(entries.shape), len(values)), dtype=np.int64)
    coordinates[0] = np.repeat(np.arange(entries.shape[0]), np.diff(starts))
    coordinates[1:] = others.T - np.cumsum(entries.shape)[:-1, np.newaxis]
    return coordinates, values


class _DistributedRows(RowFit):
    """Mixin of a RowFit that asks parts for all that depends on their entries."""

    local: type
    entries: DistributedEntries

    def start(self, means: Any, covariances: Any, noise: float | None) -> None:
        """Start from a posterior."""
        super().start(means, covariances, noise)
        self._spread()

    def take_covariances(self) -> None:
        """From here on rows have covariances."""
        super().take_covariances()
        self._spread()

    def _spread(self) -> None:
        """Pass the rows of the parts on."""
        entries = self.entries
        means, _, found = self.posterior(entries.mode)
        # The first mode is solved for first: its second moments are not asked for.
        moments = entries.split(found if entries.mode else None)
        own = zip(entries.split(means), moments, strict=True)
        self._own = [dask.delayed(pair, traverse=False) for pair in own]

    def _shell(self, left_out: int | None) -> Any:
        """All that a part has to know of the others, as one delayed object."""
        shell: Any = object.__new__(self.local)
        vars(shell).update(vars(self))
        del shell._own
        shell.entries = shell.means = shell.covariances = shell.moments = None
        shell.mode, shell.others = self.entries.mode, []
        for mode in range(len(self.entries.shape)):
            means, _, moments = self.posterior(mode)
            n_rows = 0 if mode in (shell.mode, left_out) else len(means)
            # Copies, since these are written to in the sweeps that follow.
            shell.others.append((means[:n_rows].copy(), moments[:n_rows].copy()))
        return dask.delayed(shell, traverse=False)

    def _of_parts(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        left_out: int | None = None,
        **options: Any,
    ) -> list[Any]:
        """A function of every part, its rows and those of the others but one mode."""
        shell = self._shell(left_out)
        function = dask.delayed(function, pure=False, **options)
        pairs = zip(self.entries.parts, self._own, strict=True)
        return [function(shell, *pair, *arguments) for pair in pairs]

    def update(
        self, mode: int, pool: ThreadPoolExecutor, n_threads: int
    ) -> tuple[float, NDArray[np.float64] | None]:
        """Posterior of the rows of one mode; see `RowFit.update`."""
        if mode != self.entries.mode:
            return super().update(mode, pool, n_threads)
        found = self._of_parts(_updated, nout=2)
        *self._own, total = in_memory(
            *(own for own, _ in found), tree_sum(sums for _, sums in found)
        )
        error, *self._row_sums = computed(total)[0]
        return error, None

    def sums(
        self, mode: int, part: slice
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Expected sums over the entries of all rows of a mode."""
        return computed(tree_sum(self._of_parts(_sums, mode, left_out=mode)))[0]

    def _learn_mean_weights(self) -> None:
        if self.entries.mode != 0:
            return super()._learn_mean_weights()
        n_rows, means, _, _ = self._row_sums
        self.prior_mean[0][self._weights] = means[self._weights] / n_rows

    def row_sums(
        self, mode: int
    ) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
        """Sums over the rows that have entries; see `RowFit.row_sums`."""
        if mode != self.entries.mode:
            return super().row_sums(mode)
        n_rows, means, squares, variances = self._row_sums
        prior = self.prior_mean[mode]
        deviation = squares - 2 * prior * means + n_rows * prior**2
        return n_rows, np.maximum(deviation, 0.0), variances

    def model(self, scale: float) -> Any:
        """The fitted model, all its rows here."""
        here = self.posterior(self.entries.mode)[:2]
        found = computed(*(own[:2] for own in self._own))
        for k, own in enumerate(found):
            rows = slice(*self.entries.cuts[k : k + 2])
            for target, part in zip(here, own, strict=True):
                target[rows] = part
        return super().model(scale)


class _DistributedCP(_DistributedRows, _Fit):
    local = _Fit


class _DistributedTucker(_DistributedRows, _TuckerFit):
    local = _TuckerFit

    def _core_sums(
        self, pool: ThreadPoolExecutor, n_threads: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return computed(tree_sum(self._of_parts(_core_sums)))[0]


def _placed(shell: Any, entries: SparseEntries, own: Sequence[Any]) -> Any:
    """A fit of the rows of one part."""
    fit = copy.copy(shell)
    # A task leaves its arguments as they are.
    means, *_, moments = own
    moments = packed_squares(means) if moments is None else moments.copy()
    posteriors = [
        known if len(known[0]) else _nothing(known, n)
        for known, n in zip(shell.others, entries.shape, strict=True)
    ]
    posteriors[fit.mode] = means.copy(), moments
    fit.place(entries, posteriors)
    return fit


def _nothing(
    like: Sequence[NDArray[np.floating]], n_rows: int
) -> tuple[NDArray[np.floating], ...]:
    """In the place of rows that were left out, and are not asked for."""
    return tuple(np.zeros((n_rows, part.shape[1]), part.dtype) for part in like)


def _updated(
    shell: Any, entries: SparseEntries, own: Sequence[Any]
) -> tuple[
    tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]],
    tuple[Any, ...],
]:
    """The posterior of the rows of a part, and sums of what is learned from them."""
    fit, mode = _placed(shell, entries, own), shell.mode
    with fit.threads(1) as pool:
        error, _ = fit.update(mode, pool, 1)
    means, covariances, moments = fit.posterior(mode)
    seen = entries.observed(mode)
    known = means[seen].astype(float)
    variances = covariances[seen][:, diagonal(means.shape[1])].astype(float)
    of_rows = len(known), *(x.sum(axis=0) for x in (known, known**2, variances))
    return (means, covariances, moments), (error, *of_rows)


def _sums(
    shell: Any, entries: SparseEntries, own: Sequence[Any], mode: int
) -> tuple[NDArray[np.float64], ...]:
    """Sums over the entries of a part, by the rows of a mode that is not its own."""
    fit = _placed(shell, entries, own)
    with fit.threads(1) as pool:
        found = list(fit.by_parts(lambda rows: fit.sums(mode, rows), mode, pool, 1))
    return tuple(map(np.concatenate, zip(*found, strict=True)))


def _core_sums(
    shell: Any, entries: SparseEntries, own: Sequence[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    fit = _placed(shell, entries, own)
    with fit.threads(1) as pool:
        return fit._core_sums(pool, 1)
