"""Integer sums of users' centred choices.

Sums of integers do not depend on their order. A sum that exceeds 64 bits keeps its
residue modulo 2^64. The matrix assembled from residues is exact if its own cells fit 64
bits.

Floating-point numbers of a user are a function of that user's choices alone, down to
the last bit: SciPy's sums add up in the order of the choices, and all else is
arithmetic on single elements of arrays.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..tensor._choices import Choices


def centred_weights(
    chosen: Choices,
    shares: NDArray[np.int64],
    unit: int,
    diagonal: float,
    scale: float,
    least: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Weigh the products of users' centred choices, so that they have bounded length.

    For a user with n choices x, let Y = unit x - n shares. Take the upper triangle of
    Y Y' / unit^2, with its diagonal multiplied by `diagonal`. The user's weight C is
    `scale` divided by the length of this triangle, or by `least` if that is larger, and
    rounded down.

    Parameters
    ----------
    chosen : Choices
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

    Returns
    -------
    weights : ndarray of shape (n_users,), int64
        0 for users without choices.
    lengths : ndarray of shape (n_users,)
        The length of each user's weighted triangle, from all cells of Y, which checks
        the shorter computation of the weight.
    """
    n, p = chosen.sizes, shares[chosen.items]
    squares, fourth = np.sum(shares**2), np.sum(shares**4)
    shape = len(n), len(p)
    ones, places = np.ones(len(p), np.int64), np.arange(len(p))
    summed = sparse.csr_array((ones, places, chosen.starts), shape=shape)
    square = n * unit * unit - 2 * n * unit * (summed @ p) + n * n * squares
    centred = (unit - np.repeat(n, n) * p).astype(float)
    powers = summed @ (centred * centred * centred * centred)
    n_float = n.astype(float)
    rest = (fourth - summed @ p**4).astype(float)
    powers += n_float * n_float * n_float * n_float * rest
    length = _lengths(square.astype(float), powers, diagonal) / (float(unit) * unit)
    weights = np.floor(scale / np.maximum(length, least)).astype(np.int64)
    weights[n == 0] = 0
    return weights, weights * _all_lengths(chosen, shares / unit, diagonal)


def _lengths(
    square: NDArray[np.float64], powers: NDArray[np.float64], diagonal: float
) -> NDArray[np.float64]:
    """Lengths of triangles, from sums of second and of fourth powers of Y."""
    # Above the diagonal, and on it.
    squared = (square * square - powers) / 2 + diagonal * diagonal * powers
    return np.sqrt(squared)


def _all_lengths(
    chosen: Choices, shares: NDArray[np.float64], diagonal: float
) -> NDArray[np.float64]:
    """Lengths of triangles, cell by cell of Y / unit."""
    n = chosen.sizes.astype(float)
    square, powers = np.zeros((2, len(n)))
    by_item = chosen.matrix(np.ones(len(chosen.items))).tocsc()
    ends = by_item.indptr
    for item, share in enumerate(shares.tolist()):
        cell = n * -share
        cell[by_item.indices[ends[item] : ends[item + 1]]] += 1.0
        cell *= cell
        square += cell
        cell *= cell
        powers += cell
    return _lengths(square, powers, diagonal)


def add_products(
    limbs: NDArray[np.int64],
    chosen: Choices,
    weights: NDArray[np.int64],
    shares: NDArray[np.int64],
    unit: int,
) -> None:
    """Add the sum of C Y Y' over users.

    Parameters
    ----------
    limbs : ndarray of shape (2, n_items (n_items + 1) / 2), int64
        The upper triangle is added, row by row, as 2^32 times the first plus the
        second.
    chosen, shares, unit
        As in `centred_weights`.
    weights : ndarray of shape (n_users,), int64
        C of every user.
    """
    n, place = chosen.sizes, 0
    # With b = sum of C n x and d = sum of C n^2, see ``_products.py``.
    b = chosen.matrix(np.repeat(weights * n, n)).sum(axis=0)
    d = np.sum(weights * n * n)
    for first, cells in chosen.pair_sums(weights):
        rows, columns = slice(first, first + len(cells)), slice(first, None)
        cells *= unit * unit
        cells -= unit * np.multiply.outer(b[rows], shares[columns])
        cells -= unit * np.multiply.outer(shares[rows], b[columns])
        cells += d * np.multiply.outer(shares[rows], shares[columns])
        in_row, in_column = np.ogrid[: cells.shape[0], : cells.shape[1]]
        upper = cells[in_column >= in_row]
        after = place + len(upper)
        limbs[0, place:after] += upper >> 32
        limbs[1, place:after] += upper & 0xFFFFFFFF
        place = after
