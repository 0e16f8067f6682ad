"""The main job: raw table, Pipeline, GridSearchCV, pickling."""

import math
import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.privacy import privacy_of


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


@pytest.mark.parametrize("encoder", [CoordinateEncoder(), CoordinateEncoder(5)])
def test_grid_search_over_epsilon_and_rank_in_two_processes(table, encoder):
    frame, rating, levels = table
    if encoder.time_bins is None:
        frame = frame[["user", "item"]]
    model = make_pipeline(encoder, CPCompletion(2, levels=levels, max_iter=20))
    search = GridSearchCV(
        model,
        {"cpcompletion__epsilon": [0.5, 8.0], "cpcompletion__rank": [0, 3]},
        scoring="neg_root_mean_squared_error",
        cv=3,
        n_jobs=2,
        error_score="raise",
    ).fit(frame, rating)
    assert search.best_params_["cpcompletion__epsilon"] == 8.0
    scores = -search.cv_results_["mean_test_score"]
    assert np.all((scores > 0.5) & (scores < 1.5))
    restored = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(restored.predict(frame), search.predict(frame))
    report = privacy_of(search)
    assert report.guarantee.epsilon == pytest.approx(2 * (0.5 + 0.5 + 8 + 8) + 8)


def test_unknown_ids_are_predicted(table):
    frame, rating, levels = table
    model = make_pipeline(
        CoordinateEncoder(),
        CPCompletion(2, levels=levels, epsilon=math.inf, n_pattern_components=0),
    ).fit(frame[["user", "item"]], rating)
    stranger = frame[["user", "item"]][:1].assign(user="nobody")
    alone = model.predict(stranger)
    assert 0.5 <= alone[0] <= 5
    everywhere = model.predict(stranger.assign(item=-5))
    assert everywhere == pytest.approx(model[-1].offset_)


def test_cross_val_score_is_deterministic_without_noise(table):
    frame, rating, levels = table
    model = make_pipeline(
        CoordinateEncoder(), CPCompletion(1, levels=levels, epsilon=math.inf)
    )
    scores = [cross_val_score(model, frame[["user", "item"]], rating) for _ in "ab"]
    np.testing.assert_array_equal(*scores)
