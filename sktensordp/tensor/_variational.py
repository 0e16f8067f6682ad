"""Variational fit of a structured CP to observed entries.

Every free column has a Gaussian prior whose precision is learned from the values
(empirical Bayes), as is the variance of the observations around the model; the rows'
posteriors are Gaussian with full covariance over the columns of the row (mean-field
over rows, but for the modes in which neighbours are tied). What it learns is how much
to shrink, so that there is no regularisation to tune and a rank that is too large does
no harm.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

import numpy as np
from threadpoolctl import ThreadpoolController

from ._algebra import packed_squares
from ._chain import path_eigenvalues, solve_chain
from ._entries import SparseEntries
from ._structured_cp import StructuredCP, _columns

__all__ = ["continue_structured_cp", "fit_structured_cp"]

# How far rows start from their prior mean: in the first two modes, in the others.
_START_SCALES = 0.05, 0.2
# Variational sweeps before precisions are learned: from the first one on, columns that
# have hardly left the start would be taken for superfluous.
_FIXED_SWEEPS = 3
_PRECISION_LIMITS = (1e-6, 1e6)


def fit_structured_cp(
    entries,
    *,
    rank,
    biases,
    value_scale,
    noise_floor,
    max_iter,
    smooth_modes=(),
    features=None,
    n_point_sweeps=0,
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
    smooth_modes : collection of int, default=()
        Modes in which neighbouring rows are tied.
    features : ndarray of shape (shape[1] + 1, n_features), default=None
        Features of the rows of the second mode and, last, of an unknown one. Every row
        of the first mode has weights for them, with a mean that is learned.
    n_point_sweeps : int, default=0
        How many sweeps come first in which rows have no covariance and the prior is
        fixed: alternating least squares. They take half to a third of the time, but
        fit the noise, which later sweeps then have to undo. If there are no others,
        the rows have no covariances.
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
    # What rounding leaves of the values must not be fitted.
    floor = max(noise_floor / value_scale**2, 1e-9, 16 * np.finfo(entries.dtype).eps)
    fit = _Fit(
        entries, *_columns(len(shape), rank, biases, smooth_modes, features), features
    )
    fit.noise = max(entries.energy / entries.n_entries, floor)
    with fit.threads(n_threads) as pool:
        for n_iter in range(1, max_iter + 1):
            if n_iter == n_point_sweeps + 1:
                fit.moments = packed_squares(fit.means)
            cross = [None] * len(shape)
            for mode in range(len(shape)):
                error, cross[mode] = fit.update(mode, pool, n_threads)
            fit.learn_mean_weights()
            fit.noise = max(error / entries.n_entries, floor)
            if n_iter > n_point_sweeps + _FIXED_SWEEPS:
                for mode in range(len(shape)):
                    fit.learn_prior(mode, cross[mode])
            if on_sweep is not None and on_sweep(n_iter - 1):
                break
    return fit.model(value_scale), n_iter


def continue_structured_cp(model, entries, *, max_iter, n_threads=1):
    """Further sweeps over entries, with prior and noise as a model has learned them.

    Parameters
    ----------
    model : StructuredCP
        Where to start.
    entries : SparseEntries or DenseEntries
        The values without their offset.
    max_iter : int
        Number of sweeps over the modes.
    n_threads : int, default=1

    Returns
    -------
    model : StructuredCP
    """
    known = np.concatenate([np.arange(r.start, r.stop - 1) for r in model.rows])
    fit = _Fit(entries, model.held, model.prior_mean, model.precision, model.tie)
    fit.start(model.means[known], model.covariances[known], model.noise_variance)
    fit.sweep(max_iter, n_threads)
    return fit.model(1.0)


class _Fit:
    """The state of a fit: posterior, prior and noise."""

    def __init__(self, entries, held, prior_mean, precision, tie, features=None):
        self.entries = entries
        self.held, self.prior_mean = held, prior_mean
        self.precision, self.tie = precision, tie
        # The last columns are those of the features.
        self.n_features = 0 if features is None else features.shape[1]
        offsets = np.cumsum([0, *entries.shape]).tolist()
        self.rows = [slice(*ends) for ends in pairwise(offsets)]
        self.means = _start(entries.shape, held, prior_mean).astype(entries.dtype)
        n_columns = held.shape[1]
        if self.n_features:
            weights = slice(n_columns - self.n_features, n_columns)
            self.means[self.rows[0], weights] = 0.0
            self.means[self.rows[1], weights] = features[:-1]
        self._pairs = np.triu_indices(n_columns)
        self._diagonal = np.flatnonzero(np.equal(*self._pairs))
        self.covariances = np.zeros(
            (len(self.means), len(self._pairs[0])), entries.dtype
        )
        self.moments = None
        self.known = None
        self.noise = None

    def start(self, means, covariances, noise):
        """Start from a posterior; the noise stays as it is."""
        self.means, self.covariances, self.noise = means, covariances, noise
        self.moments = packed_squares(means) + covariances

    def sweep(self, max_iter, n_threads):
        """Sweeps over the modes that learn neither prior nor noise."""
        with self.threads(n_threads) as pool:
            for _ in range(max_iter):
                for mode in range(len(self.rows)):
                    self.update(mode, pool, n_threads)

    def threads(self, n_threads):
        """Threads of our own; the small products of a sparse fit get no others."""
        return _Threads(n_threads, isinstance(self.entries, SparseEntries))

    def update(self, mode, pool, n_threads):
        """Posterior of the rows of one mode, given the others.

        Returns
        -------
        error : float
            Expected squared error of all entries under the posterior.
        cross : ndarray of shape (n_rows - 1, n_columns) or None
            Where neighbours are tied, the covariances of neighbours.
        """
        from ._kernels import solve_rows

        means = self.means[self.rows[mode]]
        covariances = self.covariances[self.rows[mode]]
        moments = np.empty((0, 0), means.dtype)
        if self.moments is not None:
            moments = self.moments[self.rows[mode]]
        free = np.flatnonzero(~self.held[mode])
        if self.tie[mode].any():
            return self._update_chain(mode, free, means, covariances, moments)
        fitted = np.empty(len(means))

        def run(ends):
            part = slice(*ends)
            solve_rows(
                *self._sums(mode, part), free, self.prior_mean[mode],
                self.precision[mode], self.noise, means[part], covariances[part],
                moments[part], fitted[part],
            )  # fmt: skip

        parts = list(pairwise(self.entries.ranges(mode, n_threads).tolist()))
        list((map if len(parts) == 1 else pool.map)(run, parts))
        return self.entries.energy + fitted.sum(), None

    def _sums(self, mode, part):
        gram, projection = self.entries.sums(
            mode, part.start, part.stop, self.rows, self.means, self.moments
        )
        if self.known is not None:
            known_gram, known_projection = self.known[mode]
            gram += known_gram[part]
            projection += known_projection[part]
        return gram, projection

    def _update_chain(self, mode, free, means, covariances, moments):
        packed, projection = self._sums(mode, slice(0, len(means)))
        n_columns = means.shape[1]
        gram = np.empty((len(means), n_columns, n_columns))
        gram[:, *self._pairs] = gram[:, *self._pairs[::-1]] = packed
        own = self.precision[mode, free]
        precision = gram[:, free[:, np.newaxis], free] / self.noise + np.diag(own)
        # Columns that are held move over to the right-hand side.
        held = np.flatnonzero(self.held[mode])
        moved = gram[:, free[:, np.newaxis], held] * means[:, np.newaxis, held]
        rest = projection[:, free] - moved.sum(axis=2)
        shift = rest / self.noise + own * self.prior_mean[mode, free]
        mean, covariance, cross = solve_chain(precision, shift, self.tie[mode, free])
        means[:, free] = mean
        moment = means[:, :, np.newaxis] * means[:, np.newaxis, :].astype(float)
        if len(moments):
            spread = np.zeros_like(moment)
            spread[:, free[:, np.newaxis], free] = covariance
            moment += spread
            covariances[:] = spread[:, *self._pairs]
            moments[:] = moment[:, *self._pairs]
        error = np.sum(gram * moment) - 2 * np.sum(projection * means)
        neighbours = np.zeros((len(means) - 1, n_columns))
        neighbours[:, free] = cross
        return self.entries.energy + error, neighbours

    def learn_mean_weights(self):
        """Prior means of the weights of features, from the posterior of the rows."""
        if self.n_features:
            means = self.means[self.rows[0]][self.entries.observed(0)]
            means = means[:, -self.n_features :].mean(axis=0, dtype=float)
            self.prior_mean[0, -self.n_features :] = means

    def learn_prior(self, mode, cross):
        """Precisions of the prior of every free column, from the posterior of its rows.

        A precision is multiplied by the ratio of what the prior expects of a sum of
        squares to what the posterior does; for rows that are not tied this is the step
        of expectation maximisation, otherwise one that increases the same bound. Under
        heavy noise that step hardly moves, so biases take MacKay's fixed point
        instead: what the posterior leaves of the prior's expectation over the squares
        of the means (MacKay 1992, "Bayesian interpolation", eq. 4.9).
        """
        free, tied = ~self.held[mode], self.tie[mode].any()
        seen = slice(None) if tied else self.entries.observed(mode)
        if len(self.means[self.rows[mode]][seen]) < 2:
            return  # A single row tells nothing of how rows differ.
        means = self.means[self.rows[mode]][seen].astype(float)
        variances = self.covariances[self.rows[mode]][seen][:, self._diagonal]
        variances = variances.astype(float)
        deviation = ((means - self.prior_mean[mode]) ** 2).sum(axis=0)
        precision, tie = self.precision[mode], self.tie[mode]
        strength = np.outer(np.zeros(len(means)), tie) + precision
        if tied:
            path = path_eigenvalues(len(means))[:, np.newaxis]
            strength += path * tie
            spread = variances[1:] + variances[:-1] - 2 * cross
            expected = (path / strength).sum(axis=0)
            change = (np.diff(means, axis=0) ** 2).sum(axis=0)
            learned = self._ratio(tie, expected, change, spread.sum(axis=0))
            self.tie[mode] = np.where(free, learned, 0.0)
        expected = (1 / strength).sum(axis=0)
        learned = self._ratio(precision, expected, deviation, variances.sum(axis=0))
        self.precision[mode] = np.where(free, learned, precision)

    def _ratio(self, precision, expected, squares, variances):
        is_bias = (~self.held).sum(axis=0) == 1
        least = 1e-9 * expected
        learned = precision * np.where(
            is_bias,
            np.maximum(expected - variances, least) / np.maximum(squares, 1e-300),
            expected / np.maximum(squares + variances, 1e-300),
        )
        return np.clip(learned, *_PRECISION_LIMITS)

    def model(self, scale):
        """The fitted model, its values multiplied by `scale`."""
        shape, held = self.entries.shape, self.held
        # One mode of every column brings the values back to their scale.
        factor = np.ones(held.shape)
        factor[np.argmin(held, axis=0), np.arange(held.shape[1])] = scale
        model = StructuredCP(
            shape, held,
            np.empty((sum(shape) + len(shape), held.shape[1]), self.means.dtype),
            np.empty((sum(shape) + len(shape), len(self._pairs[0])), self.means.dtype),
            self.prior_mean * factor, self.precision / factor**2,
            self.tie / factor**2, self.noise * scale**2,
        )  # fmt: skip
        for mode, (own, r) in enumerate(zip(self.rows, model.rows, strict=True)):
            means, covariances = model.means[r], model.covariances[r]
            means[:-1], means[-1] = self.means[own], self.prior_mean[mode]
            covariances[:-1], covariances[-1] = self.covariances[own], 0.0
            variance = np.where(held[mode], 0.0, self._prior_variance(mode))
            covariances[-1, self._diagonal] = variance
            means *= factor[mode].astype(means.dtype)
            covariances *= packed_squares(factor[mode : mode + 1]).astype(means.dtype)
        return model

    def _prior_variance(self, mode):
        size = self.entries.shape[mode]
        path = path_eigenvalues(size)[:, np.newaxis]
        return (1 / (self.precision[mode] + path * self.tie[mode])).mean(axis=0)


@lru_cache(maxsize=1)
def _blas():
    """The libraries of linear algebra, looked for once."""
    return ThreadpoolController()


class _Threads:
    """A pool of threads, and, within it, BLAS on one thread where that is asked for."""

    def __init__(self, n_threads, limit_blas):
        self._pool = ThreadPoolExecutor(n_threads)
        self._limit = 1 if limit_blas else None

    def __enter__(self):
        self._limits = _blas().limit(limits=self._limit, user_api="blas")
        return self._pool

    def __exit__(self, *_):
        self._pool.shutdown()
        self._limits.restore_original_limits()


def _start(shape, held, prior_mean):
    """Fixed starting point: the fit is a function of the values alone."""
    start = np.random.default_rng(0)
    means = []
    for mode, size in enumerate(shape):
        drawn = start.standard_normal((size, held.shape[1]))
        drawn = prior_mean[mode] + _START_SCALES[mode > 1] * drawn
        means.append(np.where(held[mode], 1.0, drawn))
    return np.concatenate(means)
