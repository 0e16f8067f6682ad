"""Dask arrays and frames of samples; Dask itself is imported by whoever passes one."""

import math
import sys
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_lazy", "extremes", "is_dask", "loaded", "map_chunks", "named_columns"]


def is_dask(X: Any) -> bool:
    """Whether these are samples in chunks: a Dask array, or a frame of Dask."""
    return isinstance(X, (_kind("array", "Array"), _kind("dataframe", "DataFrame")))


def _kind(module: str, name: str) -> Any:
    return getattr(sys.modules.get(f"dask.{module}"), name, ())


def named_columns(X: Any) -> Any:
    """What tells the columns and their names: no row of a frame, or the array."""
    return X._meta if isinstance(X, _kind("dataframe", "DataFrame")) else X


def loaded(*values: Any) -> tuple[Any, ...]:
    """The same with all that is lazy computed, at once."""
    base: Any = sys.modules.get("dask.base")
    if base is None or not any(map(base.is_dask_collection, values)):
        return values
    return base.compute(*values, traverse=False)


def check_lazy(X: Any, name: str = "X") -> Any:
    """A Dask array that holds numbers, as far as its shape and type tell.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        No value is read.
    name : str, default="X"
        For messages.

    Returns
    -------
    array : dask.array.Array of shape (n_samples, ...)
        The number of samples may be unknown (NaN).

    Raises
    ------
    ValueError
        If it is not one of samples of a known shape.
    """
    if isinstance(X, _kind("dataframe", "DataFrame")):
        X = X.to_dask_array()
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must hold real numbers.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers; its type is {X.dtype}.")
    if X.ndim < 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: {name} holds samples."
        )
    if any(map(math.isnan, X.shape[1:])):
        raise ValueError(
            f"The shape of a sample of {name} is not known; "
            f"compute_chunk_sizes() makes it so."
        )
    if X.shape[0] == 0:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is "
            f"required."
        )
    return X


def extremes(X: Any) -> tuple[float, float]:
    """Least and largest entry of an array; of a Dask array, by one computation."""
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
        Of the number of a chunk and the chunk. It is in the graph, which goes to the
        scheduler and the workers.
    X : dask.array.Array of shape (n_samples, ...)
        Axes other than the first are put into one chunk.
    shape : tuple of int
        Of what the function makes of a sample.
    dtype : dtype
        Of that.
    name : str
        What the tasks are called; a random number follows.

    Returns
    -------
    found : dask.array.Array of shape (n_samples, *shape)
        A task reads one chunk, and its result depends on nothing but that, the chunk's
        number and the function.
    """
    whole = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    # Not made from what the tasks hold: a hash of that would be seen everywhere.
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
    """A function of chunks that shows nothing of what it holds."""

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
        # A stream is for these samples: of others, its noise would tell differences.
        if not math.isnan(stop - start) and len(chunk) != stop - start:
            raise RuntimeError(
                f"This chunk of X has {len(chunk)} samples, and had {stop - start} "
                f"when its release was recorded."
            )
        if not len(chunk):
            return np.empty((0, *self._shape), self._dtype)
        found = self._function(block_info[0]["chunk-location"][0], chunk)
        found = found.astype(self._dtype, copy=False)
        return found.reshape(len(chunk), *self._shape)

    def __repr__(self) -> str:
        return self._name

    def __dask_tokenize__(self) -> str:
        return self._name
