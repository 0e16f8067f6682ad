"""Compiled linear algebra of many small positive definite matrices at once.

Importing this module imports numba.

The last index of an array is the number of the matrix. Every step is made for all
matrices of a stack, in a loop that uses vector instructions. So loops do not get
shorter towards the end of a factorisation: a row of 18 columns takes half the time that
it takes alone. A stack always has `STACK` matrices, and the result for one does not
depend on the others, down to the last bit. (Products of BLAS may depend on where a
matrix lies in memory, and so on the other users' numbers.)
"""

import numpy as np
from numpy.typing import NDArray

from . import compiled

# Large enough for vector instructions, small enough for the caches.
STACK = 64


@compiled
def factorise(matrices: NDArray[np.float64], prior: NDArray[np.float64]) -> None:
    """Replace upper triangles by those of U, where U^T U is the matrix.

    Each matrix is a Gram matrix plus the diagonal `prior`. So every pivot is at least
    its prior; smaller ones are due to rounding.

    Parameters
    ----------
    matrices : ndarray of shape (n, n, STACK)
        Elements below the diagonal are not read. On the diagonal, the inverses of the
        elements of U are written.
    prior : ndarray of shape (n,)
    """
    n = matrices.shape[0]
    least = np.empty(STACK)
    for i in range(n):
        for k in range(STACK):
            least[k] = max(prior[i], 1e-13 * matrices[i, i, k])
        for j in range(i):
            for b in range(i, n):
                for k in range(STACK):
                    matrices[i, b, k] -= matrices[j, i, k] * matrices[j, b, k]
        for k in range(STACK):
            matrices[i, i, k] = 1.0 / np.sqrt(max(matrices[i, i, k], least[k]))
        for b in range(i + 1, n):
            for k in range(STACK):
                matrices[i, b, k] *= matrices[i, i, k]


@compiled
def solve(factors: NDArray[np.float64], shifts: NDArray[np.float64]) -> None:
    """Replace right-hand sides by the solutions x of U^T U x = shift.

    Parameters
    ----------
    factors : ndarray of shape (n, n, STACK)
        Written by `factorise`.
    shifts : ndarray of shape (n, STACK)
    """
    n = shifts.shape[0]
    for i in range(n):
        for k in range(STACK):
            shifts[i, k] *= factors[i, i, k]
        for b in range(i + 1, n):
            for k in range(STACK):
                shifts[b, k] -= shifts[i, k] * factors[i, b, k]
    for i in range(n - 1, -1, -1):
        for b in range(i + 1, n):
            for k in range(STACK):
                shifts[i, k] -= factors[i, b, k] * shifts[b, k]
        for k in range(STACK):
            shifts[i, k] *= factors[i, i, k]


@compiled
def invert(factors: NDArray[np.float64]) -> None:
    """Replace upper triangles of factors by those of the inverses of U^T U.

    Parameters
    ----------
    factors : ndarray of shape (n, n, STACK)
        Written by `factorise`.
    """
    n = factors.shape[0]
    # U^-1, from the last row up. Each row is written from its end, since an element
    # needs those before it.
    for i in range(n - 1, -1, -1):
        for b in range(n - 1, i, -1):
            for k in range(STACK):
                factors[i, b, k] *= factors[b, b, k]
            for j in range(i + 1, b):
                for k in range(STACK):
                    factors[i, b, k] += factors[i, j, k] * factors[j, b, k]
            for k in range(STACK):
                factors[i, b, k] *= -factors[i, i, k]
    # U^-1 U^-T, from the first row down.
    for a in range(n):
        for b in range(a, n):
            for k in range(STACK):
                factors[a, b, k] *= factors[b, b, k]
            for j in range(b + 1, n):
                for k in range(STACK):
                    factors[a, b, k] += factors[a, j, k] * factors[b, j, k]
