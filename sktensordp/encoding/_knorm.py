"""Noise of density exp(-|y| / s) on a lattice: pure privacy on a Euclidean ball.

This is the K-norm mechanism of Hardt and Talwar (2010) for the Euclidean norm. It moves
the code towards zero to a lattice point k, which increases no norm. It then draws y
from that density and adds the integers N = rint(y / step). The distribution of N
integrates the density over a cell, and the cells are translates of one another. Hence
the privacy loss of ideal draws is exactly the distance of the two k over s.
`KNormLattice.residual` bounds what floating-point errors add; doc/encoding.md has the
proof.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammainccinv

from ..noise._lattice import _dense_normal, _dense_uniform, _power_of_two_step

_EPS = float(np.finfo(float).eps)
# NumPy's normals, with a dense tail, are within 2^-46 (1 + |z|) of ideal normals z.
_NORMAL_ERROR = 2.0**-46
# The step is 2^-10 of the smaller of the noise's scale and the ball's radius.
_FINENESS = 10
# Largest probability that a draw is repeated because its radius is too large.
_TAIL = 1e-26
_SMALLEST_EPSILON = 1e-100
# Bound on the relative errors in the computation of epsilon.
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
        Step of the lattice; a power of two.
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
        """Diameter of the ball, including the rounding errors of clipping."""
        return 2 * (1 + (self.n_entries + 8) * _EPS)

    @property
    def epsilon(self) -> float:
        """Pure epsilon of a release."""
        return (self.diameter / self.scale + self.residual) * (1 + _ROUNDING)

    @property
    def _reach(self) -> int:
        """Largest norm of a released point, in steps; larger draws are repeated."""
        tail = float(gammainccinv(self.n_entries, _TAIL)) * self.scale
        return math.ceil((tail + 1) / self.step + math.sqrt(self.n_entries))

    @property
    def residual(self) -> float:
        """Bound on the privacy loss beyond that of ideal draws."""
        n, root = self.n_entries, math.sqrt(self.n_entries)
        largest = (self._reach + 2 * root) * self.step + self.diameter
        relative = 8 * _NORMAL_ERROR + 4 * (32 + math.log2(n)) * _EPS
        error = 1.01 * (relative * largest + n * _EPS * self.scale)
        change = 2 * error / self.step
        if change >= 1:
            return math.inf
        cell = -n * math.log1p(-change) + root * error / self.scale
        length = 2.0**-40 * root
        return 2 * (cell + length) + 2 * float(gammaincc(n, gammainccinv(n, _TAIL)))

    def randomize(
        self, values: NDArray[np.floating], bits: np.random.BitGenerator
    ) -> NDArray[np.float64]:
        """Add noise to points of the unit ball.

        Parameters
        ----------
        values : ndarray of shape (n, n_entries), float64
            In the unit ball, up to the rounding errors of clipping.
        bits : bit generator
            Yields 64-bit words.

        Returns
        -------
        noisy : ndarray of shape (n, n_entries)
        """
        # + 0.0 removes the sign of zeros, which reveals the side of the rounded value.
        index = np.trunc(values / self.step) + 0.0
        pending = np.arange(len(index))
        noisy = np.empty_like(index)
        while pending.size:
            noise, accepted = self._draw(pending.size, bits)
            points = index[pending] + noise
            accepted &= np.square(points).sum(axis=1) <= float(self._reach) ** 2
            noisy[pending[accepted]] = points[accepted]
            pending = pending[~accepted]
        noisy *= self.step
        return noisy

    def _draw(
        self, size: int, bits: np.random.BitGenerator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Rounded noise in steps, and which of its rows to accept.

        The radius has a gamma distribution, and the direction is that of normals. Rows
        of short normals are rejected: rounding makes their direction inexact.
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
        Its epsilon is at most `epsilon`.

    Raises
    ------
    ValueError
        If the sampler's residual would take more than half of `epsilon`.
    """
    if epsilon < _SMALLEST_EPSILON:
        raise ValueError(
            f"epsilon = {epsilon} is too small: the noise cannot be represented."
        )
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
        f"entries: the sampler's error would use more than half of it."
    )
