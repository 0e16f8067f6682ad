"""Intervals around released values cover as often as they say."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sktensordp import mechanisms as ms

BOX = {"bounds": (np.array([0, 0, -1.0]), np.array([1, 4, 1.0]))}
X = np.array([0.3, 3.1, 0.9])
N = 40_000
UTILITY = [np.array([1.0, 0.3, 2.0])]
TOTALS = np.tril(np.ones((3, 3)))
KNOWN = {
    "Laplace": ms.LaplaceMechanism(2.0, bounds=(-1, 4)),
    "Laplace in a box": ms.LaplaceMechanism(2.0, **BOX),
    # So much noise that a range is one step of the lattice.
    "Laplace, hardly any steps": ms.LaplaceMechanism(1e-7, bounds=(-1, 4)),
    # And so little that most draws are 0.
    "Laplace, no noise to speak of": ms.LaplaceMechanism(300.0, bounds=(-1, 4)),
    "Gaussian": ms.GaussianMechanism(2.0, norm_bound=5.0),
    "weights": ms.TensorVariateGaussian(2.0, utility=UTILITY, **BOX),
    "directions": ms.UnimodalDirectionalNoise(
        2.0, directions=np.linalg.qr(np.ones((3, 3)) + np.eye(3))[0], **BOX
    ),
    "answers": ms.MatrixMechanism(2.0, workload=TOTALS),
}
UNKNOWN = [
    ms.HybridMechanism(2.0, bounds=(0, 1)),
    ms.PrivUnit(2.0, bounds=(0, 1)),
    ms.TensorRandomizedResponse(2.0, bounds=(0, 1), n_levels=5),
]


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("name", KNOWN)
def test_intervals_cover_as_often_as_they_say(name, level):
    """Off by 5.5 standard deviations of a count: 1e-6 of a false alarm in all."""
    mechanism = clone(KNOWN[name]).fit(X[np.newaxis])
    released = mechanism.transform(np.tile(X, (N, 1)))
    truth = TOTALS @ X if name == "answers" else X
    low, high = mechanism.interval(level)
    assert np.shape(high) == np.shape(mechanism.noise_variance_)
    np.testing.assert_array_equal(low, -np.asarray(high))
    covered = np.mean((released + low <= truth) & (truth <= released + high), axis=0)
    error = 5.5 * np.sqrt(level * (1 - level) / N)
    assert np.all(covered > level - error)
    assert np.all(covered < level + error)


def test_widths_in_standard_deviations():
    laplace = ms.LaplaceMechanism(1.0, sensitivity=1.0).fit(X[np.newaxis])
    low, high = laplace.interval()
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert high == pytest.approx(np.log(20), rel=1e-4)
    assert high / np.sqrt(laplace.noise_variance_) == pytest.approx(2.118, abs=1e-3)
    gaussian = ms.GaussianMechanism(1.0, sensitivity=1.0).fit(X[np.newaxis])
    deviation = np.sqrt(gaussian.noise_variance_)
    assert gaussian.interval(0.95)[1] / deviation == pytest.approx(1.95996, abs=1e-4)
    # Whoever takes 1.96 for Laplace noise covers 94%.
    noise = laplace.transform(np.zeros((100_000, 3)))
    taken = 1.96 * np.sqrt(laplace.noise_variance_)
    assert np.mean(np.abs(noise) < taken) == pytest.approx(0.9374, abs=0.004)


def test_without_noise_intervals_are_points():
    for mechanism in KNOWN.values():
        exact = clone(mechanism).set_params(epsilon=np.inf).fit(X[np.newaxis])
        assert np.all(np.asarray(exact.interval()) == 0)


def test_nothing_is_spent():
    mechanism = ms.LaplaceMechanism(1.0, bounds=(0, 1)).fit(X[np.newaxis])
    mechanism.interval(0.9)
    assert not mechanism.__privacy_releases__()


@pytest.mark.parametrize("mechanism", UNKNOWN)
def test_where_values_decide_there_is_none(mechanism):
    assert not hasattr(mechanism, "interval")


def test_what_it_refuses():
    mechanism = ms.GaussianMechanism(1.0, bounds=(0, 1))
    with pytest.raises(NotFittedError):
        mechanism.interval()
    mechanism.fit(X[np.newaxis])
    for level in (0, 1, 95, -0.5, np.nan):
        with pytest.raises(ValueError, match="level must be between 0 and 1"):
            mechanism.interval(level)
