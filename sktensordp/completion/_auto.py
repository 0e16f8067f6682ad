"""Which perturbation has the least expected error, from public quantities alone.

Values are imagined to be an offset, a bias for every mode, an interaction of low rank,
weights that rows of the first mode give to the features of the pattern, and a residual,
all with the variances below. How much of each a perturbation lets one know follows from
the numbers of entries in the rows and the variance of the noise; the expected squared
error of what remains, averaged over the observed entries, is compared.

For the interaction, the share of a row that is known, q, solves
q = 1 - 1 / (1 + n V q' / D), with n the entries of the row, V the variance of a term, D
that of an observation around the model, and q' the average share in the other mode:
the state evolution of low-rank estimation (Lesieur, Krzakala and Zdeborova 2017).
"""

import math

import numpy as np

from ._blocks import BlockPerturbation
from ._input import InputPerturbation
from ._sums import SumsPerturbation

__all__ = ["choose_perturbation", "expected_errors"]

# Variances in half ranges squared: of a bias, of an interaction, of what the weights of
# one feature explain, and of the residual.
_BIAS, _INTERACTION, _WEIGHTS, _RESIDUAL = 0.04, 0.045, 0.002, 0.15
# A fit begins with so small a share of the interaction.
_SHARE_AT_START = 0.05


def choose_perturbation(problem):
    """Solver of the least expected error.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    solver : InputPerturbation, SumsPerturbation or BlockPerturbation
    """
    found = expected_errors(problem)
    return min(found, key=found.get)


def expected_errors(problem):
    """Expected squared error of every solver that may be chosen, without the residual.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    errors : dict of solver to float
        In half ranges squared.
    """
    solvers = [InputPerturbation(problem)]
    if math.isfinite(problem.epsilon) and problem.biases and not problem.smooth_modes:
        solvers.append(SumsPerturbation(problem))
        statistics = BlockPerturbation(problem, "statistics")
        if statistics.uses_features:
            solvers.append(statistics)
    if len(solvers) == 1:
        return {solvers[0]: 0.0}
    expectation = _Expectation(problem)
    return {solver: expectation.of(solver) for solver in solvers}


class _Expectation:
    """Expected errors of parts of the model, averaged over the entries."""

    def __init__(self, problem):
        self._problem = problem
        self._counts = [
            np.bincount(column, minlength=size).astype(float)
            for column, size in zip(problem.coordinates.T, problem.shape, strict=True)
        ]
        self._n_features = 0 if problem.features is None else problem.features.shape[1]
        self._interaction = _INTERACTION if problem.rank else 0.0
        self._weights = _WEIGHTS * self._n_features

    def of(self, solver):
        """Expected squared error of one solver."""
        scale = self._problem.scale**2
        if solver.name == "input":
            return self._of_values(solver.problem.values.mean_variance / scale)
        if solver.name == "sums":
            return self._of_sums(solver.randomizer.noise_variance / scale)
        return self._of_sums(
            solver.sums.randomizer.noise_variance / scale, solver.noise_variance / scale
        )

    def _of_values(self, noise):
        """Of values that have noise of a variance each."""
        around = noise + _RESIDUAL
        known = math.prod(self._shares_known(around))
        left = self._interaction * (1 - known) + _RESIDUAL
        error = left - _RESIDUAL
        for counts in self._counts:
            error += self._average(counts, 1 / (1 / _BIAS + counts / (noise + left)))
        if self._weights:
            information = self._counts[0] / self._n_features / (noise + left)
            error += self._average(
                self._counts[0], 1 / (1 / self._weights + information)
            )
        return error

    def _of_sums(self, noise, noise_of_weights=None):
        """Of sums with noise of a variance each, and of right-hand sides."""
        around = _RESIDUAL + self._interaction + self._weights
        error = self._interaction
        for counts in self._counts:
            information = counts**2 / (counts * around + noise)
            error += self._average(counts, 1 / (1 / _BIAS + information))
        if noise_of_weights is None:
            return error + self._weights
        share = self._counts[0] / self._n_features
        around -= self._weights
        information = share**2 / (share * around + noise_of_weights)
        return error + self._average(
            self._counts[0], 1 / (1 / self._weights + information)
        )

    def _shares_known(self, around):
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
    def _average(counts, values):
        return float(counts @ values / counts.sum())
