#!/usr/bin/env python3
"""R2 of ridges on readings of sensors with an offset, and in mixed units.

    python tests/benchmarks/bench_sensors.py [--seeds 5] [--epsilon 2]

Printed is the R2 for 1,500 simulated people of 4 sensors x 24 hours, of a model fitted
to 3,000 others at delta 1e-6 (mean of the seeds, each with its own people and noise).
The same people are generated around 0 and in one unit; around 36; and each sensor
around another value and in another unit.
"""

import argparse

import numpy as np

from sktensordp.moments import MultilinearRidge

N_FITTED, N_PEOPLE = 3000, 4500
# Of every sensor.
OFFSET = np.array([[36.0], [1013.0], [0.5], [5000.0]])
SCALE = np.array([[1.0], [20.0], [0.02], [800.0]])
NORM = 10.0


def people(seed):
    """Deviations of readings, and a target with components of them."""
    rng = np.random.default_rng(seed)
    hours = np.arange(24) / 24
    waves = np.stack([np.cos(np.pi * k * (hours + 0.02)) for k in range(3)])
    cores = rng.standard_normal((N_PEOPLE, 4, 3)) * [1.0, 0.7, 0.5]
    X = cores @ waves + 0.3 * rng.standard_normal((N_PEOPLE, 4, 24))
    weights = np.random.default_rng(0).standard_normal((4, 3))
    y = (cores * weights).sum(axis=(1, 2)) + 0.3 * rng.standard_normal(N_PEOPLE)
    return X, y


def ways():
    """Pairs of a name, with a function of deviations, and parameters."""
    at, mixed = (lambda X: 36 + X), (lambda X: OFFSET + SCALE * X)
    longest = float(np.linalg.norm(OFFSET)) * 24**0.5
    return {
        "around 0, in one unit": (lambda X: X, {}),
        "around 36": (at, {"norm_bound": 36 * 96**0.5}),
        "around 36, offset": (at, {"offset": 36.0}),
        "around 36, center": (at, {"center": True}),
        "mixed units": (mixed, {"norm_bound": longest}),
        "mixed units, offset and scale": (mixed, {"offset": OFFSET, "scale": SCALE}),
        "mixed units, scale and center": (mixed, {"scale": SCALE, "center": True}),
    }


def r2(of_deviations, params, epsilon, seeds):
    """R2 of new people; mean of seeds."""
    found = []
    for seed in range(seeds):
        X, y = people(seed)
        X = of_deviations(X)
        options = {"norm_bound": NORM, "target_bounds": (-6, 6), "random_state": seed}
        model = MultilinearRidge((4, 24), epsilon=epsilon, **options | params)
        model.fit(X[:N_FITTED], y[:N_FITTED])
        found.append(model.score(X[N_FITTED:], y[N_FITTED:]))
    return float(np.mean(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=2.0)
    args = parser.parse_args()
    for name, (of_deviations, params) in ways().items():
        found = r2(of_deviations, params, args.epsilon, args.seeds)
        print(f"{name:<32} {found:6.3f}", flush=True)


if __name__ == "__main__":
    main()
