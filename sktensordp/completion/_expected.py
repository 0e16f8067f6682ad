"""The error that is expected of a completion, before there are values."""

import functools
from typing import Any

import numpy as np

from .._sklearn_compat import fit_context
from .._validation import check_coordinates
from ._auto import expected_rmse
from ._unit_expected import expected_unit_rmse

__all__ = ["ExpectedErrorMixin"]

_PERTURBATIONS = ("auto", "input", "sums", "statistics")


class ExpectedErrorMixin:
    """Mixin of completions: the expected error as a function of epsilon."""

    _error_name = "expected RMSE, in units of the values"

    unit: str | int
    perturbation: str
    calibration: str
    biases: bool
    smooth_modes: Any
    value_bounds: Any
    levels: Any
    level_prior: Any
    shape: Any
    set_params: Any
    _check_input: Any
    _declared_shape: Any
    _shape_of: Any
    _check_rank: Any
    _plan: Any
    _problem: Any

    @fit_context(prefer_skip_nested_validation=True)
    def _error_by_epsilon(self, X, y):
        """Expected error as a function of epsilon; no value is read.

        Of `X` the coordinates are read; where a unit is protected, how many they are.
        `y` is for estimators that learn from it.
        """
        self._check_expectation()
        if self.unit != "entry":
            shape = self._declared_shape()
            where = np.empty((0, len(shape)), dtype=np.int32)
            expected = functools.partial(expected_unit_rmse, n_entries=len(X))
            if np.shape(X)[1:] != (len(shape),):
                raise ValueError(
                    f"X must hold {len(shape)} coordinates a row, got an array of "
                    f"shape {np.shape(X)}."
                )
        else:
            X = self._check_input(X, ensure_min_features=2)
            name, declared = type(self).__name__, self._declared_shape()
            where = check_coordinates(X, shape=declared, name=name)
            shape, expected = self._shape_of(where), expected_rmse
        self._check_rank(shape)
        problem = self._problem(where, None, shape)
        options = {
            "perturbation": self.perturbation,
            "variance": self._declared_variance(problem.values.levels),
        }

        def error(epsilon):
            values = self.set_params(epsilon=epsilon)._plan()
            return expected(problem.with_budget(float(epsilon), values), **options)

        return error

    def _check_expectation(self):
        """Refuse what has no expectation, and what would be read off private data."""
        name = type(self).__name__
        if self.perturbation not in _PERTURBATIONS or self.calibration != "sound":
            raise ValueError(
                f"The expected error of {name} is known of perturbation in "
                f'{_PERTURBATIONS} with calibration="sound".'
            )
        if not self.biases or self.smooth_modes:
            raise ValueError(
                f"The expected error of {name} is known with biases and without smooth "
                f"modes."
            )
        if self.value_bounds is self.levels is None:
            raise ValueError(
                f"The domain of {name} is not declared: the error would be that of a "
                f"range read off the values. Declare value_bounds or levels."
            )
        if self.unit != "entry" and self.shape is None:
            raise ValueError(
                "Where everything of a unit is protected, shape must be declared: the "
                "coordinates are private there."
            )

    def _declared_variance(self, levels):
        """Variance of the values, if `level_prior` says how often levels are."""
        if self.level_prior is None:
            return None
        prior, levels = np.asarray(self.level_prior, dtype=float), np.asarray(levels)
        prior = prior / prior.sum()
        return float(prior @ (levels - prior @ levels) ** 2)
