"""Coordinates and values as frames of Dask, and a callback that kills workers."""

import itertools
import os
import signal

import pandas as pd
import pytest

from tests.support.callbacks import Silent

dask = pytest.importorskip("dask.dataframe") and pytest.importorskip("dask")
NAMES = ["user", "item", "week"]
# One of the partitions is empty.
CUTS = (0, 1000, 1000, 1001, 3200, 4000)


def framed(X):
    return pd.DataFrame(X, columns=NAMES[: X.shape[1]])


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
    return lazy[[*meta.columns[:-1]]], lazy["value"]


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
