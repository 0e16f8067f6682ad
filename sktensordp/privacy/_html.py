"""What notebooks show: a guarantee in one coloured line, and its curve."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ._numbers import shown
from ._risk import trade_off

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# Translucent backgrounds, under text in the colour of the page, suit light and dark
# pages.
_HOLDS = "#0a8a8f", "rgba(10, 138, 143, 0.14)"
_NOTHING = "#d1490c", "rgba(209, 73, 12, 0.14)"
_SIZE = 160
_N_POINTS = 24
# Epsilon up to which the curve of a guarantee without a finite epsilon is read.
_FAR = 20.0


def coloured(text: str, *, holds: bool) -> str:
    """One line, in the colour of a guarantee that holds or of one that does not."""
    border, ground = _HOLDS if holds else _NOTHING
    return (
        f'<div style="border-left: 4px solid {border}; background: {ground}; '
        f'padding: 4px 10px; margin: 4px 0">{html.escape(text)}</div>'
    )


def rows(cells: Iterable[tuple[str, object]]) -> str:
    """A table with a heading in each row."""
    body = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in cells
    )
    return f"<table>{body}</table>"


def releases_table(
    lines: Iterable[tuple[int, int | None, float, str]],
    unprotected: Iterable[str],
    caption: str = "",
) -> str:
    """A table of releases, and a list of what they leave out.

    Parameters
    ----------
    lines : iterable of (int, int or None, float, str)
        Depth, times, epsilon and name of every release; a heading has times None.
    unprotected : iterable of str
    caption : str, default=""
        In HTML.
    """
    body = "".join(
        f"<tr><td>{'&emsp;' * depth}{html.escape(name)}</td>"
        f"<td>{'' if count is None else count}</td>"
        f"<td>{'' if count is None else shown(epsilon)}</td></tr>"
        for depth, count, epsilon, name in lines
    )
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in unprotected)
    return (
        f"<table>{caption}<tr><th>release</th><th>times</th><th>epsilon</th></tr>"
        f"{body}</table>" + (f"<p>Not protected:</p><ul>{items}</ul>" if items else "")
    )


@lru_cache(maxsize=64)
def curve(event: DpEvent, epsilon: float) -> str:
    """What an attacker can achieve, as a picture that opens on a click.

    Every point of the curve of deltas bounds the true positive rates by two lines; see
    ``_risk.py``. The least of a few such lines is drawn.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        What was done.
    epsilon : float
        Points of the curve of deltas are computed up to this epsilon.

    Returns
    -------
    text : str
        HTML, in which the picture is an SVG. Empty if nothing is protected.
    """
    from .accounting._curves import event_delta

    epsilons = np.linspace(0.0, epsilon if math.isfinite(epsilon) else _FAR, _N_POINTS)
    deltas = np.array([event_delta(event, one) for one in epsilons.tolist()])
    if deltas[0] >= 1:
        return ""
    fpr = np.linspace(0.0, 1.0, 4 * _N_POINTS + 1) ** 2
    tpr = 1 - trade_off(epsilons, deltas, fpr)
    right = math.ceil(500 * (1 + deltas[0])) / 10
    points = " ".join(
        f"{_SIZE * x:.1f},{_SIZE * (1 - y):.1f}" for x, y in zip(fpr, tpr, strict=True)
    )
    said = (
        f"Between two neighbouring data sets at even odds, no attacker guesses right "
        f"more than {right:g}% of the time (50% without the release)."
    )
    text = f'fill="currentColor" stroke="none" x="{_SIZE / 2:g}" text-anchor="middle"'
    return (
        f"<details><summary>What an attacker can achieve</summary><p>{said}</p>"
        f'<svg role="img" aria-label="{said}" width="{_SIZE + 40}" '
        f'height="{_SIZE + 40}" viewBox="-30 -10 {_SIZE + 40} {_SIZE + 40}" '
        f'font-size="12" fill="none" stroke="currentColor">'
        f'<rect width="{_SIZE}" height="{_SIZE}" stroke-opacity="0.4"/>'
        f'<line x1="0" y1="{_SIZE}" x2="{_SIZE}" y2="0" stroke-dasharray="4"/>'
        f'<polyline points="{points}" stroke="{_HOLDS[0]}" stroke-width="3"/>'
        f'<text {text} y="{_SIZE + 20}">false positives</text>'
        f'<text {text} y="-10" transform="translate(0 {_SIZE}) rotate(-90)">'
        f"true positives</text></svg></details>"
    )
