"""CP and Tucker decompositions of entries and of dense tensors, as users meet them."""

import math
from fractions import Fraction

import numpy as np
import pytest
import tensorly as tl
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import root_mean_squared_error

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.datasets import make_low_rank_tensor, make_ratings
from tests.support.callbacks import ProgressBar, Silent, needs_callbacks
from tests.support.points import POINTS
from tests.support.refusing import refused
from tests.support.tensors import dense_of, error_on

pytestmark = pytest.mark.thorough
INF = math.inf
RATINGS = make_ratings(120, 70, 4000, random_state=0)
Y, LEVELS = RATINGS.target, RATINGS.levels
SEASON = np.random.default_rng(0).integers(0, 3, len(Y))
DATA = {2: RATINGS.data, 3: np.column_stack([RATINGS.data, SEASON])}
SHAPES = {2: RATINGS.shape, 3: (*RATINGS.shape, 3)}
HELD_OUT = np.random.default_rng(0).random(len(Y)) < 0.2
BOTH = [CPCompletion, TuckerCompletion]


def fitted(kind=CPCompletion, rank=2, order=2, **params):
    """By default, to values that are drawn from a table."""
    params = {
        "levels": LEVELS, "random_state": 0, "max_iter": 10, "perturbation": "input",
        "shape": SHAPES[order], **params,
    }  # fmt: skip
    return kind(rank, **params).fit(DATA[order], Y)


# --- utility ------------------------------------------------------------------------


def test_more_budget_and_factors_help():
    """Each step of the ladder improves the held-out error, of both forms alike."""
    error = {}
    for kind in BOTH:
        for rank, epsilon in ((0, INF), (4, INF), (4, 8.0), (4, 2.0)):
            model = kind(
                rank, epsilon=epsilon, levels=LEVELS, max_iter=15, random_state=0,
                perturbation="input",
            ).fit(DATA[2][~HELD_OUT], Y[~HELD_OUT])  # fmt: skip
            predicted, std = model.predict(DATA[2][HELD_OUT], return_std=True)
            found = root_mean_squared_error(Y[HELD_OUT], predicted)
            error[kind, rank, epsilon] = found
            if epsilon == 8:
                assert 0.8 < found**2 / np.mean(std**2) < 1.2
        biases, free, eight, two = (error[key] for key in error if key[0] is kind)
        assert free < biases < np.std(Y[HELD_OUT])
        assert free <= eight + 0.005 < two < np.std(Y[HELD_OUT])
    cp, tucker = (error[kind, 4, 8.0] for kind in BOTH)
    assert tucker < cp + 0.02


@pytest.mark.parametrize(
    ("kind", "levels"), [(CPCompletion, None), (TuckerCompletion, LEVELS)]
)
def test_a_vanishing_amount_of_noise_equals_the_non_private_fit(kind, levels):
    free, noisy = (
        fitted(kind, order=3, epsilon=e, levels=levels, value_bounds=(0.5, 5))
        for e in (INF, 1e6)
    )
    assert_allclose(noisy.predict(DATA[3]), free.predict(DATA[3]), atol=2e-3)


@pytest.mark.filterwarnings("ignore:X has no NaN:UserWarning")
@pytest.mark.parametrize(("form", "missing"), [("cp", 0.5), ("tucker", 0.0)])
def test_a_noise_free_tensor_is_completed(form, missing):
    made = make_low_rank_tensor(
        decomposition=form, missing_ratio=missing, snr=INF, random_state=0
    )
    options = {"epsilon": INF, "value_bounds": (0, 1), "max_iter": 100}
    model = TuckerCompletion(3, perturbation="input", **options).fit(made.tensor)
    error = model.transform(made.tensor) - made.truth
    assert np.linalg.norm(error) < 1e-5 * np.linalg.norm(made.truth)


@pytest.mark.filterwarnings("ignore:X has no NaN:UserWarning")
@pytest.mark.parametrize("kind", BOTH)
def test_no_biases_and_no_constant(kind):
    """A tensor of two terms is found by two, although its mean is far from zero."""
    start = np.random.default_rng(0)
    tensor = np.einsum("ir,jr,kr->ijk", *(start.random((9, 2)) for _ in range(3)))
    fit = kind(2, epsilon=INF, biases=False, max_iter=100).fit(tensor)
    assert fit.offset_ == 0
    error = np.linalg.norm(fit.transform(tensor) - tensor)
    assert error < 1e-3 * np.linalg.norm(tensor)
    # With noise that hides it, values stay around their mean.
    noisy = kind(2, epsilon=0.5, biases=False, value_bounds=(0, 2), random_state=0)
    assert noisy.fit(tensor).offset_ != 0


def test_noise_is_not_taken_for_the_factors_of_a_tucker():
    made = make_low_rank_tensor(decomposition="tucker", random_state=0)
    model = TuckerCompletion(
        4, perturbation="input", biases=False, epsilon=0.5, value_bounds=(0, 1),
        shape=made.truth.shape, random_state=0,
    )  # fmt: skip
    predicted = model.fit(made.data, made.target).predict(made.data)
    truth = made.truth[tuple(made.data.T)]
    assert root_mean_squared_error(truth, predicted) < 2 * np.std(truth)


@pytest.mark.parametrize("epsilon", [4.0, INF])
def test_a_rank_far_above_what_the_data_carry_does_no_harm(epsilon):
    """Without a prior that switches terms off, rank 40 ends 3% above rank 5."""
    errors, domain = [], {"levels": LEVELS, "n_pattern_components": 0}
    for seed in range(5):
        ratings = make_ratings(100, 150, 4000, random_state=seed)
        X, y = ratings.data, ratings.target
        test = np.random.default_rng(1).random(len(y)) < 0.2
        errors.append([])
        for rank in (5, 40):
            model = CPCompletion(rank, epsilon=epsilon, random_state=0, **domain)
            errors[-1].append(error_on(test, model, X, y))
    low, high = np.mean(errors, axis=0)
    assert high < 1.01 * low


def test_terms_without_evidence_are_zero():
    """Nothing but biases: whatever the rank, no term adds to a prediction."""
    ratings = make_ratings(100, 150, 4000, rank=0, random_state=0)
    model = CPCompletion(12, epsilon=INF, levels=LEVELS, n_pattern_components=0)
    factors = model.fit(ratings.data, ratings.target).decomposition_.factors
    terms = factors[0][:, 2:14] @ factors[1][:, 2:14].T
    assert factors[0].shape[1] == 14
    assert np.abs(terms).max() < 0.01


# --- every perturbation, at every level -----------------------------------------------

RANKS = {2: (3, 3), 3: (3, 3, 2)}
MODELS = {
    "CP": lambda order, **params: CPCompletion(3, **params),
    "Tucker": lambda order, **params: TuckerCompletion(RANKS[order], **params),
    "biases": lambda order, **params: TuckerCompletion(0, **params),
}
PERTURBATIONS = ["auto", "input", "gradient", "output", "statistics", "sums"]
# Every perturbation and form, with two modes and with three in turn.
CASES = [
    pytest.param(
        form, 2 + (i + j) % 2, perturbation,
        marks=[pytest.mark.slow] if perturbation == "gradient" and j == 2 else [],
    )
    for i, perturbation in enumerate(PERTURBATIONS)
    for j, form in enumerate(MODELS)
]  # fmt: skip


def published(form, order, perturbation, **params):
    options = {
        "epsilon": 8.0, "delta": 1e-5, "value_bounds": (0.5, 5), "max_iter": 3,
        "shape": SHAPES[order], "random_state": 0, **params,
    }  # fmt: skip
    model = MODELS[form](order, perturbation=perturbation, **options)
    return model.fit(DATA[order], Y)


@pytest.mark.parametrize(("form", "order", "perturbation"), CASES)
def test_what_is_published(form, order, perturbation):
    """The decomposition is what predicts."""
    model = published(form, order, perturbation, n_pattern_components=0)
    assert 7 < model.privacy_guarantee_.epsilon <= 8.0
    assert model.privacy_guarantee_.delta in (0.0, 1e-5)
    if perturbation == "auto":
        assert model.perturbation_ in ("input", "sums", "statistics")
    else:
        assert model.perturbation_ == perturbation
    kind = tl.cp_to_tensor if form == "CP" else tl.tucker_to_tensor
    tensor = kind(model.decomposition_)
    assert tensor.shape == model.shape_
    expected = np.clip(model.offset_ + tensor[tuple(DATA[order].T)], 0.5, 5)
    assert_allclose(model.predict(DATA[order]), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("form", "perturbation"),
    [
        ("CP", "input"), ("CP", "statistics"), ("CP", "output"), ("CP", "gradient"),
        ("Tucker", "input"),
        *(
            pytest.param("Tucker", how, marks=pytest.mark.slow)
            for how in ("statistics", "output", "gradient")
        ),
    ],
)  # fmt: skip
def test_what_is_learned_without_noise(monkeypatch, form, perturbation):
    monkeypatch.setattr(*POINTS["clip of gradients"], 3.0)
    alone = published("biases", 3, "sums", epsilon=INF, max_iter=5)
    options = {"epsilon": INF, "max_iter": 30, "n_pattern_components": 0}
    model = published(form, 3, perturbation, **options)
    error = [root_mean_squared_error(Y, m.predict(DATA[3])) for m in (alone, model)]
    assert error[1] < error[0] - 0.005


# --- form -----------------------------------------------------------------------------


@pytest.mark.parametrize("biases", [True, False])
def test_shapes_of_a_decomposition(biases):
    model = fitted(order=3, max_iter=1, biases=biases)
    columns = {f.shape[1] - 3 * biases for f in model.factors_}
    assert len(columns) == 1
    assert min(columns) >= 2
    tl.cp_tensor._validate_cp_tensor(model.decomposition_)
    dense = tl.cp_to_tensor(model.decomposition_)
    norm = tl.cp_tensor.cp_norm(model.decomposition_)
    assert norm == pytest.approx(np.linalg.norm(dense), rel=1e-9)
    for rank, ranks in ((2, (2, 2, 2)), ((3, 2, 2), (3, 2, 2)), ([2, 2, 1], (2, 2, 1))):
        options = {"biases": biases, "n_pattern_components": 0, "max_iter": 1}
        model = fitted(TuckerCompletion, rank, 3, **options)
        core, factors = model.decomposition_
        assert core.shape == tuple(r + 2 * biases for r in ranks)
        for one, other in zip(model.factors_, factors, strict=True):
            assert_array_equal(one, other)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("epsilon", "unit"), [(4.0, "entry"), (INF, "entry"), (4.0, 0), (4.0, 1)]
)
def test_a_tensor_equals_its_entries(kind, epsilon, unit):
    tensor = dense_of(DATA[3], Y, SHAPES[3])
    where = np.argwhere(~np.isnan(tensor))
    options = {"epsilon": epsilon, "value_bounds": (0.5, 5), "shape": SHAPES[3]}
    dense, sparse = (
        kind(2, unit=unit, random_state=0, max_iter=3, **options) for _ in range(2)
    )
    completed = dense.fit(tensor).transform(tensor)
    sparse.fit(where, tensor[tuple(where.T)])
    assert dense.privacy_guarantee_ == sparse.privacy_guarantee_
    assert dense.n_features_in_ == sparse.n_features_in_ == 3
    assert_allclose(completed[tuple(where.T)], sparse.predict(where), rtol=1e-5)
    everywhere = np.argwhere(np.ones(SHAPES[3]))
    assert_allclose(completed.ravel(), dense.predict(everywhere), atol=1e-12)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    "params",
    [
        {"perturbation": "input"}, {"perturbation": "sums"},
        {"perturbation": "statistics"}, {"unit": 0, "perturbation": "statistics"},
        {"perturbation": "input", "smooth_modes": [1]},
        {"side_information": {1: np.arange(140.0).reshape(70, 2) / 140}},
    ],
)  # fmt: skip
def test_predictions_are_the_clipped_decomposition_and_offset(kind, params):
    model = fitted(kind, epsilon=8.0, **params)
    to_tensor = tl.cp_to_tensor if kind is CPCompletion else tl.tucker_to_tensor
    tensor = to_tensor(model.decomposition_) + model.offset_
    everywhere = np.argwhere(np.ones(SHAPES[2]))
    if "unit" in params:  # an unknown user
        everywhere[:, 0] = -1
        tensor = np.repeat(tensor, SHAPES[2][0], axis=0)
    assert_allclose(
        model.predict(everywhere), tensor.clip(*model.value_bounds_).ravel(), rtol=1e-9
    )


def test_observed_cells_are_not_passed_through():
    rng = np.random.default_rng(0)
    tensor = np.where(rng.random((9, 8, 5)) < 0.7, rng.normal(size=(9, 8, 5)), np.nan)
    model = CPCompletion(2, epsilon=20.0, value_bounds=(-3, 3), random_state=0)
    assert not hasattr(model, "transform")
    completed = model.fit(tensor).transform(tensor)
    assert not np.any((completed == tensor) & (np.abs(tensor) < 3))
    poisoned = np.full(tensor.shape, np.nan)
    poisoned[0, 0, 0] = 3.0
    assert_array_equal(model.transform(poisoned), completed)
    with pytest.raises(ValueError, match="the shape of the fit"):
        model.transform(tensor[:-1])
    where = np.argwhere(~np.isnan(tensor))
    model.fit(where, tensor[tuple(where.T)])
    assert not hasattr(model, "transform")


def test_unknown_index_uses_what_is_known():
    model = fitted(epsilon=INF, shape=(121, 70), n_pattern_components=0)
    biases = model.factors_[0][:120, 0]
    user = int(np.abs(biases).argmax())
    known, no_item, nothing = model.predict([[user, 7], [user, -1], [-1, -1]])
    # Of the average entry, the biases are next to nothing.
    assert nothing == pytest.approx(model.offset_, abs=0.01)
    expected = np.clip(model.offset_ + biases[user], 0.5, 5)
    assert no_item == pytest.approx(expected, abs=0.05)
    assert abs(biases[user]) > 0.5
    assert known != no_item
    tucker = fitted(TuckerCompletion, (2, 2, 1), 3, epsilon=INF)
    assert tucker.predict([[-1, -1, -1]]) == pytest.approx(tucker.offset_, abs=0.3)


def test_few_observations():
    X = [[0, 0], [0, 0], [1, 1]]
    twice = CPCompletion(0, epsilon=INF, value_bounds=(0, 1), max_iter=100)
    assert twice.fit(X, [0.0, 1.0, 0.5]).predict([[0, 0]]) == pytest.approx(0.5)
    once = CPCompletion(1, epsilon=INF, value_bounds=(0, 10), shape=(3, 4))
    # The row leaves its random start slowly: 0.001 is left after the default sweeps.
    for max_iter, tolerance in ((once.max_iter, 0.002), (100, 1e-6)):
        once.set_params(max_iter=max_iter).fit([[1, 2]], [7.0])
        found = once.predict([[1, 2], [0, 0]])
        assert found == pytest.approx([7, 7], abs=tolerance)


def test_values_are_moved_to_the_scale_and_predictions_to_the_bounds():
    rounded = fitted(epsilon=INF)
    shifted = clone(rounded).fit(DATA[2], Y + 0.2)
    assert_allclose(rounded.predict(DATA[2]), shifted.predict(DATA[2]))
    predicted = fitted(epsilon=0.1).predict(DATA[2])
    assert 0.5 <= predicted.min() < predicted.max() <= 5


def test_partial_fit_of_a_tucker():
    half = len(Y) // 2
    model = TuckerCompletion(
        (2, 2, 1), shape=SHAPES[3], epsilon=INF, levels=LEVELS, max_iter=8
    )
    model.partial_fit(DATA[3][:half], Y[:half])
    before = root_mean_squared_error(Y[half:], model.predict(DATA[3][half:]))
    model.partial_fit(DATA[3][half:], Y[half:])
    after = root_mean_squared_error(Y[half:], model.predict(DATA[3][half:]))
    assert after < before - 0.05
    with pytest.raises(ValueError, match="must be those of the fit"):
        model.set_params(rank=(2, 2, 2)).partial_fit(DATA[3][:9], Y[:9])


# --- guarantees and noise -------------------------------------------------------------


@pytest.mark.parametrize("n_levels", [2, 10])
def test_a_table_never_exceeds_a_tiny_budget(n_levels):
    model = CPCompletion(0, levels=range(n_levels), perturbation="input", max_iter=1)
    for epsilon in np.geomspace(1e-8, 1e-2, 9):
        model.set_params(epsilon=epsilon).fit([[0, 0]], [1.0])
        assert 0.99 * epsilon < model.privacy_guarantee_.epsilon <= epsilon
        symbols = zip(*model.privacy_guarantee_.event.weights, strict=True)
        excess = max(Fraction(max(s) - min(s), min(s)) for s in symbols)
        assert math.log1p(excess) <= epsilon * (1 + 1e-15)
    with refused("too small to be represented"):
        model.set_params(epsilon=1e-12).fit([[0, 0]], [1.0])


# --- callbacks ------------------------------------------------------------------------


class Named(Silent):
    """A callback that notes the names of tasks."""

    def __init__(self):
        self.names = []

    def on_fit_task_begin(self, estimator, context):
        self.names.append(context.task_name)


@pytest.mark.parametrize("kind", BOTH)
@needs_callbacks
def test_callbacks_see_every_sweep(kind, capsys):
    named = Named()
    model = kind(1, perturbation="input", levels=LEVELS, max_iter=5, random_state=0)
    model.set_callbacks(named, ProgressBar()).fit(DATA[2], Y)
    assert named.names == ["fit"] + ["sweep"] * 5
    assert f"{kind.__name__} - fit" in capsys.readouterr().out


# --- refusals, before anything is drawn -----------------------------------------------

GOOD = [[0, 0], [1, 2], [2, 1]], [1.0, 2.0, 3.0]
WHERE, SECRET = GOOD[0], 4.25


@pytest.mark.parametrize(
    ("data", "params", "message"),
    [
        (([[0, 0, 0]], [1]), {"shape": (2, 3)}, "3 columns"),
        (([[0], [1]], [1, 2]), {}, r"1 feature\(s\)"),
        (([SECRET, 1], [1, 2]), {}, "Expected 2D array"),
        ((np.full((2, 2), SECRET + 0j), [1, 2]), {}, "Complex data"),
        ((np.empty((0, 2)), []), {}, r"0 sample\(s\)"),
        (([["a", "b"]], [1]), {}, "must hold numbers"),
        (([[0, 2**40]], [1]), {}, "below 2"),
        ((WHERE, np.array(["4.25x", "1", "2"])), {}, "y must hold numbers"),
        ((WHERE, np.array(["4.25x", "1", "2"], dtype=object)), {}, "must hold numbers"),
        ((WHERE, np.array([SECRET, 1j, 0])), {}, "Complex data"),
        ((WHERE, np.ones(3, dtype="M8[s]")), {}, "must hold numbers"),
        ((WHERE, np.full(3, b"4.25x")), {}, "must hold numbers"),
        ((np.array([SECRET, 1.5, np.nan]),), {}, "two or more modes"),
        ((np.full((3, 4), np.nan),), {}, "all are NaN"),
        ((np.array([[SECRET, INF], [0, 1]]),), {}, "infinity"),
        ((np.full((3, 4), SECRET),), {"shape": (4, 3)}, "another shape than"),
        ((np.zeros((3, 4)),), {"rank": 4}, "is too large"),
        ((np.array([["1", "4.25"], ["2", "x"]]),), {}, "must hold numbers"),
        (GOOD, {"rank": 4}, "is too large"),
        (GOOD, {"rank": 0, "biases": False}, "nothing to fit"),
        (GOOD, {"rank": -1}, "'rank' parameter"),
        (GOOD, {"epsilon": 0}, "'epsilon' parameter"),
        (GOOD, {"epsilon": np.nan}, "'epsilon' parameter"),
        (GOOD, {"epsilon": 1e-12}, "too small"),
        (GOOD, {"value_bounds": (5, 1)}, "low < high"),
        (GOOD, {"value_bounds": (1, 1)}, "low < high"),
        (GOOD, {"value_bounds": (0, np.inf)}, "finite"),
        (GOOD, {"value_bounds": (0, 1, 2)}, "pair"),
        (GOOD, {"levels": [1]}, "at least two"),
        (GOOD, {"levels": [1, 1, 2]}, "distinct"),
        (GOOD, {"levels": [1, 9], "value_bounds": (0, 5)}, "within"),
        (GOOD, {"level_prior": [0.5, 0.5]}, "declare them too"),
        (GOOD, {"levels": [1, 2], "level_prior": [1]}, "one probability"),
        (GOOD, {"levels": [1, 2], "level_prior": [1, 1]}, "sum to one"),
        (GOOD, {"levels": [1, 2], "level_prior": [2, -1]}, "non-negative"),
        (
            GOOD,
            {"levels": range(33), "level_prior": [1 / 33] * 33},
            "at most 32 levels",
        ),
        (GOOD, {"shape": (3,)}, "at least two positive"),
        (GOOD, {"shape": (3, 0)}, "at least two positive"),
        (GOOD, {"shape": (3.5, 3)}, "at least two positive"),
        (GOOD, {"max_iter": 0}, "'max_iter' parameter"),
        (GOOD, {"random_state": np.random.default_rng(0)}, "random_state"),
        (GOOD, {"random_state": -1}, "random_state"),
        (GOOD, {"unit": "user"}, "'unit' parameter"),
        (GOOD, {"perturbation": "none"}, "'perturbation' parameter"),
    ],
)
def test_wrong_input_is_refused(data, params, message):
    if not {"value_bounds", "levels", "level_prior"} & set(params):
        params = {"value_bounds": (0, 5), **params}
    model = CPCompletion(**{"rank": 1, **params})
    with refused(message, secret=str(SECRET)):
        model.fit(*data)
    assert not hasattr(model, "privacy_guarantee_")


@pytest.mark.parametrize("missing", [None, np.nan])
@pytest.mark.parametrize("how", ["fit", "fit_batches", "partial_fit"])
def test_missing_values_are_refused_also_where_others_are_not_checked(how, missing):
    model = fitted()
    before = model.privacy_guarantee_
    y = [missing, *Y[1:]]
    argument = ([(DATA[2], y)],) if how == "fit_batches" else (DATA[2], y)
    for finite in (False, True):
        with config_context(assume_finite=finite), refused("NaN|missing"):
            getattr(model, how)(*argument)
    assert model.privacy_guarantee_ == before
    assert np.isfinite(model.predict(DATA[2])).all()


@pytest.mark.parametrize(
    ("rank", "biases", "message"),
    [
        ((2, 2), True, "one integer for each of the 3"),
        ((2.0, 2, 2), True, "one integer for each of the 3"),
        ((2, 0, 2), True, "or 0 for all"),
        ((2, -1, 2), True, "or 0 for all"),
        (4, True, "rank = 4 of mode 2 is larger than the mode"),
        ((7, 2, 3), True, "rank = 7 of mode 0 is larger than the product 6"),
        (0, False, "nothing to fit"),
        ((60, 60, 3), True, "too large to be fitted"),
    ],
)
def test_ranks_are_refused(rank, biases, message):
    with refused(message):
        fitted(TuckerCompletion, rank, 3, biases=biases)


def test_a_rank_that_just_fits():
    assert fitted(TuckerCompletion, (6, 2, 3), 3, max_iter=1).n_iter_ == 1
    assert fitted(TuckerCompletion, 3, 3, max_iter=1).n_iter_ == 1


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[120, 0]], "outside the tensor"),
        ([[0, -2]], "only -1"),
        ([[0, 0.5]], "fractional"),
        ([[0, 0, 0]], "3 features"),
    ],
)
def test_predict_refuses_coordinates_that_do_not_exist(X, message):
    with pytest.raises(ValueError, match=message):
        fitted(max_iter=1).predict(X)
