"""Compiled stochastic gradient descent on a Tucker decomposition; see `_cp`."""

import numpy as np
from numpy.typing import NDArray

from ._cp import compiled, sgd_step

__all__ = ["sgd_tucker_pass"]


@compiled
def sgd_tucker_pass(
    rows: NDArray[np.integer],
    values: NDArray[np.float64],
    factors: NDArray[np.float64],
    ranks: NDArray[np.integer],
    core: NDArray[np.float64],
    cells: NDArray[np.integer],
    rate: float,
    ridge: float,
    core_ridge: float,
    clip: float,
    noise: NDArray[np.float64],
) -> None:
    """One pass of stochastic gradient descent over the entries, in their order.

    The cost of an entry is its squared error, and `ridge` times the squared norms of
    its rows, and `core_ridge` times that of the core. Its rows move one after the
    other, then the core, each along the gradient at where the others are by then.

    Parameters
    ----------
    rows : ndarray of shape (n, n_modes), int
        The rows of `factors` that each entry meets.
    values : ndarray of shape (n,), float64
    factors : ndarray of shape (n_rows, largest rank), float64
        Rows of all modes, as many columns as the rank of the mode; written.
    ranks : ndarray of shape (n_modes,), int
    core : ndarray of shape (n_cells,), float64
        Written.
    cells : ndarray of shape (n_cells, n_modes), int
        The column of every mode that a cell of the core multiplies.
    rate, ridge, core_ridge : float
    clip : float
        Largest norm of the gradients of the rows of the last mode.
    noise : ndarray of shape (n, rank of the last mode) or (0, ...), float64
        Added to those gradients; without rows, they are neither clipped nor noisy.
    """
    n_modes = rows.shape[1]
    regressors, products = np.empty(factors.shape[1]), np.empty(core.size)
    gradient = np.empty(max(factors.shape[1], core.size))
    nothing = noise[:0, 0]
    for e in range(values.size):
        for m in range(n_modes):
            regressors[:] = 0.0
            for c in range(core.size):
                product = core[c]
                for k in range(n_modes):
                    if k != m:
                        product *= factors[rows[e, k], cells[c, k]]
                regressors[cells[c, m]] += product
            drawn = nothing
            if m == n_modes - 1 and noise.shape[0] > 0:
                drawn = noise[e]
            own = factors[rows[e, m], : ranks[m]]
            sgd_step(own, regressors, values[e], rate, ridge, clip, drawn, gradient)
        for c in range(core.size):
            products[c] = 1.0
            for k in range(n_modes):
                products[c] *= factors[rows[e, k], cells[c, k]]
        sgd_step(core, products, values[e], rate, core_ridge, clip, nothing, gradient)
