"""Who chose what: checked once, every pair kept once, and of one type from there on."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._dask import is_dask
from .._validation import check_coordinates
from ._entries import check_input
from ._sparse import entries_from_sparse, is_sparse

__all__ = ["Choices", "check_choices", "choices_of_batches"]

# Names of columns that hold values, which choices do not have.
_VALUES = ("rating", "score", "value")


@dataclass(frozen=True, eq=False)
class Choices:
    """Distinct pairs of user and item, by user.

    Attributes
    ----------
    users : ndarray of shape (n_users,), int64
        Those with a choice, ascending.
    starts : ndarray of shape (n_users + 1,), int64
        Choices of user number u are items[starts[u]:starts[u + 1]].
    items : ndarray of shape (n_choices,), int32
        Distinct for every user.
    n_items : int
        In the catalogue.
    """

    users: NDArray[np.int64]
    starts: NDArray[np.int64]
    items: NDArray[np.int32]
    n_items: int

    @classmethod
    def of(cls, keys: NDArray[np.int64], n_items: int) -> "Choices":
        """Choices from ``user * n_items + item``, which is sorted in place."""
        keys.sort()
        if len(keys):
            # Not by np.unique, which would hold two copies more.
            keys = keys[np.append(True, keys[1:] != keys[:-1])]
        of_user = keys // n_items
        first = np.flatnonzero(np.append(True, of_user[1:] != of_user[:-1]))
        first = first if len(keys) else first[:0]
        keys %= n_items
        return cls(
            of_user[first], np.append(first, len(keys)), keys.astype(np.int32), n_items
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of choices of every user."""
        return np.diff(self.starts)

    def among(self, items: NDArray[np.int64]) -> "Choices":
        """The choices of some items alone, numbered as these; users may have none.

        Choices of a user are then no longer ascending.
        """
        place = np.full(self.n_items, -1, dtype=np.int32)
        place[items] = np.arange(len(items))
        found = place[self.items]
        kept = found >= 0
        starts = np.append(0, np.cumsum(kept))[self.starts]
        return Choices(self.users, starts, found[kept], len(items))

    def part(self, first: int, last: int) -> "Choices":
        """The choices of users number `first` to `last`."""
        starts = self.starts[first : last + 1]
        items = self.items[starts[0] : starts[-1]]
        users = self.users[first:last]
        return Choices(users, starts - starts[0], items, self.n_items)

    def position(self, users: NDArray[np.integer]) -> NDArray[np.int64]:
        """Number of every user here; -1 for one without a choice."""
        found = np.searchsorted(self.users, users)
        known = np.append(self.users, -2)[found] == users
        return np.where(known, found, -1)

    def of_users(self, users: NDArray[np.integer]) -> "Choices":
        """The choices of some users in their order, one after the other."""
        found = self.position(users)
        sizes = np.append(self.sizes, 0)[found]
        starts = np.append(0, np.cumsum(sizes))
        offset = np.repeat(self.starts[found] - starts[:-1], sizes)
        return Choices(
            np.asarray(users), starts, self.items[offset + np.arange(starts[-1])],
            self.n_items,
        )  # fmt: skip

    def replaced(self, other: "Choices") -> "Choices":
        """These, with those of some users in the place of older ones."""
        stays = self.users[~np.isin(self.users, other.users)]
        parts = [(part.users, part) for part in (self.of_users(stays), other)]
        keys = [
            np.repeat(users, part.sizes) * self.n_items + part.items
            for users, part in parts
        ]
        return Choices.of(np.concatenate(keys), self.n_items)


def check_choices(
    estimator: Any, X: Any, shape: tuple[int, int], *, reset: bool = True
) -> NDArray[np.int64]:
    """Checked pairs as ``user * n_items + item``; a repeated pair comes repeatedly.

    Parameters
    ----------
    estimator : estimator
        That learns names and number of features, and is named in messages.
    X : array-like of shape (n, 2), or sparse array of this shape
    shape : tuple of (int, int)
        Numbers of users and of items.
    reset : bool, default=True
        Whether the estimator is to learn them.

    Returns
    -------
    keys : ndarray of shape (n,), int64

    Raises
    ------
    ValueError
        If something is no pair of a user and an item within `shape`, or a sparse array
        stores zeros.
    """
    name = type(estimator).__name__
    if is_dask(X):
        raise TypeError(f"{name} takes no Dask input; pass batches to fit_batches.")
    for column in getattr(X, "columns", ()):
        if isinstance(column, str) and column.strip().lower() in _VALUES:
            raise ValueError(
                f"X has a column {column!r}, but choices have no values. Keep the rows "
                f"that count as a choice, and drop the column: "
                f"X.drop(columns=[{column!r}])."
            )
    if is_sparse(X):
        if X.shape != shape:
            raise ValueError(f"X has shape {X.shape}, but shape is {shape}.")
        where, values = entries_from_sparse(X)
        if not np.all(values != 0):
            raise ValueError(
                "X stores zeros, or False, which are no choices. Remove them: "
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
    found = check_input(estimator, X, reset=reset)
    _check_width(found.shape, shape)
    pairs = check_coordinates(found, shape=shape, name=name)
    return pairs[:, 0].astype(np.int64) * shape[1] + pairs[:, 1]


def choices_of_batches(
    estimator: Any, batches: Iterable[Any], shape: tuple[int, int]
) -> Choices:
    """Choices that come in batches; a pair that comes in several counts once."""
    found: list[NDArray[np.int64]] = []
    for batch in batches:
        found.append(check_choices(estimator, batch, shape, reset=not found))
    if not found:
        estimator.n_features_in_ = 2
        found = [np.empty(0, dtype=np.int64)]
    keys = np.empty(sum(map(len, found)), dtype=np.int64)
    end = len(keys)
    while found:
        # From the last one on, so that each is let go when it has been copied.
        part = found.pop()
        keys[end - len(part) : end] = part
        end -= len(part)
    return Choices.of(keys, shape[1])


def _check_width(found: Any, shape: tuple[int, int]) -> None:
    if len(found) == 2 and found[1] != 2:
        raise ValueError(
            f"X has {found[1]} columns, but a choice is a pair of a user and an item. "
            f"Pass X of shape (n_choices, 2), or a sparse array of {shape}."
        )


def _is_empty(X: Any) -> bool:
    """Whether these are no pairs at all."""
    shape = getattr(X, "shape", None)
    if shape is None:
        return isinstance(X, list | tuple) and not len(X)
    return len(shape) == 2 and shape[0] == 0 and shape[1] == 2
