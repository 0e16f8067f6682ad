"""Rows of one mode from noisy weighted sums of the values that each of them has.

A row u with values r_e = h_e . u + residual has sums b = sum_e q_e r_e + noise, with
weights q_e that are known. So b is Gaussian with mean A u, A = sum_e q_e h_e^T, and
covariance sigma^2 sum_e q_e q_e^T + that of the noise. The rows have one Gaussian prior
with mean zero, whose covariance is learned from all of them: first a multiple of the
identity, under which the sums are most likely, then by expectation maximisation.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

__all__ = ["row_posterior"]

_LOG_LIMITS = (-25.0, 5.0)
_ROUNDS = 8
# Twice the gain in log-likelihood from which on rows are taken not to be all zero.
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
        Sum of q q^T; zero in rows without values.
    noise_variance : ndarray of shape (n_rows,)
        Of every sum of a row.
    residual_variance : float
        sigma^2.

    Returns
    -------
    means : ndarray of shape (n_rows, R)
        Zero in rows without values, and next to it in all if the sums may well be
        noise; what is left of them then still has a direction.
    """
    size = sums.shape[1]
    means = np.zeros_like(sums)
    seen = np.flatnonzero(np.einsum("iaa->i", weights) > 0)
    if not seen.size:
        return means
    identity = np.eye(size)
    # On the scale of each row, so that what is added for stability is small.
    unit = np.sqrt(np.einsum("iaa->i", weights[seen]) / size)[:, np.newaxis]
    covariance = residual_variance * weights[seen] / unit[:, np.newaxis] ** 2
    own = noise_variance[seen, np.newaxis] / unit**2 + 1e-9 * residual_variance
    covariance += own[:, np.newaxis] * identity
    design = design[seen] / unit[:, np.newaxis]
    factor = np.linalg.cholesky(covariance)
    whitened = np.linalg.solve(factor, design)
    shown = np.linalg.solve(factor, (sums[seen] / unit)[:, :, np.newaxis])
    left, strength, right = np.linalg.svd(whitened)
    shown = np.einsum("iab,ia->ib", left, shown[:, :, 0])

    def cost(log_variance: float) -> float:
        variance = 1 + np.exp(log_variance) * strength**2
        return np.sum(np.log(variance) + shown**2 / variance)

    best = minimize_scalar(cost, bounds=_LOG_LIMITS, method="bounded").x
    is_seen = cost(_LOG_LIMITS[0]) - cost(best) > _EVIDENCE
    variance = np.exp(best if is_seen else _LOG_LIMITS[0])
    prior = variance * identity
    precision = np.einsum("iab,ia,iac->ibc", right, strength**2, right)
    shift = np.einsum("iab,ia->ib", right, strength * shown)
    for _ in range(_ROUNDS if is_seen else 1):
        posterior = np.linalg.inv(precision + np.linalg.inv(prior))
        found = np.einsum("iab,ib->ia", posterior, shift)
        prior = (found.T @ found + posterior.sum(axis=0)) / len(found)
        prior += 1e-9 * variance * identity
    means[seen] = found
    return means
