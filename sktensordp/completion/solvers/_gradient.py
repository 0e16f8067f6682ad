"""Perturbation of gradients: descent along noisy sums of clipped gradients.

The gradient of an entry's squared error is r_e J_e, with the residual r_e and the
derivatives J_e of the prediction by all parameters together: biases, factors, and the
core of a Tucker decomposition; J_e is a function of what was released before. It is
clipped to length C as a whole, so that replacing the value moves the sum of all
gradients by 2 C at most. In every iteration, Gaussian noise is given to that sum, in
all of its coordinates; every iteration counts.

This is Algorithm 2 of Wei, Li, Mao and Wang (2022) as it must be: there, one factor of
three gets noise and the iterations are not counted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..._random import NoiseStreams
from ...privacy import PrivacyGuarantee
from ...tensor import CPForm, TuckerForm
from .._problem import Problem
from .._values import entry_guarantee
from ._noisy_sums import (
    Contributions,
    NoisySums,
    SumsPart,
    plan_gaussian_sums,
    planned_event,
    row_sums,
)
from ._solver import ALL_ELSE, OnSweep, Outcome, Solver
from ._sums import MeanPerturbation

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

__all__ = ["GradientPerturbation"]

_SHARE_OF_MEAN = 0.05
# Prior variances of biases and factors, and of the residuals, in half ranges squared.
_BIAS_VARIANCE, _FACTOR_VARIANCE, _RESIDUAL_VARIANCE = 0.04, 0.04, 0.2
# Wider, the core would have the scale that the priors of the factors keep from these.
_CORE_VARIANCE = 0.04
_START_SCALE = 0.2
_STEP = 0.5
_LEAST_CURVATURE = 1e-6
_SHORTEST, _LARGEST_CLIP = 1e-100, 1e100
_CHUNK = 2**18
_SOURCE = (
    "Wei, Li, Mao and Wang (2022), Algorithm 2, with every gradient clipped as a whole "
    "and every iteration counted; Dong, Roth and Su (2022), Corollary 3.3"
)


@dataclass(frozen=True, eq=False)
class GradientPerturbation(Solver):
    """Randomise the sum of all gradients in every iteration.

    Attributes
    ----------
    problem : Problem
    """

    problem: Problem
    name = "gradient"

    def __post_init__(self) -> None:
        if self.problem.smooth_modes:
            raise ValueError('perturbation="gradient" has no smooth modes.')
        if self.problem.gradient_clip > _LARGEST_CLIP:
            raise ValueError(f"gradient_clip must be at most {_LARGEST_CLIP:g}.")

    @property
    def n_sweeps(self) -> int:
        """How often `on_sweep` is called."""
        return self.problem.max_iter

    @cached_property
    def _mean(self) -> MeanPerturbation:
        return MeanPerturbation(self.problem, _SHARE_OF_MEAN)

    @cached_property
    def _noise(self) -> NoisySums:
        problem = self.problem
        shapes = [(rows, sum(columns)) for rows, *columns in _blocks(problem)]
        return plan_gaussian_sums(
            (1 - _SHARE_OF_MEAN) * problem.epsilon, problem.delta,
            within=problem.epsilon, n_releases=problem.max_iter,
            n_cells=problem.max_iter * sum(math.prod(shape) for shape in shapes),
            n_changed=sum(n_columns for _, n_columns in shapes),
            n_entries=problem.n_entries,
        )  # fmt: skip

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """Of the mean and of all iterations together."""
        from dp_accounting import dp_event

        problem = self.problem
        if math.isinf(problem.epsilon):
            return problem.values.guarantee
        return entry_guarantee(
            dp_event.ComposedDpEvent([self._mean.event, self._noise.event]),
            f"{self._mean.statement}, and the sum of all clipped gradients Gaussian "
            f"noise in each of {problem.max_iter} iterations; {ALL_ELSE}",
            _SOURCE,
            delta=problem.delta,
            void_for=None if problem.declared else float(problem.epsilon),
        )

    @staticmethod
    def planned_event(epsilon: float, delta: float) -> "DpEvent":
        """What it reveals at most, before there is a problem."""
        from dp_accounting import dp_event

        from ...privacy.accounting._events import PureDpEvent

        mean = PureDpEvent(_SHARE_OF_MEAN * epsilon)
        noise = planned_event((1 - _SHARE_OF_MEAN) * epsilon, delta, within=epsilon)
        return dp_event.ComposedDpEvent([mean, noise])

    def release(
        self,
        values: NDArray[np.floating],
        streams: NoiseStreams | None,
        on_sweep: OnSweep,
    ) -> tuple[Outcome, list[NDArray[np.floating]], int, np.dtype]:
        """The mean, and parameters after a descent along noisy gradients."""
        problem, noise = self.problem, self._noise
        part = None if streams is None else streams.step
        mean = self._mean.complete(
            self._mean.release(values, part and part(0), on_sweep), on_sweep
        )
        residuals = problem.values.clip(values.astype(float))
        residuals = (residuals - mean.offset) / problem.scale
        descent = _Descent(problem, noise.noise_variance)
        n_iter = problem.max_iter
        for step in range(1, problem.max_iter + 1):
            sums = noise.release(descent.parts(residuals), part and part(step))
            descent.move(sums)
            if on_sweep(step - 1):
                n_iter = step
                break
        return mean, descent.average(), n_iter, values.dtype

    def complete(self, released: Any, on_sweep: OnSweep) -> Outcome:
        """The parameters as a model."""
        mean, parameters, n_iter, dtype = released
        problem = self.problem
        model: dict[str, Any] = {}
        if problem.biases:
            model["biases"] = [
                problem.scale * np.append(own[:, 0], 0.0)
                for own in parameters[: len(problem.shape)]
            ]
        if problem.form:
            blocks = [
                own[:, n_biases:]
                for own, (_, n_biases, _) in zip(
                    parameters, _blocks(problem), strict=True
                )
            ]
            model["blocks"] = [problem.scale * blocks[0], *blocks[1:]]
        variance = _RESIDUAL_VARIANCE * problem.scale**2
        fitted = problem.form.point_model(problem.shape, variance, dtype, **model)
        return Outcome(fitted, mean.offset, n_iter)


def _form(problem: Problem) -> CPForm | TuckerForm:
    # Biases alone have no core either.
    return problem.form or CPForm(0)


def _blocks(problem: Problem) -> list[tuple[int, int, int]]:
    """Numbers of rows, of biases and of other columns of every block."""
    return [
        (n_rows, int(problem.biases and number < len(problem.shape)), n_columns)
        for number, (n_rows, n_columns) in enumerate(
            _form(problem).blocks(problem.shape)
        )
    ]


class _Descent:
    """Biases and blocks, their gradients, and where they move; in half ranges."""

    def __init__(self, problem: Problem, noise_variance: float) -> None:
        self._form, self.clip = _form(problem), problem.gradient_clip
        self.rows = self._form.rows(problem.coordinates)
        self._n_averaged = (problem.max_iter + 1) // 2
        self._passed: list[list[NDArray[np.floating]]] = []
        start = np.random.default_rng(0)
        self.parameters, self._centres, self._n_biases, self._prior = [], [], [], []
        # Of the noise, if all iterations were about the same sums.
        self._noise = 4 * self.clip**2 * noise_variance / problem.max_iter
        for number, (n_rows, n_biases, n_columns) in enumerate(_blocks(problem)):
            is_bias = np.arange(n_biases + n_columns) < n_biases
            centre = np.r_[np.zeros(n_biases), self._form.centre(number)]
            is_core = number == len(problem.shape)
            variance = _CORE_VARIANCE if is_core else _FACTOR_VARIANCE
            # It is around a public core, whose factors start at random.
            scale = 0.0 if is_core else _START_SCALE
            own = scale * start.standard_normal((n_rows, len(is_bias)))
            self.parameters.append(np.where(is_bias, 0.0, own + centre))
            self._centres.append(centre)
            self._n_biases.append(n_biases)
            self._prior.append(np.where(is_bias, _BIAS_VARIANCE, variance))

    @property
    def _factors(self) -> list[NDArray[np.floating]]:
        return [
            own[:, n_biases:]
            for own, n_biases in zip(self.parameters, self._n_biases, strict=True)
        ]

    def _regressors(self, block: int, part: slice) -> NDArray[np.floating]:
        rows = [own[part] for own in self.rows]
        return self._form.regressors(block, self._factors, rows)

    def _derivative(self, block: int, part: slice) -> NDArray[np.floating]:
        """Of the predictions of a slice of the entries by their rows of one block."""
        found = self._regressors(block, part)
        return np.hstack([np.ones((len(found), self._n_biases[block])), found])

    def _predicted(self, part: slice) -> NDArray[np.floating]:
        last = len(self.rows) - 1
        found = self._regressors(last, part)
        found *= self._factors[last][self.rows[last][part]]
        biases = np.zeros(len(found))
        for own, rows, n in zip(
            self.parameters, self.rows, self._n_biases, strict=True
        ):
            biases += own[rows[part], :n].sum(axis=1)
        return found.sum(axis=1) + biases

    def parts(self, values: NDArray[np.floating]) -> list[SumsPart]:
        """Contributions to the sum of all gradients, of length 1/2 at most each."""
        weights = np.empty(len(values))
        for start in range(0, len(values), _CHUNK):
            part = slice(start, start + _CHUNK)
            squares = [
                (self._derivative(block, part) ** 2).sum(axis=1)
                for block in range(len(self.rows))
            ]
            length = np.maximum(np.sqrt(sum(squares)), _SHORTEST)
            residual = values[part] - self._predicted(part)
            clipped = np.clip(residual * length / self.clip, -1.0, 1.0)
            weights[part] = clipped / (2 * length)

        def of_block(block: int) -> Contributions:
            return lambda part: (
                self._derivative(block, part) * weights[part, np.newaxis]
            )

        return self._sums_of(of_block)

    def _sums_of(self, contributions: Callable[[int], Contributions]) -> list[SumsPart]:
        return [
            (rows, own.shape, contributions(block))
            for block, (rows, own) in enumerate(
                zip(self.rows, self.parameters, strict=True)
            )
        ]

    def move(self, sums: list[NDArray[np.float64]]) -> None:
        """One step, in the unit of the curvature, which is public."""

        def squares(block: int) -> Contributions:
            return lambda part: self._derivative(block, part) ** 2

        curvatures = [row_sums(*part) for part in self._sums_of(squares)]
        for block, own in enumerate(self.parameters):
            # As strong as the noise makes it right where there is so much curvature.
            curvature = np.maximum(curvatures[block], _LEAST_CURVATURE)
            ridge = (_RESIDUAL_VARIANCE + self._noise / curvature) / self._prior[block]
            pull = ridge * (own - self._centres[block])
            own += _STEP * (2 * self.clip * sums[block] - pull) / (curvature + ridge)
        self._passed.append([own.copy() for own in self.parameters])
        del self._passed[: -self._n_averaged]

    def average(self) -> list[NDArray[np.floating]]:
        """Mean of the parameters over the last half of the steps."""
        return [np.mean(own, axis=0) for own in zip(*self._passed, strict=True)]
