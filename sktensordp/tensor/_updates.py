"""New observations for a fitted model, whose posterior becomes their prior."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._algebra import packed_squares
from ._cp import StructuredCP
from ._cp_fit import _Fit
from ._entries import SparseEntries
from ._row_fit import RowFit
from ._tucker import StructuredTucker
from ._tucker_fit import _TuckerFit

__all__ = ["update_structured_cp", "update_structured_tucker"]


def update_structured_cp(
    model: StructuredCP,
    coordinates: NDArray[np.integer],
    values: NDArray[np.floating],
    *,
    max_iter: int,
    noise_variance: float | None = None,
    n_threads: int = 1,
) -> StructuredCP:
    """Take new observations into a model, whose posterior is the prior of what follows.

    Parameters
    ----------
    model : StructuredCP
    coordinates : ndarray of shape (n, n_modes), int32
        Beyond the model's shape, it grows.
    values : ndarray of shape (n,)
        Without the offset.
    max_iter : int
        Number of sweeps over the modes.
    noise_variance : float, default=None
        Variance of the new observations around the model; the model's by default.
    n_threads : int, default=1

    Returns
    -------
    model : StructuredCP
    """
    model = _grow_cp(model, _grown_shape(model, coordinates))
    entries, touched = _touched(model, coordinates, values, model.means.dtype)
    at = np.concatenate([t + r.start for t, r in zip(touched, model.rows, strict=True)])
    nothing = np.zeros(model.fixed.shape)
    fit = _Fit(entries, model.fixed, nothing, nothing, nothing)
    noise = model.noise_variance if noise_variance is None else noise_variance
    fit.start(model.means[at], model.covariances[at], noise)
    _go_on(fit, max_iter, n_threads)
    means, covariances = model.means.copy(), model.covariances.copy()
    means[at] = fit.means
    covariances[at] = fit.covariances
    return dataclasses.replace(model, means=means, covariances=covariances)


def update_structured_tucker(
    model: StructuredTucker,
    coordinates: NDArray[np.integer],
    values: NDArray[np.floating],
    *,
    max_iter: int,
    noise_variance: float | None = None,
    n_threads: int = 1,
) -> StructuredTucker:
    """Take new observations into a model; its core stays as it is.

    Parameters
    ----------
    model : StructuredTucker
    coordinates, values, max_iter, noise_variance, n_threads
        See `update_structured_cp`.

    Returns
    -------
    model : StructuredTucker
    """
    model = _grow_tucker(model, _grown_shape(model, coordinates))
    entries, touched = _touched(model, coordinates, values, model.core.dtype)
    nothing = [np.zeros(size) for size in model.columns.sizes]
    fit = _TuckerFit(
        entries, model.columns, nothing, nothing, nothing,
        model.core[model.columns.free_core],
    )  # fmt: skip
    fit.learns_core = False
    noise = model.noise_variance if noise_variance is None else noise_variance
    fit.start(
        [m[at] for m, at in zip(model.means, touched, strict=True)],
        [c[at] for c, at in zip(model.covariances, touched, strict=True)], noise,
    )  # fmt: skip
    _go_on(fit, max_iter, n_threads)
    means = [m.copy() for m in model.means]
    covariances = [c.copy() for c in model.covariances]
    for mode, at in enumerate(touched):
        means[mode][at], covariances[mode][at], _ = fit.posterior(mode)
    return dataclasses.replace(model, means=means, covariances=covariances)


def _grown_shape(
    model: StructuredCP | StructuredTucker, coordinates: NDArray[np.integer]
) -> tuple[int, ...]:
    grown = np.maximum(model.shape, coordinates.max(axis=0) + 1)
    return tuple(grown.tolist())


def _touched(
    model: StructuredCP | StructuredTucker,
    coordinates: NDArray[np.integer],
    values: NDArray[np.floating],
    dtype: np.dtype,
) -> tuple[SparseEntries, list[NDArray[np.integer]]]:
    """The observations as a small tensor of the rows that they touch, and these."""
    local, touched = np.empty_like(coordinates, order="F"), []
    for mode in range(len(model.shape)):
        seen, local[:, mode] = np.unique(coordinates[:, mode], return_inverse=True)
        touched.append(seen)
    shape = tuple(len(t) for t in touched)
    return SparseEntries(local, values.astype(dtype), shape), touched


def _go_on(fit: RowFit, max_iter: int, n_threads: int) -> None:
    """Sweeps under the posterior that a fit has started from, as its prior."""
    fit.known = []
    for mode, fixed in enumerate(fit.fixed):
        means, covariances, _ = fit.posterior(mode)
        fit.known.append(_as_sums(means, covariances, ~fixed, fit.noise))
    fit.go_on(max_iter, n_threads)


def _grow_cp(model: StructuredCP, shape: tuple[int, ...]) -> StructuredCP:
    """The model for a larger shape: new rows are as the prior has them."""
    grown = [
        _grow(
            model.means[r], model.covariances[r], size, model.fixed[mode],
            model.prior_mean[mode], model.precision[mode], model.tie[mode],
        )
        for mode, (r, size) in enumerate(zip(model.rows, shape, strict=True))
    ]  # fmt: skip
    means, covariances = map(np.concatenate, zip(*grown, strict=True))
    return dataclasses.replace(model, shape=shape, means=means, covariances=covariances)


def _grow_tucker(model: StructuredTucker, shape: tuple[int, ...]) -> StructuredTucker:
    """The model for a larger shape; see `_grow_cp`."""
    grown = map(
        _grow, model.means, model.covariances, shape, model.fixed, model.prior_mean,
        model.precision, model.tie,
    )  # fmt: skip
    means, covariances = map(list, zip(*grown, strict=True))
    return dataclasses.replace(model, shape=shape, means=means, covariances=covariances)


def _grow(
    mean: NDArray[np.floating],
    covariance: NDArray[np.floating],
    size: int,
    fixed: NDArray[np.bool_],
    prior_mean: NDArray[np.float64],
    precision: NDArray[np.float64],
    tie: NDArray[np.float64],
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Means and covariances of a mode with so many rows, and the additional one."""
    n_new = size - len(mean) + 1
    new_mean = np.repeat(mean[-1:], n_new, axis=0)
    new_covariance = np.repeat(covariance[-1:], n_new, axis=0)
    if tie.any():
        # Each new row is tied to the one before it, and that to the last row.
        total = precision + tie
        weight = tie / total
        pull = packed_squares(weight[np.newaxis])[0]
        last_mean, last_covariance = mean[-2], covariance[-2]
        own = np.zeros(covariance.shape[1])
        diagonal = np.flatnonzero(np.equal(*np.triu_indices(len(weight))))
        own[diagonal] = np.where(fixed, 0.0, 1 / total)
        for row in range(n_new):
            last_mean = np.where(
                fixed, prior_mean, prior_mean + weight * (last_mean - prior_mean)
            )
            last_covariance = pull * last_covariance + own
            new_mean[row], new_covariance[row] = last_mean, last_covariance
    return (
        np.concatenate([mean[:-1], new_mean, mean[-1:]]),
        np.concatenate([covariance[:-1], new_covariance, covariance[-1:]]),
    )


def _as_sums(
    means: NDArray[np.floating],
    covariances: NDArray[np.floating],
    free: NDArray[np.bool_],
    noise: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums over entries that would give rows these posteriors under a flat prior."""
    size = means.shape[1]
    pairs = np.triu_indices(size)
    full = np.empty((len(means), size, size))
    full[:, *pairs] = full[:, *pairs[::-1]] = covariances
    block = full[:, free][:, :, free]
    # Columns have units of their own; rounding may have made eigenvalues negative.
    units = np.sqrt(np.maximum(np.einsum("raa->ra", block), 1e-300))
    outer = units[:, :, np.newaxis] * units[:, np.newaxis, :]
    values, vectors = np.linalg.eigh(block / outer)
    eps: Any = np.finfo(covariances.dtype).eps
    values = np.maximum(values, max(1e-9, 10 * eps))
    precision = (vectors / values[:, np.newaxis]) @ vectors.transpose(0, 2, 1) / outer
    full[:] = 0.0
    at = np.flatnonzero(free)
    full[:, at[:, np.newaxis], at] = noise * precision
    projection = np.zeros(means.shape)
    projection[:, at] = noise * np.einsum("rab,rb->ra", precision, means[:, at])
    return full[:, *pairs], projection
