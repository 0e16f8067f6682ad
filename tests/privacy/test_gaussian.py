"""The Gaussian curve against reference values and many-digit arithmetic."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sktensordp.privacy import gaussian_delta, gaussian_mu, gaussian_sigma

EPSILONS = [1e-3, 0.1, 0.5, 1.0, 3.0, 10.0, 1e3]
DELTAS = [1e-300, 1e-100, 1e-12, 1e-5, 1e-2, 0.5]
# Asked for in the documentation's terms ("about 1e-12"), with room for the last
# digits of t^2/2 where delta is near 1e-300 (690 in the exponent).
RELATIVE = 1e-9


def exact_delta(epsilon, mu):
    with mpmath.workdps(60):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(
            -mu / 2 - epsilon / mu
        )


def relative_error(value, reference):
    with mpmath.workdps(60):
        return abs(float(mpmath.mpf(value) / mpmath.mpf(reference) - 1))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_mu_is_the_root(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert exact_delta(epsilon, mu * (1 - RELATIVE)) < delta
    assert exact_delta(epsilon, mu * (1 + RELATIVE)) > delta
    assert relative_error(gaussian_delta(epsilon, mu), delta) < RELATIVE


@pytest.mark.parametrize("epsilon", [0.0, *EPSILONS])
@pytest.mark.parametrize("mu", [1e-6, 0.3, 0.999, 1.0, 1.001, 20.0, 50.0])
def test_delta_at_many_digits(epsilon, mu):
    exact = exact_delta(epsilon, mu)
    ours = gaussian_delta(epsilon, mu)
    if exact < 1e-290:
        assert ours <= 1e-290
    else:
        # What the documentation promises is "about 1e-12".
        assert relative_error(ours, exact) < 1e-11


@pytest.mark.thorough
@given(
    epsilon=st.floats(1e-3, 1e3), log_delta=st.floats(math.log(1e-300), math.log(0.5))
)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_round_trip(epsilon, log_delta):
    delta = math.exp(log_delta)
    ours = gaussian_delta(epsilon, gaussian_mu(epsilon, delta))
    assert ours == pytest.approx(delta, rel=RELATIVE)


def test_monotone():
    deltas = np.array([[gaussian_delta(e, m) for m in (0.2, 1, 4)] for e in EPSILONS])
    assert np.all(np.diff(deltas[:6, 1:], axis=0) < 0)
    assert np.all(np.diff(deltas[:5], axis=1) > 0)
    mus = np.array([[gaussian_mu(e, d) for d in DELTAS] for e in EPSILONS])
    assert np.all(np.diff(mus, axis=0) > 0)
    assert np.all(np.diff(mus, axis=1) > 0)


def test_continuous_where_the_formula_changes():
    # The branches meet at mu = 1 and at epsilon = mu^2 / 2. A step of 2e-12 moves
    # log delta by about (epsilon / mu)^2 times as much, 5e-11 at most.
    for epsilon in (0.0, 0.1, 1.0, 5.0):
        below, above = (gaussian_delta(epsilon, 1 + h) for h in (-1e-12, 1e-12))
        assert below == pytest.approx(above, rel=1e-10)
    for mu in (1.5, 6.0):
        left, right = (gaussian_delta(mu * mu / 2 + h, mu) for h in (-1e-12, 1e-12))
        assert left == pytest.approx(right, rel=1e-10)


def test_tiny_mu_is_linear_at_zero():
    # delta(0; mu) = 2 Phi(mu/2) - 1 = mu / sqrt(2 pi) + O(mu^3).
    assert gaussian_delta(0.0, 1e-300) == pytest.approx(
        1e-300 / math.sqrt(2 * math.pi), rel=1e-12
    )


@pytest.mark.parametrize("sensitivity", [1e-6, 0.5, 1, 3.0, 1e9])
def test_sigma_scales_with_the_sensitivity(sensitivity):
    unit = gaussian_sigma(0.7, 1e-6)
    assert unit * gaussian_mu(0.7, 1e-6) == pytest.approx(1, rel=1e-15)
    assert gaussian_sigma(0.7, 1e-6, sensitivity=sensitivity) == pytest.approx(
        sensitivity * unit, rel=1e-15
    )


def test_zero_and_infinity():
    assert gaussian_sigma(1.0, 1e-5, sensitivity=0.0) == 0.0
    assert gaussian_mu(math.inf, 1e-5) == math.inf
    assert gaussian_sigma(math.inf, 1e-5, sensitivity=3.0) == 0.0
    assert gaussian_delta(0.0, 0.0) == 0.0
    assert gaussian_delta(math.inf, 0.0) == 0.0
    assert gaussian_delta(math.inf, 5.0) == 0.0
    assert gaussian_delta(0.0, math.inf) == 1.0
    assert gaussian_delta(5.0, math.inf) == 1.0
    assert gaussian_delta(math.inf, math.inf) == 1.0


def test_delta_is_a_probability():
    values = [gaussian_delta(e, m) for e in (0.0, 1e-9, 1, 700) for m in (1e-9, 1, 80)]
    assert min(values) >= 0
    assert max(values) <= 1
    assert gaussian_delta(0.0, 80.0) == 1.0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_mu_refuses_epsilon(epsilon):
    with pytest.raises(ValueError, match="epsilon must be > 0"):
        gaussian_mu(epsilon, 1e-5)
    with pytest.raises(ValueError, match="epsilon must be > 0"):
        gaussian_sigma(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_mu_refuses_delta(delta):
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
        gaussian_mu(1.0, delta)
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
        gaussian_mu(math.inf, delta)
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
        gaussian_sigma(1.0, delta)


@pytest.mark.parametrize("value", [-1e-300, -1.0, math.nan])
def test_delta_refuses(value):
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        gaussian_delta(value, 1.0)
    with pytest.raises(ValueError, match="mu must be >= 0"):
        gaussian_delta(1.0, value)


@pytest.mark.parametrize("sensitivity", [-1.0, math.inf, math.nan])
def test_sigma_refuses_sensitivity(sensitivity):
    with pytest.raises(ValueError, match="sensitivity must be finite and >= 0"):
        gaussian_sigma(1.0, 1e-5, sensitivity=sensitivity)


@pytest.mark.parametrize(("epsilon", "mu"), [(1.0, 1e-170), (1.0, 1e-310)])
def test_delta_of_a_vanishing_mu(epsilon, mu):
    assert gaussian_delta(epsilon, mu) == 0.0
