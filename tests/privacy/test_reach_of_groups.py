"""How far the curve of a group reaches: over which epsilons, deltas and sizes."""

import math

import numpy as np
import pytest

from sktensordp.privacy import gaussian_delta
from tests.support import divergence as D
from tests.support import events as E
from tests.support.guarantees import guarantee
from tests.support.seams import GroupCurve


def of_gaussian(mu, size):
    return GroupCurve(lambda epsilon: gaussian_delta(epsilon, mu), size)


def of_pure(epsilon_of_one, size, floor=0.0):
    """The curve of randomised response, which reveals its input now and then."""

    def delta(epsilon):
        largest = -math.expm1(epsilon - epsilon_of_one) / (
            1 + math.exp(-epsilon_of_one)
        )
        return floor + (1 - floor) * max(largest, 0.0)

    return GroupCurve(delta, size)


@pytest.mark.parametrize(("mu", "size"), [(2.0, 1), (2.0, 2), (0.3, 7), (0.01, 40)])
def test_small_deltas_of_small_groups_are_within_a_hundredth(mu, size):
    """Beside the closed form of Gaussian noise, down to a delta of 1e-10."""
    curve, smallest = of_gaussian(mu, size), 1.0
    # Where one unit's noise hardly goes.
    assert gaussian_delta(curve._reach, mu) == pytest.approx(1e-17, rel=0.01)
    assert curve.protects
    assert curve.losses == (-size * curve._reach, size * curve._reach)
    for epsilon in np.linspace(0, 1, 12) * curve.losses[1]:
        exact = float(D.exact_gaussian(mu * size, epsilon))
        stated = curve.delta(epsilon)
        assert stated >= exact * (1 - 1e-12)
        if exact > 1e-10:
            assert stated <= exact * 1.01
            smallest = min(smallest, exact)
    assert smallest < 1e-7


@pytest.mark.parametrize(("mu", "size"), [(2.0, 7), (0.3, 40), (0.3, 400), (10.0, 40)])
def test_beyond_its_reach_a_curve_states_no_less_than_the_truth(mu, size):
    """Nor does NumPy warn of numbers that leave the range of floats."""
    curve = of_gaussian(mu, size)
    far = [*np.linspace(-1, 1, 9) * curve.losses[1], 700.0, 1e4]
    for epsilon in far:
        exact = float(D.exact_gaussian(mu * size, abs(epsilon)))
        if epsilon < 0:
            exact = -math.expm1(epsilon) + math.exp(epsilon) * exact
        assert exact * (1 - 1e-12) <= curve.delta(epsilon) <= 1


@pytest.mark.parametrize(
    ("epsilon_of_one", "size"),
    [(1.0, 1), (1.0, 3), (1e-3, 400), (130.0, 5), (325.0, 2), (600.0, 1)],
)
def test_pure_groups_are_exact_up_to_an_epsilon_of_650(epsilon_of_one, size):
    """At worst, an epsilon alone means for a group a count with geometric noise."""
    curve, law = of_pure(epsilon_of_one, size), D.discrete_laplace(epsilon_of_one, size)
    whole = size * epsilon_of_one
    assert curve.protects
    assert curve._reach == pytest.approx(epsilon_of_one)
    assert curve.losses == pytest.approx((-whole, whole))
    for epsilon in (*np.linspace(0, whole, 8), whole - 0.1):
        exact = D.stick(law, max(epsilon, 0.0))
        assert curve.delta(epsilon) >= exact * (1 - 1e-12)
        assert curve.delta(epsilon) == pytest.approx(exact, rel=1e-6, abs=1e-9)
    assert curve.delta(whole * (1 + 1e-9) + 1e-9) < 1e-9


@pytest.mark.parametrize(("epsilon_of_one", "size"), [(130.0, 6), (700.0, 1)])
def test_larger_epsilons_than_650_protect_nobody(epsilon_of_one, size):
    curve = of_pure(epsilon_of_one, size)
    assert not curve.protects
    assert curve.losses[1] <= 650
    for epsilon in (0.0, 600.0, 649.0):
        assert curve.delta(epsilon) == pytest.approx(1)


@pytest.mark.parametrize("floor", [1e-12, 1e-3])
def test_a_delta_that_stays_ends_the_reach(floor):
    """The delta of a group is that of one, times the factors of the later steps."""
    curve = of_pure(0.5, 3, floor)
    assert curve._reach == pytest.approx(0.5, rel=1e-6)
    factor = math.exp(0.5)
    expected = floor * (1 + factor + factor**2)
    found = curve.delta(1.5 + 1e-6)
    assert expected * (1 - 1e-6) <= found <= expected * (1 + 1e-3)
    # Larger epsilons do not lessen it.
    assert curve.delta(100.0) == pytest.approx(found, rel=1e-2)
    assert curve.protects


def test_groups_of_more_than_10_000_are_not_protected():
    """Where all that is known is the curve of one."""
    tiny = guarantee(E.Revealing(1e-12, E.Gaussian(1e5)), 1e-6)
    assert not tiny.for_group(10_001).protects
    assert not of_pure(1e-5, 10_001).protects


@pytest.mark.thorough
def test_groups_of_10_000_are_protected():
    curve, law = of_pure(1e-4, 10_000), D.discrete_laplace(1e-4, 10_000)
    assert curve.protects
    for epsilon in (0.0, 0.3, 0.9):
        exact = D.stick(law, epsilon)
        assert exact <= curve.delta(epsilon) <= exact * 1.00001
