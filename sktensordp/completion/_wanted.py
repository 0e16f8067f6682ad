"""What is asked of a ranking: for whom, how many items, and which ones it may hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from .._validation import check_numeric, check_unmasked, checked
from ._checks import known_indices

# Number of scores that are ranked at once: so many stay in the processor's cache.
_N_RANKED = 2**18


@dataclass(frozen=True, eq=False)
class Wanted:
    """What the rows of a ranking may hold.

    Attributes
    ----------
    k : int
        Number of items in a row.
    candidates, exclude : sequence of ndarray of int, default=None
        One list of items for all rows, or one for each; -1 is no item. Only candidates
        may be recommended, and nothing that is excluded.
    exclude_observed : bool, default=True
        Whether to leave out what was observed.
    """

    k: int
    candidates: Sequence[NDArray[np.int64]] | None = None
    exclude: Sequence[NDArray[np.int64]] | None = None
    exclude_observed: bool = True

    def at(self, rows: NDArray[np.intp]) -> Wanted:
        """What some of the rows may hold."""
        candidates, exclude = (
            lists
            if lists is None or len(lists) == 1
            else [lists[row] for row in rows.tolist()]
            for lists in (self.candidates, self.exclude)
        )
        return replace(self, candidates=candidates, exclude=exclude)

    def chunks(self, n_rows: int, n_items: int) -> Iterator[tuple[slice, Wanted]]:
        """Yields parts of the rows that are ranked at once, with what they may hold."""
        size = max(_N_RANKED // n_items, 1)
        for start in range(0, n_rows, size):
            rows = slice(start, min(start + size, n_rows))
            yield rows, self.at(np.arange(rows.start, rows.stop))

    def restrict(self, scores: NDArray[np.floating]) -> None:
        """Make the scores of items that a row may not hold minus infinity."""
        if self.candidates is not None:
            others = ~_contains(self.candidates, scores.shape[1])
            np.copyto(scores, -np.inf, where=others)
        if self.exclude is not None:
            np.copyto(scores, -np.inf, where=_contains(self.exclude, scores.shape[1]))


def _contains(lists: Sequence[NDArray[np.int64]], n_items: int) -> NDArray[np.bool_]:
    """Which items each of the lists holds: an array of shape (n_lists, n_items)."""
    # The last column is that of no item.
    found = np.zeros((len(lists), n_items + 1), dtype=bool)
    for row, items in zip(found, lists, strict=True):
        row[items] = True
    return found[:, :-1]


def check_ranking(
    estimator: Any,
    new_users: ArrayLike,
    units: Any,
    k: Any,
    context: Any,
    candidates: Any,
    exclude: Any,
    exclude_observed: Any,
) -> tuple[NDArray[np.int32], Wanted]:
    """Return coordinates at which to rank items, and what the rankings may hold.

    See `BaseCompletion.recommend`, and `known_indices` for new users.
    """
    check_numeric(units, "units")
    first, n_others = np.atleast_1d(units), len(estimator.shape_) - 2
    if first.ndim != 1:
        raise ValueError("units must be an index or a list of indices.")
    rest = np.full(n_others, -1)
    if context is not None:
        check_numeric(context, "context")
        rest = np.asarray(context)
    if rest.shape != (n_others,):
        raise ValueError(f"context must hold {n_others} indices.")
    if not isinstance(exclude_observed, bool | np.bool_):
        raise ValueError("exclude_observed must be True or False.")
    wanted = Wanted(
        check_count(k),
        _check_items(estimator, candidates, len(first), "candidates"),
        _check_items(estimator, exclude, len(first), "exclude"),
        bool(exclude_observed),
    )
    where = _coordinates(estimator, "units", first, -1, *rest)
    return known_indices(estimator, where, "recommend", new_users), wanted


def check_similar(
    estimator: Any, items: Any, k: Any
) -> tuple[NDArray[np.integer], int]:
    """Return the items whose similar ones are asked for, and the number of these."""
    check_numeric(items, "items")
    asked = np.atleast_1d(items)
    if asked.ndim != 1:
        raise ValueError("items must be an index or a list of indices.")
    return _known_items(estimator, asked, "items"), check_count(k)


def check_count(k: Any) -> int:
    """Return the length of a ranking."""
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k must be a positive integer, got {k!r}.")
    return int(k)


def lists_of(values: Any, n_units: int, name: str) -> list[Any]:
    """Split what was passed into lists: a single one for all units, or one for each.

    Raises
    ------
    ValueError
        If it is neither a list nor as many lists as there are units.
    """
    check_unmasked(values, name)
    if _is_list(values):
        if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype != "O":
            return [values]
        # Tuples may be ids.
        is_nested = [_is_list(one) and not isinstance(one, tuple) for one in values]
        if not any(is_nested):
            return [values]
        if all(is_nested) and len(values) == n_units:
            return list(values)
    raise ValueError(
        f"{name} must be a list of items for all units, or a list of such lists, one "
        f"for each unit."
    )


def _is_list(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | dict)


def _check_items(
    estimator: Any, values: Any, n_units: int, name: str
) -> list[NDArray[np.int64]] | None:
    """Return lists of items; see `Wanted`."""
    if values is None:
        return None
    lists = []
    for items in lists_of(values, n_units, name):
        found = np.asarray(items if hasattr(items, "dtype") else list(items))
        if len(found):
            check_numeric(found, name)
            found = _known_items(estimator, found, name)
        lists.append(found.astype(np.int64))
    return lists


def _known_items(estimator: Any, items: NDArray[Any], name: str) -> NDArray[np.integer]:
    """Return indices of items; -1 for unknown ones."""
    unknown = [-1] * (len(estimator.shape_) - 2)
    where = _coordinates(estimator, name, -1, items, *unknown)
    return known_indices(estimator, where, "recommend")[:, 1]


def _coordinates(estimator: Any, name: str, *columns: Any) -> NDArray[Any]:
    """Columns of numbers as an array of a type that holds each of them exactly."""
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
