"""Which budgets are open in this process, and which objects belong to which."""

import contextvars
import functools
import inspect
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from multiprocessing.dummy import Process as PoolThread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

if TYPE_CHECKING:
    from ._filter import Account

_Estimator = TypeVar("_Estimator")
_P = ParamSpec("_P")
_T = TypeVar("_T")

LONGEST_WAIT = 60.0
"""Seconds for which a process waits for another one to unlock a file."""
_PAUSE = 0.01
"""Seconds between two tries."""


class Mark(NamedTuple):
    """A budget to which an object belongs.

    It was open where the object was copied, or covers it.

    Attributes
    ----------
    process : str
        Name of the process in which it was open.
    path : str or None
        Path of its file; None if it has none, and "" if the object does not tell it:
        objects that are pickled while the budget is closed hold only the id.
    id : str
        Id of the file, or of the budget if it has none.
    """

    process: str
    path: str | None
    id: str


Marks = frozenset[Mark]


class OpenBudgets:
    """The budgets that are open in this process, and what was left behind by others.

    Attributes
    ----------
    lock : RLock
        Guards the stack and all accounts: all open budgets record a release, or none
        does.
    stack : list of PrivacyBudget
    files : dict
        Budgets of files that were opened for objects that belong to them.
    paths : dict
        Paths of all files that were opened, by the id of the budget.
    left_behind : WeakKeyDictionary
        Threads that were started to work while a budget was open, and had not ended
        when it was closed; see `mark_threads`.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.stack: list[Any] = []
        self.files: dict[tuple[str, str], Any] = {}
        self.paths: dict[str, str] = {}
        self.left_behind: WeakKeyDictionary[threading.Thread, Marks] = (
            WeakKeyDictionary()
        )
        self._process = (0, "")
        if hasattr(os, "register_at_fork"):
            # A thread of the parent may hold the lock while it forks.
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self.lock = threading.RLock()

    def process_name(self) -> str:
        """A name of this process, which a fork does not share."""
        with self.lock:
            if self._process[0] != os.getpid():
                self._process = os.getpid(), secrets.token_hex(8)
            return self._process[1]

    def located(self, marks: Marks) -> Marks:
        """The marks with the paths of files that this process has opened."""
        return frozenset(
            mark._replace(path=self.paths.get(mark.id, "")) if mark.path == "" else mark
            for mark in marks
        )

    def mark_threads(self, mark: Mark, older: "set[threading.Thread]") -> None:
        """Mark threads that were started in the block of a budget and work for it.

        There are two kinds. One is threads of pools: the pool of a call of joblib ends
        with that call, but threads with a task go on. The other is threads that were
        handed an estimator when they were made. Executors are left out: their threads
        take tasks of later blocks, too.
        """
        for thread in set(threading.enumerate()).difference(older):
            if isinstance(thread, PoolThread) or _was_handed_estimator(thread):
                marks = self.left_behind.get(thread, frozenset())
                self.left_behind[thread] = marks | {mark}

    def marks_of_thread(self) -> Marks:
        """The budgets whose blocks this thread has outlived."""
        return self.left_behind.get(threading.current_thread(), frozenset())


OPEN = OpenBudgets()


class LockedFileError(OSError):
    """Another process keeps the file of a budget locked."""


def patient(action: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make a function try again while another process keeps a file locked.

    Its tries wait for nothing, and it pauses between them without any lock. So a file
    that stays locked delays only what needs that file. The function must have done
    nothing when it raises `LockedFileError`, and must not be called by another one
    that holds a lock.
    """

    @functools.wraps(action)
    def patiently(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        end = monotonic() + LONGEST_WAIT
        while True:
            try:
                return action(*args, **kwargs)
            except LockedFileError:
                if monotonic() >= end:
                    raise
            sleep(_PAUSE)

    return patiently


class Branch:
    """The releases about one of several disjoint parts, in an account of their own."""

    def __init__(
        self, budget: object, block: "list[Account]", account: "Account"
    ) -> None:
        self.budget, self.block, self.account = budget, block, account
        self.is_open = True


# The branches of `PrivacyBudget.parallel` that this thread is in, outermost first.
BRANCHES: contextvars.ContextVar[tuple[Branch, ...]] = contextvars.ContextVar(
    "branches", default=()
)


def open_branches() -> tuple[Branch, ...]:
    """The branches of this thread that have not ended."""
    return tuple(branch for branch in BRANCHES.get() if branch.is_open)


def process_name() -> str:
    """A name of this process, which a fork does not share."""
    return OPEN.process_name()


def marks_of_copy(marks: Marks = frozenset()) -> Marks:
    """The budgets of a copy that is made now, given those of the original.

    A budget that covers certain objects takes no others.
    """
    with OPEN.lock:
        return marks | {b._ledger.mark for b in OPEN.stack if not b._covers_some}


def marks_of_pickle(marks: Marks) -> Marks:
    """The marks that a pickle made now holds: paths only of budgets that are open.

    It may be on its way to a worker of the block. What is stored after the block tells
    nobody where the file is.
    """
    with OPEN.lock:
        is_open = {budget._ledger.mark.id for budget in OPEN.stack}
    return frozenset(
        mark if mark.path is None or mark.id in is_open else mark._replace(path="")
        for mark in marks
    )


def contents(
    obj: object, stop: Callable[[Any], bool] = lambda item: False
) -> Iterator[Any]:
    """An object, and what it holds as parameters, attributes or elements.

    Objects for which `stop` is true are not looked into.
    """
    # `seen` holds the objects themselves, so that none is deleted and its id reused.
    seen: dict[int, Any] = {}
    pending = [obj]
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        yield item
        if stop(item):
            continue
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, (list, tuple, set)):
            pending += item
        elif isinstance(item, np.ndarray) and item.dtype == object:
            pending += item.ravel().tolist()
        elif isinstance(item, functools.partial):
            pending += [item.func, item.args, item.keywords]
        elif inspect.ismethod(item):
            pending.append(item.__self__)
        elif not (
            inspect.isclass(item) or inspect.isroutine(item) or inspect.ismodule(item)
        ):
            if hasattr(item, "get_params"):
                pending += item.get_params(deep=False).values()
            pending += getattr(item, "__dict__", {}).values()


class Markable:
    """Base class of objects that can belong to budgets open where they were made."""

    _budget_marks: Marks = frozenset()
    """The budgets to which this object belongs; none if it is not a copy."""


def marked(obj: object) -> Iterator[Markable]:
    """The parts of an object that can belong to budgets."""
    for item in list(contents(obj)):
        if isinstance(item, Markable):
            yield item


def mark(item: Markable, marks: Marks) -> None:
    """Let an object belong to further budgets."""
    item._budget_marks |= marks


def _was_handed_estimator(thread: threading.Thread) -> bool:
    """Whether a thread has an estimator of this package to work with.

    The estimator may be the thread's function, among its arguments or the variables of
    the function around it, or an attribute of the thread; perhaps in a container, a
    pipeline or a search. Objects that others hold, or that are global, may serve other
    threads as well.
    """
    held = list(vars(thread).values())
    for function in tuple(held):
        for cell in getattr(function, "__closure__", None) or ():
            with suppress(ValueError):  # the cell has no value yet
                held.append(cell.cell_contents)
    handed = contents(held, lambda item: not _is_looked_into(item))
    return any(isinstance(item, Markable) for item in handed)


def _is_looked_into(item: object) -> bool:
    holds = isinstance(item, dict | list | tuple | set | np.ndarray | functools.partial)
    return holds or inspect.ismethod(item) or hasattr(type(item), "get_params")


def detach_from_budgets(estimator: _Estimator) -> _Estimator:
    """Copy an estimator that was made in the block of a budget, for use after it.

    A copy that is made while a `PrivacyBudget` is open (a clone, a copy, a client, a
    pickle and what is loaded from it) belongs to that budget: so threads that outlive
    the block release nothing that it does not count. After the block, a budget with a
    path still counts what the copy releases. Without a path, the copy refuses to
    release. The best estimator of a search is such a copy, and so are the fitted steps
    of a ``ColumnTransformer``. They still predict if that draws no noise. Objects that
    a budget covers belong to it in the same way.

    To release with such a copy, open the same budget again. If that budget need not
    count the release, for example because it is about other people, detach the copy.

    Parameters
    ----------
    estimator : object
        An estimator, pipeline, search or client, or a container of such.

    Returns
    -------
    copy : object
        A deep copy. It belongs to the budgets that are open now, and to no others.

    See Also
    --------
    PrivacyBudget : Counts releases.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import clone
    >>> from sktensordp.mechanisms import LaplaceMechanism
    >>> from sktensordp.privacy import PrivacyBudget, detach_from_budgets
    >>> X = np.zeros((10, 3))
    >>> with PrivacyBudget(1.0):
    ...     noise = clone(LaplaceMechanism(0.5, bounds=(0, 1))).fit(X)
    >>> try:
    ...     noise.transform(X)
    ... except RuntimeError:
    ...     print("refused")
    refused
    >>> with PrivacyBudget(1.0) as other:
    ...     released = detach_from_budgets(noise).transform(X)
    >>> other.spent.epsilon
    0.5
    """
    copied, marks = deepcopy(estimator), marks_of_copy()
    for item in marked(copied):
        item._budget_marks = marks
    return copied
