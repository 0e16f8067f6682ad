"""Small tensors, fits to them, and what is packed of their rows."""

import math

import numpy as np

from sktensordp.tensor import (
    Observations,
    fit_cp,
    mode_products,
    rescaled,
)
from sktensordp.tensor._rows import unpacked as rows_unpacked


def random_problem(shape, n, seed=0):
    """Coordinates, which may recur, and values."""
    rng = np.random.default_rng(seed)
    coordinates = np.column_stack([rng.integers(0, s, n) for s in shape])
    return coordinates.astype(np.int32), rng.standard_normal(n)


def low_rank(shape, rank, share, seed):
    """A complete tensor of variance one, and a mask of its observed entries.

    Factors, and the core of a Tucker, are standard normal. A number as the rank is that
    of a CP.
    """
    rng = np.random.default_rng(seed)
    ranks = (rank,) * len(shape) if isinstance(rank, int) else rank
    factors = [rng.standard_normal(size) for size in zip(shape, ranks, strict=True)]
    if isinstance(rank, int):
        core = np.zeros(ranks)
        core[(np.arange(rank),) * len(shape)] = 1.0
    else:
        core = rng.standard_normal(ranks)
    truth = mode_products(core[np.newaxis], factors)[0]
    truth /= truth.std()
    return truth, rng.random(shape) < share


def everywhere(shape):
    """All coordinates of a tensor, and those that have unknown rows."""
    return np.argwhere(np.ones(np.array(shape) + 1)).astype(np.int32) - 1


def unpacked(packed):
    """Symmetric matrices from their upper triangles."""
    size = math.isqrt(2 * packed.shape[1])
    first, second = np.triu_indices(size)
    full = np.empty((len(packed), size, size))
    full[:, first, second] = full[:, second, first] = packed
    return full


def fit_of(coordinates, values, shape, *, scale=1.0, smooth_modes=(), **options):
    """A fit of a CP to values, which are divided by `scale`, and its sweeps."""
    used = [np.arange(n) if m in smooth_modes else None for m, n in enumerate(shape)]
    options = {"rank": 2, "biases": True, "noise_floor": 0.0, **options}
    rows, n_iter = fit_cp(
        Observations.of(coordinates, values / scale, used), shape=shape,
        smooth_modes=smooth_modes, **{"max_iter": 40, **options},
    )  # fmt: skip
    return rescaled(rows, scale), n_iter


def covariance_of(rows, mode):
    """Covariances of all columns of a mode's rows; zero where they are known."""
    free, size = rows.free(mode), rows.fixed.shape[1]
    found = np.zeros((len(rows.means[mode]), size, size))
    own = rows_unpacked(rows.covariances[mode], len(free))
    found[:, free[:, np.newaxis], free] = own
    return found
