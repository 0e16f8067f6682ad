"""scikit-learn's own checks, on every estimator; the expected failures are data."""

import inspect
import math
import warnings

import numpy as np
import pytest
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_estimator,
    check_positive_only_tag_during_fit,
    parametrize_with_checks,
)

from sktensordp import mechanisms as ms
from sktensordp import moments, papers
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
)
from sktensordp.counts import TensorCounts
from sktensordp.encoding import TaskAgnosticEncoder, TaskAwareEncoder
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.privacy import privacy_tags
from tests.support.every_estimator import (
    BY_ENTRIES,
    CASES,
    OF_ENCODERS,
    OF_TRANSFORMERS,
    cases_of,
)
from tests.support.public import public_estimators

# The checks pass ten features, which are ten modes to a completion.
pytestmark = pytest.mark.filterwarnings("ignore:X has 10 columns:UserWarning")
LOCAL = "rows of users leave with no pickle; fold_in brings them back"
# Of estimators of coordinates, in this version of scikit-learn.
OF_VERSION = {}
if "X -= X.mean()\n" in inspect.getsource(check_positive_only_tag_during_fit):
    OF_VERSION["check_positive_only_tag_during_fit"] = (
        "scikit-learn 1.7.0 takes a mean, which is a fraction, from integers"
    )
# scikit-learn passes coordinates, of which y may be missing.
INTEGERS = "integers without y are refused, since they may be coordinates"
OF_SCALERS = dict.fromkeys(
    [
        "check_fit_score_takes_y", "check_pipeline_consistency",
        "check_transformer_data_not_an_array", "check_transformer_general",
    ],
    INTEGERS,
)  # fmt: skip
NOISE_FREE = [
    CPCompletion(rank=2, epsilon=math.inf),
    CPCompletion(rank=0, epsilon=math.inf, value_bounds=(-100, 100)),
    CPCompletion(rank=0, epsilon=math.inf, perturbation="sums"),
    CPCompletion(rank=1, epsilon=math.inf, perturbation="gradient", max_iter=3),
    CPCompletion(rank=1, epsilon=math.inf, perturbation="statistics"),
    CPCompletion(rank=1, epsilon=math.inf, perturbation="output", biases=False),
    TuckerCompletion(rank=0, epsilon=math.inf),
    TuckerCompletion(rank=1, epsilon=math.inf, biases=False, max_iter=2),
    TuckerCompletion(rank=0, epsilon=math.inf, perturbation="sums"),
    CoordinateEncoder(),
    CoordinateEncoder(time_bins=3),
    CoordinateEncoder(freq="D"),
    Recommender(CPCompletion(rank=0, epsilon=math.inf)),
    Recommender(TuckerCompletion(rank=0, epsilon=math.inf), CoordinateEncoder()),
    TensorCounts(epsilon=math.inf),
    TensorCounts([(0,)], epsilon=math.inf),
    ms.LaplaceMechanism(math.inf),
    ms.GaussianMechanism(math.inf, bounds=(-100, 100)),
    ms.TensorVariateGaussian(math.inf, norm_bound=1000.0),
    ms.UnimodalDirectionalNoise(math.inf, bounds=(-10, 10), norm_bound=20.0),
    ms.IndependentDirectionalNoise(math.inf, sensitivity=1.0),
    ms.MatrixMechanism(math.inf),
    TaskAwareEncoder(math.inf),
    TaskAgnosticEncoder(math.inf, clip=0.9),
    papers.PrivacyAgnosticEncoder(math.inf),
    ms.HybridMechanism(math.inf),
    ms.PrivUnit(math.inf, norm_bound=1000.0),
    ms.TensorRandomizedResponse(math.inf, bounds=(-100, 100)),
    moments.MultilinearPCA(epsilon=math.inf),
    moments.MultilinearPCA(1, epsilon=math.inf, center=True),
    moments.MultilinearPCA((1,), epsilon=math.inf, norm_bound=3.0),
    moments.MultilinearRidge(epsilon=math.inf),
    moments.MultilinearRidge(alpha=1.0, epsilon=math.inf),
    moments.MultilinearRidgeClassifier(epsilon=math.inf),
]
# scikit-learn's checks pass rows of features of many lengths, which are no matrices.
MATRICES = [
    ms.MatrixGaussian(), papers.MatrixVariateGaussian(),
    papers.PublishedMatrixGaussian(), papers.PublishedMatrixVariateGaussian(),
]  # fmt: skip
# They pass rows of features of many lengths, which are no pairs.
CHOICES = ImplicitCompletion(epsilon=math.inf, shape=(1000, 1000))
NO_PAIRS = {
    "check_fit_score_takes_y", "check_dont_overwrite_parameters",
    "check_n_features_in_after_fitting",
    "check_positive_only_tag_during_fit", "check_estimators_dtypes",
    "check_complex_data", "check_dtype_object", "check_estimators_empty_data_messages",
    "check_pipeline_consistency", "check_estimators_nan_inf",
    "check_estimator_sparse_tag", "check_estimator_sparse_array",
    "check_estimator_sparse_matrix", "check_estimators_pickle",
    "check_f_contiguous_array_estimator", "check_methods_sample_order_invariance",
    "check_methods_subset_invariance", "check_fit2d_1sample", "check_fit2d_1feature",
    "check_dict_unchanged", "check_fit2d_predict1d",
}  # fmt: skip


class CountsOfAnyShape(TensorCounts):
    """Declares a shape for rows of any length, such as those of the checks."""

    def fit(self, X, y=None):
        self._declared = (20,) * (np.shape(X)[1:] or (1,))[0]
        return super().fit(X)

    def _planned(self, found=None):
        return super()._planned(self._declared)


OF_COUNTS = dict.fromkeys(
    [
        "check_estimators_empty_data_messages", "check_estimators_nan_inf",
        "check_dtype_object", "check_complex_data",
        "check_positive_only_tag_during_fit", "check_fit_non_negative",
    ],
    "a refusal would tell of a person",
)  # fmt: skip
NOISY = {
    CPCompletion(rank=2, epsilon=4.0, value_bounds=(-100, 100)): BY_ENTRIES,
    CPCompletion(rank=1, epsilon=4.0, levels=[-2, -1, 0, 1, 2]): BY_ENTRIES,
    CPCompletion(0, perturbation="sums", value_bounds=(-100, 100)): BY_ENTRIES,
    Recommender(CPCompletion(0, value_bounds=(-1, 1), random_state=0)): BY_ENTRIES,
    TuckerCompletion(1, levels=[-2, -1, 0, 1, 2], biases=False, max_iter=5): BY_ENTRIES,
    TuckerCompletion(1, perturbation="sums", value_bounds=(-9, 9)): BY_ENTRIES,
    CPCompletion(0, epsilon=math.inf, unit=0): {"check_estimators_pickle": LOCAL},
    CPCompletion(1, epsilon=math.inf, unit=0, perturbation="statistics"): {
        "check_estimators_pickle": LOCAL,
    },
    papers.BiScaler(4.0, value_bounds=(-100, 100)): OF_SCALERS,
    papers.BiScaler(math.inf): OF_SCALERS,
    CPCompletion(1, perturbation="gradient", value_bounds=(-9, 9), max_iter=3): (
        BY_ENTRIES
    ),
    CPCompletion(1, perturbation="statistics", value_bounds=(-9, 9)): BY_ENTRIES,
    CPCompletion(1, perturbation="output", value_bounds=(-9, 9)): BY_ENTRIES,
    papers.PublishedCPCompletion(1, learning_rate=1e-5, value_bounds=(0, 9)): (
        BY_ENTRIES
    ),
    ms.LaplaceMechanism(2.0, bounds=(0, 3)): OF_TRANSFORMERS,
    ms.GaussianMechanism(2.0, norm_bound=3.0): OF_TRANSFORMERS,
    ms.TensorVariateGaussian(2.0, bounds=(0, 3), norm_bound=3.0): OF_TRANSFORMERS,
    ms.UnimodalDirectionalNoise(2.0, sensitivity=1.0): OF_TRANSFORMERS,
    papers.PublishedTuckerCompletion(1, learning_rate=1e-5, value_bounds=(0, 9)): (
        BY_ENTRIES
    ),
    papers.PublishedTensorVariateGaussian(2.0, bounds=(0, 3)): OF_TRANSFORMERS,
    papers.PublishedUnimodalDirectionalNoise(2.0, bounds=(0, 3)): OF_TRANSFORMERS,
    papers.PublishedIndependentDirectionalNoise(2.0, bounds=(0, 3)): OF_TRANSFORMERS,
    papers.PublishedTensorRandomizedResponse(2.0, bounds=(0, 3)): OF_TRANSFORMERS,
    papers.PublishedTaskAwareEncoder(4.0): OF_ENCODERS,
    papers.PublishedTaskAgnosticEncoder(4.0): OF_ENCODERS,
    papers.PublishedPrivacyAgnosticEncoder(4.0): OF_ENCODERS,
    ms.MatrixMechanism(2.0): OF_TRANSFORMERS,
    ms.HybridMechanism(2.0, bounds=(0, 3)): OF_TRANSFORMERS,
    ms.PrivUnit(2.0, bounds=(0, 3)): OF_TRANSFORMERS,
    TaskAwareEncoder(4.0): OF_ENCODERS,
    TaskAgnosticEncoder(4.0, mechanism="gaussian", delta=1e-6): OF_ENCODERS,
    papers.PrivacyAgnosticEncoder(4.0, mechanism="l2", output="code"): OF_ENCODERS,
    ms.TensorRandomizedResponse(2.0, bounds=(0, 3), n_levels=4): OF_TRANSFORMERS,
    moments.MultilinearPCA(1, epsilon=4.0, norm_bound=3.0): OF_ENCODERS,
    moments.MultilinearPCA(epsilon=4.0, norm_bound=3.0, center=True): OF_ENCODERS,
    moments.MultilinearRidge(1, epsilon=4.0, norm_bound=3.0, target_bounds=(-3, 3)): (
        BY_ENTRIES
    ),
}  # fmt: skip
# An estimator with no instance above is checked as its first case is.
LISTED = {PrivateSearchCV, TensorCounts} | {
    type(one) for one in [*NOISE_FREE, *NOISY, *MATRICES, CHOICES]
}
NOISY |= {
    case.estimator: case.expected_failures
    for case in {type(c.estimator): c for c in reversed(CASES)}.values()
    if type(case.estimator) not in LISTED
}


# One of each class is in the default tier; what is published differs in its noise.
FIRST = {
    type(estimator): estimator
    for estimator in reversed(NOISY)
    if not type(estimator).__name__.startswith("Published")
}
OTHERS = [estimator for estimator in NOISY if estimator not in FIRST.values()]
# Those of which no noisy one is checked.
FIRST_NOISE_FREE = {
    type(estimator): estimator
    for estimator in reversed(NOISE_FREE)
    if type(estimator) not in FIRST
}
OTHERS_NOISE_FREE = [one for one in NOISE_FREE if one not in FIRST_NOISE_FREE.values()]


def failures_of_version(estimator):
    return OF_VERSION if get_tags(estimator).input_tags.categorical else {}


# The checks pass small numbers, which are times of one day.
@pytest.mark.filterwarnings("ignore:All times fall into one bin:UserWarning")
@parametrize_with_checks(
    [*FIRST_NOISE_FREE.values()], expected_failed_checks=failures_of_version
)
def test_noise_free(estimator, check):
    check(estimator)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:All times fall into one bin:UserWarning")
@pytest.mark.filterwarnings("ignore:The declared scale, .* as wide:UserWarning")
@pytest.mark.filterwarnings("ignore:.* of the values are:UserWarning")
@parametrize_with_checks(OTHERS_NOISE_FREE, expected_failed_checks=failures_of_version)
def test_noise_free_with_other_parameters(estimator, check):
    check(estimator)


def expected_failures(estimator):
    expected = next(v for k, v in NOISY.items() if str(k) == str(estimator))
    return {**expected, **failures_of_version(estimator)}


@parametrize_with_checks([*FIRST.values()], expected_failed_checks=expected_failures)
def test_noisy(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning")
@parametrize_with_checks(
    [CountsOfAnyShape()],
    expected_failed_checks=lambda _: OF_COUNTS | OF_VERSION,
)
def test_noisy_counts(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHERS, expected_failed_checks=expected_failures)
def test_noisy_with_other_parameters(estimator, check):
    check(estimator)


# Declared scales are in `NOISY`; without one, the checks pass too few values.
TOO_FEW = dict.fromkeys(
    [
        "check_dict_unchanged", "check_dont_overwrite_parameters",
        "check_dtype_object", "check_estimators_dtypes",
        "check_estimators_fit_returns_self", "check_estimators_nan_inf",
        "check_estimators_overwrite_params", "check_estimators_partial_fit_n_features",
        "check_estimators_pickle", "check_f_contiguous_array_estimator",
        "check_fit2d_1sample", "check_fit2d_predict1d", "check_fit_check_is_fitted",
        "check_fit_idempotent", "check_fit_score_takes_y", "check_n_features_in",
        "check_n_features_in_after_fitting", "check_non_transformer_estimators_n_iter",
        "check_readonly_memmap_input", "check_regressor_data_not_an_array",
        "check_regressors_int", "check_regressors_no_decision_function",
        "check_regressors_train", "check_supervised_y_2d",
    ],
    "no scale can be found privately among so few values, so the fit refuses",
)  # fmt: skip
DEFAULTS = {
    # A recommender has no default completion.
    **{type(one): OF_ENCODERS for one in NOISY if type(one) is not Recommender},
    CPCompletion: TOO_FEW,
    moments.MultilinearRidge: BY_ENTRIES,
    moments.MultilinearRidgeClassifier: {},
    papers.PublishedCPCompletion: BY_ENTRIES,
    papers.PublishedTuckerCompletion: BY_ENTRIES,
    TuckerCompletion: TOO_FEW,
    papers.BiScaler: OF_SCALERS,
    CoordinateEncoder: {},
    ms.MatrixMechanism: OF_TRANSFORMERS,
}
# Declared, since the checks have too few samples to find it.
DECLARED = {
    moments.MultilinearPCA: {"norm_bound": 3.0},
    moments.MultilinearRidge: {"norm_bound": 3.0},
    moments.MultilinearRidgeClassifier: {"norm_bound": 3.0},
}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("form", "expected"),
    [
        pytest.param(
            *case, marks=[pytest.mark.slow] * case[0].__name__.startswith("Published")
        )
        for case in DEFAULTS.items()
    ],
)
def test_default_parameters(form, expected):
    expected = {**expected, **failures_of_version(form())}
    results = check_estimator(
        form(**DECLARED.get(form, {})),
        expected_failed_checks=expected,
        on_skip=None,
        on_fail=None,
    )
    found = {
        status: {one["check_name"] for one in results if one["status"] == status}
        for status in ("failed", "xfail")
    }
    assert found == {"failed": set(), "xfail": set(expected)}


@pytest.mark.parametrize("estimator", MATRICES, ids=str)
def test_estimators_of_matrices_say_so(estimator):
    tags = get_tags(estimator).input_tags
    assert tags.three_d_array
    assert not tags.two_d_array
    with pytest.raises(ValueError, match="must be matrices"):
        estimator.fit(np.zeros((3, 4)))


def test_estimators_of_choices_pass_what_needs_no_data():
    """The others are in tests/completion/test_implicit.py, with pairs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "y is ignored", UserWarning)
        results = check_estimator(CHOICES, on_skip=None, on_fail=None)
    failed = {one["check_name"] for one in results if one["status"] == "failed"}
    assert failed <= NO_PAIRS
    assert sum(one["status"] == "passed" for one in results) > 10


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_the_text_of_a_guarantee_says_of_which_release_it_is(case):
    fitted, _ = case.release()
    if case.private == "ids":
        assert not hasattr(fitted, "privacy_guarantee_")
        return
    released_by = privacy_tags(fitted).released_by
    is_call = released_by not in ("fit", None)  # None if a step of it releases
    scope = f"Each call of {released_by}: " if is_call else "This fit: "
    assert str(fitted.privacy_guarantee_).startswith(scope)


def test_no_estimator_escapes():
    """Neither these checks nor the tests that go through all cases."""
    for kind in public_estimators().values():
        cases_of(kind)
    assert public_estimators().keys() == {type(c.estimator).__name__ for c in CASES}
    assert len({case.label for case in CASES}) == len(CASES)
    assert all(len(v) <= 2 for v in NOISY.values() if v is not OF_SCALERS)


def test_an_estimator_without_a_case_is_told_what_to_add():
    class Forgotten:
        """Nobody wrote a case."""

    with pytest.raises(AssertionError, match="Forgotten has no case"):
        cases_of(Forgotten)
