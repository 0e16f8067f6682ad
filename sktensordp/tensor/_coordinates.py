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


def present(
    index: NDArray[np.integer],
) -> tuple[NDArray[np.integer], NDArray[np.int32]]:
    """Indices that occur, ascending, and the position of each given index among these.

    Time and memory depend on the number of entries, not on how large the indices are.
    """
    if len(index) and index.max() < 4 * len(index):
        is_used = np.bincount(index) > 0
        places = (np.cumsum(is_used, dtype=np.int32) - 1)[index]
        return np.flatnonzero(is_used), places
    found, places = np.unique(index, return_inverse=True)
    return found, places.astype(np.int32)


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
    set_numbers = np.repeat(np.arange(len(sets)), [*map(len, relevant)])
    numbers = _numbered(np.concatenate(relevant))
    pairs = np.unique(numbers * len(sets) + set_numbers)
    return int(np.bincount(pairs // len(sets)).max())


def occurring(
    coordinates: NDArray[np.integer], among: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Whether each coordinate occurs among others.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int
    among : ndarray of shape (m, n_modes), int
        At least one.

    Returns
    -------
    occurs : ndarray of shape (n,), bool
    """
    numbers = _numbered(np.concatenate([among, coordinates]))
    is_there = np.zeros(len(numbers), dtype=bool)
    is_there[numbers[: len(among)]] = True
    return is_there[numbers[len(among) :]]


def _numbered(rows: NDArray[np.integer]) -> NDArray[np.int64]:
    """The number of every row among the distinct rows; there is at least one row."""
    order = np.lexsort(rows.T[::-1])
    ordered, numbers = rows[order], np.empty(len(rows), dtype=np.int64)
    is_new = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    numbers[order] = np.cumsum(is_new) - 1
    return numbers
