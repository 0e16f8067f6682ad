"""Tables of ids in Dask frames, whose rows stay in their partitions.

Workers tell which ids occur, and this process numbers them: hashes of ids could
collide. Then each partition encodes itself. Only distinct ids, their numbers of rows,
and the times that decide which bins there are, leave the workers.

**Guarantee.** Nothing is released on the way. Every row gets the coordinates that it
would get in one table: the index of its id among all that occur or are declared or, for
a protected user, a row that `LocalUsers` draws at random. So the guarantee is that of
the fit to these coordinates, and what others get depends on users who are protected
only through that fit. Which ids these users have can refuse nothing: an id of another
type is unknown, unless the type of the column differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._extras import imported
from ..completion._dask import (
    DaskCollection,
    computed,
    coordinates_and_values,
    frame_of_partitions,
    joined_in_tree,
    shared,
)
from ..completion._entries import check_values
from ..completion._local import looked_up
from ._batches import Occurring, RowsOfBatches, merged
from ._encoder import CoordinateEncoder

# A function that checks a table and its values: the table, its users if they are
# protected, the columns to encode, and the values.
Read = Callable[[Any, Any], tuple[Any, list[NDArray[Any]], Any, Any]]
_CHANGED = (
    "A partition no longer holds the ids that it held before. Pass a Dask frame that "
    "gives the same data each time."
)


@dataclass(frozen=True)
class PartitionsOfIds:
    """A Dask frame of ids, and values.

    Attributes
    ----------
    partitions : dask.dataframe.DataFrame
        See `paired_partitions`.
    read : callable
        Checks the table and the values of a partition, on a worker.
    encoder : CoordinateEncoder
        Not fitted.
    hides_users, by_type : bool
        See `RowsOfBatches`.
    """

    partitions: DaskCollection
    read: Read
    encoder: CoordinateEncoder
    hides_users: bool
    by_type: bool

    def occurring(self) -> Occurring | None:
        """What occurs in all partitions; None if there are no rows to look at."""
        found = frame_of_partitions(
            self.partitions, _occurring, shared(self._known), meta=(None, object)
        )
        join = partial(merged, by_type=self.by_type)
        return computed(joined_in_tree(join, found.to_delayed()))[0]

    @property
    def _known(self) -> tuple[Read, CoordinateEncoder, bool, bool]:
        return self.read, self.encoder, self.hides_users, self.by_type

    def encoded(
        self, encoder: CoordinateEncoder, users: Mapping[Any, int] | None
    ) -> tuple[DaskCollection, DaskCollection]:
        """Coordinates, and values of the rows without undeclared ids, lazily.

        Parameters
        ----------
        encoder : CoordinateEncoder
            The fitted one.
        users : mapping of id to int, or None
            Rows of the users, if they are hidden.
        """
        n = len(encoder.shape_) + int(self.hides_users)
        like = dict.fromkeys(range(n), np.int32) | {n: np.float64}
        meta = imported("pandas", "pandas").DataFrame(columns=range(n + 1))
        known = shared((self.read, encoder, users))
        found = frame_of_partitions(
            self.partitions, _encoded, known, meta=meta.astype(like)
        )
        return found[[*range(n)]], found[n]


def _occurring(
    partition: Any, known: tuple[Read, CoordinateEncoder, bool, bool]
) -> Occurring | None:
    """What occurs in a partition; None if it has no rows, and that is public."""
    read, encoder, hides_users, by_type = known
    table, users, others, values = read(*coordinates_and_values(partition))
    if not (by_type or len(table)):
        return None
    rows = RowsOfBatches(clone(encoder), hides_users=hides_users, by_type=by_type)
    rows.add(table, users, others, values)
    return rows.occurring()


def _encoded(
    partition: Any, known: tuple[Read, CoordinateEncoder, Mapping[Any, int] | None]
) -> Any:
    """Coordinates and values of a partition, in a frame whose columns are numbered."""
    read, encoder, rows_of_users = known
    _, users, others, values = read(*coordinates_and_values(partition))
    where = encoder.encode(*encoder.split(others, named=False))
    declared = encoder.categories or [None] * where.shape[1]
    is_declared = [k for k, ids in enumerate(declared) if ids is not None]
    kept = np.all(where[:, is_declared] >= 0, axis=1)
    for ids in users:
        where = np.column_stack([looked_up(rows_of_users or {}, ids), where])
    where = where[kept].astype(np.int32)
    if np.any(where < 0):
        raise RuntimeError(_CHANGED)
    frame = imported("pandas", "pandas").DataFrame(where)
    frame[where.shape[1]] = check_values(values)[kept]
    return frame
