"""Look-up of ids and labels among known ones, each by itself.

Two values are the same if they are of one kind and equal in Python: 1, 1.0 and
``np.float32(1)`` are one number, but "1" is a text, and True is a boolean. The kinds
are numbers, booleans, text, bytes, times and other objects. Integers are never rounded
to floats for a comparison, whatever the types of two arrays.
"""

import contextlib
import re
from collections.abc import Hashable
from datetime import date, time, timedelta
from functools import cached_property
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validation import declared_list, malformed
from ._each import one_each
from ._folds import length_of, nanoseconds_of

# The kind of all elements of an array, by NumPy's letter for its type.
_KINDS = {"b": "booleans", "U": "text", "S": "bytes"}
_KINDS |= dict.fromkeys("iuf", "numbers") | dict.fromkeys("mM", "times")
# The first words in the names of types of pandas, polars and pyarrow.
_NAMES = {"bool": "booleans", "boolean": "booleans", "binary": "bytes"}
_NAMES |= dict.fromkeys(("str", "string", "utf", "categorical", "enum"), "text")
_NAMES |= dict.fromkeys(("int", "uint", "float", "double", "decimal"), "numbers")
_NAMES |= dict.fromkeys(("date", "datetime", "time", "timestamp", "duration"), "times")
# What converts an array to labels of a kind.
_CONVERTED = {"text": ".astype(str)", "numbers": ".astype(float)"}
_TIMES = date, time, timedelta, np.datetime64, np.timedelta64
# Values of these types are their own keys.
_PLAIN = {bytes, float, int, str}


def kinds_of(values: NDArray[Any]) -> set[str]:
    """Kinds of the values; each value is looked at on its own."""
    if values.dtype != object:
        return {_KINDS.get(values.dtype.kind, "other objects")}
    return set(map(_kind_of, set(map(type, values.tolist()))))


def _kind_of(kind: type) -> str:
    if issubclass(kind, bool | np.bool_):
        return "booleans"
    # NumPy counts durations among its integers.
    if issubclass(kind, _TIMES):
        return "times"
    if issubclass(kind, str | bytes):
        return "text" if issubclass(kind, str) else "bytes"
    is_complex = issubclass(kind, complex | np.complexfloating)
    is_number = issubclass(kind, Number) and not is_complex
    return "numbers" if is_number else "other objects"


def type_of(values: Any) -> object:
    """The type of all values of an array or a column; None if they have none.

    Lists have none: it would follow from their values.
    """
    if hasattr(values, "dtypes") and not hasattr(values, "dtype"):
        types = list(values.dtypes)
        return types[0] if len(types) == 1 else None
    of_arrow = values.type if hasattr(values, "to_pylist") else None
    return getattr(values, "dtype", of_arrow)


def kinds_of_type(dtype: object) -> set[str]:
    """Kinds of values that a column of this type holds; empty if it does not say.

    Reads no value.
    """
    dtype = _of_categories(dtype)
    if isinstance(dtype, np.dtype) and dtype.kind not in "O" + "".join(_KINDS):
        return {"other objects"}
    found = _KINDS.get(getattr(dtype, "kind", ""))
    word = re.match("[a-z]*", str(dtype).lower())
    return {found or _NAMES.get(word[0] if word else "", "")} - {""}


def _of_categories(dtype: object) -> object:
    """The type of the categories of a column that has some; other types as they are."""
    return getattr(getattr(dtype, "categories", None), "dtype", dtype)


def check_type(dtype: object, known: NDArray[Any], name: str, of_known: str) -> None:
    """Refuse values of a type that equals none of the known ones.

    That is a type of another kind, such as text where the known ones are numbers, or
    one that is too small for any of them, such as bytes for a class of 1000. An array
    of objects and a list have no type.

    Parameters
    ----------
    dtype : object
        As `type_of` returns it.
    known : ndarray
        Public, of one kind, at least one.
    name, of_known : str
        What the values and the known ones are called in messages.

    Raises
    ------
    ValueError
        If the values are of such a type.
    """
    passed, kinds = kinds_of_type(dtype), kinds_of(known)
    if not passed <= kinds:
        (kind,), (other,) = kinds, passed
        converted = _CONVERTED.get(kind, "")
        advice = f"np.asarray({name}){converted}, or " if converted else ""
        raise malformed(
            "types",
            f"{name} holds {other}, but {of_known} are {kind}. Pass {advice}"
            f"{of_known} that are {other}.",
        )
    if not _may_equal(dtype, known):
        raise malformed(
            "types",
            f"{name} is of type {dtype}, which can hold none of {of_known}: what does "
            f"not fit was cut off before. Keep them from the start in a list, or in an "
            f"array of objects: np.array(labels, dtype=object).",
        )


def _may_equal(dtype: object, known: NDArray[Any]) -> bool:
    """Whether numbers of a type, which may be too small, may equal a known one.

    The width of text is no type: NumPy takes it from the longest of the values.
    """
    dtype = _of_categories(dtype)
    if not isinstance(dtype, np.dtype):
        try:
            dtype = np.dtype(getattr(dtype, "numpy_dtype", str(dtype).lower()))
        except TypeError:
            return True
        if dtype.kind not in "iuf":
            return True
    if dtype.kind not in "iuf":
        return True
    return any(_is_held(known[k : k + 1], dtype) for k in range(len(known)))


def _is_held(one: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            typed = one.astype(dtype)
    except (OverflowError, TypeError, ValueError):
        return False
    return bool(are_equal(typed, one)[0])


def declared_labels(values: object, name: str) -> NDArray[Any]:
    """A public list of labels that are all different and of one kind, sorted.

    Raises
    ------
    ValueError
        If it is not such a list.
    """
    given = one_each(values, name)
    labels, kinds = declared_list(given, name), kinds_of(given)
    if len(kinds) > 1 or "other objects" in kinds:
        raise ValueError(
            f"{name} must hold labels of one kind: numbers, booleans, text, bytes or "
            f"times."
        )
    keys: list[Any] = _keys_of(labels)
    if len(set(keys)) < len(keys):
        raise ValueError(f"{name} must be a list of labels that are all different.")
    labels = labels[sorted(range(len(keys)), key=keys.__getitem__)]
    if labels.dtype != object:
        return labels
    typed = np.array(labels.tolist())
    # A common type may have rounded integers beside floats.
    return typed if _keys_of(typed) == sorted(keys) else labels


def index_of(known: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """Index of every value among the known ones; -1 if it is not known."""
    return Known(known).find(values)


def in_order_of(rows: Any, known: object, name: str, of_known: str) -> Any:
    """Declared rows in the order of the known ids, if their labels say whose they are.

    Only objects with an index, such as those of pandas, have labels. A default index,
    and labels of which none is a known id, say nothing: the rows are in order then. So
    do labels of which some are known, if the ids are the numbers from 0 on: they may be
    those of a file from which rows were chosen.

    Parameters
    ----------
    rows : array-like
        One row for each known id, and perhaps more.
    known : array-like of shape (n,) or int
        An integer n stands for the numbers from 0 to n - 1.
    name, of_known : str
        What the rows and the known ids are called in messages.

    Returns
    -------
    rows : array-like

    Raises
    ------
    ValueError
        If some known ids are among the labels and others are not, or twice.
    """
    labels = getattr(rows, "index", None)
    if not (hasattr(labels, "equals") and hasattr(rows, "iloc")):
        return rows
    # An index that counts rows is written as a range.
    ends = getattr(labels, "start", None), getattr(labels, "step", None)
    if ends == (0, 1) or getattr(labels, "nlevels", 1) > 1:
        return rows
    column, is_number = one_each(labels, f"index of {name}"), isinstance(known, int)
    ids = np.arange(known) if isinstance(known, int) else one_each(known, of_known)
    of_label = index_of(ids, column)
    counts = np.bincount(of_label[of_label >= 0], minlength=len(ids))
    if not counts.any() or (is_number and not counts.all()):
        return rows
    if not np.all(counts == 1):
        what = "some twice" if counts.all() else "not all"
        raise ValueError(
            f"The index of {name} holds some of {of_known}, but {what}. Give each "
            f"exactly one row, such as by rows.reindex(...), or pass rows.to_numpy() "
            f"if the rows are in order."
        )
    places = np.full(len(ids), -1)
    places[of_label[of_label >= 0]] = np.flatnonzero(of_label >= 0)
    return rows.iloc[places]


def check_in_order(rows: object, known: object, name: str, of_known: str) -> None:
    """Refuse declared rows whose labels are the known ids in another order.

    Only objects with an index, such as those of pandas, have labels. Other labels, such
    as those of a file from which rows were chosen, say nothing about the order.

    Parameters
    ----------
    rows : array-like
        One row for each known id, in their order.
    known : array-like of shape (n,)
    name, of_known : str
        What the rows and the known ids are called in messages.

    Raises
    ------
    ValueError
        If every label is a known id, and some are not in their places.
    """
    labels = getattr(rows, "index", None)
    if not hasattr(labels, "equals") or getattr(labels, "nlevels", 1) > 1:
        return
    column = one_each(labels, f"index of {name}")
    places = index_of(one_each(known, of_known), column)
    if np.all(places >= 0) and not np.array_equal(places, np.arange(len(places))):
        raise ValueError(
            f"The index of {name} holds {of_known} in another order. Pass "
            f"rows.loc[{of_known}], or rows.to_numpy() if the order is right."
        )


def check_unlabelled(values: object, name: str, order: str) -> None:
    """Refuse declared values with labels, where no labels say what they belong to.

    A default index says nothing, nor does one that counts the values from 0 on.

    Parameters
    ----------
    values : array-like
    name, order : str
        What the values are called in messages, and the order that they have.

    Raises
    ------
    ValueError
        If they have other labels.
    """
    labels: Any = getattr(values, "index", None)
    if not (hasattr(labels, "equals") and hasattr(values, "iloc")):
        return
    numbers = np.arange(len(labels))
    if getattr(labels, "nlevels", 1) > 1 or not np.array_equal(labels, numbers):
        raise ValueError(
            f"The index of {name} is not read. Pass {name}.to_numpy(), in the order of "
            f"{order}."
        )


def numbers_of(values: object, name: str) -> NDArray[Any]:
    """Values such as groups as numbers: equal numbers for equal values.

    The numbers follow the order of the values, if they have one. An array of one type
    is returned unchanged.

    Raises
    ------
    ValueError
        If a value is missing or has no hash.
    """
    column = one_each(values, name)
    if column.dtype != object:
        return column
    keys = _keys_of(column)
    if None in keys:
        raise ValueError(
            f"Some of {name} are missing, or cannot be compared, such as lists. Leave "
            f"out their rows."
        )
    kinds = {key: _kind_of(type(v)) for key, v in zip(keys, column, strict=True)}
    distinct: list[Any] = list(kinds)
    with contextlib.suppress(TypeError):  # They have no order.
        distinct.sort(key=lambda key: (kinds[key], key))
    number = {key: k for k, key in enumerate(distinct)}
    return np.array([number[key] for key in keys], dtype=np.int64)


def people_of(groups: object, n_samples: int) -> NDArray[np.int64] | None:
    """Number of the person of every sample, in the order in which they occur.

    Parameters
    ----------
    groups : array-like of shape (n_samples,) or None
        An id for every sample; None if each is another person's.
    n_samples : int

    Raises
    ------
    ValueError
        If there are more or fewer of them, if one is missing or has no hash. The
        message does not tell how many samples there are, which may be private.
    """
    if groups is None:
        return None
    numbers = numbers_of(groups, "groups")
    if len(numbers) != n_samples:
        raise malformed(
            "arrays", "groups must have one id for each sample of X, in the same order."
        )
    if np.any(numbers != numbers):
        raise malformed("ids", "Some of groups are missing. Leave out their rows.")
    _, first, index = np.unique(numbers, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[index]


def are_equal(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether values are the same in two columns of equal length, pair by pair."""
    pairs = zip(_keys_of(first), _keys_of(second), strict=True)
    # As in a dictionary, values with different hashes are not even compared.
    return np.array([a is not None and a in {b} for a, b in pairs], dtype=bool)


class Known:
    """Known ids or labels to look up others in; sorts or hashes them only once.

    Parameters
    ----------
    known : ndarray of shape (n,)
        All different.
    """

    def __init__(self, known: NDArray[Any]) -> None:
        self._known = known

    @cached_property
    def kinds(self) -> set[str]:
        """See `kinds_of`."""
        return kinds_of(self._known)

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        return np.argsort(self._known, kind="stable")

    @cached_property
    def _sorted(self) -> NDArray[Any]:
        return self._known[self._order]

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {key: k for k, key in enumerate(_keys_of(self._known))}

    def find(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Index of every value; -1 if it is not known."""
        kinds = self._known.dtype.kind + values.dtype.kind
        if kinds in ("bb", "ii", "uu", "ff"):
            return self._of_numbers(values)
        if kinds == "if":
            # As floats, known integers beyond 2**53 would be rounded.
            floats = values.astype(np.promote_types(values.dtype, np.float64))
            is_within = (floats >= -(2.0**63)) & (floats < 2.0**63)
            whole = np.where(is_within, floats, 0).astype(np.int64)
            return np.where(whole == floats, self._of_numbers(whole), -1)
        numbers = [self._index.get(key, -1) for key in _keys_of(values)]
        return np.array(numbers, dtype=np.int64)

    def _of_numbers(self, values: NDArray[Any]) -> NDArray[np.int64]:
        place = np.searchsorted(self._sorted, values)
        nearest = self._order[np.minimum(place, len(self._order) - 1)]
        return np.where(self._known[nearest] == values, nearest, -1)


def _keys_of(values: NDArray[Any]) -> list[Hashable]:
    """Keys for a dictionary: equal if and only if the values are the same.

    None stands for values that equal no other: missing ones and those without a hash.
    """
    if values.dtype.kind in "iufSU":
        return values.tolist()
    return [v if type(v) in _PLAIN and v == v else _key_of(v) for v in values]


def _key_of(value: object) -> Hashable:
    if isinstance(value, np.generic) and not isinstance(value, _TIMES):
        value = value.item()
    kind = _kind_of(type(value))
    if kind == "booleans":
        return kind, value
    if kind == "times":
        return _time_of(value)
    if kind == "numbers":
        return value if value == value else None
    try:
        hash(value)
    except TypeError:
        return None
    return None if type(value).__name__ == "NAType" else value


def _time_of(value: Any) -> Hashable:
    """The nanosecond of a time, or the length of a duration, as an exact integer."""
    if value != value:  # NaT
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        kind = "durations" if isinstance(value, np.timedelta64) else "times"
        (length,) = nanoseconds_of(np.array([value]))[0].tolist()
        return kind, length, False
    kind = next(
        name
        for name, types in (("durations", timedelta), ("hours", time), ("times", date))
        if isinstance(value, types)
    )
    # A time with a zone never equals one without.
    return kind, length_of(value), getattr(value, "tzinfo", None) is not None
