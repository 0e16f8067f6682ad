"""Perturbation of sums, which randomises the sum of the values in every row.

A value is clipped to the range and rounded to a whole number of steps above its lower
end, from 0 to n (`RangeSums` adds no other). The noise is counted in these steps.

Guarantee. Two data sets that differ in the value of one observed entry, at the same
coordinates, differ in one sum of each mode, by at most the width of the range. Each
mode with sums has an equal share of epsilon, and its sums get discrete Laplace noise
for that share; the modes compose. The numbers of entries in the rows are public.

If users are answered from their own values, no sums of theirs are released
(`SharedSumsPerturbation`). All that others see is a function of the sums of the other
modes, the coordinates and the parameters, and so epsilon-differentially private. A
user's answers depend on that user's values besides.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..._random import NoiseStreams
from ...measure import MOST_STEPS, NoisySums, RangeSums, Releases, laplace_sums
from ...noise import LaplaceLattice
from ...privacy import PrivacyGuarantee
from ...tensor import Rows, fit_biases_to_sums, point_model
from ...tensor._priors import (
    OWN_WEIGHT_VARIANCE,
    RESIDUAL_VARIANCE,
)
from .._domain import Domain
from .._entries import Entries
from .._sources import ObservedEntries
from .._values import domain_lattice, entry_guarantee, guarantee_without_noise
from ._expectation import Expectation
from ._measurement import ALL_ELSE, Measurement, OnSweep, Outcome, ReleasedMean

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

_SOURCE = "Dwork, McSherry, Nissim and Smith (2006), Theorem 1, for each mode"
# Entries that are added at once: they decide how much memory sums take, and no result,
# since sums with noise are exact.
_AT_ONCE = 2**20
# Share of epsilon for the mean, if more is released after it.
SHARE_OF_MEAN = 0.05


@dataclass(frozen=True, eq=False)
class ValueQuestion:
    """The question for the next sums of values. Everything in it is public.

    Attributes
    ----------
    domain : Domain
        Domain to which values are clipped.
    lattice : LaplaceLattice or None
        Lattice of the values; None for no noise.
    modes : tuple of int
        The modes whose rows have sums. If it is empty, there is one sum of all values.
    sums : tuple of RangeSums
    """

    domain: Domain
    lattice: LaplaceLattice | None
    modes: tuple[int, ...]
    sums: tuple[RangeSums]

    chunks_at_once = 1

    def add(self, chunk: Entries, *totals: NDArray[np.float64]) -> None:
        """Add the values of entries to their sums."""
        for part in chunk.slices(_AT_ONCE):
            steps = _summands(part.values, self.domain, self.lattice)
            rows = [part.coordinates[:, mode] for mode in self.modes]
            rows = rows or [np.broadcast_to(np.int32(0), len(steps))]
            self.sums[0].add(totals[0], rows, steps)


@dataclass(frozen=True)
class SumsRandomizer:
    """Clips, sums and randomises values, and states the event.

    Attributes
    ----------
    domain : Domain
        Domain to which values are clipped.
    entries : Entries or PartitionedEntries
        The entries of the values.
    modes : tuple of int
        The modes whose rows have sums. If it is empty, there is one sum of all values.
    lattice : LaplaceLattice or None
        Lattice of the values and of the noise in a sum; None for no noise.
    event : dp_accounting.DpEvent or None
        Event of all sums together, if the range is public; None for no noise.
    """

    domain: Domain
    entries: ObservedEntries
    modes: tuple[int, ...]
    lattice: LaplaceLattice | None = None
    event: "DpEvent | None" = None

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in a sum."""
        return 0.0 if self.lattice is None else self.lattice.noise_variance

    @property
    def noise(self) -> NoisySums:
        """The noise of all sums together, in steps."""
        (sums,) = self.question.sums
        if self.lattice is None:
            return NoisySums(norm="l1", share=sums.share)
        in_steps = replace(
            self.lattice, low=0.0, step=1.0, n_steps=None, l1_steps=sums.most
        )
        return laplace_sums(in_steps, self.event, share=sums.share)

    @property
    def question(self) -> ValueQuestion:
        """The question for the sums."""
        shape = self.entries.shape
        sizes = tuple(shape[mode] for mode in self.modes) or (1,)
        sums = RangeSums(sizes, 0, 1, times=len(sizes), step=0.0)
        if self.lattice is not None:
            # The lattice has one cell; without a range, the conversion raises.
            most = int(np.asarray(self.lattice.n_steps))
            sums = replace(sums, most=most, step=1.0, unit=self.lattice.step)
        return ValueQuestion(self.domain, self.lattice, self.modes, (sums,))

    def release(
        self, entries: ObservedEntries, streams: NoiseStreams | None, number: int = 0
    ) -> NDArray[np.float64]:
        """Release noisy sums, mode by mode.

        Parameters
        ----------
        entries : Entries or PartitionedEntries
            With values.
        streams : NoiseStreams or None
            Not read without noise.
        number : int, default=0
            Number of earlier releases that drew from the streams.

        Returns
        -------
        sums : ndarray of shape (n_sums,), float64
        """
        releases = Releases(self.noise, streams, number)
        ((sums, _),) = releases.ask(entries, self.question)
        return sums if self.lattice is None else sums + self.lattice.low * self.counts

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of values in each sum; public."""
        if not self.modes:
            return np.array([self.entries.n_entries])
        return np.concatenate([self.entries.counts[mode] for mode in self.modes])


def _summands(
    values: NDArray[np.floating], domain: Domain, lattice: LaplaceLattice | None
) -> NDArray[np.floating]:
    """Clipped values in steps of a lattice.

    Without a lattice, values are only clipped, and their sums are not exact.
    """
    clipped = domain.clip(values.astype(float))
    if lattice is None:
        return clipped
    return np.clip((clipped - lattice.low) / lattice.step, 0, lattice.n_steps)


def plan_sums_randomizer(
    domain: Domain,
    epsilon: float,
    entries: ObservedEntries,
    modes: Sequence[int] | None = None,
) -> SumsRandomizer:
    """Randomizer of the sums for one fit.

    Parameters
    ----------
    domain : Domain
    epsilon : float
        Budget of one entry; infinity for no noise.
    entries : Entries or PartitionedEntries
    modes : sequence of int, default=None
        See `SumsRandomizer`; None for all modes.

    Returns
    -------
    randomizer : SumsRandomizer

    Raises
    ------
    ValueError
        If the sums cannot be represented exactly.
    """
    from dp_accounting import dp_event

    from ...privacy.accounting._events import LatticeLaplaceDpEvent

    modes = tuple(range(len(entries.shape)) if modes is None else modes)
    if math.isinf(epsilon):
        return SumsRandomizer(domain, entries, modes)
    times, n_entries = max(len(modes), 1), entries.n_entries
    lattice = domain_lattice(epsilon / times, domain, max(n_entries, 1))
    assert isinstance(lattice.n_steps, int)
    if n_entries * lattice.n_steps > MOST_STEPS:
        raise ValueError(
            "There are too many values to be summed exactly; fit fewer of them."
        )
    event = dp_event.SelfComposedDpEvent(
        LatticeLaplaceDpEvent.from_lattice(lattice, lattice.n_steps), times
    )
    return SumsRandomizer(domain, entries, modes, lattice, event)


# Noisy sums, and the type of the values.
ReleasedSums = tuple[NDArray[np.float64], np.dtype]


@dataclass(frozen=True, eq=False)
class SumsPerturbation(Measurement[ObservedEntries, ReleasedSums]):
    """Randomise the sums of all rows, and fit biases to them.

    Attributes
    ----------
    share : float, default=1.0
        Share of the problem's epsilon.
    """

    share: float = 1.0
    name = "sums"

    _randomized = "The sums of all rows of every mode were given discrete Laplace noise"
    _consequence = " Only averages were learned: everybody gets the same ranking."

    @property
    def _modes(self) -> tuple[int, ...]:
        """The modes whose rows have sums; none if there is one sum of all values."""
        return tuple(range(len(self.problem.shape)))

    @property
    def statement(self) -> str:
        """First clause of the guarantee's statement: what was randomised."""
        return self.problem.domain.rounding + self._randomized

    @cached_property
    def randomizer(self) -> SumsRandomizer:
        """Randomizer of the sums."""
        problem = self.problem
        return plan_sums_randomizer(
            problem.domain,
            self.share * problem.epsilon,
            problem.entries,
            self._modes,
        )

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """Guarantee of all sums together."""
        event = self.randomizer.event
        if event is None:
            return guarantee_without_noise()
        statement = f"{self.statement}; {ALL_ELSE}{self._consequence}"
        claimed_epsilon = self.problem.claimed_epsilon
        return entry_guarantee(
            event, statement, _SOURCE, claimed_epsilon=claimed_epsilon
        )

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in a sum, in half ranges squared."""
        return self.randomizer.noise_variance / self.problem.domain.scale**2

    def measure(
        self, entries: ObservedEntries, streams: NoiseStreams | None, on_sweep: OnSweep
    ) -> ReleasedSums:
        """Return the randomised sums, and the type of the values."""
        return self.randomizer.release(entries, streams), entries.dtype

    def complete(self, released: ReleasedSums, on_sweep: OnSweep) -> Outcome:
        """Fit the biases to the noisy sums."""
        offset, model = self._biases(released, self.problem.features.clear)
        return Outcome(model, offset, 1)

    def _biases(
        self,
        released: ReleasedSums,
        features: NDArray[np.float64],
        **options: bool,
    ) -> tuple[float, Rows]:
        """Offset and biases from the noisy sums; see `fit_biases_to_sums`."""
        problem, randomizer = self.problem, self.randomizer
        sums, dtype = released
        middle = problem.domain.middle
        offset, model = fit_biases_to_sums(
            problem.entries.shared(),
            sums - middle * randomizer.counts,
            randomizer.noise_variance,
            problem.shape,
            problem.domain.scale,
            dtype,
            features,
            **options,
        )
        return middle + offset, model

    def mean_of(self, released: ReleasedSums) -> ReleasedMean:
        """The mean, which follows from the sums of one mode's rows, or from one sum."""
        sums, _ = released
        n_rows = self.problem.shape[self._modes[0]] if self._modes else 1
        n = self.problem.entries.n_entries
        variance = n_rows * self.randomizer.noise_variance
        mean, error = float(sums[:n_rows].sum()) / n, math.sqrt(variance) / n
        return ReleasedMean(mean, error, n)

    def expected_error(self, expectation: Expectation) -> float:
        """Expected squared error, in half ranges squared; see `Expectation`."""
        return expectation.of_sums(self.noise_variance)


class SharedSumsPerturbation(SumsPerturbation):
    """Randomise the sums of items, and of further modes, for users with own answers.

    All of the budget goes to what users share. The rows of users have no sums, since
    they are computed from the users' own values: their biases, and their weights of all
    features, including those of the public pattern. Without own values, a user is
    answered as the average user.
    """

    _randomized = (
        "The sums of all rows of every mode but the first were given discrete Laplace "
        "noise"
    )
    _consequence = ""

    @property
    def _modes(self) -> tuple[int, ...]:
        return super()._modes[1:]

    @property
    def uses_features(self) -> bool:
        """Whether own rows have weights of features."""
        return self.problem.features.all.shape[1] > 0

    def complete(self, released: ReleasedSums, on_sweep: OnSweep) -> Outcome:
        """Fit the biases of shared rows; the rows of users are those of the average."""
        problem, features = self.problem, self.problem.features.all
        scale = problem.domain.scale**2
        offset, of_sums = self._biases(released, features, first_has_sums=False)
        rows, n_modes = enumerate(of_sums.means), len(problem.shape)
        biases = [
            np.append(own[:, mode], of_sums.unknown[mode, mode]) for mode, own in rows
        ]
        weights = np.zeros((problem.shape[0], features.shape[1]))
        model = point_model(
            problem.shape,
            of_sums.noise,
            released[1],
            biases=biases,
            features=features,
            weights=weights,
        )
        model.precision[0] = 1 / (OWN_WEIGHT_VARIANCE * scale)
        # The components of a pattern have about unit length together, and declared
        # features each. So the declared ones share the variance of one.
        n_declared = problem.features.declared.shape[1]
        model.precision[0, n_modes : n_modes + n_declared] *= n_declared
        model.precision[:, :n_modes] = of_sums.precision
        nobody = model.of_mode(0).taken(slice(0))
        model = model.with_rows(0, nobody)
        return Outcome(model, offset, 1, has_estimated_variance=False)

    def expected_error(self, expectation: Expectation) -> float:
        """Expected squared error, in half ranges squared; see `Expectation`."""
        return expectation.of_shared_sums(self.noise_variance)


class MeanPerturbation(SumsPerturbation):
    """Randomise the sum of all values: the first release of models without biases."""

    _randomized = "The sum of all values was given discrete Laplace noise"
    _consequence = ""
    _modes = ()

    def __post_init__(self) -> None:
        """Support every problem."""

    def complete(self, released: ReleasedSums, on_sweep: OnSweep) -> Outcome:
        """Return a model whose offset is the mean, and no other term."""
        problem, (total, dtype) = self.problem, released
        middle, n = problem.domain.middle, problem.entries.n_entries
        # Shrink the noisy mean: its prior is uniform on the range.
        prior = problem.domain.scale**2 / 3
        weight = prior / (prior + self.randomizer.noise_variance / n**2)
        mean = middle + weight * (float(total[0]) / n - middle)
        variance = RESIDUAL_VARIANCE * problem.domain.scale**2
        model = point_model(problem.shape, variance, dtype)
        return Outcome(model, mean, 1, has_estimated_variance=False)
