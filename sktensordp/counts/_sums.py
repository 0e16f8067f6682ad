"""Sums over people of what their records add to residual tables."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..measure import WITHIN, SumsOfSteps
from ._plan import Plan, Residual
from ._rows import Records

# Whole numbers up to this one are exact in floating point.
_LARGEST = 2**52


@dataclass(frozen=True)
class TableSums(SumsOfSteps):
    """One residual table, on a lattice of its own.

    Attributes
    ----------
    residual : Residual
    share : float
        Share of the squared mu.
    step : float
        Step of the lattice, of which 1 is a multiple; 0 for no noise.
    scale : float
        Factor on the noise, and on the distance of neighbouring tables.
    """

    residual: Residual
    share: float
    step: float
    scale: float

    norm, n_moved, unit = "l2", 0, 1.0  # type: ignore[assignment]

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Of the table."""
        return self.residual.sizes

    @property
    def limit(self) -> float:
        """Largest length of what a person adds, in steps if there is noise."""
        if not self.step:
            return math.inf
        return math.sqrt(self.share) * self.scale / self.step * WITHIN

    def largest(self, n_people: int) -> float:
        """Bound on the steps of any number over this many people."""
        return n_people * self.limit

    def zeros(self) -> NDArray[np.int64]:  # type: ignore[override]
        """The counts of nobody."""
        return np.zeros(self.shape, np.int64)

    def on_lattice(self, totals: NDArray[np.int64]) -> NDArray[np.float64]:
        """The residual table of counts."""
        whole = self.residual.of_counts(totals)
        return np.clip(whole, -_LARGEST, _LARGEST).astype(float)

    def rounded(self, totals: NDArray[np.int64]) -> NDArray[np.float64]:
        """The residual table in whole steps."""
        return self.on_lattice(totals) / (self.step or 1)

    def _weighed(self, records: Records) -> tuple[NDArray[Any], NDArray[np.float64]]:
        pairs = zip(self.shape, self.residual.is_centred, strict=True)
        # A column of n I - J: n - 1 once, and -1 for all others.
        square = math.prod((n - 1) ** 2 + n - 1 for n, centred in pairs if centred)
        length = math.sqrt(square) / (self.step or 1)
        lengths = records.n_records.astype(float) * length
        return np.ones(len(lengths), bool), lengths

    def _add(
        self, totals: NDArray[np.int64], weights: NDArray[Any], records: Records
    ) -> None:
        where = np.zeros(records.coordinates.shape[1], np.int64)
        for i, size in zip(self.residual.modes, self.shape, strict=True):
            where *= size
            where += records.coordinates[i]
        if not weights.all():
            where = where[np.repeat(weights, records.n_records)]
        totals += np.bincount(where, minlength=totals.size).reshape(totals.shape)


@dataclass(frozen=True)
class CountsQuestion:
    """Asks everybody for what their records add to all residual tables.

    Attributes
    ----------
    sums : tuple of TableSums
    """

    sums: tuple[TableSums, ...]
    chunks_at_once = 1

    @classmethod
    def of(cls, plan: Plan) -> "CountsQuestion":
        """The question of a plan."""
        residuals, k = plan.workload.residuals, plan.n_records
        lattices = plan.noise.lattices(len(residuals))
        return cls(
            tuple(
                TableSums(
                    one,
                    k**2 * one.square / scale**2 if step else 1 / len(residuals),
                    step,
                    scale,
                )
                for one, (step, scale) in zip(residuals, lattices, strict=True)
            )
        )

    def add(self, records: Records, *totals: NDArray[np.int64]) -> None:
        """Add what the records of some people add to the counts."""
        for one, counts in zip(self.sums, totals, strict=True):
            one.add(counts, records)
