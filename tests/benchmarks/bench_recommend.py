"""Seconds of recommendations: for one user and for all, at growing numbers of entries.

    python tests/benchmarks/bench_recommend.py [--small] [--no-peers]
        [--environments FOLDER]

Every library learns from the same synthetic entries and recommends 10 items that the
user has no entry with. The table shows the median time of a call for one user, and the
time per user of one call for many users. `implicit` runs in an environment of its own:
factors, as many as the completion has by default and its own default, which compare
with `CPCompletion`; and similar items, which compare with `ImplicitCompletion`. A call
for one user passes that user's row, as `implicit` asks for. How well they were trained
does not matter here, so that few sweeps are made. All use one thread.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

# Workers import this library in their functions: other environments lack it.

K, N_ONE = 10, 1000
# Users, items and entries.
SIZES = [(600, 9_000, 80_000), (6_000, 9_000, 1_000_000), (60_000, 9_000, 10_000_000)]
SMALL_SIZES = [(100, 400, 4_000)]
REQUIREMENTS = {"implicit": ["implicit==0.7.3", "numpy==2.4.6"]}
SETTINGS = {
    "sktensordp": ["CPCompletion", "CPCompletion, unit=0", "ImplicitCompletion"],
    "implicit": ["10 factors", "100 factors", "100 similar items"],
}


def ours(name, where, values, shape):
    from sktensordp.completion import CPCompletion, ImplicitCompletion

    options = {"epsilon": float("inf"), "shape": shape}
    if name == "ImplicitCompletion":
        model = ImplicitCompletion(**options, max_items=min(1500, shape[1])).fit(where)
    else:
        options |= {"unit": 0 if "unit" in name else "entry", "levels": range(1, 6)}
        model = CPCompletion(**options, max_iter=1).fit(where, values)
    return lambda user: model.recommend(user, K), lambda users: model.recommend(
        users, K
    )


def of_implicit(name, where, values, shape):
    from implicit.als import AlternatingLeastSquares
    from implicit.nearest_neighbours import CosineRecommender
    from scipy.sparse import csr_matrix

    size, what = name.split(maxsplit=1)
    if what == "factors":
        model = AlternatingLeastSquares(int(size), iterations=1, num_threads=1)
    else:
        model = CosineRecommender(K=int(size), num_threads=1)
    data = csr_matrix((np.ones(len(where), np.float32), tuple(where.T)), shape=shape)
    model.fit(data, show_progress=False)
    return (
        lambda user: model.recommend(user, data[user], N=K),
        lambda users: model.recommend(users, data[users], N=K),
    )


def work(path):
    """Print seconds of every setting of a library."""
    library, path = path.split(":", 1)
    stored = np.load(path)
    where, values, shape = stored["where"], stored["values"], stored["shape"].tolist()
    users = np.random.default_rng(0).integers(shape[0], size=N_ONE).tolist()
    make = ours if library == "sktensordp" else of_implicit
    for name in SETTINGS[library]:
        one, every = make(name, where, values, tuple(shape))
        one(users[0])
        seconds = []
        for user in users:
            start = perf_counter()
            one(user)
            seconds.append(perf_counter() - start)
        many = np.arange(shape[0])[:6_000]
        in_bulk = []
        for _ in range(3):
            start = perf_counter()
            every(many)
            in_bulk.append((perf_counter() - start) / len(many))
        print(json.dumps([statistics.median(seconds), min(in_bulk)]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--environments", type=Path, help="folder of the environment")
    parser.add_argument("--no-peers", action="store_true", help="only this library")
    parser.add_argument("--small", action="store_true", help="a quick smoke run")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments.worker)
    from sktensordp.datasets import make_ratings
    from tests.benchmarks.environments import answers, environments, threads

    print(f"{platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}")
    with tempfile.TemporaryDirectory() as temporary:
        pythons = {"sktensordp": sys.executable}
        if not arguments.no_peers:
            folder = arguments.environments or Path(temporary)
            pythons |= environments(folder, REQUIREMENTS)
        print(f"{'':34s}{'entries':>12s}{'one user, ms':>14s}{'each of many, ms':>18s}")
        for n_users, n_items, n_entries in SMALL_SIZES if arguments.small else SIZES:
            path = Path(temporary) / "entries.npz"
            made = make_ratings(n_users, n_items, n_entries, random_state=0)
            values = np.clip(np.rint(made.target), 1, 5)
            np.savez(path, where=made.data, values=values, shape=made.shape)
            for library, python in pythons.items():
                worker = "--worker", f"{library}:{path}"
                lines = answers(python, __file__, *worker, **threads(1))
                for name, (one, each) in zip(SETTINGS[library], lines, strict=True):
                    seconds = f"{1e3 * one:14.3f}{1e3 * each:18.4f}"
                    label = f"{library}, {name}"
                    print(f"{label:34s}{n_entries:12,d}{seconds}", flush=True)


if __name__ == "__main__":
    main()
