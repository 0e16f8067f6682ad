"""Everything that a solver may know before it sees a value."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams
from ..tensor import (
    CPForm,
    DenseEntries,
    SparseEntries,
    TuckerForm,
    as_coordinates,
    pattern_features,
)
from ._values import EntryRandomizer

__all__ = ["Problem", "side_features", "signs"]

# From this share of observed entries on, sums over all entries of an array are faster
# than sums over coordinates.
_LEAST_DENSITY = 0.05
# Of features, the largest difference between two rows, in standard deviations.
_LARGEST_FEATURE = 4.0
# Signs that are drawn together.
_BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class Problem:
    """A tensor to complete, all but its values.

    Attributes
    ----------
    where : ndarray of shape (n, n_modes), int32, or of the shape of the tensor, bool
        Coordinates of the observed entries, or a mask that marks them.
    shape : tuple of int
    values : EntryRandomizer
        The values' domain, and how each of them would be randomised alone.
    declared : bool
        Whether the domain was declared, not read off the values.
    epsilon, delta : float
        Budget of one entry; `delta` is for solvers with Gaussian noise.
    form : CPForm or TuckerForm
    biases : bool
    smooth_modes : tuple of int
    n_components : int
        Largest number of components of the pattern.
    max_iter : int
    gradient_clip : float
    learning_rate, regularization : float
        Of the published algorithms.
    core_regularization : float
        Of the published algorithms, where there is a core.
    n_threads : int
    side_information : ndarray of shape (shape[1] + 1, n_features), default=None
        Public features of the rows of the second mode; last, of an unknown one.
    """

    where: Any
    shape: tuple[int, ...]
    values: EntryRandomizer
    declared: bool
    epsilon: float
    delta: float
    form: CPForm | TuckerForm
    biases: bool
    smooth_modes: tuple[int, ...]
    n_components: int
    max_iter: int
    gradient_clip: float
    learning_rate: float
    regularization: float
    n_threads: int
    side_information: Any = None
    core_regularization: float = 0.0

    is_distributed = False

    @property
    def rank(self) -> int:
        """Number of terms, or the least of the modes' ranks."""
        return self.form.rank

    @property
    def n_entries(self) -> int:
        """Number of observed entries."""
        if self.where.dtype == bool:
            return int(np.count_nonzero(self.where))
        return len(self.where)

    @cached_property
    def coordinates(self) -> Any:
        """Coordinates of the observed entries, also of what a mask marks."""
        return as_coordinates(self.where)

    @property
    def one_row(self) -> Any:
        """Coordinates of all entries in a tensor of one row."""
        return np.zeros((self.n_entries, 1), dtype=np.int32)

    @cached_property
    def counts(self) -> list[NDArray[np.int64]]:
        """Numbers of entries of the rows, mode by mode; public."""
        return [
            np.bincount(column, minlength=size)
            for column, size in zip(self.coordinates.T, self.shape, strict=True)
        ]

    @cached_property
    def features(self) -> NDArray[np.floating] | None:
        """Public features of the rows of the second mode, or none.

        Those that were declared, and those of the coordinates.
        """
        found = [] if self.side_information is None else [self.side_information]
        if self.biases and self.n_components:
            found.append(self._pattern())
        return np.concatenate(found, axis=1) if found else None

    def _pattern(self) -> NDArray[np.floating]:
        return pattern_features(self.coordinates, self.shape, self.n_components)

    @property
    def scale(self) -> float:
        """Half of the range of the values."""
        low, high = self.values.bounds
        return (high - low) / 2

    def with_budget(self, epsilon: float, values: EntryRandomizer) -> "Problem":
        """The same for another epsilon and its EntryRandomizer."""
        found = replace(self, epsilon=epsilon, values=values)
        if self.n_entries:
            # What follows from the coordinates alone is not computed again.
            vars(found).update(coordinates=self.coordinates, features=self.features)
        return found

    def randomized(self, values: Any, streams: NoiseStreams | None) -> Any:
        """All values, each randomised for itself; without streams, as they came."""
        if streams is None or math.isinf(self.epsilon):
            return self.values.taken(values)
        return self.values.randomize(values, streams)

    def mean(self, released: Any) -> float:
        """Mean of randomised values."""
        return released.mean(dtype=float)

    def compared(self, released: Any, n: int) -> tuple[NDArray[Any], ...]:
        """Every so manieth of the randomised values, some `n` of them.

        Returns
        -------
        coordinates : ndarray of shape (n_compared, n_modes), int
        values : ndarray of shape (n_compared,)
        signs : ndarray of shape (n_compared,), int8
            How they are moved in ``entries(released, move=...)``.
        """
        part = slice(None, None, math.ceil(len(released) / n))
        return self.coordinates[part], released[part], signs(0, len(released))[part]

    def entries(
        self, released: Any, offset: float = 0.0, scale: float = 1.0, move: float = 0.0
    ) -> Any:
        """Randomised values less an offset, over a scale, as sums are fastest.

        Parameters
        ----------
        released : ndarray of shape (n_entries,)
        offset, scale : float
        move : float
            Added first, with a sign that is random.
        """
        if move:
            by = released.dtype.type(move)
            released = released + by * signs(0, len(released))
        # In place, then back: nothing else is as large.
        released -= offset
        released /= scale
        found = self._entries(released)
        released *= scale
        released += offset
        return found

    def _entries(self, values: NDArray[np.floating]) -> SparseEntries | DenseEntries:
        if self.where.dtype != bool:
            return SparseEntries(self.where, values, self.shape)
        if values.size < _LEAST_DENSITY * self.where.size:
            return SparseEntries(self.coordinates, values, self.shape)
        tensor = np.zeros(self.shape, dtype=values.dtype)
        tensor[self.where] = values
        return DenseEntries(tensor, self.where)


def signs(first: int, last: int) -> NDArray[np.int8]:
    """Signs at random, fixed for every place among all entries: those of some places.

    Parameters
    ----------
    first, last : int

    Returns
    -------
    signs : ndarray of shape (last - first,), int8
    """
    blocks = range(first // _BLOCK, math.ceil(last / _BLOCK))
    drawn = [
        np.random.default_rng((0, b)).integers(0, 2, _BLOCK, np.int8) for b in blocks
    ]
    begin = first - blocks.start * _BLOCK
    return (2 * np.concatenate(drawn) - 1)[begin : begin + last - first]


def side_features(
    declared: Any, shape: Sequence[int], mode: int
) -> NDArray[np.float64]:
    """Declared features of the rows of a mode, centred and scaled; last, zeros.

    Raises
    ------
    ValueError
        If features are of another mode, of another size, or not finite.
    """
    declared = declared or {}
    if not isinstance(declared, dict):
        if len(declared) != len(shape):
            raise ValueError(
                f"side_information must have one item for each of {len(shape)} "
                f"modes, got {len(declared)}."
            )
        declared = {k: rows for k, rows in enumerate(declared) if rows is not None}
    declared = dict(declared)
    rows = np.zeros((shape[mode], 0))
    if mode in declared:
        rows = np.asarray(declared.pop(mode), dtype=float)
        if rows.ndim != 2 or len(rows) != shape[mode]:
            raise ValueError(
                f"side_information of mode {mode} must have shape "
                f"({shape[mode]}, n_features), got {rows.shape}."
            )
        if not np.all(np.isfinite(rows)):
            raise ValueError("side_information must be finite.")
    if declared:
        raise ValueError(
            f"side_information serves the rows of mode {mode} here, got features "
            f"of {list(declared)}."
        )
    rows = rows / np.maximum(np.abs(rows).max(axis=0, initial=0.0), 1e-300)
    rows -= rows.mean(axis=0)
    # Of unit variance, but for rare ones: no row stands far out.
    scale = np.maximum(rows.std(axis=0), np.ptp(rows, axis=0) / _LARGEST_FEATURE)
    rows /= np.where(scale > 0, scale, 1.0)
    return np.append(rows, np.zeros((1, rows.shape[1])), axis=0)
