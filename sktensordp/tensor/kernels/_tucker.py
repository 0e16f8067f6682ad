"""Compiled kernel of Tucker decompositions: sums for the fit.

Importing this module imports numba; see `_cp`.
"""

import numpy as np
from numpy.typing import NDArray

from ._compiled import compiled
from ._cp import CHUNK


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
