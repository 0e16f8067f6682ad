"""Further mistakes of a first hour, a line each: every one is refused or said."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge

from sktensordp.audit import audit_mechanism
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
    make_ranking_scorer,
)
from sktensordp.datasets import make_choices, make_ratings
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    MatrixMechanism,
    TensorRandomizedResponse,
    TensorVariateGaussian,
)
from sktensordp.model_selection import PrivateSearchCV, epsilon_needed, expected_error
from sktensordp.plotting import FactorsDisplay
from sktensordp.privacy import PrivacyBudget, compose, privacy_of
from tests.first_hour.films import FILMS, RATINGS, SHAPE, TABLE, WIDE, X, Y

pytestmark = pytest.mark.thorough
CHOICES = make_choices(60, 40, 600, random_state=0).data
ROWS = np.random.default_rng(0).random((50, 4))
FRAME = pd.DataFrame(ROWS)
TENSORS = ROWS.reshape(10, 5, 4)
TIMES = pd.date_range("2026-01-01", periods=600, freq="h")
HOLES = np.where(np.random.default_rng(1).random(SHAPE) < 0.5, np.nan, 3.0)


def cp(rank=0, **params):
    return CPCompletion(
        rank, **{"epsilon": 8.0, "levels": RATINGS.levels, "random_state": 0, **params}
    )


def bounded(**params):
    return cp(levels=None, **params)


def of_users(**params):
    return cp(unit=0, shape=SHAPE, **params)


def recommender(completion=None, **params):
    return Recommender(completion or cp(), **params)


def for_users(**params):
    encoder = CoordinateEncoder(categories=[None, FILMS])
    options = {"encoder": encoder, **params}
    return Recommender(cp(unit=0), **options)


def laplace(**params):
    return LaplaceMechanism(1.0, **{"bounds": (0, 1), **params})


@pytest.fixture(scope="module")
def model():
    return cp(shape=SHAPE).fit(X, Y)


@pytest.fixture(scope="module")
def by_id():
    return recommender().fit(TABLE, Y)


@pytest.fixture(scope="module")
def by_protected_id():
    return for_users().fit(TABLE, Y)


# What the user did, and what the error says.
FITS = {
    "swapped X and y": (lambda: cp().fit(Y, X), "Expected 2D array"),
    "passed y with two columns": (lambda: cp().fit(X, np.c_[Y, Y]), "y should be a 1d"),
    "passed words as ratings": (lambda: cp().fit(X, ["good"] * 600), "y must hold num"),
    "passed times as ratings": (lambda: cp().fit(X, TIMES), "y must hold numbers"),
    "lost a row of X": (lambda: cp().fit(X[1:], Y), "must have the same length"),
    "left a rating empty": (
        lambda: cp().fit(X, np.r_[np.nan, Y[1:]]),
        "y contains NaN",
    ),
    "divided by zero": (lambda: cp().fit(X, np.r_[np.inf, Y[1:]]), "contains infinity"),
    "transposed X": (lambda: cp().fit(X.T, Y), "must have the same length"),
    "passed users alone": (lambda: cp().fit(X[:, :1], Y), "a minimum of 2 is required"),
    "passed averages as ids": (lambda: cp().fit(X + 0.5, Y), "some are fractional"),
    "subtracted one too often": (lambda: cp().fit(X - 1, Y), "coordinates start at 0"),
    "counted from one": (
        lambda: cp(shape=SHAPE).fit(X + 1, Y),
        "declare a larger shape",
    ),
    "swapped the shape": (lambda: cp(shape=(40, 60)).fit(X, Y), "must be below 40"),
    "passed one number as shape": (lambda: cp(shape=60).fit(X, Y), "array-like"),
    "passed a shape of floats": (
        lambda: cp(shape=(60.0, 40.0)).fit(X, Y),
        "positive i",
    ),
    "asked for no privacy loss": (lambda: cp(epsilon=0).fit(X, Y), "in the range (0.0"),
    "passed epsilon as text": (lambda: cp(epsilon="1").fit(X, Y), "must be a float"),
    "passed a list of epsilons": (lambda: cp(epsilon=[1, 2]).fit(X, Y), "must be a fl"),
    "switched epsilon on": (lambda: cp(epsilon=True).fit(X, Y), "must be a float"),
    "passed a delta of one": (
        lambda: of_users(delta=1.0).fit(X, Y),
        "in the range [0.0",
    ),
    "called the unit by its name": (
        lambda: cp(unit="user").fit(X, Y),
        "among {'entry'}",
    ),
    "switched the unit on": (lambda: cp(unit=True).fit(X, Y), "or an int in the range"),
    "counted modes from one": (
        lambda: cp(unit=2, shape=SHAPE).fit(X, Y),
        "modes 0 to 1",
    ),
    "listed a level twice": (lambda: cp(levels=[1, 3, 3]).fit(X, Y), "distinct"),
    "passed the number of levels": (lambda: cp(levels=5).fit(X, Y), "array-like"),
    "wrote the scale as text": (lambda: cp(levels="1-5").fit(X, Y), "array-like"),
    "swapped the bounds": (
        lambda: bounded(value_bounds=(5, 1)).fit(X, Y),
        "low < high, got (5, 1)",
    ),
    "passed the upper bound alone": (
        lambda: bounded(value_bounds=5).fit(X, Y),
        "array-like",
    ),
    "left the range open": (
        lambda: bounded(value_bounds=(0, np.inf)).fit(X, Y),
        "must be finite",
    ),
    "declared two ranges": (
        lambda: cp(value_bounds=(1, 2)).fit(X, Y),
        "must lie within",
    ),
    "passed a rank for each mode": (lambda: cp((2, 2)).fit(X, Y), "'rank' parameter"),
    "passed a rank too many": (
        lambda: TuckerCompletion((2, 2, 2), levels=[1, 5]).fit(X, Y),
        "for each of the 2 modes",
    ),
    "mistyped the perturbation": (
        lambda: cp(perturbation="inputs").fit(X, Y),
        "a str am",
    ),
    "passed a generator": (
        lambda: cp(random_state=np.random.default_rng(0)).fit(X, Y),
        "'random_state' parameter",
    ),
    "passed counts as a prior": (
        lambda: cp(level_prior=[1] * len(RATINGS.levels)).fit(X, Y),
        "sum to one",
    ),
    "named a mode": (lambda: cp(smooth_modes="time").fit(X, Y), "array-like"),
    "described too few films": (
        lambda: cp(side_information={1: ROWS}).fit(X, Y),
        "must have shape (40, n_features)",
    ),
    "described users": (
        lambda: cp(side_information={0: np.ones((60, 2))}).fit(X, Y),
        "of mode 1 alone",
    ),
    "described films by words": (
        lambda: cp(side_information={1: [["drama"]] * 40}).fit(X, Y),
        "must be an array of numbers",
    ),
    "passed raw ratings as randomised ones": (
        lambda: cp().fit_randomized(X, Y),
        "Pass the output of its privatize",
    ),
    "observed nothing": (lambda: cp().fit(np.full((5, 6), np.nan)), "all are NaN"),
    "passed a tensor of integers": (
        lambda: cp().fit(np.ones((5, 6), int)),
        "cannot mark a missing entry",
    ),
    "forgot the ratings": (lambda: recommender().fit(TABLE), "requires y to be passed"),
    "passed a class": (
        lambda: Recommender(CPCompletion).fit(TABLE, Y),
        "an instance of",
    ),
    "passed a wide table": (lambda: recommender().fit(WIDE, Y), "the same length"),
    "passed a sparse array": (
        lambda: recommender().fit(sparse.coo_array((Y, X.T)), Y),
        "takes a table of ids",
    ),
    "protected users and listed them": (
        lambda: for_users(
            encoder=CoordinateEncoder(categories=[range(100), FILMS])
        ).fit(TABLE, Y),
        "they are not listed",
    ),
    "protected users and asked for unknown ids": (
        lambda: for_users(unknown="error").fit(TABLE, Y),
        "would reveal whether anybody has an id",
    ),
    "protected users and learned them": (
        lambda: recommender(cp(unit=0)).fit(TABLE, Y),
        "CoordinateEncoder(categories=[None, item_ids])",
    ),
    "declared films as text": (
        lambda: CoordinateEncoder(categories=[None, list("abc")]).fit(TABLE),
        "not among categories[1]",
    ),
    "declared films alone": (
        lambda: CoordinateEncoder(categories=FILMS).fit(TABLE),
        "one item for each of the 2 columns",
    ),
    "spelt out the frequency": (
        lambda: CoordinateEncoder(freq="month").fit(TABLE),
        "'freq' parameter",
    ),
    "passed times in milliseconds": (
        lambda: CoordinateEncoder(freq="D").fit(np.c_[X, 1.7e12 + np.arange(600)]),
        "Pass seconds since 1970",
    ),
    "passed dates as text": (
        lambda: CoordinateEncoder(freq="D").fit(TABLE.assign(day="2026-01-01")),
        "must hold times",
    ),
    "rated choices": (
        lambda: Recommender(
            ImplicitCompletion(), CoordinateEncoder(categories=[None, FILMS])
        ).fit(TABLE, np.ones(600)),
        "takes no y",
    ),
    "left ratings beside choices": (
        lambda: ImplicitCompletion(shape=SHAPE).fit(np.c_[X, Y]),
        "X must have two columns",
    ),
    "passed choices as a table of zeros and ones": (
        lambda: ImplicitCompletion(shape=SHAPE).fit(np.ones(SHAPE)),
        "X must have two columns",
    ),
    "passed choices without a shape": (
        lambda: ImplicitCompletion().fit(CHOICES),
        "`shape` is not declared",
    ),
}
OTHERS = {
    "swapped the bounds of a mechanism": (
        lambda: laplace(bounds=(1, 0)).fit(ROWS),
        "low < high in every entry, got (1, 0)",
    ),
    "passed a pair of bounds for each of two columns": (
        lambda: laplace(bounds=[(0, 1), (2, 3)]).fit(ROWS[:, :2]),
        "not one pair for each column",
    ),
    "passed a pair of bounds for each of four columns": (
        lambda: laplace(bounds=[(0, 1)] * 4).fit(ROWS),
        "tuple(zip(*pairs))",
    ),
    "passed one bound": (lambda: laplace(bounds=1).fit(ROWS), "array-like"),
    "declared bounds and a sensitivity": (
        lambda: laplace(sensitivity=1.0).fit(ROWS),
        "declare it alone",
    ),
    "passed one column as a vector": (lambda: laplace().fit(ROWS[:, 0]), "Expected 2D"),
    "forgot to fit": (lambda: laplace().transform(ROWS), "not fitted yet"),
    "transformed other columns": (
        lambda: laplace().fit(ROWS).transform(ROWS[:, :2]),
        "2 features, but",
    ),
    "left an entry of a frame empty": (
        lambda: laplace().fit(FRAME).transform(FRAME.where(ROWS < 0.9)),
        "X.isna().any() shows the columns",
    ),
    "left times in a frame": (
        lambda: laplace().fit(pd.DataFrame({"when": TIMES, "x": 1.0})),
        "it holds Timestamp",
    ),
    "asked Gaussian noise for a delta of zero": (
        lambda: GaussianMechanism(1.0, delta=0.0, bounds=(0, 1)).fit(ROWS),
        "(0.0, 1.0)",
    ),
    "asked for one level": (
        lambda: TensorRandomizedResponse(1.0, bounds=(0, 1), n_levels=1).fit(ROWS),
        "'n_levels' parameter",
    ),
    "passed words to randomised response": (
        lambda: TensorRandomizedResponse(1.0, bounds=(0, 1)).fit([["yes"], ["no"]]),
        "X must hold numbers",
    ),
    "passed a workload for fewer cells": (
        lambda: MatrixMechanism(1.0, delta=1e-6, workload=np.eye(3)).fit(ROWS),
        "covers 3 cells",
    ),
    "passed too few utilities": (
        lambda: TensorVariateGaussian(
            1.0, delta=1e-6, bounds=(0, 1), utility=[np.ones(5)]
        ).fit(TENSORS),
        "one item for each of the 2 modes",
    ),
    "passed a list of budgets": (lambda: PrivacyBudget([1.0]), "must be one number"),
    "passed a negative budget": (lambda: PrivacyBudget(-1.0), "must be > 0"),
    "spent a number": (lambda: PrivacyBudget(1.0).spend(2), "a PrivacyGuarantee"),
    "composed nothing": (compose, "at least one guarantee"),
    "asked for the privacy of a class": (
        lambda: privacy_of(CPCompletion),
        "Pass a fitted",
    ),
    "asked for the privacy of a new model": (lambda: privacy_of(cp()), "Pass a fitted"),
    "asked for the privacy of another model": (
        lambda: privacy_of(Ridge().fit(ROWS, ROWS[:, 0])),
        "gives a guarantee",
    ),
    "named a task": (
        lambda: TaskAwareEncoder(1.0, task="classify").fit(ROWS),
        "task must hold numbers",
    ),
    "passed a task that is not fitted": (
        lambda: TaskAwareEncoder(1.0, task=LogisticRegression()).fit(ROWS),
        "has not been fitted",
    ),
    "passed a task for fewer columns": (
        lambda: TaskAwareEncoder(1.0, task=np.ones((1, 3))).fit(ROWS),
        "one column for each of the 4",
    ),
    "passed labels of other rows": (
        lambda: TaskAwareEncoder(1.0).fit(ROWS, ROWS[:9, 0]),
        "for each of the 50 samples",
    ),
    "decoded raw rows": (
        lambda: TaskAwareEncoder(1.0).fit(ROWS, ROWS[:, 0]).decode(ROWS),
        "Z must have 1 components",
    ),
    "asked for the error with raw ids": (
        lambda: expected_error(cp(), TABLE.assign(user="ann"), epsilons=[1]),
        "encode them",
    ),
    "asked for the error without a scale": (
        lambda: expected_error(bounded(), X, epsilons=[1]),
        "Declare value_bounds or levels",
    ),
    "asked for the error at one epsilon": (
        lambda: expected_error(cp(), X, epsilons=1.0),
        "a list of positive numbers",
    ),
    "asked for too small an error": (
        lambda: epsilon_needed(cp(), X, error=0.01),
        "Pass a larger error",
    ),
    "swapped the bounds of scores": (
        lambda: PrivateSearchCV(cp(), {"rank": [0]}, score_bounds=(0, -1)).fit(X, Y),
        "the lower first",
    ),
    "audited one input twice": (
        lambda: audit_mechanism(lambda x: x, [0.0], [0.0], epsilon=1.0),
        "x and x_neighbour are equal",
    ),
    "audited a number": (
        lambda: audit_mechanism(3, [0.0], [1.0], epsilon=1.0),
        "must be a function",
    ),
    "audited a few runs": (
        lambda: audit_mechanism(lambda x: x, [0.0], [1.0], epsilon=1.0, n_trials=3),
        "at least 40",
    ),
    "drew a model that is not fitted": (
        lambda: FactorsDisplay.from_estimator(cp()),
        "not fitted yet",
    ),
    "mistyped a score": (lambda: make_ranking_scorer("recal"), "must be one of"),
    "made too many ratings": (lambda: make_ratings(3, 3, 100), "at most n_users"),
}
ASKED = {
    "asked for a user who is not there": (lambda m: m[0].recommend(1000), "below 60"),
    "asked for no films": (lambda m: m[0].recommend(3, k=0), "a positive integer"),
    "predicted one pair": (lambda m: m[0].predict([3, 4]), "Expected 2D array"),
    "predicted with a column more": (lambda m: m[0].predict([[1, 2, 3]]), "3 features"),
    "predicted outside": (lambda m: m[0].predict([[100, 3]]), "below 60"),
    "folded in outside": (lambda m: m[0].fold_in([[3, 100]], [3]), "below 40"),
    "scored without ratings": (lambda m: m[0].score(X), "score needs y"),
    "recommended to a table": (
        lambda m: m[1].recommend(TABLE),
        "an id or a list of ids",
    ),
    "swapped columns by name": (
        lambda m: m[1].predict(TABLE[["film", "user"]]),
        "feature names should match",
    ),
    "folded in without ratings": (lambda m: m[2].fold_in(TABLE), "requires y"),
    "composed two units": (
        lambda m: compose(m[0].privacy_guarantee_, m[2].privacy_guarantee_),
        "do not compose",
    ),
    "asked for epsilon at a delta of two": (
        lambda m: m[0].privacy_guarantee_.epsilon_at(2),
        "delta must be in [0, 1)",
    ),
    "drew a recommender": (
        lambda m: FactorsDisplay.from_estimator(m[1]),
        "from a Recommender, completion_",
    ),
}


@pytest.mark.parametrize(("did", "said"), [*FITS.values(), *OTHERS.values()],
                         ids=[*FITS, *OTHERS])  # fmt: skip
def test_was_told_what_to_do_who(did, said):
    with pytest.raises((AttributeError, TypeError, ValueError)) as caught:
        did()
    assert said in str(caught.value)


@pytest.mark.parametrize(("did", "said"), ASKED.values(), ids=ASKED)
def test_was_told_what_to_do_who_had_fitted_and(
    model, by_id, by_protected_id, did, said
):
    with pytest.raises((AttributeError, TypeError, ValueError), match=re.escape(said)):
        did((model, by_id, by_protected_id))


WARNED = {
    "took levels for bounds": (
        lambda: cp(levels=(1, 5)).fit(X, Y),
        "rounds every value to 1 or 5",
    ),
    "declared no bounds": (lambda: laplace(bounds=None).fit(ROWS), "pass bounds"),
    "filled gaps with zeros": (lambda: cp().fit(WIDE.fillna(0.0)), "0 as a value"),
    "filled gaps with -1": (lambda: cp().fit(WIDE.fillna(-1.0)), "Put NaN where"),
    "filled gaps with 999": (
        lambda: cp().fit(np.nan_to_num(HOLES, nan=999.0)),
        "no NaN",
    ),
    "kept the index of a frame": (
        lambda: recommender().fit(TABLE.reset_index(), Y),
        "'index' hardly repeat",
    ),
    "swapped users and films": (
        lambda: for_users().fit(TABLE[["film", "user"]], Y),
        "the first is 'film' and the second 'user'",
    ),
    "binned films as times": (
        lambda: CoordinateEncoder(freq="D").fit(TABLE),
        "All times fall into one bin",
    ),
    "binned years as seconds": (
        lambda: CoordinateEncoder(freq="Y").fit(np.c_[X, 2000 + X[:, 0]]),
        "seconds since 1970",
    ),
    "took days since 1970 for seconds": (
        lambda: CoordinateEncoder(freq="D").fit(np.c_[X, 20_000 + X[:, 0]]),
        "seconds since 1970",
    ),
}


# A column that was left in stands where users are expected.
@pytest.mark.filterwarnings("ignore:Users are taken from the first column:UserWarning")
@pytest.mark.parametrize(("did", "said"), WARNED.values(), ids=WARNED)
def test_was_warned_who(did, said):
    with pytest.warns(UserWarning, match=re.escape(said)):
        did()
