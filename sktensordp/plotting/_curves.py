"""Base class of displays that draw one curve per label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..privacy._numbers import shown
from ._style import STYLES, new_axes, place_legend

# Labels of more ticks would overlap.
_MOST_TICKS = 10


class CurvesDisplay:
    """Base of displays that draw one curve per label.

    A subclass draws one curve in `_draw_curve`. Its `plot` calls `_draw_curves`, draws
    everything else, and calls `_draw_legend` last.
    """

    ax_: Any
    figure_: Any
    lines_: list[Any]
    _has_new_figure: bool

    def _draw_curves(self, labels: Iterable[str], ax: Any) -> None:
        """Draw the curves on the given axes, or on new ones."""
        self._has_new_figure = ax is None
        self.ax_ = new_axes() if ax is None else ax
        self.figure_, self.lines_ = self.ax_.figure, []
        for number, label in enumerate(labels):
            curve = self._draw_curve(label, *STYLES[number % len(STYLES)])
            self.lines_.append(curve)

    def _draw_curve(self, label: str, line: str, marker: str) -> Any:
        """Draw one curve, and return its artist."""
        raise NotImplementedError

    def _label_epsilons(self, epsilons: Sequence[ArrayLike]) -> None:
        """Make epsilon logarithmic, with a tick at every finite epsilon if few."""
        from matplotlib.ticker import NullLocator

        self.ax_.set_xscale("log")
        self.ax_.set_xlabel("epsilon (more privacy to the left)")
        ticks = np.unique(np.concatenate([*map(np.ravel, epsilons), []]))
        ticks = ticks[np.isfinite(ticks)]
        if len(ticks) <= _MOST_TICKS:
            self.ax_.set_xticks(ticks, labels=[shown(tick) for tick in ticks])
            self.ax_.xaxis.set_minor_locator(NullLocator())

    def _draw_legend(self, handles: Sequence[Any], **options: Any) -> None:
        """Draw the legend where it covers nothing, or as little as possible."""
        place_legend(self.ax_, handles, may_grow=self._has_new_figure, **options)
