"""Candidates, exclusions, scores and similar items, against brute force."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
)
from tests.support.seams import best_of, completion_fitted, completion_ranking

pytestmark = pytest.mark.filterwarnings(
    "ignore:The declared scale, .* times as wide:UserWarning"
)
SHAPE = (30, 20)
FREE = math.inf
RNG = np.random.default_rng(0)
WHERE = np.argwhere(RNG.random(SHAPE) < 0.4)
# Two groups of users, who like two groups of items.
SIGNS = np.where((WHERE[:, 0] + WHERE[:, 1]) % 2, 1.0, -1.0)
Y = SIGNS * RNG.uniform(0.5, 1.5, len(WHERE)) + 0.1 * RNG.normal(size=len(WHERE))
ITEMS = np.array([f"item {k:02d}" for k in range(SHAPE[1])], dtype=object)
USERS = np.array([f"somebody-{7919 * k + 3}" for k in range(SHAPE[0])], dtype=object)
TABLE = pd.DataFrame({"user": USERS[WHERE[:, 0]], "item": ITEMS[WHERE[:, 1]]})


def make(kind=CPCompletion, **options):
    if kind is ImplicitCompletion:
        return kind(**{"epsilon": FREE, "shape": SHAPE, **options})
    options = {"value_bounds": (-9, 9), "epsilon": FREE, "shape": SHAPE, **options}
    return kind(**{"rank": 2, "max_iter": 15, **options})


@pytest.fixture(scope="module")
def models():
    return {
        "entries": make().fit(WHERE, Y),
        "users": make(unit=0).fit(WHERE, Y),
        "Tucker": make(TuckerCompletion, unit=0).fit(WHERE, Y),
        "choices": make(ImplicitCompletion).fit(WHERE),
    }


NAMES = ["entries", "users", "Tucker", "choices"]


def expected(model, user, k, candidates=range(SHAPE[1]), exclude=(), observed=True):
    """The best of the items that are left, and their predictions."""
    own = set(WHERE[WHERE[:, 0] == user, 1]) if observed else set()
    left = sorted({*map(int, candidates)} - set(exclude) - own - {-1})
    scores = model.predict([[user, item] for item in range(SHAPE[1])])
    best = sorted(left, key=lambda item: -scores[item])[:k]
    pad = k - len(best)
    return [*best, *[-1] * pad], np.array([*scores[best], *[np.nan] * pad])


LISTS = {
    "candidates for all": {"candidates": [3, 5, 7, 8, 3, -1, 11, 12, 0]},
    "candidates in an array": {"candidates": np.array([3.0, 5.0, 7.0])},
    "one list for each": {"candidates": [[3, 5, 7], range(20), np.array([9])]},
    "exclude for all": {"exclude": (1, 2, 3, -1)},
    "exclude for each": {"exclude": [[], [4, 5], [-1, 6]]},
    "both": {"candidates": [1, 2, 3, 4, 5, 6], "exclude": [[1], [2, 3], [4]]},
    "nothing": {"candidates": []},
    "observed items, too": {"exclude_observed": False},
    "candidates whatever was observed": {
        "candidates": list(range(10)), "exclude_observed": False,
    },
}  # fmt: skip


@pytest.mark.parametrize("options", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("name", NAMES)
def test_the_best_of_what_may_be_recommended(models, name, options):
    model, users = models[name], [4, 7, 29]
    found, scores = model.recommend(users, 6, return_scores=True, **options)
    assert_array_equal(model.recommend(users, 6, **options), found)
    for row, user in enumerate(users):
        lists = {
            key: values[row] if any(np.ndim(one) for one in values) else values
            for key, values in options.items()
            if key != "exclude_observed"
        }
        observed = options.get("exclude_observed", True)
        items, values = expected(model, user, 6, **lists, observed=observed)
        assert_array_equal(found[row], items)
        assert_allclose(scores[row], values, rtol=1e-9, atol=1e-12)
        alone = model.recommend(
            user, 6, exclude_observed=observed, return_scores=True, **lists
        )
        assert_array_equal(alone[0], items)
        assert alone[1].shape == (6,)


def test_lists_follow_their_rows_through_all_chunks(models, monkeypatch):
    monkeypatch.setattr(completion_ranking, "_N_RANKED", 4 * SHAPE[1])
    users = np.arange(SHAPE[0])
    lists = [[user % 20, (user + 1) % 20] for user in users]
    for model in models.values():
        found = model.recommend(users, 2, candidates=lists, exclude_observed=False)
        assert_array_equal(np.sort(found), np.sort(lists))


WRONG = [
    ({"candidates": 3}, "candidates must be a list"),
    ({"candidates": "12"}, "candidates must be a list"),
    ({"exclude": [[1], [2]]}, "exclude must be a list"),
    ({"exclude": [[1], 2, [3]]}, "exclude must be a list"),
    ({"candidates": [20]}, "outside the tensor"),
    ({"candidates": [[1], [2], [-2]]}, "only -1"),
    ({"exclude": [0.5]}, "fractional"),
    ({"exclude": [np.nan]}, "NaN"),
    ({"exclude": ["heat"]}, "numbers"),
    ({"exclude_observed": None}, "exclude_observed must be True or False"),
    ({"context": [1]}, "context"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
@pytest.mark.parametrize("name", ["users", "choices"])
def test_wrong_lists_are_refused(models, name, options, message):
    with pytest.raises(ValueError, match=message):
        models[name].recommend([0, 1, 2], 3, **options)


@pytest.mark.parametrize("k", [1, 2, 7, 12])
@pytest.mark.parametrize("n_columns", [9, 32 * 4 * 7 + 31, 32 * 64])
def test_best_columns_are_those_of_sorting(n_columns, k):
    """Equal ones by their index; where there are no more, -1."""
    rng = np.random.default_rng(k)
    for levels in (1, 2, 5, 1000, 10**12):
        scores = rng.integers(levels, size=(9, n_columns)).astype(float)
        scores[:3, : -k // 2] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        lost = np.isneginf(np.take_along_axis(scores, order, axis=1))
        found = best_of(scores, k)
        assert_array_equal(found[:, :n_columns], np.where(lost, -1, order))
        assert_array_equal(found[:, n_columns:], -1)
        assert found.shape == (9, k)


# --- what was observed is looked up --------------------------------------------------


@pytest.fixture
def scans(monkeypatch):
    """Numbers of entries that were sorted."""
    found, build = [], completion_fitted.items_by_place

    def counted(where, *arguments):
        found.append(len(where))
        return build(where, *arguments)

    monkeypatch.setattr(completion_fitted, "items_by_place", counted)
    return found


def test_entries_are_sorted_once(models, scans):
    model = copy.deepcopy(models["entries"])
    for user in (1, 2, [3, 4]):
        model.recommend(user, 2)
    assert scans == [len(WHERE)]
    # What a user is told from own entries changes nothing in what is public.
    first = int(model.recommend(5, 1)[0])
    model.fold_in([[5, first]], [1.0])
    for _ in range(2):
        assert first not in model.recommend(5, 20)
    assert scans == [len(WHERE), 1]
    users = copy.deepcopy(models["users"]).fold_in(WHERE, Y)
    for user in (1, 2, [3, 4]):
        users.recommend(user, 2)
    assert scans == [len(WHERE), 1, len(WHERE)]


def test_new_entries_are_looked_up():
    model = make(epsilon=4.0, perturbation="input", random_state=0, rank=1, max_iter=2)
    model.fit(WHERE[:50], Y[:50])
    new = int(model.recommend(3, 1)[0])
    model.partial_fit([[3, new]], [0.5])
    assert new not in model.recommend(3, 20)


def test_lookups_are_neither_pickled_nor_copied(models):
    for name in ("entries", "users", "Tucker"):
        model = models[name]
        found = model.recommend([0, 1], 3)
        model.similar_items([0, 1], 3)
        content = pickle.dumps(model)
        assert "Lookups" in repr(model._fitted.lookups)
        for other in (pickle.loads(content), copy.deepcopy(model)):
            assert not other._fitted.lookups._built
            if name == "entries":
                assert_array_equal(other.recommend([0, 1], 3), found)
            assert_array_equal(
                other.similar_items([0, 1], 3), model.similar_items([0, 1], 3)
            )
        assert pickle.dumps(model) == content


# --- similar items -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
def test_similar_entries_are_correlated_over_users(kind):
    """Without biases of users, by correlations of all predictions."""
    model = make(kind, biases=False, n_pattern_components=0).fit(WHERE, Y)
    every = np.argwhere(np.ones(SHAPE))
    predicted = model.predict(every).reshape(SHAPE)[np.unique(WHERE[:, 0])]
    correlations = np.corrcoef(predicted.T)
    np.fill_diagonal(correlations, -1)
    found = model.similar_items(np.arange(20), 5)
    assert np.all(found >= 0)
    best = -np.sort(-correlations, axis=1)[:, :5]
    # Some are equal but for rounding.
    assert_allclose(np.take_along_axis(correlations, found, axis=1), best, rtol=1e-6)


def test_similar_items_of_protected_users_follow_from_released_factors():
    model = make(unit=0, biases=False, n_pattern_components=0).fit(WHERE, Y)
    factors = model.factors_[1] / np.linalg.norm(model.factors_[1], axis=1)[:, None]
    cosines = factors @ factors.T
    np.fill_diagonal(cosines, -1)
    found = model.similar_items(np.arange(20), 4)
    assert_array_equal(found, np.argsort(-cosines, axis=1)[:, :4])


@pytest.mark.parametrize("name", ["entries", "users", "Tucker"])
def test_items_of_one_group_are_similar(models, name):
    found = models[name].similar_items(np.arange(20), 5)
    assert np.mean((found - np.arange(20)[:, None]) % 2 == 0) > 0.9


def test_similar_choices_have_the_largest_weights(models):
    model = models["choices"]
    weights = np.full((20, 20), -1.0)
    weights[np.ix_(model.items_, model.items_)] = model.similarity_
    found = model.similar_items([7, 2, -1], 20)
    for item, similar in zip((7, 2), found, strict=False):
        order = np.argsort(-weights[item], kind="stable")
        n_positive = np.count_nonzero(weights[item] > 0)
        assert_array_equal(similar[:n_positive], order[:n_positive])
        assert np.all(similar[n_positive:] == -1)
    assert np.all(found[2] == -1)
    assert_array_equal(model.similar_items(7, 20), found[0])
    popular = make(ImplicitCompletion, max_items=0).fit(WHERE)
    assert_array_equal(popular.similar_items([0, 1], 2), np.full((2, 2), -1))


def test_nothing_is_similar_to_what_nobody_knows():
    model = make(shape=(30, 23)).fit(WHERE, Y)
    assert_array_equal(model.similar_items([21, -1], 2), np.full((2, 2), -1))
    assert not np.isin([20, 21, 22], model.similar_items(0, 22)).any()
    averages = make(rank=0, n_pattern_components=0).fit(WHERE, Y)
    assert_array_equal(averages.similar_items(0, 2), [-1, -1])


def test_wrong_questions_for_similar_items(models):
    for name in ("users", "choices"):
        for items, message in ((20, "outside"), ([[1]], "items must"), (0.5, "frac")):
            with pytest.raises(ValueError, match=message):
                models[name].similar_items(items)
        with pytest.raises(ValueError, match="k must be"):
            models[name].similar_items(0, 0)
    protected = make(unit=1).fit(WHERE, Y)
    with pytest.raises(ValueError, match="unit=1 protects them"):
        protected.similar_items(0)


# --- ids and frames ------------------------------------------------------------------


@pytest.fixture(scope="module")
def recommenders():
    encoder = CoordinateEncoder(categories=[None, ITEMS.tolist()])
    valued = {"value_bounds": (-9, 9), "epsilon": FREE, "rank": 2, "max_iter": 5}
    everything = CoordinateEncoder(categories=[USERS.tolist(), ITEMS.tolist()])
    return {
        "entries": Recommender(CPCompletion(**valued), everything).fit(TABLE, Y),
        "users": Recommender(CPCompletion(unit=0, **valued), encoder).fit(TABLE, Y),
        "choices": Recommender(ImplicitCompletion(epsilon=FREE), encoder).fit(TABLE),
    }


@pytest.mark.parametrize("name", ["entries", "users", "choices"])
def test_lists_of_ids_are_those_of_indices(recommenders, name):
    model, asked = recommenders[name], [*USERS[[4, 7]], None]
    fitted = model._fitted
    where = fitted.rows_of(np.array(asked, dtype=object))
    lists = [["item 03", "item 05", "nothing"], [None, "item 09"], ITEMS.tolist()]
    indices = [[3, 5, -1], [-1, 9], list(range(20))]
    options = {"exclude_observed": False, "return_scores": True}
    found, scores = model.recommend(asked, 3, candidates=lists, **options)
    plain, values = fitted.completion.recommend(where, 3, candidates=indices, **options)
    named = np.append(ITEMS, [None])
    assert_array_equal(found, named[plain])
    assert_array_equal(scores, values)
    found = model.recommend(asked[0], 20, exclude=["item 03", "unheard of"])
    plain = fitted.completion.recommend(where[0], 20, exclude=[3])
    assert_array_equal(found, named[plain])
    with pytest.warns(match="Some of these items are unknown"):
        similar = model.similar_items(["item 03", None, "unheard of"], 4)
    assert_array_equal(similar, named[fitted.completion.similar_items([3, -1, -1], 4)])
    assert_array_equal(model.similar_items("item 03", 4), similar[0])
    with pytest.raises(ValueError, match="known ids of column 1 are text"):
        model.recommend(asked, 3, candidates=[3])
    with pytest.raises(ValueError, match="missing from exclude"):
        model.recommend(asked, 3, exclude=[math.nan])
    with pytest.raises(ValueError, match="missing from items"):
        model.similar_items([math.nan])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(recommenders, library):
    frames = pytest.importorskip(library)
    model = copy.copy(recommenders["users"])
    asked = [USERS[4], USERS[7]]
    found, scores = model.recommend(asked, 18, return_scores=True)
    similar = model.similar_items("item 03", 2)
    assert model.set_output() is model
    assert not hasattr(model.recommend(asked), "columns")
    model.set_output(transform=library)
    frame = model.recommend(asked, 18, return_scores=True)
    assert isinstance(frame, frames.DataFrame)
    assert list(frame.columns) == ["user", "item", "score"]
    is_item = found != None  # noqa: E711
    assert not is_item.all()
    assert frame["item"].to_list() == found[is_item].tolist()
    assert frame["user"].to_list() == np.repeat(asked, is_item.sum(axis=1)).tolist()
    assert_array_equal(frame["score"].to_numpy(), scores[is_item])
    one = model.recommend(USERS[4], 2)
    assert list(one.columns) == ["user", "item"]
    assert one["item"].to_list() == found[0, :2].tolist()
    pairs = model.similar_items("item 03", 2)
    assert list(pairs.columns) == ["item", "similar"]
    assert pairs["similar"].to_list() == similar.tolist()
    assert clone(model)._sklearn_output_config == {"transform": library}
    model.set_output(transform="default")
    assert_array_equal(model.recommend(asked, 18), found)
    with pytest.raises(ValueError, match="transform must be"):
        model.set_output(transform="table")


def test_frames_of_tables_without_names():
    rows = TABLE.to_numpy().tolist()
    model = Recommender(ImplicitCompletion(epsilon=FREE),
        CoordinateEncoder(categories=[None, ITEMS.tolist()])).fit(rows)  # fmt: skip
    frame = model.set_output(transform="pandas").recommend(USERS[3], 1)
    assert list(frame.columns) == ["user", "item"]
