"""A first hour: searches, private ones and those of scikit-learn."""

import joblib
import numpy as np
import pytest
from sklearn import config_context
from sklearn.linear_model import Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    LeaveOneGroupOut,
    RandomizedSearchCV,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.privacy import PrivacyBudget, privacy_of

pytestmark = pytest.mark.thorough
RATINGS = make_ratings(30, 20, 400, random_state=0)
RNG = np.random.default_rng(0)
X = RNG.random((60, 3))
Y = X.sum(axis=1)
GROUPS = np.arange(60) // 6
GRID = {"ridge__alpha": [0.1, 1.0]}


def noisy():
    return make_pipeline(LaplaceMechanism(5.0, bounds=(0, 1)), Ridge())


def private(model=None, **params):
    params = {"score_bounds": (-4, 0), "n_iter": 2} | params
    return PrivateSearchCV(model or noisy(), GRID, **params)


@pytest.mark.parametrize("scale", [{"levels": RATINGS.levels},
                                   {"value_bounds": (0.5, 5.0)}])  # fmt: skip
def test_I_searched_the_pipeline_of_the_readme(scale):
    model = make_pipeline(CoordinateEncoder(), CPCompletion(2, max_iter=2, **scale))
    search = PrivateSearchCV(model, {"cpcompletion__rank": [1, 2]}, n_iter=2)
    search.fit(RATINGS.data, RATINGS.target)
    assert np.isfinite(search.best_score_)
    assert search.privacy_guarantee_.protects


def of_users(**params):
    model = CPCompletion(
        1, unit=0, shape=RATINGS.shape, levels=RATINGS.levels, epsilon=8.0
    )
    return PrivateSearchCV(model, {"rank": [0, 1]}, n_iter=2, **params)


def test_I_searched_a_model_of_users_and_each_was_fitted_or_scored():
    cheap = of_users(score_epsilon=0.01).planned_guarantee(RATINGS.data)
    search = of_users(score_epsilon=4.0)
    dear = search.planned_guarantee(RATINGS.data)
    # A score of epsilon = 4 adds next to nothing to a fit of epsilon = 8.
    assert dear.epsilon == pytest.approx(cheap.epsilon, rel=0.05)
    search.fit(RATINGS.data, RATINGS.target)
    assert search.privacy_guarantee_ == dear


def test_users_are_scored_on_rows_that_were_not_folded_in():
    seen = []

    def spy(estimator, where, values):
        users = np.unique(where[:, 0])
        everybody = np.column_stack([np.arange(30), np.zeros(30, dtype=int)])
        found = estimator.predict(everybody)
        # Users of the fit and held-out ones have rows of their own.
        seen.append((users, len(values), len(set(found))))
        return np.zeros(len(values))

    search = of_users(scoring=spy, score_bounds=(-1, 1), test_size=0.5)
    search.fit(RATINGS.data, RATINGS.target)
    for users, n_scored, n_different in seen:
        assert len(users) <= 15
        assert 0 < n_scored < 200
        assert n_different > 20


def test_I_kept_the_best_and_everybody_has_a_row():
    search = of_users(refit="keep", score_epsilon=8.0, test_size=0.5)
    search.fit(RATINGS.data, RATINGS.target)
    if search.best_estimator_ is not None:
        everybody = np.column_stack([np.arange(30), np.zeros(30, dtype=int)])
        assert len(set(search.predict(everybody))) > 20


@pytest.mark.parametrize("cv", [GroupKFold(3), GroupShuffleSplit(2, random_state=0)])
def test_I_held_groups_out(cv):
    seen = []

    def spy(estimator, X, y):
        seen.append({round(float(v)) for v in y})
        return np.zeros(len(y))

    search = private(scoring=spy, score_bounds=(-1, 1), cv=cv, n_iter=2)
    search.fit(X, GROUPS.astype(float), groups=GROUPS)
    # A group is held out as a whole: in one of three parts, or a fifth of all.
    assert all(len(groups) <= 4 for groups in seen)
    assert search.n_splits_ == cv.get_n_splits()
    assert any("(groups)" in sentence for sentence in privacy_of(search).unprotected)


REFUSED = {
    "no groups": (private(cv=GroupKFold(3)), {}, "pass `groups` to fit"),
    "no such cv": (private(), {"groups": GROUPS}, "needs a `cv` .* GroupKFold"),
    "too few": (private(cv=GroupKFold(11)), {"groups": GROUPS}, "number of groups"),
    "unknown number": (private(cv=LeaveOneGroupOut()), {"groups": GROUPS}, "cv must"),
    "no step": (private(), {"sample_weight": Y}, "as in `ridge__sample_weight`"),
    "not taken": (private(), {"ridge__weight": Y}, "No step takes .*ridge__weight"),
    "before noise": (
        private(), {"laplacemechanism__weight": Y}, "follow a noise mechanism"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("search", "params", "match"), REFUSED.values(), ids=REFUSED)
def test_I_passed_metadata_that_goes_nowhere(search, params, match):
    with PrivacyBudget(100.0) as budget, pytest.raises(ValueError, match=match):
        search.fit(X, Y, **params)
    assert budget.spent is None


def test_I_passed_groups_or_weights_to_a_search_over_users():
    data = RATINGS.data, RATINGS.target
    with pytest.raises(ValueError, match="leave `groups` out"):
        of_users().fit(*data, groups=RATINGS.data[:, 0])
    with pytest.raises(ValueError, match="was passed sample_weight"):
        of_users().fit(*data, sample_weight=RATINGS.target)


class Weighed(Ridge):
    """Remembers how many weights came with how many rows."""

    seen = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        self.seen.append((len(X), None if sample_weight is None else sample_weight))
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("routed", [False, True])
def test_I_weighed_the_samples(routed):
    Weighed.seen.clear()
    with config_context(enable_metadata_routing=routed):
        last = Weighed()
        model = make_pipeline(LaplaceMechanism(5.0, bounds=(0, 1)), last)
        name = "sample_weight" if routed else "weighed__sample_weight"
        if routed:
            last.set_fit_request(sample_weight=True)
        search = PrivateSearchCV(
            model, {"weighed__alpha": [1.0]}, n_iter=2, score_bounds=(-4, 0),
            cv=GroupKFold(2),
        )  # fmt: skip
        search.fit(X, Y, groups=GROUPS, **{name: np.arange(60.0)})
    assert all(len(weights) == n_rows for n_rows, weights in Weighed.seen)
    assert {n_rows for n_rows, _ in Weighed.seen} == {30, 60}
    left_out = privacy_of(search).unprotected
    assert any(f"({name})" in sentence for sentence in left_out)


def grid(model):
    return GridSearchCV(model, GRID, cv=3).fit(X, Y)


def drawn(model):
    return RandomizedSearchCV(model, GRID, n_iter=2, cv=3).fit(X, Y)


def threads(model):
    with joblib.parallel_config("threading", n_jobs=2):
        return GridSearchCV(model, GRID, cv=3).fit(X, Y)


def scored(model):
    return cross_val_score(model, X, Y, cv=3)


@pytest.mark.usefixtures("restored_filters")
@pytest.mark.parametrize("search", [grid, drawn, threads, scored])
def test_I_ran_out_of_budget_in_a_search(search):
    # One fit and its score fit into it, and the next do not.
    with (
        PrivacyBudget(12.0) as budget,
        pytest.raises(BudgetExceededError, match="Left: epsilon = 2 at delta = 0"),
    ):
        search(noisy())
    assert budget.spent.epsilon == pytest.approx(10)
    assert budget.remaining == pytest.approx(2, rel=1e-5)
