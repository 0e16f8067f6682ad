"""Input perturbation: every observed value is randomised before anything else."""

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

# A variance around a model that is this part of another is taken to be less.
_CLEARLY_LESS = 0.9


@dataclass(frozen=True, eq=False)
class InputPerturbation(Solver):
    """Randomise every value; the model is fitted to the randomised values.

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
        # Biases alone are a CP.
        return isinstance(self.problem.form, TuckerForm) and bool(self.problem.form)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Of all the randomised values together."""
        return self.problem.values.guarantee

    @property
    def n_sweeps(self) -> int:
        """How often `on_sweep` is called at most."""
        return self.problem.max_iter

    def release(
        self, values: Any, streams: NoiseStreams | None, on_sweep: OnSweep
    ) -> Any:
        """Randomised values."""
        return self.problem.randomized(values, streams)

    def complete(self, released: Any, on_sweep: OnSweep) -> Outcome:
        """Fit the model to randomised values, which are overwritten."""
        problem = self.problem
        offset = float(np.clip(problem.mean(released), *problem.values.bounds))
        model, n_iter = self._fit(released, offset, on_sweep)
        if not problem.biases:
            # What has no biases may have no offset either, such as a CP of few terms.
            plain, n_plain = self._fit(released, 0.0, None)
            if plain.noise_variance < _CLEARLY_LESS * model.noise_variance:
                model, n_iter, offset = plain, n_plain, 0.0
        residual = residual_variance(problem, model, offset, released)
        return Outcome(model, offset, n_iter, residual)

    def _fit(
        self, released: Any, offset: float, on_sweep: OnSweep | None
    ) -> tuple[StructuredCP | StructuredTucker, int]:
        """The model of what an offset leaves, and the number of sweeps."""
        problem = self.problem
        form: Any = problem.form
        fit: Any = fit_structured_cp
        size: dict[str, Any] = {"rank": problem.rank}
        if self._fits_tucker:
            fit, size = fit_structured_tucker, {"ranks": form.ranks}
        return fit(
            problem.entries(released, offset, problem.scale),
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
