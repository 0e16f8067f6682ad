"""What is declared has an order: a set is refused where it counts, labels are compared.

No false alarms are possible: nothing is drawn.
"""

import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    TuckerCompletion,
)
from sktensordp.counts import TensorCounts
from sktensordp.mechanisms import (
    LaplaceMechanism,
    TensorRandomizedResponse,
    TensorVariateGaussian,
    estimate_mean,
)
from sktensordp.moments import (
    MultilinearPCA,
    MultilinearRidge,
    MultilinearRidgeClassifier,
)
from sktensordp.papers import BiScaler
from sktensordp.recommend import Recommender
from tests.support.refusing import refused

RNG = np.random.default_rng(0)
N_USERS, N_ITEMS = 20, 6
WHERE = np.argwhere(RNG.random((N_USERS, N_ITEMS)) < 0.6)
Y = RNG.choice([1.0, 2.0, 3.0], size=len(WHERE))
SAMPLES = RNG.uniform(-1, 1, size=(30, 2, 3))
SIDES = RNG.integers(2, size=30)
FREE = {"epsilon": math.inf}
RANGE = {"value_bounds": (1, 3), **FREE}
pytestmark = pytest.mark.filterwarnings(
    "ignore::sktensordp.exceptions.PrivacyLeakWarning"
)


def entries(kind=CPCompletion, **options):
    return kind(**{"rank": 1, "max_iter": 2, **RANGE, **options}).fit(WHERE, Y)


# What is declared, and a fit with it.
DECLARED = {
    "shape": ([20, 6], lambda v: entries(shape=v)),
    "shape of choices": ([20, 6], lambda v: ImplicitCompletion(shape=v).fit(WHERE)),
    "value_bounds": ([1, 3], lambda v: entries(value_bounds=v)),
    "levels": ([3, 1, 2], lambda v: entries(levels=v)),
    "level_prior": (
        [0.2, 0.5, 0.3], lambda v: entries(levels=[3, 1, 2], level_prior=v)
    ),
    "rank": ([2, 2], lambda v: entries(TuckerCompletion, rank=v)),
    "categories": (
        ["b", "a"], lambda v: CoordinateEncoder(categories=[v, None]).fit([["a", 1]])
    ),
    "bounds": ([-1, 1], lambda v: LaplaceMechanism(1.0, bounds=v).fit(SAMPLES)),
    "tensor_shape": (
        [3, 2],
        lambda v: LaplaceMechanism(1.0, bounds=(-1, 1), tensor_shape=v)
        .fit(SAMPLES.reshape(30, 6)),
    ),
    "tensor_shape of moments": (
        [3, 2],
        lambda v: MultilinearPCA(tensor_shape=v, **FREE).fit(SAMPLES.reshape(30, 6)),
    ),
    "n_components": ([2, 1], lambda v: MultilinearPCA(v, **FREE).fit(SAMPLES)),
    "target_bounds": (
        [0, 1], lambda v: MultilinearRidge(target_bounds=v, **FREE).fit(SAMPLES, SIDES)
    ),
    "classes": (
        [1, 0],
        lambda v: MultilinearRidgeClassifier(classes=v, **FREE).fit(SAMPLES, SIDES),
    ),
    "value_bounds of a scaler": (
        [1, 3], lambda v: BiScaler(None, value_bounds=v).fit(WHERE, Y)
    ),
}  # fmt: skip


@pytest.mark.parametrize("door", DECLARED)
def test_what_has_no_order_is_refused_where_it_counts(door):
    values, fit = DECLARED[door]
    message = rf"{door.split()[0]}\b.*(set|keys|iterator|array-like)"
    for make in (set, frozenset, lambda v: dict.fromkeys(v).keys(), iter):
        with refused(message, (TypeError, ValueError)):
            fit(make(values))
    fit(values)


@pytest.mark.parametrize("door", DECLARED)
def test_what_has_an_order_is_read_in_it(door):
    values, fit = DECLARED[door]
    expected = fit(values)
    for make in (tuple, np.array, pd.Series, pd.Index):
        found = fit(make(values))
        assert getattr(found, "shape_", 0) == getattr(expected, "shape_", 0)
        for attribute in ("sample_shape_", "value_bounds_", "classes_"):
            one, other = (getattr(model, attribute, 0) for model in (found, expected))
            assert_array_equal(one, other)


# --- labels of what is declared

LEVELS = [1, 2, 3]
PRIOR = pd.Series([0.2, 0.5, 0.3], LEVELS)
FILMS = ["Brazil", "Heat", "Jaws", "Up", "Vertigo", "Wings"]
FEATURES = pd.DataFrame(RNG.uniform(size=(N_ITEMS, 2)), FILMS)
TABLE = pd.DataFrame({"user": WHERE[:, 0], "item": np.array(FILMS)[WHERE[:, 1]]})
TRUTH = entries(side_information={1: FEATURES.to_numpy()}).predict(WHERE)


def recommender(features, catalogue=FILMS, *, in_list=False):
    declared = [None, features] if in_list else {1: features}
    completion = CPCompletion(1, max_iter=2, side_information=declared, **RANGE)
    encoder = CoordinateEncoder(categories=[None, catalogue])
    return Recommender(completion, encoder)


CATALOGUE = [3, 1, 0, 2, 5, 4]
BY_NUMBER = pd.DataFrame(
    {"user": WHERE[:, 0], "item": np.array(CATALOGUE)[WHERE[:, 1]]}
)
USERS = {"unit": 0, "shape": (N_USERS, N_ITEMS)}


def predicted(rows, model, table=TABLE):
    model = model(rows).fit(table, Y)
    assert clone(model).get_params()["completion__side_information"] is not None
    return model.predict(table)


# Rows with the labels of what they are for, and the predictions of a fit with them.
# The rows are in the order in which a fit uses them.
LOOKED_UP = {
    "prior": (
        PRIOR,
        lambda rows: entries(
            levels=LEVELS, level_prior=rows, perturbation="input", epsilon=1.0,
            random_state=0,
        ).predict(WHERE),
    ),
    "features": (
        FEATURES.set_axis(list(range(N_ITEMS))),
        lambda rows: entries(side_information={1: rows}).predict(WHERE),
    ),
    "features, numbered": (
        FEATURES.reset_index(drop=True),
        lambda rows: entries(side_information={1: rows}).predict(WHERE),
    ),
    "features in a list": (
        FEATURES.set_axis(list(range(N_ITEMS))),
        lambda rows: entries(side_information=[None, rows]).predict(WHERE),
    ),
    "features of users' entries": (
        FEATURES.set_axis(list(range(N_ITEMS))),
        lambda rows: entries(side_information={1: rows}, **USERS).predict(WHERE),
    ),
    "features of a core": (
        FEATURES.set_axis(list(range(N_ITEMS))),
        lambda rows: entries(TuckerCompletion, side_information={1: rows})
        .predict(WHERE),
    ),
    "features of declared ids": (
        FEATURES, lambda rows: predicted(rows, recommender),
    ),
    "features of declared ids in a list": (
        FEATURES,
        lambda rows: predicted(rows, lambda rows: recommender(rows, in_list=True)),
    ),
    "features of learned ids": (
        FEATURES, lambda rows: predicted(rows, lambda rows: recommender(rows, None)),
    ),
    "features of ids that are numbers": (
        FEATURES.set_axis(CATALOGUE),
        lambda rows: predicted(
            rows, lambda rows: recommender(rows, CATALOGUE), BY_NUMBER
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("door", LOOKED_UP)
def test_labelled_rows_are_looked_up(door):
    rows, fit = LOOKED_UP[door]
    expected = fit(rows)
    assert_array_equal(fit(rows.to_numpy()), expected)
    for mixed in (rows.iloc[::-1], rows.sample(frac=1, random_state=1)):
        assert_array_equal(fit(mixed), expected)
        # Without labels, the order is another.
        assert not np.allclose(fit(mixed.to_numpy()), expected)
    # Labels of something else say nothing.
    for labels in ([f"row {k}" for k in range(len(rows))], range(7, 7 + len(rows))):
        assert_array_equal(fit(rows.set_axis(labels)), expected)


@pytest.mark.parametrize("door", LOOKED_UP)
def test_labels_of_some_are_refused_where_they_are_ids(door):
    rows, fit = LOOKED_UP[door]
    labels = [*rows.index[:-1], "another"]
    twice = pd.concat([rows, rows.iloc[:1]])
    if door == "features, numbered":
        return
    with refused("index of .* holds some of .*, but (not all|some twice).*to_numpy"):
        fit(twice)
    if door.startswith("features") and "ids" not in door:
        return  # numbers of rows, of which a file may keep some
    with refused("index of .* holds some of .*, but not all"):
        fit(rows.set_axis(labels))


def test_further_rows_are_left_out():
    further = pd.concat([FEATURES.iloc[::-1], FEATURES.iloc[:2].set_axis(["A", "B"])])
    found = recommender(further).fit(TABLE, Y).predict(TABLE)
    assert_array_equal(found, TRUTH)


def test_a_default_index_says_nothing():
    """Numbers that count rows are no ids, even where ids are numbers, too."""
    rows = FEATURES.set_axis(pd.RangeIndex(N_ITEMS))
    expected = recommender(FEATURES.to_numpy(), CATALOGUE).fit(BY_NUMBER, Y)
    found = recommender(rows, CATALOGUE).fit(BY_NUMBER, Y)
    assert_array_equal(found.predict(BY_NUMBER), expected.predict(BY_NUMBER))


# --- parameters with the names of features

NAMES = [*"abcd"]
NAMED = pd.DataFrame(RNG.uniform(-1, 1, size=(30, 4)), columns=NAMES)
LOW, HIGH = pd.Series([-1.0, -2, -3, -4], NAMES), pd.Series([1.0, 2, 3, 4], NAMES)
OF_FEATURES = {
    "bounds": (
        HIGH, lambda v: LaplaceMechanism(1.0, bounds=(LOW.to_numpy(), v)).fit(NAMED)
    ),
    "bounds of a mean": (
        HIGH,
        lambda v: estimate_mean(
            NAMED, bounds=(LOW.to_numpy(), v)
        ),
    ),
    "utility": (
        HIGH,
        lambda v: TensorVariateGaussian(
            1.0, norm_bound=1.0, utility=[v], tensor_shape=(4,)
        ).fit(NAMED),
    ),
    "columns of utility": (
        pd.DataFrame([HIGH]).T,
        lambda v: TensorVariateGaussian(
            1.0, norm_bound=1.0, utility=[v.T], tensor_shape=(4,)
        ).fit(NAMED),
    ),
    "weights": (
        HIGH.rank() / 4,
        lambda v: TensorRandomizedResponse(
            1.0, bounds=(-1, 1), n_levels=3, weights=v
        ).fit(NAMED),
    ),
    "offset": (
        HIGH,
        lambda v: MultilinearPCA(offset=v, tensor_shape=(4,), **FREE).fit(NAMED),
    ),
    "scale": (
        HIGH, lambda v: MultilinearPCA(scale=v, tensor_shape=(4,), **FREE).fit(NAMED)
    ),
}  # fmt: skip


@pytest.mark.parametrize("door", OF_FEATURES)
def test_parameters_of_features_in_another_order_are_refused(door):
    values, fit = OF_FEATURES[door]
    with refused("holds X.columns in another order. Pass rows.loc"):
        fit(values.iloc[::-1])
    # The advice, another set of labels, and a default index.
    for named in (values.iloc[::-1].loc[NAMES], values.set_axis([*"wxyz"])):
        fit(named)
    fit(values.reset_index(drop=True))


TABLES = {"default": None, "numbers": [0, 1, 2, 3], "whole floats": [0.0, 1, 2, 3]}
OF_TABLES = {
    "another order": [3, 1, 0, 2],
    "from 1": [1, 2, 3, 4],
    "names": [*"abcd"],
    "modes": pd.MultiIndex.from_product([[0, 1], [0, 1]]),
    "tuples": pd.Index([(), (0,), (1,), (0, 1)], tupleize_cols=False),
}


def test_labels_of_weights_of_tables_are_refused():
    """None says what a weight belongs to, so that a frame sorted by it is refused."""
    rows = RNG.integers(2, size=(30, 2))
    expected = TensorCounts(shape=(2, 2), weights=[1, 2, 3, 4], random_state=0)
    expected = expected.fit(rows).marginal((0, 1))
    for index in TABLES.values():
        weights = pd.Series([1.0, 2, 3, 4], index)
        model = TensorCounts(shape=(2, 2), weights=weights, random_state=0).fit(rows)
        assert_array_equal(model.marginal((0, 1)), expected)
    for index in OF_TABLES.values():
        weights = pd.Series([1.0, 2, 3, 4], index)
        for call in (lambda m: m.fit(rows), lambda m: m.expected_std((0, 1))):
            with refused(r"The index of weights is not read\. Pass weights\.to_numpy"):
                call(TensorCounts(shape=(2, 2), weights=weights))
        TensorCounts(shape=(2, 2), weights=weights.to_numpy()).fit(rows)
