"""Laplace and Gaussian noise on lattices, whose steps do not depend on the data."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from ._discrete import discrete_laplace, discrete_laplace_variance

# The step is 2^-20 of the scale of the noise, rounded down to a power of two.
_FINENESS = 20
# Where NumPy's ziggurat ends its 52-bit strips, and its tail begins.
_ZIGGURAT_TAIL = 3.6541528853610088
# A range has at least one step, even under noise so large that a step of the usual
# fineness would exceed it. The rounding error is then invisible beside the noise.
_LEAST_STEPS = 1
# Delta of the residual is e^-400 or, if smaller, e^-30 times the delta of the guarantee
# over e^epsilon: a composition multiplies it by e to the epsilon of all its releases.
_LOG_MARGIN, _LOG_RESIDUAL = 30.0, -400.0
# The reciprocal of a subnormal step may be infinite, and infinity times 0 is NaN.
_LEAST_STEP = 2.0**-1022
# Sums of integers up to this size are exact in floating point.
_LARGEST_INTEGER = 2.0**52


def _power_of_two_step(
    scale: float | NDArray[np.floating], fineness: int = _FINENESS
) -> Any:
    """The power of two at or below 2^-fineness times `scale`."""
    _, exponent = np.frexp(scale)
    return np.ldexp(1.0, exponent - 1 - fineness)


@dataclass(frozen=True)
class LaplaceLattice:
    """Discrete Laplace noise on {low, low + step, ...}: pure epsilon, no residual.

    A value is rounded to one of the `n_steps` + 1 lattice points of its range, and an
    exact discrete Laplace variate is added to the index of that point. Two indices
    differ by at most `n_steps`, so a release is exactly `epsilon`-DP for any
    floating-point input.

    Parameters
    ----------
    low : float or ndarray of shape (n_cells,)
        First lattice point of each cell.
    step : float
        Distance between neighbouring lattice points.
    n_steps : int or ndarray of shape (n_cells,), or None
        Number of steps from one end of each range to the other; None without a range.
    numerator, denominator : int
        The rate of the noise per step, as a fraction.
    l1_steps : int, default=None
        Largest L1 distance of two samples, in steps. By default `n_steps`, for samples
        of one cell.

    Attributes
    ----------
    rate : float
        The rate of the noise per step, rounded up.
    epsilon : float
        The pure epsilon of a sample, rounded up; at most the budget.
    noise_variance : float
        Variance of the noise in each cell, in squared units of the values.
    """

    low: float | np.ndarray
    step: float
    n_steps: int | np.ndarray | None
    numerator: int
    denominator: int
    l1_steps: int | None = None

    @property
    def rate(self) -> float:
        """The rate of the noise per step, rounded up."""
        return _quotient_above(self.numerator, self.denominator)

    @property
    def epsilon(self) -> float:
        """The pure epsilon of a sample, rounded up; at most the budget."""
        l1_steps: Any = self.n_steps if self.l1_steps is None else self.l1_steps
        return _quotient_above(int(l1_steps) * self.numerator, self.denominator)

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in each cell, in squared units of the values."""
        return discrete_laplace_variance(self.rate) * self.step**2

    def randomize(
        self,
        values: NDArray[np.floating],
        bits: np.random.BitGenerator,
        columns: slice = slice(None),
        out: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Round values to the lattice and add noise.

        Parameters
        ----------
        values : ndarray of shape (n,) or (n, n_columns), float
            Not NaN; values outside the range are clipped to it.
        bits : bit generator
            Supplies 64-bit words.
        columns : slice, default=slice(None)
            The cells that are the columns of `values`.
        out : ndarray of the shape of `values`, float64, default=None
            Where to write; may be `values`.

        Returns
        -------
        noisy : ndarray of the shape of `values`, float
        """
        low, n_steps = columns_of(self.low, columns), columns_of(self.n_steps, columns)
        index = _lattice_index(values, low, self.step, n_steps, out)
        noise = discrete_laplace(bits, self.numerator, self.denominator, values.size)
        # Integers, because a sum of floats would be rounded if either term exceeds
        # 2**53 steps.
        points = index.astype(np.int64) + noise.reshape(values.shape)
        noisy = np.multiply(points, self.step, out=index)
        noisy += low
        return noisy


def laplace_lattice(
    low: float | NDArray[np.floating],
    high: float | NDArray[np.floating],
    epsilon: float,
    step: float | None = None,
    n_cells: int = 1,
    l1: float = math.inf,
) -> LaplaceLattice:
    """Laplace noise for samples of `n_cells` values in [low, high].

    Parameters
    ----------
    low, high : float or ndarray of shape (n_cells,)
        The public range of the values; infinite if there is none.
    epsilon : float
        The pure budget of a whole sample, finite and positive.
    step : float, default=None
        Step of the public grid on which the values lie. By default, a power of two
        about 2**-20 times the scale of the noise.
    n_cells : int, default=1
        Number of values of a sample.
    l1 : float, default=inf
        Bound on the L1 distance of two samples; required without a range.

    Returns
    -------
    lattice : LaplaceLattice

    Raises
    ------
    ValueError
        If the range is not ordered, or if the range or the budget cannot be
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
        raise _unrepresentable_range()
    if step is None:
        # Even under large noise, a range keeps a thousand steps, so that the steps that
        # rounding adds to a distance do not matter.
        step = _power_of_two_step(min(l1 / epsilon, 2.0**10 * l1 / n_cells))
        if step < _LEAST_STEP or not math.isfinite(l1 / step):
            raise _unrepresentable_range()
    elif not 0 < step <= np.min(width):
        raise ValueError("`step` must be positive and at most the width of the range.")
    n_steps: int | NDArray[np.int64] | None = None
    bounds: list[int] = []
    if has_range:
        whole = np.rint(width / step) if on_grid else np.ceil(width / step)
        if np.max(whole) * n_cells > 2.0**62:
            raise _unrepresentable_range()
        n_steps = np.maximum(whole, 1).astype(np.int64)
        bounds.append(int(n_steps.sum()) * repeats)
        n_steps = int(n_steps) if n_steps.ndim == 0 else n_steps
    if not has_range or l1 < total:
        bounds.append(math.ceil(l1 / step * (1 + 1e-12)) + n_cells)
    l1_steps = min(bounds)
    # Rounding the denominator up keeps the realised epsilon at or below the budget.
    numerator = max(1, 2**24 // l1_steps)
    denominator = math.ceil(Fraction(l1_steps * numerator) / Fraction(epsilon))
    if denominator >= 2**50:
        raise ValueError(
            f"epsilon = {epsilon} is too small to be represented. Increase it."
        )
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
    """Gaussian noise, rounded to a lattice and clipped, and what this costs.

    Parameters
    ----------
    sigma : float or ndarray of shape (n_cells,)
        Standard deviation of the noise.
    step : float or ndarray of shape (n_cells,)
        Step of the lattice.
    clip : float
        Noise beyond `clip` standard deviations is moved to that end.
    residual_epsilon, residual_delta : float
        Distance of the sampler from rounded ideal noise, over all cells of a release:
        P <= e^residual_epsilon Q + residual_delta, where P is either distribution and
        Q is the other.
    low : float or ndarray of shape (n_cells,), default=0.0
        A point of each lattice.
    n_steps : int or ndarray of shape (n_cells,), default=None
        Number of steps of each range, which is the largest distance of two rounded
        values. None without a range.
    n_cells : int, default=1
        Number of cells of a release.
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
        """The same lattice with noise that is `factor` times as large.

        Relative to the noise, steps become smaller by `factor`, and the relative error
        of the probability of a step becomes larger.
        """
        sigma = self.sigma * factor
        finest = float(np.max(sigma / self.step))
        _check_finest(finest, self.clip)
        log_half = math.log(self.residual_delta / 2)
        epsilon = _residual_epsilon(finest, self.n_cells, log_half)
        return replace(self, sigma=sigma, residual_epsilon=epsilon)

    def l2_sensitivity(self, sensitivity: float, n_differing: int) -> float:
        """L2 sensitivity of values that are rounded to the lattice.

        Parameters
        ----------
        sensitivity : float
            L2 sensitivity of the values before rounding.
        n_differing : int
            Largest number of values that differ between neighbouring data sets.

        Returns
        -------
        sensitivity : float
        """
        return sensitivity + float(np.max(self.step)) * math.sqrt(n_differing)

    def randomize(
        self,
        values: NDArray[np.floating],
        bits: np.random.BitGenerator,
        columns: slice = slice(None),
        out: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Round values to the lattice and add noise on the lattice.

        Parameters
        ----------
        values : ndarray of shape (n,) or (n, n_columns), float
            Not NaN. The caller clips to declared bounds. Values beyond 2**52 steps,
            where sums would not be exact, are moved to that end.
        bits : bit generator
            Supplies 64-bit words.
        columns : slice, default=slice(None)
            The cells that are the columns of `values`.
        out : ndarray of the shape of `values`, float64, default=None
            Where to write; may be `values`.

        Returns
        -------
        noisy : ndarray of the shape of `values`, float
        """
        step, low = columns_of(self.step, columns), columns_of(self.low, columns)
        scale = columns_of(self.sigma, columns) / step
        n_steps = columns_of(self.n_steps, columns)
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
    """Lattice for Gaussian noise on `n_cells` cells, with its residual.

    The delta of the residual is so far below `delta` that it stays negligible in
    compositions of many releases.

    Parameters
    ----------
    sigma : float or ndarray of shape (n_cells,)
        Standard deviation, positive.
    n_cells : int
        Number of cells of the whole release.
    epsilon, delta : float
        The guarantee, beside which the residual must be negligible.
    low, width : float or ndarray of shape (n_cells,), default=None
        The range [low, low + width] of the values. If given, its ends are points of the
        lattice, and rounding adds nothing to the largest distance of two values.
    fineness : int, default=20
        The step is at most 2^-fineness times sigma.

    Returns
    -------
    lattice : GaussianLattice

    Raises
    ------
    ValueError
        If an argument is out of range, if `delta` over e^`epsilon` is too small for
        any clipping, or if the noise is too small or too large for the range.
    """
    if not (0 < delta < 1 and 0 < epsilon < math.inf and n_cells >= 1):
        raise ValueError(
            "Gaussian noise needs a finite epsilon > 0, 0 < delta < 1 and n_cells >= 1."
        )
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
            raise ValueError("Every range must have a positive, finite width.")
        n_steps = np.maximum(np.ceil(width / power), _LEAST_STEPS)
        if np.max(n_steps) > _LARGEST_INTEGER / 2:
            raise ValueError(
                "The range of the values is too large for the noise. Declare a smaller "
                "range."
            )
        step = width / n_steps
    # One half of the residual delta covers the sampler's relative error, the other half
    # covers the clipping.
    log_half = min(math.log(delta) - epsilon - _LOG_MARGIN, _LOG_RESIDUAL)
    if log_half < -700:
        raise ValueError(
            f"delta = {delta} is too small for epsilon = {epsilon}. Increase delta or "
            f"decrease epsilon."
        )
    clip = -float(ndtri_exp(log_half - math.log(2 * n_cells)))
    finest = float(np.max(sigma / step))
    _check_finest(finest, clip)
    tails = 2 * n_cells * math.exp(float(log_ndtr(-clip)))
    return GaussianLattice(
        sigma=_plain(sigma),
        step=_plain(step),
        clip=clip,
        residual_epsilon=_residual_epsilon(finest, n_cells, log_half),
        residual_delta=math.exp(log_half) + tails,
        low=0.0 if low is None else _plain(low),
        n_steps=None if n_steps is None else _plain(n_steps),
        n_cells=n_cells,
    )


def _unrepresentable_range() -> ValueError:
    return ValueError(
        "The range of the values is too small or too large for floating-point numbers."
    )


def _check_finest(finest: float, clip: float) -> None:
    """Refuse noise with so many steps that sums with it would not be exact."""
    if finest * clip > _LARGEST_INTEGER / 2:
        raise ValueError(
            "The range of the values is too small for the noise. Declare a larger "
            "range."
        )


def _residual_epsilon(finest: float, n_cells: int, log_half: float) -> float:
    """Epsilon of the sampler's residual, if sigma is at most `finest` steps.

    The relative error of the probability of one cell is at most three times
    3.92 2^(m - 51), for sigma / step in [2^m, 2^(m + 1)).
    """
    eta = 3 * 3.92 * 2.0 ** (math.frexp(finest)[1] - 52)
    return n_cells * eta**2 + eta * math.sqrt(2 * n_cells * -log_half)


def largest_residual(n_cells: int, residual_delta: float) -> float:
    """Epsilon of the residual of any Gaussian lattice with up to `n_cells` cells.

    The noise must be less than 2^23 steps, and the delta of the residual at least
    `residual_delta`.
    """
    return _residual_epsilon(2.0**22, n_cells, math.log(residual_delta / 2))


def _quotient_above(numerator: int, denominator: int) -> float:
    """The quotient of two integers, rounded up to a float."""
    nearest = numerator / denominator
    exact = Fraction(numerator, denominator)
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def _plain(value: float | NDArray[np.floating]) -> float | NDArray[np.float64]:
    """A Python float, or a new array of float64."""
    return float(value) if np.ndim(value) == 0 else np.array(value, dtype=float)


def columns_of(value: Any, columns: Any) -> Any:
    """The values of some columns; a scalar, for all columns, or None stays as it is."""
    return value if np.ndim(value) == 0 else value[columns]


def _lattice_index(
    values: NDArray[np.floating],
    low: float | NDArray[np.floating],
    step: float | NDArray[np.floating],
    n_steps: float | NDArray[np.floating] | NDArray[np.integer] | None,
    out: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Steps from `low` to each value, rounded, and clipped to the range."""
    with np.errstate(over="ignore"):
        if np.any(low):
            index = np.subtract(values, low, dtype=float, out=out)
            index *= 1 / step
        else:
            index = np.multiply(values, 1 / step, dtype=float, out=out)
    # The minimum is NaN if any element is.
    if index.size and math.isnan(index.min()):
        raise ValueError("The values contain NaN; noise cannot be added to it.")
    np.rint(index, out=index)
    # Turn -0.0 into 0.0: the sign would tell from which side a value was rounded.
    index += 0.0
    if n_steps is None:
        return np.clip(index, -_LARGEST_INTEGER, _LARGEST_INTEGER, out=index)
    return np.clip(index, 0, n_steps, out=index)


def _dense_normal(
    bits: np.random.BitGenerator, size: int, clip: float = math.inf
) -> NDArray[np.float64]:
    """Standard normals without holes in the tail, clipped to [-clip, clip].

    NumPy derives the tail beyond the ziggurat from a 53-bit uniform, which leaves
    holes. These variates (0.026%) are drawn again by Marsaglia's method, from uniforms
    that are dense near zero.
    """
    normal = np.random.Generator(bits).standard_normal(size)
    # Two masks of bytes: an array of absolute values would cost as much as the noise.
    beyond: NDArray[Any] = (normal > _ZIGGURAT_TAIL) | (normal < -_ZIGGURAT_TAIL)
    tail = beyond = np.flatnonzero(beyond)
    while tail.size:
        x = -np.log(_dense_uniform(bits, tail.size)) / _ZIGGURAT_TAIL
        y = -np.log(_dense_uniform(bits, tail.size))
        accepted = 2 * y > x * x
        done = tail[accepted]
        normal[done] = np.copysign(_ZIGGURAT_TAIL + x[accepted], normal[done])
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
