"""Compiled kernels of the structured CP. Importing this module imports numba.

The kernels release the interpreter's lock and work on a range of rows, so that
ordinary threads share a sweep; there is no thread pool of numba's to collide with
forks or with other threads. A row's result does not depend on the ranges.
"""

import numba
import numpy as np

__all__ = ["update_rows"]


@numba.njit(nogil=True, cache=True)
def _posterior(precision, shift, covariance):
    """In place: `shift` becomes the mean, `covariance` the inverse of `precision`.

    By Cholesky; `precision` is overwritten by its factor.
    """
    n = shift.size
    for i in range(n):
        # Rounding must not make the pivot of a nearly singular system vanish.
        least = 1e-13 * precision[i, i]
        for j in range(i + 1):
            s = precision[i, j]
            for k in range(j):
                s -= precision[i, k] * precision[j, k]
            precision[i, j] = np.sqrt(max(s, least)) if i == j else s / precision[j, j]
    for c in range(n):
        # Column c of the inverse of the factor, stored in row c.
        for i in range(c):
            covariance[c, i] = 0.0
        for i in range(c, n):
            s = 1.0 if i == c else 0.0
            for k in range(c, i):
                s -= precision[i, k] * covariance[c, k]
            covariance[c, i] = s / precision[i, i]
    for i in range(n):
        for j in range(i + 1):
            s = 0.0
            for k in range(i, n):
                s += covariance[i, k] * covariance[j, k]
            precision[i, j] = s
    for i in range(n):
        for j in range(i + 1):
            covariance[i, j] = precision[i, j]
            covariance[j, i] = precision[i, j]
    for i in range(n):
        s = 0.0
        for j in range(n):
            s += covariance[i, j] * shift[j]
        precision[i, i] = s
    for i in range(n):
        shift[i] = precision[i, i]


@numba.njit(nogil=True, cache=True)
def update_rows(
    first,
    last,
    starts,
    others,
    values,
    means,
    moments,
    row_means,
    row_moments,
    free,
    prior_mean,
    prior_precision,
    noise_variance,
    squared_error,
):
    """Posterior of the rows [first, last) of one mode, given the other modes.

    Parameters
    ----------
    first, last : int
        Range of rows.
    starts : ndarray of shape (n_rows + 1,)
        Entries of row r are starts[r] to starts[r + 1].
    others : ndarray of shape (n_entries, n_modes - 1)
        Rows of `means` and `moments` that the entry meets in the other modes.
    values : ndarray of shape (n_entries,)
        Observed values without the offset, grouped by row like `others`.
    means, moments : ndarray of shape (n_all_rows, Q), (n_all_rows, Q, Q)
        First and second moments of the rows of all modes.
    row_means, row_moments : ndarray of shape (n_rows, Q), (n_rows, Q, Q)
        Those of the mode that is updated; written.
    free : ndarray of shape (F,)
        Columns of this mode that are not held at one.
    prior_mean, prior_precision : ndarray of shape (Q,)
        Prior of the free columns.
    noise_variance : float
        Variance of an observation around the model.
    squared_error : ndarray of shape (n_rows,)
        Written: expected squared error of the row's entries under the posterior.
    """
    n_columns = means.shape[1]
    n_others = others.shape[1]
    n_free = free.size
    gram = np.empty((n_columns, n_columns))
    projection = np.empty(n_columns)
    mean = np.empty(n_columns)
    moment = np.empty((n_columns, n_columns))
    precision = np.empty((n_free, n_free))
    covariance = np.empty((n_free, n_free))
    shift = np.empty(n_free)
    for r in range(first, last):
        gram[:] = 0.0
        projection[:] = 0.0
        energy = 0.0
        for e in range(starts[r], starts[r + 1]):
            value = values[e]
            energy += value * value
            if n_others == 1:
                o = others[e, 0]
                for a in range(n_columns):
                    projection[a] += value * means[o, a]
                    for b in range(n_columns):
                        gram[a, b] += moments[o, a, b]
            else:
                mean[:] = means[others[e, 0]]
                moment[:] = moments[others[e, 0]]
                for m in range(1, n_others):
                    o = others[e, m]
                    for a in range(n_columns):
                        mean[a] *= means[o, a]
                        for b in range(n_columns):
                            moment[a, b] *= moments[o, a, b]
                for a in range(n_columns):
                    projection[a] += value * mean[a]
                    for b in range(n_columns):
                        gram[a, b] += moment[a, b]
        # Precision and shift of the free columns; those held at one move over to
        # the right-hand side.
        for x in range(n_free):
            a = free[x]
            s = projection[a]
            z = 0
            for b in range(n_columns):
                if z < n_free and free[z] == b:
                    precision[x, z] = gram[a, b] / noise_variance
                    z += 1
                else:
                    s -= gram[a, b]
            precision[x, x] += prior_precision[a]
            shift[x] = s / noise_variance + prior_precision[a] * prior_mean[a]
        _posterior(precision, shift, covariance)
        for x in range(n_free):
            row_means[r, free[x]] = shift[x]
        for a in range(n_columns):
            for b in range(n_columns):
                row_moments[r, a, b] = row_means[r, a] * row_means[r, b]
        for x in range(n_free):
            for z in range(n_free):
                row_moments[r, free[x], free[z]] += covariance[x, z]
        fitted = 0.0
        for a in range(n_columns):
            fitted -= 2.0 * projection[a] * row_means[r, a]
            for b in range(n_columns):
                fitted += gram[a, b] * row_moments[r, a, b]
        squared_error[r] = energy + fitted
