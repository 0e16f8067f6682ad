"""Totals over units that are released with the sums of a block.

They say how well the model fits units, how much units vary, and how their factors vary.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ....tensor._unit_entries import UnitEntries
from ....tensor._unit_rows import UnitRows
from ._shared_model import SharedModel

# Number of totals that say how well the model fits: the first fields, groups excluded.
_N_OF_FIT = 3


@dataclass(frozen=True, eq=False)
class BlockTotals:
    """Statistics of units, or their noisy totals; the place of each in a vector.

    For statistics of N units, arrays have a first axis of length N, shown as (...,).
    For totals, they do not have this axis.

    Attributes
    ----------
    squares : ndarray of shape (...,)
        Mean square of a unit's residuals, less what is due to the uncertainty of
        biases.
    free : ndarray of shape (...,)
        The share of the unit's entries that the fit leaves free.
    energy : ndarray of shape (...,)
        Sum of the unit's squared weighted residuals, over the variance of a value,
        before long vectors are scaled down.
    group_squares : ndarray of shape (..., n_groups)
        Mean square of the posterior means of the unit's bias, and of its weights for
        each group of features, over their prior variance.
    group_shares : ndarray of shape (..., n_groups)
        Mean share of that prior variance that the unit's entries explain.
    moments : ndarray of shape (..., M)
        Second moments of one and the unit's factors, as regressors of the residuals:
        the upper triangle, row by row.
    """

    squares: NDArray[np.float64]
    free: NDArray[np.float64]
    energy: NDArray[np.float64]
    group_squares: NDArray[np.float64]
    group_shares: NDArray[np.float64]
    moments: NDArray[np.float64]

    @staticmethod
    def size(model: SharedModel) -> int:
        """Length of the vectors of units, given the model."""
        n_moments = 1 + model.n_factors
        return _N_OF_FIT + 2 * len(model.groups) + n_moments * (n_moments + 1) // 2

    @classmethod
    def of_units(
        cls,
        chunk: UnitEntries,
        solved: UnitRows,
        weights: NDArray[np.float64],
        model: SharedModel,
    ) -> Self:
        """Statistics of units, each a function of that unit's entries alone.

        Parameters
        ----------
        chunk : UnitEntries
        solved : UnitRows
            The units' rows and fit.
        weights : ndarray of shape (n_entries,)
            Weights of the entries, with the gains of their rows.
        model : SharedModel
        """
        sizes = chunk.sizes
        energies = (weights * solved.residuals) ** 2 / model.noise
        squares = solved.residuals**2 - model.uncertainty_of(chunk.others)
        sums = chunk.sums(np.stack([squares, energies], axis=1))
        used = np.zeros(len(sizes))
        for known in solved.explained.T:
            used += known
        # The ratio of the totals of `group_squares` and `group_shares` estimates the
        # true variance over the prior variance (MacKay 1992).
        group_squares, group_shares = np.zeros((2, len(sizes), len(model.groups)))
        first = 0
        for group, (size, variance) in enumerate(model.groups):
            for column in range(first, first + size):
                squares = solved.rows[:, column] ** 2
                group_squares[:, group] += squares / (size * variance)
                group_shares[:, group] += solved.explained[:, column] / size
            first += size
        return cls(
            squares=np.clip(sums[:, 0] / sizes, -1.0, 1.0),
            free=np.clip(1 - used / sizes, 0.0, 1.0),
            energy=np.clip(sums[:, 1], 0.0, 2.0),
            group_squares=np.clip(group_squares, 0.0, 4.0),
            group_shares=group_shares,
            moments=moments_of(chunk, solved),
        )

    @classmethod
    def of_vector(cls, vector: NDArray[np.float64], n_groups: int) -> Self:
        """Totals, from a sum of `vectors` or a multiple of such a sum."""
        ends = [_N_OF_FIT, _N_OF_FIT + 2 * n_groups]
        of_fit, of_groups, moments = np.split(vector, ends)
        squares, free, energy = of_fit
        group_squares, group_shares = of_groups.reshape(-1, 2).T
        return cls(squares, free, energy, group_squares, group_shares, moments)

    @property
    def vectors(self) -> NDArray[np.float64]:
        """The vector of every unit: an array of shape (n_units, size)."""
        of_fit = self.squares, self.free, self.energy
        of_groups = zip(self.group_squares.T, self.group_shares.T, strict=True)
        columns = [*of_fit, *(column for pair in of_groups for column in pair)]
        return np.column_stack([*columns, self.moments])

    @property
    def moment(self) -> NDArray[np.float64]:
        """The second moment of totals as a matrix of shape (F + 1, F + 1)."""
        n = math.isqrt(2 * len(self.moments))
        moment, upper = np.empty((n, n)), np.triu_indices(n)
        moment[upper] = moment[upper[::-1]] = self.moments
        return moment


def moments_of(chunk: UnitEntries, solved: UnitRows) -> NDArray[np.float64]:
    """Second moments of units: an array of shape (n_units, M); see `BlockTotals`."""
    free = 1 - np.clip(solved.leverages, 0.0, 1.0)
    factors = np.insert(solved.held_out, 0, 1.0, axis=1)
    products = chunk.products(factors * free[:, np.newaxis], factors)
    upper = np.triu_indices(factors.shape[1])
    sums = products[:, *upper]
    return sums / np.maximum(sums[:, :1], 1e-300)
