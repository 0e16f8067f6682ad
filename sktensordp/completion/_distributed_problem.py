"""The problem of a completion whose entries are in partitions of Dask.

What is read here of a partition, and what leaves it, is said in ``_distributed.py``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from .._random import NoiseStreams
from ..tensor import CPForm, SparseEntries, TuckerForm
from ..tensor._distributed import DistributedEntries, computed, in_memory, tree_sum
from ..tensor._pattern import features_of_pattern
from ._distributed import Observed, coordinates_of, values_of
from ._problem import Problem
from .solvers._blocks import Block, posterior_of, unit_of
from .solvers._noisy_sums import NoisySums, row_sums
from .solvers._residual_variance import MOST_COMPARED

__all__ = ["DistributedProblem"]


@dataclass(frozen=True)
class _OneRow:
    """All entries in a single row."""

    observed: Observed

    def __len__(self) -> int:
        return len(self.observed)

    def row_sums(
        self, weigh: Callable[[NDArray[np.floating]], NDArray[np.floating]] | None
    ) -> NDArray[Any]:
        """Sum over all entries."""
        if weigh is None:
            return np.array([len(self)])
        return np.array([sum(self.observed.of_partitions(_total_of, weigh))])


def _total_of(
    partition: Any,
    _: int,
    checks: Any,
    weigh: Callable[[NDArray[np.floating]], NDArray[np.floating]],
) -> np.floating:
    return weigh(values_of(partition)).sum()


class _DistributedBlock:
    """Sums of residuals in the rows of the first mode; see `Block`."""

    def __init__(
        self,
        observed: Observed,
        form: CPForm | TuckerForm,
        factors: list[NDArray[np.float64]],
    ) -> None:
        self._observed, self._form = observed, form
        self._shape, self._others = factors[0].shape, factors[1:]

    def release(
        self, left: Callable[..., Any], noise: NoisySums, streams: Any
    ) -> NDArray[np.float64]:
        """Noisy sums of residuals, each in the unit of its row."""
        n_rows, n_columns = self._shape
        largest = np.zeros(n_rows)
        self._squares = np.zeros((n_rows, n_columns, n_columns))
        own = self._form, n_columns, self._others
        for rows, norms, squares in self._observed.of_partitions(_weights, *own):
            largest[rows] = np.maximum(largest[rows], norms)
            self._squares[rows] += squares
        self._unit, sums = unit_of(largest), np.zeros(self._shape)
        step = None if noise.lattice is None else noise.lattice.step
        options = *own, left, self._unit, step
        for rows, found in self._observed.of_partitions(_contributions, *options):
            sums[rows] += found
        return noise.randomize([sums], streams)[0]

    def posterior(
        self, sums: NDArray[np.float64], noise: NoisySums, residual_variance: float
    ) -> NDArray[np.float64]:
        """Posterior means of the rows, given noisy sums."""
        squares = self._squares
        return posterior_of(
            sums, self._unit, squares, squares, noise, residual_variance
        )


def _block(
    where: NDArray[np.int32],
    form: CPForm | TuckerForm,
    n_columns: int,
    others: Sequence[NDArray[np.float64]],
) -> tuple[NDArray[np.int32], Block]:
    """The block of the rows of the first mode that a partition has."""
    rows, index = np.unique(where[:, 0], return_inverse=True)
    factors = [np.empty((len(rows), n_columns)), *others]
    return rows, Block(form, 0, factors, [index, *where.T[1:]])


def _weights(
    partition: Any, _: int, checks: tuple[tuple[int, ...] | None, str], *own: Any
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    rows, block = _block(coordinates_of(partition, checks), *own)
    return rows, block.largest(), block.products(block.weights, block.weights)


def _contributions(
    partition: Any, _: int, checks: tuple[tuple[int, ...] | None, str], *arguments: Any
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    *own, left, unit, step = arguments
    where = coordinates_of(partition, checks)
    rows, block = _block(where, *own)
    block.unit = unit[rows]
    contributions = block.contributions(left(where, values_of(partition)))
    return rows, row_sums(block.rows, block.shape, contributions, step)


@dataclass(frozen=True, eq=False)
class DistributedProblem(Problem):
    """A tensor to complete whose entries are in partitions: `where` is an Observed."""

    is_distributed = True

    def __post_init__(self) -> None:
        if self.where.mode in self.smooth_modes:
            raise ValueError(
                f"Mode {self.where.mode}, the larger of the first two, is cut into "
                f"parts of data of Dask, and cannot be smooth."
            )

    @property
    def n_entries(self) -> int:
        """Number of observed entries."""
        return self.where.n_entries

    @property
    def coordinates(self) -> Any:
        """What answers for them; they stay where they are."""
        return self.where

    @property
    def one_row(self) -> Any:
        """The entries, in a tensor of one row."""
        return _OneRow(self.where)

    @property
    def counts(self) -> list[NDArray[np.int64]]:
        """Numbers of entries of the rows, mode by mode; public."""
        return self.where.counts

    def block(
        self, form: CPForm | TuckerForm, factors: list[NDArray[np.float64]]
    ) -> _DistributedBlock:
        """Sums of residuals in the rows of the first block; see `Block`."""
        return _DistributedBlock(self.where, form, factors)

    def _pattern(self) -> NDArray[np.float64]:
        pattern = _Pattern(self.where)
        return features_of_pattern(self.counts, self.n_components, pattern.decompose)

    def randomized(
        self, values: Any, streams: NoiseStreams | None
    ) -> tuple[Delayed, ...]:
        """Randomised values, by part."""
        every = math.ceil(self.n_entries / MOST_COMPARED)
        streams = None if streams is None else streams.sent()
        return values.randomized(self.values, streams, every)

    def mean(self, released: Sequence[Delayed]) -> float:
        """Mean of randomised values."""
        total = dask.delayed(_sum_of, pure=False)
        return computed(tree_sum(map(total, released)))[0][0] / self.n_entries

    def compared(
        self, released: Sequence[Delayed], n: int
    ) -> tuple[NDArray[np.int32], NDArray[np.floating], NDArray[np.int8]]:
        """Randomised values to compare; see `Problem.compared`."""
        pick = dask.delayed(_compared, pure=False)
        pairs = zip(self.where.coordinates, released, strict=True)
        found = computed(*(pick(*pair) for pair in pairs))
        for (coordinates, *_), first in zip(found, self.where.cuts, strict=False):
            coordinates[:, self.where.mode] += first
        where, values, tags = map(np.concatenate, zip(*found, strict=True))
        return where, values, tags

    def entries(
        self,
        released: Sequence[Delayed],
        offset: float = 0.0,
        scale: float = 1.0,
        move: float = 0.0,
    ) -> DistributedEntries:
        """Entries in parts; see `Problem.entries`."""
        where, prepare = self.where, dask.delayed(_entries, pure=False)
        triples = zip(where.coordinates, released, where.part_shapes, strict=True)
        parts = [prepare(*triple, offset, scale, move) for triple in triples]
        return DistributedEntries(
            parts, where.cuts, where.mode, self.shape, where.counts, where.dtype
        )


def _sum_of(
    released: tuple[NDArray[np.floating], NDArray[np.int8]],
) -> tuple[np.floating]:
    return (released[0].sum(dtype=float),)


def _compared(
    coordinates: tuple[NDArray[np.int32]],
    released: tuple[NDArray[np.floating], NDArray[np.int8]],
) -> tuple[NDArray[np.int32], NDArray[np.floating], NDArray[np.int8]]:
    (where,), (values, tags) = coordinates, released
    chosen = np.abs(tags) == 2
    return where[chosen], values[chosen], tags[chosen] // 2


def _entries(
    coordinates: tuple[NDArray[np.int32]],
    released: tuple[NDArray[np.floating], NDArray[np.int8]],
    shape: tuple[int, ...],
    offset: float,
    scale: float,
    move: float,
) -> SparseEntries:
    (where,), (values, tags) = coordinates, released
    moved = values + values.dtype.type(move) * np.sign(tags) if move else values.copy()
    moved -= offset
    moved /= scale
    return SparseEntries(np.asfortranarray(where), moved, shape)


class _Pattern:
    """Incidence of the rows of the first two modes, in parts; see `pattern_features`.

    One of the modes is cut into parts. The singular vectors of the other are
    eigenvectors of a sum over the parts.
    """

    def __init__(self, where: Observed) -> None:
        self._where = where
        self._seen = [np.flatnonzero(own) for own in where.counts[:2]]
        self._weights = [
            1 / np.sqrt(own[seen] + own[seen].mean())
            for own, seen in zip(where.counts, self._seen, strict=False)
        ]

    def decompose(
        self, n_values: int, at_random: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Largest singular values, and right vectors."""
        own, other = self._where.mode, 1 - self._where.mode
        scaled = self._scaled(at_random)
        size = len(self._seen[other])
        multiply = dask.delayed(_gram_product, pure=False)

        def product(x: NDArray[np.float64]) -> NDArray[np.float64]:
            x = dask.delayed(x, traverse=False)
            return computed(tree_sum(multiply(part, x) for part in scaled))[0][0]

        start = np.random.default_rng(0).standard_normal(size)
        operator = LinearOperator((size, size), matvec=product, dtype=float)
        values, vectors = eigsh(operator, k=n_values, v0=start)
        order = np.argsort(-values)
        values, vectors = np.sqrt(np.maximum(values[order], 0)), vectors[:, order]
        if own == 1 and not at_random:
            project = dask.delayed(_projection, pure=False)
            parts = computed(*(project(part, vectors) for part in scaled))
            vectors = np.concatenate(parts) / values
        return values, vectors

    def _scaled(self, at_random: bool) -> tuple[Delayed, ...]:
        """Scaled incidence of every part, its own rows first, in memory."""
        where, make = self._where, dask.delayed(_incidence, pure=False)
        own, other = where.mode, 1 - where.mode
        chances = None
        if at_random:
            chances = where.counts[other][self._seen[other]] / where.n_entries
        cuts = np.searchsorted(self._seen[own], where.cuts)
        parts = []
        for k, coordinates in enumerate(where.coordinates):
            part = slice(cuts[k], cuts[k + 1])
            rows = self._seen[own][part] - where.cuts[k]
            weights = self._weights[own][part], self._weights[other]
            parts.append(
                make(coordinates, own, rows, self._seen[other], weights, chances, k)
            )
        return in_memory(*parts)


def _incidence(
    coordinates: tuple[NDArray[np.int32]],
    mode: int,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    weights: tuple[NDArray[np.float64], NDArray[np.float64]],
    chances: NDArray[np.float64] | None,
    k: int,
) -> tuple[sparse.csr_array, NDArray[np.float64], NDArray[np.float64]]:
    """Scaled incidence of a part, or of one that is random."""
    (where,) = coordinates
    row = np.searchsorted(rows, where[:, mode])
    if chances is None:
        column = np.searchsorted(columns, where[:, 1 - mode])
    else:
        random = np.random.default_rng((0, k))
        column = random.choice(len(columns), size=len(where), p=chances)
    ones, shape = np.ones(len(where), dtype=np.float32), (len(rows), len(columns))
    incidence = sparse.coo_array((ones, (row, column)), shape=shape).tocsr()
    return incidence, *weights


def _projection(
    scaled: tuple[sparse.csr_array, NDArray[np.float64], NDArray[np.float64]],
    vectors: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Product of a part's incidence with vectors of the other mode."""
    incidence, own, other = scaled
    return own[:, np.newaxis] * (incidence @ (other[:, np.newaxis] * vectors))


def _gram_product(
    scaled: tuple[sparse.csr_array, NDArray[np.float64], NDArray[np.float64]],
    x: NDArray[np.float64],
) -> tuple[NDArray[np.float64]]:
    """Product of a part's Gram matrix with a vector of the other mode."""
    incidence, own, other = scaled
    return (other * (incidence.T @ (own**2 * (incidence @ (other * x)))),)
