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
from sktensordp.mechanisms import LaplaceMechanism
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


def test_priors_in_the_order_of_other_levels_are_refused():
    def fit(prior):
        return entries(levels=LEVELS, level_prior=prior, perturbation="input")

    by_frequency = PRIOR.sort_values(ascending=False)
    with refused("index of level_prior holds levels in another order"):
        fit(by_frequency)
    expected = fit(PRIOR.tolist()).predict(WHERE)
    for prior in (PRIOR, by_frequency.loc[LEVELS], PRIOR.set_axis([*"abc"])):
        assert_array_equal(fit(prior).predict(WHERE), expected)
    fit(by_frequency.to_numpy())


def test_features_in_another_order_are_refused():
    numbered = FEATURES.reset_index(drop=True)
    mixed = numbered.sample(frac=1, random_state=1)
    message = "index of side_information of mode 1 holds range"
    with refused(message):
        entries(side_information={1: mixed})
    with refused(message):
        entries(side_information=[None, mixed], unit=0, shape=(N_USERS, N_ITEMS))
    # The advice, and labels of something else.
    chosen = numbered.set_axis([3, 7, 8, 11, 15, 16])
    for rows in (mixed.loc[range(len(mixed))], numbered, FEATURES, chosen):
        found = entries(side_information={1: rows})
        assert_array_equal(found.predict(WHERE), TRUTH)
    entries(side_information={1: mixed.to_numpy()})


@pytest.mark.parametrize("in_list", [False, True])
@pytest.mark.parametrize("catalogue", [FILMS, None], ids=["declared", "learned"])
def test_features_of_ids_in_another_order_are_refused(catalogue, in_list):
    model = recommender(FEATURES.iloc[::-1], catalogue, in_list=in_list)
    of = r"categories\[1\]" if catalogue else r"sorted\(ids of column 1\)"
    with refused(f"index of side_information of mode 1 holds {of} in another order"):
        model.fit(TABLE, Y)
    # The order of the catalogue counts, and no numbers of rows.
    renumbered = FEATURES.set_axis([5, 4, 3, 2, 1, 0])
    for rows in (FEATURES, FEATURES.iloc[::-1].loc[FILMS], renumbered):
        found = recommender(rows, catalogue, in_list=in_list).fit(TABLE, Y)
        assert_array_equal(found.predict(TABLE), TRUTH)
    plain = recommender(FEATURES.to_numpy(), catalogue, in_list=in_list).fit(TABLE, Y)
    assert_array_equal(plain.predict(TABLE), TRUTH)
    assert clone(plain).get_params()["completion__side_information"] is not None


def test_features_of_numbered_ids_are_those_of_their_catalogue():
    catalogue = [3, 1, 0, 2, 5, 4]
    ids = pd.DataFrame({"user": WHERE[:, 0], "item": np.array(catalogue)[WHERE[:, 1]]})
    rows = FEATURES.set_axis(catalogue)
    found = recommender(rows, catalogue).fit(ids, Y)
    assert_array_equal(found.predict(ids), TRUTH)
    with refused("in another order"):
        recommender(rows.sort_index(), catalogue).fit(ids, Y)
