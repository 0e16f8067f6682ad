"""Convex envelopes of points: every curve of deltas is convex in exp(epsilon)."""

import numpy as np
from numpy.typing import NDArray


def lower_envelope(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.intp]:
    """Indices of the corners of the lower convex envelope of points, sorted by `x`."""
    corners: list[int] = []
    for i in range(len(x)):
        while len(corners) > 1:
            j, k = corners[-2:]
            if (y[k] - y[j]) * (x[i] - x[j]) < (y[i] - y[j]) * (x[k] - x[j]):
                break
            corners.pop()
        corners.append(i)
    return np.array(corners, dtype=np.intp)
