"""Budgets, plans and reports know tables of counts."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder
from sktensordp.counts import TensorCounts
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import GaussianMechanism
from sktensordp.privacy import (
    PrivacyBudget,
    compose,
    planned_guarantee,
    privacy_of,
)

ROWS = np.random.default_rng(0).integers(0, 4, (500, 2))


def test_planned_is_what_is_fitted():
    for params in ({}, {"unit": 1, "max_records": 3}, {"margins": [(0,)]}):
        model = TensorCounts(shape=(4, 4)[: 2 - ("unit" in params)], **params)
        model.set_params(margins=1 if "unit" in params else model.margins)
        assert planned_guarantee(model) == model.fit(ROWS).privacy_guarantee_
        assert privacy_of(model).guarantee == model.privacy_guarantee_
    with pytest.raises(ValueError, match="shape is not declared"):
        planned_guarantee(TensorCounts())


def test_budgets_count_before_rows_are_read():
    model = TensorCounts(shape=(4, 4))
    with PrivacyBudget(1.0, 1e-5) as budget:
        model.fit(ROWS)
        assert 0.8 < budget.spent.epsilon < 0.95
        table = model.marginal(0)
        with pytest.raises(BudgetExceededError):
            model.fit(ROWS)
        np.testing.assert_array_equal(model.marginal(0), table)
    two = privacy_of(model.fit(ROWS))
    assert two.guarantee.epsilon > 1.3

    def broken():
        yield ROWS
        raise OSError("the file ends here")

    with PrivacyBudget(1.5, 1e-5) as budget:
        with pytest.raises(OSError, match="ends here"):
            model.fit_batches(broken())
        assert budget.spent.epsilon > 0.8


def test_the_other_relation_composes():
    counts = TensorCounts(shape=(4, 4)).fit(ROWS)
    noisy = GaussianMechanism(delta=1e-6, bounds=(0, 3)).fit(ROWS)
    other = noisy.privacy_guarantee_
    with pytest.raises(ValueError, match="relation"):
        compose(counts.privacy_guarantee_, other)
    both = compose(counts.replace_one_guarantee_, other)
    assert both.epsilon > counts.replace_one_guarantee_.epsilon


def test_pipelines():
    places = ["north", "south"]
    X = pd.DataFrame({"from": places * 20, "to": places[::-1] * 20})
    declared = make_pipeline(
        CoordinateEncoder(categories=[places, places]), TensorCounts(shape=(2, 2))
    )
    assert privacy_of(declared.fit(X)).guarantee.epsilon == 1
    learned = make_pipeline(CoordinateEncoder(), TensorCounts(shape=(2, 2))).fit(X)
    assert not np.isfinite(privacy_of(learned).guarantee.epsilon)
    with PrivacyBudget(9.0, 1e-5), pytest.raises(BudgetExceededError, match="ids"):
        learned.fit(X)


def test_a_search_counts_its_fits_and_says_that_scores_are_raw():
    grid = {"margins": [1, 2]}
    search = GridSearchCV(TensorCounts(shape=(4, 4)), grid, cv=2).fit(ROWS)
    report = privacy_of(search)
    assert report.guarantee.epsilon > 1
    assert any("core" in text for text in report.unprotected)
