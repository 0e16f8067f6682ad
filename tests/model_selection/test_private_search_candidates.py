"""Candidates that are refused before anything is spent, and scorers that fit."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CPCompletion
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.privacy import PrivacyBudget

LEVELS = [1, 2, 3, 4, 5]
WHERE = np.argwhere(np.ones((12, 10)))
VALUES = (np.arange(120) * 7 % 5 + 1).astype(float)
X = np.random.default_rng(0).normal(size=(80, 4))
Y = X @ [1.0, -1.0, 0.5, 0.0]


def refused(search, X, y, match, error=ValueError):
    with PrivacyBudget(1000.0, 0.5) as budget, pytest.raises(error, match=match):
        search.fit(X, y)
    assert budget.spent is None


@pytest.mark.parametrize(
    "grid", [{"max_iter": [-3]}, {"perturbation": ["foo"]}, {"gradient_clip": [-1]}]
)
def test_parameters_out_of_range(grid):
    model = CPCompletion(1, levels=LEVELS)
    refused(PrivateSearchCV(model, grid, n_iter=2), WHERE, VALUES, "must be")


def test_other_users_than_the_estimator_has():
    model = CPCompletion(1, unit=0, shape=(12, 10), levels=LEVELS)
    search = PrivateSearchCV(model, {"shape": [(40, 10)]}, n_iter=2)
    refused(search, WHERE, VALUES, "something else")


def test_a_cache_would_repeat_noise(tmp_path):
    noise = LaplaceMechanism(1.0, bounds=(-3, 3))
    model = make_pipeline(noise, Ridge(), memory=str(tmp_path))
    search = PrivateSearchCV(model, {"ridge__alpha": [1.0]}, score_bounds=(-4, 0))
    refused(search, X, Y, "memory")


def test_codes_have_another_shape():
    encoder = TaskAwareEncoder(1.0, output="code", n_components=2)
    noise = LaplaceMechanism(1.0, bounds=(0, 1))
    model = make_pipeline(encoder, noise, Ridge())
    search = PrivateSearchCV(model, {"ridge__alpha": [1.0]}, score_bounds=(-4, 0))
    refused(search, X, Y, "not known beforehand")


def test_gaussian_codes_are_as_planned():
    encoder = TaskAwareEncoder(1.0, delta=1e-5, mechanism="gaussian", n_components=2)
    search = PrivateSearchCV(
        make_pipeline(encoder, Ridge()), {"ridge__alpha": [0.1, 1.0]}, n_iter=2,
        score_bounds=(-4, 0),
    )  # fmt: skip
    planned = search.planned_guarantee(X).epsilon
    assert search.fit(X, Y).privacy_guarantee_.epsilon == planned


def test_a_scorer_may_not_fit():
    def scoring(estimator, X, y):
        return estimator.fit(X, y).predict(X)

    model = CPCompletion(1, levels=LEVELS, max_iter=2)
    search = PrivateSearchCV(
        model, {"rank": [0]}, n_iter=2, scoring=scoring, score_bounds=(0, 5)
    )
    with pytest.raises(RuntimeError, match="Nothing is fitted here"):
        search.fit(WHERE, VALUES)


def test_epsilon_of_what_is_not_private_may_be_searched():
    from sklearn.svm import SVR

    model = make_pipeline(LaplaceMechanism(1.0, bounds=(-3, 3)), SVR())
    search = PrivateSearchCV(
        model, {"svr__epsilon": [0.1, 0.2]}, n_iter=2, score_bounds=(-4, 0)
    )
    assert search.fit(X, Y).best_params_["svr__epsilon"] in (0.1, 0.2)
    search.set_params(param_distributions={"laplacemechanism__epsilon": [0.1]})
    refused(search, X, Y, "cannot be searched")
