"""A look at samples finds the mistakes that a release makes in silence."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

import sktensordp
from sktensordp.completion import CPCompletion
from sktensordp.encoding import EncoderClient, TaskAwareEncoder
from sktensordp.exceptions import PrivacyLeakWarning
from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    MatrixMechanism,
    PrivUnit,
    TensorRandomizedResponse,
)
from sktensordp.model_selection import check_samples
from sktensordp.moments import (
    MultilinearPCA,
    MultilinearRidge,
    MultilinearRidgeClassifier,
)
from sktensordp.privacy import PrivacyBudget
from tests.support.seams import run_reserved

pytestmark = pytest.mark.filterwarnings(
    "ignore:check_samples is not private:sktensordp.exceptions.PrivacyLeakWarning"
)
DIGITS = load_digits()
IMAGES, LABELS = DIGITS.images[:600], DIGITS.target[:600]
LONGEST = 80.0  # of an image of 0 to 16
RNG = np.random.default_rng(0)
SENSORS = RNG.normal(size=(300, 4, 12)) * [[1.0], [2.0], [1.5], [1.0]]
CLASSIFIER = MultilinearRidgeClassifier(norm_bound=LONGEST, classes=range(10))
RIDGE = MultilinearRidge(norm_bound=LONGEST, target_bounds=(0, 9))
ENCODER = TaskAwareEncoder(4.0).fit(DIGITS.images[600:], DIGITS.target[600:])
OF_SENSORS = TaskAwareEncoder(4.0, task=np.ones((1, 48))).fit(SENSORS)
STARS = CPCompletion(levels=[1, 2, 3, 4, 5]).client()

# A right use, and how the mistake in it is told.
MISTAKES = {
    "0..255 with bounds (0, 1)": (
        LaplaceMechanism(4.0, bounds=(0, 1)), IMAGES / 16, IMAGES * 16,
        "of the values are outside of bounds, by up to 255",
    ),
    "0..1 with bounds (0, 255)": (
        PrivUnit(4.0, bounds=(0, 255)), IMAGES * 15.9, IMAGES / 16,
        "The values use 0.00392 of bounds",
    ),
    "norm_bound 20 times too small": (
        GaussianMechanism(4.0, norm_bound=LONGEST), IMAGES, IMAGES * 20,
        "100% of the samples are longer than norm_bound",
    ),
    "norm_bound 1,000 times too wide": (
        GaussianMechanism(4.0, norm_bound=LONGEST), IMAGES, IMAGES / 1000,
        "The longest sample has 0.000",
    ),
    "the same of moments, too small": (
        MultilinearPCA(4, norm_bound=LONGEST), IMAGES, IMAGES * 20,
        "100% of the samples are longer than norm_bound",
    ),
    "the same of moments, too wide": (
        MultilinearPCA(4, norm_bound=LONGEST), IMAGES, IMAGES / 1000,
        "The longest sample has 0.000",
    ),
    "a client that sends other units": (
        ENCODER.client(), IMAGES, IMAGES / 16,
        "of the entries are far from those that the encoder was fitted to",
    ),
    "one channel in another unit": (
        OF_SENSORS, SENSORS, SENSORS * [[1.0], [1.0], [1.0], [1000.0]],
        "25% of the entries are far from those",
    ),
    "one sample in other units": (
        OF_SENSORS, SENSORS[:1], SENSORS[:1] * 1000,
        "of the entries are far from those",
    ),
    "a client of ratings that sends percentages": (
        STARS, np.repeat([1, 4, 5], 5), np.repeat([20, 80, 100], 5),
        "100% of the values are outside of value_bounds, by up to 95",
    ),
    "a client of ratings that sends other levels": (
        STARS, np.repeat([1, 4, 5], 5), np.repeat([1, 3.5, 5], 5),
        "33% of the values are no levels",
    ),
    "values around 36": (
        MultilinearRidge(epsilon=40.0, norm_bound=400.0), SENSORS * 10, SENSORS + 36,
        "99% of the squared length is the same in all samples",
    ),
    "mixed units": (
        MultilinearRidge(epsilon=40.0, norm_bound=400.0), SENSORS * 10,
        SENSORS * [[10.0], [0.1], [10.0], [0.1]],
        "Along a mode, some cells vary",
    ),
    "missing values": (
        LaplaceMechanism(4.0, bounds=(0, 16)), IMAGES,
        np.where(IMAGES == 3, np.nan, IMAGES), "values are missing or infinite",
    ),
    "samples along the last axis": (
        MultilinearPCA(4, epsilon=400.0, norm_bound=LONGEST), IMAGES[:50],
        np.moveaxis(IMAGES[:50], 0, -1)[:, :, :40],
        "samples of shape (8, 40), and only 8 of them",
    ),
    "so few samples that there is only noise": (
        MultilinearPCA(4, norm_bound=LONGEST), IMAGES, IMAGES[:20],
        "are about as large as the noise of a single sum",
    ),
}  # fmt: skip
OF_TARGETS = {
    "targets bounded by (0, 1) that are not": (
        RIDGE, LABELS, LABELS * 100, "of the targets are outside of target_bounds",
    ),
    "targets in a unit that is too small": (
        RIDGE, LABELS, LABELS / 1000, "The targets use 0.001 of target_bounds",
    ),
    "labels as text": (
        CLASSIFIER, LABELS, [str(label) for label in LABELS],
        "100% of the labels are no class",
    ),
    "a class without samples": (
        CLASSIFIER, LABELS, LABELS % 9,
        "Classes without samples, of which there is only noise: 1 of 10",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_found_and_what_is_right_is_not(case):
    estimator, right, wrong, said = MISTAKES[case]
    assert not check_samples(estimator, right).likely_mistakes
    found = check_samples(estimator, wrong)
    assert any(said in mistake for mistake in found.likely_mistakes)
    assert all(mistake in str(found) for mistake in found.likely_mistakes)


@pytest.mark.parametrize("case", OF_TARGETS)
def test_a_mistake_in_targets_is_found(case):
    estimator, right, wrong, said = OF_TARGETS[case]
    assert not check_samples(estimator, IMAGES, right).likely_mistakes
    (mistake, *_) = check_samples(estimator, IMAGES, wrong).likely_mistakes
    assert said in mistake


@pytest.mark.parametrize(
    "units",
    [
        {"offset": np.full((4, 1), 36.0), "scale": [[1.0], [2.0], [1.5], [1.0]]},
        {"center": True, "norm_bound": 60.0},
        {"offset": 36.0},
    ],
)
def test_public_units_and_means_are_taken_off_first(units):
    moved = SENSORS + 36
    plain = MultilinearRidge(epsilon=40.0, norm_bound=400.0)
    assert check_samples(plain, moved).likely_mistakes
    for kind in (MultilinearRidge, MultilinearPCA):
        model = kind(epsilon=40.0, **{"norm_bound": 40.0} | units)
        mistakes = check_samples(model, moved).likely_mistakes
        if kind is MultilinearPCA and "center" in units:
            assert "too far for `center`. Pass a public offset" in mistakes[0]
            mistakes = check_samples(model.set_params(offset=35.0), moved)
            mistakes = mistakes.likely_mistakes
        assert not mistakes


def test_what_is_not_declared_is_said():
    found = check_samples(LaplaceMechanism(), IMAGES)
    assert found.found["domain"] == "not declared"
    assert found.likely_mistakes
    found = check_samples(MultilinearRidge(), IMAGES, LABELS).found
    assert found["norm_bound"] == found["target_bounds"] == "not declared"
    found = check_samples(MultilinearRidgeClassifier(), IMAGES, LABELS).found
    assert found["classes"] == "not declared"


def test_a_typical_norm_is_no_mistake():
    """The documentation says to bound a typical length, so half are longer."""
    lengths = np.linalg.norm(IMAGES, axis=(1, 2))
    for bound, is_wrong in ((np.median(lengths), False), (lengths.min() / 2, True)):
        model = MultilinearPCA(4, epsilon=40.0, norm_bound=float(bound))
        mistakes = check_samples(model, IMAGES).likely_mistakes
        assert any("are longer than norm_bound" in one for one in mistakes) == is_wrong


def test_numbers_are_those_of_the_release():
    """Clipped shares, lengths and noise, counted by hand."""
    bounds = np.zeros((8, 8)), np.full((8, 8), 12.0)
    mechanism = LaplaceMechanism(4.0, bounds=bounds)
    found = check_samples(mechanism, IMAGES).found
    assert found["samples"] == 600
    assert found["shape of a sample"] == (8, 8)
    assert found["share of values above bounds"] == np.mean(IMAGES > 12)
    assert found["largest distance from bounds"] == 4
    noise = np.sqrt(mechanism.fit(IMAGES[:1]).noise_variance_)
    assert found["standard deviation of the noise of an entry"] == pytest.approx(noise)
    lengths = np.linalg.norm(DIGITS.data[:600], axis=1)
    found = check_samples(MultilinearPCA(2, norm_bound=50.0), DIGITS.data[:600]).found
    assert found["share of samples longer than norm_bound"] == np.mean(lengths > 50)
    median = found["median length of a sample, over norm_bound"]
    assert median == pytest.approx(np.median(lengths) / 50)
    # Rows of features are samples of the declared shape.
    pca = MultilinearPCA(2, norm_bound=80.0, tensor_shape=(8, 8))
    found = check_samples(pca, DIGITS.data[:600]).found
    assert found["shape of a sample"] == (8, 8)
    running = MatrixMechanism(1.0, workload=np.tril(np.ones((64, 64))))
    found = check_samples(running, DIGITS.data[:600]).found
    assert found["standard deviation of the noise of an answer"] > 0
    levels = TensorRandomizedResponse(1.0, bounds=(0, 16), n_levels=17)
    assert not check_samples(levels, IMAGES).likely_mistakes
    exact = LaplaceMechanism(np.inf, bounds=(0, 16))
    assert not any("noise" in name for name in check_samples(exact, IMAGES).found)


def test_nothing_is_released_and_nothing_changes():
    mechanism = LaplaceMechanism(4.0, bounds=(0, 16), random_state=0).fit(IMAGES)
    client = EncoderClient.from_json(ENCODER.client().to_json())
    for estimator in (mechanism, client, ENCODER, CLASSIFIER):
        before = pickle.dumps(estimator)
        check_samples(estimator, IMAGES)
        assert pickle.dumps(estimator) == before
    with (
        PrivacyBudget(100.0, delta=1e-3),
        pytest.raises(RuntimeError, match="before the budget is opened"),
    ):
        check_samples(mechanism, IMAGES)
    with pytest.raises(RuntimeError, match="before the budget is opened"):
        run_reserved(None, check_samples, mechanism, IMAGES)


def test_it_warns_where_something_is_protected():
    with pytest.warns(PrivacyLeakWarning, match="check_samples is not private"):
        check_samples(CLASSIFIER, IMAGES)
    with pytest.warns(PrivacyLeakWarning, match="check_samples is not private"):
        check_samples(STARS, np.ones(10))


def test_no_code_of_the_package_looks():
    root = Path(sktensordp.__file__).parent
    own = {"_check_samples.py", "__init__.py"}
    for path in root.rglob("*.py"):
        assert path.name in own or "check_samples(" not in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("estimator", "X", "y", "error", "said"),
    [
        (make_pipeline(RIDGE), IMAGES, None, TypeError, "pass the step"),
        (CPCompletion(), IMAGES, None, TypeError, "call check_table"),
        (RIDGE, [["a"]], None, ValueError, "X must hold numbers"),
        (RIDGE, np.ones((0, 2)), None, ValueError, "X must hold samples"),
        (RIDGE, IMAGES, LABELS[:-1], ValueError, "same length"),
        (ENCODER, IMAGES[:, :4], None, ValueError, "takes samples of shape"),
    ],
)
def test_what_it_refuses(estimator, X, y, error, said):
    with pytest.raises(error, match=said):
        check_samples(estimator, X, y)


def test_frames_and_lists_are_read():
    frame = pd.DataFrame(DIGITS.data[:50])
    found = check_samples(LaplaceMechanism(bounds=(0, 16)), frame).found
    lists = check_samples(LaplaceMechanism(bounds=(0, 16)), DIGITS.data[:50].tolist())
    assert found == lists.found


@pytest.mark.parametrize("value", ["secret", "36.6 C", object()])
def test_an_error_shows_no_value(value):
    X = np.full((3, 2), value, dtype=object)
    with pytest.raises(ValueError, match=r"^X must hold numbers\.$") as caught:
        check_samples(LaplaceMechanism(1.0, bounds=(0, 1)), X)
    assert caught.value.__cause__ is caught.value.__context__ is None
