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
    entries_from_sparse,
)
from sktensordp.datasets import make_ratings
from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    TensorRandomizedResponse,
)
from sktensordp.plotting import PrivacyUtilityDisplay
from sktensordp.privacy import PrivacyBudget
from tests.support.every_estimator import EVERY

pytestmark = pytest.mark.thorough
RATINGS = make_ratings(60, 40, 600, random_state=0)
X, Y, SHAPE = RATINGS.data, RATINGS.target, RATINGS.shape
STARS = [1, 2, 3, 4, 5]
TABLE = pd.DataFrame(X, columns=["user", "film"])
WIDE = TABLE.assign(stars=Y).pivot_table(index="user", columns="film", values="stars")


def cp(rank=0, **params):
    return CPCompletion(
        rank, **{"epsilon": 8.0, "levels": STARS, "random_state": 0, **params}
    )


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
    with warnings.catch_warnings():
        warnings.simplefilter("error")
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
    with pytest.warns(UserWarning, match=r"delta = 0\..* admits .*such as 1e-6"):
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
    scores = in_silence(
        lambda: cross_val_score(model, where, values, cv=KFold(3), error_score="raise")
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


def test_searched_over_a_sparse_array():
    array = sparse.csr_array((Y, tuple(X.T)), shape=SHAPE)
    search = GridSearchCV(cp(), {"rank": [0, 1]}, cv=2)
    with pytest.raises(ValueError, match=r"X, y = entries_from_sparse\(X\)"):
        search.fit(array)
    in_silence(lambda: search.fit(*entries_from_sparse(array)))
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


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
    assert model.recommend(2**64 - 1, k=9).tolist().count(None) == 6
    # Another column of the same numbers, near 2**64, is of one float.
    assert model.encoder_._indices_of(np.array([2**64 - 2], dtype=object), 0) == [-1]


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
    for model in (Recommender(cp()), for_users([None, [1, 2, 3]])):
        refused(lambda model=model: model.fit(table, [1, 2, 3]), "Some ids are tuples")
    joined = table.assign(u=["a-1", "a-2", "a-1"])
    assert in_silence(lambda: Recommender(cp()).fit(joined, [1, 2, 3])).encoder_.shape_


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


@pytest.mark.parametrize("kind", ["nullable", "objects"])
def test_left_entries_of_a_frame_empty(kind):
    table = WIDE.astype("Float64")
    if kind == "objects":
        table = WIDE.astype(object).where(WIDE.notna(), pd.NA)
    assert cp().fit(table).shape_ == WIDE.shape
    laplace = LaplaceMechanism(1.0, bounds=(0, 5)).fit(table.fillna(0.0))
    refused(lambda: laplace.transform(table), r"X\.isna\(\)\.any\(\) says", ValueError)


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


FILMS = list(range(40))
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
    refused(lambda: kind(n_job=2), rf"^{kind.__name__}\.__init__\(\) got an unexp")


@pytest.mark.parametrize("case", EVERY)
def test_asked_for_an_attribute_before_the_fit(case):
    estimator = case.fresh()
    names = [n for n in dir(type(estimator)) if n.endswith("_") and n[0] != "_"]
    for name in (*names, "privacy_guarantee_", "shape_"):
        with pytest.raises(NotFittedError, match=f"{name} .*not fitted yet"):
            getattr(estimator, name)
        assert not hasattr(estimator, name)
    with pytest.raises(AttributeError, match="shape__"):
        estimator.fit(*case.data).shape__  # noqa: B018


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
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
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
