"""Entries sorted by the unit that they belong to."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["UnitEntries"]

# Entries that are worked on at once, unless a single unit has more.
_CHUNK = 2**19


class UnitEntries:
    """Entries sorted by unit, their other coordinates, and an order for every mode.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int
        The unit is in the first column.
    values : ndarray of shape (n,), float

    Attributes
    ----------
    units : ndarray of shape (n_units,), int
        The units that have entries, ascending.
    starts : ndarray of shape (n_units + 1,), int
        Entries of unit number k are starts[k] to starts[k + 1].
    others : ndarray of shape (n, n_modes - 1), int
        Coordinates in the other modes.
    values : ndarray of shape (n,), float
    orders : list of ndarray of shape (n,), int
        For every other mode, positions of the entries, those of a unit by their row.
    """

    def __init__(
        self, coordinates: NDArray[np.integer], values: NDArray[np.floating]
    ) -> None:
        order = np.argsort(coordinates[:, 0], kind="stable")
        self.units, starts = np.unique(coordinates[order, 0], return_index=True)
        self.starts = np.append(starts, len(values))
        self.others = np.asfortranarray(coordinates[order, 1:])
        self.values = values[order]
        self.orders = [np.lexsort((rows, self.numbers)) for rows in self.others.T]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of entries of every unit."""
        return np.diff(self.starts)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Which unit every entry belongs to, from 0."""
        return np.repeat(np.arange(len(self.units)), self.sizes)

    def chunks(self) -> Iterator["UnitEntries"]:
        """Yield parts of all units, one after the other, as UnitEntries."""
        first = 0
        while first < len(self.units):
            limit = self.starts[first] + _CHUNK
            last = int(np.searchsorted(self.starts, limit, side="right")) - 1
            last = max(last, first + 1)
            yield self._part(first, last)
            first = last

    def _part(self, first: int, last: int) -> "UnitEntries":
        part = object.__new__(UnitEntries)
        start, end = self.starts[first], self.starts[last]
        part.units = self.units[first:last]
        part.starts = self.starts[first : last + 1] - start
        part.others, part.values = self.others[start:end], self.values[start:end]
        part.orders = [order[start:end] - start for order in self.orders]
        return part
