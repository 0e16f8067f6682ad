"""
Hand out synthetic users
========================

A shop wants others to try recommenders on its choices: a contractor, students, or the
public in a competition. Nobody may learn what any one customer bought. So it hands out
synthetic users, drawn from a private model. This example trains a recommender of
another library on them, and recommends to the real users.

The recommender is ``implicit``'s alternating least squares if that is installed
(``pip install implicit``), and otherwise a truncated SVD of scikit-learn.
"""

# %%
# A private model, and a table that keeps its guarantee
# -----------------------------------------------------
# A fifth of the choices is held out, to test with. The number of synthetic users is the
# released one.

# sphinx_gallery_thumbnail_path = "images/thumbnails/synthetic_users.png"
from sktensordp.completion import ImplicitCompletion
from sktensordp.datasets import make_choices

import numpy as np

choices = make_choices(4000, 300, 60_000, random_state=0)
is_test = np.random.default_rng(0).random(len(choices.data)) < 0.2
model = ImplicitCompletion(epsilon=2.0, shape=choices.shape, random_state=0)
model.fit(choices.data[~is_test])
table = model.sample_users(random_state=0)
print(f"{len(table):,} choices of {table[-1, 0] + 1:,} synthetic users")
print(model.privacy_guarantee_)

# %%
# Another recommender
# -------------------
# It sees the synthetic table alone, and never learns that it is synthetic. Whoever has
# it scores items for a user from that user's own choices.


from scipy import sparse


def matrix_of(pairs, n_users):
    """Return the choices as a sparse matrix of ones."""
    shape = n_users, choices.shape[1]
    return sparse.csr_matrix((np.ones(len(pairs)), pairs.T), shape=shape)


def trained(matrix):
    """Return a function that scores items, given choices."""
    try:
        from implicit.als import AlternatingLeastSquares
    except ImportError:
        from sklearn.decomposition import TruncatedSVD

        svd = TruncatedSVD(16, random_state=0).fit(matrix)
        return lambda chosen: svd.inverse_transform(svd.transform(chosen))
    als = AlternatingLeastSquares(16, random_state=0)
    als.fit(matrix, show_progress=False)
    users = np.arange(choices.shape[0])
    return lambda chosen: als.recalculate_user(users, chosen) @ als.item_factors.T


# %%
# Recommend to real users
# -----------------------
# Recall@20 is the share of the held-out choices that are among the 20 best items.

real = matrix_of(choices.data[~is_test], choices.shape[0])
held_out = matrix_of(choices.data[is_test], choices.shape[0]).toarray()


def recall(score):
    """Return the mean recall of users with held-out choices."""
    scores = np.array(score(real), dtype=float)
    scores[real.nonzero()] = -np.inf
    best = np.argsort(-scores, axis=1)[:, :20]
    found = np.take_along_axis(held_out, best, axis=1).sum(axis=1)
    has_some = held_out.sum(axis=1) > 0
    return np.mean(found[has_some] / held_out.sum(axis=1)[has_some])


popularity = np.tile(np.bincount(table[:, 1], minlength=300), (choices.shape[0], 1))
print(f"popular items, synthetic users: {recall(lambda _: popularity):.3f}")
synthetic = matrix_of(table, table[-1, 0] + 1)
print(f"trained on synthetic users:     {recall(trained(synthetic)):.3f}")
print(f"trained on real users:          {recall(trained(real)):.3f}")
