"""Lists in any container: the answer is that to the plain list, or it is refused.

Who refuses says what to pass, and what it says works. No false alarms are possible:
the models have no noise.
"""

import math
import re
from array import array
from collections import UserList, deque

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, GroupShuffleSplit
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder, CPCompletion, ImplicitCompletion
from sktensordp.ids import numbers_of
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.recommend import Recommender
from tests.ids.test_doors import ODD
from tests.support.refusing import refused

duckdb = pytest.importorskip("duckdb")

RNG = np.random.default_rng(0)
SHAPE = (12, 9)
WHERE = np.argwhere(RNG.random(SHAPE) < 0.5)
Y = RNG.uniform(size=len(WHERE))
FREE = {"epsilon": math.inf}
RANGE = {"value_bounds": (0, 1), "max_iter": 3, **FREE}
CATALOGUES = {
    "numbers": [100 + k for k in range(SHAPE[1])],
    "text": [f"film {k}" for k in range(SHAPE[1])],
    "bytes": [f"film {k}".encode() for k in range(SHAPE[1])],
}


def of_ids(kind):
    catalogue = CATALOGUES[kind]
    rows = [[catalogue[user % 9], catalogue[item]] for user, item in WHERE]
    table = np.empty((len(rows), 2), dtype=object)
    table[:] = rows
    encoder = CoordinateEncoder(categories=[None, catalogue])
    return Recommender(CPCompletion(1, unit=0, **RANGE), encoder).fit(table, Y)


MODELS = {
    "entries": CPCompletion(1, shape=SHAPE, **RANGE).fit(WHERE, Y),
    "users": CPCompletion(1, unit=0, shape=SHAPE, **RANGE).fit(WHERE, Y),
    "choices": ImplicitCompletion(shape=SHAPE, **FREE).fit(WHERE),
    **{kind: of_ids(kind) for kind in CATALOGUES},
}


def ids_of(name):
    return CATALOGUES.get(name, list(range(SHAPE[1])))


def keys(values):
    return dict.fromkeys(values).keys()


ORDERED = {
    "tuple": tuple,
    "deque": deque,
    "list of another class": UserList,
    "array": np.array,
    "array of objects": lambda values: np.array(values, dtype=object),
    "Series": pd.Series,
    "Series of objects": lambda values: pd.Series(values, dtype=object),
    "Series in another order": lambda values: pd.Series(
        values, range(len(values), 0, -1)
    ),
    "nullable": lambda values: pd.Series(values).convert_dtypes(),
    "Index": pd.Index,
    "Categorical": pd.Categorical,
    "categories": lambda values: pd.Series(values, dtype="category"),
    "Arrow scalars": lambda values: list(map(pa.scalar, values)),
    "Arrow scalars as objects": lambda values: np.fromiter(
        map(pa.scalar, values), object, len(values)
    ),
    "polars": pl.Series,
    "polars objects": lambda values: pl.Series(values, dtype=pl.Object),
    "pyarrow": pa.array,
    "chunks": lambda values: pa.chunked_array([values[:1], values[1:]]),
}
# Of numbers only.
NUMBERS = {
    "floats": lambda values: np.array(values, dtype=float),
    "small": np.int8,
    "unsigned": np.uint64,
    "bytes of a buffer": lambda values: memoryview(np.array(values)),
    "plain array": lambda values: array("q", values),
}
WITHOUT_ORDER = {
    "set": set,
    "frozenset": frozenset,
    "keys": keys,
    "values": lambda values: dict(enumerate(values)).values(),
    "generator": lambda values: (value for value in values),
    "iterator": iter,
}
QUERIES = {
    "LazyFrame": lambda values: pl.LazyFrame({"a": values}),
    "DuckDBPyRelation": lambda values: duckdb.from_df(pd.DataFrame({"a": values})),
    "RecordBatchReader": lambda values: pa.table({"a": values}).to_reader(),
}
OTHERS = {
    "dict": lambda values: dict.fromkeys(values, 0),
    "frame": lambda values: pd.DataFrame({"a": values}),
    "frame of polars": lambda values: pl.DataFrame({"a": values}),
    "column": lambda values: np.reshape(values, (-1, 1)),
    "masked": lambda values: np.ma.array(
        values, mask=[True, *[False] * (len(values) - 1)]
    ),
}
CONTAINERS = {**ORDERED, **NUMBERS, **WITHOUT_ORDER, **OTHERS}
DOORS = {
    "units": lambda model, values: model.recommend(values, 4),
    "items": lambda model, values: model.similar_items(values, 4),
    "candidates": lambda model, values: model.recommend(
        [None, None] if isinstance(model, Recommender) else [0, 1], 4, candidates=values
    ),
    "exclude": lambda model, values: model.recommend(
        [None, None] if isinstance(model, Recommender) else [0, 1], 4, exclude=values
    ),
}  # fmt: skip
pytestmark = [
    pytest.mark.filterwarnings("ignore:Some of these ids are ids of items"),
    pytest.mark.filterwarnings("ignore:Some of these items are unknown"),
    pytest.mark.filterwarnings("ignore:No candidate is known"),
]
doors = pytest.mark.parametrize("door", DOORS)
models = pytest.mark.parametrize("name", MODELS)


def answer(ask, model, values):
    """The answer and None, or None and what is said in its place."""
    try:
        return ask(model, values), None
    except (TypeError, ValueError) as error:
        return None, str(error)


@doors
@models
def test_any_container_is_read_as_its_list_or_refused(name, door):
    model, ask, ids = MODELS[name], DOORS[door], ids_of(name)[2:7][::-1]
    expected = ask(model, ids)
    has_order = door in ("units", "items")
    read = set()
    for container, make in CONTAINERS.items():
        if container in NUMBERS and not isinstance(ids[0], int):
            continue
        values = make(ids if container != "small" or ids[0] < 99 else [100, 101])
        plain = [100, 101] if container == "small" and ids[0] > 99 else ids
        found, refusal = answer(ask, model, values)
        if refusal:
            assert container in OTHERS or (container in WITHOUT_ORDER and has_order)
            # The advice on masked entries is to leave them out.
            assert "list" in refusal or container == "masked"
            assert "astype" not in refusal
            continue
        read.add(container)
        assert_array_equal(found, ask(model, plain) if plain is not ids else expected)
    assert read >= ORDERED.keys()
    assert has_order or read >= WITHOUT_ORDER.keys()


@doors
@models
def test_a_query_is_refused_by_name_and_what_is_advised_works(name, door):
    model, ask, ids = MODELS[name], DOORS[door], ids_of(name)[2:7]
    expected = ask(model, ids)
    for kind, make in QUERIES.items():
        with refused(f"{door} is a {kind}, which holds no values", TypeError):
            ask(model, make(ids))
        with pytest.raises(TypeError) as caught:
            ask(model, make(ids))
        call = re.search(r"\.(\w+)\(\)\.$", str(caught.value))[1]
        if (name, kind) == ("bytes", "DuckDBPyRelation"):
            continue  # its bytes are arrays of them
        assert_array_equal(ask(model, getattr(make(ids), call)()), expected)


NESTED = {
    "tuples": lambda lists: tuple(map(list, lists)),
    "sets": lambda lists: [set(one) for one in lists],
    "keys": lambda lists: [keys(one) for one in lists],
    "arrays": lambda lists: [np.array(one) for one in lists],
    "objects": lambda lists: [np.array(one, dtype=object) for one in lists],
    "an array of arrays": lambda lists: np.fromiter(
        map(np.array, lists), object, len(lists)
    ),
    "Series": lambda lists: [pd.Series(one) for one in lists],
    "a Series of lists": pd.Series,
    "polars": lambda lists: [pl.Series(one) for one in lists],
    "a Series of polars": pl.Series,
    "pyarrow": pa.array,
    "pyarrow arrays": lambda lists: list(map(pa.array, lists)),
    "generator": lambda lists: (one for one in lists),
    "frozensets in a set": lambda lists: set(map(frozenset, lists)),
    "dict": lambda lists: dict(enumerate(lists)),
    "values of a dict": lambda lists: dict(enumerate(lists)).values(),
}  # fmt: skip


@pytest.mark.parametrize("door", ["candidates", "exclude"])
@models
def test_one_list_for_each_who_asks_in_any_containers(name, door):
    model, ask, ids = MODELS[name], DOORS[door], ids_of(name)
    for lists in ([ids[:3], ids[2:7]], [ids[:3], ids[3:6]], [[], ids[:1]]):
        expected = ask(model, lists)
        for k, one in enumerate(lists):
            assert_array_equal(expected[k], ask(model, one)[k])
        read = set()
        for container, make in NESTED.items():
            found, refusal = answer(ask, model, make(lists))
            if refusal:
                assert "list" in refusal
                continue
            read.add(container)
            assert_array_equal(found, expected)
        wrong = {"generator", "frozensets in a set", "dict", "values of a dict"}
        assert read == NESTED.keys() - wrong
        if len(lists[0]) == len(lists[1]):
            assert_array_equal(ask(model, np.array(lists)), expected)
        with pytest.raises(ValueError, match="must be a list of items"):
            ask(model, [*lists, lists[0]])


@doors
@models
def test_an_odd_id_changes_no_other(name, door):
    """It is refused, or unknown, or the id that it equals, and the others stay."""
    model, ask, ids = MODELS[name], DOORS[door], ids_of(name)[2:7]
    alone = ask(model, ids)
    n_read = 0
    for odd in ODD:
        for container in (list, pd.Series, lambda v: np.fromiter(v, object, len(v))):
            found, refusal = answer(ask, model, container([*ids, odd]))
            if refusal:
                continue
            n_read += 1
            if door in ("units", "items"):
                assert_array_equal(found[:-1], alone)
            else:
                nobody = None if isinstance(model, Recommender) else -1
                own = model.recommend(nobody, 9, candidates=[odd])
                known = [item for item in own.tolist() if item not in (None, -1)]
                assert_array_equal(found, ask(model, [*ids, *known]))
    assert n_read


@doors
@pytest.mark.parametrize("name", ["entries", "users", "choices"])
def test_a_mask_is_no_list_of_indices(name, door):
    model, mask = MODELS[name], np.arange(SHAPE[1]) > 5
    for values in (mask, mask.tolist(), pd.Series(mask), [True, 3]):
        with refused(rf"{door} holds booleans.*Pass np.flatnonzero\({door}\)"):
            DOORS[door](model, values)
    found = DOORS[door](model, np.flatnonzero(mask))
    assert_array_equal(found, DOORS[door](model, [6, 7, 8]))


def test_single_ids_are_answered_alone():
    for name, model in MODELS.items():
        id_ = ids_of(name)[3]
        scalars = [id_]
        if isinstance(id_, int):
            scalars += [np.int64(id_), np.array(id_), np.float32(id_), float(id_)]
        scalars.append(pa.scalar(id_))
        for door in ("units", "items"):
            expected = DOORS[door](model, [id_])[0]
            for scalar in scalars:
                assert_array_equal(DOORS[door](model, scalar), expected)


def test_context_in_any_container():
    table = [[f"u{k % 5}", f"i{k % 4}", k % 3] for k in range(60)]
    model = CPCompletion(1, **RANGE)
    model = Recommender(model).fit(pd.DataFrame(table), np.linspace(0, 1, 60))
    expected = model.recommend("u1", context=[2], exclude_observed=False)
    for make in ORDERED.values():
        found = model.recommend("u1", context=make([2]), exclude_observed=False)
        assert_array_equal(found, expected)
    for context in (2, {2}, [[2]], [2, 2], {2: 0}, iter([2])):
        with refused("context"):
            model.recommend("u1", context=context)
    with refused("known ids of column 2 are numbers"):
        model.recommend("u1", context=["2"])


# --- groups

PIPELINE = make_pipeline(LaplaceMechanism(1.0, bounds=(-1, 1)), Ridge())
SAMPLES = RNG.uniform(-1, 1, size=(40, 2))
PLACES = RNG.integers(5, size=40).tolist()


def folds_of(groups, cv=None):
    """Training and test rows of a search, of which nothing is fitted."""
    search = PrivateSearchCV(PIPELINE, {"ridge__alpha": [1]}, cv=cv or GroupKFold(3))
    _, numbers = search._routed({"groups": groups})
    return [rows for split in search.cv.split(SAMPLES, None, numbers) for rows in split]


@pytest.mark.parametrize("cv", [GroupKFold(3), GroupShuffleSplit(2, random_state=0)])
@pytest.mark.parametrize(
    "labels", ["badce", [4, 2, 8, 0, 9], [0.5, 2.0, 1.5, 9.0, 0.25]]
)
def test_groups_in_any_container(labels, cv):
    groups = [labels[place] for place in PLACES]
    expected = [
        rows for split in cv.split(SAMPLES, None, groups) for rows in split
    ]  # fmt: skip
    for make in (list, *ORDERED.values(), OTHERS["frame"]):
        found = folds_of(make(groups), cv)
        for rows, others in zip(found, expected, strict=True):
            assert_array_equal(rows, others)
    refused_ones = WITHOUT_ORDER.keys() - {"values"} | {"dict", "masked"}
    for make in map(CONTAINERS.__getitem__, refused_ones):
        with pytest.raises((TypeError, ValueError), match="groups"):
            folds_of(make(groups), cv)


def test_an_odd_group_is_a_group_of_its_own():
    """It neither joins others nor makes them one: "1" is no 1, and True neither."""
    groups = [place + 1 for place in PLACES]
    for odd in ODD:
        numbers, refusal = answer(numbers_of, [*groups, odd], "groups")
        if refusal:
            assert "groups are missing, or cannot be compared" in refusal
            continue
        pairs = set(zip(groups, numbers[:-1].tolist(), strict=True))
        assert len(pairs) == len(dict(pairs)) == 5
        # A list of one is a row of a column.
        is_known = type(odd) in (int, float, list) and odd in [*groups, [1]]
        assert (numbers[-1] in dict(pairs).values()) == is_known
