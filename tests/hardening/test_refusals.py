"""No refusal tells who is in the data, or what of anybody, where a unit is protected.

A refusal is free: nobody asks a budget for it. So with an exhausted budget, too, every
public method must end alike for neighbouring data: those without a user, with many
more, with ids that nobody declared or of another type, and those without anybody. The
exception is malformed input, which `doc/threat_model.md` lists.
"""

import math
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
    make_fold_in_scorer,
    make_ranking_scorer,
    party,
)
from sktensordp.exceptions import BudgetExceededError
from sktensordp.model_selection import PrivateSearchCV, UserHoldout, UserKFold
from sktensordp.privacy import PrivacyBudget
from tests.support.public import methods_of

pd = pytest.importorskip("pandas")

ITEMS = ["Brazil", "Heat", "Jaws", "Up"]
SHAPE = (300, len(ITEMS))
RANGE = {"value_bounds": (0, 5), "max_iter": 1}
ENCODER = CoordinateEncoder(categories=[None, ITEMS])
IDS = {
    "CP": Recommender(CPCompletion(1, unit=0, **RANGE), ENCODER),
    "Tucker": Recommender(TuckerCompletion(1, unit=0, **RANGE), ENCODER),
    "choices": Recommender(ImplicitCompletion(), ENCODER),
    "items": Recommender(
        CPCompletion(1, unit=1, **RANGE),
        CoordinateEncoder(categories=[[*"abcdefgh"], ITEMS]),
    ),
}
INDICES = {
    "CP": CPCompletion(1, unit=0, shape=SHAPE, **RANGE),
    "Tucker": TuckerCompletion(1, unit=0, shape=SHAPE, **RANGE),
    "choices": ImplicitCompletion(shape=SHAPE),
    "items": CPCompletion(1, unit=1, shape=SHAPE, **RANGE),
}
ROWS = [[user, item] for user in "abcdef" for item in ITEMS]
WHERE = [[ord(user) - ord("a"), ITEMS.index(item)] for user, item in ROWS]
# Rows that somebody adds to those of all others. No row is malformed.
ADDED_IDS = {
    "nobody": [],
    "a user": [["g", "Up"]],
    "many users": [[f"user {k}", "Up"] for k in range(400)],
    "a user with an item that nobody declared": [["g", "UP"]],
    "an item of another type": [["g", 3]],
    "an item that is a large number": [["g", 1e300]],
    "an item that is no text": [["g", ("Up",)]],
    "a user of another type": [[17, "Up"]],
    "a user of a third type": [[("g",), "Up"]],
    "a user of two types": [[17, "Up"], ["17", "Heat"]],
}
ADDED_INDICES = {
    "nobody": [],
    "a user": [[6, 3]],
    "many users": [[k, 3] for k in range(6, 300)],
    "the last user": [[299, 3]],
}


def as_objects(rows):
    table = np.empty((len(rows), 2), dtype=object)
    for place, row in enumerate(rows):
        table[place] = row
    return table


FORMS = {
    "lists": lambda rows: rows,
    "objects": as_objects,
    "frame": lambda rows: pd.DataFrame(as_objects(rows), columns=["user", "item"]),
}


def values(rows):
    return [float(k % 6) for k in range(len(rows))]


def given(model, rows, form):
    has_values = hasattr(model, "score")
    return (form(rows), values(rows)) if has_values else (form(rows),)


def outcome(call, *arguments):
    """How a call ends: with the same words, or not at all."""
    with warnings.catch_warnings(action="ignore"):
        try:
            call(*arguments)
        except (Exception, BudgetExceededError) as error:
            return f"{type(error).__name__}: {error}"
    return "done"


def calls(model, fitted):
    """Every public method that is given entries of users, by name."""
    inner = getattr(model, "completion", model)
    has_values = hasattr(model, "score")

    def in_batches(*data):
        model.fit_batches([data if has_values else data[0]] * 2)

    found = {"fit": model.fit, "fold_in": fitted.fold_in}
    if hasattr(model, "fit_batches"):
        found["fit_batches"] = in_batches
    if has_values and inner is model:
        found["party"] = partial(party, model)
    if has_values:
        found["fold-in scorer"] = partial(make_fold_in_scorer(), fitted)
        name = "rank" if inner is model else "completion__rank"
        for cv in (None, UserKFold(2, mode=inner.unit), UserHoldout(mode=inner.unit)):
            search = PrivateSearchCV(
                model,
                {name: [1]},
                n_iter=2,
                cv=cv,
                refit="keep" if cv is None else True,
            )
            found[f"search by {type(cv).__name__}"] = search.fit
    if inner.unit == 0:
        found["ranking scorer"] = partial(make_ranking_scorer(), fitted)
    return found


# They read no entries, or those of the user who asks.
OTHERS = {
    "forget", "predict", "recommend", "sample_users", "score", "similar_items",
    "transform",
    "get_params", "set_params",
    "set_callbacks", "set_output", "get_metadata_routing", "client",
    "fit_randomized", "partial_fit", "fit_transform",
}  # fmt: skip


@pytest.mark.parametrize("models", [IDS, INDICES], ids=["ids", "indices"])
@pytest.mark.parametrize("name", IDS)
def test_every_public_method_is_called(models, name):
    model = models[name]
    public = methods_of(model) - {"completion", "encoder"}
    assert public - OTHERS <= calls(model, model).keys()


def check_ends(model, base, added, form, epsilon):
    """All methods must end alike, whatever is added, and if nobody is there."""
    fitted = clone(model).fit(*given(model, base, form))
    added = {label: [*base, *rows] for label, rows in added.items()}
    wrong = {}
    for label, rows in {**added, "nobody at all": []}.items():
        for name, call in calls(model, fitted).items():
            # scikit-learn's searches make arrays of lists.
            if name.endswith("scorer") and isinstance(form(rows), list):
                continue
            releases = name.startswith(("fit", "search"))
            expected = "Exceeded" if releases and math.isfinite(epsilon) else "done"
            with PrivacyBudget(epsilon, delta=1e-9):
                end = outcome(call, *given(model, rows, form))
            if expected not in end:
                wrong[label, name] = end
    assert not wrong


@pytest.mark.thorough
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("model", IDS.values(), ids=IDS)
def test_with_an_exhausted_budget_all_tables_are_refused_alike(model, form):
    check_ends(model, ROWS, ADDED_IDS, form, 1e-3)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["CP", "choices", "items"])
def test_no_table_is_refused_where_there_is_a_budget(name):
    check_ends(IDS[name], ROWS, ADDED_IDS, FORMS["lists"], math.inf)


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [1e-3, math.inf])
@pytest.mark.parametrize("name", ["CP", "choices", "items"])
def test_no_indices_are_refused(name, epsilon):
    check_ends(INDICES[name], WHERE, ADDED_INDICES, list, epsilon)


@pytest.mark.parametrize("name", ["CP", "choices"])
def test_a_stored_zero_is_no_reason_to_refuse(name):
    """Of ratings it is a value, and of choices it is none."""
    stored = sparse.coo_array(([1.0, 0.0, 1.0], ([0, 1, 2], [1, 1, 2])), shape=SHAPE)
    with warnings.catch_warnings(action="ignore"):
        one = clone(INDICES[name]).set_params(random_state=0).fit(stored)
        if name == "choices":
            others = sparse.coo_array(([1, 1], ([0, 2], [1, 2])), shape=SHAPE)
            two = clone(one).fit(others)
            assert pickle.dumps(one) == pickle.dumps(two)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("label", ADDED_IDS)
@pytest.mark.parametrize("catalogue", [ITEMS, [0, 10, 20, 30]], ids=["text", "numbers"])
def test_nobody_decides_what_becomes_of_the_ids_of_others(catalogue, label, form):
    """An id of another type makes text of no other id: nobody else is left out."""
    rows = [[user, catalogue[k]] for user in range(40) for k in range(4)]
    added = ADDED_IDS[label]
    model = Recommender(
        CPCompletion(0, unit=0, epsilon=math.inf, **RANGE),
        CoordinateEncoder(categories=[None, catalogue]),
    )
    numbers = []
    for all_rows in (rows, [*rows, *added]):
        model.fit(*given(model, all_rows, form))
        numbers.append(model.completion_._fitted.model.n_units)
    known = {user for user, item in added if item in catalogue} - set(range(40))
    assert numbers == [pytest.approx(40), pytest.approx(40 + len(known))]
