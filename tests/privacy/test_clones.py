"""Clones of one estimator that release while no budget is open warn, with the sum."""

import copy
import math
import pickle
import warnings
from multiprocessing import pool

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.pipeline import make_pipeline

from sktensordp.audit import audit_estimator, audit_recommender
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
)
from sktensordp.datasets import make_choices
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.moments import MultilinearPCA, MultilinearRidge
from sktensordp.plotting import PrivacyUtilityDisplay
from sktensordp.privacy import PrivacyBudget, privacy_of

RNG = np.random.default_rng(0)
ROWS, TARGETS = RNG.random((60, 3)), RNG.random(60)
WHERE, STARS = np.argwhere(np.ones((10, 6))), np.arange(60) % 5 + 1.0

CHOICES = make_choices(200, 300, 3000, random_state=0).data


def ridge(**changes):
    return MultilinearRidge(**{"target_bounds": (0, 1), "norm_bound": 2.0, **changes})


def ratings(**changes):
    return CPCompletion(**{"rank": 0, "levels": range(1, 6), "max_iter": 1, **changes})


def recommender(**changes):
    return Recommender(
        ratings(**changes), CoordinateEncoder(categories=[None, range(6)])
    )


def noise(epsilon=1.0):
    return LaplaceMechanism(epsilon, bounds=(0, 1))


def cloned_twice(model, *data):
    for _ in range(2):
        clone(model).fit(*data)


def in_threads(search):
    with parallel_config(backend="threading"):
        search.fit(ROWS, TARGETS)


DOORS = {
    "clone": lambda: cloned_twice(ridge(), ROWS, TARGETS),
    "clones of clones": lambda: cloned_twice(clone(ridge()), ROWS, TARGETS),
    "the original and a clone": lambda: [
        one.fit(ROWS, TARGETS)
        for model in [ridge()] for one in (model, clone(model))
    ],
    "other parameters": lambda: [
        clone(model).set_params(alpha=s).fit(ROWS, TARGETS)
        for model in [ridge()] for s in (0.1, 0.9)
    ],
    "cross_val_score": lambda: cross_val_score(ridge(), ROWS, TARGETS, cv=2),
    "cross_val_predict": lambda: cross_val_predict(ridge(), ROWS, TARGETS, cv=2),
    "cross_validate": lambda: cross_validate(ridge(), ROWS, TARGETS, cv=2),
    "GridSearchCV": lambda: GridSearchCV(
        ridge(), {"alpha": [0.1]}, cv=2, refit=False
    ).fit(ROWS, TARGETS),
    "threads": lambda: in_threads(
        GridSearchCV(ridge(), {"alpha": [0.1, 0.2]}, cv=2, n_jobs=2)
    ),
    "learning_curve": lambda: learning_curve(
        ridge(), ROWS, TARGETS, cv=2, train_sizes=[0.5]
    ),
    "a pipeline": lambda: cross_val_score(
        make_pipeline(noise(), Ridge()), ROWS, TARGETS, cv=2
    ),
    "columns": lambda: cross_val_score(
        make_pipeline(ColumnTransformer([("all", noise(), [0, 1, 2])]), Ridge()),
        ROWS, TARGETS, cv=2,
    ),
    "transform": lambda: [clone(model).fit_transform(ROWS)
                          for model in [noise()] for _ in range(2)],
    "a completion": lambda: cross_val_score(ratings(), WHERE, STARS, cv=2),
    "a recommender": lambda: cross_val_score(recommender(), WHERE, STARS, cv=2),
    "users": lambda: cross_val_score(recommender(unit=0), WHERE, STARS, cv=2),
    "moments": lambda: cross_val_score(
        MultilinearPCA(1, norm_bound=2.0), ROWS[:, :, None], cv=2
    ),
    "bagging": lambda: BaggingRegressor(ridge(), 2).fit(ROWS, TARGETS),
    "a display": lambda: PrivacyUtilityDisplay.from_estimator(
        ridge(), ROWS, TARGETS, epsilons=[1.0], cv=2
    ),
}  # fmt: skip


def said(call):
    with warnings.catch_warnings(record=True, action="always") as caught:
        call()
    ours = [one for one in caught if str(one.message).startswith("Clones of one ")]
    # Each points to the line of the caller; a thread of joblib has none.
    assert {one.filename for one in ours} <= {__file__, pool.__file__}
    return [str(one.message) for one in ours]


THOROUGH = {"a display", "users", "a private search", "an audit", "an audit of people"}


def cases(calls):
    return [
        pytest.param(call, id=name, marks=[pytest.mark.thorough] * (name in THOROUGH))
        for name, call in calls.items()
    ]


@pytest.mark.parametrize("call", cases(DOORS))
def test_clones_that_release_warn_once_and_never_under_a_budget(call):
    (text,) = said(call)
    assert "they add up: to epsilon = 2" in text
    assert "PrivacyBudget" in text
    with PrivacyBudget(math.inf):
        assert not said(call)


SILENT = {
    "one object": lambda: [model.fit(ROWS, TARGETS)
                           for model in [ridge()] for _ in range(3)],
    "one recommender": lambda: [model.fit(WHERE, STARS)
                                for model in [recommender()] for _ in range(3)],
    "calls": lambda: [model.transform(ROWS)
                      for model in [noise().fit(ROWS)] for _ in range(3)],
    "one clone": lambda: clone(clone(ridge())).fit(ROWS, TARGETS),
    "two of the same parameters": lambda: [ridge().fit(ROWS, TARGETS)
                                           for _ in range(2)],
    "a copy": lambda: copy.copy(ridge().fit(ROWS, TARGETS)).fit(ROWS, TARGETS),
    "a pickle": lambda: pickle.loads(
        pickle.dumps(ridge().fit(ROWS, TARGETS))
    ).fit(ROWS, TARGETS),
    "no noise": lambda: cross_val_score(ridge(epsilon=math.inf), ROWS, TARGETS, cv=2),
    "a private search": lambda: PrivateSearchCV(
        ridge(), {"alpha": [0.1, 0.9]}, score_bounds=(0, 1), random_state=0
    ).fit(ROWS, TARGETS),
    "an audit": lambda: audit_estimator(
        ratings(epsilon=1.0, shape=(10, 6)), WHERE, WHERE, STARS, STARS[::-1],
        n_trials=40, random_state=0,
    ),
    "an audit of people": lambda: audit_recommender(
        ImplicitCompletion(),
        CHOICES, canaries="planted", n_canaries=20, random_state=0,
    ),
    "other units": lambda: [clone(model).set_params(unit=unit).fit(WHERE, STARS)
                            for model in [ratings(shape=(10, 6))]
                            for unit in ("entry", 0)],
}  # fmt: skip


@pytest.mark.parametrize("call", cases(SILENT))
def test_nothing_is_said_of_what_does_not_add_up_unseen(call):
    assert not said(call)


def test_the_sum_is_of_the_epsilons_and_the_deltas():
    model = ratings(unit=0, shape=(10, 6), delta=1e-6, epsilon=0.5)
    clone(model).fit(WHERE, STARS)
    (text,) = said(lambda: clone(model).set_params(epsilon=2.0).fit(WHERE, STARS))
    assert "epsilon = 2.5, delta = 2e-06 for the first two" in text
    assert not said(lambda: clone(model).fit(WHERE, STARS))


def test_a_warning_that_is_an_error_costs_nothing():
    model = ridge()
    clone(model).fit(ROWS, TARGETS)
    second = clone(model)
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(UserWarning, match="Clones of one MultilinearRidge"),
    ):
        second.fit(ROWS, TARGETS)
    assert not hasattr(second, "privacy_guarantee_")
    with pytest.raises(TypeError, match="has not been fitted"):
        privacy_of(second)


def test_nothing_of_the_data_is_in_the_warning():
    texts = set()
    for rows, targets in ((ROWS, TARGETS), (ROWS * 0, TARGETS * 0 + 1)):
        model = ridge()
        clone(model).fit(rows, targets)
        texts |= set(said(lambda m=model, d=(rows, targets): clone(m).fit(*d)))
    assert len(texts) == 1


def test_a_budget_that_covers_others_keeps_nothing_quiet():
    model = ridge()
    with PrivacyBudget(9.0, 1e-5).covers(noise()):
        clone(model).fit(ROWS, TARGETS)
        assert said(lambda: clone(model).fit(ROWS, TARGETS))
    covered = ridge()
    with PrivacyBudget(9.0, 1e-5).covers(covered):
        assert not said(lambda: cloned_twice(covered, ROWS, TARGETS))


def test_a_fitted_estimator_shows_that_its_guarantee_is_of_this_fit():
    search = GridSearchCV(ridge(), {"alpha": [0.1, 0.9]}, cv=2)
    best = search.fit(ROWS, TARGETS).best_estimator_
    assert "This fit: (epsilon = 1" in best._repr_html_()
    assert privacy_of(search).guarantee.epsilon > best.privacy_guarantee_.epsilon
    assert "Each call of transform: (" in noise().fit(ROWS)._repr_html_()
