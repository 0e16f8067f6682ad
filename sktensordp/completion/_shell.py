"""What completions share: input checked, a solver planned, released and published."""

import math
import warnings
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import column_or_1d

from .._dask import is_dask
from .._sklearn_compat import Interval, StrOptions, effective_n_threads, fit_context
from .._validation import (
    check_bounds,
    check_level_prior,
    check_levels,
    check_modes,
    check_numeric,
    check_shape,
    check_unmasked,
    checked,
    range_of,
    warn_of_two_levels,
)
from ..base import EstimatorMixin, PrivateEstimatorMixin
from ..exceptions import PrivacyLeakWarning, UnsoundClaimWarning
from ._auto import choose_perturbation
from ._blocks import BlockPerturbation
from ._client import PUBLIC_COORDINATES, ClientMixin
from ._expected import ExpectedErrorMixin
from ._gradient import GradientPerturbation
from ._input import (
    LARGEST_TABLE,
    InputPerturbation,
    entry_guarantee,
    plan_entry_randomizer,
)
from ._observed import ObservedMixin
from ._partial import PartialFitMixin
from ._problem import Problem
from ._published import PUBLISHED, PublishedPerturbation, published_guarantee
from ._queries import QueriesMixin
from ._sparse import is_sparse
from ._streams import as_coordinates
from ._sums import SumsPerturbation
from ._unit_level import UNPROTECTED, UnitLevelMixin

__all__ = ["USUAL_RANK", "BaseCompletion"]

# Of `rank=None`, where the shape carries as much.
USUAL_RANK = 10
_PLANNED = "the budget, which no fit exceeds"
_SOLVERS = {
    "input": InputPerturbation,
    "gradient": GradientPerturbation,
    "sums": SumsPerturbation,
}


class BaseCompletion(
    EstimatorMixin,
    QueriesMixin,
    ObservedMixin,
    PartialFitMixin,
    ClientMixin,
    UnitLevelMixin,
    ExpectedErrorMixin,
    PrivateEstimatorMixin,
    RegressorMixin,
    BaseEstimator,
):
    """Base of completions; a subclass plans solvers and publishes models."""

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's protocol)
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "perturbation": [
            StrOptions({"auto", "input", "gradient", "output", "statistics", "sums"})
        ],
        "unit": [StrOptions({"entry"}), Interval(Integral, 0, None, closed="left")],
        "value_bounds": ["array-like", None],
        "levels": ["array-like", None],
        "level_prior": ["array-like", None],
        "shape": ["array-like", None],
        "side_information": [dict, list, tuple, None],
        "calibration": [StrOptions({"sound", "published"})],
        "biases": ["boolean"],
        "n_pattern_components": [Interval(Integral, 0, None, closed="left")],
        "smooth_modes": ["array-like", None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "gradient_clip": [Interval(Real, 0, None, closed="neither")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "regularization": [Interval(Real, 0, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    rank: Any
    _model: Any

    decomposition_: Any
    factors_: list[NDArray[np.floating]]
    n_features_in_: int
    n_iter_: int
    noise_variance_: float

    def __init__(
        self,
        rank: int | Sequence[int] | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        perturbation: str = "auto",
        unit: str | int = "entry",
        value_bounds: tuple[float, float] | None = None,
        levels: ArrayLike | None = None,
        level_prior: ArrayLike | None = None,
        shape: Sequence[int] | None = None,
        side_information: dict[int, ArrayLike]
        | Sequence[ArrayLike | None]
        | None = None,
        calibration: str = "sound",
        biases: bool = True,
        n_pattern_components: int = 8,
        smooth_modes: Sequence[int] | None = None,
        max_iter: int = 25,
        gradient_clip: float = 0.5,
        learning_rate: float = 0.005,
        regularization: float = 0.01,
        random_state: int | None = None,
    ) -> None:
        self.rank = rank
        self.epsilon = epsilon
        self.delta = delta
        self.perturbation = perturbation
        self.unit = unit
        self.value_bounds = value_bounds
        self.levels = levels
        self.level_prior = level_prior
        self.shape = shape
        self.side_information = side_information
        self.calibration = calibration
        self.biases = biases
        self.n_pattern_components = n_pattern_components
        self.smooth_modes = smooth_modes
        self.max_iter = max_iter
        self.gradient_clip = gradient_clip
        self.learning_rate = learning_rate
        self.regularization = regularization
        self.random_state = random_state

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
    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **unsupported: Any) -> Self:
        """Randomise the values and fit the model to them.

        Parameters
        ----------
        X : array-like of shape (n_observed, n_modes) or (I_1, ..., I_N), or sparse
            With `y`, coordinates of the observed entries: integers, or integral
            floats. Without `y`, the tensor itself: an array of floats, NaN where
            nothing was observed, or a sparse array of SciPy or of `sparse`, whose
            stored entries were observed, zeros included. Of a frame or array of Dask,
            with `y`, the values are randomised in their partitions, and the model is
            fitted where these are.
        y : array-like of shape (n_observed,), default=None
            The observed values, finite. Of Dask if `X` is, in the same partitions.
        **unsupported : dict
            Anything else, such as `sample_weight`, raises a TypeError.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError
            If anything else is passed.
        ValueError
            Before anything is drawn: if coordinates are fractional, negative or
            outside `shape`, values are NaN or infinite, the range or the levels
            are out of order, or the rank exceeds what the shape can carry. If `y` is
            missing and `X` holds integers, which cannot mark a missing entry.
        """
        if unsupported:
            raise TypeError(
                f"fit of {type(self).__name__} takes only X and y; leave out "
                f"{', '.join(unsupported)}. Weights are not supported: a weight would "
                f"change how much its entry reveals."
            )
        if is_dask(X):
            observed = self._check_distributed(X, y, self._declared_shape())
            return self._fit(observed, observed, observed.shape)
        if is_sparse(X):
            where, values, shape = self._check_sparse(X, y, self._declared_shape())
            return self._fit(where, values, shape)
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
        self : object

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
            check_unmasked(y, "y")
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

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Coefficient of determination of the predictions, as ``r2_score`` has it.

        Parameters
        ----------
        X : array-like of shape (n_entries, n_modes)
            Coordinates, as for `predict`.
        y : array-like of shape (n_entries,)
            The values there. The score is a raw statistic of them.
        sample_weight : array-like of shape (n_entries,), default=None
            Weights of the entries.

        Returns
        -------
        score : float
            1 where all predictions are exact, 0 for those of the mean of `y`.

        Raises
        ------
        ValueError
            As `predict`, and if `y` does not hold one number for every entry.
        """
        from sklearn.metrics import r2_score

        check_numeric(y, "y")
        check_unmasked(sample_weight, "sample_weight")
        values = checked(column_or_1d, y, dtype=float)
        if not np.all(np.isfinite(values)):
            raise ValueError("Some values in y are NaN or infinite.")
        # By a power of two, the same score: squares neither vanish nor overflow.
        exponent = -int(np.frexp(np.max(np.abs(values), initial=0.0))[1])
        # Of values that are nearly equal, the score may be -inf.
        with np.errstate(over="ignore"):
            predicted = np.ldexp(self.predict(X), exponent).clip(-1e300, 1e300)
            values = np.ldexp(values, exponent)
            return r2_score(values, predicted, sample_weight=sample_weight)

    def _declared_shape(self):
        return None if self.shape is None else check_shape(self.shape)

    def _shape_of(self, where):
        """The declared shape, or that which the coordinates have."""
        return self._declared_shape() or tuple((where.max(axis=0) + 1).tolist())

    def _fit(self, where, values, shape, *, streaming=False, received=False):
        """Fit to values (randomised if `received`) at coordinates or in a mask."""
        self._check_rank(shape)
        problem = self._problem(where, values, shape)
        warn_of_two_levels(self.levels)
        solver = self._solver(problem, streaming)
        guarantee = solver.guarantee
        if solver.unsound and math.isfinite(problem.epsilon):
            warnings.warn(
                f"The claim of {guarantee.source} does not hold. {guarantee.statement}",
                UnsoundClaimWarning,
                stacklevel=4,
            )
        progress = self._progress("sweep", solver.n_sweeps)
        # Another thread would leave its model under the guarantee of this one.
        with progress as on_sweep, self._count_releases().lock:
            with self._source(solver, guarantee, received) as source:
                released = solver.release(values, source, on_sweep)
            self._received = received
            # Where a unit is protected, so is which entries it has.
            self._observed = [] if self._protects_units else [where]
            self._n_uses, self._single = 1, guarantee
            self._form_of_fit = problem.form
            self._dense = where.dtype == bool
            if problem.is_distributed:
                # Entries stay where they are.
                self._observed, self._dense = None, False
            domain = problem.values
            self._randomized = domain.bounds, domain.levels, domain.noise_variance
            # From here on nothing that is published touches the values: all is
            # post-processing.
            outcome = solver.complete(released, on_sweep)
            self.offset_, self.value_bounds_ = outcome.offset, domain.bounds
            self.perturbation_ = outcome.perturbation or solver.name
            if self.perturbation_ != solver.name:
                # What was chosen follows from what was released.
                self._single = solver.guarantee_of(self.perturbation_)
                self.privacy_guarantee_ = self._single
            if outcome.residual_variance is not None:
                self.residual_variance_ = outcome.residual_variance
            if self._protects_units:
                self._share(outcome, shape)
                self._keep_rows(where, values)
                # Last of all: it is fitted now.
                self.n_iter_ = outcome.n_iter
            else:
                self._publish(outcome.model, outcome.n_iter)
        return self

    def _solver(self, problem, streaming):
        """What randomises and fits, for a problem; `streaming` if more is to come."""
        name = self.perturbation
        if self._protects_units:
            return self._unit_solver(problem)
        if self.calibration == "published":
            return PublishedPerturbation(problem, name)
        if name == "auto" and not streaming:
            return choose_perturbation(problem)
        if name == "auto":
            name = "input"
        if name in ("statistics", "output"):
            solver = BlockPerturbation(problem, name)
            if problem.is_distributed and not solver.uses_features:
                raise ValueError(
                    "For data of Dask, perturbation='statistics' needs features: "
                    "side_information, or a pattern (n_pattern_components > 0)."
                )
            return solver
        return _SOLVERS[name](problem)

    def _planned_guarantee(self, fitted=None):
        from ..privacy._events import PureDpEvent

        if self._protects_units:
            return self._planned_unit_guarantee()
        values, epsilon = self._plan(), float(self.epsilon)
        if not math.isfinite(values.guarantee.epsilon):
            return values.guarantee
        if self.calibration == "published" and self.perturbation in PUBLISHED:
            return published_guarantee(self.perturbation, epsilon)
        if self.perturbation == "input":
            return values.guarantee
        event, delta = PureDpEvent(epsilon), 0.0
        if self.perturbation == "gradient":
            delta = float(self.delta)
            event = GradientPerturbation.planned_event(epsilon, delta)
        statement = "What is computed from the values is randomised, whatever they are."
        return entry_guarantee(event, statement, _PLANNED, delta=delta)

    def _source(self, solver, guarantee, received):
        """Random streams for a solver, its release recorded; none if it needs none."""
        if received:
            return self._replacing(guarantee)
        if math.isinf(self.epsilon) and not solver.starts_at_random:
            self._record(guarantee)
            return self._replacing(guarantee)
        return self._release(guarantee, anew=True)

    @contextmanager
    def _replacing(self, guarantee):
        """Nothing is drawn; at the end an earlier fit is forgotten, unless refused."""
        yield
        self._forget(privacy_guarantee_=guarantee)

    _of_fit = (
        "_model", "_observed", "_local", "_n_uses", "_single", "_dense", "_randomized",
        "_received", "_form_of_fit",
    )  # fmt: skip

    def _publish(self, model, n_iter):
        """Set the attributes that describe a model, all at once."""
        found = {
            "_model": model,
            "decomposition_": (decomposition := self._decomposition(model)),
            "factors_": decomposition.factors,
            "shape_": model.shape,
            "n_iter_": n_iter,
        }
        if not math.isnan(model.noise_variance):
            found["noise_variance_"] = model.noise_variance
        vars(self).update(found)

    def _form(self, order, shape):
        """The form of the decomposition of a shape, its modes in an order."""
        raise NotImplementedError

    def _decomposition(self, model):
        """A model in TensorLy's form."""
        raise NotImplementedError

    def _check_rank(self, shape):
        """Refuse a rank that is larger than can be fitted to a shape."""
        raise NotImplementedError

    def _problem(self, where, values, shape):
        """All that a solver has to know, but the values; the unit's mode first."""
        n_modes = len(shape)
        declared = self._check_unit(n_modes)
        order = self._modes_from_unit(n_modes)
        side_information = self._side_features(shape, order[1])
        make = Problem
        if not isinstance(where, np.ndarray):
            from ._distributed_problem import DistributedProblem as make
        elif self._protects_units:
            where = as_coordinates(where)[:, order]
        return make(
            where=where, shape=tuple(shape[k] for k in order),
            values=self._plan(values),
            declared=declared and not (self.value_bounds is self.levels is None),
            epsilon=float(self.epsilon), delta=float(self.delta),
            form=self._form(order, shape), side_information=side_information,
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
        return range_of(getattr(values, "limits", values))

    def _unprotected(self):
        if self._protects_units:
            return [*super()._unprotected(), *UNPROTECTED]
        return [*super()._unprotected(), PUBLIC_COORDINATES]
