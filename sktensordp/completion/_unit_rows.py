"""Rows of units: computed from their own entries, in this process alone.

What is released is shared by all. A unit's own row serves its predictions, and leaves
with no deep copy or pickle.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LocalRows", "UnitModel"]


class LocalRows:
    """Rows of units and where they have entries: kept in this process alone.

    Deep copies and pickles are empty, so that nothing of a unit leaves with a model.

    Parameters
    ----------
    units : ndarray of shape (n_units,), int, default=None
        Ascending.
    rows : ndarray of shape (n_units, n_columns), default=None
    where : ndarray of shape (n, n_modes), int, default=None
        Coordinates of their entries.

    Attributes
    ----------
    model : UnitModel or None
        The prediction model, built on first use.
    lost : bool
        Whether these are a copy, or come out of a pickle, and nobody was told so.
    """

    def __init__(
        self,
        units: NDArray[np.integer] | None = None,
        rows: NDArray[np.float64] | None = None,
        where: NDArray[np.integer] | None = None,
        *,
        lost: bool = False,
    ) -> None:
        self.units = np.empty(0, dtype=np.int64) if units is None else units
        self.rows: Any = rows
        self.where: Any = where
        self.model: UnitModel | None = None
        self.lost = lost

    def replaced(
        self,
        units: NDArray[np.integer],
        rows: NDArray[np.float64],
        where: NDArray[np.integer],
        unit: int,
    ) -> "LocalRows":
        """These rows, with those of some units in the place of older ones."""
        if self.rows is None:
            return LocalRows(units, rows, where)
        keep = ~np.isin(self.units, units)
        stays = ~np.isin(self.where[:, unit], units)
        units = np.concatenate([self.units[keep], units])
        rows = np.concatenate([self.rows[keep], rows])
        where = np.concatenate([self.where[stays], where])
        order = np.argsort(units)
        return LocalRows(units[order], rows[order], where)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rows_left_behind, ()

    def __repr__(self) -> str:
        return "LocalRows()"


def _rows_left_behind() -> LocalRows:
    """What a pickle and a copy of `LocalRows` become."""
    return LocalRows(lost=True)


@dataclass(eq=False)
class UnitModel:
    """A model of all units: those with rows of their own, and the others.

    Attributes
    ----------
    inner : StructuredCP or StructuredTucker
        The unit's mode first; its last row is that of all other units.
    units : ndarray of shape (n_units,), int
        Those of the first rows, ascending.
    shape : tuple of int
        Of the tensor.
    unit : int
        The mode of the units.
    """

    inner: Any
    units: NDArray[np.integer]
    shape: tuple[int, ...]
    unit: int

    def _moved(self, coordinates: NDArray[np.integer]) -> NDArray[np.integer]:
        moved = np.roll(coordinates[:, : self.unit + 1], 1, axis=1)
        moved = np.concatenate([moved, coordinates[:, self.unit + 1 :]], axis=1)
        moved[:, 0] = self._position(moved[:, 0])
        return moved

    def _position(self, units: NDArray[np.integer]) -> NDArray[np.int64]:
        """Row of every unit in the inner model."""
        found = np.searchsorted(self.units, units)
        known = np.append(self.units, -2)[found] == units
        return np.where(known, found, len(self.units))

    def predict(self, coordinates: NDArray[np.integer]) -> NDArray[np.floating]:
        """See `StructuredCP.predict`."""
        return self.inner.predict(self._moved(coordinates))

    def slices(
        self, coordinates: NDArray[np.integer], mode: int
    ) -> NDArray[np.floating]:
        """See `StructuredCP.slices`."""
        inner = mode if mode > self.unit else (mode + 1) * (mode != self.unit)
        found = self.inner.slices(self._moved(coordinates), inner)
        if mode != self.unit:
            return found
        return found[:, self._position(np.arange(self.shape[mode]))]

    def dense(self) -> NDArray[np.floating]:
        """See `StructuredCP.dense`."""
        found = self.inner.dense()[self._position(np.arange(self.shape[self.unit]))]
        return np.moveaxis(found, 0, self.unit)

    @property
    def factors(self) -> list[NDArray[np.floating]]:
        """Factors for one unit, of which nothing is known, by mode."""
        own, *others = self.inner.factors
        others.insert(self.unit, own[-1:])
        return others

    @property
    def core(self) -> NDArray[np.floating]:
        """Of a Tucker model, its modes in the order of the tensor."""
        return np.moveaxis(self.inner.core, 0, self.unit)
