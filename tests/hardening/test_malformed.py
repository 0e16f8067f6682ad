"""Malformed input is refused for the reasons of one table, which users can read.

No false alarms are possible: nothing is drawn.
"""

import ast
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import sktensordp
from sktensordp.completion import CoordinateEncoder, ImplicitCompletion
from tests.ids.test_aligned import DOORS, SAMPLES, Y
from tests.support.refusing import refused
from tests.support.seams import MALFORMED, malformed

PACKAGE = Path(sktensordp.__file__).parent
PAGE = PACKAGE.parent / "doc" / "threat_model.md"


def test_the_page_lists_the_reasons_word_for_word():
    text = PAGE.read_text(encoding="utf-8")
    text = text[text.index("Only malformed\n") : text.index("  Whoever may choose")]
    text = re.sub(r"\{class\}`~[\w.]*\.(\w+)`", r"`\1`", text)
    listed, _ = text.split(".\n\n")[:2]
    found = [" ".join(one.split()) for one in re.split(r"\n  - ", listed)[1:]]
    assert [one.rstrip(";") for one in found] == list(MALFORMED.values())


def reasons_given():
    """The reasons in all calls of `malformed` in the package."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if is_call and node.func.id == "malformed":
                first = node.args[0]
                # One of two, in one place.
                given = (
                    [first.body, first.orelse] if hasattr(first, "orelse") else [first]
                )
                yield from (one.value for one in given)


def test_every_reason_is_given_and_no_other():
    assert set(reasons_given()) == MALFORMED.keys()


# --- at the doors that take rows and values


@pytest.fixture
def reasons(monkeypatch):
    """The reasons of all refusals of a test, in their order."""
    found = []

    def told(reason, *arguments):
        found.append(reason)
        return malformed(reason, *arguments)

    for name, module in list(sys.modules.items()):
        if name.startswith("sktensordp") and hasattr(module, "malformed"):
            monkeypatch.setattr(module, "malformed", told)
    return found


def with_first(values, first, dtype=None):
    """An array with what one person changed."""
    column = np.array(values, dtype=dtype)
    column[(0,) * column.ndim] = first
    return column


def masked(values):
    mask = np.zeros(np.shape(values), dtype=bool)
    mask[(0,) * mask.ndim] = True
    return np.ma.array(values, mask=mask)


# What one person can make of values, or of rows, and the reasons for a refusal.
VALUES = {
    "missing": (lambda y: with_first(y, math.nan), {"numbers", "labels"}),
    "infinite": (lambda y: with_first(y, -math.inf), {"numbers", "labels"}),
    "masked": (masked, {"masked"}),
    "one less": (lambda y: y.to_numpy()[1:], {"arrays"}),
    "one value": (lambda y: y.iloc[0], {"arrays"}),
    "reversed": (lambda y: y.iloc[::-1], {"order"}),
}
ROWS = {
    "missing": (lambda X: with_first(X, None, object), {"numbers", "ids"}),
    "masked": (masked, {"masked"}),
    "one less": (lambda X: X.to_numpy()[1:], {"arrays"}),
    "reversed": (lambda X: X.iloc[::-1], {"order"}),
}
COORDINATES = {
    "negative": (lambda X: with_first(X, -7), {"coordinates"}),
    "fractional": (lambda X: with_first(X, 0.5, float), {"coordinates"}),
    "outside": (lambda X: with_first(X, 6), {"coordinates"}),
}
# Those that release, or answer somebody from what they are given.
RELEASING = [
    "completion of users", "batches", "further entries", "folded in", "party",
    "recommender", "recommender, folded in", "regression", "regression in batches",
    "classifier", "private search", "private search of a completion",
    "private search of a recommender",
]  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("door", RELEASING)
def test_malformed_values_and_rows_are_refused_for_a_listed_reason(door, reasons):
    X, call = DOORS[door]
    with_coordinates = door in ("completion of users", "folded in", "party")
    of_rows = ROWS | COORDINATES if with_coordinates else ROWS
    if door == "private search":  # Its first step reads X, within the release.
        of_rows = {name: ROWS[name] for name in ROWS if name != "missing"}
    tried = [(make, given, True) for make, given in VALUES.values()]
    tried += [(make, given, False) for make, given in of_rows.values()]
    for make, expected, of_values in tried:
        reasons.clear()
        arguments = (X, make(Y)) if of_values else (make(X), Y)
        with refused("", (TypeError, ValueError)):
            call(*arguments)
        assert reasons[-1] in expected


def test_choices_types_and_categories(reasons):
    stored = sparse.coo_array(([1.0, -1.0], ([0, 1], [1, 1])), shape=(3, 2))
    encoder = CoordinateEncoder(categories=[["ann"], None])
    labels = np.array([*"ab"])
    for reason, call in {
        "choices": lambda: ImplicitCompletion(shape=(3, 2)).fit(stored),
        "categories": lambda: encoder.fit([["ann", "Up"], ["eve", "Up"]]),
        "types": lambda: DOORS["classifier"][1](SAMPLES[:2], labels),
    }.items():
        with refused(""):
            call()
        assert reasons[-1] == reason
