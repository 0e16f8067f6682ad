"""The only import of private scikit-learn names."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._openmp_helpers import (
    _openmp_effective_n_threads as effective_n_threads,
)
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._set_output import _get_output_config

__all__ = [
    "Interval",
    "StrOptions",
    "effective_n_threads",
    "fit_context",
    "safe_indexing",
    "wants_frame",
]


def wants_frame(estimator):
    """Whether `set_output` asks for the output of `transform` as a data frame."""
    return _get_output_config("transform", estimator)["dense"] != "default"
