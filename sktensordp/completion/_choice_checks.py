"""The checks of choices that users pass."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._dask import is_dask
from .._validation import check_coordinates
from ._choices import Choices
from ._entries import check_input, check_same_shape, is_empty_list
from ._sparse import entries_from_sparse, is_sparse

# Names of columns that hold values, which choices do not have.
_VALUE_COLUMNS = ("rating", "ratings", "score", "stars", "value")


def check_choices(
    estimator: Any, X: Any, shape: tuple[int, int], *, reset: bool = True
) -> NDArray[np.int64]:
    """Check pairs and return each as a key ``user * n_items + item``.

    Parameters
    ----------
    estimator : estimator
        Learns the feature names and number of features; messages name it.
    X : array-like of shape (n, 2), or sparse array of shape `shape`
        Pairs of a user and an item. Repeated pairs stay repeated. In a sparse array,
        a stored zero or False is no choice.
    shape : tuple of (int, int)
        Numbers of users and of items.
    reset : bool, default=True
        Whether the estimator learns feature names anew, rather than compares them.

    Returns
    -------
    keys : ndarray of shape (n,), int64

    Raises
    ------
    TypeError
        If `X` is a Dask collection.
    ValueError
        If a row is not a pair of a user and an item within `shape`.
    """
    name = type(estimator).__name__
    if is_dask(X):
        raise TypeError(
            f"{name} does not support Dask input. Pass batches to fit_batches."
        )
    for column in getattr(X, "columns", ()):
        if isinstance(column, str) and column.strip().lower() in _VALUE_COLUMNS:
            raise ValueError(
                f"X has a column {column!r}, but choices have no values. Keep the rows "
                f"that count as choices, and drop the column: "
                f"X.drop(columns=[{column!r}])."
            )
    if is_sparse(X):
        check_same_shape(X, shape)
        where, values = entries_from_sparse(X)
        # A refusal of stored zeros would tell whether anybody has one.
        where = where[values != 0]
        if reset:
            vars(estimator).pop("feature_names_in_", None)
            estimator.n_features_in_ = 2
        return where[:, 0] * shape[1] + where[:, 1]
    if _is_empty(X):
        if reset:
            vars(estimator).pop("feature_names_in_", None)
            estimator.n_features_in_ = 2
        return np.empty(0, dtype=np.int64)
    _check_width(getattr(X, "shape", ()), shape)
    X = check_input(estimator, X, reset=reset)
    _check_width(X.shape, shape)
    pairs = check_coordinates(X, shape=shape, name=name)
    return pairs[:, 0].astype(np.int64) * shape[1] + pairs[:, 1]


def choices_of_batches(
    estimator: Any, batches: Iterable[Any], shape: tuple[int, int]
) -> Choices:
    """Check batches and join them; a pair that is in several counts once."""
    chunks: list[NDArray[np.int64]] = []
    for batch in batches:
        chunks.append(check_choices(estimator, batch, shape, reset=not chunks))
    if not chunks:
        estimator.n_features_in_ = 2
        chunks = [np.empty(0, dtype=np.int64)]
    keys = np.empty(sum(map(len, chunks)), dtype=np.int64)
    end = len(keys)
    while chunks:
        # Popping frees the memory of each chunk once it has been copied.
        chunk = chunks.pop()
        keys[end - len(chunk) : end] = chunk
        end -= len(chunk)
    return Choices.of(keys, shape[1])


def _check_width(input_shape: Any, shape: tuple[int, int]) -> None:
    if len(input_shape) == 2 and input_shape[1] != 2:
        raise ValueError(
            f"X must have two columns, since a choice is a pair of a user and an item. "
            f"Pass X of shape (n_choices, 2), or a sparse array of shape {shape}."
        )


def _is_empty(X: Any) -> bool:
    """Whether X holds no pair."""
    if is_empty_list(X):
        return True
    shape: tuple[int, ...] = getattr(X, "shape", ())
    return len(shape) == 2 and shape[0] == 0 and shape[1] == 2
