"""Variational fit of a structured CP to observed entries.

Every free column has a Gaussian prior whose precision is learned from the values
(empirical Bayes), as is the variance of the observations around the model; the rows'
posteriors are Gaussian with full covariance over the columns of the row (mean-field
over rows, but for the modes in which neighbours are tied). What it learns is how much
to shrink, so that there is no regularisation to tune and a rank that is too large does
no harm.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ._algebra import packed_squares
from ._cp import StructuredCP, cp_columns
from ._entries import DenseEntries, Entries, SparseEntries
from ._row_fit import RowFit, start_rows

__all__ = ["continue_structured_cp", "fit_structured_cp", "least_noise"]


def fit_structured_cp(
    entries: Entries,
    *,
    rank: int,
    biases: bool,
    value_scale: float,
    noise_floor: float,
    max_iter: int,
    smooth_modes: Collection[int] = (),
    features: NDArray[np.floating] | None = None,
    n_point_sweeps: int = 0,
    n_threads: int = 1,
    on_sweep: Callable[[int], Any] | None = None,
) -> tuple[StructuredCP, int]:
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
    floor = least_noise(entries, noise_floor, value_scale)
    fit = entries.fit_class(_Fit)(
        entries, *cp_columns(len(shape), rank, biases, smooth_modes, features), features
    )
    fit.noise = float(max(entries.energy / entries.n_entries, floor))
    n_iter = fit.learn(
        max_iter=max_iter, noise_floor=floor, n_threads=n_threads, on_sweep=on_sweep,
        n_point_sweeps=n_point_sweeps,
    )  # fmt: skip
    return fit.model(value_scale), n_iter


def continue_structured_cp(
    model: StructuredCP, entries: Entries, *, max_iter: int, n_threads: int = 1
) -> StructuredCP:
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
    fit = entries.fit_class(_Fit)(
        entries, model.fixed, model.prior_mean, model.precision, model.tie
    )
    fit.start(model.means[known], model.covariances[known], model.noise_variance)
    fit.go_on(max_iter, n_threads)
    return fit.model(1.0)


def least_noise(entries: Entries, noise_floor: float, value_scale: float) -> float:
    """Smallest variance of observations, on the scale of the entries.

    What rounding leaves of the values must not be fitted.
    """
    eps: Any = np.finfo(entries.dtype).eps
    return max(noise_floor / value_scale**2, 1e-9, 16 * eps)


class _Fit(RowFit):
    """The state of a fit: posterior, prior and noise."""

    def __init__(
        self,
        entries: Entries,
        fixed: NDArray[np.bool_],
        prior_mean: NDArray[np.float64],
        precision: NDArray[np.float64],
        tie: NDArray[np.float64],
        features: NDArray[np.floating] | None = None,
    ) -> None:
        n_columns = fixed.shape[1]
        # The last columns are those of the features.
        n_features = 0 if features is None else features.shape[1]
        weights = slice(n_columns - n_features, n_columns)
        is_bias = np.broadcast_to((~fixed).sum(axis=0) == 1, fixed.shape)
        super().__init__(entries, fixed, prior_mean, precision, tie, is_bias, weights)
        offsets = np.cumsum([0, *entries.shape]).tolist()
        self.rows = [slice(*ends) for ends in pairwise(offsets)]
        means = np.concatenate(start_rows(entries.shape, fixed, prior_mean))
        self.means: NDArray[np.floating] = means.astype(entries.dtype)
        if features is not None and n_features:
            self.means[self.rows[0], weights] = 0.0
            self.means[self.rows[1], weights] = features[:-1]
        n_pairs = n_columns * (n_columns + 1) // 2
        self.covariances: NDArray[np.floating] = np.zeros(
            (len(self.means), n_pairs), entries.dtype
        )
        self.moments: NDArray[np.floating] | None = None

    def start(
        self,
        means: NDArray[np.floating],
        covariances: NDArray[np.floating],
        noise: float,
    ) -> None:
        """Start from a posterior; the noise stays as it is."""
        self.means, self.covariances, self.noise = means, covariances, noise
        self.moments = packed_squares(means) + covariances

    def posterior(
        self, mode: int
    ) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]:
        """Means, covariances and second moments of the rows of a mode."""
        r = self.rows[mode]
        moments = np.empty((0, 0), self.means.dtype)
        if self.moments is not None:
            moments = self.moments[r]
        return self.means[r], self.covariances[r], moments

    def take_covariances(self) -> None:
        """From here on rows have covariances."""
        self.moments = packed_squares(self.means)

    def place(
        self,
        entries: Entries,
        posteriors: Sequence[tuple[NDArray[np.floating], NDArray[np.floating]]],
    ) -> None:
        """Take entries, and means and second moments by mode; no covariances."""
        offsets = np.cumsum([0, *entries.shape]).tolist()
        self.entries, self.rows = entries, [slice(*ends) for ends in pairwise(offsets)]
        self.means, self.moments = map(np.concatenate, zip(*posteriors, strict=True))
        self.covariances = np.zeros_like(self.moments)

    def sums(
        self, mode: int, part: slice
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Expected sums over the entries of some rows of a mode."""
        entries = cast("SparseEntries | DenseEntries", self.entries)
        return entries.sums(
            mode, part.start, part.stop, self.rows, self.means, self.moments
        )

    def model(self, scale: float) -> StructuredCP:
        """The fitted model, its values multiplied by `scale`."""
        shape, fixed = self.entries.shape, self.fixed
        # One mode of every column brings the values back to their scale.
        factor = np.ones(fixed.shape)
        factor[np.argmin(fixed, axis=0), np.arange(fixed.shape[1])] = scale
        n_rows = sum(shape) + len(shape)
        model = StructuredCP(
            shape, fixed,
            np.empty((n_rows, self.means.shape[1]), self.means.dtype),
            np.empty((n_rows, self.covariances.shape[1]), self.means.dtype),
            self.prior_mean * factor, self.precision / factor**2,
            self.tie / factor**2, self.noise * scale**2,
        )  # fmt: skip
        for mode, r in enumerate(model.rows):
            self.write_rows(mode, factor[mode], model.means[r], model.covariances[r])
        return model
