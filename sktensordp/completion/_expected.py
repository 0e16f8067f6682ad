"""Expected error of a completion, computed without reading any value."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .._validation import check_coordinates, shape_of
from ._checks import check_input
from ._domain import Domain
from ._entries import Entries, extent
from ._problem import Problem
from .measurements._choice import expected_rmse
from .measurements._unit_expected import expected_unit_rmse
from .measurements._units import UnitPerturbation

_PERTURBATIONS = ("auto", "input", "sums", "statistics")


def error_by_epsilon(
    estimator: Any, X: Any, n_units: int | None = None
) -> Callable[[float], float]:
    """Expected error of a completion as a function of epsilon; no value is read.

    Parameters
    ----------
    estimator : BaseCompletion
    X : array-like of shape (n, n_modes)
        Coordinates. If a unit is protected, only their number is read.
    n_units : int, default=None
        Number of protected units that have entries; None for as many as the shape has,
        or as there are rows of `X`.

    Returns
    -------
    error : callable
        Takes epsilon; returns the expected RMSE.
    """
    _check_expectation(estimator)
    if estimator.unit != "entry":
        shape = estimator._declared_shape()
        entries = None

        def expected(problem: Problem, perturbation: str, variance: Any) -> float:
            noise = UnitPerturbation(problem, 0, perturbation).noise.noise_variance
            return expected_unit_rmse(
                problem, len(X), perturbation, noise, variance, n_units
            )

        if shape_of(X, "X")[1:] != (len(shape),):
            raise ValueError(
                f"X must have shape (n_entries, {len(shape)}), a column for each mode."
            )
    else:
        X = check_input(estimator, X, ensure_min_features=2)
        name, declared = type(estimator).__name__, estimator._declared_shape()
        where = check_coordinates(X, shape=declared, name=name)
        shape, expected = declared or extent(where), expected_rmse
        entries = Entries(where, None, shape)
    problem = Problem.of(estimator, shape, entries)
    options = {
        "perturbation": estimator.perturbation,
        "variance": _declared_variance(problem.domain),
    }

    def error(epsilon: float) -> float:
        return expected(replace(problem, epsilon=float(epsilon)), **options)

    return error


def _check_expectation(estimator: Any) -> None:
    """Refuse estimators with no known expectation, or with undeclared quantities."""
    name = type(estimator).__name__
    if estimator.perturbation not in _PERTURBATIONS:
        raise ValueError(
            f"The expected error of {name} is known only for perturbation in "
            f"{_PERTURBATIONS}."
        )
    if not estimator.biases or estimator.smooth_modes:
        raise ValueError(
            f"The expected error of {name} is known only with biases=True and "
            f"smooth_modes=None."
        )
    if estimator.value_bounds is estimator.levels is None:
        raise ValueError(
            f"The domain of {name} is not declared, and the expected error depends on "
            f"it. Declare value_bounds or levels."
        )
    if estimator.unit != "entry" and estimator.shape is None:
        raise ValueError(
            "`shape` is not declared, and with this `unit` the coordinates are "
            "private. Pass shape=(n_users, n_items)."
        )


def _declared_variance(domain: Domain) -> float | None:
    """Variance of the values under the prior of their levels; None without one."""
    if domain.prior is None:
        return None
    prior, levels = np.array(domain.prior), np.array(domain.levels)
    return float(prior @ (levels - prior @ levels) ** 2)
