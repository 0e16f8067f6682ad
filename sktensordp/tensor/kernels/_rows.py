"""Compiled loops of fits to three and more modes, and to large matrices.

Importing this module imports numba.
"""

import numpy as np
from numpy.typing import NDArray

from . import compiled
from ._stacks import STACK, factorise, invert


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
    product, total = np.empty(n_columns), np.empty(n_columns)
    for r in range(starts.size - 1):
        for p in range(n_columns):
            total[p] = 0.0
        begin, end = starts[r], starts[r + 1]
        # Entries of a matrix are added by fours, so that totals are read and written
        # once for four entries.
        while n_others == 1 and begin + 4 <= end:
            a, b = table[others[begin, 0]], table[others[begin + 1, 0]]
            c, d = table[others[begin + 2, 0]], table[others[begin + 3, 0]]
            for p in range(n_plain):
                total[p] += (a[p] + b[p]) + (c[p] + d[p])
            w, x = np.float64(values[begin]), np.float64(values[begin + 1])
            y, z = np.float64(values[begin + 2]), np.float64(values[begin + 3])
            for p in range(n_plain, n_columns):
                total[p] += (w * a[p] + x * b[p]) + (y * c[p] + z * d[p])
            begin += 4
        for e in range(begin, end):
            row = table[first[0] + others[e, 0]]
            for m in range(1, n_others - 1):
                other = table[first[m] + others[e, m]]
                for p in range(n_columns):
                    product[p] = row[p] * other[p]
                row = product
            value = np.float64(values[e])
            if n_others == 1:
                for p in range(n_plain):
                    total[p] += row[p]
                for p in range(n_plain, n_columns):
                    total[p] += value * row[p]
            else:
                last = table[first[n_others - 1] + others[e, n_others - 1]]
                for p in range(n_plain):
                    total[p] += row[p] * last[p]
                for p in range(n_plain, n_columns):
                    total[p] += value * row[p] * last[p]
        for p in range(n_columns):
            sums[r, p] = total[p]


@compiled
def inverses(matrices: NDArray[np.float64], prior: NDArray[np.float64]) -> None:
    """Replace positive definite matrices by the upper triangles of their inverses.

    Parameters
    ----------
    matrices : ndarray of shape (n, F, F), float64
        Upper triangles are read. Written.
    prior : ndarray of shape (F,), float64
        The diagonal that has been added to Gram matrices.
    """
    n, size = len(matrices), len(prior)
    stack = np.empty((size, size, STACK))
    for first in range(0, n, STACK):
        for k in range(STACK):
            # Copies of the last matrix fill up the stack.
            own = matrices[min(first + k, n - 1)]
            for a in range(size):
                for b in range(a, size):
                    stack[a, b, k] = own[a, b]
        factorise(stack, prior)
        invert(stack)
        for k in range(min(STACK, n - first)):
            own = matrices[first + k]
            for a in range(size):
                for b in range(a, size):
                    own[a, b] = stack[a, b, k]
