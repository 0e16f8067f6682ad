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
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...tensor._unit_entries import UnitEntries
from .._choices import Choices
from .._products import ProductSums, check_lengths
from .._shared_model import SharedModel, SolvedUnits

# Covers the rounding error of contributions.
_ROUNDED_UP = 1 + 1e-9
# Centre and half width of the range of the logarithm of a unit's number of entries.
USUAL_LOG, LOG_RANGE = 4.0, 3.0
# Number of statistics that tell how well the model fits a unit.
N_FIT_TOTALS = 4


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
        self.bound = bound

    @property
    def n_changed(self) -> int:
        """Number of sums that are rounded after they are summed: none."""
        return 0

    @property
    def unit(self) -> float:
        """Factor from released sums back to sums of vectors."""
        return self.bound / math.sqrt(self.share)

    @property
    def total(self) -> NDArray[np.float64]:
        """The sums as they enter a release."""
        return self.steps * self.step if self.step else self.steps

    def largest(self, n_units: int) -> float:
        """Bound on the steps of any sum over this many units."""
        return n_units * math.sqrt(self.share) / self.step

    def n_bits(self, n_units: int) -> int:
        """Number of bits that hold the steps of any sum over this many units."""
        return 1 + math.ceil(math.log2(_ROUNDED_UP * self.largest(n_units) + 1))

    def n_numbers(self, *, noisy: bool) -> int:
        """Number of integers in a party's answer."""
        return self.steps.size

    def answer(self, *, noisy: bool) -> NDArray[np.int64]:
        """The sums as integers, which a party adds noise to or not."""
        return self.steps.ravel().astype(np.int64)

    def take(self, integers: NDArray[np.int64], n_answers: int | None) -> None:
        """Add the sum of all answers; with their number if they contain noise."""
        self.steps += integers.reshape(self.steps.shape)
        self.n_answers = n_answers

    def empty(self) -> "BoundedSums":
        """The same sums before anything was added."""
        return BoundedSums(self.steps.shape, self.bound, self.share, self.step)

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundedSums, (self.steps.shape, self.bound, self.share, self.step)

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

        scales, lengths = np.empty((2, len(starts) - 1))
        bounded_sums(
            starts,
            order,
            index,
            np.ascontiguousarray(contributions),
            self.bound,
            math.sqrt(self.share),
            self.step,
            self.steps,
            scales,
            lengths,
        )
        check_lengths(lengths, math.sqrt(self.share) / (self.step or 1) * (1 + 1e-10))
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


Sums: TypeAlias = BoundedSums | ProductSums


class Contributions(Protocol):
    """Adds the contributions of units to the sums of one release."""

    def __call__(self, chunk: UnitEntries, *sums: Any) -> None:
        """Add the contributions of the units of a chunk."""


class Units(Protocol):
    """Entries of units, here or elsewhere."""

    def add_to(self, sums: Sequence[Any], contribute: Contributions) -> None:
        """Add the contributions of all units to sums; see `UnitEntries.add_to`."""


def summed(
    entries: UnitEntries, contribute: Contributions, empty: Sequence[Sums]
) -> tuple[Sums, ...]:
    """Sum the contributions of some units to one release.

    Parameters
    ----------
    entries : UnitEntries
        All entries of these units.
    contribute : Contributions
    empty : tuple of BoundedSums or ProductSums
        The sums of the release, empty; not changed.
    """
    sums = tuple(of_block.empty() for of_block in empty)
    entries.add_to(sums, contribute)
    return sums


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
    are_noise : bool, default=False
        Whether the number of units, or of their entries, is within its noise of
        nothing.
    """

    n_units: float
    offset: float
    typical_size: float
    are_noise: bool = False

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
class PatternContributions:
    """Adds the products of units' choices: which rows of the first mode they have.

    Attributes
    ----------
    rows : ndarray of shape (m,), int64
        The rows that count.
    n_rows : int
        Number of all rows.
    """

    rows: NDArray[np.int64]
    n_rows: int

    def __call__(self, chunk: UnitEntries, *sums: ProductSums) -> None:
        """Add the products of the units of a chunk."""
        (products,) = sums
        keys = chunk.numbers * np.int64(self.n_rows) + chunk.others[:, 0]
        products.add(Choices.of(keys, self.n_rows).among(self.rows))


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

    @property
    def n_totals(self) -> int:
        """Number of totals: of the fit, of each prior variance, and of moments."""
        model = self.model
        n_groups = int(model.biases is not None) + len(model.groups)
        n_moments = 1 + model.n_factors
        return N_FIT_TOTALS + 2 * n_groups + n_moments * (n_moments + 1) // 2

    def __call__(self, chunk: UnitEntries, *sums: BoundedSums) -> None:
        """Add the contributions of a chunk to the sums of the block and to totals."""
        model, numbers, block = self.model, chunk.numbers, self.block
        of_rows, of_totals = sums
        solved = model.solve(chunk)
        contributions: Any = [np.empty((len(numbers), 0))]
        if model.form:
            # A factor that had seen the entry would make its residual look explained.
            products = solved.residuals[:, np.newaxis] * solved.held_out
            places, blocks = [np.arange(len(numbers)), *chunk.others.T], [products]
            blocks += model.factors
            contributions = [model.form.regressors(block, blocks, places)]
        contributions.insert(0, solved.residuals[:, np.newaxis][:, : self.n_biases])
        unit_weights = self.totals.weights(chunk)[numbers]
        weights = unit_weights.copy()
        if self.row_weights is not None:
            weights *= self.row_weights[chunk.others[:, block - 1]]
        contributions = np.concatenate(contributions, axis=1)
        contributions /= self.lengths
        contributions *= weights[:, np.newaxis]
        scales = of_rows.add_entries(chunk, block, contributions)
        statistics = [
            self._fit_statistics(chunk, solved, unit_weights, scales),
            self._prior_statistics(solved),
            _moments(chunk, solved),
        ]
        of_totals.add_units(np.concatenate(statistics, axis=1))

    def _fit_statistics(
        self,
        chunk: UnitEntries,
        solved: SolvedUnits,
        weights: NDArray[np.float64],
        scales: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Statistics of units that tell how well the model fits.

        How much the contributions move with the biases, relative to a unit of the
        typical size; the mean square of the residuals, less what is due to the
        uncertainty of biases; the share of the entries that the fit leaves free; and
        the sum of the squared weighted residuals over the variance of a value.
        """
        model, sizes = self.model, chunk.sizes[:, np.newaxis]
        residuals, noise = solved.residuals, model.noise
        leverages = np.clip(solved.leverages, 0.0, 1.0)
        follow, squares, energy = np.hsplit(
            _unit_sums(
                chunk,
                np.stack(
                    [
                        weights * (1 - leverages),
                        solved.squares,
                        (weights * residuals) ** 2 / noise,
                    ],
                    axis=1,
                ),
            ),
            3,
        )
        follow *= scales[:, np.newaxis] / math.sqrt(self.totals.typical_size)
        used = np.zeros((len(sizes), 1))
        for known in solved.known.T:
            used[:, 0] += known
        return np.concatenate(
            [
                np.clip(follow, 0.0, 2.0),
                np.clip(squares / sizes, -1.0, 1.0),
                np.clip(1 - used / sizes, 0.0, 1.0),
                np.clip(energy, 0.0, 2.0),
            ],
            axis=1,
        )

    def _prior_statistics(self, solved: SolvedUnits) -> NDArray[np.float64]:
        """Statistics of units from which prior variances are learned.

        For the bias, then for the weights of each group of features: the mean square
        of the posterior means over the prior variance, and the mean share of the prior
        variance that is known. The ratio of their totals estimates the true variance
        over the prior variance (MacKay 1992).
        """
        model, statistics, first = self.model, [np.empty((len(solved.rows), 0))], 0
        sizes, variances = list(model.groups), list(model.weight_variances)
        if model.biases is not None:
            sizes.insert(0, 1)
            variances.insert(0, model.bias_variance)
        for size, variance in zip(sizes, variances, strict=True):
            squares, known = np.zeros((2, len(solved.rows), 1))
            for column in range(first, first + size):
                squares[:, 0] += solved.rows[:, column] ** 2 / (size * variance)
                known[:, 0] += solved.known[:, column] / size
            statistics += [np.clip(squares, 0.0, 4.0), known]
            first += size
        return np.concatenate(statistics, axis=1)


def _moments(chunk: UnitEntries, solved: SolvedUnits) -> NDArray[np.float64]:
    """Second moments of one and units' factors, as those regress on residuals."""
    from ...tensor.kernels._units import unit_moments

    n_factors = solved.held_out.shape[1]
    n_pairs = (n_factors + 1) * (n_factors + 2) // 2
    moments = np.empty((len(chunk.units), n_pairs))
    free = 1 - np.clip(solved.leverages, 0.0, 1.0)
    unit_moments(chunk.starts, free, solved.held_out, moments)
    return moments


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
