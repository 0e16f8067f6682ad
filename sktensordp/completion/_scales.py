"""Means and scales of rows and columns: of raw values, or from noisy sums.

Scales. The square of a residual in row i and column j has mean s t_i g_j and, if the
residual is normal, a variance of twice that squared; s is the common variance. The
logarithms of t and of g are normal about zero. Given the columns, the sum in a row is
taken for normal, and log t_i is its posterior mode; and the other way round. s and the
widths of log t and log g are those under which the sums are most likely.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning

from .._random import NoiseStreams
from ..tensor import fit_biases_to_sums
from .solvers._sums import SumsRandomizer

__all__ = ["private_statistics", "published_statistics"]

# Before any sum is seen: the common variance over the square of half the range, the
# variance of the logarithm of a row's, and how many e-folds each may be off.
_COMMON_VARIANCE, _COMMON_E_FOLDS = 0.2, 3.0
_LOG_VARIANCE, _LOG_E_FOLDS = 0.1, 0.5
_ROUNDS, _STEPS = 4, 30
# The published procedure: sweeps, change of a standardised value at which they end, and
# the share of the variance below which there is none.
_MAX_SWEEPS, _TOLERANCE, _NO_VARIANCE = 1000, 1e-10, 1e-12


def private_statistics(
    means: SumsRandomizer,
    squares: SumsRandomizer,
    values: NDArray[np.floating],
    streams: NoiseStreams | None = None,
) -> tuple[float, list[NDArray[Any]], float, list[NDArray[np.float64]]]:
    """Means and scales of rows and columns from noisy sums.

    Parameters
    ----------
    means, squares : SumsRandomizer
        Of the values, and of the squares of their residuals over half the range.
    values : ndarray of shape (n,), float
    streams : NoiseStreams, default=None
        None for no noise.

    Returns
    -------
    offset, means, scale, scales
        As of `published_statistics`. Only the two randomisers have read the values.
    """
    low, high = means.values.bounds
    middle, half = (low + high) / 2, (high - low) / 2

    def draw(
        sums: SumsRandomizer, values: NDArray[np.floating], step: int
    ) -> NDArray[np.float64]:
        if streams is None:
            return sums.clip(values)
        return sums.randomize(values, streams.step(step))

    sums = draw(means, values, 0) - middle * means.counts
    offset, model = fit_biases_to_sums(
        means.where, sums, means.noise_variance, means.shape, half
    )
    offset = float(np.clip(middle + offset, low, high))
    biases = [factor[:, mode].copy() for mode, factor in enumerate(model.factors)]
    rest = np.clip(values, low, high) - offset
    for bias, column in zip(biases, means.where.T, strict=True):
        rest -= bias[column]
    # Clipped by the randomiser, to [0, 1].
    sums = draw(squares, (rest / half) ** 2, 1)
    common, logs = _scales_from_sums(
        squares.where.T, sums, squares.noise_variance, squares.shape
    )
    scale = half * math.sqrt(common)
    return offset, biases, scale, [math.sqrt(scale) * np.exp(x / 2) for x in logs]


def _scales_from_sums(
    columns: NDArray[np.integer],
    sums: NDArray[np.float64],
    noise_variance: float,
    sizes: tuple[int, ...],
) -> tuple[float, list[NDArray[np.float64]]]:
    """Common variance, and how much larger those of rows and columns are.

    Parameters
    ----------
    columns : ndarray of shape (2, n), int
        Row and column of each entry.
    sums : ndarray of shape (sum of sizes,), float
        Noisy sums of squares in every row and then in every column.
    noise_variance : float
        Of each sum.
    sizes : tuple of (int, int)

    Returns
    -------
    common : float
        Positive.
    logs : list of two ndarrays of shape (sizes[mode],)
        Logarithms of the variances of rows and columns over the common one; zero where
        there is no entry.
    """
    by_mode = np.split(sums, sizes[:1])
    seen = [
        np.bincount(column, minlength=size) > 0
        for column, size in zip(columns, sizes, strict=True)
    ]
    logs = [np.zeros(size) for size in sizes]
    n_seen = np.array([np.count_nonzero(s) for s in seen])
    # The mean of both totals, weighted by the precision of their noise.
    totals = np.array([each[s].sum() for each, s in zip(by_mode, seen, strict=True)])
    total = np.sum(totals / n_seen) / np.sum(1 / n_seen)
    noise_of_total = noise_variance / np.sum(1 / n_seen)

    def common_variance() -> float:
        weight = np.exp(logs[0][columns[0]] + logs[1][columns[1]])
        known, spread = weight.sum(), 2 * np.sum(weight**2)
        return _most_likely(
            lambda s: (total - s * known, noise_of_total + s * s * spread),
            _COMMON_VARIANCE,
            _COMMON_E_FOLDS,
        )

    for _ in range(_ROUNDS):
        common = common_variance()
        for mode, column in enumerate(columns):
            expected = common * np.exp(logs[1 - mode][columns[1 - mode]])
            mean = np.bincount(column, expected, sizes[mode])[seen[mode]]
            spread = 2 * np.bincount(column, expected**2, sizes[mode])[seen[mode]]
            found, x = by_mode[mode][seen[mode]], logs[mode][seen[mode]]
            variance = noise_variance + spread * np.exp(2 * x)
            width = _most_likely(
                lambda v, f=found, m=mean, n=variance: (f - m, n + v * m * m),
                _LOG_VARIANCE,
                _LOG_E_FOLDS,
            )
            logs[mode][seen[mode]] = _log_ratios(
                found, mean, spread, noise_variance, width, x
            )
    return common_variance(), logs


def _most_likely(
    normal: Callable[..., tuple[Any, Any]], prior: float, e_folds: float
) -> float:
    """The variance under which deviations, normal with a given variance, are likely."""

    def cost(log_ratio: float) -> float:
        deviation, variance = normal(prior * math.exp(log_ratio))
        fit = np.sum(np.log(variance) + deviation**2 / variance)
        return fit + log_ratio**2 / e_folds**2

    found = minimize_scalar(cost, bounds=(-40, 40), method="bounded")
    return prior * math.exp(found.x)


def _log_ratios(
    found: NDArray[np.float64],
    mean: NDArray[Any],
    spread: NDArray[Any],
    noise_variance: float,
    width: float,
    start: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Logarithms of what multiplies the means, from sums and their prior, by Newton.

    Each solves (found - mean e^x) mean e^x / variance = x / width, the variance of the
    sum, too, being that at x.
    """
    x = start
    for _ in range(_STEPS):
        ratio = np.exp(x)
        expected, variance = mean * ratio, noise_variance + spread * ratio**2
        excess = expected - found
        slope = excess * expected / variance + x / width
        curvature = (expected + np.maximum(excess, 0)) * expected / variance + 1 / width
        x = x - np.clip(slope / curvature, -1, 1)
    return x


def published_statistics(
    columns: NDArray[np.integer],
    values: NDArray[np.floating],
    sizes: tuple[int, ...],
    on_sweep: Callable[[], Any] | None = None,
) -> tuple[float, list[NDArray[Any]], float, list[NDArray[np.float64]]]:
    """Means and scales of raw values by which rows and columns are standardised.

    Parameters
    ----------
    columns : ndarray of shape (2, n), int
        Row and column of each entry.
    values : ndarray of shape (n,), float
    sizes : tuple of (int, int)
    on_sweep : callable, default=None
        Called after each sweep; a true answer ends them.

    Returns
    -------
    offset : float
    means : list of two ndarrays of shape (sizes[mode],)
        From the offset.
    scale : float
    scales : list of two ndarrays of shape (sizes[mode],)
        Those that an entry does not determine are the root of `scale`.
    """
    counts = [
        np.bincount(column, minlength=size)
        for column, size in zip(columns, sizes, strict=True)
    ]
    offset, unit = float(values.mean()), float(values.std()) or 1.0
    rest = z = (values - offset) / unit
    common, means = 1.0, [np.zeros(size) for size in sizes]
    scales = [np.ones(size) for size in sizes]
    varied = [n >= 2 for n in counts]
    for _ in range(_MAX_SWEEPS):
        before = z
        for mode, column in enumerate(columns):
            other = columns[1 - mode]
            weight = 1 / scales[1 - mode][other]
            sums = np.bincount(column, weight * (rest - means[1 - mode][other]))
            weights = np.bincount(column, weight)
            seen = weights > 0
            means[mode][: len(sums)][seen] = sums[seen] / weights[seen]
        residual = rest - means[0][columns[0]] - means[1][columns[1]]
        for mode, column in enumerate(columns):
            others = common * scales[1 - mode][columns[1 - mode]]
            n = np.maximum(counts[mode], 1)
            plain = np.bincount(column, residual**2, sizes[mode]) / n
            square = np.bincount(column, (residual / others) ** 2, sizes[mode]) / n
            # Once without variance, always: its scale would go to zero again.
            varied[mode] &= plain > _NO_VARIANCE
            scales[mode][:] = 1.0
            if varied[mode].any():
                roots = np.sqrt(square[varied[mode]])
                # Rows and columns have one level in common.
                level = math.exp(np.mean(np.log(roots)))
                scales[mode][varied[mode]] = roots / level
                common *= level
        z = residual / (common * scales[0][columns[0]] * scales[1][columns[1]])
        stops = on_sweep is not None and on_sweep()
        if stops or np.max(np.abs(z - before)) <= _TOLERANCE:
            break
    else:
        warnings.warn(
            f"The means and scales still change after {_MAX_SWEEPS} sweeps.",
            ConvergenceWarning,
            stacklevel=5,
        )
    for mean, count in zip(means, counts, strict=True):
        level = float(count @ mean / len(values))
        mean[count > 0] -= level
        offset += unit * level
    scale = unit * common
    return (
        offset,
        [unit * mean for mean in means],
        scale,
        [math.sqrt(scale) * each for each in scales],
    )
