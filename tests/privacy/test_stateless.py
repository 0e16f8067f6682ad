"""Steps that learn nothing from values, and lists of fits, in reports."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA, SparseCoder
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
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

from sktensordp.completion import CPCompletion
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.privacy import PrivacyBudget, compose, privacy_of
from sktensordp.privacy._stateless import _READ_NOTHING, reads_nothing

ROWS = np.linspace(0, 1, 24).reshape(8, 3)
OTHER_ROWS = np.random.default_rng(0).integers(0, 2, (8, 3)) * 5.0
TEXTS = [["aa bb", "aa aa cc"] * 4, ["dd", "cc cc ee"] * 4]
TARGETS = np.arange(8.0), np.tile([1.0, 0.0], 4)
WHERE, VALUES = np.argwhere(np.ones((4, 3))), np.linspace(1, 2, 12)

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
