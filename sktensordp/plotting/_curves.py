"""Base classes of displays that draw one curve per label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ..privacy._numbers import shown
from ._claims import legend_text
from ._style import STYLES, claimed_style, new_axes, place_legend, shade, wrapped

# Lower end of a logarithmic axis of delta.
LEAST_DELTA = 1e-12
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

    def _draw_legend(self, handles: Sequence[Any], **options: Any) -> None:
        """Draw the legend where it covers nothing, or as little as possible."""
        place_legend(self.ax_, handles, may_grow=self._has_new_figure, **options)


class EpsilonsDisplay(CurvesDisplay):
    """Base of displays over epsilon, some of whose curves stand at mere claims."""

    true_epsilons: dict[str, ArrayLike]

    def _line_style(self, label: str, line: str) -> dict[str, Any]:
        is_claim = label in self.true_epsilons
        return claimed_style(self.ax_) if is_claim else {"linestyle": line}

    def _draw_level(self, value: float, line: Any, **options: Any) -> Any:
        """Draw a horizontal line, in grey."""
        grey = shade(self.ax_, 0.65)
        return self.ax_.axhline(
            value, color=grey, linestyle=line, linewidth=1.2, **options
        )

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


class GuaranteesDisplay(CurvesDisplay):
    """Base of displays of whole guarantees: true curves, and claims beside them.

    A subclass says which points a true curve has, and which a claim.
    """

    claimed: dict[str, tuple[float, float]]
    notes: dict[str, str]
    claims_: dict[str, Any]
    # By kind of picture: labels of the axes, and of the line that reveals nothing.
    _labels: ClassVar[dict[str, tuple[str, str, str]]]
    _kind: str

    def _truth(self, label: str) -> tuple[ArrayLike, ArrayLike]:
        """Points of a true curve."""
        raise NotImplementedError

    def _claim(
        self, epsilon: float, delta: float
    ) -> tuple[tuple[ArrayLike, ArrayLike], dict[str, Any]]:
        """Points of a claim, and what their style has of its own."""
        raise NotImplementedError

    def _nothing(self) -> tuple[ArrayLike, ArrayLike]:
        """Points of the line of a release that reveals nothing."""
        raise NotImplementedError

    def _draw(self, labels: Iterable[str], kind: str, ax: Any) -> Self:
        if kind not in self._labels:
            kinds = " or ".join(map(repr, self._labels))
            raise ValueError(f"kind must be {kinds}, got {kind!r}.")
        self._kind, self.claims_ = kind, {}
        self._draw_curves(labels, ax)
        handles = []
        for label, line in zip(labels, self.lines_, strict=True):
            handles += [line, *([self.claims_[label]] if label in self.claims_ else [])]
        x_label, y_label, nothing = self._labels[kind]
        self.ax_.set(xlabel=x_label, ylabel=y_label)
        if nothing:
            style = {"color": shade(self.ax_, 0.4), "linewidth": 1, "label": nothing}
            handles += self.ax_.plot(*self._nothing(), **style)
        else:
            self.ax_.set(yscale="log", ylim=(LEAST_DELTA, 2.0))
        self._draw_legend(handles)
        return self

    def _draw_curve(self, label: str, line: str, marker: str) -> Any:
        """Draw the true curve and the claim, if any; return the true curve."""
        text = wrapped(legend_text(label, self.notes, {}))
        style: dict[str, Any] = {
            "marker": marker,
            "markevery": (0.03 * (len(self.lines_) % 4), 0.12),
        }
        (curve,) = self.ax_.plot(
            *self._truth(label), linestyle=line, label=text, **style
        )
        if label in self.claimed:
            epsilon, delta = self.claimed[label]
            text = wrapped(f"{label}: claimed ({shown(epsilon)}, {shown(delta)})")
            points, own = self._claim(epsilon, delta)
            style |= claimed_style(self.ax_) | own
            (self.claims_[label],) = self.ax_.plot(*points, label=text, **style)
        return curve
