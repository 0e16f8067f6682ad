"""The picture of a guarantee is its curve; that of an attacker never shows less."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from dp_accounting import dp_event
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
from sktensordp.plotting import AttackRiskDisplay, PrivacyProfileDisplay
from tests.support.guarantees import guarantee, pure
from tests.support.seams import shade

NOISE = dp_event.GaussianDpEvent(1.0)
CLAIM = {"delta": 1e-5, "claimed": (1.0, 1e-5)}
HALF = guarantee(dp_event.GaussianDpEvent(0.5), **CLAIM)
BOTH = pytest.mark.parametrize("display", [AttackRiskDisplay, PrivacyProfileDisplay])


@pytest.mark.thorough
def test_the_profile_is_the_closed_form():
    epsilons = np.linspace(0, 4, 9)
    display = PrivacyProfileDisplay.from_guarantee(
        guarantee(dp_event.LaplaceDpEvent(0.5)), epsilons=epsilons
    )
    x, y = display.lines_[0].get_data()
    assert_array_equal(x, epsilons)
    exact = np.maximum(-np.expm1((epsilons - 2) / 2), 0)
    assert_allclose(y[exact > 0], exact[exact > 0], rtol=1e-9)
    # Where nothing is left of delta, the curve has left the axes.
    assert np.all(y[epsilons >= 2] < display.ax_.get_ylim()[0])
    assert np.all(display.deltas["guarantee"][epsilons >= 2] == 0)
    assert display.ax_.get_yscale() == "log"


@pytest.mark.thorough
@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_errors_of_tests_on_gaussian_noise(mu):
    """From below, and closely, as a finite number of lines allows."""
    one = guarantee(dp_event.GaussianDpEvent(1 / mu), delta=1e-9)
    profile = PrivacyProfileDisplay.from_guarantee(
        one, epsilons=np.linspace(0, 8 * mu, 400), kind="tradeoff"
    )
    alpha, beta = profile.lines_[0].get_data()
    fpr, tpr = AttackRiskDisplay.from_guarantee(one).lines_[0].get_data()
    assert (fpr[0], fpr[-1]) == (0, 1)
    for x, y, rounding in [(alpha, beta, 1e-9), (fpr, 1 - tpr, 1e-12)]:
        exact = norm.cdf(norm.isf(x) - mu)
        assert np.all(y <= exact + rounding)
        assert np.all(y >= exact - 2e-3)


@pytest.mark.thorough
def test_the_corner_of_a_pure_release_is_exact():
    display = AttackRiskDisplay.from_guarantee(pure(1.0))
    fpr, tpr = display.lines_[0].get_data()
    exact = np.minimum(math.e * fpr, 1 - (1 - fpr) / math.e)
    assert_allclose(tpr, exact, atol=1e-12)


@pytest.mark.thorough
def test_accuracy_over_the_prior():
    one = guarantee(NOISE, 1e-5)
    display = AttackRiskDisplay.from_guarantee(one, kind="accuracy")
    prior, accuracy = display.lines_[0].get_data()
    assert accuracy.tolist() == [one.max_accuracy(p) for p in prior.tolist()]
    assert display.ax_.get_xlabel() == "probability of the suspicion before the release"


def test_a_claim_of_a_huge_epsilon_allows_every_guess():
    display = AttackRiskDisplay(
        [0, 1], {"a": [0.1, 1]}, [0.1, 0.5], {"a": [0.9, 0.6]}, claimed={"a": (800, 0)}
    )
    claim = display.plot(kind="accuracy").claims_["a"]
    assert claim.get_ydata().tolist() == [1.0, 1.0]


def larger(x):
    return np.maximum(x, 1 - x)


PICTURES = [
    # Points of the claim, and of a release that reveals nothing.
    pytest.param(
        PrivacyProfileDisplay, "tradeoff", "nothing revealed",
        lambda x: np.maximum(1 - 1e-5 - math.e * x, (1 - 1e-5 - x) / math.e),
        lambda x: 1 - x, id="tradeoff",
    ),
    pytest.param(
        AttackRiskDisplay, "tpr", "guessing",
        lambda x: np.minimum(1e-5 + math.e * x, 1 - (1 - 1e-5 - x) / math.e),
        lambda x: x, id="tpr", marks=pytest.mark.thorough,
    ),
    pytest.param(
        AttackRiskDisplay, "accuracy", "without the release",
        lambda x: np.maximum(
            larger(x) + 1e-5 * (1 - larger(x)), (math.e + 1e-5) / (1 + math.e)
        ),
        larger, id="accuracy", marks=pytest.mark.thorough,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("display", "kind", "reference", "claimed", "known"), PICTURES)
def test_a_claimed_curve_stands_beside_the_true_one(
    display, kind, reference, claimed, known, legend
):
    display = display.from_guarantee({"half": HALF}, kind=kind)
    assert legend(display) == ["half", "half: claimed (1, 1e-05)", reference]
    (line,), claim = display.lines_, display.claims_["half"]
    x, y = claim.get_data()
    assert_allclose(y, np.clip(claimed(x), 0, 1), atol=1e-12)
    # More is possible than the claim allows.
    assert np.all(abs(line.get_ydata() - known(x))[1:-1] > abs(y - known(x))[1:-1])
    assert claim.get_markerfacecolor() == shade(display.ax_, 0.0)
    assert claim.get_linewidth() < line.get_linewidth()
    assert claim.get_linestyle() != line.get_linestyle()
    (nothing,) = set(display.ax_.lines) - {line, claim}
    assert_allclose(nothing.get_ydata(), known(nothing.get_xdata()), atol=1e-12)


@pytest.mark.thorough
def test_claims_are_points_of_the_profile(legend):
    truths = {
        "half the noise": HALF,
        "twice": guarantee(dp_event.GaussianDpEvent(8.0), **CLAIM),
        "sound": guarantee(dp_event.GaussianDpEvent(4.0), delta=1e-5),
    }
    display = PrivacyProfileDisplay.from_guarantee(truths)
    assert legend(display) == [
        "half the noise", "half the noise: claimed (1, 1e-05)",
        "twice", "twice: claimed (1, 1e-05)", "sound",
    ]  # fmt: skip
    assert list(display.claims_) == ["half the noise", "twice"]
    for line, claim in zip(display.lines_, display.claims_.values(), strict=False):
        assert np.ravel(claim.get_data()) == pytest.approx([1.0, 1e-5])
        # Of the curve's shape, and hollow.
        assert claim.get_marker() == line.get_marker()
        assert claim.get_markerfacecolor() == shade(display.ax_, 0.0)
        assert line.get_markerfacecolor() == line.get_color()
    styles = {(line.get_linestyle(), line.get_marker()) for line in display.lines_}
    assert len(styles) == 3


@pytest.mark.thorough
def test_what_protects_nothing_is_seen():
    nothing = guarantee(dp_event.NonPrivateDpEvent(), claimed=(1.0, 0.0))
    display = PrivacyProfileDisplay.from_guarantee({"Algorithm 2": nothing})
    epsilon, delta = display.claims_["Algorithm 2"].get_data()
    assert (*epsilon, *delta) == (1.0, display.ax_.get_ylim()[0])
    attack = AttackRiskDisplay.from_guarantee(nothing)
    for picture, kind, height in [
        (display, "profile", 1), (display, "tradeoff", 0),
        (attack, "tpr", 1), (attack, "accuracy", 1),
    ]:  # fmt: skip
        assert np.all(picture.plot(kind=kind).lines_[0].get_ydata() == height)


@pytest.mark.thorough
@BOTH
def test_estimators_by_name(display):
    X, (_, axes) = np.zeros((2, 3)), plt.subplots()
    one = LaplaceMechanism(1.0, bounds=(0, 1)).fit(X)
    two = GaussianMechanism(2.0, delta=1e-5, bounds=(0, 1)).fit(X)
    drawn = display.from_estimator({"one": one, "two": two}, ax=axes)
    assert drawn.ax_ is axes
    assert [line.get_label() for line in drawn.lines_] == ["one", "two"]
    single = display.from_estimator(one)
    assert single.lines_[0].get_label() == "LaplaceMechanism"
    assert single.claims_ == {}
    if display is PrivacyProfileDisplay:
        at_two = np.interp(2.0, drawn.epsilons, np.log(drawn.deltas["two"]))
        assert at_two == pytest.approx(math.log(1e-5), abs=1e-2)


@pytest.mark.thorough
def test_different_units_and_households_are_named(legend):
    person = guarantee(NOISE, 1e-5, unit=0, relation="add-or-remove")
    found = {"person": person, "household": person.for_group(4)}
    display = AttackRiskDisplay.from_guarantee(found)
    assert legend(display) == [
        "person (add-or-remove)", "household (add-or-remove, any 4 together)",
        "guessing",
    ]  # fmt: skip
    styles = {(line.get_linestyle(), line.get_marker()) for line in display.lines_}
    assert len(styles) == 2
    found = {"user": pure(1.0, unit=0), "rating": pure(1.0, unit="entry")}
    display = PrivacyProfileDisplay.from_guarantee(found)
    assert legend(display) == ["user (one index of mode 0)", "rating (one entry)"]


@BOTH
def test_only_guarantees_are_drawn(display):
    for wrong in (3, [pure(1.0)]):
        with pytest.raises(TypeError, match="For fitted estimators, call from_estim"):
            display.from_guarantee(wrong)
    for draw in (display.from_guarantee, display.from_estimator):
        with pytest.raises(ValueError, match="Pass at least one guarantee"):
            draw({})
    with pytest.raises(TypeError, match=r"must be a PrivacyGuarantee.*got int"):
        display.from_guarantee({"one": pure(1.0), "two": 2})


def test_unknown_kinds_are_refused():
    display = AttackRiskDisplay([0.0, 1.0], {"a": [0.1, 1.0]}, [0.5], {"a": [0.6]})
    with pytest.raises(ValueError, match="kind must be 'tpr' or 'accuracy'"):
        display.plot(kind="roc")
