#!/usr/bin/env python3
"""What `audit_mechanism` finds among mechanisms that others collected to test auditors.

    python tests/audit/benchmark.py                  # 40,000 runs on each input
    python tests/audit/benchmark.py --runs 400000    # ten times as many
    python tests/audit/benchmark.py --repeats 20     # how often each is found
    python tests/audit/benchmark.py --only SVT       # rows whose name contains SVT

The first twenty rows are the mechanisms on which Bichsel, Steffen, Bogunovic and Vechev
evaluated DP-Sniper ("DP-Sniper: black-box discovery of differential privacy violations
using classifiers", S&P 2021), with their parameters. Most come from Ding, Wang, Wang,
Zhang and Kifer ("Detecting violations of differential privacy", CCS 2018) and from Lyu,
Su and Li ("Understanding the sparse vector technique for differential privacy",
VLDB 2017). Two more rows have another claim or other inputs. The last rows are what
DP-Auditorium plants (Kong, Muñoz Medina, Ribero and Syed, "DP-Auditorium: a large-scale
library for auditing differential privacy", S&P 2024): sparse vectors, and means of
which one record is added or removed.

Every row has one pair of inputs, so that the table shows what an audit finds in
outputs, not what a search finds among inputs. `truth` is the largest logarithm of a
ratio of probabilities on this pair, or a bound on it; `why` says where it comes from.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sktensordp.audit import audit_mechanism

BELOW, NO_ANSWER = -1000.0, -2000.0
# Outputs are rounded to multiples of 1 / 1024. Otherwise an audit refutes every claim
# by the low-order bits of a float, and does not look at the mechanism.
_STEPS = 1024


@dataclass(frozen=True)
class Case:
    """A mechanism with two neighbouring inputs, a claim and the truth."""

    name: str
    mechanism: Callable[[np.random.Generator, np.ndarray, int], Any]
    x: tuple[float, ...]
    x_neighbour: tuple[float, ...]
    truth: float
    why: str
    claim: float = 0.1

    @property
    def exceeds(self):
        return self.truth > self.claim

    def audit(self, seed, n_trials, **options):
        """The report of an audit, with noise of its own for each mechanism and seed."""
        rng = np.random.default_rng([seed, *self.name.encode()])
        return audit_mechanism(
            lambda x, n: np.round(self.mechanism(rng, x, n) * _STEPS) / _STEPS, self.x,
            self.x_neighbour, epsilon=self.claim, n_trials=n_trials, batched=True,
            **options,
        )  # fmt: skip


# Noise


def noisy(kind, scale):
    """Independent noise for each entry: what noisy histograms release."""

    return lambda rng, x, n: x + getattr(rng, kind)(scale=scale, size=(n, len(x)))


def noisy_largest(kind, epsilon, reveals_value):
    """The position of the largest noisy entry, or (wrongly) its value."""

    def mechanism(rng, x, n):
        noisy = x + getattr(rng, kind)(scale=2 / epsilon, size=(n, len(x)))
        return noisy.max(axis=1) if reveals_value else noisy.argmax(axis=1)

    return mechanism


def prefix_sums(epsilon):
    return lambda rng, x, n: np.cumsum(
        x + rng.laplace(scale=1 / epsilon, size=(n, len(x))), axis=1
    )


def repeated(times, epsilon):
    """Laplace noise on one number, many times."""

    return lambda rng, x, n: x + rng.laplace(scale=1 / epsilon, size=(n, times))


def truncated_geometric(largest, k):
    """Balcer and Vadhan (2018), Algorithm 4.8: geometric tails cut at 0 and `largest`.

    The distribution function at z is r^(c - z) / (1 + r) below c and
    1 - r^(z - c + 1) / (1 + r) from c on, for r = 2^k / (2^k + 1).
    """
    ratio = 2.0**k / (2.0**k + 1)

    def mechanism(rng, x, n):
        z, c = np.arange(largest), x[0]
        below = ratio ** np.maximum(c - z, 0) / (1 + ratio)
        above = 1 - ratio ** np.maximum(z - c + 1, 0) / (1 + ratio)
        return np.searchsorted(np.where(z < c, below, above), rng.random(n))

    return mechanism


# Sparse vectors (Lyu, Su and Li 2017, Algorithms 1 to 6)


def sparse_vector(
    *, threshold_scale, query_scale, threshold, most=None, renewed=False, values=False
):
    """For each query, whether it exceeds a noisy threshold; ends after `most` of them.

    The outputs are 1, 0, and -1 once it has ended. With `values`, a query above the
    threshold is answered by the noisy value that was compared.
    """

    def mechanism(rng, x, n):
        noisy = x + np.zeros((n, 1))
        if query_scale > 0:
            noisy = x + rng.laplace(scale=query_scale, size=(n, len(x)))
        limit = rng.laplace(scale=threshold_scale, size=n)
        found, outputs = np.zeros(n, dtype=int), np.empty((n, len(x)))
        for i, entry in enumerate(noisy.T):
            above = entry >= threshold + limit
            if values:
                outputs[:, i] = np.where(above, entry, BELOW)
            else:
                outputs[:, i] = above
            if most is not None:
                outputs[found >= most, i] = NO_ANSWER if values else -1
            found += above
            if renewed:
                limit = np.where(
                    above, rng.laplace(scale=threshold_scale, size=n), limit
                )
        return outputs

    return mechanism


def svt(number, epsilon, most, threshold):
    """Algorithm `number` of Lyu, Su and Li, for queries of sensitivity one."""
    half = epsilon / 2
    options = {
        1: {"threshold_scale": 1 / half, "query_scale": 2 * most / half},
        2: {"threshold_scale": most / half, "query_scale": 2 * most / half,
            "renewed": True},
        3: {"threshold_scale": 1 / half, "query_scale": most / half, "values": True},
        4: {"threshold_scale": 4 / epsilon, "query_scale": 4 / (3 * epsilon)},
        5: {"threshold_scale": 1 / half, "query_scale": 0},
        6: {"threshold_scale": 1 / half, "query_scale": 1 / half},
    }[number]  # fmt: skip
    most = most if number <= 4 else None
    return sparse_vector(threshold=threshold, most=most, **options)


def svt_3_and_4(epsilon, most, threshold):
    both = [svt(number, epsilon, most, threshold) for number in (3, 4)]
    return lambda rng, x, n: np.column_stack([one(rng, x, n) for one in both])


def numerical_svt(epsilon, most, threshold):
    """Wang, Ding, Wang, Kifer and Zhang (2019): fresh noise for the values released."""

    def mechanism(rng, x, n):
        size = (n, len(x))
        limit = threshold + rng.laplace(scale=3 / epsilon, size=(n, 1))
        above = x + rng.laplace(scale=6 * most / epsilon, size=size) >= limit
        value = x + rng.laplace(scale=3 * most / epsilon, size=size)
        earlier = np.cumsum(above, axis=1) - above
        return np.where(earlier >= most, BELOW, np.where(above, value, 0.0))

    return mechanism


# RAPPOR (Erlingsson, Pihur and Korolova 2014)


def rappor(permanent, one=None, zero=None):
    """A Bloom filter whose bits are randomised once or, with `one` and `zero`, twice.

    The input is the filter itself.
    """

    def mechanism(rng, x, n):
        size = (n, len(x))
        kept = rng.random(size) >= permanent
        bits = np.where(kept, x, rng.random(size) < 0.5)
        if one is not None:
            bits = rng.random(size) < np.where(bits > 0, one, zero)
        return bits.astype(float)

    return mechanism


# Means of DP-Auditorium


def mean(epsilon, noisy_mean, noisy_scale):
    """Mean of numbers in [0, 1], half of the budget for their count.

    It is private if the noisy count both divides the sum and scales the noise.
    """

    def mechanism(rng, x, n):
        count = len(x) + rng.laplace(scale=2 / epsilon, size=n)
        count = np.maximum(count, 1.0)
        noise = rng.laplace(scale=2 / epsilon, size=n)
        return x.sum() / (count if noisy_mean else len(x)) + noise / (
            count if noisy_scale else len(x)
        )

    return mechanism


def ones(n):
    return (1.0,) * n


def zeros(n):
    return (0.0,) * n


def twos(n):
    return (2.0,) * n


FILTERS = (*ones(4), *zeros(16)), (*zeros(4), *ones(4), *zeros(12))
LOW_HIGH, HIGH_LOW = (*zeros(5), *ones(5)), (*ones(5), *zeros(5))
APART, FEWER = (*twos(5), *zeros(5)), (0.0, *ones(4))
INF = math.inf

# Name, mechanism, its two inputs, the truth, and why. `test_benchmark.py` computes the
# truths that are integrals.
SNIPER = [
    Case("Laplace", noisy("laplace", 10), zeros(1), ones(1), 0.1, "exact"),
    Case(
        "truncated geometric", truncated_geometric(5, 3), (2.0,), (1.0,),
        math.log(1.125), "exact: ln(1 + 2^-3), which the mechanism claims",
        claim=math.log(1.125),
    ),
    Case("noisy histogram 1", noisy("laplace", 10), FEWER, ones(5), 0.1, "exact"),
    Case(
        "noisy histogram 2", noisy("laplace", 0.1), FEWER, ones(5), 10.0,
        "exact: the scale is epsilon",
    ),
    Case(
        "report noisy max 1", noisy_largest("laplace", 0.1, False), ones(5),
        (0.0, *twos(4)), 0.0947, "integral",
    ),
    Case(
        "report noisy max 2", noisy_largest("exponential", 0.1, False), ones(5),
        (0.0, *twos(4)), 0.1, "exact",
    ),
    Case(
        "report noisy max 3", noisy_largest("laplace", 0.1, True), zeros(5), ones(5),
        0.25, "exact: five times 1 / 20",
    ),
    Case(
        "report noisy max 4", noisy_largest("exponential", 0.1, True), ones(5), twos(5),
        INF, "exact: values below 2",
    ),
    Case("SVT 1", svt(1, 0.1, 1, 0.5), LOW_HIGH, HIGH_LOW, 0.0879, "integral"),
    Case("SVT 2", svt(2, 0.1, 1, 1.0), LOW_HIGH, HIGH_LOW, 0.1, "bound: Algorithm 2"),
    Case(
        "SVT 3", svt(3, 0.1, 1, 1.0), HIGH_LOW, LOW_HIGH, 0.3,
        "exact: five entries below, then a low value; infinite for more queries",
    ),
    Case("SVT 4", svt(4, 0.1, 1, 1.0), ones(10), APART, 0.1725, "integral"),
    Case(
        "SVT 5", svt(5, 0.1, 1, 1.0), APART, ones(10), INF,
        "exact: a threshold between the entries",
    ),
    Case("SVT 6", svt(6, 0.1, 1, 1.0), HIGH_LOW, LOW_HIGH, 0.4145, "integral"),
    Case(
        "RAPPOR", rappor(0.75, 0.55, 0.45), FILTERS[0], FILTERS[1],
        8 * math.log(0.5125 / 0.4875), "exact: eight bits",
    ),
    Case(
        "one-time RAPPOR", rappor(0.95), FILTERS[0], FILTERS[1],
        8 * math.log(0.525 / 0.475), "exact: eight bits",
    ),
    Case("Laplace, 20 times", repeated(20, 0.005), zeros(1), ones(1), 0.1, "exact"),
    Case(
        "SVT 3 and 4", svt_3_and_4(0.1, 2, 1.0), ones(10), APART, 0.3124,
        "at least, by SVT 4 alone (integral)",
    ),
    Case(
        "prefix sums", prefix_sums(0.1), ones(10), zeros(10), 1.0,
        "exact: all ten entries change",
    ),
    Case(
        "numerical SVT", numerical_svt(0.1, 2, 1.0), twos(10), ones(10), 0.1,
        "bound: Wang et al.",
    ),
]  # fmt: skip
MORE = [
    Case(
        "truncated geometric, claim 0.1", truncated_geometric(5, 3), (2.0,), (1.0,),
        math.log(1.125), "exact",
    ),
    Case(
        "prefix sums, one entry changes", prefix_sums(0.1), ones(10), (0.0, *ones(9)),
        0.1, "exact",
    ),
]  # fmt: skip
RECORDS = (*ones(9), 0.0), (*zeros(9), 1.0)
AUDITORIUM = [
    *(
        Case(
            f"DP-Auditorium: SVT {number}", svt(number, 1.0, 1, 0.5), *RECORDS, truth,
            why, claim=1.0,
        )
        for number, truth, why in [
            (1, 1.0, "bound: Algorithm 1"), (2, 1.0, "bound: Algorithm 2"),
            (3, 5.0, "bound"), (4, 1.75, "bound"),
            (5, INF, "exact: a threshold between the entries"), (6, 5.0, "bound"),
        ]
    ),
    *(
        Case(
            f"DP-Auditorium: mean, {name}", mean(1.0, *noisy_counts), (0.0,),
            (0.0, 1.0), truth, why, claim=1.0,
        )
        for name, noisy_counts, truth, why in [
            ("noisy count", (True, True), 1.0, "composition of two budgets of 0.5"),
            ("count in the noise", (True, False), INF, "limit: different tails"),
            ("count in both", (False, False), INF, "limit: different tails"),
        ]
    ),
]  # fmt: skip
CASES = [*SNIPER, *MORE, *AUDITORIUM]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(f"{options.runs} runs on each input, confidence {options.confidence:g}")
    print(f"{'mechanism':36s} claim   truth  bound  violated  seconds  event")
    totals = {}
    for case in CASES:
        if options.only not in case.name:
            continue
        start, bounds = time.process_time(), []
        for seed in range(options.seed, options.seed + options.repeats):
            report = case.audit(seed, options.runs, confidence=options.confidence)
            bounds.append(report.epsilon_lower)
        seconds = (time.process_time() - start) / options.repeats
        found = sum(bound > case.claim for bound in bounds)
        print(
            f"{case.name:36s} {case.claim:5.3f}  {case.truth:6.3g}  "
            f"{np.median(bounds):5.3f}  {found:3d}/{options.repeats:<3d}   "
            f"{seconds:7.1f}  {report.event}",
            flush=True,
        )
        kind = "exceed their claim" if case.exceeds else "keep their claim"
        number, total = totals.get(kind, (0, 0))
        totals[kind] = number + found, total + options.repeats
    for kind, (number, total) in totals.items():
        print(f"mechanisms that {kind}: {number} of {total} audits report a violation")


if __name__ == "__main__":
    main()
