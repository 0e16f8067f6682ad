"""Compiled kernels over coordinates. Importing this module imports numba.

The kernels release the interpreter's lock and work on a range of rows, so that ordinary
threads can share a sweep; numba's own thread pool, which would collide with forks and
with other threads, is not used. The result of a row does not depend on the ranges.

Symmetric matrices of size Q are packed as upper triangles, row by row, into vectors of
length Q (Q + 1) / 2. Sums over `CHUNK` entries use the type of the data; sums over
chunks use double precision.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

CHUNK = 256
# Sums may be reordered, so that they use vector instructions; NaN and infinity keep
# their meaning.
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract"}}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function on its first call; cache it on disk if that is writable."""
    try:
        return numba.njit(function, cache=True, **_OPTIONS)
    except RuntimeError:
        return numba.njit(function, **_OPTIONS)


@compiled
def counting_sort(
    index: NDArray[np.integer],
    previous: NDArray[np.integer],
    starts: NDArray[np.int64],
    order: NDArray[np.integer],
) -> None:
    """Sort positions by their index, stably, starting from the order `previous`.

    Parameters
    ----------
    index : ndarray of shape (n,), int
        In [0, n_groups).
    previous : ndarray of shape (n,), int
        The order so far.
    starts : ndarray of shape (n_groups + 1,), int
        Zeros on entry. Written: the first place of every group and, last, n.
    order : ndarray of shape (n,), int
        Written.
    """
    for e in range(index.size):
        starts[index[e] + 1] += 1
    for g in range(1, starts.size):
        starts[g] += starts[g - 1]
    place = np.empty(starts.size - 1, np.int64)
    for g in range(place.size):
        place[g] = starts[g]
    for k in range(previous.size):
        e = previous[k]
        order[place[index[e]]] = e
        place[index[e]] += 1


@compiled
def moment_sums(
    first: int,
    last: int,
    starts: NDArray[np.integer],
    others: NDArray[np.integer],
    values: NDArray[np.floating],
    weights: NDArray[np.floating],
    means: NDArray[np.floating],
    moments: NDArray[np.floating],
    gram: NDArray[np.float64],
    projection: NDArray[np.float64],
) -> None:
    """Expected sums of b b^T and y b over the entries of a mode's rows [first, last).

    For an entry with value y, b is the product of its rows in the other modes.

    Parameters
    ----------
    first, last : int
        Range of rows.
    starts : ndarray of shape (n_rows + 1,), int
        The entries of row r are starts[r] to starts[r + 1].
    others : ndarray of shape (n_entries, n_modes - 1), int
        The rows of an entry in the other modes, as rows of `means`.
    values : ndarray of shape (n_entries,)
        y of every entry.
    weights : ndarray of shape (n_all_rows,) or (0,)
        The weight of an entry is the product of those of its rows in the other modes.
        If empty, all weights are one.
    means : ndarray of shape (n_all_rows, Q)
        Means of the rows of all modes.
    moments : ndarray of shape (n_all_rows, Q (Q + 1) / 2)
        Second moments of these rows, which are independent of one another.
    gram : ndarray of shape (last - first, Q (Q + 1) / 2), float64
        Written.
    projection : ndarray of shape (last - first, Q), float64
        Written.
    """
    n_columns, n_pairs = means.shape[1], moments.shape[1]
    n_others = others.shape[1]
    weight = means.dtype.type(1)
    square, pair = np.empty(n_pairs, means.dtype), np.empty(n_pairs, means.dtype)
    product, single = np.empty(n_columns, means.dtype), np.empty(n_columns, means.dtype)
    for r in range(first, last):
        for p in range(n_pairs):
            gram[r - first, p] = 0.0
        for q in range(n_columns):
            projection[r - first, q] = 0.0
        for begin in range(starts[r], starts[r + 1], CHUNK):
            for p in range(n_pairs):
                square[p] = 0.0
            for q in range(n_columns):
                product[q] = 0.0
            for e in range(begin, min(begin + CHUNK, starts[r + 1])):
                if weights.size:
                    weight = weights[others[e, 0]]
                    for m in range(1, n_others):
                        weight *= weights[others[e, m]]
                row = moments[others[e, 0]]
                if n_others == 1:
                    for p in range(n_pairs):
                        square[p] += weight * row[p]
                else:
                    for m in range(1, n_others - 1):
                        other = moments[others[e, m]]
                        for p in range(n_pairs):
                            pair[p] = row[p] * other[p]
                        row = pair
                    other = moments[others[e, n_others - 1]]
                    for p in range(n_pairs):
                        square[p] += weight * row[p] * other[p]
                row, value = means[others[e, 0]], weight * values[e]
                for q in range(n_columns):
                    single[q] = value * row[q]
                for m in range(1, n_others):
                    row = means[others[e, m]]
                    for q in range(n_columns):
                        single[q] *= row[q]
                for q in range(n_columns):
                    product[q] += single[q]
            for p in range(n_pairs):
                gram[r - first, p] += square[p]
            for q in range(n_columns):
                projection[r - first, q] += product[q]


@compiled
def mean_sums(
    first: int,
    last: int,
    starts: NDArray[np.integer],
    others: NDArray[np.integer],
    values: NDArray[np.floating],
    weights: NDArray[np.floating],
    means: NDArray[np.floating],
    squares: NDArray[np.floating],
    gram: NDArray[np.float64],
    projection: NDArray[np.float64],
) -> None:
    """The sums of `moment_sums` for rows whose columns are independent of one another.

    Off its diagonal, E[b b^T] is then the product of means. A matrix product adds these
    up over a chunk of entries.

    With 2 million entries and 18 columns, one thread of an AMD EPYC takes 52 to 79 ns
    an entry. The matrix product takes 25 to 28 of them, and gathering rows 8 (of a mode
    with 10,000 rows) to 40 (50,000). Means and squares side by side in one array gain
    3 to 8%, so they are two.

    Parameters
    ----------
    first, last, starts, others, values, weights, means
        See `moment_sums`.
    squares : ndarray of shape (n_all_rows, Q)
        Expected squares of the rows of all modes.
    gram : ndarray of shape (last - first, Q (Q + 1) / 2), float64
        Written.
    projection : ndarray of shape (last - first, Q), float64
        Written.
    """
    n_columns, n_others = means.shape[1], others.shape[1]
    weight = means.dtype.type(1)
    roots = np.ones(CHUNK, means.dtype)
    met = np.empty((CHUNK, n_columns), means.dtype)
    product = np.empty((n_columns, n_columns), means.dtype)
    second, single = np.empty(n_columns, means.dtype), np.empty(n_columns, means.dtype)
    square = np.empty(n_columns, means.dtype)
    for r in range(first, last):
        for p in range(gram.shape[1]):
            gram[r - first, p] = 0.0
        for q in range(n_columns):
            projection[r - first, q] = 0.0
        for begin in range(starts[r], starts[r + 1], CHUNK):
            end = min(begin + CHUNK, starts[r + 1])
            for q in range(n_columns):
                second[q] = 0.0
                single[q] = 0.0
            # A loop that writes to one array alone uses vector instructions.
            for e in range(begin, end):
                i, k = others[e, 0], e - begin
                if weights.size:
                    weight = weights[i]
                    for m in range(1, n_others):
                        weight *= weights[others[e, m]]
                    roots[k] = np.sqrt(weight)
                if n_others == 1:
                    for q in range(n_columns):
                        met[k, q] = means[i, q]
                    for q in range(n_columns):
                        second[q] += weight * squares[i, q]
                elif n_others == 2:
                    j = others[e, 1]
                    for q in range(n_columns):
                        met[k, q] = means[i, q] * means[j, q]
                    for q in range(n_columns):
                        second[q] += weight * squares[i, q] * squares[j, q]
                else:
                    for q in range(n_columns):
                        met[k, q] = means[i, q]
                    for q in range(n_columns):
                        square[q] = weight * squares[i, q]
                    for m in range(1, n_others):
                        i = others[e, m]
                        for q in range(n_columns):
                            met[k, q] *= means[i, q]
                        for q in range(n_columns):
                            square[q] *= squares[i, q]
                    for q in range(n_columns):
                        second[q] += square[q]
            for k in range(end - begin):
                value = roots[k] * values[begin + k]
                if weights.size:
                    for q in range(n_columns):
                        met[k, q] *= roots[k]
                for q in range(n_columns):
                    single[q] += value * met[k, q]
            np.dot(met[: end - begin].T, met[: end - begin], product)
            p = 0
            for a in range(n_columns):
                projection[r - first, a] += single[a]
                gram[r - first, p] += second[a]
                for b in range(a + 1, n_columns):
                    gram[r - first, p + b - a] += product[a, b]
                p += n_columns - a


@compiled
def fitted_values(
    first: int,
    last: int,
    starts: NDArray[np.integer],
    others: NDArray[np.integer],
    means: NDArray[np.floating],
    own: NDArray[np.floating],
    fitted: NDArray[np.floating],
) -> None:
    """Fitted values of the entries of a mode's rows [first, last).

    Parameters
    ----------
    first, last, starts, others, means
        See `moment_sums`.
    own : ndarray of shape (n_rows, Q)
        Means of the rows of the mode.
    fitted : ndarray of shape (starts[last] - starts[first],)
        Written.
    """
    n_columns, n_others = means.shape[1], others.shape[1]
    product = np.empty(n_columns, means.dtype)
    begin = starts[first]
    for r in range(first, last):
        for e in range(starts[r], starts[r + 1]):
            row = means[others[e, 0]]
            for q in range(n_columns):
                product[q] = own[r, q] * row[q]
            for m in range(1, n_others):
                row = means[others[e, m]]
                for q in range(n_columns):
                    product[q] *= row[q]
            s = means.dtype.type(0)
            for q in range(n_columns):
                s += product[q]
            fitted[e - begin] = s


@compiled
def observations(
    fitted: NDArray[np.floating],
    outputs: NDArray[np.integer],
    low: float,
    step: float,
    table: NDArray[np.float64],
    values: NDArray[np.floating],
    counts: NDArray[np.float64],
) -> None:
    """Replace outputs of a table by observations of their mean, and count them.

    Parameters
    ----------
    fitted : ndarray of shape (n,)
        Predictions.
    outputs : ndarray of shape (n,), int
        Numbers of the outputs.
    low, step : float
        The least prediction of the grid, and the distance between two.
    table : ndarray of shape (n_grid, n_outputs)
    values : ndarray of shape (n,)
        Written: the observations.
    counts : ndarray of shape (n_grid, n_outputs)
        The number of entries is added, by prediction and output.
    """
    last = table.shape[0] - 1
    for e in range(fitted.size):
        at = min(max((fitted[e] - low) / step, 0.0), last - 1e-9)
        g = int(at)
        share = at - g
        y = outputs[e]
        values[e] = (1.0 - share) * table[g, y] + share * table[g + 1, y]
        counts[g, y] += 1.0 - share
        counts[g + 1, y] += share


@compiled
def cholesky(matrix: NDArray[np.float64], prior: NDArray[np.float64]) -> None:
    """Replace the upper triangle of a matrix by that of U, where U^T U = matrix.

    The matrix is a Gram matrix plus the diagonal `prior`. No pivot is then less than
    its prior, so that what falls below is rounding.
    """
    n = matrix.shape[0]
    for k in range(n):
        least = max(prior[k], 1e-13 * matrix[k, k])
        for j in range(k):
            factor = matrix[j, k]
            for b in range(k, n):
                matrix[k, b] -= factor * matrix[j, b]
        matrix[k, k] = max(matrix[k, k], least)
        pivot = 1.0 / np.sqrt(matrix[k, k])
        for b in range(k, n):
            matrix[k, b] *= pivot


@compiled
def invert_factor(factor: NDArray[np.float64], inverse: NDArray[np.float64]) -> None:
    """Write the inverse of an upper triangular factor; zero below the diagonal."""
    n = factor.shape[0]
    for i in range(n - 1, -1, -1):
        for b in range(n):
            inverse[i, b] = 0.0
        inverse[i, i] = 1.0
        for j in range(i + 1, n):
            weight = factor[i, j]
            for b in range(j, n):
                inverse[i, b] -= weight * inverse[j, b]
        scale = 1.0 / factor[i, i]
        for b in range(i, n):
            inverse[i, b] *= scale


@compiled
def solve_factor(factor: NDArray[np.float64], shift: NDArray[np.float64]) -> None:
    """Replace `shift` by the solution x of U^T U x = shift, for upper triangular U."""
    n = shift.size
    for i in range(n):
        value = shift[i] / factor[i, i]
        shift[i] = value
        for b in range(i + 1, n):
            shift[b] -= value * factor[i, b]
    for i in range(n - 1, -1, -1):
        s = shift[i]
        for b in range(i + 1, n):
            s -= factor[i, b] * shift[b]
        shift[i] = s / factor[i, i]


@compiled
def solve_rows(
    gram: NDArray[np.float64],
    projection: NDArray[np.float64],
    free: NDArray[np.integer],
    prior_mean: NDArray[np.float64],
    prior_precision: NDArray[np.float64],
    noise_variance: float,
    means: NDArray[np.floating],
    covariances: NDArray[np.floating],
    moments: NDArray[np.floating],
    fitted: NDArray[np.float64],
) -> None:
    """Posterior of independent rows, from the sums over their entries.

    Parameters
    ----------
    gram : ndarray of shape (n_rows, Q (Q + 1) / 2), float64
        Expected sum of b b^T over the entries of each row.
    projection : ndarray of shape (n_rows, Q), float64
        Expected sum of y b.
    free : ndarray of shape (F,), int
        The free columns, ascending; fixed columns keep their means.
    prior_mean, prior_precision : ndarray of shape (Q,), float64
        Prior of the free columns.
    noise_variance : float
        Variance of an observation around the model.
    means : ndarray of shape (n_rows, Q)
        Fixed columns are read, free columns are written.
    covariances : ndarray of shape (n_rows, Q (Q + 1) / 2)
        Written for pairs of free columns.
    moments : ndarray of shape (n_rows, Q (Q + 1) / 2) or (n_rows, Q)
        Written: second moments; with Q columns, only those on the diagonal.
    fitted : ndarray of shape (n_rows,), float64
        Written: expected squared error of the row's entries, less their sum of y^2.
    """
    n_columns = projection.shape[1]
    n_free = free.size
    held = np.empty(n_columns - n_free, np.int64)
    n_held, x = 0, 0
    for a in range(n_columns):
        if x < n_free and free[x] == a:
            x += 1
        else:
            held[n_held] = a
            n_held += 1
    square = np.empty((n_columns, n_columns))
    mean = np.empty(n_columns)
    precision, prior = np.empty((n_free, n_free)), np.empty(n_free)
    inverse = np.empty((n_free, n_free))
    transposed = np.empty((n_free, n_free))
    covariance = np.empty((n_free, n_free))
    shift = np.empty(n_free)
    for r in range(gram.shape[0]):
        p = 0
        for a in range(n_columns):
            for b in range(a, n_columns):
                square[a, b] = gram[r, p]
                square[b, a] = gram[r, p]
                p += 1
        for a in range(n_columns):
            mean[a] = means[r, a]
        # Fixed columns move to the right-hand side.
        for x in range(n_free):
            a = free[x]
            s = projection[r, a]
            for h in range(n_held):
                s -= square[a, held[h]] * mean[held[h]]
            for z in range(x, n_free):
                precision[x, z] = square[a, free[z]] / noise_variance
            prior[x] = prior_precision[a]
            precision[x, x] += prior[x]
            shift[x] = s / noise_variance + prior_precision[a] * prior_mean[a]
        cholesky(precision, prior)
        invert_factor(precision, inverse)
        for x in range(n_free):
            for z in range(n_free):
                transposed[x, z] = inverse[z, x]
                covariance[x, z] = 0.0
        for k in range(n_free):
            for x in range(k + 1):
                weight = transposed[k, x]
                for z in range(x, k + 1):
                    covariance[x, z] += weight * transposed[k, z]
        solve_factor(precision, shift)
        for x in range(n_free):
            mean[free[x]] = shift[x]
        error = 0.0
        for a in range(n_columns):
            s = 0.0
            for b in range(n_columns):
                s += square[a, b] * mean[b]
            error += mean[a] * (s - 2.0 * projection[r, a])
            means[r, a] = mean[a]
        if moments.shape[1] == n_columns:
            for a in range(n_columns):
                moments[r, a] = mean[a] * mean[a]
            for x in range(n_free):
                moments[r, free[x]] += covariance[x, x]
        else:
            p = 0
            for a in range(n_columns):
                for b in range(a, n_columns):
                    moments[r, p] = mean[a] * mean[b]
                    p += 1
        for x in range(n_free):
            a = free[x]
            at = a * n_columns - a * (a - 1) // 2 - a
            for z in range(x, n_free):
                weight = 1.0 if z == x else 2.0
                error += weight * square[a, free[z]] * covariance[x, z]
                covariances[r, at + free[z]] = covariance[x, z]
                if moments.shape[1] != n_columns:
                    moments[r, at + free[z]] += covariance[x, z]
        fitted[r] = error


@compiled
def model_variance(
    rows: NDArray[np.integer],
    means: NDArray[np.floating],
    covariances: NDArray[np.floating],
    variance: NDArray[np.float64],
    linear: NDArray[np.float64],
) -> None:
    """Variance of a sum of products of rows that are independent and Gaussian.

    Parameters
    ----------
    rows : ndarray of shape (n, n_modes), int
        The rows of every entry; its value sums their products over the columns.
    means : ndarray of shape (n_rows, Q)
    covariances : ndarray of shape (n_rows, Q (Q + 1) / 2)
    variance : ndarray of shape (n,), float64
        Written.
    linear : ndarray of shape (n,), float64
        Written: the terms of the variance that are linear in the covariances, which
        is the variance of the linearised sum.
    """
    n_columns, n_pairs = means.shape[1], covariances.shape[1]
    square, moment, change = np.empty(n_pairs), np.empty(n_pairs), np.empty(n_pairs)
    outer, weight = np.empty(n_pairs), np.empty(n_pairs)
    p = 0
    for a in range(n_columns):
        for b in range(a, n_columns):
            weight[p] = 1.0 if a == b else 2.0
            p += 1
    for e in range(rows.shape[0]):
        for p in range(n_pairs):
            square[p] = moment[p] = weight[p]
            change[p] = 0.0
        for m in range(rows.shape[1]):
            mean, covariance = means[rows[e, m]], covariances[rows[e, m]]
            begin = 0
            for a in range(n_columns):
                first = np.float64(mean[a])
                for k in range(n_columns - a):
                    outer[begin + k] = first * mean[a + k]
                begin += n_columns - a
            for p in range(n_pairs):
                change[p] = change[p] * outer[p] + square[p] * covariance[p]
                square[p] *= outer[p]
                moment[p] *= outer[p] + covariance[p]
        total, linear_total = 0.0, 0.0
        for p in range(n_pairs):
            total += moment[p] - square[p]
            linear_total += change[p]
        variance[e] = max(total, 0.0)
        linear[e] = max(linear_total, 0.0)
