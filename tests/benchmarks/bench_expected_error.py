"""Expected errors of completions beside measured ones, on ratings.

    python tests/benchmarks/bench_expected_error.py [--ratings FILE] [--splits 3]

Without a file the ratings are those of `make_ratings`; a file is comma-separated, with
one header line, then user, item and a rating on half stars from 0.5 to 5. Every split
holds out a random tenth; what is expected is computed from the other nine.
"""

import argparse
import math

import numpy as np
from sklearn.metrics import root_mean_squared_error

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.model_selection import expected_error

EPSILONS = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, math.inf]
LEVELS = np.arange(0.5, 5.1, 0.5)
UNITS = {"one rating": {"unit": "entry"}, "one user": {"unit": 0, "delta": 1e-5}}


def load(path):
    if path is None:
        ratings = make_ratings(random_state=0)
        return ratings.data, ratings.target
    columns = np.loadtxt(path, delimiter=",", skiprows=1, usecols=(0, 1, 2), dtype=str)
    ids = [np.unique(column, return_inverse=True)[1] for column in columns.T[:2]]
    return np.column_stack(ids), columns[:, 2].astype(float)


def measured(model, X, y, seed):
    """RMSE on a tenth that is held out."""
    test = np.random.default_rng(seed).random(len(y)) < 0.1
    model.set_params(random_state=seed).fit(X[~test], y[~test])
    return root_mean_squared_error(y[test], model.predict(X[test]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", metavar="FILE", help="ratings (csv)")
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    X, y = load(arguments.ratings)
    shape = tuple((X.max(axis=0) + 1).tolist())
    print(f"{len(y):,} ratings, shape {shape}, variance {y.var() / 2.25**2:.3f}\n")
    print(f"{'protected':12}{'':10}" + "".join(f"{e:8g}" for e in EPSILONS))
    for name, unit in UNITS.items():
        model = CPCompletion(5, levels=LEVELS, shape=shape, **unit)
        known = np.random.default_rng(0).random(len(y)) >= 0.1
        expected = expected_error(model, X[known], epsilons=EPSILONS).errors
        found = [
            [
                measured(model.set_params(epsilon=epsilon), X, y, seed)
                for epsilon in EPSILONS
            ]
            for seed in range(arguments.splits)
        ]
        rows = {"expected": expected, "measured": np.mean(found, axis=0)}
        rows["ratio"] = rows["expected"] / rows["measured"]
        for what, row in rows.items():
            print(f"{name:12}{what:10}" + "".join(f"{value:8.3f}" for value in row))


if __name__ == "__main__":
    main()
