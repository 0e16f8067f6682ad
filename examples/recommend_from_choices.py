"""
Recommend from choices with whole users protected
=================================================

A shop knows who bought what, but not whether they liked it. It wants to recommend items
from these choices, and nobody may learn what a customer bought: neither other customers
nor whoever gets the model. This example measures how good the recommendations are at
several epsilons.

It runs as it is on synthetic choices. To use your own, run it from the command line:

.. code-block:: bash

    python examples/recommend_from_choices.py --choices FILE

FILE is comma-separated: one header line, then user and item; further columns are
ignored. The users and the items in it are treated as public catalogues.
"""

# %%
# Options and data
# ----------------
# The numbers of possible users and items are public and declared. Users learn from each
# other, so more users make privacy cheaper: try ``--users 10000``.

import argparse
import sys
import textwrap

import matplotlib.pyplot as plt
import numpy as np

from sktensordp.completion import ImplicitCompletion, make_ranking_scorer
from sktensordp.datasets import make_choices
from sktensordp.mechanisms import GaussianMechanism
from sktensordp.model_selection import ItemHoldout
from sktensordp.plotting import PrivacyUtilityDisplay

parser = argparse.ArgumentParser(
    description="Recommend from choices with whole users protected.",
    allow_abbrev=False,
)
parser.add_argument("--choices", metavar="FILE", help="your choices (csv)")
parser.add_argument("--users", type=int, default=2000, help="synthetic users")
parser.add_argument("--delta", type=float, default=1e-5)
parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1, 2, 4, 8, 16])
parser.add_argument("--splits", type=int, default=1, help="splits to average")
parser.add_argument("--k", type=int, default=20, help="items to recommend")
parser.add_argument("--random-state", type=int, help="seed of the noise, for tests")
parser.add_argument("--output", metavar="FILE", help="save the picture here")
options, others = parser.parse_known_args()
if others and "kernel" not in sys.argv[0]:  # a notebook has arguments of its own
    parser.error(f"unknown arguments: {' '.join(others)}")

if options.choices is None:
    n_users = options.users
    choices = make_choices(
        n_users, max(n_users // 2, 100), 40 * n_users, random_state=0
    )
    X, shape = choices.data, choices.shape
else:
    table = np.loadtxt(
        options.choices, delimiter=",", skiprows=1, usecols=(0, 1), dtype=str,
        quotechar='"',
    )  # fmt: skip
    users, user_of = np.unique(table[:, 0], return_inverse=True)
    items, item_of = np.unique(table[:, 1], return_inverse=True)
    X, shape = np.column_stack([user_of, item_of]), (len(users), len(items))
print(f"{len(X):,} choices of {shape[1]:,} items by {shape[0]:,} users")

# %%
# The score
# ---------
# A fifth of each user's items is held out. The model recommends items that the user has
# not chosen, and Recall@20 is the share of the held-out items among the first 20.

scorer = make_ranking_scorer("recall", k=options.k, history=0)
holdout = ItemHoldout(0.2, n_splits=options.splits, random_state=0)
splits = [(X[train], X[test]) for train, test in holdout.split(X)]


def recalls_of(method, epsilon):
    """Return the recall in every split, and the model of the last one."""
    recalls = []
    for train, test in splits:
        model = method(epsilon).fit(train)
        recalls.append(scorer(model, test))
    return recalls, model


# %%
# A baseline
# ----------
# The simplest private recommender releases noisy counts of the items and recommends the
# most popular ones to everybody. Each choice of a user with n choices weighs
# 1 / sqrt(n). So a user moves the vector of counts by a length of at most 1, the
# sensitivity.


class Popularity:
    """Recommend the items with the largest noisy counts."""

    def __init__(self, epsilon):
        self.mechanism = GaussianMechanism(
            epsilon, delta=options.delta, sensitivity=1.0,
            random_state=options.random_state,
        )  # fmt: skip

    def fit(self, X):
        """Release noisy counts, and keep each user's choices for that user."""
        weights = 1 / np.sqrt(np.bincount(X[:, 0], minlength=shape[0])[X[:, 0]])
        counts = np.bincount(X[:, 1], weights, minlength=shape[1])[np.newaxis]
        noisy = self.mechanism.fit(counts).transform(counts)[0]
        self.ranking = np.argsort(-noisy, kind="stable")
        self.chosen = [set() for _ in range(shape[0])]
        for user, item in X.tolist():
            self.chosen[user].add(item)
        return self

    def recommend(self, users, k):
        """Return the k most popular items that each user has not chosen."""
        recommended = np.full((len(users), k), -1)
        for row, user in zip(recommended, users.tolist(), strict=True):
            chosen = self.chosen[user]
            candidates = self.ranking[: k + len(chosen)].tolist()
            best = [item for item in candidates if item not in chosen][:k]
            row[: len(best)] = best
        return recommended


# %%
# What privacy costs
# ------------------
# :class:`~sktensordp.completion.ImplicitCompletion` also releases noisy counts. From
# these it decides which items have co-occurrences that stand out from the noise, and
# releases noisy co-occurrences of these items only. The column "items" shows how many
# they are. If they are too few, it spends the rest of its budget on counts and
# recommends popular items.


def completion(epsilon):
    """Return a recommender for the declared users and items."""
    return ImplicitCompletion(
        epsilon=epsilon, delta=options.delta, shape=shape,
        random_state=options.random_state,
    )  # fmt: skip


methods = {"ImplicitCompletion": completion, "popularity": Popularity}
references = {}
for name, method in methods.items():
    without_noise, _ = recalls_of(method, np.inf)
    references[f"{name}, no noise"] = np.mean(without_noise)

print(f"Recall@{options.k}, mean of {options.splits} split(s)\n")
for name, recall in references.items():
    print(f"{name:32}{recall:8.3f}")

recalls = {name: [] for name in methods}
names = f"{'ImplicitCompletion':>18}{'items':>8}{'popularity':>12}"
print(f"\n{'epsilon of one user':22}{names}")
for epsilon in options.epsilons:
    popular, _ = recalls_of(Popularity, epsilon)
    private, model = recalls_of(completion, epsilon)
    recalls["popularity"].append(popular)
    recalls["ImplicitCompletion"].append(private)
    print(
        f"{epsilon:<22g}{np.mean(private):18.3f}{len(model.items_):8d}"
        f"{np.mean(popular):12.3f}"
    )

# %%
# On the synthetic choices, the model falls back to popularity at the smallest epsilon,
# and loses hardly anything. From epsilon 1 on it learns which items go together. The
# larger epsilon is, the more items take part. At the largest epsilons it even passes
# the model without noise, which lets all items take part, however rarely chosen.

curves = {
    name: (
        options.epsilons,
        np.mean(values, axis=1),
        np.std(values, axis=1) if options.splits > 1 else None,
    )
    for name, values in recalls.items()
}
figure, axes = plt.subplots(figsize=(6.4, 5.2), layout="constrained")
PrivacyUtilityDisplay(
    curves, references=references, score_name=f"Recall@{options.k} of held-out choices"
).plot(ax=axes)
axes.set(title="What protecting whole users costs", xlabel="epsilon of one user")
axes.get_legend().remove()
figure.legend(loc="outside lower center", ncols=2)
if options.output is None:
    plt.show()
else:
    figure.savefig(options.output, dpi=150)
    print(f"Picture: {options.output}")

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

print(f"\n{textwrap.fill(str(model.privacy_guarantee_), 88)}")
