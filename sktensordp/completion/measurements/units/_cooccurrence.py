"""Noisy counts and co-occurrences of items; all choices of each user are protected.

**Guarantee.** The shape is public. Take two data sets: one has all choices of one user,
and the other has none of them (add or remove). Everything that `release_sums` returns
is (epsilon, delta)-indistinguishable between the two, in whatever order, batches or
threads the choices are summed.

**Releases.** Let sigma be the noise of one sum over users of vectors of length at most
1, and g the step of its lattice. A release with share s of the squared budget is a sum
of vectors of length at most sqrt(s), with noise of the same sigma:

1. Totals: each user adds 1 and the logarithm of n_u, the number of the user's choices.
   The number of users and n_typ, a typical number of choices, follow from these. And a
   histogram, which has a share of its own: each user adds 1 to the bin of n_u.
2. Counts: each user adds w_u for every chosen item, where w_u^2 n_u = s.
3. Co-occurrences of the m items with the largest noisy counts: each user adds c_u T_u,
   where T_u is the upper triangle of y_u y_u' with half of its diagonal. Here y_u is
   x_u less n_u q, n_u counts only these items, q are their shares of the noisy counts,
   and c_u = sqrt(s) / max(|T_u|, 1). If the counts are too noisy for that, or M = 0, a
   second release of counts replaces it.

The shares of releases 2 and 3, n_typ, the m items and q follow from earlier releases.
Below, I is the number of items, and M is `max_items`, the largest m.

**Proof.** In each release a user adds one vector, a function of the user's own choices
and of earlier releases.

*The vector is no longer than sqrt(s).* Weights are integers, in steps of g or, in
release 3, of 2^-20 (``_products.py``). They are rounded down by more than the errors of
their floating-point computation.

*One user moves the release by at most sqrt(s) + e.* Releases 1 and 2 sum whole steps,
without error. In release 3 the exact sum is rounded to the lattice once, in at most
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
sampler's residual is accounted for F + I + max(I, M (M + 1) / 2) cells, the most that
all releases can have, F being the number of sums of release 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr

from ...._noise_only import counts_are_noise
from ...._random import NoiseStreams
from ....measure import (
    SHARE_BITS,
    NoisySums,
    ProductSums,
    Releases,
    WholeSums,
    plan_gaussian_sums,
    whole_shares,
)
from ....tensor._choices import Choices
from ._population import N_BINS, SHARE, Population, bins_of

# Limits of the share of the counts. A share of 0.15 alone costs a quarter of the recall
# of artists at epsilon 1.
_LEAST_COUNTS, _MOST_COUNTS = 0.15, 0.5
# Users whose products are shorter than this add proportionally shorter vectors.
_LEAST_LENGTH = 1.0
# The k-th largest eigenvalue of co-occurrences is assumed to be this share of
# popularity's eigenvalue, over k. The second number, times the root of the number of
# users over the noise, is the largest number of items that take part; see
# `number_of_items`.
_EIGENVALUES, _ITEMS_PER_ROOT = 0.5, 7.0


@dataclass(frozen=True, eq=False)
class ItemSums:
    """The released sums.

    Attributes
    ----------
    population : Population
        Noisy totals over users with choices, and their histogram.
    are_noise : bool
        Whether the number of users is within its noise of zero.
    counts : ndarray of shape (n_items,)
        For each item, the noisy sum of its users' weights, 1 / sqrt(n_u).
    counts_noise : float
        Standard deviation of the noise in `counts`.
    items : ndarray of shape (m,), int64
        Items whose co-occurrences were released, by decreasing noisy count. Empty if
        the noise would be too large.
    shares : ndarray of shape (m,)
        q: the expected share of each item in a user's choices, a multiple of 2^-14.
    products : ndarray of shape (m, m)
        Noisy sum of the users' c_u y_u y_u'. Empty if no noise is added: the model is
        then computed from raw choices.
    products_noise : float
        Standard deviation of the noise in `products`.
    """

    population: Population
    are_noise: bool
    counts: NDArray[np.float64]
    counts_noise: float
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
    n_first = sum(piece.size for piece in FIRST_VECTORS.values())
    noise = plan_gaussian_sums(
        epsilon,
        delta,
        total_epsilon=epsilon,
        n_cells=n_first + n_items + max(n_items, cells),
        n_moved=cells,
        n_entries=_users_reserved(n_users),
    )
    # A coarser lattice would round contributions to zero.
    if noise.lattice is not None and noise.lattice.step > 2.0**-6:
        raise ValueError(
            f"epsilon = {epsilon} and delta = {delta} are so small that the noise "
            f"would hide everything. Pass larger ones."
        )
    return noise


@dataclass(frozen=True)
class VectorOfUser:
    """A part of the first release: one vector for every user.

    Attributes
    ----------
    size : int
        Number of its elements.
    share : float
        Share of the squared budget.
    vectors : callable
        ``vectors(choices, longest)`` returns whole numbers of shape (n_users, size); no
        row is longer than `longest`.
    """

    size: int
    share: float
    vectors: Callable[[Choices, float], NDArray[np.float64]]


def _totals(choices: Choices, longest: float) -> NDArray[np.float64]:
    """One, and the logarithm of the number of choices over the largest logarithm."""
    unit, largest = _unit_of(longest), math.log1p(choices.n_items)
    # A table gives users with equally many choices the same logarithm.
    sizes, places = np.unique(choices.sizes, return_inverse=True)
    logs = [math.floor(unit * math.log1p(n) / largest) for n in sizes.tolist()]
    table = np.array([[unit, log] for log in logs], float).reshape(-1, 2)
    return table[places]


def _lengths(choices: Choices, longest: float) -> NDArray[np.float64]:
    """One in the bin of the number of choices; bins are powers of two."""
    vectors = np.zeros((len(choices.users), N_BINS))
    vectors[np.arange(len(vectors)), bins_of(choices.sizes)] = math.floor(longest)
    return vectors


FIRST_VECTORS = {
    "totals": VectorOfUser(2, 0.02, _totals),
    "lengths": VectorOfUser(N_BINS, SHARE, _lengths),
}


@dataclass(frozen=True, eq=False)
class _FirstQuestion:
    """The pieces of the first release, with their sums; see `Question`."""

    sums: tuple[WholeSums, ...]
    chunks_at_once = 1

    def add(self, chunk: Choices, *totals: NDArray[np.float64]) -> None:
        for piece, one, total in zip(
            FIRST_VECTORS.values(), self.sums, totals, strict=True
        ):
            one.add(total, sparse.csr_array(piece.vectors(chunk, one.longest)))


@dataclass(frozen=True, eq=False)
class _CountQuestion:
    """How often items were chosen, weighted by user; see `Question`."""

    sums: tuple[WholeSums]
    chunks_at_once = 1

    def add(self, chunk: Choices, *totals: NDArray[np.float64]) -> None:
        weights = np.floor(self.sums[0].longest / np.sqrt(chunk.sizes))
        numbers = np.repeat(weights, chunk.sizes), chunk.items, chunk.starts
        shape = len(chunk.users), chunk.n_items
        self.sums[0].add(totals[0], sparse.csr_array(numbers, shape))


@dataclass(frozen=True, eq=False)
class _ProductQuestion:
    """The products of users' choices among some items; see `Question`."""

    sums: tuple[ProductSums]
    items: NDArray[np.int64]
    chunks_at_once = 1

    def add(self, chunk: Choices, *totals: NDArray[np.int64]) -> None:
        self.sums[0].add(totals[0], chunk.among(self.items))


def release_sums(
    choices: Choices,
    noise: NoisySums,
    streams: NoiseStreams | None,
    n_users: int,
    max_items: int,
) -> ItemSums:
    """Release totals, counts, and then co-occurrences or a second set of counts.

    Parameters
    ----------
    choices : Choices
    noise : NoisySums
        Result of `plan_noise` for the shape and `max_items`.
    streams : NoiseStreams or None
        None if no noise is added.
    n_users : int
        Number of possible users.
    max_items : int
        Largest number of items whose co-occurrences are released.
    """
    releases = Releases(noise, streams)
    # Without noise: the finest step for which sums of whole steps are exact.
    step = noise.step or 2.0 ** (math.ceil(math.log2(_users_reserved(n_users))) - 50)
    first = [WholeSums((1, p.size), 1.0, p.share, step) for p in FIRST_VECTORS.values()]
    answers = releases.ask(choices, _FirstQuestion(tuple(first)))
    n_present, typical_size, are_noise = _read_totals(
        first[0], *answers[0], choices.n_items
    )
    bins, (histogram, error) = first[1], answers[1]
    unit = math.floor(bins.longest) * bins.step * bins.unit
    histogram, error = histogram[0] / unit, error / unit
    population = Population(n_present, typical_size, histogram, error)

    def counted(share: float) -> tuple[NDArray[np.float64], float]:
        sums = WholeSums((1, choices.n_items), 1.0, share, step)
        ((noisy, error),) = releases.ask(choices, _CountQuestion((sums,)))
        return noisy[0], error

    # With this share, the noise of counts is a fiftieth of the number of users.
    share = releases.sigma * math.sqrt(typical_size)
    share = (share / (0.02 * n_present)) ** 2
    counts, error = counted(float(np.clip(share, _LEAST_COUNTS, _MOST_COUNTS)))
    order = np.argsort(-counts, kind="stable")
    n_best = number_of_items(
        counts[order],
        error,
        releases.sigma / math.sqrt(releases.left),
        n_present,
        typical_size,
        max_items,
    )
    best = order[:n_best]
    if n_best == 0:
        second, second_error = counted(releases.left)
        if error:
            precision = error**-2 + second_error**-2
            counts = (counts / error**2 + second / second_error**2) / precision
            error = precision**-0.5
        none = np.empty((0, 0))
        return ItemSums(
            population, are_noise, counts, error, best, none.ravel(), none, 0.0
        )
    whole = whole_shares(np.maximum(counts[best], max(error, 1e-3 * counts.max())))
    of_counts = population, are_noise, counts, error, best, whole / 2**SHARE_BITS
    if streams is None:
        return ItemSums(*of_counts, np.empty((0, 0)), 0.0)
    sums = ProductSums(whole, _LEAST_LENGTH, releases.left, step)
    ((noisy, products_error),) = releases.ask(choices, _ProductQuestion((sums,), best))
    return ItemSums(*of_counts, sums.matrix(noisy), products_error)


def _unit_of(longest: float) -> int:
    """What a user adds to the number of users, if totals have at most this length."""
    return math.floor(longest / math.sqrt(2))


def _read_totals(
    sums: WholeSums, noisy: NDArray[np.float64], error: float, n_items: int
) -> tuple[float, float, bool]:
    """Number of users and typical number of choices, from noisy totals.

    Also returns whether the number of users is within its noise of zero.
    """
    unit = _unit_of(sums.longest) * sums.step * sums.unit
    (number, logs), deviation = noisy[0] / unit, error / unit
    largest_log = math.log1p(n_items)
    # The least assumed number of users. This many users with 40 choices each are also
    # the prior of the typical number.
    within_noise = 3 * deviation
    n_users = max(float(number), within_noise, 1.0)
    log = logs * largest_log + within_noise * math.log1p(40)
    log = float(log) / (n_users + within_noise)
    size = math.expm1(min(max(log, math.log1p(1.0)), largest_log))
    # Every user in the data has a choice, so the number of users decides.
    return n_users, size, counts_are_noise(number, deviation)


def _users_reserved(n_users: int) -> int:
    """Number of users whose sums the lattice must hold; its step is at least 2^-44."""
    return max(n_users, 64)


def number_of_items(
    counts: NDArray[np.float64],
    counts_noise: float,
    products_noise: float,
    n_users: float,
    typical_size: float,
    most: int,
) -> int:
    """Choose how many of the most popular items take part, from noisy counts.

    Parameters
    ----------
    counts : ndarray of shape (n_items,)
        Noisy weighted counts of all items, in descending order.
    counts_noise, products_noise : float
        Standard deviations of the noise in a count, and in a cell of the products.
    n_users, typical_size : float
        Noisy number of users, and noisy typical number of their choices.
    most : int
        Largest number of items that may take part.

    Returns
    -------
    m : int
        0 if noise would hide the co-occurrences. Without noise, the number of items
        that somebody chose, or `most`.

    Notes
    -----
    With more items, the model covers more of the users' choices, but every item adds
    noise to the others. So the number m of items maximises the product of two expected
    shares: the share of all choices that fall on the m most popular items, and the
    share of the eigenvalues of their co-occurrences that the noise leaves. Everything
    here is computed from released values.

    **Coverage.** By the noisy totals, the noisy counts c of the users' choices add up
    to about N n_typ^(1/2). The share of the first m is their sum over this.

    **Eigenvalues.** Let C be the sum of the users' centred products of m items, each of
    length 1 at most. For choices that depend on popularity alone, the largest
    eigenvalue before centring would be about e = (sum of c^2) / (N coverage): a user's
    products are divided by the number of the user's choices among the m items. How it
    falls from there was measured: on choices of films, web pages, artists, games and
    groceries, with 100 to 1,000 items, the first ten eigenvalues of C were e / k times
    0.2 to 1.4. So the k-th is expected to be t_k = 0.5 e / k.

    **Noise.** In a symmetric matrix of size m whose cells have independent noise of
    standard deviation s, the eigenvector of t is visible if t^2 > m s^2. The noisy
    eigenvector then recovers t - m s^2 / t of it (Benaych-Georges and Nadakuditi 2011).

    Only items whose counts are real take part. If no eigenvalue is expected to be
    visible, no item does.

    **Users per cell.** For some choices, the expected eigenvalues are too large, above
    all if users with long histories choose among many items. So m is at most 7 (N /
    s)^(1/2): N users add vectors of length 1 to a matrix of m^2 cells, whose noise has
    the standard deviation s. The factor was fitted to choices of films, web pages,
    artists, games and groceries, and to synthetic ones of 10, 50 and 100 items a user.
    """
    if not products_noise:
        return min(int(np.count_nonzero(counts > 0)), most)
    n_real = min(_n_real(counts, counts_noise), most)
    # With fewer items, popularity is better.
    least = max(min(50, (most + 1) // 2), 1)
    if n_real < least:
        return 0
    enough = int(_ITEMS_PER_ROOT * np.sqrt(n_users / products_noise))
    n_best = min(n_real, max(enough, least))
    m = np.arange(1, n_best + 1)
    counts = counts[:n_best]
    coverage = np.cumsum(counts) / (n_users * np.sqrt(typical_size))
    coverage = np.clip(coverage, 1e-300, 1.0)
    squares = np.maximum(np.cumsum(counts**2) - m * counts_noise**2, counts_noise**2)
    strength = squares / (n_users * coverage) / (products_noise * np.sqrt(m))
    strength *= _EIGENVALUES
    n_visible = np.minimum(strength, m).astype(int)
    # The sum of t_k - m s^2 / t_k over the visible k, in units of the first.
    without_noise = np.append(0.0, np.cumsum(1 / m))[n_visible]
    kept = without_noise - n_visible * (n_visible + 1) / 2 / strength**2
    value = np.where(m >= least, coverage * kept, 0.0)
    best = int(np.argmax(value))
    return int(m[best]) if value[best] > 0 else 0


def _n_real(counts: NDArray[np.float64], noise: float) -> int:
    """Number of items whose counts are real (Benjamini and Hochberg 1995).

    An expected 15% of these were chosen by nobody.
    """
    by_chance = len(counts) * ndtr(-counts / noise)
    rank = np.arange(1, len(counts) + 1)
    return int(rank[by_chance <= 0.15 * rank].max(initial=0))
