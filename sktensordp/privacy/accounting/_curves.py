"""What a composition of events guarantees.

Three regimes, decided by the events alone:

- pure events at delta = 0: their epsilons add up;
- Gaussian events: mu-GDP composes in closed form, mu^2 = sum mu_i^2;
- one release of random projections, or one private choice: its own curve;
- releases about disjoint parts of the data: the worst of the parts;
- where a release shows everything with some probability, that probability is a delta;
- everything else: one privacy-loss distribution (PLD) per kind of event, built from
  that event's own dominating pair, and then composed by dp-accounting. No
  neighbouring relation is passed through: an event stands for one comparison of
  two inputs, whose sensitivity the mechanism has put into it.

A PLD carries an absolute rounding error near 1e-15 a convolution and cannot see a
tiny delta. Where basic composition (pure epsilons summed, plus the closed Gaussian
curve) or the optimal composition of pure releases is the smaller upper bound, it is
the answer.

An event is read into ledgers. Where releases were about disjoint parts of the data
there are several, one for every part that a record may be in; what holds for each of
them holds for the event. Reading and evaluating call one another: a private choice
among releases is read by the curve of one of them.
"""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from dp_accounting import DpEvent, dp_event
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy.optimize import minimize_scalar

from ._composition import Composition, mu_of_both
from ._events import (
    ParallelDpEvent,
    ProjectionDpEvent,
    PureDpEvent,
    RandomizedResponseDpEvent,
    RevealingDpEvent,
    SamplerResidualDpEvent,
    SelectionDpEvent,
    TableDpEvent,
)
from ._gaussian import gaussian_delta_above, gaussian_epsilon
from ._pld import (
    PURE_EVENTS,
    composed_pld,
    hockey_stick,
    pure_epsilon,
    refuse_negative,
)
from ._projections import ProjectionCurve
from ._randomized_response import optimal_composition_delta
from ._selection import SelectionCurve

__all__ = [
    "compose_events",
    "curve_of",
    "event_delta",
    "event_epsilon",
    "read",
    "selection_residual",
]

# Releases about disjoint parts of the data, and how often they happened.
_Parallel = list[tuple[ParallelDpEvent, int]]

# The optimal composition is a sum over as many terms as there are releases.
_MOST_TERMS = 2**17
# Beyond the largest nothing is protected; below the smallest mu is taken to be it.
_LARGEST_MU, _SMALLEST_MU = 1e6, 1e-150
# Where a record may be in so many combinations of parts, they are taken together.
_MOST_LEDGERS = 16


def compose_events(events: Iterable[DpEvent]) -> DpEvent:
    """One event for several adaptive releases about the same data."""
    return dp_event.ComposedDpEvent(events=tuple(events))


def event_epsilon(event: DpEvent, delta: float) -> float:
    """Smallest epsilon known to hold at `delta`; infinity where there is none."""
    return max(_epsilon_at(composition, delta) for composition in read(event))


def _epsilon_at(composition: Composition, delta: float) -> float:
    left = (
        (delta - composition.revealed) / composition.hidden
        if composition.private
        else -1
    )
    return _epsilon(composition, left) if left >= 0 else math.inf


@lru_cache(maxsize=256)
def _epsilon(composition: Composition, delta: float) -> float:
    if not composition.private:
        return math.inf
    ideal = _ideal_epsilon(composition, delta)
    if math.isinf(ideal) or not composition.has_residual:
        return ideal
    # The curve of the sampler falls to a minimum a little to the right of the ideal
    # one, and then rises: look for its first passage through delta.
    low = ideal + 2 * composition.residual_epsilon
    if _sampler_delta(composition, low) <= delta:
        return low
    for high in low + max(low, 1.0) * np.geomspace(1e-12, 4.0, 130):
        if _sampler_delta(composition, high) <= delta:
            break
        low = high
    else:
        return math.inf
    while high - low > 1e-13 * high + 1e-15:
        middle = (low + high) / 2
        if _sampler_delta(composition, middle) <= delta:
            high = middle
        else:
            low = middle
    return float(high)


def event_delta(event: DpEvent, epsilon: float) -> float:
    """Smallest delta known to hold at `epsilon` >= 0."""
    return max(_delta_at(composition, epsilon) for composition in read(event))


def _delta_at(composition: Composition, epsilon: float) -> float:
    if not composition.private:
        return 1.0
    return min(
        1.0, composition.revealed + composition.hidden * _delta(composition, epsilon)
    )


def _delta(composition: Composition, epsilon: float) -> float:
    """Delta at `epsilon` where nothing is shown outright."""
    if not composition.has_residual:
        return _ideal_delta(composition, epsilon)
    start = 2 * composition.residual_epsilon
    if epsilon < start:
        # (a, d)-DP is also (epsilon, d + e^a - e^epsilon)-DP for epsilon < a.
        growth = math.exp(epsilon) * math.expm1(start - epsilon)
        return min(1.0, _sampler_delta(composition, start) + growth)
    if composition.residual_delta:
        # The curve falls and then rises; from its minimum on, the minimum holds.
        epsilon = min(epsilon, _lowest(composition, start))
    return _sampler_delta(composition, epsilon)


@lru_cache(maxsize=256)
def _lowest(composition: Composition, start: float) -> float:
    """Epsilon at which the delta of a sampler is least, about."""
    end = max(start, -math.log(min(composition.residual_delta, 1.0))) + 1
    return float(
        minimize_scalar(
            lambda e: math.log(_sampler_delta(composition, e)),
            bounds=(start, end), method="bounded", options={"xatol": 1e-4},
        ).x
    )  # fmt: skip


def _sampler_delta(composition: Composition, epsilon: float) -> float:
    """Delta at `epsilon` >= 2 e1 by the triangle of sampler, ideal law and sampler.

    P <= e^e1 Q + d1 on both sides of Q's (epsilon - 2 e1, delta).
    """
    e1, d1 = composition.residual_epsilon, composition.residual_delta
    ideal = _ideal_delta(composition, max(epsilon - 2 * e1, 0.0))
    if d1 == 0:
        return min(1.0, math.exp(min(e1, 700.0)) * ideal)
    if max(e1, epsilon - e1) > 700:
        return 1.0
    return min(1.0, math.exp(e1) * ideal + d1 * (1 + math.exp(epsilon - e1)))


def _ideal_epsilon(composition: Composition, delta: float) -> float:
    """Epsilon at `delta` of the composition without its samplers' residuals."""
    pure, mu = composition.pure_epsilon, composition.whole_mu
    if composition.closed_form and mu == 0 and (delta == 0 or not composition.pure):
        return pure
    if delta == 0:
        return math.inf
    basic = _sum_above(pure, gaussian_epsilon(mu, delta) if mu else 0.0)
    if composition.closed_form and mu == 0:
        basic = _optimal_epsilon(composition, delta)
        if composition.pure.total() == 1:
            return basic
    if composition.curves:
        if pure == mu == 0 and composition.curves.total() == 1:
            (event,) = composition.curves
            return _curve_epsilon(event, delta)
        share = delta / (composition.curves.total() + 1)
        basic = _sum_above(pure, gaussian_epsilon(mu, share) if mu else 0.0)
        for event, n in composition.curves.items():
            basic = _sum_above(basic, n * _curve_epsilon(event, share))
    if delta <= composition.slack or (composition.closed_form and not composition.pure):
        return basic
    composed = _composed_pld(composition)
    if composed is None:
        return basic
    return min(basic, float(composed.get_epsilon_for_delta(delta - composition.slack)))


def _ideal_delta(composition: Composition, epsilon: float) -> float:
    """Delta at `epsilon` of the composition without its samplers' residuals."""
    pure, mu = composition.pure_epsilon, composition.whole_mu
    if composition.closed_form:
        if mu == 0 and (epsilon >= pure or composition.pure.total() == 1):
            return _optimal_delta(composition, epsilon)
        if not composition.pure:
            return gaussian_delta_above(epsilon, mu)
    basic = gaussian_delta_above(epsilon - pure, mu) if mu and epsilon >= pure else 1.0
    if composition.closed_form and mu == 0:
        basic = _optimal_delta(composition, epsilon)
    if composition.curves:
        if pure == mu == 0 and composition.curves.total() == 1:
            (event,) = composition.curves
            return _curve_above(event)(epsilon)
        basic = 1.0
    if basic <= composition.slack:
        return basic
    composed = _composed_pld(composition)
    if composed is None:
        return basic
    found = max(float(composed.get_delta_for_epsilon(epsilon)), 0.0)
    return min(basic, found + composition.slack)


def _optimal_delta(composition: Composition, epsilon: float) -> float:
    """Delta at `epsilon` of pure releases: of one exactly, of more by the theorem."""
    n_releases = composition.pure.total()
    if epsilon >= composition.pure_epsilon:
        return 0.0
    if n_releases == 1:
        (event,) = composition.pure
        found = float(hockey_stick(event, np.array([epsilon]))[0])
        return min(1.0, _stick_above(event, found, epsilon))
    if n_releases > _MOST_TERMS:
        return 1.0
    largest = max(pure_epsilon(event) for event in composition.pure)
    return optimal_composition_delta(largest, n_releases, epsilon)


def _stick_above(event: DpEvent, found: float, epsilon: float) -> float:
    """A divergence of one release, rounded up by more than it may have lost."""
    lost = 0.0
    if isinstance(event, RandomizedResponseDpEvent):
        lost = 1e-15 * (event.distribution.n_levels + epsilon + 8)
    elif isinstance(event, TableDpEvent):
        lost = 1e-15 * (len(event.weights[0]) + epsilon + 8)
    elif isinstance(event, dp_event.DiscreteLaplaceDpEvent):
        lost = 1e-15 * (epsilon + 8)
    return found * (1 + 1e-14) + lost + 5e-324


def _sum_above(one: float, other: float) -> float:
    return math.nextafter(one + other, math.inf) if one and other else one + other


def _optimal_epsilon(composition: Composition, delta: float) -> float:
    """Inverse of that in `epsilon`, from above."""
    low, high = 0.0, composition.pure_epsilon
    if _optimal_delta(composition, low) <= delta:
        return low
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if _optimal_delta(composition, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def _curve_above(event: DpEvent) -> Callable[[float], float]:
    """The curve of one release, rounded up by more than its own errors."""
    curve = curve_of(event).delta
    return lambda epsilon: min(1.0, float(curve(epsilon)) * (1 + 2e-12) + 5e-324)


def _curve_epsilon(event: DpEvent, delta: float) -> float:
    """Inverse of the curve of one release, by bisection from above."""
    curve = _curve_above(event)
    if curve(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while curve(high) > delta:
        low, high = high, 2 * high
        if high > 1e12:
            return math.inf
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if curve(middle) > delta:
            low = middle
        else:
            high = middle
    return high


def _composed_pld(composition: Composition) -> PrivacyLossDistribution | None:
    """PLD of the composition of all that is not a residual; None if it is too wide."""
    curves = sorted(composition.curves.items(), key=repr)
    return composed_pld(
        frozenset(composition.pure.items()),
        frozenset(composition.sampled.items()),
        tuple((curve_of(event), count) for event, count in curves),
        composition.mu,
    )


def read(event: DpEvent) -> tuple[Composition, ...]:
    """Ledgers of an event.

    Parameters
    ----------
    event : DpEvent

    Returns
    -------
    ledgers : tuple of Composition
        One for every combination of parts that a record may be in, but those that
        another one covers.

    Raises
    ------
    NotImplementedError
        For an event that is not known.
    """
    compositions = tuple(_read(event, 1))
    for composition in compositions:
        if composition.whole_mu > _LARGEST_MU or composition.revealed == 1:
            composition.private = False
    return compositions


def _read(event: DpEvent, count: int) -> list[Composition]:
    composition = Composition()
    parallel: _Parallel = []
    _add(composition, parallel, event, count)
    found = [composition]
    for blocks, times in parallel:
        parts = [one for part in blocks.events for one in _read(part, 1)]
        found = _combined(found, _repeated(_undominated(parts), times))
    return found


def _combined(
    compositions: list[Composition], others: list[Composition]
) -> list[Composition]:
    """Ledgers in which one of each has happened."""
    return _few([one + other for one in compositions for other in others])


def _repeated(compositions: list[Composition], times: int) -> list[Composition]:
    """Ledgers of so many releases, each about any of the parts."""
    found, power = [Composition()], compositions
    while times:
        if times % 2:
            found = _combined(found, power)
        times //= 2
        if times:
            power = _combined(power, power)
    return found


def _few(compositions: list[Composition]) -> list[Composition]:
    """The same, or one in place of too many."""
    found = _undominated(compositions)
    if len(found) <= _MOST_LEDGERS:
        return found
    together = found[0]
    for one in found[1:]:
        together = together | one
    return [together]


def _undominated(compositions: list[Composition]) -> list[Composition]:
    kept: list[Composition] = []
    for one in compositions:
        if not any(other.covers(one) for other in kept):
            kept = [other for other in kept if not one.covers(other)] + [one]
    return kept


def _add(
    composition: Composition, parallel: _Parallel, event: DpEvent, count: int
) -> None:
    if count == 0 or isinstance(event, dp_event.NoOpDpEvent):
        return
    if isinstance(event, dp_event.ComposedDpEvent):
        for part in event.events:
            _add(composition, parallel, part, count)
    elif isinstance(event, dp_event.SelfComposedDpEvent):
        refuse_negative(event.count)
        _add(composition, parallel, event.event, count * event.count)
    elif isinstance(event, ParallelDpEvent):
        parallel.append((event, count))
    elif isinstance(event, dp_event.NonPrivateDpEvent):
        composition.private = False
    elif isinstance(event, dp_event.GaussianDpEvent):
        refuse_negative(event.noise_multiplier)
        if event.noise_multiplier == 0:
            composition.private = False
        elif not math.isinf(event.noise_multiplier):
            mu = max(math.sqrt(count) / event.noise_multiplier, _SMALLEST_MU)
            composition.mu = mu_of_both(composition.mu, mu)
    elif isinstance(event, dp_event.PoissonSampledDpEvent):
        _add_sampled(composition, parallel, event, count)
    elif isinstance(event, SelectionDpEvent):
        _add_selection(composition, event, count)
    elif isinstance(event, ProjectionDpEvent):
        composition.curves[event] += count
    elif isinstance(event, RevealingDpEvent):
        if event.probability == 1:
            composition.private = False
        else:
            composition.log_hidden += count * math.log1p(-event.probability)
            _add(composition, parallel, event.event, count)
    elif isinstance(event, SamplerResidualDpEvent):
        composition.residual_epsilon += count * event.epsilon
        composition.residual_delta += count * event.delta
    elif isinstance(event, PURE_EVENTS):
        epsilon = pure_epsilon(event)
        if math.isinf(epsilon):
            composition.private = False
        elif epsilon > 0:
            composition.pure[event] += count
    else:
        raise NotImplementedError(
            f"There is no privacy accounting for events of type {type(event).__name__}."
        )


def _add_sampled(
    composition: Composition, parallel: _Parallel, event: DpEvent, count: int
) -> None:
    """A release about a Poisson sample; neighbours add or remove one record.

    Whatever is close for every sample is close on average, so that a residual stays
    what it is. A pure epsilon becomes ln(1 + q (e^epsilon - 1)). Where Gaussian and
    pure noise are about one sample, both tell whether a record is in it, and their
    amplified laws do not compose as if they were apart: they are not amplified. Nor
    are releases that show everything with some probability, or about parts.
    """
    rate = event.sampling_probability
    if not 0 <= rate <= 1:
        raise ValueError(f"A sampling probability is in [0, 1], got {rate}.")
    if rate == 0:
        return
    inner, *others = read(event.event)
    if rate < 1 and not all(one.closed_form for one in (inner, *others)):
        raise NotImplementedError(
            "There is no privacy accounting for samples of samples, of projections or "
            "of private choices."
        )
    both = inner.mu and inner.pure
    if rate == 1 or others or not inner.private or both or inner.revealed:
        _add(composition, parallel, event.event, count)
        return
    composition.residual_epsilon += count * inner.residual_epsilon
    composition.residual_delta += count * inner.residual_delta
    if inner.mu:
        composition.sampled[rate, inner.mu] += count
    if inner.pure:
        epsilon = inner.pure_epsilon
        if epsilon < 700:
            amplified = math.log1p(rate * math.expm1(epsilon))
        else:
            amplified = np.logaddexp(math.log1p(-rate), math.log(rate) + epsilon)
        amplified = math.nextafter(float(amplified) * (1 + 1e-12), math.inf)
        amplified = min(amplified, epsilon)
        composition.pure[PureDpEvent(amplified)] += count


def _add_selection(
    composition: Composition, event: SelectionDpEvent, count: int
) -> None:
    """The best of releases that are pure is pure: what it shows of which is a shift."""
    curve = curve_of(event)
    if not curve.protects:
        composition.private = False
        return
    epsilon = event_epsilon(event.event, 0.0) + curve.shift
    if math.isfinite(epsilon):
        composition.pure[PureDpEvent(epsilon)] += count
    else:
        composition.curves[event] += count


@lru_cache(maxsize=64)
def curve_of(event: DpEvent) -> Any:
    """The curve of a release that is known by it, its costly parts computed once."""
    if isinstance(event, ProjectionDpEvent):
        return ProjectionCurve(event.n_projections, event.tau)
    one = event.event
    return SelectionCurve(
        event.distribution, partial(event_epsilon, one), partial(event_delta, one)
    )


def selection_residual(event: DpEvent, count: int) -> tuple[float, float]:
    """What so many private choices are away from those of ideal laws.

    The sampler of one try and its ideal law are neighbours of a kind, whose curve is
    the residual delta at the residual epsilon: the choice keeps them as close as it
    keeps those of data. Nothing for other events.
    """
    if not isinstance(event, SelectionDpEvent):
        return 0.0, 0.0
    found = [(one.residual_epsilon, one.residual_delta) for one in read(event.event)]
    e1, d1 = (max(values) for values in zip(*found, strict=True))
    distribution = event.distribution
    if distribution.eta is None:
        shift = distribution.rate * (math.expm1(min(e1, 700.0)) + d1)
    else:
        lost = distribution.rate / (1 - distribution.rate) * d1
        shift = (1 + distribution.eta) * (e1 + math.log1p(lost * math.exp(-e1)))
    return count * (e1 + shift), count * distribution.mean * d1
