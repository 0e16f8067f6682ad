"""Pictures of the pages on a light and on a dark ground, both transparent.

Sphinx-Gallery calls `transparent` and `in_order`, which conf.py names.
"""

from pathlib import Path

IMAGES = Path(__file__).parent / "images"
# The ends of names of files, and the colour of text and lines. Both colours of a curve
# are readable on both grounds.
GROUNDS = {"": "#1f2933", "_dark": "#e8ecf1"}
CURVES = "#2f86d6", "#e0701a", "#2ca25f", "#a86fd0", "#8a94a0"


def draw(name, drawing, suffix="svg", **options):
    """Write the figure that `drawing(ink)` returns, for both grounds.

    Parameters
    ----------
    name : str
        The name of the file, without what tells the ground, and without suffix.

    drawing : callable
        Returns a figure; gets the colour of text and lines.

    suffix : str
        The format.

    **options
        For `savefig`.
    """
    import matplotlib as mpl
    from cycler import cycler

    for end, ink in GROUNDS.items():
        style = {
            "text.color": ink, "axes.labelcolor": ink, "axes.edgecolor": ink,
            "xtick.color": ink, "ytick.color": ink, "grid.color": ink,
            "axes.spines.top": False, "axes.spines.right": False,
            "axes.titlesize": 12, "font.size": 11, "legend.frameon": False,
            "axes.prop_cycle": cycler(color=CURVES), "svg.hashsalt": "sktensordp",
            "axes.titlelocation": "left", "lines.linewidth": 2,
        }  # fmt: skip
        metadata = {"Date": None} if suffix == "svg" else {"Software": None}
        with mpl.rc_context(style):
            drawing(ink).savefig(
                IMAGES / f"{name}{end}.{suffix}", transparent=True, metadata=metadata,
                **options,
            )  # fmt: skip


def transparent(gallery_conf, name):
    """Let the examples of the gallery draw without a ground; CSS turns black to white.

    The legends stay as they are, because they cover curves.
    """
    import matplotlib as mpl

    mpl.rcParams["savefig.transparent"] = True


def in_order(path):
    """Sort the cards of examples in the order in which the index names them."""
    index = (Path(__file__).parent.parent / "examples" / "index.rst").read_text()
    return index.find(Path(path).stem)
