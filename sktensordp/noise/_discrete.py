"""Exact samplers of discrete distributions, from random words by integer arithmetic.

The samplers of discrete Laplace and discrete Gaussian noise follow Canonne, Kamath and
Steinke, "The discrete Gaussian for differential privacy" (2020), Algorithms 1 to 3.
They work on a whole array: every rejection step runs on the elements that are still
undecided. Discrete Laplace noise whose steps are not too fine inverts the distribution
function instead, in floating point wherever the error cannot matter.
"""

import math
import operator
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_DENOMINATOR = 2**50
# Up to this many lattice steps per scale, or scales per step, floating point decides
# nearly all draws.
_FINEST, _COARSEST = 2**26, 2**20
_ERROR, _LEAST = 2.0**-40, 2.0**-23


def uniform_below(
    bits: np.random.BitGenerator, bound: int, size: int
) -> NDArray[np.uint64]:
    """Uniform integers in [0, bound), by rejecting the incomplete last cycle."""
    bound = int(bound)
    if bound & (bound - 1) == 0:
        return bits.random_raw(size) & np.uint64(bound - 1)
    last = np.uint64(2**64 - 2**64 % bound - 1)
    words = bits.random_raw(size)
    rejected = np.flatnonzero(words > last)
    while rejected.size:
        words[rejected] = bits.random_raw(rejected.size)
        rejected = rejected[words[rejected] > last]
    return words % np.uint64(bound)


def _bernoulli_exp(
    bits: np.random.BitGenerator, numerators: NDArray[np.uint64], denominator: int
) -> NDArray[np.bool_]:
    """Bernoulli(exp(-g)) for 0 <= g = numerators / denominator <= 1."""
    return _by_series(bits, numerators, lambda k: (denominator * k,))


def _by_series(
    bits: np.random.BitGenerator,
    numerators: NDArray[np.uint64],
    bounds_of: Callable[[int], tuple[int, ...]],
) -> NDArray[np.bool_]:
    """Bernoulli(exp(-g)), where draws below `bounds_of(k)` give Bernoulli(g / k).

    Draw Bernoulli(g / k) for k = 1, 2, ... until the first failure. The number of
    successes is even with probability 1 - g + g^2/2! - ... = exp(-g).
    """
    successes = np.zeros(numerators.size, dtype=np.int64)
    running = np.arange(numerators.size)
    k = 1
    while running.size:
        for bound in bounds_of(k):
            draws = uniform_below(bits, bound, running.size)
            running = running[draws < numerators[running]]
        successes[running] += 1
        k += 1
    return successes % 2 == 0


def discrete_laplace(
    bits: np.random.BitGenerator, numerator: int, denominator: int, size: int
) -> NDArray[np.int64]:
    """Integers n with probability proportional to exp(-abs(n) numerator / denominator).

    Parameters
    ----------
    bits : bit generator
        Supplies 64-bit words (``random_raw``).
    numerator, denominator : int
        The rate as a fraction, with 0 < numerator < 2**63 and
        0 < denominator < 2**50.
    size : int
        Number of integers to draw.

    Returns
    -------
    noise : ndarray of shape (size,), int64

    Raises
    ------
    ValueError
        If `numerator` or `denominator` is out of range.
    """
    numerator, denominator = operator.index(numerator), operator.index(denominator)
    if not (0 < numerator < 2**63 and 0 < denominator < _MAX_DENOMINATOR):
        raise ValueError(
            "The rate `numerator` / `denominator` of the noise is out of range."
        )
    is_quick = numerator // _COARSEST <= denominator <= _FINEST * numerator
    magnitudes = _by_inversion if is_quick else _by_rejection
    noise, negative = magnitudes(bits, numerator, denominator, size)
    # Zero is accepted with one sign only; otherwise it would count twice.
    again = np.flatnonzero(negative & (noise == 0))
    np.negative(noise, out=noise, where=negative)
    if again.size:
        noise[again] = discrete_laplace(bits, numerator, denominator, again.size)
    return noise


def _by_inversion(
    bits: np.random.BitGenerator, numerator: int, denominator: int, size: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Magnitudes and signs: floor(-log(U) denominator / numerator), U uniform.

    A word gives the sign and the first 63 digits of U. If U is taken at the middle of
    the interval that these leave, and is at least `_LEAST`, the computed logarithm is
    off by less than `_ERROR`: by 2^-41 because the other digits are unknown, by 2^-52
    in U, and by a relative 2^-46 in a logarithm below 16. Where such an error could
    change the integer part, more digits are drawn.
    """
    words = bits.random_raw(size)
    uniform = (words >> np.uint64(1)).astype(float)
    uniform += 0.5
    uniform *= 2.0**-63
    per_step = denominator / numerator
    steps = np.log(uniform)
    steps *= -per_step
    whole = np.floor(steps)
    steps -= whole
    steps -= 0.5
    is_open = np.abs(steps, out=steps) >= 0.5 - _ERROR * per_step
    is_open |= uniform < _LEAST
    found = whole.astype(np.int64)
    for place in np.flatnonzero(is_open):
        first = int(words[place]) >> 1
        found[place] = _with_more_digits(bits, first, numerator, denominator)
    return found, (words & np.uint64(1)).astype(bool)


def _with_more_digits(
    bits: np.random.BitGenerator, digits: int, numerator: int, denominator: int
) -> int:
    """The integer part of `_by_inversion`, for a uniform with 63 given digits."""
    n_digits = 63
    while True:
        with localcontext(prec=n_digits // 3 + 40) as context:
            # Decimal logarithms are exact to the last digit.
            tolerance = Decimal(10) ** (10 - context.prec)
            log_unit = n_digits * Decimal(2).ln()
            ends = [
                (log_unit - Decimal(end).ln() + sign * tolerance)
                * denominator // numerator
                for end, sign in ((digits + 1, -1), (digits, 1))
                if end
            ]  # fmt: skip
        low, high = max(int(ends[0]), 0), ends[-1]
        if len(ends) == 2 and low == high:
            return low
        digits = digits << 64 | int(bits.random_raw(1)[0])
        n_digits += 64


def _by_rejection(
    bits: np.random.BitGenerator, numerator: int, denominator: int, size: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Magnitudes and signs, at any rate."""
    found = np.empty(size, dtype=np.int64)
    missing = np.arange(size)
    one = np.ones(1, dtype=np.uint64)
    while missing.size:
        # P(x) is proportional to exp(-x / denominator) for x = u + denominator * v.
        u = uniform_below(bits, denominator, missing.size)
        is_kept = _bernoulli_exp(bits, u, denominator)
        kept = missing[is_kept]
        v = np.zeros(kept.size, dtype=np.uint64)
        running = np.arange(kept.size)
        while running.size:
            again = _bernoulli_exp(bits, np.broadcast_to(one, running.shape), 1)
            running = running[again]
            v[running] += np.uint64(1)
        x = u[is_kept] + np.uint64(denominator) * v
        found[kept] = (x // np.uint64(numerator)).astype(np.int64)
        missing = missing[~is_kept]
    return found, uniform_below(bits, 2, size) == 1


def discrete_gaussian(
    bits: np.random.BitGenerator, scale: int, size: int
) -> NDArray[np.int64]:
    """Integers n with probability proportional to exp(-n^2 / (2 scale^2)).

    A discrete Laplace variate of rate 1 / scale, with absolute value y, is accepted
    with probability exp(-(y - scale)^2 / (2 scale^2)). Let j be the integer part of
    abs(y - scale) / scale and x the rest. The probability is then
    exp(-1/2)^(j^2) exp(-x)^j exp(-x^2 / 2).

    Parameters
    ----------
    bits, size
        As for `discrete_laplace`.
    scale : int
        In [1, 2**50). The standard deviation of the noise is at most `scale`.

    Returns
    -------
    noise : ndarray of shape (size,), int64

    Raises
    ------
    ValueError
        If `scale` is out of range.
    """
    scale = operator.index(scale)
    if not 1 <= scale < _MAX_DENOMINATOR:
        raise ValueError("The scale of the noise is out of range.")
    noise = np.empty(size, dtype=np.int64)
    missing = np.arange(size)
    while missing.size:
        candidates = discrete_laplace(bits, 1, scale, missing.size)
        times, rest = np.divmod(np.abs(np.abs(candidates) - scale), scale)
        rest = rest.astype(np.uint64)
        one = np.ones(missing.size, dtype=np.uint64)
        accepted = np.arange(missing.size)
        accepted = _all_succeed(bits, accepted, times**2, one, 2)
        accepted = _all_succeed(bits, accepted, times, rest, scale)
        accepted = accepted[_bernoulli_exp_half_square(bits, rest[accepted], scale)]
        noise[missing[accepted]] = candidates[accepted]
        missing = np.delete(missing, accepted)
    return noise


def _all_succeed(
    bits: np.random.BitGenerator,
    places: NDArray[np.intp],
    times: NDArray[Any],
    numerators: NDArray[np.uint64],
    denominator: int,
) -> NDArray[np.intp]:
    """Keep each place with probability exp(-times * numerators / denominator)."""
    n_done, running, kept = 0, places, []
    while running.size:
        is_done = times[running] == n_done
        kept.append(running[is_done])
        running = running[~is_done]
        running = running[_bernoulli_exp(bits, numerators[running], denominator)]
        n_done += 1
    return np.sort(np.concatenate([places[:0], *kept]))


def _bernoulli_exp_half_square(
    bits: np.random.BitGenerator, numerators: NDArray[np.uint64], denominator: int
) -> NDArray[np.bool_]:
    """Bernoulli(exp(-x^2 / 2)) for 0 <= x = numerators / denominator <= 1.

    Bernoulli(x^2 / (2 k)) takes two draws, whose integers do not overflow.
    """
    return _by_series(bits, numerators, lambda k: (denominator, 2 * denominator * k))


def discrete_laplace_variance(rate: float) -> float:
    """Variance of the integers n with probability proportional to exp(-rate abs(n))."""
    return 2 * math.exp(-rate) / math.expm1(-rate) ** 2


def categorical(
    bits: np.random.BitGenerator, weights: NDArray[np.int64], rows: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Draw a column for each element of `rows`, with that row's integer weights.

    Parameters
    ----------
    bits : bit generator
        Supplies 64-bit words (``random_raw``).
    weights : ndarray of shape (n_rows, n_columns), int64
        Non-negative. All rows have the same sum, below 2**63.
    rows : ndarray of shape (n,), int
        The row of weights of every draw.

    Returns
    -------
    columns : ndarray of shape (n,), int64

    Raises
    ------
    ValueError
        If weights are negative, the sums differ or are out of range, or `rows` has
        numbers that are not rows of the table.
    """
    totals = {sum(map(int, row)) for row in weights}
    if len(totals) != 1 or not 0 < min(totals) < 2**63 or np.min(weights) < 0:
        raise ValueError(
            "`weights` must be non-negative, and all its rows must have the same sum, "
            "above 0 and below 2**63."
        )
    if rows.size and not 0 <= rows.min() <= rows.max() < len(weights):
        raise ValueError("`rows` must be numbers of rows of `weights`.")
    cumulative = np.cumsum(weights, axis=1).astype(np.uint64)
    draws = uniform_below(bits, cumulative[0, -1], rows.size)
    columns = np.empty(rows.size, dtype=np.int64)
    # A stable sort takes linear time for 16-bit integers.
    keys = rows.astype(np.uint16) if len(weights) <= 2**16 else rows
    order = np.argsort(keys, kind="stable")
    ends = np.cumsum(np.bincount(rows, minlength=len(weights)))
    for row, at in enumerate(np.split(order, ends[:-1])):
        columns[at] = np.searchsorted(cumulative[row], draws[at], side="right")
    return columns


def permute_and_flip(
    bits: np.random.BitGenerator, numerators: Sequence[int], denominator: int
) -> int:
    """Select an index; larger numbers are more probable.

    Index i comes up with probability exp((numerators[i] - max(numerators)) /
    denominator), independently of the others, and one of those that came up is selected
    uniformly. At least one does: that of the largest number. This is the
    permute-and-flip mechanism of McKenna and Sheldon (2020), Algorithm 1, which takes
    the first that comes up in a random order.

    Parameters
    ----------
    bits : bit generator
        Supplies 64-bit words (``random_raw``).
    numerators : sequence of int
        Python integers of any size.
    denominator : int
        In [1, 2**50).

    Returns
    -------
    index : int

    Raises
    ------
    ValueError
        If `numerators` is empty, or `denominator` is out of range.
    """
    denominator = operator.index(denominator)
    if not (numerators and 1 <= denominator < _MAX_DENOMINATOR):
        raise ValueError("`numerators` is empty, or `denominator` out of range.")
    best = max(numerators)
    steps = [divmod(best - numerator, denominator) for numerator in numerators]
    # Of type object, since these may exceed 64 bits.
    whole = np.array([times for times, _ in steps], dtype=object)
    rest = np.array([remainder for _, remainder in steps], dtype=np.uint64)
    up = np.flatnonzero(_bernoulli_exp(bits, rest, denominator))
    one = np.ones(len(steps), dtype=np.uint64)
    up = _all_succeed(bits, up, whole, one, 1)
    return int(up[uniform_below(bits, len(up), 1)[0]])


def bernoulli(
    bits: np.random.BitGenerator,
    numerators: int | NDArray[np.integer],
    denominator: int,
    size: tuple[int, ...],
) -> NDArray[np.bool_]:
    """Independent events of probability `numerators` / `denominator`.

    Parameters
    ----------
    bits : bit generator
        Supplies 64-bit words (``random_raw``).
    numerators : int or ndarray of int
        From 0 to `denominator`; broadcasts to `size`.
    denominator : int
        Below 2**63.
    size : tuple of int

    Returns
    -------
    events : ndarray of shape `size`, bool
    """
    draws = uniform_below(bits, denominator, math.prod(size)).reshape(size)
    return draws < np.asarray(numerators, dtype=np.uint64)
