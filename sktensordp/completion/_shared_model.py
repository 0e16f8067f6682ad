"""The released part of a model that protects units: all but the units' rows.

From it, each unit's row can be computed from that unit's entries. The mode of the units
comes first here, then the other modes in their order.
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


@dataclass(eq=False)
class SharedModel:
    """All of a model but the rows of units, with half the range as the unit of values.

    Attributes
    ----------
    form : CPForm or TuckerForm
        Form of the decomposition, with the units' mode first.
    sizes : tuple of int
        Sizes of the other modes.
    offset : float
    biases : list of ndarray of shape (size + 1,) or None
        Biases of the other modes; the last is that of an unknown index.
    factors : list of ndarray
        The blocks of the form after that of the units.
    features : ndarray of shape (sizes[0] + 1, n_features)
        Features of the rows of the first other mode, centred and of unit variance; the
        last row is zeros.
    noise : float
        Variance of a value around the model.
    bias_variance, weights_variance : float
        Prior variances of a unit's bias, and of what its weights for all features
        explain together. The prior variance of each of its factors is one.
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
        """Prior precisions of a unit's row: its bias, weights and factors."""
        n_features = self.features.shape[1]
        return np.concatenate(
            [
                np.full(int(self.biases is not None), 1 / self.bias_variance),
                np.full(n_features, n_features / self.weights_variance),
                np.ones(self._n_factors),
            ]
        )

    def known(self, others: NDArray[np.integer]) -> NDArray[np.float64]:
        """Offset plus the biases of the other modes: an array of shape (n,)."""
        values = np.full(len(others), self.offset)
        for rows, bias in zip(others.T, self.biases or [], strict=False):
            values += bias[rows]
        return values

    def regressors(self, others: NDArray[np.integer]) -> NDArray[np.floating]:
        """Regressors of entries for a unit's bias, weights and factors."""
        rows = [np.zeros(len(others), dtype=np.intp), *others.T]
        n_biases = int(self.biases is not None)
        blocks: list[NDArray[np.floating]] = [np.ones((len(others), n_biases))]
        blocks.append(self.features[others[:, 0]])
        if self.form:
            blocks.append(self.form.regressors(0, [None, *self.factors], rows))
        return np.concatenate(blocks, axis=1)

    def solve(self, entries: UnitEntries) -> tuple[NDArray[np.float64], ...]:
        """Compute the rows of units from their own entries, and their fit.

        Parameters
        ----------
        entries : UnitEntries

        Returns
        -------
        rows : ndarray of shape (n_units, n_columns)
        shares : ndarray of shape (n_units, n_columns)
            Posterior variances of the rows, as shares of the prior variances.
        spread : ndarray of shape (n_units, F (F + 1) / 2)
            Posterior covariances of the F factors, as upper triangles.
        squares, freedom : ndarray of shape (n_units,)
            Sums of squared residuals, and the divisors that make them variances.
        """
        from ..tensor.kernels._units import solve_units

        n_units, precision = len(entries.units), self._precision
        size = len(precision)
        rows, spread = np.empty((n_units, size)), np.empty((n_units, _n_pairs(size)))
        squares, freedom = np.empty((2, n_units))
        solve_units(
            entries.starts,
            self.regressors(entries.others),
            entries.values - self.known(entries.others),
            self.noise,
            precision,
            rows,
            spread,
            squares,
            freedom,
        )
        diagonal = np.flatnonzero(np.equal(*np.triu_indices(size)))
        # The factors are the last columns.
        of_factors = spread[:, spread.shape[1] - _n_pairs(self._n_factors) :]
        return rows, spread[:, diagonal] * precision, of_factors, squares, freedom

    def split(self, rows: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Split rows of units into biases, weights and factors."""
        n_biases = int(self.biases is not None)
        ends = [n_biases, n_biases + self.features.shape[1]]
        return np.split(rows, ends, axis=1)

    @property
    def no_rows(self) -> NDArray[np.float64]:
        """The rows array for no units at all."""
        return np.empty((0, len(self._precision)))

    def with_rows(
        self, rows: NDArray[np.float64], scale: float
    ) -> StructuredCP | StructuredTucker:
        """Build a model of these units; its last row is that of an unknown unit.

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
        bias, weights, unit_factors = self.split(rows)
        shape = len(rows), *self.sizes
        terms: dict[str, Any] = {}
        if self.biases is not None:
            biases = [np.append(bias[:, 0], 0.0), *self.biases]
            terms["biases"] = [scale * b for b in biases]
        if self.form:
            factors = [scale * unit_factors, *self.factors[: len(self.sizes)]]
            terms["factors"] = factors
        if self.features.shape[1]:
            terms.update(features=self.features, weights=scale * weights)
        variance = self.noise * scale**2
        if isinstance(self.form, CPForm) or not self.form:
            return point_model(shape, variance, float, **terms)
        core = self.factors[-1].reshape(self.form.ranks)
        return point_tucker_model(shape, variance, float, core=core, **terms)


def _n_pairs(n: int) -> int:
    return n * (n + 1) // 2
