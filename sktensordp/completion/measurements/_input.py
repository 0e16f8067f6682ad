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
    """A fitted model, and what it was fitted to.

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


class InputPerturbation(Measurement[ObservedEntries, DrawnValues]):
    """Randomise every value, then fit the model to the randomised values."""

    name = "input"

    def __post_init__(self) -> None:
        if self._ranks is not None:
            check_tucker_size(self._ranks)

    @property
    def _ranks(self) -> tuple[int, ...] | None:
        """Ranks of a Tucker; None for a CP, as which biases alone are fitted, too."""
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
    ) -> DrawnValues:
        """Return the randomised values: `Draws` or `PartitionedDraws`."""
        return entries.randomized(self.randomizer, streams)

    def complete(self, released: DrawnValues, on_sweep: OnSweep) -> Outcome:
        """Fit the model to the randomised values."""
        problem = self.problem
        # Before entries are grouped, since the search for a pattern needs memory.
        known = problem.features
        features = known.all if self._ranks is None else known.few
        mean = released.mean()
        offset = float(np.clip(mean, *problem.domain.bounds))
        fit = self._fit(released, offset, features, on_sweep)
        if not problem.biases:
            # A tensor without biases, such as a CP of few terms, may have no offset.
            other = self._fit(released, 0.0, features, None)
            if other.model.noise < 0.9 * fit.model.noise:
                fit = other
        noisy = self._noisy(fit)
        model, residual = residual_variance(
            problem, fit.model, fit.offset, released, fit.entries, fit.likelihood
        )
        noise = self.randomizer.noise_variance
        error = math.sqrt(self.randomizer.most_variance / problem.entries.n_entries)
        of_mean = ReleasedMean(mean, error, problem.entries.n_entries)
        return Outcome(
            model, fit.offset, fit.n_iter, residual, noise, mean=of_mean, noisy=noisy
        )

    def _noisy(self, fit: _Fit) -> NoisyValues | LocalValues | None:
        """The values of a fit as they are kept, in the order of their entries."""
        if not isinstance(fit.entries, Observations):
            return None
        (of_first, *_), groups = fit.entries.values, fit.entries.groups
        values, scale = np.empty(len(of_first)), self.problem.domain.scale
        values[groups[0].order] = of_first * scale
        is_noisy = math.isfinite(self.problem.epsilon)
        return kept_values(values, fit.model.noise, scale, is_noisy=is_noisy)

    def _fit(
        self,
        released: DrawnValues,
        offset: float,
        features: NDArray[np.float64],
        on_sweep: OnSweep | None,
    ) -> _Fit:
        """Fit a model to the randomised values less an offset."""
        problem, scale = self.problem, self.problem.domain.scale
        likelihood = self.randomizer.likelihood(offset, scale)
        entries = released.observations(offset, scale, problem.smooth_modes)
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
