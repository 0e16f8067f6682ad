"""Rankings: the best columns of each row of scores, and how good they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Columns in a group, and from how many groups for each of the best columns on it is
# worthwhile to rank these first.
_GROUP, _MANY_GROUPS = 32, 4


def best_of(scores: NDArray[np.floating], k: int) -> NDArray[np.int64]:
    """Columns of the k largest scores of each row, best first.

    Of equal scores, that of the lower column comes first. -1 means that no score above
    minus infinity is left.
    """
    n_rows, n_columns = scores.shape
    n, rows = min(k, n_columns), np.arange(n_rows)[:, np.newaxis]
    columns = _best_columns(scores, n)
    largest = scores[rows, columns]
    order = np.argsort(-largest, axis=1, kind="stable")
    columns[largest == -np.inf] = -1
    if n == k:
        return columns[rows, order]
    best = np.full((n_rows, k), -1, dtype=np.int64)
    best[:, :n] = columns[rows, order]
    return best


def _best_columns(scores: NDArray[np.floating], n: int) -> NDArray[np.int64]:
    """The columns of `best_of` in ascending order; any others at minus infinity."""
    n_rows, n_columns = scores.shape
    n_groups = n_columns // _GROUP
    if n_groups > _MANY_GROUPS * n:
        # Every n_groups-th column is in one group. Vectors of its largest scores are
        # long, so this is fast.
        n_whole = n_groups * _GROUP
        whole = scores[:, :n_whole].reshape(n_rows, _GROUP, n_groups)
        largest = whole.max(axis=1)
        least = np.partition(largest, -n, axis=1)[:, -n, np.newaxis]
        groups = np.nonzero(largest >= least)[1]
        if len(groups) == n * n_rows:
            # Without ties, the n best scores are in n groups, or beyond all of them.
            inside = np.arange(0, n_whole, n_groups)[:, np.newaxis]
            columns = groups.reshape(n_rows, 1, n) + inside
            columns = columns.reshape(n_rows, -1)
            beyond = np.arange(n_whole, n_columns)
            if len(beyond):
                beyond = np.broadcast_to(beyond, (n_rows, len(beyond)))
                columns = np.concatenate([columns, beyond], axis=1)
            rows = np.arange(n_rows)[:, np.newaxis]
            return columns[rows, _first_best(scores[rows, columns], n)]
    return _first_best(scores, n)


def _first_best(scores: NDArray[np.floating], n: int) -> NDArray[np.int64]:
    """See `_best_columns`; of columns that are given in their order."""
    n_rows = len(scores)
    least = np.partition(scores, -n, axis=1)[:, -n, np.newaxis]
    rows, columns = np.nonzero(scores >= least)
    if len(rows) > n * n_rows:
        # Of those that equal the least, the first ones are kept.
        is_least = scores[rows, columns] == least[rows, 0]
        n_above = np.bincount(rows[~is_least], minlength=n_rows)
        place = np.cumsum(is_least)
        before = np.append(0, place)[np.searchsorted(rows, np.arange(n_rows))]
        columns = columns[~is_least | (place - before[rows] <= (n - n_above)[rows])]
    return columns.reshape(n_rows, n)


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
