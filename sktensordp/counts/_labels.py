"""Names of modes and of their categories."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def column_of(mode: int, unit: int | None) -> int:
    """Number of the column of X of a mode, `unit` being the column of people."""
    return mode + (unit is not None and mode >= unit)


def titles(
    counts: Any, names: Sequence[str] | None, categories: Any = None
) -> list[str]:
    """Names of all modes of fitted counts; see `TensorCounts.table`.

    Raises
    ------
    ValueError
        If there are more or fewer names than modes.
    """
    n_modes = len(counts.shape_)
    if names is not None:
        if len(names) != n_modes:
            raise ValueError(f"names must name each of the {n_modes} modes.")
        return list(names)
    for holder in (counts, categories):
        columns = getattr(holder, "feature_names_in_", None)
        if columns is not None:
            return [str(columns[column_of(i, counts.unit)]) for i in range(n_modes)]
    return [f"mode_{i}" for i in range(n_modes)]


def labels(counts: Any, mode: int, categories: Any) -> NDArray[Any]:
    """Names of the categories of a mode; see `TensorCounts.table`.

    Raises
    ------
    ValueError
        If these are not as many as the shape says.
    """
    size = counts.shape_[mode]
    if categories is None:
        return np.arange(size)
    if hasattr(categories, "inverse_transform"):
        column = column_of(mode, counts.unit)
        grid = np.zeros((size, categories.n_features_in_), np.int64)
        grid[:, column] = np.arange(size)
        found: NDArray[Any] = categories.inverse_transform(grid)[:, column]
        return found
    if len(categories) != len(counts.shape_) or len(categories[mode]) != size:
        raise ValueError(
            f"categories must have a list for each of the {len(counts.shape_)} modes "
            f"of the fit, and that of mode {mode} must have {size} names."
        )
    named = np.empty(size, dtype=object)
    named[:] = list(categories[mode])
    return named
