"""Rows of a table, read one by one, and which rows of a person are counted.

**Nobody's row decides about another one.** A row counts if each of its numbers is a
whole number within its mode, and otherwise it does not. No message tells whether all
rows counted. So a row of any content is the same as a row that is not there, or adds
one to one cell.

**Rows of people.** Each row gets a random word of 64 bits, and the k rows of a person
with the least words are counted. Whether a row is kept depends on the rows and words of
that person alone, and words are drawn anew for every fit and part of the data, from
streams that no noise uses. Parts keep the k rows of least words of each person, with
the words, and are merged by keeping the k least of all; so parts decide nothing. Rows
that do not count are left out before. Of two equal words, which have a chance of 2^-64
for each pair of rows, that of the earlier row counts as less.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._dask import loaded
from .._extras import imported
from .._random import words_of_part
from .._validation import (
    as_numpy,
    check_container,
    check_unmasked,
    malformed,
    names_of,
)
from ..ids._folds import columns_of
from ..measure import Question
from ..measure import contribute as contributed

# Parts of Dask that are added up in one task.
_ADDED = 16


@dataclass(frozen=True, eq=False)
class Records:
    """Rows that count, those of a person one after the other.

    Attributes
    ----------
    coordinates : ndarray of shape (n_modes, n), int64
    n_records : ndarray of shape (n_people,), int64
        How many rows each person has.
    """

    coordinates: NDArray[np.int64]
    n_records: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Kept:
    """Rows of people that may count, with their words.

    Attributes
    ----------
    coordinates : ndarray of shape (n_modes, n), int64
    people : ndarray of shape (n,), int64
    words : ndarray of shape (n,), uint64
    """

    coordinates: NDArray[np.int64]
    people: NDArray[np.int64]
    words: NDArray[np.uint64]

    def least(self, k: int) -> "Kept":
        """The k rows of least words of each person, sorted by person."""
        order = np.lexsort((self.words, self.people))
        people = self.people[order]
        is_first = np.ones(len(people), bool)
        is_first[1:] = people[1:] != people[:-1]
        starts = np.flatnonzero(is_first)
        n_rows = np.diff(np.append(starts, len(people)))
        rank = np.arange(len(people)) - np.repeat(starts, n_rows)
        order = order[rank < k]
        return Kept(self.coordinates[:, order], self.people[order], self.words[order])

    @classmethod
    def merged(cls, parts: Sequence["Kept"], k: int) -> "Kept":
        """The k rows of least words of each person in several parts."""
        names = ("coordinates", "people", "words")
        columns = ([getattr(part, name) for part in parts] for name in names)
        return cls(*(np.concatenate(one, axis=-1) for one in columns)).least(k)

    def records(self) -> Records:
        """The rows; they are sorted by person."""
        return Records(self.coordinates, np.unique(self.people, return_counts=True)[1])


@dataclass(frozen=True)
class Reader:
    """Reads rows of coordinates within a shape, and of people.

    Attributes
    ----------
    shape : tuple of int
        Of the modes that are counted.
    unit : int or None
        Number of the column of people, which is no mode.
    k : int
        How many rows of a person count.
    seed : bytes, default=b""
        From which words follow.
    refuses : bool, default=False
        Whether a row that does not count is an error, as nobody is protected.
    """

    shape: tuple[int, ...]
    unit: int | None
    k: int
    seed: bytes = b""
    refuses: bool = False

    def records(self, X: Any) -> Records:
        """The rows of a part that count, each for itself."""
        coordinates, _ = self._read(X)
        return Records(coordinates, np.ones(coordinates.shape[1], np.int64))

    def kept(self, X: Any, part: int) -> Kept:
        """The rows of a part that may count."""
        coordinates, people = self._read(X)
        assert people is not None
        words = words_of_part(self.seed, part, len(people))
        return Kept(coordinates, people, words).least(self.k)

    def _read(self, X: Any) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """Coordinates of all rows that count, and their people."""
        columns = [_whole(column) for column in X]
        people = None if self.unit is None else columns.pop(self.unit)
        counts = np.ones(len(X[0]), bool)
        for column, size in zip(columns, self.shape, strict=True):
            counts &= (column >= 0) & (column < size)
        if people is not None:
            counts &= people >= 0
            people = people[counts]
        if self.refuses and not counts.all():
            raise malformed(
                "coordinates",
                "Some coordinates are no whole numbers from 0 on, or outside of the "
                "shape. Leave these rows out.",
            )
        if counts.all():
            return np.stack(columns), people
        return np.stack([column[counts] for column in columns]), people


def columns_of_rows(X: Any) -> list[NDArray[Any]]:
    """The columns of a table, of which no row can change how another one is read.

    Raises
    ------
    ValueError, TypeError
        If X is no table of rows and columns.
    """
    check_container(X, "X")
    check_unmasked(X, "X")
    if issparse(X):
        raise TypeError(
            "Sparse data was passed, but X must be a dense table of coordinates."
        )
    if names_of(X) is not None:
        return [as_numpy(column.to_numpy(), "X") for column in columns_of(X)]
    if isinstance(X, list | tuple):
        # As objects: beside text, NumPy makes text of numbers.
        if not len(X):
            return []
        try:
            X = np.array(X, dtype=object)
        except ValueError:  # rows of different lengths
            X = np.empty(0)
    array = as_numpy(X, "X")
    if array.ndim != 2:
        raise malformed(
            "arrays",
            f"Expected 2D array, got {array.ndim}D array instead: X must have a row "
            f"for each record and a column for each mode. Reshape your data with "
            f"X.reshape(-1, 1) if it has one mode.",
        )
    return list(array.T)


def _whole(column: NDArray[Any]) -> NDArray[np.int64]:
    """Whole numbers of at least 0 that fit into 64 bits; -1 for all else."""
    kind = column.dtype.kind
    if kind == "O":
        return np.fromiter(map(_number, column), np.int64, len(column))
    if kind in "bi":
        return column.astype(np.int64)
    if kind == "u":
        return np.where(column < 2**63, column, 0).astype(np.int64) - (column >= 2**63)
    if kind != "f":
        return np.full(len(column), -1)
    # Not true of NaN. Float16 has no 2^63, and compares with infinity.
    is_whole = (
        (column >= 0) & (column < np.float64(2**63)) & (np.trunc(column) == column)
    )
    return np.where(is_whole, column, -1).astype(np.int64)


def _number(value: Any) -> int:
    """A whole number of at least 0 that fits into 64 bits; -1 for all else."""
    if isinstance(value, float | np.floating):
        value = int(value) if np.isfinite(value) and value == np.trunc(value) else -1
    elif not isinstance(value, int | np.integer | np.bool_):
        return -1
    return int(value) if 0 <= value < 2**63 else -1


class Rows:
    """Rows here, in one part or several.

    Parameters
    ----------
    parts : iterable of list of ndarray
        The columns of each part.
    reader : Reader
    """

    def __init__(self, parts: Iterable[Any], reader: Reader) -> None:
        self._parts, self._reader = parts, reader

    def chunks(self, chunks_at_once: int = 1) -> Iterator[Records]:
        """Yield all rows that count; those of one person in one chunk."""
        if self._reader.unit is None:
            yield from map(self._reader.records, self._parts)
            return
        kept: Kept | None = None
        for number, part in enumerate(self._parts):
            new = self._reader.kept(part, number)
            kept = new if kept is None else Kept.merged([kept, new], self._reader.k)
        if kept is not None:
            yield kept.records()

    def summed(
        self, contribute: Callable[..., Any], question: Any
    ) -> tuple[Sequence[NDArray[Any]], None]:
        """What all rows contribute; see `People`."""
        return contribute(self, question), None


class LazyRows:
    """Rows in the parts of a Dask collection, which its workers read.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
    reader : Reader
    """

    def __init__(self, X: Any, reader: Reader) -> None:
        if hasattr(X, "rechunk"):
            X = X.rechunk({1: -1})
        self._parts = np.ravel(X.to_delayed()).tolist()
        self._reader = reader

    def summed(
        self, contribute: Callable[..., Any], question: Any
    ) -> tuple[Sequence[NDArray[Any]], None]:
        """What all rows contribute; see `People`."""
        task = imported("dask", "dask").delayed
        if self._reader.unit is None:
            parts = [
                task(_contributed, pure=False)(part, self._reader, question)
                for part in self._parts
            ]
            totals = _in_turns(parts, task(_added, pure=False))
        else:
            parts = [
                task(_kept, pure=False)(part, self._reader, number)
                for number, part in enumerate(self._parts)
            ]
            kept = _in_turns(parts, task(_merged, pure=False), self._reader.k)
            totals = task(_of_kept, pure=False)(kept, question)
        (found,) = loaded(totals)
        return found, None


def _in_turns(parts: list[Any], together: Callable[..., Any], *arguments: Any) -> Any:
    """Put parts together, a few in each task."""
    while True:
        starts = range(0, len(parts), _ADDED)
        parts = [together(parts[k : k + _ADDED], *arguments) for k in starts]
        if len(parts) == 1:
            return parts[0]


class _Once:
    """Records that are read once, in one chunk."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def chunks(self, chunks_at_once: int = 1) -> Iterator[Records]:
        """Yield them."""
        yield self._records


def _contributed(part: Any, reader: Reader, question: Question) -> Any:
    return contributed(_Once(reader.records(columns_of_rows(part))), question)


def _added(parts: list[Any]) -> tuple[NDArray[Any], ...]:
    return tuple(np.add.reduce(of_sums) for of_sums in zip(*parts, strict=True))


def _kept(part: Any, reader: Reader, number: int) -> Kept:
    return reader.kept(columns_of_rows(part), number)


def _merged(parts: list[Kept], k: int) -> Kept:
    return Kept.merged(parts, k)


def _of_kept(kept: Kept, question: Question) -> Any:
    return contributed(_Once(kept.records()), question)
