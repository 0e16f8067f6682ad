"""Samples in Dask arrays and frames. Callers import Dask, not this module."""

import math
import sys
from typing import Any


def is_dask(X: object) -> bool:
    """Whether the samples are in a Dask array or a Dask data frame."""
    return isinstance(
        X, (_dask_class("array", "Array"), _dask_class("dataframe", "DataFrame"))
    )


def _dask_class(module: str, name: str) -> Any:
    """A class of Dask, or an empty tuple while its module is not imported."""
    return getattr(sys.modules.get(f"dask.{module}"), name, ())


def named_columns(X: object) -> Any:
    """The column names: an empty frame for a Dask frame, or the array itself."""
    return X._meta if isinstance(X, _dask_class("dataframe", "DataFrame")) else X


def is_series(y: object) -> bool:
    """Whether `y` is a column of a Dask data frame."""
    return isinstance(y, _dask_class("dataframe", "Series"))


def loaded(*values: object) -> tuple[Any, ...]:
    """The values, with all Dask collections among them computed in one go."""
    base = sys.modules.get("dask.base")
    if base is None or not any(map(base.is_dask_collection, values)):
        return values
    return base.compute(*values, traverse=False)


def check_lazy(X: Any, name: str = "X") -> Any:
    """A Dask array of samples, after a check of its shape and data type.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        Samples; no value is read.
    name : str, default="X"
        Name in messages.

    Returns
    -------
    array : dask.array.Array of shape (n_samples, ...)
        The number of samples may be unknown (NaN).

    Raises
    ------
    ValueError
        If it does not hold real numbers, or the shape of a sample is not known.
    """
    if isinstance(X, _dask_class("dataframe", "DataFrame")):
        X = X.to_dask_array()
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must hold real numbers.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers, but its data type is {X.dtype}.")
    if X.ndim < 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: {name} holds samples."
        )
    if any(map(math.isnan, X.shape[1:])):
        raise ValueError(
            f"The shape of a sample of {name} is not known. "
            f"Call compute_chunk_sizes() on it first."
        )
    if X.shape[0] == 0:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is "
            f"required."
        )
    return X


def extremes(X: Any) -> tuple[float, float]:
    """Smallest and largest entry of an array; a Dask array is computed only once."""
    low, high = map(float, loaded(X.min(), X.max()))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError("Input X contains NaN or infinity.")
    return low, high
