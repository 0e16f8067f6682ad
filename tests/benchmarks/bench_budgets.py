"""Time of compositions and budgets, and what a budget admits.

Run with ``python tests/benchmarks/bench_budgets.py``. The peer is dp-accounting's own
PLD accountant, given the same Gaussian and Laplace events, in the same run.
"""

import time

from dp_accounting.pld import PLDAccountant

from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import PrivacyBudget, compose
from tests.support.events import Gaussian, Laplace
from tests.support.guarantees import guarantee

DELTA = 1e-6


def laplace(epsilon):
    return guarantee(Laplace(1 / epsilon), relation="add-or-remove")


def gaussian(mu):
    return guarantee(Gaussian(1 / mu), DELTA, relation="add-or-remove")


def time_of(function):
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def peer(releases):
    accountant = PLDAccountant()
    for release in releases:
        accountant.compose(release.event)
    return accountant.get_epsilon(DELTA)


def admitted(release, adaptive, most=1000):
    budget = PrivacyBudget(1.0, DELTA, adaptive=adaptive)
    for count in range(most):
        try:
            budget.spend(release)
        except BudgetExceededError:
            return count
    return most


def main():
    kinds = {
        "1000 equal": [laplace(0.01)] * 500 + [gaussian(0.01)] * 500,
        "1000 different": [
            f(0.01 * (1 + i / 500)) for f in (laplace, gaussian) for i in range(500)
        ],
    }
    print(f"{'composition':22s}{'ours (s)':>10s}{'peer (s)':>10s}{'ratio':>8s}")
    for name, releases in kinds.items():
        ours, seconds = time_of(lambda r=releases: compose(*r, delta=DELTA).epsilon)
        theirs, of_peer = time_of(lambda r=releases: peer(r))
        print(f"{name:22s}{seconds:10.2f}{of_peer:10.2f}{seconds / of_peer:8.2f}")
        print(f"  epsilon {ours:.4f}, peer {theirs:.4f}")
    print(f"\n{'admitted at (1, 1e-6)':40s}{'adaptive':>10s}{'fixed':>10s}")
    for name, release in {
        "Laplace, epsilon 0.05": laplace(0.05),
        "Gaussian, mu 0.02": gaussian(0.02),
    }.items():
        counts = [admitted(release, adaptive) for adaptive in (True, False)]
        print(f"{name:40s}{counts[0]:10d}{counts[1]:10d}")


if __name__ == "__main__":
    main()
