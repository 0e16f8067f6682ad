#!/usr/bin/env python3
"""The solver of Gaussian rows beside the fit that completions use: error and time.

    python tests/benchmarks/bench_rows.py FOLDER --cases two three flixster generated

FOLDER holds ml-latest-small/ratings.csv (a header, then user, item, rating, seconds)
and published/NAME.npz, as tests/benchmarks/bench_published.py describes them. Both fits
get the same randomised values and features. The last column is the ratio of their
processor times, the second of two fits each.
"""

import argparse
import math
import time
import warnings
from pathlib import Path

import numpy as np

from sktensordp._random import NoiseStreams
from sktensordp.completion._domain import Domain
from sktensordp.completion._values import plan_entry_randomizer
from sktensordp.datasets import make_ratings
from sktensordp.tensor import SparseEntries, fit_structured_cp
from sktensordp.tensor._cp_rows import fit_cp
from sktensordp.tensor._observations import Observations
from sktensordp.tensor._pattern import pattern_of

PUBLISHED = "douban", "flixster", "yahoo_music"


def split(X, y, share, seed=0):
    test = np.random.default_rng(seed).random(len(y)) < share
    return X[~test], y[~test], X[test], y[test], tuple(X.max(axis=0) + 1)


def latest(folder, n_modes):
    """MovieLens latest-small, with months as the third mode."""
    found = np.loadtxt(
        folder / "ml-latest-small/ratings.csv", delimiter=",", skiprows=1
    )
    columns = [np.unique(found[:, k], return_inverse=True)[1] for k in (0, 1)]
    months = found[:, 3].astype("datetime64[s]").astype("datetime64[M]").astype(int)
    X = np.column_stack([*columns, months - months.min()])[:, :n_modes]
    return split(X, found[:, 2], 0.1)


def published(folder, name):
    found = np.load(folder / f"published/{name}.npz")
    parts = (found[k] for k in ("train", "train_values", "test", "test_values"))
    return *parts, tuple(found["shape"].tolist())


def problems(case, folder):
    """Yield a name, a rank and a problem."""
    if case == "generated":
        for rank in (5, 20, 40):
            for seed in range(3):
                ratings = make_ratings(100, 150, 4000, random_state=seed)
                yield (
                    f"seed {seed}",
                    rank,
                    split(ratings.data, ratings.target, 0.2, seed),
                )
    elif case == "large":
        for n in (100_000, 1_000_000):
            ratings = make_ratings(n // 160, 4000, n, random_state=0)
            yield f"{n:,}", 10, split(ratings.data, ratings.target, 0.2)
    elif case in PUBLISHED:
        yield case, 10, published(folder, case)
    else:
        yield case, 10, latest(folder, {"two": 2, "three": 3}[case])


def compare(name, rank, problem, epsilon):
    X, y, X_test, truth, shape = problem
    X, y = np.asfortranarray(X.astype(np.int32)), y.astype(float)
    levels = np.unique(np.append(y, truth))
    low, high = levels[[0, -1]].tolist()
    scale = tuple(levels.tolist()) if len(levels) <= 20 else None
    plan = plan_entry_randomizer(epsilon, Domain((low, high), scale))
    streams = NoiseStreams(0, 0) if math.isfinite(epsilon) else None
    drawn = plan.draw(y, streams)
    values = plan.values_of(drawn, float)
    offset, half = float(np.clip(values.mean(), low, high)), (high - low) / 2
    features = pattern_of(X, shape, None).features
    values = (values - offset) / half
    shared = {
        "rank": rank, "biases": True, "max_iter": 25, "features": features,
        "noise_floor": plan.noise_variance / half**2,
    }  # fmt: skip

    def present():
        outputs = drawn if plan.has_table else None
        entries = SparseEntries(X, values.copy(), shape, outputs=outputs)
        likelihood = plan.likelihood(offset, half)
        options = {"value_scale": 1.0, "smooth_modes": (), "likelihood": likelihood}
        return fit_structured_cp(entries, **shared, **options)[0]

    def rows():
        likelihood = plan.likelihood(offset, half)
        outputs = drawn if plan.has_table else None
        entries = Observations.of(X, values, outputs=outputs)
        return fit_cp(entries, **shared, likelihood=likelihood)[0]

    errors, seconds = [], []
    for fit in (present, rows):
        fit()  # compiles, and loads
        start = time.process_time()
        model = fit()
        seconds.append(time.process_time() - start)
        predicted = np.clip(
            offset + half * model.predict(X_test.astype(np.int64)), low, high
        )
        errors.append(np.sqrt(np.mean((predicted - truth) ** 2)))
    change, ratio = 100 * (errors[1] / errors[0] - 1), seconds[1] / seconds[0]
    print(
        f"{name:12} epsilon {epsilon:<5g} rank {rank:<3}"
        f"{errors[0]:10.4f}{errors[1]:10.4f}{change:+8.2f}%{ratio:8.2f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    cases = "two", "three", *PUBLISHED, "generated", "large"
    parser.add_argument("--cases", nargs="+", choices=cases, default=["two"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[math.inf, 4.0])
    options = parser.parse_args()
    print(f"{'':34}{'present':>10}{'rows':>10}{'error':>9}{'time':>8}")
    warnings.simplefilter("ignore")
    for case in options.cases:
        for name, rank, problem in problems(case, options.folder):
            for epsilon in options.epsilons:
                compare(name, rank, problem, epsilon)


if __name__ == "__main__":
    main()
