"""What variational fits of rows share, whatever the decomposition.

Rows of a mode are solved for, given the others, from sums over their entries; the
precisions of their prior are learned from their posterior.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._algebra import packed_squares
from ._blas import one_blas_thread
from ._chain import path_eigenvalues, solve_chain
from ._entries import Entries, SparseEntries

__all__ = ["RowFit", "diagonal", "start_rows"]

# One array a mode: a list of them, or the rows of one array.
ByMode: TypeAlias = Any
# How far rows start from their prior mean: in the first two modes, in the others.
_START_SCALES = 0.05, 0.2
# Variational sweeps before precisions are learned: from the first one on, columns that
# have hardly left the start would be taken for superfluous.
_FIXED_SWEEPS = 3
_PRECISION_LIMITS = (1e-6, 1e6)


class RowFit:
    """The state of a fit: prior and noise, and, in a subclass, the posterior.

    Parameters
    ----------
    entries : SparseEntries or DenseEntries
    fixed, prior_mean, precision, tie : array-like by mode of ndarray of (n_columns,)
    is_bias : array-like by mode of ndarray of shape (n_columns,), bool
        Columns that are free in one mode alone.
    weights : slice
        Columns of the first mode whose prior means are learned.
    """

    def __init__(
        self,
        entries: Entries,
        fixed: ByMode,
        prior_mean: ByMode,
        precision: ByMode,
        tie: ByMode,
        is_bias: ByMode,
        weights: slice,
    ) -> None:
        self.entries = entries
        self.fixed, self.prior_mean = fixed, prior_mean
        self.precision, self.tie = precision, tie
        self._is_bias, self._weights = is_bias, weights
        self.known: Any = None
        self.noise: Any = None

    def start(self, means: Any, covariances: Any, noise: Any) -> None:
        """Start from a posterior."""
        raise NotImplementedError

    def posterior(
        self, mode: int
    ) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]:
        """Means, covariances and second moments of the rows of a mode, to write to.

        Second moments have no rows where rows have no covariances.
        """
        raise NotImplementedError

    def take_covariances(self) -> None:
        """From here on rows have covariances."""
        raise NotImplementedError

    def place(
        self,
        entries: Entries,
        posteriors: Sequence[tuple[NDArray[np.floating], NDArray[np.floating]]],
    ) -> None:
        """Take entries, and means and second moments by mode; no covariances."""
        raise NotImplementedError

    def sums(
        self, mode: int, part: slice
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Expected sums of b b^T and of y b over the entries of some rows of a mode."""
        raise NotImplementedError

    def model(self, scale: float) -> Any:
        """The fitted model, its values multiplied by `scale`."""
        raise NotImplementedError

    def learn(
        self,
        *,
        max_iter: int,
        noise_floor: float,
        n_threads: int,
        on_sweep: Callable[[int], Any] | None,
        n_point_sweeps: int = 0,
    ) -> int:
        """Sweeps over the modes that learn prior and noise; returns their number."""
        n_modes = len(self.entries.shape)
        with self.threads(n_threads) as pool:
            for n_iter in range(1, max_iter + 1):
                if n_iter == n_point_sweeps + 1:
                    self.take_covariances()
                error, cross = self.sweep(pool, n_threads)
                self._learn_mean_weights()
                self.noise = float(max(error / self.entries.n_entries, noise_floor))
                if n_iter > n_point_sweeps + _FIXED_SWEEPS:
                    for mode in range(n_modes):
                        self.learn_prior(mode, cross[mode])
                if on_sweep is not None and on_sweep(n_iter - 1):
                    break
        return n_iter

    def go_on(self, max_iter: int, n_threads: int) -> None:
        """Sweeps over the modes that learn neither prior nor noise."""
        with self.threads(n_threads) as pool:
            for _ in range(max_iter):
                self.sweep(pool, n_threads)

    def sweep(
        self, pool: ThreadPoolExecutor, n_threads: int
    ) -> tuple[float, list[NDArray[np.float64] | None]]:
        """All modes, one after the other.

        Returns
        -------
        error : float
            Expected squared error of all entries under the posterior.
        cross : list of ndarray of shape (n_rows - 1, n_columns) or None
            Where neighbours are tied, the covariances of neighbours.
        """
        modes = range(len(self.entries.shape))
        found = [self.update(mode, pool, n_threads) for mode in modes]
        return found[-1][0], [cross for _, cross in found]

    @contextmanager
    def threads(self, n_threads: int) -> Iterator[ThreadPoolExecutor]:
        """Threads of our own; the small products of a sparse fit get no others."""
        is_sparse = isinstance(self.entries, SparseEntries)
        limit = one_blas_thread if is_sparse else nullcontext()
        with limit, ThreadPoolExecutor(n_threads) as pool:
            yield pool

    def update(
        self, mode: int, pool: ThreadPoolExecutor, n_threads: int
    ) -> tuple[float, NDArray[np.float64] | None]:
        """Posterior of the rows of one mode, given the others.

        Returns
        -------
        error : float
            Expected squared error of all entries under the posterior.
        cross : ndarray of shape (n_rows - 1, n_columns) or None
            Where neighbours are tied, the covariances of neighbours.
        """
        from .kernels._cp import solve_rows

        means, covariances, moments = self.posterior(mode)
        free = np.flatnonzero(~self.fixed[mode])
        if self.tie[mode].any():
            return self._update_chain(mode, free, means, covariances, moments)
        fitted = np.empty(len(means))

        def run(part: slice) -> None:
            solve_rows(
                *self._known_and_sums(mode, part), free, self.prior_mean[mode],
                self.precision[mode], self.noise, means[part], covariances[part],
                moments[part], fitted[part],
            )  # fmt: skip

        list(self.by_parts(run, mode, pool, n_threads))
        return self.entries.energy + fitted.sum(), None

    def by_parts(
        self,
        run: Callable[[slice], Any],
        mode: int,
        pool: ThreadPoolExecutor,
        n_threads: int,
    ) -> Iterator[Any]:
        """What a function answers to the slices that make up the rows of a mode."""
        ends = self.entries.ranges(mode, n_threads).tolist()
        parts = [slice(*pair) for pair in pairwise(ends)]
        return (map if len(parts) == 1 else pool.map)(run, parts)

    def _known_and_sums(
        self, mode: int, part: slice
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        gram, projection = self.sums(mode, part)
        if self.known is not None:
            known_gram, known_projection = self.known[mode]
            gram += known_gram[part]
            projection += known_projection[part]
        return gram, projection

    def _update_chain(
        self,
        mode: int,
        free: NDArray[np.integer],
        means: NDArray[np.floating],
        covariances: NDArray[np.floating],
        moments: NDArray[np.floating],
    ) -> tuple[float, NDArray[np.float64]]:
        packed, projection = self._known_and_sums(mode, slice(0, len(means)))
        n_columns = means.shape[1]
        pairs = np.triu_indices(n_columns)
        gram = np.empty((len(means), n_columns, n_columns))
        gram[:, *pairs] = gram[:, *pairs[::-1]] = packed
        own = self.precision[mode][free]
        precision = gram[:, free[:, np.newaxis], free] / self.noise + np.diag(own)
        # Columns that are held move over to the right-hand side.
        fixed = np.flatnonzero(self.fixed[mode])
        moved = gram[:, free[:, np.newaxis], fixed] * means[:, np.newaxis, fixed]
        rest = projection[:, free] - moved.sum(axis=2)
        shift = rest / self.noise + own * self.prior_mean[mode][free]
        mean, covariance, cross = solve_chain(precision, shift, self.tie[mode][free])
        means[:, free] = mean
        moment = means[:, :, np.newaxis] * means[:, np.newaxis, :].astype(float)
        if len(moments):
            spread = np.zeros_like(moment)
            spread[:, free[:, np.newaxis], free] = covariance
            moment += spread
            covariances[:] = spread[:, *pairs]
            moments[:] = moment[:, *pairs]
        error = np.sum(gram * moment) - 2 * np.sum(projection * means)
        neighbours = np.zeros((len(means) - 1, n_columns))
        neighbours[:, free] = cross
        return self.entries.energy + error, neighbours

    def _learn_mean_weights(self) -> None:
        """Prior means of the weights of features, from the posterior of the rows."""
        means = self.posterior(0)[0][self.entries.observed(0), self._weights]
        self.prior_mean[0][self._weights] = means.mean(axis=0, dtype=float)

    def learn_prior(self, mode: int, cross: Any) -> None:
        """Precisions of the prior of every free column, from the posterior of its rows.

        A precision is multiplied by the ratio of what the prior expects of a sum of
        squares to what the posterior does; for rows that are not tied this is the step
        of expectation maximisation, otherwise one that increases the same bound. Under
        heavy noise that step hardly moves, so biases take MacKay's fixed point
        instead: what the posterior leaves of the prior's expectation over the squares
        of the means (MacKay 1992, "Bayesian interpolation", eq. 4.9).
        """
        free, precision, tie = ~self.fixed[mode], self.precision[mode], self.tie[mode]
        n_rows, deviation, spread = self.row_sums(mode)
        if n_rows < 2:
            return  # A single row tells nothing of how rows differ.
        expected = n_rows / precision
        if tie.any():
            means, covariances, _ = self.posterior(mode)
            variances = covariances[:, diagonal(means.shape[1])].astype(float)
            path = path_eigenvalues(n_rows)[:, np.newaxis]
            strength = precision + path * tie
            expected = (path / strength).sum(axis=0)
            change = (np.diff(means.astype(float), axis=0) ** 2).sum(axis=0)
            apart = (variances[1:] + variances[:-1] - 2 * cross).sum(axis=0)
            learned = self._ratio(mode, tie, expected, change, apart)
            self.tie[mode] = np.where(free, learned, 0.0)
            expected = (1 / strength).sum(axis=0)
        learned = self._ratio(mode, precision, expected, deviation, spread)
        self.precision[mode] = np.where(free, learned, precision)

    def row_sums(
        self, mode: int
    ) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
        """What is learned from: sums over the rows that have entries, or are tied.

        Returns
        -------
        n_rows : int
        deviation, variances : ndarray of shape (n_columns,)
            Sums of the squared distances of means from the prior's, and of variances.
        """
        seen: Any = self.entries.observed(mode)
        if self.tie[mode].any():
            seen = slice(None)
        means, covariances, _ = self.posterior(mode)
        means = means[seen].astype(float)
        variances = covariances[seen][:, diagonal(means.shape[1])].astype(float)
        deviation = ((means - self.prior_mean[mode]) ** 2).sum(axis=0)
        return len(means), deviation, variances.sum(axis=0)

    def _ratio(
        self,
        mode: int,
        precision: NDArray[np.float64],
        expected: NDArray[np.float64],
        squares: NDArray[np.float64],
        variances: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        least = 1e-9 * expected
        learned = precision * np.where(
            self._is_bias[mode],
            np.maximum(expected - variances, least) / np.maximum(squares, 1e-300),
            expected / np.maximum(squares + variances, 1e-300),
        )
        return np.clip(learned, *_PRECISION_LIMITS)

    def write_rows(
        self,
        mode: int,
        factor: NDArray[np.float64],
        means: NDArray[np.floating],
        covariances: NDArray[np.floating],
    ) -> None:
        """The posterior of a mode and, last, of an unknown row, times a factor.

        Parameters
        ----------
        mode : int
        factor : ndarray of shape (n_columns,)
        means : ndarray of shape (n_rows + 1, n_columns)
            Written.
        covariances : ndarray of shape (n_rows + 1, P)
            Written.
        """
        own_means, own_covariances, _ = self.posterior(mode)
        means[:-1], means[-1] = own_means, self.prior_mean[mode]
        covariances[:-1], covariances[-1] = own_covariances, 0.0
        variance = np.where(self.fixed[mode], 0.0, self._prior_variance(mode))
        covariances[-1, diagonal(len(factor))] = variance
        means *= factor.astype(means.dtype)
        covariances *= packed_squares(factor[np.newaxis]).astype(means.dtype)

    def _prior_variance(self, mode: int) -> NDArray[np.float64]:
        path = path_eigenvalues(self.entries.shape[mode])[:, np.newaxis]
        return (1 / (self.precision[mode] + path * self.tie[mode])).mean(axis=0)


def start_rows(
    shape: Sequence[int], fixed: ByMode, prior_mean: ByMode
) -> list[NDArray[np.float64]]:
    """Fixed starting point: the fit is a function of the values alone.

    Parameters
    ----------
    shape : tuple of int
    fixed, prior_mean : array-like by mode of ndarray of shape (n_columns,)

    Returns
    -------
    means : list of ndarray of shape (size of the mode, n_columns)
        One where columns are held.
    """
    start = np.random.default_rng(0)
    means = []
    for mode, size in enumerate(shape):
        drawn = start.standard_normal((size, len(fixed[mode])))
        drawn = prior_mean[mode] + _START_SCALES[mode > 1] * drawn
        means.append(np.where(fixed[mode], 1.0, drawn))
    return means


def diagonal(n_columns: int) -> NDArray[np.integer]:
    """Where squares are among the upper triangle of a matrix, row by row."""
    return np.flatnonzero(np.equal(*np.triu_indices(n_columns)))
