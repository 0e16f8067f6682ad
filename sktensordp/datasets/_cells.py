"""Weighted random draws of distinct cells of a matrix."""

import numpy as np
from numpy.typing import NDArray

# Least length of a batch of draws, so that its share of new cells is a reliable
# estimate and the last few cells do not need a batch each.
_MIN_BATCH = 4096
# One draw takes about as long as visiting this many cells.
_COST_OF_DRAW = 4


def draw_cells(
    n_draws: int,
    user_weights: NDArray[np.float64],
    item_weights: NDArray[np.float64],
    rng: np.random.RandomState,
) -> NDArray[np.int64]:
    """Draw distinct cells one after another, given the logarithms of the weights.

    Drawing with replacement and skipping repeated cells is the same as drawing without
    replacement, as long as the first `n_draws` distinct cells are kept.
    """
    n_items = len(item_weights)
    n_cells = len(user_weights) * n_items
    user_p = np.exp(user_weights) / np.exp(user_weights).sum()
    item_p = np.exp(item_weights) / np.exp(item_weights).sum()
    cells = np.empty(0, dtype=np.int64)
    share_new = 1.0
    while (missing := n_draws - len(cells)) and (
        _COST_OF_DRAW * missing < share_new * n_cells
    ):
        n_batch = max(min(int(missing / share_new), n_draws), _MIN_BATCH)
        batch = rng.choice(len(user_p), n_batch, p=user_p) * n_items
        batch += rng.choice(n_items, n_batch, p=item_p)
        new, first_draw = np.unique(batch, return_index=True)
        is_new = np.append(cells, -1)[np.searchsorted(cells, new)] != new
        new, first_draw = new[is_new], first_draw[is_new]
        share_new = max(len(new), 1) / n_batch
        if len(new) > missing:
            new = new[np.argpartition(first_draw, missing - 1)[:missing]]
        # Both parts are sorted already, and the stable sort merges them quickly.
        cells = np.sort(np.concatenate([cells, new]), kind="stable")
    if missing:
        rest = _draw_other_cells(missing, cells, user_weights, item_weights, rng)
        cells = np.concatenate([cells, rest])
    rng.shuffle(cells)
    return cells


def _draw_other_cells(
    n_draws: int,
    taken: NDArray[np.int64],
    user_weights: NDArray[np.float64],
    item_weights: NDArray[np.float64],
    rng: np.random.RandomState,
) -> NDArray[np.int64]:
    """Draw distinct cells that are not in the sorted `taken`, in one pass over all.

    Adding a standard Gumbel variable to each log weight and keeping the cells with the
    largest sums is a weighted draw without replacement. Working in blocks of users
    keeps the memory proportional to `n_draws`.
    """
    n_users, n_items = len(user_weights), len(item_weights)
    n_rows = max(1, max(n_draws, _MIN_BATCH) // n_items)
    best_sums = np.empty(0)
    cells = np.empty(0, dtype=np.int64)
    for first in range(0, n_users, n_rows):
        rows = user_weights[first : first + n_rows]
        start, stop = first * n_items, (first + len(rows)) * n_items
        sums = rng.gumbel(size=(len(rows), n_items)) + item_weights + rows[:, None]
        sums = sums.ravel()
        low, high = np.searchsorted(taken, (start, stop))
        sums[taken[low:high] - start] = -np.inf
        best_sums = np.concatenate([best_sums, sums])
        cells = np.concatenate([cells, np.arange(start, stop)])
        if len(best_sums) > n_draws:
            # After a partition, their order would depend on the processor.
            kept = np.argsort(best_sums, kind="stable")[-n_draws:]
            best_sums, cells = best_sums[kept], cells[kept]
    return cells
