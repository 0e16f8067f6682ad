"""The trade-off display holds what it draws."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.plotting import PrivacyUtilityDisplay

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def search():
    ratings = make_ratings(30, 30, 500, random_state=0)
    model = make_pipeline(
        CoordinateEncoder(), CPCompletion(1, levels=ratings.levels, max_iter=2)
    )
    grid = {
        "cpcompletion__epsilon": [8.0, 0.5, 2.0, np.inf],
        "cpcompletion__rank": [0, 2],
    }
    scoring = "neg_root_mean_squared_error"
    return GridSearchCV(model, grid, cv=2, scoring=scoring).fit(
        ratings.data, ratings.target
    )


def test_from_search_draws_one_curve_a_setting(search):
    display = PrivacyUtilityDisplay.from_search(search)
    assert set(display.curves) == {"rank = 0", "rank = 2"}
    assert set(display.references) == {"rank = 0, no noise", "rank = 2, no noise"}
    assert display.score_name == "RMSE"
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
    labels = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert sorted(labels) == sorted([*display.curves, *display.references])
    # Told apart without colour.
    styles = {(c[0].get_linestyle(), c[0].get_marker()) for c in display.lines_}
    assert len(styles) == 2


def test_ax_is_used(search):
    figure, ax = plt.subplots()
    display = PrivacyUtilityDisplay.from_search(search, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure


def test_from_estimator_equals_its_search():
    ratings = make_ratings(30, 30, 500, random_state=0)
    model = CPCompletion(
        1, levels=ratings.levels, shape=ratings.shape, max_iter=2, random_state=0
    )
    display = PrivacyUtilityDisplay.from_estimator(
        model, ratings.data, ratings.target, epsilons=[1.0, 4.0], cv=2
    )
    (epsilon, mean, _), *_ = display.curves.values()
    search = GridSearchCV(model, {"epsilon": [1.0, 4.0]}, cv=2)
    search.fit(ratings.data, ratings.target)
    np.testing.assert_allclose(mean, search.cv_results_["mean_test_score"])
    assert list(epsilon) == [1, 4]
    assert display.score_name == "score"


@pytest.mark.parametrize("grid", [{"rank": [1]}, {"max_iter": [1, 2]}])
def test_a_search_without_epsilon_is_refused(grid):
    ratings = make_ratings(10, 10, 50, random_state=0)
    model = CPCompletion(1, levels=ratings.levels, shape=ratings.shape)
    search = GridSearchCV(model, grid, cv=2)
    search.fit(ratings.data, ratings.target)
    with pytest.raises(ValueError, match="ends in 'epsilon'"):
        PrivacyUtilityDisplay.from_search(search)
