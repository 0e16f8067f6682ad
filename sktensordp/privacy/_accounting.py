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
from functools import lru_cache

import numpy as np
from dp_accounting import dp_event
from dp_accounting.pld import pld_pmf, privacy_loss_distribution

from ._events import PureDpEvent, SamplerResidualDpEvent, TableDpEvent
from ._gaussian import gaussian_delta, gaussian_mu

__all__ = ["compose_events", "event_delta", "event_epsilon"]

# Added to every delta that comes out of a PLD, to cover the rounding of its FFTs.
_PLD_SLACK = 1e-12
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
    e1, d1 = ledger.residual_epsilon, ledger.residual_delta
    if e1 == d1 == 0:
        return ideal
    # e^e1 delta(eps) + d1 (1 + e^(eps + e1)) = delta, solved from below: each step
    # asks the ideal curve for what the sampler's residual leaves of delta.
    for _ in range(200):
        if math.isinf(ideal) or ideal > 690:
            return math.inf
        rest = (delta - d1 * (1 + math.exp(ideal + e1))) * math.exp(-e1)
        if rest < 0:
            return math.inf
        following = _ideal_epsilon(ledger, rest)
        if following <= ideal * (1 + 1e-12):
            return max(ideal, following) + 2 * e1
        ideal = following
    return math.inf


def event_delta(event, epsilon):
    """Smallest delta known to hold at `epsilon` >= 0."""
    ledger = _read(event)
    if not ledger.private:
        return 1.0
    e1, d1 = ledger.residual_epsilon, ledger.residual_delta
    if e1 == d1 == 0:
        return _ideal_delta(ledger, epsilon)
    if epsilon < 2 * e1:
        return 1.0
    # P <= e^e1 Q + d1 on both sides of Q's (epsilon - 2 e1, delta).
    ideal = _ideal_delta(ledger, epsilon - 2 * e1)
    return min(1.0, math.exp(e1) * ideal + d1 * (1 + math.exp(min(epsilon - e1, 709))))


@dataclass
class _Ledger:
    """The leaves of an event, sorted by how they compose."""

    pure: Counter = field(default_factory=Counter)
    mu_squared: float = 0.0
    residual_epsilon: float = 0.0
    residual_delta: float = 0.0
    private: bool = True

    @property
    def pure_epsilon(self):
        return math.fsum(n * _pure_epsilon(event) for event, n in self.pure.items())


def _read(event):
    ledger = _Ledger()
    _add(ledger, event, 1)
    return ledger


def _add(ledger, event, count):
    if count == 0 or isinstance(event, dp_event.NoOpDpEvent):
        return
    if isinstance(event, dp_event.ComposedDpEvent):
        for part in event.events:
            _add(ledger, part, count)
    elif isinstance(event, dp_event.SelfComposedDpEvent):
        _add(ledger, event.event, count * event.count)
    elif isinstance(event, dp_event.NonPrivateDpEvent):
        ledger.private = False
    elif isinstance(event, dp_event.GaussianDpEvent):
        if event.noise_multiplier == 0:
            ledger.private = False
        else:
            ledger.mu_squared += count / event.noise_multiplier**2
    elif isinstance(event, SamplerResidualDpEvent):
        ledger.residual_epsilon += count * event.epsilon
        ledger.residual_delta += count * event.delta
    elif isinstance(event, _PURE_EVENTS):
        if math.isinf(_pure_epsilon(event)):
            ledger.private = False
        else:
            ledger.pure[event] += count
    else:
        raise NotImplementedError(
            f"There is no privacy accounting for events of type {type(event).__name__}."
        )


def _ideal_epsilon(ledger, delta):
    """Epsilon at `delta` of the composition without its samplers' residuals."""
    pure, mu = ledger.pure_epsilon, math.sqrt(ledger.mu_squared)
    if mu == 0 and (delta == 0 or not ledger.pure):
        return pure
    if delta == 0:
        return math.inf
    basic = pure + (_gaussian_epsilon(mu, delta) if mu else 0.0)
    if not ledger.pure or delta <= _PLD_SLACK:
        return basic
    composed = _composed_pld(frozenset(ledger.pure.items()), ledger.mu_squared)
    return min(basic, float(composed.get_epsilon_for_delta(delta - _PLD_SLACK)))


def _ideal_delta(ledger, epsilon):
    """Delta at `epsilon` of the composition without its samplers' residuals."""
    pure, mu = ledger.pure_epsilon, math.sqrt(ledger.mu_squared)
    if mu == 0 and epsilon >= pure:
        return 0.0
    if not ledger.pure:
        return gaussian_delta(epsilon, mu)
    basic = gaussian_delta(epsilon - pure, mu) if mu and epsilon >= pure else 1.0
    if mu == 0 and sum(ledger.pure.values()) == 1:
        (event,) = ledger.pure
        return float(_hockey_stick(event, np.array([epsilon]))[0])
    if basic <= _PLD_SLACK:
        return basic
    composed = _composed_pld(frozenset(ledger.pure.items()), ledger.mu_squared)
    return min(basic, float(composed.get_delta_for_epsilon(epsilon)) + _PLD_SLACK)


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
        return 1 / event.noise_multiplier if event.noise_multiplier else math.inf
    if isinstance(event, dp_event.DiscreteLaplaceDpEvent):
        return event.noise_parameter * event.sensitivity
    columns = list(zip(*event.weights, strict=True))
    if any(0 in column and any(column) for column in columns):
        return math.inf
    # The ratio is exact; the logarithm is rounded up by more than its own error.
    ratios = (max(column) / min(column) for column in columns if any(column))
    return math.log(max(ratios)) * (1 + 4e-16) + 4e-16


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
def _composed_pld(pure, mu_squared):
    """PLD of the composition of pure events (with their counts) and Gaussian noise."""
    interval = _pld_interval(pure, mu_squared)
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
    if mu_squared:
        part = privacy_loss_distribution.from_gaussian_mechanism(
            standard_deviation=1 / math.sqrt(mu_squared),
            value_discretization_interval=interval,
        )
        composed = composed.compose(part)
    return composed


def _pld_interval(pure, mu_squared):
    """Step of the grid of losses: fine against the spread of the composed loss."""
    epsilons = [(n, _pure_epsilon(event)) for event, n in pure]
    drift = mu_squared / 2 + sum(n * e * math.tanh(e / 2) for n, e in epsilons)
    spread = 12 * math.sqrt(mu_squared + sum(n * e * e for n, e in epsilons))
    reach = min(
        drift + spread,
        sum(n * e for n, e in epsilons) + mu_squared / 2 + 12 * math.sqrt(mu_squared),
    )
    return max(reach, 1e-6) / _PLD_CELLS
