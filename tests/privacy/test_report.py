"""privacy_of: what a report names, what it cannot see, and what clashes."""

import functools
import math
from typing import ClassVar

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.stats import uniform
from sklearn import model_selection as of_sklearn
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
)
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, StackingRegressor, VotingRegressor
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    cross_val_score,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from sktensordp.base import PrivateEstimatorMixin, recorded_call
from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism, MatrixMechanism
from sktensordp.moments import MultilinearPCA, MultilinearRidge
from sktensordp.privacy import (
    PrivacyBudget,
    PrivacyGuarantee,
    PrivacyReport,
    PrivacyTags,
    privacy_of,
)
from tests.support.guarantees import pure

N = 24
RNG = np.random.default_rng(0)
X = RNG.random((N, 5))
Y = RNG.random(N)
CLASSES = np.arange(N) % 2
CELLS = np.column_stack([np.arange(N) % 6, np.arange(N) // 6])


def laplace(epsilon=1.0):
    return LaplaceMechanism(epsilon, bounds=(0, 1))


def completion(**params):
    return CPCompletion(0, value_bounds=(0, 1), shape=(6, 4), **params)


def searched(model, **params):
    name = "ridge__alpha" if "ridge" in dict(model.steps) else "logisticregression__C"
    return GridSearchCV(model, {name: [1.0, 2.0]}, cv=2, **params)


class TestWhatIsPassedOn:
    """A later step learns from noise alone, or is named."""

    PROTECTED: ClassVar = {
        "mechanism": [laplace()],
        "deep": [make_pipeline(make_pipeline(laplace(), PCA(2)), "passthrough")],
        "columns": [ColumnTransformer([("a", laplace(), [0, 1]), ("b", "drop", [2])])],
        "remainder": [ColumnTransformer([("a", laplace(), [0])], remainder=laplace())],
        "nothing left": [
            ColumnTransformer([("a", laplace(), slice(5))], remainder="passthrough")
        ],
        "no column": [
            ColumnTransformer([("a", laplace(), [0]), ("b", StandardScaler(), [])])
        ],
        "pipe in columns": [
            ColumnTransformer([("a", make_pipeline(laplace(), PCA(1)), [0, 1])])
        ],
        "union": [FeatureUnion([("a", laplace()), ("b", "drop"), ("c", laplace())])],
        "columns after": [
            laplace(),
            ColumnTransformer([("a", PCA(1), [0, 1])], remainder="passthrough"),
        ],
        "frozen": [FrozenEstimator(laplace().fit(X))],
    }
    RAW: ClassVar = {
        "nothing": [StandardScaler(), ()],
        "remainder": [
            ColumnTransformer([("a", laplace(), [0])], remainder="passthrough"),
            ["4 column(s)", "'remainder'"],
        ],
        "part": [
            ColumnTransformer(
                [("a", laplace(), [0]), ("b", "passthrough", [1, 2])],
                remainder=laplace(),
            ),
            ["2 column(s)", "'b'"],
        ],
        "scaled": [
            ColumnTransformer([("a", laplace(), [0]), ("b", StandardScaler(), [4])]),
            ["1 column(s)", "'b'", "What StandardScaler learned"],
        ],
        "in columns": [
            ColumnTransformer(
                [("all", FeatureUnion([("a", laplace()), ("b", PCA(1))]), [0, 1])]
            ),
            ["'b'", "'all'", "What PCA learned", "3 column(s)"],
        ],
        "union": [
            FeatureUnion([("a", laplace()), ("b", "passthrough")]),
            ["passes on columns", "'b'"],
        ],
        "no noise": [laplace(math.inf), ()],
        "pipe": [
            make_pipeline(
                "passthrough",
                FeatureUnion([("a", laplace()), ("b", make_pipeline(PCA(1)))]),
            ),
            ["'b'", "What PCA learned"],
        ],
    }  # fmt: skip

    @pytest.mark.parametrize("steps", PROTECTED.values(), ids=PROTECTED)
    def test_protected(self, steps):
        model = make_pipeline(*map(clone, steps), Ridge())
        for fitted in (model, searched(model)):
            report = privacy_of(fitted.fit(X, Y))
            assert "Ridge learned from the targets y" in str(report)
            assert "What Ridge learned in its fit" not in str(report)
            assert "passes on" not in str(report)
            assert report.guarantee.protects

    @pytest.mark.parametrize(("step", "named"), RAW.values(), ids=RAW)
    def test_raw(self, step, named):
        # With a mechanism of its own behind it, so that there is a guarantee.
        model = make_pipeline(
            clone(step), SelectKBest(lambda X, y: np.ones(X.shape[1]), k="all"),
            laplace(), Ridge(),
        )  # fmt: skip
        for fitted in (model, searched(model)):
            report = privacy_of(fitted.fit(X, Y))
            assert "What SelectKBest learned in its fit" in str(report)
            assert "Ridge learned from the targets y" in str(report)
            for part in named:
                assert any(part in sentence for sentence in report.unprotected)

    def test_one_candidate_passes_raw_columns(self):
        model = Pipeline([("noise", laplace()), ("ridge", Ridge())])
        grid = {"noise": [laplace(), "passthrough"]}
        search = GridSearchCV(model, grid, cv=2, refit=lambda results: 0).fit(X, Y)
        assert "What Ridge learned in its fit" in str(privacy_of(search))
        assert "What Ridge learned in its fit" not in str(
            privacy_of(search.best_estimator_)
        )

    def test_a_search_behind_noise(self):
        search = GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=2)
        report = privacy_of(make_pipeline(laplace(), search).fit(X, Y))
        assert report.guarantee.epsilon == 1.0
        assert "Ridge learned from the targets y" in str(report)
        assert "raw values held out" in str(report)


class TestPlannedColumns:
    """The parts of a searched ColumnTransformer."""

    def count(self, columns, grid=None, X=X):
        pipe = Pipeline([("columns", columns), ("ridge", Ridge())])
        search = GridSearchCV(pipe, grid or {"ridge__alpha": [1.0]}, cv=2)
        return privacy_of(search.fit(X, Y))

    def test_a_part_without_columns_releases_nothing(self):
        for none in ([], np.zeros(5, bool), [False] * 5):
            columns = ColumnTransformer([("a", laplace(), [0]), ("b", laplace(), none)])
            # One training part and one held out, and the refit.
            assert self.count(columns).guarantee.epsilon == 3

    def test_columns_that_differ_between_candidates(self):
        columns = ColumnTransformer([("a", laplace(), [0])], remainder=laplace(2.0))
        every = [("a", laplace(), [0, 1, 2, 3, 4])]
        grid = {"columns__transformers": [every, columns.transformers]}
        report = self.count(columns, grid)
        # Whether something is left for the remainder is known of the best one alone.
        least = 2 * 1 + 2 * (1 + 2)
        assert report.guarantee.epsilon >= least + 1
        found = [name for name, *_ in report.releases if "candidate" in name]
        assert len(found) in (3, 4)

    def test_columns_by_type_and_name(self):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(X, columns=list("abcde")).assign(f=["u", "v"] * (N // 2))
        numbers = make_column_selector(dtype_include=float)
        others = make_column_selector(pattern="z")
        columns = ColumnTransformer(
            [("a", laplace(), numbers), ("b", laplace(), others), ("c", "drop", ["f"])],
            remainder=laplace(),
        )
        assert self.count(columns, X=frame).guarantee.epsilon == 3
        raw = ColumnTransformer(
            [("a", laplace(), ["a"]), ("b", OrdinalEncoder(), ["f"])],
            remainder="passthrough",
        )
        text = str(self.count(raw, X=frame))
        assert "4 column(s)" in text
        assert "What OrdinalEncoder learned" in text

    def test_columns_that_a_function_selects(self):
        """In a fold it may select others than in the refit, where nothing was left."""

        def every(X):
            return list(range(5)) if len(X) == N else [0]

        columns = ColumnTransformer([("a", laplace(), every)], remainder=laplace(8.0))
        report = self.count(columns)
        assert math.isinf(report.guarantee.epsilon)


class TestUnseen:
    """Ways in which private estimators are fitted that are not counted."""

    @pytest.mark.parametrize("in_search", [False, True])
    def test_mechanisms(self, in_search):
        noisy = make_pipeline(laplace(), LogisticRegression())
        model = BaggingClassifier(noisy, n_estimators=2)
        if in_search:
            model = CalibratedClassifierCV(noisy, cv=2)
        name = type(model).__name__
        if in_search:
            model = GridSearchCV(model, {"n_jobs": [1]}, cv=2)
        report = privacy_of(model.fit(X, CLASSES))
        assert math.isinf(report.guarantee.epsilon)
        assert report.guarantee.unit == "sample"
        assert f"It is not known how often {name} fits LaplaceMechanism." in (
            report.unprotected
        )

    def test_with_what_is_seen(self):
        stacked = StackingRegressor([("a", make_pipeline(laplace(), Ridge()))])
        report = privacy_of(make_pipeline(laplace(), stacked).fit(X, Y))
        seen, hidden = report.releases
        assert seen[2].epsilon == 1
        assert not hidden[2].protects
        assert not report.guarantee.protects

    def test_estimators_in_containers_and_functions(self):
        class Holder(TransformerMixin, BaseEstimator):
            def __init__(self, held=None):
                self.held = held

            def fit(self, X, y=None):
                self.fitted_ = True
                return self

            def transform(self, X):
                return X

        noise = laplace().fit(X)
        for held in (
            [noise], {"a": (noise,)}, np.array([None, noise], dtype=object),
            noise.transform, functools.partial(noise.transform, X=X),
        ):  # fmt: skip
            assert not privacy_of(Holder(held).fit(X)).guarantee.protects
        hidden = FunctionTransformer(noise.transform).fit(X)
        assert not privacy_of(hidden).guarantee.protects
        with pytest.raises(TypeError, match="Nothing in this Holder"):
            privacy_of(Holder([1, "a", None, LaplaceMechanism]).fit(X))

    def test_a_pipeline_of_another_package(self):
        class Resampling(Pipeline):
            """May pass a record on more than once."""

        model = Resampling([("a", laplace()), ("b", Ridge())]).fit(X, Y)
        assert not privacy_of(model).guarantee.protects

    def test_a_search_of_another_package(self):
        class Longer(GridSearchCV):
            """May fit more than is in cv_results_."""

        pipe = make_pipeline(laplace(), Ridge())
        search = Longer(pipe, {"ridge__alpha": [1.0]}, cv=2).fit(X, Y)
        report = privacy_of(search)
        assert not report.guarantee.protects
        assert "how often Longer fits LaplaceMechanism" in str(report)

    @pytest.mark.parametrize(
        "inner",
        [
            RandomizedSearchCV(
                make_pipeline(laplace(), Ridge()), {"ridge__alpha": uniform()},
                n_iter=2, cv=2, random_state=0,
            ),
            GridSearchCV(
                make_pipeline(laplace(), Ridge()), {"ridge__alpha": [1.0]},
                cv=KFold(2), scoring=lambda model, X, y: model.score(X, y),
            ),
        ],
        ids=["drawn", "scored"],
    )  # fmt: skip
    def test_a_search_in_a_search(self, inner):
        alone = privacy_of(inner.fit(X, Y))
        assert alone.guarantee.protects == (inner.scoring is None)
        outer = GridSearchCV(clone(inner), {"verbose": [0]}, cv=2).fit(X, Y)
        assert not privacy_of(outer).guarantee.protects

    def test_a_private_transformer_of_the_target(self):
        class Invertible(LaplaceMechanism):
            def inverse_transform(self, X):
                return X

        model = TransformedTargetRegressor(
            Ridge(), transformer=Invertible(bounds=(0, 1)), check_inverse=False
        )
        report = privacy_of(model.fit(X, Y))
        assert not report.guarantee.protects
        assert "TransformedTargetRegressor fits Invertible" in str(report)

    def test_parameters_that_cannot_be_planned(self):
        """A candidate that no fit can honour, beside one that can."""
        pipe = make_pipeline(GaussianMechanism(bounds=(0, 1)), Ridge())
        grid = {"gaussianmechanism__delta": [1e-6, 1e-300]}
        search = GridSearchCV(pipe, grid, cv=2)
        with pytest.warns(Warning, match="fits failed|non-finite"):
            search.fit(X, Y)
        report = privacy_of(search)
        assert [one.protects for _, _, one in report.releases] == [True, False, True]
        assert any("delta = 1e-300" in s for s in report.unprotected)

    @pytest.mark.parametrize(
        "nothing",
        [
            [], {}, (laplace().fit(X),), None, Ridge(), PrivacyBudget(1.0),
            LaplaceMechanism, make_pipeline(StandardScaler(), Ridge()),
            GridSearchCV(Ridge(), {}, cv=2).fit(X, Y),
        ],
        ids=str,
    )  # fmt: skip
    def test_what_is_no_estimator_or_not_private(self, nothing):
        with pytest.raises(TypeError, match="gives a guarantee"):
            privacy_of(nothing)


class Stated(BaseEstimator):
    """States a guarantee of its own, whatever it looks like."""

    def __init__(self, estimator=None, epsilon=1.0):
        self.estimator, self.epsilon = estimator, epsilon

    def __privacy_tags__(self):
        return PrivacyTags(released_by="fit")

    def __privacy_releases__(self):
        return {}

    def __privacy_plan__(self, fitted=None, *, any_shape=False):
        return completion(epsilon=self.epsilon).__privacy_plan__()

    def __privacy_unprotected__(self):
        return ["Stated says so."]

    def fit(self, X, y=None):
        self.privacy_guarantee_ = self.__privacy_plan__()
        self.best_estimator_ = self.estimator.fit(X, y)
        self.cv_results_ = {"params": [{}] * 50}
        self.steps = [("a", self.estimator)] * 50
        self.n_splits_, self.refit = 10, True
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y):
        return 0.0


def test_a_guarantee_of_its_own_comes_first():
    search = Stated(completion(epsilon=5.0))
    report = privacy_of(search.fit(CELLS, Y))
    assert [(n, one.epsilon) for _, n, one in report.releases] == [(1, 1.0)]
    assert report.unprotected == ("Stated says so.",)
    outer = GridSearchCV(search, {"epsilon": [1.0, 2.0]}, cv=3).fit(CELLS, Y)
    report = privacy_of(outer)
    assert report.guarantee.epsilon == 2 * (1 + 2) + outer.best_params_["epsilon"]


TARGETS = MultilinearRidge(norm_bound=3, target_bounds=(0, 1), tensor_shape=(5, 1))


def test_targets_that_are_protected_are_not_scaled_by_what_others_hold():
    scaled = TransformedTargetRegressor(TARGETS, transformer=StandardScaler())
    for model, protects in (
        (scaled, False),
        (TransformedTargetRegressor(TARGETS), True),
    ):
        assert privacy_of(model.fit(X, Y)).guarantee.protects is protects


@pytest.mark.parametrize(
    ("steps", "grid"),
    [
        (
            [("n", laplace()), ("e", TaskAwareEncoder(1.0, task=[[1.0] * 5]))],
            {"e__output": ["decoded", "code"]},
        ),
        ([("e", PolynomialFeatures())], {"e__degree": [1, 2]}),
    ],
    ids=["codes", "features"],
)
@pytest.mark.parametrize("last", [GaussianMechanism(bounds=(0, 1)), TARGETS], ids=str)
def test_shapes_of_candidates_are_not_those_of_the_best_one(steps, grid, last):
    """What is planned for them holds for all shapes; see `test_report_counts`."""
    last = clone(last).set_params(tensor_shape=None)
    ends = [("last", last)] + [("r", Ridge())] * hasattr(last, "transform")
    search = GridSearchCV(Pipeline([*steps, *ends]), grid, cv=2, scoring=lambda *_: 0.0)
    report = privacy_of(search.fit(X, Y))
    found = [g for name, _, g in report.releases if type(last).__name__ in name]
    _, planned, best = found
    assert planned.event != best.event


def test_guarantees_of_different_units_do_not_add_up():
    both = make_pipeline(laplace(), MatrixMechanism(), Ridge())
    with pytest.raises(ValueError, match="do not compose") as error:
        privacy_of(both.fit(X, Y))
    assert "transform of LaplaceMechanism (unit sample, replace-one)" in str(
        error.value
    )
    assert "transform of MatrixMechanism (unit cell, a change" in str(error.value)


@pytest.mark.parametrize("nested", [False, True])
def test_rows_and_cells_are_those_after_the_step_before(nested):
    """Normalizer changes all cells of a sample where one of them changes."""
    said = (
        "The guarantee is for one cell of one histogram in the output of Normalizer, "
        "not in X."
    )
    last = make_pipeline(MatrixMechanism()) if nested else MatrixMechanism()
    assert said in privacy_of(make_pipeline(Normalizer(), last).fit(X)).unprotected
    # A whole sample stays one, and nothing is said of what comes after noise.
    for fine in (make_pipeline(Normalizer(), laplace()), make_pipeline(last, Ridge())):
        assert said not in privacy_of(fine.fit(X, Y)).unprotected
    assert said not in privacy_of(make_pipeline("passthrough", last).fit(X)).unprotected


def test_ids_are_published_wherever_they_are_learned():
    cells = np.array([[f"u{i}", f"i{j}"] for i, j in CELLS])
    model = completion(unit=0, epsilon=2.0)
    for encoder in (
        make_pipeline(CoordinateEncoder()),
        ColumnTransformer([("ids", CoordinateEncoder(), [0, 1])]),
    ):
        report = privacy_of(make_pipeline(encoder, clone(model)).fit(cells, Y))
        assert not report.guarantee.protects
        names = [name for name, _, one in report.releases if not one.protects]
        assert names == ["fit of CoordinateEncoder"]


def test_text_and_html():
    columns = ColumnTransformer(
        [("<b>&", laplace(), [0]), ("<i>", "passthrough", [1])], remainder="drop"
    )
    pipe = Pipeline([("columns", columns), ("ridge", Ridge())])
    grid = {"columns__<b>&__epsilon": [0.12345, 2.0]}
    report = privacy_of(GridSearchCV(pipe, grid, cv=2).fit(X, Y))
    assert isinstance(report, PrivacyReport)
    text, shown = str(report), report._repr_html_()
    assert "  2 x epsilon = 0.1235: candidate" in text
    assert "1 column(s) that no noise mechanism made (transformer '<i>')" in text
    assert text.startswith(
        "All fits of this object together: No differential privacy for one row"
    )
    assert "<b>" not in shown
    assert "<i>" not in shown
    assert "&lt;b&gt;&amp;" in shown
    assert "(transformer &#x27;&lt;i&gt;&#x27;)" in shown
    assert shown.count("<tr>") == shown.count("</tr>")


# Fits and searches


@pytest.fixture(scope="module")
def ratings():
    return make_ratings(30, 30, 500, random_state=0)


def of_ratings(ratings, **params):
    params = {
        "levels": ratings.levels, "shape": ratings.shape, "max_iter": 2, **params
    }  # fmt: skip
    return CPCompletion(1, **params)


class Untouched(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


def test_one_fit(ratings):
    model = of_ratings(ratings, epsilon=2.0).fit(ratings.data, ratings.target)
    report = privacy_of(model)
    assert report.guarantee == model.privacy_guarantee_
    assert [(n, g.epsilon) for _, n, g in report.releases] == [
        (1, model.privacy_guarantee_.epsilon)
    ]
    assert any("coordinates" in s for s in report.unprotected)
    assert not any("random_state" in s for s in report.unprotected)
    # An integer is named, and not shown.
    seeded = model.set_params(random_state=7).fit(ratings.data, ratings.target)
    assert any("random_state" in s for s in privacy_of(seeded).unprotected)
    assert not any("7" in s for s in privacy_of(seeded).unprotected)


def test_pipeline_names_what_it_does_not_know(ratings):
    model = make_pipeline(
        CoordinateEncoder(), Untouched(), "passthrough", of_ratings(ratings)
    ).fit(ratings.data, ratings.target)
    report = privacy_of(model)
    # It may have learned from y.
    assert not report.guarantee.protects
    assert report.releases[0][2] == model[-1].privacy_guarantee_
    text = str(report)
    assert "vocabulary" in text
    assert "What Untouched learned" in text
    assert "passthrough" not in text


def test_one_candidate_without_noise_voids_the_search(ratings):
    search = GridSearchCV(of_ratings(ratings), {"epsilon": [1.0, math.inf]}, cv=3)
    report = privacy_of(search.fit(ratings.data, ratings.target))
    assert report.guarantee.epsilon == math.inf
    assert report.guarantee.delta_at(5.0) == 1


def test_a_scoring_function_cannot_be_counted():
    X, y = np.random.default_rng(0).random((20, 2)), np.arange(20) % 2
    search = GridSearchCV(
        make_pipeline(LaplaceMechanism(bounds=(0, 1)), LogisticRegression()),
        {"logisticregression__C": [1.0]}, cv=2,
        scoring=lambda model, X, y: model.score(X, y),
    )  # fmt: skip
    report = privacy_of(search.fit(X, y))
    assert math.isinf(report.guarantee.epsilon)
    assert [one.protects for _, _, one in report.releases] == [False, True]
    assert any("scoring function" in sentence for sentence in report.unprotected)


def test_a_frozen_step_keeps_the_guarantee_of_its_fit():
    X, y = np.random.default_rng(0).random((20, 2)), np.arange(20) % 2
    frozen = LaplaceMechanism(8.0, bounds=(0, 1)).fit(X)
    frozen.set_params(epsilon=1.0)  # what is released still has epsilon = 8
    search = GridSearchCV(
        make_pipeline(FrozenEstimator(frozen), LogisticRegression()),
        {"logisticregression__C": [1.0]}, cv=2,
    )  # fmt: skip
    report = privacy_of(search.fit(X, y))
    assert report.guarantee.epsilon == 8.0 * (2 + 1)


SPLITTERS = {
    name: kind
    for name, kind in vars(of_sklearn).items()
    if isinstance(kind, type) and hasattr(kind, "split")
} | {"none": lambda: 3}
SPLIT_WITH: dict = {
    "BaseCrossValidator": None, "BaseShuffleSplit": None, "LeavePOut": {"p": 1},
    "LeavePGroupsOut": {"n_groups": 1},
    "PredefinedSplit": {"test_fold": np.arange(N) % 3},
}  # fmt: skip


@pytest.mark.parametrize("name", SPLITTERS)
def test_groups_by_which_a_search_splits_are_listed(name):
    """The guarantee is that of one row whose group stays as it is."""
    options = SPLIT_WITH.get(name, {})
    if options is None:
        pytest.skip("it is a base")
    cv = SPLITTERS[name](**options)
    takes_groups = hasattr(cv, "set_split_request")  # by scikit-learn's routing
    assert takes_groups == ("Group" in name)
    model = make_pipeline(laplace(), LogisticRegression())
    search = GridSearchCV(model, {"logisticregression__C": [1.0]}, cv=cv)
    groups = {"groups": np.arange(N) % 7} if takes_groups else {}
    search.fit(X, CLASSES, **groups)
    for report in (privacy_of(search), privacy_of([search])):
        said = [s for s in report.unprotected if s.startswith("The groups passed to")]
        assert len(said) == takes_groups
        assert all(f"public: {name} splits by them" in one for one in said)
    assert privacy_of(search).guarantee.protects or not takes_groups


def split_pipeline():
    """One noisy column and four raw ones, for a step that was fitted elsewhere."""
    noise = ColumnTransformer([("a", laplace(), [0])], remainder="passthrough")
    return Pipeline([("noise", noise), ("ridge", FrozenEstimator(Ridge().fit(X, Y)))])


@pytest.mark.parametrize(
    "around",
    [
        lambda model: model.fit(X, Y),
        lambda model: [model.fit(X, Y)],
        lambda model: VotingRegressor([("a", model)]).fit(X, Y),
        lambda model: TransformedTargetRegressor(model).fit(X, Y),
        lambda model: FrozenEstimator(model.fit(X, Y)),
        lambda model: GridSearchCV(model, {"noise__a__epsilon": [1.0]}).fit(X, Y),
    ],
)
def test_raw_columns_void_the_report_whatever_holds_the_model(around):
    report = privacy_of(around(split_pipeline()))
    assert report.guarantee.epsilon == math.inf
    assert "Some columns are passed on without noise" in report.guarantee.statement


def test_the_best_candidate_may_select_columns_by_a_function():
    choices = [[("m", laplace(), columns)] for columns in (lambda X: [0, 1], [0])]
    model = Pipeline([("c", ColumnTransformer(choices[0])), ("ridge", Ridge())])
    search = GridSearchCV(model, {"c__transformers": choices}, cv=2)
    search.scoring = lambda fitted, X, y: len(fitted["c"].transformers_[0][2])
    search.fit(X, Y)
    assert callable(search.best_params_["c__transformers"][0][2])
    assert privacy_of(search).guarantee.epsilon == math.inf


def test_people_who_were_scored_count_as_those_of_the_fit_and_are_said_to():
    model = make_pipeline(laplace(), LogisticRegression())
    labels = np.arange(len(X)) % 2
    model.fit(X, labels)
    once = privacy_of(model)
    assert not once.notes
    model.score(X[:3], labels[:3])
    twice = privacy_of(model)
    assert twice.guarantee.epsilon == 2 * once.guarantee.epsilon
    (note,) = twice.notes
    assert "All calls of transform of LaplaceMechanism count as if" in note
    assert "parallel()" in note
    assert note in str(twice)
    assert "parallel()" in twice._repr_html_()
    # What the note says to do.
    with PrivacyBudget(10.0) as budget, budget.parallel() as part:
        with part():
            model.fit(X, labels)
        with part():
            model.score(X[:3], labels[:3])
    assert budget.spent.epsilon == pytest.approx(once.guarantee.epsilon)
    # Fits of one object are about the same people, or say so by their data.
    pca = MultilinearPCA(2, norm_bound=1.0)
    assert not privacy_of(pca.fit(X).fit(X)).notes


@pytest.mark.parametrize("is_pipeline", [False, True])
def test_what_is_not_fitted_is_said_not_to_be(is_pipeline):
    model = make_pipeline(laplace(), Ridge()) if is_pipeline else laplace()
    if is_pipeline:
        cross_val_score(model, X, Y, cv=3)  # of clones
    with pytest.raises(TypeError, match="has not been fitted, so it has released"):
        privacy_of(model)
    with pytest.raises(TypeError, match="Nothing in this Ridge gives a guarantee"):
        privacy_of(Ridge())


class FlipsCoins(PrivateEstimatorMixin, TransformerMixin, BaseEstimator):
    """A mechanism of one's own; a fit states no guarantee, only calls do."""

    def __init__(self, guarantees, random_state=None):
        self.guarantees, self.random_state = guarantees, random_state

    def __privacy_tags__(self):
        tags = super().__privacy_tags__()
        tags.released_by = "transform"
        return tags

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        for guarantee in self.guarantees:
            with recorded_call(self, guarantee):
                pass
        return np.zeros_like(X)


NOTHING = PrivacyGuarantee.from_event(
    dp_event.NonPrivateDpEvent(), unit="sample", statement="", source=""
)


@pytest.mark.parametrize(
    ("guarantees", "epsilon"),
    [([pure(1.0)], 1.0), ([pure(1.0), NOTHING], math.inf)],
    ids=["protected", "one call not"],
)
def test_steps_after_a_mechanism_of_ones_own(guarantees, epsilon):
    """Noise counts where all calls of `transform` that were made protect."""
    X, y = np.random.default_rng(0).random((60, 2)), np.arange(60) % 2
    pipeline = make_pipeline(FlipsCoins(guarantees), LogisticRegression()).fit(X, y)
    report = privacy_of(pipeline)
    assert report.guarantee.epsilon == epsilon
    assert any("learned from the labels y" in line for line in report.unprotected) == (
        epsilon == 1.0
    )
