"""What the places of the observed entries say of the rows, whatever the values are.

Who rated an item, and how many did, tells something of its ratings. Rows of the second
mode get features that are computed from the coordinates alone: the logarithm of the
number of their entries, and the leading singular vectors of their incidence with the
rows of the first mode, as in correspondence analysis. The numbers of entries by which
it is normalised are made larger by their mean, lest rows with few entries have vectors
of their own (Qin and Rohe 2013, "Regularized spectral clustering under the
degree-corrected stochastic blockmodel"). Components are kept as far as they stand out
from those of a pattern with the same numbers of entries and otherwise at random.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds

__all__ = ["pattern_features"]

# A singular value stands out if it is so many times the largest of a random pattern.
_STANDS_OUT = 1.2
_OVERDISPERSED = 2.0
# Root mean square, over the entries, of the logarithm of the number of entries.
_COUNT_SCALE = 0.25


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
        At most `n_components` + 1 of them; the last row is that of a row without
        entries. The first feature has mean zero over the entries, the others together
        have norm one in a row, or zero where it has no entries. None where entries are
        placed at random.
    """
    rows, columns = coordinates[:, 0], coordinates[:, 1]
    counts = [
        np.bincount(index, minlength=size)
        for index, size in zip((rows, columns), shape, strict=False)
    ]

    def decompose(
        n_values: int, at_random: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        own, other = _renumbered(rows), _renumbered(columns)
        if at_random:
            other = np.random.default_rng(0).permutation(other)
        return _decompose(own, other, n_values)

    return features_of_pattern(counts, n_components, decompose)


def features_of_pattern(
    counts: Sequence[NDArray[np.integer]],
    n_components: int,
    decompose: Callable[..., Any],
) -> NDArray[np.float64]:
    """The features that `pattern_features` finds, wherever the coordinates are.

    Parameters
    ----------
    counts : sequence of two ndarray of shape (size of the mode,), int
        Numbers of entries of the rows of the first two modes.
    n_components : int
    decompose : callable
        ``decompose(n_values, at_random)`` returns the largest singular values of the
        scaled incidence and the right vectors of the rows that have entries, or the
        values alone of a pattern that is random with the same numbers of entries.

    Returns
    -------
    features : ndarray of shape (shape[1] + 1, n_features), float
    """
    n_seen = [int(np.count_nonzero(own)) for own in counts]
    padded = np.append(counts[1], 0)
    features = []
    seen, all_counts = padded[padded > 0], padded[:-1]
    # Entries that are placed at random have counts with a variance of their mean.
    dispersed = all_counts.var() > _OVERDISPERSED * all_counts.mean()
    if dispersed and seen.min() < seen.max():
        logs = np.log1p(padded)
        logs -= padded @ logs / padded.sum()
        spread = np.sqrt(padded @ logs**2 / padded.sum())
        features.append(_COUNT_SCALE / spread * logs[:, np.newaxis])
    n_components = min(n_components, *(n - 2 for n in n_seen))
    if n_components > 0:
        vectors = _leading_vectors(decompose, n_components)
        of_rows = np.zeros((len(padded), vectors.shape[1]))
        of_rows[padded > 0] = vectors
        features.append(of_rows)
    return np.concatenate([np.empty((len(padded), 0)), *features], axis=1)


def _renumbered(index: NDArray[np.integer]) -> NDArray[np.integer]:
    """Positions of indices among those that occur."""
    return (np.cumsum(np.bincount(index) > 0) - 1)[index]


def _leading_vectors(
    decompose: Callable[..., Any], n_components: int
) -> NDArray[np.float64]:
    """Right singular vectors that stand out, weighted, of rows of norm one or zero."""
    largest = decompose(2, at_random=True)[0][1]
    values, vectors = decompose(n_components + 1)
    # The first one is that of the numbers of entries alone.
    n_kept = max(np.count_nonzero(values > _STANDS_OUT * largest), 1)
    vectors = vectors[:, 1:n_kept] * values[1:n_kept]
    # A sign is arbitrary, and must not depend on the solver.
    vectors *= np.where(vectors.sum(axis=0) < 0, -1.0, 1.0)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 1e-9)


def _decompose(
    rows: NDArray[np.integer], columns: NDArray[np.integer], n_values: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest singular values, and right vectors, of the incidence over its margins."""
    shape = int(rows.max()) + 1, int(columns.max()) + 1
    ones = np.ones(len(rows), dtype=np.float32)
    incidence = sparse.coo_array((ones, (rows, columns)), shape=shape).tocsr()
    own, other = (
        1 / np.sqrt(counts + counts.mean())
        for counts in (incidence.sum(axis=axis, dtype=float) for axis in (1, 0))
    )
    scaled = LinearOperator(
        shape,
        matvec=lambda x: own * (incidence @ (other * np.ravel(x))),
        rmatvec=lambda x: other * (incidence.T @ (own * np.ravel(x))),
        dtype=float,
    )
    start = np.random.default_rng(0).standard_normal(min(shape))
    _, values, vectors = svds(scaled, k=n_values, v0=start)
    order = np.argsort(-values)
    return values[order], vectors[order].T
