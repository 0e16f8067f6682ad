"""Recommender.fit_batches: one fit of all rows, read from files and databases."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
)
from sktensordp.datasets import make_ratings
from sktensordp.privacy import PrivacyBudget
from tests.support.budgets import guarantees_of, releases_of
from tests.support.refusing import refused
from tests.support.replaying import recorded

pytestmark = pytest.mark.thorough
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

RATINGS = make_ratings(60, 20, 900, random_state=0)
LEVELS = RATINGS.levels
FILMS = [f"film {k:02d}" for k in range(20)]
# No number that anything else shows.
USERS = [f"somebody-{7919 * k + 100_003}" for k in range(60)]
DAYS = pd.date_range("2024-01-01", periods=900, unit="s")
TABLE = pd.DataFrame({
    "user": [USERS[k] for k in RATINGS.data[:, 0]],
    "film": [FILMS[k] for k in RATINGS.data[:, 1]],
    "day": pd.Series(DAYS).sample(frac=1, random_state=0).to_numpy(),
    "stars": RATINGS.target,
})  # fmt: skip
PAIRS = TABLE.drop(columns="day")


def for_entries(encoder=None, **options):
    options = {"levels": LEVELS, "epsilon": 4.0, "random_state": 0, **options}
    return Recommender(CPCompletion(1, max_iter=2, **options), encoder)


def for_users(completion=None, films=FILMS):
    if completion is None:
        completion = CPCompletion(1, unit=0, levels=LEVELS, max_iter=2)
    completion.set_params(epsilon=4.0, random_state=0)
    return Recommender(completion, CoordinateEncoder(categories=[None, films]))


def by_month():
    return for_entries(encoder=CoordinateEncoder(freq="M"))


def fitted(model, table=PAIRS):
    X, y = table.iloc[:, :-1], table.iloc[:, -1]
    return model.fit(X, y) if hasattr(model, "score") else model.fit(X)


def batches_of(table=PAIRS, sizes=(300, 1, 0, 500)):
    """Batches of these sizes, an empty one among them, and the rest."""
    ends = np.cumsum([0, *sizes])
    parts = [table.iloc[a : a + n] for a, n in zip(ends, sizes, strict=False)]
    return [*parts, table.iloc[ends[-1] :]]


def assert_same(one, two, table=PAIRS):
    """Both have learned the same ids, and predict the same to the last bit."""
    ids = zip(one.encoder_.categories_, two.encoder_.categories_, strict=True)
    for ours, theirs in ids:
        assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    assert one.encoder_.shape_ == two.encoder_.shape_
    assert one.privacy_guarantee_ == two.privacy_guarantee_
    asked = table.iloc[:, :-1]
    assert_array_equal(one.predict(asked), two.predict(asked))
    user = table.iloc[0, 0]
    assert one.recommend(user, k=5).tolist() == two.recommend(user, k=5).tolist()
    assert one._fitted.kinds == two._fitted.kinds
    assert one._fitted.frame == two._fitted.frame


KINDS = {
    "values": (for_entries, PAIRS),
    "Tucker": (
        lambda: Recommender(
            TuckerCompletion(1, levels=LEVELS, random_state=0, max_iter=2)
        ),
        PAIRS,
    ),
    "months": (by_month, TABLE),
    "bins": (lambda: for_entries(encoder=CoordinateEncoder(time_bins=4)), TABLE),
    "scale found": (lambda: for_entries(levels=None, epsilon=8.0), PAIRS),
    "users": (for_users, PAIRS),
    "users, some films": (lambda: for_users(films=FILMS[3:]), PAIRS),
    "choices": (lambda: for_users(ImplicitCompletion(), FILMS[3:]), PAIRS),
    "numbers": (for_entries, PAIRS.assign(user=RATINGS.data[:, 0] * 3 + 2)),
    "float32": (for_entries, PAIRS.astype({"stars": np.float32})),
}


@pytest.mark.parametrize("kind", KINDS)
def test_batches_equal_one_fit_to_all_rows(kind):
    make, table = KINDS[kind]
    with recorded() as releases:
        expected = fitted(make(), table)
    has_values = hasattr(make(), "score")
    parts = batches_of(table if has_values else table[["user", "film"]])
    with recorded() as again:
        model = make().fit_batches(parts)
    assert_same(model, expected, table)
    assert_array_equal(releases.flat, again.flat)
    assert len(releases.flat) or kind == "values"


def as_arrow(part):
    pa = pytest.importorskip("pyarrow")
    return pa.RecordBatch.from_pandas(part, preserve_index=False)


FORMS = {
    "pandas": lambda part: part,
    "polars": pl.from_pandas,
    "Arrow": as_arrow,
    "Arrow pairs": lambda part: (as_arrow(part).select([0, 1]), as_arrow(part)[2]),
    "pairs": lambda part: (part[["user", "film"]], part["stars"]),
    "arrays": lambda part: (
        part[["user", "film"]].to_numpy(dtype=str),
        part["stars"].to_numpy(),
    ),
    "lists": lambda part: [
        part[["user", "film"]].to_numpy().tolist(),
        part["stars"].tolist(),
    ],
}


@pytest.mark.parametrize("make", [for_entries, for_users])
@pytest.mark.parametrize("form", FORMS)
def test_batches_have_many_forms(form, make):
    parts = [FORMS[form](part) for part in batches_of() if len(part)]
    model, expected = make().fit_batches(parts), fitted(make())
    asked = PAIRS[["user", "film"]]
    if form in ("arrays", "lists"):
        asked = asked.to_numpy(dtype=str)
    elif form == "polars":
        asked = pl.from_pandas(asked)
    assert_array_equal(model.predict(asked), expected.predict(PAIRS[["user", "film"]]))


@pytest.mark.parametrize("kind", [tuple, iter, lambda parts: partial(iter, parts)])
def test_batches_are_any_iterable_or_a_function_that_returns_one(kind):
    model = for_entries().fit_batches(kind(batches_of()))
    assert_same(model, fitted(for_entries()))


def test_a_function_is_called_again_in_every_fit():
    model = for_entries(epsilon=np.inf)
    for table in (PAIRS, PAIRS[:500]):
        model.fit_batches(lambda table=table: iter(batches_of(table)))
        assert_same(model, fitted(for_entries(epsilon=np.inf), table), table)


def test_the_caller_may_use_the_memory_again():
    values = np.empty(300)
    ids = np.empty((300, 2), dtype=object)

    def reusing_memory():
        for part in batches_of(sizes=(300, 300)):
            ids[:], values[:] = part.iloc[:, :2].to_numpy(), part["stars"]
            yield ids, values

    expected = for_entries().fit(PAIRS.iloc[:, :2].to_numpy(), PAIRS["stars"])
    model = for_entries().fit_batches(reusing_memory())
    asked = PAIRS.iloc[:, :2].to_numpy()
    assert_array_equal(model.predict(asked), expected.predict(asked))


def test_types_of_public_ids_may_differ_between_batches_if_they_are_of_a_kind():
    numbered = PAIRS.assign(user=RATINGS.data[:, 0] + 2)
    parts = batches_of(numbered)
    parts[1] = parts[1].astype({"user": float})
    parts[3] = parts[3].astype({"user": np.uint8})
    model, expected = for_entries().fit_batches(parts), fitted(for_entries(), numbered)
    asked = numbered.iloc[:, :2]
    assert_array_equal(model.predict(asked), expected.predict(asked))


def test_rows_left_out_are_counted_and_teach_no_ids():
    table = PAIRS.copy()
    table.loc[[5, 600], "user"] = "nobody else"
    table.loc[[5, 600], "film"] = "unheard of"
    encoder = CoordinateEncoder(categories=[None, FILMS])
    with pytest.warns(UserWarning, match="^2 rows are left out"):
        model = for_entries(encoder=encoder).fit_batches(batches_of(table))
    with pytest.warns(UserWarning, match="^2 rows are left out"):
        expected = fitted(for_entries(encoder=encoder), table)
    assert "nobody else" not in model.encoder_.categories_[0]
    assert_same(model, expected)
    strict = for_entries(encoder=encoder).set_params(handle_unknown="error")
    with refused("^2 rows have an id", secret=["nobody", "unheard"]):
        strict.fit_batches(batches_of(table))


@pytest.mark.parametrize(
    "completion",
    [CPCompletion(1, unit=0, levels=LEVELS), ImplicitCompletion()],
)
def test_whether_anybody_is_in_the_data_is_not_told(completion):
    table = PAIRS[:0] if hasattr(completion, "score") else PAIRS[["user", "film"]][:0]
    for batches in ([table], [table, table]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = for_users(completion).fit_batches(batches)
        assert model.privacy_guarantee_.epsilon == pytest.approx(4.0)
        assert len(model.recommend("anybody", k=2)) == 2


def test_a_pickle_holds_no_user():
    model = for_users().fit_batches(batches_of())
    assert not any(user.encode() in pickle.dumps(model) for user in USERS)


@pytest.mark.filterwarnings("ignore:Users are taken from the first column")
def test_swapped_columns_get_the_warning_of_a_fit():
    names = {"user": "film", "film": "user"}
    swapped = PAIRS.rename(columns=names)
    with pytest.warns(UserWarning, match="Swap them"):
        for_entries().fit_batches(batches_of(swapped))


def with_last(change, table=PAIRS):
    *first, last = batches_of(table)
    return [*first, change(last)]


def half_way():
    yield PAIRS[:100]
    raise OSError("the disk is gone")


BAD = {
    "no batch": ([], "batches is empty"),
    "read before": (iter([]), "batches is empty"),
    "no rows": ([PAIRS[:0]], "no batch holds a row"),
    "other order": (
        with_last(lambda t: t[["film", "user", "stars"]]),
        "must be in the same order",
    ),
    "a column less": (with_last(lambda t: t[["user", "stars"]]), "whose last column"),
    "a column more": (
        with_last(lambda t: TABLE.loc[t.index].rename(columns={"day": "shop"})),
        "seen at fit time",
    ),
    "other names": (with_last(lambda t: t.rename(columns={"film": "x"})), "names"),
    "NaN": (with_last(lambda t: t.assign(stars=np.nan)), "NaN, infinite or missing"),
    "text": (with_last(lambda t: t.assign(stars="secret")), "must hold numbers"),
    "times last": (
        [TABLE[["user", "film", "stars", "day"]]],
        "'day', holds times.*values last",
    ),
    "a missing id": (with_last(lambda t: t.assign(film=None)), "missing"),
    "text and numbers": (with_last(lambda t: t.assign(user=17)), "all strings or all"),
    "another length": ([(PAIRS.iloc[:, :2], [1.0])], "same length"),
    "no array": ([None], "pair"),
    "an array": ([PAIRS.to_numpy()], "pair"),
    "a number": ([3], "pair"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_batch_is_refused_before_anything_is_drawn(name):
    batches, message = BAD[name]
    model = for_entries()
    with refused(message, (ValueError, TypeError), secret=["secret", "somebody"]):
        model.fit_batches(batches)
    assert not hasattr(model, "privacy_guarantee_")


def test_a_column_that_is_not_named_as_values_is_warned_of():
    backwards = PAIRS.assign(stars=1).iloc[:, ::-1]
    for batch in (PAIRS.rename(columns={"stars": "time"}), backwards):
        with pytest.warns(match=f"is read as the values.*named '{batch.columns[-1]}'"):
            for_entries().fit_batches([batch.assign(**{batch.columns[-1]: 1.0})])
    for_entries().fit_batches([PAIRS.rename(columns={"stars": "film_rating"})])


BAD_TABLES = {
    "a frame": PAIRS,
    "polars": pl.from_pandas(PAIRS),
    "an array": PAIRS.to_numpy(),
    "a path": "ratings.parquet",
    "a number": 3,
    "None": None,
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_what_is_no_iterable_of_tables_is_refused(name):
    with refused("batches must be an iterable of tables", TypeError):
        for_entries().fit_batches(BAD_TABLES[name])


def test_a_source_that_fails_half_way_draws_nothing():
    with refused("the disk is gone", OSError):
        for_entries().fit_batches(half_way())


def test_an_iterator_that_was_read_is_not_taken_for_an_empty_table():
    batches = iter(batches_of())
    for_users().fit_batches(batches)
    with refused("Pass a function that returns a new one"):
        for_users().fit_batches(batches)


def test_no_batch_may_give_protected_ids_another_type():
    """Otherwise one odd id, which changes the type, would make two users of one."""
    numbered = PAIRS.assign(user=RATINGS.data[:, 0])
    parts = batches_of(numbered)
    parts[-1] = parts[-1].astype({"user": str})
    with refused("another type in this batch"):
        for_users().fit_batches(parts)


def test_one_protected_id_of_another_kind_is_unknown_and_not_refused():
    """In lists, each id keeps its type, and an odd item is one that is not declared."""
    rows = PAIRS[["user", "film"]].to_numpy().tolist()
    rows[800] = [USERS[0], 17]
    batches = [(rows[:500], PAIRS["stars"][:500]), (rows[500:], PAIRS["stars"][500:])]
    with recorded() as releases:
        for_users().fit_batches(batches)
    with recorded() as expected:
        for_users().fit(rows, PAIRS["stars"])
    assert_array_equal(releases.flat, expected.flat)


def test_budgets_learn_of_published_ids_and_of_one_release():
    for table in (PAIRS, None):
        with PrivacyBudget(4.0) as budget:
            model = for_entries()
            if table is None:
                model.fit_batches(batches_of())
            else:
                fitted(model, table)
        assert releases_of(budget) == [(1, "fit of CPCompletion")]
        assert guarantees_of(budget) == [model.privacy_guarantee_]
        assert "CoordinateEncoder publishes" in " ".join(budget.unprotected)


def test_a_refused_fit_leaves_the_earlier_one():
    model = for_users().fit_batches(batches_of())
    before, names = model._fitted, model.feature_names_in_
    with refused("same length"):
        model.fit_batches([(TABLE[["film", "day"]], [1.0])])
    assert model._fitted is before
    assert_array_equal(model.feature_names_in_, names)


# --- files and databases -------------------------------------------------------------


def test_chunks_of_a_large_csv_file(tmp_path):
    path = tmp_path / "ratings.csv"
    PAIRS.to_csv(path, index=False)
    model = for_entries().fit_batches(lambda: pd.read_csv(path, chunksize=250))
    assert_same(model, fitted(for_entries()))


@pytest.mark.parametrize("is_private", [False, True])
def test_row_groups_of_a_parquet_data_set(tmp_path, is_private):
    parquet = pytest.importorskip("pyarrow.parquet")
    data_sets = pytest.importorskip("pyarrow.dataset")
    for k, part in enumerate(batches_of(TABLE, sizes=(400,))):
        path = tmp_path / f"{k}.parquet"
        table = pytest.importorskip("pyarrow").Table.from_pandas(part)
        parquet.write_table(table, path, row_group_size=150)
    columns = ["user", "film", "stars"] if is_private else list(TABLE)
    ratings = data_sets.dataset(tmp_path)
    model = (for_users() if is_private else by_month()).fit_batches(
        lambda: ratings.to_batches(columns=columns)
    )
    expected = fitted(for_users(), PAIRS) if is_private else fitted(by_month(), TABLE)
    assert_same(model, expected, PAIRS if is_private else TABLE)


def test_a_query_that_has_not_run_is_refused_with_the_call_that_runs_it():
    query = pytest.importorskip("duckdb").sql("SELECT 'ann' u, 'Heat' f, 4 stars")
    with refused("lambda: relation.to_arrow_reader", TypeError):
        for_entries().fit_batches(query)


@pytest.mark.parametrize("is_private", [False, True])
def test_a_query_to_a_database_file(tmp_path, is_private):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(path) as database:
        database.register("given", TABLE)
        types = "day::DATE AS day, stars::DECIMAL(3, 1) AS stars"
        database.execute(
            f"CREATE TABLE ratings AS SELECT * REPLACE ({types}) FROM given"
        )
    columns = "user, film, stars" if is_private else "*"
    with duckdb.connect(path, read_only=True) as database:
        query = partial(database.sql, f"SELECT {columns} FROM ratings")
        model = (for_users() if is_private else by_month()).fit_batches(
            lambda: query().to_arrow_reader(128)
        )
    expected = fitted(for_users(), PAIRS) if is_private else fitted(by_month(), TABLE)
    assert_same(model, expected, PAIRS if is_private else TABLE)
