"""What Dask sends in a sweep, and that nothing is lost when all workers are."""

import itertools
import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.tensor import _distributed
from sktensordp.tensor._distributed import grouped

dask = pytest.importorskip("dask.dataframe") and pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
SHAPE, N_ENTRIES = (300, 4000), 20_000
LEVELS = np.arange(1.0, 6.0)


def entries(seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, size, N_ENTRIES) for size in SHAPE])
    X[: max(SHAPE)] = np.arange(max(SHAPE))[:, np.newaxis] % SHAPE
    y = rng.choice(LEVELS, N_ENTRIES).astype(np.float32)
    return pd.DataFrame(X, columns=["user", "item"]).assign(value=y)


def in_partitions(n=8):
    lazy = dask.dataframe.from_pandas(entries(), npartitions=n)
    return lazy[["user", "item"]], lazy["value"]


def model(level, kind=CPCompletion, rank=3):
    options = {"levels": LEVELS, "epsilon": 4.0, "random_state": 3}
    if level == "units":
        options |= {"unit": 0, "shape": SHAPE, "perturbation": "statistics"}
    else:
        options |= {
            "perturbation": "input", "n_pattern_components": 0, "max_iter": 9,
        }  # fmt: skip
    return kind(rank, **options)


class Sent:
    """A callback that counts the bytes that all connections of Dask send in a sweep."""

    max_propagation_depth = None

    def __init__(self, monkeypatch):
        from distributed.comm.tcp import TCP

        self.total, self.by_sweep = 0, []
        write = TCP.write

        async def counted(comm, *args, **kwargs):
            n_bytes = await write(comm, *args, **kwargs)
            self.total += n_bytes
            return n_bytes

        monkeypatch.setattr(TCP, "write", counted)

    def setup(self, estimator, context):
        """Nothing to prepare."""

    def teardown(self, estimator, context):
        """Nothing to undo."""

    def on_fit_task_begin(self, estimator, context):
        """Nothing is counted before the first sweep ends."""

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "sweep":
            self.by_sweep.append(self.total)
        return False


def least(level, rank=3):
    """Bytes that a worker has to receive and to send in a sweep of two modes."""
    if level == "units":
        # The bias and the factors of an item, and the sums for them.
        return SHAPE[1] * (rank + 1) * 16
    n_columns = rank + 2
    # Means and second moments of single precision, and the sums for them.
    return SHAPE[1] * (n_columns + n_columns * (n_columns + 1) // 2) * 12


@pytest.mark.parametrize(("n_workers", "most"), [(2, 1.5), (4, 2.0)])
@pytest.mark.parametrize("level", ["entries", "units"])
def test_a_sweep_sends_little_more_than_it_has_to(level, n_workers, most, monkeypatch):
    """The workers are threads, but talk through sockets as processes do."""
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=False,
            protocol="tcp://", dashboard_address="127.0.0.1:0",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        client.as_current(),
        dask.config.set(scheduler="distributed"),
    ):  # fmt: skip
        sent = Sent(monkeypatch)
        model(level).set_callbacks(sent).fit(*in_partitions())
    # In the first sweep, the users' rows are sent to the workers.
    ratios = np.diff(sent.by_sweep) / (n_workers * least(level))
    assert len(ratios) > 3
    assert np.median(ratios) <= most, ratios
