"""The bounds hold at their confidence, and are not loose."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from sktensordp.audit._bounds import (
    Gaussian,
    Pure,
    certified_bound,
    epsilon_of_mu,
    lower_epsilon_of_guesses,
    quick_bound,
)
from sktensordp.privacy import gaussian_delta


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


@pytest.mark.parametrize("bound", [quick_bound, certified_bound])
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
        sharp = certified_bound(hits, false_hits, n, claim, 0.05)
        naive = float(claim.parameter(hits / n, false_hits / n))
        assert 0.99 * quick <= sharp <= naive
        assert quick == 0 or sharp > quick + 0.1 * (naive - quick)


@pytest.mark.parametrize("claim", [Pure(0.0), Gaussian()])
@pytest.mark.parametrize("counts", [(0, 0), (0, 50), (50, 50), (20, 30), (50, 0)])
def test_extreme_counts(claim, counts):
    found = certified_bound(*counts, 50, claim, 0.05)
    assert np.isfinite(found)
    assert (found > 0) == (counts == (50, 0))


@pytest.mark.parametrize("n", [100, 10_000])
def test_a_perfect_separation_proves_what_its_chance_allows(n):
    """Every hit and no false hit: chance (1 - e^-epsilon)^n at the worst rate."""
    found = certified_bound(n, 0, n, Pure(0.0), 0.05)
    assert 0.04 < (1 - math.exp(-found)) ** n <= 0.05


@pytest.mark.parametrize("mu", [0.1, 0.268051123, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_epsilon_of_mu_inverts_the_curve(mu, delta):
    epsilon = epsilon_of_mu(mu, delta)
    if epsilon == 0:
        assert norm.cdf(mu / 2) - norm.cdf(-mu / 2) <= delta
    else:
        assert gaussian_delta(epsilon, mu) == pytest.approx(delta, rel=1e-6)


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
