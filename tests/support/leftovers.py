"""What a test leaves behind in its process, which another test could stumble over."""

import contextvars
import os
import threading
import time
import warnings
from contextlib import suppress

from tests.support.budgets import left_open

# For so many seconds, threads may end that have nothing left to do.
PATIENCE = 10
# Threads that serve later tests, too: of pools, clusters, and callbacks ("_accept").
SERVING = (
    "ExecutorManagerThread", "QueueFeederThread", "ThreadPoolExecutor",
    "Dask-", "IO loop", "Profile", "TCP-Executor", "AsyncProcess", "asyncio_",
    "zarr_io", "(_accept)",
)  # fmt: skip
# Pytest sets the first; imports of scikit-learn and polars set the others.
SET_BY_OTHERS = {"PYTEST_CURRENT_TEST", "KMP_INIT_AT_FORK", "_RJEM_MALLOC_CONF"}
SET_ON_FIRST_USE = {"decimal_context"}


def _environment():
    return {k: v for k, v in os.environ.items() if k not in SET_BY_OTHERS}


def _warning_filters():
    return [*warnings.filters, warnings.showwarning]


def _context():
    """Values of the variables that differ from their defaults."""
    nothing, found = contextvars.Context(), {}
    for var, value in contextvars.copy_context().items():
        with suppress(LookupError):
            if value is nothing.run(var.get):
                continue
        found[var] = id(value)
    return found


def _threads():
    return {
        thread
        for thread in threading.enumerate()
        if not any(name in thread.name for name in SERVING)
    }


class Leftovers:
    """Compares a process with what it was when this was made."""

    def __init__(self):
        self._environment, self._filters = _environment(), _warning_filters()
        self._context, self._threads = _context(), _threads()

    def found(self):
        """What is left behind, in words: a list. Budgets are closed."""
        found = ["an open budget"] * left_open()
        old, new = self._environment, _environment()
        found += [
            f"the environment variable {name}"
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name)
        ]
        # Threads that serve later tests mix the filters up; pytest restores them.
        serving = set(threading.enumerate()) - _threads()
        if _warning_filters() != self._filters and not serving:
            found.append("other filters of warnings")
        old, new = self._context, _context()
        found += [
            f"the context variable {var.name}"
            for var in old.keys() | new.keys()
            if old.get(var) != new.get(var) and var.name not in SET_ON_FIRST_USE
        ]
        return found + sorted(f"the thread {t.name}" for t in self.threads())

    def threads(self):
        """Threads that go on, after some patience: a set."""
        end = time.monotonic() + PATIENCE
        while (left := _threads() - self._threads) and time.monotonic() < end:
            for thread in left:
                thread.join(0.05)
        return left
