"""Models of which the rows of one mode, a unit's own, are not released.

What is released serves every unit to compute its own row from its own entries. The
mode of the unit comes first here, the others after it in their order.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..tensor import CPForm, point_model, point_tucker_model

__all__ = ["LocalRows", "SharedModel", "UnitModel"]


@dataclass(eq=False)
class SharedModel:
    """What is released: all but the rows of units; on the scale of half the range.

    Attributes
    ----------
    form : CPForm or TuckerForm
        Of the decomposition, the unit's mode first.
    sizes : tuple of int
        Of the other modes.
    offset : float
    biases : list of ndarray of shape (size + 1,) or None
        Of the other modes; last, of an unknown row.
    factors : list of ndarray
        The blocks of the form after that of the unit.
    features : ndarray of shape (sizes[0] + 1, n_features)
        Of the rows of the first other mode, centred and of unit variance; last, zeros.
    noise : float
        Variance of a value around the model.
    bias_variance, weights_variance : float
        Prior variances of a unit's bias and of what its weights for all features
        explain; that of each of its factors is one.
    unit : int
        The mode of the units in the tensor.
    """

    form: Any
    sizes: tuple[int, ...]
    offset: float
    biases: list[Any] | None
    factors: list[Any]
    features: np.ndarray
    noise: float
    bias_variance: float = 0.045
    weights_variance: float = 0.03
    unit: int = 0

    @property
    def _n_factors(self):
        return self.form.blocks((1, *self.sizes))[0][1]

    @property
    def _precision(self):
        """Of the prior of a unit's row: its bias, weights and factors."""
        n_features = self.features.shape[1]
        return np.concatenate([
            np.full(int(self.biases is not None), 1 / self.bias_variance),
            np.full(n_features, n_features / self.weights_variance),
            np.ones(self._n_factors),
        ])  # fmt: skip

    def known(self, others):
        """What is known of values without their units: an array of shape (n,)."""
        found = np.full(len(others), self.offset)
        for rows, bias in zip(others.T, self.biases or [], strict=False):
            found += bias[rows]
        return found

    def regressors(self, others):
        """Coefficients of a unit's row: its bias, weights and factors."""
        rows = [np.zeros(len(others), dtype=np.intp), *others.T]
        parts = [np.ones((len(others), int(self.biases is not None)))]
        parts.append(self.features[others[:, 0]])
        if self.form:
            parts.append(self.form.regressors(0, [None, *self.factors], rows))
        return np.concatenate(parts, axis=1)

    def solve(self, entries):
        """Rows of units from their own entries, and how well they fit.

        Parameters
        ----------
        entries : UnitEntries

        Returns
        -------
        rows : ndarray of shape (n_units, n_columns)
        shares : ndarray of shape (n_units, n_columns)
            Variances of the rows, as shares of those of the prior.
        spread : ndarray of shape (n_units, F (F + 1) / 2)
            Covariances of the factors among these columns, as upper triangles.
        squares, freedom : ndarray of shape (n_units,)
            Sum of squared residuals, and by what to divide it.
        """
        from ..tensor._kernels_units import solve_units

        n_units, precision = len(entries.units), self._precision
        size = len(precision)
        rows, spread = np.empty((n_units, size)), np.empty((n_units, _n_pairs(size)))
        squares, freedom = np.empty((2, n_units))
        solve_units(
            entries.starts, self.regressors(entries.others),
            entries.values - self.known(entries.others), self.noise, precision, rows,
            spread, squares, freedom,
        )  # fmt: skip
        diagonal = np.flatnonzero(np.equal(*np.triu_indices(size)))
        # The factors come last.
        own = spread[:, spread.shape[1] - _n_pairs(self._n_factors) :]
        return rows, spread[:, diagonal] * precision, own, squares, freedom

    def split(self, rows):
        """Biases, weights and factors of units: a list of three arrays."""
        n_biases = int(self.biases is not None)
        ends = [n_biases, n_biases + self.features.shape[1]]
        return np.split(rows, ends, axis=1)

    @property
    def no_rows(self):
        """Rows of no unit."""
        return np.empty((0, len(self._precision)))

    def with_rows(self, rows, scale):
        """A model of some units, and last of one of which nothing is known.

        Parameters
        ----------
        rows : ndarray of shape (n_units, n_columns)
        scale : float
            Half the range of the values.

        Returns
        -------
        model : StructuredCP or StructuredTucker
        """
        rows = np.concatenate([rows, np.zeros((1, len(self._precision)))])
        bias, weights, own = self.split(rows)
        shape, parts = (len(rows), *self.sizes), {}
        if self.biases is not None:
            biases = [np.append(bias[:, 0], 0.0), *self.biases]
            parts["biases"] = [scale * b for b in biases]
        if self.form:
            parts["factors"] = [scale * own, *self.factors[: len(self.sizes)]]
        if self.features.shape[1]:
            parts.update(features=self.features, weights=scale * weights)
        variance = self.noise * scale**2
        if isinstance(self.form, CPForm) or not self.form:
            return point_model(shape, variance, float, **parts)
        core = self.factors[-1].reshape(self.form.ranks)
        return point_tucker_model(shape, variance, float, core=core, **parts)


def _n_pairs(n):
    return n * (n + 1) // 2


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

    def __init__(self, units=None, rows=None, where=None, *, lost=False):
        self.units = np.empty(0, dtype=np.int64) if units is None else units
        self.rows, self.where, self.model = rows, where, None
        self.lost = lost

    def replaced(self, units, rows, where, unit):
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

    def __reduce__(self):
        return _rows_left_behind, ()

    def __repr__(self):
        return "LocalRows()"


def _rows_left_behind():
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
    units: np.ndarray
    shape: tuple[int, ...]
    unit: int

    def _moved(self, coordinates):
        moved = np.roll(coordinates[:, : self.unit + 1], 1, axis=1)
        moved = np.concatenate([moved, coordinates[:, self.unit + 1 :]], axis=1)
        moved[:, 0] = self._position(moved[:, 0])
        return moved

    def _position(self, units):
        """Row of every unit in the inner model."""
        found = np.searchsorted(self.units, units)
        known = np.append(self.units, -2)[found] == units
        return np.where(known, found, len(self.units))

    def predict(self, coordinates):
        """See `StructuredCP.predict`."""
        return self.inner.predict(self._moved(coordinates))

    def slices(self, coordinates, mode):
        """See `StructuredCP.slices`."""
        inner = mode if mode > self.unit else (mode + 1) * (mode != self.unit)
        found = self.inner.slices(self._moved(coordinates), inner)
        if mode != self.unit:
            return found
        return found[:, self._position(np.arange(self.shape[mode]))]

    def dense(self):
        """See `StructuredCP.dense`."""
        found = self.inner.dense()[self._position(np.arange(self.shape[self.unit]))]
        return np.moveaxis(found, 0, self.unit)

    @property
    def factors(self):
        """Factors for one unit, of which nothing is known, by mode."""
        own, *others = self.inner.factors
        others.insert(self.unit, own[-1:])
        return others

    @property
    def core(self):
        """Of a Tucker model, its modes in the order of the tensor."""
        return np.moveaxis(self.inner.core, 0, self.unit)
