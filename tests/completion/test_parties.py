"""Parties that keep their units' entries, and a server that learns sums."""

import copy
import math
import os
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sktensordp.completion import CPCompletion, NoiseShares, TuckerCompletion
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support.noise import drawing
from tests.support.refusing import refused
from tests.support.replaying import with_a_pattern

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
    return [server.party(*of_party(k)) for k in numbers] + [server.party(*NO_UNITS)]


class Sums:
    """A plain sum in place of secure aggregation; keeps what is asked and answered."""

    def __init__(self, answering, n_bits=None):
        self.answering, self.n_bits = answering, n_bits
        self.requests, self.answers = [], []

    def __call__(self, request):
        request = pickle.loads(pickle.dumps(request))
        self.requests.append(request)
        self.answers.append([party.answer(request) for party in self.answering])
        modulus = 2 ** (self.n_bits or request.n_bits)
        columns = zip(*self.answers[-1], strict=True)
        total = [sum(map(int, column)) % modulus for column in columns]
        return np.array(total, dtype=np.uint64)


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
        (
            TuckerCompletion,
            {"perturbation": "auto", "side_information": {1: np.eye(30)}},
        ),
        (CPCompletion, {"perturbation": "sums", "epsilon": 0.1}),
    ],
)
def test_the_model_of_all_parties_is_that_of_fit(kind, options):
    server = model(kind, **options)
    with drawing() as streams:
        server.fit_aggregated(Sums(parties(server)))
    one = model(kind, **options)
    with drawing() as expected:
        one.fit(RATINGS.data, RATINGS.target)
    assert_same(server, one)
    # Only the server draws noise, as often as a fit does.
    assert len(streams) == len(expected) > 0
    assert server.n_features_in_ == 2


def test_a_pattern_of_all_parties_is_that_of_fit():
    with with_a_pattern():
        server, one = model(), model().fit(RATINGS.data, RATINGS.target)
        sums = Sums(parties(server))
        server.fit_aggregated(sums)
    assert_same(server, one)
    features = [each._fitted.model.features for each in (server, one)]
    assert features[0].shape[1] > 2
    assert_array_equal(*features)
    # Two limbs for each of the products.
    assert [request.n_bits for request in sums.requests].count(64) == 1
    assert max(request.n_numbers for request in sums.requests) == 30 * 31


@pytest.mark.parametrize("unit", [1, 2])
def test_units_of_other_modes(unit):
    weeks = np.random.default_rng(0).integers(0, 4, (1500, 1))
    X = np.concatenate([RATINGS.data[:, ::-1], weeks], axis=1)
    if unit == 2:
        X = X[:, [0, 2, 1]]
    shape = (X.max(axis=0) + 1).tolist()
    server = model(unit=unit, shape=shape)
    own = X[:, unit] % 2 == 0
    both = [server.party(X[k], RATINGS.target[k]) for k in (own, ~own)]
    server.fit_aggregated(Sums(both))
    one = model(unit=unit, shape=shape).fit(X, RATINGS.target)
    assert_array_equal(server.factors_[0], one.factors_[0])


def test_answers_are_integers_below_the_modulus_that_is_needed():
    server = model()
    sums = Sums(parties(server))
    server.fit_aggregated(sums)
    largest = 0
    for request, answers in zip(sums.requests, sums.answers, strict=True):
        assert all(
            a.dtype == np.uint64 and a.max() < 2**request.n_bits for a in answers
        )
        assert not answers[-1].any()
        signed = [a.astype(float) for a in answers]
        for a in signed:
            a[a >= 2 ** (request.n_bits - 1)] -= 2.0**request.n_bits
        largest = max(largest, np.abs(sum(signed)).max() / 2 ** (request.n_bits - 1))
        assert np.abs(sum(signed)).max() < 2 ** (request.n_bits - 1)
        assert request.n_bits < 53
    # It is not wasteful: half as many bits would not do.
    assert largest > 2**-8
    # Fewer bits than the sums need give another model.
    other = model()
    other.fit_aggregated(Sums(parties(other), n_bits=12))
    assert np.any(other.factors_[1] != server.factors_[1])


def test_sums_of_all_units_at_their_most_keep_their_value():
    """Every unit adds as much as it may to the count of one row, and to no other."""
    users = np.repeat(np.arange(60), 40)
    X, y = np.column_stack([users, np.zeros_like(users)]), np.full(len(users), 5.0)
    server = model(rank=0, perturbation="sums")
    sums = Sums([server.party(X[own], y[own]) for own in (users < 30, users >= 30)])
    server.fit_aggregated(sums)
    # With one bit less, the largest sum would wrap around.
    largest = 0.0
    for request, answers in zip(sums.requests, sums.answers, strict=True):
        half = 2 ** (request.n_bits - 1)
        total = sum(answer.astype(float) for answer in answers)
        largest = max(largest, total[total < half].max(initial=0) / half)
    assert 0.5 < largest < 1
    one = model(rank=0, perturbation="sums").fit(X, y)
    assert_array_equal(server.factors_[1], one.factors_[1])


def test_a_party_moves_the_sums_by_its_own_units_alone():
    """What it answers does not depend on other parties, given the request."""
    server = model()
    sums = Sums(parties(server))
    server.fit_aggregated(sums)
    alone = model().party(*of_party(1))
    for request, answers in zip(sums.requests, sums.answers, strict=True):
        assert_array_equal(alone.answer(request), answers[1])
        # Asked again, it says the same.
        assert_array_equal(alone.answer(request), answers[1])


def test_dropouts_give_the_sums_of_those_that_answer():
    server = model()
    everybody = parties(server)

    def some(request):
        present = everybody[: 1 + request.number % 3]
        return sum(party.answer(request) for party in present)

    with PrivacyBudget(4.0, delta=1e-6) as budget:
        server.fit_aggregated(some)
    assert budget.spent.epsilon == pytest.approx(4.0, abs=1e-3)
    assert np.all(np.isfinite(server.factors_[1]))
    # Of a party that never answers, nothing is in the model.
    few = model().fit_aggregated(Sums(parties(server, (0, 2))))
    rest = RATINGS.data[:, 0] % 3 != 1
    assert_same(few, model().fit(RATINGS.data[rest], RATINGS.target[rest]))


def test_the_server_holds_no_rows_and_parties_compute_their_own():
    server = model()
    server.fit_aggregated(Sums(parties(server)))
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
        server.fit_aggregated(asked.append)
    assert not asked
    assert budget.spent is None

    def fails(request):
        raise ConnectionError("the network is down")

    with PrivacyBudget(4.0, delta=1e-6) as budget, pytest.raises(ConnectionError):
        server.fit_aggregated(fails)
    assert budget.spent.epsilon == pytest.approx(4.0, abs=1e-3)
    assert not hasattr(server, "factors_")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n: np.zeros(n + 1, dtype=int), "ask must return"),
        (lambda n: np.zeros(n), "ask must return"),
        (lambda n: None, "ask must return"),
    ],
)
def test_a_sum_that_is_none_is_refused(answer, message):
    with pytest.raises(ValueError, match=message):
        model().fit_aggregated(lambda request: answer(request.n_numbers))


@pytest.mark.parametrize("ask", [[], None, model().party(*NO_UNITS)])
def test_ask_must_be_a_function(ask):
    with pytest.raises(TypeError, match="ask must be a function that maps a request"):
        model().fit_aggregated(ask)


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
        model(**options).fit_aggregated(lambda request: 0)


def test_entries_must_have_units_to_be_added_up_by_party():
    for name in ("party", "fit_aggregated"):
        assert not hasattr(model(unit="entry"), name)


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
        model().party(np.array(X), np.array(y))


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
    parts = [model().party(*of_party(k), noise_shares=shares) for k in range(3)]

    def ask(request):
        answered.extend(party.answer(request) for party in parts)

    message = f"must declare the same parameters.*{name} = "
    with pytest.raises(ValueError, match=message):
        server.fit_aggregated(ask, noise_shares=shares)
    assert not answered


def test_parameters_may_be_spelt_in_another_way():
    server = model(rank=None, levels=np.array(RATINGS.levels), shape=[60, 30])
    same = model(rank=10, random_state=None)
    server.fit_aggregated(Sums([same.party(*of_party(k)) for k in range(3)]))


def test_a_party_serves_one_fit_within_the_budget():
    server = model()
    party = server.party(*of_party(0))
    sums = Sums([party])
    server.fit_aggregated(sums)
    with pytest.raises(ValueError, match="has answered another fit"):
        model().fit_aggregated(Sums([party]))
    # A server that asks for more than the budget gets no answer.
    greedy, request = model().party(*of_party(0)), sums.requests[-1]
    n_most = math.floor((1 + 1e-9) / request.share)
    more = [replace(request, number=number) for number in range(n_most + 1)]
    for one in more[:-1]:
        greedy.answer(one)
    with pytest.raises(ValueError, match="more than the budget allows"):
        greedy.answer(more[-1])
    noiseless = model().party(*of_party(0))
    for of_block in request.empty:
        of_block.step = 0.0
    with pytest.raises(ValueError, match="not integers"):
        noiseless.answer(request)


@pytest.mark.parametrize("wrong", ["hello", None, 3])
def test_what_is_no_request_gets_no_answer(wrong):
    with pytest.raises(TypeError, match="request must be a SumRequest"):
        model().party(*of_party(0)).answer(wrong)


def test_a_party_keeps_its_entries():
    party = model().party(*of_party(0))
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            leave(party)
    assert repr(party) == "UnitParty()"
    with pytest.raises(TypeError):
        pickle.dumps(party.answer)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("shares", [None, NoiseShares(2)])
def test_a_fork_of_a_party_does_not_answer(shares):
    """It would draw the same noise for another request of the same number."""
    server = model(random_state=None)
    party, other = (server.party(*of_party(k), noise_shares=shares) for k in (0, 1))
    sums, answers = Sums([party, other]), []

    def ask(request):
        answers.append(refused_in_a_fork(lambda: party.answer(request)))
        return sums(request) if shares is None else (sums(request), 2)

    server.fit_aggregated(ask, noise_shares=shares)
    # Before the first answer, there is no noise to share.
    assert answers == [False] + [True] * (len(answers) - 1)
    assert len(answers) > 2


def refused_in_a_fork(action):
    child = os.fork()
    if child == 0:
        code = 0
        try:
            action()
        except RuntimeError as error:
            code = 7 if "fork" in str(error) else 1
        except BaseException:
            code = 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 7)
    return code == 7
