"""Compute scores of items from the releases and a user's own choices.

Everything that is computed from the releases is post-processing. The noisy
co-occurrences are denoised by shrinking their eigenvalues. Regressing each item on all
others then gives the weights of EASE (Steck 2019). A fit without noise protects nobody,
and computes its weights from raw choices (``_unprotected_weights.py``).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh

from ....tensor._choices import Choices
from ....tensor._threads import one_blas_thread
from ..._ranking import Wanted, best_of
from ._cooccurrence import ItemSums
from ._unprotected_weights import pair_weights, unprotected_weights

# Number of rows of scores, or of a matrix, that are computed at once.
_N_ROWS = 256
# `_ON_DIAGONAL` of the diagonal is denoised with the other cells of the products. The
# ridge is `_RIDGE` plus `_OF_NOISE` times the noise of a cell times the root of the
# number of items; the largest eigenvalue of the noise is twice that product.
_ON_DIAGONAL, _OF_NOISE, _RIDGE = 0.1, 0.6, 3.0
# Without noise, the largest products are those of this many popular items.
_N_PAIRED = 1500


@dataclass(frozen=True, eq=False)
class ItemModel:
    """A model that scores items for any user whose choices are given.

    Attributes
    ----------
    counts : ndarray of shape (n_items,)
        Noisy weighted counts.
    items : ndarray of shape (m,), int64
        The items that have weights.
    shares : ndarray of shape (m,)
        Each item's expected share of the choices among `items`.
    similarity : ndarray of shape (m, m)
        Weights: how much a choice of the row's item raises the column's score.
    expected : ndarray of shape (m,)
        How much one choice is expected to raise the scores.
    pairs : ndarray of shape (2, n_pairs), int
        The pairs of `items` with the largest centred products, by decreasing product.
    products : ndarray of shape (n_pairs,)
        These products per user, with as much noise removed as possible.
    """

    counts: NDArray[np.float64]
    items: NDArray[np.int64]
    shares: NDArray[np.float64]
    similarity: NDArray[np.floating]
    expected: NDArray[np.float64]
    pairs: NDArray[np.intp]
    products: NDArray[np.float64]

    @classmethod
    def from_sums(cls, sums: ItemSums) -> Self:
        """Compute the model from the releases."""
        # The number of threads may change the last bits.
        with one_blas_thread:
            products = _denoised(sums)
            weights = _weights(sums, products)
            expected = sums.shares @ weights
        pairs, largest = _largest(products)
        of_items = sums.counts, sums.items, sums.shares, weights, expected
        return cls(*of_items, pairs, largest / sums.population.n_users)

    @classmethod
    def from_choices(cls, sums: ItemSums, choices: Choices) -> Self:
        """Compute the model from raw choices, for a fit that adds no noise."""
        if sums.counts_noise:
            raise RuntimeError("A fit with noise must not read raw choices again.")
        if not len(sums.items):
            return cls.from_counts(sums.counts)
        chosen, shares = choices.among(sums.items), sums.shares
        with one_blas_thread:
            weights = unprotected_weights(chosen, sums.counts[sums.items])
            pairs, largest = _largest(_centred(chosen, shares))
        # The products are not centred, so a choice is expected to raise scores by q.
        of_items = sums.counts, sums.items, shares, weights, shares
        return cls(*of_items, pairs, largest / sums.population.n_users)

    @classmethod
    def from_counts(cls, counts: NDArray[np.float64]) -> Self:
        """The model of items of which only counts are known."""
        none, no_pairs = np.empty(0), np.empty((2, 0), np.intp)
        of_pairs = none, np.empty((0, 0)), none, no_pairs, none
        return cls(counts, no_pairs[0], *of_pairs)

    @property
    def shapes_agree(self) -> bool:
        """Whether the arrays have the shapes that are stated above."""
        m, n_pairs = len(self.items), len(self.products)
        found = self.counts, self.shares, self.similarity, self.expected, self.pairs
        return [a.shape for a in found] == [
            (len(self.counts),), (m,), (m, m), (m,), (2, n_pairs),
        ]  # fmt: skip

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
            (
                np.ones_like(chosen.items, self.similarity.dtype),
                chosen.items,
                chosen.starts,
            ),
            shape=(len(sizes), len(self.items)),
        )
        scores[:, self.items] += indicators @ self.similarity - sizes * self.expected
        return scores

    def best(self, choices: Choices, wanted: Wanted) -> NDArray[np.int64]:
        """Best items for each user; see `Wanted`."""

        def scores_of(rows: slice) -> NDArray[np.float64]:
            return self.scores(choices.chunk(rows.start, rows.stop))

        observed = [choices] if wanted.exclude_observed else []
        return wanted.best(len(choices.users), len(self.counts), scores_of, observed)

    def similar(self, items: NDArray[np.integer], k: int) -> NDArray[np.int64]:
        """The k items whose scores a choice of each item raises most; -1 if fewer."""
        best = np.full((len(items), k), -1, dtype=np.int64)
        has_weights = np.flatnonzero(np.isin(items, self.items))
        places = np.argsort(self.items)
        order = np.searchsorted(self.items, items[has_weights], sorter=places)
        weights = self.similarity[places[order]]
        weights = np.where(weights > 0, weights, -np.inf)
        if len(has_weights):
            # If weights are equal, the item with the lower index comes first.
            found = best_of(weights[:, places], k)
            raised = self.items[places[np.maximum(found, 0)]]
            best[has_weights] = np.where(found < 0, -1, raised)
        return best

    def at(
        self, choices: Choices, rows: NDArray[np.intp], items: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Score of each item for the user in its row of `choices`; 0 for item -1."""
        result = np.zeros(len(items))
        for start in range(0, len(choices.users), _N_ROWS):
            here = (rows >= start) & (rows < start + _N_ROWS) & (items >= 0)
            scores = self.scores(choices.chunk(start, start + _N_ROWS))
            result[here] = scores[rows[here] - start, items[here]]
        return result


def _denoised(sums: ItemSums) -> NDArray[np.float64]:
    """The centred products, with eigenvalues shrunk by what noise adds to them.

    A part of the diagonal is denoised together with the other cells.
    """
    products = sums.products
    if not len(products):
        return products
    diagonal = np.maximum(np.diag(products), 0.0)
    gram = products.copy()
    np.fill_diagonal(gram, _ON_DIAGONAL * diagonal)
    values, vectors = eigh(gram, overwrite_a=True)
    gram = (vectors * shrunk(values, sums.products_noise)) @ vectors.T
    np.fill_diagonal(gram, np.maximum(diagonal, np.diag(gram)))
    return gram


def _centred(chosen: Choices, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The centred products of popular items, as a fit with noise releases them."""
    matrix = sparse.csr_array(
        (np.ones(len(chosen.items)), chosen.items, chosen.starts),
        shape=(len(chosen.users), len(shares)),
    )
    weights, sizes = product_weights(matrix, shares), chosen.sizes.astype(float)
    q = shares[:_N_PAIRED]
    along = (weights * sizes) @ matrix[:, : len(q)]
    crossed = np.outer(q, along)
    pairs = pair_weights(chosen.among(np.arange(len(q))), weights)
    return pairs - crossed - crossed.T + np.sum(weights * sizes**2) * np.outer(q, q)


def product_weights(
    chosen: sparse.csr_array, shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Each user's weight c in the products of release 3 (``_cooccurrence.py``).

    Parameters
    ----------
    chosen : csr_array of shape (n_users, m)
        Ones where a user chose an item.
    shares : ndarray of shape (m,)
        q.
    """
    q, sizes = shares, np.diff(chosen.indptr)
    # Lengths of the centred products, with half of the diagonal.
    off = np.repeat(sizes, sizes) * q[chosen.indices]
    fourth = sparse.csr_array(
        ((1 - off) ** 4 - off**4, chosen.indices, chosen.indptr), shape=chosen.shape
    ).sum(axis=1)
    squares = sizes - 2 * sizes * (chosen @ q) + sizes**2 * np.sum(q**2)
    lengths = squares**2 / 2 - (fourth + sizes**4 * np.sum(q**4)) / 4
    weights: NDArray[np.float64] = 1 / np.sqrt(np.maximum(lengths, 1.0))
    return weights


def _largest(
    products: NDArray[np.float64],
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The largest positive products off the diagonal, up to 100, and their pairs."""
    pairs = np.array(np.triu_indices(len(products), 1))
    found = products[tuple(pairs)]
    order = np.argsort(-found, kind="stable")[:100]
    order = order[found[order] > 0]
    return pairs[:, order], found[order]


def _weights(sums: ItemSums, products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Regress each item on all others, given the centred products."""
    shares, n = sums.shares, len(sums.shares)
    if n == 0:
        return np.empty((0, 0))
    gram = products.copy()
    # The ridge: one part for the noise in eigenvalues, and one that is always there.
    gram[np.diag_indices(n)] += _OF_NOISE * sums.products_noise * np.sqrt(n) + _RIDGE
    # This undoes the centring. Every user's y adds up to about 0, so without this term
    # the matrix is singular, apart from noise and ridge.
    people = sums.population
    gram += people.n_users * people.typical_size * np.outer(shares, shares)
    inverse = np.linalg.inv(gram)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights


def shrunk(values: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Estimate the eigenvalues that make a matrix without noise closest to it.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Eigenvalues of a symmetric matrix whose cells have independent noise.
    noise : float
        Standard deviation of the noise in a cell.

    Returns
    -------
    shrunk : ndarray of shape (n,)
        Each eigenvalue w, less 2 noise^2 times the sum over all others v of
        1 / (w - v), smoothed at the distance of neighbouring eigenvalues, and at least
        0. A single eigenvalue w outside of those of the noise becomes
        (w^2 - 4 n noise^2)^(1/2) (Bun, Allez, Bouchaud and Potters 2016).
    """
    result = np.empty_like(values)
    for start in range(0, len(values), _N_ROWS):
        apart = values[start : start + _N_ROWS, np.newaxis] - values
        pushed = apart / np.maximum(apart**2 + (2 * noise) ** 2, 1e-300)
        result[start : start + _N_ROWS] = pushed.sum(axis=1)
    return np.maximum(values - 2 * noise**2 * result, 0.0)
