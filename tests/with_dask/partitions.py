"""Coordinates and values as frames of Dask, and a callback that kills workers."""

import itertools
import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.support.callbacks import Silent
from tests.support.refusing import refused

dask = pytest.importorskip("dask.dataframe") and pytest.importorskip("dask")
NAMES = ["user", "item", "week"]
# One of the partitions is empty.
CUTS = (0, 1000, 1000, 1001, 3200, 4000)


def framed(X):
    return pd.DataFrame(X, columns=NAMES[: X.shape[1]])


def by_user(X, y):
    order = np.argsort(X[:, 0], kind="stable")
    return X[order], y[order]


def lazy_frame(frame, cuts):
    """A frame of Dask with these partitions."""
    parts = [dask.delayed(frame[a:b]) for a, b in itertools.pairwise(cuts)]
    return dask.dataframe.from_delayed(parts, meta=frame[:0])


def in_partitions(X, y, cuts=CUTS):
    """Coordinates and values of one frame of Dask."""
    lazy = lazy_frame(framed(X).assign(value=y), cuts)
    return lazy[NAMES[: X.shape[1]]], lazy["value"]


def read_in_partitions(read, cuts):
    """The same from a function of the first and the last row, which may be impure."""
    parts = [dask.delayed(read)(a, b) for a, b in itertools.pairwise(cuts)]
    meta = read(0, 0)
    lazy = dask.dataframe.from_delayed(parts, meta=meta, verify_meta=False)
    return lazy[[*meta.columns[:-1]]], lazy[meta.columns[-1]]


def changing_in_partitions(X, y, change, folder):
    """The same of a source whose second partition changes after the first reading."""
    seen = Path(folder, "read")

    def read(begin, end):
        frame = framed(X[begin:end]).assign(value=y[begin:end])
        if begin and seen.exists():
            return change(frame)
        if begin:
            seen.touch()
        return frame

    return read_in_partitions(read, (0, 2000, 4000))


def check_refused(estimator, entries, message, place=None, value=None):
    """Refused before anything is drawn, perhaps with another entry among the others."""
    X, y = entries
    X[1500] = X[1500] if place is None else place
    y[1500] = y[1500] if value is None else value
    with refused(message):
        estimator.fit(*in_partitions(X, y))
    assert not hasattr(estimator, "n_iter_")


class KillAWorker(Silent):
    """A callback that kills a worker process at the end of some sweeps."""

    def __init__(self, client, sweeps):
        self._client, self._sweeps, self.n_killed, self._n = client, sweeps, 0, 0

    def on_fit_task_end(self, estimator, context):
        """Kill the worker that holds the most."""
        self._n += 1
        if self._n in self._sweeps:
            held = self._client.has_what()
            worker = max(held, key=lambda one: len(held[one]))
            pid = self._client.run(os.getpid, workers=[worker])[worker]
            os.kill(pid, signal.SIGKILL)
            self.n_killed += 1
        return False
