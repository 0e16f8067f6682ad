"""A number that stands for "not observed", at every door through which values come.

At each door, a model with `missing_values` is that of the other entries: the same
noise, the same shape of the model, the same answers. Doors without it refuse it.
"""

import copy
import inspect
import math

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    Recommender,
    TuckerCompletion,
    check_table,
    fit_aggregated,
    make_fold_in_scorer,
    make_ranking_scorer,
    party,
)
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support.refusing import refused
from tests.support.requests import Sums

N, SHAPE = 600, (30, 25)
RNG = np.random.default_rng(0)
X = np.column_stack(np.divmod(RNG.permutation(30 * 25)[:N], 25))
Y = RNG.integers(0, 6, N).astype(float)  # 0 stands for "not rated"
SEEN = Y != 0
LATER = np.column_stack([np.full(8, 3), np.arange(8)])
OWN = np.array([0.0, 5, 4, 0, 3, 0, 2, 1])
IDS = pd.DataFrame({"user": X[:, 0] + 100, "film": X[:, 1] + 500})
EVERYWHERE = np.argwhere(np.ones(SHAPE))


def model(missing_values, unit="entry", kind=CPCompletion, **params):
    params = {"epsilon": 8.0, "shape": SHAPE, "levels": [1, 2, 3, 4, 5]} | params
    return kind(
        1, unit=unit, max_iter=2, random_state=0, missing_values=missing_values,
        **params,
    )  # fmt: skip


def rows(missing_values, *columns):
    """All rows, or those of observed values if the model does not leave any out."""
    return [c if missing_values == 0 else c[SEEN] for c in columns]


def to_coordinates(m, unit):
    return model(m, unit).fit(*rows(m, X, Y)).predict(EVERYWHERE)


def to_numbers_in_text(m, unit):
    x, y = rows(m, X, Y)
    return model(m, unit).fit(x, y.astype(str)).predict(EVERYWHERE)


def to_a_tensor(m, unit):
    tensor = np.full(SHAPE, np.nan)
    x, y = rows(m, X, Y)
    tensor[tuple(x.T)] = y
    return model(m, unit).fit_transform(tensor)


def to_a_sparse_array(m, unit):
    x, y = rows(m, X, Y)
    stored = sparse.coo_array((y, tuple(x.T)), shape=SHAPE)
    return model(m, unit).fit(stored).predict(EVERYWHERE)


def to_batches(m, unit):
    parts = [rows(m, X[:1], Y[:1]), rows(m, X[1:], Y[1:])] if m == 0 else [
        (X[SEEN][:1], Y[SEEN][:1]), (X[SEEN][1:], Y[SEEN][1:])
    ]  # fmt: skip
    return model(m, unit).fit_batches(parts).predict(EVERYWHERE)


def to_dask(m, unit):
    x, y = rows(m, X, Y)
    x, y = da.from_array(x, chunks=(len(x), 2)), da.from_array(y, chunks=len(y))
    return model(m, unit).fit(x, y).predict(EVERYWHERE[::7])


def in_parts(m, unit):
    x, y = rows(m, X, Y)
    fitted = model(m, perturbation="input").partial_fit(x, y)
    own = slice(None) if m == 0 else OWN != 0
    return fitted.partial_fit(LATER[own], OWN[own]).predict(EVERYWHERE)


def folded_in(m, unit):
    fitted = model(m, unit).fit(*rows(m, X, Y))
    own = slice(None) if m == 0 else OWN != 0
    return fitted.fold_in(LATER[own], OWN[own]).predict(EVERYWHERE)


def in_a_score(m, unit):
    fitted = model(m, unit).fit(*rows(m, X, Y))
    x, y, weights = rows(m, X, Y, 1.0 + np.arange(N))
    return fitted.score(x, y), fitted.score(x, y, weights), fitted.score(x, y)


def in_a_recommender(m, unit):
    encoder = CoordinateEncoder(categories=[None, np.arange(500, 525)])
    ids = Recommender(model(m, unit, shape=None), encoder).fit(*rows(m, IDS, Y))
    told = pd.DataFrame({"user": 1000, "film": 500 + np.arange(8)})
    own = slice(None) if m == 0 else OWN != 0
    answers = ids.predict(IDS)
    ids.fold_in(told[own], OWN[own])
    return np.hstack([answers, ids.predict(told), ids.score(*rows(m, IDS, Y))])


def in_batches_of_a_recommender(m, unit):
    encoder = CoordinateEncoder(categories=[None, np.arange(500, 525)])
    ids = Recommender(model(m, unit, shape=None), encoder)
    # A user without any observed value is unknown, as if the rows were not there.
    table, values = rows(m, IDS.assign(user=IDS["user"].where(SEEN, 7)), Y)
    batches = [(table[:50], values[:50]), (table[50:], values[50:])]
    fitted = ids.fit_batches(batches)
    return np.hstack([fitted.predict(IDS), fitted.predict(IDS.assign(user=7))])


def in_a_pipeline(m, unit):
    declared = [np.arange(100, 130), np.arange(500, 525)]
    pipeline = make_pipeline(CoordinateEncoder(categories=declared), model(m, unit))
    return pipeline.fit(*rows(m, IDS, Y)).predict(IDS)


def in_a_search(m, unit):
    # The folds are those of all rows, whatever is left out in them.
    fold = np.arange(N) % 3
    indices = np.arange(N) if m == 0 else np.cumsum(SEEN) - 1
    kept = np.ones(N, bool) if m == 0 else SEEN
    cv = [(indices[(fold != k) & kept], indices[(fold == k) & kept]) for k in range(3)]
    search = GridSearchCV(model(m, unit), {"rank": [0, 1]}, cv=cv)
    return search.fit(*rows(m, X, Y)).cv_results_["mean_test_score"]


def in_scorers(m, unit):
    fitted, data = model(m, 0).fit(*rows(m, X, Y)), rows(m, X, Y)
    return [
        make_fold_in_scorer()(fitted, *data),
        make_ranking_scorer(k=5)(fitted, *data),
    ]


def with_parties(m, unit):
    server = model(m, 0)
    fit_aggregated(server, Sums([party(server, *rows(m, X, Y))]))
    return server.factors_[1]


# Every public method and function that takes values, and where the table tries it.
DOORS = {
    "CPCompletion.fit": [
        to_coordinates, to_numbers_in_text, to_a_tensor, to_a_sparse_array, to_dask,
        in_a_pipeline, in_a_search,
    ],
    "CPCompletion.fit_transform": [to_a_tensor],
    "CPCompletion.fit_batches": [to_batches],
    "CPCompletion.partial_fit": [in_parts],
    "CPCompletion.fold_in": [folded_in],
    "CPCompletion.score": [in_a_score, in_a_search],
    "CPCompletion.fit_randomized": "refused",
    "CPCompletion.client": "refused",
    "Recommender.fit": [in_a_recommender],
    "Recommender.fit_batches": [in_batches_of_a_recommender],
    "Recommender.fold_in": [in_a_recommender],
    "Recommender.score": [in_a_recommender],
    "scorers": [in_scorers],
    "parties": [with_parties],
}  # fmt: skip
USES = sorted(
    {use for uses in DOORS.values() if uses != "refused" for use in uses},
    key=lambda use: use.__name__,
)


def test_the_table_has_every_door():
    """Whatever takes values takes them as `y`, in batches, or as a client."""
    takers = {
        f"{cls.__name__}.{name}"
        for cls in (CPCompletion, Recommender)
        for name, method in inspect.getmembers(cls)
        if not name.startswith("_") and callable(method)
        and {"y", "batches"} & set(inspect.signature(method).parameters)
    }  # fmt: skip
    assert takers <= set(DOORS), takers - set(DOORS)


@pytest.mark.thorough
@pytest.mark.parametrize("unit", ["entry", 0])
@pytest.mark.parametrize("use", USES)
def test_rows_with_the_number_are_as_if_left_out(use, unit):
    if use is in_parts and unit == 0:
        return
    assert_array_equal(use(0, unit), use(None, unit))


@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
def test_the_number_is_not_an_observation(kind):
    left_out = model(0, kind=kind).fit(X, Y).predict(EVERYWHERE)
    assert_array_equal(
        left_out, model(None, kind=kind).fit(X[SEEN], Y[SEEN]).predict(EVERYWHERE)
    )
    assert np.any(left_out != model(None, kind=kind).fit(X, Y).predict(EVERYWHERE))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: model(0).client(), "Clients send every value"),
        (lambda: model(0).fit_randomized(X, Y), "Clients send every value"),
        (lambda: model(True).fit(X, Y), "one finite number"),
        (lambda: model(math.nan).fit(X, Y), "one finite number"),
        (lambda: model(math.inf).fit(X, Y), "one finite number"),
        (lambda: model("0").fit(X, Y), "missing_values"),
        (lambda: model(5).fit(X, Y), "missing_values=5 is one of the levels"),
        (lambda: model(0, levels=[0, 1.5]).fit_batches([(X, Y)]), "one of the levels"),
        (lambda: Recommender(model(1, shape=None)).fit(IDS, Y), "one of the levels"),
        (lambda: model(0).fit(X, 0 * Y), "no observed entry"),
        (lambda: model(0).fit_batches([(X, 0 * Y)]), "no observed entry"),
        (lambda: model(0).fit(np.zeros(SHAPE)), "No entry of the tensor"),
        (lambda: Recommender(model(0, shape=None)).fit(IDS, 0 * Y), "observed value"),
        (
            lambda: PrivateSearchCV(model(0), {"rank": [0, 1]}).fit(X, Y),
            "Leave out the rows",
        ),
        (
            lambda: PrivateSearchCV(model(None), {"missing_values": [0, 1]}).fit(X, Y),
            "Leave out the rows",
        ),
    ],
)
def test_what_it_cannot_mean_is_refused_before_anything_is_spent(call, said):
    with PrivacyBudget(1e-9), refused(said):
        call()


def test_who_has_the_number_is_said_to_be_public_where_it_is():
    def told(unit):
        return " ".join(privacy_of(model(0, unit).fit(X, Y)).unprotected)

    assert "who has this value is public" in told("entry")
    assert "who has this value" not in told(0)
    assert "makes public who has that value" in " ".join(CPCompletion.__doc__.split())


@pytest.mark.thorough
def test_a_user_who_rated_nothing_is_like_nobody(recwarn):
    """With users protected, such a user changes neither the release nor a message."""
    shape = (31, 25)
    extra = np.column_stack([np.full(9, 30), np.arange(9)])
    without = model(0, 0, shape=shape).fit(X, Y)
    n_before = len(recwarn)
    with_all = model(0, 0, shape=shape).fit(
        np.concatenate([X, extra]), np.append(Y, np.zeros(9))
    )
    assert n_before == len(recwarn) - n_before
    for one, other in zip(with_all.factors_, without.factors_, strict=True):
        assert one is other is None or np.array_equal(one, other)
    empty = model(0, 0, shape=shape).fit(extra, np.zeros(9))  # no error tells of it
    assert empty.shape_ == shape


def test_check_table_shows_what_would_be_left_out(capsys):
    free = {"epsilon": math.inf}
    by_model = check_table(model(0, **free), X, Y)
    by_call = check_table(model(None, **free), X, Y, missing_values=0)
    assert by_model == by_call
    assert by_call["rows"] == N
    assert by_call["rows that are not observed"] == N - SEEN.sum()
    assert by_call["values below the range"] == 0
    assert check_table(model(None, **free), X, Y)["values below the range"] > 0
    assert "rows that are not observed" in capsys.readouterr().out
    with pytest.raises(ValueError, match="one finite number"):
        check_table(model(None, **free), X, Y, missing_values=True)


def test_a_copy_asks_the_same():
    fitted = copy.deepcopy(model(0).fit(X, Y))
    assert fitted.score(X, Y) == fitted.score(X[SEEN], Y[SEEN])
