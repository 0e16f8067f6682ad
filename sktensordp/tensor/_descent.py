"""The published fit of a CP or a Tucker: stochastic gradient descent by entries."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._cp import CPForm
from ._tucker import TuckerForm

__all__ = ["descend"]

# Values of a model are sums of products of its blocks: beyond this size of a product
# they overflow in single precision, as soon as there are many terms.
_LARGEST = 1e30


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
        Where to start: the blocks of the form.
    rate, ridge : float
        Of the descent, and of the squared norms of the rows that an entry meets.
    n_passes : int
        Over all entries, in their order.
    clip : float, default=1.0
        Largest norm of the gradients of the rows of the last mode.
    noise : callable, default=None
        Maps the number of a pass to what is added to these gradients, an array of shape
        (n, rank of the last mode). Without it they are not clipped either.
    on_pass : callable, default=None
        Called after every pass with its number; true ends the descent.
    form : CPForm or TuckerForm, default=None
        A CP by default.
    core_ridge : float, default=0.0
        Of the squared norm of a Tucker's core.

    Returns
    -------
    factors : list of ndarray of shape (n_rows, n_columns)
        After the last pass before the descent diverged.
    n_passes : int
        How many passes that were.
    """
    state = _State(coordinates, factors, form)
    values = np.asarray(values, dtype=float)
    nothing = np.empty((0, factors[coordinates.shape[1] - 1].shape[1]))
    for n_done in range(n_passes):
        before = state.blocks()
        drawn = nothing if noise is None else noise(n_done)
        state.descend(values, rate, ridge, core_ridge, clip, drawn)
        after = state.blocks()
        if _has_diverged(after):
            return before, n_done
        if on_pass is not None and on_pass(n_done):
            return after, n_done + 1
    return state.blocks(), n_passes


def _has_diverged(blocks: list[NDArray[np.float64]]) -> bool:
    """Whether values of the model could overflow."""
    sizes = [np.abs(block).max(initial=0.0) for block in blocks]
    return not np.sum(np.log(np.maximum(sizes, 1.0))) < np.log(_LARGEST)


class _State:
    """Blocks as the kernels have them: rows of all modes in one array, and a core."""

    def __init__(
        self,
        coordinates: NDArray[np.integer],
        factors: Sequence[NDArray[np.float64]],
        form: CPForm | TuckerForm | None,
    ) -> None:
        n_modes = coordinates.shape[1]
        own = factors[:n_modes]
        ends = np.cumsum([0, *(len(factor) for factor in own)])
        self._rows = coordinates + ends[:-1]
        self._parts = [slice(*pair) for pair in pairwise(ends.tolist())]
        self._ranks = np.array([factor.shape[1] for factor in own])
        self._stacked = np.zeros((ends[-1], max(self._ranks)))
        for part, factor in zip(self._parts, own, strict=True):
            self._stacked[part, : factor.shape[1]] = factor
        self._core = self._cells = None
        if isinstance(form, TuckerForm):
            self._core = factors[-1].ravel().copy()
            self._cells = np.argwhere(np.ones(form.ranks))

    def blocks(self) -> list[NDArray[np.float64]]:
        """A copy of the blocks."""
        found = [
            self._stacked[part, :rank].copy()
            for part, rank in zip(self._parts, self._ranks, strict=True)
        ]
        return found if self._core is None else [*found, self._core[np.newaxis].copy()]

    def descend(
        self,
        values: NDArray[np.floating],
        rate: float,
        ridge: float,
        core_ridge: float,
        clip: float,
        noise: NDArray[np.floating],
    ) -> None:
        """One pass; see `sgd_pass` and `sgd_tucker_pass`."""
        if self._core is None:
            from .kernels._cp import sgd_pass

            sgd_pass(self._rows, values, self._stacked, rate, ridge, clip, noise)
            return
        from .kernels._tucker import sgd_tucker_pass

        sgd_tucker_pass(
            self._rows, values, self._stacked, self._ranks, self._core, self._cells,
            rate, ridge, core_ridge, clip, noise,
        )  # fmt: skip
