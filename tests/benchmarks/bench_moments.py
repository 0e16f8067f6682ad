#!/usr/bin/env python3
"""Energy that components of modes keep, and their time, beside a flat PCA.

    python tests/benchmarks/bench_moments.py [--seeds 5]

Printed is the share of the energy of 600 simulated subjects of 24 x 48 that components
keep, which 1,400 other subjects determine, at delta 1e-6 for one of them replaced (mean
of the noise seeds). Beside it is the same estimator for flattened samples.
"""

import argparse
import math
import time

import numpy as np

from sktensordp.moments import MultilinearPCA


def subjects(n):
    """Cores of 4 x 5 along random features and smooth hours, and half as much noise."""
    rng = np.random.default_rng(0)
    features = np.linalg.qr(rng.normal(size=(24, 4)))[0]
    hours = np.arange(48) / 48
    waves = [np.cos(np.pi * k * hours + 0.3 * k) for k in range(5)]
    waves = np.linalg.qr(np.stack(waves, axis=1))[0]
    sizes = np.outer(1 / np.sqrt(1 + np.arange(4)), 1 / np.sqrt(1 + np.arange(5)))
    cores = rng.normal(size=(n, 4, 5)) * sizes
    X = np.einsum("nab,fa,tb->nft", cores, features, waves)
    X += 0.5 * np.sqrt(np.mean(X**2)) * rng.normal(size=X.shape)
    return X / np.linalg.norm(X, axis=(1, 2), keepdims=True)


def energy(X, n_components, epsilon, seeds):
    """Mean share that is kept, and processor seconds of a fit with its score."""
    found, start = [], time.process_time()
    for seed in range(seeds):
        model = MultilinearPCA(
            n_components, epsilon=epsilon, delta=1e-6, norm_bound=1.0, random_state=seed
        )
        found.append(model.fit(X[:1400]).score(X[1400:]))
    return np.mean(found), (time.process_time() - start) / seeds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    X = subjects(2000)
    print(f"{'epsilon':>8} {'modes':>7} {'seconds':>8} {'flat':>7} {'seconds':>8}")
    for epsilon in (0.5, 1, 4, math.inf):
        modes, of_modes = energy(X, (4, 5), epsilon, seeds)
        # A PCA of 1,152 cells takes a while.
        flat, of_flat = energy(X.reshape(len(X), -1), 20, epsilon, 1)
        print(f"{epsilon:>8} {modes:>7.3f} {of_modes:>8.2f} {flat:>7.3f} "
              f"{of_flat:>8.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
