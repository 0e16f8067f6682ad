"""Entries that Dask holds in partitions, by the rows of one mode, and fits to them.

Every partition has all entries of some rows of that mode, the split mode. These rows
and their posterior stay with their entries. For the rows of all other modes, the sums
over entries are computed partition by partition and added up, and the process that
called the fit solves for the rows. A task is a function of its entries and of its
arguments, so it gives the same result wherever and however often it runs. Dask chooses
where tasks run, and repeats those whose results were lost.
"""

import asyncio
import copy
import functools
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeAlias

import dask
import numpy as np
from numpy.typing import NDArray

from ._algebra import diagonal
from ._grouped import SparseEntries, array_of
from ._likelihood import TableLikelihood
from ._row_fit import RowFit, RowWeighting
from ._tucker_fit import TuckerFit

# The partitions of a group by thread.
_Group: TypeAlias = list[list[SparseEntries]]
# Number of terms that one task adds.
_BRANCHES = 8
# Partitions move only if the group that they go to stays smaller by this share than the
# largest one was before.
_LEAST_GAIN = 0.05
# Seconds after which a fit no longer waits for partitions that move.
_LONGEST_MOVE = 60


def computed(*delayed: Any, **options: Any) -> tuple[Any, ...]:
    """The results of delayed values, in this process; see `dask.compute`."""
    with _large_graphs():
        return dask.compute(*delayed, **options)


def in_memory(*delayed: Any) -> tuple[Any, ...]:
    """Compute delayed values now, and keep the results in the memory of the workers."""
    with _large_graphs():
        return dask.persist(*delayed)


@contextmanager
def _large_graphs() -> Iterator[None]:
    """Suppress Dask's warning about large arguments.

    They are part of the graph on purpose: the graph survives the loss of a worker.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def tree_sum(delayed: Iterable[Any]) -> Any:
    """The sum of delayed tuples of numbers or arrays, element by element."""
    delayed, add = list(delayed), dask.delayed(_add, pure=False)
    while len(delayed) > 1:
        groups = range(0, len(delayed), _BRANCHES)
        delayed = [add(*delayed[start : start + _BRANCHES]) for start in groups]
    return delayed[0]


def _add(*terms: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        sum(elements[1:], elements[0]) for elements in zip(*terms, strict=True)
    )


class PartitionGroups:
    """Partitions in groups, one for every worker.

    A group is one object on one worker, so a task on a group needs nothing of another
    worker but its other arguments. If the worker is lost, Dask computes the group again
    on another one. There is one task for each worker, which divides its group among
    threads: Dask moves groups if a worker has more tasks to run than another. Without a
    distributed scheduler, every group is one partition.

    Parameters
    ----------
    partitions : iterable of Delayed
        Computed here and kept in the memory of the workers. Errors are raised here.

    Attributes
    ----------
    groups : tuple of Delayed of list of list
        The partitions of each thread of each group.
    """

    def __init__(self, partitions: Iterable[Any]) -> None:
        partitions = in_memory(*partitions)
        sizes = computed(*map(dask.delayed(sys.getsizeof, pure=False), partitions))
        client, self._options = _client(), {}
        if client is None:
            self._numbers = [[[k]] for k in range(len(partitions))]
        else:
            n_threads = client.nthreads()
            if _reaches(client, n_threads):
                self._options["direct"] = True
            holders = client.who_has(list(partitions))
            workers = [next(iter(holders[p.key]), None) for p in partitions]
            by_worker = grouped(sizes, workers, n_threads)
            _move(partitions, workers, by_worker)
            self._numbers = [*by_worker.values()]
        collect = dask.delayed(_collected, pure=False)
        self.groups = in_memory(
            *(
                collect([*map(len, group)], *(partitions[k] for k in _joined(group)))
                for group in self._numbers
            )
        )

    def places(self) -> list[tuple[int, int, int]]:
        """For every partition, its group, its thread and its place among the latter's.

        Returns
        -------
        places : list of (int, int, int)
        """
        places = {
            number: (group, thread, place)
            for group, threads in enumerate(self._numbers)
            for thread, numbers in enumerate(threads)
            for place, number in enumerate(numbers)
        }
        return [places[number] for number in range(len(places))]

    def split(self, by_partition: Sequence[Any]) -> list[list[list[Any]]]:
        """Bring what belongs to each partition together by group and thread."""
        return [
            [[by_partition[k] for k in numbers] for numbers in group]
            for group in self._numbers
        ]

    def by_partition(self, by_group: Sequence[Sequence[Sequence[Any]]]) -> list[Any]:
        """Undo `split`."""
        return [by_group[group][thread][k] for group, thread, k in self.places()]

    def computed(self, delayed: Any) -> Any:
        """A delayed result in this process: from its worker directly, if possible."""
        return computed(delayed, **self._options)[0]


def _collected(lengths: Sequence[int], *partitions: Any) -> list[list[Any]]:
    """The partitions of a group by thread, each of which has some of them in turn."""
    rest = iter(partitions)
    return [[next(rest) for _ in range(length)] for length in lengths]


def _joined(lists: Iterable[Iterable[Any]]) -> list[Any]:
    return [element for each in lists for element in each]


def by_thread(function: Callable[..., Any], *groups: Sequence[Any]) -> list[Any]:
    """Results of a function of the partitions of each thread, computed in threads."""
    with ThreadPoolExecutor(len(groups[0])) as pool:
        return list(pool.map(function, *groups))


def grouped(
    sizes: Sequence[int], workers: Sequence[Any], n_threads: Mapping[Any, int]
) -> dict[Any, list[list[int]]]:
    """Group partitions by worker and thread.

    A partition stays on its worker, unless moving it makes a group clearly smaller that
    is the largest.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the partitions.
    workers : sequence
        The worker of each partition; others than those of `n_threads` are lost.
    n_threads : dict
        Number of threads of each worker.

    Returns
    -------
    groups : dict by worker of list by thread of list of int
        Numbers of the partitions, ascending; no list is empty.
    """
    threads = [(worker, k) for worker, n in n_threads.items() for k in range(n)]
    groups: dict[Any, list[int]] = {thread: [] for thread in threads}
    loads = dict.fromkeys(threads, 0)

    def move(number: int, thread: Any) -> None:
        groups[thread].append(number)
        loads[thread] += sizes[number]

    for number in np.argsort(sizes, kind="stable")[::-1].tolist():
        own = [thread for thread in threads if thread[0] == workers[number]]
        move(number, min(own or threads, key=loads.__getitem__))
    while True:
        least, most = (pick(threads, key=loads.__getitem__) for pick in (min, max))
        gap, too_little = loads[most] - loads[least], _LEAST_GAIN * loads[most]
        smaller = [k for k in groups[most] if 0 < sizes[k] <= gap - too_little]
        if not smaller:
            break
        number = min(smaller, key=lambda k: abs(2 * sizes[k] - gap))
        groups[most].remove(number)
        loads[most] -= sizes[number]
        move(number, least)
    by_worker = {
        worker: [sorted(groups[worker, k]) for k in range(n) if groups[worker, k]]
        for worker, n in n_threads.items()
    }
    return {worker: own for worker, own in by_worker.items() if own}


def _move(
    partitions: Sequence[Any],
    workers: Sequence[Any],
    by_worker: Mapping[Any, Sequence[Sequence[int]]],
) -> None:
    """Copy partitions to the workers that are to have them in their groups.

    Dask would compute a group where its partitions are. Then one worker could have two
    groups and another none, and Dask would copy groups in every sweep. Only tasks that
    are forgotten afterwards are tied to workers: if all workers are lost, Dask never
    runs tied tasks again. If copying fails or takes too long, a fit sends more.
    """
    from distributed import wait

    copies, nothing = [], dask.delayed(_nothing, pure=False)
    for worker, group in by_worker.items():
        moved = [partitions[k] for k in _joined(group) if workers[k] != worker]
        if moved:
            with dask.annotate(workers=[worker], allow_other_workers=True):
                copies.append(nothing(*moved))
    if copies:
        with suppress(TimeoutError):
            wait(in_memory(*copies), timeout=_LONGEST_MOVE)


def _nothing(*_: Any) -> None:
    """Do nothing with arguments, which Dask has brought to one worker."""


def _client() -> Any:
    """The client of the scheduler in use; None if tasks run in this process."""
    client = getattr(dask.base.get_scheduler(), "__self__", None)
    return client if hasattr(client, "who_has") else None


def _reaches(client: Any, workers: Iterable[str]) -> bool:
    """Whether this process can connect to all workers; not tried if the user says."""
    if client.direct_to_workers is not None:
        return False
    from distributed.comm import connect

    async def reach(address: str) -> None:
        await (await connect(address, timeout=2, **client.connection_args)).close()

    async def reach_all() -> bool:
        try:
            await asyncio.gather(*map(reach, workers))
        except OSError:
            return False
        return True

    return client.sync(reach_all)


class DistributedEntries:
    """Entries of a tensor in partitions.

    Parameters
    ----------
    partitions : list of Delayed of SparseEntries
        Each numbers its own rows of `mode` from 0.
    cuts : ndarray of shape (n_partitions + 1,), int
        Partition k has the rows cuts[k] to cuts[k + 1] of the mode.
    mode : int
        The split mode: 0 or 1.
    shape : tuple of int
    counts : list by mode of ndarray of shape (size of the mode,), int
        Number of entries of every row.
    dtype : dtype
        Type of the values.

    Attributes
    ----------
    partitions : PartitionGroups
    energy : float
        Sum of the squared values.
    row_energies : ndarray of shape (shape[0],) or float
        That of every row of the first mode; 0 if this mode is split.
    """

    def __init__(
        self,
        partitions: Iterable[Any],
        cuts: NDArray[np.integer],
        mode: int,
        shape: Iterable[int],
        counts: Sequence[NDArray[np.integer]],
        dtype: np.dtype,
    ) -> None:
        self.partitions = PartitionGroups(partitions)
        self.cuts, self.mode, self.shape = cuts, mode, tuple(shape)
        self.dtype = dtype
        self.n_entries = int(counts[0].sum())
        self._observed = [mode_counts > 0 for mode_counts in counts]
        self.counts, self.row_counts = counts, counts[0]
        self._take(dask.delayed(_with_energies, nout=2, pure=False))

    def rescale(self, offset: float, scale: float, move: float = 0.0) -> None:
        """Change offset, scale and values; see `SparseEntries.rescale`."""
        rescaled = dask.delayed(_rescaled, nout=2, pure=False)
        self._take(lambda group, mode: rescaled(group, mode, offset, scale, move))

    def _take(self, function: Callable[[Any, int], Any]) -> None:
        """Put the results of a delayed function of every group in their place."""
        groups = self.partitions.groups
        self.take(function(group, self.mode) for group in groups)

    def take(self, results: Iterable[Any]) -> tuple[Any, ...]:
        """Use other groups in place of the present ones.

        Parameters
        ----------
        results : iterable of Delayed of (list of list of SparseEntries, tuple)
            For every group, entries of the same rows, and what is summed over groups.
            It begins with the results of `_energies`.

        Returns
        -------
        sums : tuple
            All that follows.
        """
        groups, terms = zip(*results, strict=True)
        *present, total = in_memory(*groups, tree_sum(terms))
        self.partitions.groups = tuple(present)
        energy, self.row_energies, *sums = self.partitions.computed(total)
        self.energy = float(energy)
        return tuple(sums)

    def observed(self, mode: int) -> NDArray[np.bool_]:
        """Mask of the rows of a mode that have entries: shape (size of the mode,)."""
        return self._observed[mode]

    def ranges(self, mode: int, n_threads: int) -> NDArray[np.integer]:
        """One range of all rows: their sums come from all partitions at once."""
        return np.array([0, self.shape[mode]])

    def as_array(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The dense tensor, and a mask of its observed entries; see `array_of`."""
        lists = self.partitions.by_partition(
            computed(*map(dask.delayed(_as_lists, pure=False), self.partitions.groups))
        )
        for (coordinates, _), first in zip(lists, self.cuts, strict=False):
            coordinates[self.mode] += first
        coordinates = np.concatenate([c for c, _ in lists], axis=1)
        values = np.concatenate([v for _, v in lists])
        return array_of(coordinates, values, self.shape)

    def split(self, rows: NDArray[np.floating] | None) -> list[Any]:
        """The rows of the split mode by partition; a list of None if there are none."""
        if rows is None:
            return [None] * (len(self.cuts) - 1)
        return np.split(rows, self.cuts[1:-1])

    def fit_class(self, local: type) -> Any:
        """The class that fits to partitions, for a class that fits to local entries."""
        classes: dict[type, Any] = {TuckerFit: _DistributedTucker}
        return classes[local]


def _energies(group: _Group, mode: int) -> tuple[Any, ...]:
    """Sum of squared values, and those of the first mode's rows if it is not split."""
    partitions = _joined(group)
    energy = sum(entries.energy for entries in partitions)
    return energy, sum(each.row_energies for each in partitions) if mode else 0.0


def _with_energies(group: _Group, mode: int) -> tuple[_Group, tuple[Any, ...]]:
    return group, _energies(group, mode)


def _rescaled(
    group: _Group, mode: int, offset: float, scale: float, move: float
) -> tuple[_Group, tuple[Any, ...]]:
    """Copies of a group's entries with another offset and scale, and their energies."""

    def in_turn(partitions: list[SparseEntries]) -> list[SparseEntries]:
        # Copies, because a task must not change its arguments.
        copies = [entries.with_values_copied() for entries in partitions]
        for entries in copies:
            entries.rescale(offset, scale, move)
        return copies

    copies = by_thread(in_turn, group)
    return copies, _energies(copies, mode)


def _as_lists(
    group: _Group,
) -> list[list[tuple[NDArray[np.int64], NDArray[np.floating]]]]:
    return [[_as_list(entries) for entries in each] for each in group]


def _as_list(entries: SparseEntries) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """Coordinates, of shape (n_modes, n), and values of the entries of a partition."""
    starts, others, values = entries.groups[0]
    coordinates = np.empty((len(entries.shape), len(values)), dtype=np.int64)
    coordinates[0] = np.repeat(np.arange(entries.shape[0]), np.diff(starts))
    coordinates[1:] = others.T - np.cumsum(entries.shape)[:-1, np.newaxis]
    return coordinates, values


class _Rows(NamedTuple):
    """Rows of the split mode in one partition.

    Attributes
    ----------
    means, covariances, moments : ndarray or None
        Their posterior; see `RowFit.posterior`. Before the first update, covariances
        are None, and so are second moments that the update does not read.
    weights : ndarray of shape (n_rows,) or None
        See `RowFit.row_weights`; None if the first mode is not split.
    stated_weights, errors : ndarray of shape (n_rows,) or None
        See `RowFit`.
    """

    means: Any
    covariances: Any
    moments: Any
    weights: Any
    stated_weights: Any
    errors: Any = None


# The rows of the split mode in the partitions of a group, by thread.
_GroupRows: TypeAlias = list[list[_Rows]]


class _DistributedRows(RowFit):
    """Mixin of a RowFit whose entries are in partitions.

    Attributes
    ----------
    local : type
        The class that fits to the entries of one partition.
    """

    local: type
    entries: DistributedEntries
    # Delayed rows of the split mode, by group; None before they are sent.
    _local_rows: Any = None
    # Delayed means and second moments of the rows of other modes, by mode.
    _sent_rows: dict[int, Any]
    # How the weights of split rows, and those stated, are computed before the rows are
    # updated; None if the weights that they have are kept.
    _weightings: tuple[RowWeighting, RowWeighting] | None = None
    # Whether split rows have weights.
    _is_weighted = False

    def start(self, means: Any, covariances: Any, noise: float | None) -> None:
        """Start from a posterior, whose rows of the split mode go to the partitions."""
        super().start(means, covariances, noise)
        self._local_rows, self._sent_rows = None, {}

    def weigh(self, row_weights: NDArray[np.float64] | None) -> None:
        """Set the weights of the first mode's rows; see `RowFit.weigh`."""
        super().weigh(row_weights)
        if self.entries.mode == 0:
            self._local_rows = self._weightings = None
            self._is_weighted = row_weights is not None

    def _send_local_rows(self) -> None:
        """Send the rows of the split mode to the groups, if they are not there."""
        if self._local_rows is not None:
            return
        entries = self.entries
        means, _, moments = self.posterior(entries.mode)
        weights = self.row_weights, self.stated_weights
        # The first mode is updated before a task reads its second moments.
        columns = (
            (means, None, moments, None, None)
            if entries.mode
            else (means, None, None, *weights)
        )
        by_partition = map(_Rows, *map(entries.split, columns))
        self._local_rows = [
            dask.delayed(rows, traverse=False)
            for rows in entries.partitions.split([*by_partition])
        ]

    def _shared_state(self) -> Any:
        """The fit without any rows, as a delayed object for all tasks."""
        state: Any = object.__new__(self.local)
        vars(state).update(vars(self))
        del state._local_rows, state._sent_rows
        if self.entries.mode == 0:
            state.row_weights = None  # Those of a partition are with its rows.
        state.row_errors = state.stated_weights = state._stacked_weights = None
        state.likelihood = None
        state.entries = state.means = state.covariances = state.moments = None
        state.mode = self.entries.mode
        return dask.delayed(state, traverse=False)

    def _sent(self, mode: int) -> Any:
        """Means and second moments of a mode's rows, as a delayed pair for all tasks.

        They are sent once after every update of the mode.
        """
        if mode not in self._sent_rows:
            means, _, moments = self.posterior(mode)
            # Copies, because later sweeps write to these arrays.
            pair = means.copy(), moments.copy()
            self._sent_rows[mode] = in_memory(dask.delayed(pair, traverse=False))[0]
        return self._sent_rows[mode]

    def _on_groups(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        left_out: int | None = None,
        **options: Any,
    ) -> list[Any]:
        """Delayed results of a function of every group.

        They are ``function(state, others, group, rows, *arguments)``. The rows of the
        mode `left_out` are not sent.
        """
        self._send_local_rows()
        state, modes = self._shared_state(), range(len(self.entries.shape))
        others = [
            None if mode in (self.entries.mode, left_out) else self._sent(mode)
            for mode in modes
        ]
        function = dask.delayed(function, pure=False, **options)
        groups = zip(self.entries.partitions.groups, self._local_rows, strict=True)
        return [function(state, others, *each, *arguments) for each in groups]

    def update(
        self, mode: int, pool: ThreadPoolExecutor, n_threads: int
    ) -> tuple[float, NDArray[np.float64] | None]:
        """Update the posterior of the rows of one mode; see `RowFit.update`."""
        if mode != self.entries.mode:
            self._sent_rows.pop(mode, None)
            return super().update(mode, pool, n_threads)
        updates = self._on_groups(_updated_rows, self._weightings, nout=2)
        *self._local_rows, total = in_memory(
            *(rows for rows, _ in updates),
            tree_sum(sums for _, sums in updates),
        )
        self._weightings = None
        error, *sums = self.entries.partitions.computed(total)
        self._error_sums, self._row_sums = sums[:3], sums[3:]
        return error, None

    def observed(self, pool: ThreadPoolExecutor, n_threads: int) -> NDArray[np.float64]:
        """Replace the values in all partitions; see `RowFit.observed`."""
        # A copy, because what is learned later must not change the tasks.
        results = self._on_groups(_observed, copy.copy(self.likelihood), nout=2)
        (counts,) = self.entries.take(results)
        return counts

    def _error(self, mode: int, fitted: NDArray[np.float64]) -> float:
        """Expected squared error of all entries, weighted; see `RowFit._error`."""
        if self.entries.mode != 0:
            return super()._error(mode, fitted)
        energy, _, _ = self._error_sums
        return energy + fitted.sum()

    def _unweighted(self, error: float) -> float:
        """Expected squared error of all entries; see `RowFit._unweighted`."""
        if self.entries.mode != 0:
            return super()._unweighted(error)
        return self._error_sums[1] if self._is_weighted else error

    def _excess_squares(self) -> float:
        """Sum over rows of what their errors exceed; see `RowFit._excess_squares`."""
        if self.entries.mode != 0:
            return super()._excess_squares()
        # Rows without entries have no error.
        _, errors, squares = self._error_sums
        excess = squares - 2 * self.noise * errors
        return excess + self.noise**2 * self.entries.n_entries

    def _weigh_by_errors(self, fitted: RowWeighting, stated: RowWeighting) -> None:
        """Compute weights of rows where the rows are; see `RowFit._weigh_by_errors`."""
        if self.entries.mode != 0:
            return super()._weigh_by_errors(fitted, stated)
        self._weightings, self._is_weighted = (fitted, stated), True

    def sums(
        self, mode: int, rows: slice
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Expected sums over the entries of all rows of a mode; see `RowFit.sums`."""
        sums = self._on_groups(_sums, mode, left_out=mode)
        return self.entries.partitions.computed(tree_sum(sums))

    def _learn_weight_means(self) -> None:
        if self.entries.mode != 0:
            return super()._learn_weight_means()
        n_rows, means, _, _ = self._row_sums
        self.prior_mean[0][self.features(0)] = means[self.features(0)] / n_rows

    def row_sums(
        self, mode: int
    ) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
        """Sums over rows from which precisions are learned; see `RowFit.row_sums`."""
        if mode != self.entries.mode:
            return super().row_sums(mode)
        n_rows, means, squares, variances = self._row_sums
        prior = self.prior_mean[mode]
        deviation = squares - 2 * prior * means + n_rows * prior**2
        return n_rows, np.maximum(deviation, 0.0), variances

    def gather(self) -> None:
        """Bring the posterior of all rows, and their weights, into this process."""
        if self._local_rows is None:
            return
        groups, gathered = self.entries.partitions, dask.delayed(_gathered, pure=False)
        pairs = zip(groups.groups, self._local_rows, strict=True)
        by_group = computed(*(gathered(*pair, self._weightings) for pair in pairs))
        columns = zip(*groups.by_partition(by_group), strict=True)
        arrays = self.posterior(self.entries.mode)[:2]
        *posterior, weights, stated_weights = columns
        for target, by_partition in zip(arrays, posterior, strict=True):
            if by_partition[0] is not None:
                np.concatenate(by_partition, out=target)
        if weights[0] is not None:
            self.row_weights = np.concatenate(weights)
        if stated_weights[0] is not None:
            self.stated_weights = np.concatenate(stated_weights)

    def model(self, scale: float) -> Any:
        """The fitted model, with all rows in this process; see `RowFit.model`."""
        self.gather()
        return super().model(scale)


class _DistributedTucker(_DistributedRows, TuckerFit):
    local = TuckerFit

    def _core_sums(
        self, pool: ThreadPoolExecutor, n_threads: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        sums = self._on_groups(_core_sums)
        return self.entries.partitions.computed(tree_sum(sums))


def _local_fit(
    state: Any, others: Sequence[Any], entries: SparseEntries, rows: _Rows
) -> Any:
    """The fit of one partition, from what all share and from the partition's rows."""
    fit = copy.copy(state)
    # Copies, because a task must not change its arguments.
    means, moments = rows.means, rows.moments
    moments = fit.squares(means) if moments is None else moments.copy()
    # Zeros in place of rows that were left out, since the task does not read them.
    posteriors = [
        _zeros_like((means, moments), n) if posterior is None else posterior
        for posterior, n in zip(others, entries.shape, strict=True)
    ]
    posteriors[fit.mode] = means.copy(), moments
    fit.attach(entries, posteriors)
    fit.weigh(fit.row_weights if rows.weights is None else rows.weights)
    return fit


def _zeros_like(
    arrays: Sequence[NDArray[np.floating]], n_rows: int
) -> tuple[NDArray[np.floating], ...]:
    return tuple(np.zeros((n_rows, a.shape[1]), a.dtype) for a in arrays)


def _reweighted(
    rows: _Rows,
    entries: SparseEntries,
    weightings: tuple[RowWeighting, RowWeighting] | None,
) -> _Rows:
    """Rows with new weights, if there are rules to compute them by."""
    if weightings is None:
        return rows
    fitted, stated = (w.weights(rows.errors, entries.row_counts) for w in weightings)
    return rows._replace(weights=fitted, stated_weights=stated)


def _observed(
    state: Any,
    others: Sequence[Any],
    group: _Group,
    group_rows: _GroupRows,
    likelihood: TableLikelihood,
) -> tuple[_Group, tuple[Any, ...]]:
    """A group's entries with their values replaced, energies, and counts."""

    def in_turn(
        partitions: list[SparseEntries], rows: list[_Rows]
    ) -> tuple[list[SparseEntries], NDArray[np.float64]]:
        counts: Any = 0.0
        copies = [entries.with_values_copied() for entries in partitions]
        for pair in zip(copies, rows, strict=True):
            fit = _local_fit(state, others, *pair)
            fit.likelihood = likelihood
            with fit.threads(1) as pool:
                counts = counts + fit.observed(pool, 1)
        return copies, counts

    copies, counts = zip(*by_thread(in_turn, group, group_rows), strict=True)
    return [*copies], (*_energies([*copies], state.mode), sum(counts))


def _updated_rows(
    state: Any,
    others: Sequence[Any],
    group: _Group,
    group_rows: _GroupRows,
    weightings: tuple[RowWeighting, RowWeighting] | None,
) -> tuple[_GroupRows, tuple[Any, ...]]:
    """The updated rows of a group's partitions, and sums over them.

    The sums are the expected squared error of the entries (weighted), the sum of their
    squares (weighted), the errors of the rows and their squares over the numbers of
    entries (of the first mode), the number of rows that have entries, and sums over
    these of means, squared means and variances.
    """
    update = functools.partial(_updated_in_turn, state, others, weightings)
    updated, sums = zip(*by_thread(update, group, group_rows), strict=True)
    return [*updated], _add(*sums)


def _updated_in_turn(
    state: Any,
    others: Sequence[Any],
    weightings: tuple[RowWeighting, RowWeighting] | None,
    partitions: list[SparseEntries],
    before: list[_Rows],
) -> tuple[list[_Rows], tuple[Any, ...]]:
    """The updated rows of some partitions, and sums over them; see `_updated_rows`."""
    updated, sums, mode = [], [], state.mode
    for entries, old in zip(partitions, before, strict=True):
        rows = _reweighted(old, entries, weightings)
        fit = _local_fit(state, others, entries, rows)
        with fit.threads(1) as pool:
            error, _ = fit.update(mode, pool, 1)
        means, covariances, moments = fit.posterior(mode)
        updated.append(
            _Rows(
                means,
                covariances,
                moments,
                rows.weights,
                rows.stated_weights,
                fit.row_errors,
            )
        )
        seen = entries.observed(mode)
        seen_means = means[seen].astype(float)
        variances = covariances[:, diagonal(means.shape[1])][seen].astype(float)
        terms = (x.sum(axis=0) for x in (seen_means, seen_means**2, variances))
        errors = _error_sums(entries, rows.weights, fit.row_errors)
        sums.append((error, *errors, len(seen_means), *terms))
    return updated, _add(*sums)


def _error_sums(
    entries: SparseEntries,
    weights: NDArray[np.float64] | None,
    errors: NDArray[np.float64] | None,
) -> tuple[float, float, float]:
    """Sum of squares of the entries, weighted, and sums of the rows' errors."""
    energy = entries.energy if weights is None else weights @ entries.row_energies
    energy = float(energy)
    if errors is None:
        return energy, 0.0, 0.0
    squares = errors**2 / np.maximum(entries.row_counts, 1)
    return energy, float(errors.sum()), float(squares.sum())


def _gathered(
    group: _Group,
    group_rows: _GroupRows,
    weightings: tuple[RowWeighting, RowWeighting] | None,
) -> list[list[tuple[Any, ...]]]:
    """Means, covariances and weights of the rows of a group's partitions."""
    return [
        [
            (rows.means, rows.covariances, rows.weights, rows.stated_weights)
            for rows in (
                _reweighted(*pair, weightings) for pair in zip(*each, strict=True)
            )
        ]
        for each in zip(group_rows, group, strict=True)
    ]


def _sums(
    state: Any,
    others: Sequence[Any],
    group: _Group,
    group_rows: _GroupRows,
    mode: int,
) -> tuple[NDArray[np.float64], ...]:
    """Sums over the entries of a group, for the rows of another mode."""
    return _total(functools.partial(_mode_sums, mode), state, others, group, group_rows)


def _core_sums(
    state: Any, others: Sequence[Any], group: _Group, group_rows: _GroupRows
) -> tuple[NDArray[np.float64], ...]:
    """Sums over the entries of a group, for the core."""
    return _total(_sums_of_core, state, others, group, group_rows)


def _total(
    sums_of: Callable[[Any], tuple[NDArray[np.float64], ...]],
    state: Any,
    others: Sequence[Any],
    group: _Group,
    group_rows: _GroupRows,
) -> tuple[NDArray[np.float64], ...]:
    """The sum of a function of the fit of every partition of a group."""

    def in_turn(
        partitions: list[SparseEntries], rows: list[_Rows]
    ) -> tuple[NDArray[np.float64], ...]:
        total: Any = None
        for pair in zip(partitions, rows, strict=True):
            sums = sums_of(_local_fit(state, others, *pair))
            total = sums if total is None else _add(total, sums)
        return total

    return _add(*by_thread(in_turn, group, group_rows))


def _mode_sums(mode: int, fit: Any) -> tuple[NDArray[np.float64], ...]:
    with fit.threads(1) as pool:
        slices = list(fit.map_rows(functools.partial(fit.sums, mode), mode, pool, 1))
    return tuple(map(np.concatenate, zip(*slices, strict=True)))


def _sums_of_core(fit: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    with fit.threads(1) as pool:
        return fit._core_sums(pool, 1)
