"""What Dask sends in a sweep, and that nothing is lost when all workers are."""

import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.completion import CPCompletion
from tests.support.callbacks import Silent, needs_callbacks
from tests.support.seams import BlockQuestion
from tests.with_dask.clusters import cluster

pytestmark = pytest.mark.thorough
dask = pytest.importorskip("dask.dataframe") and pytest.importorskip("dask")
pytest.importorskip("distributed")
# There are more users than items, so that users are divided among workers.
SHAPE, N_ENTRIES = (4500, 4000), 20_000
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


def model(level, rank=5):
    options = {"levels": LEVELS, "epsilon": 4.0, "random_state": 3}
    if level == "units":
        options |= {"unit": 0, "shape": SHAPE, "perturbation": "statistics"}
    else:
        options |= {
            "perturbation": "input", "n_pattern_components": 0, "max_iter": 9,
        }  # fmt: skip
    return CPCompletion(rank, **options)


class Sent(Silent):
    """A callback that counts the bytes that all connections of Dask send in a sweep."""

    def __init__(self, monkeypatch):
        from distributed.comm.tcp import TCP

        self.total, self.by_sweep = 0, []
        write = TCP.write

        async def counted(comm, *args, **kwargs):
            n_bytes = await write(comm, *args, **kwargs)
            self.total += n_bytes
            return n_bytes

        monkeypatch.setattr(TCP, "write", counted)

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "sweep":
            self.by_sweep.append(self.total)
        return False


def least(level, rank=5):
    """Bytes that a worker has to receive and to send in a sweep of two modes."""
    if level == "units":
        # The bias and the factors of an item, and the sums for them. Two features, and
        # how well the row is known.
        return SHAPE[1] * ((rank + 1) * 16 + 4 * 8)
    n_columns = rank + 2
    # Means and second moments of single precision, and the sums for them.
    return SHAPE[1] * (n_columns + n_columns * (n_columns + 1) // 2) * 12


@contextmanager
def cluster_of_threads(n_workers, threads_per_worker=1):
    """Dask on workers that are threads, and talk through sockets as processes."""
    options = {"processes": False, "protocol": "tcp://"}
    with (
        cluster(n_workers, threads_per_worker, **options) as own_client,
        own_client.as_current(),
        dask.config.set(scheduler="distributed"),
    ):
        yield


# A sweep sends at most so many times the least, as the page on Dask says.
MOST = 3.0


@pytest.mark.parametrize(
    ("n_workers", "n_threads"),
    [
        (2, 1),
        pytest.param(2, 2, marks=pytest.mark.slow),
        pytest.param(4, 1, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("level", ["entries", "units"])
@needs_callbacks
def test_a_sweep_sends_little_more_than_it_has_to(
    level, n_workers, n_threads, monkeypatch
):
    with cluster_of_threads(n_workers, n_threads):
        sent = Sent(monkeypatch)
        model(level).set_callbacks(sent).fit(*in_partitions())
    ratios = np.diff(sent.by_sweep) / (n_workers * least(level))
    assert len(ratios) > 3
    # Most sweeps neither begin terms nor look for them.
    assert 0.5 < np.median(ratios) <= MOST, ratios


@pytest.mark.parametrize("n_workers", [1, 3])
def test_every_worker_has_one_chunk(n_workers):
    """So that a sum travels once for each worker, however many partitions there are."""
    from tests.support.seams import partitioned_entries

    with cluster_of_threads(n_workers):
        found = partitioned_entries(*in_partitions(), None, "name")
        assert len(found.cuts) == n_workers + 1
        sizes = np.diff(np.append(0, np.cumsum(found.counts[0]))[found.cuts])
        assert np.ptp(sizes) < 0.01 * N_ENTRIES


class Killer(Silent):
    """A callback that kills all workers at once: in a sweep, and after another.

    Parameters
    ----------
    folder : Path
        Where files tell workers to wait in the next sweep, and that one does.
    """

    def __init__(self, workers, folder, in_sweep, after_sweep):
        self._workers, self._n, self.n_killed = workers, 0, 0
        self._wait, self._waits = folder / "wait", folder / "waits"
        self._in_sweep, self._after_sweep = in_sweep, after_sweep
        workers.run(wait_when_told, str(self._wait), str(self._waits))

    def on_fit_task_end(self, estimator, context):
        self._n += context.task_name == "sweep"
        if self._n == self._in_sweep - 1:
            self._wait.touch()
            threading.Thread(target=self._kill_waiting, daemon=True).start()
        if self._n == self._after_sweep:
            self._kill()
        return False

    def _kill_waiting(self):
        while not self._waits.exists():
            time.sleep(0.01)
        self._kill()

    def _kill(self):
        for nanny in self._workers.cluster.workers.values():
            os.kill(nanny.pid, signal.SIGKILL)
            self.n_killed += 1


def wait_when_told(told, waits):
    """On a worker that is to be killed: wait in a sweep as soon as a file exists."""
    from sktensordp.tensor import Observations

    def waiting(function):
        def wait(*args):
            while Path(told).exists():
                Path(waits).touch()
                time.sleep(0.01)
            return function(*args)

        return wait

    Observations.product_sums = waiting(Observations.product_sums)
    BlockQuestion.add = waiting(BlockQuestion.add)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["entries", "units"])
@needs_callbacks
def test_all_workers_are_replaced_at_once(level, client, tmp_path):
    """In a sweep, and between two others: nothing is lost."""
    table, users = entries(), ["user", "item"]
    one = model(level).fit(table[users], table["value"])
    killer = Killer(client, tmp_path, in_sweep=3, after_sweep=6)
    parts = model(level).set_callbacks(killer)
    with client.as_current(), dask.config.set(scheduler="distributed"):
        parts.fit(*in_partitions(5))
    assert killer.n_killed == 4
    if level == "units":
        assert_array_equal(parts.factors_[1], one.factors_[1])
    for found, expected in zip(parts.factors_, one.factors_, strict=True):
        if found is not None:
            assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
