"""Speed of the mechanisms for local privacy beside plain noise.

    python tests/benchmarks/bench_local.py [--small]

10,000 samples of 784 entries. A ratio is how many times as long a row takes as adding
normals of NumPy, measured in the same run. These come from a fast generator, and betray
the samples by the low-order bits of their floats.
"""

import argparse
import os
import platform
from timeit import repeat

import numpy as np

from sktensordp import mechanisms as dp


def best(function, repeats=3):
    """Least seconds of some calls."""
    return min(repeat(function, number=1, repeat=repeats))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a quick smoke run")
    n = 100 if parser.parse_args().small else 10_000
    X = np.random.default_rng(1).random((n, 784))
    print(f"{platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}")
    print(f"{n} samples of 784 entries\n{'':44}{'fit, s':>9}{'s':>9}{'/ plain':>9}")
    plain = best(lambda: X + np.random.default_rng(0).standard_normal(X.shape))
    print(f"{'plain normals, added':53}{plain:9.3f}")
    box = {"bounds": (0, 1)}
    response = {**box, "delta": 1e-5}
    varied = {"n_levels": 256, "weights": np.linspace(0, 0.99, 784)}
    mechanisms = {
        "Gaussian": dp.GaussianMechanism(4.0, **response),
        **{
            f"response, {k} levels": dp.TensorRandomizedResponse(
                4.0, n_levels=k, **response
            )
            for k in (2, 17, 256)
        },
        "response, geometric, 256 levels": dp.TensorRandomizedResponse(
            4.0, n_levels=256, noise="geometric", **response
        ),
        "response, a weight for each entry": dp.TensorRandomizedResponse(
            1.5, **varied, **response
        ),
        **{f"hybrid, epsilon {e:g}": dp.HybridMechanism(e, **box) for e in (1, 16)},
        **{f"PrivUnit, epsilon {e:g}": dp.PrivUnit(e, **box) for e in (1, 16)},
    }
    for name, mechanism in mechanisms.items():
        fit = best(lambda m=mechanism: m.fit(X), 1)
        seconds = best(lambda m=mechanism: m.transform(X))
        print(f"{name:44}{fit:9.3f}{seconds:9.3f}{seconds / plain:9.2f}", flush=True)


if __name__ == "__main__":
    main()
