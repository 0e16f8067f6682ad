"""Seconds of recommendations: for one user and for all, at growing numbers of entries.

    python tests/benchmarks/bench_recommend.py [--small]

The completions learn from the same synthetic entries and recommend 10 items that the
user has no entry with. The table shows the median time of a call for one user, and the
time per user of one call for many users, on one thread. How well they were trained does
not matter here, so that few sweeps are made.
"""

import argparse
import json
import math
import os
import platform
import statistics
import sys
from time import perf_counter

import numpy as np

from sktensordp.completion import CPCompletion, ImplicitCompletion
from sktensordp.datasets import make_ratings
from tests.benchmarks.environments import answers, threads

K, N_ONE = 10, 1000
# Users, items and entries.
SIZES = [(600, 9_000, 80_000), (6_000, 9_000, 1_000_000), (60_000, 9_000, 10_000_000)]
SMALL_SIZES = [(100, 400, 4_000)]


def models(made):
    """The completions that are compared, by name."""
    options = {"epsilon": math.inf, "shape": made.shape}
    ratings = {**options, "levels": range(1, 6), "max_iter": 1}
    values = np.clip(np.rint(made.target), 1, 5)
    for name, more in (("CPCompletion", {}), ("CPCompletion, unit=0", {"unit": 0})):
        yield name, CPCompletion(**ratings, **more).fit(made.data, values)
    choices = ImplicitCompletion(**options, max_items=min(1500, made.shape[1]))
    yield "ImplicitCompletion", choices.fit(made.data)


def work(n_users, n_items, n_entries):
    """Print seconds of a call for one user and of one for many, for each completion."""
    made = make_ratings(n_users, n_items, n_entries, random_state=0)
    users = np.random.default_rng(0).integers(n_users, size=N_ONE).tolist()
    many = np.arange(n_users)[:6_000]

    def seconds(model, asked):
        start = perf_counter()
        model.recommend(asked, K)
        return perf_counter() - start

    for name, model in models(made):
        model.recommend(users[0], K)
        one = statistics.median(seconds(model, user) for user in users)
        each = min(seconds(model, many) for _ in range(3)) / len(many)
        print(json.dumps([name, one, each]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="a quick smoke run")
    parser.add_argument("--worker", nargs=3, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(*arguments.worker)
    print(f"{platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}")
    print(f"{'':24s}{'entries':>12s}{'one user, ms':>14s}{'each of many, ms':>18s}")
    for size in SMALL_SIZES if arguments.small else SIZES:
        worker = __file__, "--worker", *size
        for name, one, each in answers(sys.executable, *worker, **threads(1)):
            seconds = f"{1e3 * one:14.3f}{1e3 * each:18.4f}"
            print(f"{name:24s}{size[-1]:12,d}{seconds}", flush=True)


if __name__ == "__main__":
    main()
