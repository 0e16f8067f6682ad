"""The door: what is asked for is counted, recorded, bounded and given noise."""

import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from sktensordp.measure import (
    BoundedSums,
    NoiseShares,
    NoisySums,
    ProductSums,
    RangeSums,
    Releases,
    WholeSums,
    laplace_sums,
    plan_gaussian_sums,
    plan_shared_noise,
)
from sktensordp.noise import laplace_lattice
from tests.support.noise import drawing, source_of
from tests.support.people import Asking, Summed
from tests.support.seams import TOLERANCE, Choices, NoiseStreams, without_long

N_CELLS, N_PRODUCTS = 12, 3


def door(*streams):
    noise = plan_gaussian_sums(
        1.0, 1e-6, total_epsilon=1.0, n_releases=1, n_cells=N_CELLS, n_moved=N_PRODUCTS,
        n_entries=100,
    )  # fmt: skip
    return Releases(noise, *(streams or [source_of(0)])), Summed()


def bounded(releases, share=0.5, size=4):
    return BoundedSums((1, size), 1.0, share, releases.step)


def products(releases, share=0.5, m=2):
    return ProductSums(np.full(m, 2**14 // m), 1.0, share, releases.step)


EXCESSES = {
    "shares of one release": ([[("bounded", {"share": 1.01})]], "more than the budget"),
    "shares of two": (
        [[("bounded", {"share": 0.6})], [("bounded", {"share": 0.5})]],
        "more than the budget",
    ),
    "a share of nothing": ([[("bounded", {"share": 0.0})]], "more than the budget"),
    "a share that is no number": (
        [[("bounded", {"share": math.nan})]], "more than the budget",
    ),
    "sums": ([[("bounded", {"size": N_CELLS + 1})]], "more sums than"),
    "sums of two releases": (
        [[("bounded", {"size": N_CELLS})], [("bounded", {"share": 0.1, "size": 1})]],
        "more sums than",
    ),
    "products": (
        [[("products", {"share": 0.5})], [("products", {"share": 0.1, "m": 1})]],
        "more sums that rounding moves",
    ),
}  # fmt: skip


@pytest.mark.parametrize("excess", EXCESSES)
def test_what_exceeds_the_plan_is_refused_before_anybody_is_asked(excess):
    kinds = {"bounded": bounded, "products": products}
    asked, match = EXCESSES[excess]
    releases, people = door()
    questions = [
        Asking(tuple(kinds[kind](releases, **options) for kind, options in release))
        for release in asked
    ]
    for question in questions[:-1]:
        releases.ask(people, question)
    left = releases.left
    with pytest.raises(RuntimeError, match=match):
        releases.ask(people, questions[-1])
    assert people.n_asked == len(questions) - 1
    assert releases.left == left


def test_everything_at_its_bound_is_released():
    """All shares, with the rounding errors of their sum, all sums and all products."""
    releases, people = door()
    releases.ask(people, Asking((bounded(releases, share=0.9, size=9),)))
    share = (0.1 + TOLERANCE) * (1 - 1e-6)
    releases.ask(people, Asking((products(releases, share=share),)))
    releases, people = door()
    releases.ask(people, Asking((bounded(releases, share=0.9),)))
    with pytest.raises(RuntimeError, match="more than the budget"):
        releases.ask(people, Asking((bounded(releases, share=0.1 + 2 * TOLERANCE),)))


def test_shares_in_l1_are_exact():
    """A step more than planned, of more than 2^33, is no rounding error."""
    lattice = laplace_lattice(-math.inf, math.inf, 1.0, step=1.0, l1=2.0**40)
    for most, is_refused in ((2**40, False), (2**40 + 1, True)):
        releases = Releases(laplace_sums(lattice, None, share=2**40), source_of(0))
        question = Asking((RangeSums((1,), 0, most, times=1, step=1.0),))
        with (
            pytest.raises(RuntimeError, match="more than the budget")
            if is_refused
            else nullcontext()
        ):
            releases.ask(Summed(), question)


# --- choices ------------------------------------------------------------------------


def scored(*totals, share=4):
    """The door for scores of at most 4 steps, candidates with these, and a question."""
    lattice = laplace_lattice(-math.inf, math.inf, 1e3, step=1.0, l1=4.0)
    noise = laplace_sums(lattice, None, share=share)
    candidates = [Summed((np.array([float(total)]),)) for total in totals]
    question = Asking((RangeSums((1,), 0, 4, times=1, step=1.0),))
    return noise, candidates, question


def test_the_best_candidate_is_selected_and_each_has_noise_of_its_own():
    noise, candidates, question = scored(7, 30, 12)
    best, score = Releases(noise, source_of(0)).select(candidates, question)
    assert best is candidates[1]
    assert score == pytest.approx(30, abs=1)
    assert [one.n_asked for one in candidates] == [1, 1, 1]
    # The best of more candidates is better, since their noise differs.
    lattice = laplace_lattice(-math.inf, math.inf, 1e-3, step=1.0, l1=4.0)
    noise = laplace_sums(lattice, None, share=4)
    found = [
        Releases(noise, source_of(0)).select(candidates[:1] * n, question)[1]
        for n in range(1, 9)
    ]
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_nobody_is_selected_without_candidates():
    noise, _, question = scored()
    best, score = Releases(noise, source_of(0)).select([], question)
    assert best is None
    assert score == -math.inf


@pytest.mark.parametrize("streams", [None, NoiseStreams(0, 0)], ids=["none", "others"])
def test_nobody_is_scored_that_no_budget_has_recorded(streams):
    noise, candidates, question = scored(1)
    with pytest.raises(RuntimeError, match="No budget has recorded"):
        Releases(noise, streams).select(candidates, question)
    assert not candidates[0].n_asked


def test_a_score_that_moves_further_than_planned_is_refused():
    noise, candidates, question = scored(1, share=3)
    with pytest.raises(RuntimeError, match="more than the budget"):
        Releases(noise, source_of(0)).select(candidates, question)
    assert not candidates[0].n_asked


def test_scores_and_sums_share_no_noise():
    """A choice has the streams of the first release: none may come before it."""
    noise, candidates, question = scored(1, share=8)
    releases = Releases(noise, source_of(0))
    releases.ask(Summed(), question)
    with pytest.raises(RuntimeError, match="before it releases anything else"):
        releases.select(candidates, question)
    releases = Releases(noise, source_of(0))
    with drawing() as opened:
        releases.select(candidates * 3, question)
        releases.ask(Summed(), question)
    assert len(set(opened)) == len(opened) == 4


def test_no_score_leaves_without_noise():
    _, candidates, question = scored(1)
    noise = NoisySums(norm="l1", share=4)
    with pytest.raises(RuntimeError, match="Nobody has added noise"):
        Releases(noise, source_of(0)).select(candidates, question)
    assert not candidates[0].n_asked


# --- what is recorded -----------------------------------------------------------------


def test_another_lattice_is_refused():
    releases, people = door()
    other = replace(bounded(releases), step=releases.step / 2)
    with pytest.raises(RuntimeError, match="another lattice"):
        releases.ask(people, Asking((other,)))


@pytest.mark.parametrize("streams", [None, NoiseStreams(0, 0)], ids=["none", "others"])
def test_nothing_leaves_that_no_budget_has_recorded(streams):
    releases, people = door(streams)
    with pytest.raises(RuntimeError, match="No budget has recorded"):
        releases.ask(people, Asking((bounded(releases),)))
    assert not people.n_asked


def test_nobody_gets_the_noise_of_a_release_again():
    """Another object for the same record would spend its budget again, too."""
    streams = source_of(0)
    (first, people), (second, others) = door(streams), door(streams)
    for _ in range(2):
        first.ask(people, Asking((bounded(first),)))
    with pytest.raises(RuntimeError, match="was drawn before"):
        second.ask(others, Asking((bounded(second),)))
    assert (people.n_asked, others.n_asked) == (2, 0)


def test_nothing_leaves_without_noise():
    # Parties that have not said how many of them added noise have added none.
    noise = plan_gaussian_sums(
        1.0, 1e-6, total_epsilon=1.0, n_releases=1, n_cells=4, n_moved=0, n_entries=100
    )
    shared = Releases(plan_shared_noise(noise, NoiseShares(2)), None)
    with pytest.raises(RuntimeError, match="Nobody has added noise"):
        shared.ask(Summed(), Asking((bounded(shared),)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, np.nextafter(2.0, 3.0)])
@pytest.mark.parametrize("kind", [float, int])
def test_a_long_vector_or_one_that_is_no_number_has_no_weight(kind, bad):
    weights = np.array([3, 4, 5], kind)
    found = without_long(weights, np.array([2.0, bad, 0.0]), 2.0)
    assert_array_equal(found, [3, 0, 5])
    assert found.dtype == weights.dtype


# A vector that is too long, whatever makes it so, beside one that is not.


def of_bounded(monkeypatch):
    sums = BoundedSums((2, 1), 1.0, 1.0, 2.0**-4)
    longest = np.array([[1.0], [1.0]])

    def weighed(_, starts, *data):
        return np.array([1.5, 1.0]), np.array([1.5, 1.0]) * 2.0**4

    monkeypatch.setattr(BoundedSums, "_weighed", weighed)
    places = np.arange(3)
    one_each = np.arange(2, dtype=np.int32)
    return sums, (places, places[:2], one_each, longest), [[0], [2**4]]


def of_whole(monkeypatch):
    sums = WholeSums((1, 2), 1.0, 1.0, 2.0**-4)
    vectors = sparse.csr_array(np.array([[17.0, 0.0], [0.0, 16.0]]))
    return sums, (vectors,), [[0, 16]]


def of_products(monkeypatch):
    sums = ProductSums(np.array([2**13, 2**13]), 1.0, 1.0, 2.0**-20)
    chosen = Choices(np.arange(2), np.array([0, 1, 2]), np.array([0, 0], np.int32), 2)
    weighed, expected = sums._weighed, sums.zeros()
    sums.add(expected, chosen.chunk(1, 2))

    def longer(_, people):
        weights, lengths = weighed(people)
        return weights * np.array([9, 1]), lengths * np.array([9.0, 1.0])

    monkeypatch.setattr(ProductSums, "_weighed", longer)
    return sums, (chosen,), expected


@pytest.mark.parametrize("of_kind", [of_bounded, of_whole, of_products])
def test_every_kind_leaves_out_who_is_too_long(of_kind, monkeypatch, as_released):
    sums, data, expected = of_kind(monkeypatch)
    totals = sums.zeros()
    sums.add(totals, *data)
    assert_array_equal(totals, expected)
