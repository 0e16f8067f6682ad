"""What a row of a budget says: which release, who made it, with what, and where."""

import csv
import io
import json
import logging
import math
import os
import pickle
import re
import shutil
import sqlite3
import sys
import uuid
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import sktensordp
from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.privacy import PrivacyBudget, detach_from_budgets
from tests.support import events as E
from tests.support.budgets import n_released
from tests.support.every_estimator import EVERY, RELEASING, ROWS, VALUES, WHERE
from tests.support.guarantees import guarantee, pure
from tests.support.processes import in_spawned
from tests.support.seams import build, main, poisson, sktensordp_build

pytestmark = pytest.mark.usefixtures("fresh_ids")
LAPLACE = LaplaceMechanism(0.1, bounds=(0, 1)).fit(ROWS)
STORED = Path(__file__).parents[1] / "stored" / "0.1.budget.sql"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "films.db"


def make(path, epsilon=9.0, **params):
    return PrivacyBudget(epsilon, path=path, create=True, **params)


def completion(**params):
    options = {"value_bounds": (0, 1), "shape": (4, 3), "max_iter": 2, "unit": 0}
    return CPCompletion(**{"rank": 0} | options | params)


def fit(estimator):
    return estimator.fit(WHERE, VALUES)


def rows_of(budget):
    return budget.history(as_frame=False)


def told(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["privacy", *map(str, arguments)])
    code = main()
    shown = capsys.readouterr()
    return shown.err if code else shown.out


# Which release.


@pytest.mark.thorough_after_one
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", RELEASING)
def test_a_release_is_named_in_the_model_the_log_and_the_row(case, path, caplog):
    caplog.set_level(logging.INFO, "sktensordp")
    with make(path, math.inf, delta=0.5) as budget:
        model, _ = case.release()
    (row,) = (row for row in rows_of(budget) if row["unit"] is not None)
    uuid.UUID(row["release"])
    (line,) = [r.getMessage() for r in caplog.records if "Release " in r.getMessage()]
    assert line.endswith(f" Release {row['release']}.")
    by_fit = row["label"].startswith("fit")
    ids = getattr(model, "release_ids_", ())
    assert ids == ((row["release"],) if by_fit else ())
    assert not by_fit or not hasattr(clone(model), "release_ids_")
    assert getattr(pickle.loads(pickle.dumps(model)), "release_ids_", ()) == ids


@pytest.mark.filterwarnings("ignore")
def test_ids_follow_neither_from_the_seed_nor_from_the_data():
    first, second = (fit(completion(random_state=0)) for _ in range(2))
    assert np.array_equal(first.predict(WHERE), second.predict(WHERE))
    assert first.release_ids_ != second.release_ids_
    again = first.release_ids_
    assert fit(first).release_ids_ != again  # a new fit is another release


def test_a_model_that_is_updated_holds_several_releases(path):
    model = completion(unit="entry", perturbation="input", rank=1)
    with make(path) as budget:
        for k in range(3):
            model.partial_fit(WHERE[k::3], VALUES[k::3])
    assert model.release_ids_ == tuple(row["release"] for row in rows_of(budget))
    assert len(set(model.release_ids_)) == 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("refit", [True, "keep"])
def test_what_a_private_search_keeps_is_its_release(path, refit):
    model = CPCompletion(0, value_bounds=(0, 1), max_iter=2, epsilon=0.5)
    search = PrivateSearchCV(
        model, {"max_iter": [1, 2]}, score_bounds=(0, 1), refit=refit
    )
    with make(path) as budget:
        fit(search)
    (row,) = rows_of(budget)
    assert search.release_ids_ == search.best_estimator_.release_ids_
    assert search.release_ids_ == (row["release"],)


# Who, what for, and with which build.


def test_a_row_says_who_made_it_with_what(path):
    with make(path, note="films, team A") as budget:
        LAPLACE.transform(ROWS)
    PrivacyBudget(9.0, path=path).spend(pure(0.2), "a survey")
    first, second = rows_of(budget)
    assert (first["note"], second["note"]) == ("films, team A", "")
    for row in first, second:
        assert row["process"] == os.getpid()
        assert row["versions"].startswith(f"sktensordp {sktensordp.__version__}, ")
        assert row["build"] == build()
        assert row["user"]
        assert row["host"]
    assert first["release"] != second["release"]
    with pytest.raises(TypeError, match="note must be a str"):
        PrivacyBudget(9.0, path=path, note=3)
    with pytest.raises(ValueError, match="A note is stored in a file"):
        PrivacyBudget(9.0, note="nowhere")


def test_what_the_system_does_not_tell_is_none(path, monkeypatch):
    def fails(*_):
        raise KeyError("getpwuid(): uid not found: 1000")

    monkeypatch.setattr("getpass.getuser", fails)
    budget = make(path)
    budget.spend(pure(0.1))
    (row,) = rows_of(budget)
    assert row["user"] is None
    assert "by None on" in PrivacyBudget(9.0, path=path).path or row["host"]


def test_another_line_of_code_is_another_build(tmp_path, monkeypatch):
    package = Path(sktensordp.__file__).parent
    copied = tmp_path / "sktensordp"
    shutil.copytree(package, copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sktensordp_build, "__file__", str(copied / "_build.py"))
    assert build.__wrapped__() == build()
    changed = copied / "base.py"
    text = changed.read_bytes()
    changed.write_bytes(text.replace(b"\n", b"\r\n"))
    assert build.__wrapped__() == build()
    changed.write_bytes(text + b"\nPATCHED = True\n")
    assert build.__wrapped__() != build()
    shutil.rmtree(copied)
    assert build.__wrapped__() == "unknown"


@pytest.mark.parametrize("field", ["release", "note", "user", "host", "build"])
def test_who_made_it_cannot_be_changed_unnoticed(path, field):
    make(path, note="team A").spend(pure(0.1))
    with closing(sqlite3.connect(path)) as connection, connection:
        ((origin,),) = connection.execute("SELECT origin FROM releases").fetchall()
        other = json.dumps({**json.loads(origin), field: "another"})
        connection.execute("UPDATE releases SET origin = ?", (other,))
    with pytest.raises(OSError, match="is not a budget, or is damaged"):
        PrivacyBudget(9.0, path=path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE releases SET origin = NULL")
    with pytest.raises(OSError, match="is not a budget, or is damaged"):
        PrivacyBudget(9.0, path=path)


# Files of version 0.1, whose rows do not say it.


@pytest.fixture
def old(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(STORED.read_text(encoding="utf-8"))
        connection.execute(f"PRAGMA application_id = {0x736B6470}")
        connection.execute("PRAGMA user_version = 2")
    return path


def test_a_file_of_version_0_1_goes_on(old):
    before = old.read_bytes()
    budget = PrivacyBudget(4.0, 1e-6, path=old)
    first, second = rows_of(budget)
    assert (first["label"], second["label"]) == ("fit of CPCompletion", "a survey")
    assert first["versions"].startswith("sktensordp 0.1.0")
    for row in first, second:
        names = ("release", "note", "user", "host", "process", "build")
        assert {row[name] for name in names} == {None}
    head = budget.head
    assert old.read_bytes() == before  # who only reads changes nothing
    earlier = PrivacyBudget(4.0, 1e-6, path=old)
    of_users = {"unit": 0, "relation": "add-or-remove"}
    budget.spend(guarantee(E.Gaussian(6.0), delta=1e-6, **of_users), "another survey")
    for found in (budget, earlier, PrivacyBudget(4.0, 1e-6, path=old, head=head)):
        assert [row["number"] for row in rows_of(found)] == [1, 2, 3]
        assert rows_of(found)[2]["build"] == build()
        assert n_released(found) == 3


@pytest.mark.parametrize("form", [0, 1])
def test_a_file_of_an_unknown_format_is_refused(old, form):
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(f"PRAGMA user_version = {form}")
    with pytest.raises(OSError, match="is not a budget, or is damaged"):
        PrivacyBudget(4.0, 1e-6, path=old)


# The head, kept elsewhere.


def test_who_keeps_the_head_notices_a_restored_backup(path, tmp_path):
    budget, backup = make(path), tmp_path / "backup"
    heads = [budget.head]
    for _ in range(3):
        budget.spend(pure(0.1))
        heads.append(budget.head)
        if len(heads) == 3:
            shutil.copyfile(path, backup)
    assert [head.partition(":")[0] for head in heads] == ["0", "1", "2", "3"]
    for head in heads:
        PrivacyBudget(9.0, path=path, head=head).spend(pure(0.1))
    shutil.copyfile(backup, path)
    for head in heads[:3]:
        assert n_released(PrivacyBudget(9.0, path=path, head=head)) == 2
    with pytest.raises(OSError, match="has lost releases that were recorded"):
        PrivacyBudget(9.0, path=path, head=heads[3])
    # As many releases as before, but others.
    PrivacyBudget(9.0, path=path).spend(pure(0.1))
    with pytest.raises(OSError, match="has lost releases that were recorded"):
        PrivacyBudget(9.0, path=path, head=heads[3])


@pytest.mark.parametrize("head", ["", "3", "3:xyz", "3:abc", 3, "-1:0123456789abcdef"])
def test_what_is_no_head_is_refused(path, head):
    make(path)
    with pytest.raises(ValueError, match="head must be what"):
        PrivacyBudget(9.0, path=path, head=head)
    with pytest.raises(ValueError, match="that of an existing file"):
        PrivacyBudget(9.0, head="0:0123456789abcdef")
    with pytest.raises(ValueError, match="pass a path"):
        PrivacyBudget(9.0).head  # noqa: B018


# The command line.


def test_the_command_line(path, monkeypatch, capsys):
    with make(path, math.inf, note="team A") as budget:
        LAPLACE.transform(ROWS)
        clone(LAPLACE).set_params(epsilon=math.inf).fit_transform(ROWS)
        CoordinateEncoder().fit([[1, 2]])
    rows = rows_of(budget)
    text = told(monkeypatch, capsys, path)
    assert f"\nHead: {budget.head}\n" in text
    assert f"release {rows[0]['release']}; by " in text
    assert "note: team A)" in text
    assert "no protection: transform of LaplaceMechanism (sktensordp" in text
    assert "ids published: CoordinateEncoder" in text
    found = json.loads(told(monkeypatch, capsys, path, "--json"))
    assert found["releases"] == rows
    assert found["head"] == budget.head
    assert (found["epsilon"], found["remaining"]) == (None, None)
    table = list(csv.DictReader(io.StringIO(told(monkeypatch, capsys, path, "--csv"))))
    assert [row["label"] for row in table] == [row["label"] for row in rows]
    assert [row["release"] for row in table] == [row["release"] for row in rows]
    for since, n in {"2026-01-01": 3, "2999-01-01T12:00+02:00": 0}.items():
        some = told(monkeypatch, capsys, path, "--json", "--since", since)
        assert len(json.loads(some)["releases"]) == n
    assert "There is no budget" in told(monkeypatch, capsys, path.with_suffix(".x"))


def test_records_are_json(path):
    with make(path, math.inf) as budget:
        fit(completion(unit="entry", epsilon=math.inf))
    (row,) = json.loads(json.dumps(rows_of(budget), allow_nan=False))
    assert row["epsilon"] is None
    assert row["event"]["type"] == "dp_accounting.NonPrivateDpEvent"


# Fits to folds.


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("restored_filters")
def test_a_budget_says_which_rows_may_be_folds():
    """It cannot tell them apart, since nothing depends on who calls a fit."""
    search = GridSearchCV(completion(epsilon=0.5), {"max_iter": [2, 3]}, cv=3)
    with PrivacyBudget(9.0, 1e-4) as budget:
        fit(completion(epsilon=0.5))
        assert "search or cross-validation" not in str(budget)
        fit(search)
    for text in (str(budget), budget._repr_html_().replace("&#x27;", "'")):
        assert "The 8 releases 'fit of CPCompletion' may be those of a search" in text
        assert "no finite epsilon holds for the fits to folds together" in text
        assert "scores on the raw values held out" in text


# What to quote.


def test_the_budget_says_which_number_to_quote():
    budget = PrivacyBudget(4.0, 1e-6)
    for _ in range(3):
        budget.spend(guarantee(E.Gaussian(4.0), delta=1e-6))
    text = str(budget)
    assert "To quote: epsilon = 4, the limit, which holds whatever you decide" in text
    fixed = float(re.search(r"; ([\d.]+) only if all releases were fixed", text)[1])
    assert budget.spent.epsilon <= fixed <= budget.spent.epsilon * 1.001
    assert "To quote: epsilon = 4" in budget._repr_html_()
    for other in (PrivacyBudget(4.0, 1e-6, adaptive=False), PrivacyBudget(math.inf)):
        other.spend(guarantee(E.Gaussian(4.0), delta=1e-6))
        assert "To quote" not in str(other)


# Nothing without a budget.


@pytest.mark.thorough_after_one
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", EVERY)
def test_nothing_is_released_outside_of_a_required_budget(case, keys, monkeypatch):
    monkeypatch.setenv("SKTENSORDP_REQUIRE_BUDGET", "1")
    refused = pytest.raises(RuntimeError, match="outside of any privacy budget")
    with refused:
        case.release()
    assert not keys
    estimator = case.fresh()
    with PrivacyBudget(math.inf):
        estimator.fit(*case.data)
    with PrivacyBudget(math.inf):
        released = detach_from_budgets(estimator)
        if case.private == "samples":
            released.transform(*case.data)
    if case.private == "samples":
        n = len(keys)
        with refused:
            detach_from_budgets(estimator).transform(*case.data)
        assert len(keys) == n
    monkeypatch.setenv("SKTENSORDP_REQUIRE_BUDGET", "0")
    case.release()


def test_clients_need_a_required_budget_too(keys, monkeypatch):
    monkeypatch.setenv("SKTENSORDP_REQUIRE_BUDGET", "yes")
    client = completion(unit="entry").client()
    with pytest.raises(RuntimeError, match="outside of any privacy budget"):
        client.privatize(VALUES)
    assert not keys


def test_what_belongs_to_a_budget_is_counted_there_and_allowed(path, monkeypatch):
    monkeypatch.setenv("SKTENSORDP_REQUIRE_BUDGET", "1")
    noise = clone(LAPLACE).fit(ROWS)
    budget = make(path).covers(noise)
    noise.transform(ROWS)
    assert n_released(budget) == 1


# What a stored model tells of its budget.


def transform_in(stored, path=None):
    budget = path and PrivacyBudget(9.0, path=path)
    try:
        pickle.loads(stored).transform(ROWS)
    except (RuntimeError, ValueError) as error:
        return str(error)
    return budget and n_released(budget)


@pytest.mark.thorough
def test_a_stored_model_holds_the_id_of_its_budget_and_not_the_path(path):
    noise = clone(LAPLACE).fit(ROWS)
    with make(path).covers(noise) as budget:
        noise.transform(ROWS)
        on_its_way = pickle.dumps(noise)
    stored = pickle.dumps(noise)
    number = budget._ledger.mark.id.encode()
    assert number in stored
    assert number in on_its_way
    for part in {*path.parts, str(path)} - {"/"}:
        assert part.encode() not in stored, part
    # Here, the file is known; elsewhere, it must be opened first.
    pickle.loads(stored).transform(ROWS)
    assert n_released(budget) == 2
    assert "whose file is not known in this process" in in_spawned(transform_in, stored)
    assert in_spawned(transform_in, stored, path) == 3
    assert n_released(budget) == 3


@pytest.mark.thorough
def test_a_stored_model_with_a_seed_is_refused_without_the_path(path):
    noise = clone(LAPLACE).set_params(random_state=1).fit(ROWS)
    budget = make(path).covers(noise)
    stored = pickle.dumps(noise)
    assert "integer random_state" in in_spawned(transform_in, stored, path)
    assert "integer random_state" in in_spawned(transform_in, stored)
    assert n_released(budget) == 0


# Searches, and what does not add up.


def choice(noise, mean=5.0):
    """The best of several tries with Gaussian noise."""
    return guarantee(E.Choice(E.Gaussian(noise), poisson(mean)), delta=1e-6)


def test_a_private_search_leaves_the_rest_of_a_budget():
    budget = PrivacyBudget(4.0, 1e-6)
    budget.spend(choice(20.0))
    n = 0
    while budget.admits(guarantee(E.Gaussian(20.0), delta=1e-6)) and n < 30:
        budget.spend(guarantee(E.Gaussian(20.0), delta=1e-6))
        n += 1
    assert n > 20
    assert budget.spent.epsilon <= 4.0


def test_what_would_use_up_a_budget_is_warned_of():
    """As for a choice among samplers that are too far from their ideal."""
    one = E.Composed([E.Gaussian(8.0), E.Residual(0.015, 1e-30)])
    release = guarantee(E.Choice(one, poisson(5.0)), delta=1e-6)
    budget = PrivacyBudget(4.0, 1e-6)
    with pytest.warns(UserWarning, match="nothing else will be admitted to this"):
        budget.spend(release)
    assert budget.remaining == 0
    # Not if it is most of the budget, or if all are fixed beforehand.
    noise = GaussianMechanism(1.0, delta=1e-6, bounds=(0, 1)).fit(ROWS)
    PrivacyBudget(1.0, 1e-6).spend(noise.privacy_guarantee_)
    PrivacyBudget(4.0, 1e-6, adaptive=False).spend(release)


def test_what_a_budget_cannot_add_up_is_refused_with_what_to_do():
    budget = PrivacyBudget(4.0, 1e-6)
    budget.spend(guarantee(E.Gaussian(20.0), delta=1e-6))
    with pytest.raises(BudgetExceededError, match="decided how this budget adds up"):
        budget.spend(choice(20.0))
    with pytest.raises(BudgetExceededError) as refused:
        budget.spend(guarantee(E.Gaussian(0.5), delta=1e-6))
    assert "adds up" not in str(refused.value)
