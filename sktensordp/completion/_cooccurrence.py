"""Noisy counts and co-occurrences of items, with everything of a user protected.

**Guarantee.** The shape is public. Two data sets that differ by all choices of one
user, which are there or not (add or remove), give everything that `release` returns
probabilities that are (epsilon, delta)-close, in whatever order, batches or threads the
choices are summed.

**Releases.** Let sigma be the noise for one sum over users of vectors of length 1, and
g the step of its lattice. A release with share s of the squared budget is a sum of
vectors of length sqrt(s) with that same noise:

1. Totals: 1 and the logarithm of the number n_u of the user's choices. They give the
   number of users and a typical number of choices.
2. Counts: w_u for every chosen item, w_u^2 max(n_u, n_typ) = s.
3. Co-occurrences of the m items with the largest noisy counts: the upper triangle of
   c_u y_u y_u', where y_u is x_u less n_u q (n_u counting these items alone), q are
   shares of the noisy counts, and c_u = sqrt(s) / max(|upper triangle|, a floor). Where
   the counts are too noisy for that, a second release of counts takes its place.

The shares of 2 and 3, n_typ, the m items and q follow from earlier releases.

**Proof.** In each release a user adds one vector, a function of the user's own choices
and of earlier releases, and of length at most sqrt(s): weights are integers, in steps
of g or, in release 3, of 2^-48, rounded down by more than the errors of their floating-
point computation. In releases 1 and 2 whole steps are summed. In release 3 the sum T
over users is exact, and is then rounded to the lattice once: two such roundings are at
most g further apart than what was rounded, in each of at most M (M + 1) / 2 cells, so
that one user moves the release by sqrt(s) + e at most, e = g sqrt(M (M + 1) / 2). Given
a history h of releases that have used the share U(h), what remains is claimed to be mu-
GDP with sigma^2 mu^2 = (1 + e)^2 - U(h). Of the last release this holds, since (sqrt(1
- U) + e)^2 <= (1 + e)^2 - U. Of an earlier one, h fixes the share s that comes next, it
is sqrt(s) / sigma-GDP, and whatever comes out, what remains then satisfies the claim
with U + s, so that the composition of two, the second chosen by the first, gives the
claim for U (Dong, Roth and Su 2022, Theorem 3.2, for every history; Smith and Thakurta
2022 for shares that are chosen on the way). At the beginning U = 0: all is (1 + e) /
sigma-GDP. The sampler's residual is that of 2 + I + max(I, M (M + 1) / 2) cells, which
are the most there can be.

**Integers.** With P = round(2^14 q) and Y = 2^14 x - n P, the sum of C Y Y' is ::

    4^14 S - 2^14 (b P' + P b') + d P P',   S = sum C x x', b = sum C n x, d = sum C n^2

which costs a user the square of the user's own choices. Up to 2^15 users the result is
below 2^63 in magnitude, since every user's vector is no longer than 2^48; the terms
need not be, but sums of residues modulo 2^64 give a result exactly that fits itself.
Blocks of 2^15 users are added in two limbs.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams
from ._choices import Choices
from .solvers._noisy_sums import NoisySums, plan_gaussian_sums

__all__ = ["ItemSums", "Releases", "plan_noise"]

# Bits of the shares of items, of users' weights, and of the two together.
_SHARE_BITS, _WEIGHT_BITS = 14, 20
_CELL_BITS = 2 * _SHARE_BITS + _WEIGHT_BITS
# Users whose sum fits into 64 bits.
_BLOCK = 2 ** (63 - _CELL_BITS)
# Weights are rounded down by more than the floating-point errors of a length.
_BELOW_ONE = 1 - 2.0**-30
# A coarser lattice would round contributions to nothing.
_LARGEST_STEP = 2.0**-6
# Share of the squared budget that the totals have.
_TOTALS = 0.02
# Counts have as much as makes their noise this part of the number of users, in limits.
_COUNT_NOISE, _LEAST_COUNTS, _MOST_COUNTS = 0.02, 0.1, 0.5
# An item takes part if its expected co-occurrences stand out from the noise, and more
# so the more users there are.
_SIGNAL, _SIGNAL_POWER, _COUNT_SIGNAL = 0.0045, 0.4, 3.5
# With fewer items than this, popularity is all there is.
_LEAST_ITEMS = 40
# Of the typical number of choices: below which number, and which length of a user's
# products, weights do not grow.
_LEAST_SIZE, _LEAST_LENGTH = 0.05, 0.05
# What is supposed of a typical number of choices, with the weight of so many
# deviations of the number of users.
_USUAL_SIZE, _PRIOR_USERS = 40.0, 3.0


@dataclass(frozen=True, eq=False)
class ItemSums:
    """What was released.

    Attributes
    ----------
    counts : ndarray of shape (n_items,)
        Noisy sums of users' weights 1 / sqrt(max(n_u, `typical_size`)), for every item.
    counts_noise : float
        Standard deviation of the noise in these.
    n_users, typical_size : float
        Noisy number of users with choices; about how many these have.
    items : ndarray of shape (m,), int64
        Items whose co-occurrences were released, by falling count; none where their
        noise would be too large.
    shares : ndarray of shape (m,)
        q: what is expected of one choice, multiples of 2^-14.
    products : ndarray of shape (m, m)
        Noisy sum of the users' c_u y_u y_u'.
    products_noise : float
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
    """Noise of all releases together, for vectors of length one; see `Releases`.

    Raises
    ------
    ValueError
        If epsilon and delta are too small for so many sums.
    """
    n_users, n_items = shape
    cells = max_items * (max_items + 1) // 2
    noise = plan_gaussian_sums(
        epsilon, delta, within=epsilon, n_releases=1,
        n_cells=2 + n_items + max(n_items, cells), n_changed=cells,
        n_entries=_users_reserved(n_users),
    )  # fmt: skip
    if noise.lattice is not None and noise.lattice.step > _LARGEST_STEP:
        raise ValueError(
            f"epsilon = {epsilon} and delta = {delta} are so small that the noise "
            f"hides whatever users chose."
        )
    return noise


class Releases:
    """The releases of one fit, one after the other.

    Parameters
    ----------
    noise : NoisySums
        As planned for the shape and `max_items`.
    streams : NoiseStreams or None
        None where there is no noise.
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
        # Without noise, as fine as sums of whole steps are exact.
        finest = 2.0 ** (math.ceil(math.log2(reserved)) - 50)
        self._step = finest if noise.lattice is None else noise.lattice.step
        self._used, self._n_releases = 0.0, 0

    def _spend(self, share: float) -> float:
        """The largest length of a user's vector."""
        self._used += share
        if self._used > 1 + 1e-12:
            raise RuntimeError("The shares of the releases exceed the budget.")
        return math.sqrt(share) * _BELOW_ONE

    def _randomize(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums of whole steps, with noise."""
        streams = self._streams and self._streams.step(self._n_releases)
        self._n_releases += 1
        return self._noise.randomize([steps * self._step], streams)[0]

    def all(self, choices: Choices) -> ItemSums:
        """Release totals, counts and co-occurrences, or counts again in their place."""
        n_users, size = self._totals(choices)
        share = (self._sigma * math.sqrt(size) / (_COUNT_NOISE * n_users)) ** 2
        share = float(np.clip(share, _LEAST_COUNTS, _MOST_COUNTS))
        counts, noise = self._counts(choices, size, share)
        left = 1 - _TOTALS - share
        n_best = self._n_standing_out(counts, noise, n_users, left)
        if n_best < self._n_least:
            again, other = self._counts(choices, size, left)
            known = noise**-2 + other**-2 if noise else 1.0
            if noise:
                counts = (counts / noise**2 + again / other**2) / known
            none = np.empty(0)
            return ItemSums(
                counts, noise and known**-0.5, n_users, size, none.astype(np.int64),
                none, np.empty((0, 0)), 0.0,
            )  # fmt: skip
        best = np.argsort(-counts, kind="stable")[:n_best]
        least = max(noise, 1e-3 * float(counts.max()), 1e-300)
        shares = np.maximum(counts[best], least)
        whole = np.rint(shares / shares.sum() * 2**_SHARE_BITS).astype(np.int64)
        products, error = self._products(choices.among(best), whole, size, left)
        return ItemSums(
            counts, noise, n_users, size, best, whole / 2**_SHARE_BITS, products, error
        )

    def _totals(self, choices: Choices) -> tuple[float, float]:
        """Numbers of users with choices, and of choices that these typically have."""
        one = math.floor(self._spend(_TOTALS) / math.sqrt(2) / self._step)
        sizes, number = np.unique(choices.sizes, return_counts=True)
        whole = math.log1p(self._n_items)
        # From a table, so that a size has one logarithm whoever has it.
        logs = [math.floor(one * math.log1p(n) / whole) for n in sizes.tolist()]
        steps = np.array([one * number.sum(), np.dot(number, np.array(logs, int))])
        noisy = self._randomize(steps.astype(float)) / (one * self._step)
        error = self._sigma / (one * self._step)
        n_users = max(float(noisy[0]), _PRIOR_USERS * error, 1.0)
        supposed = _PRIOR_USERS * error
        log = noisy[1] * whole + supposed * math.log1p(_USUAL_SIZE)
        log = float(log) / (n_users + supposed)
        size = math.expm1(min(max(log, math.log1p(1.0)), whole))
        return n_users, size

    def _counts(
        self, choices: Choices, size: float, share: float
    ) -> tuple[NDArray[np.float64], float]:
        """Noisy counts of all items, and the deviation of their noise."""
        length = self._spend(share) / self._step
        least = _LEAST_SIZE * size
        own = np.floor(length / np.sqrt(np.maximum(choices.sizes, least)))
        # Floats of whole numbers, whose sums are exact.
        steps = np.bincount(
            choices.items, np.repeat(own, choices.sizes), minlength=self._n_items
        )
        scale = math.sqrt(share)
        return self._randomize(steps.astype(float)) / scale, self._sigma / scale

    def _n_standing_out(
        self, counts: NDArray[np.float64], noise: float, n_users: float, left: float
    ) -> int:
        """How many items take part, from noisy counts alone."""
        error = self._sigma / math.sqrt(left)
        stands_out = (counts > 0) & (counts >= _COUNT_SIGNAL * noise)
        signal = _SIGNAL * n_users ** (1 + _SIGNAL_POWER)
        stands_out &= np.square(counts) >= signal * error
        return min(int(np.count_nonzero(stands_out)), self._max_items)

    @property
    def _n_least(self) -> int:
        """Fewer items than this are not worth the budget, where there is one."""
        if not self._sigma:
            return 1
        return min(_LEAST_ITEMS, (self._max_items + 1) // 2)

    def _products(
        self, chosen: Choices, shares: NDArray[np.int64], size: float, share: float
    ) -> tuple[NDArray[np.float64], float]:
        """Noisy sum of centred products, and the deviation of the noise in a cell."""
        from ..tensor.kernels._choices import assemble, centred_sums

        n = len(shares)
        scale = self._spend(share) * 2.0**_WEIGHT_BITS
        products, sums = np.zeros((n, n), np.int64), np.zeros(n, np.int64)
        total = np.zeros(1, np.int64)
        high, low = np.zeros((2, n * (n + 1) // 2), np.int64)
        n_users, unit = len(chosen.users), 2**_SHARE_BITS
        for first in range(0, n_users, _BLOCK):
            last = min(first + _BLOCK, n_users)
            centred_sums(
                first, last, chosen.starts, chosen.items, shares, unit, scale,
                _LEAST_LENGTH * size, products, sums, total,
            )  # fmt: skip
            assemble(products, sums, total, shares, unit, high, low)
        steps = _rounded(high, low, _CELL_BITS + round(math.log2(self._step)))
        del products
        noisy = self._randomize(steps) / math.sqrt(share)
        found, upper = np.empty((n, n)), np.triu_indices(n)
        found[upper] = noisy
        found[upper[::-1]] = noisy
        return found, self._sigma / math.sqrt(share)


def _users_reserved(n_users: int) -> int:
    """Users for whose sums the lattice has room: its step is at least 2^-44 then."""
    return max(n_users, 64)


def _rounded(
    high: NDArray[np.int64], low: NDArray[np.int64], shift: int
) -> NDArray[np.float64]:
    """(high 2^32 + low) / 2^shift, to the nearest whole number, halves up."""
    high += low >> 32
    low &= 0xFFFFFFFF
    if shift > 32:
        return ((high + (1 << (shift - 33))) >> (shift - 32)).astype(float)
    half = 1 << (shift - 1)
    return ((high << (32 - shift)) + ((low + half) >> shift)).astype(float)
