"""What was once accepted in silence, or refused for a wrong reason; and what is right.

Each wrong use is refused or said, in at most five lines and with at most three ids.
Beside it stand right uses that look alike, in which nothing is said.
"""

import math
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline

from sktensordp.audit import audit_mechanism
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
)
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import AveragesOnlyWarning, NoiseOnlyWarning
from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    TensorRandomizedResponse,
)
from sktensordp.plotting import PrivacyUtilityDisplay
from sktensordp.privacy import PrivacyBudget
from tests.first_hour.films import FILMS, SHAPE, STARS, TABLE, WIDE, X, Y, cp
from tests.support.every_estimator import EVERY
from tests.support.public import annotated
from tests.support.seams import (
    ReleasedMean,
    declared_domain,
    warn_of_edge,
    warn_of_repeats,
)

pytestmark = pytest.mark.thorough


def for_users(categories=(None, range(40)), **params):
    encoder = CoordinateEncoder(categories=list(categories))
    return Recommender(cp(unit=0, **params), encoder)


@pytest.fixture(scope="module")
def fitted():
    return {
        "coordinates": cp().fit(X, Y),
        "ids": Recommender(cp()).fit(TABLE, Y),
        "protected ids": for_users().fit(TABLE, Y),
        "choices": ImplicitCompletion(epsilon=math.inf, shape=SHAPE).fit(X),
    }


def refused(call, said, kind=(AttributeError, TypeError, ValueError)):
    """The message of an error: short, about what is wrong."""
    with PrivacyBudget(1e-9, 1e-12), pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert re.search(said, message), message
    assert message.count("\n") < 5
    assert len(message) < 400
    return message


def in_silence(call):
    with warnings.catch_warnings(action="error"):
        return call()


# --- a probability, a budget and an output that nobody meant --------------------------


@pytest.mark.parametrize(
    "model",
    [
        GaussianMechanism(1.0, delta=0.5, bounds=(0, 1)),
        cp(unit=0, shape=SHAPE, delta=0.2),
        ImplicitCompletion(shape=SHAPE, epsilon=50.0, delta=0.5, max_items=0),
    ],
)
def test_admitted_that_everything_is_revealed(model):
    with pytest.warns(UserWarning, match=r"delta = 0\..* lets .*such as 1e-6"):
        model.fit(X, *[Y] * isinstance(model, CPCompletion))
    in_silence(lambda: GaussianMechanism(1.0, delta=1e-3, bounds=(0, 1)).fit(X))


@pytest.mark.parametrize("value", [True, False, np.bool_(True)])
def test_switched_a_budget_on(value):
    for call in (lambda: PrivacyBudget(value), lambda: PrivacyBudget(1.0, value)):
        with pytest.raises(TypeError, match="must be one number, got bool"):
            call()
    guarantee = LaplaceMechanism(1.0, bounds=(0, 1)).fit(X).privacy_guarantee_
    with pytest.raises(TypeError, match="must be one number"):
        guarantee.epsilon_at(value)


def test_read_that_means_of_levels_are_biased():
    noisy = TensorRandomizedResponse(1.0, bounds=(0, 1), debias=False, random_state=0)
    assert noisy.fit_transform(np.zeros((5000, 1))).mean() > 0.25
    assert "pulled towards the middle" in " ".join(noisy.__doc__.split())


def test_completed_a_wide_frame_and_got_one_back():
    model = cp().set_output(transform="pandas")
    completed = in_silence(lambda: model.fit_transform(WIDE))
    assert completed.index.equals(WIDE.index)
    assert completed.columns.equals(WIDE.columns)
    assert not completed.isna().any().any()
    assert model.get_feature_names_out().tolist() == WIDE.columns.tolist()
    with config_context(transform_output="pandas"):
        assert isinstance(cp().fit_transform(WIDE), pd.DataFrame)
    assert isinstance(cp().fit_transform(WIDE), np.ndarray)
    by_items = WIDE.T
    model = cp(unit=1, shape=by_items.shape).fit(by_items)
    # The columns are protected users: a pickle does not name them.
    assert model.get_feature_names_out().tolist()[:2] == ["x0", "x1"]
    assert in_silence(lambda: cp().fit(WIDE.astype("Float64"))).shape_ == WIDE.shape


# --- folds without the largest index --------------------------------------------------


@pytest.mark.parametrize("form", [CPCompletion, TuckerCompletion])
def test_searched_where_a_fold_lacks_the_largest_index(form):
    where, values = np.append(X, [[75, 51]], axis=0), np.append(Y, 3.0)
    model = form(0, epsilon=8.0, levels=STARS, random_state=0)
    with PrivacyBudget(24.0):
        scores = in_silence(
            lambda: cross_val_score(
                model, where, values, cv=KFold(3), error_score="raise"
            )
        )
    assert np.all(np.isfinite(scores))
    model.fit(X, Y)
    beyond, unknown = [[75, 3], [3, 51], [2**31 - 2] * 2], [[-1, 3], [3, -1], [-1, -1]]
    np.testing.assert_array_equal(model.predict(beyond), model.predict(unknown))
    np.testing.assert_array_equal(model.recommend(75), model.recommend(-1))
    model.set_params(shape=SHAPE).fit(X, Y)
    for call in (lambda: model.predict(beyond), lambda: model.recommend(75)):
        with pytest.raises(ValueError, match="outside the tensor"):
            call()


# --- ids of every type ----------------------------------------------------------------

HASHES = np.array([2**63 + 5, 7, 2**64 - 1, 7], dtype=np.uint64)
ITEMS = np.array([-1, 2, 3, 2**62 + 1])
MIXED = {
    "unsigned next to signed": pd.DataFrame({"u": HASHES, "i": ITEMS}),
    "next to floats": pd.DataFrame({"u": HASHES, "i": [1.0, 2.0, 3.0, 4.0]}),
    "next to text": pd.DataFrame({"u": HASHES, "i": list("abcd")}),
    "nullable": pd.DataFrame({"u": HASHES, "i": ITEMS}).astype(
        {"u": "UInt64", "i": "Int64"}
    ),
    "polars": pl.DataFrame({"u": HASHES, "i": ITEMS}),
    "list of rows": list(map(list, zip(HASHES.tolist(), ITEMS.tolist(), strict=True))),
}


@pytest.mark.parametrize("table", MIXED.values(), ids=MIXED)
def test_had_columns_of_integers_of_several_types(table):
    encoder = CoordinateEncoder()
    where = in_silence(lambda: encoder.fit(table).transform(table))
    assert where[:, 0].tolist() == [1, 0, 2, 0]
    assert len(set(where[:, 1])) == 4
    back = encoder.inverse_transform(where)
    assert back[:, 0].tolist() == HASHES.tolist()
    model = Recommender(cp()).fit(table, [1, 2, 3, 4])
    # Of four items, this user has one.
    assert model.recommend(2**64 - 1, k=9).tolist().count(None) == 1
    # Another column of the same numbers, near 2**64, is of one float.
    users = [np.array([2**64 - 2], dtype=object), model.encoder_.categories_[1][:1]]
    assert model.encoder_.encode(users).tolist() == [[-1, 0]]


def test_had_integers_and_times():
    table = MIXED["unsigned next to signed"].assign(when=[0.0, 1.0, 86_400.0, 2.0])
    assert CoordinateEncoder(freq="D").fit(table).shape_ == (3, 4, 2)
    table["when"] = pd.to_datetime(table["when"], unit="s")
    assert CoordinateEncoder(freq="D").fit(table).shape_ == (3, 4, 2)
    assert CoordinateEncoder(freq="D").fit(pl.DataFrame(table)).shape_ == (3, 4, 2)


def test_had_a_float_that_no_column_can_tell_apart():
    refused(lambda: CoordinateEncoder().fit([[2**60 + 1.0, 2]]), "cannot be told apart")


@pytest.mark.parametrize("kind", [tuple, list, set, np.array])
def test_had_ids_of_several_parts(kind):
    parts = pd.Series([kind(["a", k]) for k in (1, 2, 1)], dtype=object)
    table = pd.DataFrame({"u": parts, "i": [1, 2, 3]})
    for model in (Recommender(cp()), CoordinateEncoder(freq="D")):
        refused(lambda m=model: m.fit(table, [1, 2, 3]), "Some ids are tuples")
    joined = table.assign(u=["a-1", "a-2", "a-1"])
    assert in_silence(lambda: Recommender(cp()).fit(joined, [1, 2, 3])).encoder_.shape_


def test_had_protected_ids_of_several_parts():
    """A refusal would tell of them, so they are users like any others."""
    table = TABLE.assign(user=[("a", k) for k in X[:, 0]])
    model, same = for_users().fit(table, Y), for_users().fit(TABLE, Y)
    first = X[0, 0]
    found = in_silence(lambda: model.recommend([("a", first), ("a", 10**6)], k=40))
    known = same.recommend([first, 10**6], k=40)
    for own, expected in zip(found, known, strict=True):
        assert sorted(map(str, own)) == sorted(map(str, expected))


# --- containers -----------------------------------------------------------------------


FITS = {
    "coordinates": lambda X: cp().fit(X, Y),
    "ids": lambda X: Recommender(cp()).fit(X, Y),
    "protected ids": lambda X: for_users().fit(X, Y),
    "encoder": lambda X: CoordinateEncoder().fit(X),
    "choices": lambda X: ImplicitCompletion(shape=SHAPE).fit(X),
    "mechanism": lambda X: LaplaceMechanism(1.0, bounds=(0, 60)).fit(X),
}


@pytest.mark.filterwarnings("ignore::polars.exceptions.PerformanceWarning")
@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_passed_a_container_that_is_no_table(fit):
    lazy = pl.DataFrame(TABLE).lazy()
    refused(lambda: fit(lazy), r"is a LazyFrame.*X\.collect\(\)", TypeError)
    refused(lambda: fit(TABLE.to_dict("list")), "is a dict.*DataFrame", TypeError)
    refused(lambda: fit(iter(X.tolist())), "Pass an array, list or frame", TypeError)
    refused(lambda: fit(set(map(tuple, X.tolist()))), "is a set", TypeError)


EMPTY = {
    "floats": WIDE,
    "nullable": WIDE.astype("Float64"),
    "objects": WIDE.astype(object).where(WIDE.notna(), pd.NA),
}


@pytest.mark.parametrize("table", EMPTY.values(), ids=EMPTY)
def test_left_entries_of_a_frame_empty(table):
    assert cp().fit(table).shape_ == WIDE.shape
    laplace = LaplaceMechanism(1.0, bounds=(0, 5)).fit(table.fillna(0.0))
    refused(lambda: laplace.transform(table), r"X\.isna\(\)\.any\(\) shows", ValueError)


# --- requests of nothing --------------------------------------------------------------


@pytest.mark.parametrize("which", ["coordinates", "ids", "protected ids", "choices"])
def test_asked_for_nothing(fitted, which):
    model = fitted[which]
    frame = TABLE if hasattr(model, "feature_names_in_") else None
    nothing = [[], *([frame[:0]] if frame is not None else [X[:0]])]
    for empty in nothing:
        assert in_silence(lambda empty=empty: model.predict(empty)).shape == (0,)
    for empty in ([], np.zeros(0, dtype=int)):
        found = in_silence(lambda empty=empty: model.recommend(empty, k=3))
        assert found.shape == (0, 3)


def test_encoded_nothing():
    encoder = CoordinateEncoder(freq="D").fit([["a", "b", 0]])
    assert encoder.transform(np.zeros((0, 3), dtype=object)).shape == (0, 3)
    refused(lambda: CoordinateEncoder().fit(np.zeros((0, 2))), "0 sample")


# --- what messages name ---------------------------------------------------------------


def test_counted_columns():
    refused(lambda: for_users([None, FILMS, FILMS]).fit(TABLE, Y), "2 columns.*got 3")
    refused(lambda: CoordinateEncoder(categories=[FILMS]).fit(TABLE), "2 col.*got 1")


COUNTS = {
    "rank": lambda: cp(2.0).fit(X, Y),
    "max_iter": lambda: cp(max_iter=2.0).fit(X, Y),
    "max_items": lambda: ImplicitCompletion(shape=SHAPE, max_items=2.0).fit(X),
    "time_bins": lambda: CoordinateEncoder(time_bins=2.0).fit(X),
    "n_levels": lambda: TensorRandomizedResponse(n_levels=2.0, bounds=(0, 1)).fit(X),
}


@pytest.mark.parametrize("name", COUNTS)
def test_passed_a_count_as_a_float(name):
    refused(COUNTS[name], rf"'{name}' parameter .* must be an int .* Pass 2\.")


@pytest.mark.parametrize("case", EVERY)
def test_passed_a_parameter_that_is_not_there(case):
    kind = type(case.estimator)
    refused(lambda: kind(n_job=2), r"\.__init__\(\) got an unexp.* 'n_job'")


@pytest.mark.parametrize("case", EVERY)
def test_asked_for_an_attribute_before_the_fit(case):
    estimator = case.fresh()
    fitted = case.fresh().fit(*case.data)
    names = {*dir(type(estimator)), *annotated(type(estimator)), *vars(fitted)}
    names = {name for name in names if name.endswith("_") and name[0] != "_"}
    for name in names:
        with pytest.raises(NotFittedError, match=f"{name} .*not fitted yet"):
            getattr(estimator, name)
        assert not hasattr(estimator, name)
    for one in (estimator, fitted):
        with pytest.raises(AttributeError, match="'shape__'") as caught:
            one.shape__  # noqa: B018
        assert not isinstance(caught.value, NotFittedError)


def test_asked_for_an_attribute_that_another_fit_has():
    model = cp(perturbation="sums").fit(X, Y)
    with pytest.raises(AttributeError, match='needs a fit with perturbation="input"'):
        _ = model.residual_variance_


TITLES = [f"The rather long title of film number {k}" for k in range(40)]


def test_searched_a_parameter_that_is_not_there():
    encoder = CoordinateEncoder(categories=[None, TITLES])
    table = TABLE.assign(film=np.array(TITLES)[X[:, 1]])
    search = GridSearchCV(Recommender(cp(), encoder), {"rank": [0, 1]}, cv=2)
    message = refused(lambda: search.fit(table, Y), "Invalid parameter 'rank'")
    assert "title" not in message
    search.set_params(param_grid={"completion__rank": [0, 1]})
    with PrivacyBudget(100.0):
        in_silence(lambda: search.fit(table, Y))


CATALOGUES = {
    "another parameter": lambda e: e.set_params(bins=3),
    "text among numbers": lambda e: e.fit(TABLE),
    "unknown ids": lambda e: e.fit(TABLE.assign(film="Heat")),
    "three columns": lambda e: e.fit(TABLE.assign(film="Heat", more=1)),
    "a wrong frequency": lambda e: e.set_params(freq="month").fit(TABLE),
    "no catalogue": lambda e: e.set_params(categories=TITLES).fit(TABLE),
    "a dict of them": lambda e: e.set_params(categories={1: TITLES}).fit(TABLE),
    "before a fit": lambda e: e.transform(TABLE),
}


@pytest.mark.parametrize("call", CATALOGUES.values(), ids=CATALOGUES)
def test_read_a_message_about_a_catalogue(call):
    encoder = CoordinateEncoder(categories=[None, TITLES])
    message = refused(lambda: call(encoder), "")
    assert message.count("title of film") <= 3


def test_drew_a_search_that_was_not_fitted():
    search = GridSearchCV(cp(), {"epsilon": [1.0, 2.0]}, cv=2)
    refused(lambda: PrivacyUtilityDisplay.from_search(search), "not fitted yet")


def test_asked_with_a_list_and_was_told_once(fitted):
    for model in (
        fitted["ids"],
        fitted["protected ids"],
        make_pipeline(CoordinateEncoder(), cp()).fit(TABLE, Y),
    ):
        with warnings.catch_warnings(record=True, action="always") as caught:
            model.predict([[3, 4]])
        assert len(caught) == 1
    with pytest.raises(ValueError, match="feature names should match"):
        fitted["ids"].predict(TABLE[["film", "user"]])


@pytest.mark.parametrize("scale", [1.0, 2.0**-30, 1 / 3])
def test_audited_a_mechanism_without_noise(scale):
    def bare(x, n):
        return np.tile(scale * np.asarray(x), (n, 1))

    report = audit_mechanism(
        bare, [0.1], [0.1 + 2.0**-52], epsilon=1.0, n_trials=400, batched=True
    )
    assert report.violated
    assert "there is no noise" in report.finding


# --- the order of columns -------------------------------------------------------------


def shop():
    """Every one of 600 people buys a few of 200 goods, most of all a bestseller."""
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(600), rng.integers(2, 7, 600))
    goods = np.minimum(rng.zipf(1.4, len(users)), 200) - 1
    return np.unique(np.column_stack([users, goods]), axis=0)


SHOP = shop()
HEADERS = [
    ("asin", "reviewerID"), ("sku", "buyer"), ("isbn", "kunde_id"),
    ("movieId", "userId"),
    ("produkt", "Kunden"), ("itemids", "member"),
    ("Artikelnummer", "Kundennummer"),
]  # fmt: skip
UNNAMED = [("a", "b"), ("product", "who"), ("what", "customer"), (0, 1)]


def of_shop(names, swapped, unit="entry"):
    where = SHOP[:, ::-1] if swapped else SHOP
    frame = pd.DataFrame(where, columns=list(names))
    encoder = CoordinateEncoder()
    if unit == 0:
        encoder.set_params(categories=[None, range(600)])
    completion = cp(unit=unit)
    return Recommender(completion, encoder).fit(
        frame if isinstance(names[0], str) else where, 1 + np.arange(len(where)) % 5
    )


@pytest.mark.parametrize("unit", ["entry", 0])
@pytest.mark.parametrize("names", HEADERS)
def test_put_items_first_and_the_headers_say_so(names, unit):
    with pytest.warns(UserWarning, match="Swap them or, if they are right, name them"):
        of_shop(names, swapped=True, unit=unit)
    in_silence(lambda: of_shop(names[::-1], swapped=False, unit=unit))


def test_put_a_context_first():
    table = TABLE.assign(month=np.arange(600) % 7)
    with pytest.warns(UserWarning, match="the first is 'month' and the second 'user'"):
        Recommender(cp()).fit(table[["month", "user", "film"]], Y)
    in_silence(lambda: Recommender(cp()).fit(table, Y))


@pytest.mark.parametrize("names", UNNAMED)
def test_put_items_first_and_the_entries_say_so(names):
    with pytest.warns(UserWarning, match="Users are taken from the first column"):
        of_shop(names, swapped=True)
    in_silence(lambda: of_shop(names[::-1], swapped=False))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sizes", [(60, 40, 600), (400, 30, 4000), (100, 500, 5000)])
def test_put_users_first(sizes, seed):
    data = make_ratings(*sizes, random_state=seed)
    in_silence(lambda: Recommender(cp()).fit(data.data, data.target))


def test_put_items_first_where_users_are_protected():
    """Numbers of entries are private there, and have no say."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        of_shop(("a", "b"), swapped=True, unit=0)
    assert not [one for one in caught if "Swap them" in str(one.message)]


TITLED = [["ann", "Heat"], ["ann", "Up"], ["bob", "Heat"], ["eve", "Brazil"]]


@pytest.mark.parametrize("unit", ["entry", 0])
def test_asked_for_an_item(unit):
    encoder = CoordinateEncoder(categories=[None, ["Brazil", "Heat", "Up"]])
    model = Recommender(cp(unit=unit), encoder)
    with warnings.catch_warnings(action="ignore"):
        model.fit(TITLED, [5, 1, 4, 3])
    for asked in ("Heat", ["ann", "Up"]):
        with pytest.warns(UserWarning, match="but recommend takes users"):
            model.recommend(asked)
    in_silence(lambda: model.recommend(["ann", "nobody", None]))
    # At a unit, whether the id is also a user has no say.
    model.fit([*TITLED, ["Heat", "Up"]], [5, 1, 4, 3, 2])
    if unit == 0:
        with pytest.warns(UserWarning, match="are ids of items"):
            model.recommend("Heat")
    else:
        in_silence(lambda: model.recommend("Heat"))


def test_asked_for_numbers_that_are_users_and_items(fitted):
    for which in ("ids", "protected ids"):
        in_silence(lambda which=which: fitted[which].recommend([3, 59]))


# --- declared lists -------------------------------------------------------------------

MISSING = {
    "nan": [1.0, 2.0, np.nan], "None": [1, None, 2], "NA": [1, pd.NA, 2],
    "series": pd.Series([1.0, np.nan]),
    "nullable": pd.Series([1, pd.NA], dtype="Int64"),
    "polars": pl.Series([1, None]), "array": np.array([1.0, np.nan]),
    "NaT": [pd.NaT, pd.Timestamp("2026-01-01")], "text": ["a", None],
    "text and nan": ["a", np.nan],
}  # fmt: skip
UNORDERED = {
    "set": {1, 2, 3}, "frozenset": frozenset([1, 2]), "dict": {1: 2, 2: 3},
    "keys": {1: 2, 2: 3}.keys(), "generator": (k for k in range(3)),
}  # fmt: skip
WIDE_LISTS = {
    "column": [[1], [2]], "frame": pd.DataFrame({"a": [1, 2]}), "row": np.ones((1, 3)),
}  # fmt: skip
DECLARED = {
    "catalogue": lambda v: CoordinateEncoder(categories=[None, v]).fit(X),
    "protected catalogue": lambda v: for_users([None, v]).fit(TABLE, Y),
    "shape": lambda v: CoordinateEncoder(categories=[range(3), v]).declared_shape,
    "levels": lambda v: cp(levels=v).fit(X, Y),
    "prior": lambda v: cp(level_prior=v).fit(X, Y),
    "features": lambda v: cp(side_information={1: v}).fit(X, Y),
}
PLAIN_LISTS = [name for name in DECLARED if name != "features"]


@pytest.mark.parametrize("values", MISSING.values(), ids=MISSING)
@pytest.mark.parametrize("declare", DECLARED.values(), ids=DECLARED)
def test_declared_a_list_with_gaps(declare, values):
    refused(lambda: declare(values), "has missing entries|hold numbers|of numbers")


@pytest.mark.parametrize("values", UNORDERED.values(), ids=UNORDERED)
@pytest.mark.parametrize("declare", DECLARED.values(), ids=DECLARED)
def test_declared_what_is_no_list(declare, values):
    refused(lambda: declare(values), "is a .*not a list or an array|must be")


@pytest.mark.parametrize("values", WIDE_LISTS.values(), ids=WIDE_LISTS)
@pytest.mark.parametrize("name", PLAIN_LISTS)
def test_declared_a_list_of_two_axes(name, values):
    refused(lambda: DECLARED[name](values), "plain list, but it has 2 axes")


def test_declared_features_in_another_form():
    refused(lambda: DECLARED["features"](np.ones(40)), r"Pass rows.reshape\(-1, 1\)")
    refused(lambda: DECLARED["features"](sparse.eye_array(40)), r"X.toarray\(\)")


def test_declared_a_catalogue_of_two_kinds_or_as_one_text():
    refused(lambda: DECLARED["catalogue"]([1, "b"]), "mixes numbers, text")
    refused(lambda: DECLARED["catalogue"]("ab"), "holds 'ab'")


CATALOGUE = list(range(40))
ORDERED = [
    CATALOGUE, tuple(CATALOGUE), range(40), np.arange(40.0), pd.Series(CATALOGUE),
    pd.Index(CATALOGUE), pl.Series(CATALOGUE), CATALOGUE[::-1],
    pd.Series(CATALOGUE, dtype="Int64"),
]  # fmt: skip


@pytest.mark.parametrize("values", ORDERED, ids=lambda v: type(v).__name__)
def test_declared_a_catalogue_in_any_container(values):
    encoder = in_silence(lambda: CoordinateEncoder(categories=[None, values]).fit(X))
    where = encoder.transform(X)
    assert encoder.inverse_transform(where).tolist() == X.tolist()


def test_declared_levels_in_any_order():
    prior = dict(zip(STARS, [0.1, 0.2, 0.3, 0.25, 0.15], strict=True))
    expected = cp(level_prior=list(prior.values())).fit(X, Y)
    mixed = [3, 5, 1, 2, 4]
    other = cp(levels=mixed, level_prior=[prior[level] for level in mixed])
    in_silence(lambda: other.fit(X, Y))
    np.testing.assert_array_equal(other.predict(X), expected.predict(X))
    assert other.privacy_guarantee_ == expected.privacy_guarantee_


# --- times ----------------------------------------------------------------------------

HOURS = 1_700_000_000 + 3600 * np.random.default_rng(0).integers(0, 300, 600)
WRITTEN = pd.to_datetime(HOURS, unit="s").strftime("%Y-%m-%d %H:%M")
UNBINNED = {
    "seconds": HOURS, "milliseconds": 1000 * HOURS, "text": WRITTEN,
    "European dates": pd.to_datetime(24 * (HOURS - HOURS.min()), unit="s").strftime(
        "%d.%m.%Y"
    ),
}  # fmt: skip


@pytest.mark.parametrize("times", UNBINNED.values(), ids=UNBINNED)
@pytest.mark.parametrize("name", ["c", "timestamp"])
def test_left_times_that_repeat_unbinned(times, name):
    table = TABLE.assign(**{name: times})
    with pytest.warns(UserWarning, match=f"column '{name}' look like times.*freq='W'"):
        CoordinateEncoder().fit(table)
    with pytest.warns(UserWarning, match="column 2 look like times"):
        CoordinateEncoder().fit(table.astype(str).to_numpy())


CONTEXTS = {
    "weekday": np.arange(600) % 7,
    "month": np.array([f"2026-{k:02}" for k in HOURS % 12]),
    "date": WRITTEN.str[:10], "shop": HOURS % 250, "time_of_day": HOURS % 24,
    "article_code": np.array([f"A-{k:05}" for k in HOURS % 250]),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTEXTS)
def test_had_a_context_that_is_no_time(name):
    table = TABLE.assign(**{name: CONTEXTS[name]})
    in_silence(lambda: CoordinateEncoder().fit(table))


@pytest.mark.parametrize("freq", ["h", "D"])
@pytest.mark.parametrize("odd", ["0001-01-01", "9999-12-31"])
def test_had_an_impossible_date(freq, odd):
    times = np.append(HOURS[1:], np.datetime64(odd, "s").astype(np.int64))
    for model in (
        CoordinateEncoder(freq=freq),
        Recommender(cp(), CoordinateEncoder(freq=freq)),
    ):
        message = refused(
            lambda model=model: model.fit(np.column_stack([X, times]), Y),
            r"reach from \d{4} to \d{4}, .* bins .* coarser freq",
        )
        assert odd[:4] in message
    encoder = CoordinateEncoder(freq=freq).fit(np.column_stack([X, HOURS]))
    if odd > "2000":
        refused(lambda: encoder.partial_fit(np.column_stack([X, times])), "reach from")


def test_had_a_time_of_zero():
    times = np.append(HOURS[1:], 0)
    with pytest.warns(UserWarning, match="Most bins .* reach from 1970 to 2023"):
        CoordinateEncoder(freq="D").fit(np.column_stack([X, times]))
    for freq in ("W", "D", "h"):
        in_silence(
            lambda freq=freq: CoordinateEncoder(freq=freq).fit(
                np.column_stack([X, HOURS])
            )
        )


@pytest.mark.parametrize("columns", [9, 12])
def test_passed_a_wide_matrix_of_integers(columns):
    wide = np.random.default_rng(0).integers(0, 3, (120, columns))
    for model in (cp(max_iter=1), Recommender(cp(max_iter=1))):
        with pytest.warns(UserWarning, match=rf"has {columns} columns, .* as floats"):
            model.fit(wide, 1 + np.arange(120) % 5)
    shape = (3,) * 9
    in_silence(
        lambda: cp(shape=shape, max_iter=1).fit(wide[:, :9], 1 + np.arange(120) % 5)
    )
    in_silence(lambda: cp(max_iter=1).fit(wide[:, :8], 1 + np.arange(120) % 5))


# --- indices far beyond the entries ---------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["coordinates", "sparse", "batches", "partial", "dask"]
)
def test_passed_ids_as_indices(kind):
    X = np.array([[10**9, 3], [5, 7], [7, 8]])
    y, model = np.array([1.0, 2.0, 3.0]), cp(2, perturbation="input")
    calls = {
        "coordinates": lambda: model.fit(X, y),
        "sparse": lambda: model.fit(sparse.coo_array((y, tuple(X.T)))),
        "batches": lambda: model.fit_batches([(X, y)]),
        "partial": lambda: model.partial_fit(X, y),
        "dask": lambda: model.fit(*lazy(X, y)),
    }
    refused(calls[kind], "indices of column 0 are so large .*CoordinateEncoder")


def lazy(*arrays):
    dask = pytest.importorskip("dask.array")
    return [dask.from_array(array, chunks=-1) for array in arrays]


def test_passed_ids_as_indices_to_an_encoder():
    X = np.array([[10**9, 3], [5, 7], [7, 8]])
    model = make_pipeline(CoordinateEncoder(), cp())
    assert in_silence(lambda: model.fit(X, [1, 2, 3]))[-1].shape_ == (3, 3)
    # Rows of protected users take neither time nor memory.
    with pytest.warns(NoiseOnlyWarning):
        cp(unit=0, shape=(2**31 - 2, 40)).fit(X, [1, 2, 3])


# --- values on another scale ----------------------------------------------------------

LARGE = make_ratings(1000, 200, 20000, random_state=0)
MOSTLY_BEST = np.where(np.arange(20000) % 8, 5.0, 4.0)
SCALES = {
    "percent": ({"levels": STARS}, 20 * LARGE.target, "upper"),
    "stars in a range of one": (
        {"levels": None, "value_bounds": (0, 1)}, LARGE.target, "upper",
    ),
    "stars in a range of tens": (
        {"levels": None, "value_bounds": (10, 20)}, LARGE.target, "lower",
    ),
}  # fmt: skip
MEASURED = [("entry", "input"), ("entry", "sums"), ("entry", "statistics"), (0, "sums")]


def for_large(unit, perturbation, **params):
    options = {"shape": LARGE.shape, "epsilon": 16.0} | params
    if perturbation == "input":  # The others have no sweeps.
        options["max_iter"] = 2
    return cp(unit=unit, perturbation=perturbation, **options)


def of_large(values, unit, perturbation, **params):
    return for_large(unit, perturbation, **params).fit(LARGE.data, values)


@pytest.mark.parametrize(("unit", "perturbation"), MEASURED)
@pytest.mark.parametrize(("scale", "values", "end"), SCALES.values(), ids=SCALES)
def test_declared_another_scale_than_that_of_the_values(
    scale, values, end, unit, perturbation
):
    with pytest.warns(UserWarning, match=f"are at the {end} end of the declared range"):
        of_large(values, unit, perturbation, **scale)


@pytest.mark.parametrize(("unit", "perturbation"), MEASURED)
def test_a_warning_that_is_an_error_leaves_the_fitted_model(unit, perturbation):
    """It comes last, so what the budget was spent on is there."""
    scale, values, _ = SCALES["stars in a range of tens"]
    model = for_large(unit, perturbation, **scale)
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(UserWarning, match="are at the lower end"),
    ):
        model.fit(LARGE.data, values)
    assert np.all(model.predict(LARGE.data[:9]) >= 10)


@pytest.mark.parametrize(("unit", "perturbation"), MEASURED)
@pytest.mark.parametrize("values", [LARGE.target, MOSTLY_BEST], ids=["usual", "best"])
def test_declared_the_scale_of_the_values(values, unit, perturbation):
    in_silence(lambda: of_large(values, unit, perturbation))
    # Two levels may be as unequal as they like.
    rare = np.where(LARGE.data[:, 1] == 7, 1.0, 0.0)
    in_silence(lambda: of_large(rare, unit, perturbation, levels=[0, 1]))


@pytest.mark.parametrize("error", [1e-4, 0.01, 0.02, 0.1])
def test_of_a_scale_at_a_fiftieth_from_the_end_noise_alarms_hardly_ever(error):
    """1 - 0.02 is the nearest mean at which the rate is stated: below 1e-4.

    With seeds, so no run fails by chance. It fails if the margin has no errors in it.
    """
    domain = declared_domain((0.0, 1.0), None)
    noise = np.random.default_rng(0).normal(size=20_000) * error
    alarms = 0
    for mean in 0.98 + noise:
        with warnings.catch_warnings(record=True, action="always") as caught:
            warn_of_edge(ReleasedMean(mean, error, 1000), domain)
        alarms += len(caught)
    assert alarms <= 8


ENTRIES = ["input", "sums", "statistics"]


@pytest.mark.parametrize("perturbation", ENTRIES)
@pytest.mark.parametrize("scale", [{"levels": [0, 1]}, {"levels": None}])
def test_passed_choices_as_values_of_one(scale, perturbation):
    ones = np.ones(len(LARGE.data))
    with pytest.warns(
        UserWarning, match="all values may be at the upper end of .*Impl"
    ):
        of_large(ones, "entry", perturbation, **scale)
    # Some that are not equal.
    some = ones * (np.arange(len(ones)) % 50 > 0)
    in_silence(lambda: of_large(some, "entry", perturbation, **scale))


@pytest.mark.parametrize("perturbation", ENTRIES)
def test_spent_so_little_that_the_mean_is_noise(perturbation):
    """Whether it is depends on public numbers alone, so no run fails by chance."""
    with pytest.warns(NoiseOnlyWarning, match="standard error of more than a quarter"):
        of_large(LARGE.target, "entry", perturbation, epsilon=0.01)
    with warnings.catch_warnings(action="error"):
        warnings.simplefilter("ignore", AveragesOnlyWarning)
        of_large(LARGE.target, "entry", perturbation, epsilon=0.5)


@pytest.mark.parametrize("n_batches", [0, 3])
def test_read_a_table_twice(n_batches):
    """Each row is an entry of its own, with a guarantee of its own."""
    twice = np.concatenate([LARGE.data, LARGE.data]), np.tile(LARGE.target, 2)
    model = for_large("entry", "sums")

    def fit(X, y):
        if not n_batches:
            return model.fit(X, y)
        parts = [np.array_split(values, n_batches) for values in (X, y)]
        return model.fit_batches(list(zip(*parts, strict=True)))

    with pytest.warns(UserWarning, match="Most coordinates of X occur more than once"):
        fit(*twice)
    in_silence(lambda: fit(*(values[:24_000] for values in twice)))
    # Protected users have as many entries as they like, and nobody is told.
    in_silence(lambda: of_large(LARGE.target, 0, "sums").fit(*twice))


def test_searched_a_part_of_many_rows_for_those_read_twice():
    X = np.argwhere(np.ones((400, 500)))
    with pytest.warns(UserWarning, match="Most coordinates of X occur more than once"):
        warn_of_repeats(np.concatenate([X, X]))
    in_silence(lambda: warn_of_repeats(np.concatenate([X, X[:80_000]])))


def test_folded_in_values_beyond_the_scale():
    """They are clipped, as in a fit, and this is said."""
    model = cp(unit=0, shape=SHAPE).fit(X, Y)
    pairs = np.argwhere(np.ones((5, 40)))
    with pytest.warns(UserWarning, match=r"100\.0% of the values are above the decl"):
        beyond = model.fold_in(X[:9], np.full(9, 100.0)).predict(pairs)
    np.testing.assert_array_equal(
        model.fold_in(X[:9], np.full(9, 5.0)).predict(pairs), beyond
    )
