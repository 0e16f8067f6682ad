"""The mean of released samples: projected, clipped, and with an honest error.

Statistical tests use fixed seeds; a false-alarm rate is the probability, over the
seeds, that a correct estimate fails.
"""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, chi2

from sktensordp.mechanisms import (
    LaplaceMechanism,
    TensorRandomizedResponse,
    estimate_mean,
)
from tests.support.seams import mechanisms_mean

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
        found = estimate_mean(samples)
        assert found.mean.dtype == found.standard_error.dtype == np.float64
        assert_allclose(found.mean, samples.mean(axis=0, dtype=float))
        spread = samples.astype(float).std(axis=0, ddof=1)
        assert_allclose(found.standard_error, spread / math.sqrt(50))

    @pytest.mark.parametrize("chunk", [1, 40, 2**30])
    @pytest.mark.parametrize("symmetric", [False, True])
    def test_chunks_do_not_matter(self, monkeypatch, chunk, symmetric):
        samples = RNG.normal(size=(11, 3, 3))
        expected = estimate_mean(samples, symmetric=symmetric)
        monkeypatch.setattr(mechanisms_mean, "_CHUNK", chunk)
        found = estimate_mean(samples, symmetric=symmetric)
        assert_allclose(found.mean, expected.mean, rtol=1e-12)
        assert_allclose(found.standard_error, expected.standard_error, rtol=1e-12)

    def test_memory_is_that_of_a_chunk(self):
        samples = np.zeros((800, 16, 16, 16, 4), dtype=np.float32)
        tracemalloc.start()
        estimate_mean(samples, symmetric=(0, 1, 2))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * 8 * mechanisms_mean._CHUNK < samples.nbytes * 2


class TestProjection:
    @pytest.mark.parametrize(("shape", "symmetric", "axes"), SYMMETRIES)
    def test_of_every_sample(self, shape, symmetric, axes):
        samples = RNG.normal(size=(7, *shape))
        found, by_hand = (
            estimate_mean(samples, symmetric=symmetric),
            projected(samples, axes),
        )
        assert_allclose(found.mean, by_hand.mean(axis=0), rtol=0, atol=1e-14)
        error = by_hand.std(axis=0, ddof=1) / math.sqrt(7)
        assert_allclose(found.standard_error, error, rtol=1e-10)

    @pytest.mark.parametrize(("n", "n_modes"), [(7, 2), (3, 4)])
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
            found = estimate_mean(laplace.transform(X), symmetric=True)
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


def response():
    return TensorRandomizedResponse(
        8.0, delta=1e-5, bounds=(-1, 1), n_levels=3, random_state=0
    )


class TestStandardError:
    def test_covers_the_truth(self):
        """False alarms at 2e-6; half the standard error fails."""
        covered = {1.0: 0, 0.5: 0}
        samples, n_releases = np.tile(TENSOR, (2000, 1, 1, 1)), 25
        mechanism = response().fit(samples)
        for _ in range(n_releases):
            found = estimate_mean(mechanism.transform(samples))
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
        found = estimate_mean(mechanism.fit_transform(samples))
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
            plain, clipped = (
                estimate_mean(released),
                estimate_mean(released, bounds=(low, high)),
            )
            assert np.all(np.abs(clipped.mean - truth) <= np.abs(plain.mean - truth))
            assert_array_equal(clipped.standard_error, plain.standard_error)
            assert_array_equal(clipped.mean, np.clip(plain.mean, low, high))
            moved += np.any(clipped.mean != plain.mean)
        assert moved > 100

    def test_projected_before_it_is_clipped(self):
        released = np.array([[[0.0, 4.0], [-2.0, 0.0]]] * 2)
        high = np.array([[1.0, 0.5], [3.0, 1.0]])
        found = estimate_mean(released, symmetric=True, bounds=(-3, high)).mean
        assert_allclose(found, [[0, 0.5], [1, 0]])


SQUARE = np.zeros((2, 3, 3))
BAD = [
    (np.zeros((2, 3, 4)), {"symmetric": True}, r"\(0, 1\) of .* \(3, 4\) .* \[3, 4\]"),
    (np.zeros((2, 3, 4, 3)), {"symmetric": (0, 1)}, r"\(0, 1\) .* sizes \[3, 4\]"),
    *((SQUARE, {"symmetric": s}, "at least two different modes from 0 to 1")
      for s in [(0, 0), (0, 2), (-1, 0), (0,), (), 1, (0.0, 1), "ab", None]),
    *((SQUARE, {"bounds": b}, m) for b, m in [
        ((1, 0), "low < high in every entry"), ((0, np.nan), "finite"),
        ((0, np.ones(4)), "broadcast to the samples' shape"), (("a", "b"), "pair"),
        (3, "pair"),
    ]),
    (np.zeros((1, 3, 3)), {}, "minimum of 2"), (np.zeros(4), {}, "1D array"),
    (np.zeros((4, 3, 0)), {}, "has no entries"), ([[0j], [0]], {}, "Complex"),
    ([[0.0, np.nan], [0, 0]], {}, "NaN"), ([[np.inf], [0]], {}, "infinity"),
    ([["a", "b"], ["c", "d"]], {}, "must hold numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("released", "params", "message"), BAD)
def test_bad_input_is_refused(released, params, message):
    with pytest.raises(ValueError, match=message):
        estimate_mean(released, **params)


@pytest.mark.parametrize("size", [1e308, 1e160, 1e-160, 1e-300])
def test_numbers_whose_squares_are_none(size):
    found = estimate_mean(np.array([[1.0], [0.5], [-0.5]]) * size)
    expected = estimate_mean([[1.0], [0.5], [-0.5]])
    assert_allclose(found.mean / size, expected.mean, rtol=1e-14)
    assert_allclose(found.standard_error / size, expected.standard_error, rtol=1e-14)


@pytest.mark.parametrize("bounds", [(5, 6), (-3, -2), (2, 2.5)])
def test_bounds_that_cannot_be_those_of_the_samples_are_told(bounds):
    """Noise moves an entry that far with a probability below 1e-8."""
    released = RNG.normal(0.5, 1.0, size=(400, 9))
    with pytest.warns(UserWarning, match="outside of bounds by more than their errors"):
        estimate_mean(released, bounds=bounds)


def test_means_at_an_end_of_the_bounds_are_not_told():
    """Noise clips half of their entries; biased levels are never outside."""
    estimate_mean(RNG.normal(size=(400, 9)), bounds=(0, 4))
    estimate_mean(np.zeros((5, 9)), bounds=(0, 1))
    estimate_mean(np.ones((5, 9)), bounds=([0.0] * 5 + [2.0] * 4, 3))
