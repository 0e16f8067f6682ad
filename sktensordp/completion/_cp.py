"""Private completion of sparse tensors by CP decomposition."""

import math
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from .._sklearn_compat import Interval, StrOptions, effective_n_threads, fit_context
from .._validation import (
    check_bounds,
    check_coordinates,
    check_level_prior,
    check_levels,
    check_numeric,
    check_shape,
)
from ..base import PrivateEstimatorMixin
from ..exceptions import PrivacyLeakWarning
from ..tensor import (
    DenseEntries,
    SparseEntries,
    cp_to_dense,
    fit_structured_cp,
    max_cp_rank,
)
from ._input import LARGEST_TABLE, plan_entry_randomizer

__all__ = ["CPCompletion"]

# From this share of observed entries on, sums over all entries of an array are faster
# than sums over coordinates.
_LEAST_DENSITY = 0.05


class CPCompletion(
    CallbackSupportMixin, PrivateEstimatorMixin, RegressorMixin, BaseEstimator
):
    """Differentially private completion of a sparse tensor by biases and a CP.

    The observed entries are rows of coordinates with their values, or a dense tensor
    with NaN for the unobserved. Every value is randomised on its own, under pure
    `epsilon`; biases and a CP of the given rank are then fitted to the randomised
    values, which costs nothing further. The fit is variational: from the randomised
    values alone it learns how much to shrink every column, so that there is no
    regularisation to tune.

    **Who is protected.** Neighbouring data sets differ in the value of one observed
    entry. Which entries are observed (the coordinates) is public.

    Parameters
    ----------
    rank : int
        Number of CP terms; 0 fits biases alone.
    epsilon : float, default=1.0
        Budget of one entry. ``float("inf")`` uses the values as they are.
    perturbation : {"auto", "input"}, default="auto"
        How the guarantee is reached. "input" randomises the values; "auto" takes
        it.
    unit : {"entry"}, default="entry"
        What is protected: the value of one entry.
    value_bounds : tuple of (float, float), default=None
        Public range of the values. Values are clipped to it, and so are
        predictions. If neither this nor `levels` is given, the range is read off
        the values with a ``PrivacyLeakWarning``, and the guarantee is void.
    levels : array-like of shape (n_levels,), default=None
        Public scale of the values, ascending, for example ``[1, 2, 3, 4, 5]``;
        values are rounded to the nearest level. Up to 20 levels are randomised by
        the table of least variance, more by discrete Laplace noise. Without
        `levels`, Laplace noise on a lattice is added.
    level_prior : array-like of shape (n_levels,), default=None
        Public guess of the levels' probabilities, under which the table of up to 20
        levels has least variance; uniform by default. It must not come from the same
        values.
    shape : tuple of int, default=None
        Sizes of the modes; one more than the largest coordinates by default.
        Declare it to cross-validate on coordinates, since a fold may lack the
        largest of them and what lies outside the shape is not predicted.
    biases : bool, default=True
        Whether each mode has a bias.
    max_iter : int, default=40
        Number of sweeps of the fit over the modes.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: it repeats the noise in every clone, although
        never in two fits of one object.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Of everything that the fitted object reveals.
    decomposition_ : tensorly.cp_tensor.CPTensor
        The fitted model without its offset: the bias columns, one a mode, come
        first, then the CP terms.
    factors_ : list of ndarray of shape (shape_[mode], n_columns)
        The factors of `decomposition_`.
    offset_ : float
        Mean of the randomised values within `value_bounds_`.
    shape_ : tuple of int
        Sizes of the modes.
    value_bounds_ : tuple of (float, float)
        Range of the predictions.
    perturbation_ : str
        The perturbation taken.
    noise_variance_ : float
        Variance of the randomised values around the model, as learned from them.
    n_iter_ : int
        Number of sweeps that were run.
    n_features_in_ : int
        Number of modes.

    Notes
    -----
    The guarantee is Theorem 1 of [1]_ with a public range, for exact samplers of
    discrete laws in the place of floating-point noise. The fit is described in
    ``doc/completion.md``. Two entries at the same coordinates are two observations,
    each protected on its own.

    Callbacks of scikit-learn are told of every sweep; they are not passed the data.

    References
    ----------
    .. [1] Wei, Li, Mao and Wang, "Applying Differential Privacy to Tensor
       Completion", 2022.

    Examples
    --------
    >>> from sktensordp.completion import CPCompletion
    >>> from sktensordp.datasets import make_ratings
    >>> ratings = make_ratings(n_users=50, n_items=40, n_ratings=1000, random_state=0)
    >>> model = CPCompletion(rank=2, epsilon=4.0, levels=ratings.levels, random_state=0)
    >>> model = model.fit(ratings.data, ratings.target)
    >>> model.predict([[0, 0], [3, -1]]).shape
    (2,)
    >>> print(model.privacy_guarantee_)
    (epsilon = 4, delta = 0)-differential privacy for the value of one observed entry
    (replace-one). Each observed value was drawn from a public table for its 10
    levels; all else is computed from these draws and the coordinates. [Wei, Li, Mao
    and Wang (2022), Algorithm 1 and Theorem 1]
    """

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's protocol)
        "rank": [Interval(Integral, 0, None, closed="left")],
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "perturbation": [StrOptions({"auto", "input"})],
        "unit": [StrOptions({"entry"})],
        "value_bounds": ["array-like", None],
        "levels": ["array-like", None],
        "level_prior": ["array-like", None],
        "shape": ["array-like", None],
        "biases": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        rank: int,
        *,
        epsilon: float = 1.0,
        perturbation: str = "auto",
        unit: str = "entry",
        value_bounds: tuple[float, float] | None = None,
        levels: ArrayLike | None = None,
        level_prior: ArrayLike | None = None,
        shape: Sequence[int] | None = None,
        biases: bool = True,
        max_iter: int = 40,
        random_state: int | None = None,
    ) -> None:
        self.rank = rank
        self.epsilon = epsilon
        self.perturbation = perturbation
        self.unit = unit
        self.value_bounds = value_bounds
        self.levels = levels
        self.level_prior = level_prior
        self.shape = shape
        self.biases = biases
        self.max_iter = max_iter
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.non_deterministic = math.isfinite(self.epsilon)
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
        declared = None if self.shape is None else check_shape(self.shape)
        dense = y is None
        if dense:
            where, y, shape = self._check_tensor(X, declared)
        else:
            where, y, shape = self._check_entries(X, y, declared)
        self._check_rank(shape)
        randomizer = self._plan(y)
        self._forget()
        context = self._init_callback_context(max_subtasks=self.max_iter)
        context.call_on_fit_task_begin(estimator=self)
        if math.isinf(self.epsilon):
            released = randomizer.clip(y)
            self.privacy_guarantee_ = randomizer.guarantee
        else:
            with self._release(randomizer.guarantee) as source:
                released = randomizer.randomize(y, source)
        # From here on nothing touches the values: all is post-processing.
        del y
        self._complete(where, released, shape, randomizer, context)
        self._dense = dense
        context.call_on_fit_task_end(estimator=self)
        return self

    def _check_entries(self, X, y, shape):
        """Coordinates, values and shape of entries passed one by one."""
        check_numeric(y, "y")
        X, y = validate_data(
            self, X, y, dtype="numeric", y_numeric=True, ensure_min_features=2
        )
        coordinates = check_coordinates(X, shape=shape, name=type(self).__name__)
        if shape is None:
            shape = tuple((coordinates.max(axis=0) + 1).tolist())
        return coordinates, np.asarray(y, dtype=float), shape

    def _check_tensor(self, X, shape):
        """Mask of the observed entries, their values, and the shape of a tensor."""
        check_numeric(X, "X")
        X = check_array(
            X, allow_nd=True, dtype=float, ensure_all_finite="allow-nan",
            estimator=self, input_name="X",
        )  # fmt: skip
        if shape is not None and X.shape != shape:
            raise ValueError(f"The tensor has shape {X.shape}, but shape is {shape}.")
        mask = ~np.isnan(X)
        if not mask.any():
            raise ValueError("No entry of the tensor is observed: all are NaN.")
        self.n_features_in_ = X.ndim
        return mask, X[mask], X.shape

    def _can_transform(self):
        if not getattr(self, "_dense", False):
            raise AttributeError(
                "transform is there after a fit to a tensor, without y."
            )
        return True

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
        if np.shape(X) != self.shape_:
            raise ValueError(
                f"X has shape {np.shape(X)}, but the tensor of the fit {self.shape_}."
            )
        return np.clip(self.offset_ + cp_to_dense(self.factors_), *self.value_bounds_)

    def fit_transform(self, X: ArrayLike, y: None = None) -> NDArray[np.float64]:
        """Fit to a tensor and return the model everywhere.

        Parameters
        ----------
        X : array-like of shape (I_1, ..., I_N)
            NaN where nothing was observed.
        y : None
            Ignored.

        Returns
        -------
        completed : ndarray of shape (I_1, ..., I_N)
        """
        return self.fit(X).transform(X)

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Values of the model at coordinates.

        Parameters
        ----------
        X : array-like of shape (n_entries, n_modes)
            Coordinates inside `shape_`; -1 stands for an index that is not known,
            and is predicted from what is known of the others.

        Returns
        -------
        y : ndarray of shape (n_entries,)
            Within `value_bounds_`.

        Raises
        ------
        ValueError
            If a coordinate is fractional, below -1 or outside `shape_`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype="numeric", reset=False)
        coordinates = check_coordinates(
            X, shape=self.shape_, allow_unknown=True, name=type(self).__name__
        )
        return np.clip(
            self.offset_ + self._model.predict(coordinates), *self.value_bounds_
        )

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_iter_")

    def _complete(self, where, released, shape, randomizer, context):
        """Fit the model to values released at coordinates, or where a mask is true."""
        low, high = randomizer.bounds
        scale = (high - low) / 2
        offset = float(np.clip(released.mean(), low, high))
        values = (released - offset) / scale
        if where.dtype != bool:
            entries = SparseEntries(where, values, shape)
        elif values.size < _LEAST_DENSITY * where.size:
            entries = SparseEntries(np.argwhere(where), values, shape)
        else:
            tensor = np.zeros(shape)
            tensor[where] = values
            entries = DenseEntries(tensor, where)

        def on_sweep(_):
            sweep = context.subcontext(task_name="sweep")
            sweep.call_on_fit_task_begin(estimator=self)
            return sweep.call_on_fit_task_end(estimator=self)

        model, n_iter = fit_structured_cp(
            entries,
            rank=self.rank,
            biases=self.biases,
            value_scale=scale,
            noise_floor=randomizer.noise_variance,
            max_iter=self.max_iter,
            n_threads=effective_n_threads(),
            on_sweep=on_sweep,
        )
        from tensorly.cp_tensor import CPTensor

        weights = np.ones(model.prior_means.shape[1])
        self._model = model
        self.decomposition_ = CPTensor((weights, model.factors))
        self.factors_ = model.factors
        self.offset_ = offset
        self.shape_ = shape
        self.value_bounds_ = randomizer.bounds
        self.perturbation_ = "input"
        self.noise_variance_ = model.noise_variance
        self.n_iter_ = n_iter

    def _check_rank(self, shape):
        if self.rank == 0 and not self.biases:
            raise ValueError("There is nothing to fit: rank is 0 and biases is False.")
        largest = max_cp_rank(shape)
        if self.rank > largest:
            raise ValueError(
                f"rank = {self.rank} is larger than can be fitted: a tensor of shape "
                f"{shape} has rank at most {largest}."
            )

    def _plan(self, values=None):
        """Randomiser for the present parameters; `values` only where none declare."""
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
        declared = True
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
            bounds = self._inferred_bounds(values)
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
                stacklevel=4,
            )
        low, high = float(np.min(values)), float(np.max(values))
        return (low, high) if low < high else (low - 0.5, high + 0.5)

    def _planned_guarantee(self, fitted=None):
        return self._plan().guarantee

    def _unprotected(self):
        return [
            *super()._unprotected(),
            "Which entries are observed (the coordinates) is public: it is published "
            "who rated what, not how.",
        ]
