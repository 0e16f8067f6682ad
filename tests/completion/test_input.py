"""Input perturbation: the distribution of every draw, from its integers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from tests.support.noise import source_of
from tests.support.points import POINTS
from tests.support.seams import (
    Domain,
    Entries,
    NoiseStreams,
    domain_lattice,
    plan_entry_randomizer,
)

STARS = tuple(np.arange(0.5, 5.1, 0.5).tolist())
EPSILONS = [1e-3, 0.3, 1.0, 4.0, 8.0, 30.0]
FINE = tuple(np.arange(101.0).tolist())


def exp_fraction(epsilon):
    """A rational upper bound of e^epsilon, tight to 1e-15."""
    return Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**15))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("levels", [(0.0, 1.0), (1.0, 2.0, 4.0, 8.0), STARS])
def test_table_keeps_the_ratio_in_exact_arithmetic(levels, epsilon):
    plan = plan_entry_randomizer(epsilon, Domain((levels[0], levels[-1]), levels))
    bound = exp_fraction(epsilon)
    for column in zip(*plan.mechanism.weights, strict=True):
        assert max(column) <= bound * min(column)
    found = plan.guarantee
    assert 0.999 * min(epsilon, 30) <= found.epsilon <= epsilon
    assert (found.delta, found.unit) == (0, "entry")
    assert (found.relation, found.claimed) == ("replace-one", None)
    assert found.epsilon_at(0) == found.epsilon
    assert found.delta_at(epsilon) == 0


@pytest.mark.parametrize("epsilon", [0.3, 8.0, 110.0])
@pytest.mark.parametrize(
    ("bounds", "levels"),
    [
        ((0.5, 5.0), None),
        ((-1e9, 1e9 + 1), None),
        ((1e9, 1e9 + 1e-3), None),
        ((0.0, 100.0), FINE),
        ((0.0, 1600.0), tuple((np.arange(41.0) ** 2).tolist())),
    ],
)
def test_laplace_keeps_the_ratio_in_exact_arithmetic(bounds, levels, epsilon):
    domain = Domain(bounds, levels)
    lattice = domain_lattice(epsilon, domain)
    realised = Fraction(lattice.n_steps * lattice.numerator, lattice.denominator)
    assert realised <= Fraction(epsilon)
    # No value of the domain, nor one outside it, is farther than n_steps away.
    values = np.array([-math.inf, -1e300, *bounds, np.mean(bounds), 1e300, math.inf])
    index = (domain.clip(values) - lattice.low) / lattice.step
    assert np.ptp(np.clip(np.rint(index), 0, lattice.n_steps)) <= lattice.n_steps


def test_the_largest_budgets_of_ranges_add_laplace_noise():
    plan = plan_entry_randomizer(110.0, Domain((0.5, 5.0)))
    assert plan.mechanism == domain_lattice(110.0, plan.domain)
    assert 109 < plan.guarantee.epsilon <= 110


def test_many_even_levels_use_their_own_step():
    levels = tuple(np.linspace(10, 20, 101).tolist())
    plan = plan_entry_randomizer(110.0, Domain((10.0, 20.0), levels))
    assert plan.mechanism.step == pytest.approx(0.1)
    assert plan.mechanism.n_steps == 100
    noisy = plan.randomize(np.full(1000, 15.04), source_of(0))
    offsets = (noisy - 10) / 0.1
    np.testing.assert_allclose(offsets, np.rint(offsets), atol=1e-6)


def test_levels_of_a_tiny_scale_are_not_taken_for_even():
    levels = 1e-10 * np.arange(40) ** 2
    domain = Domain((0.0, levels[-1]), tuple(levels.tolist()))
    lattice = domain_lattice(1.0, domain)
    index = (levels - lattice.low) / lattice.step
    assert np.max(np.abs(index - np.rint(index))) * lattice.step < 1e-3 * levels[1]


@pytest.mark.parametrize(("levels", "epsilon"), [(None, 110.0), (STARS, 2.0)])
def test_draws_are_unbiased_with_the_stated_variance(levels, epsilon):
    """z-tests at 1e-9 false alarms each; half the noise would be 90 sigma off."""
    plan = plan_entry_randomizer(epsilon, Domain((0.5, 5.0), levels))
    n = 200_000
    for seed, value in enumerate([0.5, 3.0, 5.0]):
        noisy = plan.randomize(np.full(n, value), source_of(seed))
        variance = plan.noise_variance
        if levels is not None:
            variance = plan.mechanism.level_variances[levels.index(value)]
            assert variance >= plan.noise_variance - 1e-12
        assert abs(noisy.mean() - value) < 6.1 * math.sqrt(variance / n)
        # The fourth moment of both laws is below 10 variances squared.
        assert abs(noisy.var() / variance - 1) < 6.1 * math.sqrt(9 / n)


@pytest.mark.parametrize("levels", [None, STARS])
def test_values_outside_the_domain_become_its_ends(levels):
    plan = plan_entry_randomizer(2.0, Domain((0.5, 5.0), levels))
    inside = plan.randomize(np.array([0.5, 5.0] * 50), source_of(1))
    outside = plan.randomize(np.array([-7.0, 1e12] * 50), source_of(1))
    np.testing.assert_array_equal(inside, outside)


@pytest.mark.parametrize("epsilon", [1.0, 110.0])
def test_noise_depends_on_block_and_position_alone(epsilon):
    plan = plan_entry_randomizer(epsilon, Domain((0.0, 1.0)))
    values = np.random.default_rng(0).random(2**16 + 100)
    whole = plan.randomize(values, source_of(3))
    changed = values.copy()
    changed[0] = 1 - changed[0]
    other = plan.randomize(changed, source_of(3))
    np.testing.assert_array_equal(whole[1:], other[1:])
    first_block = plan.randomize(values[: 2**16], source_of(3))
    np.testing.assert_array_equal(whole[: 2**16], first_block)
    alike = plan.randomize(np.zeros(2**16 + 100), source_of(3))
    assert np.mean(alike[:100] != alike[2**16 :]) > 0.2


@pytest.mark.parametrize("levels", [None, STARS])
@pytest.mark.parametrize("streams", [None, NoiseStreams(0, 0)], ids=["none", "others"])
def test_no_value_leaves_that_no_budget_has_recorded(levels, streams):
    """Not as one that a client has randomised, either, unless a client has."""
    plan = plan_entry_randomizer(1.0, Domain((0.5, 5.0), levels))
    values = plan.outputs[:2]
    elsewhere = streams and streams.sent()
    for unrecorded in (streams, elsewhere):
        with pytest.raises(RuntimeError, match="No budget has recorded"):
            plan.draw(values, unrecorded)
        with pytest.raises(RuntimeError, match="No budget has recorded"):
            Entries(np.eye(2, dtype=int), values, (2, 2)).randomized(plan, unrecorded)
    received = Entries(np.eye(2, dtype=int), values, (2, 2), received=True)
    assert len(received.randomized(plan, None).drawn) == 2


def test_values_are_rounded_to_the_nearest_level():
    domain = Domain((1.0, 10.0), (1.0, 2.0, 4.0))
    found = domain.clip(np.array([-5, 1.4, 1.6, 2.9, 3.1, 99.0]))
    np.testing.assert_array_equal(found, [1, 1, 2, 2, 4, 4])


@pytest.mark.thorough
@pytest.mark.parametrize("perturbation", ["gradient", "output", "statistics", "sums"])
def test_only_fits_to_single_values_compute_a_table(monkeypatch, perturbation):
    """A table is the solution of a linear programme; no other fit draws from one."""
    ratings = make_ratings(12, 10, 80, random_state=0)
    X, y = ratings.data, ratings.target

    def refuse(*_):
        raise AssertionError("A table was computed.")

    monkeypatch.setattr(*POINTS["table of levels"], refuse)
    model = CPCompletion(2, shape=(12, 10), levels=STARS, max_iter=2, random_state=0)
    model.set_params(perturbation=perturbation).fit(X, y)
    if perturbation in ("statistics", "sums"):
        model.set_params(perturbation="auto", unit=0).fit(X, y)
    model.set_params(perturbation="input", unit="entry")
    with pytest.raises(AssertionError, match="A table"):
        model.fit(X, y)
