"""Protecting single ratings beside whole users, by the number of users.

    python tests/benchmarks/bench_units.py [--epsilons 1 4] [--users 300 1000 3000]

Ratings of 100 items from `make_ratings`, 40 by a user on average; a random tenth is
held out, and every item has ratings in the rest. Epsilon is the same for both, so that
users get the stronger promise. Delta is 0 for a rating, and 1e-5 for a user.
"""

import argparse

import numpy as np

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from tests.benchmarks.bench_expected_error import UNITS, measured


def error(ratings, epsilon, seed, options):
    """RMSE on the tenth that is held out."""
    model = CPCompletion(
        epsilon=epsilon, levels=ratings.levels, shape=ratings.shape, **options
    )
    return measured(model, ratings.data, ratings.target, seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument(
        "--users", type=int, nargs="+", default=[300, 1000, 3000, 10_000, 30_000]
    )
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    seeds = range(arguments.seeds)
    print(f"{'epsilon':>8}{'users':>8}" + "".join(f"{name:>12}" for name in UNITS))
    for epsilon in arguments.epsilons:
        for n_users in arguments.users:
            ratings = make_ratings(n_users, 100, 40 * n_users, random_state=0)
            found = [
                np.mean([error(ratings, epsilon, s, options) for s in seeds])
                for options in UNITS.values()
            ]
            print(
                f"{epsilon:8g}{n_users:8,}" + "".join(f"{e:12.3f}" for e in found),
                flush=True,
            )


if __name__ == "__main__":
    main()
