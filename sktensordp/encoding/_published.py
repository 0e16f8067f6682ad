"""The paper's calibration: Laplace noise for the fitting data's range of codes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ._code_noise import CodeNoise, published_noise
from ._linear import LinearCode, LinearProblem, code_norms, unclipped_code

__all__ = ["l1_diameter", "published_code"]

_BLOCK_ROWS = 512


def published_code(
    problem: LinearProblem,
    encoder_for: Callable[[LinearProblem, float], NDArray[np.float64]],
    epsilon: float,
) -> tuple[LinearCode, CodeNoise]:
    """The code of the recipe after Theorem 1, decoded for the final noise.

    Parameters
    ----------
    problem : LinearProblem
    encoder_for : callable
        Maps the problem and a noise-to-signal ratio to an encoder.
    epsilon : float
        Claimed by the paper.

    Returns
    -------
    code : LinearCode
    noise : CodeNoise
        No finite epsilon holds: new samples may lie outside the fitting data.
    """
    radius = float(code_norms(problem.h, 2).max())
    encoder = encoder_for(problem, 8 * radius**2 / epsilon**2)
    sensitivity = l1_diameter(problem.h @ encoder.T)
    noise = published_noise(len(encoder), epsilon, sensitivity)
    return unclipped_code(problem, encoder, noise.variance), noise


def l1_diameter(points: NDArray[np.float64]) -> float:
    """Largest L1 distance between two rows, exact.

    Parameters
    ----------
    points : ndarray of shape (n_points, n)

    Returns
    -------
    diameter : float

    Notes
    -----
    |x|_1 is the largest of all sums of +x_i and -x_i. The diameter is therefore the
    largest range of the points along the 2^(n - 1) vectors of signs. If these are not
    fewer than the points, all pairs of points are compared instead.
    """
    n_points, n = points.shape
    if n - 1 < np.log2(n_points):
        numbers = np.arange(2 ** (n - 1))
        signs = 1.0 - 2.0 * (numbers[:, np.newaxis] >> np.arange(n) & 1)
        ranges = [np.ptp(points @ block.T, axis=0).max() for block in _blocks(signs)]
    else:
        ranges = [cdist(block, points, "cityblock").max() for block in _blocks(points)]
    return float(max(ranges))


def _blocks(array: NDArray[Any]) -> list[NDArray[Any]]:
    """Blocks of rows, to bound the memory of a product."""
    return [array[i : i + _BLOCK_ROWS] for i in range(0, len(array), _BLOCK_ROWS)]
