"""The only import of private scikit-learn names."""

import sys
from numbers import Integral

import numpy as np
from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._openmp_helpers import (
    _openmp_effective_n_threads as effective_n_threads,
)
from sklearn.utils._param_validation import Interval as _Interval
from sklearn.utils._param_validation import StrOptions
from sklearn.utils._set_output import _get_output_config

__all__ = [
    "Interval",
    "StrOptions",
    "effective_n_threads",
    "fit_context",
    "safe_indexing",
    "wants_frame",
]


class Interval(_Interval):
    """An interval of integers and floats, and no other numbers.

    scikit-learn's stumbles over fractions, and lets integers pass that are no floats.
    """

    def is_satisfied_by(self, val):
        """Whether a value is in the interval."""
        known = isinstance(val, float | np.floating)
        if isinstance(val, Integral):
            known = abs(int(val)) <= sys.float_info.max
        return known and super().is_satisfied_by(val)


def wants_frame(estimator):
    """Whether `set_output` asks for the output of `transform` as a data frame."""
    return _get_output_config("transform", estimator)["dense"] != "default"
