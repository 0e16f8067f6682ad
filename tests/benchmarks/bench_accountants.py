#!/usr/bin/env python3
"""Our epsilons beside those of accountants and audits that others wrote.

    pip install ".[peers]"
    python tests/benchmarks/bench_accountants.py [--write]

The first table compares compositions with prv-accountant (Gopi, Lee and Wutschitz
2021), which composes privacy losses on a grid with an error that it bounds. Its lower
and upper bounds on epsilon are for the order of two neighbours that removes a record;
ours is for both orders. The second table compares bounds from one run with those of
jax-privacy, for the same numbers of canaries, guesses and right guesses.

For pure releases the peer chooses its grid by a Rényi divergence that is too small, and
where their losses are large, they leave the grid: its upper bound is then below the
truth. Here it gets the right divergence; "as it is" is what it answers by itself.

`--write` stores the peers' answers for `tests/privacy/test_peers.py`.
"""

import argparse
import datetime
import json
import math
import time
import warnings
from importlib.metadata import version

import numpy as np

from tests.support.peers import AUDITS, COMPOSITIONS, STORED, our_audit, ours

COMMAND = "python tests/benchmarks/bench_accountants.py --write"
# Bounds on the peer's errors, in epsilon and as a share of delta.
EPSILON_ERROR, DELTA_ERROR_SHARE = 1e-3, 1e-3
SIGNIFICANCE = 0.05


def random_variable(kind, parameters, as_it_is=False):
    """The privacy loss of one release, as prv-accountant takes it."""
    from prv_accountant import privacy_random_variables as prvs

    class Response(prvs.PureDPMechanism):
        def rdp(self, alpha):
            # Mironov (2017), Proposition 5; the peer has (alpha - 1) epsilon / alpha.
            log_p, log_q = -np.log1p(np.exp([-self.eps, self.eps]))
            orders = alpha * log_p + (1 - alpha) * log_q
            others = alpha * log_q + (1 - alpha) * log_p
            return np.logaddexp(orders, others) / (alpha - 1)

    if kind == "sampled":
        return prvs.PoissonSubsampledGaussianMechanism(*parameters)
    if kind == "gaussian":
        return prvs.GaussianMechanism(*parameters)
    if kind == "laplace":
        return prvs.LaplaceMechanism(*parameters)
    if kind == "response":
        return (prvs.PureDPMechanism if as_it_is else Response)(*parameters)
    if kind == "approximate":
        release = prvs.ApproximateDPMechanism(*parameters)
        release.pure_dp = Response(parameters[0])
        return release

    class Levels(prvs.PrivacyRandomVariable):
        """Not one of the peer's own; its losses are -e, 0 and e."""

        def __init__(self, n_levels, keep):
            self.other = (1 - keep) / n_levels
            self.same = keep + self.other
            self.loss = math.log(self.same / self.other)

        def cdf(self, t):
            below = np.where(t < 0, self.other, 1 - self.same)
            return np.where(t < -self.loss, 0, np.where(t < self.loss, below, 1))

        def rdp(self, alpha):
            moment = self.same**alpha * self.other ** (1 - alpha)
            moment += self.other**alpha * self.same ** (1 - alpha)
            return math.log(moment + 1 - self.same - self.other) / (alpha - 1)

    return Levels(*parameters)


def bounds_of_prv(delta, releases, as_it_is=False):
    """Lower bound, estimate and upper bound on epsilon."""
    from prv_accountant import PRVAccountant

    counts = [count for *_, count in releases]
    with warnings.catch_warnings(action="ignore"):
        accountant = PRVAccountant(
            [random_variable(*release[:2], as_it_is) for release in releases],
            eps_error=EPSILON_ERROR,
            delta_error=DELTA_ERROR_SHARE * delta,
            max_self_compositions=counts,
        )
        return accountant.compute_epsilon(delta, counts)


def bounds_of_jax(n_canaries, n_guesses, n_right, delta):
    """Bounds on epsilon by (epsilon, delta), and by the curve of mu-GDP."""
    from jax_privacy import auditing

    n_in = n_canaries // 2
    shown = np.arange(n_in) < n_right
    mistaken = np.arange(n_canaries - n_in) < n_guesses - n_right
    auditor = auditing.CanaryScoreAuditor(shown.astype(float), mistaken.astype(float))
    options = {"threshold_strategy": auditing.Explicit(0.5)}
    return [
        float(bound(SIGNIFICANCE, delta, **options))
        for bound in (auditor.epsilon_one_run, auditor.epsilon_one_run_fdp)
    ]


def timed(function, *args):
    start = time.perf_counter()
    result = function(*args)
    return result, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    compositions, audits = {}, []
    print(f"{'composition':30} {'delta':>6} {'lower':>9} {'upper':>9} {'ours':>9}  "
          "seconds of the peer, ours")  # fmt: skip
    for name, (delta, releases) in COMPOSITIONS.items():
        (lower, estimate, upper), peer = timed(bounds_of_prv, delta, releases)
        epsilon, own = timed(ours, delta, releases)
        compositions[name] = [lower, estimate, upper]
        print(f"{name:30} {delta:6.0e} {lower:9.4f} {upper:9.4f} {epsilon:9.4f}  "
              f"{peer:.1f}, {own:.1f}", flush=True)  # fmt: skip
    name = "binary randomised response, large"
    as_it_is = bounds_of_prv(*COMPOSITIONS[name], as_it_is=True)
    print(f"{name}, as it is: {as_it_is[0]:.4f} to {as_it_is[2]:.4f}")
    print("\ncanaries, guesses, right, delta: (epsilon, delta), ours; curve, ours")
    for case in AUDITS:
        by_epsilon, by_curve = bounds_of_jax(*case)
        plain, curve = (our_audit(*case, gaussian) for gaussian in (False, True))
        audits.append([by_epsilon, by_curve])
        print(f"{case}: {by_epsilon:.4f}, {plain:.4f}; {by_curve:.4f}, {curve:.4f}")
    if options.write:
        answers = {
            "command": COMMAND,
            "date": datetime.date.today().isoformat(),
            "versions": {p: version(p) for p in ("prv-accountant", "jax-privacy")},
            "compositions": compositions,
            "as it is": {name: as_it_is},
            "audits": audits,
        }
        STORED.write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
