"""Generated inputs are answered rightly or refused clearly; `fuzz.py` tries many more.

The oracle is shown to find every kind of mistake that it looks for.
"""

import math
import warnings

import numpy as np
import pytest

from sktensordp.mechanisms import LaplaceMechanism
from tests.support.callers import SUBJECTS, Input, Subject
from tests.support.every_estimator import CASES, ROWS
from tests.support.generated import PLANTED, Argument
from tests.support.judged import tried, verdict
from tests.support.public import public_estimators

pytestmark = pytest.mark.thorough
TRANSFORM = LaplaceMechanism.transform
SHIFTED = ROWS + PLANTED
# The first ones are those of all tests.
N_FIRST, SLOW = len(CASES), pytest.mark.slow


@pytest.mark.parametrize(
    ("number", "n_inputs"),
    [
        *((k, 4) for k in range(N_FIRST)),
        *(pytest.param(k, 20, marks=SLOW) for k in range(len(SUBJECTS))),
    ],
)
def test_every_input_is_answered_rightly_or_refused_clearly(
    number, n_inputs, record_property
):
    counts, unhandled = tried(SUBJECTS[number], number + n_inputs, n_inputs)
    record_property("generated_inputs", counts.total())
    record_property("unhandled", len(unhandled))
    assert not unhandled, unhandled[0]
    assert counts.total() == n_inputs


def test_every_estimator_is_tried():
    """But for tables of counts, whose rows may hold anything: tests/counts."""
    tried = {subject.name for subject in SUBJECTS}
    assert tried == public_estimators().keys() - {"TensorCounts"}
    assert len(SUBJECTS) > len(CASES)


def plain(array):
    return Argument(array, array, "plain")


def leaks(self, X):
    return [][len(X)]


def shows(self, X):
    raise ValueError(f"bad: {X}")


def draws_first(self, X):
    TRANSFORM(self, X)
    raise ValueError("X is bad.")


def warns(self, X):
    warnings.warn("overflow", RuntimeWarning, stacklevel=2)
    return TRANSFORM(self, X)


def says(self, X):
    warnings.warn("Are these years?", UserWarning, stacklevel=3)
    return TRANSFORM(self, X)


def says_too_much(self, X):
    warnings.warn(f"Is {np.min(X):.5f} a year?", UserWarning, stacklevel=3)
    return TRANSFORM(self, X)


def returns_nan(self, X):
    return TRANSFORM(self, X) * np.nan


def rounds_lists(self, X):
    return TRANSFORM(self, np.round(X) if isinstance(X, list) else X)


def does_not_clip(self, X):
    return X + 1.0


LISTED = Argument(ROWS.tolist(), ROWS, "list")
INFINITE = plain(np.full((2, 3), np.inf))


@pytest.mark.parametrize(
    ("mistake", "argument", "found"),
    [
        (leaks, plain(ROWS), "IndexError leaks"),
        (shows, plain(SHIFTED), "shows a value"),
        (draws_first, plain(ROWS), "after {'key': 1"),
        (warns, plain(ROWS), "RuntimeWarning leaks"),
        (says_too_much, plain(SHIFTED), "a warning shows a value"),
        (lambda self, X: X, plain(ROWS), "input's memory"),
        (lambda self, X: np.reshape(X, 7), plain(ROWS), "was not meant"),
        (lambda self, X: np.ones((2, 3)), INFINITE, "although samples are not finite"),
        (returns_nan, plain(ROWS), "not finite"),
        (rounds_lists, LISTED, "not that of the plain array"),
        (does_not_clip, plain(ROWS), "not clipped"),
    ],
)
def test_a_mistake_is_found(mistake, argument, found):
    broken = type("LaplaceMechanism", (LaplaceMechanism,), {"transform": mistake})
    epsilon = np.inf if mistake is does_not_clip else 1.0
    subject = Subject(broken(epsilon, bounds=(0, 1)), (ROWS,), "samples")
    assert found in verdict(Input(subject, "transform", (argument,)))[1]
    sound = Subject(LaplaceMechanism(epsilon, bounds=(0, 1)), (ROWS,), "samples")
    assert verdict(Input(sound, "transform", (argument,)))[1] is None


def test_a_warning_without_values_is_right():
    kind = type("LaplaceMechanism", (LaplaceMechanism,), {"transform": says})
    subject = Subject(kind(bounds=(0, 1)), (ROWS,), "samples")
    assert verdict(Input(subject, "transform", (plain(ROWS),))) == ("answered", None)


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"epsilon": 0.5}, "epsilon = 1.0 where"),
        ({"epsilon": math.nan}, "epsilon is"),
    ],
)
def test_a_wrong_guarantee_is_found(params, found, monkeypatch):
    subject = Subject(LaplaceMechanism(bounds=(0, 1)), (ROWS,), "samples")
    fitted = subject.fitted()

    def keep(self, X, y=None):
        vars(self).update(vars(fitted) | {"epsilon": self.epsilon})
        return self

    case = Input(subject, "parameters", (plain(ROWS),), params, fresh=True)
    assert verdict(case)[1] is None
    monkeypatch.setattr(LaplaceMechanism, "fit", keep)
    assert found in verdict(case)[1]
