"""Expected error under unit-level protection, from the shape and number of entries.

Coordinates are private here, so the numbers of entries in the rows are assumed: the
k-th largest number is in proportion to a negative power of k, as in ratings, except
that a cell has at most one entry. Values are assumed to be sums of terms as in `_auto`,
and the recovered shares of the terms follow as in `factors_pay`. "auto" is expected to
choose as it would with these numbers of entries.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from .._problem import Problem
from ._expectation import SHARE_AT_START, Variances
from ._unit_run import (
    BOUND,
    FACTOR_PASSES,
    LEFT,
    after_drift,
    factors_pay,
    planned_shares,
)
from ._units import UnitPerturbation

# Entries fall into the k-th most active row with a probability in proportion to
# k^-power: powers for units, and for rows of the other modes.
_UNITS_POWER, _OTHERS_POWER = 0.7, 0.8
# Share of the residual that units' weights for counts and biases of rows explain, where
# these are known: measured on ratings of films and synthetic ones.
_EXPLAINED = 0.08
_LEAST_NOISE = 1e-12


def expected_unit_rmse(
    problem: Problem,
    n_entries: int,
    perturbation: str,
    variance: float | None = None,
    n_units: int | None = None,
) -> float:
    """Expected root mean squared error of predictions for units that have entries.

    Parameters
    ----------
    problem : Problem
        The unit's mode first; its coordinates are not read.
    n_entries : int
    perturbation : {"auto", "sums", "statistics"}
        "auto" is the one of the others that a fit would take.
    variance : float, default=None
        Variance of the values, in their units squared, if it is public. None takes the
        variance of ratings.
    n_units : int, default=None
        Number of units that have entries; None for all of the shape. There is at least
        one entry for each.

    Returns
    -------
    error : float
        In units of the values.
    """
    variances = Variances.of_values(problem, 0, variance)
    noise = UnitPerturbation(problem, 0, perturbation).noise.noise_variance
    most, *others = problem.shape
    shape = (min(n_units or most, n_entries), *others)
    activity = [_shares(shape, n_entries, mode) for mode in range(len(shape))]
    expectation = _UnitExpectation(problem, variances, noise, n_entries, activity)
    takes_factors = problem.form.rank > 0 and perturbation != "sums"
    if takes_factors and perturbation == "auto":
        takes_factors = expectation.factors_pay()
    error = expectation.of_statistics() if takes_factors else expectation.of_sums()
    return problem.domain.scale * math.sqrt(error)


def _shares(shape: tuple[int, ...], n_entries: int, mode: int) -> NDArray[np.float64]:
    """Each row's share of the entries, for the rows of one mode.

    Entries are drawn until `n_entries` cells have been met, so that rows with many
    entries meet some cells again. The shares are those of the cells.
    """
    power = _OTHERS_POWER if mode else _UNITS_POWER
    weights = np.arange(1, shape[mode] + 1.0) ** -power
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
class _UnitExpectation:
    """Expected squared errors in half ranges squared, averaged over the entries.

    Attributes
    ----------
    problem : Problem
    variances : Variances
    noise : float
        Variance of the noise on vectors of length one.
    n_entries : int
    activity : list of ndarray
        Each row's share of the entries, by mode.
    """

    problem: Problem
    variances: Variances
    noise: float
    n_entries: int
    activity: list[NDArray[np.float64]]

    @property
    def unit_sizes(self) -> NDArray[np.float64]:
        """Numbers of entries of the units."""
        return self.n_entries * self.activity[0]

    @property
    def typical_size(self) -> float:
        """Geometric mean of the numbers of entries of the units."""
        return math.exp(np.log(np.maximum(self.unit_sizes, 1.0)).mean())

    @property
    def unit_weights(self) -> NDArray[np.float64]:
        """Weights of the units' entries; see `UnitTotals.weights`."""
        return 1 / np.sqrt(np.maximum(self.unit_sizes, self.typical_size))

    def factors_pay(self) -> bool:
        """Whether "auto" takes factors."""
        counts = self.activity[1] * (self.unit_sizes @ self.unit_weights)
        return factors_pay(
            self.problem,
            counts,
            self.typical_size,
            sigma=math.sqrt(self.noise),
            left=LEFT,
        )

    def of_sums(self) -> float:
        """Error of biases from noisy sums."""
        around_biases = self.variances.residual + self.variances.interaction
        shares = planned_shares(self.problem, "sums", LEFT)
        return around_biases + self._biases(shares, 1, around_biases)

    def of_statistics(self) -> float:
        """Error of biases and factors from noisy regressions."""
        variances, rank = self.variances, self.problem.form.rank
        shares = planned_shares(self.problem, "statistics", LEFT)
        term, n_columns = variances.interaction / rank, 1 + rank
        unit_share, known = SHARE_AT_START, np.zeros(self.problem.shape[1])
        item_share = SHARE_AT_START
        for of_pass in shares[-FACTOR_PASSES:]:
            unrecovered = variances.interaction * (1 - item_share * unit_share)
            around_model = variances.residual + unrecovered
            known = after_drift(known) + self._information(
                1, term, n_columns, of_pass[1], around_model, unit_share
            )
            item_share = self._recovered_share(1, known)
            information = self.unit_sizes * term * item_share / around_model
            unit_share = float(self.activity[0] @ (information / (1 + information)))
        unrecovered = variances.interaction * (1 - item_share * unit_share)
        around_model = variances.residual + unrecovered
        return around_model + self._biases(shares[1:], n_columns, around_model)

    def _biases(
        self, shares: list[dict[int, float]], n_columns: int, around_model: float
    ) -> float:
        """Error of the biases of all modes; those of units are not released."""
        prior = self.variances.bias
        unit_errors = 1 / (1 / prior + self.unit_sizes / around_model)
        error = self.activity[0] @ unit_errors
        for mode in range(1, len(self.problem.shape)):
            share = math.fsum(pass_shares[mode] for pass_shares in shares)
            known = self._information(mode, prior, n_columns, share, around_model)
            recovered = self._recovered_share(mode, known)
            error += prior * (1 - recovered)
            if mode == 1:
                error -= _EXPLAINED * self.variances.residual * recovered
        return float(error)

    def _information(
        self,
        mode: int,
        variance: float,
        n_columns: int,
        share: float,
        around_model: float,
        moment: float = 1.0,
    ) -> NDArray[np.float64]:
        """What one release tells about the rows of a mode, times their variance."""
        sizes, weights = self.unit_sizes, self.unit_weights
        counts = self.activity[mode] * (sizes @ weights)
        squares = self.activity[mode] * (sizes @ weights**2)
        noise = self.noise * BOUND**2 * (around_model + 0.05) * n_columns / share
        total = np.maximum(noise + around_model * squares, _LEAST_NOISE)
        return variance * counts**2 * moment / total

    def _recovered_share(self, mode: int, known: NDArray[np.float64]) -> float:
        """Share of the prior variance of rows that this information recovers."""
        return float(self.activity[mode] @ (known / (1 + known)))
