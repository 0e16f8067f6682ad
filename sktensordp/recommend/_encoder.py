"""`CoordinateEncoder`: from columns of a table to coordinates of a tensor."""

from __future__ import annotations

import math
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from .._sklearn_compat import Interval, StrOptions, fit_context
from .._validation import (
    as_numpy,
    check_container,
    check_coordinates,
    check_numeric,
    check_ordered,
    check_unmasked,
    checked,
    declared_list,
    is_complex,
    malformed,
    names_of,
    warn,
    with_names,
)
from ..base import EstimatorMixin, StorableMixin
from ..completion._likely_mistakes import (
    MOST_COLUMNS,
    check_bins,
    check_whole,
    column_name,
    contexts,
    in_columns_with_missing,
    warn_of_times,
    warn_of_values,
)
from ..completion._local import Lookups
from ..ids import Known, check_type, kinds_of, kinds_of_type
from ..ids._folds import columns_of
from ..privacy import PrivacyTags
from ..privacy.budgets._budget import record_ids

_CONTAINERS = dict, list, set, tuple, np.ndarray


class CoordinateEncoder(
    EstimatorMixin, StorableMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator
):
    """Encode user ids, item ids and times as coordinates of a tensor.

    Every column becomes one mode. In a column of ids, every id that `fit` has seen gets
    one index, in sorted order; ids that only `partial_fit` has seen follow. If
    `time_bins` or `freq` is given, the last column holds times, which are binned.

    Parameters
    ----------
    time_bins : int, default=None
        Number of time bins, up to 2**20. Bins hold about equal numbers of rows: their
        edges are quantiles of the times in `fit`, and there are fewer bins if times
        coincide. Earlier and later times fall into the first and the last bin.
    freq : {"h", "D", "W", "M", "Y"}, default=None
        Calendar bins: hours, days, weeks from Monday, months or years, in UTC. Times
        are seconds since 1970 or datetimes. Bins before the first or after the last
        one that `fit` has seen are unknown (-1).
    categories : list of (array-like of shape (n_ids,) or None), default=None
        For every column of ids, a public catalogue of all ids, in the order of their
        indices, such as all films on offer. `fit` then learns nothing from that column
        and refuses other ids. None learns the ids from the data. If all columns are
        declared, so is the shape: pass it on, as in
        ``CPCompletion(unit=0, shape=encoder.declared_shape)``. A `Recommender` passes
        it on itself, and needs no list of the users if they are protected:
        ``categories=[None, films]``.

    Attributes
    ----------
    categories_ : list of ndarray
        The ids of every column of ids, by index.
    shape_ : tuple of int
        Sizes of the modes.
    declared_shape : tuple of int
        Public sizes of the modes, from `categories`; needs no fit. Raises an
        AttributeError if part of the shape is learned from the data.
    time_edges_ : ndarray
        Set with `time_bins`: the start of every bin but the first, in seconds since
        1970.
    time_start_ : int
        Set with `freq`: number of the first bin, counted from 1970.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, if the input has any.

    Notes
    -----
    The encoder does not protect what it learns: it publishes the ids that occur (its
    vocabulary) and the times (the edges of its bins). This suits the unit "entry",
    which protects values at public coordinates. If all entries of a user are protected,
    declare `categories`; otherwise ``privacy_of`` reports that the pipeline protects
    nobody.

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
    _binning: tuple[int | None, str | None]
    _lookups: Lookups
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

    def _validate_params(self) -> None:
        super()._validate_params()
        # This comes before a recommender clones the encoder: some invalid values cannot
        # be copied.
        for k, ids in enumerate(self.categories or ()):
            if not isinstance(ids, str):
                check_ordered(ids, f"categories[{k}]")

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
            Ids (integers or strings); times in the last column if they are binned.
        y : None
            Ignored.

        Returns
        -------
        self : CoordinateEncoder

        Raises
        ------
        ValueError
            If both `time_bins` and `freq` are given, an id or a time is missing, the
            last column cannot be read as times, ids are numbers with fractions, or an
            id is not among `categories`.
        """
        with self._progress() as on_step:
            self._learn(X, first=True)
            on_step()
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn further ids and later calendar bins; known ones keep their indices.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            As for `fit`. Quantiles and the first calendar bin stay those of the first
            call.
        y : None
            Ignored.

        Returns
        -------
        self : CoordinateEncoder

        Raises
        ------
        ValueError
            As `fit`, if `time_bins` or `freq` has changed since the first call, or if
            a column of numbers gets ids of another type, or the reverse.
        """
        first = not hasattr(self, "shape_")
        if not first and self._binning != (self.time_bins, self.freq):
            raise ValueError(
                "time_bins and freq must stay those of the first call; call fit to "
                "change them."
            )
        return self._learn(X, first=first)

    def _learn(self, X: ArrayLike, first: bool) -> Self:
        n_columns = 1 + self._has_time if first else 1
        ids, times = self.split(X, reset=first, ensure_min_features=n_columns)
        n_rows = len(times if times is not None else ids[0])
        if not first and not n_rows:
            return self  # There is nothing to learn.
        declared = catalogues_of(self, len(ids))
        distinct = [
            distinct_ids(column) if catalogue is None else column
            for catalogue, column in zip(declared, ids, strict=True)
        ]
        return self._learn_distinct(distinct, times, n_rows, first=first)

    def _learn_distinct(
        self,
        ids: Sequence[NDArray[Any]],
        times: NDArray[np.float64] | None,
        n_rows: int,
        *,
        first: bool,
    ) -> Self:
        """Learn from columns; those of which ids are learned have each id once."""
        declared = catalogues_of(self, len(ids))
        learns_last = first and times is None and declared[-1] is None
        is_time = learns_last and isinstance(ids[-1][0], date | np.datetime64)
        names = getattr(self, "feature_names_in_", None)
        others = contexts(names, len(ids)) if first else []
        if is_time:
            warn(
                "The last column holds datetimes, and each of them becomes an index of "
                "its own. To bin them, pass freq, such as freq='W', or time_bins."
            )
        # Everything that may fail comes first, so that a failed call changes nothing.
        learned = []
        for k, (catalogue, column) in enumerate(zip(declared, ids, strict=True)):
            if catalogue is None:
                check_whole(column, column_name(names, k))
                if len(ids) > 2:
                    warn_of_values(column, names, k)
                if k in others and not (is_time and k == len(ids) - 1):
                    warn_of_times(column, n_rows, names, k)
                known = column if first else _extended(self.categories_[k], column)
                learned.append(known)
            elif np.any(index_of_ids(Known(catalogue), column) == -1):
                raise malformed(
                    "categories",
                    f"Some ids of column {k} are not among categories[{k}]. List every "
                    f"public id there, including those that may come later.",
                )
            else:
                learned.append(catalogue)
        shape = tuple(map(len, learned))
        binning: dict[str, Any] = {}
        if times is not None and self.time_bins is not None:
            edges = _quantiles(times, self.time_bins) if first else self.time_edges_
            shape += (len(edges) + 1,)
            binning = {"time_edges_": edges}
        elif times is not None and self.freq is not None:
            bins = calendar_bins(times, self.freq)
            start = int(bins.min()) if first else self.time_start_
            n_bins = int(bins.max()) - start + 1
            shape += (n_bins if first else max(n_bins, self.shape_[-1]),)
            ends = _starts_of(np.array([start, start + n_bins - 1]), self.freq)
            years, of_rows = [str(end)[:4] for end in ends], n_rows if first else None
            # Batches leave only the ends of their times.
            used = bins if first and len(bins) == n_rows else np.array([], np.int64)
            check_bins(years, n_bins, of_rows, self.freq, used)
            binning = {"time_start_": start}
        if self._publishes_ids:
            name, unprotected = type(self).__name__, self.__privacy_unprotected__()
            record_ids(name, unprotected, self._marks())
        for name in {"time_edges_", "time_start_"} & vars(self).keys():
            delattr(self, name)
        self.__dict__.update(binning)
        self.categories_, self.shape_, self._lookups = learned, shape, Lookups()
        self._binning = self.time_bins, self.freq
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.int64]:
        """Encode rows as coordinates.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)

        Returns
        -------
        coordinates : ndarray of shape (n_rows, n_columns), int64
            -1 for an unknown id or calendar bin.

        Raises
        ------
        ValueError
            If an id or a time is missing, ids are of another type than those of `fit`
            (numbers, booleans, text, bytes, times or other objects), ids are floats too
            large to represent integers exactly, or the last column cannot be read as
            times.
        """
        check_is_fitted(self)
        ids, times = self.split(X, reset=False)
        for k, column in enumerate(ids):
            check_kinds(self._known(k).kinds, kinds_of(column), k)
        return self.encode(ids, times)

    def encode(
        self, ids: Sequence[NDArray[Any]], times: NDArray[np.float64] | None = None
    ) -> NDArray[np.int64]:
        """Encode columns, as `split` returns them.

        Parameters
        ----------
        ids : list of ndarray of shape (n_rows,)
        times : ndarray of shape (n_rows,), default=None
            In seconds since 1970, if times are binned.

        Returns
        -------
        coordinates : ndarray of shape (n_rows, n_columns), int64
            -1 for an unknown id or calendar bin.
        """
        columns = [index_of_ids(self._known(k), column) for k, column in enumerate(ids)]
        if times is not None:
            columns += [self._bins_of(times)]
        return np.column_stack(columns)

    def split(
        self,
        X: ArrayLike,
        *,
        reset: bool = False,
        named: bool = True,
        **options: object,
    ) -> tuple[list[NDArray[Any]], NDArray[np.float64] | None]:
        """Split a table into columns of ids and times.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_columns)
        reset : bool, default=False
            Whether to learn the number and the names of the columns, as a fit does.
        named : bool, default=True
            Whether to learn or compare names of columns.
        **options : dict
            For scikit-learn's ``check_array``.

        Returns
        -------
        ids : list of ndarray of shape (n_rows,)
        times : ndarray of shape (n_rows,) or None
            In seconds since 1970; None if the encoder bins no times.

        Raises
        ------
        ValueError
            If an id or a time is missing, the last column cannot be read as times, or
            both `time_bins` and `freq` are given.
        """
        if self.time_bins is not None and self.freq is not None:
            raise ValueError("Pass time_bins or freq, not both.")
        # If nothing is learned, an error would reveal that there are no rows.
        options["ensure_min_samples"] = int(self._publishes_ids and reset)
        check: partial[Any] = partial(check_array, estimator=self, **options)
        if named:
            check = partial(validate_data, self, reset=reset, **options)
        ids, times = checked_ids(check, X, is_public=self._publishes_ids), None
        if self._has_time:
            *ids, times = ids
            times = seconds_of(times)
        if self._publishes_ids:
            for column in ids:
                _check_distinct(column)
        return ids, times

    def _bins_of(self, times: NDArray[np.float64]) -> NDArray[np.int64]:
        """Bins of times; -1 for an unknown calendar bin."""
        if self.freq is None:
            return np.searchsorted(self.time_edges_, times, side="right")
        bins = calendar_bins(times, self.freq) - self.time_start_
        bins[(bins < 0) | (bins >= self.shape_[-1])] = -1
        return bins

    def inverse_transform(self, X: ArrayLike) -> NDArray[np.object_]:
        """Decode coordinates to ids and times.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Coordinates, with -1 for unknown.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_columns), object
            Ids; None for -1. A time is the start of its bin: in seconds since 1970 with
            `time_bins` (-inf for the first bin), a datetime with `freq`.

        Raises
        ------
        ValueError
            If a coordinate is fractional, below -1 or outside `shape_`.
        """
        check_is_fitted(self)
        check_numeric(X, "X")
        where = check_coordinates(
            checked(check_array, X),
            shape=self.shape_,
            allow_unknown=True,
            name=type(self).__name__,
        )
        rows = np.empty(where.shape, dtype=object)
        for column in range(where.shape[1]):
            rows[:, column] = self.ids(where[:, column], column)
        return rows

    def _known(self, column: int) -> Known:
        """The known ids of a column, sorted or hashed on first use."""
        known = self.categories_[column]
        lookups = self.__dict__.setdefault("_lookups", Lookups())
        return lookups.get(f"column {column}", known, lambda: Known(known))

    def ids(self, indices: ArrayLike, column: int) -> NDArray[np.object_]:
        """Decode the indices of one column.

        Parameters
        ----------
        indices : array-like of int
            Indices, in any shape, with -1 for unknown.
        column : int
            Number of the column.

        Returns
        -------
        ids : ndarray of object
            In the shape of `indices`: ids, or starts of time bins; None for -1.
        """
        # The type is always object; another type would reveal that no index is -1.
        indices = np.asarray(indices)
        ids = np.full(indices.shape, None, dtype=object)
        is_known = indices >= 0
        ids[is_known] = names_of_column(self, column)[indices[is_known]].astype(object)
        return ids

    @property
    def declared_shape(self) -> tuple[int, ...]:
        """Public sizes of the modes, from `categories`; needs no fit.

        Raises
        ------
        AttributeError
            If part of the shape is learned from the data.
        """
        if self.categories is None or self._publishes_ids:
            raise AttributeError(
                "The shape is public only if `categories` declares every column and no "
                "times are binned. Pass categories=[user_ids, item_ids], without "
                "time_bins and freq."
            )
        declared = catalogues_of(self, len(self.categories))
        return tuple(len(ids) for ids in declared if ids is not None)

    def __privacy_tags__(self) -> PrivacyTags:
        return PrivacyTags(publishes_ids=self._publishes_ids)

    @property
    def _publishes_ids(self) -> bool:
        """Whether `fit` learns ids or times from the data, and so publishes them."""
        # Tags are asked for before a fit refuses what is no list.
        declared = self.categories if isinstance(self.categories, Iterable) else [None]
        return any(c is None for c in declared) or self._has_time

    @property
    def _has_time(self) -> bool:
        return self.time_bins is not None or self.freq is not None

    def __privacy_unprotected__(self) -> list[str]:
        if not self._publishes_ids:
            return ["The declared catalogue of ids is public."]
        return [
            "The ids and times that occur are public: CoordinateEncoder publishes "
            "them as its vocabulary and its bins."
        ]


def catalogues_of(
    encoder: CoordinateEncoder, n_columns: int, first_column: int = 0
) -> Sequence[NDArray[Any] | None]:
    """The catalogue of every column of ids; None if its ids are learned.

    Messages count columns from `first_column`.
    """
    if encoder.categories is None:
        return [None] * n_columns
    if len(encoder.categories) != n_columns:
        raise ValueError(
            f"categories must have one item for each of the "
            f"{first_column + n_columns} columns of ids, got "
            f"{first_column + len(encoder.categories)}."
        )
    return [
        None if ids is None else _catalogue(ids, f"categories[{first_column + k}]")
        for k, ids in enumerate(encoder.categories)
    ]


def declares(
    encoder: CoordinateEncoder, X: ArrayLike, first_column: int = 0, *, by_type: bool
) -> NDArray[np.bool_]:
    """Whether all ids of each row are in `categories`, in columns that these declare.

    Parameters
    ----------
    encoder : CoordinateEncoder
    X : array-like or data frame of shape (n_rows, n_columns)
    first_column : int, default=0
        Messages count columns from here.
    by_type : bool
        Whether ids of another kind are refused only by the types of columns. The ids
        are private then, and an id of another kind is just unknown.

    Raises
    ------
    ValueError
        If ids are numbers and the declared ids are not, or the reverse.
    """
    ids, _ = encoder.split(X, reset=True)
    declared = np.ones(len(ids[0]), dtype=bool)
    catalogues, types = catalogues_of(encoder, len(ids), first_column), types_of(X)
    for k, (catalogue, column) in enumerate(zip(catalogues, ids, strict=True)):
        if catalogue is not None:
            kinds = kinds_of_type(types[k]) if by_type else kinds_of(column)
            number = first_column + k
            check_kinds(kinds_of(catalogue), kinds, number)
            check_type(types[k], catalogue, f"column {number}", f"categories[{number}]")
            declared &= index_of_ids(Known(catalogue), column) != -1
    return declared


def learn(
    encoder: CoordinateEncoder,
    ids: Sequence[NDArray[Any]],
    times: NDArray[np.float64] | None,
    n_rows: int,
) -> None:
    """Fit an encoder that knows its columns to the ids that occur in them.

    Parameters
    ----------
    encoder : CoordinateEncoder
        Its `split` has read a first batch with ``reset=True``.
    ids : list of ndarray of shape (n_ids,)
        The distinct ids of each column, in sorted order. Those of a declared column are
        compared with its catalogue.
    times : ndarray of shape (n_rows,) or None
        In seconds since 1970, if times are binned.
    n_rows : int
    """
    encoder._learn_distinct(ids, times, n_rows, first=True)


def indices_of(
    encoder: CoordinateEncoder, values: NDArray[Any], column: int
) -> NDArray[np.int64]:
    """Encode ids or times of one column of a fitted encoder; -1 if unknown."""
    if column < len(encoder.categories_):
        return index_of_ids(encoder._known(column), values)
    return encoder._bins_of(seconds_of(values, "context"))


def known_kinds(encoder: CoordinateEncoder, column: int) -> set[str]:
    """The kinds of the ids that a fitted encoder knows in a column."""
    return encoder._known(column).kinds


def names_of_column(encoder: CoordinateEncoder, column: int) -> NDArray[Any]:
    """The id, or the first time, of every index of a column of a fitted encoder."""
    if column < len(encoder.categories_):
        return encoder.categories_[column]
    if encoder.time_bins is not None:
        return np.append(-np.inf, encoder.time_edges_)
    return _starts_of(encoder.time_start_ + np.arange(encoder.shape_[-1]), encoder.freq)


def checked_ids(
    check: partial[Any], X: ArrayLike, *, is_public: bool = False
) -> list[NDArray[Any]]:
    """Check a table of ids and times, and return its columns as arrays.

    Every column of a data frame keeps its own type.

    Parameters
    ----------
    check : partial
        scikit-learn's `check_array`, or `validate_data` for an estimator, which then
        learns or compares the names of the columns.
    X : array-like of shape (n_rows, n_columns)
    is_public : bool, default=False
        Whether messages may reveal in which columns ids are missing, and whether an id
        is a tuple.

    Raises
    ------
    ValueError
        If an id or a time is missing, or public ids are tuples or other containers.
    """
    check_unmasked(X, "X")
    check_container(X, "X")
    X, missing = with_names(X), False
    try:
        columns = _checked_columns(check, X, is_public)
        kinds = {kind for c in columns if c.dtype == object for kind in map(type, c)}
        missing = any(kind.__name__ in ("NoneType", "NAType") for kind in kinds)
    except (TypeError, ValueError) as error:
        # pandas.NA has no truth value when it is compared.
        message = str(error)
        missing = "NA is ambiguous" in message or "contains NaN" in message
        if not missing:
            raise
    if missing:
        where = in_columns_with_missing(X) if is_public else ""
        advice = "Leave their rows out."
        if is_public and np.ndim(X) == 2 and np.shape(X)[1] > MOST_COLUMNS:
            advice = (
                "A wide table, with a row for each user, has to be stacked first, as "
                "by X.stack().reset_index(): a row for each value."
            )
        raise malformed("ids", f"Some ids or times{where} are missing (NaN). {advice}")
    return columns


def _checked_columns(
    check: partial[Any], X: Any, is_public: bool
) -> list[NDArray[Any]]:
    if names_of(X) is None:
        X = exact_rows(X)
        if is_public and not issparse(X):  # scikit-learn refuses sparse arrays
            _check_single(as_numpy(X, "X"))
        return list(checked(check, X, dtype=None).T)
    # The estimator learns the frame's names, and scikit-learn checks its size.
    shape = tuple(X.shape)
    if check.func is validate_data:
        checked(check, X, skip_check_array=True)
    sizes = {k: v for k, v in check.keywords.items() if k.startswith("ensure_min")}
    checked(check_array, np.broadcast_to(np.int8(), shape), **sizes)
    return [_checked_column(column, is_public) for column in columns_of(X)]


def _checked_column(column: Any, is_public: bool) -> NDArray[Any]:
    """A column of a frame as an array; times become objects, which keep their units."""
    if hasattr(column, "null_count") and column.null_count():
        # NumPy uses floats with NaN for it.
        raise malformed("ids", "Input X contains NaN.")
    array = column.to_numpy()
    if array.dtype.kind == "M":
        is_pandas = hasattr(column, "astype")
        times = column if is_pandas else array
        array = np.asarray(times.astype(object))
    if is_public:
        _check_single(array)
    options = {"dtype": None, "ensure_min_samples": 0, "ensure_min_features": 0}
    return checked(check_array, array.reshape(-1, 1), **options)[:, 0]


def _check_single(ids: NDArray[Any]) -> None:
    """Refuse ids that are containers: NumPy and `recommend` would take them apart."""
    kinds = set(map(type, ids.flat)) if ids.dtype == object else ()
    if any(issubclass(kind, _CONTAINERS) for kind in kinds):
        raise ValueError(
            "Some ids are tuples, lists or the like. An id must be a number, a string "
            "or another single object: join its parts into a string."
        )


def exact_rows(X: object) -> Any:
    """Rows of a list as objects if they hold integers that floats would round."""
    if not isinstance(X, list | tuple):
        return X
    array = as_numpy(X, "X")
    if array.dtype.kind == "f" and not np.all(_are_distinct(array)):
        objects = np.array(X, dtype=object)
        large = objects[~_are_distinct(array)]
        if all(isinstance(id_, Integral) for id_ in large):
            return objects
    return X


def check_kinds(known: set[str], passed: set[str], number: int) -> None:
    """Refuse text if the known ids are numbers, and the like: no id would be known.

    Parameters
    ----------
    known, passed : set of str
        Kinds of ids, judged by the ids or by the type of their column.
    number : int
        Number of the column.
    """
    differing = passed - known
    if differing:
        advice = (
            "Convert them to text: X.astype(str) of an array or a frame, or str(id) of "
            "an id."
            if known == {"text"}
            else "Convert them. (In an array or a list of lists, numbers next to text "
            "become text; in a data frame, they stay numbers.)"
        )
        raise malformed(
            "types",
            f"The known ids of column {number} are {' and '.join(sorted(known))}, but "
            f"some of those passed are {' and '.join(sorted(differing))}. {advice}",
        )


def types_of(X: Any) -> list[Any]:
    """The type of every column of a table; it is public even if ids are private."""
    if hasattr(X, "dtypes"):
        return list(X.dtypes)
    return [X.dtype] * X.shape[1]


def _are_distinct(ids: NDArray[Any]) -> bool | NDArray[np.bool_]:
    """Whether no id is a float too large to represent integers exactly."""
    if ids.dtype.kind != "f":
        return True
    return np.abs(ids) < 2 / np.finfo(ids.dtype).eps


def _check_distinct(ids: NDArray[Any]) -> None:
    """Refuse floats too large to represent integers exactly."""
    if not np.all(_are_distinct(ids)):
        largest = 2 / np.finfo(ids.dtype).eps
        raise ValueError(
            f"Ids from 2**{math.log2(largest):.0f} on cannot be told apart as "
            f"floats. Pass integers or strings: one column of floats turns a whole "
            f"array into floats."
        )


def distinct_ids(column: NDArray[Any]) -> NDArray[Any]:
    """The ids of a column, in sorted order."""
    if column.dtype != object:
        return np.unique(column)
    try:
        ids = sorted(set(column.tolist()))
    except TypeError:
        raise TypeError(
            "The ids of a column must be all strings or all numbers."
        ) from None
    distinct = np.empty(len(ids), dtype=object)
    distinct[:] = ids
    return distinct


def numbers_of(column: NDArray[Any]) -> NDArray[np.int64]:
    """Number of rows of each id of a column."""
    if column.dtype == object:
        return np.fromiter(Counter(column.tolist()).values(), dtype=np.int64)
    return np.unique(column, return_counts=True)[1]


def _catalogue(ids: object, name: str = "categories") -> NDArray[Any]:
    """Check a declared list of ids."""
    if isinstance(ids, str):
        raise ValueError(
            f"{name} holds {reprlib.repr(ids)}, but needs a list of ids for each "
            f"column, or None to learn them from the data."
        )
    if isinstance(ids, list | tuple) and as_numpy(ids, name).ndim == 1:
        # An array would turn numbers and None beside text into text.
        given = declared_list(np.array(ids, dtype=object), name)
        if len(kinds_of(given)) > 1:
            raise ValueError(
                f"{name} mixes {', '.join(sorted(kinds_of(given)))}. Convert its ids "
                f"to one type."
            )
    array = declared_list(exact_rows(ids), name)
    _check_single(array)
    _check_distinct(array)
    if len(distinct_ids(array)) != len(array):
        raise ValueError(f"{name} lists some ids more than once.")
    return array


def _extended(known: NDArray[Any], ids: NDArray[Any]) -> NDArray[Any]:
    """Known ids, followed by the new ones."""
    if (known.dtype.kind in "iufb") != (ids.dtype.kind in "iufb"):
        raise ValueError(
            "A column that held numbers must stay numbers, and one that held other ids "
            "must not get numbers."
        )
    new = ids[index_of_ids(Known(known), ids) == -1]
    if not len(new):
        return known
    if {known.dtype.kind, new.dtype.kind} == {"i", "u"}:
        known, new = known.astype(object), new.astype(object)
    return np.concatenate([known, new])


def index_of_ids(known: Known, column: NDArray[Any]) -> NDArray[np.int64]:
    """Index of every id among the known ids; -1 if it is unknown.

    Floats too large to represent integers exactly are unknown.
    """
    return np.where(_are_distinct(column), known.find(column), -1)


def seconds_of(
    column: NDArray[Any], name: str = "The last column"
) -> NDArray[np.float64]:
    """Times as seconds since 1970; messages name their column, or parameter."""
    times, has_complex = None, is_complex(column)
    try:
        if column.dtype == object and any(getattr(t, "tzinfo", None) for t in column):
            # NumPy has no time zones; NaT differs from itself.
            column = np.array([t.timestamp() if t == t else np.nan for t in column])
        elif column.dtype == object and not isinstance(
            next(iter(column), 0.0), (int, float, str)
        ):
            column = column.astype("datetime64[s]")
        if column.dtype.kind == "M":
            missing = np.isnat(column)
            column = column.astype("datetime64[s]").astype(np.int64)
            column = np.where(missing, np.nan, column)
        with np.errstate(over="ignore"):
            times = None if has_complex else column.astype(float)
    except (AttributeError, OverflowError, TypeError, ValueError):
        pass
    # Raised outside the handler, so that the context does not show a time.
    if times is None and "text" in kinds_of(column):
        raise ValueError(
            f"{name} holds text, but needs times: seconds since 1970 or datetimes. "
            f"Convert it, such as by pandas.to_datetime."
        )
    if times is None:
        raise ValueError(f"{name} must hold times: seconds since 1970 or datetimes.")
    if not np.all(np.isfinite(times)):
        raise ValueError("Some times are missing or infinite.")
    return times


def _quantiles(times: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """First times of all bins but the first; bins hold about equal numbers of rows."""
    edges = np.unique(np.quantile(times, np.linspace(0, 1, n_bins + 1)[1:-1]))
    return edges[edges > times.min()]


def _starts_of(bins: NDArray[np.int64], freq: str | None) -> NDArray[np.datetime64]:
    """First day or hour of calendar bins, which are counted from 1970."""
    if freq == "W":
        return (7 * bins - 3).astype("datetime64[D]")
    return bins.astype(f"datetime64[{freq}]")


def calendar_bins(times: NDArray[np.float64], freq: str) -> NDArray[np.int64]:
    """Number of the calendar bin of each time, counted from 1970, in UTC."""
    year_10000 = 253_402_300_800
    if np.max(np.abs(times), initial=0.0) >= year_10000:
        raise ValueError(
            "Some times are beyond the year 9999. Pass seconds since 1970 or datetimes."
        )
    moments = np.floor(times).astype(np.int64).astype("datetime64[s]")
    if freq == "W":
        # 1 January 1970 was a Thursday; weeks begin on Monday.
        return (moments.astype("datetime64[D]").astype(np.int64) + 3) // 7
    return moments.astype(f"datetime64[{freq}]").astype(np.int64)
