"""Compiled loops of the published descent."""

import numpy as np
from numpy.typing import NDArray

from ..tensor.kernels import compiled


@compiled
def sgd_step(
    row: NDArray[np.float64],
    regressors: NDArray[np.float64],
    value: float,
    rate: float,
    ridge: float,
    clip: float,
    noise: NDArray[np.float64],
    gradient: NDArray[np.float64],
) -> None:
    """Move a row against the gradient of (y - regressors . row)^2 + ridge ||row||^2.

    Parameters
    ----------
    row : ndarray of shape (rank,), float64
        Written.
    regressors : ndarray of shape (rank,), float64
    value, rate, ridge, clip : float
    noise : ndarray of shape (rank,) or (0,), float64
        Added to the clipped gradient. If it is empty, the gradient is not clipped.
    gradient : ndarray of shape (rank,), float64
        Written.
    """
    error = value
    for r in range(row.size):
        error -= regressors[r] * row[r]
    length = 0.0
    for r in range(row.size):
        gradient[r] = 2.0 * (ridge * row[r] - error * regressors[r])
        length += gradient[r] ** 2
    if noise.size > 0:
        shrink = 1.0 / max(1.0, np.sqrt(length) / clip)
        for r in range(row.size):
            gradient[r] = shrink * gradient[r] + noise[r]
    for r in range(row.size):
        row[r] -= rate * gradient[r]


@compiled
def sgd_pass(
    rows: NDArray[np.integer],
    values: NDArray[np.float64],
    factors: NDArray[np.float64],
    ranks: NDArray[np.integer],
    core: NDArray[np.float64],
    cells: NDArray[np.integer],
    moves_core: bool,
    rate: float,
    ridge: float,
    core_ridge: float,
    clip: float,
    noise: NDArray[np.float64],
) -> None:
    """One pass of stochastic gradient descent over the entries, in their order.

    The cost of an entry is its squared error, plus `ridge` times the squared norms of
    its rows, plus `core_ridge` times the squared norm of the core. First the entry's
    rows move, one after the other, then the core of a Tucker model. Each move uses the
    results of the moves before it. A CP is a Tucker model whose core of ones never
    moves.

    Parameters
    ----------
    rows : ndarray of shape (n, n_modes), int
        The rows of every entry, as rows of `factors`.
    values : ndarray of shape (n,), float64
    factors : ndarray of shape (n_rows, largest rank), float64
        Rows of all modes; the rank of the mode is the number of columns in use.
        Written.
    ranks : ndarray of shape (n_modes,), int
    core : ndarray of shape (n_cells,), float64
        Written.
    cells : ndarray of shape (n_cells, n_modes), int
        For every cell of the core, the column that it multiplies in each mode.
    moves_core : bool
    rate, ridge, core_ridge : float
    clip : float
        Largest norm of the gradients of the last mode's rows.
    noise : ndarray of shape (n, rank of the last mode) or (0, ...), float64
        Added to those gradients after clipping. With shape (0, ...), they are neither
        clipped nor noisy.
    """
    n_modes = rows.shape[1]
    regressors, products = np.empty(factors.shape[1]), np.empty(core.size)
    gradient = np.empty(max(factors.shape[1], core.size))
    no_noise = noise[:0, 0]
    for e in range(values.size):
        for m in range(n_modes):
            regressors[:] = 0.0
            for c in range(core.size):
                product = core[c]
                for k in range(n_modes):
                    if k != m:
                        product *= factors[rows[e, k], cells[c, k]]
                regressors[cells[c, m]] += product
            row_noise = no_noise
            if m == n_modes - 1 and noise.shape[0] > 0:
                row_noise = noise[e]
            row = factors[rows[e, m], : ranks[m]]
            sgd_step(row, regressors, values[e], rate, ridge, clip, row_noise, gradient)
        if not moves_core:
            continue
        for c in range(core.size):
            products[c] = 1.0
            for k in range(n_modes):
                products[c] *= factors[rows[e, k], cells[c, k]]
        sgd_step(core, products, values[e], rate, core_ridge, clip, no_noise, gradient)
