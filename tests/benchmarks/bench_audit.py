#!/usr/bin/env python3
"""What recommenders and classifiers tell about people: right guesses of attackers.

    python tests/benchmarks/bench_audit.py --choices NPZ --ratings CSV

Prints one row for each model: right guesses of the account and of the insider, the
bounds that they prove with 95% confidence, and the processor time of the fits and of
the audit beyond them. CHOICES has rows of users and items, `train` and `test`; RATINGS
has a header, then user, item and rating. Models of other libraries are left out if
these are not installed: `pip install ".[compare]"`.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from sktensordp.audit import audit_recommender, audit_training
from sktensordp.completion import CPCompletion, ImplicitCompletion


def timed(function, spent):
    """The function, which adds its processor time to a list."""

    def call(*arguments):
        start = time.process_time()
        answer = function(*arguments)
        spent.append(time.process_time() - start)
        return answer

    return call


def row(name, audit, model, *data, **options):
    """Print what an audit found."""
    spent = []
    asked = timed(model, spent) if not hasattr(model, "fit") else model
    start = time.process_time()
    try:
        report = audit(asked, *data, random_state=options.pop("seed"), **options)
    except ModuleNotFoundError as error:
        print(f"{name:34s} not installed: {error.name}")
        return
    total = time.process_time() - start
    beyond = f"{total - sum(spent):6.1f}" if spent else "     -"
    found = (
        f"{a.n_right:4d} of {a.n_guesses:3d}, {a.epsilon_lower:5.2f}"
        for a in (report.account, report.insider)
    )
    print(f"{name:34s} {'   '.join(found)}  {total:6.1f} {beyond}", flush=True)


def main():
    """Audit all models, for each of the seeds."""
    from tests.benchmarks.audit_recipes import (
        implicit_als,
        implicit_lists,
        lenskit_knn,
        popularity,
        surprise_svd,
    )

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--choices", required=True)
    parser.add_argument("--ratings", required=True)
    parser.add_argument("--random-state", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    with np.load(options.choices) as stored:
        X = np.unique(np.concatenate([stored["train"], stored["test"]]), axis=0)
    table = np.genfromtxt(options.ratings, delimiter=",", skip_header=1)
    where = np.column_stack(
        [np.unique(column, return_inverse=True)[1] for column in table.T[:2]]
    )
    y = table[:, 2]
    entry = {"unit": "entry", "canaries": "planted"}
    digits = load_digits(return_X_y=True)
    scale = {"value_bounds": (y.min(), y.max())}
    print(f"{'':34s} {'account':19s}{'insider':19s}  {'time':6s} beyond")
    for seed in options.random_state:
        for name, model in {
            "ALS (implicit)": implicit_als,
            "k nearest items, lists (implicit)": implicit_lists,
            "k nearest items, lists (LensKit)": lenskit_knn,
            "ImplicitCompletion(epsilon=4)": ImplicitCompletion(epsilon=4.0),
        }.items():
            row(f"{name}, customers", audit_recommender, model, X, seed=seed)
        row("popularity, planted", audit_recommender, popularity, X, seed=seed,
            canaries="planted")  # fmt: skip
        row("SVD (Surprise), ratings", audit_recommender, surprise_svd, where, y,
            seed=seed, n_canaries=200, **entry)  # fmt: skip
        row("CPCompletion(epsilon=4), ratings", audit_recommender,
            CPCompletion(epsilon=4.0, **scale), where, y, seed=seed,
            **entry)  # fmt: skip
        row("CPCompletion without noise, ratings", audit_recommender,
            CPCompletion(epsilon=np.inf, **scale), where, y, seed=seed,
            epsilon=1.0, **entry)  # fmt: skip
        row("random forest, wrong labels", audit_training, RandomForestClassifier(),
            *digits, n_canaries=300, seed=seed)  # fmt: skip


if __name__ == "__main__":
    main()
