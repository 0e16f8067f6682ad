"""Tables of ids that come in batches: each id is replaced by a number as it comes.

One pass over the batches is enough. Ids are numbered in the order in which they come,
and a row keeps only the numbers of its ids. When all ids are known, the numbers become
indices. Nothing is released on the way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._extras import imported
from .._validation import check_loaded, malformed, names_of
from ..completion._entries import check_values
from ..completion._likely_mistakes import warn_if_no_value
from ..ids import Known, check_type, kinds_of, kinds_of_type
from ._encoder import (
    CoordinateEncoder,
    catalogues_of,
    check_kinds,
    distinct_ids,
    index_of_ids,
    indices_of,
    learn,
    types_of,
)

_OTHER_TYPE = (
    "A column has ids of another type in this batch than in the first. Convert it to "
    "the same type, such as text, in all batches."
)
# Rows of a block. Arrays of so many rows have over 16 MB.
_BLOCK = 2**22
Batches = Iterable[Any] | Callable[[], Iterable[Any]]


def opened(batches: Batches) -> Iterator[Any]:
    """An iterator over batches: those of an iterable, or of what a function returns.

    Raises
    ------
    TypeError
        If they are no iterable of tables, but one table, a path or the like.
    """
    given = batches() if callable(batches) else batches
    if isinstance(given, str | bytes | dict | np.ndarray) or hasattr(given, "columns"):
        raise TypeError(
            f"batches must be an iterable of tables, or a function that returns one, "
            f"got a {type(given).__name__}. Pass one table to fit, or in a list."
        )
    try:
        return iter(given)
    except TypeError:
        pass
    # Raised outside the handler, whose error says nothing more.
    raise TypeError(
        f"batches must be an iterable of tables, or a function that returns one, got "
        f"a {type(given).__name__}."
    )


def table_and_values(batch: Any, *, has_values: bool) -> tuple[Any, ArrayLike | None]:
    """Split a batch into a table of ids and the values, if it has values.

    Arrow tables and record batches become frames of pandas.
    """
    if not has_values:
        return _frame(batch), None
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return _frame(batch[0]), batch[1]
    frame = _frame(batch)
    names = names_of(frame)
    if names is None or len(names) < 3:
        raise malformed(
            "arrays",
            "Each batch must be a pair (X, y), or a data frame or Arrow record batch "
            "whose last column holds the values.",
        )
    *ids, value = list(names)
    warn_if_no_value(value)
    return frame[ids], frame[value]


def _frame(table: Any) -> Any:
    """The table; one of Arrow as a frame of pandas."""
    check_loaded(table, "batch")
    if type(table).__module__.partition(".")[0] != "pyarrow":
        return table
    imported("pandas", "pandas")
    return table.to_pandas()


class _Rows(NamedTuple):
    """Rows of batches.

    Attributes
    ----------
    numbers : ndarray of shape (n, n_columns), int32
        Numbers of the ids, by column; -1 for an id that is not declared.
    times : ndarray of shape (n,) or None
        The last column, if it is binned.
    values : ndarray of shape (n,) or None
    """

    numbers: NDArray[np.int32]
    times: NDArray[np.float64] | None
    values: NDArray[np.floating] | None

    def only(self, kept: NDArray[np.bool_]) -> _Rows:
        """Some of the rows."""
        times = None if self.times is None else self.times[kept]
        values = None if self.values is None else self.values[kept]
        return _Rows(np.asfortranarray(self.numbers[kept]), times, values)


class _Block:
    """Rows that come one batch after the other, in arrays that are large.

    The system takes the memory of large arrays back as soon as they are freed. That of
    many small ones stays with the process, beside the memory of the fit.

    Parameters
    ----------
    like : _Rows
        Rows of the same columns and types.
    capacity : int
        Largest number of rows. Memory that holds none is not used.
    """

    def __init__(self, like: _Rows, capacity: int) -> None:
        numbers, times, values = like
        self._all = _Rows(
            np.empty((capacity, numbers.shape[1]), np.int32, order="F"),
            None if times is None else np.empty(capacity, times.dtype),
            None if values is None else np.empty(capacity, values.dtype),
        )
        self._n = 0

    @property
    def rows(self) -> _Rows:
        """The rows so far."""
        return self._between(0, self._n)

    def _between(self, first: int, last: int) -> _Rows:
        numbers, times, values = self._all
        part = slice(first, last)
        return _Rows(
            numbers[part],
            None if times is None else times[part],
            None if values is None else values[part],
        )

    def has_room(self, rows: _Rows) -> bool:
        """Whether there is room for more rows, of these types."""
        ours, theirs = self._all.values, rows.values
        are_alike = ours is None or theirs is None or ours.dtype == theirs.dtype
        return are_alike and self._n + len(rows.numbers) <= len(self._all.numbers)

    def append(self, rows: _Rows) -> None:
        """Copy further rows, for which there is room."""
        first, self._n = self._n, self._n + len(rows.numbers)
        for array, more in zip(self._between(first, self._n), rows, strict=True):
            if array is not None and more is not None:
                array[:] = more

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Leave out all other rows."""
        only, self._n = self.rows.only(kept), 0
        self.append(only)


class RowsOfBatches:
    """The rows of all batches, with numbers in place of ids.

    Parameters
    ----------
    encoder : CoordinateEncoder
        A clone that is to be fitted.
    hides_users : bool
        Whether the first column holds protected users, whom the encoder does not see.
    by_type : bool
        Whether ids are private, so that only the types of columns may refuse them.
    """

    def __init__(
        self, encoder: CoordinateEncoder, *, hides_users: bool, by_type: bool
    ) -> None:
        self._encoder = encoder
        self._first, self._by_type = int(hides_users), by_type
        self._columns: list[_Learned | _Declared] = []
        self._kinds: list[set[str]] = []
        self._blocks: list[_Block] = []

    @property
    def kinds_of_users(self) -> set[str]:
        """Kinds of the first column's ids, by its type; see `kinds_of_type`."""
        return self._kinds[0]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(len(rows.numbers) for rows in self._rows)

    @property
    def _rows(self) -> list[_Rows]:
        return [block.rows for block in self._blocks]

    def add(
        self,
        table: Any,
        users: list[NDArray[Any]],
        others: ArrayLike,
        values: ArrayLike | None,
    ) -> None:
        """Take in a checked batch.

        Parameters
        ----------
        table : ndarray or data frame
        users : list of ndarray
            Its first column, if users are protected.
        others : ndarray or data frame
            The columns that the encoder encodes.
        values : array-like or None
        """
        is_first = not self._columns
        ids, times = self._encoder.split(others, reset=is_first, named=is_first)
        types = types_of(table)
        kinds = [kinds_of_type(dtype) for dtype in types]
        if is_first:
            catalogues = catalogues_of(self._encoder, len(ids), self._first)
            self._columns = [_Learned() for _ in users]
            self._columns += [
                _Learned() if c is None else _Declared(c) for c in catalogues
            ]
            self._kinds = kinds
        elif self._by_type and kinds != self._kinds:
            raise malformed("types", _OTHER_TYPE)
        n_columns = len(self._columns) + (times is not None)
        numbers = np.zeros((len(table), n_columns), dtype=np.int32, order="F")
        for k, column in enumerate([*users, *ids]):
            known = self._columns[k]
            if isinstance(known, _Declared):
                passed = kinds[k] if self._by_type else kinds_of(column)
                check_kinds(known.kinds, passed, k)
                check_type(types[k], known.catalogue, f"column {k}", f"categories[{k}]")
            numbers[:, k] = known.numbers_of(column)
        rows = _Rows(numbers, times, None if values is None else check_values(values))
        if not (self._blocks and self._blocks[-1].has_room(rows)):
            # One table is copied once, and no more memory is reserved.
            capacity = max(len(numbers), _BLOCK if self._blocks else 0)
            self._blocks.append(_Block(rows, capacity))
        self._blocks[-1].append(rows)

    def counts(self) -> list[NDArray[np.int64]]:
        """Numbers of rows of each id, by column; none of a declared column."""
        return [
            self._count(k, 0 if isinstance(column, _Declared) else len(column))
            for k, column in enumerate(self._columns)
        ]

    def _count(self, k: int, n_ids: int) -> NDArray[np.int64]:
        counts = np.zeros(n_ids, dtype=np.int64)
        for rows in self._rows if n_ids else ():
            counts += np.bincount(rows.numbers[:, k], minlength=n_ids)
        return counts

    def drop_unknown(self) -> int:
        """Leave out rows with an id that is not declared; return how many there are."""
        n_rows = self.n_rows
        for block in self._blocks:
            known = np.all(block.rows.numbers >= 0, axis=1)
            if not np.all(known):
                block.keep(known)
        return n_rows - self.n_rows

    def fit_encoder(self) -> list[NDArray[Any]]:
        """Fit the encoder to the rows; return the distinct users if they are hidden."""
        for column, counts in zip(self._columns, self.counts(), strict=True):
            if isinstance(column, _Learned):
                column.keep(counts > 0)
        ids = [column.ids for column in self._columns]
        users, others = ids[: self._first], ids[self._first :]
        learn(
            self._encoder, list(map(distinct_ids, others)), self._times(), self.n_rows
        )
        return users

    def occurring(self) -> Occurring:
        """What occurs in the rows; those with an undeclared id are then left out."""
        n_rows, counts = self.n_rows, self.counts()
        self.drop_unknown()
        ids, kept = [column.ids for column in self._columns], self.counts()
        return Occurring(
            self._kinds, ids, counts, kept, self._times(), n_rows, self.n_rows
        )

    def _times(self) -> NDArray[np.float64] | None:
        """The times that decide which bins there are."""
        times = [rows.times for rows in self._rows if rows.times is not None]
        if self._encoder.freq is not None:
            # The first and the last one decide which calendar bins there are.
            times = [np.array([t.min(), t.max()]) for t in times if len(t)]
        return np.concatenate(times) if times else None

    def encoded(self, users: list[NDArray[np.int64]]) -> Iterator[Any]:
        """Yield coordinates, and values if there are any, of one batch after the other.

        Memory is given up as they are yielded.

        Parameters
        ----------
        users : list of ndarray of int
            Rows of the distinct users, if they are hidden.
        """
        indices = {}
        for k, column in enumerate(self._columns):
            if isinstance(column, _Learned):
                if k < self._first:
                    of_ids = users[k]
                else:
                    of_ids = indices_of(self._encoder, column.ids, k - self._first)
                indices[k] = column.spread(of_ids)
        self._blocks.reverse()
        while self._blocks:
            where, times, values = self._blocks.pop().rows
            for k, index in indices.items():
                where[:, k] = index[where[:, k]]
            if times is not None:
                where[:, -1] = self._encoder.encode([], times)[:, 0]
            yield where if values is None else (where, values)


class Occurring(NamedTuple):
    """Which ids and times occur in some rows of a table, without the rows.

    Attributes
    ----------
    kinds : list of set of str
        Kinds of the ids of each column, by its type; see `kinds_of_type`.
    ids : list of ndarray
        The distinct ids of each column; empty if they are declared.
    counts, kept : list of ndarray of int
        Their numbers of rows: of all, and of those whose other ids are declared.
    times : ndarray or None
        Those that decide which bins of times there are.
    n_rows, n_kept : int
    """

    kinds: list[set[str]]
    ids: list[NDArray[Any]]
    counts: list[NDArray[np.int64]]
    kept: list[NDArray[np.int64]]
    times: NDArray[np.float64] | None
    n_rows: int
    n_kept: int

    def fit_encoder(
        self, encoder: CoordinateEncoder, *, hides_users: bool
    ) -> list[NDArray[Any]]:
        """See `RowsOfBatches.fit_encoder`; the encoder knows its columns."""
        pairs = zip(self.ids, self.kept, strict=True)
        ids = [of_column[kept > 0] for of_column, kept in pairs]
        others = list(map(distinct_ids, ids[int(hides_users) :]))
        learn(encoder, others, self.times, self.n_kept)
        return ids[: int(hides_users)]


def merged(*parts: Occurring | None, by_type: bool) -> Occurring | None:
    """What occurs in several parts of a table; None if there are no rows to look at.

    Parameters
    ----------
    *parts : Occurring or None
    by_type : bool
        See `RowsOfBatches`.
    """
    known = [part for part in parts if part is not None]
    if not known:
        return None
    kinds = [part.kinds for part in known]
    if by_type and any(other != kinds[0] for other in kinds):
        raise malformed("types", _OTHER_TYPE)
    ids, counts, kept = [], [], []
    for k in range(len(known[0].ids)):
        column = _Learned()
        places = [column.numbers_of(part.ids[k]) for part in known]
        ids.append(column.ids)
        counts.append(_summed([part.counts[k] for part in known], places, len(column)))
        kept.append(_summed([part.kept[k] for part in known], places, len(column)))
    times = [part.times for part in known if part.times is not None]
    return Occurring(
        kinds[0],
        ids,
        counts,
        kept,
        np.concatenate(times) if times else None,
        sum(part.n_rows for part in known),
        sum(part.n_kept for part in known),
    )


def _summed(
    counts: list[NDArray[np.int64]], places: list[NDArray[np.int32]], n: int
) -> NDArray[np.int64]:
    """The sum of counts, each at other places, which are distinct."""
    total = np.zeros(n, dtype=np.int64)
    for of_part, where in zip(counts, places, strict=True):
        total[where] += of_part
    return total


def of_pairs(counts: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """The counts of users and items, if both are learned and hence public."""
    return counts[:2] if all(map(len, counts[:2])) else []


class _Declared:
    """Numbers of the ids in a declared column: their places in the catalogue.

    Parameters
    ----------
    catalogue : ndarray of shape (n_ids,)
    """

    # Nothing is learned from them.
    ids: ClassVar[NDArray[Any]] = np.empty(0, dtype=object)

    def __init__(self, catalogue: NDArray[Any]) -> None:
        self.catalogue, self._known = catalogue, Known(catalogue)

    @property
    def kinds(self) -> set[str]:
        """Kinds of the declared ids; see `kinds_of`."""
        return self._known.kinds

    def numbers_of(self, column: NDArray[Any]) -> NDArray[np.int64]:
        """Number of each id; -1 if it is not declared."""
        return index_of_ids(self._known, column)


class _Learned:
    """Numbers of the ids of a column, in the order in which they come."""

    def __init__(self) -> None:
        self._number: dict[Any, int] = {}
        self._types: set[np.dtype[Any]] = set()
        self._kept: NDArray[np.bool_] | slice = slice(None)

    def __len__(self) -> int:
        return len(self._number)

    def numbers_of(self, column: NDArray[Any]) -> NDArray[np.int32]:
        """Number of each id; new ids get the next ones."""
        self._types.add(column.dtype)
        if column.dtype == object:
            return self._of_ids(column.tolist())
        ids, places = np.unique(column, return_inverse=True)
        is_time = ids.dtype.kind in "mM"
        return self._of_ids(list(ids) if is_time else ids.tolist())[places]

    def _of_ids(self, ids: list[Any]) -> NDArray[np.int32]:
        numbers = self._number
        with contextlib.suppress(TypeError):
            found = [numbers.setdefault(id_, len(numbers)) for id_ in ids]
            return np.array(found, dtype=np.int32)
        # Raised outside the handler, so that the TypeError is not its context.
        raise ValueError("Some ids are neither numbers nor strings.")

    def keep(self, are_kept: NDArray[np.bool_]) -> None:
        """Forget all other ids."""
        self._kept = are_kept

    @property
    def ids(self) -> NDArray[Any]:
        """The ids that are kept, by number; an array of their type if they have one."""
        ids = np.fromiter(self._number, dtype=object, count=len(self))[self._kept]
        if len({dtype.kind for dtype in self._types}) == 1:
            return ids.astype(np.result_type(*self._types))
        return ids

    def spread(self, of_ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """What belongs to the ids that are kept, by number; -1 for all other ids."""
        spread = np.full(len(self), -1, dtype=np.int32)
        spread[self._kept] = of_ids
        return spread
