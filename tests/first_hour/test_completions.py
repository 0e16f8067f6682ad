"""What a new user tries with ratings: it works, or the message says what to do."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline

from sktensordp import papers
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
    entries_from_sparse,
    make_fold_in_scorer,
    make_ranking_scorer,
)
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import PrivacyLeakWarning
from sktensordp.model_selection import UserKFold

pytestmark = pytest.mark.thorough
COMPLETIONS = [CPCompletion, TuckerCompletion]


@pytest.fixture(scope="module")
def ratings():
    return make_ratings(n_users=40, n_items=30, n_ratings=500, random_state=0)


def protecting_users(ratings, **params):
    options = {"levels": ratings.levels, "shape": ratings.shape, "random_state": 0}
    return CPCompletion(rank=0, unit=0, epsilon=8.0, **options | params)


# --- users protected, and models that travel ------------------------------------------


@pytest.mark.parametrize("ask", ["predict", "recommend", "score", "transform"])
@pytest.mark.parametrize(
    "travel", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_asked_a_model_out_of_a_pickle(ratings, travel, ask):
    X, y = ratings.data, ratings.target
    if ask == "transform":
        X = np.full(ratings.shape, np.nan)
        X[tuple(ratings.data.T)], y = ratings.target, None
    model = travel(protecting_users(ratings).fit(X, y))
    calls = {
        "predict": lambda: model.predict(ratings.data),
        "recommend": lambda: model.recommend([0]),
        "score": lambda: model.score(ratings.data, ratings.target),
        "transform": lambda: model.transform(X),
    }
    with pytest.warns(UserWarning, match=r"never pickled or deep-copied.*fold_in"):
        calls[ask]()
    # Once.
    calls[ask]()


def test_searched_with_users_held_out(ratings):
    """The line of the parameter's documentation."""
    search = GridSearchCV(
        protecting_users(ratings), {"epsilon": [1.0, 8.0]}, cv=UserKFold(3, mode=0),
        scoring=make_fold_in_scorer(), n_jobs=2,
    )  # fmt: skip
    search.fit(ratings.data, ratings.target)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    for option in ("cv=UserKFold(mode=unit)", "scoring=make_fold_in_scorer()"):
        assert option in CPCompletion.__doc__


# --- X and y --------------------------------------------------------------------------


@pytest.mark.parametrize("form", COMPLETIONS)
@pytest.mark.parametrize("kind", [np.int64, np.uint8, bool, list])
def test_forgot_y(ratings, form, kind):
    X = ratings.data.tolist() if kind is list else ratings.data.astype(kind)
    with pytest.raises(ValueError, match=r"pass their values as y.*X\.astype\(float\)"):
        form(levels=ratings.levels).fit(X)


def test_forgot_y_and_the_values_do_not_decide(ratings):
    """Floats are a tensor, also where they happen to be integral."""
    with pytest.warns(UserWarning, match="no NaN, so there is nothing to complete"):
        model = CPCompletion(value_bounds=(0, 40)).fit(ratings.data.astype(float))
    assert model.shape_ == ratings.data.shape


@pytest.mark.parametrize("form", COMPLETIONS)
def test_passed_ids_as_they_are(form):
    X = [["ann", "Heat"], ["bob", "Up"]]
    for y in ([1.0, 2.0], None):
        message = rf"use Recommender\({form.__name__}\(\.\.\.\)\)"
        with pytest.raises(ValueError, match=message) as one:
            form(value_bounds=(0, 5)).fit(X, y)
        assert "ann" not in str(one.value)


def test_left_a_coordinate_empty(ratings):
    X = ratings.data.astype(float)
    X[3, 1] = np.nan
    model = CPCompletion(levels=ratings.levels)
    fitted = CPCompletion(levels=ratings.levels).fit(ratings.data, ratings.target)
    for call in (lambda: model.fit(X, ratings.target), lambda: fitted.predict(X)):
        with pytest.raises(ValueError, match="a coordinate is missing") as caught:
            call()
        assert "Gradient" not in str(caught.value)


def test_weighted_the_ratings(ratings):
    weights = np.ones(len(ratings.target))
    with pytest.raises(TypeError, match="unexpected keyword argument 'sample_weight'"):
        CPCompletion(levels=ratings.levels).fit(
            ratings.data, ratings.target, sample_weight=weights
        )


def test_declared_too_small_a_tensor_or_too_many_modes(ratings):
    with pytest.raises(ValueError, match="Leave these rows out, or declare a larger"):
        protecting_users(ratings, shape=(5, 5)).fit(ratings.data, ratings.target)
    with pytest.raises(
        ValueError, match=r"2 columns, but shape has 3 modes\. Every mode"
    ):
        protecting_users(ratings, shape=(40, 30, 2)).fit(ratings.data, ratings.target)


def test_protected_users_without_a_delta(ratings):
    with pytest.raises(ValueError, match="Pass delta, such as 1e-6"):
        protecting_users(ratings, delta=0.0).fit(ratings.data, ratings.target)


def test_passed_an_array_of_another_library(ratings):
    class Elsewhere:
        """As on another device: it has the array API, and NumPy cannot read it."""

        shape, ndim = ratings.data.shape, 2

        def __array_namespace__(self):
            return np

        def __array__(self, dtype=None, copy=None):
            raise TypeError("not on this device")

    class Readable(Elsewhere):
        def __array__(self, dtype=None, copy=None):
            return ratings.data.astype(dtype or float)

        def __len__(self):
            return len(ratings.data)

    model = CPCompletion(levels=ratings.levels, random_state=0)
    with pytest.raises(TypeError, match="Convert it to a NumPy array first"):
        model.fit(Elsewhere(), ratings.target)
    expected = model.fit(ratings.data, ratings.target).predict(ratings.data)
    other = CPCompletion(levels=ratings.levels, random_state=0)
    other.fit(Readable(), ratings.target)
    assert_array_equal(other.predict(ratings.data), expected)


# --- sparse arrays --------------------------------------------------------------------


def as_sparse(ratings, kind):
    return kind((ratings.target, tuple(ratings.data.T)), shape=ratings.shape)


@pytest.mark.parametrize("form", COMPLETIONS)
@pytest.mark.parametrize("container", ["coo_array", "csr_array", "csc_matrix"])
def test_passed_a_sparse_array(ratings, form, container):
    X = getattr(sparse, container)(as_sparse(ratings, sparse.coo_array))
    where, y = entries_from_sparse(X)
    options = {"levels": ratings.levels, "random_state": 0, "perturbation": "input"}
    one, other = (form(2, **options, shape=s) for s in (None, ratings.shape))
    one.fit(X), other.fit(where, y)
    assert one.shape_ == ratings.shape
    assert_array_equal(one.predict(where), other.predict(where))
    one.partial_fit(X), other.partial_fit(where, y)
    assert_array_equal(one.predict(where), other.predict(where))
    users = protecting_users(ratings).fit(X)
    again = pickle.loads(pickle.dumps(users)).fold_in(X)
    np.testing.assert_allclose(again.predict(where), users.predict(where), rtol=1e-12)


def test_cross_validated_a_sparse_array(ratings):
    """A fold of it has other users: its rows are numbered anew."""
    array = as_sparse(ratings, sparse.csr_array)
    message = r"Folds of a sparse array.*X, y = entries_from_sparse\(X\)"
    undeclared = CPCompletion(levels=ratings.levels, perturbation="input")
    declared = CPCompletion(levels=ratings.levels, shape=ratings.shape)
    choices = ImplicitCompletion(shape=ratings.shape)
    ranking = make_ranking_scorer(k=5)
    for model, scoring in (
        (declared, None), (undeclared, None), (undeclared, ranking), (choices, ranking),
    ):  # fmt: skip
        search = GridSearchCV(
            model, {"random_state": [0]}, cv=3, scoring=scoring, error_score="raise"
        )
        with pytest.raises(ValueError, match=message):
            search.fit(array)
    with pytest.raises(ValueError, match=r"X, y = entries_from_sparse\(X\)"):
        next(UserKFold(3).split(array))
    X, y = entries_from_sparse(array)
    search = GridSearchCV(undeclared, {"rank": [0, 1]}, cv=2)
    with warnings.catch_warnings(action="error"):
        scores = search.fit(X, y).cv_results_["mean_test_score"]
        scores = [*scores, *cross_val_score(undeclared, X, y, cv=3)]
        scores += [*cross_val_score(undeclared, X, y, cv=3, scoring=ranking)]
    assert np.all(np.isfinite(scores))
    assert len(undeclared.client(random_state=0).privatize(y)) == len(y)


class Filled(BaseEstimator, TransformerMixin):
    """Somebody's transformer, which completes a sparse array that it makes itself."""

    def __init__(self, ratings):
        self.ratings = ratings

    def fit(self, X, y=None):
        ratings = self.ratings
        array = as_sparse(ratings, sparse.csr_array)
        self.model_ = CPCompletion(
            1, levels=ratings.levels, perturbation="input", random_state=0
        ).fit(array)
        return self

    def transform(self, X):
        return self.model_.predict(X)[:, np.newaxis]


def test_fitted_a_completion_inside_of_an_estimator(ratings):
    """Called by a search or alone, a fit takes the same data and gives the same."""
    X, y = ratings.data, ratings.target
    alone = make_pipeline(Filled(ratings), LinearRegression())
    with warnings.catch_warnings(action="error"):
        score = alone.fit(X, y).score(X, y)
        everything = [(np.arange(len(X)), np.arange(len(X)))]
        found = cross_validate(
            alone, X, y, cv=everything, error_score="raise", return_estimator=True
        )
    assert found["test_score"] == [score]
    (inside,) = found["estimator"]
    assert_array_equal(inside.predict(X), alone.predict(X))


PUBLISHED = [papers.PublishedCPCompletion, papers.PublishedTuckerCompletion]


@pytest.mark.parametrize("form", [*COMPLETIONS, *PUBLISHED, ImplicitCompletion])
def test_passed_a_sparse_array_to_predict_and_score(ratings, form):
    """Of another shape, it has other users. Of this one, it holds what to predict."""
    array = as_sparse(ratings, sparse.csr_array)
    options = {"value_bounds": (0, 5)} if hasattr(form, "score") else {}
    model = form(**options, shape=ratings.shape, epsilon=8.0).fit(array)
    scorer = make_ranking_scorer(k=5, fold_in_fraction=0)
    n_users, n_items = ratings.shape
    calls, entries = [model.predict, lambda X: scorer(model, X)], [ratings.data]
    if hasattr(model, "score"):
        calls += [model.score, lambda X: model.score(X, ratings.target[:3])]
        entries += [ratings.target]
    for other in (array[:3], array[:, :3], sparse.csr_array((n_users + 1, n_items))):
        for call in calls:
            with pytest.raises(ValueError, match=r"another shape.*from_sparse"):
                call(other)
    with pytest.raises(TypeError, match=r"coordinates are expected.*from_sparse"):
        model.predict(array)
    assert scorer(model, array) == scorer(model, *entries)


def test_passed_a_sparse_array_to_a_recommender(ratings):
    array = as_sparse(ratings, sparse.csr_array)
    model = Recommender(CPCompletion(0, levels=ratings.levels))
    model.fit(ratings.data, ratings.target)
    scorer = make_ranking_scorer(k=5)
    for call in (
        model.fit, model.predict, lambda X: model.score(X, ratings.target),
        lambda X: scorer(model, X),
    ):  # fmt: skip
        for X in (array, array[:3]):
            with pytest.raises((TypeError, ValueError), match="entries_from_sparse"):
                call(X)


@pytest.mark.filterwarnings("ignore:The declared scale, .* as wide:UserWarning")
def test_stored_zeros_and_duplicates_are_observations():
    data, places = [0.0, 3.0, 3.0], ([0, 1, 1], [0, 1, 1])
    X, y = entries_from_sparse(sparse.coo_array((data, places), shape=(2, 2)))
    assert X.tolist() == [[0, 0], [1, 1], [1, 1]]
    assert y.tolist() == data
    # Where absent cells were zeros, the mean would be near them.
    X = sparse.eye_array(40, format="csr") * 2
    with pytest.warns(UserWarning, match="All values are 2"):
        model = CPCompletion(0, value_bounds=(0, 4), epsilon=np.inf).fit(X)
    assert model.predict([[0, 2]]) > 1.5


def test_passed_a_sparse_tensor_of_three_modes():
    COO = pytest.importorskip("sparse").COO
    coords = [[0, 1, 2], [0, 1, 0], [1, 0, 0]]
    X = COO(coords, [1.0, 0.0, 4.0], (3, 2, 2))
    options = {"value_bounds": (0, 4), "random_state": 0}
    one = CPCompletion(1, **options).fit(X)
    other = CPCompletion(1, **options, shape=(3, 2, 2))
    other.fit(np.transpose(coords), [1.0, 0.0, 4.0])
    everywhere = np.argwhere(np.ones((3, 2, 2)))
    assert_array_equal(one.predict(everywhere), other.predict(everywhere))
    with pytest.raises(ValueError, match="fill_value"):
        CPCompletion(1, **options).fit(
            COO(coords, [1.0, 0, 4], (3, 2, 2), fill_value=np.nan)
        )


def test_sparse_arrays_that_are_refused(ratings):
    X = as_sparse(ratings, sparse.coo_array)
    model = CPCompletion(levels=ratings.levels)
    with pytest.raises(ValueError, match="pass it without y"):
        model.fit(X, ratings.target)
    with pytest.raises(ValueError, match="padding zeros would count"):
        model.fit(sparse.bsr_array(X))
    with pytest.raises(ValueError, match="another shape than"):
        model.set_params(shape=(50, 50)).fit(X)
    model.set_params(shape=None).fit(X)
    with pytest.raises(TypeError, match="entries_from_sparse"):
        model.predict(X)
    with pytest.raises(TypeError, match="must be a sparse array"):
        entries_from_sparse(X.toarray())
    # The shape of a sparse array is no declaration, where users are protected.
    with pytest.warns(PrivacyLeakWarning, match="`shape` is not declared"):
        CPCompletion(0, unit=0, levels=ratings.levels).fit(X)


def test_masked_what_was_not_observed():
    X = np.ma.array(np.full((3, 4), 2.0), mask=np.eye(3, 4))
    model = CPCompletion(0, value_bounds=(0, 4))
    with pytest.raises(ValueError, match=r"X\.astype\(float\)\.filled\(np\.nan\)"):
        model.fit(X)
    assert model.fit(X.astype(float).filled(np.nan)).shape_ == (3, 4)


# --- levels, rank and what was taken --------------------------------------------------


@pytest.mark.parametrize("form", COMPLETIONS)
def test_took_levels_for_bounds(ratings, form):
    with pytest.warns(UserWarning, match=r"For a range, pass value_bounds=\(1, 5\)"):
        form(levels=(1, 5)).fit(ratings.data, ratings.target)
    # The values are private: nothing is said of them, whatever they are.
    with pytest.warns(UserWarning, match=r"For two levels, pass levels=\["):
        form(levels=(1, 5)).fit(ratings.data, np.ones(len(ratings.data)))
    with warnings.catch_warnings(action="error"):
        for levels in ([1, 5], (0, 1), (1, 2, 5)):
            model = form(levels=levels).fit(ratings.data, ratings.target)
    assert "rounded to the 3 levels 1, 2 and 5" in model.privacy_guarantee_.statement


@pytest.mark.parametrize("unit", ["entry", 0])
@pytest.mark.parametrize("perturbation", ["input", "sums", "statistics", "gradient"])
def test_read_which_levels_were_taken(ratings, unit, perturbation):
    if (unit, perturbation) in [(0, "input"), (0, "gradient")]:
        pytest.skip("not at this unit")
    for levels, said in (
        ([1, 5], "the 2 levels 1 and 5"),
        (range(41), "the 41 levels 0, 1, ..., 39 and 40"),
    ):
        model = CPCompletion(
            2, unit=unit, perturbation=perturbation, levels=levels,
            shape=ratings.shape, max_iter=2,
        ).fit(ratings.data, ratings.target)  # fmt: skip
        assert f"rounded to {said}." in model.privacy_guarantee_.statement


@pytest.mark.parametrize("form", COMPLETIONS)
def test_gave_no_rank(ratings, form):
    options = {"levels": ratings.levels, "random_state": 0, "perturbation": "input"}
    model = form(**options).fit(ratings.data, ratings.target)
    explicit = form(10, **options).fit(ratings.data, ratings.target)
    assert_array_equal(model.predict(ratings.data), explicit.predict(ratings.data))
    model.partial_fit(ratings.data[:3], ratings.target[:3])
    # None takes the largest rank that a small shape admits; a larger one is refused.
    X = np.argwhere(np.ones((3, 2, 4)))
    small = form(**options).fit(X, np.ones(len(X)))
    largest = 6 if form is CPCompletion else (3, 2, 4)
    again = form(largest, **options).fit(X, np.ones(len(X)))
    assert_array_equal(small.predict(X), again.predict(X))
    with pytest.raises(ValueError, match="large"):
        form(7, **options).fit(X, np.ones(len(X)))


@pytest.mark.parametrize("unit", ["entry", 0])
def test_wondered_why_everybody_gets_one_list(ratings, unit):
    model = CPCompletion(
        5,
        epsilon=0.1,
        unit=unit,
        levels=ratings.levels,
        shape=ratings.shape,
        random_state=0,
    ).fit(ratings.data, ratings.target)
    assert model.perturbation_ == "sums"
    statement = model.privacy_guarantee_.statement
    same = "the same" if unit == "entry" else "nearly the same"
    assert f"Only averages were learned: everybody gets {same} ranking" in statement
    assert "regression" not in statement
    # Less what each has rated, it is one list, or nearly.
    n_items = ratings.shape[1]
    order = model.recommend(-1, n_items).tolist()
    likeness = []
    for user in range(ratings.shape[0]):
        items = [i for i in model.recommend(user, n_items).tolist() if i >= 0]
        common = [i for i in order if i in set(items)]
        if unit == "entry":
            assert items == common
        elif len(items) > 2:
            places = [common.index(i) for i in items]
            likeness.append(np.corrcoef(places, np.arange(len(places)))[0, 1])
    if unit == 0:
        # At most seeds, about .9; with factors as well, about .4.
        assert np.median(likeness) > 0.65
    assert "everybody gets the same recommendations" in " ".join(
        CPCompletion.__doc__.split()
    )


# --- ids and times --------------------------------------------------------------------

TABLE = [["ann", "Heat"], ["ann", "Up"], ["bob", "Heat"], ["eve", "Brazil"]]


@pytest.mark.parametrize(
    "options", [{}, {"freq": "D"}, {"freq": "W"}, {"time_bins": 2}]
)
def test_came_back_to_ids(options):
    times = np.array([0, 86_400, 86_401, 864_000])[:, np.newaxis]
    table = np.array(TABLE, dtype=object)
    if options:
        table = np.concatenate([table, times], axis=1)
    encoder = CoordinateEncoder(**options).fit(table)
    where = encoder.transform(table)
    back = encoder.inverse_transform(where)
    assert back[:, :2].tolist() == TABLE
    if options:
        # The first times of the bins are in the bins again.
        back[:, 2] = [
            t if isinstance(t, float) else np.datetime64(t, "s").astype(int)
            for t in back[:, 2]
        ]
        back[np.isneginf(back[:, 2].astype(float)), 2] = 0
        assert_array_equal(encoder.transform(back), where)
    unknown = np.full((1, where.shape[1]), -1)
    assert encoder.inverse_transform(unknown).tolist() == [[None] * where.shape[1]]
    for bad in (where + 100, where - 5, where + 0.5):
        with pytest.raises(ValueError, match=r"outside|only -1|fractional"):
            encoder.inverse_transform(bad)


def test_declared_the_catalogue_and_protected_users(ratings):
    encoder = CoordinateEncoder(categories=[range(60), range(50)])
    model = CPCompletion(0, unit=0, levels=ratings.levels, shape=encoder.declared_shape)
    model = make_pipeline(encoder, model).fit(ratings.data, ratings.target)
    assert model[-1].shape_ == (60, 50)
    assert np.isfinite(model[-1].privacy_guarantee_.epsilon)
    for learned in (
        CoordinateEncoder(),
        CoordinateEncoder(categories=[range(3), None]),
        CoordinateEncoder(categories=[range(3), range(3)], freq="D"),
    ):
        with pytest.raises(AttributeError, match="public only if"):
            _ = learned.declared_shape
    with pytest.warns(PrivacyLeakWarning, match="encoder.declared_shape"):
        CPCompletion(0, unit=0, levels=ratings.levels).fit(ratings.data, ratings.target)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Vienna"])
def test_had_times_with_a_time_zone(zone):
    pd = pytest.importorskip("pandas")
    times = pd.to_datetime([0, 86_400, 90_000, 864_000], unit="s", utc=True)
    frame = pd.DataFrame({"user": list("abca"), "when": times.tz_convert(zone)})
    with warnings.catch_warnings(action="error"):
        found = CoordinateEncoder(freq="D").fit_transform(frame)
    assert found[:, 1].tolist() == [0, 1, 1, 10]
    frame.loc[1, "when"] = pd.NaT
    with pytest.raises(ValueError, match="missing"):
        CoordinateEncoder(freq="D").fit(frame)


def test_fitted_a_dask_frame():
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    ratings = make_ratings(n_users=40, n_items=30, n_ratings=500, random_state=0)
    frame = pd.DataFrame(ratings.data, columns=["user", "item"])
    frame["stars"] = ratings.target
    lazy = dd.from_pandas(frame, npartitions=2)
    model = CPCompletion(2, levels=ratings.levels, random_state=0)
    model.fit(lazy[["user", "item"]], lazy["stars"])
    assert model.feature_names_in_.tolist() == ["user", "item"]
    with warnings.catch_warnings(action="error"):
        predicted = model.predict(lazy[["user", "item"]])
    assert_array_equal(predicted, model.predict(frame[["user", "item"]]))
