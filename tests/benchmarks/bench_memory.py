"""Peak memory of a fit, beyond the data and what was there before.

    python tests/benchmarks/bench_memory.py [--users] [--ratings 10_000_000]

The ratings (50 of every user, of 20,000 items, five levels) are protected at epsilon 4:
one by one, by noise on every value, and fitted in a few sweeps, since more of them need
no more memory; or, with `--users`, all ratings of a user together. A small fit compiles
and loads everything first. It reads /proc, so that it runs on Linux alone.
"""

import argparse
import warnings

import numpy as np

from sktensordp.completion import CPCompletion
from tests.benchmarks.bench_completion import forget_peak, memory

N_ITEMS, PER_USER, N_SWEEPS = 20_000, 50, 2


ENTRIES = {"perturbation": "input", "max_iter": N_SWEEPS}
USERS = {"unit": 0}


def fit(X, y, shape, options):
    CPCompletion(
        epsilon=4.0, levels=[1, 2, 3, 4, 5], shape=shape, random_state=0, **options
    ).fit(X, y)


def ratings(n, shape):
    """Ratings at random, more of the first items."""
    rng = np.random.default_rng(0)
    X = np.empty((n, 2), np.int32, order="F")
    X[:, 0] = rng.integers(0, shape[0], n)
    X[:, 1] = rng.random(n) ** 3 * shape[1]
    return X, rng.integers(1, 6, n).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", type=int, default=10_000_000)
    parser.add_argument("--users", action="store_true", help="protect users")
    arguments = parser.parse_args()
    n, options = arguments.ratings, USERS if arguments.users else ENTRIES
    fit(*ratings(2000, (40, 50)), (40, 50), options)
    shape = n // PER_USER, N_ITEMS
    data = ratings(n, shape)
    forget_peak()
    before = memory("VmRSS")
    fit(*data, shape, options)
    print(f"{n:,} ratings, {sum(a.nbytes for a in data) / 1e6:.0f} MB")
    print(f"peak beyond: {memory('VmHWM') - before:.0f} MB")


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Ratings at random have nothing but averages.
    main()
