"""Compiled kernels of Tucker decompositions: sums for the fit, and the descent.

Importing this module imports numba; see `_cp`.
"""

import numpy as np
from numpy.typing import NDArray

from ._cp import CHUNK, compiled, sgd_step

__all__ = ["outer_sums", "sgd_tucker_pass"]


@compiled
def outer_sums(
    first: int,
    last: int,
    starts: NDArray[np.integer],
    others: NDArray[np.integer],
    weights: NDArray[np.floating],
    tables: NDArray[np.floating],
    begins: NDArray[np.integer],
    sizes: NDArray[np.integer],
    sums: NDArray[np.float64],
) -> None:
    """Weighted sums of outer products over the entries of a mode's rows [first, last).

    Every other mode has a table. The outer product is over the rows of an entry in
    these tables.

    Parameters
    ----------
    first, last : int
        Range of rows.
    starts : ndarray of shape (n_rows + 1,), int
        The entries of row r are starts[r] to starts[r + 1].
    others : ndarray of shape (n_entries, n_others), int
        The row of an entry in each table.
    weights : ndarray of shape (n_entries,) or (0,)
        If empty, all weights are one.
    tables : ndarray of shape (total,)
        The tables, one after the other, row by row.
    begins, sizes : ndarray of shape (n_others,), int
        Position of row 0 of each table, and the length of its rows.
    sums : ndarray of shape (last - first, product of all sizes but one, last size)
        Written, float64.
    """
    last_table = sizes.size - 1
    one = tables.dtype.type(1)
    left = np.empty((CHUNK, sums.shape[1]), tables.dtype)
    right = np.empty((CHUNK, sums.shape[2]), tables.dtype)
    product = np.empty((sums.shape[1], sums.shape[2]), tables.dtype)
    for r in range(first, last):
        total = sums[r - first]
        total[:] = 0.0
        for begin in range(starts[r], starts[r + 1], CHUNK):
            end = min(begin + CHUNK, starts[r + 1])
            if last_table == 0:
                product[:] = 0.0
                single = product[0]
                for e in range(begin, end):
                    weight = weights[e] if weights.size else one
                    at = begins[0] + others[e, 0] * sizes[0]
                    row = tables[at : at + sizes[0]]
                    for b in range(single.size):
                        single[b] += weight * row[b]
            else:
                for e in range(begin, end):
                    row = left[e - begin]
                    row[0] = weights[e] if weights.size else one
                    width = 1
                    for o in range(last_table):
                        size = sizes[o]
                        at = begins[o] + others[e, o] * size
                        # In place, from the end: every element is read before it is
                        # overwritten.
                        for a in range(width - 1, -1, -1):
                            value = row[a]
                            for b in range(size):
                                row[a * size + b] = value * tables[at + b]
                        width *= size
                    size = sizes[last_table]
                    at = begins[last_table] + others[e, last_table] * size
                    right[e - begin] = tables[at : at + size]
                np.dot(left[: end - begin].T, right[: end - begin], product)
            for a in range(product.shape[0]):
                for b in range(product.shape[1]):
                    total[a, b] += product[a, b]


@compiled
def sgd_tucker_pass(
    rows: NDArray[np.integer],
    values: NDArray[np.float64],
    factors: NDArray[np.float64],
    ranks: NDArray[np.integer],
    core: NDArray[np.float64],
    cells: NDArray[np.integer],
    rate: float,
    ridge: float,
    core_ridge: float,
    clip: float,
    noise: NDArray[np.float64],
) -> None:
    """One pass of stochastic gradient descent over the entries, in their order.

    The cost of an entry is its squared error, plus `ridge` times the squared norms of
    its rows, plus `core_ridge` times the squared norm of the core. First its rows move,
    one after the other, then the core; each sees the moves of those before it.

    Parameters
    ----------
    rows : ndarray of shape (n, n_modes), int
        The rows of every entry, as rows of `factors`.
    values : ndarray of shape (n,), float64
    factors : ndarray of shape (n_rows, largest rank), float64
        Rows of all modes, with as many columns in use as the rank of the mode. Written.
    ranks : ndarray of shape (n_modes,), int
    core : ndarray of shape (n_cells,), float64
        Written.
    cells : ndarray of shape (n_cells, n_modes), int
        For every cell of the core, the column that it multiplies in each mode.
    rate, ridge, core_ridge : float
    clip : float
        Largest norm of the gradients of the last mode's rows.
    noise : ndarray of shape (n, rank of the last mode) or (0, ...), float64
        Added to those gradients after clipping. With shape (0, ...), they are neither
        clipped nor noisy.
    """
    n_modes = rows.shape[1]
    regressors, products = np.empty(factors.shape[1]), np.empty(core.size)
    gradient = np.empty(max(factors.shape[1], core.size))
    no_noise = noise[:0, 0]
    for e in range(values.size):
        for m in range(n_modes):
            regressors[:] = 0.0
            for c in range(core.size):
                product = core[c]
                for k in range(n_modes):
                    if k != m:
                        product *= factors[rows[e, k], cells[c, k]]
                regressors[cells[c, m]] += product
            row_noise = no_noise
            if m == n_modes - 1 and noise.shape[0] > 0:
                row_noise = noise[e]
            row = factors[rows[e, m], : ranks[m]]
            sgd_step(row, regressors, values[e], rate, ridge, clip, row_noise, gradient)
        for c in range(core.size):
            products[c] = 1.0
            for k in range(n_modes):
                products[c] *= factors[rows[e, k], cells[c, k]]
        sgd_step(core, products, values[e], rate, core_ridge, clip, no_noise, gradient)
