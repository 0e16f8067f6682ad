"""Complete ratings with everything of a user protected
====================================================

Held-out error at several epsilons of one user (add or remove), beside what a user's own
mean, the items' means and fits without privacy reach; the same for users that were not
in the fit, whose history is folded in; a picture, and the guarantee in words.

Without arguments the script runs on synthetic ratings of 8,000 users; ``--users`` makes
more. ``--ratings FILE`` takes your own: comma-separated, one header line, then user,
item and rating; the items in it are taken for a public catalogue. ``--features FILE``
adds public features of items: comma-separated, one header line, the item's id first,
then numbers.
"""

import argparse
import sys
import time

import numpy as np
from sklearn.metrics import root_mean_squared_error

from sktensordp.completion import CPCompletion, make_fold_in_scorer
from sktensordp.datasets import make_ratings
from sktensordp.plotting import PrivacyUtilityDisplay


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ratings", metavar="FILE", help="your ratings (csv)")
    parser.add_argument("--features", metavar="FILE", help="public features of items")
    parser.add_argument(
        "--levels", nargs=3, type=float, default=[0.5, 5.0, 0.5],
        metavar=("LOW", "HIGH", "STEP"), help="public scale of the ratings",
    )  # fmt: skip
    parser.add_argument("--users", type=int, default=8000, help="synthetic users")
    parser.add_argument("--rank", type=int, default=5, help="number of CP terms")
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument(
        "--epsilons", nargs="+", type=float, default=[0.5, 1, 2, 4, 8, 16]
    )
    parser.add_argument("--splits", type=int, default=1, help="splits to average")
    parser.add_argument(
        "--per-user", type=int, metavar="N",
        help="hold out N ratings of every user, not a random tenth of all",
    )  # fmt: skip
    parser.add_argument(
        "--random-state", type=int, help="seed of the noise; none for a real release"
    )
    parser.add_argument("--output", default="user_privacy.png", metavar="PNG")
    return parser.parse_args()


def load(arguments):
    """Coordinates, ratings, the shape, and features of the items or None."""
    if arguments.ratings is None:
        n_users = arguments.users
        ratings = make_ratings(
            n_users, max(n_users // 25, 100), 50 * n_users, random_state=0
        )
        return ratings.data, ratings.target, ratings.shape, None
    table = np.loadtxt(
        arguments.ratings, delimiter=",", skiprows=1, usecols=(0, 1, 2), dtype=str,
        quotechar='"',
    )  # fmt: skip
    users, at_user = np.unique(table[:, 0], return_inverse=True)
    items, at_item = np.unique(table[:, 1], return_inverse=True)
    features = None
    if arguments.features is not None:
        known = np.loadtxt(
            arguments.features, delimiter=",", skiprows=1, dtype=str, quotechar='"'
        )
        of_item = {row[0]: row[1:].astype(float) for row in known}
        nothing = np.zeros(known.shape[1] - 1)
        features = np.array([of_item.get(item, nothing) for item in items])
    X = np.column_stack([at_user, at_item])
    return X, table[:, 2].astype(float), (len(users), len(items)), features


def held_out(X, seed, per_user):
    """Which ratings a split holds out."""
    drawn = np.random.default_rng(seed).random(len(X))
    if per_user is None:
        return drawn < 0.1
    order = np.lexsort((drawn, X[:, 0]))
    users = X[order, 0]
    rank = np.arange(len(X)) - np.searchsorted(users, users)
    test = np.zeros(len(X), dtype=bool)
    test[order[rank < per_user]] = True
    return test


def shrunk_means(rows, values, size, prior):
    """Means of rows, shrunk to the mean of all."""
    counts = np.bincount(rows, minlength=size)
    centre = values.mean()
    return centre + np.bincount(rows, values - centre, size) / (counts + prior)


def main():
    arguments = read_arguments()
    low, high, step = arguments.levels
    levels = np.linspace(low, high, round((high - low) / step) + 1)
    X, y, shape, features = load(arguments)
    tests = [held_out(X, seed, arguments.per_user) for seed in range(arguments.splits)]

    def mean_error(predict):
        found = []
        for test in tests:
            predicted = predict(X[~test], y[~test], X[test])
            found.append(
                root_mean_squared_error(y[test], np.clip(predicted, low, high))
            )
        return float(np.mean(found)), float(np.std(found))

    def completion(epsilon, *, rank=arguments.rank, **options):
        domain = {"levels": levels, "shape": shape, **options}
        return CPCompletion(
            rank, epsilon=epsilon, delta=arguments.delta,
            random_state=arguments.random_state, **domain,
        )  # fmt: skip

    def error_of(model):
        return mean_error(lambda X, y, asked: model.fit(X, y).predict(asked))

    def of_mode(mode):
        def predict(X, y, asked):
            return shrunk_means(X[:, mode], y, shape[mode], 5)[asked[:, mode]]

        return mean_error(predict)

    start = time.perf_counter()
    print(
        f"{len(y):,} ratings of {shape[1]:,} items by {shape[0]:,} users; held-out "
        f"RMSE, mean of {arguments.splits} split(s)\n"
    )
    alone = {"n_pattern_components": 0}
    references = {
        "global mean": mean_error(lambda X, y, asked: np.full(len(asked), y.mean())),
        "user's own mean, no budget": of_mode(0),
        "item's mean, no noise": of_mode(1),
        "biases, no noise": error_of(completion(np.inf, rank=0, **alone)),
        "CP with biases, no noise": error_of(completion(np.inf, **alone)),
    }
    for name, (error, _) in references.items():
        print(f"{name:30s}{error:8.3f}")

    user = {"unit": 0}
    methods = {
        "sums": {**user, "rank": 0},
        "statistics": {**user, "perturbation": "statistics"},
        "auto": user,
    }
    if features is not None:
        methods["sums, features"] = {
            **methods["sums"],
            "side_information": {1: features},
        }
        methods["auto, features"] = {**user, "side_information": {1: features}}
    print(f"\n{'epsilon of one user':26s}" + "".join(f"{n:>16s}" for n in methods))
    curves = {name: [] for name in methods}
    for epsilon in [*arguments.epsilons, np.inf]:
        row = f"{epsilon:<26g}"
        for name, options in methods.items():
            model = completion(epsilon, **options)
            error, spread = error_of(model)
            row += f"{error:16.3f}"
            if np.isfinite(epsilon):
                curves[name].append((epsilon, error, spread))
                guarantee = model.privacy_guarantee_
        print(row)

    print("\nUsers that were not in the fit, a fifth of whose ratings are predicted")
    new = X[:, 0] % 10 == 0
    score = make_fold_in_scorer()
    for epsilon in arguments.epsilons:
        model = completion(epsilon, **user).fit(X[~new], y[~new])
        print(f"{epsilon:<26g}{-score(model, X[new], y[new]):16.3f}")
    print(f"\nThe last of the fits in the table: {guarantee}")

    curves = {name: list(zip(*points, strict=True)) for name, points in curves.items()}
    display = PrivacyUtilityDisplay(
        {
            name: (*columns[:2], columns[2] if arguments.splits > 1 else None)
            for name, columns in curves.items()
        },
        # The first would leave little room for the others.
        references={name: error for name, (error, _) in [*references.items()][1:]},
        score_name="held-out RMSE",
    ).plot()
    display.ax_.set_title("Private completion of ratings, one user protected")
    display.figure_.savefig(arguments.output, dpi=150, bbox_inches="tight")
    print(
        f"\nPicture: {arguments.output} ({time.perf_counter() - start:.0f} s in all)",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
