"""
Complete a ratings tensor privately
===================================

A table of 600 users and 2,000 films holds 60,000 ratings; its other cells are empty.
This example predicts the empty cells and protects each rating: epsilon limits what
anybody who sees the fitted model can learn about how a user rated a film. It measures
what that protection costs in accuracy, at several epsilons and for every method among
which `CPCompletion` chooses.
"""

# %%
# The model
# ---------
# Fit it to pairs of a user and an item, and their ratings. The scale of the ratings is
# public, so it is declared rather than read off the ratings. The seed makes the numbers
# repeatable; leave it out for a real release, or whoever knows it can subtract the
# noise.

# sphinx_gallery_thumbnail_path = "images/thumbnails/complete_ratings.png"
from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.datasets import make_ratings

from sklearn.pipeline import make_pipeline

ratings = make_ratings(random_state=0)
X, y, levels = ratings.data, ratings.target, ratings.levels
model = make_pipeline(
    CoordinateEncoder(), CPCompletion(epsilon=4.0, levels=levels, random_state=0)
)
model.fit(X, y)
print(model[-1].privacy_guarantee_)

# %%
# Without privacy
# ---------------
# Every model is fitted to nine tenths of the ratings and predicts the rest. The error
# is the root mean squared error (RMSE), in stars. The references show what there is to
# learn: users and items have biases, tastes add an interaction of low rank (CP), and
# the pattern of who rated what, which is public here, says something about tastes too.

from sktensordp.exceptions import AveragesOnlyWarning

import warnings
from types import SimpleNamespace

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.metrics import root_mean_squared_error

options = SimpleNamespace(
    epsilons=[0.5, 1, 2, 4, 8, 16], rank=10, splits=1, random_state=None
)
categories = shape = features = None
# sphinx_gallery_start_ignore
from sktensordp.datasets import read_ratings

import argparse
import csv
import sys
from pathlib import Path

from matplotlib.backend_bases import FigureCanvasBase

parser = argparse.ArgumentParser(
    description="Complete a ratings tensor privately.", allow_abbrev=False
)
parser.add_argument("--ratings", metavar="FILE", help="your ratings")
parser.add_argument(
    "--columns", nargs=3, metavar=("USER", "ITEM", "RATING"),
    help="their columns, by name or by position from 0",
)  # fmt: skip
parser.add_argument("--features", metavar="FILE", help="public features of items (csv)")
parser.add_argument(
    "--levels", nargs=3, type=float,
    metavar=("LOW", "HIGH", "STEP"), help="public scale of the ratings",
)  # fmt: skip
parser.add_argument("--rank", type=int, help="number of CP terms")
parser.add_argument("--epsilons", nargs="+", type=float)
parser.add_argument("--splits", type=int, help="90/10 splits to average")
parser.add_argument("--random-state", type=int, help="seed of the noise, for tests")
parser.add_argument("--output", metavar="FILE", help="save the picture here")
parser.add_argument("--table", metavar="FILE", help="save all scores here (csv)")
parser.set_defaults(**vars(options))
options, others = parser.parse_known_args()
if others and "kernel" not in sys.argv[0]:  # a notebook has arguments of its own
    parser.error(f"unknown arguments: {' '.join(others)}")
if options.splits < 1 or (options.rank or 0) < 0:
    parser.error("--splits must be at least 1, and --rank at least 0")
for name in (options.output, options.table):
    if name is not None and not Path(name).absolute().parent.is_dir():
        parser.error(f"there is no folder {Path(name).absolute().parent}")
suffix = Path(options.output or "").suffix[1:]
if suffix and suffix not in FigureCanvasBase.get_supported_filetypes():
    parser.error(f"--output: no picture can be stored as .{suffix}, but as .png")
if options.levels is not None:
    low, high, step = options.levels
    if not (high - low) * step > 0:
        parser.error("--levels LOW HIGH STEP needs a step from LOW to HIGH")
    levels = np.linspace(low, high, round((high - low) / step) + 1)
if options.ratings is not None:
    columns = options.columns and [
        int(column) if column.isdecimal() else column for column in options.columns
    ]
    try:
        ratings = read_ratings(options.ratings, columns=columns)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(f"{options.ratings}: {ratings.DESCR}")
    print("first row: " + ", ".join(str(value) for value in ratings.frame.iloc[0]))
    X = ratings.data.iloc[:, :2].astype(str).to_numpy(dtype="U")
    y = ratings.target.to_numpy()
    if options.levels is None:
        finder = CPCompletion(
            0, epsilon=min(options.epsilons), perturbation="sums",
            random_state=options.random_state,
        )  # fmt: skip
        try:
            found = make_pipeline(CoordinateEncoder(), finder).fit(X, y)[-1]
        except ValueError as error:
            parser.error(f"{error}\nDeclare your scale: --levels LOW HIGH STEP")
        levels = found.levels_ if found.levels_ is not None else found.value_bounds_
        print(f"scale: found within epsilon = {min(options.epsilons):g}: ", end="")
        print(" ".join(f"{level:g}" for level in levels))
    else:
        outside = (y < min(levels)) | (y > max(levels))
        between = ~outside & (abs(y - levels[:, np.newaxis]).min(axis=0) > 1e-9)
        if outside.any() or between.mean() > 0.1:
            parser.error(
                f"{outside.mean():.1%} of the ratings are outside of --levels, and "
                f"{between.mean():.1%} between them: they reach from {y.min():g} to "
                f"{y.max():g}. Declare the scale of this file with --levels LOW HIGH "
                "STEP, or leave --levels out."
            )
    if options.features is not None:
        try:
            known = np.loadtxt(
                options.features, delimiter=",", skiprows=1, dtype=str, quotechar='"',
                ndmin=2,
            )  # fmt: skip
            features_of = {row[0]: row[1:].astype(float) for row in known}
        except (OSError, ValueError) as error:
            parser.error(
                f"{options.features}: {error}\nIt needs a header line, then an item's "
                f"id and numbers in every line"
            )
        nothing = np.zeros(known.shape[1] - 1)
        categories = [np.unique(column) for column in X.T]
        shape = tuple(len(ids) for ids in categories)
        features = np.array([features_of.get(item, nothing) for item in categories[1]])
        n_known = sum(item in features_of for item in categories[1])
        print(f"features: of {n_known:,} of {len(categories[1]):,} items")
        if 2 * n_known < len(categories[1]):
            parser.error(
                f"{options.features} has no line for most items. Its first column must "
                f"hold ids as in {options.ratings}"
            )
# sphinx_gallery_end_ignore
low, high = min(levels), max(levels)
n_users, n_items = (len(np.unique(column)) for column in X.T)
print(f"{len(y):,} ratings of {n_items:,} items by {n_users:,} users")
tests = [
    np.random.default_rng(seed).random(len(y)) < 0.1 for seed in range(options.splits)
]


def completion(epsilon, rank=options.rank, **params):
    """Return a pipeline from raw ids to predictions."""
    seed = options.random_state
    return make_pipeline(
        CoordinateEncoder(categories=categories),
        CPCompletion(rank, epsilon=epsilon, shape=shape, random_state=seed, **params),
    )


def held_out_errors(model):
    """Return the RMSE of held-out ratings in every split: of all, and of rated items.

    The latter have ratings that are not held out.
    """
    errors, on_rated_items = [], []
    for test in tests:
        with warnings.catch_warnings():
            # The table shows what averages alone reach at small epsilons.
            warnings.simplefilter("ignore", AveragesOnlyWarning)
            model.fit(X[~test], y[~test])
        predicted = model.predict(X[test]).clip(low, high)
        errors.append(root_mean_squared_error(y[test], predicted))
        rated = np.isin(X[test, 1], X[~test, 1])
        on_rated_items.append(root_mean_squared_error(y[test][rated], predicted[rated]))
    return errors, on_rated_items


bounds = {"value_bounds": (low, high)}
models = {
    "global mean": DummyRegressor(),
    "biases": completion(np.inf, rank=0, n_pattern_components=0, **bounds),
    "CP and biases": completion(np.inf, n_pattern_components=0, **bounds),
    "CP, biases and pattern": completion(np.inf, **bounds),
}
print(f"RMSE of held-out ratings, mean of {options.splits} random 90/10 split(s)\n")
print("without privacy")
references, scores = {}, {}
for name, model in models.items():
    scores[name, "inf"], _ = held_out_errors(model)
    references[f"{name}, no noise"] = error = np.mean(scores[name, "inf"])
    print(f"{name:24}{error:15.3f}")

# %%
# With every rating protected
# ---------------------------
# There are four ways to add noise, and "auto" takes the one with the least expected
# error:
#
# - *optimal table*: every rating is replaced by a random number, drawn from a table of
#   probabilities that is made for the declared levels;
# - *declared range*: the same if only the ends of the scale are declared; every rating
#   is first rounded at random to a grid of points;
# - *sums*: noise on each user's and each item's sum of ratings, which determine biases
#   only;
# - *statistics*: noise on the sums, and on regressions that determine factors too.
#
# "auto" compares the expected errors before it reads any rating, so the choice is free.
#
# Nobody's ratings are a secret from themselves. *own ratings* is "auto" with
# ``personal=True``: the model answers each user from that user's raw ratings and what
# it released about the items. Show such answers to that user only; all that others see
# is as private as before.
#
# *auto, rated* is the error of "auto" on items that have ratings in the fit; of others
# nothing is known.

private = {
    "declared range": {"perturbation": "input", **bounds},
    "optimal table": {"perturbation": "input", "levels": levels},
    "sums": {"perturbation": "sums", "rank": None, "levels": levels},
    "statistics": {"perturbation": "statistics", "levels": levels},
    "own ratings": {"personal": True, "levels": levels},
    "auto": {"levels": levels},
}
if features is not None:
    genres = {"side_information": {1: features}, "levels": levels}
    private = {
        "auto, features": genres, "own, features": {"personal": True} | genres,
    } | private  # fmt: skip
# sphinx_gallery_start_ignore
if options.ratings is not None and options.levels is None:
    del private["declared range"]
    for params in private.values():
        params.pop("levels", None)  # each fit finds it
# sphinx_gallery_end_ignore
errors = {name: [] for name in [*private, "auto, rated"]}
guarantees = {}
names = "".join(f"{name:>15}" for name in errors)
print(f"\n{'epsilon of one rating':24}{names}   auto takes")
for epsilon in options.epsilons:
    row = f"{epsilon:<24g}"
    for name, params in private.items():
        model = completion(epsilon, **params)
        found, on_rated_items = held_out_errors(model)
        errors[name].append(found)
        row += f"{np.mean(found):15.3f}"
        guarantees[name] = model[-1].privacy_guarantee_
    errors["auto, rated"].append(on_rated_items)  # the last model is that of "auto"
    print(f"{row}{np.mean(on_rated_items):15.3f}   {model[-1].perturbation_}")
# sphinx_gallery_start_ignore
if options.table is not None:
    for name, found in errors.items():
        names = [(name, f"{epsilon:g}") for epsilon in options.epsilons]
        scores.update(zip(names, found, strict=True))
    with open(options.table, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["measure", "method", "epsilon", "seed", "score"])
        for method, found in scores.items():
            for seed, error in enumerate(found):
                rows.writerow(["RMSE", *method, seed, error])
# sphinx_gallery_end_ignore

# %%
# The picture shows the cost of privacy as the distance of a curve from the lowest grey
# line. At small epsilon noise on sums wins: a sum over many ratings hides each of them
# with little noise. At large epsilon noise on every rating wins, since it loses no
# detail. "auto" follows the lower of the two, and answers from own ratings are better
# still.

from sktensordp.plotting import PrivacyUtilityDisplay

import matplotlib.pyplot as plt

curves = {
    name: (
        options.epsilons,
        np.mean(found, axis=1),
        np.std(found, axis=1) if options.splits > 1 else None,
    )
    for name, found in errors.items()
    if name not in ("statistics", "auto, rated")
}
shown = ["CP, biases and pattern, no noise", "biases, no noise"]
figure, axes = plt.subplots(figsize=(6.4, 5.6), layout="constrained")
PrivacyUtilityDisplay(
    curves,
    references={name: references[name] for name in shown},
    score_name="RMSE of held-out ratings (stars)",
).plot(ax=axes)
axes.set(title="What does protecting each rating cost?", xlabel="epsilon of one rating")
axes.get_legend().remove()
handles = axes.get_legend_handles_labels()[0]
handles = [*handles[len(shown) :], *handles[: len(shown)]]
figure.legend(handles=handles, loc="outside lower center", ncols=2)
# sphinx_gallery_start_ignore
if options.output is not None:
    figure.savefig(options.output, dpi=150)
    plt.close(figure)
    print(f"Picture: {options.output}")
# sphinx_gallery_end_ignore
plt.show()

# %%
# What is guaranteed
# ------------------
# Every fitted model states its guarantee. These are the statements at the largest
# epsilon. Each holds for one published model; if you publish several, their epsilons
# add up. The errors above come from raw held-out ratings and are not covered, so do not
# publish them with the model.

import textwrap

print(f"\nWhat each fit guarantees at epsilon = {epsilon:g}:")
for name, guarantee in guarantees.items():
    statement = f"- {name}: {guarantee}"
    print(textwrap.fill(statement, 88, subsequent_indent="  "))

# %%
# With your own ratings
# ---------------------
# The script, which you can download below, is also a command:
#
# .. code-block:: bash
#
#     python complete_ratings.py --ratings FILE --levels 1 5 1 --output picture.png
#
# Each row of FILE has a user, an item and a rating: text with any separator, with a
# header or without, perhaps compressed, or Parquet. The command prints what it read
# and refuses what it cannot read, by the number of its line. If your columns have
# another order, say which to read: ``--columns userId movieId stars``. In your code,
# :func:`~sktensordp.datasets.read_ratings` reads the same files.
#
# ``--levels LOW HIGH STEP`` declares your scale. Without it, every fit finds the scale
# within its epsilon. ``--features FILE`` adds public features of items, such as genres
# and years of films: comma-separated, one header line, then the item's id and numbers.
# ``--help`` lists all options.
