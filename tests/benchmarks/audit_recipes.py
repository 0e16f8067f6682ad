"""Recommenders of other libraries, as functions that `audit_recommender` takes."""

import numpy as np
from scipy.sparse import csr_matrix


def matrix(X, shape):
    return csr_matrix((np.ones(len(X), dtype=np.float32), X.T), shape=shape)


def implicit_als(X, accounts, shape):
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(64, regularization=0.05, alpha=10, num_threads=1)
    model.fit(matrix(X, shape), show_progress=False)
    users = np.unique(accounts[:, 0])
    rows = model.recalculate_user(users, matrix(accounts, shape)[users])
    return rows @ model.item_factors.T


def implicit_lists(X, accounts, shape):
    from implicit.nearest_neighbours import CosineRecommender

    model = CosineRecommender(K=20, num_threads=1)
    model.fit(matrix(X, shape), show_progress=False)
    users = np.unique(accounts[:, 0])
    return model.recommend(users, matrix(accounts, shape)[users], N=100)[0]


def lenskit_knn(X, accounts, shape):
    import pandas as pd
    from lenskit import recommend
    from lenskit.data import ItemList, from_interactions_df
    from lenskit.knn import ItemKNNScorer
    from lenskit.pipeline import topn_pipeline

    model = topn_pipeline(ItemKNNScorer(max_nbrs=20, feedback="implicit"))
    model.train(from_interactions_df(pd.DataFrame(X, columns=["user_id", "item_id"])))
    known = accounts[np.isin(accounts[:, 1], X[:, 1])]
    known = [known[known[:, 0] == u, 1] for u in np.unique(accounts[:, 0])]
    return [recommend(model, ItemList(item_ids=k), n=100).ids() for k in known]


def surprise_svd(X, y, pairs):
    import pandas as pd
    from surprise import SVD, Dataset, Reader

    table = pd.DataFrame({"user": X[:, 0], "item": X[:, 1], "rating": y})
    data = Dataset.load_from_df(table, Reader(rating_scale=(y.min(), y.max())))
    model = SVD().fit(data.build_full_trainset())
    return [model.predict(*pair, clip=False).est for pair in pairs.tolist()]


def popularity(X, accounts, shape):
    counts = np.bincount(X[:, 1], minlength=shape[1]).astype(float)
    return np.tile(counts, (len(np.unique(accounts[:, 0])), 1))
