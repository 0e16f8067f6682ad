"""What a solver may know before it sees a value."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams
from ..tensor import CPForm, TuckerForm, pattern_features
from ._values import EntryRandomizer

__all__ = ["Problem", "side_features", "signs"]

# Largest difference between two rows of a feature, in its standard deviations.
_LARGEST_FEATURE = 4.0
# Number of signs drawn at once.
_BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class Problem:
    """A tensor to complete, without its values.

    Parameters
    ----------
    observed : Entries
        The observed entries without their values, or an `Observed`, whose values the
        problem does not read.
    values : EntryRandomizer
        The domain of the values, and the randomizer of a single value.
    declared : bool
        Whether the domain was declared; False if it was read off the values.
    epsilon, delta : float
        Budget of one unit; solvers with Gaussian noise use `delta`.
    form : CPForm or TuckerForm
    biases : bool
    smooth_modes : tuple of int
    n_components : int
        Largest number of components of the pattern.
    max_iter : int
    n_threads : int
    side_information : ndarray of shape (shape[1] + 1, n_features), default=None
        Public features of the rows of the second mode; the last row is that of an
        unknown index.
    """

    observed: Any
    values: EntryRandomizer
    declared: bool
    epsilon: float
    delta: float
    form: CPForm | TuckerForm
    biases: bool
    smooth_modes: tuple[int, ...]
    n_components: int
    max_iter: int
    n_threads: int
    side_information: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return self.observed.shape

    @property
    def is_distributed(self) -> bool:
        """Whether the entries are in partitions of Dask collections."""
        return self.observed.is_distributed

    @property
    def rank(self) -> int:
        """Number of CP terms, or the smallest Tucker rank."""
        return self.form.rank

    @property
    def n_entries(self) -> int:
        """Number of observed entries."""
        return self.observed.n_entries

    @cached_property
    def coordinates(self) -> Any:
        """Coordinates of the observed entries."""
        return self.observed.coordinates

    @property
    def one_row(self) -> Any:
        """Coordinates of all entries in a tensor of a single row."""
        return np.zeros((self.n_entries, 1), dtype=np.int32)

    @cached_property
    def counts(self) -> list[NDArray[np.int64]]:
        """Number of entries in each row, mode by mode; public."""
        return [
            np.bincount(column, minlength=size)
            for column, size in zip(self.coordinates.T, self.shape, strict=True)
        ]

    @cached_property
    def features(self) -> NDArray[np.floating] | None:
        """Public features of the rows of the second mode, or None.

        They are the declared features and those of the pattern of the coordinates.
        """
        blocks = [] if self.side_information is None else [self.side_information]
        if self.biases and self.n_components:
            blocks.append(self._pattern())
        return np.concatenate(blocks, axis=1) if blocks else None

    def _pattern(self) -> NDArray[np.floating]:
        return pattern_features(self.coordinates, self.shape, self.n_components)

    @property
    def scale(self) -> float:
        """Half the range of the values."""
        low, high = self.values.bounds
        return (high - low) / 2

    def with_budget(self, epsilon: float, values: EntryRandomizer) -> "Problem":
        """The same problem with another epsilon and its randomizer."""
        problem = replace(self, epsilon=epsilon, values=values)
        if self.n_entries:
            # These depend on the coordinates alone: compute them once.
            vars(problem).update(coordinates=self.coordinates, features=self.features)
        return problem

    def randomized(self, values: Any, streams: NoiseStreams | None) -> Any:
        """Randomise each value independently; without streams, take them as given."""
        if streams is None or math.isinf(self.epsilon):
            return self.values.taken(values)
        return self.values.randomize(values, streams)

    def mean(self, released: Any) -> float:
        """Mean of the randomised values."""
        return released.mean(dtype=float)

    def compared(self, released: Any, n: int) -> tuple[NDArray[Any], ...]:
        """About `n` of the randomised values, equally spaced among all of them.

        Returns
        -------
        coordinates : ndarray of shape (n_compared, n_modes), int
        values : ndarray of shape (n_compared,)
        signs : ndarray of shape (n_compared,), int8
            Signs with which ``entries(released, move=...)`` moves these values.
        """
        chosen = slice(None, None, math.ceil(len(released) / n))
        moved = signs(0, len(released))
        return self.coordinates[chosen], released[chosen], moved[chosen]

    def entries(
        self,
        released: Any,
        offset: float,
        scale: float,
        move: float = 0.0,
        grouped: Any = None,
    ) -> Any:
        """Shifted and scaled values at their coordinates, stored for fast sums.

        Parameters
        ----------
        released : ndarray of shape (n_entries,)
            Randomised values.
        offset, scale : float
            Each value less `offset` is divided by `scale`.
        move : float, default=0.0
            Added to each value first, with a random sign.
        grouped : object, default=None
            What this method returned before for the same values, if it is not needed
            any more. It is changed and returned, so that no value is grouped twice.

        Returns
        -------
        entries : SparseEntries or DenseEntries
        """
        if grouped is None:
            grouped = self.observed.with_values(
                released, signs(0, len(released)), self.values.outputs_of(released)
            )
        grouped.rescale(offset, scale, move)
        return grouped


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


def side_features(
    declared: Any, shape: Sequence[int], mode: int
) -> NDArray[np.float64]:
    """Centre and scale the declared features of a mode's rows; add a row of zeros.

    Parameters
    ----------
    declared : dict, list, tuple or None
        See `side_information` of a completion.
    shape : sequence of int
    mode : int
        The only mode that may have features.

    Returns
    -------
    features : ndarray of shape (shape[mode] + 1, n_features)
        The last row, of zeros, is that of an unknown index.

    Raises
    ------
    ValueError
        If features are of another mode, of another size, or not finite.
    """
    declared = declared or {}
    if not isinstance(declared, dict):
        if len(declared) != len(shape):
            raise ValueError(
                f"side_information must have one item for each of the {len(shape)} "
                f"modes, got {len(declared)}."
            )
        declared = {k: rows for k, rows in enumerate(declared) if rows is not None}
    declared = dict(declared)
    rows = np.zeros((shape[mode], 0))
    if mode in declared:
        try:
            rows = np.asarray(declared.pop(mode), dtype=float)
        except (TypeError, ValueError):
            # Raised outside of the handler, whose error may show data.
            rows = np.array(np.nan)
        if rows.ndim == 0:
            raise ValueError(
                f"side_information of mode {mode} must be an array of numbers."
            )
        if rows.ndim != 2 or len(rows) != shape[mode]:
            raise ValueError(
                f"side_information of mode {mode} must have shape "
                f"({shape[mode]}, n_features), got {rows.shape}."
            )
        if not np.all(np.isfinite(rows)):
            raise ValueError("side_information must be finite.")
    if declared:
        raise ValueError(
            f"side_information must describe the rows of mode {mode} alone; leave out "
            f"the features of modes {list(declared)}."
        )
    rows = rows / np.maximum(np.abs(rows).max(axis=0, initial=0.0), 1e-300)
    rows -= rows.mean(axis=0)
    # Unit variance, but less for rare features, so that no row is an outlier.
    scale = np.maximum(rows.std(axis=0), np.ptp(rows, axis=0) / _LARGEST_FEATURE)
    rows /= np.where(scale > 0, scale, 1.0)
    return np.append(rows, np.zeros((1, rows.shape[1])), axis=0)
