"""Recommender.fit of Dask frames: one fit of all rows, which stay where they are."""

import pickle
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp import io
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
)
from sktensordp.privacy import PrivacyBudget
from tests.recommend.test_batches import (
    FILMS,
    KINDS,
    LEVELS,
    PAIRS,
    TABLE,
    USERS,
    batches_of,
    fitted,
    for_entries,
    for_users,
)
from tests.support.budgets import guarantees_of, releases_of
from tests.support.refusing import refused
from tests.support.replaying import recorded
from tests.with_dask.partitions import lazy_frame, read_in_partitions

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("here")]
pd = pytest.importorskip("pandas")
dask = pytest.importorskip("dask.dataframe") and pytest.importorskip("dask")
# One of the partitions is empty.
CUTS = (0, 300, 301, 301, 801, 900)


def in_partitions(table=PAIRS, cuts=CUTS):
    """The table of ids and its values, of one frame of Dask."""
    lazy = lazy_frame(table, cuts)
    return lazy[list(table)[:-1]], lazy[list(table)[-1]]


def changed(change, table=PAIRS):
    """A table whose last rows are changed, in partitions."""
    return in_partitions(pd.concat([table[:800], change(table[800:])]))


def check_same(lazy, expected, table=PAIRS):
    """Both have learned the same ids and predict the same, up to rounding."""
    ids = zip(lazy.encoder_.categories_, expected.encoder_.categories_, strict=True)
    for ours, theirs in ids:
        assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    assert lazy.encoder_.shape_ == expected.encoder_.shape_
    assert lazy.privacy_guarantee_ == expected.privacy_guarantee_
    assert lazy.completion_.perturbation_ == expected.completion_.perturbation_
    assert_array_equal(lazy.feature_names_in_, expected.feature_names_in_)
    assert lazy._fitted.kinds == expected._fitted.kinds
    assert lazy._fitted.frame == expected._fitted.frame
    asked = table.iloc[:, :-1]
    assert_allclose(lazy.predict(asked), expected.predict(asked), rtol=1e-5)


MORE = {
    "items": (
        lambda: Recommender(
            CPCompletion(1, unit=1, levels=LEVELS, epsilon=4.0, random_state=0),
            CoordinateEncoder(categories=[USERS, FILMS[2:]]),
        ),
        PAIRS,
    ),
    "Tucker, users": (
        lambda: for_users(TuckerCompletion(1, unit=0, levels=LEVELS, max_iter=2)),
        PAIRS,
    ),
    "zeros are missing": (
        lambda: for_users(
            CPCompletion(1, unit=0, levels=LEVELS, max_iter=2, missing_values=0)
        ),
        PAIRS.assign(stars=PAIRS["stars"].where(PAIRS.index % 7 > 0, 0)),
    ),
    "users are numbers": (for_users, PAIRS.assign(user=np.arange(900) % 50)),
    "times as text": (
        lambda: for_entries(encoder=CoordinateEncoder(categories=None)),
        TABLE.assign(day=TABLE["day"].dt.second.map("second {}".format)),
    ),
}
LAZY = {kind: KINDS[kind] for kind in KINDS if kind != "choices"} | MORE


@pytest.mark.parametrize("kind", LAZY)
def test_partitions_equal_one_fit_to_all_rows(kind):
    make, table = LAZY[kind]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="At this epsilon and size only")
        with recorded() as releases:
            expected = fitted(make(), table)
        with recorded() as again:
            model = make().fit(*in_partitions(table))
    check_same(model, expected, table)
    # Dask reads partitions in any order.
    assert_array_equal(np.sort(again.flat), np.sort(releases.flat))
    if model.completion_.unit != "entry":
        assert_array_equal(again.flat, releases.flat)
    assert len(releases.flat)


def test_what_is_released_does_not_depend_on_partitions():
    table = PAIRS.sample(frac=1, random_state=1)
    with recorded() as one:
        fitted(for_users())
    for cuts in ((0, 900), (0, 1, 2, 500, 900)):
        with recorded() as other:
            for_users().fit(*in_partitions(table, cuts))
        assert_array_equal(one.flat, other.flat)


def test_users_are_answered_where_their_rows_are_and_forgotten_by_copies():
    lazy, one = for_users().fit(*in_partitions()), fitted(for_users())
    for asked in (USERS[0], [*USERS[5:9], "nobody", None]):
        assert lazy.recommend(asked, k=4).tolist() == one.recommend(asked, k=4).tolist()
    assert (
        lazy.similar_items("film 03").tolist() == one.similar_items("film 03").tolist()
    )
    with refused("After a fit to Dask collections, the workers answer"):
        lazy.forget(USERS[0])
    text = pickle.dumps(lazy)
    assert not any(user.encode() in text for user in USERS)
    served = pickle.loads(text)
    with pytest.warns(UserWarning, match="treated as unknown"):
        unknown = served.recommend(USERS[0], k=4)
    assert unknown.tolist() == one.recommend(None, k=4).tolist()
    own = PAIRS[PAIRS["user"].isin(USERS[:3])]
    served.fold_in(own[["user", "film"]], own["stars"])
    assert (
        served.recommend(USERS[0], k=4).tolist()
        == one.recommend(USERS[0], k=4).tolist()
    )


@pytest.mark.parametrize("make", [for_entries, for_users])
def test_a_file_holds_the_released_model(make, tmp_path):
    pytest.importorskip("safetensors")
    lazy = make().fit(*in_partitions())
    io.dump(lazy, tmp_path / "model")
    loaded = io.load(tmp_path / "model")
    text = Path(tmp_path, "model").read_bytes()
    assert any(user.encode() in text for user in USERS) == (make is for_entries)
    asked = pd.DataFrame({"user": ["nobody"] * 20, "film": FILMS})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_array_equal(loaded.predict(asked), lazy.predict(asked))


def test_items_of_entries_are_not_kept_so_they_cannot_be_left_out():
    lazy, one = for_entries().fit(*in_partitions()), fitted(for_entries())
    with refused("Pass exclude_observed=False"):
        lazy.recommend(USERS[0])
    options = {"k": 5, "exclude_observed": False}
    found = lazy.recommend(USERS[0], **options), one.recommend(USERS[0], **options)
    assert found[0].tolist() == found[1].tolist()


def test_rows_left_out_are_counted_and_teach_no_ids():
    table = PAIRS.copy()
    table.loc[[5, 600], "user"] = "nobody else"
    table.loc[[5, 600], "film"] = "unheard of"
    encoder = CoordinateEncoder(categories=[None, FILMS])
    with pytest.warns(UserWarning, match="^2 rows are left out"):
        model = for_entries(encoder=encoder).fit(*in_partitions(table))
    with pytest.warns(UserWarning, match="^2 rows are left out"):
        expected = fitted(for_entries(encoder=encoder), table)
    assert "nobody else" not in model.encoder_.categories_[0]
    check_same(model, expected)
    strict = for_entries(encoder=encoder).set_params(handle_unknown="error")
    with refused("^2 rows have an id", secret=["nobody", "unheard"]):
        strict.fit(*in_partitions(table))


def test_whether_anybody_is_in_the_data_is_not_told():
    for table in (PAIRS[:0], PAIRS.assign(film="unheard of")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = for_users().fit(*in_partitions(table))
        assert model.privacy_guarantee_.epsilon == pytest.approx(4.0)
        assert len(model.recommend("anybody", k=2)) == 2


def test_no_partition_may_give_protected_ids_another_type():
    numbered = PAIRS.assign(user=np.arange(900) % 50)

    def read(begin, end):
        part = numbered[begin:end]
        return part if begin < 500 else part.astype({"user": str})

    with refused("another type in this batch"):
        for_users().fit(*read_in_partitions(read, (0, 500, 900)))


def test_few_of_the_reserved_rows_take_memory():
    lazy = in_partitions()
    for_users().fit(*lazy)
    tracemalloc.start()
    try:
        for_users().fit(*lazy)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6  # one byte for each would be 2e9


def test_swapped_columns_get_the_warning_of_a_fit():
    swapped = PAIRS.rename(columns={"user": "film", "film": "user"})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Users are taken from the first")
        with pytest.warns(UserWarning, match="Swap them"):
            for_entries().fit(*in_partitions(swapped))


def other_frame():
    X, _ = in_partitions()
    return X, in_partitions(PAIRS, (0, 450, 900))[1].loc[5:]


def arrays():
    X, y = in_partitions()
    return X.to_dask_array(), y


def of_pandas():
    return in_partitions()[0], PAIRS["stars"]


BAD = {
    "NaN": (lambda: changed(lambda t: t.assign(stars=np.nan)), "NaN, infinite or miss"),
    "text": (lambda: changed(lambda t: t.assign(stars="secret")), "must hold numbers"),
    "a missing id": (lambda: changed(lambda t: t.assign(film=None)), "missing"),
    "no rows": (lambda: in_partitions(PAIRS[:0]), "There is nothing to fit"),
    "a column": (lambda: in_partitions(PAIRS[["user", "stars"]]), "needs a column"),
    "another frame": (other_frame, "come from different frames"),
    "an array": (arrays, "X is a Dask array"),
    "values of pandas": (of_pandas, "y must be a column of the same frame"),
    "no values": (lambda: (in_partitions()[0], None), "y must be a column"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_partitions_are_refused_before_anything_is_drawn(name):
    make, message = BAD[name]
    model = for_entries()
    with PrivacyBudget(4.0) as budget:
        with refused(message, (ValueError, TypeError), secret=["secret", "somebody"]):
            model.fit(*make())
        assert not releases_of(budget)
    assert not hasattr(model, "privacy_guarantee_")


REFUSED = {
    "gradient": ({"perturbation": "gradient"}, "is not supported for Dask input"),
    "personal": ({"personal": True}, "call fold_in"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_parameters_are_refused_before_a_partition_is_read(name):
    options, message = REFUSED[name]

    def read(begin, end):
        assert begin == end  # the frame's columns
        return PAIRS[:0]

    with refused(message):
        for_entries(**options).fit(*read_in_partitions(read, (0, 500, 900)))


def test_choices_are_refused_with_the_call_that_works():
    model, (X, _) = for_users(ImplicitCompletion()), in_partitions()
    with refused(r"Pass the partitions as batches: fit_batches\(lambda", TypeError):
        model.fit(X)
    model.fit_batches(lambda: (part.compute() for part in X.to_delayed()))
    one = for_users(ImplicitCompletion()).fit(PAIRS[["user", "film"]])
    assert_array_equal(model.recommend(USERS, k=3), one.recommend(USERS, k=3))


def test_only_a_fit_takes_frames_of_dask():
    X, y = in_partitions()
    model = for_users().fit(X, y)
    for call in (lambda: model.predict(X), lambda: model.fold_in(X, y)):
        with refused("which only `fit` takes. Load it", TypeError):
            call()


CHANGES = {
    "another user": lambda frame: frame.assign(user="somebody new"),
    "another film": lambda frame: frame.assign(film="a new film"),
    "a row less": lambda frame: frame[:-1],
}


def changing(change, reading, folder):
    """A source whose second partition changes at some reading."""
    n_read = Path(folder, "read")

    def read(begin, end):
        frame = PAIRS[begin:end]
        if begin:
            with n_read.open("a") as file:
                file.write("x")
            if n_read.stat().st_size >= reading:
                return CHANGES[change](frame)
        return frame

    return read_in_partitions(read, (0, 500, 900))


@pytest.mark.parametrize("make", [for_entries, for_users])
@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_changes_after_it_was_checked_draws_nothing(
    make, change, tmp_path
):
    with PrivacyBudget(4.0) as budget:
        with refused("partition", (RuntimeError, ValueError), secret=["new"]):
            make().fit(*changing(change, 3, tmp_path))
        assert not releases_of(budget)


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (for_entries, "another user"),
        (for_entries, "another film"),
        (for_users, "another user"),
    ],
)
def test_ids_that_come_after_ids_were_collected_draw_nothing(make, change, tmp_path):
    """A film that is not declared is none, and rows are checked when they are read."""
    with PrivacyBudget(4.0) as budget:
        with refused("no longer holds the ids", RuntimeError, secret=["new"]):
            make().fit(*changing(change, 2, tmp_path))
        assert not releases_of(budget)


def test_budgets_learn_of_published_ids_and_of_one_release():
    with PrivacyBudget(4.0) as budget:
        model = for_entries().fit(*in_partitions())
    assert releases_of(budget) == [(1, "fit of CPCompletion")]
    assert guarantees_of(budget) == [model.privacy_guarantee_]
    assert "CoordinateEncoder publishes" in " ".join(budget.unprotected)


def test_a_refused_fit_leaves_the_earlier_one():
    model = for_users().fit(*in_partitions())
    before, names = model._fitted, model.feature_names_in_
    bad = in_partitions(TABLE.assign(stars=np.inf)[["film", "day", "stars"]])
    with refused("NaN, infinite"):
        model.fit(*bad)
    assert model._fitted is before
    assert_array_equal(model.feature_names_in_, names)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["months", "users"])
def test_processes_find_the_same_and_answer(client, kind):
    make, table = LAZY[kind]
    expected = fitted(make(), table)
    with client.as_current(), dask.config.set(scheduler="distributed"):
        model = make().fit(*in_partitions(table))
        check_same(model, expected, table)
        options = {"k": 4, "exclude_observed": kind == "users"}
        answers = [each.recommend(USERS[:3], **options) for each in (model, expected)]
    assert_array_equal(*answers)


def test_files_of_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    for k, part in enumerate(batches_of(PAIRS, sizes=(400, 200))):
        part.to_parquet(tmp_path / f"{k}.parquet")
    frame = dask.dataframe.read_parquet(tmp_path)
    for make in (for_entries, for_users):
        model = make().fit(frame[["user", "film"]], frame["stars"])
        check_same(model, fitted(make()))
