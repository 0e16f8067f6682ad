"""Input perturbation: every observed value is randomised first."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._random import NoiseStreams
from ...privacy import PrivacyGuarantee
from ...tensor import (
    StructuredCP,
    StructuredTucker,
    TuckerForm,
    check_tucker_size,
    fit_structured_cp,
    fit_structured_tucker,
)
from .._problem import Problem
from ._residual_variance import residual_variance
from ._solver import OnSweep, Outcome, Solver

__all__ = ["InputPerturbation"]

# A model without offset is preferred if its residual variance is below this share of
# that with offset.
_CLEARLY_LESS = 0.9


@dataclass(frozen=True, eq=False)
class InputPerturbation(Solver):
    """Randomise every value, then fit the model to the randomised values.

    Attributes
    ----------
    problem : Problem
    """

    problem: Problem
    name = "input"

    def __post_init__(self) -> None:
        if self._fits_tucker:
            problem = self.problem
            form: Any = problem.form
            check_tucker_size(form.ranks, problem.biases, problem.features)

    @property
    def _fits_tucker(self) -> bool:
        # Biases alone are fitted as a CP.
        return isinstance(self.problem.form, TuckerForm) and bool(self.problem.form)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Guarantee of all randomised values together."""
        return self.problem.values.guarantee

    @property
    def n_sweeps(self) -> int:
        """Largest number of calls of `on_sweep`."""
        return self.problem.max_iter

    def release(
        self, values: Any, streams: NoiseStreams | None, on_sweep: OnSweep
    ) -> Any:
        """Return the randomised values."""
        return self.problem.randomized(values, streams)

    def complete(self, released: Any, on_sweep: OnSweep) -> Outcome:
        """Fit the model to the randomised values."""
        problem = self.problem
        offset = float(np.clip(problem.mean(released), *problem.values.bounds))
        entries = problem.entries(released, offset, problem.scale)
        model, n_iter = self._fit(entries, on_sweep)
        if not problem.biases:
            # A tensor without biases, such as a CP of few terms, may have no offset.
            entries = problem.entries(released, 0.0, problem.scale, grouped=entries)
            no_offset, n_sweeps = self._fit(entries, None)
            if no_offset.noise_variance < _CLEARLY_LESS * model.noise_variance:
                model, n_iter, offset = no_offset, n_sweeps, 0.0
        residual = residual_variance(problem, model, offset, released, entries)
        return Outcome(model, offset, n_iter, residual)

    def _fit(
        self, entries: Any, on_sweep: OnSweep | None
    ) -> tuple[StructuredCP | StructuredTucker, int]:
        """Fit a model to entries: the model, and the number of sweeps."""
        problem = self.problem
        form: Any = problem.form
        fit: Any = fit_structured_cp
        size: dict[str, Any] = {"rank": problem.rank}
        if self._fits_tucker:
            fit, size = fit_structured_tucker, {"ranks": form.ranks}
        return fit(
            entries,
            **size,
            biases=problem.biases,
            value_scale=problem.scale,
            noise_floor=problem.values.noise_variance,
            max_iter=problem.max_iter,
            smooth_modes=problem.smooth_modes,
            features=problem.features,
            n_threads=problem.n_threads,
            on_sweep=on_sweep,
        )
