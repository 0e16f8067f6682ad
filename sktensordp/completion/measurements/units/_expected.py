"""Expected error under unit-level protection, from public or released numbers.

Coordinates are private here. Before a fit, the numbers of entries in the rows are
assumed: the k-th largest number is in proportion to a negative power of k, as in
ratings, except that a cell has at most one entry. During a fit, released numbers
replace this assumption. Values are assumed to be sums of terms; see `Variances`. "auto"
takes factors if they are expected to reduce the error clearly.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ....tensor._priors import LEAST_NOISE
from ..._problem import Problem
from .._expectation import MOST_TERMS, SHARE_AT_START, Expected, Variances
from ._first import LEFT, RowCounts, rows_of_pattern
from ._questions import UnitTotals
from ._rounds import (
    BOUND,
    FACTOR_PASSES,
    OF_BIASES,
    OF_LOGS,
    after_drift,
    planned_shares,
)

# Least share of the expected squared error by which factors must reduce it. Smaller
# gains are within the error of the expectation.
_LEAST_GAIN = 0.01


def expected_of_units(
    problem: Problem,
    n_entries: int,
    perturbation: str,
    noise: float,
    most_rows: int,
    variance: float | None = None,
    n_units: int | None = None,
) -> Expected:
    """What is expected of predictions for units that have entries.

    Parameters
    ----------
    problem : Problem
        The unit's mode comes first; its coordinates are not read.
    n_entries : int
    perturbation : {"auto", "sums", "statistics"}
        "auto" is the perturbation that a fit would choose.
    noise : float
        Variance of the noise on vectors of length one.
    most_rows : int
        Largest number of rows of a pattern; 0 if none is released.
    variance : float, default=None
        Variance of the values, in their units squared, if it is public. None takes the
        variance of ratings.
    n_units : int, default=None
        Number of units that have entries; None for all of the shape. Each has at least
        one entry.

    Returns
    -------
    expected : Expected
    """
    most, *others = problem.shape
    shape = (min(n_units or most, n_entries), *others)
    of_units, *of_others = (_shares(shape, n_entries, k) for k in range(len(shape)))
    sizes = n_entries * of_units
    typical_size = math.exp(np.log(np.maximum(sizes, 1.0)).mean())
    weights = 1 / np.sqrt(np.maximum(sizes, typical_size))
    expectation = _Expectation(
        problem,
        Variances.of_values(problem, 0, variance),
        noise,
        LEFT,
        sizes,
        of_units,
        [shares * (sizes @ weights) for shares in of_others],
        float(sizes @ weights**2) / float(sizes @ weights),
    )
    takes_factors = problem.form.rank > 0 and perturbation != "sums"
    if takes_factors and perturbation == "auto":
        takes_factors = expectation.takes_factors
    error = expectation.of_statistics() if takes_factors else expectation.of_sums()
    totals = UnitTotals(shape[0], 0.0, typical_size)
    counts, sigma = expectation.counts[0], math.sqrt(noise)
    has_features = bool(problem.features.declared.shape[1]) or bool(
        rows_of_pattern(counts, totals, sigma, most_rows)[0].size
    )
    return Expected(
        problem.domain.scale * math.sqrt(error),
        "statistics" if takes_factors else "sums",
        not (takes_factors or has_features),
    )


def best_name(
    problem: Problem,
    totals: UnitTotals,
    counts: list[RowCounts],
    sigma: float,
    left: float,
) -> str:
    """The perturbation that is expected to be best, judging by what was released.

    Parameters
    ----------
    problem : Problem
        With biases and factors.
    totals : UnitTotals
    counts : list of RowCounts
    sigma : float
        Standard deviation of the noise on vectors of length one.
    left : float
        Share of the squared budget that is left.

    Returns
    -------
    name : {"sums", "statistics"}
    """
    # A released size may be mostly noise. A unit has at most one entry in each cell.
    size = min(totals.typical_size, math.prod(problem.shape[1:]))
    expectation = _Expectation(
        problem,
        Variances.of_values(problem, 0, None),
        sigma**2,
        left,
        np.array([size]),
        np.ones(1),
        [of_mode.counts for of_mode in counts],
        1 / math.sqrt(size),
    )
    return "statistics" if expectation.takes_factors else "sums"


def _shares(shape: tuple[int, ...], n_entries: int, mode: int) -> NDArray[np.float64]:
    """Each row's share of the entries, for the rows of one mode.

    Entries are drawn until they have hit `n_entries` cells; rows with many entries hit
    some cells repeatedly. The shares count each cell once. The k-th most active row is
    drawn with a probability in proportion to a power of k.
    """
    weights = np.arange(1, shape[mode] + 1.0) ** (-0.8 if mode else -0.7)
    n_cells = math.prod(shape) / shape[mode]

    def numbers(log_scale: float) -> NDArray[np.float64]:
        """Expected numbers of cells, for a number of entries drawn."""
        return n_cells * -np.expm1(-math.exp(log_scale) * weights / n_cells)

    if n_entries >= n_cells * shape[mode]:
        return np.full(shape[mode], 1 / shape[mode])
    least = math.log(n_entries / weights.sum())
    most = math.log(40 * n_cells / weights[-1])
    found = numbers(brentq(lambda log: numbers(log).sum() - n_entries, least, most))
    return found / found.sum()


@dataclass(frozen=True, eq=False)
class _Expectation:
    """Expected squared errors in half ranges squared, averaged over the entries.

    Attributes
    ----------
    problem : Problem
    variances : Variances
    noise : float
        Variance of the noise on vectors of length one.
    left : float
        Share of the squared budget for all passes.
    sizes : ndarray of shape (n_units,)
        Numbers of entries of the units.
    of_units : ndarray of shape (n_units,)
        Their shares of the entries.
    counts : list of ndarray of shape (n_rows,)
        Counts of the entries of rows, by mode, with the weights of their units.
    weight : float
        Mean weight of an entry in these counts.
    """

    problem: Problem
    variances: Variances
    noise: float
    left: float
    sizes: NDArray[np.float64]
    of_units: NDArray[np.float64]
    counts: list[NDArray[np.float64]]
    weight: float

    @property
    def takes_factors(self) -> bool:
        """Whether factors are expected to explain more than their noise costs."""
        return self.of_statistics() < (1 - _LEAST_GAIN) * self.of_sums()

    def of_sums(self) -> float:
        """Error of biases from noisy sums."""
        around_biases = self.variances.residual + self.variances.interaction
        shares = planned_shares(self.problem, "sums", self.left)
        passes = _Passes(shares, 1, around_biases)
        return around_biases + self._biases([passes], around_biases)

    def of_statistics(self) -> float:
        """Error of biases and factors from noisy regressions."""
        variances, rank = self.variances, self.problem.form.rank
        shares = planned_shares(self.problem, "statistics", self.left)
        term, n_columns = variances.interaction / min(rank, MOST_TERMS), 1 + rank
        item_share = unit_share = SHARE_AT_START
        item_information = np.zeros(len(self.counts[0]))
        for of_pass in shares[-FACTOR_PASSES:]:
            around_model = self._around(item_share * unit_share)
            item_information = after_drift(item_information) + self._information(
                1, term * unit_share, n_columns, of_pass[1], around_model
            )
            item_share = self._recovered_share(1, item_information)
            information = self.sizes * term * item_share / around_model
            unit_share = float(self.of_units @ (information / (1 + information)))
        around_model = self._around(item_share * unit_share)
        # The passes over factors start from the biases of those before.
        before, of_factors = shares[:-FACTOR_PASSES], shares[-FACTOR_PASSES:]
        passes = [
            _Passes(before, 1, self._around(0.0)),
            _Passes(of_factors, n_columns, around_model),
        ]
        return around_model + self._biases(passes, around_model)

    def _around(self, recovered: float) -> float:
        """Variance of values around a model with a share of the interaction."""
        return self.variances.residual + self.variances.interaction * (1 - recovered)

    def _biases(self, passes: "list[_Passes]", around_model: float) -> float:
        """Error of the biases of all modes; the units' biases are not released."""
        prior = self.variances.bias
        error = float(self.of_units @ (1 / (1 / prior + self.sizes / around_model)))
        for mode in range(1, len(self.problem.shape)):
            information = np.zeros(len(self.counts[mode - 1]))
            for some in passes:
                if share := math.fsum(of_pass[mode] for of_pass in some.shares):
                    information += self._information(
                        mode, prior, some.n_columns, share, some.around_model
                    )
            recovered = self._recovered_share(mode, information)
            error += prior * (1 - recovered)
            if mode == 1:
                # A part of the residual is explained by units' weights.
                biases = OF_BIASES * prior * recovered
                error -= self._explained(OF_LOGS, around_model)
                error -= self._explained(biases, around_model)
        return error

    def _explained(self, variance: float, around_model: float) -> float:
        """The part of a variance among units that their own entries recover."""
        information = self.sizes * variance / around_model
        return variance * float(self.of_units @ (information / (1 + information)))

    def _information(
        self,
        mode: int,
        variance: float,
        n_columns: int,
        share: float,
        around_model: float,
    ) -> NDArray[np.float64]:
        """Information of one release about the rows of a mode, times their variance."""
        counts = self.counts[mode - 1]
        noise = self.noise * BOUND**2 * (around_model + 0.05) * n_columns / share
        total = np.maximum(noise + around_model * self.weight * counts, LEAST_NOISE)
        return variance * counts**2 / total

    def _recovered_share(self, mode: int, information: NDArray[np.float64]) -> float:
        """Share of the prior variance of rows that this information recovers."""
        counts = self.counts[mode - 1]
        recovered = counts @ (information / (1 + information))
        return float(recovered) / max(float(counts.sum()), 1e-300)


@dataclass(frozen=True)
class _Passes:
    """Passes with the same regressors.

    Attributes
    ----------
    shares : list of dict of int to float
        See `planned_shares`.
    n_columns : int
        Number of regressors of a row.
    around_model : float
        Variance of the values around the model.
    """

    shares: list[dict[int, float]]
    n_columns: int
    around_model: float
