"""PrivUnit: law, bias and variance, what is claimed, and what is refused.

Statistical tests use fixed seeds; a correct mechanism fails one with probability
ALPHA over the seeds, asymptotically, unless it says otherwise.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import betainc
from scipy.stats import kstest

from sktensordp.mechanisms import PrivUnit
from tests.support.goodness import moments_p_value
from tests.support.noise import source_of, stream_of
from tests.support.seams import calibrated_cap, privunit_design

ALPHA = 1e-6
# Squared error of the mean of 10,000 users, data in [-1, 1]^d.
TABLE = {
    (64, 1): 2.57, (64, 4): 0.174, (64, 16): 0.0166,
    (784, 1): 389, (784, 4): 26.7, (784, 16): 2.9,
}  # fmt: skip
RNG = np.random.default_rng(0)


def directions(cap, u, n, seed=0):
    estimates = cap.estimates(np.tile(u, (n, 1)), stream_of(seed))
    return estimates * cap.design.scale


def unit(dimension, seed=0):
    normal = np.random.default_rng(seed).normal(size=dimension)
    return normal / np.linalg.norm(normal)


def cosine_cdf(design):
    """Exact distribution function of the cosine of v and u."""
    half = (design.dimension - 1) / 2
    q = math.exp(design.log_mass)
    p = 1 / (1 + math.exp(-design.log_odds))

    def cdf(t):
        below = betainc(half, half, (1 + t) / 2)
        outside = (1 - p) / (1 - q) * np.minimum(below, 1 - q)
        return outside + p / q * np.maximum(0, below - (1 - q))

    return cdf


class TestLaw:
    # Both samplers: large caps are waited for, small ones aimed at.
    CASES = ((2, 1.0), (2, 12.0), (5, 9.0), (65, 1.0), (785, 4.0))

    @pytest.mark.parametrize(("dimension", "epsilon"), CASES)
    def test_cosine(self, dimension, epsilon):
        cap, u = calibrated_cap(dimension, epsilon), unit(dimension)
        assert cap.sampler.aimed == (epsilon >= 4)
        v = directions(cap, u, 2000 if dimension == 785 else 30_000)
        assert_allclose(np.linalg.norm(v, axis=1), 1, rtol=1e-14)
        assert kstest(v @ u, cosine_cdf(cap.design)).pvalue > ALPHA


class TestMoments:
    @pytest.mark.parametrize(("epsilon", "point"), [(3.0, 1.0), (8.0, 0.3)])
    def test_unbiased_with_one_variance(self, epsilon, point):
        low, high = np.array([-1.0, 0, 2, 5]), np.array([1.0, 4, 3, 5.5])
        x = (low + high) / 2 + point * (high - low) / 2
        X = np.tile(x, (40_000, 1))
        mechanism = PrivUnit(epsilon, bounds=(low, high), random_state=1).fit(X)
        noisy, variance = mechanism.transform(X), mechanism.noise_variance_
        deviation = math.sqrt(variance)
        assert mechanism.expected_squared_error_ == 4 * variance
        assert moments_p_value((noisy - X) / deviation) > ALPHA
        # Wrong by half in the cap, or in what is released.
        cap = mechanism._randomizer.cap
        cosine = 0.5 * cap.sampler.cosine
        wrong = replace(
            cap, sampler=replace(cap.sampler, cosine=cosine, gap=1 - cosine)
        )
        wrong = replace(mechanism._randomizer, cap=wrong).randomize(X, source_of(1))
        assert moments_p_value((wrong - X) / deviation) < ALPHA
        assert moments_p_value((noisy / 2 - X) / deviation) < ALPHA

    @pytest.mark.parametrize(("size", "epsilon"), TABLE)
    def test_table_of_soundness(self, size, epsilon):
        X = RNG.uniform(-1, 1, (1000, size))
        mechanism = PrivUnit(epsilon, bounds=(-1, 1), random_state=0).fit(X)
        expected = mechanism.expected_squared_error_
        assert_allclose(expected / 10_000, TABLE[size, epsilon], rtol=6e-3)
        # What the residual costs.
        ideal = privunit_design(size + 1, epsilon).variance * size**2
        assert ideal <= expected < ideal * 1.002
        errors = np.square(mechanism.transform(X) - X).sum(axis=1)
        deviation = errors.std() / math.sqrt(len(X))
        assert abs(errors.mean() - expected) < 4.9 * deviation

    def test_the_smaller_ball_is_taken(self):
        X = np.zeros((2, 4))

        def error(**domain):
            return PrivUnit(2.0, **domain).fit(X).expected_squared_error_

        ball, box = error(norm_bound=1.0), error(bounds=(-1, 1))
        assert_allclose(box, 4 * ball, rtol=1e-12)
        assert error(bounds=(-1, 1), norm_bound=9.0) == box
        assert_allclose(error(bounds=(-1, 1), norm_bound=1.0), ball, rtol=1e-12)
        assert_allclose(error(bounds=(9, 11), norm_bound=30.0), box, rtol=1e-12)
        assert_allclose(error(bounds=(1e9, 1e9 + 2)), box, rtol=1e-12)


class TestClaims:
    @pytest.mark.parametrize("dimension", [2, 3, 5, 65, 785, 10**5])
    def test_never_more_than_was_asked_for(self, dimension):
        previous = math.inf
        for epsilon in (1e-4, 0.01, 1.0, 2.5, 4.0, 8.0, 16.0, 30.0):
            cap = calibrated_cap(dimension, epsilon)
            assert cap.design.epsilon + cap.residual <= cap.epsilon <= epsilon
            assert 0 < cap.residual < epsilon / 2
            assert cap.residual < (3e-3 if dimension < 10**5 else 0.1)
            # The odds that are drawn are at most those of the design, and near them.
            odds = cap.sampler.weight / (2**62 - cap.sampler.weight)
            assert_allclose(math.log(odds), cap.design.log_odds, rtol=1e-9, atol=1e-15)
            assert cap.design.variance < previous
            previous = cap.design.variance


class TestRelease:
    def test_floats_are_functions_of_lattice_points(self):
        """Every bit of a release follows from whole numbers that tell nothing of u."""
        cap = calibrated_cap(7, 6.0)
        u = np.array([unit(7, seed) for seed in range(200)])
        points = cap.sampler.draw(u, stream_of(0))
        estimates = cap.estimates(u, stream_of(0))
        assert_array_equal(points, np.rint(points))
        lengths = np.sqrt(np.square(points).sum(axis=1, keepdims=True))
        assert_array_equal(estimates, points / (lengths * cap.design.scale))


def test_how_often_a_direction_is_rejected_does_not_depend_on_the_sample():
    """False alarms: 2e-9, five comparisons at six standard deviations."""
    sampler = calibrated_cap(4, 1.0).sampler
    units = np.array(
        [[0, 0, 0, 1.0], [1, 0, 0, 0], [0.5] * 4, [0.6, -0.8, 0, 0], [-1, 0, 0, 0]]
    )
    n, rates = 2**17, []
    for number, unit in enumerate(units):
        around = np.tile(unit, (n, 1))
        points = sampler._candidates(around, source_of(1, number).stream(0))
        inside = np.einsum("ij,ij->i", around, points) >= sampler.cosine * np.sqrt(
            np.square(points).sum(axis=1)
        )
        rates.append(np.mean(inside & sampler._is_supported(points)))
    mean = np.mean(rates)
    assert np.ptp(rates) < 6 * np.sqrt(2 * mean * (1 - mean) / n)
