"""Compiled sums over people. Importing this module imports numba."""

import numpy as np
from numpy.typing import NDArray

from ..tensor.kernels import compiled


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
