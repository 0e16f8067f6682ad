"""Loss and time of learned encoders beside the paper's Algorithm 1.

    python tests/benchmarks/bench_encoding.py [--splits N] [--published]

Breast cancer, a network of 45 hidden units as the task: cross-entropy of its answer for
decoded samples against the true labels, on the 30% of every split that nothing was
fitted to, mean of 20 releases; and the seconds of a fit. Algorithm 1 of the paper,
which takes half a minute a fit, is run with --published.
"""

import argparse
import warnings
from time import perf_counter

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

from sktensordp.encoding import TaskAwareEncoder
from sktensordp.exceptions import UnsoundClaimWarning
from sktensordp.papers import PublishedTaskAwareEncoder

EPSILONS = (1.0, 5.0, 10.0, 20.0)


def splits(n_splits):
    """Standardised columns, labels and a fitted task, for every split."""
    X, y = load_breast_cancer(return_X_y=True)
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(X))
        fit, new = np.split(order, [int(0.7 * len(X))])
        Z = (X - X[fit].mean(axis=0)) / X[fit].std(axis=0)
        task = MLPClassifier((45,), max_iter=1000, alpha=1e-2, random_state=seed)
        yield Z[fit], Z[new], y[new], task.fit(Z[fit], y[fit])


def measured(data, epsilon, make, maps):
    """Mean loss over the splits, and the least seconds of a fit."""
    losses, seconds = [], []
    for fit, new, labels, task in data:
        encoder = make(epsilon, task=task, random_state=0, encoder=maps)
        begin = perf_counter()
        encoder.fit(fit)
        seconds.append(perf_counter() - begin)
        answers = (task.predict_proba(encoder.transform(new)) for _ in range(20))
        losses.append(np.mean([log_loss(labels, answer) for answer in answers]))
    return np.mean(losses), min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--published", action="store_true", help="Algorithm 1 too")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UnsoundClaimWarning)
    data = list(splits(arguments.splits))
    rows = {one: (TaskAwareEncoder, one) for one in ("linear", "mlp")}
    if arguments.published:
        rows["Algorithm 1"] = PublishedTaskAwareEncoder, "mlp"
    print(f"{'epsilon':14}" + "".join(f"{epsilon:>16g}" for epsilon in EPSILONS))
    for name, row in rows.items():
        print(f"{name:14}", end="")
        for epsilon in EPSILONS:
            loss, seconds = measured(data, epsilon, *row)
            print(f"{loss:8.3f} ({seconds:4.1f} s)", end="", flush=True)
        print()


if __name__ == "__main__":
    main()
