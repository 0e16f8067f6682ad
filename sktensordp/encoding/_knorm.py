"""Noise of density exp(-|y| / s) on a lattice: pure privacy on a Euclidean ball.

The K-norm mechanism of Hardt and Talwar (2010) for the Euclidean norm. The code is
moved to a lattice point k towards zero, which makes no norm larger, and the integers
N = rint(y / step) are added, y having that density. The law of N is a sum of the
density over a cell, and cells are translates of one another, so that the loss of
ideal draws is the distance of two k over s, exactly. What a draw's floating-point
errors add is computed by `KNormLattice.residual`; doc/encoding.md has the proof.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammainccinv

from ..noise._lattice import _dense_normal, _dense_uniform, _power_of_two_step

__all__ = ["KNormLattice", "knorm_lattice"]

_EPS = float(np.finfo(float).eps)
# NumPy's normals, with a dense tail, are within 2^-46 (1 + |z|) of ideal ones z.
_OF_NORMALS = 2.0**-46
# The step is 2^-10 of the smaller of the noise's scale and the ball's radius.
_FINENESS = 10
# A radius of the noise is redrawn with at most this probability.
_TAIL = 1e-26
_SMALLEST_EPSILON = 1e-100
# Relative errors of all that is computed here of epsilon.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class KNormLattice:
    """Noise of density exp(-|y| / scale) for points of the unit ball, on a lattice.

    Parameters
    ----------
    n_entries : int
        Z.
    scale : float
    step : float
        Of the lattice; a power of two.
    """

    n_entries: int
    scale: float
    step: float

    @property
    def variance(self) -> float:
        """Variance of the noise in an entry: (Z + 1) scale^2."""
        return (self.n_entries + 1) * self.scale**2

    @property
    def diameter(self) -> float:
        """Of the ball, its clipping's rounding errors included."""
        return 2 * (1 + (self.n_entries + 8) * _EPS)

    @property
    def epsilon(self) -> float:
        """Pure epsilon of a release."""
        return (self.diameter / self.scale + self.residual) * (1 + _ROUNDING)

    @property
    def _reach(self) -> int:
        """Norm of a released point at most, in steps; draws beyond are repeated."""
        tail = float(gammainccinv(self.n_entries, _TAIL)) * self.scale
        return math.ceil((tail + 1) / self.step + math.sqrt(self.n_entries))

    @property
    def residual(self) -> float:
        """What the law of a release has to answer for beyond that of ideal draws."""
        n, root = self.n_entries, math.sqrt(self.n_entries)
        largest = (self._reach + 2 * root) * self.step + self.diameter
        relative = 8 * _OF_NORMALS + 4 * (32 + math.log2(n)) * _EPS
        moved = 1.01 * (relative * largest + n * _EPS * self.scale)
        change = 2 * moved / self.step
        if change >= 1:
            return math.inf
        cell = -n * math.log1p(-change) + root * moved / self.scale
        length = 2.0**-40 * root
        return 2 * (cell + length) + 2 * float(gammaincc(n, gammainccinv(n, _TAIL)))

    def randomize(
        self, values: NDArray[np.floating], bits: np.random.BitGenerator
    ) -> NDArray[np.float64]:
        """Points of the unit ball plus noise.

        Parameters
        ----------
        values : ndarray of shape (n, n_entries), float64
            In the unit ball, up to the clipping's rounding errors.
        bits : bit generator
            Source of 64-bit words.

        Returns
        -------
        noisy : ndarray of shape (n, n_entries)
        """
        # The sign of a zero would tell from which side a value was rounded.
        index = np.trunc(values / self.step) + 0.0
        left = np.arange(len(index))
        noisy = np.empty_like(index)
        while left.size:
            noise, accepted = self._draw(left.size, bits)
            found = index[left] + noise
            accepted &= np.square(found).sum(axis=1) <= float(self._reach) ** 2
            noisy[left[accepted]] = found[accepted]
            left = left[~accepted]
        noisy *= self.step
        return noisy

    def _draw(
        self, size: int, bits: np.random.BitGenerator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Rounded noise in steps, and which rows of it are good.

        A radius with a gamma law, and the direction of normals, which loses digits
        only where their length is small.
        """
        n = self.n_entries
        normal = _dense_normal(bits, size * n).reshape(size, n)
        length = np.sqrt(np.square(normal).sum(axis=1))
        uniform = _dense_uniform(bits, size * n).reshape(size, n)
        radius = -np.log(uniform).sum(axis=1)
        accepted = length >= math.sqrt(n) / 2
        radius *= self.scale / self.step
        normal *= (radius / np.where(accepted, length, 1.0))[:, np.newaxis]
        return np.rint(normal, out=normal), accepted


def knorm_lattice(n_entries: int, epsilon: float) -> KNormLattice:
    """Noise for the unit ball of R^`n_entries` under pure `epsilon`.

    Parameters
    ----------
    n_entries : int
    epsilon : float
        Finite, positive.

    Returns
    -------
    lattice : KNormLattice
        Of epsilon at most `epsilon`.

    Raises
    ------
    ValueError
        If the sampler's residual would take more than half of `epsilon`.
    """
    if epsilon < _SMALLEST_EPSILON:
        raise ValueError(f"epsilon = {epsilon} is too small to be represented.")
    nominal = epsilon
    while nominal >= epsilon / 2:
        scale = 2 * (1 + (n_entries + 8) * _EPS) / nominal
        step = float(_power_of_two_step(min(scale, 1.0), _FINENESS))
        lattice = KNormLattice(n_entries, scale, step)
        if lattice.epsilon <= epsilon:
            return lattice
        nominal = min(
            nominal - (lattice.epsilon - epsilon), math.nextafter(nominal, 0.0)
        )
    raise ValueError(
        f"epsilon = {epsilon} cannot be honoured by K-norm noise on {n_entries} "
        f"entries: the sampler's error would take more than half of it."
    )
