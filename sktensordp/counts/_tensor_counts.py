"""`TensorCounts`: noisy tables of counts, and how far each number may be off."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .._dask import is_dask, named_columns
from .._extras import imported
from .._noise_only import counts_are_noise, is_one_of_many, warn_of_noise
from .._random import NoiseStreams, fresh_bits
from .._sklearn_compat import Interval, fit_context
from .._validation import (
    LARGEST_INDEX,
    adds_noise,
    as_numpy,
    check_container,
    check_coordinates,
    check_ordered,
    checked,
    described,
    is_integer,
    malformed,
    names_of,
    warn,
    with_names,
)
from ..base import EstimatorMixin, PrivateEstimatorMixin, recorded_fit
from ..ids import check_unlabelled
from ..measure import Releases
from ..privacy import PrivacyGuarantee
from ._labels import labels, titles
from ._plan import Modes, Plan, Workload, plan_tables, size_of
from ._rows import LazyRows, Reader, Rows, columns_of_rows
from ._sums import CountsQuestion
from ._tables import Tables

if TYPE_CHECKING:
    import pandas as pd

# From this many rows of a person on, a fit says what they cost.
_MANY_RECORDS = 100
# By more than this part of the total, sums of a table are said to differ from others.
_GAP = 1e-4
# Cells of all tables together.
_MOST_CELLS = 2**30
_SOURCE = "Dong, Roth and Su (2022), Corollary 3.3"


class TensorCounts(EstimatorMixin, PrivateEstimatorMixin, BaseEstimator):
    """Count rows by their categories, with noise and standard errors.

    A row of X is a record, such as a trip, and a column is a mode, such as its origin.
    The fit releases tables of counts over chosen sets of modes, such as origin x hour.
    All tables and all sums over cells follow from one release, and agree with each
    other. How large the noise will be is known before anything is spent.

    Parameters
    ----------
    margins : int or list of tuple of int, default=2
        The tables: the modes of each, or a number for all tables of up to so many
        modes. 0 is the total alone. Tables over fewer modes of a listed one are
        released with it.
    epsilon : float, default=1.0
        Budget of each row, or of each person. ``float("inf")`` adds no noise.
    delta : float, default=1e-6
        Budget of each row, or of each person.
    shape : sequence of int, default=None
        Numbers of categories of the modes. Public and required: read off the data, it
        would reveal the rarest category. With infinite `epsilon`, None reads it off.
    weights : array-like of shape (n_tables,), default=None
        How much the variance of a cell counts, for each of `tables_`. The noise of all
        tables together is then least. None takes the root of the number of cells. A
        Series whose index does more than count from 0 on is refused: it is not read.
    unit : int, default=None
        None protects each row. The number of a column of X that holds people, as whole
        numbers, protects everything that X holds of a person. This column is no mode:
        it counts neither in `shape` nor in `margins`, and modes are numbered without
        it. With ``unit=0``, mode 0 is the second column.
    max_records : int, default=None
        How many rows of a person count, with `unit`. Of somebody with more, so many are
        chosen at random. The noise is proportional to it.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: it repeats the noise in every clone, although
        never in two fits of one object.

    Attributes
    ----------
    shape_ : tuple of int
        Numbers of categories of the modes.
    tables_ : list of tuple of int
        The modes of each table, in the order of `weights`: as in `margins`, or by
        number of modes and then by modes.
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of everything that is released.
    replace_one_guarantee_ : PrivacyGuarantee
        The same release if a row or a person is replaced by another, for composition
        with guarantees of that relation. Count one of the two, not both.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, if X has any.

    See Also
    --------
    CoordinateEncoder : Turns text into coordinates; declare its `categories`.
    MatrixMechanism : Answers any linear queries about one histogram.
    CPCompletion.sample_users : Draws synthetic users.

    Notes
    -----
    **Who is protected.** Neighbouring data sets differ by one row of X, or by all rows
    of a person, which is added or removed. The number of rows is private. A row counts
    if it holds whole numbers within `shape`, and `unit` one of at least 0; other rows
    are left out, and nothing tells how many: a refusal would tell of a person.
    Without noise, they are refused.

    **Which tables to use.** Unbiased tables, the default, are right on average, and so
    are their sums and standard errors: use them for analysis. Some of their numbers are
    negative. Non-negative tables agree with each other, too, and are closer to the
    truth where most cells are nearly empty, but small cells come out too large on
    average. Use them where a number below 0 is not understood, or to draw rows from.

    The noise is Gaussian, on lattices; counts are whole numbers, and nothing is
    rounded. The proof is at the top of ``counts/_plan.py`` and in
    ``doc/soundness.md``.

    References
    ----------
    .. [1] Xiao, He, Zhang and Kifer, "An Optimal and Scalable Matrix Mechanism for
       Noisy Marginals under Convex Loss Functions", 2023.
    .. [2] Dong, Roth and Su, "Gaussian Differential Privacy", 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.counts import TensorCounts
    >>> rng = np.random.default_rng(0)
    >>> trips = rng.integers([5, 5, 24], size=(10_000, 3))  # origin, destination, hour
    >>> counts = TensorCounts(shape=(5, 5, 24), random_state=0)
    >>> round(counts.expected_std((0, 1)), 1)
    8.5
    >>> table, std = counts.fit(trips).marginal((0, 1), return_std=True)
    >>> table.shape, round(std, 1)
    ((5, 5), 8.5)
    >>> morning, std = counts.total({0: [2], 2: range(6, 10)}, return_std=True)
    >>> print(counts.privacy_guarantee_)
    This fit: (epsilon = 1, delta = 1e-06)-differential privacy for one row of X
    (add-or-remove).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "margins": [Interval(Integral, 0, None, closed="left"), list, tuple],
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "shape": ["array-like", None],
        "weights": ["array-like", None],
        "unit": [Interval(Integral, 0, None, closed="left"), None],
        "max_records": [Interval(Integral, 1, 2**20, closed="both"), None],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }
    _of_fit = ("_fitted",)

    margins: Any
    _fitted: Tables
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]

    def __init__(
        self,
        margins: int | Sequence[Sequence[int]] = 2,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        shape: Sequence[int] | None = None,
        weights: ArrayLike | None = None,
        unit: int | None = None,
        max_records: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.margins = margins
        self.epsilon = epsilon
        self.delta = delta
        self.shape = shape
        self.weights = weights
        self.unit = unit
        self.max_records = max_records
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.non_deterministic = adds_noise(self.epsilon)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in vars(self)

    @property
    def shape_(self) -> tuple[int, ...]:
        """Numbers of categories of the modes."""
        return self._fitted.plan.workload.shape

    @property
    def tables_(self) -> list[Modes]:
        """The modes of each table."""
        return list(self._fitted.plan.workload.tables)

    @property
    def replace_one_guarantee_(self) -> PrivacyGuarantee:
        """The guarantee if a row or a person is replaced by another."""
        guarantee = self.privacy_guarantee_
        plan = self._fitted.plan
        if not plan.noise.step:
            return replace(guarantee, relation="replace-one")
        return guarantee.derived(
            plan.replace_one_event(), delta=guarantee.delta, relation="replace-one"
        )

    # --- plan -------------------------------------------------------------------------

    def _planned(self, found: Sequence[int] | None = None) -> Plan:
        """The noise that follows from the parameters; `found` if no shape is declared.

        Raises
        ------
        ValueError
            If parameters contradict each other.
        """
        self._validate_params()
        declared = found if self.shape is None else self.shape
        if declared is None:
            raise ValueError(
                "shape is not declared, so it would be read off the private data. Pass "
                "shape, the number of categories of each column that is counted."
            )
        sizes = _checked_shape(declared)
        if self.unit is None and self.max_records is not None:
            raise ValueError(
                "max_records needs unit: the number of the column that holds people."
            )
        if self.unit is not None and self.max_records is None:
            raise ValueError(
                "unit needs max_records: how many rows of a person count. The noise is "
                "proportional to it."
            )
        if self.unit is not None and self.unit > len(sizes):
            raise ValueError(
                f"unit = {self.unit}, but X has columns 0 to {len(sizes)}: one for "
                f"each of the {len(sizes)} modes of shape, and one for people."
            )
        tables = self._checked_tables(len(sizes))
        workload = Workload(sizes, tables, self._checked_weights(sizes, tables))
        n_cells = sum(math.prod(one.sizes) for one in workload.residuals)
        if n_cells > _MOST_CELLS:
            raise ValueError(
                f"margins asks for tables of {n_cells:,} cells in all. Pass tables of "
                f"fewer modes, or coarser categories."
            )
        epsilon, delta = float(self.epsilon), float(self.delta)
        return plan_tables(workload, epsilon, delta, self._n_records)

    @property
    def _n_records(self) -> int:
        return 1 if self.max_records is None else int(self.max_records)

    def _checked_tables(self, n_modes: int) -> tuple[Modes, ...]:
        if is_integer(self.margins):
            most = min(int(self.margins), n_modes)
            sizes = range(most + 1)
            return tuple(B for k in sizes for B in combinations(range(n_modes), k))
        tables: list[Modes] = []
        for number, modes in enumerate(self.margins):
            try:
                found = tuple(sorted(modes))
            except TypeError:
                found = (-1,)
            if not all(is_integer(i) and 0 <= i < n_modes for i in found):
                raise ValueError(
                    f"margins[{number}] must be a list of modes from 0 to "
                    f"{n_modes - 1}, as in margins=[(0, 1)] for one table of two modes."
                )
            if len(set(found)) < len(found):
                raise ValueError(f"margins[{number}] has a mode twice: {found}.")
            tables.append(tuple(int(i) for i in found))
        if len(set(tables)) < len(tables) or not tables:
            raise ValueError("margins must list at least one table, and none twice.")
        return tuple(tables)

    def _checked_weights(
        self, shape: Modes, tables: tuple[Modes, ...]
    ) -> tuple[float, ...]:
        if self.weights is None:
            return tuple(math.sqrt(size_of(shape, modes)) for modes in tables)
        check_ordered(self.weights, "weights")
        check_unlabelled(self.weights, "weights", "tables_")
        weights = as_numpy(self.weights, "weights")
        if weights.shape != (len(tables),) or weights.dtype.kind not in "iuf":
            raise ValueError(
                f"weights must have one number for each of the {len(tables)} tables "
                f"{', '.join(map(str, tables[:4]))}{', ...' * (len(tables) > 4)}."
            )
        # Not true of NaN.
        if not np.all((weights > 1e-100) & (weights < 1e100)):
            raise ValueError("weights must be positive and finite.")
        return tuple(map(float, weights))

    def expected_std(self, modes: int | Sequence[int]) -> float:
        """Standard error of every cell of a table; it needs no data.

        Parameters
        ----------
        modes : sequence of int
            Of the table. Empty for the total.

        Returns
        -------
        std : float
            That of `marginal` after a fit.

        Raises
        ------
        ValueError
            If `shape` is not declared, or the table does not follow from `margins`.
        """
        plan = self._planned()
        return math.sqrt(plan.variance(_checked_modes(modes, plan.workload)[0]))

    def _guarantee(self, plan: Plan | None) -> PrivacyGuarantee:
        from dp_accounting import dp_event

        k, epsilon, delta = self._n_records, float(self.epsilon), float(self.delta)
        fields: dict[str, Any] = {
            "unit": "sample" if self.unit is None else int(self.unit),
            "relation": "add-or-remove",
            "source": _SOURCE,
            "local": False,
        }
        if math.isinf(epsilon) or plan is None:
            fields["statement"] = "Rows were counted without noise."
            return PrivacyGuarantee.from_event(dp_event.NonPrivateDpEvent(), **fields)
        n = len(plan.workload.residuals)
        of_people = "" if self.unit is None else f" At most {k} rows of a person count."
        fields["statement"] = (
            f"Gaussian noise was added to {n} tables of whole numbers, from which all "
            f"tables of counts and all sums of their cells follow.{of_people} The "
            f"number of rows is protected, too; the shape is public."
        )
        event = plan.noise.event
        return PrivacyGuarantee(epsilon=epsilon, delta=delta, event=event, **fields)

    def __privacy_plan__(
        self, fitted: object = None, *, any_shape: bool = False
    ) -> PrivacyGuarantee:
        if math.isinf(self.epsilon):
            return self._guarantee(None)
        return self._guarantee(self._planned())

    def __privacy_unprotected__(self) -> list[str]:
        return [
            *super().__privacy_unprotected__(),
            "Scores of TensorCounts compare its tables with raw rows, without noise.",
        ]

    # --- fit --------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Count the rows, and release the tables with noise.

        Parameters
        ----------
        X : array-like, data frame or Dask collection of shape (n_rows, n_columns)
            Whole numbers: the category of each row in every mode, and the person if
            `unit` is set. There may be no row.
        y : None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            Before the release: if `shape` is not declared, if X has another number of
            columns, or if parameters contradict each other. With infinite `epsilon`,
            also if a row is not within the shape.
        TypeError
            If X is sparse.
        """
        if is_dask(X):
            plan = self._planned()
            self._learn_columns(named_columns(X), plan, reset=True)
            return self._fit(plan, lambda reader: LazyRows(X, reader))
        if self.shape is None and math.isinf(self.epsilon):
            columns = self._columns(X, reset=True)
            plan = self._planned(self._shape_of(columns))
        else:
            plan = self._planned()
            columns = self._columns(X, reset=True)
        self._check_width(len(columns), plan)
        self._check_exact(columns, plan)
        return self._fit(plan, lambda reader: Rows([columns], reader))

    @fit_context(prefer_skip_nested_validation=True)
    def fit_batches(self, batches: Iterable[ArrayLike]) -> Self:
        """Count rows that come in batches, such as chunks of a file.

        This is one release of all of them together. Without `unit`, a batch takes
        memory only while it is counted; with it, up to `max_records` rows of each
        person are in memory until the last batch has been read.

        Parameters
        ----------
        batches : iterable of X
            Each as for `fit`. Iterated over once, after the release was recorded: with
            an error in a batch, the release counts in all open budgets.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit`.
        """
        plan = self._planned()

        def parts() -> Iterator[list[NDArray[Any]]]:
            for number, batch in enumerate(batches):
                columns = self._columns(batch, reset=not number)
                self._check_width(len(columns), plan)
                self._check_exact(columns, plan)
                yield columns

        return self._fit(plan, lambda reader: Rows(parts(), reader))

    def _fit(self, plan: Plan, rows_of: Callable[[Reader], Any]) -> Self:
        draws = math.isfinite(self.epsilon)
        self._warn_of_many_records(plan)
        guarantee = self._guarantee(plan)
        with self._progress() as on_step, self._count_releases().lock:
            with recorded_fit(self, guarantee, "fit" if draws else "nobody") as streams:
                reader = Reader(
                    plan.workload.shape, self.unit, self._n_records, refuses=not draws
                )
                if self.unit is not None:
                    reader = replace(reader, seed=_seed_of_words(streams))
                # Words have the streams of step 0.
                releases = Releases(plan.noise, streams, number=1)
                answers = releases.ask(rows_of(reader), CountsQuestion.of(plan))
            residuals = plan.workload.residuals
            released = {
                one.modes: one.read(noisy)
                for one, (noisy, _) in zip(residuals, answers, strict=True)
            }
            self._fitted = Tables(plan, released)
            on_step()
        self._warn_of_noise()
        return self

    def _warn_of_many_records(self, plan: Plan) -> None:
        if self._n_records < _MANY_RECORDS or math.isinf(self.epsilon):
            return
        tables = plan.workload.tables
        largest = max(tables, key=lambda one: size_of(plan.workload.shape, one))
        std = math.sqrt(plan.variance(largest))
        warn(
            f"max_records = {self._n_records} makes the noise {self._n_records} times "
            f"as large as for one row: a cell of table {largest} has a standard error "
            f"of {std:,.0f}. Fewer rows of a person may give better tables."
        )

    def _warn_of_noise(self) -> None:
        """Say so if there is little but noise, from released numbers alone."""
        tables, shape = self._fitted, self.shape_
        if math.isinf(self.epsilon) or is_one_of_many():
            return
        total = float(tables.unbiased(()))
        is_noise = counts_are_noise(total, math.sqrt(tables.plan.variance(())))
        warn_of_noise(
            is_noise,
            "The released total is within its noise of 0: there are hardly any rows, "
            "or they hold no whole numbers within the shape. Text needs a "
            "CoordinateEncoder with declared categories before.",
        )
        largest = max(self.tables_, key=lambda modes: size_of(shape, modes))
        n_cells = size_of(shape, largest)
        warn_of_noise(
            not is_noise and n_cells > total,
            f"Table {largest} has {n_cells:,} cells, more than there are rows (about "
            f"{max(total, 0):,.0f}). Its cells are mostly noise; sums over many of "
            f"them need not be. Use coarser categories, or tables of fewer modes.",
        )

    def _columns(self, X: Any, *, reset: bool) -> list[NDArray[Any]]:
        """The columns of X, each as an array of its own type."""
        check_container(X, "X")
        X = with_names(X)
        if math.isinf(self.epsilon):
            # Without noise, what is malformed may be refused.
            X = checked(validate_data, self, X, reset=reset, dtype="numeric")
            return list(X.T)
        columns = columns_of_rows(X)
        if not columns:  # an empty list
            columns = [np.zeros(0)] * self._width
        as_read = np.broadcast_to(np.int8(), (len(columns[0]), len(columns)))
        named = X if names_of(X) is not None else as_read
        checked(validate_data, self, named, reset=reset, skip_check_array=True)
        return columns

    @property
    def _width(self) -> int:
        """Number of columns of X that `shape` needs."""
        shape = _checked_shape(self.shape) if self.shape is not None else self.shape_
        return len(shape) + (self.unit is not None)

    def _learn_columns(self, X: Any, plan: Plan, *, reset: bool) -> None:
        """Learn number and names of columns that are read elsewhere."""
        if X.ndim != 2:
            raise malformed("arrays", "X must have a column for each mode.")
        self._check_width(X.shape[1], plan)
        checked(validate_data, self, X, reset=reset, skip_check_array=True)

    def _check_width(self, n_columns: int, plan: Plan) -> None:
        needed = len(plan.workload.shape) + (self.unit is not None)
        if n_columns != needed:
            of_people = "" if self.unit is None else " and one for people"
            raise malformed(
                "arrays",
                f"X has {n_columns} columns, but shape has {len(plan.workload.shape)} "
                f"modes. Every mode needs one column of coordinates{of_people}.",
            )

    def _shape_of(self, columns: list[NDArray[Any]]) -> tuple[int, ...]:
        """The shape as read off rows, without noise."""
        modes = [c for k, c in enumerate(columns) if k != self.unit]
        found = check_coordinates(np.column_stack(modes), name=type(self).__name__)
        return tuple(int(n) + 1 for n in found.max(axis=0))

    def _check_exact(self, columns: list[NDArray[Any]], plan: Plan) -> None:
        """Refuse rows outside of the shape where nobody is protected."""
        if math.isfinite(self.epsilon):
            return
        name = type(self).__name__
        modes = [c for k, c in enumerate(columns) if k != self.unit]
        check_coordinates(np.column_stack(modes), shape=plan.workload.shape, name=name)
        if self.unit is not None:
            check_coordinates(columns[self.unit][:, np.newaxis], name=name)

    # --- tables -----------------------------------------------------------------------

    def marginal(
        self,
        modes: int | Sequence[int],
        *,
        return_std: bool = False,
        nonnegative: bool = False,
    ) -> Any:
        """Return the table of counts over some modes.

        Parameters
        ----------
        modes : sequence of int
            One axis of the table for each, in this order. Empty for the total.
        return_std : bool, default=False
            Whether to return the standard error, too.
        nonnegative : bool, default=False
            Whether to return the nearest table without negative numbers that agrees
            with those of fewer modes. See Notes of the class for which to use.

        Returns
        -------
        table : ndarray
        std : float
            Standard error of every cell of the unbiased table, with `return_std`.

        Raises
        ------
        ValueError
            If the table does not follow from `margins`.
        """
        check_is_fitted(self)
        fitted = self._fitted
        own, order = _checked_modes(modes, fitted.plan.workload)
        if nonnegative:
            table, gap = fitted.nonnegative(own)
            if gap > _GAP:
                warn(
                    f"The sums of table {own} differ from the tables of fewer modes by "
                    f"{gap:.2%} of the total: no table without negative numbers has "
                    f"all these sums, or none was found. Use fewer modes, or unbiased "
                    f"tables.",
                    ConvergenceWarning,
                )
            table = table.copy()
        else:
            table = fitted.unbiased(own)
        table = table.transpose(order)
        return (table, math.sqrt(fitted.plan.variance(own))) if return_std else table

    def total(
        self, ranges: Mapping[int, Any], *, return_std: bool = False
    ) -> float | tuple[float, float]:
        """Return the sum over a rectangle of cells, with a standard error of its own.

        Errors of cells are not independent, so that the root of the number of cells
        times that of one overstates it.

        Parameters
        ----------
        ranges : dict of int to int, slice, range or sequence of int
            By mode, the categories to add up. All of those of other modes are; so an
            empty dict gives the number of rows.
        return_std : bool, default=False
            Whether to return the standard error, too.

        Returns
        -------
        total : float
        std : float
            With `return_std`.

        Raises
        ------
        ValueError
            If the table of these modes does not follow from `margins`, or a category is
            outside of the shape or listed twice.
        """
        check_is_fitted(self)
        plan, shape = self._fitted.plan, self.shape_
        own, _ = _checked_modes(tuple(ranges), plan.workload)
        chosen = [_chosen(ranges[i], i, shape[i]) for i in own]
        table = self._fitted.unbiased(own)
        found = float(table[np.ix_(*chosen)].sum()) if own else float(table)
        if not return_std:
            return found
        numbers = {i: len(one) for i, one in zip(own, chosen, strict=True)}
        return found, math.sqrt(plan.variance_of_sum(numbers))

    def table(
        self,
        modes: int | Sequence[int],
        *,
        level: float = 0.95,
        below: float | None = None,
        nonnegative: bool = False,
        categories: Any = None,
        names: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return a table with a row for each cell, ready for ``to_csv``.

        Parameters
        ----------
        modes : sequence of int
        level : float, default=0.95
            Of the intervals: how many of them contain the true count.
        below : float, default=None
            Marks counts below it as small, in a column ``is_small``.
        nonnegative : bool, default=False
            Whether counts are those of `marginal` with `nonnegative`. Standard errors
            and intervals remain those of the unbiased table.
        categories : fitted CoordinateEncoder or list of array-like, default=None
            Names of the categories: the encoder that made X, or a list for each mode.
            None numbers them.
        names : list of str, default=None
            Names of all modes. None takes those of the columns of X or of the encoder,
            or ``mode_0`` and so on.

        Returns
        -------
        table : pandas.DataFrame
            A column for each mode, then ``count``, ``std``, ``low`` and ``high``.
            Intervals are cut off at 0.

        Raises
        ------
        ValueError
            If the table does not follow from `margins`, `level` is not between 0 and 1,
            or names or categories do not fit the shape.
        """
        frames = imported("pandas", "pandas")
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level}.")
        count, std = self.marginal(modes, return_std=True)
        order = _as_tuple(modes)
        named = titles(self, names, categories)
        of_modes = [labels(self, i, categories) for i in order]
        grid = np.indices(count.shape).reshape(len(order), count.size)
        found = {
            named[i]: one[place]
            for i, one, place in zip(order, of_modes, grid, strict=True)
        }
        shown = self.marginal(modes, nonnegative=True) if nonnegative else count
        margin = float(-ndtri((1 - level) / 2)) * std
        found |= {
            "count": shown.ravel(),
            "std": np.full(count.size, std),
            "low": np.maximum(count.ravel() - margin, 0.0),
            "high": np.maximum(count.ravel() + margin, 0.0),
        }
        if below is not None:
            found["is_small"] = shown.ravel() < below
        return frames.DataFrame(found)

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Return one less the total variation distance between tables and rows.

        The average over all tables of `tables_` but the total, non-negative and as
        shares of their total. This reads the rows without noise: a score is not
        protected. A score of 1 is perfect.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            As for `fit`; all rows of a person count.
        y : None
            Ignored.

        Returns
        -------
        score : float

        Raises
        ------
        ValueError
            If X has no row within the shape.
        """
        check_is_fitted(self)
        plan, columns = self._fitted.plan, self._columns(X, reset=False)
        self._check_width(len(columns), plan)
        self._check_exact(columns, plan)
        reader = Reader(plan.workload.shape, self.unit, self._n_records)
        rows = reader.records(columns).coordinates
        if not rows.shape[1]:
            raise ValueError("X has no row within the shape, so there is no score.")
        apart = []
        for modes in filter(None, plan.workload.tables):
            sizes = [self.shape_[i] for i in modes]
            where = np.ravel_multi_index(tuple(rows[i] for i in modes), sizes)
            share = np.bincount(where, minlength=math.prod(sizes)) / rows.shape[1]
            table, _ = self._fitted.nonnegative(modes)
            released = table.ravel() / (table.sum() or 1.0)
            apart.append(np.abs(released - share).sum() / 2)
        return 1 - float(np.mean(apart)) if apart else 1.0


def _checked_shape(shape: Any) -> tuple[int, ...]:
    check_ordered(shape, "shape")
    sizes = tuple(shape)
    if not sizes or not all(is_integer(n) and 1 <= n <= LARGEST_INDEX for n in sizes):
        raise ValueError(
            f"shape must hold positive integers, one for each mode, got "
            f"{described(shape)}."
        )
    return tuple(int(n) for n in sizes)


def _as_tuple(modes: Any) -> Modes:
    return (int(modes),) if is_integer(modes) else tuple(modes)


def _checked_modes(modes: Any, workload: Workload) -> tuple[Modes, list[int]]:
    """The modes of a table in ascending order, and how to come back to those asked for.

    Raises
    ------
    ValueError
        If the table does not follow from what is released.
    """
    wanted = _as_tuple(modes)
    own = tuple(sorted(wanted))
    if own not in workload.follow:
        raise ValueError(
            f"The table of modes {wanted} does not follow from margins. Modes are "
            f"numbered from 0 to {len(workload.shape) - 1}; add the table to margins."
        )
    return own, [own.index(i) for i in wanted]


def _chosen(chosen: Any, mode: int, size: int) -> NDArray[np.int64]:
    """The categories of a mode that are added up."""
    if isinstance(chosen, slice):
        return np.arange(size)[chosen]
    found = np.atleast_1d(np.asarray(chosen))
    if not found.size:
        found = found.astype(np.int64)
    if (
        found.ndim != 1
        or found.dtype.kind not in "iu"
        or np.any((found < 0) | (found >= size))
        or len(np.unique(found)) < len(found)
    ):
        raise ValueError(
            f"ranges[{mode}] must hold different categories from 0 to {size - 1}."
        )
    return found.astype(np.int64)


def _seed_of_words(streams: NoiseStreams | None) -> bytes:
    """A seed of words, from a stream that no noise uses."""
    bits = fresh_bits() if streams is None else streams.step(0).stream(0)
    return bits.random_raw(2).tobytes()
