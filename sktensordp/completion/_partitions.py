"""Dask collections of coordinates and values, read partition by partition."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import dask
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray
from sklearn.utils import check_array

from .._validation import check_coordinates, check_numeric, checked
from ..tensor._distributed import computed
from ._client import check_values

# Name of the column of values in a frame that also holds the coordinates.
_VALUE = "value that is observed"


def paired_partitions(X: Any, y: Any) -> Any:
    """Pair the partitions: a frame of coordinates and values, or delayed pairs."""
    if not dask.is_dask_collection(y):
        raise ValueError("X is a Dask collection, so y must be one too.")
    if hasattr(X, "assign") and hasattr(y, "to_frame"):
        joined = X.assign(**{_VALUE: y})
        if not (_of_one_frame(X, y) or _aligned(joined, X, y)):
            raise ValueError(
                "X and y come from different frames, and Dask cannot tell which value "
                "belongs to which entry: their indices differ, or their divisions are "
                "unknown. Take X and y from one frame."
            )
        return joined
    coordinates, values = map(_delayed_partitions, (X, y))
    if len(coordinates) != len(values):
        raise ValueError(
            f"X has {len(coordinates)} partitions and y has {len(values)}; rechunk or "
            f"repartition one like the other."
        )
    return [list(pair) for pair in zip(coordinates, values, strict=True)]


def _of_one_frame(X: Any, y: Any) -> bool:
    """Whether both have the partitions of one frame, row by row."""
    from dask.dataframe.dask_expr._expr import are_co_aligned

    return are_co_aligned(X.expr, y.expr)


def _aligned(joined: Any, X: Any, y: Any) -> bool:
    """Whether Dask has joined all of two frames by their index, and in one order.

    With unknown divisions, rows are shuffled, in an order that can change each time. If
    indices differ, values are left out, or coordinates are added.
    """
    if not (X.known_divisions and y.known_divisions):
        return False
    rows, values = joined.shape[0], joined[_VALUE].count()
    try:
        counts = computed(rows, X.shape[0], y.shape[0], values, y.count())
    except ValueError:  # Indices that occur more than once, in different numbers.
        return False
    return len(set(counts[:3])) == len(set(counts[3:])) == 1


def _delayed_partitions(collection: Any) -> list[Delayed]:
    """The partitions of a collection, each a delayed array or frame."""
    if not hasattr(collection, "rechunk"):
        return collection.to_delayed()
    whole = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    return whole.to_delayed().ravel()


def map_partitions(
    partitions: Any, function: Callable[..., Any], *arguments: Any
) -> list[Delayed]:
    """Apply a function to every partition and its number, lazily.

    For a frame, one task reads a partition and applies the function, so the partition
    does not leave the worker that reads it.
    """
    task = _Task(function, arguments)
    if isinstance(partitions, list):
        task = dask.delayed(task, pure=False, traverse=False)
        return [task(pair, {"number": k}) for k, pair in enumerate(partitions)]
    options = {"enforce_metadata": False, "align_dataframes": False}
    results = partitions.map_partitions(task, meta=(None, object), **options)
    return list(results.to_delayed())


class _Task:
    """A function of partitions, whose name does not show its arguments."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        self._function, self._arguments = function, arguments
        self._name = f"{function.__name__}-{uuid.uuid4().hex}"

    def __call__(self, partition: Any, partition_info: dict[str, Any]) -> Any:
        number = partition_info["number"]
        return self._function(partition, number, *self._arguments)

    def __repr__(self) -> str:
        return self._name

    def __dask_tokenize__(self) -> str:
        return self._name


def _coordinates_and_values(partition: Any) -> Sequence[Any]:
    """Split a partition into its coordinates and its values."""
    if isinstance(partition, list):
        return partition
    return partition.drop(columns=_VALUE), partition[_VALUE]


def coordinates_of(
    partition: Any, checks: tuple[tuple[int, ...] | None, str]
) -> NDArray[np.int32]:
    """Checked coordinates of a partition."""
    X, (shape, name) = _coordinates_and_values(partition)[0], checks
    check_numeric(X, "X")
    X = checked(check_array, X, dtype="numeric", ensure_min_samples=0, input_name="X")
    if X.shape[1] < 2:
        raise ValueError(
            f"X has {X.shape[1]} feature(s), but a tensor has two or more modes."
        )
    return check_coordinates(X, shape=shape, name=name)


def values_of(partition: Any) -> NDArray[np.floating]:
    """Checked values of a partition."""
    return check_values(_coordinates_and_values(partition)[1])
