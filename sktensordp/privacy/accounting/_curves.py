"""The epsilon and the delta of an event: of one release, or of several composed.

The events alone decide how they compose:

- pure events at delta = 0: their epsilons add up;
- Gaussian events: mu-GDP composes in closed form, mu^2 = sum mu_i^2;
- one private choice or one shuffled set of messages: its own curve;
- releases about disjoint parts of the data: the worst of the parts;
- a release that reveals everything with some probability: that probability is a delta;
- several units at once: each release as the group sees it, by
  `Composition.for_group`;
- everything else: one privacy-loss distribution (PLD) per kind of event, built from
  that event's own dominating pair, and then composed by dp-accounting. No
  neighbouring relation is passed to dp-accounting: an event stands for one comparison
  of two inputs, and the mechanism has put the sensitivity into it.

A PLD has an absolute rounding error near 1e-15 per convolution and cannot resolve a
tiny delta. The answer is the smallest of its bound, of basic composition (the sum of
pure epsilons, plus the closed Gaussian curve), of the optimal composition of pure
releases and, where there are no curves, of the bound by Rényi divergences.

`compositions_of` turns an event into compositions: one, or, for releases about disjoint
parts of the data, one for every part that a record may be in. What holds for each of
them holds for the event. A private choice among releases needs the curve of one
release, so turning events into compositions and evaluating these call each other.
"""

import math
import operator
from collections.abc import Callable, Iterable
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np
from dp_accounting import DpEvent, dp_event
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy.optimize import minimize_scalar

from ._bisection import first_where
from ._composition import Composition, composed_mu
from ._events import (
    GroupDpEvent,
    ParallelDpEvent,
    PureDpEvent,
    RandomizedResponseDpEvent,
    RevealingDpEvent,
    SamplerResidualDpEvent,
    SelectionDpEvent,
    ShuffledDpEvent,
    TableDpEvent,
)
from ._gaussian import gaussian_delta_above, gaussian_epsilon
from ._group_curve import GroupCurve
from ._pld import (
    PURE_EVENTS,
    composed_pld,
    hockey_stick,
    pure_epsilon,
    refuse_negative,
)
from ._randomized_response import optimal_composition_delta
from ._renyi_bound import renyi_delta, renyi_epsilon
from ._selection import SelectionCurve
from ._shuffling import MOST_SHUFFLED, ShuffledCurve, blanket_pairs

# Releases about disjoint parts of the data, and how often they were made.
_ParallelReleases = list[tuple[ParallelDpEvent, int]]

# The optimal composition is a sum with a term for each release.
_MAX_TERMS = 2**17
# Above the largest mu nothing counts as protected; below the smallest, mu is raised.
_LARGEST_MU, _SMALLEST_MU = 1e6, 1e-150
# Floats may not hold larger numbers of releases or units exactly.
_LARGEST_COUNT = 2**53
# If a record may be in more combinations of parts, one composition bounds them all.
_MAX_COMPOSITIONS = 16


def compose_events(events: Iterable[DpEvent]) -> DpEvent:
    """One event for several adaptive releases about the same data."""
    return dp_event.ComposedDpEvent(events=tuple(events))


def event_epsilon(event: DpEvent, delta: float) -> float:
    """Smallest epsilon known to hold at `delta`; infinite if none is known."""
    return max(
        _composition_epsilon(composition, delta)
        for composition in compositions_of(event)
    )


def _composition_epsilon(composition: Composition, delta: float) -> float:
    left = (
        (delta - composition.reveal_delta) / composition.hidden_probability
        if composition.private
        else -1
    )
    return _hidden_epsilon(composition, left) if left >= 0 else math.inf


@lru_cache(maxsize=256)
def _hidden_epsilon(composition: Composition, delta: float) -> float:
    """Epsilon at `delta` if no release reveals everything."""
    if not composition.private:
        return math.inf
    ideal = _ideal_epsilon(composition, delta)
    if math.isinf(ideal) or not composition.has_residual:
        return ideal
    # The curve of the sampler falls to a minimum, a little to the right of the ideal
    # curve, and then rises. Find where it first reaches delta.
    low = ideal + 2 * composition.residual_epsilon
    if _sampler_delta(composition, low) <= delta:
        return low
    for high in low + max(low, 1.0) * np.geomspace(1e-12, 4.0, 130):
        if _sampler_delta(composition, high) <= delta:
            break
        low = high
    else:
        return math.inf
    return first_where(
        lambda e: _sampler_delta(composition, e) <= delta, low, high, absolute=1e-15
    )


def event_delta(event: DpEvent, epsilon: float) -> float:
    """Smallest delta known to hold at `epsilon` >= 0."""
    return max(
        _composition_delta(composition, epsilon)
        for composition in compositions_of(event)
    )


def _composition_delta(composition: Composition, epsilon: float) -> float:
    if not composition.private:
        return 1.0
    return min(
        1.0,
        composition.reveal_delta
        + composition.hidden_probability * _hidden_delta(composition, epsilon),
    )


def _hidden_delta(composition: Composition, epsilon: float) -> float:
    """Delta at `epsilon` if no release reveals everything."""
    if not composition.has_residual:
        return _ideal_delta(composition, epsilon)
    start = 2 * composition.residual_epsilon
    if start > 700:
        return 1.0
    if epsilon < start:
        # (a, d)-DP is also (epsilon, d + e^a - e^epsilon)-DP for epsilon < a.
        growth = math.exp(epsilon) * math.expm1(start - epsilon)
        return min(1.0, _sampler_delta(composition, start) + growth)
    if composition.residual_delta:
        # The curve falls and then rises; beyond its minimum, the minimum still holds.
        epsilon = min(epsilon, _epsilon_of_least_delta(composition, start))
    return _sampler_delta(composition, epsilon)


@lru_cache(maxsize=256)
def _epsilon_of_least_delta(composition: Composition, start: float) -> float:
    """Epsilon at which the delta of the samplers is smallest, approximately."""
    end = max(start, -math.log(min(composition.residual_delta, 1.0))) + 1
    return float(
        minimize_scalar(
            lambda e: math.log(_sampler_delta(composition, e)),
            bounds=(start, end),
            method="bounded",
            options={"xatol": 1e-4},
        ).x
    )


def _sampler_delta(composition: Composition, epsilon: float) -> float:
    """Delta of the samplers at `epsilon` >= 2 e1.

    The ideal distributions Q of two neighbours satisfy (epsilon - 2 e1, delta). On
    either side, the sampler's P differs from Q by at most (e1, d1).
    """
    e1, d1 = composition.residual_epsilon, composition.residual_delta
    ideal = _ideal_delta(composition, max(epsilon - 2 * e1, 0.0))
    if d1 == 0:
        return min(1.0, math.exp(min(e1, 700.0)) * ideal)
    if max(e1, epsilon - e1) > 700:
        return 1.0
    return min(1.0, math.exp(e1) * ideal + d1 * (1 + math.exp(epsilon - e1)))


def _ideal_epsilon(composition: Composition, delta: float) -> float:
    """Epsilon at `delta` of the ideal distributions, without residuals."""
    pure, mu = composition.pure_epsilon, composition.unsampled_mu
    if composition.closed_form and mu == 0 and (delta == 0 or not composition.pure):
        return pure
    if delta == 0:
        return _pure_epsilon(composition)
    basic = _sum_rounded_up(pure, gaussian_epsilon(mu, delta) if mu else 0.0)
    if composition.closed_form and mu == 0:
        basic = _optimal_epsilon(composition, delta)
        if composition.pure.total() == 1:
            return basic
    if composition.curves:
        if pure == mu == 0 and composition.curves.total() == 1:
            (event,) = composition.curves
            return _curve_epsilon(event, delta)
        share = delta / (composition.curves.total() + 1)
        basic = _sum_rounded_up(pure, gaussian_epsilon(mu, share) if mu else 0.0)
        for event, n in composition.curves.items():
            basic = _sum_rounded_up(basic, n * _curve_epsilon(event, share))
    if composition.closed_form and not composition.pure:
        return basic
    if mu and not composition.curves:
        basic = min(basic, renyi_epsilon(composition, delta))
    composed = _composed_pld(composition) if delta > composition.slack else None
    if composed is None:
        return basic
    return min(basic, float(composed.get_epsilon_for_delta(delta - composition.slack)))


def _pure_epsilon(composition: Composition) -> float:
    """Epsilon at delta = 0; infinite if there is noise with unbounded losses."""
    if composition.unsampled_mu:
        return math.inf
    total = composition.pure_epsilon
    for event, n in composition.curves.items():
        is_shuffled = isinstance(event, ShuffledDpEvent)
        pure = curve_of(event).pure_epsilon if is_shuffled else math.inf
        total = _sum_rounded_up(total, n * pure)
    return total


def _ideal_delta(composition: Composition, epsilon: float) -> float:
    """Delta at `epsilon` of the ideal distributions, without residuals."""
    pure, mu = composition.pure_epsilon, composition.unsampled_mu
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
            return _curve_rounded_up(event)(epsilon)
        basic = 1.0
    elif mu:
        basic = min(basic, renyi_delta(composition, epsilon))
    if basic <= composition.slack:
        return basic
    composed = _composed_pld(composition)
    if composed is None:
        return basic
    delta = max(float(composed.get_delta_for_epsilon(epsilon)), 0.0)
    return min(basic, delta + composition.slack)


def _optimal_delta(composition: Composition, epsilon: float) -> float:
    """Delta at `epsilon` of pure releases.

    Exact for one release. For several it is that of the optimal composition, as if all
    of them had the largest pure epsilon.
    """
    n_releases = composition.pure.total()
    if epsilon >= composition.pure_epsilon:
        return 0.0
    if n_releases == 1:
        (event,) = composition.pure
        divergence = float(hockey_stick(event, np.array([epsilon]))[0])
        return min(1.0, _divergence_rounded_up(event, divergence, epsilon))
    if n_releases > _MAX_TERMS:
        return 1.0
    largest = max(pure_epsilon(event) for event in composition.pure)
    return optimal_composition_delta(largest, n_releases, epsilon)


def _divergence_rounded_up(event: DpEvent, divergence: float, epsilon: float) -> float:
    """The divergence of one release, rounded up by more than its rounding errors."""
    error = 0.0
    if isinstance(event, RandomizedResponseDpEvent):
        error = 1e-15 * (event.distribution.n_levels + epsilon + 8)
    elif isinstance(event, TableDpEvent):
        error = 1e-15 * (len(event.weights[0]) + epsilon + 8)
    elif isinstance(event, dp_event.DiscreteLaplaceDpEvent):
        error = 1e-15 * (epsilon + 8)
    return divergence * (1 + 1e-14) + error + 5e-324


def _sum_rounded_up(first: float, second: float) -> float:
    total = first + second
    return math.nextafter(total, math.inf) if first and second else total


def _optimal_epsilon(composition: Composition, delta: float) -> float:
    """Inverse of `_optimal_delta` in epsilon, by bisection from above."""
    if _optimal_delta(composition, 0.0) <= delta:
        return 0.0
    return first_where(
        lambda epsilon: _optimal_delta(composition, epsilon) <= delta,
        0.0,
        composition.pure_epsilon,
    )


def _curve_rounded_up(event: DpEvent) -> Callable[[float], float]:
    """The curve of one release, rounded up by more than its rounding errors."""
    curve = curve_of(event).delta
    return lambda epsilon: min(1.0, float(curve(epsilon)) * (1 + 2e-12) + 5e-324)


def _curve_epsilon(event: DpEvent, delta: float) -> float:
    """Inverse of that curve, by bisection from above."""
    curve = _curve_rounded_up(event)
    if curve(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while curve(high) > delta:
        low, high = high, 2 * high
        if high > 1e12:
            return math.inf
    return first_where(lambda epsilon: curve(epsilon) <= delta, low, high)


def _composed_pld(composition: Composition) -> PrivacyLossDistribution | None:
    """PLD of the ideal distributions, without residuals; None if there is none."""
    curves = sorted(composition.curves.items(), key=repr)
    try:
        return composed_pld(
            frozenset(composition.pure.items()),
            frozenset(composition.sampled.items()),
            tuple((curve_of(event), count) for event, count in curves),
            composition.mu,
        )
    except (ArithmeticError, ValueError):
        # For extreme parameters, dp-accounting makes no grid. The other bounds hold.
        return None


def compositions_of(event: DpEvent) -> tuple[Composition, ...]:
    """The releases of an event, about each record that may be in the data.

    Parameters
    ----------
    event : DpEvent

    Returns
    -------
    compositions : tuple of Composition
        One for every combination of disjoint parts that a record may be in, except
        those that another composition covers.

    Raises
    ------
    NotImplementedError
        If there is no accounting for a type of event.
    """
    compositions = tuple(_compositions(event))
    for composition in compositions:
        if (
            composition.unsampled_mu > _LARGEST_MU
            or composition.reveal_delta == 1
            or math.isinf(composition.residual_epsilon)
        ):
            composition.private = False
    return compositions


def _compositions(event: DpEvent) -> list[Composition]:
    composition = Composition()
    parallel: _ParallelReleases = []
    _add_event(composition, parallel, event, 1)
    compositions = [composition]
    for block, times in parallel:
        branches = [c for branch in block.events for c in _compositions(branch)]
        repeated = _repeat(_undominated(branches), times)
        compositions = _each_with_each(compositions, repeated)
    return compositions


def _each_with_each(
    compositions: list[Composition], others: list[Composition]
) -> list[Composition]:
    """Sums of one composition from each list, in all combinations."""
    return _limit([first + second for first in compositions for second in others])


def _repeat(branches: list[Composition], times: int) -> list[Composition]:
    """Sums of `times` branches, in all combinations."""
    compositions, power = [Composition()], branches
    while times:
        if times % 2:
            compositions = _each_with_each(compositions, power)
        times //= 2
        if times:
            power = _each_with_each(power, power)
    return compositions


def _limit(compositions: list[Composition]) -> list[Composition]:
    """The undominated compositions; if these are too many, one that bounds them all."""
    kept = _undominated(compositions)
    if len(kept) <= _MAX_COMPOSITIONS:
        return kept
    bound = kept[0]
    for composition in kept[1:]:
        bound = bound | composition
    return [bound]


def _undominated(compositions: list[Composition]) -> list[Composition]:
    """The compositions that no other one covers."""
    kept: list[Composition] = []
    for new in compositions:
        if not any(old.covers(new) for old in kept):
            kept = [old for old in kept if not new.covers(old)] + [new]
    return kept


def _add_event(
    composition: Composition, parallel: _ParallelReleases, event: DpEvent, count: int
) -> None:
    """Add an event, `count` times; releases about disjoint parts go to `parallel`."""
    if count == 0 or isinstance(event, dp_event.NoOpDpEvent):
        return
    if max(count, getattr(event, "size", 1)) > _LARGEST_COUNT:
        composition.private = False
    elif isinstance(event, dp_event.ComposedDpEvent):
        for inner in event.events:
            _add_event(composition, parallel, inner, count)
    elif isinstance(event, dp_event.SelfComposedDpEvent):
        refuse_negative(event.count)
        _add_event(composition, parallel, event.event, count * event.count)
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
            composition.mu = composed_mu(composition.mu, mu)
    elif isinstance(event, dp_event.PoissonSampledDpEvent):
        _add_sampled(composition, parallel, event, count)
    elif isinstance(event, SelectionDpEvent):
        _add_selection(composition, event, count)
    elif isinstance(event, GroupDpEvent):
        _add_group(composition, event, count)
    elif isinstance(event, ShuffledDpEvent):
        if curve_of(event).protects:
            composition.curves[event] += count
        else:
            composition.private = False
    elif isinstance(event, RevealingDpEvent):
        if event.probability == 1:
            composition.private = False
        else:
            composition.log_hidden += count * math.log1p(-event.probability)
            _add_event(composition, parallel, event.event, count)
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
    composition: Composition, parallel: _ParallelReleases, event: DpEvent, count: int
) -> None:
    """Add a release about a Poisson sample; neighbours add or remove one record.

    A pure epsilon becomes ln(1 + q (e^epsilon - 1)). A residual does not change: a
    sampler that is close to its ideal distribution for every sample is as close on
    average. Some releases are not amplified. Gaussian and pure noise about the same
    sample both tell whether a record is in it, so their amplified distributions would
    not compose as separate releases do. Releases that reveal everything with some
    probability, or that are about disjoint parts, are not amplified either.
    """
    rate = event.sampling_probability
    if not 0 <= rate <= 1:
        raise ValueError(f"A sampling probability must be in [0, 1], got {rate}.")
    if rate == 0:
        return
    inner, *others = compositions_of(event.event)
    if rate < 1 and not all(c.closed_form for c in (inner, *others)):
        raise NotImplementedError(
            "There is no privacy accounting for samples of samples, nor for samples of "
            "private choices or shuffled messages."
        )
    mixed = inner.mu and inner.pure
    if rate == 1 or others or not inner.private or mixed or inner.reveal_delta:
        _add_event(composition, parallel, event.event, count)
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
    """Add a private choice, which is pure if its tries are: a shift adds to epsilon."""
    curve = curve_of(event)
    if not curve.protects:
        composition.private = False
        return
    epsilon = event_epsilon(event.event, 0.0) + curve.shift
    if math.isfinite(epsilon):
        composition.pure[PureDpEvent(epsilon)] += count
    else:
        composition.curves[event] += count


def _add_group(composition: Composition, event: GroupDpEvent, count: int) -> None:
    """Add a release, `count` times, as a group of units sees it.

    The units may be in different disjoint parts of the data. So each of them counts as
    if it were in all parts, unless the curve of the worst part is better.
    """
    parts = compositions_of(event.event)
    of_one = reduce(operator.or_, parts)
    mixed = len(parts) > 1 and of_one.mu and of_one.pure
    of_group = None if mixed else of_one.for_group(event.size)
    if not of_one.private:
        composition.private = False
    elif of_group is None:
        if curve_of(event).protects:
            composition.curves[event] += count
        else:
            composition.private = False
    else:
        for release, n in of_group.pure.items():
            _add_event(composition, [], release, n * count)
        if of_group.mu:
            group_mu = of_group.mu * math.sqrt(count) * (1 + 1e-15)
            composition.mu = composed_mu(composition.mu, group_mu)
        composition.residual_epsilon += count * of_group.residual_epsilon
        composition.residual_delta += count * of_group.residual_delta


@lru_cache(maxsize=64)
def curve_of(event: DpEvent) -> Any:
    """The curve of a release that is known only by it; caches what is costly."""
    if isinstance(event, GroupDpEvent):
        return GroupCurve(partial(event_delta, event.event), event.size)
    if isinstance(event, ShuffledDpEvent):
        return ShuffledCurve(
            min(event.n_messages, MOST_SHUFFLED),
            blanket_pairs(event.event),
            partial(event_epsilon, event.event),
            partial(event_delta, event.event),
        )
    one_try = event.event
    return SelectionCurve(
        event.distribution,
        partial(event_epsilon, one_try),
        partial(event_delta, one_try),
    )


def selection_residual(event: DpEvent, count: int) -> tuple[float, float]:
    """Distance of `count` private choices from choices among ideal distributions.

    The sampler of one try and its ideal distribution differ as two neighbours do, with
    the residual delta at the residual epsilon. So the bound of the choice for
    neighbours also bounds how far the choice is from its ideal. Zero for other events.
    """
    if not isinstance(event, SelectionDpEvent):
        return 0.0, 0.0
    residuals = [
        (composition.residual_epsilon, composition.residual_delta)
        for composition in compositions_of(event.event)
    ]
    e1, d1 = (max(values) for values in zip(*residuals, strict=True))
    distribution = event.distribution
    if distribution.eta is None:
        shift = distribution.rate * (math.expm1(min(e1, 700.0)) + d1)
    else:
        lost = distribution.rate / (1 - distribution.rate) * d1
        shift = (1 + distribution.eta) * (e1 + math.log1p(lost * math.exp(-e1)))
    return count * (e1 + shift), count * distribution.mean * d1
