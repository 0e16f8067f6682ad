"""The hybrid mechanism for one bounded value, exact on integers.

The mechanism of Wang et al., "Collecting and analyzing multidimensional data with
local differential privacy" (2019), Section III. A value is an index j in {0, ..., J}
on a grid over its range [-1, 1]. The mechanism draws an integer, whose distribution is
known exactly, and releases a function of that integer. So floating-point errors cannot
change the distribution.
"""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ._discrete import uniform_below

# ln of the paper's e^eps*, Lemma 3. Below it, the two-point mechanism alone is better.
_ROOT = 405 * math.sqrt(241)
HYBRID_FROM = math.log(
    (2 * math.cbrt(6353 - _ROOT) + 2 * math.cbrt(6353 + _ROOT) - 5) / 27
)
# Beyond this, the window would have only a few thousand positions.
LARGEST_EPSILON = 40.0

_N_STEPS = 2**40
# Probabilities are integers divided by this.
_UNIT = 2**62
_DECIMALS = Context(prec=60, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class HybridDistribution:
    """A mixture of two mechanisms, each with pure epsilon, for an index j.

    With probability `mixture`, the Piecewise mechanism draws a position: with
    probability `focus`, a uniform one from the window {j, ..., j + W - 1}, otherwise a
    uniform one from all N = J + W positions. With the remaining probability, the
    two-point mechanism of Duchi, Jordan and Wainwright draws a bit: Bernoulli(j / J)
    with probability `honesty`, otherwise a fair coin. The result is scaled to have the
    mean 2 j / J - 1. The guarantee holds even if it is known which mechanism drew.

    Parameters
    ----------
    n_steps : int
        J, the last index.
    window : int
        W, at least 1.
    mixture, focus, honesty : int
        Probabilities times 2**62, as integers; the last two are in (0, 2**62).
    """

    n_steps: int
    window: int
    mixture: int
    focus: int
    honesty: int

    @property
    def n_positions(self) -> int:
        """Number of positions of the Piecewise mechanism: N."""
        return self.n_steps + self.window

    @property
    def ratio(self) -> Fraction:
        """Largest ratio of an outcome's probabilities for two indices: a Fraction."""
        two_point = Fraction(_UNIT + self.honesty, _UNIT - self.honesty)
        if self.mixture == 0:
            return two_point
        odds = Fraction(self.focus, _UNIT - self.focus)
        piecewise = 1 + odds * Fraction(self.n_positions, self.window)
        return max(piecewise, two_point)

    @property
    def epsilon(self) -> float:
        """The pure epsilon that this distribution realises, rounded up."""
        ratio = self.ratio
        above = _DECIMALS.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
        # Decimal rounds ln to the nearest, regardless of the context.
        exact = _DECIMALS.next_plus(_DECIMALS.ln(above))
        nearest = float(exact)
        return nearest if nearest >= exact else math.nextafter(nearest, math.inf)

    @property
    def variance_coefficients(self) -> tuple[Fraction, Fraction]:
        """Fractions c0 and c2: the variance of a release at t is c0 + c2 t^2.

        For J -> infinity, this is Lemma 1 of the paper.
        """
        alpha, beta = Fraction(self.mixture, _UNIT), Fraction(self.focus, _UNIT)
        honesty = Fraction(self.honesty, _UNIT)
        # A uniform distribution on n consecutive integers has variance (n^2 - 1) / 12.
        # The means of the two uniform distributions are J t / 2 apart.
        spread = beta * (self.window**2 - 1) + (1 - beta) * (self.n_positions**2 - 1)
        piecewise = spread / (3 * beta**2 * self.n_steps**2)
        c0 = alpha * piecewise + (1 - alpha) / honesty**2
        return c0, alpha * (1 - beta) / beta - (1 - alpha)

    def randomize(
        self, index: NDArray[np.uint64], bits: np.random.BitGenerator
    ) -> NDArray[np.float64]:
        """A release for every index, with mean 2 j / J - 1.

        Parameters
        ----------
        index : ndarray of shape (n,), uint64
            In [0, J].
        bits : bit generator
            Supplies 64-bit words (``random_raw``).

        Returns
        -------
        released : ndarray of shape (n,), float64
        """
        released = np.empty(index.size)
        piecewise = uniform_below(bits, _UNIT, index.size) < self.mixture
        position = self._position(index[piecewise], bits)
        beta = self.focus / _UNIT
        mean = ((1 - beta) * (self.n_positions - 1) + beta * (self.window - 1)) / 2
        released[piecewise] = 2 * (position - mean) / (beta * self.n_steps) - 1
        ones = self._bit(index[~piecewise], bits)
        released[~piecewise] = np.where(ones, 1.0, -1.0) / (self.honesty / _UNIT)
        return released

    def _position(
        self, index: NDArray[np.uint64], bits: np.random.BitGenerator
    ) -> NDArray[np.uint64]:
        """Positions of the Piecewise mechanism."""
        position = np.empty(index.size, dtype=np.uint64)
        inside = uniform_below(bits, _UNIT, index.size) < self.focus
        n_inside = int(np.count_nonzero(inside))
        position[inside] = index[inside] + uniform_below(bits, self.window, n_inside)
        n_anywhere = index.size - n_inside
        position[~inside] = uniform_below(bits, self.n_positions, n_anywhere)
        return position

    def _bit(
        self, index: NDArray[np.uint64], bits: np.random.BitGenerator
    ) -> NDArray[np.bool_]:
        """Bits of the two-point mechanism."""
        honest = uniform_below(bits, _UNIT, index.size) < self.honesty
        threshold = np.where(honest, index * np.uint64(2), np.uint64(self.n_steps))
        return uniform_below(bits, 2 * self.n_steps, index.size) < threshold


def hybrid_distribution(epsilon: float, n_steps: int = _N_STEPS) -> HybridDistribution:
    """The hybrid distribution for one value, as close to `epsilon` as integers allow.

    Parameters
    ----------
    epsilon : float
        Positive; values above 40 are replaced by 40.
    n_steps : int, default=2**40
        Number of steps from one end of the range to the other.

    Returns
    -------
    distribution : HybridDistribution
        Its own ``epsilon`` is at most `epsilon`.

    Raises
    ------
    ValueError
        If `epsilon` is not positive, or too small to be represented.
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon must be positive, got {epsilon!r}.")
    epsilon = min(float(epsilon), LARGEST_EPSILON)
    # Just below e^epsilon: Decimal rounds exp to the nearest, whatever the context.
    power = Fraction(_DECIMALS.next_minus(_DECIMALS.exp(Decimal(epsilon))))
    window = max(1, round(n_steps * math.exp(-epsilon / 2)))
    odds = (power - 1) * Fraction(window, n_steps + window)
    focus = math.floor(_UNIT * odds / (1 + odds))
    honesty = math.floor(_UNIT * (power - 1) / (power + 1))
    if min(focus, honesty) < 1:
        raise ValueError(
            f"epsilon = {epsilon} is too small to be represented. Increase it."
        )
    mixture = 0.0 if epsilon <= HYBRID_FROM else -math.expm1(-epsilon / 2)
    return HybridDistribution(n_steps, window, round(mixture * _UNIT), focus, honesty)


def subsets(
    bits: np.random.BitGenerator, n_rows: int, n_entries: int, size: int
) -> NDArray[np.int64]:
    """Uniform subsets of {0, ..., n_entries - 1}, one for every row.

    Parameters
    ----------
    bits : bit generator
        Supplies 64-bit words (``random_raw``).
    n_rows, n_entries, size : int
        1 <= size <= n_entries.

    Returns
    -------
    chosen : ndarray of shape (n_rows, size), int64
        The elements of every subset, in no particular order.
    """
    if size == n_entries:
        return np.broadcast_to(np.arange(n_entries), (n_rows, n_entries))
    chosen = np.empty((n_rows, size), dtype=np.int64)
    open_rows = np.arange(n_rows)
    while open_rows.size:
        words = bits.random_raw(open_rows.size * n_entries).reshape(-1, n_entries)
        order = np.argpartition(words, (size - 1, size), axis=1)[:, : size + 1]
        chosen[open_rows] = order[:, :size]
        # The smallest words are the subset. If its largest word ties with one outside,
        # draw the row again.
        last = np.take_along_axis(words, order[:, size - 1 :], axis=1)
        open_rows = open_rows[last[:, 0] == last[:, 1]]
    return chosen
