"""Methods of samples, applied lazily to the chunks of a Dask array."""

import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from .._random import NoiseStreams, SentStreams
from .._validation import check_numeric, checked

DTYPES = (np.float64, np.float32)
AS_SAMPLES = {"allow_nd": True, "dtype": DTYPES, "order": "C"}


def checked_rows(
    chunk: object, name: str, input_name: str = "X"
) -> NDArray[np.floating]:
    """Samples of a chunk as rows, after a check of their values; it may be empty.

    `name` and `input_name` are those of the estimator and the samples, for messages.
    """
    array = checked(
        check_array,
        check_numeric(chunk, input_name),
        **AS_SAMPLES,
        input_name=input_name,
        estimator=name,
        ensure_min_samples=0,
    )
    return array.reshape(len(array), -1)


@dataclass(frozen=True, repr=False)
class _ChunkTask:
    """Checks the values of one chunk of samples and applies a method to its rows.

    Its repr and token reveal nothing that it holds.

    Attributes
    ----------
    method : callable
        Takes rows, and the noise streams if there are any.
    streams : SentStreams or None
        Streams of the whole release; chunk n takes those of step n.
    shape : tuple of int
        Shape of the result for one sample.
    dtype : dtype
        Data type of the result.
    name, input_name : str
        Names of the estimator and of the samples, for messages.
    token : str
        Name of the tasks.
    """

    method: Callable[..., NDArray[np.floating]]
    streams: SentStreams | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    name: str
    input_name: str
    token: str

    def __call__(
        self, chunk: NDArray[np.floating], block_info: Any
    ) -> NDArray[np.floating]:
        start, stop = block_info[0]["array-location"][0]
        # The stream serves these samples alone: the same noise on other samples would
        # reveal the difference between the two.
        if not math.isnan(stop - start) and len(chunk) != stop - start:
            raise RuntimeError(
                f"This chunk of X has {len(chunk)} samples, but had {stop - start} "
                f"when its release was recorded: X has changed. Release it anew."
            )
        if not len(chunk):
            return np.empty((0, *self.shape), self.dtype)
        rows = checked_rows(chunk, self.name, self.input_name)
        if self.streams is None:
            result = self.method(rows)
        else:
            number = block_info[0]["chunk-location"][0]
            result = self.method(rows, self.streams.step(number))
        return result.astype(self.dtype, copy=False).reshape(len(chunk), *self.shape)

    def __repr__(self) -> str:
        return self.token

    def __dask_tokenize__(self) -> str:
        return self.token


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
        Takes rows, and the noise streams if there are any. It becomes part of the
        graph, which the scheduler and the workers receive.
    X : dask.array.Array of shape (n_samples, ...)
        Rechunked so that only the first axis is split.
    shape : tuple of int
        Shape of the result for one sample.
    estimator : estimator
        Only its name goes into the tasks.
    streams : NoiseStreams, default=None
        Streams of the release, which has been recorded.
    input_name : str, default="X"
        Name of the samples, for messages.

    Returns
    -------
    result : dask.array.Array of shape (n_samples, *shape)
        Each task reads one chunk. Its result depends on nothing but the chunk, the
        number of the chunk and the method.
    """
    whole = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    name = type(estimator).__name__
    # A random name: one derived from the tasks would show a hash of what they hold.
    token = f"{name}-{uuid.uuid4().hex}"
    sent = None if streams is None else streams.sent()
    dtype = X.dtype if X.dtype in DTYPES else np.dtype(float)
    return whole.map_blocks(
        _ChunkTask(method, sent, shape, dtype, name, input_name, token),
        name=token,
        dtype=dtype,
        chunks=(whole.chunks[0], *((n,) for n in shape)),
        drop_axis=list(range(1, whole.ndim)),
        new_axis=list(range(1, 1 + len(shape))),
        meta=np.empty((0,) * (1 + len(shape)), dtype),
    )
