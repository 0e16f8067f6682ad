"""Scores of recommendations, and the splits that they need."""

import copy
import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    make_fold_in_scorer,
    make_ranking_scorer,
)
from sktensordp.datasets import make_choices, make_ratings
from sktensordp.model_selection import (
    ItemHoldout,
    PrivateSearchCV,
    UserHoldout,
    UserKFold,
)

pytestmark = pytest.mark.thorough
DATA = make_choices(200, 40, 3000, n_groups=4, affinity=0.9, random_state=0)
X = DATA.data


class Fixed:
    """Recommends every user the same items; its copies list what they are passed."""

    def __init__(self, items):
        self.items, self.known = items, np.empty((0, 2), int)
        self.folded, self.asked = [], []

    def fold_in(self, X):
        self.known = np.asarray(X)
        self.folded.append(self.known)
        return self

    def recommend(self, users, k):
        self.asked.append(users)
        rows = []
        for user in users:
            history = set(self.known[self.known[:, 0] == user, 1])
            left = [item for item in self.items if item not in history][:k]
            rows.append(left + [-1] * (k - len(left)))
        return np.array(rows)


def test_recall_and_ndcg_by_hand():
    pairs = np.array([[0, 1], [0, 2], [0, 9], [3, 5], [3, 5], [7, 8]])
    model = Fixed([1, 5, 2, 4])
    recall = make_ranking_scorer("recall", k=3, fold_in_fraction=0)(model, pairs)
    assert recall == pytest.approx((2 / 3 + 1 + 0) / 3)
    gains = 1 / np.log2([2, 3, 4])
    ndcg = make_ranking_scorer("ndcg", k=3, fold_in_fraction=0)(model, pairs)
    expected = ((gains[0] + gains[2]) / gains.sum() + gains[1] / gains[0] + 0) / 3
    assert ndcg == pytest.approx(expected)
    # With more held-out items than k, the first k can still be perfect.
    ndcg = make_ranking_scorer("ndcg", k=1, fold_in_fraction=0)(model, pairs[:3])
    assert ndcg == 1.0


def test_the_history_is_folded_in_and_left_out():
    pairs = np.array([[u, i] for u in range(50) for i in range(10)])
    model = Fixed(list(range(10)))
    # k is as large as the catalogue, so that all other items are recommended.
    for share in (0.0, 0.3, 0.8):
        assert (
            make_ranking_scorer("recall", k=10, fold_in_fraction=share)(model, pairs)
            == 1.0
        )
    assert not len(model.known)
    # The last one; false alarms: six standard deviations of 500 coins.
    known = model.folded[-1]
    assert len(np.unique(known, axis=0)) == len(known)
    assert abs(len(known) - 400) < 6 * math.sqrt(500 * 0.16)


def test_users_without_an_item_to_find_do_not_count():
    pairs = np.array([[u, i] for u in range(40) for i in range(2)])
    scorer, model = make_ranking_scorer(k=2, fold_in_fraction=0.8), Fixed([0, 1])
    assert scorer(model, pairs) == 1.0
    # Most users have both items folded in, and do not count.
    assert 0 < len(model.asked[0]) < 40
    assert math.isnan(scorer(Fixed([1]), pairs[:0]))
    nothing_left = make_ranking_scorer(fold_in_fraction=1 - 1e-12)
    assert math.isnan(nothing_left(Fixed([1]), pairs))
    # Unknown users and items are left out.
    assert math.isnan(
        make_ranking_scorer(fold_in_fraction=0)(Fixed([1]), [[-1, 1], [2, -1]])
    )


def test_a_model_of_groups_beats_popularity():
    model = ImplicitCompletion(epsilon=math.inf, shape=DATA.shape)
    for cv, history in (
        (UserHoldout(random_state=0), 0.8), (ItemHoldout(random_state=0), 0.0),
    ):  # fmt: skip
        scorer = make_ranking_scorer("recall", k=5, fold_in_fraction=history)
        score = cross_val_score(model, X, cv=cv, scoring=scorer)[0]
        popular = clone(model).set_params(epsilon=0.02, delta=0.1, random_state=0)
        assert score > 1.3 * cross_val_score(popular, X, cv=cv, scoring=scorer)[0]


def test_the_scorer_leaves_the_model_as_it_is():
    model = ImplicitCompletion(epsilon=8.0, shape=DATA.shape, random_state=0).fit(X)
    before = model.recommend(np.arange(200), 40)
    scorer = make_ranking_scorer()
    assert scorer(model, X) == scorer(model, X)
    assert_array_equal(model.recommend(np.arange(200), 40), before)
    stored = sparse.coo_array((np.ones(len(X)), tuple(X.T)), shape=DATA.shape)
    assert scorer(model, stored) == scorer(model, X)
    assert scorer(model, X) == copy.deepcopy(scorer)(model, X)


def test_searches_and_several_scores():
    model = ImplicitCompletion(shape=DATA.shape, delta=1e-3, random_state=0)
    scoring = {name: make_ranking_scorer(name, k=5) for name in ("recall", "ndcg")}
    cv = UserHoldout(0.3, n_splits=2, random_state=1)
    scores = cross_validate(model, X, cv=cv, scoring=scoring)
    assert scores["test_recall"].shape == scores["test_ndcg"].shape == (2,)
    search = GridSearchCV(
        model, {"epsilon": [0.1, 50.0]}, cv=cv, scoring=scoring["recall"]
    )
    assert search.fit(X).best_params_ == {"epsilon": 50.0}


def test_ids_in_a_pipeline():
    users = [f"u{i}" for i in range(200)]
    encoder = CoordinateEncoder(categories=[users, list(range(100, 140))])
    frame = pd.DataFrame({"user": [users[u] for u in X[:, 0]], "item": X[:, 1] + 100})
    model = ImplicitCompletion(epsilon=8.0, shape=DATA.shape, random_state=0)
    scorer = make_ranking_scorer(k=5)
    pipeline = make_pipeline(encoder, model)
    cv = UserHoldout(random_state=0)
    scores = cross_val_score(pipeline, frame, cv=cv, scoring=scorer)
    assert scores[0] > 0.1


@pytest.mark.parametrize("unit", [0, "entry"])
def test_ratings_are_scored_as_choices(unit):
    ratings = make_ratings(80, 30, 1200, random_state=0)
    model = CPCompletion(
        2, epsilon=20.0, unit=unit, levels=ratings.levels, shape=ratings.shape,
        random_state=0,
    )  # fmt: skip
    cv, history = ItemHoldout(random_state=0), 0.0
    if unit == 0:
        cv, history = UserHoldout(random_state=0), 0.5
    scorer = make_ranking_scorer("ndcg", k=10, fold_in_fraction=history)
    scores = cross_val_score(model, ratings.data, ratings.target, cv=cv, scoring=scorer)
    assert 0 < scores[0] < 1


# --- splits and histories agree, or are refused ---------------------------------------

RATED = make_ratings(90, 30, 1500, random_state=0)
OF_ITEMS = CoordinateEncoder(categories=[None, range(30)])
RATING = partial(
    CPCompletion, 0, epsilon=20.0, levels=RATED.levels, max_iter=2, random_state=0
)
CHOOSING = partial(ImplicitCompletion, epsilon=8.0, random_state=0)
DECLARING = CoordinateEncoder(categories=[range(90), range(30)])
ASKED = {
    "choices": CHOOSING(shape=RATED.shape),
    "users": RATING(unit=0, shape=RATED.shape),
    "entries": RATING(shape=RATED.shape),
    "own answers": RATING(shape=RATED.shape, personal=True),
    "ids, choices": Recommender(CHOOSING(), OF_ITEMS),
    "ids, users": Recommender(RATING(unit=0), OF_ITEMS),
    "ids, entries": Recommender(RATING()),
    "pipeline": make_pipeline(DECLARING, RATING(unit=0, shape=RATED.shape)),
}
SPLITS = {
    "ItemHoldout": (ItemHoldout(random_state=0), False),
    "KFold": (KFold(3, shuffle=True, random_state=0), False),
    "UserHoldout": (UserHoldout(0.3, random_state=0), True),
    "UserKFold": (UserKFold(3, random_state=0), True),
}
HISTORIES = {
    "ranking": (make_ranking_scorer(k=5), True),
    "ranking, none": (make_ranking_scorer(k=5, fold_in_fraction=0), False),
    "values": (make_fold_in_scorer(), True),
}


@pytest.mark.parametrize("scoring", HISTORIES)
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.AveragesOnlyWarning")
def test_a_history_is_that_of_the_splits_or_refused(name, split, scoring):
    (cv, whole_users), (scorer, folds_in) = SPLITS[split], HISTORIES[scoring]
    y = None if "choices" in name else RATED.target
    if y is None and scoring == "values":
        return  # Choices have no values.

    def score():
        options = {"cv": cv, "scoring": scorer, "error_score": "raise"}
        return cross_val_score(ASKED[name], RATED.data, y, **options)

    if whole_users == folds_in:
        assert np.all(np.isfinite(score()))
        return
    said = "knows none of these users" if whole_users else "from its fit, by other rows"
    with pytest.raises(ValueError, match=said):
        score()


def test_rows_of_the_fit_may_be_folded_in_again():
    model = ASKED["choices"].fit(RATED.data)
    for scorer, _ in (HISTORIES["ranking"], HISTORIES["ranking, none"]):
        assert 0 <= scorer(model, RATED.data) <= 1


def test_every_user_keeps_items_and_pairs_stay_together():
    rows = np.concatenate([X, X[::2]])
    for seed in range(3):
        cv = ItemHoldout(0.2, random_state=seed)
        ((train, test),) = cv.split(rows)
        assert_array_equal(np.sort(np.append(train, test)), np.arange(len(rows)))
        pairs = [set(map(tuple, rows[numbers].tolist())) for numbers in (train, test)]
        assert not pairs[0] & pairs[1]
        # False alarms: six standard deviations of as many coins.
        n_pairs = len(pairs[0] | pairs[1])
        spread = math.sqrt(0.16 * n_pairs)
        assert abs(len(pairs[1]) - 0.2 * n_pairs) < 6 * spread


def test_users_are_held_out_as_a_whole():
    everybody = np.arange(200)
    rows_of_all = np.column_stack([everybody, everybody])
    for rows in (X, rows_of_all):
        ((train, test),) = UserHoldout(0.25, random_state=0).split(rows)
        users = [set(rows[numbers, 0]) for numbers in (train, test)]
        assert not users[0] & users[1]
    # False alarms: six standard deviations.
    assert abs(len(users[1]) - 50) < 6 * math.sqrt(200 * 0.25 * 0.75)


@pytest.mark.parametrize("splitter", [ItemHoldout, UserHoldout])
def test_splits_repeat_with_their_seed_and_take_ids(splitter):
    cv = splitter(0.3, n_splits=3, random_state=5)
    assert cv.get_n_splits() == 3
    first, again = list(cv.split(X)), list(cv.split(X))
    for (_, test), (_, test_again) in zip(first, again, strict=True):
        assert_array_equal(test, test_again)
    assert not np.array_equal(first[0][1], first[1][1])
    frame = pd.DataFrame({"user": X[:, 0].astype(str), "item": X[:, 1]})
    assert len(next(splitter(0.3, random_state=0).split(frame))[1])
    assert repr(cv).startswith(f"{splitter.__name__}(test_size=0.3, ")
    for options in ({"test_size": 0}, {"test_size": 1.0}, {"n_splits": 0}):
        with pytest.raises(ValueError, match=r"test_size|n_splits"):
            splitter(**options)
    with pytest.raises(ValueError, match="2-dimensional"):
        list(cv.split([1, 2]))


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "precision"},
        {"k": 0},
        {"k": True},
        {"fold_in_fraction": 1.0},
        {"fold_in_fraction": -1},
    ],
)
def test_wrong_parameters_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        make_ranking_scorer(**options)


def test_a_private_search_of_choices_is_refused():
    model = ImplicitCompletion(shape=DATA.shape)
    for estimator in (model, make_pipeline(CoordinateEncoder(), model)):
        search = PrivateSearchCV(estimator, {"max_items": [20, 40]})
        for call in (search.fit, search.planned_guarantee):
            with pytest.raises(ValueError, match="cannot search ImplicitCompletion"):
                call(*([X, None] if call == search.fit else [X]))
