"""What completions share: input checked, a solver planned, released and published."""

import math
import warnings
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.callback import CallbackSupportMixin

from .._sklearn_compat import effective_n_threads, fit_context
from .._validation import (
    check_bounds,
    check_level_prior,
    check_levels,
    check_modes,
    check_shape,
)
from ..base import PrivateEstimatorMixin
from ..exceptions import PrivacyLeakWarning, UnsoundClaimWarning
from ._input import LARGEST_TABLE, plan_entry_randomizer
from ._observed import ObservedMixin
from ._problem import Problem
from ._queries import QueriesMixin

__all__ = ["BaseCompletion"]


class BaseCompletion(
    CallbackSupportMixin,
    ObservedMixin,
    QueriesMixin,
    PrivateEstimatorMixin,
    RegressorMixin,
    BaseEstimator,
):
    """Base of completions; a subclass plans solvers and publishes models."""

    epsilon: float
    calibration: str

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        # The published descent starts at random.
        tags.non_deterministic = (
            math.isfinite(self.epsilon) or self.calibration == "published"
        )
        tags.regressor_tags.poor_score = True
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Randomise the values and fit the model to them.

        Parameters
        ----------
        X : array-like of shape (n_observed, n_modes) or (I_1, ..., I_N)
            With `y`, coordinates of the observed entries: integers, or integral
            floats. Without, the tensor itself, NaN where nothing was observed.
        y : array-like of shape (n_observed,), default=None
            The observed values, finite.

        Returns
        -------
        self : CPCompletion

        Raises
        ------
        ValueError
            Before anything is drawn: if coordinates are fractional, negative or
            outside `shape`, values are NaN or infinite, the range or the levels
            are out of order, or the rank exceeds what the shape can carry.
        """
        if y is None:
            where, values = self._check_observed(X, self._declared_shape())
            return self._fit(where, values, where.shape)
        where, values = self._check_entries(X, y, self._declared_shape())
        return self._fit(where, values, self._shape_of(where))

    @fit_context(prefer_skip_nested_validation=True)
    def fit_batches(self, batches: Iterable[tuple[ArrayLike, ArrayLike]]) -> Self:
        """Fit to entries that come in batches, as from a file that is read in chunks.

        The same as `fit` to all batches, one below the other, with the same noise.
        Nothing is drawn before the last batch has been read and checked. What is kept
        of each is 4 bytes a coordinate, and the values in their type.

        Parameters
        ----------
        batches : iterable of (X, y)
            Coordinates of shape (n_i, n_modes) and values of shape (n_i,); read once.

        Returns
        -------
        self : CPCompletion

        Raises
        ------
        ValueError
            As `fit`, and if there is no batch, or none that holds an entry.
        """
        checked: list[tuple[Any, Any]] = []
        for batch in batches:
            try:
                X, y = batch
            except (TypeError, ValueError):
                raise ValueError("A batch is a pair of X and y.") from None
            if np.size(y):
                where, values = self._check_entries(
                    X, y, self._declared_shape(), reset=not checked
                )
                # A copy: the source may use its memory again.
                checked.append((where, values.copy()))
        if not checked:
            raise ValueError("There is nothing to fit: no batch came.")
        sizes = [len(values) for _, values in checked]
        n_modes = self.n_features_in_
        where = np.empty((sum(sizes), n_modes), dtype=np.int32, order="F")
        values = np.empty(sum(sizes), np.result_type(*(v for _, v in checked)))
        end = sum(sizes)
        while checked:
            # From the last one on, so that each is let go when it has been copied.
            part_where, part = checked.pop()
            where[end - len(part) : end] = part_where
            values[end - len(part) : end] = part
            end -= len(part)
        return self._fit(where, values, self._shape_of(where))

    def _declared_shape(self):
        return None if self.shape is None else check_shape(self.shape)

    def _shape_of(self, where):
        """The declared shape, or that which the coordinates have."""
        return self._declared_shape() or tuple((where.max(axis=0) + 1).tolist())

    def _fit(self, where, values, shape, *, streaming=False):
        """Fit to values at checked coordinates, or where a mask is true."""
        self._check_rank(shape)
        problem = self._problem(where, values, shape)
        solver = self._solver(problem, streaming)
        guarantee = solver.guarantee
        self._forget()
        for name in ("_model", "_observed"):
            vars(self).pop(name, None)
        if solver.unsound and math.isfinite(problem.epsilon):
            warnings.warn(
                f"The claim of {guarantee.source} does not hold. {guarantee.statement}",
                UnsoundClaimWarning,
                stacklevel=4,
            )
        context = self._init_callback_context(max_subtasks=solver.n_sweeps)
        context.call_on_fit_task_begin(estimator=self)

        def on_sweep(_):
            sweep = context.subcontext(task_name="sweep")
            sweep.call_on_fit_task_begin(estimator=self)
            return sweep.call_on_fit_task_end(estimator=self)

        with self._source(solver, guarantee) as source:
            released = solver.release(values, source, on_sweep)
        self._observed, self._n_uses, self._single = [where], 1, guarantee
        self._dense = where.dtype == bool
        domain = problem.values
        self._randomized = domain.bounds, domain.levels, domain.noise_variance
        # From here on nothing touches the values: all is post-processing.
        del values
        outcome = solver.complete(released, on_sweep)
        self.offset_, self.value_bounds_ = outcome.offset, domain.bounds
        self.perturbation_ = solver.name
        if outcome.residual_variance is not None:
            self.residual_variance_ = outcome.residual_variance
        self._publish(outcome.model, outcome.n_iter)
        context.call_on_fit_task_end(estimator=self)
        return self

    def _solver(self, problem, streaming):
        """What randomises and fits, for a problem; `streaming` if more is to come."""
        raise NotImplementedError

    def _source(self, solver, guarantee):
        """Random streams for a solver, its release recorded; none if it needs none."""
        if math.isinf(self.epsilon) and not solver.starts_at_random:
            self.privacy_guarantee_ = guarantee
            return nullcontext()
        return self._release(guarantee)

    def _problem(self, where, values, shape):
        """All that a solver has to know, but the values."""
        return Problem(
            where=where, shape=shape, values=self._plan(values),
            declared=self.value_bounds is not None or self.levels is not None,
            epsilon=float(self.epsilon), delta=float(self.delta), rank=self.rank,
            biases=bool(self.biases),
            smooth_modes=check_modes(self.smooth_modes, len(shape), "smooth_modes"),
            n_components=self.n_pattern_components, max_iter=self.max_iter,
            gradient_clip=float(self.gradient_clip),
            learning_rate=float(self.learning_rate),
            regularization=float(self.regularization),
            n_threads=effective_n_threads(),
        )  # fmt: skip

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_iter_")

    def _plan(self, values=None, bounds=None):
        """Randomiser for the present parameters.

        Where these declare no range it is that of the `values`, or `bounds`, which a
        fit has read off earlier ones.
        """
        levels = None if self.levels is None else check_levels(self.levels)
        prior = None
        if self.level_prior is not None:
            if levels is None:
                raise ValueError("level_prior is about levels; declare them too.")
            if len(levels) > LARGEST_TABLE:
                raise ValueError(
                    f"level_prior serves tables of up to {LARGEST_TABLE} levels."
                )
            prior = check_level_prior(self.level_prior, len(levels))
        declared, earlier = True, bounds
        if self.value_bounds is not None:
            bounds = check_bounds(self.value_bounds)
            if (
                levels is not None
                and not bounds[0] <= levels[0] < levels[-1] <= bounds[1]
            ):
                raise ValueError("levels must lie within value_bounds.")
        elif levels is not None:
            bounds = levels[0], levels[-1]
        else:
            declared = False
            bounds = earlier or self._inferred_bounds(values)
        return plan_entry_randomizer(
            self.epsilon, bounds, levels, prior, declared=declared
        )

    def _inferred_bounds(self, values):
        if values is None:
            return 0.0, 1.0
        if math.isfinite(self.epsilon):
            warnings.warn(
                "Neither value_bounds nor levels is given, so the range of the values "
                "is read off the private values. No finite epsilon holds for this "
                "fit; declare the range to protect the values.",
                PrivacyLeakWarning,
                stacklevel=7,
            )
        low, high = float(np.min(values)), float(np.max(values))
        return (low, high) if low < high else (low - 0.5, high + 0.5)

    def _unprotected(self):
        return [
            *super()._unprotected(),
            "Which entries are observed (the coordinates) is public: it is published "
            "who rated what, not how.",
        ]
