"""scikit-learn's own checks, on every estimator; the expected failures are data."""

import math

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sktensordp.completion import CoordinateEncoder, CPCompletion

FRESH_NOISE = "two fits of one object never share their noise, also with an int seed"

NOISE_FREE = [
    CPCompletion(rank=2, epsilon=math.inf),
    CPCompletion(rank=0, epsilon=math.inf, value_bounds=(-100, 100)),
    CoordinateEncoder(),
    CoordinateEncoder(time_bins=3),
    CoordinateEncoder(freq="D"),
]
NOISY = {
    CPCompletion(rank=2, epsilon=4.0, value_bounds=(-100, 100)): {
        "check_supervised_y_2d": FRESH_NOISE,
        "check_fit_idempotent": FRESH_NOISE,
    },
    CPCompletion(rank=1, epsilon=4.0, levels=[-2, -1, 0, 1, 2]): {
        "check_supervised_y_2d": FRESH_NOISE,
        "check_fit_idempotent": FRESH_NOISE,
    },
}


@parametrize_with_checks(NOISE_FREE)
def test_noise_free(estimator, check):
    check(estimator)


def expected_failures(estimator):
    return next(v for k, v in NOISY.items() if str(k) == str(estimator))


@parametrize_with_checks(list(NOISY), expected_failed_checks=expected_failures)
def test_noisy(estimator, check):
    check(estimator)


def test_every_exported_estimator_is_checked():
    import sktensordp.completion

    checked = {type(e).__name__ for e in [*NOISE_FREE, *NOISY]}
    assert checked >= set(sktensordp.completion.__all__)


@pytest.mark.parametrize("estimator", list(NOISY), ids=str)
def test_few_expected_failures(estimator):
    assert len(NOISY[estimator]) <= 2
