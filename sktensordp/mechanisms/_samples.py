"""Samples as arrays: what estimators of whole samples accept."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from .._dask import check_lazy, is_dask, named_columns
from .._validation import (
    check_numeric,
    check_ordered,
    checked,
    described,
    is_integer,
    warn,
    with_names,
)
from ..ids import check_in_order
from ._chunks import AS_SAMPLES

# Types of pixels. Integers of other types are often counts of 0 and 1.
_OF_PIXELS = np.dtype(np.uint8), np.dtype(np.uint16)
# Bounds that are this many times as wide as a type's range are probably of other data.
_TOO_WIDE = 4


def validated(
    estimator: BaseEstimator, X: ArrayLike, *, reset: bool, **options: object
) -> NDArray[np.floating]:
    """Samples as an array; `options` are those of scikit-learn's `check_array`."""
    if is_dask(X):
        array, known = check_lazy(X), named_columns(X)
        checked(validate_data, estimator, known, reset=reset, skip_check_array=True)
    else:
        X = check_numeric(with_names(X), "X")
        # C order: the result must not depend on the layout in memory.
        options = {**AS_SAMPLES, **options}
        array = checked(validate_data, estimator, X, reset=reset, **options)
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        check_labels(estimator.get_params(deep=False), names)
    if not math.prod(array.shape[1:]):
        raise ValueError(
            f"The samples of X have shape {array.shape[1:]}, which has no entries."
        )
    return array


def warn_of_type(X: object, bounds: object) -> None:
    """Warn if the type of samples, which is public, contradicts declared bounds.

    Every release from samples calls it, before noise is drawn. It reads no value, so
    the warning is a function of the type and of the declaration alone.

    Parameters
    ----------
    X : array-like
        Samples. Lists have no type, and get no warning; nor does a frame whose columns
        have several.
    bounds : object
        What the caller declared: None, or a pair of numbers or arrays.
    """
    kind = _type_of(X)
    if bounds is None or kind is None or kind.kind not in "biu":
        return
    try:
        first, last = (np.asarray(end, dtype=float) for end in cast(Any, bounds))
    except (TypeError, ValueError):
        return  # They were set after the fit, which would refuse them.
    least, largest = (0, 1) if kind.kind == "b" else _range_of_integers(kind)
    holds = f"X holds {kind.name}, {least} to {largest}"
    if np.all(last - first > _TOO_WIDE * (largest - least)):
        warn(
            f"{holds}, but bounds are more than {_TOO_WIDE} times as wide. Noise grows "
            f"with the bounds: pass those of the values."
        )
        return
    low, high = np.maximum(first, least), np.minimum(last, largest)
    if np.all(np.floor(high) - np.ceil(low) < 1):
        warn(
            f"{holds}, but bounds have room for at most one of these numbers, so all "
            f"are clipped to it. Scale X, or pass other bounds."
        )
    elif kind in _OF_PIXELS and np.all(last <= 1):
        warn(
            f"{holds}, but bounds end at 1, so all larger numbers are clipped. Pass "
            f"X / {largest}, or bounds=(0, {largest}). If X holds 0 and 1 only, pass "
            f"X.astype(float)."
        )


def _type_of(X: Any) -> np.dtype[Any] | None:
    """The one type of an array or of all columns of a frame, as one of NumPy.

    Its name is the same in NumPy, pandas, polars and Arrow, but for capital letters.
    """
    kinds = getattr(X, "dtypes", getattr(X, "dtype", None))
    kinds = getattr(getattr(X, "schema", None), "types", kinds)  # of an Arrow table
    kinds = kinds if np.iterable(kinds) else [kinds]
    names = {str(kind).lower().removesuffix("[pyarrow]") for kind in kinds}
    try:
        return np.dtype(names.pop()) if len(names) == 1 else None
    except (TypeError, ValueError):
        return None  # It is no type of NumPy.


def _range_of_integers(kind: np.dtype[Any]) -> tuple[int, int]:
    """The least and the largest integer of a type."""
    known = np.iinfo(kind)
    return int(known.min), int(known.max)


def check_labels(parameters: Mapping[str, object], names: ArrayLike) -> None:
    """Refuse parameters whose labels are the names of features in another order.

    Parameters
    ----------
    parameters : mapping of str to object
        Such as `bounds`, `utility` or `weights`: arrays, or pairs or lists of them.
    names : array-like of shape (n_features,)
    """
    for name, value in parameters.items():
        for part in value if isinstance(value, list | tuple) else (value,):
            check_in_order(part, names, name, "X.columns")
            if hasattr(part, "columns") and hasattr(part, "T"):  # a matrix
                check_in_order(part.T, names, name, "X.columns")


def shape_of_sample(
    tensor_shape: Sequence[int] | None, X: NDArray[np.floating]
) -> tuple[int, ...]:
    """Shape of a sample of `X`: its own or, for rows of features, the declared one."""
    if tensor_shape is None:
        return X.shape[1:]
    shape = checked_tensor_shape(tensor_shape)
    if X.shape[1:] not in (shape, (math.prod(shape),)):
        raise ValueError(
            f"X has samples of shape {X.shape[1:]}, but tensor_shape = {shape} "
            f"needs samples of that shape or rows of {math.prod(shape)} features."
        )
    return shape


def check_sample_shape(
    estimator: object, shape: tuple[int, ...], fitted: tuple[int, ...]
) -> None:
    """Refuse samples of another shape than those of the fit."""
    if shape != fitted:
        raise ValueError(
            f"X has samples of shape {shape}, but {type(estimator).__name__} was "
            f"fitted to samples of shape {fitted}."
        )


def checked_tensor_shape(tensor_shape: Sequence[int]) -> tuple[int, ...]:
    """The declared shape of a sample as a tuple of positive integers."""
    check_ordered(tensor_shape, "tensor_shape")
    shape = tuple(tensor_shape)
    if not shape or not all(is_integer(n) and n >= 1 for n in shape):
        raise ValueError(
            f"tensor_shape must hold positive integers, got {described(tensor_shape)}."
        )
    return tuple(int(n) for n in shape)
