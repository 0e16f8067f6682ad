"""At the edges of floating point no epsilon and no delta is stated below the truth."""

import math
from fractions import Fraction
from functools import partial

import mpmath
import pytest
from dp_accounting import dp_event
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import (
    PrivacyBudget,
    PrivacyGuarantee,
    compose,
    gaussian_delta,
    gaussian_mu,
    gaussian_sigma,
)
from sktensordp.privacy import _gaussian as gaussian
from sktensordp.privacy import _ledger as ledger
from sktensordp.privacy._events import (
    ProjectionDpEvent,
    PureDpEvent,
    RandomizedResponseDpEvent,
    TableDpEvent,
)
from sktensordp.privacy._johnson_lindenstrauss import projection_tau
from sktensordp.privacy._randomized_response import (
    LevelLaw,
    optimal_composition_delta,
)

Laplace, DiscreteLaplace = dp_event.LaplaceDpEvent, dp_event.DiscreteLaplaceDpEvent
Gaussian, LEAST = dp_event.GaussianDpEvent, 5e-324
often = partial(settings, deadline=None, derandomize=True, database=None)


def powers(low, high):
    """Floats whose logarithm is uniform, and those at the ends."""
    logs = st.floats(math.log10(low), math.log10(high))
    clipped = logs.map(lambda x: min(max(10.0**x, low), high))
    return clipped | st.sampled_from([low, high])


epsilons = powers(LEAST, 1e300) | powers(1e-12, 1e4) | st.floats(0.5, 2)
deltas = powers(LEAST, 0.99) | powers(1e-20, 0.5) | st.floats(0.5, 1 - 2**-53)


def stated(event, delta=0.0):
    return PrivacyGuarantee.of(
        event, delta=delta, unit="sample", statement="S.", source="T."
    )


def exact_delta(epsilon, mu):
    """Balle and Wang (2018), Theorem 8, with as many digits as do not cancel."""
    digits = 60
    while True:
        with mpmath.workdps(digits):
            epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
            t = epsilon / mu - mu / 2
            if abs(t) > 1e6:
                # Next to 0 or to 1, and neither.
                return 1 - mpmath.mpf(t > 0) + mpmath.sign(t) * mpmath.mpf(10) ** -999
            upper = mpmath.erfc(t / mpmath.sqrt(2)) / 2
            lower = mpmath.erfc((t + mu) / mpmath.sqrt(2)) / 2
            found = upper - mpmath.exp(epsilon) * lower
            if upper == 0 or found > upper * mpmath.mpf(10) ** (30 - digits):
                return found
        digits *= 2


# Gaussian noise


@often(max_examples=250)
@given(epsilon=epsilons, delta=deltas)
@example(epsilon=5e-324, delta=5e-324)
@example(epsilon=1e-300, delta=1e-12)
@example(epsilon=1e-250, delta=1e-300)
@example(epsilon=1e300, delta=1 - 2**-53)
@example(epsilon=1.0, delta=1 - 2**-53)
def test_mu_keeps_epsilon_and_delta(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert mu > 0
    assert exact_delta(epsilon, mu) <= delta


@often(max_examples=120)
@given(epsilon=epsilons, delta=deltas, sensitivity=powers(LEAST, 1.7e308))
@example(epsilon=1e10, delta=0.5, sensitivity=5e-324)
@example(epsilon=1e-300, delta=1e-16, sensitivity=1e300)
def test_sigma_is_enough_or_refused(epsilon, delta, sensitivity):
    if sensitivity / gaussian_mu(epsilon, delta) == math.inf:
        with pytest.raises(ValueError, match="more noise than can be represented"):
            gaussian_sigma(epsilon, delta, sensitivity)
        return
    sigma = gaussian_sigma(epsilon, delta, sensitivity)
    mu = Fraction(sensitivity) / Fraction(sigma)
    with mpmath.workdps(60):
        mu = mpmath.mpf(mu.numerator) / mu.denominator
    assert exact_delta(epsilon, mu) <= delta


def test_less_noise_is_found_out():
    for epsilon, delta in (1e-9, 1e-6), (1, 1e-300), (1, 0.5), (700, 1e-16):
        mu = gaussian_mu(epsilon, delta) * (1 + 1e-6)
        assert exact_delta(epsilon, mu) > delta


@often(max_examples=250)
@given(epsilon=epsilons | st.just(0.0), mu=powers(1e-150, 1e6))
@example(epsilon=1000.0, mu=0.01)
@example(epsilon=2e11, mu=632455.0)
def test_delta_of_gaussian_noise_is_rounded_up(epsilon, mu):
    # The truth is that of the multiplier, of which 1 / mu is not the inverse.
    multiplier = 1 / mu
    with mpmath.workdps(60):
        truth = exact_delta(epsilon, 1 / mpmath.mpf(multiplier))
    assert stated(Gaussian(multiplier), 0.5).delta_at(epsilon) >= truth


def test_delta_rounded_down_is_found_out():
    low = []
    for mu in (0.01, 0.1, 0.3, 0.7, 1.5, 3.0, 7.0):
        for epsilon in (0.0, 0.1, 1.0, 5.0):
            truth = exact_delta(epsilon, mu)
            low.append(gaussian_delta(epsilon, mu) < truth)
            assert gaussian.gaussian_delta_above(epsilon, mu) >= truth
    assert any(low)


@often(max_examples=60)
@given(
    multiplier=powers(1e-3, 1e6),
    count=st.integers(1, 10**9) | st.sampled_from([1, 10**9]),
    delta=powers(1e-300, 0.5),
)
def test_epsilon_of_many_gaussians_is_rounded_up(multiplier, count, delta):
    found = (count * stated(Gaussian(multiplier), delta / 2)).epsilon_at(delta)
    if math.isfinite(found):
        with mpmath.workdps(60):
            mu = mpmath.sqrt(count) / mpmath.mpf(multiplier)
        assert exact_delta(found, mu) <= delta


# Pure releases


@often(max_examples=100)
@given(st.lists(st.tuples(epsilons, st.integers(1, 10**9)), min_size=1, max_size=8))
@example([(0.1, 10)])
@example([(0.1, 10**6)])
@example([(0.1, 1), (0.2, 1)])
@example([(1e16, 1), (1.0, 1)])
@example([(5e-324, 3), (1.0, 1)])
@example([(1e300, 10**9)])
def test_pure_sums_are_rounded_up(releases):
    truth = sum(n * Fraction(epsilon) for epsilon, n in releases)
    parts = [n * stated(PureDpEvent(epsilon)) for epsilon, n in releases]
    together = compose(*parts)
    assert together.epsilon >= truth
    # And by no more than to the next float.
    if 0 < together.epsilon < math.inf:
        assert math.nextafter(together.epsilon, 0) < truth


def test_a_million_releases_of_a_tenth():
    together = compose(*[stated(PureDpEvent(0.1))] * 10**5)
    assert together.epsilon >= 10**5 * Fraction(0.1)
    assert (10 * together).epsilon >= 10**6 * Fraction(0.1)


def test_sums_rounded_to_nearest_are_found_out(monkeypatch):
    monkeypatch.setattr(ledger, "rounded_up", float)
    together = compose(*[stated(PureDpEvent(0.1))] * 10)
    assert together.epsilon < 10 * Fraction(0.1)


@pytest.mark.parametrize("make", [Laplace, lambda scale: DiscreteLaplace(scale, 3)])
@pytest.mark.parametrize("scale", [1e-307, 1e-9, 0.3, 1 / 3, 3.0, 49.0, 1e16, 1e308])
def test_a_laplace_epsilon_is_rounded_up(make, scale):
    exact = 1 / Fraction(scale) if make is Laplace else 3 * Fraction(scale)
    assert stated(make(scale)).epsilon >= exact


@often(max_examples=100)
@given(rate=powers(1e-300, 0.999), epsilon=powers(LEAST, 1e300) | powers(1e-9, 700))
def test_amplified_epsilons_are_rounded_up(rate, epsilon):
    release = PrivacyGuarantee.of(
        PureDpEvent(epsilon),
        unit="sample", statement="S.", source="T.", relation="add-or-remove",
    )  # fmt: skip
    found = release.subsampled(rate).epsilon
    with mpmath.workdps(2000 if epsilon < 1e-200 or rate < 1e-200 else 700):
        if epsilon > 1e4:
            # No more than the truth, and as much as can be computed.
            truth = mpmath.mpf(epsilon) + mpmath.log(mpmath.mpf(rate))
        else:
            truth = mpmath.log1p(mpmath.mpf(rate) * mpmath.expm1(mpmath.mpf(epsilon)))
        assert found >= truth


def binary_delta(pure, n, epsilon):
    """Kairouz, Oh and Viswanath (2017), Theorem 3.3."""
    with mpmath.workdps(80):
        pure, epsilon = mpmath.mpf(pure), mpmath.mpf(epsilon)
        total, whole = mpmath.mpf(0), (1 + mpmath.exp(pure)) ** n
        for i in range(n + 1):
            excess = mpmath.exp(i * pure) - mpmath.exp(epsilon + (n - i) * pure)
            total += math.comb(n, i) * max(excess, 0) / whole
        return min(total, 1)


@often(max_examples=80)
@given(
    pure=powers(1e-12, 1e5),
    n=st.integers(1, 60),
    share=st.floats(0, 1) | st.sampled_from([0.0, 1 - 2**-53, 0.999]),
)
@example(pure=1e5, n=10, share=0.99999)
@example(pure=1e5, n=10, share=1 - 2**-53)
def test_the_optimal_composition_is_rounded_up(pure, n, share):
    epsilon = n * pure * share
    if epsilon < n * Fraction(pure):
        found = optimal_composition_delta(pure, n, epsilon)
        assert found >= binary_delta(pure, n, epsilon)


WEIGHTS = (2**59 - 2, 2**59, 2), (3, 2**59 - 1, 2**59 - 2)


def worst_pair(event):
    """Laws of the outputs under two inputs that tell the most."""
    if isinstance(event, PureDpEvent):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(event.epsilon)))
        return [p, 1 - p], [1 - p, p]
    if isinstance(event, TableDpEvent):
        return [[mpmath.mpf(w) / 2**60 for w in row] for row in event.weights]
    a, n = mpmath.mpf(event.noise_parameter), event.sensitivity

    def law(centre):
        inside = [mpmath.exp(-a * abs(i - centre)) for i in range(n + 1)]
        # Of all outputs beyond either end the loss is the same.
        tails = [mpmath.exp(-a * d) / mpmath.expm1(a) for d in (centre, n - centre)]
        return [mpmath.tanh(a / 2) * w for w in inside + tails]

    return law(0), law(n)


SINGLE = [
    *(PureDpEvent(epsilon) for epsilon in (1e-300, 1e-9, 0.3, 40.0, 700.0)),
    *(DiscreteLaplace(*law) for law in [(1e-8, 1), (0.3, 7), (5.0, 3), (1e-3, 1000)]),
    TableDpEvent(WEIGHTS),
]


@pytest.mark.parametrize("event", SINGLE, ids=lambda event: str(event)[:40])
def test_the_curve_of_one_release_is_rounded_up(event):
    release = stated(event)
    with mpmath.workdps(400):
        one, two = worst_pair(event)
        truth = max(abs(mpmath.log(p / q)) for p, q in zip(one, two, strict=True))
        assert release.epsilon >= truth - mpmath.mpf(10) ** -390
        for share in (0, 1e-9, 0.1, 0.5, 0.9, 0.999999, 1 - 2**-50):
            growth = mpmath.exp(mpmath.mpf(share * release.epsilon))
            found = release.delta_at(share * release.epsilon)
            for p, q in (one, two), (two, one):
                excess = (x - growth * y for x, y in zip(p, q, strict=True))
                truth = mpmath.fsum(max(x, 0) for x in excess)
                assert found >= truth - mpmath.mpf(10) ** -390


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "wrapped"])
@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.3, 5.0])
@pytest.mark.parametrize("keep", [0.0, 2.0**-52, 0.3, 1 - 2.0**-40])
def test_the_curve_of_randomised_response_is_rounded_up(noise, rate, keep):
    law, levels = LevelLaw(noise, 4, rate), range(4)
    release = stated(RandomizedResponseDpEvent(law, keep))
    with mpmath.workdps(60):
        apart = [[abs(x - y) for y in levels] for x in levels]
        if noise == "wrapped":
            apart = [[min(d, 4 - d) for d in row] for row in apart]
        power = 2 if noise == "gaussian" else 1
        rows = [[mpmath.exp(-mpmath.mpf(rate) * d**power) for d in r] for r in apart]
        rows = [[w / mpmath.fsum(r) * (1 - mpmath.mpf(keep)) for w in r] for r in rows]
        for x in levels:
            rows[x][x] += mpmath.mpf(keep)
        pairs = [(p, q) for p in rows for q in rows if p is not q]
        for p, q in pairs:
            losses = (mpmath.log(a / b) for a, b in zip(p, q, strict=True))
            assert release.epsilon >= max(losses)
        for share in (0, 0.1, 0.9, 0.999999):
            growth = mpmath.exp(mpmath.mpf(share * release.epsilon))
            for p, q in pairs:
                excess = (a - growth * b for a, b in zip(p, q, strict=True))
                truth = mpmath.fsum(max(x, 0) for x in excess)
                assert release.delta_at(share * release.epsilon) >= truth


# Random projections


def exact_projection_delta(epsilon, n_projections, tau):
    """Of one changed row: tails of chi-square laws, whichever order is worse."""
    with mpmath.workdps(400):
        epsilon, tau, half = mpmath.mpf(epsilon), mpmath.mpf(tau), n_projections / 2
        h, k = half * mpmath.log1p(tau), (1 + tau) / tau

        removed, added = k * (h + epsilon), k * (h - epsilon)
        growth = mpmath.exp(epsilon)
        found = mpmath.gammainc(half, removed / (1 + tau), regularized=True)
        found -= growth * mpmath.gammainc(half, removed, regularized=True)
        if added > 0:
            other = mpmath.gammainc(half, 0, added, regularized=True)
            other -= growth * mpmath.gammainc(
                half, 0, added / (1 + tau), regularized=True
            )
            found = max(found, other)
        return found


@pytest.mark.parametrize("n_projections", [1, 2, 7, 100])
@pytest.mark.parametrize("epsilon", [1e-20, 1e-3, 1.0, 30.0])
@pytest.mark.parametrize("delta", [1e-100, 1e-16, 1e-6, 0.5])
def test_projections_keep_epsilon_and_delta(epsilon, delta, n_projections):
    tau = projection_tau(epsilon, delta, n_projections)
    truth = exact_projection_delta(epsilon, n_projections, tau)
    assert truth <= delta
    release = stated(ProjectionDpEvent(n_projections, tau), 0.9)
    assert release.delta_at(epsilon) >= truth
    assert exact_projection_delta(epsilon, n_projections, tau * (1 + 1e-6)) > delta


# Budgets


def spent_by(budget, attempts):
    """Exact sum of what a budget admits of some pure epsilons."""
    total = Fraction(0)
    for epsilon in attempts:
        try:
            budget.spend(stated(PureDpEvent(epsilon)))
        except BudgetExceededError:
            continue
        total += Fraction(epsilon)
    return total


@often(max_examples=60)
@given(
    limit=powers(1e-300, 1e300) | st.sampled_from([0.3, 1.0, 1e16]),
    shares=st.lists(st.floats(1e-17, 1.0), min_size=1, max_size=30),
    adaptive=st.booleans(),
)
def test_a_budget_never_admits_more_than_it_says(limit, shares, adaptive):
    attempts = [share * limit for share in shares]
    # And whatever is left, and the floats next to it.
    budget = PrivacyBudget(limit, adaptive=adaptive)
    total = spent_by(budget, [a for a in attempts if a > 0])
    left = float(max(Fraction(limit) - total, 0))
    total += spent_by(budget, [left * (1 + k * 2.0**-52) for k in (3, 1, 0) if left])
    # As the documentation of PrivacyBudget has it.
    assert total <= Fraction(limit) * (1 + Fraction(1, 10**12))
    assert budget.spent is None or budget.spent.epsilon >= total


@pytest.mark.parametrize("adaptive", [True, False])
def test_a_tenth_fits_ten_times_into_one(adaptive):
    for limit, attempts in (0.3, [0.1, 0.2]), (1.0, [0.1] * 10):
        budget = PrivacyBudget(limit, adaptive=adaptive)
        total = spent_by(budget, [*attempts, *attempts])
        assert total == sum(map(Fraction, attempts)) > Fraction(limit)
        assert budget.spent.epsilon >= total
    assert spent_by(PrivacyBudget(1e16, adaptive=adaptive), [1e16 - 2, 1e6, 2.0]) == (
        10**16
    )


@pytest.mark.parametrize("adaptive", [True, False])
def test_many_small_releases_do_not_drift(adaptive):
    budget = PrivacyBudget(1.0, adaptive=adaptive)
    total = spent_by(budget, [0.001] * 1200)
    assert total == 1000 * Fraction(0.001)


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("delta", [0.0, 5e-324, 1e-320])
def test_a_delta_that_vanishes_is_not_none(adaptive, delta):
    # Its delta at 1000 is about e^(-5e9).
    noise = stated(Gaussian(100.0), 1e-6)
    assert noise.delta_at(1000.0) > 0
    assert PrivacyBudget(1000.0, delta, adaptive=adaptive).admits(noise) == (delta > 0)
    assert noise.epsilon_at(0.0) == math.inf
