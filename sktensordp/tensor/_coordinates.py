"""Coordinates of the observed entries of a sparse tensor."""

import numpy as np
from scipy import sparse

__all__ = ["group_by_index"]


def group_by_index(index, size):
    """Positions grouped by their index, in linear time (a counting sort).

    Parameters
    ----------
    index : ndarray of shape (n,), int
        In [0, size).
    size : int
        Number of groups.

    Returns
    -------
    order : ndarray of shape (n,), int
        Positions 0 to n - 1, those of group 0 first; ascending within a group.
    starts : ndarray of shape (size + 1,), int
        Group g is ``order[starts[g]:starts[g + 1]]``.
    """
    positions = np.arange(index.size)
    incidence = sparse.coo_array(
        (np.ones(index.size, dtype=np.int8), (index, positions)),
        shape=(size, max(index.size, 1)),
    ).tocsr()
    return incidence.indices, incidence.indptr
