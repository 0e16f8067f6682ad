"""Completions on fixed splits beside errors that others published for the same splits.

    python tests/benchmarks/bench_published.py douban.npz flixster.npz yahoo_music.npz
    python tests/benchmarks/bench_published.py --users douban.npz flixster.npz ...

A file holds `train` and `test` (user and item of every rating, from 0), `train_values`,
`test_values` and `shape`. The splits of Monti, Bronstein and Bresson (2017) are in the
repository riannevdberg/gc-mc. Every parameter has its default. With `--users`,
everything of a user is protected, at delta = 1e-5, and not single ratings. Without it,
the second table is that of users who are answered from their own ratings. The tables
after these are of test ratings whose items have ratings in the training part.
"""

import argparse
import csv
import math
from pathlib import Path
from time import process_time

import numpy as np
from sklearn.metrics import root_mean_squared_error

from sktensordp.completion import CPCompletion

EPSILONS = math.inf, 16.0, 4.0, 1.0
FOR_USERS = math.inf, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5
# More distinct ratings than this are taken for values of a range.
MOST_LEVELS = 20


def domain(values):
    """The public scale of ratings: their levels, or their range."""
    levels = np.unique(values)
    if len(levels) <= MOST_LEVELS:
        return {"levels": levels}
    return {"value_bounds": (levels[0], levels[-1])}


def errors(path, n_seeds, epsilons, options):
    """Errors of all seeds at every epsilon, and processor seconds without noise.

    The errors are a pair: on all test ratings, and on those of items with ratings.
    """
    data = np.load(path)
    X, test = (data[name].astype(np.int64) for name in ("train", "test"))
    y, truth = (data[f"{name}_values"].astype(float) for name in ("train", "test"))
    scale, shape = domain(np.append(y, truth)), tuple(data["shape"].tolist())
    rated = np.isin(test[:, 1], X[:, 1])
    found, seconds = ([], []), math.nan
    for epsilon in epsilons:
        seeds, start = range(n_seeds if math.isfinite(epsilon) else 1), process_time()
        each = [
            CPCompletion(
                epsilon=epsilon, shape=shape, random_state=seed, **scale, **options
            )
            .fit(X, y)
            .predict(test)
            for seed in seeds
        ]
        if epsilon == math.inf:
            seconds = process_time() - start
        for of_epsilons, kept in zip(found, (slice(None), rated), strict=True):
            of_epsilons.append(
                [root_mean_squared_error(truth[kept], p[kept]) for p in each]
            )
    return found, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=3, help="fits with noise")
    parser.add_argument("--users", action="store_true", help="protect whole users")
    parser.add_argument("--table", metavar="FILE", help="save all scores here (csv)")
    arguments = parser.parse_args()
    epsilons, fits = EPSILONS, {"RMSE": {}, "own ratings": {"personal": True}}
    if arguments.users:
        epsilons, fits = FOR_USERS, {"RMSE": {"unit": 0, "delta": 1e-5}}
    warm = np.argwhere(np.ones((5, 5)))
    CPCompletion(epsilon=math.inf, value_bounds=(0, 1)).fit(warm, np.eye(5).ravel())
    tables, scores = {}, []
    for label, options in fits.items():
        for path in arguments.files:
            found, seconds = errors(path, arguments.seeds, epsilons, options)
            of_rated = f"{label}, rated items"
            for of_items, each in zip((label, of_rated), found, strict=True):
                rows = tables.setdefault(of_items, [])
                rows.append((path.stem, each, seconds))
    width = max(map(len, tables)) + 2
    for label in sorted(tables, key=lambda label: "rated" in label.split()):
        print(f"{label:{width}}" + "".join(f"{e:>9g}" for e in epsilons) + "  seconds")
        for name, found, seconds in tables[label]:
            row = "".join(f"{np.mean(each):9.4f}" for each in found)
            scores += [
                (label, name, f"{epsilon:g}", seed, error)
                for epsilon, each in zip(epsilons, found, strict=True)
                for seed, error in enumerate(each)
            ]
            print(f"{name:{width}}{row}{seconds:9.1f}")
        print(flush=True)
    if arguments.table:
        with open(arguments.table, "w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["measure", "method", "epsilon", "seed", "score"])
            rows.writerows(scores)


if __name__ == "__main__":
    main()
