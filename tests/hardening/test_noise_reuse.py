"""No noise is used twice: within a release, by copies, threads, forks and workers."""

import copy
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from sktensordp.completion import CoordinateEncoder, CPCompletion, Recommender
from sktensordp.counts import TensorCounts
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.papers import PublishedCPCompletion
from tests.support.every_estimator import (
    CASES,
    RELEASING,
    ROWS,
    UNVALUED,
    slow_repeats,
)

# Threads enter `warnings.catch_warnings` side by side.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.usefixtures("restored_filters"),
]

ENCODER = TaskAwareEncoder(task=[[1.0, 1.0, 0.0]]).fit(ROWS)
EncoderClient = type(ENCODER.client())
CompletionClient = type(CPCompletion(1, value_bounds=(0, 1)).client())
# All values are alike, so that what differs is the noise.
WHERE, SHAPE = np.argwhere(np.ones((20, 15))), (20, 15)
HALF = np.full(len(WHERE), 0.5)
SAMPLES = [case for case in RELEASING if case.values[0].private == "samples"]


def all_differ(things):
    things = [*things]
    return bool(things) and len(set(things)) == len(things)


def ready(case, **params):
    """An estimator of a case, for `noise`; where it transforms, it is fitted."""
    if case.private == "samples":
        return case.fresh(**params).fit(*case.data)
    names = case.estimator.get_params(deep=True)
    shapes = {n: SHAPE for n, v in names.items() if n.endswith("shape") and v}
    if names.get("max_records"):  # users are no mode
        shapes = {"shape": SHAPE[1:]}
    if isinstance(case.estimator, Recommender) and case.private != "values":
        shapes = {"shape": SHAPE}
    return case.fresh(**params, **shapes)


def rows_of(case, n):
    return np.full((n, *case.data[0].shape[1:]), 0.5)


def task(estimator, case, n=64):
    """A method that releases, and its arguments: other processes can take them."""
    if isinstance(estimator, EncoderClient):
        return estimator.privatize, rows_of(case, n)
    if isinstance(estimator, CompletionClient):
        return estimator.privatize, HALF
    if case.private == "samples":
        return estimator.transform, rows_of(case, n)
    if case.private == "people":
        y = (np.resize(y, n) for y in case.data[1:])
        return estimator.fit, rows_of(case, n), *y
    if case.private in UNVALUED:
        return estimator.fit, WHERE
    return estimator.fit, WHERE, HALF


def noise(released):
    """What was released, as bytes. By chance, two differ.

    They are functions of the noise of 64 samples or more, or of 300 values or their
    sums, so that two are the same with a probability below 1e-6.
    """
    released = getattr(released, "best_estimator_", released)
    released = getattr(released, "completion_", released)
    if isinstance(released, np.ndarray):
        return released.tobytes()
    if isinstance(released, TensorCounts):
        return b"".join(released.marginal(m).tobytes() for m in released.tables_)
    if hasattr(released, "coef_"):
        return released.coef_.tobytes()
    if hasattr(released, "components_"):
        return b"".join(factor.tobytes() for factor in released.components_)
    if hasattr(released, "item_counts_"):
        return released.item_counts_.tobytes()
    parts = getattr(released, "means_", None) or released.factors_
    parts = [part.tobytes() for part in parts if part is not None]
    return b"".join([np.float64(released.offset_).tobytes(), *parts])


def release(estimator, case):
    method, *data = task(estimator, case)
    return noise(method(*data))


def copies(estimator, folder):
    stored, path = pickle.dumps(estimator), folder / "stored.joblib"
    joblib.dump(estimator, path)
    loaded = [pickle.loads(stored), pickle.loads(stored), joblib.load(path)]
    return [estimator, copy.copy(estimator), copy.deepcopy(estimator), *loaded]


def noises_of_copies(case, folder):
    """Noise of one object, its copies and clones, in threads, time and again."""
    original = ready(case)
    found = [release(original, case)]
    objects = copies(original, folder)
    if case.private != "samples":
        objects += [clone(original), clone(original)]
    found += [release(one, case) for one in (*objects, *objects[::3])]
    if case.private == "samples":
        with ThreadPoolExecutor(4) as pool:
            found += pool.map(lambda _: release(original, case), range(4))
    return found


@pytest.mark.parametrize("case", slow_repeats(RELEASING))
def test_copies_and_threads_share_no_noise(case, tmp_path, streams):
    assert all_differ(noises_of_copies(case, tmp_path))
    # No block of any release is asked for twice, by one that searches neither.
    assert all_differ(streams)


@pytest.mark.parametrize("kind", ["encoder", "completion"])
def test_copies_of_a_client_share_no_noise(kind, tmp_path, streams):
    encoder = ENCODER
    if kind == "completion":
        encoder = CPCompletion(1, value_bounds=(0, 1))
    case = next(case for case in CASES if case.label.endswith("pure code"))
    clients = [*copies(encoder.client(), tmp_path), encoder.client()]
    clients += [copy.deepcopy(encoder).client()]
    assert all_differ(release(one, case) for one in clients + clients)
    with ThreadPoolExecutor(4) as pool:
        tried = pool.map(lambda _: release(clients[0], case), range(8))
    assert all_differ(tried)
    assert all_differ(streams)


@pytest.mark.slow
@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="needs fork"
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_processes_share_no_noise_but_with_a_seed():
    """Forks, spawned processes and workers, of objects that have released before."""
    first = {type(case.values[0].estimator): case.values[0] for case in RELEASING}
    cases = list(first.values())

    def tasks(**seed):
        return [task(ready(case, **seed), case) for case in cases]

    fresh, seeded = tasks(), tasks(random_state=5)
    found = [[noise(call(*data)) for call, *data in fresh]]
    here = [noise(call(*data)) for call, *data in seeded]
    for method in ("fork", "fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            waiting = [pool.apply_async(call, data) for call, *data in fresh]
            found.append([noise(one.get(120)) for one in waiting])
            if method == "spawn":
                again = tasks(random_state=5)
                waiting = [pool.apply_async(call, data) for call, *data in again]
                there = [noise(one.get(120)) for one in waiting]
    for _ in range(2):
        released = Parallel(n_jobs=2)(delayed(call)(*data) for call, *data in fresh)
        found.append([noise(one) for one in released])
    for case, *known in zip(cases, *found, strict=True):
        assert len(known) == 6
        assert all_differ(known), case.label
    different = [c.label for c, a, b in zip(cases, here, there, strict=True) if a != b]
    # What a search's own seed does not reach.
    assert all("search" in label for label in different)


@pytest.mark.parametrize(
    ("n_jobs", "seed"),
    [(1, None), (1, 3), pytest.param(2, None, marks=pytest.mark.slow)],
)
def test_folds_share_no_noise_but_with_a_seed(n_jobs, seed):
    """Four fits to the same data, where folds would be, in this process or in two."""
    options = {"n_jobs": n_jobs, "return_estimator": True}
    model = CPCompletion(0, value_bounds=(0, 1), shape=SHAPE, random_state=seed)
    everything = 4 * [(np.arange(300), np.arange(300))]
    found = cross_validate(model, WHERE, HALF, cv=everything, **options)
    fitted = found["estimator"]
    assert len({noise(one) for one in fitted}) == (4 if seed is None else 1)
    X, mechanism = np.full((64, 3), 0.5), LaplaceMechanism(random_state=seed)
    steps = make_pipeline(mechanism.set_params(bounds=(0, 1)), LinearRegression())
    everything = 4 * [(np.arange(64), np.arange(64))]
    found = cross_validate(steps, X, np.arange(64.0), cv=everything, **options)
    coefficients = {one[-1].coef_.tobytes() for one in found["estimator"]}
    assert len(coefficients) == (4 if seed is None else 1)


def many(case):
    """More than two blocks of 2^16 entries, or more than 64 samples of a block each."""
    # Codes have one entry.
    return 2**17 // (1 if "code" in case.label else case.data[0][0].size) + 3


@pytest.mark.parametrize("case", slow_repeats(SAMPLES))
def test_equal_samples_get_different_noise(case, streams):
    """By correlation, a false alarm a case and lag with probability 1e-6."""
    method, rows = task(ready(case), case, n=many(case))
    released = method(rows).reshape(len(rows), -1)
    assert all_differ(streams)
    assert len(streams) >= 2
    block = 2**16 // rows[0].size
    for lag in {1, len(rows) // 3, min(block, len(rows) // 2)}:
        one, other = released[:-lag], released[lag:]
        assert not np.array_equal(one, other)
        # Entries of a sample may be as good as equal: they count as one.
        one, other = one - one.mean(axis=0), other - other.mean(axis=0)
        correlation = np.corrcoef(one.ravel(), other.ravel())[0, 1]
        assert abs(correlation) < 4.9 / np.sqrt(len(one))


LARGE = [
    CPCompletion(1, perturbation="input", levels=[0, 0.5, 1]),
    *(CPCompletion(1, perturbation=one) for one in ("sums", "statistics", "gradient")),
    pytest.param(
        PublishedCPCompletion(1, perturbation="gradient"), marks=pytest.mark.slow
    ),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", LARGE, ids=str)
def test_large_fits_read_every_block_once(model, streams):
    """Of 66,000 rows and as many values: more than a block of either."""
    n = 66_000
    where = np.stack([np.arange(n), np.arange(n) % 2], axis=1)
    model = clone(model).set_params(shape=(n, 2), value_bounds=(0, 1), max_iter=2)
    model.fit(where, np.full(n, 0.5))
    assert all_differ(streams)
    assert len({key for key, _ in streams}) == 1
    assert len(streams) > 1


# What an integer means.


@pytest.mark.parametrize("case", slow_repeats(RELEASING))
def test_an_int_repeats_in_clones_alone(case):
    one, other = (ready(case, **case.seeded(5)) for _ in range(2))
    first = [release(one, case) for _ in range(3)]
    if case.label.startswith("PrivateSearchCV"):
        # The seed of the estimator gives every candidate the same noise.
        assert len(set(first)) >= 1
    else:
        assert all_differ(first)
    assert [release(other, case) for _ in range(3)] == first
    # A copy has come as far as the original, and goes on with the same noise.
    stored = pickle.loads(pickle.dumps(one))
    assert release(stored, case) == release(one, case)


@pytest.mark.parametrize("case", SAMPLES[::4])
def test_threads_do_not_matter_to_an_int(case):
    found = set()
    for n_threads in (1, 3):
        method, rows = task(ready(case, random_state=5), case, n=many(case))
        with threadpool_limits(n_threads, user_api="openmp"):
            found.add(noise(method(rows)))
    assert len(found) == 1


@pytest.mark.parametrize(
    "name",
    sorted(
        {type(case.estimator) for case in CASES} | {EncoderClient, CompletionClient},
        key=str,
    ),
)
def test_docs_say_what_an_int_means(name):
    if name in (CoordinateEncoder, Recommender):
        # A recommender has that of its completion.
        assert "random_state" not in name._get_param_names()
        return
    # Some say that their parameters are those of a base.
    docs = (cls.__doc__ or "" for cls in name.__mro__)
    doc = next((doc for doc in docs if "random_state : " in doc), "")
    assert doc, f"The docstring of {name.__name__} does not describe random_state."
    said = " ".join(doc.split("random_state : ")[1].split("\n\n")[0].split())
    assert "None draws from the operating system's entropy" in said
    assert "int is for tests and papers" in said
