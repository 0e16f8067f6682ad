"""The choice of the perturbation: what it depends on, and how good it is."""

import math

import numpy as np
import pytest
from sklearn.base import clone

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_low_rank_tensor, make_ratings
from sktensordp.model_selection import expected_error
from sktensordp.privacy import privacy_of
from tests.support.goodness import rises
from tests.support.points import POINTS
from tests.support.tensors import error_on

pytestmark = pytest.mark.thorough
SOLVERS = "input", "statistics", "sums"


@pytest.fixture(scope="module")
def ratings():
    return make_ratings(300, 400, 20_000, rank=3, random_state=1)


def chosen(X, y, **params):
    return (
        CPCompletion(**{"rank": 3, "random_state": 0, **params}).fit(X, y).perturbation_
    )


@pytest.mark.filterwarnings("ignore:Judging by what was released:UserWarning")
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_values_do_not_matter(ratings, epsilon):
    """Neither which are observed where, nor how large they are."""
    X, y = ratings.data, ratings.target
    options = {"epsilon": epsilon, "levels": ratings.levels}
    rng = np.random.default_rng(0)
    found = {chosen(X, v, **options) for v in (y, rng.permutation(y), 0 * y + 5, -y)}
    assert len(found) == 1


def test_small_budgets_take_sums_and_large_ones_values(ratings):
    X, y = ratings.data, ratings.target
    found = [
        chosen(X, y, epsilon=epsilon, levels=ratings.levels)
        for epsilon in (0.1, 1.0, 6.0, math.inf)
    ]
    assert found == ["sums"] * 2 + ["input"] * 2


@pytest.mark.slow
def test_a_table_is_taken_earlier_than_laplace_noise(ratings, monkeypatch):
    """At the same epsilon, it leaves less noise in a value, not in a sum."""

    def first_input(**domain):
        for epsilon in np.arange(1, 12, 0.5):
            X, y = ratings.data, ratings.target
            if chosen(X, y, epsilon=epsilon, max_iter=1, **domain) == "input":
                return epsilon
        raise AssertionError

    with_levels = first_input(levels=ratings.levels)
    on_a_grid = first_input(value_bounds=(0.5, 5))
    monkeypatch.setattr(*POINTS["table of points"], lambda *_: None)
    with_laplace_noise = first_input(value_bounds=(0.5, 5))
    assert with_levels <= on_a_grid <= with_laplace_noise - 1


@pytest.mark.parametrize("options", [{"biases": False}, {"smooth_modes": [1]}])
def test_what_sums_cannot_fit_goes_to_values(ratings, options):
    X, y = ratings.data, ratings.target
    assert chosen(X, y, epsilon=0.5, levels=ratings.levels, **options) == "input"


@pytest.mark.parametrize("epsilon", [0.5, 1.5, 3.0, 10.0])
def test_auto_equals_what_it_takes(ratings, epsilon):
    """So is its guarantee, which is pure."""
    X, y = ratings.data, ratings.target
    options = {"levels": ratings.levels, "delta": 0.0, "random_state": 0}
    auto = CPCompletion(3, epsilon=epsilon, **options)
    named = clone(auto.fit(X, y)).set_params(perturbation=auto.perturbation_)
    np.testing.assert_array_equal(auto.predict(X), named.fit(X, y).predict(X))
    guarantee = privacy_of(auto).guarantee
    assert guarantee == named.privacy_guarantee_
    assert guarantee.delta == 0
    assert 0.999 * epsilon < guarantee.epsilon <= epsilon


def regret(data, seed, **params):
    """Held-out error of what is chosen over the best of all that may be."""
    X, y, model = data.data, data.target, CPCompletion(random_state=seed, **params)
    test, errors = np.random.default_rng(seed).random(len(y)) < 0.2, {}
    for name in SOLVERS:
        one = clone(model).set_params(perturbation=name)
        errors[name] = error_on(test, one, X, y)
    taken = chosen(X[~test], y[~test], random_state=seed, **params)
    return errors[taken] - min(errors.values())


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_no_other_would_have_been_much_better(ratings, epsilon):
    """In the mean of three splits, as in ratings that the rule was not made on."""
    options = {"rank": 3, "epsilon": epsilon, "shape": ratings.shape}
    found = [regret(ratings, s, levels=ratings.levels, **options) for s in range(3)]
    assert np.mean(found) < 0.005


def test_a_small_tensor_of_low_rank_takes_sums_until_noise_is_small():
    tensor = make_low_rank_tensor(random_state=0)
    for epsilon, name in ((0.5, "sums"), (16.0, "input")):
        model = CPCompletion(3, epsilon=epsilon, value_bounds=(0, 1), random_state=0)
        assert model.fit(tensor.data, tensor.target).perturbation_ == name
        found = regret(tensor, 0, rank=3, epsilon=epsilon, value_bounds=(0, 1),
                       shape=tensor.shape)  # fmt: skip
        assert found < 0.005


BUDGETS = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, math.inf]


def errors_of(seed, budgets, **params):
    """Errors of one generated data set at one budget after the other."""
    made = make_ratings(100, 150, 4000, random_state=seed)
    test = np.random.default_rng(1).random(len(made.target)) < 0.2
    options = {"levels": made.levels, "shape": (100, 150), "random_state": seed}
    model, found = CPCompletion(**options, **params), []
    for epsilon in budgets:
        model.set_params(epsilon=epsilon)
        found.append(error_on(test, model, made.data, made.target))
    return found


@pytest.fixture(scope="module")
def errors_by_budget():
    """Errors of twenty data sets, a row for each."""
    return np.array([errors_of(seed, BUDGETS) for seed in range(20)])


def rising(errors):
    """The budgets at which mean errors rise by more than 0.2% and chance.

    Chance is twice the standard error of the paired difference. If the errors of two
    neighbouring budgets were equal, and the seeds drawn anew, a comparison would fail
    with probability 0.030 (Student's t with nineteen degrees of freedom), and one of
    all eight with 0.24 at most. Those of correct fits fall by 0.3% or more, but for the
    last two, which differ by less than 1e-6; with these falls and their standard
    errors, the probability is below 1e-5 for all eight together.
    """
    return [BUDGETS[k + 1] for k in np.flatnonzero(rises(errors) > 2)]


def test_a_larger_budget_is_no_worse(errors_by_budget):
    assert not rising(errors_by_budget)


@pytest.mark.parametrize("k", range(2, BUDGETS.index(8.0) + 1))
def test_a_budget_that_is_not_spent_is_found(errors_by_budget, k):
    """It gets the errors of the last budget but one."""
    planted = errors_by_budget.copy()
    planted[:, k] = errors_by_budget[:, k - 2]
    assert rising(planted) == [BUDGETS[k]]


def test_terms_that_are_lost_at_a_large_budget_are_found(errors_by_budget):
    planted = errors_by_budget.copy()
    planted[:, -3:] = [errors_of(seed, [16.0], rank=0) for seed in range(20)]
    assert rising(planted) == [16.0]


@pytest.mark.parametrize("name", SOLVERS)
def test_expectations_fall_with_the_budget(ratings, name):
    options = {"levels": ratings.levels, "shape": ratings.shape, "perturbation": name}
    epsilons = [0.5, 1.0, 2.0, 4.0, 8.0]
    found = expected_error(CPCompletion(3, **options), ratings.data, epsilons=epsilons)
    assert found.errors[-1] > 0
    assert np.all(np.diff(found.errors) < 0)
