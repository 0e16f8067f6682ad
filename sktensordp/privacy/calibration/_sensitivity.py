"""The declared domain of a sample: what it is clipped to, and how far two values lie.

Neighbouring inputs differ in one sample, wholly: both values are anywhere in the
domain. Clipping does not depend on what is known to be in the data, and its rounding
errors are part of the sensitivity.
"""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._gaussian import water_filling

__all__ = ["SensitivitySet", "declared_set"]

# Rounding of a sum of squares of n terms, relative to it, is below (n + 8) epsilon.
_EPS = float(np.finfo(float).eps)
# Scaled values beyond this are moved to it, so that no square overflows.
_HUGE = 1e140
# Lengths outside [_LEAST, 1 / _LEAST] are refused: their squares are no numbers.
_LEAST = 1e-150


@dataclass(frozen=True)
class SensitivitySet:
    """A box, a ball, their intersection, or the sensitivity that a caller vouches for.

    Attributes
    ----------
    n_entries : int
        Entries of a sample.
    low, high : float, ndarray of shape (n_entries,) or None
        The box.
    norm_bound : float or None
        Radius of the ball around 0.
    sensitivity : float or None
        Of the caller's query, in the norm that the mechanism names; nothing is
        clipped.
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
    def width(self) -> Any:
        """Width of every entry's range: a number where all are equal."""
        assert self.low is not None
        assert self.high is not None
        return self.high - self.low

    @property
    def widths(self) -> NDArray[np.float64]:
        """Widths of all entries' ranges, shape (n_entries,)."""
        return np.broadcast_to(np.asarray(self.width, dtype=float), (self.n_entries,))

    @property
    def diameter(self) -> float:
        """Bound on the Euclidean distance that is declared as such; else infinity."""
        if self.sensitivity is not None:
            return self.sensitivity
        if self.norm_bound is not None:
            return 2 * self.norm_bound * (1 + (self.n_entries + 8) * _EPS)
        return math.inf

    @property
    def l2(self) -> float:
        """L2 sensitivity: the largest Euclidean distance of two values."""
        if not self.has_box:
            return self.diameter
        box = math.sqrt(np.sum(self.width**2) * self._repeats)
        return min(box, self.diameter)

    @property
    def l1(self) -> float:
        """L1 sensitivity; the caller's own, where the caller vouches for one."""
        if self.sensitivity is not None:
            return self.sensitivity
        if not self.has_box:
            return self.diameter * math.sqrt(self.n_entries)
        if self.norm_bound is None:
            return float(np.sum(self.width) * self._repeats)
        # The differences that are largest in L1 are min(r_i, c).
        ones = np.ones(self.n_entries)
        return float(np.sqrt(water_filling(self.widths, ones, self.diameter)).sum())

    @property
    def radius(self) -> float:
        """Bound on the Euclidean norm of a value; infinity where there is none."""
        found = math.inf
        if self.has_box:
            assert self.low is not None
            assert self.high is not None
            largest = np.maximum(np.abs(self.low), np.abs(self.high))
            found = math.sqrt(np.sum(largest**2) * self._repeats)
        if self.norm_bound is not None:
            found = min(found, self.norm_bound)
        return found

    @property
    def _repeats(self) -> int:
        return self.n_entries if self.low is None or np.ndim(self.low) == 0 else 1

    def segments(self, samples: NDArray[np.floating]) -> NDArray[np.float64] | None:
        """How much of the way from the anchor to each sample lies in the ball.

        The anchor is the point of the box nearest to 0. A sample that its box keeps
        out of the ball is moved towards it.

        Parameters
        ----------
        samples : ndarray of shape (n, n_entries)

        Returns
        -------
        fractions : ndarray of shape (n, 1) or None
            In [0, 1]; None where there is no ball.
        """
        if self.norm_bound is None:
            return None
        squares = np.zeros(len(samples))
        products = np.zeros(len(samples))
        for start in range(0, self.n_entries, 2**16):
            columns = slice(start, start + 2**16)
            # Block by block, so that no copy of the data is made.
            rows = max(1, 2**16 // min(self.n_entries, 2**16))
            for first in range(0, len(samples), rows):
                block = slice(first, first + rows)
                anchor, away = self._from_anchor(samples[block, columns], columns)
                squares[block] += np.einsum("ij,ij->i", away, away)
                products[block] += np.broadcast_to(anchor, away.shape[1:]) @ away.T
        anchor = self._anchor(slice(None)) / self.norm_bound
        room = 1.0 - np.sum(np.square(anchor)) * (self._repeats if self.has_box else 0)
        # The root of |anchor + t away|^2 = 1, products >= 0 being the nearest's.
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
        """Entries of some samples, moved into the domain.

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
            anchor, away = self._from_anchor(block, columns, out)
            away *= fractions
            if np.any(anchor):
                away += anchor
            away *= self.norm_bound
            block = out = away
        if self.has_box:
            low, high = _columns_of(self.low, columns), _columns_of(self.high, columns)
            return np.clip(block, low, high, dtype=float, out=out)
        return np.positive(block, dtype=float, out=out)

    def _anchor(self, columns: slice) -> Any:
        if not self.has_box:
            return 0.0
        low, high = _columns_of(self.low, columns), _columns_of(self.high, columns)
        return np.clip(0.0, low, high)

    def _from_anchor(
        self,
        block: NDArray[np.floating],
        columns: slice,
        out: NDArray[np.float64] | None = None,
    ) -> tuple[Any, NDArray[np.float64]]:
        """Anchor and the way from it, in units of the radius."""
        assert self.norm_bound is not None
        anchor = self._anchor(columns) / self.norm_bound
        if self.has_box:
            low, high = _columns_of(self.low, columns), _columns_of(self.high, columns)
            block = out = np.clip(block, low, high, dtype=float, out=out)
        with np.errstate(over="ignore"):
            away = np.divide(block, self.norm_bound, dtype=float, out=out)
        if not self.has_box:
            np.clip(away, -_HUGE, _HUGE, out=away)
        if np.any(anchor):
            away -= anchor
        return anchor, away


def _columns_of(bound: Any, columns: slice) -> Any:
    return bound if np.ndim(bound) == 0 else bound[columns]


def declared_set(
    shape: tuple[int, ...],
    *,
    bounds: Any = None,
    norm_bound: float | None = None,
    sensitivity: float | None = None,
) -> SensitivitySet | None:
    """Sensitivity set of the declared parameters, or None where none is declared.

    Parameters
    ----------
    shape : tuple of int
        Of a sample.
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
        and `norm_bound` have no point in common, or if `sensitivity` is given beside
        one of them.
    """
    size = math.prod(shape)
    for name, value in (("norm_bound", norm_bound), ("sensitivity", sensitivity)):
        if value is not None:
            _check_length(value, name)
    if sensitivity is not None:
        if bounds is not None or norm_bound is not None:
            raise ValueError(
                "sensitivity says that nothing is clipped; declare it alone, or "
                "bounds and norm_bound."
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
    # No range reaches beyond the ball.
    low, high = np.maximum(low, -radius), np.minimum(high, radius)
    if np.ndim(low) == 0:
        low, high = float(low), float(high)
    found = SensitivitySet(size, low, high, radius)
    nearest = np.sum(np.square(found._anchor(slice(None)) / radius)) * found._repeats
    if nearest > 1 or not np.all(low < high):
        raise ValueError("bounds and norm_bound have no point in common.")
    return found


def _check_length(value: float, name: str) -> None:
    """Lengths whose squares neither overflow nor vanish."""
    if not (isinstance(value, Real) and _LEAST <= value <= 1 / _LEAST):
        raise ValueError(
            f"{name} must be a finite number > 0, from {_LEAST:g} to {1 / _LEAST:g}, "
            f"got {value!r}."
        )


def _check_box(bounds: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
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
        raise ValueError("bounds must be finite with low < high in every entry.")
    if np.min(width) < _LEAST or np.max(largest) > 1 / _LEAST:
        raise ValueError(
            f"bounds must be within {1 / _LEAST:g}, and at least {_LEAST:g} apart."
        )
    return low, high
