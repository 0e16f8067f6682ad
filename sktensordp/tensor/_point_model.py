"""Structured CPs that are put together from parts, without covariances."""

import numpy as np

from ._structured_cp import StructuredCP, _columns

__all__ = ["point_model"]


def point_model(
    shape, noise_variance, dtype, *, biases=None, factors=None, features=None,
    weights=None,
):  # fmt: skip
    """A structured CP of given biases, factors and weights of features.

    Parameters
    ----------
    shape : tuple of int
    noise_variance : float
        Variance of the values around the model.
    dtype : dtype
    biases : list of ndarray of shape (shape[mode] + 1,), default=None
        Last, the bias of an unknown row.
    factors : list of ndarray of shape (shape[mode], rank), default=None
        An unknown row is the mean of all.
    features : ndarray of shape (shape[1] + 1, n_features), default=None
        Of the rows of the second mode; see `fit_structured_cp`.
    weights : ndarray of shape (shape[0], n_features), default=None
        That the rows of the first mode give to the features; an unknown row, none.

    Returns
    -------
    model : StructuredCP
        Its covariances are zero.
    """
    n_modes = len(shape)
    rank = 0 if factors is None else factors[0].shape[1]
    held, prior_mean, precision, tie = _columns(
        n_modes, rank, biases is not None, (), features
    )
    n_rows, n_columns = sum(shape) + n_modes, held.shape[1]
    model = StructuredCP(
        shape, held, np.ones((n_rows, n_columns), dtype),
        np.zeros((n_rows, n_columns * (n_columns + 1) // 2), dtype), prior_mean,
        precision, tie, noise_variance,
    )  # fmt: skip
    n_biases = 0 if biases is None else n_modes
    last = n_biases + rank
    for mode, r in enumerate(model.rows):
        rows = model.means[r]
        if biases is not None:
            rows[:, mode] = biases[mode]
        if factors is not None:
            rows[:-1, n_biases:last] = factors[mode]
            rows[-1, n_biases:last] = factors[mode].mean(axis=0)
    if features is not None:
        model.means[model.rows[1], last:] = features
        own = model.means[model.rows[0], last:]
        own[:-1], own[-1] = weights, 0.0
    return model
