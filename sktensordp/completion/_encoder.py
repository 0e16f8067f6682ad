"""Raw columns of a table of observations to coordinates of a tensor."""

import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from .._sklearn_compat import Interval, StrOptions, fit_context
from .._validation import (
    check_columns,
    check_coordinates,
    check_numeric,
    check_unmasked,
    checked,
    is_complex,
)
from ..base import EstimatorMixin, SentMixin
from ..privacy.budgets._budget import record_ids

__all__ = ["CoordinateEncoder"]

_UNKNOWN = -1
# Seconds from 1970 to the year 10000.
_LAST_TIME = 253_402_300_800


class CoordinateEncoder(
    EstimatorMixin, SentMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator
):
    """Encode user ids, item ids and times as coordinates of a tensor.

    Every column becomes one mode. A column of ids gets one index for each id that
    `fit` has seen, in sorted order, and those that only `partial_fit` has seen come
    after them. If `time_bins` or `freq` is given, the last
    column is time and is binned.

    Parameters
    ----------
    time_bins : int, default=None
        Number of time bins, up to 2**20, with about equal numbers of rows (quantiles
        of the times that `fit` has seen; fewer where times coincide). Earlier and
        later times fall into the first and the last bin.
    freq : {"h", "D", "W", "M", "Y"}, default=None
        Calendar bins: hours, days, weeks from Monday, months or years, in UTC. Times
        are seconds since 1970 or datetimes. A bin before the first or after the
        last one that `fit` has seen is unknown.
    categories : list of (array-like of shape (n_ids,) or None), default=None
        For every column of ids, those that there are, by index: a public catalogue,
        such as all films on offer and all numbers of accounts. `fit` then learns
        nothing of the column, and refuses other ids. None learns it from the data.
        Where all columns are declared, so is the shape: pass it on as
        ``CPCompletion(unit=0, shape=encoder.declared_shape)``.

    Attributes
    ----------
    categories_ : list of ndarray
        The ids of every column of ids, by index.
    shape_ : tuple of int
        Sizes of the modes.
    time_edges_ : ndarray
        With `time_bins`: the first times of all bins but the first.
    time_start_ : int
        With `freq`: number of the first bin, counted from 1970.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where they have any.

    Notes
    -----
    What the encoder learns is not private: the ids and the times that occur, the
    vocabulary and the edges of the bins, are published with it. That suits the
    protection of values at public coordinates, the unit "entry". Where everything of a
    user is protected, declare `categories`; if not, ``privacy_of`` of a pipeline finds
    that nothing is.

    Examples
    --------
    >>> from sktensordp.completion import CoordinateEncoder
    >>> table = [["ann", "heat", 0], ["bob", "heat", 90000], ["ann", "up", 90001]]
    >>> encoder = CoordinateEncoder(freq="D").fit(table)
    >>> encoder.transform(table)
    array([[0, 0, 0],
           [1, 0, 1],
           [0, 1, 1]])
    >>> encoder.transform([["eve", "up", 999999]])
    array([[-1,  1, -1]])
    >>> encoder.inverse_transform([[0, 1, 1]])
    array([['ann', 'up', datetime.date(1970, 1, 2)]], dtype=object)
    """

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's protocol)
        "time_bins": [Interval(Integral, 1, 2**20, closed="both"), None],
        "freq": [StrOptions({"h", "D", "W", "M", "Y"}), None],
        "categories": [list, tuple, None],
    }

    categories_: list[NDArray[Any]]
    shape_: tuple[int, ...]
    time_edges_: NDArray[np.float64]
    time_start_: int
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    fit_transform: Callable[..., NDArray[np.int64]]

    def __init__(
        self,
        time_bins: int | None = None,
        freq: str | None = None,
        categories: Sequence[ArrayLike | None] | None = None,
    ) -> None:
        self.time_bins = time_bins
        self.freq = freq
        self.categories = categories

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn the ids and the time bins.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Ids (integers or strings); the last column times, if they are binned.
        y : None
            Ignored.

        Returns
        -------
        self : CoordinateEncoder

        Raises
        ------
        ValueError
            If both `time_bins` and `freq` are given, if something is missing, if the
            last column cannot be read as times, or if an id is not among `categories`.
        """
        with self._progress() as on_step:
            self._learn(X, first=True)
            on_step()
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn further ids and later calendar bins; known ones keep their index.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            As for `fit`. Quantiles, and the first calendar bin, are those of the first
            call.
        y : None
            Ignored.

        Returns
        -------
        self : CoordinateEncoder
        """
        first = not hasattr(self, "shape_")
        if not first and self._binning != (self.time_bins, self.freq):
            raise ValueError("time_bins and freq must be those of the first call.")
        return self._learn(X, first=first)

    def _learn(self, X: ArrayLike, first: bool) -> Self:
        if self.time_bins is not None and self.freq is not None:
            raise ValueError("Give time_bins or freq, not both.")
        n_columns = 1 + self._has_time if first else 1
        ids, times = self._split(X, reset=first, ensure_min_features=n_columns)
        # All that may fail comes before anything is changed.
        declared = self._declared(ids.shape[1])
        learned = []
        for k, (catalogue, column) in enumerate(zip(declared, ids.T, strict=True)):
            if catalogue is None:
                own = _distinct(column)
                learned.append(own if first else _extended(self.categories_[k], own))
            elif np.any(_index_of(catalogue, column) == _UNKNOWN):
                raise ValueError(f"Some ids of column {k} are not among categories.")
            else:
                learned.append(catalogue)
        shape = tuple(map(len, learned))
        binning: dict[str, Any] = {}
        if self.time_bins is not None:
            edges = _quantiles(times, self.time_bins) if first else self.time_edges_
            shape += (len(edges) + 1,)
            binning = {"time_edges_": edges}
        elif self.freq is not None:
            bins = _calendar_bin(times, self.freq)
            start = int(bins.min()) if first else self.time_start_
            n_bins = int(bins.max()) - start + 1
            shape += (n_bins if first else max(n_bins, self.shape_[-1]),)
            binning = {"time_start_": start}
        if self._publishes_ids:
            self._check_sent()
            record_ids(type(self).__name__, self._unprotected())
        for name in {"time_edges_", "time_start_"} & vars(self).keys():
            delattr(self, name)
        self.__dict__.update(binning)
        self.categories_, self.shape_ = learned, shape
        self._binning = self.time_bins, self.freq
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.int64]:
        """Coordinates of the rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)

        Returns
        -------
        coordinates : ndarray of shape (n_rows, n_columns), int64
            -1 for an id, or a calendar bin, that `fit` has not seen.

        Raises
        ------
        ValueError
            If an id or a time is missing, or ids are floats so large that they stand
            for several integers, or times are none.
        """
        check_is_fitted(self)
        ids, times = self._split(X, reset=False)
        columns = [
            _index_of(known, column)
            for known, column in zip(self.categories_, ids.T, strict=True)
        ]
        if self.time_bins is not None:
            columns += [np.searchsorted(self.time_edges_, times, side="right")]
        elif self.freq is not None:
            bins = _calendar_bin(times, self.freq) - self.time_start_
            bins[(bins < 0) | (bins >= self.shape_[-1])] = _UNKNOWN
            columns += [bins]
        return np.column_stack(columns)

    def inverse_transform(self, X: ArrayLike) -> NDArray[np.object_]:
        """Ids and times of coordinates.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Coordinates, with -1 for unknown.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_columns), object
            Ids; None for -1. A binned time is the start of its bin: seconds since 1970
            with `time_bins` (-inf for the first bin), a datetime with `freq`.

        Raises
        ------
        ValueError
            If a coordinate is fractional, below -1 or outside `shape_`.
        """
        check_is_fitted(self)
        check_numeric(X, "X")
        where = check_coordinates(
            checked(check_array, X), shape=self.shape_, allow_unknown=True,
            name=type(self).__name__,
        )  # fmt: skip
        rows = np.empty(where.shape, dtype=object)
        for column in range(where.shape[1]):
            rows[:, column] = self.ids_at(where[:, column], column)
        return rows

    def indices_of(self, ids: ArrayLike, column: int) -> NDArray[np.int64]:
        """Coordinates of ids of one column.

        Parameters
        ----------
        ids : array-like of shape (n,)
        column : int

        Returns
        -------
        indices : ndarray of shape (n,), int64
            -1 for an id that is not known.

        Raises
        ------
        ValueError
            If the column holds no ids.
        """
        check_is_fitted(self)
        n_columns = len(self.categories_)
        if not 0 <= column < n_columns:
            raise ValueError(
                f"column = {column} holds no ids; columns 0 to {n_columns - 1} do."
            )
        return _index_of(self.categories_[column], np.asarray(ids))

    def ids_at(self, indices: ArrayLike, column: int) -> NDArray[Any]:
        """Ids, or first times of the bins, at coordinates of one column.

        Parameters
        ----------
        indices : array-like of int, of any shape
            Within the mode; -1 for what is not known.
        column : int

        Returns
        -------
        ids : ndarray of the same shape
            Where some indices are -1, of objects, None there.
        """
        check_is_fitted(self)
        names, indices = self._names(column), np.asarray(indices)
        if np.any((indices < -1) | (indices >= len(names))):
            raise ValueError(f"Some indices are outside of column {column}.")
        if np.any(indices == _UNKNOWN):
            names = np.append(names.astype(object), np.array([None]))
        return names[indices]

    def _names(self, column: int) -> NDArray[Any]:
        """The id, or the first time, of every index of a column."""
        if not 0 <= column < len(self.shape_):
            raise ValueError(f"column = {column}, but there are {len(self.shape_)}.")
        if column < len(self.categories_):
            return self.categories_[column]
        if self.time_bins is not None:
            return np.append(-np.inf, self.time_edges_)
        bins = self.time_start_ + np.arange(self.shape_[-1])
        if self.freq == "W":
            return (7 * bins - 3).astype("datetime64[D]")
        return bins.astype(f"datetime64[{self.freq}]")

    @property
    def declared_shape(self) -> tuple[int, ...]:
        """Sizes of the modes by `categories` alone: a public shape, before any fit.

        Raises
        ------
        AttributeError
            If something of the shape is learned from the data.
        """
        if self.categories is None or self._publishes_ids:
            raise AttributeError(
                "The shape is public only where `categories` declares every column and "
                "no times are binned. Pass CoordinateEncoder(categories=[user_ids, "
                "item_ids])."
            )
        return tuple(len(_catalogue(ids)) for ids in self.categories)

    def _declared(self, n_columns: int) -> Sequence[NDArray[Any] | None]:
        """The catalogue of every column of ids, or None where it is learned."""
        if self.categories is None:
            return [None] * n_columns
        if len(self.categories) != n_columns:
            raise ValueError(
                f"categories must have one item for each of {n_columns} columns of "
                f"ids, got {len(self.categories)}."
            )
        return [None if one is None else _catalogue(one) for one in self.categories]

    @property
    def _publishes_ids(self) -> bool:
        """Whether something is learned from the data, and published."""
        learned = self.categories is None or any(c is None for c in self.categories)
        return learned or self._has_time

    @property
    def _has_time(self) -> bool:
        return self.time_bins is not None or self.freq is not None

    def _split(self, X: Any, **options: Any) -> tuple[NDArray[Any], Any]:
        """Columns of ids, and times as seconds since 1970 (None without them)."""
        check_unmasked(X, "X")
        check_columns(X)
        try:
            X = checked(validate_data, self, _with_one_type(X), dtype=None, **options)
            kinds = set(map(type, X.flat)) if X.dtype == object else ()
            missing = any(kind.__name__ in ("NoneType", "NAType") for kind in kinds)
        except TypeError as error:
            # pandas.NA has no truth value when it is compared.
            missing = "NA is ambiguous" in str(error)
            if not missing:
                raise
        if missing:
            raise ValueError("Some ids or times are missing.")
        ids, times = X, None
        if self._has_time:
            ids, times = X[:, :-1], _seconds(X[:, -1])
        _check_distinct(ids)
        return ids, times

    def _unprotected(self) -> list[str]:
        if not self._publishes_ids:
            return ["The catalogue of ids that was declared is public."]
        return [
            "The ids and times that occur are public: CoordinateEncoder publishes "
            "them as its vocabulary and its bins."
        ]


def _with_one_type(X: Any) -> Any:
    """A data frame of times and other columns as one of objects."""
    kinds = [getattr(dtype, "kind", "") for dtype in getattr(X, "dtypes", ())]
    if "M" in kinds and set(kinds) != {"M"} and hasattr(X, "iloc"):
        return X.astype(object)
    return X


def _check_distinct(ids: NDArray[Any]) -> None:
    """Refuse floats so large that they stand for several integers."""
    if ids.dtype.kind == "f" and ids.size:
        largest = 2 / np.finfo(ids.dtype).eps
        if np.max(np.abs(ids)) >= largest:
            raise ValueError(
                f"Ids of 2**{math.log2(largest):.0f} and more cannot be told apart as "
                f"floats, and a table of numbers some of which are floats becomes one "
                f"of floats: pass integers, or strings."
            )


def _distinct(column: NDArray[Any]) -> NDArray[Any]:
    """The ids of a column, in sorted order."""
    if column.dtype != object:
        return np.unique(column)
    try:
        ids = sorted(set(column.tolist()))
    except TypeError:
        raise TypeError(
            "The ids of a column must be uniformly strings or numbers."
        ) from None
    distinct = np.empty(len(ids), dtype=object)
    distinct[:] = ids
    return distinct


def _catalogue(ids: Any) -> NDArray[Any]:
    """Declared ids, by index."""
    check_unmasked(ids, "categories")
    ids = np.asarray(ids)
    _check_distinct(ids)
    if ids.ndim != 1 or not len(ids) or len(_distinct(ids)) != len(ids):
        raise ValueError("A catalogue in categories is a list of distinct ids.")
    return ids


def _extended(known: NDArray[Any], ids: NDArray[Any]) -> NDArray[Any]:
    """Known ids, and behind them those of others that are new."""
    if (known.dtype.kind in "iufb") != (ids.dtype.kind in "iufb"):
        raise ValueError("The ids of a column must stay numbers, or stay others.")
    new = ids[_index_of(known, ids) == _UNKNOWN]
    if not len(new):
        return known
    if {known.dtype.kind, new.dtype.kind} == {"i", "u"}:
        known, new = known.astype(object), new.astype(object)
    return np.concatenate([known, new])


def _index_of(known: NDArray[Any], column: NDArray[Any]) -> NDArray[np.int64]:
    """Index of every id among the known ones; -1 where it is none of them."""
    kinds = {known.dtype.kind, column.dtype.kind}
    # Signed and unsigned integers would be compared as floats.
    if kinds <= set("iubf") and kinds != {"i", "u"}:
        order = np.argsort(known, kind="stable")
        place = np.searchsorted(known, column, sorter=order)
        nearest = order[np.minimum(place, len(order) - 1)]
        return np.where(known[nearest] == column, nearest, _UNKNOWN)
    index = {id_: k for k, id_ in enumerate(known.tolist())}
    found: list[int] | None
    try:
        found = [index.get(id_, _UNKNOWN) for id_ in column.tolist()]
    except TypeError:
        found = None
    # Raised outside of the handler, whose message would be its context.
    if found is None:
        raise ValueError("Some ids are neither numbers nor strings.")
    return np.array(found, dtype=np.int64)


def _seconds(column: NDArray[Any]) -> NDArray[np.float64]:
    """Times as seconds since 1970."""
    times, found_complex = None, is_complex(column)
    try:
        if column.dtype == object and any(getattr(t, "tzinfo", None) for t in column):
            # NumPy has no time zones; NaT differs from itself.
            column = np.array([t.timestamp() if t == t else np.nan for t in column])
        elif column.dtype == object and not isinstance(column[0], (int, float, str)):
            column = column.astype("datetime64[s]")
        if column.dtype.kind == "M":
            missing = np.isnat(column)
            column = column.astype("datetime64[s]").astype(np.int64)
            column = np.where(missing, np.nan, column)
        with np.errstate(over="ignore"):
            times = None if found_complex else column.astype(float)
    except (AttributeError, OverflowError, TypeError, ValueError):
        pass
    # Raised outside of the handler, which would keep a message that shows a time.
    if times is None:
        raise ValueError(
            "The last column must hold times: seconds since 1970 or datetimes."
        )
    if not np.all(np.isfinite(times)):
        raise ValueError("Some times are missing or infinite.")
    return times


def _quantiles(times: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """First times of all bins but the first, which hold about as many each."""
    edges = np.unique(np.quantile(times, np.linspace(0, 1, n_bins + 1)[1:-1]))
    return edges[edges > times.min()]


def _calendar_bin(times: NDArray[np.float64], freq: str) -> NDArray[np.int64]:
    """Number of the calendar bin of each time, counted from 1970, in UTC."""
    if np.max(np.abs(times)) >= _LAST_TIME:
        raise ValueError(
            "Some times are beyond the year 9999: times are seconds since 1970."
        )
    moments = np.floor(times).astype(np.int64).astype("datetime64[s]")
    if freq == "W":
        # 1 January 1970 was a Thursday; weeks begin on Monday.
        return (moments.astype("datetime64[D]").astype(np.int64) + 3) // 7
    return moments.astype(f"datetime64[{freq}]").astype(np.int64)
