"""The released part of a model that protects units: all but the units' rows.

A unit's row can be computed from this part and that unit's entries. The mode of the
units comes first here, then the other modes in their order.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....tensor import CPForm, Rows, TuckerForm
from ....tensor._unit_entries import UnitEntries
from ....tensor._unit_rows import UnitRows, rows_of_units
from ._population import Population


@dataclass(frozen=True, eq=False)
class SharedModel:
    """A model without the rows of units. Values are in half ranges.

    Attributes
    ----------
    form : CPForm or TuckerForm
        Form of the decomposition, with the units' mode first.
    sizes : tuple of int
        Sizes of the other modes.
    offset : float
    biases : list of ndarray of shape (size + 1,)
        Biases of the other modes, or none; the last is the bias of an unknown index.
    factors : list of ndarray
        The blocks of the form after the units' block.
    features : ndarray of shape (sizes[0] + 1, n_features)
        Features of the rows of the first other mode and, last, of an unknown row.
    noise : float
        Variance of a value around the model.
    uncertainty : list of ndarray of shape (size + 1,)
        For each row, the variance that its error adds to a value.
    groups : tuple of (int, float)
        Numbers of consecutive elements of a unit's row that share a prior variance, and
        this variance: the bias, if there are biases, and the weights for features. The
        prior variance of the factors, which come last, is one.
    unit : int
        The mode of the units in the tensor.
    n_units : float
        Noisy number of units of the fit.
    counts : list of ndarray of shape (size,)
        Released counts of the entries in rows of the other modes. They are zero only
        without noise, for rows without entries.
    population : Population or None
        The released numbers of units and of their entries; None while a model is
        fitted.
    """

    form: CPForm | TuckerForm
    sizes: tuple[int, ...]
    offset: float
    biases: list[NDArray[np.float64]]
    factors: list[NDArray[np.float64]]
    features: NDArray[np.float64]
    noise: float
    uncertainty: list[NDArray[np.float64]]
    groups: tuple[tuple[int, float], ...]
    n_units: float
    unit: int = 0
    counts: list[NDArray[np.float64]] = field(default_factory=list)
    population: Population | None = None

    @property
    def n_factors(self) -> int:
        """Number of factors of a unit."""
        return self.form.blocks((1, *self.sizes))[0][1]

    @property
    def shapes_agree(self) -> bool:
        """Whether all arrays have the shapes that are stated above."""
        sizes = [size + 1 for size in self.sizes]
        n_features = self.features.shape[1]
        blocks = self.form.blocks((1, *self.sizes))[1:] if self.form else []
        return (
            self.features.shape == (sizes[0], n_features)
            and [b.shape for b in self.biases] in ([], [(size,) for size in sizes])
            and [u.shape for u in self.uncertainty] == [(size,) for size in sizes]
            and [f.shape for f in self.factors] == blocks
            and sum(size for size, _ in self.groups) == self.n_biases + n_features
        )

    @property
    def n_biases(self) -> int:
        """Number of biases in a unit's row."""
        return int(bool(self.biases))

    @property
    def _precision(self) -> NDArray[np.float64]:
        """Prior precisions of a unit's row: bias, weights and factors."""
        groups = [np.full(size, 1 / variance) for size, variance in self.groups]
        return np.concatenate([*groups, np.ones(self.n_factors)])

    @property
    def prior_deviations(self) -> NDArray[np.float64]:
        """Prior standard deviations of the elements of a unit's row, around zero."""
        return 1 / np.sqrt(self._precision)

    def baseline(self, others: NDArray[np.integer]) -> NDArray[np.float64]:
        """Offset plus the biases of the other modes: an array of shape (n,)."""
        return self.offset + _at(others, self.biases)

    def noise_of(self, others: NDArray[np.integer]) -> NDArray[np.float64]:
        """Variances of values around the released rows and a unit's row: shape (n,).

        To a unit, the errors of released rows are noise.
        """
        return self.noise + self.uncertainty_of(others)

    def uncertainty_of(self, others: NDArray[np.integer]) -> NDArray[np.float64]:
        """Variances that errors of released rows add to values: shape (n,)."""
        return _at(others, self.uncertainty)

    def regressors(self, others: NDArray[np.integer]) -> NDArray[np.floating]:
        """Regressors of entries for a unit's bias, weights and factors."""
        rows = [np.zeros(len(others), dtype=np.intp), *others.T]
        blocks: list[NDArray[np.floating]] = [np.ones((len(others), self.n_biases))]
        blocks.append(self.features[others[:, 0]])
        if self.form:
            blocks.append(self.form.regressors(0, [None, *self.factors], rows))
        return np.concatenate(blocks, axis=1)

    def solve(self, entries: UnitEntries) -> UnitRows:
        """Compute the rows of units from their own entries, and their fit.

        Parameters
        ----------
        entries : UnitEntries

        Returns
        -------
        solved : UnitRows
        """
        others = entries.others
        return rows_of_units(
            entries,
            self.regressors(others),
            entries.values - self.baseline(others),
            self.noise_of(others),
            self._precision,
            self.n_factors,
        )

    def split(self, rows: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Split rows of units into biases, weights and factors."""
        ends = [self.n_biases, self.n_biases + self.features.shape[1]]
        return np.split(rows, ends, axis=1)

    @property
    def no_rows(self) -> NDArray[np.float64]:
        """An array of rows for no units at all."""
        return np.empty((0, len(self._precision)))

    def with_rows(self, rows: NDArray[np.float64], scale: float) -> Rows:
        """Build a model of these units, with the row of an unknown unit last.

        Parameters
        ----------
        rows : ndarray of shape (n_units, n_columns)
        scale : float
            Half the range of the values.

        Returns
        -------
        model : Rows
        """
        rows = np.concatenate([rows, np.zeros((1, len(self._precision)))])
        bias, weights, unit_factors = self.split(rows)
        shape = len(rows), *self.sizes
        terms: dict[str, Any] = {}
        if self.biases:
            biases = [np.append(bias[:, 0], 0.0), *self.biases]
            terms["biases"] = [scale * b for b in biases]
        if self.form:
            terms["blocks"] = [scale * unit_factors, *self.factors]
        if self.features.shape[1]:
            terms.update(features=self.features, weights=scale * weights)
        variance = self.noise * scale**2
        model = self.form.point_model(shape, variance, float, **terms)
        # None leaves the row of an unknown unit as it is.
        counts = [None, *self.counts]
        return model.with_average_rows(counts)

    def directions(self, scale: float) -> Rows:
        """Build a model of units, each differing from an unknown one in one number.

        The difference is that number's prior standard deviation. The unknown unit is
        last.
        """
        return self.with_rows(np.diag(self._precision**-0.5), scale)


def _at(
    others: NDArray[np.integer], of_modes: list[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Sums over the modes of the numbers that belong to the rows of entries."""
    found = np.zeros(len(others))
    for rows, of_rows in zip(others.T, of_modes, strict=False):
        found += of_rows[rows]
    return found
