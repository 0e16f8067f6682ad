"""Directions of lattice points inside or outside of a cap, for PrivUnit.

A float t u + sqrt(1 - t^2) w betrays u by its low-order bits. Here a point of the
public lattice h Z^D, h = 2^-fineness, is drawn, and its direction is released. What
the proof in doc/privunit.md uses, and the bounds that this module computes:

1. Candidates are rounded normals V. They do not depend on u. One is *supported* if
   its length is within [1/2, 2] sqrt(D), which is decided exactly, on integers.
2. Plain rejection takes a candidate with f(u, V) >= g, or with f(u, V) < g. Whatever
   law the floats give to V, it cancels between two u; only the probabilities of both
   events depend on u. They lie between those of two caps, `inner` and `outer`, since
   rounding to the lattice turns a vector by a bounded angle.
3. For small caps, ideal normals are conditioned on the outer cap, and rounded. Every
   lattice cell with f >= g at its centre lies wholly in the outer cap, so that the
   law of V is that of candidates, restricted to f >= g, up to a factor e^+-eta: how
   much larger or smaller a cell becomes by the floating-point errors of a draw.

Every error is relative; there is no delta. How many candidates are tried, hence the
time taken, depends on the noise.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from ._discrete import _below
from ._lattice import _dense_normal, _dense_uniform

__all__ = ["CapSampler"]

_ROUNDOFF = 2.0**-53
# NumPy's normals, with a dense tail, are within 2^-46 (1 + |z|) of ideal ones z.
_OF_NORMALS = 2.0**-46
# Bits of the weights that the side of the cap is drawn by.
_WEIGHT_BITS = 62
# Entries of the candidates of one round, and candidates of a row in it.
_ROUND, _MOST_TRIES = 2**16, 16


@dataclass(frozen=True)
class CapSampler:
    """Draws lattice directions inside of a cap around each u, or outside of it.

    Parameters
    ----------
    dimension : int
        D, at least 2.
    cosine, gap : float
        The cap is <u, v> >= `cosine`; `gap` is 1 - `cosine`, to full precision.
    weight : int
        The cap is chosen with probability `weight` / 2^62.
    fineness : int
        The step of the lattice is 2^-`fineness`; standard normals are put on it.
    aimed : bool
        Whether draws inside of the cap are aimed at it, rather than waited for.
    """

    dimension: int
    cosine: float
    gap: float
    weight: int
    fineness: int
    aimed: bool

    @property
    def _dot_error(self) -> float:
        """Relative error of a sum of D products, by NumPy's pairwise summation."""
        return (32 + math.log2(self.dimension)) * _ROUNDOFF

    @property
    def _draw_error(self) -> float:
        """Error e of a draw: |e|_2 <= this sqrt(D), and sup |e_1| + ... <= this D."""
        return 80 * (_OF_NORMALS + self._dot_error)

    @cached_property
    def _coarse(self) -> int:
        """Fineness at which a supported point's squared length is below 2^53."""
        return min(self.fineness, int(50 - math.log2(self.dimension)) // 2)

    @property
    def _length_error(self) -> float:
        """How far |V| is from the length that decides on the support, in sqrt(D)."""
        return 0.0 if self._coarse == self.fineness else 2.0 ** -(self._coarse + 1)

    @cached_property
    def _angles(self) -> tuple[float, float]:
        """Of the caps that all ideal draws leave or enter with the computed cap."""
        moved = 2.0 ** -(self.fineness + 1) + self._draw_error
        turn = math.asin(min(1.0, moved / (0.5 - self._length_error)))
        slack = 4 * self._dot_error
        inner = 2 * math.asin(math.sqrt(max(0.0, self.gap - slack) / 2))
        outer = 2 * math.asin(math.sqrt(min(2.0, self.gap + slack) / 2))
        return max(0.0, inner - turn), min(math.pi, outer + turn)

    @property
    def inner(self) -> tuple[float, float]:
        """Cosine, and 1 - cosine, of a cap whose every ideal draw is in the cap."""
        return _cosine_and_gap(self._angles[0])

    @property
    def outer(self) -> tuple[float, float]:
        """Cosine, and 1 - cosine, of a cap that has every ideal draw of the cap."""
        return _cosine_and_gap(self._angles[1])

    @property
    def residual(self) -> float:
        """What the law of a release has to answer for, beside the caps' masses.

        Returns
        -------
        residual : float
            A pure epsilon; infinite where the lattice is too fine.
        """
        share = self._length_error + 2.0 ** -(self.fineness + 1) + self._draw_error
        residual = math.log(self._shell(share)) - math.log(self._shell(-share))
        if self.aimed:
            residual += self._cell_error(self._draw_error)
            residual += self._cell_error(3.1 * _OF_NORMALS)
        return residual

    def _shell(self, wider: float) -> float:
        """Probability that an ideal normal's length is within [1/2, 2] sqrt(D)."""
        radii = np.array([0.5 - wider, 2 + wider]) * math.sqrt(self.dimension)
        low, high = gammainc(self.dimension / 2, radii**2 / 2)
        return high - low

    def _cell_error(self, moved: float) -> float:
        """Logarithmic error of a cell's probability, faces moving by `moved` D."""
        step, root = 2.0**-self.fineness, math.sqrt(self.dimension)
        change = 2 * self.dimension * moved / step * math.exp(2.1 * root * step)
        return -math.log1p(-change) if change < 1 else math.inf

    def draw(
        self, units: NDArray[np.float64], bits: np.random.BitGenerator
    ) -> NDArray[np.float64]:
        """One lattice point a row, inside of the row's cap or outside.

        Parameters
        ----------
        units : ndarray of shape (n, D)
            Unit vectors, to some `D` roundoffs. Not NaN.
        bits : bit generator
            Source of 64-bit words.

        Returns
        -------
        points : ndarray of shape (n, D)
            Whole numbers: the point in units of the step. Its direction is v.
        """
        points = np.empty_like(units)
        inside = _below(bits, 2**_WEIGHT_BITS, len(units)) < np.uint64(self.weight)
        for wanted in (False, True):
            propose = self._aimed_at if wanted and self.aimed else self._candidates
            left = np.flatnonzero(inside == wanted)
            while left.size:
                # Rounds stay large, however few rows are left.
                n_tries = max(1, _ROUND // (left.size * self.dimension))
                n_tries = min(n_tries, _MOST_TRIES)
                around = np.repeat(units[left], n_tries, axis=0)
                found = propose(around, bits)
                taken = self._is_supported(found)
                taken &= (_cosines(around, found) >= self.cosine) == wanted
                taken = taken.reshape(left.size, n_tries)
                done, first = taken.any(axis=1), taken.argmax(axis=1)
                chosen = np.arange(left.size) * n_tries + first
                points[left[done]] = found[chosen[done]]
                left = left[~done]
        # No whole number is -0.0: its sign would tell from which side it was rounded.
        points += 0.0
        return points

    def _candidates(
        self, around: NDArray[np.float64], bits: np.random.BitGenerator
    ) -> NDArray[np.float64]:
        """Rounded normals, one for every row of `around`, which is not read."""
        points = _dense_normal(bits, around.size).reshape(around.shape)
        points *= 2.0**self.fineness
        return np.rint(points, out=points)

    def _aimed_at(
        self, around: NDArray[np.float64], bits: np.random.BitGenerator
    ) -> NDArray[np.float64]:
        """Rounded normals that are in the outer cap; zeros where a draw is no good.

        A normal keeps its length and its direction orthogonal to u; its angle to u
        is drawn again.
        """
        normal = _dense_normal(bits, around.size).reshape(around.shape)
        length = np.sqrt(_dots(normal, normal))
        along = _dots(around, normal)
        normal -= along[:, np.newaxis] * around
        across = np.sqrt(_dots(normal, normal))
        cosine, sine = _draws_in_cap(bits, self.dimension, *self.outer, len(around))
        # The angle that is given up is independent of all that is kept; where it is
        # far from a right one, the orthogonal part would have lost digits.
        good = np.abs(along) <= across
        length = np.where(good, length, 0.0) * 2.0**self.fineness
        normal *= (length * sine / np.where(good, across, 1.0))[:, np.newaxis]
        normal += (length * cosine)[:, np.newaxis] * around
        return np.rint(normal, out=normal)

    def _is_supported(self, points: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether lengths are within [1/2, 2] sqrt(D), exactly.

        All numbers are whole, and sums below 2^53 exact in any order.
        """
        if self._coarse < self.fineness:
            points = np.rint(points * 2.0 ** (self._coarse - self.fineness))
        squares = np.einsum("ij,ij->i", points, points)
        unit = self.dimension * 4.0**self._coarse
        return (squares >= unit / 4) & (squares <= 4 * unit)


def _dots(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Products of rows, summed pairwise along the contiguous axis."""
    return np.multiply(x, y).sum(axis=1)


def _cosines(
    units: NDArray[np.float64], points: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Cosines of rows, computed; -2 for a point at zero."""
    lengths = np.sqrt(_dots(points, points))
    with np.errstate(invalid="ignore"):
        return np.where(lengths > 0, _dots(units, points) / lengths, -2.0)


def _cosine_and_gap(angle: float) -> tuple[float, float]:
    return math.cos(angle), 2 * math.sin(angle / 2) ** 2


def _draws_in_cap(
    bits: np.random.BitGenerator, dimension: int, cosine: float, gap: float, size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosines and sines of angles to the centre, uniformly from a cap.

    The squared sine y has density y^((D - 3) / 2) / sqrt(1 - y) on (0, Y]: a power
    of a uniform, accepted with probability `cosine` / sqrt(1 - y).
    """
    if not cosine > 0:
        raise ValueError("Draws are aimed at caps smaller than a hemisphere.")
    most = gap * (2 - gap)
    cosines, sines = np.empty(size), np.empty(size)
    left = np.arange(size)
    while left.size:
        rate = -2 * np.log(_dense_uniform(bits, left.size)) / (dimension - 1)
        found = np.sqrt(cosine**2 - most * np.expm1(-rate))
        taken = _dense_uniform(bits, left.size) * found < cosine
        cosines[left[taken]] = found[taken]
        sines[left[taken]] = math.sqrt(most) * np.exp(-rate[taken] / 2)
        left = left[~taken]
    return cosines, sines
