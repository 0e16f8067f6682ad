"""Grids of public points, on which a table randomises the values of a range.

Guarantee. A value between two points is rounded at random to one of them, and the table
randomises the number of that point. The rounding reads this value and nothing else. So
each row of probabilities, as a function of the value, is a mixture of two rows of the
table, and the ratio of two mixtures is at most the largest ratio of two rows: the
epsilon is that of the table, however the rounding is computed
(doc/completion_proofs.md, "A range on a grid"). Exact arithmetic would matter for the
expectation of the rounding alone, which floating point moves by less than 2^-50 of the
range.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ..privacy.calibration._table import LevelTable, level_table
from ..tensor import TableLikelihood
from ._domain import LARGEST_TABLE, Domain

# Numbers of points to choose from.
_N_POINTS = 8, 16, LARGEST_TABLE
# Assumed variance of values around their predictions, in half ranges squared.
_AROUND = 0.01


def table_on_grid(domain: Domain, epsilon: float) -> LevelTable | None:
    """The table for values of a range, on the grid of least expected noise.

    Parameters
    ----------
    domain : Domain
    epsilon : float
        Budget of one value, finite.

    Returns
    -------
    table : LevelTable or None
        Its levels are the points of the grid, which are evenly spaced from the least
        value of the domain to the largest. None if Laplace noise is expected to be
        less.
    """
    n_points = best_n_points(epsilon)
    if n_points is None:
        return None
    low, high = domain.bounds
    if domain.levels is not None:
        low, high = domain.levels[0], domain.levels[-1]
    # A short range far from zero may hold fewer numbers.
    points = np.unique(np.linspace(low, high, n_points))
    return level_table(tuple(points.tolist()), epsilon)


@lru_cache(maxsize=64)
def best_n_points(epsilon: float) -> int | None:
    """Number of points of least expected noise; None if Laplace noise is less.

    It depends on epsilon alone, since all noise is proportional to the range.
    """
    expected = {n_points: _expected_noise(epsilon, n_points) for n_points in _N_POINTS}
    best = min(expected, key=expected.__getitem__)
    of_laplace = 2 * (2 / epsilon) ** 2
    return best if expected[best] < of_laplace else None


def _expected_noise(epsilon: float, n_points: int) -> float:
    """Variance that rounding and a table add to values, in half ranges squared."""
    points = np.linspace(-1.0, 1.0, n_points)
    table = level_table(tuple(points.tolist()), epsilon)
    likelihood = TableLikelihood(points, table.in_order)
    return noise_on_grid(likelihood, points, _AROUND)


def noise_on_grid(
    likelihood: TableLikelihood, points: NDArray[np.float64], around: float
) -> float:
    """Variance that rounding and a table add to observations of a mean.

    Parameters
    ----------
    likelihood : TableLikelihood
        That of the points.
    points : ndarray of shape (n_points,)
        Ascending.
    around : float
        Assumed variance of the values around their means.
    """
    # A share t of the way to the next point, which is d away, rounding has the variance
    # t (1 - t) d^2: on average, d^2 / 6.
    steps = np.diff(points)
    rounding = float(np.average(steps**2, weights=steps)) / 6
    return rounding + likelihood.expected_noise(around + rounding)


def rounded_at_random(
    values: NDArray[np.float64],
    points: NDArray[np.float64],
    bits: np.random.BitGenerator,
) -> NDArray[np.int64]:
    """Round values to one of the next two points; the expectation is the value.

    Parameters
    ----------
    values : ndarray of shape (n,)
        From the first point to the last.
    points : ndarray of shape (n_points,)
        Ascending; at least two.
    bits : bit generator
        Supplies one 64-bit word for each value.

    Returns
    -------
    numbers : ndarray of shape (n,), int64
        Numbers of points.
    """
    below = np.searchsorted(points[1:-1], values, side="right")
    share = (values - points[below]) / (points[below + 1] - points[below])
    return below + (np.random.Generator(bits).random(len(values)) < share)


# --- what the rounding does to normal values, which the fit assumes ------------------


def point_probabilities(
    points: NDArray[np.float64], means: NDArray[np.float64], deviation: float
) -> NDArray[np.float64]:
    """Probabilities of the points to which clipped normal values are rounded.

    A value x is at or above the end of a step with probability E min(max((x - a) / d,
    0), 1), where the step begins at a and has the length d. These expectations are
    differences of E max(x - a, 0), which has a closed form.

    Parameters
    ----------
    points : ndarray of shape (n_points,)
        Ascending.
    means : ndarray of shape (n,)
    deviation : float
        Standard deviation of the values, positive.

    Returns
    -------
    probabilities : ndarray of shape (n, n_points)
    """
    z = (means[:, np.newaxis] - points) / deviation
    excess = deviation * (z * ndtr(z) + _density(z))
    beyond = (excess[:, :-1] - excess[:, 1:]) / np.diff(points)
    beyond = np.pad(beyond, ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0)))
    return np.maximum(beyond[:, :-1] - beyond[:, 1:], 0.0)


def expected_rounding(
    points: NDArray[np.float64], means: NDArray[np.float64], deviation: float
) -> NDArray[np.float64]:
    """Variance that rounding adds to clipped normal values, for every mean.

    Parameters
    ----------
    points, means, deviation : object
        As for `point_probabilities`. The squares of points are computed: let 0 be
        among them, or near.
    """
    low, high = ((end - means) / deviation for end in (points[0], points[-1]))
    of_points = point_probabilities(points, means, deviation) @ points**2
    of_ends = points[0] ** 2 * ndtr(low) + points[-1] ** 2 * ndtr(-high)
    inside = (means**2 + deviation**2) * (ndtr(high) - ndtr(low))
    inside += 2 * means * deviation * (_density(low) - _density(high))
    inside += deviation**2 * (low * _density(low) - high * _density(high))
    return of_points - of_ends - inside


def _density(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
