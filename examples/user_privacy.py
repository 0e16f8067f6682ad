"""
Complete ratings with whole users protected
===========================================

Protecting one rating is not enough for someone who has rated hundreds of films: what
they rated, and how, says more than any single rating. With ``unit=0`` the guarantee
covers everything about a user, including which films they rated and whether they are in
the data at all. This example measures what that costs in accuracy, for users in the fit
and for users who come later.
"""

# %%
# The model
# ---------
# The scale of the ratings, the catalogue of items and the number of users are public
# and declared. Users learn from each other, so more users make privacy cheaper. The
# seed makes the numbers repeatable; leave it out for a real release.

# sphinx_gallery_thumbnail_path = "images/thumbnails/user_privacy.png"
from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings

ratings = make_ratings(3000, 120, 150_000, random_state=0)
X, y, shape, levels = ratings.data, ratings.target, ratings.shape, ratings.levels
features = None
declared = {"levels": levels, "shape": shape}
model = CPCompletion(
    rank=5, unit=0, epsilon=4.0, delta=1e-5, random_state=0, **declared
)
model.fit(X, y)
print(model.privacy_guarantee_)

# %%
# Without privacy
# ---------------
# The user's own mean needs no budget: a user's own data may be used for that user, as
# long as nobody else sees the result. A private model must beat it to be of use.

from types import SimpleNamespace

import numpy as np
from sklearn.metrics import root_mean_squared_error

options = SimpleNamespace(
    epsilons=[0.5, 1, 2, 4, 8, 16], delta=1e-5, rank=5, splits=1, per_user=None,
    random_state=None,
)  # fmt: skip
# sphinx_gallery_start_ignore
import argparse
import csv
import sys

parser = argparse.ArgumentParser(
    description="Complete ratings with whole users protected.",
    allow_abbrev=False,
)
parser.add_argument("--ratings", metavar="FILE", help="your ratings (csv)")
parser.add_argument("--features", metavar="FILE", help="public features of items (csv)")
parser.add_argument(
    "--levels", nargs=3, type=float,
    metavar=("LOW", "HIGH", "STEP"), help="public scale of the ratings",
)  # fmt: skip
parser.add_argument("--users", type=int, help="synthetic users")
parser.add_argument("--rank", type=int, help="number of CP terms")
parser.add_argument("--delta", type=float)
parser.add_argument("--epsilons", nargs="+", type=float)
parser.add_argument("--splits", type=int, help="splits to average")
parser.add_argument(
    "--per-user", type=int, metavar="N",
    help="hold out N ratings of every user rather than a tenth of all",
)  # fmt: skip
parser.add_argument("--random-state", type=int, help="seed of the noise, for tests")
parser.add_argument("--output", metavar="FILE", help="save the picture here")
parser.add_argument("--table", metavar="FILE", help="save all scores here (csv)")
parser.set_defaults(**vars(options))
options, others = parser.parse_known_args()
if others and "kernel" not in sys.argv[0]:  # a notebook has arguments of its own
    parser.error(f"unknown arguments: {' '.join(others)}")


def read_csv(file, **params):
    """Return the rows of a comma-separated file below its header, as strings."""
    return np.loadtxt(
        file, delimiter=",", skiprows=1, dtype=str, quotechar='"', **params
    )


if options.users is not None:
    n_users = options.users
    ratings = make_ratings(
        n_users, max(n_users // 25, 100), 50 * n_users, random_state=0
    )
    X, y, shape = ratings.data, ratings.target, ratings.shape
if options.ratings is not None:
    table = read_csv(options.ratings, usecols=(0, 1, 2))
    users, user_of = np.unique(table[:, 0], return_inverse=True)
    items, item_of = np.unique(table[:, 1], return_inverse=True)
    X, y = np.column_stack([user_of, item_of]), table[:, 2].astype(float)
    shape = len(users), len(items)
    if options.features is not None:
        known = read_csv(options.features)
        features_of = {row[0]: row[1:].astype(float) for row in known}
        nothing = np.zeros(known.shape[1] - 1)
        features = np.array([features_of.get(item, nothing) for item in items])
        n_known = sum(item in features_of for item in items)
        print(f"features: of {n_known:,} of {len(items):,} items")
        if 2 * n_known < len(items):
            parser.error(
                f"{options.features} has no line for most items. Its first column must "
                f"hold ids as in {options.ratings}"
            )
if options.levels is not None:
    low, high, step = options.levels
    levels = np.linspace(low, high, round((high - low) / step) + 1)
# sphinx_gallery_end_ignore
low, high = min(levels), max(levels)
print(f"{len(y):,} ratings of {shape[1]:,} items by {shape[0]:,} users")


def held_out(seed):
    """Return which ratings a split holds out."""
    drawn = np.random.default_rng(seed).random(len(X))
    if options.per_user is None:
        return drawn < 0.1
    order = np.lexsort((drawn, X[:, 0]))
    users = X[order, 0]
    rank = np.arange(len(X)) - np.searchsorted(users, users)
    test = np.zeros(len(X), dtype=bool)
    test[order[rank < options.per_user]] = True
    return test


tests = [held_out(seed) for seed in range(options.splits)]


def held_out_errors(predict):
    """Return the RMSE of held-out ratings in every split: of all, and of rated items.

    The latter have ratings that are not held out.
    """
    errors, on_rated_items = [], []
    for test in tests:
        predicted = predict(X[~test], y[~test], X[test]).clip(low, high)
        errors.append(root_mean_squared_error(y[test], predicted))
        rated = np.isin(X[test, 1], X[~test, 1])
        on_rated_items.append(root_mean_squared_error(y[test][rated], predicted[rated]))
    return errors, on_rated_items


def completion(epsilon, rank=options.rank, **params):
    """Return a completion for the declared domain."""
    return CPCompletion(
        rank, epsilon=epsilon, delta=options.delta, levels=levels, shape=shape,
        random_state=options.random_state, **params,
    )  # fmt: skip


def errors_of(model):
    return held_out_errors(lambda X, y, asked: model.fit(X, y).predict(asked))


def global_mean(X, y, asked):
    return np.full(len(asked), y.mean())


def mean_of_mode(mode):
    """Return a prediction by means of rows, shrunk to the mean of all ratings."""

    def predict(X, y, asked):
        counts = np.bincount(X[:, mode], minlength=shape[mode])
        sums = np.bincount(X[:, mode], y - y.mean(), shape[mode])
        return (y.mean() + sums / (counts + 5))[asked[:, mode]]

    return predict


no_pattern = {"n_pattern_components": 0}
references = {
    "global mean": held_out_errors(global_mean)[0],
    "user's own mean, no budget": held_out_errors(mean_of_mode(0))[0],
    "item's mean, no noise": held_out_errors(mean_of_mode(1))[0],
    "biases, no noise": errors_of(completion(np.inf, rank=0, **no_pattern))[0],
    "CP with biases, no noise": errors_of(completion(np.inf, **no_pattern))[0],
}
print(f"RMSE of held-out ratings, mean of {options.splits} split(s)\n")
scores = {(name, "inf"): errors for name, errors in references.items()}
for name, errors in references.items():
    references[name] = np.mean(errors)
    print(f"{name:30}{references[name]:12.3f}")

# %%
# With every user protected
# -------------------------
# "sums" adds noise to each item's count and sum, which determine the items' biases
# only. "statistics" also releases noisy regressions, which determine factors. "auto"
# uses noisy counts to choose between the two. An infinite epsilon shows what the method
# would reach without noise. The last column is the error of "auto" on items that have
# ratings in the fit; of the others nothing is known.

methods = {
    "sums": {"rank": 0},
    "statistics": {"perturbation": "statistics"},
    "auto": {},
}
if features is not None:
    side_information = {"side_information": {1: features}}
    methods["sums, features"] = {"rank": 0, **side_information}
    methods["auto, features"] = side_information

errors = {name: [] for name in methods}
names = "".join(f"{name:>16}" for name in [*methods, "auto, rated"])
print(f"\n{'epsilon of one user':26}{names}")
for epsilon in [*options.epsilons, np.inf]:
    row = f"{epsilon:<26g}"
    for name, params in methods.items():
        model = completion(epsilon, unit=0, **params)
        found, on_rated_items = errors_of(model)
        scores[name, f"{epsilon:g}"] = found
        if name == "auto":
            scores["auto, rated", f"{epsilon:g}"] = on_rated_items
        row += f"{np.mean(found):16.3f}"
        if np.isfinite(epsilon):
            errors[name].append(found)
            guarantee = model.privacy_guarantee_
    print(f"{row}{np.mean(scores['auto, rated', f'{epsilon:g}']):16.3f}")
# sphinx_gallery_start_ignore
if options.table is not None:
    with open(options.table, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["measure", "method", "epsilon", "seed", "score"])
        for method, found in scores.items():
            for seed, error in enumerate(found):
                rows.writerow(["RMSE", *method, seed, error])
# sphinx_gallery_end_ignore

# %%
# Users who come later
# --------------------
# A tenth of the users are left out of the fit. When they arrive, their history is
# folded in: the model computes their rows from its released factors and their own
# ratings, at no further cost. Four fifths of a user's ratings are folded in, and the
# others predicted.

from sktensordp.completion import make_fold_in_scorer

new = X[:, 0] % 10 == 0
scorer = make_fold_in_scorer()
new_errors = []
print("\nRMSE for users who were not in the fit")
for epsilon in options.epsilons:
    model = completion(epsilon, unit=0).fit(X[~new], y[~new])
    new_errors.append(-scorer(model, X[new], y[new]))
    print(f"{epsilon:<26g}{new_errors[-1]:16.3f}")

# %%
# New users are served about as well as those in the fit. (The comparison is rough,
# because the errors are of other users and other ratings.) With few users the noise
# leaves the items' biases and little else; with many, the factors survive it from small
# epsilons on.

from sktensordp.plotting import PrivacyUtilityDisplay

import matplotlib.pyplot as plt

curves = {
    name: (
        options.epsilons,
        np.mean(found, axis=1),
        np.std(found, axis=1) if options.splits > 1 else None,
    )
    for name, found in errors.items()
}
curves["auto, new users"] = options.epsilons, new_errors, None
if features is not None:
    del curves["sums"], curves["statistics"]  # five curves are enough
shown = ["user's own mean, no budget", "CP with biases, no noise"]
references = {name: references[name] for name in shown}
figure, axes = plt.subplots(figsize=(6.4, 5.6), layout="constrained")
PrivacyUtilityDisplay(
    curves, references=references, score_name="RMSE of held-out ratings (stars)"
).plot(ax=axes)
axes.set(title="What does protecting whole users cost?", xlabel="epsilon of one user")
axes.get_legend().remove()
handles = axes.get_legend_handles_labels()[0]
handles = [*handles[len(references) :], *handles[: len(references)]]
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
# Here is the statement of the last private fit above. It covers everything that other
# people learn from the model. A user's own row is not for others: show it, and
# predictions made with it, to that user only. The errors come from raw held-out
# ratings, so do not publish them with the model.

import textwrap

print(f"\n{textwrap.fill(str(guarantee), 88)}")

# %%
# With your own ratings
# ---------------------
# The script, which you can download below, is also a command:
#
# .. code-block:: bash
#
#     python user_privacy.py --ratings FILE --levels 1 5 1
#
# FILE is comma-separated: one header line, then user, item and rating. The items in it
# are treated as a public catalogue, and the number of users as public. ``--features
# FILE`` adds public features of items: one header line, then the item's id and numbers.
# ``--users 50000`` makes more synthetic users.
