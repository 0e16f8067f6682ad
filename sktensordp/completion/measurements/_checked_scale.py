"""A noisy count of the values off the declared scale, and then another measurement.

**Guarantee.** Neighbouring data sets differ in the value of one entry, so the number of
values off the declared scale differs by at most 1. Discrete Laplace noise of rate
epsilon_w makes it epsilon_w-DP. The measurement that follows has the rest of epsilon,
and does not depend on the count; both compose.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._noise_only import is_one_of_many
from ..._random import NoiseStreams
from ..._validation import warn
from ...measure import RangeSums, Releases, after, laplace_sums, left_of
from ...noise import laplace_lattice
from ...privacy import PrivacyGuarantee
from ...privacy._numbers import shown
from .._domain import Domain
from .._entries import Entries
from .._problem import Problem
from .._sources import ObservedEntries
from .._values import entry_guarantee
from ._measurement import Measurement, OnSweep, Outcome, ReleasedMean

# The count takes this much epsilon over the number of values, and no more than this
# share. It needs `_LEAST` values times epsilon. See doc/constants.md.
_SPENT_ON_ALL, _MOST_SPENT, _LEAST = 200, 0.01, 5000
# Without a value off the scale, noise exceeds this, over epsilon, in 1 of 20,000 fits.
_LIMIT = 9.2
# The step of the release's streams, which nothing else in a fit uses.
_STEP = 2**32 - 2
# How far a value on the scale may be from it, in half ranges.
_OFF = 1e-6


class _Released(NamedTuple):
    """The noisy count, and the release of the measurement."""

    n_off: float
    released: object


@dataclass(frozen=True, eq=False)
class OffScaleQuestion:
    """How many values are off the scale? Everything in the question is public.

    Attributes
    ----------
    domain : Domain
    """

    domain: Domain

    chunks_at_once = 1
    sums = (RangeSums((1,), 0, 1, times=1, step=1.0),)

    def add(self, chunk: Entries, *totals: NDArray[np.float64]) -> None:
        """Add 1 for each value that clipping or rounding would move."""
        values = chunk.values.astype(float)
        moved = np.abs(values - self.domain.clip(values)) > _OFF * self.domain.scale
        self.sums[0].add(totals[0], [np.zeros(len(moved), np.int32)], moved.astype(int))


def check_enough_to_count(n_values: int, epsilon: float) -> None:
    """Refuse to count what is off the scale among too few values."""
    if n_values * epsilon < _LEAST:
        raise ValueError(
            f"check_scale=True needs {math.ceil(_LEAST / epsilon)} values at "
            f"epsilon = {epsilon:g}, got {n_values}. Pass check_scale=False, and look "
            f"at the values yourself, with check_table."
        )


@dataclass(frozen=True, eq=False)
class CheckedScale(Measurement[ObservedEntries, _Released]):
    """Count the values off the declared scale with noise, then randomise all values.

    Attributes
    ----------
    problem : Problem
        With the whole epsilon.
    measurement : Measurement
        What follows, with the rest.
    """

    measurement: Measurement[Any, Any]

    def __post_init__(self) -> None:
        """Refuse to count too few values, before anything is spent."""
        epsilon, n_values = self.problem.epsilon, self.problem.entries.n_entries
        check_enough_to_count(n_values, epsilon)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The perturbation of what follows."""
        return self.measurement.name

    @property
    def n_sweeps(self) -> int:
        """Largest number of calls of `on_sweep`."""
        return self.measurement.n_sweeps

    @property
    def uses_features(self) -> bool:
        """Whether what follows fits weights of features."""
        return self.measurement.uses_features

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """Guarantee of the count and of what follows."""
        spent, rest = spent_on_check(self.problem), self.measurement.guarantee
        return entry_guarantee(
            after(spent, rest.event),
            f"The number of values off the declared scale was given discrete Laplace "
            f"noise, with epsilon = {shown(spent)}. {rest.statement}",
            rest.source,
            delta=rest.delta,
        )

    def measure(
        self, entries: ObservedEntries, streams: NoiseStreams | None, on_sweep: OnSweep
    ) -> _Released:
        """Release the count, then make the release of the measurement."""
        spent = spent_on_check(self.problem)
        # A value is off the scale or not, 1 or 0; the count is in no range.
        lattice = replace(laplace_lattice(0.0, 1.0, spent, step=1.0), n_steps=None)
        releases = Releases(laplace_sums(lattice, None, share=1), streams, _STEP)
        question = OffScaleQuestion(self.problem.domain)
        ((n_off, _),) = releases.ask(entries, question)
        released = self.measurement.measure(entries, streams, on_sweep)
        return _Released(float(n_off[0]), released)

    def complete(self, released: _Released, on_sweep: OnSweep) -> Outcome:
        """Compute the model from the release."""
        return self.measurement.complete(released.released, on_sweep)

    def mean_of(self, released: _Released) -> ReleasedMean | None:
        """The mean that the measurement releases."""
        return self.measurement.mean_of(released.released)

    def warn(self, released: _Released) -> None:
        """Warn if the count exceeds its noise, and as the measurement does."""
        self.measurement.warn(released.released)
        limit = _LIMIT / spent_on_check(self.problem)
        if released.n_off > limit and not is_one_of_many():
            share = released.n_off / self.problem.entries.n_entries
            warn(
                f"Judging by a noisy count, about {min(share, 1.0):.0%} of the values "
                f"are off the declared scale, and were clipped to it or rounded. If "
                f"some stand for 'not rated', leave these entries out. If all have "
                f"another scale, declare it: levels or value_bounds."
            )


def spent_on_check(problem: Problem) -> float:
    """Epsilon of the count."""
    n_values = problem.entries.n_entries
    return min(_SPENT_ON_ALL / max(n_values, 1), _MOST_SPENT * problem.epsilon)


def without_check(problem: Problem) -> Problem:
    """The problem that is left after the count."""
    left = left_of(problem.epsilon, spent_on_check(problem))
    return replace(problem, epsilon=left, checks_scale=False)
