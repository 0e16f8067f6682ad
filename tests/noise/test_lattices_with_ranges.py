"""Lattices that begin and end with the values' ranges, for samples of many cells.

Statistical tests use fixed seeds. A false-alarm rate is the probability, over the
seeds, that a correct mechanism fails.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from sktensordp.noise import gaussian_lattice, laplace_lattice
from tests.support.points import POINTS, original
from tests.support.seams import _LEAST_STEPS, declared_set

SEEDS = pytest.mark.parametrize("seed", range(8))


def with_noise(noise, monkeypatch):
    """Put given variates in the place of the noise."""

    def given(size):
        return np.array(np.broadcast_to(np.ravel(noise), size))

    monkeypatch.setattr(
        *POINTS["normal noise of a lattice"], lambda bits, n, clip: given(n)
    )
    monkeypatch.setattr(
        *POINTS["Laplace noise of a lattice"], lambda bits, p, q, n: given(n)
    )


def random_ranges(rng):
    """Ends of the ranges of some cells, by each cell or one for all."""
    n = int(rng.integers(1, 9))
    low = rng.normal(size=n) * 10 ** rng.uniform(-2, 2, n)
    high = low + 10 ** rng.uniform(-2, 2, n)
    if rng.integers(2):
        return n, float(low[0]), float(high[0])
    return n, low, high


def random_gaussian(rng, fineness=20):
    n, low, high = random_ranges(rng)
    sigma = 10 ** rng.uniform(-5, 7, n if rng.integers(2) else None)
    lattice = gaussian_lattice(sigma, n, 1.0, 1e-6, low, high - low, fineness)
    return lattice, n, low, high


def index_of(lattice, values):
    return original("points of a lattice")(
        values, lattice.low, lattice.step, lattice.n_steps
    )


def steps_apart(lattice, first, second):
    apart = np.abs(index_of(lattice, first) - index_of(lattice, second))
    return apart.sum(axis=-1).max()


class TestGaussian:
    @SEEDS
    def test_ends_are_lattice_points(self, seed):
        rng = np.random.default_rng(seed)
        lattice, n, low, high = random_gaussian(rng)
        steps = np.broadcast_to(lattice.n_steps, n)
        values = rng.uniform(low - 9, np.add(high, 9), (50, n))
        values[0], values[1] = low, high
        index = index_of(lattice, values)
        assert_array_equal(index[:2], [np.zeros(n), steps])
        assert_array_equal(index, np.rint(index))
        assert_array_equal(steps, np.rint(steps))
        assert np.all((index >= 0) & (index <= steps))
        # As fine as was asked for, and no finer unless there are very few steps.
        width = np.broadcast_to(high - low, n)
        assert_allclose(lattice.step * steps, width, rtol=1e-15)
        power = 2.0 ** (np.floor(np.log2(lattice.sigma)) - 20)
        assert np.all(lattice.step <= power * (1 + 1e-15))
        assert np.all((width > (steps - 1) * power) | (steps == _LEAST_STEPS))
        assert steps.min() >= 1

    @SEEDS
    def test_outputs_tell_the_sum_alone(self, seed, monkeypatch):
        # Index i with noise k - i gives the same to the last bit, whatever i is.
        rng = np.random.default_rng(seed)
        lattice, n, low, _ = random_gaussian(rng)
        index = np.rint(rng.random((50, n)) * lattice.n_steps)
        values = low + lattice.step * index
        index = index_of(lattice, values)
        total = np.rint(np.max(lattice.n_steps) * rng.uniform(-2, 3, n))
        with_noise((total - index) * (lattice.step / lattice.sigma), monkeypatch)
        found = lattice.randomize(values, None)
        assert_array_equal(
            found, np.broadcast_to(total * lattice.step + low, found.shape)
        )

    @SEEDS
    @pytest.mark.parametrize("fineness", [8, 20, 26])
    def test_residual(self, seed, fineness):
        # Of the cell whose noise has most steps; epsilon = 1 and delta = 1e-6.
        lattice, n, *_ = random_gaussian(np.random.default_rng(seed), fineness)
        finest = float(np.max(lattice.sigma / lattice.step))
        assert 2.0**fineness <= finest * (1 + 1e-15)
        eta = 3 * 3.92 * 2.0 ** (math.floor(math.log2(finest)) - 51)
        log_delta = -400
        expected = n * eta**2 + eta * math.sqrt(-2 * n * log_delta)
        assert_allclose(lattice.residual_epsilon, expected, rtol=1e-12)
        clipped = 2 * n * norm.sf(lattice.clip)
        assert_allclose(clipped, math.exp(log_delta), rtol=1e-9)
        assert_allclose(lattice.residual_delta, 2 * clipped, rtol=1e-9)

    @pytest.mark.parametrize(
        ("width", "message"),
        [(wrong, "positive, finite width") for wrong in (0.0, -1.0, math.nan, math.inf)]
        + [(1e20, "too large for the noise"), (1e-16, "too small for the noise")],
    )
    def test_widths_that_are_refused(self, width, message):
        for widths in (width, np.array([1.0, width, 1.0])):
            with pytest.raises(ValueError, match=message):
                gaussian_lattice(1.0, 3, 1.0, 1e-6, 0.0, widths)
        for possible in (2.0**31, 1e-13):
            gaussian_lattice(1.0, 3, 1.0, 1e-6, 0.0, possible)

    def test_steps_that_overflow(self, stream):
        lattice = gaussian_lattice(1e-3, 2, 1.0, 1e-6)
        huge = lattice.randomize(np.array([1e306, -1e306]), stream(2))
        ends = np.array([2.0**52, -(2.0**52)]) * lattice.step
        assert_array_equal(huge, lattice.randomize(ends, stream(2)))


def random_laplace(rng, share=None):
    """A lattice whose l1 is so much of all ranges together, and its epsilon."""
    n, low, high = random_ranges(rng)
    epsilon = 10 ** rng.uniform(-3, 3)
    total = float(np.broadcast_to(high - low, n).sum())
    l1 = math.inf if share is None else share * total
    return laplace_lattice(low, high, epsilon, n_cells=n, l1=l1), n, low, high, epsilon


def assert_budget(lattice, epsilon):
    """No more than epsilon is spent, exactly, and hardly less."""
    realised = Fraction(lattice.l1_steps * lattice.numerator, lattice.denominator)
    assert Fraction(epsilon) * Fraction(999, 1000) < realised <= Fraction(epsilon)
    assert lattice.epsilon == pytest.approx(float(realised), rel=1e-15)


class TestLaplace:
    @SEEDS
    @pytest.mark.parametrize("share", [None, 2.0, 1 - 1e-9, 0.3, 1e-3])
    def test_budget_of_a_sample(self, seed, share):
        rng = np.random.default_rng(seed)
        lattice, n, low, high, epsilon = random_laplace(rng, share)
        assert_budget(lattice, epsilon)
        steps = np.broadcast_to(lattice.n_steps, n)
        width = np.broadcast_to(high - low, n)
        assert_array_equal(steps, np.ceil(width / lattice.step))
        if share is None or share > 0.9:
            assert lattice.l1_steps == steps.sum()
        # Pairs that differ by l1, or as much as the ranges allow.
        first = rng.uniform(low, high, (200, n))
        gap = rng.uniform(low, high, (200, n)) - first
        l1 = width.sum() * min(share or 2.0, 1.0)
        gap *= np.minimum(1, l1 / np.abs(gap).sum(axis=1))[:, np.newaxis]
        assert steps_apart(lattice, first, first + gap) <= lattice.l1_steps

    @pytest.mark.parametrize("n", [1, 5, 40, 1000])
    @pytest.mark.parametrize("epsilon", [1e-3, 1.0, 20.0])
    def test_rounding_adds_a_step_a_cell(self, n, epsilon):
        # Every cell goes from just below -1/2 to just above 1/2, modulo steps; what
        # is left of l1 goes to the first.
        lattice = laplace_lattice(-math.inf, math.inf, epsilon, n_cells=n, l1=3.0)
        assert lattice.n_steps is None
        budget = 3.0 / lattice.step
        assert n < 1e-3 * budget
        gap = np.full(n, 1 + 1e-9) + 2 * (budget / n // 2 - 1)
        gap[0] += math.floor(budget - gap.sum())
        assert budget - 1 <= gap.sum() <= budget
        half = gap * lattice.step / 2
        apart = steps_apart(lattice, -half, half)
        assert budget + n - 3 < apart <= lattice.l1_steps < budget + n + 2
        assert_budget(lattice, epsilon)

    def test_ranges_far_wider_than_the_ball(self):
        # Floats near the end of such a range are coarser than the step.
        low, n = -1e12, 3000
        gap = 0.501 * np.spacing(1e12)
        domain = declared_set((n,), bounds=(low, 1.0), norm_bound=gap * math.sqrt(n))
        lattice = laplace_lattice(domain.low, domain.high, 1.0, n_cells=n, l1=domain.l1)
        pair = np.array([np.full(n, gap), np.full(n, -gap)])
        pair = domain.clip(pair, slice(None), domain.segments(pair))
        assert steps_apart(lattice, *pair) <= lattice.l1_steps

    @pytest.mark.parametrize(
        ("low", "high", "l1", "match"),
        [([0, 0], [1, 0], 1.0, "low < high"), ([0, 2], [1, 1], 1.0, "low < high"),
         ([0, 0], [1, math.nan], 1.0, "low < high"), ([0, 0], [1, 2], 0.0, "too small"),
         (-math.inf, math.inf, math.inf, "too small"), ([0, 0], [1, 2], -1.0, "small"),
         ([0, 0], [1, math.inf], math.inf, "too small"), (0, 1e-320, 1e9, "too small"),
         ([0, 0], [1e-9, 1e9], 1e-9, "too small or too large")],
    )  # fmt: skip
    def test_impossible(self, low, high, l1, match):
        low, high = np.array(low, dtype=float), np.array(high, dtype=float)
        with pytest.raises(ValueError, match=match):
            laplace_lattice(low, high, 1.0, n_cells=2, l1=l1)


@SEEDS
@pytest.mark.parametrize("draw", [random_gaussian, random_laplace])
def test_values_without_noise(draw, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    lattice, n, low, high, *_ = draw(rng)
    values = rng.uniform(low, high, (50, n))
    values[0], values[1] = low, high
    with_noise(0.0, monkeypatch)
    found = lattice.randomize(values, None)
    rounding = 1e-15 * np.maximum(np.abs(low), np.abs(high))
    assert_array_equal(found[0], values[0])
    assert np.all(np.abs(found - values) <= 0.5 * lattice.step + rounding)
    if draw is random_gaussian:
        assert np.all(np.abs(found[1] - high) <= rounding)
    beyond = lattice.randomize(np.stack([values[0] - 1, values[1] + 1e9]), None)
    assert np.all(np.abs(beyond - values[:2]) <= lattice.step + rounding)
    for columns in (slice(0, 1), slice(n // 2, None)):
        part = lattice.randomize(values[:, columns], None, columns)
        assert_array_equal(part, found[:, columns])
