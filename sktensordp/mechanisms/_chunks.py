"""Methods of samples, applied lazily to the chunks of a Dask array."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from .._dask import map_chunks
from .._random import NoiseStreams, SentStreams
from .._validation import check_numeric, checked

DTYPES = (np.float64, np.float32)
AS_SAMPLES = {"allow_nd": True, "dtype": DTYPES, "order": "C"}


def checked_rows(chunk: Any, name: str, input_name: str = "X") -> NDArray[np.floating]:
    """Samples of a chunk as rows, after a check of their values; it may be empty.

    `name` and `input_name` are those of the estimator and the samples, for messages.
    """
    check_numeric(chunk, input_name)
    array = checked(
        check_array,
        chunk,
        **AS_SAMPLES,
        input_name=input_name,
        estimator=name,
        ensure_min_samples=0,
    )
    return array.reshape(len(array), -1)


@dataclass(frozen=True, repr=False)
class _ChunkTask:
    """Checks the values of one chunk of samples and applies a method to its rows.

    Attributes
    ----------
    method : callable
        Takes rows, and the noise streams if there are any.
    streams : SentStreams or None
        Streams of the whole release; chunk n takes those of step n.
    name, input_name : str
        Names of the estimator and of the samples, for messages.
    """

    method: Callable[..., NDArray[np.floating]]
    streams: SentStreams | None
    name: str
    input_name: str

    def __call__(self, number: int, chunk: Any) -> NDArray[np.floating]:
        rows = checked_rows(chunk, self.name, self.input_name)
        if self.streams is None:
            return self.method(rows)
        return self.method(rows, self.streams.step(number))


def in_chunks(
    method: Callable[..., NDArray[np.floating]],
    X: Any,
    shape: tuple[int, ...],
    estimator: object,
    *,
    streams: NoiseStreams | None = None,
    input_name: str = "X",
) -> Any:
    """Apply a method of rows lazily to the chunks of a Dask array.

    Parameters
    ----------
    method : callable
        Takes rows, and the noise streams if there are any.
    X : dask.array.Array of shape (n_samples, ...)
    shape : tuple of int
        Shape of the result for one sample.
    estimator : estimator
        The tasks get its name alone.
    streams : NoiseStreams, default=None
        Streams of the release, which has been recorded.
    input_name : str, default="X"
        Name of the samples, for messages.

    Returns
    -------
    result : dask.array.Array of shape (n_samples, *shape)
    """
    name = type(estimator).__name__
    sent = None if streams is None else streams.sent()
    task = _ChunkTask(method, sent, name, input_name)
    dtype = X.dtype if X.dtype in DTYPES else np.dtype(float)
    return map_chunks(task, X, shape, dtype, name)
