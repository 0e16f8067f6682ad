"""Rows of units: a ridge regression for every unit, on its own entries.

The result for a unit is a function of its own entries alone, down to the last bit: the
entries of other units, and their order, do not matter. For that,

- all sums over entries are sparse products of SciPy, which add up in the order of the
  entries (`UnitEntries`);
- all else is arithmetic on single elements of arrays, which NumPy rounds the same way
  wherever an element lies. Products of BLAS, factorisations of LAPACK and sums of NumPy
  may depend on where numbers lie in memory, and so on the other units.

This is separate from the common solver of rows, since contributions need quantities
that the latter does not compute: the leverage of every entry, and a unit's row without
the entry.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._unit_entries import UnitEntries

# Number of units that are solved at once, so that their matrices stay in the caches.
_STACK = 128


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Rows of units, computed from their own entries.

    Attributes
    ----------
    rows : ndarray of shape (n_units, Q)
        Posterior means.
    explained : ndarray of shape (n_units, Q)
        One minus the posterior variances as shares of the prior variances.
    residuals : ndarray of shape (n_entries,)
        Targets less the fit.
    leverages : ndarray of shape (n_entries,)
        How much the fit of a target follows that target.
    held_out : ndarray of shape (n_entries, F)
        For every entry, the posterior means of the last F columns without this entry.
    """

    rows: NDArray[np.float64]
    explained: NDArray[np.float64]
    residuals: NDArray[np.float64]
    leverages: NDArray[np.float64]
    held_out: NDArray[np.float64]


def rows_of_units(
    entries: UnitEntries,
    regressors: NDArray[np.floating],
    targets: NDArray[np.float64],
    noise: NDArray[np.float64],
    precision: NDArray[np.float64],
    n_last: int,
) -> UnitRows:
    """Regress the targets of every unit on its regressors.

    Parameters
    ----------
    entries : UnitEntries
        Says which entries a unit has.
    regressors : ndarray of shape (n_entries, Q)
    targets : ndarray of shape (n_entries,)
    noise : ndarray of shape (n_entries,)
        Variance of each target around the model.
    precision : ndarray of shape (Q,)
        Precision of the prior, which has mean zero.
    n_last : int
        Number of columns, counted from the last, of `UnitRows.held_out`.
    """
    size = len(precision)
    known = np.column_stack([regressors, targets])
    sums = entries.products(known[:, :size] / noise[:, np.newaxis], known)
    solved = _solved(sums, precision)
    rows, diagonal = solved[:, :, size], np.arange(size)
    explained = 1 - solved[:, diagonal, diagonal] * precision
    # The covariance of the row with what is fitted, and the fit.
    fitted = entries.transformed(known[:, :size], solved)
    residuals = targets - fitted[:, size]
    leverages = np.zeros(len(targets))
    for column in range(size):
        leverages += known[:, column] * fitted[:, column]
    leverages /= noise
    # Rounding can carry a leverage past 1.
    steps = residuals / (noise * np.maximum(1 - leverages, 1e-6))
    held_out = fitted[:, size - n_last : size] * -steps[:, np.newaxis]
    held_out += rows[entries.numbers, size - n_last :]
    return UnitRows(rows, explained, residuals, leverages, held_out)


def _solved(
    sums: NDArray[np.float64], precision: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Inverses of Gram matrices plus a diagonal, and the solutions for a column.

    Parameters
    ----------
    sums : ndarray of shape (n_units, Q, Q + 1)
        Gram matrices, and a column on their right.
    precision : ndarray of shape (Q,)
        Is added to their diagonals.

    Returns
    -------
    solved : ndarray of shape (n_units, Q, Q + 1)
        The inverses, and the inverses times the column.
    """
    solved = np.empty_like(sums)
    for first in range(0, len(sums), _STACK):
        stack = slice(first, first + _STACK)
        # The last index is the unit.
        matrices = np.ascontiguousarray(sums[stack].transpose(1, 2, 0))
        _eliminate(matrices, precision)
        solved[stack] = matrices.transpose(2, 0, 1)
    return solved


def _eliminate(matrices: NDArray[np.float64], precision: NDArray[np.float64]) -> None:
    """Solve in place, by Gauss and Jordan; see `_solved`.

    Parameters
    ----------
    matrices : ndarray of shape (Q, Q + 1, n_units)
    precision : ndarray of shape (Q,)
    """
    size, products = len(precision), np.empty_like(matrices)
    diagonal = np.arange(size)
    matrices[diagonal, diagonal] += precision[:, np.newaxis]
    # A pivot is at least its prior precision; smaller ones are due to rounding.
    least = np.maximum(precision[:, np.newaxis], 1e-13 * matrices[diagonal, diagonal])
    for k in range(size):
        inverse = 1 / np.maximum(matrices[k, k], least[k])
        row, column = matrices[k] * inverse, matrices[:, k].copy()
        column[k] = 0.0
        np.multiply(column[:, np.newaxis], row, out=products)
        matrices -= products
        matrices[k] = row
        column *= -inverse
        matrices[:, k] = column
        matrices[k, k] = inverse
