"""Perturbation of statistics or output: biases from sums, then factors, block by block.

A block is the rows of one mode. They are fitted by ridge regression: the residuals of
the biases are regressed on factors of the other modes that are public or were released
before. The core of a Tucker decomposition is a block of one row, which holds all
entries. With features of the rows of the second mode, there is one block: the weights
that the rows of the first mode give to the features. Noise is added either to the
right-hand sides of the normal equations or to their solutions. Both are linear in the
residuals, with known weights:

    right-hand side   b_i = sum_e h_e r_e
    solution          u_i = sum_e M_i^-1 h_e r_e,   M_i = sum_e h_e h_e^T + lambda I

The residuals r_e are clipped to [-c, c]. Replacing one value changes only the sums of
its own row, by at most 2 c max_e ||q_e||_1, where q_e is h_e or M_i^-1 h_e and the
maximum is over the entries of the row. Laplace noise of that scale makes a block
pure-DP; the proof is in doc/completion_proofs.md. The sums go through the door divided
by these scales, so an entry contributes a vector of L1 norm at most 1/2 (`EntrySums`
adds no other).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._random import NoiseStreams
from ...measure import (
    EntrySums,
    NoisySums,
    OfChunk,
    Releases,
    plan_laplace_sums,
    row_sums,
)
from ...privacy import PrivacyGuarantee
from ...tensor import CPForm, Rows, TuckerForm, row_posterior
from ...tensor._coordinates import present
from ...tensor._priors import INTERACTION_VARIANCE, OWN_WEIGHT_VARIANCE
from .._domain import Domain
from .._entries import Entries
from .._sources import ObservedEntries
from .._values import entry_guarantee
from ._expectation import Expectation
from ._measurement import ALL_ELSE, Measurement, OnSweep, Outcome, ReleasedMean
from ._sums import (
    SHARE_OF_MEAN,
    MeanPerturbation,
    ReleasedSums,
    SumsPerturbation,
)

_SOURCE = "Dwork, McSherry, Nissim and Smith (2006), Theorem 1, for each release"
# Shares of epsilon for the sums that determine biases, if weights of features or
# factors follow.
_BEFORE_WEIGHTS, _BEFORE_FACTORS = 0.75, 0.75
# Largest absolute residual of biases, in half ranges.
_CLIP = 0.5


class _Released(NamedTuple):
    """The releases of the sums and of the blocks.

    Attributes
    ----------
    first : tuple
        The release of the measurement of the sums.
    biases : Outcome
        The model that was fitted to the sums.
    factors : list of ndarray
        The factors of each block of the form, from noisy sums.
    dtype : dtype
        Type of the values.
    """

    first: ReleasedSums
    biases: Outcome
    factors: list[NDArray[np.float64]]
    dtype: np.dtype[Any]


class StatisticsPerturbation(Measurement[ObservedEntries, _Released]):
    """Randomise the right-hand sides of the regression of each block in turn."""

    name = "statistics"

    _randomized = "the right-hand sides of regressions on public or released factors"

    @property
    def uses_features(self) -> bool:
        """Whether weights of features are fitted instead of factors."""
        return self.problem.features.clear.shape[1] > 0

    @cached_property
    def _form(self) -> CPForm | TuckerForm:
        """The fitted form: a sum over the features, or the requested decomposition."""
        if self.uses_features:
            return CPForm(self.problem.features.clear.shape[1])
        return self.problem.form

    @cached_property
    def _blocks(self) -> list[int]:
        """The numbers of the blocks, in the order in which they are fitted."""
        if self.uses_features:
            return [0]
        if not self._form:
            return []
        # This is for one round over all blocks, if rows have `rank` columns; longer
        # rows need proportionally more.
        epsilon_of_round = 16 * self._n_columns / self._form.rank
        n_rounds = min(max(self.problem.epsilon / epsilon_of_round, 1), 8)
        return int(n_rounds) * [*range(len(self._form.blocks(self.problem.shape)))]

    @property
    def _n_columns(self) -> int:
        """Largest number of columns of a block."""
        return max(n for _, n in self._form.blocks(self.problem.shape))

    @cached_property
    def _first(self) -> SumsPerturbation:
        """The first release: the sums for biases or, without biases, the mean."""
        share = _BEFORE_WEIGHTS if self.uses_features else _BEFORE_FACTORS
        share = share if self.problem.biases else SHARE_OF_MEAN
        first = SumsPerturbation if self.problem.biases else MeanPerturbation
        return first(self.problem, share if self._blocks else 1.0)

    @property
    def _clip(self) -> float:
        """Largest absolute residual, in half ranges; those of biases are smaller."""
        return _CLIP if self.problem.biases else 1.0

    @cached_property
    def _noise(self) -> NoisySums:
        problem = self.problem
        return plan_laplace_sums(
            (1 - self._first.share) * problem.epsilon,
            n_releases=len(self._blocks),
            n_cells_per_entry=self._n_columns,
            n_entries=problem.entries.n_entries,
        )

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """Guarantee of the sums and of all blocks together."""
        from dp_accounting import dp_event

        problem, first = self.problem, self._first
        if not self._blocks or math.isinf(problem.epsilon):
            return first.guarantee
        return entry_guarantee(
            dp_event.ComposedDpEvent([first.randomizer.event, self._noise.event]),
            f"{first.statement}, and so were {self._randomized}; {ALL_ELSE}",
            _SOURCE,
            claimed_epsilon=problem.claimed_epsilon,
        )

    def measure(
        self, entries: ObservedEntries, streams: NoiseStreams | None, on_sweep: OnSweep
    ) -> _Released:
        """Release sums, and then the blocks of factors."""
        problem, form, blocks = self.problem, self._form, self._blocks
        first = self._first.measure(entries, streams, on_sweep)
        outcome = self._first.complete(first, on_sweep)
        clip = self._clip * problem.domain.scale
        residuals_of = Residuals(problem.domain, outcome.offset, outcome.model, clip)
        factors, releases = self._start(), Releases(self._noise, streams, number=1)
        for step, number in enumerate(blocks, start=1):
            others: list[Any] = list(factors)
            others[number] = None
            block = Block(form, number, factors[number].shape, others)
            factors[number] = self._regressed(entries, block, residuals_of, releases)
            if step < len(blocks):
                # The following blocks need only the direction, not the length.
                form.normalize(number, factors)
        if blocks:
            factors[blocks[-1]] *= clip
        return _Released(first, outcome, factors, entries.dtype)

    def _regressed(
        self,
        entries: ObservedEntries,
        block: "Block",
        residuals_of: "Residuals",
        releases: Releases,
    ) -> NDArray[np.float64]:
        """Release noisy sums of a block, and return the posterior means of its rows."""
        n_rows, n_columns = block.shape
        design = np.zeros((n_rows, n_columns, n_columns))
        for rows, products in entries.ask(_products, block):
            design[rows] += products
        squares, noise = design, residuals_of.model.noise
        ridge = self._ridge(noise)
        if ridge is not None:
            inverses = np.linalg.inv(design + ridge * np.eye(n_columns))
            block = replace(block, inverses=inverses)
            design = inverses @ design
            squares = design @ inverses
        sums, scales = noisy_sums(entries, block, residuals_of, releases)
        sums, of_noise = sums * scales[:, np.newaxis], self._noise.noise_variance
        return row_posterior(
            sums, design, squares, scales**2 * of_noise, noise / residuals_of.clip**2
        )

    def _ridge(self, noise: float) -> float | None:
        """The ridge of regressions, if their solutions get noise; otherwise None.

        Parameters
        ----------
        noise : float
            Variance of the values around the biases.
        """
        return None

    def mean_of(self, released: _Released) -> ReleasedMean:
        """The mean that follows from the sums."""
        return self._first.mean_of(released.first)

    def complete(self, released: _Released, on_sweep: OnSweep) -> Outcome:
        """Make a model from the factors."""
        _, outcome, factors, dtype = released
        problem, terms = self.problem, dict[str, Any]()
        if problem.biases:
            model = outcome.model
            terms["biases"] = [
                np.append(rows[:, mode], model.unknown[mode, mode])
                for mode, rows in enumerate(model.means)
            ]
        if self.uses_features:
            terms |= {"features": problem.features.clear, "weights": factors[0]}
        elif self._blocks:
            terms["blocks"] = factors
        variance = outcome.model.noise
        model = problem.form.point_model(problem.shape, variance, dtype, **terms)
        model = replace(model, precision=self._precision(model, outcome.model))
        counts = problem.entries.counts
        if problem.biases:
            model = model.with_average_factors(counts)
        else:
            model = model.with_average_rows(counts)
        n_iter = max(len(self._blocks), 1)
        return replace(outcome, model=model, n_iter=n_iter)

    def _precision(self, model: Rows, first: Rows) -> NDArray[np.float64]:
        """Prior of the rows that are later computed from users' own values.

        Biases have the prior of the sums. The prior variance of other columns is the
        released spread, which noise has shrunk, or else the variance that is assumed
        before any release.
        """
        problem, precision = self.problem, model.precision.copy()
        assumed = OWN_WEIGHT_VARIANCE
        if not self.uses_features:
            assumed = INTERACTION_VARIANCE / max(problem.form.rank, 1)
        seen = problem.entries.counts[0] > 0
        spread = np.mean(model.means[0][seen].astype(float) ** 2, axis=0)
        variance = np.maximum(spread, assumed * problem.domain.scale**2)
        precision[0] = 1 / variance
        n_biases = len(first.precision) if problem.biases else 0
        precision[:, :n_biases] = first.precision[:, :n_biases]
        return precision

    def _start(self) -> list[NDArray[np.float64]]:
        """Public factors to start from: the features, or fixed random numbers."""
        blocks = self._form.blocks(self.problem.shape)
        if self.uses_features:
            factors: list[NDArray[np.float64]] = [np.ones(block) for block in blocks]
            factors[1] = self.problem.features.clear[:-1]
            return factors
        generator = np.random.default_rng(0)
        return [generator.standard_normal(block) for block in blocks]

    def expected_error(self, expectation: Expectation) -> float:
        """Expected squared error, in half ranges squared; see `Expectation`."""
        if not self.uses_features:
            raise ValueError(
                'The expected error of perturbation="statistics" is known only with '
                "features: side_information, or a pattern in the coordinates "
                "(n_pattern_components > 0)."
            )
        # Weights of L2 norm 1 have an L1 norm of at most the root of their number.
        squared_unit = 4 * self._clip**2 * self._n_columns
        return expectation.of_sums(
            self._first.noise_variance, squared_unit * self._noise.noise_variance
        )


class OutputPerturbation(StatisticsPerturbation):
    """Randomise the solution of the regression of each block in turn."""

    name = "output"

    _randomized = "the solutions of ridge regressions on public or released factors"

    def _ridge(self, noise: float) -> float:
        variance_of_rows = 0.05  # in half ranges squared
        return noise / self.problem.domain.scale**2 / variance_of_rows


# --- one block -----------------------------------------------------------------------


@dataclass(frozen=True)
class Residuals:
    """Residuals of a model, clipped and scaled to [-1, 1].

    Attributes
    ----------
    domain : Domain
        Domain of the values.
    offset : float
    model : Rows
    clip : float
        Largest absolute residual before scaling; it becomes 1.
    """

    domain: Domain
    offset: float
    model: Rows
    clip: float

    def __call__(self, entries: Entries) -> NDArray[np.float64]:
        residuals = self.domain.clip(entries.values.astype(float))
        residuals -= self.offset
        residuals -= self.model.predict(entries.coordinates)
        return np.clip(residuals / self.clip, -1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Block:
    """One block of a form, and the blocks it is regressed on; all of it is public.

    Attributes
    ----------
    form : CPForm or TuckerForm
    number : int
        Number of the block in the form.
    shape : tuple of (int, int)
        Numbers of its rows and columns.
    others : list of ndarray or None
        All blocks of the form, with None for this one.
    inverses : ndarray of shape (n_rows, n_columns, n_columns), default=None
        M^-1 of every row, if the weights are M^-1 h rather than h.
    """

    form: CPForm | TuckerForm
    number: int
    shape: tuple[int, int]
    others: list[Any]
    inverses: NDArray[np.floating] | None = None

    def weights(
        self, entries: Entries
    ) -> tuple[NDArray[np.integer], NDArray[np.integer], OfChunk]:
        """The rows of a chunk, the position of each entry's row, and weights q."""
        of_blocks = self.form.rows(entries.coordinates)
        rows, places = present(of_blocks[self.number])
        inverses = None if self.inverses is None else self.inverses[rows]

        def weights(chunk: slice) -> NDArray[np.floating]:
            of_chunk = [block_rows[chunk] for block_rows in of_blocks]
            regressors = self.form.regressors(self.number, self.others, of_chunk)
            if inverses is None:
                return regressors
            return np.einsum("eab,eb->ea", inverses[places[chunk]], regressors)

        return rows, places, weights

    def chunks(self, n_entries: int) -> list[slice]:
        """Slices of the entries whose weights fit into memory."""
        size = max(2**21 // self.shape[1], 1)
        return [slice(start, start + size) for start in range(0, n_entries, size)]


def noisy_sums(
    entries: ObservedEntries,
    block: Block,
    residuals_of: Callable[[Entries], NDArray[np.float64]],
    releases: Releases,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Release noisy sums of the residuals, each divided by the scale of its row."""
    longest = np.zeros(block.shape[0])
    for rows, lengths in entries.ask(_longest, block):
        longest[rows] = np.maximum(longest[rows], lengths)
    scales = scales_of(longest)
    sums = EntrySums((block.shape,), "l1", releases.step)
    question = BlockQuestion((sums,), block, residuals_of, scales)
    ((noisy, _),) = releases.ask(entries, question)
    return noisy.reshape(block.shape), scales


def scales_of(longest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scales of the rows: contributions divided by them have an L1 norm of at most 1/2.

    Parameters
    ----------
    longest : ndarray of shape (n_rows,)
        Largest L1 norm of the weights of an entry; residuals are in [-1, 1].
    """
    return np.where(longest > 0, 2 * longest, 1.0)


def _products(
    entries: Entries, block: Block
) -> tuple[NDArray[np.integer], NDArray[np.float64]]:
    """Rows of a chunk, and sums of the outer products of their weights."""
    (rows, places, weights), n_columns = block.weights(entries), block.shape[1]
    if block.shape[0] == 1:
        total = np.zeros((1, n_columns, n_columns))
        for chunk in block.chunks(len(places)):
            part = weights(chunk)
            total += part.T @ part
        return rows, total[: len(rows)]

    def outer_products(chunk: slice) -> NDArray[np.floating]:
        own = weights(chunk)
        outer = own[:, :, np.newaxis] * own[:, np.newaxis, :]
        return outer.reshape(-1, n_columns**2)

    sums = row_sums(places, (len(rows), n_columns**2), outer_products)
    return rows, sums.reshape(-1, n_columns, n_columns)


def _longest(
    entries: Entries, block: Block
) -> tuple[NDArray[np.integer], NDArray[np.float64]]:
    """Rows of a chunk, and for each the largest L1 norm of the weights of an entry."""
    rows, places, weights = block.weights(entries)
    longest = np.zeros(len(rows))
    for chunk in block.chunks(len(places)):
        lengths = np.abs(weights(chunk)).sum(axis=1)
        np.maximum.at(longest, places[chunk], lengths)
    return rows, longest


@dataclass(frozen=True, eq=False)
class BlockQuestion:
    """The question for the next sums, those of a block. Everything in it is public.

    Attributes
    ----------
    sums : tuple of EntrySums
    block : Block
    residuals_of : Residuals
    scales : ndarray of shape (n_rows,)
        Contributions are divided by the scales of their rows.
    """

    sums: tuple[EntrySums]
    block: Block
    residuals_of: Callable[[Entries], NDArray[np.float64]]
    scales: NDArray[np.float64]

    chunks_at_once = 1

    def add(self, chunk: Entries, *totals: NDArray[np.float64]) -> None:
        """Add the residuals of entries to the sums of their rows."""
        present_rows, places, weights = self.block.weights(chunk)
        rows = present_rows[places]
        residuals = self.residuals_of(chunk) / self.scales[rows]
        for part in self.block.chunks(len(rows)):
            weighted = weights(part) * residuals[part, np.newaxis]
            # This keeps the bound if weights nearly cancel and rounding lengthens them.
            excess = np.maximum(2 * np.abs(weighted).sum(axis=1), 1.0)
            weighted /= excess[:, np.newaxis]
            self.sums[0].add(totals[0], [rows[part]], [weighted])
