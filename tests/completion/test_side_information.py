"""Public features of the rows of a mode, at entry level and at user level."""

import numpy as np
import pytest

from sktensordp.completion import CPCompletion, TuckerCompletion
from tests.support.refusing import refused
from tests.support.tensors import error_on

pytestmark = pytest.mark.thorough
SHAPE, N = (150, 80), 5000
RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((SHAPE[1], 3)) * [1.0, 100.0, 1e-3] + [0.0, 5.0, 7.0]
WEIGHTS = 0.5 * RNG.standard_normal((SHAPE[0], 3)) + [0.5, 0.0, -0.5]
X = np.column_stack([RNG.integers(0, size, N) for size in SHAPE])
SCALED = (FEATURES - FEATURES.mean(axis=0)) / FEATURES.std(axis=0)
Y = np.einsum("nf,nf->n", WEIGHTS[X[:, 0]], SCALED[X[:, 1]])
Y = np.clip(Y + 0.2 * RNG.standard_normal(N), -4, 4)
TEST = np.arange(N) % 5 == 0


def make(cls=CPCompletion, **params):
    options = {
        "epsilon": np.inf, "value_bounds": (-4, 4), "shape": SHAPE, "random_state": 0,
        "n_pattern_components": 0, "side_information": {1: FEATURES}, **params,
    }  # fmt: skip
    return cls(0, **options)


def error(model, X=X):
    return error_on(TEST, model, X, Y)


CASES = {
    "input": {"perturbation": "input"},
    "sums": {"perturbation": "sums"},
    "statistics": {"perturbation": "statistics"},
    "user": {"unit": 0},
    "Tucker": {"cls": TuckerCompletion, "perturbation": "input"},
    "Tucker, user": {"cls": TuckerCompletion, "unit": 0},
}


@pytest.mark.parametrize("case", [*CASES])
def test_features_explain_what_they_do(case):
    alone = error(make(**CASES[case], side_information=None))
    found = error(make(**CASES[case]))
    # Sums alone tell the weights that all users share, and no user's own.
    assert found < (0.999 if case == "sums" else 0.6) * alone


def test_they_help_where_there_is_more_noise():
    for case in ("sums", "user"):
        alone, found = (
            error(make(**CASES[case], epsilon=0.3, side_information=features))
            for features in (None, {1: FEATURES})
        )
        assert found < 0.97 * alone


@pytest.mark.parametrize("case", ["statistics", "user"])
def test_they_cost_nothing(case):
    model = make(**CASES[case], epsilon=8.0).fit(X, Y)
    assert 7.9 < model.privacy_guarantee_.epsilon <= 8.0
    assert model.privacy_guarantee_.unit == (0 if case == "user" else "entry")


@pytest.mark.parametrize("case", ["input", "user"])
def test_units_of_features_do_not_matter(case):
    one = make(**CASES[case]).fit(X, Y).predict(X)
    other = make(**CASES[case], side_information=[None, (1e5 * FEATURES + 3).tolist()])
    np.testing.assert_allclose(other.fit(X, Y).predict(X), one, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("case", ["input", "user"])
def test_a_feature_that_is_the_same_for_all_says_nothing(case):
    constant = np.column_stack([FEATURES, np.full(SHAPE[1], 3.0)])
    one, other = (
        make(**CASES[case], side_information={1: features})
        for features in (FEATURES, constant)
    )
    assert error(other) == pytest.approx(error(one), abs=0.02)


def test_an_unknown_item_has_no_features():
    model = make(unit=0).fit(X, Y)
    (found,) = model.predict([[3, -1]])
    assert np.isfinite(found)
    assert abs(found - model.offset_) < 1.5


def test_of_another_mode_where_that_is_the_unit():
    swapped = make(unit=1, shape=SHAPE[::-1], side_information={0: FEATURES})
    assert error(swapped, X[:, ::-1]) == pytest.approx(error(make(unit=0)), rel=1e-9)


WRONG = {
    "rows": ({1: FEATURES[:-1]}, r"must have shape \(80, n_features\)"),
    "one row more": ({1: np.ones((SHAPE[1] + 1, 1))}, "must have shape"),
    "one column": ({1: FEATURES[:, 0]}, "must have shape"),
    "infinity": ({1: FEATURES * np.inf}, "must be finite"),
    "text": ({1: [["drama"]] * SHAPE[1]}, "must be an array of numbers"),
    "nan": ({1: np.where(FEATURES > 6, np.nan, FEATURES)}, "missing entries"),
    "other mode": ({0: np.ones((SHAPE[0], 2))}, "describe the rows of mode 1"),
    "no mode": ({1: FEATURES, 2: FEATURES}, "describe the rows of mode 1"),
    "too short": ([FEATURES], "one item for each of the 2 modes"),
    "in the wrong place": ([FEATURES, None], "describe the rows of mode 1"),
}


@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
@pytest.mark.parametrize("unit", ["entry", 0])
@pytest.mark.parametrize("wrong", [*WRONG])
def test_wrong_features_are_refused(wrong, unit, kind):
    features, message = WRONG[wrong]
    model = make(kind, unit=unit, epsilon=1.0, side_information=features)
    with refused(message):
        model.fit(X, Y)
    assert not hasattr(model, "privacy_guarantee_")
