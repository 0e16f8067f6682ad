"""Interrupted calls that go on with a fit, and interrupts of a running process."""

import math
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from sktensordp.completion import CPCompletion
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.privacy import PrivacyBudget
from tests.support.every_estimator import ROWS, USERS, VALUES, WHERE
from tests.support.interrupting import interrupted, n_released, recorded_keys, steps

# The same modes, other values, and some of the same coordinates.
OTHER = np.argwhere(np.ones((3, 3))), np.linspace(0.9, 0.1, 9)


@pytest.fixture
def keys(monkeypatch):
    return recorded_keys(monkeypatch)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_interrupted_partial_fits_count(epsilon, keys):
    """The guarantee of what answers, also where only one of two calls has ended."""
    model = CPCompletion(0, perturbation="input", value_bounds=(0, 1), max_iter=2)

    def begin():
        return clone(model).fit(WHERE, VALUES)

    def go_on(one, method=None):
        one.set_params(epsilon=epsilon)
        (method or one.partial_fit)(*OTHER)

    before, after = begin(), begin()
    go_on(after)
    begun = begin()
    for step in steps(lambda: go_on(begun), epsilon):
        one, budget, n_keys = begin(), PrivacyBudget(math.inf), len(keys)
        answer = one.predict(WHERE)
        with budget:
            # Interrupted where it is looked up, a method is said not to be there.
            interrupted(lambda one=one, do=one.partial_fit: go_on(one, do), step)
        assert n_released(budget) >= len(keys) - n_keys
        said = one.privacy_guarantee_
        assert said in (before.privacy_guarantee_, after.privacy_guarantee_)
        if not np.array_equal(one.predict(WHERE), answer):
            assert said == after.privacy_guarantee_
        if len(keys) > n_keys and one._n_uses > 1:
            assert said == after.privacy_guarantee_
        parts = [factor.tobytes() for factor in one._decomposition(one._model).factors]
        assert [factor.tobytes() for factor in one.factors_] == parts
        go_on(one)
        assert one.privacy_guarantee_.epsilon >= after.privacy_guarantee_.epsilon


def test_an_interrupted_fold_in_changes_nothing_or_all():
    fitted = CPCompletion(1, perturbation="sums", max_iter=1, random_state=0, **USERS)
    fitted.fit(WHERE, VALUES)
    new = WHERE[:3], 1 - VALUES[:3]
    before = fitted.predict(WHERE)

    def begin():
        return clone(fitted).fit(WHERE, VALUES)

    after = begin().fold_in(*new).predict(WHERE)
    begun = begin()
    for step in steps(lambda: begun.fold_in(*new), "fold in"):
        one = begin()
        interrupted(lambda fold_in=one.fold_in: fold_in(*new), step)
        found = one.predict(WHERE)
        assert np.array_equal(found, before) or np.array_equal(found, after)


def test_an_interrupted_client_counts(keys):
    encoder = TaskAwareEncoder(task=[[1.0, 1.0, 0.0]]).fit(ROWS)
    begun = encoder.client()
    for step in steps(lambda: begun.privatize(ROWS), "client"):
        client, budget, n_keys = encoder.client(0), PrivacyBudget(math.inf), len(keys)
        with budget:
            interrupted(lambda one=client: one.privatize(ROWS), step)
        assert n_released(budget) >= len(keys) - n_keys
        client.privatize(ROWS)
        assert len(set(keys[n_keys:])) == len(keys) - n_keys
        assert client.privacy_guarantee_ is encoder.privacy_guarantee_


LONG_FIT = """
import math, signal
import numpy as np
from sktensordp.completion import CPCompletion
from sktensordp.privacy import PrivacyBudget, _budget
where = np.argwhere(np.ones((60, 50)))
model = CPCompletion(3, perturbation="gradient", value_bounds=(0, 1), max_iter=2)
model.fit(where, np.full(len(where), 0.5))
model.set_params(max_iter=100_000)
budget = PrivacyBudget(math.inf)
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with budget:
        print("ready", flush=True)
        model.fit(where, np.full(len(where), 0.5))
except KeyboardInterrupt:
    from sklearn.exceptions import NotFittedError
    assert not _budget._STACK
    counted = sum(count for _, count, _, _ in budget._account.lines())
    try:
        model.predict(where)
        print("kept", counted)
    except NotFittedError:
        print("forgotten", counted)
    model.set_params(max_iter=2).fit(where, np.full(len(where), 0.5)).predict(where)
    print("again")
"""


@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
@pytest.mark.parametrize("seconds", [0.3, 3.0])
def test_a_real_interrupt(seconds):
    """Between fits of two and of 100,000 iterations, and while the latter lasts."""
    process = subprocess.Popen(
        [sys.executable, "-c", LONG_FIT], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        found, _ = process.communicate(timeout=120)
    first, again = found.splitlines()
    assert first in ("kept 0", "kept 1", "forgotten 1")
    assert again == "again"
