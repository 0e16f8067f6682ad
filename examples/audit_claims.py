"""Audit eight claims that are false, and one that is true
=======================================================

Each mechanism is called many times on two neighbouring inputs, by an auditor that
knows nothing about it. The table shows what each claims, what the auditor proves,
and the event that gave it away.
"""

import argparse
import math

import numpy as np

from sktensordp._random import NoiseStreams
from sktensordp.audit import audit_mechanism
from sktensordp.noise import laplace_lattice
from sktensordp.plotting import AuditDisplay

DELTA = 1e-5


def laplace_on_a_lattice(rng):
    """True: the sampler of this package, at its claim."""
    lattice = laplace_lattice(0.0, 1.0, 1.0)
    stream = NoiseStreams(rng.integers(2**31), 0).stream(0)
    return lambda x, n: lattice.randomize(np.repeat(x, n), stream)[:, None]


def naive_laplace(rng):
    """Floating-point Laplace noise, added to a float."""
    return lambda x, n: x + rng.laplace(size=(n, 1))


def naive_gaussian(rng):
    """Floating-point Gaussian noise of the right variance."""
    sigma = 3.730632  # 1 / 0.268051, exact for epsilon = 1 and delta = 1e-5
    return lambda x, n: x + sigma * rng.standard_normal((n, 1))


def half_the_noise(rng):
    """Discrete Laplace noise of half the scale."""
    return lambda x, n: x + _integers(rng, 0.5, (n, 1))


def twice_the_sensitivity(rng):
    """Noise for values that differ by 100 where they differ by 200."""
    return lambda x, n: 2 * x + _integers(rng, 1.0, (n, 1))


def shared_noise(rng):
    """Two releases, of the value and of a public one, with the same noise."""

    def mechanism(x, n):
        noise = _integers(rng, 1.0, (n, 1))
        return np.hstack([x + noise, noise])

    return mechanism


def published_tldp(rng, n_entries=16, epsilon=1.0):
    """TLDP-L for values 1 apart, in hundredths: keep each with p, else add noise."""
    scale = 1 / epsilon
    keep = math.exp(-(n_entries - 1) * epsilon)
    keep /= 2 * scale + keep

    def mechanism(x, n):
        noise = _integers(rng, scale, (n, n_entries))
        return x + np.where(rng.random((n, n_entries)) < keep, 0.0, noise)

    return mechanism


def idn_as_printed(rng, shape=(16, 5, 5), epsilon=1.0):
    """IDN with the sensitivity (b - a) / sqrt(I) in the place of (b - a) sqrt(I)."""
    size, log_term = math.prod(shape), math.log(1 / DELTA)
    zeta = math.sqrt(size + 2 * math.sqrt(size * log_term) + 2 * log_term)
    t = 2 * epsilon / (zeta + math.sqrt(zeta**2 + 2 * epsilon))
    sigma = 1 / (math.sqrt(size) * t)
    return lambda x, n: x + sigma * rng.standard_normal((n, size))


def range_from_the_data(rng):
    """Noise scaled to the range of the values, which is read off the values."""
    return lambda x, n: x + _integers(rng, np.ptp(x) / 100, (n, len(x)))


def _integers(rng, scale, size):
    """Discrete Laplace noise of scale 100 * `scale`: no floating-point flaw."""
    rate = -math.expm1(-0.01 / scale)
    return rng.geometric(rate, size) * 1.0 - rng.geometric(rate, size)


_ONE, _MANY = ([0.0], [1.0]), ([0.0], [100.0])
_TLDP = np.zeros(16), np.full(16, 100.0)
_IDN = np.zeros(400), np.ones(400)
_RANGE = [0.0] * 7 + [50.0], [0.0] * 7 + [100.0]
# Name: mechanism, neighbouring inputs, claimed (epsilon, delta), trials an arm. The
# numbers of trials are the least power of two at which ten audits in ten, of seeds
# 0 to 9, prove a violation (``--search`` finds them again).
CLAIMS = {
    "Laplace on a lattice (true)": (laplace_on_a_lattice, _ONE, (1.0, 0.0), 4096),
    "naive Laplace": (naive_laplace, _ONE, (1.0, 0.0), 128),
    "naive Gaussian": (naive_gaussian, _ONE, (1.0, DELTA), 512),
    "half the noise": (half_the_noise, _MANY, (1.0, 0.0), 512),
    "twice the sensitivity": (twice_the_sensitivity, _MANY, (1.0, 0.0), 512),
    "noise shared by two calls": (shared_noise, _MANY, (1.0, 0.0), 64),
    "TLDP as published": (published_tldp, _TLDP, (1.0, 0.0), 128),
    "IDN as printed": (idn_as_printed, _IDN, (1.0, DELTA), 64),
    "range read off the data": (range_from_the_data, _RANGE, (1.0, 0.0), 256),
}


def audit(name, seed=0, n_trials=None):
    """Audit one of the claims."""
    make, (x, x_neighbour), (epsilon, delta), least = CLAIMS[name]
    return audit_mechanism(
        make(np.random.default_rng(seed)), x, x_neighbour, epsilon=epsilon,
        delta=delta, n_trials=n_trials or least, batched=True,
    )  # fmt: skip


def least_trials(name, n_seeds=10, most=2**16):
    """Least power of two at which all audits of a claim prove a violation."""
    n_trials = 64
    while n_trials <= most:
        if all(audit(name, seed, n_trials).violated for seed in range(n_seeds)):
            return n_trials
        n_trials *= 2
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--search", action="store_true", help="find the trials needed")
    parser.add_argument("--output", default="audit_claims.png", metavar="PNG")
    arguments = parser.parse_args()
    if arguments.search:
        for name in CLAIMS:
            print(f"{name:30s}{least_trials(name)!s:>8s}")
        return
    reports = {name: audit(name, n_trials=20_000) for name in CLAIMS}
    print(f"{'mechanism':30s}{'claimed':>8s}{'proved':>8s}{'trials':>8s}  event")
    for name, report in reports.items():
        least = CLAIMS[name][3]
        print(
            f"{name:30s}{report.claimed:8.3g}{report.epsilon_lower:8.3g}{least:8d}"
            f"  {report.event}"
        )
    display = AuditDisplay(reports).plot()
    display.figure_.savefig(arguments.output, dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
