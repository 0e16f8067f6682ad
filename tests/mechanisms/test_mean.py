"""The mean of released samples: projected, clipped, and with an honest error.

Statistical tests use fixed seeds; a false-alarm rate is the probability, over the
seeds, that a correct estimate fails.
"""

import dataclasses
import itertools
import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, chi2

from sktensordp.mechanisms import LaplaceMechanism, TensorRandomizedResponse
from sktensordp.mechanisms import _mean as module
from sktensordp.mechanisms._mean import mean

ALPHA = 1e-6
RNG = np.random.default_rng(0)
# Shape of a sample, what `symmetric` is, and the axes of the samples it permutes.
SYMMETRIES = [
    ((5,), True, (1,)),
    ((4, 4), True, (1, 2)),
    ((3, 3, 3), True, (1, 2, 3)),
    ((2, 2, 2, 2), True, (1, 2, 3, 4)),
    ((2,) * 5, True, (1, 2, 3, 4, 5)),
    ((3, 4, 3), (0, 2), (1, 3)),
    ((2, 3, 3, 5, 3), (4, 1, 2), (2, 3, 5)),
    ((3, 3, 3), (1, 2), (2, 3)),
]


def projected(samples, axes):
    """Average over all permutations of some axes, one by one."""
    orders = []
    for permuted in itertools.permutations(axes):
        order = list(range(samples.ndim))
        for axis, other in zip(axes, permuted, strict=True):
            order[axis] = other
        orders.append(samples.transpose(order))
    return sum(orders) / len(orders)


class TestMoments:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
    def test_plain(self, dtype):
        samples = (100 * RNG.normal(size=(50, 3, 4))).astype(dtype)
        found = mean(samples)
        assert found.mean.dtype == found.standard_error.dtype == np.float64
        assert_allclose(found.mean, samples.mean(axis=0, dtype=float))
        spread = samples.astype(float).std(axis=0, ddof=1)
        assert_allclose(found.standard_error, spread / math.sqrt(50))

    def test_frozen(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            mean(np.eye(2)).mean = 0

    def test_frames_and_lists(self):
        rows = [[1.0, 2.0], [3.0, 6.0], [5.0, 1.0]]
        for released in (rows, pd.DataFrame(rows, columns=["a", "b"])):
            assert_allclose(mean(released).mean, [3, 3])

    def test_float32_is_summed_in_float64(self):
        samples = np.full((70_000, 2, 2), 0.1, dtype=np.float32)
        found = mean(samples)
        assert_allclose(found.mean, np.float64(np.float32(0.1)), rtol=1e-12)
        assert_allclose(found.standard_error, 0, atol=1e-15)

    def test_far_from_zero(self):
        samples = 1e9 + RNG.normal(size=(3000, 2, 2))
        found = mean(samples)
        around = (samples - 1e9).std(axis=0, ddof=1) / math.sqrt(3000)
        assert_allclose(found.standard_error, around, rtol=1e-6)

    @pytest.mark.parametrize("chunk", [1, 40, 2**30])
    @pytest.mark.parametrize("symmetric", [False, True])
    def test_chunks_do_not_matter(self, monkeypatch, chunk, symmetric):
        samples = RNG.normal(size=(11, 3, 3))
        expected = mean(samples, symmetric=symmetric)
        monkeypatch.setattr(module, "_CHUNK", chunk)
        found = mean(samples, symmetric=symmetric)
        assert_allclose(found.mean, expected.mean, rtol=1e-12)
        assert_allclose(found.standard_error, expected.standard_error, rtol=1e-12)

    def test_memory_is_that_of_a_chunk(self):
        samples = np.zeros((800, 16, 16, 16, 4), dtype=np.float32)
        tracemalloc.start()
        mean(samples, symmetric=(0, 1, 2))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * 8 * module._CHUNK < samples.nbytes * 2

    def test_the_samples_stay(self):
        samples = RNG.normal(size=(4, 3, 3))
        before = samples.copy()
        mean(samples, symmetric=True, bounds=(0, 0.1))
        assert_array_equal(samples, before)


class TestProjection:
    @pytest.mark.parametrize(("shape", "symmetric", "axes"), SYMMETRIES)
    def test_of_every_sample(self, shape, symmetric, axes):
        samples = RNG.normal(size=(7, *shape))
        found, by_hand = mean(samples, symmetric=symmetric), projected(samples, axes)
        assert_allclose(found.mean, by_hand.mean(axis=0), rtol=0, atol=1e-14)
        error = by_hand.std(axis=0, ddof=1) / math.sqrt(7)
        assert_allclose(found.standard_error, error, rtol=1e-10)

    @pytest.mark.parametrize(("shape", "symmetric", "axes"), SYMMETRIES)
    def test_is_an_orthogonal_projection(self, shape, symmetric, axes):
        def projection(tensor):
            return mean(np.stack([tensor, tensor]), symmetric=symmetric).mean

        one, other = RNG.normal(size=(2, *shape))
        image = projection(one)
        assert_allclose(projection(image), image, rtol=0, atol=1e-14)
        for axis, last in itertools.pairwise(axes):
            swapped = image.swapaxes(axis - 1, last - 1)
            assert_allclose(swapped, image, rtol=0, atol=1e-14)
        products = np.sum(image * other), np.sum(one * projection(other))
        assert_allclose(*products, rtol=0, atol=1e-12)

    @pytest.mark.parametrize(("n", "n_modes"), [(7, 2), (5, 3), (3, 4)])
    def test_what_is_left_of_the_error(self, n, n_modes):
        """False alarms at 2e-6 a case."""
        n_samples, size = 400, n**n_modes
        X = np.full((n_samples, *[n] * n_modes), 0.5)
        laplace = LaplaceMechanism(float(size), bounds=(0, 1), random_state=3).fit(X)
        n_free = math.comb(n + n_modes - 1, n_modes)
        variance = laplace.noise_variance_ / n_samples
        # Of i.i.d. noise every orbit keeps its variance once, whatever its size.
        total, n_releases = 0.0, 30
        for _ in range(n_releases):
            found = mean(laplace.transform(X), symmetric=True)
            total += np.sum((found.mean - 0.5) ** 2)
        ratio = total / (n_releases * variance)
        limits = chi2.ppf([ALPHA, 1 - ALPHA], n_releases * n_free) / n_releases
        assert limits[0] < ratio < limits[1]
        expected = laplace.expected_squared_error_ / n_samples * n_free / size
        assert_allclose(variance * n_free, expected)
        # Without the projection, and with one on two modes alone of three or four:
        assert size > limits[1]
        if n_modes > 2:
            assert math.comb(n + 1, 2) * n ** (n_modes - 2) > limits[1]


TENSOR = np.linspace(-1, 1, 60).reshape(3, 4, 5)


def response(seed=0):
    return TensorRandomizedResponse(
        8.0, delta=1e-5, bounds=(-1, 1), n_levels=3, random_state=seed
    )


class TestStandardError:
    def test_covers_the_truth(self):
        """False alarms at 2e-6; half the standard error fails."""
        covered = {1.0: 0, 0.5: 0}
        samples, n_releases = np.tile(TENSOR, (2000, 1, 1, 1)), 25
        for seed in range(n_releases):
            found = mean(response(seed).fit_transform(samples))
            away = np.abs(found.mean - TENSOR)
            for factor in covered:
                reach = 1.959964 * factor * found.standard_error
                covered[factor] += np.count_nonzero(away <= reach)
        n_trials = TENSOR.size * n_releases
        low, high = binom.ppf([ALPHA, 1 - ALPHA], n_trials, 0.95)
        assert low <= covered[1.0] <= high
        assert covered[0.5] < low

    def test_is_what_the_mechanism_states(self):
        """False alarms below 1e-6: the sum of 60 variances is known to 1%."""
        samples = np.tile(TENSOR, (20_000, 1, 1, 1))
        mechanism = response()
        found = mean(mechanism.fit_transform(samples))
        stated = np.sum(mechanism.variance(TENSOR[np.newaxis])) / len(samples)
        assert_allclose(np.sum(found.standard_error**2), stated, rtol=0.01)


class TestClipping:
    def test_never_farther_from_the_domain(self):
        low = RNG.uniform(-1, 0, size=(3, 4))
        high = low + RNG.uniform(0.1, 1, size=(3, 4))
        moved = 0
        for _ in range(200):
            truth = RNG.uniform(low, high)
            released = truth + RNG.normal(size=(5, 3, 4))
            plain, clipped = mean(released), mean(released, bounds=(low, high))
            assert np.all(np.abs(clipped.mean - truth) <= np.abs(plain.mean - truth))
            assert_array_equal(clipped.standard_error, plain.standard_error)
            assert_array_equal(clipped.mean, np.clip(plain.mean, low, high))
            moved += np.any(clipped.mean != plain.mean)
        assert moved > 100

    def test_numbers_and_what_broadcasts(self):
        released = np.array([[[-5.0, 0.2], [0.4, 5.0]]] * 2)
        assert_allclose(mean(released, bounds=(0, 1)).mean, [[0, 0.2], [0.4, 1]])
        found = mean(released, bounds=(0, [1, 2])).mean
        assert_allclose(found, [[0, 0.2], [0.4, 2]])

    def test_projected_before_it_is_clipped(self):
        released = np.array([[[0.0, 4.0], [-2.0, 0.0]]] * 2)
        high = np.array([[1.0, 0.5], [3.0, 1.0]])
        found = mean(released, symmetric=True, bounds=(-3, high)).mean
        assert_allclose(found, [[0, 0.5], [1, 0]])


class TestBadInput:
    @pytest.mark.parametrize(
        ("shape", "symmetric", "message"),
        [
            ((3, 4), True, r"modes \(0, 1\) of samples of shape \(3, 4\) .* \[3, 4\]"),
            ((3, 4, 3), (0, 1), r"\(0, 1\) .* have the sizes \[3, 4\]"),
            ((3, 3), (0, 0), "two or more different modes from 0 to 1"),
            ((3, 3), (0, 2), "two or more different modes from 0 to 1"),
            ((3, 3), (-1, 0), "two or more different modes"),
            ((3, 3), (0,), "two or more different modes"),
            ((3, 3), (), "two or more different modes"),
            ((3, 3), 1, "two or more different modes .* got 1"),
            ((3, 3), (0.0, 1), "two or more different modes"),
            ((3, 3), "ab", "two or more different modes"),
            ((3, 3), None, "two or more different modes .* got None"),
        ],
    )
    def test_symmetry(self, shape, symmetric, message):
        with pytest.raises(ValueError, match=message):
            mean(np.zeros((2, *shape)), symmetric=symmetric)

    @pytest.mark.parametrize(
        ("bounds", "message"),
        [
            ((1, 0), "low < high in every entry"),
            ((0, np.inf), "finite"),
            ((0, np.nan), "finite"),
            ((0, [[1, 1], [1, 0]]), "low < high"),
            ((0, np.ones(3)), "broadcast to the samples' shape"),
            (3, "pair"),
            (("a", "b"), "pair"),
        ],
    )
    def test_bounds(self, bounds, message):
        with pytest.raises(ValueError, match=message):
            mean(np.zeros((2, 2, 2)), bounds=bounds)

    @pytest.mark.parametrize(
        ("released", "message"),
        [
            (np.zeros((1, 3, 3)), "minimum of 2"),
            (np.zeros((0, 3, 3)), "minimum of 2"),
            (np.zeros((4, 3, 0)), "without entries"),
            (np.zeros(4), "1D array"),
            (np.array([[0.0, np.nan], [0, 0]]), "NaN"),
            (np.array([[0.0, np.inf], [0, 0]]), "infinity"),
            (np.array([[0j, 1], [0, 0]]), "Complex"),
            ([["a", "b"], ["c", "d"]], "must hold numbers"),
        ],
    )
    def test_released(self, released, message):
        with pytest.raises(ValueError, match=message):
            mean(released)


@pytest.mark.parametrize("size", [1e308, 1e160, 1e-160, 1e-300])
def test_numbers_whose_squares_are_none(size):
    found = mean(np.array([[1.0], [0.5], [-0.5]]) * size)
    expected = mean([[1.0], [0.5], [-0.5]])
    assert_allclose(found.mean / size, expected.mean, rtol=1e-14)
    assert_allclose(found.standard_error / size, expected.standard_error, rtol=1e-14)
