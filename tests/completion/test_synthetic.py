"""Synthetic users: functions of the releases alone, and like the users of the fit.

All draws have int seeds, so that no test raises a false alarm.
"""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
    make_ranking_scorer,
)
from sktensordp.datasets import make_choices
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support.replaying import recorded
from tests.support.seams import (
    N_BINS,
    Population,
    bins_of,
    completion_synthetic,
    draw_items,
)

SHAPE, LEVELS = (2000, 60), [1.0, 2.0, 3.0, 4.0, 5.0]
CHOICES = make_choices(*SHAPE, 12_000, random_state=0).data
FREE = float("inf")


@pytest.fixture(scope="module", autouse=True)
def quickly():
    """Fit samplers to fewer users, in fewer rounds."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(completion_synthetic, "_N_DRAWN", 1000)
        patched.setattr(completion_synthetic, "_ROUNDS", 14)
        yield


@pytest.fixture(scope="module")
def free():
    return ImplicitCompletion(epsilon=FREE, shape=SHAPE).fit(CHOICES)


def entries(shape, seed=0):
    """Entries in each of the cells with a chance of 0.5, fewer in later items."""
    rng = np.random.default_rng(seed)
    chances = np.linspace(0.8, 0.2, shape[1])
    chances = chances.reshape(1, -1, *[1] * (len(shape) - 2))
    X = np.argwhere(rng.random(shape) < chances)
    return X, rng.choice(LEVELS, len(X), p=[0.1, 0.1, 0.2, 0.4, 0.2])


def completion(form=CPCompletion, shape=(40, 12), **params):
    options = {"unit": 0, "epsilon": 4.0, "levels": LEVELS, "random_state": 0}
    return form(1, shape=shape, **options | params)


# --- a function of the releases ------------------------------------------------------


def tables(model):
    """The arrays that are drawn with one seed, for two numbers of users."""
    found = []
    for n_users in (30, None):
        drawn = model.sample_users(n_users, random_state=3)
        found += drawn if isinstance(drawn, tuple) else (drawn,)
    return found


MATRIX, TENSOR = entries((40, 12)), entries((40, 12, 3))
FITS = [
    (ImplicitCompletion(epsilon=8.0, shape=(40, 12), random_state=0), MATRIX[:1]),
    (completion(), MATRIX),
    (completion(TuckerCompletion), MATRIX),
    (completion(shape=(40, 12, 3)), TENSOR),
]
of_every_fit = pytest.mark.parametrize(("model", "data"), FITS)


@pytest.mark.thorough
@of_every_fit
def test_replayed_neighbours_draw_the_same_tables(model, data):
    users = data[0][:, 0]

    def fitted(chosen, follow=None):
        with recorded(follow) as found:
            model.fit(*(part[chosen] for part in data))
        return found, tables(model)

    first, expected = fitted(users >= 0)
    for user in range(0, 40, 13):
        other, found = fitted(users != user, first)
        assert np.any(first.flat != other.flat)
        for one, another in zip(expected, found, strict=True):
            assert_array_equal(one, another)


@of_every_fit
def test_one_seed_gives_one_table_after_loading_too(model, data):
    model = clone(model).fit(*data)
    first = tables(model)
    for same in (model, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        for one, another in zip(first, tables(same), strict=True):
            assert_array_equal(one, another)
    assert not np.array_equal(first[0], model.sample_users(30, random_state=4))


def test_drawing_spends_nothing(free):
    guarantee = repr(free.privacy_guarantee_)
    with PrivacyBudget(1e-9, 0) as budget:
        free.sample_users(5)
    assert budget.spent is None
    assert repr(free.privacy_guarantee_) == guarantee


# --- what is drawn -------------------------------------------------------------------


def test_users_are_numbered_anew_and_choose_nothing_twice(free):
    table = free.sample_users(random_state=0)
    assert table.dtype == np.int64
    assert_array_equal(np.unique(table[:, 0]), np.arange(len(np.unique(CHOICES[:, 0]))))
    assert len(np.unique(table, axis=0)) == len(table)
    assert table[:, 1].min() >= 0
    assert table[:, 1].max() < SHAPE[1]
    # More than were fitted, up to any number.
    assert free.sample_users(SHAPE[0] + 5, random_state=0)[-1, 0] == SHAPE[0] + 4


def test_numbers_of_items_are_as_released(free):
    rows = np.unique(CHOICES[:, 0], return_counts=True)[1]
    sizes = np.bincount(free.sample_users(20_000, random_state=1)[:, 0])
    assert abs(np.log1p(sizes).mean() - np.log1p(rows).mean()) < 0.02
    released, drawn = (
        np.bincount(bins_of(n), minlength=N_BINS) / len(n) for n in (rows, sizes)
    )
    np.testing.assert_allclose(drawn, released, atol=0.02)


def counts_of(table, n_items):
    sizes = np.bincount(table[:, 0])
    weights = 1 / np.sqrt(sizes[table[:, 0]])
    return np.bincount(table[:, 1], weights, n_items)


def errors(model, n_users):
    """Largest errors of counts of popular items, and of products of similar pairs."""
    sampler = model._fitted.sampler
    table = model.sample_users(n_users, random_state=7)
    share = n_users / sampler.population.n_users
    popular = np.argsort(-model.item_counts_)[:30]
    counts = counts_of(table, SHAPE[1])[popular] / share / model.item_counts_[popular]
    starts = np.append(0, np.cumsum(np.bincount(table[:, 0])))
    found = sampler.model
    products = completion_synthetic.products_of(
        found, sampler._place, starts, table[:, 1]
    )
    pairs = products[:20] / found.products[:20]
    return np.abs(counts - 1).max(), np.abs(pairs - 1).max()


def fitted_anew(model, monkeypatch, n_rounds):
    monkeypatch.setattr(completion_synthetic, "_ROUNDS", n_rounds)
    monkeypatch.setattr(completion_synthetic, "_N_DRAWN", 100_000)
    other = pickle.loads(pickle.dumps(model))
    vars(other._fitted.sampler).pop("_fitted", None)
    return other


@pytest.mark.thorough
def test_counts_and_products_agree_with_the_released_ones(free, monkeypatch):
    free = fitted_anew(free, monkeypatch, 48)
    of_counts, of_pairs = errors(free, 50 * SHAPE[0])
    assert of_counts < 0.05
    assert of_pairs < 0.15


def test_a_sampler_that_is_not_fitted_is_noticed(free, monkeypatch):
    free = fitted_anew(free, monkeypatch, 0)
    of_counts, of_pairs = errors(free, 5 * SHAPE[0])
    assert of_counts > 0.1
    assert of_pairs > 0.3


def test_products_are_those_that_a_fit_releases(free):
    model, sampler = free._fitted.model, free._fitted.sampler
    X = CHOICES[np.lexsort(CHOICES.T[::-1])]
    starts = np.append(0, np.cumsum(np.unique(X[:, 0], return_counts=True)[1]))
    found = completion_synthetic.products_of(model, sampler._place, starts, X[:, 1])
    np.testing.assert_allclose(found, model.products, rtol=1e-3)


def test_public_lengths_are_drawn_from_and_reported():
    model = ImplicitCompletion(epsilon=8.0, shape=SHAPE).fit(CHOICES)
    before = privacy_of(model).unprotected
    table = model.sample_users(200, items_per_user=[3, 7, 60], random_state=0)
    sizes, number = np.unique(np.bincount(table[:, 0]), return_counts=True)
    assert_array_equal(sizes, [3, 7, 60])
    assert number.min() > 40
    for same in (model, pickle.loads(pickle.dumps(model))):
        (new,) = set(privacy_of(same).unprotected) - set(before)
        assert "`items_per_user`" in new
    assert privacy_of(model.fit(CHOICES)).unprotected == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_users": 0}, "n_users"),
        ({"n_users": 2.5}, "n_users"),
        ({"n_users": True}, "n_users"),
        ({"random_state": -1}, "random_state"),
        ({"random_state": np.random.default_rng(0)}, "random_state"),
        ({"items_per_user": []}, "items_per_user"),
        ({"items_per_user": [0]}, "between 1"),
        ({"items_per_user": [SHAPE[1] + 1]}, "between 1"),
        ({"items_per_user": [1.5]}, "integers"),
        ({"items_per_user": 3}, "integers"),
    ],
)
def test_arguments_out_of_range_are_refused(free, arguments, message):
    with pytest.raises(ValueError, match=message):
        free.sample_users(**arguments)


@pytest.mark.parametrize("slope", [0.5, 2.0])
def test_draws_move_towards_the_released_products(free, slope):
    """Users who are too much alike are drawn by popularity more often, and so on."""
    sampler = free._fitted.sampler
    draws, model = sampler._fitted, sampler.model
    closer = completion_synthetic._closer(draws, model, slope * model.products, 1.0)
    assert (closer.by_weight < draws.by_weight) == (slope < 1)
    moved = (closer.similarity - draws.similarity)[tuple(model.pairs)]
    assert np.all(moved > 0 if slope < 1 else moved < 0)


def test_no_items_stand_out():
    model = ImplicitCompletion(epsilon=1.0, shape=SHAPE, max_items=0, random_state=0)
    table = model.fit(CHOICES).sample_users(20_000, random_state=0)
    most = np.argsort(-model.item_counts_)[:10]
    counts, rates = counts_of(table, SHAPE[1])[most], model.item_counts_[most]
    np.testing.assert_allclose(counts / counts.sum(), rates / rates.sum(), rtol=0.1)


# --- ratings -------------------------------------------------------------------------


def test_ratings_have_the_released_counts_on_the_levels():
    shape = (400, 12, 3)
    X, y = entries(shape)
    X, first = np.unique(X[:, :2], axis=0, return_index=True)
    X, y = np.column_stack([X, np.arange(len(X)) % 4 // 2]), y[first]
    model = completion(shape=shape, epsilon=FREE).fit(X, y)
    where, values = model.sample_users(5000, random_state=0)
    assert set(values) <= set(LEVELS)
    assert len(np.unique(where[:, :2], axis=0)) == len(where)
    for mode in (1, 2):
        counts, drawn = (
            np.bincount(table[:, mode], minlength=shape[mode]) / len(table)
            for table in (X, where)
        )
        np.testing.assert_allclose(drawn, counts, atol=0.01)
    assert abs(values.mean() - y.mean()) < 0.15
    assert abs(values.std() - y.std()) < 0.25


def test_values_follow_the_biases_of_items():
    rng = np.random.default_rng(0)
    X = np.argwhere(rng.random((500, 10)) < 0.6)
    y = 3.0 + np.where(X[:, 1] < 5, 1.0, -1.0) + 0.3 * rng.standard_normal(len(X))
    model = CPCompletion(0, unit=0, epsilon=8.0, value_bounds=(1, 5), shape=(500, 10))
    where, values = model.fit(X, y).sample_users(2000, random_state=0)
    for item in range(10):
        mean = values[where[:, 1] == item].mean()
        assert abs(mean - y[X[:, 1] == item].mean()) < 0.15


@pytest.mark.parametrize("unit", ["entry", 1])
def test_other_units_are_refused(unit):
    X, y = entries((40, 12))
    model = completion(unit=unit).fit(X, y)
    with pytest.raises(AttributeError, match="unit=0"):
        model.sample_users()


def test_another_unit_after_the_fit_is_refused():
    model = completion(unit=1).fit(*entries((40, 12))).set_params(unit=0)
    with pytest.raises(ValueError, match="of the fit"):
        model.sample_users()


# --- tables of ids -------------------------------------------------------------------

FILMS = [f"film {number}" for number in range(12)]


@pytest.mark.thorough
@pytest.mark.parametrize("library", ["pandas", "polars", None])
def test_tables_have_the_form_of_the_fit(library):
    X, y = entries((40, 12))
    columns = {"user": [f"u{u}" for u in X[:, 0]], "film": [FILMS[i] for i in X[:, 1]]}
    table = pd.DataFrame(columns)
    if library == "polars":
        table = pytest.importorskip("polars").DataFrame(columns)
    elif library is None:
        table = table.to_numpy(dtype=object)
    encoder = CoordinateEncoder(categories=[None, FILMS])
    for model, values in (
        (Recommender(ImplicitCompletion(epsilon=8.0), encoder), ()),
        (Recommender(CPCompletion(1, unit=0, levels=LEVELS), encoder), (y,)),
    ):
        drawn = model.fit(table, *values).sample_users(20, random_state=0)
        new, *new_values = drawn if values else (drawn,)
        assert type(new) is type(table)
        array = np.asarray(new)
        assert set(array[:, 0]) == {f"synthetic-{number}" for number in range(20)}
        assert set(array[:, 1]) <= set(FILMS)
        if library is not None:
            assert list(new.columns) == ["user", "film"]
        if values:
            assert set(new_values[0]) <= set(LEVELS)
        # No real user takes one for its own, and it can be fitted.
        with pytest.raises(ValueError, match="Some users are synthetic"):
            model.fold_in(new, *new_values)
        model.fit(new, *new_values)
        assert not hasattr(Recommender(CPCompletion()), "sample_users")


# --- parts ---------------------------------------------------------------------------


def test_bins_are_powers_of_two():
    sizes = np.array([1, 2, 3, 4, 7, 8, 2**15 - 1, 2**15, 2**40])
    assert_array_equal(bins_of(sizes), [0, 1, 1, 2, 2, 3, 14, 15, 15])
    exact = np.arange(1, 2**12)
    assert_array_equal(bins_of(exact), [n.bit_length() - 1 for n in exact.tolist()])


def test_bins_within_their_noise_are_not_read():
    histogram = np.zeros(N_BINS)
    histogram[[1, 2, 3, 4, 9]] = [30, 500, 200, 15, 90]
    chances = Population(730.0, 6.0, histogram, 10.0).chances(1000)
    assert abs(chances.sum() - 1) < 1e-12
    # Fewer than twice the noise in one bin: nobody beyond it is believed.
    assert_array_equal(np.flatnonzero(chances), np.arange(1, 15))
    logs = np.log1p(np.arange(1, 1001))
    assert abs(chances @ logs - np.log1p(6.0)) < 1e-4


def test_there_are_chances_whatever_is_released():
    rng = np.random.default_rng(0)
    for n_items in (2, 3, 60, 2**17):
        for typical in (1.0, 40.0, 1e6):
            histogram = rng.normal(0, 5, N_BINS)
            for released in (histogram, -np.abs(histogram), 0 * histogram):
                population = Population(1.0, typical, released, 5.0)
                chances = population.chances(n_items)
                assert len(chances) == n_items
                assert np.all(chances >= 0)
                assert abs(chances.sum() - 1) < 1e-9


def drawn_slowly(starts, uniforms, weights, place, head, factors, similarity, share):
    """`draw_items`, one probability after the other; with expected counts."""
    items, counts = [], np.zeros(len(weights))
    for u in range(len(starts) - 1):
        mine = []
        for t in range(starts[u], starts[u + 1]):
            free = np.ones(len(weights), bool)
            free[mine] = False
            by_weight = np.where(free, weights, 0.0)
            rows = place[mine][place[mine] >= 0]
            sums = np.maximum(similarity[rows].sum(axis=0), 0.0)
            chances = np.where(free[head], factors * sums**3, 0.0)
            follows = bool(mine) and chances.sum() > 0
            chance = 1.0 - share if follows else 0.0
            counts += (1 - chance) * by_weight / by_weight.sum()
            if follows:
                counts[head] += chance * chances / chances.sum()
            if follows and uniforms[t, 0] >= share:
                at = uniforms[t, 1] * chances.sum()
                pick = head[np.searchsorted(np.cumsum(chances), at, side="right")]
            else:
                at = uniforms[t, 1] * by_weight.sum()
                pick = np.searchsorted(np.cumsum(by_weight), at, side="right")
            mine.append(int(pick))
        items += mine
    return np.array(items), counts


def test_the_kernel_agrees_with_a_slow_reference():
    rng = np.random.default_rng(0)
    weights, head = rng.random(9) + 0.01, np.array([4, 1, 7, 2], np.int32)
    place = np.full(9, -1, np.int32)
    place[head] = np.arange(4)
    similarity = rng.normal(0.2, 0.5, (4, 4)).astype(np.float32)
    factors = rng.random(4).astype(np.float32)
    starts = np.append(0, np.cumsum(rng.integers(1, 10, 200)))
    uniforms, items = rng.random((starts[-1], 2)), np.empty(starts[-1], np.int32)
    of_head, of_all = np.zeros(4), np.zeros(9)
    common = draw_items(
        starts, uniforms, weights, np.cumsum(weights), place, head, factors,
        similarity, 0.3, np.ones(200), items, of_head, of_all,
    )  # fmt: skip
    expected, counts = drawn_slowly(
        starts, uniforms, weights, place, head, factors, similarity, 0.3
    )
    assert_array_equal(items, expected)
    of_all += common * weights
    of_all[head] += of_head
    np.testing.assert_allclose(of_all, counts, rtol=1e-4)


@pytest.mark.parametrize("ids", ["text", "numbers", "times"])
def test_ids_of_synthetic_users_are_no_ids_of_real_ones(ids):
    """They are functions of the row's number, whatever ids real users have."""
    users = np.arange(40) + 5
    if ids != "numbers":
        users = users.astype(str) if ids == "text" else users.astype("M8[D]")
    X, _ = entries((40, 12))
    table = pd.DataFrame({"user": users[X[:, 0]], "film": X[:, 1]})
    encoder = CoordinateEncoder(categories=[None, range(12)])
    model = Recommender(ImplicitCompletion(epsilon=np.inf), encoder).fit(table)
    before = model.recommend(users[:5], k=3)
    drawn = model.sample_users(600, random_state=0)
    assert drawn["user"].unique().tolist() == [f"synthetic-{n}" for n in range(600)]
    for given in (drawn, drawn[-1:], drawn[["user"]].assign(film=3)):
        with pytest.raises(ValueError, match="ids"):
            model.fold_in(given)
    np.testing.assert_array_equal(model.recommend(users[:5], k=3), before)


def test_scorers_may_test_on_synthetic_users():
    X, _ = entries((40, 12))
    encoder = CoordinateEncoder(categories=[None, range(12)])
    model = Recommender(ImplicitCompletion(epsilon=np.inf), encoder)
    drawn = model.fit(X).sample_users(60, random_state=0)
    scorer = make_ranking_scorer("recall", k=3)
    assert 0 <= scorer(model.fit(drawn), drawn) <= 1
