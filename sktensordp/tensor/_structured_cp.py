"""Variational fit of a structured CP to observed entries.

A structured CP is a CP whose columns are held at one in some modes. A column that
is free in one mode alone is a bias of that mode, one that is free in all modes is a
full CP term; so one row solver serves biases and factors. Every free column has a
Gaussian prior whose precision is learned from the values (empirical Bayes), as is
the variance of the observations around the model; the rows' posteriors are Gaussian
with full covariance over the columns of the row (mean-field over rows). What it
learns is how much to shrink, so that there is no regularisation to tune and a rank
that is too large does no harm.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

__all__ = ["StructuredCP", "fit_structured_cp", "max_cp_rank"]

# Where the learned precisions start, on the scale of half the range of the values.
_BIAS_PRECISION = 20.0
_FACTOR_PRECISION = 1.0
_START_SCALE = 0.3
_WARM_SWEEPS = 10
_PRECISION_LIMITS = (1e-6, 1e6)


@dataclass(frozen=True)
class StructuredCP:
    """A fitted structured CP.

    Attributes
    ----------
    factors : list of ndarray of shape (size of the mode, n_columns)
        Posterior means; columns that are held in a mode are one there.
    prior_means : ndarray of shape (n_modes, n_columns)
        What a row without any observation is.
    noise_variance : float
        Variance of the observations around the model, as learned.
    """

    factors: list
    prior_means: np.ndarray
    noise_variance: float

    def predict(self, coordinates):
        """Value of the model at coordinates; -1 stands for an unknown row.

        Parameters
        ----------
        coordinates : ndarray of shape (n, n_modes), int

        Returns
        -------
        values : ndarray of shape (n,)
        """
        product = np.ones((len(coordinates), self.prior_means.shape[1]))
        for mode, factor in enumerate(self.factors):
            rows = coordinates[:, mode]
            product *= np.where(
                rows[:, np.newaxis] < 0, self.prior_means[mode], factor[rows]
            )
        return product.sum(axis=1)


def max_cp_rank(shape):
    """Largest rank of a CP that can be told from a smaller one.

    Every tensor of this shape has a CP of as many terms as the product of all
    sizes but the largest.

    Parameters
    ----------
    shape : tuple of int

    Returns
    -------
    rank : int
    """
    return math.prod(shape) // max(shape)


def fit_structured_cp(
    entries,
    *,
    rank,
    biases,
    value_scale,
    noise_floor,
    max_iter,
    n_threads=1,
    on_sweep=None,
):
    """Fit biases and CP terms to the observed entries of a tensor.

    Parameters
    ----------
    entries : SparseEntries or DenseEntries
        The values without their offset, divided by `value_scale`.
    rank : int
        Number of full CP terms; 0 for biases alone.
    biases : bool
        Whether every mode has a bias column.
    value_scale : float
        Typical size of the values (half of their range); the priors are stated on
        this scale until they are learned.
    noise_floor : float
        Smallest variance of the observations around the model.
    max_iter : int
        Number of sweeps over the modes.
    n_threads : int, default=1
        Threads that share the rows of a sweep.
    on_sweep : callable, default=None
        Called after every sweep with its number; true stops the fit.

    Returns
    -------
    model : StructuredCP
    n_iter : int
        Sweeps that were run.
    """
    shape = entries.shape
    offsets = np.concatenate([[0], np.cumsum(shape)])
    rows = [slice(*ends) for ends in pairwise(offsets)]
    floor = max(noise_floor / value_scale**2, 1e-9)
    held, prior_mean, prior_precision = _columns(len(shape), rank, biases)
    means, moments = _start(shape, held, prior_mean)
    noise = max(entries.mean_square, floor)
    n_columns = held.shape[1]
    with ThreadPoolExecutor(n_threads) as pool:
        for n_iter in range(1, max_iter + 1):
            for mode in range(len(shape)):
                error = entries.update(
                    mode, rows, means, moments, np.flatnonzero(~held[mode]),
                    prior_mean[mode], prior_precision[mode], noise, pool, n_threads,
                )  # fmt: skip
            noise = max(error / entries.n_entries, floor)
            if n_iter > _WARM_SWEEPS:
                for mode, r in enumerate(rows):
                    seen = entries.observed(mode)
                    _learn_prior(
                        means[r][seen], moments[r][seen],
                        held, mode, prior_mean[mode], prior_precision[mode],
                    )  # fmt: skip
            if on_sweep is not None and on_sweep(n_iter - 1):
                break
    factors = [means[r].copy() for r in rows]
    # Bring the factors back to the scale of the values: one mode of every column.
    for q in range(n_columns):
        mode = int(np.flatnonzero(~held[:, q])[0])
        factors[mode][:, q] *= value_scale
        prior_mean[mode, q] *= value_scale
    return StructuredCP(factors, prior_mean, noise * value_scale**2), n_iter


def _columns(n_modes, rank, biases):
    """Which columns are held at one in which mode, and the priors to start with."""
    n_biases = n_modes if biases else 0
    held = np.zeros((n_modes, n_biases + rank), dtype=bool)
    held[:, :n_biases] = ~np.eye(n_modes, dtype=bool)[:, :n_biases]
    prior_mean = np.where(held, 1.0, 0.0)
    # The third and later modes modulate the product of the first two: a zero mean
    # there would shrink the whole term (soundness of the fit, not of the privacy).
    prior_mean[2:, n_biases:] = 1.0
    prior_precision = np.full(held.shape, _FACTOR_PRECISION)
    prior_precision[:, :n_biases] = _BIAS_PRECISION
    return held, prior_mean, prior_precision


def _start(shape, held, prior_mean):
    """Fixed starting point: the fit is a function of the values alone."""
    start = np.random.default_rng(0)
    n_columns = held.shape[1]
    means = np.empty((sum(shape), n_columns))
    row = 0
    for mode, size in enumerate(shape):
        block = prior_mean[mode] + _START_SCALE * start.standard_normal(
            (size, n_columns)
        )
        means[row : row + size] = np.where(held[mode], 1.0, block)
        row += size
    moments = means[:, :, np.newaxis] * means[:, np.newaxis, :]
    return means, moments


def _learn_prior(means, moments, held, mode, prior_mean, prior_precision):
    """Precision of the prior of every free column, from the posterior of its rows.

    Terms take the step of expectation maximisation, one over the mean squared
    deviation. Under heavy noise that step hardly moves, so biases take MacKay's
    fixed point instead: the effective number of rows over the sum of the squared
    deviations of their means (MacKay 1992, "Bayesian interpolation", eq. 4.9).
    """
    is_bias = (~held).sum(axis=0) == 1
    variance = (np.einsum("rqq->rq", moments) - means**2).mean(axis=0)
    deviation = ((means - prior_mean) ** 2).mean(axis=0)
    effective = np.maximum(1 - prior_precision * variance, 1e-9)
    learned = np.where(
        is_bias,
        effective / np.maximum(deviation, 1e-300),
        1 / np.maximum(deviation + variance, 1e-300),
    )
    free = ~held[mode]
    prior_precision[free] = np.clip(learned, *_PRECISION_LIMITS)[free]
