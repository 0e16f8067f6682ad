"""`BaseCompletion`: the estimator, from `fit` to `recommend`.

The result of a fit is one attribute, `_fitted`; see ``_fitted.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._dask import is_dask
from .._docstrings import with_texts
from .._sklearn_compat import Interval, StrOptions, fit_context, only_if
from .._validation import (
    adds_noise,
    as_numpy,
    check_aligned,
    check_modes,
    check_same_length,
    r2_of_any_size,
)
from ..base import NoiseBy, exchanged, recorded_fit, recorded_update
from ..measure import PartySums, SharedNoise, left_of
from ..privacy import PrivacyGuarantee, PrivacyTags
from ..tensor import CPForm, Rows, TuckerForm
from ..tensor._unit_entries import UnitEntries
from ._checks import (
    check_request,
    check_same_shape,
    entries_at,
    entries_of_batches,
    is_sparse,
    observed_entries,
)
from ._client import CompletionClient
from ._dense import DenseMixin
from ._entries import check_values, digests_of, is_observed
from ._fitted import Fitted, FittedToUnits, fitted_to, keeping_names_if_refused
from ._likely_mistakes import warn_before, warn_if_empty, warn_of_mean
from ._own_rows import UnitModel, with_own_answers
from ._parties import PartyEntries, declared_shape_and_unit, terms_of, units_of
from ._problem import (
    Problem,
    check_parameters,
    declared_shape,
    domain_of,
    finds_scale,
    unit_of,
)
from ._ranking import RankingEstimator
from ._raw_scale import warn_of_own_values, warn_of_released_values
from ._requests import UnitTerms
from ._sources import EntrySource, ObservedEntries
from ._synthetic import Request, sample_entries
from ._used_parameters import table_of_parameters
from ._values import plan_entry_randomizer
from .measurements._checked_scale import check_enough_to_count
from .measurements._choice import (
    choose_measurement,
    expected_by_epsilon,
    planned_guarantee,
)
from .measurements._found_scale import MOST_SPENT, check_enough_to_find
from .measurements._measurement import Measurement

if TYPE_CHECKING:
    from tensorly.cp_tensor import CPTensor
    from tensorly.tucker_tensor import TuckerTensor

# The rank that `rank=None` takes, if the shape admits it.
USUAL_RANK = 10


_if_clients_may_randomize = only_if(
    lambda self: self._randomizes_single_values,
    'Clients need perturbation="input" or "auto" and unit="entry".',
)


@with_texts({"used_parameters": table_of_parameters()})
class BaseCompletion(DenseMixin, RegressorMixin, RankingEstimator):
    """Base class of completions; a subclass defines the decomposition.

    Fit it to the observed entries of a tensor, such as users' ratings of films, by
    their coordinates and values, or to a dense tensor with NaN where nothing was
    observed. It predicts the other entries. The fitted object reveals no more than
    `epsilon` (and, with Gaussian noise, `delta`) about any one unit: an entry's value
    or, with ``unit=0``, a user.

    The axes of the tensor (users, films, weeks) are called modes. The model has an
    offset, a bias for each index of each mode, and a factor for each mode: a matrix
    with a row for each index. The fit randomises the values, or statistics of them, and
    fits the model to the result.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of one unit. ``float("inf")`` adds no noise.
    delta : float, default=1e-6
        Not used with `unit="entry"`, whose noise is pure, except by "gradient".
        Otherwise the delta of the same budget: the noise is Gaussian.
    perturbation : {"auto", "input", "gradient", "output", "statistics", "sums"}, \
default="auto"
        What is randomised. With ``unit="entry"``:

        - "auto": whichever of "input" and "sums" has the least expected error, given
          the coordinates, the domain and the budget.
        - "input": every value independently. Best from about epsilon 3 on.
        - "sums": the sum of the values in every row of every mode, such as all ratings
          of one film. They determine biases; `rank` and `max_iter` are not used. Best
          at small epsilon. With `personal`, mode 0 has no sums, and the others have all
          of the budget: users' biases, and their weights of all features, come from
          their own values.
        - "statistics": the sums, and then right-hand sides of regressions of the
          residuals, on the features of mode 1 if there are any (`side_information`, or
          those of `n_pattern_components`), and else of one mode's factors after the
          other.
        - "output": as "statistics", but with noise on the solutions of ridge
          regressions.
        - "gradient": the sum of all entries' gradients, in each of `max_iter`
          iterations, each clipped to length 0.5 with values in units of half their
          range.

        If `unit` is a mode, the fit has a fixed number of passes and does not use
        `max_iter`. Choose among "sums" (the count and the sum of residuals in every row
        of the other modes, which determine biases), "statistics" (these, and right-hand
        sides of regressions, which determine factors) and "auto" (one of the two,
        chosen by noisy counts).
    unit : {"entry"} or int, default="entry"
        What is protected: the value of one entry, or all entries at one index of this
        mode. To cross-validate if it is a mode, pass ``cv=UserKFold(mode=unit)`` and
        ``scoring=make_fold_in_scorer()``: with scikit-learn's splitters, one unit's
        entries would decide how others are split.
    value_bounds : tuple of (float, float), default=None
        Public range, to which values and predictions are clipped. "input" rounds each
        value at random to one of the next two points of a public grid, and draws from a
        table of probabilities for these points. If you pass neither this nor `levels`,
        a fit with ``unit="entry"`` finds the scale of the values within `epsilon`: it
        selects one of some 4,700 public scales, with at most a tenth of epsilon. See
        Notes. If `unit` is a mode, it reads the range off the values with a
        ``PrivacyLeakWarning``, and the guarantee is void.
    levels : array-like of shape (n_levels,), default=None
        All levels of the public scale, such as ``[1, 2, 3, 4, 5]`` for 1 to 5 stars.
        Values are rounded to the nearest level; for a range, pass `value_bounds`. With
        up to 32 levels, "input" draws from the public table of probabilities that has
        the least variance. More levels are put on a grid, as a range is.
    level_prior : array-like of shape (n_levels,), default=None
        Public guess of the probabilities of up to 32 levels; the table has the least
        variance for this guess. Uniform by default. It must not come from the values
        that you fit. A Series is looked up by its index, if it holds the levels.
    shape : tuple of int, default=None
        Sizes of the modes. By default they are the largest coordinates plus one.
        Declare the shape to cross-validate on coordinates: a fold may lack the largest
        ones, and `predict` refuses coordinates outside the shape. If `unit` is a mode,
        the shape and the meanings of the indices must be public: a shape read off the
        coordinates, with a ``PrivacyLeakWarning``, voids the guarantee. A `Recommender`
        sets the shape; a `CoordinateEncoder` with `categories` for every column offers
        it as `declared_shape`.
    side_information : dict of {int: array-like of shape (shape[mode], n_features)}, \
or list of these and None, default=None
        Public features of the rows of one mode, such as genres of films. That mode must
        be mode 1 or, if `unit` is a mode, the first of the others. Every row of mode 0,
        or every unit, has its own weights for the features, around a mean that all rows
        share. Features cost no budget. Rows of a data frame are looked up by its index,
        if it holds the indices of the mode, or through a `Recommender` its ids.
    biases : bool, default=True
        Whether to fit a bias for every index of every mode.
    n_pattern_components : "auto" or int, default="auto"
        Largest number of features of mode 1 that the fit computes from the pattern of
        the coordinates (who rated what): the number of entries of each row, and the
        leading components that exceed chance. "auto" takes all of these: at most 64, or
        at most 8 for a Tucker model or if sums are released. 0 means none. If `unit` is
        a mode, the pattern is private, and at most 8 come from a noisy release. The fit
        makes this release only if there are enough units for the pattern to stand out
        from the noise; only 0 rules it out.
    smooth_modes : sequence of int, default=None
        Modes whose neighbouring indices are alike, such as time bins. Their prior ties
        every index to the next one; the randomised values determine how strongly. For
        "input" only.
    max_iter : int, default=25
        Largest number of sweeps over the modes in "input", and number of iterations in
        "gradient". CPs of two modes stop when their terms have settled. Small CPs of
        three or more modes compare several starts, in further sweeps.
    missing_values : float, default=None
        A number in the values that stands for "not rated" or "not measured", such as 0,
        -1 or 99. Entries with this value are not observed, as if their rows had been
        left out: by `fit`, `fit_batches`, `partial_fit`, `fold_in` and `score`, in any
        form of input. **With** ``unit="entry"`` **this makes public who has that
        value**, since which entries are observed is public. Set it only if the number
        says nothing but that there is no value. If `unit` is a mode, it reveals
        nothing: a unit's entries are left out before anything is computed. Clients
        refuse it, since they send every value that they get.
    check_scale : bool, default=False
        With ``unit="entry"``, whether to count the values off the declared scale, and
        warn if there are many. The count of n values has noise, and spends min(200 / n,
        `epsilon` / 100); n `epsilon` must be at least 5,000. It finds numbers that
        stand for "not rated", and values of another scale, but not a scale that is too
        wide. It has no effect if `epsilon` is infinite.
    personal : bool, default=False
        With ``unit="entry"``, whether to answer users, the indices of mode 0, from
        their own raw values, and to choose the perturbation for such answers. **The
        guarantee holds if answers for a user are shown to that user only.** Everything
        that others see, including factors, copies and pickles, depends on that user's
        values only through the release. Copies and pickles lack the users' rows until
        you call `fold_in`; after "sums", they take everybody for the average user. All
        entries of an index of mode 0 must belong to one person, and mode 0 must not be
        among `smooth_modes`. Not for Dask input. If `unit` is a mode, its units are
        always answered from their own entries.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: it repeats the noise in every clone, although
        never in two fits of one object.

    Attributes
    ----------
    offset_ : float
        Estimated mean of the values. It is 0 in "input" without biases if the model
        fits clearly better without an offset.
    shape_ : tuple of int
        Sizes of the modes.
    value_bounds_ : tuple of (float, float)
        Range of the predictions: as declared, or as found.
    levels_ : ndarray of shape (n_levels,) or None
        Levels to which values were rounded, as declared or found; None for a range.
    perturbation_ : str
        The perturbation used. "sums" learns only averages: without `side_information`
        or `personal`, everybody gets the same recommendations (nearly the same if
        `unit` is a mode), minus the items they already have entries for. The fit warns
        if "auto" chooses "sums" and learns nothing else.
    model_variance_ : float
        Variance around the model, as estimated: of the randomised values in "input",
        of the original values otherwise. Not set where the fit assumes a constant, as
        with "gradient", and with "sums" if `personal` is set.
    residual_variance_ : float
        Average variance of the original values around the model, learned from the
        randomised ones. Set by "input" only.
    n_iter_ : int
        Number of sweeps or iterations that were run.
    n_features_in_ : int
        Number of modes.

    Notes
    -----
    **Who is protected.** With ``unit="entry"``, neighbouring data sets differ in the
    value of one observed entry. Which entries are observed (the coordinates) is public.
    With ``unit=0``, one of two neighbouring data sets lacks all entries at one index of
    mode 0, such as all ratings of one user (add or remove). The released factors (of
    items and of time) are then (`epsilon`, `delta`)-differentially private. A user's
    row is computed from these factors and that user's entries, and serves predictions
    in this process only: no public attribute, deep copy or pickle holds it. (`fold_in`
    computes it again; after a fit to Dask collections, the workers keep it.) So
    everything that other people learn is (`epsilon`, `delta`)-differentially private
    too (joint differential privacy).

    **What a fit uses.** The perturbations that use a parameter are these; all use those
    that are not listed. A fit warns of a parameter that you set and that its
    `perturbation` does not use, unless this is "auto".

    $used_parameters

    The guarantee of "input" is Theorem 1 of [1]_ with a public range; exact samplers of
    discrete distributions replace floating-point noise. The guarantee of "sums",
    "statistics" and "output" is that of the Laplace mechanism, composed over releases
    [2]_; that of "gradient", and of all perturbations if `unit` is a mode, is that of
    the Gaussian mechanism [3]_. The proofs are in ``doc/completion_proofs.md``. Two
    entries at the same coordinates are two observations, each protected on its own.

    **Without a declared scale.** With ``unit="entry"``, a fit to n values spends
    min(600 / n, `epsilon` / 10) to find their scale, and the rest on all else. The
    family has the usual scales of ratings and counts, with steps from .1 to 10, and
    ranges with round ends. A scale that holds fewer values scores less, and so does a
    wider one, or one of more levels. `levels_` and `value_bounds_` tell which was
    found. If none holds most of the values, the fit ends with an error, and has spent
    its budget. If n `epsilon` is below 1,000, it refuses to search, and has spent
    nothing. Declare the scale for small data, for clients, and wherever the guarantee
    of a declared scale composes to less (see ``doc/guarantee.md``).

    scikit-learn's callbacks are called at every sweep or iteration, and see no data.

    References
    ----------
    .. [1] Wei, Li, Mao and Wang, "Applying Differential Privacy to Tensor
       Completion", 2022.
    .. [2] Dwork, McSherry, Nissim and Smith, "Calibrating Noise to Sensitivity in
       Private Data Analysis", 2006.
    .. [3] Dong, Roth and Su, "Gaussian Differential Privacy", 2022.
    """

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
        "biases": ["boolean"],
        "n_pattern_components": [
            StrOptions({"auto"}),
            Interval(Integral, 0, None, closed="left"),
        ],
        "smooth_modes": ["array-like", None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "missing_values": [Real, None],
        "check_scale": ["boolean"],
        "personal": ["boolean"],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    rank: int | Sequence[int] | None
    _fitted: Fitted
    n_features_in_: int
    _folds_in = True
    _may_find_scale = True
    _may_ignore_parameters = True

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
        biases: bool = True,
        n_pattern_components: int | str = "auto",
        smooth_modes: Sequence[int] | None = None,
        max_iter: int = 25,
        missing_values: float | None = None,
        check_scale: bool = False,
        personal: bool = False,
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
        self.biases = biases
        self.n_pattern_components = n_pattern_components
        self.smooth_modes = smooth_modes
        self.max_iter = max_iter
        self.missing_values = missing_values
        self.check_scale = check_scale
        self.personal = personal
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.non_deterministic = adds_noise(self.epsilon)
        tags.regressor_tags.poor_score = True
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Fit the model to observed entries, under the budget.

        Entries cannot be weighted: a weight would change how much its entry reveals.

        Parameters
        ----------
        X : array-like of shape (n_observed, n_modes) or (I_1, ..., I_N), or sparse
            With `y`: coordinates of the observed entries, as integers or integral
            floats. Without `y`: the tensor itself, as an array of floats with NaN where
            nothing was observed, or as a sparse array of SciPy or of `sparse`, whose
            stored entries are the observed ones, zeros included. A Dask frame or array
            needs `y`; the fit then randomises the values and fits the model in the
            partitions. If `unit` is a mode, the fit brings all entries of a unit
            together on one worker, and only sums over units leave the workers. Workers
            and the scheduler are trusted with the entries, and this process with exact
            sums and with the number of entries of each unit.
        y : array-like of shape (n_observed,), default=None
            The observed values, finite. If `X` is a Dask collection, `y` is one with
            the same partitions.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            Before noise is drawn: if a coordinate is fractional, negative or outside
            `shape`; if a value is NaN or infinite; if the range or the levels are out
            of order; if the rank is larger than the shape admits; if no scale is
            declared, and the values are too few to find one; or if `y` is missing and
            `X` holds integers, which cannot mark a missing entry. After the budget was
            spent: if no usual scale holds most of the values.
        """
        with keeping_names_if_refused(self):
            return self._fit(observed_entries(self, X, y, declared_shape(self)))

    @fit_context(prefer_skip_nested_validation=True)
    def fit_batches(self, batches: Iterable[tuple[ArrayLike, ArrayLike]]) -> Self:
        """Fit to entries that come in batches, such as chunks of a file.

        The result, noise included, is that of `fit` on all batches concatenated. Noise
        is drawn only after the last batch has been read and checked. Until then all
        batches stay in memory: coordinates take 4 bytes each, and values keep their
        type.

        Parameters
        ----------
        batches : iterable of (X, y)
            Coordinates of shape (n_i, n_modes) and values of shape (n_i,). Iterated
            over once.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit`, and if no batch holds an entry.
        """
        with keeping_names_if_refused(self):
            return self._fit(entries_of_batches(self, batches, declared_shape(self)))

    _received: frozenset[bytes] = frozenset()
    """Digests of the clients' values that were fitted, which count once."""

    def __privacy_unprotected__(self) -> list[str]:
        found = super().__privacy_unprotected__()
        if self.missing_values is not None and unit_of(self) is None:
            found.append(
                f"Entries with the value {float(self.missing_values):g} count as not "
                f"observed (missing_values), so who has this value is public."
            )
        return found

    def __privacy_tags__(self) -> PrivacyTags:
        tags = super().__privacy_tags__()
        tags.protects = "Xy" if self._dense else "y"
        fitted = vars(self).get("_fitted")
        if fitted is not None and fitted.domain.spent:
            tags.notes = (
                f"The scale of the values was found with a part of epsilon: "
                f"{fitted.domain.described}. If it is public anyway, declare it: "
                f"several releases may then add up to less.",
            )
        return tags

    def __privacy_check_rows__(self, n_rows: int) -> None:
        if finds_scale(self):
            check_enough_to_find(n_rows, float(self.epsilon))
        elif self.check_scale and math.isfinite(self.epsilon):
            check_enough_to_count(n_rows, float(self.epsilon))

    def _fit(self, entries: EntrySource[Any], perturbation: str | None = None) -> Self:
        """Fit to entries in memory, in partitions, or with parties that add noise."""
        problem = Problem.from_estimator(self, entries.shape, entries)
        measurement = self._measurement(problem, perturbation, entries.noise)
        warn_before(self, entries, measurement)
        # This comes before the release is recorded, so that a refusal costs nothing.
        data, unit = entries, unit_of(self)
        if unit is not None:
            data = entries.by_unit(problem.domain, unit)
        planned = measurement.guarantee.with_conditions(*entries.conditions)
        if problem.is_personal:
            planned = with_own_answers(planned)
        digests = digests_of(entries) if entries.received else frozenset()
        # Without the lock, another thread might store its model under this guarantee.
        with (
            self._progress("sweep", measurement.n_sweeps) as on_sweep,
            self._count_releases().lock,
        ):
            noise_by: NoiseBy = "fit" if measurement.draws else "nobody"
            if entries.received or entries.noise is not None:
                noise_by = "earlier" if digests & self._received else "others"
            with recorded_fit(self, planned, noise_by) as noise:
                self._received |= digests
                released = measurement.measure(data, noise, on_sweep)
            # All that is published from here on is post-processing of `released`.
            outcome = measurement.complete(released, on_sweep)
            guarantee = planned
            if outcome.guarantee is not None:
                guarantee = outcome.guarantee.with_conditions(*entries.conditions)
            self._keep(guarantee, instead_of=self.privacy_guarantee_)
            self.privacy_guarantee_ = guarantee
            name = outcome.perturbation or measurement.name
            self._fitted = fitted_to(entries, data, problem, outcome, name, guarantee)
        # Warnings come last: if one is raised as an error, the estimator is fitted.
        measurement.warn(released)
        has_warned = False
        if math.isinf(problem.epsilon) and not isinstance(entries, PartyEntries):
            raw = cast(ObservedEntries, entries)
            has_warned = warn_of_released_values(raw, problem.domain)
        if not has_warned:
            warn_of_mean(measurement.mean_of(released), problem.domain, unit)
        return self

    # --- sums over several parties: see `Aggregated` ----------------------------------

    def _terms(self) -> UnitTerms:
        return terms_of(self)

    def _people(self, X: ArrayLike, y: ArrayLike | None) -> UnitEntries:
        return units_of(self, X, y)

    def _fit_sums(self, sums: PartySums) -> Self:
        shape, _ = declared_shape_and_unit(self)
        with keeping_names_if_refused(self):
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = len(shape)
            return self._fit(PartyEntries(shape, sums))

    @property
    def _time_is_public(self) -> bool:
        """False if units are protected: the number of their entries is private."""
        return unit_of(self) is None

    def _can_partial_fit(self) -> bool:
        fitted = vars(self).get("_fitted")
        # Only fits to randomised values have a residual variance.
        return self._randomizes_single_values and (
            fitted is None
            or not (fitted.residual_variance is None or fitted.observed is None)
        )

    @property
    def _randomizes_single_values(self) -> bool:
        """Whether the parameters admit sound input perturbation of entries."""
        is_input = self.perturbation in ("auto", "input")
        return is_input and unit_of(self) is None

    @only_if(
        _can_partial_fit,
        "partial_fit can continue only a fit to data in memory that randomised each "
        'value on its own: fit with perturbation="input" and unit="entry".',
    )
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Randomise the values of new entries and update the model with them.

        Only "input" can be continued. With ``perturbation="auto"``, a first call of
        this method therefore uses "input". After a `fit` with "auto", it works only if
        `fit` chose "input".

        The posterior of the current model is the prior of the update. The update
        changes only the rows of factors that have new entries; the learned precisions
        and the variance stay. Fitting to all entries at once is more accurate.

        **Guarantee.** Each call randomises its values once, under `epsilon`, so the
        budgets of different entries do not add up. But a later call may repeat a value
        at the same coordinates, so `privacy_guarantee_` composes all calls that
        contained these coordinates.

        Parameters
        ----------
        X : array-like of shape (n_observed, n_modes)
            Coordinates of the new entries, or a sparse array, as for `fit`. If `shape`
            is not declared, new indices enlarge the tensor.
        y : array-like of shape (n_observed,)
            Their values, finite; None for a sparse array.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            Before noise is drawn: as `fit`, and if the parameters of the model or the
            range of the values differ from those of the fit.
        """
        is_first = not self.__sklearn_is_fitted__()
        if y is None and not is_sparse(X):
            raise ValueError(
                "y is missing. Call partial_fit(X, y) with coordinates and their "
                "values, or partial_fit(X) with a sparse array."
            )
        entries = entries_at(self, X, y, declared_shape(self), reset=is_first)
        if is_first:
            return self._fit(entries, "input")
        self._validate_params()
        self._check_unchanged()
        # Calls run one after the other: each updates the model of the previous one.
        with self._count_releases().lock:
            fitted = self._fitted
            domain = domain_of(self, earlier=fitted.domain)
            if domain != fitted.domain:
                raise ValueError("value_bounds and levels must be those of the fit.")
            epsilon = float(self.epsilon)
            # The share of the fit, which found the scale; later values keep it.
            spent = min(fitted.domain.spent, MOST_SPENT * epsilon)
            epsilon = left_of(epsilon, spent)
            randomizer = plan_entry_randomizer(epsilon, domain)
            guarantee = randomizer.guarantee
            if fitted.is_personal:
                guarantee = with_own_answers(guarantee)
            fitted = fitted.with_call(entries, guarantee)
            draws, total = math.isfinite(self.epsilon), fitted.guarantee
            with recorded_update(self, guarantee, total, draws=draws) as noise:
                # This comes before the noise is drawn, so that an interrupted call
                # counts.
                self._fitted = fitted
                randomized = randomizer.randomize(entries.values, noise)
            raw = entries.values if fitted.is_personal else None
            variance = randomizer.noise_variance
            self._fitted = fitted.with_call_values(
                randomized, variance, self.max_iter, raw
            )
        if not draws:
            warn_of_released_values(entries, domain)
        return self

    def _check_unchanged(self) -> None:
        """Refuse to update a model whose columns are not those of the parameters."""
        fitted = self._fitted
        n_modes = len(fitted.shape)
        smooth_modes = check_modes(self.smooth_modes, n_modes, "smooth_modes")
        form = fitted.form
        if self.rank is not None:
            form = self._form(range(n_modes), fitted.shape)
        has_columns = fitted.model.has_columns(form, self.biases, smooth_modes)
        if form != fitted.form or not has_columns:
            raise ValueError(
                "rank, biases and smooth_modes must be those of the fit; call fit to "
                "change them."
            )

    @only_if(
        lambda self: self._folds_in,
        "The published algorithms have no rows of users to compute.",
    )
    def fold_in(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Compute the rows of users from their own raw values; release nothing.

        Call it for users who are new, or whose rows were lost when the model was copied
        or stored; `predict`, `recommend` and `score` then answer them from these rows.
        A row is computed from the user's values and the released factors of the other
        modes. It replaces an earlier row of that user, and stays in this process. Show
        the answers for a user to that user only: what all others see does not depend on
        these values.

        With ``unit="entry"``, users are the indices of mode 0; those beyond `shape_`
        are new. A raw value replaces the randomised values at the same coordinates.
        After a fit of "input" to data in memory, the randomised values at the user's
        other coordinates count, too, with their known noise. Pass all entries of a user
        for the best answers. If `unit` is a mode, pass all entries of these units.

        Parameters
        ----------
        X : array-like of shape (n_observed, n_modes)
            Coordinates of entries of these users, within `shape_` except for new users;
            or a sparse array of shape `shape_`, as for `fit`.
        y : array-like of shape (n_observed,)
            Their values, finite; None for a sparse array.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a coordinate is outside the tensor, a value is not finite, or `unit` or
            the domain of the values differ from those of the fit; or if mode 0 is among
            the `smooth_modes` of a fit with ``unit="entry"``.
        """
        check_is_fitted(self)
        with self._count_releases().lock:
            fitted = self._fitted
            domain = domain_of(self, earlier=fitted.domain)
            if (unit_of(self), domain) != (fitted.unit, fitted.domain):
                raise ValueError(
                    "unit, value_bounds and levels must be those of the fit."
                )
            fitted.check_own_rows()
            shape = fitted.shape if is_sparse(X) else fitted.extent
            entries = entries_at(self, X, y, shape, reset=False)
            warn_if_empty(entries.coordinates)
            self._fitted = fitted.fold_in(entries)
            self._state_who_may_see()
        warn_of_own_values(entries.values, domain)
        return self

    def _state_who_may_see(self) -> None:
        """Add the condition that only users see answers from their own rows."""
        guarantee = self._fitted.guarantee
        if guarantee != self.privacy_guarantee_:
            self._keep(guarantee, instead_of=self.privacy_guarantee_)
            self.privacy_guarantee_ = guarantee

    def _as_told(
        self, counts: Mapping[PrivacyGuarantee, int]
    ) -> Mapping[PrivacyGuarantee, int]:
        told, shared = self.privacy_guarantee_, self._fitted.shared.guarantee
        if told == shared or not counts.get(shared):
            return counts
        return exchanged(counts, told, instead_of=shared)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if "_fitted" in state:
            # Copies lose the rows of users who were folded in, and this condition.
            told, shared = state["privacy_guarantee_"], state["_fitted"].shared
            state["privacy_guarantee_"] = shared.guarantee
            if "_release_tally" in state:
                made = state["_release_tally"].with_one(
                    shared.guarantee, instead_of=told
                )
                state["_release_tally"] = made
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Models that were stored before there was this parameter left nothing out.
        super().__setstate__({**state, "missing_values": state.get("missing_values")})
        if self.__sklearn_is_fitted__():
            # A shallow copy keeps the rows.
            self._state_who_may_see()

    @only_if(
        lambda self: unit_of(self) == 0,
        "sample_users needs unit=0, and users in mode 0. With another unit, nothing "
        "protects which entries a user has, so synthetic users would reveal it.",
    )
    def sample_users(
        self,
        n_users: int | None = None,
        *,
        items_per_user: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
        """Draw the entries of synthetic users; this releases nothing.

        The table is computed only from what the fit released, so the guarantee of the
        fit covers it for every user: hand it to anybody, and draw as many tables as you
        like. It is only as good as the model. It does not show what the model did not
        learn: which items users have together, at which times, and what depends on
        both.

        Items and the indices of further modes are drawn by the released counts. A
        user's row is drawn from the released prior. Values are those of the model plus
        noise of the released residual variance, clipped and rounded to the levels.

        Parameters
        ----------
        n_users : int, default=None
            Number of synthetic users, who are numbered from 0. None takes the released
            number of users: a table of the true size would publish it.
        items_per_user : array-like of int, default=None
            Numbers of items; each user's number is drawn from these with replacement.
            They must be public, since no noise protects them; `privacy_of` then lists
            them. None draws from the released histogram.
        random_state : int or None, default=None
            Seed of the draw. Nothing private depends on it.

        Returns
        -------
        X : ndarray of shape (n_entries, n_modes)
            Coordinates. Each user has an item at most once. There may be more users
            than `shape_` has.
        y : ndarray of shape (n_entries,)
            Values.

        Raises
        ------
        ValueError
            If an argument is out of range.
        """
        check_is_fitted(self)
        with self._count_releases().lock:
            fitted = self._fitted
            if fitted.unit != 0:
                raise ValueError("unit must be that of the fit; call fit to change it.")
            assert isinstance(fitted, FittedToUnits)
            population, n_items = fitted.model.population, fitted.shape[1]
            assert population is not None
            request = Request.from_arguments(
                n_users, items_per_user, random_state, population, n_items
            )
            if request.items_per_user is not None:
                self._fitted = replace(fitted, has_public_lengths=True)
        return sample_entries(fitted.model, fitted.domain, request)

    @_if_clients_may_randomize
    def client(self, random_state: int | None = None) -> CompletionClient:
        """Make a client, which randomises values before they leave their owner.

        It uses "input" (also with ``perturbation="auto"``), the only perturbation that
        randomises each value on its own.

        Parameters
        ----------
        random_state : int or None, default=None
            Seed of the client. An int is for tests and papers only. Clients with the
            same seed draw the same noise, so give each its own.

        Returns
        -------
        client : CompletionClient
            Its `privatize` randomises values. The client depends on `epsilon`,
            `levels`, `level_prior` and `value_bounds` only; the completion need not be
            fitted.

        Raises
        ------
        ValueError
            If neither `value_bounds` nor `levels` is declared.
        """
        self._validate_params()
        self._check_declared()
        self._check_sent()
        client = CompletionClient._of_domain(
            float(self.epsilon), domain_of(self), random_state
        )
        return self._passed_on(client)

    @_if_clients_may_randomize
    @fit_context(prefer_skip_nested_validation=True)
    def fit_randomized(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the model to values that clients have randomised.

        The model is that of `fit` with ``perturbation="input"`` on all the clients'
        values. The call draws no noise and spends no budget: repeat it whenever new
        values arrive, or to try other ranks.

        **Guarantee.** `privacy_guarantee_` assumes that each value went once through
        `privatize` of a client with the same `epsilon`, `levels`, `level_prior` and
        `value_bounds`. Budgets count the release in `privatize`, not here.

        Parameters
        ----------
        X : array-like of shape (n_observed, n_modes)
            Coordinates, as for `fit`; a Dask collection too.
        y : array-like of shape (n_observed,)
            The output of `privatize` for the values at these coordinates.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit`; if neither `value_bounds` nor `levels` is declared; or if the
            values look raw: a single value that clients do not draw is refused. For a
            range with an epsilon above 107, clients add Laplace noise, and raw values
            go unnoticed.
        """
        self._check_declared()
        self._check_sent()
        if unit_of(self) is None and self.personal:
            raise ValueError(
                "personal=True computes the rows of users from raw values, which "
                "fit_randomized never sees. Set personal=False, and call fold_in where "
                "a user's own values are."
            )
        if self.check_scale:
            raise ValueError(
                "check_scale=True counts raw values, which fit_randomized never sees. "
                "Set check_scale=False."
            )
        check = observed_entries if is_dask(X) else entries_at
        with keeping_names_if_refused(self):
            entries = check(self, X, y, declared_shape(self))
            return self._fit(replace(entries, received=True), "input")

    def _check_sent(self) -> None:
        """Refuse `missing_values` where clients randomise whatever they get."""
        if self.missing_values is not None:
            raise ValueError(
                "Clients send every value that they get, so missing_values has no "
                "place here. Pass only observed values to privatize, and set "
                "missing_values=None."
            )

    def _check_declared(self) -> None:
        if self.value_bounds is self.levels is None:
            found = " A fit to your own data finds a scale privately: pass levels="
            found += "model.levels_ or value_bounds=model.value_bounds_ of that fit."
            raise ValueError(
                "Declare `levels` or `value_bounds`: all clients must know the range "
                "beforehand, and what they send cannot be searched for it."
                + found
                * self._may_find_scale
            )

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
        """Predict values at coordinates.

        Parameters
        ----------
        X : array-like of shape (n_entries, n_modes)
            Coordinates. -1 stands for an unknown index, such as a new user; so does an
            index beyond `shape_` if `shape` was not declared. The other indices and the
            row of the average entry then determine the prediction. If entries are
            protected, an index without entries counts as unknown too, apart from its
            `side_information`.
        return_std : bool, default=False
            Whether to return standard deviations too. Only "input" supports it.

        Returns
        -------
        y : ndarray of shape (n_entries,)
            Within `value_bounds_`.
        std : ndarray of shape (n_entries,)
            Returned with `return_std`: standard deviation of the original value, not of
            the randomised one, around its prediction. Its square is the posterior
            variance of the model plus `residual_variance_`, which CP fits multiply by
            the learned share of the index of mode 0. It is capped at the distance from
            the prediction to the farther of `value_bounds_`.

        Raises
        ------
        ValueError
            If a coordinate is fractional, below -1 or outside of a declared `shape`; if
            `X` is sparse and its shape is not `shape_`, as for a fold; or if
            `return_std` is set and the model has no standard deviations.
        TypeError
            If `X` is sparse: convert it with `entries_from_sparse`.
        """
        check_is_fitted(self)
        fitted = self._fitted
        coordinates = check_request(self, X, fitted.new_units)
        fitted.warn_of_lost_rows(coordinates)
        mean = fitted.predict(coordinates)
        if not return_std:
            return mean
        return mean, fitted.standard_deviation(coordinates, mean)

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Coefficient of determination of the predictions, by ``r2_score``.

        Parameters
        ----------
        X : array-like of shape (n_entries, n_modes)
            Coordinates, as for `predict`.
        y : array-like of shape (n_entries,)
            The values there; `missing_values` are left out. The score is not private:
            it is computed from them.
        sample_weight : array-like of shape (n_entries,), default=None
            Weights of the entries.

        Returns
        -------
        score : float
            1 if all predictions are exact, 0 if all are the mean of `y`.

        Raises
        ------
        ValueError
            As `predict`, and if `y` is missing or does not hold one number per entry.
        """
        check_is_fitted(self)
        if is_sparse(X):
            check_same_shape(X, self.shape_)
        if y is None:
            raise ValueError(
                "score needs y: pass coordinates and their values. For a sparse array, "
                "these are X, y = entries_from_sparse(X), also for cross-validation."
            )
        check_aligned(X, y=y, sample_weight=sample_weight)
        values, predicted = check_values(y).astype(float), self.predict(X)
        check_same_length(predicted, values)
        kept = is_observed(values, self.missing_values)
        domain = self._fitted.domain
        warn_of_own_values(values[kept], domain, "where no prediction can be")
        if sample_weight is not None and not np.all(kept):
            sample_weight = as_numpy(sample_weight, "sample_weight")[kept]
        return r2_of_any_size(values[kept], predicted[kept], sample_weight)

    @property
    def decomposition_(self) -> CPTensor | TuckerTensor:
        """The fitted model without its offset, as a TensorLy object."""
        return self._decomposition(self._fitted.released)

    @property
    def factors_(self) -> list[Any]:
        """Factors by mode; None at the mode of protected units."""
        factors, unit = list(self.decomposition_.factors), self._fitted.unit
        if unit is not None:
            factors[unit] = None
        return factors

    @property
    def offset_(self) -> float:
        """Constant that all predictions share."""
        return self._fitted.offset

    @property
    def value_bounds_(self) -> tuple[float, float]:
        """Range of the predictions."""
        return self._fitted.domain.bounds

    @property
    def levels_(self) -> NDArray[np.float64] | None:
        """Levels to which values were rounded; None for a range."""
        levels = self._fitted.domain.levels
        return None if levels is None else np.array(levels)

    @property
    def perturbation_(self) -> str:
        """The perturbation used."""
        return self._fitted.perturbation

    @property
    def n_iter_(self) -> int:
        """Number of sweeps or iterations that were run."""
        return self._fitted.n_iter

    @property
    def model_variance_(self) -> float:
        """Variance of the fitted values around the model."""
        variance = self._fitted.noise_variance
        if math.isnan(variance) or not self._fitted.has_estimated_variance:
            raise AttributeError(
                f"model_variance_ is not estimated by perturbation="
                f"{self.perturbation_!r} of {type(self).__name__}."
            )
        return variance

    @property
    def residual_variance_(self) -> float:
        """Variance of the original values around the model."""
        variance = self._fitted.residual_variance
        if variance is None:
            raise AttributeError(
                'residual_variance_ needs a fit with perturbation="input".'
            )
        return variance

    def _form(
        self, order: Iterable[int], shape: tuple[int, ...]
    ) -> CPForm | TuckerForm:
        """Form of the decomposition for a shape, with its modes in the given order.

        Raise if the rank is too large for the shape.
        """
        raise NotImplementedError

    def _decomposition(self, model: Rows | UnitModel) -> CPTensor | TuckerTensor:
        """Convert a model to TensorLy's form."""
        raise NotImplementedError

    def _measurement(
        self,
        problem: Problem,
        perturbation: str | None = None,
        noise: SharedNoise | None = None,
    ) -> Measurement:
        """The measurement for a problem; see `choose_measurement`."""
        name = perturbation or self.perturbation
        return choose_measurement(problem, name, unit=unit_of(self), shared_noise=noise)

    def __privacy_plan__(
        self, fitted: object = None, *, any_shape: bool = False
    ) -> PrivacyGuarantee:
        problem = check_parameters(self)
        has_range = not self.value_bounds is self.levels is None
        if fitted is self and unit_of(self) is not None and has_range and problem:
            return self._measurement(problem).guarantee
        return planned_guarantee(self)

    @fit_context(prefer_skip_nested_validation=True)
    def __expected_error__(
        self, X: ArrayLike, y: ArrayLike | None = None, n_users: int | None = None
    ) -> tuple[str, Callable[[float], float]]:
        """The expected RMSE.

        It reads the coordinates `X` or, if a unit is protected, only their number. It
        does not read `y`.
        """
        expected = expected_by_epsilon(self, X, n_users)
        what = "expected RMSE, in units of the values"
        return what, lambda epsilon: expected(epsilon).error

    @fit_context(prefer_skip_nested_validation=True)
    def __expected_perturbation__(
        self, X: ArrayLike, n_users: int | None = None
    ) -> Callable[[float], tuple[str, bool]]:
        """The perturbation that a fit is expected to take, by epsilon.

        Beside it stands whether averages alone are learned.
        """
        expected = expected_by_epsilon(self, X, n_users)
        return lambda epsilon: expected(epsilon)[1:]
