"""Whether what was released is more than its noise, and the warning if it is not.

Estimators hand over released numbers and the standard deviation of their noise. Nothing
else decides, so that a warning is post-processing.

**Two errors.** A rule may keep silent though there was nothing but noise: it does so
with a probability of at most 1e-5 (`MISSED`) for each set of numbers. It may warn
though there was something, a *false alarm*: each rule says below how much there must be
so that this has a probability of at most 1e-3. Between the two, rules may say either.

- *Counts.* Noise alone exceeds z standard deviations of any of n counts with a
  probability of at most 1e-5, z being the quantile for 1e-5 / n: 4.3 for one count, 5.6
  for a thousand. False alarms: if a count is z + 3.1 standard deviations or more, which
  10 are for up to a million counts.
- *Sums of either sign*, such as the right-hand sides of a regression. Of noise alone,
  the squares of n sums, in units of the noise, add up to a chi-squared variable of n
  degrees of freedom, which exceeds its quantile with a probability of 1e-5. False
  alarms: if the squares of the true sums add up to 15 sqrt(n) + 100 or more. Then the
  squares of released ones add up to less than the quantile with a probability of at
  most exp(-7), by the tail bounds of Birge (2001) and of Laurent and Massart (2000).
- *Matrices of moments*, none of whose true eigenvalues is negative. Noise alone is a
  symmetric Gaussian matrix of n rows, with the standard deviation s off the diagonal
  and sqrt(2) s on it. Its largest eigenvalue is s (2 sqrt(n) + x n^(-1/6)). For large
  n, x has the distribution of Tracy and Widom (1996) and exceeds 6 with a probability
  of 2e-6; for small n, it does so less often (measured). Its trace exceeds
  4.5 s sqrt(2 n) with a probability of 3.4e-6. A matrix is noise if it exceeds neither
  limit; several are noise if all are. False alarms: if a true eigenvalue exceeds the
  first limit by 4.4 s, or a true trace the second by 3.1 s sqrt(2 n).
- *Users' totals*; see `totals_are_noise`.
- *Means of a public range*; see `errors_exceed`.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri, ndtri

from ._validation import warn
from .exceptions import NoiseOnlyWarning
from .privacy.budgets._reserved import current_reservation

MISSED = 1e-5
"""Largest probability with which noise alone passes for more."""

# Excess of the largest eigenvalue, in units of Tracy and Widom's law, and of the trace
# in standard deviations.
_LARGEST_EIGENVALUE, _TRACE = 6.0, 4.5


def warn_of_noise(are_noise: bool, message: str) -> None:
    """Warn if what a fit released may be nothing but noise.

    A private search keeps silent: otherwise it would tell how many candidates were
    tried, which is secret.

    Parameters
    ----------
    are_noise : bool
        What one of the functions below says of released numbers.
    message : str
        What holds little but noise, why, and what to do.
    """
    if are_noise and not is_one_of_many():
        warn(message, NoiseOnlyWarning)


def is_one_of_many() -> bool:
    """Whether a private search makes this fit, which then says nothing of its result.

    Otherwise it would tell how many candidates were tried, which is secret.
    """
    return current_reservation() is not None


def counts_are_noise(counts: ArrayLike, error: float) -> bool:
    """Whether released counts are within their noise of nothing.

    Parameters
    ----------
    counts : array-like of float
    error : float
        Standard deviation of the noise in each; 0 for no noise.
    """
    numbers = np.asarray(counts, dtype=float)
    limit = -float(ndtri(MISSED / max(numbers.size, 1)))
    return bool(np.all(numbers <= limit * error))


def sums_are_noise(sums: NDArray[np.float64], error: float) -> bool:
    """Whether released sums of either sign are within their noise of nothing.

    Parameters
    ----------
    sums : ndarray of float
    error : float
        Standard deviation of the noise in each. Without noise, nothing is within it.
    """
    if not error:
        return False
    squares = float(np.square(sums / error).sum())
    return squares <= float(chdtri(sums.size, MISSED))


def moments_are_noise(
    matrices: Iterable[tuple[NDArray[np.float64], float]], known: float = 0.0
) -> bool:
    """Whether all released matrices of moments are within their noise of nothing.

    Parameters
    ----------
    matrices : iterable of (eigenvalues, deviation)
        All eigenvalues of a released matrix, and the standard deviation of its noise
        off the diagonal. Without noise, nothing is within it.
    known : float, default=0.0
        Bound on the trace that earlier noise alone gives all matrices.
    """
    return all(_is_noise(*one, known) for one in matrices)


def _is_noise(values: NDArray[np.float64], deviation: float, known: float) -> bool:
    if not deviation:
        return False
    n = len(values)
    edge = deviation * (2 * math.sqrt(n) + _LARGEST_EIGENVALUE * n ** (-1 / 6))
    trace = deviation * _TRACE * math.sqrt(2 * n)
    largest, total = float(np.max(values)), float(np.sum(values))
    return largest <= edge + known and total <= trace + known


def totals_are_noise(n_units: float, logs: float, error: float) -> bool:
    """Whether released totals say that there may be no units, or hardly an entry.

    A unit adds 1 to the first total. To the other one, it adds the scaled logarithm of
    its number of entries, at least -1. So the two together add up by how much
    logarithms exceed the least, which is nothing for units with one or two entries.

    False alarms, in standard deviations of the number of units: if there are 10 or
    more, so few come out that they are noise with a probability below 1e-8. Units are
    said to have hardly an entry only if the excesses, less a tenth of the number of
    units, come out below -5.4. They have noise of 1.35, and are at least -1 for 10
    units, and positive for any number of units that typically have four entries or
    more. So that has a probability of at most 1e-3.

    Parameters
    ----------
    n_units, logs : float
        Released totals.
    error : float
        Standard deviation of the noise in each.
    """
    # Units have hardly an entry if the logarithm of their number exceeds 1 by less than
    # a tenth of its range, even by 5.4 standard deviations of the number of units.
    least = min(3 * math.sqrt(2) * error, 0.1 * n_units - 5.4 * error)
    return counts_are_noise(n_units, error) or n_units + logs < least


def errors_exceed(errors: NDArray[np.float64], widths: NDArray[np.float64]) -> bool:
    """Whether most standard errors of means are larger than the widths of their ranges.

    The middle of a range is then at least three times as accurate as the mean. Standard
    errors are estimated from n samples. Of an entry with normal noise that makes the
    true one three times the width, 16 samples miss it with a probability below 1e-5.
    False alarms: if the true one is at most 0.3 widths, the probability is at most
    1e-3, whatever the number of samples. Of samples in their range, without noise,
    standard errors are at most half the width.

    Parameters
    ----------
    errors : ndarray
    widths : ndarray of the same shape
        Where a width is 0, the mean is known.
    """
    is_open = widths > 0
    if not is_open.any():
        return False
    return bool(np.median(errors[is_open] / widths[is_open]) > 1)
