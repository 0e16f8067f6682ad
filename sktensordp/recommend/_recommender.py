"""`Recommender`: from a table with ids to recommendations in ids."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import Tags, check_array, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .._dask import is_dask, is_series, named_columns
from .._sklearn_compat import (
    HasMethods,
    StrOptions,
    available_if,
    fit_context,
    framed,
    output_of,
    safe_indexing,
    validate_params,
)
from .._validation import (
    as_numpy,
    check_aligned,
    check_container,
    check_numeric,
    check_same_length,
    check_unmasked,
    checked,
    malformed,
    names_of,
    warn,
    with_names,
)
from ..base import (
    EstimatorMixin,
    StorableMixin,
    counted_by,
    counting_for,
    describe_unit,
    time_is_public,
)
from ..completion._base import BaseCompletion
from ..completion._checks import (
    CHOICES_HAVE_NO_VALUES,
    check_distributed,
    check_entries,
    is_empty_list,
    is_sparse,
)
from ..completion._entries import is_observed
from ..completion._fitted import keeping_names_if_refused
from ..completion._implicit import ImplicitCompletion
from ..completion._likely_mistakes import (
    column_name,
    look_like_values,
    warn_if_empty,
    warn_of_items,
    warn_of_levels,
    warn_of_many_modes,
    warn_of_swapped_columns,
)
from ..completion._local import N_RESERVED, LocalUsers
from ..completion._problem import unit_of
from ..completion._ranking import hide_users
from ..completion._sources import HasUnit
from ..ids import in_order_of, kinds_of, kinds_of_type, lists_of, one_or_each
from ..privacy import PrivacyGuarantee
from ..privacy._protocol import privacy_tags
from ._batches import (
    Batches,
    RowsOfBatches,
    of_pairs,
    opened,
    table_and_values,
)
from ._encoder import (
    CoordinateEncoder,
    catalogues_of,
    check_kinds,
    checked_ids,
    declares,
    exact_rows,
    indices_of,
    known_kinds,
    names_of_column,
    numbers_of,
    types_of,
)

_NAME = "side_information of mode {}"
_SPELT = "Check the order of the columns, and how ids are spelt."
# Of fewer rows, half may be new items.
_LEAST_ASKED = 10
_NONE_DECLARED = (
    "There is nothing to fit: no row has ids that are all among the declared "
    "`categories`. Are they listed in the order of the columns, and spelt as in X?"
)
_NO_ROW = "There is nothing to fit: X has no row with an observed value."
_AS_BATCHES = "fit_batches(lambda: (part.compute() for part in frame.to_delayed()))"
_SWAPPED = "The first column holds ids of items: users come first."
# Ids of synthetic users: functions of the row's number alone. Numbers that no user has
# would tell which ones users have.
_SYNTHETIC = "synthetic-"
_IS_SYNTHETIC = re.compile(_SYNTHETIC + r"\d+", re.ASCII)


class _Completion(HasUnit, Protocol):
    """What a recommender reads and calls of a completion before its fit."""

    @property
    def shape(self) -> Sequence[int] | None:
        """Shape of the tensor; None if it is not declared."""

    def set_params(self, **params: object) -> object:
        """Set parameters."""


class _Table(Protocol):
    """An array or a data frame, with a column for each mode."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""


def _has(method: str) -> Callable[[Recommender], bool]:
    """A function that checks whether the completion of a recommender has a method."""

    def check(recommender: Recommender) -> bool:
        getattr(recommender.completion, method)  # its error says why there is none
        return True

    return check


def protected_rows(unit: int | None, names: Sequence[str] | None) -> str:
    """The rows that a fit protects, by the name of their column; "" if it is values.

    Names of columns are public. But one with digits is not shown: it may be an id, of
    a table that was read without its header.
    """
    if unit is None:
        return ""
    name = "" if names is None else names[unit]
    if name and not re.search(r"\d", name):
        return f"all rows with the same {name!r}"
    kinds = {0: "all rows of one user", 1: "all rows of one item"}
    return kinds.get(unit, f"all rows with one value in column {unit}")


class Recommender(EstimatorMixin, StorableMixin, MetaEstimatorMixin, BaseEstimator):
    """Recommend items to users, from a table with ids.

    Pass a table whose first column holds users and whose second column holds items. The
    encoder turns ids into coordinates, and the completion is fitted to the coordinates.
    The completion determines what is protected: by default, the value of each entry;
    with ``unit=0``, everything about each user.

    Parameters
    ----------
    completion : CPCompletion, TuckerCompletion or ImplicitCompletion
        A clone of it is fitted. Leave its `shape` at None: the recommender sets it on
        the clone.
    encoder : CoordinateEncoder, default=None
        A clone of it is fitted. None is ``CoordinateEncoder()``, which learns all ids
        from the table. If users are protected (``unit=0``), the encoder may learn
        nothing: declare the ids of all other columns, and leave the users out, as in
        ``CoordinateEncoder(categories=[None, films])``. There is room for any number of
        users.
    handle_unknown : {"drop", "error"}, default="drop"
        What `fit` and `fold_in` do with a row if one of its ids is not among the
        `categories` of its column: leave the row out, or refuse the table. Users of
        `fold_in` may be new. With "error", `predict`, `score`, `recommend` and
        `similar_items` refuse unknown ids, too; None stands for an unknown user or item
        in any case. If entries are protected, the warning or error states how
        many such rows there are. If `unit` is a mode, only "drop" is possible, since an
        error would reveal that somebody has such an id; the fit then warns if its
        release shows that hardly any row is left.

    Attributes
    ----------
    completion_ : estimator
        The fitted clone. With ``unit=0``, the users' coordinates are numbers of rows,
        which only this object can map to users.
    encoder_ : CoordinateEncoder
        The fitted clone. With ``unit=0``, it encodes all columns but the users'.
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of everything that the fit releases.
    release_ids_ : tuple of str
        Ids of the releases that the model holds, as in the log and in budgets.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, if the table has any. They are public: the guarantee, the
        log and budgets name what is protected by them.

    See Also
    --------
    CoordinateEncoder : The encoder, with times and catalogues.
    sktensordp.privacy.privacy_of : What a recommender or a search reveals.

    Notes
    -----
    **Who is protected.** By default, the value of each entry, and who rated what is
    public. If the completion has ``personal=True``, or users are folded in, their
    answers are computed from their own raw values. With ``unit=0``, everything about
    each user is protected, including who is in the data: whoever gets a pickle, a deep
    copy or the recommendations for others learns no more about a user than
    `privacy_guarantee_` allows. No public attribute, pickle, deep copy or text holds
    the ids of users. After loading, every user is unknown until `fold_in` gets that
    user's entries again.

    With ``unit=0``, users' rows are drawn at random among 2**31 - 2, so the rows of all
    other users have the same distribution whether or not a user is in the data. Given
    the rows, the guarantee is that of `completion_`, so it holds for the recommender.

    Equal ids are one user: 17 and 17.0 are the same, and "17" is another. Ids of
    another type than the known ones are refused. If `unit` is a mode, only the public
    type of their column can refuse them; otherwise an id of another type is unknown.
    Columns have no type in a list of rows, nor if they hold text in pandas 2, unless
    you convert them (``convert_dtypes``).

    Examples
    --------
    >>> from sktensordp.completion import CPCompletion, Recommender
    >>> table = [["ann", "Heat"], ["ann", "Up"], ["bob", "Heat"], ["eve", "Brazil"]]
    >>> model = Recommender(CPCompletion(rank=0, levels=[1, 2, 3, 4, 5]))
    >>> model = model.fit(table, [5, 1, 4, 3])
    >>> sorted(model.recommend("bob", k=2).tolist())
    ['Brazil', 'Up']

    With users protected, items are declared, and users are not:

    >>> from sktensordp.completion import CoordinateEncoder
    >>> model = Recommender(
    ...     CPCompletion(rank=0, unit=0, levels=[1, 2, 3, 4, 5]),
    ...     CoordinateEncoder(categories=[None, ["Brazil", "Heat", "Up"]]),
    ... ).fit(table, [5, 1, 4, 3])
    >>> model = model.fold_in([["zoe", "Up"]], [2])
    >>> sorted(model.recommend("zoe", k=2).tolist())
    ['Brazil', 'Heat']
    >>> print(model.privacy_guarantee_)
    This fit: (epsilon = 1, delta = 1e-06)-differential privacy for all rows of one user
    (add-or-remove), if answers for a person are shown to that person only.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "completion": [HasMethods(["fit", "predict", "recommend"])],
        "encoder": [CoordinateEncoder, None],
        "handle_unknown": [StrOptions({"drop", "error"})],
    }

    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    _fitted: _Fitted

    def __init__(
        self,
        completion: BaseCompletion | ImplicitCompletion,
        encoder: CoordinateEncoder | None = None,
        *,
        handle_unknown: str = "drop",
    ) -> None:
        self.completion = completion
        self.encoder = encoder
        self.handle_unknown = handle_unknown

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        if not hasattr(self.completion, "__sklearn_tags__"):
            return tags  # A fit refuses it.
        inner = get_tags(self.completion)
        tags.estimator_type = inner.estimator_type
        tags.regressor_tags = inner.regressor_tags
        tags.target_tags = inner.target_tags
        tags.non_deterministic = inner.non_deterministic
        return tags

    @property
    def _time_is_public(self) -> bool:
        """False if the completion protects users: their rows are encoded here."""
        return time_is_public(self.completion)

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Fit to a table of ids, under the budget of the completion.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_columns)
            Users, items and further columns that the encoder encodes. Ids are numbers,
            text or other objects that can be compared, such as UUIDs. The rows of a
            Dask frame stay where they are, as in `fit` of the completion: this process
            collects the distinct ids and, for `time_bins`, the times, and workers
            encode their own partitions. Workers, the scheduler and this process are
            trusted with the ids.
        y : array-like of shape (n_rows,), default=None
            The values, finite. None for an `ImplicitCompletion`. If `X` is a Dask
            frame, a column of the same frame.

        Returns
        -------
        self : Recommender

        Raises
        ------
        ValueError
            Before any budget is charged: if parameters contradict each other, an id is
            missing, `X` and `y` have different lengths, or an id is unknown and
            ``handle_unknown="error"``. Otherwise as `fit` of the encoder and the
            completion.
        TypeError
            If `X` is a sparse array or a Dask array; or if it is a Dask frame, and `y`
            is no column of one, or the completion an `ImplicitCompletion`.
        """
        read = self._read_partitions if is_dask(X) else self._read_table
        return self._fit(partial(read, X=X, y=y))

    @available_if(_has("fit_batches"))
    @fit_context(prefer_skip_nested_validation=True)
    def fit_batches(self, batches: Batches) -> Self:
        """Fit to a table of ids that comes in batches, such as the result of a query.

        The guarantee is that of `fit` to all rows in one table and, with the same
        integer `random_state`, so is everything that is released. Batches are read
        once. Noise is drawn only after the last one was read and checked. Until then, a
        row takes 4 bytes for each column, 8 for its value (4 if it is a float32) and 8
        more if times are binned; and every distinct id is kept.

        Parameters
        ----------
        batches : iterable of batches, or function
            A batch is a pair ``(X, y)``, as for `fit`; or a data frame or an Arrow
            record batch, whose last column holds the values. For an
            `ImplicitCompletion`, it is a table `X`. All batches have the same columns
            in the same order. A function is called without arguments and returns the
            iterable, so that the query runs again in every fit.

        Returns
        -------
        self : Recommender

        Raises
        ------
        ValueError
            As `fit`; if there is no batch; and if columns of a batch differ from those
            of the first or, with ids that are private, their types do.
        TypeError
            If `batches` is one table.
        ModuleNotFoundError
            If a batch is Arrow's, and pandas is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from sktensordp.completion import CPCompletion, Recommender
        >>> batches = [
        ...     ([["ann", "Heat"], ["ann", "Up"]], [5, 1]),
        ...     ([["bob", "Heat"], ["eve", "Brazil"]], [4, 3]),
        ... ]
        >>> model = Recommender(CPCompletion(rank=0, levels=[1, 2, 3, 4, 5]))
        >>> model = model.fit_batches(batches)
        >>> sorted(model.recommend("bob", k=2).tolist())
        ['Brazil', 'Up']
        """
        return self._fit(partial(self._read_batches, batches=batches))

    def _fit(self, read: Callable[[CoordinateEncoder, Any], _Read]) -> Self:
        """Fit to what is read, by a function of the clones that are fitted."""
        encoder, completion = self._steps()
        # Without the lock, another thread might store its users with this thread's
        # model.
        lock, names = self._count_releases().lock, keeping_names_if_refused(self)
        with self._progress() as on_step, lock, names:
            local, kinds, frame, fit = read(encoder, completion)
            if completion.unit == "entry":
                self._warn_of_levels(encoder, getattr(completion, "levels", None))
                named = dict(enumerate(encoder.categories_))
                _declare_features(completion, self.completion, named)
                _declare_shape(completion, encoder.shape_)
            # Two fits of this object never share their noise, even with an int seed.
            # Not before: the names of the columns were read just now.
            describe_unit(completion, self._protected(completion))
            with counting_for(self, completion):
                fit()
            if self.__sklearn_is_fitted__():
                # The conditions of the earlier fit may have changed since.
                self._release_counts = self.__privacy_releases__()
            unit = unit_of(completion)
            self._fitted = _Fitted(encoder, completion, unit, local, kinds, frame)
            on_step()
        return self

    def _read_table(
        self,
        encoder: CoordinateEncoder,
        completion: Any,
        *,
        X: ArrayLike,
        y: ArrayLike | None,
    ) -> _Read:
        """Read a table in memory, and fit the encoder."""
        table, y, _ = self._rows_of_fit(encoder, completion, X, y)
        users, others = _split(table, completion.unit == 0)
        local = LocalUsers().joined_by(users[0]) if users else LocalUsers()
        # This is an array even if `transform` usually returns frames.
        split = encoder.fit(others).split(others)
        where = encoder.encode(*split)
        if users:
            where = np.column_stack([local.rows_of(users[0]), where])
        kinds = kinds_of_type(types_of(table)[0])
        fit = partial(completion.fit, where, y)
        return _Read(local, kinds, _frame_of(table), fit)

    def _read_batches(
        self, encoder: CoordinateEncoder, completion: Any, *, batches: Batches
    ) -> _Read:
        """Read tables that come one after the other, and fit the encoder."""
        hides_users, is_public = completion.unit == 0, completion.unit == "entry"
        rows = RowsOfBatches(encoder, hides_users=hides_users, by_type=not is_public)
        frame, has_values, n_read = None, hasattr(self, "score"), 0
        for batch in opened(batches):
            X, y = table_and_values(batch, has_values=has_values)
            is_first, n_read = n_read == 0, n_read + 1
            table, values, _ = self._observed_rows(X, y, completion, reset=is_first)
            frame = _frame_of(table) if is_first else frame
            # If ids are private, whether there are rows is, too.
            if len(table) or not is_public:
                rows.add(table, *_split(table, hides_users), values)
        if not n_read:
            raise malformed(
                "batches",
                "batches is empty, as an iterator is that was read before. Pass a "
                "function that returns a new one; if there are no rows, pass a table "
                "without rows.",
            )
        counts = of_pairs(rows.counts()) if is_public else []
        self._warn_of_columns(completion, counts)
        n_unknown = rows.drop_unknown()
        self._check_left_out(n_unknown, completion)
        if is_public and not rows.n_rows:
            raise ValueError(
                _NONE_DECLARED
                if n_unknown
                else "There is nothing to fit: no batch holds a row."
            )
        local, users = LocalUsers(), rows.fit_encoder()
        for ids in users:
            local = local.joined_by(ids)
        places = [local.rows_of(ids) for ids in users]
        fit = partial(completion.fit_batches, rows.encoded(places))
        return _Read(local, rows.kinds_of_users, frame, fit)

    def _read_partitions(
        self, encoder: CoordinateEncoder, completion: Any, *, X: Any, y: Any
    ) -> _Read:
        """Let the partitions of a Dask frame tell which ids occur; fit the encoder."""
        _check_partitions(completion, X, y)
        from ..completion._dask import paired_partitions
        from ._partitions import PartitionsOfIds

        hides_users, is_public = completion.unit == 0, completion.unit == "entry"
        empty = self._checked(named_columns(X), completion, reset=True)
        table = PartitionsOfIds(
            paired_partitions(X, y),
            partial(_rows_of_partition, _reader(completion, empty)),
            encoder,
            hides_users=hides_users,
            by_type=not is_public,
        )
        found = table.occurring()
        if found is None:
            raise ValueError(_NO_ROW)
        self._warn_of_columns(completion, of_pairs(found.counts) if is_public else [])
        self._check_left_out(found.n_rows - found.n_kept, completion)
        if is_public and not found.n_kept:
            raise ValueError(_NO_ROW)
        others = safe_indexing(empty, list(range(hides_users, empty.shape[1])), axis=1)
        checked(validate_data, encoder, others, reset=True, skip_check_array=True)
        local, rows = LocalUsers(), None
        for ids in found.fit_encoder(encoder, hides_users=hides_users):
            local = local.joined_by(ids)
            rows = dict(zip(ids.tolist(), local.rows_of(ids).tolist(), strict=True))
        fit = partial(completion.fit, *table.encoded(encoder, rows))
        return _Read(local, found.kinds[0], _frame_of(empty), fit)

    def _rows_of_fit(
        self,
        encoder: CoordinateEncoder,
        completion: _Completion,
        X: ArrayLike,
        y: ArrayLike | None,
    ) -> tuple[Any, NDArray[Any] | None, NDArray[np.intp]]:
        """Make the checks of a fit of these steps; return the rows that the fit keeps.

        Returns
        -------
        table : ndarray or data frame
        y : ndarray or None
        kept : ndarray of int
            Their numbers in `X`.
        """
        table, values, observed = self._observed_rows(X, y, completion, reset=True)
        if not len(observed) and completion.unit == "entry":
            raise ValueError(_NO_ROW)
        users, others = _split(table, completion.unit == 0)
        by_type = completion.unit != "entry"
        declared = declares(encoder, others, len(users), by_type=by_type)
        self._warn_of_columns(completion, _counts_of(encoder, others, completion))
        kept = self._kept(declared, completion)
        if not len(kept) and completion.unit == "entry":
            raise ValueError(_NONE_DECLARED)
        return safe_indexing(table, kept), _rows(values, kept), observed[kept]

    def _warn_of_columns(
        self, completion: HasUnit, counts: Sequence[NDArray[np.int64]]
    ) -> None:
        """Warn if users and items seem swapped, or values spread over columns.

        `counts` has the numbers of rows of each user and of each item, if they are
        public and learned.
        """
        if completion.unit == "entry":
            warn_of_many_modes(self.n_features_in_)
        warn_of_swapped_columns(getattr(self, "feature_names_in_", None), counts)

    def _warn_of_levels(
        self, encoder: CoordinateEncoder, levels: ArrayLike | None
    ) -> None:
        """Warn if the encoder has learned ids that look like the declared levels."""
        declared = catalogues_of(encoder, len(encoder.categories_))
        names = getattr(self, "feature_names_in_", None)
        told = getattr(encoder, "feature_names_in_", None)
        for k, ids in enumerate(encoder.categories_ if self.n_features_in_ > 2 else ()):
            # Of columns that look like values by their names, the encoder has warned.
            if declared[k] is None and not look_like_values(ids, told, k):
                advice = "declare them in `categories`"
                warn_of_levels(ids, levels, column_name(names, k), advice)

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
        """Predict the values of rows or, for choices, the scores that rank items.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_columns)
            As for `fit`. An unknown user or item gets the prediction of an average one.
        return_std : bool, default=False
            Whether to return standard deviations too, as `predict` of the completion.

        Returns
        -------
        y : ndarray of shape (n_rows,)
        std : ndarray of shape (n_rows,)
            Only with `return_std`.

        Raises
        ------
        ValueError
            If an id is missing or of another type than those of its column.
        """
        check_is_fitted(self)
        fitted = self._fitted
        where = self._known_where(fitted, X)
        if return_std:
            return fitted.completion.predict(where, return_std=True)
        return fitted.completion.predict(where)

    def recommend(
        self,
        units: object,
        k: int = 10,
        *,
        context: ArrayLike | None = None,
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        exclude_observed: bool = True,
        return_scores: bool = False,
    ) -> Any:
        """Recommend the k items that suit a user best, leaving out the user's own.

        Show the recommendations for a user to that user only: they are also computed
        from the user's own entries.

        Parameters
        ----------
        units : id or array-like of shape (n_users,)
            One user, or a list of users. None stands for an unknown user, who gets the
            recommendations of an average user. So does an unknown id. Put an id that is
            a tuple into a list.
        k : int, default=10
            Number of items for each user. At most all items are returned.
        context : array-like of shape (n_columns - 2,), default=None
            Entries of the further columns, such as the time of the recommendation; None
            for average ones.
        candidates : list or set of ids, or list of n_users of these, default=None
            The only items that may be recommended: one list for all users, or one for
            each. None admits every item. Unknown items are ignored.
        exclude : list of ids, or list of n_users such lists, default=None
            Items to leave out, in the same form.
        exclude_observed : bool, default=True
            Whether to leave out the items of the user's own entries.
        return_scores : bool, default=False
            Whether to return the scores, too.

        Returns
        -------
        items : ndarray of shape (k,) or (n_users, k), object
            Ids of items, best first, padded with None if fewer than `k` items are left;
            `json.dumps` takes ``items.tolist()``. After `set_output`, a data frame with
            a row for each user and item.
        scores : ndarray of shape (k,) or (n_users, k)
            Only with `return_scores`, and a column of the data frame, if there is one:
            predicted values or, for an `ImplicitCompletion`, scores that are neither
            values nor probabilities. NaN for None.

        Raises
        ------
        ValueError
            If an id is missing or of another type than those of its column, `k` is not
            a positive integer, `context` has another length, or there are several lists
            but not one for each user.
        """
        check_is_fitted(self)
        fitted = self._fitted
        is_single, asked = one_or_each(units, "units")
        asked = _without_missing(asked, "units", "user")
        fitted.warn_if_lost(any(id_ is not None for id_ in asked))
        where = fitted.rows_of(asked)
        self._check_known(where[_are_ids(asked)], "units")
        warn_of_items(fitted.has_items_among(asked, where))
        n_users = len(where)
        options: dict[str, Any] = {"exclude_observed": exclude_observed}
        for name, values in (("candidates", candidates), ("exclude", exclude)):
            lists = fitted.items_in(values, n_users, name, self._check_known)
            if name == "candidates" and lists and all(map(_are_unknown, lists)):
                warn("No candidate is known, so nothing is recommended. " + _SPELT)
            options[name] = lists[0] if lists and len(lists) == 1 else lists
        if context is not None:
            options["context"] = fitted.context_of(context)
        found = fitted.completion.recommend(
            where, k, return_scores=return_scores, **options
        )
        found, scores = found if return_scores else (found, None)
        items = fitted.encoder.ids(found, fitted.item_column)
        if self._wants_frame:
            return self._framed(self._names_of_columns, asked, items, scores)
        if scores is None:
            return items[0] if is_single else items
        return (items[0], scores[0]) if is_single else (items, scores)

    def similar_items(self, items: object, k: int = 10) -> Any:
        """Find similar items, by the released model alone.

        No user's own entries are read, so you may show the answer to everybody. See
        `similar_items` of the completion for what counts as similar.

        Parameters
        ----------
        items : id or array-like of shape (n_items,)
            One item, or a list of items.
        k : int, default=10
            Number of similar items for each. At most all items are returned.

        Returns
        -------
        similar : ndarray of shape (k,) or (n_items, k), object
            Ids of items, most similar first, padded with None; only None for an unknown
            item. After `set_output`, a data frame with a row for each pair.

        Raises
        ------
        ValueError
            If an id is missing or of another type than those of its column, `k` is not
            a positive integer, or the completion protects items.
        """
        check_is_fitted(self)
        fitted = self._fitted
        is_single, asked = one_or_each(items, "items")
        asked = _without_missing(asked, "items", "item")
        indices = fitted.indices_of(asked)
        self._check_known(indices[_are_ids(asked)], "items")
        if np.any(indices[_are_ids(asked)] < 0):
            warn(
                "Some of these items are unknown, so no item is similar to them. "
                + _SPELT
            )
        found = fitted.completion.similar_items(indices, k)
        similar = fitted.encoder.ids(found, fitted.item_column)
        if self._wants_frame:
            return self._framed([self._names_of_columns[1], "similar"], asked, similar)
        return similar[0] if is_single else similar

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose whether `recommend` and `similar_items` return data frames.

        A frame has one row for each user and recommended item, best first, and is not
        padded. The columns are named as in the table of the fit, or "user" and
        "item". scikit-learn's global ``set_config(transform_output=...)`` does not
        change what these methods return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            None changes nothing.

        Returns
        -------
        self : Recommender

        Raises
        ------
        ValueError
            If `transform` is none of these.
        """
        if transform is not None:
            if transform not in ("default", "pandas", "polars"):
                raise ValueError(
                    f"transform must be 'default', 'pandas' or 'polars', got "
                    f"{transform!r}."
                )
            # The attribute that clones copy.
            self._sklearn_output_config = {"transform": transform}
        return self

    @property
    def _wants_frame(self) -> bool:
        return output_of(self) != "default"

    @property
    def _names_of_columns(self) -> list[str]:
        """Names of users and items in a data frame of recommendations."""
        return list(getattr(self, "feature_names_in_", ["user", "item"])[:2])

    def _framed(
        self,
        names: list[str],
        asked: NDArray[Any],
        found: NDArray[Any],
        scores: NDArray[np.floating] | None = None,
    ) -> Any:
        """A data frame with a row for each found id, next to the requested id."""
        is_found = np.array([[id_ is not None for id_ in row] for row in found])
        asked_for = np.repeat(asked, np.count_nonzero(is_found, axis=1))
        columns = [asked_for.tolist(), found[is_found].tolist()]
        if scores is not None:
            names, columns = [*names, "score"], [*columns, scores[is_found]]
        return framed(self, dict(zip(names, columns, strict=True)), None, names)

    @available_if(_has("fold_in"))
    def fold_in(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn new or returning users from all of their rows; this releases nothing.

        Call it for users who are new, or whom the recommender lost when it was
        deep-copied or stored. What it learns about a user serves only that user's
        recommendations in this process, and replaces what it knew about the user. If
        entries are protected, the recommender then answers these users from their raw
        values. If you leave out rows that were in the fit, their randomised values
        still count.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_columns)
            All rows of these users, as for `fit`. Ids of users may be new.
        y : array-like of shape (n_rows,), default=None
            Their values. None for an `ImplicitCompletion`.

        Returns
        -------
        self : Recommender

        Raises
        ------
        ValueError
            As `fit`; and if an id is one of `sample_users`, such as "synthetic-0":
            there is nothing to learn about synthetic users.
        """
        return self._folded_in(X, y, synthetic=False)

    def _folded_in(
        self, X: ArrayLike, y: ArrayLike | None = None, *, synthetic: bool = True
    ) -> Self:
        """The same; scorers may also test on synthetic users."""
        check_is_fitted(self)
        with self._count_releases().lock:
            fitted = self._fitted
            self._check_unknown(fitted.completion)
            table, y, _ = self._observed_rows(X, y, fitted.completion)
            warn_if_empty(table)
            if not synthetic:
                _refuse_synthetic(_users_in(table))
            users, where = fitted.encoded(table)
            # Unknown users are new users.
            must_be_known = where[:, int(fitted.users_may_join) :]
            known, declared = np.all(must_be_known >= 0, axis=1), self.encoder
            is_declared = declared is not None and declared.categories is not None
            kept = self._kept(known, fitted.completion, is_declared=is_declared)
            if not len(kept):
                return self
            where, y = where[kept], _rows(y, kept)
            if fitted.users_may_join:
                fitted = fitted.joined_by(users[0][kept], where[:, 0])
            # A shallow copy, so that the other one keeps its earlier users.
            completion = copy.copy(fitted.completion)
            completion.fold_in(where, *([] if y is None else [y]))
            self._fitted = replace(fitted, completion=completion)
        return self

    def forget(self, users: object) -> Self:
        """Drop what this object holds of some users alone, such as at their request.

        These are their own rows from the fit or from `fold_in` and, unless the encoder
        declares or has learned them, their ids. They are then unknown or, if entries
        are protected, answered from what was released. Nothing that was released
        changes: the guarantee bounds what that says of a user, and counts on. Copies of
        this object have their own rows; pickles have none.

        Parameters
        ----------
        users : id or array-like of shape (n_users,)
            As in `recommend`. Unknown ids change nothing.

        Returns
        -------
        self : Recommender

        Raises
        ------
        ValueError
            If an id is missing or of another type than those of its column.

        Examples
        --------
        >>> from sktensordp.completion import (
        ...     CoordinateEncoder, ImplicitCompletion, Recommender)
        >>> films = ["Brazil", "Heat", "Up"]
        >>> model = Recommender(
        ...     ImplicitCompletion(epsilon=float("inf")),
        ...     CoordinateEncoder(categories=[None, films]))
        >>> model = model.fit([["ann", "Heat"], ["bob", "Heat"], ["bob", "Up"]])
        >>> model.recommend("ann").tolist()  # not the film that she knows
        ['Up', 'Brazil', None]
        >>> model.forget("ann").recommend("ann").tolist()  # as to somebody unknown
        ['Heat', 'Up', 'Brazil']
        """
        check_is_fitted(self)
        with self._count_releases().lock:
            fitted = self._fitted
            _, asked = one_or_each(users, "users")
            asked = _without_missing(asked, "users", "user")
            rows = fitted.rows_of(asked)
            # A shallow copy, so that the other one keeps its users.
            completion = copy.copy(fitted.completion).forget(rows[rows >= 0])
            local = fitted.local.without(asked)
            self._fitted = replace(fitted, completion=completion, local=local)
        return self

    @available_if(_has("sample_users"))
    def sample_users(
        self,
        n_users: int | None = None,
        *,
        items_per_user: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> Any:
        """Draw a table of synthetic users, with ids as in `fit`; this releases nothing.

        The table is computed only from what the fit released, so the guarantee of the
        fit covers it for every user: hand it to anybody. It is only as good as the
        model; see `sample_users` of the completion.

        Parameters
        ----------
        n_users : int, default=None
            Number of synthetic users. Their ids are "synthetic-0", "synthetic-1" and so
            on, whatever the ids of real users are, so that nobody takes them for real
            users. None takes the released number of users.
        items_per_user : array-like of int, default=None
            Numbers of items; each user's number is drawn from these. They must be
            public; `privacy_of` then lists them. None draws from the released
            histogram.
        random_state : int or None, default=None
            Seed of the draw. Nothing private depends on it.

        Returns
        -------
        X : data frame or ndarray of shape (n_rows, n_columns)
            A data frame if `fit` was given one, with the same columns; otherwise an
            array of objects.
        y : ndarray of shape (n_rows,)
            Their values. For choices, only `X` is returned.

        Raises
        ------
        ValueError
            If an argument is out of range.
        """
        check_is_fitted(self)
        fitted = self._fitted
        drawn = fitted.completion.sample_users(
            n_users, items_per_user=items_per_user, random_state=random_state
        )
        where, *values = drawn if isinstance(drawn, tuple) else (drawn,)
        columns = [np.char.add(_SYNTHETIC, where[:, 0].astype(str))]
        columns += [
            names_of_column(fitted.encoder, k)[of_column]
            for k, of_column in enumerate(where[:, 1:].T)
        ]
        if fitted.frame is None:
            table = np.empty(where.shape, dtype=object)
            for k, column in enumerate(columns):
                table[:, k] = column
        else:
            names = self.feature_names_in_
            table = fitted.frame(dict(zip(names, columns, strict=True)))
        return (table, *values) if values else table

    @available_if(_has("score"))
    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Coefficient of determination of the predictions, by ``r2_score``.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_columns)
            As for `predict`.
        y : array-like of shape (n_rows,)
            The values. The score is not private: it is computed from them.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            1 if all predictions are exact, 0 if all are the mean of `y`.

        Raises
        ------
        ValueError
            As `predict`, and if `y` does not hold one number for each row.
        """
        check_is_fitted(self)
        fitted = self._fitted
        check_aligned(X, y=y, sample_weight=sample_weight)
        where = self._known_where(fitted, X)
        return fitted.completion.score(where, y, sample_weight)

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in vars(self)

    @property
    def completion_(self) -> Any:
        """The fitted completion."""
        return self._fitted.completion

    @property
    def encoder_(self) -> CoordinateEncoder:
        """The fitted encoder."""
        return self._fitted.encoder

    @property
    def privacy_guarantee_(self) -> PrivacyGuarantee:
        """Guarantee of everything that the fit releases."""
        return self._fitted.completion.privacy_guarantee_

    def _protected(self, completion: HasUnit) -> str:
        """What is protected, in the words of the table; "" if it is single values."""
        names = getattr(self, "feature_names_in_", None)
        return protected_rows(unit_of(completion), names)

    @property
    def release_ids_(self) -> tuple[str, ...]:
        """Ids of the releases that the model holds."""
        return self._fitted.completion.release_ids_

    def _validate_params(self) -> None:
        super()._validate_params()
        if isinstance(self.completion, type):
            name = self.completion.__name__
            raise ValueError(
                f"completion must be an instance of {name}, not the class. Pass "
                f"{name}(...)."
            )
        for step in (self.completion, self.encoder):
            validate_params(step)

    def __privacy_steps__(self, *, planned: bool) -> tuple[Any, ...]:
        if not planned:
            return self._fitted_steps()
        encoder, completion = self._steps()
        describe_unit(completion, protected_rows(unit_of(completion), None))
        return encoder, completion

    def _steps(self) -> tuple[CoordinateEncoder, Any]:
        """Clones of the encoder and the completion, with all declarations set.

        Raises
        ------
        ValueError
            If parameters contradict each other, or something must be declared.
        """
        completion = clone(self.completion)
        encoder = self._passed_on(CoordinateEncoder())
        if self.encoder is not None:
            encoder = clone(self.encoder)
        named = {
            mode: ids
            for mode, ids in enumerate(encoder.categories or ())
            if ids is not None
        }
        _declare_features(completion, completion, named)
        if completion.unit == "entry":
            return encoder, completion
        self._check_unknown(completion)
        first: tuple[int, ...] = ()
        if completion.unit == 0:
            catalogues = list(encoder.categories or ())
            if len(catalogues) < 2 or catalogues[0] is not None:
                raise ValueError(
                    "unit=0 protects who the users are, so they are not listed: "
                    "declare the ids of all columns but the first, as in "
                    "CoordinateEncoder(categories=[None, item_ids])."
                )
            encoder.set_params(categories=catalogues[1:])
            first = (N_RESERVED,)
            hide_users(completion)
        if privacy_tags(encoder).publishes_ids:
            raise ValueError(
                f"unit={completion.unit} protects which ids and times occur, but the "
                f"encoder would learn some from the data. Declare `categories` for "
                f"every column (with unit=0, all but the first), and leave out "
                f"time_bins and freq: bin times yourself, into declared ids such as "
                f"months."
            )
        shape = first + encoder.declared_shape
        if isinstance(completion, ImplicitCompletion) and len(shape) != 2:
            raise ValueError(
                f"A choice is a pair of a user and an item, but the encoder declares "
                f"{len(shape)} columns. Pass two. {CHOICES_HAVE_NO_VALUES}"
            )
        _declare_shape(completion, shape)
        return encoder, completion

    def _read_as_in_fit(self, X: ArrayLike) -> Any:
        """The table as an array or a frame; what is malformed for a fit is refused."""
        return self._checked(X, self._steps()[1], reset=True)

    def _as_table(self, X: ArrayLike) -> Any:
        """A list of rows as an array in which each id keeps its type, if necessary."""
        return _table_of(X, self._steps()[1])

    def _fitted_steps(self) -> tuple[Any, ...]:
        """The fitted encoder and completion; none before a fit."""
        if not self.__sklearn_is_fitted__():
            return ()
        return self.encoder_, counted_by(self, self.completion_)

    def __privacy_releases__(self) -> Mapping[PrivacyGuarantee, int]:
        _, completion = self._fitted_steps()
        return completion.__privacy_releases__()

    def _checked_y(self, y: ArrayLike | None) -> NDArray[Any] | None:
        """The values as an array; None for choices, which must not have values."""
        name, has_values = type(self.completion).__name__, hasattr(self, "score")
        if has_values and y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is "
                f"None. Pass the values, such as ratings, as y; for choices without "
                f"values, use an ImplicitCompletion."
            )
        if not has_values and y is not None:
            raise ValueError(
                f"{name} takes no y: choices have no values. Pass X alone, with the "
                f"rows that count as choices, or use CPCompletion for ratings."
            )
        if y is None:
            return None
        # All values are checked, so that no refusal depends on which rows are left out.
        values = as_numpy(check_numeric(y, "y"), "y")
        if not values.ndim:  # scikit-learn's message would show the value
            raise malformed("arrays", "y must be array-like, not a scalar.")
        with np.errstate(over="ignore"):
            is_finite = np.isfinite(values.astype(float))
        if not np.all(is_finite):
            raise malformed("numbers", "Some values in y are NaN, infinite or missing.")
        return values

    def _observed_rows(
        self,
        X: ArrayLike,
        y: ArrayLike | None,
        completion: _Completion,
        *,
        reset: bool = False,
    ) -> tuple[Any, NDArray[Any] | None, NDArray[np.intp]]:
        """Check a table and its values; see `_checked` and `_checked_y`.

        Returns
        -------
        table, values : ndarray or data frame, and ndarray or None
            Without the rows of `missing_values`; see `is_observed`.
        observed : ndarray of int
            Numbers of these rows in `X`.
        """
        check_aligned(X, y=y)
        table, values = self._checked(X, completion, reset=reset), self._checked_y(y)
        missing = getattr(completion, "missing_values", None)
        if values is None:
            return table, None, np.arange(table.shape[0])
        check_same_length(table, values)
        if missing is None:
            return table, values, np.arange(table.shape[0])
        observed = np.flatnonzero(is_observed(values.ravel(), missing))
        return safe_indexing(table, observed), values[observed], observed

    def _checked(
        self, X: ArrayLike, completion: _Completion, *, reset: bool = False
    ) -> Any:
        """Check a table of two columns or more; frames stay frames."""
        if is_dask(X):
            raise TypeError(
                "X is a Dask collection, which only `fit` takes. Load it first: "
                "X.compute()."
            )
        if is_sparse(X):
            raise TypeError(
                f"X is a sparse array, but {type(self).__name__} takes a table of ids: "
                f"a data frame, or an array with one column each for users and items. "
                f"X, y = entries_from_sparse(X) makes one."
            )
        check_unmasked(X, "X")
        check_container(X, "X")
        X = _table_of(with_names(X), completion)
        if names_of(X) is not None:
            checked(validate_data, self, X, reset=reset, skip_check_array=True)
        else:
            # Only names are compared here, whatever the ids are.
            X = as_numpy(X, "X")
            X = checked(
                validate_data,
                self,
                X,
                reset=reset,
                dtype=None,
                ensure_all_finite=False,
                ensure_min_samples=0,
            )
        if self.n_features_in_ < 2:
            raise malformed(
                "arrays",
                f"X has {self.n_features_in_} feature(s), but a table needs a column "
                f"of users and a column of items.",
            )
        if isinstance(completion, ImplicitCompletion) and self.n_features_in_ > 2:
            raise malformed(
                "arrays",
                f"X has {self.n_features_in_} columns, but a choice is a pair of a "
                f"user and an item. Pass these two columns. {CHOICES_HAVE_NO_VALUES}",
            )
        return X

    def _check_unknown(self, completion: HasUnit) -> None:
        """Refuse ``handle_unknown="error"`` if a unit is protected."""
        if completion.unit != "entry" and self.handle_unknown != "drop":
            raise ValueError(
                f"handle_unknown={self.handle_unknown!r} would reveal whether anybody "
                f"has an id that is not declared, which unit={completion.unit} "
                f"protects. Set handle_unknown='drop'."
            )

    def _kept(
        self,
        known: NDArray[np.bool_],
        completion: HasUnit,
        *,
        is_declared: bool = True,
    ) -> NDArray[np.intp]:
        """Numbers of the rows whose ids are known; others are dropped or refused."""
        kept = np.flatnonzero(known)
        n_unknown = len(known) - len(kept)
        self._check_left_out(n_unknown, completion, is_declared=is_declared)
        return kept

    def _check_left_out(
        self, n_unknown: int, completion: HasUnit, *, is_declared: bool = True
    ) -> None:
        """Warn of rows whose ids are unknown, or refuse them, if ids are public."""
        if not n_unknown or completion.unit != "entry":
            return
        what = (
            "is not among the declared `categories`"
            if is_declared
            else "the fit has not seen"
        )
        if self.handle_unknown == "error":
            raise ValueError(
                f"{n_unknown} rows have an id that {what}. Declare it in `categories`, "
                f"leave the rows out, or set handle_unknown='drop'."
            )
        warn(f"{n_unknown} rows are left out: they have an id that {what}.")

    def _known_where(self, fitted: _Fitted, X: ArrayLike) -> NDArray[np.int64]:
        """Coordinates of a request, after a word about ids of which few are known."""
        if is_empty_list(X):
            return self._where(fitted, X)
        table = self._checked(X, fitted.completion)
        where = self._where(fitted, table, is_checked=True)
        n_ids = len(fitted.encoder.categories_) + fitted.hides_users  # times may be new
        self._check_known(where[:, :n_ids], "X")
        # If users are protected, nothing here depends on which of them are known.
        asked = where[:, 1:2] if fitted.hides_users else where[:, :2]
        if len(where) and np.all(asked < 0):
            swapped = fitted.has_items_among(_users_in(table), where[:, 0])
            warn(
                "No item of X is known"
                + ", nor is a user" * (not fitted.hides_users)
                + ", so all predictions are those of average ones. "
                + (_SWAPPED if swapped else _SPELT)
            )
        elif len(where) >= _LEAST_ASKED and 2 * np.sum(where[:, 1] < 0) >= len(where):
            warn(
                "Half of the rows of X or more have an item that is not known, and get "
                "predictions for an average item. " + _SPELT
            )
        return where

    def _check_known(self, indices: NDArray[np.int64], name: str) -> None:
        """Refuse unknown ids with ``handle_unknown="error"``; ids are public then."""
        is_asked = self.handle_unknown == "error" and self._fitted.unit is None
        if is_asked and np.any(indices < 0):
            raise ValueError(
                f"Some ids of {name} are unknown, which handle_unknown='error' "
                f"refuses. Set handle_unknown='drop' to get answers for average ones."
            )

    def _where(
        self, fitted: _Fitted, X: Any, *, is_checked: bool = False
    ) -> NDArray[np.int64]:
        """Coordinates of the rows of a table; -1 for unknown ids."""
        if is_empty_list(X):
            return np.zeros((0, self.n_features_in_), dtype=np.int64)
        table = X if is_checked else self._checked(X, fitted.completion)
        _, where = fitted.encoded(table)
        fitted.warn_if_lost(len(where) > 0)
        return where


def _check_partitions(completion: Any, X: Any, y: Any) -> None:
    """Refuse Dask collections to which a completion cannot be fitted where they are."""
    if isinstance(completion, ImplicitCompletion):
        raise TypeError(
            f"X is a Dask collection, but an ImplicitCompletion counts choices in this "
            f"process. Pass the partitions as batches: {_AS_BATCHES}, with the columns "
            f"of users and items."
        )
    if not hasattr(X, "columns"):
        raise TypeError(
            "X is a Dask array, whose columns have no types of their own. Pass a Dask "
            "frame that has the ids and the values: fit(frame[ids], frame[value])."
        )
    check_distributed(completion)
    if not is_series(y):
        raise TypeError(
            "X is a Dask frame, so y must be a column of the same frame, such as "
            "fit(frame[['user', 'item']], frame['rating'])."
        )


def _reader(completion: Any, empty: Any) -> Recommender:
    """A recommender that checks the tables of partitions, on workers.

    It has only the parameters that the checks read, and no budget.
    """
    like: Any = type(completion)()
    like.set_params(unit=completion.unit, missing_values=completion.missing_values)
    reader = Recommender(like)
    reader._checked(empty, like, reset=True)
    return reader


def _rows_of_partition(
    reader: Recommender, X: Any, y: Any
) -> tuple[Any, list[NDArray[Any]], Any, NDArray[Any] | None]:
    """The checked table of a partition, its users, other columns, and values."""
    like: Any = reader.completion
    table, values, _ = reader._observed_rows(X, y, like)
    return table, *_split(table, like.unit == 0), values


def rows_of_search(
    recommender: Recommender, X: ArrayLike, y: ArrayLike | None
) -> tuple[Any, Any, NDArray[np.intp]]:
    """Make the checks of a fit for a search.

    Returns
    -------
    table : ndarray or data frame
        The rows that a fit keeps.
    y : ndarray or None
    kept : ndarray of int
        Their numbers in `X`.
    """
    encoder, completion = recommender._steps()
    table, values, kept = clone(recommender)._rows_of_fit(encoder, completion, X, y)
    nowhere = np.zeros((len(kept), table.shape[1]))
    check_entries(completion, nowhere, values, completion.shape)
    return table, values, kept


class _Read(NamedTuple):
    """What a fit has read, before anything is released.

    Attributes
    ----------
    local : LocalUsers
        The users, if they are protected.
    kinds : set of str
        Kinds of the ids of users, by the type of their column; see `_Fitted`.
    frame : type or None
        Type of the data frame; None for other tables.
    fit : callable
        Fits the completion to the coordinates.
    """

    local: LocalUsers
    kinds: set[str]
    frame: type | None
    fit: Callable[[], object]


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Result of a fit.

    Attributes
    ----------
    encoder : CoordinateEncoder
        It encodes all columns, except that of users if users are protected.
    completion : estimator
    unit : int or None
        The mode of the units that the fit protects; None if it protects entries.
    local : LocalUsers
        Users whom the encoder does not know: all users, or those who were folded in,
        whose rows come after the encoder's.
    kinds : set of str
        Kinds of the ids of users, by the type of their column; empty if the type does
        not determine them.
    frame : type or None
        Type of the data frame of the fit; None for other tables.
    """

    encoder: CoordinateEncoder
    completion: Any
    unit: int | None
    local: LocalUsers
    kinds: set[str]
    frame: Any = None

    @property
    def hides_users(self) -> bool:
        """Whether users are protected, so that the encoder does not know them."""
        return self.unit == 0

    @property
    def users_may_join(self) -> bool:
        """Whether new users can be folded in."""
        return self.unit in (0, None)

    @property
    def item_column(self) -> int:
        """The column of items in the encoder."""
        return int(not self.hides_users)

    def encoded(self, table: _Table) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
        """The users of a table, and its coordinates, with -1 for unknown ids.

        If ids are private, only the types of columns may refuse them.
        """
        users, others = _split(table, self.hides_users)
        # The recommender has compared the names of columns.
        ids, times = self.encoder.split(others, named=False)
        by_type, types = self.unit is not None, types_of(table)
        if users and self.kinds:
            check_kinds(self.kinds, kinds_of_type(types[0]), 0)
        for k, column in enumerate(ids):
            number = k + len(users)
            kinds = kinds_of_type(types[number]) if by_type else kinds_of(column)
            self._check_kinds(kinds, k)
        where = self.encoder.encode(ids, times)
        if self.hides_users:
            where = np.column_stack([np.full(len(where), -1), where])
        if self.users_may_join:
            users = users or [_users_in(table)]
            self._find(users[0], where[:, 0])
        return users, where

    def joined_by(self, users: NDArray[Any], rows: NDArray[np.integer]) -> _Fitted:
        """Give new users rows, which replace -1 in `rows`."""
        first = 0 if self.hides_users else self.encoder.shape_[0]
        fitted = replace(self, local=self.local.joined_by(users[rows < 0], first))
        fitted._find(users, rows)
        return fitted

    def _find(self, users: NDArray[Any], rows: NDArray[np.integer]) -> None:
        """Replace -1 by the rows of users whom `local` knows."""
        unknown = rows < 0
        rows[unknown] = self.local.rows_of(users[unknown])

    def rows_of(self, users: NDArray[Any]) -> NDArray[np.int64]:
        """Row of each user; -1 for None and for an unknown id."""
        if self.hides_users:
            rows = np.full(len(users), -1, dtype=np.int64)
            is_id = _are_ids(users)
            if self.kinds:
                check_kinds(self.kinds, kinds_of(users[is_id]), 0)
        else:
            rows = self._indices_of(users, 0)
        self._find(users, rows)
        return rows

    def has_items_among(self, asked: NDArray[Any], rows: NDArray[np.int64]) -> bool:
        """Whether some ids in a request for users are ids of items.

        If users are protected, neither their rows nor ids that are numbers are used:
        ids of users and of items often both count from 0.
        """
        kinds = str if self.hides_users else object
        asks = [id_ is not None and isinstance(id_, kinds) for id_ in asked]
        is_asked = np.array(asks, dtype=bool)
        ids = asked[is_asked if self.hides_users else is_asked & (rows < 0)]
        if not len(ids) or self.item_column >= len(self.encoder.categories_):
            return False
        return bool(np.any(indices_of(self.encoder, ids, self.item_column) >= 0))

    def indices_of(self, items: NDArray[Any]) -> NDArray[np.int64]:
        """Index of each item; -1 for None and for an unknown id."""
        return self._indices_of(items, self.item_column)

    def items_in(
        self,
        values: object,
        n_users: int,
        name: str,
        check: Callable[[NDArray[np.int64], str], None],
    ) -> list[NDArray[np.int64]] | None:
        """One list of items for all users, or one for each, as lists of indices.

        The indices of what is not None are checked.
        """
        if values is None:
            return None
        found = []
        for listed in lists_of(values, n_users, name):
            ids = _without_missing(listed, name, "item")
            found.append(self.indices_of(ids))
            check(found[-1][_are_ids(ids)], name)
        return found

    def _indices_of(self, ids: NDArray[Any], column: int) -> NDArray[np.int64]:
        """Index of each id in a column of the encoder; -1 for None or unknown ids."""
        is_id = _are_ids(ids)
        indices = np.full(len(ids), -1, dtype=np.int64)
        if np.any(is_id):
            self._check_kinds(kinds_of(ids[is_id]), column)
            indices[is_id] = indices_of(self.encoder, ids[is_id], column)
        return indices

    def context_of(self, values: ArrayLike) -> NDArray[np.int64]:
        """Indices of the entries of the columns after that of items; -1 for None."""
        first = self.item_column + 1
        n_columns = len(self.encoder.shape_) - first
        if not n_columns:
            raise ValueError(
                "The table has no column after the items: leave context=None."
            )
        is_single, asked = one_or_each(values, "context")
        if is_single or len(asked) != n_columns:
            raise ValueError(
                f"context must be a list of {n_columns} values, one for each column "
                f"after the items."
            )
        asked = _without_missing(asked, "context", "value")
        columns = [
            self._indices_of(asked[k, None], first + k) for k in range(n_columns)
        ]
        return np.concatenate(columns)

    def warn_if_lost(self, asks_for_users: bool) -> None:
        """Warn once if a deep copy or pickle lost users and one is requested."""
        if self.hides_users and asks_for_users:
            self.local.warn_if_lost(
                "This model was deep-copied or pickled. The ids of users are never "
                "pickled or deep-copied, so all users are treated as unknown. To get "
                "them back, call fold_in with all of their rows."
            )

    def _check_kinds(self, kinds: set[str], column: int) -> None:
        """Refuse ids whose kind the encoder does not know in a column."""
        if column < len(self.encoder.categories_):
            known = known_kinds(self.encoder, column)
            check_kinds(known, kinds, column + int(self.hides_users))


def _features_of(completion: object) -> list[tuple[Any, Any]]:
    """The declared features of rows, by mode."""
    declared = getattr(completion, "side_information", None) or {}
    pairs = declared.items() if isinstance(declared, dict) else enumerate(declared)
    return [(mode, rows) for mode, rows in pairs if rows is not None]


def _declare_features(
    clone: _Completion, completion: object, named: Mapping[int, Any]
) -> None:
    """Look features up by the ids of their modes, and drop their labels in a clone.

    The features of the clone are in the order of the ids, whatever the labels were.

    Parameters
    ----------
    clone : completion
    completion : completion
        Has the features with their labels.
    named : mapping of int to array-like
        The ids of modes, by index.
    """
    features: dict[int, ArrayLike] = {}
    for mode, rows in _features_of(completion):
        if mode in named:
            of_known = f"the ids of column {mode}"
            rows = in_order_of(rows, named[mode], _NAME.format(mode), of_known)
        is_labelled = hasattr(rows, "index") and hasattr(rows, "to_numpy")
        features[mode] = rows.to_numpy() if is_labelled else rows
    given = getattr(completion, "side_information", None)
    if isinstance(given, list | tuple):
        in_order = [features.get(mode) for mode in range(len(given))]
        clone.set_params(side_information=in_order)
    elif features:
        clone.set_params(side_information=features)


def _declare_shape(completion: _Completion, shape: tuple[int, ...]) -> None:
    """Set the shape of a clone; refuse a clone that declares another shape."""
    if completion.shape is not None and tuple(completion.shape) != shape:
        raise ValueError(
            f"The completion declares another shape than that of the ids, {shape}. "
            f"Leave its `shape` at None: the recommender sets it."
        )
    completion.set_params(shape=shape)


def _counts_of(
    encoder: CoordinateEncoder, table: ArrayLike, completion: HasUnit
) -> list[NDArray[np.int64]]:
    """Numbers of rows of each user and each item, if they are public and learned."""
    if completion.unit != "entry":
        return []
    ids, _ = encoder.split(table)
    declared = catalogues_of(encoder, len(ids))
    if len(ids) < 2 or declared[0] is not None or declared[1] is not None:
        return []
    return [numbers_of(column) for column in ids[:2]]


def _frame_of(table: object) -> type | None:
    """Type of a data frame; None for other tables."""
    return type(table) if hasattr(table, "columns") else None


def _split(table: _Table, hides_users: bool) -> tuple[list[NDArray[Any]], Any]:
    """Split a table into users, if they are protected, and the columns to encode."""
    if not hides_users:
        return [], table
    rest = list(range(1, table.shape[1]))
    return [_users_in(table)], safe_indexing(table, rest, axis=1)


def _users_in(table: object) -> NDArray[Any]:
    """The first column of a table."""
    check = partial(check_array, ensure_min_samples=0)
    (ids,) = checked_ids(check, safe_indexing(table, [0], axis=1))
    return ids


def _table_of(X: object, completion: _Completion) -> Any:
    """If a unit is protected, convert a list of rows to an array of objects.

    So each id keeps its own type. In other arrays a single id would decide the type of
    all: numbers beside text become text.
    """
    if completion.unit == "entry" or not isinstance(X, list | tuple):
        return exact_rows(X)
    assert completion.shape is not None
    n_columns = len(completion.shape)
    if not all(isinstance(row, list | tuple | np.ndarray) for row in X) or any(
        len(row) != n_columns for row in X
    ):
        raise malformed(
            "arrays", f"X must be a list of rows with {n_columns} ids each."
        )
    ids = (id_ for row in X for id_ in row)
    table = np.fromiter(ids, dtype=object, count=n_columns * len(X))
    return table.reshape(-1, n_columns)


def _refuse_synthetic(users: NDArray[Any]) -> None:
    """Refuse ids of `sample_users`; each is looked at by itself."""
    if any(isinstance(id_, str) and _IS_SYNTHETIC.fullmatch(id_) for id_ in users):
        raise malformed(
            "ids",
            "Some users are synthetic: their ids are those of sample_users. There is "
            "nothing to learn about them. Leave them out, or rename them if the model "
            "was fitted to synthetic users.",
        )


def _rows(values: NDArray[Any] | None, kept: NDArray[np.intp]) -> NDArray[Any] | None:
    """Some of the values; None stays None."""
    return None if values is None else values[kept]


def _are_unknown(indices: NDArray[np.int64]) -> bool:
    """Whether there are ids, of which none is known."""
    return len(indices) > 0 and bool(np.all(indices < 0))


def _are_ids(asked: NDArray[Any]) -> NDArray[np.bool_]:
    """Which elements of a request are ids, and not None."""
    return np.array([id_ is not None for id_ in asked], dtype=bool)


def _without_missing(ids: NDArray[Any], name: str, what: str) -> NDArray[np.object_]:
    """Requested ids as an array of objects; None for an unknown one."""
    # NaN and NaT differ from themselves; pandas.NA has no truth value.
    if any(type(id_).__name__ == "NAType" or not np.all(id_ == id_) for id_ in ids):
        raise ValueError(
            f"Some ids are missing from {name}. Pass None for an unknown {what}."
        )
    return np.fromiter(ids, dtype=object, count=len(ids))
