"""The published fit of a CP: stochastic gradient descent, entry by entry."""

import numpy as np

__all__ = ["descend"]


def descend(
    coordinates, values, factors, *, rate, ridge, n_passes, clip=1.0, noise=None,
    on_pass=None,
):  # fmt: skip
    """Fit a CP to entries by stochastic gradient descent.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int
    values : ndarray of shape (n,)
    factors : list of ndarray of shape (size, rank)
        Where to start.
    rate, ridge : float
        Of the descent, and of the squared norms of the rows that an entry meets.
    n_passes : int
        Over all entries, in their order.
    clip : float, default=1.0
        Largest norm of the gradients of the rows of the last mode.
    noise : callable, default=None
        Maps the number of a pass to what is added to these gradients, an array of shape
        (n, rank). Without it they are not clipped either.
    on_pass : callable, default=None
        Called after every pass with its number; true ends the descent.

    Returns
    -------
    factors : list of ndarray of shape (size, rank)
        After the last pass that left them finite.
    n_passes : int
        So many passes did.
    """
    from ._kernels import sgd_pass

    sizes = [len(factor) for factor in factors]
    rows = coordinates + np.cumsum([0, *sizes[:-1]])
    stacked, values = np.concatenate(factors), np.asarray(values, dtype=float)
    nothing = np.empty((0, stacked.shape[1]))
    for n_done in range(n_passes):
        before = stacked.copy()
        drawn = nothing if noise is None else noise(n_done)
        sgd_pass(rows, values, stacked, rate, ridge, clip, drawn)
        if not np.all(np.isfinite(stacked)):
            return np.split(before, np.cumsum(sizes)[:-1]), n_done
        if on_pass is not None and on_pass(n_done):
            return np.split(stacked, np.cumsum(sizes)[:-1]), n_done + 1
    return np.split(stacked, np.cumsum(sizes)[:-1]), n_passes
