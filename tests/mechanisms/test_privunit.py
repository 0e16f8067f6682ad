"""PrivUnit: law, bias and variance, what is claimed, and what is refused.

Statistical tests use fixed seeds; a correct mechanism fails one with probability
ALPHA over the seeds, asymptotically, unless it says otherwise.
"""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import betainc
from scipy.stats import beta, chi2, kstest

from sktensordp._random import NoiseSource
from sktensordp.exceptions import PrivacyLeakWarning
from sktensordp.mechanisms._privunit import PrivUnit, calibrated_cap
from sktensordp.privacy._privunit import privunit_design

ALPHA = 1e-6
THREADS = "sktensordp.mechanisms._noise.effective_n_threads"
# Squared error of the mean of 10,000 users, data in [-1, 1]^d.
TABLE = {
    (64, 1): 2.57, (64, 4): 0.174, (64, 16): 0.0166,
    (784, 1): 389, (784, 4): 26.7, (784, 16): 2.9,
}  # fmt: skip
RNG = np.random.default_rng(0)


def directions(cap, u, n, seed=0):
    estimates = cap.estimates(np.tile(u, (n, 1)), NoiseSource(seed, 0).stream(0))
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


def squared_deviations(errors, variance):
    """Largest squared z-scores of means and of second moments, as P values."""
    n = len(errors)
    scaled = errors / math.sqrt(variance)
    mean = np.sqrt(n) * scaled.mean(axis=0)
    products = scaled[:, :, None] * scaled[:, None, :] - np.eye(errors.shape[1])
    spread = products.std(axis=0)
    moment = np.sqrt(n) * products.mean(axis=0) / spread
    return [
        min(1, x.size * chi2.sf(np.max(x) ** 2, 1)) for x in (abs(mean), abs(moment))
    ]


class TestLaw:
    # Both samplers: large caps are waited for, small ones aimed at.
    CASES = ((2, 1.0), (2, 12.0), (3, 2.0), (5, 9.0), (65, 1.0), (65, 6.0), (785, 4.0))

    @pytest.mark.parametrize(("dimension", "epsilon"), CASES)
    def test_cosine(self, dimension, epsilon):
        cap, u = calibrated_cap(dimension, epsilon), unit(dimension)
        assert cap.sampler.aimed == (epsilon >= 4)
        v = directions(cap, u, 2000 if dimension == 785 else 30_000)
        assert_allclose(np.linalg.norm(v, axis=1), 1, rtol=1e-14)
        assert kstest(v @ u, cosine_cdf(cap.design)).pvalue > ALPHA

    @pytest.mark.parametrize("epsilon", [1.0, 9.0])
    def test_a_wrong_cap_is_seen(self, epsilon):
        cap = calibrated_cap(5, epsilon)
        cosine = cap.sampler.cosine * 0.9
        wrong = replace(cap.sampler, cosine=cosine, gap=1 - cosine)
        v = directions(replace(cap, sampler=wrong), unit(5), 30_000)
        assert kstest(v @ unit(5), cosine_cdf(cap.design)).pvalue < ALPHA

    @pytest.mark.parametrize(("dimension", "epsilon"), CASES)
    def test_across(self, dimension, epsilon):
        """Orthogonally to u, the direction is uniform."""
        u = unit(dimension)
        v = directions(calibrated_cap(dimension, epsilon), u, 3000, seed=1)
        across = v - np.outer(v @ u, u)
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        if dimension == 2:
            side = across @ [-u[1], u[0]]
            assert_allclose(abs(side), 1, rtol=1e-6)
            assert abs(side.sum()) < 4.9 * math.sqrt(len(side))
            return
        law = beta((dimension - 2) / 2, (dimension - 2) / 2, loc=-1, scale=2)
        for axis in range(2):
            other = np.eye(dimension)[axis] - u[axis] * u
            values = across @ other / np.linalg.norm(other)
            assert kstest(values, law.cdf).pvalue > ALPHA


class TestMoments:
    @pytest.mark.parametrize("epsilon", [3.0, 8.0])
    @pytest.mark.parametrize("point", [0.0, 0.3, 1.0])
    def test_unbiased_with_one_variance(self, epsilon, point):
        low, high = np.array([-1.0, 0, 2, 5]), np.array([1.0, 4, 3, 5.5])
        x = (low + high) / 2 + point * (high - low) / 2
        X = np.tile(x, (40_000, 1))
        mechanism = PrivUnit(epsilon, bounds=(low, high), random_state=1).fit(X)
        noisy, variance = mechanism.transform(X), mechanism.noise_variance_
        assert mechanism.expected_squared_error_ == 4 * variance
        assert min(squared_deviations(noisy - X, variance)) > ALPHA
        # Wrong by half in the cap, or in what is released.
        cap = mechanism._plan.cap
        cosine = 0.5 * cap.sampler.cosine
        wrong = replace(
            cap, sampler=replace(cap.sampler, cosine=cosine, gap=1 - cosine)
        )
        wrong = replace(mechanism._plan, cap=wrong).randomize(X, NoiseSource(1, 0))
        assert min(squared_deviations(wrong - X, variance)) < ALPHA
        assert min(squared_deviations(noisy / 2 - X, variance)) < ALPHA

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
            assert cap.epsilon <= epsilon
            assert 0 < cap.residual < epsilon / 2
            assert cap.residual < (3e-3 if dimension < 10**5 else 0.1)
            # The odds that are drawn are at most those of the design, and near them.
            odds = cap.sampler.weight / (2**62 - cap.sampler.weight)
            assert_allclose(math.log(odds), cap.design.log_odds, rtol=1e-9, atol=1e-15)
            assert cap.design.variance < previous
            previous = cap.design.variance

    def test_guarantee(self):
        X = np.zeros((3, 2, 2))
        guarantee = PrivUnit(2.0, bounds=(0, 1)).fit(X).privacy_guarantee_
        assert (guarantee.epsilon, guarantee.delta) == (2.0, 0.0)
        assert 1.99 < guarantee.event.epsilon <= 2.0
        assert (guarantee.unit, guarantee.relation) == ("sample", "replace-one")
        with pytest.warns(PrivacyLeakWarning, match="read off"):
            leaky = PrivUnit(2.0).fit(X).privacy_guarantee_
        assert leaky.epsilon == math.inf

    def test_infinite_epsilon_clips(self):
        X = np.array([[3.0, -4.0], [0.1, 0.1]])
        found = PrivUnit(math.inf, norm_bound=1.0).fit_transform(X)
        assert_allclose(found, [[0.6, -0.8], [0.1, 0.1]], rtol=1e-14)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"epsilon": 0}, "epsilon"),
            ({"epsilon": 1e-12, "bounds": (0, 1)}, "cannot be honoured"),
            ({"epsilon": 300.0, "bounds": (0, 1)}, "cannot be honoured"),
            ({"bounds": (1, 0)}, "low < high"),
            ({"bounds": (0, np.nan)}, "finite"),
            ({"bounds": (0, np.ones(5))}, "broadcast"),
            ({"bounds": (5, 6), "norm_bound": 1.0}, "no point in common"),
            ({"norm_bound": 0.0}, "norm_bound"),
            ({"tensor_shape": (5,), "bounds": (0, 1)}, "not tensors of shape"),
        ],
    )
    def test_what_fit_refuses(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            PrivUnit(**parameters).fit(np.zeros((3, 2, 2)))

    def test_what_transform_refuses(self):
        mechanism = PrivUnit(bounds=(0, 1)).fit(np.zeros((3, 2, 2)))
        for bad in (np.full((3, 2, 2), np.nan), np.full((3, 2, 2), np.inf)):
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                mechanism.transform(bad)
        with pytest.raises(ValueError, match=r"features|shape"):
            mechanism.transform(np.zeros((3, 2, 3)))
        assert mechanism._releases._count == 0


class TestRelease:
    def test_floats_are_functions_of_lattice_points(self):
        """Every bit of a release follows from whole numbers that tell nothing of u."""
        cap = calibrated_cap(7, 6.0)
        u = np.array([unit(7, seed) for seed in range(200)])
        points = cap.sampler.draw(u, NoiseSource(0, 0).stream(0))
        estimates = cap.estimates(u, NoiseSource(0, 0).stream(0))
        assert_array_equal(points, np.rint(points))
        lengths = np.sqrt(np.square(points).sum(axis=1, keepdims=True))
        assert_array_equal(estimates, points / (lengths * cap.design.scale))

    def test_any_input_is_lifted_to_the_sphere(self):
        X = np.array([[0, 0, 0], [1e-200, 0, 0], [1, 1, 1], [1e6, 0, -9], [0.5, 1, 0]])
        for domain in ({"bounds": (-1, 1)}, {"norm_bound": 1e-3}, {"norm_bound": 1e9}):
            plan = PrivUnit(**domain).fit(X)._plan
            part = plan.domain.segments(X)
            units = plan._lifted(plan.domain.clip(X, slice(None), part))
            assert_allclose(np.linalg.norm(units, axis=1), 1, rtol=1e-15)

    def test_types_shapes_and_memory(self):
        X = RNG.uniform(-1, 1, (20_000, 5, 10)).astype(np.float32)
        mechanism = PrivUnit(3.0, bounds=(-1, 1)).fit(X)
        tracemalloc.start()
        noisy = mechanism.transform(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (noisy.shape, noisy.dtype) == (X.shape, np.float32)
        # The output, and some arrays of a tile's size on each thread.
        assert peak < X.nbytes + 24 * 2**20

    def test_noise_depends_on_no_thread_and_differs(self, monkeypatch):
        X, outputs = np.zeros((3000, 100)), []
        for n_threads in (1, 2, 7):
            monkeypatch.setattr(THREADS, lambda n=n_threads: n)
            mechanism = PrivUnit(4.0, bounds=(-1, 1), random_state=1)
            outputs.append(mechanism.fit(X).transform(X))
            assert_array_equal(outputs[-1], outputs[0])
        assert len(np.unique(outputs[0][:, 0])) == len(X)
        assert np.all(mechanism.transform(X) != outputs[0])
