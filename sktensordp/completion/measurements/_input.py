"""Input perturbation: every observed value is randomised first."""

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._random import NoiseStreams
from ...privacy import PrivacyGuarantee
from ...tensor import (
    Observations,
    ObservedValues,
    Rows,
    TableLikelihood,
    TuckerForm,
    check_tucker_size,
    fit_cp,
    fit_tucker,
    rescaled,
)
from .._local import LocalValues
from .._own_rows import NoisyValues, kept_values
from .._sources import DrawnValues, ObservedEntries
from .._values import EntryRandomizer, plan_entry_randomizer
from ._expectation import Expectation
from ._measurement import Measurement, OnSweep, Outcome, ReleasedMean
from ._residual_variance import residual_variance


class _Fit(NamedTuple):
    """A fitted model, and the values that it was fitted to.

    Attributes
    ----------
    model : Rows
    n_iter : int
    offset : float
    entries : Observations or ChunkedObservations
    likelihood : TableLikelihood or None
    """

    model: Rows
    n_iter: int
    offset: float
    entries: ObservedValues
    likelihood: TableLikelihood | None


class _Released(NamedTuple):
    """Randomised values.

    Attributes
    ----------
    draws : Draws or PartitionedDraws
    mean : float
        Their mean.
    """

    draws: DrawnValues
    mean: float


class InputPerturbation(Measurement[ObservedEntries, _Released]):
    """Randomise every value, then fit the model to the randomised values."""

    name = "input"

    def __post_init__(self) -> None:
        if self._ranks is not None:
            check_tucker_size(self._ranks)

    @property
    def _ranks(self) -> tuple[int, ...] | None:
        """Ranks of a Tucker model; None for a CP, which also fits biases alone."""
        form = self.problem.form
        return form.ranks if isinstance(form, TuckerForm) and form else None

    @cached_property
    def randomizer(self) -> EntryRandomizer:
        """Randomizer of a single value."""
        return plan_entry_randomizer(self.problem.epsilon, self.problem.domain)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Guarantee of all randomised values together."""
        return self.randomizer.guarantee

    @property
    def n_sweeps(self) -> int:
        """Largest number of calls of `on_sweep`."""
        return self.problem.max_iter

    def measure(
        self, entries: ObservedEntries, streams: NoiseStreams | None, on_sweep: OnSweep
    ) -> _Released:
        """Randomise the values."""
        draws = entries.randomized(self.randomizer, streams)
        return _Released(draws, draws.mean())

    def mean_of(self, released: _Released) -> ReleasedMean:
        """The mean of the randomised values."""
        n = self.problem.entries.n_entries
        error = math.sqrt(self.randomizer.most_variance / n)
        return ReleasedMean(released.mean, error, n)

    def complete(self, released: _Released, on_sweep: OnSweep) -> Outcome:
        """Fit the model to the randomised values."""
        problem, (draws, mean) = self.problem, released
        # This comes before entries are grouped, since the search for a pattern needs
        # memory.
        known = problem.features
        features = known.all if self._ranks is None else known.clear
        offset = float(np.clip(mean, *problem.domain.bounds))
        fit = self._fit(draws, offset, features, on_sweep)
        if not problem.biases:
            # A tensor without biases, such as a CP of few terms, may have no offset.
            other = self._fit(draws, 0.0, features, None)
            if other.model.noise < 0.9 * fit.model.noise:
                fit = other
        kept = self._kept_values(fit)
        model, residual = residual_variance(
            problem, fit.model, fit.offset, draws, fit.entries, fit.likelihood
        )
        noise = self.randomizer.noise_variance
        return Outcome(model, fit.offset, fit.n_iter, residual, noise, kept_values=kept)

    def _kept_values(self, fit: _Fit) -> NoisyValues | LocalValues | None:
        """The values that a fit keeps, in the order of their entries."""
        if not isinstance(fit.entries, Observations):
            return None
        (of_first, *_), groups = fit.entries.values, fit.entries.groups
        values, scale = np.empty(len(of_first)), self.problem.domain.scale
        values[groups[0].order] = of_first * scale
        is_noisy = math.isfinite(self.problem.epsilon)
        return kept_values(values, fit.model.noise, scale, is_noisy=is_noisy)

    def _fit(
        self,
        draws: DrawnValues,
        offset: float,
        features: NDArray[np.float64],
        on_sweep: OnSweep | None,
    ) -> _Fit:
        """Fit a model to the randomised values less an offset."""
        problem, scale = self.problem, self.problem.domain.scale
        likelihood = self.randomizer.likelihood(offset, scale)
        entries = draws.observations(offset, scale, problem.smooth_modes)
        fit: Callable[..., tuple[Rows, int]] = partial(fit_cp, rank=problem.form.rank)
        if self._ranks is not None:
            fit = partial(fit_tucker, ranks=self._ranks)
        rows, n_iter = fit(
            entries,
            biases=problem.biases,
            noise_floor=self.randomizer.noise_variance / scale**2,
            max_iter=problem.max_iter,
            shape=problem.entries.shape,
            smooth_modes=problem.smooth_modes,
            features=features,
            likelihood=likelihood,
            n_threads=problem.n_threads,
            on_sweep=on_sweep,
        )
        return _Fit(rescaled(rows, scale), n_iter, offset, entries, likelihood)

    def expected_error(self, expectation: Expectation) -> float:
        """Expected squared error, in half ranges squared; see `Expectation`."""
        scale = self.problem.domain.scale**2
        residual = scale * expectation.variances.residual
        return expectation.of_values(self.randomizer.noise_around(residual) / scale)
