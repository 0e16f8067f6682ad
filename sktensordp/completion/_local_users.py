"""The rows of users, by their ids, which stay in this process.

Which ids there are, how many, and which row an id has are as private as the users'
entries. So the map from ids to rows is never pickled or deep-copied, and no text shows
it.

Rows are drawn at random, from far more than there will ever be users. If they were
given in the order of ids, a user who joins would move others to other rows. As they
are, the rows of all other users have the same distribution whether or not a user is in
the data: each choice of distinct rows is as likely as any other. So it does not matter
what later steps do with the numbers of rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._local import Local

# Number of rows that are reserved. Nothing but the lattice of the noise depends on it,
# whose sums are exact for so many users.
N_RESERVED = 2**31 - 2


class LocalUsers(Local):
    """The rows that ids have among those reserved; a further user makes a new object.

    Parameters
    ----------
    rows : dict of id to int, default=None
    """

    def __init__(self, rows: dict[Any, int] | None = None) -> None:
        self._rows = rows or {}

    def rows_of(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Row of each id; -1 for an unknown user."""
        values = _hashable(ids)
        rows = (self._rows.get(value, -1) for value in values)
        return np.fromiter(rows, dtype=np.int64, count=len(values))

    def joined_by(self, ids: NDArray[Any], first: int = 0) -> "LocalUsers":
        """Give each new id a free row, from `first` on; known ids keep theirs."""
        rows = dict(self._rows)
        taken = set(rows.values())
        waiting = list(set(_hashable(ids)).difference(rows))
        # No seed, which would repeat the rows. A row that is taken is drawn again, so
        # that all choices of distinct free rows are equally likely.
        bits = np.random.default_rng()
        while waiting:
            drawn = bits.integers(first, N_RESERVED, size=len(waiting)).tolist()
            still_waiting = []
            for id_, row in zip(waiting, drawn, strict=True):
                if row in taken:
                    still_waiting.append(id_)
                else:
                    rows[id_] = row
                    taken.add(row)
            waiting = still_waiting
        return LocalUsers(rows)


def _hashable(ids: NDArray[Any]) -> list[Any]:
    """The ids as Python objects."""
    values: list[Any] = ids.tolist()
    try:
        set(values)
        return values
    except TypeError:
        pass
    # Raised outside of the handler, or the TypeError would be its context.
    raise ValueError("Some ids are neither numbers nor strings.")
