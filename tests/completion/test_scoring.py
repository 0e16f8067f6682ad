"""Scores on users that a model has not seen: history folded in, the rest predicted."""

import numpy as np
import pytest
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder, CPCompletion, make_fold_in_scorer
from sktensordp.datasets import make_ratings

RATINGS = make_ratings(n_users=300, n_items=60, n_ratings=9000, random_state=0)
X, Y = RATINGS.data, RATINGS.target
NEW = X[:, 0] % 5 == 0


def make(rank=0, **params):
    options = {
        "unit": 0, "epsilon": 8.0, "levels": RATINGS.levels, "shape": RATINGS.shape,
        "random_state": 0, **params,
    }  # fmt: skip
    return CPCompletion(rank, **options)


def test_history_is_folded_in_and_the_rest_predicted():
    model = make().fit(X[~NEW], Y[~NEW])
    before = model.predict(X)
    score = make_fold_in_scorer(history=0.7, random_state=3)(model, X[NEW], Y[NEW])
    np.testing.assert_array_equal(model.predict(X), before)
    known = np.random.default_rng(3).random(NEW.sum()) < 0.7
    model.fold_in(X[NEW][known], Y[NEW][known])
    predicted = model.predict(X[NEW][~known])
    expected = -root_mean_squared_error(Y[NEW][~known], predicted)
    assert score == pytest.approx(expected, rel=1e-12)
    # Worth having: unknown users are predicted worse.
    unknown = -root_mean_squared_error(Y[NEW][~known], before[NEW][~known])
    assert score > unknown + 0.02


def test_scores_of_other_names():
    model = make().fit(X[~NEW], Y[~NEW])
    scores = {
        name: make_fold_in_scorer(name)(model, X[NEW], Y[NEW])
        for name in ("r2", "neg_mean_absolute_error")
    }
    assert scores["neg_mean_absolute_error"] < 0 < scores["r2"] < 1


@pytest.mark.parametrize("history", [0.0, 1.0, -0.1, np.nan])
def test_history_must_leave_something(history):
    with pytest.raises(ValueError, match="between 0 and 1"):
        make_fold_in_scorer(history=history)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_with_whole_users_held_out(n_jobs):
    search = GridSearchCV(
        make(), {"epsilon": [0.05, 20.0], "rank": [0, 2]}, cv=GroupKFold(3),
        scoring=make_fold_in_scorer(), n_jobs=n_jobs,
    )  # fmt: skip
    search.fit(X, Y, groups=X[:, 0])
    assert search.best_params_["epsilon"] == 20.0
    scores = search.cv_results_["mean_test_score"]
    assert np.ptp(scores) > 0.02
    # No fold had the users that it was scored on; each was folded in there.
    for train, test in GroupKFold(3).split(X, groups=X[:, 0]):
        assert not set(X[train, 0]) & set(X[test, 0])


def test_in_a_pipeline():
    model = make_pipeline(CoordinateEncoder(), make(shape=None))
    with pytest.warns(match="shape is read off"):
        model.fit(X[~NEW], Y[~NEW])
    raw = np.unique(X[~NEW][:, 0])[:50]
    seen = np.isin(X[:, 0], raw) & ~NEW
    score = make_fold_in_scorer()(model, X[seen], Y[seen])
    assert -1.2 < score < -0.6
