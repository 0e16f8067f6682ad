"""How far two codes are apart if all samples lie in a declared box, with proofs.

X is the box, z a standardised sample, and a code is z A + b + g(z V + c) B, where g is
monotone. Two bounds on the L1 distance of two codes of X are true for every box:

* Without hidden units, codes differ by d A with |d_j| at most the width w_j. The L1
  norm is convex, so it is largest at a corner of the box of differences, and it is the
  largest of the 2^Z sums of codes with signs s: max over s of sum_j |A s|_j w_j. Either
  enumeration is exact. If both are too long, sum_jk w_j |A_jk| is an upper bound.
* With hidden units, corners prove nothing. Intervals are passed through the layers:
  c + z V has its ends at corners, column by column, g keeps their order, and the same
  holds for the outputs. The sum of the widths of the intervals of the code is an upper
  bound. Codes are clipped to these intervals, so no rounding error can exceed it.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams
from ..encoding._client import ClientRandomizer
from ..encoding._maps import CodeMap
from ..encoding._whitening import standardized
from ..noise import LaplaceLattice, laplace_lattice
from ..privacy.calibration._sensitivity import SensitivitySet

_EPS = float(np.finfo(float).eps)
# Up to 2^14 corners or signs are enumerated.
_MOST_BITS = 14


@dataclass(frozen=True)
class BoxedRandomizer(ClientRandomizer):
    """Clips samples to a box, then encodes and randomises them.

    Attributes
    ----------
    box : SensitivitySet
        Its ends are finite.
    """

    box: SensitivitySet = field(kw_only=True)

    def randomize(
        self, rows: NDArray[np.floating], streams: NoiseStreams
    ) -> NDArray[np.floating]:
        """Noisy codes of samples; NaN counts as the middle of its range."""
        known = np.where(np.isnan(rows), self.box.centre, rows)
        inside = self.box.clip(known, slice(None), None)
        return super().randomize(inside, streams).astype(rows.dtype, copy=False)


@dataclass(frozen=True)
class StandardBox:
    """A box of standardised samples.

    Attributes
    ----------
    low, high : ndarray of shape (n,)
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        box: SensitivitySet,
        mean: NDArray[np.float64],
        scale: NDArray[np.float64],
        columns: NDArray[np.int64] | slice = slice(None),
    ) -> "StandardBox":
        """The box after samples are standardised; of some columns alone."""
        ends = (np.broadcast_to(end, mean.shape)[np.newaxis] for end in box.ends)
        low, high = (standardized(end, mean, scale)[0, columns] for end in ends)
        return cls(low, high)

    def interval(
        self, matrix: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Least and largest entries of z times a matrix, for z in the box."""
        return _interval(self.low, self.high, matrix)

    def longest(self, matrix: NDArray[np.float64]) -> float:
        """Largest Euclidean norm of z times a matrix, or an upper bound on it."""
        n = len(matrix)
        if n <= _MOST_BITS:
            corners = np.where(_bits(n), self.high, self.low)
            return float(np.linalg.norm(corners @ matrix, axis=1).max())
        return float(np.linalg.norm(np.maximum(*np.abs(self.interval(matrix)))))

    def diameter(self, encoder: CodeMap) -> float:
        """Bound on the L1 distance of the codes of two samples in the box.

        Parameters
        ----------
        encoder : CodeMap
            Takes standardised samples.

        Returns
        -------
        diameter : float
            Also for codes that are computed in floating point.
        """
        shape = encoder.shape
        if shape.n_hidden:
            low, high = self.codes(encoder)
            return float(np.sum(high - low))
        A, b = shape.split(encoder.vector)[:2]
        weighted = (self.high - self.low)[:, np.newaxis] * A
        n, n_outputs = A.shape
        if n_outputs - 1 <= min(n - 1, _MOST_BITS):
            signs = 2.0 * _bits(n_outputs - 1, n_outputs) - 1
            exact = np.abs(weighted @ signs.T).sum(axis=0).max()
        elif n - 1 <= _MOST_BITS:
            signs = 2.0 * _bits(n - 1, n) - 1
            exact = np.abs(signs @ weighted).sum(axis=1).max()
        else:
            exact = np.abs(weighted).sum()
        # Two codes, and this sum, are off by at most this: (n + 2) roundings of sums of
        # n products, each relative to the sum of their absolute values.
        reach = np.maximum(np.abs(self.low), np.abs(self.high))
        size = float(np.sum(reach @ np.abs(A) + np.abs(b)))
        return float(exact) + 8 * (n + n_outputs + 8) * _EPS * size

    def codes(
        self, encoder: CodeMap
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends of intervals that hold the codes of all samples in the box."""
        A, b, V, c, B = encoder.shape.split(encoder.vector)
        low, high = self.interval(A)
        if encoder.shape.n_hidden:
            activation = encoder.shape.activation
            least, most = (activation(end + c) for end in self.interval(V))
            more = _interval(least, most, B)
            low, high = low + more[0], high + more[1]
        # Codes that rounding moves out of the intervals are clipped. This keeps those
        # few, and every interval open.
        slack = 1e-9 * (1 + np.abs(low) + np.abs(high))
        return low + b - slack, high + b + slack

    def lattice(self, encoder: CodeMap, epsilon: float) -> LaplaceLattice:
        """Laplace noise that keeps epsilon for the codes of all samples in the box."""
        n_outputs = encoder.shape.n_outputs
        if encoder.shape.n_hidden:
            return laplace_lattice(*self.codes(encoder), epsilon, n_cells=n_outputs)
        return laplace_lattice(
            -np.inf, np.inf, epsilon, n_cells=n_outputs, l1=self.diameter(encoder)
        )


def _interval(
    low: NDArray[np.float64], high: NDArray[np.float64], matrix: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and largest entries of z times a matrix, for z between low and high."""
    rising, falling = np.maximum(matrix, 0), np.minimum(matrix, 0)
    return low @ rising + high @ falling, high @ rising + low @ falling


def _bits(n_free: int, n: int | None = None) -> NDArray[np.bool_]:
    """All rows of n bits of which the last n - n_free are true."""
    numbers = np.arange(2**n_free)[:, np.newaxis]
    free = (numbers >> np.arange(n_free) & 1).astype(bool)
    fixed = np.ones((len(free), (n or n_free) - n_free), dtype=bool)
    return np.hstack([free, fixed])
