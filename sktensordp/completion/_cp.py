"""Private completion of sparse tensors by CP decomposition."""

import math
import warnings
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from .._sklearn_compat import Interval, StrOptions, effective_n_threads, fit_context
from .._validation import (
    check_bounds,
    check_coordinates,
    check_level_prior,
    check_levels,
    check_modes,
    check_numeric,
    check_shape,
)
from ..base import PrivateEstimatorMixin
from ..exceptions import PrivacyLeakWarning
from ..privacy import PrivacyGuarantee
from ..tensor import (
    DenseEntries,
    SparseEntries,
    fit_biases_to_sums,
    fit_structured_cp,
    max_cp_rank,
    times_recurring,
    update_structured_cp,
)
from ._input import LARGEST_TABLE, plan_entry_randomizer
from ._queries import QueriesMixin
from ._streams import as_coordinates, repeated, together
from ._sums import plan_sums_randomizer, planned_guarantee
from ._uncertainty import residual_variance

__all__ = ["CPCompletion"]

# From this share of observed entries on, sums over all entries of an array are faster
# than sums over coordinates.
_LEAST_DENSITY = 0.05


class CPCompletion(
    CallbackSupportMixin,
    QueriesMixin,
    PrivateEstimatorMixin,
    RegressorMixin,
    BaseEstimator,
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
    perturbation : {"auto", "input", "sums"}, default="auto"
        How the guarantee is reached. "input" randomises the values; "auto" takes it.
        "sums" randomises the sum of the values in every row of every mode, which
        determines the biases alone, more accurately at an epsilon of up to about 2;
        `rank` and `max_iter` are not used.
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
    smooth_modes : sequence of int, default=None
        Modes whose neighbouring indices are alike, as bins of time are. Their prior
        ties every index to the next one, as strongly as the randomised values say.
    max_iter : int, default=25
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
    residual_variance_ : float
        Variance of the values, before they were randomised, around the model, as
        learned from the randomised ones; not from sums.
    n_iter_ : int
        Number of sweeps that were run.
    n_features_in_ : int
        Number of modes.

    Notes
    -----
    The guarantee is Theorem 1 of [1]_ with a public range, for exact samplers of
    discrete laws in the place of floating-point noise; for sums it is that of the
    Laplace mechanism, composed over the modes [2]_. Proofs and fits are described in
    ``doc/completion.md``. Two entries at the same coordinates are two observations,
    each protected on its own.

    Callbacks of scikit-learn are told of every sweep of a fit to randomised values;
    they are not passed the data.

    References
    ----------
    .. [1] Wei, Li, Mao and Wang, "Applying Differential Privacy to Tensor
       Completion", 2022.
    .. [2] Dwork, McSherry, Nissim and Smith, "Calibrating Noise to Sensitivity in
       Private Data Analysis", 2006.

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
        "perturbation": [StrOptions({"auto", "input", "sums"})],
        "unit": [StrOptions({"entry"})],
        "value_bounds": ["array-like", None],
        "levels": ["array-like", None],
        "level_prior": ["array-like", None],
        "shape": ["array-like", None],
        "biases": ["boolean"],
        "smooth_modes": ["array-like", None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    # Kept for `partial_fit` and `recommend`: where values were observed, call by call;
    # how many calls had the same coordinates; the guarantee of one call; bounds, levels
    # and variance of the noise of the fit.
    _observed: list[Any]
    _n_uses: int
    _single: PrivacyGuarantee
    _randomized: tuple[Any, Any, float]

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
        smooth_modes: Sequence[int] | None = None,
        max_iter: int = 25,
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
        self.smooth_modes = smooth_modes
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
        if y is None:
            where, values = self._check_tensor(X)
            return self._fit(where, values, where.shape)
        where, values = self._check_entries(X, y)
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
                where, values = self._check_entries(X, y, reset=not checked)
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

    def _can_partial_fit(self):
        if "sums" in (self.perturbation, getattr(self, "perturbation_", None)):
            raise AttributeError('partial_fit is not there for perturbation="sums".')
        return True

    @available_if(_can_partial_fit)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Randomise the values of new entries and take them into the model.

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
            make the tensor larger.
        y : array-like of shape (n_observed,)
            Their values, finite.

        Returns
        -------
        self : CPCompletion

        Raises
        ------
        ValueError
            Before anything is drawn: as `fit`, and if parameters of the model or the
            range of the values are not those of the fit.
        """
        fitted = self.__sklearn_is_fitted__()
        if y is None:
            raise ValueError("partial_fit takes coordinates X and their values y.")
        where, values = self._check_entries(X, y, reset=not fitted)
        if not fitted:
            return self._fit(where, values, self._shape_of(where))
        self._validate_params()
        self._check_unchanged()
        *domain, noise_then = self._randomized
        randomizer = self._plan(bounds=self.value_bounds_)
        if domain != [randomizer.bounds, randomizer.levels]:
            raise ValueError("value_bounds and levels must be those of the fit.")
        observed = [*self._observed, where]
        recurring = times_recurring([*map(as_coordinates, observed)])
        uses = max(self._n_uses, recurring)
        total = together(self._single, randomizer.guarantee)
        # Before anything is drawn, so that an interrupted call counts.
        self._observed, self._n_uses, self._single = observed, uses, total
        released = self._draw(values, randomizer, repeated(total, uses))
        del values
        released -= self.offset_
        noise = self.noise_variance_
        if randomizer.noise_variance != noise_then:
            # Another epsilon than in the fit.
            noise = randomizer.noise_variance + self.residual_variance_
        model = update_structured_cp(
            self._model, where, released,
            noise_variance=noise, max_iter=self.max_iter,
            n_threads=effective_n_threads(),
        )  # fmt: skip
        self._publish(model, self.max_iter)
        return self

    def _shape_of(self, where):
        """The declared shape, or that which the coordinates have."""
        if self.shape is not None:
            return check_shape(self.shape)
        return tuple((where.max(axis=0) + 1).tolist())

    def _fit(self, where, values, shape):
        """Fit to values at checked coordinates, or where a mask is true."""
        self._check_rank(shape)
        smooth_modes = check_modes(self.smooth_modes, len(shape), "smooth_modes")
        plan = randomizer = self._plan(values)
        if self.perturbation == "sums":
            randomizer = self._plan_sums(plan, where, shape)
        self._forget()
        for name in ("_model", "_observed"):
            vars(self).pop(name, None)
        context = self._init_callback_context(max_subtasks=self.max_iter)
        context.call_on_fit_task_begin(estimator=self)
        released = self._draw(values, randomizer)
        self._observed, self._n_uses = [where], 1
        self._single = self.privacy_guarantee_
        self._dense = where.dtype == bool
        self._randomized = plan.bounds, plan.levels, plan.noise_variance
        # From here on nothing touches the values: all is post-processing.
        dtype = values.dtype
        del values
        if self.perturbation == "sums":
            self._complete_from_sums(released, randomizer, dtype)
            context.call_on_fit_task_end(estimator=self)
            return self
        self._complete(where, released, shape, smooth_modes, randomizer, context)
        context.call_on_fit_task_end(estimator=self)
        return self

    def _draw(self, values, randomizer, total=None):
        """The values as they are released; `total` as in `_release`."""
        if math.isinf(self.epsilon):
            self.privacy_guarantee_ = total or randomizer.guarantee
            return randomizer.clip(values)
        with self._release(randomizer.guarantee, total) as source:
            return randomizer.randomize(values, source)

    def _check_entries(self, X, y, reset=True):
        """Coordinates and values of entries passed one by one."""
        check_numeric(y, "y")
        X, y = validate_data(
            self, X, y, reset=reset, dtype="numeric", y_numeric=True,
            ensure_min_features=2 if reset else 1,
        )  # fmt: skip
        shape = None if self.shape is None else check_shape(self.shape)
        coordinates = check_coordinates(X, shape=shape, name=type(self).__name__)
        y = np.asarray(y, dtype=np.float32 if y.dtype == np.float32 else np.float64)
        # None is not NaN to scikit-learn.
        if not np.all(np.isfinite(y)):
            raise ValueError("Some values in y are NaN, infinite or missing.")
        return coordinates, y

    def _check_tensor(self, X):
        """Mask of the observed entries of a tensor, and their values."""
        check_numeric(X, "X")
        if np.ndim(X) < 2:
            # scikit-learn's message would show the values.
            raise ValueError(
                f"Expected 2D array, got {np.ndim(X)}D array instead: without y, X "
                "is a tensor of two or more modes."
            )
        X = check_array(
            X, allow_nd=True, dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan", estimator=self, input_name="X",
        )  # fmt: skip
        if self.shape is not None and X.shape != check_shape(self.shape):
            raise ValueError(
                f"The tensor has shape {X.shape}, but shape is {self.shape}."
            )
        mask = ~np.isnan(X)
        if not mask.any():
            raise ValueError("No entry of the tensor is observed: all are NaN.")
        vars(self).pop("feature_names_in_", None)
        self.n_features_in_ = X.ndim
        return mask, X[mask]

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_iter_")

    def _complete(self, where, released, shape, smooth_modes, randomizer, context):
        """Fit the model to values released at coordinates, or where a mask is true."""
        low, high = randomizer.bounds
        scale = (high - low) / 2
        self.offset_ = float(np.clip(released.mean(dtype=float), low, high))
        self.value_bounds_ = randomizer.bounds
        self.perturbation_ = "input"
        # In place, then back: nothing else is as large.
        released -= self.offset_
        released /= scale
        n_threads = effective_n_threads()

        def make_entries(values):
            if where.dtype != bool:
                return SparseEntries(where, values, shape)
            if values.size < _LEAST_DENSITY * where.size:
                return SparseEntries(as_coordinates(where), values, shape)
            tensor = np.zeros(shape, dtype=values.dtype)
            tensor[where] = values
            return DenseEntries(tensor, where)

        def on_sweep(_):
            sweep = context.subcontext(task_name="sweep")
            sweep.call_on_fit_task_begin(estimator=self)
            return sweep.call_on_fit_task_end(estimator=self)

        model, n_iter = fit_structured_cp(
            make_entries(released),
            rank=self.rank,
            biases=self.biases,
            value_scale=scale,
            noise_floor=randomizer.noise_variance,
            max_iter=self.max_iter,
            smooth_modes=smooth_modes,
            n_threads=n_threads,
            on_sweep=on_sweep,
        )
        released *= scale
        self.residual_variance_ = residual_variance(
            randomizer, model, self.offset_, as_coordinates(where), released,
            make_entries, n_threads,
        )  # fmt: skip
        self._publish(model, n_iter)

    def _plan_sums(self, values, where, shape):
        """Randomiser of sums, for values that would be randomised by another."""
        if not self.biases or self.smooth_modes is not None:
            raise ValueError("Sums determine biases, and no smooth modes.")
        declared = self.value_bounds is not None or self.levels is not None
        return plan_sums_randomizer(
            values, self.epsilon, as_coordinates(where), shape, declared=declared
        )

    def _complete_from_sums(self, sums, randomizer, dtype):
        """Fit the biases to released sums."""
        low, high = randomizer.values.bounds
        middle = (low + high) / 2
        offset, model = fit_biases_to_sums(
            randomizer.where, sums - middle * randomizer.counts,
            randomizer.noise_variance,
            randomizer.shape, (high - low) / 2, dtype,
        )  # fmt: skip
        self.offset_ = middle + offset
        self.value_bounds_ = low, high
        self.perturbation_ = "sums"
        self._publish(model, 1)

    def _publish(self, model, n_iter):
        """Set the attributes that describe a model."""
        from tensorly.cp_tensor import CPTensor

        self._model = model
        self.factors_ = model.factors
        self.decomposition_ = CPTensor((np.ones(model.held.shape[1]), model.factors))
        self.shape_ = model.shape
        self.noise_variance_ = model.noise_variance
        self.n_iter_ = n_iter

    def _check_unchanged(self):
        """Refuse to go on with a model that has other columns than declared."""
        n_modes = len(self.shape_)
        smooth_modes = check_modes(self.smooth_modes, n_modes, "smooth_modes")
        if not self._model.has_columns(self.rank, self.biases, smooth_modes):
            raise ValueError(
                "rank, biases and smooth_modes must be those of the fit; call fit to "
                "change them."
            )

    def _check_rank(self, shape):
        if self.rank == 0 and not self.biases:
            raise ValueError("There is nothing to fit: rank is 0 and biases is False.")
        largest = max_cp_rank(shape)
        if self.rank > largest:
            raise ValueError(
                f"rank = {self.rank} is larger than can be fitted: a tensor of shape "
                f"{shape} has rank at most {largest}."
            )

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
                stacklevel=6,
            )
        low, high = float(np.min(values)), float(np.max(values))
        return (low, high) if low < high else (low - 0.5, high + 0.5)

    def _planned_guarantee(self, fitted=None):
        plan = self._plan()
        if self.perturbation == "sums" and math.isfinite(plan.guarantee.epsilon):
            return planned_guarantee(self.epsilon)
        return plan.guarantee

    def _unprotected(self):
        return [
            *super()._unprotected(),
            "Which entries are observed (the coordinates) is public: it is published "
            "who rated what, not how.",
        ]
