"""Parties that keep their units' entries; see also ``measure/test_parties.py``."""

import math
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sktensordp.completion import (
    CPCompletion,
    TuckerCompletion,
    fit_aggregated,
    party,
)
from sktensordp.datasets import make_ratings
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support.noise import drawing
from tests.support.refusing import refused
from tests.support.replaying import with_a_pattern
from tests.support.requests import Sums, header

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
    assert found.privacy_guarantee_ == expected.privacy_guarantee_.with_conditions(
        trusted
    )
    assert_array_equal(found.factors_[1], expected.factors_[1])
    assert found.model_variance_ == expected.model_variance_
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


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[60, 0]], [1.0], "outside the tensor"),
        ([[-1, 0]], [1.0], "coordinates start at 0"),
        ([[0.5, 0]], [1.0], "fractional"),
        ([[0, 0, 0]], [1.0], "X has 3 columns"),
        ([[0, 0]], [np.nan], "NaN"),
        ([[0, 0]], [1.0, 2.0], "same length"),
        ([[0, 0]], None, "y is missing"),
    ],
)
def test_parties_refuse_bad_entries(X, y, message):
    with refused(message):
        party(model(), np.array(X), y)


def test_parameters_may_be_spelt_in_another_way():
    server = model(rank=None, levels=np.array(RATINGS.levels), shape=[60, 30])
    same = model(rank=10, random_state=None)
    fit_aggregated(server, Sums([party(same, *of_party(k)) for k in range(3)]))


def test_a_number_of_samples_is_refused():
    """The shape says how many units there are."""
    with refused("Leave out n_samples"):
        fit_aggregated(model(), lambda request: 0, n_samples=60)
