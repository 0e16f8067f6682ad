"""CPCompletion as its users meet it, and as an attacker does."""

import math
import pickle
import struct

import numpy as np
import pytest
import tensorly as tl
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.exceptions import NotFittedError
from sklearn.metrics import root_mean_squared_error

from sktensordp import _random
from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import PrivacyLeakWarning


@pytest.fixture(scope="module")
def ratings():
    return make_ratings(100, 150, 4000, random_state=0)


def fitted(ratings, rank=2, **params):
    params = {"levels": ratings.levels, "random_state": 0, "max_iter": 15, **params}
    return CPCompletion(rank, **params).fit(ratings.data, ratings.target)


# --- utility ---------------------------------------------------------------------


def test_more_budget_and_factors_help(ratings):
    """On synthetic ratings: each step of the ladder improves the held-out error."""
    X, y = ratings.data, ratings.target
    test = np.random.default_rng(0).random(len(y)) < 0.2
    error = {}
    for name, params in {
        "biases": {"rank": 0, "epsilon": math.inf},
        "free": {"rank": 5, "epsilon": math.inf},
        "eps 8": {"rank": 5, "epsilon": 8.0},
        "eps 2": {"rank": 5, "epsilon": 2.0},
    }.items():
        model = CPCompletion(levels=ratings.levels, random_state=0, **params)
        model.fit(X[~test], y[~test])
        error[name] = root_mean_squared_error(y[test], model.predict(X[test]))
    mean_alone = np.std(y[test])
    assert error["free"] <= error["eps 8"] + 0.005 < error["eps 2"] < mean_alone
    assert error["free"] < error["biases"] < mean_alone


@pytest.mark.parametrize("levels", [True, False])
def test_a_vanishing_amount_of_noise_equals_the_non_private_fit(ratings, levels):
    domain = {"levels": ratings.levels} if levels else {"levels": None}
    domain["value_bounds"] = (0.5, 5.0)
    free = fitted(ratings, epsilon=math.inf, **domain)
    noisy = fitted(ratings, epsilon=1e6, **domain)
    np.testing.assert_allclose(
        noisy.predict(ratings.data), free.predict(ratings.data), atol=2e-3
    )


# --- contract --------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(12, 9), (8, 7, 5)])
@pytest.mark.parametrize("biases", [True, False])
def test_decomposition_reproduces_the_prediction(shape, biases):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, n, 200) for n in shape])
    y = rng.random(200)
    model = CPCompletion(
        2, epsilon=50.0, value_bounds=(0, 1), shape=shape, biases=biases, random_state=0
    ).fit(X, y)
    dense = tl.cp_to_tensor(model.decomposition_) + model.offset_
    assert dense.shape == shape == model.shape_
    predicted = model.predict(np.argwhere(np.ones(shape)))
    np.testing.assert_allclose(predicted, np.clip(dense, 0, 1).ravel(), atol=1e-12)
    assert tl.cp_norm(model.decomposition_) > 0
    assert [f.shape for f in model.factors_] == [
        (n, 2 + biases * len(shape)) for n in shape
    ]


def test_predictions_stay_within_the_bounds(ratings):
    predicted = fitted(ratings, epsilon=0.1).predict(ratings.data)
    assert predicted.min() >= 0.5
    assert predicted.max() <= 5


def test_unknown_index_uses_what_is_known(ratings):
    model = fitted(ratings, epsilon=math.inf, shape=(101, 150), n_pattern_components=0)
    known = model.predict([[3, 7]])
    no_item = model.predict([[3, -1]])
    nothing = model.predict([[-1, -1]])
    assert nothing == pytest.approx(model.offset_)
    user_bias = model.factors_[0][3, 0]
    assert no_item == pytest.approx(np.clip(model.offset_ + user_bias, 0.5, 5))
    assert known != no_item
    # Index 100 is inside the shape, but nobody observed it.
    assert model.predict([[100, 7]]) == pytest.approx(model.predict([[-1, 7]]))


def test_integral_floats_and_data_frames_are_coordinates(ratings):
    pd = pytest.importorskip("pandas")
    model = fitted(ratings)
    expected = model.predict(ratings.data[:5])
    np.testing.assert_array_equal(
        model.predict(ratings.data[:5].astype(float)), expected
    )
    frame = pd.DataFrame(ratings.data, columns=["user", "item"])
    named = clone(model).fit(frame, pd.Series(ratings.target))
    assert list(named.feature_names_in_) == ["user", "item"]
    np.testing.assert_array_equal(named.predict(frame[:5]), expected)


def test_duplicated_coordinates_are_separate_observations():
    X = [[0, 0], [0, 0], [1, 1]]
    twice = CPCompletion(0, epsilon=math.inf, value_bounds=(0, 1), max_iter=100)
    means = twice.fit(X, [0.0, 1.0, 0.5])
    assert means.predict([[0, 0]]) == pytest.approx(0.5)
    released = CPCompletion(0, epsilon=2.0, value_bounds=(0, 1), random_state=0)
    assert released.fit(X, [0.0, 1.0, 0.5]).privacy_guarantee_.epsilon <= 2.0


def test_one_observation_is_enough():
    model = CPCompletion(1, epsilon=math.inf, value_bounds=(0, 10), shape=(3, 4))
    assert model.fit([[1, 2]], [7.0]).predict([[1, 2], [0, 0]]) == pytest.approx([7, 7])


def test_a_rank_above_what_the_data_carry_does_no_harm(ratings):
    X, y = ratings.data, ratings.target
    test = np.random.default_rng(1).random(len(y)) < 0.2
    errors = []
    for rank in (5, 40):
        model = CPCompletion(
            rank, epsilon=math.inf, levels=ratings.levels, n_pattern_components=0
        )
        model.fit(X[~test], y[~test])
        errors.append(root_mean_squared_error(y[test], model.predict(X[test])))
    assert errors[1] < errors[0] + 0.02


def test_values_off_the_scale_are_moved_to_it(ratings):
    rounded = fitted(ratings, epsilon=math.inf)
    shifted = clone(rounded).fit(ratings.data, ratings.target + 0.2)
    np.testing.assert_allclose(
        rounded.predict(ratings.data), shifted.predict(ratings.data)
    )


@pytest.mark.parametrize("backend_name", ["numpy"])
def test_the_global_backend_is_left_alone(ratings, backend_name):
    before = tl.get_backend()
    fitted(ratings)
    assert tl.get_backend() == before == backend_name


# --- guarantees ------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("domain", ["levels", "bounds", "fine levels"])
def test_guarantee_is_pure_and_within_the_budget(ratings, epsilon, domain):
    domain = {
        "levels": {"levels": ratings.levels},
        "bounds": {"levels": None, "value_bounds": (0.5, 5)},
        "fine levels": {"levels": np.linspace(0.5, 5, 46)},
    }[domain]
    guarantee = fitted(ratings, epsilon=epsilon, **domain).privacy_guarantee_
    assert 0.999 * epsilon < guarantee.epsilon <= epsilon * (1 + 1e-15)
    assert (guarantee.delta, guarantee.unit) == (0, "entry")
    assert guarantee.relation == "replace-one"
    assert guarantee.claimed is None
    assert guarantee.epsilon_at(0) == guarantee.epsilon
    assert guarantee.delta_at(epsilon) == 0


def test_a_range_read_off_the_values_voids_the_guarantee(ratings):
    model = CPCompletion(2, epsilon=1.0, random_state=0)
    with pytest.warns(PrivacyLeakWarning, match="read off the private values"):
        model.fit(ratings.data, ratings.target)
    guarantee = model.privacy_guarantee_
    assert guarantee.epsilon == math.inf
    assert guarantee.claimed == (1.0, 0.0)
    assert guarantee.delta_at(10.0) == 1
    assert "No differential privacy" in str(guarantee)
    assert "read off" in str(guarantee)


def test_no_noise_protects_nothing_and_does_not_warn(ratings):
    model = CPCompletion(2, epsilon=math.inf).fit(ratings.data, ratings.target)
    assert not model.privacy_guarantee_.protects
    assert model.value_bounds_ == (0.5, 5)


@pytest.mark.parametrize("random_state", [None, 0])
@pytest.mark.parametrize("levels", [True, False])
def test_no_two_fits_share_their_noise(ratings, random_state, levels):
    domain = {"levels": ratings.levels if levels else None, "value_bounds": (0.5, 5)}
    model = fitted(ratings, epsilon=0.5, random_state=random_state, **domain)
    first = model.predict(ratings.data)
    second = model.fit(ratings.data, ratings.target).predict(ratings.data)
    assert not np.allclose(first, second, atol=1e-3)


def test_an_int_seed_repeats_in_clones_and_none_does_not(ratings):
    for random_state, repeats in ((0, True), (None, False)):
        one = fitted(ratings, epsilon=0.5, random_state=random_state)
        two = clone(one).fit(ratings.data, ratings.target)
        same = np.array_equal(one.predict(ratings.data), two.predict(ratings.data))
        assert same == repeats


def test_an_interrupted_fit_leaves_no_model_under_a_wrong_guarantee(
    ratings, monkeypatch
):
    model = fitted(ratings, epsilon=8.0, perturbation="input").set_params(epsilon=1.0)

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("sktensordp.completion._input.fit_structured_cp", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(ratings.data, ratings.target)
    # The values were randomised, so that the release counts; there is no model.
    assert model.privacy_guarantee_.epsilon <= 1.0
    with pytest.raises(NotFittedError):
        model.predict(ratings.data)
    assert not hasattr(model, "factors_")


# --- what is left in the object ----------------------------------------------------


def spellings(value):
    """The bytes by which a pickle may hold a number."""
    return [struct.pack(code, value) for code in ("<d", ">d", "<f", ">f")]


@pytest.mark.parametrize("levels", [True, False])
def test_nothing_of_the_values_survives_in_the_fitted_object(ratings, levels):
    """Poisoned statistics are searched in the pickle and in every attribute."""
    rng = np.random.default_rng(5)
    y = rng.uniform(1, 4, len(ratings.target))
    y[17] = 3.141592653589793
    domain = {"levels": ratings.levels if levels else None, "value_bounds": (0.5, 5)}
    model = CPCompletion(2, epsilon=1.0, max_iter=3, **domain).fit(ratings.data, y)
    rows = [y[ratings.data[:, 0] == u] for u in range(20)]
    clipped = model._plan().clip(y)
    secrets = [*y[:50], y[17], y.mean(), y.sum(), y.min(), y.max(), y.std()]
    secrets += [y.var(), clipped.mean(), clipped.sum(), clipped.var()]
    secrets += [r.mean() for r in rows if r.size] + [r.sum() for r in rows if r.size]
    found = pickle.dumps(model)
    public = {0.5 * k for k in range(20)}
    for secret in secrets:
        if float(secret) not in public:
            assert not any(form in found for form in spellings(secret))
    assert y.tobytes()[:64] not in found


def test_the_search_for_survivors_finds_one(ratings):
    y = ratings.target + 0.123456789
    model = fitted(ratings)
    model.leak_ = float(y.mean())
    assert any(form in pickle.dumps(model) for form in spellings(y.mean()))


def test_a_pickle_predicts_the_same(ratings):
    model = fitted(ratings)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        copy.predict(ratings.data), model.predict(ratings.data)
    )
    assert copy.privacy_guarantee_ == model.privacy_guarantee_


# --- wrong input -------------------------------------------------------------------

GOOD_X, GOOD_Y = [[0, 0], [1, 2], [2, 1]], [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("X", "y", "params", "message"),
    [
        ([[0, 0.5], [1, 1]], [1, 2], {}, "some are fractional"),
        ([[0, -1], [1, 1]], [1, 2], {}, "Negative values in data"),
        ([[0, 0], [1, 3]], [1, 2], {"shape": (2, 3)}, "outside the tensor"),
        ([[0, 0, 0]], [1], {"shape": (2, 3)}, "3 columns"),
        ([[0], [1]], [1, 2], {}, r"1 feature\(s\)"),
        ([0, 1], [1, 2], {}, "Expected 2D array"),
        (np.empty((0, 2)), [], {}, r"0 sample\(s\)"),
        ([["a", "b"]], [1], {}, "must hold numbers"),
        ([[0, 2**40]], [1], {}, "below 2"),
        ([[0, np.nan]], [1], {}, "NaN"),
        (GOOD_X, [1, np.nan, 2], {}, "Input y contains NaN"),
        (GOOD_X, [1, np.inf, 2], {}, "infinity"),
        (GOOD_X, [1, 2], {}, "inconsistent"),
        (GOOD_X, GOOD_Y, {"rank": 4}, "larger than can be fitted"),
        (GOOD_X, GOOD_Y, {"rank": 0, "biases": False}, "nothing to fit"),
        (GOOD_X, GOOD_Y, {"rank": -1}, "'rank' parameter"),
        (GOOD_X, GOOD_Y, {"epsilon": 0}, "'epsilon' parameter"),
        (GOOD_X, GOOD_Y, {"epsilon": -1.0}, "'epsilon' parameter"),
        (GOOD_X, GOOD_Y, {"epsilon": np.nan}, "'epsilon' parameter"),
        (GOOD_X, GOOD_Y, {"epsilon": 1e-12}, "too small"),
        (GOOD_X, GOOD_Y, {"value_bounds": (5, 1)}, "low < high"),
        (GOOD_X, GOOD_Y, {"value_bounds": (1, 1)}, "low < high"),
        (GOOD_X, GOOD_Y, {"value_bounds": (0, np.inf)}, "finite"),
        (GOOD_X, GOOD_Y, {"value_bounds": (0, 1, 2)}, "pair"),
        (GOOD_X, GOOD_Y, {"levels": [1]}, "at least two"),
        (GOOD_X, GOOD_Y, {"levels": [2, 1]}, "ascending"),
        (GOOD_X, GOOD_Y, {"levels": [1, 1, 2]}, "ascending"),
        (GOOD_X, GOOD_Y, {"levels": [1, 9], "value_bounds": (0, 5)}, "within"),
        (GOOD_X, GOOD_Y, {"level_prior": [0.5, 0.5]}, "declare them too"),
        (GOOD_X, GOOD_Y, {"levels": [1, 2], "level_prior": [1]}, "one probability"),
        (GOOD_X, GOOD_Y, {"levels": [1, 2], "level_prior": [1, 1]}, "sum to one"),
        (GOOD_X, GOOD_Y, {"levels": [1, 2], "level_prior": [2, -1]}, "non-negative"),
        (
            GOOD_X,
            GOOD_Y,
            {"levels": range(21), "level_prior": [1 / 21] * 21},
            "up to 20 levels",
        ),
        (GOOD_X, GOOD_Y, {"shape": (3,)}, "at least two positive"),
        (GOOD_X, GOOD_Y, {"shape": (3, 0)}, "at least two positive"),
        (GOOD_X, GOOD_Y, {"shape": (3.5, 3)}, "at least two positive"),
        (GOOD_X, GOOD_Y, {"max_iter": 0}, "'max_iter' parameter"),
        (GOOD_X, GOOD_Y, {"random_state": np.random.default_rng(0)}, "random_state"),
        (GOOD_X, GOOD_Y, {"random_state": -1}, "random_state"),
        (GOOD_X, GOOD_Y, {"unit": "user"}, "'unit' parameter"),
        (GOOD_X, GOOD_Y, {"perturbation": "none"}, "'perturbation' parameter"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_drawn(
    X, y, params, message, monkeypatch
):
    def draw(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(_random.NoiseSource, "stream", draw)
    if not {"value_bounds", "levels", "level_prior"} & set(params):
        params = {"value_bounds": (0, 5), **params}
    model = CPCompletion(**{"rank": 1, **params})
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "privacy_guarantee_")


def test_messages_show_no_value_of_the_data():
    secrets = [[0, 271], [314, 161]], [2.718281828, np.nan]
    shown = []
    for X, y in [
        (secrets[0], secrets[1]),
        ([[0.271, 1], [1, 1]], [1, 2]),
        ([[-271, 1], [1, 1]], [1, 2]),
    ]:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 (texts are the test)
            CPCompletion(1, value_bounds=(0, 5), shape=(20, 20)).fit(X, y)
        shown.append(str(caught.value))
    assert not any(secret in s for s in shown for secret in ("271", "314", "2.718"))


@pytest.mark.parametrize("kind", [str, object])
def test_values_that_are_no_numbers_are_not_quoted(kind):
    y = np.array(["4.5", "secret"], dtype=kind)
    with pytest.raises(ValueError, match="y must hold numbers") as caught:
        CPCompletion(1, value_bounds=(0, 5)).fit([[0, 0], [1, 1]], y)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[100, 0]], "outside the tensor"),
        ([[0, -2]], "only -1"),
        ([[0, 0.5]], "fractional"),
        ([[0, 0, 0]], "3 features"),
    ],
)
def test_predict_refuses_coordinates_that_do_not_exist(ratings, X, message):
    with pytest.raises(ValueError, match=message):
        fitted(ratings).predict(X)


# --- callbacks ---------------------------------------------------------------------


class Recorder:
    """Counts tasks, keeps all that it is passed, may stop after some sweeps."""

    def __init__(self, stop_after=None):
        self.names, self.passed, self.stop_after = [], [], stop_after

    def setup(self, estimator, context):
        self.passed.append(context)

    def teardown(self, estimator, context):
        self.passed.append(context)

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.names.append(context.task_name)
        self.passed += [X, y, metadata]

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None):
        self.passed += [X, y, metadata]
        sweeps = self.names.count("sweep")
        return self.stop_after is not None and sweeps >= self.stop_after


def test_callbacks_see_every_sweep_but_no_data(ratings):
    recorder = Recorder()
    model = CPCompletion(
        1, perturbation="input", levels=ratings.levels, max_iter=6, random_state=0
    )
    model.set_callbacks(recorder).fit(ratings.data, ratings.target)
    assert recorder.names == ["fit"] + ["sweep"] * 6
    assert not any(isinstance(p, np.ndarray) for p in recorder.passed)


def test_a_callback_may_stop_the_fit(ratings):
    model = CPCompletion(
        1, perturbation="input", levels=ratings.levels, max_iter=20, random_state=0
    )
    model.set_callbacks(Recorder(stop_after=4)).fit(ratings.data, ratings.target)
    assert model.n_iter_ == 4


def test_progress_bar(ratings, capsys):
    model = CPCompletion(1, levels=ratings.levels, max_iter=5, random_state=0)
    model.set_callbacks(ProgressBar()).fit(ratings.data, ratings.target)
    assert "CPCompletion - fit" in capsys.readouterr().out
