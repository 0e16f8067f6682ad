"""The variational fit of a CP, mode by mode.

A sweep solves for the rows of one mode after the other, given the rows of all other
modes, from sums over the entries. The precisions of the prior are learned from the
posterior of the rows. In a fit of a Tucker decomposition, which is a subclass, a core
multiplies the rows of different modes.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ._algebra import cp_to_dense, diagonal, packed_squares
from ._blas import one_blas_thread
from ._chain import path_eigenvalues, solve_chain
from ._grouped import DenseEntries, GroupedEntries, SparseEntries
from ._likelihood import TableLikelihood
from ._priors import BIAS_PRECISION, LARGEST_PRECISION, SMALLEST_PRECISION

# One array for each mode: a list of arrays, or the rows of one array.
ByMode: TypeAlias = Any
# Standard deviations around the prior means in the first two modes and in the others,
# for every start. Small ones suit noise-free values, where biases and weights of
# features should be found first. Under heavy noise, a fit shrinks small terms to zero
# if the third mode changes their sign; it needs a large start.
_START_SCALES = (0.05, 0.2), (0.5, 1.0), (0.05, 0.2), (0.05, 0.2)
N_STARTS = len(_START_SCALES)
# Sweeps before the fit learns precisions. If it began with the first sweep, it would
# take columns that have hardly left the start for superfluous.
SWEEPS_BEFORE_LEARNING = 3
# If values were randomised by a table, they are replaced by observations around the
# predictions after this many sweeps of `learn`; after each one, they change less.
_OBSERVED_AFTER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
# Sweeps before the fit learns noise variances of rows, if the residual is at least this
# share of the noise. The average counts as much as this number of entries of a row, in
# the weights of the fit and, at least, in the variances that the model states. The
# residual of a row is at least the last share of the average.
_SWEEPS_BEFORE_ROW_NOISE, _LEAST_RESIDUAL = 5, 1e-3
_FIT_STRENGTH, _LEAST_NOISE_STRENGTH, _LEAST_NOISE_SHARE = 100.0, 3.0, 0.05


class RowWeighting(NamedTuple):
    """A rule by which weights of rows follow from their squared errors.

    Attributes
    ----------
    noise : float
        Variance of the entries, averaged over all entries.
    least : float
        Smallest variance of a row's entries.
    strength : float
        Number of entries that the average counts for.
    """

    noise: float
    least: float
    strength: float

    def weights(
        self, errors: NDArray[np.float64], counts: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Weights of rows, from their squared errors and numbers of entries."""
        excess = errors - counts * self.noise
        variances = self.noise + excess / (counts + self.strength)
        return self.noise / np.maximum(variances, self.least)


class RowFit:
    """The state of a CP fit: entries, posterior, prior and noise.

    The rows of all modes are stacked, one mode after the other; ``rows[mode]`` is the
    slice of a mode. A subclass may arrange the posterior in another way.

    Parameters
    ----------
    entries : SparseEntries or DenseEntries
    fixed, prior_mean, precision, tie : array-like by mode of ndarray of (n_columns,)
        See `StructuredCP`.
    n_features : int, default=0
        Number of columns, the last ones, that are features in the second mode and
        their weights in the first. The prior means of the weights are learned.

    Attributes
    ----------
    noise : float
        Variance of the entries around the model, averaged over all entries.
    row_weights : ndarray of shape (shape[0],) or None
        For every row of the first mode, `noise` over the variance of its entries around
        the model; None if these are equal.
    stated_weights : ndarray of shape (shape[0],) or None
        The same from variances that are shrunk less, for the model.
    row_errors : ndarray of shape (shape[0],)
        Expected squared error of the entries of every row of the first mode, under the
        posterior when these rows were updated last.
    learns_row_noise : bool
        Whether `learn` learns the weights of rows.
    independent_columns : bool
        Whether the sums for one mode take the columns of a row of another mode as
        independent, given the entries. They then read its means and variances, instead
        of its second moments, and are several times faster.
    prunes_terms : bool
        Whether precisions of full terms are learned by MacKay's fixed point, which
        switches off those without evidence within a few sweeps; see `learn_prior`.
    terms_since : float
        The sweep after which the latest terms started. Their precisions, and those of
        the terms before, are learned from the fourth sweep after it.
    likelihood : TableLikelihood or None
        What the values say about their means, if a table has randomised them. `learn`
        then replaces them; see there.
    first_sweep : int
        The sweep from which those are counted after which values are replaced, and
        weights of rows are learned.
    known_noise : float
        Known part of `noise`, once values have been replaced.
    most_noise : float
        Largest value of `noise` that `learn` takes.
    earlier_sums : list by mode of (gram, projection) or None
        Sums that stand for earlier observations, added to the sums of every row.
    n_iter : int
        Sweeps that `learn` has run.
    """

    learns_row_noise = True
    independent_columns = False
    prunes_terms = False
    terms_since = -math.inf
    first_sweep = 0
    known_noise = 0.0
    most_noise = math.inf
    means: Any
    covariances: Any
    moments: Any
    # The weights of the rows of all modes, for the sums.
    _stacked_weights: Any = None

    def __init__(
        self,
        entries: GroupedEntries,
        fixed: ByMode,
        prior_mean: ByMode,
        precision: ByMode,
        tie: ByMode,
        n_features: int = 0,
    ) -> None:
        self.entries, self.rows = entries, stacked_rows(entries.shape)
        self.fixed, self.prior_mean = fixed, prior_mean
        self.precision, self.tie = precision, tie
        self.n_features = n_features
        self.likelihood: TableLikelihood | None = None
        self.earlier_sums: Any = None
        self.noise: Any = None
        self.n_iter = 0
        self.row_weights: Any = None
        self.stated_weights: Any = None
        self.row_errors: Any = None

    def features(self, mode: int) -> slice:
        """Columns of the features of the second mode, or of their weights."""
        n_columns = len(self.fixed[mode])
        return slice(n_columns - self.n_features, n_columns)

    def is_bias(self, mode: int) -> NDArray[np.bool_]:
        """Columns that are free in one mode alone."""
        return (~self.fixed).sum(axis=0) == 1

    def start_at_prior(
        self, features: NDArray[np.floating] | None = None, start: int = 0
    ) -> None:
        """Start near the prior means, with zero covariances; see `start_rows`."""
        means = start_rows(self.entries.shape, self.fixed, self.prior_mean, start)
        if features is not None:
            means[0][:, self.features(0)] = 0.0
            means[1][:, self.features(1)] = features[:-1]
        dtype = self.entries.dtype
        sizes = [(len(m), math.comb(m.shape[1] + 1, 2)) for m in means]
        zeros = [np.zeros(size, dtype) for size in sizes]
        self.start([m.astype(dtype) for m in means], zeros, None)

    def start(
        self,
        means: Sequence[NDArray[np.floating]],
        covariances: Sequence[NDArray[np.floating]],
        noise: float | None,
    ) -> None:
        """Start from a posterior, mode by mode, and a noise variance."""
        # In the order of rows, whatever the order of the parts.
        self.means = np.ascontiguousarray(np.concatenate(means))
        variances = np.ascontiguousarray(np.concatenate(covariances))
        self.covariances, self.noise = variances, noise
        if self.independent_columns:
            variances = variances[:, diagonal(self.means.shape[1])]
        self.moments = self.squares(self.means) + variances

    def squares(self, means: NDArray[np.floating]) -> NDArray[np.floating]:
        """Second moments of rows without covariances."""
        return means**2 if self.independent_columns else packed_squares(means)

    def posterior(
        self, mode: int
    ) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]:
        """Views of the means, covariances and second moments of a mode's rows."""
        r = self.rows[mode]
        return self.means[r], self.covariances[r], self.moments[r]

    def attach(
        self,
        entries: GroupedEntries,
        posteriors: Sequence[tuple[NDArray[np.floating], NDArray[np.floating]]],
    ) -> None:
        """Take entries, and means and second moments by mode; covariances are zero."""
        self.entries, self.rows = entries, stacked_rows(entries.shape)
        self.means, self.moments = map(np.concatenate, zip(*posteriors, strict=True))
        n_pairs = math.comb(self.means.shape[1] + 1, 2)
        self.covariances = np.zeros((len(self.means), n_pairs), self.means.dtype)

    def sums(
        self, mode: int, rows: slice
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Expected sums over the entries of some rows of a mode.

        With y the value of an entry and b its regressors:

        Returns
        -------
        gram : ndarray of shape (n_rows, P)
            Expected sum of b b^T.
        projection : ndarray of shape (n_rows, n_columns)
            Expected sum of y b.
        """
        entries = cast("SparseEntries | DenseEntries", self.entries)
        return entries.sums(
            mode,
            rows.start,
            rows.stop,
            self.rows,
            self.means,
            self.moments,
            self._stacked_weights,
        )

    def fitted_values(self, mode: int, rows: slice) -> NDArray[np.floating]:
        """Predictions of the entries of some rows of a mode, as they are stored."""
        from .kernels._cp import fitted_values

        if isinstance(self.entries, DenseEntries):
            return cp_to_dense([self.means[r] for r in self.rows])[
                self.entries.mask > 0
            ]
        starts, others, _ = cast("SparseEntries", self.entries).groups[mode]
        fitted = np.empty(starts[rows.stop] - starts[rows.start], self.means.dtype)
        fitted_values(
            rows.start,
            rows.stop,
            starts,
            others,
            self.means,
            self.means[self.rows[mode]],
            fitted,
        )
        return fitted

    def model(self, scale: float) -> Any:
        """The fitted model, with its values multiplied by `scale`."""
        raise NotImplementedError

    def learn(
        self,
        *,
        max_iter: int,
        noise_floor: float,
        n_threads: int,
        on_sweep: Callable[[int], Any] | None,
    ) -> bool:
        """Run sweeps that also learn the prior and the noise.

        Parameters
        ----------
        max_iter : int
            Number of sweeps, together with those that were run before.
        noise_floor, n_threads, on_sweep
            See `fit_structured_cp`.

        Returns
        -------
        stopped : bool
            Whether `on_sweep` ended the fit.
        """
        n_modes = len(self.entries.shape)
        with self.threads(n_threads) as pool:
            while self.n_iter < max_iter:
                n_sweeps = self.n_iter - self.first_sweep
                if self.likelihood is not None and n_sweeps in _OBSERVED_AFTER:
                    self.observe(pool, n_threads)
                    self.known_noise = self.likelihood.known_share * self.noise
                known = self.known_noise or noise_floor
                error, cross = self.sweep(pool, n_threads)
                self.n_iter += 1
                self._learn_weight_means()
                error = self._unweighted(error)
                noise = min(error / self.entries.n_entries, self.most_noise)
                self.noise = float(max(noise, known))
                if self.learns_row_noise and n_sweeps >= _SWEEPS_BEFORE_ROW_NOISE:
                    self._learn_row_noise(known)
                if self.n_iter == SWEEPS_BEFORE_LEARNING:
                    # Weak before, so that the means of weights are found; but to learn
                    # it from so weak a start made errors 0.7% larger on Flixster at
                    # epsilon 2.
                    of_weights = self.precision[0][self.features(0)]
                    of_weights[:] = np.maximum(of_weights, BIAS_PRECISION)
                elif self.n_iter > SWEEPS_BEFORE_LEARNING:
                    for mode in range(n_modes):
                        self.learn_prior(mode, cross[mode])
                if on_sweep is not None and on_sweep(self.n_iter - 1):
                    return True
        return False

    def observe(self, pool: ThreadPoolExecutor, n_threads: int) -> None:
        """Replace the values by observations around the present predictions."""
        cast("TableLikelihood", self.likelihood).learn(self.observed(pool, n_threads))

    def observed(self, pool: ThreadPoolExecutor, n_threads: int) -> NDArray[np.float64]:
        """Replace the values; return the counts that the likelihood learns from."""
        entries: Any = self.entries
        likelihood = self.likelihood
        counts: Any = 0.0
        for mode in entries.stored_modes:

            def observe(rows: slice, mode: int = mode) -> NDArray[np.float64]:
                fitted = self.fitted_values(mode, rows)
                return entries.observe(mode, rows, fitted, likelihood)

            counts = sum(self.map_rows(observe, mode, pool, n_threads))
        entries.values_changed()
        return counts

    def gather(self) -> None:
        """Bring the posterior of all rows into this process, if it is elsewhere."""

    def run_sweeps(self, max_iter: int, n_threads: int) -> None:
        """Run sweeps that leave the prior and the noise as they are."""
        with self.threads(n_threads) as pool:
            for _ in range(max_iter):
                self.sweep(pool, n_threads)

    def sweep(
        self, pool: ThreadPoolExecutor, n_threads: int
    ) -> tuple[float, list[NDArray[np.float64] | None]]:
        """Update the rows of all modes, one mode after the other.

        Returns
        -------
        error : float
            Expected squared error of all entries under the posterior, weighted.
        cross : list of ndarray of shape (n_rows - 1, n_columns) or None
            Covariances of neighbouring rows, for every mode that ties them.
        """
        modes = range(len(self.entries.shape))
        updates = [self.update(mode, pool, n_threads) for mode in modes]
        return updates[-1][0], [cross for _, cross in updates]

    @contextmanager
    def threads(self, n_threads: int) -> Iterator[ThreadPoolExecutor]:
        """A pool of threads for a fit.

        For sparse entries, BLAS is limited to one thread, since its products are small.
        """
        is_sparse = isinstance(self.entries, SparseEntries)
        limit = one_blas_thread if is_sparse else nullcontext()
        with limit, ThreadPoolExecutor(n_threads) as pool:
            yield pool

    def update(
        self, mode: int, pool: ThreadPoolExecutor, n_threads: int
    ) -> tuple[float, NDArray[np.float64] | None]:
        """Update the posterior of the rows of one mode, given all other modes.

        Returns
        -------
        error : float
            Expected squared error of all entries under the posterior, weighted.
        cross : ndarray of shape (n_rows - 1, n_columns) or None
            Covariances of neighbouring rows, if the mode ties them.
        """
        from .kernels._cp import solve_rows

        means, covariances, moments = self.posterior(mode)
        free = np.flatnonzero(~self.fixed[mode])
        if self.tie[mode].any():
            return self._update_chain(mode, free, means, covariances, moments)
        fitted = np.empty(len(means))

        def solve(rows: slice) -> None:
            solve_rows(
                *self._all_sums(mode, rows),
                free,
                self.prior_mean[mode],
                self.precision[mode],
                self.noise,
                means[rows],
                covariances[rows],
                moments[rows],
                fitted[rows],
            )

        list(self.map_rows(solve, mode, pool, n_threads))
        return self._error(mode, fitted), None

    def _error(self, mode: int, fitted: NDArray[np.float64]) -> float:
        """Expected squared error of all entries after the update of a mode, weighted.

        Parameters
        ----------
        mode : int
        fitted : ndarray of shape (n_rows,)
            That of every row of the mode, less its weighted sum of y^2.
        """
        energy = self.entries.energy
        if self.learns_row_noise:
            energies, weights = self.entries.row_energies, self.row_weights
            if weights is not None:
                energy = float(weights @ energies)
            if mode == 0:
                self.row_errors = energies + (
                    fitted if weights is None else fitted / weights
                )
        return energy + fitted.sum()

    def weigh(self, row_weights: NDArray[np.float64] | None) -> None:
        """Set the weights of the first mode's rows."""
        self.row_weights, self._stacked_weights = row_weights, None
        if row_weights is not None:
            stacked = np.ones(sum(self.entries.shape), self.entries.dtype)
            stacked[self.rows[0]] = row_weights
            self._stacked_weights = stacked

    def _learn_row_noise(self, noise_floor: float) -> None:
        """Learn the weights of the first mode's rows from their squared errors.

        The variance of an entry is that of its mechanism, which is known and the same
        for all, plus a residual that depends on the row. With n entries, whose squared
        errors add up to s, the estimate of the sum is ``noise + (s - n noise) / (n +
        a)``: the mean squared error, shrunk to that of all entries as if ``a`` further
        entries had that one. An error's square varies as the square of the variance, of
        which the residual is a part only; so ``a`` grows with the square of the ratio.

        The weights of the fit are shrunk more than the variances that the model states:
        an overestimated weight adds more error than an underestimated one.
        """
        residual = self.noise - noise_floor
        if residual <= _LEAST_RESIDUAL * self.noise:
            return  # What is left is rounding, or noise of the mechanism.
        n_seen = np.sum(self.entries.row_counts > 0)
        ratio = (self.noise / residual) ** 2
        # Method of moments: how much rows differ, beyond the squares of normal errors.
        differ = self._excess_squares() - 2 * self.noise**2 * n_seen
        total = self.noise**2 * self.entries.n_entries
        strength = 2 * total / max(differ, 1e-6 * total)
        least = noise_floor + _LEAST_NOISE_SHARE * residual
        self._weigh_by_errors(
            RowWeighting(self.noise, least, _FIT_STRENGTH * ratio),
            RowWeighting(
                self.noise, least, max(strength, _LEAST_NOISE_STRENGTH * ratio)
            ),
        )

    def _unweighted(self, error: float) -> float:
        """Expected squared error of all entries, not weighted by row, after a sweep.

        Parameters
        ----------
        error : float
            The weighted error.
        """
        return error if self.row_weights is None else self.row_errors.sum()

    def _excess_squares(self) -> float:
        """Sum over rows of the squares of what their errors exceed `noise` by.

        Each is divided by the row's number of entries.
        """
        counts = self.entries.row_counts
        excess = self.row_errors - counts * self.noise
        return np.sum(excess**2 / np.maximum(counts, 1))

    def _weigh_by_errors(self, fitted: RowWeighting, stated: RowWeighting) -> None:
        """Compute weights of rows from their errors, for the fit and for the model."""
        errors, counts = self.row_errors, self.entries.row_counts
        self.weigh(fitted.weights(errors, counts))
        self.stated_weights = stated.weights(errors, counts)

    def map_rows(
        self,
        function: Callable[[slice], Any],
        mode: int,
        pool: ThreadPoolExecutor,
        n_threads: int,
    ) -> Iterator[Any]:
        """Results of a function of slices, which together are all rows of a mode."""
        ends = self.entries.ranges(mode, n_threads).tolist()
        slices = [slice(*pair) for pair in pairwise(ends)]
        return (map if len(slices) == 1 else pool.map)(function, slices)

    def _all_sums(
        self, mode: int, rows: slice
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The sums of the entries, plus those that stand for earlier observations."""
        gram, projection = self.sums(mode, rows)
        if self.earlier_sums is not None:
            earlier_gram, earlier_projection = self.earlier_sums[mode]
            gram += earlier_gram[rows]
            projection += earlier_projection[rows]
        return gram, projection

    def _update_chain(
        self,
        mode: int,
        free: NDArray[np.integer],
        means: NDArray[np.floating],
        covariances: NDArray[np.floating],
        moments: NDArray[np.floating],
    ) -> tuple[float, NDArray[np.float64]]:
        """Update a mode that ties neighbouring rows; see `update`."""
        packed_gram, projection = self._all_sums(mode, slice(0, len(means)))
        n_columns = means.shape[1]
        pairs = np.triu_indices(n_columns)
        gram = np.empty((len(means), n_columns, n_columns))
        gram[:, *pairs] = gram[:, *pairs[::-1]] = packed_gram
        prior = self.precision[mode][free]
        precision = gram[:, free[:, np.newaxis], free] / self.noise + np.diag(prior)
        # Fixed columns move to the right-hand side.
        fixed = np.flatnonzero(self.fixed[mode])
        moved = gram[:, free[:, np.newaxis], fixed] * means[:, np.newaxis, fixed]
        rest = projection[:, free] - moved.sum(axis=2)
        shift = rest / self.noise + prior * self.prior_mean[mode][free]
        mean, covariance, cross = solve_chain(precision, shift, self.tie[mode][free])
        means[:, free] = mean
        moment = means[:, :, np.newaxis] * means[:, np.newaxis, :].astype(float)
        padded_covariance = np.zeros_like(moment)
        padded_covariance[:, free[:, np.newaxis], free] = covariance
        moment += padded_covariance
        covariances[:] = padded_covariance[:, *pairs]
        if moments.shape[1] == n_columns:
            moments[:] = np.einsum("raa->ra", moment)
        else:
            moments[:] = moment[:, *pairs]
        fitted = np.sum(gram * moment, axis=(1, 2)) - 2 * np.sum(projection * means, 1)
        padded_cross = np.zeros((len(means) - 1, n_columns))
        padded_cross[:, free] = cross
        return self._error(mode, fitted), padded_cross

    def _learn_weight_means(self) -> None:
        """Learn the prior means of the weights of features, from their posterior."""
        means = self.posterior(0)[0][self.entries.observed(0), self.features(0)]
        self.prior_mean[0][self.features(0)] = means.mean(axis=0, dtype=float)

    def learn_prior(self, mode: int, cross: Any) -> None:
        """Learn the prior precisions of a mode's free columns, from their posterior.

        A precision is multiplied by the ratio of two expectations of a sum of squares:
        under the prior, over that under the posterior. Without ties, this is the step
        of expectation maximisation; with ties, it increases the same bound. Under heavy
        noise that step hardly moves, so biases take MacKay's fixed point instead: the
        prior expectation less the posterior variances, over the squares of the
        posterior means (MacKay 1992, "Bayesian interpolation", eq. 4.9). So do terms of
        a matrix, if `prunes_terms`: with expectation maximisation, the variance of a
        term without evidence falls as the inverse root of the number of sweeps, and at
        rank 40 that of all of them together is as large as the values after 25 sweeps.

        Parameters
        ----------
        mode : int
        cross : ndarray of shape (n_rows - 1, n_columns) or None
            Covariances of neighbouring rows, if the mode ties them.
        """
        free, precision, tie = ~self.fixed[mode], self.precision[mode], self.tie[mode]
        if self.n_iter - self.terms_since <= SWEEPS_BEFORE_LEARNING:
            # They have hardly left the start, and would be taken for superfluous.
            free = free & self.is_bias(mode)
        n_rows, deviation, spread = self.row_sums(mode)
        if n_rows < 2:
            return  # A single row does not show how much rows differ.
        expected = n_rows / precision
        if tie.any():
            means, covariances, _ = self.posterior(mode)
            variances = covariances[:, diagonal(means.shape[1])].astype(float)
            path = path_eigenvalues(n_rows)[:, np.newaxis]
            strength = precision + path * tie
            expected = (path / strength).sum(axis=0)
            change = (np.diff(means.astype(float), axis=0) ** 2).sum(axis=0)
            apart = (variances[1:] + variances[:-1] - 2 * cross).sum(axis=0)
            learned = self._learned_precision(mode, tie, expected, change, apart)
            self.tie[mode] = np.where(free, learned, tie)
            expected = (1 / strength).sum(axis=0)
        learned = self._learned_precision(mode, precision, expected, deviation, spread)
        self.precision[mode] = np.where(free, learned, precision)

    def row_sums(
        self, mode: int
    ) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
        """Sums over rows from which precisions are learned.

        The rows are those that have entries, or all rows if the mode ties them.

        Returns
        -------
        n_rows : int
        deviation : ndarray of shape (n_columns,)
            Sum of the squared distances of posterior means from the prior mean.
        variances : ndarray of shape (n_columns,)
            Sum of the posterior variances.
        """
        seen: Any = self.entries.observed(mode)
        if self.tie[mode].any():
            seen = slice(None)
        means, covariances, _ = self.posterior(mode)
        means = means[seen].astype(float)
        variances = covariances[:, diagonal(means.shape[1])][seen].astype(float)
        deviation = ((means - self.prior_mean[mode]) ** 2).sum(axis=0)
        return len(means), deviation, variances.sum(axis=0)

    def _learned_precision(
        self,
        mode: int,
        precision: NDArray[np.float64],
        expected: NDArray[np.float64],
        squares: NDArray[np.float64],
        variances: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Precisions after one step of learning; see `learn_prior`."""
        least = 1e-9 * expected
        learned = precision * np.where(
            self.is_bias(mode) | self.prunes_terms,
            np.maximum(expected - variances, least) / np.maximum(squares, 1e-300),
            expected / np.maximum(squares + variances, 1e-300),
        )
        return np.clip(learned, SMALLEST_PRECISION, LARGEST_PRECISION)

    def write_rows(
        self,
        mode: int,
        factor: NDArray[np.float64],
        means: NDArray[np.floating],
        covariances: NDArray[np.floating],
    ) -> None:
        """Write the posterior of a mode's rows and, last, the prior of an unknown row.

        Parameters
        ----------
        mode : int
        factor : ndarray of shape (n_columns,)
            Multiplies the columns.
        means : ndarray of shape (n_rows + 1, n_columns)
            Written.
        covariances : ndarray of shape (n_rows + 1, P)
            Written.
        """
        means[:-1], covariances[:-1], _ = self.posterior(mode)
        means[-1], covariances[-1] = self.prior_mean[mode], 0.0
        variance = np.where(self.fixed[mode], 0.0, self._prior_variance(mode))
        covariances[-1, diagonal(len(factor))] = variance
        means *= factor.astype(means.dtype)
        covariances *= packed_squares(factor[np.newaxis]).astype(means.dtype)

    def _prior_variance(self, mode: int) -> NDArray[np.float64]:
        """Prior variance of every column, averaged over the rows of a mode."""
        if not self.tie[mode].any():
            return 1 / self.precision[mode]
        path = path_eigenvalues(self.entries.shape[mode])[:, np.newaxis]
        return (1 / (self.precision[mode] + path * self.tie[mode])).mean(axis=0)


def stacked_rows(shape: Sequence[int]) -> list[slice]:
    """The slice of every mode among the stacked rows of all modes."""
    return [slice(*ends) for ends in pairwise(np.cumsum([0, *shape]).tolist())]


def start_rows(
    shape: Sequence[int], fixed: ByMode, prior_mean: ByMode, start: int = 0
) -> list[NDArray[np.float64]]:
    """Random rows near the prior means, for a fit to start from.

    Their seed is the number of the start, so that a fit is a function of the entries
    alone.

    Parameters
    ----------
    shape : tuple of int
    fixed, prior_mean : array-like by mode of ndarray of shape (n_columns,)
    start : int, default=0
        Number of the start, below `N_STARTS`.

    Returns
    -------
    means : list of ndarray of shape (size of the mode, n_columns)
        Fixed columns are one.
    """
    generator = np.random.default_rng(start)
    scales = _START_SCALES[start]
    means = []
    for mode, size in enumerate(shape):
        deviation = generator.standard_normal((size, len(fixed[mode])))
        rows = prior_mean[mode] + scales[mode > 1] * deviation
        means.append(np.where(fixed[mode], 1.0, rows))
    return means
