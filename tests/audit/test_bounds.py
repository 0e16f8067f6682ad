"""The bounds hold at their confidence, and are not loose."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr
from scipy.stats import binom, norm

from sktensordp.privacy import gaussian_delta
from tests.support.seams import (
    _LEAST_Z,
    Gaussian,
    Pure,
    _critical_sum,
    _p_value,
    certified_bound,
    curve_bound_of_guesses,
    epsilon_of_mu,
    lower_epsilon_of_guesses,
    quick_bound,
)


def exceedance(bound, claim, truth, rate, n, alpha):
    """Exact chance that the bound is above the truth: a sum over all counts."""
    chance = 0.0
    top = binom(n, claim.rate(rate, truth))
    bottom = binom(n, rate)
    for false_hits in range(n + 1):
        weight = bottom.pmf(false_hits)
        if weight < 1e-9:
            continue
        # The bound grows with the hits: find where it passes the truth.
        low, high = -1, n
        while high - low > 1:
            middle = (low + high) // 2
            if bound(middle, false_hits, n, claim, alpha) > truth:
                high = middle
            else:
                low = middle
        if bound(high, false_hits, n, claim, alpha) > truth:
            chance += weight * top.sf(high - 1)
    return chance


def of_one_stage(hits, false_hits, n, claim, alpha):
    return certified_bound([(hits, false_hits, n)], claim, alpha)


@pytest.mark.thorough
@pytest.mark.parametrize("bound", [quick_bound, of_one_stage])
@pytest.mark.parametrize(
    ("claim", "truth", "rate"),
    [
        (Pure(0.0), 1.0, 0.2),
        (Pure(0.05), 0.5, 0.3),
        (Gaussian(), 0.5, 0.4),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (Pure(0.0), 1.0, 0.01), (Pure(0.0), 0.0, 0.5), (Gaussian(), 1.0, 0.05)
            )
        ),
    ],
)  # fmt: skip
def test_bound_is_above_the_truth_with_at_most_alpha(bound, claim, truth, rate):
    found = exceedance(bound, claim, truth, rate, 20, 0.1)
    assert found <= 0.1 + 1e-6


def test_an_uncorrected_estimate_would_be_above_the_truth():
    def naive(hits, false_hits, n, claim, alpha):
        return float(claim.parameter((hits + 0.5) / (n + 1), (false_hits + 0.5) / n))

    assert exceedance(naive, Pure(0.0), 1.0, 0.2, 30, 0.1) > 0.3


@pytest.mark.parametrize("claim", [Pure(0.0), Pure(1e-3), Gaussian()])
def test_certified_bound_is_between_the_quick_one_and_the_estimate(claim):
    for hits, false_hits, n in [(60, 20, 100), (500, 300, 1000), (9, 1, 1000)]:
        quick = float(quick_bound(hits, false_hits, n, claim, 0.05))
        sharp = certified_bound([(hits, false_hits, n)], claim, 0.05)
        naive = float(claim.parameter(hits / n, false_hits / n))
        assert 0.99 * quick <= sharp <= naive
        assert quick == 0 or sharp > quick + 0.1 * (naive - quick)


@pytest.mark.parametrize("claim", [Pure(0.0), Gaussian()])
@pytest.mark.parametrize("counts", [(0, 0), (0, 50), (50, 50), (20, 30), (50, 0)])
def test_extreme_counts(claim, counts):
    found = certified_bound([(*counts, 50)], claim, 0.05)
    assert np.isfinite(found)
    assert (found > 0) == (counts == (50, 0))


@pytest.mark.parametrize("n", [100, 10_000])
def test_a_perfect_separation_proves_what_its_chance_allows(n):
    """Every hit and no false hit: chance (1 - e^-epsilon)^n at the worst rate."""
    found = certified_bound([(n, 0, n)], Pure(0.0), 0.05)
    # A fiftieth of alpha is the error of the interval of the rate.
    assert 0.0485 < (1 - math.exp(-found)) ** n <= 0.049


@pytest.mark.parametrize("claim", [Pure(0.0), Pure(1e-3), Gaussian()])
def test_no_counts_are_less_likely_than_a_wrong_interval_of_the_rate(claim):
    assert _p_value(900, 10, 1000, claim, 0.05)(0.0) == pytest.approx(0.05 / 50)


def exceedance_of_stages(claim, truth, rates, sizes, alpha):
    """Exact chance that the bound is above the truth, over two adaptive stages.

    `rates` has the rate of the first event, and those of the second event after few and
    after many hits of the first one.
    """
    p_values = [
        [
            [_p_value(a, b, n, claim, alpha)(truth) for b in range(n + 1)]
            for a in range(n + 1)
        ]
        for n in sizes
    ]
    z = [np.maximum(norm.isf(p), _LEAST_Z) for p in p_values]
    needed = _critical_sum(tuple(math.sqrt(n) for n in sizes), alpha)

    def chances(rate, n):
        grid = np.arange(n + 1)
        return np.outer(
            binom.pmf(grid, n, claim.rate(rate, truth)), binom.pmf(grid, n, rate)
        )

    first, second = sizes
    found = 0.0
    of_first = chances(rates[0], first)
    for hits in range(first + 1):
        of_second = chances(rates[1] if hits < first / 2 else rates[2], second)
        for false_hits in range(first + 1):
            sums = math.sqrt(first) * z[0][hits, false_hits] + math.sqrt(second) * z[1]
            found += of_first[hits, false_hits] * of_second[sums >= needed].sum()
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("claim", "truth"), [(Pure(0.0), 0.7), (Pure(0.05), 0.5), (Gaussian(), 0.5)]
)
@pytest.mark.parametrize("rates", [(0.3, 0.3, 0.3), (0.3, 0.05, 0.5), (0.1, 0.4, 0.1)])
def test_stages_that_depend_on_earlier_ones_keep_the_confidence(claim, truth, rates):
    """The sum over all pairs of counts; the truth is refuted at most at rate alpha."""
    assert exceedance_of_stages(claim, truth, rates, (8, 14), 0.1) <= 0.1


def chance_to_reach(needed, weights):
    """P(sum of w max(z, -1) >= needed) for independent standard normal z."""
    weight, *others = weights
    if not others:
        return np.where(needed <= -weight, 1.0, ndtr(-needed / weight))
    nodes, shares = np.polynomial.legendre.leggauss(300)
    z = _LEAST_Z + 5 * (nodes + 1)
    masses = np.append(5 * shares * norm.pdf(z), norm.cdf(_LEAST_Z))
    left = np.subtract.outer(needed, weight * np.append(z, _LEAST_Z))
    return chance_to_reach(left, others) @ masses


@pytest.mark.parametrize("alpha", [0.2, 0.05, 1e-4])
@pytest.mark.parametrize("weights", [(1.0,), (1.0, 1.0), (1.0, 2**0.5, 2.0)])
def test_critical_sum(weights, alpha):
    """Reached with probability at most alpha, and hardly less."""
    chance = chance_to_reach(_critical_sum(weights, alpha), weights)
    assert 0.98 * alpha < chance <= alpha


@pytest.mark.thorough
def test_stages_prove_almost_as_much_as_their_sum():
    stages = [(900, 750, 20_000), (450, 375, 10_000)]
    pooled = certified_bound([(1350, 1125, 30_000)], Pure(0.0), 0.05)
    assert 0.9 * pooled < certified_bound(stages, Pure(0.0), 0.05) < 1.05 * pooled
    # A stage whose event never happens costs little.
    lost = certified_bound([*stages, (0, 0, 10_000)], Pure(0.0), 0.05)
    assert 0.5 * pooled < lost < pooled


@pytest.mark.parametrize("mu", [0.1, 0.268051123, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_epsilon_of_mu_inverts_the_curve(mu, delta):
    epsilon = epsilon_of_mu(mu, delta)
    if epsilon == 0:
        assert norm.cdf(mu / 2) - norm.cdf(-mu / 2) <= delta
    else:
        assert gaussian_delta(epsilon, mu) == pytest.approx(delta, rel=1e-6)


@pytest.mark.thorough
def test_guesses_bound_holds_at_its_confidence():
    """Randomised response is the worst case of the theorem: its chance is exact."""
    for epsilon in (0.0, 0.5, 2.0):
        for n in (20, 200):
            law = binom(n, 1 / (1 + math.exp(-epsilon)))
            above = [
                k
                for k in range(n + 1)
                if lower_epsilon_of_guesses(k, n, n, 0.0, 0.05) > epsilon + 1e-9
            ]
            chance = sum(law.pmf(k) for k in above)
            assert chance <= 0.05
            if n == 200:
                assert chance > 0.01


def test_delta_weakens_the_guesses_bound():
    bounds = [lower_epsilon_of_guesses(90, 100, 100, d, 0.05) for d in (0, 1e-6, 1e-3)]
    assert bounds[0] > bounds[1] - 1e-3
    assert bounds[1] > bounds[2] > 0
    assert lower_epsilon_of_guesses(50, 100, 100, 0.0, 0.05) == 0


@pytest.mark.parametrize(
    ("correct", "guesses", "n_canaries", "delta"),
    [(90, 100, 100, 1e-6), (90, 100, 1000, 1e-4), (19, 20, 50, 1e-4)],
)
def test_guesses_bound_is_that_of_the_theorem(correct, guesses, n_canaries, delta):
    """Steinke, Nasr and Jagielski (2023), Theorem 5.2, with exact coefficients."""
    epsilon = lower_epsilon_of_guesses(correct, guesses, n_canaries, delta, 0.05)
    right = 1 / (1 + math.exp(-epsilon))

    def chance(low, high):
        return math.fsum(
            math.comb(guesses, k) * right**k * (1 - right) ** (guesses - k)
            for k in range(low, high)
        )

    least = range(correct)
    shown_together = max(chance(v, correct) / (correct - v) for v in least)
    total = chance(correct, guesses + 1) + 2 * n_canaries * delta * shown_together
    assert total == pytest.approx(0.05, rel=1e-6)
    # The term in delta matters.
    assert 2 * n_canaries * delta * shown_together > 1e-5


CURVES = [(Gaussian(), 0.5), (Gaussian(), 1.5), (Pure(0.0), 1.0), (Pure(0.01), 1.0)]


def chance_of_a_right_guess(claim, parameter):
    """Largest, for one canary whose bit is fair."""
    rates = np.linspace(0, 1, 10_001)
    false = [claim.least_false_rate(rate, parameter) for rate in rates]
    return np.max(rates + 1 - false) / 2


def test_chance_of_a_right_guess():
    assert chance_of_a_right_guess(Gaussian(), 1.0) == pytest.approx(norm.cdf(0.5))
    odds = math.exp(1.0)
    right = chance_of_a_right_guess(Pure(0.0), 1.0)
    assert right == pytest.approx(odds / (1 + odds), abs=1e-4)


@pytest.mark.parametrize(("claim", "parameter"), CURVES)
def test_least_false_rate_inverts_the_trade_off_function(claim, parameter):
    for rate in (0.02, 0.3, 0.9, 0.99):
        false = claim.least_false_rate(rate, parameter)
        # Both orders of the arms allow it, and one of them allows no less.
        spare = [
            claim.rate(false, parameter) - rate,
            claim.rate(1 - rate, parameter) - (1 - false),
        ]
        assert min(spare) >= -1e-9
        assert min(spare) < 1e-9 or false == 0


@pytest.mark.parametrize(("claim", "parameter"), CURVES)
@pytest.mark.parametrize(("n_canaries", "guesses"), [(40, 40), (100, 100)])
def test_curve_bound_is_above_the_truth_with_at_most_alpha(
    claim, parameter, n_canaries, guesses
):
    """Exactly: canaries that are independent, each guessed as well as can be."""
    alpha, counts = 0.1, np.arange(guesses + 1)
    bounds = np.array([
        curve_bound_of_guesses(int(c), guesses, n_canaries, claim, alpha)
        for c in counts
    ])  # fmt: skip
    assert np.all(np.diff(bounds) >= -1e-5)
    # If the truth is the parameter, and if it is four times as large.
    false_alarm, power = (
        binom.pmf(counts, guesses, chance_of_a_right_guess(claim, times * parameter))[
            bounds > parameter
        ].sum()
        for times in (1, 4)
    )
    assert false_alarm <= alpha
    assert power > 0.5


@pytest.mark.thorough
@pytest.mark.parametrize("mu", [1.0, 3.0])
def test_curve_bound_holds_for_the_surest_guesses(mu):
    """Of Gaussian canaries only the most extreme are guessed.

    Each of 200 runs is above the truth with a chance of at most 0.1; more than 38 are
    with a chance below 1e-5. A third of the noise is refuted in most runs.
    """
    rng, alarms = np.random.default_rng(0), {1: 0, 3: 0}
    for times in alarms:
        for _ in range(200):
            bits = rng.random(200) < 0.5
            scores = times * mu * (bits - 0.5) + rng.standard_normal(200)
            sure = np.argsort(-np.abs(scores))[:60]
            correct = int(np.sum((scores[sure] > 0) == bits[sure]))
            alarms[times] += (
                curve_bound_of_guesses(correct, 60, 200, Gaussian(), 0.1) > mu
            )
    assert binom.sf(38, 200, 0.1) < 1e-4
    assert alarms[1] <= 38
    assert mu > 1 or alarms[3] > 100


def test_curve_bound_holds_where_all_bits_are_shown_together():
    """With probability delta the mechanism shows everything, otherwise nothing.

    All guesses are right with probability delta, more often than alpha.
    """
    delta, alpha = 0.02, 0.01
    for guesses in (10, 100, 1000):
        assert curve_bound_of_guesses(guesses, guesses, 1000, Pure(delta), alpha) == 0
    assert curve_bound_of_guesses(1000, 1000, 1000, Pure(delta), 0.05) > 1


def least_total(correct, guesses, n_canaries, epsilon, alpha):
    """Least total chance that the inequalities allow, by linear programming."""
    counts = np.arange(guesses + 1)
    rows, limits = [], []
    for i in range(1, guesses + 1):
        right = (counts >= i) * counts / n_canaries
        wrong = (counts >= i - 1) * (guesses - counts) / n_canaries
        rows += [right - math.exp(epsilon) * wrong, right - math.exp(-epsilon) * wrong]
        limits += [0.0, 1 - math.exp(-epsilon)]
    return linprog(
        np.ones(guesses + 1), A_ub=rows, b_ub=limits,
        A_eq=[(counts >= correct) * 1.0], b_eq=[alpha],
    ).fun  # fmt: skip


@pytest.mark.parametrize(("correct", "guesses"), [(7, 8), (8, 8), (11, 12)])
def test_curve_bound_is_that_of_the_linear_program(correct, guesses):
    bound = curve_bound_of_guesses(correct, guesses, 12, Pure(0.0), 0.05)
    assert bound > 0.1
    assert least_total(correct, guesses, 12, bound - 1e-4, 0.05) > 1
    assert least_total(correct, guesses, 12, bound + 1e-4, 0.05) < 1
