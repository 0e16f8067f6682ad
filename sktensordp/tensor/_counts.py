"""Estimates of counts from their noisy values."""

import numpy as np
from numpy.typing import NDArray

_N_LEVELS, _ROUNDS = 40, 50
# Counts above this many standard deviations of the noise need no prior.
_WELL_KNOWN = 8.0


def expected_counts(noisy: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Posterior means of counts, given the counts plus Gaussian noise.

    The prior is the distribution that best fits all the noisy counts. It lives on a
    grid, finer where counts are smaller, and is found by expectation maximisation
    (Kiefer and Wolfowitz 1956). Counts many times larger than the noise are returned
    unchanged.

    Parameters
    ----------
    noisy : ndarray of shape (n,)
        Noisy values of non-negative counts.
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
