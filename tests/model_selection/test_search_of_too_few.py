"""What a fit would find in too few rows is refused before a search costs anything."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sktensordp.completion import CoordinateEncoder, CPCompletion, Recommender
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.moments import MultilinearRidge, MultilinearRidgeClassifier
from sktensordp.privacy import PrivacyBudget

RNG = np.random.default_rng(0)
ROWS, TARGETS = RNG.random((520, 3)), RNG.random(520)
WHERE, STARS = np.argwhere(np.ones((26, 20))), np.arange(520) % 5 + 1.0
RIDGE = MultilinearRidge(target_bounds=(0, 1))
ALPHAS = {"alpha": [0.1, 1.0]}
RANKS = {"rank": [0, 1]}
BOUNDED = {"score_bounds": (0, 1)}
GROUPS = {"groups": np.arange(520) % 7}
IDS = CoordinateEncoder(categories=[range(26), range(20)])

SEARCHES = {
    "a norm bound": (RIDGE, ALPHAS, {}, (ROWS, TARGETS)),
    "of classes": (
        MultilinearRidgeClassifier(classes=[0, 1]), ALPHAS, {"scoring": "accuracy"},
        (ROWS, (TARGETS > 0.5).astype(int)),
    ),
    "in a pipeline": (
        make_pipeline(FunctionTransformer(), RIDGE),
        {"multilinearridge__alpha": [0.1]}, {}, (ROWS, TARGETS),
    ),
    "of folds": (RIDGE, ALPHAS, {"cv": 3}, (ROWS, TARGETS)),
    "of a splitter": (RIDGE, ALPHAS, {"cv": KFold(4)}, (ROWS, TARGETS)),
    "of groups": (RIDGE, ALPHAS, {"cv": GroupKFold(2)}, (ROWS, TARGETS)),
    "the smallest rate": (RIDGE, ALPHAS, {"test_size": 0.05}, (ROWS, TARGETS)),
    "a scale": (CPCompletion(epsilon=1.9), RANKS, BOUNDED, (WHERE, STARS)),
    "a scale of ids": (
        Recommender(CPCompletion(epsilon=1.9), IDS), {"completion__rank": [0, 1]},
        BOUNDED, (WHERE, STARS),
    ),
    "a check of the scale": (
        CPCompletion(epsilon=1.0, levels=range(1, 6), check_scale=True), RANKS, {},
        (WHERE, STARS),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SEARCHES.values(), ids=SEARCHES)
def test_a_search_of_too_few_rows_is_refused_and_costs_nothing(case):
    model, grid, options, data = case
    search = PrivateSearchCV(model, grid, **{"score_bounds": (0, 1)} | options)
    groups = GROUPS if isinstance(options.get("cv"), GroupKFold) else {}
    with (
        PrivacyBudget(100.0, 1e-3) as budget,
        pytest.raises(ValueError, match=r"are too few to find|check_scale=True needs"),
    ):
        search.fit(*data, **groups)
    assert budget.spent is None
    assert not hasattr(search, "privacy_guarantee_")


@pytest.mark.thorough
@pytest.mark.parametrize(("test_size", "n_rows"), [(0.2, 625), (0.5, 1000)])
def test_the_fewest_rows_are_those_of_a_split(test_size, n_rows):
    rows, targets = RNG.random((n_rows, 3)), RNG.random(n_rows)
    search = PrivateSearchCV(
        RIDGE, ALPHAS, score_bounds=(0, 1), test_size=test_size, random_state=0
    )
    search.fit(rows, targets)
    with pytest.raises(ValueError, match="are too few to find"):
        search.fit(rows[1:], targets[1:])
