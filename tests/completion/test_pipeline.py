"""The main job: raw table, Pipeline, GridSearchCV, scores on unseen users, pickling."""

import copy
import math
import pickle

import numpy as np
import pytest
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    TuckerCompletion,
    make_fold_in_scorer,
)
from sktensordp.datasets import make_ratings
from sktensordp.model_selection import UserKFold
from sktensordp.privacy import privacy_of

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def table():
    """A raw table of ratings: string users, shuffled integer items, seconds."""
    pd = pytest.importorskip("pandas")
    ratings = make_ratings(80, 120, 4000, random_state=0)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "user": [f"u{u:03d}" for u in ratings.data[:, 0]],
            "item": 1000 + 7 * ratings.data[:, 1],
            "time": 1_500_000_000 + rng.integers(0, 10**7, len(ratings.target)),
        }
    )
    return frame, pd.Series(ratings.target, name="rating"), ratings.levels


@pytest.mark.parametrize(
    ("encoder", "completion", "n_jobs"),
    [
        (CoordinateEncoder(), CPCompletion(3), 1),
        (CoordinateEncoder(5), TuckerCompletion((2, 2, 1)), 1),
        pytest.param(CoordinateEncoder(5), CPCompletion(3), 2, marks=pytest.mark.slow),
    ],
)
def test_grid_search_over_epsilon_and_rank(table, encoder, completion, n_jobs):
    """In this process, and in two others."""
    frame, rating, levels = table
    if encoder.time_bins is None:
        frame = frame[["user", "item"]]
    step = type(completion).__name__.lower()
    model = make_pipeline(encoder, completion.set_params(levels=levels, max_iter=6))
    search = GridSearchCV(
        model,
        {f"{step}__epsilon": [0.5, 8.0], f"{step}__rank": [0, completion.rank]},
        scoring="neg_root_mean_squared_error", cv=2, n_jobs=n_jobs, error_score="raise",
    ).fit(frame, rating)  # fmt: skip
    assert search.best_params_[f"{step}__epsilon"] == 8.0
    scores = -search.cv_results_["mean_test_score"]
    assert np.all((scores > 0.5) & (scores < 1.5))
    restored = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(restored.predict(frame), search.predict(frame))
    report = privacy_of(search)
    assert report.guarantee.epsilon == pytest.approx(0.5 + 0.5 + 8 + 8 + 8)


# --- scores on users that a model has not seen ----------------------------------------


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
    score = make_fold_in_scorer(fold_in_fraction=0.7, random_state=3)(
        model, X[NEW], Y[NEW]
    )
    np.testing.assert_array_equal(model.predict(X), before)
    folded_in = []

    class Watching(type(model)):
        def fold_in(self, X, y=None):
            folded_in.append(X)
            return super().fold_in(X, y)

    watching = copy.copy(model)
    watching.__class__ = Watching
    assert make_fold_in_scorer(fold_in_fraction=0.7, random_state=3)(
        watching, X[NEW], Y[NEW]
    ) == pytest.approx(score, rel=1e-12)
    pairs = set(map(tuple, folded_in[0].tolist()))
    known = np.array([pair in pairs for pair in map(tuple, X[NEW].tolist())])
    # False alarms: six standard deviations.
    assert abs(known.mean() - 0.7) < 6 * math.sqrt(0.21 / len(known))
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


@pytest.mark.parametrize("history", [0.0, 1.0, np.nan])
def test_history_must_leave_something(history):
    with pytest.raises(ValueError, match="between 0 and 1"):
        make_fold_in_scorer(fold_in_fraction=history)


def test_a_search_with_whole_users_held_out():
    """Each fold has users that the fit has not; they are folded in and scored."""
    search = GridSearchCV(
        make(), {"epsilon": [0.05, 20.0]}, cv=UserKFold(3, random_state=0),
        scoring=make_fold_in_scorer(),
    )  # fmt: skip
    search.fit(X, Y)
    assert search.best_params_["epsilon"] == 20.0
    assert np.ptp(search.cv_results_["mean_test_score"]) > 0.02


def test_in_a_pipeline():
    model = make_pipeline(CoordinateEncoder(), make(shape=None))
    with pytest.warns(match="`shape` is not declared"):
        model.fit(X[~NEW], Y[~NEW])
    raw = np.unique(X[~NEW][:, 0])[:50]
    seen = np.isin(X[:, 0], raw) & ~NEW
    score = make_fold_in_scorer()(model, X[seen], Y[seen])
    assert -1.2 < score < -0.6
