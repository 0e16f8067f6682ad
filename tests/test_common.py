"""scikit-learn's own checks, on every estimator; the expected failures are data."""

import math

import numpy as np
import pytest
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import sktensordp.completion
import sktensordp.encoding
import sktensordp.mechanisms
from sktensordp.completion import (
    BiScaler,
    CoordinateEncoder,
    CPCompletion,
    TuckerCompletion,
)
from sktensordp.encoding import (
    PrivacyAgnosticEncoder,
    TaskAgnosticEncoder,
    TaskAwareEncoder,
)
from sktensordp.mechanisms import (
    GaussianMechanism,
    HybridMechanism,
    IndependentDirectionalNoise,
    JohnsonLindenstrauss,
    LaplaceMechanism,
    MatrixGaussian,
    MatrixMechanism,
    MatrixVariateGaussian,
    PrivUnit,
    TensorRandomizedResponse,
    TensorVariateGaussian,
    UnimodalDirectionalNoise,
)

LOCAL = "rows of users leave with no pickle; fold_in brings them back"
FRESH_NOISE = "two fits of one object never share their noise, also with an int seed"
OF_TRANSFORMERS = {
    "check_fit_idempotent": FRESH_NOISE,
    "check_estimators_nan_inf": "fit reads no value where the domain is declared; "
    "transform refuses NaN",
}

NOISE_FREE = [
    CPCompletion(rank=2, epsilon=math.inf),
    CPCompletion(rank=0, epsilon=math.inf, value_bounds=(-100, 100)),
    CPCompletion(rank=0, epsilon=math.inf, perturbation="sums"),
    CPCompletion(rank=1, epsilon=math.inf, perturbation="gradient", max_iter=3),
    CPCompletion(rank=1, epsilon=math.inf, perturbation="statistics"),
    CPCompletion(rank=1, epsilon=math.inf, perturbation="output", biases=False),
    TuckerCompletion(rank=0, epsilon=math.inf),
    TuckerCompletion(rank=1, epsilon=math.inf, biases=False),
    TuckerCompletion(rank=0, epsilon=math.inf, perturbation="sums"),
    BiScaler(math.inf),
    CoordinateEncoder(),
    CoordinateEncoder(time_bins=3),
    CoordinateEncoder(freq="D"),
    LaplaceMechanism(math.inf),
    GaussianMechanism(math.inf, bounds=(-100, 100)),
    TensorVariateGaussian(math.inf, norm_bound=1000.0),
    UnimodalDirectionalNoise(math.inf, bounds=(-10, 10), norm_bound=20.0),
    IndependentDirectionalNoise(math.inf, sensitivity=1.0),
    MatrixMechanism(math.inf),
    TaskAwareEncoder(math.inf),
    TaskAgnosticEncoder(math.inf, clip=0.9),
    PrivacyAgnosticEncoder(math.inf),
    HybridMechanism(math.inf),
    PrivUnit(math.inf, norm_bound=1000.0),
    TensorRandomizedResponse(math.inf, bounds=(-100, 100)),
]
# scikit-learn's checks pass rows of features of many lengths, which are no matrices.
MATRICES = [MatrixGaussian(), MatrixVariateGaussian(), JohnsonLindenstrauss()]
NOISY = {
    CPCompletion(rank=2, epsilon=4.0, value_bounds=(-100, 100)): {
        "check_supervised_y_2d": FRESH_NOISE,
        "check_fit_idempotent": FRESH_NOISE,
    },
    CPCompletion(rank=1, epsilon=4.0, levels=[-2, -1, 0, 1, 2]): {
        "check_supervised_y_2d": FRESH_NOISE,
        "check_fit_idempotent": FRESH_NOISE,
    },
    CPCompletion(rank=0, epsilon=4.0, perturbation="sums", value_bounds=(-100, 100)): {
        "check_supervised_y_2d": FRESH_NOISE,
        "check_fit_idempotent": FRESH_NOISE,
    },
    TuckerCompletion(1, epsilon=4.0, levels=[-2, -1, 0, 1, 2], biases=False): {
        "check_supervised_y_2d": FRESH_NOISE,
        "check_fit_idempotent": FRESH_NOISE,
    },
    TuckerCompletion(1, epsilon=4.0, perturbation="sums", value_bounds=(-9, 9)): {
        "check_supervised_y_2d": FRESH_NOISE,
        "check_fit_idempotent": FRESH_NOISE,
    },
    CPCompletion(0, epsilon=math.inf, unit=0): {"check_estimators_pickle": LOCAL},
    CPCompletion(1, epsilon=math.inf, unit=0, perturbation="statistics"): {
        "check_estimators_pickle": LOCAL,
    },
    BiScaler(4.0, value_bounds=(-100, 100)): {},
    CPCompletion(1, perturbation="gradient", value_bounds=(-9, 9), max_iter=3): {
        "check_supervised_y_2d": FRESH_NOISE,
        "check_fit_idempotent": FRESH_NOISE,
    },
    CPCompletion(1, perturbation="statistics", value_bounds=(-9, 9)): {
        "check_supervised_y_2d": FRESH_NOISE,
        "check_fit_idempotent": FRESH_NOISE,
    },
    CPCompletion(1, perturbation="output", value_bounds=(-9, 9)): {
        "check_supervised_y_2d": FRESH_NOISE,
        "check_fit_idempotent": FRESH_NOISE,
    },
    CPCompletion(
        1,
        perturbation="input",
        calibration="published",
        value_bounds=(0, 9),
        learning_rate=1e-5,
    ): {
        "check_supervised_y_2d": FRESH_NOISE,
        "check_fit_idempotent": FRESH_NOISE,
    },
    LaplaceMechanism(2.0, bounds=(0, 3)): OF_TRANSFORMERS,
    GaussianMechanism(2.0, norm_bound=3.0): OF_TRANSFORMERS,
    TensorVariateGaussian(2.0, bounds=(0, 3), norm_bound=3.0): OF_TRANSFORMERS,
    UnimodalDirectionalNoise(2.0, sensitivity=1.0): OF_TRANSFORMERS,
    IndependentDirectionalNoise(
        2.0, bounds=(0, 3), calibration="published"
    ): OF_TRANSFORMERS,
    MatrixMechanism(2.0): OF_TRANSFORMERS,
    HybridMechanism(2.0, bounds=(0, 3)): OF_TRANSFORMERS,
    PrivUnit(2.0, bounds=(0, 3)): OF_TRANSFORMERS,
    TaskAwareEncoder(4.0): {"check_fit_idempotent": FRESH_NOISE},
    TaskAgnosticEncoder(4.0, mechanism="gaussian", delta=1e-6): {
        "check_fit_idempotent": FRESH_NOISE,
    },
    PrivacyAgnosticEncoder(4.0, mechanism="l2", output="code"): {
        "check_fit_idempotent": FRESH_NOISE,
    },
    TensorRandomizedResponse(2.0, bounds=(0, 3), n_levels=4): OF_TRANSFORMERS,
}


@parametrize_with_checks(NOISE_FREE)
def test_noise_free(estimator, check):
    check(estimator)


def expected_failures(estimator):
    return next(v for k, v in NOISY.items() if str(k) == str(estimator))


@parametrize_with_checks(list(NOISY), expected_failed_checks=expected_failures)
def test_noisy(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", MATRICES, ids=str)
def test_estimators_of_matrices_say_so(estimator):
    tags = get_tags(estimator).input_tags
    assert tags.three_d_array
    assert not tags.two_d_array
    with pytest.raises(ValueError, match="must be matrices"):
        estimator.fit(np.zeros((3, 4)))


def test_every_exported_estimator_is_checked():
    checked = {type(e).__name__ for e in [*NOISE_FREE, *NOISY, *MATRICES]}
    exported = {
        name
        for module in (
            sktensordp.completion,
            sktensordp.encoding,
            sktensordp.mechanisms,
        )
        for name in module.__all__
        if hasattr(getattr(module, name), "fit")
    }
    assert checked >= exported


@pytest.mark.parametrize("estimator", list(NOISY), ids=str)
def test_few_expected_failures(estimator):
    assert len(NOISY[estimator]) <= 2
