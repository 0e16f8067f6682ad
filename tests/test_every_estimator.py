"""No public estimator may escape the tests that go through all of them."""

from tests.support.every_estimator import CASES, public_estimators


def test_no_estimator_is_forgotten():
    assert public_estimators() == {type(case.estimator).__name__ for case in CASES}


def test_labels_tell_cases_apart():
    assert len({case.label for case in CASES}) == len(CASES)
