"""Coordinates of the observed entries of a sparse tensor."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_coordinates", "group_by_mode", "times_recurring"]


def as_coordinates(where: NDArray[Any]) -> NDArray[np.integer]:
    """Coordinates, also of what a mask marks."""
    if where.dtype != bool:
        return where
    return np.stack(np.nonzero(where), axis=1, dtype=np.int32)


def group_by_mode(
    coordinates: NDArray[np.integer], shape: Sequence[int]
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.integer]]]:
    """Entries grouped by their row, for every mode.

    By counting sorts, so that time is linear. The entries of a row are in the order of
    their index in the largest of the other modes: whoever gathers rows of that mode
    goes through memory in one direction.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int32
        Fastest if its columns are contiguous.
    shape : tuple of int

    Yields
    ------
    mode : int
    starts : ndarray of shape (shape[mode] + 1,), int64
        Row r is ``order[starts[r]:starts[r + 1]]``.
    order : ndarray of shape (n,), int32
        Entries 0 to n - 1.
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
    """Entries by their index in a mode; those of one index as `order` has them."""
    from .kernels._cp import counting_sort

    n = len(coordinates)
    kind: type[np.integer] = np.int32 if n < 2**31 else np.int64
    before = np.arange(n, dtype=kind) if order is None else order
    starts, after = np.zeros(shape[mode] + 1, dtype=np.int64), np.empty(n, dtype=kind)
    counting_sort(coordinates[:, mode], before, starts, after)
    return starts, after


def times_recurring(sets: Sequence[NDArray[np.integer]]) -> int:
    """In how many sets a coordinate occurs, at most, if it occurs in the last one.

    Parameters
    ----------
    sets : list of ndarray of shape (n_i, n_modes), int32
        A set may hold a coordinate several times.

    Returns
    -------
    times : int
    """
    touched = np.zeros(1 + max(part[:, 0].max() for part in sets), dtype=bool)
    touched[sets[-1][:, 0]] = True
    chosen = [part[touched[part[:, 0]]] for part in sets]
    numbers = np.repeat(np.arange(len(sets), dtype=np.int32), [*map(len, chosen)])
    every = np.column_stack([np.concatenate(chosen), numbers])
    every = every[np.lexsort(every.T[::-1])]
    changed = every[1:] != every[:-1]
    differs = np.concatenate([[True], changed.any(axis=1)])
    begins = np.concatenate([[True], changed[:, :-1].any(axis=1)])
    return int(np.add.reduceat(differs, np.flatnonzero(begins), dtype=np.int64).max())
