"""Ranges on a grid: random rounding, the table after it, and what a fit makes of it."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import chi2, norm

from sktensordp.completion import CompletionClient, CPCompletion
from tests.support.noise import source_of, stream_of
from tests.support.seams import (
    Domain,
    _on_grid,
    _reconciled,
    best_n_points,
    expected_rounding,
    level_table,
    plan_entry_randomizer,
    point_probabilities,
    rounded_at_random,
)

LIMITS = (1e-6, 4.0)
FINE = tuple(np.arange(101.0).tolist())
DOMAINS = [
    Domain((0.5, 5.0)),
    Domain((-1e9, 1e9 + 1)),
    Domain((1e9, 1e9 + 1e-3)),
    Domain((-3.0, 200.0), FINE),
    Domain((0.0, 1600.0), tuple((np.arange(41.0) ** 2).tolist())),
]


def exact_share(value, low, high):
    """The share of the way from one point to the next, as a fraction."""
    return (Fraction(value) - Fraction(low)) / (Fraction(high) - Fraction(low))


def exact_row(table, value):
    """Probabilities of the outputs of a value: a slow reference, in fractions."""
    points, total = table.levels, sum(table.weights[0])
    at = min(sum(point <= value for point in points) - 1, len(points) - 2)
    share = exact_share(value, points[at], points[at + 1])
    pairs = zip(table.weights[at], table.weights[at + 1], strict=True)
    return [(low * (1 - share) + high * share) / total for low, high in pairs]


def values_of(plan):
    """Both bounds, points, and values between points."""
    points = np.array(plan.mechanism.levels)
    between = points[:-1] + np.diff(points) * [0.5, 1e-9, *[0.3] * (len(points) - 3)]
    inside = [*plan.domain.bounds, *points, *between]
    return sorted(set(plan.domain.clip(np.array(inside)).tolist()))


def divergence(table, values):
    """Largest log ratio of the probabilities of an output at any two values."""
    rows = [exact_row(table, value) for value in values]
    assert all(sum(row) == 1 for row in rows)
    return max(
        math.log(max(column)) - math.log(min(column))
        for column in zip(*rows, strict=True)
    )


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("domain", DOMAINS)
def test_values_keep_the_ratio_in_exact_arithmetic(domain, epsilon):
    plan = plan_entry_randomizer(epsilon, domain)
    values = values_of(plan)
    found = divergence(plan.mechanism, values)
    assert found <= epsilon * (1 + 1e-15) + 1e-15
    # The ends of the domain and the points are among the values: nothing is wasted.
    if domain.levels is None:
        assert found == pytest.approx(plan.guarantee.epsilon, rel=1e-9)
    assert plan.guarantee.epsilon <= epsilon
    assert (plan.guarantee.delta, plan.guarantee.claimed) == (0, None)


def test_half_the_noise_is_above_the_budget():
    plan = plan_entry_randomizer(2.0, Domain((0.5, 5.0)))
    values = values_of(plan)
    less = level_table(plan.mechanism.levels, 4.0)
    assert divergence(plan.mechanism, values) <= 2.0
    assert divergence(less, values) > 3.9


@pytest.mark.parametrize("factor", [1, 2])
def test_draws_follow_the_table_after_the_rounding(factor):
    """Squared distances by z-tests at 1e-9, which see the noise of twice the budget."""
    plan = plan_entry_randomizer(1.5, Domain((0.0, 10.0)))
    drawn_from = plan
    if factor == 2:
        drawn_from = replace(plan, mechanism=level_table(plan.mechanism.levels, 3.0))
    n, worst = 40_000, 0.0
    for seed, value in enumerate([0.0, 3.3, 5.0, 10.0]):
        squares = (np.array(plan.mechanism.outputs) - value) ** 2
        row = np.array([float(p) for p in exact_row(plan.mechanism, value)])
        noisy = drawn_from.randomize(np.full(n, value), source_of(seed))
        error = math.sqrt((row @ squares**2 - (row @ squares) ** 2) / n)
        worst = max(worst, abs(np.mean((noisy - value) ** 2) - row @ squares) / error)
    assert (worst < 6.1) == (factor == 1)


def test_symbols_have_the_probabilities_of_the_table_after_the_rounding():
    """Chi-squared tests, at 1e-9 together."""
    plan = plan_entry_randomizer(1.5, Domain((0.0, 10.0)))
    n, order = 40_000, np.argsort(plan.mechanism.outputs)
    for seed, value in enumerate([0.0, 3.3, 5.0, 10.0]):
        drawn = plan.draw(np.full(n, value), source_of(seed))
        row = np.array([float(p) for p in exact_row(plan.mechanism, value)])[order]
        counts = np.bincount(drawn, minlength=len(row))
        statistic = ((counts - n * row) ** 2 / (n * row))[n * row > 5].sum()
        assert statistic < chi2.isf(1e-9 / 4, np.count_nonzero(n * row > 5))


def test_rounding_follows_its_slow_reference():
    points = np.array([-1.0, 0.5, 0.75, 4.0])
    values = np.random.default_rng(0).uniform(-1, 4, 500)
    values[:4] = points
    found = rounded_at_random(values, points, stream_of(7))
    draws = np.random.Generator(stream_of(7)).random(500)
    for value, draw, number in zip(values, draws, found, strict=True):
        at = max(k for k in range(3) if points[k] <= value)
        up = Fraction(draw) < exact_share(value, points[at], points[at + 1])
        assert number == at + up
    # A value on a point stays there, whatever is drawn.
    assert_array_equal(found[:4], [0, 1, 2, 3])


def test_rounding_is_unbiased():
    """z-tests at 1e-9; a value that always goes to the next point is 300 sigma off."""
    points, n = np.array([-1.0, 0.5, 0.75, 4.0]), 100_000
    for seed, value in enumerate([-0.9, 0.6, 1.0, 3.99]):
        found = points[rounded_at_random(np.full(n, value), points, stream_of(seed))]
        low, high = points[points <= value].max(), points[points >= value].min()
        error = math.sqrt((value - low) * (high - value) / n)
        assert abs(found.mean() - value) < 6.1 * error


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_randomised_values_are_unbiased_with_the_stated_variances(epsilon):
    """Exactly, from the probabilities: the noise is within the stated bounds."""
    plan = plan_entry_randomizer(epsilon, Domain((0.5, 5.0)))
    outputs = [Fraction(output) for output in plan.mechanism.outputs]
    for value in values_of(plan):
        row = exact_row(plan.mechanism, value)
        mean = sum(p * y for p, y in zip(row, outputs, strict=True))
        assert float(mean) == pytest.approx(value, abs=1e-6)
        spread = [(y - Fraction(value)) ** 2 for y in outputs]
        variance = float(sum(p * s for p, s in zip(row, spread, strict=True)))
        assert plan.noise_variance <= variance * (1 + 1e-9)
        assert variance <= plan.most_variance * (1 + 1e-9)


def test_as_many_points_as_are_expected_to_be_best():
    """Laplace noise is left where it is less than the rounding to the finest grid."""
    assert {best_n_points(epsilon) for epsilon in (0.3, 1.0, 4.0, 100.0)} <= {8, 16, 32}
    finest = (2 / 31) ** 2 / 6
    limit = math.sqrt(8 / finest)
    assert best_n_points(0.99 * limit) == 32
    assert best_n_points(1.01 * limit) is None
    plan = plan_entry_randomizer(1.01 * limit, Domain((0.0, 1.0)))
    assert not plan.has_table
    assert "Laplace" in plan.guarantee.statement


def test_up_to_32_levels_have_a_table_of_their_own():
    """No value of theirs is rounded at random; with one more, they are on a grid."""
    for n_levels, is_on_grid in ((21, False), (32, False), (33, True)):
        levels = tuple(np.arange(float(n_levels)).tolist())
        plan = plan_entry_randomizer(2.0, Domain((0.0, n_levels - 1.0), levels))
        assert plan.has_table
        assert plan.is_on_grid == is_on_grid
        assert ("at random" in plan.guarantee.statement) == is_on_grid


def test_values_are_rounded_to_their_levels_first():
    plan = plan_entry_randomizer(2.0, Domain((0.0, 100.0), FINE))
    near = plan.randomize(np.array([2.6, 40.2, 3e9]), source_of(0))
    assert_array_equal(near, plan.randomize(np.array([3.0, 40, 100]), source_of(0)))


def test_a_short_range_far_from_zero_has_fewer_points():
    low = 2.0**39
    plan = plan_entry_randomizer(2.0, Domain((low, low + 5 * 2.0**-13)))
    assert plan.mechanism.levels == tuple(low + k * 2.0**-13 for k in range(6))


def test_without_noise_nothing_is_rounded():
    values = np.array([0.1, 1 / 3, 0.77])
    plan = plan_entry_randomizer(math.inf, Domain((0.0, 1.0)))
    assert_array_equal(plan.randomize(values, None), values)
    assert not plan.is_on_grid


def test_clients_draw_from_the_table_that_a_fit_expects():
    model = CPCompletion(
        0, epsilon=2.0, value_bounds=(0, 6), shape=(30, 20), n_pattern_components=0,
        max_iter=3,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    X, y = np.argwhere(np.ones((30, 20))), rng.uniform(0, 6, 600)
    client = model.client(random_state=0)
    same = CompletionClient.from_json(client.to_json())
    assert same.randomizer.mechanism == client.randomizer.mechanism
    sent = client.privatize(y)
    assert np.isin(sent, plan_entry_randomizer(2.0, Domain((0.0, 6.0))).outputs).all()
    model.fit_randomized(X, sent)
    assert model.privacy_guarantee_.epsilon <= 2.0
    with pytest.raises(ValueError, match="not in the table"):
        model.fit_randomized(X, y)


def normal_points(points, mean, deviation):
    """Probabilities of points, and the variance of the rounding, by quadrature."""
    low, high = points[0], points[-1]
    found = np.zeros(len(points))
    found[0], found[-1] = norm.cdf(low, mean, deviation), norm.sf(high, mean, deviation)
    variance = 0.0
    for k, (a, b) in enumerate(pairwise(points)):

        def density(x, a=a, b=b):
            return norm.pdf(x, mean, deviation) / (b - a)

        found[k] += quad(lambda x, b=b: (b - x) * density(x), a, b)[0]
        found[k + 1] += quad(lambda x, a=a: (x - a) * density(x), a, b)[0]
        variance += quad(
            lambda x, a=a, b=b: (x - a) * (b - x) * (b - a) * density(x), a, b
        )[0]
    return found, variance


@pytest.mark.parametrize("deviation", [0.05, 0.4, 3.0])
def test_normal_values_reach_points_with_these_probabilities(deviation):
    points = np.array([-1.0, -0.2, 0.1, 1.5])
    means = np.array([-1.3, -0.9, 0.0, 1.4, 2.0])
    found = point_probabilities(points, means, deviation)
    rounding = expected_rounding(points, means, deviation)
    for mean, row, variance in zip(means, found, rounding, strict=True):
        expected, of_rounding = normal_points(points, mean, deviation)
        assert_allclose(row, expected, atol=1e-7)
        assert variance == pytest.approx(of_rounding, abs=1e-7)


@pytest.mark.parametrize("deviation", [0.02, 0.3])
def test_the_variance_of_values_does_not_include_their_rounding(deviation):
    """Which is .0029 half ranges squared here, and more than .02 squared."""
    rng, n = np.random.default_rng(0), 40_000
    plan = plan_entry_randomizer(4.0, Domain((-1.0, 1.0)))
    table = level_table(tuple(np.linspace(-1, 1, 16).tolist()), 4.0)
    mean = rng.uniform(-0.6, 0.6, n)
    values = np.clip(mean + deviation * rng.normal(size=n), -1, 1)
    plan = replace(plan, mechanism=table)
    drawn = plan.draw(values, source_of(0))
    found = _on_grid(table, drawn, mean, 0.0, 0.15, LIMITS)
    assert found == pytest.approx(deviation**2, rel=0.3)


def test_values_that_are_not_normal_tell_their_variance_too():
    """Of values at two points, normal ones would have 1.5 times the variance."""
    rng, n = np.random.default_rng(0), 40_000
    plan = plan_entry_randomizer(8.0, Domain((-1.0, 1.0)))
    mean = rng.uniform(-0.1, 0.1, n)
    values = np.where(rng.random(n) < (1 + mean) / 2, 1.0, -1.0)
    drawn = plan.draw(values, source_of(0))
    found = _on_grid(plan.mechanism, drawn, mean, 0.0, 0.15, LIMITS)
    assert found == pytest.approx(np.mean((values - mean) ** 2), rel=0.02)


def test_an_unbiased_estimate_counts_by_what_exceeds_its_error():
    assert _reconciled(1.0, 1.5, 0.5) == 1.0
    assert _reconciled(1.0, 0.6, 0.5) == 1.0
    assert _reconciled(1.0, 2.0, 0.5) == pytest.approx(1.75)
    assert _reconciled(1.0, 0.0, 0.5) == pytest.approx(0.25)
    assert _reconciled(1.0, 3.0, 0.0) == 3.0


@pytest.mark.thorough
def test_intervals_of_smooth_values_cover():
    """At 95%, over 3,000 values: .93 to .97. Laplace noise had .97 to .99."""
    rng = np.random.default_rng(3)
    a, b = np.linspace(0, 3, 60)[:, np.newaxis], np.linspace(0, 2, 50)
    values = 5 + 3 * np.sin(a + b) + 0.3 * rng.normal(size=(60, 50))
    X = np.argwhere(np.ones(values.shape))
    train = rng.random(len(X)) < 0.7
    y = values[tuple(X.T)]
    model = CPCompletion(
        2, epsilon=6.0, value_bounds=(0, 10), shape=(60, 50), random_state=0,
        perturbation="input",
    )  # fmt: skip
    model.fit(X[train], y[train])
    mean, deviation = model.predict(X[~train], return_std=True)
    covered = np.mean(np.abs(mean - y[~train]) <= 1.96 * deviation)
    assert 0.92 < covered < 0.98
