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

    Within a unit, contributions are sorted by row, so these are the ones from place e
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
def bounded_weights(
    starts: NDArray[np.integer],
    order: NDArray[np.integer],
    index: NDArray[np.integer],
    contributions: NDArray[np.floating],
    bound: float,
    longest: float,
    step: float,
    weights: NDArray[np.float64],
    lengths: NDArray[np.float64],
) -> None:
    """Weigh the vectors of all units so that none is longer than `longest`.

    A unit's vector consists of the sums, for every row, of its entries' contributions.
    Its weight is `longest / bound`, and less for a vector longer than `bound`.

    Parameters
    ----------
    starts : ndarray of shape (n_units + 1,), int
    order : ndarray of shape (n_entries,), int
        The entries of every unit, sorted by row.
    index : ndarray of shape (n_entries,), int
        The row of every entry.
    contributions : ndarray of shape (n_entries, C)
    bound, longest : float
    step : float
        0 for no rounding.
    weights : ndarray of shape (n_units,)
        Written.
    lengths : ndarray of shape (n_units,)
        Written: the length of each vector as `add_weighted` adds it, in steps if there
        is a step.
    """
    n_columns = contributions.shape[1]
    total = np.empty(n_columns)
    for u in range(starts.size - 1):
        first, last = starts[u], starts[u + 1]
        e, length = first, 0.0
        while e < last:
            e = _add_row(e, last, order, index, contributions, total)
            for c in range(n_columns):
                length += total[c] ** 2
        weight = longest / max(np.sqrt(length), bound)
        e, squares = first, 0.0
        while e < last:
            e = _add_row(e, last, order, index, contributions, total)
            for c in range(n_columns):
                squares += _weighted(total[c], weight, step) ** 2
        # Nothing may be longer than a float can hold: its square would be infinite.
        weights[u], lengths[u] = weight, np.sqrt(squares) if length < np.inf else np.inf


@compiled
def add_weighted(
    starts: NDArray[np.integer],
    order: NDArray[np.integer],
    index: NDArray[np.integer],
    contributions: NDArray[np.floating],
    weights: NDArray[np.float64],
    step: float,
    sums: NDArray[np.float64],
) -> None:
    """Add the weighted vectors of units to sums, except those of weight 0.

    Each number is rounded towards zero to whole steps, so that rounding cannot make a
    vector longer.

    Parameters
    ----------
    starts, order, index, contributions, weights, step
        As in `bounded_weights`.
    sums : ndarray of shape (n_rows, C)
        Written: the vectors are added to it, as numbers of steps if there is a step.
    """
    n_columns = contributions.shape[1]
    total = np.empty(n_columns)
    for u in range(starts.size - 1):
        e, last = starts[u], starts[u + 1]
        if weights[u] == 0.0:
            continue
        while e < last:
            row = index[order[e]]
            e = _add_row(e, last, order, index, contributions, total)
            for c in range(n_columns):
                sums[row, c] += _weighted(total[c], weights[u], step)


@compiled
def _weighted(number: float, weight: float, step: float) -> float:
    """A number times a weight, rounded towards zero to whole steps if there is one."""
    weighted = weight * number
    return np.trunc(weighted / step) if step > 0.0 else weighted
