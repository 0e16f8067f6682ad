"""Exact sums over users of the centred products of their choices.

Let x be the n choices of a user among m items. With the items' expected shares q of the
choices, y = x - n q. The user adds c T to a sum, where T is the upper triangle of y y'
with half of its diagonal, and c = sqrt(s) / max(|T|, a length). The squared length of T
is the sum of y_i^2 y_j^2 over i < j plus a quarter of the sum of y_i^4, that is,
|y|^4 / 2 less a quarter of the sum of y_i^4. So the vector of a user is no longer than
sqrt(s), the root of the release's share of the squared budget.

**Integers.** With P = 2^14 q in whole numbers and Y = 2^14 x - n P, the sum of C Y Y'
is ::

    4^14 S - 2^14 (b P' + P b') + d P P',   S = sum C x x', b = sum C n x, d = sum C n^2

so the cost of a user is the square of that user's number of choices. The weight C is c
in units of 2^-20, rounded down by more than the error of its computation in floating
point. In units of 2^-48, no user's vector is longer than 2^48 (1 - 2^-30). On the
diagonal it has half of C Y Y', so that C Y Y' is below 2^49 there: the diagonal needs a
bit more than the other cells. For up to 2^14 users the sum is therefore below 2^63 in
magnitude. Single terms may be larger, but sums of residues modulo 2^64 are exact if the
result fits 64 bits. Sums of blocks of 2^14 users are added in two limbs.

**Rounding.** The sum over users is exact, in whatever order its parts are added. It is
rounded to the lattice of the noise once, or once by each party that adds noise of its
own: either way, one user is in one sum that is rounded. Rounding two sums moves them
apart by at most a step in each cell. So one user moves the result by at most
sqrt(s) + e, where e is the step times the root of the number of cells. The diagonal is
halved where the sum is rounded: it is divided by twice the number by which the other
cells are divided.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tensor._choices import Choices
from ._centred import add_products, centred_weights
from ._limbs import rounded
from ._sums import BELOW_ONE, Sums

SHARE_BITS = 14
"""Bits of items' shares."""

# Bits of users' weights.
_WEIGHT_BITS = 20
_CELL_BITS = 2 * SHARE_BITS + _WEIGHT_BITS
# Diagonal cells are released at half their weight, which costs them a bit.
_DIAGONAL_BITS = 1
# Number of users whose sum fits 64 bits.
_BLOCK = 2 ** (63 - _CELL_BITS - _DIAGONAL_BITS)


@dataclass(frozen=True, eq=False)
class ProductSums(Sums):
    """Sums over users of their centred products; see `BoundedSums`.

    Attributes
    ----------
    shares : ndarray of shape (m,), int64
        Expected share of each item in a user's choices, in units of 2^-14.
    least : float
        Users whose products are shorter than this add a vector that is shorter in
        proportion.
    share : float
        Share of the squared budget.
    step : float
        Step of the lattice of the noise; 0 for no noise.
    """

    shares: NDArray[np.int64]
    least: float
    share: float
    step: float

    norm = "l2"

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of the released sums, the upper triangle row by row."""
        n = len(self.shares)
        return (n * (n + 1) // 2,)

    @property
    def n_moved(self) -> int:
        """Number of sums that are rounded after they are summed: all."""
        return self.shape[0]

    @property
    def unit(self) -> float:
        """Factor from released sums back to sums of vectors."""
        return 1 / math.sqrt(self.share)

    def zeros(self) -> NDArray[np.int64]:
        """The sums over no users, in two limbs: an array of shape (2, m (m + 1) / 2).

        The upper triangle, row by row, is the first times 2^32 plus the second, in
        units of 2^-48. Diagonal cells have twice their weight.
        """
        return np.zeros((2, *self.shape), np.int64)

    @property
    def limit(self) -> float:
        """Largest length of a weighted vector, in units of 2^-20."""
        return math.sqrt(self.share) * 2.0**_WEIGHT_BITS

    def _weighed(
        self, chosen: Choices
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return centred_weights(
            chosen,
            self.shares,
            2**SHARE_BITS,
            2.0**-_DIAGONAL_BITS,
            self.limit * BELOW_ONE,
            self.least,
        )

    def _add(
        self, limbs: NDArray[np.int64], weights: NDArray[np.int64], chosen: Choices
    ) -> None:
        """Add products of users, given their choices among the m items."""
        n_users = len(chosen.users)
        for first in range(0, n_users, _BLOCK):
            last = min(first + _BLOCK, n_users)
            block, of_block = chosen.chunk(first, last), weights[first:last]
            add_products(limbs, block, of_block, self.shares, 2**SHARE_BITS)

    @property
    def _on_diagonal(self) -> NDArray[np.int64]:
        """Places of the diagonal in the upper triangle."""
        return np.cumsum(np.append(0, np.arange(len(self.shares), 1, -1)))

    def on_lattice(self, limbs: NDArray[np.int64]) -> NDArray[np.float64]:
        """The sums as they enter a release: upper triangles with half the diagonal."""
        if self.step:
            return self.rounded(limbs) * self.step
        # Steps that are fine enough for few users would overflow 64 bits for many.
        sums = (limbs[0] * 2.0**32 + limbs[1]) * 2.0**-_CELL_BITS
        sums[self._on_diagonal] *= 2.0**-_DIAGONAL_BITS
        return sums

    def rounded(self, limbs: NDArray[np.int64]) -> NDArray[np.float64]:
        """The upper triangle in whole steps, with half the diagonal."""
        shift, on_diagonal = _CELL_BITS + round(math.log2(self.step)), self._on_diagonal
        steps = rounded(limbs, shift)
        steps[on_diagonal] = rounded(limbs[:, on_diagonal], shift + _DIAGONAL_BITS)
        return steps

    def matrix(self, noisy: NDArray[np.float64]) -> NDArray[np.float64]:
        """The symmetric matrix of released sums; its diagonal has twice their noise."""
        n = len(self.shares)
        symmetric, upper = np.empty((n, n)), np.triu_indices(n)
        symmetric[upper] = symmetric[upper[::-1]] = noisy
        symmetric[np.diag_indices(n)] *= 2**_DIAGONAL_BITS
        return symmetric

    # --- answers of parties -----------------------------------------------------------

    def largest(self, n_users: int) -> float:
        """Bound on the steps of any rounded sum over this many users."""
        return n_users * (math.sqrt(self.share) / self.step + 1)

    def n_bits(self, _: int) -> int:
        """Number of bits of the limbs, whose sums are exact modulo 2^64."""
        return 64


def whole_shares(expected: NDArray[np.float64]) -> NDArray[np.int64]:
    """Shares of items in a user's choices, in proportion to expected numbers."""
    whole = expected / max(float(expected.sum()), 1e-300) * 2**SHARE_BITS
    return np.rint(whole).astype(np.int64)
