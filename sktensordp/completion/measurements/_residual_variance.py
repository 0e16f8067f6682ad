"""Variance of the raw values around the model, estimated from randomised values.

`predict` adds it to the posterior variance. Each randomised value is compared with its
leave-one-out prediction. Only randomised values are read, so this is post-processing.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from ...privacy.calibration._table import LevelTable
from ...tensor import Rows, TableLikelihood
from ...tensor._priors import E_FOLDS
from .._problem import Problem

_LARGEST_LEVERAGE = 0.95
# Limits of the estimate, in squared widths of the range.
_SMALLEST, _LARGEST = 1e-6, 1.0
# Median of its log-normal prior, in half ranges squared, for noise so heavy that
# randomised values hardly tell it.
_USUAL = 0.15


def residual_variance(
    problem: Problem,
    model: Rows,
    offset: float,
    released: Any,
    likelihood: TableLikelihood | None = None,
) -> tuple[Rows, float]:
    """Variance of the raw values around the model.

    The leave-one-out formula of linear models needs the leverage of each value: its
    weight in its own prediction. The posterior gives it: the variance of the linearised
    model over that of the value.

    Parameters
    ----------
    problem : Problem
    model : Rows
        Fitted to the randomised values less the offset.
    offset : float
    released : Draws or PartitionedDraws
        Randomised values.
    likelihood : TableLikelihood, default=None
        The one that replaced the values that the model was fitted to, if any did.

    Returns
    -------
    model : Rows
        The same, but with the variance of the randomised values as its noise.
    variance : float
    """
    randomizer = released.randomizer
    # With so many values, the standard error is about a 500th of the noise variance.
    coordinates, drawn = released.compared()
    noisy = randomizer.values_of(drawn, released.dtype).astype(float)
    mean = model.predict(coordinates).astype(float)
    known_share = None if likelihood is None else likelihood.known_share
    fitted_to, known = noisy - offset, randomizer.noise_variance
    if likelihood is not None and known_share is not None:
        likelihood.observe(mean / problem.domain.scale, drawn, fitted_to)
        fitted_to *= problem.domain.scale
        known = known_share * model.noise
    variance, linear = model.variance(coordinates)
    leverage = linear * model.weights_of(coordinates) / model.noise
    kept = 1 - np.minimum(leverage, _LARGEST_LEVERAGE)
    # Distances of randomised values from the predictions that leave them out.
    distance = noisy - offset - fitted_to + (fitted_to - mean) / kept
    variance = variance / kept
    width = 2 * problem.domain.scale
    limits = _SMALLEST * width**2, _LARGEST * width**2
    usual = _USUAL * problem.domain.scale**2
    if randomizer.has_table:
        squares = _squared_distances(randomizer.mechanism, drawn, noisy - distance)
    else:
        squares = distance**2 - randomizer.noise_variance
    estimate = squares.mean() - np.mean(variance)
    error = squares.std() / math.sqrt(len(squares))
    estimate = _most_likely(estimate, error, usual, limits)
    if known_share is not None:
        noise = np.mean(distance**2) - np.mean(variance)
        model = _restated(model, known, randomizer.noise_variance, noise)
    return model, float(np.clip(estimate, *limits))


def _restated(model: Rows, before: float, known: float, noise: float) -> Rows:
    """The model with the noise of randomised values in place of that of others.

    Rows keep their shares of what is not known of the noise.

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
    table does not determine them, they are the least-squares solutions.
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
    estimate: float, error: float, usual: float, limits: tuple[float, float]
) -> float:
    """Most likely variance, given an unbiased estimate and its standard error."""
    if not error > 0:
        return estimate

    def cost(log_residual: float) -> float:
        distance = (math.exp(log_residual) - estimate) / error
        return distance**2 + ((log_residual - math.log(usual)) / E_FOLDS) ** 2

    bounds, options = np.log(limits), {"xatol": 1e-6}
    best = minimize_scalar(cost, bounds=bounds, method="bounded", options=options)
    return math.exp(best.x)
