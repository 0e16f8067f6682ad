"""A model of which the rows of one mode, a unit's own, are not released.

What is released serves every unit to compute its own row from its own entries. The
mode of the unit comes first here, the others after it in their order.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tensor import (
    CPForm,
    StructuredCP,
    StructuredTucker,
    TuckerForm,
    point_model,
    point_tucker_model,
)
from ..tensor._unit_entries import UnitEntries

__all__ = ["SharedModel"]


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

    form: CPForm | TuckerForm
    sizes: tuple[int, ...]
    offset: float
    biases: list[NDArray[np.float64]] | None
    factors: list[NDArray[np.float64]]
    features: NDArray[np.float64]
    noise: float
    bias_variance: float = 0.045
    weights_variance: float = 0.03
    unit: int = 0

    @property
    def _n_factors(self) -> int:
        return self.form.blocks((1, *self.sizes))[0][1]

    @property
    def _precision(self) -> NDArray[np.float64]:
        """Of the prior of a unit's row: its bias, weights and factors."""
        n_features = self.features.shape[1]
        return np.concatenate([
            np.full(int(self.biases is not None), 1 / self.bias_variance),
            np.full(n_features, n_features / self.weights_variance),
            np.ones(self._n_factors),
        ])  # fmt: skip

    def known(self, others: NDArray[np.integer]) -> NDArray[np.float64]:
        """What is known of values without their units: an array of shape (n,)."""
        found = np.full(len(others), self.offset)
        for rows, bias in zip(others.T, self.biases or [], strict=False):
            found += bias[rows]
        return found

    def regressors(self, others: NDArray[np.integer]) -> NDArray[np.floating]:
        """Coefficients of a unit's row: its bias, weights and factors."""
        rows = [np.zeros(len(others), dtype=np.intp), *others.T]
        n_biases = int(self.biases is not None)
        parts: list[NDArray[np.floating]] = [np.ones((len(others), n_biases))]
        parts.append(self.features[others[:, 0]])
        if self.form:
            parts.append(self.form.regressors(0, [None, *self.factors], rows))
        return np.concatenate(parts, axis=1)

    def solve(self, entries: UnitEntries) -> tuple[NDArray[np.float64], ...]:
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
        from ..tensor.kernels._units import solve_units

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

    def split(self, rows: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Biases, weights and factors of units: a list of three arrays."""
        n_biases = int(self.biases is not None)
        ends = [n_biases, n_biases + self.features.shape[1]]
        return np.split(rows, ends, axis=1)

    @property
    def no_rows(self) -> NDArray[np.float64]:
        """Rows of no unit."""
        return np.empty((0, len(self._precision)))

    def with_rows(
        self, rows: NDArray[np.float64], scale: float
    ) -> StructuredCP | StructuredTucker:
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
        shape = len(rows), *self.sizes
        parts: dict[str, Any] = {}
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


def _n_pairs(n: int) -> int:
    return n * (n + 1) // 2
