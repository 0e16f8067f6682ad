"""Counts that are known with Gaussian noise: what they most likely are."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["expected_counts"]

_N_LEVELS, _ROUNDS = 40, 50
# So many times the noise needs no prior.
_WELL_KNOWN = 8.0


def expected_counts(noisy: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Posterior means of counts, under the distribution that fits all of them best.

    Counts that are many times the noise stay as they are. The distribution lives on a
    grid that is finer where counts are smaller, and is found by expectation
    maximisation (Kiefer and Wolfowitz 1956).

    Parameters
    ----------
    noisy : ndarray of shape (n,)
        Not negative before the noise.
    noise : float
        Standard deviation of the noise.

    Returns
    -------
    counts : ndarray of shape (n,)
    """
    counts = np.maximum(noisy, 0.0)
    uncertain = noisy < _WELL_KNOWN * noise
    if not np.any(uncertain):
        return counts
    levels = np.append(0.0, np.geomspace(0.05, _WELL_KNOWN, _N_LEVELS) * noise)
    distance = (noisy[uncertain, np.newaxis] - levels) / noise
    distance = distance**2 / 2
    likelihood = np.exp(distance.min(axis=1, keepdims=True) - distance)
    weights = np.full(len(levels), 1 / len(levels))
    for _ in range(_ROUNDS):
        posterior = likelihood * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        weights = posterior.sum(axis=0) + 0.5 / len(levels)
        weights /= weights.sum()
    posterior = likelihood * weights
    counts[uncertain] = posterior @ levels / posterior.sum(axis=1)
    return counts
