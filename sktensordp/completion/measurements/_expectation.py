"""Expected errors of fits to measurements, computed from public quantities alone.

The expectation assumes that a value is the sum of an offset, a bias for each mode, an
interaction of rank 5 at most, the weights that its row of the first mode gives to the
pattern features, and a residual, with the variances below. How much of each term a
perturbation recovers depends on the numbers of entries in the rows and on the variance
of the noise.
Perturbations are compared by the expected squared error of the unrecovered terms,
averaged over the observed entries. The expected errors that users see assume the same
proportions, scaled to the variance of ratings.

For the interaction, the recovered share q of a row solves
q = 1 - 1 / (1 + n V q' / D). Here n is the number of entries of the row, V the variance
of a term, D the variance of an observation around the model, and q' the average share
in the other mode: the state evolution of low-rank estimation (Lesieur, Krzakala and
Zdeborova 2017).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...tensor._priors import (
    BIAS_VARIANCE,
    INTERACTION_VARIANCE,
    OWN_BIAS_VARIANCE,
)
from .._problem import Problem

# Variance of the residual, in half ranges squared.
_RESIDUAL = 0.15
# Variance of the weight that a row of the first mode gives to one feature.
_OF_FEATURE = 0.002
# Variance of the biases of items, if users are answered from their own values: features
# of items then explain part of these biases.
_OF_ITEM = 0.02
# Variance of ratings.
_OF_RATINGS = 0.22
# Largest number of terms among which the interaction is divided: a fit switches off
# further terms.
MOST_TERMS = 5
# Share of the interaction that a fit recovers at its start.
SHARE_AT_START = 0.05


class Expected(NamedTuple):
    """What is expected of a fit.

    Attributes
    ----------
    error : float
        Root mean squared error of predictions, in units of the values.
    perturbation : str
        The perturbation that the fit takes.
    only_averages : bool
        Whether it learns averages alone, so that all get nearly the same ranking.
    """

    error: float
    perturbation: str
    only_averages: bool


@dataclass(frozen=True)
class Variances:
    """Assumed variances of the terms of a value, in half ranges squared.

    Attributes
    ----------
    bias : float
        Variance of the biases of one mode other than the first.
    first_bias : float
        Variance of the biases of the first mode.
    interaction, weights, residual : float
    """

    bias: float
    first_bias: float
    interaction: float
    weights: float
    residual: float

    @classmethod
    def of_terms(cls, problem: Problem, n_features: int) -> "Variances":
        """The variances before they are scaled to the variance of the values."""
        interaction = INTERACTION_VARIANCE if problem.form.rank else 0.0
        biases = (BIAS_VARIANCE,) * 2
        if problem.is_personal:
            biases = _OF_ITEM, OWN_BIAS_VARIANCE
        return cls(*biases, interaction, _OF_FEATURE * n_features, _RESIDUAL)

    @classmethod
    def of_values(
        cls, problem: Problem, n_features: int, variance: float | None = None
    ) -> "Variances":
        """Variances of the terms of values with a given variance.

        Parameters
        ----------
        problem : Problem
        n_features : int
            Number of features of the rows of the second mode.
        variance : float, default=None
            Variance of the values, in their units squared. None takes that of ratings.
        """
        total = _OF_RATINGS if variance is None else variance / problem.domain.scale**2
        found = cls.of_terms(problem, n_features)
        # An interaction that the model omits counts as residual.
        residual = _RESIDUAL + INTERACTION_VARIANCE - found.interaction
        found = replace(found, residual=residual)
        biases = (len(problem.shape) - 2) * found.bias
        factor = total / (biases + sum(vars(found).values()))
        return cls(*(factor * variance for variance in vars(found).values()))


@dataclass(frozen=True, eq=False)
class Expectation:
    """Expected squared errors, in half ranges squared, averaged over the entries.

    Attributes
    ----------
    problem : Problem
    variances : Variances
    """

    problem: Problem
    variances: Variances

    @cached_property
    def _counts(self) -> list[NDArray[np.float64]]:
        """Numbers of entries of the rows; rows without entries have no weight."""
        counts = self.problem.entries.counts
        return [of_mode[of_mode > 0].astype(float) for of_mode in counts]

    @property
    def _biases(self) -> list[float]:
        """Assumed variances of the biases, by mode."""
        variances, n_others = self.variances, len(self._counts) - 1
        return [variances.first_bias, *[variances.bias] * n_others]

    def _unexplained(
        self, weights: float, n_features: int, information: NDArray[np.float64]
    ) -> float:
        """Unrecovered variance of weights, given a single feature's information."""
        of_each = information / n_features
        return _average(self._counts[0], 1 / (1 / weights + of_each))

    def of_values(self, noise: float) -> float:
        """Error of a fit to values, each with noise of this variance."""
        variances = self.variances
        start = [SHARE_AT_START] * 2 + [1.0] * (len(self._counts) - 2)
        shares = self._recovered_shares(noise + variances.residual, start, (0, 1))
        unrecovered = variances.interaction * (1 - math.prod(shares))
        around = [noise + unrecovered + variances.residual] * len(self._counts)
        if self.problem.is_personal:
            # Users' own rows are fitted last, to values without noise.
            shares = self._recovered_shares(variances.residual, shares, (0,))
            unrecovered = variances.interaction * (1 - math.prod(shares))
            around[0] = unrecovered + variances.residual
        error = unrecovered
        for mode, counts in enumerate(self._counts):
            information = counts / around[mode]
            error += _average(counts, 1 / (1 / self._biases[mode] + information))
        if variances.weights:
            n_features, information = n_features_of(self.problem), self._counts[0]
            error += self._unexplained(
                variances.weights, n_features, information / around[0]
            )
        return error

    def of_sums(self, noise: float, noise_of_weights: float | None = None) -> float:
        """Error of biases from noisy sums, and of weights if they are released too."""
        variances = self.variances
        around_model = variances.residual + variances.interaction
        around_biases, error = around_model + variances.weights, variances.interaction
        noises = [noise] * len(self._counts)
        if self.problem.is_personal:
            # Users' own rows follow from values without noise.
            noises[0], noise_of_weights = 0.0, noise_of_weights and 0.0
        error += self._unexplained_biases([around_biases] * len(noises), noises)
        if noise_of_weights is None:
            return error + variances.weights
        n_clear = self.problem.features.clear.shape[1]
        counts = self._counts[0] / n_clear
        information = n_clear * counts**2 / (counts * around_model + noise_of_weights)
        weights = variances.weights * n_clear / n_features_of(self.problem)
        error += variances.weights - weights
        return error + self._unexplained(weights, n_clear, information)

    def of_shared_sums(self, noise: float) -> float:
        """Error of shared biases from noisy sums, and of users' own rows."""
        variances, counts = self.variances, self._counts
        around_model = variances.residual + variances.interaction
        around_biases = around_model + variances.weights + variances.first_bias
        # Users' own rows follow from values without noise.
        shared, own = (around_biases, noise), (around_model, 0.0)
        arounds, noises = zip(own, *[shared] * (len(counts) - 1), strict=True)
        error = variances.interaction + self._unexplained_biases(arounds, noises)
        if variances.weights:
            n_features, information = n_features_of(self.problem), counts[0]
            error += self._unexplained(
                variances.weights, n_features, information / around_model
            )
        return error

    def _unexplained_biases(
        self, arounds: Sequence[float], noises: Sequence[float]
    ) -> float:
        """Unrecovered variance of the biases.

        Parameters
        ----------
        arounds : sequence by mode of float
            Variance of the values around the bias.
        noises : sequence by mode of float
            Variance of the noise in a sum.
        """
        error = 0.0
        for mode, counts in enumerate(self._counts):
            information = counts**2 / (counts * arounds[mode] + noises[mode])
            error += _average(counts, 1 / (1 / self._biases[mode] + information))
        return error

    def _recovered_shares(
        self, around_model: float, shares: Sequence[float], modes: Sequence[int]
    ) -> list[float]:
        """Share of the interaction's factors that a fit recovers, mode by mode.

        Modes after the second modulate the interaction and do not change its mean.

        Parameters
        ----------
        around_model : float
            Variance of the values around the model, apart from the interaction.
        shares : sequence of float
            Starting values.
        modes : sequence of int
            The modes, among the first two, whose rows are fitted.
        """
        interaction, shares = self.variances.interaction, list(shares)
        if not interaction:
            return shares
        term = interaction / min(self.problem.form.rank, MOST_TERMS)
        for _ in range(self.problem.max_iter):
            variance = around_model + interaction * (1 - math.prod(shares))
            for mode in modes:
                counts = self._counts[mode]
                information = counts * term / variance * shares[1 - mode]
                shares[mode] = _average(counts, information / (1 + information))
        return shares


def n_features_of(problem: Problem) -> int:
    """Number of features on which values are assumed to depend.

    With noise, a fit can use few of them; users' own rows have no noise and use all.
    """
    features = problem.features.all if problem.is_personal else problem.features.clear
    return features.shape[1]


def _average(counts: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Average of the rows' values over the entries."""
    return float(counts @ values / counts.sum())
