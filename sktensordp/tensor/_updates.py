"""Updates of a fitted model by new observations, with its posterior as the prior."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._algebra import diagonal, packed_squares
from ._grouped import SparseEntries
from ._row_fit import RowFit
from ._tucker import StructuredTucker
from ._tucker_fit import TuckerFit


def update_structured_tucker(
    model: StructuredTucker,
    coordinates: NDArray[np.integer],
    values: NDArray[np.floating],
    *,
    max_iter: int,
    noise_variance: float | None = None,
    n_threads: int = 1,
) -> StructuredTucker:
    """Update a model by new observations; its core does not change.

    Parameters
    ----------
    model : StructuredTucker
    coordinates, values, max_iter, noise_variance, n_threads
        See `updated`; `max_iter` is the number of sweeps.

    Returns
    -------
    model : StructuredTucker
    """
    model = _grow_tucker(model, _grown_shape(model, coordinates))
    entries, touched = _touched_rows(model, coordinates, values, model.core.dtype)
    # A flat prior, since the posterior of the model takes its place.
    flat = [np.zeros(size) for size in model.columns.sizes]
    fit = TuckerFit(
        entries,
        model.columns,
        flat,
        flat,
        flat,
        model.core[model.columns.free_core],
    )
    fit.learns_core = False
    noise = model.noise_variance if noise_variance is None else noise_variance
    fit.start(
        [m[at] for m, at in zip(model.means, touched, strict=True)],
        [c[at] for c, at in zip(model.covariances, touched, strict=True)],
        noise,
    )
    _sweep_from_posterior(fit, max_iter, n_threads)
    means = [m.copy() for m in model.means]
    covariances = [c.copy() for c in model.covariances]
    for mode, at in enumerate(touched):
        means[mode][at], covariances[mode][at], _ = fit.posterior(mode)
    return dataclasses.replace(model, means=means, covariances=covariances)


def _grown_shape(
    model: StructuredTucker, coordinates: NDArray[np.integer]
) -> tuple[int, ...]:
    """The least shape that includes the model's and all coordinates."""
    grown = np.maximum(model.shape, coordinates.max(axis=0) + 1)
    return tuple(grown.tolist())


def _touched_rows(
    model: StructuredTucker,
    coordinates: NDArray[np.integer],
    values: NDArray[np.floating],
    dtype: np.dtype,
) -> tuple[SparseEntries, list[NDArray[np.integer]]]:
    """The observations as a small tensor of the rows they touch, and these rows."""
    renumbered, touched = np.empty_like(coordinates, order="F"), []
    for mode in range(len(model.shape)):
        index = coordinates[:, mode]
        rows, renumbered[:, mode] = np.unique(index, return_inverse=True)
        touched.append(rows)
    shape = tuple(len(rows) for rows in touched)
    return SparseEntries(renumbered, values.astype(dtype), shape), touched


def _sweep_from_posterior(fit: RowFit, max_iter: int, n_threads: int) -> None:
    """Sweep with the posterior that the fit started from as the prior."""
    fit.earlier_sums = []
    for mode, fixed in enumerate(fit.fixed):
        means, covariances, _ = fit.posterior(mode)
        sums = _equivalent_sums(means, covariances, ~fixed, fit.noise)
        fit.earlier_sums.append(sums)
    fit.run_sweeps(max_iter, n_threads)


def _grow_tucker(model: StructuredTucker, shape: tuple[int, ...]) -> StructuredTucker:
    """The model with a larger shape; new rows get the distribution of the prior."""
    grown = map(
        _grow_rows,
        model.means,
        model.covariances,
        shape,
        model.fixed,
        model.prior_mean,
        model.precision,
        model.tie,
    )
    means, covariances = map(list, zip(*grown, strict=True))
    return dataclasses.replace(model, shape=shape, means=means, covariances=covariances)


def _grow_rows(
    mean: NDArray[np.floating],
    covariance: NDArray[np.floating],
    size: int,
    fixed: NDArray[np.bool_],
    prior_mean: NDArray[np.float64],
    precision: NDArray[np.float64],
    tie: NDArray[np.float64],
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Means and covariances of a mode with `size` rows, and of the unknown row."""
    n_new = size - len(mean) + 1
    new_mean = np.repeat(mean[-1:], n_new, axis=0)
    new_covariance = np.repeat(covariance[-1:], n_new, axis=0)
    if tie.any():
        # Every new row is tied to the row before it, the first of them to the last
        # row of the model.
        total = precision + tie
        weight = tie / total
        pull = packed_squares(weight[np.newaxis])[0]
        last_mean, last_covariance = mean[-2], covariance[-2]
        step_covariance = np.zeros(covariance.shape[1])
        variance = np.where(fixed, 0.0, 1 / total)
        step_covariance[diagonal(len(weight))] = variance
        for row in range(n_new):
            last_mean = np.where(
                fixed, prior_mean, prior_mean + weight * (last_mean - prior_mean)
            )
            last_covariance = pull * last_covariance + step_covariance
            new_mean[row], new_covariance[row] = last_mean, last_covariance
    return (
        np.concatenate([mean[:-1], new_mean, mean[-1:]]),
        np.concatenate([covariance[:-1], new_covariance, covariance[-1:]]),
    )


def _equivalent_sums(
    means: NDArray[np.floating],
    covariances: NDArray[np.floating],
    free: NDArray[np.bool_],
    noise: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums over entries that give the rows these posteriors under a flat prior.

    Returns
    -------
    gram : ndarray of shape (n_rows, P)
    projection : ndarray of shape (n_rows, Q)
        Zero in fixed columns.
    """
    size = means.shape[1]
    pairs = np.triu_indices(size)
    full = np.empty((len(means), size, size))
    full[:, *pairs] = full[:, *pairs[::-1]] = covariances
    block = full[:, free][:, :, free]
    # Scale the columns to variance one. Rounding may have made eigenvalues negative.
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
