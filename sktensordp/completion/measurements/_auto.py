"""Expected error of each perturbation, computed from public quantities alone.

The expectation assumes that a value is the sum of an offset, a bias for each mode, an
interaction of rank 5 at most, the weights that its row of the first mode gives to the
pattern features, and a residual, with the variances below. How much of each term a
perturbation recovers depends on the numbers of entries in the rows and on the variance
of the noise.
Perturbations are compared by the expected squared error of the unrecovered rest,
averaged over the observed entries. Expected errors reported to users are for values in
the same proportions, scaled to the variance of ratings.

For the interaction, the recovered share q of a row solves
q = 1 - 1 / (1 + n V q' / D). Here n is the number of entries of the row, V the variance
of a term, D the variance of an observation around the model, and q' the average share
in the other mode: the state evolution of low-rank estimation (Lesieur, Krzakala and
Zdeborova 2017).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...tensor._priors import BIAS_VARIANCE, INTERACTION_VARIANCE
from .._problem import Problem
from ._blocks import BlockPerturbation
from ._input import InputPerturbation
from ._solver import Solver
from ._sums import SumsPerturbation

# Variances in half ranges squared: of the weights of one feature, and of the residual.
_WEIGHTS, _RESIDUAL = 0.002, 0.15
# Rank of the interaction at most: a fit switches off terms beyond. With as many terms
# as the rank (10), expected errors without noise were 7% too large on ratings from
# `make_ratings` and 4% on MovieLens latest-small; so they are 4% and 1%.
_LARGEST_RANK = 5
# Variance of ratings, in half ranges squared: 0.221 in MovieLens latest-small, 0.214 in
# ratings from `make_ratings`.
_RATINGS = 0.22
# Share of the interaction that a fit recovers at its start.
SHARE_AT_START = 0.05


def choose_perturbation(problem: Problem) -> Solver:
    """Solver with the least expected error.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    solver : InputPerturbation, SumsPerturbation or BlockPerturbation
    """
    errors = expected_errors(problem)
    return min(errors, key=errors.__getitem__)


def expected_errors(problem: Problem) -> dict[Any, float]:
    """Expected squared error of every eligible solver, without the residual.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    errors : dict of solver to float
        In half ranges squared.
    """
    solvers = _eligible_solvers(problem)
    if len(solvers) == 1:
        return {solvers[0]: 0.0}
    variances = _variances_of_terms(problem, problem.few_features.shape[1])
    expectation = _EntryExpectation(problem, variances)
    return {solver: expectation.of(solver) for solver in solvers}


def expected_rmse(
    problem: Problem, perturbation: str, variance: float | None = None
) -> float:
    """Expected root mean squared error of predictions for held-out values.

    Parameters
    ----------
    problem : Problem
        With biases, without smooth modes.
    perturbation : {"auto", "input", "sums", "statistics"}
        "auto" is the one of the others with the least expected error.
    variance : float, default=None
        Variance of the values, in their units squared, if it is public. None takes the
        variance of ratings.

    Returns
    -------
    error : float
        In units of the values.

    Raises
    ------
    ValueError
        If `perturbation` is "statistics" and there are no features.
    """
    solvers = _eligible_solvers(problem)
    if perturbation == "sums":
        solvers = [SumsPerturbation(problem)]
    elif perturbation == "statistics":
        solvers = [BlockPerturbation(problem, perturbation)]
        if not solvers[0].uses_features:
            raise ValueError(
                'The expected error of perturbation="statistics" is known only with '
                "features: side_information, or a pattern in the coordinates "
                "(n_pattern_components > 0)."
            )
    elif perturbation != "auto":
        solvers = solvers[:1]
    variances = assumed_variances(problem, problem.few_features.shape[1], variance)
    expectation = _EntryExpectation(problem, variances)
    error = min(expectation.of(solver) for solver in solvers)
    return problem.domain.scale * math.sqrt(error + variances.residual)


def _eligible_solvers(problem: Problem) -> list[Any]:
    """Solvers that "auto" chooses from; input perturbation always comes first."""
    solvers: list[Any] = [InputPerturbation(problem)]
    if math.isfinite(problem.epsilon) and problem.biases and not problem.smooth_modes:
        solvers.append(SumsPerturbation(problem))
        statistics = BlockPerturbation(problem, "statistics")
        if statistics.uses_features:
            solvers.append(statistics)
    return solvers


@dataclass(frozen=True)
class _Variances:
    """Assumed variances of the terms of a value, in half ranges squared.

    Attributes
    ----------
    bias : float
        Of one mode.
    interaction, weights, residual : float
    """

    bias: float
    interaction: float
    weights: float
    residual: float

    def total(self, n_modes: int) -> float:
        """Variance of the values."""
        return n_modes * self.bias + self.interaction + self.weights + self.residual

    def scaled(self, factor: float) -> "_Variances":
        """All variances multiplied by `factor`."""
        return _Variances(*(factor * variance for variance in vars(self).values()))


def assumed_variances(
    problem: Problem, n_features: int, variance: float | None = None
) -> _Variances:
    """Assumed variances of the terms of values with a given variance.

    Parameters
    ----------
    problem : Problem
    n_features : int
        Number of features of the rows of the second mode.
    variance : float, default=None
        Variance of the values, in their units squared. None takes that of ratings.

    Returns
    -------
    variances : _Variances
    """
    total = _RATINGS if variance is None else variance / problem.domain.scale**2
    variances = _variances_of_terms(problem, n_features)
    # An interaction that the model omits counts as residual.
    residual = _RESIDUAL + INTERACTION_VARIANCE - variances.interaction
    variances = replace(variances, residual=residual)
    return variances.scaled(total / variances.total(len(problem.entries.shape)))


def _variances_of_terms(problem: Problem, n_features: int) -> _Variances:
    """Assumed variances before they are scaled to the variance of the values."""
    interaction = INTERACTION_VARIANCE if problem.form.rank else 0.0
    return _Variances(BIAS_VARIANCE, interaction, _WEIGHTS * n_features, _RESIDUAL)


class _EntryExpectation:
    """Expected squared errors of solvers, averaged over the entries."""

    def __init__(self, problem: Problem, variances: _Variances) -> None:
        self._problem = problem
        self._bias, self._interaction = variances.bias, variances.interaction
        self._weights, self._residual = variances.weights, variances.residual
        # Rows without entries have no weight in an average over the entries.
        counts = problem.entries.counts
        self._counts = [of_mode[of_mode > 0].astype(float) for of_mode in counts]
        self._n_features = problem.few_features.shape[1]

    def of(self, solver: Any) -> float:
        """Expected squared error of one solver."""
        scale = self._problem.domain.scale**2
        if solver.name == "input":
            residual = scale * self._residual
            return self._of_values(solver.randomizer.noise_around(residual) / scale)
        if solver.name == "sums":
            return self._of_sums(solver.randomizer.noise_variance / scale)
        return self._of_sums(
            solver.sums.randomizer.noise_variance / scale, solver.noise_variance / scale
        )

    def _of_values(self, noise: float) -> float:
        """Error of a fit to values, each with noise of this variance."""
        recovered = math.prod(self._recovered_shares(noise + self._residual))
        around_model = self._interaction * (1 - recovered) + self._residual
        error = around_model - self._residual
        for counts in self._counts:
            error += self._average(
                counts, 1 / (1 / self._bias + counts / (noise + around_model))
            )
        if self._weights:
            information = self._counts[0] / self._n_features / (noise + around_model)
            error += self._average(
                self._counts[0], 1 / (1 / self._weights + information)
            )
        return error

    def _of_sums(self, noise: float, noise_of_weights: float | None = None) -> float:
        """Error of biases from noisy sums, and of weights if they are released too."""
        around_biases = self._residual + self._interaction + self._weights
        error = self._interaction
        for counts in self._counts:
            information = counts**2 / (counts * around_biases + noise)
            error += self._average(counts, 1 / (1 / self._bias + information))
        if noise_of_weights is None:
            return error + self._weights
        counts_per_feature = self._counts[0] / self._n_features
        around_model = around_biases - self._weights
        information = counts_per_feature**2 / (
            counts_per_feature * around_model + noise_of_weights
        )
        return error + self._average(
            self._counts[0], 1 / (1 / self._weights + information)
        )

    def _recovered_shares(self, around_model: float) -> list[float]:
        """Share of the interaction's factors that a fit recovers, mode by mode."""
        # Modes after the second modulate the interaction and do not change its mean.
        shares = [SHARE_AT_START] * 2 + [1.0] * (len(self._counts) - 2)
        if not self._interaction:
            return shares
        term = self._interaction / min(self._problem.form.rank, _LARGEST_RANK)
        for _ in range(self._problem.max_iter):
            unrecovered = self._interaction * (1 - math.prod(shares))
            variance = around_model + unrecovered
            for mode, counts in enumerate(self._counts[:2]):
                information = counts * term / variance * shares[1 - mode]
                shares[mode] = self._average(counts, information / (1 + information))
        return shares

    @staticmethod
    def _average(counts: NDArray[np.float64], values: NDArray[np.float64]) -> float:
        """Average of the rows' values over the entries."""
        return float(counts @ values / counts.sum())
