"""Perturbation of statistics and of output: biases from sums, then factors by blocks.

A block is the rows of one mode. They are fitted by ridge regression: the residuals of
the biases are regressed on factors of the other modes that are public or were released
before. The core of a Tucker decomposition is a block of one row, which holds all
entries. Noise is added either to the right-hand sides of the normal equations
("statistics") or to their solutions ("output"). Both are linear in the residuals, with
known weights:

    right-hand side   b_i = sum_e h_e r_e
    solution          u_i = sum_e M_i^-1 h_e r_e,   M_i = sum_e h_e h_e^T + lambda I

The residuals r_e are clipped to [-c, c]. Replacing one value changes only the sums of
its own row, by at most 2 c max_e ||q_e||_1, where q_e is h_e or M_i^-1 h_e and the
maximum is over the entries of the row. Laplace noise of that scale makes a block
pure-DP; the proof is in doc/completion_proofs.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._random import NoiseStreams
from ...measure import NoisySums, plan_laplace_sums, row_sums
from ...measure._noisy_sums import OfChunk
from ...privacy import PrivacyGuarantee
from ...tensor import CPForm, TuckerForm, point_model, row_posterior
from .._domain import Domain
from .._problem import Problem
from .._values import entry_guarantee
from ._solver import ALL_ELSE, OnSweep, Outcome, Solver
from ._sums import MeanPerturbation, SumsPerturbation

# Share of epsilon for the sums that determine the biases, or for the mean without them.
_SHARE_OF_SUMS, _SHARE_OF_MEAN = 0.75, 0.05
# Residuals of biases are clipped to this share of half the range; residuals of a mean
# are clipped to half the range.
_RESIDUAL_CLIP = 0.5
# Prior variance of the rows from which the ridge follows, in half ranges squared.
_ROW_VARIANCE = 0.05
# Epsilon of one round over all blocks, for rows of `rank` columns; longer rows need
# more in proportion. There is at least one round, and at most _MOST_ROUNDS.
_EPSILON_OF_ROUND, _MOST_ROUNDS = 16, 8
# Largest number of elements of a matrix of regressors in memory.
_LARGEST_CHUNK = 2**21
_SOURCE = "Dwork, McSherry, Nissim and Smith (2006), Theorem 1, for each release"
_STATEMENTS = {
    "statistics": "the right-hand sides of regressions on public or released factors",
    "output": "the solutions of ridge regressions on public or released factors",
}


@dataclass(frozen=True, eq=False)
class BlockPerturbation(Solver):
    """Randomise the regression of each block in turn.

    Attributes
    ----------
    problem : Problem
    name : {"statistics", "output"}
    """

    problem: Problem
    name: str

    def __post_init__(self) -> None:
        if self.problem.smooth_modes:
            raise ValueError(
                f'perturbation="{self.name}" does not support smooth_modes; pass None.'
            )

    @property
    def uses_features(self) -> bool:
        """Whether the solver fits weights of features instead of factors."""
        return self.problem.few_features.shape[1] > 0

    @cached_property
    def _form(self) -> CPForm | TuckerForm:
        """The fitted form: a sum over the features, or the requested decomposition."""
        if self.uses_features:
            return CPForm(self.problem.few_features.shape[1])
        return self.problem.form

    @cached_property
    def _blocks(self) -> list[int]:
        """The numbers of the blocks, in the order in which they are fitted."""
        if self.uses_features:
            return [0]
        if not self._form:
            return []
        epsilon_of_round = _EPSILON_OF_ROUND * self._n_columns / self._form.rank
        n_rounds = min(max(self.problem.epsilon / epsilon_of_round, 1), _MOST_ROUNDS)
        return int(n_rounds) * [*range(len(self._blocks_of_form))]

    @property
    def _n_columns(self) -> int:
        """Largest number of columns of a block."""
        return max(n for _, n in self._blocks_of_form)

    @property
    def _blocks_of_form(self) -> list[tuple[int, int]]:
        """Numbers of rows and columns of every block."""
        return self._form.blocks(self.problem.entries.shape)

    @cached_property
    def sums(self) -> SumsPerturbation | MeanPerturbation:
        """Solver of the first release: the biases, or the mean without them."""
        problem = self.problem
        share = 1.0
        if self._blocks:
            share = _SHARE_OF_SUMS if problem.biases else _SHARE_OF_MEAN
        return (SumsPerturbation if problem.biases else MeanPerturbation)(
            problem, share
        )

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in a sum of residuals with weights of L2 norm 1."""
        # Weights of L2 norm 1 have an L1 norm of up to the root of their number.
        squared_unit = 4 * self._clip**2 * self._n_columns
        return squared_unit * self._noise.noise_variance

    @property
    def _clip(self) -> float:
        """Largest absolute residual."""
        share = _RESIDUAL_CLIP if self.problem.biases else 1.0
        return share * self.problem.domain.scale

    @cached_property
    def _noise(self) -> NoisySums:
        problem = self.problem
        return plan_laplace_sums(
            (1 - self.sums.share) * problem.epsilon,
            n_releases=len(self._blocks),
            n_changed=self._n_columns,
            n_entries=problem.entries.n_entries,
        )

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """Guarantee of the sums and of all blocks together."""
        from dp_accounting import dp_event

        problem = self.problem
        if not self._blocks or math.isinf(problem.epsilon):
            return self.sums.guarantee
        return entry_guarantee(
            dp_event.ComposedDpEvent([self.sums.event, self._noise.event]),
            f"{self.sums.statement}, and so were {_STATEMENTS[self.name]}; {ALL_ELSE}",
            _SOURCE,
            void_for=problem.void_for,
        )

    def release(
        self, entries: Any, streams: NoiseStreams | None, on_sweep: OnSweep
    ) -> tuple[Outcome, list[NDArray[np.float64]], np.dtype]:
        """Return the outcome of the sums, and the factors from noisy blocks."""
        problem = self.problem
        streams_of = None if streams is None else streams.step
        released = self.sums.release(entries, streams_of and streams_of(0), on_sweep)
        outcome = self.sums.complete(released, on_sweep)
        clip = self._clip
        residuals_of = Residuals(problem.domain, outcome.offset, outcome.model, clip)
        variance = outcome.model.noise_variance / clip**2
        factors = self._start()
        if not entries.is_local:
            if self._blocks:
                block = entries.block(self._form, factors)
                sums = block.release(
                    residuals_of, self._noise, streams_of and streams_of(1)
                )
                factors[0] = clip * block.posterior(sums, self._noise, variance)
            return outcome, factors, entries.dtype
        residuals = residuals_of(problem.coordinates, entries.values)
        ridge = outcome.model.noise_variance / problem.domain.scale**2 / _ROW_VARIANCE
        rows = self._form.rows(problem.coordinates)
        for step, number in enumerate(self._blocks, start=1):
            block = Block(self._form, number, factors, rows)
            if self.name == "output":
                block.solve(ridge)
            sums = block.release(
                residuals, self._noise, streams_of and streams_of(step)
            )
            factors[number] = block.posterior(sums, self._noise, variance)
            if step < len(self._blocks):
                # The following blocks need the direction only, not the length.
                self._form.normalize(number, factors)
        if self._blocks:
            factors[self._blocks[-1]] *= clip
        return outcome, factors, entries.dtype

    def complete(self, released: Any, on_sweep: OnSweep) -> Outcome:
        """Make a model of the factors."""
        outcome, factors, dtype = released
        problem, biases = self.problem, None
        make: Callable[..., Any]
        decomposition: dict[str, Any]
        if problem.biases:
            model = outcome.model
            biases = [model.means[r, mode] for mode, r in enumerate(model.rows)]
        make, decomposition = problem.form.point_model, {}
        if self._blocks and self.uses_features:
            make = point_model
            decomposition = {"features": problem.few_features, "weights": factors[0]}
        elif self._blocks:
            decomposition = {"blocks": factors}
        variance = outcome.model.noise_variance
        model = make(
            problem.entries.shape, variance, dtype, biases=biases, **decomposition
        )
        model = model.with_average_rows(problem.entries.counts, keeps_biases=True)
        return Outcome(model, outcome.offset, max(len(self._blocks), 1))

    def _start(self) -> list[NDArray[np.float64]]:
        """Public factors to start from: the features, or fixed random numbers."""
        blocks = self._blocks_of_form
        if self.uses_features:
            factors: list[NDArray[np.float64]] = [np.ones(block) for block in blocks]
            factors[1] = self.problem.few_features[:-1]
            return factors
        generator = np.random.default_rng(0)
        return [generator.standard_normal(block) for block in blocks]


@dataclass(frozen=True)
class Residuals:
    """Residuals of a model, clipped and scaled to [-1, 1].

    Attributes
    ----------
    domain : Domain
        Domain of the values.
    offset : float
    model : StructuredCP
    clip : float
        Largest absolute residual before scaling; it becomes 1.
    """

    domain: Domain
    offset: float
    model: Any
    clip: float

    def __call__(
        self, coordinates: NDArray[np.integer], values: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        residuals = self.domain.clip(values.astype(float))
        residuals -= self.offset
        residuals -= self.model.predict(coordinates)
        return np.clip(residuals / self.clip, -1.0, 1.0)


class Block:
    """Weighted sums of residuals over the rows of one block.

    Parameters
    ----------
    form : CPForm or TuckerForm
    number : int
        Number of the block in the form.
    factors : sequence of ndarray
        All blocks of the form.
    rows : sequence of ndarray of shape (n_entries,), int
        For every block, the row of each entry.
    """

    scales: NDArray[np.float64]

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
        self._inverses: NDArray[np.floating] | None = None

    def regressors(self, chunk: slice) -> NDArray[np.floating]:
        """Regressors h of a chunk of the entries."""
        rows = [block_rows[chunk] for block_rows in self._all_rows]
        return self._form.regressors(self._number, self._factors, rows)

    def weights(self, chunk: slice) -> NDArray[np.floating]:
        """Weights q of a chunk of the entries."""
        regressors = self.regressors(chunk)
        if self._inverses is None:
            return regressors
        return np.einsum("eab,eb->ea", self._inverses[self.rows[chunk]], regressors)

    def products(self, left: OfChunk, right: OfChunk) -> NDArray[np.float64]:
        """Sums of the outer products of two vectors over the entries of each row."""
        n_rows, n_columns = self.shape
        if n_rows == 1:
            size = max(_LARGEST_CHUNK // n_columns, 1)
            starts = range(0, len(self.rows), size)
            chunks = [slice(start, start + size) for start in starts]
            total: Any = sum(left(chunk).T @ right(chunk) for chunk in chunks)
            return total[np.newaxis]

        def outer_products(chunk: slice) -> NDArray[np.floating]:
            outer = left(chunk)[:, :, np.newaxis] * right(chunk)[:, np.newaxis, :]
            return outer.reshape(-1, n_columns**2)

        sums = row_sums(self.rows, (n_rows, n_columns**2), outer_products)
        return sums.reshape(n_rows, n_columns, n_columns)

    def solve(self, ridge: float) -> None:
        """Use the weights M^-1 h of ridge regression instead of h."""
        gram = self.products(self.regressors, self.regressors)
        gram += ridge * np.eye(self.shape[1])
        self._inverses = np.linalg.inv(gram)

    def release(
        self, residuals: NDArray[np.float64], noise: NoisySums, streams: Any
    ) -> NDArray[np.float64]:
        """Release noisy sums of the residuals, each over the scale of its row."""
        self.scales = scales_of(self.largest())
        contributions = self.contributions(residuals)
        return noise.release([(self.rows, self.shape, contributions)], streams)[0]

    def largest(self) -> NDArray[np.float64]:
        """For every row, the largest L1 norm of the weights of an entry."""
        largest = np.zeros(self.shape[0])
        size = max(_LARGEST_CHUNK // self.shape[1], 1)
        for start in range(0, len(self.rows), size):
            chunk = slice(start, start + size)
            norms = np.abs(self.weights(chunk)).sum(axis=1)
            np.maximum.at(largest, self.rows[chunk], norms)
        return largest

    def contributions(self, residuals: NDArray[np.float64]) -> OfChunk:
        """Contributions of entries to the sums, over the scales of the rows."""

        def contributions(chunk: slice) -> NDArray[np.floating]:
            scaled = residuals[chunk] / self.scales[self.rows[chunk]]
            weighted = self.weights(chunk) * scaled[:, np.newaxis]
            # Keeps the bound where weights nearly cancel and rounding lengthens them.
            excess = np.maximum(2 * np.abs(weighted).sum(axis=1), 1.0)
            return weighted / excess[:, np.newaxis]

        return contributions

    def posterior(
        self, sums: NDArray[np.float64], noise: NoisySums, residual_variance: float
    ) -> NDArray[np.float64]:
        """Posterior means of the rows, given the noisy sums."""
        squares = design = self.products(self.weights, self.weights)
        if self._inverses is not None:
            design = self.products(self.weights, self.regressors)
        return posterior_of(
            sums, self.scales, design, squares, noise, residual_variance
        )


def scales_of(largest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scales of the rows, over which contributions have an L1 norm of at most 1/2.

    Parameters
    ----------
    largest : ndarray of shape (n_rows,)
        Largest L1 norm of the weights of an entry; residuals are in [-1, 1].
    """
    return np.where(largest > 0, 2 * largest, 1.0)


def posterior_of(
    sums: NDArray[np.float64],
    scales: NDArray[np.float64],
    design: NDArray[np.float64],
    squares: NDArray[np.float64],
    noise: NoisySums,
    residual_variance: float,
) -> NDArray[np.float64]:
    """Posterior means of the rows, given noisy sums over the scales of the rows."""
    return row_posterior(
        sums * scales[:, np.newaxis],
        design,
        squares,
        scales**2 * noise.noise_variance,
        residual_variance,
    )
