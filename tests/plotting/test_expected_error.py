"""The display of expected errors holds what it draws."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.completion import CPCompletion
from sktensordp.encoding import TaskAgnosticEncoder
from sktensordp.exceptions import UnsoundClaimWarning
from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
)
from sktensordp.model_selection import epsilon_needed, expected_error
from sktensordp.papers import (
    PublishedTaskAgnosticEncoder,
    PublishedTensorRandomizedResponse,
)
from sktensordp.plotting import ExpectedErrorDisplay
from tests.support.seams import shade

pytestmark = pytest.mark.thorough
X = np.zeros((1, 2, 3))
EPSILONS = [4.0, 1.0, 16.0, math.inf]
BOX = {"bounds": (0, 1)}
TWO = {"Laplace": LaplaceMechanism(**BOX), "Gaussian": GaussianMechanism(**BOX)}


def title(display):
    return display.ax_.get_legend().get_title().get_text()


def test_from_estimator_draws_one_curve_an_estimator(legend):
    display = ExpectedErrorDisplay.from_estimator(TWO, X, epsilons=EPSILONS)
    for line, mechanism in zip(display.lines_, TWO.values(), strict=True):
        wanted = expected_error(mechanism, X, epsilons=[1.0, 4.0, 16.0])
        assert_array_equal(line.get_xydata().T, [wanted.epsilons, wanted.errors])
    ax = display.ax_
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.get_ylabel() == "largest expected squared error of a sample"
    assert title(display) == ""
    assert legend(display) == ["Laplace (delta = 0)", "Gaussian (delta = 1e-06)"]
    # Told apart without colour.
    styles = {(line.get_linestyle(), line.get_marker()) for line in display.lines_}
    assert len(styles) == 2
    # No error is no place on the axis.
    assert len(ax.lines) == 2


def test_a_target_is_marked_where_the_curves_meet_it(legend):
    display = ExpectedErrorDisplay.from_estimator(
        TWO, X, epsilons=EPSILONS, target=20.0
    )
    wanted = {
        name: epsilon_needed(one, X, error=20.0)
        for name, one in TWO.items()
    }  # fmt: skip
    assert display.needed == wanted
    marks = [line for line in display.ax_.lines if line.get_marker() == "o"][-2:]
    at = [(*line.get_xdata(), *line.get_ydata()) for line in marks]
    assert at == [(epsilon, 20.0) for epsilon in wanted.values()]
    assert title(display) == "epsilon for an error of 20"
    assert legend(display) == [
        # Rounded up.
        f"Laplace (delta = 0): {math.ceil(wanted['Laplace'] * 1e3) / 1e3}",
        f"Gaussian (delta = 1e-06): {math.ceil(wanted['Gaussian'] * 1e3) / 1e3}",
    ]
    for line, epsilon in zip(display.lines_, wanted.values(), strict=True):
        points = line.get_xydata()
        assert [epsilon, 20.0] in points.tolist()
        assert np.all(np.diff(points[:, 0]) > 0)
        assert np.all(np.diff(points[:, 1]) < 0)
        marked = points[line.get_markevery(), 0]
        assert_array_equal(marked, [1.0, 4.0, 16.0])


@pytest.mark.parametrize(("target", "text"), [(1e-3, "above 16"), (1e9, "below 1")])
def test_a_target_out_of_sight_is_said_to_be(legend, target, text):
    display = ExpectedErrorDisplay.from_estimator(
        LaplaceMechanism(**BOX), X, epsilons=EPSILONS, target=target
    )
    assert display.needed == {}
    assert legend(display) == [f"LaplaceMechanism: {text}"]


def test_what_is_left_without_noise_is_a_line():
    where = np.argwhere(np.ones((30, 30)))
    model = CPCompletion(2, value_bounds=(0, 1))
    figure, ax = plt.subplots()
    display = ExpectedErrorDisplay.from_estimator(
        model, where, epsilons=EPSILONS, ax=ax
    )
    assert display.ax_ is ax
    assert display.figure_ is figure
    (curve,) = display.curves.values()
    assert_allclose(ax.lines[1].get_ydata(), curve.errors[-1])
    # Plain numbers where they span less than a decade.
    figure.canvas.draw()
    assert all("$" not in t.get_text() for t in ax.get_yticklabels())


def test_kinds_of_error_are_not_mixed():
    curves = {
        "a": expected_error(LaplaceMechanism(**BOX), X, epsilons=[1.0]),
        "b": expected_error(
            CPCompletion(1, value_bounds=(0, 1)), [[0, 1], [1, 0]], epsilons=[1.0]
        ),
    }
    with pytest.raises(ValueError, match="one kind"):
        ExpectedErrorDisplay(curves)
    with pytest.raises(ValueError, match="one kind"):
        ExpectedErrorDisplay({})


def test_published_curves_are_drawn_apart(legend):
    published = PublishedTensorRandomizedResponse(delta=1e-5, bounds=(0, 1))
    images = np.zeros((1, 8, 8))
    with pytest.warns(UnsoundClaimWarning):
        display = ExpectedErrorDisplay.from_estimator(
            {**TWO, "published": published}, images, epsilons=EPSILONS
        )
    with pytest.warns(UnsoundClaimWarning):
        published.set_params(epsilon=4.0).fit(images)
    assert list(display.true_epsilons) == ["published"]
    at_four, *_, without_noise = display.true_epsilons["published"]
    assert at_four == published.privacy_guarantee_.epsilon > 4
    assert without_noise == np.inf
    *sound, apart = display.lines_
    background = shade(display.ax_, 0.0)
    assert apart.get_markerfacecolor() == background
    assert all(line.get_markerfacecolor() != background for line in sound)
    assert apart.get_linewidth() < sound[0].get_linewidth()
    start, _, listed = legend(display)[2].partition(": claimed, true epsilon ")
    assert start == "published (delta = 1e-05)"
    # By epsilon, and no noise is not among them.
    shown = [float(t.replace(",", "")) for t in listed.split(", ")]
    assert len(shown) == 3
    assert shown == sorted(shown)


def test_an_encoder_as_published_keeps_no_epsilon(legend):
    samples = np.random.default_rng(0).random((30, 3))
    encoders = {
        "sound": TaskAgnosticEncoder(),
        "published": PublishedTaskAgnosticEncoder(),
    }
    with pytest.warns(UnsoundClaimWarning):
        display = ExpectedErrorDisplay.from_estimator(
            encoders, samples, samples[:, 0], epsilons=[1.0, np.inf]
        )
    assert legend(display) == ["sound", "published: claimed, no finite epsilon holds"]
    # What rounding leaves of no error is not drawn.
    assert display.ax_.get_ylim()[0] > 1e-6
