"""Rows that are tied to their neighbours, such as the rows of time bins."""

import numpy as np
from numpy.typing import NDArray


def path_eigenvalues(n: int) -> NDArray[np.float64]:
    """Eigenvalues of the Laplacian of a path with n nodes."""
    return 2 - 2 * np.cos(np.pi * np.arange(n) / n)


def solve_chain(
    precision: NDArray[np.float64], shift: NDArray[np.float64], tie: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Posterior means and covariances of all rows, and covariances of neighbours.

    The rows are those of a smooth mode, such as bins of time. The prior of column q
    over the rows 0, ..., T - 1 is a Gaussian Markov random field with mean mu_q and
    precision matrix lambda_q I + tau_q L, where L is the Laplacian of a path: lambda_q
    pulls every row to the mean, and tau_q pulls neighbours together. Given the sums
    over the entries, the posterior of all rows is Gaussian, and its precision matrix is
    block tridiagonal. One pass forward and one pass backward solve it exactly.

    Parameters
    ----------
    precision : ndarray of shape (T, F, F)
        Precision of each row, without the ties to its neighbours.
    shift : ndarray of shape (T, F)
        Precision matrix of all rows times their means.
    tie : ndarray of shape (F,)
        Precision of the difference of two neighbours in each column.

    Returns
    -------
    mean : ndarray of shape (T, F)
    covariance : ndarray of shape (T, F, F)
    cross : ndarray of shape (T - 1, F)
        Covariance of each column's values in the rows t and t + 1.
    """
    n_rows, n_columns = shift.shape
    n_neighbours = np.full(n_rows, 2.0)
    n_neighbours[0] -= 1
    n_neighbours[-1] -= 1
    diagonal = np.arange(n_columns)
    covariance = precision.copy()
    covariance[:, diagonal, diagonal] += n_neighbours[:, np.newaxis] * tie
    mean = shift.copy()
    # Forward: each row given the rows before it.
    for t in range(n_rows):
        if t:
            previous = covariance[t - 1]
            covariance[t] -= tie[:, np.newaxis] * previous * tie
            mean[t] += tie * mean[t - 1]
        inverse = np.linalg.inv(covariance[t])
        covariance[t] = (inverse + inverse.T) / 2
        mean[t] = covariance[t] @ mean[t]
    # Backward: each row given all rows.
    cross = np.empty((n_rows - 1, n_columns))
    for t in range(n_rows - 2, -1, -1):
        gain = covariance[t] * tie
        mean[t] += gain @ mean[t + 1]
        covariance_with_next = gain @ covariance[t + 1]
        cross[t] = covariance_with_next[diagonal, diagonal]
        covariance[t] += covariance_with_next @ gain.T
    return mean, covariance, cross
