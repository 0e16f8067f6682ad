"""All imports of private scikit-learn names, and of those not in every version."""

import sys
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._available_if import _AvailableIfDescriptor
from sklearn.utils._metadata_requests import _routing_enabled as routing_enabled
from sklearn.utils._openmp_helpers import (
    _openmp_effective_n_threads as effective_n_threads,
)
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils._param_validation import Interval as _Interval
from sklearn.utils._set_output import ADAPTERS_MANAGER, _get_output_config
from sklearn.utils.validation import _check_method_params as check_method_params

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # before version 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands for scikit-learn's mixin in versions without callbacks."""


__all__ = [
    "CallbackSupportMixin",
    "HasMethods",
    "Interval",
    "StrOptions",
    "available_if",
    "callbacks_of",
    "check_method_params",
    "effective_n_threads",
    "fit_context",
    "framed",
    "metric_of",
    "only_if",
    "output_of",
    "routing_enabled",
    "safe_indexing",
    "splitter_of",
    "validate_params",
    "wants_frame",
]

Method = TypeVar("Method", bound=Callable[..., Any])


class _AvailableIf(_AvailableIfDescriptor):
    """A method that exists only under a condition; the error says why it does not."""

    def _check(self, obj: object, owner: type) -> None:
        try:
            super()._check(obj, owner)
        except AttributeError as error:
            if error.__cause__ is None:
                raise
            raise AttributeError(f"{error}: {error.__cause__}") from error.__cause__


def available_if(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """scikit-learn's decorator of methods that exist only under a condition.

    `check` returns True, or raises an AttributeError that says why there is no such
    method. In scikit-learn, the reason is only in the cause of the error.
    """

    def decorate(method: Any) -> Any:
        return _AvailableIf(method, check, attribute_name=method.__name__)

    return decorate


def only_if(holds: Callable[[Any], bool], otherwise: str) -> Callable[..., Any]:
    """Decorator of a method that exists only if the object meets a condition."""

    def check(self: Any) -> bool:
        if not holds(self):
            raise AttributeError(otherwise)
        return True

    return available_if(check)


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """scikit-learn's decorator of `fit` methods, which checks parameters first."""
    return _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)


class Interval(_Interval):
    """An interval of integers and floats, and no other numbers.

    scikit-learn's interval fails on fractions, and accepts True for 1 and integers that
    exceed every float.
    """

    def is_satisfied_by(self, val: object) -> bool:
        """Whether the interval contains a value."""
        is_number = isinstance(val, float | np.floating)
        if isinstance(val, Integral) and not isinstance(val, bool):
            is_number = abs(int(val)) <= sys.float_info.max
        return is_number and super().is_satisfied_by(val)


def validate_params(estimator: BaseEstimator) -> None:
    """Check the parameters of an estimator whose class states what they may be."""
    if hasattr(estimator, "_parameter_constraints"):
        estimator._validate_params()


def wants_frame(estimator: BaseEstimator) -> bool:
    """Whether `set_output` asks for the output of `transform` as a data frame."""
    return _get_output_config("transform", estimator)["dense"] != "default"


def framed(estimator: BaseEstimator, rows: object, original: object, names: Any) -> Any:
    """Rows, as a data frame if `set_output` asks for one.

    The index is that of `original`, if that is a data frame.
    """
    kind = _get_output_config("transform", estimator)["dense"]
    if kind == "default":
        return rows
    if kind == "polars":  # column names must be text
        names = [str(name) for name in names]
    adapter = ADAPTERS_MANAGER.adapters[kind]
    return adapter.create_container(rows, original, columns=names)


def output_of(estimator: object) -> str:
    """The container that `set_output` of this estimator itself asks for."""
    config = getattr(estimator, "_sklearn_output_config", {})
    return config.get("transform", "default")


def callbacks_of(estimator: object) -> Sequence[Any]:
    """The callbacks that a fit must call."""
    return getattr(estimator, "_skl_callbacks", ())


def splitter_of(search: object) -> Any:
    """The splitter of a fitted search; None before scikit-learn 1.9."""
    return getattr(search, "_checked_cv_orig", None)


def metric_of(scorer: object) -> tuple[Any, int]:
    """The metric that a scorer computes, and 1, or -1 if smaller is better."""
    return getattr(scorer, "_score_func", scorer), getattr(scorer, "_sign", 1)
