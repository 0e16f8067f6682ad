"""The picture of a guarantee is its curve."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.stats import norm

from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
from sktensordp.plotting import PrivacyProfileDisplay
from sktensordp.privacy import PrivacyGuarantee

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def no_window():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


def guarantee(event, **fields):
    fields = {"unit": "sample", "statement": "A test.", "source": "none", **fields}
    return PrivacyGuarantee.of(event, **fields)


def test_the_profile_is_the_closed_form():
    epsilons = np.linspace(0, 4, 9)
    laplace = guarantee(dp_event.LaplaceDpEvent(0.5))
    display = PrivacyProfileDisplay.from_guarantee(laplace, epsilons=epsilons)
    (line,) = display.lines_
    x, y = line.get_data()
    np.testing.assert_array_equal(x, epsilons)
    exact = np.maximum(-np.expm1((epsilons - 2) / 2), 0)
    np.testing.assert_allclose(y[exact > 0], exact[exact > 0], rtol=1e-9)
    assert np.isnan(y[epsilons >= 2]).all()
    assert display.ax_.get_yscale() == "log"


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


def test_the_trade_off_of_a_pure_release():
    display = PrivacyProfileDisplay.from_guarantee(
        guarantee(dp_event.LaplaceDpEvent(1.0)), kind="tradeoff"
    )
    alpha, beta = display.lines_[0].get_data()
    assert np.all(beta >= np.maximum(1 - math.e * alpha, (1 - alpha) / math.e) - 1e-12)


def test_claims_stand_beside_the_truth():
    truth = guarantee(dp_event.GaussianDpEvent(0.5), delta=1e-5, claimed=(1.0, 1e-5))
    display = PrivacyProfileDisplay.from_guarantee({"half the noise": truth})
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["half the noise", "half the noise: claimed"]
    (star,) = [line for line in display.ax_.lines if line.get_marker() == "*"]
    assert np.ravel(star.get_data()) == pytest.approx([1.0, 1e-5])


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


def test_unknown_kinds_are_refused():
    display = PrivacyProfileDisplay([0.0, 1.0], {"a": [0.5, 0.1]})
    with pytest.raises(ValueError, match="kind"):
        display.plot(kind="roc")
