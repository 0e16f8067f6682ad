"""Picture of a table of counts with its errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from .._extras import imported
from ..counts._labels import labels, titles
from ._style import new_axes, shade, with_shared_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More names below an axis would overlap.
_MOST_TICKS = 24


@with_shared_text
class CountsDisplay:
    """A table of counts: bars with intervals, or a heat map.

    Cells that are smaller than their margin of error are crossed out: they may be 0.

    Parameters
    ----------
    counts : array-like of shape (n,) or (n_rows, n_columns)
        Released counts.
    std : float
        Standard error of each of them.
    names : sequence of str
        Names of the axes of the table.
    categories : list of sequence
        Names of the categories, for each axis.
    level : float, default=0.95
        How many of the intervals contain the true count.

    Attributes
    ----------
    margin : float
        Half the length of an interval.
    $axes

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.counts import TensorCounts
    >>> from sktensordp.plotting import CountsDisplay
    >>> trips = np.random.default_rng(0).integers([5, 24], size=(5000, 2))
    >>> counts = TensorCounts(shape=(5, 24), random_state=0).fit(trips)
    >>> display = CountsDisplay.from_estimator(counts, (0, 1), names=["place", "hour"])
    >>> display.ax_.get_ylabel(), display.ax_.get_xlabel()
    ('place', 'hour')
    """

    def __init__(
        self,
        counts: ArrayLike,
        std: float,
        *,
        names: Sequence[str],
        categories: Sequence[Any],
        level: float = 0.95,
    ) -> None:
        self.counts, self.std = np.asarray(counts, dtype=float), float(std)
        self.names, self.categories, self.level = names, categories, level
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level}.")
        if self.counts.ndim not in (1, 2):
            raise ValueError(
                f"A picture needs a table of one mode or two, got {self.counts.ndim}."
            )
        sizes = tuple(map(len, categories))
        if self.counts.shape != sizes or len(names) != len(sizes):
            raise ValueError(
                f"names and categories must fit a table of shape {self.counts.shape}."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        modes: int | Sequence[int],
        *,
        level: float = 0.95,
        categories: Any = None,
        names: Sequence[str] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw a table of fitted counts.

        Parameters
        ----------
        estimator : TensorCounts
            Fitted.
        modes : sequence of int
            One mode for bars; two for a heat map, rows first.
        level : float, default=0.95
            How many of the intervals contain the true count.
        categories, names : default=None
            As in `TensorCounts.table`.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : CountsDisplay
        """
        counts, std = estimator.marginal(modes, return_std=True)
        order = np.atleast_1d(np.asarray(modes, dtype=int)).tolist()
        named = titles(estimator, names, categories)
        display = cls(
            counts,
            std,
            names=[named[i] for i in order],
            categories=[labels(estimator, i, categories) for i in order],
            level=level,
        )
        return display.plot(ax)

    @property
    def margin(self) -> float:
        """Half the length of an interval."""
        return float(-ndtri((1 - self.level) / 2)) * self.std

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the table.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : CountsDisplay
            The same object.
        """
        self.ax_ = new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        (self._draw_bars if self.counts.ndim == 1 else self._draw_map)()
        return self

    def _draw_bars(self) -> None:
        ax, places = self.ax_, np.arange(self.counts.size)
        ax.bar(places, self.counts, color="C0")
        ax.errorbar(
            places,
            self.counts,
            yerr=self.margin,
            linestyle="none",
            color=shade(ax, 0.8),
            capsize=2,
        )
        below = self.counts <= self.margin
        ax.plot(places[below], 0 * places[below], "x", color=shade(ax, 0.8))
        _name_ticks(ax.xaxis, self.categories[0])
        ax.set(xlabel=self.names[0], ylabel="count")

    def _draw_map(self) -> None:
        plt = imported("matplotlib.pyplot", "plot")
        ax = self.ax_
        image = ax.imshow(np.maximum(self.counts, 0.0), aspect="auto", cmap="cividis")
        rows, columns = np.nonzero(self.counts <= self.margin)
        ax.plot(columns, rows, "x", color="white", markersize=4, linestyle="none")
        _name_ticks(ax.yaxis, self.categories[0])
        _name_ticks(ax.xaxis, self.categories[1])
        ax.set(ylabel=self.names[0], xlabel=self.names[1])
        plt.colorbar(image, ax=ax, label=f"count (± {self.margin:,.0f})")


def _name_ticks(axis: Any, names: Sequence[Any]) -> None:
    """A tick for every category, or for some of many."""
    step = -(-len(names) // _MOST_TICKS)
    places = range(0, len(names), step)
    axis.set_ticks(list(places), labels=[str(names[k]) for k in places])
