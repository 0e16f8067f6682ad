"""Budgets count in threads, refuse in other processes, and survive interruptions."""

import copy
import math
import os
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.privacy import PrivacyBudget
from tests.support import processes
from tests.support.budgets import FILES, left_open, locked, n_released, unrecorded
from tests.support.every_estimator import ROWS, VALUES, WHERE
from tests.support.guarantees import pure
from tests.support.interrupting import traced
from tests.support.noise import drawing
from tests.support.processes import in_spawned
from tests.support.seams import run_reserved
from tests.support.threads import in_threads

# Threads enter `warnings.catch_warnings` side by side.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.usefixtures("restored_filters"),
]

LAPLACE = LaplaceMechanism(0.1, bounds=(0, 1)).fit(ROWS)
SMALL = pure(0.1)


def release():
    return LAPLACE.transform(ROWS)


def test_parts_in_threads():
    budget, alive = PrivacyBudget(10.0), threading.Barrier(2)

    def within(part, times):
        with part():
            alive.wait(30)
            for _ in range(times):
                release()
            alive.wait(30)

    with budget:
        with budget.parallel() as part:
            in_threads(lambda: within(part, 7), lambda: within(part, 4))
            assert budget.spent.epsilon == pytest.approx(0.7)
            # Whatever a thread of its own releases is about all data.
            with part():
                in_threads(release)
        assert budget.spent.epsilon == pytest.approx(0.8)


# Threads and processes.


@pytest.fixture
def switching():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize(
    ("adaptive", "in_a_file"), [(True, False), (False, False), (True, True)]
)
def test_a_race_at_the_limit(switching, keys, adaptive, in_a_file, tmp_path):
    place = {"path": tmp_path / "budget.db", "create": True} if in_a_file else {}
    budget, refused = PrivacyBudget(2.0, adaptive=adaptive, **place), []

    def race():
        for _ in range(5):
            try:
                release()
            except BudgetExceededError:
                refused.append(1)

    outer = PrivacyBudget(math.inf)
    with outer, budget:
        in_threads(*[race] * 8)
    assert n_released(budget) == n_released(outer) == len(keys) == 20
    assert len(refused) == 20


refused_in_fork = partial(processes.refused_in_fork, message="another process")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_forks_refuse():
    budget = PrivacyBudget(9.0)
    with budget:
        assert refused_in_fork(release)
        assert refused_in_fork(lambda: clone(LAPLACE).fit_transform(ROWS))
        # A thread that holds the lock is not there in the fork.
        with locked(), ThreadPoolExecutor(1) as pool:
            assert pool.submit(refused_in_fork, release).result()
    for action in (
        lambda: budget.spend(SMALL),
        lambda: budget.admits(SMALL),
        budget.__enter__,
        lambda: budget.parallel().__enter__(),
    ):
        assert refused_in_fork(action)
    assert not refused_in_fork(release)
    assert run_reserved(SMALL, refused_in_fork, release)
    assert budget.spent is None


def refusals_of(laplace, pipeline, encoder, client, completion, ids):
    """In another process: what refuses every way to release."""
    copies = [laplace, clone(laplace).fit(ROWS), copy.deepcopy(laplace)]
    copies.append(pickle.loads(pickle.dumps(laplace)))
    with PrivacyBudget(99.0):
        copies += copy.deepcopy(laplace), pickle.loads(pickle.dumps(laplace))
        copies.append(clone(clone(laplace)).fit(ROWS))
    releases = [
        *(partial(one.transform, ROWS) for one in copies),
        lambda: clone(laplace).fit_transform(ROWS),
        lambda: pipeline.predict(ROWS),
        lambda: encoder.privatize(ROWS),
        lambda: client.privatize(ROWS),
        lambda: encoder.client().privatize(ROWS),
        lambda: completion.set_params(value_bounds=(0, 1)).fit(WHERE, VALUES),
        lambda: ids.fit([[1, 2]]),
    ]
    said = []
    for release in releases:
        try:
            release()
            said.append("nothing")
        except RuntimeError as error:
            said.append(str(error))
    return said


def test_what_is_sent_refuses_there():
    pipeline = make_pipeline(LAPLACE, LinearRegression()).fit(ROWS, ROWS[:, 0])
    encoder = TaskAwareEncoder(4.0, task=[[1.0, 1.0, 0.0]]).fit(ROWS)
    things = LAPLACE, pipeline, encoder, encoder.client(), CPCompletion(0)
    things += (CoordinateEncoder(),)
    budget = PrivacyBudget(math.inf)
    with budget:
        said = in_spawned(refusals_of, *things)
        back = pickle.loads(pickle.dumps(things))
        back[0].transform(ROWS)
        back[2].client().privatize(ROWS)
        assert n_released(budget) == 2
    assert len(said) == 14
    assert all("was sent by a process with an open" in one for one in said)


# Interruptions.


@pytest.mark.slow
def test_a_search_in_processes_is_refused(keys):
    steps = make_pipeline(LaplaceMechanism(bounds=(0, 1)), LinearRegression())
    grid = {"laplacemechanism__epsilon": [0.1, 0.2]}
    search = GridSearchCV(steps, grid, cv=2, n_jobs=2, error_score="raise")
    budget = PrivacyBudget(math.inf)
    with budget, pytest.raises(RuntimeError, match="was sent by a process"):
        search.fit(ROWS, ROWS[:, 0])
    assert budget.spent is None
    assert not keys


def test_interrupted_noise_counts():
    def interrupt(*_):
        raise KeyboardInterrupt

    budget, outer = PrivacyBudget(0.2), PrivacyBudget(math.inf)
    for action in release, lambda: LAPLACE.transform(np.full((2, 3), np.nan)), release:
        raised = pytest.raises((KeyboardInterrupt, ValueError))
        with drawing(interrupt), outer, budget, raised:
            action()
    assert n_released(budget) == n_released(outer) == 2
    with budget, pytest.raises(BudgetExceededError):
        release()


def test_interrupted_between_records(keys):
    """Recorded in one budget, not yet in the other: and nothing is drawn."""
    budgets = PrivacyBudget(1.0), PrivacyBudget(1.0)
    with budgets[0], budgets[1]:
        stopped = unrecorded(budgets[1], KeyboardInterrupt())
        with stopped, pytest.raises(KeyboardInterrupt):
            release()
        assert not keys
        release()
    assert [n_released(budget) for budget in budgets] == [2, 1]
    assert len(keys) == 1


def interrupt_at(step, action):
    """Interrupt before a line of the accounting; whether there were so many."""
    left = step

    def on_line(place):
        nonlocal left
        left -= place[0] in FILES
        if left == 0 and place[0] in FILES:
            raise KeyboardInterrupt

    try:
        traced(action, on_line)
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.parametrize("in_part", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_interrupted_anywhere_nothing_is_forgotten(keys, in_part):
    step, interrupted = 0, True
    while interrupted:
        step += 1
        budget, drawn = PrivacyBudget(50.0), len(keys)

        def action(budget=budget):
            with budget:
                if not in_part:
                    return release()
                with budget.parallel() as part:
                    for times in (2, 1):
                        with part():
                            for _ in range(times):
                                release()

        interrupted = interrupt_at(step, action)
        spent = budget.spent.epsilon if budget.spent else 0.0
        assert n_released(budget) >= len(keys) - drawn
        assert spent >= 0.1 * (len(keys) > drawn) * (1 - 1e-9)
        # Not in a part that was left by the interruption.
        with budget:
            release()
        assert budget.spent.epsilon >= (spent + 0.1) * (1 - 1e-9), step
        left_open()
    assert step > 20
    # Other threads of this process would wait for ever.
    with ThreadPoolExecutor(1) as pool:
        free = pool.submit(locked().acquire, timeout=10)
        assert free.result()
        pool.submit(locked().release)
