"""Find columns of a table that hold the values, before a fit makes them public."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._sides import columns_of
from .._validation import check_numeric, check_same_length, checked


def columns_with_values(X: ArrayLike, y: ArrayLike) -> list[Any]:
    """Find the columns of X that hold the values y, such as ratings left in X.

    A fit makes the columns of X public, so call this before it. No fit does so, since
    the result depends on the values: it is for whoever holds them, and not private.

    A column is found if it equals y, or if its entries repeat and rows with the same
    entry always have the same value, as a scale from 1 to 10 does next to its half.

    Parameters
    ----------
    X : array-like or data frame of shape (n_rows, n_columns)
        Users, items and whatever else you would pass to `fit`.
    y : array-like of shape (n_rows,)
        The values.

    Returns
    -------
    columns : list of str or int
        Names of the columns, or their numbers if they have no names.

    Raises
    ------
    ValueError
        If `X` is not 2-dimensional, `y` does not hold numbers, or their lengths differ.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.completion import columns_with_values
    >>> table = [["ann", "Heat", 10], ["ann", "Up", 2], ["bob", "Heat", 2],
    ...          ["bob", "Up", 10]]
    >>> columns_with_values(table, [5, 1, 1, 5])
    [2]
    """
    check_numeric(y, "y")
    check_same_length(X, y)
    from sklearn.utils import column_or_1d

    values = checked(column_or_1d, y, dtype=float)
    names = getattr(X, "columns", None)
    return [
        k if names is None else names[k]
        for k, column in enumerate(columns_of(X))
        if _holds(np.asarray(column), values)
    ]


def _holds(column: NDArray[Any], values: NDArray[np.float64]) -> bool:
    """Whether a column equals the values, or repeats and determines them."""
    try:
        if np.array_equal(column.astype(float), values):
            return True
    except (TypeError, ValueError):
        pass
    ids, groups = np.unique(column.astype(str), return_inverse=True)
    lowest, highest = np.full((2, len(ids)), np.nan)
    np.fmin.at(lowest, groups, values)
    np.fmax.at(highest, groups, values)
    return 2 * len(ids) <= len(values) and bool(np.all(lowest == highest))
