"""Columns of ids or labels, in which each value keeps its own type.

NumPy derives the type of an array from all of its elements: one text in a list turns
the numbers beside it into text, and one fraction turns integers into floats. One
person's id would then rewrite everybody else's. So only values that have a common type
already, such as a NumPy array of integers, are read as an array of that type.
Everything else becomes an array of objects.
"""

from array import array as PlainArray
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from .._validation import (
    as_numpy,
    check_container,
    check_unmasked,
    checked,
    malformed,
    names_of,
    with_names,
)
from ._folds import columns_of


def one_each(values: object, name: str) -> NDArray[Any]:
    """A column of values as an array: of their type, if they have one, or of objects.

    Parameters
    ----------
    values : array-like of shape (n,) or (n, 1)
    name : str
        Name in messages.

    Returns
    -------
    column : ndarray of shape (n,)

    Raises
    ------
    ValueError
        If there is more than one column, or a value is masked.
    """
    check_container(values, name)
    check_unmasked(values, name)
    values = with_names(values)
    table = f"{name} should be a 1d array, got a table of several columns."
    if names_of(values) is not None:
        columns = columns_of(values)
        if len(columns) != 1:
            raise malformed("arrays", table)
        (values,) = columns
    if has_a_type(values):
        array = as_numpy(values, name)
        if array.ndim == 2 and array.shape[1] > 1:
            raise malformed("arrays", table)
        return checked(column_or_1d, array, warn=True)
    if isinstance(values, str | bytes) or not np.iterable(values):
        raise malformed("arrays", f"{name} should be a 1d array, got one value.")
    listed = values.to_pylist if hasattr(values, "to_pylist") else values.__iter__
    items = [_single(value) for value in listed()]
    # One odd value among many is one person's. If all are lists, they are a table.
    if items and all(isinstance(item, list | tuple | np.ndarray) for item in items):
        raise malformed("arrays", table)
    return np.fromiter(items, dtype=object, count=len(items))


def has_a_type(values: object) -> bool:
    """Whether values are in an array of a fixed type, which no single value decides."""
    if hasattr(values, "__array_namespace__") and not isinstance(values, np.ndarray):
        return True
    if isinstance(values, memoryview | PlainArray):
        return True
    dtype = getattr(values, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind != "O"


def plain(value: Any) -> Any:
    """A scalar of pyarrow as an object of Python; anything else as it is."""
    return value.as_py() if hasattr(value, "as_py") else value


def _single(value: object) -> Any:
    """The value in a list or array of length one, as in rows of one column."""
    value = plain(value)
    if isinstance(value, np.ndarray):
        value = value.tolist() if value.size == 1 else value
    while isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    return value
