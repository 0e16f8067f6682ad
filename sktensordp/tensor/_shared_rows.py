"""Posterior of rows, given noisy weighted sums of their values.

A row x_j has values h . x_j + residual. Of these values, weighted sums b_j plus noise
are released.

If the regressors h and the weights q of residuals r are known, as in
b_j = sum q r + noise, this is Gaussian with mean A x_j, where A = sum q h^T, and with
covariance sigma^2 sum q q^T plus that of the noise. All rows share one Gaussian prior
of mean zero. Its covariance is learned from all rows: first the multiple of the
identity that makes the sums most likely, then by expectation maximisation.

If the regressors are not known, then b_j = sum w r h + noise, where the r are the
residuals around an earlier row s_j. The second moment M of the regressors, which all
rows share, and the sums c_j of the weights w are known approximately. So b_j is assumed
to be Gaussian with mean c_j M (x_j - s_j), and with the covariance of the noise and of
the residuals. If M is wrong for a row, so is the step from s_j to x_j, but once no step
is left, the row is right. Priors are Gaussian. The sums c_j are estimated from noisy
counts.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from ._average_row import average_row
from ._priors import LEAST_NOISE

# Rounds in which the prior covariance of rows is learned.
_ROUNDS = 30


def row_posterior(
    sums: NDArray[np.float64],
    design: NDArray[np.float64],
    weights: NDArray[np.float64],
    noise_variance: NDArray[np.float64],
    residual_variance: float,
) -> NDArray[np.float64]:
    """Posterior means of rows, given sums with known weights over known regressors.

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

    # Limits of the logarithm of the prior variance.
    least, most = -25.0, 5.0
    best = minimize_scalar(cost, bounds=(least, most), method="bounded").x
    # Twice the gain in log-likelihood decides whether rows are treated as non-zero.
    has_signal = cost(least) - cost(best) > 12.0
    variance = np.exp(best if has_signal else least)
    prior = variance * identity
    precision = np.einsum("iab,ia,iac->ibc", right, strength**2, right)
    shift = np.einsum("iab,ia->ib", right, strength * rotated)
    for _ in range(8 if has_signal else 1):
        posterior = np.linalg.inv(precision + np.linalg.inv(prior))
        rows = np.einsum("iab,ib->ia", posterior, shift)
        prior = (rows.T @ rows + posterior.sum(axis=0)) / len(rows)
        prior += 1e-9 * variance * identity
    means[seen] = rows
    return means


class Biases(NamedTuple):
    """Posterior of biases, given noisy sums.

    Attributes
    ----------
    means, variances : ndarray of shape (n,)
    centre : float
        Bias of the average entry, and of an unknown row.
    spread : float
        Prior variance of a row around its prior mean.
    """

    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    centre: float
    spread: float


def biases_from_sums(
    sums: NDArray[np.float64],
    weights: NDArray[np.float64],
    noise: NDArray[np.float64],
    explaining: NDArray[np.float64],
    of_prior: NDArray[np.float64],
    unknown: NDArray[np.float64],
) -> Biases:
    """Posterior of biases whose prior is learned from the sums of all rows.

    The prior mean is linear in explanatory variables, whose coefficients have a
    Gaussian prior. The coefficients, and the variance around the prior mean, follow
    from the marginal likelihood of the sums, whose noise is known. As far as a row
    counts as unknown, its prior mean is raised by the excess of the average entry's
    bias over its own prior mean.

    Parameters
    ----------
    sums : ndarray of shape (n,)
        b_j around zero, where h is one.
    weights : ndarray of shape (n,)
        c_j.
    noise : ndarray of shape (n,)
        Variance of b_j around c_j times the bias.
    explaining : ndarray of shape (n, K)
        Explanatory variables; the first column is ones.
    of_prior : ndarray of shape (n, K)
        The explanatory variables for a row's prior mean. As far as a row counts as
        unknown, undeclared ones are those of the average entry.
    unknown : ndarray of shape (n,)
        How far each row counts as unknown, from 0 to 1.
    """
    noise = np.maximum(noise, LEAST_NOISE)
    # Variances of biases that are tried. All are equally likely.
    tried = np.geomspace(0.0005, 0.25, 25)
    # Prior precision of the coefficients.
    ridge = 200.0
    logs, coefficients = np.empty(len(tried)), []
    for place, variance in enumerate(tried):
        total = noise + weights**2 * variance
        design = explaining * weights[:, np.newaxis]
        gram = design.T @ (design / total[:, np.newaxis])
        gram += ridge * np.eye(design.shape[1])
        found = np.linalg.solve(gram, design.T @ (sums / total))
        rest = sums - design @ found
        logs[place] = -(
            np.sum(rest**2 / total + np.log(total))
            + ridge * found @ found
            + np.linalg.slogdet(gram)[1]
        )
        coefficients.append(found)
    posterior = np.exp((logs - logs.max()) / 2)
    posterior /= posterior.sum()
    spread = float(np.exp(posterior @ np.log(tried)))
    mean = posterior @ np.array(coefficients)
    explained = of_prior @ mean
    variances = 1 / (1 / spread + weights**2 / noise)

    def given(prior_means: NDArray[np.float64]) -> NDArray[np.float64]:
        left = sums - weights * prior_means
        return prior_means + variances * weights * left / noise

    def average(of_rows: NDArray[np.float64]) -> float:
        return float(average_row(of_rows[:, np.newaxis], weights)[0])

    before, means = given(explaining @ mean), given(explained)
    means = given(explained + unknown * average(means - explained))
    # The mean over the entries is known well, even if single rows are not.
    means += average(before - means)
    return Biases(means, variances, average(means), spread)


def row_information(
    sums: NDArray[np.float64],
    weights: NDArray[np.float64],
    moment: NDArray[np.float64],
    noise: float,
    residual: NDArray[np.float64],
    start: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The information of noisy sums about rows.

    Parameters
    ----------
    sums : ndarray of shape (n, Q)
        b_j, of residuals around the rows in `start`.
    weights : ndarray of shape (n,)
        c_j.
    moment : ndarray of shape (Q, Q)
        M, positive definite.
    noise : float
        Variance of the noise in each sum.
    residual : ndarray of shape (n,)
        Variance of a residual times the sum of w^2 over the row's values. Multiplied by
        M, this is the covariance that the residuals add to b_j.
    start : ndarray of shape (n, Q)

    Returns
    -------
    precision : ndarray of shape (n, Q, Q)
    shift : ndarray of shape (n, Q)
        The precision times the rows that the sums suggest.
    """
    strengths, vectors = _spectrum(moment)
    total = np.maximum(noise + residual[:, np.newaxis] * strengths, LEAST_NOISE)
    gain = weights[:, np.newaxis] * strengths / total
    precision = np.einsum(
        "ae,je,be->jab", vectors, gain * weights[:, np.newaxis] * strengths, vectors
    )
    shift = (gain * (sums @ vectors)) @ vectors.T
    return precision, shift + np.einsum("jab,jb->ja", precision, start)


def inverse_of(moment: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of a moment, after small eigenvalues have been raised."""
    strengths, vectors = _spectrum(moment)
    return (vectors / strengths) @ vectors.T


def _spectrum(
    moment: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues of a moment, with small ones raised, and eigenvectors."""
    strengths, vectors = np.linalg.eigh(moment)
    return np.maximum(strengths, 1e-6 * max(strengths[-1], 1e-300)), vectors


def drifted(
    precision: NDArray[np.float64],
    shift: NDArray[np.float64],
    drift: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The information about rows after they have moved at random.

    This is the prediction step of Kalman's filter (1960), in terms of precisions.

    Parameters
    ----------
    precision : ndarray of shape (n, Q, Q)
    shift : ndarray of shape (n, Q)
        See `row_information`.
    drift : ndarray of shape (Q, Q) or (n, Q, Q)
        Covariance of the movement, which has mean zero.

    Returns
    -------
    precision : ndarray of shape (n, Q, Q)
    shift : ndarray of shape (n, Q)
    """
    kept = np.linalg.inv(np.eye(shift.shape[1]) + precision @ drift)
    precision = kept @ precision
    precision = (precision + precision.transpose(0, 2, 1)) / 2
    return precision, np.einsum("jab,jb->ja", kept, shift)


def rows_from_information(
    precision: NDArray[np.float64],
    shift: NDArray[np.float64],
    prior_mean: NDArray[np.float64],
    bias_variance: NDArray[np.float64],
    covariance: NDArray[np.float64],
    *,
    update_covariance: bool = True,
) -> tuple[NDArray[np.float64], NDArray[np.floating], NDArray[np.float64]]:
    """Posterior of rows that have factors and, optionally, a bias first.

    Parameters
    ----------
    precision : ndarray of shape (n, Q, Q)
    shift : ndarray of shape (n, Q)
        See `row_information`.
    prior_mean : ndarray of shape (n, Q)
    bias_variance : ndarray of shape (n, B)
        Prior variances of the bias; B is 0 or 1.
    covariance : ndarray of shape (Q - B, Q - B)
        Prior covariance of the factors; a starting value if it is learned.
    update_covariance : bool, default=True
        Whether to learn the covariance from all rows, by expectation maximisation.

    Returns
    -------
    means : ndarray of shape (n, Q)
    spread : ndarray of shape (n, Q, Q)
        Covariances.
    covariance : ndarray of shape (Q - B, Q - B)
        Prior covariance of the factors, learned or as given.
    """
    n, size = shift.shape
    first = bias_variance.shape[1]
    for rounds_left in range(_ROUNDS if update_covariance else 0, -1, -1):
        prior = np.zeros((n, size, size))
        prior[:, range(first), range(first)] = 1 / bias_variance
        prior[:, first:, first:] = np.linalg.inv(covariance)
        spread: NDArray[np.floating] = np.linalg.inv(precision + prior)
        pull = shift + np.einsum("jab,jb->ja", prior, prior_mean)
        means = np.einsum("jab,jb->ja", spread, pull)
        if not rounds_left or first == size:
            break
        deviation = (means - prior_mean)[:, first:]
        factor_spread = spread[:, first:, first:]
        share = 1 - np.einsum(
            "ab,jba->j", prior[0, first:, first:], factor_spread
        ) / len(covariance)
        # The share of a row's posterior precision that its sums contribute.
        share = np.maximum(share, 1e-12)
        covariance = np.einsum("j,ja,jb->ab", share, deviation, deviation)
        covariance += np.einsum("j,jab->ab", share, factor_spread)
        covariance /= share.sum()
        covariance += 1e-9 * np.trace(covariance) * np.eye(len(covariance))
    return means, spread, covariance


def expected_counts(noisy: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Posterior means of counts, given the counts plus Gaussian noise.

    The prior is the distribution that best fits all the noisy counts. Its support is a
    grid, finer for smaller counts, and expectation maximisation finds it (Kiefer and
    Wolfowitz 1956). Counts many times larger than the noise are returned unchanged.

    Parameters
    ----------
    noisy : ndarray of shape (n,)
        Noisy values of non-negative counts.
    noise : float
        Standard deviation of the noise.

    Returns
    -------
    counts : ndarray of shape (n,)
    """
    # Counts above this many standard deviations of the noise need no prior.
    counts, well_known = np.maximum(noisy, 0.0), 8.0
    uncertain = noisy < well_known * noise
    if not np.any(uncertain):
        return counts
    levels = np.append(0.0, np.geomspace(0.05, well_known, 40) * noise)
    distance = (noisy[uncertain, np.newaxis] - levels) / noise
    distance = distance**2 / 2
    likelihood = np.exp(distance.min(axis=1, keepdims=True) - distance)

    def posterior(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        joint = likelihood * weights
        return joint / joint.sum(axis=1, keepdims=True)

    weights = np.full(len(levels), 1 / len(levels))
    for _ in range(20):
        weights = posterior(weights).sum(axis=0) + 0.5 / len(levels)
        weights /= weights.sum()
    counts[uncertain] = posterior(weights) @ levels
    return counts
