"""Whether released numbers are more than noise, and the warning if they are not.

Estimators hand over released numbers and the standard deviation of their noise. Nothing
else decides whether to warn, so a warning is post-processing.

**Two errors.** A rule may keep silent although there is nothing but noise. The
probability of this is at most 1e-5 (`MISSED`) for each set of numbers. A rule may also
warn although there is a signal: a *false alarm*. Below, each rule states how strong a
signal must be for a false alarm to have a probability of at most 1e-3. For weaker
signals, either outcome is possible.

- *Counts.* Noise alone exceeds z standard deviations of any of n counts with a
  probability of at most 1e-5, z being the quantile for 1e-5 / n: 4.3 for one count, 5.6
  for a thousand. False alarms are this rare if a count is at least z + 3.1 standard
  deviations; 10 suffice for up to a million counts.
- *Sums of either sign*, such as the right-hand sides of a regression. If there is only
  noise, the squares of n sums, in units of the noise, add up to a chi-squared variable
  with n degrees of freedom, which exceeds the quantile of the rule with a probability
  of 1e-5. False alarms are rare if the squares of the true sums add up to at least
  15 sqrt(n) + 100. Then the squares of the released sums add up to less than the
  quantile with a probability of at most exp(-7), by the tail bounds of Birge (2001) and
  of Laurent and Massart (2000).
- *Matrices of moments*, none of whose true eigenvalues is negative. Noise alone is a
  symmetric Gaussian matrix of n rows, with the standard deviation s off the diagonal
  and sqrt(2) s on it. Its largest eigenvalue is s (2 sqrt(n) + x n^(-1/6)). For large
  n, x has the distribution of Tracy and Widom (1996) and exceeds 6 with a probability
  of 2e-6; for small n, it does so less often (measured). Its trace exceeds
  4.5 s sqrt(2 n) with a probability of 3.4e-6. A matrix is noise if it exceeds neither
  limit; several are noise if all are. False alarms are rare if a true eigenvalue
  exceeds the first limit by 4.4 s, or a true trace exceeds the second by
  3.1 s sqrt(2 n).
- *Users' totals*; see `totals_are_noise`.
- *Means of a public range*; see `errors_exceed`.
- *Estimates of single samples*; see `estimates_are_noise`.
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
"""Largest probability that noise alone is taken for a signal."""

# Excess of the largest eigenvalue, in units of the Tracy-Widom distribution, and of the
# trace, in standard deviations.
_LARGEST_EIGENVALUE, _TRACE = 6.0, 4.5
# Estimates that are expected to keep less than this share of a task hold next to
# nothing, from however many samples an encoder was learned.
_LEAST_KEPT = 0.01


def warn_of_noise(are_noise: bool, message: str) -> None:
    """Warn if what a fit released may be nothing but noise.

    A fit within a private search does not warn: warnings would reveal how many
    candidates were tried, which is secret.

    Parameters
    ----------
    are_noise : bool
        Result of one of the functions below for the released numbers.
    message : str
        What holds little but noise, why, and what to do.
    """
    if are_noise and not is_one_of_many():
        warn(message, NoiseOnlyWarning)


def is_one_of_many() -> bool:
    """Whether this fit is part of a private search, so must not describe its result.

    Messages would reveal how many candidates were tried, which is secret.
    """
    return current_reservation() is not None


def counts_are_noise(counts: ArrayLike, error: float) -> bool:
    """Whether released counts may be nothing but noise.

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
    """Whether released sums of either sign may be nothing but noise.

    Parameters
    ----------
    sums : ndarray of float
    error : float
        Standard deviation of the noise in each. If it is 0, the answer is no.
    """
    if not error:
        return False
    squares = float(np.square(sums / error).sum())
    return squares <= float(chdtri(sums.size, MISSED))


def moments_are_noise(
    matrices: Iterable[tuple[NDArray[np.float64], float]], known: float = 0.0
) -> bool:
    """Whether all released matrices of moments may be nothing but noise.

    Parameters
    ----------
    matrices : iterable of (eigenvalues, deviation)
        All eigenvalues of a released matrix, and the standard deviation of its noise
        off the diagonal. A matrix without noise is never taken for noise.
    known : float, default=0.0
        Bound on the trace that every matrix gets from earlier noise alone.
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
    """Whether, by released totals, there may be no units, or hardly an entry in any.

    A unit adds 1 to the first total. To the second, it adds the scaled logarithm of its
    number of entries, which is at least -1. So the sum of the two totals is the sum of
    the excesses of the logarithms over -1. Units with one or two entries have no
    excess.

    False alarms, with all numbers in standard deviations of the number of units: 10 or
    more units are taken for noise with a probability below 1e-8. Units are said to have
    hardly an entry only if the released excesses, less a tenth of the number of units,
    are below -5.4. This difference has noise of 1.35. Without noise, it is at least -1
    for 10 units, and positive for any number of units that typically have four entries
    or more. So a false alarm has a probability of at most 1e-3.

    Parameters
    ----------
    n_units, logs : float
        Released totals.
    error : float
        Standard deviation of the noise in each.
    """
    # Units have hardly an entry if the excesses of their logarithms are less than a
    # tenth of the number of units, by more than 5.4 standard deviations of that number.
    least = min(3 * math.sqrt(2) * error, 0.1 * n_units - 5.4 * error)
    return counts_are_noise(n_units, error) or n_units + logs < least


def errors_exceed(errors: NDArray[np.float64], widths: NDArray[np.float64]) -> bool:
    """Whether most standard errors of means are larger than the widths of their ranges.

    The middle of a range is then at least three times as accurate as the mean. Standard
    errors are estimated from the samples. If normal noise makes the true standard error
    of an entry three times the width, 16 samples fail to show it with a probability
    below 1e-5. If the true standard error is at most 0.3 widths, a false alarm has a
    probability of at most 1e-3, for any number of samples. Samples in their range,
    without noise, have standard errors of at most half the width.

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


def estimates_are_noise(kept: float, n_samples: int) -> bool:
    """Whether estimates of samples keep no more than a constant may be off.

    An encoder learns from samples that nothing protects, so what it is expected to keep
    of them is known without noise. Of a new sample, it keeps less: the mean of n
    samples, about which all are estimated, is off by a share of 1 / n of the variance.
    The expected share itself has a relative standard error of about sqrt(2 / n), that
    of a variance. Two samples cannot tell anything. This many are too few, or epsilon
    is too small, if the share less one standard error is no larger than 1 / n, or than
    a hundredth.

    False alarms: if 50 samples or more were normal, and a tenth or more was kept of new
    ones, at most 1e-3 (no fit of 2,000). Fits of which no new sample kept anything are
    missed in about 3 of 100, and only if fewer samples than there are entries fit by
    chance (measured for 1 to 60 entries, 3 to 1,000 samples and epsilon .01 to 4).

    Parameters
    ----------
    kept : float
        Share of the task that estimates of the samples are expected to keep: 1 if they
        are exact, 0 if one constant is as good.
    n_samples : int
    """
    surely = kept * (1 - math.sqrt(2 / n_samples))
    return surely <= max(1 / n_samples, _LEAST_KEPT)
