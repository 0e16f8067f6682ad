"""Noisy counts and co-occurrences of items, with everything of each user protected.

**Guarantee.** The shape is public. Take two data sets of which one has all choices of
one user and the other has none of them (add or remove). Everything that
`Releases.release` returns is (epsilon, delta)-indistinguishable between the two, in
whatever order, batches or threads the choices are summed.

**Releases.** Let sigma be the noise of one sum over users of vectors of length at most
1, and g the step of its lattice. A release with share s of the squared budget is a sum
of vectors of length at most sqrt(s), with noise of the same sigma:

1. Totals: each user adds 1 and the logarithm of n_u, the number of the user's choices.
   From these follow the number of users and n_typ, a typical number of choices.
2. Counts: each user adds w_u for every chosen item, where
   w_u^2 max(n_u, n_typ / 20) = s.
3. Co-occurrences of the m items with the largest noisy counts: each user adds c_u T_u,
   where T_u is the upper triangle of y_u y_u' with half of its diagonal. Here y_u is
   x_u less n_u q, n_u counts only these items, q are their shares of the noisy counts,
   and c_u = sqrt(s) / max(|T_u|, n_typ / 20, 1). If the counts are too noisy for that,
   or M = 0, a second release of counts takes its place.

The shares of releases 2 and 3, n_typ, the m items and q follow from earlier releases.
Below, I is the number of items, and M is `max_items`, the largest m. The squared length
of T_u is the sum of y_i^2 y_j^2 over i < j plus a quarter of the sum of y_i^4, that is,
|y|^4 / 2 less a quarter of the sum of y_i^4.

**Proof.** In each release a user adds one vector, a function of the user's own choices
and of earlier releases.

*The vector is no longer than sqrt(s).* Weights are integers, in steps of g or, in
release 3, of 2^-48. They are rounded down by more than the errors of their
floating-point computation.

*One user moves the release by at most sqrt(s) + e.* Releases 1 and 2 sum whole steps,
without error. In release 3 the sum T over users is exact, and is then rounded to the
lattice once. Rounding two sums moves them apart by at most g in each of at most
M (M + 1) / 2 cells. So e = g sqrt(M (M + 1) / 2).

*Composition.* Claim: given a history h of releases that have used the share U(h), the
remaining releases together are mu-GDP with sigma^2 mu^2 = (1 + e)^2 - U(h).

- For the last release the claim holds, since (sqrt(1 - U) + e)^2 <= (1 + e)^2 - U.
  Only the last release is ever rounded.
- Before any other release, h fixes the next share s. That release is sqrt(s) /
  sigma-GDP. Whatever it returns, the releases after it satisfy the claim with U + s. So
  the composition of the two, the second chosen by the first, gives the claim for U
  (Dong, Roth and Su 2022, Theorem 3.2, for every history; Smith and Thakurta 2022 for
  shares that are chosen on the way).

At the beginning U = 0, so that all releases together are (1 + e) / sigma-GDP. The
sampler's residual is accounted for 2 + I + max(I, M (M + 1) / 2) cells, the most that
all releases can have.

**Integers.** With P = round(2^14 q) and Y = 2^14 x - n P, the sum of C Y Y' is ::

    4^14 S - 2^14 (b P' + P b') + d P P',   S = sum C x x', b = sum C n x, d = sum C n^2

so that a user costs the square of the user's own number of choices. In units of 2^-48,
no user's vector is longer than 2^48 (1 - 2^-30). On the diagonal it has half of C Y Y',
so that C Y Y' is below 2^49 there: the diagonal needs a bit more than the other cells.
For up to 2^14 users the sum is therefore below 2^63 in magnitude. Single terms may be
larger, but sums of residues modulo 2^64 are exact if the result fits 64 bits. Sums of
blocks of 2^14 users are added in two limbs. The diagonal is halved where the sum is
rounded: it is divided by twice the number by which the other cells are divided.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams
from ._choices import Choices
from ._item_choice import number_of_items
from .solvers._noisy_sums import NoisySums, plan_gaussian_sums

# Bits of items' shares, of users' weights, and of a cell of the products.
_SHARE_BITS, _WEIGHT_BITS = 14, 20
_CELL_BITS = 2 * _SHARE_BITS + _WEIGHT_BITS
# Diagonal cells are released at half their weight, which costs them a bit.
_DIAGONAL_BITS = 1
# Number of users whose sum fits 64 bits.
_BLOCK = 2 ** (63 - _CELL_BITS - _DIAGONAL_BITS)
# Rounds weights down by more than the floating-point errors of a length.
_BELOW_ONE = 1 - 2.0**-30
# A coarser lattice would round contributions to nothing.
_LARGEST_STEP = 2.0**-6
# Share of the squared budget for the totals.
_TOTALS = 0.02
# Counts get the share that makes their noise this fraction of the number of users,
# within limits.
_COUNT_NOISE, _LEAST_COUNTS, _MOST_COUNTS = 0.02, 0.15, 0.5
# Users with fewer choices than this fraction of the typical number get the weight of
# that fraction. So do users whose products are shorter than that, or than 1.
_LEAST_SIZE, _LEAST_LENGTH = 0.05, 1.0
# Prior for the typical number of choices. It weighs as many users as this many standard
# deviations of the noisy number of users.
_PRIOR_SIZE, _PRIOR_USERS = 40.0, 3.0


@dataclass(frozen=True, eq=False)
class ItemSums:
    """The released sums.

    Attributes
    ----------
    counts : ndarray of shape (n_items,)
        For each item, the noisy sum of its users' weights, 1 / sqrt(max(n_u,
        `typical_size` / 20)).
    counts_noise : float
        Standard deviation of the noise in `counts`.
    n_users, typical_size : float
        Noisy number of users with choices, and noisy typical number of their choices.
    items : ndarray of shape (m,), int64
        Items whose co-occurrences were released, by decreasing noisy count. Empty if
        the noise would be too large.
    shares : ndarray of shape (m,)
        q: the expected share of each item in a user's choices, a multiple of 2^-14.
    products : ndarray of shape (m, m)
        Noisy sum of the users' c_u y_u y_u'.
    products_noise : float
        Standard deviation of the noise in `products`.
    """

    counts: NDArray[np.float64]
    counts_noise: float
    n_users: float
    typical_size: float
    items: NDArray[np.int64]
    shares: NDArray[np.float64]
    products: NDArray[np.float64]
    products_noise: float


def plan_noise(
    epsilon: float, delta: float, shape: tuple[int, int], max_items: int
) -> NoisySums:
    """Calibrate the noise with which all releases together keep epsilon and delta.

    Raises
    ------
    ValueError
        If epsilon and delta are too small for this number of sums.
    """
    n_users, n_items = shape
    cells = max_items * (max_items + 1) // 2
    noise = plan_gaussian_sums(
        epsilon,
        delta,
        within=epsilon,
        n_releases=1,
        n_cells=2 + n_items + max(n_items, cells),
        n_changed=cells,
        n_entries=_users_reserved(n_users),
    )
    if noise.lattice is not None and noise.lattice.step > _LARGEST_STEP:
        raise ValueError(
            f"epsilon = {epsilon} and delta = {delta} are so small that the noise "
            f"would hide everything. Pass larger ones."
        )
    return noise


class Releases:
    """The releases of one fit, each chosen by earlier ones.

    Parameters
    ----------
    noise : NoisySums
        Result of `plan_noise` for the shape and `max_items`.
    streams : NoiseStreams or None
        None if no noise is added.
    shape : tuple of (int, int)
    max_items : int
        Largest number of items whose co-occurrences are released.
    """

    def __init__(
        self,
        noise: NoisySums,
        streams: NoiseStreams | None,
        shape: tuple[int, int],
        max_items: int,
    ) -> None:
        self._noise, self._streams = noise, streams
        self._n_items, self._max_items = shape[1], max_items
        self._sigma = math.sqrt(noise.noise_variance)
        reserved = _users_reserved(shape[0])
        # Without noise: the finest step for which sums of whole steps are exact.
        finest = 2.0 ** (math.ceil(math.log2(reserved)) - 50)
        self._step = finest if noise.lattice is None else noise.lattice.step
        self._used, self._n_releases = 0.0, 0

    def _spend(self, share: float) -> float:
        """Spend a share of the squared budget; return the longest vector it allows."""
        self._used += share
        if self._used > 1 + 1e-12:
            raise RuntimeError("The shares of the releases exceed the budget.")
        return math.sqrt(share) * _BELOW_ONE

    def _randomize(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add noise to sums that are given in whole steps."""
        streams = self._streams and self._streams.step(self._n_releases)
        self._n_releases += 1
        return self._noise.randomize([steps * self._step], streams)[0]

    def release(self, choices: Choices) -> ItemSums:
        """Release totals, counts, and then co-occurrences or a second set of counts."""
        n_users, size = self._totals(choices)
        share = (self._sigma * math.sqrt(size) / (_COUNT_NOISE * n_users)) ** 2
        share = float(np.clip(share, _LEAST_COUNTS, _MOST_COUNTS))
        counts, noise = self._counts(choices, size, share)
        left = 1 - _TOTALS - share
        order = np.argsort(-counts, kind="stable")
        n_best = number_of_items(
            counts[order],
            noise,
            self._sigma / math.sqrt(left),
            n_users,
            size,
            self._max_items,
        )
        if n_best == 0:
            second, second_noise = self._counts(choices, size, left)
            if noise:
                precision = noise**-2 + second_noise**-2
                counts = (counts / noise**2 + second / second_noise**2) / precision
                noise = precision**-0.5
            none = np.empty(0)
            return ItemSums(
                counts, noise, n_users, size, order[:0], none, np.empty((0, 0)), 0.0
            )
        best = order[:n_best]
        least = max(noise, 1e-3 * float(counts.max()), 1e-300)
        shares = np.maximum(counts[best], least)
        whole = np.rint(shares / shares.sum() * 2**_SHARE_BITS).astype(np.int64)
        products, error = self._products(choices.among(best), whole, size, left)
        return ItemSums(
            counts, noise, n_users, size, best, whole / 2**_SHARE_BITS, products, error
        )

    def _totals(self, choices: Choices) -> tuple[float, float]:
        """Noisy number of users with choices, and typical number of their choices."""
        unit = math.floor(self._spend(_TOTALS) / math.sqrt(2) / self._step)
        sizes, number = np.unique(choices.sizes, return_counts=True)
        largest_log = math.log1p(self._n_items)
        # From a table: users with equally many choices have the same logarithm.
        logs = [math.floor(unit * math.log1p(n) / largest_log) for n in sizes.tolist()]
        steps = np.array([unit * number.sum(), np.dot(number, np.array(logs, int))])
        noisy = self._randomize(steps.astype(float)) / (unit * self._step)
        prior_users = _PRIOR_USERS * (self._sigma / (unit * self._step))
        n_users = max(float(noisy[0]), prior_users, 1.0)
        log = noisy[1] * largest_log + prior_users * math.log1p(_PRIOR_SIZE)
        log = float(log) / (n_users + prior_users)
        size = math.expm1(min(max(log, math.log1p(1.0)), largest_log))
        return n_users, size

    def _counts(
        self, choices: Choices, size: float, share: float
    ) -> tuple[NDArray[np.float64], float]:
        """Noisy counts of all items, and the standard deviation of their noise."""
        length = self._spend(share) / self._step
        least = _LEAST_SIZE * size
        weights = np.floor(length / np.sqrt(np.maximum(choices.sizes, least)))
        # Sums of whole numbers are exact in floating point.
        steps = np.bincount(
            choices.items, np.repeat(weights, choices.sizes), minlength=self._n_items
        )
        scale = math.sqrt(share)
        return self._randomize(steps.astype(float)) / scale, self._sigma / scale

    def _products(
        self, chosen: Choices, shares: NDArray[np.int64], size: float, share: float
    ) -> tuple[NDArray[np.float64], float]:
        """Noisy sum of centred products, and the standard deviation of its noise."""
        length, least = self._spend(share), max(_LEAST_SIZE * size, _LEAST_LENGTH)
        steps = sum_products(chosen, shares, length, least, self._step)
        noisy = self._randomize(steps) / math.sqrt(share)
        n = len(shares)
        symmetric, upper = np.empty((n, n)), np.triu_indices(n)
        symmetric[upper] = noisy
        symmetric[upper[::-1]] = noisy
        symmetric[np.diag_indices(n)] *= 2**_DIAGONAL_BITS
        return symmetric, self._sigma / math.sqrt(share)


def sum_products(
    chosen: Choices,
    shares: NDArray[np.int64],
    length: float,
    least: float,
    step: float,
) -> NDArray[np.float64]:
    """Sum the centred products of users, exactly, and round the sum once.

    Parameters
    ----------
    chosen : Choices
        Choices among m items.
    shares : ndarray of shape (m,), int64
        Expected share of each item in a user's choices, in units of 2^-14.
    length : float
        Length of the vector of a user, below 1.
    least : float
        Users whose products are shorter than this add a vector that is shorter than
        `length` in proportion.
    step : float
        Step of the result's lattice.

    Returns
    -------
    steps : ndarray of shape (m (m + 1) / 2,)
        The upper triangle, row by row, in whole steps. Diagonal cells have half weight.
    """
    from ..tensor.kernels._choices import assemble, centred_sums

    n, n_users, unit = len(shares), len(chosen.users), 2**_SHARE_BITS
    products, sums = np.zeros((n, n), np.int64), np.zeros(n, np.int64)
    total = np.zeros(1, np.int64)
    high, low = np.zeros((2, n * (n + 1) // 2), np.int64)
    for first in range(0, n_users, _BLOCK):
        centred_sums(
            first,
            min(first + _BLOCK, n_users),
            chosen.starts,
            chosen.items,
            shares,
            unit,
            2.0**-_DIAGONAL_BITS,
            length * 2.0**_WEIGHT_BITS,
            least,
            products,
            sums,
            total,
        )
        assemble(products, sums, total, shares, unit, high, low)
    shift = _CELL_BITS + round(math.log2(step))
    steps = _rounded(high, low, shift)
    on_diagonal = np.cumsum(np.append(0, np.arange(n, 1, -1)))
    steps[on_diagonal] = _rounded(
        high[on_diagonal], low[on_diagonal], shift + _DIAGONAL_BITS
    )
    return steps


def _users_reserved(n_users: int) -> int:
    """Number of users whose sums the lattice must hold; its step is at least 2^-44."""
    return max(n_users, 64)


def _rounded(
    high: NDArray[np.int64], low: NDArray[np.int64], shift: int
) -> NDArray[np.float64]:
    """Round (high 2^32 + low) / 2^shift to the nearest whole number, halves up."""
    high, low = high + (low >> 32), low & 0xFFFFFFFF
    if shift > 32:
        return ((high + (1 << (shift - 33))) >> (shift - 32)).astype(float)
    half = 1 << (shift - 1)
    return ((high << (32 - shift)) + ((low + half) >> shift)).astype(float)
