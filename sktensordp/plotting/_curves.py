"""What displays with a curve for every label have in common."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..privacy._numbers import shown
from ._style import STYLES, new_axes, place_legend

__all__ = ["CurvesDisplay"]

# More ticks could not be read.
_MOST_TICKS = 10


class CurvesDisplay:
    """Base of displays that draw one curve for every label.

    A subclass draws one of them in `_draw_curve`, and what else there is between
    `_draw_curves` and `_draw_legend`.
    """

    ax_: Any
    figure_: Any
    lines_: list[Any]
    _has_own_axes: bool

    def _draw_curves(self, labels: Iterable[str], ax: Any) -> None:
        """Take axes, or make new ones, and draw the curves."""
        self._has_own_axes = ax is None
        self.ax_ = new_axes() if ax is None else ax
        self.figure_, self.lines_ = self.ax_.figure, []
        for number, label in enumerate(labels):
            drawn = self._draw_curve(label, *STYLES[number % len(STYLES)])
            self.lines_.append(drawn)

    def _draw_curve(self, label: str, line: str, marker: str) -> Any:
        """Draw one curve, and return it."""
        raise NotImplementedError

    def _label_epsilons(self, epsilons: Sequence[ArrayLike]) -> None:
        """A logarithmic axis with a tick for every finite epsilon, if they are few."""
        self.ax_.set_xscale("log")
        self.ax_.set_xlabel("epsilon (more privacy to the left)")
        ticks = np.unique(np.concatenate([*map(np.ravel, epsilons), []]))
        ticks = ticks[np.isfinite(ticks)]
        if len(ticks) <= _MOST_TICKS:
            self.ax_.set_xticks(ticks, labels=[shown(tick) for tick in ticks])
            self.ax_.xaxis.set_minor_locator(_no_ticks())

    def _draw_legend(self, handles: Sequence[Any], **options: Any) -> None:
        """Draw the legend where it covers nothing, or least."""
        place_legend(self.ax_, handles, own=self._has_own_axes, **options)


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()
