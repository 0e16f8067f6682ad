"""Randomised values of entries in Dask partitions, on the workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from ..tensor import SparseEntries
from ..tensor._distributed import DistributedEntries, computed, tree_sum
from ._values import EntryRandomizer

# What was drawn for the entries of a shard, and their signs, which are doubled for
# values to compare.
Shard = tuple[NDArray[Any], NDArray[np.int8]]


@dataclass(frozen=True, eq=False)
class PartitionedDraws:
    """Randomised values of all observed entries, by shard; see `Draws`.

    Attributes
    ----------
    entries : PartitionedEntries
    randomizer : EntryRandomizer
    shards : sequence of Delayed of (ndarray, ndarray of int8)
        In memory, in the order of the coordinates; see `Shard`.
    """

    entries: Any
    randomizer: EntryRandomizer
    shards: Sequence[Delayed]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.entries.dtype

    def mean(self) -> float:
        """Mean of the randomised values."""
        total = dask.delayed(_sum_of, pure=False)
        sums = (total(shard, self._made_with) for shard in self.shards)
        return float(computed(tree_sum(sums))[0][0] / self.entries.n_entries)

    def compared(self) -> tuple[NDArray[np.int32], NDArray[Any], NDArray[np.int8]]:
        """Some of what was drawn; see `Draws.compared`."""
        entries, select = self.entries, dask.delayed(_compared, pure=False)
        pairs = zip(entries.coordinates, self.shards, strict=True)
        compared = computed(*(select(*pair) for pair in pairs))
        for (coordinates, *_), first in zip(compared, entries.cuts, strict=False):
            coordinates[:, entries.mode] += first
        where, drawn, tags = map(np.concatenate, zip(*compared, strict=True))
        return where, drawn, tags

    def grouped(
        self,
        offset: float,
        scale: float,
        move: float = 0.0,
        reuse: DistributedEntries | None = None,
    ) -> DistributedEntries:
        """Entries by shard; see `Draws.grouped`."""
        entries, prepare = self.entries, dask.delayed(_grouped, pure=False)
        if reuse is None:
            triples = zip(
                entries.coordinates, self.shards, entries.shard_shapes, strict=True
            )
            reuse = DistributedEntries(
                [prepare(*triple, self._made_with) for triple in triples],
                entries.cuts,
                entries.mode,
                entries.shape,
                entries.counts,
                entries.dtype,
            )
        reuse.rescale(offset, scale, move)
        return reuse

    @property
    def _made_with(self) -> tuple[EntryRandomizer, np.dtype[Any]]:
        """What makes values of a shard."""
        return self.randomizer, self.dtype


def _sum_of(
    shard: Shard, made_with: tuple[EntryRandomizer, np.dtype[Any]]
) -> tuple[np.floating]:
    randomizer, dtype = made_with
    return (randomizer.values_of(shard[0], dtype).sum(dtype=float),)


def _compared(
    coordinates: tuple[NDArray[np.int32]], shard: Shard
) -> tuple[NDArray[np.int32], NDArray[Any], NDArray[np.int8]]:
    (where,), (drawn, tags) = coordinates, shard
    chosen = np.abs(tags) == 2
    return where[chosen], drawn[chosen], tags[chosen] // 2


def _grouped(
    coordinates: tuple[NDArray[np.int32]],
    shard: Shard,
    shape: tuple[int, ...],
    made_with: tuple[EntryRandomizer, np.dtype[Any]],
) -> SparseEntries:
    (where,), (drawn, tags), (randomizer, dtype) = coordinates, shard, made_with
    values = randomizer.values_of(drawn, dtype)
    outputs = drawn if randomizer.has_table else None
    return SparseEntries(np.asfortranarray(where), values, shape, tags, outputs)
