"""Recommender: ids in, ids out, and what it refuses."""

import copy
import math
import pickle
import uuid
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import coo_array
from sklearn import config_context
from sklearn.base import clone, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
    check_table,
    make_fold_in_scorer,
    make_ranking_scorer,
)
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import BudgetExceededError
from sktensordp.model_selection import (
    ItemHoldout,
    PrivateSearchCV,
    UserHoldout,
    UserKFold,
)
from sktensordp.privacy import (
    PrivacyBudget,
    epsilon_per_release,
    gaussian_mu,
    planned_guarantee,
    privacy_of,
)
from tests.support.budgets import guarantees_of
from tests.support.noise import following_from
from tests.support.refusing import refused
from tests.support.seams import LocalUsers, Problem, completion_local

pytestmark = pytest.mark.thorough
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

N_USERS, N_FILMS = 60, 20
RATINGS = make_ratings(N_USERS, N_FILMS, 900, random_state=0)
WHERE, Y, LEVELS = RATINGS.data, RATINGS.target, RATINGS.levels
FILMS = [f"film {k:02d}" for k in range(N_FILMS)]
# No number that anything else shows.
USERS = [f"somebody-{7919 * k + 100_003}" for k in range(N_USERS)]


def table_of(users=USERS, films=FILMS, where=WHERE):
    return pd.DataFrame({
        "user": [users[k] for k in where[:, 0]],
        "film": [films[k] for k in where[:, 1]],
    })  # fmt: skip


TABLE = table_of()


def for_entries(**options):
    options = {"levels": LEVELS, "epsilon": 4.0, "random_state": 0, **options}
    return Recommender(CPCompletion(1, max_iter=3, **options))


def for_users(kind=CPCompletion, films=FILMS, handle_unknown="drop", **options):
    if kind is not ImplicitCompletion:
        options = {"rank": 1, "unit": 0, "levels": LEVELS, **options}
    return Recommender(
        kind(**{"epsilon": 8.0, "random_state": 0, **options}),
        CoordinateEncoder(categories=[None, films]),
        handle_unknown=handle_unknown,
    )


def by_indices(model):
    """The completion of a recommender of users, for any number of them."""
    return clone(model.completion).set_params(shape=(2**31 - 2, N_FILMS))


@pytest.fixture(scope="module")
def fitted():
    return for_users().fit(TABLE, Y)


def rows_of(users, films):
    return pd.DataFrame({"user": users, "film": films})


def history(users, table=TABLE, y=Y):
    own = table["user"].isin(users).to_numpy()
    return table[own], y[own]


# --- answers are those of the completion ---------------------------------------------


@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
def test_entries_are_fitted_as_by_indices(kind):
    model = Recommender(kind(1, levels=LEVELS, epsilon=4.0, random_state=0, max_iter=3))
    model.fit(TABLE, Y)
    encoder = CoordinateEncoder().fit(TABLE)
    plain = clone(model.completion).set_params(shape=encoder.shape_)
    plain.fit(encoder.transform(TABLE), Y)
    assert_array_equal(model.predict(TABLE), plain.predict(encoder.transform(TABLE)))
    assert model.score(TABLE, Y) == plain.score(encoder.transform(TABLE), Y)
    found = model.recommend(USERS[:3], k=4)
    asked = [encoder.categories_[0].tolist().index(user) for user in USERS[:3]]
    assert found.tolist() == [
        [[*encoder.categories_[1], None][k] for k in items]
        for items in plain.recommend(asked, k=4)
    ]


@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion, ImplicitCompletion])
def test_users_are_fitted_as_by_indices(kind):
    data = () if kind is ImplicitCompletion else (Y,)
    model = for_users(kind).fit(TABLE, *data)
    plain = by_indices(model).fit(WHERE, *data)
    # To the last bit, wherever the rows of users are.
    assert_array_equal(model.predict(TABLE), plain.predict(WHERE))
    found = model.recommend(USERS, k=5)
    assert found.tolist() == [
        [[*FILMS, None][k] for k in items]
        for items in plain.recommend(range(N_USERS), k=5)
    ]
    popular = [FILMS[k] for k in plain.recommend(-1, k=5)]
    assert model.recommend(None, k=5).tolist() == popular
    assert model.recommend("nobody", k=5).tolist() == popular
    both = model.recommend([None, USERS[3]], k=5)
    assert both.tolist() == [popular, found[3].tolist()]
    assert model.recommend(USERS[3], k=5).tolist() == found[3].tolist()


def test_all_ids_are_declared_where_another_mode_is_protected():
    encoder = CoordinateEncoder(categories=[USERS, FILMS])
    model = Recommender(for_users(unit=1).completion, encoder).fit(TABLE, Y)
    assert model.completion_.shape_ == (N_USERS, N_FILMS)
    plain = clone(model.completion).set_params(shape=(N_USERS, N_FILMS))
    assert_array_equal(model.predict(TABLE), plain.fit(WHERE, Y).predict(WHERE))
    assert model.fold_in(TABLE[:9], Y[:9]).score(TABLE, Y) < 1


def test_all_are_padded_and_nothing_else_is_asked_for(fitted):
    found = fitted.recommend(USERS[:2], k=N_FILMS)
    assert found.shape == (2, N_FILMS)
    for user, items in zip(USERS[:2], found, strict=True):
        left = set(FILMS) - set(TABLE["film"][TABLE["user"] == user])
        assert set(items) - {None} == left
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="k must be a positive integer"):
            fitted.recommend(USERS[0], k=wrong)


@pytest.mark.parametrize("k", [N_FILMS + 1, 10**9])
def test_no_more_items_than_there_are(fitted, k):
    """Columns for 10**9 of them would not even fit into memory."""
    items, scores = fitted.recommend(USERS[:2], k, return_scores=True)
    assert_array_equal(items, fitted.recommend(USERS[:2], N_FILMS))
    assert scores.shape == items.shape == (2, N_FILMS)
    assert fitted.recommend(USERS[0], k).shape == (N_FILMS,)
    assert fitted.similar_items(FILMS[:2], k).shape == (2, N_FILMS)
    completion = fitted.completion_
    assert completion.recommend([0, 1], k).shape == (2, completion.shape_[1])
    assert completion.similar_items(0, k).shape == (completion.shape_[1],)


def test_parameters_are_left_untouched():
    model = for_users()
    before = repr(model.get_params())
    model.fit(TABLE, Y)
    assert repr(model.get_params()) == before
    assert model.completion.shape is None
    assert not hasattr(model.completion, "_fitted")
    assert not hasattr(model.encoder, "categories_")
    assert model.completion_.shape == (2**31 - 2, N_FILMS)
    assert model.n_features_in_ == 2
    assert model.feature_names_in_.tolist() == ["user", "film"]


def test_two_fits_of_one_object_share_no_noise():
    model = for_users()
    one = pickle.dumps(model.fit(TABLE, Y).completion_.factors_)
    assert pickle.dumps(model.fit(TABLE, Y).completion_.factors_) != one
    assert pickle.dumps(clone(model).fit(TABLE, Y).completion_.factors_) == one


# --- tables of all kinds -------------------------------------------------------------

UUIDS = [uuid.uuid5(uuid.NAMESPACE_DNS, user) for user in USERS]
NUMBERS = [int(user.split("-")[1]) for user in USERS]
FORMS = {
    "pandas": lambda: (table_of(), USERS, FILMS),
    "polars": lambda: (pl.from_pandas(table_of()), USERS, FILMS),
    "array": lambda: (table_of().to_numpy(), USERS, FILMS),
    "lists": lambda: (table_of().to_numpy().tolist(), USERS, FILMS),
    "numbers": lambda: (
        table_of(NUMBERS, range(N_FILMS)).to_numpy(), NUMBERS, range(N_FILMS)
    ),
    "floats": lambda: (
        table_of(NUMBERS, range(N_FILMS)).to_numpy(dtype=float), NUMBERS, range(N_FILMS)
    ),
    "numbers and text": lambda: (table_of(NUMBERS), NUMBERS, FILMS),
    "polars, numbers and text": lambda: (
        pl.from_pandas(table_of(NUMBERS)), NUMBERS, FILMS
    ),
    "nullable": lambda: (
        table_of(NUMBERS).astype({"user": "Int64", "film": "string"}), NUMBERS, FILMS
    ),
    "categorical": lambda: (table_of().astype("category"), USERS, FILMS),
    "polars, categorical": lambda: (
        pl.from_pandas(table_of()).cast(pl.Categorical), USERS, FILMS
    ),
    "UUIDs": lambda: (table_of(UUIDS), UUIDS, FILMS),
    "UUIDs of films": lambda: (table_of(UUIDS, UUIDS), UUIDS, UUIDS[:N_FILMS]),
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", ["entry", 0])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_tables(form, unit):
    table, users, films = form()
    model = for_entries() if unit == "entry" else for_users(films=films)
    plain = for_entries() if unit == "entry" else for_users()
    plain.fit(TABLE, Y)
    y = pl.Series(Y) if isinstance(table, pl.DataFrame) else pd.Series(Y)
    model.fit(table, y)
    if unit == 0:
        model = pickle.loads(pickle.dumps(model)).fold_in(table, y)
    if unit == "entry" and users is UUIDS:
        # In another order, and so with another start.
        assert model.score(table, y) == pytest.approx(plain.score(TABLE, Y), abs=0.2)
        return
    assert_array_equal(model.predict(table), plain.predict(TABLE))
    assert model.score(table, y) == plain.score(TABLE, Y)
    expected = plain.recommend(USERS[:4], k=3).tolist()
    named = dict(zip(films, FILMS, strict=True))
    for asked in (list(users[:4]), np.array(users[:4]), pd.Series(users[:4])):
        found = model.recommend(asked, k=3).tolist()
        assert [[named[film] for film in row] for row in found] == expected


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("make", [for_entries, for_users])
def test_frames_as_the_usual_output_change_nothing(make):
    expected = make().fit(TABLE, Y).predict(TABLE)
    with config_context(transform_output="pandas"):
        model = make().fit(TABLE, Y)
        assert_array_equal(model.predict(TABLE), expected)
        assert model.recommend(USERS[:2], k=3).shape == (2, 3)


def test_values_may_be_nullable(fitted):
    y = pd.Series(Y).astype("Float64")
    assert_array_equal(for_users().fit(TABLE, y).predict(TABLE), fitted.predict(TABLE))
    y[3] = pd.NA
    with refused("y"):
        for_users().fit(TABLE, y)


def test_times_are_context():
    times = pd.Timestamp("2025-01-01") + pd.to_timedelta(np.arange(len(Y)) % 300, "D")
    table = TABLE.assign(when=times)
    model = Recommender(
        CPCompletion(1, levels=LEVELS, epsilon=math.inf, max_iter=3),
        CoordinateEncoder(freq="M"),
    ).fit(table, Y)
    assert model.completion_.shape_ == (N_USERS, N_FILMS, 10)
    row = model.encoder_.categories_[0].tolist().index(USERS[0])
    for month, index in (("2025-02-03", 1), ("2031-01-01", -1)):
        for moment in (pd.Timestamp(month), pd.Timestamp(month).to_datetime64()):
            found = model.recommend(USERS[0], k=3, context=[moment])
            items = model.completion_.recommend(row, k=3, context=[index])
            assert found.tolist() == model.encoder_.categories_[1][items].tolist()
    assert_array_equal(
        model.recommend(USERS[0], context=[None]), model.recommend(USERS[0])
    )
    with pytest.raises(ValueError, match="no column after the items"):
        for_entries().fit(TABLE, Y).recommend(USERS[0], context=["2025"])
    for wrong in ([], [1, 2], 3, "2025-02-03"):
        with pytest.raises(ValueError, match="list of 1 values"):
            model.recommend(USERS[0], context=wrong)
    with pytest.raises(ValueError, match="needs times"):
        model.recommend(USERS[0], context=["February"])


def test_declared_months_are_context_where_users_are_protected():
    months = [f"2025-{k:02d}" for k in range(1, 13)]
    table = TABLE.assign(month=[months[k % 12] for k in range(len(Y))])
    model = Recommender(
        CPCompletion(0, unit=0, levels=LEVELS, epsilon=8.0),
        CoordinateEncoder(categories=[None, FILMS, months]),
    ).fit(table, Y)
    assert model.completion_.shape_ == (2**31 - 2, N_FILMS, 12)
    assert model.recommend(USERS[:2], k=3, context=["2025-03"]).shape == (2, 3)
    assert model.predict(table).shape == (len(Y),)
    assert math.isfinite(privacy_of(model).guarantee.epsilon)


# --- choices -------------------------------------------------------------------------


def test_choices_have_no_y_and_are_no_regression():
    model = for_users(ImplicitCompletion).fit(TABLE)
    assert not is_regressor(model)
    assert not hasattr(model, "score")
    assert is_regressor(for_users())
    other = pickle.loads(pickle.dumps(model)).fold_in(*history(USERS[:2])[:1])
    assert_array_equal(other.recommend(USERS[:2]), model.recommend(USERS[:2]))
    for call in (for_users(ImplicitCompletion).fit, model.fold_in):
        with refused("takes no y"):
            call(TABLE, Y)
    for call in (for_users().fit, for_users().fit(TABLE, Y).fold_in):
        with refused("requires y to be passed"):
            call(TABLE)
    with pytest.raises(TypeError, match="return_std"):
        model.predict(TABLE, return_std=True)
    means, deviations = (
        for_entries(perturbation="input").fit(TABLE, Y).predict(TABLE, return_std=True)
    )
    assert np.all(deviations > 0)
    assert len(means) == len(Y)


# --- new users and lost ones ---------------------------------------------------------


def test_a_loaded_model_knows_nobody_until_they_are_folded_in(fitted):
    loaded = pickle.loads(pickle.dumps(fitted))
    popular = fitted.recommend(None, k=4).tolist()
    with pytest.warns(UserWarning, match="copied or pickled.*ids.*fold_in") as shown:
        assert loaded.recommend(USERS[0], k=4).tolist() == popular
    # It points here, and it comes once.
    assert [one.filename for one in shown] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loaded.recommend(USERS[1], k=4).tolist() == popular
        pickle.loads(pickle.dumps(fitted)).recommend(None)
    loaded.fold_in(*history(USERS[:2]))
    assert_array_equal(
        loaded.recommend(USERS[:2], k=4), fitted.recommend(USERS[:2], k=4)
    )
    assert loaded.recommend(USERS[2], k=4).tolist() == popular
    with pytest.warns(UserWarning, match="copied or pickled.*ids") as shown:
        copy.deepcopy(fitted).predict(TABLE)
    assert [one.filename for one in shown] == [__file__]


def test_completions_point_to_the_caller_as_well():
    model = pickle.loads(pickle.dumps(for_users().fit(TABLE, Y).completion_))
    chosen = for_users(ImplicitCompletion).fit(TABLE).completion_
    for lost in (model, pickle.loads(pickle.dumps(chosen))):
        with pytest.warns(UserWarning, match="copied or pickled") as shown:
            lost.recommend(3)
        assert [one.filename for one in shown] == [__file__]


def test_folding_in_a_copy_leaves_the_original_alone(fitted):
    before = fitted.recommend([USERS[0], "new"], k=4).tolist()
    own = copy.copy(fitted).fold_in(rows_of(["new", USERS[0]], FILMS[:2]), [5.0, 0.5])
    assert own.recommend([USERS[0], "new"], k=N_FILMS).tolist() != before
    assert FILMS[0] not in own.recommend("new", k=N_FILMS)
    # All that was known of a user is replaced.
    assert set(own.recommend(USERS[0], k=N_FILMS)) == {*FILMS, None} - {FILMS[1]}
    assert fitted.recommend([USERS[0], "new"], k=4).tolist() == before


def test_known_users_keep_their_rows_and_new_ones_get_free_ones(monkeypatch):
    # So few that drawn rows are taken.
    monkeypatch.setattr(completion_local, "N_RESERVED", N_USERS + 3)
    model = for_users().fit(TABLE, Y)
    rows = model._fitted.local.rows_of(np.array(USERS))
    assert len(set(rows)) == N_USERS
    assert set(rows) < set(range(N_USERS + 3))
    for new in range(3):
        model.fold_in(rows_of([f"new {new}", USERS[0]], FILMS[:2]), [3.0, 4.0])
        known = np.array([*USERS, *(f"new {k}" for k in range(new + 1))])
        now = model._fitted.local.rows_of(known)
        assert_array_equal(now[:N_USERS], rows)
        assert len(set(now)) == N_USERS + new + 1
        assert set(now) <= set(range(N_USERS + 3))
    model.fold_in(rows_of(["new 1"], FILMS[:1]), [3.0])


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 8.0])
@pytest.mark.parametrize("kind", [CPCompletion, ImplicitCompletion])
def test_room_for_any_number_of_users_costs_nothing(kind, epsilon):
    """A hundredth of the noise at most, however many items there are."""
    films = [f"film {k:02d}" for k in range(3000)]
    data = () if kind is ImplicitCompletion else (Y,)
    wide = for_users(kind, films, epsilon=epsilon, delta=1e-5)
    tight = clone(wide.completion).set_params(shape=(N_USERS, len(films)))
    deviations = [noise_of(one) for one in (tight, wide._steps()[1])]
    assert deviations[1] <= 1.001 * deviations[0]
    if kind is CPCompletion:
        assert deviations[1] <= 1.02 / gaussian_mu(epsilon, 1e-5)
    wide.fit(TABLE, *data)
    assert wide.recommend(USERS[:3], k=2).shape == (3, 2)


def noise_of(completion):
    """Standard deviation of the noise on vectors of length one."""
    if isinstance(completion, ImplicitCompletion):
        return math.sqrt(completion._shape_and_noise()[1].noise_variance)
    problem = Problem.from_estimator(completion, completion.shape)
    return math.sqrt(completion._measurement(problem).noise.noise_variance)


def test_rows_are_drawn_uniformly(monkeypatch):
    """False alarms: below 1e-9, a chi-squared statistic with 29 degrees of freedom."""
    monkeypatch.setattr(completion_local, "N_RESERVED", 6)
    counts = np.zeros((6, 6))
    for _ in range(6000):
        two = LocalUsers().joined_by(np.array(["ann"]))
        two = two.joined_by(np.array(["bob", "ann"]))
        counts[tuple(two.rows_of(np.array(["ann", "bob"])))] += 1
    pairs = counts[~np.eye(6, dtype=bool)]
    assert pairs.sum() == 6000
    assert np.sum((pairs - 200) ** 2) / 200 < 110


def test_rows_come_from_a_fresh_key_of_the_operating_system():
    """So nobody who has seen some of them can foretell others."""
    users = np.array(USERS)

    def drawn(n_fits):
        with following_from("a key"):
            for _ in range(n_fits):
                local = LocalUsers().joined_by(users).joined_by(np.array(["new"]), 9)
        return local.rows_of(np.append(users, "new")).tolist()

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


# --- what is unknown -----------------------------------------------------------------

STRANGE = pd.concat([TABLE, pd.DataFrame({"user": USERS[:3], "film": ["SECRET"] * 3})])
STRANGE_Y = np.concatenate([Y, [1.0, 1.0, 1.0]])


@pytest.mark.filterwarnings("error")
def test_unknown_items_are_left_out_of_users_without_a_word():
    model, known = for_users().fit(STRANGE, STRANGE_Y), for_users().fit(TABLE, Y)
    assert pickle.dumps(model) == pickle.dumps(known)
    model.fold_in(*(part[-4:] for part in (STRANGE, STRANGE_Y)))
    assert len(model.predict(STRANGE)) == len(STRANGE)
    assert model.recommend(USERS[0]).shape == (10,)
    # A new user of whom nothing is left stays unknown, and takes no row.
    lone = rows_of(["new"], ["SECRET"])
    model.fold_in(lone, [3.0])
    assert_array_equal(model.recommend("new"), model.recommend(None))


def test_how_many_are_unknown_is_told_if_ids_are_public():
    encoder = CoordinateEncoder(categories=[None, FILMS])
    model = Recommender(for_entries().completion, encoder)
    with pytest.warns(UserWarning, match="^3 rows are left out") as shown:
        model.fit(STRANGE, STRANGE_Y)
    assert [one.filename for one in shown] == [__file__]
    assert_array_equal(model.predict(TABLE), clone(model).fit(TABLE, Y).predict(TABLE))
    with refused("^3 rows have an id", secret="SECRET"):
        model.set_params(handle_unknown="error").fit(STRANGE, STRANGE_Y)


# --- wrong input ---------------------------------------------------------------------

SECRET = "SECRET"
FILM = FILMS[0]
MISSING = [None, np.nan, pd.NA, pd.NaT]


@pytest.mark.parametrize("missing", MISSING, ids=str)
@pytest.mark.parametrize("make", [for_entries, for_users])
def test_a_missing_id_is_refused(make, missing):
    for row in ([missing, FILM], [SECRET, missing]):
        table = pd.DataFrame([[SECRET, FILM], row], columns=["user", "film"])
        for rows in (table.astype(object), table.to_numpy(dtype=object)):
            with refused("missing|NaN", secret=SECRET):
                make().fit(rows, [1.0, 2.0])
    if missing is not None:
        with pytest.raises(ValueError, match="Pass None for an unknown user"):
            make().fit(TABLE, Y).recommend([USERS[0], missing])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder": None}, "categories=\\[None, item_ids\\]"),
        ({"encoder": CoordinateEncoder()}, "categories=\\[None, item_ids\\]"),
        ({"encoder": CoordinateEncoder(categories=[USERS, FILMS])}, "not listed"),
        ({"encoder": CoordinateEncoder(categories=[FILMS])}, "all columns but"),
        ({"encoder": CoordinateEncoder(categories=[None, None])}, "would learn some"),
        ({"encoder__freq": "M"}, "leave out time_bins and freq"),
        ({"completion__unit": 1}, "would learn some"),
        ({"handle_unknown": "error"}, "handle_unknown='error' would reveal"),
        ({"completion__shape": (60, 20)}, "Leave its `shape` at None"),
        ({"handle_unknown": "ignore"}, "'handle_unknown' parameter"),
        ({"encoder": FILMS}, "'encoder' parameter"),
        ({"completion": CoordinateEncoder()}, "'completion' parameter"),
        ({"completion__epsilon": -1.0}, "'epsilon' parameter"),
        ({"encoder__categories": [None, FILMS, FILMS]}, "one item for each"),
        ({"encoder__categories": [None, None, FILMS]}, "would learn some"),
    ],
)
def test_wrong_parameters(change, message):
    with refused(message, secret=tuple(USERS)):
        for_users().set_params(**change).fit(TABLE, Y)


@pytest.mark.parametrize("make", [for_entries, for_users])
def test_wrong_tables(make):
    model = make().fit(TABLE, Y)
    before = model.recommend(USERS[0]).tolist()
    stars = TABLE.assign(stars=Y)
    for table, y, message in (
        (TABLE, Y[1:], "same length"),
        (TABLE[["user"]], Y, r"1 feature\(s\)"),
        (TABLE["user"], Y, "dimension|1D|column"),
        (stars, Y, "column 'stars'|one item for each of the 3 columns"),
        (TABLE, 3.25, "array-like"),
        (TABLE, np.full(len(Y), np.nan), "NaN"),
    ):
        with refused(message, secret=(*USERS, "3.25")):
            model.fit(table, y)
    assert model.recommend(USERS[0]).tolist() == before
    assert model.feature_names_in_.tolist() == ["user", "film"]
    for table in (TABLE[["film", "user"]], TABLE.rename(columns={"film": "movie"})):
        with pytest.raises(ValueError, match="feature names"):
            model.predict(table)
    with pytest.raises(ValueError, match="one id or index, or a list"):
        model.recommend([[USERS[0], USERS[1]]])
    with pytest.raises(TypeError, match="sparse array"):
        make().fit(coo_array(np.eye(3)))
    dask = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="Dask"):
        make().fit(dask.from_array(WHERE), Y)


def test_ids_of_another_type_say_so(fitted):
    entries = for_entries().fit(table_of(NUMBERS), Y)
    with pytest.raises(ValueError, match=r"column 0 are numbers, but some.*are text"):
        entries.recommend([str(NUMBERS[0])])
    with pytest.raises(ValueError, match=r"column 1 are text, but some.*are numbers"):
        entries.predict(table_of(NUMBERS, range(20)))
    for call in (for_users().fit, fitted.fold_in):
        with refused("column 1 are text, but some.*are numbers"):
            call(table_of(USERS, range(20)), Y)
    numbered = for_users(films=range(20))
    with refused("column 1 are numbers, but some.*are text"):
        numbered.fit(TABLE.convert_dtypes(), Y)
    # Of protected users, the type of the column tells; no id is read for that. (The
    # text of pandas 2 has no type, unless it is converted.)
    typed, by_number = for_users().fit(TABLE.convert_dtypes(), Y), table_of(NUMBERS)
    for ask in (lambda: typed.recommend([17]), lambda: typed.fold_in(by_number, Y)):
        with pytest.raises(ValueError, match=r"column 0 are text, but some.*numbers"):
            ask()
    # A list has no type, so an id of another one is that of an unknown user.
    listed = for_users().fit(TABLE.to_numpy().tolist(), Y)
    assert_array_equal(listed.recommend([17]), listed.recommend([None]))


def test_what_is_not_fitted_answers_nobody():
    for name in ("predict", "recommend", "fold_in", "score"):
        arguments = (TABLE, Y)[: 1 + (name in ("fold_in", "score"))]
        with pytest.raises(Exception, match="not fitted"):
            getattr(for_users(), name)(*arguments)


def test_duplicated_rows_are_separate_entries_and_choices_count_once():
    twice = pd.concat([TABLE, TABLE])
    one, two = for_users(ImplicitCompletion), for_users(ImplicitCompletion)
    assert pickle.dumps(one.fit(TABLE)) == pickle.dumps(two.fit(twice))
    model = for_entries(epsilon=math.inf).fit(twice, np.tile(Y, 2))
    assert model.score(TABLE, Y) > 0


# --- searches, budgets, reports ------------------------------------------------------


def test_searches_over_epsilon_and_rank():
    search = GridSearchCV(
        for_users(random_state=None),
        {"completion__epsilon": [1.0, 4.0]},
        cv=UserKFold(3, random_state=0),
        scoring=make_fold_in_scorer(),
    ).fit(TABLE, Y)
    report = privacy_of(search)
    fits = [(count, guarantee.epsilon) for _, count, guarantee in report.releases]
    assert [count for count, _ in fits] == [2, 2, 1]
    assert fits[0][1] == pytest.approx(1.0, rel=0.02)
    assert fits[1][1] == pytest.approx(4.0, rel=0.02)
    assert report.guarantee.unit == 0
    assert math.isfinite(report.guarantee.epsilon)
    assert search.best_estimator_.recommend(USERS[:2], k=3).shape == (2, 3)


@pytest.mark.parametrize("make", [for_entries, for_users])
def test_cross_validation_with_whole_users(make):
    found = cross_validate(make(), TABLE, Y, cv=UserKFold(3, random_state=0))
    assert np.all(np.isfinite(found["test_score"]))


def test_scores_are_those_of_indices():
    """A search by ids measures what one by indices does, on the same sides."""
    folds, top = UserKFold(3, random_state=0), make_ranking_scorer(k=5)
    ndcg = make_ranking_scorer("ndcg", k=5, fold_in_fraction=0)
    for kind, data, scorer, cv in (
        (CPCompletion, (WHERE, Y), make_fold_in_scorer(), folds),
        (CPCompletion, (WHERE, Y), top, folds),
        (CPCompletion, (WHERE, Y), ndcg, ItemHoldout(random_state=0)),
        (ImplicitCompletion, (WHERE,), top, UserHoldout(0.3, random_state=0)),
    ):
        numbered = for_users(kind, films=range(N_FILMS))
        one, two = (
            cross_val_score(model, *data, cv=cv, scoring=scorer)
            for model in (by_indices(numbered), numbered)
        )
        assert_allclose(one, two, rtol=1e-12)
    entries = for_entries()
    scorer, cv = (
        make_ranking_scorer(k=5, fold_in_fraction=0),
        ItemHoldout(random_state=0),
    )
    assert 0 < cross_val_score(entries, TABLE, Y, cv=cv, scoring=scorer)[0] < 1


def test_scores_tell_users_with_long_ids_apart():
    """Also where their ids share a double, and so the sides of their rows."""
    fitted, scored = next(ItemHoldout(0.3, random_state=0).split(WHERE))
    scores = []
    for first in (0, 2**60):
        rows = np.add(WHERE, [first, 0])
        model = for_users(films=range(N_FILMS)).fit(rows[fitted], Y[fitted])
        scorer = make_ranking_scorer(k=5, fold_in_fraction=0)
        scores.append(scorer(model, rows[scored], Y[scored]))
    assert_allclose(*scores, rtol=1e-12)


@pytest.mark.parametrize("cv", [None, UserKFold(2)])
@pytest.mark.parametrize("form", ["pandas", "polars", "array"])
def test_private_searches_over_users(form, cv):
    table, users, _ = FORMS[form]()
    model = for_users(random_state=None)
    search = PrivateSearchCV(
        model, {"completion__rank": [0, 1]}, n_iter=2, cv=cv, refit="keep"
    )
    plain = PrivateSearchCV(
        by_indices(model),
        {"rank": [0, 1]}, n_iter=2, cv=cv, refit="keep",
    )  # fmt: skip
    planned = plain.planned_guarantee(WHERE)
    assert search.planned_guarantee(table).event == planned.event
    with PrivacyBudget(math.inf) as budget:
        search.fit(table, Y)
    assert search.privacy_guarantee_.event == planned.event
    assert guarantees_of(budget) == [search.privacy_guarantee_]
    best = search.best_estimator_
    assert best.recommend(list(users[:2]), k=3).shape == (2, 3)
    # All users are known: those in the fit, and those who were held out.
    if cv is None:
        rows = best._fitted.local.rows_of(np.array(users))
        assert np.all(rows >= 0)


def test_private_searches_over_entries():
    search = PrivateSearchCV(
        for_entries(random_state=None), {"completion__rank": [0, 1]}, n_iter=2
    ).fit(TABLE, Y)
    assert search.privacy_guarantee_.unit == "entry"
    assert search.best_estimator_.recommend(USERS[:2], k=3).shape == (2, 3)


@pytest.mark.parametrize(
    ("change", "data", "message"),
    [
        ({"handle_unknown": "error"}, (STRANGE, STRANGE_Y), "would reveal"),
        ({"encoder": None}, (TABLE, Y), "all columns but"),
        ({}, (TABLE, np.where(np.arange(len(Y)) == 3, np.nan, Y)), "NaN"),
        ({}, (TABLE, Y[1:]), "inconsistent|same length"),
        ({"completion": ImplicitCompletion()}, (TABLE, Y), "cannot search Implicit"),
    ],
)
def test_private_searches_refuse_before_they_release(change, data, message):
    model = for_users(random_state=None).set_params(**change)
    search = PrivateSearchCV(
        model, {"handle_unknown": [model.handle_unknown]}, n_iter=2
    )
    with refused(message, secret=SECRET):
        search.fit(*data)


def test_a_private_search_leaves_out_unknown_items_and_refuses_epsilon():
    search = PrivateSearchCV(
        for_users(random_state=None), {"completion__rank": [0]}, n_iter=2
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(STRANGE, STRANGE_Y)
    search.set_params(param_distributions={"completion__epsilon": [1.0]})
    with refused("cannot be searched"):
        search.fit(TABLE, Y)


def test_reports():
    model = for_users(random_state=None)
    planned = planned_guarantee(model)
    assert planned == model.fit(TABLE, Y).privacy_guarantee_
    report = privacy_of(model)
    assert report.guarantee == planned
    assert report.releases[0][:2] == ("fit of CPCompletion", 1)
    assert report.guarantee == privacy_of(pickle.loads(pickle.dumps(model))).guarantee
    entries = privacy_of(for_entries().fit(TABLE, Y))
    assert entries.guarantee.epsilon == pytest.approx(4)
    assert any("ids and times that occur" in one for one in entries.unprotected)
    with pytest.raises(TypeError, match="has not been fitted"):
        privacy_of(for_users())
    with pytest.raises(ValueError, match="not listed"):
        planned_guarantee(for_users().set_params(encoder=None))
    epsilon = epsilon_per_release(4.0, 1e-5, 3, model)
    expected = epsilon_per_release(4.0, 1e-5, 3, model.completion_)
    assert epsilon == expected


USERS_WORDS, FILMS_WORDS = "all rows of one user", "all rows of one item"
VALUES_WORDS = "the value of one observed entry"


@pytest.mark.parametrize(
    ("unit", "names", "words", "planned"),
    [
        (0, ["user", "film"], "all rows with the same 'user'", USERS_WORDS),
        (1, ["user", "film"], "all rows with the same 'film'", FILMS_WORDS),
        (0, None, USERS_WORDS, USERS_WORDS),
        (1, None, FILMS_WORDS, FILMS_WORDS),
        # It may be the id of somebody, in a table without a header.
        (0, ["somebody-7919", "film"], USERS_WORDS, USERS_WORDS),
        ("entry", ["user", "film"], VALUES_WORDS, VALUES_WORDS),
    ],
)
def test_a_guarantee_is_in_the_words_of_the_table(unit, names, words, planned, caplog):
    """Everywhere: in the guarantee, the log, the budget, the report and the check."""
    table = TABLE.to_numpy() if names is None else TABLE.set_axis(names, axis=1)
    encoder = CoordinateEncoder(categories=[None if unit == 0 else USERS, FILMS])
    model = for_entries(unit=unit, random_state=None).set_params(encoder=encoder)
    assert f" for {planned} (" in str(planned_guarantee(model))
    with PrivacyBudget(10.0, 1e-5) as budget, caplog.at_level("INFO", "sktensordp"):
        model.fit(table, Y)
    guarantee = model.privacy_guarantee_
    loaded = pickle.loads(pickle.dumps(model)).privacy_guarantee_
    reports = guarantee, loaded, guarantee + guarantee, privacy_of(model), caplog.text
    for text in map(str, reports):
        assert f"-differential privacy for {words} (" in text
    assert f", for {words} (" in str(budget)
    searched = GridSearchCV(model, {"completion__epsilon": [1.0, 2.0]}, cv=2)
    searched.fit(table, Y)
    assert f"differential privacy for {words}" in str(privacy_of(searched))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert check_table(model, table, Y)["protected"] == words


def test_budgets_see_the_release_of_the_completion():
    with PrivacyBudget(10.0, 1e-5) as budget:
        model = for_users(random_state=None).fit(TABLE, Y)
        model.fold_in(*history(USERS[:3])).recommend(USERS[0])
        with pytest.raises(BudgetExceededError):
            model.fit(TABLE, Y)
    # The earlier fit is left, with its users.
    assert model.privacy_guarantee_.epsilon == pytest.approx(8.0)
    assert model.recommend(USERS[0]).tolist() != model.recommend(None).tolist()
    assert guarantees_of(budget) == [model.privacy_guarantee_]


@pytest.mark.parametrize(("fitted_to", "changed_to"), [(0, "entry"), ("entry", 0)])
def test_whom_the_fit_protects_does_not_change_with_a_parameter(fitted_to, changed_to):
    model = for_users() if fitted_to == 0 else for_entries()
    model.fit(TABLE, Y)
    asked = TABLE["user"].iloc[:2].tolist()
    before = model.recommend(asked, k=3), model.predict(TABLE[:5])
    model.completion_.set_params(unit=changed_to)
    assert_array_equal(model.recommend(asked, k=3), before[0])
    assert_array_equal(model.predict(TABLE[:5]), before[1])
