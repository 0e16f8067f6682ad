"""Gaussian noise on a lattice: law, residual, and nothing in the low-order bits.

Statistical tests use fixed seeds. A false-alarm rate is the probability, over the
seeds, that a correct mechanism fails; those of chi-square tests are asymptotic.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binomtest, norm

from sktensordp.noise import GaussianLattice, gaussian_lattice
from tests.support.goodness import chi_square
from tests.support.seams import noise_lattice

ALPHA = 1e-6
TAIL = 3.6541528853610088
M = 20  # the step is 2^-M of sigma, or up to half of that

# Cells of the standard normal law: 32 of equal probability, and the tails.
EDGES = np.sort([*norm.ppf(np.arange(1, 32) / 32), *(s * t for s in (-1, 1)
                for t in (2.5, 3, 3.4, TAIL, 3.9, 4.3))])  # fmt: skip
CELLS = np.diff([0, *norm.cdf(EDGES), 1])


def relative_error_of_sampler(m=M):
    return 3 * 3.92 * 2.0 ** (m - 51)


def e1_of(n_cells, log_delta1):
    eta = relative_error_of_sampler()
    return n_cells * eta**2 + eta * math.sqrt(-2 * n_cells * log_delta1)


def counts_of(normal):
    return np.bincount(np.searchsorted(EDGES, normal), minlength=len(CELLS))


def with_given_normals(normal, monkeypatch):
    """Put the given variates in the place of NumPy's normals."""

    class Given:
        def __init__(self, bits):
            pass

        def standard_normal(self, size):
            assert size == len(normal)
            return normal.copy()

    monkeypatch.setattr(np.random, "Generator", Given)


class TestCalibration:
    @pytest.mark.thorough
    @settings(max_examples=200, derandomize=True, database=None, deadline=None)
    @given(st.floats(1e-200, 1e200))
    def test_step(self, sigma):
        lattice = gaussian_lattice(sigma, 10, 1.0, 1e-6)
        assert lattice.sigma == sigma
        assert math.frexp(lattice.step)[0] == 0.5  # a power of two
        assert lattice.step * 2**M <= sigma < lattice.step * 2 ** (M + 1)

    @pytest.mark.parametrize("n_cells", [1, 10**4, 10**8])
    @pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-12), (50, 1e-6)])
    def test_residual(self, n_cells, epsilon, delta):
        lattice = gaussian_lattice(0.3, n_cells, epsilon, delta)
        e1 = lattice.residual_epsilon
        # What is clipped, counted from the lattice's own `clip`, and what is left is
        # the sampler's share, from which e1 must follow by the formula.
        clipped = 2 * n_cells * norm.sf(lattice.clip)
        share = lattice.residual_delta - clipped
        assert 0 < clipped < lattice.residual_delta
        assert_allclose(e1, e1_of(n_cells, math.log(share)), rtol=1e-10)
        assert_allclose(share, clipped, rtol=1e-6)
        assert_allclose(math.log(share), -400, rtol=1e-9)
        # Beside the guarantee, all of it together is negligible.
        total = math.exp(e1) * delta + lattice.residual_delta * (
            1 + math.exp(epsilon + e1)
        )
        assert lattice.residual_delta * (1 + math.exp(epsilon + e1)) < 1e-12 * delta
        assert total < delta * (1 + 1.1e-3 * max(1, n_cells / 1e7) ** 0.5)
        assert 0 < e1 < 1e-3 * max(1, n_cells / 1e7) ** 0.5

    @pytest.mark.parametrize("epsilon", [1, 300, 600])
    def test_smallest_delta(self, epsilon):
        log_smallest = epsilon - 700 + 30
        lattice = gaussian_lattice(1.0, 10, epsilon, math.exp(log_smallest + 0.1))
        assert 0 < lattice.residual_delta < 1e-299
        assert 30 < lattice.clip < 40
        with pytest.raises(ValueError, match="too small"):
            gaussian_lattice(1.0, 10, epsilon, math.exp(log_smallest - 0.1))

    def test_wrong_numbers(self):
        for wrong in (0, -1e-6, math.nan):
            with pytest.raises(ValueError, match="delta"):
                gaussian_lattice(1.0, 10, 1.0, wrong)
            with pytest.raises(ValueError, match="epsilon"):
                gaussian_lattice(1.0, 10, wrong, 1e-6)
            with pytest.raises(ValueError, match="sigma"):
                gaussian_lattice(wrong, 10, 1.0, 1e-6)

    def test_l2_sensitivity(self, stream):
        lattice = gaussian_lattice(1.3, 10, 1.0, 1e-6)
        assert lattice.l2_sensitivity(2.5, 0) == 2.5
        assert lattice.l2_sensitivity(2.5, 49) == 2.5 + 7 * lattice.step
        # It bounds the distance of rounded values: half a step at either end.
        rng = np.random.default_rng(0)
        x, change = rng.normal(size=(2, 1000, 16)) * 10 * lattice.step
        rounded = np.rint((x + change) / lattice.step) - np.rint(x / lattice.step)
        distance = np.linalg.norm(rounded * lattice.step, axis=1)
        before = np.linalg.norm(change, axis=1)
        bound = [lattice.l2_sensitivity(b, 16) for b in before]
        assert (distance <= bound).all()
        assert (distance > before).any()


class TestNoise:
    @pytest.mark.parametrize("sigma", [1e-9, 1.0, 1.999])
    def test_law(self, sigma, stream):
        # False-alarm rate 1e-6 each; two thirds, three halves and 1.01 of sigma are
        # rejected by the same statistic.
        lattice = gaussian_lattice(sigma, 2**20, 1.0, 1e-6)
        x = np.random.default_rng(0).uniform(-5, 5, 2**20) * sigma
        error = (lattice.randomize(x, stream(40)) - x) / sigma
        assert chi_square(counts_of(error), CELLS) > ALPHA
        for wrong in (2 / 3, 3 / 2, 1.01):
            assert chi_square(counts_of(error * wrong), CELLS) < ALPHA

    @pytest.mark.parametrize("sign", [-1, 1])
    def test_tail_alone(self, sign, stream, monkeypatch):
        # Every variate is drawn again: the law beyond the ziggurat, with 2200
        # expected beyond 5 and 7.6 beyond 6. False-alarm rate 1e-6 each.
        n = 10**6
        bits = stream(42)
        with_given_normals(np.full(n, sign * 3.7), monkeypatch)
        tail = sign * noise_lattice._dense_normal(bits, n)
        assert tail.min() >= TAIL
        levels = np.append(np.arange(1, 32) / 32, [1e-2, 3e-3, 1e-3, 1e-4])
        edges = norm.isf(np.sort(levels)[::-1] * norm.sf(TAIL))
        shares = -np.diff([1, *(norm.sf(edges) / norm.sf(TAIL)), 0])
        counts = np.bincount(np.searchsorted(edges, tail), minlength=len(shares))
        assert chi_square(counts, shares) > ALPHA
        for limit in (5, 6):
            share = norm.sf(limit) / norm.sf(TAIL)
            count = int((tail > limit).sum())
            assert binomtest(count, n, share).pvalue > ALPHA
        wrong = TAIL + (tail - TAIL) * 0.97
        counts = np.bincount(np.searchsorted(edges, wrong), minlength=len(shares))
        assert chi_square(counts, shares) < ALPHA

    def test_the_tail_alone_is_drawn_again(self, stream, monkeypatch):
        normal = np.array([0.0, 3.7, -TAIL, -4.0, TAIL, 3.6, 5.0, -3.0])
        bits = stream(43)
        with_given_normals(normal, monkeypatch)
        drawn = noise_lattice._dense_normal(bits, len(normal))
        again = np.abs(normal) > TAIL
        assert_array_equal(drawn[~again], normal[~again])
        assert (drawn[again] != normal[again]).all()
        assert_array_equal(np.sign(drawn), np.sign(normal))

    @pytest.mark.parametrize("sigma", [1e-9, 0.3, 1.3, 1e6])
    def test_outputs_are_multiples_of_the_step(self, sigma, stream):
        lattice = gaussian_lattice(sigma, 10**5, 1.0, 1e-6)
        x = np.random.default_rng(1).normal(size=10**5) * 3 * sigma
        index = lattice.randomize(x, stream(45)) / lattice.step
        assert_array_equal(index, np.rint(index))
        assert len(np.unique(index % 1024)) == 1024  # all residues occur
        naive = (x + sigma * np.random.Generator(stream(45)).normal(size=x.size)) / (
            lattice.step
        )
        assert np.mean(naive == np.rint(naive)) < 0.01

    @pytest.mark.parametrize("sigma", [0.3, 1.3, 64.0])
    def test_sum_is_exact(self, sigma, stream):
        # The output is the rounded value plus noise that is that of the position,
        # to the last bit: the same for every value.
        lattice = gaussian_lattice(sigma, 10**4, 1.0, 1e-6)
        noise = lattice.randomize(np.zeros(10**4), stream(46)) / lattice.step
        for scale in (1, 1e3, 1e6):
            x = np.random.default_rng(2).normal(size=10**4) * scale * sigma
            index = lattice.randomize(x, stream(46)) / lattice.step
            assert_array_equal(index - np.rint(x / lattice.step), noise)

    @pytest.mark.parametrize(("sigma", "clip"), [(1.0, 0.5), (1.3, 2.1)])
    def test_clipping(self, sigma, clip, stream):
        # False-alarm rate 1e-6 each: the mass at either end is that of the tail.
        n = 10**5
        lattice = GaussianLattice(sigma, 2.0**-20, clip, 0.0, 0.0)
        y = lattice.randomize(np.zeros(n), stream(50))
        end = np.rint(clip * sigma * 2**20) / 2**20
        assert y.max() == end
        assert y.min() == -end
        tail = norm.sf(clip)
        for at in (end, -end):
            assert binomtest(int((y == at).sum()), n, tail).pvalue > ALPHA
        # Values are not clipped, the noise is.
        far = lattice.randomize(np.full(n, 100.0), stream(50))
        assert_array_equal(far, y + 100)

    @pytest.mark.parametrize("sign", [-1, 1])
    def test_largest_values(self, sign, stream):
        lattice = gaussian_lattice(1.0, 10, 1.0, 1e-6)
        limit = math.floor(lattice.clip / lattice.step)
        largest = min(2**52, 2**53 - 1 - limit) * lattice.step
        y = lattice.randomize(np.full(1000, sign * largest), stream(51))
        noise = lattice.randomize(np.zeros(1000), stream(51))
        assert_array_equal(y - sign * largest, noise)

    def test_values_beyond_exact_sums_are_moved_to_the_end(self, stream):
        lattice = gaussian_lattice(1.0, 10, 1.0, 1e-6)
        end = 2.0**52 * lattice.step
        for sign in (-1, 1):
            for value in (end, 2 * end, 1e300, math.inf):
                y = lattice.randomize(np.full(1000, sign * value), stream(51))
                assert_array_equal(
                    y, lattice.randomize(np.full(1000, sign * end), stream(51))
                )

    def test_nan_is_refused(self, stream):
        lattice = gaussian_lattice(1.0, 10, 1.0, 1e-6)
        with pytest.raises(ValueError, match="NaN"):
            lattice.randomize(np.array([0.0, math.nan]), stream(0))


class TestDenseUniform:
    def test_exponents(self, stream):
        # P(U < 2^-k) = 2^-k. False-alarm rate 1e-6 each.
        n = 10**6
        uniform = noise_lattice._dense_uniform(stream(53), n)
        assert 0 < uniform.min() < uniform.max() <= 1
        for k in range(1, 13):
            assert binomtest(int((uniform < 2.0**-k).sum()), n, 2.0**-k).pvalue > ALPHA
        exponents = -np.frexp(uniform)[1]
        shares = 0.5 ** np.arange(1, 25)
        shares[-1] *= 2
        counts = np.bincount(np.minimum(exponents, 23), minlength=24)
        assert chi_square(counts, shares) > ALPHA

    @pytest.mark.parametrize(
        ("word", "exponent"), [(2**63, 0), (2**64 - 1, 0), (2**62, 1), (2**11, 52)]
    )
    @pytest.mark.parametrize("n_zeros", [0, 1, 2, 10, 18])
    def test_zero_words(self, word, exponent, n_zeros, scripted):
        # Every zero word is 53 more binary places.
        bits = scripted([2**62, *[0] * n_zeros, word])
        uniform = noise_lattice._dense_uniform(bits, 1)
        assert bits.exhausted
        assert_array_equal(np.frexp(uniform)[1], [-(exponent + 53 * n_zeros)])
        assert uniform > 0

    def test_all_bits_count(self, scripted):
        words = [k << 12 for k in (0, 1, 2, 3, 4, 5, 2**52 - 2, 2**52 - 1)]
        bits = scripted(words + [2**64 - 1] * len(words))
        assert (np.diff(noise_lattice._dense_uniform(bits, len(words))) > 0).all()
