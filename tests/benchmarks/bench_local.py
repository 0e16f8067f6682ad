"""Speed of the mechanisms for local privacy beside the same in plain floating point.

    python tests/benchmarks/bench_local.py [--small]

10,000 samples of 784 entries. A ratio is how many times as long a row takes as the
plain one above it, measured in the same run. The plain ones are what one would write
with NumPy and SciPy: they use a fast generator, and betray the samples by the low-order
bits of their floats, or have probabilities that are not quite what they should be.
"""

import argparse
import os
import platform
from timeit import repeat

import numpy as np
from scipy.special import betaincinv

from sktensordp import mechanisms as dp
from sktensordp.privacy.calibration._privunit import privunit_design


def best(function, repeats=3):
    """Least seconds of some calls."""
    return min(repeat(function, number=1, repeat=repeats))


def plain_response(X, response):
    """Levels kept or moved by the rows of a table of floats."""
    rng, plan = np.random.default_rng(0), response._randomizer
    levels = np.rint(X * (plan.n_levels - 1)).astype(np.int64)
    table = np.cumsum(plan.moves / 2.0**60, axis=1)
    draws, moved = rng.random(levels.shape), np.empty_like(levels)
    for level, row in enumerate(table):
        chosen = levels == level
        moved[chosen] = np.searchsorted(row, draws[chosen])
    kept = rng.random(levels.shape) < plan.keep
    final = np.minimum(np.where(kept, levels, moved), plan.n_levels - 1)
    return plan.outputs[0][final] / (plan.n_levels - 1)


def plain_privunit(X, epsilon):
    """PrivUnit by the inverse of the law of the cosine, in floats."""
    n, d = X.shape
    design = privunit_design(d + 1, epsilon)
    rng, half = np.random.default_rng(0), d / 2
    u = np.empty((n, d + 1))
    u[:, :-1] = (2 * X - 1) / np.sqrt(d)
    u[:, -1] = np.sqrt(np.maximum(1 - np.square(u[:, :-1]).sum(axis=1), 0))
    q = np.exp(design.log_mass)
    p = 1 / (1 + np.exp(-design.log_odds))
    uniform = rng.random(n)
    above = np.where(rng.random(n) < p, uniform * q, q + uniform * (1 - q))
    tail = np.minimum(above, 1 - above)
    t = np.copysign(np.sqrt(1 - betaincinv(half, 0.5, 2 * tail)), 0.5 - above)
    w = rng.standard_normal((n, d + 1))
    w -= np.einsum("ij,ij->i", w, u)[:, None] * u
    w /= np.linalg.norm(w, axis=1)[:, None]
    v = t[:, None] * u + np.sqrt(1 - t**2)[:, None] * w
    return v[:, :-1] * (np.sqrt(d) / design.scale / 2) + 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a quick smoke run")
    n = 100 if parser.parse_args().small else 10_000
    X = np.random.default_rng(1).random((n, 784))
    print(f"{platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}")
    print(f"{n} samples of 784 entries\n{'':44}{'fit, s':>9}{'s':>9}{'/ plain':>9}")
    box = {"bounds": (0, 1)}

    def row(name, mechanism, plain=None):
        fit = best(lambda: mechanism.fit(X), 1)
        seconds = best(lambda: mechanism.transform(X))
        ratio = "" if plain is None else f"{seconds / plain:9.2f}"
        print(f"{name:44}{fit:9.3f}{seconds:9.3f}{ratio}", flush=True)

    noise = best(lambda: X + np.random.default_rng(0).standard_normal(X.shape))
    print(f"{'plain normals, added':53}{noise:9.3f}")
    row("Gaussian", dp.GaussianMechanism(4.0, delta=1e-5, **box), noise)
    for k in (2, 17, 256):
        response = dp.TensorRandomizedResponse(4.0, delta=1e-5, n_levels=k, **box)
        response.fit(X)
        plain = best(lambda r=response: plain_response(X, r))
        print(f"{f'plain response, {k} levels':53}{plain:9.3f}")
        row(f"response, {k} levels", response, plain)
    geometric = dp.TensorRandomizedResponse(
        4.0, delta=1e-5, n_levels=256, noise="geometric", **box
    )
    row("response, geometric, 256 levels", geometric)
    wide = np.zeros((1, 3072))
    for entries, zeros in ((784, X[:1]), (3072, wide)):
        for kind, weights in (("one weight", None), ("all weights", entries)):
            varied = None if weights is None else np.linspace(0, 0.99, entries)
            response = dp.TensorRandomizedResponse(
                1.5, delta=1e-5, n_levels=256, weights=varied, **box
            )
            seconds = best(lambda r=response, z=zeros: r.fit(z), 1)
            print(f"{f'budget of {entries} entries, {kind}':44}{seconds:9.3f}")
    for epsilon in (1.0, 16.0):
        row(f"hybrid, epsilon {epsilon:g}", dp.HybridMechanism(epsilon, **box), noise)
        plain = best(lambda e=epsilon: plain_privunit(X, e))
        print(f"{f'plain PrivUnit, epsilon {epsilon:g}':53}{plain:9.3f}")
        row(f"PrivUnit, epsilon {epsilon:g}", dp.PrivUnit(epsilon, **box), plain)


if __name__ == "__main__":
    main()
