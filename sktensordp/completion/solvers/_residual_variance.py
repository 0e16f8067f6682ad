"""How far the observed values lie from the model: what `predict` adds to its posterior.

The randomised values are compared with what the model predicts for each of them without
its own help. All is computed from randomised values, hence post-processing.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr

from ...privacy.calibration._table import LevelTable
from ...tensor import (
    StructuredCP,
    StructuredTucker,
    continue_structured_cp,
    continue_structured_tucker,
)
from .._problem import Problem

__all__ = ["MOST_COMPARED", "residual_variance"]

# As many values are compared at most: the standard error of what is found is then about
# a 500th of the noise's variance.
MOST_COMPARED = 2**18
# The response of the fit is read off values that are moved by this much of their noise,
# after so many sweeps.
_MOVE, _SWEEPS = 0.5, 4
# An entry hardly determines its own prediction alone.
_LARGEST_LEVERAGE = 0.95
_SMALLEST, _LARGEST = 1e-6, 1.0


def residual_variance(
    problem: Problem,
    model: StructuredCP | StructuredTucker,
    offset: float,
    released: Any,
) -> float:
    """Variance of the values, before they were randomised, around the model.

    Each value is left out of its own prediction by the formula of linear models, which
    asks for its weight there. In proportion to one another, these leverages follow from
    the posterior; their sum is that of the response of the whole fit to values that
    are moved at random (Ye 1998, "On measuring and correcting the effects of data
    mining and model selection").

    Parameters
    ----------
    problem : Problem
    model : StructuredCP or StructuredTucker
        Fitted to the values.
    offset : float
        Taken off the values.
    released : object
        Randomised values, as the problem has them.

    Returns
    -------
    variance : float
    """
    randomizer = problem.values
    coordinates, shown, signs = problem.compared(released, MOST_COMPARED)
    shown = shown.astype(float)
    mean = model.predict(coordinates).astype(float)
    variance, linear = model.variance(coordinates)
    move: Any = _MOVE * math.sqrt(model.noise_variance)
    is_tucker = isinstance(model, StructuredTucker)
    go_on: Any = continue_structured_tucker if is_tucker else continue_structured_cp
    moved = go_on(
        model, problem.entries(released, offset, move=move), max_iter=_SWEEPS,
        n_threads=problem.n_threads,
    )  # fmt: skip
    move = move * signs
    response = move @ (moved.predict(coordinates) - mean) / (move @ move)
    leverage = linear * max(response, 0.0) / max(linear.mean(), 1e-300)
    kept = 1 - np.minimum(leverage, _LARGEST_LEVERAGE)
    distance, variance = (shown - offset - mean) / kept, variance / kept
    width = randomizer.bounds[1] - randomizer.bounds[0]
    limits = _SMALLEST * width**2, _LARGEST * width**2
    noiseless = randomizer.noise_variance < 1e-9 * limits[0]
    if randomizer.mechanism is None or (noiseless and not randomizer.has_table):
        found = np.mean(distance**2) - np.mean(variance)
    elif randomizer.has_table:
        squares = _squared_distances(randomizer.mechanism, shown, shown - distance)
        found = squares.mean() - np.mean(variance)
    else:
        scale = math.sqrt(randomizer.noise_variance / 2)
        found = _most_likely(scale, distance, variance, limits)
    return float(np.clip(found, *limits))


def _squared_distances(
    table: LevelTable, released: NDArray[np.floating], mean: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Unbiased squared distances of the values in a table from given means.

    A function w of the symbol with Q w = t is an unbiased estimate of t(level); of
    these the one of least variance, for levels that are equally frequent, is taken. A
    squared distance is a combination of three such functions. Where the table does not
    determine them, they are those of least squares.
    """
    levels, outputs = np.array(table.levels), np.array(table.outputs)
    centre = levels.mean()
    levels, mean = levels - centre, mean - centre
    channel = table.probabilities
    scaled = channel / channel.mean(axis=0)
    powers = np.stack([levels**2, levels, np.ones_like(levels)], axis=1)
    weights = scaled.T @ np.linalg.lstsq(scaled @ channel.T, powers, rcond=1e-9)[0]
    order = np.argsort(outputs)
    cuts = (outputs[order][1:] + outputs[order][:-1]) / 2
    square, value, one = weights[order[np.searchsorted(cuts, released)]].T
    return square - 2 * mean * value + mean**2 * one


def _most_likely(
    scale: float,
    distance: NDArray[np.floating],
    variance: NDArray[np.floating],
    limits: tuple[float, float],
) -> float:
    """Variance of normal values around means, most likely under Laplace noise."""

    def cost(log_residual: float) -> float:
        ratio = np.sqrt(variance + math.exp(log_residual)) / scale
        sides = [
            sign * distance / scale + log_ndtr(-sign * distance / scale / ratio - ratio)
            for sign in (1.0, -1.0)
        ]
        return -np.sum(np.logaddexp(*sides) + ratio**2 / 2)

    found = minimize_scalar(
        cost, bounds=np.log(limits), method="bounded", options={"xatol": 0.02}
    )
    return math.exp(found.x)
