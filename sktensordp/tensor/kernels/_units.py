"""Compiled kernels over the entries of units. Importing this module imports numba.

Entries are sorted by their unit. What is computed for a unit is a function of its own
entries alone, bit by bit: it does not depend on where they are among those of others.
"""

import numpy as np
from numpy.typing import NDArray

from ._cp import cholesky, compiled, invert_factor, solve_factor

__all__ = ["bounded_sums", "solve_units", "unit_sums"]


@compiled
def solve_units(
    starts: NDArray[np.integer],
    regressors: NDArray[np.floating],
    targets: NDArray[np.floating],
    noise: float,
    precision: NDArray[np.float64],
    rows: NDArray[np.float64],
    spread: NDArray[np.float64],
    squares: NDArray[np.float64],
    freedom: NDArray[np.float64],
) -> None:
    """Ridge regression of every unit on its own entries.

    Parameters
    ----------
    starts : ndarray of shape (n_units + 1,), int
        Entries of unit u are starts[u] to starts[u + 1].
    regressors : ndarray of shape (n_entries, Q)
    targets : ndarray of shape (n_entries,)
    noise : float
        Variance of a target around the model.
    precision : ndarray of shape (Q,)
        Of the prior, which has mean zero.
    rows : ndarray of shape (n_units, Q)
        Written: posterior means.
    spread : ndarray of shape (n_units, F (F + 1) / 2)
        Written: posterior covariances of the last F columns, as upper triangles, row
        by row.
    squares : ndarray of shape (n_units,)
        Written: sum of squared residuals.
    freedom : ndarray of shape (n_units,)
        Written: number of entries less the degrees of freedom of the fit.
    """
    size = precision.size
    gram, shift = np.empty((size, size)), np.empty(size)
    inverse = np.empty((size, size))
    n_last = 0
    while n_last * (n_last + 1) // 2 < spread.shape[1]:
        n_last += 1
    for u in range(starts.size - 1):
        for a in range(size):
            shift[a] = 0.0
            for b in range(a, size):
                gram[a, b] = 0.0
            gram[a, a] = precision[a]
        for e in range(starts[u], starts[u + 1]):
            for a in range(size):
                own = regressors[e, a] / noise
                shift[a] += own * targets[e]
                for b in range(a, size):
                    gram[a, b] += own * regressors[e, b]
        cholesky(gram)
        invert_factor(gram, inverse)
        solve_factor(gram, shift)
        # Degrees of freedom: Q less the trace of the inverse times the precision.
        kept = 0.0
        for a in range(size):
            for b in range(a, size):
                kept += inverse[a, b] ** 2 * precision[a]
            rows[u, a] = shift[a]
        p = 0
        for a in range(size - n_last, size):
            for b in range(a, size):
                spread[u, p] = 0.0
                for k in range(b, size):
                    spread[u, p] += inverse[a, k] * inverse[b, k]
                p += 1
        freedom[u] = starts[u + 1] - starts[u] - size + kept
        squares[u] = 0.0
        for e in range(starts[u], starts[u + 1]):
            left = targets[e]
            for a in range(size):
                left -= regressors[e, a] * shift[a]
            squares[u] += left**2


@compiled
def _add_row(
    e: int,
    last: int,
    order: NDArray[np.integer],
    index: NDArray[np.integer],
    contributions: NDArray[np.floating],
    total: NDArray[np.float64],
) -> int:
    """Add up the contributions from place e on that belong to its row; the next place.

    Parameters
    ----------
    total : ndarray of shape (C,)
        Written.
    """
    row = index[order[e]]
    total[:] = 0.0
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
    scales: NDArray[np.float64],
) -> None:
    """Sums over units of vectors that are no longer than a bound.

    A unit's vector has, for every row, the sum of its entries' contributions. It is
    scaled down to length `bound` if it is longer, then multiplied by `share / bound`,
    and every number in it is moved towards zero to a whole step, which makes it no
    longer. A vector of infinite length counts as zero.

    Parameters
    ----------
    starts : ndarray of shape (n_units + 1,), int
    order : ndarray of shape (n_entries,), int
        The entries of every unit by their row.
    index : ndarray of shape (n_entries,), int
        Row of every entry.
    contributions : ndarray of shape (n_entries, C)
    bound, share : float
    step : float
        0 for none.
    sums : ndarray of shape (n_rows, C)
        Added to: whole steps, or numbers where there is no step.
    scales : ndarray of shape (n_units,)
        Written: how much every unit's vector was scaled down to the bound.
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
        scales[u] = min(1.0, bound / max(length, 1e-300))
        factor = share / max(length, bound)
        if not length < np.inf:
            # No numbers are no vector.
            scales[u] = 0.0
            continue
        e = first
        while e < last:
            row = index[order[e]]
            e = _add_row(e, last, order, index, contributions, total)
            for c in range(n_columns):
                if step > 0.0:
                    sums[row, c] += np.trunc(factor * total[c] / step)
                else:
                    sums[row, c] += factor * total[c]


@compiled
def unit_sums(
    starts: NDArray[np.integer],
    numbers: NDArray[np.floating],
    sums: NDArray[np.float64],
) -> None:
    """Sums over the entries of every unit.

    Parameters
    ----------
    starts : ndarray of shape (n_units + 1,), int
    numbers : ndarray of shape (n_entries, C)
    sums : ndarray of shape (n_units, C)
        Written.
    """
    sums[:] = 0.0
    for u in range(starts.size - 1):
        for e in range(starts[u], starts[u + 1]):
            for c in range(numbers.shape[1]):
                sums[u, c] += numbers[e, c]
