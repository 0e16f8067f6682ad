"""The selection of a candidate: its distribution, its guarantee, and its record."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sktensordp.measure import after, left_of, select
from sktensordp.privacy import PrivacyGuarantee
from tests.support.goodness import chi_square
from tests.support.noise import source_of
from tests.support.seams import NoiseStreams
from tests.support.selection import law, selections

EPSILON = 0.7


def law_of(scores, spread=2, epsilon=EPSILON, log_priors=None):
    """Probabilities of all candidates, from what the door passes to the sampler."""
    with selections() as asked:
        select(
            scores,
            spread=spread,
            epsilon=epsilon,
            streams=source_of(0),
            log_priors=log_priors,
        )
    ((numerators, denominator),) = asked
    return law(numerators, denominator)


def test_larger_scores_are_drawn_as_often_as_they_should():
    # q is .35 times the scores plus the priors: false alarms below 1e-6.
    scores, log_priors = [5, 3, 5, 1, -40], [0, 1, -1, 0, 0]
    q = np.array([1.75, 2.05, 0.75, 0.35, -14.0])
    expected = law([round(2**40 * number) for number in q], 2**40)
    assert law_of(scores, log_priors=log_priors) == pytest.approx(expected, rel=1e-9)
    drawn = [
        select(
            scores,
            spread=2,
            epsilon=EPSILON,
            streams=source_of(seed),
            log_priors=log_priors,
        )
        for seed in range(600)
    ]
    assert chi_square(np.bincount(drawn, minlength=5), expected) > 1e-6


def test_no_neighbour_is_more_than_epsilon_away_and_the_worst_is_close():
    """Scores of three candidates, each of which changes by -1, 0 or 1.

    A rate that is twice as large has a ratio of 1.9 epsilon here.
    """
    worst = 0.0
    for scores in itertools.product((0, 2, 6), repeat=2):
        before = law_of([0, *scores])
        for change in itertools.product((-1, 0, 1), repeat=3):
            moved = [a + b for a, b in zip([0, *scores], change, strict=True)]
            ratio = np.abs(np.log(law_of(moved) / before)).max()
            worst = max(worst, ratio)
    assert 0.95 * EPSILON < worst <= EPSILON


def test_changes_by_the_same_number_reveal_nothing():
    scores = [3, 7, -2]
    moved = [score + 10**30 for score in scores]
    assert law_of(moved).tolist() == law_of(scores).tolist()


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1 / 3, 0.7, 5.0])
@pytest.mark.parametrize("spread", [1, 3, 2000])
def test_the_rate_is_rounded_down(epsilon, spread):
    with selections() as asked:
        select([0, 1], spread=spread, epsilon=epsilon, streams=source_of(0))
    (((low, high), denominator),) = asked
    exact = Fraction(epsilon) / spread
    assert Fraction(high - low, denominator) <= exact
    assert Fraction(high - low + 1, denominator) > exact


def test_a_tiny_epsilon_is_refused():
    with pytest.raises(ValueError, match="too small for this spread"):
        select([0, 1], spread=2000, epsilon=1e-13, streams=source_of(0))
    for epsilon, spread in ((math.inf, 1), (0.0, 1), (math.nan, 1), (1.0, 0)):
        with pytest.raises(ValueError, match="positive spread and a finite epsilon"):
            select([0, 1], spread=spread, epsilon=epsilon, streams=source_of(0))


@pytest.mark.parametrize("streams", [None, NoiseStreams(0, 0)], ids=["none", "others"])
def test_nothing_is_selected_that_no_budget_has_recorded(streams):
    with pytest.raises(RuntimeError, match="No budget has recorded"):
        select([0, 1], spread=1, epsilon=1.0, streams=streams)


def test_a_release_selects_once():
    streams = source_of(0)
    select([0, 1], spread=1, epsilon=1.0, streams=streams)
    with pytest.raises(RuntimeError, match="drawn before"):
        select([0, 1], spread=1, epsilon=1.0, streams=streams)


def test_the_rest_never_exceeds_the_budget():
    rng = np.random.default_rng(0)
    for epsilon, share in rng.uniform((1e-3, 0), (20, 0.1), (200, 2)).tolist():
        spent = share * epsilon
        left = left_of(epsilon, spent)
        budget, *parts = (
            number.as_integer_ratio() for number in (epsilon, spent, left)
        )
        total = sum(n * (2**1100 // d) for n, d in parts)
        assert total <= budget[0] * 2**1100 // budget[1]
        assert left == pytest.approx(epsilon - spent, rel=1e-14)
    assert left_of(1.0, 0.0) == 1.0
    assert left_of(math.inf, 0.1) == math.inf


def test_the_event_counts_the_selection_and_what_follows():
    from dp_accounting import dp_event

    noise = dp_event.GaussianDpEvent(3.0)
    alone, first, both = (
        PrivacyGuarantee.from_event(
            event, delta=1e-6, unit="entry", statement="", source=""
        ).epsilon
        for event in (noise, after(0.25, dp_event.NoOpDpEvent()), after(0.25, noise))
    )
    assert first == pytest.approx(0.25, rel=1e-4)
    assert alone + 0.2 < both <= alone + 0.2501
