"""What a budget admits, if it is adaptive and if all releases are fixed beforehand.

Run with ``python tests/benchmarks/bench_budgets.py``.
"""

from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import PrivacyBudget
from tests.support.events import Gaussian, Laplace
from tests.support.guarantees import guarantee

DELTA = 1e-6


def admitted(release, adaptive, most=1000):
    budget = PrivacyBudget(1.0, DELTA, adaptive=adaptive)
    for count in range(most):
        try:
            budget.spend(release)
        except BudgetExceededError:
            return count
    return most


def main():
    print(f"{'admitted at (1, 1e-6)':40s}{'adaptive':>10s}{'fixed':>10s}")
    for name, release in {
        "Laplace, epsilon 0.05": guarantee(Laplace(20), relation="add-or-remove"),
        "Gaussian, mu 0.02": guarantee(Gaussian(50), DELTA, relation="add-or-remove"),
    }.items():
        counts = [admitted(release, adaptive) for adaptive in (True, False)]
        print(f"{name:40s}{counts[0]:10d}{counts[1]:10d}")


if __name__ == "__main__":
    main()
