"""privacy_of counts no less than spies do, which see every record on its way."""

import math
from collections import Counter
from typing import ClassVar

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import VotingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import (
    BaseCrossValidator,
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    LeavePOut,
    RandomizedSearchCV,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sktensordp.completion import CPCompletion
from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
from sktensordp.papers import (
    PublishedMatrixVariateGaussian,
    PublishedTensorVariateGaussian,
)
from sktensordp.privacy import PrivacyTags, compose, privacy_of
from tests.support.every_estimator import EVERY
from tests.support.seams import event_delta, event_for_any_length

# Threads enter `warnings.catch_warnings` side by side.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.usefixtures("restored_filters"),
]

N = 24
IDS = (np.arange(N) + 0.5) / N
RNG = np.random.default_rng(0)
# Every column says which record a row is, so that a spy knows it of any of them.
ROWS = np.tile(IDS[:, None], (1, 4))
CLASSES = np.arange(N) % 2
CELLS = np.column_stack([np.arange(N) % 6, np.arange(N) // 6])


class SpiedLaplace(LaplaceMechanism):
    """Sees which rows it releases."""

    seen: ClassVar = Counter()

    def transform(self, X):
        self.seen.update(np.asarray(X)[:, 0].tolist())
        return super().transform(X)


class SpiedCompletion(RegressorMixin, BaseEstimator):
    """Sees which values it is fitted to; says what a completion guarantees."""

    seen: ClassVar = Counter()

    def __init__(self, epsilon=1.0, rank=0):
        self.epsilon, self.rank = epsilon, rank

    def __privacy_tags__(self):
        return PrivacyTags(released_by="fit")

    def __privacy_releases__(self):
        return {}

    def __privacy_plan__(self, fitted=None, *, any_shape=False):
        model = CPCompletion(0, epsilon=self.epsilon, value_bounds=(0, 1))
        return model.__privacy_plan__()

    def __privacy_unprotected__(self):
        return []

    def fit(self, X, y):
        self.seen.update(np.asarray(y).tolist())
        self.privacy_guarantee_ = self.__privacy_plan__()
        return self

    def predict(self, X):
        return np.linspace(0, 1, len(X))


@pytest.fixture(autouse=True)
def fresh():
    SpiedLaplace.seen.clear()
    SpiedCompletion.seen.clear()


def mechanism(**params):
    return SpiedLaplace(1.0, bounds=(0, 1), **params)


def classifier():
    return make_pipeline(mechanism(), DummyClassifier())


def check(model, X, y, spy, *, exact=True):
    """Compare the count of a report with what the spy saw."""
    spy.seen.clear()
    report = privacy_of(model.fit(X, y))
    truth, counted = max(spy.seen.values()), sum(n for _, n, _ in report.releases)
    assert counted >= truth
    if exact:
        assert counted == truth
    assert report.guarantee.epsilon >= truth * (1 - 1e-9)
    return report


# Some record is in all training parts.
OFTEN = ShuffleSplit(4, test_size=0.2, random_state=0)


@pytest.mark.parametrize(
    ("cv", "exact"),
    [
        (None, True),
        (OFTEN, True),
        (RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), True),
        (LeavePOut(2), False),  # each record is left out by some
        (TimeSeriesSplit(3), True),
    ],
    ids=str,
)
def test_fits(cv, exact):
    """A completion is fitted to the training parts and in the refit."""
    scoring = "neg_mean_squared_error"
    search = GridSearchCV(SpiedCompletion(), {"rank": [0, 1]}, cv=cv, scoring=scoring)
    check(search, CELLS, IDS, SpiedCompletion, exact=exact)


@pytest.mark.parametrize(
    ("cv", "train"),
    [
        (KFold(3, shuffle=True, random_state=0), False),
        (StratifiedKFold(4), True),
        (RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0), True),
        (OFTEN, False),
        (OFTEN, True),
    ],
    ids=str,
)
def test_transforms(cv, train):
    """A mechanism transforms training parts, held-out parts and, for train scores,
    training parts again."""
    search = GridSearchCV(
        classifier(), {"dummyclassifier__random_state": [1, 2]}, cv=cv,
        return_train_score=train,
    )  # fmt: skip
    check(search, ROWS, CLASSES, SpiedLaplace)


@pytest.mark.parametrize(
    "model",
    [
        ColumnTransformer([("a", mechanism(), [0, 1]), ("b", mechanism(), [2, 3])]),
        ColumnTransformer([("a", mechanism(), [0])], remainder=mechanism()),
        ColumnTransformer(
            [("a", mechanism(), slice(1)), ("none", mechanism(), [])],
            remainder="passthrough",
        ),
        ColumnTransformer([("a", mechanism(), [0]), ("b", "drop", [1])]),
        ColumnTransformer(
            [("both", FeatureUnion([("x", mechanism()), ("y", mechanism())]), [0, 1])]
        ),
        FeatureUnion([("a", mechanism()), ("b", mechanism()), ("c", "drop")]),
        FeatureUnion([("a", make_pipeline(mechanism())), ("b", "passthrough")]),
        make_pipeline(make_pipeline("passthrough", mechanism())),
    ],
    ids=["two", "remainder", "some", "drop", "nested", "union", "pass", "pipe"],
)
def test_parts_side_by_side_add_up(model):
    pipe = make_pipeline(model, Ridge())
    search = GridSearchCV(
        pipe, {"ridge__alpha": [1.0, 2.0]}, cv=3, return_train_score=True
    )
    for fitted in (pipe, search):
        check(fitted, ROWS, IDS, SpiedLaplace)


@pytest.mark.parametrize(
    ("kind", "train"), [(HalvingGridSearchCV, False), (HalvingRandomSearchCV, True)]
)
def test_halving(kind, train):
    """Every row of cv_results_ is a set of fits, and takes a part of the records."""
    grid = {
        "dummyclassifier__strategy": ["prior", "uniform", "stratified", "most_frequent"]
    }
    most = {"n_candidates": 4} if kind is HalvingRandomSearchCV else {}
    search = kind(
        classifier(), grid, cv=KFold(3), resource="dummyclassifier__random_state",
        factor=2, min_resources=12, max_resources=200, random_state=0,
        return_train_score=train, **most,
    )  # fmt: skip
    report = check(search, ROWS, np.arange(N) // 2 % 2, SpiedLaplace)
    assert len(report.releases) == len(search.cv_results_["params"]) + 1
    assert len(set(search.cv_results_["iter"])) > 1


@pytest.mark.parametrize(
    ("inner_cv", "refit"),
    [
        (2, True),
        pytest.param(OFTEN, "accuracy", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_search_in_a_search(inner_cv, refit):
    inner = GridSearchCV(
        classifier(), {"dummyclassifier__random_state": [1, 2]}, cv=inner_cv,
        refit=refit, return_train_score=True,
        scoring="accuracy" if refit is True else ["accuracy", "neg_log_loss"],
    )  # fmt: skip
    outer = GridSearchCV(inner, {"error_score": [0.0, 1.0]}, cv=KFold(3))
    # Which of the inner candidates is refitted makes no difference here.
    exact = refit is True and inner_cv == 2
    check(outer, ROWS, CLASSES, SpiedLaplace, exact=exact)


def test_a_search_in_a_search_refits_with_any_candidate():
    inner = GridSearchCV(SpiedCompletion(), {"epsilon": [1.0, 3.0]}, cv=2, scoring="r2")
    outer = GridSearchCV(inner, {"cv": [2, 3]}, cv=KFold(4), scoring="r2")
    report = check(outer, CELLS, IDS, SpiedCompletion, exact=False)
    # In 3 training parts, there in 1 or 2 inner ones, and refitted with any; then in
    # the refit of the outer search.
    best = outer.best_estimator_
    last = (1 + 3) * (best.cv - 1) + best.best_params_["epsilon"]
    assert report.guarantee.epsilon == 3 * ((1 + 3) * (1 + 2) + 2 * (1 + 3)) + last


def test_a_random_search_in_a_search_may_draw_any_candidate():
    lists = {"dummyclassifier__random_state": [1, 2, 3]}
    inner = RandomizedSearchCV(classifier(), lists, n_iter=2, cv=2, random_state=0)
    outer = GridSearchCV(inner, {"n_iter": [1, 2]}, cv=KFold(3))
    check(outer, ROWS, CLASSES, SpiedLaplace, exact=False)


@pytest.mark.parametrize("searched", [False, True])
def test_a_search_in_a_pipeline(searched):
    inner = GridSearchCV(
        classifier(), {"dummyclassifier__random_state": [1, 2]}, cv=2,
        scoring="accuracy",
    )  # fmt: skip
    pipe = make_pipeline(StandardScaler(with_std=False, with_mean=False), inner)
    if searched:
        pipe = GridSearchCV(pipe, {"standardscaler__copy": [True, False]}, cv=KFold(3))
    check(pipe, ROWS, CLASSES, SpiedLaplace)


@pytest.mark.parametrize("searched", [False, True])
def test_voting_fits_each_once(searched):
    model = VotingRegressor(
        [("a", SpiedCompletion()), ("b", SpiedCompletion()), ("c", "drop")]
    )
    if searched:
        model = GridSearchCV(model, {"a__rank": [0, 1], "c": ["drop", Ridge()]}, cv=3)
    report = check(model, CELLS, IDS, SpiedCompletion)
    assert ("What Ridge learned" in str(report)) == searched


@pytest.mark.parametrize("searched", [False, True])
@pytest.mark.parametrize("transformer", [None, StandardScaler(with_std=False)])
def test_a_transformed_target_is_counted(transformer, searched):
    model = TransformedTargetRegressor(
        make_pipeline(mechanism(), Ridge()), transformer=transformer
    )
    if searched:
        model = GridSearchCV(model, {"regressor__ridge__alpha": [1.0, 2.0]}, cv=3)
    report = check(model, ROWS, IDS, SpiedLaplace)
    named = any("What StandardScaler computes from y" in s for s in report.unprotected)
    assert named == (transformer is not None)


@pytest.mark.parametrize(
    ("scoring", "refit"),
    [
        (["accuracy", "roc_auc"], "roc_auc"),
        (["accuracy", "roc_auc"], lambda results: 0),
        ({"one": make_scorer(accuracy_score)}, "one"),
    ],
)
def test_refit_by_name_or_function(scoring, refit):
    search = RandomizedSearchCV(
        classifier(), {"dummyclassifier__random_state": [1, 2, 3]}, n_iter=2, cv=3,
        scoring=scoring, refit=refit, return_train_score=True, random_state=0,
    )  # fmt: skip
    check(search, ROWS, CLASSES, SpiedLaplace, exact=not isinstance(scoring, list))


def test_a_cache_makes_it_less(tmp_path):
    pipe = Pipeline(
        [("a", mechanism()), ("b", DummyClassifier())], memory=str(tmp_path)
    )
    search = GridSearchCV(pipe, {"b__random_state": [1, 2]}, cv=3)
    report = check(search, ROWS, CLASSES, SpiedLaplace, exact=False)
    uncached = clone(search).set_params(estimator__memory=None)
    without = privacy_of(uncached.fit(ROWS, CLASSES))
    assert report.guarantee.epsilon == without.guarantee.epsilon


class Validating(RegressorMixin, BaseEstimator):
    """Is given samples to validate, too."""

    def fit(self, X, y, X_val=None):
        self.n_features_in_ = X_val.shape[1]
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.parametrize("searched", [False, True])
def test_metadata_that_is_transformed(searched):
    """A pipeline can pass other samples through its steps; here they are the same."""
    with config_context(enable_metadata_routing=True):
        model = Pipeline(
            [("a", mechanism()), ("b", Validating().set_fit_request(X_val=True))],
            transform_input=["X_val"],
        )
        if searched:
            model = GridSearchCV(model, {"b": [model[-1]]}, cv=3)
        model.fit(ROWS, IDS, X_val=ROWS)
        counted = sum(n for _, n, _ in privacy_of(model).releases)
    assert (
        counted == max(SpiedLaplace.seen.values()) == (2 + 2 + 1 + 2 if searched else 2)
    )


class Doubling(BaseCrossValidator):
    """Puts records into a training part twice."""

    def get_n_splits(self, X=None, y=None, groups=None):
        return 2

    def split(self, X, y=None, groups=None):
        n = len(X) // 2
        yield np.r_[:n, :n], np.arange(n, len(X))
        yield np.r_[n : len(X), :n, :n], np.arange(n)


def test_an_unknown_splitter_may_repeat_records():
    cv = Doubling()
    search = GridSearchCV(SpiedCompletion(), {}, cv=cv, scoring="r2").fit(CELLS, IDS)
    report = privacy_of(search)
    assert math.isinf(report.guarantee.epsilon)
    assert any("unknown splitter" in sentence for sentence in report.unprotected)


def test_what_is_set_after_the_fit_hides_nothing():
    def fitted():
        return GridSearchCV(
            classifier(), {"dummyclassifier__random_state": [1, 2]}, cv=OFTEN,
            return_train_score=True, scoring=["accuracy", "roc_auc"], refit="accuracy",
        ).fit(ROWS, CLASSES)  # fmt: skip

    expected = privacy_of(fitted()).guarantee.epsilon
    for after in (
        {"return_train_score": False, "scoring": "accuracy"},
        {"param_grid": {}},
    ):
        assert privacy_of(fitted().set_params(**after)).guarantee.epsilon == expected
    # Before version 1.9, scikit-learn does not store the splitter: the report says so.
    report = privacy_of(fitted().set_params(cv=4))
    supposes = any("supposes that `cv`" in sentence for sentence in report.unprotected)
    assert (report.guarantee.epsilon == expected) is not supposes
    assert supposes is not hasattr(fitted(), "_checked_cv_orig")
    # A search that was not refitted does not know the shape of the samples.
    with pytest.raises(TypeError, match="pass refit=True"):
        privacy_of(fitted().set_params(refit=False))
    search = GridSearchCV(SpiedCompletion(), {}, cv=3, scoring="r2").fit(CELLS, IDS)
    assert privacy_of(search.set_params(refit=False)).guarantee.epsilon == 2 + 1
    changed = fitted().set_params(estimator__spiedlaplace__epsilon=0.01)
    report = privacy_of(changed)
    assert math.isinf(report.guarantee.epsilon)
    assert any("set after the fit" in sentence for sentence in report.unprotected)


def test_candidates_leave_the_callers_estimators_alone():
    given = [LaplaceMechanism(5.0, bounds=(0, 1))]
    grid = {"a": given, "a__epsilon": [1.0, 2.0]}
    pipe = Pipeline([("a", StandardScaler()), ("b", Ridge())])
    report = privacy_of(GridSearchCV(pipe, grid, cv=2).fit(ROWS, IDS))
    assert [one.epsilon for _, _, one in report.releases[:2]] == [1.0, 2.0]
    assert given[0].epsilon == 5.0


# Plans hold for samples of the shapes that these had in the folds.

# A record is trained on or held out, once for each candidate.
ONCE = ShuffleSplit(1, test_size=0.5, random_state=0)


class Noted:
    """Notes what every release of all rows guarantees."""

    noted: ClassVar = []

    def transform(self, X):
        self.noted.append(self.privacy_guarantee_)
        return super().transform(X)


class NotedTensor(Noted, PublishedTensorVariateGaussian):
    pass


class NotedMatrix(Noted, PublishedMatrixVariateGaussian):
    pass


TENSOR = NotedTensor(1.0, bounds=(0, 1))
MATRIX = NotedMatrix(1.0, bounds=(0, 1))


def of_components(noise):
    return [("a", PCA()), ("b", noise), ("c", Ridge())], "a__n_components", [2, 12]


def of_itself(noise):
    steps = [("a", noise), ("c", Ridge())]
    return steps, "a__tensor_shape", [(12, 1), (2, 6)]


def counted_and_true(steps, name, values, X):
    """What a report says of a search with two candidates, and what is true.

    The first candidate is refitted.
    """
    Noted.noted.clear()
    search = GridSearchCV(
        Pipeline(steps), {name: values}, cv=ONCE, error_score="raise",
        scoring=make_scorer(lambda *args: 0.0),
    ).fit(X, IDS)  # fmt: skip
    # Both candidates are also scored once.
    assert len(Noted.noted) == 5
    return privacy_of(search).guarantee, compose(*Noted.noted[::2])


@pytest.mark.parametrize(
    ("noise", "searched", "order"),
    [(TENSOR, of_components, 1), (MATRIX, of_itself, -1)],
)
def test_samples_of_other_shapes_than_the_best_ones(noise, searched, order):
    """Where steps before a mechanism decide how many columns come to it."""
    steps, name, values = searched(noise)
    data = RNG.random((N, 12))
    counted, true = counted_and_true(steps, name, values[::order], data)
    assert counted.epsilon >= true.epsilon * (1 - 1e-9)
    for delta in (1e-9, 1e-5, 1e-2):
        assert counted.epsilon_at(delta) >= true.epsilon_at(delta) * (1 - 1e-9)


MECHANISMS = [
    pytest.param(case, id=case.label)
    for (case,) in (param.values for param in EVERY)
    if case.private == "samples"
]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("case", MECHANISMS)
def test_a_search_over_columns_counts_what_its_fits_guarantee(case, order):
    """For every mechanism that takes samples of more than one length."""
    kind = type(case.estimator)
    noted = type(kind.__name__, (Noted, kind), {"__module__": __name__})
    X = np.zeros((N, 12))
    X[:, 0] = 1
    choices = []
    for columns in ([0, 1], list(range(12))):
        noise = noted(**case.fresh().get_params(deep=False))
        choices.append([("n", noise, columns)])
        try:
            clone(noise).fit(X[:, columns])
        except ValueError:
            pytest.skip("It takes samples of one length, or matrices.")
    steps = [("a", ColumnTransformer(choices[0])), ("c", Ridge())]
    counted, true = counted_and_true(steps, "a__transformers", choices[::order], X)
    for delta in (0.0, 1e-9, 1e-5, 1e-2):
        assert counted.epsilon_at(delta) >= true.epsilon_at(delta)
    if type(case.estimator) is GaussianMechanism:
        # Far less than five times epsilon, which holds without the curve.
        assert counted.epsilon_at(true.delta) < 1.01 * true.epsilon_at(true.delta)


@pytest.mark.parametrize("domain", [{"bounds": (0, 0.7)}, {"norm_bound": 1.0}])
@pytest.mark.parametrize("epsilon", [0.02, 1.0, 10.0])
def test_what_is_planned_for_samples_of_any_length(domain, epsilon):
    noise = GaussianMechanism(epsilon, delta=1e-6, **domain)
    lengths = (1, 2, 3, 7, 12, 300, 2**16 + 1, 2**20)
    found = [noise.fit(np.zeros((1, n))).privacy_guarantee_ for n in lengths]
    planned, most = event_for_any_length(found[0].event, epsilon, 1e-6, 1)
    assert most == lengths[-1]
    for true in found:
        for one in (0.0, epsilon / 3, epsilon, 2 * epsilon):
            assert event_delta(planned, one) >= true.delta_at(one)
    # Longer samples, and budgets beside which the sampler is not negligible.
    assert event_for_any_length(found[0].event, epsilon, 1e-6, 2**21)[1] == 2**21
    assert event_for_any_length(found[0].event, 2e-3, 1e-6, 1) is None


def test_steps_that_keep_the_columns_cost_nothing():
    pipe = make_pipeline(
        StandardScaler(),
        FeatureUnion([("all", "passthrough")]),
        LaplaceMechanism(bounds=(0, 1)),
        Ridge(),
    )
    search = GridSearchCV(pipe, {"standardscaler__with_std": [True, False]}, cv=2)
    report = privacy_of(search.fit(RNG.random((N, 4)), IDS))
    planned, refitted = report.releases[0][2], report.releases[-1][2]
    assert planned.event == refitted.event


def test_deltas_that_add_up_to_more_than_one():
    model = CPCompletion(
        0, unit=0, epsilon=1.0, delta=0.3, value_bounds=(0, 1), shape=(6, 4)
    )
    report = privacy_of(GridSearchCV(model, {"rank": [0]}, cv=4).fit(CELLS, IDS))
    assert 0 < report.guarantee.delta < 1
    assert report.guarantee.epsilon > 1
