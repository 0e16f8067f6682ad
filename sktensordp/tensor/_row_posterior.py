"""Posterior of the rows of one mode, given noisy weighted sums of their values.

A row u has values r_e = h_e . u + residual, and its sums are b = sum_e q_e r_e + noise
with known weights q_e. So b is Gaussian with mean A u, where A = sum_e q_e h_e^T, and
with covariance sigma^2 sum_e q_e q_e^T plus that of the noise. All rows share one
Gaussian prior of mean zero. Its covariance is learned from all rows: first the multiple
of the identity that makes the sums most likely, then by expectation maximisation.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

_LOG_LIMITS = (-25.0, 5.0)
_ROUNDS = 8
# Rows are taken for non-zero if twice the gain in log-likelihood exceeds this.
_EVIDENCE = 12.0


def row_posterior(
    sums: NDArray[np.float64],
    design: NDArray[np.float64],
    weights: NDArray[np.float64],
    noise_variance: NDArray[np.float64],
    residual_variance: float,
) -> NDArray[np.float64]:
    """Posterior means of the rows.

    Parameters
    ----------
    sums : ndarray of shape (n_rows, R)
        b.
    design : ndarray of shape (n_rows, R, R)
        A.
    weights : ndarray of shape (n_rows, R, R)
        Sum of q q^T; zero for rows without values.
    noise_variance : ndarray of shape (n_rows,)
        Variance of the noise in each sum of a row.
    residual_variance : float
        sigma^2, the variance of a residual.

    Returns
    -------
    means : ndarray of shape (n_rows, R)
        Zero for rows without values. If the sums may well be noise alone, all rows are
        almost zero, but keep their directions.
    """
    size = sums.shape[1]
    means = np.zeros_like(sums)
    seen = np.flatnonzero(np.einsum("iaa->i", weights) > 0)
    if not seen.size:
        return means
    identity = np.eye(size)
    # Scale every row, so that the constant added for stability is relatively small.
    scale = np.sqrt(np.einsum("iaa->i", weights[seen]) / size)[:, np.newaxis]
    covariance = residual_variance * weights[seen] / scale[:, np.newaxis] ** 2
    added = noise_variance[seen, np.newaxis] / scale**2 + 1e-9 * residual_variance
    covariance += added[:, np.newaxis] * identity
    design = design[seen] / scale[:, np.newaxis]
    factor = np.linalg.cholesky(covariance)
    whitened = np.linalg.solve(factor, design)
    rotated = np.linalg.solve(factor, (sums[seen] / scale)[:, :, np.newaxis])
    left, strength, right = np.linalg.svd(whitened)
    rotated = np.einsum("iab,ia->ib", left, rotated[:, :, 0])

    def cost(log_variance: float) -> float:
        variance = 1 + np.exp(log_variance) * strength**2
        return np.sum(np.log(variance) + rotated**2 / variance)

    best = minimize_scalar(cost, bounds=_LOG_LIMITS, method="bounded").x
    has_signal = cost(_LOG_LIMITS[0]) - cost(best) > _EVIDENCE
    variance = np.exp(best if has_signal else _LOG_LIMITS[0])
    prior = variance * identity
    precision = np.einsum("iab,ia,iac->ibc", right, strength**2, right)
    shift = np.einsum("iab,ia->ib", right, strength * rotated)
    for _ in range(_ROUNDS if has_signal else 1):
        posterior = np.linalg.inv(precision + np.linalg.inv(prior))
        rows = np.einsum("iab,ib->ia", posterior, shift)
        prior = (rows.T @ rows + posterior.sum(axis=0)) / len(rows)
        prior += 1e-9 * variance * identity
    means[seen] = rows
    return means
