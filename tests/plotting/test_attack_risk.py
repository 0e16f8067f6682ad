"""The picture of an attacker shows the rates of the guarantee, never less."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.stats import norm

from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
from sktensordp.plotting import AttackRiskDisplay, PrivacyProfileDisplay
from sktensordp.plotting._style import shade
from tests.support.guarantees import guarantee, pure

pytestmark = pytest.mark.thorough
NOISE = dp_event.GaussianDpEvent(1.0)
HALF = {"delta": 1e-5, "claimed": (1.0, 1e-5)}


def test_true_positives_of_gaussian_noise():
    display = AttackRiskDisplay.from_guarantee(guarantee(NOISE, 1e-5))
    fpr, tpr = display.lines_[0].get_data()
    exact = norm.cdf(norm.ppf(fpr) + 1)
    assert np.all(tpr >= exact - 1e-12)
    np.testing.assert_allclose(tpr, exact, atol=2e-3)
    assert (fpr[0], fpr[-1]) == (0, 1)


def test_the_corner_of_a_pure_release_is_exact():
    display = AttackRiskDisplay.from_guarantee(pure(1.0))
    fpr, tpr = display.lines_[0].get_data()
    exact = np.minimum(math.e * fpr, 1 - (1 - fpr) / math.e)
    np.testing.assert_allclose(tpr, exact, atol=1e-12)


def test_accuracy_over_the_prior():
    one = guarantee(NOISE, 1e-5)
    display = AttackRiskDisplay.from_guarantee(one, kind="accuracy")
    prior, accuracy = display.lines_[0].get_data()
    assert accuracy.tolist() == [one.max_accuracy(p) for p in prior.tolist()]
    (known,) = set(display.ax_.lines) - {display.lines_[0]}
    np.testing.assert_allclose(known.get_ydata(), np.maximum(prior, 1 - prior))
    assert display.ax_.get_xlabel() == "probability of the suspicion before the release"


@pytest.mark.parametrize("kind", ["tpr", "accuracy"])
def test_claims_stand_beside_the_truth(kind, legend):
    truth = guarantee(dp_event.GaussianDpEvent(0.5), **HALF)
    display = AttackRiskDisplay.from_guarantee({"half": truth}, kind=kind)
    reference = "guessing" if kind == "tpr" else "without the release"
    assert legend(display) == ["half", "half: claimed (1, 1e-05)", reference]
    (line,), claim = display.lines_, display.claims_["half"]
    x, y = claim.get_data()
    # More is possible than the claim allows.
    assert np.all(line.get_ydata()[1:-1] > y[1:-1])
    if kind == "tpr":
        exact = np.minimum(1e-5 + math.e * x, 1 - (1 - 1e-5 - x) / math.e)
        np.testing.assert_allclose(y, np.minimum(exact, 1), atol=1e-9)
    else:
        highest = np.maximum(np.maximum(x, 1 - x), math.e / (1 + math.e))
        np.testing.assert_allclose(y, highest, atol=1e-5)
    assert claim.get_markerfacecolor() == shade(display.ax_, 0.0)
    assert claim.get_linewidth() < line.get_linewidth()


def test_what_protects_nothing_is_seen():
    nothing = guarantee(dp_event.NonPrivateDpEvent(), claimed=(1.0, 0.0))
    display = AttackRiskDisplay.from_guarantee({"nothing": nothing})
    assert np.all(display.lines_[0].get_ydata() == 1)
    display.plot(kind="accuracy")
    assert np.all(display.lines_[0].get_ydata() == 1)


def test_households_are_named(legend):
    person = guarantee(NOISE, 1e-5, unit=0, relation="add-or-remove")
    display = AttackRiskDisplay.from_guarantee(
        {"person": person, "household": person.for_group(4)}
    )
    assert legend(display) == [
        "person (add-or-remove)", "household (add-or-remove, any 4 together)",
        "guessing",
    ]  # fmt: skip
    styles = {(line.get_linestyle(), line.get_marker()) for line in display.lines_}
    assert len(styles) == 2


def test_estimators_by_name():
    X = np.zeros((2, 3))
    display = AttackRiskDisplay.from_estimator(
        {
            "one": LaplaceMechanism(1.0, bounds=(0, 1)).fit(X),
            "two": GaussianMechanism(2.0, delta=1e-5, bounds=(0, 1)).fit(X),
        },
        ax=(axes := plt.subplots()[1]),
    )
    assert display.ax_ is axes
    assert list(display.tprs) == list(display.accuracies) == ["one", "two"]
    single = AttackRiskDisplay.from_estimator(
        LaplaceMechanism(1.0, bounds=(0, 1)).fit(X)
    )
    assert list(single.tprs) == ["LaplaceMechanism"]


@pytest.mark.parametrize("wrong", [3, [pure(1.0)]])
def test_only_guarantees_are_drawn(wrong):
    with pytest.raises(TypeError, match="For fitted estimators, call from_estimator"):
        AttackRiskDisplay.from_guarantee(wrong)


@pytest.mark.parametrize("draw", [AttackRiskDisplay, PrivacyProfileDisplay])
def test_dicts_hold_at_least_one_guarantee_and_nothing_else(draw):
    with pytest.raises(ValueError, match="Pass at least one guarantee"):
        draw.from_guarantee({})
    with pytest.raises(ValueError, match="Pass at least one guarantee"):
        draw.from_estimator({})
    with pytest.raises(TypeError, match=r"must be a PrivacyGuarantee.*got int"):
        draw.from_guarantee({"one": pure(1.0), "two": 2})


def test_unknown_kinds_are_refused():
    display = AttackRiskDisplay([0.0, 1.0], {"a": [0.1, 1.0]}, [0.5], {"a": [0.6]})
    with pytest.raises(ValueError, match="kind must be 'tpr' or 'accuracy'"):
        display.plot(kind="roc")
