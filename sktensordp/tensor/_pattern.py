"""Features of rows computed from which entries were observed, not from their values.

Who rated an item, and how many people did, says something about its ratings. So the
rows of the second mode get features that depend on the coordinates alone: the logarithm
of a row's number of entries, and the leading singular vectors of the incidence between
the first two modes, as in correspondence analysis. The incidence is normalised by the
numbers of entries plus their mean; without that addition, single rows with few entries
would get singular vectors to themselves (Qin and Rohe 2013, "Regularized spectral
clustering under the degree-corrected stochastic blockmodel"). Only those components are
kept whose singular values stand out from those of a random pattern with the same
numbers of entries.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._blas import one_blas_thread

# A singular value stands out above this multiple of the largest of a random pattern.
_STANDS_OUT = 1.2
# Counts are overdispersed above this ratio of their variance to their mean.
_OVERDISPERSED = 2.0
# Root mean square, over the entries, of the logarithm of the number of entries.
_COUNT_SCALE = 0.25
# Singular vectors are searched with so many extra ones, in so many passes.
_EXTRA_VECTORS, _PASSES = 8, 8


def pattern_features(
    coordinates: NDArray[np.integer], shape: Sequence[int], n_components: int
) -> NDArray[np.float64]:
    """Features of the rows of the second mode, from the coordinates alone.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int
    shape : tuple of int
    n_components : int
        Largest number of singular vectors.

    Returns
    -------
    features : ndarray of shape (shape[1] + 1, n_features), float
        At most `n_components` + 1 features; none if the pattern looks random. The last
        row stands for a row without entries. The logarithm of the count has mean zero
        over the entries. The singular vectors of a row have norm one together, or zero
        if the row has no entries.
    """
    rows, columns = coordinates[:, 0], coordinates[:, 1]
    counts = [
        np.bincount(index, minlength=size)
        for index, size in zip((rows, columns), shape, strict=False)
    ]

    row_numbers, column_numbers = _renumbered(rows), _renumbered(columns)

    def decompose(
        n_values: int, at_random: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        numbers = column_numbers
        if at_random:
            numbers = np.random.default_rng(0).permutation(numbers)
        return _decompose(row_numbers, numbers, n_values)

    return features_of_pattern(counts, n_components, decompose)


def features_of_pattern(
    counts: Sequence[NDArray[np.integer]],
    n_components: int,
    decompose: Callable[..., Any],
) -> NDArray[np.float64]:
    """The features of `pattern_features`, with a decomposition that the caller makes.

    So the coordinates need not be on this machine.

    Parameters
    ----------
    counts : sequence of two ndarray of shape (size of the mode,), int
        Number of entries of every row of the first two modes.
    n_components : int
    decompose : callable
        ``decompose(n_values)`` returns the `n_values` largest singular values of the
        scaled incidence, and its right singular vectors for the rows that have entries.
        ``decompose(n_values, at_random=True)`` does so for a random pattern with the
        same numbers of entries; of this, only the values are used.

    Returns
    -------
    features : ndarray of shape (shape[1] + 1, n_features), float
    """
    n_seen = [int(np.count_nonzero(mode_counts)) for mode_counts in counts]
    padded = np.append(counts[1], 0)
    features = []
    positive, all_counts = padded[padded > 0], padded[:-1]
    # If entries are placed at random, the variance of the counts is their mean.
    dispersed = all_counts.var() > _OVERDISPERSED * all_counts.mean()
    if dispersed and positive.min() < positive.max():
        logs = np.log1p(padded)
        logs -= padded @ logs / padded.sum()
        spread = np.sqrt(padded @ logs**2 / padded.sum())
        features.append(_COUNT_SCALE / spread * logs[:, np.newaxis])
    n_components = min(n_components, *(n - 2 for n in n_seen))
    if n_components > 0:
        vectors = _pattern_vectors(decompose, n_components)
        components = np.zeros((len(padded), vectors.shape[1]))
        components[padded > 0] = vectors
        features.append(components)
    return np.concatenate([np.empty((len(padded), 0)), *features], axis=1)


def _renumbered(index: NDArray[np.integer]) -> NDArray[np.integer]:
    """The indices renumbered without gaps, from 0."""
    numbers = np.cumsum(np.bincount(index) > 0) - 1
    return numbers.astype(np.int32)[index]


def _pattern_vectors(
    decompose: Callable[..., Any], n_components: int
) -> NDArray[np.float64]:
    """Right singular vectors that stand out, weighted by their values.

    Every row of the result is normalised, unless it is zero.
    """
    largest_at_random = decompose(2, at_random=True)[0][1]
    values, vectors = decompose(n_components + 1)
    n_kept = max(np.count_nonzero(values > _STANDS_OUT * largest_at_random), 1)
    # The first vector only repeats the numbers of entries.
    vectors = vectors[:, 1:n_kept] * values[1:n_kept]
    # Signs are arbitrary; fix them, so that they do not depend on the solver.
    vectors *= np.where(vectors.sum(axis=0) < 0, -1.0, 1.0)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 1e-9)


def _decompose(
    rows: NDArray[np.integer], columns: NDArray[np.integer], n_values: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest singular values of the normalised incidence, and right vectors.

    They are found in a block Krylov space (Musco and Musco 2015, "Randomized block
    Krylov methods for stronger and faster approximate singular value decomposition").
    """
    shape = int(rows.max()) + 1, int(columns.max()) + 1
    ones = np.ones(len(rows))
    scaled = sparse.coo_array((ones, (rows, columns)), shape=shape).tocsr()
    row_scale, column_scale = (
        1 / np.sqrt(counts + counts.mean())
        for counts in (scaled.sum(axis=axis) for axis in (1, 0))
    )
    scaled.data *= np.repeat(row_scale, np.diff(scaled.indptr))
    scaled.data *= np.take(column_scale, scaled.indices)
    size = shape[1], min(n_values + _EXTRA_VECTORS, *shape)
    start = np.random.default_rng(0).standard_normal(size)
    # The factorisations are small, and threads of BLAS would slow them down.
    with one_blas_thread:
        blocks = [np.linalg.qr(start)[0]]
        for _ in range(_PASSES):
            blocks.append(np.linalg.qr(scaled.T @ (scaled @ blocks[-1]))[0])
        basis = np.linalg.qr(np.concatenate(blocks, axis=1))[0]
        projected = scaled @ basis
        squares, vectors = np.linalg.eigh(projected.T @ projected)
        order = np.argsort(-squares)[:n_values]
        return np.sqrt(np.maximum(squares[order], 0)), basis @ vectors[:, order]
