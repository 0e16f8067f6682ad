"""Coordinates of the observed entries of a sparse tensor."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_coordinates(where: NDArray[Any]) -> NDArray[np.integer]:
    """Coordinates of the entries that a mask marks; coordinates stay as they are."""
    if where.dtype != bool:
        return where
    return np.stack(np.nonzero(where), axis=1, dtype=np.int32)


def group_by_mode(
    coordinates: NDArray[np.integer], shape: Sequence[int]
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.integer]]]:
    """Group the entries by their row, once for every mode.

    Counting sorts take linear time. Within a row, entries are sorted by their index in
    the largest of the other modes, so that code that gathers rows of that mode reads
    memory in one direction.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int32
        Column-major (Fortran) order is fastest.
    shape : tuple of int

    Yields
    ------
    mode : int
    starts : ndarray of shape (shape[mode] + 1,), int64
        The entries of row r are ``order[starts[r]:starts[r + 1]]``.
    order : ndarray of shape (n,), int32
        A permutation of the entries 0 to n - 1.
    """
    largest, second, *others = np.argsort(shape, kind="stable")[::-1].tolist()
    by_second = _sort(coordinates, shape, second)[1]
    yield largest, *_sort(coordinates, shape, largest, by_second)
    del by_second
    by_largest = _sort(coordinates, shape, largest)[1]
    for mode in (second, *others):
        yield mode, *_sort(coordinates, shape, mode, by_largest)


def _sort(
    coordinates: NDArray[np.integer],
    shape: Sequence[int],
    mode: int,
    order: NDArray[np.integer] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
    """Sort entries stably by their index in a mode, starting from `order`."""
    from .kernels._cp import counting_sort

    n = len(coordinates)
    dtype: type[np.integer] = np.int32 if n < 2**31 else np.int64
    previous = np.arange(n, dtype=dtype) if order is None else order
    starts, order = np.zeros(shape[mode] + 1, dtype=np.int64), np.empty(n, dtype=dtype)
    counting_sort(coordinates[:, mode], previous, starts, order)
    return starts, order


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
