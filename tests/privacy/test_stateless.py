"""Steps that learn nothing, or nothing from y, and lists of fits, in reports."""

import contextvars
import copy
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import FeatureAgglomeration, KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA, IncrementalPCA, SparseCoder
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import VotingClassifier
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.image import PatchExtractor
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.feature_selection import (
    SelectFpr,
    SelectKBest,
    SelectPercentile,
    f_regression,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KernelCenterer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import (
    GaussianRandomProjection,
    SparseRandomProjection,
)
from sklearn.utils import all_estimators

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
from sktensordp.moments import MultilinearRidge
from sktensordp.privacy import (
    PrivacyBudget,
    compose,
    planned_guarantee,
    privacy_of,
    privacy_tags,
)
from tests.support.every_estimator import RELEASING
from tests.support.seams import _IGNORE_Y, _READ_NOTHING, ignores_y, reads_nothing

ROWS = np.linspace(0, 1, 24).reshape(8, 3)
OTHER_ROWS = np.random.default_rng(0).integers(0, 2, (8, 3)) * 5.0
TEXTS = [["aa bb", "aa aa cc"] * 4, ["dd", "cc cc ee"] * 4]
TARGETS = np.arange(8.0), np.tile([1.0, 0.0], 4)
WHERE, VALUES = np.argwhere(np.ones((4, 3))), np.linspace(0.5, 1, 12)

# Of steps that learn only with some parameters: without and with.
DECLARED = {
    "CountVectorizer": (CountVectorizer(vocabulary=["aa", "bb"]), CountVectorizer()),
    "GaussianRandomProjection": (GaussianRandomProjection(2),),
    "OneHotEncoder": (
        OneHotEncoder(categories=[[0, 1]] * 3, handle_unknown="ignore"),
        OneHotEncoder(handle_unknown="ignore"),
    ),
    "OrdinalEncoder": (
        OrdinalEncoder(
            categories=[[0, 1]] * 3, handle_unknown="use_encoded_value",
            unknown_value=-1,
        ),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    ),
    "RBFSampler": (RBFSampler(gamma=1.0), RBFSampler(gamma="scale")),
    "RobustScaler": (
        RobustScaler(with_centering=False, with_scaling=False), RobustScaler(),
    ),
    "SimpleImputer": (
        SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True),
        SimpleImputer(),
    ),
    "SparseRandomProjection": (SparseRandomProjection(2),),
    "SparseCoder": (SparseCoder(np.eye(3)),),
    "SplineTransformer": (
        SplineTransformer(knots=np.linspace(-9, 9, 15).reshape(5, 3)),
        SplineTransformer(),
    ),
    "TfidfTransformer": (TfidfTransformer(use_idf=False), TfidfTransformer()),
}  # fmt: skip
# These read more than one row, or which values are missing; the others leave a context
# variable of NumPy behind.
ODD = {"PatchExtractor", "MissingIndicator", "MiniBatchSparsePCA", "SparsePCA"}
ODD |= {"DictionaryLearning", "MiniBatchDictionaryLearning"}
KINDS = dict(all_estimators(type_filter="transformer"))


def data_for(step):
    if type(step).__name__ in ("CountVectorizer", "HashingVectorizer"):
        return TEXTS
    if type(step).__name__ == "FeatureHasher":
        return [[dict.fromkeys(text.split(), 1) for text in t] for t in TEXTS]
    return ROWS, OTHER_ROWS


def learned(step):
    """What it learned from two data sets, and the first row that each transforms."""
    step = clone(step)
    if "random_state" in step.get_params():
        step.set_params(random_state=0)
    data = data_for(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [clone(step).fit(X, y) for X, y in zip(data, TARGETS, strict=True)]
        outputs = [fit.transform(data[0]) for fit in fits]
        alone = fits[0].transform(data[0][:1])
    return [pickle.dumps(vars(fit)) for fit in fits], outputs, alone


def dense(X):
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(_READ_NOTHING))
def test_it_learns_nothing_and_takes_each_row_alone(name):
    step, *learners = DECLARED.get(name) or (KINDS[name](),)
    assert reads_nothing(step)
    (one, other), (first, second), alone = learned(step)
    assert one == other
    np.testing.assert_array_equal(dense(first), dense(second))
    np.testing.assert_allclose(dense(first)[:1], dense(alone))
    for learner in learners:
        assert not reads_nothing(learner)
        assert len(set(learned(learner)[0])) == 2


@pytest.mark.parametrize("name", sorted(KINDS.keys() - _READ_NOTHING.keys() - ODD))
def test_no_other_step_learns_nothing(name):
    try:
        states, *_ = learned(KINDS[name]())
    except (TypeError, ValueError, AttributeError):
        pytest.skip("it takes other data, or parameters")
    assert states[0] != states[1]


def mechanism():
    return LaplaceMechanism(0.5, bounds=(0, 1))


@pytest.mark.parametrize("step", [PolynomialFeatures(2), RBFSampler(gamma=1.0)])
def test_a_step_that_learns_nothing_before_the_noise(step):
    fitted = make_pipeline(step, mechanism()).fit(ROWS)
    fitted.transform(ROWS)
    report = privacy_of(fitted)
    assert report.guarantee.epsilon == 0.5
    assert not any("learned" in sentence for sentence in report.unprotected)
    learner = make_pipeline(StandardScaler(), mechanism()).fit(ROWS)
    assert not privacy_of(learner).guarantee.protects


COMPLETION = CPCompletion(
    0, epsilon=0.5, value_bounds=(0, 1), max_iter=1, shape=(4, 3), perturbation="sums"
)
TARGET_STEPS = {
    "function": ({"transformer": FunctionTransformer(np.log, np.exp)}, True),
    "two functions": ({"func": np.log, "inverse_func": np.exp}, True),
    "nothing": ({}, True),
    "scaler": ({"transformer": StandardScaler()}, False),
}


@pytest.mark.parametrize(
    ("options", "protects"), TARGET_STEPS.values(), ids=TARGET_STEPS
)
def test_a_function_of_the_targets_learned_nothing(options, protects):
    model = TransformedTargetRegressor(COMPLETION, check_inverse=False, **options)
    report = privacy_of(model.fit(WHERE, VALUES))
    assert report.guarantee.protects == protects
    named = any("each value of y from that value" in s for s in report.unprotected)
    assert named == (protects and bool(options))


# --- who reads y ---------------------------------------------------------------------


class Touched(BaseException):
    """No step catches it."""


class Untouchable:
    """A y at which nobody may look, be it at its type."""

    def __getattribute__(self, name):
        raise Touched(name)

    def _touch(self, *args):
        raise Touched

    __len__ = __iter__ = __getitem__ = __array__ = __bool__ = __eq__ = __hash__ = _touch


# What the steps on the list take, where it is not rows of numbers, or needs parameters.
IMAGES = np.random.default_rng(1).random((4, 5, 5))
STEPS_FOR_Y = {
    "DictVectorizer": (DictVectorizer(), [{"a": 1.0}, {"b": 2.0}]),
    "FeatureAgglomeration": (FeatureAgglomeration(2), ROWS),
    "FeatureHasher": (FeatureHasher(), [{"a": 1.0}, {"b": 2.0}]),
    "HashingVectorizer": (HashingVectorizer(), TEXTS[0]),
    "CountVectorizer": (CountVectorizer(), TEXTS[0]),
    "KernelCenterer": (KernelCenterer(), ROWS @ ROWS.T),
    "PatchExtractor": (PatchExtractor(patch_size=(2, 2)), IMAGES),
    "TfidfVectorizer": (TfidfVectorizer(), TEXTS[0]),
    # Its constraint admits more components than there are rows.
    "IncrementalPCA": (IncrementalPCA(2), ROWS),
}
IGNORE_Y = sorted(_IGNORE_Y | _READ_NOTHING.keys())
OTHERS = sorted(KINDS.keys() - {*IGNORE_Y, "TSNE"})  # which transforms nothing


def step_for_y(name):
    if name in STEPS_FOR_Y:
        return STEPS_FOR_Y[name]
    # Other parameters than those with which it learns nothing.
    return DECLARED[name][-1] if name in DECLARED else KINDS[name](), ROWS


def quietly(call, *args):
    """Some steps warn of few rows, and some leave a context variable behind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return contextvars.copy_context().run(call, *args)


def options_of(step):
    """One parameter at a time, at each text and truth value that it admits."""
    yield {}
    for name, constraints in getattr(type(step), "_parameter_constraints", {}).items():
        for one in constraints if isinstance(constraints, list) else ():
            found = (True, False) if one == "boolean" else getattr(one, "options", ())
            yield from ({name: option} for option in found)


@pytest.mark.thorough
@pytest.mark.parametrize("name", IGNORE_Y)
def test_a_step_on_the_list_reads_no_y(name):
    given, rows = step_for_y(name)
    assert ignores_y(given)
    n_tried = 0
    for options in options_of(given):
        for fit in ("fit", "fit_transform", "partial_fit"):
            step = clone(given).set_params(**options)
            if "random_state" in step.get_params():
                step.set_params(random_state=0)
            if not hasattr(step, fit):
                continue
            try:
                quietly(getattr(step, fit), copy.deepcopy(rows), Untouchable())
            except (TypeError, ValueError, AttributeError, OSError):
                assert options  # some make no sense for these rows
            else:
                n_tried += 1
    assert n_tried >= 2


@pytest.mark.thorough
@pytest.mark.parametrize("name", IGNORE_Y)
def test_another_y_gives_the_same_transform(name):
    given, rows = step_for_y(name)
    found = []
    for y in (np.arange(len(rows)), np.arange(len(rows))[::-1] % 2):
        step = clone(given)
        if "random_state" in step.get_params():
            step.set_params(random_state=0)
        found.append(dense(quietly(step.fit, rows, y).transform(rows)))
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", IGNORE_Y)
def test_no_step_on_the_list_takes_an_estimator(name):
    """Nor a function of y: those of the list are passed X alone, as the spy shows."""
    step, _ = step_for_y(name)
    names = step.get_params(deep=False)
    assert not [n for n in names if "estimator" in n and n != "n_estimators"]
    assert "score_func" not in names


MEAN = GaussianMechanism(0.5, delta=1e-6, norm_bound=1.0, tensor_shape=(3,))
TARGET_BOUNDS = {"norm_bound": 1.0, "target_bounds": (0, 1), "epsilon": 0.5}
RIDGE = MultilinearRidge((2,), **TARGET_BOUNDS, delta=1e-6)


def others():
    """Steps that may read y: all those of scikit-learn beside the list, and more."""
    chosen = SelectKBest(k=1)
    for name in OTHERS:
        kind = KINDS[name]
        parts = [("a", chosen, [0])] if name == "ColumnTransformer" else [("a", chosen)]
        if name in ("ColumnTransformer", "FeatureUnion"):
            yield pytest.param(kind(parts), id=name)
        elif name.startswith(("Stacking", "Voting")):
            inner = [("a", DummyClassifier() if "C" in name else Ridge())]
            yield pytest.param(kind(inner), id=name)
        else:
            takes = {"RFE", "RFECV", "SelectFromModel", "SequentialFeatureSelector"}
            yield pytest.param(kind(Ridge()) if name in takes else kind(), id=name)
    grid = {"n_components": [1, 2]}
    more = {
        "Pipeline": make_pipeline(PCA(2), chosen),
        "classes": VotingClassifier([("a", "drop"), ("b", "passthrough")]),
        "search": GridSearchCV(PCA(2), grid, scoring=lambda step, X, y: y[0]),
        "search of what reads nothing": GridSearchCV(Normalizer(), {"norm": ["l1"]}),
        "subclass": type("PCA", (PCA,), {})(2),
        "subclass that says it is not":
            type("PCA", (PCA,), {"__module__": PCA.__module__})(2),
        "subclass of ours": type("CoordinateEncoder", (CoordinateEncoder,), {})(),
        "encoder": TaskAwareEncoder(0.5),
        "encoder of a task without outputs": TaskAwareEncoder(0.5, task=Distance()),
        "another package": Untagged(),
    }  # fmt: skip
    yield from (pytest.param(step, id=name) for name, step in more.items())


class Untagged:
    def fit(self, X, y=None):
        self.y_ = y
        return self

    def transform(self, X):
        return X


class Distance:
    def value_and_gradient(self, X, y):
        residuals = X[:, 0] - y
        return float(np.mean(residuals**2)), np.outer(residuals, [2.0, 0, 0]) / len(y)


@pytest.mark.parametrize("step", [*others()])
def test_every_other_step_is_stated_to_read_y(step):
    """It comes after the noise of X, so nothing else voids the guarantee."""
    planned = planned_guarantee(Pipeline([("a", MEAN), ("b", step), ("c", RIDGE)]))
    assert not planned.protects
    assert "learned from data without noise" in planned.statement
    assert planned_guarantee(Pipeline([("a", MEAN), ("b", step)])).protects


@pytest.mark.parametrize(
    "step",
    [
        PCA(2), StandardScaler(), make_pipeline(PCA(2), Normalizer()), KMeans(2),
        ColumnTransformer([("a", PCA(1), [0, 1])]), FrozenEstimator(SelectKBest(k=1)),
        FeatureUnion([("a", PCA(1)), ("b", StandardScaler())]),
    ],
    ids=lambda step: type(step).__name__,
)  # fmt: skip
def test_what_ignores_y_costs_nothing(step):
    planned = planned_guarantee(Pipeline([("a", MEAN), ("b", step), ("c", RIDGE)]))
    assert planned.protects


@pytest.mark.parametrize(
    "step",
    # They keep all columns, so that the regression is not refused.
    [
        SelectKBest(f_regression, k="all"), SelectFpr(f_regression, alpha=1.0),
        SelectPercentile(f_regression, percentile=100),
    ],
    ids=lambda step: type(step).__name__,
)  # fmt: skip
def test_a_selector_between_two_private_steps(step):
    rng = np.random.default_rng(0)
    steps = [("a", MEAN), ("b", step), ("c", RIDGE)]
    report = privacy_of(Pipeline(steps).fit(rng.random((40, 3)), rng.random(40)))
    assert not report.guarantee.protects
    name = type(step).__name__
    said = (f"{name} learned from y", f"If {name} was passed y, it learned from y")
    assert any(one.startswith(said) for one in report.unprotected)


OWN = [
    param
    for param in RELEASING
    if param.values[0].private in ("samples", "people")
    and not hasattr(param.values[0].estimator, "predict")
]


@pytest.mark.thorough
@pytest.mark.parametrize("case", OWN)
def test_our_transformers_ignore_y_or_say_so(case):
    assert "y" not in privacy_tags(case.estimator).learns_from
    X, found = case.data[0], []
    for y in (np.arange(len(X)) % 2, np.arange(len(X)) // 2 % 2):
        estimator = case.fresh(**case.seeded()).fit(X, y)
        found.append(estimator.transform(X))
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12)
    if hasattr(estimator, "task"):
        learner = clone(estimator).set_params(task=None)
        assert privacy_tags(learner).learns_from == "Xy"


# --- lists ---------------------------------------------------------------------------


def test_the_fits_of_a_cross_validation():
    with PrivacyBudget(9.0) as budget:
        fits = cross_validate(
            COMPLETION, WHERE, VALUES, cv=KFold(3), return_estimator=True
        )["estimator"]
    for given in list(fits), [list(fits[:1]), list(fits[1:])]:
        report = privacy_of(given)
        assert not report.guarantee.protects
        assert "It is not known whether one record decides" in str(report)
        assert (
            "The private part alone has (epsilon = 1.5," in report.guarantee.statement
        )
        made = compose(*(guarantee for _, _, guarantee in report.releases))
        assert made.epsilon == budget.spent.epsilon == 1.5
        assert len(report.releases) == 3


def test_a_fit_in_a_list_is_that_fit():
    fit = clone(COMPLETION).fit(WHERE, VALUES)
    assert privacy_of([fit]).guarantee == privacy_of(fit).guarantee


def test_pipelines_in_a_list():
    steps = make_pipeline(mechanism(), Ridge())
    fits = cross_validate(steps, ROWS, ROWS[:, 0], cv=2, return_estimator=True)
    report = privacy_of(fits["estimator"])
    # Each fit transforms its training set, and its test set to be scored.
    assert [n for _, n, _ in report.releases] == [2, 2]
    assert "The private part alone has (epsilon = 2," in report.guarantee.statement
    raw = make_pipeline(PCA(2), mechanism()).fit(ROWS)
    assert not privacy_of([raw, mechanism().fit(ROWS)]).guarantee.protects


def test_searches_in_a_list():
    grid = {"epsilon": [0.1, 0.2]}
    search = GridSearchCV(COMPLETION, grid, cv=KFold(2)).fit(WHERE, VALUES)
    alone, both = privacy_of(search), privacy_of([search, search])
    assert both.releases == 2 * alone.releases
    assert not both.guarantee.protects


@pytest.mark.parametrize("nothing", [[], [Ridge()], [Ridge().fit(ROWS, ROWS[:, 0])]])
def test_a_list_without_a_guarantee(nothing):
    with pytest.raises(TypeError, match="Nothing in this list gives a guarantee"):
        privacy_of(nothing)
