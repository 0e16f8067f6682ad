"""Signs of life of long computations: a progress bar, or else a line in the log.

Nothing appears in the first `QUIET_SECONDS` seconds. Then a terminal or notebook shows
a bar, if `rich` is installed. Elsewhere, the log gets one line, and only if the time is
public.
"""

import functools
import logging
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
LOGGER = logging.getLogger("sktensordp")
QUIET_SECONDS = 10.0
"""Seconds before the first sign."""
# Signs that are open in this process; the last one began last.
_OPEN: list["ProgressReport"] = []


class ProgressReport:
    """Shows that a computation is running, while a ``with`` block lasts.

    Parameters
    ----------
    name : str
        Name of what takes time, such as an estimator.
    task : str
        Name of the tasks that make it up.
    n_tasks : int or None
        Largest number of tasks; None if it is unknown.
    has_time : bool, default=False
        Whether times are public. If not, the bar shows none, and the log gets no line.
    """

    def __init__(
        self, name: str, task: str, n_tasks: int | None, *, has_time: bool = False
    ) -> None:
        self._text, self._task, self._n_tasks = f"{name}: {task}", task, n_tasks
        self._has_time = has_time
        self._done, self._bar, self._start = 0, None, time.monotonic()
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        # Only the main thread of the main process writes to the terminal.
        is_main = threading.current_thread() is threading.main_thread()
        has_reader = self._has_time and LOGGER.isEnabledFor(logging.INFO)
        has_reader |= is_interactive()
        if is_main and multiprocessing.parent_process() is None and has_reader:
            _OPEN.append(self)
            self._timer = threading.Timer(QUIET_SECONDS, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is None:
            return
        _OPEN.remove(self)
        self._timer.cancel()
        self._timer.join()
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        """Count a task that has ended."""
        self._done += 1
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)

    def _show(self) -> None:
        """Show a bar if nothing that began later shows one, or write to the log."""
        if _OPEN[-1:] != [self]:
            return
        if is_interactive():
            # Without rich, or beside another live display of it, there is no bar.
            with suppress(Exception):
                self._bar = self._started_bar()
        elif self._has_time:
            of_all = f" {self._done} of {self._n_tasks}" if self._n_tasks else ""
            left = ""
            if self._n_tasks and self._done:
                each = (time.monotonic() - self._start) / self._done
                left = f", about {each * (self._n_tasks - self._done):.0f} s left"
            LOGGER.info("%s%s after %.0f s%s", self._text, of_all, QUIET_SECONDS, left)

    def _started_bar(self) -> Any:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = [TextColumn("{task.description}"), BarColumn()]
        if self._n_tasks:
            columns.append(MofNCompleteColumn())
        if self._has_time:
            columns += [TimeElapsedColumn(), TimeRemainingColumn()]
        bar = Progress(*columns, console=console(), transient=True)
        bar.add_task(self._text, total=self._n_tasks, completed=self._done)
        bar.start()
        return bar


def watched(function: Function) -> Function:
    """Decorator that shows a sign while a function runs that may take long."""

    @functools.wraps(function)
    def call(*arguments: object, **options: object) -> Any:
        with ProgressReport(function.__name__, "running", None):
            return function(*arguments, **options)

    return call  # type: ignore[return-value]


def is_interactive() -> bool:
    """Whether output goes to a terminal or a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return sys.stderr.isatty() or hasattr(shell, "kernel")


def console() -> Any:
    """Where bars are shown: on stderr, so that redirected output contains none."""
    from rich.console import Console

    return Console(stderr=True)
