"""The curve of projected covariances against many digits and numerical integrals."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sktensordp.privacy.accounting._events import ProjectionDpEvent
from sktensordp.privacy.accounting._projections import (
    _log_mass,
    projection_delta,
    projection_tau,
)
from sktensordp.privacy.accounting._renyi import event_renyi

RELATIVE = 1e-9
# Epsilons in units of tau sqrt(r / 2), where the log-likelihood ratio spreads.
SPREADS = [0.0, 1e-3, 0.5, 2.0, 5.0, 8.0]


def exact_delta(epsilon, r, tau):
    """The difference of chi-square tails with 80 digits, in both orders."""
    with mpmath.workdps(80):
        epsilon, tau, a = mpmath.mpf(epsilon), mpmath.mpf(tau), mpmath.mpf(r) / 2
        h, k = a * mpmath.log1p(tau), 2 * (1 + tau) / tau
        c1, c0 = max(k * (h + epsilon), 0), max(k * (h - epsilon), 0)

        def upper(c):
            return mpmath.gammainc(a, c / 2, mpmath.inf, regularized=True)

        def lower(c):
            return mpmath.gammainc(a, 0, c / 2, regularized=True)

        weight = mpmath.exp(epsilon)
        removed = upper(c1 / (1 + tau)) - weight * upper(c1)
        return max(removed, lower(c0) - weight * lower(c0 / (1 + tau)))


def check(epsilon, r, tau, relative=2e-12):
    exact, ours = exact_delta(epsilon, r, tau), projection_delta(epsilon, r, tau)
    if exact < 1e-290:
        assert ours <= 1e-289
    else:
        with mpmath.workdps(80):
            assert abs(float(ours / exact - 1)) < relative


@pytest.mark.parametrize("r", [1, 2, 34, 35, 300])
@pytest.mark.parametrize("tau", [1e-9, 1e-3, 1.0, 1e5])
def test_delta_at_many_digits(r, tau):
    unit = tau / (1 + tau) * math.sqrt(r / 2)
    for epsilon in [s * unit for s in SPREADS] + [0.3, 4.0, 100.0, 800.0]:
        check(epsilon, r, tau)
        check(-min(epsilon, 50.0), r, tau)


@pytest.mark.parametrize("order", [1 + 1e-7, 1.02, 2.0, 30.0, 1e4, 2e5])
@pytest.mark.parametrize("tau", [1e-9, 1e-6, 1e-4, 0.049, 0.051, 0.3, 5.0])
def test_renyi_divergence_at_many_digits(tau, order):
    """Never below the true one, where the two terms of the formula nearly cancel."""
    ours = event_renyi(ProjectionDpEvent(7, tau), order)
    with mpmath.workdps(80):
        variance, a, divergences = 1 + mpmath.mpf(tau), mpmath.mpf(order), []
        for above, below in ((variance, mpmath.mpf(1)), (mpmath.mpf(1), variance)):
            mixed = a * below + (1 - a) * above
            if mixed <= 0:
                assert ours == math.inf
                return
            divergences.append(
                mpmath.log(below / above) / 2
                + mpmath.log(below / mixed) / (2 * (a - 1))
            )
        exact = 7 * max(divergences)
        assert exact <= ours <= exact * (1 + 1e-12)


@pytest.mark.parametrize("r", [1, 4, 35, 1001])
@pytest.mark.parametrize("tau", [1e-6, 0.1, 3.0, 1e3])
def test_adding_a_row(r, tau):
    # The other order is at least as large wherever both have been computed, so that
    # the maximum does not show this one.
    h, slope, a = r / 2 * math.log1p(tau), tau / (1 + tau), mpmath.mpf(r) / 2
    for epsilon in [h * share for share in (0.0, 0.3, 0.9, 1 - 1e-9)]:
        edge = np.sqrt(np.array([(h - epsilon) / slope]))
        ours = _log_mass(edge, -1, slope, r)[0]
        with mpmath.workdps(80):
            x, left = mpmath.mpf(edge[0]) ** 2, 1 - mpmath.mpf(slope)
            tails = [mpmath.gammainc(a, 0, y, regularized=True) for y in (x, left * x)]
            exact = tails[0] - mpmath.exp((left - 1) * x) / left**a * tails[1]
            assert abs(float(mpmath.exp(ours) / exact - 1)) < 1e-11
        assert projection_delta(epsilon, r, tau) >= math.exp(ours) * (1 - 1e-12)
    check(h, r, tau)


def test_many_projections():
    # Where Stirling's series and 10^4 draws leave their marks.
    for epsilon, tau in [(0.5, 1e-3), (0.01, 1e-6), (80.0, 0.5), (-0.2, 1e-3)]:
        check(epsilon, 10_000, tau)
    assert projection_delta(0.1, 10_000, 1e3) == pytest.approx(1, rel=1e-12)


@given(
    r=st.integers(1, 400),
    log_epsilon=st.floats(-7, 5),
    log_delta=st.floats(math.log(1e-200), math.log(0.9)),
)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_round_trip(r, log_epsilon, log_delta):
    epsilon, delta = math.exp(log_epsilon), math.exp(log_delta)
    tau = projection_tau(epsilon, delta, r)
    assert projection_delta(epsilon, r, tau) == pytest.approx(delta, rel=RELATIVE)
    assert projection_delta(epsilon, r, tau * (1 + 1e-6)) > delta
    assert projection_delta(epsilon, r, tau * (1 - 1e-6)) < delta


def test_tau_at_many_digits():
    for epsilon, delta, r in [(1e-3, 1e-15, 7), (1.0, 1e-15, 100), (8.0, 1e-9, 1)]:
        tau = projection_tau(epsilon, delta, r)
        with mpmath.workdps(60):
            assert abs(float(exact_delta(epsilon, r, tau) / delta - 1)) < RELATIVE


def test_monotone():
    epsilons, taus = np.linspace(-3, 3, 41), np.geomspace(1e-3, 1e3, 25)
    for r in (1, 10, 100):
        deltas = np.array([projection_delta(epsilons, r, tau) for tau in taus])
        # Flat where it underflows, is 1 up to rounding, or epsilon decides alone.
        pure = np.maximum(-np.expm1(epsilons), 0)
        inner = (deltas > pure + 1e-15) & (deltas < 1 - 1e-10)
        assert np.all(np.diff(deltas, axis=0)[inner[:-1]] > 0)
        assert np.all(np.diff(deltas, axis=1)[inner[:, :-1]] < 0)
        assert np.all(np.diff(deltas, axis=0) >= -1e-13)
        assert np.all(deltas >= pure)
        assert deltas.max() <= 1
    # More draws, or a weaker guarantee asked for.
    assert np.all(np.diff([projection_delta(1.0, r, 0.1) for r in range(1, 40)]) > 0)
    assert np.all(np.diff([projection_tau(e, 1e-5, 9) for e in epsilons[21:]]) > 0)
    assert np.all(np.diff([projection_tau(1.0, d, 9) for d in (1e-9, 0.1, 0.9)]) > 0)


def test_arrays_are_elementwise():
    epsilons = np.linspace(-4, 4, 9001)
    whole = projection_delta(epsilons, 7, 0.8)
    assert whole.shape == epsilons.shape
    for i in (0, 4095, 4096, 4500, 9000):
        alone = projection_delta(float(epsilons[i]), 7, 0.8)
        assert type(alone) is float
        assert whole[i] == pytest.approx(alone, rel=1e-14)
    assert projection_delta([[0.1, -2.0]], 3, 1.0).shape == (1, 2)
    assert projection_delta([], 3, 1.0).shape == (0,)


def test_zero_and_infinity():
    bounds = np.array([-math.inf, -1.0, 0.0, 1.0, math.inf])
    pure = [1.0, -math.expm1(-1.0), 0.0, 0.0, 0.0]
    np.testing.assert_allclose(projection_delta(bounds, 5, 0.0), pure, rtol=1e-15)
    np.testing.assert_allclose(projection_delta(bounds, 5, 1e-320), pure, atol=1e-300)
    assert np.all(projection_delta(bounds, 5, math.inf) == 1.0)
    assert projection_delta(math.inf, 5, 3.0) == 0.0
    assert projection_delta(-math.inf, 5, 3.0) == 1.0
    assert projection_delta(1.0, 5, 1e300) == pytest.approx(1.0, rel=1e-12)
    assert projection_tau(math.inf, 1e-5, 5) == math.inf


def test_extreme_targets():
    for epsilon, delta in [(1e-300, 1e-5), (1e-3, 1e-300), (1e200, 1e-5), (700, 0.5)]:
        tau = projection_tau(epsilon, delta, 3)
        assert projection_delta(epsilon, 3, tau) == pytest.approx(delta, rel=RELATIVE)
    # Here the smaller tau of delta = 1 - 1e-9 is kept.
    tau = projection_tau(1.0, math.nextafter(1.0, 0.0), 5)
    assert projection_delta(1.0, 5, tau) == pytest.approx(1 - 1e-9, rel=1e-12)


@pytest.mark.parametrize("r", [0, -1, 1.5, 2.0, True, None])
def test_refuses_n_projections(r):
    with pytest.raises(ValueError, match="n_projections must be an integer >= 1"):
        projection_delta(1.0, r, 1.0)
    with pytest.raises(ValueError, match="n_projections must be an integer >= 1"):
        projection_tau(1.0, 1e-5, r)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_tau_refuses(value):
    with pytest.raises(ValueError, match="epsilon must be > 0"):
        projection_tau(value, 1e-5, 3)
    for delta in (value, 1.0, math.inf):
        with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
            projection_tau(1.0, delta, 3)


def test_delta_refuses_nan_and_negative_tau():
    with pytest.raises(ValueError, match="epsilon must not be NaN"):
        projection_delta([0.0, math.nan], 3, 1.0)
    for tau in (-1e-300, -math.inf, math.nan):
        with pytest.raises(ValueError, match="tau must be >= 0"):
            projection_delta(1.0, 3, tau)
