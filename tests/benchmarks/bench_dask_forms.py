#!/usr/bin/env python3
"""What completions of two forms send in a pass on two workers of Dask.

    python tests/benchmarks/bench_dask_forms.py [--ratings 200000]

The workers are threads of this process, but talk through sockets, as processes do. What
they send hardly depends on the number of ratings. Printed are the bytes of the second
pass, beside the least: the released state of every mode other than the users once to
each worker, and one sum of each from each worker.
"""

import argparse

import numpy as np
import pandas as pd

SHAPE, RANK = (21_000, 20_000, 2_000), 5
NAMES = ["user", "item", "week"]
LEVELS = np.arange(1.0, 6.0)
CASES = [
    (form, n_modes, protected)
    for protected in ("ratings", "users")
    for form, n_modes in (("CP", 2), ("CP", 3), ("Tucker", 2), ("Tucker", 3))
]


def least(form, n_modes, protected):
    """MB that two workers have to receive and to send; cores are negligible."""
    rows, columns = sum(SHAPE[1:n_modes]), RANK + 1
    if protected == "users":
        # Biases, factors and weights; sums for biases and factors.
        return 2 * rows * (2 * columns + 1) * 8 / 1e6
    # Columns of a bias for each mode, or for two modes, in which the others have a one.
    columns = RANK + (n_modes if form == "CP" else 2)
    moments = columns * (columns + 1) // 2
    # In single precision, second moments, or variances with a CP form and so many rows.
    sent = moments if form == "Tucker" else columns
    return 2 * rows * ((columns + sent) * 4 + (columns + moments) * 8) / 1e6


def measure(form, n_modes, protected, n_ratings):
    """MB of the second pass."""
    import dask.dataframe as dd
    from bench_dask import Clock, costs_of_process
    from distributed import Client, LocalCluster

    from sktensordp.completion import CPCompletion, TuckerCompletion

    shape = SHAPE[:n_modes]
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, size, n_ratings) for size in shape])
    X[: shape[0]] = np.arange(shape[0])[:, np.newaxis] % shape
    frame = pd.DataFrame(X[np.argsort(X[:, 0], kind="stable")], columns=NAMES[:n_modes])
    frame["value"] = rng.choice(LEVELS, n_ratings).astype(np.float32)
    options = {"perturbation": "input", "n_pattern_components": 0, "max_iter": 2}
    if protected == "users":
        options = {"perturbation": "statistics", "unit": 0, "delta": 1e-6,
                   "shape": shape}  # fmt: skip
    kind, rank = CPCompletion, RANK
    if form == "Tucker":
        kind, rank = TuckerCompletion, (RANK,) * n_modes
    model = kind(rank, epsilon=4, levels=LEVELS, random_state=0, **options)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, protocol="tcp://",
            dashboard_address="127.0.0.1:0", memory_limit=0,
        ) as cluster,
        Client(cluster),
    ):  # fmt: skip
        clock = Clock(costs_of_process, 2)
        lazy = dd.from_pandas(frame, npartitions=4, sort=False)
        model.set_callbacks(clock).fit(lazy[NAMES[:n_modes]], lazy["value"])
    return clock.ends[1][-1] - clock.ends[0][-1]


def main():
    """Run all cases, and print a table."""
    from bench_dask import count_bytes

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ratings", type=int, default=200_000)
    n_ratings = parser.parse_args().ratings
    count_bytes()
    print("form modes protected  MB sent  MB least  ratio")
    for case in CASES:
        sent, fewest = measure(*case, n_ratings), least(*case)
        print("{:6} {:3} {:>9}".format(*case), end=" ")
        print(f"{sent:8.1f} {fewest:9.1f} {sent / fewest:6.2f}", flush=True)


if __name__ == "__main__":
    main()
