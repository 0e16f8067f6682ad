"""Choices grouped by user."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._observations import places_of

# Number of pairs of items that are summed at once, and least number of parts: without
# parts, every pair would be summed twice, (i, j) and (j, i).
_CELLS, _PARTS = 2**20, 16


@dataclass(frozen=True, eq=False)
class Choices:
    """Distinct pairs of a user and an item, grouped by user.

    Attributes
    ----------
    users : ndarray of shape (n_users,), int64
        Indices of users. If made by `from_keys`, they ascend and each has a choice.
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
    def from_keys(cls, keys: NDArray[np.int64], n_items: int) -> "Choices":
        """Make choices from keys ``user * n_items + item``, which are overwritten."""
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

    def summed(
        self, contribute: Callable[..., Sequence[NDArray[Any]]], question: object
    ) -> tuple[Sequence[NDArray[Any]], None]:
        """Sum the contributions of all users to a release; see `People` of the door."""
        return contribute(self, question), None

    def chunks(self, chunks_at_once: int = 1) -> "Iterator[Choices]":
        """All users in one chunk."""
        yield self

    def among(self, items: NDArray[np.int64]) -> "Choices":
        """Keep only choices of these items, renumbered by their place in `items`.

        All users stay, some perhaps without a choice. A user's items need no longer
        ascend.
        """
        place = np.full(self.n_items, -1, dtype=np.int32)
        place[items] = np.arange(len(items))
        renumbered = place[self.items]
        here = Choices(self.users, self.starts, renumbered, len(items))
        return here.kept(renumbered >= 0)

    def kept(self, which: NDArray[np.bool_]) -> "Choices":
        """Keep only some of the choices. All users stay, some perhaps without one."""
        starts = np.append(0, np.cumsum(which))[self.starts]
        return Choices(self.users, starts, self.items[which], self.n_items)

    def matrix(self, numbers: NDArray[Any]) -> sparse.csr_array:
        """A number for every choice, in an array of shape (n_users, n_items)."""
        shape = len(self.users), self.n_items
        return sparse.csr_array((numbers, self.items, self.starts), shape=shape)

    def pair_sums(self, weights: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Sums over users of their weight for every pair of their items.

        Parameters
        ----------
        weights : ndarray of shape (n_users,), int
            Sums of integers are exact modulo two to the power of their bits.

        Yields
        ------
        first : int
        sums : ndarray of shape (n_rows, n_items - first), int
            Of the items from `first` on, some rows with all their columns.
        """
        ones = np.ones(len(self.items), weights.dtype)
        by_item = self.matrix(ones).T.tocsr()
        weighted = self.matrix(np.repeat(weights, self.sizes))
        n_rows = max(min(_CELLS, self.n_items**2 // _PARTS) // self.n_items, 1)
        for first in range(0, self.n_items, n_rows):
            rows = by_item[first : first + n_rows]
            yield first, (rows @ weighted[:, first:]).toarray()

    def chunk(self, first: int, last: int) -> "Choices":
        """Choices of the users in rows `first` to `last - 1`."""
        starts = self.starts[first : last + 1]
        items = self.items[starts[0] : starts[-1]]
        users = self.users[first:last]
        return Choices(users, starts - starts[0], items, self.n_items)

    def position(self, users: NDArray[np.integer]) -> NDArray[np.integer]:
        """Row of each user in `self.users`; -1 for a user without a choice."""
        return places_of(users, self.users)

    def of_users(self, users: NDArray[np.integer]) -> "Choices":
        """Choices of the given users, in the given order; some may have none.

        The time depends only on these users and their choices.
        """
        rows = self.position(users)
        first = self.starts[rows]
        sizes = np.where(rows < 0, 0, self.starts[rows + 1] - first)
        starts = np.append(0, np.cumsum(sizes))
        offset = np.repeat(first - starts[:-1], sizes)
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
        return Choices.from_keys(np.concatenate(keys), self.n_items)
