"""Tasks that wait until they are let go, so that nothing hangs on how fast they are."""

import itertools
import threading
from contextlib import suppress
from weakref import WeakValueDictionary

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sktensordp.mechanisms import LaplaceMechanism

N_TASKS = 2
_ROWS = np.linspace(0, 1, 24).reshape(8, 3)
_LAPLACE = LaplaceMechanism(0.1, bounds=(0, 1)).fit(_ROWS)
_ALL, _NUMBERS = WeakValueDictionary(), itertools.count()


class Held:
    """Holds tasks; the last of the first `n_tasks` may fail while the others wait.

    All copies are the same object, those that are unpickled in this process too.
    """

    def __init__(self, n_tasks, fails):
        self._waiting, self._free = threading.Semaphore(0), threading.Event()
        self._lock, self._n_left = threading.Lock(), n_tasks
        self._fails, self._n_held = fails, n_tasks - fails
        self.n_went_on = 0
        self._number = next(_NUMBERS)
        _ALL[self._number] = self

    def __reduce__(self):
        return _numbered, (self._number,)

    def hold(self, thing=None):
        """Wait, in a task; returns the argument."""
        with self._lock:
            self._n_left -= 1
            is_last = self._n_left == 0
        if is_last and self._fails:
            self.all_wait()
            raise KeyError("the task that ends the block")
        self._waiting.release()
        assert self._free.wait(60)
        with self._lock:
            self.n_went_on += 1
        return thing

    def all_wait(self):
        """Wait until all other tasks wait."""
        for _ in range(self._n_held):
            assert self._waiting.acquire(timeout=60)

    def let_go(self):
        self._free.set()


def _numbered(number):
    return _ALL[number]


def in_a_thread(function):
    """A thread that calls the function, and says nothing of its errors."""

    def quietly():
        with suppress(KeyError, RuntimeError):
            function()

    thread = threading.Thread(target=quietly)
    thread.start()
    return thread


def _release(held, mechanism):
    held.hold()
    return mechanism.transform(_ROWS)


def originals(held):
    return Parallel(n_jobs=N_TASKS)(
        delayed(_release)(held, _LAPLACE) for _ in range(N_TASKS)
    )


def clones(held):
    return Parallel(n_jobs=N_TASKS)(
        delayed(_release)(held, clone(_LAPLACE).fit(_ROWS)) for _ in range(N_TASKS)
    )


def _steps(held):
    first = FunctionTransformer(held.hold)
    return make_pipeline(first, LaplaceMechanism(bounds=(0, 1)), LinearRegression())


def grid_search(held):
    grid = {"laplacemechanism__epsilon": [0.1, 0.2]}
    search = GridSearchCV(
        _steps(held), grid, cv=2, n_jobs=N_TASKS, error_score="raise", refit=False
    )
    return search.fit(_ROWS, _ROWS[:, 0])


def validation(held):
    return cross_validate(
        _steps(held), _ROWS, _ROWS[:, 0], cv=3, n_jobs=N_TASKS, error_score="raise"
    )


TASKS = [originals, clones, grid_search, validation]
"""What runs tasks in the workers of joblib. Each calls `hold`, and then releases."""
