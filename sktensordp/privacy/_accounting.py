"""What a composition of events guarantees.

Three regimes, decided by the events alone:

- pure events at delta = 0: their epsilons add up;
- Gaussian events: mu-GDP composes in closed form, mu^2 = sum mu_i^2;
- everything else: one privacy-loss distribution (PLD) per kind of event, built from
  that event's own dominating pair, and then composed by dp-accounting. No
  neighbouring relation is passed through: an event stands for one comparison of
  two inputs, whose sensitivity the mechanism has put into it.

A PLD carries an absolute rounding error near 1e-15 a convolution and cannot see a
tiny delta. Where basic composition (pure epsilons summed, plus the closed Gaussian
curve) is the smaller of the two upper bounds, it is the answer.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from dp_accounting import dp_event
from dp_accounting.pld import pld_pmf, privacy_loss_distribution
from scipy.optimize import minimize_scalar

from ._events import PureDpEvent, SamplerResidualDpEvent, TableDpEvent
from ._gaussian import gaussian_delta, gaussian_mu

__all__ = ["compose_events", "event_delta", "event_epsilon"]

# Added to a delta that comes out of a PLD, once and for every composed release.
_PLD_SLACK, _PLD_SLACK_EACH = 1e-12, 1e-15
# Beyond the largest nothing is protected; below the smallest mu is taken to be it.
_LARGEST_MU, _SMALLEST_MU = 1e6, 1e-150
_PLD_CELLS = 40_000
_PURE_EVENTS = (
    PureDpEvent,
    TableDpEvent,
    dp_event.LaplaceDpEvent,
    dp_event.DiscreteLaplaceDpEvent,
)


def compose_events(events):
    """One event for several adaptive releases about the same data."""
    return dp_event.ComposedDpEvent(events=tuple(events))


def event_epsilon(event, delta):
    """Smallest epsilon known to hold at `delta`; infinity where there is none."""
    ledger = _read(event)
    if not ledger.private:
        return math.inf
    ideal = _ideal_epsilon(ledger, delta)
    if math.isinf(ideal) or not ledger.has_residual:
        return ideal
    # The curve of the sampler falls to a minimum a little to the right of the ideal
    # one, and then rises: look for its first passage through delta.
    low = ideal + 2 * ledger.residual_epsilon
    if _sampler_delta(ledger, low) <= delta:
        return low
    for high in low + max(low, 1.0) * np.geomspace(1e-9, 4.0, 100):
        if _sampler_delta(ledger, high) <= delta:
            break
        low = high
    else:
        return math.inf
    for _ in range(50):
        middle = (low + high) / 2
        if _sampler_delta(ledger, middle) <= delta:
            high = middle
        else:
            low = middle
    return float(high)


def event_delta(event, epsilon):
    """Smallest delta known to hold at `epsilon` >= 0."""
    ledger = _read(event)
    if not ledger.private:
        return 1.0
    if not ledger.has_residual:
        return _ideal_delta(ledger, epsilon)
    start = 2 * ledger.residual_epsilon
    if epsilon < start:
        # (a, d)-DP is also (epsilon, d + e^a - e^epsilon)-DP for epsilon < a.
        growth = math.exp(epsilon) * math.expm1(start - epsilon)
        return min(1.0, _sampler_delta(ledger, start) + growth)
    if ledger.residual_delta:
        # The curve falls and then rises; from its minimum on, the minimum holds.
        end = max(start, -math.log(min(ledger.residual_delta, 1.0))) + 1
        lowest = minimize_scalar(
            lambda e: math.log(_sampler_delta(ledger, e)),
            bounds=(start, end), method="bounded", options={"xatol": 1e-4},
        ).x  # fmt: skip
        epsilon = min(epsilon, float(lowest))
    return _sampler_delta(ledger, epsilon)


def _sampler_delta(ledger, epsilon):
    """Delta at `epsilon` >= 2 e1 by the triangle of sampler, ideal law and sampler.

    P <= e^e1 Q + d1 on both sides of Q's (epsilon - 2 e1, delta).
    """
    e1, d1 = ledger.residual_epsilon, ledger.residual_delta
    ideal = _ideal_delta(ledger, max(epsilon - 2 * e1, 0.0))
    if d1 == 0:
        return min(1.0, math.exp(min(e1, 700.0)) * ideal)
    if max(e1, epsilon - e1) > 700:
        return 1.0
    return min(1.0, math.exp(e1) * ideal + d1 * (1 + math.exp(epsilon - e1)))


@dataclass
class _Ledger:
    """The leaves of an event, sorted by how they compose."""

    pure: Counter = field(default_factory=Counter)
    mu: float = 0.0
    residual_epsilon: float = 0.0
    residual_delta: float = 0.0
    private: bool = True

    @property
    def pure_epsilon(self):
        return math.fsum(n * _pure_epsilon(event) for event, n in self.pure.items())

    @property
    def has_residual(self):
        return self.residual_epsilon > 0 or self.residual_delta > 0

    @property
    def slack(self):
        """What is added to a delta that comes out of a PLD: its FFTs are rounded."""
        return _PLD_SLACK + _PLD_SLACK_EACH * self.pure.total()


def _read(event):
    ledger = _Ledger()
    _add(ledger, event, 1)
    if ledger.mu > _LARGEST_MU:
        ledger.private = False
    return ledger


def _add(ledger, event, count):
    if count == 0 or isinstance(event, dp_event.NoOpDpEvent):
        return
    if isinstance(event, dp_event.ComposedDpEvent):
        for part in event.events:
            _add(ledger, part, count)
    elif isinstance(event, dp_event.SelfComposedDpEvent):
        _refuse_negative(event.count)
        _add(ledger, event.event, count * event.count)
    elif isinstance(event, dp_event.NonPrivateDpEvent):
        ledger.private = False
    elif isinstance(event, dp_event.GaussianDpEvent):
        _refuse_negative(event.noise_multiplier)
        if event.noise_multiplier == 0:
            ledger.private = False
        elif not math.isinf(event.noise_multiplier):
            mu = max(math.sqrt(count) / event.noise_multiplier, _SMALLEST_MU)
            ledger.mu = math.hypot(ledger.mu, mu)
    elif isinstance(event, SamplerResidualDpEvent):
        ledger.residual_epsilon += count * event.epsilon
        ledger.residual_delta += count * event.delta
    elif isinstance(event, _PURE_EVENTS):
        epsilon = _pure_epsilon(event)
        if math.isinf(epsilon):
            ledger.private = False
        elif epsilon > 0:
            ledger.pure[event] += count
    else:
        raise NotImplementedError(
            f"There is no privacy accounting for events of type {type(event).__name__}."
        )


def _refuse_negative(*parameters):
    if not all(p >= 0 for p in parameters):
        raise ValueError(f"The parameters of an event must be >= 0, got {parameters}.")


def _ideal_epsilon(ledger, delta):
    """Epsilon at `delta` of the composition without its samplers' residuals."""
    pure, mu = ledger.pure_epsilon, ledger.mu
    if mu == 0 and (delta == 0 or not ledger.pure):
        return pure
    if delta == 0:
        return math.inf
    basic = pure + (_gaussian_epsilon(mu, delta) if mu else 0.0)
    if not ledger.pure or delta <= ledger.slack:
        return basic
    composed = _composed_pld(frozenset(ledger.pure.items()), mu)
    return min(basic, float(composed.get_epsilon_for_delta(delta - ledger.slack)))


def _ideal_delta(ledger, epsilon):
    """Delta at `epsilon` of the composition without its samplers' residuals."""
    pure, mu = ledger.pure_epsilon, ledger.mu
    if mu == 0 and epsilon >= pure:
        return 0.0
    if not ledger.pure:
        return gaussian_delta(epsilon, mu)
    basic = gaussian_delta(epsilon - pure, mu) if mu and epsilon >= pure else 1.0
    if mu == 0 and sum(ledger.pure.values()) == 1:
        (event,) = ledger.pure
        return float(_hockey_stick(event, np.array([epsilon]))[0])
    if basic <= ledger.slack:
        return basic
    composed = _composed_pld(frozenset(ledger.pure.items()), mu)
    found = max(float(composed.get_delta_for_epsilon(epsilon)), 0.0)
    return min(basic, found + ledger.slack)


def _gaussian_epsilon(mu, delta):
    """Epsilon of mu-GDP at `delta`: the inverse of gaussian_mu, by bisection.

    The upper end of the last bracket is returned, so that the curve is never
    claimed to be lower than it is.
    """
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    low, high = 0.0, mu * mu / 2 + mu
    while gaussian_mu(high, delta) < mu:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if gaussian_mu(middle, delta) < mu:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=4096)
def _pure_epsilon(event):
    if isinstance(event, PureDpEvent):
        return event.epsilon
    if isinstance(event, dp_event.LaplaceDpEvent):
        _refuse_negative(event.noise_multiplier)
        return 1 / event.noise_multiplier if event.noise_multiplier else math.inf
    if isinstance(event, dp_event.DiscreteLaplaceDpEvent):
        _refuse_negative(event.noise_parameter, event.sensitivity)
        return event.noise_parameter * event.sensitivity
    columns = list(zip(*event.weights, strict=True))
    if any(0 in column and any(column) for column in columns):
        return math.inf
    # The ratio is exact; the logarithm is rounded up by more than its own error.
    ratio = max(Fraction(max(c), min(c)) for c in columns if any(c))
    return math.log(ratio) * (1 + 4e-16) + 4e-16 if ratio < 2**1000 else math.inf


def _hockey_stick(event, epsilon):
    """Supremum over neighbours of the hockey-stick divergence, at an array of epsilons.

    The epsilons may be negative. The supremum over ordered pairs is itself the
    curve of a dominating pair (Zhu, Dong and Wang 2022, Proposition 8).
    """
    epsilon = np.asarray(epsilon, dtype=float)
    bound = _pure_epsilon(event)
    inside = np.clip(epsilon, -bound, bound)
    if isinstance(event, PureDpEvent):
        delta = -np.expm1(inside - bound) / (1 + np.exp(-bound))
    elif isinstance(event, dp_event.LaplaceDpEvent):
        delta = -np.expm1((inside - bound) / 2)
    elif isinstance(event, dp_event.DiscreteLaplaceDpEvent):
        delta = _discrete_laplace_stick(event, inside)
    else:
        delta = _table_stick(event, inside)
    delta = np.where(epsilon < -bound, -np.expm1(np.minimum(epsilon, 0)), delta)
    return np.clip(np.where(epsilon >= bound, 0.0, delta), 0.0, 1.0)


def _discrete_laplace_stick(event, epsilon):
    """Two discrete Laplace laws of rate a, K apart: include n while loss > epsilon.

    The loss at n is a K for n <= 0, falls by 2a a step, and is -a K from K on.
    """
    rate, shift = event.noise_parameter, event.sensitivity
    last = np.ceil((shift - epsilon / rate) / 2) - 1
    last = np.clip(last, 0, max(shift - 1, 0))
    outside = np.exp(-rate * (last + 1)) + np.exp(epsilon - rate * (shift - last))
    return 1 - outside / (1 + np.exp(-rate))


def _table_stick(event, epsilon):
    rows = np.array(event.weights, dtype=float)
    rows /= rows.sum(axis=1, keepdims=True)
    factor = np.exp(epsilon)[:, np.newaxis]
    delta = np.zeros_like(epsilon)
    for upper in rows:
        for lower in rows:
            if upper is not lower:
                excess = np.maximum(upper - factor * lower, 0).sum(axis=1)
                np.maximum(delta, excess, out=delta)
    return delta


@lru_cache(maxsize=64)
def _composed_pld(pure, mu):
    """PLD of the composition of pure events (with their counts) and Gaussian noise."""
    interval = _pld_interval(pure, mu)
    composed = None
    for event, count in sorted(pure, key=repr):
        cells = math.ceil(_pure_epsilon(event) / interval)
        grid = np.arange(-cells, cells + 1)
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
            interval, -cells, cells, _hockey_stick(event, grid * interval)
        )
        part = privacy_loss_distribution.PrivacyLossDistribution(pmf)
        if count > 1:
            part = part.self_compose(count)
        composed = part if composed is None else composed.compose(part)
    if mu:
        part = privacy_loss_distribution.from_gaussian_mechanism(
            standard_deviation=1 / mu,
            value_discretization_interval=interval,
        )
        composed = composed.compose(part)
    return composed


def _pld_interval(pure, mu):
    """Step of the grid of losses: fine against the spread of the composed loss."""
    epsilons = [(n, _pure_epsilon(event)) for event, n in pure]
    gaussian = mu * mu / 2 + 12 * mu
    largest = sum(n * e for n, e in epsilons)
    drift = sum(n * e * math.tanh(e / 2) for n, e in epsilons)
    spread = 12 * math.sqrt(sum(n * e * e for n, e in epsilons))
    return max(gaussian + min(largest, drift + spread), 1e-6) / _PLD_CELLS
