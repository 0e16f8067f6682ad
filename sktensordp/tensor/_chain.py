"""Rows of a mode that are tied to their neighbours, as bins of time are.

Column q of the rows 0, ..., T - 1 has the prior of a Gaussian Markov random field with
mean mu_q and precision matrix lambda_q I + tau_q L, where L is the Laplacian of a path:
lambda_q pulls each row to the mean, tau_q each pair of neighbours to one another. With
the entries' sums, the posterior of all rows is Gaussian with a block tridiagonal
precision matrix, which one pass forward and one backward solve exactly.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["path_eigenvalues", "solve_chain"]


def path_eigenvalues(n: int) -> NDArray[np.float64]:
    """Eigenvalues of the Laplacian of a path of n nodes."""
    return 2 - 2 * np.cos(np.pi * np.arange(n) / n)


def solve_chain(
    precision: NDArray[np.float64], shift: NDArray[np.float64], tie: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Posterior of all rows: their means, covariances and those of neighbours.

    Parameters
    ----------
    precision : ndarray of shape (T, F, F)
        Of each row given its neighbours, without the ties.
    shift : ndarray of shape (T, F)
        What the precision matrix of all rows maps their means to.
    tie : ndarray of shape (F,)
        Precision of the difference of two neighbours, by column.

    Returns
    -------
    mean : ndarray of shape (T, F)
    covariance : ndarray of shape (T, F, F)
    cross : ndarray of shape (T - 1, F)
        Covariance of each column in row t with itself in row t + 1.
    """
    n_rows, n_columns = shift.shape
    n_neighbours = np.full(n_rows, 2.0)
    n_neighbours[0] -= 1
    n_neighbours[-1] -= 1
    diagonal = np.arange(n_columns)
    covariance = precision.copy()
    covariance[:, diagonal, diagonal] += n_neighbours[:, np.newaxis] * tie
    mean = shift.copy()
    # Forward: covariance and mean of each row given the rows before it.
    for t in range(n_rows):
        if t:
            previous = covariance[t - 1]
            covariance[t] -= tie[:, np.newaxis] * previous * tie
            mean[t] += tie * mean[t - 1]
        inverse = np.linalg.inv(covariance[t])
        covariance[t] = (inverse + inverse.T) / 2
        mean[t] = covariance[t] @ mean[t]
    # Backward: given all rows.
    cross = np.empty((n_rows - 1, n_columns))
    for t in range(n_rows - 2, -1, -1):
        gain = covariance[t] * tie
        mean[t] += gain @ mean[t + 1]
        passed = gain @ covariance[t + 1]
        cross[t] = passed[diagonal, diagonal]
        covariance[t] += passed @ gain.T
    return mean, covariance, cross
