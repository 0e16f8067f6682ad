"""Compiled sums of users' centred choices, in integers. Importing this imports numba.

Sums of integers are the same in any order. Where one goes beyond 64 bits, what is kept
of it is its residue, and the matrix that is assembled from residues is exact as long as
it fits itself.
"""

import numpy as np
from numpy.typing import NDArray

from ._cp import compiled

__all__ = ["assemble", "centred_sums"]


@compiled
def centred_sums(
    first: int,
    last: int,
    starts: NDArray[np.int64],
    items: NDArray[np.integer],
    shares: NDArray[np.int64],
    unit: int,
    scale: float,
    least: float,
    products: NDArray[np.int64],
    sums: NDArray[np.int64],
    total: NDArray[np.int64],
) -> None:
    """Add the weighted choices of some users to three sums.

    Of a user with n choices x, let Y = unit x - n shares. The user's weight C is
    ``scale`` over the length of the upper triangle of Y Y' / unit^2, or over `least`
    where that is larger, rounded down.

    Parameters
    ----------
    first, last : int
        The users.
    starts : ndarray of shape (n_users + 1,), int64
        Choices of user u are items[starts[u]:starts[u + 1]].
    items : ndarray of shape (n_choices,), int
        Distinct for every user, in any order.
    shares : ndarray of shape (n_items,), int64
        From 0 to `unit`, about which they add up to.
    unit : int
        A power of two, up to 2^14.
    scale, least : float
    products : ndarray of shape (n_items, n_items), int64
        Added to: C x x', every pair of items once, at either of its two places.
    sums : ndarray of shape (n_items,), int64
        Added to: C n x.
    total : ndarray of shape (1,), int64
        Added to: C n^2.
    """
    squares, fourth = 0, 0
    for p in shares:
        squares += p * p
        fourth += p * p * p * p
    for u in range(first, last):
        start, end = starts[u], starts[u + 1]
        n = end - start
        if n == 0:
            continue
        own, own_fourth, powers = 0, 0, 0.0
        for e in range(start, end):
            p = shares[items[e]]
            own += p
            own_fourth += p * p * p * p
            far = float(unit - n * p)
            powers += far * far * far * far
        length = float(n * unit * unit - 2 * n * unit * own + n * n * squares)
        n_float = float(n)
        powers += n_float * n_float * n_float * n_float * float(fourth - own_fourth)
        norm = np.sqrt((length * length + powers) / 2) / (float(unit) * float(unit))
        weight = np.int64(np.floor(scale / max(norm, least)))
        total[0] += weight * n * n
        for e in range(start, end):
            i = items[e]
            sums[i] += weight * n
            for f in range(e, end):
                products[i, items[f]] += weight


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
    """Add the sum of C Y Y' of some users, from their three sums, which become zero.

    Parameters
    ----------
    products, sums, total, shares, unit
        As in `centred_sums`.
    high, low : ndarray of shape (n_items (n_items + 1) / 2,), int64
        Added to: the upper triangle, row by row, as high 2^32 + low.
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
