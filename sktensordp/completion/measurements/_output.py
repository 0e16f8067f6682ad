"""Perturbation of output: biases from sums, then solutions of ridge regressions.

The blocks are those of ``_statistics.py``, with noise in the solutions of their
regressions instead of the right-hand sides.
"""

from dataclasses import dataclass

from ._measurement import Outcome
from ._statistics import StatisticsPerturbation

# Prior variance of the rows from which the ridge follows, in half ranges squared.
_ROW_VARIANCE = 0.05


@dataclass(frozen=True, eq=False)
class OutputPerturbation(StatisticsPerturbation):
    """Randomise the solution of the regression of each block in turn."""

    name = "output"

    _randomized = "the solutions of ridge regressions on public or released factors"

    def _ridge(self, first: Outcome) -> float:
        scale = self.problem.domain.scale
        return first.model.noise / scale**2 / _ROW_VARIANCE
