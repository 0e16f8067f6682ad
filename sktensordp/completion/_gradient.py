"""Perturbation of gradients: descent along noisy sums of clipped gradients.

The gradient of an entry's squared error is r_e J_e, with the residual r_e and the
derivatives J_e of the prediction by all biases and factors together; J_e is a function
of what was released before. It is clipped to length C as a whole, so that replacing the
value moves the sum of all gradients by 2 C at most. In every iteration, Gaussian noise
is given to that sum, in all of its coordinates; every iteration counts.

This is Algorithm 2 of Wei, Li, Mao and Wang (2022) as it must be: there, one factor of
three gets noise and the iterations are not counted.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..tensor import point_model
from ._input import entry_guarantee
from ._noisy_sums import plan_gaussian_sums, planned_event, row_sums
from ._problem import ALL_ELSE, Outcome, Problem, Solver
from ._sums import MeanPerturbation

__all__ = ["GradientPerturbation"]

_SHARE_OF_MEAN = 0.05
# Prior variances of biases and factors, and of the residuals, in half ranges squared.
_BIAS_VARIANCE, _FACTOR_VARIANCE, _RESIDUAL_VARIANCE = 0.04, 0.04, 0.2
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

    def __post_init__(self):
        if self.problem.smooth_modes:
            raise ValueError('perturbation="gradient" has no smooth modes.')
        if self.problem.gradient_clip > _LARGEST_CLIP:
            raise ValueError(f"gradient_clip must be at most {_LARGEST_CLIP:g}.")

    @property
    def n_sweeps(self):
        """How often `on_sweep` is called."""
        return self.problem.max_iter

    @cached_property
    def _mean(self):
        return MeanPerturbation(self.problem, _SHARE_OF_MEAN)

    @cached_property
    def _noise(self):
        problem = self.problem
        n_columns = problem.rank + problem.biases
        return plan_gaussian_sums(
            (1 - _SHARE_OF_MEAN) * problem.epsilon, problem.delta,
            within=problem.epsilon, n_releases=problem.max_iter,
            n_cells=problem.max_iter * sum(problem.shape) * n_columns,
            n_changed=len(problem.shape) * n_columns, n_entries=problem.n_entries,
        )  # fmt: skip

    @cached_property
    def guarantee(self):
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
    def planned_event(epsilon, delta):
        """What it reveals at most, before there is a problem."""
        from dp_accounting import dp_event

        from ..privacy._events import PureDpEvent

        mean = PureDpEvent(_SHARE_OF_MEAN * epsilon)
        noise = planned_event((1 - _SHARE_OF_MEAN) * epsilon, delta, within=epsilon)
        return dp_event.ComposedDpEvent([mean, noise])

    def release(self, values, source, on_sweep):
        """The mean, and parameters after a descent along noisy gradients."""
        problem, noise = self.problem, self._noise
        part = None if source is None else source.part
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

    def complete(self, released, on_sweep):
        """The parameters as a model."""
        mean, parameters, n_iter, dtype = released
        problem, model = self.problem, {}
        n_biases = int(problem.biases)
        if problem.biases:
            model["biases"] = [
                problem.scale * np.append(own[:, 0], 0.0) for own in parameters
            ]
        if problem.rank:
            factors = [own[:, n_biases:] for own in parameters]
            model["factors"] = [problem.scale * factors[0], *factors[1:]]
        variance = _RESIDUAL_VARIANCE * problem.scale**2
        model = point_model(problem.shape, variance, dtype, **model)
        return Outcome(model, mean.offset, n_iter)


class _Descent:
    """Biases and factors, their gradients, and where they move; in half ranges."""

    def __init__(self, problem, noise_variance):
        self.rows, self.clip = problem.coordinates.T, problem.gradient_clip
        self._n_biases = n_biases = int(problem.biases)
        self._n_averaged = (problem.max_iter + 1) // 2
        self._passed = []
        start = np.random.default_rng(0)
        self.parameters, self._centres = [], []
        # Of the noise, if all iterations were about the same sums.
        self._noise = 4 * self.clip**2 * noise_variance / problem.max_iter
        is_bias = np.arange(n_biases + problem.rank) < n_biases
        self._prior = np.where(is_bias, _BIAS_VARIANCE, _FACTOR_VARIANCE)
        for mode, size in enumerate(problem.shape):
            # Modes after the second modulate the product of the first two.
            centre = np.where(is_bias, 0.0, float(mode > 1))
            own = _START_SCALE * start.standard_normal((size, len(is_bias)))
            self.parameters.append(np.where(is_bias, 0.0, own + centre))
            self._centres.append(centre)

    def _derivative(self, mode, part):
        """Of the predictions of a slice of the entries by their rows of one mode."""
        rows = [own[r[part]] for own, r in zip(self.parameters, self.rows, strict=True)]
        del rows[mode]
        found = math.prod(rows)
        found[:, : self._n_biases] = 1.0
        return found

    def _predicted(self, part):
        rows = [own[r[part]] for own, r in zip(self.parameters, self.rows, strict=True)]
        factors = math.prod(own[:, self._n_biases :] for own in rows)
        biases = sum(own[:, : self._n_biases] for own in rows)
        return factors.sum(axis=1) + biases.sum(axis=1)

    def parts(self, values):
        """Contributions to the sum of all gradients, of length 1/2 at most each."""
        weights = np.empty(len(values))
        for start in range(0, len(values), _CHUNK):
            part = slice(start, start + _CHUNK)
            squares = [
                (self._derivative(mode, part) ** 2).sum(axis=1)
                for mode in range(len(self.rows))
            ]
            length = np.maximum(np.sqrt(sum(squares)), _SHORTEST)
            residual = values[part] - self._predicted(part)
            clipped = np.clip(residual * length / self.clip, -1.0, 1.0)
            weights[part] = clipped / (2 * length)

        def of_mode(mode):
            return lambda part: self._derivative(mode, part) * weights[part, np.newaxis]

        return self._sums_of(of_mode)

    def _sums_of(self, contributions):
        return [
            (rows, own.shape, contributions(mode))
            for mode, (rows, own) in enumerate(
                zip(self.rows, self.parameters, strict=True)
            )
        ]

    def move(self, sums):
        """One step, in the unit of the curvature, which is public."""

        def squares(mode):
            return lambda part: self._derivative(mode, part) ** 2

        curvatures = [row_sums(*part) for part in self._sums_of(squares)]
        for mode, own in enumerate(self.parameters):
            # As strong as the noise makes it right where there is so much curvature.
            curvature = np.maximum(curvatures[mode], _LEAST_CURVATURE)
            ridge = (_RESIDUAL_VARIANCE + self._noise / curvature) / self._prior
            pull = ridge * (own - self._centres[mode])
            own += _STEP * (2 * self.clip * sums[mode] - pull) / (curvature + ridge)
        self._passed.append([own.copy() for own in self.parameters])
        del self._passed[: -self._n_averaged]

    def average(self):
        """Mean of the parameters over the last half of the steps."""
        return [np.mean(own, axis=0) for own in zip(*self._passed, strict=True)]
