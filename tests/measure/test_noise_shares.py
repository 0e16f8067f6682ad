"""Noise in shares: what its sums guarantee, and parties that add it.

The divergences here come from sums of masses, without dp-accounting. Statistical tests
use fixed seeds. A false-alarm rate is the probability, over the seeds, that correct
noise fails; those of chi-square tests are asymptotic.
"""

import math
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

from sktensordp.completion import CPCompletion, NoiseShares, fit_aggregated, party
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import BudgetExceededError
from sktensordp.measure import SharedNoise
from sktensordp.privacy import PrivacyBudget, PrivacyGuarantee, privacy_of
from tests.support import divergence
from tests.support.goodness import chi_square
from tests.support.noise import drawing
from tests.support.refusing import refused
from tests.support.replaying import leaves, with_a_pattern
from tests.support.requests import (
    Counted,
    header,
    numbered,
    setting,
    signed,
    total,
    with_array,
    without_noise,
)
from tests.support.seams import _LEAST_SCALE, _RHO, _ROUNDING, read_request
from tests.support.threads import in_threads

# Threads enter `warnings.catch_warnings` side by side.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.usefixtures("restored_filters"),
]

RATINGS = make_ratings(n_users=60, n_items=20, n_ratings=900, random_state=0)
NO_UNITS = np.empty((0, 2)), np.empty(0)
SHARES = NoiseShares(5, n_dropouts=1, n_colluders=1)
# One answer is enough.
ALONE = NoiseShares(5, n_dropouts=4)
ALPHA = 1e-6


def model(rank=0, **options):
    defaults = {
        "levels": RATINGS.levels, "epsilon": 4.0, "unit": 0, "shape": (60, 20),
        "perturbation": "sums",
    }  # fmt: skip
    return CPCompletion(rank, **defaults | options)


def of_party(number):
    """Units 0, 3, 6, ... of party 0, and so on; the last two parties have none."""
    own = RATINGS.data[:, 0] % 3 == number
    return RATINGS.data[own], RATINGS.target[own]


def parties_of(server, shares=SHARES, seeds=None):
    seeds = seeds or [None] * shares.n_parties
    return [
        party(server, *of_party(k), noise_shares=shares, random_state=seed)
        for k, seed in enumerate(seeds)
    ]


def aggregated(sums, shares=SHARES, **options):
    return fit_aggregated(model(**options), sums, noise_shares=shares)


def asked_alone():
    """What the only party that answers is asked, and what it said."""
    sums = Counted(parties_of(model(), ALONE)[:1])
    aggregated(sums, ALONE)
    return sums


def with_products(seeds=None):
    """The same of a fit with a pattern, and the number of its sums of products."""
    with with_a_pattern():
        sums = Counted(parties_of(model(), seeds=seeds))
        aggregated(sums)
    kinds = [header(request)["question"]["kind"] for request in sums.requests]
    (number,) = [k for k, kind in enumerate(kinds) if kind == "pattern"]
    return sums, number


# --- what sums of discrete Gaussian variates are --------------------------------------


def theta(variance):
    """Largest relative deviation of sums of exp(-(k - x)^2 / (2 v)) from a constant."""
    return 2 * mpmath.nsum(
        lambda j: mpmath.exp(-2 * mpmath.pi**2 * variance * j**2), [1, mpmath.inf]
    )


def rho(variance):
    return mpmath.log((1 + theta(variance)) / (1 - theta(variance)))


def masses(variance, reach=40):
    """Of a discrete Gaussian variate, on the integers from -reach to reach."""
    found = [
        mpmath.exp(-(mpmath.mpf(n) ** 2) / (2 * variance)) for n in range(reach + 1)
    ]
    whole = found[0] + 2 * mpmath.fsum(found[1:])
    return [found[abs(n)] / whole for n in range(-reach, reach + 1)]


def convolved(one, two):
    """Masses of the sum on the same integers; what is left out is below 1e-100."""
    reach = len(one) // 2
    return [
        mpmath.fsum(
            one[k] * two[n - k + reach]
            for k in range(len(one))
            if 0 <= n - k + reach < len(two)
        )
        for n in range(len(one))
    ]


def distance(one, two, reach=8):
    """Largest absolute logarithm of a ratio of masses in the middle."""
    middle = len(one) // 2
    return max(
        abs(mpmath.log(one[n] / two[n]))
        for n in range(middle - reach, middle + reach + 1)
    )


def rounded_at_random(variance, rounding):
    """Masses of a Gaussian variate of this variance that is rounded at random.

    On the integers from -40 to 40, by the trapezoidal rule, whose error for these
    functions is below 1e-12.
    """
    x, n = np.arange(-15, 15, 2.0**-6), np.arange(-40, 41)
    kernel = np.exp(-((n[:, np.newaxis] - x) ** 2) / (2 * rounding))
    density = np.exp(-(x**2) / (2 * variance))
    found = (kernel / kernel.sum(axis=0)) @ density
    return (found / density.sum()).tolist()


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.3), (0.6, 0.3), (1.2, 0.4)])
def test_the_sum_of_two_variates(a, b):
    """Fact 1 of the module; the bound is reached within a factor of 3."""
    found = distance(convolved(masses(a), masses(b)), masses(a + b))
    bound = rho(a * b / (a + b))
    assert bound / 3 < found <= bound
    # At half the variance, the same bound would be wrong.
    assert (
        distance(convolved(masses(a / 2), masses(b / 2)), masses((a + b) / 2)) > bound
    )


def test_a_variate_is_a_gaussian_variate_rounded_at_random():
    """Fact 2 of the module; the bound is reached within a factor of 3."""
    variance, rounding, expected = 0.25, 0.2, masses(0.25)
    found = distance(rounded_at_random(variance - rounding, rounding), expected, 3)
    assert rho(rounding) / 3 < found <= rho(rounding)
    # Without the variance of the rounding, the two differ by more.
    other = distance(rounded_at_random(variance, rounding), expected, 3)
    assert other > rho(rounding)


def test_the_bound_on_what_rounding_changes():
    with mpmath.workdps(300):
        found = rho(_ROUNDING)
        assert 0.9 * _RHO < found <= _RHO
    # Shares are far beyond what both facts need.
    assert _LEAST_SCALE**2 / 2 > _ROUNDING


# --- what is stated, and what holds ---------------------------------------------------


def law_of_sum(noise, n_answers, shift):
    """(losses, masses) of the sum of so many shares, moved by whole steps or not."""
    n = np.arange(-14 * noise.scale, 14 * noise.scale + 1)
    share = np.exp(-0.5 * (n / noise.scale) ** 2)
    total = reduce(np.convolve, [share / share.sum()] * n_answers)
    total = total[total > 1e-25]
    return np.log(total[shift:]) - np.log(total[:-shift]), total[shift:]


def stated(noise):
    return PrivacyGuarantee.from_event(
        noise.event, delta=1e-6, unit=0, statement="-", source="-"
    )


def small_noise(n_honest, scale=40, length=100, **missing):
    """Shares of few steps, for vectors of so many steps."""
    shares = NoiseShares(n_honest + sum(missing.values()), **missing)
    return SharedNoise(shares, 1 / length, scale, 10)


@pytest.mark.parametrize("n_honest", [1, 2, 4])
def test_one_release_keeps_what_is_stated(n_honest):
    noise = small_noise(n_honest)
    law = law_of_sum(noise, n_honest, 100)
    halved = law_of_sum(replace(noise, scale=20), n_honest, 100)
    for epsilon in (0.3, 1.0, 3.0, 6.0):
        delta = stated(noise).delta_at(epsilon)
        assert 0.9 * delta < divergence.stick(law, epsilon) <= delta
        # With half the noise, or one share less, the statement would be wrong.
        assert divergence.stick(halved, epsilon) > 1.1 * delta
        if n_honest > 1:
            fewer = law_of_sum(noise, n_honest - 1, 100)
            assert divergence.stick(fewer, epsilon) > 1.1 * delta


@pytest.mark.parametrize("answers", [(3, 3), (5, 4), (3, 2), (1, 3)])
def test_releases_with_dropouts_keep_what_is_stated(answers):
    """Two releases of vectors of lengths 0.6 and 0.8: shares 0.36 and 0.64."""
    noise = small_noise(3, scale=20, n_dropouts=2, length=50)
    law = divergence.product(
        law_of_sum(noise, answers[0], 30), law_of_sum(noise, answers[1], 40)
    )
    is_planned = min(answers) >= noise.shares.n_needed
    for epsilon in (1.0, 4.0):
        true, said = divergence.stick(law, epsilon), stated(noise).delta_at(epsilon)
        # A fit that went on without these answers would break its statement.
        assert true <= said if is_planned else true > 1.1 * said


def multiplier_of(guarantee):
    return guarantee.event.events[0].noise_multiplier


@pytest.mark.parametrize("counts", [(5, 1, 1), (1, 0, 0), (40, 10, 0)])
def test_the_noise_of_the_least_parties_is_that_of_a_server(counts):
    shares = NoiseShares(*counts)
    guarantee = party(model(), *NO_UNITS, noise_shares=shares).privacy_guarantee_
    alone = model().fit(RATINGS.data, RATINGS.target)
    of_server = multiplier_of(alone.privacy_guarantee_)
    # Rounded up to whole steps, and no more.
    assert of_server < multiplier_of(guarantee) < of_server * (1 + 1e-4)
    assert 0.999 * 4.0 < guarantee.epsilon <= 4.0
    assert guarantee.unit == 0
    assert guarantee.relation == "add-or-remove"
    assert "shares" in guarantee.statement


# --- parties --------------------------------------------------------------------------


def test_answers_contain_shares_of_discrete_gaussian_noise():
    """Against the exact answers; false-alarm rate 1e-6 for every test."""
    sums = Counted(parties_of(model(), seeds=range(5)))
    aggregated(sums)
    scale = sums.answering[0]._noise.scale
    exact = [party(model(), *of_party(k)) for k in range(5)]
    noise = []
    for request, answers in zip(sums.requests, sums.answers, strict=True):
        for one, answer in zip(exact, answers, strict=True):
            difference = answer - one.answer(without_noise(request))
            noise.append(signed(difference, header(request)["n_bits"]) / scale)
    # Totals, counts and four passes.
    assert len(noise) == 5 * 6
    flat = np.concatenate(noise)
    assert chi_square(*cells(flat)) > ALPHA
    assert chi_square(*cells(flat / 2)) < ALPHA
    # No two parties and no two releases have the same noise.
    assert len(np.unique(flat)) == flat.size


def cells(normal):
    """Counts in 30 cells of the standard normal distribution, and their masses."""
    return np.bincount((30 * norm.cdf(normal)).astype(int), minlength=30), [1 / 30] * 30


def test_the_server_draws_no_noise_and_knows_how_much_there_is():
    answering = parties_of(model())
    with drawing() as streams:
        fitted = aggregated(Counted(answering))
    assert len({key for key, _ in streams}) == 5
    assert np.all(np.isfinite(fitted.factors_[1]))
    # At a large epsilon, little noise is left.
    shares = NoiseShares(3)
    precise = Counted(parties_of(model(epsilon=100.0), shares))
    found = aggregated(precise, shares, epsilon=100.0)
    expected = model(epsilon=math.inf).fit(RATINGS.data, RATINGS.target)
    X = np.column_stack([np.full(20, -1), np.arange(20)])
    assert np.abs(found.predict(X) - expected.predict(X)).max() < 0.1


def test_sums_do_not_wrap_around():
    shares = NoiseShares(12, n_dropouts=10)
    everybody = parties_of(model(epsilon=0.1), shares)
    sums = Counted(everybody)
    aggregated(sums, shares, epsilon=0.1)
    # All of these parties add the noise that two would have to add.
    noise, spread = everybody[0]._noise, math.sqrt(12)
    for request, answers in zip(sums.requests, sums.answers, strict=True):
        n_bits = header(request)["n_bits"]
        whole = signed(np.sum(answers, axis=0), n_bits)
        assert_array_equal(sum(signed(a, n_bits) for a in answers), whole)
        assert 40 * spread * noise.scale < 2 ** (n_bits - 1)
        assert n_bits <= 40


def test_what_units_contribute_stays_within_what_is_accounted_for():
    """The exact sums of neighbours, who are sent the same requests."""
    sums = Counted(parties_of(model(rank=2, perturbation="statistics")))
    aggregated(sums, rank=2, perturbation="statistics")
    exact = model(rank=2, perturbation="statistics")
    X, y = of_party(0)
    whole, noise = party(exact, X, y), sums.answering[0]._noise
    requests = [without_noise(request) for request in sums.requests]
    bits = [header(request)["n_bits"] for request in requests]
    answers = [signed(whole.answer(r), n) for r, n in zip(requests, bits, strict=True)]
    mu = 1 / multiplier_of(sums.answering[0].privacy_guarantee_)
    spread = noise.step * noise.scale * math.sqrt(SHARES.n_honest)
    found = []
    for unit in np.unique(X[:, 0])[:6]:
        rest = party(exact, X[X[:, 0] != unit], y[X[:, 0] != unit])
        moved = [
            signed(rest.answer(r), n) - a
            for r, n, a in zip(requests, bits, answers, strict=True)
        ]
        length = noise.step * np.linalg.norm(np.concatenate(moved).astype(float))
        found.append(length / spread / mu)
    assert 0.6 < max(found) <= 1
    # Half the noise would not do.
    assert 2 * max(found) > 1.2


def test_a_party_answers_one_request_of_each_number():
    first, second = parties_of(model(), ALONE)[:2]
    sums = Counted([first])
    aggregated(sums, ALONE)
    for request, (answer,) in zip(sums.requests, sums.answers, strict=True):
        assert_array_equal(first.answer(request), answer)
        assert_array_equal(second.answer(request), second.answer(request))
    last = sums.requests[-1]
    exact = party(model(), *of_party(0))
    exact.answer(without_noise(last))
    for one, known in ((first, last), (exact, without_noise(last))):
        for other in (
            setting(known, "n_bits", to=header(known)["n_bits"] + 1),
            setting(known, "sums", 0, "share", to=1e-3),
            with_array(known, "lengths", lambda lengths: 2 * lengths),
        ):
            with pytest.raises(ValueError, match="answered another request"):
                one.answer(other)
    # What the party returned is the caller's to change.
    first.answer(last)[:] = 0
    assert_array_equal(first.answer(last), sums.answers[-1][0])


def test_threads_cannot_get_two_answers_with_one_noise():
    request = asked_alone().requests[0]
    n_bits = header(request)["n_bits"]
    others = [setting(request, "n_bits", to=n_bits + k) for k in range(8)]
    (answering,) = parties_of(model(), ALONE)[:1]
    answered = []

    def ask(one):
        with suppress(ValueError):
            answered.append(answering.answer(one))

    in_threads(*(partial(ask, one) for one in others))
    assert len(answered) == 1


def test_an_interrupted_answer_is_no_chance_to_ask_something_else(monkeypatch):
    request = asked_alone().requests[0]
    (one,) = parties_of(model(), ALONE)[:1]
    with monkeypatch.context() as patched:
        patched.setattr(SharedNoise, "draw", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            one.answer(request)
    with pytest.raises(ValueError, match="answered another request"):
        one.answer(setting(request, "n_bits", to=header(request)["n_bits"] + 1))
    assert_array_equal(one.answer(request), one.answer(request))


def test_parties_decide_how_much_noise_they_add():
    request = asked_alone().requests[0]
    more = NoiseShares(500)
    for one, asked in (
        (party(model(), *of_party(0), noise_shares=more), request),
        (party(model(), *of_party(0)), request),
        (parties_of(model(), ALONE)[0], without_noise(request)),
        (
            parties_of(model(), ALONE)[0],
            setting(request, "settings", "noise_shares", to=[500, 0, 0]),
        ),
    ):
        with refused("must declare the same parameters.*noise_shares = "):
            one.answer(asked)
    step = header(request)["step"]
    with refused("another lattice than that of the noise"):
        parties_of(model(), ALONE)[0].answer(setting(request, "step", to=step / 2))


def test_budgets_record_the_release_at_each_party_once():
    server, answering = model(), parties_of(model())
    with refused("number of answers"):
        fit_aggregated(server, Counted([]), noise_shares=SHARES)
    budgets = [PrivacyBudget(4.0, delta=1e-6) for _ in answering]

    def ask(request):
        found = []
        for one, budget in zip(answering, budgets, strict=True):
            with budget:
                found.append(one.answer(request))
        return total(found), len(found)

    fit_aggregated(server, ask, noise_shares=SHARES)
    for budget, one in zip(budgets, answering, strict=True):
        assert budget.spent.epsilon == pytest.approx(4.0, abs=1e-3)
        assert budget.spent.epsilon == one.privacy_guarantee_.epsilon
    # A new party for the same units is another release.
    sums = Counted(parties_of(server))
    fit_aggregated(server, sums, noise_shares=SHARES)
    with budgets[0], drawing() as streams, pytest.raises(BudgetExceededError):
        Counted(parties_of(model()))(sums.requests[0])
    assert not streams


def test_the_guarantee_says_how_many_parties_it_needs():
    planned = aggregated(Counted(parties_of(model())))
    text = planned.privacy_guarantee_.statement
    assert "noise of at least 3 of the 5 parties" in text
    assert "one sum for each request, over one set of parties" in text
    assert "no sum of fewer than 4 answers" in text
    assert planned.privacy_guarantee_.claimed is None
    assert "exact sums" not in str(privacy_of(planned))
    allowed = aggregated(
        Counted(parties_of(model()), present=lambda _, party: party != 2)
    )
    assert allowed.privacy_guarantee_ == planned.privacy_guarantee_


@pytest.mark.parametrize("n_answers", [1, 3])
@pytest.mark.parametrize("number", range(7))
def test_a_fit_ends_if_more_parties_drop_out_than_planned(number, n_answers):
    """In any release, the rounded products of a pattern among them."""
    with with_a_pattern():
        server = model()
        answering = parties_of(server)
        few = Counted(
            answering,
            present=lambda asked, party: asked != number or party < n_answers,
        )
        with (
            PrivacyBudget(math.inf, delta=1e-6) as budget,
            pytest.raises(ValueError, match=f"release {number} .* = 4 to .* = 5, got"),
        ):
            fit_aggregated(server, few, noise_shares=SHARES)
    assert [header(request)["number"] for request in few.requests] == [
        *range(number + 1)
    ]
    # All who have answered keep their release in the record.
    once = answering[0].privacy_guarantee_
    expected = (5 if number else n_answers) * once
    delta = expected.delta
    assert budget.spent.epsilon_at(delta) == pytest.approx(expected.epsilon_at(delta))
    with pytest.raises(NotFittedError):
        server.predict([[-1, 0]])


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((3, 2, 1), "must be at least 1"),
        ((0,), "n_parties must be an integer from 1"),
        ((-2, -3), "n_parties must be an integer from 1"),
        ((5, -1), "n_dropouts must be an integer from 0"),
        ((5, 0, -1), "n_colluders must be an integer from 0"),
        ((2**31,), "n_parties must be an integer from 1 to 2147483647"),
    ],
)
def test_counts_that_make_no_sense(counts, message):
    with pytest.raises(ValueError, match=message):
        NoiseShares(*counts)


@pytest.mark.parametrize("n_answers", [0, 3, 6, -1, 4.0, None, True])
def test_numbers_of_answers_that_make_no_sense(n_answers):
    def ask(request):
        return np.zeros(header(request)["n_numbers"], dtype=int), n_answers

    with refused("number of answers to release 0"):
        aggregated(ask)
    with refused("ask must return a tuple"):
        aggregated(lambda request: np.zeros(header(request)["n_numbers"], dtype=int))


@pytest.mark.parametrize(
    ("options", "shares", "message"),
    [
        ({"epsilon": math.inf}, SHARES, "finite epsilon"),
        ({}, NoiseShares(10**8), "cannot be divided"),
        ({"shape": None}, SHARES, "Declare `shape`"),
        ({"delta": 0.0}, SHARES, "delta > 0"),
    ],
)
def test_noise_that_cannot_be_divided(options, shares, message):
    with refused(message):
        party(model(**options), *NO_UNITS, noise_shares=shares)
    with refused(message):
        aggregated(lambda request: None, shares, **options)


def test_noise_that_has_no_room():
    noise = party(model(), *NO_UNITS, noise_shares=NoiseShares(2))._noise
    huge = replace(noise, scale=2**48)
    with pytest.raises(ValueError, match="too large to be added exactly"):
        huge.n_bits(1.0)


def test_shares_must_be_declared_as_such():
    with pytest.raises(TypeError, match="noise_shares must be"):
        party(model(), *NO_UNITS, noise_shares=5)
    with pytest.raises(TypeError, match="noise_shares must be"):
        fit_aggregated(model(), lambda request: None, noise_shares=(5, 1, 1))


def test_shares_are_planned_without_data():
    """The server and all parties come to the same noise, each on its own."""
    one = party(model(), *of_party(0), noise_shares=SHARES)._noise
    assert one == party(model(), *NO_UNITS, noise_shares=SHARES)._noise


# --- products -------------------------------------------------------------------------


def test_parties_round_products_before_they_add_noise():
    """Each its own. False-alarm rate of the variance: 1e-6."""
    sums, number = with_products(seeds=range(5))
    request, answers = sums.requests[number], sums.answers[number]
    n_bits = header(request)["n_bits"]
    assert header(request)["n_numbers"] == 20 * 21 // 2
    assert n_bits < 53
    scale, noise = sums.answering[0]._noise.scale, []
    for k, answer in enumerate(answers):
        alone = party(model(), *of_party(k))
        (products,) = read_request(request, sums.answering[k]._agreed).question.sums
        limbs = alone.answer(without_noise(request)).astype(np.int64).reshape(2, -1)
        difference = signed(answer, n_bits) - products.rounded(limbs)
        noise.append(difference / scale)
    noise = np.concatenate(noise)
    assert abs(np.mean(noise**2) - 1) < 4.9 * math.sqrt(2 / noise.size)
    assert abs(np.mean(noise)) < 4.9 / math.sqrt(noise.size)


def test_the_rounding_of_products_is_accounted_for():
    """What one unit may move is 1, and a step more for the root of their number."""
    with with_a_pattern():
        one = parties_of(model())[0]
        events = [*leaves(one.privacy_guarantee_.event)]
    noise = one._noise
    assert noise.n_moved == 20 * 21 // 2
    (multiplier,) = [
        event.noise_multiplier
        for event, _ in events
        if hasattr(event, "noise_multiplier")
    ]
    variance = SHARES.n_honest * noise.scale**2 - _ROUNDING
    spread = noise.step * math.sqrt(variance)
    assert spread / multiplier >= 1 + noise.step * math.sqrt(noise.n_moved)


def test_more_or_larger_products_than_planned_are_refused():
    sums, number = with_products()
    request = sums.requests[number]
    with with_a_pattern():
        other = parties_of(model())[0]
    other.answer(request)
    with pytest.raises(ValueError, match="more sums"):
        other.answer(numbered(request, number + 1))
    beyond = with_array(
        numbered(request, number + 2), "shares", lambda shares: shares * 2**40
    )
    with pytest.raises(ValueError, match="shares is missing or not as it must be"):
        other.answer(beyond)


def test_more_sums_than_planned_are_refused():
    """Their number is part of the guarantee, however little of the budget they take."""
    request, one = asked_alone().requests[1], parties_of(model(), ALONE)[0]
    assert header(request)["question"]["kind"] == "counts"
    n_most = one._noise.n_cells // header(request)["n_numbers"]
    cheap = setting(request, "sums", 0, "share", to=1e-9)
    for number in range(n_most):
        one.answer(numbered(cheap, number))
    with pytest.raises(ValueError, match="more sums"):
        one.answer(numbered(cheap, n_most))
