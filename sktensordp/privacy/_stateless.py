"""Steps of scikit-learn whose fit reads no value at all, or no value of y.

Steps of the first list transform each row by itself. The tag `requires_fit` is no
substitute for that list: it is also false for PatchExtractor, which makes several rows
from one, and for GaussianProcessRegressor, which does learn in `fit`. Without mean and
scale, StandardScaler still counts the values that are not missing. A test compares what
each step learns from two data sets.

Nor do tags say which steps read y: SelectKBest does not require it, although its
function may read it. A test fits each step of the second list to a y that must not be
read.
"""

import sys
from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator


def _always(_: object) -> bool:
    return True


def _has_components(step: BaseEstimator) -> bool:
    """Whether the number of components does not depend on the number of rows."""
    return bool(step.n_components != "auto")


# How encoders take categories that are not declared, without a refusal.
_TAKES_UNKNOWN = {
    "OneHotEncoder": 'handle_unknown="ignore"',
    "OrdinalEncoder": 'handle_unknown="use_encoded_value", unknown_value=-1',
}


def _declares_categories(step: BaseEstimator) -> bool:
    """Whether categories do not depend on the data, and no refusal reveals them."""
    takes_unknown = step.handle_unknown in ("ignore", "use_encoded_value")
    return takes_unknown and _has_fixed_categories(step)


def _has_fixed_categories(step: BaseEstimator) -> bool:
    """Whether categories do not depend on the data; a refusal may reveal them."""
    return (
        not isinstance(step.categories, str)
        and step.min_frequency is None
        and step.max_categories is None
        and getattr(step, "drop", None) is None
    )


_READ_NOTHING: dict[str, Callable[[Any], bool]] = {
    "AdditiveChi2Sampler": _always,
    "Binarizer": _always,
    "CountVectorizer": lambda step: step.vocabulary is not None,
    "FeatureHasher": _always,
    "FunctionTransformer": _always,
    "GaussianRandomProjection": _has_components,
    "HashingVectorizer": _always,
    "Normalizer": _always,
    "OneHotEncoder": _declares_categories,
    "OrdinalEncoder": _declares_categories,
    "PolynomialCountSketch": _always,
    "PolynomialFeatures": _always,
    "RBFSampler": lambda step: step.gamma != "scale",
    "RobustScaler": lambda step: not (step.with_centering or step.with_scaling),
    "SimpleImputer": lambda step: (
        step.strategy == "constant"
        and step.keep_empty_features
        and not step.add_indicator
    ),
    "SkewedChi2Sampler": _always,
    "SparseCoder": _always,
    "SparseRandomProjection": _has_components,
    "SplineTransformer": lambda step: not isinstance(step.knots, str),
    "TfidfTransformer": lambda step: not step.use_idf,
}


# Steps that ignore y with any parameters. Those of the list above do so, too.
_IGNORE_Y = frozenset(
    {
        "BernoulliRBM",
        "Birch",
        "BisectingKMeans",
        "DictVectorizer",
        "DictionaryLearning",
        "FactorAnalysis",
        "FastICA",
        "FeatureAgglomeration",
        "IncrementalPCA",
        "Isomap",
        "KBinsDiscretizer",
        "KMeans",
        "KNNImputer",
        "KNeighborsTransformer",
        "KernelCenterer",
        "KernelPCA",
        "LatentDirichletAllocation",
        "LocallyLinearEmbedding",
        "MaxAbsScaler",
        "MinMaxScaler",
        "MiniBatchDictionaryLearning",
        "MiniBatchKMeans",
        "MiniBatchNMF",
        "MiniBatchSparsePCA",
        "MissingIndicator",
        "NMF",
        "Nystroem",
        "PCA",
        "PatchExtractor",
        "PowerTransformer",
        "QuantileTransformer",
        "RadiusNeighborsTransformer",
        "RandomTreesEmbedding",
        "SparsePCA",
        "StandardScaler",
        "TfidfVectorizer",
        "TruncatedSVD",
        "VarianceThreshold",
    }
)


def reads_nothing(step: object) -> bool:
    """Whether a fitted or planned step has learned nothing from any value."""
    condition = _READ_NOTHING.get(_name_in_sklearn(step))
    return condition is not None and condition(step)


def told_by_refusals(step: object) -> str:
    """Why a step that learns nothing tells of the data, and the cure; "" of others."""
    name = _name_in_sklearn(step)
    if name not in _TAKES_UNKNOWN or not _has_fixed_categories(step):
        return ""
    return (
        f"{name} refuses categories that are not declared, and a refusal tells that "
        f"somebody has one. Set {_TAKES_UNKNOWN[name]}."
    )


def ignores_y(step: object) -> bool:
    """Whether the fit of a step reads no value of y, whatever its parameters are."""
    return _name_in_sklearn(step) in _READ_NOTHING.keys() | _IGNORE_Y


def _name_in_sklearn(step: object) -> str:
    """Name of the class of a step; "" if it is not a class of scikit-learn itself.

    A subclass may read more, whatever its name is.
    """
    kind = type(step)
    if not kind.__module__.startswith("sklearn."):
        return ""
    found = getattr(sys.modules.get(kind.__module__), kind.__name__, None)
    return kind.__name__ if found is kind else ""
