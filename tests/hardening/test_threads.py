"""Threads at once: the same results, no noise twice, no guarantee of another fit."""

import math
import os
import sys
import threading
import warnings
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info

import sktensordp
from sktensordp.base import recorded_call
from sktensordp.completion import CPCompletion
from sktensordp.exceptions import (
    PrivacyLeakWarning,
    UnsoundClaimWarning,
)
from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
from sktensordp.papers import BiScaler, PublishedCPCompletion
from sktensordp.privacy import PrivacyBudget
from tests.support.budgets import guarantees_of, n_released
from tests.support.every_estimator import RELEASING
from tests.support.noise import n_begun
from tests.support.points import original
from tests.support.threads import in_threads

# Threads enter `warnings.catch_warnings` side by side.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.usefixtures("restored_filters"),
]

N_THREADS = 8
PACKAGE = str(Path(sktensordp.__file__).parent)
WHERE, VALUES = np.argwhere(np.ones((6, 5))), np.linspace(0, 1, 30)
ROWS = np.full((64, 3), 0.5)
RANGE = {"value_bounds": (0, 1), "shape": (6, 5)}


@pytest.fixture(autouse=True)
def switching():
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def n_blas_threads():
    return [(one["user_api"], one["num_threads"]) for one in threadpool_info()]


@pytest.mark.slow
def test_fits_of_many_objects_are_as_if_alone():
    """Every estimator, twice: threads that fit at the same time."""
    cases = [case.values[0] for case in RELEASING] * 2

    def action(number):
        case = cases[number]
        return lambda: np.asarray(case.release(**case.seeded(number))[1]).tobytes()

    actions = [action(number) for number in range(len(cases))]
    with warnings.catch_warnings(action="ignore"):
        alone = [one() for one in actions]
        threads, together = n_blas_threads(), []
        for start in range(0, len(actions), N_THREADS):
            together += in_threads(*actions[start : start + N_THREADS])
    different = [c.label for c, a, b in zip(cases, alone, together) if a != b]  # noqa: B905
    assert not different
    assert n_blas_threads() == threads


@pytest.mark.parametrize("seed", [None, 4])
def test_one_transformer_serves_threads(seed, keys):
    mechanism = LaplaceMechanism(0.1, bounds=(0, 1), random_state=seed).fit(ROWS)
    guarantee = mechanism.privacy_guarantee_
    budget = PrivacyBudget(math.inf)

    def release():
        return [mechanism.transform(ROWS).tobytes() for _ in range(5)]

    with budget:
        released = [*chain(*in_threads(*[release] * N_THREADS))]
    assert len(set(released)) == len(set(keys)) == 5 * N_THREADS
    assert n_begun(mechanism) == n_released(budget) == 5 * N_THREADS
    assert mechanism.privacy_guarantee_ == guarantee


@pytest.mark.parametrize("seed", [None, 4])
def test_one_completion_fitted_in_threads_at_first(seed, keys):
    """Not even the first releases of an object, of which nobody counted any."""
    for number in range(10):
        model = CPCompletion(0, max_iter=1, random_state=seed, **RANGE)
        drawn = len(keys)
        in_threads(*[lambda model=model: model.fit(WHERE, VALUES)] * 2)
        assert len(set(keys[drawn:])) == 2, number


# Another thread at every line.


def meanwhile(action, others, most=20):
    """Run an action again and again; at one of its lines, another thread does others.

    Yields what both have done, whether or not the other had to wait.
    """
    places = {}

    def counted(step, other):
        n_lines, thread = 0, None

        def trace(frame, event, _):
            nonlocal n_lines, thread
            if not frame.f_code.co_filename.startswith(PACKAGE):
                return None
            if event == "line":
                n_lines += 1
                places.setdefault((frame.f_code.co_filename, frame.f_lineno), n_lines)
                if n_lines == step:
                    thread = threading.Thread(target=other)
                    thread.start()
                    thread.join(0.3)
            return trace

        sys.settrace(trace)
        try:
            result = action()
        finally:
            sys.settrace(None)
        if thread is not None:
            thread.join()
        return result

    counted(0, None)
    steps = sorted(places.values())
    for step in steps[:: max(len(steps) // most, 1)]:
        yield counted(step, others)


@pytest.mark.parametrize("mechanism", [LaplaceMechanism, GaussianMechanism])
def test_a_release_has_the_noise_of_its_guarantee(mechanism, keys):
    """While another thread fits for much less noise."""
    options = {"delta": 1e-5} if mechanism is GaussianMechanism else {}
    one = mechanism(0.01, bounds=(0, 1), **options).fit(ROWS)
    budget = None

    def release():
        nonlocal budget
        one.set_params(epsilon=0.01).fit(ROWS)
        budget = PrivacyBudget(math.inf)
        with budget:
            return one.transform(ROWS)

    def refit():
        one.set_params(epsilon=100.0).fit(ROWS)

    weak = 0
    for released in meanwhile(release, refit):
        # Of 192 entries, deviations of about 100, or of less than 0.1.
        is_noisy = np.abs(released - 0.5).max() > 1.0
        (guarantee,) = guarantees_of(budget)
        assert is_noisy or guarantee.epsilon > 1
        # And so has what is released next.
        with PrivacyBudget(math.inf) as budget:
            again = one.transform(ROWS)
        (guarantee,) = guarantees_of(budget)
        assert guarantee == one.privacy_guarantee_
        assert np.abs(again - 0.5).max() > 1.0 or guarantee.epsilon > 1
        weak += guarantee.epsilon < 1
    assert weak


MODELS = {
    "sums": CPCompletion(0, perturbation="sums", max_iter=1, value_bounds=(0, 1)),
    "input": CPCompletion(1, perturbation="input", max_iter=1, value_bounds=(0, 1)),
    "scaler": BiScaler(value_bounds=(0, 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_under_its_own_guarantee(name):
    """While another thread fits the same object, for a larger epsilon, to less."""
    model, theirs = clone(MODELS[name]), 0

    def fit():
        model.set_params(epsilon=1e-3).fit(WHERE, VALUES)

    def refit():
        model.set_params(epsilon=100.0).fit(WHERE[:12], VALUES[:12])

    for _ in meanwhile(fit, refit, most=12):
        parts = getattr(model, "means_", None) or model.factors_
        assert tuple(map(len, parts)) == model.shape_
        if model.shape_ != (6, 5):
            # The weights of a table do not reach 100.
            assert model.privacy_guarantee_.epsilon > 30
            theirs += 1
    assert theirs


# Warnings.


def test_warnings_reach_every_thread():
    """Of a range that is read off the data, and of a claim that does not hold.

    The filters themselves are Python's and one for all threads, and scikit-learn
    changes them for a moment in every check of an array.
    """

    def undeclared():
        with pytest.raises(PrivacyLeakWarning):
            LaplaceMechanism().fit(ROWS)

    def unsound():
        model = PublishedCPCompletion(1, perturbation="gradient", **RANGE)
        with pytest.raises(UnsoundClaimWarning):
            model.fit(WHERE, VALUES)

    with warnings.catch_warnings(action="error", category=UnsoundClaimWarning):
        in_threads(*[undeclared, unsound] * 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_waits_for_no_thread_of_its_parent():
    """Neither for a fit of the same object, nor for BLAS to be set free."""
    model, begun, ended = CPCompletion(0), threading.Event(), threading.Event()
    n_threads = n_blas_threads()

    def fit():
        with model._count_releases().lock, original("one thread of BLAS"):
            begun.set()
            ended.wait(60)

    thread = threading.Thread(target=fit)
    thread.start()
    begun.wait(60)
    child = os.fork()
    if child == 0:
        free = model._count_releases().lock.acquire(timeout=20)
        os._exit(0 if free and n_blas_threads() == n_threads else 1)
    ended.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not n_threads or n_blas_threads() == n_threads


def test_a_release_that_began_before_a_refit_leaves_the_later_guarantee():
    mechanism = LaplaceMechanism(0.01, bounds=(0, 1)).fit(np.zeros((2, 3)))
    before = mechanism.privacy_guarantee_
    mechanism.set_params(epsilon=100.0).fit(np.zeros((2, 3)))
    with recorded_call(mechanism, before):
        pass
    assert mechanism.privacy_guarantee_.epsilon == 100
