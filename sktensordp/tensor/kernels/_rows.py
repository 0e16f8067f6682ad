"""Compiled loops of fits to larger tensors and to large matrices.

Importing this module imports numba. Every loop over columns begins at zero, since
numba compiles only such loops to vector instructions.
"""

import numpy as np
from numpy.typing import NDArray

from . import compiled
from ._stacks import STACK, factorise, invert, solve


@compiled
def moments(
    means: NDArray[np.float64],
    covariances: NDArray[np.floating],
    one: NDArray[np.integer],
    other: NDArray[np.integer],
    both: NDArray[np.integer],
    at: NDArray[np.integer],
    kept: NDArray[np.integer],
    table: NDArray[np.float64],
) -> None:
    """Second moments of pairs of columns of rows and, after them, means.

    Parameters
    ----------
    means : ndarray of shape (n_rows, n_columns), float64
    covariances : ndarray of shape (n_rows, P)
    one, other : ndarray of shape (n_pairs,), int
        The columns of every pair.
    both, at : ndarray of shape (n_free_pairs,), int
        The pairs that have a covariance, and where it is.
    kept : ndarray of shape (n_kept,), int
        The columns whose means follow.
    table : ndarray of shape (n_rows, n_pairs + n_kept), float64
        Written.
    """
    n_pairs = one.size
    for r in range(len(means)):
        for p in range(n_pairs):
            table[r, p] = means[r, one[p]] * means[r, other[p]]
        for p in range(both.size):
            table[r, both[p]] += covariances[r, at[p]]
        for p in range(kept.size):
            table[r, n_pairs + p] = means[r, kept[p]]


@compiled
def product_sums(
    starts: NDArray[np.integer],
    others: NDArray[np.integer],
    first: NDArray[np.integer],
    values: NDArray[np.floating],
    n_plain: int,
    table: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    """Sums over the entries of every row of the products of their rows of a table.

    Parameters
    ----------
    starts : ndarray of shape (n_rows + 1,), int
        The entries of row r are starts[r] to starts[r + 1].
    others : ndarray of shape (n_entries, n_others), int
        The rows of an entry in other modes.
    first : ndarray of shape (n_others,), int
        Where the rows of every other mode begin in the table.
    values : ndarray of shape (n_entries,)
    n_plain : int
        Number of columns whose products are summed as they are; those of further
        columns are multiplied by the value.
    table : ndarray of shape (n_all_rows, n_columns), float64
    sums : ndarray of shape (n_rows, n_columns), float64
        Written.
    """
    n_columns, n_others = table.shape[1], others.shape[1]
    n_valued, last = n_columns - n_plain, others.shape[1] - 1
    # Instead of the row of an entry that does not exist.
    nothing = np.zeros(n_columns)
    # The products over all other modes but the last.
    products = np.empty((2, n_columns if n_others > 2 else 0))
    of_last = table[first[last] :]
    for r in range(starts.size - 1):
        total, end = sums[r], starts[r + 1]
        rest = total[n_plain:]
        for p in range(n_columns):
            total[p] = 0.0
        # Several entries at a time, so that totals are read and written once for them.
        if n_others == 1:
            for e in range(starts[r], end, 4):
                f, g, h = min(e + 1, end - 1), min(e + 2, end - 1), min(e + 3, end - 1)
                a = table[others[e, 0]]
                b = table[others[f, 0]] if f == e + 1 else nothing
                c = table[others[g, 0]] if g == e + 2 else nothing
                d = table[others[h, 0]] if h == e + 3 else nothing
                for p in range(n_plain):
                    total[p] += (a[p] + b[p]) + (c[p] + d[p])
                a, b, c, d = a[n_plain:], b[n_plain:], c[n_plain:], d[n_plain:]
                w, x = np.float64(values[e]), np.float64(values[f])
                y, z = np.float64(values[g]), np.float64(values[h])
                for p in range(n_valued):
                    rest[p] += (w * a[p] + x * b[p]) + (y * c[p] + z * d[p])
        else:
            for e in range(starts[r], end, 2):
                f = min(e + 1, end - 1)
                a = table[others[e, 0]]
                b = table[others[f, 0]] if f == e + 1 else nothing
                for m in range(1, last):
                    c = table[first[m] + others[e, m]]
                    d = table[first[m] + others[f, m]]
                    for p in range(n_columns):
                        products[0, p] = a[p] * c[p]
                        products[1, p] = b[p] * d[p]
                    a, b = products[0], products[1]
                c, d = of_last[others[e, last]], of_last[others[f, last]]
                for p in range(n_plain):
                    total[p] += a[p] * c[p] + b[p] * d[p]
                a, b, c, d = a[n_plain:], b[n_plain:], c[n_plain:], d[n_plain:]
                w, x = np.float64(values[e]), np.float64(values[f])
                for p in range(n_valued):
                    rest[p] += w * a[p] * c[p] + x * b[p] * d[p]


@compiled
def posteriors(
    gram: NDArray[np.float64],
    shifts: NDArray[np.float64],
    noise: float,
    prior: NDArray[np.float64],
    means: NDArray[np.float64],
    triangles: NDArray[np.float64],
) -> None:
    """Posterior means and covariances of rows from the sums over their entries.

    Parameters
    ----------
    gram : ndarray of shape (n, n_needed, n_columns), float64
        Upper triangles of the first F rows and columns, which are free, are read.
    shifts : ndarray of shape (n, F), float64
        The precision matrix times the mean.
    noise : float
    prior : ndarray of shape (F,), float64
        The diagonal that is added to `gram` over `noise`.
    means : ndarray of shape (n, F), float64
        Written.
    triangles : ndarray of shape (n, F (F + 1) / 2), float64
        Written: the covariances, row by row.
    """
    n, size = shifts.shape
    stack, solutions = np.empty((size, size, STACK)), np.empty((size, STACK))
    for first in range(0, n, STACK):
        # The loops over rows are innermost, so that whole lines of caches are written.
        for a in range(size):
            for k in range(STACK):
                # Copies of the last row fill up the stack.
                solutions[a, k] = shifts[min(first + k, n - 1), a]
            for b in range(a, size):
                for k in range(STACK):
                    stack[a, b, k] = gram[min(first + k, n - 1), a, b] / noise
            for k in range(STACK):
                stack[a, a, k] += prior[a]
        factorise(stack, prior)
        solve(stack, solutions)
        invert(stack)
        n_here, p = min(STACK, n - first), 0
        for a in range(size):
            for k in range(n_here):
                means[first + k, a] = solutions[a, k]
            for b in range(a, size):
                for k in range(n_here):
                    triangles[first + k, p] = stack[a, b, k]
                p += 1
