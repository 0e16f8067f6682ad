"""The curve of shuffled bits: what the number of ones among n randomised bits reveals.

A message is one of two, and whatever a person holds, it is 0 with a probability of at
least c_0 and 1 with at least c_1. All that an adversary sees after a shuffle is the
number of ones. Neighbours replace what one person holds.

Theorem. The hockey-stick divergence at e^epsilon = g >= 1 is at most the maximum over
the two orders of the messages, over j from 0 to n - 1 and over k of

    (1 - c_0 - g c_1) P(N_j = k) - (g - 1) P(N_j > k),

where N_j is the number of ones among j people who send 1 with probability 1 - c_0 and
n - 1 - j who send 1 with probability c_1. It is attained if two values have these
probabilities.

It also holds for any part of the crowd: leaving people out amounts to showing their
messages. So a large crowd is evaluated in ranges of j; people who differ within a range
are left out.

doc/shuffling.md has the proof.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from ._convex import lower_envelope

# Number of ranges of j; for up to this many people, the result is exact.
_RANGES = 256
# People beyond this number, or beyond this variance of their sum, are left out.
_MOST_PEOPLE, _MOST_VARIANCE = 2**27, 2e4
# Relative error of a probability, of a sum or of a product of two.
_ERROR = 1e-10
# Tails of binomial distributions are cut where they are below exp(-_CUT).
_CUT = 80.0
# Smaller probabilities are rounded up or down to it, or to 0.
_TINY = 1e-100


@dataclass(frozen=True, eq=False)
class ShuffledBits:
    """Deltas of n shuffled messages of two kinds.

    Parameters
    ----------
    least : tuple of float
        c_0 and c_1: least probability of each message over all values; positive, with
        a sum below 1.
    n_messages : int
        n, including the message of the protected person.
    """

    least: tuple[float, float]
    n_messages: int

    @cached_property
    def n_counted(self) -> int:
        """Number of messages that the bound uses; the others are left out."""
        variance = max(c * (1 - c) for c in self.least)
        return int(min(self.n_messages, _MOST_PEOPLE, 1 + _MOST_VARIANCE / variance))

    @cached_property
    def _tests(self) -> list[tuple[float, float, NDArray[np.float64]]]:
        """For each order: c_0, c_1, and P(N_j = k) and P(N_j > k) of every test."""
        orders = {self.least, self.least[::-1]}
        return [(c0, c1, _best_tests(c0, c1, self.n_counted - 1)) for c0, c1 in orders]

    def delta(self, epsilon: float) -> float:
        """Delta at `epsilon` >= 0."""
        factor, largest = math.exp(min(epsilon, 700.0)), 0.0
        for c0, c1, (equal, above) in self._tests:
            gain = max(0.0, 1 - c0 - factor * c1) + 1e-15
            largest = max(largest, float((gain * equal - (factor - 1) * above).max()))
        return min(1.0, largest)


def _best_tests(c0: float, c1: float, n_others: int) -> NDArray[np.float64]:
    """P(N_j = k), rounded up, and P(N_j > k), rounded down, for all j and k.

    Tests that are worse than another one for every g >= 1 are left out.
    """
    width = -(-(n_others + 1) // _RANGES)
    found = []
    for first in range(0, n_others + 1, width):
        left_out = min(width - 1, n_others - first)
        zeros, error_of_zeros = _binomial(first, c0)
        ones, error_of_ones = _binomial(n_others - first - left_out, c1)
        equal = np.convolve(zeros[::-1], ones)
        # Below the mode, k + 1 is a better test than k.
        equal = equal[int(equal.argmax()) :]
        above = np.append(equal[:0:-1].cumsum()[::-1], 0.0) * (1 - _ERROR)
        above[above < _TINY] = 0.0
        equal = equal * (1 + _ERROR) + error_of_zeros + error_of_ones + _TINY
        found.append(np.array([equal, above]))
    tests = np.concatenate(found, axis=1)
    tests = tests[:, np.lexsort((-tests[0], tests[1]))]
    largest = np.maximum.accumulate(tests[0])
    tests = tests[:, np.append(True, tests[0, 1:] > largest[:-1])]
    return tests[:, lower_envelope(tests[1], -tests[0])]


def _binomial(n: int, p: float) -> tuple[NDArray[np.float64], float]:
    """Binomial probabilities around the mean, and a bound on what is cut off.

    By Bernstein's inequality, either tail is at most exp(-_CUT).
    """
    mean = n * p
    reach = math.sqrt(2 * mean * (1 - p) * _CUT) + 2 / 3 * _CUT
    low, high = max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach))
    cut = 2 * math.exp(-_CUT) if low > 0 or high < n else 0.0
    return binom.pmf(np.arange(low, high + 1), n, p), cut
