#!/usr/bin/env python3
"""Energy, accuracy, time and memory of estimators of moments, beside flat ones.

    python tests/benchmarks/bench_moments.py [--seeds 5] [--million]

Printed are, for delta 1e-6, one sample replaced, and the mean of the noise seeds (of
more of them where samples are few):

- the share of the energy of new samples that components keep: 1,400 simulated subjects
  of 24 x 48; 1,257 digits of 8 x 8; 350 serology samples of 6 x 11, which ship with
  TensorLy, clipped to their median norm. Beside them is the same estimator for
  flattened samples;
- the share of new samples that are classified well, labels protected: simulated
  subjects, and digits, from a core and from all cells, beside class means of the cells
  under the same guarantee;
- with --million, time and memory for a million samples of 24 x 48 in batches.
"""

import argparse
import math
import resource
import time

import numpy as np
from sklearn.datasets import load_digits

from sktensordp.moments import MultilinearPCA, MultilinearRidgeClassifier
from sktensordp.privacy import gaussian_mu

DELTA = 1e-6


def normalized(X):
    """Samples divided by their norms."""
    return X / np.linalg.norm(X, axis=(1, 2), keepdims=True)


def subjects(n, seed=0):
    """Cores of 4 x 5 along random features and smooth hours, and half as much noise."""
    rng = np.random.default_rng(seed)
    features = np.linalg.qr(rng.normal(size=(24, 4)))[0]
    hours = np.arange(48) / 48
    waves = [np.cos(np.pi * k * hours + 0.3 * k) for k in range(5)]
    waves = np.linalg.qr(np.stack(waves, axis=1))[0]
    sizes = np.outer(1 / np.sqrt(1 + np.arange(4)), 1 / np.sqrt(1 + np.arange(5)))
    cores = rng.normal(size=(n, 4, 5)) * sizes
    X = np.einsum("nab,fa,tb->nft", cores, features, waves)
    X += 0.5 * np.sqrt(np.mean(X**2)) * rng.normal(size=X.shape)
    return X, features, waves


def labelled(n):
    """Subjects of two classes, by a random sum over their noisy cores."""
    X, features, waves = subjects(n, seed=3)
    cores = np.einsum("nft,fa,tb->nab", X, features, waves)
    scores = (cores * np.random.default_rng(3).normal(size=(4, 5))).sum((1, 2))
    return normalized(X), (scores > np.median(scores)).astype(int)


def digits():
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    return normalized(found.images[order]), found.target[order]


def serology():
    from tensorly.datasets import load_covid19_serology

    X = np.asarray(load_covid19_serology()["tensor"], dtype=float)
    return X[np.random.default_rng(0).permutation(len(X))]


def energies(name, train, test, bound, n_components, flat, epsilons, seeds):
    print(f"\nenergy of new samples, {name}, n_components = {n_components}")
    print(f"{'epsilon':>8} {'modes':>7} {'flat':>7} {'seconds':>8}  method")
    flat_train, flat_test = (X.reshape(len(X), -1) for X in (train, test))
    for epsilon in epsilons:
        options = {"epsilon": epsilon, "delta": DELTA, "norm_bound": bound}
        found, beside, methods, start = [], [], set(), time.process_time()
        for seed in range(seeds):
            model = MultilinearPCA(n_components, **options, random_state=seed)
            found.append(model.fit(train).score(test))
            methods.add(model.method_)
        seconds = (time.process_time() - start) / seeds
        # A PCA of 1,152 cells takes a while.
        for seed in range(seeds if flat_train.shape[1] < 500 else 1):
            model = MultilinearPCA(flat, **options, random_state=seed)
            beside.append(model.fit(flat_train).score(flat_test))
        print(
            f"{epsilon:>8} {np.mean(found):>7.3f} {np.mean(beside):>7.3f} "
            f"{seconds:>8.2f}  {', '.join(sorted(methods))}",
            flush=True,
        )


def class_means(X, y, n_classes, epsilon, seed):
    """Directions of noisy sums of the samples of each class, which one moves by 2."""
    rows = X.reshape(len(X), -1)
    sums = rows.T @ np.eye(n_classes)[y]
    scale = 2 / gaussian_mu(epsilon, DELTA)
    sums += np.random.default_rng(seed).normal(0, scale, sums.shape)
    return sums / np.linalg.norm(sums, axis=0)


def accuracies(name, X, y, n_train, ranks, epsilons, seeds):
    print(f"\nshare of new samples classified well, {name}")
    head = " ".join(f"{rank!s:>9}" for rank in ranks)
    print(f"{'epsilon':>8} {'means':>9} {head}")
    classes = np.unique(y)
    train, test, labels, truth = X[:n_train], X[n_train:], y[:n_train], y[n_train:]
    for epsilon in epsilons:
        means = [
            class_means(train, labels, len(classes), epsilon, s) for s in range(seeds)
        ]
        rows = test.reshape(len(test), -1)
        scores = [np.mean([((rows @ m).argmax(1) == truth).mean() for m in means])]
        for rank in ranks:
            fits = [
                MultilinearRidgeClassifier(
                    rank, epsilon=epsilon, delta=DELTA, norm_bound=1.0, classes=classes,
                    random_state=seed,
                ).fit(train, labels)
                for seed in range(seeds)
            ]  # fmt: skip
            scores.append(np.mean([fit.score(test, truth) for fit in fits]))
        print(f"{epsilon:>8} " + " ".join(f"{s:>9.3f}" for s in scores), flush=True)


class Simulated:
    """Batches of simulated samples; every pass gives the same."""

    def __init__(self, n_batches, size):
        self.n_batches, self.size = n_batches, size

    def __iter__(self):
        for number in range(self.n_batches):
            rng = np.random.default_rng(number)
            yield rng.standard_normal((self.size, 24, 48), dtype=np.float32) / 34


def million():
    print("\nsamples of 24 x 48 in batches of 10,000 (float32, 46 MB)")
    print(f"{'samples':>9} {'seconds':>8} {'MB at most':>11}")
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{0:>9} {'':>8} {base:>11.0f}")
    for n_batches in (1, 10, 100):
        start = time.process_time()
        MultilinearPCA((4, 5), norm_bound=1.0).fit_batches(Simulated(n_batches, 10_000))
        seconds = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{n_batches * 10_000:>9} {seconds:>8.1f} {peak:>11.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--million", action="store_true")
    options = parser.parse_args()
    seeds = options.seeds
    if options.million:
        million()
        return
    X = normalized(subjects(2000)[0])
    energies(
        "subjects, 24 x 48", X[:1400], X[1400:], 1.0, (4, 5), 20,
        (0.5, 1, 4, math.inf), seeds,
    )  # fmt: skip
    X, y = digits()
    energies(
        "digits, 8 x 8", X[:1257], X[1257:], 1.0, 25, 25,
        (0.25, 0.5, 1, 4, 16, math.inf), seeds,
    )  # fmt: skip
    S = serology()
    bound = float(np.median(np.linalg.norm(S[:350], axis=(1, 2))))
    for n_components, epsilons in (((2, 3), (1, 2, 4)), (6, (1, 2, 4, math.inf))):
        energies(
            "serology, 6 x 11", S[:350], S[350:], bound, n_components, 6, epsilons,
            20 * seeds,  # With few samples, five seeds err by .004.
        )  # fmt: skip
    for n, ranks in ((8000, [(4, 5)]), (2000, [(4, 5), (24, 48)])):
        accuracies(
            f"{n * 7 // 10} subjects", *labelled(n), n * 7 // 10, ranks, (1,), seeds
        )
    accuracies("digits", X, y, 1257, [(8, 8), (6, 6)], (0.5, 1, 4), 6 * seeds)


if __name__ == "__main__":
    main()
