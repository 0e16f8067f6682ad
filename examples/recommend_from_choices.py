"""
Recommend from choices with whole users protected
=================================================

A shop knows who bought what, but not whether they liked it. It wants to recommend items
from these choices, and nobody may learn what a customer bought: neither other customers
nor whoever gets the model. This example measures how good the recommendations are at
several epsilons.
"""

# %%
# The model
# ---------
# Fit it to pairs of a user and an item. The numbers of possible users and items are
# public and declared. Users learn from each other, so more users make privacy cheaper.
# The seed makes the numbers repeatable; leave it out for a real release.

# sphinx_gallery_thumbnail_path = "images/thumbnails/recommend_from_choices.png"
from sktensordp.completion import ImplicitCompletion
from sktensordp.datasets import make_choices

choices = make_choices(2000, 1000, 80_000, random_state=0)
X, shape = choices.data, choices.shape
model = ImplicitCompletion(epsilon=4.0, delta=1e-5, shape=shape, random_state=0).fit(X)
print(f"items for user 0: {model.recommend(0, k=5).tolist()}")
print(model.privacy_guarantee_)

# %%
# The score
# ---------
# A fifth of each user's items is held out, unless there is a file of choices to find.
# The model recommends items that the user has not chosen, and Recall@20 is the share of
# the items to find among the first 20. Only users of whom the model knows a choice
# count.

from sktensordp.completion import make_ranking_scorer
from sktensordp.model_selection import ItemHoldout

from types import SimpleNamespace

import numpy as np

options = SimpleNamespace(
    epsilons=[0.5, 1, 2, 4, 8, 16],
    delta=1e-5,
    k=20,
    splits=1,
    fits=1,
    random_state=None,
)
# sphinx_gallery_start_ignore
import argparse
import csv
import sys

parser = argparse.ArgumentParser(
    description="Recommend from choices with whole users protected.",
    allow_abbrev=False,
)
parser.add_argument("--choices", metavar="FILE", help="your choices (csv)")
parser.add_argument("--test", metavar="FILE", help="choices to find (csv)")
parser.add_argument("--users", type=int, help="synthetic users")
parser.add_argument("--delta", type=float)
parser.add_argument("--epsilons", nargs="+", type=float)
parser.add_argument("--splits", type=int, help="splits to average")
parser.add_argument("--fits", type=int, help="fits of a split to average")
parser.add_argument("--k", type=int, help="items to recommend")
parser.add_argument("--random-state", type=int, help="seed of the noise, for tests")
parser.add_argument("--output", metavar="FILE", help="save the picture here")
parser.add_argument("--table", metavar="FILE", help="save all scores here (csv)")
parser.set_defaults(**vars(options))
options, others = parser.parse_known_args()
if others and "kernel" not in sys.argv[0]:  # a notebook has arguments of its own
    parser.error(f"unknown arguments: {' '.join(others)}")
if options.test and not options.choices:
    parser.error("--test needs --choices.")


def pairs_of(file):
    """Return the ids of users and items."""
    return np.loadtxt(
        file, delimiter=",", skiprows=1, usecols=(0, 1), dtype=str, quotechar='"'
    )


if options.users is not None:
    n_users = options.users
    choices = make_choices(
        n_users, max(n_users // 2, 100), 40 * n_users, random_state=0
    )
    X, shape = choices.data, choices.shape
if options.choices is not None:
    table = pairs_of(options.choices)
    n_known = len(table)
    if options.test:
        table = np.concatenate([table, pairs_of(options.test)])
    users, user_of = np.unique(table[:, 0], return_inverse=True)
    items, item_of = np.unique(table[:, 1], return_inverse=True)
    X, shape = np.column_stack([user_of, item_of]), (len(users), len(items))
# sphinx_gallery_end_ignore
scorer = make_ranking_scorer("recall", k=options.k, fold_in_fraction=0)
holdout = ItemHoldout(0.2, n_splits=options.splits, random_state=0)
splits = [(X[train], X[test]) for train, test in holdout.split(X)]
# sphinx_gallery_start_ignore
if options.test:
    splits = [(X[:n_known], X[n_known:])]
# sphinx_gallery_end_ignore
splits = [(train, test[np.isin(test[:, 0], train[:, 0])]) for train, test in splits]
print(f"{len(X):,} choices of {shape[1]:,} items by {shape[0]:,} users")


def recalls_of(method, epsilon):
    """Return the recalls of all fits, and the model of the last one."""
    recalls = []
    for train, test in splits:
        for fit in range(options.fits if np.isfinite(epsilon) else 1):
            seed = options.random_state
            model = method(epsilon, seed if seed is None else seed + fit).fit(train)
            recalls.append(scorer(model, test))
    return recalls, model


# %%
# The methods
# -----------
# :class:`~sktensordp.completion.ImplicitCompletion` releases noisy counts of the items.
# From these it decides how many of them have co-occurrences that stand out from the
# noise, and releases noisy co-occurrences of these items only. If they are too few, it
# spends the rest of its budget on counts and recommends popular items.
#
# The simplest private recommender is the baseline: the most popular items for
# everybody, by noisy counts that get the whole budget. That is the same class with
# ``max_items=0``.


def completion(epsilon, seed, **max_items):
    """Return a recommender for the declared users and items."""
    return ImplicitCompletion(
        epsilon=epsilon,
        delta=options.delta,
        shape=shape,
        random_state=seed,
        **max_items,
    )


def popularity(epsilon, seed):
    """Return a recommender of popular items."""
    return completion(epsilon, seed, max_items=0)


methods = {"ImplicitCompletion": completion, "popularity": popularity}

# %%
# What privacy costs
# ------------------
# The column "items" shows of how many items co-occurrences were released, in the last
# fit.

references, scores = {}, {}
for name, method in methods.items():
    without_noise, _ = recalls_of(method, np.inf)
    scores[f"{name}, no noise", "inf"] = without_noise
    references[f"{name}, no noise"] = np.mean(without_noise)

print(
    f"Recall@{options.k}, mean of {len(splits)} split(s), {options.fits} fit(s) each\n"
)
for name, recall in references.items():
    print(f"{name:32}{recall:8.3f}")

recalls = {name: [] for name in methods}
names = f"{'ImplicitCompletion':>18}{'items':>8}{'popularity':>12}"
print(f"\n{'epsilon of one user':22}{names}")
for epsilon in options.epsilons:
    popular, _ = recalls_of(popularity, epsilon)
    private, model = recalls_of(completion, epsilon)
    recalls["popularity"].append(popular)
    recalls["ImplicitCompletion"].append(private)
    print(
        f"{epsilon:<22g}{np.mean(private):18.3f}{len(model.items_):8d}"
        f"{np.mean(popular):12.3f}"
    )
# sphinx_gallery_start_ignore
if options.table is not None:
    for name, values in recalls.items():
        names = [(name, f"{epsilon:g}") for epsilon in options.epsilons]
        scores.update(zip(names, values, strict=True))
    with open(options.table, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["measure", "method", "epsilon", "seed", "score"])
        for method, values in scores.items():
            for seed, recall in enumerate(values):
                rows.writerow([f"Recall@{options.k}", *method, seed, recall])
# sphinx_gallery_end_ignore

# %%
# On the synthetic choices, the model is hardly better than popularity at the smallest
# epsilon. From epsilon 1 on it learns which items go together. The larger epsilon is,
# the more items take part. At the largest epsilons it even passes the model without
# noise, which lets all items take part, however rarely chosen.

from sktensordp.plotting import PrivacyUtilityDisplay

import matplotlib.pyplot as plt

curves = {
    name: (
        options.epsilons,
        np.mean(values, axis=1),
        np.std(values, axis=1) if len(values[0]) > 1 else None,
    )
    for name, values in recalls.items()
}
lines = {
    "no noise, every item takes part": references["ImplicitCompletion, no noise"],
    "popularity, no noise": references["popularity, no noise"],
}
figure, axes = plt.subplots(figsize=(6.4, 5.2), layout="constrained")
PrivacyUtilityDisplay(
    curves, references=lines, score_name=f"Recall@{options.k} of held-out choices"
).plot(ax=axes)
axes.set(title="What does protecting whole users cost?", xlabel="epsilon of one user")
axes.get_legend().remove()
figure.legend(loc="outside lower center", ncols=2)
# sphinx_gallery_start_ignore
if options.output is not None:
    figure.savefig(options.output, dpi=150)
    plt.close(figure)
    print(f"Picture: {options.output}")
# sphinx_gallery_end_ignore
plt.show()

# %%
# Recommendations
# ---------------
# A user's recommendations come from the releases and from the user's own choices. An
# unknown user, -1, gets the most popular items.

user = int(X[0, 0])
print(f"\nUser {user}: {model.recommend(user, 5).tolist()}")
print(f"unknown user: {model.recommend(-1, 5).tolist()}")

# %%
# What is guaranteed
# ------------------
# Here is the statement of the last fit. It covers everything that other people learn
# from the model. A user's own choices stay in this process. Show the recommendations
# that use them to that user only. The recalls come from raw held-out choices, so do not
# publish them with the model.

import textwrap

print(f"\n{textwrap.fill(str(model.privacy_guarantee_), 88)}")

# %%
# With your own choices
# ---------------------
# The script, which you can download below, is also a command:
#
# .. code-block:: bash
#
#     python recommend_from_choices.py --choices FILE [--test FILE]
#
# A file is comma-separated: one header line, then user and item; further columns are
# ignored. The second file has choices to find; without it, some choices of the first
# are held out. The users and the items in them are treated as public catalogues.
