"""Samples in chunks of Dask: what a task does with each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from .._dask import map_chunks
from .._random import NoiseStreams, SentStreams
from .._validation import check_numeric, checked

__all__ = ["AS_SAMPLES", "DTYPES", "in_chunks"]

DTYPES = (np.float64, np.float32)
AS_SAMPLES = {"allow_nd": True, "dtype": DTYPES, "order": "C"}


@dataclass(frozen=True, repr=False)
class _ChunkWork:
    """What a task does with a chunk of samples, beside checking its values.

    Attributes
    ----------
    method : callable
        Of rows, and of the noise streams if there are any.
    streams : SentStreams or None
        Of the whole release; a chunk has the part of its number.
    name, input_name : str
        For messages.
    """

    method: Callable[..., NDArray[np.floating]]
    streams: SentStreams | None
    name: str
    input_name: str

    def __call__(self, number: int, chunk: Any) -> NDArray[np.floating]:
        check_numeric(chunk, self.input_name)
        array = checked(
            check_array, chunk, **AS_SAMPLES, input_name=self.input_name,
            estimator=self.name,
        )  # fmt: skip
        rows = array.reshape(len(array), -1)
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
    """A method of rows, applied lazily to the chunks of a Dask array.

    Parameters
    ----------
    method : callable
        Of rows, and of the noise streams if there are any.
    X : dask.array.Array of shape (n_samples, ...)
    shape : tuple of int
        Of what becomes of a sample.
    estimator : estimator
        Of which the tasks know the name alone.
    streams : NoiseStreams, default=None
        Of the release that has been recorded.
    input_name : str, default="X"
        For messages.

    Returns
    -------
    found : dask.array.Array of shape (n_samples, *shape)
    """
    name = type(estimator).__name__
    sent = None if streams is None else streams.sent()
    work = _ChunkWork(method, sent, name, input_name)
    dtype = X.dtype if X.dtype in DTYPES else np.dtype(float)
    return map_chunks(work, X, shape, dtype, name)
