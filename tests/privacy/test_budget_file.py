"""A budget with a path: what any number of processes record, before they draw."""

import copy
import json
import math
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from multiprocessing import get_context
from unittest import mock

import attrs
import numpy as np
import pytest
from dp_accounting import dp_event
from joblib import parallel_config
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.privacy import PrivacyBudget
from tests.support import events as E
from tests.support.budgets import guarantees_of, n_released, releases_of
from tests.support.every_estimator import CASES, ROWS, VALUES, WHERE
from tests.support.guarantees import guarantee, pure
from tests.support.points import POINTS
from tests.support.processes import SPAWN, in_spawned
from tests.support.seams import (
    FileLedger,
    LevelDistribution,
    NoiseStreams,
    Record,
    _types,
    accounting_events,
    budgets_file,
    guarantee_from_json,
    guarantee_to_json,
    poisson,
)
from tests.support.threads import in_threads

# Threads enter `warnings.catch_warnings` side by side.
pytestmark = pytest.mark.usefixtures("restored_filters")

LAPLACE = LaplaceMechanism(0.1, bounds=(0, 1)).fit(ROWS)
completion = partial(CPCompletion, 0, value_bounds=(0, 1), shape=(4, 3), max_iter=2)
search = partial(
    PrivateSearchCV, param_distributions={"max_iter": [2, 3]}, score_bounds=(0, 1)
)
ANYONE = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "films.db"


def make(path, epsilon=2.0, **params):
    return PrivacyBudget(epsilon, path=path, create=True, **params)


def fit(estimator):
    return estimator.fit(WHERE, VALUES)


def python(*arguments, fails=0):
    """Run a new process; return what it prints, or the errors of one that fails."""
    run = [sys.executable, *map(str, arguments)]
    finished = subprocess.run(
        run, capture_output=True, text=True, env=ANYONE, check=False
    )
    assert finished.returncode == fails, finished.stderr
    return finished.stderr if fails else finished.stdout


# Events as JSON.

GAUSSIAN = E.Gaussian(4.2)
PURE = E.Pure(0.3)
EVENTS = [
    PURE, GAUSSIAN, E.Laplace(3.0), E.Nothing(),
    E.NonPrivate(), E.Integers(0.1, 2),
    E.Lattice(0.1, 1, Fraction(1, 11)),
    E.Table(((2**40, 1), (1, 2**40))),
    E.Response(LevelDistribution("laplace", 5, 0.7), 0.1),
    E.Revealing(1e-9, GAUSSIAN),
    E.Parallel([GAUSSIAN, PURE]),
    E.Choice(PURE, poisson(3.0)),
    E.Group(PURE, 3),
    E.Shuffled(PURE, 1000),
    E.Residual(1e-9, 1e-20),
    E.Composed([GAUSSIAN, E.Repeated(PURE, 3)]),
    E.Sampled(0.1, GAUSSIAN),
]  # fmt: skip


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_stored_exactly(event):
    stated = guarantee(event, delta=1e-6, unit=0, relation="add-or-remove")
    found = guarantee_from_json(guarantee_to_json(stated))
    assert found.event == stated.event
    assert found == replace(stated, statement="")
    assert found.delta_at(0.2) == stated.delta_at(0.2)


def test_every_event_of_the_package_is_known():
    stored = {type(event).__name__ for event in EVENTS}
    ours = {
        name
        for name in accounting_events.__all__
        if isinstance(getattr(accounting_events, name), type)
    }
    assert ours <= stored
    assert len(set(_types().values())) == len(_types())


@pytest.mark.thorough_after_one
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.private != "ids"], ids=lambda c: c.label
)
def test_the_guarantee_of_every_estimator(case):
    stated = clone(case.estimator).fit(*case.data).privacy_guarantee_
    found = guarantee_from_json(guarantee_to_json(stated))
    assert found.event == stated.event
    assert (found.epsilon, found.unit) == (stated.epsilon, stated.unit)


@attrs.frozen
class OwnDpEvent(dp_event.DpEvent):
    """Of a type that no file knows."""


def test_what_is_no_known_event_is_refused(path):
    budget, unknown = make(path, math.inf, adaptive=False), pure(0.1)
    object.__setattr__(unknown, "event", OwnDpEvent())
    with pytest.raises(TypeError, match="known events only, and not OwnDpEvent"):
        budget.spend(unknown)
    budget.spend(pure(0.1))
    assert budget.spent.epsilon == pytest.approx(0.1)


# The same count as without a path.

NOISE = GaussianMechanism(0.5, delta=1e-6, bounds=(0, 1))
RELEASES = {
    "pure": [pure(0.1), pure(0.1), pure(0.3)],
    "Gaussian": [guarantee(GAUSSIAN, delta=1e-7), guarantee(GAUSSIAN, delta=1e-6)],
    "mixed": [
        pure(0.2), guarantee(GAUSSIAN, delta=1e-6),
        guarantee(E.Table(((3, 1), (1, 3)))), pure(0.2),
    ],
    "of estimators": [
        NOISE.fit(ROWS).privacy_guarantee_, LAPLACE.privacy_guarantee_,
    ],
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("releases", RELEASES.values(), ids=RELEASES)
def test_the_count_is_that_of_a_budget_without_a_path(path, releases, adaptive):
    stored = make(path, 3.5, delta=1e-5, adaptive=adaptive)
    reopened = PrivacyBudget(3.5, delta=1e-5, adaptive=adaptive, path=path)
    memory = PrivacyBudget(3.5, delta=1e-5, adaptive=adaptive)
    for release in releases:
        counted = []
        for budget in (memory, stored):
            budget.spend(release, "a release")
        for budget in (memory, stored, reopened):
            probes = [pure(x) for x in (0.5, 1.0, 2.0)]
            admitted = [budget.admits(probe) for probe in probes]
            spent = budget.spent
            counted.append((spent.epsilon, spent.delta, budget.remaining, admitted))
        assert counted[0] == counted[1] == counted[2]
        assert str(memory) == str(stored) == str(reopened)
    assert memory._repr_html_() == reopened._repr_html_()


def test_the_limits_are_those_of_the_first_release(path):
    """Another process that releases something else keeps to them."""
    first = guarantee(E.Gaussian(3.0), delta=1e-6)
    memory, stored = PrivacyBudget(2.0, 1e-5), make(path, delta=1e-5)
    for budget in (memory, stored):
        budget.spend(first)
    with closing(sqlite3.connect(path)) as connection:
        (limits,) = connection.execute("SELECT limits FROM releases").fetchone()
    assert json.loads(limits)[0] > 0
    other = PrivacyBudget(2.0, 1e-5, path=path)
    table = guarantee(E.Table(((9, 1), (1, 9))))
    for budget in (memory, other):
        n = 0
        while budget.admits(table) and n < 20:
            budget.spend(table)
            n += 1
        assert n == 0  # a table has no mu, and its epsilon of 2.2 exceeds the budget
        budget.spend(pure(0.2))
    assert memory.remaining == other.remaining == stored.remaining


# Opening and creating.


def test_creating_is_explicit(path, tmp_path):
    with pytest.raises(FileNotFoundError, match="with `create=True`"):
        PrivacyBudget(1.0, path=path)
    assert not path.exists()
    make(path, 1.0).spend(pure(0.25))
    with pytest.raises(FileExistsError, match="leave out `create=True`"):
        make(path, 1.0)
    assert PrivacyBudget(1.0, path=path).spent.epsilon == 0.25
    with pytest.raises(ValueError, match="pass its path"):
        PrivacyBudget(1.0, create=True)
    for wrong in ({"epsilon": -1.0}, {"epsilon": 1.0, "delta": 2.0}):
        with pytest.raises(ValueError, match="must be"):
            PrivacyBudget(**wrong, path=tmp_path / "other.db", create=True)
    assert [file.name for file in tmp_path.iterdir()] == ["films.db"]


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"epsilon": 2.0}, "epsilon = 1.0, not 2.0"),
        ({"delta": 1e-6}, "delta = 1e-05, not 1e-06"),
        ({"adaptive": False}, "adaptive = True, not False"),
    ],
)
def test_other_parameters_are_named(path, params, named):
    same = {"epsilon": 1.0, "delta": 1e-5}
    make(path, **same)
    with pytest.raises(ValueError, match=named):
        PrivacyBudget(**same | params, path=path)


def fails_at(statement, error):
    """While this lasts, a statement of SQL that begins so raises an error."""
    run = budgets_file._run

    def failing(connection, query, *values):
        if query.startswith(statement):
            raise error
        return run(connection, query, *values)

    return mock.patch.object(budgets_file, "_run", failing)


@pytest.mark.parametrize("statement", ["PRAGMA", "BEGIN", "INSERT", "COMMIT"])
@pytest.mark.parametrize("error", [sqlite3.OperationalError("full"), KeyboardInterrupt])
def test_a_budget_that_cannot_be_made_leaves_no_file(path, tmp_path, statement, error):
    with fails_at(statement, error), pytest.raises((OSError, KeyboardInterrupt)):
        make(path)
    assert not list(tmp_path.iterdir())
    make(path).spend(pure(0.1))


def test_a_budget_that_was_made_stays(path):
    """Interrupted after the file was written: others may have released by now."""
    fill = budgets_file._fill

    def interrupted(*args):
        fill(*args)
        raise KeyboardInterrupt

    with (
        mock.patch.object(budgets_file, "_fill", interrupted),
        pytest.raises(KeyboardInterrupt),
    ):
        make(path)
    PrivacyBudget(2.0, path=path).spend(pure(0.1))


def test_infinite_budgets(path):
    make(path, math.inf).spend(pure(3.0))
    found = PrivacyBudget(math.inf, path=path)
    assert (found.remaining, found.spent.epsilon) == (math.inf, 3.0)


def test_the_path_is_absolute(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    budget = PrivacyBudget(1.0, path="films.db", create=True)
    monkeypatch.chdir("/")
    budget.spend(pure(0.5))
    assert budget.path == str(path)
    assert repr(budget).endswith(f"path={str(path)!r})")


# Other processes.


@pytest.mark.thorough
def test_a_later_process_goes_on(path):
    with make(path, 0.35):
        LAPLACE.transform(ROWS)
    n, refusal = in_spawned(spend_all, path, 0.35)
    assert n == 2
    assert "nothing was drawn" in refusal
    budget = PrivacyBudget(0.35, path=path)
    assert releases_of(budget) == [(3, "transform of LaplaceMechanism")]
    with budget, pytest.raises(BudgetExceededError):
        LAPLACE.transform(ROWS)


def release(estimator):
    """In another process: release, or say what refused."""
    try:
        estimator.transform(ROWS)
    except (RuntimeError, OSError, ValueError) as error:
        return str(error)
    except BudgetExceededError:
        return "exceeded"
    return "released"


def release_sent(sent):
    return release(pickle.loads(sent))


def in_fork(action, *args):
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(writing, action(*args).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode()


@pytest.mark.thorough
@pytest.mark.parametrize("elsewhere", [in_spawned, in_fork])
def test_a_worker_records_in_the_file(path, tmp_path, elsewhere):
    budget, limit = make(path, 0.25), make(tmp_path / "second.db", 0.15)
    with budget:
        assert elsewhere(release, LAPLACE) == "released"
        assert n_released(budget) == 1
        with limit:
            assert elsewhere(release, LAPLACE) == "released"
            assert elsewhere(release, LAPLACE) == "exceeded"
        with PrivacyBudget(9.0):  # which no other process can count in
            refusal = elsewhere(release, LAPLACE)
            assert "give the budget a path" in " ".join(refusal.split())
    assert (n_released(budget), n_released(limit)) == (2, 1)


@pytest.mark.thorough
def test_what_was_sent_records_after_the_budget_was_closed(path):
    with make(path) as budget:
        sent = pickle.dumps(LAPLACE)
    code = f"""
import pickle, numpy as np
noise = pickle.loads({sent!r})
noise.transform(np.zeros((2, 3)))
pickle.loads(pickle.dumps(noise)).transform(np.zeros((2, 3)))
from sklearn.base import clone
clone(noise).fit(np.zeros((2, 3))).transform(np.zeros((2, 3)))
"""
    python("-c", code)
    assert n_released(budget) == 3
    path.rename(path.with_suffix(".moved"))
    assert "There is no budget in" in in_spawned(release_sent, sent)
    assert not path.exists()
    path.with_suffix(".moved").rename(path)
    pickle.loads(sent).transform(ROWS)  # here as elsewhere
    assert n_released(budget) == 4


@pytest.mark.thorough
def test_a_file_in_its_place_is_not_taken_for_it(path):
    with make(path):
        sent = pickle.dumps(LAPLACE)
    path.unlink()
    make(path)
    assert "is not the budget" in in_spawned(release_sent, sent)


@pytest.mark.thorough
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_a_search_counts_the_fits_of_its_workers(path, backend):
    grid, budget = {"max_iter": [2, 3]}, make(path, 9.0)
    with budget, parallel_config(backend=backend):
        fit(GridSearchCV(completion(epsilon=0.5), grid, cv=2, n_jobs=2))
    assert releases_of(budget) == [(5, "fit of CPCompletion")]
    assert budget.spent.epsilon == pytest.approx(2.5)


def test_a_private_search_is_recorded_by_its_parent_alone(path):
    budget = make(path, 99.0)
    with budget, parallel_config(backend="loky"):
        fitted = fit(search(completion(), n_jobs=2))
    assert releases_of(budget) == [(1, "fit of PrivateSearchCV")]
    assert guarantees_of(budget)[0].event == fitted.privacy_guarantee_.event


def test_a_budget_itself_can_be_sent(path):
    budget = make(path, 0.25)
    for other in (pickle.loads(pickle.dumps(budget)), copy.deepcopy(budget)):
        with budget, other:  # one file, one record
            LAPLACE.transform(ROWS)
    assert n_released(budget) == n_released(other) == 2
    for copied in copy.copy, copy.deepcopy, pickle.dumps:
        with pytest.raises(TypeError, match=r"without a path .* cannot be copied"):
            copied(PrivacyBudget(1.0))


def spend_all(path, epsilon, start=None):
    """In a process of its own: how often it releases, and what refuses more."""
    budget, n = PrivacyBudget(epsilon, path=path), 0
    if start is not None:
        start.wait(60)
    with budget:
        try:
            while True:
                LAPLACE.transform(ROWS)
                n += 1
        except BudgetExceededError as error:
            return n, str(error)


@pytest.mark.thorough
def test_processes_race_at_the_limit(path):
    budget = make(path)
    with SPAWN.Manager() as manager, SPAWN.Pool(3) as pool:
        start = manager.Barrier(3)
        found = pool.starmap(spend_all, [(path, 2.0, start)] * 3)
    assert sum(n for n, _ in found) == n_released(budget) == 20
    assert budget.remaining == 0


def test_another_process_writes_while_the_file_is_read(path, keys):
    """Between two queries, so that these see one state only."""
    budget, other, table = (
        make(path),
        PrivacyBudget(2.0, path=path),
        budgets_file._table,
    )

    def write_elsewhere(connection, *args):
        with (
            suppress(OSError),  # it waits until this reading is over
            mock.patch.object(budgets_file, "_table", table),
            mock.patch.object(*POINTS["longest wait for a file"], 0.0),
        ):
            other.spend(pure(0.1))
        return table(connection, *args)

    with budget:
        LAPLACE.transform(ROWS)
    with mock.patch.object(budgets_file, "_table", write_elsewhere):
        assert n_released(budget) == 1
    assert len(keys) == 1


def test_another_process_takes_the_last_right_before_the_file_is_locked(path, keys):
    """What was admitted before is admitted anew, by what is recorded now."""
    budget, locked = make(path, 0.25), FileLedger.locked
    other = PrivacyBudget(0.25, path=path)

    def locked_too_late(ledger):
        if ledger is budget._ledger:
            other.spend(pure(0.2))
        return locked(ledger)

    too_late = mock.patch.object(FileLedger, "locked", locked_too_late)
    with budget, too_late, pytest.raises(BudgetExceededError):
        LAPLACE.transform(ROWS)
    assert not keys
    assert budget.spent.epsilon == 0.2


def release_and_tell(path, told):
    """Release, and tell of every release before its key is taken."""
    taken = NoiseStreams.__init__

    def tell(*args):
        os.write(told, b".")
        taken(*args)

    budget = PrivacyBudget(math.inf, path=path)
    with mock.patch.object(NoiseStreams, "__init__", tell), budget:
        for _ in range(50):
            LAPLACE.transform(ROWS)


@pytest.mark.thorough
@pytest.mark.parametrize("n_rounds", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_nothing_is_drawn_unrecorded_by_killed_processes(path, n_rounds, pytestconfig):
    """Four processes of 50 releases each, killed at random moments."""
    n_rounds *= pytestconfig.getoption("--soak")
    rng, budget, n_drawn, n_killed = random.Random(0), make(path, math.inf), 0, 0
    fork = get_context("fork")
    for _ in range(n_rounds):
        reading, writing = os.pipe()
        workers = [
            fork.Process(target=release_and_tell, args=(path, writing))
            for _ in range(4)
        ]
        for worker in workers:
            worker.start()
        os.close(writing)
        for worker in workers:
            time.sleep(rng.uniform(0, 0.15))
            worker.kill()
        for worker in workers:
            worker.join()
            n_killed += worker.exitcode == -signal.SIGKILL
        with os.fdopen(reading, "rb") as pipe:
            n_drawn += len(pipe.read())
        assert n_drawn <= n_released(budget)
    assert n_drawn > n_rounds
    assert n_killed > n_rounds
    # A killed process leaves at most one release that it did not make.
    assert n_released(budget) <= n_drawn + n_killed


# The order of writing.


def test_a_release_is_on_the_disk_before_its_key_is_taken(path, keys):
    seen = []

    def look(*_):
        with closing(sqlite3.connect(path)) as connection:
            seen.append(connection.execute("SELECT COUNT(*) FROM releases").fetchone())

    looking = mock.patch.object(NoiseStreams, "__init__", look)
    with make(path), looking, pytest.raises(AttributeError):  # there is no key
        LAPLACE.transform(ROWS)
    assert seen == [(1,)]


@pytest.mark.parametrize("method", ["locked", "add", "commit"])
def test_what_cannot_be_recorded_is_not_drawn(path, keys, method):
    budget = make(path)
    failed = mock.patch.object(FileLedger, method, side_effect=OSError("full"))
    with budget:
        with failed, pytest.raises(OSError, match="full"):
            LAPLACE.transform(ROWS)
        assert not keys
        assert n_released(budget) == 0
        LAPLACE.transform(ROWS)
    assert n_released(budget) == len(keys) == 1


def test_two_files_count_or_refuse_together(path, tmp_path, keys):
    wide, tight = make(path, 9.0), make(tmp_path / "another.db", 0.15)
    memory = PrivacyBudget(9.0)
    with memory, wide, tight:
        LAPLACE.transform(ROWS)
        with pytest.raises(BudgetExceededError):
            LAPLACE.transform(ROWS)
        assert len(keys) == 1
        # A crash between the two commits counts too much in the first file.
        order, commit = [], FileLedger.commit

        def crash(ledger):
            order.append(ledger.path)
            if len(order) == 2:
                raise KeyboardInterrupt
            commit(ledger)

        bigger = PrivacyBudget(9.0, path=tmp_path / "third.db", create=True)
    with (
        memory,
        bigger,
        wide,
        mock.patch.object(FileLedger, "commit", crash),
        pytest.raises(KeyboardInterrupt),
    ):
        LAPLACE.transform(ROWS)
    assert order == sorted(order)
    assert len(keys) == 1
    assert [n_released(one) for one in (memory, wide, tight, bigger)] == [1, 2, 1, 0]


def release_in_both(*paths):
    first, second = (PrivacyBudget(math.inf, path=path) for path in paths)
    with first, second:
        for _ in range(30):
            LAPLACE.transform(ROWS)


@pytest.mark.thorough
def test_opposite_orders_do_not_wait_for_each_other(path, tmp_path):
    names = [path, tmp_path / "another.db"]
    for name in names:
        make(name, math.inf)
    with SPAWN.Pool(2) as pool:
        pool.starmap_async(release_in_both, [names, names[::-1]]).get(100)
    assert [n_released(PrivacyBudget(math.inf, path=n)) for n in names] == [60, 60]


# What a budget with a path refuses.

SEEDED = {
    "a fit": lambda: fit(completion(random_state=0)),
    "a fit without noise": lambda: fit(completion(epsilon=math.inf, random_state=0)),
    "transform": lambda: clone(LAPLACE).set_params(random_state=3).fit_transform(ROWS),
    "a client": lambda: completion().client(random_state=0).privatize(VALUES),
    "a search": lambda: fit(search(completion(), random_state=0)),
    "what a search fits": lambda: fit(search(completion(random_state=0))),
}


@pytest.mark.thorough
@pytest.mark.parametrize("release", SEEDED.values(), ids=SEEDED)
def test_integer_seeds(path, keys, release):
    """Two processes would each count its releases from 0, and share their noise."""
    budget = make(path, math.inf)
    with budget, pytest.raises(ValueError, match="random_state=None; nothing was"):
        release()
    assert not keys
    assert n_released(budget) == 0
    with PrivacyBudget(math.inf) as memory:
        release()
    assert n_released(memory) == 1


@pytest.mark.thorough
def test_a_seed_that_was_sent(path):
    with make(path):
        sent = pickle.dumps(clone(LAPLACE).set_params(random_state=1).fit(ROWS))
    assert "integer random_state" in in_spawned(release_sent, sent)


def test_disjoint_parts(path):
    with pytest.raises(ValueError, match="which part of the"):
        make(path).parallel().__enter__()


def test_another_unit_in_another_process(path):
    make(path).spend(pure(0.1))
    with pytest.raises(ValueError, match="different units"):
        PrivacyBudget(2.0, path=path).spend(pure(0.1, unit="entry"))


def test_published_ids_count_in_every_process(path):
    ids = CoordinateEncoder()
    with make(path):
        ids.fit([[1, 2]])
    other = PrivacyBudget(2.0, path=path)
    user = pure(0.1, unit=0, relation="add-or-remove")
    with pytest.raises(BudgetExceededError, match="publishes the ids"):
        other.spend(user)
    assert "CoordinateEncoder" in str(other.unprotected)
    # And the other way round.
    users = make(path.with_name("users.db"))
    users.spend(user)
    with PrivacyBudget(2.0, path=users.path), pytest.raises(BudgetExceededError):
        clone(ids).fit([[1, 2]])


# Files that cannot be used.


def add_unknown(path):
    """A release in order, of an event that no version knows."""
    ledger = FileLedger(path)
    unknown = '{"event": {"type": "os.system"}}'
    writing = mock.patch.object(budgets_file, "guarantee_to_json", return_value=unknown)
    with writing, ledger.locked():
        list(ledger.news())
        ledger.add(Record("x", pure(0.1), (), None))
        ledger.commit()


# What spoils a file: a function, or a statement in SQL.
BROKEN = {
    "missing": (lambda path: path.unlink(), "There is no budget"),
    "empty": (lambda path: path.write_bytes(b""), "is not a budget, or is damaged"),
    "text": (lambda path: path.write_text("12 fits " * 900), "is not a budget"),
    "cut": (
        lambda path: path.write_bytes(path.read_bytes()[:5000]), "is not a budget",
    ),
    "another database": ("PRAGMA application_id = 3", "is not a budget"),
    "a newer format": ("PRAGMA user_version = 99", "A newer version"),
    "newer accounting": (
        "UPDATE budget SET value = '99' WHERE name = 'accounting'", "A newer version",
    ),
    "no accounting": (
        "DELETE FROM budget WHERE name = 'accounting'",
        "is not a budget, or is damaged",
    ),
    "an impossible accounting": (
        "UPDATE budget SET value = '1e3' WHERE name = 'accounting'",
        "is not a budget, or is damaged",
    ),
    "a release is missing": (
        "DELETE FROM releases WHERE number = 1", "is not a budget, or is damaged",
    ),
    "another budget": (
        lambda path: (path.unlink(), make(path)), "is not the budget that was",
    ),
    "all releases are gone": ("DELETE FROM releases", "has lost releases"),
    "an unknown event": (add_unknown, "is not a budget, or is damaged"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), BROKEN.values(), ids=BROKEN)
def test_a_file_that_cannot_be_used(path, keys, spoil, message):
    budget = make(path)
    with budget:
        for _ in range(3):
            LAPLACE.transform(ROWS)
        del keys[:]
        if isinstance(spoil, str):
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(spoil)
        else:
            spoil(path)
        with pytest.raises(OSError, match=message):
            LAPLACE.transform(ROWS)
        for ask in (budget.__str__, lambda: budget.remaining, budget.history):
            with pytest.raises(OSError, match=message):
                ask()
    assert not keys
    if message not in ("has lost releases", "is not the budget that was"):
        with pytest.raises(OSError, match=message):
            PrivacyBudget(2.0, path=path).spend(pure(0.1))


def test_a_read_only_file(path, keys):
    budget, connect = make(path), sqlite3.connect

    def read_only(address, **options):
        return connect(address.replace("mode=rw", "mode=ro"), **options)

    with budget, mock.patch.object(sqlite3, "connect", read_only):
        with pytest.raises(OSError, match="is read-only"):
            LAPLACE.transform(ROWS)
        assert str(budget).startswith("Privacy budget")
    assert not keys


@pytest.mark.thorough
def test_a_full_disk(path):
    """The file may not grow: a limit of the process stands in for that of a disk."""
    make(path, math.inf)
    code = """
import os, resource, sys, numpy as np
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.privacy import PrivacyBudget
from tests.support.seams import NoiseStreams
X = np.zeros((2, 3))
noise = LaplaceMechanism(0.1, bounds=(0, 1)).fit(X)
drawn, taken = [], NoiseStreams.__init__
NoiseStreams.__init__ = lambda *a: (drawn.append(1), taken(*a))[0]
with PrivacyBudget(float("inf"), path=sys.argv[1]) as budget:
    size = os.path.getsize(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        for _ in range(500):
            noise.transform(X)
    except OSError as error:
        print(error)
    print(len(drawn))
"""
    *_, message, n_drawn = python("-c", code, path).strip().split("\n")
    assert "nothing was drawn" in message
    assert n_released(PrivacyBudget(math.inf, path=path)) == int(n_drawn) < 500


def test_another_process_keeps_the_file_locked(path, keys):
    budget = make(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with budget, mock.patch.object(*POINTS["longest wait for a file"], 0.1):
        with pytest.raises(OSError, match=r"Another process has kept .* locked"):
            LAPLACE.transform(ROWS)
        assert str(budget)  # reading goes on
    holder.close()
    assert not keys


def test_who_reads_one_file_does_not_make_another_count_twice(path, tmp_path, keys):
    """All files are locked against readers, too, before one of them is written."""
    budgets = make(path), make(tmp_path / "read.db")
    reader = sqlite3.connect(budgets[1].path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM budget").fetchall()
    left = [lambda: None, reader.close]

    def pause(seconds):
        left.pop(0)()

    pausing = mock.patch.object(*POINTS["pause before another try"], pause)
    with pausing, budgets[0], budgets[1]:
        LAPLACE.transform(ROWS)
    assert not left
    assert [n_released(budget) for budget in budgets] == [1, 1]
    assert len(keys) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE", "of a reader"])
def test_a_locked_file_delays_only_what_needs_it(path, tmp_path, lock):
    """Two threads wait for one file; with another, a third releases, and forks."""
    budget, other = make(path, 9.0), make(tmp_path / "other.db", 9.0)
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    if lock == "of a reader":
        holder.execute("BEGIN")
        holder.execute("SELECT * FROM budget").fetchall()
    else:
        holder.execute(f"BEGIN {lock}")
    waiting, pauses = [threading.Event(), threading.Event()], threading.local()

    def pause(seconds):
        pauses.event.set()
        time.sleep(seconds)

    def wait_with(event, action):
        pauses.event = event
        return action()

    def go_on():
        try:
            for event in waiting:
                assert event.wait(60)
            other.spend(pure(0.1))
            assert PrivacyBudget(9.0, path=other.path).spent.epsilon == 0.1
            with other:
                copied = clone(LAPLACE).fit(ROWS)
            assert in_fork(release, copied) == "released"
            return n_released(other)
        finally:
            holder.close()

    with mock.patch.object(*POINTS["pause before another try"], pause):
        *_, counted = in_threads(
            lambda: wait_with(waiting[0], lambda: budget.spend(pure(0.1))),
            lambda: wait_with(waiting[1], lambda: budget.spend(pure(0.2))),
            go_on,
        )
    assert counted == 2
    assert budget.spent.epsilon == pytest.approx(0.3)


# What the file and the history hold.


def test_the_history(path):
    pd = pytest.importorskip("pandas")
    budget = make(path, 9.0)
    with budget:
        LAPLACE.transform(ROWS)
        CoordinateEncoder().fit([[1, 2]])
    budget.spend(pure(0.5), "a survey")
    for found in (budget, PrivacyBudget(9.0, path=path)):
        table = found.history()
        assert isinstance(table, pd.DataFrame)
        assert table["label"].tolist() == [
            "transform of LaplaceMechanism", "CoordinateEncoder", "a survey",
        ]  # fmt: skip
        assert table["unit"].dropna().tolist() == ["sample", "sample"]
        assert table["event"].tolist() == [
            LAPLACE.privacy_guarantee_.event, None, E.Pure(0.5),
        ]  # fmt: skip
        assert table["time"].is_monotonic_increasing
        assert "sktensordp 0" in table["versions"][0]
    with mock.patch.dict(sys.modules, {"pandas": None}):
        rows = budget.history()
    assert [row["label"] for row in rows] == table["label"].tolist()
    with pytest.raises(ValueError, match="pass a path"):
        PrivacyBudget(1.0).history()
    with pytest.raises(TypeError, match="name must be a str"):
        budget.spend(pure(0.5), {"user": 3})


def test_the_file_holds_no_data_and_no_key(path, keys):
    values = np.array([0.123456789, 0.987654321, 0.555444333])
    ids, model = CoordinateEncoder(), completion(shape=(700_000, 900_000))
    with make(path, 9.0):
        ids.fit([["Ottilie", "Solaris"]])
        model.fit([[613_613, 871_871], [2, 3], [5, 5]], values)
    rows = path.with_name("rows.db")
    with make(rows):
        LAPLACE.transform(values[np.newaxis])
    stored = path.read_bytes() + rows.read_bytes()
    assert b"CPCompletion" in stored
    assert len(keys) == 2
    # Keys and times hold six given digits by chance in one of 20,000 runs at most.
    for secret in ("Ottilie", "Solaris", "613613", "871871", "0.123456", "987654"):
        assert secret.encode() not in stored, secret
    for key in keys:
        assert key not in stored
        assert key.hex().encode() not in stored


@pytest.mark.thorough
def test_the_file_is_printed(path):
    with make(path, 9.0):
        LAPLACE.transform(ROWS)
        CoordinateEncoder().fit([[1, 2]])
    shown = python("-m", "sktensordp.privacy", path)
    assert shown.startswith(str(PrivacyBudget(9.0, path=path)))
    assert "epsilon = 0.1: transform of LaplaceMechanism (sktensordp 0." in shown
    assert "ids published: CoordinateEncoder" in shown
    missing = python("-m", "sktensordp.privacy", path.with_suffix(".not"), fails=1)
    assert "There is no budget" in missing
    assert "Traceback" not in missing
