"""Parties that keep their units' entries, and a server that learns sums."""

import copy
import math
import os
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sktensordp.completion import (
    CPCompletion,
    ImplicitCompletion,
    NoiseShares,
    TuckerCompletion,
    fit_aggregated,
    party,
)
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support.noise import drawing
from tests.support.processes import refused_in_fork
from tests.support.refusing import refused
from tests.support.replaying import with_a_pattern
from tests.support.requests import Sums, header, numbered, share_of

pytestmark = pytest.mark.thorough
RATINGS = make_ratings(n_users=60, n_items=30, n_ratings=1500, random_state=0)
FEATURES = {1: np.eye(30)}
NO_UNITS = np.empty((0, 2)), np.empty(0)


def model(kind=CPCompletion, rank=2, **options):
    defaults = {
        "levels": RATINGS.levels, "epsilon": 4.0, "random_state": 3, "unit": 0,
        "shape": (60, 30), "perturbation": "statistics",
    }  # fmt: skip
    return kind(rank, **defaults | options)


def of_party(number):
    own = RATINGS.data[:, 0] % 3 == number
    return RATINGS.data[own], RATINGS.target[own]


def parties(server, numbers=(0, 1, 2)):
    return [party(server, *of_party(k)) for k in numbers] + [party(server, *NO_UNITS)]


def summed(server=None):
    """A server after a fit, and what it asked and was answered."""
    server = server or model()
    sums = Sums(parties(server))
    fit_aggregated(server, sums)
    return server, sums


def assert_same(found, expected):
    trusted = "if nobody but a trusted server sees the exact sums"
    assert found.privacy_guarantee_ == expected.privacy_guarantee_.under(trusted)
    assert_array_equal(found.factors_[1], expected.factors_[1])
    assert found.noise_variance_ == expected.noise_variance_
    assert np.std(found.factors_[1]) > 0.01


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (CPCompletion, {}),
        (TuckerCompletion, {"perturbation": "auto", "side_information": FEATURES}),
        (CPCompletion, {"perturbation": "sums", "epsilon": 0.1}),
    ],
)
def test_the_model_of_all_parties_is_that_of_fit(kind, options):
    with drawing() as streams:
        server, _ = summed(model(kind, **options))
    one = model(kind, **options)
    with drawing() as expected:
        one.fit(RATINGS.data, RATINGS.target)
    assert_same(server, one)
    # Only the server draws noise, as often as a fit does.
    assert len(streams) == len(expected) > 0
    assert server.n_features_in_ == 2


def test_a_pattern_of_all_parties_is_that_of_fit():
    with with_a_pattern():
        one = model().fit(RATINGS.data, RATINGS.target)
        server, sums = summed()
    assert_same(server, one)
    features = [each._fitted.model.features for each in (server, one)]
    assert features[0].shape[1] > 2
    assert_array_equal(*features)
    # Two limbs for each of the products.
    found = [header(request) for request in sums.requests]
    assert [one["n_bits"] for one in found].count(64) == 1
    assert max(one["n_numbers"] for one in found) == 30 * 31


@pytest.mark.parametrize("unit", [1, 2])
def test_units_of_other_modes(unit):
    weeks = np.random.default_rng(0).integers(0, 4, (1500, 1))
    X = np.concatenate([RATINGS.data[:, ::-1], weeks], axis=1)
    if unit == 2:
        X = X[:, [0, 2, 1]]
    shape = (X.max(axis=0) + 1).tolist()
    server = model(unit=unit, shape=shape)
    own = X[:, unit] % 2 == 0
    both = [party(server, X[k], RATINGS.target[k]) for k in (own, ~own)]
    fit_aggregated(server, Sums(both))
    one = model(unit=unit, shape=shape).fit(X, RATINGS.target)
    assert_array_equal(server.factors_[0], one.factors_[0])


def test_answers_are_integers_below_the_modulus_that_is_needed():
    server, sums = summed()
    largest = 0
    for request, answers in zip(sums.requests, sums.answers, strict=True):
        n_bits = header(request)["n_bits"]
        assert all(a.dtype == np.uint64 and a.max() < 2**n_bits for a in answers)
        # Their length tells nothing of what is in them.
        assert {a.shape for a in answers} == {(header(request)["n_numbers"],)}
        assert not answers[-1].any()
        signed = [a.astype(float) for a in answers]
        for a in signed:
            a[a >= 2 ** (n_bits - 1)] -= 2.0**n_bits
        largest = max(largest, np.abs(sum(signed)).max() / 2 ** (n_bits - 1))
        assert np.abs(sum(signed)).max() < 2 ** (n_bits - 1)
        assert n_bits < 53
    # It is not wasteful: half as many bits would not do.
    assert largest > 2**-8
    # Fewer bits than the sums need give another model.
    other = model()
    fit_aggregated(other, Sums(parties(other), n_bits=12))
    assert np.any(other.factors_[1] != server.factors_[1])


def test_sums_of_all_units_at_their_most_keep_their_value():
    """Every unit adds as much as it may to the count of one row, and to no other."""
    users = np.repeat(np.arange(60), 40)
    X, y = np.column_stack([users, np.zeros_like(users)]), np.full(len(users), 5.0)
    server = model(rank=0, perturbation="sums")
    sums = Sums([party(server, X[own], y[own]) for own in (users < 30, users >= 30)])
    fit_aggregated(server, sums)
    # With one bit less, the largest sum would wrap around.
    largest = 0.0
    for request, answers in zip(sums.requests, sums.answers, strict=True):
        half = 2 ** (header(request)["n_bits"] - 1)
        found = sum(answer.astype(float) for answer in answers)
        largest = max(largest, found[found < half].max(initial=0) / half)
    assert 0.5 < largest < 1
    one = model(rank=0, perturbation="sums").fit(X, y)
    assert_array_equal(server.factors_[1], one.factors_[1])


def test_a_party_moves_the_sums_by_its_own_units_alone():
    """What it answers does not depend on other parties, given the request."""
    _, sums = summed()
    alone = party(model(), *of_party(1))
    for request, answers in zip(sums.requests, sums.answers, strict=True):
        assert_array_equal(alone.answer(request), answers[1])
        # Asked again, it says the same.
        assert_array_equal(alone.answer(request), answers[1])


def test_dropouts_give_the_sums_of_those_that_answer():
    server = model()
    some = Sums(parties(server), present=lambda asked, party: party <= asked % 3)
    with PrivacyBudget(4.0, delta=1e-6) as budget:
        fit_aggregated(server, some)
    assert budget.spent.epsilon == pytest.approx(4.0, abs=1e-3)
    assert np.all(np.isfinite(server.factors_[1]))
    # Of a party that never answers, nothing is in the model.
    few = fit_aggregated(model(), Sums(parties(server, (0, 2))))
    rest = RATINGS.data[:, 0] % 3 != 1
    assert_same(few, model().fit(RATINGS.data[rest], RATINGS.target[rest]))


def test_the_server_holds_no_rows_and_parties_compute_their_own():
    server, _ = summed()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = server.predict(RATINGS.data)
    unknown = np.column_stack([np.full(1500, -1), RATINGS.data[:, 1]])
    assert_array_equal(known, server.predict(unknown))
    assert server.factors_[0] is None
    X, y = of_party(2)
    served = pickle.loads(pickle.dumps(server)).fold_in(X, y)
    one = model().fit(RATINGS.data, RATINGS.target)
    assert_array_equal(served.predict(X), one.predict(X))
    assert_array_equal(served.recommend(X[:9, 0], 3), one.recommend(X[:9, 0], 3))
    assert "if nobody but a trusted server" in str(privacy_of(server))
    assert "a trusted server" not in str(privacy_of(one))


def test_the_release_is_recorded_once_before_anybody_is_asked():
    server, asked = model(), []
    exceeded = pytest.raises(BudgetExceededError)
    with PrivacyBudget(3.0, delta=1e-6) as budget, exceeded:
        fit_aggregated(server, asked.append)
    assert not asked
    assert budget.spent is None

    def fails(request):
        raise ConnectionError("the network is down")

    with PrivacyBudget(4.0, delta=1e-6) as budget, pytest.raises(ConnectionError):
        fit_aggregated(server, fails)
    assert budget.spent.epsilon == pytest.approx(4.0, abs=1e-3)
    assert not hasattr(server, "factors_")


@pytest.mark.parametrize(
    "answer", [lambda n: np.zeros(n + 1, dtype=int), np.zeros, lambda n: None]
)
def test_a_sum_that_is_none_is_refused(answer):
    with pytest.raises(ValueError, match="ask must return"):
        fit_aggregated(model(), lambda request: answer(header(request)["n_numbers"]))


@pytest.mark.parametrize("ask", [[], None, party(model(), *NO_UNITS)])
def test_ask_must_be_a_function(ask):
    with pytest.raises(TypeError, match="ask must be a function that maps a request"):
        fit_aggregated(model(), ask)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": None}, "Declare `shape`"),
        ({"levels": None}, "Declare `levels` or"),
        ({"epsilon": math.inf}, "finite epsilon"),
        ({"perturbation": "input"}, "perturbation must be one of"),
        ({"unit": 2}, "is not a mode"),
    ],
)
def test_servers_refuse_what_cannot_be_added(options, message):
    with refused(message):
        fit_aggregated(model(**options), lambda request: 0)


def test_entries_must_have_units_to_be_added_up_by_party():
    with refused("Parties add up contributions of protected units"):
        party(model(unit="entry"), *NO_UNITS)
    with refused("Parties add up contributions of protected units"):
        fit_aggregated(model(unit="entry"), lambda request: 0)


@pytest.mark.parametrize("wrong", [None, CPCompletion, ImplicitCompletion()])
def test_what_is_no_completion_of_values_has_no_parties(wrong):
    with pytest.raises(TypeError, match="completion must be a CPCompletion or"):
        party(wrong, *NO_UNITS)
    with pytest.raises(TypeError, match="completion must be a CPCompletion or"):
        fit_aggregated(wrong, lambda request: 0)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[60, 0]], [1.0], "outside the tensor"),
        ([[-1, 0]], [1.0], "coordinates start at 0"),
        ([[0.5, 0]], [1.0], "fractional"),
        ([[0, 0, 0]], [1.0], "X has 3 columns"),
        ([[0, 0]], [np.nan], "NaN"),
        ([[0, 0]], [1.0, 2.0], "same length"),
    ],
)
def test_parties_refuse_bad_entries(X, y, message):
    with refused(message):
        party(model(), np.array(X), np.array(y))


@pytest.mark.parametrize("shares", [None, NoiseShares(4)])
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("epsilon", 4.1), ("delta", 2e-6), ("rank", 3), ("biases", False),
        ("perturbation", "auto"), ("levels", [1, 2, 3, 4, 5, 6]), ("shape", (61, 30)),
        ("value_bounds", (0, 5)),
    ],
)  # fmt: skip
def test_parties_notice_a_server_with_other_parameters(name, other, shares):
    """Before they answer anything; the message says what differs."""
    server, answered = model(**{name: other}), []
    parts = [party(model(), *of_party(k), noise_shares=shares) for k in range(3)]

    def ask(request):
        answered.extend(one.answer(request) for one in parts)

    message = f"must declare the same parameters.*{name} = "
    with pytest.raises(ValueError, match=message):
        fit_aggregated(server, ask, noise_shares=shares)
    assert not answered


def test_parameters_may_be_spelt_in_another_way():
    server = model(rank=None, levels=np.array(RATINGS.levels), shape=[60, 30])
    same = model(rank=10, random_state=None)
    fit_aggregated(server, Sums([party(same, *of_party(k)) for k in range(3)]))


def test_a_party_serves_one_fit_within_the_budget():
    server = model()
    one = party(server, *of_party(0))
    sums = Sums([one])
    fit_aggregated(server, sums)
    with pytest.raises(ValueError, match="has answered another fit"):
        fit_aggregated(model(), Sums([one]))
    # A server that asks for more than the budget gets no answer.
    greedy, request = party(model(), *of_party(0)), sums.requests[-1]
    n_most = math.floor((1 + 1e-9) / share_of(request))
    more = [numbered(request, number) for number in range(n_most + 1)]
    for one in more[:-1]:
        greedy.answer(one)
    with pytest.raises(ValueError, match="add up to more than the budget"):
        greedy.answer(more[-1])


def test_a_party_keeps_its_entries():
    one = party(model(), *of_party(0))
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            leave(one)
    assert repr(one) == "Party()"
    with pytest.raises(TypeError):
        pickle.dumps(one.answer)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("shares", [None, NoiseShares(2)])
def test_a_fork_of_a_party_does_not_answer(shares):
    """It would draw the same noise for another request of the same number."""
    server = model(random_state=None)
    one, other = (party(server, *of_party(k), noise_shares=shares) for k in (0, 1))
    sums, answers = Sums([one, other]), []

    def ask(request):
        answers.append(refused_in_fork(lambda: one.answer(request), "fork"))
        return sums(request) if shares is None else (sums(request), 2)

    fit_aggregated(server, ask, noise_shares=shares)
    # Before the first answer, there is no noise to share.
    assert answers == [False] + [True] * (len(answers) - 1)
    assert len(answers) > 2
