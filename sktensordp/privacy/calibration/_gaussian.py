"""Gaussian noise for a sensitivity set: its exact mu, and the cheapest variances.

Noise sigma_i N_i on entry i is mu-GDP for mu^2 = sup sum_i Delta_i^2 / sigma_i^2 over
the differences Delta of two values in the set (Dong, Roth and Su 2022). The differences
are {|Delta_i| <= r_i, ||Delta|| <= s}, with r or s infinite if it is not declared. A
squared error in entry i costs its weight P_i >= 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

# At a weight of zero, infinite noise would cost least.
_SMALLEST_WEIGHT = 1e-6
# Larger matrices skip the dual, and are bounded by their largest eigenvalue.
_LARGEST_DUAL = 600


def floored(weights: ArrayLike) -> NDArray[np.float64]:
    """The weights, with those below a millionth of the largest raised to that."""
    weights = np.asarray(weights, dtype=float)
    return np.maximum(weights, _SMALLEST_WEIGHT * weights.max())


def water_filling(
    widths: NDArray[np.float64], weights: NDArray[np.float64], l2: float = math.inf
) -> NDArray[np.float64]:
    """Squared differences q_i = min(r_i^2, P_i / nu) with sum min(s^2, sum r_i^2).

    Parameters
    ----------
    widths : ndarray of shape (n,)
        r_i, positive.
    weights : ndarray of shape (n,)
        P_i, positive.
    l2 : float, default=inf
        s.

    Returns
    -------
    q : ndarray of shape (n,)
    """
    caps = widths**2
    if l2**2 >= caps.sum():
        return caps
    order = np.argsort(-weights / caps, kind="stable")
    filled = np.concatenate([[0.0], np.cumsum(caps[order])[:-1]])
    rest = np.cumsum(weights[order][::-1])[::-1]
    # With the first k at their caps, the others share the rest by their weights.
    left = l2**2 - filled
    fits = (left > 0) & (weights[order] * left <= caps[order] * rest)
    if not fits.any():
        # Up to rounding, the ball contains the box.
        return caps
    k = int(np.argmax(fits))
    q = caps.copy()
    q[order[k:]] = weights[order[k:]] * left[k] / rest[k]
    return np.minimum(q, caps)


def least_cost_variances(
    widths: NDArray[np.float64], weights: ArrayLike, mu: float, l2: float = math.inf
) -> NDArray[np.float64]:
    """The variances with least sum P_i sigma_i^2 that give mu-GDP.

    sigma_i^2 = sqrt(q_i / P_i) S / mu^2 with S = sum_j sqrt(P_j q_j). For a box alone,
    q_i = r_i^2; for a ball alone, all variances are equal.

    Parameters
    ----------
    widths : ndarray of shape (n,)
        r_i of the box, positive.
    weights : ndarray of shape (n,)
        P_i >= 0, not all zero.
    mu : float
        The mu that the noise gives.
    l2 : float, default=inf
        s, the bound on the Euclidean norm.

    Returns
    -------
    variances : ndarray of shape (n,)
    """
    weights = floored(weights)
    q = water_filling(widths, weights, l2)
    return np.sqrt(q / weights) * (np.sqrt(weights * q).sum() / mu**2)


def box_mu(
    widths: NDArray[np.float64], sigma: NDArray[np.float64], l2: float = math.inf
) -> float:
    """Exact mu of noise with standard deviations sigma_i: a fractional knapsack.

    Parameters
    ----------
    widths, sigma : ndarray of shape (n,)
        r_i and sigma_i, positive.
    l2 : float, default=inf
        s.

    Returns
    -------
    mu : float
    """
    caps, gains = widths**2, sigma**-2.0
    if l2**2 >= caps.sum():
        return math.sqrt(np.dot(caps, gains))
    order = np.argsort(-gains, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(caps[order])[:-1]])
    share = np.clip(l2**2 - before, 0.0, caps[order])
    return math.sqrt(np.dot(share, gains[order]))


def diagonal_bound(
    matrix: NDArray[np.float64], costs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A diagonal matrix above a positive semidefinite one, of small weighted trace.

    sup of Delta^T M Delta over |Delta_i| <= r_i is at most sum_i d_i r_i^2 whenever
    diag(d) - M is positive semidefinite. Minimising that sum is a semidefinite
    programme, whose value is within pi/2 of the supremum (Nesterov 1998). Its dual, max
    tr(M X) with X_ii = c_i, is maximised over a factor of X. The multipliers are then
    shifted until they are a bound, so stopping early costs only tightness.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        M, positive semidefinite.
    costs : ndarray of shape (n,)
        c_i > 0, the weights of d_i in the sum.

    Returns
    -------
    diagonal : ndarray of shape (n,)
    """
    scale = np.sqrt(costs)
    scaled = matrix * np.outer(scale, scale)
    n = len(scaled)
    slack = 4 * n * np.finfo(float).eps
    # Diagonal dominance, which is optimal if flipping signs makes all entries >= 0.
    candidates = [np.abs(scaled).sum(axis=1)]
    if np.any(scaled - np.diag(np.diag(scaled))):
        eigenvalues = np.linalg.eigvalsh(scaled)
        candidates.append(np.full(n, eigenvalues[-1]))
        if n <= _LARGEST_DUAL:
            multipliers = _maximise_dual(scaled, eigenvalues[0])
            smallest = np.linalg.eigvalsh(np.diag(multipliers) - scaled)[0]
            shift = max(0.0, slack * multipliers.max() - smallest)
            candidates.append(multipliers + shift)
    best = min(candidates, key=np.sum)
    return (best + slack * best.max()) / costs


def _maximise_dual(matrix: NDArray[np.float64], smallest: float) -> NDArray[np.float64]:
    """Multipliers, nearly, at the maximum of sum M_ij <v_i, v_j> over |v_i| = 1.

    The function is convex, so each step may turn all v_i to their gradients at once.
    Subtracting the smallest eigenvalue from the diagonal makes the steps longer.
    """
    n = len(matrix)
    rank = math.ceil(math.sqrt(2 * n)) + 1
    shifted = matrix - smallest * np.eye(n)
    factor = np.random.default_rng(0).standard_normal((n, rank))
    lengths, value = np.linalg.norm(factor, axis=1), -math.inf
    for _ in range(int(np.clip(2e10 / (n * n * rank), 30, 2000))):
        factor = shifted @ (factor / np.maximum(lengths, 1e-300)[:, np.newaxis])
        lengths = np.linalg.norm(factor, axis=1)
        if lengths.sum() <= value * (1 + 1e-9):
            break
        value = lengths.sum()
    return lengths + smallest
