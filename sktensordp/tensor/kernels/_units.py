"""Compiled kernels over the entries of units. Importing this module imports numba.

Entries are sorted by unit. The result for a unit is a function of its own entries
alone, down to the last bit: the entries of other units, and their order, do not matter.

`solve_units` is separate from the common solver of rows, since contributions need
quantities that the latter does not compute: the leverage of every entry, and a unit's
row without the entry.
"""

import numpy as np
from numpy.typing import NDArray

from . import compiled
from ._stacks import STACK, factorise, invert, solve


@compiled
def solve_units(
    starts: NDArray[np.integer],
    regressors: NDArray[np.floating],
    targets: NDArray[np.floating],
    noise: NDArray[np.float64],
    precision: NDArray[np.float64],
    rows: NDArray[np.float64],
    explained: NDArray[np.float64],
    residuals: NDArray[np.float64],
    leverages: NDArray[np.float64],
    held_out: NDArray[np.float64],
) -> None:
    """Ridge regression for every unit, on its own entries.

    Parameters
    ----------
    starts : ndarray of shape (n_units + 1,), int
        The entries of unit u are starts[u] to starts[u + 1].
    regressors : ndarray of shape (n_entries, Q)
    targets : ndarray of shape (n_entries,)
    noise : ndarray of shape (n_entries,)
        Variance of each target around the model.
    precision : ndarray of shape (Q,)
        Precision of the prior, which has mean zero.
    rows : ndarray of shape (n_units, Q)
        Written: posterior means.
    explained : ndarray of shape (n_units, Q)
        Written: one minus the posterior variances as shares of the prior variances.
    residuals : ndarray of shape (n_entries,)
        Written: targets less the fit.
    leverages : ndarray of shape (n_entries,)
        Written: how much the fit of a target follows that target.
    held_out : ndarray of shape (n_entries, F)
        Written: for every entry, the posterior means of the last F columns without this
        entry.
    """
    size, n_last, n_units = precision.size, held_out.shape[1], starts.size - 1
    matrices, shifts = np.empty((size, size, STACK)), np.empty((size, STACK))
    gram, covariance = np.empty((size, size)), np.empty((size, size))
    shift, along = np.empty(size), np.empty(size)
    for first in range(0, n_units, STACK):
        for k in range(STACK):
            u = first + k
            # Copies of the last unit's sums fill up the stack.
            if u < n_units:
                for a in range(size):
                    shift[a] = 0.0
                    for b in range(a, size):
                        gram[a, b] = 0.0
                    gram[a, a] = precision[a]
                for e in range(starts[u], starts[u + 1]):
                    weight = 1.0 / noise[e]
                    for a in range(size):
                        scaled = regressors[e, a] * weight
                        shift[a] += scaled * targets[e]
                        for b in range(a, size):
                            gram[a, b] += scaled * regressors[e, b]
            for a in range(size):
                shifts[a, k] = shift[a]
                for b in range(a, size):
                    matrices[a, b, k] = gram[a, b]
        factorise(matrices, precision)
        solve(matrices, shifts)
        invert(matrices)
        for u in range(first, min(first + STACK, n_units)):
            k = u - first
            for a in range(size):
                shift[a] = shifts[a, k]
                rows[u, a] = shift[a]
                explained[u, a] = 1.0 - matrices[a, a, k] * precision[a]
                for b in range(a, size):
                    covariance[a, b] = matrices[a, b, k]
                    covariance[b, a] = matrices[a, b, k]
            for e in range(starts[u], starts[u + 1]):
                for a in range(size):
                    along[a] = 0.0
                for b in range(size):
                    regressor = regressors[e, b]
                    for a in range(size):
                        along[a] += covariance[b, a] * regressor
                residuals[e] = targets[e]
                leverages[e] = 0.0
                for a in range(size):
                    residuals[e] -= regressors[e, a] * shift[a]
                    leverages[e] += regressors[e, a] * along[a]
                leverages[e] /= noise[e]
                # Rounding can carry a leverage past 1.
                step = residuals[e] / (noise[e] * max(1.0 - leverages[e], 1e-6))
                for a in range(n_last):
                    held_out[e, a] = (
                        shift[size - n_last + a] - along[size - n_last + a] * step
                    )
