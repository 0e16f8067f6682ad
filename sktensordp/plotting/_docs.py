"""Texts that the docstrings of the displays share."""

from .._docstrings import with_texts

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
