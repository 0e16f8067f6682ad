"""Whatever line a fit or a release is interrupted at, nothing is forgotten or mixed."""

import math
import pickle
import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sktensordp import base
from sktensordp._random import NoiseSource, ReleaseCounter
from sktensordp.privacy import PrivacyBudget, _budget
from sktensordp.privacy._cover import current_cover
from tests.support import interrupting
from tests.support.every_estimator import CASES, RELEASING
from tests.support.interrupting import interrupted, n_released, recorded_keys, steps

# The same modes, other sizes and values.
OTHER = np.argwhere(np.ones((3, 3))), np.linspace(0.9, 0.1, 9)


@pytest.fixture
def keys(monkeypatch):
    return recorded_keys(monkeypatch)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Story:
    """A fit of an estimator, then another with other parameters to other data."""

    def __init__(self, case, refit, seed=0):
        self.case, self.refit = case, refit
        estimator = case.fresh()
        names = estimator.get_params(deep=True)
        self.start = {n: seed for n in names if n.split("__")[-1] == "random_state"}
        self.then = {n: 8.0 for n in names if n.split("__")[-1] == "epsilon"}
        self.asked = (case.data[0] if case.private == "samples" else OTHER[0],)
        self.later = case.data if case.private == "samples" else OTHER
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
            if self.is_transformer:
                found = estimator.transform(*self.asked)
            elif hasattr(estimator, "unscale_values"):
                found = estimator.unscale_values(*self.asked, np.zeros(len(OTHER[1])))
            else:
                found = estimator.predict(*self.asked)
        if not self.is_transformer:
            return found, estimator.privacy_guarantee_
        return found, next(iter(budget._account.guarantees()))

    def expected(self, end, n_releases):
        """The same of a complete fit, after so many releases."""
        if self.is_transformer:
            end._releases = ReleaseCounter(n_releases)
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
    if _budget._STACK or current_cover() is not None:
        found.append("a budget or a cover is left open")
    _budget._STACK.clear()
    if warnings.filters != filters:
        found.append("filters of warnings are changed")
    kept = pickle.dumps(estimator)
    if any(key in kept for key in keys):
        found.append("a key is kept")
    n_releases = getattr(estimator, "_releases", ReleaseCounter())._count
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


def faults_anywhere(story, keys, tried=None):
    """What is wrong after interruptions, and at which lines."""
    ends, wrong = story.ends(), {}
    if tried is None:
        estimator = story.begin()
        seed = f"{story.case.label}, {story.refit}"
        tried = steps(lambda: story.go_on(estimator), seed)
    for step in tried:
        for fault in faults(story, step, keys, ends):
            wrong.setdefault(fault, []).append(step)
    return wrong


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("case", RELEASING)
def test_interrupted_anywhere(case, refit, keys):
    assert not faults_anywhere(Story(case, refit), keys)


def case_of(label):
    return next(case for case in CASES if case.label == label)


def records_late(monkeypatch):
    def record(self, guarantee):
        """Nothing, yet."""

    start, stop = NoiseSource.stream, base.PrivateEstimatorMixin._record
    released = []

    def late(self, block):
        found = start(self, block)
        stop(*released[-1])
        return found

    def later(self, guarantee):
        released.append((self, guarantee))

    monkeypatch.setattr(base.PrivateEstimatorMixin, "_record", later)
    monkeypatch.setattr(NoiseSource, "stream", late)


def forgets_nothing(monkeypatch):
    monkeypatch.setattr(base.PrivateEstimatorMixin, "_forget", lambda *_, **__: None)


def is_fitted_at_first(monkeypatch):
    start = base.PrivateEstimatorMixin._forget

    def forget(self, **found):
        start(self, n_iter_=1, **found)

    monkeypatch.setattr(base.PrivateEstimatorMixin, "_forget", forget)


def has_one_key(monkeypatch):
    start = NoiseSource.__init__

    def same(self, *_):
        start(self, 0, 0)

    monkeypatch.setattr(NoiseSource, "__init__", same)


def keeps_its_key(monkeypatch):
    start = base.PrivateEstimatorMixin._record

    def record(self, guarantee):
        start(self, guarantee)
        self._kept = NoiseSource(0, 0)._key

    monkeypatch.setattr(base.PrivateEstimatorMixin, "_record", record)


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
    story = Story(case_of("CPCompletion, values, default"), refit=True)
    ends = story.ends()
    mutant(monkeypatch)
    monkeypatch.setattr(interrupting, "N_CENTRAL", math.inf)
    estimator = story.begin()
    lines = steps(lambda: story.go_on(estimator), "mutant")
    found = {f for step in lines for f in faults(story, step, keys, ends)}
    assert any(fault in one for one in found), found
