#!/usr/bin/env python3
"""Draw the idea of the library: doc/images/idea.svg, and others for dark and phones.

    python doc/make_diagram.py

People's data get noise, a model learns from what is left, and others see the
model: a row for each unit that can be protected. All shapes are plain SVG.
"""

from html import escape
from pathlib import Path

IMAGES = Path(__file__).parent / "images"
THEMES = {
    "": {
        "ink": "#1f2933", "faint": "#5f6b7a", "panel": "#f3f5f8", "box": "#dce9f7",
        "edge": "#2a6fbb", "cell": "#c3cfdd", "hidden": "#d9600a", "page": "#ffffff",
    },
    "_dark": {
        "ink": "#e8ecf1", "faint": "#aab4c0", "panel": "#1d232c", "box": "#203a58",
        "edge": "#74b0f0", "cell": "#46525f", "hidden": "#ff9a4d", "page": "#14181e",
    },
}  # fmt: skip
WIDTH, TOP, PANEL, GAP = 900, 46, 148, 12
PHONE, PHONE_PANEL = 360, 244
DATA, NOISE, MODEL, SEEN = 110, 295, 478, 590
# A row: what is protected, how it is asked for, who holds the data, what is hidden in
# the picture of the data, what the noise is added to, and who sees what.
ROWS = [
    (
        "Protect each rating", "the default", "your server", "cell",
        ["on each value,", "or on sums"],
        [
            ("everybody", "the model"),
            ("public", "who rated which film"),
            ("protected", "how anybody rated it"),
        ],
    ),
    (
        "Protect each user", "unit=0", "your server", "row",
        ["on sums over", "all users"],
        [
            ("everybody", "what it learned about films"),
            ("the user", "their own row"),
            ("protected", "everything a user rated"),
        ],
    ),
    (
        "Protect each message before it leaves the phone", "local", "each phone",
        "phone",
        ["on the message", "itself"],
        [
            ("the server", "noisy messages"),
            ("everybody", "the model"),
            ("protected", "what is on the phone"),
        ],
    ),
]  # fmt: skip


class Drawing:
    """Shapes in the colours of a theme."""

    def __init__(self, theme):
        self.theme, self.shapes = theme, []

    def add(self, tag, text=None, **attributes):
        """Add a shape; names of attributes have _ in the place of -."""
        given = "".join(
            f' {name.replace("_", "-")}="{self.theme.get(value, value)}"'
            for name, value in attributes.items()
        )
        end = "/>" if text is None else f">{escape(text)}</{tag}>"
        self.shapes.append(f"<{tag}{given}{end}")

    def text(self, x, y, text, size=15, fill="ink", **attributes):
        """Add a line of text."""
        self.add("text", text, x=x, y=y, font_size=size, fill=fill, **attributes)

    def rectangle(self, x, y, width, height, **attributes):
        """Add a rectangle with round corners."""
        self.add("rect", x=x, y=y, width=width, height=height, **attributes)

    def arrow(self, x, y, length):
        """Add an arrow to the right."""
        end = x + length
        self.add(
            "path", d=f"M{x} {y}H{end - 8}", stroke="ink", stroke_width=2, fill="none"
        )
        self.add("path", d=f"M{end} {y}l-11 -6v12z", fill="ink")

    def person(self, x, y, fill):
        """Add a head and shoulders."""
        self.add("circle", cx=x, cy=y - 6, r=5, fill=fill)
        self.add("path", d=f"M{x - 9} {y + 10}a9 9 0 0 1 18 0z", fill=fill)

    def table(self, x, y, hidden):
        """Add three people and what they rated, with what is hidden in its colour."""
        rated = ["10110", "01101", "11010"]
        for row, cells in enumerate(rated):
            is_hidden = hidden == "row" and row == 1
            self.person(x, y + 27 * row + 9, "hidden" if is_hidden else "faint")
            for column, cell in enumerate(cells):
                one = hidden == "cell" and (row, column) == (1, 2)
                fill = "hidden" if one or is_hidden else "cell"
                self.rectangle(
                    x + 18 + 20 * column, y + 27 * row, 17, 20, rx=3,
                    fill=fill if cell == "1" or is_hidden else "none",
                    stroke=fill, stroke_width=1,
                )  # fmt: skip

    def phones(self, x, y):
        """Add three phones, one of them with its message in colour."""
        for number in range(3):
            fill = "hidden" if number == 1 else "cell"
            left = x + 42 * number
            self.rectangle(
                left, y, 32, 62, rx=6, fill="none", stroke="faint", stroke_width=2
            )
            for line, width in enumerate((20, 14, 20)):
                self.rectangle(left + 6, y + 12 + 13 * line, width, 7, rx=2, fill=fill)

    def noise(self, x, y, lines):
        """Add a box with a jagged line and what gets the noise."""
        self.rectangle(
            x - 68, y - 44, 136, 88, rx=8, fill="box", stroke="edge", stroke_width=1.5
        )
        heights = [0, -9, 6, -14, 11, -4, 13, -12, 5, -7, 9, 0]
        steps = "".join(
            f"L{x - 55 + 10 * n} {y - 25 + height}" for n, height in enumerate(heights)
        )
        self.add(
            "path", d=f"M{x - 55} {y - 25}{steps}", fill="none", stroke="edge",
            stroke_width=2, stroke_linejoin="round",
        )  # fmt: skip
        self.text(x, y + 13, lines[0], 14, text_anchor="middle")
        self.text(x, y + 31, lines[1], 14, text_anchor="middle")

    def model(self, x, y):
        """Add a box that stands for a model: factors and their product."""
        self.rectangle(
            x - 42, y - 44, 84, 88, rx=8, fill="box", stroke="edge", stroke_width=1.5
        )
        self.rectangle(x - 20, y - 24, 8, 32, rx=2, fill="edge")
        self.rectangle(x - 9, y - 35, 32, 8, rx=2, fill="edge")
        self.rectangle(x - 9, y - 24, 32, 32, rx=2, fill="cell")
        self.text(x, y + 31, "model", 14, text_anchor="middle")


def drawn(theme):
    """The picture as SVG."""
    drawing = Drawing(theme)
    height = TOP + len(ROWS) * (PANEL + GAP)
    for x, title in (
        (DATA, "people's data"), (NOISE, "noise"), (MODEL, "model"),
        (SEEN + 140, "who sees what"),
    ):  # fmt: skip
        drawing.text(
            x, 30, title, 17, text_anchor="middle", font_weight="bold", fill="edge"
        )
    for number, (title, how, holder, hidden, lines, seen) in enumerate(ROWS):
        top = TOP + number * (PANEL + GAP)
        middle = top + 88
        drawing.rectangle(0, top, WIDTH, PANEL, rx=10, fill="panel")
        drawing.text(16, top + 25, title, 16, font_weight="bold")
        drawing.text(WIDTH - 16, top + 25, how, 14, fill="faint", text_anchor="end")
        drawing.rectangle(
            12, top + 36, 362, 104, rx=10, fill="none", stroke="faint",
            stroke_width=1.5, stroke_dasharray="5 4",
        )  # fmt: skip
        drawing.text(24, top + 133, f"on {holder}", 13, fill="faint")
        if hidden == "phone":
            drawing.phones(DATA - 62, top + 49)
        else:
            drawing.table(DATA - 58, top + 44, hidden)
        drawing.arrow(DATA + 72, middle, 40)
        drawing.noise(NOISE, middle, lines)
        drawing.arrow(NOISE + 74, middle, 62)
        drawing.model(MODEL, middle)
        drawing.arrow(MODEL + 48, middle, 48)
        for line, (who, what) in enumerate(seen):
            fill = "hidden" if who == "protected" else "ink"
            y = middle - 23 + 28 * line
            drawing.text(SEEN, y, f"{who}:", 14, fill, font_weight="bold")
            drawing.text(SEEN + 98, y, what, 14, fill)
    return in_svg(drawing, WIDTH, height - GAP)


def drawn_for_phones(theme):
    """The same on a column that is 360 pixels wide: who sees what stands below."""
    drawing = Drawing(theme)
    height = len(ROWS) * (PHONE_PANEL + GAP)
    for number, (title, how, holder, hidden, lines, seen) in enumerate(ROWS):
        top = number * (PHONE_PANEL + GAP)
        drawing.rectangle(0, top, PHONE, PHONE_PANEL, rx=10, fill="panel")
        for line, part in enumerate(title.partition(" before ")[::2]):
            text = f"before {part}" if line else part
            if part:
                drawing.text(14, top + 26 + 20 * line, text, 16, font_weight="bold")
        drawing.text(
            PHONE - 12, top + 26, how, 15, fill="faint", text_anchor="end"
        )  # fmt: skip
        drawing.shapes.append(f'<g transform="translate(6 {top + 54}) scale(0.84)">')
        drawing.rectangle(
            2, 0, 296, 104, rx=10, fill="none", stroke="faint", stroke_width=1.5,
            stroke_dasharray="5 4",
        )  # fmt: skip
        drawing.text(12, 98, f"on {holder}", 15, fill="faint")
        if hidden == "phone":
            drawing.phones(8, 11)
        else:
            drawing.table(16, 4, hidden)
        drawing.arrow(135, 46, 16)
        drawing.noise(222, 50, lines)
        drawing.arrow(302, 50, 20)
        drawing.model(369, 50)
        drawing.shapes.append("</g>")
        for line, (who, what) in enumerate(seen):
            fill = "hidden" if who == "protected" else "ink"
            y = top + 168 + 28 * line
            drawing.text(14, y, f"{who}:", 16, fill, font_weight="bold")
            drawing.text(124, y, what, 16, fill)
    return in_svg(drawing, PHONE, height - GAP)


def in_svg(drawing, width, height):
    """A drawing as a file."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" '
        "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n"
        + "\n".join(drawing.shapes)
        + "\n</svg>\n"
    )


def main():
    """Write all pictures."""
    for end, theme in THEMES.items():
        (IMAGES / f"idea{end}.svg").write_text(drawn(theme))
        (IMAGES / f"idea_phone{end}.svg").write_text(drawn_for_phones(theme))


if __name__ == "__main__":
    main()
