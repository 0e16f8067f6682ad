"""New observations for a fitted structured CP, whose posterior becomes their prior."""

import numpy as np

from ._algebra import packed_squares
from ._entries import SparseEntries
from ._structured_cp import StructuredCP
from ._variational import _Fit

__all__ = ["update_structured_cp"]


def update_structured_cp(
    model, coordinates, values, *, max_iter, noise_variance=None, n_threads=1
):
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
    grown = np.maximum(model.shape, coordinates.max(axis=0) + 1).tolist()
    model = _grow(model, tuple(grown))
    # The rows that the observations touch are a small tensor of their own.
    local, touched = np.empty_like(coordinates, order="F"), []
    for mode, r in enumerate(model.rows):
        seen, local[:, mode] = np.unique(coordinates[:, mode], return_inverse=True)
        touched.append(seen + r.start)
    shape = tuple(len(t) for t in touched)
    touched = np.concatenate(touched)
    entries = SparseEntries(local, values.astype(model.means.dtype), shape)
    nothing = np.zeros(model.held.shape)
    fit = _Fit(entries, model.held, nothing, nothing, nothing)
    noise = model.noise_variance if noise_variance is None else noise_variance
    fit.start(model.means[touched], model.covariances[touched], noise)
    fit.known = [
        _as_sums(fit.means[r], model.covariances[touched][r], ~held, fit.noise)
        for r, held in zip(fit.rows, model.held, strict=True)
    ]
    fit.sweep(max_iter, n_threads)
    means, covariances = model.means.copy(), model.covariances.copy()
    means[touched] = fit.means
    covariances[touched] = fit.covariances
    return StructuredCP(
        model.shape, model.held, means, covariances,
        model.prior_mean, model.precision, model.tie, model.noise_variance,
    )  # fmt: skip


def _grow(model, shape):
    """The model for a larger shape: new rows are as the prior has them."""
    if shape == model.shape:
        return model
    means, covariances = [], []
    for mode, (r, size) in enumerate(zip(model.rows, shape, strict=True)):
        mean, covariance = model.means[r], model.covariances[r]
        n_new = size - len(mean) + 1
        new_mean = np.repeat(mean[-1:], n_new, axis=0)
        new_covariance = np.repeat(covariance[-1:], n_new, axis=0)
        if model.tie[mode].any():
            # Each new row is tied to the one before it, and that to the last row.
            total = model.precision[mode] + model.tie[mode]
            weight = model.tie[mode] / total
            pull = packed_squares(weight[np.newaxis])[0]
            last_mean, last_covariance = mean[-2], covariance[-2]
            own = np.zeros(covariance.shape[1])
            diagonal = np.flatnonzero(np.equal(*np.triu_indices(len(weight))))
            own[diagonal] = np.where(model.held[mode], 0.0, 1 / total)
            for row in range(n_new):
                prior = model.prior_mean[mode]
                last_mean = np.where(
                    model.held[mode], prior, prior + weight * (last_mean - prior)
                )
                last_covariance = pull * last_covariance + own
                new_mean[row], new_covariance[row] = last_mean, last_covariance
        means += [mean[:-1], new_mean, mean[-1:]]
        covariances += [covariance[:-1], new_covariance, covariance[-1:]]
    return StructuredCP(
        shape, model.held, np.concatenate(means), np.concatenate(covariances),
        model.prior_mean, model.precision, model.tie, model.noise_variance,
    )  # fmt: skip


def _as_sums(means, covariances, free, noise):
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
    values = np.maximum(values, max(1e-9, 10 * np.finfo(covariances.dtype).eps))
    precision = (vectors / values[:, np.newaxis]) @ vectors.transpose(0, 2, 1) / outer
    full[:] = 0.0
    at = np.flatnonzero(free)
    full[:, at[:, np.newaxis], at] = noise * precision
    projection = np.zeros(means.shape)
    projection[:, at] = noise * np.einsum("rab,rb->ra", precision, means[:, at])
    return full[:, *pairs], projection
