"""Lattice directions drawn inside or outside a cap of the sphere, for PrivUnit.

The low-order bits of a float vector t u + sqrt(1 - t^2) w betray u. So this module
draws a point of the public lattice h Z^D, h = 2^-fineness, and PrivUnit releases its
direction. The proof in doc/privunit.md uses the facts below, with bounds that this
module computes. Here f(u, V) is the computed cosine of u and V, and g is the cosine of
the cap.

1. Candidates are rounded normals V, which do not depend on u. A candidate is
   *supported* if its length is within [1/2, 2] sqrt(D); integers decide this exactly.
2. Plain rejection accepts a candidate with f(u, V) >= g for a point inside the cap, or
   with f(u, V) < g for a point outside. Whatever distribution the floats give to V, it
   cancels between two u: only the probabilities of the two events depend on u. They lie
   between those of two caps, `inner` and `outer`, since rounding to the lattice turns a
   vector by a bounded angle.
3. For small caps, ideal normals are conditioned on the outer cap, then rounded. Every
   lattice cell with f >= g at its centre lies wholly in the outer cap. So the
   distribution of V is that of candidates restricted to f >= g, up to a factor
   e^+-eta, by which floating-point errors of a draw can enlarge or shrink a cell.

Every error is relative, so there is no delta. The number of candidates tried, and so
the running time, depends on the noise.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from ._discrete import uniform_below
from ._lattice import _dense_normal, _dense_uniform

_ROUNDOFF = 2.0**-53
# NumPy's normals, with a dense tail, are within 2^-46 (1 + |z|) of ideal normals z.
_NORMAL_ERROR = 2.0**-46
# The cap is chosen with a probability of this many bits.
_WEIGHT_BITS = 62
# Numbers drawn in a round of rejection, and the most candidates of a row in it.
_ROUND, _MOST_TRIES = 2**16, 16


@dataclass(frozen=True)
class CapSampler:
    """Sampler of lattice directions inside or outside a cap around each u.

    Parameters
    ----------
    dimension : int
        D, at least 2.
    cosine, gap : float
        The cap is <u, v> >= `cosine`; `gap` is 1 - `cosine`, to full precision.
    weight : int
        A draw is inside the cap with probability `weight` / 2^62.
    fineness : int
        Standard normals are rounded to a lattice of step 2^-`fineness`.
    aimed : bool
        Whether to aim the draws inside the cap at it; otherwise, plain rejection waits
        for them.
    """

    dimension: int
    cosine: float
    gap: float
    weight: int
    fineness: int
    aimed: bool

    @property
    def _dot_error(self) -> float:
        """Relative error of a sum of D products under NumPy's pairwise summation."""
        return (32 + math.log2(self.dimension)) * _ROUNDOFF

    @property
    def _draw_error(self) -> float:
        """Bound b on the error e of a draw: |e|_2 <= b sqrt(D), and |e|_1 <= b D."""
        return 80 * (_NORMAL_ERROR + self._dot_error)

    @cached_property
    def _coarse(self) -> int:
        """A fineness at which squared lengths of supported points are below 2^53."""
        return min(self.fineness, int(50 - math.log2(self.dimension)) // 2)

    @property
    def _length_error(self) -> float:
        """Largest error, over sqrt(D), of the length |V| that decides the support."""
        return 0.0 if self._coarse == self.fineness else 2.0 ** -(self._coarse + 1)

    @cached_property
    def _angles(self) -> tuple[float, float]:
        """Angles of the caps `inner` and `outer`."""
        moved = 2.0 ** -(self.fineness + 1) + self._draw_error
        turn = math.asin(min(1.0, moved / (0.5 - self._length_error)))
        slack = 4 * self._dot_error
        inner = 2 * math.asin(math.sqrt(max(0.0, self.gap - slack) / 2))
        outer = 2 * math.asin(math.sqrt(min(2.0, self.gap + slack) / 2))
        return max(0.0, inner - turn), min(math.pi, outer + turn)

    @property
    def inner(self) -> tuple[float, float]:
        """Cosine, and 1 - cosine, of a cap whose ideal draws all end in the cap."""
        return _cosine_and_gap(self._angles[0])

    @property
    def outer(self) -> tuple[float, float]:
        """Cosine, and 1 - cosine, of a cap with all ideal draws that end in the cap."""
        return _cosine_and_gap(self._angles[1])

    @property
    def residual(self) -> float:
        """Epsilon of a release that the masses of the caps do not account for.

        Returns
        -------
        residual : float
            A pure epsilon; infinite if the lattice is too fine.
        """
        share = self._length_error + 2.0 ** -(self.fineness + 1) + self._draw_error
        residual = math.log(self._shell(share)) - math.log(self._shell(-share))
        if self.aimed:
            residual += self._cell_error(self._draw_error)
            residual += self._cell_error(3.1 * _NORMAL_ERROR)
        return residual

    def _shell(self, wider: float) -> float:
        """Probability of a normal's length in [1/2 - wider, 2 + wider] sqrt(D)."""
        radii = np.array([0.5 - wider, 2 + wider]) * math.sqrt(self.dimension)
        low, high = gammainc(self.dimension / 2, radii**2 / 2)
        return high - low

    def _cell_error(self, moved: float) -> float:
        """Error of a cell's log-probability if its faces move by `moved` D in total."""
        step, root = 2.0**-self.fineness, math.sqrt(self.dimension)
        change = 2 * self.dimension * moved / step * math.exp(2.1 * root * step)
        return -math.log1p(-change) if change < 1 else math.inf

    def draw(
        self, units: NDArray[np.float64], bits: np.random.BitGenerator
    ) -> NDArray[np.float64]:
        """One lattice point for each row, inside or outside the row's cap.

        Parameters
        ----------
        units : ndarray of shape (n, D)
            Unit vectors, up to about `D` roundoffs; not NaN.
        bits : bit generator
            Supplies 64-bit words.

        Returns
        -------
        points : ndarray of shape (n, D)
            Whole numbers: the points, in steps of the lattice. Their directions are v.
        """
        points = np.empty_like(units)
        inside = uniform_below(bits, 2**_WEIGHT_BITS, len(units)) < np.uint64(
            self.weight
        )
        for side in (False, True):
            propose = self._aimed_at if side and self.aimed else self._candidates
            rows = np.flatnonzero(inside == side)
            while rows.size:
                # The fewer rows remain, the more candidates each of them gets.
                n_tries = max(1, _ROUND // (rows.size * self.dimension))
                n_tries = min(n_tries, _MOST_TRIES)
                centres = np.repeat(units[rows], n_tries, axis=0)
                candidates = propose(centres, bits)
                accepted = self._is_supported(candidates)
                accepted &= (_cosines(centres, candidates) >= self.cosine) == side
                accepted = accepted.reshape(rows.size, n_tries)
                done, first = accepted.any(axis=1), accepted.argmax(axis=1)
                chosen = np.arange(rows.size) * n_tries + first
                points[rows[done]] = candidates[chosen[done]]
                rows = rows[~done]
        # Turn -0.0 into 0.0: the sign would tell from which side a zero was rounded.
        points += 0.0
        return points

    def _candidates(
        self, centres: NDArray[np.float64], bits: np.random.BitGenerator
    ) -> NDArray[np.float64]:
        """Rounded normals, one for each row of `centres`, whose values are not read."""
        points = _dense_normal(bits, centres.size).reshape(centres.shape)
        points *= 2.0**self.fineness
        return np.rint(points, out=points)

    def _aimed_at(
        self, centres: NDArray[np.float64], bits: np.random.BitGenerator
    ) -> NDArray[np.float64]:
        """Rounded normals conditioned on the outer cap; zeros for rejected draws.

        A normal keeps its length and its direction orthogonal to u; its angle to u is
        drawn again.
        """
        normal = _dense_normal(bits, centres.size).reshape(centres.shape)
        length = np.sqrt(_dots(normal, normal))
        along = _dots(centres, normal)
        normal -= along[:, np.newaxis] * centres
        across = np.sqrt(_dots(normal, normal))
        cosine, sine = _draws_in_cap(bits, self.dimension, *self.outer, len(centres))
        # Where the old angle is far from a right angle, the orthogonal component has
        # lost digits, and the draw is rejected. This does not change the distribution:
        # the old angle is independent of all that the draw keeps.
        good = np.abs(along) <= across
        length = np.where(good, length, 0.0) * 2.0**self.fineness
        normal *= (length * sine / np.where(good, across, 1.0))[:, np.newaxis]
        normal += (length * cosine)[:, np.newaxis] * centres
        return np.rint(normal, out=normal)

    def _is_supported(self, points: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether the lengths are within [1/2, 2] sqrt(D), exactly.

        All numbers are whole; sums below 2^53 are exact in any order.
        """
        if self._coarse < self.fineness:
            points = np.rint(points * 2.0 ** (self._coarse - self.fineness))
        squares = np.einsum("ij,ij->i", points, points)
        unit = self.dimension * 4.0**self._coarse
        return (squares >= unit / 4) & (squares <= 4 * unit)


def _dots(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Dot products of rows, summed pairwise along the contiguous axis."""
    return np.multiply(x, y).sum(axis=1)


def _cosines(
    units: NDArray[np.float64], points: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Computed cosines of rows; -2 for a point at zero."""
    lengths = np.sqrt(_dots(points, points))
    with np.errstate(invalid="ignore"):
        return np.where(lengths > 0, _dots(units, points) / lengths, -2.0)


def _cosine_and_gap(angle: float) -> tuple[float, float]:
    """Cosine, and 1 - cosine to full precision."""
    return math.cos(angle), 2 * math.sin(angle / 2) ** 2


def _draws_in_cap(
    bits: np.random.BitGenerator, dimension: int, cosine: float, gap: float, size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosines and sines of the angles to the centre, for uniform points of a cap.

    The squared sine y has density proportional to y^((D - 3) / 2) / sqrt(1 - y) on
    (0, Y]. A power of a uniform is accepted with probability `cosine` / sqrt(1 - y).
    """
    if not cosine > 0:
        raise ValueError("Draws can be aimed only at caps smaller than a hemisphere.")
    # Y, the largest squared sine.
    largest = gap * (2 - gap)
    cosines, sines = np.empty(size), np.empty(size)
    missing = np.arange(size)
    while missing.size:
        rate = -2 * np.log(_dense_uniform(bits, missing.size)) / (dimension - 1)
        drawn = np.sqrt(cosine**2 - largest * np.expm1(-rate))
        accepted = _dense_uniform(bits, missing.size) * drawn < cosine
        cosines[missing[accepted]] = drawn[accepted]
        sines[missing[accepted]] = math.sqrt(largest) * np.exp(-rate[accepted] / 2)
        missing = missing[~accepted]
    return cosines, sines
