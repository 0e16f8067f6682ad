"""Randomised values of entries in memory, ready to be fitted and compared."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tensor import Observations
from ._values import EntryRandomizer

# Largest number of values that are compared with a model.
MOST_COMPARED = 2**18
# Number of signs drawn at once.
_BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class Draws:
    """Randomised values of all observed entries, in memory.

    `PartitionedDraws` answers the same questions for entries in Dask collections.

    Attributes
    ----------
    entries : Entries
        Where the values belong; it holds none.
    randomizer : EntryRandomizer
    drawn : ndarray of shape (n_entries,)
        What `EntryRandomizer.draw` returned.
    dtype : dtype
        Type of the values.
    """

    entries: Any
    randomizer: EntryRandomizer
    drawn: NDArray[Any]
    dtype: np.dtype[Any]

    def mean(self) -> float:
        """Mean of the randomised values."""
        values = self.randomizer.values_of(self.drawn, self.dtype)
        return float(values.mean(dtype=float))

    def observations(
        self, offset: float, scale: float, smooth_modes: Collection[int] = ()
    ) -> Observations:
        """Shifted and scaled values at their coordinates.

        Parameters
        ----------
        offset, scale : float
            Each value less `offset` is divided by `scale`.
        smooth_modes : collection of int, default=()
            Modes of which all indices have rows.
        """
        used = [
            np.arange(size) if mode in smooth_modes else None
            for mode, size in enumerate(self.entries.shape)
        ]
        return Observations.of(
            self.entries.coordinates,
            (self.randomizer.values_of(self.drawn, self.dtype) - offset) / scale,
            used,
            self.drawn if self.randomizer.has_table else None,
            signs(0, len(self.drawn)),
        )

    def compared(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int8]]:
        """Some of what was drawn, equally spaced among all of it.

        Returns
        -------
        coordinates : ndarray of shape (n_compared, n_modes), int
        drawn : ndarray of shape (n_compared,)
        signs : ndarray of shape (n_compared,), int8
            Signs with which ``grouped(move=...)`` moves these values.
        """
        chosen = slice(None, None, math.ceil(len(self.drawn) / MOST_COMPARED))
        moved = signs(0, len(self.drawn))
        return self.entries.coordinates[chosen], self.drawn[chosen], moved[chosen]


def signs(first: int, last: int) -> NDArray[np.int8]:
    """Random signs of the entries from `first` to `last`, fixed for every place.

    Parameters
    ----------
    first, last : int
        Places among all entries; `last` is excluded.

    Returns
    -------
    signs : ndarray of shape (last - first,), int8
    """
    blocks = range(first // _BLOCK, math.ceil(last / _BLOCK))
    bits = [
        np.random.default_rng((0, b)).integers(0, 2, _BLOCK, np.int8) for b in blocks
    ]
    start = first - blocks.start * _BLOCK
    return (2 * np.concatenate(bits) - 1)[start : start + last - first]
