"""Compute scores of items from the releases and a user's own choices.

Everything that is computed from the releases is post-processing. The noisy
co-occurrences are modelled as a low-rank matrix plus a diagonal plus noise. Regressing
each item on all others then gives the weights of EASE (Steck 2019).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh

from ..tensor._blas import one_blas_thread
from ._choices import Choices
from ._cooccurrence import ItemSums
from ._ranking import best_of

# Number of rows of scores that are ranked at once.
_N_RANKED = 256
# Largest rank, and number of rounds that replace the diagonal by the low-rank fit's.
_RANK, _N_ROUNDS = 50, 5
# Shrinkage of an eigenvalue, in units of noise times the root of the matrix's size.
_SHRINKAGE = 1.3
# Ridge of the regressions: per that unit, and without noise.
_RIDGE, _LEAST_RIDGE = 0.4, 2.0
# Smallest diagonal cell, relative to that of a typical item chosen as often.
_LEAST_DIAGONAL = 0.3


@dataclass(frozen=True, eq=False)
class ItemModel:
    """A model that scores items for any user whose choices are given.

    Attributes
    ----------
    counts : ndarray of shape (n_items,)
        Noisy weighted counts.
    items : ndarray of shape (m,), int64
        Items with weights.
    shares : ndarray of shape (m,)
        Each item's expected share of the choices among `items`.
    similarity : ndarray of shape (m, m)
        Weights: how much a choice of the row's item raises the column's score.
    expected : ndarray of shape (m,)
        How much one choice is expected to raise the scores.
    """

    counts: NDArray[np.float64]
    items: NDArray[np.int64]
    shares: NDArray[np.float64]
    similarity: NDArray[np.float64]
    expected: NDArray[np.float64]

    @classmethod
    def of(cls, sums: ItemSums) -> Self:
        """Compute the model from the releases."""
        # The number of threads may change the last bits.
        with one_blas_thread:
            weights = _weights(sums.products, sums.shares, sums.products_noise)
            expected = sums.shares @ weights
        return cls(sums.counts, sums.items, sums.shares, weights, expected)

    @cached_property
    def popularity(self) -> NDArray[np.float64]:
        """Scores of all items for an unknown user, per choice."""
        if not len(self.items):
            return self.counts
        positive = np.maximum(self.counts, 0.0)
        popularity = positive / max(float(positive[self.items].sum()), 1e-300)
        popularity[self.items] = self.shares
        return popularity

    def scores(self, choices: Choices) -> NDArray[np.float64]:
        """Scores of all items for some users, who may have no choice.

        Each row depends only on that user's choices, to the last bit.
        """
        if not len(self.items):
            return np.tile(self.popularity, (len(choices.users), 1))
        chosen = choices.among(self.items)
        sizes = chosen.sizes.astype(float)[:, np.newaxis]
        scores = np.maximum(sizes, 1.0) * self.popularity
        indicators = sparse.csr_array(
            (np.ones(len(chosen.items)), chosen.items, chosen.starts),
            shape=(len(sizes), len(self.items)),
        )
        scores[:, self.items] += indicators @ self.similarity - sizes * self.expected
        return scores

    def best(self, choices: Choices, k: int) -> NDArray[np.int64]:
        """Best k items that each user has not chosen; see `best_of`."""
        items = np.full((len(choices.users), k), -1, dtype=np.int64)
        for start in range(0, len(items), _N_RANKED):
            chunk = choices.chunk(start, start + _N_RANKED)
            scores = self.scores(chunk)
            rows = np.repeat(np.arange(len(chunk.users)), chunk.sizes)
            scores[rows, chunk.items] = -np.inf
            items[start : start + _N_RANKED] = best_of(scores, k)
        return items

    def at(
        self, choices: Choices, rows: NDArray[np.intp], items: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Score of each item for the user in that row of `choices`; 0 for item -1."""
        result = np.zeros(len(items))
        for start in range(0, len(choices.users), _N_RANKED):
            here = (rows >= start) & (rows < start + _N_RANKED) & (items >= 0)
            scores = self.scores(choices.chunk(start, start + _N_RANKED))
            result[here] = scores[rows[here] - start, items[here]]
        return result


def _weights(
    products: NDArray[np.float64], shares: NDArray[np.float64], noise: float
) -> NDArray[np.float64]:
    """Regress each item on all others, given the noisy centred products."""
    n = len(products)
    if n == 0:
        return np.empty((0, 0))
    edge = noise * np.sqrt(n)
    diagonal, common = np.diag(products).copy(), np.zeros(n)
    completed = products.copy()
    for _ in range(_N_ROUNDS):
        np.fill_diagonal(completed, common)
        values, vectors = eigh(completed, subset_by_index=(max(n - _RANK, 0), n - 1))
        values = np.maximum(values - _SHRINKAGE * edge, 0.0)
        common = np.square(vectors) @ values
    gram = (vectors * values) @ vectors.T
    has_share = shares > 0
    typical = float(np.median(diagonal[has_share] / shares[has_share]))
    diagonal = np.maximum(diagonal, _LEAST_DIAGONAL * typical * shares)
    np.fill_diagonal(gram, np.maximum(diagonal, common))
    gram[np.diag_indices(n)] += _RIDGE * edge + _LEAST_RIDGE
    inverse = np.linalg.inv(gram)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights
