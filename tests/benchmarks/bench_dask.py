#!/usr/bin/env python3
"""Cost of completions of users from Dask, beside the fit on one machine.

    python tests/benchmarks/bench_dask.py [--small] [--folder FOLDER]

Ratings (user, item, half stars) are written to Parquet files of a million each.
CPCompletion is fitted to them at epsilon 4 with whole users protected (``unit=0``),
``fit_batches`` with two threads on one machine, and on a LocalCluster with a thread for
each worker; every fit in processes of its own. Files are sorted by user and share none,
unless the table says "random". A fit ends after four passes.

Printed are

- seconds until the first pass (reading, checks, bringing together) and the seconds of a
  pass, the least of three;
- in a pass, the processor seconds of a worker (the mean of all) and of the process that
  calls `fit`, which other programs change less;
- the largest resident memory of a worker and of the process that calls `fit`;
- how many bytes all processes wrote to Dask's connections in a pass, beside the least
  that a cluster with so many workers has to send: the released part of the model to
  every worker, and one sum from each.
"""

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from tests.benchmarks.environments import answers
from tests.support.callbacks import Silent

FILE = 1_000_000
PASSES = 4
COLUMNS = ["user", "item"]
# Entries, users, on how many workers (None is one machine), the order of the files.
CASES = [
    (2_000_000, 40_000, (2,), "sorted"),
    (10_000_000, 200_000, (None, 1, 2), "sorted"),
    (10_000_000, 200_000, (2,), "random"),
    (10_000_000, 1_000_000, (2,), "sorted"),
    (20_000_000, 400_000, (2,), "sorted"),
    (20_000_000, 1_000_000, (2,), "sorted"),
    (100_000_000, 2_000_000, (2,), "sorted"),
]
SMALL = [(2_000_000, 40_000, (None, 2), order) for order in ("sorted", "random")]
N_ITEMS, RANK = 20_000, 5


def write(folder, n_entries, n_users, is_sorted=False):
    """Write files of ratings that do not exist yet, one after the other."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    shared = np.random.default_rng(0)
    users, items = shared.normal(size=(n_users, 3)), shared.normal(size=(N_ITEMS, 3))
    popular = shared.zipf(1.3, 10 * N_ITEMS) % N_ITEMS
    n_files = n_entries // FILE
    for number in range(n_files):
        path = folder / f"{number:04}.parquet"
        if path.exists():
            continue
        rng = np.random.default_rng((1, number))
        first, last = 0, n_users
        if is_sorted:
            first, last = (n_users * k // n_files for k in (number, number + 1))
        user = rng.integers(first, last, FILE, np.int32)
        item = rng.choice(popular, FILE).astype(np.int32)
        # Every index is there, so that shapes are those that were asked for.
        item[:N_ITEMS] = np.arange(N_ITEMS)
        user[: last - first] = np.arange(first, last)
        if is_sorted:
            user.sort()
        value = 3.2 + 0.5 * np.einsum("er,er->e", users[user], items[item])
        value = np.clip(np.rint(2 * (value + rng.normal(0, 0.7, FILE))) / 2, 0.5, 5)
        columns = {"user": user, "item": item, "value": value.astype(np.float32)}
        parquet.write_table(pa.table(columns), path)


class Clock(Silent):
    """A callback that notes the costs up to the end of every pass, and ends the fit.

    Parameters
    ----------
    costs : callable
        Costs so far.
    n_passes : int, default=PASSES
        How many the fit may take.
    """

    def __init__(self, costs, n_passes=PASSES):
        self._costs, self._n_passes, self.ends = costs, n_passes, []

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "sweep":
            self.ends.append((perf_counter(), *self._costs()))
        return len(self.ends) == self._n_passes


def peak():
    """Largest resident memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def processor():
    """Processor seconds of this process."""
    times = os.times()
    return times.user + times.system


def count_bytes():
    """From now on, count what this process writes to Dask's connections."""
    from distributed.comm.tcp import TCP

    write, TCP.n_sent = TCP.write, 0

    async def counted(self, *arguments, **options):
        n_bytes = await write(self, *arguments, **options)
        TCP.n_sent += n_bytes
        return n_bytes

    TCP.write = counted


def costs_of_process():
    """Processor seconds of this process, and MB that it wrote."""
    from distributed.comm.tcp import TCP

    return processor(), TCP.n_sent / 1e6


def measure(folder, n_entries, n_users, n_workers):
    """One fit, in this process and its workers."""
    from sktensordp.completion import CPCompletion

    model = CPCompletion(
        RANK, epsilon=4, delta=1e-6, unit=0, perturbation="statistics",
        levels=np.arange(0.5, 5.5, 0.5), shape=(n_users, N_ITEMS), max_iter=PASSES,
        random_state=0,
    )  # fmt: skip
    files = sorted(folder.glob("*.parquet"))[: n_entries // FILE]
    if n_workers is None:
        import pyarrow.parquet as pq

        clock = Clock(lambda: (0.0, processor(), 0.0))
        model.set_callbacks(clock)
        tables = (pq.read_table(path).to_pandas() for path in files)
        start = perf_counter()
        model.fit_batches((table[COLUMNS], table["value"]) for table in tables)
        end, memory = perf_counter(), 0.0
    else:
        import dask.dataframe as dd
        from distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=n_workers, threads_per_worker=1,
                dashboard_address="127.0.0.1:0", memory_limit=0,
            ) as cluster,
            Client(cluster) as client,
        ):  # fmt: skip
            count_bytes()
            client.run(count_bytes)

            def costs():
                workers = np.array([*client.run(costs_of_process).values()])
                here, sent = costs_of_process()
                return workers[:, 0].mean(), here, workers[:, 1].sum() + sent

            clock = Clock(costs)
            model.set_callbacks(clock)
            table = dd.read_parquet([str(path) for path in files])
            start = perf_counter()
            model.fit(table[COLUMNS], table["value"])
            end, memory = perf_counter(), max(client.run(peak).values())
    ends = np.array(clock.ends)
    seconds, worker, here, sent = np.diff(ends, axis=0).min(axis=0)
    return {
        "before": ends[0, 0] - start - seconds,
        "pass": seconds,
        "all": end - start,
        "worker": worker,
        "caller": here,
        "memory": memory,
        "here": peak(),
        "sent": sent,
        "least": (n_workers or 0) * least() / 1e6,
    }


def least():
    """Bytes to a worker and from it in a pass."""
    # Biases, factors and weights of the items; sums for biases and factors.
    return N_ITEMS * ((RANK + 2) + (RANK + 1)) * 8


def in_processes(root, n_entries, n_users, n_workers, order):
    """Measure one fit in processes of its own, and print a row of the table."""
    folder = root / (f"{n_users}" + f"-{n_entries}" * (order == "sorted"))
    write(folder, n_entries, n_users, order == "sorted")
    case = n_entries, n_users, n_workers or 0
    arguments = "--folder", folder, "--case", *case
    (one,) = answers(sys.executable, __file__, *arguments)
    name = "one machine" if n_workers is None else str(n_workers)
    print(f"{n_entries:9} {n_users:7} {order:>6} {name:>11} "
          f"{one['before']:7.1f} {one['pass']:6.2f} {one['all']:6.0f} "
          f"{one['worker']:6.2f} {one['caller']:6.2f} {one['memory']:9.0f} "
          f"{one['here']:7.0f} {one['sent']:7.2f} {one['least']:6.2f}",
          flush=True)  # fmt: skip


HEADER = (f"{'entries':>9} {'users':>7} {'files':>6} {'workers':>11} "
          f"{'before':>7} {'pass':>6} {'all':>6} {'worker':>6} {'caller':>6} "
          f"{'MB worker':>9} {'MB here':>7} {'MB sent':>7} {'least':>6}")  # fmt: skip


def main():
    """Run all cases, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="2 million ratings alone")
    parser.add_argument("--most", type=int, help="leave out cases with more ratings")
    parser.add_argument("--folder", type=Path, help="where the files are written")
    parser.add_argument("--case", nargs=3, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        n_entries, n_users, n_workers = arguments.case
        found = measure(arguments.folder, n_entries, n_users, n_workers or None)
        print(json.dumps(found))
        return
    print(f"{platform.machine()}, Python {platform.python_version()}")
    print(HEADER)
    cases = SMALL if arguments.small else CASES
    with tempfile.TemporaryDirectory() as temporary:
        root = arguments.folder or Path(temporary)
        for n_entries, n_users, workers, order in cases:
            if arguments.most and n_entries > arguments.most:
                continue
            for n_workers in workers:
                in_processes(root, n_entries, n_users, n_workers, order)


if __name__ == "__main__":
    main()
