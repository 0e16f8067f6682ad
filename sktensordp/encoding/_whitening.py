"""What standardises and decorrelates the entries of a sample."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Whitening", "standardized", "whitening"]

# Directions with less of the largest variance hold nothing but rounding errors.
_LEAST_VARIANCE = 1e-10
# A column is constant if its values differ by so many roundoffs.
_CONSTANT = 16 * float(np.finfo(float).eps)
# So is one whose values are hardly more than the least numbers there are.
_LEAST_WIDTH = 1e-290
# Standardised entries beyond this are moved to it, so that no product overflows.
_HUGE = 1e100


@dataclass(frozen=True)
class Whitening:
    """x = mean + scale * (L h), the entries of h being uncorrelated with variance 1.

    Attributes
    ----------
    mean, scale : ndarray of shape (n,)
        Of the columns; the scale of a constant column is 1.
    root : ndarray of shape (n, r)
        L, of the standardised columns; r is the rank of their covariance.
    inverse : ndarray of shape (r, n)
        L^+.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    root: NDArray[np.float64]
    inverse: NDArray[np.float64]

    def standardize(self, rows: NDArray[np.floating]) -> NDArray[np.float64]:
        """Standardised columns."""
        return standardized(rows, self.mean, self.scale)


def standardized(
    rows: NDArray[np.floating], mean: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(rows - mean) / scale: finite numbers for every input of finite numbers."""
    with np.errstate(over="ignore"):
        standard = np.subtract(rows, mean, dtype=float)
        standard /= scale
    return np.clip(standard, -_HUGE, _HUGE, out=standard)


def whitening(rows: NDArray[np.floating]) -> Whitening:
    """Second moments of the fitting data, and what whitens them.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n)
        At least two; finite.

    Returns
    -------
    whitening : Whitening
        The covariance may be singular.

    Raises
    ------
    ValueError
        If all rows are equal, or so large that they have no moments.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.mean(rows, axis=0, dtype=float)
        away = np.subtract(rows, mean, dtype=float)
        # Once more, for what the first mean lost to rounding.
        mean += away.mean(axis=0)
        away -= away.mean(axis=0)
        width = np.ptp(away, axis=0)
    if not np.all(np.isfinite(width)):
        raise ValueError("The fitting data are too large to have moments.")
    peak = np.abs(away).max(axis=0)
    varies = (width > _CONSTANT * np.abs(rows).max(axis=0)) & (peak > _LEAST_WIDTH)
    if not np.any(varies):
        raise ValueError("All samples are equal, so there is nothing to encode.")
    away[:, ~varies] = 0.0
    away /= np.where(varies, peak, 1.0)
    spread = np.where(varies, np.sqrt(np.mean(away**2, axis=0)), 1.0)
    away /= spread
    scale = np.where(varies, peak * spread, 1.0)
    if len(rows) >= rows.shape[1]:
        variances, directions = np.linalg.eigh(away.T @ away / len(rows))
    else:
        _, roots, right = np.linalg.svd(away / math.sqrt(len(rows)), False)
        variances, directions = roots**2, right.T
    kept = variances > _LEAST_VARIANCE * variances.max()
    roots, directions = np.sqrt(variances[kept]), directions[:, kept]
    return Whitening(mean, scale, directions * roots, (directions / roots).T)
