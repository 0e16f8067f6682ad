"""Base classes of displays that draw one curve per label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..privacy._numbers import shown
from ._claims import OfCurve, at_claim, difference_notes, is_true, true_epsilon
from ._style import STYLES, claimed_style, new_axes, place_legend, shade

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Labels of more ticks would overlap.
_MOST_TICKS = 10


class CurvesDisplay:
    """Base of displays that draw one curve per label.

    A subclass draws one curve in `_draw_curve`. Its `plot` calls `_draw_curves`, draws
    everything else, and calls `_draw_legend` last.
    """

    notes: Mapping[str, str] | None
    ax_: Any
    figure_: Any
    lines_: list[Any]
    _has_new_figure: bool

    def _draw_curves(self, labels: Iterable[str], ax: Axes | None) -> None:
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

    def _text(self, label: str) -> str:
        """Legend text of a curve: its label and its note."""
        note = (self.notes or {}).get(label)
        return f"{label} ({note})" if note else label

    def _draw_legend(self, handles: Sequence[Any], **options: Any) -> None:
        """Draw the legend where it covers nothing, or as little as possible."""
        place_legend(self.ax_, handles, may_grow=self._has_new_figure, **options)


class EpsilonsDisplay(CurvesDisplay):
    """Base of displays over epsilon, some of whose curves stand at mere claims."""

    curves: Mapping[str, Any]
    true_epsilons: Mapping[str, ArrayLike] | None

    def _with_guarantees(self, guarantees: Mapping[str, OfCurve]) -> Self:
        """Note the true epsilons of mere claims, and how the guarantees differ."""
        self.true_epsilons = {
            label: np.array(list(map(true_epsilon, of_curve)))
            for label, of_curve in guarantees.items()
            if not all(map(is_true, self._epsilons(label).tolist(), of_curve))
        }
        self.notes = difference_notes(guarantees)
        return self

    def _epsilons(self, label: str) -> NDArray[np.float64]:
        """Epsilons at which a curve is drawn."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        for label, true in (self.true_epsilons or {}).items():
            if label not in self.curves or np.size(true) != len(self._epsilons(label)):
                raise ValueError(
                    f"true_epsilons[{label!r}] must hold one number for each point of "
                    f"the curve with that label. The curves are {list(self.curves)}."
                )

    def _text(self, label: str) -> str:
        """Legend text of a curve, with its true epsilons if it is drawn at a claim."""
        text = super()._text(label)
        if label not in (truths := self.true_epsilons or {}):
            return text
        epsilons, true = self._epsilons(label), np.asarray(truths[label], float)
        order = np.argsort(epsilons)[: np.count_nonzero(np.isfinite(epsilons))]
        return f"{text}: {at_claim(true.ravel()[order])}"

    def _style(self, label: str, line: str) -> dict[str, Any]:
        """Style of the line of a curve; that of a claim tells that it is none."""
        is_claim = label in (self.true_epsilons or {})
        return claimed_style(self.ax_) if is_claim else {"linestyle": line}

    def _draw_level(self, value: float, line: Any, **options: Any) -> Any:
        """Draw a horizontal line, in grey."""
        grey = shade(self.ax_, 0.65)
        return self.ax_.axhline(
            value, color=grey, linestyle=line, linewidth=1.2, **options
        )

    def _label_epsilons(self) -> None:
        """Make epsilon logarithmic, with a tick at every finite epsilon if few."""
        from matplotlib.ticker import NullLocator

        self.ax_.set_xscale("log")
        self.ax_.set_xlabel("epsilon (more privacy to the left)")
        ticks = np.unique(np.concatenate([*map(self._epsilons, self.curves), []]))
        ticks = ticks[np.isfinite(ticks)]
        if len(ticks) <= _MOST_TICKS:
            self.ax_.set_xticks(ticks, labels=[shown(tick) for tick in ticks])
            self.ax_.xaxis.set_minor_locator(NullLocator())
