"""Entries sorted by unit."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["UnitEntries"]

# Largest number of entries in a chunk, unless a single unit has more.
_CHUNK = 2**19


class UnitEntries:
    """Entries sorted by unit, with an order by row for every other mode.

    The entries of a unit are sorted by their coordinates and then by their values, so
    that the order in which they came does not matter.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int
        The first column is the unit.
    values : ndarray of shape (n,), float

    Attributes
    ----------
    units : ndarray of shape (n_units,), int
        The units that have entries, ascending.
    starts : ndarray of shape (n_units + 1,), int
        The entries of the k-th unit are starts[k] to starts[k + 1].
    others : ndarray of shape (n, n_modes - 1), int
        Coordinates in the other modes.
    values : ndarray of shape (n,), float
    orders : list of ndarray of shape (n,), int
        For every other mode, the positions of the entries, sorted by unit and, within
        a unit, by their row in that mode.
    """

    def __init__(
        self, coordinates: NDArray[np.integer], values: NDArray[np.floating]
    ) -> None:
        order = np.lexsort((values, *coordinates.T[::-1]))
        self.units, starts = np.unique(coordinates[order, 0], return_index=True)
        self.starts = np.append(starts, len(values))
        self.others = np.asfortranarray(coordinates[order, 1:])
        self.values = values[order]
        numbers = self.numbers
        self.orders = [np.lexsort((rows, numbers)) for rows in self.others.T[1:]]
        # They are sorted by their row in the first of the other modes.
        self.orders.insert(0, np.arange(len(values)))

    def __sizeof__(self) -> int:
        """Bytes of the arrays, from which Dask expects how long a copy takes."""
        arrays = self.units, self.starts, self.others, self.values, *self.orders
        return sum(array.nbytes for array in arrays)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of entries of every unit."""
        return np.diff(self.starts)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """For every entry, the position of its unit in `units`."""
        return np.repeat(np.arange(len(self.units)), self.sizes)

    @property
    def coordinates(self) -> NDArray[np.integer]:
        """Coordinates of the entries, that of the unit first: (n, n_modes)."""
        return np.column_stack([self.units[self.numbers], self.others])

    def of(self, units: NDArray[np.integer]) -> "UnitEntries":
        """The entries of those of the given units that have any."""
        own = np.isin(self.units, units)[self.numbers]
        return UnitEntries(self.coordinates[own], self.values[own])

    def add_to(self, sums: Sequence[Any], contribute: Callable[..., None]) -> None:
        """Add the contributions of all units to sums, chunk by chunk.

        Parameters
        ----------
        sums : sequence of BoundedSums
        contribute : callable
            ``contribute(chunk, *sums)`` adds those of the units of a chunk.
        """
        for chunk in self.chunks():
            contribute(chunk, *sums)

    def chunks(self) -> Iterator["UnitEntries"]:
        """Yield the units in order, in chunks of whole units."""
        first = 0
        while first < len(self.units):
            limit = self.starts[first] + _CHUNK
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
        chunk.others, chunk.values = self.others[start:end], self.values[start:end]
        chunk.orders = [order[start:end] - start for order in self.orders]
        return chunk
