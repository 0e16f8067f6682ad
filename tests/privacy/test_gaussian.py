"""The Gaussian curve against reference values and many-digit arithmetic."""

import math
from itertools import product

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sktensordp.privacy import gaussian_delta, gaussian_mu, gaussian_sigma
from tests.support.divergence import exact_gaussian
from tests.support.seams import gaussian_delta_above, gaussian_epsilon

EPSILONS = [1e-3, 0.1, 0.5, 1.0, 3.0, 10.0, 1e3]
MUS = [1e-6, 0.2, 0.3, 0.999, 1.0, 1.001, 4.0, 20.0, 50.0]
DELTAS = [1e-300, 1e-100, 1e-12, 1e-5, 1e-2, 0.5]
LARGE_MUS = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8]
# With room for the last digits of t^2/2 where delta is near 1e-300 (690 in the
# exponent).
RELATIVE = 1e-9


def relative_error(value, reference):
    with mpmath.workdps(60):
        return abs(float(mpmath.mpf(value) / mpmath.mpf(reference) - 1))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_mu_is_the_root(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert exact_gaussian(mu * (1 - RELATIVE), epsilon) < delta
    assert exact_gaussian(mu * (1 + RELATIVE), epsilon) > delta
    assert relative_error(gaussian_delta(epsilon, mu), delta) < RELATIVE


@pytest.mark.parametrize("mu", [*MUS, *LARGE_MUS])
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_is_never_too_small(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert exact_gaussian(mu, epsilon) <= delta
    assert epsilon == 0 or exact_gaussian(mu, epsilon * (1 - RELATIVE)) > delta


@pytest.mark.parametrize(
    ("mu", "delta"), [(1.0, 0.0), (math.inf, 1e-6), (math.nan, 1e-6), (math.nan, 1.0)]
)
def test_epsilon_is_infinite_where_nothing_is_known(mu, delta):
    assert gaussian_epsilon(mu, delta) == math.inf


@pytest.mark.parametrize(
    ("epsilon", "mu"),
    [
        *product([0.0, *EPSILONS], MUS),
        # Where the branches of the formula meet: at mu = 1, and epsilon = mu^2 / 2.
        *product([0.0, 0.1, 1.0, 5.0], [1 - 1e-12, 1 + 1e-12]),
        *((mu * mu / 2 + h, mu) for mu in (1.5, 6.0) for h in (-1e-12, 1e-12)),
        # Where delta is neither 0 nor 1 at a large mu.
        *((mu * (t + mu / 2), mu) for mu in LARGE_MUS for t in (-3, 0.1, 1, 9, 36)),
    ],
)
def test_delta_at_many_digits(epsilon, mu):
    exact, ours = exact_gaussian(mu, epsilon), gaussian_delta(epsilon, mu)
    if exact < 1e-290:
        assert ours <= 1e-290
    else:
        assert relative_error(ours, exact) < 1e-12 + 5e-15 * mu


@pytest.mark.parametrize("mu", [*MUS, *LARGE_MUS])
def test_the_delta_of_guarantees_is_never_below_the_truth(mu):
    """Nor far above it, wherever the errors of the formula lead."""
    for t in (-3.0, -0.1, 1e-9, 1e-3, 0.01, 0.1, 0.3, 1.0, 9.0, 32.0):
        for step in range(12):  # roundings differ
            epsilon = mu * (t * (1 + step / 97) + mu / 2)
            if epsilon < 0:
                continue
            exact, ours = exact_gaussian(mu, epsilon), gaussian_delta_above(epsilon, mu)
            assert exact <= ours
            assert relative_error(ours, exact) < 1e-11 + 1e-13 * mu


@pytest.mark.thorough
@given(
    epsilon=st.floats(1e-3, 1e3), log_delta=st.floats(math.log(1e-300), math.log(0.5))
)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_round_trip(epsilon, log_delta):
    delta = math.exp(log_delta)
    ours = gaussian_delta(epsilon, gaussian_mu(epsilon, delta))
    assert ours == pytest.approx(delta, rel=RELATIVE)


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


def test_sigma_of_nothing_and_of_everything():
    assert gaussian_sigma(1.0, 1e-5, sensitivity=0.0) == 0.0
    assert gaussian_mu(math.inf, 1e-5) == math.inf
    assert gaussian_sigma(math.inf, 1e-5, sensitivity=3.0) == 0.0


@pytest.mark.parametrize(
    ("epsilon", "mu", "delta"),
    [
        (0.0, 0.0, 0.0), (math.inf, 0.0, 0.0), (math.inf, 5.0, 0.0),
        (0.0, math.inf, 1.0), (5.0, math.inf, 1.0), (math.inf, math.inf, 1.0),
        (0.0, 80.0, 1.0), (1.0, 1e-170, 0.0), (1.0, 1e-310, 0.0),
    ],
)  # fmt: skip
def test_ends_of_delta(epsilon, mu, delta):
    assert gaussian_delta(epsilon, mu) == delta


def test_delta_is_a_probability():
    values = [gaussian_delta(e, m) for e in (0.0, 1e-9, 1, 700) for m in (1e-9, 1, 80)]
    assert 0 <= min(values) <= max(values) <= 1


@pytest.mark.parametrize(
    ("message", "values", "call"),
    [
        ("epsilon must be > 0", (0.0, -1.0), lambda x: gaussian_mu(x, 1e-5)),
        ("epsilon must be > 0", (0.0, -1.0), lambda x: gaussian_sigma(x, 1e-5)),
        (r"delta must be in \(0, 1\)", (0.0, 1.0), lambda x: gaussian_mu(1.0, x)),
        (r"delta must be in \(0, 1\)", (0.0, 1.0), lambda x: gaussian_mu(math.inf, x)),
        (r"delta must be in \(0, 1\)", (0.0, 1.0), lambda x: gaussian_sigma(1.0, x)),
        ("epsilon must be >= 0", (-1e-300, -1.0), lambda x: gaussian_delta(x, 1.0)),
        ("mu must be >= 0", (-1e-300, -1.0), lambda x: gaussian_delta(1.0, x)),
        (
            "sensitivity must be finite and >= 0", (-1.0, math.inf),
            lambda x: gaussian_sigma(1.0, 1e-5, sensitivity=x),
        ),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(message, values, call):
    for value in (*values, math.nan):
        with pytest.raises(ValueError, match=message):
            call(value)
