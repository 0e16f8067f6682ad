"""The pattern of coordinates that are in Dask partitions."""

from typing import Any

import dask
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from ..tensor._distributed import computed, in_memory, tree_sum


class PartitionedPattern:
    """Incidence of the rows of the first two modes, by shard; see `pattern_of`.

    The rows of one of the modes are divided among shards. The singular vectors of the
    other mode are eigenvectors of a sum over the shards.
    """

    def __init__(self, entries: Any) -> None:
        self._entries = entries
        self._seen = [np.flatnonzero(counts) for counts in entries.counts[:2]]
        self._weights = [
            1 / np.sqrt(counts[seen] + counts[seen].mean())
            for counts, seen in zip(entries.counts, self._seen, strict=False)
        ]

    def decompose(
        self, n_values: int, at_random: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Singular values and right vectors; see `pattern_from`."""
        mode, other = self._entries.mode, 1 - self._entries.mode
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
        entries, make = self._entries, dask.delayed(_incidence, pure=False)
        mode, other = entries.mode, 1 - entries.mode
        probabilities = None
        if at_random:
            probabilities = entries.counts[other][self._seen[other]]
            probabilities = probabilities / entries.n_entries
        cuts = np.searchsorted(self._seen[mode], entries.cuts)
        shards = []
        for k, coordinates in enumerate(entries.coordinates):
            in_shard = slice(cuts[k], cuts[k + 1])
            rows = self._seen[mode][in_shard] - entries.cuts[k]
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
