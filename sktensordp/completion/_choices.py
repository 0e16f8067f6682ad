"""Choices as distinct pairs of a user and an item, and the checks of input."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._dask import is_dask
from .._validation import check_coordinates
from ._entries import check_input, check_same_shape
from ._sparse import entries_from_sparse, is_sparse

# Names of columns that hold values, which choices do not have.
_VALUE_COLUMNS = ("rating", "ratings", "score", "stars", "value")


@dataclass(frozen=True, eq=False)
class Choices:
    """Distinct pairs of a user and an item, grouped by user.

    Attributes
    ----------
    users : ndarray of shape (n_users,), int64
        Indices of users. Ascending, and all with a choice, if made by `of`.
    starts : ndarray of shape (n_users + 1,), int64
        Row u of `users` chose items[starts[u]:starts[u + 1]].
    items : ndarray of shape (n_choices,), int32
        Chosen items, distinct within every user.
    n_items : int
        Number of items in the catalogue.
    """

    users: NDArray[np.int64]
    starts: NDArray[np.int64]
    items: NDArray[np.int32]
    n_items: int

    @classmethod
    def of(cls, keys: NDArray[np.int64], n_items: int) -> "Choices":
        """Make choices of keys ``user * n_items + item``, which are overwritten."""
        keys.sort()
        if len(keys):
            # np.unique would hold two more copies.
            keys = keys[np.append(True, keys[1:] != keys[:-1])]
        users = keys // n_items
        first = np.flatnonzero(np.append(True, users[1:] != users[:-1]))
        first = first if len(keys) else first[:0]
        keys %= n_items
        return cls(
            users[first], np.append(first, len(keys)), keys.astype(np.int32), n_items
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of choices of each user."""
        return np.diff(self.starts)

    def among(self, items: NDArray[np.int64]) -> "Choices":
        """Keep only choices of these items, renumbered by their place in `items`.

        All users stay, some perhaps without a choice. A user's items need no longer
        ascend.
        """
        place = np.full(self.n_items, -1, dtype=np.int32)
        place[items] = np.arange(len(items))
        renumbered = place[self.items]
        kept = renumbered >= 0
        starts = np.append(0, np.cumsum(kept))[self.starts]
        return Choices(self.users, starts, renumbered[kept], len(items))

    def chunk(self, first: int, last: int) -> "Choices":
        """Choices of the users in rows `first` to `last - 1`."""
        starts = self.starts[first : last + 1]
        items = self.items[starts[0] : starts[-1]]
        users = self.users[first:last]
        return Choices(users, starts - starts[0], items, self.n_items)

    def position(self, users: NDArray[np.integer]) -> NDArray[np.int64]:
        """Row of each user in `self.users`; -1 for a user without a choice."""
        rows = np.searchsorted(self.users, users)
        known = np.append(self.users, -2)[rows] == users
        return np.where(known, rows, -1)

    def of_users(self, users: NDArray[np.integer]) -> "Choices":
        """Choices of the given users, in the given order; some may have none."""
        rows = self.position(users)
        sizes = np.append(self.sizes, 0)[rows]
        starts = np.append(0, np.cumsum(sizes))
        offset = np.repeat(self.starts[rows] - starts[:-1], sizes)
        return Choices(
            np.asarray(users),
            starts,
            self.items[offset + np.arange(starts[-1])],
            self.n_items,
        )

    def replaced(self, new: "Choices") -> "Choices":
        """Replace all choices of the users who are in `new`."""
        kept = self.of_users(self.users[~np.isin(self.users, new.users)])
        keys = [
            np.repeat(choices.users, choices.sizes) * self.n_items + choices.items
            for choices in (kept, new)
        ]
        return Choices.of(np.concatenate(keys), self.n_items)


def check_choices(
    estimator: Any, X: Any, shape: tuple[int, int], *, reset: bool = True
) -> NDArray[np.int64]:
    """Check pairs and return each as a key ``user * n_items + item``.

    Parameters
    ----------
    estimator : estimator
        Learns the feature names and number of features; messages name it.
    X : array-like of shape (n, 2), or sparse array of shape `shape`
        Pairs of a user and an item. Repeated pairs stay repeated.
    shape : tuple of (int, int)
        Numbers of users and of items.
    reset : bool, default=True
        Whether the estimator learns feature names anew, rather than compares them.

    Returns
    -------
    keys : ndarray of shape (n,), int64

    Raises
    ------
    TypeError
        If `X` is a Dask collection.
    ValueError
        If a row is not a pair of a user and an item within `shape`, or a sparse array
        stores zeros.
    """
    name = type(estimator).__name__
    if is_dask(X):
        raise TypeError(
            f"{name} does not support Dask input. Pass batches to fit_batches."
        )
    for column in getattr(X, "columns", ()):
        if isinstance(column, str) and column.strip().lower() in _VALUE_COLUMNS:
            raise ValueError(
                f"X has a column {column!r}, but choices have no values. Keep the rows "
                f"that count as choices, and drop the column: "
                f"X.drop(columns=[{column!r}])."
            )
    if is_sparse(X):
        check_same_shape(X, shape)
        where, values = entries_from_sparse(X)
        if not np.all(values != 0):
            raise ValueError(
                "X stores zeros or False, which are not choices. Remove them: "
                "X.eliminate_zeros()."
            )
        if reset:
            vars(estimator).pop("feature_names_in_", None)
            estimator.n_features_in_ = 2
        return where[:, 0] * shape[1] + where[:, 1]
    if _is_empty(X):
        if reset:
            vars(estimator).pop("feature_names_in_", None)
            estimator.n_features_in_ = 2
        return np.empty(0, dtype=np.int64)
    _check_width(getattr(X, "shape", ()), shape)
    X = check_input(estimator, X, reset=reset)
    _check_width(X.shape, shape)
    pairs = check_coordinates(X, shape=shape, name=name)
    return pairs[:, 0].astype(np.int64) * shape[1] + pairs[:, 1]


def choices_of_batches(
    estimator: Any, batches: Iterable[Any], shape: tuple[int, int]
) -> Choices:
    """Check batches and join them; a pair that is in several counts once."""
    chunks: list[NDArray[np.int64]] = []
    for batch in batches:
        chunks.append(check_choices(estimator, batch, shape, reset=not chunks))
    if not chunks:
        estimator.n_features_in_ = 2
        chunks = [np.empty(0, dtype=np.int64)]
    keys = np.empty(sum(map(len, chunks)), dtype=np.int64)
    end = len(keys)
    while chunks:
        # Popping frees the memory of each chunk once it has been copied.
        chunk = chunks.pop()
        keys[end - len(chunk) : end] = chunk
        end -= len(chunk)
    return Choices.of(keys, shape[1])


def _check_width(input_shape: Any, shape: tuple[int, int]) -> None:
    if len(input_shape) == 2 and input_shape[1] != 2:
        raise ValueError(
            f"X must have two columns, since a choice is a pair of a user and an item. "
            f"Pass X of shape (n_choices, 2), or a sparse array of shape {shape}."
        )


def _is_empty(X: Any) -> bool:
    """Whether X holds no pair."""
    shape = getattr(X, "shape", None)
    if shape is None:
        return isinstance(X, list | tuple) and not len(X)
    return len(shape) == 2 and shape[0] == 0 and shape[1] == 2
