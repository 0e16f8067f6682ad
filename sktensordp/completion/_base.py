"""`BaseCompletion`: the estimator, from `fit` to `recommend`.

Everything that a fit leaves is in one attribute, `_fitted`; see ``_fitted.py``.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags, check_array, column_or_1d
from sklearn.utils.validation import check_is_fitted

from .._dask import is_dask
from .._random import NoiseStreams
from .._sklearn_compat import (
    Interval,
    StrOptions,
    available_if,
    effective_n_threads,
    fit_context,
)
from .._validation import (
    check_bounds,
    check_coordinates,
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
from ..privacy import PrivacyGuarantee
from ..tensor import CPForm, TuckerForm
from ._client import PUBLIC_COORDINATES, CompletionClient
from ._entries import (
    AnyFrameMixin,
    Entries,
    check_input,
    entries_at,
    entries_of_batches,
    observed_entries,
)
from ._expected import error_by_epsilon
from ._fitted import Domain, Fitted, FittedToUnits
from ._problem import Problem, side_features
from ._sparse import is_sparse
from ._unit_rows import LocalRows
from ._values import LARGEST_TABLE, EntryRandomizer, plan_entry_randomizer
from .solvers._choice import choose_solver, planned_guarantee
from .solvers._solver import Outcome, Solver

__all__ = ["USUAL_RANK", "BaseCompletion"]

# Of `rank=None`, where the shape carries as much.
USUAL_RANK = 10
_OF_UNITS = [
    "Which indices every mode has (the vocabulary and the shape) is public.",
    "What is predicted for a unit follows from its own entries too: it is for that "
    "unit alone.",
]
_PERTURBATIONS_OF_UNITS = ("auto", "sums", "statistics")


class BaseCompletion(
    EstimatorMixin,
    AnyFrameMixin,
    PrivateEstimatorMixin,
    RegressorMixin,
    BaseEstimator,
):
    """Base of completions; a subclass says what its decomposition is."""

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
    n_features_in_: int
    _fitted: Any
    _of_fit = ("_fitted",)
    _error_name = "expected RMSE, in units of the values"

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

    def __sklearn_tags__(self) -> Tags:
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
        with self._same_if_refused():
            return self._fit(observed_entries(self, X, y, self._declared_shape()))

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
        with self._same_if_refused():
            return self._fit(entries_of_batches(self, batches, self._declared_shape()))

    @contextmanager
    def _same_if_refused(self) -> Iterator[None]:
        """Names of features stay those of an earlier fit, unless a new one begins."""
        names, own = {"n_features_in_", "feature_names_in_"}, self.__dict__
        before = {name: own[name] for name in names & own.keys()}
        fitted = own.get("_fitted")
        try:
            yield
        finally:
            # Once a release has been admitted, the earlier fit is forgotten.
            if fitted is not None and self.__dict__.get("_fitted") is fitted:
                for name in names - before.keys():
                    self.__dict__.pop(name, None)
                self.__dict__.update(before)

    def _fit(
        self, entries: Entries, *, streaming: bool = False, received: bool = False
    ) -> Self:
        """Fit to entries, their values randomised if `received`."""
        problem = self._problem(entries)
        solver = choose_solver(
            problem, self.perturbation, unit=self._unit, calibration=self.calibration,
            streaming=streaming,
        )  # fmt: skip
        self._warn_of_what_was_asked(solver)
        progress = self._progress("sweep", solver.n_sweeps)
        # Another thread would leave its model under the guarantee of this one.
        with progress as on_sweep, self._count_releases().lock:
            with self._noise_for(solver, received) as noise:
                released = solver.release(entries.values, noise, on_sweep)
            # From here on nothing that is published touches the values: all is
            # post-processing.
            outcome = solver.complete(released, on_sweep)
            self._publish(entries, problem, solver, outcome, received)
        return self

    @contextmanager
    def _noise_for(
        self, solver: Solver, received: bool
    ) -> Iterator[NoiseStreams | None]:
        """Streams for a solver, its release recorded; None where it draws nothing.

        An earlier fit is then forgotten at the end, unless this one was refused.
        """
        if not received and (math.isfinite(self.epsilon) or solver.starts_at_random):
            with self._release(solver.guarantee, anew=True) as noise:
                yield noise
            return
        if not received:
            self._record(solver.guarantee)
        yield None
        self._forget(privacy_guarantee_=solver.guarantee)

    def _publish(
        self,
        entries: Entries,
        problem: Problem,
        solver: Any,
        outcome: Outcome,
        received: bool,
    ) -> None:
        """Keep what answers from now on, all at once."""
        perturbation, guarantee = outcome.perturbation or solver.name, solver.guarantee
        if perturbation != solver.name:
            # What was chosen follows from what was released.
            guarantee = self.privacy_guarantee_ = solver.guarantee_of(perturbation)
        randomizer = problem.values
        kept: dict[str, Any] = {
            "model": outcome.model,
            "offset": outcome.offset,
            "shape": entries.shape,
            "domain": Domain(
                randomizer.bounds, randomizer.levels, randomizer.noise_variance
            ),
            "form": problem.form,
            "perturbation": perturbation,
            "n_iter": outcome.n_iter,
            "residual_variance": outcome.residual_variance,
            "is_dense": entries.is_dense,
            "was_received": received,
            "n_uses": 1,
            "single": guarantee,
        }
        if self._unit is None:
            # Entries of Dask stay where they are.
            observed = None if entries.is_distributed else (entries.where,)
            made = self._decomposition(outcome.model)
            self._fitted = Fitted(decomposition=made, observed=observed, **kept)
            return
        # Where a unit is protected, so is which entries it has.
        fitted = FittedToUnits(
            decomposition=None, observed=(), local=LocalRows(), **kept
        )
        made = self._decomposition(fitted.answering)
        fitted = replace(fitted, decomposition=made)
        values = randomizer.clip(entries.values.astype(float))
        self._fitted = fitted.with_rows_of(entries.coordinates, values)

    def _can_partial_fit(self) -> bool:
        asked = self.perturbation in ("auto", "input") and self.calibration == "sound"
        asked = asked and self._unit is None
        fitted = vars(self).get("_fitted")
        # Every sound fit to randomised values has a residual variance, and no other.
        can_go_on = fitted is None or not (
            fitted.residual_variance is None or fitted.observed is None
        )
        if not asked or not can_go_on:
            raise AttributeError(
                "partial_fit goes on with values that were randomised one by one: "
                'fit with perturbation="input" and calibration="sound".'
            )
        return True

    @available_if(_can_partial_fit)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Randomise the values of new entries and take them into the model.

        With ``perturbation="auto"``, a stream that begins here takes "input", since
        that alone can go on; what else `fit` has taken cannot.

        The posterior of the model so far is the prior of what follows; only the rows
        of the factors that the new entries touch change, and the learned precisions
        and the variance do not. Fitting to all entries at once is more accurate.

        **Guarantee.** Every value is randomised in the call that it is passed to, once
        under `epsilon`, so that values of different entries do not add up. Coordinates
        that come back in a later call may be of the same value again: then
        `privacy_guarantee_` counts all the calls that had them.

        Parameters
        ----------
        X : array-like of shape (n_observed, n_modes)
            Coordinates of the new entries. Where `shape` is not declared, new indices
            make the tensor larger. Or a sparse array, as for `fit`.
        y : array-like of shape (n_observed,)
            Their values, finite; None for a sparse array.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            Before anything is drawn: as `fit`, and if parameters of the model or the
            range of the values are not those of the fit.
        """
        is_first = not self.__sklearn_is_fitted__()
        if y is None and not is_sparse(X):
            raise ValueError(
                "y is missing. Call partial_fit(X, y) with coordinates and their "
                "values; only a sparse X goes without y."
            )
        entries = entries_at(self, X, y, self._declared_shape(), reset=is_first)
        if is_first:
            return self._fit(entries, streaming=True)
        self._validate_params()
        self._check_unchanged()
        # One call after the other: each goes on with the model of the one before.
        with self._count_releases().lock:
            fitted = self._fitted
            randomizer = self._plan(bounds=fitted.domain.bounds)
            if (randomizer.bounds, randomizer.levels) != fitted.domain[:2]:
                raise ValueError("value_bounds and levels must be those of the fit.")
            fitted = fitted.with_call(entries.where, randomizer.guarantee)
            if math.isinf(self.epsilon):
                self._record(randomizer.guarantee)
                self.privacy_guarantee_ = fitted.guarantee
                self._fitted = fitted
                randomized = randomizer.clip(entries.values)
            else:
                with self._release(randomizer.guarantee, fitted.guarantee) as noise:
                    # Before anything is drawn, so that an interrupted call counts.
                    self._fitted = fitted
                    randomized = randomizer.randomize(entries.values, noise)
            del entries
            model = fitted.updated(randomized, randomizer.noise_variance, self.max_iter)
            self._fitted = replace(
                fitted, model=model, decomposition=self._decomposition(model),
                shape=model.shape, n_iter=self.max_iter,
            )  # fmt: skip
        return self

    def _check_unchanged(self) -> None:
        """Refuse to go on with a model that has other columns than declared."""
        fitted = self._fitted
        n_modes = len(fitted.shape)
        smooth_modes = check_modes(self.smooth_modes, n_modes, "smooth_modes")
        form = fitted.form
        if self.rank is not None:
            form = self._form(range(n_modes), fitted.shape)
        if not fitted.model.has_columns(form, self.biases, smooth_modes):
            raise ValueError(
                "rank, biases and smooth_modes must be those of the fit; call fit to "
                "change them."
            )

    def _can_fold_in(self) -> bool:
        if self._unit is None:
            raise AttributeError(
                "fold_in needs a protected unit: pass unit=0, or the number of another "
                "mode."
            )
        return True

    @available_if(_can_fold_in)
    def fold_in(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Give units their own rows, from all of their entries; nothing is released.

        A unit that is new, or that comes back after the model was copied or stored,
        is predicted as any other from then on. Its row is computed from its entries
        and from what was released, stays in this process, and replaces an older one.

        Parameters
        ----------
        X : array-like of shape (n_observed, n_modes)
            Coordinates of all entries of these units, within `shape_`. Or a sparse
            array of shape `shape_`, as for `fit`.
        y : array-like of shape (n_observed,)
            Their values, finite; None for a sparse array.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If coordinates are outside the tensor, or values are not finite, or if
            `unit` or the domain of the values are not those of the fit.
        """
        check_is_fitted(self)
        with self._count_releases().lock:
            fitted = self._fitted
            randomizer = self._plan(bounds=fitted.domain.bounds)
            asked = self._unit, randomizer.bounds, randomizer.levels
            if asked != (fitted.unit, *fitted.domain[:2]):
                raise ValueError(
                    "unit, value_bounds and levels must be those of the fit."
                )
            entries = entries_at(self, X, y, fitted.shape, reset=False)
            values = randomizer.clip(entries.values.astype(float))
            self._fitted = fitted.with_rows_of(entries.where, values)
        return self

    def _has_client(self) -> bool:
        asked = self.perturbation in ("auto", "input") and self.calibration == "sound"
        if asked and self._unit is None:
            return True
        raise AttributeError(
            'Values are randomised elsewhere with perturbation="auto" or "input", '
            'calibration="sound" and unit="entry" alone.'
        )

    @available_if(_has_client)
    def client(self, random_state: int | None = None) -> CompletionClient:
        """What randomises values where they are, for shipping.

        With ``perturbation="auto"`` it is "input", which alone needs no sums over
        values of others.

        Parameters
        ----------
        random_state : int or None, default=None
            Of the client. An int is for tests and papers alone, and no two clients
            may have the same: their noise would be the same.

        Returns
        -------
        client : CompletionClient
            With `privatize`. It follows from `epsilon`, `levels`, `level_prior` and
            `value_bounds`; the completion need not be fitted.

        Raises
        ------
        ValueError
            If neither `value_bounds` nor `levels` is declared.
        """
        self._validate_params()
        self._check_declared()
        return self._passed_on(CompletionClient(self._plan(), random_state))

    @available_if(_has_client)
    @fit_context(prefer_skip_nested_validation=True)
    def fit_randomized(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the model to values that clients have randomised.

        The same as `fit` with ``perturbation="input"`` to all the clients' values. It
        draws nothing and spends nothing, so that it may be called as often as there
        are new values, or other ranks to try.

        **Guarantee.** That of every value's one pass through `privatize` of a client
        with the same `epsilon`, `levels`, `level_prior` and `value_bounds`; budgets
        count it there. `privacy_guarantee_` states it, and trusts that it was so.

        Parameters
        ----------
        X : array-like of shape (n_observed, n_modes)
            Coordinates, as for `fit`; also of Dask.
        y : array-like of shape (n_observed,)
            What `privatize` returned for the values there.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit`; if neither `value_bounds` nor `levels` is declared; if values are
            not of the table that clients draw from; and, where there is no table, if
            so many values are within the range that they can hardly have noise (with
            noise, at most one set in 1e9 is refused). A few raw values, or noise of
            another epsilon, cannot be told.
        """
        self._check_declared()
        check = observed_entries if is_dask(X) else entries_at
        with self._same_if_refused():
            entries = check(self, X, y, self._declared_shape())
            return self._fit(entries, streaming=True, received=True)

    def _check_declared(self) -> None:
        if self.value_bounds is self.levels is None:
            raise ValueError(
                "Declare levels or value_bounds: clients randomise values of a range "
                "that all of them know beforehand."
            )

    def _can_transform(self) -> bool:
        if not self._dense:
            raise AttributeError(
                "transform completes the tensor of the fit. After fit(X, y) with "
                "coordinates, use predict."
            )
        return True

    def _can_fit_transform(self) -> bool:
        if self.__sklearn_is_fitted__() and not self._dense:
            raise AttributeError(
                "fit_transform completes a tensor, but this model was fitted to "
                "coordinates. Call fit(tensor), then transform(tensor)."
            )
        return True

    @available_if(_can_fit_transform)
    def fit_transform(self, X: ArrayLike, y: None = None) -> NDArray[np.float64]:
        """Fit to a tensor, then complete it.

        Parameters
        ----------
        X : array-like of shape (I_1, ..., I_N)
            NaN where nothing was observed.
        y : None
            Coordinates and their values are for `fit` and `predict`.

        Returns
        -------
        completed : ndarray of shape (I_1, ..., I_N)

        Raises
        ------
        ValueError
            If `y` is passed, and as `fit`.
        """
        if y is not None:
            raise ValueError(
                "fit_transform completes a tensor X and takes no y. With coordinates, "
                "call fit(X, y), then predict."
            )
        if is_sparse(X):
            raise TypeError(
                "X is sparse, but fit_transform completes a dense tensor with NaN "
                "where nothing was observed. Call fit(X), then predict."
            )
        return self.fit(X).transform(X)

    @available_if(_can_transform)
    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """The model everywhere, after a fit to a tensor.

        Parameters
        ----------
        X : array-like of shape (I_1, ..., I_N)
            Its shape is checked; no value of it is read, so that nothing observed
            gets into the output but through the fit.

        Returns
        -------
        completed : ndarray of shape (I_1, ..., I_N)
            Within `value_bounds_`.

        Raises
        ------
        ValueError
            If `X` has another shape than the tensor in the fit.
        """
        check_is_fitted(self)
        self._fitted.warn_of_lost_rows(np.zeros((1, len(self.shape_))))
        if np.shape(X) != self.shape_:
            raise ValueError(
                f"X has shape {np.shape(X)}, but the tensor of the fit {self.shape_}."
            )
        return self._fitted.dense()

    @overload
    def predict(
        self, X: ArrayLike, return_std: Literal[False] = False
    ) -> NDArray[np.floating]: ...

    @overload
    def predict(
        self, X: ArrayLike, return_std: Literal[True]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]: ...

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> NDArray[np.floating] | tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Values of the model at coordinates.

        Parameters
        ----------
        X : array-like of shape (n_entries, n_modes)
            Coordinates inside `shape_`; -1 stands for an index that is not known,
            and is predicted from what is known of the others.
        return_std : bool, default=False
            Whether to return how far the values are expected from the predictions.

        Returns
        -------
        y : ndarray of shape (n_entries,)
            Within `value_bounds_`.
        std : ndarray of shape (n_entries,)
            With `return_std`: standard deviation of a value, before it is randomised,
            around its prediction. Its square is the posterior variance of the model
            plus `residual_variance_`, and it is at most the distance to the farther
            of `value_bounds_`.

        Raises
        ------
        ValueError
            If a coordinate is fractional, below -1 or outside `shape_`, or if standard
            deviations are not known.
        """
        check_is_fitted(self)
        found = check_input(self, X, reset=False)
        coordinates = check_coordinates(
            found, shape=self.shape_, allow_unknown=True, name=type(self).__name__
        )
        fitted = self._fitted
        fitted.warn_of_lost_rows(coordinates)
        mean = fitted.predict(coordinates)
        if not return_std:
            return mean
        return mean, fitted.standard_deviation(coordinates, mean)

    def recommend(
        self, units: ArrayLike, k: int = 10, *, context: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """The items with the largest predictions, without those already observed.

        Items are indices of mode 1. They are ranked for indices of mode 0, usually
        users, or for pairs of these with a context.

        Parameters
        ----------
        units : int or array-like of shape (n_units,)
            Indices of mode 0; -1 stands for one that is not known.
        k : int, default=10
            Number of items.
        context : array-like of shape (n_modes - 2,), default=None
            Indices of the other modes; -1, the default, for what is not known. An
            item that was observed in any context is left out. Where `unit` is one of
            these modes, its index is the unit that asks, and only its own entries
            count: an item is left out if that unit has an entry of it at the same
            index of mode 0. For an unknown unit nothing is left out.

        Returns
        -------
        items : ndarray of shape (k,) or (n_units, k)
            Best first. -1 where there is no further item.

        Raises
        ------
        ValueError
            If an index is outside the tensor, `k` is not positive, or the items are
            the protected units (``unit=1``): their order would tell whoever asks
            about the entries of others.
        """
        check_is_fitted(self)
        if self._fitted.unit == 1:
            raise ValueError(
                "recommend ranks the indices of mode 1, but unit=1 protects them: the "
                "ranking would reveal the entries of the ranked units to whoever asks. "
                "Put the items into mode 1 and the protected units into another mode."
            )
        if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be a positive integer, got {k!r}.")
        check_numeric(units, "units")
        wanted = np.atleast_1d(units)
        if wanted.ndim != 1:
            raise ValueError("units must be an index or a list of indices.")
        n_others = len(self.shape_) - 2
        rest = np.full(n_others, -1)
        if context is not None:
            check_numeric(context, "context")
            rest = np.asarray(context)
        if rest.shape != (n_others,):
            raise ValueError(f"context must hold {n_others} indices.")
        # In which every integer and every fraction stays what it is.
        asked = np.empty((len(wanted), len(self.shape_)), dtype=np.longdouble)
        asked[:, 0], asked[:, 1], asked[:, 2:] = wanted, -1, rest
        asked = check_coordinates(
            checked(check_array, asked, estimator=self, input_name="units"),
            shape=self.shape_, allow_unknown=True, name="recommend",
        )  # fmt: skip
        fitted = self._fitted
        fitted.warn_of_lost_rows(asked)
        return fitted.recommend(asked, k).reshape(*np.shape(units), k)

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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    @property
    def decomposition_(self) -> Any:
        """The model in TensorLy's form."""
        return self._fitted.decomposition

    @property
    def factors_(self) -> list[Any]:
        """Factors by mode; None for the rows of protected units."""
        return self._fitted.factors

    @property
    def offset_(self) -> float:
        """What all predictions have in common."""
        return self._fitted.offset

    @property
    def shape_(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return self._fitted.shape

    @property
    def value_bounds_(self) -> tuple[float, float]:
        """Range of the predictions."""
        return self._fitted.domain.bounds

    @property
    def perturbation_(self) -> str:
        """The perturbation taken."""
        return self._fitted.perturbation

    @property
    def n_iter_(self) -> int:
        """Sweeps that were run."""
        return self._fitted.n_iter

    @property
    def noise_variance_(self) -> float:
        """Variance of what was fitted around the model."""
        found = self._fitted.noise_variance
        if math.isnan(found):
            raise AttributeError("noise_variance_ is not known of this perturbation.")
        return found

    @property
    def residual_variance_(self) -> float:
        """Variance of the values, before they were randomised, around the model."""
        found = self._fitted.residual_variance
        if found is None:
            raise AttributeError(
                "residual_variance_ is not known of this perturbation."
            )
        return found

    @property
    def _dense(self) -> bool:
        """Whether X held the values, as a tensor."""
        return self.__sklearn_is_fitted__() and self._fitted.is_dense

    @property
    def _unit(self) -> int | None:
        """The mode of the units to protect; None where entries are."""
        return None if self.unit == "entry" else int(self.unit)

    def _declared_shape(self) -> tuple[int, ...] | None:
        return None if self.shape is None else check_shape(self.shape)

    def _form(
        self, order: Iterable[int], shape: tuple[int, ...]
    ) -> CPForm | TuckerForm:
        """The form of the decomposition of a shape, its modes in an order."""
        raise NotImplementedError

    def _decomposition(self, model: Any) -> Any:
        """A model in TensorLy's form."""
        raise NotImplementedError

    def _check_rank(self, shape: tuple[int, ...]) -> None:
        """Refuse a rank that is larger than can be fitted to a shape."""
        raise NotImplementedError

    def _problem(self, entries: Entries) -> Problem:
        """All that a solver has to know, but the values; the unit's mode first."""
        shape = entries.shape
        self._check_rank(shape)
        is_public = self._check_unit(len(shape))
        first = self._unit or 0
        order = [first, *(k for k in range(len(shape)) if k != first)]
        features = side_features(self.side_information, shape, order[1])
        make, where = Problem, entries.where
        if entries.is_distributed:
            from ._distributed_problem import DistributedProblem as make
        elif self._unit is not None:
            where = entries.coordinates[:, order]
        return make(
            where=where, shape=tuple(shape[k] for k in order),
            values=self._plan(entries.values),
            declared=is_public and not (self.value_bounds is self.levels is None),
            epsilon=float(self.epsilon), delta=float(self.delta),
            form=self._form(order, shape), side_information=features,
            biases=bool(self.biases),
            smooth_modes=check_modes(self.smooth_modes, len(shape), "smooth_modes"),
            n_components=self.n_pattern_components, max_iter=self.max_iter,
            gradient_clip=float(self.gradient_clip),
            learning_rate=float(self.learning_rate),
            regularization=float(self.regularization),
            n_threads=effective_n_threads(),
        )  # fmt: skip

    def _check_unit(self, n_modes: int) -> bool:
        """Whether the shape is public as far as it has to be; refuse what is not there.

        Raises
        ------
        ValueError
            If there is no such mode, or the perturbation does not protect units.
        """
        if self._unit is None:
            return True
        if self._unit >= n_modes:
            raise ValueError(f"unit = {self.unit}, but there are {n_modes} modes.")
        if (
            self.perturbation not in _PERTURBATIONS_OF_UNITS
            or self.calibration != "sound"
        ):
            raise ValueError(
                f"At unit = {self.unit}, perturbation must be one of "
                f'{_PERTURBATIONS_OF_UNITS} and calibration "sound".'
            )
        if self.perturbation == "sums" and not self.biases:
            raise ValueError("Sums determine biases; there are none.")
        if self.shape is None and math.isfinite(self.epsilon):
            warnings.warn(
                "`shape` is not declared, so it is read off the private coordinates, "
                "and no finite epsilon holds for this fit. Pass the public shape, such "
                "as shape=(n_users, n_items), or shape=encoder.declared_shape of a "
                "CoordinateEncoder with categories.",
                PrivacyLeakWarning,
                stacklevel=6,
            )
        return self.shape is not None

    def _warn_of_what_was_asked(self, solver: Solver) -> None:
        warn_of_two_levels(self.levels)
        if solver.unsound and math.isfinite(self.epsilon):
            guarantee = solver.guarantee
            warnings.warn(
                f"The claim of {guarantee.source} does not hold. {guarantee.statement}",
                UnsoundClaimWarning,
                stacklevel=5,
            )

    def _plan(
        self, values: Any = None, bounds: tuple[float, float] | None = None
    ) -> EntryRandomizer:
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

    def _inferred_bounds(self, values: Any) -> tuple[float, float]:
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

    def _planned_guarantee(self, fitted: Any = None) -> PrivacyGuarantee:
        return planned_guarantee(
            self._plan(), self.perturbation, epsilon=float(self.epsilon),
            delta=float(self.delta), unit=self._unit, calibration=self.calibration,
            has_shape=self.shape is not None,
        )  # fmt: skip

    @fit_context(prefer_skip_nested_validation=True)
    def _error_by_epsilon(self, X: ArrayLike, y: Any) -> Callable[[float], float]:
        """Expected error as a function of epsilon; no value is read.

        Of `X` the coordinates are read; where a unit is protected, how many they are.
        `y` is for estimators that learn from it.
        """
        return error_by_epsilon(self, X)

    def _unprotected(self) -> list[str]:
        found = super()._unprotected()
        if self._unit is not None:
            return [*found, *_OF_UNITS]
        if self.__sklearn_is_fitted__() and self._fitted.was_received:
            found.append(
                "The values came randomised: that clients did so, once, and with these "
                "parameters, is taken for granted."
            )
        return [*found, PUBLIC_COORDINATES]
