"""What error is expected of a perturbation, from public quantities alone.

Values are imagined to be an offset, a bias for every mode, an interaction of low rank,
weights that rows of the first mode give to the features of the pattern, and a residual,
all with the variances below. How much of each a perturbation lets one know follows from
the numbers of entries in the rows and the variance of the noise; the expected squared
error of what remains, averaged over the observed entries, is compared. What is stated
to users is for values in the same proportions that have the variance of ratings.

For the interaction, the share of a row that is known, q, solves
q = 1 - 1 / (1 + n V q' / D), with n the entries of the row, V the variance of a term, D
that of an observation around the model, and q' the average share in the other mode:
the state evolution of low-rank estimation (Lesieur, Krzakala and Zdeborova 2017).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._problem import Problem
from ._blocks import BlockPerturbation
from ._input import InputPerturbation
from ._solver import Solver
from ._sums import SumsPerturbation

__all__ = [
    "choose_perturbation",
    "expected_errors",
    "expected_rmse",
    "stated_parts",
]

# Variances in half ranges squared: of a bias, of an interaction, of what the weights of
# one feature explain, and of the residual.
_BIAS, _INTERACTION, _WEIGHTS, _RESIDUAL = 0.04, 0.045, 0.002, 0.15
# Of values, in half ranges squared: 0.221 in MovieLens latest-small, 0.214 in what
# `make_ratings` draws.
_VARIANCE = 0.22
# A fit begins with so small a share of the interaction.
_SHARE_AT_START = 0.05


def choose_perturbation(problem: Problem) -> Solver:
    """Solver of the least expected error.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    solver : InputPerturbation, SumsPerturbation or BlockPerturbation
    """
    found = expected_errors(problem)
    return min(found, key=found.__getitem__)


def expected_errors(problem: Problem) -> dict[Any, float]:
    """Expected squared error of every solver that may be chosen, without the residual.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    errors : dict of solver to float
        In half ranges squared.
    """
    solvers = _solvers(problem)
    if len(solvers) == 1:
        return {solvers[0]: 0.0}
    expectation = _Expectation(problem, _parts(problem, _n_features(problem)))
    return {solver: expectation.of(solver) for solver in solvers}


def expected_rmse(
    problem: Problem, perturbation: str, variance: float | None = None
) -> float:
    """Expected root mean squared error of predictions of values that are held out.

    Parameters
    ----------
    problem : Problem
        With biases, without smooth modes.
    perturbation : {"auto", "input", "sums", "statistics"}
        "auto" is the one of the others with the least expected error.
    variance : float, default=None
        Of the values, in their units squared, if it is public. None for that of
        ratings.

    Returns
    -------
    error : float
        In units of the values.

    Raises
    ------
    ValueError
        If statistics are asked for, and there are no features.
    """
    solvers = _solvers(problem)
    if perturbation == "sums":
        solvers = [SumsPerturbation(problem)]
    elif perturbation == "statistics":
        solvers = [BlockPerturbation(problem, perturbation)]
        if not solvers[0].uses_features:
            raise ValueError(
                'The expected error of "statistics" is known where the coordinates '
                "or side_information have features."
            )
    elif perturbation != "auto":
        solvers = solvers[:1]
    parts = stated_parts(problem, _n_features(problem), variance)
    expectation = _Expectation(problem, parts)
    error = min(expectation.of(solver) for solver in solvers)
    return problem.scale * math.sqrt(error + parts.residual)


def _solvers(problem: Problem) -> list[Any]:
    """Those that may be chosen; the first is always there."""
    solvers: list[Any] = [InputPerturbation(problem)]
    if math.isfinite(problem.epsilon) and problem.biases and not problem.smooth_modes:
        solvers.append(SumsPerturbation(problem))
        statistics = BlockPerturbation(problem, "statistics")
        if statistics.uses_features:
            solvers.append(statistics)
    return solvers


@dataclass(frozen=True)
class _Parts:
    """Variances of what values are the sum of, in half ranges squared.

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
        """Of the values."""
        return n_modes * self.bias + self.interaction + self.weights + self.residual

    def scaled(self, factor: float) -> "_Parts":
        """The same parts of values with so many times the variance."""
        return _Parts(*(factor * part for part in vars(self).values()))


def stated_parts(
    problem: Problem, n_features: int, variance: float | None = None
) -> _Parts:
    """What values of a variance are imagined to be.

    Parameters
    ----------
    problem : Problem
    n_features : int
        Of the rows of the second mode.
    variance : float, default=None
        Of the values, in their units squared; None for that of ratings.

    Returns
    -------
    parts : _Parts
    """
    total = _VARIANCE if variance is None else variance / problem.scale**2
    parts = _parts(problem, n_features)
    # What the model leaves out is in the residual.
    parts = replace(parts, residual=_RESIDUAL + _INTERACTION - parts.interaction)
    return parts.scaled(total / parts.total(len(problem.shape)))


def _n_features(problem: Problem) -> int:
    return 0 if problem.features is None else problem.features.shape[1]


def _parts(problem: Problem, n_features: int) -> _Parts:
    """What values are imagined to be, where perturbations are compared."""
    interaction = _INTERACTION if problem.rank else 0.0
    return _Parts(_BIAS, interaction, _WEIGHTS * n_features, _RESIDUAL)


class _Expectation:
    """Expected errors of parts of the model, averaged over the entries."""

    def __init__(self, problem: Problem, parts: _Parts) -> None:
        self._problem = problem
        self._bias, self._interaction = parts.bias, parts.interaction
        self._weights, self._residual = parts.weights, parts.residual
        self._counts = [counts.astype(float) for counts in problem.counts]
        self._n_features = _n_features(problem)

    def of(self, solver: Any) -> float:
        """Expected squared error of one solver."""
        scale = self._problem.scale**2
        if solver.name == "input":
            return self._of_values(solver.problem.values.mean_variance / scale)
        if solver.name == "sums":
            return self._of_sums(solver.randomizer.noise_variance / scale)
        return self._of_sums(
            solver.sums.randomizer.noise_variance / scale, solver.noise_variance / scale
        )

    def _of_values(self, noise: float) -> float:
        """Of values that have noise of a variance each."""
        around = noise + self._residual
        known = math.prod(self._shares_known(around))
        left = self._interaction * (1 - known) + self._residual
        error = left - self._residual
        for counts in self._counts:
            error += self._average(
                counts, 1 / (1 / self._bias + counts / (noise + left))
            )
        if self._weights:
            information = self._counts[0] / self._n_features / (noise + left)
            error += self._average(
                self._counts[0], 1 / (1 / self._weights + information)
            )
        return error

    def _of_sums(self, noise: float, noise_of_weights: float | None = None) -> float:
        """Of sums with noise of a variance each, and of right-hand sides."""
        around = self._residual + self._interaction + self._weights
        error = self._interaction
        for counts in self._counts:
            information = counts**2 / (counts * around + noise)
            error += self._average(counts, 1 / (1 / self._bias + information))
        if noise_of_weights is None:
            return error + self._weights
        share = self._counts[0] / self._n_features
        around -= self._weights
        information = share**2 / (share * around + noise_of_weights)
        return error + self._average(
            self._counts[0], 1 / (1 / self._weights + information)
        )

    def _shares_known(self, around: float) -> list[float]:
        """How much of the factors of an interaction is known in every mode."""
        # Modes after the second modulate an interaction, whose mean they leave.
        shares = [_SHARE_AT_START] * 2 + [1.0] * (len(self._counts) - 2)
        if not self._interaction:
            return shares
        term = self._interaction / self._problem.rank
        for _ in range(self._problem.max_iter):
            left = around + self._interaction * (1 - math.prod(shares))
            for mode, counts in enumerate(self._counts[:2]):
                information = counts * term / left * shares[1 - mode]
                shares[mode] = self._average(counts, information / (1 + information))
        return shares

    @staticmethod
    def _average(counts: NDArray[np.float64], values: NDArray[np.float64]) -> float:
        return float(counts @ values / counts.sum())
