"""How curves differ without colour, and where their legend stands."""

import textwrap
from collections.abc import Sequence
from typing import Any

__all__ = [
    "CLAIMED",
    "REFERENCE_STYLES",
    "STYLES",
    "new_axes",
    "place_legend",
    "wrapped",
]

_LINES = ["-", "--", "-.", ":"]
# As many as have no divisor in common with the lines: all pairs differ.
_MARKERS = "os^DvP<*>Xhdp"
STYLES = [
    (_LINES[i % len(_LINES)], _MARKERS[i % len(_MARKERS)])
    for i in range(len(_LINES) * len(_MARKERS))
]
REFERENCE_STYLES = [
    (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (8, 3)), (0, (1, 4)),
    (0, (8, 2, 1, 2, 1, 2)), (0, (5, 5)), (0, (12, 2, 2, 2)),
]  # fmt: skip
# Of what is claimed and does not hold: thin, grey and hollow, as no other curve is.
CLAIMED = {
    "color": "0.35",
    "linestyle": (0, (2, 3)),
    "linewidth": 0.9,
    "markerfacecolor": "white",
}
# Characters in a line of a legend.
_LONGEST_LINE, _SHORTER_LINE = 44, 30
# Inches above and below axes, for a title, ticks and labels.
_DECORATIONS = 1.0


def new_axes(**options: Any) -> Any:
    """Axes of a figure of their own, with a layout that makes room for what is beside.

    Parameters
    ----------
    **options
        Of ``plt.subplots``.

    Returns
    -------
    ax : matplotlib Axes
    """
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained", **options)[1]


def wrapped(text: str) -> str:
    """A text in lines that fit into a legend."""
    return "\n".join(textwrap.fill(part, _LONGEST_LINE) for part in text.split("\n"))


def place_legend(ax: Any, handles: Sequence[Any], *, own: bool, **options: Any) -> None:
    """Draw the legend where it covers nothing, or least.

    If it would cover something, it stands beside the axes in a figure of their own,
    which grows by as much. Others' figures stay as they are; there it gets smaller.

    Parameters
    ----------
    ax : matplotlib Axes
    handles : list of artist
    own : bool
        Whether the figure is one of `new_axes`.
    **options
        Of the legend.
    """
    box = _drawn_legend(ax, handles=handles, **options)
    if not _covers(ax, box):
        return
    if not own:
        labels = [handle.get_label().replace("\n", " ") for handle in handles]
        labels = [textwrap.fill(label, _SHORTER_LINE) for label in labels]
        ax.legend(handles, labels, fontsize="small", **options)
        return
    ax.get_legend().remove()
    figure, (wide, high) = ax.figure, box.size / ax.figure.dpi
    width, height = figure.get_size_inches()
    figure.set_size_inches(width + wide, max(height, high + _DECORATIONS))
    # As below: the layout is made before the legend is there.
    figure.draw_without_rendering()
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), **options)


def _drawn_legend(ax: Any, **options: Any) -> Any:
    """Where a legend comes to stand: its box in pixels."""
    legend = ax.legend(**options)
    # Where it is higher than the axes, a layout would squeeze them.
    legend.set_in_layout(False)
    ax.get_figure(root=True).draw_without_rendering()
    legend.set_in_layout(True)
    return legend.get_window_extent()


def _covers(ax: Any, box: Any) -> bool:
    """Whether a box in pixels lies over a line or the bar of an error."""
    drawn = [(line.get_transform(), line.get_path()) for line in ax.lines]
    for bars in ax.collections:
        drawn += [(bars.get_transform(), path) for path in bars.get_paths()]
    paths = [
        transform.transform_path(path).cleaned(remove_nans=True)
        for transform, path in drawn
    ]
    return any(
        path.intersects_bbox(box, filled=False) or box.count_contains(path.vertices)
        for path in paths
    )
