"""Threads that share work, and a limit of BLAS to one thread."""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def in_threads(
    function: Callable[[_Task], _Result], tasks: Iterable[_Task], n_threads: int
) -> list[_Result]:
    """Results of a function for all tasks, in their order.

    For one task or one thread, no thread is started: starting one takes longer than a
    release of a few numbers.
    """
    tasks = list(tasks)
    n_threads = min(n_threads, len(tasks))
    if n_threads <= 1:
        return list(map(function, tasks))
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(function, tasks))


def even_blocks(n: int, n_blocks: int) -> list[slice]:
    """At most so many consecutive slices of about equal length, at least one."""
    size = max(-(-n // n_blocks), 1)
    return [slice(begin, min(begin + size, n)) for begin in range(0, max(n, 1), size)]


@lru_cache(maxsize=1)
def _blas_libraries() -> ThreadpoolController:
    """The loaded BLAS libraries; the search is slow, so it runs once."""
    return ThreadpoolController()


class _OneThread:
    """A context that limits BLAS to one thread, shared by all threads of the process.

    The limit belongs to the process. If each thread restored the limit that it found on
    entry, one could restore the limit set by another, which would then stay for good.
    So the first thread to enter sets the limit, and the last one to leave lifts it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._n_inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._n_inside:
                self._limits = _blas_libraries().limit(limits=1, user_api="blas")
            self._n_inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                self._limits.restore_original_limits()

    def reset_after_fork(self) -> None:
        """Lift the limit in a forked child, which has none of the threads inside."""
        if self._n_inside:
            self._limits.restore_original_limits()
        _OneThread.__init__(self)


one_blas_thread = _OneThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_blas_thread.reset_after_fork)
