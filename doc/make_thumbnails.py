#!/usr/bin/env python3
"""Draw the thumbnails of the examples, each as one would draw it on a whiteboard.

    python doc/make_thumbnails.py

Each example names its thumbnail in a comment. All are sketches, legible at 160 pixels,
without small text; both grounds, light and dark, show through.
"""

import numpy as np
from make_pages import statements
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import (
    Circle,
    Ellipse,
    FancyArrowPatch,
    FancyBboxPatch,
    Polygon,
    Rectangle,
)
from pictures import CURVES, IMAGES

BLUE, ORANGE, GREEN, PURPLE, GREY = CURVES
BLUES = LinearSegmentedColormap.from_list("blues", ["#2f86d618", BLUE])
ROUND = {"solid_capstyle": "round", "solid_joinstyle": "round"}
DIGIT = [
    "..####..",
    ".#....#.",
    "......#.",
    "...###..",
    "......#.",
    "......#.",
    ".#....#.",
    "..####..",
]


class Board:
    """A whiteboard, 20 wide and 14 high, and what one draws on it."""

    def __init__(self):
        self.figure = Figure(figsize=(4, 2.8))
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, 20), ylim=(0, 14))
        self.axes.set_axis_off()

    def add(self, patch):
        """Add a patch of matplotlib."""
        self.axes.add_patch(patch)

    def line(self, x, y, color=GREY, width=5, **style):
        """Add a line with round ends."""
        self.axes.plot(x, y, color=color, linewidth=width, **ROUND, **style)

    def arrow(self, start, end, color=GREY, width=5, bend=0.0):
        """Add an arrow."""
        style = {"arrowstyle": "-|>", "mutation_scale": 5 * width, "linewidth": width}
        how = f"arc3,rad={bend}"
        self.add(
            FancyArrowPatch(
                start, end, color=color, shrinkA=0, shrinkB=0, connectionstyle=how,
                **style,
            )
        )  # fmt: skip

    def person(self, x, y, color=BLUE, size=1.0, dashed=False):
        """Add head and shoulders; dashed, if nobody is there."""
        how = {"color": color, "fill": not dashed, "linewidth": 3 if dashed else 0}
        if dashed:
            how["linestyle"] = (0, (2, 1.2))
        self.add(Circle((x, y + 0.75 * size), 0.62 * size, **how))
        turn = np.linspace(0, np.pi, 30)
        body = [x + 1.05 * size * np.cos(turn), y - size + 1.1 * size * np.sin(turn)]
        self.add(Polygon(np.transpose(body), **how))

    def cells(self, x, y, fills, size=1.4, gap=0.25):
        """Add a table: a row of colours from the top; None leaves an empty cell."""
        for row, colors in enumerate(fills):
            for column, color in enumerate(colors):
                at = x + column * size, y - (row + 1) * size
                how = {"linewidth": 0, "color": color}
                if color is None:
                    how = {"linewidth": 1.5, "edgecolor": GREY, "fill": False}
                self.add(Rectangle(at, size - gap, size - gap, **how))

    def image(self, x, y, values, size, limit=None):
        """Add a picture of few pixels in blue, its corner on the left below."""
        height, width = np.shape(values)
        extent = x, x + size * width, y, y + size * height
        self.axes.imshow(
            values, cmap=BLUES, extent=extent, interpolation="nearest", aspect="auto",
            vmin=0, vmax=limit, zorder=1,
        )  # fmt: skip
        self.axes.set(xlim=(0, 20), ylim=(0, 14))

    def box(self, x, y, width, height, color=GREY, line=5, **how):
        """Add a box with round corners."""
        how = {"fill": False, "edgecolor": color, "linewidth": line} | how
        style = "round,pad=0,rounding_size=.8"
        self.add(FancyBboxPatch((x, y), width, height, boxstyle=style, **how))

    def shop(self, x, y, color=BLUE, size=1.0):
        """Add a shop with an awning."""
        self.add(Rectangle((x - size, y - size), 2 * size, 1.5 * size, color=color))
        corners = [(-1, 0.5), (1, 0.5), (1.5, -0.3), (-1.5, -0.3)]
        roof = [(x + size * a, y + size * (b + 0.7)) for a, b in corners]
        self.add(Polygon(roof, color=color, linewidth=0))
        door = Rectangle((x - 0.25 * size, y - size), 0.5 * size, 0.8 * size)
        door.set(color="white", linewidth=0)
        self.add(door)

    def server(self, x, y, color=ORANGE):
        """Add a stack of three disks."""
        for level in range(3):
            self.box(
                x - 1.7, y - 2.3 + 1.6 * level, 3.4, 1.25, fill=True, facecolor=color,
                line=0,
            )  # fmt: skip

    def noise(self, x, y, width, color=ORANGE, height=0.9):
        """Add a jagged line."""
        heights = height * np.array([0, 0.8, -0.7, 1, -0.9, 0.6, -0.8, 0])
        self.line(x + np.linspace(0, width, 8), y + heights, color, 4)

    def lens(self, x, y, radius, color=GREY):
        """Add a magnifying glass."""
        self.add(Circle((x, y), radius, fill=False, color=color, linewidth=7))
        near, far = 0.74 * radius, 1.5 * radius
        self.line([x + near, x + far], [y - near, y - far], color, 11)

    def cross(self, x, y, size=0.8, color=ORANGE, width=6):
        """Add a cross: false."""
        for slope in (-1, 1):
            self.line([x - size, x + size], [y - slope * size, y + slope * size],
                      color, width)  # fmt: skip

    def tick(self, x, y, size=0.8, color=GREEN, width=6):
        """Add a tick: true."""
        down = [x - size, x - 0.25 * size, x + size]
        self.line(down, [y, y - 0.75 * size, y + 0.8 * size], color, width)

    def star(self, x, y, size, color=ORANGE):
        """Add a star."""
        turn = np.pi / 2 + np.arange(10) * np.pi / 5
        radius = np.where(np.arange(10) % 2, 0.42, 1) * size
        corners = np.transpose([x + radius * np.cos(turn), y + radius * np.sin(turn)])
        self.add(Polygon(corners, color=color, linewidth=0))

    def clock(self, x, y, radius, color=ORANGE):
        """Add a clock."""
        self.add(Circle((x, y), radius, fill=False, color=color, linewidth=5))
        self.line([x, x, x + 0.5 * radius], [y + 0.6 * radius, y, y], color, 5)

    def write(self, x, y, text, size=30, color=GREY):
        """Write a few letters."""
        how = {"ha": "center", "va": "center", "weight": "bold"}
        self.axes.text(x, y, text, size=size, color=color, **how)


def digit(seed=None):
    """A digit of 8 x 8 pixels, perhaps with noise."""
    pixels = np.array([[float(pixel == "#") for pixel in row] for row in DIGIT])
    if seed is not None:
        noise = np.random.default_rng(seed).normal(scale=0.55, size=pixels.shape)
        pixels = np.clip(0.25 + 0.6 * pixels + noise, 0, 1)
    return pixels


def shades(n_rows, n_columns):
    """Colours of a full table: two tastes, of low rank."""
    row, column = np.meshgrid(np.arange(n_rows), np.arange(n_columns), indexing="ij")
    liked = 0.55 + 0.4 * np.sin(1.3 * row + 0.4) * np.cos(1.1 * column)
    return [[BLUES(value) for value in values] for values in liked]


def complete_ratings(board):
    """A rating grid before and after."""
    full = shades(5, 5)
    known = ["10010", "01001", "10100", "00010", "01001"]
    before = [
        [color if here == "1" else None for color, here in zip(*rows, strict=True)]
        for rows in zip(full, known, strict=True)
    ]
    board.cells(0.8, 11, before, 1.6)
    board.arrow((9, 7), (11.2, 7))
    board.cells(11.7, 11, full, 1.6)


def user_privacy(board):
    """Users in a row, each with ratings, and one missing."""
    columns = ["1101", "0111", "1011", "1110", "0101"]
    for number, rated in enumerate(columns):
        x, missing = 2.4 + 3.8 * number, number == 2
        board.person(x, 10.6, ORANGE if missing else BLUE, 1.45, dashed=missing)
        for row, one in enumerate(rated):
            empty = missing or one == "0"
            board.cells(x - 0.75, 8.2 - 1.8 * row, [[None if empty else BLUE]], 1.75)


def recommend_from_choices(board):
    """A customer, what they bought, and what they may like."""
    board.person(2.6, 7, BLUE, 2)
    for y in (11, 7, 3):
        board.box(6.2, y - 1.5, 3, 3, BLUE, 4)
        board.tick(7.7, y, 0.9, BLUE)
    board.arrow((10.4, 7), (13, 7))
    board.box(13.8, 4.4, 5.2, 5.2, GREEN, 5)
    board.star(16.4, 6.8, 2, GREEN)


def synthetic_users(board):
    """A table of people, and one of people who do not exist."""
    rows = ["1011", "0110", "1101"], ["1101", "1010", "0111"]
    for x, color, table in ((0.4, BLUE, rows[0]), (11.4, ORANGE, rows[1])):
        for row, values in enumerate(table):
            y = 10.8 - 3.8 * row
            board.person(x + 1.3, y, color, 1.2, dashed=color == ORANGE)
            fills = [color if value == "1" else None for value in values]
            board.cells(x + 2.8, y + 0.75, [fills], 1.35)
    board.arrow((8.9, 7), (11, 7))


def hourly_counts(board):
    """A map of hours: counts by zone and hour, most of them missing; and a clock."""
    zone, hour = np.meshgrid(np.arange(5), np.arange(11), indexing="ij")
    counts = 0.6 + 0.4 * np.sin(hour / 1.5 - zone)
    known = np.random.default_rng(2).random(counts.shape) < 0.5
    known[:2, 7:] = False
    for row, values in enumerate(counts):
        for column, value in enumerate(values):
            if row > 2 or column < 7:
                color = BLUES(value) if known[row, column] else None
                board.cells(0.8 + 1.65 * column, 10.8 - 1.65 * row, [[color]], 1.65)
    board.arrow((0.8, 1.5), (19.4, 1.5), GREY, 4)
    board.clock(16, 9.6, 3)


def federated_ratings(board):
    """Shops that send noise with their ratings."""
    for y, color in ((11.4, BLUE), (7, GREEN), (2.6, PURPLE)):
        board.shop(2.6, y, color, 1.25)
        board.noise(5.3, y, 5.2, color)
        board.arrow((10.5, y), (14.2, 7 + 0.25 * (y - 7)), GREY, 4)
    board.server(17, 7)


def federated_users(board):
    """Shops whose sums are added up before the server sees them."""
    for x, color in ((3, BLUE), (10, GREEN), (17, PURPLE)):
        board.shop(x, 11.6, color, 1.3)
        board.arrow((x, 9.7), (10 + 0.22 * (x - 10), 6.6), color, 4)
    board.add(Circle((10, 4.6), 2, fill=False, color=GREY, linewidth=5))
    board.write(10, 4.5, "+", 44)
    board.arrow((12.4, 4.6), (14.6, 4.6), GREY, 4)
    board.server(17, 4.6)
    board.noise(1.4, 4.6, 5.6)
    board.arrow((7, 4.6), (7.9, 4.6), ORANGE, 4)


def directional_digits(board):
    """A digit, with little noise on its pixels and much beside them."""
    for row, pixels in enumerate(digit()):
        for column, pixel in enumerate(pixels):
            x, y = 4.4 + 1.6 * column, 12.6 - 1.6 * row
            color, radius = (BLUE, 0.32) if pixel else (ORANGE, 0.74)
            if pixel:
                board.add(Rectangle((x - 0.75, y - 0.75), 1.5, 1.5, color=BLUE,
                                    alpha=0.35, linewidth=0))  # fmt: skip
            board.add(Circle((x, y), radius, color=color, alpha=0.9, linewidth=0))


def private_gradients(board):
    """A noisy descent to the lowest place."""
    for size, alpha in ((1, 0.25), (0.68, 0.45), (0.36, 0.7)):
        board.add(Ellipse((12, 6), 15 * size, 10.5 * size, angle=15, fill=False,
                          color=BLUE, alpha=alpha, linewidth=5))  # fmt: skip
    x = [1.6, 3.4, 5, 6.2, 8, 8.8, 10.6, 11]
    y = [12.6, 9.2, 10.4, 7.2, 8.6, 5.6, 7, 5.8]
    board.line(x, y, ORANGE, 4, marker="o", markersize=8)
    board.star(12.2, 5.9, 1.1, GREEN)


def local_mean(board):
    """Noisy messages, and their mean."""
    rng = np.random.default_rng(3)
    for x, y in ((0.6, 8.2), (5.4, 8.2), (0.6, 1.2), (5.4, 1.2)):
        board.image(x, y, rng.random((5, 5)), 0.86, 1)
    board.arrow((10.4, 7), (12.6, 7))
    heart = ["01010", "11111", "11111", "01110", "00100"]
    mean = [[0.15 + 0.8 * float(pixel) for pixel in row] for row in heart]
    board.image(13.2, 3.9, mean, 1.24, 1)


def local_digits(board):
    """A noisy digit on a phone, and what a classifier reads."""
    board.box(1.4, 0.8, 8, 12.4)
    board.image(2.4, 3.9, digit(seed=3), 0.75, 1)
    board.line([4.6, 6.2], [2.2, 2.2], GREY, 5)
    board.arrow((10.4, 7), (13, 7))
    board.write(16.4, 6.8, "3?", 50, GREEN)


def components_of_images(board):
    """A component of rows times one of columns."""
    rows = np.array([0.2, 0.9, 1.0, 0.4, 0.3, 0.8])
    columns = np.array([0.5, 1.0, 0.7, 0.2, 0.6, 0.9])
    board.image(1.2, 2.2, rows[:, None], 1.6, 1)
    board.write(4.2, 7, "×", 34)
    board.image(5.6, 6.2, columns[None], 0.85, 1)
    board.write(11.7, 7, "=", 34)
    board.image(13.1, 4, np.outer(rows, columns), 1.05, 1)


def trips_by_place_and_hour(board):
    """Places on a map with an arrow for trips, the thicker the more; and a clock."""
    places = {"a": (2.4, 3), "b": (7.4, 11.6), "c": (17.6, 5.4), "d": (11, 2.4)}
    for pair, width in (("ab", 8), ("bc", 4), ("dc", 10), ("ad", 2.5)):
        (x, y), (to_x, to_y) = places[pair[0]], places[pair[1]]
        away = np.hypot(to_x - x, to_y - y)
        near, far = 1.5 / away, 1 - 1.7 / away
        begin = x + near * (to_x - x), y + near * (to_y - y)
        board.arrow(begin, (x + far * (to_x - x), y + far * (to_y - y)), GREY, width)
    for (x, y), color in zip(places.values(), (BLUE, GREEN, BLUE, PURPLE), strict=True):
        board.add(Circle((x, y), 1.2, color=color, linewidth=0))
    board.clock(16.6, 11.2, 2, GREY)


def choose_epsilon(board):
    """An error that one accepts, and the epsilon that it needs."""
    board.arrow((2.8, 1.8), (2.8, 13.4), GREY, 4)
    board.arrow((2.8, 1.8), (19.4, 1.8), GREY, 4)
    x = np.linspace(3.8, 18.4, 60)
    board.line(x, 2.6 + 26 / (x - 1.2), BLUE, 7)
    dashes = {"linestyle": (0, (1.5, 1.5)), "dash_capstyle": "butt"}
    for ends in (([2.8, 8.4], [6.2, 6.2]), ([8.4, 8.4], [6.2, 1.8])):
        board.axes.plot(*ends, color=ORANGE, linewidth=4, **dashes)
    board.add(Circle((8.4, 6.2), 0.85, color=ORANGE))
    board.write(12, 10.6, "error", 24, BLUE)
    board.write(10.2, 3.6, "ε?", 26, ORANGE)


def what_a_recommender_tells(board):
    """A list of recommendations, and a customer whom it gives away."""
    for row, width in enumerate((6.2, 5, 6.8, 4.2)):
        y = 11.4 - 3 * row
        board.star(1.7, y, 1, GREY)
        board.box(3.4, y - 0.7, width, 1.4, BLUE, 0, fill=True, facecolor=BLUE)
    board.lens(14, 7.8, 3.9)
    board.person(14, 7.6, ORANGE, 2)


def audit_claims(board):
    """Nine claims; one is true."""
    for number in range(9):
        x, y = 4.6 + 5.4 * (number % 3), 11.6 - 4.6 * (number // 3)
        (board.tick if number == 4 else board.cross)(x, y, 1.3, width=8)


def audit_other_libraries(board):
    """Two distributions that an audit tells apart."""
    x = np.linspace(0.5, 19.5, 201)
    for centre, color in ((7.6, BLUE), (12.4, ORANGE)):
        y = 1.2 + 11 * np.exp(-(((x - centre) / 2.6) ** 2) / 2)
        board.axes.fill_between(x, 1.2, y, color=color, alpha=0.3, linewidth=0)
        board.line(x, y, color, 6)
    board.line([0.6, 19.4], [1.2, 1.2], GREY, 4)


def covariance(board):
    """Points and the ellipse of their covariance."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 2)) @ [[4.2, 1.9], [0, 1.2]] + (10, 7)
    board.axes.plot(*points.T, "o", color=BLUE, markersize=7, markeredgewidth=0,
                    alpha=0.7)  # fmt: skip
    for end in ((18.6, 11.1), (8.8, 9.9)):
        board.arrow((10, 7), end, ORANGE, 5)
    board.add(Ellipse((10, 7), 19, 6, angle=25, fill=False, color=ORANGE, linewidth=6))


def mechanism_errors(board):
    """The same target, hit with more noise and with less."""
    rng = np.random.default_rng(1)
    for x, spread, color in ((5, 1.25, ORANGE), (15, 0.5, GREEN)):
        for radius in (1.5, 3, 4.4):
            board.add(Circle((x, 7), radius, fill=False, color=GREY, linewidth=3))
        points = np.clip(rng.normal(scale=1.2 * spread, size=(22, 2)), -3.8, 3.8)
        board.axes.plot(*np.add(points, (x, 7)).T, "o", color=color, markersize=8)


def private_test_features(board):
    """A sample with noise around it, at the border of two classes."""
    rng = np.random.default_rng(5)
    for (x, y), color, marker in (((4.6, 9.8), BLUE, "o"), ((15.2, 4.6), GREEN, "s")):
        points = rng.normal((x, y), (1.9, 1.5), (12, 2))
        board.axes.plot(*points.T, marker, color=color, markersize=9)
    board.line([4.4, 15.6], [0.8, 13.2], GREY, 6)
    board.add(Circle((13.4, 10.4), 0.8, color=ORANGE))
    board.add(Circle((13.4, 10.4), 2.5, fill=False, color=ORANGE, linewidth=4,
                     linestyle=(0, (2, 1.4))))  # fmt: skip


def federated_gradients(board):
    """Noisy arrows of many parties, and their sum."""
    for (x, y), color in zip(
        ((8.6, 12.4), (12.4, 10.2), (14.2, 5.2), (10.8, 1.8)),
        (BLUE, PURPLE, BLUE, PURPLE), strict=True,
    ):  # fmt: skip
        board.arrow((2, 6), (x, y), color, 4)
    board.arrow((2, 6), (18.8, 8.4), GREEN, 10)
    board.add(Circle((2, 6), 0.9, color=GREY))


def vertical_features(board):
    """The same people's columns, at two parties."""
    for row in range(3):
        board.person(1.9, 11 - 3.9 * row, GREY, 1.2)
    for x, color in ((4.4, BLUE), (12.6, GREEN)):
        board.box(x, 1, 6.6, 12.2, color, 5)
        for row in range(3):
            board.cells(x + 0.9, 12 - 3.9 * row, [[color] * 3], 1.7)


def tensor(board, x, y, size, colors):
    """Three faces of a cube of 3 x 3 x 3 cells."""
    right, up, back = (
        np.array([size, 0]),
        np.array([0, size]),
        size * np.array([0.5, 0.36]),
    )
    faces = ((0, 0, 0), right, up), ((0, 3, 0), right, back), ((3, 0, 0), back, up)
    for number, ((along, above, _), one, other) in enumerate(faces):
        corner = np.array([x, y]) + along * right + above * up
        for row in range(3):
            for column in range(3):
                at = corner + column * one + row * other
                face = [at, at + one, at + one + other, at + other]
                color = colors[number][row][column]
                board.add(Polygon(face, color=color, alpha=(0.75, 0.45, 1)[number],
                                  linewidth=0))  # fmt: skip
        for n in range(4):
            for first, second in ((one, other), (other, one)):
                ends = corner + n * first, corner + n * first + 3 * second
                board.line(*np.transpose(ends), "white", 2)


def tensor_response(board):
    """A tensor, some of whose entries are flipped."""
    rng = np.random.default_rng(4)
    flipped = rng.random((3, 3, 3)) < 0.3
    tensor(board, 4, 1.4, 2.7, np.where(flipped, ORANGE, BLUE))


def simulation_study(board):
    """A tensor as a sum of products of vectors."""
    tensor(board, 0.6, 3.4, 1.7, np.full((3, 3, 3), BLUE))
    board.write(9.6, 6.2, "=", 30)
    for x in (11.2, 16):
        board.line([x, x], [2.6, 8], BLUE, 9)
        board.line([x + 0.6, x + 3], [9, 9], GREEN, 9)
        board.line([x + 0.5, x + 1.9], [9.9, 11.7], ORANGE, 9)
    board.write(14.5, 5.6, "+", 30)


def ratings_study(board):
    """Tables of ratings, one a month."""
    rng = np.random.default_rng(6)
    for number, color in enumerate((PURPLE, GREEN, BLUE)):
        x, y = 9.6 - 3.6 * number, 13 - 1.7 * number
        board.add(Rectangle((x - 0.5, y - 8.5), 9.4, 8.9, color="white", linewidth=0))
        board.box(x - 0.5, y - 8.5, 9.4, 8.9, color, 4)
        known = rng.random((5, 5)) < 0.45
        board.cells(x, y, [[color if one else None for one in row] for row in known],
                    1.66)  # fmt: skip


def private_search(board):
    """A grid of candidates, and the best one."""
    for row in range(3):
        for column in range(5):
            x, y = 2.4 + 3.8 * column, 11.4 - 4.4 * row
            if (row, column) == (1, 3):
                board.star(x, y - 0.1, 2, GREEN)
            else:
                board.add(Circle((x, y), 0.95, fill=False, color=GREY, linewidth=5))


def task_aware(board):
    """A signal whose noise is small where the task looks."""
    x = np.linspace(0.6, 19.4, 90)
    signal = 7 + 3 * np.sin(x / 2.6)
    looks = (x > 7) & (x < 13)
    rng = np.random.default_rng(2)
    noisy = signal + rng.normal(scale=np.where(looks, 0.12, 1.7))
    board.line(x, noisy, GREY, 3.5)
    board.line(x[looks], signal[looks], BLUE, 7)
    board.box(6.7, 1.6, 6.6, 10.8, BLUE, 4, linestyle=(0, (2, 1.4)))


def which_claims(board):
    """How many of the papers' statements are true, loose or false."""
    found = list(statements().values())
    for y, kind, color in (
        (11, "holds", GREEN),
        (7, "loose", BLUE),
        (3, "false", ORANGE),
    ):
        length = 14.4 * found.count(kind) / max(map(found.count, found))
        board.box(4.4, y - 1.3, length, 2.6, color, 0, fill=True, facecolor=color)
        if kind == "holds":
            board.tick(2, y, 1.1, color, 7)
        elif kind == "loose":
            board.write(2, y, "~", 36, color)
        else:
            board.cross(2, y, 1, color, 7)


def expected_errors(board):
    """A formula beside a measured bar of another height."""
    for x, printed, drawn in ((3, 5, 5), (9.2, 3.4, 7.6), (15.4, 10, 10)):
        board.add(Rectangle((x - 1.7, 1.4), 1.5, printed, fill=False, color=GREY,
                            linewidth=5))  # fmt: skip
        color = BLUE if printed == drawn else ORANGE
        board.add(Rectangle((x + 0.3, 1.4), 1.5, drawn, color=color, linewidth=0))
    board.write(3.1, 10.4, "=", 34, GREEN)
    board.write(9.2, 11.6, "≠", 34, ORANGE)
    board.line([0.6, 19.4], [1.2, 1.2], GREY, 4)


def three_types(board):
    """Noise at three places on the way from samples to answers."""
    board.image(0.6, 4.6, digit(), 0.6, 1)
    board.box(8, 4.4, 4.2, 5.2, BLUE, 5)
    board.write(17.2, 7, "3", 50, GREEN)
    board.arrow((5.8, 7), (7.6, 7))
    board.arrow((12.6, 7), (15.2, 7))
    for x, y in ((3.4, 10.8), (8.3, 12), (13.2, 10.8)):
        board.noise(x, y, 3.6)


def running_times(board):
    """A stopwatch."""
    board.add(Circle((10, 6.2), 5.2, fill=False, color=BLUE, linewidth=9))
    board.line([10, 10], [11.6, 13], BLUE, 9)
    board.line([8.6, 11.4], [13.2, 13.2], BLUE, 9)
    board.arrow((10, 6.2), (12.9, 9.1), ORANGE, 7)
    for turn in np.arange(12) * np.pi / 6:
        along = np.array([4.1, 4.6])
        board.line(10 + along * np.cos(turn), 6.2 + along * np.sin(turn), GREY, 3)


def encoder_settings(board):
    """Many entries, few components, and knobs."""
    for y in np.linspace(2, 12, 6):
        for end in (4.6, 9.4):
            board.line([2.2, 8], [y, end], GREY, 2)
        board.add(Circle((2, y), 0.7, color=BLUE, linewidth=0))
    for y in (4.6, 9.4):
        board.add(Circle((8.2, y), 1, color=ORANGE, linewidth=0))
    for number, at in enumerate((0.25, 0.75, 0.5)):
        x = 12.6 + 3 * number
        board.line([x, x], [2, 12], GREY, 5)
        board.add(Circle((x, 2 + 10 * at), 1, color=GREEN, linewidth=0))


THUMBNAILS = (
    audit_claims, audit_other_libraries, choose_epsilon, complete_ratings,
    components_of_images, directional_digits, federated_ratings, federated_users,
    hourly_counts, local_digits, local_mean, private_gradients, recommend_from_choices,
    synthetic_users, trips_by_place_and_hour, user_privacy, what_a_recommender_tells,
    covariance, encoder_settings, expected_errors, federated_gradients,
    mechanism_errors, private_search, private_test_features, ratings_study,
    running_times, simulation_study, task_aware, tensor_response, three_types,
    vertical_features, which_claims,
)  # fmt: skip


def main():
    """Draw all thumbnails."""
    for drawing in THUMBNAILS:
        board = Board()
        drawing(board)
        path = IMAGES / "thumbnails" / f"{drawing.__name__}.png"
        board.figure.savefig(path, dpi=100, transparent=True)


if __name__ == "__main__":
    main()
