"""What error is expected where a unit is protected, from shape and number of entries.

Who has which entries is private, so that the numbers of entries in the rows are
imagined too: they fall with a power of the row's place, as in ratings. Values are
imagined as in `_auto`, and how much of them one gets to know follows as in
`UnitRun.factors_pay`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._problem import Problem
from ._auto import stated_parts
from ._unit_run import BOUND, FACTOR_PASSES, LEFT, planned_shares
from ._units import UnitPerturbation

__all__ = ["expected_unit_rmse"]

# The row in place k has a number of entries in proportion to k^-power: of the unit's
# mode, and of the others.
_OF_UNITS, _OF_OTHERS = 0.7, 0.8
# A fit begins with so small a share of the interaction.
_SHARE_AT_START = 0.05
_LEAST_NOISE = 1e-12


def expected_unit_rmse(
    problem: Problem, n_entries: int, perturbation: str, variance: float | None = None
) -> float:
    """Expected root mean squared error of predictions for units with entries.

    Parameters
    ----------
    problem : Problem
        The unit's mode first; its coordinates are not read.
    n_entries : int
    perturbation : {"auto", "sums", "statistics"}
        "auto" is the one of the others with the least expected error.
    variance : float, default=None
        Of the values, in their units squared, if it is public. None for that of
        ratings.

    Returns
    -------
    error : float
        In units of the values.
    """
    parts = stated_parts(problem, 0, variance)
    noise = UnitPerturbation(problem, 0, perturbation).noise.noise_variance
    activity = [
        _shares(size, _OF_OTHERS if mode else _OF_UNITS)
        for mode, size in enumerate(problem.shape)
    ]
    expectation = _Expectation(problem, parts, noise, n_entries, activity)
    found = []
    if perturbation != "statistics" or not problem.rank:
        found.append(expectation.of_sums())
    if perturbation != "sums" and problem.rank:
        found.append(expectation.of_statistics())
    return problem.scale * math.sqrt(min(found))


def _shares(size: int, power: float) -> NDArray[np.float64]:
    """Shares of the entries that the rows of a mode have."""
    weights = np.arange(1, size + 1.0) ** -power
    return weights / weights.sum()


@dataclass(frozen=True, eq=False)
class _Expectation:
    """Expected squared errors in half ranges squared, averaged over the entries.

    Attributes
    ----------
    problem : Problem
    parts : _Parts
    noise : float
        Variance of the noise on vectors of length one.
    n_entries : int
    activity : list of ndarray
        Shares of the entries that rows have, by mode.
    """

    problem: Problem
    parts: Any
    noise: float
    n_entries: int
    activity: list[NDArray[np.float64]]

    @property
    def own(self) -> NDArray[np.float64]:
        """Numbers of entries of the units."""
        return self.n_entries * self.activity[0]

    def of_sums(self) -> float:
        """Of biases from sums."""
        around = self.parts.residual + self.parts.interaction
        shares = planned_shares(self.problem, "sums", LEFT)
        return around + self._biases(shares, 1, around)

    def of_statistics(self) -> float:
        """Of biases and factors from regressions."""
        parts, rank = self.parts, self.problem.rank
        shares = planned_shares(self.problem, "statistics", LEFT)
        term, columns = parts.interaction / rank, 1 + rank
        others = units = _SHARE_AT_START
        for _ in range(FACTOR_PASSES):
            left = parts.residual + parts.interaction * (1 - others * units)
            others = self._known(1, term, columns, shares[-1][1], left, units)
            information = self.own * term * others / left
            units = float(self.activity[0] @ (information / (1 + information)))
        left = parts.residual + parts.interaction * (1 - others * units)
        return left + self._biases(shares[1:], columns, left)

    def _biases(
        self, shares: list[dict[int, float]], columns: int, around: float
    ) -> float:
        """Of the biases of all modes; those of units are not released."""
        error = self.activity[0] @ (1 / (1 / self.parts.bias + self.own / around))
        for mode in range(1, len(self.problem.shape)):
            share = math.fsum(part[mode] for part in shares)
            known = self._known(mode, self.parts.bias, columns, share, around)
            error += self.parts.bias * (1 - known)
        return float(error)

    def _known(
        self,
        mode: int,
        variance: float,
        columns: int,
        share: float,
        around: float,
        moment: float = 1.0,
    ) -> float:
        """How much of rows with a prior variance is known from one release."""
        typical = math.exp(np.log(np.maximum(self.own, 1.0)).mean())
        weights = 1 / np.sqrt(np.maximum(self.own, typical))
        counts = self.activity[mode] * (self.own @ weights)
        squares = self.activity[mode] * (self.own @ weights**2)
        noise = self.noise * BOUND**2 * (around + 0.05) * columns / share
        total = np.maximum(noise + around * squares, _LEAST_NOISE)
        information = variance * counts**2 * moment / total
        return float(self.activity[mode] @ (information / (1 + information)))
