"""At extreme parameters every estimator refuses, or its law keeps what it states."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sktensordp import mechanisms
from sktensordp._random import NoiseSource
from sktensordp.completion import _sums
from sktensordp.completion._input import domain_lattice, plan_entry_randomizer
from sktensordp.completion._noisy_sums import plan_gaussian_sums, plan_laplace_sums
from sktensordp.noise import _lattice, laplace_lattice
from tests.support.every_estimator import CASES

often = partial(settings, deadline=None, derandomize=True, database=None)
EPSILONS = [
    5e-324,
    1e-300,
    1e-20,
    1e-9,
    1e-3,
    1.0,
    30.0,
    700.0,
    745.0,
    1e4,
    1e16,
    1e300,
]
DELTAS = [1e-300, 1e-16, 1e-6, 0.5, 1 - 1e-16]
SCALES = [1e-300, 1e-160, 1e-8, 1.0, 1e8, 1e160, 1e300]
# One extreme at a time, and all together.
SETTINGS = [
    *product(EPSILONS, [1e-6], [1.0]),
    *product([1.0], DELTAS, [1.0]),
    *product([1.0], [1e-6], SCALES),
    *product([5e-324, 1e300], [1e-300, 1 - 1e-16], [1e-300, 1e-8, 1e300]),
]


def powers(low, high):
    return st.floats(math.log10(low), math.log10(high)).map(lambda x: 10.0**x)


def scaled(case, epsilon, delta, size):
    """Parameters of a case at an extreme."""
    given, found = case.estimator.get_params(), {}
    prefix = "" if "epsilon" in given else "estimator__"
    for name, value in given.items():
        if not name.startswith(prefix):
            continue
        plain = name.removeprefix(prefix)
        if plain == "epsilon":
            found[name] = epsilon
        elif plain == "delta" and value:
            found[name] = delta
        elif plain in ("bounds", "value_bounds", "levels") and value is not None:
            found[name] = [size * end for end in value]
        elif plain in ("norm_bound", "sensitivity") and value is not None:
            found[name] = size * value
    return found


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.label) for c in CASES if c.private != "ids"]
)
def test_an_extreme_is_refused_or_released(case):
    n_released = 0
    for epsilon, delta, size in SETTINGS:
        params = scaled(case, epsilon, delta, size)
        try:
            estimator, released = case.release(**params)
        except ValueError:
            continue
        n_released += 1
        assert np.all(np.isfinite(np.asarray(released, dtype=float))), params
        guarantee = estimator.privacy_guarantee_
        if case.has_epsilon:
            assert guarantee.epsilon <= epsilon * (1 + 1e-12), params
        assert guarantee.epsilon_at(guarantee.delta) <= guarantee.epsilon * (1 + 1e-12)
    assert n_released >= 3


# Lattices: pure noise


def exact_epsilon(lattice, steps):
    return Fraction(steps) * Fraction(lattice.numerator, lattice.denominator)


@often(max_examples=200)
@given(
    low=st.floats(-1e150, 1e150) | powers(1e-150, 1e150),
    width=powers(1e-150, 1e150),
    epsilon=powers(1e-12, 1e300),
    n_cells=st.sampled_from([1, 3, 1000, 10**9]),
)
def test_laplace_lattices_of_boxes(low, width, epsilon, n_cells):
    high = low + width
    if not low < high:
        return
    try:
        lattice = laplace_lattice(low, high, epsilon, n_cells=n_cells)
    except ValueError:
        return
    ends = np.array([low, np.nextafter(low, high), np.nextafter(high, low), high])
    index = _lattice._lattice_index(ends, lattice.low, lattice.step, lattice.n_steps)
    apart = int(index.max()) - int(index.min())
    assert exact_epsilon(lattice, apart * n_cells) <= Fraction(epsilon)
    assert lattice.epsilon >= exact_epsilon(lattice, lattice.l1_steps)
    assert Fraction(lattice.rate) >= Fraction(lattice.numerator, lattice.denominator)


def test_one_step_less_of_the_range_is_found_out(monkeypatch):
    short = SimpleNamespace(**{**vars(np), "ceil": lambda x: np.ceil(x) - 1})
    monkeypatch.setattr(_lattice, "np", short)
    for epsilon in 0.1, 1.0:
        lattice = laplace_lattice(0.0, 1.0, epsilon)
        apart = round(1 / lattice.step)
        assert exact_epsilon(lattice, apart) > Fraction(epsilon)


@often(max_examples=200)
@given(
    l1=powers(1e-150, 1e150),
    epsilon=powers(1e-12, 1e150),
    n_cells=st.sampled_from([1, 3, 1000, 10**9]),
)
def test_laplace_lattices_of_balls(l1, epsilon, n_cells):
    try:
        lattice = laplace_lattice(-math.inf, math.inf, epsilon, n_cells=n_cells, l1=l1)
    except ValueError:
        return
    # Values are moved by half a step each; whole steps are apart.
    apart = math.floor(Fraction(l1) / Fraction(lattice.step)) + n_cells
    assert exact_epsilon(lattice, apart) <= Fraction(epsilon)


@pytest.mark.parametrize("bounds", [
    (0.0, 1.0), (1.0, 1 + 2**-52), (1e16, 1e16 + 2), (-1e-17, 1.0), (-5e49, 5e49),
    (1e-50, 3e-50),
])  # fmt: skip
@pytest.mark.parametrize("epsilon", [1e-7, 1e-3, 1.0, 30.0, 700.0, 1e6])
def test_lattices_of_values(bounds, epsilon):
    for n_values in (1, 10**9):
        lattice = domain_lattice(epsilon, bounds, None, n_values)
        assert exact_epsilon(lattice, lattice.n_steps) <= Fraction(epsilon)
        covered = Fraction(lattice.step) * lattice.n_steps
        assert covered >= Fraction(bounds[1]) - Fraction(bounds[0]) - Fraction(
            lattice.step
        )


@pytest.mark.parametrize("far", [2**53 - 1, 2**53, 2**53 + 1, 2**54 + 2, 2**61 + 1])
def test_only_the_sum_of_value_and_noise_is_released(monkeypatch, far):
    lattice = laplace_lattice(0.0, 1.0, 1.0)

    def released(steps, noise):
        monkeypatch.setattr(
            _lattice, "discrete_laplace", lambda *_: np.array([noise], dtype=np.int64)
        )
        values = np.array([steps * lattice.step])
        return lattice.randomize(values, None)[0]

    for sign in (-1, 1):
        for k in range(4):
            found = {released(i, sign * far + k - i) for i in range(4)}
            assert len(found) == 1


@pytest.mark.parametrize("far", [2**53 + 1, 2**60 + 1])
def test_sums_and_noise_are_added_exactly(monkeypatch, far):
    values = plan_entry_randomizer(1.0, (0.0, 1.0), None, None, declared=True)

    def released(steps, noise):
        monkeypatch.setattr(_sums, "discrete_laplace", lambda *_: noise)
        planned = _sums.plan_sums_randomizer(
            values, 1.0, np.zeros((1, 2), int), (1, 1), declared=True
        )
        value = np.array([planned.lattice.low + steps * planned.lattice.step])
        return tuple(planned.randomize(value, NoiseSource(0, 0)))

    assert len({released(i, far - i) for i in range(8)}) == 1


@often(max_examples=60)
@given(
    epsilon=powers(1e-7, 1e4),
    n_releases=st.integers(1, 1000),
    n_changed=st.integers(1, 10**5),
    n_entries=st.sampled_from([1, 10**6, 10**9]),
)
def test_laplace_sums(epsilon, n_releases, n_changed, n_entries):
    try:
        sums = plan_laplace_sums(
            epsilon, n_releases=n_releases, n_changed=n_changed, n_entries=n_entries
        )
    except ValueError:
        return
    apart = math.floor(1 / Fraction(sums.lattice.step)) + n_changed
    assert n_releases * exact_epsilon(sums.lattice, apart) <= Fraction(epsilon)


# Lattices: Gaussian noise


def gaussian_truth(lattice, n_cells, mu, epsilon):
    """Delta of noise with a sampler, by the published bound of its distance."""
    with mpmath.workdps(60):
        m = max(math.frexp(x)[1] - 1 for x in np.ravel(lattice.sigma / lattice.step))
        eta = 3 * mpmath.mpf("3.92") * mpmath.mpf(2) ** (m - 51)
        d1 = mpmath.mpf(lattice.residual_delta)
        e1 = n_cells * eta**2 + eta * mpmath.sqrt(2 * n_cells * mpmath.log(1 / d1))
        left = mpmath.mpf(epsilon) - 2 * e1
        t, mu = left / mu - mu / 2, mpmath.mpf(mu)
        ideal = mpmath.ncdf(-t) - mpmath.exp(left) * mpmath.ncdf(-t - mu)
        clipped = 2 * n_cells * mpmath.ncdf(-lattice.clip)
        assert d1 >= clipped
        return mpmath.exp(e1) * ideal + d1 * (1 + mpmath.exp(epsilon - e1))


def exact(number):
    return mpmath.mpf(float(number))


BOXES = [
    {"bounds": (0, 1)},
    {"bounds": (1.0, 1 + 2**-52)},
    {"bounds": (1e16, 1e16 + 2)},
    {"bounds": (-1e140, 1e140)},
    {"bounds": ([0, 0, 0, 1e-30], [1e-30, 1.0, 1e30, 3e-30])},
    {"bounds": (-1e-17, 1.0)},
]
BALLS = [
    *({name: size} for name in ("norm_bound", "sensitivity")
      for size in (1e-140, 1.0, 1e120)),
]  # fmt: skip
MECHANISMS = [
    mechanisms.GaussianMechanism,
    partial(mechanisms.TensorVariateGaussian, utility=[[1e-300, 0.0, 1.0, 1e-3]]),
    partial(mechanisms.TensorVariateGaussian, utility=[[1e10, 1.0, 1e-20, 0.0]]),
    mechanisms.UnimodalDirectionalNoise,
    partial(mechanisms.IndependentDirectionalNoise, utility=[1e-300, 1, 1e8, 0.0]),
]
KEPT = [
    (1e-3, 1e-16),
    (1e-3, 0.5),
    (1.0, 1e-6),
    (1.0, 1e-100),
    (30.0, 1e-6),
    (1.0, 0.9),
]


def true_mu(plan, shrunk=1.0):
    """Largest distance of two values on the lattice, in deviations of the noise."""
    lattice, domain = plan.lattice, plan.domain
    n = domain.n_entries
    sigma, step = (np.broadcast_to(x, n) for x in (lattice.sigma, lattice.step))
    scales = [exact(s) / exact(h) for s, h in zip(sigma, step, strict=True)]
    if lattice.n_steps is not None:
        steps = np.broadcast_to(lattice.n_steps, n)
        return mpmath.sqrt(sum((int(k) / s) ** 2 for k, s in zip(steps, scales)))  # noqa: B905
    apart = exact(domain.sensitivity or 2 * domain.norm_bound) / min(map(exact, sigma))
    return shrunk * (apart + mpmath.sqrt(sum(s**-2 for s in scales)))


@pytest.mark.parametrize("make", MECHANISMS)
@pytest.mark.parametrize("domain", [*BOXES, *BALLS], ids=str)
def test_gaussian_mechanisms_keep_epsilon_and_delta(make, domain):
    n_kept = 0
    for epsilon, delta in KEPT:
        try:
            mechanism = make(epsilon, delta=delta, **domain).fit(np.zeros((2, 4)))
        except ValueError:
            # Of a few settings the sampler is not near enough.
            continue
        n_kept += 1
        plan = mechanism._plan
        with mpmath.workdps(60):
            mu = true_mu(plan)
            assert gaussian_truth(plan.lattice, 4, mu, epsilon) <= delta
            assert exact(mechanism.privacy_guarantee_.delta_at(epsilon)) <= delta * (
                1 + 1e-12
            )
            # A millionth less noise is found out, where delta is what is spent.
            more = gaussian_truth(plan.lattice, 4, mu * (1 + 1e-4), epsilon)
            assert more > delta or delta > 0.8
    # Noise of one scale is too coarse or too fine for very different ranges.
    assert n_kept >= 3 or domain is BOXES[4]


@pytest.mark.parametrize("n_entries", [1, 10**6, 10**9])
@pytest.mark.parametrize(("epsilon", "delta"), KEPT)
def test_gaussian_sums_keep_epsilon_and_delta(epsilon, delta, n_entries):
    for n_releases, n_changed in (1, 0), (1, 5), (50, 10**4):
        n_cells = 100 * n_releases
        try:
            sums = plan_gaussian_sums(
                epsilon, delta, within=epsilon, n_releases=n_releases,
                n_cells=n_cells, n_changed=n_changed, n_entries=n_entries,
            )  # fmt: skip
        except ValueError:
            continue
        with mpmath.workdps(60):
            apart = 1 + exact(sums.lattice.step) * mpmath.sqrt(n_changed)
            mu = apart / exact(sums.lattice.sigma) * mpmath.sqrt(n_releases)
            assert gaussian_truth(sums.lattice, n_cells, mu, epsilon) <= delta


def near_the_limit():
    """By how much noise near the least epsilon of its sampler exceeds its delta."""
    excesses = []
    for epsilon in np.geomspace(1e-6, 1e-4, 30):
        try:
            noise = mechanisms.GaussianMechanism(epsilon, delta=1e-6, norm_bound=1.0)
            plan = noise.fit(np.zeros((1, 100)))._plan
        except ValueError:
            continue
        with mpmath.workdps(60):
            mu = true_mu(plan)
            excesses.append(gaussian_truth(plan.lattice, 100, mu, epsilon) / 1e-6 - 1)
    assert len(excesses) > 10
    return max(excesses)


def test_the_sampler_of_larger_noise_is_accounted_for(monkeypatch):
    assert near_the_limit() <= 0

    def as_near_as_before(lattice, factor):
        return replace(lattice, sigma=lattice.sigma * factor)

    monkeypatch.setattr(_lattice.GaussianLattice, "scaled", as_near_as_before)
    assert near_the_limit() > 1e-3
