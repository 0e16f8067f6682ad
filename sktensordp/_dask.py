"""Samples in Dask arrays and frames. This module never imports Dask: callers have."""

import math
import sys
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_dask(X: Any) -> bool:
    """Whether the samples are in a Dask array or a Dask data frame."""
    return isinstance(
        X, (_dask_class("array", "Array"), _dask_class("dataframe", "DataFrame"))
    )


def _dask_class(module: str, name: str) -> Any:
    """A class of Dask, or an empty tuple while its module is not imported."""
    return getattr(sys.modules.get(f"dask.{module}"), name, ())


def named_columns(X: Any) -> Any:
    """The column names: an empty frame for a Dask frame, or the array itself."""
    return X._meta if isinstance(X, _dask_class("dataframe", "DataFrame")) else X


def loaded(*values: Any) -> tuple[Any, ...]:
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


def map_chunks(
    function: Callable[[int, NDArray[Any]], NDArray[Any]],
    X: Any,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    name: str,
) -> Any:
    """Apply a function to chunks of whole samples, lazily.

    Parameters
    ----------
    function : callable
        Takes the number of a chunk and the chunk. It becomes part of the graph, which
        the scheduler and the workers receive.
    X : dask.array.Array of shape (n_samples, ...)
        Rechunked so that only the first axis is split.
    shape : tuple of int
        Shape of the result for one sample.
    dtype : dtype
        Data type of the result.
    name : str
        Name of the tasks; a random number is added to it.

    Returns
    -------
    result : dask.array.Array of shape (n_samples, *shape)
        Each task reads one chunk. Its result depends on nothing but the chunk, the
        number of the chunk and the function.
    """
    whole = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    # A random name: one derived from the tasks would show a hash of what they hold.
    name = f"{name}-{uuid.uuid4().hex}"
    return whole.map_blocks(
        _Task(function, shape, dtype, name),
        name=name,
        dtype=dtype,
        chunks=(whole.chunks[0], *((n,) for n in shape)),
        drop_axis=list(range(1, whole.ndim)),
        new_axis=list(range(1, 1 + len(shape))),
        meta=np.empty((0,) * (1 + len(shape)), dtype),
    )


class _Task:
    """A function of chunks whose repr and token show nothing of what it holds."""

    def __init__(
        self,
        function: Callable[[int, NDArray[Any]], NDArray[Any]],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        name: str,
    ) -> None:
        self._function, self._shape = function, shape
        self._dtype, self._name = dtype, name

    def __call__(self, chunk: NDArray[Any], block_info: Any) -> NDArray[Any]:
        start, stop = block_info[0]["array-location"][0]
        # The stream serves these samples alone: the same noise on other samples would
        # reveal the difference between the two.
        if not math.isnan(stop - start) and len(chunk) != stop - start:
            raise RuntimeError(
                f"This chunk of X has {len(chunk)} samples, but had {stop - start} "
                f"when its release was recorded: X has changed. Release it anew."
            )
        if not len(chunk):
            return np.empty((0, *self._shape), self._dtype)
        result = self._function(block_info[0]["chunk-location"][0], chunk)
        result = result.astype(self._dtype, copy=False)
        return result.reshape(len(chunk), *self._shape)

    def __repr__(self) -> str:
        return self._name

    def __dask_tokenize__(self) -> str:
        return self._name
