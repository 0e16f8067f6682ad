"""Steps of scikit-learn whose fit reads no value, and which transform each row alone.

The tag `requires_fit` is no substitute for this list: it is also false for
PatchExtractor, which makes several rows of one, and for GaussianProcessRegressor, which
does learn in `fit`. Without mean and scale, StandardScaler still counts the values that
are not missing. A test compares what each step learns from two data sets.
"""

from collections.abc import Callable
from typing import Any


def _always(_: Any) -> bool:
    return True


def _has_components(step: Any) -> bool:
    """Whether it does not choose the number of components by that of the rows."""
    return bool(step.n_components != "auto")


def _declares_categories(step: Any) -> bool:
    """Whether categories are no matter of the data, and no refusal tells of them."""
    return (
        not isinstance(step.categories, str)
        and step.handle_unknown in ("ignore", "use_encoded_value")
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


def reads_nothing(step: Any) -> bool:
    """Whether a fitted or planned step has learned nothing from any value."""
    kind = type(step)
    condition = _READ_NOTHING.get(kind.__name__)
    is_of_sklearn = kind.__module__.startswith("sklearn.")
    return condition is not None and is_of_sklearn and condition(step)
