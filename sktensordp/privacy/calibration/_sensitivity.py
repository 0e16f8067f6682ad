"""The declared domain of a sample: samples are clipped to it, and it has a sensitivity.

Neighbouring inputs differ in one whole sample, whose two values may be anywhere in the
domain. Clipping does not depend on the data, and the sensitivity includes its rounding
errors.
"""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._validation import check_ordered
from ._gaussian import water_filling

# A sum of n squares has a relative rounding error below (n + 8) machine epsilons.
_EPS = float(np.finfo(float).eps)
# Larger scaled values are clipped to this, so that no square overflows.
_LARGEST_SCALED = 1e140
# Lengths outside [_SHORTEST, 1 / _SHORTEST] are refused: their squares over- or
# underflow.
_SHORTEST = 1e-150


@dataclass(frozen=True)
class SensitivitySet:
    """A box, a ball, their intersection, or the sensitivity that a caller vouches for.

    Attributes
    ----------
    n_entries : int
        Number of entries of a sample.
    low, high : float, ndarray of shape (n_entries,) or None
        Ends of the box.
    norm_bound : float or None
        Radius of the ball around 0.
    sensitivity : float or None
        Sensitivity of the caller's query, in the norm that the mechanism documents;
        nothing is clipped.
    """

    n_entries: int
    low: float | NDArray[np.float64] | None = None
    high: float | NDArray[np.float64] | None = None
    norm_bound: float | None = None
    sensitivity: float | None = None

    @property
    def has_box(self) -> bool:
        """Whether every entry has a range."""
        return self.low is not None

    @property
    def ends(self) -> tuple[float | NDArray[np.float64], float | NDArray[np.float64]]:
        """Ends of every entry's range; infinite if there is none."""
        if self.low is None or self.high is None:
            return -math.inf, math.inf
        return self.low, self.high

    @property
    def centre(self) -> float | NDArray[np.float64]:
        """Middle of every entry's range; 0 if there is none."""
        low, high = self.ends
        return (low + high) / 2 if self.has_box else 0.0

    @property
    def width(self) -> Any:
        """Width of every entry's range; a number if the box has one range for all."""
        low, high = self.ends
        return high - low

    @property
    def widths(self) -> NDArray[np.float64]:
        """Width of every entry's range, of shape (n_entries,)."""
        return np.broadcast_to(np.asarray(self.width, dtype=float), (self.n_entries,))

    @property
    def diameter(self) -> float:
        """Declared bound on the Euclidean distance of two values; else infinity."""
        if self.sensitivity is not None:
            return self.sensitivity
        if self.norm_bound is not None:
            return 2 * self.norm_bound * (1 + (self.n_entries + 8) * _EPS)
        return math.inf

    @property
    def l2(self) -> float:
        """L2 sensitivity: the largest Euclidean distance between two values."""
        if not self.has_box:
            return self.diameter
        box = math.sqrt(np.sum(self.width**2) * self._repeats)
        return min(box, self.diameter)

    @property
    def l1(self) -> float:
        """L1 sensitivity, or the sensitivity that the caller vouches for."""
        if self.sensitivity is not None:
            return self.sensitivity
        if not self.has_box:
            return self.diameter * math.sqrt(self.n_entries)
        if self.norm_bound is None:
            return float(np.sum(self.width) * self._repeats)
        # The differences with the largest L1 norm are min(r_i, c).
        ones = np.ones(self.n_entries)
        return float(np.sqrt(water_filling(self.widths, ones, self.diameter)).sum())

    @property
    def radius(self) -> float:
        """Bound on the Euclidean norm of a value; infinite if there is none."""
        radius = math.inf
        if self.has_box:
            low, high = self.ends
            largest = np.maximum(np.abs(low), np.abs(high))
            radius = math.sqrt(np.sum(largest**2) * self._repeats)
        if self.norm_bound is not None:
            radius = min(radius, self.norm_bound)
        return radius

    @property
    def _repeats(self) -> int:
        """Number of entries that share each number of the box."""
        return self.n_entries if self.low is None or np.ndim(self.low) == 0 else 1

    def segments(self, samples: NDArray[np.floating]) -> NDArray[np.float64] | None:
        """Fraction of the way from the anchor to each sample that lies in the ball.

        The anchor is the point of the box that is nearest to 0. A sample that is
        outside the ball even after clipping to the box moves towards the anchor.

        Parameters
        ----------
        samples : ndarray of shape (n, n_entries)

        Returns
        -------
        fractions : ndarray of shape (n, 1) or None
            In [0, 1]; None if there is no ball.
        """
        if self.norm_bound is None:
            return None
        squares = np.zeros(len(samples))
        products = np.zeros(len(samples))
        for start in range(0, self.n_entries, 2**16):
            columns = slice(start, start + 2**16)
            # In chunks, so that the data are not copied as a whole.
            n_rows = max(1, 2**16 // min(self.n_entries, 2**16))
            for first in range(0, len(samples), n_rows):
                rows = slice(first, first + n_rows)
                anchor, offset = self._offset_from_anchor(
                    samples[rows, columns], columns
                )
                squares[rows] += np.einsum("ij,ij->i", offset, offset)
                products[rows] += np.broadcast_to(anchor, offset.shape[1:]) @ offset.T
        anchor = self._anchor(slice(None)) / self.norm_bound
        room = 1.0 - np.sum(np.square(anchor)) * (self._repeats if self.has_box else 0)
        # The root of |anchor + t offset|^2 = 1, where products >= 0 because the anchor
        # is nearest to 0.
        slope = products + np.sqrt(products**2 + squares * room)
        fractions = room / np.maximum(slope, np.finfo(float).tiny)
        return np.clip(fractions, 0.0, 1.0)[:, np.newaxis]

    def clip(
        self,
        block: NDArray[np.floating],
        columns: slice,
        fractions: NDArray[np.float64] | None,
        out: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Entries of some samples, clipped to the domain.

        Parameters
        ----------
        block : ndarray of shape (n, n_columns)
            The entries `columns` of the samples.
        columns : slice
        fractions : ndarray of shape (n, 1) or None
            From `segments`, for the same samples.
        out : ndarray of shape (n, n_columns), float64, default=None
            Where to write; a new array by default.

        Returns
        -------
        clipped : ndarray of shape (n, n_columns), float64
        """
        if fractions is not None:
            assert self.norm_bound is not None
            anchor, clipped = self._offset_from_anchor(block, columns, out)
            clipped *= fractions
            if np.any(anchor):
                clipped += anchor
            clipped *= self.norm_bound
            block = out = clipped
        if self.has_box:
            low, high = _columns_of(self.low, columns), _columns_of(self.high, columns)
            return np.clip(block, low, high, dtype=float, out=out)
        return np.positive(block, dtype=float, out=out)

    def _anchor(self, columns: slice) -> Any:
        """The point of the box that is nearest to 0."""
        if not self.has_box:
            return 0.0
        low, high = _columns_of(self.low, columns), _columns_of(self.high, columns)
        return np.clip(0.0, low, high)

    def _offset_from_anchor(
        self,
        block: NDArray[np.floating],
        columns: slice,
        out: NDArray[np.float64] | None = None,
    ) -> tuple[Any, NDArray[np.float64]]:
        """Anchor, and offset of the samples from it, in units of the radius."""
        assert self.norm_bound is not None
        anchor = self._anchor(columns) / self.norm_bound
        if self.has_box:
            low, high = _columns_of(self.low, columns), _columns_of(self.high, columns)
            block = out = np.clip(block, low, high, dtype=float, out=out)
        with np.errstate(over="ignore"):
            offset = np.divide(block, self.norm_bound, dtype=float, out=out)
        if not self.has_box:
            np.clip(offset, -_LARGEST_SCALED, _LARGEST_SCALED, out=offset)
        if np.any(anchor):
            offset -= anchor
        return anchor, offset


def _columns_of(bound: Any, columns: slice) -> Any:
    return bound if np.ndim(bound) == 0 else bound[columns]


def declared_set(
    shape: tuple[int, ...],
    *,
    bounds: object = None,
    norm_bound: float | None = None,
    sensitivity: float | None = None,
) -> SensitivitySet | None:
    """Sensitivity set of the declared parameters, or None if none is declared.

    Parameters
    ----------
    shape : tuple of int
        Shape of a sample.
    bounds : tuple of (low, high), default=None
        Numbers or arrays that broadcast to `shape`.
    norm_bound, sensitivity : float, default=None

    Returns
    -------
    declared : SensitivitySet or None

    Raises
    ------
    ValueError
        If the bounds are out of order, not finite or of the wrong shape, if `bounds`
        and `norm_bound` have no point in common, or if `sensitivity` is given together
        with one of them.
    """
    size = math.prod(shape)
    for name, value in (("norm_bound", norm_bound), ("sensitivity", sensitivity)):
        if value is not None:
            _check_length(value, name)
    if sensitivity is not None:
        if bounds is not None or norm_bound is not None:
            raise ValueError(
                "sensitivity means that nothing is clipped: declare it alone, or "
                "declare bounds, norm_bound or both."
            )
        return SensitivitySet(size, sensitivity=float(sensitivity))
    if bounds is None:
        if norm_bound is None:
            return None
        return SensitivitySet(size, norm_bound=float(norm_bound))
    low, high = _check_box(bounds, shape)
    box = SensitivitySet(size, low, high)
    if norm_bound is None or norm_bound >= box.radius:
        return box
    radius = float(norm_bound)
    # Clip the ranges of the box to the ball.
    low, high = np.maximum(low, -radius), np.minimum(high, radius)
    if np.ndim(low) == 0:
        low, high = float(low), float(high)
    both = SensitivitySet(size, low, high, radius)
    nearest = np.sum(np.square(both._anchor(slice(None)) / radius)) * both._repeats
    if nearest > 1 or not np.all(low < high):
        raise ValueError("bounds and norm_bound have no point in common.")
    return both


def _check_length(value: float, name: str) -> None:
    """Refuse a length whose square would overflow or underflow."""
    if not (isinstance(value, Real) and _SHORTEST <= value <= 1 / _SHORTEST):
        raise ValueError(
            f"{name} must be a finite number > 0, from {_SHORTEST:g} to "
            f"{1 / _SHORTEST:g}, got {value!r}."
        )


def _check_box(bounds: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Low and high ends of the ranges: two numbers, or two arrays of one dimension."""
    check_ordered(bounds, "bounds")
    if isinstance(bounds, list) and any(isinstance(pair, tuple) for pair in bounds):
        # Two pairs (low, high), for two columns, would be taken for all lows and all
        # highs.
        raise ValueError(
            "bounds must be (lows, highs), not one pair for each column. Pass "
            "bounds=tuple(zip(*pairs))."
        )
    try:
        low, high = bounds
        low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "bounds must be a pair (low, high) of numbers or arrays."
        ) from error
    if low.ndim == high.ndim == 0:
        low, high = float(low), float(high)
    else:
        try:
            low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        except ValueError as error:
            raise ValueError(
                f"bounds must broadcast to the samples' shape {shape}, got shapes "
                f"{low.shape} and {high.shape}."
            ) from error
        low, high = low.ravel(), high.ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        width, largest = np.subtract(high, low), np.maximum(np.abs(low), np.abs(high))
    if not np.all(np.isfinite(width)) or not np.all(low < high):
        # A range that was read off private data is never the wrong way round, so the
        # message shows declared numbers.
        is_swapped = isinstance(low, float) and low > high
        got = f", got ({low:g}, {high:g})" if is_swapped else ""
        raise ValueError(f"bounds must be finite with low < high in every entry{got}.")
    if np.min(width) < _SHORTEST or np.max(largest) > 1 / _SHORTEST:
        raise ValueError(
            f"bounds must be within {1 / _SHORTEST:g}, and low and high at least "
            f"{_SHORTEST:g} apart."
        )
    return low, high
