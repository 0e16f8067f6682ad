"""Compiled kernels over the entries of units. Importing this module imports numba.

Entries are sorted by unit. The result for a unit is a function of its own entries
alone, down to the last bit: the entries of other units, and their order, do not matter.

`solve_units` stands beside the one solver of rows, since contributions need what that
does not compute: the leverage of every entry, and a unit's row without the entry.
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
    known: NDArray[np.float64],
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
    known : ndarray of shape (n_units, Q)
        Written: one less posterior variances, as shares of the prior variances.
    residuals : ndarray of shape (n_entries,)
        Written: targets less the fit.
    leverages : ndarray of shape (n_entries,)
        Written: by how much the fit of a target follows that target.
    held_out : ndarray of shape (n_entries, F)
        Written: for every entry, the posterior means of the last F columns without it.
    """
    size, n_last, n_units = precision.size, held_out.shape[1], starts.size - 1
    matrices, shifts = np.empty((size, size, STACK)), np.empty((size, STACK))
    gram, covariance = np.empty((size, size)), np.empty((size, size))
    shift, along = np.empty(size), np.empty(size)
    for first in range(0, n_units, STACK):
        for k in range(STACK):
            u = first + k
            # The sums of the last unit fill up the stack.
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
                known[u, a] = 1.0 - matrices[a, a, k] * precision[a]
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


@compiled
def _add_row(
    e: int,
    last: int,
    order: NDArray[np.integer],
    index: NDArray[np.integer],
    contributions: NDArray[np.floating],
    total: NDArray[np.float64],
) -> int:
    """Sum the contributions that share a row with the one at place e.

    Contributions are sorted by row within a unit, so that they are at the places from e
    on.

    Parameters
    ----------
    last : int
        Where the entries of the unit end.
    total : ndarray of shape (C,)
        Written: the sum.

    Returns
    -------
    next_place : int
        The first place of the next row.
    """
    row = index[order[e]]
    for c in range(total.size):
        total[c] = 0.0
    while e < last and index[order[e]] == row:
        for c in range(total.size):
            total[c] += contributions[order[e], c]
        e += 1
    return e


@compiled
def bounded_sums(
    starts: NDArray[np.integer],
    order: NDArray[np.integer],
    index: NDArray[np.integer],
    contributions: NDArray[np.floating],
    bound: float,
    share: float,
    step: float,
    sums: NDArray[np.float64],
    lengths: NDArray[np.float64],
) -> None:
    """Sum the vectors of all units, after bounding the length of each.

    A unit's vector consists of the sums, for every row, of its entries' contributions.
    A vector longer than `bound` is scaled down to that length. It is then multiplied by
    `share / bound`, and its numbers are rounded towards zero to whole steps, so that
    rounding cannot make it longer. A vector of infinite or undefined length counts as
    zero.

    Parameters
    ----------
    starts : ndarray of shape (n_units + 1,), int
    order : ndarray of shape (n_entries,), int
        The entries of every unit, sorted by row.
    index : ndarray of shape (n_entries,), int
        The row of every entry.
    contributions : ndarray of shape (n_entries, C)
    bound, share : float
    step : float
        0 for no rounding.
    sums : ndarray of shape (n_rows, C)
        Written: the sums are added to it, as numbers of steps if there is a step.
    lengths : ndarray of shape (n_units,)
        Written: the length of what was added for each unit, in steps if there is a
        step.
    """
    n_columns = contributions.shape[1]
    total = np.empty(n_columns)
    for u in range(starts.size - 1):
        first, last = starts[u], starts[u + 1]
        length = 0.0
        e = first
        while e < last:
            e = _add_row(e, last, order, index, contributions, total)
            for c in range(n_columns):
                length += total[c] ** 2
        length = np.sqrt(length)
        factor = share / max(length, bound)
        lengths[u] = 0.0
        if not length < np.inf:
            # Infinity and NaN cannot be scaled: the unit contributes nothing.
            continue
        e, squares = first, 0.0
        while e < last:
            row = index[order[e]]
            e = _add_row(e, last, order, index, contributions, total)
            for c in range(n_columns):
                added = factor * total[c]
                if step > 0.0:
                    added = np.trunc(added / step)
                sums[row, c] += added
                squares += added**2
        lengths[u] = np.sqrt(squares)
