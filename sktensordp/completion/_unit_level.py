"""Completions that protect everything of a unit, as of a user: who gets to know what.

What is released is shared by all. The rows of units are computed from their own entries
and stay in the process; they serve predictions, and leave with no deep copy or pickle.
"""

import math
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._sklearn_compat import available_if
from ..exceptions import PrivacyLeakWarning
from ..tensor._unit_entries import UnitEntries
from ._noisy_sums import planned_event
from ._sparse import is_sparse
from ._streams import as_coordinates
from ._unit import UnitPerturbation, unit_guarantee
from ._unit_model import LocalRows, SharedModel, UnitModel

__all__ = ["UNPROTECTED", "UnitLevelMixin"]

UNPROTECTED = [
    "Which indices every mode has (the vocabulary and the shape) is public.",
    "What is predicted for a unit follows from its own entries too: it is for that "
    "unit alone.",
]
# Of features, the largest difference between two rows, in standard deviations.
_LARGEST_FEATURE = 4.0
_PERTURBATIONS = ("auto", "sums", "statistics")


class UnitLevelMixin:
    """Mixin of completions: `fold_in`, and rows of units that are not released."""

    epsilon: float
    delta: float
    unit: str | int
    perturbation: str
    calibration: str
    shape: Any
    side_information: Any
    shape_: tuple[int, ...]
    value_bounds_: tuple[float, float]
    _check_entries: Any
    _check_sparse: Any
    _count_releases: Any
    _decomposition: Any
    _model: Any
    _observed: list[Any]
    _plan: Any
    _randomized: tuple[Any, Any, float]
    biases: bool

    # After a fit at unit level: the rows of units, and where they have entries.
    _local: LocalRows

    @property
    def _protects_units(self):
        return self.unit != "entry"

    def _modes_from_unit(self, n_modes):
        """The modes, that of the unit first."""
        first = int(self.unit) if self._protects_units else 0
        return [first, *(k for k in range(n_modes) if k != first)]

    def _check_unit(self, n_modes):
        """Whether the shape is public as far as it has to be; refuse what is not there.

        Raises
        ------
        ValueError
            If there is no such mode, or the perturbation does not protect units.
        """
        if not self._protects_units:
            return True
        if self.unit >= n_modes:
            raise ValueError(f"unit = {self.unit}, but there are {n_modes} modes.")
        if self.perturbation not in _PERTURBATIONS or self.calibration != "sound":
            raise ValueError(
                f"At unit = {self.unit}, perturbation must be one of {_PERTURBATIONS} "
                'and calibration "sound".'
            )
        if self.perturbation == "sums" and not self.biases:
            raise ValueError("Sums determine biases; there are none.")
        if self.shape is None and math.isfinite(self.epsilon):
            warnings.warn(
                "`shape` is not declared, so it is read off the private coordinates, "
                "and no finite epsilon holds for this fit. Pass the public shape, such "
                "as shape=(n_users, n_items), or shape=encoder.declared_shape of a "
                "CoordinateEncoder with categories.",
                PrivacyLeakWarning,
                stacklevel=6,
            )
        return self.shape is not None

    def _side_features(self, shape, mode):
        """Declared features of the rows of a mode, centred and scaled; last, zeros."""
        declared = self.side_information or {}
        if not isinstance(declared, dict):
            if len(declared) != len(shape):
                raise ValueError(
                    f"side_information must have one item for each of {len(shape)} "
                    f"modes, got {len(declared)}."
                )
            declared = {k: rows for k, rows in enumerate(declared) if rows is not None}
        declared = dict(declared)
        rows = np.zeros((shape[mode], 0))
        if mode in declared:
            rows = np.asarray(declared.pop(mode), dtype=float)
            if rows.ndim != 2 or len(rows) != shape[mode]:
                raise ValueError(
                    f"side_information of mode {mode} must have shape "
                    f"({shape[mode]}, n_features), got {rows.shape}."
                )
            if not np.all(np.isfinite(rows)):
                raise ValueError("side_information must be finite.")
        if declared:
            raise ValueError(
                f"side_information serves the rows of mode {mode} here, got features "
                f"of {list(declared)}."
            )
        rows = rows / np.maximum(np.abs(rows).max(axis=0, initial=0.0), 1e-300)
        rows -= rows.mean(axis=0)
        # Of unit variance, but for rare ones: no row stands far out.
        scale = np.maximum(rows.std(axis=0), np.ptp(rows, axis=0) / _LARGEST_FEATURE)
        rows /= np.where(scale > 0, scale, 1.0)
        return np.append(rows, np.zeros((1, rows.shape[1])), axis=0)

    def _unit_solver(self, problem):
        return UnitPerturbation(problem, int(self.unit), self.perturbation)

    def _planned_unit_guarantee(self):
        values, epsilon = self._plan(), float(self.epsilon)
        name = "sums" if self.perturbation == "sums" else "statistics"
        if math.isinf(epsilon):
            event = values.guarantee.event
            return unit_guarantee(event, int(self.unit), name, delta=0.0)
        undeclared = self.shape is None or not values.guarantee.epsilon < math.inf
        event = planned_event(epsilon, float(self.delta), within=epsilon)
        return unit_guarantee(
            event, int(self.unit), name, delta=float(self.delta), levels=values.levels,
            void_for=epsilon if undeclared else None,
        )  # fmt: skip

    def _share(self, outcome, shape):
        """Set the attributes that describe what was released."""
        self._model, self._local = outcome.model, LocalRows()
        self.shape_ = shape
        model = self._answering
        self.decomposition_ = self._decomposition(model)
        self.factors_ = list(self.decomposition_.factors)
        self.factors_[outcome.model.unit] = None
        self.noise_variance_ = model.inner.noise_variance

    def _keep_rows(self, where, values):
        """Compute the rows of units from their entries, and keep them here."""
        where, unit = as_coordinates(where), self._model.unit
        order = self._modes_from_unit(len(self.shape_))
        low, high = self.value_bounds_
        values = self._plan(bounds=self.value_bounds_).clip(values.astype(float))
        values = (values - (low + high) / 2) / ((high - low) / 2)
        entries = UnitEntries(where[:, order], values)
        rows = self._model.solve(entries)[0]
        self._local = self._local.replaced(entries.units, rows, where, unit)

    @property
    def _unit_of_fit(self):
        """The mode of the protected units, None where entries are protected."""
        return self._model.unit if isinstance(self._model, SharedModel) else None

    @property
    def _seen(self):
        """Where values were observed: a list of coordinates or masks."""
        if not isinstance(self._model, SharedModel):
            if self._observed is None:
                raise ValueError(
                    "After a fit to data of Dask, which items a unit has values of is "
                    "known where the data are; predict is there, recommend is not."
                )
            return self._observed
        return [] if self._local.where is None else [self._local.where]

    def _warn_of_lost_rows(self, units):
        """Warn once that the rows of these units did not travel with the model."""
        if self._unit_of_fit is None or not self._local.lost or not np.any(units >= 0):
            return
        self._local.lost = False
        warnings.warn(
            "Pickling or copying this model dropped the units' own rows, since rows of "
            "units do not travel. All units are treated as unknown. To restore them, "
            "call fold_in(X, y) with all of their entries.",
            UserWarning,
            stacklevel=3,
        )

    @property
    def _answering(self):
        """The model that predicts."""
        if not isinstance(self._model, SharedModel):
            return self._model
        local = self._local
        if local.model is None:
            low, high = self.value_bounds_
            rows = local.rows
            if rows is None:
                rows = self._model.no_rows
            inner = self._model.with_rows(rows, (high - low) / 2)
            local.model = UnitModel(inner, local.units, self.shape_, self._model.unit)
        return local.model

    def _can_fold_in(self):
        if not self._protects_units:
            raise AttributeError(
                "fold_in is there where everything of a unit is protected: unit=0, or "
                "another mode."
            )
        return True

    @available_if(_can_fold_in)
    def fold_in(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Give units their own rows, from all of their entries; nothing is released.

        A unit that is new, or that comes back after the model was copied or stored,
        is predicted as any other from then on. Its row is computed from its entries
        and from what was released, stays in this process, and replaces an older one.

        Parameters
        ----------
        X : array-like of shape (n_observed, n_modes)
            Coordinates of all entries of these units, within `shape_`. Or a sparse
            array of shape `shape_`, as for `fit`.
        y : array-like of shape (n_observed,)
            Their values, finite; None for a sparse array.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If coordinates are outside the tensor, or values are not finite, or if
            `unit` or the domain of the values are not those of the fit.
        """
        check_is_fitted(self)
        with self._count_releases().lock:
            bounds, levels, _ = self._randomized
            domain = self._plan(bounds=bounds)
            same = [self.unit, domain.bounds, domain.levels]
            if same != [self._model.unit, bounds, levels]:
                raise ValueError(
                    "unit, value_bounds and levels must be those of the fit."
                )
            if is_sparse(X):
                where, values, _ = self._check_sparse(X, y, self.shape_, reset=False)
            else:
                where, values = self._check_entries(X, y, self.shape_, reset=False)
            self._keep_rows(where, values)
        return self
