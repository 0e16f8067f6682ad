"""Values in another order than their rows are refused, at every door that takes both.

Rows are paired by their places, and the labels of pandas are compared. No false alarms
are possible: nothing here is random but the data, whose values have no say.
"""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder, CPCompletion, party
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import ItemHoldout, PrivateSearchCV, UserKFold
from sktensordp.moments import MultilinearRidge, MultilinearRidgeClassifier
from sktensordp.papers import BiScaler
from sktensordp.recommend import (
    Recommender,
    check_table,
    columns_with_values,
    make_fold_in_scorer,
    make_ranking_scorer,
)
from tests.support.refusing import refused

RNG = np.random.default_rng(0)
N = 60
LABELS = RNG.permutation(1000)[:N]
WHERE = pd.DataFrame(RNG.integers(6, size=(N, 2)), columns=["user", "item"])
IDS = WHERE.astype(str)
SAMPLES = pd.DataFrame(RNG.uniform(-1, 1, size=(N, 4)))
FREE = {"epsilon": math.inf}
DECLARED = {"norm_bound": 2.0, "target_bounds": (0, 1)}
RANGE = {"value_bounds": (0, 1), **FREE}
USERS = {"unit": 0, "shape": (6, 6), **RANGE}
for frame in (WHERE, IDS, SAMPLES):
    frame.index = LABELS
Y = pd.Series(RNG.uniform(size=N), LABELS)
CLASSES = (Y > 0.5).astype(int)
WEIGHTS = Y.round() + 1


def table_of_ids(**options):
    encoder = CoordinateEncoder(categories=[[*"012345"]] * 2)
    return Recommender(CPCompletion(0, **{**RANGE, **options}), encoder)


def fitted(model, X, y):
    return model.fit(X.to_numpy(), y.to_numpy())


COMPLETION = fitted(CPCompletion(0, **RANGE), WHERE, Y)
OF_USERS = fitted(CPCompletion(0, **USERS), WHERE, Y)
RECOMMENDER = fitted(table_of_ids(), IDS, Y)
SCALER = BiScaler(1.0, random_state=0, shape=(6, 6), value_bounds=(0, 1))
REGRESSION = MultilinearRidge(tensor_shape=(2, 2), **FREE)
CLASSIFIER = MultilinearRidgeClassifier(tensor_shape=(2, 2), classes=[0, 1], **FREE)
REGRESSED = fitted(clone(REGRESSION), SAMPLES, Y)
PIPELINE = make_pipeline(LaplaceMechanism(1.0, bounds=(-1, 1)), Ridge())


def search(estimator=PIPELINE, **options):
    options = {"score_bounds": (-1, 0), "n_iter": 2, **options}
    return PrivateSearchCV(
        estimator, {f"{estimator.steps[-1][0]}__alpha": [1.0]}, **options
    )


def search_of(model, name):
    return PrivateSearchCV(model, {name: [0]}, n_iter=2)


# Doors that take rows and values: what they take as rows, and a function of both.
DOORS = {
    "completion": (WHERE, CPCompletion(0, **RANGE).fit),
    "completion of users": (WHERE, CPCompletion(0, **USERS).fit),
    "batches": (WHERE, lambda X, y: CPCompletion(0, **RANGE).fit_batches([(X, y)])),
    "randomised": (WHERE, CPCompletion(0, **RANGE).fit_randomized),
    "further entries": (
        WHERE, CPCompletion(0, perturbation="input", **RANGE).partial_fit
    ),
    "folded in": (WHERE, OF_USERS.fold_in),
    "party": (
        WHERE, lambda X, y: party(CPCompletion(0, **{**USERS, "epsilon": 1.0}), X, y)
    ),
    "score": (WHERE, COMPLETION.score),
    "fold-in scorer": (WHERE, lambda X, y: make_fold_in_scorer()(OF_USERS, X, y)),
    "ranking scorer": (WHERE, lambda X, y: make_ranking_scorer()(OF_USERS, X, y)),
    "scaler": (WHERE, SCALER.fit),
    "scaled values": (WHERE, fitted(SCALER, WHERE, Y).scale_values),
    "columns with values": (WHERE, columns_with_values),
    "recommender": (IDS, table_of_ids().fit),
    "recommender, folded in": (IDS, RECOMMENDER.fold_in),
    "score of a recommender": (IDS, RECOMMENDER.score),
    "regression": (SAMPLES, REGRESSION.fit),
    "regression in batches": (
        SAMPLES,
        lambda X, y: clone(REGRESSION).set_params(**DECLARED).fit_batches([(X, y)]),
    ),
    "score of a regression": (SAMPLES, REGRESSED.score),
    "classifier": (SAMPLES, CLASSIFIER.fit),
    "score of a classifier": (SAMPLES, fitted(CLASSIFIER, SAMPLES, CLASSES).score),
    "encoder": (SAMPLES, TaskAwareEncoder(1.0).fit),
    "private search": (SAMPLES, lambda X, y: search().fit(X, y)),
    "private search of a completion": (
        WHERE, search_of(CPCompletion(0, value_bounds=(0, 1)), "rank").fit
    ),
    "folds": (WHERE, lambda X, y: [*UserKFold(2).split(X, y)]),
    "private search of a recommender": (
        IDS, search_of(table_of_ids(epsilon=1.0), "completion__rank").fit
    ),
    "search": (
        WHERE,
        lambda X, y: GridSearchCV(
            CPCompletion(0, **RANGE), {"rank": [0]}, cv=2, error_score="raise"
        ).fit(X, y),
    ),
    "validation": (
        SAMPLES,
        lambda X, y: cross_val_score(REGRESSION, X, y, cv=2, error_score="raise"),
    ),
}  # fmt: skip
# Doors that take further columns, by their names.
FURTHER = {
    "weights": ("sample_weight", lambda w: COMPLETION.score(WHERE, Y, w)),
    "weights of ids": ("sample_weight", lambda w: RECOMMENDER.score(IDS, Y, w)),
    "weights of a regression": (
        "sample_weight",
        lambda w: REGRESSED.score(SAMPLES, Y, w),
    ),
    "weights beside arrays": (
        "sample_weight",
        lambda w: REGRESSED.score(SAMPLES.to_numpy(), Y, w),
    ),
    "groups": ("groups", lambda g: search(cv=GroupKFold(2)).fit(SAMPLES, Y, groups=g)),
    "groups of folds": ("groups", lambda g: [*ItemHoldout().split(WHERE, Y, g)]),
    "weights of a search": (
        "ridge__sample_weight",
        lambda w: search().fit(SAMPLES, Y, ridge__sample_weight=w),
    ),
}
MESSAGE = "{} and {} have different labels in their indexes"
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::sktensordp.exceptions.PrivacyLeakWarning"),
]


def others(values):
    """The same rows in another order, others, and those of a column made anew."""
    yield values.iloc[::-1]
    yield values.set_axis(LABELS + 1)
    yield values.reset_index(drop=True)
    yield values.set_axis([f"row {k}" for k in LABELS])
    yield values.set_axis(pd.MultiIndex.from_product([[0], LABELS]))


@pytest.mark.parametrize("door", DOORS)
def test_values_of_other_rows_are_refused(door):
    X, call = DOORS[door]
    for y in others(Y):
        with refused(MESSAGE.format("X", "y"), secret=["row ", str(LABELS[0])]):
            call(X, y)
        with refused(MESSAGE.format("X", "y")):
            call(X.iloc[::-1], Y)


def test_tables_in_another_order_are_not_counted():
    for model, X in [(COMPLETION, WHERE), (RECOMMENDER, IDS)]:
        for y in others(Y):
            with pytest.raises(ValueError, match=MESSAGE.format("X", "y")):
                check_table(model, X, y)
        check_table(model, X, Y)


@pytest.mark.parametrize("door", FURTHER)
def test_further_columns_of_other_rows_are_refused(door):
    name, call = FURTHER[door]
    for column in others(WEIGHTS):
        with refused(f"and {name} have different labels in their indexes"):
            call(column)
    call(WEIGHTS)


@pytest.mark.thorough
@pytest.mark.parametrize("door", DOORS)
def test_what_is_in_order_passes(door):
    """Without labels on one side, with labels made anew, and after a split."""
    X, call = DOORS[door]
    for rows, y in [
        (X, Y),
        (X, Y.to_numpy()),
        (X.to_numpy(), Y),
        (X, Y.tolist()),
        (X.reset_index(drop=True), Y.reset_index(drop=True)),
        (X, Y.set_axis(Y.index.astype(float))),
        (X, pl.Series(Y.to_numpy())),
        (pl.DataFrame(X.rename(columns=str).reset_index(drop=True)), Y),
        train_test_split(X, Y, test_size=0.1, random_state=0)[::2],
    ]:
        call(rows, y)


def test_the_advice_works():
    """Both sides have the same rows: by their labels, or by their places."""
    y = Y.iloc[::-1]
    expected = CPCompletion(0, **RANGE).fit(WHERE, Y).predict(WHERE)
    by_labels = CPCompletion(0, **RANGE).fit(WHERE, y.loc[WHERE.index])
    assert_array_equal(by_labels.predict(WHERE), expected)
    for other in others(Y):
        CPCompletion(0, **RANGE).fit(WHERE, other.to_numpy())


def test_lengths_that_differ_are_refused_as_such():
    with refused("same length"):
        CPCompletion(0, **RANGE).fit(WHERE, Y.iloc[1:])
