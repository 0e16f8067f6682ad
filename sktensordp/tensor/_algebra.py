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


def with_columns(
    rows: NDArray[np.floating],
    packed: NDArray[np.floating],
    columns: NDArray[np.integer],
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Some columns of rows, and the same of their packed squares.

    Parameters
    ----------
    rows : ndarray of shape (n, Q)
    packed : ndarray of shape (n, Q (Q + 1) / 2)
        For example, covariances.
    columns : ndarray of int
        Ascending, apart from Q, which stands for a new column of zeros.

    Returns
    -------
    rows : ndarray of shape (n, len(columns))
    packed : ndarray of shape (n, P)
    """
    n_columns, n_pairs = rows.shape[1], packed.shape[1]
    one, other = (columns[k] for k in np.triu_indices(len(columns)))
    pairs = one * n_columns - one * (one - 1) // 2 - one + other
    pairs = np.where(np.maximum(one, other) == n_columns, n_pairs, pairs)
    zeros = np.zeros((len(rows), 1), rows.dtype)
    padded, padded_pairs = (np.append(a, zeros, axis=1) for a in (rows, packed))
    return np.take(padded, columns, axis=1), np.take(padded_pairs, pairs, axis=1)


def cp_to_tucker(
    factors: list[NDArray[np.floating]],
) -> tuple[NDArray[np.floating], list[NDArray[np.floating]]]:
    """Convert a CP to a Tucker core and factors; columns of ones become one column."""
    n_columns = factors[0].shape[1]
    places, tucker_factors = [], []
    for factor in factors:
        kept = np.flatnonzero(np.any(factor != 1, axis=0))
        place = np.zeros(n_columns, dtype=int)
        place[kept] = 1 + np.arange(len(kept))
        places.append(place)
        ones = np.ones(len(factor), factor.dtype)
        tucker_factors.append(np.column_stack([ones, factor[:, kept]]))
    core = np.zeros([f.shape[1] for f in tucker_factors], dtype=factors[0].dtype)
    np.add.at(core, tuple(places), 1.0)
    return core, tucker_factors
