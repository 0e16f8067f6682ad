"""Whatever line a fit or a release is interrupted at, nothing is forgotten or mixed."""

import math
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sktensordp.completion import CPCompletion
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.privacy import PrivacyBudget
from tests.support import interrupting, noise
from tests.support.budgets import guarantees_of, left_open, n_released
from tests.support.every_estimator import (
    CASES,
    RELEASING,
    ROWS,
    UNVALUED,
    USERS,
    VALUES,
    WHERE,
    answer,
    slow_repeats,
)
from tests.support.interrupting import interrupted, steps
from tests.support.points import POINTS, original

pytestmark = pytest.mark.thorough

# The same modes, other sizes and values, and some of the same coordinates.
OTHER = np.argwhere(np.ones((3, 3))), np.linspace(0.9, 0.1, 9)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(action="ignore"):
        yield


class Story:
    """A fit of an estimator, then another with other parameters to other data."""

    def __init__(self, case, refit):
        self.case, self.refit = case, refit
        self.start, names = case.seeded(), case.estimator.get_params(deep=True)
        self.then = {n: 8.0 for n in names if n.split("__")[-1] == "epsilon"}
        of_samples = case.private in ("samples", "people")
        self.asked = (case.data[0] if of_samples else OTHER[0],)
        self.later = case.data if of_samples else OTHER
        if case.private in UNVALUED:
            self.later = OTHER[:1]
        self.is_transformer = case.private == "samples"

    def begin(self):
        """The estimator as the interrupted call finds it."""
        estimator = self.case.fresh(**self.start)
        if self.refit:
            estimator.fit(*self.case.data)
        return estimator

    def go_on(self, estimator):
        estimator.set_params(**self.then).fit(*self.later)
        if self.is_transformer:
            estimator.transform(*self.asked)

    def ends(self):
        """Fitted estimators, as they may be after an interruption, or None."""
        found = [self.begin()] if self.refit else []
        last = self.begin().set_params(**self.then).fit(*self.later)
        return [*found, last]

    def answer(self, estimator):
        """What a fitted object tells, and what it says that this reveals."""
        with PrivacyBudget(math.inf) as budget:
            found = answer(estimator, *self.asked)
        if not self.is_transformer:
            return found, estimator.privacy_guarantee_
        return found, guarantees_of(budget)[0]

    def expected(self, end, n_releases):
        """The same of a complete fit, after so many releases."""
        if self.is_transformer:
            noise.begin_at(end, n_releases)
        return self.answer(end)


def is_same(one, other):
    return np.array_equal(one[0], other[0]) and one[1] == other[1]


def faults(story, step, keys, ends):
    """What is wrong after an interruption at a line: a list of words."""
    found, estimator = [], story.begin()
    filters, n_keys, budget = warnings.filters[:], len(keys), PrivacyBudget(math.inf)
    with budget:
        if not interrupted(lambda: story.go_on(estimator), step):
            return []
        own = 1 if hasattr(estimator, "estimator") else len(keys) - n_keys
        if n_released(budget) < min(len(keys) - n_keys, own):
            found.append("a key was taken, and no release counted")
    if left_open():
        found.append("a budget or a cover is left open")
    if warnings.filters != filters:
        found.append("filters of warnings are changed")
    kept = pickle.dumps(estimator)
    if any(key in kept for key in keys):
        found.append("a key is kept")
    n_releases = noise.n_begun(estimator)
    n_taken = len(keys)
    try:
        answer = story.answer(estimator)
    except NotFittedError:
        pass
    except AttributeError as error:
        found.append(f"no NotFittedError: {error}")
    else:
        if not any(is_same(answer, story.expected(end, n_releases)) for end in ends):
            found.append("it answers as no complete fit does")
    del keys[n_taken:]
    story.go_on(estimator)
    drawn = keys[n_keys:]
    # A search with an integer gives all its tries the same noise.
    if len(set(drawn)) < len(drawn) and not hasattr(estimator, "estimator"):
        found.append("noise is repeated")
    return found


# In turn, the interrupted fit is the first one or the second.
FITS = [
    pytest.param(*param.values, k % 2 == 0, id=param.id, marks=param.marks)
    for k, param in enumerate(slow_repeats(RELEASING))
]


@pytest.mark.parametrize(("case", "refit"), FITS)
def test_interrupted_anywhere(case, refit, keys):
    story = Story(case, refit)
    ends, estimator = story.ends(), story.begin()
    lines = steps(lambda: story.go_on(estimator), f"{case.label}, {refit}")
    wrong = {step: faults(story, step, keys, ends) for step in lines}
    assert not any(wrong.values()), wrong


def records_late(monkeypatch):
    record, released = original("record of a release"), []
    monkeypatch.setattr(
        *POINTS["record of a release"], lambda *release: released.append(release)
    )
    return noise.drawing(after=lambda *_: record(*released[-1]))


def forgets_nothing(monkeypatch):
    monkeypatch.setattr(
        *POINTS["end of an earlier fit"],
        lambda self, **found: self.__dict__.update(found),
    )


def is_fitted_at_first(monkeypatch):
    start = original("end of an earlier fit")
    nothing = SimpleNamespace(guarantee=None, has_public_lengths=False, is_dense=False)
    nothing.shared, nothing.domain = nothing, SimpleNamespace(spent=None)
    monkeypatch.setattr(
        *POINTS["end of an earlier fit"],
        lambda self, **found: start(self, _fitted=nothing, **found),
    )


def has_one_key(_):
    return noise.one_key()


def keeps_its_key(monkeypatch):
    record = original("record of a release")

    def keeping(self, guarantee):
        record(self, guarantee)
        self._kept = noise.key_of(noise.source_of(0))

    monkeypatch.setattr(*POINTS["record of a release"], keeping)


@pytest.mark.parametrize(
    ("mutant", "fault"),
    [
        (records_late, "no release counted"),
        (forgets_nothing, "as no complete fit does"),
        (is_fitted_at_first, "no NotFittedError"),
        (has_one_key, "noise is repeated"),
        (keeps_its_key, "a key is kept"),
    ],
)
def test_mistakes_would_be_noticed(mutant, fault, keys, monkeypatch):
    story = Story(CASES[0], refit=True)
    ends = story.ends()
    monkeypatch.setattr(interrupting, "N_CENTRAL", math.inf)
    with mutant(monkeypatch) or nullcontext():
        estimator = story.begin()
        lines = steps(lambda: story.go_on(estimator), "mutant")
        found = (f for step in lines for f in faults(story, step, keys, ends))
        assert any(fault in one for one in found)


# --- what goes on with a fit, and a process that runs ---


@pytest.mark.parametrize("epsilon", [pytest.param(1.0, marks=pytest.mark.slow), 4.0])
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
        if len(keys) > n_keys and one._fitted.n_uses > 1:
            assert said == after.privacy_guarantee_
        parts = [
            factor.tobytes() for factor in one._decomposition(one._fitted.model).factors
        ]
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
        assert client.privacy_guarantee_ == encoder.privacy_guarantee_


LONG_FIT = """
import math, signal
import numpy as np
from sktensordp.completion import CPCompletion
from sktensordp.privacy import PrivacyBudget
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
    counted = sum(count for _, count, _, _ in budget._account.lines())
    try:
        model.predict(where)
        print("kept", counted)
    except NotFittedError:
        print("forgotten", counted)
    model.set_params(max_iter=2).fit(where, np.full(len(where), 0.5)).predict(where)
    print("again")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
def test_a_real_interrupt():
    """Between fits of two and of 100,000 iterations, and while the latter lasts."""
    process = subprocess.Popen(
        [sys.executable, "-c", LONG_FIT], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        found, _ = process.communicate(timeout=120)
    first, again = found.splitlines()
    assert first in ("kept 0", "kept 1", "forgotten 1")
    assert again == "again"
