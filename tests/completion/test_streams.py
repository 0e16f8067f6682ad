"""Entries that come in batches, from files, or after the fit: fit_batches, partial_fit.

What several calls reveal together is compared with divergences that know neither
dp-accounting nor the package.
"""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sktensordp.completion import CPCompletion
from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import PrivacyBudget, compose, privacy_of
from tests.support.noise import drawing
from tests.support.refusing import refused
from tests.support.replaying import recorded
from tests.support.tensors import everywhere, fitted_in

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:.* of the values are:UserWarning"),
    pytest.mark.filterwarnings("ignore:The declared scale, .* as wide:UserWarning"),
]
SHAPE = (30, 20, 4)
LEVELS = (1.0, 2.0, 3.0, 4.0, 5.0)
BOUNDS = (-3.0, 3.0)
DOMAINS = {
    "levels": {"levels": LEVELS, "value_bounds": None},
    "fine levels": {"levels": range(40), "value_bounds": None},
    "bounds": {"levels": None, "value_bounds": BOUNDS},
}
TWO_DOMAINS = ["levels", "bounds"]


def entries(n=600, seed=0, shape=SHAPE):
    """Coordinates, the last row of every mode among them, and values."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, size, n) for size in shape])
    X[0] = np.array(shape) - 1
    return X, rng.uniform(-3, 6, n)


def make(**params):
    options = {"value_bounds": BOUNDS, "random_state": 0, "max_iter": 6}
    options |= {"perturbation": "input", **params}
    return CPCompletion(options.pop("rank", 2), **options)


def in_batches(X, y, *sizes):
    cuts = np.cumsum(sizes)
    return zip(np.split(X, cuts), np.split(y, cuts), strict=True)


def assert_same(one, two):
    """Two fitted models agree bit by bit, in all that they predict and state."""
    at = everywhere(one.shape_)
    for first, second in zip(one.factors_, two.factors_, strict=True):
        assert first.dtype == second.dtype
        np.testing.assert_array_equal(first, second)
    for name in ("offset_", "model_variance_", "residual_variance_", "value_bounds_"):
        assert getattr(one, name) == getattr(two, name)
    assert one.shape_ == two.shape_
    assert one.n_features_in_ == two.n_features_in_
    assert one.privacy_guarantee_ == two.privacy_guarantee_
    np.testing.assert_array_equal(
        one.predict(at, return_std=True), two.predict(at, return_std=True)
    )


# --- fit_batches -------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
@pytest.mark.parametrize(
    ("sizes", "domain"),
    [
        ((), "levels"), ((1,), "bounds"), ((0, 100, 200), "fine levels"),
        ((1, 1, 597), "levels"), ((50,) * 11, "bounds"),
    ],
)  # fmt: skip
def test_batches_equal_a_fit_to_all_of_them(sizes, domain, epsilon):
    X, y = entries()
    model = make(epsilon=epsilon, **DOMAINS[domain])
    batches = clone(model).fit_batches(in_batches(X, y, *sizes))
    assert_same(batches, clone(model).fit(X, y))


@pytest.mark.parametrize("kind", [tuple, iter])
def test_batches_are_any_iterable_read_once(kind):
    X, y = entries()
    batches = list(in_batches(X, y, 100, 250))
    assert_same(make().fit_batches(kind(batches)), make().fit(X, y))

    def reusing_memory():
        where, values = np.empty((200, 3), dtype=int), np.empty(200)
        for part in np.split(np.arange(600), 3):
            where[:], values[:] = X[part], y[part]
            yield where, values

    assert_same(make().fit_batches(reusing_memory()), make().fit(X, y))


@pytest.mark.parametrize("kind", ["i1", "u8", "f4"])
def test_the_type_of_the_coordinates_does_not_matter(kind):
    X, y = entries()
    expected = make().fit(X, y)
    other = make().fit(X.astype(kind), y)
    assert_same(other, expected)
    np.testing.assert_array_equal(other.predict(X.astype(kind)), expected.predict(X))
    mixed = [(X[:200].astype(kind), y[:200]), (X[200:].astype("i8"), y[200:])]
    assert_same(make().fit_batches(mixed), expected)


@pytest.mark.parametrize(
    ("epsilon", "domain"), [(1.0, "levels"), (1.0, "bounds"), (math.inf, "fine levels")]
)
def test_single_precision_in_and_out(domain, epsilon):
    X, y = entries()
    model = make(epsilon=epsilon, **DOMAINS[domain])
    single = clone(model).fit(X, y.astype(np.float32))
    batches = clone(model).fit_batches(in_batches(X, y.astype(np.float32), 77))
    assert_same(batches, single)
    double = clone(model).fit(X, y)
    for fitted, dtype in ((single, np.float32), (double, np.float64)):
        mean, std = fitted.predict(X, return_std=True)
        assert mean.dtype == std.dtype == dtype == fitted.predict(X).dtype
        assert {f.dtype for f in fitted.factors_} == {np.dtype(dtype)}
        fitted.partial_fit(X[:9], y[:9])
        assert fitted.predict(X).dtype == dtype
        assert {f.dtype for f in fitted.factors_} == {np.dtype(dtype)}
    # Of both, double.
    y[:300] = y[:300].astype(np.float32)
    mixed = [(X[:300], y[:300].astype(np.float32)), (X[300:], y[300:])]
    assert_same(clone(model).fit_batches(mixed), clone(model).fit(X, y))
    # Single precision has 7 digits, of which a fit loses some.
    both = (fitted.predict(X, return_std=True) for fitted in (single, double))
    np.testing.assert_allclose(*both, atol=0.02)


def test_read_only_files_in_memory_maps(tmp_path):
    data, files = entries(), []
    for name, values in zip("Xy", data, strict=True):
        np.save(tmp_path / f"{name}.npy", values)
        files.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    expected = make().fit(*data)
    assert_same(make().fit(*files), expected)
    assert_same(make().fit_batches(in_batches(*files, 111, 222)), expected)
    later = make().fit(*files).partial_fit(*files)
    assert_same(later, expected.partial_fit(*data))


def test_data_frames():
    pd = pytest.importorskip("pandas")
    X, y = entries()
    frame = pd.DataFrame(X, columns=["user", "item", "hour"]).assign(value=y)
    parts = [frame[:150], frame[150:]]
    batches = ((p[["user", "item", "hour"]], p["value"]) for p in parts)
    model = make().fit_batches(batches)
    assert list(model.feature_names_in_) == ["user", "item", "hour"]
    plain = make().fit(X, y)
    np.testing.assert_array_equal(model.predict(frame.iloc[:, :3]), plain.predict(X))
    wrong = parts[1].rename(columns={"hour": "day"})[["user", "item", "day"]]
    with pytest.raises(ValueError, match="feature names"):
        make().fit_batches([(parts[0].iloc[:, :3], parts[0].value), (wrong, y[150:])])


@pytest.mark.parametrize(
    ("dtype", "domain", "epsilon"),
    [
        (np.float64, "levels", 1.0), (np.float64, "bounds", math.inf),
        (np.float32, "bounds", 1.0), (np.float32, "levels", math.inf),
    ],
)  # fmt: skip
def test_what_the_caller_passed_is_not_changed(dtype, domain, epsilon):
    X, y = entries()
    # In the layout and type that need no conversion, so that a copy has to be meant.
    X, y = np.asfortranarray(X, dtype=np.int32), y.astype(dtype)
    dense = np.where(np.random.default_rng(0).random((9, 8)) < 0.6, 2.0, np.nan)
    kept = X.copy(), y.copy(), dense.copy()
    for array in (X, y, dense):
        array.flags.writeable = False
    model = make(epsilon=epsilon, **DOMAINS[domain], max_iter=2)
    model.fit(X, y).partial_fit(X[:50], y[:50])
    model.fit_batches([(X, y)])
    model.predict(X, return_std=True)
    model.recommend(X[:, 0])
    model.fit(dense.astype(dtype)).partial_fit(X[:1, :2] * 0, y[:1])
    for array, original in zip((X, y, dense), kept, strict=True):
        np.testing.assert_array_equal(array, original)


def good_batches():
    X, y = entries()
    return list(in_batches(X, y, 200, 200))


def with_last(X=None, y=None):
    *first, (last_X, last_y) = good_batches()
    return [*first, (last_X if X is None else X, last_y if y is None else y)]


def no_more():
    yield good_batches()[0]
    raise OSError("the disk is gone")


BAD_BATCHES = [
    ([], {}, "no batch holds"),
    (iter([]), {}, "no batch holds"),
    (entries(), {}, "pair of X and y"),
    (with_last(X=np.zeros((200, 2), dtype=int)), {}, "2 features"),
    (with_last(X=np.full((200, 3), 2**31)), {}, "below 2"),
    (with_last(X=np.zeros(200, dtype=int)), {}, "2D array"),
    (with_last(y=np.array(["secret"] * 200)), {}, "must hold numbers"),
    ([(good_batches()[0][0], None)], {}, "requires y to be passed"),
    (with_last(y=[]), {}, "same length"),
    ([(good_batches()[0][0], [])], {"unit": 0, "delta": 1e-3}, "same length"),
    (good_batches(), {"epsilon": -1.0}, "'epsilon' parameter"),
    (good_batches(), {"rank": 500}, "is too large"),
]


@pytest.mark.parametrize(("batches", "params", "message"), BAD_BATCHES)
def test_a_bad_batch_is_refused_before_anything_is_drawn(batches, params, message):
    model = make(shape=SHAPE, **params)
    with refused(message, secret="secret"):
        model.fit_batches(batches)
    assert not hasattr(model, "privacy_guarantee_")


def test_a_source_that_fails_half_way_draws_nothing():
    with refused("the disk is gone", OSError):
        make().fit_batches(no_more())


# --- partial_fit: the model ----------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "domain"), [(1.0, "levels"), (math.inf, "bounds")])
def test_the_first_call_is_a_fit(domain, epsilon):
    X, y = entries()
    model = make(epsilon=epsilon, **DOMAINS[domain])
    assert_same(clone(model).partial_fit(X, y), clone(model).fit(X, y))


def test_new_indices_extend_a_tensor_without_declared_shape():
    X, y = entries()
    model = make().fit(X, y)
    before = model.predict(X[:, :3])
    model.partial_fit([[33, 2, 0], [0, 21, 5]], [1.0, 2.0])
    assert model.shape_ == (34, 22, 6)
    assert [len(f) for f in model.factors_] == [34, 22, 6]
    assert model.decomposition_.shape == (34, 22, 6)
    # Index 31 is inside the shape, but nobody observed it.
    unknown = model.predict([[31, 2, 1], [-1, 2, 1]])
    assert unknown[0] == unknown[1]
    untouched = ~np.isin(X[:, 0], 0) & ~np.isin(X[:, 1], 2) & ~np.isin(X[:, 2], 0)
    np.testing.assert_array_equal(model.predict(X)[untouched], before[untouched])


def test_new_indices_are_refused_where_the_shape_is_declared():
    X, y = entries()
    model = make(shape=SHAPE).fit(X, y)
    before = model.predict(X)
    with refused("outside the tensor"):
        model.partial_fit([[30, 0, 0]], [1.0])
    assert model.shape_ == SHAPE
    np.testing.assert_array_equal(model.predict(X), before)


def test_after_a_fit_to_a_dense_tensor():
    rng = np.random.default_rng(0)
    tensor = np.where(rng.random(SHAPE) < 0.3, rng.uniform(-3, 3, SHAPE), np.nan)
    tensor[29, 19, 3] = 1.0
    where = np.argwhere(~np.isnan(tensor))
    model = make(epsilon=1.0).fit(tensor)
    sparse = make(epsilon=1.0).fit(where, tensor[tuple(where.T)])
    unseen = np.argwhere(np.isnan(tensor))[:4]
    for fitted in (model, sparse):
        fitted.partial_fit(unseen, np.ones(4))
    assert model.privacy_guarantee_ == sparse.privacy_guarantee_
    assert model.privacy_guarantee_.epsilon <= 1.0
    np.testing.assert_allclose(model.predict(where), sparse.predict(where), atol=1e-5)
    assert model.transform(tensor).shape == SHAPE
    model.partial_fit(where[:1], [1.0])
    assert model.privacy_guarantee_.epsilon == pytest.approx(2.0, rel=1e-6)


# --- partial_fit: wrong input --------------------------------------------------------

BAD_ENTRIES = [
    ([[0, 0, -1]], [1.0], "Negative values"),
    ([[0, 0, 0.5]], [1.0], "fractional"),
    ([[0, 0, np.nan]], [1.0], "NaN"),
    (np.empty((0, 3)), [], r"0 sample\(s\)"),
    ([], [], "2D array|minimum"),
    ([[0, 0, 0]], [np.nan], "NaN"),
    ([[0, 0, 0]], [np.inf], "infinity"),
    ([[0, 0, 0]], [1.0, 2.0], "same length"),
    ([[0, 0, 0]], ["secret"], "must hold numbers"),
    ([[0, 0, 0]], None, "with coordinates and their values"),
    (np.ones(SHAPE), None, "with coordinates and their values"),
    # Last: of these the first call says how many there are.
    ([[0, 0]], [1.0], "2 features"),
    ([[0, 0, 0, 0]], [1.0], "4 features"),
]


@pytest.mark.parametrize("was_fitted", [True, False])
def test_bad_entries_change_nothing(was_fitted):
    model = make(max_iter=2)
    if was_fitted:
        model.fit(*entries())
    before = pickle.dumps(model)
    for X, y, message in BAD_ENTRIES if was_fitted else BAD_ENTRIES[:-2]:
        with refused(message, secret="secret"):
            model.partial_fit(X, y)
        assert pickle.dumps(model) == before or not was_fitted
        assert hasattr(model, "privacy_guarantee_") == was_fitted


COLUMNS, OF_THE_FIT = "rank, biases and smooth_modes", "must be those of the fit"
CHANGES = [
    ("bounds", {"rank": 3}, COLUMNS),
    ("bounds", {"biases": False}, COLUMNS),
    # 2 terms and 3 biases have as many columns as 5 terms.
    ("bounds", {"biases": False, "rank": 5}, COLUMNS),
    ("bounds", {"smooth_modes": (2,)}, COLUMNS),
    ("bounds", {"value_bounds": (-3, 4)}, OF_THE_FIT),
    ("bounds", {"levels": [0, 1], "value_bounds": None}, OF_THE_FIT),
    ("levels", {"levels": [1, 2, 3]}, OF_THE_FIT),
    ("levels", {"value_bounds": (0, 6)}, OF_THE_FIT),
    ("levels", {"level_prior": [1, 1]}, "one probability"),
    ("bounds", {"epsilon": 0}, "'epsilon' parameter"),
    ("bounds", {"max_iter": 0}, "'max_iter' parameter"),
    ("bounds", {"shape": (5, 5, 5)}, "outside the tensor"),
]


@pytest.mark.parametrize(("domain", "change", "message"), CHANGES)
def test_changed_parameters_are_refused_before_anything_is_drawn(
    domain, change, message
):
    model = make(max_iter=2, **DOMAINS[domain]).fit(*entries())
    guarantee = model.privacy_guarantee_
    with refused(message):
        model.set_params(**change).partial_fit([[6, 6, 0]], [1.0])
    assert model.privacy_guarantee_ == guarantee


# --- partial_fit: what the calls reveal together -------------------------------------

A, B, C = [[0, 0]], [[1, 1]], [[2, 0]]
# The coordinates of the calls, and after each of them how many draws of one value there
# may have been.
HISTORIES = {
    "disjoint": ([A, B, C], [1, 1, 1]),
    "the same": ([A, A, A], [1, 2, 3]),
    "one recurs": ([A + B, B + C, B], [1, 2, 3]),
    "one of many": ([[*A, *B, [5, 5]], [[3, 3], *B], [[4, 4], *B, [6, 1]]], [1, 2, 3]),
    "twice in a call": ([A + A, B + B, C + C + C], [1, 1, 1]),
    "twice in a call, then again": ([A + A, A + A], [1, 2]),
    "only among later ones": ([A, B, C, B], [1, 1, 1, 2]),
    "then another": ([A, B, B, A, A + B], [1, 1, 2, 2, 3]),
    "never less than before": ([A, A, A, B, C], [1, 2, 3, 3, 3]),
    "only one index in common": ([A, [[0, 1]], [[1, 0]]], [1, 1, 1]),
    "different ones twice": ([A + B, A + C, B + C], [1, 2, 2]),
    "a chain": ([A + B, B + C, C + A, A], [1, 2, 2, 3]),
    "new rows": ([A, [[7, 7]], [[7, 7]], [[7, 7]]], [1, 1, 2, 3]),
}


@pytest.mark.parametrize("history", [*HISTORIES])
def test_epsilon_counts_the_calls_that_share_a_coordinate(history):
    calls, expected = HISTORIES[history]
    domain = TWO_DOMAINS[len(history) % 2]
    model = make(rank=1, epsilon=1.5, max_iter=1, **DOMAINS[domain])
    for where, times in zip(calls, expected, strict=True):
        model.partial_fit(where, np.ones(len(where)))
        guarantee = model.privacy_guarantee_
        assert guarantee.epsilon == pytest.approx(1.5 * times, rel=1e-4)
        assert guarantee.delta == 0
        assert guarantee.unit == "entry"
        assert privacy_of(model).guarantee == guarantee
        assert (f"passed in {times} calls" in guarantee.statement) == (times > 1)


def test_the_count_by_brute_force():
    """Random calls with few coordinates, against sets of tuples."""
    rng = np.random.default_rng(3)
    for _ in range(4):
        model = make(rank=0, epsilon=1.0, max_iter=1)
        calls, most = [], 0
        for _ in range(6):
            where = rng.integers(0, (9, 3, 2), (rng.integers(1, 5), 3))
            model.partial_fit(where, np.zeros(len(where)))
            calls.append(set(map(tuple, where.tolist())))
            counts = [sum(at in call for call in calls) for at in calls[-1]]
            most = max(most, *counts)
            epsilon = model.privacy_guarantee_.epsilon
            assert epsilon == pytest.approx(most, rel=1e-6)


@pytest.mark.parametrize("kind", ["fit", "fit_batches", "dense"])
def test_a_refit_starts_the_count_anew(kind):
    X, y = distinct(), np.ones(40)
    model = make(rank=1, max_iter=2).fit(X, y).partial_fit(X, y)
    assert model.privacy_guarantee_.epsilon == pytest.approx(2, rel=1e-6)
    assert with_calls(kind, model, X, y).privacy_guarantee_.epsilon <= 1
    model.partial_fit(X[:2], y[:2])
    assert model.privacy_guarantee_.epsilon == pytest.approx(2, rel=1e-6)


def test_a_seeded_call_is_not_forgotten():
    X, y = entries()
    model = make(rank=1, max_iter=1).fit(X, y).set_params(random_state=None)
    model.partial_fit(X + 30, y)
    assert any("integer random_state" in u for u in privacy_of(model).unprotected)
    # A shallow copy shares the count of releases, not what a fit was made of.
    copy.copy(model).fit(X, y)
    assert any("integer random_state" in u for u in privacy_of(model).unprotected)
    # The report counts that release still, after a fit whose noise nobody can guess.
    for again in (model.fit(X, y), pickle.loads(pickle.dumps(model.fit(X, y)))):
        (said,) = [u for u in privacy_of(again).unprotected if "integer" in u]
        assert "an earlier fit" in said
    fresh = clone(model).fit(X, y)
    assert not any("integer" in u for u in privacy_of(fresh).unprotected)


def test_a_pickle_goes_on_counting_and_a_clone_begins_anew():
    model = make(rank=1, max_iter=1).fit(A + B, [1, 2]).partial_fit(A, [1])
    stored = pickle.loads(pickle.dumps(model))
    for going_on in (model, stored):
        going_on.partial_fit(A, [1])
        assert going_on.privacy_guarantee_.epsilon == pytest.approx(3, rel=1e-6)
    assert_same(model, stored)
    fresh = clone(model)
    assert not hasattr(fresh, "privacy_guarantee_")
    assert fresh.partial_fit(A, [1]).privacy_guarantee_.epsilon <= 1


@pytest.mark.parametrize(
    ("epsilons", "domain"),
    [((1.0, 3.0), "bounds"), ((3.0, 1.0), "levels"), ((1.0, 3.0, 2.0), "levels")],
)
@pytest.mark.parametrize("recurs", [True, False])
def test_a_changed_epsilon_counts_as_the_worst_one(recurs, epsilons, domain):
    model = make(rank=1, max_iter=1, **DOMAINS[domain])
    for number, epsilon in enumerate(epsilons):
        where = A if recurs else [[number, number]]
        model.set_params(epsilon=epsilon).partial_fit(where, [1.0])
        spent = epsilons[: number + 1]
        least = sum(spent) if recurs else max(spent)
        # What a table realises is below what was asked for by up to 1e-4.
        assert model.privacy_guarantee_.epsilon >= 0.9999 * least
        assert model.privacy_guarantee_.epsilon <= len(spent) * max(spent)


@pytest.mark.parametrize("epsilons", [(1.0, math.inf), (math.inf, 1.0)])
def test_one_call_without_noise_voids_the_guarantee(epsilons):
    model = make(rank=1, max_iter=1)
    for number, epsilon in enumerate(epsilons):
        model.set_params(epsilon=epsilon).partial_fit([[number, number]], [1.0])
    assert not model.privacy_guarantee_.protects
    assert model.privacy_guarantee_.delta_at(10.0) == 1


def test_a_range_read_off_the_values_stays_read_off():
    """Only a fit without noise reads it off; one with noise finds a scale."""
    model = CPCompletion(1, epsilon=math.inf, max_iter=1).fit(A + B, [1.0, 2.0])
    assert model.value_bounds_ == (1, 2)
    model.set_params(epsilon=1.0)
    # No call in that range has a finite guarantee, whatever its own noise.
    with PrivacyBudget(1e6), pytest.raises(BudgetExceededError):
        model.partial_fit(C, [9.0])
    model.partial_fit(C, [9.0])
    assert model.value_bounds_ == (1, 2)
    assert not model.privacy_guarantee_.protects
    # Declared afterwards, it does not make up for what was shown.
    model.set_params(value_bounds=(1, 2)).partial_fit([[5, 5]], [1.0])
    assert not model.privacy_guarantee_.protects


# --- against divergences from first principles ---------------------------------------


def distributions(model, divergence):
    """By ordered pair of values, the distribution of one draw of a fit."""
    with recorded() as found:
        model.fit(A, [1.0])
    (drawn,) = found.lattices
    if hasattr(drawn, "weights"):
        return divergence.table_pairs(drawn.weights)
    return [divergence.discrete_laplace(drawn.rate, drawn.n_steps)]


def worst(pairs, epsilon, divergence):
    return max(divergence.stick(pair, epsilon) for pair in pairs)


def after_calls(model, epsilons):
    """The model after one call a budget, all with the same coordinate."""
    for epsilon in epsilons:
        model.set_params(epsilon=epsilon).partial_fit(A + B, [1.0, 2.0])
    return model


def single(model, epsilons, divergence):
    return [distributions(model.set_params(epsilon=e), divergence) for e in epsilons]


SMALL = {
    "levels": {"levels": (1.0, 2.0, 4.0), "value_bounds": None},
    "fine levels": DOMAINS["fine levels"],
}
BUDGETS = [
    ("levels", (0.5, 0.5)), ("levels", (0.5, 2.0)), ("fine levels", (2.0,)),
    ("fine levels", (1.0,) * 3), ("fine levels", (2.0, 0.5)),
    pytest.param("levels", (1.0, 2.0, 1.0), marks=pytest.mark.slow),
]  # fmt: skip


@pytest.mark.parametrize(("domain", "epsilons"), BUDGETS)
def test_no_pair_of_values_is_told_apart_better_than_stated(
    domain, epsilons, divergence
):
    """The privacy loss of k draws, by pair of values, and with another release.

    The last lines see that the test would notice a call that is not counted.
    """
    options = {"rank": 1, "max_iter": 1, **SMALL[domain]}
    stated = after_calls(make(**options), epsilons).privacy_guarantee_
    every = single(make(**options), epsilons, divergence)
    pairs = [divergence.product(*pair) for pair in zip(*every, strict=True)]
    grid = np.linspace(0, 0.9 * sum(epsilons), 7)
    truth = np.array([worst(pairs, e, divergence) for e in grid])
    claim = np.array([stated.delta_at(e) for e in grid])
    assert np.all(claim >= truth - 1e-14)
    assert stated.epsilon >= 0.999 * sum(epsilons)
    other = CPCompletion(0, epsilon=0.7, max_iter=1, **SMALL["levels"])
    second = distributions(other, divergence)
    both = compose(stated, other.fit(A, [1.0]).privacy_guarantee_)
    together = [divergence.product(*p) for p in itertools.product(pairs, second)]
    for epsilon in (0.0, 0.4 * sum(epsilons)):
        assert both.delta_at(epsilon) >= worst(together, epsilon, divergence) - 1e-14
    if len(epsilons) > 1:
        fewer = without_one(make(**options), epsilons)
        assert np.any([fewer.delta_at(e) < d for e, d in zip(grid, truth, strict=True)])


def without_one(model, epsilons):
    """What would be stated if the last call had not been counted."""
    parts = [clone(model).set_params(epsilon=e).fit(A, [1.0]) for e in epsilons[:-1]]
    parts = [part.privacy_guarantee_ for part in parts]
    return parts[0] if len(parts) == 1 else compose(*parts)


def test_a_tight_statement_for_equal_budgets(divergence):
    """For two levels the draws are binary responses, and nothing is given away."""
    model = make(rank=1, max_iter=1, levels=(0, 1), value_bounds=None)
    stated = after_calls(model, (1.0,) * 3).privacy_guarantee_
    truth = divergence.power(divergence.response(1.0), 3)
    for epsilon in (0.0, 0.5, 1.5, 2.5):
        assert stated.delta_at(epsilon) == pytest.approx(
            divergence.stick(truth, epsilon), rel=1e-3
        )


# --- interrupted calls ---------------------------------------------------------------


def interrupt(number):
    raise KeyboardInterrupt


def interrupted(model, *args):
    """A call that ends where its noise is drawn; hardening/ has all other places."""
    with drawing(interrupt), pytest.raises(KeyboardInterrupt):
        model.partial_fit(*args)
    return model


def test_an_interrupted_call_counts():
    model = make(rank=1, max_iter=2).fit(A + B, [1, 2])
    before = model.predict(A + B)
    interrupted(model, A, [1])
    assert model.privacy_guarantee_.epsilon == pytest.approx(2, rel=1e-6)
    np.testing.assert_array_equal(model.predict(A + B), before)
    # Neither is it forgotten by the calls that follow.
    model.partial_fit(C, [1])
    assert model.privacy_guarantee_.epsilon >= 1.999
    model.partial_fit(A, [1])
    assert model.privacy_guarantee_.epsilon >= 2.999


def test_an_interrupted_call_with_a_larger_epsilon_counts():
    model = make(rank=1, max_iter=2).fit(A + B, [1, 2]).set_params(epsilon=5.0)
    interrupted(model, C, [1])
    assert model.privacy_guarantee_.epsilon >= 4.999
    model.set_params(epsilon=1.0).partial_fit([[3, 3]], [1])
    assert model.privacy_guarantee_.epsilon >= 4.999


# The coordinates of the interrupted call count, but the model has not grown to them.
def test_a_model_works_on_after_an_interrupted_call_with_new_indices():
    model = make(rank=1, max_iter=2).fit(A + B, [1, 2])
    interrupted(model, [[7, 8], [8, 7], [0, 9]], [1, 2, 3])
    assert model.shape_ == (2, 2)
    assert model.recommend([0, -1], 2).shape == (2, 2)
    model.partial_fit([[7, 8], [3, 3]], [1, 2])
    assert model.shape_ == (8, 9)
    assert model.privacy_guarantee_.epsilon >= 1.999


# Also what is private to the object by its name is of the earlier release.
def test_an_interrupted_refit_leaves_nothing_of_the_earlier_model():
    X, y = entries()
    model = make(epsilon=50.0).fit(X, y).partial_fit(X, y).set_params(epsilon=0.5)
    left = [np.ascontiguousarray(f).tobytes()[:64] for f in model.factors_]
    assert all(part in pickle.dumps(model) for part in left)
    with drawing(interrupt), pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.privacy_guarantee_.epsilon <= 0.5
    assert not any(part in pickle.dumps(model) for part in left)


# --- noise ---------------------------------------------------------------------------


@pytest.mark.parametrize("random_state", [None, 0])
@pytest.mark.parametrize("domain", [*DOMAINS])
def test_every_call_draws_fresh_noise(domain, random_state):
    X, y = entries()
    model = make(rank=0, max_iter=1, random_state=random_state, **DOMAINS[domain])
    with recorded() as released:
        for _ in range(3):
            model.partial_fit(X, y)
    draws = [draw for (draw,) in released.outputs]
    for one, other in itertools.combinations(draws, 2):
        # Of 600 draws of a table with epsilon 1, all alike: below 1e-100.
        assert not np.array_equal(one, other)


# --- neighbours by brute force -------------------------------------------------------


def with_calls(kind, model, X, y):
    """A model that has seen the entries in one way or another."""
    cuts = (20, 31) if kind == "fit_batches" else (20,)
    return fitted_in(kind, model, X, y, *cuts)


def distinct(n=40, seed=0):
    cells = np.sort(np.random.default_rng(seed).permutation(90)[:n])
    return np.column_stack(np.divmod(cells, 9))


KINDS = ["fit", "fit_batches", "partial_fit", "dense"]


@pytest.mark.parametrize("kind", KINDS)
def test_equal_draws_leave_equal_objects(kind):
    """A value changes its own draw alone; where the draws agree, so do the objects.

    With two levels and epsilon 0.05 a changed value changes its draw in 1 of 40 cases.
    """
    X = distinct()
    model = make(rank=1, max_iter=3, epsilon=0.05, levels=(0, 1), value_bounds=None)
    y = np.random.default_rng(1).choice([0.0, 1.0], len(X))
    with recorded() as expected:
        first = pickle.dumps(with_calls(kind, clone(model), X, y))
    agreed = 0
    for entry in range(0, len(X), 4):
        changed = y.copy()
        changed[entry] = 1 - y[entry]
        with recorded() as draws:
            found = pickle.dumps(with_calls(kind, clone(model), X, changed))
        differ = np.flatnonzero(draws.transcript != expected.transcript)
        assert set(differ) <= {entry}
        agreed += len(differ) == 0
        assert found == first or len(differ)
    assert agreed > 7


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_changes_its_own_draw_alone(kind):
    """At an epsilon at which values that are far apart do not draw the same."""
    X, model = distinct(), make(rank=1, max_iter=1, epsilon=20.0)
    y = np.random.default_rng(1).choice([1.0, 2.0, 3.0], len(X))
    found = []
    for changed in (y, np.where(np.arange(len(X)) == 30, -2.0, y)):
        with recorded() as draws:
            with_calls(kind, clone(model), X, changed)
        found.append(draws.transcript)
    assert np.flatnonzero(found[0] != found[1]).tolist() == [30]


@pytest.mark.parametrize(
    ("epsilon", "dtype"), [(1.0, np.float32), (math.inf, np.float64)]
)
def test_untouched_rows_stay_as_they_are(dtype, epsilon):
    X, y = entries()
    model = make(epsilon=epsilon).fit(X, y.astype(dtype))
    before, first = [factor.copy() for factor in model.factors_], model.predict(X, True)
    stated = (model.offset_, model.residual_variance_, model.model_variance_)
    new = np.array([[2, 3, 1], [2, 4, 1], [5, 4, 3]])
    model.partial_fit(new, [3.0, -3.0, 3.0])
    same = np.ones(len(X), dtype=bool)
    for mode, after in enumerate(model.factors_):
        touched = np.isin(np.arange(SHAPE[mode]), new[:, mode])
        np.testing.assert_array_equal(after[~touched], before[mode][~touched])
        assert np.any(after[touched] != before[mode][touched])
        same &= ~touched[X[:, mode]]
    assert same.sum() > 50
    # Means and standard deviations.
    for one, other in zip(first, model.predict(X, True), strict=True):
        np.testing.assert_array_equal(one[same], other[same])
        assert np.any(one[~same] != other[~same])
    assert stated == (model.offset_, model.residual_variance_, model.model_variance_)
    assert model.shape_ == SHAPE


def low_rank(seed):
    """Coordinates, noisy values and the truth of a tensor of rank two."""
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(n, 2)) for n in (60, 50)]
    truth = np.clip(factors[0] @ factors[1].T, -3, 3)
    X = np.argwhere(rng.random(truth.shape) < 0.5)
    return X, truth[tuple(X.T)] + 0.2 * rng.normal(size=len(X)), truth


# Over 8 seeds the error was 0.92 to 1.63 before; after, 0.09 to 0.23 without noise and
# 0.11 to 0.26 with epsilon 30, at most 0.18 of what it was.
@pytest.mark.parametrize(("epsilon", "seed"), [(30.0, 0), (math.inf, 1)])
def test_new_rows_are_learned(seed, epsilon):
    X, y, truth = low_rank(seed)
    late = X[:, 0] >= 55
    model = make(epsilon=epsilon, shape=truth.shape, max_iter=25)
    model.fit(X[~late], y[~late])
    held_out = np.argwhere(np.ones_like(truth))
    known = set(map(tuple, X.tolist()))
    unseen = [tuple(row) not in known for row in held_out.tolist()]
    held_out = held_out[(held_out[:, 0] >= 55) & unseen]

    def error():
        gap = model.predict(held_out) - truth[tuple(held_out.T)]
        return math.sqrt(np.mean(gap**2))

    before = error()
    model.partial_fit(X[late], y[late])
    assert error() < 0.3 * before
