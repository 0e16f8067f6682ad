"""Exact discrete samplers.

Statistical tests use fixed seeds. A false-alarm rate is the probability, over the
seeds, that a correct sampler fails; those of chi-square tests are asymptotic.
"""

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from sktensordp.noise import (
    categorical,
    discrete_gaussian,
    discrete_laplace,
    discrete_laplace_variance,
    permute_and_flip,
)
from tests.support.goodness import chi_square
from tests.support.points import POINTS, original
from tests.support.seams import noise_discrete
from tests.support.selection import law

N = 2**17
ALPHA = 1e-6
Z_ALPHA = 4.9  # a normal variate is further from 0 than this with probability 1e-6

RATES = [(1, 10**6), (1, 2**20), (3, 1000), (1, 7), (1, 1), (5, 2), (5, 1), (8, 1)]


def tail(k, rate):
    """P(noise > k) for integers k >= 0."""
    return np.exp(-rate * (np.asarray(k) + 1.0)) / (1 + math.exp(-rate))


def cells(rate):
    """Integers that part the line into cells, and the exact cell probabilities."""
    levels = np.concatenate([np.arange(1, 16) / 32, [0.02, 0.01, 0.003, 0.001]])
    cuts = -np.log(levels * (1 + math.exp(-rate))) / rate - 1
    cuts = np.unique(np.maximum(np.floor(cuts), 0).astype(np.int64))
    upper = tail(cuts, rate)
    edges = np.concatenate([-cuts[::-1] - 1, cuts])
    below = np.concatenate([[0.0], upper[::-1], 1 - upper, [1.0]])
    return edges, np.diff(below)


def p_value(noise, rate):
    edges, probabilities = cells(rate)
    cell = np.searchsorted(edges, noise)
    return chi_square(np.bincount(cell, minlength=len(probabilities)), probabilities)


class TestBelow:
    @pytest.mark.parametrize(
        "bound",
        [3, 5, 6, 7, 10, 1000, 2**50 - 1, 3 * 2**49, 2**63 - 25, 2**63 + 1, 2**64 - 1],
    )
    def test_exactly_the_incomplete_cycle_is_rejected(self, bound, scripted):
        # All words below `complete` are taken and all others are not, so that each
        # residue has exactly complete / bound words.
        complete = 2**64 // bound * bound
        taken = [0, 1, bound - 1, bound % complete, complete // 2, complete - 1]
        bits = scripted(taken)
        draws = original("uniform draws")(bits, bound, len(taken))
        assert draws.dtype == np.uint64
        assert draws.tolist() == [word % bound for word in taken]
        for word in {complete, (complete + 2**64) // 2, 2**64 - 1}:
            bits = scripted([word, word, 1])
            assert original("uniform draws")(bits, bound, 1).tolist() == [1 % bound]
            assert bits.n_used == 3

    @pytest.mark.parametrize("bound", [1, 2, 16, 2**50, 2**62, 2**63])
    def test_powers_of_two_reject_nothing(self, bound, scripted):
        words = [0, 1, bound - 1, bound, 2**63 - 1, 2**63, 2**64 - 1]
        bits = scripted(words)
        draws = original("uniform draws")(bits, bound, len(words))
        assert draws.tolist() == [word % bound for word in words]
        assert bits.exhausted

    def test_rejected_elements_alone_are_drawn_again(self, scripted):
        bound, reject = 2**63 + 1, 2**64 - 1
        words = [reject, 10, reject, reject, 20, 30, reject, 40, reject, 50]
        bits = scripted(words)
        draws = original("uniform draws")(bits, bound, 5)
        assert draws.tolist() == [30, 10, 50, 40, 20]
        assert bits.exhausted


def draw_every_path(monkeypatch, bounds, numerator):
    """Draw all sequences of integers below the bounds, each once, then the largest.

    A path ends where a draw is not below the numerator. Returns a list of the bounds
    that are asked for.
    """
    path, asked = np.arange(math.prod(bounds)), []
    running = path

    def all_draws(bits, bound, size):
        nonlocal running
        assert size == len(running)
        asked.append(bound)
        if len(asked) > len(bounds):
            draws = np.full(size, bound - 1)
        else:
            draws = path[running] // math.prod(bounds[: len(asked) - 1]) % bound
        running = running[draws < numerator]
        return draws.astype(np.uint64)

    monkeypatch.setattr(*POINTS["uniform draws"], all_draws)
    return asked


def heads_of(numerator, denominator, total, depth):
    """How many of all paths end in heads, of Bernoulli(exp(-ratio)) up to a depth."""
    return sum(
        (-1) ** j * numerator**j * total // (denominator**j * math.factorial(j))
        for j in range(depth + 1)
    )


class TestBernoulliExp:
    @pytest.mark.parametrize(
        ("numerator", "denominator"),
        [(n, d) for d in (1, 2, 3) for n in range(d + 1)] + [(4, 5), (1, 6)],
    )
    def test_every_path(self, numerator, denominator, monkeypatch):
        # All sequences of the first `depth` draws, each once; what is undecided
        # then is stopped. The number of successes exceeds j with probability
        # g^(j+1) / (j+1)!, exactly, so that the count of heads is an integer known
        # in advance: there is no tolerance.
        depth = {1: 6, 2: 5, 3: 4}.get(denominator, 3)
        bounds = [denominator * k for k in range(1, depth + 1)]
        total = math.prod(bounds)
        asked = draw_every_path(monkeypatch, bounds, numerator)
        heads = noise_discrete._bernoulli_exp(
            None, np.full(total, numerator, dtype=np.uint64), denominator
        )
        if numerator == denominator == 1:
            # The first draw, below 1, always succeeds; a last one is below depth + 1.
            assert asked[: depth + 1] == [*bounds, depth + 1]
        assert asked[:depth] == bounds[: len(asked)]
        assert heads.sum() == heads_of(numerator, denominator, total, depth)


class TestDiscreteLaplace:
    @pytest.mark.parametrize(("numerator", "denominator"), RATES)
    def test_law(self, numerator, denominator, stream):
        # False-alarm rate 1e-6 each.
        noise = discrete_laplace(stream(3), numerator, denominator, N)
        assert noise.dtype == np.int64
        assert noise.shape == (N,)
        assert p_value(noise, numerator / denominator) > ALPHA
        if numerator <= denominator:
            assert p_value(noise, 1.05 * numerator / denominator) < ALPHA

    @pytest.mark.parametrize(
        ("numerator", "denominator"), [(1, 1), (20, 1), (1, 8), (5, 8), (3, 1000)]
    )
    @pytest.mark.parametrize("v", [0, 1, 19, 20, 41])
    @pytest.mark.parametrize("negative", [False, True])
    def test_scripted_words(self, numerator, denominator, v, negative, scripted):
        # One candidate is x = u + denominator * v, and the magnitude x // numerator.
        # The scripts follow Algorithms 1 and 2 draw by draw.
        for u in {0, 1 % denominator, denominator // 2, denominator - 1}:
            kept = [u, denominator - 1]
            count_v = [0, 0, 1] * v + [0, 1]
            bits = scripted([*kept, *count_v, negative])
            found, signs = noise_discrete._by_rejection(bits, numerator, denominator, 1)
            assert found.tolist() == [(u + denominator * v) // numerator]
            assert signs.tolist() == [negative]
            assert bits.exhausted

    def test_scripted_rejection(self, scripted):
        # u = 3 of 8 is dropped by Bernoulli(exp(-3/8)); the next candidate is kept.
        bits = scripted([3, 0, 8, 5, 7, 0, 1, 1])
        found, signs = noise_discrete._by_rejection(bits, 1, 8, 1)
        assert (found.tolist(), signs.tolist()) == ([5], [True])
        assert bits.exhausted

    @pytest.mark.parametrize("finest", [0, 2**50])
    def test_zero_has_one_sign(self, finest, monkeypatch, stream):
        """At a rate of 1, zero would otherwise have a chance of .63 in place of .46."""
        monkeypatch.setattr(noise_discrete, "_FINEST", finest)
        noise = discrete_laplace(stream(5), 1, 1, N)
        assert p_value(noise, 1.0) > ALPHA

    @pytest.mark.parametrize(("numerator", "denominator"), RATES)
    def test_digits_and_floating_point_agree(self, numerator, denominator, stream):
        """Wherever floating point decides, exact logarithms of the same words do so."""
        n = 3000
        found, signs = noise_discrete._by_inversion(
            stream(9), numerator, denominator, n
        )
        words = stream(9).random_raw(n)
        exact = [
            noise_discrete._with_more_digits(
                None, int(word) >> 1, numerator, denominator
            )
            for word in words
        ]
        assert_array_equal(found, exact)
        assert_array_equal(signs, words % 2 == 1)

    @pytest.mark.parametrize(("numerator", "denominator"), [(1, 7), (1, 2**20), (5, 2)])
    @pytest.mark.parametrize("k", [1, 2, 15])
    def test_digits_at_a_border(self, numerator, denominator, k, scripted):
        """U below exp(-k rate) gives at least k; only digits at the border are open."""
        with mpmath.workdps(80):
            border = mpmath.exp(-mpmath.mpf(k * numerator) / denominator) * 2**127
            digits, more = divmod(int(border), 2**64)
        for word, further, expected in (
            (digits - 1, [], k), (digits + 1, [], k - 1),
            (digits, [more - 1], k), (digits, [more + 1], k - 1),
        ):  # fmt: skip
            bits = scripted([2 * word + 1, *further])
            found, signs = noise_discrete._by_inversion(bits, numerator, denominator, 1)
            assert (found.tolist(), signs.tolist()) == ([expected], [True])
            assert bits.exhausted

    def test_the_smallest_digits(self, scripted):
        """U below 2^-63 may be as small as it likes, and so may its logarithm be."""
        bits = scripted([0, 2**63])
        found, _ = noise_discrete._by_inversion(bits, 1, 1, 1)
        # The second word says that U is in [2^-64, 2^-64 + 2^-127].
        assert found.tolist() == [int(64 * math.log(2))]

    @pytest.mark.parametrize(
        ("numerator", "denominator"),
        [(0, 1), (-1, 1), (1, 0), (1, -1), (1, 2**50), (1, 2**60), (0, 0), (-1, -1)],
    )
    def test_rates_out_of_range(self, numerator, denominator, scripted):
        with pytest.raises(ValueError, match="rate"):
            discrete_laplace(scripted([]), numerator, denominator, 10)

    @pytest.mark.parametrize("rate", [1e-3, 0.1, 1, 20])
    def test_variance_is_the_sum(self, rate):
        n = np.arange(1, int(60 / rate) + 2, dtype=float)
        weights = np.exp(-rate * n)
        expected = 2 * np.sum(n**2 * weights) / (1 + 2 * np.sum(weights))
        assert_allclose(discrete_laplace_variance(rate), expected, rtol=1e-10)
        tiny = rate / 1e6
        assert_allclose(discrete_laplace_variance(tiny / 20), 800 / tiny**2, rtol=1e-10)


IN_ORDER = {
    "Laplace": lambda stream: (
        discrete_laplace(stream(7), 1, 7, N), discrete_laplace_variance(1 / 7),
    ),
    "Gaussian": lambda stream: (discrete_gaussian(stream(13), 50, N), 50**2),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_ORDER)
def test_neighbours_are_independent(name, stream):
    # False-alarm rate 1e-6 per lag: rejection does not reorder the elements.
    noise, variance = IN_ORDER[name](stream)
    for lag in (1, 2, 1000):
        correlation = np.mean(1.0 * noise[lag:] * noise[:-lag]) / variance
        assert abs(correlation) < Z_ALPHA / math.sqrt(N - lag)


def gaussian_cells(scale):
    """Integers that part the line into cells, and their discrete Gaussian masses.

    Summed over all integers for small scales. For large ones, the mass up to n is that
    of a normal variate up to n + 1/2, with an error below 1e-7.
    """
    edges = np.unique(np.floor(scale * np.linspace(-3.5, 3.5, 29)).astype(np.int64))
    if scale > 1000:
        below = norm.cdf((edges + 0.5) / scale)
    else:
        n = np.arange(-40 * scale, 40 * scale + 1)
        masses = np.exp(-0.5 * (n / scale) ** 2)
        below = np.array([masses[n <= edge].sum() for edge in edges]) / masses.sum()
    return edges, np.diff(np.concatenate([[0.0], below, [1.0]]))


class TestDiscreteGaussian:
    @pytest.mark.parametrize("scale", [1, 2, 3, 7, 1000, 2**20 + 7, 2**40])
    def test_law(self, scale, stream):
        # False-alarm rate 1e-6 each.
        def p_value(noise):
            edges, masses = gaussian_cells(scale)
            cell = np.searchsorted(edges, noise)
            return chi_square(np.bincount(cell, minlength=len(masses)), masses)

        noise = discrete_gaussian(stream(11), scale, N)
        assert noise.dtype == np.int64
        assert noise.shape == (N,)
        assert p_value(noise) > ALPHA
        if scale > 10:
            other = discrete_gaussian(stream(11), scale - scale // 20, N)
            assert p_value(other) < ALPHA

    def test_no_mass_is_missing_at_small_scales(self, stream):
        # Single integers, at a false-alarm rate of 1e-6. Half the scale, or a variate
        # that is rounded to the nearest integer, is noticed.
        n = np.arange(-5, 6)
        masses = np.exp(-(n**2) / 2.0)
        noise = discrete_gaussian(stream(12), 1, N)
        assert np.abs(noise).max() <= 5
        counts = np.bincount(noise + 5, minlength=11)
        assert chi_square(counts, masses / masses.sum()) > ALPHA
        rounded = norm.cdf(n + 0.5) - norm.cdf(n - 0.5)
        assert chi_square(counts, rounded / rounded.sum()) < ALPHA

    @pytest.mark.parametrize(
        ("numerator", "denominator"), [(u, t) for t in (1, 2, 3) for u in range(t + 1)]
    )
    def test_every_path_of_half_a_square(self, numerator, denominator, monkeypatch):
        # As for `_bernoulli_exp`: all sequences of the first draws, each once.
        depth = 3
        bounds = [b for k in (1, 2, 3) for b in (denominator, 2 * denominator * k)]
        total = math.prod(bounds)
        asked = draw_every_path(monkeypatch, bounds, numerator)
        heads = noise_discrete._bernoulli_exp_half_square(
            None, np.full(total, numerator, dtype=np.uint64), denominator
        )
        assert asked[: 2 * depth] == bounds[: len(asked)]
        expected = heads_of(numerator**2, 2 * denominator**2, total, depth)
        assert heads.sum() == expected

    @pytest.mark.parametrize("scale", [0, -3, 2**50, 2**60])
    def test_scales_out_of_range(self, scale, scripted):
        with pytest.raises(ValueError, match="out of range"):
            discrete_gaussian(scripted([]), scale, 10)


WEIGHTS = {
    "small": np.array([[0, 3, 0, 4], [7, 0, 0, 0], [1, 1, 2, 3], [0, 0, 0, 7]]),
    "power of two": np.array([[1, 3, 0, 4], [0, 0, 8, 0], [2, 2, 2, 2]]) * 2**57,
    "large": np.array(
        [[10**17, 2 * 10**17, 0, 0], [0, 3 * 10**17 - 1, 1, 0], [10**17] * 3 + [0]]
    ),
}


class TestCategorical:
    def test_every_word_once(self, scripted):
        # Words 0 to 6 for each row: the counts are the weights, without tolerance.
        weights = WEIGHTS["small"]
        rows = np.repeat(np.arange(4), 7)[::-1]
        words = np.tile(np.arange(7), 4)
        columns = categorical(scripted(words), weights, rows)
        assert columns.dtype == np.int64
        for row in range(4):
            counts = np.bincount(columns[rows == row], minlength=4)
            assert_array_equal(counts, weights[row])

    def test_incomplete_cycle_is_rejected(self, scripted):
        # 2^64 is 2 above a multiple of 7: the last two words would favour 0 and 1.
        words = [2**64 - 1, 2**64 - 3, 2**64 - 2, 3]
        columns = categorical(scripted(words), WEIGHTS["small"], np.array([0, 0]))
        assert columns.tolist() == [3, 3]
        weights = WEIGHTS["large"]
        bits = scripted([2**64 - 1, 0])
        assert categorical(bits, weights, np.array([0])).tolist() == [0]
        assert bits.exhausted

    @pytest.mark.parametrize("name", ["power of two", "large"])
    def test_words_where_columns_begin_and_end(self, name, scripted):
        weights = WEIGHTS[name]
        for row, row_weights in enumerate(weights):
            ends = np.cumsum(row_weights)
            for column, (weight, end) in enumerate(zip(row_weights, ends, strict=True)):
                if weight:
                    bits = scripted([end - weight, end - 1])
                    drawn = categorical(bits, weights, np.array([row, row]))
                    assert drawn.tolist() == [column, column]

    def test_rows_with_other_sums_are_refused(self, scripted):
        for weights in ([[1, 2], [1, 3]], [[2**60, 0], [2**60, 1]]):
            with pytest.raises(ValueError, match="same sum"):
                categorical(scripted([]), np.array(weights), np.array([0]))


class TestPermuteAndFlip:
    def test_one_of_those_that_came_up_is_taken(self, monkeypatch):
        # Every draw is the largest integer below its bound. So no fraction of a step
        # keeps an index from coming up, but a whole step does: 0 does not come up.
        def largest(bits, bound, size):
            return np.full(size, bound - 1, dtype=np.uint64)

        monkeypatch.setattr(*POINTS["uniform draws"], largest)
        assert permute_and_flip(None, [7, 7, 0, 7], 2) == 3

    @pytest.mark.parametrize(
        ("numerators", "denominator"),
        [
            ([0, -1, -2, -7], 2),
            ([10**30, 10**30 - 3, 0], 3),
            ([0, 0, 0], 2**50 - 1),
            ([-(2**70), -(2**70) - 2**49, -(2**70) - 2**50 - 1], 2**49),
            ([4], 1),
        ],
    )
    def test_law(self, numerators, denominator, stream):
        expected = law(numerators, denominator)
        drawn = [
            permute_and_flip(stream(seed), numerators, denominator)
            for seed in range(500)
        ]
        counts = np.bincount(drawn, minlength=len(numerators))
        assert not counts[expected < 1e-9].any()
        likely = expected > 1e-9
        if likely.sum() > 1:
            assert chi_square(counts[likely], expected[likely]) > ALPHA

    def test_its_exact_law_by_all_subsets(self):
        numerators, denominator = [5, 4, 4, 0, -9], 3
        up = np.exp((np.array(numerators) - 5) / denominator)
        expected = np.zeros(5)
        for subset in product((False, True), repeat=5):
            if any(subset):
                chance = np.prod(np.where(subset, up, 1 - up))
                expected[list(subset)] += chance / sum(subset)
        assert_allclose(law(numerators, denominator), expected, rtol=1e-12)

    @pytest.mark.parametrize("denominator", [0, 2**50])
    def test_out_of_range(self, denominator):
        with pytest.raises(ValueError, match="out of range"):
            permute_and_flip(None, [1, 2], denominator)
        with pytest.raises(ValueError, match="`numerators` is empty"):
            permute_and_flip(None, [], 1)
