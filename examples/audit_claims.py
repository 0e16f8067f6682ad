"""
Audit eight claims that are false, and one that is true
=======================================================

A privacy claim is easy to get wrong and hard to check by reading code. This example
audits nine mechanisms that all claim epsilon = 1. One is right; each of the others has
a mistake that was made in practice or in print. The auditor knows none of this: it
calls a mechanism many times on two neighbouring inputs, learns to tell the outputs
apart, and turns its success into a lower bound on epsilon that holds with 95%
confidence.
"""

# %%
# The mechanisms
# --------------
# To be audited, a mechanism is a function ``mechanism(x, n)`` that returns n outputs
# for the input x, each with fresh noise. The first one is this library's.

# sphinx_gallery_thumbnail_path = "images/thumbnails/audit_claims.png"
from sktensordp.mechanisms import LaplaceMechanism

import numpy as np

DELTA = 1e-5


def laplace_mechanism(rng):
    """True: Laplace noise on a lattice, from this library."""
    laplace = LaplaceMechanism(1.0, bounds=(0, 1), random_state=rng.integers(2**31))
    laplace.fit([[0.0]])
    return lambda x, n: laplace.transform(np.tile(x, (n, 1)))


# %%
# Floating-point noise that is added to a floating-point value has the right
# distribution, but its low-order bits reveal the value.


def naive_laplace(rng):
    """Floating-point Laplace noise, added to a float."""
    return lambda x, n: x + rng.laplace(size=(n, 1))


def naive_gaussian(rng):
    """Floating-point Gaussian noise of the right variance."""
    sigma = 3.730632  # 1 / 0.268051, exact for epsilon = 1 and delta = 1e-5
    return lambda x, n: x + sigma * rng.standard_normal((n, 1))


# %%
# The next four mistakes are about the amount of noise. To rule out the mistakes above,
# their noise is drawn as exact integers, for values in hundredths. One mechanism has
# half the scale. One has noise for values that differ by 1, but they differ by 2. One
# adds the same noise to two releases, so that one reveals the other. One takes its
# scale from the range of the private values.


import math


def integer_laplace(rng, scale, size):
    """Discrete Laplace noise of scale 100 * `scale`."""
    rate = -math.expm1(-0.01 / scale)
    return rng.geometric(rate, size) * 1.0 - rng.geometric(rate, size)


def half_the_noise(rng):
    """Discrete Laplace noise of half the scale."""
    return lambda x, n: x + integer_laplace(rng, 0.5, (n, 1))


def twice_the_sensitivity(rng):
    """Noise for values that differ by 1 where they differ by 2."""
    return lambda x, n: 2 * x + integer_laplace(rng, 1.0, (n, 1))


def shared_noise(rng):
    """Releases of the value and of a public one, with the same noise."""

    def mechanism(x, n):
        noise = integer_laplace(rng, 1.0, (n, 1))
        return np.hstack([x + noise, noise])

    return mechanism


def range_from_the_data(rng):
    """Noise scaled to the range of the values, which is read off the values."""
    return lambda x, n: x + integer_laplace(rng, np.ptp(x) / 100, (n, len(x)))


# %%
# The last two are from papers. TLDP (Yuan, Tang, Huang and Wang) keeps each entry with
# a small probability, and adds noise otherwise, as if a tensor had a single entry. The
# last divides a sensitivity by the root of the number of entries instead of multiplying
# by it. Our copy of Yang, Xiang, Chen, Li and Li (2021) prints IDN so, in Theorem 3;
# this may be a slip of the copy.


def published_tldp(rng, n_entries=16, epsilon=1.0):
    """TLDP-L for values 1 apart: keep each with a probability, else add noise."""
    scale = 1 / epsilon
    keep = math.exp(-(n_entries - 1) * epsilon)
    keep /= 2 * scale + keep

    def mechanism(x, n):
        noise = integer_laplace(rng, scale, (n, n_entries))
        return x + np.where(rng.random((n, n_entries)) < keep, 0.0, noise)

    return mechanism


def idn_with_a_quotient(rng, shape=(4, 5, 5), epsilon=1.0):
    """IDN with the sensitivity (b - a) / sqrt(I) in the place of (b - a) sqrt(I)."""
    size, log_term = math.prod(shape), math.log(1 / DELTA)
    zeta = math.sqrt(size + 2 * math.sqrt(size * log_term) + 2 * log_term)
    t = 2 * epsilon / (zeta + math.sqrt(zeta**2 + 2 * epsilon))
    sigma = 1 / (math.sqrt(size) * t)
    return lambda x, n: x + sigma * rng.standard_normal((n, size))


# %%
# The audits
# ----------
# Every claim comes with two neighbouring inputs and a number of calls on each. For a
# false claim, this is the smallest power of two at which ten audits out of ten prove it
# false.

from sktensordp.audit import audit_mechanism

ONE, HUNDREDTHS = ([0.0], [1.0]), ([0.0], [100.0])
ENTRIES_16 = np.zeros(16), np.full(16, 100.0)
ENTRIES_100 = np.zeros(100), np.ones(100)
RANGES = [0.0] * 7 + [50.0], [0.0] * 7 + [100.0]
# Name: mechanism, neighbouring inputs, claimed (epsilon, delta), calls on each input.
CLAIMS = {
    "LaplaceMechanism (true)": (laplace_mechanism, ONE, (1.0, 0.0), 4096),
    "naive Laplace": (naive_laplace, ONE, (1.0, 0.0), 128),
    "naive Gaussian": (naive_gaussian, ONE, (1.0, DELTA), 256),
    "half the noise": (half_the_noise, HUNDREDTHS, (1.0, 0.0), 256),
    "twice the sensitivity": (twice_the_sensitivity, HUNDREDTHS, (1.0, 0.0), 256),
    "noise shared by two calls": (shared_noise, HUNDREDTHS, (1.0, 0.0), 64),
    "TLDP as published": (published_tldp, ENTRIES_16, (1.0, 0.0), 64),
    "IDN with a quotient": (idn_with_a_quotient, ENTRIES_100, (1.0, DELTA), 64),
    "range read off the data": (range_from_the_data, RANGES, (1.0, 0.0), 128),
}


def audit(name, seed=0, n_trials=None):
    """Audit one of the claims."""
    make, (x, x_neighbour), (epsilon, delta), least = CLAIMS[name]
    return audit_mechanism(
        make(np.random.default_rng(seed)), x, x_neighbour, epsilon=epsilon,
        delta=delta, n_trials=n_trials or least, batched=True,
    )  # fmt: skip


reports = {name: audit(name, n_trials=20_000) for name in CLAIMS}
print(f"{'mechanism':27}{'claimed':>8}{'proved':>8}  what gave it away")
for name, report in reports.items():
    print(f"{name:27}{report.claimed:8.3g}{report.epsilon_lower:8.3g}  {report.event}")

# %%
# The audit refutes all eight false claims. It does not refute the true one, whose bound
# stays below its epsilon. With 20,000 calls, no audit can prove more than about 8, so
# where a bound is near 8, the true epsilon may be far larger.

from sktensordp.plotting import AuditDisplay

import matplotlib.pyplot as plt

display = AuditDisplay(reports).plot()
display.figure_.suptitle("Which claims of epsilon = 1 are false?")
plt.show()

# %%
# How many calls does it take?
# ----------------------------
# The number of calls doubles until ten audits with different seeds all prove a
# violation. None is ever proved for the true claim.


def least_trials(name, n_seeds=10, most=2**13):
    """Least power of two at which all audits of a claim prove a violation."""
    n_trials = 64
    while n_trials <= most:
        if all(audit(name, seed, n_trials).violated for seed in range(n_seeds)):
            return n_trials
        n_trials *= 2
    return None


for name in CLAIMS:
    print(f"{name:27}{least_trials(name)!s:>6}")

# %%
# Each of these mistakes shows within 256 calls, so an audit fits into the tests of any
# mechanism. It can only refute a claim. An audit that finds nothing proves nothing:
# `LaplaceMechanism` is private because of its proof.
