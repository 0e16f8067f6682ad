"""Rows of a mode from noisy weighted sums, where what they are sums of is not known.

A row j with values r = h . x_j + residual has sums b_j = sum w r h + noise. Of the
regressors h only a second moment M, the same for all rows, and the sums c_j of the
weights w are known, about: b_j is Gaussian with mean c_j M x_j, and has the covariance
of the noise and of the residuals. Priors are Gaussian.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["biases_from_sums", "rows_from_sums"]

_LEAST_EIGENVALUE = 1e-6
# The variance of biases is learned as if so many rows were known to have this one.
_USUAL_ROWS, _USUAL_VARIANCE = 60, 0.05
_ROUNDS = 30
# Where there is no noise, and nothing to be fitted either.
_LEAST_NOISE = 1e-12
# Precisions of the prior of the coefficients of what explains biases: of one, and of
# anything else, which has unit variance.
_MEAN, _COEFFICIENTS = 4.0, 300.0


def biases_from_sums(
    sums: NDArray[np.float64],
    weights: NDArray[np.float64],
    noise: NDArray[np.float64],
    explaining: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Rows that are numbers, with a prior mean that is linear in what explains them.

    Parameters
    ----------
    sums : ndarray of shape (n,)
        b_j; h is one.
    weights : ndarray of shape (n,)
        c_j.
    noise : ndarray of shape (n,)
        Variance of b_j.
    explaining : ndarray of shape (n, K)
        First, ones; the others have about unit variance.

    Returns
    -------
    means, variances : ndarray of shape (n,)
        Of the posterior.
    centre : float
        What is expected of a row of which nothing is known.
    """
    precision = np.full(explaining.shape[1], _COEFFICIENTS)
    precision[0] = _MEAN
    variance = _USUAL_VARIANCE
    noise = np.maximum(noise, _LEAST_NOISE)
    for _ in range(_ROUNDS):
        total = noise + weights**2 * variance
        design = explaining * weights[:, np.newaxis]
        gram = design.T @ (design / total[:, np.newaxis])
        gram += np.diag(precision)
        coefficients = np.linalg.solve(gram, design.T @ (sums / total))
        prior = explaining @ coefficients
        known = weights**2 / noise
        spread = 1 / (1 / variance + known)
        means = prior + spread * weights * (sums - weights * prior) / noise
        # As far as a row's own sums say something of it.
        share = known * spread
        squares = (means - prior) ** 2 + spread
        learned = share @ squares + _USUAL_ROWS * _USUAL_VARIANCE
        variance = float(learned / (share.sum() + _USUAL_ROWS))
    return means, spread, float(coefficients[0])


def rows_from_sums(
    sums: NDArray[np.float64],
    weights: NDArray[np.float64],
    moment: NDArray[np.float64],
    noise: float,
    residual: NDArray[np.float64],
    prior_mean: NDArray[np.float64],
    own_variance: NDArray[np.float64],
    covariance: NDArray[np.float64],
    *,
    learn: bool = True,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Posterior of rows with a bias, if they have one, and factors.

    Parameters
    ----------
    sums : ndarray of shape (n, Q)
        b_j.
    weights : ndarray of shape (n,)
        c_j.
    moment : ndarray of shape (Q, Q)
        M, positive definite.
    noise : float
        Variance of the noise of a sum.
    residual : ndarray of shape (n,)
        Variance of a value around its row times the sum of w^2, in units of M.
    prior_mean : ndarray of shape (Q,)
    own_variance : ndarray of shape (n, B)
        Prior variances of the first B columns: none, or one.
    covariance : ndarray of shape (Q - B, Q - B)
        Prior covariance of the other columns, to begin with; learned from all rows.
    learn : bool, default=True
        Whether to learn the covariance, by expectation maximisation.

    Returns
    -------
    means : ndarray of shape (n, Q)
    spread : ndarray of shape (n, Q, Q)
        Posterior covariances.
    covariance : ndarray of shape (Q - B, Q - B)
    """
    n, size = sums.shape
    first = own_variance.shape[1]
    strengths, vectors = np.linalg.eigh(moment)
    strengths = np.maximum(strengths, _LEAST_EIGENVALUE * max(strengths[-1], 1e-300))
    total = np.maximum(noise + residual[:, np.newaxis] * strengths, _LEAST_NOISE)
    gain = weights[:, np.newaxis] * strengths / total
    known = np.einsum(
        "ae,je,be->jab", vectors, gain * weights[:, np.newaxis] * strengths, vectors
    )
    shift = (gain * (sums @ vectors)) @ vectors.T
    # Of every column, how much is known of it.
    for left in range(_ROUNDS if learn else 0, -1, -1):
        prior = np.zeros((n, size, size))
        prior[:, range(first), range(first)] = 1 / own_variance
        prior[:, first:, first:] = np.linalg.inv(covariance)
        spread = np.linalg.inv(known + prior)
        pull = shift + prior @ prior_mean
        means = np.einsum("jab,jb->ja", spread, pull)
        if not left or first == size:
            break
        deviation = (means - prior_mean)[:, first:]
        own = spread[:, first:, first:]
        share = 1 - np.einsum("ab,jba->j", prior[0, first:, first:], own) / len(
            covariance
        )
        share = np.maximum(share, 1e-12)
        covariance = np.einsum("j,ja,jb->ab", share, deviation, deviation)
        covariance += np.einsum("j,jab->ab", share, own)
        covariance /= share.sum()
        covariance += 1e-9 * np.trace(covariance) * np.eye(len(covariance))
    return means, spread, covariance
