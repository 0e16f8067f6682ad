"""Samples as arrays: what estimators of whole samples accept."""

import math
from collections.abc import Mapping, Sequence

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
    with_names,
)
from ..ids import check_in_order
from ._chunks import AS_SAMPLES


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
