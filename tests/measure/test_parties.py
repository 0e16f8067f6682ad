"""Parties that keep their people's data: what holds for whatever is summed.

What only completions or only moments have is in their folders; shares of noise are in
``test_noise_shares.py``. Statistical tests state their false-alarm rate.
"""

import copy
import math
import os
import pickle
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sktensordp.completion
import sktensordp.moments
from sktensordp.completion import (
    CPCompletion,
    ImplicitCompletion,
    NoiseShares,
    fit_aggregated,
    party,
)
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import GaussianMechanism
from sktensordp.privacy import PrivacyBudget
from tests.support.goodness import chi_square
from tests.support.noise import drawing
from tests.support.parties import CASES, released
from tests.support.processes import refused_in_fork
from tests.support.refusing import refused
from tests.support.replaying import leaves
from tests.support.requests import (
    Counted,
    Sums,
    header,
    numbered,
    setting,
    share_of,
    signed,
    total,
)
from tests.support.seams import Question, read_request

pytestmark = pytest.mark.thorough
SHARES = NoiseShares(5, n_dropouts=1, n_colluders=1)
EXACT = "if nobody but a trusted server sees the exact sums"


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def steps_of(request, answer, agreed):
    """The sums of an answer in whole steps, whether they are exact or noisy."""
    asked = read_request(request, agreed)
    parts = asked.split(signed(answer, header(request)["n_bits"]))
    if not asked.is_noisy:
        pairs = zip(asked.question.sums, parts, strict=True)
        parts = [sums.rounded(part) for sums, part in pairs]
    return np.concatenate([np.ravel(part) for part in parts]).astype(float)


def exact_twin(request):
    """The same question to parties that add no noise."""
    found = header(request)
    asked = setting(request, "settings", "noise_shares", to=None)
    if "is_centred" in found["question"]:
        # Two limbs for each of the sums.
        asked = setting(asked, "n_numbers", to=2 * found["n_numbers"])
        asked = setting(asked, "n_bits", to=64)
    return asked


def test_both_rooms_offer_the_same_functions():
    for name in ("party", "fit_aggregated", "NoiseShares"):
        one, other = sktensordp.completion, sktensordp.moments
        assert getattr(one, name) is getattr(other, name)


# --- exact answers --------------------------------------------------------------------


def test_the_model_of_all_parties_is_that_of_fit(case):
    with drawing() as streams:
        server, _ = case.summed()
    with drawing() as expected:
        one = case.make().fit(case.X, case.y)
    # Only the server draws noise, as often as a fit does.
    assert len(streams) == len(expected) > 0
    for found, arrays in zip(released(server), released(one), strict=True):
        assert_array_equal(found, arrays)
    assert server.privacy_guarantee_ == one.privacy_guarantee_.with_conditions(EXACT)


def test_answers_are_integers_below_the_modulus_that_is_needed(case):
    _, sums = case.summed()
    for request, answers in zip(sums.requests, sums.answers, strict=True):
        n_bits = header(request)["n_bits"]
        assert all(a.dtype == np.uint64 and int(a.max()) < 2**n_bits for a in answers)
        # Their length tells nothing of what is in them.
        assert {a.shape for a in answers} == {(header(request)["n_numbers"],)}
        assert not answers[-1].any()


def test_a_party_moves_the_sums_by_its_own_people_alone(case):
    """What it answers does not depend on other parties, given the request."""
    _, sums = case.summed()
    alone = case.parties()[1]
    for request, answers in zip(sums.requests, sums.answers, strict=True):
        assert_array_equal(alone.answer(request), answers[1])
        # Asked again, it says the same.
        assert_array_equal(alone.answer(request), answers[1])


def test_the_release_is_recorded_once_before_anybody_is_asked(case):
    server, asked = case.make(), []
    epsilon = server.epsilon
    exceeded = pytest.raises(BudgetExceededError)
    with PrivacyBudget(epsilon / 2, delta=1e-6) as budget, exceeded:
        case.aggregated(asked.append, server)
    assert not asked
    assert budget.spent is None

    def fails(request):
        raise ConnectionError("the network is down")

    with PrivacyBudget(epsilon, delta=1e-6) as budget, pytest.raises(ConnectionError):
        case.aggregated(fails, server)
    assert budget.spent.epsilon == pytest.approx(epsilon, abs=1e-3)
    with pytest.raises(NotFittedError):
        released(server)


@pytest.mark.parametrize(
    "answer", [lambda n: np.zeros(n + 1, dtype=int), np.zeros, lambda n: None]
)
def test_a_sum_that_is_none_is_refused(case, answer):
    with pytest.raises(ValueError, match="ask must return"):
        case.aggregated(lambda request: answer(header(request)["n_numbers"]))


def test_ask_must_be_a_function(case):
    for ask in ([], None, case.parties()[0]):
        with pytest.raises(TypeError, match="ask must be a function that maps"):
            case.aggregated(ask)


@pytest.mark.parametrize(
    "wrong", [None, CPCompletion, ImplicitCompletion(), GaussianMechanism(), "party"]
)
def test_what_is_not_fitted_to_sums_has_no_parties(wrong):
    with pytest.raises(TypeError, match="estimator must be a CPCompletion, Tucker"):
        party(wrong, [])
    with pytest.raises(TypeError, match="estimator must be a CPCompletion, Tucker"):
        fit_aggregated(wrong, lambda request: 0)


def test_sums_without_noise_cannot_be_added(case):
    for shares in (None, SHARES):
        with refused("Sums without noise are not integers"):
            party(case.make(epsilon=math.inf), [], [], noise_shares=shares)
        with refused("Sums without noise are not integers"):
            case.aggregated(None.__eq__, case.make(epsilon=math.inf))


@pytest.mark.parametrize("shares", [None, NoiseShares(3)])
def test_parties_notice_a_server_with_other_parameters(case, shares):
    """Before they answer anything; the message says what differs."""
    for name, other in case.others.items():
        parts, answered = case.parties(n=3, noise_shares=shares), []

        def ask(request, parts=parts, answered=answered):
            answered.extend(one.answer(request) for one in parts)

        message = f"must declare the same parameters.*{name} = "
        with pytest.raises(ValueError, match=message):
            case.aggregated(ask, case.make(**{name: other}), noise_shares=shares)
        assert not answered


def test_a_party_of_another_estimator_does_not_answer():
    with pytest.raises(ValueError, match="estimator = "):
        CASES["modes"].aggregated(CASES["regression"].parties()[0].answer)


def test_a_party_serves_one_fit_within_the_budget(case):
    one = case.parties()[0]
    sums = Sums([one])
    case.aggregated(sums)
    with pytest.raises(ValueError, match="has answered another fit"):
        case.aggregated(Sums([one]))
    # A server that asks for more than the budget, or than planned, gets no answer.
    for request in sums.requests:
        greedy = case.parties()[0]
        asked = read_request(request, greedy._agreed).question.sums
        n_cells = sum(math.prod(one.shape) for one in asked)
        of_plan = greedy._agreed.terms.noise.n_cells // n_cells
        n_most = min(math.floor((1 + 1e-9) / share_of(request)), of_plan)
        for number in range(min(n_most, 20)):
            greedy.answer(numbered(request, number))
        if n_most < 20:
            with pytest.raises(ValueError, match=r"the budget|more sums than"):
                greedy.answer(numbered(request, n_most))


@pytest.mark.parametrize("shares", [None, SHARES])
def test_a_party_counts_what_it_is_asked_against_its_own_plan(case, shares):
    """Sums, those that are rounded, and the lattice, however cheap the sums are."""
    sums = Counted(case.parties(n=5, noise_shares=shares))
    ask = sums if shares else lambda request: sums(request)[0]
    case.aggregated(ask, noise_shares=shares)
    for request in sums.requests:
        one = case.parties(noise_shares=shares)[0]
        step = header(request)["step"]
        for wrong in (step / 2, 2 * step):
            with refused("another lattice than that of the noise"):
                one.answer(setting(request, "step", to=wrong))
        cheap = request
        for k in range(len(header(request)["sums"])):
            cheap = setting(cheap, "sums", k, "share", to=1e-9)
        asked = read_request(cheap, one._agreed).question.sums
        size = sum(math.prod(each.shape) for each in asked)
        n_most = one._agreed.terms.noise.n_cells // size
        if n_most <= 20:
            for number in range(n_most):
                one.answer(numbered(cheap, number))
            with refused("more sums"):
                one.answer(numbered(cheap, n_most))


def test_a_party_keeps_its_data(case):
    one = case.parties()[0]
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            leave(one)
    assert repr(one) == "Party()"
    with pytest.raises(TypeError):
        pickle.dumps(one.answer)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("shares", [None, NoiseShares(2)])
@pytest.mark.parametrize("name", ["cp", "modes"])
def test_a_fork_of_a_party_does_not_answer(name, shares):
    """It would draw the same noise for another request of the same number."""
    case = CASES[name]
    server = case.make(random_state=None)
    one, other = case.parties(server, 2, noise_shares=shares)
    sums, answers = Sums([one, other]), []

    def ask(request):
        answers.append(refused_in_fork(lambda: one.answer(request), "fork"))
        return sums(request) if shares is None else (sums(request), 2)

    case.aggregated(ask, server, noise_shares=shares)
    # Before the first answer, there is no noise to share.
    assert answers == [False] + [True] * (len(answers) - 1)
    assert len(answers) > 1


# --- noise in shares ------------------------------------------------------------------


def shared(case, n=5, **options):
    """A fit to sums with noise in shares, and what parties were asked."""
    sums = Counted(case.parties(n=n, noise_shares=SHARES, **options))
    return case.aggregated(sums, noise_shares=SHARES), sums


def test_answers_contain_shares_of_discrete_gaussian_noise(case):
    """Against the exact answers; false-alarm rate 1e-6 for every estimator."""
    _, sums = shared(case)
    noise = []
    exact = case.parties(n=5)
    for request, answers in zip(sums.requests, sums.answers, strict=True):
        twin = exact_twin(request)
        for one, noisy, answer in zip(exact, sums.answering, answers, strict=True):
            known = steps_of(twin, one.answer(twin), one._agreed)
            found = steps_of(request, answer, noisy._agreed)
            noise.append((found - known) / noisy._noise.scale)
    flat = np.concatenate(noise)
    assert flat.size > 100
    assert chi_square(*cells(flat)) > 1e-6
    # No two parties and no two releases have the same noise.
    assert len(np.unique(flat)) > 0.99 * flat.size
    # With half the noise it would be seen, if there are enough numbers.
    if flat.size > 500:
        assert chi_square(*cells(flat / 2)) < 1e-6


def cells(normal):
    """Counts in 10 cells of the standard normal distribution, and their masses."""
    return np.bincount((10 * norm.cdf(normal)).astype(int), minlength=10), [0.1] * 10


def test_the_server_draws_no_noise_and_states_what_holds(case):
    answering = case.parties(n=5, noise_shares=SHARES)
    with drawing() as streams:
        server = case.aggregated(Counted(answering), noise_shares=SHARES)
    assert len({key for key, _ in streams}) == 5
    guarantee = server.privacy_guarantee_
    assert {one.privacy_guarantee_.event for one in answering} == {guarantee.event}
    assert 0.99 * server.epsilon < guarantee.epsilon <= server.epsilon
    conditions = {
        "if each request reveals one sum only, of no fewer answers than planned",
        "if no more parties collude than planned",
    }
    assert conditions < {*guarantee.conditions, ""}
    assert EXACT not in guarantee.conditions
    for said in (
        "discrete Gaussian noise",
        ", in shares by the parties",
        "one sum for each request, over one set of parties",
        "no sum of fewer than 4 answers",
        "noise of at least 3 of the 5 parties",
    ):
        assert said in guarantee.statement
    plain = clone(server).fit(case.X, case.y).privacy_guarantee_
    assert (plain.unit, plain.relation) == (guarantee.unit, guarantee.relation)
    assert {*plain.conditions} == {*guarantee.conditions} - conditions


def test_budgets_record_the_release_at_each_party_once(case):
    server, answering = case.make(), case.parties(n=5, noise_shares=SHARES)
    epsilon = server.epsilon
    budgets = [PrivacyBudget(epsilon, delta=1e-6) for _ in answering]

    def ask(request):
        found = []
        for one, budget in zip(answering, budgets, strict=True):
            with budget:
                found.append(one.answer(request))
        return total(found), len(found)

    case.aggregated(ask, server, noise_shares=SHARES)
    for budget, one in zip(budgets, answering, strict=True):
        assert budget.spent.epsilon == one.privacy_guarantee_.epsilon
    # A new party for the same people is another release, and draws nothing.
    _, sums = shared(case)
    with budgets[0], drawing() as streams, pytest.raises(BudgetExceededError):
        case.parties(n=5, noise_shares=SHARES)[0].answer(sums.requests[0])
    assert not streams


@pytest.mark.parametrize("n_answers", [1, 3])
def test_a_fit_ends_if_more_parties_drop_out_than_planned(case, n_answers):
    _, sums = shared(case)
    for number in range(len(sums.requests)):
        few = Counted(
            case.parties(n=5, noise_shares=SHARES),
            present=lambda asked, k, number=number: asked != number or k < n_answers,
        )
        server = case.make()
        with pytest.raises(ValueError, match=f"release {number} .* = 4 to .* = 5, got"):
            case.aggregated(few, server, noise_shares=SHARES)
        assert len(few.requests) == number + 1
        with pytest.raises(NotFittedError):
            released(server)


def multiplier_of(guarantee):
    events = [event for event, _ in leaves(guarantee.event)]
    (found,) = [e.noise_multiplier for e in events if hasattr(e, "noise_multiplier")]
    return found


def neighbours(case, X, y, k):
    """Data of party k in which one person is missing, or another sample."""
    own = case.people[case.people % 3 == k]
    for person in np.unique(own)[:6]:
        if case.n_samples is None:
            yield X[own != person], y[own != person]
        else:
            for scale in (-1.0, 0.0, -50.0):
                other = X.copy()
                other[own == person] *= scale
                yield other, np.where(own == person, 2 - y, y)


def test_what_people_contribute_stays_within_what_is_accounted_for(case):
    """Rounded sums of neighbours, who are sent the same requests."""
    _, sums = shared(case)
    noise, (X, y) = sums.answering[0]._noise, case.of(0)
    mu = 1 / multiplier_of(sums.answering[0].privacy_guarantee_)
    spread = noise.step * noise.scale * math.sqrt(SHARES.n_honest)
    twins = [exact_twin(request) for request in sums.requests]

    def steps(X, y):
        one = party(case.make(), X, y)
        parts = [steps_of(twin, one.answer(twin), one._agreed) for twin in twins]
        return np.concatenate(parts)

    whole, found = steps(X, y), []
    for other in neighbours(case, X, y, 0):
        length = noise.step * np.linalg.norm(steps(*other) - whole)
        found.append(length / spread / mu)
    assert 0.2 < max(found) <= 1


class Reached(Exception):
    """What was waited for."""


def test_a_sample_at_its_bound_moves_moments_by_all_of_the_budget():
    """Two samples that have no cell in common: the distance that is accounted for."""
    model, asked = CASES["modes"].make(n_components=(1,), tensor_shape=(2,)), []
    model.set_params(center=False)

    def ask(request):
        asked.append(request)
        raise Reached

    with pytest.raises(Reached):
        fit_aggregated(model, ask, n_samples=5)
    (request,) = asked
    step, n_moved = header(request)["step"], 3
    for size in (3.0, 9e3, 1e300):
        found = []
        for sample in ([size, 0.0], [0.0, size]):
            one = party(model, [sample])
            found.append(steps_of(request, one.answer(request), one._agreed))
        length = np.linalg.norm(found[0] - found[1]) * step
        assert 0.99 < length <= 1 + step * math.sqrt(n_moved)


def test_a_refusal_of_noise_in_shares_asks_nobody(case):
    asked = []
    with refused("cannot be divided"):
        case.aggregated(asked.append, noise_shares=NoiseShares(10**9))
    with pytest.raises(TypeError, match="noise_shares must be"):
        case.aggregated(asked.append, noise_shares=(5, 1, 1))
    with pytest.raises(TypeError, match="noise_shares must be"):
        case.parties(noise_shares=5)
    assert not asked


def test_moments_know_the_noise_of_the_answers_that_came():
    """It is less if fewer parties answered than could have."""
    case, shares = CASES["core"], NoiseShares(5, n_dropouts=4)
    few = Counted(
        case.parties(n=5, noise_shares=shares), present=lambda number, k: k <= number
    )
    found, deviations = [], Question.deviations

    def recorded(question, sigma):
        found.append(sigma)
        return deviations(question, sigma)

    with mock.patch.object(Question, "deviations", recorded):
        case.aggregated(few, noise_shares=shares)
    noise = few.answering[0]._noise
    assert found == [noise.sigma(n + 1) for n in range(len(few.requests))]
