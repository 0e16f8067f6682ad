"""Observed entries in Dask collections.

A task answers a question about the entries of one partition or one chunk. A chunk has
all entries of some rows of one mode; a shuffle brings them together. Answers are added
up in a tree. Workers keep chunks in memory and, while a model is fitted, the rows that
belong to them. Every answer is a function of the entries, of the question and, where
values are randomised, of the key of the release and the number of the partition's first
entry. So it does not matter which worker computes an answer, or how often: lost answers
are computed again.
"""

from __future__ import annotations

import math
import secrets
import uuid
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import blake2b
from itertools import pairwise, starmap
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import dask
import numpy as np
from dask.delayed import Delayed
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from .._extras import imported
from .._random import NoiseStreams
from .._validation import range_of
from ..measure import Question
from ..privacy._conditions import CLIENTS
from ..tensor._leading_terms import product, scaled_gram, with_random_signs
from ..tensor._observations import Observations, Total
from ..tensor._pattern import Pattern, leading_pattern, pattern_from
from ..tensor._rows import ModeRows, Rows, SomeRows
from ..tensor._threads import one_blas_thread
from ..tensor._unit_entries import UnitEntries
from ._domain import Domain
from ._entries import MOST_COMPARED, Entries, entries_of, signs
from ._likely_mistakes import check_extent
from ._local import AnswersUnits, ForSomeRows
from ._sources import Answer, Answering, Supported
from ._values import EntryRandomizer

if TYPE_CHECKING:
    from pandas import DataFrame

DaskCollection = Any
"""A frame, series or array of Dask, whose methods have no annotations."""

_Checks = tuple[tuple[int, ...] | None, str, float | None, bytes]
# A function that reads columns of the entries of a partition.
_Columns = Callable[..., tuple[NDArray[Any], ...]]
# The split mode, a function of rows and a chunk, the rows, and further arguments.
_Question = tuple[int, Callable[..., Any], Rows, tuple[object, ...]]
# Name of the column of values in a frame that also holds the coordinates.
_VALUE = "value that is observed"
_CHANGED = (
    "A partition no longer holds the entries that were checked, in the same order. "
    "Pass Dask collections that give the same data each time."
)


class _Part(NamedTuple):
    """The entries of a partition: its number, their coordinates and values."""

    number: int
    where: NDArray[np.int32]
    values: NDArray[np.floating]


class _Description(NamedTuple):
    """Counts of a partition, made when it is first read.

    Attributes
    ----------
    n_entries : int
    counts : list by mode of (ndarray, ndarray)
        Rows that have entries, ascending, and their numbers of entries. These arrays
        are no larger than the coordinates, however many rows the mode has.
    dtype : dtype
        Type of the values.
    low, high : float
        Least and largest value.
    digest : bytes
        Keyed hash, which shows later whether the entries are still the same.
    """

    n_entries: int
    counts: list[Any]
    dtype: np.dtype[Any]
    low: float
    high: float
    digest: bytes


def partitioned_entries(
    X: DaskCollection,
    y: DaskCollection,
    shape: tuple[int, ...] | None,
    name: str,
    unit: int | None = None,
    missing_values: float | None = None,
) -> PartitionedEntries:
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
    missing_values : float, default=None
        See `is_observed`.

    Returns
    -------
    entries : PartitionedEntries
    """
    partitions = paired_partitions(X, y)
    checks = shape, name, missing_values, secrets.token_bytes(16)
    described = computed(*map_partitions(partitions, "_described", _described, checks))
    of_modes = zip(*(d.counts for d in described), strict=True)
    used, counts = zip(*starmap(_added_counts, of_modes), strict=True)
    if shape is None:
        shape = tuple(int(rows[-1]) + 1 if len(rows) else 0 for rows in used)
        sizes = [size if k != unit else 0 for k, size in enumerate(shape)]
        check_extent(sizes, sum(d.n_entries for d in described))
    return PartitionedEntries(partitions, checks, described, shape, used, counts, unit)


def _added_counts(
    *of_parts: tuple[NDArray[np.int32], NDArray[np.int64]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of a mode that have entries, ascending, and their numbers of entries."""
    rows, numbers = map(np.concatenate, zip(*of_parts, strict=True))
    used, places = np.unique(rows, return_inverse=True)
    counts = np.zeros(len(used), dtype=np.int64)
    np.add.at(counts, places, numbers)
    return used.astype(np.int64), counts


def _described(
    partition: DataFrame | list[ArrayLike], _: int, checks: _Checks
) -> _Description:
    """Check a partition, and count its entries."""
    where, values, digest = _read(partition, *checks)
    counts = [np.unique(column, return_counts=True) for column in where.T]
    low, high = (values.min(), values.max()) if len(values) else (math.inf, -math.inf)
    limits = float(low), float(high)
    return _Description(len(values), counts, values.dtype, *limits, digest)


def _read(
    partition: DataFrame | list[ArrayLike],
    shape: tuple[int, ...] | None,
    name: str,
    missing_values: float | None,
    key: bytes,
) -> tuple[NDArray[np.int32], NDArray[np.floating], bytes]:
    """Checked coordinates and values of a partition, and their digest."""
    X, y = coordinates_and_values(partition)
    where, values = entries_of(X, y, shape, name, missing_values)
    digest = blake2b(np.ascontiguousarray(where).data, key=key, digest_size=16)
    digest.update(np.ascontiguousarray(values).data)
    return where, values, digest.digest()


@dataclass(frozen=True, eq=False)
class PartitionedEntries:
    """Observed entries in partitions, with their counts; see `Entries`.

    Attributes
    ----------
    partitions : dask.dataframe.DataFrame or list of pairs of Delayed
        Coordinates and values.
    checks : tuple
        Declared shape, name of the estimator, `missing_values`, and key of the digests.
    described : sequence of _Description
    shape : tuple of int
        Sizes of the modes.
    used_indices : sequence by mode of ndarray of int
        Rows that have entries, ascending.
    numbers : sequence by mode of ndarray of int
        Their numbers of entries. A mode of users may have far more rows than memory has
        room for counts.
    unit : int or None, default=None
        The mode of protected units; None protects entries.
    received : bool, default=False
        Whether clients have randomised the values.
    """

    partitions: DaskCollection | list[list[Delayed]]
    checks: _Checks = field(repr=False)
    described: Sequence[_Description] = field(repr=False)
    shape: tuple[int, ...]
    used_indices: Sequence[NDArray[np.int64]] = field(repr=False)
    numbers: Sequence[NDArray[np.int64]] = field(repr=False)
    unit: int | None = None
    received: bool = False

    is_dense, noise, observed = False, None, None

    @property
    def conditions(self) -> tuple[str, ...]:
        """Further conditions of the guarantee of a fit to these entries."""
        return (CLIENTS,) * self.received

    def check_supported(self, measurement: Supported) -> None:
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

    def without_values(self) -> PartitionedEntries:
        """These entries; see `Entries`. Their values stay in the partitions."""
        return self

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        of_entries = [d.dtype for d in self.described if d.n_entries]
        return np.result_type(*(of_entries or [d.dtype for d in self.described]))

    @property
    def value_range(self) -> tuple[float, float]:
        """Least and largest value, which must be a range; private."""
        return range_of(self.extremes)

    @property
    def extremes(self) -> tuple[float, float]:
        """Least and largest value; private."""
        lows, highs = zip(*((d.low, d.high) for d in self.described), strict=True)
        return min(lows), max(highs)

    @cached_property
    def counts(self) -> list[NDArray[np.int64]]:
        """Number of entries in every row, mode by mode; only if entries are protected.

        There may be too many rows of protected units.
        """
        counts = [np.zeros(size, dtype=np.int64) for size in self.shape]
        for of_mode, used, numbers in zip(
            counts, self.used_indices, self.numbers, strict=True
        ):
            of_mode[used] = numbers
        return counts

    @property
    def n_entries(self) -> int:
        """Number of entries in all partitions."""
        return sum(d.n_entries for d in self.described)

    @property
    def mode(self) -> int:
        """The mode by whose rows entries are divided into chunks.

        It is the mode of protected units, or else the larger of the first two.
        """
        return int(np.argmax(self.shape[:2])) if self.unit is None else self.unit

    @cached_property
    def cuts(self) -> NDArray[np.int64]:
        """Boundaries of the chunks: chunk k has the rows cuts[k] to cuts[k + 1].

        Every worker has one, with about as many entries as the others. Without workers,
        there is one for each partition. At most 256 are made.
        """
        client = getattr(dask.base.get_scheduler(), "__self__", None)
        n_workers = len(getattr(client, "nthreads", dict)())
        n = min(n_workers or len(self.described), 256)
        ends = np.linspace(0, self.n_entries, n + 1)[1:-1]
        before = np.cumsum(self.numbers[self.mode])
        rows = np.append(self.used_indices[self.mode], self.shape[self.mode])
        inside = rows[np.searchsorted(before, ends, side="right")]
        return np.unique([0, *inside, self.shape[self.mode]])

    def ask(
        self, question: Callable[..., Answer], *arguments: object
    ) -> tuple[Answer, ...]:
        """Answers to a question, one from each partition; see `Entries.ask`."""
        return computed(*self._map(_answer, self.shape, question, *arguments))

    def summed(
        self, contribute: Callable[..., Sequence[NDArray[Any]]], question: Question
    ) -> tuple[list[NDArray[Any]], None]:
        """Sum the contributions of all entries to a release; see `People`."""
        totals = [one.zeros() for one in question.sums]
        known = self.shape, contribute, question
        for of_part in computed(*self._map(_contributed, *known)):
            for total, (places, sums) in zip(totals, of_part, strict=True):
                total[places] += sums
        return totals, None

    def _map(self, function: Callable[..., object], *arguments: object) -> list[Any]:
        """Apply a function to the entries of every partition, lazily."""
        known = function, [d.digest for d in self.described], self.checks
        name = function.__name__
        return map_partitions(self.partitions, name, _on_the_same, *known, *arguments)

    def _shuffled(
        self, join: Callable[..., object], columns: _Columns, *arguments: object
    ) -> Iterator[Delayed]:
        """Bring the entries of each chunk together, column by column, lazily."""
        split_by = self.cuts, self.mode, columns
        pieces = self._map(_split, *split_by, *arguments)
        rows = [d.counts[self.mode][0] for d in self.described]
        for k, (first, last) in enumerate(pairwise(self.cuts.tolist())):
            has_some = [len(r) and r[0] < last and first <= r[-1] for r in rows]
            own = [p[k] for p, has in zip(pieces, has_some, strict=True) if has]
            yield task(join)(*(own or [pieces[0][k]]))

    def randomized(
        self, randomizer: EntryRandomizer, streams: NoiseStreams | None
    ) -> PartitionedDraws:
        """Randomise the values in the partitions; see `EntryRandomizer.draw`."""
        first = np.cumsum([0, *(d.n_entries for d in self.described)]).tolist()
        sent = None if streams is None else streams.sent()
        known = randomizer, sent, first, self.received
        drawn = self._shuffled(_joined, _draws, *known)
        return PartitionedDraws(self, randomizer, in_memory(*drawn))

    def pattern(self, n_components: int | None) -> Pattern:
        """Features of the rows of the second mode; see `pattern_of`."""
        chunks = in_memory(*self._shuffled(_joined, _coordinates))
        return pattern_from(self.counts, n_components, partial(self._decompose, chunks))

    def _decompose(
        self, chunks: Sequence[Delayed], n_values: int, at_random: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Singular values and right vectors of the incidence; see `pattern_from`."""
        pair = self.mode, 1 - self.mode
        used = [self.used_indices[mode] for mode in pair]
        counts: list[NDArray[np.integer]] = [self.numbers[mode] for mode in pair]
        cuts = np.searchsorted(used[0], self.cuts)
        chance = counts[1] / self.n_entries if at_random else None
        columns = shared((pair, used[1], chance))
        pairs = enumerate(zip(chunks, pairwise(cuts), strict=True))
        matrices = (
            task(_incidence)(chunk, used[0][a:b], columns, k)
            for k, (chunk, (a, b)) in pairs
        )
        of_modes = counts[::-1] if self.mode else counts
        found = ChunkedMatrix(in_memory(*matrices), cuts, of_modes, self.mode)
        return leading_pattern(found, n_values)

    def shared(self) -> SharedEntries:
        """Numbers of entries that two rows share; see `shared_entries`."""
        join = partial(_rows_of_entries, self.shape)
        return SharedEntries(
            in_memory(*self._shuffled(join, _coordinates)), np.concatenate(self.counts)
        )

    def by_unit(self, domain: Domain, unit: int) -> PartitionedUnits:
        """Group the entries by unit, on the workers.

        Parameters
        ----------
        domain : Domain
            Domain to which values are clipped.
        unit : int
        """
        join = partial(_joined_units, domain.centred_levels)
        return PartitionedUnits(self._shuffled(join, _clipped, unit, domain), self.cuts)

    def with_rows_of(self, units: PartitionedUnits, fitted: Answering) -> Answering:
        """The fitted model; the workers keep the rows of units."""
        return fitted.with_units_elsewhere(units)


def _on_the_same(
    partition: DataFrame | list[ArrayLike],
    number: int,
    function: Callable[..., Answer],
    digests: Sequence[bytes],
    checks: _Checks,
    *arguments: object,
) -> Answer:
    """Apply a function to a partition, if it still holds the entries that were checked.

    The same noise on changed values would reveal the differences.
    """
    where, values, digest = _read(partition, *checks)
    if digest != digests[number]:
        raise RuntimeError(_CHANGED)
    return function(_Part(number, where, values), *arguments)


def _answer(
    part: _Part,
    shape: tuple[int, ...],
    question: Callable[..., Answer],
    *arguments: object,
) -> Answer:
    return question(Entries(part.where, part.values, shape), *arguments)


def _contributed(
    part: _Part,
    shape: tuple[int, ...],
    contribute: Callable[..., Sequence[NDArray[Any]]],
    question: Question,
) -> list[tuple[NDArray[np.intp], NDArray[Any]]]:
    """The nonzero sums over a partition, and their positions."""
    totals = contribute(Entries(part.where, part.values, shape), question)
    places = map(np.flatnonzero, totals)
    return [(own, total[own]) for own, total in zip(places, totals, strict=True)]


def _split(
    part: _Part,
    cuts: NDArray[np.int64],
    mode: int,
    columns: _Columns,
    *arguments: object,
) -> tuple[tuple[NDArray[Any], ...], ...]:
    """Split columns of a partition's entries by chunk; entries keep their order."""
    numbers = np.searchsorted(cuts, part.where[:, mode], side="right") - 1
    ends = np.cumsum(np.bincount(numbers, minlength=len(cuts) - 1))[:-1]
    order, found = np.argsort(numbers, kind="stable"), columns(part, *arguments)
    return tuple(zip(*(np.split(c[order], ends) for c in found), strict=True))


def _joined(*pieces: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
    return tuple(map(np.concatenate, zip(*pieces, strict=True)))


def _coordinates(part: _Part) -> tuple[NDArray[np.int32]]:
    return (part.where,)


def _draws(
    part: _Part,
    randomizer: EntryRandomizer,
    streams: NoiseStreams | None,
    first: list[int],
    received: bool,
) -> tuple[NDArray[Any], ...]:
    """Coordinates, draws and signs; signs are doubled for values to compare."""
    start, end = first[part.number : part.number + 2]
    drawn = randomizer.draw(part.values, streams, start, first[-1], received=received)
    every, tags = math.ceil(first[-1] / MOST_COMPARED), signs(start, end)
    tags[-start % every :: every] *= 2
    return part.where, drawn, tags


def _clipped(part: _Part, unit: int, domain: Domain) -> tuple[NDArray[Any], ...]:
    """Coordinates, with the unit's mode first, and clipped values."""
    others = [k for k in range(part.where.shape[1]) if k != unit]
    return part.where[:, [unit, *others]], domain.kept(part.values)


def _joined_units(
    levels: NDArray[np.floating] | None, *pieces: tuple[NDArray[Any], ...]
) -> UnitEntries:
    """All entries of the units of a chunk."""
    where, values = _joined(*pieces)
    return UnitEntries(where, values, levels)


# --- products with matrices of public numbers ----------------------------------------


class SharedEntries(NamedTuple):
    """Numbers of entries that two rows share, as an operator; see `shared_entries`.

    Attributes
    ----------
    chunks : sequence of Delayed of csr_array
        Each entry has a row, with a one in the column of its row in every mode.
    counts : ndarray of shape (n_rows,), int
    """

    chunks: Sequence[Delayed]
    counts: NDArray[np.integer]

    def diagonal(self) -> NDArray[np.float64]:
        """Number of entries of every row, one mode after the other."""
        return self.counts.astype(float)

    def __matmul__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Product with a vector or a matrix."""
        sent = shared(x)
        products = (task(_shared_product)(chunk, sent) for chunk in self.chunks)
        return computed(tree_sum(products))[0][0]


def _rows_of_entries(
    sizes: tuple[int, ...], *pieces: tuple[NDArray[np.int32]]
) -> sparse.csr_array:
    (where,), first = _joined(*pieces), np.cumsum([0, *sizes])
    columns = (where + first[:-1]).ravel()
    starts = np.arange(0, len(columns) + 1, len(sizes))
    ones, shape = np.ones(len(columns)), (len(where), int(first[-1]))
    return sparse.csr_array((ones, columns, starts), shape=shape)


def _shared_product(
    entries: sparse.csr_array, x: NDArray[np.float64]
) -> tuple[NDArray[np.float64]]:
    return (entries.T @ (entries @ x),)


class ChunkedMatrix(NamedTuple):
    """A matrix with the rows of one mode, in chunks; see `LocalMatrix`.

    Attributes
    ----------
    matrices : sequence of Delayed of csr_array
        In memory.
    cuts : ndarray of shape (n_chunks + 1,), int
        Chunk k has the rows cuts[k] to cuts[k + 1].
    counts, mode
        See `LocalMatrix`.
    """

    matrices: Sequence[Delayed]
    cuts: NDArray[np.integer]
    counts: list[NDArray[np.integer]]
    mode: int

    def gram(
        self,
        weights: list[NDArray[np.float64]],
        vectors: NDArray[np.float64],
        flipped: bool = False,
    ) -> NDArray[np.float64]:
        """A' A times vectors; see `LocalMatrix`."""
        products = self._tasks(_matrix_gram, weights, vectors, flipped)
        return computed(tree_sum(products))[0][0]

    def project(
        self, weights: list[NDArray[np.float64]], vectors: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """A times vectors; see `LocalMatrix`."""
        return np.concatenate(computed(*self._tasks(_matrix_product, weights, vectors)))

    def _tasks(
        self,
        function: Callable[..., object],
        weights: list[NDArray[np.float64]],
        *arguments: object,
    ) -> list[Delayed]:
        (own, other), run = weights, task(function)
        sent = shared((other, *arguments))
        triples = zip(self.matrices, pairwise(self.cuts), strict=True)
        return [run(m, own[a:b], k, sent) for k, (m, (a, b)) in enumerate(triples)]


def _matrix_gram(
    matrix: sparse.csr_array,
    own: NDArray[np.float64],
    number: int,
    sent: tuple[NDArray[np.float64], NDArray[np.float64], bool],
) -> tuple[NDArray[np.float64]]:
    other, vectors, flipped = sent
    signed = with_random_signs(matrix, (0, number)) if flipped else matrix
    return (scaled_gram(signed, own, other, vectors),)


def _matrix_product(
    matrix: sparse.csr_array,
    own: NDArray[np.float64],
    _: int,
    sent: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> NDArray[np.float64]:
    return own[:, np.newaxis] * product(matrix, *sent)


def _incidence(
    chunk: tuple[NDArray[np.int32]],
    rows: NDArray[np.integer],
    columns: tuple[tuple[int, int], NDArray[np.integer], NDArray[np.float64] | None],
    k: int,
) -> sparse.csr_array:
    """Incidence of the rows of a chunk, or one with random columns."""
    (where,), ((mode, other), used, chance) = chunk, columns
    if chance is None:
        column = np.searchsorted(used, where[:, other])
    else:
        generator = np.random.default_rng((0, k))
        column = generator.choice(len(used), size=len(where), p=chance)
    at = np.ones(len(where)), (np.searchsorted(rows, where[:, mode]), column)
    return sparse.coo_array(at, shape=(len(rows), len(used))).tocsr()


# --- fits to randomised values -------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PartitionedDraws:
    """Randomised values of all observed entries, by chunk; see `Draws`.

    Attributes
    ----------
    entries : PartitionedEntries
    randomizer : EntryRandomizer
    chunks : sequence of Delayed
        Coordinates, draws, and signs, which are doubled for values to compare. In
        memory.
    """

    entries: PartitionedEntries
    randomizer: EntryRandomizer
    chunks: Sequence[Delayed]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.entries.dtype

    def mean(self) -> float:
        """Mean of the randomised values."""
        sums = (task(_sum_of)(c, self.randomizer, self.dtype) for c in self.chunks)
        return float(computed(tree_sum(sums))[0][0] / self.entries.n_entries)

    def compared(self) -> tuple[NDArray[Any], ...]:
        """A subsample of the draws; see `Draws.compared`."""
        return _joined(*computed(*map(task(_compared), self.chunks)))

    def observations(
        self, offset: float, scale: float, smooth_modes: Collection[int] = ()
    ) -> ChunkedObservations:
        """Shifted and scaled values at their coordinates; see `Draws.observations`."""
        all_counts, mode = self.entries.counts, self.entries.mode
        used = [
            np.arange(len(counts))
            if m in smooth_modes
            else self.entries.used_indices[m]
            for m, counts in enumerate(all_counts)
        ]
        cuts = np.searchsorted(used[mode], self.entries.cuts)
        others = [u[:0] if m == mode else u for m, u in enumerate(used)]
        sent = shared((others, mode, self.randomizer, self.dtype, offset, scale))
        pairs = zip(self.chunks, pairwise(cuts), strict=True)
        made = (
            task(_observed)(chunk, used[mode][a:b], sent) for chunk, (a, b) in pairs
        )
        chunks = in_memory(*made)
        energy = computed(tree_sum(map(task(_energy), chunks)))[0][0]
        counts = [c[u] for c, u in zip(all_counts, used, strict=True)]
        return ChunkedObservations(
            chunks, cuts, mode, tuple(used), counts, self.dtype, float(energy)
        )


def _sum_of(
    chunk: tuple[NDArray[Any], ...], randomizer: EntryRandomizer, dtype: np.dtype[Any]
) -> tuple[np.floating]:
    return (randomizer.values_of(chunk[1], dtype).sum(dtype=float),)


def _compared(chunk: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
    chosen = np.abs(chunk[2]) == 2
    where, drawn, tags = (column[chosen] for column in chunk)
    return where, drawn, tags // 2


def _observed(
    chunk: tuple[NDArray[Any], ...],
    own: NDArray[np.integer],
    sent: tuple[
        list[NDArray[np.integer]], int, EntryRandomizer, np.dtype[Any], float, float
    ],
) -> Observations:
    """The randomised values of a chunk, at their coordinates."""
    (where, drawn, tags), (used, mode, randomizer, dtype, offset, scale) = chunk, sent
    values = (randomizer.values_of(drawn, dtype) - offset) / scale
    outputs = drawn if randomizer.has_table else None
    used = [*used[:mode], own, *used[mode + 1 :]]
    return Observations.from_arrays(where, values, used, outputs, np.sign(tags))


def _energy(chunk: Observations) -> tuple[float]:
    return (chunk.energy,)


@dataclass(frozen=True, eq=False)
class ChunkedObservations:
    """Values at coordinates, in chunks; see `Observations`.

    Every chunk has all entries of some rows of the split mode, and keeps these rows
    while a model is fitted.

    Attributes
    ----------
    chunks : tuple of Delayed of Observations
        In memory.
    cuts : ndarray of shape (n_chunks + 1,), int
        Chunk k has the rows of the split mode from cuts[k] to cuts[k + 1].
    mode : int
        The split mode.
    used, counts, dtype
        See `Observations`.
    energy : float
        Sum of the squares of the initial values.
    own : tuple of Delayed of ModeRows
        The rows of the split mode, in memory; empty before `with_rows`.
    """

    chunks: tuple[Delayed, ...]
    cuts: NDArray[np.integer]
    mode: int
    used: tuple[NDArray[np.integer], ...]
    counts: Sequence[NDArray[np.integer]]
    dtype: np.dtype[Any]
    energy: float
    own: tuple[Delayed, ...] = ()

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return int(self.counts[0].sum())

    def has_rows(self, mode: int) -> bool:
        """Whether all entries of each row of a mode are in one chunk."""
        return mode == self.mode

    def total(
        self,
        function: Callable[..., Total],
        rows: Rows,
        *arguments: object,
        reads: Collection[int] | None = None,
    ) -> Total:
        """Sums over chunks; see `Observations.total`."""
        question = function, _read_alone(rows, reads), arguments
        return computed(tree_sum(self._tasks(_answered, *question)))[0]

    def change_rows(
        self,
        function: Callable[..., tuple[SomeRows, Total]],
        rows: SomeRows,
        *arguments: object,
        reads: Collection[int] | None = None,
    ) -> tuple[SomeRows, Self, Total]:
        """Change the rows that the chunks keep; see `Observations`."""
        question = function, _read_alone(rows, reads), arguments
        own, total = self._changed(_with_changed_rows, *question)
        return rows, replace(self, own=own), total

    def change_values(
        self,
        function: Callable[..., tuple[NDArray[np.floating], Total]],
        rows: Rows,
        *arguments: object,
    ) -> tuple[Self, Total]:
        """Change the values; see `Observations`."""
        chunks, total = self._changed(_with_changed_values, function, rows, arguments)
        return replace(self, chunks=chunks), total

    def with_rows(self, rows: SomeRows) -> tuple[SomeRows, Self]:
        """Send the rows of the split mode to the chunks; see `Observations`."""
        own = rows.of_mode(self.mode)
        parts = (own.taken(slice(a, b)) for a, b in pairwise(self.cuts))
        rows = rows.with_rows(self.mode, own.taken(slice(0, 0)))
        return rows, replace(self, own=in_memory(*map(shared, parts)))

    def gathered(self, rows: SomeRows) -> SomeRows:
        """Undo `with_rows`: collect the rows of the split mode from the chunks."""
        found = zip(*computed(*self.own), strict=True)
        own = (None if p[0] is None else np.concatenate(p) for p in found)
        return rows.with_rows(self.mode, ModeRows._make(own))

    def here(self) -> Observations:
        """All entries, in the memory of this process; see `Observations`."""
        where, values = _joined(*computed(*map(task(_listed), self.chunks)))
        return Observations.from_arrays(where, values, self.used)

    def residuals(self, rows: Rows) -> ChunkedMatrix:
        """Residuals of a matrix."""
        left = self._tasks(_answered, _residual_matrix, rows, (self.mode,))
        return ChunkedMatrix(in_memory(*left), self.cuts, [*self.counts], self.mode)

    def _changed(
        self, answer: Callable[..., object], *question: object
    ) -> tuple[tuple[Delayed, ...], Any]:
        """The changed part of every chunk, in memory, and sums over the chunks."""
        pairs = self._tasks(answer, *question, nout=2)
        delayed, totals = zip(*pairs, strict=True)
        *changed, total = in_memory(*delayed, tree_sum(totals))
        return tuple(changed), computed(total)[0]

    def _tasks(
        self, answer: Callable[..., object], *question: object, nout: int | None = None
    ) -> list[Delayed]:
        """Ask every chunk, with its rows, a question."""
        run, sent = task(answer, nout), shared((self.mode, *question))
        pairs = zip(self.chunks, self.own, strict=True)
        return [run(chunk, own, sent) for chunk, own in pairs]


def _listed(chunk: Observations) -> tuple[NDArray[Any], ...]:
    return chunk.coordinates, chunk.values[0]


def _read_alone(rows: SomeRows, modes: Collection[int] | None) -> SomeRows:
    """Rows without the features and modes that a chunk does not read."""
    rows, every = replace(rows, features=rows.features[:0]), range(rows.n_modes)
    for mode in set(every).difference(every if modes is None else modes):
        means, covariances = rows.means[mode][:0], rows.covariances[mode][:0]
        rows = rows.with_mode(mode, means, covariances)
    return rows


def _answered(chunk: Observations, own: ModeRows, question: _Question) -> Any:
    mode, function, rows, arguments = question
    with one_blas_thread:
        return function(rows.with_rows(mode, ModeRows(*own)), chunk, *arguments)


def _with_changed_rows(
    chunk: Observations, own: ModeRows, question: _Question
) -> tuple[ModeRows, Any]:
    rows, total = _answered(chunk, own, question)
    return rows.of_mode(question[0]), total


def _with_changed_values(
    chunk: Observations, own: ModeRows, question: _Question
) -> tuple[Observations, Any]:
    values, total = _answered(chunk, own, question)
    return chunk.with_values(values), total


def _residual_matrix(rows: Rows, chunk: Observations, mode: int) -> sparse.csr_array:
    return chunk.residual_matrix(rows, mode)


# --- units ---------------------------------------------------------------------------


class PartitionedUnits:
    """Entries of whole units, in chunks; see `UnitEntries`.

    The shuffle has brought all entries of a unit together.

    Parameters
    ----------
    chunks : iterable of Delayed of UnitEntries
        Computed here and kept in the memory of the workers.
    cuts : ndarray of shape (n_chunks + 1,), int
        Chunk k has the units from cuts[k] to cuts[k + 1].
    """

    def __init__(self, chunks: Iterable[Delayed], cuts: NDArray[np.int64]) -> None:
        self._chunks, self._cuts = in_memory(*chunks), cuts
        # Computing now raises the errors of partitions before anything else is done.
        computed(*map(task(_nothing), self._chunks))

    def summed(
        self, contribute: Callable[..., Sequence[NDArray[Any]]], question: Question
    ) -> tuple[Sequence[NDArray[Any]], None]:
        """Sum the contributions of all units to a release; see `People`."""
        question = shared(question)
        totals = (task(contribute)(chunk, question) for chunk in self._chunks)
        return computed(tree_sum(totals))[0], None

    def answers(
        self,
        fitted: AnswersUnits,
        method: str,
        coordinates: NDArray[np.integer],
        *wanted: ForSomeRows,
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[Any]]]:
        """Answer questions about units where their entries are.

        Parameters
        ----------
        fitted : FittedToUnits
            The released model.
        method : {"predict", "recommend"}
        coordinates : ndarray of shape (n, n_modes), int
            Their units are known.
        *wanted : Wanted
            Restricts the answers of `recommend`.

        Yields
        ------
        places : ndarray of int
            Rows of `coordinates`.
        answers : ndarray
            What the method returns for these rows.
        """
        numbers = np.searchsorted(self._cuts, coordinates[:, fitted.unit], "right") - 1
        asked = np.unique(numbers).tolist()
        places = [np.flatnonzero(numbers == k) for k in asked]
        question, answer = shared((fitted, method)), task(_unit_answer)
        answers = [
            answer(
                self._chunks[k],
                question,
                coordinates[rows],
                *(each.at(rows) for each in wanted),
            )
            for k, rows in zip(asked, places, strict=True)
        ]
        yield from zip(places, computed(*answers), strict=True)


def _nothing(_: UnitEntries) -> None:
    """Do nothing: computing this task waits for the chunk."""


def _unit_answer(
    units: UnitEntries,
    question: tuple[AnswersUnits, str],
    coordinates: NDArray[np.integer],
    *wanted: ForSomeRows,
) -> NDArray[Any]:
    """Answer with a fitted model that has the rows of the requested units."""
    fitted, method = question
    own = units.only_of(np.unique(coordinates[:, fitted.unit]))
    return getattr(fitted.with_units(own), method)(coordinates, *wanted)


# --- tasks, and the collections whose partitions they read ----------------------------


def task(
    function: Callable[..., object], nout: int | None = None
) -> Callable[..., Delayed]:
    """Make each call of a function a task whose name does not reveal its arguments."""
    return dask.delayed(function, pure=False, nout=nout)


def shared(value: object) -> Delayed:
    """An argument that is sent once for all tasks that take it."""
    # Dask would send every task a copy of a tuple that begins with a function.
    return dask.delayed(value, traverse=False)


def computed(*delayed: object) -> tuple[Any, ...]:
    """The results of delayed values, in this process; see `dask.compute`."""
    with _large_graphs():
        return dask.compute(*delayed)


def in_memory(*delayed: Delayed) -> tuple[Delayed, ...]:
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


def tree_sum(delayed: Iterable[Delayed]) -> Delayed:
    """Sum delayed tuples of numbers or arrays."""
    return joined_in_tree(added, delayed)


def joined_in_tree(join: Callable[..., object], delayed: Iterable[Delayed]) -> Delayed:
    """Join delayed values; each task joins up to eight of them."""
    delayed = list(delayed)
    while len(delayed) > 1:
        groups = range(0, len(delayed), 8)
        delayed = [task(join)(*delayed[a : a + 8]) for a in groups]
    return delayed[0]


def added(*terms: Iterable[Any]) -> tuple[Any, ...]:
    """The sum of tuples of numbers or arrays, element by element."""
    return tuple(sum(rest, first) for first, *rest in zip(*terms, strict=True))


def paired_partitions(
    X: DaskCollection, y: DaskCollection
) -> DaskCollection | list[list[Delayed]]:
    """Pair the partitions: a frame of coordinates and values, or delayed pairs."""
    if not dask.is_dask_collection(y):
        raise ValueError("X is a Dask collection, so y must be one too.")
    if hasattr(X, "assign") and hasattr(y, "to_frame"):
        joined = X.assign(**{_VALUE: y})
        if not (_of_one_frame(X, y) or _aligned(joined, X, y)):
            raise ValueError(
                "X and y come from different frames, and Dask cannot tell which value "
                "belongs to which entry: their indices differ, or their divisions are "
                "unknown. Take X and y from one frame."
            )
        return joined
    coordinates, values = map(_delayed_partitions, (X, y))
    if len(coordinates) != len(values):
        raise ValueError(
            f"X has {len(coordinates)} partitions and y has {len(values)}; rechunk or "
            f"repartition one like the other."
        )
    return [list(pair) for pair in zip(coordinates, values, strict=True)]


def coordinates_and_values(partition: Any) -> tuple[Any, Any]:
    """What a partition of `paired_partitions` holds."""
    if isinstance(partition, list):
        return partition[0], partition[1]
    return partition.drop(columns=_VALUE), partition[_VALUE]


def _of_one_frame(X: DaskCollection, y: DaskCollection) -> bool:
    """Whether both have the partitions of one frame, row by row."""
    expressions = imported("dask.dataframe.dask_expr._expr", "dask")
    return expressions.are_co_aligned(X.expr, y.expr)


def _aligned(joined: DaskCollection, X: DaskCollection, y: DaskCollection) -> bool:
    """Whether Dask joined two frames by their index completely, and in a fixed order.

    With unknown divisions, it shuffles rows in an order that can change each time. If
    indices differ, it drops values or adds coordinates.
    """
    if not (X.known_divisions and y.known_divisions):
        return False
    rows, values = joined.shape[0], joined[_VALUE].count()
    try:
        counts = computed(rows, X.shape[0], y.shape[0], values, y.count())
    except ValueError:  # Indices that occur more than once, in different numbers.
        return False
    return len(set(counts[:3])) == len(set(counts[3:])) == 1


def _delayed_partitions(collection: DaskCollection) -> list[Delayed]:
    """The partitions of a collection, each a delayed array or frame."""
    if not hasattr(collection, "rechunk"):
        return collection.to_delayed()
    whole = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    return whole.to_delayed().ravel()


def map_partitions(
    partitions: DaskCollection | list[list[Delayed]],
    name: str,
    function: Callable[..., object],
    *arguments: object,
) -> list[Delayed]:
    """Apply a function to every partition, with its number, lazily.

    For a frame, one task reads a partition and applies the function, so the partition
    does not leave the worker that reads it.
    """
    of_partition = _Task(name, function, arguments)
    if isinstance(partitions, list):
        of_pair = dask.delayed(of_partition, pure=False, traverse=False)
        return [of_pair(pair, {"number": k}) for k, pair in enumerate(partitions)]
    results = frame_of_partitions(partitions, of_partition, meta=(None, object))
    return list(results.to_delayed())


def frame_of_partitions(
    partitions: DaskCollection,
    function: Callable[..., object],
    *arguments: object,
    meta: object,
) -> DaskCollection:
    """Apply a function to every partition of a frame, lazily.

    What the function returns is not looked at, whatever `meta` says of it. Arguments
    that are large are `shared`.
    """
    options = {"enforce_metadata": False, "align_dataframes": False}
    return partitions.map_partitions(function, *arguments, meta=meta, **options)


class _Task:
    """A function of partitions, whose name does not show its arguments."""

    def __init__(
        self, name: str, function: Callable[..., object], arguments: tuple[object, ...]
    ) -> None:
        self._function, self._arguments = function, arguments
        self._name = f"{name}-{uuid.uuid4().hex}"

    def __call__(self, partition: object, partition_info: dict[str, int]) -> object:
        number = partition_info["number"]
        return self._function(partition, number, *self._arguments)

    def __repr__(self) -> str:
        return self._name

    def __dask_tokenize__(self) -> str:
        return self._name
