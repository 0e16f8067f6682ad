"""The problem of a completion whose entries are in Dask partitions.

``_distributed.py`` says what is read from a partition and what leaves it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from ..tensor import CPForm, TuckerForm
from ..tensor._distributed import computed, in_memory, tree_sum
from ..tensor._pattern import features_of_pattern
from ._distributed import Observed, coordinates_of, values_of
from ._problem import Problem
from .solvers._blocks import Block, posterior_of, scales_of
from .solvers._noisy_sums import NoisySums, row_sums


@dataclass(frozen=True)
class _OneRow:
    """All entries, in a tensor of a single row."""

    observed: Observed

    def __len__(self) -> int:
        return len(self.observed)

    def row_sums(
        self, summands_of: Callable[[NDArray[np.floating]], NDArray[np.floating]] | None
    ) -> NDArray[Any]:
        """Sum over all entries; see `Observed.row_sums`."""
        if summands_of is None:
            return np.array([len(self)])
        return np.array([sum(self.observed.of_partitions(_total_of, summands_of))])


def _total_of(
    partition: Any,
    _: int,
    checks: Any,
    summands_of: Callable[[NDArray[np.floating]], NDArray[np.floating]],
) -> np.floating:
    return summands_of(values_of(partition)).sum()


class _DistributedBlock:
    """Weighted sums of residuals in the rows of the first mode; see `Block`."""

    _squares: NDArray[np.float64]
    _scales: NDArray[np.float64]

    def __init__(
        self,
        observed: Observed,
        form: CPForm | TuckerForm,
        factors: list[NDArray[np.float64]],
    ) -> None:
        self._observed, self._form = observed, form
        self._shape, self._others = factors[0].shape, factors[1:]

    def release(
        self, residuals_of: Callable[..., Any], noise: NoisySums, streams: Any
    ) -> NDArray[np.float64]:
        """Release noisy sums of residuals, each over the scale of its row."""
        n_rows, n_columns = self._shape
        largest = np.zeros(n_rows)
        self._squares = np.zeros((n_rows, n_columns, n_columns))
        block = self._form, n_columns, self._others
        for rows, norms, products in self._observed.of_partitions(_weights, *block):
            largest[rows] = np.maximum(largest[rows], norms)
            self._squares[rows] += products
        self._scales, sums = scales_of(largest), np.zeros(self._shape)
        step = None if noise.lattice is None else noise.lattice.step
        arguments = *block, residuals_of, self._scales, step
        for rows, partition_sums in self._observed.of_partitions(
            _contributions, *arguments
        ):
            sums[rows] += partition_sums
        return noise.randomize([sums], streams)[0]

    def posterior(
        self, sums: NDArray[np.float64], noise: NoisySums, residual_variance: float
    ) -> NDArray[np.float64]:
        """Posterior means of the rows, given the noisy sums."""
        squares = self._squares
        return posterior_of(
            sums, self._scales, squares, squares, noise, residual_variance
        )


def _block(
    where: NDArray[np.int32],
    form: CPForm | TuckerForm,
    n_columns: int,
    others: Sequence[NDArray[np.float64]],
) -> tuple[NDArray[np.int32], Block]:
    """The block of those rows of the first mode that a partition has."""
    rows, index = np.unique(where[:, 0], return_inverse=True)
    factors = [np.empty((len(rows), n_columns)), *others]
    return rows, Block(form, 0, factors, [index, *where.T[1:]])


def _weights(
    partition: Any, _: int, checks: tuple[tuple[int, ...] | None, str], *arguments: Any
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Rows of a partition, largest norms of their weights, and sums of squares."""
    rows, block = _block(coordinates_of(partition, checks), *arguments)
    return rows, block.largest(), block.products(block.weights, block.weights)


def _contributions(
    partition: Any, _: int, checks: tuple[tuple[int, ...] | None, str], *arguments: Any
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Rows of a partition, and sums of their contributions."""
    *block_arguments, residuals_of, scales, step = arguments
    where = coordinates_of(partition, checks)
    rows, block = _block(where, *block_arguments)
    block.scales = scales[rows]
    contributions = block.contributions(residuals_of(where, values_of(partition)))
    return rows, row_sums(block.rows, block.shape, contributions, step)


@dataclass(frozen=True, eq=False)
class DistributedProblem(Problem):
    """A problem whose entries are in Dask partitions: an `Observed`."""

    def __post_init__(self) -> None:
        if self.observed.mode in self.smooth_modes:
            raise ValueError(
                f"For Dask input, smooth_modes must not contain mode "
                f"{self.observed.mode}: the rows of the larger of the first two modes "
                f"are divided among workers."
            )

    @property
    def coordinates(self) -> Any:
        """The `Observed` itself; coordinates stay in their partitions."""
        return self.observed

    @property
    def one_row(self) -> Any:
        """The entries in a tensor of a single row."""
        return _OneRow(self.observed)

    @property
    def counts(self) -> list[NDArray[np.int64]]:
        """Number of entries in each row, mode by mode; public."""
        return self.observed.counts

    def block(
        self, form: CPForm | TuckerForm, factors: list[NDArray[np.float64]]
    ) -> _DistributedBlock:
        """The first block of a form, for entries in partitions; see `Block`."""
        return _DistributedBlock(self.observed, form, factors)

    def _pattern(self) -> NDArray[np.float64]:
        pattern = _Pattern(self.observed)
        return features_of_pattern(self.counts, self.n_components, pattern.decompose)


class _Pattern:
    """Incidence of the rows of the first two modes, by shard; see `pattern_features`.

    The rows of one of the modes are divided among shards. The singular vectors of the
    other mode are eigenvectors of a sum over the shards.
    """

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._seen = [np.flatnonzero(counts) for counts in observed.counts[:2]]
        self._weights = [
            1 / np.sqrt(counts[seen] + counts[seen].mean())
            for counts, seen in zip(observed.counts, self._seen, strict=False)
        ]

    def decompose(
        self, n_values: int, at_random: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Singular values and right vectors; see `features_of_pattern`."""
        mode, other = self._observed.mode, 1 - self._observed.mode
        shards = self._scaled_incidence(at_random)
        size = len(self._seen[other])
        multiply = dask.delayed(_gram_product, pure=False)

        def product(x: NDArray[np.float64]) -> NDArray[np.float64]:
            x = dask.delayed(x, traverse=False)
            return computed(tree_sum(multiply(shard, x) for shard in shards))[0][0]

        start = np.random.default_rng(0).standard_normal(size)
        operator = LinearOperator((size, size), matvec=product, dtype=float)
        values, vectors = eigsh(operator, k=n_values, v0=start)
        order = np.argsort(-values)
        values, vectors = np.sqrt(np.maximum(values[order], 0)), vectors[:, order]
        if mode == 1 and not at_random:
            project = dask.delayed(_projection, pure=False)
            projections = computed(*(project(shard, vectors) for shard in shards))
            vectors = np.concatenate(projections) / values
        return values, vectors

    def _scaled_incidence(self, at_random: bool) -> tuple[Delayed, ...]:
        """Scaled incidence of every shard, a row for each of its rows, in memory."""
        observed, make = self._observed, dask.delayed(_incidence, pure=False)
        mode, other = observed.mode, 1 - observed.mode
        probabilities = None
        if at_random:
            probabilities = observed.counts[other][self._seen[other]]
            probabilities = probabilities / observed.n_entries
        cuts = np.searchsorted(self._seen[mode], observed.cuts)
        shards = []
        for k, coordinates in enumerate(observed.coordinates):
            in_shard = slice(cuts[k], cuts[k + 1])
            rows = self._seen[mode][in_shard] - observed.cuts[k]
            weights = self._weights[mode][in_shard], self._weights[other]
            shards.append(
                make(
                    coordinates,
                    mode,
                    rows,
                    self._seen[other],
                    weights,
                    probabilities,
                    k,
                )
            )
        return in_memory(*shards)


def _incidence(
    coordinates: tuple[NDArray[np.int32]],
    mode: int,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    weights: tuple[NDArray[np.float64], NDArray[np.float64]],
    probabilities: NDArray[np.float64] | None,
    k: int,
) -> tuple[sparse.csr_array, NDArray[np.float64], NDArray[np.float64]]:
    """Scaled incidence of a shard, or one with random columns."""
    (where,) = coordinates
    row = np.searchsorted(rows, where[:, mode])
    if probabilities is None:
        column = np.searchsorted(columns, where[:, 1 - mode])
    else:
        generator = np.random.default_rng((0, k))
        column = generator.choice(len(columns), size=len(where), p=probabilities)
    ones, shape = np.ones(len(where), dtype=np.float32), (len(rows), len(columns))
    incidence = sparse.coo_array((ones, (row, column)), shape=shape).tocsr()
    return incidence, *weights


def _projection(
    scaled: tuple[sparse.csr_array, NDArray[np.float64], NDArray[np.float64]],
    vectors: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Product of a shard's incidence with vectors of the other mode."""
    incidence, weights, other = scaled
    return weights[:, np.newaxis] * (incidence @ (other[:, np.newaxis] * vectors))


def _gram_product(
    scaled: tuple[sparse.csr_array, NDArray[np.float64], NDArray[np.float64]],
    x: NDArray[np.float64],
) -> tuple[NDArray[np.float64]]:
    """Product of a shard's Gram matrix with a vector of the other mode."""
    incidence, weights, other = scaled
    return (other * (incidence.T @ (weights**2 * (incidence @ (other * x)))),)
