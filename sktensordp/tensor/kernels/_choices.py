"""Compiled integer sums of users' centred choices. Importing this imports numba.

Sums of integers do not depend on their order. A sum that exceeds 64 bits keeps its
residue modulo 2^64. The matrix assembled from residues is exact if its own cells fit 64
bits.
"""

import numpy as np
from numpy.typing import NDArray

from . import compiled


@compiled
def centred_weights(
    starts: NDArray[np.int64],
    items: NDArray[np.integer],
    shares: NDArray[np.int64],
    unit: int,
    diagonal: float,
    scale: float,
    least: float,
    weights: NDArray[np.int64],
    lengths: NDArray[np.float64],
) -> None:
    """Weigh the products of users' centred choices, so that they have bounded length.

    For a user with n choices x, let Y = unit x - n shares. Take the upper triangle of
    Y Y' / unit^2, with its diagonal multiplied by `diagonal`. The user's weight C is
    `scale` divided by the length of this triangle, or by `least` if that is larger, and
    rounded down.

    Parameters
    ----------
    starts : ndarray of shape (n_users + 1,), int64
        User u chose items[starts[u]:starts[u + 1]].
    items : ndarray of shape (n_choices,), int
        Chosen items, distinct within every user, in any order.
    shares : ndarray of shape (n_items,), int64
        Expected share of each item, in units of 1 / `unit`; they add up to about
        `unit`.
    unit : int
        A power of two, up to 2^14.
    diagonal : float
        Weight of a diagonal cell in the length, from 1/2 to 1. For smaller weights,
        rounding errors would matter.
    scale, least : float
        Numerator and smallest denominator of a weight.
    weights : ndarray of shape (n_users,), int64
        Written; 0 for users without choices.
    lengths : ndarray of shape (n_users,)
        Written: the length of each user's weighted triangle, from all cells of Y, which
        checks the shorter computation of the weight.
    """
    squares, fourth = 0, 0
    chosen = np.zeros(shares.size)
    for p in shares:
        squares += p * p
        fourth += p * p * p * p
    for u in range(starts.size - 1):
        start, end = starts[u], starts[u + 1]
        n = end - start
        weights[u], lengths[u] = 0, 0.0
        if n == 0:
            continue
        chosen_share, chosen_fourth, powers = 0, 0, 0.0
        for e in range(start, end):
            p = shares[items[e]]
            chosen_share += p
            chosen_fourth += p * p * p * p
            centred = float(unit - n * p)
            powers += centred * centred * centred * centred
        square = float(n * unit * unit - 2 * n * unit * chosen_share + n * n * squares)
        n_float = float(n)
        powers += n_float * n_float * n_float * n_float * float(fourth - chosen_fourth)
        # Above the diagonal, and on it.
        squared = (square * square - powers) / 2 + diagonal * diagonal * powers
        length = np.sqrt(squared) / (float(unit) * float(unit))
        weight = np.int64(np.floor(scale / max(length, least)))
        for e in range(start, end):
            chosen[items[e]] = 1.0
        square, powers = 0.0, 0.0
        for i in range(shares.size):
            squared = (chosen[i] - n_float * float(shares[i]) / float(unit)) ** 2
            square += squared
            powers += squared * squared
        squared = square * square / 2 - (0.5 - diagonal * diagonal) * powers
        weights[u], lengths[u] = weight, float(weight) * np.sqrt(squared)
        for e in range(start, end):
            chosen[items[e]] = 0.0


@compiled
def centred_sums(
    first: int,
    last: int,
    starts: NDArray[np.int64],
    items: NDArray[np.integer],
    weights: NDArray[np.int64],
    products: NDArray[np.int64],
    sums: NDArray[np.int64],
    total: NDArray[np.int64],
) -> None:
    """Add the weighted choices of some users to three sums.

    Parameters
    ----------
    first, last : int
        First user, and one past the last.
    starts, items
        As in `centred_weights`.
    weights : ndarray of shape (n_users,), int64
        C of every user.
    products : ndarray of shape (n_items, n_items), int64
        C x x' is added, each pair of items once, in either of its two cells.
    sums : ndarray of shape (n_items,), int64
        C n x is added.
    total : ndarray of shape (1,), int64
        C n^2 is added.
    """
    for u in range(first, last):
        start, end = starts[u], starts[u + 1]
        n, weight = end - start, weights[u]
        if weight == 0:
            continue
        total[0] += weight * n * n
        for e in range(start, end):
            i = items[e]
            sums[i] += weight * n
            for f in range(e, end):
                products[i, items[f]] += weight


@compiled
def pair_sums(
    starts: NDArray[np.int64],
    items: NDArray[np.integer],
    weights: NDArray[np.int32],
    sums: NDArray[np.int32],
) -> None:
    """Add C x x' of all users to the upper triangle of a matrix, with its diagonal.

    Parameters
    ----------
    starts, items
        As in `centred_weights`.
    weights : ndarray of shape (n_users,), int32
        C of every user.
    sums : ndarray of shape (n_items, n_items), int32
        The matrix. No cell may exceed 32 bits.
    """
    for u in range(starts.size - 1):
        start, end = starts[u], starts[u + 1]
        for e in range(start, end):
            for f in range(e, end):
                low, high = min(items[e], items[f]), max(items[e], items[f])
                sums[low, high] += weights[u]


@compiled
def assemble(
    products: NDArray[np.int64],
    sums: NDArray[np.int64],
    total: NDArray[np.int64],
    shares: NDArray[np.int64],
    unit: int,
    high: NDArray[np.int64],
    low: NDArray[np.int64],
) -> None:
    """Assemble the sum of C Y Y' from three sums, add it, and clear the three sums.

    Parameters
    ----------
    products, sums, total, shares, unit
        As in `centred_weights` and `centred_sums`.
    high, low : ndarray of shape (n_items (n_items + 1) / 2,), int64
        The upper triangle is added, row by row, as high 2^32 + low.
    """
    p = 0
    for i in range(sums.size):
        for j in range(i, sums.size):
            cross = sums[i] * shares[j] + shares[i] * sums[j]
            pairs = products[i, j]
            if j > i:
                pairs += products[j, i]
            entry = unit * unit * pairs - unit * cross
            entry += total[0] * shares[i] * shares[j]
            high[p] += entry >> 32
            low[p] += entry & 0xFFFFFFFF
            p += 1
    products[:] = 0
    sums[:] = 0
    total[0] = 0
