"""The published fit of a CP or a Tucker: stochastic gradient descent over entries."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tensor import CPForm, TuckerForm

# The values of a model are sums of products of elements, one of each block. Where such
# a product may exceed this, a sum of many can overflow in single precision.
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
        The blocks after the last pass, or after the last one before the descent
        diverged.
    n_passes : int
        Number of passes that led there.
    """
    state = _State(coordinates, factors, form)
    values = np.asarray(values, dtype=float)
    no_noise = np.empty((0, factors[coordinates.shape[1] - 1].shape[1]))
    for n_done in range(n_passes):
        before = state.blocks()
        pass_noise = no_noise if noise is None else noise(n_done)
        state.move(values, rate, ridge, core_ridge, clip, pass_noise)
        after = state.blocks()
        if _has_diverged(after):
            return before, n_done
        if on_pass is not None and on_pass(n_done):
            return after, n_done + 1
    return state.blocks(), n_passes


def _has_diverged(blocks: list[NDArray[np.float64]]) -> bool:
    """Whether the values of the model may overflow."""
    largest = [np.abs(block).max(initial=0.0) for block in blocks]
    return not np.sum(np.log(np.maximum(largest, 1.0))) < np.log(_LARGEST_PRODUCT)


class _State:
    """The blocks as the kernels take them: stacked rows of all modes, and a core."""

    def __init__(
        self,
        coordinates: NDArray[np.integer],
        factors: Sequence[NDArray[np.float64]],
        form: CPForm | TuckerForm | None,
    ) -> None:
        n_modes = coordinates.shape[1]
        by_mode = factors[:n_modes]
        ends = np.cumsum([0, *(len(factor) for factor in by_mode)])
        self._rows = coordinates + ends[:-1]
        self._mode_rows = [slice(*pair) for pair in pairwise(ends.tolist())]
        self._ranks = np.array([factor.shape[1] for factor in by_mode])
        self._stacked = np.zeros((ends[-1], max(self._ranks)))
        for rows, factor in zip(self._mode_rows, by_mode, strict=True):
            self._stacked[rows, : factor.shape[1]] = factor
        self._core = self._cells = None
        if isinstance(form, TuckerForm):
            self._core = factors[-1].ravel().copy()
            self._cells = np.argwhere(np.ones(form.ranks))

    def blocks(self) -> list[NDArray[np.float64]]:
        """A copy of the blocks."""
        factors = [
            self._stacked[rows, :rank].copy()
            for rows, rank in zip(self._mode_rows, self._ranks, strict=True)
        ]
        if self._core is None:
            return factors
        return [*factors, self._core[np.newaxis].copy()]

    def move(
        self,
        values: NDArray[np.floating],
        rate: float,
        ridge: float,
        core_ridge: float,
        clip: float,
        noise: NDArray[np.floating],
    ) -> None:
        """Make one pass; see `sgd_pass` and `sgd_tucker_pass`."""
        if self._core is None:
            from ._descent_kernels import sgd_pass

            sgd_pass(self._rows, values, self._stacked, rate, ridge, clip, noise)
            return
        from ._descent_kernels import sgd_tucker_pass

        sgd_tucker_pass(
            self._rows,
            values,
            self._stacked,
            self._ranks,
            self._core,
            self._cells,
            rate,
            ridge,
            core_ridge,
            clip,
            noise,
        )
