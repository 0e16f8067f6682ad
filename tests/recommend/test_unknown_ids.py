"""Requests with ids that a model does not know: at every door, said or refused.

No false alarms are possible: the models have no noise.
"""

import math
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.recommend import Recommender
from tests.support.refusing import refused

RNG = np.random.default_rng(0)
N = 200
FREE = {"value_bounds": (1, 5), "epsilon": math.inf, "max_iter": 3}
ITEMS = [f"i{k}" for k in range(8)]
TABLE = np.array(
    [[f"u{k}" for k in RNG.integers(20, size=N)], RNG.choice(ITEMS, size=N)]
).T
Y = RNG.uniform(1, 5, size=N)
UNKNOWN = [["nobody", "nothing"]]
LEARNED = Recommender(CPCompletion(1, **FREE)).fit(TABLE, Y)
STRICT = Recommender(CPCompletion(1, **FREE), handle_unknown="error").fit(TABLE, Y)
OF_USERS = Recommender(
    CPCompletion(1, unit=0, **FREE), CoordinateEncoder(categories=[None, ITEMS])
).fit(TABLE, Y)
# Doors for a request with an id that nobody knows; which ids must be known.
DOORS = {
    "predict": lambda model: model.predict(UNKNOWN),
    "predict an item": lambda model: model.predict([["u1", "nothing"]]),
    "predict for a user": lambda model: model.predict([["nobody", "i1"]]),
    "score": lambda model: model.score(UNKNOWN * 2, [1.0, 2.0]),
    "recommend": lambda model: model.recommend("nobody"),
    "recommend to some": lambda model: model.recommend(["u1", "nobody"]),
    "candidates": lambda model: model.recommend("u1", candidates=["i1", "nothing"]),
    "candidates for each": lambda model: model.recommend(
        ["u1", "u2"], candidates=[["i1"], ["nothing"]]
    ),
    "exclude": lambda model: model.recommend("u1", exclude=["nothing"]),
    "similar_items": lambda model: model.similar_items("nothing"),
    "similar_items of some": lambda model: model.similar_items(["i1", "nothing"]),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_unknown_ids_are_refused_where_this_is_asked_for(door):
    with refused("Some ids of .* are unknown.*Set handle_unknown='drop'"):
        DOORS[door](STRICT)


def test_what_is_known_and_none_is_never_refused():
    assert_array_equal(STRICT.predict(TABLE), LEARNED.predict(TABLE))
    for ask in (
        lambda model: model.recommend(["u1", None], 3, candidates=["i1", "i2", None]),
        lambda model: model.similar_items(["i1", None], 3),
    ):
        assert_array_equal(ask(STRICT), ask(LEARNED))


def test_protected_users_are_never_told_apart_by_a_refusal():
    model = OF_USERS.set_params(handle_unknown="error")
    try:
        assert model.recommend("nobody").shape == (8,)
        assert model.recommend("u1").shape == (8,)
    finally:
        model.set_params(handle_unknown="drop")


def messages(ask, model):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ask(model)
    return [str(w.message) for w in caught]


SWAPPED = TABLE[:5, ::-1]
SAID = {
    "predict": (lambda m: m.predict(UNKNOWN), "No item of X is known, nor is a user"),
    "predict, swapped": (lambda m: m.predict(SWAPPED), "users come first"),
    "score, swapped": (lambda m: m.score(SWAPPED, Y[:5]), "users come first"),
    "recommend, swapped": (lambda m: m.recommend("i1"), "users come first"),
    "candidates": (
        lambda m: m.recommend("u1", candidates=["u1"]), "No candidate is known"
    ),
    "similar_items": (lambda m: m.similar_items("u1"), "items are unknown"),
    "fold_in": (
        lambda m: m.fold_in([["new", "nothing"]], [3.0]),
        "1 rows are left out: they have an id that the fit has not seen",
    ),
}  # fmt: skip


@pytest.mark.parametrize("door", SAID)
def test_requests_that_nobody_can_answer_are_told(door):
    ask, text = SAID[door]
    (message,) = messages(ask, LEARNED)
    assert text in message
    assert "nothing" not in message.replace("nothing is", "")


@pytest.mark.parametrize("door", [door for door in SAID if door != "fold_in"])
def test_they_are_told_of_protected_users_by_items_alone(door):
    ask, text = SAID[door]
    (message,) = messages(ask, OF_USERS)
    assert text.removesuffix(", nor is a user") in message
    assert "nor is a user" not in message


def test_requests_of_which_some_are_known_say_nothing():
    for model in (LEARNED, OF_USERS):
        assert not messages(lambda m: m.predict([*UNKNOWN, ["u1", "i1"]]), model)
        assert not messages(lambda m: m.predict([["nobody", "i1"]]), model)
        assert not messages(lambda m: m.predict([]), model)
        for candidates in ([], ["i1", "nothing"]):
            found = messages(lambda m, c=candidates: m.recommend("u1", 1, candidates=c),
                             model)  # fmt: skip
            assert not found


def test_a_frame_of_arrow_is_that_of_pandas():
    """Its columns have names, so neither door warns of names that are missing."""
    frame = pd.DataFrame(TABLE, columns=["user", "item"])
    arrow = pa.Table.from_pandas(frame)
    model = Recommender(CPCompletion(1, **FREE)).fit(arrow, pa.array(Y))
    expected = LEARNED.predict(TABLE)
    for asked in (frame, arrow):
        assert not messages(lambda m, X=asked: m.predict(X), model)
        assert_array_equal(model.predict(asked), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["item", "user"]])


HALF = TABLE[:20].copy()
HALF[::2, 1] = "I1"


@pytest.mark.parametrize("model", [LEARNED, OF_USERS], ids=["entries", "users"])
def test_requests_of_which_half_of_the_items_are_unknown_are_told(model):
    for ask in (lambda m: m.predict(HALF), lambda m: m.score(HALF, Y[:20])):
        (message,) = messages(ask, model)
        assert "Half of the rows of X or more have an item that is not known" in message


@pytest.mark.parametrize("model", [LEARNED, OF_USERS], ids=["entries", "users"])
def test_a_few_new_items_and_any_new_users_are_not(model):
    fewer = HALF.copy()
    fewer[0, 1] = "i1"
    new_users = TABLE[:20].copy()
    new_users[:, 0] = "nobody"
    for asked in (fewer, HALF[:9], new_users):
        assert messages(lambda m, X=asked: m.predict(X), model) == []


@pytest.mark.parametrize("call", ["fit", "fit_batches"])
def test_categories_in_another_order_than_the_columns(call):
    users = [f"u{k}" for k in range(20)]
    model = Recommender(
        CPCompletion(1, **FREE), CoordinateEncoder(categories=[ITEMS, users])
    )
    fit = partial(model.fit, TABLE, Y)
    if call == "fit_batches":
        fit = partial(model.fit_batches, [(TABLE, Y)])
    with (
        pytest.warns(UserWarning, match="200 rows are left out"),
        pytest.raises(ValueError, match="listed in the order of the columns"),
    ):
        fit()


def test_a_wide_table_is_told_from_missing_ids():
    wide = pd.DataFrame(np.where(RNG.random((30, 20)) < 0.5, np.nan, 3.0))
    wide.columns = [f"film {k}" for k in range(20)]
    with refused("and 18 more columns are missing .*has to be stacked first"):
        Recommender(CPCompletion(1, **FREE)).fit(wide, np.ones(30))
