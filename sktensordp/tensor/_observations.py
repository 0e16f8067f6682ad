"""Observed entries, grouped by the rows of every mode, and sums over them.

A fit asks its entries through `has_rows`, `total`, `change_rows`, `change_values`,
`residuals`, `with_rows` and `gathered`. Entries in memory are one chunk, which answers
here. Entries in many chunks, each of which has some rows of one mode to itself, ask all
chunks and add up the answers.

Time and memory depend on the number of entries: an index without entries is not stored.
The rows of a mode are the indices that have entries, in ascending order, unless the
caller says which rows there are.

Sums over the rows of a matrix are compiled products in SciPy of a sparse and a dense
matrix. Those over many entries of three and more modes take a numba kernel. All sums
are in double precision, whatever the type of the values.

Entries that differ in one mode alone are a fiber: the items that a user rates on one
day. If fibers are long, the rows of their entries in this mode are summed first, and
multiplied by those of the other modes once for all of them; see `Fibers`.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import islice, pairwise
from operator import is_, itemgetter
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._coordinates import present
from ._leading_terms import LocalMatrix
from ._threads import even_blocks, in_threads

# For a matrix or a tensor with at least these numbers of entries, loading numba pays
# off.
_MANY_ENTRIES, _MANY_IN_TENSOR = 100_000, 10_000
# With at least this number of entries per fiber, the entries of a fiber are summed
# first, if the sums for all fibers have no more than the second number of elements.
_LONG_FIBER, _MOST_OF_FIBERS = 4, 2**23
# Number of entries that are gathered at a time.
_CHUNK = 2**14
# Size of arrays that stay in the caches while the products of entries are gathered.
_GATHERED = 2**15
# Largest size of arrays in memory while entries are contracted with a core.
_BLOCK = 2**21

Kept = TypeVar("Kept")
Total = TypeVar("Total")


class GivesValues(Protocol):
    """Rows of all modes that determine the values of entries, as `Rows` does."""

    @property
    def means(self) -> tuple[NDArray[np.floating], ...]:
        """Rows by mode: arrays of shape (n_rows, n_columns)."""

    def value(self, rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The values of entries, from their rows in every mode."""


class _Group(NamedTuple):
    """The entries of every row of a mode.

    Attributes
    ----------
    starts : ndarray of shape (n_rows + 1,), int
        The entries of row r have the places starts[r] to starts[r + 1].
    others : ndarray of shape (n_entries, n_modes - 1), int32
        The rows of an entry in the other modes, by place.
    order : ndarray of shape (n_entries,), int32
        The number of the entry at every place.
    """

    starts: NDArray[np.integer]
    others: NDArray[np.integer]
    order: NDArray[np.integer]


class _Chunk(NamedTuple):
    """Consecutive entries of a mode.

    Attributes
    ----------
    rows : slice
        The rows of the mode that have some of these entries.
    bounds : list of int
        The entries of the first of these rows are bounds[0] to bounds[1] of the chunk.
    values : ndarray of shape (n,)
    at : list by mode of ndarray of shape (n,), int
        The rows of the entries in all other modes; an empty array for this mode.
    """

    rows: slice
    bounds: list[int]
    values: NDArray[np.floating]
    at: list[NDArray[np.integer]]


@dataclass(frozen=True, eq=False)
class Observations:
    """Values at coordinates.

    Attributes
    ----------
    values : tuple by mode of ndarray of shape (n_entries,), float32 or float64
        The value at every place.
    used : tuple by mode of ndarray of shape (n_rows,), int
        The index of every row, ascending.
    groups : tuple by mode of _Group
    is_compiled : bool
        Whether fits to these entries use compiled loops.
    outputs : ndarray of shape (n_entries,), int, or None
        Numbers of the outputs of the public table that randomised the values, in the
        order of the caller.
    signs : ndarray of shape (n_entries,), int8, or None
        Random signs, fixed for every entry, in the order of the caller.
    fibers : Fibers or None
        The same entries by fiber; None if fibers are short, or entries few.
    """

    values: tuple[NDArray[np.floating], ...]
    used: tuple[NDArray[np.integer], ...]
    groups: tuple[_Group, ...]
    is_compiled: bool
    outputs: NDArray[np.integer] | None = None
    signs: NDArray[np.int8] | None = None
    fibers: "Fibers | None" = None

    @classmethod
    def from_arrays(
        cls,
        coordinates: NDArray[np.integer],
        values: NDArray[np.floating],
        used: Sequence[NDArray[np.integer] | None] | None = None,
        outputs: NDArray[np.integer] | None = None,
        signs: NDArray[np.int8] | None = None,
        is_compiled: bool | None = None,
    ) -> Self:
        """Group entries.

        Parameters
        ----------
        coordinates : ndarray of shape (n_entries, n_modes), int
        values : ndarray of shape (n_entries,), float32 or float64
        used : sequence by mode of ndarray or None, default=None
            The indices of a mode that get rows, ascending; they include all
            coordinates. None for the indices that have entries.
        outputs : ndarray of shape (n_entries,), int, default=None
            Outputs of a public table for these entries.
        signs : ndarray of shape (n_entries,), int8, default=None
        is_compiled : bool, default=None
            Whether to use compiled loops. By default, many entries do, and are taken by
            fiber if fibers are long.

        Returns
        -------
        observations : Observations
        """
        given = [None] * coordinates.shape[1] if used is None else used
        pairs = [_rows_of(c, u) for c, u in zip(coordinates.T, given, strict=True)]
        indices, rows = zip(*pairs, strict=True)
        sizes = [len(index) for index in indices]
        groups = tuple(_group(rows, mode, sizes) for mode in range(len(rows)))
        by_mode = tuple(values[group.order] for group in groups)
        fibers = None
        if is_compiled is None:
            least = _MANY_ENTRIES if len(rows) == 2 else _MANY_IN_TENSOR
            is_compiled = len(values) >= least
            fibers = _fibers(rows, sizes, values) if is_compiled else None
        return cls(by_mode, tuple(indices), groups, is_compiled, outputs, signs, fibers)

    def with_values(self, values: NDArray[np.floating]) -> Self:
        """Other values at the same coordinates, in the order of the caller."""
        by_mode, fibers = tuple(values[g.order] for g in self.groups), self.fibers
        if fibers is not None:
            matrix = fibers.matrix.with_values(values)
            fibers = fibers._replace(matrix=matrix, latest=Latest())
        return replace(self, values=by_mode, fibers=fibers)

    def has_rows(self, mode: int) -> bool:
        """Whether all entries of each row of a mode are in one chunk."""
        return True

    def total(
        self,
        function: Callable[..., Total],
        rows: object,
        *arguments: object,
        reads: Collection[int] | None = None,
    ) -> Total:
        """Sums over chunks of ``function(rows, chunk, *arguments)``.

        Parameters
        ----------
        function : callable
            Returns a tuple of numbers or arrays.
        rows : Rows
        *arguments : object
        reads : collection of int, default=None
            The modes whose rows the function reads; by default, all.
        """
        return function(rows, self, *arguments)

    def change_rows(
        self,
        function: Callable[..., tuple[Kept, Total]],
        rows: Kept,
        *arguments: object,
        reads: Collection[int] | None = None,
    ) -> tuple[Kept, Self, Total]:
        """Change the rows that the chunks keep.

        Parameters
        ----------
        function : callable
            ``function(rows, chunk, *arguments)`` returns other rows, and a tuple of
            numbers or arrays, which are added up over chunks.
        rows : Rows
        *arguments : object
        reads : collection of int, default=None
            See `total`.

        Returns
        -------
        rows : Rows
        entries : Observations
        total : tuple
        """
        rows, total = function(rows, self, *arguments)
        return rows, self, total

    def change_values(
        self,
        function: Callable[..., tuple[NDArray[np.floating], Total]],
        rows: object,
        *arguments: object,
    ) -> tuple[Self, Total]:
        """Change the values.

        Parameters
        ----------
        function : callable
            ``function(rows, chunk, *arguments)`` returns other values, and a tuple of
            numbers or arrays, which are added up over chunks.
        rows : Rows
        *arguments : object

        Returns
        -------
        entries : Observations
        total : tuple
        """
        values, total = function(rows, self, *arguments)
        return self.with_values(values), total

    def with_rows(self, rows: Kept) -> tuple[Kept, Self]:
        """Let chunks keep the rows of which they have all entries."""
        return rows, self

    def gathered(self, rows: Kept) -> Kept:
        """Undo `with_rows`: collect the rows of all modes."""
        return rows

    def here(self) -> Self:
        """All entries, in the memory of this process."""
        return self

    @property
    def coordinates(self) -> NDArray[np.integer]:
        """Coordinates of the entries, by place in the first mode."""
        starts, others, _ = self.groups[0]
        own = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        pairs = zip(self.used, [own, *others.T], strict=True)
        return np.column_stack([used[rows] for used, rows in pairs])

    def residuals(self, rows: GivesValues) -> LocalMatrix:
        """Residuals of a matrix."""
        mode = int(np.argmax([len(u) for u in self.used]))
        return LocalMatrix(self.residual_matrix(rows, mode), [*self.counts], mode)

    def residual_matrix(self, rows: GivesValues, mode: int) -> sparse.csr_array:
        """Residuals of the values, as a matrix with the rows of a mode."""
        starts, others, order = self.groups[mode]
        left = self.values[mode] - self.fitted(rows)[order]
        sizes = [len(used) for used in self.used]
        n_rows = sizes.pop(mode)
        columns = others[:, 0]
        for other, size in zip(others[:, 1:].T, sizes[1:], strict=True):
            columns = columns * size + other.astype(np.int64)
        shape = n_rows, math.prod(sizes)
        return sparse.csr_array((left, columns, starts), shape=shape)

    @cached_property
    def n_entries(self) -> int:
        """Number of entries."""
        return len(self.values[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.values[0].dtype

    @property
    def energy(self) -> float:
        """Sum of the squared values."""
        return float(self.energies.sum())

    @cached_property
    def counts(self) -> list[NDArray[np.integer]]:
        """Number of entries of every row, by mode."""
        return [np.diff(group.starts) for group in self.groups]

    @cached_property
    def energies(self) -> NDArray[np.float64]:
        """Sum of the squared values of every row of the first mode."""
        squares = self.values[0].astype(float) ** 2
        sums = np.append(0.0, np.cumsum(squares))
        return np.diff(sums[self.groups[0].starts])

    def product_sums(
        self,
        mode: int,
        tables: Sequence[NDArray[np.float64]],
        n_values: int = 0,
    ) -> Callable[[slice], NDArray[np.float64]]:
        """Sums over the entries of a mode's rows of products of their rows of tables.

        Parameters
        ----------
        mode : int
        tables : sequence of ndarray of shape (n_rows of the mode, n_columns), float64
            One for every other mode.
        n_values : int, default=0
            Number of columns, the last ones, that are also multiplied by the value.

        Returns
        -------
        sums : callable
            ``sums(rows)`` returns the sums of a slice of rows: an array of shape
            (number of rows, n_columns), float64.
        """
        add = self._product_sums if self.is_compiled else self._gathered_sums
        table = tables[0] if len(tables) == 1 else np.concatenate(tables)
        first = np.cumsum([0, *map(len, tables[:-1])])
        return partial(add, mode, table, first, n_values)

    def _product_sums(
        self,
        mode: int,
        table: NDArray[np.float64],
        first: NDArray[np.integer],
        n_values: int,
        rows: slice,
    ) -> NDArray[np.float64]:
        """Sums of products, by a compiled loop."""
        from .kernels._rows import product_sums

        starts, others, values = self._of_rows(mode, rows)
        n_columns = table.shape[1]
        sums = np.empty((len(starts) - 1, n_columns))
        n_plain = n_columns - n_values
        product_sums(starts, others, first, values, n_plain, table, sums)
        return sums

    def _gathered_sums(
        self,
        mode: int,
        table: NDArray[np.float64],
        first: NDArray[np.integer],
        n_values: int,
        rows: slice,
    ) -> NDArray[np.float64]:
        """Sums of products, by SciPy: entries of a matrix need not be gathered."""
        starts, others, values = self._of_rows(mode, rows)
        n, n_columns = len(values), table.shape[1]
        is_matrix = others.shape[1] == 1
        at = others[:, 0] if is_matrix else np.arange(n, dtype=np.int32)
        sums, n_plain = np.empty((len(starts) - 1, n_columns)), n_columns - n_values
        columns = slice(n_plain), slice(n_plain, None)
        for factors, some in zip((np.ones(n), values), columns, strict=True):
            # SciPy would copy what is not contiguous, and products are large.
            own = np.ascontiguousarray(table[:, some])
            if own.size:
                own = own if is_matrix else _gathered_products(own, first, others)
                data, shape = factors.astype(float, copy=False), (len(sums), len(own))
                sums[:, some] = sparse.csr_array((data, at, starts), shape=shape) @ own
        return sums

    def _of_rows(
        self, mode: int, rows: slice
    ) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]]:
        """Where the entries of some rows begin, their other rows, and their values."""
        group = self.groups[mode]
        starts = group.starts[rows.start : rows.stop + 1]
        places = slice(starts[0], starts[-1])
        return starts - starts[0], group.others[places], self.values[mode][places]

    def squares(
        self,
        mode: int,
        rows: slice,
        tables: Sequence[NDArray[np.float64]],
        weights: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Sums over the entries of a mode's rows of the squares of their regressors.

        Parameters
        ----------
        mode, rows, tables
            See `product_sums`.
        weights : ndarray, default=None
            The weights of entries, for every row of the first of the tables.

        Returns
        -------
        squares : ndarray of shape (number of rows, n_columns + 1, n_columns + 1)
            Sum of b b^T, where b holds the products of the tables and, last, the value.
        """
        others, values = self.groups[mode].others, self.values[mode]
        starts = self.groups[mode].starts[rows.start : rows.stop + 1]
        n_rows, size = len(starts) - 1, tables[0].shape[1] + 1
        padded = [np.append(t, np.ones((len(t), 1)), axis=1) for t in tables]
        if weights is not None:
            padded[0] *= np.sqrt(weights)[:, np.newaxis]
        squares = np.zeros((n_rows, size, size))
        ends = starts.tolist()
        first = 0
        while first < n_rows:
            last = int(np.searchsorted(starts, ends[first] + _CHUNK, side="right")) - 1
            last = max(last, first + 1)
            places = slice(ends[first], ends[last])
            pairs = zip(padded, others[places].T, strict=True)
            products = reduce(np.multiply, (np.take(t, r, axis=0) for t, r in pairs))
            products[:, -1] *= values[places]
            for r in range(first, last):
                own = products[ends[r] - places.start : ends[r + 1] - places.start]
                np.matmul(own.T, own, out=squares[r])
            first = last
        return squares

    def contracted_sums(
        self,
        mode: int,
        core: NDArray[np.float64],
        tables: Sequence[NDArray[np.float64]],
        n_values: int = 0,
        n_threads: int = 1,
    ) -> NDArray[np.float64]:
        """Sums over the entries of a mode's rows of a core contracted with other rows.

        Parameters
        ----------
        mode : int
        core : ndarray of shape (n_columns of every mode)
        tables : sequence by mode of ndarray of shape (Q, n_rows, n_columns), float64
            The core is contracted Q times. The table of `mode` is not read.
        n_values : int, default=0
            Number of contractions, the last ones, that are multiplied by the value.
        n_threads : int, default=1

        Returns
        -------
        sums : ndarray of shape (Q, n_rows, n_columns) of the mode
        """
        small, width, n_rows = self._smallest, core.shape[mode], len(self.used[mode])
        n_sums = len(tables[mode - 1])
        if core.ndim == 2:
            table = tables[1 - mode] @ np.moveaxis(core, mode, 1)
            return self.matrix_sums(mode, table, n_values)
        fibers = self.fibers_for(n_sums * max(core.shape))
        if fibers is not None:
            return fibers.contracted_sums(mode, core, tables, n_values, n_threads)
        others = [k for k in range(core.ndim) if k not in (mode, small)]
        if mode == small:
            matrix = np.moveaxis(core, mode, -1).reshape(-1, width)

            def add_row_by_row(total: NDArray[np.float64], chunk: _Chunk) -> None:
                outer = _summed_outer(chunk, tables, others, n_values)
                total[:, chunk.rows] += outer @ matrix

            shape, numbers = (n_sums, n_rows, width), n_sums * len(matrix)
            return self._added_up(add_row_by_row, shape, numbers, n_threads)
        # The core is contracted with the rows of the smallest mode first, once for all
        # entries of a row.
        size = math.prod(core.shape[k] for k in others)
        matrix = core.transpose(small, *others, mode).reshape(-1, size * width)

        def add_entry_by_entry(total: NDArray[np.float64], chunk: _Chunk) -> None:
            n = len(chunk.values)
            outer = _outer(chunk, tables, others)
            halves = tables[small][:, chunk.rows] @ matrix
            halves = halves.reshape(n_sums, -1, size, width)
            products = np.empty((n, n_sums, width))
            for t, (begin, end) in enumerate(pairwise(chunk.bounds)):
                out = products[begin:end].transpose(1, 0, 2)
                np.matmul(outer[:, begin:end], halves[:, t], out=out)
            products[:, n_sums - n_values :] *= chunk.values[:, np.newaxis, np.newaxis]
            at = np.ones(n), chunk.at[mode], np.arange(n + 1)
            incidence = sparse.csc_array(at, shape=(n_rows, n))
            total += incidence @ products.reshape(n, -1)

        by_row = n_rows, n_sums * width
        numbers = n_sums * size * width
        found = self._added_up(add_entry_by_entry, by_row, numbers, n_threads)
        return found.reshape(n_rows, n_sums, width).transpose(1, 0, 2)

    def outer_sums(
        self,
        tables: Sequence[NDArray[np.float64]],
        n_values: int = 0,
        n_threads: int = 1,
    ) -> NDArray[np.float64]:
        """Sums over all entries of outer products of their rows; see `contracted_sums`.

        Returns
        -------
        sums : ndarray of shape (Q, n_columns of every mode)
        """
        if len(tables) == 2:
            sums = self.matrix_sums(0, tables[1], n_values)
            return tables[0].transpose(0, 2, 1) @ sums
        small, sizes = self._smallest, [table.shape[2] for table in tables]
        fibers = self.fibers_for(len(tables[0]) * max(sizes))
        if fibers is not None:
            of_fibers = fibers.with_sums(tables, n_values)
            return fibers.entries.outer_sums(of_fibers, 0, n_threads)
        others = [k for k in range(len(tables)) if k != small]
        sizes = [sizes[small], *(sizes[k] for k in others)]
        n_sums, size = len(tables[0]), math.prod(sizes[1:])

        def add(total: NDArray[np.float64], chunk: _Chunk) -> None:
            outer = _summed_outer(chunk, tables, others, n_values)
            total += tables[small][:, chunk.rows].transpose(0, 2, 1) @ outer

        shape = n_sums, sizes[0], size
        total = self._added_up(add, shape, n_sums * size, n_threads)
        return np.moveaxis(total.reshape(n_sums, *sizes), 1, small + 1)

    def matrix_sums(
        self, mode: int, table: NDArray[np.float64], n_values: int
    ) -> NDArray[np.float64]:
        """Sums over a matrix's entries of rows of the other mode's table.

        Parameters
        ----------
        mode : int
        table : ndarray of shape (Q, n_rows of the other mode, n_columns), float64
        n_values : int
            Number of the Q, the last ones, that are also multiplied by the value.

        Returns
        -------
        sums : ndarray of shape (Q, n_rows of the mode, n_columns)
        """
        n_sums, n_others, width = table.shape
        columns = table.transpose(1, 0, 2).reshape(n_others, -1)
        every = slice(0, len(self.used[mode]))
        sums = self.product_sums(mode, [columns], n_values * width)(every)
        return sums.reshape(-1, n_sums, width).transpose(1, 0, 2)

    def fibers_for(self, n_columns: int) -> "Fibers | None":
        """The fibers, if their sums of so many columns are not too large."""
        fibers = self.fibers
        if fibers is None or fibers.entries.n_entries * n_columns > _MOST_OF_FIBERS:
            return None
        return fibers

    @property
    def _smallest(self) -> int:
        """The mode with the fewest rows."""
        return int(np.argmin([len(used) for used in self.used]))

    def _added_up(
        self,
        add: Callable[[NDArray[np.float64], _Chunk], None],
        shape: tuple[int, ...],
        numbers: int,
        n_threads: int,
    ) -> NDArray[np.float64]:
        """Sum what `add` adds to zeros for every chunk of the smallest mode.

        Each row takes memory for `numbers` numbers.
        """
        if self.n_entries <= _CHUNK:
            n_threads = 1  # A thread would cost more than it saves.

        def sum_some(first: int) -> NDArray[np.float64]:
            total = np.zeros(shape)
            for chunk in islice(self._chunks(numbers), first, None, n_threads):
                add(total, chunk)
            return total

        return reduce(np.add, in_threads(sum_some, range(n_threads), n_threads))

    def _chunks(self, numbers: int) -> Iterator[_Chunk]:
        """Entries in the order of the rows of the smallest mode; see `_added_up`."""
        mode, most_rows = self._smallest, max(_BLOCK // numbers, 1)
        group, values = self.groups[mode], self.values[mode]
        starts, n_rows, begin = group.starts, len(self.used[mode]), 0
        while begin < len(values):
            first = int(np.searchsorted(starts, begin, side="right")) - 1
            end = min(begin + _CHUNK, int(starts[min(first + most_rows, n_rows)]))
            last = int(np.searchsorted(starts, end))
            bounds = np.clip(starts[first : last + 1], begin, end) - begin
            at = [*group.others[begin:end].T]
            at.insert(mode, np.empty(0, np.int32))
            rows = slice(first, last)
            yield _Chunk(rows, bounds.tolist(), values[begin:end], at)
            begin = end

    def fitted(self, rows: GivesValues) -> NDArray[np.floating]:
        """The values of the entries by the model, in the order of the caller."""
        starts, others, order = self.groups[0]
        values = np.empty(len(order), rows.means[0].dtype)
        own = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
        for begin in range(0, len(order), _CHUNK):
            chunk = slice(begin, begin + _CHUNK)
            at = [own[chunk], *others[chunk].T]
            pairs = zip(rows.means, at, strict=True)
            values[order[chunk]] = rows.value([np.take(m, r, axis=0) for m, r in pairs])
        return values


class Latest:
    """Keeps the latest result for as long as what it was computed from is the same.

    It is not pickled.
    """

    def __init__(self) -> None:
        self._read: tuple[object, ...] = ()
        self._result: Any = None

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return Latest, ()

    def of(self, read: tuple[object, ...], compute: Callable[[], Total]) -> Total:
        """The result for objects that nobody changes in place.

        Parameters
        ----------
        read : tuple of object
            All that `compute` reads and that may differ from call to call.
        compute : callable
        """
        if not (len(read) == len(self._read) and all(map(is_, read, self._read))):
            # The earlier result does not take memory beside the new one.
            self._read, self._result = (), None
            self._result = compute()
            self._read = read
        result: Total = self._result
        return result


class Fibers(NamedTuple):
    """Entries that differ in one mode alone, taken together.

    A sum over entries is one over fibers: the rows of a fiber's entries in this mode
    are summed first.

    Attributes
    ----------
    mode : int
        This mode.
    matrix : Observations
        The entries, as a matrix of fibers and rows of the mode.
    entries : Observations
        One entry for every fiber. Its row in the mode is its number, its value one.
    latest : Latest
        Keeps sums over the fibers from one update to the next.
    """

    mode: int
    matrix: Observations
    entries: Observations
    latest: Latest

    def sums(
        self, table: NDArray[np.float64], n_values: int, n_threads: int
    ) -> NDArray[np.float64]:
        """Sums over the entries of all fibers of their rows of a table.

        Parameters
        ----------
        table : ndarray of shape (n_rows of the mode, n_columns), float64
        n_values : int
            Number of columns, the last ones, that are also multiplied by the value.
        n_threads : int

        Returns
        -------
        sums : ndarray of shape (n_fibers, n_columns), float64
        """
        blocks = even_blocks(self.entries.n_entries, n_threads)
        add = self.matrix.product_sums(0, [table], n_values)
        return np.concatenate(in_threads(add, blocks, n_threads))

    def product_sums(
        self, tables: Sequence[NDArray[np.float64]], n_values: int, n_threads: int
    ) -> Callable[[slice], NDArray[np.float64]]:
        """See `Observations.product_sums`; those of the mode of the fibers."""
        blocks = even_blocks(self.entries.n_entries, n_threads)
        # Every fiber is a row of one entry.
        multiply = self.entries.product_sums(self.mode, tables)
        products = np.concatenate(in_threads(multiply, blocks, n_threads))
        return self.matrix.product_sums(1, [products], n_values)

    def contracted_sums(
        self,
        mode: int,
        core: NDArray[np.float64],
        tables: Sequence[NDArray[np.float64]],
        n_values: int,
        n_threads: int,
    ) -> NDArray[np.float64]:
        """See `Observations.contracted_sums`."""
        if mode == self.mode:
            found = self.entries.contracted_sums(mode, core, tables, 0, n_threads)
            return self.matrix.matrix_sums(1, found, n_values)
        of_fibers = self.with_sums(tables, n_values)
        return self.entries.contracted_sums(mode, core, of_fibers, 0, n_threads)

    def with_sums(
        self, tables: Sequence[NDArray[np.float64]], n_values: int
    ) -> list[NDArray[np.float64]]:
        """Tables for the entries that stand for fibers; see `contracted_sums`."""
        of_fibers = [*tables]
        own = tables[self.mode]
        of_fibers[self.mode] = self.matrix.matrix_sums(0, own, n_values)
        return of_fibers


def _fibers(
    rows: Sequence[NDArray[np.int32]],
    sizes: Sequence[int],
    values: NDArray[np.floating],
) -> Fibers | None:
    """The fibers of entries in the mode that has the fewest, if they are long."""
    n_modes, n = len(rows), len(values)
    if n_modes < 3:
        return None
    found = []
    for mode in range(n_modes):
        others = [m for m in range(n_modes) if m != mode]
        order, is_first = np.arange(n), np.zeros(n, dtype=bool)
        is_first[:1] = True
        for m in others:
            order = order[_sorted(rows[m][order], sizes[m])[1]]
        for m in others:
            is_first[1:] |= np.diff(rows[m][order]) != 0
        found.append((int(np.count_nonzero(is_first)), mode, order, is_first))
    n_fibers, mode, order, is_first = min(found, key=itemgetter(0))
    if n < _LONG_FIBER * n_fibers:
        return None
    numbers = np.empty(n, np.int32)
    numbers[order] = np.cumsum(is_first) - 1
    indices = [np.arange(size) for size in sizes]
    fibers = np.arange(n_fibers)
    matrix = Observations.from_arrays(
        np.column_stack([numbers, rows[mode]]),
        values,
        [fibers, indices[mode]],
        is_compiled=True,
    )
    at = np.column_stack([row[order[is_first]] for row in rows])
    at[:, mode], indices[mode] = fibers, fibers
    ones = np.ones(n_fibers, values.dtype)
    entries = Observations.from_arrays(at, ones, indices, is_compiled=True)
    return Fibers(mode, matrix, entries, Latest())


def _gathered_products(
    table: NDArray[np.float64],
    first: NDArray[np.integer],
    others: NDArray[np.integer],
) -> NDArray[np.float64]:
    """For every entry, the product of its rows of a table; see `product_sums`."""
    products = np.empty((len(others), table.shape[1]))
    size = max(_GATHERED // max(table.shape[1], 1), 1)
    for begin in range(0, len(others), size):
        some = slice(begin, begin + size)
        of_some = zip(first, others[some].T, strict=True)
        *gathered, last = (np.take(table, start + at, axis=0) for start, at in of_some)
        np.multiply(reduce(np.multiply, gathered), last, out=products[some])
    return products


def _outer(
    chunk: _Chunk, tables: Sequence[NDArray[np.float64]], modes: Sequence[int]
) -> NDArray[np.float64]:
    """Outer products of the rows of entries in some modes: of shape (Q, n, size)."""
    shape = len(tables[modes[0]]), len(chunk.values)
    outer = np.ones((*shape, 1))
    for mode in modes:
        gathered = np.take(tables[mode], chunk.at[mode], axis=1)
        outer = outer[..., np.newaxis] * gathered[:, :, np.newaxis]
        outer = outer.reshape(*shape, -1)
    return outer


def _summed_outer(
    chunk: _Chunk,
    tables: Sequence[NDArray[np.float64]],
    modes: Sequence[int],
    n_values: int,
) -> NDArray[np.float64]:
    """Sums of outer products over the entries of every row of a chunk."""
    left = _outer(chunk, tables, modes[:-1])
    right = np.take(tables[modes[-1]], chunk.at[modes[-1]], axis=1)
    n_sums = len(left)
    left[n_sums - n_values :] *= chunk.values[:, np.newaxis]
    sums = np.empty((n_sums, len(chunk.bounds) - 1, left.shape[2], right.shape[2]))
    for t, (a, b) in enumerate(pairwise(chunk.bounds)):
        np.matmul(left[:, a:b].transpose(0, 2, 1), right[:, a:b], out=sums[:, t])
    return sums.reshape(*sums.shape[:2], -1)


def places_of(
    index: NDArray[np.integer], used: NDArray[np.integer]
) -> NDArray[np.integer]:
    """Positions of indices among the used ones; -1 for the others."""
    if not len(used):
        return np.full(len(index), -1)
    if used[-1] - used[0] == len(used) - 1:  # there are no gaps
        at = index - used[0]
        return np.where((at >= 0) & (at < len(used)), at, -1)
    at = np.minimum(np.searchsorted(used, index), len(used) - 1)
    return np.where(used[at] == index, at, -1)


def _rows_of(
    index: NDArray[np.integer], used: NDArray[np.integer] | None
) -> tuple[NDArray[np.integer], NDArray[np.int32]]:
    """The rows of a mode, and the row of every entry."""
    if used is None:
        return present(index)
    return used, places_of(index, used).astype(np.int32)


def _group(
    rows: Sequence[NDArray[np.int32]], mode: int, sizes: Sequence[int]
) -> _Group:
    """Group entries by their row of a mode.

    Within a row, they are sorted by their row in the largest of the other modes, so
    that gathering those rows reads memory in one direction.
    """
    largest = max((m for m in range(len(rows)) if m != mode), key=sizes.__getitem__)
    _, before = _sorted(rows[largest], sizes[largest])
    starts, order = _sorted(rows[mode][before], sizes[mode])
    order = before[order]
    others = np.empty((len(order), len(rows) - 1), np.int32)
    for k, other in enumerate(r for m, r in enumerate(rows) if m != mode):
        others[:, k] = other[order]
    return _Group(starts, others, order)


def _sorted(
    rows: NDArray[np.int32], n_rows: int
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """The stable order by rows, and where every row begins in it."""
    n = len(rows)
    # SciPy sorts by counting: every entry is a row of this matrix with one column.
    starts = np.arange(n + 1, dtype=np.int32 if n < 2**31 - 1 else np.int64)
    ones = np.ones(n, np.int8)
    by_row = sparse.csr_array((ones, rows, starts), shape=(n, n_rows)).tocsc()
    return by_row.indptr, by_row.indices
