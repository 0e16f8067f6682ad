"""Questions to units, and their contributions, each a function of a unit's entries.

Each question is public: it follows from earlier releases. Its method `add` sums the
contributions of some units, given their entries. It reads nothing else, so it gives the
same whole steps of the lattice wherever it runs; see `contribute`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ....measure import BoundedSums, ProductSums
from ....tensor._choices import Choices
from ....tensor._unit_entries import UnitEntries
from ._block_totals import BlockTotals
from ._population import N_BINS, SHARE, bins_of
from ._shared_model import SharedModel

# Centre and half width of the range of the logarithm of a unit's number of entries.
USUAL_LOG, LOG_RANGE = 4.0, 3.0


@dataclass(frozen=True)
class VectorOfUnit:
    """A part of the first release: one vector for every unit.

    Attributes
    ----------
    size : int
        Number of its elements.
    bound : float
        Largest length of the vector.
    share : float
        Share of the squared budget.
    vectors : callable
        Maps entries of units to the vectors, of shape (n_units, size).
    """

    size: int
    bound: float
    share: float
    vectors: Callable[[UnitEntries], NDArray[np.float64]]


@dataclass(frozen=True)
class NoisyTotals:
    """The noisy totals of the first release, which sum one vector for every unit.

    Attributes
    ----------
    number : float
        Number of units; it may be negative.
    mean_values : float
        Sum of the units' mean values, in half ranges.
    logs : float
        Sum of the logarithms of the units' numbers of entries, in half widths of their
        range around its centre.
    error : float
        Standard deviation of the noise in each.
    """

    number: float
    mean_values: float
    logs: float
    error: float

    @staticmethod
    def vectors(chunk: UnitEntries) -> NDArray[np.float64]:
        """The vectors of units: an array of shape (n_units, 3)."""
        means = chunk.sums(chunk.values[:, np.newaxis])[:, 0] / chunk.sizes
        logs = np.clip((_logarithms(chunk.sizes) - USUAL_LOG) / LOG_RANGE, -1.0, 1.0)
        return np.column_stack([np.ones(len(logs)), means, logs])

    @classmethod
    def of_vector(cls, vector: NDArray[np.float64], error: float) -> Self:
        """Give names to the noisy sums of the vectors of all units."""
        number, mean_values, logs = vector.tolist()
        return cls(number, mean_values, logs, error)


def _lengths(chunk: UnitEntries) -> NDArray[np.float64]:
    """For every unit, a one in the bin of its number of entries."""
    vectors = np.zeros((len(chunk.units), N_BINS))
    vectors[np.arange(len(vectors)), bins_of(chunk.sizes)] = 1.0
    return vectors


FIRST_VECTORS = (
    VectorOfUnit(3, math.sqrt(3.0), 0.03, NoisyTotals.vectors),
    VectorOfUnit(N_BINS, 1.0, SHARE, _lengths),
)


@dataclass(frozen=True)
class FirstQuestion:
    """The first release: vectors of units that depend on no earlier release.

    Attributes
    ----------
    sums : tuple of BoundedSums
        For each of the pieces.
    """

    sums: tuple[BoundedSums, ...]
    chunks_at_once = 1

    def add(self, chunk: UnitEntries, *totals: NDArray[np.float64]) -> None:
        """See `Question`."""
        of_pieces = zip(FIRST_VECTORS, self.sums, totals, strict=True)
        for piece, sums, total in of_pieces:
            sums.add_people(total, piece.vectors(chunk))


@dataclass(frozen=True)
class UnitTotals:
    """Estimated totals over units, on which questions depend.

    Attributes
    ----------
    n_units : float
    offset : float
        Mean over the units of their mean values.
    typical_size : float
        Geometric mean of the units' numbers of entries.
    """

    n_units: float
    offset: float
    typical_size: float

    def weights(self, chunk: UnitEntries) -> NDArray[np.float64]:
        """For every unit, the weight of its entries; their squares add up to <= 1."""
        return 1 / np.sqrt(np.maximum(chunk.sizes, self.typical_size))


@dataclass(frozen=True)
class CountQuestion:
    """The counts of rows; units add the weights of their entries.

    Attributes
    ----------
    sums : tuple of BoundedSums
        For each mode except the units'.
    totals : UnitTotals
    """

    sums: tuple[BoundedSums, ...]
    totals: UnitTotals
    chunks_at_once = 1

    def add(self, chunk: UnitEntries, *totals: NDArray[np.float64]) -> None:
        """See `Question`."""
        weights = self.totals.weights(chunk)[chunk.numbers, np.newaxis]
        for block, (sums, total) in enumerate(zip(self.sums, totals, strict=True), 1):
            sums.add_entries(total, chunk, block, weights)


@dataclass(frozen=True, eq=False)
class PatternQuestion:
    """The products of units' choices, the rows of the first other mode that they have.

    Attributes
    ----------
    sums : tuple of ProductSums
        One.
    rows : ndarray of shape (m,), int64
        The rows that count.
    n_rows : int
        Number of all rows.
    """

    sums: tuple[ProductSums]
    rows: NDArray[np.int64]
    n_rows: int
    chunks_at_once = 16
    """Each chunk costs a matrix of products."""

    def add(self, chunk: UnitEntries, *totals: NDArray[np.int64]) -> None:
        """See `Question`."""
        rows = chunk.others[:, 0]
        # The rows are sorted, and one may occur more than once.
        is_first = np.append(True, rows[1:] != rows[:-1])
        is_first[chunk.starts[:-1]] = True
        starts = np.append(0, np.cumsum(is_first))[chunk.starts]
        items = rows[is_first].astype(np.int32)
        chosen = Choices(chunk.units, starts, items, self.n_rows)
        self.sums[0].add(totals[0], chosen.among(self.rows))


@dataclass(frozen=True, eq=False)
class BlockQuestion:
    """The regressions of the rows of one block, and totals that describe the fit.

    Attributes
    ----------
    sums : tuple of BoundedSums
        The sums of the rows, and the totals; see `BlockTotals`.
    model : SharedModel
        The released part of the model.
    block : int
    n_biases : int
        1 if the first regressor of a row is that of its bias, otherwise 0.
    lengths : ndarray of shape (n_columns,)
        Root mean squares of the regressors.
    totals : UnitTotals
    gains : ndarray of shape (n_rows,) or None
        Factors on the contributions of entries, by their rows; None for 1.
    """

    sums: tuple[BoundedSums, BoundedSums]
    model: SharedModel
    block: int
    n_biases: int
    lengths: NDArray[np.float64]
    totals: UnitTotals
    gains: NDArray[np.float64] | None
    chunks_at_once = 1

    def add(self, chunk: UnitEntries, *totals: NDArray[np.float64]) -> None:
        """See `Question`."""
        model, numbers, block = self.model, chunk.numbers, self.block
        of_rows, of_totals = self.sums
        solved = model.solve(chunk)
        found = [np.empty((len(numbers), 0))]
        if model.form:
            # A factor that was fitted to the entry itself would make its residual look
            # explained.
            products = solved.residuals[:, np.newaxis] * solved.held_out
            places, blocks = [np.arange(len(numbers)), *chunk.others.T], [products]
            blocks += model.factors
            found = [model.form.regressors(block, blocks, places)]
        found.insert(0, solved.residuals[:, np.newaxis][:, : self.n_biases])
        weights = self.totals.weights(chunk)[numbers]
        if self.gains is not None:
            weights *= self.gains[chunk.others[:, block - 1]]
        contributions = np.concatenate(found, axis=1)
        contributions /= self.lengths
        contributions *= weights[:, np.newaxis]
        of_rows.add_entries(totals[0], chunk, block, contributions)
        statistics = BlockTotals.of_units(chunk, solved, weights, model)
        of_totals.add_people(totals[1], statistics.vectors)


def _logarithms(sizes: NDArray[np.integer]) -> NDArray[np.float64]:
    """Logarithms of integers; each depends on its own integer only."""
    distinct, places = np.unique(sizes, return_inverse=True)
    return np.array([math.log(size) for size in distinct.tolist()])[places]
