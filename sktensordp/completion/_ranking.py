"""Rankings: the best columns of each row of scores, and how good they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def best_of(scores: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Columns of the k largest scores of each row, best first.

    Of equal scores, that of the lower column comes first. -1 means that no score above
    minus infinity is left.
    """
    n = min(k, scores.shape[1])
    best = np.full((len(scores), k), -1, dtype=np.int64)
    least = np.partition(scores, -n, axis=1)[:, -n, np.newaxis]
    above, equal = scores > least, scores == least
    left = n - above.sum(axis=1, keepdims=True)
    above |= equal & (np.cumsum(equal, axis=1) <= left)
    columns = np.nonzero(above)[1].reshape(len(scores), n)
    largest = np.take_along_axis(scores, columns, axis=1)
    order = np.argsort(-largest, axis=1, kind="stable")
    columns = np.take_along_axis(columns, order, axis=1)
    largest = np.take_along_axis(largest, order, axis=1)
    best[:, :n] = np.where(np.isneginf(largest), -1, columns)
    return best


def ranking_scores(
    metric: str,
    recommended: NDArray[np.int64],
    users: NDArray[np.int64],
    pairs: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Score each user's recommendations.

    Parameters
    ----------
    metric : {"recall", "ndcg"}
    recommended : ndarray of shape (n_users, k)
        Items, best first; -1 where no item was left.
    users : ndarray of shape (n_users,)
        Users of the rows of `recommended`, ascending.
    pairs : ndarray of shape (n, 2)
        Distinct pairs of a user and an item to find, at least one for every user.

    Returns
    -------
    scores : ndarray of shape (n_users,)
    """
    n_items = 1 + max(int(pairs[:, 1].max()), int(recommended.max()))
    rows = np.searchsorted(users, pairs[:, 0])
    held_out_keys = rows * n_items + pairs[:, 1]
    keys = np.arange(len(users))[:, np.newaxis] * n_items + recommended
    hits = np.isin(keys, held_out_keys) & (recommended >= 0)
    sizes = np.bincount(rows, minlength=len(users))
    if metric == "recall":
        return hits.sum(axis=1) / sizes
    gains = 1 / np.log2(np.arange(2, recommended.shape[1] + 2))
    ideal = np.cumsum(gains)[np.minimum(sizes, len(gains)) - 1]
    return hits @ gains / ideal
