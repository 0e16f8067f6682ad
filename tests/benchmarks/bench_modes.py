"""Fits in two and more modes beside those of another tree: time, memory, predictions.

    python tests/benchmarks/bench_modes.py OTHER_TREE [--ratings ratings.csv]
        [--only TEXT] [--repeats 2]

OTHER_TREE is a folder that holds the package `sktensordp`, such as a worktree of an
earlier commit. Every fit is the second one of a process of its own, which has one
thread; the trees alternate. Times are processor time, and the median of the repeats.
Memory is the largest that the process had. "first" is what the first fit of a process
takes beyond the second: with an empty cache of compiled loops, and with a filled one.
`--ratings` is the file of that name of MovieLens latest-small, whose third mode is the
month.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
# Number of ratings (0 for those of the file), number of modes, and kind of fit.
CASES = {
    "ratings, three modes": (0, 3, "CPCompletion"),
    "ratings, Tucker": (0, 3, "TuckerCompletion"),
    "ratings, two modes": (0, 2, "CPCompletion"),
    "20,000 generated, four modes": (20_000, 4, "CPCompletion"),
    "a million generated, random days": (1_000_000, 3, "CPCompletion"),
    "a million generated, two modes": (1_000_000, 2, "CPCompletion"),
}


def read(path):
    """Users, items and months since the first, with the ratings."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    months = (table[:, 3] // (86400 * 30)).astype(int)
    columns = [np.unique(table[:, k], return_inverse=True)[1] for k in (0, 1)]
    X = np.column_stack([*columns, months - months.min()])
    return X, table[:, 2], np.arange(1, 11) / 2


def generated(n):
    """Ratings with random days and hours, and items that drift over the days."""
    from sktensordp.datasets import make_ratings

    many = n >= 1_000_000
    users, items = (6000, 4000) if many else (max(n // 100, 50), max(n // 50, 80))
    levels = np.arange(1.0, 6)
    ratings = make_ratings(users, items, n, levels=levels, random_state=0)
    rng = np.random.default_rng(0)
    day, slope = rng.integers(0, 200, n), 0.5 * rng.standard_normal(items)
    y = ratings.target + slope[ratings.data[:, 1]] * (day / 100 - 1)
    X = np.column_stack([ratings.data, day, rng.integers(0, 24, n)])
    return X, np.clip(np.round(y), 1, 5), levels


def fit(case, path, out):
    """Fit twice in this process; print times and memory, and store predictions."""
    from sktensordp import completion

    n, n_modes, kind = CASES[case]
    X, y, levels = generated(n) if n else read(path)
    X = X[:, :n_modes]
    shape, times = tuple((X.max(axis=0) + 1).tolist()), []
    for _ in range(2):
        model = getattr(completion, kind)(
            epsilon=4.0, levels=levels, shape=shape, random_state=0
        )
        start = time.process_time()
        model.fit(X, y)
        times.append(time.process_time() - start)
    some = X[:2000]
    np.save(out, np.concatenate(model.predict(some, return_std=True)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([*times, memory]))


def measured(tree, case, path, out, cache):
    variables = {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-P", __file__, "--fit", case, str(path), str(out)]
    found = subprocess.run(
        command,
        env=os.environ | variables | {"OMP_NUM_THREADS": "1"},
        cwd=cache,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(found.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("other", type=Path)
    parser.add_argument("--ratings", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--repeats", type=int, default=2)
    asked = parser.parse_args()
    path = asked.ratings and asked.ratings.resolve()
    trees = {"other": asked.other.resolve(), "this": ROOT}
    print(f"{'':34}   other    this   ratio  memory   differ  first, s")
    with tempfile.TemporaryDirectory() as folder:
        for case, (n, *_) in CASES.items():
            if asked.only not in case or not (n or path):
                continue
            found = {name: [] for name in trees}
            for name in [*trees] * asked.repeats:
                out, cache = Path(folder) / f"{name}.npy", Path(folder) / name
                cache.mkdir(exist_ok=True)
                found[name].append(measured(trees[name], case, path, out, cache))
            other, this = (np.array(rows) for rows in found.values())
            before, after = np.median(other[:, 1]), np.median(this[:, 1])
            memory = this[:, 2].min() / other[:, 2].min()
            one, two = (np.load(Path(folder) / f"{name}.npy") for name in trees)
            first = " ".join(f"{a - b:.1f}" for a, b, _ in this)
            print(
                f"{case:34}{before:8.2f}{after:8.2f}{after / before:8.2f}{memory:8.2f}"
                f"{np.abs(one - two).max():9.0e}  {first}",
                flush=True,
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["--fit"]:
        fit(*sys.argv[2:])
    else:
        main()
