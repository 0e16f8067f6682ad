"""Copies and tasks that outlive the block of a budget: counted by it, or refused.

Never counted by another budget, never by none. Tasks wait for an event, so that nothing
here hangs on how fast threads are.
"""

import copy
import math
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from functools import partial

import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    NoiseShares,
    Recommender,
    fit_aggregated,
    party,
)
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.moments import MultilinearPCA
from sktensordp.privacy import PrivacyBudget, detach_from_budgets
from tests.support.budgets import n_released, recording
from tests.support.every_estimator import ROWS, VALUES, WHERE
from tests.support.held import N_TASKS, TASKS, Held, in_a_thread

pytestmark = pytest.mark.thorough
LAPLACE = LaplaceMechanism(0.1, bounds=(0, 1)).fit(ROWS)
ENCODER = TaskAwareEncoder(4.0, task=[[1.0, 1.0, 0.0]]).fit(ROWS)
COMPLETION = CPCompletion(0, epsilon=0.1, value_bounds=(0, 1), max_iter=1, shape=(4, 3))
USERS = CPCompletion(
    1, epsilon=1.0, delta=1e-6, unit=0, value_bounds=(0, 1), shape=(4, 3), max_iter=1
)
SAMPLES = MultilinearPCA((1,), epsilon=1.0, norm_bound=1.0, tensor_shape=(3,))
GRID, SHARES = {"rank": [0, 1]}, NoiseShares(2)
CLOSED = "That budget is closed now"


def round_trip(thing):
    return pickle.loads(pickle.dumps(thing))


def refused(release, *args):
    """Whether a release is refused because its budget is closed."""
    try:
        release(*args)
    except RuntimeError as error:
        return CLOSED in str(error)
    return False


# --- copies --------------------------------------------------------------------------


def transform(one):
    return one.transform(ROWS)


def fit_transform(one):
    return clone(one).fit(ROWS).transform(ROWS)


def fit(one):
    return one.fit(WHERE, VALUES)


def parties():
    return [party(USERS, WHERE, VALUES, noise_shares=SHARES) for _ in range(2)]


def aggregated(parties):
    def ask(request):
        return sum(one.answer(request) for one in parties), len(parties)

    return fit_aggregated(USERS, ask, noise_shares=SHARES)


def search_of_a_copy():
    return PrivateSearchCV(clone(COMPLETION), GRID, n_iter=2, cv=2, score_epsilon=0.1)


# What is made in the block, and how it releases after it.
COPIES = {
    "clone": (partial(clone, LAPLACE), fit_transform),
    "copy": (partial(copy.copy, LAPLACE), transform),
    "deep copy": (partial(copy.deepcopy, LAPLACE), transform),
    "pickled": (partial(pickle.dumps, LAPLACE), lambda p: transform(pickle.loads(p))),
    "unpickled": (partial(pickle.loads, pickle.dumps(LAPLACE)), transform),
    "detached": (partial(detach_from_budgets, LAPLACE), transform),
    "client": (ENCODER.client, lambda one: one.privatize(ROWS)),
    "client of values": (COMPLETION.client, lambda one: one.privatize(VALUES)),
    "parties": (parties, aggregated),
    "party of samples": (
        lambda: party(SAMPLES, ROWS, noise_shares=NoiseShares(1)),
        lambda one: fit_aggregated(
            SAMPLES,
            lambda request: (one.answer(request), 1),
            n_samples=len(ROWS),
            noise_shares=NoiseShares(1),
        ),
    ),
    "completion": (partial(clone, COMPLETION), fit),
    "search": (partial(clone, search_of_a_copy()), fit),
    "search of a copy": (search_of_a_copy, fit),
    "ids": (partial(clone, CoordinateEncoder()), fit),
    "recommender": (partial(clone, Recommender(COMPLETION)), fit),
    "steps": (
        lambda: ColumnTransformer([("noise", LAPLACE, [0, 1, 2])]).fit(ROWS),
        transform,
    ),
}


@pytest.mark.parametrize(("make", "release"), COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("error", [False, True], ids=["ended", "left by an error"])
def test_a_copy_counts_in_its_budget_alone(make, release, error, keys):
    budget, other = PrivacyBudget(math.inf), PrivacyBudget(math.inf)
    with suppress(KeyError), budget:
        copied = make()
        if error:
            raise KeyError
    recorded, taken = n_released(budget), len(keys)
    assert refused(release, copied)
    with other:
        assert refused(release, copied)
    assert (n_released(budget), n_released(other), len(keys)) == (recorded, 0, taken)
    assert not other.unprotected
    # The same budget, entered again.
    with other, budget:
        release(copied)
    assert n_released(budget) - recorded == n_released(other)
    assert n_released(other) or other.unprotected


def test_copies_of_copies_belong_to_the_budgets_of_all():
    first, second, other = (PrivacyBudget(math.inf) for _ in range(3))
    with first:
        one = clone(LAPLACE).fit(ROWS)
    copies = [one, copy.copy(one), copy.deepcopy(one), round_trip(one)]
    copies += [clone(one).fit(ROWS)]
    with second:
        both = clone(one).fit(ROWS)
    with other:
        assert [refused(transform, each) for each in copies] == [True] * len(copies)
        with first:
            for each in copies:
                each.transform(ROWS)
            assert refused(transform, both)
            with second:
                both.transform(ROWS)
        with second:
            assert refused(transform, both)
    assert n_released(first) == n_released(other) == len(copies) + 1
    assert n_released(second) == 1


def test_a_copy_in_nested_budgets_counts_in_both():
    outer, inner = PrivacyBudget(math.inf), PrivacyBudget(math.inf)
    with outer:
        one = clone(LAPLACE).fit(ROWS)
        with inner:
            one.transform(ROWS)
            two = clone(LAPLACE).fit(ROWS)
            two.transform(ROWS)
        one.transform(ROWS)
        assert refused(transform, two)
    assert (n_released(outer), n_released(inner)) == (3, 2)


def test_an_original_counts_wherever_it_is_used(keys):
    one = LaplaceMechanism(0.1, bounds=(0, 1)).fit(ROWS)
    budgets = PrivacyBudget(math.inf), PrivacyBudget(math.inf)
    for budget in budgets:
        with budget:
            made = LaplaceMechanism(0.1, bounds=(0, 1)).fit(ROWS)
            one.transform(ROWS)
    one.transform(ROWS)
    made.transform(ROWS)
    assert [n_released(budget) for budget in budgets] == [1, 1]
    assert len(keys) == 4


def test_what_draws_no_noise_is_not_refused():
    with PrivacyBudget(math.inf):
        model = clone(COMPLETION).fit(WHERE, VALUES)
        search = GridSearchCV(COMPLETION, {"rank": [0, 1]}, cv=2).fit(WHERE, VALUES)
    for one in model, search, round_trip(model), round_trip(search):
        one.predict(WHERE)
    assert refused(fit, model)
    model.predict(WHERE)


def test_a_detached_copy_is_counted_by_what_is_open(keys):
    target, other = ROWS[:, 0], PrivacyBudget(math.inf)
    steps = make_pipeline(LaplaceMechanism(bounds=(0, 1)), LinearRegression())
    grid = {"laplacemechanism__epsilon": [0.1, 0.2]}
    budget = PrivacyBudget(math.inf)
    with budget:
        search = GridSearchCV(steps, grid, cv=2).fit(ROWS, target)
    recorded = n_released(budget)
    with other:
        assert refused(search.predict, ROWS)
        for detach in detach_from_budgets, lambda s: detach_from_budgets([s])[0]:
            inside = detach(search)
            inside.predict(ROWS)
    outside = detach_from_budgets(search)
    outside.predict(ROWS)
    assert refused(inside.predict, ROWS)
    assert refused(search.predict, ROWS)
    assert (n_released(budget), n_released(other)) == (recorded, 2)


def test_a_budget_with_a_path_counts_copies_when_it_is_closed(tmp_path):
    path, other = tmp_path / "budget.db", PrivacyBudget(math.inf)
    with PrivacyBudget(0.35, path=path, create=True) as budget:
        one, sent = clone(LAPLACE).fit(ROWS), pickle.dumps(LAPLACE)
    one.transform(ROWS)
    with other:
        pickle.loads(sent).transform(ROWS)
    # Another object for the same file.
    with PrivacyBudget(0.35, path=path):
        one.transform(ROWS)
    with pytest.raises(BudgetExceededError):
        one.transform(ROWS)
    assert (n_released(budget), n_released(other)) == (3, 1)


# --- tasks ---------------------------------------------------------------------------


@pytest.mark.usefixtures("restored_filters")
@pytest.mark.parametrize("in_part", [False, True], ids=["", "in a part"])
@pytest.mark.parametrize("other", [None, PrivacyBudget(math.inf)], ids=["", "other"])
@pytest.mark.parametrize("fails", [False, True], ids=["ended", "left by an error"])
@pytest.mark.parametrize("begin", TASKS, ids=lambda f: f.__name__)
def test_tasks_of_threads_are_refused(begin, fails, other, in_part, keys):
    budget, held = PrivacyBudget(math.inf), Held(N_TASKS, fails)
    before = set(threading.enumerate())

    def begun():
        with parallel_config(backend="threading"):
            begin(held)

    def run_block():
        with ExitStack() as stack:
            stack.enter_context(budget)
            if in_part:
                stack.enter_context(stack.enter_context(budget.parallel())())
            if fails:
                with pytest.raises(KeyError):
                    begun()
                raise KeyError
            in_a_thread(begun)
            held.all_wait()

    with suppress(KeyError):
        run_block()
    with other or nullcontext():
        held.let_go()
        for thread in set(threading.enumerate()) - before:
            thread.join(60)
            assert not thread.is_alive()
    assert held.n_went_on >= N_TASKS - fails
    assert not keys
    assert budget.spent is None
    assert other is None or other.spent is None


def test_a_private_search_has_been_counted_before_it_draws(keys):
    budget, other = PrivacyBudget(math.inf), PrivacyBudget(math.inf)
    held, search = Held(1, fails=False), search_of_a_copy()
    with recording(after=held.hold):
        with budget:
            thread = in_a_thread(partial(fit, search))
            held.all_wait()
        assert not keys
        with other:
            held.let_go()
            thread.join(60)
    search.predict(WHERE)
    assert n_released(budget) == 1
    assert len(keys) > 1
    assert other.spent is None


class Own(threading.Thread):
    """A thread that has an estimator as an attribute."""

    def __init__(self, held):
        super().__init__()
        self.held, self.mechanism = held, LAPLACE

    def run(self):
        went_on(self.held, self.mechanism)


OUTCOMES = []


def went_on(held, *mechanisms, **named):
    """Wait, and release with whatever there is, or with a new original."""
    held.hold()
    for mechanism in [*mechanisms, *named.values()] or [LAPLACE]:
        while isinstance(mechanism, list | tuple):
            mechanism = mechanism[0]
        OUTCOMES.append(refused(getattr(mechanism, "transform", mechanism), ROWS))


def with_closure(held):
    mechanism = LAPLACE
    return threading.Thread(target=lambda: went_on(held, mechanism))


def with_global(held):
    return threading.Thread(target=lambda: went_on(held))


def of_executor(held):
    # The task waits, so its thread is there.
    executor = ThreadPoolExecutor(1)
    executor.submit(went_on, held, LAPLACE)
    executor.shutdown(wait=False)
    return next(iter(executor._threads))


def thread(*args, **kwargs):
    return lambda held: threading.Thread(
        target=went_on, args=(held, *args), kwargs=kwargs
    )


HANDED = {
    "argument": thread(LAPLACE),
    "named": thread(mechanism=LAPLACE),
    "in containers": thread([[LAPLACE]]),
    "method": thread(LAPLACE.transform),
    "partial": thread(partial(LAPLACE.transform)),
    "pipeline": thread(make_pipeline(LAPLACE)),
    "function": lambda held: threading.Thread(target=partial(went_on, held, LAPLACE)),
    "variable": with_closure,
    "attribute": Own,
    "timer": lambda held: threading.Timer(0.0, went_on, (held, LAPLACE)),
}
NOT_SEEN = {"global": with_global, "executor": of_executor}


def outcome(make, budget, other=None, *, before=False):
    """Whether the release of a thread that outlives the block is refused."""
    held = Held(1, fails=False)

    def started():
        thread = make(held)
        if not thread.is_alive():
            thread.start()
        held.all_wait()
        return thread

    OUTCOMES.clear()
    thread = started() if before else None
    with budget:
        thread = thread or started()
    with other or nullcontext():
        held.let_go()
        thread.join(60)
    (was_refused,) = OUTCOMES
    return was_refused


@pytest.mark.parametrize("other", [None, PrivacyBudget(math.inf)], ids=["", "other"])
@pytest.mark.parametrize("make", HANDED.values(), ids=HANDED)
def test_a_thread_that_was_handed_an_original_is_refused(make, other, keys):
    budget = PrivacyBudget(math.inf)
    assert outcome(make, budget, other)
    assert not keys
    assert budget.spent is None
    assert other is None or other.spent is None
    # Elsewhere, the original is as free as before.
    LAPLACE.transform(ROWS)
    assert len(keys) == 1


def test_a_budget_with_a_path_counts_a_thread_that_was_handed_an_original(tmp_path):
    budget = PrivacyBudget(1.0, path=tmp_path / "budget.db", create=True)
    assert not outcome(HANDED["argument"], budget)
    assert n_released(budget) == 1


@pytest.mark.parametrize("make", [*NOT_SEEN.values(), HANDED["argument"]])
def test_what_is_not_seen_counts_wherever_it_is_used(make):
    """As doc/budgets.md says: what follows serves the tasks of other blocks, too."""
    budget, other = PrivacyBudget(math.inf), PrivacyBudget(math.inf)
    assert not outcome(make, budget, other, before=make is HANDED["argument"])
    assert budget.spent is None
    assert n_released(other) == 1
    # And a budget that covers certain objects marks no threads of others.
    if make is HANDED["argument"]:
        budget = PrivacyBudget(math.inf).covers(LaplaceMechanism())
        assert not outcome(make, budget, other)
        assert n_released(other) == 2
