"""The domain of the values: what is known before any value is read."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._random import BLOCK
from .._validation import check_bounds, check_level_prior, check_levels
from ..ids import in_order_of

# Most levels that one table randomises.
LARGEST_TABLE = 32


def declared_domain(
    value_bounds: Iterable[float] | None,
    levels: ArrayLike | None,
    level_prior: ArrayLike | None = None,
) -> "Domain | None":
    """The domain that the parameters of a completion declare, or None.

    Raises
    ------
    ValueError
        If they contradict each other or make no sense.
    """
    scale = None if levels is None else check_levels(levels)
    prior = None
    if level_prior is not None:
        if scale is None:
            raise ValueError("level_prior needs levels: declare them too.")
        if len(scale) > LARGEST_TABLE:
            raise ValueError(
                f"level_prior needs at most {LARGEST_TABLE} levels, got {len(scale)}. "
                "Leave level_prior=None."
            )
        assert levels is not None
        level_prior = in_order_of(level_prior, levels, "level_prior", "levels")
        prior = check_level_prior(level_prior, levels)
    if value_bounds is None:
        return None if scale is None else Domain((scale[0], scale[-1]), scale, prior)
    bounds = check_bounds(value_bounds)
    if scale is not None and not bounds[0] <= scale[0] < scale[-1] <= bounds[1]:
        raise ValueError("levels must lie within value_bounds.")
    return Domain(bounds, scale, prior)


@dataclass(frozen=True)
class Domain:
    """Range and levels of the values.

    Parameters
    ----------
    bounds : tuple of (float, float)
        Range to which values are clipped.
    levels : tuple of float, default=None
        Scale to which values are rounded.
    prior : tuple of float, default=None
        Assumed probabilities of the levels.
    is_declared : bool, default=True
        Whether the range was declared or found privately; False if it was read off the
        values.
    spent : float, default=0.0
        Epsilon that a fit spent to find the range and the levels.
    """

    bounds: tuple[float, float]
    levels: tuple[float, ...] | None = None
    prior: tuple[float, ...] | None = field(default=None, compare=False)
    is_declared: bool = field(default=True, compare=False)
    spent: float = field(default=0.0, compare=False)

    @property
    def middle(self) -> float:
        """Middle of the range."""
        return (self.bounds[0] + self.bounds[1]) / 2

    @property
    def scale(self) -> float:
        """Half the width of the range."""
        return (self.bounds[1] - self.bounds[0]) / 2

    def clip(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Clip values to the range and round them to the levels; keep their type."""
        if self.levels is None:
            return np.clip(values, *self.bounds).astype(values.dtype, copy=False)
        return np.array(self.levels)[self.index(values)].astype(values.dtype)

    def index(self, values: NDArray[np.floating]) -> NDArray[np.int64]:
        """Numbers of the levels to which values are rounded."""
        levels = np.array(self.levels)
        cuts = (levels[1:] + levels[:-1]) / 2
        return np.searchsorted(cuts, np.clip(values, *self.bounds))

    def centred(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Clip values, and express them in half ranges around the middle."""
        return (self.clip(values.astype(float)) - self.middle) / self.scale

    @property
    def centred_levels(self) -> NDArray[np.floating] | None:
        """The levels, in half ranges around the middle; None without levels."""
        return None if self.levels is None else self.centred(np.array(self.levels))

    def kept(self, values: NDArray[np.floating]) -> NDArray[Any]:
        """Clip values; return the numbers of their levels, or centre them if none."""
        if self.levels is None:
            return self.centred(values)
        numbers = np.empty(len(values), np.min_scalar_type(len(self.levels) - 1))
        for start in range(0, len(values), BLOCK):
            block = slice(start, start + BLOCK)
            numbers[block] = self.index(values[block].astype(float))
        return numbers

    @property
    def described(self) -> str:
        """The range, and the levels if there are any, for the log."""
        low, high = (f"{end:.12g}" for end in self.bounds)
        if self.levels is None:
            return f"from {low} to {high}"
        return f"{len(self.levels)} levels from {low} to {high}"

    @property
    def rounding(self) -> str:
        """Sentence on rounding that begins a statement; empty without levels.

        It lists up to twelve levels in full.
        """
        if self.levels is None:
            return ""
        names = [f"{level:.12g}" for level in self.levels]
        if len(names) > 12:
            names = [*names[:2], "...", names[-2], names[-1]]
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        return f"Values were rounded to the {len(self.levels)} levels {listed}. "


TO_BE_FOUND = Domain((0.0, 1.0))
"""Stands for the domain that a fit finds; no value is compared with it."""
