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

from ._coordinates import group_by_index

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
    coordinates,
    values,
    shape,
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
    coordinates : ndarray of shape (n, n_modes), int
        Where the values were observed.
    values : ndarray of shape (n,), float
        The values, without their offset.
    shape : tuple of int
        Sizes of the modes.
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
    values = values / value_scale
    floor = max(noise_floor / value_scale**2, 1e-9)
    held, prior_mean, prior_precision = _columns(len(shape), rank, biases)
    modes = _Modes(coordinates, values, shape)
    means, moments = _start(shape, held, prior_mean)
    noise = max(float(np.mean(values**2)), floor)
    n_columns = held.shape[1]
    with ThreadPoolExecutor(n_threads) as pool:
        for n_iter in range(1, max_iter + 1):
            for mode in range(len(shape)):
                error = _update_mode(
                    pool, n_threads, modes, mode, means, moments,
                    held, prior_mean, prior_precision, noise,
                )  # fmt: skip
            noise = max(error / len(values), floor)
            if n_iter > _WARM_SWEEPS:
                _learn_priors(modes, means, moments, held, prior_mean, prior_precision)
            if on_sweep is not None and on_sweep(n_iter - 1):
                break
    factors = [means[rows].copy() for rows in modes.rows]
    # Bring the factors back to the scale of the values: one mode of every column.
    for q in range(n_columns):
        mode = int(np.flatnonzero(~held[:, q])[0])
        factors[mode][:, q] *= value_scale
        prior_mean[mode, q] *= value_scale
    return StructuredCP(factors, prior_mean, noise * value_scale**2), n_iter


class _Modes:
    """The entries grouped by their row, once for every mode."""

    def __init__(self, coordinates, values, shape):
        offsets = np.concatenate([[0], np.cumsum(shape)])
        shifted = coordinates + offsets[:-1]
        self.rows = [slice(a, b) for a, b in pairwise(offsets)]
        self.starts, self.others, self.values = [], [], []
        for mode, size in enumerate(shape):
            order, starts = group_by_index(coordinates[:, mode], size)
            self.starts.append(starts)
            self.others.append(np.delete(shifted, mode, axis=1)[order])
            self.values.append(values[order])

    def ranges(self, mode, n):
        """Ranges of rows with about equal numbers of entries."""
        starts = self.starts[mode]
        work = starts + np.arange(len(starts))
        cuts = np.searchsorted(work, np.linspace(0, work[-1], n + 1)[1:-1])
        return list(zip([0, *cuts], [*cuts, len(starts) - 1], strict=True))


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


def _update_mode(
    pool, n_threads, modes, mode, means, moments, held, prior_mean, precision, noise
):
    from ._kernels import update_rows

    rows = modes.rows[mode]
    free = np.flatnonzero(~held[mode])
    squared_error = np.empty(rows.stop - rows.start)

    def run(bounds):
        update_rows(
            *bounds, modes.starts[mode], modes.others[mode], modes.values[mode],
            means, moments, means[rows], moments[rows], free,
            prior_mean[mode], precision[mode], noise, squared_error,
        )  # fmt: skip

    list(pool.map(run, modes.ranges(mode, n_threads)))
    return squared_error.sum()


def _learn_priors(modes, means, moments, held, prior_mean, prior_precision):
    """Precision of the prior of every free column, from the posterior of its rows.

    Terms take the step of expectation maximisation, one over the mean squared
    deviation. Under heavy noise that step hardly moves, so biases take MacKay's
    fixed point instead: the effective number of rows over the sum of the squared
    deviations of their means (MacKay 1992, "Bayesian interpolation", eq. 4.9).
    """
    is_bias = (~held).sum(axis=0) == 1
    for mode, rows in enumerate(modes.rows):
        observed = np.diff(modes.starts[mode]) > 0
        mean = means[rows][observed]
        variance = np.einsum("rqq->rq", moments[rows])[observed] - mean**2
        deviation = ((mean - prior_mean[mode]) ** 2).mean(axis=0)
        variance = variance.mean(axis=0)
        effective = np.maximum(1 - prior_precision[mode] * variance, 1e-9)
        learned = np.where(
            is_bias,
            effective / np.maximum(deviation, 1e-300),
            1 / np.maximum(deviation + variance, 1e-300),
        )
        free = ~held[mode]
        prior_precision[mode, free] = np.clip(learned, *_PRECISION_LIMITS)[free]
