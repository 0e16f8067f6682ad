"""Shared by displays: styles that differ even without colour, legends, and texts."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._docstrings import with_texts
from .._extras import imported

# The numbers of lines and markers have no common divisor, so that all pairs differ.
STYLES = list(zip(["-", "--", "-.", ":"] * 13, "os^DvP<*>Xhdp" * 4, strict=True))
_DASHES = [(1, 1), (5, 1), (3, 1, 1, 1), (8, 3), (1, 4), (8, 2, 1, 2, 1, 2)]
_DASHES += [(5, 5), (12, 2, 2, 2)]
REFERENCE_STYLES = [(0, dashes) for dashes in _DASHES]
# Line style of a claim that does not hold; no other curve has it.
CLAIMED_LINE = (0, (2, 3))
# Characters in a line of a legend, unless the legend must be small.
_LONGEST_LINE = 44

_CLAIMED = """\
claimed : dict of str to (float, float), default=None
    Claims that differ from the truth: epsilon and delta, by label. They are drawn
    thin, dotted and grey with hollow markers, beside the true curve."""

_NOTES = """\
notes : dict of str to str, default=None
    Additional text in the legend, by label."""

_AXES = """\
ax_ : matplotlib Axes
    Axes of the drawing.
figure_ : matplotlib Figure
    Figure of the axes."""

with_shared_text = with_texts({"claimed": _CLAIMED, "notes": _NOTES, "axes": _AXES})


def new_axes(**options: object) -> Any:
    """Axes in a new figure whose layout makes room for a legend beside them.

    Parameters
    ----------
    **options
        Passed to ``plt.subplots``.

    Returns
    -------
    ax : matplotlib Axes
    """
    plt = imported("matplotlib.pyplot", "plot")
    return plt.subplots(layout="constrained", **options)[1]


def shade(ax: Any, strength: float) -> str:
    """A colour between the background of axes and their text, light style or dark.

    Parameters
    ----------
    ax : matplotlib Axes
    strength : float
        0 is the colour of the background, 1 that of the text.

    Returns
    -------
    color : str
    """
    colors = imported("matplotlib.colors", "plot")
    background, text = ax.get_facecolor(), ax.xaxis.label.get_color()
    if colors.to_rgba(background)[-1] == 0:
        background = ax.get_figure(root=True).get_facecolor()
    ends = np.array([colors.to_rgb(background), colors.to_rgb(text)])
    red, green, blue = [1 - strength, strength] @ ends
    return colors.to_hex((red, green, blue))


def claimed_style(ax: object) -> dict[str, Any]:
    """Style of a claim that does not hold: thin, dotted and grey, with hollow markers.

    Parameters
    ----------
    ax : matplotlib Axes
        Axes on which to draw it.

    Returns
    -------
    style : dict
        Options of ``ax.plot``.
    """
    return {
        "color": shade(ax, 0.65),
        "linestyle": CLAIMED_LINE,
        "linewidth": 0.9,
        "markerfacecolor": shade(ax, 0.0),
    }


def wrapped(text: str, width: int = _LONGEST_LINE) -> str:
    """The text, broken into lines that fit into a legend or another narrow place."""
    return "\n".join(textwrap.fill(line, width) for line in text.split("\n"))


def place_legend(
    ax: Any, handles: Sequence[Any], *, may_grow: bool, **options: Any
) -> None:
    """Draw the legend where it covers nothing, or as little as possible.

    A legend that would cover a curve is moved beside the axes if the figure may grow
    to make room for it. Otherwise the figure keeps its size, and the legend gets a
    smaller font.

    Parameters
    ----------
    ax : matplotlib Axes
    handles : list of artist
        Artists to list, which have labels.
    may_grow : bool
        Whether the figure was made by `new_axes`, and may be enlarged.
    **options
        Passed to ``ax.legend``.
    """
    legend = ax.legend(handles=handles, **options)
    # If the legend is higher than the axes, the layout would squeeze them.
    legend.set_in_layout(False)
    ax.get_figure(root=True).draw_without_rendering()
    legend.set_in_layout(True)
    box = legend.get_window_extent()
    if not _covers(ax, box):
        return
    if not may_grow:
        labels = [textwrap.fill(handle.get_label(), 30) for handle in handles]
        ax.legend(handles, labels, fontsize="small", **options)
        return
    legend.remove()
    figure, size = ax.figure, box.size / ax.figure.dpi
    width, height = figure.get_size_inches()
    # An inch above and below the axes is for a title, ticks and labels.
    figure.set_size_inches(width + size[0], max(height, size[1] + 1.0))
    # The layout is computed before the legend exists, so that it cannot squeeze the
    # axes.
    figure.draw_without_rendering()
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), **options)


def _covers(ax: Any, box: Any) -> bool:
    """Whether a box in pixels covers part of a line or of an error bar."""
    drawn = [(line, line.get_path()) for line in ax.lines]
    drawn += [(bars, path) for bars in ax.collections for path in bars.get_paths()]
    for artist, path in drawn:
        path = artist.get_transform().transform_path(path).cleaned(remove_nans=True)
        if path.intersects_bbox(box, filled=False) or box.count_contains(path.vertices):
            return True
    return False
