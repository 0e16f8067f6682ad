"""Laplace noise on a lattice: the budget exactly, and nothing in the low-order bits.

Statistical tests use fixed seeds. A false-alarm rate is the probability, over the
seeds, that a correct mechanism fails.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.noise import (
    discrete_laplace,
    discrete_laplace_variance,
    laplace_lattice,
)
from tests.support.goodness import chi_square
from tests.support.points import POINTS

RANGES = [(0, 1), (-1, 1), (0.1, 1.1), (-0.3, 0.9), (1, 5), (1e-12, 3e-12), (0, 1e12)]
FAR = (1e9, 1e9 + 1e-3)
PROPERTY = settings(max_examples=150, derandomize=True, database=None, deadline=None)

log_epsilon = st.floats(-6, 4)
log_width = st.floats(-12, 12)


def realised(lattice):
    return Fraction(lattice.n_steps * lattice.numerator, lattice.denominator)


def shifted_by(noise, monkeypatch):
    """Put the given indices in the place of the noise."""
    monkeypatch.setattr(
        *POINTS["Laplace noise of a lattice"],
        lambda bits, numerator, denominator, size: np.broadcast_to(noise, (size,)),
    )


class TestBudget:
    @PROPERTY
    @given(log_epsilon, log_width, st.floats(-1, 1), st.sampled_from([0, 1, 1e3, 1e12]))
    def test_never_above_and_close(self, log_epsilon, log_width, sign, distance):
        epsilon, low = 10**log_epsilon, sign * distance
        high = low + 10**log_width
        if not low < high:  # the width is lost in the distance from zero
            high = math.nextafter(low, math.inf)
        lattice = laplace_lattice(low, high, epsilon)
        assert realised(lattice) <= Fraction(epsilon)
        assert realised(lattice) >= Fraction(epsilon) * (1 - Fraction(1, 2**18))
        # What is stated is rounded up.
        assert realised(lattice) <= Fraction(lattice.epsilon) <= Fraction(epsilon)
        assert 0 < lattice.denominator < 2**50
        assert lattice.numerator >= 1
        assert lattice.low == low

    @PROPERTY
    @given(log_epsilon, log_width, st.floats(-1e3, 1e3))
    def test_step_and_variance(self, log_epsilon, log_width, low):
        epsilon, high = 10**log_epsilon, low + 10**log_width
        if not low < high:
            high = math.nextafter(low, math.inf)
        width = high - low
        lattice = laplace_lattice(low, high, epsilon)
        mantissa, _ = math.frexp(lattice.step)
        assert mantissa == 0.5  # a power of two
        scale = width / epsilon
        scale = min(scale, 2**10 * width)  # at least a thousand steps
        assert 2**20 * lattice.step <= scale < 2**21 * lattice.step
        # The lattice covers the range, by less than a step too much.
        covered = Fraction(lattice.n_steps) * Fraction(lattice.step)
        assert covered >= Fraction(width)
        assert covered - Fraction(lattice.step) < Fraction(width)
        ideal = 2 * (width / epsilon) ** 2
        excess = float(covered / Fraction(width))
        assert_allclose(lattice.noise_variance, ideal * excess**2, rtol=1e-5)
        assert_allclose(lattice.noise_variance, ideal, rtol=2.5e-3)

    @PROPERTY
    @given(log_epsilon, st.integers(2, 10_000), log_width)
    def test_levels(self, log_epsilon, n_steps, log_step):
        # The number of steps is that of the levels, in spite of rounding.
        epsilon, step = 10**log_epsilon, 10**log_step
        lattice = laplace_lattice(-3 * step, (n_steps - 3) * step, epsilon, step=step)
        assert lattice.step == step
        assert lattice.n_steps == n_steps
        assert Fraction(epsilon) * (1 - Fraction(1, 500)) < realised(lattice)
        assert realised(lattice) <= Fraction(epsilon)
        rate = epsilon / n_steps
        assert_allclose(lattice.rate, rate, rtol=1 / 500)
        if rate < 500:
            variance = discrete_laplace_variance(lattice.rate) * step**2
            assert lattice.noise_variance == variance

    @pytest.mark.parametrize("epsilon", [1e-9, 1e-12, 1e-300])
    @pytest.mark.parametrize("step", [None, 0.5])
    def test_too_small_budgets(self, epsilon, step):
        with pytest.raises(ValueError, match="too small"):
            laplace_lattice(0, 1, epsilon, step=step)


class TestLowOrderBits:
    @pytest.mark.parametrize(("low", "high"), [*RANGES[2:], FAR])
    @pytest.mark.parametrize("epsilon", [1e-6, 1])
    def test_support_is_the_same_for_every_input(self, low, high, epsilon, monkeypatch):
        # The output is a function of the sum of the index and the noise: where two
        # inputs are k steps apart, noise that is k larger gives the same output, to
        # the last bit. Hence no output tells more than the index with its noise.
        lattice = laplace_lattice(low, high, epsilon)
        rng = np.random.default_rng(1)
        scale = math.ceil(1 / lattice.rate)
        noise = rng.integers(-30 * scale, 30 * scale, 2000)
        x = rng.uniform(low, high, noise.size)
        ends = np.repeat([low, high], noise.size // 2)

        def index_of(values):
            exact = [
                (Fraction(value) - Fraction(low)) / Fraction(lattice.step)
                for value in values.tolist()
            ]
            return np.array([min(round(i), lattice.n_steps) for i in exact])

        outputs = []
        for values in (np.full(noise.size, float(low)), ends, x):
            shifted_by(noise - index_of(values), monkeypatch)
            outputs.append(lattice.randomize(values, None))
        assert_array_equal(outputs[0], low + lattice.step * noise)
        assert_array_equal(outputs[1], outputs[0])
        assert_array_equal(outputs[2], outputs[0])

    def test_far_from_zero(self, stream):
        # There floats are coarser than the step: the sum is rounded, but the result
        # still depends on the index with its noise alone, and is not biased.
        low, high = FAR
        width = high - low
        lattice = laplace_lattice(low, high, 1.0)
        assert lattice.step < np.spacing(low)
        n = 100_000
        for x, seed in ((low, 24), (high, 25)):  # false-alarm rate 1e-6 each
            y = lattice.randomize(np.full(n, x), stream(seed)) - low
            assert abs(y.mean() - (x - low)) < 4.9 * math.sqrt(2 / n) * width
            assert abs(y.var() - 2 * width**2) < 4.9 * math.sqrt(20 / n) * width**2


class TestNoise:
    @pytest.mark.parametrize("step", [None, 0.5, 1])
    def test_values_outside_are_clipped(self, step, stream):
        low, high = -2, 3
        lattice = laplace_lattice(low, high, 0.7, step=step)
        x = np.array([-2.0001, -100, -1e30, -math.inf, 3.0001, 100, 1e30, math.inf])
        y = lattice.randomize(x, stream(27))
        assert_array_equal(y, lattice.randomize(np.clip(x, low, high), stream(27)))
        assert np.isfinite(y).all()

    @pytest.mark.parametrize(
        ("low", "high", "step"), [(1, 5, 1), (0.5, 5, 0.5), (0, 10, 0.1), (-3, 4, 7)]
    )
    def test_levels(self, low, high, step, stream):
        # The noise is a multiple of the step with the law of the rate
        # epsilon / n_steps; false-alarm rate 1e-6 each.
        n, epsilon = 50_000, 4.0
        lattice = laplace_lattice(low, high, epsilon, step=step)
        n_steps = round((high - low) / step)
        assert lattice.n_steps == n_steps
        index = np.random.default_rng(3).integers(n_steps + 1, size=n)
        y = lattice.randomize(low + step * index, stream(28))
        noise = np.rint((y - low) / step).astype(int) - index
        assert_array_equal(low + step * (noise + index), y)
        limit = math.ceil(4 * n_steps / epsilon)
        cells = np.bincount(np.clip(noise, -limit, limit) + limit)
        weights = np.exp(-epsilon / n_steps * np.abs(np.arange(-limit, limit + 1)))
        weights[[0, -1]] /= -math.expm1(-epsilon / n_steps)
        assert chi_square(cells, weights / weights.sum()) > 1e-6
        weights = weights ** (2 / 3)
        assert chi_square(cells, weights / weights.sum()) < 1e-6


class TestPrivacy:
    @pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1, 8, 100])
    @pytest.mark.parametrize("step", [None, 1.0])
    def test_ratio_of_the_laws(self, epsilon, step):
        # log P(output k) under an input at index i is a constant - rate |k - i|.
        lattice = laplace_lattice(1, 5, epsilon, step=step)
        n, reach = lattice.n_steps, 10 * lattice.n_steps
        rate = Fraction(lattice.numerator, lattice.denominator)
        outputs = [round(k) for k in np.linspace(-reach, reach, 101)] + [0, n]
        for near, far in [(0, n), (n, 0), (0, n // 2), (n // 3, n)]:
            losses = [rate * (abs(k - far) - abs(k - near)) for k in outputs]
            assert max(losses) <= Fraction(epsilon)
        worst = max(rate * (abs(k - n) - abs(k)) for k in outputs)
        assert worst > Fraction(epsilon) * (1 - Fraction(1, 1000))

    def test_rate_reaches_the_sampler(self, stream):
        lattice = laplace_lattice(0, 6, 1.5, step=2)
        assert lattice.rate == 0.5
        noise = discrete_laplace(
            stream(31), lattice.numerator, lattice.denominator, 1000
        )
        y = lattice.randomize(np.zeros(1000), stream(31))
        assert_array_equal(y, 2 * noise)
