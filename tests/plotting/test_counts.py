"""The picture of a table shows its counts, their errors and their names."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sktensordp.counts import TensorCounts
from sktensordp.plotting import CountsDisplay

ROWS = np.random.default_rng(0).integers([5, 30], size=(2000, 2))
ROWS = ROWS[ROWS[:, 0] > 0]
PLACES = ["nowhere", "north", "east", "south", "west"]


@pytest.fixture(scope="module")
def counts():
    return TensorCounts(shape=(5, 30), random_state=0).fit(ROWS)


def test_bars(counts):
    categories = [PLACES, range(30)]
    display = CountsDisplay.from_estimator(
        counts, 0, categories=categories, names=["place", "hour"], level=0.9
    )
    table, std = counts.marginal(0, return_std=True)
    bars = [bar.get_height() for bar in display.ax_.patches]
    np.testing.assert_allclose(bars, table)
    assert display.margin == pytest.approx(1.6448536 * std)
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == PLACES
    assert display.ax_.get_xlabel() == "place"
    (crosses,) = (line for line in display.ax_.lines if line.get_marker() == "x")
    assert set(crosses.get_xdata()) == set(np.flatnonzero(table <= display.margin))
    assert 0 in crosses.get_xdata()


def test_a_map(counts):
    ax = plt.figure().add_subplot()
    display = CountsDisplay.from_estimator(counts, (1, 0), ax=ax)
    assert display.ax_ is ax
    table = counts.marginal((1, 0))
    (image,) = ax.images
    np.testing.assert_allclose(image.get_array(), np.maximum(table, 0))
    (crosses,) = ax.lines
    found = set(zip(crosses.get_ydata(), crosses.get_xdata(), strict=True))
    assert found == set(map(tuple, np.argwhere(table <= display.margin)))
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("mode_1", "mode_0")
    assert len(ax.get_yticks()) == 15


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"level": 1.0}, "level"),
        ({"counts": np.zeros((2, 2, 2))}, "one mode or two"),
        ({"names": ["a"]}, "names and categories"),
        ({"categories": [range(2), range(3)]}, "names and categories"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    params = {
        "counts": np.zeros((2, 2)), "std": 1.0, "names": ["a", "b"],
        "categories": [range(2), range(2)], **changes,
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        CountsDisplay(params.pop("counts"), params.pop("std"), **params)
