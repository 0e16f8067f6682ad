"""Small tensors, fits to them, and what is packed of their rows."""

import math
from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag
from sklearn.metrics import root_mean_squared_error

from sktensordp.tensor import (
    Observations,
    fit_cp,
    mode_products,
    rescaled,
)
from tests.support.seams import packed as rows_packed
from tests.support.seams import unpacked as rows_unpacked


def random_problem(shape, n, seed=0):
    """Coordinates, which may recur, and values."""
    rng = np.random.default_rng(seed)
    coordinates = np.column_stack([rng.integers(0, s, n) for s in shape])
    return coordinates.astype(np.int32), rng.standard_normal(n)


def low_rank(shape, rank, share, seed):
    """A complete tensor of variance one, and a mask of its observed entries.

    Factors, and the core of a Tucker, are standard normal. A number as the rank is that
    of a CP.
    """
    rng = np.random.default_rng(seed)
    ranks = (rank,) * len(shape) if isinstance(rank, int) else rank
    factors = [rng.standard_normal(size) for size in zip(shape, ranks, strict=True)]
    if isinstance(rank, int):
        core = np.zeros(ranks)
        core[(np.arange(rank),) * len(shape)] = 1.0
    else:
        core = rng.standard_normal(ranks)
    truth = mode_products(core[np.newaxis], factors)[0]
    truth /= truth.std()
    return truth, rng.random(shape) < share


def everywhere(shape):
    """All coordinates of a tensor, and those that have unknown rows."""
    return np.argwhere(np.ones(np.array(shape) + 1)).astype(np.int32) - 1


def dense_of(X, y, shape):
    """A tensor of these values; NaN where nothing was observed."""
    tensor = np.full(shape, np.nan, y.dtype)
    tensor[tuple(X.T)] = y
    return tensor


def fitted_in(way, model, X, y, *cuts):
    """A completion that has seen entries in some way.

    Batches, and the calls of partial_fit, are what is between the cuts.
    """
    if way == "dense":
        return model.fit(dense_of(X, y, model.shape or X.max(axis=0) + 1))
    parts = [*zip(np.split(X, cuts), np.split(y, cuts), strict=True)]
    if way == "fit_batches":
        return model.fit_batches(parts)
    if way == "partial_fit":
        for part in parts:
            model.partial_fit(*part)
        return model
    return model.fit(X, y)


def error_on(test, model, X, y):
    """Root mean squared error on entries of which a fit to the others knows nothing."""
    predicted = model.fit(X[~test], y[~test]).predict(X[test])
    return root_mean_squared_error(y[test], predicted)


def unpacked(packed):
    """Symmetric matrices from their upper triangles."""
    size = math.isqrt(2 * packed.shape[1])
    first, second = np.triu_indices(size)
    full = np.empty((len(packed), size, size))
    full[:, first, second] = full[:, second, first] = packed
    return full


def fit_of(coordinates, values, shape, *, scale=1.0, smooth_modes=(), **options):
    """A fit of a CP to values, which are divided by `scale`, and its sweeps."""
    used = [np.arange(n) if m in smooth_modes else None for m, n in enumerate(shape)]
    options = {"rank": 2, "biases": True, "noise_floor": 0.0, **options}
    rows, n_iter = fit_cp(
        Observations.from_arrays(coordinates, values / scale, used), shape=shape,
        smooth_modes=smooth_modes, **{"max_iter": 40, **options},
    )  # fmt: skip
    return rescaled(rows, scale), n_iter


def with_random_rows(rows, rng, dtype=float):
    """The same but for random means, covariances and precisions."""
    for mode, means in enumerate(rows.means):
        n_free = len(rows.free[mode])
        roots = 0.3 * rng.standard_normal((len(means), n_free, n_free + 1))
        means = np.where(rows.fixed[mode], means, rng.standard_normal(means.shape))
        covariances = rows_packed(roots @ roots.transpose(0, 2, 1))
        rows = rows.with_mode(mode, means.astype(dtype), covariances.astype(dtype))
    return replace(rows, precision=rng.uniform(0.5, 2, rows.precision.shape))


def covariance_of(rows, mode):
    """Covariances of all columns of a mode's rows; zero where they are known."""
    free, size = rows.free[mode], rows.fixed.shape[1]
    found = np.zeros((len(rows.means[mode]), size, size))
    own = rows_unpacked(rows.covariances[mode], len(free))
    found[:, free[:, np.newaxis], free] = own
    return found


def moment_of(rows, mode, r):
    """Mean of the outer square of a row."""
    own = rows.means[mode][r].astype(float)
    return np.outer(own, own) + covariance_of(rows, mode)[r]


def row_by_hand(rows, mode, r, gram, projection):
    """Mean and covariance of a row by its normal equations.

    Parameters
    ----------
    rows : Rows
        Those before the update.
    mode, r : int
    gram : ndarray
        Sum of the mean outer squares of the regressors of its entries.
    projection : ndarray
        Sum of their means times the values.
    """
    free, fixed = rows.free[mode], np.flatnonzero(rows.fixed[mode])
    row = rows.means[mode][r].astype(float)
    prior = np.diag(rows.precision[mode, free])
    precision = gram[np.ix_(free, free)] / rows.noise + prior
    shift = projection[free] - gram[np.ix_(free, fixed)] @ row[fixed]
    shift = shift / rows.noise + prior @ rows.prior_mean[mode, free]
    covariance = np.zeros_like(gram)
    row[free] = np.linalg.solve(precision, shift)
    covariance[np.ix_(free, free)] = np.linalg.inv(precision)
    return row, covariance


def laplacian(n):
    """Of a path: the matrix of the sum of squared differences of neighbours."""
    differences = np.diff(np.eye(n), axis=0)
    return differences.T @ differences


def chain_by_hand(precision, shift, tie):
    """Mean and covariance of tied rows, by the inverse of the whole matrix.

    Parameters
    ----------
    precision : array-like of shape (n_rows, n_columns, n_columns)
        Those of the rows without ties.
    shift : ndarray of shape (n_rows, n_columns)
        These times the means.
    tie : ndarray of shape (n_columns,)

    Returns
    -------
    mean : ndarray of shape (n_rows, n_columns)
    covariance : ndarray of shape (n_rows, n_columns, n_rows, n_columns)
    """
    n_rows, n_columns = shape = shift.shape
    whole = block_diag(*precision) + np.kron(laplacian(n_rows), np.diag(tie))
    covariance = np.linalg.inv(whole)
    mean = (covariance @ shift.ravel()).reshape(shape)
    return mean, covariance.reshape(n_rows, n_columns, n_rows, n_columns)
