"""Variational fit of a structured CP to observed entries.

The posterior of a row is Gaussian, with a full covariance over its columns. Rows are
taken as independent of one another (mean field), except in modes where neighbours are
tied. Every free column has a Gaussian prior. Its precision, and the variance of the
observations around the model, are learned from the values (empirical Bayes). So the fit
learns how much to shrink: there is no regularisation to tune, and too large a rank does
no harm.

With three or more modes, sweeps from a single start often end in a poor optimum: a term
is lost, or two terms cancel. So a fit begins with more terms than it keeps, and small
fits begin several times. The starts, and the terms to keep, are chosen by what the fit
has learned from the entries; it reads nothing else. So if the entries are randomised,
these choices are post-processing.
"""

import math
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ._algebra import cp_to_dense, diagonal, packed_squares
from ._cp import StructuredCP, cp_columns
from ._grouped import DenseEntries, GroupedEntries, SparseEntries
from ._likelihood import TableLikelihood
from ._row_fit import N_STARTS, SWEEPS_BEFORE_LEARNING, RowFit, start_rows

# Fits of three or more modes begin with this many terms more than they keep, for half
# of their sweeps, but at most this number of sweeps.
_EXTRA_TERMS, _MOST_FIRST_SWEEPS = 2, 30
# Least number of entries for which a fit takes the columns of other modes' rows as
# independent, and tries a single start. Fits to fewer entries are fast anyway, and
# recover an exact decomposition more often with full covariances and several starts.
_LEAST_INDEPENDENT = 200_000
# Largest share of noise in the values for which it does so. With more noise,
# covariances are large, and the error would be up to 0.3 percent larger.
_MOST_NOISE_INDEPENDENT = 0.5
# Largest share of noise in the values for which starts are compared, or a Tucker fit
# starts at a decomposition: beyond, they would be chosen for what they make of noise.
MOST_NOISE = 0.8


def fit_structured_cp(
    entries: GroupedEntries,
    *,
    rank: int,
    biases: bool,
    value_scale: float,
    noise_floor: float,
    max_iter: int,
    smooth_modes: Collection[int] = (),
    features: NDArray[np.floating] | None = None,
    n_threads: int = 1,
    on_sweep: Callable[[int], Any] | None = None,
    likelihood: TableLikelihood | None = None,
) -> tuple[StructuredCP, int]:
    """Fit biases and CP terms to the observed entries of a tensor.

    Parameters
    ----------
    entries : SparseEntries or DenseEntries
        Their values are the observations less the offset, divided by `value_scale`.
    rank : int
        Number of full CP terms; 0 for biases alone.
    biases : bool
        Whether every mode has a bias column.
    value_scale : float
        Typical size of the observations (half of their range). The starting values of
        the prior assume this scale.
    noise_floor : float
        Smallest variance of the observations around the model.
    max_iter : int
        Number of sweeps over the modes, without those that compare several starts.
    smooth_modes : collection of int, default=()
        Modes in which neighbouring rows are tied.
    features : ndarray of shape (shape[1] + 1, n_features), default=None
        Features of the rows of the second mode and, last, of an unknown row. Every row
        of the first mode has weights for them, whose prior mean is learned.
    n_threads : int, default=1
        Threads that share the rows of a sweep.
    on_sweep : callable, default=None
        Called after every sweep with its number; the fit stops if it returns true.
    likelihood : TableLikelihood, default=None
        What the values say about their means, if a table has randomised them. It is
        learned, and the entries are changed.

    Returns
    -------
    model : StructuredCP
    n_iter : int
        Number of sweeps run.
    """
    floor = entries_noise_floor(entries, noise_floor, value_scale)
    n_modes = len(entries.shape)
    n_first = min(max_iter // 2, _MOST_FIRST_SWEEPS)
    in_stages = n_modes > 2 and rank > 0 and n_first > SWEEPS_BEFORE_LEARNING
    n_terms = rank + _EXTRA_TERMS if in_stages else rank

    def started(start: int) -> Any:
        fit = entries.fit_class(_CPFit)(
            entries,
            *cp_columns(n_modes, n_terms, biases, smooth_modes, features),
            n_features=0 if features is None else features.shape[1],
        )
        fit.independent_columns = _is_nearly_independent(entries, floor)
        if in_stages:
            # As long as terms are missing, errors say little about the noise of rows.
            fit.learns_row_noise = False
        fit.start_at_prior(features, start)
        fit.noise = float(max(entries.energy / entries.n_entries, floor))
        return fit

    fit = started(0)
    n_uncounted, stopped = 0, False
    options: dict[str, Any] = {"noise_floor": floor, "n_threads": n_threads}
    is_small = entries.n_entries < _LEAST_INDEPENDENT
    if in_stages and is_small and floor < MOST_NOISE * fit.noise:
        fits = [fit, *map(started, range(1, N_STARTS))]
        for each in fits:
            each.learn(max_iter=n_first, on_sweep=None, **options)
        fit = min(fits, key=lambda each: each.noise)
        n_uncounted = n_first
    elif in_stages:
        stopped = fit.learn(max_iter=n_first, on_sweep=on_sweep, **options)
    if in_stages:
        fit = fit.strongest(rank)
    # Not before: all starts read the same values.
    fit.likelihood = likelihood
    if not stopped:
        fit.learn(max_iter=n_uncounted + max_iter, on_sweep=on_sweep, **options)
    return fit.model(value_scale), fit.n_iter - n_uncounted


def continue_structured_cp(
    model: StructuredCP,
    entries: GroupedEntries,
    *,
    max_iter: int,
    noise_floor: float = 0.0,
    n_threads: int = 1,
) -> StructuredCP:
    """Run further sweeps from a model, without changing its prior or its noise.

    Parameters
    ----------
    model : StructuredCP
        Where to start.
    entries : SparseEntries or DenseEntries
        Their values are the observations less the offset.
    max_iter : int
        Number of sweeps over the modes.
    noise_floor : float, default=0.0
        Known part of the variance of the observations around the model.
    n_threads : int, default=1

    Returns
    -------
    model : StructuredCP
    """
    known = np.concatenate([np.arange(r.start, r.stop - 1) for r in model.rows])
    fit = entries.fit_class(_CPFit)(
        entries, model.fixed, model.prior_mean, model.precision, model.tie
    )
    fit.independent_columns = _is_nearly_independent(entries, noise_floor)
    fit.start(model.means[known], model.covariances[known], model.noise_variance)
    if model.row_weights is not None:
        fit.weigh(model.row_weights[:-1])
    fit.run_sweeps(max_iter, n_threads)
    return fit.model(1.0)


def _is_nearly_independent(entries: GroupedEntries, noise_floor: float) -> bool:
    """Whether a fit takes the columns of other modes' rows as independent.

    There must be many entries, with little noise: the variance of the mechanism, which
    is public, is compared with that of the randomised values.
    """
    noise = noise_floor * entries.n_entries
    is_clear = noise <= _MOST_NOISE_INDEPENDENT * entries.energy
    return entries.n_entries >= _LEAST_INDEPENDENT and is_clear


def entries_noise_floor(
    entries: GroupedEntries, noise_floor: float, value_scale: float
) -> float:
    """Smallest noise variance of a fit, on the scale of the entries.

    It also keeps the fit from following rounding errors of the values.
    """
    eps: Any = np.finfo(entries.dtype).eps
    return float(max(noise_floor / value_scale**2, 1e-9, 16 * eps))


class _CPFit(RowFit):
    """The state of a CP fit: posterior, prior and noise.

    The rows of all modes are stacked, one mode after the other; ``rows[mode]`` is the
    slice of a mode.

    Attributes
    ----------
    independent_columns : bool
        Whether the sums for one mode take the columns of a row of another mode as
        independent, given the entries. They then read its means and variances, instead
        of its second moments, and are several times faster.
    """

    independent_columns = False
    learns_row_noise = True
    # The weights of the rows of all modes, for the sums.
    _stacked_weights: Any = None

    def __init__(
        self,
        entries: GroupedEntries,
        fixed: NDArray[np.bool_],
        prior_mean: NDArray[np.float64],
        precision: NDArray[np.float64],
        tie: NDArray[np.float64],
        n_features: int = 0,
    ) -> None:
        n_columns = fixed.shape[1]
        # The columns of the features come last.
        weights = slice(n_columns - n_features, n_columns)
        is_bias = np.broadcast_to((~fixed).sum(axis=0) == 1, fixed.shape)
        super().__init__(entries, fixed, prior_mean, precision, tie, is_bias, weights)
        self.rows = _stacked_rows(entries.shape)

    def start_at_prior(
        self, features: NDArray[np.floating] | None = None, start: int = 0
    ) -> None:
        """Start near the prior means, with zero covariances; see `start_rows`."""
        shape, dtype = self.entries.shape, self.entries.dtype
        by_mode = start_rows(shape, self.fixed, self.prior_mean, start)
        means = np.concatenate(by_mode).astype(dtype)
        if features is not None:
            means[self.rows[0], self._weights] = 0.0
            means[self.rows[1], self._weights] = features[:-1]
        n_pairs = math.comb(means.shape[1] + 1, 2)
        self.start(means, np.zeros((len(means), n_pairs), dtype), None)

    def start(
        self,
        means: NDArray[np.floating],
        covariances: NDArray[np.floating],
        noise: float | None,
    ) -> None:
        """Start from a posterior and a noise variance."""
        self.means, self.covariances, self.noise = means, covariances, noise
        if self.independent_columns:
            covariances = covariances[:, diagonal(means.shape[1])]
        self.moments = self.point_moments(means) + covariances

    def point_moments(self, means: NDArray[np.floating]) -> NDArray[np.floating]:
        """Second moments of rows without covariances."""
        return means**2 if self.independent_columns else packed_squares(means)

    def strongest(self, rank: int) -> Any:
        """The same fit, of whose full terms only the strongest are left.

        The strength of a term is the product over the modes of its mean squares.

        Parameters
        ----------
        rank : int
            Number of full terms to keep.

        Returns
        -------
        fit : _CPFit
            It goes on from the posterior, prior and noise of this one.
        """
        self.gather()
        full = np.flatnonzero(~self.fixed.any(axis=0))
        squares = [np.mean(self.means[r][:, full] ** 2, axis=0) for r in self.rows]
        weakest = np.argsort(math.prod(squares), kind="stable")[: len(full) - rank]
        n_columns = self.fixed.shape[1]
        kept = np.delete(np.arange(n_columns), full[weakest])
        fit = type(self)(
            self.entries,
            self.fixed[:, kept],
            self.prior_mean[:, kept],
            self.precision[:, kept],
            self.tie[:, kept],
            n_features=self._weights.stop - self._weights.start,
        )
        fit.independent_columns = self.independent_columns
        is_kept = np.isin(np.triu_indices(n_columns), kept).all(axis=0)
        means = np.ascontiguousarray(self.means[:, kept])
        covariances = np.ascontiguousarray(self.covariances[:, is_kept])
        fit.start(means, covariances, self.noise)
        fit.n_iter = self.n_iter
        fit.weigh(self.row_weights)
        fit.stated_weights = self.stated_weights
        return fit

    def weigh(self, row_weights: NDArray[np.float64] | None) -> None:
        """Set the weights of the first mode's rows; see `RowFit.weigh`."""
        super().weigh(row_weights)
        self._stacked_weights = None
        if row_weights is not None:
            stacked = np.ones(sum(self.entries.shape), self.entries.dtype)
            stacked[self.rows[0]] = row_weights
            self._stacked_weights = stacked

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
        """Take entries, and means and second moments by mode; see `RowFit.attach`."""
        self.entries, self.rows = entries, _stacked_rows(entries.shape)
        self.means, self.moments = map(np.concatenate, zip(*posteriors, strict=True))
        n_pairs = math.comb(self.means.shape[1] + 1, 2)
        self.covariances = np.zeros((len(self.means), n_pairs), self.means.dtype)

    def sums(
        self, mode: int, rows: slice
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Expected sums over the entries of some rows of a mode; see `RowFit.sums`."""
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
        """Predictions of the entries of some rows; see `RowFit.fitted_values`."""
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

    def model(self, scale: float) -> StructuredCP:
        """The fitted model, with its values multiplied by `scale`."""
        shape, fixed = self.entries.shape, self.fixed
        # Every column is multiplied in the first mode in which it is free.
        factor = np.ones(fixed.shape)
        factor[np.argmin(fixed, axis=0), np.arange(fixed.shape[1])] = scale
        n_rows = sum(shape) + len(shape)
        model = StructuredCP(
            shape,
            fixed,
            np.empty((n_rows, self.means.shape[1]), self.means.dtype),
            np.empty((n_rows, self.covariances.shape[1]), self.means.dtype),
            self.prior_mean * factor,
            self.precision / factor**2,
            self.tie / factor**2,
            self.noise * scale**2,
            self._model_weights(),
        )
        for mode, r in enumerate(model.rows):
            self.write_rows(mode, factor[mode], model.means[r], model.covariances[r])
        return model

    def _model_weights(self) -> NDArray[np.float64] | None:
        """Weights of the rows of the first mode and, last, of an unknown row."""
        weights = (
            self.row_weights if self.stated_weights is None else self.stated_weights
        )
        return None if weights is None else np.append(weights, 1.0)


def _stacked_rows(shape: Sequence[int]) -> list[slice]:
    """The slice of every mode among the stacked rows of all modes."""
    return [slice(*ends) for ends in pairwise(np.cumsum([0, *shape]).tolist())]
