"""Dask collections of coordinates and values, and tasks that read their partitions."""

import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import dask
from dask.delayed import Delayed

from ._entries import entries_of

# Name of the column of values in a frame that also holds the coordinates.
_VALUE = "value that is observed"
# Number of results that one task adds up.
_BRANCHES = 8


def task(function: Callable[..., Any], **options: Any) -> Any:
    """A function whose calls are tasks; nothing is derived from their arguments."""
    return dask.delayed(function, pure=False, **options)


def shared(value: Any) -> Delayed:
    """An argument that is sent once for all tasks that take it."""
    # Of a tuple that begins with a function, Dask would send every task a copy.
    return dask.delayed(value, traverse=False)


def computed(*delayed: Any) -> tuple[Any, ...]:
    """The results of delayed values, in this process; see `dask.compute`."""
    with _large_graphs():
        return dask.compute(*delayed)


def in_memory(*delayed: Any) -> tuple[Any, ...]:
    """Compute delayed values now, and keep the results in the memory of the workers."""
    with _large_graphs():
        return dask.persist(*delayed)


@contextmanager
def _large_graphs() -> Iterator[None]:
    """Suppress Dask's warning about large arguments.

    They are part of the graph on purpose: the graph survives the loss of a worker.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def tree_sum(delayed: Iterable[Any]) -> Any:
    """The sum of delayed tuples of numbers or arrays, element by element."""
    delayed = list(delayed)
    while len(delayed) > 1:
        groups = range(0, len(delayed), _BRANCHES)
        delayed = [task(added)(*delayed[a : a + _BRANCHES]) for a in groups]
    return delayed[0]


def added(*terms: Iterable[Any]) -> tuple[Any, ...]:
    """The sum of tuples of numbers or arrays, element by element."""
    return tuple(sum(rest, first) for first, *rest in zip(*terms, strict=True))


def threads_of_workers() -> list[int]:
    """The number of threads of every worker; empty if tasks run in this process."""
    client: Any = getattr(dask.base.get_scheduler(), "__self__", None)
    return [*client.nthreads().values()] if hasattr(client, "nthreads") else []


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
    partitions: Any, name: str, function: Callable[..., Any], *arguments: Any
) -> list[Delayed]:
    """Apply a function to every partition, with its number, lazily.

    For a frame, one task reads a partition and applies the function, so the partition
    does not leave the worker that reads it.
    """
    of_partition = _Task(name, function, arguments)
    if isinstance(partitions, list):
        of_pair = task(of_partition, traverse=False)
        return [of_pair(pair, {"number": k}) for k, pair in enumerate(partitions)]
    options = {"enforce_metadata": False, "align_dataframes": False}
    results = partitions.map_partitions(of_partition, meta=(None, object), **options)
    return list(results.to_delayed())


class _Task:
    """A function of partitions, whose name does not show its arguments."""

    def __init__(
        self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        self._function, self._arguments = function, arguments
        self._name = f"{name}-{uuid.uuid4().hex}"

    def __call__(self, partition: Any, partition_info: dict[str, Any]) -> Any:
        number = partition_info["number"]
        return self._function(partition, number, *self._arguments)

    def __repr__(self) -> str:
        return self._name

    def __dask_tokenize__(self) -> str:
        return self._name


def checked_partition(partition: Any, shape: tuple[int, ...] | None, name: str) -> Any:
    """Coordinates and values of a partition; see `entries_of`.

    Parameters
    ----------
    partition : DataFrame or list of two arrays or frames
    shape : tuple of int or None
        Shape of the tensor, if it is declared.
    name : str
        Name of the estimator, for messages.
    """
    X, y = (
        partition
        if isinstance(partition, list)
        else (partition.drop(columns=_VALUE), partition[_VALUE])
    )
    where, values = entries_of(X, y, shape, name)
    if len(where) != len(values):
        raise ValueError("A partition of X has another length than its partition of y.")
    return where, values
