"""Lists of ids in any container: of users who ask, or of what they may be given."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validation import (
    as_numpy,
    check_loaded,
    check_ordered,
    check_unmasked,
    names_of,
    with_names,
)
from ._each import has_a_type, one_each, plain


def one_or_each(values: Any, name: str) -> tuple[bool, NDArray[Any]]:
    """Whether this is a single id, and an array of all ids; each keeps its type.

    A tuple is a list of ids; only within a list is it an id.

    Raises
    ------
    ValueError
        If it has no order (a set), or more than one axis.
    """
    values = plain(values)
    if values is None or isinstance(values, str | bytes):
        return True, _objects([values])
    check_ordered(values, name)
    check_unmasked(values, name)
    values = _column_of(values, name)
    if isinstance(values, list):
        n_axes = 1 + any(map(_is_list, values))
    else:
        n_axes = as_numpy(values, name).ndim
    if n_axes > 1:
        raise ValueError(f"{name} must be one id or index, or a list of them.")
    if not n_axes:
        is_array = isinstance(values, np.ndarray)
        return True, _objects([values[()] if is_array else values])
    return False, _listed(values, name)


def lists_of(values: object, n_lists: int, name: str) -> list[NDArray[Any]]:
    """Split `values` into lists: a single list for all who ask, or one for each.

    The order within a list does not matter, so it may be a set.

    Parameters
    ----------
    values : iterable
        Ids, or lists of ids. Tuples are ids.
    n_lists : int
        Number of those who ask.
    name : str
        Name in messages.

    Raises
    ------
    ValueError
        If it is neither one list nor `n_lists` lists.
    """
    check_loaded(values, name)
    check_unmasked(values, name)
    values = _column_of(values, name)
    if np.iterable(values) and not isinstance(values, str | bytes | Mapping):
        if has_a_type(values) and as_numpy(values, name).ndim == 1:
            return [one_each(values, name)]
        items = _items_of(values)
        is_nested = list(map(_is_list, items))
        if not any(is_nested):
            return [_listed(items, name)]
        check_ordered(values, name)
        if all(is_nested) and len(items) == n_lists:
            return [_listed(one, name) for one in items]
    raise ValueError(
        f"{name} must be a list of items for all units, or a list of such lists, one "
        f"for each unit."
    )


def _column_of(values: Any, name: str) -> Any:
    """The column of a frame that has one; anything else as it is."""
    values = with_names(values)
    return values if names_of(values) is None else one_each(values, name)


def _listed(values: object, name: str) -> NDArray[Any]:
    """A list as an array of its type, if it has one, or of objects.

    Unlike in `one_each`, a tuple is an id.
    """
    if has_a_type(values):
        return one_each(values, name)
    items = _items_of(values)
    if set(map(type, items)) == {int}:  # No element decides the type of others.
        typed = np.array(items)
        return typed if typed.dtype.kind == "i" else _objects(items)
    return _objects(items)


def _items_of(values: object) -> list[Any]:
    if hasattr(values, "to_pylist"):
        return values.to_pylist()
    items = values if np.iterable(values) else as_numpy(values, "ids")
    return list(map(plain, items))


def _objects(items: list[Any]) -> NDArray[np.object_]:
    return np.fromiter(items, dtype=object, count=len(items))


def _is_list(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return hasattr(value, "__len__") and not isinstance(
        value, str | bytes | tuple | Mapping
    )
