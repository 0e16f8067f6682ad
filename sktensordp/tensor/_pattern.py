"""Features of rows computed from which entries were observed, not from their values.

An item's ratings depend on who rated it, and on how many people did. So the rows of the
second mode get features that depend on the coordinates alone: the logarithm of a row's
number of entries, and the leading singular vectors of the incidence between the first
two modes, as in correspondence analysis. The incidence is normalised by the numbers of
entries plus their mean; without that addition, single rows with few entries would get
singular vectors to themselves (Qin and Rohe 2013, "Regularized spectral clustering
under the degree-corrected stochastic blockmodel"). A component is kept only if its
singular value stands out from those of a random pattern with the same numbers of
entries.

Other choices were no better on training parts of ratings and on generated ratings
(doc/constants.md): features of the rows of the first mode, from what they rated,
instead of these; all components above the largest singular value at random, or above
1.05 times that; and, for biases from noisy sums, counts alone. More components make
fits slower.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._average_row import with_average
from ._coordinates import present
from ._leading_terms import LocalMatrix, SplitMatrix, leading_vectors, weights_of

# A singular value stands out if it exceeds the first multiple of the largest at random,
# and stands out clearly if it exceeds the second. Fits to values take all that stand
# out. Noisy sums take only the clear ones, since every component costs noise.
_STANDS_OUT, _CLEARLY = 1.1, 1.2
# If no number of components is given, the search begins with this many, and doubles the
# number as long as all stand out. At most this many are clear.
FIRST_COMPONENTS = 8
# Root mean square of the logarithms of the numbers of entries, over the entries.
_SPREAD_OF_COUNTS = 0.25
# Weight of the typical norm relative to the norm of a row; see `_normalised`.
_TYPICAL = 1.0


class Pattern(NamedTuple):
    """Information from the coordinates about the rows of the second mode.

    Attributes
    ----------
    n_entries : ndarray of shape (shape[1],), int
        Number of entries of every row.
    counts : ndarray of shape (shape[1], 1 or 0), float
        The logarithms of these numbers, with mean zero over the entries, if the numbers
        vary more than by chance.
    vectors : ndarray of shape (shape[1], n_components), float
        Singular vectors that stand out, weighted by their values; zero for rows without
        entries.
    n_clear : int
        Number of components that stand out clearly; use only these if every component
        costs noise.
    """

    n_entries: NDArray[np.integer]
    counts: NDArray[np.float64]
    vectors: NDArray[np.float64]
    n_clear: int

    @property
    def features(self) -> NDArray[np.float64]:
        """All features of the rows and, last, of an unknown row.

        A row without entries counts as unknown: it has the features of the average
        entry.
        """
        return self._features(self.vectors.shape[1])

    @property
    def clear_features(self) -> NDArray[np.float64]:
        """The features with only the clear components."""
        return self._features(self.n_clear)

    def _features(self, n_components: int) -> NDArray[np.float64]:
        components = _normalised(self.vectors[:, :n_components])
        features = np.concatenate([self.counts, components], axis=1)
        return with_average(features, self.n_entries)


def pattern_of(
    coordinates: NDArray[np.integer], shape: Sequence[int], n_components: int | None
) -> Pattern:
    """Features of the rows of the second mode, from the coordinates alone.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int
    shape : tuple of int
    n_components : int or None
        Largest number of singular vectors; None for as many as stand out.

    Returns
    -------
    pattern : Pattern
        Without features, if the pattern looks random.
    """
    first_two = coordinates.T[:2]
    counts = [
        np.bincount(index, minlength=size)
        for index, size in zip(first_two, shape, strict=False)
    ]
    rows, columns = (present(index)[1] for index in first_two)

    def decompose(
        n_values: int, at_random: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        mode, pair = int(rows.max() < columns.max()), [rows, columns]
        if at_random:
            pair[1] = np.random.default_rng(0).permutation(columns)
        ones = np.ones(len(rows), np.float32)
        matrix = sparse.coo_array((ones, pair[::-1] if mode else pair)).tocsr()
        del ones
        # In single precision, products lost three of 35 components.
        matrix.data = matrix.data.astype(float)
        of_modes = [matrix.sum(axis=1 - (k != mode)) for k in range(2)]
        return leading_pattern(LocalMatrix(matrix, of_modes, mode), n_values)

    return pattern_from(counts, n_components, decompose)


def pattern_from(
    counts: Sequence[NDArray[np.integer]],
    n_components: int | None,
    decompose: Callable[..., Any],
) -> Pattern:
    """The pattern of `pattern_of`, with a decomposition from the caller.

    So the coordinates need not be on this machine.

    Parameters
    ----------
    counts : sequence of two ndarray of shape (size of the mode,), int
        Number of entries of every row of the first two modes.
    n_components : int or None
    decompose : callable
        ``decompose(n_values)`` returns up to `n_values` largest singular values of the
        scaled incidence, and its right singular vectors for the rows that have entries.
        ``decompose(n_values, at_random=True)`` does so for a random pattern with the
        same numbers of entries; only the values are used.

    Returns
    -------
    pattern : Pattern
    """
    n_seen = [int(np.count_nonzero(mode_counts)) for mode_counts in counts]
    own = counts[1]
    shown = all_vectors = np.empty((len(own), 0))
    n_clear, positive = 0, own[own > 0]
    # If entries are placed at random, the variance of the counts is their mean.
    dispersed = own.var() > 2.0 * own.mean()
    if dispersed and positive.min() < positive.max():
        logs = np.log1p(own)
        logs -= own @ logs / own.sum()
        spread = np.sqrt(own @ logs**2 / own.sum())
        shown = _SPREAD_OF_COUNTS / spread * logs[:, np.newaxis]
    given = 64 if n_components is None else n_components
    most = min(given, *(n - 2 for n in n_seen))
    if most > 0:
        first = most if n_components else min(FIRST_COMPONENTS, most)
        # One search finds all of them.
        values, found = decompose(1 + given)
        chance = decompose(2, at_random=True)[0][1]
        vectors, n_clear = _pattern_vectors(values, found, chance, first, most)
        all_vectors = np.zeros((len(own), vectors.shape[1]))
        all_vectors[own > 0] = vectors
        n_clear = min(n_clear, n_components or FIRST_COMPONENTS)
    return Pattern(own, shown, all_vectors, n_clear)


def _pattern_vectors(
    values: NDArray[np.float64],
    vectors: NDArray[np.float64],
    chance: float,
    first: int,
    most: int,
) -> tuple[NDArray[np.float64], int]:
    """Right singular vectors that stand out, weighted by their values.

    The search begins with `first` vectors. Also returns how many of them stand out
    clearly.
    """
    least = _STANDS_OUT * chance
    while first < most and values[first] > least:
        first = min(2 * first, most)
    values, vectors = values[: first + 1], vectors[:, : first + 1]
    n_kept = max(np.count_nonzero(values > least), 1)
    # The first vector only repeats the numbers of entries.
    vectors = vectors[:, 1:n_kept] * values[1:n_kept]
    # Signs are arbitrary; fix them, so that they do not depend on the solver.
    vectors = vectors * np.where(vectors.sum(axis=0) < 0, -1.0, 1.0)
    n_clear = np.count_nonzero(values[1:] > _CLEARLY * chance)
    return vectors, int(n_clear)


def _normalised(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows divided by the root mean square of their norm and the typical norm.

    If a row has few entries, its norm is small and its direction uncertain.
    """
    squares = np.sum(vectors**2, axis=1, keepdims=True)
    typical = squares.sum() / max(np.count_nonzero(squares), 1)
    scale = np.sqrt((squares + _TYPICAL * typical) / (1 + _TYPICAL))
    return np.divide(vectors, scale, out=np.zeros_like(vectors), where=scale > 0)


def leading_pattern(
    incidence: SplitMatrix, n_values: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest singular values of a scaled incidence, and right singular vectors.

    Parameters
    ----------
    incidence : LocalMatrix or ChunkedMatrix
        Its rows are those of the larger mode.
    n_values : int
    """
    weights, _ = weights_of(incidence)
    gram = partial(incidence.gram, weights, flipped=False)
    # In the same time, few vectors and many passes find the values more exactly: then
    # as many stand out as in a full decomposition, rather than a few less.
    n_vectors, n_passes = max(10, math.ceil(n_values / 6)), 12
    size = len(weights[1])
    values, vectors = leading_vectors(gram, size, n_values, n_vectors, n_passes)
    if incidence.mode == 1:
        vectors = incidence.project(weights, vectors)
        np.divide(vectors, values, out=vectors, where=values > 0)
    return values, vectors
