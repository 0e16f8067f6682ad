"""Generated inputs are answered rightly or refused clearly; `fuzz.py` tries many more.

The oracle is shown to find every kind of mistake that it looks for.
"""

import math
import warnings

import numpy as np
import pytest

from sktensordp.mechanisms import LaplaceMechanism
from tests.support.callers import SUBJECTS, Input, Subject
from tests.support.every_estimator import CASES, ROWS, public_estimators
from tests.support.generated import PLANTED, Argument
from tests.support.judged import tried, verdict

N_INPUTS = 30
TRANSFORM = LaplaceMechanism.transform
SHIFTED = ROWS + PLANTED


@pytest.mark.parametrize("number", range(len(SUBJECTS)))
def test_every_input_is_answered_rightly_or_refused_clearly(number, record_property):
    counts, unhandled = tried(SUBJECTS[number], number, N_INPUTS)
    record_property("generated_inputs", counts.total())
    record_property("unhandled", len(unhandled))
    assert not unhandled, unhandled[0]
    assert counts.total() == N_INPUTS


def test_every_estimator_is_tried():
    assert {subject.name for subject in SUBJECTS} == public_estimators()
    assert len(SUBJECTS) > len(CASES)


def plain(array):
    return Argument(array, array, "plain")


def leaks(self, X):
    return [][len(X)]


def shows(self, X):
    raise ValueError(f"bad: {X}")


def says_nothing(self, X):
    raise ValueError


def draws_first(self, X):
    TRANSFORM(self, X)
    raise ValueError("X is bad.")


def warns(self, X):
    warnings.warn("overflow", RuntimeWarning, stacklevel=2)
    return TRANSFORM(self, X)


def changes(self, X):
    X[0] = 0.0
    return TRANSFORM(self, X)


def returns_nan(self, X):
    return TRANSFORM(self, X) * np.nan


def returns_shorter(self, X):
    return TRANSFORM(self, X)[1:]


def rounds_lists(self, X):
    return TRANSFORM(self, np.round(X) if isinstance(X, list) else X)


def does_not_clip(self, X):
    return X + 1.0


def reads_beneath(self, X):
    return TRANSFORM(self, np.asarray(X))


def quotes(self, X):
    try:
        float(f"x{X[0, 0]}")
    except ValueError as error:
        raise ValueError("X must hold numbers.") from error


MASKED = Argument(np.ma.array(ROWS, mask=ROWS > 0.5), None, "masked")
LISTED = Argument(ROWS.tolist(), ROWS, "list")
INFINITE = plain(np.full((2, 3), np.inf))


@pytest.mark.parametrize(
    ("mistake", "argument", "found"),
    [
        (leaks, plain(ROWS), "IndexError leaks"),
        (shows, plain(SHIFTED), "shows a value"),
        (quotes, plain(SHIFTED), "shows a value"),
        (says_nothing, plain(ROWS), "says nothing"),
        (draws_first, plain(ROWS), "after {'key': 1"),
        (warns, plain(ROWS), "RuntimeWarning leaks"),
        (changes, plain(SHIFTED.copy()), "was changed"),
        (lambda self, X: X, plain(ROWS), "input's memory"),
        (lambda self, X: {}[0], plain(ROWS), "KeyError leaks"),
        (lambda self, X: np.reshape(X, 7), plain(ROWS), "was not meant"),
        (lambda self, X: np.ones((2, 3)), INFINITE, "although samples are not finite"),
        (returns_nan, plain(ROWS), "not finite"),
        (returns_shorter, plain(ROWS), "(7, 3) for"),
        (rounds_lists, LISTED, "not that of the plain array"),
        (does_not_clip, plain(ROWS), "not clipped"),
        (reads_beneath, MASKED, "although masked"),
    ],
)
def test_a_mistake_is_found(mistake, argument, found):
    broken = type("LaplaceMechanism", (LaplaceMechanism,), {"transform": mistake})
    epsilon = np.inf if mistake is does_not_clip else 1.0
    subject = Subject(broken(epsilon, bounds=(0, 1)), (ROWS,), "samples")
    assert found in verdict(Input(subject, "transform", (argument,)))[1]
    sound = Subject(LaplaceMechanism(epsilon, bounds=(0, 1)), (ROWS,), "samples")
    assert verdict(Input(sound, "transform", (argument,)))[1] is None


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
