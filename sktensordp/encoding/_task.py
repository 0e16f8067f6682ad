"""A linear task as a matrix."""

from __future__ import annotations

import warnings
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_classifier

from .._validation import as_numpy, check_numeric, check_unmasked
from ..ids import one_each
from ._whitening import Whitening

# Integer targets with at most this many different values are labels.
_MOST_CLASSES = 20
# Squares of larger targets could overflow.
_LARGEST_TARGET = 1e150
# Candidate ridge penalties, for standardised columns.
_PENALTIES = np.logspace(-4, 5, 19)


def task_matrix(
    task: object, rows: NDArray[np.floating], y: ArrayLike | None, white: Whitening
) -> NDArray[np.float64]:
    """The matrix K of a task K x, for the original columns.

    Parameters
    ----------
    task : None, array-like of shape (m, n) or fitted linear model
        None learns K from `y`; without `y`, K is the identity.
    rows : ndarray of shape (n_samples, n)
        The fitting data.
    y : array-like of shape (n_samples,) or (n_samples, m), or None
        Read only if `task` is None. Labels become an indicator of every class.
    white : Whitening
        Whitening of `rows`.

    Returns
    -------
    matrix : ndarray of shape (m, n)

    Raises
    ------
    ValueError
        If the task is not linear, or does not fit the samples or `y`.
    """
    n_features = rows.shape[1]
    if task is None:
        return np.eye(n_features) if y is None else _ridge(rows, y, white)
    if is_model(task):
        return checked_matrix(_model_matrix(task, n_features, white), n_features)
    return checked_matrix(task, n_features)


def is_model(task: object) -> bool:
    """Whether a task is a model or another object, not a matrix."""
    return hasattr(task, "predict") or hasattr(task, "value_and_gradient")


def checked_matrix(task: object, n_features: int | None) -> NDArray[np.float64]:
    """Check a task that is a matrix; `n_features` is None if it is not known.

    Raises
    ------
    ValueError
        If it is not a matrix of finite numbers, or has another number of columns.
    """
    check_numeric(task, "task")
    matrix = np.asarray(task, dtype=float)
    expected = n_features or (matrix.shape or (0,))[-1]
    if matrix.ndim != 2 or matrix.shape[1] != expected or not len(matrix):
        raise ValueError(
            f"task must be a matrix with one column for each of the {expected} "
            f"entries of a sample, got an array of shape {matrix.shape}."
        )
    if not np.all(np.isfinite(matrix)):
        raise ValueError("task must hold finite numbers.")
    return matrix


def _ridge(
    rows: NDArray[np.floating], y: ArrayLike, white: Whitening
) -> NDArray[np.float64]:
    """Coefficients of a ridge regression of y; leave-one-out sets its penalty."""
    from sklearn.linear_model import RidgeCV

    target = _targets(y)
    if target.ndim not in (1, 2) or len(target) != len(rows):
        raise ValueError(
            f"y must have one number, or one row of numbers, for each of the "
            f"{len(rows)} samples, got an array of shape {target.shape}."
        )
    if not np.all(np.isfinite(target)):
        raise ValueError("y must not contain NaN or infinity.")
    if np.max(np.abs(target)) > _LARGEST_TARGET:
        raise ValueError(
            f"y must hold numbers between -{_LARGEST_TARGET:g} and "
            f"{_LARGEST_TARGET:g}. Rescale it."
        )
    model = RidgeCV(alphas=_PENALTIES).fit(white.standardize(rows), target)
    return np.atleast_2d(model.coef_) / white.scale


def _targets(y: ArrayLike) -> NDArray[np.float64]:
    """Numbers to predict: `y` itself, or an indicator of every class for labels."""
    check_unmasked(y, "y")
    labels = as_numpy(y, "y")
    if labels.ndim == 1 and labels.dtype.kind in "OUS":
        labels = one_each(y, "y")  # Numbers beside text stay numbers.
    if labels.ndim == 1 and labels.dtype.kind in "OUSbiu":
        try:
            classes, indices = np.unique(labels, return_inverse=True)
        except TypeError as error:
            raise ValueError(
                "y must hold only numbers, or only labels of one type."
            ) from error
        if labels.dtype.kind not in "iu" or len(classes) <= _MOST_CLASSES:
            if len(classes) < 2:
                raise ValueError("y must hold at least two different values.")
            return np.eye(len(classes))[indices]
    check_numeric(y, "y")
    return np.asarray(y, dtype=float)


def check_linear_model(model: BaseEstimator) -> None:
    """Refuse a model that is not a linear regression, or has not been fitted."""
    if is_classifier(model) or not hasattr(model, "coef_"):
        raise ValueError(_refusal(model))


def _refusal(model: BaseEstimator) -> str:
    return (
        f"{type(model).__name__} cannot be a linear `task`. Leave `task=None` and pass "
        f"`y`, or pass a matrix or a fitted linear regression, whose predictions are "
        f"coef_ @ x + intercept_."
    )


def _model_matrix(
    model: BaseEstimator, n_features: int, white: Whitening
) -> NDArray[np.float64]:
    """Coefficients of a fitted model; raise if its predictions are not linear."""
    check_linear_model(model)
    matrix = np.atleast_2d(np.asarray(model.coef_, dtype=float))
    if matrix.ndim != 2 or matrix.shape[1] != n_features:
        return matrix
    probes = white.mean + np.outer([-2.0, -1.0, 0.0, 1.0, 2.0], white.scale)
    with warnings.catch_warnings():
        # Models fitted to a data frame warn about columns without names.
        warnings.simplefilter("ignore")
        predicted = np.reshape(model.predict(probes), (len(probes), -1))
    intercept = getattr(model, "intercept_", 0.0)
    if not isinstance(intercept, Real):
        intercept = np.asarray(intercept, dtype=float)
    expected = probes @ matrix.T + intercept
    size = np.abs(expected).max() + np.abs(matrix * white.scale).max()
    if predicted.shape != expected.shape or (
        np.abs(predicted - expected).max() > 1e-4 * size
    ):
        raise ValueError(_refusal(model))
    return matrix
