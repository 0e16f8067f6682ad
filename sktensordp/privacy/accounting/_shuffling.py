"""The curve of shuffled messages: what n randomised messages in random order reveal.

Every person randomises one value by the same randomizer R, and a trusted shuffler
passes the n messages on in random order, with nothing that tells who sent which.
Neighbours replace the value of one person.

Theorem (privacy blanket). Let x and x' be two values, r and r' the distributions of
their messages, and b a measure such that R(z) >= b for every value z, with b > 0
wherever r or r' is. Whatever the other n - 1 people hold, the shuffled messages with x
in place of x' have at e^epsilon a hockey-stick divergence of at most

    E[max(0, (X_1 + ... + X_n) / n)],    X_1, ..., X_n independent,

where X_i is (r(y) - e^epsilon r'(y)) / b(y) with probability b(y) for every message y,
and 0 otherwise.

For a table, b is the least probability of each message over all rows. (If it has two
messages, `_shuffled_bits` has a better theorem, which is used in place of this one
unless people are too many.) For any
randomizer of pure epsilon0, messages carry one of two labels, with b = e^-epsilon0 / 2
for each, and r and r' as for binary response. If delta0 > 0, the distance of the
messages from those of such a randomizer is added to delta.

The expectation is that of a convex function. So it does not decrease if each X_i is
moved at random to one of the two neighbouring points of a grid, with its mean kept;
sums of grid points are then computed by FFT under an exponential tilt, which keeps the
relative error of small divergences small. Mass that the FFT wraps around from the left
only adds to the result; for mass beyond its window on the right, a Chernoff bound is
added.

doc/shuffling.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import permutations
from typing import Any

import numpy as np
from dp_accounting import DpEvent, dp_event
from numpy.typing import ArrayLike, NDArray
from scipy.fft import next_fast_len
from scipy.optimize import brentq

from ._bisection import first_where
from ._envelope import ConvexEnvelope
from ._events import (
    RandomizedResponseDpEvent,
    SamplerResidualDpEvent,
    TableDpEvent,
)
from ._shuffled_bits import ShuffledBits

# Relative error of probabilities as floats, and of an FFT for every halving.
_PROBABILITY_ERROR, _FFT_ERROR = 1e-14, 1e-15
# The grid has at least this many points, at most that many, and a step that adds this
# share to the variance of the sum.
_LEAST_POINTS, _MOST_POINTS, _ADDED_VARIANCE = 2**12, 2**19, 2e-3
# A table with more rows or messages counts as any epsilon0-randomizer.
_MOST_ROWS, _MOST_MESSAGES = 16, 256
# Messages beyond this number are left out, which keeps every bound valid: people who
# are left out count as seen. The sums over all of them would not fit into memory.
MOST_SHUFFLED = 10**9
# Where the curve ends: further losses count as infinite.
_NEGLIGIBLE = 1e-18
_KNOTS = 250
# Points of the quadrature between two knots.
_NODES = 24
# The deltas at which an approximate randomizer's epsilon0 is tried.
_LOCAL_DELTAS = (0.0, *np.geomspace(1e-40, 1e-3, 38).tolist())
# No randomizer of a larger epsilon0 gains anything.
_LARGEST_EPSILON = 300.0


@dataclass(frozen=True, eq=False)
class BlanketPair:
    """Two message distributions and what all messages have in common.

    Attributes
    ----------
    blanket : ndarray of shape (n_messages,)
        Least probability of each message over all values; positive.
    first, second : ndarray of shape (n_messages,)
        Probabilities of the messages for two values.
    residual : float
        Bound on the |log ratio| of the true probabilities to these.
    """

    blanket: NDArray[np.float64]
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    residual: float = 0.0

    @classmethod
    def of_clones(cls, epsilon: float) -> BlanketPair:
        """The pair that bounds every randomizer of pure `epsilon`."""
        small = math.exp(-epsilon)
        first = np.array([1.0, small]) / (1 + small)
        return cls(np.full(2, small / 2), first, first[::-1].copy())

    @property
    def error(self) -> float:
        """Bound on the |log ratio| of the true probabilities to these floats."""
        return self.residual + _PROBABILITY_ERROR

    def summands(self, epsilon: float) -> tuple[NDArray[np.float64], ...]:
        """The nonzero values of X_i in the theorem, and lower bounds on their masses.

        Errors of the probabilities, of up to `error`, make the bound larger, never
        smaller.
        """
        masses = self.blanket * math.exp(-self.error)
        factor = math.exp(epsilon - 2 * self.error)
        return (self.first - factor * self.second) / masses, masses


def blanket_divergence(pair: BlanketPair, n_messages: int, epsilon: float) -> float:
    """Upper bound of the divergence in the theorem of this module.

    Parameters
    ----------
    pair : BlanketPair
    n_messages : int
        n, including the message of the protected person.
    epsilon : float

    Returns
    -------
    delta : float
    """
    values, blanket = pair.summands(epsilon)
    if not values.max() > 0:
        return 0.0
    # A value below this is enough to make any sum negative.
    values = np.maximum(values, -n_messages * values.max())
    # Scaled, so that the values are at most 1.
    unit = float(np.abs(values).max())
    values = np.append(values / unit, 0.0)
    masses = np.append(blanket, max(0.0, 1 - math.fsum(blanket)) + _PROBABILITY_ERROR)
    log_total = _log_mean_of_positive_sum(values, masses, n_messages)
    log_total += math.log(unit) - math.log(n_messages) + pair.error
    return math.exp(min(log_total + n_messages * _PROBABILITY_ERROR, 0.0))


def _log_mean_of_positive_sum(
    values: NDArray[np.float64], masses: NDArray[np.float64], n: int
) -> float:
    """Log of an upper bound on E[max(0, sum of n draws)]; |values| are at most 1."""
    values, masses = values[masses > 0], masses[masses > 0]
    log_masses = np.log(masses)
    tilt = _tilt_to_mean_zero(values, log_masses)
    tilted = np.exp(_tilted_log_masses(values, log_masses, tilt))
    variance = float(tilted @ values**2)
    deviation = math.sqrt(n * variance)
    moving = float(tilted[values != 0].sum())
    # No sum of grid points is larger: a step is below a tenth.
    largest = 1.1 * n
    reach = min(largest, 9 * deviation + 40.0)
    while True:
        step = math.sqrt(4 * _ADDED_VARIANCE * variance / moving)
        step = min(max(step, 2 * reach / _MOST_POINTS), 2 * reach / _LEAST_POINTS)
        # The value of largest magnitude, 1 or -1, lies on the grid.
        step = 1 / math.ceil(1 / min(step, 0.1))
        points, log_point_masses = _on_grid(values, masses, step)
        places = points.astype(float) * step
        # The tilt for the points: moving a value that is small against a step changes
        # it.
        tilt = _tilt_to_mean_zero(places, log_point_masses)
        mean_log = _cumulant(places, log_point_masses, tilt)
        log_tail = _log_tail(places, log_point_masses, n, tilt, reach)
        size_of_sum = min(deviation, 1 / (tilt * tilt * deviation + 1e-300))
        if log_tail - n * mean_log < math.log(size_of_sum) - 25 or reach >= largest:
            break
        reach = min(largest, 1.5 * reach)
    size = next_fast_len(math.ceil(2 * reach / step) + 2, real=True)
    tilted_points = np.exp(log_point_masses + tilt * places - mean_log)
    cells = np.bincount(points % size, weights=tilted_points, minlength=size)
    transform = np.fft.rfft(cells)
    sums = np.fft.irfft(_power(transform, n), size)
    # The transform has an error of some roundings for every halving. Its n-th power has
    # n times that error, where it is not negligible.
    rounding = _FFT_ERROR * math.log2(size) * (n + 1)
    rounding *= float(np.mean(np.abs(transform) ** (n - 1)))
    positive = np.arange(1, (size + 1) // 2)
    weights = positive * step * np.exp(-tilt * step * positive)
    total = float(weights @ (np.maximum(sums[positive], 0.0) + rounding))
    log_total = n * mean_log + math.log(total)
    return float(np.logaddexp(log_total, log_tail))


def _power(base: NDArray[np.complex128], n: int) -> NDArray[np.complex128]:
    """The n-th power, by squaring."""
    power = np.ones_like(base)
    while n:
        if n % 2:
            power *= base
        n //= 2
        if n:
            base = base * base
    return power


def _tilted_log_masses(
    values: NDArray[np.float64], log_masses: NDArray[np.float64], tilt: float
) -> NDArray[np.float64]:
    return log_masses + tilt * values - _cumulant(values, log_masses, tilt)


def _cumulant(
    values: NDArray[np.float64], log_masses: NDArray[np.float64], tilt: float
) -> float:
    """Log of E[exp(tilt X)]."""
    exponents = log_masses + tilt * values
    largest = float(exponents.max())
    return largest + math.log(float(np.exp(exponents - largest).sum()))


def _tilt_to_mean_zero(
    values: NDArray[np.float64], log_masses: NDArray[np.float64]
) -> float:
    """The tilt >= 0 at which the mean is 0; 0 if the mean is not negative.

    Some value is positive.
    """

    def mean(tilt: float) -> float:
        return float(np.exp(_tilted_log_masses(values, log_masses, tilt)) @ values)

    if mean(0.0) >= 0:
        return 0.0
    high = 1.0
    while mean(high) < 0:
        high *= 2
    return float(brentq(mean, 0.0, high))


def _on_grid(
    values: NDArray[np.float64], masses: NDArray[np.float64], step: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Each value, moved to one of two neighbouring points with its mean kept.

    Returns
    -------
    points : ndarray of int64
        In units of `step`.
    log_masses : ndarray
    """
    scaled = values / step
    lower = np.floor(scaled)
    share = scaled - lower
    points = np.concatenate([lower, lower + 1]).astype(np.int64)
    masses = np.concatenate([masses * (1 - share), masses * share])
    return points[masses > 0], np.log(masses[masses > 0])


def _log_tail(
    values: NDArray[np.float64],
    log_masses: NDArray[np.float64],
    n: int,
    tilt: float,
    reach: float,
) -> float:
    """Log of a bound of E[S; S > reach] for the sum S of n draws.

    S is at most reach e^(t (S - reach)) for S > reach and any t >= 1 / reach.
    """
    if n * values.max() <= reach:
        return -math.inf
    start = max(tilt, 1 / reach)
    bounds = [
        n * _cumulant(values, log_masses, t) - t * reach + math.log(reach)
        for t in start + np.append(0.0, np.geomspace(1e-4, 1e4, 33))
    ]
    return min(bounds)


def delta_of_clones(epsilon0: float, n_messages: int, epsilon: float) -> float:
    """Delta at `epsilon` of n shuffled messages of any pure `epsilon0`-randomizer."""
    if epsilon >= epsilon0:
        return 0.0
    local = -math.expm1(epsilon - epsilon0) / (1 + math.exp(-epsilon0)) * (1 + 1e-14)
    if epsilon0 > _LARGEST_EPSILON:
        return local
    pair = BlanketPair.of_clones(epsilon0)
    return min(local, blanket_divergence(pair, n_messages, epsilon))


def added_delta(epsilon0: float, n_messages: int, epsilon: float) -> float:
    """What delta0 of a message adds to delta after shuffling, as its multiple."""
    share = 1 / (1 + math.exp(min(epsilon0, 700.0)))
    others = (n_messages - 1) * math.exp(-epsilon0) * (1 + share)
    return (1 + math.exp(min(epsilon, 700.0))) * (share + others) * (1 + 1e-14)


@dataclass(frozen=True, eq=False)
class ShuffledCurve:
    """Deltas of n shuffled messages at all epsilons.

    Parameters
    ----------
    n_messages : int
        n, at least 2.
    pairs : tuple of BlanketPair
        One for every ordered pair of rows, if a message is one symbol of a table.
        Otherwise empty: the randomizer is known by its curve alone.
    epsilon_of_message, delta_of_message : callable
        The curve of one message: epsilon at a delta, and delta at an epsilon.
    """

    n_messages: int
    pairs: tuple[BlanketPair, ...]
    epsilon_of_message: Callable[[float], float]
    delta_of_message: Callable[[float], float]

    @cached_property
    def bits(self) -> ShuffledBits | None:
        """The curve of messages of two kinds; None if there may be more."""
        if not self.pairs or len(self.pairs[0].blanket) != 2:
            return None
        pair = self.pairs[0]
        zero, one = (pair.blanket * math.exp(-pair.error)).tolist()
        return ShuffledBits((zero, one), self.n_messages)

    @cached_property
    def pure_epsilon(self) -> float:
        """Epsilon at delta = 0: that of one message."""
        return self.epsilon_of_message(0.0)

    def _local_epsilon(self, i: int) -> float:
        """Epsilon of one message at the i-th delta."""
        return self.epsilon_of_message(_LOCAL_DELTAS[i])

    @cached_property
    def _n_local(self) -> int:
        """Number of deltas of one message that are tried: 1 if its epsilon is pure.

        A randomizer that is a composition of many may have a pure epsilon that is far
        above the epsilon at a tiny delta.
        """
        near = self.epsilon_of_message(1e-12)
        return 1 if near > 0.97 * self.pure_epsilon else len(_LOCAL_DELTAS)

    @cached_property
    def protects(self) -> bool:
        """Whether any finite epsilon holds with a delta below 1."""
        return math.isfinite(self._local_epsilon(len(_LOCAL_DELTAS) - 1))

    @cached_property
    def _least(self) -> tuple[float, float]:
        """An epsilon where delta is small, and that delta.

        The delta is 0 for a pure randomizer; for others, the bound falls and then
        rises.
        """
        if math.isfinite(self.pure_epsilon):
            return self.pure_epsilon, 0.0
        local = map(self._local_epsilon, range(len(_LOCAL_DELTAS)))
        largest = max(filter(math.isfinite, local))
        grid = np.geomspace(1e-4, 1.0, 33) * largest
        deltas = [self._bound(e) for e in grid.tolist()]
        best = int(np.argmin(deltas))
        return float(grid[best]), deltas[best]

    @cached_property
    def losses(self) -> tuple[float, float]:
        """Smallest and largest loss that does not count as infinite."""
        high, least = self._least
        enough = max(1.01 * least, _NEGLIGIBLE)
        high = first_where(lambda e: self._bound(e) <= enough, 0.0, high, relative=1e-2)
        return -high, high

    @cached_property
    def _envelope(self) -> ConvexEnvelope:
        return ConvexEnvelope(self._best, np.linspace(0.0, self.losses[1], _KNOTS))

    @cached_property
    def _bounds(self) -> dict[float, float]:
        return {}

    def _bound(self, epsilon: float) -> float:
        """Delta at `epsilon` >= 0 by the theorems, and by that of one message."""
        if epsilon not in self._bounds:
            self._bounds[epsilon] = self._computed_bound(epsilon)
        return self._bounds[epsilon]

    def _computed_bound(self, epsilon: float) -> float:
        local = min(1.0, self.delta_of_message(epsilon))
        if local == 0:
            return 0.0
        if self.bits is not None:
            local = min(local, self.bits.delta(epsilon))
            if self.bits.n_counted == self.n_messages:
                return local
        if self.pairs:
            return min(local, _largest_divergence(self.pairs, self.n_messages, epsilon))
        return min(local, self._bound_of_any(epsilon))

    def _bound_of_any(self, epsilon: float) -> float:
        """A small bound among those from the guarantees of one message.

        As delta0 rises, the part that it adds rises and the other part falls. The
        search goes to where the added part is a tenth; wherever it ends, the bound
        holds.
        """
        least, low, high = 1.0, 0, self._n_local - 1
        while low <= high:
            middle = (low + high) // 2
            epsilon0 = self._local_epsilon(middle)
            if not math.isfinite(epsilon0):
                low = middle + 1
                continue
            added = _LOCAL_DELTAS[middle] * added_delta(
                epsilon0, self.n_messages, epsilon
            )
            if added >= least:
                high = middle - 1
                continue
            amplified = delta_of_clones(epsilon0, self.n_messages, epsilon)
            least = min(least, amplified + added)
            if added < amplified / 10:
                low = middle + 1
            else:
                high = middle - 1
        return least

    def _best(self, epsilon: float) -> float:
        """The bound at `epsilon`, or at a smaller epsilon where it is smaller."""
        bound = self._bound(epsilon)
        least_at, least = self._least
        return min(bound, least) if epsilon >= least_at else bound

    def delta(self, epsilon: ArrayLike) -> Any:
        """Delta at an epsilon, which may be negative, or at an array of them."""
        epsilon = np.asarray(epsilon, dtype=float)
        if epsilon.ndim == 0 and epsilon >= 0:
            return self._best(float(epsilon))
        return self._envelope.delta(epsilon)


@lru_cache(maxsize=64)
def _fine_curve(
    curve: ShuffledCurve,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rising epsilons from 0 to the pure epsilon, and delta there."""
    reach = curve.losses[1]
    epsilons = np.linspace(0.0, reach, _KNOTS)
    beyond = np.geomspace(reach, max(curve.pure_epsilon, reach), _KNOTS // 2)
    epsilons = np.unique(np.append(epsilons, beyond))
    return epsilons, np.array([curve.delta(e) for e in epsilons.tolist()])


def shuffled_renyi(curve: ShuffledCurve, order: float) -> float:
    """Bound of the Rényi divergence at `order`; infinite for approximate randomizers.

    For distributions P and Q, the mean of (P / Q)^a under Q is 1 plus a (a - 1) times
    the integral over g from 1 of g^(a - 2) delta(log g) + g^(-a - 1) delta'(log g),
    with delta the curve of P and Q and delta' that of Q and P: the second derivative of
    x^a, integrated against the hockey-stick divergences. The curve bounds both. It is
    convex in g, and so below its chords.
    """
    if not math.isfinite(curve.pure_epsilon):
        return math.inf
    if order * curve.pure_epsilon > 600:
        return curve.pure_epsilon
    epsilons, deltas = _fine_curve(curve)
    widths = np.diff(epsilons)[:, np.newaxis]
    # All terms of the quadrature are positive: nothing cancels.
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    inside = widths * (nodes + 1) / 2
    share = np.expm1(inside) / np.expm1(widths)
    chords = deltas[:-1, np.newaxis] * (1 - share) + deltas[1:, np.newaxis] * share
    losses = epsilons[:-1, np.newaxis] + inside
    powers = np.exp((order - 1) * losses) + np.exp(-order * losses)
    integral = float(np.sum(widths / 2 * weights * powers * chords))
    log_moment = math.log1p(order * (order - 1) * integral * (1 + 1e-7))
    return min(log_moment / (order - 1), curve.pure_epsilon)


def _largest_divergence(
    pairs: tuple[BlanketPair, ...], n_messages: int, epsilon: float
) -> float:
    """The largest blanket divergence of the pairs.

    The X_i of the theorem have the same mean for all pairs. If those of one pair are
    below those of another in the convex order, so are the sums, and the pair need not
    be evaluated. Where the order fails by an error e, the divergence is off by at most
    e. The comparison uses the same numbers as `blanket_divergence`.
    """
    values, masses = map(
        np.array, zip(*(pair.summands(epsilon) for pair in pairs), strict=True)
    )
    error = 4e-16 * float(np.abs(values).max())
    knots = np.append(np.unique(values), 0.0)
    excess = np.maximum(values[:, np.newaxis] - knots[:, np.newaxis], 0.0)
    stop_losses = np.einsum("pty,py->pt", excess, masses)
    stop_losses += np.outer(1 - masses.sum(axis=1), np.maximum(-knots, 0.0))
    kept: list[int] = []
    for i in np.argsort(-stop_losses.sum(axis=1)).tolist():
        if not any(np.all(stop_losses[i] <= stop_losses[j] + error) for j in kept):
            kept.append(i)
    largest = max(blanket_divergence(pairs[i], n_messages, epsilon) for i in kept)
    return largest + (error if len(kept) < len(pairs) else 0.0)


def blanket_pairs(event: DpEvent) -> tuple[BlanketPair, ...]:
    """The pairs of an event that draws one symbol of a table; empty for others."""
    responses: list[DpEvent] = []
    residual = 0.0
    for part in _parts(event):
        if isinstance(part, SamplerResidualDpEvent) and part.delta == 0:
            residual += part.epsilon
        else:
            responses.append(part)
    if len(responses) != 1:
        return ()
    rows = _table(responses[0])
    if rows is None or residual > 1e-3 or not rows.min() > 0:
        return ()
    blanket = rows.min(axis=0)
    seen, pairs = set(), []
    for first, second in permutations(rows, 2):
        messages = sorted(zip(blanket, first, second, strict=True))
        if tuple(messages) not in seen:
            seen.add(tuple(messages))
            pairs.append(BlanketPair(blanket, first, second, residual))
    return tuple(pairs)


def _parts(event: DpEvent) -> Iterator[DpEvent]:
    """The events of a composition."""
    if isinstance(event, dp_event.ComposedDpEvent):
        for inner in event.events:
            yield from _parts(inner)
    elif isinstance(event, dp_event.SelfComposedDpEvent) and event.count == 1:
        yield from _parts(event.event)
    else:
        yield event


def _table(event: DpEvent) -> NDArray[np.float64] | None:
    """Probabilities of the messages of each value; None if there are none."""
    if isinstance(event, TableDpEvent):
        if len(event.weights) > _MOST_ROWS or len(event.weights[0]) > _MOST_MESSAGES:
            return None
        weights = np.array(event.weights, dtype=float)
        return weights[:, weights.any(axis=0)] / float(sum(event.weights[0]))
    if not isinstance(event, RandomizedResponseDpEvent):
        return None
    distribution = event.distribution
    if distribution.noise == "geometric" or distribution.n_levels > _MOST_ROWS:
        return None
    moves = (1 - event.keep) * distribution.moves()
    return moves + event.keep * np.eye(distribution.n_levels)
