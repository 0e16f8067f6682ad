"""Variance of the raw values around the model, estimated from randomised values.

`predict` adds it to the posterior variance. Each randomised value is compared with its
leave-one-out prediction. Only randomised values are read, so this is post-processing.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr

from ...privacy.calibration._table import LevelTable
from ...tensor import (
    Observations,
    ObservedValues,
    Rows,
    TableLikelihood,
    rescaled,
    run_sweeps,
    with_indices,
)
from ...tensor._priors import E_FOLDS
from .._grid import expected_rounding, point_probabilities
from .._problem import Problem
from .._sources import DrawnValues

# Number of bins of predictions, over five quarters of the range.
_N_BINS = 1024


def residual_variance(
    problem: Problem,
    model: Rows,
    offset: float,
    released: DrawnValues,
    entries: ObservedValues,
    likelihood: TableLikelihood | None = None,
) -> tuple[Rows, float]:
    """Variance of the raw values around the model.

    The leave-one-out formula of linear models needs the leverage of each value: its
    weight in its own prediction. The posterior gives the leverages up to a common
    factor. Their sum follows from the response of the whole fit to random moves of the
    values (Ye 1998, "On measuring and correcting the effects of data mining and model
    selection").

    Parameters
    ----------
    problem : Problem
    model : Rows
        Fitted to the randomised values less the offset.
    offset : float
    released : Draws or PartitionedDraws
        Randomised values.
    entries : object
        The entries that the model was fitted to. Do not use them afterwards.
    likelihood : TableLikelihood, default=None
        The likelihood whose observations replaced values of `entries`, if any.

    Returns
    -------
    model : Rows
        The model, with the variance of the randomised values as its noise.
    variance : float
    """
    randomizer = released.randomizer
    # With this many values, the standard error is about a 500th of the noise variance.
    coordinates, drawn, signs = released.compared()
    noisy = randomizer.values_of(drawn, released.dtype).astype(float)
    mean = model.predict(coordinates).astype(float)
    known_share = None if likelihood is None else likelihood.known_share
    fitted_to: NDArray[np.floating] = noisy - offset
    known = randomizer.noise_variance
    if likelihood is not None and known_share is not None:
        fitted_to, _ = likelihood.observe(mean / problem.domain.scale, drawn)
        fitted_to *= problem.domain.scale
        known = known_share * model.noise
    variance, linear = model.variance(coordinates)
    linear = linear * model.weights_of(coordinates)
    # Half the standard deviation of an observation.
    move = 0.5 * math.sqrt(model.noise)
    moved = _moved(problem, model, entries, likelihood, move)
    moves = move * signs
    response = moves @ (moved.predict(coordinates) - mean) / (moves @ moves)
    leverage = linear * max(response, 0.0) / max(linear.mean(), 1e-300)
    kept = 1 - np.minimum(leverage, 0.95)
    # Distances of randomised values from the predictions that leave them out.
    distance = noisy - offset - fitted_to + (fitted_to - mean) / kept
    variance = variance / kept
    width = 2 * problem.domain.scale
    limits = 1e-6 * width**2, 1.0 * width**2
    # Median of the log-normal prior. It matters if heavy noise hides the variance.
    usual = 0.15 * problem.domain.scale**2
    noiseless = randomizer.noise_variance < 1e-9 * limits[0]
    if randomizer.mechanism is None or (noiseless and not randomizer.has_table):
        estimate = np.mean(distance**2) - np.mean(variance)
    elif randomizer.is_on_grid:
        estimate = _on_grid(
            randomizer.mechanism,
            drawn,
            noisy - distance,
            float(np.mean(variance)),
            usual,
            limits,
        )
    elif randomizer.has_table:
        squares = _squared_distances(randomizer.mechanism, drawn, noisy - distance)
        estimate = unbiased = squares.mean() - np.mean(variance)
        error = squares.std() / math.sqrt(len(squares))
        if error > 0:

            def cost(log_residual: float) -> float:
                return ((math.exp(log_residual) - unbiased) / error) ** 2 / 2

            estimate = _least(cost, usual, limits, 1e-6)
    else:
        scale = math.sqrt(randomizer.noise_variance / 2)
        estimate = _most_likely(scale, distance, variance, usual, limits)
    if known_share is not None:
        noise = np.mean(distance**2) - np.mean(variance)
        model = _restated(model, known, randomizer.noise_variance, noise)
    return model, float(np.clip(estimate, *limits))


def _moved(
    problem: Problem,
    model: Rows,
    entries: ObservedValues,
    likelihood: TableLikelihood | None,
    move: float,
) -> Rows:
    """Fit to values that were moved by random signs."""
    scale = problem.domain.scale
    # If no term of a smooth mode is left, its rows without entries were dropped.
    rows = with_indices(rescaled(model, 1 / scale), entries.used)
    rows, entries = entries.with_rows(rows)
    entries, _ = entries.change_values(_moved_values, rows, likelihood, move / scale)
    rows = run_sweeps(
        entries.gathered(rows), entries, n_sweeps=4, n_threads=problem.n_threads
    )
    return rescaled(rows, scale)


def _moved_values(
    rows: Rows, entries: Observations, likelihood: TableLikelihood | None, move: float
) -> tuple[NDArray[np.floating], tuple[()]]:
    """Move values, or the observations that replace them, by random signs."""
    outputs, signs = entries.outputs, entries.signs
    assert signs is not None
    if likelihood is not None and likelihood.known_share is not None:
        assert outputs is not None
        values, _ = likelihood.observe(entries.fitted(rows), outputs)
    else:
        values = np.empty_like(entries.values[0])
        values[entries.groups[0].order] = entries.values[0]
    return (values + move * signs).astype(values.dtype), ()


def _restated(model: Rows, before: float, known: float, noise: float) -> Rows:
    """The model with the noise of the randomised values, not of their replacements.

    Rows keep their shares of the unknown part of the noise.

    Parameters
    ----------
    model : Rows
    before : float
        Known part of the model's noise variance.
    known, noise : float
        Known part of the variance of randomised values, and this variance.
    """
    noise = float(max(noise, known))
    if model.stated_weights is None:
        return replace(model, noise=noise)
    unknown = model.noise - before
    share = (model.noise / model.stated_weights - before) / unknown
    weights = noise / (known + (noise - known) * share)
    return replace(model, noise=noise, stated_weights=weights)


def _squared_distances(
    table: LevelTable, drawn: NDArray[np.integer], mean: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Unbiased estimates of the squared distances of raw values from given means.

    The values were drawn from a table Q. A function w of the output with Q w = t is an
    unbiased estimate of t(level); among these, this takes the one of least variance for
    equally frequent levels. A squared distance combines three such functions. If the
    table does not determine these functions, they are the least-squares solutions.
    """
    levels, order = np.array(table.levels), np.argsort(table.outputs)
    centre = levels.mean()
    levels, mean = levels - centre, mean - centre
    channel = table.probabilities
    scaled = channel / channel.mean(axis=0)
    powers = np.stack([levels**2, levels, np.ones_like(levels)], axis=1)
    weights = scaled.T @ np.linalg.lstsq(scaled @ channel.T, powers, rcond=1e-9)[0]
    square, value, constant = weights[order[drawn]].T
    return square - 2 * mean * value + mean**2 * constant


def _most_likely(
    scale: float,
    distance: NDArray[np.floating],
    variance: NDArray[np.floating],
    usual: float,
    limits: tuple[float, float],
) -> float:
    """Most likely variance of normal values around means, with Laplace noise."""

    def cost(log_residual: float) -> float:
        ratio = np.sqrt(variance + math.exp(log_residual)) / scale
        sides = [
            sign * distance / scale + log_ndtr(-sign * distance / scale / ratio - ratio)
            for sign in (1.0, -1.0)
        ]
        return -np.sum(np.logaddexp(*sides) + ratio**2 / 2)

    return _least(cost, usual, limits, 0.02)


def _on_grid(
    table: LevelTable,
    drawn: NDArray[np.integer],
    mean: NDArray[np.floating],
    variance: float,
    usual: float,
    limits: tuple[float, float],
) -> float:
    """Variance of values around means, if a table has randomised them on a grid.

    The most likely variance of normal values is precise, since it knows the points
    between which a mean lies. `_reconciled` with the squared distances of the points
    from the means, less what the rounding adds to them, it holds for other values too.

    Parameters
    ----------
    table : LevelTable
    drawn : ndarray of shape (n,), int
    mean : ndarray of shape (n,)
        Predictions that leave a value out.
    variance : float
        Variance of the error of a mean.
    usual, limits : object
        As `_least`.
    """
    points = np.array(table.levels)
    centre, width = points.mean(), np.ptp(points)
    points = points - centre
    # Predictions beyond the range by more count as a little beyond it.
    edges = np.linspace(-5 / 8, 5 / 8, _N_BINS + 1) * width
    n_outputs = len(table.outputs)
    cells = np.searchsorted(edges[1:-1], mean - centre) * n_outputs + drawn
    counts = np.bincount(cells, minlength=_N_BINS * n_outputs)
    counts = counts.reshape(_N_BINS, n_outputs)
    some = counts.any(axis=1)
    counts, means = counts[some], (edges[1:] + edges[:-1])[some] / 2
    channel = table.in_order

    def cost(log_residual: float) -> float:
        deviation = math.sqrt(variance + math.exp(log_residual))
        met = point_probabilities(points, means, deviation) @ channel
        return -float(np.sum(counts * np.log(np.maximum(met, 1e-300))))

    likely = _least(cost, usual, limits, 0.02)
    rounding = expected_rounding(points, means, math.sqrt(variance + likely))
    squares = _squared_distances(table, drawn, mean)
    unbiased = squares.mean() - np.average(rounding, weights=counts.sum(axis=1))
    error = squares.std() / math.sqrt(len(squares))
    return _reconciled(likely, float(unbiased - variance), float(error))


def _reconciled(likely: float, unbiased: float, error: float) -> float:
    """Between an estimate that an assumption makes precise, and an unbiased one.

    If the assumption holds, the squared difference of the two is at most `error`
    squared, on average. What exceeds this is taken for the bias of the precise one.

    Parameters
    ----------
    likely, unbiased : float
        The two estimates.
    error : float
        Standard error of the unbiased one.
    """
    difference = unbiased - likely
    if abs(difference) <= error:
        return likely
    return likely + difference * (1 - (error / difference) ** 2)


def _least(
    cost: Callable[[float], float],
    usual: float,
    limits: tuple[float, float],
    tolerance: float,
) -> float:
    """The variance of least cost, by its logarithm; the prior adds to the cost."""
    result = minimize_scalar(
        lambda log: cost(log) + ((log - math.log(usual)) / E_FOLDS) ** 2 / 2,
        bounds=np.log(limits),
        method="bounded",
        options={"xatol": tolerance},
    )
    return math.exp(result.x)
