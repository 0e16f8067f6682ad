"""Sums of integers beyond 64 bits, in two limbs, and their rounding to a lattice."""

import numpy as np
from numpy.typing import NDArray


def rounded(limbs: NDArray[np.int64], shift: int) -> NDArray[np.float64]:
    """Round (high 2^32 + low) / 2^shift to the nearest whole number, halves up.

    Parameters
    ----------
    limbs : ndarray of shape (2, ...), int64
        `high` and `low`, the second of which may be negative or exceed 32 bits.
    shift : int
        At least 1.

    Returns
    -------
    whole : ndarray of shape (...)
        Exact below 2^53; beyond 2^63, integers would wrap.
    """
    high, low = limbs[0] + (limbs[1] >> 32), limbs[1] & 0xFFFFFFFF
    if shift > 32:
        return ((high + (1 << (shift - 33))) >> (shift - 32)).astype(float)
    half = 1 << (shift - 1)
    return ((high << (32 - shift)) + ((low + half) >> shift)).astype(float)
