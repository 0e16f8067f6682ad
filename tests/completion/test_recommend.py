"""Recommendations, against brute force with predict on all items."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sktensordp.completion import CPCompletion, TuckerCompletion
from tests.support.tensors import dense_of, fitted_in

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings(
        "ignore:The declared scale, .* times as wide:UserWarning"
    ),
]
SHAPES = [(40, 25), (40, 25, 6), (40, 25, 6, 3)]
# Wide, so that no prediction is at a bound and they differ.
BOUNDS = (-30.0, 30.0)


def entries(shape, n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, size, n) for size in shape])
    X[0] = np.array(shape) - 1
    # The last user has seen nearly everything.
    most = np.tile(np.array(shape) - 1, (shape[1] - 2, 1))
    most[:, 1] = np.arange(shape[1] - 2)
    X = np.concatenate([X, most])
    return X, rng.normal(size=len(X)) + 0.1 * X[:, 0] - 0.2 * X[:, 1]


def make(kind=CPCompletion, **params):
    options = {"value_bounds": BOUNDS, "random_state": 0, "max_iter": 8}
    options |= {"perturbation": "input", **params}
    return kind(options.pop("rank", 2), **options)


def seen_by(X):
    pairs = set(map(tuple, X[:, :2].tolist()))
    return {user: {i for u, i in pairs if u == user} for user in {u for u, _ in pairs}}


def brute_force(model, unit, k, seen, context=None):
    """Predictions of all items that are left, the best k of them."""
    n_items, n_others = model.shape_[1], len(model.shape_) - 2
    others = [-1] * n_others if context is None else list(context)
    asked = [[unit, item, *others] for item in range(n_items)]
    predicted = model.predict(asked)
    left = sorted(set(range(n_items)) - seen.get(unit, set()))
    best, k = sorted(left, key=lambda item: -predicted[item])[:k], min(k, n_items)
    return np.array(best + [-1] * (k - len(best)))


@pytest.fixture(scope="module", params=[*SHAPES, "Tucker"], ids=str)
def fitted(request):
    kind = TuckerCompletion if request.param == "Tucker" else CPCompletion
    shape = SHAPES[1] if request.param == "Tucker" else request.param
    X, y = entries(shape)
    return make(kind, epsilon=50.0, shape=shape).fit(X, y), seen_by(X)


# --- against brute force --------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 5, 25, 40])
@pytest.mark.parametrize("with_context", [False, True])
def test_the_best_of_what_is_left(fitted, k, with_context):
    model, seen = fitted
    context = None
    if with_context:
        context = [size - 2 for size in model.shape_[2:]]
    units = np.append(np.arange(40), -1)
    units.flags.writeable = False
    found = model.recommend(units, k, context=context)
    assert found.shape == (41, min(k, 25))
    assert found.dtype == np.int64
    for unit, items in zip(units, found, strict=True):
        expected = brute_force(model, unit, k, seen, context)
        np.testing.assert_array_equal(items, expected)


def test_a_context_changes_the_order():
    """Half of the items are liked in even contexts, the others in odd ones."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, size, 4000) for size in (40, 100, 6)])
    liked = (X[:, 1] + X[:, 2]) % 2 == 0
    model = make(epsilon=math.inf, rank=2, max_iter=40).fit(X, np.where(liked, 3, -3))
    seen = seen_by(X)
    for context in range(6):
        found = model.recommend(np.arange(40), 10, context=[context])
        assert np.mean(found % 2 == context % 2) > 0.95
        for unit in (0, 17, 39):
            expected = brute_force(model, unit, 10, seen, [context])
            np.testing.assert_array_equal(found[unit], expected)


def test_no_context_is_an_unknown_one(fitted):
    model, _ = fitted
    unknown = [-1] * (len(model.shape_) - 2)
    for form in (unknown, tuple(unknown), np.array(unknown, dtype=int)):
        np.testing.assert_array_equal(
            model.recommend(np.arange(40), 10),
            model.recommend(np.arange(40), 10, context=form),
        )


def test_one_unit_is_a_row_of_many(fitted):
    model, _ = fitted
    all_of_them = model.recommend(np.arange(40), 7)
    for one in (3, np.int32(3), np.array(3), 3.0):
        assert model.recommend(one, 7).shape == (7,)
        np.testing.assert_array_equal(model.recommend(one, 7), all_of_them[3])
    for some in ([5, 3, 5, 39], (5, 3, 5, 39), np.array([5.0, 3, 5, 39])):
        found = model.recommend(some, 7)
        np.testing.assert_array_equal(found, all_of_them[[5, 3, 5, 39]])
    assert model.recommend(3).shape == (10,)
    assert model.recommend([3], np.int64(4)).shape == (1, 4)


def test_ties_fill_the_list_without_repetition():
    """Nothing is known of items 3 to 9, which are predicted alike."""
    X = [[0, 0], [1, 1], [2, 2], [3, 0]]
    model = make(rank=0, epsilon=math.inf, shape=(5, 10), max_iter=20)
    model.fit(X, [5.0, -5.0, 1.0, 5.0])
    for k in (1, 3, 5, 8, 10):
        for unit, left in ((0, 9), (4, 10), (-1, 10)):
            items = model.recommend(unit, k)
            items = items[items >= 0]
            assert len(set(items.tolist())) == len(items) == min(k, left)
            asked = [[unit, item] for item in range(10)]
            predicted = model.predict(asked)
            best = np.delete(predicted, 0) if unit == 0 else predicted
            best = np.sort(best)[::-1][: len(items)]
            np.testing.assert_array_equal(predicted[items], best)


def test_all_items_alike():
    model = make(rank=0, epsilon=math.inf, shape=(3, 300)).fit([[0, 0]], [1.0])
    items = model.recommend([0, 1], 299)
    assert set(items[0].tolist()) == set(range(1, 300))
    assert len(set(items[1].tolist())) == 299
    assert model.recommend(0, 10).tolist() == list(range(1, 11))  # by index
    seen_all = np.array([[0, i] for i in range(6)] + [[1, 0]])
    model = make(rank=1, epsilon=math.inf).fit(seen_all, np.arange(7.0))
    np.testing.assert_array_equal(model.recommend(0, 3), [-1, -1, -1])
    assert sorted(model.recommend(1, 9)) == [-1, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("n_units", [256, 600])
def test_many_units(n_units):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 700, 4000), rng.integers(0, 30, 4000)])
    X[0] = 699, 29
    # Without noise, no two predictions are at the bound.
    model = make(max_iter=3, epsilon=math.inf).fit(X, rng.normal(size=4000))
    units, seen = rng.permutation(700)[:n_units], seen_by(X)
    found = model.recommend(units, 4)
    assert found.shape == (n_units, 4)
    for row in {*range(0, n_units, 60), 254, 255, n_units - 1}:
        expected = brute_force(model, units[row], 4, seen)
        np.testing.assert_array_equal(found[row], expected)
    for unit, items in zip(units.tolist(), found.tolist(), strict=True):
        assert not seen.get(unit, set()) & set(items)


# --- what counts as seen --------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "dtype", "shape"),
    [
        ("fit_batches", np.float32, SHAPES[1]),
        ("partial_fit", np.float64, SHAPES[0]),
        ("dense", np.float64, SHAPES[1]),
        ("dense, then", np.float32, SHAPES[0]),
    ],
)
def test_what_was_seen_in_any_way_is_left_out(way, dtype, shape):
    X, y = entries(shape, n=150)
    X, first = np.unique(X, axis=0, return_index=True)
    y, half = y[first].astype(dtype), len(X) // 2
    model = make(shape=shape)
    if way == "dense, then":
        model.fit(dense_of(X[:half], y[:half], shape)).partial_fit(X[half:], y[half:])
    else:
        fitted_in(way, model, X, y, half)
    seen = seen_by(X)
    for unit, items in enumerate(model.recommend(np.arange(40), 25)):
        np.testing.assert_array_equal(items, brute_force(model, unit, 25, seen))


def test_new_units_and_items_take_part_and_a_refit_forgets():
    X, y = entries((40, 25))
    model = make().fit(X, y).partial_fit([[42, 27], [3, 26]], [1.0, 2.0])
    seen = seen_by(np.concatenate([X, [[42, 27], [3, 26]]]))
    for unit in (3, 41, 42, -1):
        items = model.recommend(unit, 30)
        assert len(items[items >= 0]) == 28 - len(seen.get(unit, set()))
        assert not seen.get(unit, set()) & set(items.tolist())
    model.set_params(shape=(40, 25)).fit(X[:1], y[:1])
    assert np.all(model.recommend(np.arange(39), 25) >= 0)


def test_predictions_at_a_bound_keep_their_order():
    """What clipping makes equal is still ordered by the model."""
    X, y = entries((40, 25))
    model = make(epsilon=math.inf, shape=(40, 25)).fit(X, y)
    expected = model.recommend(np.arange(40), 8)
    narrow = replace(model._fitted.domain, bounds=(0.0, 0.01))
    model._fitted = replace(model._fitted, domain=narrow)
    assert len(np.unique(model.predict([[0, i] for i in range(25)]))) < 20
    np.testing.assert_array_equal(model.recommend(np.arange(40), 8), expected)


# --- wrong input ----------------------------------------------------------------------

WRONG = [
    ({"units": 40}, "outside the tensor"),
    ({"units": -2}, "only -1"),
    ({"units": 0.5}, "fractional"),
    ({"units": np.nan}, "NaN"),
    ({"units": [[1, 2]]}, "units must be one id or index, or a list"),
    ({"units": ["ann"]}, "numbers"),
    ({"units": 2**31}, "below 2"),
    *(
        ({"k": k}, "k must be a positive integer")
        for k in (0, -3, 2.0, None, "5", True)
    ),
    ({"context": [6]}, "outside the tensor"),
    ({"context": [-2]}, "only -1"),
    ({"context": [0.5]}, "fractional"),
    ({"context": [np.nan]}, "NaN"),
    ({"context": ["noon"]}, "numbers"),
    ({"context": []}, "context"),
    ({"context": [1, 2]}, "context"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_input_is_refused(options, message):
    X, y = entries(SHAPES[1])
    model = make(max_iter=1, shape=SHAPES[1])
    with pytest.raises(NotFittedError):
        model.recommend(0)
    model.fit(X, y)
    assert model.recommend([], 3).shape == (0, 3)
    with pytest.raises(ValueError, match=message):
        model.recommend(**{"units": 0, **options})


# NumPy would repeat a context of length 1 for any number of modes.
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[2]], ids=len)
def test_a_context_of_length_one_is_not_one_of_another_length(shape):
    X, y = entries(shape)
    model = make(max_iter=1).fit(X, y)
    with pytest.raises(ValueError, match="context"):
        model.recommend(0, context=[1])


def test_names_of_columns_do_not_matter():
    # A warning would be an error here.
    pd = pytest.importorskip("pandas")
    X, y = entries(SHAPES[1])
    frame = pd.DataFrame(X, columns=["user", "item", "day"][: X.shape[1]])
    named, plain = make(max_iter=2).fit(frame, y), make(max_iter=2).fit(X, y)
    np.testing.assert_array_equal(
        named.recommend([0, 1], 3), plain.recommend([0, 1], 3)
    )
