"""Labels of a type that equals no declared class are refused, at every door.

Only the type of an array and the declared classes decide, never a label: a list and an
array of objects have no type. What a message advises works. No false alarms are
possible: nothing is drawn.
"""

import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import KFold

from sktensordp.completion import CPCompletion
from sktensordp.model_selection import PrivateSearchCV, expected_error
from sktensordp.moments import MultilinearRidgeClassifier
from sktensordp.recommend import CoordinateEncoder, Recommender
from tests.support.refusing import refused

RNG = np.random.default_rng(0)
N = 60
X = RNG.standard_normal((N, 3)) / 4
SIDES = np.arange(N) % 2


def classifier(classes):
    return MultilinearRidgeClassifier(
        (3,), epsilon=1.0, norm_bound=1.0, classes=classes, random_state=0
    )


def fitted(classes):
    return classifier(classes).fit(X, np.asarray(classes, dtype=object)[SIDES])


def search(classes, y):
    return PrivateSearchCV(
        classifier(classes).set_params(random_state=None),
        {"alpha": [0.1, 1.0]},
        n_iter=2,
        cv=KFold(2, shuffle=True),
    ).fit(X, y)


def recommender(classes, y):
    """The labels are items."""
    model = CPCompletion(0, unit=0, value_bounds=(0, 1), epsilon=math.inf)
    encoder = CoordinateEncoder(categories=[None, list(classes)])
    return Recommender(model, encoder), pd.DataFrame({"u": np.arange(N), "i": y})


def fit_batches(classes, y):
    model, table = recommender(classes, y)
    return model.fit_batches(lambda: [(table, SIDES.astype(float))])


def fit_table(classes, y):
    model, table = recommender(classes, y)
    return model.fit(table, SIDES.astype(float))


DOORS = {
    "fit": lambda classes, y: classifier(classes).fit(X, y),
    "batches": lambda classes, y: classifier(classes).fit_batches([(X, y)]),
    "people": lambda classes, y: classifier(classes).fit(X, y, groups=SIDES),
    "score": lambda classes, y: fitted(classes).score(X, y),
    "expected error": lambda classes, y: expected_error(
        classifier(classes), X, y, epsilons=[1.0]
    ),
    "search": search,
    "recommender": fit_table,
    "batches of a recommender": fit_batches,
}
# Classes, labels that equal none of them by their type, and what is said.
WRONG = {
    "numbers, text": ([0, 1], SIDES.astype(str), "y holds text, but classes are num"),
    "text, numbers": (["0", "1"], SIDES, "y holds numbers, but classes are text"),
    "text, floats": (["0", "1"], SIDES.astype(float), "y holds numbers"),
    "text, booleans": (["False", "True"], SIDES == 1, "y holds booleans"),
    "booleans, text": ([False, True], (SIDES == 1).astype(str), "y holds text"),
    "booleans, numbers": ([False, True], SIDES, "y holds numbers"),
    "bytes, text": ([b"0", b"1"], SIDES.astype(str), "y holds text"),
    "bytes of 8 bits": ([1000, 1001], SIDES.astype(np.uint8), "type uint8"),
    "negative": ([-2, -1], SIDES.astype(np.uint64), "type uint64"),
    "beyond 64 bits": ([2**70, 2**71], SIDES, "type int64"),
    "rounded": ([2049, 4097], SIDES.astype(np.float16), "type float16"),
    "fractions": ([0.5, 1.5], SIDES, "type int64"),
}  # fmt: skip
# Columns of pandas have no such types, and catalogues no such ids.
NOT_IN_FRAMES = ("beyond 64 bits",)
HELD = {
    "all fit": ([0, 1], SIDES.astype(np.uint8)),
    "one fits": ([1, 1000], SIDES.astype(np.uint8)),
    "floats": ([0, 1], SIDES.astype(np.float32)),
    "whole floats": ([0.0, 1.0], SIDES),
    "longer text": (["no", "yes"], np.array(["no", "yes", "maybe"])[SIDES]),
    # NumPy takes this width from the longest label, which may be one person's.
    "shorter text": (["no", "yes"], np.array(["n", "y"])[SIDES]),
    "shorter bytes": ([b"no", b"yes"], np.array([b"n", b"y"])[SIDES]),
    "objects": ([1000, 1001], SIDES.astype(object)),
}
SERIES = {
    "pandas": pd.Series,
    "frame": lambda y: pd.DataFrame({"y": y}),
    "nullable": lambda y: pd.Series(y).convert_dtypes(),
    "pandas of Arrow": lambda y: pd.Series(y).convert_dtypes(dtype_backend="pyarrow"),
    "categories": lambda y: pd.Series(y).astype("category"),
    "polars": pl.Series,
    "polars categories": lambda y: pl.Series(y.astype(str)).cast(pl.Categorical),
    "Arrow": pa.array,
    "chunks": lambda y: pa.chunked_array([pa.array(y)]),
}


def tiered(door):
    """Searches and rehearsals take longer."""
    is_slow = door in ("search", "expected error")
    return pytest.param(door, marks=pytest.mark.thorough) if is_slow else door


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning")
@pytest.mark.parametrize("door", [tiered(door) for door in DOORS])
def test_a_type_that_equals_no_class_is_refused(door):
    is_classifier = "recommender" not in door
    for name, (classes, y, said) in WRONG.items():
        if not is_classifier and name in NOT_IN_FRAMES:
            continue
        message = said if is_classifier else "known ids of column 1|can hold none of"
        if door == "score":  # The fit is a release, its score is none.
            model = fitted(classes)
            with refused(message):
                model.score(X, y)
        else:
            with refused(message):
                DOORS[door](classes, y)


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning")
@pytest.mark.filterwarnings("ignore:Judging by what was released|no rows")
@pytest.mark.parametrize("door", [tiered(d) for d in DOORS if "reco" not in d])
def test_what_may_equal_a_class_is_read(door):
    for classes, y in HELD.values():
        DOORS[door](classes, y)


@pytest.mark.parametrize("container", SERIES)
def test_columns_of_any_library_have_types(container):
    make = SERIES[container]
    with refused("y holds text, but classes are numbers"):
        classifier([0, 1]).fit(X, make(SIDES.astype(str)))
    if container != "polars categories":
        with refused("y holds (numbers|booleans), but classes are text"):
            classifier(["0", "1"]).fit(X, make(SIDES))
        classifier([0, 1]).fit(X, make(SIDES))
    if container not in ("nullable", "pandas of Arrow", "categories"):
        return
    with refused("can hold none of classes"):
        classifier([2**40]).fit(X, make(SIDES.astype(np.int8)))


def test_what_is_advised_works():
    """The first call of the message, or its last words."""
    for name, (classes, y, _) in WRONG.items():
        with pytest.raises(ValueError, match=r"y is of type|y holds") as caught:
            classifier(classes).fit(X, y)
        message = str(caught.value)
        assert not re.search("'n'|'y'|'0'", message)
        call = re.search(r"Pass (np\.asarray\(y\)\.astype\(\w+\))", message)
        if call:
            classifier(classes).fit(X, eval(call[1], {"np": np, "y": y}))
        elif "classes that are" in message:
            classifier(sorted(set(y.tolist()))).fit(X, y)
        else:
            assert "np.array(labels, dtype=object)" in message, name
            labels = [classes[side] for side in SIDES]
            classifier(classes).fit(X, np.array(labels, dtype=object))


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning")
def test_no_value_decides():
    """Lists and objects are read label by label, whatever all of them are."""
    for make in (list, lambda y: np.array(y, dtype=object)):
        for labels in (["0"] * N, ["0"] + [1] * (N - 1), [2**70] * N, [0.5] * N):
            classifier([0, 1]).fit(X, make(labels))
