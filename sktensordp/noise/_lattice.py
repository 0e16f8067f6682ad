"""Laplace and Gaussian noise on a lattice whose step depends on the scale alone."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from ._discrete import discrete_laplace, discrete_laplace_variance

__all__ = ["GaussianLattice", "LaplaceLattice", "gaussian_lattice", "laplace_lattice"]

# The step is 2^-20 of the scale of the noise, rounded down to a power of two.
_FINENESS = 20
# Tail of NumPy's ziggurat, where its 52-bit strips end.
_ZIGGURAT_TAIL = 3.6541528853610088


# A range has at least one step, however large the noise: what its rounding loses is
# invisible beside it.
_LEAST_STEPS = 1
# The residual's delta is e^-400, or e^-30 of what is asked for where that is smaller:
# in a composition it is multiplied by e to the epsilon of all releases.
_LOG_MARGIN, _LOG_RESIDUAL = 30.0, -400.0
# The reciprocal of a subnormal step may be infinite, and its product with 0 is NaN.
_LEAST_STEP = 2.0**-1022
# Sums of integers up to here are exact in floating point.
_LARGEST_INTEGER = 2.0**52


def _power_of_two_step(
    scale: float | NDArray[np.floating], fineness: int = _FINENESS
) -> Any:
    _, exponent = np.frexp(scale)
    return np.ldexp(1.0, exponent - 1 - fineness)


@dataclass(frozen=True)
class LaplaceLattice:
    """Discrete Laplace noise on {low, low + step, ...}: pure, with no residual.

    A value is rounded to one of the `n_steps` + 1 lattice points of its range, and
    an exact discrete Laplace variate is added to the index. Two values are at most
    `n_steps` apart, so that a release is exactly `epsilon`-DP, whatever the
    floating-point input.

    Parameters
    ----------
    low : float or ndarray of shape (n_cells,)
        Where each cell's lattice begins.
    step : float
        The distance of two lattice points.
    n_steps : int or ndarray of shape (n_cells,), or None
        Number of steps from one end of each range to the other; None where there
        is no range.
    numerator, denominator : int
        Rate of the noise for one step.
    l1_steps : int, default=None
        How many steps all cells of two samples lie apart at most, together;
        `n_steps` by default, for samples of one cell.
    """

    low: float | np.ndarray
    step: float
    n_steps: int | np.ndarray | None
    numerator: int
    denominator: int
    l1_steps: int | None = None

    @property
    def rate(self) -> float:
        """Rate of the noise for one step, rounded up."""
        return _quotient_above(self.numerator, self.denominator)

    @property
    def epsilon(self) -> float:
        """The pure epsilon that is realised, rounded up; at most the one asked for."""
        l1_steps: Any = self.n_steps if self.l1_steps is None else self.l1_steps
        return _quotient_above(int(l1_steps) * self.numerator, self.denominator)

    @property
    def noise_variance(self) -> float:
        """Variance of the noise, in the squared units of the values."""
        return discrete_laplace_variance(self.rate) * self.step**2

    def randomize(
        self,
        values: NDArray[np.floating],
        bits: np.random.BitGenerator,
        columns: slice = slice(None),
        out: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Values on the lattice plus noise.

        Parameters
        ----------
        values : ndarray of shape (n,) or (n, n_columns), float
            Not NaN; those outside the range are clipped to it.
        bits : bit generator
            Source of 64-bit words.
        columns : slice, default=slice(None)
            The cells that the columns of `values` are.
        out : ndarray of the shape of `values`, float64, default=None
            Where to write; may be `values`.

        Returns
        -------
        noisy : ndarray of the shape of `values`, float
        """
        low, n_steps = _columns_of(self.low, columns), None
        if self.n_steps is not None:
            n_steps = _columns_of(self.n_steps, columns)
        index = _lattice_index(values, low, self.step, n_steps, out)
        noise = discrete_laplace(bits, self.numerator, self.denominator, values.size)
        # A sum of floats would be rounded by either, beyond 2**53 steps.
        points = index.astype(np.int64) + noise.reshape(values.shape)
        index = np.multiply(points, self.step, out=index)
        index += low
        return index


def laplace_lattice(
    low: float | NDArray[np.floating],
    high: float | NDArray[np.floating],
    epsilon: float,
    step: float | None = None,
    n_cells: int = 1,
    l1: float = math.inf,
) -> LaplaceLattice:
    """Lattice for samples of `n_cells` values in [low, high] under pure `epsilon`.

    Parameters
    ----------
    low, high : float or ndarray of shape (n_cells,)
        The public range of the values; infinite where there is none.
    epsilon : float
        The budget, finite and positive, of a whole sample.
    step : float, default=None
        Distance of the values' own public grid; by default a power of two about
        2**-20 times the scale of the noise.
    n_cells : int, default=1
        Values of a sample.
    l1 : float, default=inf
        Bound on the L1 distance of two samples. Needed where there is no range.

    Returns
    -------
    lattice : LaplaceLattice

    Raises
    ------
    ValueError
        If the range is out of order, or the range or the budget cannot be
        represented.
    """
    with np.errstate(over="ignore"):
        width = np.subtract(high, low)
    has_range = bool(np.all(np.isfinite(width)))
    if not (np.all(width > 0) and 0 < epsilon < math.inf):
        raise ValueError("Laplace noise needs low < high and a finite epsilon > 0.")
    repeats = n_cells if np.ndim(width) == 0 else 1
    on_grid = step is not None
    if has_range:
        total = float(np.sum(width)) * repeats
        l1 = min(l1, total)
    else:
        low = 0.0
    if not 0 < l1 < math.inf:
        raise ValueError("The range of the values is too small or too large.")
    if step is None:
        # However large the noise, a range keeps a thousand steps: those that rounding
        # adds to the distance do not matter.
        step = _power_of_two_step(min(l1 / epsilon, 2.0**10 * l1 / n_cells))
        if step < _LEAST_STEP or not math.isfinite(l1 / step):
            raise ValueError("The range of the values is too small or too large.")
    elif not 0 < step <= np.min(width):
        raise ValueError("The step of a grid is positive and within the range.")
    n_steps: int | NDArray[np.int64] | None = None
    l1_steps: Any = math.inf
    if has_range:
        whole = np.rint(width / step) if on_grid else np.ceil(width / step)
        if np.max(whole) * n_cells > 2.0**62:
            raise ValueError("The range of the values is too small or too large.")
        n_steps = np.maximum(whole, 1).astype(np.int64)
        l1_steps = int(n_steps.sum()) * repeats
        n_steps = int(n_steps) if n_steps.ndim == 0 else n_steps
    if not has_range or l1 < total:
        l1_steps = min(l1_steps, math.ceil(l1 / step * (1 + 1e-12)) + n_cells)
    # Rounding the denominator up keeps the realised epsilon at or below the budget.
    numerator = max(1, 2**24 // l1_steps)
    denominator = math.ceil(Fraction(l1_steps * numerator) / Fraction(epsilon))
    if denominator >= 2**50:
        raise ValueError(f"epsilon = {epsilon} is too small to be represented.")
    return LaplaceLattice(
        low=float(low) if np.ndim(low) == 0 else low,
        step=float(step),
        n_steps=n_steps,
        numerator=numerator,
        denominator=denominator,
        l1_steps=l1_steps,
    )


@dataclass(frozen=True)
class GaussianLattice:
    """Gaussian noise rounded to a lattice and clipped, with the distance it costs.

    Parameters
    ----------
    sigma : float or ndarray of shape (n_cells,)
        Standard deviation of the noise.
    step : float or ndarray of shape (n_cells,)
        Step of the lattice.
    clip : float
        Noise beyond `clip` standard deviations is moved there.
    residual_epsilon, residual_delta : float
        Distance of the sampler from rounded ideal noise, over all cells of a
        release: with either law P and the other Q, P <= e^residual_epsilon Q +
        residual_delta.
    low : float or ndarray of shape (n_cells,), default=0.0
        A point of each lattice.
    n_steps : int or ndarray of shape (n_cells,), default=None
        Number of steps of each range; values are at most so far apart. None where
        there is no range.
    n_cells : int, default=1
        Cells of a release.
    """

    sigma: float | np.ndarray
    step: float | np.ndarray
    clip: float
    residual_epsilon: float
    residual_delta: float
    low: float | np.ndarray = 0.0
    n_steps: float | np.ndarray | None = None
    n_cells: int = 1

    def scaled(self, factor: float) -> Self:
        """The same lattice under noise that is `factor` times as large.

        Steps are finer then beside the noise, and the sampler's relative error of a
        step's probability is as much larger.
        """
        sigma = self.sigma * factor
        finest = float(np.max(sigma / self.step))
        _check_finest(finest, self.clip)
        e1 = _residual_epsilon(finest, self.n_cells, math.log(self.residual_delta / 2))
        return replace(self, sigma=sigma, residual_epsilon=e1)

    def l2_sensitivity(self, sensitivity: float, n_changed: int) -> float:
        """L2 sensitivity after values are rounded to the lattice.

        Parameters
        ----------
        sensitivity : float
            L2 sensitivity of the values.
        n_changed : int
            How many values may differ between neighbours.

        Returns
        -------
        sensitivity : float
        """
        return sensitivity + float(np.max(self.step)) * math.sqrt(n_changed)

    def randomize(
        self,
        values: NDArray[np.floating],
        bits: np.random.BitGenerator,
        columns: slice = slice(None),
        out: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Values rounded to the lattice plus noise on the lattice.

        Parameters
        ----------
        values : ndarray of shape (n,) or (n, n_columns), float
            Not NaN. The caller clips to declared bounds; beyond 2**52 steps, where
            sums would not be exact, a value is moved to that end.
        bits : bit generator
            Source of 64-bit words.
        columns : slice, default=slice(None)
            The cells that the columns of `values` are.
        out : ndarray of the shape of `values`, float64, default=None
            Where to write; may be `values`.

        Returns
        -------
        noisy : ndarray of the shape of `values`, float
        """
        step, low = _columns_of(self.step, columns), _columns_of(self.low, columns)
        scale = _columns_of(self.sigma, columns) / step
        n_steps = None
        if self.n_steps is not None:
            n_steps = _columns_of(self.n_steps, columns)
        noisy = _lattice_index(values, low, step, n_steps, out)
        noise = _dense_normal(bits, values.size, self.clip).reshape(values.shape)
        noise *= scale
        noisy += np.rint(noise, out=noise)
        noisy *= step
        if np.any(low):
            noisy += low
        return noisy


def gaussian_lattice(
    sigma: float | NDArray[np.floating],
    n_cells: int,
    epsilon: float,
    delta: float,
    low: float | NDArray[np.floating] | None = None,
    width: float | NDArray[np.floating] | None = None,
    fineness: int = _FINENESS,
) -> GaussianLattice:
    """Lattice for Gaussian noise of `n_cells` cells, with its residual.

    The residual's delta is far below `delta` at `epsilon`, so that it stays invisible
    in compositions of many releases.

    Parameters
    ----------
    sigma : float or ndarray of shape (n_cells,)
        Standard deviation, positive.
    n_cells : int
        Cells of the whole release.
    epsilon, delta : float
        The guarantee for which the residual has to be negligible.
    low, width : float or ndarray of shape (n_cells,), default=None
        The range [low, low + width] of the values. Its ends are then points of the
        lattice, and rounding adds nothing to the distance of two values.
    fineness : int, default=20
        The step is at most 2^-fineness of sigma.

    Returns
    -------
    lattice : GaussianLattice

    Raises
    ------
    ValueError
        If `delta` is so small against e^`epsilon` that no clipping honours it, or
        the noise is too fine or too coarse for the range.
    """
    if not (0 < delta < 1 and 0 < epsilon < math.inf and n_cells >= 1):
        raise ValueError("Gaussian noise needs epsilon > 0, 0 < delta < 1 and cells.")
    power = _power_of_two_step(sigma, fineness)
    if not (
        np.all(sigma > 0)
        and np.all(np.isfinite(sigma))
        and np.all(power >= _LEAST_STEP)
    ):
        raise ValueError("sigma must be finite, positive and not subnormal.")
    n_steps, step = None, power
    if width is not None:
        if not np.all((width > 0) & (width < math.inf)):
            raise ValueError("Every range has a positive, finite width.")
        n_steps = np.maximum(np.ceil(width / power), _LEAST_STEPS)
        if np.max(n_steps) > _LARGEST_INTEGER / 2:
            raise ValueError("The range of the values is too large for the noise.")
        step = width / n_steps
    # Half of the residual for the sampler's relative error, half for the clipping.
    log_half = min(math.log(delta) - epsilon - _LOG_MARGIN, _LOG_RESIDUAL)
    if log_half < -700:
        raise ValueError(f"delta = {delta} is too small for epsilon = {epsilon}.")
    clip = -float(ndtri_exp(log_half - math.log(2 * n_cells)))
    finest = float(np.max(sigma / step))
    _check_finest(finest, clip)
    e1 = _residual_epsilon(finest, n_cells, log_half)
    tails = 2 * n_cells * math.exp(float(log_ndtr(-clip)))
    return GaussianLattice(
        sigma=_plain(sigma),
        step=_plain(step),
        clip=clip,
        residual_epsilon=e1,
        residual_delta=math.exp(log_half) + tails,
        low=0.0 if low is None else _plain(low),
        n_steps=None if n_steps is None else _plain(n_steps),
        n_cells=n_cells,
    )


def _check_finest(finest: float, clip: float) -> None:
    if finest * clip > _LARGEST_INTEGER / 2:
        raise ValueError("The range of the values is too small for the noise.")


def _residual_epsilon(finest: float, n_cells: int, log_half: float) -> float:
    """Epsilon of the sampler where sigma is at most `finest` steps.

    The relative error of the probability of one cell is 3.92 2^(m - 51), tripled, for
    sigma / step in [2^m, 2^(m + 1)).
    """
    eta = 3 * 3.92 * 2.0 ** (math.frexp(finest)[1] - 52)
    return n_cells * eta**2 + eta * math.sqrt(2 * n_cells * -log_half)


def _quotient_above(numerator: int, denominator: int) -> float:
    """Smallest float that is not below a quotient of integers."""
    nearest = numerator / denominator
    exact = Fraction(numerator, denominator)
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def _plain(value: float | NDArray[np.floating]) -> float | NDArray[np.float64]:
    return float(value) if np.ndim(value) == 0 else np.array(value, dtype=float)


def _columns_of(value: Any, columns: slice) -> Any:
    return value if np.ndim(value) == 0 else value[columns]


def _lattice_index(
    values: NDArray[np.floating],
    low: float | NDArray[np.floating],
    step: float | NDArray[np.floating],
    n_steps: Any,
    out: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Whole steps from `low` to each value, within the range or what is exact."""
    with np.errstate(over="ignore"):
        if np.any(low):
            index = np.subtract(values, low, dtype=float, out=out)
            index *= 1 / step
        else:
            index = np.multiply(values, 1 / step, dtype=float, out=out)
    # The least of some numbers is NaN where one of them is.
    if index.size and math.isnan(index.min()):
        raise ValueError("Noise is not added to NaN.")
    np.rint(index, out=index)
    # The sign of a zero would tell from which side a value was rounded.
    index += 0.0
    if n_steps is None:
        return np.clip(index, -_LARGEST_INTEGER, _LARGEST_INTEGER, out=index)
    return np.clip(index, 0, n_steps, out=index)


def _dense_normal(
    bits: np.random.BitGenerator, size: int, clip: float = math.inf
) -> NDArray[np.float64]:
    """Standard normals whose tail is drawn from a uniform dense near zero.

    NumPy derives the tail from a 53-bit uniform, which leaves holes beyond the
    ziggurat; those variates (0.026%) are drawn again by Marsaglia's method. Those
    beyond `clip` are moved there.
    """
    normal = np.random.Generator(bits).standard_normal(size)
    # Two masks of bytes: a second array of floats would cost as much as the noise.
    beyond: NDArray[Any] = (normal > _ZIGGURAT_TAIL) | (normal < -_ZIGGURAT_TAIL)
    tail = beyond = np.flatnonzero(beyond)
    while tail.size:
        x = -np.log(_dense_uniform(bits, tail.size)) / _ZIGGURAT_TAIL
        y = -np.log(_dense_uniform(bits, tail.size))
        accepted = 2 * y > x * x
        chosen = tail[accepted]
        normal[chosen] = np.copysign(_ZIGGURAT_TAIL + x[accepted], normal[chosen])
        tail = tail[~accepted]
    if clip < _ZIGGURAT_TAIL:
        return np.clip(normal, -clip, clip, out=normal)
    normal[beyond] = np.clip(normal[beyond], -clip, clip)
    return normal


def _dense_uniform(bits: np.random.BitGenerator, size: int) -> NDArray[np.float64]:
    """Uniforms in (0, 1) with 52 significant bits at every binary exponent."""
    fraction = (bits.random_raw(size) >> np.uint64(12)) * 2.0**-52
    exponent = np.zeros(size, dtype=np.int64)
    open_ended = np.arange(size)
    while open_ended.size:
        words = bits.random_raw(open_ended.size) >> np.uint64(11)
        exponent[open_ended] += 53 - np.frexp(words.astype(float))[1]
        open_ended = open_ended[words == 0]
    return np.ldexp(0.5 + 0.5 * fraction, -exponent)
