"""Mode products of batches of tensors, by BLAS calls on unfolded views."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def mode_products(
    tensors: NDArray[np.floating], matrices: Sequence[NDArray[np.floating] | None]
) -> NDArray[np.floating]:
    """Multiply every tensor of a batch in each mode by the matrix of that mode.

    Parameters
    ----------
    tensors : ndarray of shape (n, I_1, ..., I_N)
    matrices : list of ndarray of shape (J_k, I_k) or (I_k,), or None
        One for each mode. A vector stands for a diagonal matrix; None leaves the mode
        unchanged.

    Returns
    -------
    products : ndarray of shape (n, J_1, ..., J_N)
        The input itself if every matrix is None.
    """
    for axis, matrix in enumerate(matrices, start=1):
        if matrix is None:
            continue
        shape = tensors.shape
        if matrix.ndim == 1:
            tensors = tensors * matrix.reshape(-1, *[1] * (len(shape) - axis - 1))
            continue
        left, right = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        if right == 1:
            product = tensors.reshape(left, shape[axis]) @ matrix.T
        else:
            product = matrix @ tensors.reshape(left, shape[axis], right)
        tensors = product.reshape(*shape[:axis], len(matrix), *shape[axis + 1 :])
    return np.asarray(tensors)


def cp_to_dense(factors: Sequence[NDArray[np.floating]]) -> NDArray[np.floating]:
    """The dense tensor of a CP: the sum over its columns of their outer products.

    Parameters
    ----------
    factors : list of ndarray of shape (I_k, n_columns)

    Returns
    -------
    tensor : ndarray of shape (I_1, ..., I_N)
    """
    *rest, last = factors
    product = rest[0]
    for factor in rest[1:]:
        product = (product[:, np.newaxis] * factor).reshape(-1, factor.shape[1])
    return (product @ last.T).reshape([len(factor) for factor in factors])


def packed_squares(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    """The outer product of every row with itself, packed as an upper triangle.

    The upper triangle is stored row by row, here and throughout the package.

    Parameters
    ----------
    rows : ndarray of shape (n, Q)

    Returns
    -------
    squares : ndarray of shape (n, Q (Q + 1) / 2)
        In C order.
    """
    first, second = np.triu_indices(rows.shape[1])
    return np.take(rows, first, axis=1) * np.take(rows, second, axis=1)


def diagonal(n_columns: int) -> NDArray[np.integer]:
    """Positions of the diagonal in a packed upper triangle."""
    return np.flatnonzero(np.equal(*np.triu_indices(n_columns)))
