"""The paper's construction: Laplace noise for the code's range in the fitting data."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ._code_noise import CodeNoise, fixed_noise
from ._linear import LinearCode, LinearProblem, code_norms, plain_code

__all__ = ["l1_diameter", "published_code"]

_BLOCK = 512


def published_code(
    problem: LinearProblem,
    encoder_for: Callable[[LinearProblem, float], NDArray[np.float64]],
    epsilon: float,
) -> tuple[LinearCode, CodeNoise]:
    """The recipe after Theorem 1, its decoder computed for the final noise.

    Parameters
    ----------
    problem : LinearProblem
    encoder_for : callable
        Maps the problem and a ratio of noise to signal to an encoder.
    epsilon : float
        That is claimed.

    Returns
    -------
    code : LinearCode
    noise : CodeNoise
        Of no finite epsilon: new samples may lie outside of the fitting data.
    """
    radius = float(code_norms(problem.h, 2).max())
    encoder = encoder_for(problem, 8 * radius**2 / epsilon**2)
    sensitivity = l1_diameter(problem.h @ encoder.T)
    noise = fixed_noise(len(encoder), epsilon, sensitivity)
    return plain_code(problem, encoder, noise.variance), noise


def l1_diameter(points: NDArray[np.float64]) -> float:
    """Largest L1 distance of two rows, exactly.

    Parameters
    ----------
    points : ndarray of shape (n_points, n)

    Returns
    -------
    diameter : float

    Notes
    -----
    |x|_1 is the largest of all sums of +x_i and -x_i, so that the diameter is the
    largest range of the points along the 2^(n - 1) vectors of signs, where those are
    fewer than the points; else all pairs are compared.
    """
    n_points, n = points.shape
    if n - 1 < np.log2(n_points):
        codes = np.arange(2 ** (n - 1))
        signs = 1.0 - 2.0 * (codes[:, np.newaxis] >> np.arange(n) & 1)
        ranges = [np.ptp(points @ part.T, axis=0).max() for part in _blocks(signs)]
    else:
        ranges = [cdist(part, points, "cityblock").max() for part in _blocks(points)]
    return float(max(ranges))


def _blocks(array: NDArray[Any]) -> list[NDArray[Any]]:
    return [array[i : i + _BLOCK] for i in range(0, len(array), _BLOCK)]
