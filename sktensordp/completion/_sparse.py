"""Sparse arrays as coordinates and values: what is stored was observed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

__all__ = ["entries_from_sparse", "is_sparse"]

# Their blocks and diagonals hold zeros that nobody stored.
_PADDED = ("bsr", "dia")


def is_sparse(X: Any) -> bool:
    """Whether this is a sparse array of SciPy or of pydata's sparse."""
    return issparse(X) or type(X).__module__.split(".")[0] == "sparse"


def entries_from_sparse(X: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Coordinates and values of what a sparse array stores.

    Completions take sparse arrays as they are in `fit`, `partial_fit` and `fold_in`.
    Cross-validation and clients need coordinates and values apart, as this returns
    them.

    Parameters
    ----------
    X : scipy.sparse array or matrix, or sparse.COO
        Every stored entry was observed, stored zeros included; an absent one was not.
        Duplicates stay separate observations.

    Returns
    -------
    X : ndarray of shape (n_stored, n_modes), int64
        Coordinates.
    y : ndarray of shape (n_stored,)
        Values.

    Raises
    ------
    TypeError
        If `X` is not sparse.
    ValueError
        If its format holds zeros that nobody stored ("bsr", "dia"), its `fill_value`
        is not 0, or it has fewer than two modes.

    Examples
    --------
    >>> from scipy.sparse import coo_array
    >>> from sktensordp.completion import entries_from_sparse
    >>> X, y = entries_from_sparse(coo_array(([4.0, 0.0], ([0, 2], [1, 1]))))
    >>> X.tolist(), y.tolist()
    ([[0, 1], [2, 1]], [4.0, 0.0])
    """
    if not is_sparse(X):
        raise TypeError(
            f"X must be a sparse array of scipy.sparse or of the package sparse, got "
            f"{type(X).__name__}."
        )
    if X.ndim < 2:
        raise ValueError("X must have at least two modes.")
    if issparse(X):
        if X.format in _PADDED:
            raise ValueError(
                f"A sparse array in the format {X.format!r} holds zeros that nobody "
                f"stored. Build it as a coo_array or csr_array."
            )
        X = X.tocoo()
    elif not (hasattr(X, "coords") and hasattr(X, "fill_value")):
        raise ValueError("X has no coordinates in this format. Pass X.asformat('coo').")
    elif X.fill_value != 0:
        raise ValueError(
            "X has a fill_value other than 0, which gives absent entries a value. Only "
            "stored entries count as observed: build X with fill_value=0."
        )
    where = np.stack([np.asarray(c, dtype=np.int64) for c in X.coords], axis=1)
    return where, np.asarray(X.data)
