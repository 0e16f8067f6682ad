"""The picture of a guarantee is its curve."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.stats import norm

from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
)
from sktensordp.plotting import PrivacyProfileDisplay
from sktensordp.plotting._style import shade
from sktensordp.privacy import PrivacyGuarantee


def guarantee(event, **fields):
    fields = {"unit": "sample", "statement": "A test.", "source": "none", **fields}
    return PrivacyGuarantee.of(event, **fields)


@pytest.mark.thorough
def test_the_profile_is_the_closed_form():
    epsilons = np.linspace(0, 4, 9)
    laplace = guarantee(dp_event.LaplaceDpEvent(0.5))
    display = PrivacyProfileDisplay.from_guarantee(laplace, epsilons=epsilons)
    (line,) = display.lines_
    x, y = line.get_data()
    np.testing.assert_array_equal(x, epsilons)
    exact = np.maximum(-np.expm1((epsilons - 2) / 2), 0)
    np.testing.assert_allclose(y[exact > 0], exact[exact > 0], rtol=1e-9)
    # Where nothing is left of delta, the curve has left the axes.
    assert np.all(y[epsilons >= 2] < display.ax_.get_ylim()[0])
    assert np.all(display.deltas["guarantee"][epsilons >= 2] == 0)
    assert display.ax_.get_yscale() == "log"


@pytest.mark.thorough
@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_the_trade_off_of_gaussian_noise(mu):
    """From below, and closely, as a finite number of lines allows."""
    display = PrivacyProfileDisplay.from_guarantee(
        guarantee(dp_event.GaussianDpEvent(1 / mu), delta=1e-9),
        epsilons=np.linspace(0, 8 * mu, 400), kind="tradeoff",
    )  # fmt: skip
    alpha, beta = display.lines_[0].get_data()
    exact = norm.cdf(norm.isf(alpha) - mu)
    assert np.all(beta <= exact + 1e-9)
    assert np.all(beta >= exact - 2e-3)


HALF = {"delta": 1e-5, "claimed": (1.0, 1e-5)}


@pytest.mark.thorough
def test_claims_stand_beside_the_truth(legend):
    truths = {
        "half the noise": guarantee(dp_event.GaussianDpEvent(0.5), **HALF),
        "twice": guarantee(dp_event.GaussianDpEvent(8.0), **HALF),
        "sound": guarantee(dp_event.GaussianDpEvent(4.0), delta=1e-5),
    }
    display = PrivacyProfileDisplay.from_guarantee(truths)
    assert legend(display) == [
        "half the noise", "half the noise: claimed (1, 1e-05)",
        "twice", "twice: claimed (1, 1e-05)", "sound",
    ]  # fmt: skip
    assert list(display.claims_) == ["half the noise", "twice"]
    for label, line in zip(truths, display.lines_, strict=True):
        if label in display.claims_:
            claim = display.claims_[label]
            assert np.ravel(claim.get_data()) == pytest.approx([1.0, 1e-5])
            # Of the curve's shape, and hollow.
            assert claim.get_marker() == line.get_marker()
            assert claim.get_markerfacecolor() == shade(display.ax_, 0.0)
            assert line.get_markerfacecolor() == line.get_color()
    styles = {(line.get_linestyle(), line.get_marker()) for line in display.lines_}
    assert len(styles) == 3


def test_a_claimed_trade_off_stands_beside_the_true_one(legend):
    truth = guarantee(dp_event.GaussianDpEvent(0.5), **HALF)
    display = PrivacyProfileDisplay.from_guarantee({"half": truth}, kind="tradeoff")
    assert legend(display) == ["half", "half: claimed (1, 1e-05)", "nothing revealed"]
    (line,), claim = display.lines_, display.claims_["half"]
    alpha, beta = claim.get_data()
    left = 1 - 1e-5
    exact = np.maximum(left - math.e * alpha, (left - alpha) / math.e)
    np.testing.assert_allclose(beta, np.maximum(exact, 0), atol=1e-12)
    # Less is true than is claimed.
    assert np.all(line.get_ydata()[1:-1] < beta[1:-1])
    assert claim.get_markerfacecolor() == shade(display.ax_, 0.0)
    assert claim.get_linewidth() < line.get_linewidth()
    assert claim.get_linestyle() != line.get_linestyle()
    (chance,) = set(display.ax_.lines) - {line, claim}
    assert chance.get_xydata().tolist() == [[0, 1], [1, 0]]


@pytest.mark.thorough
def test_what_protects_nothing_is_seen():
    nothing = guarantee(dp_event.NonPrivateDpEvent(), claimed=(1.0, 0.0))
    display = PrivacyProfileDisplay.from_guarantee({"Algorithm 2": nothing})
    assert np.all(display.lines_[0].get_ydata() == 1)
    epsilon, delta = display.claims_["Algorithm 2"].get_data()
    assert (*epsilon, *delta) == (1.0, display.ax_.get_ylim()[0])
    display.plot(kind="tradeoff")
    assert np.all(display.lines_[0].get_ydata() == 0)


@pytest.mark.thorough
def test_estimators_by_name():
    X = np.zeros((2, 3))
    display = PrivacyProfileDisplay.from_estimator(
        {
            "one": LaplaceMechanism(1.0, bounds=(0, 1)).fit(X),
            "two": GaussianMechanism(2.0, delta=1e-5, bounds=(0, 1)).fit(X),
        },
        ax=(axes := plt.subplots()[1]),
    )
    assert display.ax_ is axes
    assert len(display.lines_) == 2
    at_two = np.interp(2.0, display.epsilons, np.log(display.deltas["two"]))
    assert at_two == pytest.approx(math.log(1e-5), abs=1e-2)
    single = PrivacyProfileDisplay.from_estimator(
        LaplaceMechanism(1.0, bounds=(0, 1)).fit(X)
    )
    assert list(single.deltas) == ["LaplaceMechanism"]
    assert single.claims_ == {}


@pytest.mark.thorough
def test_different_units_are_named(legend):
    found = {
        "user": guarantee(dp_event.LaplaceDpEvent(1.0), unit=0),
        "rating": guarantee(dp_event.LaplaceDpEvent(1.0), unit="entry"),
    }
    display = PrivacyProfileDisplay.from_guarantee(found)
    assert legend(display) == ["user (one index of mode 0)", "rating (one entry)"]


def test_unknown_kinds_are_refused():
    display = PrivacyProfileDisplay([0.0, 1.0], {"a": [0.5, 0.1]})
    with pytest.raises(ValueError, match="kind"):
        display.plot(kind="roc")
