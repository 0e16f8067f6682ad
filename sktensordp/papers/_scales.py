"""Means and scales of rows and columns, from raw values or from noisy sums.

The model of the scales: the squared residual in row i and column j has mean s t_i g_j,
where s is the common variance, and variance 2 (s t_i g_j)^2, as for a normal residual.
The priors of log t_i and log g_j are normal with mean zero. Given the columns, the sum
of squares in a row is treated as normal, and log t_i is estimated by its posterior
mode; then the columns are estimated given the rows. s and the prior variances of log t
and log g maximise the likelihood of the sums.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning

from .._random import NoiseStreams
from .._validation import warn
from ..completion._entries import Entries
from ..completion.measurements._sums import SumsRandomizer
from ..tensor import fit_biases_to_sums

# Prior guesses, each with its uncertainty in e-folds: the common variance over the
# squared half range, and the variance of the log variances of the rows.
_COMMON_VARIANCE, _COMMON_E_FOLDS = 0.2, 3.0
_LOG_VARIANCE, _LOG_E_FOLDS = 0.1, 0.5
_ROUNDS, _STEPS = 4, 30
# Of the published procedure: the largest number of sweeps, the change of a standardised
# value at which they end, and the share of the variance that counts as zero.
_MAX_SWEEPS, _TOLERANCE, _NO_VARIANCE = 1000, 1e-10, 1e-12


def private_statistics(
    means: SumsRandomizer,
    squares: SumsRandomizer,
    values: NDArray[np.floating],
    streams: NoiseStreams | None = None,
) -> tuple[float, list[NDArray[Any]], float, list[NDArray[np.float64]]]:
    """Compute means and scales of rows and columns from noisy sums.

    Only the two randomizers read the values.

    Parameters
    ----------
    means, squares : SumsRandomizer
        Randomizers for the sums of values, and for the sums of squared residuals over
        the squared half range.
    values : ndarray of shape (n,), float
    streams : NoiseStreams, default=None
        None for no noise.

    Returns
    -------
    offset, means, scale, scales
        As for `published_statistics`.
    """
    low, high = means.domain.bounds
    observed = means.entries
    assert isinstance(observed, Entries)
    middle, half = means.domain.middle, means.domain.scale

    def release(
        randomizer: SumsRandomizer, values: NDArray[np.floating], step: int
    ) -> NDArray[np.float64]:
        entries = replace(observed, values=values)
        return randomizer.release(entries, streams, step)

    sums = release(means, values, 0) - middle * means.counts
    shape, noise_variance = means.entries.shape, means.noise_variance
    gram = means.entries.shared()
    offset, model = fit_biases_to_sums(gram, sums, noise_variance, shape, half)
    offset = float(np.clip(middle + offset, low, high))
    biases = [factor[:, mode].copy() for mode, factor in enumerate(model.factors)]
    residual = np.clip(values, low, high) - offset
    columns = observed.coordinates.T
    for bias, column in zip(biases, columns, strict=True):
        residual -= bias[column]
    # The randomizer clips the squares to [0, 1].
    sums = release(squares, (residual / half) ** 2, 1)
    common, logs = _scales_from_sums(columns, sums, squares.noise_variance, shape)
    scale = half * math.sqrt(common)
    return offset, biases, scale, [math.sqrt(scale) * np.exp(x / 2) for x in logs]


def _scales_from_sums(
    columns: NDArray[np.integer],
    sums: NDArray[np.float64],
    noise_variance: float,
    sizes: tuple[int, ...],
) -> tuple[float, list[NDArray[np.float64]]]:
    """Estimate the common variance, and the variances of rows and columns over it.

    Parameters
    ----------
    columns : ndarray of shape (2, n), int
        Row and column of each entry.
    sums : ndarray of shape (sum of sizes,), float
        Noisy sums of squares in every row and then in every column.
    noise_variance : float
        Variance of the noise of each sum.
    sizes : tuple of (int, int)

    Returns
    -------
    common : float
        Positive.
    logs : list of two ndarrays of shape (sizes[mode],)
        Logarithms of the variances of rows and columns over the common one; zero if
        there is no entry.
    """
    sums_by_mode = np.split(sums, sizes[:1])
    seen = [
        np.bincount(column, minlength=size) > 0
        for column, size in zip(columns, sizes, strict=True)
    ]
    logs = [np.zeros(size) for size in sizes]
    n_seen = np.array([np.count_nonzero(s) for s in seen])
    # Rows and columns give two noisy totals; average them by their precision.
    totals = np.array(
        [each[s].sum() for each, s in zip(sums_by_mode, seen, strict=True)]
    )
    total = np.sum(totals / n_seen) / np.sum(1 / n_seen)
    noise_of_total = noise_variance / np.sum(1 / n_seen)

    def common_variance() -> float:
        weight = np.exp(logs[0][columns[0]] + logs[1][columns[1]])
        mean, spread = weight.sum(), 2 * np.sum(weight**2)
        return _most_likely_variance(
            lambda s: (total - s * mean, noise_of_total + s * s * spread),
            _COMMON_VARIANCE,
            _COMMON_E_FOLDS,
        )

    for _ in range(_ROUNDS):
        common = common_variance()
        for mode, column in enumerate(columns):
            expected = common * np.exp(logs[1 - mode][columns[1 - mode]])
            mean = np.bincount(column, expected, sizes[mode])[seen[mode]]
            spread = 2 * np.bincount(column, expected**2, sizes[mode])[seen[mode]]
            mode_sums, x = sums_by_mode[mode][seen[mode]], logs[mode][seen[mode]]
            variance = noise_variance + spread * np.exp(2 * x)
            width = _most_likely_variance(
                lambda v, f=mode_sums, m=mean, n=variance: (f - m, n + v * m * m),
                _LOG_VARIANCE,
                _LOG_E_FOLDS,
            )
            logs[mode][seen[mode]] = _log_ratios(
                mode_sums, mean, spread, noise_variance, width, x
            )
    return common_variance(), logs


def _most_likely_variance(
    normal: Callable[..., tuple[Any, Any]], prior: float, e_folds: float
) -> float:
    """Posterior mode of a variance.

    Parameters
    ----------
    normal : callable
        Takes the variance; returns normal deviations and their variances under it.
    prior : float
        Centre of the prior.
    e_folds : float
        Standard deviation of the log of the variance.

    Returns
    -------
    variance : float
    """

    def cost(log_ratio: float) -> float:
        deviation, variance = normal(prior * math.exp(log_ratio))
        fit = np.sum(np.log(variance) + deviation**2 / variance)
        return fit + log_ratio**2 / e_folds**2

    result = minimize_scalar(cost, bounds=(-40, 40), method="bounded")
    return prior * math.exp(result.x)


def _log_ratios(
    sums: NDArray[np.float64],
    mean: NDArray[Any],
    spread: NDArray[Any],
    noise_variance: float,
    width: float,
    start: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Posterior modes x of the log ratios of sums to their means, by Newton steps.

    Each x solves (sum - mean e^x) mean e^x / variance = x / width, where variance is
    noise_variance + spread e^(2x).
    """
    x = start
    for _ in range(_STEPS):
        ratio = np.exp(x)
        expected, variance = mean * ratio, noise_variance + spread * ratio**2
        excess = expected - sums
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
    """Compute the means and scales of rows and columns from raw values.

    Parameters
    ----------
    columns : ndarray of shape (2, n), int
        Row and column of each entry.
    values : ndarray of shape (n,), float
    sizes : tuple of (int, int)
    on_sweep : callable, default=None
        Called after each sweep; returning true ends the procedure.

    Returns
    -------
    offset : float
    means : list of two ndarrays of shape (sizes[mode],)
        Means less the offset.
    scale : float
        The common scale.
    scales : list of two ndarrays of shape (sizes[mode],)
        The scales of rows and columns; the root of `scale` if the entries do not
        determine a scale.
    """
    counts = [
        np.bincount(column, minlength=size)
        for column, size in zip(columns, sizes, strict=True)
    ]
    offset, std = float(values.mean()), float(values.std()) or 1.0
    centred = z = (values - offset) / std
    common, means = 1.0, [np.zeros(size) for size in sizes]
    scales = [np.ones(size) for size in sizes]
    varied = [n >= 2 for n in counts]
    for _ in range(_MAX_SWEEPS):
        before = z
        for mode, column in enumerate(columns):
            other = columns[1 - mode]
            weight = 1 / scales[1 - mode][other]
            sums = np.bincount(column, weight * (centred - means[1 - mode][other]))
            weights = np.bincount(column, weight)
            seen = weights > 0
            means[mode][: len(sums)][seen] = sums[seen] / weights[seen]
        residual = centred - means[0][columns[0]] - means[1][columns[1]]
        for mode, column in enumerate(columns):
            others = common * scales[1 - mode][columns[1 - mode]]
            n = np.maximum(counts[mode], 1)
            plain = np.bincount(column, residual**2, sizes[mode]) / n
            square = np.bincount(column, (residual / others) ** 2, sizes[mode]) / n
            # Exclude a row for good, since its scale would go to zero again.
            varied[mode] &= plain > _NO_VARIANCE
            scales[mode][:] = 1.0
            if varied[mode].any():
                roots = np.sqrt(square[varied[mode]])
                # Move the common level of the scales to the overall scale.
                level = math.exp(np.mean(np.log(roots)))
                scales[mode][varied[mode]] = roots / level
                common *= level
        z = residual / (common * scales[0][columns[0]] * scales[1][columns[1]])
        stops = on_sweep is not None and on_sweep()
        if stops or np.max(np.abs(z - before)) <= _TOLERANCE:
            break
    else:
        warn(
            f"The means and scales have not converged after {_MAX_SWEEPS} sweeps.",
            ConvergenceWarning,
        )
    for mean, count in zip(means, counts, strict=True):
        level = float(count @ mean / len(values))
        mean[count > 0] -= level
        offset += std * level
    scale = std * common
    return (
        offset,
        [std * mean for mean in means],
        scale,
        [math.sqrt(scale) * each for each in scales],
    )
