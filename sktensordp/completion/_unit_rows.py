"""Rows of units, which stay in this process.

All units share the released part of the model. A unit's row is computed from its own
entries, serves its predictions, and is never pickled or deep-copied.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tensor._observations import places_of
from ._local import Local


class LocalRows(Local):
    """Rows of units and the coordinates of their entries, for this process only.

    Parameters
    ----------
    units : ndarray of shape (n_units,), int, default=None
        Indices of the units, ascending.
    rows : ndarray of shape (n_units, n_columns), default=None
    where : ndarray of shape (n, n_modes), int, default=None
        Coordinates of the units' entries.
    elsewhere : PartitionedUnits, default=None
        Entries of further units, which answer for these units where they are.

    Attributes
    ----------
    model : UnitModel, OwnModel or None
        The prediction model, built on first use.
    """

    def __init__(
        self,
        units: NDArray[np.integer] | None = None,
        rows: NDArray[np.float64] | None = None,
        where: NDArray[np.integer] | None = None,
        *,
        elsewhere: Any | None = None,
    ) -> None:
        self.units = np.empty(0, dtype=np.int64) if units is None else units
        self.rows = rows
        self.where: Any = where
        self.model: Any = None
        self.elsewhere = elsewhere

    def replaced(
        self,
        units: NDArray[np.integer],
        rows: NDArray[np.float64],
        where: NDArray[np.integer],
        unit: int,
    ) -> "LocalRows":
        """Add rows of units, in place of any earlier rows of these units."""
        if self.rows is None:
            return LocalRows(units, rows, where, elsewhere=self.elsewhere)
        keep = ~np.isin(self.units, units)
        stays = ~np.isin(self.where[:, unit], units)
        units = np.concatenate([self.units[keep], units])
        rows = np.concatenate([self.rows[keep], rows])
        where = np.concatenate([self.where[stays], where])
        order = np.argsort(units)
        return LocalRows(units[order], rows[order], where, elsewhere=self.elsewhere)


@dataclass(eq=False)
class UnitModel:
    """A model of all units; those without a row share one.

    Attributes
    ----------
    inner : Rows
        The model with the mode of the units first. The last row of that mode is the
        one of all units without a row.
    units : ndarray of shape (n_units,), int
        The units of the other rows, ascending.
    shape : tuple of int
        Shape of the tensor.
    unit : int
        The mode of the units.
    """

    inner: Any
    units: NDArray[np.integer]
    shape: tuple[int, ...]
    unit: int

    def _inner_coordinates(
        self, coordinates: NDArray[np.integer]
    ) -> NDArray[np.integer]:
        others = [mode for mode in range(len(self.shape)) if mode != self.unit]
        moved = coordinates[:, [self.unit, *others]]
        moved[:, 0] = self._position(moved[:, 0])
        return moved

    def _position(self, units: NDArray[np.integer]) -> NDArray[np.int64]:
        """Rows of units in the inner model."""
        rows = places_of(units, self.units)
        return np.where(rows < 0, len(self.units), rows)

    def predict(self, coordinates: NDArray[np.integer]) -> NDArray[np.floating]:
        """See `Rows.predict`."""
        return self.inner.predict(self._inner_coordinates(coordinates))

    def slices(
        self,
        coordinates: NDArray[np.integer],
        mode: int,
        every: NDArray[np.floating] | None = None,
    ) -> NDArray[np.floating]:
        """See `Rows.slices`."""
        inner = self._inner_mode(mode)
        scores = self.inner.slices(self._inner_coordinates(coordinates), inner, every)
        if mode != self.unit:
            return scores
        return scores[:, self._position(np.arange(self.shape[mode]))]

    def every_row(self, mode: int) -> NDArray[np.floating]:
        """See `Rows.every_row`."""
        return self.inner.every_row(self._inner_mode(mode))

    def _inner_mode(self, mode: int) -> int:
        """The number of a mode in the inner model."""
        return mode if mode > self.unit else (mode + 1) * (mode != self.unit)

    def dense(self) -> NDArray[np.floating]:
        """See `Rows.dense`."""
        values = self.inner.dense()[self._position(np.arange(self.shape[self.unit]))]
        return np.moveaxis(values, 0, self.unit)

    @property
    def factors(self) -> list[NDArray[np.floating]]:
        """Factors by mode; that of the units has the row of an unknown unit only."""
        unit_rows, *others = self.inner.factors
        others.insert(self.unit, unit_rows[-1:])
        return others

    @property
    def core(self) -> NDArray[np.floating]:
        """Core of a Tucker model, with its modes in the order of the tensor."""
        return np.moveaxis(self.inner.core, 0, self.unit)
