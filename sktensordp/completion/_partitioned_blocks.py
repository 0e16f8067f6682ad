"""Sums of residuals over the rows of the first mode, for entries in Dask partitions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..measure import NoisySums, row_sums
from ..tensor import CPForm, TuckerForm
from ._partitions import coordinates_of, values_of
from .measurements._blocks import Block, posterior_of, scales_of


class PartitionedBlock:
    """Weighted sums of residuals in the rows of the first mode; see `Block`."""

    _squares: NDArray[np.float64]
    _scales: NDArray[np.float64]

    def __init__(
        self,
        entries: Any,
        form: CPForm | TuckerForm,
        factors: list[NDArray[np.float64]],
    ) -> None:
        self._entries, self._form = entries, form
        self._shape, self._others = factors[0].shape, factors[1:]

    def release(
        self, residuals_of: Callable[..., Any], noise: NoisySums, streams: Any
    ) -> NDArray[np.float64]:
        """Release noisy sums of residuals, each over the scale of its row."""
        n_rows, n_columns = self._shape
        largest = np.zeros(n_rows)
        self._squares = np.zeros((n_rows, n_columns, n_columns))
        block = self._form, n_columns, self._others
        for rows, norms, products in self._entries.of_partitions(_weights, *block):
            largest[rows] = np.maximum(largest[rows], norms)
            self._squares[rows] += products
        self._scales, sums = scales_of(largest), np.zeros(self._shape)
        step = None if noise.lattice is None else noise.lattice.step
        arguments = *block, residuals_of, self._scales, step
        for rows, partition_sums in self._entries.of_partitions(
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
