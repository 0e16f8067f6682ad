"""The first two releases about units: totals over them, and noisy counts of rows."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...tensor._shared_rows import expected_counts
from .._population import Population
from .._releases import BoundedSums, Releases, Units
from ._unit_questions import (
    LOG_RANGE,
    PIECES,
    USUAL_LOG,
    CountQuestion,
    FirstQuestion,
    UnitTotals,
)

# Share of the squared budget for the counts.
COUNTS = 0.12
# What is left after the first two releases.
LEFT = 1 - COUNTS - sum(piece.share for piece in PIECES.values())


def release_totals(units: Units, releases: Releases) -> tuple[UnitTotals, Population]:
    """Release the number of units, their mean value and their sizes."""
    pieces = PIECES.values()
    sums = [BoundedSums((1, p.size), p.bound, p.share, releases.step) for p in pieces]
    answers = releases.ask(units, FirstQuestion(tuple(sums)))
    of_pieces = dict(zip(PIECES, answers, strict=True))
    ((total,), error), ((lengths,), lengths_error) = of_pieces.values()
    n_units = max(float(total[0]), error, 1.0)
    offset, log = np.clip(total[1:] / n_units, -1.0, 1.0).tolist()
    typical_size = math.exp(USUAL_LOG + LOG_RANGE * log)
    # Both the sum of means and the number of units have noise.
    offset_error = math.sqrt(2) * error / n_units
    totals = UnitTotals(
        n_units, offset, typical_size, offset_error, are_noise(total, error)
    )
    return totals, Population(n_units, typical_size, lengths, lengths_error)


def are_noise(total: NDArray[np.float64], error: float) -> bool:
    """Whether released totals say that there may be no units, or hardly an entry.

    A unit adds 1 to the first total. To the last one, it adds the scaled logarithm of
    its number of entries, at least -1. So the two together add up by how much
    logarithms exceed the least, which is nothing for units with one or two entries.

    False alarms, in standard deviations of the number of units: if there are 10 or
    more, up to 3 come out with a probability below 1e-11. Units are said to have hardly
    an entry only if the excesses, less a tenth of the number of units, come out below
    -5.4. They have noise of 1.35, and are at least -1 for 10 units, and positive for
    any number of units that typically have four entries or more. So that has a
    probability of at most 1e-3.
    """
    n_units, _, logs = total.tolist()
    # A total is within its noise of nothing up to three standard deviations. Units have
    # hardly an entry if the logarithm of their number exceeds 1 by less than a tenth of
    # its range, even by 5.4 standard deviations of the number of units.
    within_noise, few = 3.0, 0.1 * n_units - 5.4 * error
    least = min(within_noise * math.sqrt(2) * error, few)
    return n_units <= within_noise * error or n_units + logs < least


@dataclass(frozen=True, eq=False)
class RowCounts:
    """Noisy counts of the entries in the rows of a mode.

    Attributes
    ----------
    counts : ndarray of shape (n_rows,)
        Each entry counts with the weight of its unit.
    logs : ndarray of shape (n_rows,)
        Logarithms of the counts, of which very small ones are raised.
    known : ndarray of shape (n_rows,)
        The counts, but zero for rows whose noisy count is within its noise of zero, by
        its standard deviation. They count as unknown: nothing says that they have
        entries.
    """

    counts: NDArray[np.float64]
    logs: NDArray[np.float64]
    known: NDArray[np.float64]

    @property
    def shares(self) -> NDArray[np.float64]:
        """Shares of the entries."""
        return self.counts / max(float(self.counts.sum()), 1e-300)


def release_counts(
    units: Units, releases: Releases, sizes: tuple[int, ...], totals: UnitTotals
) -> list[RowCounts]:
    """Release how many entries the rows of the other modes have.

    Parameters
    ----------
    units : Units
    releases : Releases
    sizes : tuple of int
        Numbers of rows of the other modes.
    totals : UnitTotals
    """
    share = COUNTS / len(sizes)
    sums = [BoundedSums((size, 1), 1.0, share, releases.step) for size in sizes]
    question = CountQuestion(tuple(sums), totals)
    whole = totals.n_units * math.sqrt(totals.typical_size)
    return [
        _read(noisy[:, 0], error, whole)
        for noisy, error in releases.ask(units, question)
    ]


def _read(noisy: NDArray[np.float64], error: float, whole: float) -> RowCounts:
    """Estimate counts, whose sum is known, from noisy ones."""
    counts = expected_counts(noisy, error)
    total = float(counts.sum())
    counts *= whole / total if total > 0 else 1.0
    largest = 1e-3 * float(counts.max())
    return RowCounts(
        counts=counts,
        logs=np.log(np.maximum(counts, max(0.05 * error, largest, 1e-300))),
        known=np.where(noisy > error, counts, 0.0),
    )
