"""Tables in any container, at every door: read as frames, or refused by name.

Who refuses a query, or what has no order, names the call that makes a table, and the
call works. Columns that have names in one container have them in all, so that a model
that was fitted to one says nothing about another. No false alarms are possible: noise
is not drawn, or what it decides is not looked at.
"""

import math
import re
import warnings
from copy import deepcopy
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from numpy.testing import assert_array_equal

from sktensordp.completion import CPCompletion, ImplicitCompletion, check_table
from sktensordp.counts import TensorCounts
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.exceptions import AveragesOnlyWarning
from sktensordp.mechanisms import (
    LaplaceMechanism,
    TensorRandomizedResponse,
    estimate_mean,
)
from sktensordp.model_selection import (
    ItemHoldout,
    PrivateSearchCV,
    UserKFold,
    check_samples,
    expected_error,
)
from sktensordp.moments import (
    MultilinearPCA,
    MultilinearRidge,
    MultilinearRidgeClassifier,
)
from sktensordp.recommend import CoordinateEncoder, Recommender
from tests.support.refusing import refused

duckdb = pytest.importorskip("duckdb")

RNG = np.random.default_rng(0)
SHAPE = (12, 9)
WHERE = np.argwhere(RNG.random(SHAPE) < 0.5)
VALUES = pd.Series(RNG.uniform(size=len(WHERE)))
NUMBERS = pd.DataFrame(WHERE, columns=["user", "item"])
FILMS = [f"film {k}" for k in range(SHAPE[1])]
IDS = pd.DataFrame({"user": WHERE[:, 0], "item": np.array(FILMS)[WHERE[:, 1]]})
SAMPLES = pd.DataFrame(RNG.uniform(-1, 1, size=(40, 4)), columns=[*"abcd"])
SIDES = pd.Series((SAMPLES["a"] > 0).astype(int))
FREE = {"epsilon": math.inf}
BOUNDS = {"bounds": (-1, 1), "random_state": 0}
NORM = {"norm_bound": 2.0, "tensor_shape": (4,), **FREE}


def completion(**options):
    return CPCompletion(1, value_bounds=(0, 1), max_iter=2, **FREE, **options)


def recommender(kind=completion):
    encoder = CoordinateEncoder(categories=[None, FILMS])
    return Recommender(kind(unit=0), encoder)


def choices():
    encoder = CoordinateEncoder(categories=[None, FILMS])
    return Recommender(ImplicitCompletion(**FREE), encoder)


def search(X, y=SIDES, **params):
    model = MultilinearRidge((4,), norm_bound=2.0, target_bounds=(0, 1))
    grid = {"alpha": [0.1, 1.0]}
    model = PrivateSearchCV(model, grid, n_iter=2, score_bounds=(-1, 0))
    return model.fit(X, y, **params)


def check_of_table(X):
    return check_table(Recommender(completion()), X, VALUES)


LAPLACE = LaplaceMechanism(1.0, **BOUNDS)
PCA, RIDGE = MultilinearPCA((2,), **NORM), MultilinearRidge((4,), **NORM)
CLASSIFIER = MultilinearRidgeClassifier((4,), classes=[0, 1], **NORM)
ENCODER, COUNTS = TaskAwareEncoder(4.0), TensorCounts(shape=SHAPE, **FREE)
# By name: a table, and a call that reads it.
FITS = {
    "completion": (NUMBERS, lambda X: completion(shape=SHAPE).fit(X, VALUES)),
    "choices": (NUMBERS, ImplicitCompletion(shape=SHAPE, **FREE).fit),
    "recommender": (IDS, lambda X: recommender().fit(X, VALUES)),
    "public ids": (IDS, lambda X: Recommender(completion()).fit(X, VALUES)),
    "choices of ids": (IDS, lambda X: choices().fit(X)),
    "ids": (IDS, CoordinateEncoder().fit),
    "counts": (NUMBERS, TensorCounts(shape=SHAPE).fit),
    "counts without noise": (NUMBERS, COUNTS.fit),
    "mechanism": (SAMPLES, LAPLACE.fit),
    "responses": (SAMPLES, TensorRandomizedResponse(1.0, **BOUNDS).fit),
    "PCA": (SAMPLES, PCA.fit),
    "ridge": (SAMPLES, lambda X: RIDGE.fit(X, SIDES)),
    "classes": (SAMPLES, lambda X: CLASSIFIER.fit(X, SIDES)),
    "encoder": (SAMPLES, ENCODER.fit),
}
FITTED = {name: fit(table) for name, (table, fit) in FITS.items()}
USES = {
    "predict": (NUMBERS, FITTED["completion"].predict),
    "score": (NUMBERS, lambda X: FITTED["completion"].score(X, VALUES)),
    "predict of ids": (IDS, FITTED["recommender"].predict),
    "predict of public ids": (IDS, FITTED["public ids"].predict),
    "score of ids": (IDS, lambda X: FITTED["public ids"].score(X, VALUES)),
    "transform of ids": (IDS, FITTED["ids"].transform),
    "score of counts": (NUMBERS, FITTED["counts without noise"].score),
    "transform": (SAMPLES, FITTED["mechanism"].transform),
    "transform of responses": (SAMPLES, FITTED["responses"].transform),
    "transform of PCA": (SAMPLES, FITTED["PCA"].transform),
    "score of PCA": (SAMPLES, FITTED["PCA"].score),
    "predict of ridge": (SAMPLES, FITTED["ridge"].predict),
    "score of ridge": (SAMPLES, lambda X: FITTED["ridge"].score(X, SIDES)),
    "predict of classes": (SAMPLES, FITTED["classes"].predict),
    "probabilities": (SAMPLES, FITTED["classes"].predict_proba),
    "score of classes": (SAMPLES, lambda X: FITTED["classes"].score(X, SIDES)),
    "privatize": (SAMPLES, FITTED["encoder"].privatize),
    "decode": (SAMPLES.iloc[:, : FITTED["encoder"].n_components_],
               FITTED["encoder"].decode),
}  # fmt: skip
OTHERS = {
    "fold_in": (IDS, lambda X: deepcopy(FITTED["recommender"]).fold_in(X, VALUES)),
    "batches": (IDS, lambda X: recommender().fit_batches([(X, VALUES)])),
    "batches of choices": (IDS, lambda X: choices().fit_batches([X])),
    "batches of counts": (NUMBERS, lambda X: COUNTS.fit_batches([X])),
    "batches of samples": (SAMPLES, lambda X: PCA.fit_batches([X])),
    "mean": (SAMPLES, partial(estimate_mean, bounds=(-1, 1))),
    "check_table": (IDS, check_of_table),
    "check_samples": (SAMPLES, partial(check_samples, LAPLACE)),
    "expected_error": (SAMPLES, lambda X: expected_error(LAPLACE, X, epsilons=[1.0])),
    "holdout": (IDS, lambda X: list(ItemHoldout(random_state=0).split(X))),
    "folds": (IDS, lambda X: list(UserKFold(3, random_state=0).split(X))),
    "search": (SAMPLES, search),
}  # fmt: skip
# What is not X: one for each row, or a declared list.
COLUMNS = {
    "y of a completion": (VALUES, lambda y: completion(shape=SHAPE).fit(NUMBERS, y)),
    "y of a recommender": (VALUES, lambda y: recommender().fit(IDS, y)),
    "y of a batch": (VALUES, lambda y: recommender().fit_batches([(IDS, y)])),
    "y of ridge": (SIDES, lambda y: RIDGE.fit(SAMPLES, y)),
    "y of classes": (SIDES, lambda y: CLASSIFIER.fit(SAMPLES, y)),
    "y of an encoder": (SIDES, lambda y: ENCODER.fit(SAMPLES, y)),
    "y of a score": (SIDES, lambda y: FITTED["classes"].score(SAMPLES, y)),
    "y of a search": (SIDES, partial(search, SAMPLES)),
    "sample_weight": (
        VALUES, lambda w: FITTED["completion"].score(NUMBERS, VALUES, w)
    ),
    "sample_weight of classes": (
        VALUES[:40], lambda w: FITTED["classes"].score(SAMPLES, SIDES, w)
    ),
    "sample_weight of ridge": (
        VALUES[:40], lambda w: FITTED["ridge"].score(SAMPLES, SIDES, w)
    ),
    "groups": (SIDES, lambda g: CLASSIFIER.fit(SAMPLES, SIDES, groups=g)),
    "groups of PCA": (SIDES, lambda g: PCA.fit(SAMPLES, groups=g)),
    "groups of folds": (
        SIDES, lambda g: list(UserKFold(3).split(IDS[:40], None, g))
    ),
}  # fmt: skip
DOORS = {**FITS, **USES, **OTHERS}
# They refuse to run where a budget is open, or read batches after their record.
UNRECORDED = "check_table", "check_samples", "batches of counts"


def arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


TABLES = {
    "polars": pl.from_pandas,
    "Arrow": arrow,
    "record batch": lambda frame: arrow(frame).combine_chunks().to_batches()[0],
}
QUERIES = {
    "LazyFrame": lambda frame: pl.from_pandas(frame).lazy(),
    "DuckDBPyRelation": duckdb.from_df,
    "RecordBatchReader": lambda frame: arrow(frame).to_reader(),
    "InMemoryDataset": lambda frame: pa.dataset.dataset(arrow(frame)),
    "Scanner": lambda frame: pa.dataset.dataset(arrow(frame)).scanner(),
}
WITHOUT_ORDER = {
    "set": lambda frame: set(map(tuple, frame.to_numpy().tolist())),
    "dict": lambda frame: frame.to_dict("list"),
    "iterator": lambda frame: iter(frame.to_numpy().tolist()),
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:check_(table|samples) is not private"),
    pytest.mark.filterwarnings("ignore:MultilinearRidge.*|target_bounds is not"),
    pytest.mark.filterwarnings("ignore::polars.exceptions.PerformanceWarning"),
]


def tiered(doors):
    """Searches take longer."""
    return [
        pytest.param(door, marks=[pytest.mark.thorough] * ("search" in door))
        for door in doors
    ]


def called(call, values):
    """The answer; only noise may be warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AveragesOnlyWarning)
        return call(values)


@pytest.mark.parametrize("door", tiered(DOORS))
def test_tables_are_read_as_frames(door):
    frame, call = DOORS[door]
    expected = called(call, frame)
    for make in TABLES.values():
        found = called(call, make(frame))
        names = getattr(expected, "feature_names_in_", ())
        assert_array_equal(getattr(found, "feature_names_in_", ()), names)
        if door in ("predict", "predict of ids", "transform of ids", "score of PCA"):
            assert_array_equal(found, expected)


@pytest.mark.parametrize("door", FITS)
@pytest.mark.parametrize("first", TABLES)
def test_a_model_of_one_container_is_used_with_another(door, first):
    """No warning that names are missing, and the same answers."""
    frame, fit = FITS[door]
    model = called(fit, TABLES[first](frame))
    ask = getattr(model, "predict", None) or getattr(model, "transform", model.fit)
    expected = np.asarray(FITTED[door].n_features_in_)
    for make in (lambda table: table, *TABLES.values()):
        called(ask, make(frame))
        assert model.n_features_in_ == expected


@pytest.mark.parametrize("door", tiered(DOORS))
def test_queries_are_refused_by_name_and_what_is_advised_works(door):
    frame, call = DOORS[door]
    for kind, make in QUERIES.items():
        if door not in UNRECORDED:
            with refused("holds no values yet", TypeError):
                call(make(frame))
        said = rf"a {kind}, which holds no values yet"
        with pytest.raises(TypeError, match=said) as caught:
            call(make(frame))
        advised = re.search(r"(\w+)\.(\w+\(\))\.$", str(caught.value))
        called(call, eval(f"table.{advised[2]}", {"table": make(frame)}))


@pytest.mark.parametrize("door", tiered(DOORS))
def test_what_has_no_order_is_no_table(door):
    frame, call = DOORS[door]
    for make in WITHOUT_ORDER.values():
        said = "Pass an array|DataFrame"
        with (
            pytest.raises(TypeError, match=said)
            if door in UNRECORDED
            else refused(said, TypeError)
        ):
            call(make(frame))


@pytest.mark.parametrize("door", tiered(COLUMNS))
def test_columns_are_read_or_refused_by_name(door):
    series, call = COLUMNS[door]
    name = door.split()[0]
    for make in (pl.from_pandas, pa.Array.from_pandas, lambda s: pa.chunked_array([s])):
        called(call, make(series))
    for kind, make in QUERIES.items():
        table = make(series.to_frame("v"))
        with refused(rf"^{name} is a {kind}, which holds no values yet", TypeError):
            call(table)
    for make in (set, frozenset, iter, lambda s: dict(enumerate(s))):
        with refused(f"^{name} is a ", TypeError):
            call(make(series))
