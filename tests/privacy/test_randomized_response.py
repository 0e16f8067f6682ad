"""The losses of randomised response: formulas, the worst pair, composition."""

import json
import math
import pickle
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.support import divergence as D
from tests.support import events as E
from tests.support.seams import (
    LevelDistribution,
    event_delta,
    event_epsilon,
    optimal_composition_delta,
    pure_epsilon,
)

ORACLE = json.loads(Path(__file__).with_name("response_oracle.json").read_text())
KEEPS = (0.0, 1e-4, 0.03, 0.4, 0.9)


def laws():
    for noise in ("laplace", "gaussian", "wrapped", "geometric"):
        for k, epsilon in product((2, 3, 4, 5, 8), (0.05, 1.0, 6.0)):
            for share in (0.0, 0.4, 1.0):
                rate = share * epsilon / LevelDistribution.span_of(noise, k)
                if rate or noise != "geometric":
                    # On 60 levels beyond the scale the rest is below 1e-16.
                    rate = max(rate, 0.75) if noise == "geometric" else rate
                    yield LevelDistribution(noise, k, rate)


@pytest.mark.parametrize("keep", KEEPS)
def test_no_pair_of_levels_is_worse_than_the_two_furthest_apart(keep):
    # The theorem of doc/local.md, over all pairs of levels and many epsilons.
    for law in laws():
        table = D.level_rows(law.noise, law.n_levels, law.rate, keep)
        bound = law.epsilon(keep)
        ratios = np.log(table.max(axis=0) / table.min(axis=0))
        assert ratios.max() == pytest.approx(bound, rel=1e-9)
        epsilons = np.linspace(-bound, bound, 31)[:, None]
        worst = np.zeros(31)
        for upper, lower in product(table, table):
            excess = np.maximum(upper - np.exp(epsilons) * lower, 0).sum(axis=1)
            worst = np.maximum(worst, excess)
        ours = law.hockey_stick(keep, epsilons.ravel())
        np.testing.assert_allclose(ours, worst, rtol=1e-10, atol=1e-12)


def test_equal_laws_have_equal_pickles():
    law, used = (
        LevelDistribution("laplace", 5, 0.3),
        LevelDistribution("laplace", 5, 0.3),
    )
    assert used.mass > 1
    assert used.hockey_stick(0.1, np.zeros(1)) > 0
    assert pickle.dumps(law) == pickle.dumps(used)
    assert pickle.loads(pickle.dumps(used)) == law


def test_moves_are_the_law():
    for noise in ("laplace", "gaussian", "wrapped"):
        law = LevelDistribution(noise, 5, 0.3)
        np.testing.assert_allclose(law.moves(), D.level_rows(noise, 5, 0.3), rtol=1e-14)


@pytest.mark.parametrize("case", ORACLE["kov"])
def test_optimal_composition_against_the_oracle(case):
    found = optimal_composition_delta(
        float(case["eps0"]), case["I"], float(case["eps"])
    )
    exact = float(case["delta"])
    assert exact * (1 - 1e-14) <= found <= exact * (1 + 1e-10)


@pytest.mark.parametrize("case", ORACLE["kov_eps0_for"])
def test_what_the_optimal_composition_allows(case):
    # At the oracle's pure epsilon of an entry, delta is spent and no more.
    found = optimal_composition_delta(case["eps0"], case["I"], case["eps"])
    assert found == pytest.approx(float(case["delta"]), rel=1e-6)


def test_many_releases_at_a_delta_below_any_grid():
    # A privacy-loss distribution cannot see this delta; the theorem can.
    event = E.Repeated(E.Pure(0.01), 1000)
    found = event_epsilon(event, 1e-30)
    assert found < 5  # a PLD leaves nothing but the sum, 10
    assert optimal_composition_delta(0.01, 1000, found) <= 1e-30
    assert optimal_composition_delta(0.01, 1000, found * (1 - 1e-6)) > 1e-30


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "wrapped", "geometric"])
def test_a_law_is_tighter_than_the_theorem_for_all_laws(noise):
    law = LevelDistribution(noise, 16, 0.1 / LevelDistribution.span_of(noise, 16))
    event = E.Response(law, law.keep(0.2))
    together = E.Repeated(event, 100)
    assert pure_epsilon(event) == pytest.approx(0.2)
    by_theorem = optimal_composition_delta(0.2, 100, 3.0)
    assert event_delta(together, 3.0) < 0.9 * by_theorem


@pytest.mark.parametrize(
    "wrong", [{"distribution": "laplace", "keep": 0.1}, {"keep": -0.1}, {"keep": 1.1}]
)
def test_events_refuse_what_is_no_law(wrong):
    whole = {"distribution": LevelDistribution("laplace", 3, 0.1), "keep": 0.1}
    fields = {**whole, **wrong}
    with pytest.raises((ValueError, TypeError)):
        E.Response(**fields)


class TestRevealing:
    """A release that shows everything with some probability."""

    def test_published_response_against_the_oracle(self):
        for case in ORACLE["tldp_published"]:
            n, claim = case["I"], float(case["eps"])
            laplace = E.Repeated(E.Laplace(1 / claim), n)
            gaussian = E.Gaussian(1 / math.sqrt(2 * claim * n))
            for name, noise in (("L", laplace), ("G", gaussian)):
                event = E.Revealing(float(case[f"atom_{name}"]), noise)
                exact = float(case[f"eps_at_1e-5_{name}"])
                # Laplace losses are on a grid that rounds them up by up to 0.05%.
                found = event_epsilon(event, 1e-5)
                assert exact * (1 - 1e-9) <= found
                assert found <= exact * (1 + 5e-4)
                delta = case[f"delta_at_claim_{name}"]
                if not str(delta).startswith("1 "):
                    found, exact = event_delta(event, claim), float(delta)
                    assert exact * (1 - 1e-9) <= found <= exact * (1 + 2e-5)

    @pytest.mark.parametrize("share", [0.0, 1e-6, 0.2])
    def test_by_enumeration(self, share):
        # Two releases; each shows its input with probability `share`, and else is
        # binary randomised response. What is shown is an output of its own.
        law, e = D.response(0.7), 0.7
        event = E.Revealing(share, E.Pure(e))
        for count in (1, 2, 3):
            composed = E.Repeated(event, count)
            hidden = D.power(law, count)
            for epsilon in (0.0, 0.3, 1.0):
                shown = 1 - (1 - share) ** count
                exact = shown + (1 - shown) * D.stick(hidden, epsilon)
                found = event_delta(composed, epsilon)
                assert exact * (1 - 1e-12) - 1e-15 <= found <= exact + 1e-5
            total = 1 - (1 - share) ** count
            if total:
                assert event_epsilon(composed, total * 0.99) == math.inf
                assert math.isfinite(event_epsilon(composed, total * 1.01))

    def test_a_sampler_may_raise_what_is_shown(self):
        # The share of what is shown may be e^r times as large, and a sampler may be off
        # by d there, too: only without d does the rest count for its share alone.
        share, r = 0.1, 0.2
        for d, hidden_share in ((0.05, 1.0), (0.0, 0.9)):
            parts = [E.Pure(1.0), E.Residual(r, d)]
            hidden = E.Composed(parts)
            event = E.Revealing(share, hidden)
            found = event_delta(event, 0.9)
            exact = share * math.exp(r) + hidden_share * event_delta(hidden, 0.9)
            assert found == pytest.approx(exact, rel=1e-12)
            assert event_epsilon(event, found) <= 0.9 * (1 + 1e-9)

    def test_a_residual_beside_what_is_shown(self):
        # Outcomes: shows the one, shows the other, and two that say nothing. Both
        # samplers are within (0, 1e-3) of their ideal laws.
        sampled = np.array([[0.501, 0, 0.25, 0.249], [0, 0.501, 0.249, 0.25]])
        ideal = np.array([[0.5, 0, 0.25, 0.25], [0, 0.5, 0.25, 0.25]])
        for one, other in zip(sampled, ideal, strict=True):
            assert np.maximum(one - other, 0).sum() <= 1e-3 + 1e-15
        shown = E.Revealing(0.5, E.Nothing())
        event = E.Composed([shown, E.Residual(0.0, 1e-3)])
        truth = np.maximum(sampled[0] - sampled[1], 0).sum()
        assert event_delta(event, 0.0) >= truth * (1 - 1e-12)
        assert event_epsilon(event, 0.5018) > 0

    def test_everything_shown(self):
        event = E.Revealing(1.0, E.Pure(0.1))
        assert event_delta(event, 5.0) == 1
        assert event_epsilon(event, 0.5) == math.inf
