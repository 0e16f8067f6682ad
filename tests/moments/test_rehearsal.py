"""The error that a rehearsal on public samples expects of a ridge; probabilities."""

import math
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import KFold, cross_val_predict, cross_val_score

from sktensordp.exceptions import NoiseOnlyWarning
from sktensordp.model_selection import epsilon_needed, expected_error
from sktensordp.moments import (
    MultilinearPCA,
    MultilinearRidge,
    MultilinearRidgeClassifier,
)
from sktensordp.privacy import PrivacyBudget
from tests.benchmarks.bench_sensors import people

DIGITS = load_digits()
IMAGES = DIGITS.images / np.linalg.norm(DIGITS.images, axis=(1, 2), keepdims=True)
ORDER = np.random.default_rng(0).permutation(len(IMAGES))
ridge = partial(MultilinearRidge, (4, 24), norm_bound=10.0, target_bounds=(-6, 6))
classes = partial(MultilinearRidgeClassifier, norm_bound=1.0, classes=range(10))


def of_digits(n_rehearsed, **options):
    public, own = ORDER[:n_rehearsed], ORDER[897:]
    pairs = [(IMAGES[k], DIGITS.target[k]) for k in (public, own, ORDER[:897])]
    return classes(**options), *pairs


def of_sensors(n_rehearsed, n_own, n_components=(4, 24), **options):
    (X, y), own, new = map(people, range(3))
    pairs = [(X[:n_rehearsed], y[:n_rehearsed]), (own[0][:n_own], own[1][:n_own]), new]
    return ridge(**options).set_params(n_components=n_components), *pairs


KINDS = {
    "digits": lambda: of_digits(897, n_components=(8, 8)),
    "digits, cores": lambda: of_digits(897, n_components=(5, 5)),
    "digits, few rehearsed": lambda: of_digits(300, n_components=(8, 8)),
    "sensors": lambda: of_sensors(3000, 3000),
    "sensors, few rehearsed": lambda: of_sensors(1000, 3000),
    "sensors, cores": lambda: of_sensors(1500, 3000, (4, 3)),
    "sensors, a penalty": lambda: of_sensors(1500, 3000, alpha=3000.0),
    "sensors, centred": lambda: of_sensors(1500, 3000, center=True),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if k % 3 == 0 else [pytest.mark.thorough])
        for k, name in enumerate(KINDS)
    ],
)
def test_the_error_is_that_of_other_data_within_three_tenths(name):
    model, public, own, new = KINDS[name]()
    epsilons = [1.0, 2.0, 4.0, 16.0, math.inf]
    expected = expected_error(model, *public, epsilons=epsilons, n_users=len(own[0]))
    for epsilon, error in zip(epsilons, expected.errors, strict=True):
        found = []
        for seed in range(4 if math.isfinite(epsilon) else 1):
            fit = clone(model).set_params(epsilon=epsilon, random_state=seed).fit(*own)
            found.append(1 - fit.score(*new))
        assert error == pytest.approx(np.mean(found), rel=0.3)


def test_a_rehearsal_spends_nothing_and_says_what_it_read():
    model = classes((8, 8))
    public = IMAGES[:600], DIGITS.target[:600]
    with PrivacyBudget(epsilon=1.0, delta=1e-6) as budget:
        expected = expected_error(model, *public, epsilons=[0.5, 2, 8])
        needed = epsilon_needed(model, *public, error=0.3)
    assert budget.spent is None
    assert "public" in expected.assumptions
    assert "rehearsal" in expected.what
    assert "row" in expected.protects
    assert np.all(np.diff(expected.errors) < 0)
    again = expected_error(model, *public, epsilons=[needed * 0.999, needed])
    assert again.errors[1] <= 0.3 < again.errors[0]
    household = expected_error(model, *public, epsilons=[2.0], group=4)
    assert household.unit_epsilons[0] < 0.6
    assert household.errors[0] > expected.errors[1]
    assert not hasattr(model, "classes_")


def test_more_people_need_less_epsilon():
    model, public = classes((8, 8)), (IMAGES[:600], DIGITS.target[:600])
    errors = [
        expected_error(model, *public, epsilons=[1.0], n_users=n).errors[0]
        for n in (None, 600, 6000, 10**9)
    ]
    assert errors[0] == errors[1] > errors[2] > errors[3]
    free = expected_error(model, *public, epsilons=[math.inf], n_users=10**9)
    assert errors[3] == pytest.approx(free.errors[0], abs=0.05)


def test_a_penalty_is_that_of_all_people():
    """Of ten times as many people, the sums are ten times as large."""
    X, y = people(0)
    X, y = X[:300], y[:300]
    few, many = ridge(alpha=100.0), ridge(alpha=1000.0)
    at = {"epsilons": [math.inf]}
    assert_allclose(
        expected_error(many, X, y, n_users=3000, **at).errors,
        expected_error(few, X, y, **at).errors,
    )


def test_labels_of_a_rehearsal_may_be_texts_of_any_length():
    names = np.array(["a digit below five", "5"])[(DIGITS.target[:400] > 4).astype(int)]
    model = classes((8, 8)).set_params(classes=["5", "a digit below five"])
    numbers = classes((8, 8)).set_params(classes=[False, True])
    at = {"epsilons": [8.0, math.inf]}
    found = expected_error(model, IMAGES[:400], names.tolist(), **at).errors
    by_number = expected_error(numbers, IMAGES[:400], DIGITS.target[:400] < 5, **at)
    assert_array_equal(found, by_number.errors)
    short = expected_error(model, IMAGES[:400], ["5"] * 399 + ["4"], **at)
    assert np.all(short.errors < 0.1)


def test_what_a_rehearsal_refuses():
    X, y = people(0)
    X, y = X[:100], y[:100]
    at = {"epsilons": [1.0]}
    with pytest.raises(ValueError, match=r"norm_bound,.* and target_bounds"):
        expected_error(ridge(norm_bound=None), X, y, **at)
    with pytest.raises(ValueError, match=r"norm_bound,.* and classes"):
        expected_error(MultilinearRidgeClassifier(norm_bound=1.0), X, y > 0, **at)
    with pytest.raises(ValueError, match="at least 10 samples"):
        expected_error(ridge(), X[:9], y[:9], **at)
    with pytest.raises(ValueError, match="y to be passed"):
        expected_error(ridge(), X, **at)
    with pytest.raises(ValueError, match="n_users"):
        expected_error(ridge(), X, y, n_users=0, **at)
    with pytest.raises(ValueError, match=r"without noise, the error is 0\.\d+\."):
        epsilon_needed(ridge(), X, y, error=1e-9)
    pca = MultilinearPCA((2, 2), norm_bound=1.0)
    with pytest.raises(ValueError, match="not a mode"):
        expected_error(pca, X, n_users=9, **at)


# --- probabilities --------------------------------------------------------------------


@pytest.fixture(scope="module", params=[0.3, 2.0, math.inf])
def fitted(request):
    model = classes((8, 8), epsilon=request.param, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseOnlyWarning)
        return model.fit(IMAGES[:1200], DIGITS.target[:1200])


def test_probabilities_add_up_and_agree_with_predictions(fitted):
    for X in (IMAGES[1200:], 0 * IMAGES[:2], 1e-300 * IMAGES[:9], 1e308 * IMAGES[:9]):
        probabilities = fitted.predict_proba(X)
        assert probabilities.shape == (len(X), 10)
        assert np.all(probabilities >= 0)
        assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
        best = fitted.classes_[probabilities.argmax(axis=1)]
        assert_array_equal(best, fitted.predict(X))


def test_probabilities_know_how_much_noise_there_is(fitted):
    """On average, the largest is no more than .12 above the share that is right."""
    X, y = IMAGES[1200:], DIGITS.target[1200:]
    probabilities = fitted.predict_proba(X)
    assert probabilities.max(axis=1).mean() < fitted.score(X, y) + 0.12
    # That of equal probabilities is 2.3.
    assert log_loss(y, probabilities) < (0.8 if fitted.epsilon > 1 else 2.2)


def test_probabilities_do_not_depend_on_the_unit():
    X, y = IMAGES[:1200], DIGITS.target[:1200]
    one, other = (
        classes((8, 8), epsilon=4.0, random_state=0).set_params(norm_bound=bound)
        for bound in (1.0, 2.0**10)
    )
    one, other = one.fit(X, y), other.fit(2.0**10 * X, y)
    assert_allclose(
        one.predict_proba(IMAGES), other.predict_proba(2.0**10 * IMAGES), rtol=1e-6
    )


@pytest.mark.parametrize("center", [False, True])
def test_probabilities_of_long_samples_are_those_of_the_fit(center):
    """Also less a mean, and in units."""
    model = classes((8, 8), epsilon=8.0, random_state=0, center=center)
    model.set_params(norm_bound=1.0, offset=0.1, scale=2.0)
    model.fit(DIGITS.images[:1200], DIGITS.target[:1200])
    about = DIGITS.images[1200:] - model.mean_
    lengths = np.linalg.norm(about / 2.0, axis=(1, 2), keepdims=True)
    assert np.all(lengths > 9)
    long, short = (model.predict_proba(model.mean_ + one) for one in (
        about, about / lengths))  # fmt: skip
    assert_allclose(long, short, atol=1e-9)
    assert long.max(axis=1).mean() < 0.9


def test_a_tie_is_that_of_the_prediction():
    model = MultilinearRidgeClassifier(
        norm_bound=1.0, classes=["b", "a", "c"], epsilon=math.inf
    )
    model.fit([[1.0, 0], [0, 1], [0, 1]], ["a", "b", "c"])
    assert_array_equal(model.classes_, ["a", "b", "c"])
    for X in ([[0.0, 0.0]], [[0.3, 1.0]], [[1e-17, 1.0]]):
        probabilities = model.predict_proba(X)
        assert model.predict(X)[0] == model.classes_[probabilities.argmax()]


def test_scorers_and_cross_validation_take_probabilities():
    folds = KFold(3, shuffle=True, random_state=0)
    X, y = IMAGES[:900], DIGITS.target[:900]
    model = classes((8, 8), epsilon=8.0, random_state=0)
    found = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    assert found.shape == (900, 10)
    assert np.mean(found.argmax(axis=1) == y) > 0.8
    for scoring in ("neg_log_loss", "roc_auc_ovr"):
        assert np.all(
            np.isfinite(cross_val_score(model, X, y, cv=folds, scoring=scoring))
        )
    two = MultilinearRidgeClassifier(
        (8, 8), norm_bound=1.0, classes=[False, True], epsilon=8.0, random_state=0
    ).fit(X, y > 4)
    probabilities = two.predict_proba(IMAGES[900:])[:, 1]
    expected = roc_auc_score(
        DIGITS.target[900:] > 4, two.decision_function(IMAGES[900:])
    )
    assert roc_auc_score(DIGITS.target[900:] > 4, probabilities) == expected > 0.8
