"""What a unit contributes to a release: a function of its own entries.

A release is a sum over units. Each function here adds the contributions of some units
to such sums, given their entries and earlier releases, which are public. It reads
nothing else, so it gives the same whole steps of the lattice in the process that fits,
on a worker of Dask, or at a party that keeps its units' entries to itself. Sums of
whole steps are exact, so it does not matter who adds which first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...tensor._algebra import packed_squares
from ...tensor._unit_entries import UnitEntries
from .._shared_model import SharedModel

# Covers the rounding error of contributions.
_ROUNDED_UP = 1 + 1e-9
# Centre and half width of the range of the logarithm of a unit's number of entries.
USUAL_LOG, LOG_RANGE = 4.0, 3.0
# Share of the posterior covariance of units' factors that counts towards the second
# moment of the regressors. A share of 1 would be expectation maximisation, which is
# slow. With 0, the factors would be fitted to the very residuals that they were
# computed from.
_SPREAD_SHARE = 0.6


class BoundedSums:
    """Sums over units of their vectors, which are scaled down to a bound.

    Copies and pickles are empty, as they are sent to those who add contributions.

    Parameters
    ----------
    shape : tuple of (int, int)
        Numbers of rows and of columns of a unit's vector.
    bound : float
        Largest length of a vector; longer ones are scaled down.
    share : float
        Share of the squared budget.
    step : float
        Step of the noise lattice; 0 for no noise.

    Attributes
    ----------
    steps : ndarray of shape `shape`
        The sums; numbers of steps if there is noise.
    n_answers : int or None
        Number of parties whose noise the sums contain already; None before noise.
    """

    def __init__(
        self, shape: tuple[int, int], bound: float, share: float, step: float
    ) -> None:
        self.share, self.step, self.steps = share, step, np.zeros(shape)
        self.n_answers: int | None = None
        self._bound = bound

    @property
    def unit(self) -> float:
        """Factor from released sums back to sums of vectors."""
        return self._bound / math.sqrt(self.share)

    @property
    def total(self) -> NDArray[np.float64]:
        """The sums as they enter a release."""
        return self.steps * self.step if self.step else self.steps

    @property
    def has_steps(self) -> bool:
        """Whether there is noise, so that contributions are whole steps."""
        return self.step > 0

    @property
    def is_bounded(self) -> bool:
        """Whether vectors are scaled to a finite bound and a finite share."""
        return 0 < self._bound < math.inf and 0 < self.share < math.inf

    def largest(self, n_units: int) -> float:
        """Bound on the steps of any sum over this many units."""
        return n_units * math.sqrt(self.share) / self.step

    def n_bits(self, n_units: int) -> int:
        """Number of bits that hold the steps of any sum over this many units."""
        return 1 + math.ceil(math.log2(_ROUNDED_UP * self.largest(n_units) + 1))

    def empty(self) -> "BoundedSums":
        """The same sums before anything was added."""
        return BoundedSums(self.steps.shape, self._bound, self.share, self.step)

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundedSums, (self.steps.shape, self._bound, self.share, self.step)

    def add(
        self,
        starts: NDArray[np.int64],
        order: NDArray[np.integer],
        index: NDArray[np.int32],
        contributions: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Add contributions of entries to the vectors of their units.

        Returns
        -------
        scales : ndarray of shape (n_units,)
            Factors that scaled the vectors down to the bound.
        """
        from ...tensor.kernels._units import bounded_sums

        scales = np.empty(len(starts) - 1)
        bounded_sums(
            starts,
            order,
            index,
            np.ascontiguousarray(contributions),
            self._bound,
            math.sqrt(self.share),
            self.step,
            self.steps,
            scales,
        )
        return scales

    def add_entries(
        self, chunk: UnitEntries, block: int, contributions: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Add contributions of entries to the rows of a block; see `add`."""
        if block > len(chunk.orders):
            order = np.arange(len(chunk.values))
            one_row = np.zeros(len(order), np.int32)
            return self.add(chunk.starts, order, one_row, contributions)
        rows = np.ascontiguousarray(chunk.others[:, block - 1])
        return self.add(chunk.starts, chunk.orders[block - 1], rows, contributions)

    def add_units(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add one vector for each unit, to sums of one row; see `add`."""
        places = np.arange(len(vectors) + 1)
        one_row = np.zeros(len(places), np.int32)
        return self.add(places, places[:-1], one_row, vectors)


class Contributions(Protocol):
    """Adds the contributions of units to the sums of one release."""

    def __call__(self, chunk: UnitEntries, *sums: BoundedSums) -> None:
        """Add the contributions of the units of a chunk."""


class Units(Protocol):
    """Entries of units, here or elsewhere."""

    def add_to(self, sums: Sequence[BoundedSums], contribute: Contributions) -> None:
        """Add the contributions of all units to sums; see `UnitEntries.add_to`."""


def steps_of(
    entries: UnitEntries, contribute: Contributions, empty: tuple[BoundedSums, ...]
) -> tuple[NDArray[np.float64], ...]:
    """Sum the contributions of some units to one release.

    Parameters
    ----------
    entries : UnitEntries
        All entries of these units.
    contribute : Contributions
    empty : tuple of BoundedSums
        The sums of the release, empty; not changed.

    Returns
    -------
    steps : tuple of ndarray
        Whole numbers of steps, unless there is no noise.
    """
    sums = tuple(of_block.empty() for of_block in empty)
    entries.add_to(sums, contribute)
    return tuple(of_block.steps for of_block in sums)


@dataclass(frozen=True)
class UnitTotals:
    """Noisy totals over units.

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


def add_totals(chunk: UnitEntries, *sums: BoundedSums) -> None:
    """Add one, the mean value and the logarithm of the size of every unit."""
    means = _unit_sums(chunk, chunk.values[:, np.newaxis])[:, 0] / chunk.sizes
    logs = np.clip((_logarithms(chunk.sizes) - USUAL_LOG) / LOG_RANGE, -1.0, 1.0)
    sums[0].add_units(np.column_stack([np.ones(len(logs)), means, logs]))


@dataclass(frozen=True)
class CountContributions:
    """Adds the weights of units' entries to the counts of rows.

    Attributes
    ----------
    totals : UnitTotals
    """

    totals: UnitTotals

    def __call__(self, chunk: UnitEntries, *sums: BoundedSums) -> None:
        """Add the weights of the entries of a chunk, mode by mode."""
        weights = self.totals.weights(chunk)[chunk.numbers, np.newaxis]
        for block, block_sums in enumerate(sums, start=1):
            block_sums.add_entries(chunk, block, weights)


@dataclass(frozen=True, eq=False)
class BlockContributions:
    """Adds what units contribute to the regressions of the rows of one block.

    Attributes
    ----------
    model : SharedModel
        The released part of the model.
    block : int
    n_biases : int
        1 if the first regressor of a row is that of its bias, otherwise 0.
    lengths : ndarray of shape (n_columns,)
        Root mean squares of the regressors.
    totals : UnitTotals
    row_weights : ndarray of shape (n_rows,) or None
        Weights of the rows; None for a core.
    """

    model: SharedModel
    block: int
    n_biases: int
    lengths: NDArray[np.float64]
    totals: UnitTotals
    row_weights: NDArray[np.float64] | None

    def __call__(self, chunk: UnitEntries, *sums: BoundedSums) -> None:
        """Add the contributions of a chunk to the sums of the block and to totals."""
        model, numbers, block = self.model, chunk.numbers, self.block
        of_rows, of_totals = sums
        rows, shares, spread, squares, freedom = model.solve(chunk)
        bias, features, factors = model.split(rows)
        residuals = chunk.values - model.known(chunk.others)
        if bias.shape[1]:
            residuals -= bias[numbers, 0]
        for column, weight in zip(model.features.T, features.T, strict=True):
            residuals -= column[chunk.others[:, 0]] * weight[numbers]
        contributions: Any = [np.empty((len(residuals), 0))]
        if model.form:
            products = self._expected_products(chunk, factors, spread, residuals)
            places, blocks = [np.arange(len(residuals)), *chunk.others.T], [products]
            blocks += model.factors
            contributions = [model.form.regressors(block, blocks, places)]
        contributions.insert(0, residuals[:, np.newaxis][:, : self.n_biases])
        weights = self.totals.weights(chunk)[numbers]
        if self.row_weights is not None:
            weights *= self.row_weights[chunk.others[:, block - 1]]
        contributions = np.concatenate(contributions, axis=1)
        contributions /= self.lengths
        contributions *= weights[:, np.newaxis]
        scales = of_rows.add_entries(chunk, block, contributions)
        weight = _unit_sums(chunk, weights[:, np.newaxis]) * scales[:, np.newaxis]
        weight = np.minimum(weight / math.sqrt(self.totals.typical_size), 2.0)
        fit = np.stack([squares, freedom], axis=1) / chunk.sizes[:, np.newaxis]
        moments = packed_squares(np.insert(factors, 0, 1.0, axis=1))
        moments[:, moments.shape[1] - spread.shape[1] :] += _SPREAD_SHARE * spread
        priors = self._prior_statistics(rows, shares)
        of_totals.add_units(np.concatenate([weight, fit, priors, moments], axis=1))

    def _expected_products(
        self,
        chunk: UnitEntries,
        factors: NDArray[np.float64],
        spread: NDArray[np.float64],
        residuals: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Expected products of residuals and units' factors, entry by entry.

        Parameters
        ----------
        residuals : ndarray of shape (n_entries,)
            Values less all terms but the interaction, which is subtracted here.
        """
        from ...tensor.kernels._units import expected_products

        form, blocks = self.model.form, [None, *self.model.factors]
        places = [np.zeros(len(residuals), dtype=np.intp), *chunk.others.T]
        regressors = np.ascontiguousarray(form.regressors(0, blocks, places))
        products = np.empty_like(regressors)
        expected_products(
            chunk.starts,
            regressors,
            np.ascontiguousarray(factors),
            np.ascontiguousarray(spread),
            _SPREAD_SHARE,
            residuals,
            products,
        )
        return products

    def _prior_statistics(
        self, rows: NDArray[np.float64], shares: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Statistics of units from which prior variances are learned.

        For the biases, then for the weights of features: the mean square of the
        posterior means over the prior variance, and the mean share of the prior
        variance that is known. The ratio of their totals estimates the true variance
        over the prior variance (MacKay 1992).
        """
        model, statistics = self.model, []
        n_biases, n_features = int(model.biases is not None), model.features.shape[1]
        for first, size, variance in (
            (0, n_biases, model.bias_variance),
            (n_biases, n_features, model.weights_variance / max(n_features, 1)),
        ):
            squares, known = np.zeros((2, len(rows), 1))
            for column in range(first, first + size):
                squares[:, 0] += rows[:, column] ** 2 / (size * variance)
                known[:, 0] += (1 - shares[:, column]) / size
            statistics += [np.minimum(squares, 4.0), known]
        return np.concatenate(statistics, axis=1)


def _unit_sums(
    chunk: UnitEntries, numbers: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Sums over the entries of every unit."""
    from ...tensor.kernels._units import unit_sums

    sums = np.empty((len(chunk.units), numbers.shape[1]))
    unit_sums(chunk.starts, numbers, sums)
    return sums


def _logarithms(sizes: NDArray[np.integer]) -> NDArray[np.float64]:
    """Logarithms of integers; each is independent of the other integers."""
    distinct, places = np.unique(sizes, return_inverse=True)
    return np.array([math.log(size) for size in distinct.tolist()])[places]
