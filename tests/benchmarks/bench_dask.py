#!/usr/bin/env python3
"""Cost of completions from Dask, beside the fit on one machine.

    python tests/benchmarks/bench_dask.py [--small] [--folder FOLDER]

Ratings (user, item, half stars), in no order, are written to Parquet files of a million
each. CPCompletion is fitted to them at epsilon 4 with ``perturbation="input"`` and
without the pattern, ``fit_batches`` with two threads on one machine, and on a
LocalCluster of one and of two workers with a thread each; every fit in processes of its
own. Printed are the seconds until the first sweep (reading, checks, randomisation,
bringing together), the mean seconds of a sweep, the largest resident memory of a worker
and, where there is a cluster, what went over the loopback device in a sweep, beside the
least that a cluster with so many workers has to send: to every worker the posterior of
the items, from every worker their sums. Nothing else may use that device meanwhile.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

FILE = 1_000_000
SWEEPS = 4
COLUMNS = ["user", "item"]
# Entries, users, rank, and on how many workers; None is one machine.
CASES = [
    (50_000_000, 200_000, 5, (None, 1, 2)),
    (5_000_000, 200_000, 5, (None, 2)),
    (5_000_000, 20_000, 5, (2,)),
    (5_000_000, 200_000, 10, (None, 2)),
]
SMALL = [(2_000_000, 20_000, 5, (None, 1, 2))]
N_ITEMS = 20_000


def write(folder, n_entries, n_users):
    """Files of ratings that do not exist yet."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    shared = np.random.default_rng(0)
    users, items = shared.normal(size=(n_users, 3)), shared.normal(size=(N_ITEMS, 3))
    popular = shared.zipf(1.3, 10 * N_ITEMS) % N_ITEMS
    for number in range(n_entries // FILE):
        path = folder / f"{number:04}.parquet"
        if path.exists():
            continue
        rng = np.random.default_rng((1, number))
        user = rng.integers(0, n_users, FILE, np.int32)
        item = rng.choice(popular, FILE).astype(np.int32)
        # Every index is there, so that shapes are those that were asked for.
        item[:N_ITEMS] = np.arange(N_ITEMS)
        user[:n_users] = np.arange(n_users)
        value = 3.2 + 0.5 * np.einsum("er,er->e", users[user], items[item])
        value = np.clip(np.rint(2 * (value + rng.normal(0, 0.7, FILE))) / 2, 0.5, 5)
        columns = {"user": user, "item": item, "value": value.astype(np.float32)}
        parquet.write_table(pa.table(columns), path)


class Clock:
    """A callback that notes when sweeps end, and what went over the network by then."""

    def __init__(self):
        self.ends = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **_):
        pass

    def on_fit_task_end(self, estimator, context, **_):
        import psutil

        if context.task_name == "sweep":
            sent = psutil.net_io_counters(pernic=True)["lo"].bytes_sent
            self.ends.append((perf_counter(), sent))


def peak():
    """Largest resident memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def measure(folder, n_entries, rank, n_workers):
    """One fit, in this process and its workers."""
    from sktensordp.completion import CPCompletion

    clock = Clock()
    model = CPCompletion(
        rank, epsilon=4, levels=np.arange(0.5, 5.5, 0.5), perturbation="input",
        n_pattern_components=0, max_iter=SWEEPS, random_state=0,
    ).set_callbacks(clock)  # fmt: skip
    files = sorted(folder.glob("*.parquet"))[: n_entries // FILE]
    if n_workers is None:
        import pyarrow.parquet as pq

        tables = (pq.read_table(path).to_pandas() for path in files)
        start = perf_counter()
        model.fit_batches((table[COLUMNS], table["value"]) for table in tables)
        end, memory = perf_counter(), peak()
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
            table = dd.read_parquet([str(path) for path in files])
            start = perf_counter()
            model.fit(table[COLUMNS], table["value"])
            end, memory = perf_counter(), max(client.run(peak).values())
    times, sent = np.array(clock.ends).T
    q = rank + 2
    per_row = (q + q * (q + 1) // 2) * (4 + 8)
    return {
        "before": times[0] - start - np.diff(times).mean(),
        "sweep": np.diff(times).mean(),
        "all": end - start,
        "memory": memory,
        "here": peak(),
        "sent": np.diff(sent).mean() / 1e6,
        "least": (n_workers or 0) * N_ITEMS * per_row / 1e6,
    }


def main():
    """Run all cases, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="2 million ratings alone")
    parser.add_argument("--folder", type=Path, help="where the files are written")
    parser.add_argument("--case", nargs=4, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        n_entries, _, rank, n_workers = arguments.case
        found = measure(arguments.folder, n_entries, rank, n_workers or None)
        print(json.dumps(found))
        return
    print(f"{platform.machine()}, Python {platform.python_version()}")
    print(f"{'entries':>9} {'users':>7} {'rank':>4} {'workers':>11} {'before':>7} "
          f"{'sweep':>6} {'all':>6} {'MB a worker':>11} {'MB here':>7} "
          f"{'MB sent':>7} {'least':>6}")  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        root = arguments.folder or Path(temporary)
        for n_entries, n_users, rank, workers in SMALL if arguments.small else CASES:
            folder = root / f"{n_users}"
            write(folder, n_entries, n_users)
            for n_workers in workers:
                case = map(str, (n_entries, n_users, rank, n_workers or 0))
                command = [sys.executable, __file__, "--folder", folder, "--case"]
                finished = subprocess.run(
                    [*command, *case], check=True, stdout=subprocess.PIPE
                )
                one = json.loads(finished.stdout.splitlines()[-1])
                name = "one machine" if n_workers is None else str(n_workers)
                sent = f"{one['sent']:7.1f} {one['least']:6.1f}" if n_workers else ""
                print(f"{n_entries:9} {n_users:7} {rank:4} {name:>11} "
                      f"{one['before']:7.1f} {one['sweep']:6.2f} {one['all']:6.0f} "
                      f"{one['memory']:11.0f} {one['here']:7.0f} {sent}",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
