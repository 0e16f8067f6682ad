"""Candidates that are refused before anything is spent, and scorers that fit."""

import numpy as np
import pytest
from scipy.stats import uniform
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    StandardScaler,
)

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism, MatrixMechanism
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.moments import MultilinearRidge
from sktensordp.papers import BiScaler
from sktensordp.privacy import privacy_of
from tests.support import refusing

pytestmark = pytest.mark.thorough
LEVELS = [1, 2, 3, 4, 5]
WHERE = np.argwhere(np.ones((12, 10)))
VALUES = (np.arange(120) * 7 % 5 + 1).astype(float)
X = np.random.default_rng(0).normal(size=(80, 4))
Y = X @ [1.0, -1.0, 0.5, 0.0]


def refused(search, X, y, match):
    with refusing.refused(match):
        search.fit(X, y)


@pytest.mark.slow
def test_gaussian_codes_are_as_planned():
    noise = GaussianMechanism(1.0, delta=1e-5, bounds=(-3, 3))
    encoder = TaskAwareEncoder(1.0, delta=1e-5, mechanism="gaussian", n_components=2)
    search = PrivateSearchCV(
        make_pipeline(noise, encoder, Ridge()), {"ridge__alpha": [0.1, 1.0]}, n_iter=2,
        score_bounds=(-4, 0),
    )  # fmt: skip
    planned = search.planned_guarantee(X).epsilon
    assert search.fit(X, Y).privacy_guarantee_.epsilon == planned


def test_a_scorer_may_not_fit():
    def scoring(estimator, X, y):
        return estimator.fit(X, y).predict(X)

    model = CPCompletion(1, levels=LEVELS, max_iter=2)
    search = PrivateSearchCV(
        model, {"rank": [0]}, n_iter=2, scoring=scoring, score_bounds=(0, 5)
    )
    with pytest.raises(RuntimeError, match="Nothing may be fitted here"):
        search.fit(WHERE, VALUES)


def test_epsilon_of_what_is_not_private_may_be_searched():
    from sklearn.svm import SVR

    model = make_pipeline(LaplaceMechanism(1.0, bounds=(-3, 3)), SVR())
    search = PrivateSearchCV(
        model, {"svr__epsilon": [0.1, 0.2]}, n_iter=2, score_bounds=(-4, 0)
    )
    assert search.fit(X, Y).best_params_["svr__epsilon"] in (0.1, 0.2)
    search.set_params(param_distributions={"laplacemechanism__epsilon": [0.1]})
    refused(search, X, Y, "cannot be searched")


def searched(first, *others, grid=None, noise=None):
    """Search of a pipeline: steps, a mechanism (if no other is given), and a Ridge."""
    if noise is None:
        noise = LaplaceMechanism(1.0, bounds=(-3, 3), tensor_shape=(4,))
    steps = [("first", first), *others, ("noise", noise), ("ridge", Ridge())]
    return PrivateSearchCV(
        Pipeline(steps), grid or {"ridge__alpha": [1.0]}, score_bounds=(-4, 0),
        scoring="neg_mean_squared_error", n_iter=2,
    )  # fmt: skip


def columns(part, chosen=(0, 1)):
    return ColumnTransformer([("part", part, chosen)], remainder="passthrough")


class Scaler(Normalizer):
    """Has the tags of what it derives from, and learns."""

    def fit(self, X, y=None):
        self.mean_ = np.mean(X, axis=0)
        return self


class Own(TransformerMixin, BaseEstimator):
    """Of unknown kind."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


LEARNERS = {
    "a scaler": (StandardScaler(), "StandardScaler"),
    "columns": (columns(StandardScaler()), "StandardScaler"),
    "the rest": (
        ColumnTransformer([("a", Normalizer(), [0])], remainder=PCA()), "PCA"
    ),
    "columns that a function of X chooses": (
        columns(Normalizer(), lambda X: [int(X.var(axis=0).argmax())]),
        "ColumnTransformer",
    ),
    "a union": (FeatureUnion([("a", Normalizer()), ("b", PCA())]), "PCA"),
    "a pipeline": (make_pipeline(Normalizer(), StandardScaler()), "StandardScaler"),
    "a meta-estimator": (SelectFromModel(Ridge()), "SelectFromModel"),
    "voting": (VotingRegressor([("a", Ridge())]), "Ridge"),
    "a search": (GridSearchCV(PCA(), {"n_components": [2]}), "PCA"),
    "bagging": (BaggingRegressor(), "BaggingRegressor"),
    "a subclass": (Scaler(), "Scaler"),
    "another package": (Own(), "Own"),
    "an encoder": (TaskAwareEncoder(1.0), "TaskAwareEncoder"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "last"), [(case, i % 2) for i, case in enumerate(LEARNERS)]
)
def test_a_step_that_learns_from_raw_X_is_refused(case, last):
    """Its guarantee would be of the noise that follows, not of what it publishes."""
    step, kind = LEARNERS[case]
    if last:  # after other steps that learn nothing
        search, name = searched(Normalizer(), ("raw", step)), "raw"
    else:
        search, name = searched(step), "first"
    of_public = kind == "TaskAwareEncoder"
    advice = "Fit it to public data" if of_public else "Put a private step first"
    match = rf"Step '{name}' learns from raw X in its fit \({kind}\).*{advice}"
    refused(search, X, Y, match)
    with pytest.raises(ValueError, match=match):
        search.planned_guarantee(X)


@pytest.mark.parametrize("step", [SelectKBest(k=2), TaskAwareEncoder(1.0), PCA(2)])
def test_a_step_that_reads_a_protected_y_is_refused(step):
    """X has noise already, so that nothing but y is at stake."""
    noise = GaussianMechanism(1.0, delta=1e-6, norm_bound=1.0)
    last = MultilinearRidge((2,), norm_bound=1.0, target_bounds=(-3, 3), delta=1e-6)
    search = PrivateSearchCV(
        Pipeline([("noise", noise), ("step", step), ("last", last)]),
        {"last__alpha": [0.1, 1.0]}, n_iter=2, score_bounds=(-4, 0),
    )  # fmt: skip
    if isinstance(step, PCA):
        search.planned_guarantee(X)  # is not refused
        return
    match = rf"Step 'step' may learn from y in its fit \({type(step).__name__}\)"
    refused(search, X, Y, match)
    with pytest.raises(ValueError, match=match):
        search.planned_guarantee(X)


@pytest.mark.parametrize(
    "step",
    [
        Normalizer(),
        Binarizer(),
        FunctionTransformer(np.tanh),
        columns(Binarizer()),
        make_pipeline(Normalizer(), FunctionTransformer()),
        FrozenEstimator(StandardScaler().fit(np.zeros((3, 4)))),
        "passthrough",
        None,
        CoordinateEncoder(categories=[np.unique(X[:, k]) for k in range(4)]),
    ],
)
def test_a_step_that_learns_nothing_is_allowed(step):
    search = searched(step).fit(X, Y)
    alone = searched("passthrough").planned_guarantee(X)
    assert search.privacy_guarantee_ == alone


def test_a_function_of_rows_is_named():
    search = searched(FunctionTransformer(np.tanh)).fit(X, Y)
    named = [s for s in privacy_of(search).unprotected if "FunctionTransformer" in s]
    assert named == [
        "FunctionTransformer must compute each row from that row alone; its function "
        "is not checked."
    ]


def test_what_learns_from_noisy_X_is_allowed_and_its_labels_are_named():
    noise = LaplaceMechanism(1.0, bounds=(-3, 3))
    search = searched(noise, ("scale", StandardScaler()), noise="passthrough")
    search.fit(X, Y)
    report = privacy_of(search)
    assert report.guarantee == searched("passthrough").planned_guarantee(X)
    named = " ".join(report.unprotected)
    assert "LaplaceMechanism protects the rows of X, not y" in named
    assert "Ridge learned from the targets y" in named


REPLACED = {
    "list": {"first": ["passthrough", StandardScaler()]},
    "parameter": {"first__func": [np.tanh], "second": [StandardScaler()]},
    "after a step that is kept": {"second": [Normalizer(), StandardScaler()]},
    "the mechanism first": {"noise": [StandardScaler()]},
    "in columns": {"second__part": [StandardScaler(), "passthrough"]},
    "with a distribution": {
        "first": ["passthrough", StandardScaler()], "ridge__alpha": uniform(0, 1)
    },
    "among many": {
        "first": ["passthrough", StandardScaler()],
        "ridge__alpha": np.linspace(0.1, 1, 1000),
    },
    "in the second grid": [{"ridge__alpha": [1.0]}, {"first": [StandardScaler()]}],
}  # fmt: skip


@pytest.mark.parametrize("case", REPLACED)
def test_candidates_that_would_learn_from_raw_X_are_refused(case):
    second = columns(Normalizer()) if "columns" in case else "passthrough"
    search = searched(
        FunctionTransformer(np.tanh), ("second", second), grid=REPLACED[case]
    )
    match = "gives a guarantee" if "mechanism" in case else "StandardScaler"
    refused(search, X, Y, match)


def test_a_step_before_a_private_one_that_a_candidate_leaves_out():
    """What learned from released X then learns from raw X."""
    first = LaplaceMechanism(1.0, bounds=(-3, 3))
    search = searched(
        first, ("scale", StandardScaler()), grid={"first": ["passthrough"]}
    )
    refused(search, X, Y, r"Step 'scale' learns from raw X in its fit")


def test_a_drawn_candidate_is_checked_before_it_is_fitted(monkeypatch):
    """A distribution cannot be enumerated; what it gave first learned nothing."""

    class Steps:
        def __init__(self):
            self.given = iter(["passthrough", StandardScaler()])

        def rvs(self, random_state=None):
            return next(self.given, StandardScaler())

    fits = []
    fit = StandardScaler.fit

    def recorded(*args, **kwargs):
        fits.append(1)
        return fit(*args, **kwargs)

    monkeypatch.setattr(StandardScaler, "fit", recorded)
    search = searched("passthrough", grid={"first": Steps()})
    with pytest.raises(ValueError, match="Step 'first' learns from raw X"):
        search.fit(X, Y)
    assert not fits
    assert not hasattr(search, "best_params_")


def coded(encoder, **params):
    """Search of a completion of ids that are encoded first."""
    model = CPCompletion(1, levels=LEVELS, max_iter=2, **params)
    return PrivateSearchCV(
        Pipeline([("ids", encoder), ("model", model)]), {"model__rank": [0]},
        score_bounds=(-16, 0), n_iter=2,
    )  # fmt: skip


IDS = np.array([[f"u{i}", f"i{j}"] for i, j in WHERE])
CATALOGUE = [np.unique(column) for column in IDS.T]


def test_ids_are_learned_where_coordinates_are_public_alone():
    of_users = {"unit": 0, "shape": (12, 10)}
    search = coded(CoordinateEncoder(), **of_users)
    refused(search, IDS, VALUES, "Step 'ids' publishes the ids .* unit 0.*`categ")
    search = coded(CoordinateEncoder(categories=CATALOGUE), **of_users)
    refused(search, IDS, VALUES, "pass a Recommender")
    for encoder in (
        CoordinateEncoder(),
        CoordinateEncoder(categories=[CATALOGUE[0], None]),
        columns(CoordinateEncoder(), [0, 1]),
        CoordinateEncoder(
            time_bins=2, categories=[np.unique(X[:, k]) for k in (0, 1, 2)]
        ),
    ):
        match = r"Step 'first' publishes the ids .* unit 'sample'.*`categories`"
        refused(searched(encoder), X, Y, match)
    counts = MatrixMechanism(1.0)
    refused(searched(CoordinateEncoder(), noise=counts), X, Y, "CoordinateEncoder")


def test_ids_of_a_completion_of_entries_may_be_learned():
    search = coded(CoordinateEncoder()).fit(IDS, VALUES)
    assert search.privacy_guarantee_.unit == "entry"
    assert search.privacy_guarantee_.protects
    assert any("vocabulary" in s for s in privacy_of(search).unprotected)


def test_a_private_step_that_protects_y_leaves_X_raw():
    """BiScaler releases statistics of the values; coordinates are as they were."""
    scaler = BiScaler(epsilon=1.0, value_bounds=(1, 5))
    search = PrivateSearchCV(
        Pipeline([("values", scaler), ("ridge", Ridge())]), {"ridge__alpha": [1.0]},
        score_bounds=(-16, 0), n_iter=2,
    )  # fmt: skip
    refused(search, WHERE, VALUES, "Step 'ridge' learns from raw X")
