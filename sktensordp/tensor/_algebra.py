"""Mode products of batches of tensors, by BLAS on unfolded views; triangles."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=32)
def upper_triangle(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of an upper triangle's elements; cached, as fits ask often."""
    rows, columns = np.triu_indices(n)
    rows.setflags(write=False)
    columns.setflags(write=False)
    return rows, columns


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
