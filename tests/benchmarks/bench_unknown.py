"""Errors on items, users and contexts that a fit has not seen.

    python tests/benchmarks/bench_unknown.py FOLDER
    python tests/benchmarks/bench_unknown.py FOLDER --sets generated --seeds 3

FOLDER holds ``ml-latest-small/ratings.csv`` (GroupLens) and ``published/*.npz``, the
splits that ``bench_published.py`` takes. Some items, users or contexts are left out of
the fit, which gets their number in `shape` alone. The error on their ratings is divided
by that of a mean of raw values without privacy: the user's own mean, or the item's for
users who are left out. Nothing is tuned: parameters have their defaults. Columns are
for one rating protected ("entry") and for everything of a user ("user"), by epsilon; at
epsilon 1 for a rating, "plain" is the same fit without features of the pattern.
"""

import argparse
import math
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import AveragesOnlyWarning

# More distinct ratings than this are taken for values of a range.
MOST_LEVELS = 20
# The most rated items, and how many of them are left out; the share of a mode that is
# left out at random.
MOST_RATED, N_LEFT_OUT, SHARE = 200, 20, 0.1
ENTRY, USER = {"unit": "entry"}, {"unit": 0}
SETTINGS = {
    "entry inf": ENTRY | {"epsilon": math.inf},
    "entry 4": ENTRY | {"epsilon": 4.0},
    "entry 1": ENTRY | {"epsilon": 1.0},
    "plain 1": ENTRY | {"epsilon": 1.0, "n_pattern_components": 0},
    "user inf": USER | {"epsilon": math.inf},
    "user 4": USER | {"epsilon": 4.0},
    "user 1": USER | {"epsilon": 1.0},
}


def generated(popular_are_better):
    """Generated ratings with a context; items that many rate may be rated higher."""
    ratings = make_ratings(random_state=0)
    generator = np.random.default_rng(0)
    X, y, levels = ratings.data, ratings.target, ratings.levels
    contexts = generator.integers(0, 12, len(y))
    y = y + 0.25 * generator.standard_normal(12)[contexts]
    if popular_are_better:
        logs = np.log1p(np.bincount(X[:, 1], minlength=ratings.shape[1]))
        y = y + 0.5 * (logs - logs.mean())[X[:, 1]] - 0.5
    nearest = np.searchsorted((levels[1:] + levels[:-1]) / 2, y)
    return np.column_stack([X, contexts]), levels[nearest]


def movielens(path):
    """Ratings of films, with the quarter of the year in which they were given."""
    columns = np.loadtxt(path, delimiter=",", skiprows=1).T
    users, items = (np.unique(c, return_inverse=True)[1] for c in columns[:2])
    quarters = columns[3] // (86_400 * 365.25 / 4)
    contexts = np.unique(quarters, return_inverse=True)[1]
    return np.column_stack([users, items, contexts]), columns[2]


def published(path):
    """All ratings of a published split, which have no context."""
    data = np.load(path)
    X = np.concatenate([data["train"], data["test"]]).astype(np.int64)
    y = np.concatenate([data["train_values"], data["test_values"]]).astype(float)
    return X, y


def sets(folder, names):
    """Name, coordinates and values of every set of ratings."""
    yield "generated", *generated(popular_are_better=False)
    yield "popular", *generated(popular_are_better=True)
    yield "movielens", *movielens(folder / "ml-latest-small" / "ratings.csv")
    for path in sorted((folder / "published").glob("*.npz")):
        yield path.stem, *published(path)


def left_out(X, case, generator):
    """The mode that a case leaves out, and the indices."""
    mode = {"users": 0, "contexts": 2}.get(case, 1)
    counts = np.bincount(X[:, mode])
    seen = np.flatnonzero(counts)
    if case == "popular items":
        best = np.argsort(-counts, kind="stable")[:MOST_RATED]
        return mode, generator.choice(best, N_LEFT_OUT, replace=False)
    return mode, generator.choice(seen, math.ceil(SHARE * len(seen)), replace=False)


def own_means(X, y, mode, asked):
    """Means of the values at one mode's indices; of all values where there are none."""
    size = 1 + max(X[:, mode].max(), asked.max())
    counts = np.bincount(X[:, mode], minlength=size)
    sums = np.bincount(X[:, mode], y, minlength=size)
    return np.where(counts > 0, sums / np.maximum(counts, 1), y.mean())[asked]


def completion(y, shape, **options):
    """A completion with the public scale of the ratings and its default parameters."""
    levels = np.unique(y)
    scale = {"levels": levels}
    if len(levels) > MOST_LEVELS:
        scale = {"value_bounds": (levels[0], levels[-1])}
    return CPCompletion(shape=shape, **scale, **options)


def ratios(X, y, case, seed):
    """Error of every setting over that of the mean of raw values."""
    shape = tuple((X.max(axis=0) + 1).tolist())
    mode, indices = left_out(X, case, np.random.default_rng(seed))
    out = np.isin(X[:, mode], indices)
    own = 1 if mode == 0 else 0
    reference = own_means(X[~out], y[~out], own, X[out, own])
    error = root_mean_squared_error(y[out], reference)
    found = {}
    for name, options in SETTINGS.items():
        model = completion(y, shape, random_state=seed, **options)
        predicted = model.fit(X[~out], y[~out]).predict(X[out])
        found[name] = root_mean_squared_error(y[out], predicted) / error
    return found


def ordinary(X, y, seed):
    """Errors on a fifth of the ratings, left out at random."""
    shape = tuple((X.max(axis=0) + 1).tolist())
    X, test, y, truth = train_test_split(X, y, test_size=0.2, random_state=seed)
    return {
        name: root_mean_squared_error(
            truth,
            completion(y, shape, random_state=seed, **options).fit(X, y).predict(test),
        )
        for name, options in SETTINGS.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", default=[], help="some sets by name")
    parser.add_argument("--cases", nargs="+", default=[], help="some cases by name")
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", AveragesOnlyWarning)
    cases = "items", "popular items", "users", "contexts", "ordinary"
    print(f"{'':26}" + "".join(f"{name:>10}" for name in SETTINGS))
    for name, X, y in sets(arguments.folder, arguments.sets):
        if arguments.sets and name not in arguments.sets:
            continue
        for case in arguments.cases or cases:
            if case == "contexts" and X.shape[1] < 3:
                continue
            pairs = X if case == "contexts" else X[:, :2]
            each = [
                ordinary(pairs, y, seed)
                if case == "ordinary"
                else ratios(pairs, y, case, seed)
                for seed in range(arguments.seeds)
            ]
            row = [np.mean([found[key] for found in each]) for key in SETTINGS]
            print(
                f"{name:11}{case:15}" + "".join(f"{r:10.4f}" for r in row), flush=True
            )


if __name__ == "__main__":
    main()
