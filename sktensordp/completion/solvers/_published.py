"""The three algorithms of Wei, Li, Mao and Wang (2022), to the letter.

A CP or a Tucker decomposition without biases or offset is fitted to the values as they
are by stochastic gradient descent (Eq. 6 and 7). Algorithm 1 gives the values Laplace
noise before, Algorithm 2 the gradients of the last factor, Algorithm 3 the last factor
at the end. The claims of the latter two do not hold: the other factors, and the core,
are updated from the raw values and released.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ..._random import NoiseStreams
from ...noise import LaplaceLattice
from ...privacy import PrivacyGuarantee
from ...tensor import descend
from .._problem import Problem
from .._values import domain_lattice, entry_guarantee
from ._solver import OnSweep, Outcome, Solver

__all__ = ["PUBLISHED", "PublishedPerturbation", "published_guarantee"]

_PAPER = "Wei, Li, Mao and Wang (2022), Algorithm {number} and Theorem {number}"
# The algorithms, by their numbers.
PUBLISHED = {"input": 1, "gradient": 2, "output": 3}
_INPUT = (
    "Each observed value was given discrete Laplace noise on a public lattice; all "
    "else is computed from these draws and the coordinates."
)
_CLAIMS = {
    "gradient": (
        "Only the gradients of the last factor got noise, while all other factors, and "
        "the core of a Tucker decomposition, were updated from the values as they are, "
        "and are released; the claim does not count the passes over the data either."
    ),
    "output": (
        "Only the last factor got noise, after the descent, while all other factors, "
        "and the core of a Tucker decomposition, leave as they were fitted to the "
        "values; the sensitivity that the claim rests on is a theorem about convex "
        "costs, which this is not."
    ),
}


@dataclass(frozen=True, eq=False)
class PublishedPerturbation(Solver):
    """Fit a decomposition by one of the published algorithms.

    Attributes
    ----------
    problem : Problem
    name : {"input", "gradient", "output"}
    """

    problem: Problem
    name: str
    starts_at_random = True

    def __post_init__(self) -> None:
        if self.name not in PUBLISHED:
            raise ValueError(
                f'calibration="published" needs a perturbation in '
                f"{sorted(PUBLISHED)}, not {self.name!r}."
            )
        if self.problem.rank == 0 or self.problem.smooth_modes:
            raise ValueError(
                'calibration="published" fits decompositions of rank 1 or more, '
                "without smooth modes."
            )

    @property
    def unsound(self) -> bool:
        """Whether what is claimed of it does not hold."""
        return self.name != "input"

    @property
    def n_sweeps(self) -> int:
        """How often `on_sweep` is called at most."""
        return self.problem.max_iter

    @cached_property
    def _lattice(self) -> LaplaceLattice:
        return domain_lattice(self.problem.epsilon, self.problem.values.bounds, None)

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """What really holds, and what is claimed where that is more."""
        problem = self.problem
        if math.isinf(problem.epsilon):
            return problem.values.guarantee
        lattice = self._lattice
        return published_guarantee(
            self.name, problem.epsilon, lattice, declared=problem.declared
        )

    def release(
        self, values: NDArray[np.floating], streams: NoiseStreams, on_sweep: OnSweep
    ) -> tuple[list[NDArray[np.float64]], int, np.dtype]:
        """The blocks, from the values: all that these algorithms do with them."""
        problem = self.problem
        private, last = math.isfinite(problem.epsilon), len(problem.shape) - 1
        start = _generator(streams, 0)
        factors: list[NDArray[np.float64]] = [
            start.random(block) for block in problem.form.blocks(problem.shape)
        ]
        rank = factors[last].shape[1]
        dtype, values = values.dtype, problem.values.clip(values.astype(float))
        if self.name == "input" and private:
            values = self._lattice.randomize(values, streams.step(1).stream(0))
        noise: Callable[[int], NDArray[np.float64]] | None = None
        if self.name == "gradient" and private:
            scale = 2 * problem.gradient_clip / problem.epsilon

            def noise(number: int) -> NDArray[np.float64]:
                return _spherical(
                    _generator(streams, number + 1), (len(values), rank), scale
                )

        stopped: list[int] = []

        def on_pass(number: int) -> bool:
            if on_sweep(number):
                stopped.append(number)
            return bool(stopped)

        factors, n_iter = descend(
            problem.coordinates, values, factors, rate=problem.learning_rate,
            ridge=problem.regularization, n_passes=problem.max_iter,
            clip=problem.gradient_clip, noise=noise, on_pass=on_pass,
            form=problem.form, core_ridge=problem.core_regularization,
        )  # fmt: skip
        if n_iter < problem.max_iter and not stopped:
            warnings.warn(
                f"The descent diverged in pass {n_iter + 1}; the factors are those "
                "before it. Take a smaller learning_rate.",
                ConvergenceWarning,
                stacklevel=5,
            )
        if self.name == "output" and private:
            # 2 tau L eta, with the clipping constant of Algorithm 2 for L, which the
            # paper does not give.
            sensitivity = 2 * problem.max_iter * problem.gradient_clip
            scale = sensitivity * problem.learning_rate / problem.epsilon
            factors[last] = factors[last] + _spherical(
                _generator(streams, 1), factors[last].shape, scale
            )
        return factors, max(n_iter, 1), dtype

    def complete(self, released: Any, on_sweep: OnSweep) -> Outcome:
        """The blocks as a model."""
        blocks, n_iter, dtype = released
        problem = self.problem
        model = problem.form.point_model(problem.shape, math.nan, dtype, blocks=blocks)
        return Outcome(model, 0.0, n_iter)


def published_guarantee(
    name: str,
    epsilon: float,
    lattice: LaplaceLattice | None = None,
    *,
    declared: bool = True,
) -> PrivacyGuarantee:
    """What holds for one of the algorithms, and what is claimed where that is more."""
    from dp_accounting import dp_event

    from ...privacy.accounting._events import LatticeLaplaceDpEvent, PureDpEvent

    source = _PAPER.format(number=PUBLISHED[name])
    if name != "input":
        return entry_guarantee(
            dp_event.NonPrivateDpEvent(), _CLAIMS[name], source, claimed=(epsilon, 0.0)
        )
    event = PureDpEvent(float(epsilon))
    if lattice is not None:
        event = LatticeLaplaceDpEvent.of(lattice, lattice.n_steps)
    return entry_guarantee(
        event, _INPUT, source, void_for=None if declared else float(epsilon)
    )


def _generator(streams: NoiseStreams, number: int) -> np.random.Generator:
    return np.random.Generator(streams.step(number).stream(0))


def _spherical(
    generator: np.random.Generator, shape: tuple[int, ...], scale: float
) -> NDArray[np.float64]:
    """Rows with a density proportional to exp(-||row|| / scale)."""
    rows = generator.standard_normal(shape)
    lengths = generator.gamma(shape[1], scale, shape[0])
    rows *= (lengths / np.linalg.norm(rows, axis=1))[:, np.newaxis]
    return rows
