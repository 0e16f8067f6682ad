"""Compiled kernels over coordinates. Importing this module imports numba.

The kernels work on a range of rows, so that threads can share a sweep. The result of a
row does not depend on the ranges.

Symmetric matrices of size Q are packed as upper triangles, row by row, into vectors of
length Q (Q + 1) / 2. Sums over `CHUNK` entries use the type of the data; sums over
chunks use double precision.
"""

import numpy as np
from numpy.typing import NDArray

from ._compiled import compiled
from ._stacks import STACK, factorise, invert, solve

CHUNK = 256


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
    up over a chunk of entries, together with y b.

    With 2 million entries of three modes and 18 columns, one thread of an Intel Xeon
    takes 41 to 45 ns an entry: 11 to 13 for gathering and multiplying means, 10 to 14
    for squares, 14 for the matrix product (25 to 28 on an AMD EPYC). What was tried:

    - Means and squares side by side in one array, in order to gather once. It gains 3
      to 8% at most.
    - Rows padded to the width of vector instructions. It took longer.
    - Half the matrix product, in blocks of 4 by 4 columns. OpenBLAS does the whole in
      the same time, and in a third of it in single precision.

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
    # The last column is the value.
    met = np.empty((CHUNK, n_columns + 1), means.dtype)
    product = np.empty((n_columns + 1, n_columns + 1), means.dtype)
    second, square = np.empty(n_columns, means.dtype), np.empty(n_columns, means.dtype)
    for r in range(first, last):
        for p in range(gram.shape[1]):
            gram[r - first, p] = 0.0
        for q in range(n_columns):
            projection[r - first, q] = 0.0
        for begin in range(starts[r], starts[r + 1], CHUNK):
            end = min(begin + CHUNK, starts[r + 1])
            for q in range(n_columns):
                second[q] = 0.0
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
                met[k, n_columns] = values[e]
            if weights.size:
                for k in range(end - begin):
                    for q in range(n_columns + 1):
                        met[k, q] *= roots[k]
            np.dot(met[: end - begin].T, met[: end - begin], product)
            p = 0
            for a in range(n_columns):
                projection[r - first, a] += product[a, n_columns]
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
    n_rows, n_columns = projection.shape
    n_pairs, n_free = gram.shape[1], free.size
    held = np.ones(n_columns, np.bool_)
    prior = np.empty(n_free)
    for x in range(n_free):
        held[free[x]] = False
        prior[x] = prior_precision[free[x]]
    # Where a pair of columns is packed, and how often it occurs in a matrix.
    place = np.empty((n_columns, n_columns), np.int64)
    weight = np.empty(n_pairs)
    p = 0
    for a in range(n_columns):
        for b in range(a, n_columns):
            place[a, b] = p
            place[b, a] = p
            weight[p] = 1.0 if a == b else 2.0
            p += 1
    matrices, shifts = np.empty((n_free, n_free, STACK)), np.empty((n_free, STACK))
    mean, moment = np.empty(n_columns), np.empty(n_pairs)
    for first in range(0, n_rows, STACK):
        for x in range(n_free):
            a = free[x]
            for k in range(STACK):
                # The last row fills up the stack.
                r = min(first + k, n_rows - 1)
                for z in range(x, n_free):
                    matrices[x, z, k] = gram[r, place[a, free[z]]] / noise_variance
                matrices[x, x, k] += prior[x]
                # Fixed columns move to the right-hand side.
                s = projection[r, a]
                for b in range(n_columns):
                    if held[b]:
                        s -= gram[r, place[a, b]] * means[r, b]
                shifts[x, k] = s / noise_variance + prior[x] * prior_mean[a]
        factorise(matrices, prior)
        solve(matrices, shifts)
        invert(matrices)
        for r in range(first, min(first + STACK, n_rows)):
            k = r - first
            for a in range(n_columns):
                mean[a] = means[r, a]
            for x in range(n_free):
                mean[free[x]] = shifts[x, k]
            p, error = 0, 0.0
            for a in range(n_columns):
                means[r, a] = mean[a]
                error -= 2.0 * mean[a] * projection[r, a]
                for b in range(a, n_columns):
                    moment[p] = mean[a] * mean[b]
                    p += 1
            for x in range(n_free):
                for z in range(x, n_free):
                    p = place[free[x], free[z]]
                    covariances[r, p] = matrices[x, z, k]
                    moment[p] += matrices[x, z, k]
            for p in range(n_pairs):
                error += weight[p] * gram[r, p] * moment[p]
            fitted[r] = error
            if moments.shape[1] == n_columns:
                for a in range(n_columns):
                    moments[r, a] = moment[place[a, a]]
            else:
                for p in range(n_pairs):
                    moments[r, p] = moment[p]
