"""Public units of samples: an offset and a scale of every cell, both free of data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._sums import LARGEST_CELL


@dataclass(frozen=True, eq=False)
class Units:
    """Samples are fitted less an offset and divided by a scale, each by itself.

    Attributes
    ----------
    offset, scale : ndarray of shape (n_cells,)
    are_given : bool
        If not, samples are fitted as they are.
    """

    offset: NDArray[np.float64]
    scale: NDArray[np.float64]
    are_given: bool

    @classmethod
    def of(cls, offset: Any, scale: Any, shape: tuple[int, ...]) -> Self:
        """The units that parameters give to samples of a shape.

        Raises
        ------
        ValueError
            If they do not broadcast to the shape, or are no finite numbers, or if a
            scale is not positive.
        """
        cells = _cells("offset", offset, 0.0, shape), _cells("scale", scale, 1.0, shape)
        return cls(*cells, are_given=not (offset is None and scale is None))

    def __call__(self, rows: NDArray[np.floating]) -> NDArray[np.floating]:
        """Samples in these units; what is too large for a number is the largest."""
        if not self.are_given:
            return rows
        with np.errstate(over="ignore"):
            cells = (rows.astype(float) - self.offset) / self.scale
        return np.clip(cells, -LARGEST_CELL, LARGEST_CELL, out=cells)

    def outside(self, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """A mean in these units, as users know samples."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.offset + self.scale * mean


def written(given: Any) -> Any:
    """An offset or a scale as values of JSON, unchecked: the fit checks them."""
    return None if given is None else np.asarray(given, dtype=object).tolist()


def _cells(
    name: str, given: Any, neutral: float, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    try:
        cells = np.asarray(neutral if given is None else given, dtype=float)
        cells = np.broadcast_to(cells, shape).reshape(-1)
    except (TypeError, ValueError):
        cells = np.full(1, np.nan)
    if not np.all(np.isfinite(cells)) or (name == "scale" and cells.min() <= 0):
        kind = "finite" if name == "offset" else "finite and positive"
        raise ValueError(
            f"{name} must be {kind}: a number, or an array that broadcasts to the "
            f"shape {shape} of a sample."
        )
    return cells
