"""Completion of entries that lie in the partitions of Dask collections.

Partitions are checked and randomised where they lie. What travels between workers are
coordinates, which are public, and randomised values: they are brought together by the
rows of one of the first two modes, whose factor is fitted there (see
``tensor/_distributed.py``). What is computed of a partition is a function of the
partition, its place among all entries and the key of the release: computed again, by
whichever worker, it is the same.
"""

import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import dask
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray
from sklearn.utils import check_array

from .._random import NoiseStreams
from .._validation import check_coordinates, check_numeric, checked
from ..tensor._distributed import computed, in_memory, tree_sum
from ..tensor._sums import shared_entries
from ._client import check_values
from ._problem import signs
from ._values import EntryRandomizer

__all__ = ["Observed", "coordinates_of", "observed_of", "values_of"]

# Column of a frame that has values beside coordinates.
_VALUE = "value that is observed"
# Parts that what is observed is brought into, at most.
_MOST_PARTS = 256


def observed_of(X: Any, y: Any, shape: tuple[int, ...] | None, name: str) -> "Observed":
    """What is observed in Dask collections, once all of it has been checked.

    Parameters
    ----------
    X : dask.dataframe.DataFrame or dask.array.Array of shape (n, n_modes)
    y : dask.dataframe.Series or dask.array.Array of shape (n,)
        With the partitions of `X`.
    shape : tuple of int or None
        None for that which the coordinates have.
    name : str
        Who asks, for messages.

    Returns
    -------
    observed : Observed
    """
    partitions = _partitions(X, y)
    found = computed(*_of_each(partitions, _described, (shape, name)))
    lengths = [one[0] for one in found]
    if not sum(lengths):
        raise ValueError("There is nothing to fit: X holds no entry.")
    n_modes = len(found[0][1])
    counts = [_total([one[1][mode] for one in found]) for mode in range(n_modes)]
    if shape is not None:
        counts = [
            np.pad(c, (0, n - len(c))) for c, n in zip(counts, shape, strict=True)
        ]
    low, high = min(one[3] for one in found), max(one[4] for one in found)
    dtype = np.result_type(*(one[2] for one in found if one[0]))
    spans = [[_span(own) for own in one[1][:2]] for one in found]
    return Observed(partitions, lengths, spans, counts, dtype, (low, high), name)


def _partitions(X: Any, y: Any) -> Any:
    """Partitions of coordinates and values: a frame of both, or delayed pairs."""
    if not dask.is_dask_collection(y):
        raise ValueError("y must be a collection of Dask, as X is.")
    if hasattr(X, "assign") and hasattr(y, "to_frame"):
        return X.assign(**{_VALUE: y})
    places, values = map(_chunks, (X, y))
    if len(places) != len(values):
        raise ValueError(
            f"X has {len(places)} partitions and y has {len(values)}; rechunk or "
            f"repartition one as the other."
        )
    return [list(pair) for pair in zip(places, values, strict=True)]


def _chunks(collection: Any) -> list[Delayed]:
    """The partitions of a collection, each a delayed array or frame."""
    if not hasattr(collection, "rechunk"):
        return collection.to_delayed()
    whole = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    return whole.to_delayed().ravel()


def _of_each(
    partitions: Any, function: Callable[..., Any], *arguments: Any
) -> list[Delayed]:
    """A function of every partition and its number: a list of delayed.

    Of a frame, what reads a partition and the function are one task, so that it does
    not leave the worker that reads it.
    """
    task = _Task(function, arguments)
    if isinstance(partitions, list):
        task = dask.delayed(task, pure=False, traverse=False)
        return [task(pair, {"number": k}) for k, pair in enumerate(partitions)]
    options = {"enforce_metadata": False, "align_dataframes": False}
    found = partitions.map_partitions(task, meta=(None, object), **options)
    return list(found.to_delayed())


class _Task:
    """A function of partitions; what it holds is not in its name."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        self._function, self._arguments = function, arguments
        self._name = f"{function.__name__}-{uuid.uuid4().hex}"

    def __call__(self, partition: Any, partition_info: dict[str, Any]) -> Any:
        number = partition_info["number"]
        return self._function(partition, number, *self._arguments)

    def __repr__(self) -> str:
        return self._name

    def __dask_tokenize__(self) -> str:
        return self._name


def _apart(partition: Any) -> Sequence[Any]:
    """Coordinates and values of a partition."""
    if isinstance(partition, list):
        return partition
    return partition.drop(columns=_VALUE), partition[_VALUE]


def _total(counts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Sum of counts of different lengths."""
    total = np.zeros(max(map(len, counts)), dtype=np.int64)
    for own in counts:
        total[: len(own)] += own
    return total


def _span(counts: NDArray[np.int64]) -> tuple[int, int] | None:
    """The first row with an entry, and the one after the last; None without entries."""
    seen = np.flatnonzero(counts)
    return (int(seen[0]), len(counts)) if len(seen) else None


def _described(
    partition: Any, _: int, checks: tuple[tuple[int, ...] | None, str]
) -> tuple[int, list[NDArray[np.int64]], np.dtype, float, float]:
    """Length, counts by mode, type and range of a partition that is as it should be."""
    where, values = coordinates_of(partition, checks), values_of(partition)
    if len(where) != len(values):
        raise ValueError(
            f"A partition of X has {len(where)} entries, and that of y {len(values)}."
        )
    counts = [np.bincount(column) for column in where.T]
    low, high = (values.min(), values.max()) if len(values) else (math.inf, -math.inf)
    return len(values), counts, values.dtype, float(low), float(high)


def coordinates_of(
    partition: Any, checks: tuple[tuple[int, ...] | None, str]
) -> NDArray[np.int32]:
    """Checked coordinates of a partition."""
    X, (shape, name) = _apart(partition)[0], checks
    check_numeric(X, "X")
    X = checked(check_array, X, dtype="numeric", ensure_min_samples=0, input_name="X")
    if X.shape[1] < 2:
        raise ValueError(f"X has {X.shape[1]} feature(s); a tensor has two or more.")
    return check_coordinates(X, shape=shape, name=name)


def values_of(partition: Any) -> NDArray[np.floating]:
    """Checked values of a partition."""
    return check_values(_apart(partition)[1])


@dataclass(frozen=True, eq=False)
class Observed:
    """Entries in partitions, and what is known of all of them.

    Attributes
    ----------
    partitions : dask.dataframe.DataFrame or list of pairs of Delayed
        Of coordinates and values.
    lengths : list of int
    spans : list of pairs of (int, int) or None
        For the first two modes, the first row of a partition and the one after the
        last; None where it has no entries.
    counts : list by mode of ndarray of shape (size of the mode,), int
        Entries of every row.
    dtype : dtype
        Of the values.
    limits : tuple of float
        Least and largest value; private.
    name : str
        Who asked, for messages.
    """

    partitions: Any
    lengths: list[int]
    spans: list[Any]
    counts: list[np.ndarray]
    dtype: Any
    limits: tuple[float, float]
    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return tuple(map(len, self.counts))

    @property
    def n_entries(self) -> int:
        """Of all partitions."""
        return sum(self.lengths)

    @cached_property
    def mode(self) -> int:
        """The mode whose rows are brought together: the larger of the first two."""
        return int(np.argmax(self.shape[:2]))

    @cached_property
    def cuts(self) -> NDArray[np.int64]:
        """Part k has the rows cuts[k] to cuts[k + 1].

        Where all entries of a row are in one partition, in the order of the rows, a
        part is a partition, whose entries stay where they are; otherwise, parts have
        about as many entries.
        """
        own, size = self.counts[self.mode], self.shape[self.mode]
        spans = [one for one in self._own_spans if one]
        if all(one[1] <= other[0] for one, other in pairwise(spans)):
            starts = [first for first, _ in spans[1:]]
            return np.array([0, *starts[:: len(starts) // _MOST_PARTS + 1], size])
        n = min(len(self.lengths), _MOST_PARTS, size)
        ends = np.linspace(0, self.n_entries, n + 1)[1:-1]
        return np.unique([0, *np.searchsorted(np.cumsum(own), ends), size])

    @property
    def _own_spans(self) -> list[tuple[int, int] | None]:
        return [one[self.mode] for one in self.spans]

    @cached_property
    def coordinates(self) -> tuple[Delayed, ...]:
        """Coordinates by part, in memory; rows of the mode are numbered by part."""
        found = self._of_each(_split_coordinates, self.cuts, self.mode)
        return self._brought_together(found)

    def _of_each(self, function: Callable[..., Any], *arguments: Any) -> list[Delayed]:
        checks = self.shape, self.name
        return _of_each(self.partitions, function, checks, *arguments)

    def randomized(
        self, values: EntryRandomizer, streams: NoiseStreams | None, every: int
    ) -> tuple[Delayed, ...]:
        """Randomised values by part, in memory, in the order of the coordinates.

        Parameters
        ----------
        values : EntryRandomizer
        source : object
            Of streams that is passed to the workers; None takes values as they came.
        every : int
            Every so manieth of all values is compared with the model.

        Returns
        -------
        parts : list of Delayed of (ndarray of float, ndarray of int8)
            Values, and signs, which are doubled where a value is compared.
        """
        first = np.cumsum([0, *self.lengths]).tolist()
        noise = values, streams, every, first
        found = self._of_each(_split_values, self.cuts, self.mode, noise)
        return self._brought_together(found)

    def __len__(self) -> int:
        return self.n_entries

    def row_sums(
        self, weigh: Callable[[NDArray[np.floating]], NDArray[np.floating]] | None
    ) -> NDArray[Any]:
        """Sums over the entries of every row of every mode, one after the other.

        Parameters
        ----------
        weigh : callable or None
            Of values; exact numbers are summed exactly. None counts entries.

        Returns
        -------
        sums : ndarray of shape (sum of shape,)
        """
        if weigh is None:
            return np.concatenate(self.counts)
        totals = [np.zeros(size) for size in self.shape]
        for found in self.of_partitions(_row_sums, weigh):
            for total, (rows, sums) in zip(totals, found, strict=True):
                total[rows] += sums
        return np.concatenate(totals)

    def of_partitions(
        self, function: Callable[..., Any], *arguments: Any
    ) -> tuple[Any, ...]:
        """A function of coordinates and values, partition by partition."""
        return computed(*self._of_each(function, *arguments))

    @cached_property
    def _gram(self) -> tuple[Delayed, ...]:
        """How often two rows share an entry, part by part, in memory."""
        make = dask.delayed(_shared, pure=False)
        pairs = zip(self.coordinates, self.part_shapes, strict=True)
        return in_memory(*(make(*pair) for pair in pairs))

    @property
    def part_shapes(self) -> Iterator[tuple[int, ...]]:
        """Sizes of the modes in every part."""
        for size in np.diff(self.cuts).tolist():
            yield *self.shape[: self.mode], size, *self.shape[self.mode + 1 :]

    def diagonal(self) -> NDArray[np.float64]:
        """Of what `shared_entries` is of all coordinates."""
        return np.concatenate(self.counts).astype(float)

    def __matmul__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Product of that with a vector or matrix."""
        multiply = dask.delayed(_shared_product, nout=2, pure=False)
        parts: list[Any] = np.split(x, np.cumsum(self.shape)[:-1])
        own = np.split(parts[self.mode], self.cuts[1:-1])
        parts[self.mode] = None
        others = dask.delayed(parts, traverse=False)
        pairs = zip(self._gram, own, strict=True)
        found = [multiply(gram, part, others) for gram, part in pairs]
        rows, total = computed(
            [one[0] for one in found], tree_sum(one[1] for one in found)
        )
        product = list(total)
        product.insert(self.mode, np.concatenate(rows))
        return np.concatenate(product)

    def _brought_together(self, found: list[Any]) -> tuple[Delayed, ...]:
        """Parts of what was made of every partition, in memory."""
        join, parts = dask.delayed(_joined, pure=False), []
        for k, (first, last) in enumerate(pairwise(self.cuts.tolist())):
            pieces = [
                pieces[k]
                for pieces, span in zip(found, self._own_spans, strict=True)
                if span and span[0] < last and first < span[1]
            ]
            parts.append(join(*(pieces or [found[0][k]])))
        return in_memory(*parts)


def _row_sums(
    partition: Any,
    _: int,
    checks: tuple[tuple[int, ...] | None, str],
    weigh: Callable[[NDArray[np.floating]], NDArray[np.floating]],
) -> list[tuple[NDArray[np.int32], NDArray[Any]]]:
    """Rows of every mode that a partition has, and the sums of its entries there."""
    where = coordinates_of(partition, checks)
    weights = weigh(values_of(partition))
    found = []
    for column in where.T:
        rows, index = np.unique(column, return_inverse=True)
        found.append((rows, np.bincount(index, weights=weights)))
    return found


def _shared(
    coordinates: tuple[NDArray[np.int32]], shape: tuple[int, ...]
) -> tuple[Any, NDArray[np.int64]]:
    (where,) = coordinates
    return shared_entries(where, shape), np.cumsum(shape)[:-1]


def _shared_product(
    shared: tuple[Any, NDArray[np.int64]],
    own: NDArray[np.float64],
    others: list[NDArray[np.float64] | None],
) -> tuple[NDArray[np.float64], tuple[NDArray[np.float64], ...]]:
    """Rows of the mode that is cut into parts, and those of the others."""
    gram, ends = shared
    x = [own if other is None else other for other in others]
    product = np.split(gram @ np.concatenate(x), ends)
    mode = next(m for m, other in enumerate(others) if other is None)
    return product.pop(mode), tuple(product)


def _split_coordinates(
    partition: Any,
    _: int,
    checks: tuple[tuple[int, ...] | None, str],
    cuts: NDArray[np.int64],
    mode: int,
) -> tuple[tuple[NDArray[np.int32]], ...]:
    """Coordinates of a partition, by the part that they belong to."""
    where = coordinates_of(partition, checks)
    order, ends = _order(where[:, mode], cuts)
    where[:, mode] -= cuts[:-1].astype(np.int32)[_part_of(where[:, mode], cuts)]
    return tuple((own,) for own in np.split(where[order], ends))


def _split_values(
    partition: Any,
    number: int,
    checks: tuple[tuple[int, ...] | None, str],
    cuts: NDArray[np.int64],
    mode: int,
    noise: tuple[EntryRandomizer, NoiseStreams | None, int, list[int]],
) -> tuple[tuple[NDArray[np.floating], NDArray[np.int8]], ...]:
    """Randomised values of a partition, and their signs, by part."""
    values, streams, every, first = noise
    own = slice(*first[number : number + 2])
    where, raw = coordinates_of(partition, checks), values_of(partition)
    # Of other values than were here before, the same noise would tell differences.
    if not len(where) == len(raw) == own.stop - own.start:
        raise RuntimeError("A partition has other entries than when it was checked.")
    if streams is None:
        noisy = values.taken(raw)
    else:
        noisy = values.randomize(raw, streams, own.start, first[-1])
    tags = signs(own.start, own.stop)
    tags[-own.start % every :: every] *= 2
    order, ends = _order(where[:, mode], cuts)
    pieces = (np.split(own[order], ends) for own in (noisy, tags))
    return tuple(zip(*pieces, strict=True))


def _part_of(rows: NDArray[np.int32], cuts: NDArray[np.int64]) -> NDArray[np.intp]:
    return np.searchsorted(cuts, rows, side="right") - 1


def _order(
    rows: NDArray[np.int32], cuts: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Order of entries by their part, and where parts end."""
    parts = _part_of(rows, cuts)
    ends = np.cumsum(np.bincount(parts, minlength=len(cuts) - 1))[:-1]
    return np.argsort(parts, kind="stable"), ends


def _joined(*pieces: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
    return tuple(map(np.concatenate, zip(*pieces, strict=True)))
