"""The error that is expected of a completion, before there are values."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._validation import check_coordinates
from ._entries import Entries, check_input, extent
from .solvers._auto import expected_rmse
from .solvers._unit_expected import expected_unit_rmse

__all__ = ["error_by_epsilon"]

_PERTURBATIONS = ("auto", "input", "sums", "statistics")


def error_by_epsilon(estimator: Any, X: Any) -> Callable[[float], float]:
    """Expected error of a completion as a function of epsilon; no value is read.

    Parameters
    ----------
    estimator : BaseCompletion
        Its epsilon is set by the function.
    X : array-like of shape (n, n_modes)
        Coordinates; where a unit is protected, only how many they are is read.

    Returns
    -------
    error : callable
    """
    _check_expectation(estimator)
    expected: Callable[..., float]
    if estimator.unit != "entry":
        shape = estimator._declared_shape()
        where = np.empty((0, len(shape)), dtype=np.int32)
        expected = functools.partial(expected_unit_rmse, n_entries=len(X))
        if np.shape(X)[1:] != (len(shape),):
            raise ValueError(
                f"X must hold {len(shape)} coordinates a row, got an array of "
                f"shape {np.shape(X)}."
            )
    else:
        X = check_input(estimator, X, ensure_min_features=2)
        name, declared = type(estimator).__name__, estimator._declared_shape()
        where = check_coordinates(X, shape=declared, name=name)
        shape, expected = declared or extent(where), expected_rmse
    estimator._check_rank(shape)
    problem = estimator._problem(Entries(where, None, shape))
    options = {
        "perturbation": estimator.perturbation,
        "variance": _declared_variance(estimator, problem.values.levels),
    }

    def error(epsilon: float) -> float:
        values = estimator.set_params(epsilon=epsilon)._plan()
        return expected(problem.with_budget(float(epsilon), values), **options)

    return error


def _check_expectation(estimator: Any) -> None:
    """Refuse what has no expectation, and what would be read off private data."""
    name = type(estimator).__name__
    if estimator.perturbation not in _PERTURBATIONS or estimator.calibration != "sound":
        raise ValueError(
            f"The expected error of {name} is known of perturbation in "
            f'{_PERTURBATIONS} with calibration="sound".'
        )
    if not estimator.biases or estimator.smooth_modes:
        raise ValueError(
            f"The expected error of {name} is known with biases and without smooth "
            f"modes."
        )
    if estimator.value_bounds is estimator.levels is None:
        raise ValueError(
            f"The domain of {name} is not declared: the error would be that of a "
            f"range read off the values. Declare value_bounds or levels."
        )
    if estimator.unit != "entry" and estimator.shape is None:
        raise ValueError(
            "Where everything of a unit is protected, shape must be declared: the "
            "coordinates are private there."
        )


def _declared_variance(estimator: Any, levels: Any) -> float | None:
    """Variance of the values, if `level_prior` says how often levels are."""
    if estimator.level_prior is None:
        return None
    prior, levels = np.asarray(estimator.level_prior, dtype=float), np.asarray(levels)
    prior = prior / prior.sum()
    return float(prior @ (levels - prior @ levels) ** 2)
