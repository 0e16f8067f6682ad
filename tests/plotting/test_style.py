"""Curves differ without colour, and legends cover none."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sktensordp.plotting import PrivacyUtilityDisplay
from tests.support.seams import CLAIMED_LINE, REFERENCE_STYLES, STYLES, shade

EPSILONS = [0.25, 0.5, 1, 2, 4, 8, 16, 32]
LONG = {
    f"method {k} of some people, with a setting and another": (
        EPSILONS, np.linspace(0, 1 + k / 10, 8), np.full(8, 0.05)
    )
    for k in range(6)
}  # fmt: skip


def test_no_two_styles_are_alike():
    assert len(set(STYLES)) == len(STYLES) > 50
    lines = [line for line, _ in STYLES]
    assert CLAIMED_LINE not in lines
    assert len(set(REFERENCE_STYLES)) == len(REFERENCE_STYLES)
    assert CLAIMED_LINE not in REFERENCE_STYLES


@pytest.mark.parametrize(
    ("style", "colors"),
    [
        ("default", ["#ffffff", "#808080", "#000000"]),
        ("dark_background", ["#000000", "#808080", "#ffffff"]),
    ],
)
def test_shades_follow_the_style(style, colors):
    with plt.style.context(style):
        ax = plt.figure().subplots()
        assert [shade(ax, strength) for strength in (0.0, 0.5, 1.0)] == colors
        ax.set_facecolor("none")
        assert shade(ax, 0.0) == colors[0]


@pytest.mark.thorough
def test_a_legend_stands_beside_the_curves_that_it_would_cover():
    display = PrivacyUtilityDisplay(LONG).plot()
    display.figure_.canvas.draw()
    box = display.ax_.get_legend().get_window_extent()
    axes = display.ax_.get_window_extent()
    assert box.x0 >= axes.x1
    assert display.figure_.bbox.x1 >= box.x1
    assert display.figure_.bbox.y0 <= box.y0
    # The axes are about as wide as ever, and a title has its place.
    plain = PrivacyUtilityDisplay({"one": LONG[next(iter(LONG))]}).plot()
    plain.figure_.canvas.draw()
    wanted = plain.ax_.get_window_extent()
    assert axes.width == pytest.approx(wanted.width, rel=0.05)
    assert axes.height == pytest.approx(wanted.height, rel=0.05)
    title = display.ax_.set_title("title")
    display.figure_.canvas.draw()
    assert title.get_window_extent().y1 <= display.figure_.bbox.y1


@pytest.mark.thorough
def test_a_legend_taller_than_the_figure_makes_it_grow():
    many = {f"{label}, {k}": c for k in range(3) for label, c in LONG.items()}
    display = PrivacyUtilityDisplay(many).plot()
    display.figure_.canvas.draw()
    box = display.ax_.get_legend().get_window_extent()
    assert box.height > 480
    assert display.figure_.bbox.y0 <= box.y0 < box.y1 <= display.figure_.bbox.y1
    assert display.ax_.get_window_extent().height >= box.height


@pytest.mark.thorough
def test_axes_that_are_given_stay_as_they_are():
    figure, (ax, other) = plt.subplots(1, 2, figsize=(9, 5))
    places = ax.get_position().bounds, other.get_position().bounds
    display = PrivacyUtilityDisplay(dict(list(LONG.items())[:4])).plot(ax=ax)
    assert (ax.get_position().bounds, other.get_position().bounds) == places
    assert figure.get_size_inches().tolist() == [9, 5]
    legend = ax.get_legend()
    assert all(text.get_size() < 10 for text in legend.get_texts())
    lines = [text.get_text().split("\n") for text in legend.get_texts()]
    assert [" ".join(parts) for parts in lines] == list(display.curves)
    assert max(len(part) for parts in lines for part in parts) <= 30


def test_a_figure_without_pyplot_will_do():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert PrivacyUtilityDisplay(LONG).plot(ax=ax).ax_ is ax
    assert plt.get_fignums() == []
