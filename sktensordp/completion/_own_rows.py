"""Models that answer users, or other units, from their own rows.

Users may know their own values. The row of a user is computed from the user's raw
values and the released rows of the other modes. It serves answers to that user only,
and stays in this process. If `unit` is a mode, all units get such answers
(`UnitModel`). Otherwise, users who were folded in do, or all users if ``personal=True``
(`OwnModel`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..privacy import PrivacyGuarantee
from ..privacy._conditions import OWN_ANSWERS
from ..tensor import Rows, TuckerRows
from ..tensor._observations import places_of
from ..tensor._rows import ModeRows
from ._local import LocalRows, LocalValues

TIED = (
    "smooth_modes ties the rows of mode 0, so a user's own row would reveal something "
    "about others' values. Leave mode 0 out of smooth_modes."
)


@lru_cache(maxsize=32)
def with_own_answers(guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
    """Add the condition that answers from own rows are shown to their users only."""
    return guarantee.with_conditions(OWN_ANSWERS) if guarantee.protects else guarantee


@dataclass(frozen=True, eq=False)
class NoisyValues:
    """The randomised values, less the offset, that a model was fitted to.

    Attributes
    ----------
    values : ndarray of shape (n,)
    noise : float
        Their variance around the model.
    """

    values: NDArray[np.floating]
    noise: float


def kept_values(
    values: NDArray[np.floating], noise: float, scale: float, *, is_noisy: bool
) -> NoisyValues | LocalValues:
    """The values that a fit keeps, in single precision if that is exact enough."""
    kept = values.astype(np.float32 if 1e-30 < scale < 1e30 else float)
    return NoisyValues(kept, noise) if is_noisy else LocalValues(kept, noise)


@dataclass(eq=False)
class OwnModel:
    """A released model that answers some users from their own rows.

    Attributes
    ----------
    released : Rows
    own : Rows
        The same model, whose first mode has the own rows of these users alone.
    """

    released: Rows
    own: Rows

    @classmethod
    def from_local_rows(cls, released: Rows, local: LocalRows) -> "OwnModel":
        """The model that answers for the users of local rows."""
        assert local.rows is not None
        n_columns = released.fixed.shape[1]
        means, covariances = np.split(local.rows, [n_columns], axis=1)
        of_mode = ModeRows(local.units, means, covariances)
        return cls(released, released.with_rows(0, of_mode))

    def predict(self, coordinates: NDArray[np.integer]) -> NDArray[np.floating]:
        """See `Rows.predict`."""
        return self._answered(lambda rows, where: rows.predict(where), coordinates)

    def slices(
        self, coordinates: NDArray[np.integer], mode: int, every: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """See `Rows.slices`; not for the first mode."""
        return self._answered(
            lambda rows, where: rows.slices(where, mode, every), coordinates
        )

    def every_row(self, mode: int) -> NDArray[np.floating]:
        """See `Rows.every_row`; not for the first mode."""
        return self.released.every_row(mode)

    def variance(
        self, coordinates: NDArray[np.integer]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """See `Rows.variance`."""
        found = self._answered(
            lambda rows, where: np.stack(rows.variance(where), axis=1), coordinates
        )
        return found[:, 0], found[:, 1]

    def dense(self) -> NDArray[np.floating]:
        """Predictions of all entries from released rows, which everybody may see."""
        return self.released.dense()

    def _answered(
        self,
        answers_of: Callable[[Rows, NDArray[np.integer]], NDArray[Any]],
        coordinates: NDArray[np.integer],
    ) -> NDArray[Any]:
        """Answer from own rows if there are any, and otherwise from released rows."""
        has_own = places_of(coordinates[:, 0], self.own.used[0]) >= 0
        if has_own.all():
            return answers_of(self.own, coordinates)
        answers = answers_of(self.released, coordinates)
        if has_own.any():
            answers[has_own] = answers_of(self.own, coordinates[has_own])
        return answers


@dataclass(eq=False)
class UnitModel:
    """A model of all units; units without a row of their own share one.

    Attributes
    ----------
    inner : Rows
        The model with the mode of the units first. The last row of that mode is shared
        by all units without a row.
    units : ndarray of shape (n_units,), int
        The units of the other rows, ascending.
    shape : tuple of int
        Shape of the tensor.
    unit : int
        The mode of the units.
    """

    inner: Rows
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
        self, coordinates: NDArray[np.integer], mode: int, every: NDArray[np.floating]
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
        """Factors by mode; the units' factor only has the row of an unknown unit."""
        unit_rows, *others = self.inner.factors
        others.insert(self.unit, unit_rows[-1:])
        return others

    @property
    def column_names(self) -> list[list[str | None]]:
        """See `Rows.column_names`."""
        unit_names, *others = self.inner.column_names
        others.insert(self.unit, unit_names)
        return others

    @property
    def core(self) -> NDArray[np.floating]:
        """Core of a Tucker model, with its modes in the order of the tensor."""
        assert isinstance(self.inner, TuckerRows)
        return np.moveaxis(self.inner.core, 0, self.unit)
