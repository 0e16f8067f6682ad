"""What the owner of the data may look at: right, printed, and beside every release."""

import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import sktensordp
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
    check_table,
)
from sktensordp.exceptions import PrivacyLeakWarning
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.privacy import PrivacyBudget
from tests.support.seams import run_reserved

STARS = [1, 2, 3, 4, 5]
TABLE = [["ann", "Heat"], ["ann", "Up"], ["ann", "Up"], ["bob", "heat"], [None, "Up"]]
VALUES = [5, 100, 0, 2.5, np.nan]
CATALOGUE = CoordinateEncoder(categories=[None, ["Brazil", "Heat", "Up"]])
COUNTED = {
    "rows": 5,
    "rows with missing ids": 1,
    "ids of column 1 that are not declared": 1,
    "rows that are left out": 1,
    "rows whose ids have occurred before": 1,
    "most entries of a user": 3,
    "missing values": 1,
    "values below the range": 1,
    "values above the range": 1,
    "values between levels": 1,
}


def looked_at(model, *data):
    with pytest.warns(PrivacyLeakWarning, match="check_table is not private"):
        return check_table(model, *data)


@pytest.mark.parametrize("unit", ["entry", 0])
@pytest.mark.parametrize("kind", [list, pd.DataFrame, pl.DataFrame])
def test_everything_is_counted_and_printed(unit, kind, capsys):
    table, names = TABLE, ["user", "film"]
    if kind is pd.DataFrame:
        table = kind(TABLE, columns=names)
    elif kind is pl.DataFrame:
        table = kind(TABLE, schema=names, orient="row")
    model = Recommender(CPCompletion(2, unit=unit, levels=STARS), CATALOGUE)
    found = looked_at(model, table, VALUES)
    label = "1" if kind is list else "'film'"
    for name, expected in COUNTED.items():
        assert found[name.replace("column 1", f"column {label}")] == expected, name
    assert found["shape"].startswith("any users x 3" if unit == 0 else "")
    printed = capsys.readouterr().out
    for name, value in found.items():
        assert f"{name} " in printed
        assert f" {value}\n" in printed


def test_coordinates_tensors_and_choices():
    X, y = np.array([[0, 1], [2, 1], [2, 1], [5, 0]]), [1.0, 3.0, 9.0, 2.0]
    found = looked_at(CPCompletion(2, value_bounds=(0, 5), shape=(5, 2)), X, y)
    assert found["rows whose coordinates are not in the shape"] == 1
    assert found["values above the range"] == 1
    assert found["rows whose ids have occurred before"] == 1
    assert found["shape"] == "5 x 2"
    tensor = np.where(np.eye(4, 3) == 1, np.nan, 2.0)
    for given in (tensor, sparse.coo_array(np.nan_to_num(tensor))):
        found = looked_at(TuckerCompletion(1, levels=STARS), given)
        assert (found["rows"], found["shape"]) == (9, "4 x 3")
    model = ImplicitCompletion(shape=(6, 2))
    assert looked_at(model, X, y)["values that choices ignore vary"]
    assert not looked_at(model, X, np.ones(4))["values that choices ignore vary"]
    assert "missing values" not in looked_at(model, X)


def test_times_are_counted_in_bins_even_if_a_fit_refuses_them():
    table = [["a", "b", 0], ["a", "c", 86_400 * 10], ["b", "b", -62_135_596_800]]
    encoder = CoordinateEncoder(freq="D")
    found = looked_at(Recommender(CPCompletion(0), encoder), table, [1, 2, 3])
    assert found["bins of times"] == "719173 (at most 131072)"
    found = looked_at(Recommender(CPCompletion(0), encoder), [["a", "b", "now"]], [1])
    assert "needs times" in found["bins of times"]


def test_a_larger_fit_is_expected_to_take_longer_and_more():
    model, seconds, megabytes = CPCompletion(10, levels=STARS), [], []
    for n in (10**3, 4 * 10**4):
        X = np.column_stack([np.arange(n) // 10, np.arange(n) % 97])
        found = looked_at(model, X, np.full(n, 3))
        seconds.append(found["expected seconds"])
        megabytes.append(found["expected megabytes"])
    assert seconds[1] > 10 * seconds[0]
    assert megabytes[1] > megabytes[0]


def test_it_is_refused_inside_of_a_budget_and_of_a_private_search():
    X, y, model = [[0, 1], [1, 0]], [1, 2], CPCompletion(0, levels=STARS)
    with PrivacyBudget(10.0) as budget:
        with pytest.raises(RuntimeError, match="no budget covers"):
            check_table(model, X, y)
        assert budget.spent is None
    with pytest.raises(RuntimeError, match="no budget covers"):
        run_reserved(None, check_table, model, X, y)


def test_nothing_is_released_fitted_or_changed():
    model = CPCompletion(0, levels=STARS)
    before = pickle.dumps(model)
    looked_at(model, [[0, 1], [1, 0]], [1, 2])
    assert pickle.dumps(model) == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is protected without noise
        check_table(CPCompletion(0, levels=STARS, epsilon=np.inf), [[0, 1]], [1])


def test_it_says_what_it_does_not_take():
    with pytest.raises(TypeError, match="must be a completion or a Recommender"):
        check_table(LaplaceMechanism(), [[0, 1]], [1])
    with pytest.raises(ValueError, match="must have the same length"):
        looked_at(CPCompletion(0, levels=STARS), [[0, 1]], [1, 2])
    with pytest.raises(TypeError, match="is a dict"):
        looked_at(CPCompletion(0, levels=STARS), {"u": [1]}, [1])


def test_no_fit_calls_it():
    """Nothing of the package imports it, but for the lists of public names."""
    root = Path(sktensordp.__file__).parent
    users = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(
            r"check_table\(|import[^.]*\bcheck_table\b|^    \"check_table\",",
            path.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    }
    listed = {f"{part}/__init__.py" for part in ("completion", "recommend")}
    assert users == listed | {"recommend/_check_table.py"}


RATED = pd.DataFrame({"user": np.arange(60) % 12 + 500, "stars": np.arange(60) % 5 + 1})
LOOK_LIKE_VALUES = {
    "stars, read as items": (RATED, True),
    "halves": (RATED.assign(stars=RATED["stars"] / 2), True),
    "text of numbers": (RATED.astype({"stars": str}), True),
    "swapped": (RATED[["stars", "user"]], True),
    "items": (RATED.assign(stars=np.arange(60) % 30 + 1), False),
    "items with large numbers": (RATED.assign(stars=RATED["stars"] + 4000), False),
    "text": (RATED.assign(stars="film " + RATED["stars"].astype(str)), False),
    "one id": (RATED.assign(stars=3), False),
}


@pytest.mark.parametrize(
    ("table", "expected"), LOOK_LIKE_VALUES.values(), ids=LOOK_LIKE_VALUES
)
def test_ids_that_look_like_values_are_named(table, expected):
    found = looked_at(Recommender(CPCompletion(0, levels=STARS)), table, np.ones(60))
    lines = {k: n for k, n in found.items() if "look like values" in k}
    expected = {"ids of column 'stars' that look like values": 5} if expected else {}
    assert lines == expected


def test_first_indices_do_not_look_like_values():
    found = looked_at(CPCompletion(0, levels=STARS), np.argwhere(np.eye(5)), STARS)
    assert not any("look like" in name for name in found)
