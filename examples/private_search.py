"""What a search for rank and regularisation costs
===============================================

Two completions of the same ratings: Algorithm 1 of Wei, Li, Mao and Wang (2022), whose
regularisation is a parameter, and the default one, which learns it. Methods:

- ``GridSearchCV, naive``: 5 folds, every fit at the epsilon that is then claimed. A
  rating goes into 4 of 5 fits of every candidate, and into the last one; ``privacy_of``
  counts them. Scores and choice are computed from raw ratings: no epsilon covers them.
- ``GridSearchCV, divided``: the same, the total divided by the number of these fits.
- ``PrivateSearchCV``: tries and choice cost the total, with a last fit to all ratings
  or without (``"keep"``). What it costs depends on no value, so that the epsilon of one
  fit and of one score is found from `planned_guarantee`.
- ``no search``: rank 10, and the default regularisation, at the whole total.
- ``known beforehand``: the candidate that has the least error of all, as if it had been
  known. It shows what knowing is worth; nobody can release it.

Errors are those on ratings that no search sees. They are for this comparison alone: a
release must not state them, as they are computed from raw ratings. Noise and tries are
drawn afresh in every run.

`python examples/private_search.py --repeats 10 --epsilons 2 4 8 16` says: the naive
search claims 8 and spends 296 on Algorithm 1 (RMSE 0.960), and 104 on the default (RMSE
0.885), raw scores not counted. At what it claims, nothing is left: 37 fits that share
16 have an error of 2.56, and the global mean one of 1.046. The private search with
"keep" pays for Algorithm 1 at 8 (1.077, without a search 1.115) and at 16 (0.971 and
1.015). At 2 and 4 nothing is won beyond the spread: 1.96 and 1.40, without 1.97 and
1.43; up to 8 the mean is better than either. With the last fit it never pays (2.42,
1.60, 1.14 and 1.010). The default completion has little to find, and no search is worth
its cost: at 2, 4, 8 and 16, 0.954, 0.927, 0.891 and 0.888 without, and 0.997, 0.961,
0.929 and 0.904 with "keep" (with the last fit 0.896 at 16). Without a search it is
better at 2 than Algorithm 1 after a search at 16.
"""

import argparse
import time
import warnings
from collections import Counter
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold, ParameterGrid

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.plotting import PrivacyUtilityDisplay
from sktensordp.privacy import PrivacyReport, privacy_of

FOLDS = 5
GRIDS = {
    "Algorithm 1": {"rank": [1, 3, 10], "regularization": [0.01, 0.1, 0.4]},
    "default": {"rank": [0, 3, 10]},
}
SCORING = "neg_mean_squared_error"


@dataclass
class Outcome:
    """Of one method on one training set."""

    one_fit: float
    claimed: float
    report: PrivacyReport
    error: float
    params: dict
    diverged: bool


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ratings", metavar="FILE", help="your ratings (csv)")
    parser.add_argument(
        "--levels", nargs=3, type=float, default=[0.5, 5.0, 0.5],
        metavar=("LOW", "HIGH", "STEP"), help="public scale of the ratings",
    )  # fmt: skip
    parser.add_argument(
        "--epsilons", nargs="+", type=float, default=[4, 8, 16], help="totals"
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="random 80/20 splits to average"
    )
    parser.add_argument(
        "--tries", type=float, default=10, help="expected number, of a private search"
    )
    parser.add_argument(
        "--completions", nargs="+", choices=list(GRIDS), default=list(GRIDS)
    )
    parser.add_argument("--max-iter", type=int, default=25, help="of every fit")
    parser.add_argument("--output", default="private_search.png", metavar="PNG")
    return parser.parse_args()


def load(arguments):
    """Coordinates, ratings, levels and shape."""
    low, high, step = arguments.levels
    levels = np.linspace(low, high, round((high - low) / step) + 1)
    if arguments.ratings is None:
        ratings = make_ratings(150, 180, 6000, random_state=0, levels=levels)
        return ratings.data, ratings.target, levels, ratings.shape
    table = np.loadtxt(
        arguments.ratings, delimiter=",", skiprows=1, usecols=(0, 1, 2), dtype=str,
        quotechar='"',
    )  # fmt: skip
    encoder = CoordinateEncoder().fit(table[:, :2])
    X = encoder.transform(table[:, :2])
    return X, table[:, 2].astype(float), levels, encoder.shape_


def completion(name, levels, shape, max_iter):
    """What is searched, at the parameters that are taken without a search."""
    if name == "default":
        return CPCompletion(10, levels=levels, shape=shape, max_iter=max_iter)
    return CPCompletion(
        10, perturbation="input", calibration="published", shape=shape,
        value_bounds=(levels[0], levels[-1]), max_iter=max_iter,
    )  # fmt: skip


def private_search(model, grid, epsilon, refit, tries):
    # A score costs nothing on top up to the epsilon of a fit.
    return PrivateSearchCV(
        clone(model).set_params(epsilon=epsilon), grid, score_epsilon=epsilon,
        n_iter=tries, scoring=SCORING, refit=refit,
    )  # fmt: skip


def affordable(model, total, refit, tries):
    """Epsilon of one fit at which a private search costs the total."""
    anywhere = np.zeros((1, 2))
    # Not above the total, whatever is left of rounding.
    target = total * (1 - 2e-8)

    def excess(epsilon):
        search = private_search(model, {"rank": [1]}, epsilon, refit, tries)
        return search.planned_guarantee(anywhere).epsilon - target

    return brentq(excess, total / 4, total, xtol=1e-9)


def outcome(search, one_fit, claimed, test):
    """Of a search, or of a completion that was fitted without one."""
    model = getattr(search, "best_estimator_", search)
    X, y = test
    return Outcome(
        one_fit, claimed, privacy_of(search),
        root_mean_squared_error(y, model.predict(X)),
        getattr(search, "best_params_", {}),
        model.calibration == "published" and model.n_iter_ < model.max_iter,
    )  # fmt: skip


def compared(model, grid, total, affordable_by_refit, data, tries, seed):
    """Outcomes by method; those without a search, one a candidate, on their own."""
    train, test = data
    candidates = list(ParameterGrid(grid))
    n_fits = len(candidates) * (FOLDS - 1) + 1
    found = {}
    for name, epsilon in (("naive", total), ("divided", total / n_fits)):
        search = GridSearchCV(
            clone(model).set_params(epsilon=epsilon), grid, scoring=SCORING,
            cv=KFold(FOLDS, shuffle=True, random_state=seed),
        )  # fmt: skip
        name = f"GridSearchCV, {name}"
        found[name] = outcome(search.fit(*train), epsilon, total, test)
    for refit, epsilon in affordable_by_refit.items():
        search = private_search(model, grid, epsilon, refit, tries).fit(*train)
        claimed = search.privacy_guarantee_.epsilon
        name = "PrivateSearchCV" + (', "keep"' if refit == "keep" else "")
        found[name] = outcome(search, epsilon, claimed, test)
    alone = []
    for params in candidates:
        fitted = clone(model).set_params(epsilon=total, **params).fit(*train)
        alone.append(outcome(fitted, total, total, test))
        alone[-1].params = params
    return found, alone


def study(model, grid, data, arguments):
    """Outcomes by total and method, one a repetition."""
    results = {}
    for total in arguments.epsilons:
        by_refit = {
            refit: affordable(model, total, refit, arguments.tries)
            for refit in (True, "keep")
        }
        runs = [
            compared(model, grid, total, by_refit, each, arguments.tries, seed)
            for seed, each in enumerate(data)
        ]
        rows = {name: [found[name] for found, _ in runs] for name in runs[0][0]}
        alone = list(zip(*[outcomes for _, outcomes in runs], strict=True))
        known = model.get_params()
        rows["no search"] = next(
            each for each in alone if known.items() >= each[0].params.items()
        )
        rows["known beforehand"] = min(alone, key=mean_error)
        results[total] = rows
    return results


def mean_error(outcomes):
    return np.mean([each.error for each in outcomes])


def print_table(results):
    print(
        f"{'method':24}{'one fit':>9}{'claimed':>9}{'really':>12}{'':7}"
        f"{'RMSE':>6}{'':9}chosen (most often)"
    )
    for total, rows in results.items():
        print(f"total {total:g}")
        for name, outcomes in rows.items():
            first = outcomes[0]
            errors = [each.error for each in outcomes]
            raw = "+ raw" if name.startswith("Grid") else ""
            star = "*" if any(each.diverged for each in outcomes) else " "
            print(
                f"{name:24}{first.one_fit:9.4g}{first.claimed:9.7g}"
                f"{first.report.guarantee.epsilon:12.7g} {raw:6}"
                f"{np.mean(errors):6.3f}{star}±{np.std(errors):5.3f}  "
                f"{chosen(outcomes)}",
                flush=True,
            )


def chosen(outcomes):
    """Parameters chosen most often, and how often."""
    counts = Counter(
        ", ".join(f"{k} {v:g}" for k, v in sorted(each.params.items()))
        for each in outcomes
    )
    text, count = counts.most_common(1)[0]
    return f"{text} ({count}/{len(outcomes)})"


def print_guarantees(rows):
    for name in ("GridSearchCV, naive", 'PrivateSearchCV, "keep"'):
        report = rows[name][0].report
        print(f"- {name}: {report.guarantee}")
        for sentence in report.unprotected:
            print(f"    not protected: {sentence}")


def draw(axes, results, references):
    """Errors over what is really spent."""
    curves = {}
    for name in next(iter(results.values())):
        points = [
            (
                float(f"{rows[name][0].report.guarantee.epsilon:.6g}"),
                mean_error(rows[name]),
                np.std([each.error for each in rows[name]]),
            )
            for rows in results.values()
        ]
        label = name + (", and raw scores" if name.startswith("Grid") else "")
        curves[label] = tuple(zip(*points, strict=True))
    PrivacyUtilityDisplay(
        curves, references=references, score_name="RMSE of ratings held out"
    ).plot(ax=axes)
    axes.set_xlabel("epsilon really spent on one rating (more privacy to the left)")
    axes.get_legend().remove()


def main():
    arguments = read_arguments()
    start = time.perf_counter()
    X, y, levels, shape = load(arguments)
    masks = [
        np.random.default_rng(seed).random(len(y)) < 0.2
        for seed in range(arguments.repeats)
    ]
    data = [((X[~mask], y[~mask]), (X[mask], y[mask])) for mask in masks]
    mean = np.mean([np.sqrt(np.mean((y[m] - y[~m].mean()) ** 2)) for m in masks])
    print(
        f"{len(y):,} ratings; users x items are {shape}; RMSE of held-out ratings, "
        f"mean of {arguments.repeats} random 80/20 split(s); global mean: {mean:.3f}\n"
        f"+ raw: scores and choice are computed from raw ratings, and no epsilon "
        f"covers them"
    )
    names = arguments.completions
    figure, panels = plt.subplots(
        1, len(names), figsize=(6.5 * len(names), 5.5), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for axes, name in zip(panels[0], names, strict=True):
        grid = GRIDS[name]
        model = completion(name, levels, shape, arguments.max_iter)
        print(f"\n{name}: {len(ParameterGrid(grid))} candidates", flush=True)
        with warnings.catch_warnings():
            # The published descent may leave the range of numbers: a star says so.
            warnings.simplefilter("ignore", ConvergenceWarning)
            results = study(model, grid, data, arguments)
        print_table(results)
        print("What the last of them reveal:")
        print_guarantees(results[arguments.epsilons[-1]])
        draw(axes, results, {"global mean, no noise": mean})
        axes.set_title(f"{name}, searched over {' and '.join(grid)}")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    figure.savefig(arguments.output, dpi=150)
    print(f"\nPicture: {arguments.output} ({time.perf_counter() - start:.0f} s in all)")


if __name__ == "__main__":
    main()
