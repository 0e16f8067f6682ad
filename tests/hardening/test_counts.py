"""Counts that make no sense are refused before anybody is asked or a budget charged."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sktensordp.completion import (
    CPCompletion,
    ImplicitCompletion,
    NoiseShares,
    fit_aggregated,
    party,
)
from sktensordp.mechanisms import GaussianMechanism
from sktensordp.model_selection import epsilon_needed, expected_error
from sktensordp.moments import MultilinearPCA
from sktensordp.privacy import PrivacyBudget

LARGEST = 2**31 - 1
NO_COUNTS = [
    True, np.True_, 2.0, np.float64(3), math.nan, Fraction(3), "3", [3],
    np.array([3]), 3j,
]  # fmt: skip


def rated(**params):
    options = {"rank": 0, "unit": 0, "value_bounds": (0, 1), "shape": (9, 3)}
    return CPCompletion(**options | params)


def of_samples(n_samples, asked):
    model = MultilinearPCA(1, norm_bound=1.0, tensor_shape=(3, 2), random_state=0)

    one = party(model, np.full((4, 3, 2), 0.1))

    def ask(request):
        asked.append(request)
        return one.answer(request)

    return fit_aggregated(model, ask, n_samples=n_samples)


def of_parties(asked, *, random_state=0, shape=(9, 3), **counts):
    shares = NoiseShares(**{"n_parties": 2, "n_dropouts": 1} | counts)
    server = rated(shape=shape)
    one = party(server, [[0, 0]], [0.5], noise_shares=shares, random_state=random_state)

    def ask(request):
        asked.append(request)
        return one.answer(request), shares.n_needed

    return fit_aggregated(server, ask, noise_shares=shares)


def of_client(n, asked):
    asked.append(rated(unit="entry").client(n).privatize([0.5]))


def parties_of(n, least):
    """So many that a count of all but one of them is possible."""
    return LARGEST if n == LARGEST - 1 else least


# By name: a call with the count, and the least and the largest that it admits.
COUNTS = {
    "n_samples": (of_samples, 1, 2**26),
    "n_parties": (
        lambda n, asked: of_parties(
            asked, n_parties=n, n_dropouts=n - 1 if n == LARGEST else 0
        ),
        1,
        LARGEST,
    ),
    "n_dropouts": (
        lambda n, asked: of_parties(asked, n_parties=parties_of(n, 1), n_dropouts=n),
        0,
        LARGEST - 1,
    ),
    "n_colluders": (
        lambda n, asked: of_parties(
            asked, n_parties=parties_of(n, 1), n_dropouts=0, n_colluders=n
        ),
        0,
        LARGEST - 1,
    ),
    "random_state": (lambda n, asked: of_parties(asked, random_state=n), 0, None),
    "random_state of a client": (of_client, 0, None),
    "size of a mode": (lambda n, asked: of_parties(asked, shape=(n, 3)), 1, LARGEST),
}


def refused(call, n):
    asked = []
    with PrivacyBudget(10.0, 1e-3) as budget:
        with pytest.raises((ValueError, TypeError), match="must"):
            call(n, asked)
        assert budget.spent is None
    assert not asked


@pytest.mark.parametrize("name", COUNTS)
def test_what_is_no_count_costs_nothing(name):
    call, _, _ = COUNTS[name]
    for n in NO_COUNTS:
        refused(call, n)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning")
@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.AveragesOnlyWarning")
def test_what_is_out_of_range_costs_nothing(name):
    call, least, most = COUNTS[name]
    for n in {-5, -(10**40), least - 1}:
        refused(call, n)
    for n in (10**40, most + 1) if most is not None else ():
        refused(call, n)
    # What is within reach answers, the limits included.
    for n in {least, np.int64(least), most or least}:
        asked = []
        call(n, asked)
        assert asked


@pytest.mark.parametrize("n", [*NO_COUNTS, 0, -5, 10**40, LARGEST + 1])
def test_numbers_of_users_that_make_no_sense(n):
    valued = rated(random_state=0).fit([[0, 0], [1, 1]], [0.2, 0.9])
    chosen = ImplicitCompletion(shape=(9, 3), random_state=0).fit([[0, 0], [1, 1]])
    calls = [
        lambda: valued.sample_users(n),
        lambda: chosen.sample_users(n),
        lambda: expected_error(rated(), np.zeros((9, 2)), epsilons=[1.0], n_users=n),
        lambda: epsilon_needed(rated(), np.zeros((9, 2)), error=0.1, n_users=n),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="n_users must be an integer from 1 to"):
            call()


@pytest.mark.parametrize("size", [True, 2.0, 0, -1])
def test_sizes_of_samples_that_make_no_sense(size):
    X = np.zeros((4, 3 * max(int(size), 1)))
    for model in (GaussianMechanism(norm_bound=1.0), MultilinearPCA(1, norm_bound=1.0)):
        with pytest.raises(ValueError, match="tensor_shape must hold positive integ"):
            model.set_params(tensor_shape=(size, 3)).fit(X)
