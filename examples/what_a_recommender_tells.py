"""
What does your recommender tell about a customer?
=================================================

A recommender learns from what customers chose, and shows what it learned to everybody.
This example audits two of them on the same data: alternating least squares (ALS), as
many shops run it, and :class:`~sktensordp.completion.ImplicitCompletion`, which is
differentially private. Each customer is left out with probability one half; an attacker
guesses who was in the data.
"""

# %%
# Audit a private recommender
# ---------------------------
# The attacker has an account for each of 400 customers, with all of the customer's
# items but one, and looks at what these accounts are recommended.

# sphinx_gallery_thumbnail_path = "images/thumbnails/what_a_recommender_tells.png"
from sktensordp.audit import audit_recommender
from sktensordp.completion import ImplicitCompletion
from sktensordp.datasets import make_choices

X = make_choices(1000, 3000, 60_000, random_state=0).data  # users and items
private = audit_recommender(ImplicitCompletion(epsilon=4.0), X, random_state=0)
print(private.in_words())

# %%
# Audit any other recommender
# ---------------------------
# A recommender of another library is a function. It gets rows of users and items, the
# rows of further accounts, and the numbers of users and items, and returns the scores
# of all items for each account. This one is ALS with confidence weights (Hu, Koren and
# Volinsky 2008).


import numpy as np
from scipy.sparse import csr_array


def solved(chosen, other, weight, penalty):
    """Rows of one side, given those of the other: a ridge regression each."""
    gram = other.T @ other + penalty * np.eye(other.shape[1])
    rows = np.zeros((chosen.shape[0], other.shape[1]))
    for row, start, end in zip(rows, chosen.indptr, chosen.indptr[1:], strict=False):
        own = other[chosen.indices[start:end]]
        row[:] = np.linalg.solve(
            gram + weight * own.T @ own, (1 + weight) * own.sum(axis=0)
        )
    return rows


def als(X, accounts, shape, n_factors=64, weight=7.0, penalty=15.0, n_sweeps=8):
    """Fit to X, then fold the accounts in; the start is random."""
    chosen = csr_array((np.ones(len(X)), X.T), shape=shape)
    items = np.random.default_rng().normal(scale=0.1, size=(shape[1], n_factors))
    for _ in range(n_sweeps):
        users = solved(chosen, items, weight, penalty)
        items = solved(csr_array(chosen.T), users, weight, penalty)
    known = csr_array((np.ones(len(accounts)), accounts.T), shape=shape)
    known = known[np.unique(accounts[:, 0])]
    return solved(known, items, weight, penalty) @ items.T


raw = audit_recommender(als, X, random_state=0)
print(raw.in_words())

# %%
# The insider knows all other customers besides. ``print(raw)`` shows both attackers,
# the claim, if there is one, and what an audit with so many customers can prove.

from sktensordp.plotting import GuessesDisplay

import matplotlib.pyplot as plt

GuessesDisplay({"ALS": raw, "ImplicitCompletion, epsilon 4": private}).plot()
plt.show()

# %%
# Both recommend about equally well
# ---------------------------------
# Some items of each customer are held out. The figure is the share of them that is
# among the first ten recommendations.


from sktensordp.model_selection import ItemHoldout


def recall(train, test, shape):
    """Recall@10 of both recommenders, on items that they have not seen."""
    users, places = np.unique(test[:, 0], return_inverse=True)
    history = train[np.isin(train[:, 0], users)]
    scores = als(train, history, shape)
    scores[np.searchsorted(users, history[:, 0]), history[:, 1]] = -np.inf
    lists = {"ALS": np.argsort(-scores, axis=1)[:, :10]}
    model = ImplicitCompletion(epsilon=4.0, shape=shape).fit(train)
    lists["ImplicitCompletion"] = model.recommend(users, k=10)
    sizes = np.bincount(places)
    found = {}
    for name, best in lists.items():
        hits = (best[places] == test[:, 1:]).any(axis=1)
        found[name] = np.mean(np.bincount(places, hits) / sizes)
    return found


shape = tuple(X.max(axis=0) + 1)
train, test = next(ItemHoldout(random_state=0).split(X))
for name, share in recall(X[train], X[test], shape).items():
    print(f"Recall@10 of {name}: {share:.3f}")
