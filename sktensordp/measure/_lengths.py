"""Lengths of what one person adds to sums, checked after clipping."""

import numpy as np
from numpy.typing import NDArray


def squared_lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared lengths of rows of whole numbers, exact below 2^53.

    Squares are not negative, so a sum that reaches 2^53 stays there, whatever its order
    and its length: a long row never looks short. Integers of 64 bits would wrap.
    """
    return np.einsum("ij,ij->i", rows, rows)


def check_lengths(lengths: NDArray[np.float64], bound: float) -> None:
    """Let nothing leave if one person's vector is longer than its bound, or no number.

    Clipping makes sure that this never happens.
    """
    # Not true of NaN.
    if not np.all(lengths <= bound):
        raise RuntimeError(
            "The vector of a unit is longer than its bound. Nothing was released; "
            "please report this error."
        )
