"""Perturbation of gradients: descent along noisy sums of clipped gradients.

The gradient of an entry's squared error is r_e J_e. Here r_e is the residual, and J_e
are the derivatives of the prediction by all parameters together: biases, factors, and
the core of a Tucker decomposition. J_e is a function of earlier releases. Each gradient
is clipped to length C as a whole, so replacing one value moves the sum of all gradients
by at most 2 C. Every iteration adds Gaussian noise to all coordinates of that sum, and
every iteration is accounted for. The sums go through the door divided by 2 C, so an
entry contributes a vector of length at most 1/2 (`EntrySums` adds no other).

This is Algorithm 2 of Wei, Li, Mao and Wang (2022), corrected: the paper adds noise to
one factor of three and does not count the iterations.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._random import NoiseStreams
from ...measure import (
    AtHand,
    EntrySums,
    NoisySums,
    Releases,
    plan_gaussian_sums,
    planned_event,
    row_sums,
)
from ...privacy import PrivacyGuarantee
from ...tensor import CPForm, TuckerForm
from ...tensor._priors import BIAS_VARIANCE, RESIDUAL_VARIANCE
from .._entries import Entries
from .._problem import Problem
from .._values import entry_guarantee, guarantee_without_noise
from ._measurement import ALL_ELSE, Measurement, OnSweep, Outcome, ReleasedMean
from ._sums import SHARE_OF_MEAN, MeanPerturbation, ReleasedSums

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

# C: the largest norm of an entry's gradient, with values in half ranges.
CLIP = 0.5
# Largest size of an array of derivatives in memory.
_CHUNK = 2**20
# Standard deviation of the factors at the start.
_START_SCALE = 0.2
_SOURCE = (
    "Wei, Li, Mao and Wang (2022), Algorithm 2, with every gradient clipped as a whole "
    "and every iteration counted; Dong, Roth and Su (2022), Corollary 3.3"
)


class _Released(NamedTuple):
    """The released mean, and the results of the released gradients.

    Attributes
    ----------
    noisy_sum : tuple
        The release of the measurement of the mean.
    offset : float
        The mean estimated from it.
    parameters : list of ndarray
        The parameters of each block after the descent.
    n_iter : int
    dtype : dtype
        Type of the values.
    """

    noisy_sum: ReleasedSums
    offset: float
    parameters: list[NDArray[np.floating]]
    n_iter: int
    dtype: np.dtype[Any]


class GradientPerturbation(Measurement[Entries, _Released]):
    """Randomise the sum of all clipped gradients in every iteration."""

    name = "gradient"

    @property
    def n_sweeps(self) -> int:
        """Largest number of calls of `on_sweep`."""
        return self.problem.max_iter

    @cached_property
    def _mean(self) -> MeanPerturbation:
        return MeanPerturbation(self.problem, SHARE_OF_MEAN)

    @cached_property
    def _noise(self) -> NoisySums:
        problem = self.problem
        shapes = _Blocks.from_problem(problem).shapes
        return plan_gaussian_sums(
            (1 - SHARE_OF_MEAN) * problem.epsilon,
            problem.delta,
            total_epsilon=problem.epsilon,
            n_releases=problem.max_iter,
            n_cells=problem.max_iter * sum(math.prod(shape) for shape in shapes),
            n_moved=sum(n_columns for _, n_columns in shapes),
            n_entries=problem.entries.n_entries,
        )

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """Guarantee of the mean and of all iterations together."""
        from dp_accounting import dp_event

        problem = self.problem
        if math.isinf(problem.epsilon):
            return guarantee_without_noise()
        return entry_guarantee(
            dp_event.ComposedDpEvent([self._mean.randomizer.event, self._noise.event]),
            f"{self._mean.statement}, and the sum of all clipped gradients was given "
            f"Gaussian noise in each of {problem.max_iter} iterations; {ALL_ELSE}",
            _SOURCE,
            delta=problem.delta,
            claimed_epsilon=problem.claimed_epsilon,
        )

    @staticmethod
    def planned_event(epsilon: float, delta: float) -> "DpEvent":
        """Event of any fit, stated before any data are seen."""
        from dp_accounting import dp_event

        from ...privacy.accounting._events import PureDpEvent

        mean = PureDpEvent(SHARE_OF_MEAN * epsilon)
        noise = planned_event(
            (1 - SHARE_OF_MEAN) * epsilon, delta, total_epsilon=epsilon
        )
        return dp_event.ComposedDpEvent([mean, noise])

    def measure(
        self, entries: Entries, streams: NoiseStreams | None, on_sweep: OnSweep
    ) -> _Released:
        """Release the mean, and gradients along a descent."""
        problem, noise = self.problem, self._noise
        noisy_sum = self._mean.measure(entries, streams, on_sweep)
        offset = self._mean.complete(noisy_sum, on_sweep).offset
        residuals = problem.domain.clip(entries.values.astype(float))
        residuals = (residuals - offset) / problem.domain.scale
        descent = _Descent(problem, noise.noise_variance)
        people, releases = AtHand(residuals), Releases(noise, streams, number=1)
        sums = EntrySums(tuple(descent.shapes), "l2", noise.step)
        n_iter = problem.max_iter
        for step in range(1, problem.max_iter + 1):
            question = GradientQuestion((sums,), descent)
            ((noisy, _),) = releases.ask(people, question)
            descent.move(sums.parts(noisy))
            if on_sweep(step - 1):
                n_iter = step
                break
        return _Released(noisy_sum, offset, descent.average(), n_iter, entries.dtype)

    def mean_of(self, released: _Released) -> ReleasedMean:
        """The released mean of the values."""
        return self._mean.mean_of(released.noisy_sum)

    def complete(self, released: _Released, on_sweep: OnSweep) -> Outcome:
        """Make a model from the parameters."""
        _, offset, parameters, n_iter, dtype = released
        problem, scale = self.problem, self.problem.domain.scale
        model: dict[str, Any] = {}
        if problem.biases:
            of_modes = parameters[: len(problem.shape)]
            model["biases"] = [scale * np.append(own[:, 0], 0.0) for own in of_modes]
        if problem.form:
            first, *others = _Blocks.from_problem(problem).factors(parameters)
            model["blocks"] = [scale * first, *others]
        variance = RESIDUAL_VARIANCE * scale**2
        fitted = problem.form.point_model(problem.shape, variance, dtype, **model)
        fitted = fitted.with_average_rows(problem.entries.counts)
        return Outcome(fitted, offset, n_iter, has_estimated_variance=False)


class _Blocks(NamedTuple):
    """The blocks of a form. Blocks of modes begin with a column of biases, if any.

    Attributes
    ----------
    form : CPForm or TuckerForm
    n_biases : list of int
        Number of columns of biases of every block.
    shapes : list of (int, int)
        Numbers of rows and columns of every block.
    """

    form: CPForm | TuckerForm
    n_biases: list[int]
    shapes: list[tuple[int, int]]

    @classmethod
    def from_problem(cls, problem: Problem) -> "_Blocks":
        """The blocks of a problem; biases alone are a CP without terms or core."""
        form, n_modes = problem.form or CPForm(0), len(problem.shape)
        blocks = form.blocks(problem.shape)
        n_biases = [int(problem.biases and k < n_modes) for k in range(len(blocks))]
        pairs = zip(n_biases, blocks, strict=True)
        return cls(form, n_biases, [(size, n + rank) for n, (size, rank) in pairs])

    def factors(self, parameters: Sequence[Any]) -> list[NDArray[np.floating]]:
        """The blocks without their biases."""
        return [own[:, n:] for own, n in zip(parameters, self.n_biases, strict=True)]


@dataclass(frozen=True, eq=False)
class GradientQuestion:
    """The question for the next sums of gradients. Everything in it is public.

    Attributes
    ----------
    sums : tuple of EntrySums
    descent : _Descent
        The current state of the descent.
    """

    sums: tuple[EntrySums]
    descent: "_Descent"

    chunks_at_once = 1

    def add(
        self, residuals: NDArray[np.floating], *totals: NDArray[np.float64]
    ) -> None:
        """Add the contributions of entries to all blocks, from their residuals."""
        descent = self.descent
        for part in descent.chunks():
            parts = descent.contributions(part, residuals[part])
            rows = [of_block[part] for of_block in descent.rows]
            self.sums[0].add(totals[0], rows, parts)


class _Descent:
    """Descent of biases, factors and core along noisy gradients, in half ranges."""

    def __init__(self, problem: Problem, noise_variance: float) -> None:
        self._blocks, self.clip = _Blocks.from_problem(problem), CLIP
        form, every_n_biases, shapes = self._blocks
        self.shapes = shapes
        assert isinstance(problem.entries, Entries)
        self.rows = form.rows(problem.entries.coordinates)
        self._n_averaged = (problem.max_iter + 1) // 2
        self._averaged: list[list[NDArray[np.floating]]] = []
        generator = np.random.default_rng(0)
        self.parameters, self._priors = [], []
        # Variance of the noise averaged over all iterations.
        self._noise_variance = 4 * self.clip**2 * noise_variance / problem.max_iter
        for block, (shape, n_biases) in enumerate(
            zip(shapes, every_n_biases, strict=True)
        ):
            is_bias = np.arange(shape[1]) < n_biases
            centre = np.r_[np.zeros(n_biases), form.centre(block)]
            # The core starts at its public centre, the factors at random.
            scale = _START_SCALE * (block < len(problem.shape))
            start = scale * generator.standard_normal(shape) + centre
            self.parameters.append(np.where(is_bias, 0.0, start))
            # With a wider prior, the core would take over the scale that the prior
            # keeps the factors from having.
            variance = np.where(is_bias, BIAS_VARIANCE, 0.04)
            self._priors.append((centre, variance))

    def _regressors(self, block: int, chunk: slice) -> NDArray[np.floating]:
        factors = self._blocks.factors(self.parameters)
        rows = [of_block[chunk] for of_block in self.rows]
        return self._blocks.form.regressors(block, factors, rows)

    def _derivative(self, block: int, chunk: slice) -> NDArray[np.floating]:
        """Derivatives of the predictions of entries by their row of a block."""
        regressors = self._regressors(block, chunk)
        ones = np.ones((len(regressors), self._blocks.n_biases[block]))
        return np.hstack([ones, regressors])

    def _squares(self, block: int, chunk: slice) -> NDArray[np.floating]:
        return self._derivative(block, chunk) ** 2

    def _predicted(self, chunk: slice) -> NDArray[np.floating]:
        """Predictions of entries."""
        predicted, last = 0.0, len(self.rows) - 1
        for block, (rows, own) in enumerate(
            zip(self.rows, self.parameters, strict=True)
        ):
            n_biases = self._blocks.n_biases[block]
            predicted = predicted + own[rows[chunk], :n_biases].sum(axis=1)
        terms = own[rows[chunk], n_biases:] * self._regressors(last, chunk)
        return terms.sum(axis=1) + predicted

    def chunks(self) -> list[slice]:
        """Slices of the entries whose derivatives fit into memory."""
        n_entries = len(self.rows[0])
        size = max(_CHUNK // sum(n_columns for _, n_columns in self.shapes), 1)
        return [slice(start, start + size) for start in range(0, n_entries, size)]

    def contributions(
        self, chunk: slice, values: NDArray[np.floating]
    ) -> list[NDArray[np.floating]]:
        """Clipped gradients divided by 2 C, of length at most 1/2, by block."""
        found = [self._derivative(block, chunk) for block in range(len(self.rows))]
        squares = [(derivative**2).sum(axis=1) for derivative in found]
        length = np.maximum(np.sqrt(sum(squares)), 1e-100)
        residual = values - self._predicted(chunk)
        clipped = np.clip(residual * length / self.clip, -1.0, 1.0)
        weights = clipped / (2 * length)
        for derivative in found:
            derivative *= weights[:, np.newaxis]
        return found

    def move(self, sums: list[NDArray[np.float64]]) -> None:
        """Take one step along the noisy gradients, divided by the public curvature."""
        pairs = enumerate(zip(self.rows, self.shapes, strict=True))
        curvatures = [
            row_sums(rows, shape, partial(self._squares, block))
            for block, (rows, shape) in pairs
        ]
        for block, parameters in enumerate(self.parameters):
            curvature = np.maximum(curvatures[block], 1e-6)
            # Noise in the sums acts like additional residual variance of the values.
            variance = RESIDUAL_VARIANCE + self._noise_variance / curvature
            centre, prior = self._priors[block]
            ridge = variance / prior
            pull = ridge * (parameters - centre)
            gradient = 2 * self.clip * sums[block] - pull
            parameters += 0.5 * gradient / (curvature + ridge)
        self._averaged.append([parameters.copy() for parameters in self.parameters])
        del self._averaged[: -self._n_averaged]

    def average(self) -> list[NDArray[np.floating]]:
        """Mean of the parameters over the last half of the steps."""
        return [np.mean(steps, axis=0) for steps in zip(*self._averaged, strict=True)]
