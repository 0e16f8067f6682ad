#!/usr/bin/env python3
"""Draw the imports between the parts of the package: doc/images/architecture.png.

    python doc/make_architecture.py

A part is a subpackage or a top-level module. The arrows are read from the code, and
those that follow from others are left out. The picture's metadata lists what it shows;
tests/doc/test_architecture.py compares the list with the code.
"""

import ast
import io
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent / "sktensordp"
PICTURE = Path(__file__).parent / "images" / "architecture.png"
# What each part does, and the column in which it is drawn. The row follows from the
# imports: a part is drawn above all that it imports.
PARTS = {
    "plotting": (4, "displays"),
    "model_selection": (2, "expected errors,\nprivate searches"),
    "papers": (1, "the five papers\nas printed"),
    "encoding": (1, "task-aware encoders"),
    "recommend": (2, "tables with ids"),
    "completion": (2, "private CP and\nTucker models"),
    "moments": (2.78, "components of\npeople's tensors"),
    "counts": (3.52, "tables of counts"),
    "measure": (0, "exact sums\nwith noise"),
    "mechanisms": (1, "noise for samples"),
    "_client": (2, "base class of clients"),
    "_noise_only": (1.26, "what is nothing\nbut noise"),
    "datasets": (0, "data to download\nor generate"),
    "base": (2, "the gate of\nevery release"),
    "io": (0, "files without code"),
    "audit": (4, "lower bounds\non epsilon"),
    "ids": (3, "what users pass,\none by one"),
    "_show_versions": (4, "for reports\nof errors"),
    "tensor": (0.12, "tensor mathematics,\nno privacy"),
    "noise": (1, "exact samplers"),
    "privacy": (2, "guarantees, budgets,\naccounting"),
}
HELPERS = {
    "_validation": "checks of input",
    "_random": "random streams",
    "_build": "hash of the code",
    "_sklearn_compat": "private names\nof scikit-learn",
    "_dask": "lazy arrays",
    "_docstrings": "shared texts",
    "_extras": "optional packages",
    "_json": "JSON from others",
    "_waiting": "signs of life",
    "exceptions": "errors, warnings",
}
# `sktensordp.completion` offers the names of `recommend`, too: imported on first use.
BACK_UP = "completion", "recommend"
BLUE, GREY, INK = "#dce9f7", "#ececec", "#1f2933"
WIDTH, HEIGHT, ACROSS = 0.9, 0.58, 1.3


def part_of(path):
    """The part that a file belongs to; "" for the package's own ``__init__``."""
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "" if part == "__init__" else part


def imported_by(path):
    """Parts that a file imports anywhere in its code, without its own."""
    package = ["sktensordp", *path.relative_to(ROOT).parent.parts]
    modules = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules += [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else []
            start += node.module.split(".") if node.module else []
            modules += [[*start, alias.name] for alias in node.names]
    found = {module[1] for module in modules if module[0] == "sktensordp"}
    return found - {part_of(path)}


def read_imports():
    """Return, for each part, the set of parts that it imports."""
    imports = {}
    for path in ROOT.rglob("*.py"):
        imports.setdefault(part_of(path), set()).update(imported_by(path))
    del imports[""]
    imports[BACK_UP[0]].discard(BACK_UP[1])
    return {part: imports[part] & imports.keys() for part in sorted(imports)}


def reachable(imports):
    """Return, for each part, all parts that it imports itself or through others."""
    below = {}
    for part in TopologicalSorter(imports).static_order():
        below[part] = imports[part].union(*(below[other] for other in imports[part]))
    return below


def helpers_of(imports):
    """Modules, not subpackages, that import no other part: every part may use them."""
    is_package = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    return {part for part in imports if not imports[part] and part not in is_package}


def arrows_of(imports):
    """Imports between the parts that are not helpers, without those that follow.

    An import follows from others if it can be left out and each part still reaches
    the same parts.
    """
    helpers, below = helpers_of(imports), reachable(imports)
    for part in sorted(imports.keys() - helpers):
        direct = imports[part] - helpers
        implied = set().union(*(below[other] for other in direct))
        yield from ((part, other) for other in sorted(direct - implied))


def described(imports):
    """Text of the picture's metadata: helpers, then one arrow a line."""
    lines = [f"helpers: {' '.join(sorted(helpers_of(imports)))}"]
    lines += (f"{part} -> {other}" for part, other in arrows_of(imports))
    return "\n".join(lines)


def rows_of(arrows):
    """The row of each part: one above the highest that it imports, from 0."""
    imports = {part: {b for a, b in arrows if a == part} for part in PARTS}
    rows = {}
    for part in TopologicalSorter(imports).static_order():
        rows[part] = 1 + max((rows[other] for other in imports[part]), default=-1)
    return rows


def ends_of(arrows, centres):
    """Where each arrow begins and ends: x below its first part, x above its second.

    The arrows of one edge of a box are spread over it, in the order of the parts that
    they lead to. An arrow that is alone at an edge is drawn upright if the box is wide
    enough.
    """
    ends = {}
    for edge in (0, 1):
        for part in PARTS:
            there = [arrow for arrow in arrows if arrow[edge] == part]
            there.sort(key=lambda arrow: centres[arrow[1 - edge]])
            for number, arrow in enumerate(there):
                shift = (number - (len(there) - 1) / 2) * 0.28
                ends[arrow, edge] = centres[part] + shift, len(there) == 1
    for (arrow, edge), (x, is_alone) in list(ends.items()):
        if is_alone:
            other, _ = ends[arrow, 1 - edge]
            ends[arrow, edge] = min(max(other, x - 0.28), x + 0.28), True
    return {arrow: (ends[arrow, 0][0], ends[arrow, 1][0]) for arrow in arrows}


def draw_box(axes, x, y, width, height, **style):
    """Draw a box with round corners around (x, y)."""
    from matplotlib.patches import FancyBboxPatch

    box = FancyBboxPatch(
        (x - width / 2, y - height / 2), width, height, edgecolor=INK,
        boxstyle="round,pad=0,rounding_size=0.04", **style,
    )  # fmt: skip
    axes.add_patch(box)


def draw_part(axes, x, y, width, name, text, colour, fontsize=10):
    """Draw a box with a part's name and what it does."""
    draw_box(axes, x, y, width, HEIGHT, facecolor=colour)
    style = {"ha": "center", "va": "top", "color": INK}
    axes.text(x, y + 0.23, name, fontsize=fontsize, weight="bold", **style)
    axes.text(x, y + 0.05, text, fontsize=8.5, linespacing=1.1, **style)


def draw(imports):
    """Return the figure."""
    from matplotlib.figure import Figure

    arrows = list(arrows_of(imports))
    rows = rows_of(arrows)
    centres = {part: ACROSS * column for part, (column, _) in PARTS.items()}
    figure = Figure(figsize=(9.5, 8.5), layout="constrained")
    axes = figure.subplots()
    for (part, other), (start, end) in ends_of(arrows, centres).items():
        axes.annotate(
            "", (end, rows[other] + HEIGHT / 2), (start, rows[part] - HEIGHT / 2),
            arrowprops={
                "arrowstyle": "-|>", "color": INK, "shrinkA": 0, "shrinkB": 0
            },
        )  # fmt: skip
    for part, (_, text) in PARTS.items():
        draw_part(axes, centres[part], rows[part], WIDTH, part, text, BLUE)
    middle = (min(centres.values()) + max(centres.values())) / 2
    width = max(centres.values()) - min(centres.values()) + WIDTH
    height = 0.26 + 0.66 * -(-len(HELPERS) // 4)
    draw_box(
        axes, middle, -0.52 - height / 2, width, height, facecolor="white",
        linestyle="--",
    )  # fmt: skip
    axes.text(
        middle, -0.65, "Helpers: any part may import them. Their arrows are left out.",
        ha="center", va="center", fontsize=9, color=INK,
    )  # fmt: skip
    for number, (part, text) in enumerate(HELPERS.items()):
        row, column = divmod(number, 4)
        x, y = middle + (column - 1.5) * width / 4, -1.12 - 0.66 * row
        draw_part(axes, x, y, width / 4 - 0.06, part, text, GREY)
    axes.set(
        xlim=(middle - width / 2 - 0.03, middle + width / 2 + 0.03),
        ylim=(-0.55 - height, max(rows.values()) + HEIGHT / 2 + 0.03),
    )
    axes.set_axis_off()
    return figure


def main():
    """Write the picture, in few colours so that the file is small."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    imports = read_imports()
    buffer, text = io.BytesIO(), PngInfo()
    draw(imports).savefig(buffer, dpi=100)
    text.add_text("Description", described(imports))
    picture = Image.open(buffer).convert("RGB").quantize(32)
    picture.save(PICTURE, optimize=True, pnginfo=text)


if __name__ == "__main__":
    main()
