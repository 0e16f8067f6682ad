"""Low-rank tensors without noise are recovered from a part of their entries."""

import math
import pickle

import numpy as np
import pytest
from tensorly import tucker_to_tensor
from tensorly.decomposition import tucker

from sktensordp.completion import CPCompletion, TuckerCompletion
from tests.support.points import POINTS, original
from tests.support.replaying import replayed
from tests.support.tensors import fit_of, low_rank, random_problem

pytestmark = pytest.mark.thorough

# Largest error of a recovered tensor, in standard deviations of the truth.
LARGEST_ERROR = 0.05


def error(completed, truth, observed):
    return np.sqrt(np.mean((completed - truth)[~observed] ** 2))


def fit_error(problem, rank, **options):
    """Error of a completion with the default options."""
    truth, observed = problem
    largest = np.abs(truth).max()
    completion = CPCompletion if isinstance(rank, int) else TuckerCompletion
    model = completion(
        rank, epsilon=math.inf, value_bounds=(-largest, largest), **options
    )
    return error(model.fit_transform(np.where(observed, truth, np.nan)), *problem)


def n_recovered(case, seeds, **options):
    shape, rank, share = case
    errors = [
        fit_error(low_rank(shape, rank, share, s), rank, **options) for s in seeds
    ]
    return int(np.sum(np.array(errors) <= LARGEST_ERROR))


CASES = {
    "20 cubed": ((20, 20, 20), 3, 0.3),
    "30 cubed": ((30, 30, 30), 5, 0.3),
    "40 x 30 x 20": ((40, 30, 20), 4, 0.5),
}
SPARSE = (20, 20, 20), 3, 0.1


# Some seeds for which a single start without extra terms fails, with or without biases.
def test_tensors_with_poor_optima_are_recovered():
    assert n_recovered(CASES["20 cubed"], [1, 4, 8, 21]) == 4


@pytest.mark.slow
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_low_rank_tensors_are_recovered(case, biases):
    assert n_recovered(CASES[case], range(24), biases=biases) == 24
    assert n_recovered(CASES[case], range(100, 124), biases=biases) >= 23


@pytest.mark.slow
@pytest.mark.parametrize("biases", [True, False])
def test_most_tensors_are_recovered_from_a_tenth_of_their_entries(biases):
    assert n_recovered(SPARSE, range(24), biases=biases) >= 17


def hooi(tensor, observed, ranks):
    """Higher-order orthogonal iteration that imputes what was not observed."""
    filled = np.where(observed, tensor, tensor[observed].mean())
    return tucker_to_tensor(
        tucker(filled, ranks, n_iter_max=200, tol=None, mask=observed)
    )


TUCKERS = {
    "cube": ((15, 15, 15), (3, 3, 3), 0.3),
    "uneven": ((20, 15, 10), (4, 3, 2), 0.4),
    "sparse": ((15, 15, 15), (2, 2, 2), 0.15),
}


# At least 11 of 12 cubes and uneven ones; 9 beside the reference's 5 of the sparse.
@pytest.mark.slow
@pytest.mark.parametrize("case", TUCKERS)
def test_tucker_recovers_as_many_as_orthogonal_iteration(case):
    shape, ranks, share = TUCKERS[case]
    problems = [low_rank(shape, ranks, share, seed) for seed in range(12)]
    reference = [error(hooi(*p, ranks), *p) <= LARGEST_ERROR for p in problems]
    found = n_recovered(TUCKERS[case], range(12))
    assert found >= sum(reference)


# --- how starts and terms are chosen -------------------------------------------------


@pytest.mark.parametrize("max_iter", [1, 7, 8, 25])
def test_a_fit_has_the_rank_and_the_sweeps_that_were_asked_for(max_iter):
    coordinates, values = random_problem((6, 5, 4), 40)
    model, n_iter = fit_of(coordinates, values, (6, 5, 4), max_iter=max_iter)
    assert n_iter == max_iter
    assert model.means[0].shape[1] == 3 + 2


# With the fit of many entries, the only start is part of the sweeps.
@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 4)])
def test_callbacks_stop_a_fit_at_any_sweep(shape, monkeypatch):
    coordinates, values = random_problem(shape, 40)
    for few in (0, 100):
        monkeypatch.setattr(*POINTS["few entries"], few)
        for stop_at in (1, 9, 12, 13, 20):
            calls = []

            def on_sweep(number, calls=calls, last=stop_at):
                calls.append(number)
                return len(calls) == last

            model, n_iter = fit_of(
                coordinates, values, shape, biases=False, max_iter=25,
                on_sweep=on_sweep,
            )  # fmt: skip
            assert calls == [*range(n_iter)]
            # A fit to a matrix ends by itself when its terms have settled.
            has_settled = len(shape) == 2 and 12 <= n_iter < stop_at
            assert n_iter == stop_at or has_settled
            # A matrix starts with four terms more, and keeps none without evidence.
            n_terms = model.means[0].shape[1]
            assert n_terms in ((0, 6) if len(shape) == 2 else (2,))


@pytest.mark.parametrize(
    ("point", "n_chosen", "shape", "rank", "share", "fitted_rank", "options"),
    [
        ("choice of terms", 1, (9, 8, 7), 2, 0.6, 2,
         {"epsilon": 30.0, "value_bounds": (-4, 4), "random_state": 1}),
        # More terms start than at first.
        ("start of terms", 2, (80, 60), 12, 0.9, 14,
         {"epsilon": 200.0, "value_bounds": (-6, 6), "random_state": 0}),
    ],
)  # fmt: skip
def test_choices_depend_on_what_was_released_alone(
    point, n_chosen, shape, rank, share, fitted_rank, options, monkeypatch
):
    """Neighbouring data sets whose releases are the same have the same fit.

    So has the state in which a start and its terms are chosen.
    """
    truth, observed = low_rank(shape, rank, share, 0)
    X, y = np.argwhere(observed), truth[observed]
    far_off = np.append(-np.sign(y[0]) * np.abs(y).max(), y[1:])
    chosen, choose = [], original(point)

    def remember(*args, **options):
        found = choose(*args, **options)
        chosen[-1].append(pickle.dumps((args, options, found)))
        return found

    monkeypatch.setattr(*POINTS[point], remember)

    def fitted(values):
        chosen.append([])
        model = CPCompletion(fitted_rank, shape=shape, perturbation="input", **options)
        return model.fit(X, values)._fitted

    one, other = replayed(fitted, (y,), (far_off,))
    assert chosen[0] == chosen[1]
    assert len(chosen[0]) >= n_chosen
    assert one.model.weights is not None
    assert pickle.dumps(one) == pickle.dumps(other)
    # Without the replay, the fit shows which data set it was.
    assert fitted(far_off).model.noise != one.model.noise


def n_exact(shape, seeds):
    problems = (low_rank(shape, 3, 0.85, seed) for seed in seeds)
    return sum(fit_error(problem, 3) < 0.01 for problem in problems)


def test_exact_low_rank_is_recovered_with_biases():
    assert n_exact((6, 8, 7), range(10)) == 10


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(6, 8, 7), (10, 5, 6), (5, 6, 4, 5)])
def test_more_tensors_of_low_rank_are_recovered(shape):
    assert n_exact(shape, range(100, 120)) >= 19
