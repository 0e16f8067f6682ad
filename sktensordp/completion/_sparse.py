"""Sparse arrays as coordinates and values of their stored entries."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

# Formats whose blocks and diagonals are padded with zeros.
_PADDED = ("bsr", "dia")


def is_sparse(X: Any) -> bool:
    """Whether `X` is a sparse array of SciPy or of the package sparse."""
    return issparse(X) or type(X).__module__.split(".")[0] == "sparse"


def entries_from_sparse(X: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Convert a sparse array to the coordinates and values of its stored entries.

    The `fit`, `partial_fit` and `fold_in` of completions accept sparse arrays directly.
    Cross-validation and clients need separate coordinates and values.

    Parameters
    ----------
    X : scipy.sparse array or matrix, or sparse.COO
        Every stored entry, stored zeros included, counts as observed; absent entries do
        not. Duplicates stay separate observations.

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
        If its format is padded with zeros ("bsr", "dia"), its `fill_value`
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
                f"X has the sparse format {X.format!r}, whose padding zeros would "
                f"count as observed. Build X as a coo_array or csr_array."
            )
        X = X.tocoo()
    elif not (hasattr(X, "coords") and hasattr(X, "fill_value")):
        raise ValueError("X has no coordinates in its format. Pass X.asformat('coo').")
    elif X.fill_value != 0:
        raise ValueError(
            "X has a fill_value other than 0, which gives absent entries a value. Only "
            "stored entries count as observed: build X with fill_value=0."
        )
    where = np.stack([np.asarray(c, dtype=np.int64) for c in X.coords], axis=1)
    return where, np.asarray(X.data)
