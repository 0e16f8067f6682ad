"""Recommend from what people chose, with whole users protected
============================================================

A shop knows who bought what, but not who liked what. It wants to recommend items, and
tell nobody what a customer bought: neither other customers, who see recommendations,
nor anybody who gets the model. This example measures how much accuracy that costs at
several epsilons, and compares the private model with two others: one list for
everybody, made from noisy counts, and the model without noise.

A fifth of each user's items is held out. Recall@20 is the share of these that are among
the first 20 recommended. At a small epsilon the model sees from its noisy counts that
co-occurrences would drown in noise, and recommends what is popular. With more budget or
more users, it uses the co-occurrences of more items.

Without arguments the script runs on synthetic choices of 2,000 users; ``--users`` makes
more. ``--choices FILE`` reads your own: comma-separated, one header line, then user and
item (further columns are not read). The users and the items in it are treated as public
catalogues.
"""

import argparse
import sys
import time

import numpy as np

from sktensordp.completion import ImplicitCompletion, make_ranking_scorer
from sktensordp.datasets import make_choices
from sktensordp.mechanisms import GaussianMechanism
from sktensordp.model_selection import ItemHoldout
from sktensordp.plotting import PrivacyUtilityDisplay


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--choices", metavar="FILE", help="your choices (csv)")
    parser.add_argument("--users", type=int, default=2000, help="synthetic users")
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument(
        "--epsilons", nargs="+", type=float, default=[0.5, 1, 2, 4, 8, 16]
    )
    parser.add_argument("--splits", type=int, default=3, help="splits to average")
    parser.add_argument("--k", type=int, default=20, help="items to recommend")
    parser.add_argument(
        "--random-state", type=int, help="seed of the noise; none for a real release"
    )
    parser.add_argument("--output", default="recommend_from_choices.png", metavar="PNG")
    return parser.parse_args()


def load(arguments):
    """Users and items of the choices, and the public numbers of both."""
    if arguments.choices is None:
        n_users = arguments.users
        choices = make_choices(
            n_users, max(n_users // 2, 100), 40 * n_users, random_state=0
        )
        return choices.data, choices.shape
    table = np.loadtxt(
        arguments.choices, delimiter=",", skiprows=1, usecols=(0, 1), dtype=str,
        quotechar='"',
    )  # fmt: skip
    users, at_user = np.unique(table[:, 0], return_inverse=True)
    items, at_item = np.unique(table[:, 1], return_inverse=True)
    return np.column_stack([at_user, at_item]), (len(users), len(items))


class SameForAll:
    """Recommends the items with the largest noisy counts to everybody.

    Each of a user's n choices has weight 1 / sqrt(n), so a user changes all counts
    together by a norm of 1: the sensitivity.
    """

    def __init__(self, epsilon, delta, shape, random_state):
        self.shape = shape
        self.noise = GaussianMechanism(
            epsilon, delta=delta, sensitivity=1.0, random_state=random_state
        )

    def fit(self, X):
        """Count, with noise, and remember who chose what."""
        weights = 1 / np.sqrt(np.bincount(X[:, 0], minlength=self.shape[0])[X[:, 0]])
        counts = np.bincount(X[:, 1], weights, minlength=self.shape[1])[np.newaxis]
        noisy = self.noise.fit(counts).transform(counts)[0]
        self.order = np.argsort(-noisy, kind="stable")
        self.chosen = [set() for _ in range(self.shape[0])]
        for user, item in X.tolist():
            self.chosen[user].add(item)
        return self

    def recommend(self, users, k):
        """The first items that users have not chosen."""
        found = np.full((len(users), k), -1)
        for row, user in zip(found, users.tolist(), strict=True):
            own = self.chosen[user]
            head = self.order[: k + len(own)].tolist()
            best = [item for item in head if item not in own][:k]
            row[: len(best)] = best
        return found


def main():
    arguments = read_arguments()
    X, shape = load(arguments)
    scorer = make_ranking_scorer("recall", k=arguments.k, history=0)
    splits = ItemHoldout(0.2, n_splits=arguments.splits, random_state=0)
    parts = [(X[train], X[test]) for train, test in splits.split(X)]

    def model(epsilon):
        return ImplicitCompletion(
            epsilon=epsilon, delta=arguments.delta, shape=shape,
            random_state=arguments.random_state,
        )  # fmt: skip

    def popularity(epsilon):
        return SameForAll(epsilon, arguments.delta, shape, arguments.random_state)

    def recall_of(make):
        fitted = [make().fit(train) for train, _ in parts]
        found = [scorer(m, test) for m, (_, test) in zip(fitted, parts, strict=True)]
        return float(np.mean(found)), float(np.std(found)), fitted[-1]

    start = time.perf_counter()
    print(
        f"{len(X):,} choices of {shape[1]:,} items by {shape[0]:,} users; Recall@"
        f"{arguments.k}, mean of {arguments.splits} split(s)\n"
    )
    plain, _, _ = recall_of(lambda: model(np.inf))
    popular, _, _ = recall_of(lambda: popularity(np.inf))
    print(f"{'model, no noise':28s}{plain:8.3f}")
    print(f"{'popularity, no noise':28s}{popular:8.3f}\n")
    print(f"{'epsilon of one user':28s}{'model':>8s}{'items':>8s}{'popularity':>12s}")
    curves = {"model": [], "popularity": []}
    for epsilon in arguments.epsilons:
        recall, spread, fitted = recall_of(lambda e=epsilon: model(e))
        same, same_spread, _ = recall_of(lambda e=epsilon: popularity(e))
        curves["model"].append((epsilon, recall, spread))
        curves["popularity"].append((epsilon, same, same_spread))
        print(f"{epsilon:<28g}{recall:8.3f}{len(fitted.items_):8d}{same:12.3f}")

    print(f"\nThe last of the fits: {fitted.privacy_guarantee_}")
    user = int(parts[-1][0][0, 0])
    print(f"User {user} is recommended {fitted.recommend(user, 5).tolist()},")
    print(f"somebody unknown {fitted.recommend(-1, 5).tolist()}.")

    columns = {
        name: tuple(zip(*points, strict=True)) for name, points in curves.items()
    }
    display = PrivacyUtilityDisplay(
        {
            name: (epsilons, means, spreads if arguments.splits > 1 else None)
            for name, (epsilons, means, spreads) in columns.items()
        },
        references={"model, no noise": plain, "popularity, no noise": popular},
        score_name=f"Recall@{arguments.k}",
    ).plot()
    display.ax_.set_title("Recommendations from choices, one user protected")
    display.figure_.savefig(arguments.output, dpi=150, bbox_inches="tight")
    print(
        f"\nPicture: {arguments.output} ({time.perf_counter() - start:.0f} s in all)",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
