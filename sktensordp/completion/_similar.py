"""Which items are similar: those that the same people like, by the released model.

Two items are as similar as their predictions are correlated over people. A prediction
is linear in a person's row. So the covariance of two items is that of people's
regressors, between the rows of the two items. Terms that all items share, such as the
biases of people, are left out. All other modes are at their average rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from ..tensor import Rows
from ._ranking import best_of

# Number of items whose similarities to all others are in memory at once.
_N_ASKED = 256


def item_vectors(
    model: Rows, mode: int, average: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Vectors whose products are the similarities of items, between -1 and 1.

    Parameters
    ----------
    model : Rows
        Its first mode holds people, or directions in which they differ.
    mode : int
        The mode of the items.
    average : ndarray of shape (n_columns,)
        The row of the average person.

    Returns
    -------
    vectors : ndarray of shape (n_items, n)
        Zero for an item of which nothing is known.
    """
    people = np.concatenate([model.means[0], average[np.newaxis]])
    unknown = np.full(len(people), -1)
    others = [model.rows_at(other, unknown) for other in range(1, model.n_modes)]
    regressors = model.regressors(mode, [people, *others]).astype(float)
    differences = regressors[:-1] - regressors[-1]
    own = ~model.fixed[mode]
    if mode == 1:
        own[model.of_features] = True
    spread = differences[:, own].T @ differences[:, own]
    variances, directions = eigh(spread)
    rows = model.means[mode][:, own].astype(float)
    rows = rows @ (directions * np.sqrt(np.maximum(variances, 0.0)))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    vectors = np.zeros((model.shape[mode], rows.shape[1]))
    vectors[model.used[mode]] = rows / np.where(lengths > 0, lengths, 1.0)
    return vectors


def similar_to(
    items: NDArray[np.integer], vectors: NDArray[np.float64], k: int
) -> NDArray[np.int64]:
    """The k other items with the largest similarities to each item, best first.

    -1, if fewer have a positive one.
    """
    best = np.full((len(items), k), -1, dtype=np.int64)
    for start in range(0, len(items), _N_ASKED):
        asked = items[start : start + _N_ASKED]
        scores: Any = vectors[asked] @ vectors.T
        scores[np.arange(len(asked)), asked] = 0.0
        # Of an unknown item, nothing is known.
        scores[(scores <= 0) | (asked < 0)[:, np.newaxis]] = -np.inf
        best[start : start + _N_ASKED] = best_of(scores, k)
    return best
