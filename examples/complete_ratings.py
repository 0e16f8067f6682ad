"""Complete a ratings tensor privately
===================================

Held-out error of private completion at several epsilons, by each perturbation that
"auto" chooses from and by "auto" itself, beside the non-private fit, the biases alone
and the global mean; a picture of the trade-off; and every fit's guarantee in words.

Without arguments the script runs on synthetic ratings. ``--ratings FILE`` takes
your own: comma-separated, one header line, then user, item and rating in the first
three columns. ``--levels LOW HIGH STEP`` declares the public scale of the ratings.
"""

import argparse
import functools
import sys
import time

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.metrics import root_mean_squared_error
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.plotting import PrivacyUtilityDisplay


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ratings", metavar="FILE", help="your ratings (csv)")
    parser.add_argument(
        "--levels", nargs=3, type=float, default=[0.5, 5.0, 0.5],
        metavar=("LOW", "HIGH", "STEP"), help="public scale of the ratings",
    )  # fmt: skip
    parser.add_argument("--rank", type=int, default=10, help="number of CP terms")
    parser.add_argument(
        "--epsilons", nargs="+", type=float, default=[0.5, 1, 2, 4, 8, 16]
    )
    parser.add_argument(
        "--splits", type=int, default=1, help="random 90/10 splits to average"
    )
    parser.add_argument(
        "--random-state", type=int, help="seed of the noise; none for a real release"
    )
    parser.add_argument("--output", default="complete_ratings.png", metavar="PNG")
    return parser.parse_args()


def load(file):
    """Raw ids of users and items as strings, and the ratings."""
    if file is None:
        ratings = make_ratings(random_state=0)
        return ratings.data.astype(str), ratings.target
    table = np.loadtxt(
        file, delimiter=",", skiprows=1, usecols=(0, 1, 2), dtype=str, quotechar='"'
    )
    return table[:, :2], table[:, 2].astype(float)


def methods(levels, rank, random_state):
    """The private methods of the table, and what they are compared with."""

    def completion(epsilon, *, rank=rank, **domain):
        return make_pipeline(
            CoordinateEncoder(),
            CPCompletion(rank, epsilon=epsilon, random_state=random_state, **domain),
        )

    bounds = levels[0], levels[-1]
    private = {
        "Laplace noise": {"perturbation": "input", "value_bounds": bounds},
        "optimal table": {"perturbation": "input", "levels": levels},
        "sums": {"perturbation": "sums", "levels": levels},
        "statistics": {"perturbation": "statistics", "levels": levels},
        "auto": {"levels": levels},
    }
    alone = {"value_bounds": bounds, "n_pattern_components": 0}
    references = {
        "global mean": DummyRegressor(),
        "biases, no noise": completion(np.inf, rank=0, **alone),
        "CP with biases, no noise": completion(np.inf, **alone),
        "the same with the pattern": completion(np.inf, value_bounds=bounds),
    }
    private = {
        name: functools.partial(completion, **options)
        for name, options in private.items()
    }
    return private, references


def _columns(points, n_splits):
    """Epsilons, means and spreads of a curve; one split has no spread."""
    epsilons, means, spreads = zip(*points, strict=True)
    return epsilons, means, spreads if n_splits > 1 else None


def main():
    arguments = read_arguments()
    low, high, step = arguments.levels
    levels = np.linspace(low, high, round((high - low) / step) + 1)
    X, y = load(arguments.ratings)
    private, references = methods(levels, arguments.rank, arguments.random_state)
    tests = [
        np.random.default_rng(seed).random(len(y)) < 0.1
        for seed in range(arguments.splits)
    ]

    def errors(model):
        found = []
        for test in tests:
            model.fit(X[~test], y[~test])
            predicted = np.clip(model.predict(X[test]), low, high)
            found.append(root_mean_squared_error(y[test], predicted))
        return np.mean(found), np.std(found)

    start = time.perf_counter()
    print(
        f"{len(y):,} ratings of {len(np.unique(X[:, 1])):,} items by "
        f"{len(np.unique(X[:, 0])):,} users; held-out RMSE, mean of "
        f"{arguments.splits} random 90/10 split(s)\n"
    )
    reference_scores = {}
    for name, model in references.items():
        reference_scores[name], _ = errors(model)
        print(f"{name:26s}{reference_scores[name]:8.3f}")
    print(f"\n{'epsilon of one rating':26s}" + "".join(f"{n:>16s}" for n in private))
    curves = {name: [] for name in private}
    guarantees = {}
    for epsilon in arguments.epsilons:
        row = f"{epsilon:<26g}"
        for name, make in private.items():
            model = make(epsilon)
            mean, spread = errors(model)
            curves[name].append((epsilon, mean, spread))
            guarantees[name, epsilon] = model[-1].privacy_guarantee_
            row += f"{mean:16.3f}"
        print(row)
    print("\nWhat each fit guarantees; publishing several adds up their epsilons:")
    for (name, epsilon), guarantee in guarantees.items():
        print(f"- {name}, epsilon = {epsilon:g}: {guarantee}")
    display = PrivacyUtilityDisplay(
        {name: _columns(points, arguments.splits) for name, points in curves.items()},
        references=reference_scores,
        score_name="held-out RMSE",
    ).plot()
    display.ax_.set_title("Private completion of ratings, one rating protected")
    display.figure_.savefig(arguments.output, dpi=150, bbox_inches="tight")
    print(
        f"\nPicture: {arguments.output} ({time.perf_counter() - start:.0f} s in all)",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
