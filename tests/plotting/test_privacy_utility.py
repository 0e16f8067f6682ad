"""The trade-off display holds what it draws, and tells claims from truths."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVR

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import PrivacyLeakWarning, UnsoundClaimWarning
from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    TensorRandomizedResponse,
)
from sktensordp.papers import PublishedCPCompletion, PublishedTensorRandomizedResponse
from sktensordp.plotting import PrivacyUtilityDisplay
from tests.support.seams import shade

pytestmark = pytest.mark.thorough
RATINGS = make_ratings(30, 30, 500, random_state=0)
DATA = RATINGS.data, RATINGS.target
CURVE = [1, 2], [0.9, 0.8], None


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X / X.max(axis=0), y


@pytest.fixture(scope="module")
def search():
    model = make_pipeline(
        CoordinateEncoder(), CPCompletion(1, levels=RATINGS.levels, max_iter=2)
    )
    grid = {
        "cpcompletion__epsilon": [8.0, 0.5, 2.0, np.inf],
        "cpcompletion__rank": [0, 2],
    }
    scoring = "neg_root_mean_squared_error"
    return GridSearchCV(model, grid, cv=2, scoring=scoring).fit(*DATA)


@pytest.fixture(scope="module")
def with_published():
    model = PublishedCPCompletion(
        1, value_bounds=(1, 5), shape=RATINGS.shape, max_iter=2, random_state=0
    )
    grid = {"epsilon": [1.0, 4.0], "perturbation": ["input", "output"]}
    with pytest.warns(UnsoundClaimWarning):
        return GridSearchCV(model, grid, cv=2).fit(*DATA)


def completion(**params):
    given = {"levels": RATINGS.levels, "shape": RATINGS.shape, **params}
    return CPCompletion(1, max_iter=2, random_state=0, **given)


def classifier(mechanism):
    return make_pipeline(mechanism, RidgeClassifier())


def style(drawn):
    line = drawn[0]
    return line.get_linestyle(), line.get_marker(), line.get_fillstyle()


def is_apart(drawn):
    """Whether a curve is grey, thin and hollow."""
    line, caps, _ = drawn
    assert all(cap.get_color() == line.get_color() for cap in caps)
    return (
        line.get_color() == shade(line.axes, 0.65)
        and line.get_linewidth() < 1
        and line.get_markerfacecolor() == shade(line.axes, 0.0)
    )


def test_from_search_draws_one_curve_a_setting(search, legend):
    display = PrivacyUtilityDisplay.from_search(search)
    assert set(display.curves) == {"rank = 0", "rank = 2"}
    assert set(display.references) == {"rank = 0, no noise", "rank = 2, no noise"}
    assert display.score_name == display.ax_.get_ylabel() == "RMSE on held-out data"
    results = search.cv_results_
    for rank in (0, 2):
        epsilon, mean, spread = display.curves[f"rank = {rank}"]
        assert list(epsilon) == [0.5, 2.0, 8.0]
        for e, m, s in zip(epsilon, mean, spread, strict=True):
            wanted = {"cpcompletion__epsilon": e, "cpcompletion__rank": rank}
            i = results["params"].index(wanted)
            assert m == -results["mean_test_score"][i]
            assert s == results["std_test_score"][i]
    drawn = display.lines_[0][0].get_xydata()
    np.testing.assert_allclose(drawn[:, 1], display.curves["rank = 0"][1])
    assert display.ax_.get_xscale() == "log"
    assert legend(display) == [*display.curves, *display.references]
    # Told apart without colour.
    assert len(set(map(style, display.lines_))) == 2
    assert display.true_epsilons == display.notes == {}
    assert not any(map(is_apart, display.lines_))


def test_further_references_come_first(search):
    display = PrivacyUtilityDisplay.from_search(search, references={"mine": 1.0})
    own = ["rank = 0, no noise", "rank = 2, no noise"]
    assert list(display.references) == ["mine", *own]
    assert display.references["mine"] == 1.0


def test_error_bars_are_the_spread():
    curves = {"a": ([1, 2], [0.5, 0.7], [0.1, 0.2])}
    display = PrivacyUtilityDisplay(curves, references={"clean": 0.9}).plot()
    (bars,) = display.lines_[0][2]
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    np.testing.assert_allclose(ends, [[0.4, 0.6], [0.5, 0.9]])
    reference = [line for line in display.ax_.lines if line.get_label() == "clean"]
    assert list(reference[0].get_ydata()) == [0.9, 0.9]
    assert reference[0].get_marker() == "None"


def test_published_curves_are_drawn_apart(with_published, legend):
    display = PrivacyUtilityDisplay.from_search(with_published)
    unsound = "perturbation = output"
    # Algorithm 1 is published and holds.
    assert list(display.true_epsilons) == [unsound]
    assert list(display.true_epsilons[unsound]) == [np.inf, np.inf]
    for label, drawn in zip(display.curves, display.lines_, strict=True):
        assert is_apart(drawn) == (label == unsound)
    assert f"{unsound}: claimed, no finite epsilon holds" in legend(display)
    assert len(set(map(style, display.lines_))) == 2


def test_finite_truths_stand_in_the_legend(wine, legend):
    image = {"bounds": (0, 1), "delta": 1e-5}
    published = PublishedTensorRandomizedResponse(**image)
    both = {
        "sound": classifier(TensorRandomizedResponse(**image)),
        "published": classifier(published),
    }
    with pytest.warns(UnsoundClaimWarning):
        display = PrivacyUtilityDisplay.from_estimator(
            both, *wine, epsilons=[4.0, 1.0], cv=2
        )
    truths = []
    for epsilon in (1.0, 4.0):
        with pytest.warns(UnsoundClaimWarning):
            published.set_params(epsilon=epsilon).fit(wine[0])
        truths.append(published.privacy_guarantee_.epsilon)
    assert list(display.true_epsilons) == ["published"]
    np.testing.assert_allclose(display.true_epsilons["published"], truths)
    assert truths[0] > 1
    sound, apart = display.lines_
    assert is_apart(apart)
    assert not is_apart(sound)
    # At the claim, its truth beside it.
    assert list(apart[0].get_xdata()) == [1.0, 4.0]
    text = legend(display)[1]
    assert text.startswith("published: claimed, true epsilon ")
    shown = list(map(float, text.split(" epsilon ")[1].split(", ")))
    np.testing.assert_allclose(shown, truths, rtol=1e-3)
    assert np.all(np.array(shown) >= truths)


def test_what_cannot_be_seen_is_drawn_apart(wine, legend):
    """As privacy_of has it: not refitted, nobody knows the shape of the samples."""
    pipeline = classifier(LaplaceMechanism(bounds=(0, 1)))
    grid = {"laplacemechanism__epsilon": [1.0, 4.0]}
    search = GridSearchCV(pipeline, grid, cv=2, refit=False).fit(*wine)
    display = PrivacyUtilityDisplay.from_search(search)
    assert np.isnan(display.true_epsilons["cross-validation"]).all()
    assert is_apart(display.lines_[0])
    assert "the true one is not known" in legend(display)[0]
    search = GridSearchCV(pipeline, grid, cv=2).fit(*wine)
    assert PrivacyUtilityDisplay.from_search(search).true_epsilons == {}


def test_an_undeclared_range_is_no_sound_curve(legend):
    with pytest.warns(PrivacyLeakWarning):
        display = PrivacyUtilityDisplay.from_estimator(
            {"declared": completion(unit=0), "not": completion(unit=0, levels=None)},
            *DATA, epsilons=[1.0], cv=2,
        )  # fmt: skip
    assert list(display.true_epsilons) == ["not"]
    assert legend(display) == ["declared", "not: claimed, no finite epsilon holds"]


def test_an_epsilon_that_is_not_all_of_it_is_drawn_apart(wine):
    """Of a pipeline that spends more than what is searched."""
    pipeline = make_pipeline(
        LaplaceMechanism(3.0, bounds=(0, 1)), LaplaceMechanism(bounds=(0, 1)),
        RidgeClassifier(),
    )  # fmt: skip
    grid = {"laplacemechanism-2__epsilon": [1.0, 2.0]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(*wine)
    display = PrivacyUtilityDisplay.from_search(search)
    found = display.true_epsilons["cross-validation"]
    np.testing.assert_allclose(found, [4.0, 5.0], rtol=1e-6)


def test_from_estimator_equals_its_search():
    model = completion()
    display = PrivacyUtilityDisplay.from_estimator(
        model, *DATA, epsilons=[1.0, 4.0], cv=2
    )
    (epsilon, mean, spread), *_ = display.curves.values()
    search = GridSearchCV(model, {"epsilon": [1.0, 4.0]}, cv=2).fit(*DATA)
    np.testing.assert_allclose(mean, search.cv_results_["mean_test_score"])
    np.testing.assert_allclose(spread, search.cv_results_["std_test_score"])
    assert list(epsilon) == [1, 4]
    assert display.score_name == "R² on held-out data"
    assert list(display.curves) == ["CPCompletion"]


def test_no_noise_is_a_reference():
    model = completion(n_pattern_components=0)
    display = PrivacyUtilityDisplay.from_estimator(
        {"one": model, "two": completion(biases=False)},
        *DATA, epsilons=[np.inf, 1.0], cv=2, scoring="neg_mean_absolute_error",
    )  # fmt: skip
    assert list(display.curves["one"][0]) == [1.0]
    clean = cross_val_score(
        model.set_params(epsilon=np.inf), *DATA, cv=2,
        scoring="neg_mean_absolute_error",
    )  # fmt: skip
    assert display.references["one, no noise"] == pytest.approx(-clean.mean())
    assert display.score_name == "mean absolute error on held-out data"


def test_the_same_score_without_noise_is_one_reference(wine, legend):
    mechanisms = {"a": LaplaceMechanism, "b": GaussianMechanism}
    display = PrivacyUtilityDisplay.from_estimator(
        {k: classifier(m(bounds=(0, 1))) for k, m in mechanisms.items()},
        *wine, epsilons=[1.0, np.inf], cv=2, scoring="accuracy",
    )  # fmt: skip
    assert list(display.references) == ["no noise"]
    # What else differs is said.
    assert legend(display) == ["a (delta = 0)", "b (delta = 1e-06)", "no noise"]


def test_different_units_are_named(legend):
    display = PrivacyUtilityDisplay.from_estimator(
        {"rating": completion(), "user": completion(unit=0)},
        *DATA, epsilons=[1.0], cv=2,
    )  # fmt: skip
    assert display.true_epsilons == {}
    assert legend(display) == [
        "rating (one entry, delta = 0)",
        "user (one index of mode 0, delta = 1e-06)",
    ]


def test_examples_may_say_what_is_true(legend):
    many = np.arange(1.0, 9.0), np.ones(8), None
    display = PrivacyUtilityDisplay(
        {"sound": CURVE, "low": CURVE, "none": CURVE, "unknown": CURVE, "many": many},
        true_epsilons={
            "low": [0.0123451, 2000.1], "none": [np.inf] * 2,
            "unknown": [np.nan, 1.0], "many": 100 * many[0],
        },
        notes={"sound": "pure"},
    ).plot()  # fmt: skip
    assert legend(display) == [
        "sound (pure)",
        "low: claimed, true epsilon 0.01235, 2,001",
        "none: claimed, no finite epsilon holds",
        "unknown: requested epsilon, the true one is not known",
        "many: claimed, true epsilon 100 to 800",
    ]
    assert list(map(is_apart, display.lines_)) == [False, True, True, True, True]


def test_long_labels_are_broken_into_lines():
    label = "a method of somebody, with a parameter = 10, and another = 20"
    display = PrivacyUtilityDisplay({label: CURVE}).plot()
    (text,) = display.ax_.get_legend().get_texts()
    lines = text.get_text().split("\n")
    assert len(lines) == 2
    assert " ".join(lines) == label


@pytest.mark.parametrize(
    "truths", [{"b": [1, 2]}, {"a": [1]}, {"a": [1, 2, 3]}, {"a": 1.0}]
)
def test_truths_must_be_those_of_the_curves(truths):
    with pytest.raises(ValueError, match="true_epsilons"):
        PrivacyUtilityDisplay({"a": CURVE}, true_epsilons=truths)


@pytest.mark.parametrize("grid", [{"rank": [1]}, {"max_iter": [1, 2]}])
def test_a_search_without_epsilon_is_refused(grid):
    search = GridSearchCV(completion(), grid, cv=2).fit(*DATA)
    with pytest.raises(ValueError, match="must end in 'epsilon'"):
        PrivacyUtilityDisplay.from_search(search)


def test_an_estimator_with_two_epsilons_is_refused_before_it_is_fitted():
    pipeline = make_pipeline(LaplaceMechanism(bounds=(0, 1)), SVR())
    with pytest.raises(ValueError, match=r"'laplacemechanism__epsilon'.*'svr__epsilon"):
        PrivacyUtilityDisplay.from_estimator(pipeline, None, [1, 2], epsilons=[1.0])


def test_a_search_of_several_scores_is_refused():
    search = GridSearchCV(
        completion(), {"epsilon": [1.0]}, cv=2, refit=False,
        scoring=["r2", "neg_mean_squared_error"],
    ).fit(*DATA)  # fmt: skip
    with pytest.raises(ValueError, match="more than one score"):
        PrivacyUtilityDisplay.from_search(search)


def test_estimators_share_their_splits():
    """Also those of a splitter that would draw others for each."""
    cv = ShuffleSplit(2, test_size=0.3)
    display = PrivacyUtilityDisplay.from_estimator(
        {"one": completion(), "same": completion()}, *DATA, epsilons=[1.0], cv=cv
    )
    one, same = display.curves.values()
    np.testing.assert_array_equal(one, same)


def test_units_in_a_search_are_at_the_epsilon_that_was_asked_for():
    model = completion(unit=0, delta=1e-5)
    grid = {"epsilon": [0.25, 1.0, 32.0]}
    search = GridSearchCV(model, grid, cv=2).fit(*DATA)
    assert PrivacyUtilityDisplay.from_search(search).true_epsilons == {}
