"""How often to refit a recommender within the budget of a year.

    python tests/benchmarks/bench_refits.py [--small]

Everything of each user is protected, at a total epsilon of 4 (delta 1e-6) for a year.
Users are generated: four in ten are there before the year, the others join in one of
its months, and everybody returns in about half of the months that follow. A tenth of
the items come on offer during the year. A plan of k fits has them every 12 / k months,
all with the same epsilon. Each uses all choices made so far.

In every month, the latest model of the plan folds in what each user chose before, and
recommends 20 items. Recall@20 is the share of the choices of the month among them, the
mean over all months. Users without an earlier choice are left out.
"""

import argparse
import warnings

import numpy as np

from sktensordp.completion import ImplicitCompletion, make_ranking_scorer
from sktensordp.datasets import make_choices
from sktensordp.exceptions import AveragesOnlyWarning
from sktensordp.privacy import epsilon_per_release

EPSILON, DELTA, N_MONTHS, N_ASKED = 4.0, 1e-6, 12, 2000
PLANS = 12, 6, 4, 3, 2, 1
KINDS = {
    "many choices of few users": ((4000, 1500, 200_000), {}),
    "few choices of many users": ((40_000, 1500, 320_000), {"n_groups": 30}),
    "areas of a website": ((20_000, 300, 80_000), {"item_exponent": 1.5}),
}
SMALL = {"small": ((300, 60, 5000), {})}


def months_of(choices, rng):
    """The month of each choice; 0 is before the year."""
    n_users, n_items = choices.shape
    joins = np.where(
        rng.random(n_users) < 0.4, 0, rng.integers(1, N_MONTHS + 1, n_users)
    )
    months = np.arange(N_MONTHS + 1)
    comes = rng.random((n_users, len(months))) < 0.5
    comes &= months > joins[:, np.newaxis]
    comes[np.arange(n_users), joins] = True
    offered = np.where(
        rng.random(n_items) < 0.1, rng.integers(1, N_MONTHS + 1, n_items), 0
    )
    users, items = choices.data.T
    weights = np.where(comes[users], rng.random((len(users), len(months))), 0.0)
    return np.maximum(weights.argmax(axis=1), offered[items])


def recalls_of(choices, months, n_fits, epsilon, seed):
    """Recall@20 in each month of a plan."""
    scorer = make_ranking_scorer("recall", k=20, fold_in_fraction=0)
    rng, recalls = np.random.default_rng(seed), []
    for month in range(1, N_MONTHS + 1):
        known, new = (choices.data[months < month], choices.data[months == month])
        if (month - 1) % (N_MONTHS // n_fits) == 0:
            options = {"shape": choices.shape, "random_state": 100 * seed + month}
            model = ImplicitCompletion(epsilon=epsilon, delta=DELTA, **options)
            model.fit(known)
        asked = np.intersect1d(known[:, 0], new[:, 0])
        asked = rng.choice(asked, min(len(asked), N_ASKED), replace=False)
        model.fold_in(known[np.isin(known[:, 0], asked)])
        recalls.append(scorer(model, new[np.isin(new[:, 0], asked)]))
    return recalls


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="a quick smoke run")
    parser.add_argument("--fits", type=int, default=2, help="years to average")
    arguments = parser.parse_args()
    # At the epsilon of a fit, some kinds of choices teach averages alone.
    warnings.simplefilter("ignore", AveragesOnlyWarning)
    print(f"{'fits in the year':28}" + "".join(f"{plan:>8}" for plan in PLANS))
    for name, (sizes, options) in (SMALL if arguments.small else KINDS).items():
        choices = make_choices(*sizes, **options, random_state=0)
        months = months_of(choices, np.random.default_rng(0))
        planned = ImplicitCompletion(delta=DELTA, shape=choices.shape)
        each = {k: epsilon_per_release(EPSILON, DELTA, k, planned) for k in PLANS}
        found = [
            np.mean(
                [
                    recalls_of(choices, months, plan, each[plan], seed)
                    for seed in range(arguments.fits)
                ]
            )
            for plan in PLANS
        ]
        print(f"{name:28}" + "".join(f"{recall:8.3f}" for recall in found), flush=True)
    print(f"{'epsilon of a fit':28}" + "".join(f"{each[plan]:8.2f}" for plan in PLANS))


if __name__ == "__main__":
    main()
