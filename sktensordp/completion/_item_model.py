"""From noisy sums over users to scores of items for one user: post-processing.

The co-occurrences are taken as a matrix of low rank and a diagonal, in noise.
Regressing every item on the others gives the weights of EASE (Steck 2019).
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

__all__ = ["ItemModel", "best_of"]

# Rows of scores that are ranked at once.
_N_RANKED = 256
# Largest rank, and how often the diagonal is completed by the fit.
_RANK, _ROUNDS = 50, 5
# An eigenvalue is shrunk by this times the norm that noise has for its root size.
_SHRINKAGE = 1.3
# Ridge of the regressions, in the same unit, and without noise.
_RIDGE, _LEAST_RIDGE = 0.4, 2.0
# Least diagonal, beside the typical one of an item that is chosen as often.
_LEAST_DIAGONAL = 0.3


@dataclass(frozen=True, eq=False)
class ItemModel:
    """Scores of items, for everybody who says what they chose.

    Attributes
    ----------
    counts : ndarray of shape (n_items,)
    items : ndarray of shape (m,), int64
        Those with weights.
    shares : ndarray of shape (m,)
        What is expected of one choice among them.
    similarity : ndarray of shape (m, m)
        Weights: by how much a choice of the row's item raises the column's score.
    expected : ndarray of shape (m,)
        What one choice is expected to raise scores by.
    """

    counts: NDArray[np.float64]
    items: NDArray[np.int64]
    shares: NDArray[np.float64]
    similarity: NDArray[np.float64]
    expected: NDArray[np.float64]

    @classmethod
    def of(cls, sums: ItemSums) -> Self:
        """The model that follows from what was released."""
        # On one thread, since the last bits may depend on how many there are.
        with one_blas_thread:
            weights = _weights(sums.products, sums.shares, sums.products_noise)
            expected = sums.shares @ weights
        return cls(sums.counts, sums.items, sums.shares, weights, expected)

    @cached_property
    def popularity(self) -> NDArray[np.float64]:
        """Scores for somebody of whom nothing is known, per choice."""
        if not len(self.items):
            return self.counts
        positive = np.maximum(self.counts, 0.0)
        found = positive / max(float(positive[self.items].sum()), 1e-300)
        found[self.items] = self.shares
        return found

    def scores(self, choices: Choices) -> NDArray[np.float64]:
        """Scores of all items for some users, who may have no choice.

        A row is a function of that user's choices alone, bit by bit.
        """
        if not len(self.items):
            return np.tile(self.popularity, (len(choices.users), 1))
        chosen = choices.among(self.items)
        sizes = chosen.sizes.astype(float)[:, np.newaxis]
        found = np.maximum(sizes, 1.0) * self.popularity
        own = sparse.csr_array(
            (np.ones(len(chosen.items)), chosen.items, chosen.starts),
            shape=(len(sizes), len(self.items)),
        )
        found[:, self.items] += own @ self.similarity - sizes * self.expected
        return found

    def best(self, choices: Choices, k: int) -> NDArray[np.int64]:
        """Best items for some users that they have not chosen; see `best_of`."""
        found = np.full((len(choices.users), k), -1, dtype=np.int64)
        for start in range(0, len(found), _N_RANKED):
            part = choices.part(start, start + _N_RANKED)
            scores = self.scores(part)
            rows = np.repeat(np.arange(len(part.users)), part.sizes)
            scores[rows, part.items] = -np.inf
            found[start : start + _N_RANKED] = best_of(scores, k)
        return found

    def at(
        self, choices: Choices, rows: NDArray[np.intp], items: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Scores of items for users, by their row; 0 of an item that is -1."""
        found = np.zeros(len(items))
        for start in range(0, len(choices.users), _N_RANKED):
            here = (rows >= start) & (rows < start + _N_RANKED) & (items >= 0)
            scores = self.scores(choices.part(start, start + _N_RANKED))
            found[here] = scores[rows[here] - start, items[here]]
        return found


def best_of(scores: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Columns of the k largest scores of every row, best first.

    Of equal scores, that of the lowest column comes first. -1 stands where nothing is
    left above minus infinity.
    """
    n = min(k, scores.shape[1])
    best = np.full((len(scores), k), -1, dtype=np.int64)
    least = np.partition(scores, -n, axis=1)[:, -n, np.newaxis]
    above, equal = scores > least, scores == least
    left = n - above.sum(axis=1, keepdims=True)
    above |= equal & (np.cumsum(equal, axis=1) <= left)
    columns = np.nonzero(above)[1].reshape(len(scores), n)
    found = np.take_along_axis(scores, columns, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    columns = np.take_along_axis(columns, order, axis=1)
    found = np.take_along_axis(found, order, axis=1)
    best[:, :n] = np.where(np.isneginf(found), -1, columns)
    return best


def _weights(
    products: NDArray[np.float64], shares: NDArray[np.float64], noise: float
) -> NDArray[np.float64]:
    """Regression weights from noisy centred products."""
    n = len(products)
    if n == 0:
        return np.empty((0, 0))
    edge = noise * np.sqrt(n)
    diagonal, known = np.diag(products).copy(), np.zeros(n)
    fitted = products.copy()
    for _ in range(_ROUNDS):
        np.fill_diagonal(fitted, known)
        values, vectors = eigh(fitted, subset_by_index=(max(n - _RANK, 0), n - 1))
        values = np.maximum(values - _SHRINKAGE * edge, 0.0)
        known = np.square(vectors) @ values
    gram = (vectors * values) @ vectors.T
    has_share = shares > 0
    usual = float(np.median(diagonal[has_share] / shares[has_share]))
    diagonal = np.maximum(diagonal, _LEAST_DIAGONAL * usual * shares)
    np.fill_diagonal(gram, np.maximum(diagonal, known))
    gram[np.diag_indices(n)] += _RIDGE * edge + _LEAST_RIDGE
    inverse = np.linalg.inv(gram)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights
