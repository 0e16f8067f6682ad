"""Compiled draws of items for users, one after the other.

Importing this imports numba. The draws take uniform numbers and return items, as a
function of their arguments.
"""

import numpy as np
from numpy.typing import NDArray

from . import compiled


@compiled
def draw_items(
    starts: NDArray[np.int64],
    uniforms: NDArray[np.float64],
    weights: NDArray[np.float64],
    cumulative: NDArray[np.float64],
    place: NDArray[np.int32],
    head: NDArray[np.int32],
    factors: NDArray[np.float32],
    similarity: NDArray[np.float32],
    by_weight: float,
    worth: NDArray[np.float64],
    items: NDArray[np.int32],
    of_head: NDArray[np.float64],
    of_all: NDArray[np.float64],
) -> float:
    """Draw distinct items for every user, and sum their chances if requested.

    The chance of the next item is in proportion to its factor times the cube of the sum
    of its similarities to the items before it, if that sum is positive. With
    probability `by_weight`, and always if no such item exists, it is drawn by weight
    instead.

    Parameters
    ----------
    starts : ndarray of shape (n_users + 1,)
        The items of user u are items[starts[u]:starts[u + 1]], at most `n_items`.
    uniforms : ndarray of shape (n_drawn, 2)
        Numbers in [0, 1).
    weights : ndarray of shape (n_items,)
        Positive.
    cumulative : ndarray of shape (n_items,)
        Sums of the weights up to each item.
    place : ndarray of shape (n_items,)
        Row of each item in `similarity`; -1 if it has none.
    head : ndarray of shape (m,)
        Items of the rows.
    factors : ndarray of shape (m,)
    similarity : ndarray of shape (m, m)
    by_weight : float
    worth : ndarray of shape (n_users,)
        How much each item of a user counts.
    items : ndarray of shape (n_drawn,)
        Written.
    of_head : ndarray of shape (m,)
        Chances of draws by similarity, times worth, are added.
    of_all : ndarray of shape (n_items,) or (0,)
        Chances of draws by weight are added, without the common part. If it is empty,
        no chances are summed.

    Returns
    -------
    common : float
        The common part of the chances of draws by weight, per unit of an item's weight.
    """
    m, n_items, n_users = head.size, weights.size, starts.size - 1
    sums, chances = np.empty(m, np.float32), np.empty(m, np.float32)
    longest = 1
    for u in range(n_users):
        longest = max(longest, starts[u + 1] - starts[u])
    # The items so far, ascending, and the common part when each was drawn.
    taken, until = np.empty(longest, np.int32), np.empty(longest)
    everything, common = cumulative[n_items - 1], 0.0
    for u in range(n_users):
        first, last = starts[u], starts[u + 1]
        for i in range(m):
            sums[i] = 0.0
        free, so_far, counts = everything, 0.0, of_all.size > 0
        for t in range(first, last):
            n_taken, pick, chance = t - first, -1, 1.0
            follows = t > first and uniforms[t, 0] >= by_weight
            if m > 0 and t > first and (follows or counts):
                total = np.float32(0.0)
                for i in range(m):
                    above = max(sums[i], np.float32(0.0))
                    chances[i] = factors[i] * above * above * above
                    total += chances[i]
                if total > 0.0:
                    chance = by_weight
                    if counts:
                        unit = np.float32((1.0 - by_weight) * worth[u] / total)
                        for i in range(m):
                            of_head[i] += unit * chances[i]
                    if follows:
                        left = np.float32(uniforms[t, 1]) * total
                        for i in range(m):
                            if chances[i] > 0.0:
                                pick = head[i]
                                left -= chances[i]
                                if left < 0.0:
                                    break
            so_far += chance * worth[u] / max(free, 1e-300)
            if pick < 0:
                # The position in the remaining cumulative weights, then in all of them.
                at = uniforms[t, 1] * free
                for k in range(n_taken):
                    item = taken[k]
                    if at >= cumulative[item] - weights[item]:
                        at += weights[item]
                pick = min(np.searchsorted(cumulative, at, side="right"), n_items - 1)
                # Because of rounding, take the next free item.
                is_taken = True
                while is_taken:
                    is_taken = False
                    for k in range(n_taken):
                        is_taken = is_taken or taken[k] == pick
                    if is_taken:
                        pick = (pick + 1) % n_items
            items[t] = pick
            free -= weights[pick]
            k = n_taken
            while k > 0 and taken[k - 1] > pick:
                taken[k], until[k] = taken[k - 1], until[k - 1]
                k -= 1
            taken[k], until[k] = pick, so_far
            row = place[pick]
            if row >= 0 and t + 1 < last:
                for i in range(m):
                    sums[i] += similarity[row, i]
                sums[row] = -np.inf
        common += so_far
        if counts:
            for k in range(last - first):
                of_all[taken[k]] -= weights[taken[k]] * (so_far - until[k])
    return common
