"""Linear algebra on one thread, where threads would cost more than they save."""

import os
import threading
from functools import lru_cache

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """Looked for once."""
    return ThreadpoolController()


class _OneThread:
    """A context that many threads may be in: the last one to leave lifts the limit.

    The limit is one of the process. Were each to restore what it found, what another
    had set could be left for good.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._n_inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._n_inside:
                self._limits = _libraries().limit(limits=1, user_api="blas")
            self._n_inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                self._limits.restore_original_limits()

    def leave_all(self) -> None:
        """Begin anew, in a process that was forked: none of its threads is inside."""
        if self._n_inside:
            self._limits.restore_original_limits()
        _OneThread.__init__(self)


one_blas_thread = _OneThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_blas_thread.leave_all)
