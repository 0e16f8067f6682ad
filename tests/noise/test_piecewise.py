"""The hybrid mechanism for one value: its law in full, and the sampler of it.

Statistical tests use fixed seeds. A false-alarm rate is the probability, over the
seeds, that a correct sampler fails; those of chi-square tests are asymptotic.
"""

import itertools
import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.support.goodness import chi_square
from tests.support.seams import (
    HYBRID_FROM,
    HybridDistribution,
    hybrid_distribution,
    subsets,
)

UNIT, STEPS, N, ALPHA = 2**62, 2**40, 2**16, 1e-6
EPSILONS = [1e-9, 0.01, 0.5, 0.62, 1.0, math.pi, 16.0, 39.9]
# In one dimension: epsilon, B of Duchi, then of the Piecewise mechanism its largest
# output and its variances at 0 and at 1, and alpha; computed with mpmath.
ORACLE = [
    (1.0, 2.16395341373865285, 4.08298816507359657, 3.68210336950688674,
     5.22359745204368502, 0.393469340287366576),
    (4.0, 1.0373147207275481, 1.31303528549933130, 0.0848362442391045037,
     0.241353886988770155, 0.864664716763387308),
    (16.0, 1.00000022507037477, 1.00067115040168249, 0.000112008547900974508,
     0.000447583748742219464, 0.999664537372097488),
]  # fmt: skip


def power_between(epsilon):
    """Fractions below and above e^epsilon, from the exponential series."""
    x = Fraction(epsilon)
    term = total = Fraction(1)
    for n in range(1, 201):
        term *= x / n
        total += term
    # The terms that are left fall by more than a half each.
    return total, total + term


def outcomes(law, j, scripted):
    """Probabilities, Fractions, of what the sampler releases for an index.

    Every branch is entered by its first and by its last word, and every way through
    it is scripted.
    """
    found = defaultdict(Fraction)
    for start, stop, inner, n_taken, n_else in [
        (0, law.mixture, law.focus, law.window, law.n_positions),
        (law.mixture, UNIT, law.honesty, 2 * law.n_steps, 2 * law.n_steps),
    ]:
        for low, high, n in [(0, inner, n_taken), (inner, UNIT, n_else)]:
            # Each residue of the last word occurs twice, which no other bound has.
            probability = Fraction((stop - start) * (high - low), 8 * n * UNIT**2)
            ends = itertools.product((start, stop - 1), (low, high - 1), range(2 * n))
            for words in ends if probability else []:
                bits = scripted(words)
                released = law.randomize(np.array([j], dtype=np.uint64), bits)
                assert bits.exhausted
                found[released[0]] += probability
    assert sum(found.values()) == 1
    return found


def laws(law, scripted):
    return [outcomes(law, j, scripted) for j in range(law.n_steps + 1)]


def largest_ratio(tables):
    values = set().union(*tables)
    return max(
        max(t.get(v, 0) for t in tables) / min(t.get(v, 0) for t in tables)
        for v in values
    )


def exact_value(law, released):
    """The Fraction that a released float stands for."""
    beta, honesty = Fraction(law.focus, UNIT), Fraction(law.honesty, UNIT)
    n, w = law.n_positions, law.window
    mean = ((1 - beta) * (n - 1) + beta * (w - 1)) / 2
    values = [2 * (p - mean) / (beta * law.n_steps) - 1 for p in range(n)]
    values += [1 / honesty, -1 / honesty]
    nearest = min(values, key=lambda v: abs(v - Fraction(float(released))))
    assert_allclose(float(nearest), released, rtol=1e-14, atol=1e-14)
    return nearest


class TestLawInFull:
    @pytest.mark.parametrize("n_steps", [1, 5])
    @pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
    def test_ratio_mean_and_variance(self, epsilon, n_steps, scripted):
        law = hybrid_distribution(epsilon, n_steps)
        tables = laws(law, scripted)
        assert largest_ratio(tables) == law.ratio <= power_between(epsilon)[0]
        assert math.log(law.ratio) >= epsilon * (1 - 1e-12)
        c0, c2 = law.variance_coefficients
        for j, table in enumerate(tables):
            t = Fraction(2 * j, n_steps) - 1
            values = [(exact_value(law, v), p) for v, p in table.items()]
            assert sum(p * v for v, p in values) == t
            second = sum(p * v**2 for v, p in values)
            assert second - t**2 == c0 + c2 * t**2

    def test_what_the_sampler_does_with_words(self, scripted):
        # J = 4, W = 2: components, then parts and positions, then honesty and bits.
        law = HybridDistribution(
            4, 2, mixture=UNIT // 2, focus=UNIT // 4, honesty=UNIT // 8
        )
        components = [0, UNIT // 2, UNIT // 2 - 1, UNIT - 1, UNIT // 2]
        parts, bits_of = [UNIT // 4 - 1, UNIT // 4], [UNIT // 8 - 1, UNIT // 8, 0]
        words = scripted([*components, *parts, 1, 5, *bits_of, 5, 4, 7])
        index = np.array([3, 3, 3, 0, 4], dtype=np.uint64)
        released = law.randomize(index, words)
        assert words.exhausted
        # Positions 3 + 1 and 5; a coin is 1 below 4 of 8, Bernoulli(3/4) below 6.
        mean = (0.75 * 5 + 0.25 * 1) / 2
        places = [2 * (p - mean) / (0.25 * 4) - 1 for p in (4, 5)]
        assert_allclose(released, [places[0], 8, places[1], -8, 8])


class TestHybridDistribution:
    @pytest.mark.parametrize("n_steps", [1, 7, STEPS])
    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_epsilon_is_kept_and_used(self, epsilon, n_steps):
        law = hybrid_distribution(epsilon, n_steps)
        below, above = power_between(epsilon)
        assert law.ratio <= below
        # On a coarse grid, a window of one step is already too wide for large ones.
        lost = 1e-8 if n_steps == STEPS else 1e-3
        assert epsilon * (1 - lost) <= law.epsilon <= epsilon
        # Rounded up to the next float.
        assert law.ratio <= power_between(law.epsilon)[0]
        assert law.ratio > power_between(math.nextafter(law.epsilon, 0))[1]
        # No larger integer keeps it, in either part.
        for wrong in ("focus", "honesty"):
            mixture = UNIT if wrong == "focus" else 0
            ratios = [
                replace(
                    law, mixture=mixture, **{wrong: getattr(law, wrong) + more}
                ).ratio
                for more in (0, 1)
            ]
            assert ratios[0] <= below
            assert ratios[1] > above

    @pytest.mark.parametrize("case", ORACLE, ids=lambda c: c[0])
    def test_the_papers_mechanism_is_the_limit(self, case):
        epsilon, duchi, largest, at_centre, at_ends, alpha = case
        law = hybrid_distribution(epsilon)
        assert_allclose(UNIT / law.honesty, duchi, rtol=1e-12)
        assert_allclose(law.mixture / UNIT, alpha, rtol=1e-12)
        piecewise = replace(law, mixture=UNIT).variance_coefficients
        assert_allclose(float(piecewise[0]), at_centre, rtol=1e-9)
        assert_allclose(float(sum(piecewise)), at_ends, rtol=1e-9)
        scale = law.n_steps * law.focus / UNIT
        assert_allclose((law.n_positions - 1) / scale, largest, rtol=1e-9)
        # The paper's Lemma 3: the variance does not depend on the value.
        c0, c2 = map(float, law.variance_coefficients)
        assert_allclose(c0, alpha * at_centre + (1 - alpha) * duchi**2, rtol=1e-9)
        assert abs(c2) < 1e-9

    def test_two_points_alone_below_the_papers_threshold(self):
        assert abs(HYBRID_FROM - 0.61) < 0.001
        assert hybrid_distribution(HYBRID_FROM).mixture == 0
        assert hybrid_distribution(HYBRID_FROM + 1e-6).mixture > UNIT // 4
        # There, either has the same largest variance.
        law = hybrid_distribution(HYBRID_FROM + 1e-9)
        largest = [max(c0, c0 + c2) for c0, c2 in (
            law.variance_coefficients, replace(law, mixture=0).variance_coefficients
        )]  # fmt: skip
        assert_allclose(float(largest[0]), float(largest[1]), rtol=1e-6)

    @pytest.mark.parametrize("epsilon", [40.1, 1e3, 1e300])
    def test_no_more_than_forty(self, epsilon):
        assert hybrid_distribution(epsilon) == hybrid_distribution(40.0)
        assert hybrid_distribution(40.0).window > 2000

    def test_the_smallest_epsilon(self):
        assert 0 < hybrid_distribution(2e-18).epsilon <= 2e-18
        for epsilon in (1e-19, 1e-100, 5e-324):
            with pytest.raises(ValueError, match="too small"):
                hybrid_distribution(epsilon)


class TestSubsets:
    @pytest.mark.parametrize(("n", "size"), [(5, 1), (5, 2), (6, 3), (6, 5)])
    def test_every_subset_is_as_frequent(self, n, size, stream):
        # False-alarm rate 1e-6 each.
        chosen = np.sort(subsets(stream(14), N, n, size), axis=1)
        codes = np.sum(2**chosen, axis=1)
        kinds = [sum(2**i for i in c) for c in itertools.combinations(range(n), size)]
        counts = np.array([np.sum(codes == kind) for kind in kinds])
        assert counts.sum() == N
        assert chi_square(counts, np.full(len(kinds), 1 / len(kinds))) > ALPHA
        skewed = np.linspace(0.95, 1.05, len(kinds))
        assert chi_square(counts, skewed / skewed.sum()) < ALPHA

    def test_the_smallest_words_are_chosen(self, scripted):
        words = scripted([5, 2**64 - 1, 0, 7, 3, 3, 9, 8])
        chosen = subsets(words, 2, 4, 2)
        assert_array_equal(np.sort(chosen, axis=1), [[0, 2], [0, 1]])
        assert words.exhausted

    def test_rows_with_a_tie_at_the_edge_are_drawn_again(self, scripted):
        # Rows 1 and 2 are tied there, the latter twice; row 0 is tied elsewhere.
        words = [2, 2, 8, 8, 1, 6, 6, 9, 4, 4, 4, 5, 9, 1, 2, 3, 7, 7, 7, 7, 1, 9, 9, 0]
        bits = scripted(words)
        chosen = subsets(bits, 3, 4, 2)
        assert_array_equal(np.sort(chosen, axis=1), [[0, 1], [1, 2], [0, 3]])
        assert bits.exhausted
