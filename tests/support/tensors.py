"""Small tensors, in both forms of their entries, and what is packed of their rows."""

import math

import numpy as np

from sktensordp.tensor import DenseEntries, SparseEntries

__all__ = ["as_dense", "entries_of", "random_problem", "unpacked"]


def random_problem(shape, n, seed=0):
    """Coordinates, which may recur, and values."""
    rng = np.random.default_rng(seed)
    coordinates = np.column_stack([rng.integers(0, s, n) for s in shape])
    return coordinates.astype(np.int32), rng.standard_normal(n)


def as_dense(coordinates, values, shape):
    """The same entries as an array with a mask."""
    tensor, mask = np.zeros(shape, values.dtype), np.zeros(shape, dtype=bool)
    tensor[tuple(coordinates.T)] = values
    mask[tuple(coordinates.T)] = True
    return DenseEntries(tensor, mask)


def entries_of(dense, coordinates, values, shape):
    return (as_dense if dense else SparseEntries)(coordinates, values, shape)


def unpacked(packed):
    """Symmetric matrices from their upper triangles."""
    size = math.isqrt(2 * packed.shape[1])
    first, second = np.triu_indices(size)
    full = np.empty((len(packed), size, size))
    full[:, first, second] = full[:, second, first] = packed
    return full
