"""Completion by a Tucker decomposition, as its users meet it."""

import math
import pickle

import numpy as np
import pytest
import tensorly as tl
from sklearn.base import clone
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GridSearchCV

from sktensordp import _random
from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.datasets import make_low_rank_tensor, make_ratings

INPUT = {"perturbation": "input", "random_state": 0, "max_iter": 8}


@pytest.fixture(scope="module")
def ratings():
    return make_ratings(100, 80, 3000, random_state=0)


@pytest.fixture(scope="module")
def seasons(ratings):
    """Coordinates with a third mode."""
    season = np.random.default_rng(0).integers(0, 4, len(ratings.target))
    return np.column_stack([ratings.data, season])


def fitted(ratings, X=None, rank=2, **params):
    X = ratings.data if X is None else X
    params = {"levels": ratings.levels, "epsilon": 4.0, **INPUT, **params}
    return TuckerCompletion(rank, **params).fit(X, ratings.target)


# --- utility -----------------------------------------------------------------------


@pytest.mark.parametrize("decomposition", ["cp", "tucker"])
@pytest.mark.parametrize("missing_ratio", [0.0, 0.5])
def test_a_noise_free_tensor_is_completed(decomposition, missing_ratio):
    made = make_low_rank_tensor(
        decomposition=decomposition, missing_ratio=missing_ratio, snr=math.inf,
        random_state=0,
    )  # fmt: skip
    options = {"epsilon": math.inf, "value_bounds": (0, 1), "max_iter": 100}
    model = TuckerCompletion(3, perturbation="input", **options).fit(made.tensor)
    error = model.transform(made.tensor) - made.truth
    assert np.linalg.norm(error) < 1e-5 * np.linalg.norm(made.truth)


def test_more_budget_and_factors_help(ratings):
    X, y = ratings.data, ratings.target
    test = np.random.default_rng(0).random(len(y)) < 0.2
    error = {}
    for name, rank, epsilon in (
        ("biases", 0, math.inf), ("free", 4, math.inf), ("private", 4, 2.0),
    ):  # fmt: skip
        options = {**INPUT, "max_iter": 25, "levels": ratings.levels}
        model = TuckerCompletion(rank, epsilon=epsilon, **options).fit(
            X[~test], y[~test]
        )
        error[name] = root_mean_squared_error(y[test], model.predict(X[test]))
    assert error["free"] < error["biases"] - 0.005
    assert error["free"] < error["private"] < np.std(y[test])


def test_it_is_as_good_as_a_cp(ratings):
    X, y = ratings.data, ratings.target
    test = np.random.default_rng(0).random(len(y)) < 0.2
    errors = []
    for completion in (TuckerCompletion, CPCompletion):
        options = {**INPUT, "max_iter": 25, "levels": ratings.levels}
        model = completion(4, epsilon=8.0, **options).fit(X[~test], y[~test])
        errors.append(root_mean_squared_error(y[test], model.predict(X[test])))
    assert errors[0] < errors[1] + 0.02


def test_a_vanishing_amount_of_noise_equals_the_non_private_fit(ratings, seasons):
    free, noisy = (
        fitted(ratings, seasons, rank=(2, 2, 1), epsilon=epsilon)
        for epsilon in (math.inf, 1e6)
    )
    np.testing.assert_allclose(noisy.predict(seasons), free.predict(seasons), atol=2e-3)


def test_standard_deviations_are_those_of_new_values(ratings):
    X, y = ratings.data, ratings.target
    test = np.random.default_rng(0).random(len(y)) < 0.3
    model = TuckerCompletion(2, epsilon=8.0, levels=ratings.levels, **INPUT)
    mean, std = model.fit(X[~test], y[~test]).predict(X[test], return_std=True)
    assert 0.8 < np.mean((y[test] - mean) ** 2) / np.mean(std**2) < 1.2


# --- form --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rank", "ranks"), [(2, (2, 2, 2)), ((3, 2, 2), (3, 2, 2)), ([2, 2, 1], (2, 2, 1))]
)
@pytest.mark.parametrize("biases", [True, False])
def test_the_decomposition_is_tensorlys(ratings, seasons, rank, ranks, biases):
    model = fitted(ratings, seasons, rank=rank, biases=biases, n_pattern_components=0)
    core, factors = model.decomposition_
    own = 2 if biases else 0
    assert core.shape == tuple(r + own for r in ranks)
    completed = model.offset_ + tl.tucker_to_tensor(model.decomposition_)
    expected = model.predict(seasons)
    found = np.clip(completed[tuple(seasons.T)], *model.value_bounds_)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    for one, other in zip(model.factors_, factors, strict=True):
        assert one is other


@pytest.mark.parametrize("perturbation", ["input", "sums", "statistics"])
@pytest.mark.parametrize("rank", [0, 2])
def test_what_is_a_cp_becomes_a_tucker(ratings, seasons, perturbation, rank):
    model = fitted(ratings, seasons, rank=rank, perturbation=perturbation)
    completed = model.offset_ + tl.tucker_to_tensor(model.decomposition_)
    found = np.clip(completed[tuple(seasons.T)], *model.value_bounds_)
    np.testing.assert_allclose(found, model.predict(seasons), atol=1e-9)


def test_a_tensor_equals_its_entries(ratings, seasons):
    shape = tuple(seasons.max(axis=0) + 1)
    _, first = np.unique(seasons, axis=0, return_index=True)
    X, y = seasons[first], ratings.target[first]
    tensor = np.full(shape, np.nan)
    tensor[tuple(X.T)] = y
    options = {**INPUT, "epsilon": math.inf, "levels": ratings.levels}
    of_entries = TuckerCompletion((2, 2, 1), **options).fit(X, y)
    of_tensor = TuckerCompletion((2, 2, 1), **options).fit(tensor)
    expected = of_entries.predict(np.argwhere(np.ones(shape))).reshape(shape)
    np.testing.assert_allclose(of_tensor.transform(tensor), expected, atol=1e-6)


def test_unknown_indices_and_recommendations(ratings, seasons):
    model = fitted(ratings, seasons, rank=(2, 2, 1))
    asked = np.array([[3, -1, 1], [-1, 2, 1], [-1, -1, -1]])
    assert np.all(np.isfinite(model.predict(asked)))
    best = model.recommend(3, k=4, context=[1])
    items = np.setdiff1d(np.arange(model.shape_[1]), seasons[seasons[:, 0] == 3, 1])
    scores = model._model.predict(
        np.column_stack([np.full_like(items, 3), items, np.ones_like(items)])
    )
    np.testing.assert_array_equal(best, items[np.argsort(-scores)[:4]])


def test_smooth_modes_tie_neighbours(ratings, seasons):
    model = fitted(ratings, seasons, rank=(2, 2, 2), smooth_modes=[2])
    assert model._model.tie[2].any()
    assert not model._model.tie[1].any()


# --- refusals, before anything is drawn ----------------------------------------------


@pytest.mark.parametrize(
    ("rank", "biases", "message"),
    [
        ((2, 2), True, "one for each of the 3 modes"),
        ((2.0, 2, 2), True, "one for each of the 3 modes"),
        ((2, 0, 2), True, "positive, or all 0"),
        ((2, -1, 2), True, "positive, or all 0"),
        ((2, 2, 5), True, "The rank 5 of mode 2 is larger than the mode"),
        (5, True, "The rank 5 of mode 2 is larger than the mode"),
        ((7, 2, 3), True, "The rank 7 of mode 0 is larger than the product 6"),
        (0, False, "nothing to fit"),
        ((60, 60, 4), True, "too large to be fitted"),
    ],
)
def test_ranks_are_refused(ratings, seasons, monkeypatch, rank, biases, message):
    drawn = []
    monkeypatch.setattr(
        _random.NoiseSource, "stream", lambda *_: drawn.append(1), raising=True
    )
    with pytest.raises(ValueError, match=message):
        fitted(ratings, seasons, rank=rank, biases=biases)
    assert not drawn


def test_a_rank_that_just_fits(ratings, seasons):
    assert fitted(ratings, seasons, rank=(6, 2, 3), max_iter=1).n_iter_ == 1
    assert fitted(ratings, seasons, rank=4, max_iter=1).n_iter_ == 1


# --- streams, searches, copies --------------------------------------------------------


def test_partial_fit_takes_new_entries_in(ratings, seasons):
    y = ratings.target
    half = len(y) // 2
    options = {**INPUT, "epsilon": math.inf, "levels": ratings.levels}
    model = TuckerCompletion((2, 2, 1), shape=(100, 80, 4), **options)
    model.partial_fit(seasons[:half], y[:half])
    before = root_mean_squared_error(y[half:], model.predict(seasons[half:]))
    model.partial_fit(seasons[half:], y[half:])
    after = root_mean_squared_error(y[half:], model.predict(seasons[half:]))
    assert after < before - 0.05
    with pytest.raises(ValueError, match="must be those of the fit"):
        model.set_params(rank=(2, 2, 2)).partial_fit(seasons[:9], y[:9])


def test_the_guarantee_is_that_of_a_cp(ratings):
    tucker = fitted(ratings).privacy_guarantee_
    options = {**INPUT, "epsilon": 4.0, "levels": ratings.levels}
    cp = CPCompletion(2, **options).fit(ratings.data, ratings.target)
    assert str(tucker) == str(cp.privacy_guarantee_)


def test_the_same_seed_gives_the_same_noise_in_a_clone(ratings):
    model = fitted(ratings)
    twin = clone(model).fit(ratings.data, ratings.target)
    np.testing.assert_array_equal(model.decomposition_.core, twin.decomposition_.core)
    other = clone(model).set_params(random_state=1).fit(ratings.data, ratings.target)
    assert not np.array_equal(model.predict(ratings.data), other.predict(ratings.data))


def test_pickle(ratings, seasons):
    model = fitted(ratings, seasons, rank=(2, 2, 1))
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(seasons), model.predict(seasons))
    assert str(copy.privacy_guarantee_) == str(model.privacy_guarantee_)


def test_a_grid_over_ranks_and_budgets(ratings, seasons):
    grid = {"rank": [(1, 1, 1), (2, 2, 1)], "epsilon": [1.0, 8.0]}
    options = {**INPUT, "max_iter": 3, "levels": ratings.levels}
    model = TuckerCompletion(1, shape=(100, 80, 4), **options)
    search = GridSearchCV(model, grid, cv=3, error_score="raise")
    search.fit(seasons, ratings.target)
    assert search.best_params_["epsilon"] == 8.0
    assert search.best_estimator_.privacy_guarantee_.epsilon == pytest.approx(8.0)


class _Stops:
    """A callback that ends the fit after its second sweep."""

    def __init__(self):
        self.n_sweeps = 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        assert X is None
        assert y is None
        self.n_sweeps += context.task_name == "sweep"

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None):
        return self.n_sweeps == 2


def test_a_callback_may_stop_the_fit(ratings):
    options = {**INPUT, "levels": ratings.levels}
    model = TuckerCompletion(1, **options).set_callbacks(_Stops())
    assert model.fit(ratings.data, ratings.target).n_iter_ == 2


def test_the_core_is_regularised_in_the_published_algorithms_alone(ratings):
    where = np.asfortranarray(ratings.data, dtype=np.int32)
    model = TuckerCompletion(1, levels=ratings.levels, core_regularization=0.5)
    problem = model._problem(where, ratings.target, (100, 80))
    assert problem.core_regularization == 0.5
    found = [fitted(ratings, core_regularization=c).decomposition_ for c in (0.0, 9.0)]
    np.testing.assert_array_equal(found[0].core, found[1].core)
