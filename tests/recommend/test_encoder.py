"""CoordinateEncoder: ids, times, and what it does not know."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.privacy import privacy_of

DAY = 86400


def test_ids_are_sorted_and_unknown_ones_are_minus_one():
    table = np.array([["b", 30], ["a", 10], ["b", 20]], dtype=object)
    encoder = CoordinateEncoder().fit(table)
    assert [list(c) for c in encoder.categories_] == [["a", "b"], [10, 20, 30]]
    assert encoder.shape_ == (2, 3)
    found = encoder.transform(np.array([["a", 30], ["c", 10], ["b", 99]], dtype=object))
    assert found.tolist() == [[0, 2], [-1, 0], [1, -1]]
    assert found.dtype == np.int64


def test_quantile_bins_hold_about_equally_many():
    times = np.random.default_rng(0).pareto(1, 1000) * 1e6
    table = np.column_stack([np.zeros(1000), times])
    encoder = CoordinateEncoder(time_bins=10).fit(table)
    bins = encoder.transform(table)[:, 1]
    assert encoder.shape_ == (1, 10)
    assert np.all(np.abs(np.bincount(bins) - 100) <= 1)
    assert np.all(np.diff(bins[np.argsort(times)]) >= 0)
    beyond = encoder.transform([[0, times.min() - 1], [0, times.max() + 1]])
    assert beyond[:, 1].tolist() == [0, 9]


@pytest.mark.parametrize(
    ("freq", "moments", "bins"),
    [
        ("h", [0, 3599, 3600, 7200], [0, 0, 1, 2]),
        ("D", [-0.5, 0.5, 0.5, DAY], [0, 1, 1, 2]),
        ("D", [0, DAY - 1, DAY, 5 * DAY], [0, 0, 1, 5]),
        # 1970-01-01 was a Thursday: the week of Monday the 5th is the next.
        ("W", [0, 3 * DAY, 4 * DAY, 11 * DAY], [0, 0, 1, 2]),
        ("M", [0, 30 * DAY, 31 * DAY, 59 * DAY], [0, 0, 1, 2]),
        ("Y", [0, 364 * DAY, 365 * DAY, 366 * DAY], [0, 0, 1, 1]),
    ],
)
def test_calendar_bins(freq, moments, bins):
    table = [["a", m] for m in moments]
    encoder = CoordinateEncoder(freq=freq)
    assert encoder.fit_transform(table)[:, 1].tolist() == bins
    assert encoder.shape_ == (1, bins[-1] + 1)
    outside = encoder.transform([["a", -1e9], ["a", 1e9]])
    assert outside[:, 1].tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("params", "table", "message"),
    [
        ({"time_bins": 2, "freq": "D"}, [["a", 1]], "not both"),
        ({"freq": "fortnight"}, [["a", 1]], "'freq' parameter"),
        ({"freq": "D"}, [["a", "noon"]], "holds text, but needs times"),
        ({"freq": "D"}, [["a"]], r"1 feature\(s\)"),
        ({}, np.array([["a", 1], [2, 1]], dtype=object), "all strings or all numb"),
        ({"freq": "D"}, np.array([["a", None]], dtype=object), "times|NaN|missing"),
        ({"time_bins": 2}, [[1.0, np.nan]], "NaN"),
        ({}, np.array([["a", 1], [None, 2]], dtype=object), "missing"),
        ({"freq": "D"}, np.array([[0, "NaT"]], dtype="datetime64[s]"), "NaN|missing"),
    ],
)
def test_wrong_input(params, table, message):
    with pytest.raises((TypeError, ValueError), match=message):
        CoordinateEncoder(**params).fit(table)


@pytest.mark.parametrize("params", [{}, {"freq": "D"}])
def test_a_missing_value_of_pandas_says_so(params):
    pandas = pytest.importorskip("pandas")
    rows = [["a", 3], ["b", pandas.NA]]
    frame = pandas.DataFrame(rows, columns=["user", "item"])
    strings = frame.astype({"user": "string", "item": "Int64"})
    for table in (rows, np.array(rows, dtype=object), frame, strings):
        for call in ("fit", "partial_fit", "fit_transform"):
            with pytest.raises(ValueError, match=r"missing|NaN"):
                getattr(CoordinateEncoder(**params), call)(table)
        known = pandas.DataFrame([["a", 3], ["b", 4]], columns=frame.columns)
        known = known if hasattr(table, "columns") else known.to_numpy()
        encoder = CoordinateEncoder(**params).fit(known)
        with pytest.raises(ValueError, match=r"missing|NaN"):
            encoder.transform(table)


@pytest.mark.parametrize("kind", [object, np.int64, "U"])
def test_further_ids_come_after_the_known_ones(kind):
    rows = np.array([[5, 1], [3, 1], [5, 2]]).astype(kind)
    more = np.array([[4, 2], [3, 0], [1, 9]]).astype(kind)
    encoder = CoordinateEncoder().partial_fit(rows)
    before = encoder.transform(rows)
    np.testing.assert_array_equal(before, CoordinateEncoder().fit_transform(rows))
    assert encoder.transform(more).tolist() == [[-1, 1], [0, -1], [-1, -1]]
    encoder.partial_fit(more)
    assert encoder.shape_ == (4, 4)
    np.testing.assert_array_equal(encoder.transform(rows), before)
    assert encoder.transform(more).tolist() == [[3, 1], [0, 2], [2, 3]]
    # Nothing new: nothing changes; a fit starts anew.
    encoder.partial_fit(rows)
    assert encoder.shape_ == (4, 4)
    assert encoder.fit(rows).shape_ == (2, 2)


def test_later_bins_extend_time_and_earlier_ones_stay_unknown():
    encoder = CoordinateEncoder(freq="D").partial_fit([["a", 0], ["a", 2 * DAY]])
    encoder.partial_fit([["a", 5 * DAY], ["a", -DAY], ["a", DAY]])
    assert encoder.shape_ == (1, 6)
    times = [["a", day * DAY] for day in (-1, 0, 5, 6)]
    assert encoder.transform(times)[:, 1].tolist() == [-1, 0, 5, -1]
    encoder.partial_fit([["a", DAY]])
    assert encoder.shape_ == (1, 6)


def test_quantile_bins_are_those_of_the_first_batch():
    encoder = CoordinateEncoder(time_bins=2).partial_fit([["a", 0.0], ["a", 10.0]])
    edges = encoder.time_edges_.copy()
    encoder.partial_fit([["b", 1000.0], ["b", 2000.0]])
    np.testing.assert_array_equal(encoder.time_edges_, edges)
    assert encoder.transform([["b", 1000.0]]).tolist() == [[1, 1]]


def test_a_wrong_batch_changes_nothing():
    encoder = CoordinateEncoder(freq="D").partial_fit([["a", 0], ["b", DAY]])
    for wrong, message in (
        ([["c", "noon"]], "holds text, but needs times"),
        ([["c", "d", 0]], "3 features"),
        (np.array([["c", None]], dtype=object), "missing|NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            encoder.partial_fit(wrong)
        assert encoder.shape_ == (2, 2)
    assert [list(c) for c in encoder.categories_] == [["a", "b"]]


@pytest.mark.parametrize("ids", [[1, 2] * 15, ["a", "b"] * 15])
def test_frames_of_ids_and_times(ids):
    """Columns that NumPy has no common type for."""
    pd = pytest.importorskip("pandas")
    times = pd.to_datetime(np.arange(30) * 86_400, unit="s")
    frame = pd.DataFrame({"user": ids, "item": np.arange(30) % 7, "time": times})
    encoder = CoordinateEncoder(freq="D").fit(frame)
    assert encoder.shape_ == (2, 7, 30)
    expected = np.column_stack([np.arange(30) % 2, np.arange(30) % 7, np.arange(30)])
    np.testing.assert_array_equal(encoder.transform(frame), expected)
    framed = encoder.set_output(transform="pandas").transform(frame)
    assert list(framed.columns) == list(encoder.get_feature_names_out())
    assert list(framed.columns) == ["user", "item", "time"]
    encoder.set_output(transform="default")
    rows = np.array(frame.to_numpy(object))
    rows[:, 2] = [moment.to_pydatetime() for moment in times]
    np.testing.assert_array_equal(encoder.fit_transform(rows), expected)
    in_seconds = frame.assign(time=np.arange(30) * 86_400)
    encoder.fit(frame)
    np.testing.assert_array_equal(encoder.transform(in_seconds), expected)


# --- public catalogues ----------------------------------------------------------------

TABLE = [["bob", "up", 0], ["ann", "heat", 90000], ["bob", "heat", 90001]]
USERS, FILMS = ["eve", "bob", "ann"], np.array(["heat", "alien", "up"])


def test_a_catalogue_has_the_order_that_it_was_given_in():
    encoder = CoordinateEncoder(freq="D", categories=[USERS, FILMS]).fit(TABLE)
    assert encoder.shape_ == (3, 3, 2)
    assert [list(ids) for ids in encoder.categories_] == [USERS, list(FILMS)]
    np.testing.assert_array_equal(
        encoder.transform(TABLE), [[1, 2, 0], [2, 0, 1], [1, 0, 1]]
    )
    found = encoder.transform([["eve", "alien", 0], ["dan", "up", 0]])
    np.testing.assert_array_equal(found, [[0, 1, 0], [-1, 2, 0]])


def test_a_table_without_rows_is_no_error_where_nothing_is_learned():
    """An error would tell that there are none, where all of a user are protected."""
    declared = CoordinateEncoder(categories=[["a", "b"], [3, 5]])
    empty = np.empty((0, 2), dtype=object)
    assert declared.fit(empty).shape_ == (2, 2)
    assert declared.transform(empty).shape == (0, 2)
    for learning in (CoordinateEncoder(), CoordinateEncoder(categories=[None, [3]])):
        with pytest.raises(ValueError, match="0 sample"):
            learning.fit(empty)


def test_one_column_may_be_learned():
    encoder = CoordinateEncoder(categories=[None, FILMS]).fit(
        [row[:2] for row in TABLE]
    )
    assert encoder.shape_ == (2, 3)
    encoder.partial_fit([["zoe", "alien"]])
    assert encoder.shape_ == (3, 3)
    np.testing.assert_array_equal(encoder.transform([["zoe", "up"]]), [[2, 2]])


@pytest.mark.parametrize("fitted", [False, True])
def test_an_id_that_is_in_no_catalogue_is_refused_and_not_shown(fitted):
    encoder = CoordinateEncoder(categories=[USERS, FILMS])
    if fitted:
        encoder.fit([["bob", "up"]])
    with pytest.raises(ValueError, match="ids of column 1 are not among") as caught:
        encoder.partial_fit([["bob", "secret film"]])
    assert "secret" not in str(caught.value)
    assert hasattr(encoder, "shape_") == fitted


@pytest.mark.parametrize(
    ("categories", "message"),
    [
        ([USERS], "one item for each of the 2 columns"),
        ([USERS, FILMS, None], "one item for each of the 2 columns"),
        ([USERS, ["up", "heat", "up"]], "lists some ids more than once"),
        ([USERS, []], "is empty"),
        ([USERS, [FILMS]], "has 2 axes"),
    ],
)
def test_wrong_catalogues_are_refused(categories, message):
    with pytest.raises(ValueError, match=message):
        CoordinateEncoder(categories=categories).fit([["bob", "up"]])


@pytest.mark.thorough
def test_a_learned_vocabulary_voids_what_protects_users():
    """Who is there is published: privacy_of says so, unless all is declared."""
    ratings = make_ratings(60, 20, 800, random_state=0)
    users, items = (range(size) for size in ratings.shape)

    def pipeline(unit, **params):
        model = CPCompletion(
            0, unit=unit, epsilon=2.0, levels=ratings.levels, shape=ratings.shape,
            random_state=0,
        )  # fmt: skip
        found = make_pipeline(CoordinateEncoder(**params), model)
        return found.fit(ratings.data, ratings.target)

    assert privacy_of(pipeline("entry")).guarantee.epsilon <= 2
    assert math.isinf(privacy_of(pipeline(0)).guarantee.epsilon)
    half = pipeline(0, categories=[users, None])
    assert math.isinf(privacy_of(half).guarantee.epsilon)
    report = privacy_of(pipeline(0, categories=[users, items]))
    assert report.guarantee.epsilon <= 2
    assert "declared catalogue of ids is public" in " ".join(report.unprotected)
    search = GridSearchCV(half, {"cpcompletion__epsilon": [1.0]}, cv=2)
    search.fit(ratings.data, ratings.target)
    assert math.isinf(privacy_of(search).guarantee.epsilon)


def test_another_setting_keeps_nothing_of_the_one_before():
    table = np.column_stack([np.arange(6), np.arange(6) * 86400])
    encoder = CoordinateEncoder(freq="D").fit(table)
    encoder.set_params(freq=None, time_bins=3).fit(table)
    assert not hasattr(encoder, "time_start_")
    encoder.set_params(freq="D", time_bins=None).fit(table)
    assert not hasattr(encoder, "time_edges_")


# --- kinds of ids

LARGE = 2**53


def test_large_ids_stay_apart():
    ids = np.array([[LARGE, 1], [LARGE + 1, 2], [LARGE + 2, 3]])
    encoder = CoordinateEncoder().fit(ids)
    assert encoder.shape_ == (3, 3)
    # Signed and unsigned integers are the same ids.
    unsigned = ids.astype(np.uint64)
    np.testing.assert_array_equal(encoder.transform(unsigned), encoder.transform(ids))
    encoder.partial_fit(unsigned + np.uint64(2))
    assert encoder.shape_ == (5, 5)
    assert encoder.transform(ids)[:, 0].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="told apart as floats"):
        CoordinateEncoder(freq="D").fit(np.column_stack([ids[:, 0], [0.0, 1, 2]]))


def test_decimals_are_ids_of_any_size_but_no_fractions():
    large = [[Decimal(1), Decimal(10**40)], [Decimal(2), Decimal(-(10**40))]]
    encoder = CoordinateEncoder().fit(np.array(large))
    assert encoder.transform(np.array(large)).tolist() == [[0, 1], [1, 0]]
    for fraction in ("0.5", "1e-40", "Infinity"):
        with pytest.raises(ValueError, match="numbers with fractions"):
            CoordinateEncoder().fit(np.array([[Decimal(1), Decimal(fraction)]]))


def test_ids_keep_their_kind():
    encoder = CoordinateEncoder().fit([[1, 1], [2, 2]])
    with pytest.raises(ValueError, match="must stay numbers"):
        encoder.partial_fit([["a", "b"]])
    assert encoder.transform([[1, 1], [2, 2]]).tolist() == [[0, 0], [1, 1]]


def test_true_is_not_the_id_one_and_bytes_are_no_text():
    encoder = CoordinateEncoder().fit([[0, "a"], [1, "b"]])
    numbers = CoordinateEncoder().fit([[0, 1], [1, 2]])
    for table in ([[True, "a"]], [[0, b"a"]], [[0, np.bytes_(b"b")]]):
        with pytest.raises(ValueError, match="known ids of column"):
            encoder.transform(np.array(table, dtype=object))
    with pytest.raises(ValueError, match="known ids of column 0 are numbers"):
        numbers.transform(np.array([[True, False]]))
    odd = np.array([[True, "a"]], dtype=object)
    flags = CoordinateEncoder(categories=[[False, True], ["b", "a"]]).fit(odd)
    assert flags.transform(odd).tolist() == [[1, 1]]
    with pytest.raises(ValueError, match="mixes booleans, numbers"):
        CoordinateEncoder(categories=[[1, True], ["a"]]).fit(odd)


@pytest.mark.parametrize(
    "params", [{"freq": "D"}, {"freq": None}, {"freq": None, "time_bins": 2}]
)
def test_bins_keep_their_kind(params):
    encoder = CoordinateEncoder(freq="h").fit([["a", 0], ["a", 7200]])
    with pytest.raises(ValueError, match="those of the first call"):
        encoder.set_params(**params).partial_fit([["a", 9000]])
    assert encoder.shape_ == (1, 3)


def test_a_few_times_that_stand_for_missing_ones_are_told():
    days = pd.date_range("2025-01-01", periods=200, freq="D").to_series()
    table = pd.DataFrame({"user": range(200), "day": days.to_numpy()})
    CoordinateEncoder(freq="D").fit(table)
    table.loc[0, "day"] = pd.Timestamp("1970-01-01")
    for freq in ("D", "W", "M", "Y"):
        with pytest.warns(UserWarning, match="Most bins .* to 2025"):
            CoordinateEncoder(freq=freq).fit(table)
    # Seasons have gaps, too.
    table.loc[0, "day"] = pd.Timestamp("2024-09-01")
    CoordinateEncoder(freq="D").fit(table)
    CoordinateEncoder(freq="M").fit(table)
