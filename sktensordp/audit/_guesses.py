"""Guesses of canaries' bits from their scores, and what right guesses prove."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ._bounds import Pure, curve_bound_of_guesses, lower_epsilon_of_guesses

# Epsilon at which the bounds are compared if none is claimed.
_TYPICAL = 3.0
# The number of ones among fair bits is within three standard deviations of the middle.
_DEVIATIONS = 1.5
# A gap between scores separates zeros from ones if it is this many times the median.
_GAP = 10.0


def guessed(scores: NDArray[np.float64], n_guesses: int) -> NDArray[np.int64]:
    """Guesses of bits: 1, 0, or -1 for no guess.

    The canaries with the largest scores are guessed as ones and those with the smallest
    as zeros, on both sides of a middle. The middle is the widest gap between scores
    near the median, if one stands out, and the median otherwise. Guesses depend on
    scores alone, and their number is `n_guesses` whatever the scores are.

    Parameters
    ----------
    scores : ndarray of shape (n_canaries,)
        Large if the bit looks like a one.
    n_guesses : int
        From 1 to n_canaries.

    Returns
    -------
    guesses : ndarray of shape (n_canaries,)
    """
    n, order = len(scores), np.argsort(scores, kind="stable")
    n_omitted = n - n_guesses
    n_zeros = min(max(_middle(scores[order]) - n_omitted // 2, 0), n_guesses)
    guesses = np.full(n, -1)
    guesses[order[:n_zeros]] = 0
    guesses[order[n_zeros + n_omitted :]] = 1
    return guesses


def _middle(ascending: NDArray[np.float64]) -> int:
    """How many of the scores, in ascending order, look like those of zeros."""
    n, half = len(ascending), len(ascending) // 2
    width = math.ceil(_DEVIATIONS * math.sqrt(n))
    places = np.arange(max(1, half - width), min(n - 1, half + width) + 1)
    if not len(places):
        return half
    gaps = np.diff(ascending)
    widest = places[np.argmax(gaps[places - 1])]
    stands_out = gaps[widest - 1] > _GAP * np.median(gaps)
    return int(widest) if stands_out else half


def n_right(bits: NDArray[np.bool_], guesses: NDArray[np.int64]) -> int:
    """How many of the guesses are right."""
    return int(np.sum(guesses == bits))


@lru_cache(maxsize=512)
def epsilon_bound(
    n_correct: int,
    n_guesses: int,
    n_canaries: int,
    claimed: float | None,
    delta: float,
    alpha: float,
) -> float:
    """Lower bound on epsilon, by the theorem that should prove more.

    The choice costs no confidence: it compares the two for the number of right guesses
    that the claim allows, and does not see how many are right.

    Parameters
    ----------
    n_correct, n_guesses, n_canaries : int
        Numbers of right guesses, of all guesses, and of canaries.
    claimed : float or None
        Claimed epsilon.
    delta : float
        Delta at which epsilon is bounded.
    alpha : float
        Chance that the bound is above the truth.

    Returns
    -------
    epsilon : float
    """

    def by_epsilon(right: int) -> float:
        return lower_epsilon_of_guesses(right, n_guesses, n_canaries, delta, alpha)

    def by_curve(right: int) -> float:
        return curve_bound_of_guesses(right, n_guesses, n_canaries, Pure(delta), alpha)

    epsilon = _TYPICAL if claimed is None else claimed
    allowed = round(n_guesses / (1 + math.exp(-epsilon)))
    chosen = by_curve if by_curve(allowed) > by_epsilon(allowed) else by_epsilon
    return chosen(n_correct)
