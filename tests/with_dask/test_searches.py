"""Searches on Dask's workers, through joblib: same results, and budgets stay right."""

import math
from contextlib import nullcontext, suppress

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support.budgets import n_released
from tests.support.held import N_TASKS, TASKS, Held, in_a_thread
from tests.with_dask.clusters import cluster

distributed = pytest.importorskip("distributed")

LEVELS = [1, 2, 3, 4, 5]
RATINGS = make_ratings(40, 30, 600, random_state=0, levels=LEVELS)
ROWS = np.linspace(0, 1, 24).reshape(8, 3)
# What processes of a cluster leave to Python's own end of life.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(
    scope="module",
    params=[pytest.param(True, marks=pytest.mark.slow), False],
    ids=["processes", "threads"],
)
def in_processes(request):
    """A cluster of two workers: processes, or threads of this process.

    Without a limit of memory: what other tests have left in this process would count,
    and workers near the limit wait.
    """
    options = {"memory_limit": 0, "silence_logs": "CRITICAL"}
    with cluster(processes=request.param, is_default=True, **options):
        yield request.param


@pytest.fixture(autouse=True)
def settled(in_processes):
    """What a search that was refused had begun on the workers ends in its own test."""
    yield
    settle()


def settle():
    """Wait until the workers have ended all that they had begun."""
    client = distributed.get_client()
    workers = client.scheduler_info(n_workers=-1)["workers"]
    client.gather([client.submit(int, workers=one, pure=False) for one in workers])


def model(**params):
    return CPCompletion(1, levels=LEVELS, max_iter=2, **params)


def grid_search():
    return GridSearchCV(
        model(random_state=0), {"epsilon": [1.0, 4.0]}, cv=2, n_jobs=2,
        error_score="raise",
    )  # fmt: skip


def search_of_a_pipeline():
    steps = make_pipeline(LaplaceMechanism(bounds=(0, 1)), LinearRegression())
    return GridSearchCV(
        steps, {"laplacemechanism__epsilon": [0.1, 0.2]}, cv=2, n_jobs=2,
        error_score="raise",
    )  # fmt: skip


def private_search(random_state=0):
    return PrivateSearchCV(
        model(epsilon=2.0, random_state=random_state), {"rank": [0, 1]}, n_iter=3,
        cv=2, n_jobs=2, random_state=5,
    )  # fmt: skip


def fitted(search, backend, *data):
    with parallel_config(backend=backend):
        return search.fit(*data or (RATINGS.data, RATINGS.target))


@pytest.mark.parametrize(
    "search", [grid_search, pytest.param(private_search, marks=pytest.mark.slow)]
)
def test_results_and_guarantees_are_those_of_other_backends(search, in_processes):
    here = search().set_params(n_jobs=1).fit(RATINGS.data, RATINGS.target)
    for backend in ("dask", "loky") if in_processes else ("dask",):
        one = fitted(search(), backend)
        assert one.best_params_ == here.best_params_
        # Equal but for the order in which threads of BLAS add.
        for found, expected in (
            (one.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"]),
            (one.predict(RATINGS.data), here.predict(RATINGS.data)),
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-7)
        assert str(privacy_of(one)) == str(privacy_of(here))


# Of two candidates and two folds; in each a fit, of samples a score, too; the last fit.
@pytest.mark.parametrize(
    ("search", "data", "n_releases", "limit"),
    [(grid_search, (), 5, 3.0), (search_of_a_pipeline, (ROWS, ROWS[:, 0]), 9, 0.25)],
)
def test_a_grid_search_is_counted_or_refused(
    search, data, n_releases, limit, in_processes
):
    budget = PrivacyBudget(math.inf)
    if in_processes:
        with budget, pytest.raises(RuntimeError, match="was sent by a process"):
            fitted(search(), "dask", *data)
        assert budget.spent is None
        # Not because of the workers.
        fitted(search(), "dask", *data)
        return
    with budget:
        fitted(search(), "dask", *data)
    assert n_released(budget) == n_releases
    small = PrivacyBudget(limit)
    with small, pytest.raises(BudgetExceededError):
        fitted(search(), "dask", *data)
    assert small.spent.epsilon <= limit


def test_a_private_search_is_recorded_once(in_processes):
    """Before anything is drawn, by the process that asks; workers are within that."""
    budget = PrivacyBudget(100.0)
    with budget:
        search = fitted(private_search(None), "dask")
    assert n_released(budget) == 1
    assert budget.spent.epsilon == pytest.approx(search.privacy_guarantee_.epsilon)
    small = PrivacyBudget(1.0)
    with small, pytest.raises(BudgetExceededError):
        fitted(private_search(None), "dask")
    assert small.spent is None


def test_workers_share_no_noise(in_processes):
    """Of 8 releases of 64 rows, two are alike with a probability below 1e-6."""
    noise, X = LaplaceMechanism(bounds=(0, 1)).fit(ROWS), np.full((64, 3), 0.5)
    with parallel_config(backend="dask"):
        found = Parallel(n_jobs=2)(delayed(noise.transform)(X) for _ in range(8))
    assert len({one.tobytes() for one in found}) == 8


def test_what_a_part_releases_on_workers_counts_as_about_all(in_processes):
    """Their threads are not in the part: more is counted, never less."""
    if in_processes:
        pytest.skip("processes refuse")
    noise, budget = LaplaceMechanism(0.1, bounds=(0, 1)).fit(ROWS), PrivacyBudget(9.0)
    with budget, budget.parallel() as part, parallel_config(backend="dask"):
        for _ in range(2):
            with part():
                Parallel(n_jobs=2)(delayed(noise.transform)(ROWS) for _ in range(3))
    assert budget.spent.epsilon == pytest.approx(0.6)


@pytest.mark.parametrize("other", [None, PrivacyBudget(math.inf)], ids=["", "other"])
@pytest.mark.parametrize("fails", [False, True], ids=["ended", "left by an error"])
@pytest.mark.parametrize("begin", TASKS, ids=lambda f: f.__name__)
def test_tasks_that_outlive_the_block_are_refused(
    begin, fails, other, in_processes, keys
):
    """They are counted neither by the budget that is open then nor by none."""
    if in_processes:
        pytest.skip("no process of a worker can wait for this one")
    budget, held = PrivacyBudget(math.inf), Held(N_TASKS, fails)

    def begun():
        with parallel_config(backend="dask"):
            begin(held)

    with suppress(KeyError), budget:
        if fails:
            begun()
        thread = in_a_thread(begun)
        held.all_wait()
    with other or nullcontext():
        held.let_go()
        if not fails:
            thread.join(60)
        settle()
    assert held.n_went_on >= N_TASKS - fails
    assert not keys
    assert budget.spent is None
    assert other is None or other.spent is None
