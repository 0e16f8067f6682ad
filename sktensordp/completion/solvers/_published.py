"""The three algorithms of Wei, Li, Mao and Wang (2022), to the letter.

Stochastic gradient descent (Eq. 6 and 7) fits a CP or Tucker decomposition without
biases or offset. Algorithm 1 adds Laplace noise to the values first, Algorithm 2 adds
noise to the gradients of the last factor, and Algorithm 3 to the last factor at the
end. The claims of the latter two do not hold: the other factors, and the core, are
updated from the raw values and released.
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
# Number of the algorithm for each perturbation.
PUBLISHED = {"input": 1, "gradient": 2, "output": 3}
_INPUT = (
    "Each observed value was given discrete Laplace noise on a public lattice; all "
    "else is computed from these draws and the coordinates."
)
_CLAIMS = {
    "gradient": (
        "Only the gradients of the last factor were given noise. All other factors, "
        "and the core of a Tucker decomposition, were updated from the raw values and "
        "are released. Nor does the claim count the passes over the data."
    ),
    "output": (
        "Only the last factor was given noise, after the descent. All other factors, "
        "and the core of a Tucker decomposition, are released as they were fitted to "
        "the raw values. The claimed sensitivity comes from a theorem about convex "
        "costs; this cost is not convex."
    ),
}


@dataclass(frozen=True, eq=False)
class PublishedPerturbation(Solver):
    """Fit a decomposition with one of the published algorithms.

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
                f'calibration="published" supports perturbation in '
                f"{sorted(PUBLISHED)}, got {self.name!r}."
            )
        if self.problem.rank == 0 or self.problem.smooth_modes:
            raise ValueError(
                'calibration="published" needs a rank of at least 1, and '
                "smooth_modes=None."
            )

    @property
    def unsound(self) -> bool:
        """Whether the published privacy claim of this perturbation is false."""
        return self.name != "input"

    @property
    def n_sweeps(self) -> int:
        """Largest number of calls of `on_sweep`."""
        return self.problem.max_iter

    @cached_property
    def _lattice(self) -> LaplaceLattice:
        return domain_lattice(self.problem.epsilon, self.problem.values.bounds, None)

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """The guarantee that holds, and the published claim if it is stronger."""
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
        """Run the algorithm, and return the blocks."""
        problem = self.problem
        private, last = math.isfinite(problem.epsilon), len(problem.shape) - 1
        generator = _generator(streams, 0)
        factors: list[NDArray[np.float64]] = [
            generator.random(block) for block in problem.form.blocks(problem.shape)
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
                "before that pass. Take a smaller learning_rate.",
                ConvergenceWarning,
                stacklevel=5,
            )
        if self.name == "output" and private:
            # 2 tau L eta. The paper does not give L; this is the clipping constant of
            # Algorithm 2.
            sensitivity = 2 * problem.max_iter * problem.gradient_clip
            scale = sensitivity * problem.learning_rate / problem.epsilon
            factors[last] = factors[last] + _spherical(
                _generator(streams, 1), factors[last].shape, scale
            )
        return factors, max(n_iter, 1), dtype

    def complete(self, released: Any, on_sweep: OnSweep) -> Outcome:
        """Make a model of the blocks."""
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
    """Guarantee that holds for an algorithm, with the published claim if stronger."""
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
    """Random rows with a density proportional to exp(-||row|| / scale)."""
    rows = generator.standard_normal(shape)
    lengths = generator.gamma(shape[1], scale, shape[0])
    rows *= (lengths / np.linalg.norm(rows, axis=1))[:, np.newaxis]
    return rows
