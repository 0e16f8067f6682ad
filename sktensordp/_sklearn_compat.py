"""The only import of private scikit-learn names; decorators that keep types."""

import sys
from collections.abc import Callable
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._metadata_requests import _routing_enabled as routing_enabled
from sklearn.utils._openmp_helpers import (
    _openmp_effective_n_threads as effective_n_threads,
)
from sklearn.utils._param_validation import Interval as _Interval
from sklearn.utils._param_validation import StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metaestimators import available_if as _available_if
from sklearn.utils.validation import _check_method_params as of_rows

__all__ = [
    "Interval",
    "StrOptions",
    "available_if",
    "effective_n_threads",
    "fit_context",
    "has_callbacks",
    "of_rows",
    "routing_enabled",
    "safe_indexing",
    "wants_frame",
]

Method = TypeVar("Method", bound=Callable[..., Any])


def available_if(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """scikit-learn's decorator of methods that are not always there."""
    return _available_if(check)


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """scikit-learn's decorator of methods that fit: parameters are checked first."""
    return _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)


class Interval(_Interval):
    """An interval of integers and floats, and no other numbers.

    scikit-learn's stumbles over fractions, and lets integers pass that are no floats.
    """

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether a value is in the interval."""
        known = isinstance(val, float | np.floating)
        if isinstance(val, Integral):
            known = abs(int(val)) <= sys.float_info.max
        return known and super().is_satisfied_by(val)


def wants_frame(estimator: Any) -> bool:
    """Whether `set_output` asks for the output of `transform` as a data frame."""
    return _get_output_config("transform", estimator)["dense"] != "default"


def has_callbacks(estimator: Any) -> bool:
    """Whether callbacks are to hear of a fit."""
    return bool(getattr(estimator, "_skl_callbacks", ()))
