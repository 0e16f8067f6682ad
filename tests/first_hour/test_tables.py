"""What a new user leaves in a table, or mistakes for ids: it is refused or said."""

import datetime
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
    columns_with_values,
    make_ranking_scorer,
)
from sktensordp.datasets import make_choices
from sktensordp.exceptions import (
    AveragesOnlyWarning,
    NoiseOnlyWarning,
    PrivacyLeakWarning,
)
from sktensordp.privacy import PrivacyBudget
from tests.first_hour.films import RATINGS, STARS, TABLE

pytestmark = pytest.mark.thorough
SCORES = np.rint(RATINGS.target).clip(1, 5).astype(int)


def frame(**columns):
    return TABLE.assign(**columns)


def recommender(**params):
    return Recommender(CPCompletion(0, epsilon=8.0, levels=STARS, **params))


def released_nothing(call):
    """Make a call that a budget of nothing would refuse, if it got so far."""
    with PrivacyBudget(1e-9, 1e-12):
        call()


@pytest.mark.parametrize(
    "name",
    ["my_score", "note", "bewertung", "vote", "Stars", "rating", "Score", " VALUE"],
)
@pytest.mark.parametrize(
    "model", [CPCompletion(0, levels=STARS), CoordinateEncoder(), recommender()]
)
def test_left_ratings_in_a_column_with_a_name_that_says_so(name, model):
    """They are warned of before anything is released, and not refused."""
    said = f"Column {name!r} may hold the values, by its name and its numbers"
    table = frame(**{name: SCORES})
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(PrivacyLeakWarning, match=said) as e,
    ):
        released_nothing(lambda: model.fit(table, SCORES))
    assert f"fit(X.drop(columns=[{name!r}]), X[{name!r}])" in str(e.value)
    with warnings.catch_warnings(record=True, action="always") as caught:
        assert model.fit(table, SCORES).n_features_in_ == 3
    assert [said in str(one.message) for one in caught].count(True) == 1
    assert {one.filename for one in caught} == {__file__}


def test_had_indices_as_floats():
    model = CPCompletion(0, levels=STARS).fit(frame().astype(float), SCORES)
    assert model.shape_ == RATINGS.shape


@pytest.mark.parametrize("name", ["score_id", "vote_time", "value_code"])
def test_had_ids_in_a_column_whose_name_only_sounds_like_values(name):
    with warnings.catch_warnings(action="error"):
        CoordinateEncoder().fit(frame(**{name: np.arange(600) % 7}))


@pytest.mark.parametrize("kind", [float, object])
@pytest.mark.parametrize("encoded", [False, True])
def test_left_ratings_with_fractions_in_a_column(kind, encoded):
    table = frame(x=RATINGS.target.astype(kind))
    model = recommender()
    if encoded:
        model = make_pipeline(CoordinateEncoder(), CPCompletion(0, levels=STARS))
    with pytest.raises(ValueError, match="column 'x' are numbers with fractions") as e:
        released_nothing(lambda: model.fit(table, RATINGS.target))
    assert "pass them as y" in str(e.value)
    assert "0.5" not in str(e.value)


def test_left_ratings_with_fractions_in_a_list_where_all_became_text():
    table = np.column_stack([RATINGS.data, RATINGS.target]).astype(str)
    with pytest.warns(PrivacyLeakWarning, match="text that reads as numbers with fr"):
        CoordinateEncoder().fit(table)


# The column stands where users or items are expected.
@pytest.mark.filterwarnings("ignore:Users are taken from the first column:UserWarning")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_left_whole_ratings_in_a_column(place):
    table = frame()
    table.insert(place, "x", SCORES)
    expected = "All ids in column 'x' are among the declared levels"
    for model, y in ((recommender(), SCORES), (CPCompletion(0, levels=STARS), SCORES)):
        with pytest.warns(PrivacyLeakWarning, match=expected):
            model.fit(table, y)
    with pytest.warns(PrivacyLeakWarning, match=f"column {place} are among"):
        recommender().fit(table.to_numpy(), SCORES)


def test_left_whole_ratings_in_a_column_of_a_dask_frame():
    dd = pytest.importorskip("dask.dataframe")
    lazy = dd.from_pandas(frame(x=SCORES, y=SCORES), npartitions=2)
    with pytest.warns(PrivacyLeakWarning, match="'x' are among the declared levels"):
        CPCompletion(0, levels=STARS).fit(lazy[["user", "film", "x"]], lazy["y"])


def test_had_weekdays_and_a_scale_from_zero():
    """Indices of a small mode, or ids that are declared, are not taken for values."""
    table = frame(weekday=np.arange(600) % 7)
    with warnings.catch_warnings(action="error"):
        CPCompletion(0, levels=range(11)).fit(table, SCORES)
        CPCompletion(0, levels=STARS, shape=(60, 40, 8)).fit(
            table.assign(weekday=1 + np.arange(600) % 5), SCORES
        )
        encoder = CoordinateEncoder(categories=[None, None, STARS])
        model = Recommender(CPCompletion(0, levels=STARS), encoder)
        model.fit(frame(grade=SCORES), SCORES)


def test_did_the_same_where_users_are_protected():
    """Nothing is read off the ids: the warning would depend on them."""
    table = frame(x=SCORES)
    model = CPCompletion(0, unit=0, epsilon=8.0, levels=STARS, shape=(60, 40, 6))
    with warnings.catch_warnings(action="error"):
        model.fit(table, SCORES)


def test_asked_by_hand_whether_a_column_holds_the_values():
    table = frame(half=SCORES / 2, same=SCORES, other=np.arange(600) % 5)
    assert columns_with_values(table, SCORES) == ["half", "same"]
    assert columns_with_values(table.to_numpy(), SCORES) == [2, 3]
    assert columns_with_values(frame(), SCORES) == []
    # An id of the row tells the value only because it never repeats.
    assert columns_with_values(frame(row=np.arange(600)), SCORES) == []
    with pytest.raises(ValueError, match="same length"):
        columns_with_values(table, SCORES[:-1])


@pytest.mark.parametrize("encoded", [False, True])
def test_fitted_numbers_and_asked_with_text(encoded):
    table = frame()
    model = recommender().fit(table, SCORES)
    if encoded:
        model = make_pipeline(CoordinateEncoder(), CPCompletion(0, levels=STARS))
        model.fit(table, SCORES)
    with pytest.raises(
        ValueError, match=r"column 0 are numbers, but some.*text\. Conv"
    ):
        model.predict(table.astype(str))
    if not encoded:
        for user in ("17", "nobody"):
            with pytest.raises(ValueError, match="column 0 are numbers"):
                model.recommend(user)


def test_fitted_text_and_asked_with_an_array_of_numbers():
    encoder = CoordinateEncoder().fit(frame().astype(str).to_numpy())
    message = r"column 0 are text, but .* numbers\. Convert .*: X\.astype\(str\)"
    with pytest.raises(ValueError, match=message):
        encoder.transform(RATINGS.data)
    # The advice helps.
    assert np.all(encoder.transform(RATINGS.data.astype(str)) >= 0)


@pytest.mark.parametrize("kind", ["numbers", "text", "array", "polars"])
def test_fitted_users_of_one_type_and_asked_with_another(kind):
    """Also where users are protected: the type of a column is public."""
    table, asked = frame(), ["17"]
    if kind == "text":
        # The text of pandas 2 has no type, unless it is converted.
        names = ("user-" + table["user"].astype(str)).astype("string")
        table, asked = table.assign(user=names), [17]
    elif kind == "array":
        table = table.to_numpy()
    elif kind == "polars":
        table = pytest.importorskip("polars").DataFrame(table.to_dict("list"))
    encoder = CoordinateEncoder(categories=[None, range(40)])
    model = Recommender(CPCompletion(0, unit=0, epsilon=8.0, levels=STARS), encoder)
    model.fit(table, SCORES)
    with pytest.raises(ValueError, match="The known ids of column 0 are"):
        model.recommend(asked)


@pytest.mark.parametrize("place", [2, 0])
def test_left_times_unbinned(place):
    table = frame()
    times = 1_700_000_000 + 3_607 * np.arange(600)
    table.insert(place, "when", times)
    with pytest.warns(UserWarning, match=r"column 'when' hardly repeat.*freq='W'"):
        CoordinateEncoder().fit(table)
    array = RATINGS.data
    with pytest.warns(UserWarning, match="column 2 hardly repeat"):
        CoordinateEncoder().fit(np.column_stack([array, times]))
    indices = np.column_stack([array, np.arange(600)])
    with pytest.warns(UserWarning, match="column 2 hardly repeat"):
        CPCompletion(0, levels=STARS).fit(indices, SCORES)


def test_left_datetimes_unbinned_and_was_told_once():
    start = datetime.datetime(2026, 1, 1)
    times = [start + datetime.timedelta(hours=k) for k in range(600)]
    with warnings.catch_warnings(record=True, action="always") as caught:
        CoordinateEncoder().fit(frame(when=times))
    (one,) = caught
    assert "To bin them, pass freq, such as freq='W', or time_bins" in str(one.message)


def test_rated_everything_once_or_binned_the_times():
    """Users or items that hardly repeat are no times."""
    with warnings.catch_warnings(action="error"):
        once = np.column_stack([np.arange(200), np.arange(200)])
        CoordinateEncoder().fit(once)
        CoordinateEncoder(freq="M").fit(frame(when=86_400 * np.arange(600)))
        CoordinateEncoder().fit(frame(month=np.arange(600) % 12))


@pytest.mark.parametrize("kind", ["coordinates", "sparse", "dask", "batches"])
def test_passed_raw_ids_without_an_encoder(kind):
    X = RATINGS.data * [1, 1_000]
    model = CPCompletion(0, levels=STARS, max_iter=2)
    fit, given = model.fit, (X, SCORES)
    if kind == "sparse":
        given = (sparse.coo_array((SCORES, tuple(X.T))),)
    elif kind == "dask":
        array = pytest.importorskip("dask.array")
        given = [array.from_array(one, chunks=(300, -1)[: one.ndim]) for one in given]
    elif kind == "batches":
        fit, given = model.fit_batches, ([(X[:300], SCORES[:300])] * 2,)
    message = r"Most indices of column 1 have no entry.*CoordinateEncoder"
    with pytest.warns(UserWarning, match=message):
        fit(*given)
    if kind == "coordinates":
        with warnings.catch_warnings(action="error"):
            model.set_params(shape=(60, 40_000)).fit(X, SCORES)


@pytest.mark.parametrize("form", [CPCompletion, TuckerCompletion])
@pytest.mark.parametrize("unit", ["entry", 0])
def test_got_nothing_personal_at_a_small_epsilon(form, unit):
    options = {"epsilon": 0.1, "unit": unit, "levels": STARS, "shape": RATINGS.shape}
    X, y = RATINGS.data, SCORES
    with pytest.warns(AveragesOnlyWarning, match="everybody gets (nearly )?the same"):
        model = form(5, **options).fit(X, y)
    assert model.perturbation_ == "sums"
    with warnings.catch_warnings(action="error"):
        # So few users are hardly more than noise.
        warnings.simplefilter("ignore", NoiseOnlyWarning)
        # Sums of entries have no factors, and say so if some are asked for.
        rank = 0 if unit == "entry" else 5
        form(rank, **options, perturbation="sums").fit(X, y)
        form(0, **options).fit(X, y)
        form(5, **options | {"epsilon": np.inf}).fit(X, y)


def test_got_no_factors_from_a_number_of_ratings_that_is_noise():
    """Even if noise says that users have a thousand ratings each, of 40 films."""
    options = {"epsilon": 0.1, "unit": 0, "levels": STARS, "shape": RATINGS.shape}
    for seed in range(12):
        model = CPCompletion(5, **options, random_state=seed)
        with pytest.warns(NoiseOnlyWarning):
            model.fit(RATINGS.data, SCORES)
        assert model.perturbation_ == "sums"


def test_heard_nothing_of_users_where_a_tensor_has_none():
    video = np.random.default_rng(0).random((8, 6, 20))
    video[2:4, 1:3, ::2] = np.nan
    model = CPCompletion(3, epsilon=0.1, value_bounds=(0, 1))
    with pytest.warns(AveragesOnlyWarning, match="adds up one number of each") as told:
        model.fit(video)
    assert not any("everybody" in str(each.message) for each in told)


def test_was_told_before_the_budget_was_asked_where_coordinates_are_public():
    model = CPCompletion(5, epsilon=0.1, levels=STARS)
    with warnings.catch_warnings(action="error"), pytest.raises(AveragesOnlyWarning):
        released_nothing(lambda: model.fit(RATINGS.data, SCORES))


@pytest.mark.parametrize("n_features", [1, 3])
def test_got_something_personal_from_features_of_the_films(n_features):
    features = np.random.default_rng(0).normal(size=(40, n_features))
    model = CPCompletion(
        5, epsilon=0.1, unit=0, levels=STARS, shape=RATINGS.shape,
        side_information={1: features},
    )  # fmt: skip
    with warnings.catch_warnings(action="error"):
        warnings.simplefilter("ignore", NoiseOnlyWarning)
        model.fit(RATINGS.data, SCORES)
    assert model.perturbation_ == "sums"
    assert "same ranking" not in model.privacy_guarantee_.statement
    pairs = np.argwhere(np.ones(RATINGS.shape))
    predicted = model.predict(pairs).reshape(RATINGS.shape)
    ranks = predicted - predicted.mean(axis=1, keepdims=True)
    assert np.ptp(ranks, axis=0).max() > 1e-3


def test_got_popular_items_from_choices_at_a_small_epsilon():
    choices = make_choices(60, 40, 600, random_state=0)
    model = ImplicitCompletion(epsilon=0.5, shape=choices.shape)
    with pytest.warns(AveragesOnlyWarning, match="that of popular items"):
        model.fit(choices.data)
    assert not len(model.items_)
    with warnings.catch_warnings(action="error"):
        warnings.simplefilter("ignore", NoiseOnlyWarning)
        model.set_params(max_items=0).fit(choices.data)


@pytest.mark.parametrize("form", [CPCompletion, TuckerCompletion])
def test_wrote_zeros_where_nothing_was_observed(form):
    X = np.zeros(RATINGS.shape)
    X[tuple(RATINGS.data.T)] = RATINGS.target
    with pytest.warns(UserWarning, match="no NaN.*0 as a value like any other"):
        form(0, value_bounds=(0, 5)).fit(X)
    with warnings.catch_warnings(action="error"):
        form(0, value_bounds=(0, 5)).fit(np.where(X, X, np.nan))
        # Which entries there are is private here.
        form(0, value_bounds=(0, 5), unit=0, epsilon=8.0, shape=X.shape).fit(X)


def test_left_an_id_empty_and_was_told_where():
    table = frame(when=np.arange(600.0) % 7)
    table.loc[3, "when"] = np.nan
    with pytest.raises(ValueError, match="in column 'when' are missing"):
        CoordinateEncoder().fit(table)
    with pytest.raises(ValueError, match="NaN in column 'when', so a coordinate"):
        CPCompletion(0, levels=STARS).fit(table, SCORES)
    model = CPCompletion(0, unit=0, levels=STARS, shape=(60, 40, 7))
    with pytest.raises(ValueError, match="NaN, so a coordinate"):
        model.fit(table, SCORES)


def test_wrote_auto_into_the_categories():
    with pytest.raises(ValueError, match=r"holds 'auto'.*None to learn them"):
        CoordinateEncoder(categories=["auto", range(40)]).fit(frame())


def test_passed_a_column_of_timestamps_as_coordinates():
    table = frame(when=pd.Timestamp("2026-01-01"))
    with pytest.raises(TypeError, match="must hold numbers, but it holds Timestamp"):
        CPCompletion(0, levels=STARS).fit(table, SCORES)


def test_read_a_warning_and_found_the_line_of_the_own_script():
    with warnings.catch_warnings(record=True, action="always") as caught:
        CPCompletion(5, epsilon=0.1, levels=STARS).fit(
            RATINGS.data * [1, 1_000], SCORES
        )
        make_pipeline(CoordinateEncoder(), CPCompletion(0, levels=STARS)).fit(
            frame(when=np.arange(600)), SCORES
        )
    assert len(caught) >= 3
    assert {one.filename for one in caught} == {__file__}


SAID = {
    "only averages of ratings": (
        CPCompletion(5, epsilon=0.1, levels=STARS, shape=RATINGS.shape),
        AveragesOnlyWarning,
    ),
    "only popular items": (
        ImplicitCompletion(epsilon=0.05, shape=RATINGS.shape),
        AveragesOnlyWarning,
    ),
    "only noise": (
        CPCompletion(0, epsilon=0.01, unit=0, levels=STARS, shape=RATINGS.shape),
        NoiseOnlyWarning,
    ),
    "another scale": (
        CPCompletion(0, epsilon=50.0, value_bounds=(0, 0.1), shape=RATINGS.shape),
        UserWarning,
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_searched_and_was_told_by_each_fit_what_it_tells_alone(case):
    """What a fit says follows from what it is given, whoever calls it."""
    model, category = SAID[case]
    y = SCORES if hasattr(model, "score") else None
    # Rows are held out, not users.
    scoring = None if y is not None else make_ranking_scorer(k=5, fold_in_fraction=0)
    with pytest.warns(category):
        model.fit(RATINGS.data, y)
    search = GridSearchCV(model, {"epsilon": [model.epsilon]}, cv=2, scoring=scoring)
    for refit, n_fits in ((False, 2), (True, 3)):
        with (
            PrivacyBudget(math.inf),
            warnings.catch_warnings(record=True, action="always") as caught,
        ):
            search.set_params(refit=refit).fit(RATINGS.data, y)
        # Scores are no fits: they say it of the values that they read.
        of_fits = [c for c in caught if "no prediction" not in str(c.message)]
        assert [one.category for one in of_fits].count(category) == n_fits
        assert {one.filename for one in caught} == {__file__}
    with PrivacyBudget(math.inf), warnings.catch_warnings(action="error"):
        warnings.simplefilter("ignore", category)  # as one does who has read it once
        search.set_params(error_score="raise").fit(RATINGS.data, y)
