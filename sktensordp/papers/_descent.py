"""The published fit of a CP or Tucker model: stochastic gradient descent."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tensor import CPForm, TuckerForm

# The values of a model are sums of products of elements, one from each block. If such a
# product may exceed this, a sum of many can overflow in single precision.
_LARGEST_PRODUCT = 1e30


def descend(
    coordinates: NDArray[np.integer],
    values: NDArray[np.floating],
    factors: Sequence[NDArray[np.float64]],
    *,
    rate: float,
    ridge: float,
    n_passes: int,
    clip: float = 1.0,
    noise: Callable[[int], NDArray[np.floating]] | None = None,
    on_pass: Callable[[int], Any] | None = None,
    form: CPForm | TuckerForm | None = None,
    core_ridge: float = 0.0,
) -> tuple[list[NDArray[np.float64]], int]:
    """Fit a decomposition to entries by stochastic gradient descent.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int
    values : ndarray of shape (n,)
    factors : list of ndarray of shape (n_rows, n_columns)
        The blocks of the form to start from.
    rate : float
        Step length of the descent.
    ridge : float
        Weight of the squared norms of an entry's rows in its cost.
    n_passes : int
        Number of passes over all entries, in their order.
    clip : float, default=1.0
        Largest norm of the gradients of the last mode's rows.
    noise : callable, default=None
        Maps the number of a pass to the noise added to the clipped gradients, an array
        of shape (n, rank of the last mode). Without noise, gradients are not clipped.
    on_pass : callable, default=None
        Called after every pass with its number; the descent ends if it returns true.
    form : CPForm or TuckerForm, default=None
        By default, a CP.
    core_ridge : float, default=0.0
        Weight of the squared norm of the Tucker core in the cost.

    Returns
    -------
    factors : list of ndarray of shape (n_rows, n_columns)
        The blocks after the last pass or, if the descent diverged, after the last pass
        before that.
    n_passes : int
        Number of passes up to then.
    """
    from ._descent_kernels import sgd_pass

    n_modes, is_tucker = coordinates.shape[1], isinstance(form, TuckerForm)
    ends = np.cumsum([0, *map(len, factors[:n_modes])])
    rows = [slice(*pair) for pair in pairwise(ends.tolist())]
    ranks = np.array([factor.shape[1] for factor in factors[:n_modes]])
    stacked = np.zeros((ends[-1], max(ranks)))
    for of_mode, factor in zip(rows, factors[:n_modes], strict=True):
        stacked[of_mode, : factor.shape[1]] = factor
    if isinstance(form, TuckerForm):
        core, cells = factors[-1].ravel().copy(), np.argwhere(np.ones(form.ranks))
    else:
        core = np.ones(ranks[0])
        cells = np.repeat(np.arange(ranks[0])[:, np.newaxis], n_modes, axis=1)

    def blocks() -> list[NDArray[np.float64]]:
        """A copy of the blocks."""
        found = [stacked[r, :rank].copy() for r, rank in zip(rows, ranks, strict=True)]
        return [*found, core[np.newaxis].copy()] if is_tucker else found

    values = np.asarray(values, dtype=float)
    of_rows, of_costs = coordinates + ends[:-1], (rate, ridge, core_ridge, clip)
    no_noise = np.empty((0, ranks[-1]))
    for n_done in range(n_passes):
        before = blocks()
        drawn = no_noise if noise is None else noise(n_done)
        sgd_pass(
            of_rows, values, stacked, ranks, core, cells, is_tucker, *of_costs, drawn
        )
        after = blocks()
        if _has_diverged(after):
            return before, n_done
        if on_pass is not None and on_pass(n_done):
            return after, n_done + 1
    return blocks(), n_passes


def _has_diverged(blocks: list[NDArray[np.float64]]) -> bool:
    """Whether the values of the model may overflow."""
    largest = [np.abs(block).max(initial=0.0) for block in blocks]
    return not np.sum(np.log(np.maximum(largest, 1.0))) < np.log(_LARGEST_PRODUCT)
