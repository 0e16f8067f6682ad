"""Rankings of items: the request, the best items, and similar items.

The similarity of two items is the correlation of their predictions over people. A
prediction is linear in a person's row. So the covariance of two items is the covariance
of people's regressors, multiplied from each side by the row of one item. Terms that all
items share, such as the biases of people, are left out. All other modes are at their
average rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .._validation import check_coordinates, check_numeric, checked, is_integer
from ..base import EstimatorMixin, PrivateEstimatorMixin
from ..ids import kinds_of, lists_of, one_or_each
from ..privacy import PrivacyTags
from ..tensor import Rows
from ..tensor._choices import Choices
from ._checks import known_indices
from ._client import PUBLIC_COORDINATES

# Number of scores that are ranked at once, few enough for the processor's cache.
_N_RANKED = 2**18
# Columns in a group.
_GROUP = 32
_PUBLIC_LENGTHS = (
    "The `items_per_user` that were passed to sample_users are public: nothing "
    "protects them."
)
_PUBLIC_INDICES = (
    "The shape is public, and so is what its indices mean; which indices of mode {} "
    "have entries is not."
)
_PUBLIC_IDS = (
    "The ids of every column but the users' are public; who the users are, and how "
    "many there are, is not."
)


class RanksItems(Protocol):
    """The result of a fit that ranks items, of completions or `ImplicitCompletion`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the model."""

    @property
    def unit(self) -> int | None:
        """The mode of the protected units; None if entries are protected."""

    @property
    def new_units(self) -> NDArray[np.integer]:
        """Units with rows beyond the shape."""

    @property
    def has_public_lengths(self) -> bool:
        """Whether synthetic users were drawn with numbers of items from a caller."""

    def predict(self, coordinates: NDArray[np.integer]) -> NDArray[np.floating]:
        """Predict values at coordinates."""

    def forget(self, units: NDArray[np.integer]) -> Self:
        """Drop what is held of some units alone."""

    def recommend(
        self, coordinates: NDArray[np.integer], wanted: Wanted
    ) -> NDArray[np.int64]:
        """Rank the indices of mode 1 at coordinates."""

    def similar_items(self, items: NDArray[np.integer], k: int) -> NDArray[np.int64]:
        """The k items most similar to each of the items."""

    def warn_of_lost_rows(self, coordinates: NDArray[np.integer]) -> None:
        """Warn once if the rows of units at these coordinates were lost in a copy."""


def hide_users(estimator: object) -> None:
    """Let an estimator state that the ids and the number of its users are private."""
    if isinstance(estimator, RankingEstimator):
        estimator._hides_users = True


class RankingEstimator(EstimatorMixin, PrivateEstimatorMixin, BaseEstimator):
    """Base class of estimators that rank items: completions, and models of choices.

    A subclass has a parameter ``shape``, and keeps the result of a fit in ``_fitted``.
    That object has the mode of protected units (``unit``), the units beyond the shape
    (``new_units``), and the methods ``predict``, ``recommend``, ``similar_items`` and
    ``warn_of_lost_rows``.
    """

    unit: int | str
    _fitted: RanksItems
    _of_fit = ("_fitted",)
    _hides_users: bool = False
    """Whether a `Recommender` keeps the ids and the number of its users private."""

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in vars(self)

    def __privacy_tags__(self) -> PrivacyTags:
        tags = super().__privacy_tags__()
        tags.protects = "y"
        return tags

    def __privacy_unprotected__(self) -> list[str]:
        public = PUBLIC_COORDINATES
        if self._hides_users:
            public = _PUBLIC_IDS
        elif self.unit != "entry":
            public = _PUBLIC_INDICES.format(self.unit)
        found = [*super().__privacy_unprotected__(), public]
        if self.__sklearn_is_fitted__() and self._fitted.has_public_lengths:
            found.append(_PUBLIC_LENGTHS)
        return found

    @property
    def shape_(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return self._fitted.shape

    def forget(self, units: ArrayLike) -> Self:
        """Drop what this object holds of some users alone, such as at their request.

        These are their own rows, or choices, from the fit or from `fold_in`; they are
        then treated as unknown, or answered from what was released. Nothing that was
        released changes. Copies of this object have theirs; pickles have none.

        Parameters
        ----------
        units : int or array-like of int
            Indices of users or, if `unit` is another mode, of that mode. Those of whom
            nothing is known, and -1, change nothing.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If an index is fractional, or below -1; or if the fit was to Dask
            collections, whose workers answer for users.
        """
        check_is_fitted(self)
        _, asked = one_or_each(units, "units")
        _check_indices(asked, "units")
        columns = _coordinates(self, "units", asked, -1)
        gone = check_coordinates(columns, allow_unknown=True, name="forget")[:, 0]
        with self._count_releases().lock:
            self._fitted = self._fitted.forget(gone[gone >= 0])
        return self

    @overload
    def recommend(
        self,
        units: ArrayLike,
        k: int = 10,
        *,
        context: ArrayLike | None = None,
        candidates: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
        exclude_observed: bool = True,
        return_scores: Literal[False] = False,
    ) -> NDArray[np.int64]: ...

    @overload
    def recommend(
        self,
        units: ArrayLike,
        k: int = 10,
        *,
        context: ArrayLike | None = None,
        candidates: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
        exclude_observed: bool = True,
        return_scores: Literal[True],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...

    def recommend(
        self,
        units: ArrayLike,
        k: int = 10,
        *,
        context: ArrayLike | None = None,
        candidates: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
        exclude_observed: bool = True,
        return_scores: bool = False,
    ) -> NDArray[np.int64] | tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Recommend the unobserved items with the largest predictions.

        Items are the indices of mode 1. They are ranked for each given index of mode 0,
        usually a user, in a context if one is given. Of items with equal scores,
        before any clipping, the one with the lower index comes first.

        Parameters
        ----------
        units : int or array-like of shape (n_units,)
            Indices of mode 0; -1 stands for an unknown index, as in `predict`. In a
            model of choices, unknown users and users without a choice get the most
            popular items.
        k : int, default=10
            Number of items. No more than there are at mode 1 are returned.
        context : array-like of shape (n_modes - 2,), default=None
            Indices of the other modes, such as the week; -1, the default, stands for an
            unknown index. An item is left out if it was observed at that index of mode
            0, in any context. If `unit` is one of the other modes, the context holds
            the index of the unit that asks. An item is then left out only if that unit
            has an entry with it at the same index of mode 0; for an unknown unit, none
            is left out. Models of choices take no context.
        candidates : list or set of int, or list of n_units of these, default=None
            The only items that may be recommended: one list for all, or one for each
            index in `units`. None admits every item. -1 in a list is ignored.
        exclude : list of int, or list of n_units such lists, default=None
            Items to leave out, in the same form.
        exclude_observed : bool, default=True
            Whether to leave out observed items, or a user's own choices.
        return_scores : bool, default=False
            Whether to return the predictions, too.

        Returns
        -------
        items : ndarray of shape (k,) or (n_units, k)
            Best first, padded with -1 if fewer than `k` items are left.
        scores : ndarray of shape (k,) or (n_units, k)
            Only with `return_scores`: what `predict` returns for these items, NaN for
            -1. Items beyond the bounds of the values have the same prediction, but keep
            their order. The scores of a model of choices are neither values nor
            probabilities.

        Raises
        ------
        ValueError
            If an index is outside of a declared shape, `k` is not a positive integer,
            there are several lists but not one for each index in `units`, or the items
            are the protected units (``unit=1``): a ranking would reveal one unit's
            entries to another.
        """
        check_is_fitted(self)
        fitted = self._fitted
        self._check_items_public("recommend ranks the indices of mode 1")
        is_single, asked = one_or_each(units, "units")
        where = _places(self, fitted.new_units, asked, context)
        if not isinstance(exclude_observed, bool | np.bool_):
            raise ValueError("exclude_observed must be True or False.")
        wanted = Wanted(
            min(checked_count(k), fitted.shape[1]),
            _items_in(self, candidates, len(where), "candidates"),
            _items_in(self, exclude, len(where), "exclude"),
            bool(exclude_observed),
        )
        fitted.warn_of_lost_rows(where)
        items = fitted.recommend(where, wanted)
        if not return_scores:
            return items[0] if is_single else items
        rows, places = np.nonzero(items >= 0)
        where = where[rows]
        where[:, 1] = items[rows, places]
        scores = np.full(items.shape, np.nan)
        scores[rows, places] = fitted.predict(where)
        return (items[0], scores[0]) if is_single else (items, scores)

    def similar_items(self, items: ArrayLike, k: int = 10) -> NDArray[np.int64]:
        """Find the items that the same people like, by the released model alone.

        The similarity of two items is the correlation of their predictions over the
        indices of mode 0 or, if a unit is protected, over units as the model expects
        them. In a model of choices, it is the weight in the item's row of
        `similarity_`: how much a choice of the item raises the score of the other. No
        unit's own entries are read, so you may show the answer to everybody.

        Parameters
        ----------
        items : int or array-like of shape (n_items,)
            Indices of mode 1; -1 stands for an unknown item.
        k : int, default=10
            Number of similar items for each. No more than there are at mode 1 are
            returned.

        Returns
        -------
        similar : ndarray of shape (k,) or (n_items, k)
            Most similar first, padded with -1 if fewer than `k` items have a positive
            correlation, or weight. None has one if the model has learned only biases,
            or nothing about the given item. In a model of choices, only `items_` have
            weights.

        Raises
        ------
        ValueError
            If an index is outside of a declared shape, `k` is not a positive integer,
            or the items are the protected units (``unit=1``).
        """
        check_is_fitted(self)
        self._check_items_public("similar_items compares the indices of mode 1")
        is_single, asked = one_or_each(items, "items")
        known, k = (
            _known_items(self, asked, "items"),
            min(checked_count(k), self._fitted.shape[1]),
        )
        similar = self._fitted.similar_items(known, k)
        return similar[0] if is_single else similar

    def _check_items_public(self, what: str) -> None:
        """Refuse to rank items that are the protected units."""
        if self._fitted.unit == 1:
            raise ValueError(
                f"{what}, but unit=1 protects them: the ranking would reveal the "
                f"entries of the ranked units. Put the items into mode 1 and the "
                f"protected units into another mode."
            )


# --- the request --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Wanted:
    """A request for a ranking: its length, and which items it may hold.

    Attributes
    ----------
    k : int
        Number of items in a row.
    candidates, exclude : sequence of ndarray of int, default=None
        One list of items for all rows, or one for each; -1 is no item. Only candidates
        may be recommended, and no excluded item.
    exclude_observed : bool, default=True
        Whether to leave out what was observed.
    """

    k: int
    candidates: Sequence[NDArray[np.int64]] | None = None
    exclude: Sequence[NDArray[np.int64]] | None = None
    exclude_observed: bool = True

    def at(self, rows: NDArray[np.intp]) -> Self:
        """The request for some of the rows."""
        candidates, exclude = (
            lists
            if lists is None or len(lists) == 1
            else [lists[row] for row in rows.tolist()]
            for lists in (self.candidates, self.exclude)
        )
        return replace(self, candidates=candidates, exclude=exclude)

    def best(
        self,
        n_rows: int,
        n_items: int,
        scores_of: Callable[[slice], NDArray[np.floating]],
        observed: Sequence[Choices],
    ) -> NDArray[np.int64]:
        """Rank items, row by row.

        Parameters
        ----------
        n_rows, n_items : int
        scores_of : callable
            Computes the scores of all items in some of the rows.
        observed : sequence of Choices
            The items observed for each of the rows, in the order of the rows.

        Returns
        -------
        items : ndarray of shape (n_rows, k), int
            Best first, padded with -1 if fewer than `k` items are left.
        """
        best = np.full((n_rows, self.k), -1, dtype=np.int64)
        size = max(_N_RANKED // n_items, 1)
        for start in range(0, n_rows, size):
            rows = slice(start, min(start + size, n_rows))
            scores = scores_of(rows)
            self.at(np.arange(rows.start, rows.stop))._restrict(scores)
            for choices in observed:
                own = choices.chunk(rows.start, rows.stop)
                places = np.repeat(np.arange(len(scores)), own.sizes)
                scores[places, own.items] = -np.inf
            best[rows] = best_of(scores, self.k)
        return best

    def _restrict(self, scores: NDArray[np.floating]) -> None:
        """Set the scores of items that a row may not hold to minus infinity."""
        if self.candidates is not None:
            others = ~_contains(self.candidates, scores.shape[1])
            np.copyto(scores, -np.inf, where=others)
        if self.exclude is not None:
            np.copyto(scores, -np.inf, where=_contains(self.exclude, scores.shape[1]))


def _contains(lists: Sequence[NDArray[np.int64]], n_items: int) -> NDArray[np.bool_]:
    """Which items each of the lists holds: an array of shape (n_lists, n_items)."""
    # The last column stands for no item.
    found = np.zeros((len(lists), n_items + 1), dtype=bool)
    for row, items in zip(found, lists, strict=True):
        row[items] = True
    return found[:, :-1]


def _places(
    estimator: RankingEstimator,
    new_users: ArrayLike,
    units: NDArray[Any],
    context: ArrayLike | None,
) -> NDArray[np.int32]:
    """Coordinates at which items are ranked; see `known_indices` for new users."""
    _check_indices(units, "units")
    n_others = len(estimator.shape_) - 2
    rest, is_single = np.full(n_others, -1), False
    if context is not None:
        is_single, rest = one_or_each(context, "context")
        _check_indices(rest, "context")
    if is_single or len(rest) != n_others:
        raise ValueError(f"context must hold {n_others} indices.")
    where = _coordinates(estimator, "units", units, -1, *rest)
    return known_indices(estimator, where, "recommend", new_users)


def checked_count(k: int) -> int:
    """Return the length of a ranking."""
    if not is_integer(k) or k < 1:
        raise ValueError(f"k must be a positive integer, got {k!r}.")
    return int(k)


def _items_in(
    estimator: RankingEstimator,
    values: ArrayLike | None,
    n_units: int,
    name: str,
) -> list[NDArray[np.int64]] | None:
    """Return lists of items; see `Wanted`."""
    if values is None:
        return None
    return [
        _known_items(estimator, items, name) if len(items) else np.zeros(0, np.int64)
        for items in lists_of(values, n_units, name)
    ]


def _known_items(
    estimator: RankingEstimator, items: NDArray[Any], name: str
) -> NDArray[np.int64]:
    """Return indices of items; -1 for unknown ones."""
    _check_indices(items, name)
    unknown = [-1] * (len(estimator.shape_) - 2)
    where = _coordinates(estimator, name, -1, items, *unknown)
    return known_indices(estimator, where, "recommend")[:, 1].astype(np.int64)


def _check_indices(values: NDArray[Any], name: str) -> None:
    """Refuse anything but numbers; a mask would be read as 0 and 1."""
    check_numeric(values, name)
    if "booleans" in kinds_of(values):
        raise ValueError(
            f"{name} holds booleans, but needs indices. Pass np.flatnonzero({name})."
        )


def _coordinates(
    estimator: RankingEstimator, name: str, *columns: ArrayLike
) -> NDArray[Any]:
    """Columns of numbers as one array, of a type that holds each number exactly."""
    arrays = [np.asarray(column) for column in columns]
    is_signed = all(array.dtype.kind == "i" for array in arrays)
    dtype = np.int64 if is_signed else np.longdouble
    rows = np.empty((*np.broadcast(*arrays).shape, len(arrays)), dtype=dtype)
    for column, array in zip(rows.T, arrays, strict=True):
        column[:] = array
    if is_signed:
        return rows
    options = {"estimator": estimator, "input_name": name, "ensure_min_samples": 0}
    return checked(check_array, rows, **options)


# --- the best -------------------------------------------------------------------------


def best_of(scores: NDArray[np.floating], k: int) -> NDArray[np.int64]:
    """Columns of the k largest scores of each row, best first.

    If scores are equal, the lower column comes first. -1 means that no score above
    minus infinity is left.
    """
    n_rows, n_columns = scores.shape
    n, rows = min(k, n_columns), np.arange(n_rows)[:, np.newaxis]
    columns = _best_columns(scores, n)
    largest = scores[rows, columns]
    order = np.argsort(-largest, axis=1, kind="stable")
    columns[largest == -np.inf] = -1
    if n == k:
        return columns[rows, order]
    best = np.full((n_rows, k), -1, dtype=np.int64)
    best[:, :n] = columns[rows, order]
    return best


def _best_columns(scores: NDArray[np.floating], n: int) -> NDArray[np.int64]:
    """The columns of `best_of`, ascending; any other columns have minus infinity."""
    n_rows, n_columns = scores.shape
    n_groups = n_columns // _GROUP
    if n_groups > 4 * n:  # Otherwise, ranking groups first is not worthwhile.
        # Every n_groups-th column is in one group. The vectors of the groups' largest
        # scores are long, so this is fast.
        n_whole = n_groups * _GROUP
        whole = scores[:, :n_whole].reshape(n_rows, _GROUP, n_groups)
        largest = whole.max(axis=1)
        least = np.partition(largest, -n, axis=1)[:, -n, np.newaxis]
        groups = np.nonzero(largest >= least)[1]
        if len(groups) == n * n_rows:
            # Without ties, the n best scores are in n groups, or beyond all of them.
            inside = np.arange(0, n_whole, n_groups)[:, np.newaxis]
            columns = groups.reshape(n_rows, 1, n) + inside
            columns = columns.reshape(n_rows, -1)
            beyond = np.arange(n_whole, n_columns)
            if len(beyond):
                beyond = np.broadcast_to(beyond, (n_rows, len(beyond)))
                columns = np.concatenate([columns, beyond], axis=1)
            rows = np.arange(n_rows)[:, np.newaxis]
            return columns[rows, _first_best(scores[rows, columns], n)]
    return _first_best(scores, n)


def _first_best(scores: NDArray[np.floating], n: int) -> NDArray[np.int64]:
    """See `_best_columns`; the columns are given in ascending order."""
    n_rows = len(scores)
    least = np.partition(scores, -n, axis=1)[:, -n, np.newaxis]
    rows, columns = np.nonzero(scores >= least)
    if len(rows) > n * n_rows:
        # Of the columns that equal the least score, the first are kept.
        is_least = scores[rows, columns] == least[rows, 0]
        n_above = np.bincount(rows[~is_least], minlength=n_rows)
        place = np.cumsum(is_least)
        before = np.append(0, place)[np.searchsorted(rows, np.arange(n_rows))]
        columns = columns[~is_least | (place - before[rows] <= (n - n_above)[rows])]
    return columns.reshape(n_rows, n)


# --- similar items ----------------------------------------------------------------


def item_vectors(
    model: Rows, mode: int, average: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Vectors whose products are the similarities of items, between -1 and 1.

    Parameters
    ----------
    model : Rows
        Its first mode holds people, or the directions in which they differ.
    mode : int
        The mode of the items.
    average : ndarray of shape (n_columns,)
        The row of the average person.

    Returns
    -------
    vectors : ndarray of shape (n_items, n)
        Zero for an item about which nothing is known.
    """
    people = np.concatenate([model.means[0], average[np.newaxis]])
    unknown = np.full(len(people), -1)
    others = [model.rows_at(other, unknown) for other in range(1, model.n_modes)]
    regressors = model.regressors(mode, [people, *others]).astype(float)
    differences = regressors[:-1] - regressors[-1]
    own = ~model.fixed[mode]
    if mode == 1:
        own[model.of_features] = True
    spread = differences[:, own].T @ differences[:, own]
    variances, directions = eigh(spread)
    rows = model.means[mode][:, own].astype(float)
    rows = rows @ (directions * np.sqrt(np.maximum(variances, 0.0)))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    vectors = np.zeros((model.shape[mode], rows.shape[1]))
    vectors[model.used[mode]] = rows / np.where(lengths > 0, lengths, 1.0)
    return vectors


def similar_to(
    items: NDArray[np.integer], vectors: NDArray[np.float64], k: int
) -> NDArray[np.int64]:
    """The k other items with the largest similarities to each item, best first.

    -1 if fewer than k similarities are positive.
    """
    best = np.full((len(items), k), -1, dtype=np.int64)
    n = 256  # Their similarities to all other items are in memory at once.
    for start in range(0, len(items), n):
        asked = items[start : start + n]
        scores: NDArray[np.float64] = vectors[asked] @ vectors.T
        scores[np.arange(len(asked)), asked] = 0.0
        # Nothing is known about an unknown item.
        scores[(scores <= 0) | (asked < 0)[:, np.newaxis]] = -np.inf
        best[start : start + n] = best_of(scores, k)
    return best
