"""Perturbation of statistics and of output: biases from sums, then factors by blocks.

A block is the rows of one mode, fitted by ridge regression of what the biases leave of
the values on factors of the other modes that are public or were released before; the
core of a Tucker decomposition is a block of one row, which all entries are in. Either
the right-hand sides of the normal equations get noise ("statistics") or their solutions
do ("output"). Both are linear in the values, with weights that are known:

    right-hand side   b_i = sum_e h_e r_e
    solution          u_i = sum_e M_i^-1 h_e r_e,   M_i = sum_e h_e h_e^T + lambda I

with r_e, the residual, clipped to [-c, c]. One value moves those of its own row alone,
by at most 2 c max_e ||q_e||_1, where q_e is h_e or M_i^-1 h_e and the maximum is over
the entries of the row. Laplace noise of that scale makes a block pure-DP; the proof is
in doc/completion.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._random import NoiseStreams
from ...privacy import PrivacyGuarantee
from ...tensor import CPForm, TuckerForm, point_model, row_posterior
from .._problem import Problem
from .._values import EntryRandomizer, entry_guarantee
from ._noisy_sums import Contributions, NoisySums, plan_laplace_sums, row_sums
from ._solver import ALL_ELSE, OnSweep, Outcome, Solver
from ._sums import MeanPerturbation, SumsPerturbation

__all__ = ["Block", "BlockPerturbation", "posterior_of", "unit_of"]

# Share of epsilon for the sums that determine the biases, or for the mean alone.
_SHARE_OF_SUMS, _SHARE_OF_MEAN = 0.75, 0.05
# Residuals of biases are clipped to this part of half the range, those of a mean to it.
_RESIDUAL_CLIP = 0.5
# The ridge is what would be right for rows of this variance, in half ranges squared.
_ROW_VARIANCE = 0.05
# Where factors start at random, every block is fitted once, and again for so much more
# epsilon, times the length of its rows in ranks; at most so often.
_EPSILON_OF_ROUND, _MOST_ROUNDS = 16, 8
# Numbers among the regressors that are held at once.
_LARGEST_CHUNK = 2**21
_SOURCE = "Dwork, McSherry, Nissim and Smith (2006), Theorem 1, for each release"
_STATEMENTS = {
    "statistics": "the right-hand sides of regressions on what was known before",
    "output": "the solutions of ridge regressions on what was known before",
}


@dataclass(frozen=True, eq=False)
class BlockPerturbation(Solver):
    """Randomise regressions of one block after the other.

    Attributes
    ----------
    problem : Problem
    name : {"statistics", "output"}
    """

    problem: Problem
    name: str

    def __post_init__(self) -> None:
        if self.problem.smooth_modes:
            raise ValueError(f'perturbation="{self.name}" has no smooth modes.')

    @property
    def uses_features(self) -> bool:
        """Whether what is fitted are weights of the pattern's features."""
        features = self.problem.features
        return features is not None and features.shape[1] > 0

    @cached_property
    def _form(self) -> CPForm | TuckerForm:
        """What is fitted: a sum over features, or the form that is asked for."""
        if self.uses_features:
            features: Any = self.problem.features
            return CPForm(features.shape[1])
        return self.problem.form

    @cached_property
    def _blocks(self) -> list[int]:
        """The blocks that are fitted, one after the other."""
        if self.uses_features:
            return [0]
        if not self._form:
            return []
        least = _EPSILON_OF_ROUND * self._n_columns / self._form.rank
        rounds = min(max(self.problem.epsilon / least, 1), _MOST_ROUNDS)
        return int(rounds) * [*range(len(self._form.blocks(self.problem.shape)))]

    @property
    def _n_columns(self) -> int:
        """The most that a block has."""
        return max(n for _, n in self._form.blocks(self.problem.shape))

    @cached_property
    def sums(self) -> SumsPerturbation | MeanPerturbation:
        """What comes before the blocks."""
        problem = self.problem
        share = 1.0
        if self._blocks:
            share = _SHARE_OF_SUMS if problem.biases else _SHARE_OF_MEAN
        return (SumsPerturbation if problem.biases else MeanPerturbation)(
            problem, share
        )

    @property
    def noise_variance(self) -> float:
        """Variance of the noise of sums of residuals with weights of length one."""
        # Of about so large an absolute sum.
        largest = 4 * self._clip**2 * self._n_columns
        return largest * self._noise.noise_variance

    @property
    def _clip(self) -> float:
        """Largest residual."""
        return self.problem.scale * (_RESIDUAL_CLIP if self.problem.biases else 1.0)

    @cached_property
    def _noise(self) -> NoisySums:
        problem = self.problem
        return plan_laplace_sums(
            (1 - self.sums.share) * problem.epsilon, n_releases=len(self._blocks),
            n_changed=self._n_columns, n_entries=problem.n_entries,
        )  # fmt: skip

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """Of the sums and of all blocks together."""
        from dp_accounting import dp_event

        problem, first = self.problem, self.sums.guarantee
        if not self._blocks or math.isinf(problem.epsilon):
            return first
        return entry_guarantee(
            dp_event.ComposedDpEvent([self.sums.event, self._noise.event]),
            f"{self.sums.statement}, and {_STATEMENTS[self.name]} too; {ALL_ELSE}",
            _SOURCE,
            void_for=None if problem.declared else float(problem.epsilon),
        )

    def release(
        self, values: Any, streams: NoiseStreams | None, on_sweep: OnSweep
    ) -> tuple[Outcome, list[NDArray[np.float64]], np.dtype]:
        """The outcome of the sums, and factors from noisy blocks."""
        problem: Any = self.problem
        part = None if streams is None else streams.step
        first = self.sums
        outcome = first.complete(
            first.release(values, part and part(0), on_sweep), on_sweep
        )
        clip = self._clip
        left = Residuals(problem.values, outcome.offset, outcome.model, clip)
        variance = outcome.model.noise_variance / clip**2
        factors = self._start()
        if problem.is_distributed:
            if self._blocks:
                block = problem.block(self._form, factors)
                sums = block.release(left, self._noise, part and part(1))
                factors[0] = clip * block.posterior(sums, self._noise, variance)
            return outcome, factors, values.dtype
        residuals = left(problem.coordinates, values)
        ridge = outcome.model.noise_variance / problem.scale**2 / _ROW_VARIANCE
        rows = self._form.rows(problem.coordinates)
        for step, number in enumerate(self._blocks, start=1):
            block = Block(self._form, number, factors, rows)
            if self.name == "output":
                block.solve(ridge)
            sums = block.release(residuals, self._noise, part and part(step))
            factors[number] = block.posterior(sums, self._noise, variance)
            if step < len(self._blocks):
                # A direction for the blocks that follow, whatever its length.
                self._form.normalize(number, factors)
        if self._blocks:
            factors[self._blocks[-1]] *= clip
        return outcome, factors, values.dtype

    def complete(self, released: Any, on_sweep: OnSweep) -> Outcome:
        """The factors as a model."""
        outcome, factors, dtype = released
        problem, biases = self.problem, None
        make: Callable[..., Any]
        parts: dict[str, Any]
        if problem.biases:
            model = outcome.model
            biases = [model.means[r, mode] for mode, r in enumerate(model.rows)]
        make, parts = problem.form.point_model, {}
        if self._blocks and self.uses_features:
            make, parts = point_model, {"features": problem.features}
            parts["weights"] = factors[0]
        elif self._blocks:
            parts = {"blocks": factors}
        model = make(
            problem.shape, outcome.model.noise_variance, dtype, biases=biases, **parts
        )
        return Outcome(model, outcome.offset, max(len(self._blocks), 1))

    def _start(self) -> list[NDArray[np.float64]]:
        """Factors that are public: features, or a fixed random start."""
        blocks = self._form.blocks(self.problem.shape)
        if self.uses_features:
            features: Any = self.problem.features
            factors: list[NDArray[np.float64]] = [np.ones(block) for block in blocks]
            factors[1] = features[:-1]
            return factors
        start = np.random.default_rng(0)
        return [start.standard_normal(block) for block in blocks]


@dataclass(frozen=True)
class Residuals:
    """What a model leaves of values, in [-1, 1]: two of them differ by 2 at most.

    Attributes
    ----------
    values : EntryRandomizer
        The values' domain.
    offset : float
    model : StructuredCP
    clip : float
        The unit, and the largest that is not clipped.
    """

    values: EntryRandomizer
    offset: float
    model: Any
    clip: float

    def __call__(
        self, coordinates: NDArray[np.integer], values: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        left = self.values.clip(values.astype(float))
        left -= self.offset
        left -= self.model.predict(coordinates)
        return np.clip(left / self.clip, -1.0, 1.0)


class Block:
    """Linear sums of residuals in the rows of one block."""

    unit: NDArray[np.float64]

    def __init__(
        self,
        form: CPForm | TuckerForm,
        number: int,
        factors: Sequence[NDArray[np.floating]],
        rows: Sequence[NDArray[np.integer]],
    ) -> None:
        self._form, self._number = form, number
        self._factors, self._all_rows = factors, rows
        self.rows, self.shape = rows[number], factors[number].shape
        self._solved: NDArray[np.floating] | None = None

    def regressors(self, part: slice) -> NDArray[np.floating]:
        """Regressors h of the entries of a slice."""
        rows = [own[part] for own in self._all_rows]
        return self._form.regressors(self._number, self._factors, rows)

    def weights(self, part: slice) -> NDArray[np.floating]:
        """Weights q of the entries of a slice."""
        regressors = self.regressors(part)
        if self._solved is None:
            return regressors
        return np.einsum("eab,eb->ea", self._solved[self.rows[part]], regressors)

    def products(
        self, left: Contributions, right: Contributions
    ) -> NDArray[np.float64]:
        """Sums over the entries of a row of the products of two vectors."""
        n_rows, n_columns = self.shape
        if n_rows == 1:
            size = max(_LARGEST_CHUNK // n_columns, 1)
            slices = [slice(at, at + size) for at in range(0, len(self.rows), size)]
            total: Any = sum(left(part).T @ right(part) for part in slices)
            return total[np.newaxis]

        def products(part: slice) -> NDArray[np.floating]:
            outer = left(part)[:, :, np.newaxis] * right(part)[:, np.newaxis, :]
            return outer.reshape(-1, n_columns**2)

        sums = row_sums(self.rows, (n_rows, n_columns**2), products)
        return sums.reshape(n_rows, n_columns, n_columns)

    def solve(self, ridge: float) -> None:
        """Weigh by the inverses of the ridge regressions' matrices."""
        gram = self.products(self.regressors, self.regressors)
        gram += ridge * np.eye(self.shape[1])
        self._solved = np.linalg.inv(gram)

    def release(
        self, residuals: NDArray[np.float64], noise: NoisySums, streams: Any
    ) -> NDArray[np.float64]:
        """Noisy sums of the residuals, each in the unit of its row."""
        self.unit = unit_of(self.largest())
        contributions = self.contributions(residuals)
        return noise.release([(self.rows, self.shape, contributions)], streams)[0]

    def largest(self) -> NDArray[np.float64]:
        """Largest L1 norm of the weights of an entry of every row."""
        largest = np.zeros(self.shape[0])

        def look(part: slice) -> None:
            norms = np.abs(self.weights(part)).sum(axis=1)
            np.maximum.at(largest, self.rows[part], norms)

        size = max(_LARGEST_CHUNK // self.shape[1], 1)
        for start in range(0, len(self.rows), size):
            look(slice(start, start + size))
        return largest

    def contributions(self, residuals: NDArray[np.float64]) -> Contributions:
        """What the entries of a slice add to the sums, in the units of the rows."""

        def contributions(part: slice) -> NDArray[np.floating]:
            scaled = residuals[part] / self.unit[self.rows[part]]
            found = self.weights(part) * scaled[:, np.newaxis]
            # Also where weights cancel, and what is left of them is of rounding.
            excess = np.maximum(2 * np.abs(found).sum(axis=1), 1.0)
            return found / excess[:, np.newaxis]

        return contributions

    def posterior(
        self, sums: NDArray[np.float64], noise: NoisySums, residual_variance: float
    ) -> NDArray[np.float64]:
        """Posterior means of the rows, given noisy sums."""
        squares = design = self.products(self.weights, self.weights)
        if self._solved is not None:
            design = self.products(self.weights, self.regressors)
        return posterior_of(sums, self.unit, design, squares, noise, residual_variance)


def unit_of(largest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Units of the rows; residuals are in [-1, 1], contributions 1/2 long at most."""
    return np.where(largest > 0, 2 * largest, 1.0)


def posterior_of(
    sums: NDArray[np.float64],
    unit: NDArray[np.float64],
    design: NDArray[np.float64],
    squares: NDArray[np.float64],
    noise: NoisySums,
    residual_variance: float,
) -> NDArray[np.float64]:
    """Posterior means of the rows, given noisy sums in units of the rows."""
    return row_posterior(
        sums * unit[:, np.newaxis], design, squares, unit**2 * noise.noise_variance,
        residual_variance,
    )  # fmt: skip
