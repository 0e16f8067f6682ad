"""Coordinates of entries."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_coordinates(where: NDArray[Any]) -> NDArray[np.integer]:
    """Coordinates of the entries that a mask marks; coordinates stay as they are."""
    if where.dtype != bool:
        return where
    return np.stack(np.nonzero(where), axis=1, dtype=np.int32)


def times_recurring(sets: Sequence[NDArray[np.integer]]) -> int:
    """The largest number of sets that share a coordinate.

    Only coordinates whose first index occurs in the last set are counted: for a growing
    list of sets, the counts of the others have not changed since the last call.

    Parameters
    ----------
    sets : list of ndarray of shape (n_i, n_modes), int32
        A coordinate that occurs several times in one set counts once for that set.

    Returns
    -------
    times : int
    """
    in_last = np.zeros(1 + max(s[:, 0].max() for s in sets), dtype=bool)
    in_last[sets[-1][:, 0]] = True
    relevant = [s[in_last[s[:, 0]]] for s in sets]
    set_numbers = np.repeat(np.arange(len(sets), dtype=np.int32), [*map(len, relevant)])
    # Rows are a coordinate and, last, the number of its set.
    rows = np.column_stack([np.concatenate(relevant), set_numbers])
    rows = rows[np.lexsort(rows.T[::-1])]
    changed = rows[1:] != rows[:-1]
    is_new_row = np.concatenate([[True], changed.any(axis=1)])
    is_new_coordinate = np.concatenate([[True], changed[:, :-1].any(axis=1)])
    starts = np.flatnonzero(is_new_coordinate)
    return int(np.add.reduceat(is_new_row, starts, dtype=np.int64).max())


def occurring(
    coordinates: NDArray[np.integer], among: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Which coordinates occur among others.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int
    among : ndarray of shape (m, n_modes), int
        At least one.

    Returns
    -------
    occurs : ndarray of shape (n,), bool
    """
    rows = np.concatenate([among, coordinates])
    order = np.lexsort(rows.T[::-1])
    rows = rows[order]
    is_new = np.append(True, (rows[1:] != rows[:-1]).any(axis=1))
    number = np.cumsum(is_new) - 1
    is_there = np.zeros(len(rows), dtype=bool)
    is_there[number[order < len(among)]] = True
    occurs = np.empty(len(rows), dtype=bool)
    occurs[order] = is_there[number]
    return occurs[len(among) :]
