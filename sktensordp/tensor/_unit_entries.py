"""Entries sorted by unit."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

# Largest number of entries in a chunk, unless a single unit has more.
_CHUNK = 2**16


class UnitEntries:
    """Entries sorted by unit, with an order by row for every other mode.

    The entries of a unit are sorted by their coordinates and then by their values, so
    that their original order does not matter. In a tensor of two modes, an entry takes
    5 bytes if the values are numbers of up to 256 levels, and 12 bytes otherwise. Every
    further mode adds 8 bytes. A unit takes 12 bytes.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int
        The first column is the unit.
    values : ndarray of shape (n,), float or int
        With `levels`, the numbers of their levels.
    levels : ndarray of shape (n_levels,), float, default=None
        The distinct values, ascending.

    Attributes
    ----------
    units : ndarray of shape (n_units,), int
        The units that have entries, ascending.
    starts : ndarray of shape (n_units + 1,), int
        The entries of the k-th unit are starts[k] to starts[k + 1].
    others : ndarray of shape (n, n_modes - 1), int
        Coordinates in the other modes.
    """

    def __init__(
        self,
        coordinates: NDArray[np.integer],
        values: NDArray[Any],
        levels: NDArray[np.floating] | None = None,
    ) -> None:
        n = len(values)
        columns: list[NDArray[Any]] = [*coordinates.T, values]
        units, *others, self._kept = _sorted(columns)
        is_first = np.ones(n, dtype=bool)
        is_first[1:] = units[1:] != units[:-1]
        self.starts = np.append(np.flatnonzero(is_first), n)
        self.units = units[self.starts[:-1]]
        self.others = np.stack(others).T
        self._levels = levels
        places = np.int32 if n < 2**31 else np.int64
        self._later_orders = [
            np.lexsort((rows, self.numbers)).astype(places) for rows in others[1:]
        ]

    @property
    def values(self) -> NDArray[Any]:
        """Values of the entries: an array of shape (n,)."""
        return self._kept if self._levels is None else self._levels[self._kept]

    @property
    def orders(self) -> list[NDArray[Any]]:
        """For every other mode, the positions of the entries by unit and then by row.

        Each is an array of shape (n,).
        """
        # The entries are sorted by their row in the first of the other modes.
        return [np.arange(len(self.others)), *self._later_orders]

    def __sizeof__(self) -> int:
        """Bytes of the arrays, from which Dask estimates how long a copy takes."""
        arrays = self.units, self.starts, self.others, self._kept, *self._later_orders
        return sum(array.nbytes for array in arrays)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of entries of every unit."""
        return np.diff(self.starts)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """For every entry, the position of its unit in `units`."""
        return np.repeat(np.arange(len(self.units)), self.sizes)

    def sums(self, numbers: NDArray[np.floating]) -> NDArray[np.float64]:
        """Sums over the entries of every unit, each a function of that unit's alone.

        Parameters
        ----------
        numbers : ndarray of shape (n, C)

        Returns
        -------
        sums : ndarray of shape (n_units, C)
        """
        n, shape = len(numbers), (len(self.units), len(numbers))
        # SciPy adds up row by row, in order. (Sums in NumPy may depend on where numbers
        # lie in memory, and so on other units.)
        by_unit = sparse.csr_array((np.ones(n), np.arange(n), self.starts), shape=shape)
        return by_unit @ numbers

    def products(
        self, left: NDArray[np.floating], right: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        """Sums over the entries of every unit of products of numbers; see `sums`.

        Parameters
        ----------
        left : ndarray of shape (n, C)
        right : ndarray of shape (n, D)

        Returns
        -------
        sums : ndarray of shape (n_units, C, D)
        """
        sums = self._by_unit(left).T @ right
        return sums.reshape(len(self.units), left.shape[1], right.shape[1])

    def transformed(
        self, numbers: NDArray[np.floating], matrices: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Numbers of every entry times the matrix of its unit; see `sums`.

        Parameters
        ----------
        numbers : ndarray of shape (n, C)
        matrices : ndarray of shape (n_units, C, D)

        Returns
        -------
        transformed : ndarray of shape (n, D)
        """
        n_units, n_rows, n_columns = matrices.shape
        return self._by_unit(numbers) @ matrices.reshape(n_units * n_rows, n_columns)

    def _by_unit(self, numbers: NDArray[np.floating]) -> sparse.csr_array:
        """Every unit's numbers in columns of its own, of shape (n, n_units * C)."""
        n, width = numbers.shape
        shape = n, len(self.units) * width
        places = np.int32 if max(n * width, shape[1]) < 2**31 else np.int64
        firsts = width * np.arange(len(self.units), dtype=places)
        columns = np.repeat(firsts, self.sizes)[:, np.newaxis]
        columns = columns + np.arange(width, dtype=places)
        starts = width * np.arange(n + 1, dtype=places)
        parts = np.asarray(numbers, float).ravel(), columns.ravel(), starts
        return sparse.csr_array(parts, shape=shape)

    def coordinates(self, unit: int = 0) -> NDArray[np.integer]:
        """Coordinates of the entries, of shape (n, n_modes).

        Parameters
        ----------
        unit : int, default=0
            The column of the units.
        """
        own = np.repeat(self.units, self.sizes)
        return np.column_stack([self.others[:, :unit], own, self.others[:, unit:]])

    def only_of(self, units: NDArray[np.integer]) -> "UnitEntries":
        """The entries of the given units; some of these may have none."""
        numbers = self.numbers
        own = np.flatnonzero(np.isin(self.units, units)[numbers])
        coordinates = self.units[numbers[own]], *self.others[own].T
        return UnitEntries(np.stack(coordinates).T, self._kept[own], self._levels)

    def summed(
        self, contribute: Callable[..., Sequence[NDArray[Any]]], question: object
    ) -> tuple[Sequence[NDArray[Any]], None]:
        """Sum the contributions of all units to a release; see `People` of the door."""
        return contribute(self, question), None

    def chunks(self, chunks_at_once: int = 1) -> Iterator["UnitEntries"]:
        """Yield the units in order, so many chunks of whole units at once."""
        first = 0
        while first < len(self.units):
            limit = self.starts[first] + chunks_at_once * _CHUNK
            last = int(np.searchsorted(self.starts, limit, side="right")) - 1
            last = max(last, first + 1)
            yield self._chunk(first, last)
            first = last

    def _chunk(self, first: int, last: int) -> "UnitEntries":
        """The entries of the units in positions [first, last)."""
        chunk = object.__new__(UnitEntries)
        start, end = self.starts[first], self.starts[last]
        chunk.units = self.units[first:last]
        chunk.starts = self.starts[first : last + 1] - start
        chunk.others, chunk._kept = self.others[start:end], self._kept[start:end]
        chunk._levels = self._levels
        chunk._later_orders = [order[start:end] - start for order in self._later_orders]
        return chunk


def _sorted(columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """The columns with their elements sorted by the first, then by the next, etc.

    Non-negative integers of at most 64 bits together are sorted as one number.
    """
    if all(column.dtype.kind in "iu" for column in columns):
        n_bits = [int(column.max(initial=0)).bit_length() for column in columns]
        if sum(n_bits) <= 64:
            return _sorted_integers(columns, n_bits)
    order = np.lexsort(columns[::-1])
    return [column[order] for column in columns]


def _sorted_integers(
    columns: list[NDArray[Any]], n_bits: list[int]
) -> list[NDArray[Any]]:
    """Sort the columns as single numbers, to which every column gives some bits."""
    numbers = np.zeros(len(columns[0]), dtype=np.uint64)
    # NumPy converts in small blocks, so no column is copied as a whole.
    options: dict[str, Any] = {"dtype": np.uint64, "casting": "unsafe"}
    for column, bits in zip(columns, n_bits, strict=True):
        numbers <<= np.uint64(bits)
        np.bitwise_or(numbers, column, out=numbers, **options)
    numbers.sort()
    found: list[NDArray[Any]] = []
    for column, bits in zip(columns[::-1], n_bits[::-1], strict=True):
        sorted_column = np.empty_like(column, order="C", shape=len(column))
        np.bitwise_and(numbers, np.uint64(2**bits - 1), out=sorted_column, **options)
        found.append(sorted_column)
        numbers >>= np.uint64(bits)
    return found[::-1]
