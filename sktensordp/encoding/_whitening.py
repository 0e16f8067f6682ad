"""Whitening: standardise and decorrelate the entries of a sample."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._validation import warn

# Directions below this share of the largest variance hold only rounding errors.
_LEAST_VARIANCE = 1e-10
# A column counts as constant if its relative range is at most this, or if its values
# are close to the smallest numbers that floats can hold.
_CONSTANT = 16 * float(np.finfo(float).eps)
_LEAST_WIDTH = 1e-290
# Standardised entries are clipped to this, so that no product overflows.
_HUGE = 1e100


@dataclass(frozen=True)
class Whitening:
    """x = mean + scale * (L h), with entries of h uncorrelated and of variance 1.

    Attributes
    ----------
    mean, scale : ndarray of shape (n,)
        Mean and scale of the columns; the scale of a constant column is 1.
    root : ndarray of shape (n, r)
        L, for the standardised columns; r is the rank of their covariance.
    inverse : ndarray of shape (r, n)
        L^+.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    root: NDArray[np.float64]
    inverse: NDArray[np.float64]

    def standardize(self, rows: NDArray[np.floating]) -> NDArray[np.float64]:
        """Standardise the columns of `rows`."""
        return standardized(rows, self.mean, self.scale)


def standardized(
    rows: NDArray[np.floating], mean: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(rows - mean) / scale, clipped, so that finite input gives finite output."""
    with np.errstate(over="ignore"):
        standard = np.subtract(rows, mean, dtype=float)
        standard /= scale
    return np.clip(standard, -_HUGE, _HUGE, out=standard)


def whitening(rows: NDArray[np.floating]) -> Whitening:
    """Compute the whitening of the fitting data from their second moments.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n)
        At least two, finite. Their covariance may be singular.

    Returns
    -------
    whitening : Whitening

    Raises
    ------
    ValueError
        If all rows are equal, or so large that their moments overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.mean(rows, axis=0, dtype=float)
        centred = np.subtract(rows, mean, dtype=float)
        # Centre again, to correct the rounding error of the first mean.
        mean += centred.mean(axis=0)
        centred -= centred.mean(axis=0)
        width = np.ptp(centred, axis=0)
    if not np.all(np.isfinite(width)):
        raise ValueError(
            "The samples in X are too large: their moments overflow. Rescale them."
        )
    peak = np.abs(centred).max(axis=0)
    varies = (width > _CONSTANT * np.abs(rows).max(axis=0)) & (peak > _LEAST_WIDTH)
    if not np.any(varies):
        raise ValueError(
            "All samples in X are equal, so there is nothing to encode. Pass "
            "samples that vary."
        )
    centred[:, ~varies] = 0.0
    centred /= np.where(varies, peak, 1.0)
    spread = np.where(varies, np.sqrt(np.mean(centred**2, axis=0)), 1.0)
    centred /= spread
    scale = np.where(varies, peak * spread, 1.0)
    if len(rows) >= rows.shape[1]:
        variances, directions = np.linalg.eigh(centred.T @ centred / len(rows))
    else:
        _, roots, right = np.linalg.svd(centred / math.sqrt(len(rows)), False)
        variances, directions = roots**2, right.T
    kept = variances > _LEAST_VARIANCE * variances.max()
    roots, directions = np.sqrt(variances[kept]), directions[:, kept]
    if len(roots) >= len(rows) - 1:
        warn(
            "X has no more samples than directions in which they vary, so the encoder "
            "loses what other people's samples hold besides, and its expected loss is "
            "too small. Fit it to more samples, at least ten for each entry of one."
        )
    return Whitening(mean, scale, directions * roots, (directions / roots).T)
