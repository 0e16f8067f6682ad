#!/usr/bin/env python3
"""Draw the mark of the library: doc/images/logo.svg, logo_dark.svg and favicon.svg.

    python doc/make_logo.py

A tensor of 2 x 2 x 2 cells, and noise: some of its cells are of another colour, and a
few more fly off. The favicon has no room for those.
"""

from make_diagram import IMAGES

# The colours of the three faces that one sees, and of the noise.
LIGHT = {"top": "#8dbdf0", "left": "#2f86d6", "right": "#1c5a99", "noise": "#e0701a"}
DARK = {"top": "#c2dcf8", "left": "#74b0f0", "right": "#3f83cc", "noise": "#ff9a4d"}
# Half the width and half the height of a cell's top, and how high a cell is.
ACROSS, DOWN, HIGH = 14, 8, 16
# Two edges of a cell, by the face on which it is.
EDGES = {
    "top": ((ACROSS, DOWN), (-ACROSS, DOWN)),
    "left": ((ACROSS, DOWN), (0, HIGH)),
    "right": ((ACROSS, -DOWN), (0, HIGH)),
}
NOISY = {("top", 1, 0), ("left", 0, 1), ("right", 1, 0)}
FLYING = [(61, 7, 0.55), (54, -2, 0.4), (67, -4, 0.3)]


def cell(x, y, edges, fill):
    """A cell of a face, a little smaller than its place, as a polygon."""
    (a, b), (c, d) = edges
    corners = []
    for s, t in ((0.06, 0.06), (0.94, 0.06), (0.94, 0.94), (0.06, 0.94)):
        corners.append(f"{x + s * a + t * c:.1f},{y + s * b + t * d:.1f}")
    return f'<polygon points="{" ".join(corners)}" fill="{fill}"/>'


def drawn(colors, *, flying=True):
    """The mark as SVG."""
    starts = {
        "top": (2 * ACROSS, 0),
        "left": (0, 2 * DOWN),
        "right": (2 * ACROSS, 4 * DOWN),
    }
    shapes = []
    for face, (x, y) in starts.items():
        (a, b), (c, d) = edges = EDGES[face]
        for i in range(2):
            for j in range(2):
                kind = "noise" if (face, i, j) in NOISY else face
                at = x + i * a + j * c, y + i * b + j * d
                shapes.append(cell(*at, edges, colors[kind]))
    for x, y, size in FLYING if flying else []:
        edges = [(size * a, size * b) for a, b in EDGES["top"]]
        shapes.append(cell(x, y, edges, colors["noise"]))
    box = "0 -8 76 76" if flying else "-4 0 64 64"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}">\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def main():
    """Write the three files."""
    (IMAGES / "logo.svg").write_text(drawn(LIGHT))
    (IMAGES / "logo_dark.svg").write_text(drawn(DARK))
    (IMAGES / "favicon.svg").write_text(drawn(LIGHT, flying=False))


if __name__ == "__main__":
    main()
