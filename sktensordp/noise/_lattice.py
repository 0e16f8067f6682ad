"""Laplace and Gaussian noise on a lattice whose step depends on the scale alone."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from ._discrete import discrete_laplace, discrete_laplace_variance

__all__ = ["GaussianLattice", "LaplaceLattice", "gaussian_lattice", "laplace_lattice"]

# The step is 2^-20 of the scale of the noise, rounded down to a power of two.
_FINENESS = 20
# Tail of NumPy's ziggurat, where its 52-bit strips end.
_ZIGGURAT_TAIL = 3.6541528853610088


def _power_of_two_step(scale):
    _, exponent = math.frexp(scale)
    return math.ldexp(1.0, exponent - 1 - _FINENESS)


@dataclass(frozen=True)
class LaplaceLattice:
    """Discrete Laplace noise on {low, low + step, ...}: pure, with no residual.

    A value is rounded to one of the `n_steps` + 1 lattice points of its range, and
    an exact discrete Laplace variate is added to the index. Two values are at most
    `n_steps` apart, so that the release is exactly `epsilon`-DP, whatever the
    floating-point input.

    Parameters
    ----------
    low, step : float
        The lattice.
    n_steps : int
        Number of steps from one end of the range to the other.
    numerator, denominator : int
        Rate of the noise for one step.
    """

    low: float
    step: float
    n_steps: int
    numerator: int
    denominator: int

    @property
    def rate(self):
        """Rate of the noise for one step."""
        return self.numerator / self.denominator

    @property
    def epsilon(self):
        """The pure epsilon that is realised; never above the one asked for."""
        return self.n_steps * self.numerator / self.denominator

    @property
    def noise_variance(self):
        """Variance of the noise, in the squared units of the values."""
        return discrete_laplace_variance(self.rate) * self.step**2

    def randomize(self, values, bits):
        """Values on the lattice plus noise.

        Parameters
        ----------
        values : ndarray of shape (n,), float
            Not NaN; those outside the range are clipped to it.
        bits : bit generator
            Source of 64-bit words.

        Returns
        -------
        noisy : ndarray of shape (n,), float
        """
        _refuse_nan(values)
        index = np.rint((values - self.low) / self.step)
        index = np.clip(index, 0, self.n_steps).astype(np.int64)
        noise = discrete_laplace(bits, self.numerator, self.denominator, values.size)
        return self.low + self.step * (index + noise)


def laplace_lattice(low, high, epsilon, step=None):
    """Lattice for values in [low, high] under pure `epsilon`.

    Parameters
    ----------
    low, high : float
        The public range of the values.
    epsilon : float
        The budget, finite and positive.
    step : float, default=None
        Distance of the values' own public grid; by default a power of two about
        2**-20 times the scale of the noise.

    Returns
    -------
    lattice : LaplaceLattice

    Raises
    ------
    ValueError
        If the range is out of order, or the range or the budget cannot be
        represented.
    """
    width = high - low
    if not (0 < width < math.inf and 0 < epsilon < math.inf):
        raise ValueError("Laplace noise needs low < high and a finite epsilon > 0.")
    if step is None:
        # However large the noise, the range itself keeps a thousand steps.
        step = _power_of_two_step(min(width / epsilon, 2.0**10 * width))
        if step == 0 or not math.isfinite(width / step):
            raise ValueError("The range of the values is too small or too large.")
        n_steps = max(1, math.ceil(width / step))
    elif 0 < step <= width:
        n_steps = round(width / step)
    else:
        raise ValueError("The step of a grid is positive and within the range.")
    # Rounding the denominator up keeps the realised epsilon at or below the budget.
    numerator = max(1, 2**24 // n_steps)
    denominator = math.ceil(Fraction(n_steps * numerator) / Fraction(epsilon))
    if denominator >= 2**50:
        raise ValueError(f"epsilon = {epsilon:g} is too small to be represented.")
    return LaplaceLattice(
        low=float(low),
        step=float(step),
        n_steps=n_steps,
        numerator=numerator,
        denominator=denominator,
    )


@dataclass(frozen=True)
class GaussianLattice:
    """Gaussian noise rounded to a lattice and clipped, with the distance it costs.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise.
    step : float
        Step of the lattice, a power of two.
    clip : float
        Noise beyond `clip` standard deviations is moved there.
    residual_epsilon, residual_delta : float
        Distance of the sampler from rounded ideal noise, over all cells of a
        release: with either law P and the other Q, P <= e^residual_epsilon Q +
        residual_delta.
    """

    sigma: float
    step: float
    clip: float
    residual_epsilon: float
    residual_delta: float

    def l2_sensitivity(self, sensitivity, n_changed):
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
        return sensitivity + self.step * math.sqrt(n_changed)

    def randomize(self, values, bits):
        """Values rounded to the lattice plus noise on the lattice.

        Parameters
        ----------
        values : ndarray of shape (n,), float
            Not NaN. The caller clips to declared bounds; beyond 2**52 steps, where
            sums would not be exact, a value is moved to that end.
        bits : bit generator
            Source of 64-bit words.

        Returns
        -------
        noisy : ndarray of shape (n,), float
        """
        _refuse_nan(values)
        scale = self.sigma / self.step
        limit = math.floor(self.clip * scale)
        noise = np.rint(_dense_normal(bits, values.size) * scale)
        np.clip(noise, -limit, limit, out=noise)
        index = np.clip(np.rint(values / self.step), -(2.0**52), 2.0**52)
        return (index + noise) * self.step


def gaussian_lattice(sigma, n_cells, epsilon, delta):
    """Lattice for Gaussian noise of `n_cells` cells, with its residual.

    The residual is kept near a ten-thousandth of `delta` at `epsilon`.

    Parameters
    ----------
    sigma : float
        Standard deviation, positive.
    n_cells : int
        Cells of the whole release.
    epsilon, delta : float
        The guarantee for which the residual has to be negligible.

    Returns
    -------
    lattice : GaussianLattice

    Raises
    ------
    ValueError
        If `delta` is so small against e^`epsilon` that no clipping honours it.
    """
    if not (0 < delta < 1 and 0 < epsilon < math.inf and n_cells >= 1):
        raise ValueError("Gaussian noise needs epsilon > 0, 0 < delta < 1 and cells.")
    if not (0 < sigma < math.inf and _power_of_two_step(sigma) > 0):
        raise ValueError("sigma must be finite, positive and not subnormal.")
    # Half of the residual for the sampler's relative error, half for the clipping.
    log_half = math.log(delta) - epsilon - math.log(4e4)
    if log_half < -700:
        raise ValueError(f"delta = {delta:g} is too small for epsilon = {epsilon:g}.")
    # Relative error of the probability of one cell: 3.92 2^(m - 51), tripled.
    eta = 3 * 3.92 * 2.0 ** (_FINENESS - 51)
    e1 = n_cells * eta**2 + eta * math.sqrt(2 * n_cells * -log_half)
    clip = -float(ndtri_exp(log_half - math.log(2 * n_cells)))
    tails = 2 * n_cells * math.exp(float(log_ndtr(-clip)))
    return GaussianLattice(
        sigma=float(sigma),
        step=_power_of_two_step(sigma),
        clip=clip,
        residual_epsilon=e1,
        residual_delta=math.exp(log_half) + tails,
    )


def _refuse_nan(values):
    if np.isnan(values).any():
        raise ValueError("Noise is not added to NaN.")


def _dense_normal(bits, size):
    """Standard normals whose tail is drawn from a uniform dense near zero.

    NumPy derives the tail from a 53-bit uniform, which leaves holes beyond the
    ziggurat; those variates (0.026%) are drawn again by Marsaglia's method.
    """
    normal = np.random.Generator(bits).standard_normal(size)
    tail = np.flatnonzero(np.abs(normal) > _ZIGGURAT_TAIL)
    while tail.size:
        x = -np.log(_dense_uniform(bits, tail.size)) / _ZIGGURAT_TAIL
        y = -np.log(_dense_uniform(bits, tail.size))
        accepted = 2 * y > x * x
        chosen = tail[accepted]
        normal[chosen] = np.copysign(_ZIGGURAT_TAIL + x[accepted], normal[chosen])
        tail = tail[~accepted]
    return normal


def _dense_uniform(bits, size):
    """Uniforms in (0, 1) with 52 significant bits at every binary exponent."""
    fraction = (bits.random_raw(size) >> np.uint64(12)) * 2.0**-52
    exponent = np.zeros(size, dtype=np.int64)
    open_ended = np.arange(size)
    while open_ended.size:
        words = bits.random_raw(open_ended.size) >> np.uint64(11)
        exponent[open_ended] += 53 - np.frexp(words.astype(float))[1]
        open_ended = open_ended[words == 0]
    return np.ldexp(0.5 + 0.5 * fraction, -exponent)
