"""What a solver may know before it sees a value."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tensor import CPForm, Pattern, TuckerForm
from ..tensor._average_row import average_row
from ._domain import Domain

# Largest difference between two rows of a feature, in its standard deviations.
_LARGEST_FEATURE = 4.0


@dataclass(frozen=True, eq=False)
class Problem:
    """A tensor to complete, without its values.

    Parameters
    ----------
    entries : Entries, PartitionedEntries or PartySums
        The observed entries, whose values the problem does not read.
    domain : Domain
        Range and levels of the values.
    epsilon, delta : float
        Budget of one unit; solvers with Gaussian noise use `delta`.
    form : CPForm or TuckerForm
    biases : bool
    smooth_modes : tuple of int
    n_components : int or None
        Largest number of components of the pattern; None for as many as stand out.
    max_iter : int
    n_threads : int
    side_information : ndarray of shape (shape[1], n_features)
        Public features of the rows of the second mode.
    has_public_shape : bool, default=True
        False if the shape was read off coordinates that are private.
    """

    entries: Any
    domain: Domain
    epsilon: float
    delta: float
    form: CPForm | TuckerForm
    biases: bool
    smooth_modes: tuple[int, ...]
    n_components: int | None
    max_iter: int
    n_threads: int
    side_information: NDArray[np.float64]
    has_public_shape: bool = True

    @property
    def void_for(self) -> float | None:
        """The epsilon, if the domain or the shape was read off the data, or None.

        No finite epsilon holds then.
        """
        is_public = self.domain.is_declared and self.has_public_shape
        return None if is_public else float(self.epsilon)

    @cached_property
    def coordinates(self) -> NDArray[np.integer]:
        """Coordinates of the entries, if they are in memory."""
        return self.entries.coordinates

    @cached_property
    def features(self) -> NDArray[np.float64]:
        """Public features of the rows of the second mode and, last, of an unknown row.

        They are the declared features and those of the pattern of the coordinates. An
        unknown row has those of the average entry.
        """
        if not self._has_pattern:
            return self._declared
        return np.concatenate([self._declared, self._pattern.features], axis=1)

    @cached_property
    def few_features(self) -> NDArray[np.float64]:
        """The same with the components of the pattern alone that stand out clearly.

        Every feature of a release of sums gets noise, and the core of a Tucker grows
        with every feature.
        """
        if not self._has_pattern:
            return self._declared
        return np.concatenate([self._declared, self._pattern.clear_features], axis=1)

    @property
    def _declared(self) -> NDArray[np.float64]:
        """The declared features of the rows and, last, of the average entry."""
        declared = self.side_information
        if not declared.shape[1]:
            return np.zeros((len(declared) + 1, 0))
        average = average_row(declared, self.entries.counts[1])
        return np.append(declared, average[np.newaxis], axis=0)

    @property
    def _has_pattern(self) -> bool:
        return self.biases and self.n_components != 0

    @cached_property
    def _pattern(self) -> Pattern:
        """The pattern of the coordinates, if the model takes features of it."""
        return self.entries.pattern(self.n_components)

    def with_budget(self, epsilon: float) -> "Problem":
        """The same problem with another epsilon."""
        problem = replace(self, epsilon=epsilon)
        if self.entries.n_entries and self._has_pattern:
            # It depends on the coordinates alone: compute it once.
            vars(problem)["_pattern"] = self._pattern
        return problem


def side_features(
    declared: Any, shape: Sequence[int], mode: int
) -> NDArray[np.float64]:
    """Centre and scale the declared features of a mode's rows.

    Parameters
    ----------
    declared : dict, list, tuple or None
        See `side_information` of a completion.
    shape : sequence of int
    mode : int
        The only mode that may have features.

    Returns
    -------
    features : ndarray of shape (shape[mode], n_features)

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
    return rows / np.where(scale > 0, scale, 1.0)
