"""Ids that are published count against a budget that protects everything of a user."""

import math

import pytest
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import PrivacyBudget, privacy_of


@pytest.fixture(scope="module")
def ratings():
    return make_ratings(40, 30, 800, random_state=0, levels=[1, 2, 3, 4, 5])


def completion(ratings, **params):
    params = {"levels": ratings.levels, "shape": ratings.shape, **params}
    return CPCompletion(0, max_iter=2, **params)


def test_ids_then_users_are_refused(ratings):
    model = make_pipeline(CoordinateEncoder(), completion(ratings, unit=0))
    with PrivacyBudget(5.0, 1e-5) as budget:
        with pytest.raises(BudgetExceededError, match="publishes the ids"):
            model.fit(ratings.data, ratings.target)
        assert budget.spent is None
        assert not budget.admits(completion(ratings, unit=0)._planned_guarantee())


def test_users_then_ids_are_refused(ratings):
    encoder = CoordinateEncoder()
    with PrivacyBudget(5.0, 1e-5) as budget:
        completion(ratings, unit=0).fit(ratings.data, ratings.target)
        with pytest.raises(BudgetExceededError, match="declare categories"):
            encoder.fit(ratings.data)
    assert not hasattr(encoder, "categories_")
    assert budget.spent.epsilon <= 5


def test_a_budget_that_only_counts_says_that_nothing_holds(ratings):
    model = make_pipeline(CoordinateEncoder(), completion(ratings, unit=0))
    with PrivacyBudget(math.inf, 1e-5) as budget:
        model.fit(ratings.data, ratings.target)
    assert budget.spent.epsilon == privacy_of(model).guarantee.epsilon == math.inf


def test_declared_ids_and_public_coordinates_cost_nothing(ratings):
    catalogue = [range(n) for n in ratings.shape]
    declared = CoordinateEncoder(categories=[list(c) for c in catalogue])
    of_users = make_pipeline(declared, completion(ratings, unit=0))
    of_entries = make_pipeline(CoordinateEncoder(), completion(ratings))
    for model in (of_users, of_entries):
        with PrivacyBudget(1.0, 1e-5) as budget:
            model.fit(ratings.data, ratings.target)
        assert 0 < budget.spent.epsilon <= 1
    assert any("vocabulary" in sentence for sentence in budget.unprotected)
