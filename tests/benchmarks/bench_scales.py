"""How often the warnings of raw values are false, and what they miss.

    python tests/benchmarks/bench_scales.py [--ratings FILE] [--data FILE ...]

A file of `--data` is one of bench_published.py, of which the training part is read;
`--ratings` is `ratings.csv` of MovieLens latest-small, of which half of the users are.
All else is generated. The first table has the share of values beyond a scale; the
second one how many times a declared scale is as wide as the values, for random values
of a set and for the values of its single users; the third one the error of predictions
with a scale that is too wide, over that with the right one.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import root_mean_squared_error

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import AveragesOnlyWarning

# Seed of what is generated.
SEED = 7100
SHARES = 0.001, 0.005, 0.01, 0.02, 0.05
RATIOS = 2, 3, 4, 6, 10
SIZES = 20, 50, 200
MOST_ENTRIES = 25_000


def sets(ratings, files):
    """Names, coordinates and values of sets of ratings."""
    if ratings:
        table = np.loadtxt(ratings, delimiter=",", skiprows=1, usecols=(0, 1, 2))
        table = table[table[:, 0] % 2 == 0]
        items = np.unique(table[:, 1], return_inverse=True)[1]
        yield "latest-small", np.column_stack([table[:, 0], items]), table[:, 2]
    for path in files:
        with np.load(path) as file:
            yield path.stem, file["train"], file["train_values"].astype(float)
    for shape in [(600, 2000, 30_000), (2000, 100, 30_000)]:
        made = make_ratings(*shape, random_state=SEED)
        yield f"made, {shape[0]:,} x {shape[1]:,}", made.data, made.target


def beyond(y, low, high):
    """The share of values beyond a scale."""
    return float(np.mean((y < low) | (y > high)))


def clipped(y):
    """Shares of values beyond right scales and wrong ones, by name."""
    rng, (low, high) = np.random.default_rng(SEED), (np.min(y), np.max(y))
    normal, heavy = rng.standard_normal(len(y)), rng.standard_t(3, len(y))
    right = {"its own": beyond(y, low, high)}
    for sds in (4, 3, 2.5, 2):
        right[f"normal, {sds} deviations"] = beyond(normal, -sds, sds)
    for share in (0.001, 0.01, 0.02):
        ends = np.quantile(heavy, [share / 2, 1 - share / 2])
        right[f"heavy tails without {share:.1%}"] = beyond(heavy, *ends)
    wrong = {"in per cent": beyond(100 * (y - low) / (high - low), low, high)}
    wrong["without the best level"] = beyond(y, low, np.unique(y)[-2])
    for share in (0.4, 0.2, 0.05, 0.02, 0.01, 0.005):
        marked = np.where(rng.random(len(y)) < share, low - 1, y)
        wrong[f"{share:.1%} not rated"] = beyond(marked, low, high)
    return right, wrong


def widths(X, y):
    """Width of a scale over that of values: random ones, and those of single users."""
    rng, scale = np.random.default_rng(SEED), np.ptp(y)
    found = {}
    for size in SIZES:
        drawn = [np.ptp(rng.choice(y, size, replace=False)) for _ in range(2000)]
        found[f"{size} random values"] = scale / np.maximum(drawn, 1e-9)
    users, rows = np.unique(X[:, 0], return_inverse=True)
    own = [y[rows == k] for k in rng.permutation(len(users))[:1000]]
    own = [np.ptp(values) for values in own if len(values) >= SIZES[0]]
    if own:
        found[f"{len(own)} users"] = scale / np.maximum(own, 1e-9)
    return found


def costs(X, y, epsilon):
    """Error by how many times as wide the declared scale is, over the right one's."""
    rng = np.random.default_rng(SEED)
    users = np.unique(X[:, 0], return_inverse=True)[1]
    kept = rng.permutation(users.max() + 1)[users] < MOST_ENTRIES / len(y) * users.max()
    X, y = np.column_stack([users, X[:, 1]])[kept].astype(int), y[kept]
    held_out = rng.random(len(y)) < 0.1
    low, high, shape = np.min(y), np.max(y), tuple(X.max(axis=0) + 1)
    errors = []
    for ratio in (1, *RATIOS):
        bounds = low, low + ratio * (high - low)
        options = {"epsilon": epsilon, "value_bounds": bounds, "shape": shape}
        fits = [
            CPCompletion(**options, random_state=seed)
            .fit(X[~held_out], y[~held_out])
            .predict(X[held_out])
            for seed in range(2)
        ]
        each = [root_mean_squared_error(y[held_out], predicted) for predicted in fits]
        errors.append(np.mean(each))
    return np.array(errors[1:]) / errors[0]


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ratings", type=Path)
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    warnings.simplefilter("ignore", AveragesOnlyWarning)
    known = list(sets(options.ratings, options.data))
    print("share of values that are clipped, and the thresholds that warn of it")
    for name, _, y in known:
        for kind, found in zip(("right", "wrong"), clipped(y), strict=True):
            for case, share in found.items():
                warns = [f"{t:.1%}" for t in SHARES if share and share >= t]
                print(f"{name:<20} {kind:<6} {case:<28} {share:8.3%}", *warns)
    print("scale over values: largest, and share of cases above", *RATIOS)
    for name, X, y in known:
        for case, found in widths(X, y).items():
            above = [f"{np.mean(found > ratio):.4f}" for ratio in RATIOS]
            print(f"{name:<20} {case:<18} {min(found.max(), 99):6.2f}", *above)
    print("error with a scale that is too wide, over that with the right one", *RATIOS)
    for name, X, y in known:
        for epsilon in (1.0, 4.0):
            ratios = " ".join(f"{ratio:.3f}" for ratio in costs(X, y, epsilon))
            print(f"{name:<20} epsilon {epsilon:g}: {ratios}", flush=True)


if __name__ == "__main__":
    main()
