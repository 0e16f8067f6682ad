"""The best columns of each row of scores, in an order that every processor finds."""

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
