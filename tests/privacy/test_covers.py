"""Budgets that cover certain objects: they charge each other in no thread.

Threads wait for events, so that nothing here hangs on how fast they are.
"""

import copy
import math
import pickle
import threading
from functools import partial

import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sktensordp.completion import CoordinateEncoder, CPCompletion, Recommender
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.privacy import PrivacyBudget, detach_from_budgets
from tests.support.budgets import n_released
from tests.support.every_estimator import ROWS, VALUES, WHERE
from tests.support.threads import in_threads

pytestmark = pytest.mark.usefixtures("restored_filters")

CLOSED = "That budget is closed now"


def mechanism():
    return LaplaceMechanism(0.1, bounds=(0, 1)).fit(ROWS)


def completion():
    return CPCompletion(0, epsilon=0.1, value_bounds=(0, 1), max_iter=1, shape=(4, 3))


def pipeline():
    return make_pipeline(LaplaceMechanism(0.1, bounds=(0, 1)), LinearRegression())


def round_trip(one):
    return pickle.loads(pickle.dumps(one))


def fit(one):
    return one.fit(WHERE, VALUES)


def refit(one):
    return clone(one).fit(ROWS).transform(ROWS)


def search(one):
    grid = {"laplacemechanism__epsilon": [0.1, 0.2]}
    return GridSearchCV(one, grid, cv=2, refit=False).fit(ROWS, ROWS[:, 0])


def private_search():
    return PrivateSearchCV(
        completion(), {"rank": [0, 1]}, n_iter=2, cv=2, score_epsilon=0.1
    )


# What is covered, and how it releases.
COVERED = {
    "object": (mechanism, lambda one: one.transform(ROWS)),
    "clone": (mechanism, refit),
    "copy": (mechanism, lambda one: copy.copy(one).transform(ROWS)),
    "deep copy": (mechanism, lambda one: copy.deepcopy(one).transform(ROWS)),
    "unpickled": (mechanism, lambda one: round_trip(one).transform(ROWS)),
    "copy of a copy": (mechanism, lambda one: refit(round_trip(copy.copy(one)))),
    "client": (
        lambda: TaskAwareEncoder(4.0, task=[[1.0, 1.0, 0.0]]).fit(ROWS),
        lambda one: one.client().privatize(ROWS),
    ),
    "client of values": (completion, lambda one: one.client().privatize(VALUES)),
    "steps": (pipeline, lambda one: one.fit(ROWS, ROWS[:, 0])),
    "clones of steps": (pipeline, lambda one: clone(one).fit(ROWS, ROWS[:, 0])),
    "search": (pipeline, search),
    "search that is covered": (
        lambda: GridSearchCV(
            pipeline(), {"linearregression": [LinearRegression()]}, cv=2
        ),
        lambda one: one.fit(ROWS, ROWS[:, 0]),
    ),
    "validation": (pipeline, lambda one: cross_validate(one, ROWS, ROWS[:, 0], cv=2)),
    "private search": (private_search, fit),
    "ids": (CoordinateEncoder, fit),
    "recommender": (lambda: Recommender(completion()), fit),
    "list": (lambda: [pipeline()], lambda one: one[0].fit(ROWS, ROWS[:, 0])),
    "function": (
        lambda: FunctionTransformer(mechanism().transform),
        lambda one: one.transform(ROWS),
    ),
}


def counted(budget):
    """Whether a budget has counted a release or published ids."""
    return bool(n_released(budget) or budget.unprotected)


@pytest.mark.parametrize(("make", "release"), COVERED.values(), ids=COVERED)
def test_what_is_covered(make, release, keys):
    """It counts in its budgets alone, and in those that cover nothing in particular."""
    covered = make()
    budget, other = (PrivacyBudget(math.inf).covers(each) for each in (covered, make()))
    outer = PrivacyBudget(math.inf)
    with budget, other, outer:
        release(covered)
        release(make())  # which nobody covers
    assert counted(budget)
    assert not counted(other)
    assert n_released(outer) == 2 * n_released(budget)
    taken = len(keys)
    with other, pytest.raises((RuntimeError, ValueError), match=CLOSED):
        release(covered)
    assert len(keys) == taken
    before = n_released(budget)
    release(detach_from_budgets(covered))
    assert n_released(budget) == before


def test_two_threads_with_a_budget_each(keys):
    """Both budgets are open while both threads release, fit clones and make copies."""
    both_open, both_done = threading.Barrier(2), threading.Barrier(2)
    budgets, n_times = {}, {"short": 2, "long": 5}

    def work(name):
        one = mechanism()
        with PrivacyBudget(0.1 * n_times[name]).covers(one) as budget:
            budgets[name] = budget
            both_open.wait(60)
            one.transform(ROWS)
            refit(one)
            for _ in range(n_times[name] - 2):
                round_trip(one).transform(ROWS)
            with pytest.raises(BudgetExceededError):
                clone(one).fit_transform(ROWS)
            both_done.wait(60)

    in_threads(*(partial(work, name) for name in n_times))
    assert {name: n_released(b) for name, b in budgets.items()} == n_times
    assert len(keys) == sum(n_times.values())


@pytest.mark.parametrize("bound", [True, False])
def test_copies_of_others_in_its_block(bound):
    """They do not belong to it, and go on when it is closed; else they do."""
    one, budget = mechanism(), PrivacyBudget(math.inf)
    if bound:
        budget.covers(mechanism())
    with budget:
        other, sent = clone(one).fit(ROWS), pickle.dumps(one)
    for each in other, pickle.loads(sent):
        if bound:
            each.transform(ROWS)
        else:
            with pytest.raises(RuntimeError, match=CLOSED):
                each.transform(ROWS)
    assert n_released(budget) == 0


def test_threads_of_pools_in_its_block():
    """What they release is covered, or it is not; the threads do not matter."""
    one, other, grid = pipeline(), mechanism(), {"laplacemechanism__epsilon": [0.1]}
    with PrivacyBudget(math.inf).covers(one) as budget, parallel_config("threading"):
        GridSearchCV(one, grid, cv=2, n_jobs=2, refit=False).fit(ROWS, ROWS[:, 0])
        other.transform(ROWS)
    assert n_released(budget) == 4


def test_a_budget_with_a_path(tmp_path):
    path, one = tmp_path / "budget.db", mechanism()
    budget = PrivacyBudget(0.25, path=path, create=True).covers(one)
    one.transform(ROWS)  # it is closed, and counts all the same
    with budget:
        mechanism().transform(ROWS)
        seeded = clone(mechanism()).set_params(random_state=0).fit(ROWS)
        seeded.transform(ROWS)  # the file does not count it
        with pytest.raises(ValueError, match="integer random_state"):
            clone(one).set_params(random_state=0).fit_transform(ROWS)
        round_trip(one).transform(ROWS)
        with pytest.raises(BudgetExceededError):
            clone(one).fit_transform(ROWS)
    assert n_released(PrivacyBudget(0.25, path=path)) == 2


def test_parts():
    one = mechanism()
    with PrivacyBudget(math.inf).covers(one) as budget, budget.parallel() as part:
        for rows in ROWS[:4], ROWS[4:]:
            with part():
                one.transform(rows)
                mechanism().transform(rows)
    assert budget.spent.epsilon == 0.1


def test_two_budgets_for_one_object():
    one = mechanism()
    budgets = [PrivacyBudget(math.inf).covers(one) for _ in range(2)]
    with budgets[0]:
        with pytest.raises(RuntimeError, match=CLOSED):
            one.transform(ROWS)
        with budgets[1]:
            one.transform(ROWS)
    assert [n_released(budget) for budget in budgets] == [1, 1]


def test_more_is_covered_while_it_is_open():
    one, two = mechanism(), mechanism()
    with PrivacyBudget(math.inf).covers(one) as budget:
        budget.covers(two)
        two.transform(ROWS)
    assert n_released(budget) == 1


def test_what_cannot_be_covered():
    budget = PrivacyBudget(1.0)
    with pytest.raises(TypeError, match="Nothing in this LinearRegression can"):
        budget.covers(LinearRegression())
    with budget:
        with pytest.raises(RuntimeError, match="before you open it"):
            budget.covers(mechanism())
        mechanism().transform(ROWS)
    assert n_released(budget) == 1


def test_what_is_covered_refuses_elsewhere():
    """Another process does not know the budget: shown by the mark of one."""
    one = mechanism()
    with PrivacyBudget(math.inf).covers(one):
        state = one.__getstate__()
    (mark,) = state["_budget_marks"]
    state["_budget_marks"] = frozenset({mark._replace(process="another")})
    sent = LaplaceMechanism.__new__(LaplaceMechanism)
    sent.__setstate__(state)
    for release in partial(sent.transform, ROWS), partial(refit, sent):
        with pytest.raises(RuntimeError, match="sent by a process"):
            release()
