"""privacy_of: every release of an object is found and counted."""

import math
from collections import Counter
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    ShuffleSplit,
)
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.privacy import privacy_of


@pytest.fixture(scope="module")
def ratings():
    return make_ratings(30, 30, 500, random_state=0)


def completion(ratings, **params):
    params = {
        "levels": ratings.levels, "shape": ratings.shape, "max_iter": 2, **params
    }  # fmt: skip
    return CPCompletion(1, **params)


class Untouched(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


def test_one_fit(ratings):
    model = completion(ratings, epsilon=2.0).fit(ratings.data, ratings.target)
    report = privacy_of(model)
    assert report.guarantee == model.privacy_guarantee_
    assert [(n, g.epsilon) for _, n, g in report.releases] == [
        (1, model.privacy_guarantee_.epsilon)
    ]
    assert any("coordinates" in s for s in report.unprotected)
    assert not any("random_state" in s for s in report.unprotected)


def test_an_int_seed_is_named(ratings):
    model = completion(ratings, random_state=7).fit(ratings.data, ratings.target)
    assert any("random_state" in s for s in privacy_of(model).unprotected)
    assert not any("7" in s for s in privacy_of(model).unprotected)


def test_pipeline_names_what_it_does_not_know(ratings):
    model = make_pipeline(
        CoordinateEncoder(), Untouched(), "passthrough", completion(ratings)
    ).fit(ratings.data, ratings.target)
    report = privacy_of(model)
    assert report.guarantee.epsilon == model[-1].privacy_guarantee_.epsilon
    text = str(report)
    assert "vocabulary" in text
    assert "What Untouched learned" in text
    assert "passthrough" not in text


@pytest.mark.parametrize(
    ("cv", "times"),
    [(4, 3), (ShuffleSplit(4, random_state=0), 4), (None, 4), (KFold(3), 2)],
)
def test_a_search_counts_folds_candidates_and_refit(ratings, cv, times):
    search = GridSearchCV(
        completion(ratings), {"epsilon": [1.0, 3.0], "rank": [0, 1]}, cv=cv
    ).fit(ratings.data, ratings.target)
    report = privacy_of(search)
    counts = [n for _, n, _ in report.releases]
    assert counts == [times] * 4 + [1]
    total = times * (1 + 1 + 3 + 3) + search.best_params_["epsilon"]
    assert report.guarantee.epsilon == pytest.approx(total, rel=1e-5)
    assert report.guarantee.epsilon <= total
    assert any("raw values held out" in s for s in report.unprotected)


def test_a_record_is_in_as_many_fits_as_counted(ratings):
    """Counted on the real folds, independently of how privacy_of counts."""
    seen = []

    class Spy(BaseEstimator):
        def fit(self, X, y):
            seen.append(set(y))
            return self

        def score(self, X, y):
            return 0.0

    search = GridSearchCV(Spy(), {}, cv=5).fit(np.zeros((50, 1)), np.arange(50))
    uses = max(sum(record in part for part in seen) for record in range(50))
    model = GridSearchCV(completion(ratings), {}, cv=5)
    report = privacy_of(model.fit(ratings.data, ratings.target))
    assert sum(n for _, n, _ in report.releases) == uses == search.n_splits_


def test_randomized_search_and_no_refit(ratings):
    search = RandomizedSearchCV(
        completion(ratings), {"epsilon": [1.0, 2.0]}, n_iter=2, cv=3, refit=False,
        scoring="r2",
    ).fit(ratings.data, ratings.target)  # fmt: skip
    assert privacy_of(search).guarantee.epsilon == pytest.approx(6, rel=1e-5)


def test_one_candidate_without_noise_voids_the_search(ratings):
    search = GridSearchCV(completion(ratings), {"epsilon": [1.0, math.inf]}, cv=3)
    report = privacy_of(search.fit(ratings.data, ratings.target))
    assert report.guarantee.epsilon == math.inf
    assert report.guarantee.delta_at(5.0) == 1


@pytest.mark.parametrize("model", [Ridge(), make_pipeline(Untouched(), Ridge())])
def test_nothing_private_is_refused(model):
    model.fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(TypeError, match="gives a guarantee"):
        privacy_of(model)
    with pytest.raises(TypeError, match="gives a guarantee"):
        privacy_of(GridSearchCV(Ridge(), {}, cv=2).fit([[0.0], [1]] * 4, [0, 1] * 4))


def test_hidden_releases_have_no_guarantee(ratings):
    X, y = ratings.data, ratings.target
    hidden = BaggingRegressor(completion(ratings), n_estimators=2).fit(X, y)
    report = privacy_of(hidden)
    ((name, _, one),) = report.releases
    assert math.isinf(report.guarantee.epsilon)
    assert (name, one.unit) == ("fit of CPCompletion in BaggingRegressor", "entry")
    why = "How often BaggingRegressor fits CPCompletion cannot be seen."
    assert one.statement == why
    assert why in report.unprotected
    assert one.relation == hidden[0].privacy_guarantee_.relation


def test_a_search_at_the_end_of_a_pipeline_is_counted(ratings):
    inner = GridSearchCV(completion(ratings), {"rank": [1]}, cv=2)
    model = make_pipeline(Untouched(), inner).fit(ratings.data, ratings.target)
    assert privacy_of(model).guarantee.epsilon == pytest.approx(2, rel=1e-5)


def test_html_is_escaped(ratings):
    search = GridSearchCV(completion(ratings), {"epsilon": [1.0]}, cv=2)
    report = privacy_of(search.fit(ratings.data, ratings.target))
    shown = report._repr_html_()
    assert "{&#x27;epsilon&#x27;: 1.0}" in shown
    assert shown.count("<table>") == shown.count("</table>")


class CountedLaplace(LaplaceMechanism):
    """Counts how often each row is released, by its first column."""

    released: ClassVar = Counter()

    def transform(self, X):
        self.released.update(np.asarray(X)[:, 0].tolist())
        return super().transform(X)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    "scoring",
    [
        None,
        "roc_auc",
        make_scorer(accuracy_score),
        ["accuracy", "roc_auc", "neg_log_loss"],
        {"one": "accuracy", "two": make_scorer(accuracy_score)},
    ],
    ids=str,
)
def test_every_score_is_a_release(scoring, train):
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 2)), np.arange(40) % 2
    refit = "accuracy" if isinstance(scoring, list) else "one"
    search = GridSearchCV(
        make_pipeline(CountedLaplace(2.0, bounds=(0, 1)), LogisticRegression()),
        {"logisticregression__C": [1.0]}, cv=4, scoring=scoring,
        return_train_score=train,
        refit=refit if isinstance(scoring, (list, dict)) else True,
    )  # fmt: skip
    CountedLaplace.released.clear()
    report = privacy_of(search.fit(X, y))
    most = max(CountedLaplace.released.values())
    assert report.guarantee.epsilon >= 2.0 * most
    if not isinstance(scoring, (list, dict)):
        assert report.guarantee.epsilon == 2.0 * most


def test_a_scoring_function_cannot_be_counted():
    X, y = np.random.default_rng(0).random((20, 2)), np.arange(20) % 2
    search = GridSearchCV(
        make_pipeline(LaplaceMechanism(bounds=(0, 1)), LogisticRegression()),
        {"logisticregression__C": [1.0]}, cv=2,
        scoring=lambda model, X, y: model.score(X, y),
    )  # fmt: skip
    report = privacy_of(search.fit(X, y))
    assert math.isinf(report.guarantee.epsilon)
    assert [one.protects for _, _, one in report.releases] == [False, True]
    assert any("scoring function" in sentence for sentence in report.unprotected)


def test_a_frozen_step_keeps_the_guarantee_of_its_fit():
    X, y = np.random.default_rng(0).random((20, 2)), np.arange(20) % 2
    frozen = LaplaceMechanism(8.0, bounds=(0, 1)).fit(X)
    frozen.set_params(epsilon=1.0)  # what is released still has epsilon = 8
    search = GridSearchCV(
        make_pipeline(FrozenEstimator(frozen), LogisticRegression()),
        {"logisticregression__C": [1.0]}, cv=2,
    )  # fmt: skip
    report = privacy_of(search.fit(X, y))
    assert report.guarantee.epsilon == 8.0 * (2 + 1)
