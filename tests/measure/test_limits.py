"""Limits of integers: at equality all numbers are exact, and one beyond is refused.

No test holds so many people. Plans and checks are called with that size, and releases
get sums that are as large as so many people could make them.
"""

import math
from dataclasses import replace
from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from dp_accounting import dp_event

from sktensordp.measure import (
    MOST_STEPS,
    BoundedSums,
    NoiseShares,
    ProductSums,
    Releases,
    SharedNoise,
    plan_gaussian_sums,
    plan_laplace_sums,
)
from sktensordp.noise import discrete_laplace, laplace_lattice
from sktensordp.privacy import PrivacyGuarantee
from tests.support.noise import source_of
from tests.support.people import Asking, Summed
from tests.support.seams import (
    Domain,
    _signed,
    check_coordinates,
    check_shape,
    plan_sums_randomizer,
)

# Most units of a mode, whose indices are below 2^31 - 1.
MOST_UNITS = 2**31 - 1
PLANS = {
    "gaussian": lambda epsilon, n: plan_gaussian_sums(
        epsilon,
        1e-6,
        total_epsilon=epsilon,
        n_cells=9,
        n_entries=n,
        n_releases=1,
        n_moved=3,
    ),
    "laplace": lambda epsilon, n: plan_laplace_sums(
        epsilon, n_entries=n, n_releases=1, n_cells_per_entry=3
    ),
}


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("epsilon", [0.5, 600.0])
def test_as_many_values_are_planned_for_as_sums_can_hold(kind, epsilon):
    noise = PLANS[kind](epsilon, 2**41)
    assert 2**41 / noise.step <= MOST_STEPS / 2
    with pytest.raises(ValueError, match="too many values to be summed exactly"):
        PLANS[kind](epsilon, 2**41 + 1)


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("n", [2**41, MOST_UNITS, 1])
def test_noise_is_added_exactly_to_the_largest_sums(kind, n):
    noise = PLANS[kind](600.0, n)
    largest = math.floor(n / noise.step)
    sums = np.array([largest, largest - 1, -largest, 1 - largest, 0.0])
    (noisy,) = noise.randomize([sums * noise.step], source_of(0))
    drawn = noisy / noise.step - sums
    (of_zeros,) = noise.randomize([np.zeros(5)], source_of(0))
    assert np.array_equal(drawn * noise.step, of_zeros)


def bounded(share, step):
    return BoundedSums((1, 4), 1.0, share, step)


def products(share, step):
    return ProductSums(np.zeros(2, np.int64), 1.0, share, step)


def largest_totals(sums, n, sign):
    """Totals of so many units of which each adds as much as it may to all sums."""
    if isinstance(sums, BoundedSums):
        return np.full(sums.shape, sign * math.floor(sums.largest(n)), float)
    # In units of 2^-48, and twice that on the diagonal.
    cells = [sign * n * math.floor(c * math.sqrt(sums.share)) for c in CELLS]
    return np.array([[c >> 32 for c in cells], [c & 0xFFFFFFFF for c in cells]])


CELLS = [2**49, 2**48, 2**49]


@pytest.mark.parametrize("make", [bounded, products])
@pytest.mark.parametrize("share", [1.0, 0.02])
@pytest.mark.parametrize("n", [MOST_UNITS, 64])
def test_the_largest_sums_of_units_do_not_wrap(make, share, n):
    for epsilon, sign in product([0.5, 600.0], [1, -1]):
        noise = PLANS["gaussian"](epsilon, n)
        sums = make(share, noise.step)
        totals = largest_totals(sums, n, sign)
        exact = sums.on_lattice(totals) / noise.step
        most = n * math.sqrt(share) / noise.step
        assert np.all(np.abs(exact * sign - most) <= 1)
        assert sums.largest(n) <= MOST_STEPS
        ((noisy, _),) = Releases(noise, source_of(0)).ask(
            Summed((totals,)), Asking((sums,))
        )
        drawn = noisy / sums.unit / noise.step - exact
        assert np.all(np.abs(drawn) < 8 * math.sqrt(noise.noise_variance) / noise.step)
        # As an answer of parties, modulo 2 to the power of the number of bits.
        steps = sums.rounded(totals).ravel()
        assert decoded(steps, bounded(share, noise.step).n_bits(n)) == steps.tolist()
        assert decoded(totals.ravel(), sums.n_bits(n)) == totals.ravel().tolist()


def decoded(integers, n_bits):
    residues = np.array([int(k) % 2**n_bits for k in integers], np.uint64)
    return _signed(residues, n_bits).tolist()


@pytest.mark.parametrize(
    ("domain", "epsilon", "most"),
    [
        (Domain((0.0, 1.0), levels=(0.0, 1.0)), 1.0, 2**52),
        (Domain((1.0, 5.0), levels=(1.0, 2.0, 3.0, 4.0, 5.0)), 600.0, 2**50),
        (Domain((-1.0, 1.0)), 600.0, 2**42),
    ],
)
def test_the_largest_sums_of_entries_are_exact(domain, epsilon, most):
    entries = SimpleNamespace(shape=(2, 2), n_entries=most)
    plan = partial(plan_sums_randomizer, domain, epsilon, modes=())
    randomizer = plan(entries)
    for total in (most * randomizer.lattice.n_steps, 0):
        entries.summed = Summed((np.array([float(total)]),)).summed
        (found,) = randomizer.release(entries, source_of(0))
        bits, lattice = source_of(0).stream(0), randomizer.lattice
        (noise,) = discrete_laplace(bits, lattice.numerator, lattice.denominator, 1)
        assert found == (total + noise) * lattice.step + lattice.low * most
    with pytest.raises(ValueError, match="too many values to be summed exactly"):
        plan(SimpleNamespace(shape=(2, 2), n_entries=most + 1))


def test_a_range_of_2_to_62_steps_is_the_finest():
    lattice = laplace_lattice(0.0, 1.0, 2.0**42)
    assert lattice.n_steps == 2**62
    ends = np.array([0.0, 1.0, -1e300, 1e300])
    noisy = lattice.randomize(ends, source_of(0).stream(0))
    assert np.allclose(noisy, [0, 1, 0, 1], rtol=0, atol=1e-10)
    assert laplace_lattice(0.0, 1.0, 2.0**42, n_cells=2).l1_steps == 2**62
    for epsilon, n_cells in ((2.0**43, 1), (2.0**42, 3)):
        with pytest.raises(ValueError, match="too small or too large"):
            laplace_lattice(0.0, 1.0, epsilon, n_cells=n_cells)


@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.uint64, float])
def test_indices_fit_32_bits(dtype):
    shape = check_shape((MOST_UNITS, 2))
    last = np.array([[MOST_UNITS - 1, 1]], dtype)
    assert check_coordinates(last, shape=shape).tolist() == [[MOST_UNITS - 1, 1]]
    for index in (MOST_UNITS, 2**31, 2**32 - 1):
        with pytest.raises(ValueError, match="below 2"):
            check_coordinates(np.array([[index, 1]], dtype))
    with pytest.raises(ValueError, match="shape must hold"):
        check_shape((MOST_UNITS + 1, 2))


@pytest.mark.parametrize("n_bits", [1, 2, 32, 53, 63, 64])
def test_residues_are_read_as_they_were_meant(n_bits):
    half = 2 ** (n_bits - 1)
    meant = [-half, -1, 0, half - 1]
    assert decoded(meant, n_bits) == meant
    assert decoded([half, -half - 1], n_bits) == [-half, half - 1]


@pytest.mark.parametrize("n", [2**17, MOST_UNITS])
def test_products_without_noise_do_not_wrap(n):
    """Of users who all have the same products, each of length 1."""
    sums = products(1.0, 0.0)
    for sign in (1, -1):
        found = sums.on_lattice(largest_totals(sums, n, sign))
        assert found.tolist() == [sign * n] * 3


def test_noise_in_shares_fits_53_bits():
    noise = SharedNoise(NoiseShares(4), 2.0**-20, 2**10, 9)
    of_noise = 40 * 2**10 * 2
    assert noise.n_bits((2**52 - 1) / (1 + 1e-9) - of_noise - 1) == 53
    with pytest.raises(ValueError, match="too large to be added exactly"):
        noise.n_bits(2**52 - of_noise)
    # What the noise itself may reach.
    scale = math.floor((2**52 - 1) / (1 + 1e-9) / 80) - 1
    assert replace(noise, scale=scale).n_bits(0.0) == 53
    with pytest.raises(ValueError, match="too large to be added exactly"):
        replace(noise, scale=math.ceil(2**52 / 80)).n_bits(0.0)


@pytest.mark.parametrize(
    "event", [dp_event.GaussianDpEvent(1e9), dp_event.LaplaceDpEvent(1e18)]
)
def test_counts_of_releases_are_exact_or_without_limit(event):
    one = PrivacyGuarantee.from_event(
        event, delta=1e-6, unit="entry", statement="", source=""
    )
    most = one.repeated(2**53).epsilon
    assert 0 < one.repeated(2**53 - 1).epsilon <= most < 1
    assert math.isinf(one.repeated(2**53 + 1).epsilon)
    assert math.isinf(one.repeated(2**63 - 1).epsilon)
    with pytest.raises(ValueError, match="count must be from 1"):
        one.repeated(2**63)
