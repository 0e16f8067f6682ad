"""Observed entries in the partitions of Dask collections.

Each worker checks and randomises its own partitions. Between workers, only coordinates,
which are public, and randomised values travel. Sums over a partition go to the process
that calls `fit`, which adds the noise. Randomised entries are regrouped into shards: a
shard holds all entries of some rows of one of the first two modes, and the factor of
these rows is fitted there (see ``tensor/_distributed.py``). Every result is a function
of the partition, its place among all entries and the key of the release, so any worker
that computes it again gets the same result.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import dask
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from .._random import NoiseStreams
from .._validation import range_of
from ..privacy._conditions import CLIENTS
from ..tensor._distributed import computed, in_memory, tree_sum
from ..tensor._pattern import Pattern, pattern_from
from ..tensor._sums import shared_entries
from ..tensor._unit_entries import UnitEntries
from ._domain import Domain
from ._draws import MOST_COMPARED, signs
from ._entries import Entries
from ._partitioned_draws import PartitionedDraws, Shard
from ._partitioned_pattern import PartitionedPattern
from ._partitioned_units import PartitionedUnits
from ._partitions import coordinates_of, map_partitions, paired_partitions, values_of
from ._unit_rows import LocalRows
from ._values import EntryRandomizer

_CHANGED = (
    "A partition no longer holds the entries that were checked. Pass Dask collections "
    "that give the same data each time."
)
# Largest number of shards.
_MOST_SHARDS = 256


def partitioned_entries(
    X: Any,
    y: Any,
    shape: tuple[int, ...] | None,
    name: str,
    unit: int | None = None,
) -> "PartitionedEntries":
    """Check all entries of Dask collections, and count them.

    Parameters
    ----------
    X : dask.dataframe.DataFrame or dask.array.Array of shape (n, n_modes)
    y : dask.dataframe.Series or dask.array.Array of shape (n,)
        With the same partitions as `X`, or with its index and known divisions.
    shape : tuple of int or None
        None takes the smallest shape that holds the coordinates.
    name : str
        Name of the estimator, for messages.
    unit : int, default=None
        The mode of protected units; None protects entries.

    Returns
    -------
    entries : PartitionedEntries
    """
    partitions = paired_partitions(X, y)
    described = computed(*map_partitions(partitions, _described, (shape, name)))
    lengths, partition_counts, dtypes, lows, highs = zip(*described, strict=True)
    counts = [_total_counts(of_mode) for of_mode in zip(*partition_counts, strict=True)]
    if shape is not None:
        counts = [
            np.pad(c, (0, n - len(c))) for c, n in zip(counts, shape, strict=True)
        ]
    of_entries = [d for d, n in zip(dtypes, lengths, strict=True) if n]
    dtype = np.result_type(*(of_entries or dtypes))
    spans = [list(map(_span, c)) for c in partition_counts]
    limits = min(lows), max(highs)
    return PartitionedEntries(
        partitions, list(lengths), spans, counts, dtype, limits, name, unit
    )


def _row_counts(
    column: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.unsignedinteger]]:
    """The rows of a mode that a partition has, ascending, and their numbers of entries.

    No larger than the coordinates, however many rows the mode has.
    """
    rows, counts = np.unique(column, return_counts=True)
    return rows, counts.astype(np.min_scalar_type(counts.max(initial=0)))


def _total_counts(
    row_counts: Sequence[tuple[NDArray[np.int32], NDArray[np.unsignedinteger]]],
) -> NDArray[np.int64]:
    """Number of entries of every row, in all partitions."""
    last = max((int(rows[-1]) for rows, _ in row_counts if len(rows)), default=-1)
    total = np.zeros(last + 1, dtype=np.int64)
    for rows, counts in row_counts:
        total[rows] += counts
    return total


def _span(
    row_counts: tuple[NDArray[np.int32], NDArray[np.unsignedinteger]],
) -> tuple[int, int] | None:
    """First row with an entry, and one past the last; None without entries."""
    rows, _ = row_counts
    return (int(rows[0]), int(rows[-1]) + 1) if len(rows) else None


def _described(
    partition: Any, _: int, checks: tuple[tuple[int, ...] | None, str]
) -> tuple[int, list[Any], np.dtype, float, float]:
    """Check a partition; return its length, counts, dtype, least and largest value."""
    where, values = coordinates_of(partition, checks), values_of(partition)
    if len(where) != len(values):
        raise ValueError("A partition of X has another length than its partition of y.")
    counts = [_row_counts(column) for column in where.T]
    low, high = (values.min(), values.max()) if len(values) else (math.inf, -math.inf)
    return len(values), counts, values.dtype, float(low), float(high)


@dataclass(frozen=True, eq=False)
class PartitionedEntries:
    """Observed entries in partitions, with their counts; see `Entries`.

    Attributes
    ----------
    partitions : dask.dataframe.DataFrame or list of pairs of Delayed
        Coordinates and values.
    lengths : list of int
        Number of entries of every partition.
    spans : list of lists of (int, int) or None
        For every partition and mode, the first row with an entry and one past the last;
        None without entries.
    counts : list by mode of ndarray of shape (size of the mode,), int
        Number of entries of every row.
    dtype : dtype
        Type of the values.
    limits : tuple of float
        Least and largest value; private.
    name : str
        Name of the estimator, for messages.
    unit : int or None, default=None
        The mode of protected units; None protects entries.
    order : tuple of int, default=None
        Order of the modes in `shape`; None for that of the tensor.
    received : bool, default=False
        Whether clients have randomised the values.
    """

    partitions: Any
    lengths: list[int]
    spans: list[Any]
    counts: list[np.ndarray]
    dtype: Any
    limits: tuple[float, float]
    name: str
    unit: int | None = None
    order: tuple[int, ...] | None = None
    received: bool = False

    is_dense, noise, observed = False, None, None

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a guarantee of a fit to these entries rests on besides."""
        return (CLIENTS,) * self.received

    def check_supported(self, measurement: Any) -> None:
        """Refuse a measurement that needs all entries in one place."""
        if self.mode in measurement.problem.smooth_modes:
            raise ValueError(
                f"For Dask input, smooth_modes must not contain mode {self.mode}: the "
                f"rows of the larger of the first two modes are divided among workers."
            )
        if measurement.name == "statistics" and not measurement.uses_features:
            raise ValueError(
                "For Dask input, perturbation='statistics' needs features: "
                "side_information, or a pattern (n_pattern_components > 0)."
            )

    def ask(self, question: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
        """Answers to a question, one of every partition; see `Entries.ask`."""
        return self.of_partitions(_answer, self.shape, question, *arguments)

    def without_values(
        self, order: Sequence[int] | None = None
    ) -> "PartitionedEntries":
        """These entries; see `Entries`. Their values stay in the partitions."""
        if order is None or list(order) == sorted(order):
            return self
        return replace(self, order=tuple(order))

    @property
    def value_range(self) -> tuple[float, float]:
        """Least and largest value; private."""
        return range_of(self.limits)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        order = range(len(self.counts)) if self.order is None else self.order
        return tuple(len(self.counts[mode]) for mode in order)

    @property
    def used_indices(self) -> list[NDArray[np.integer]]:
        """Indices that have entries, mode by mode."""
        return [np.flatnonzero(counts) for counts in self.counts]

    @property
    def n_entries(self) -> int:
        """Number of entries in all partitions."""
        return sum(self.lengths)

    @cached_property
    def mode(self) -> int:
        """The mode whose rows are divided among shards.

        It is that of protected units, or else the larger of the first two.
        """
        if self.unit is not None:
            return self.unit
        return int(np.argmax(self.shape[:2]))

    @cached_property
    def cuts(self) -> NDArray[np.int64]:
        """Boundaries of the shards: shard k has the rows cuts[k] to cuts[k + 1].

        If the partitions are sorted by row and none shares a row with another, shards
        follow the partitions, so that entries stay on their workers. Otherwise, shards
        have about equal numbers of entries.
        """
        counts = self.counts[self.mode]
        size = len(counts)
        spans = [span for span in self._mode_spans if span]
        if all(before[1] <= after[0] for before, after in pairwise(spans)):
            starts = [first for first, _ in spans[1:]]
            return np.array([0, *starts[:: len(starts) // _MOST_SHARDS + 1], size])
        n = min(len(self.lengths), _MOST_SHARDS, size)
        ends = np.linspace(0, self.n_entries, n + 1)[1:-1]
        return np.unique([0, *np.searchsorted(np.cumsum(counts), ends), size])

    @property
    def _mode_spans(self) -> list[tuple[int, int] | None]:
        """Spans of the partitions in the mode that is divided among shards."""
        return [of_partition[self.mode] for of_partition in self.spans]

    @cached_property
    def coordinates(self) -> tuple[Delayed, ...]:
        """Coordinates by shard, in memory; rows of the mode count from each cut."""
        pieces = self._map(_split_coordinates, self.cuts, self.mode)
        return self._joined_by_shard(pieces)

    def _map(self, function: Callable[..., Any], *arguments: Any) -> list[Delayed]:
        checks = tuple(map(len, self.counts)), self.name
        return map_partitions(self.partitions, function, checks, *arguments)

    def randomized(
        self, randomizer: EntryRandomizer, streams: NoiseStreams | None
    ) -> PartitionedDraws:
        """Randomise the values in the partitions; see `EntryRandomizer.draw`."""
        first = np.cumsum([0, *self.lengths]).tolist()
        every = math.ceil(self.n_entries / MOST_COMPARED)
        sent = None if streams is None else streams.sent()
        noise = randomizer, sent, every, first
        pieces = self._map(_split_draws, self.cuts, self.mode, noise)
        return PartitionedDraws(self, randomizer, self._joined_by_shard(pieces))

    def pattern(self, n_components: int | None) -> Pattern:
        """Features of the rows of the second mode; see `pattern_of`."""
        decompose = PartitionedPattern(self).decompose
        return pattern_from(self.counts, n_components, decompose)

    def shared(self) -> "PartitionedEntries":
        """The entries themselves act as their `shared_entries`."""
        return self

    def of_partitions(
        self, function: Callable[..., Any], *arguments: Any
    ) -> tuple[Any, ...]:
        """Compute a function of every partition."""
        return computed(*self._map(function, *arguments))

    @cached_property
    def _gram(self) -> tuple[Delayed, ...]:
        """Numbers of entries that two rows share, shard by shard, in memory."""
        make = dask.delayed(_shared, pure=False)
        pairs = zip(self.coordinates, self.shard_shapes, strict=True)
        return in_memory(*(make(*pair) for pair in pairs))

    @property
    def shard_shapes(self) -> Iterator[tuple[int, ...]]:
        """Sizes of the modes in every shard."""
        for size in np.diff(self.cuts).tolist():
            yield *self.shape[: self.mode], size, *self.shape[self.mode + 1 :]

    def diagonal(self) -> NDArray[np.float64]:
        """Diagonal of the matrix `shared_entries` of all coordinates."""
        return np.concatenate(self.counts).astype(float)

    def __matmul__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Product of the matrix `shared_entries` with a vector or matrix."""
        multiply = dask.delayed(_shared_product, nout=2, pure=False)
        by_mode: list[Any] = np.split(x, np.cumsum(self.shape)[:-1])
        by_shard = np.split(by_mode[self.mode], self.cuts[1:-1])
        by_mode[self.mode] = None
        others = dask.delayed(by_mode, traverse=False)
        pairs = zip(self._gram, by_shard, strict=True)
        products = [multiply(gram, shard_rows, others) for gram, shard_rows in pairs]
        rows, total = computed(
            [shard for shard, _ in products], tree_sum(other for _, other in products)
        )
        product = list(total)
        product.insert(self.mode, np.concatenate(rows))
        return np.concatenate(product)

    def _joined_by_shard(self, pieces: list[Any]) -> tuple[Delayed, ...]:
        """Join the pieces of all partitions, which are split by shard, in memory."""
        join = dask.delayed(_joined, pure=False)
        return in_memory(*(join(*of_shard) for of_shard in self._by_shard(pieces)))

    def _by_shard(self, pieces: list[Any]) -> Iterator[list[Any]]:
        """Yields the pieces of every shard, at least one."""
        for k, (first, last) in enumerate(pairwise(self.cuts.tolist())):
            overlapping = [
                partition_pieces[k]
                for partition_pieces, span in zip(pieces, self._mode_spans, strict=True)
                if span and span[0] < last and first < span[1]
            ]
            yield overlapping or [pieces[0][k]]

    def with_rows_of(self, units: PartitionedUnits, fitted: Any) -> Any:
        """A fit to these entries; the rows of units stay where their entries are."""
        return replace(fitted, local=LocalRows(elsewhere=units))

    def by_unit(self, domain: Domain, _: int) -> PartitionedUnits:
        """All entries of every unit together, on the workers.

        Parameters
        ----------
        domain : Domain
            Domain to which values are clipped.
        """
        pieces = self._map(_split_units, self.cuts, self.mode, self.lengths, domain)
        join = dask.delayed(_joined_units, pure=False)
        sizes = np.split(self.counts[self.mode], self.cuts[1:-1])
        shards = [
            join(first, of_units, domain.centred_levels, *of_shard)
            for first, of_units, of_shard in zip(
                self.cuts.tolist(), sizes, self._by_shard(pieces), strict=False
            )
        ]
        return PartitionedUnits(shards, self.cuts)


def _answer(
    partition: Any,
    _: int,
    checks: tuple[tuple[int, ...] | None, str],
    shape: tuple[int, ...],
    question: Callable[..., Any],
    *arguments: Any,
) -> Any:
    """Answer of a partition to a question; see `Entries.ask`."""
    where, values = coordinates_of(partition, checks), values_of(partition)
    return question(Entries(where, values, shape), *arguments)


def _shared(
    coordinates: tuple[NDArray[np.int32]], shape: tuple[int, ...]
) -> tuple[Any, NDArray[np.int64]]:
    (where,) = coordinates
    return shared_entries(where, shape), np.cumsum(shape)[:-1]


def _shared_product(
    shared: tuple[Any, NDArray[np.int64]],
    shard_rows: NDArray[np.float64],
    others: list[NDArray[np.float64] | None],
) -> tuple[NDArray[np.float64], tuple[NDArray[np.float64], ...]]:
    """Product for the rows of a shard, and its terms for rows of the other modes."""
    gram, ends = shared
    x = [shard_rows if rows is None else rows for rows in others]
    product = np.split(gram @ np.concatenate(x), ends)
    mode = next(m for m, rows in enumerate(others) if rows is None)
    return product.pop(mode), tuple(product)


def _split_coordinates(
    partition: Any,
    _: int,
    checks: tuple[tuple[int, ...] | None, str],
    cuts: NDArray[np.int64],
    mode: int,
) -> tuple[tuple[NDArray[np.int32]], ...]:
    """Coordinates of a partition, split by shard."""
    where = coordinates_of(partition, checks)
    order, ends = _order(where[:, mode], cuts)
    where[:, mode] -= cuts[:-1].astype(np.int32)[_shard_numbers(where[:, mode], cuts)]
    return tuple((piece,) for piece in np.split(where[order], ends))


def _split_draws(
    partition: Any,
    number: int,
    checks: tuple[tuple[int, ...] | None, str],
    cuts: NDArray[np.int64],
    mode: int,
    noise: tuple[EntryRandomizer, NoiseStreams | None, int, list[int]],
) -> tuple[Shard, ...]:
    """What is drawn for a partition, and its signs, split by shard."""
    randomizer, streams, every, first = noise
    start, end = first[number : number + 2]
    where, raw = coordinates_of(partition, checks), values_of(partition)
    # The same noise on other values would reveal differences.
    if not len(where) == len(raw) == end - start:
        raise RuntimeError(_CHANGED)
    drawn = randomizer.draw(raw, streams, start, first[-1])
    tags = signs(start, end)
    tags[-start % every :: every] *= 2
    order, ends = _order(where[:, mode], cuts)
    pieces = (np.split(column[order], ends) for column in (drawn, tags))
    return tuple(zip(*pieces, strict=True))


def _split_units(
    partition: Any,
    number: int,
    checks: tuple[tuple[int, ...] | None, str],
    cuts: NDArray[np.int64],
    mode: int,
    lengths: list[int],
    domain: Domain,
) -> tuple[tuple[NDArray[np.int32], NDArray[Any]], ...]:
    """Coordinates, that of the unit first, and values of a partition, by shard."""
    where, raw = coordinates_of(partition, checks), values_of(partition)
    if not len(where) == len(raw) == lengths[number]:
        raise RuntimeError(_CHANGED)
    order, ends = _order(where[:, mode], cuts)
    others = [k for k in range(where.shape[1]) if k != mode]
    where, own = where[:, [mode, *others]][order], domain.kept(raw)[order]
    return tuple(zip(np.split(where, ends), np.split(own, ends), strict=True))


def _joined_units(
    first: int,
    sizes: NDArray[np.int64],
    levels: NDArray[np.floating] | None,
    *pieces: tuple[NDArray[np.int32], NDArray[Any]],
) -> UnitEntries:
    """The entries of all units of a shard, each with as many as were counted."""
    where, values = _joined(*pieces)
    found = np.bincount(where[:, 0] - first, minlength=len(sizes))
    if not np.array_equal(found, sizes):
        raise RuntimeError(_CHANGED)
    return UnitEntries(where, values, levels)


def _shard_numbers(
    rows: NDArray[np.int32], cuts: NDArray[np.int64]
) -> NDArray[np.intp]:
    return np.searchsorted(cuts, rows, side="right") - 1


def _order(
    rows: NDArray[np.int32], cuts: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Order of entries by shard, and the ends of the shards in that order."""
    numbers = _shard_numbers(rows, cuts)
    ends = np.cumsum(np.bincount(numbers, minlength=len(cuts) - 1))[:-1]
    return np.argsort(numbers, kind="stable"), ends


def _joined(*pieces: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
    return tuple(map(np.concatenate, zip(*pieces, strict=True)))
