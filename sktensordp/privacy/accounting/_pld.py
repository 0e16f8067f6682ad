"""Privacy curves of single releases, and privacy-loss distributions (PLDs) of several.

Each kind of release has a PLD of its own, built from its dominating pair. All PLDs use
the same grid of losses, and dp-accounting composes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import attrs
import numpy as np
from dp_accounting import DpEvent, dp_event
from dp_accounting.pld import pld_pmf, privacy_loss_distribution
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import ArrayLike, NDArray

from ._events import (
    LatticeLaplaceDpEvent,
    PureDpEvent,
    RandomizedResponseDpEvent,
    TableDpEvent,
)
from ._group_curve import GroupCurve
from ._selection import SelectionCurve
from ._shuffling import ShuffledCurve

# Releases with their counts: see `composed_pld`.
_PureReleases = frozenset[tuple[DpEvent, int]]
_SampledReleases = frozenset[tuple[tuple[float, float], int]]
_CurveReleases = tuple[tuple[GroupCurve | SelectionCurve | ShuffledCurve, int], ...]

_PLD_CELLS, _MAX_CELLS = 40_000, 400_000
PURE_EVENTS = (
    PureDpEvent,
    RandomizedResponseDpEvent,
    TableDpEvent,
    dp_event.LaplaceDpEvent,
    dp_event.DiscreteLaplaceDpEvent,
)


def refuse_negative(*parameters: float) -> None:
    """Raise if a parameter of an event is negative or NaN."""
    if not all(p >= 0 for p in parameters):
        raise ValueError(f"The parameters of an event must be >= 0, got {parameters}.")


def rounded_up(exact: Fraction) -> float:
    """The smallest float that is at least `exact`."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


@lru_cache(maxsize=4096)
def pure_epsilon(event: DpEvent) -> float:
    """The pure epsilon of one event; infinite if it has none."""
    if isinstance(event, PureDpEvent):
        return event.epsilon
    if isinstance(event, dp_event.LaplaceDpEvent):
        refuse_negative(event.noise_multiplier)
        scale = event.noise_multiplier
        if math.isinf(scale):
            return 0.0
        return rounded_up(1 / Fraction(scale)) if scale else math.inf
    if isinstance(event, dp_event.DiscreteLaplaceDpEvent):
        refuse_negative(event.noise_parameter, event.sensitivity)
        product = event.noise_parameter * event.sensitivity
        if not math.isfinite(product):
            return product
        rate = getattr(event, "rate", event.noise_parameter)
        return rounded_up(Fraction(rate) * Fraction(event.sensitivity))
    if isinstance(event, RandomizedResponseDpEvent):
        return event.distribution.epsilon(event.keep) * (1 + 4e-15)
    columns = list(zip(*event.weights, strict=True))
    if any(0 in column and any(column) for column in columns):
        return math.inf
    # The ratio is exact; the logarithm is rounded up by more than its error.
    ratio = max(Fraction(max(c), min(c)) for c in columns if any(c))
    return math.log1p(ratio - 1) * (1 + 1e-15) if ratio < 2**1000 else math.inf


def pure_fraction(event: DpEvent) -> Fraction:
    """The pure epsilon of one event, as exactly as it is known; it must be finite."""
    if isinstance(event, LatticeLaplaceDpEvent):
        return event.rate * event.sensitivity
    return Fraction(pure_epsilon(event))


def group_of_pure(event: DpEvent, size: int) -> DpEvent:
    """A pure release as `size` units together see it; see `Composition.for_group`."""
    if isinstance(event, dp_event.LaplaceDpEvent):
        scale = event.noise_multiplier / size
        return dp_event.LaplaceDpEvent(math.nextafter(scale, 0.0))
    if isinstance(event, dp_event.DiscreteLaplaceDpEvent):
        return attrs.evolve(event, sensitivity=size * event.sensitivity)
    return dp_event.DiscreteLaplaceDpEvent(pure_epsilon(event), size)


def hockey_stick(event: DpEvent, epsilon: ArrayLike) -> NDArray[np.float64]:
    """Largest hockey-stick divergence between neighbours, at an array of epsilons.

    The epsilons may be negative. The supremum over ordered pairs of neighbours is
    itself the curve of a dominating pair (Zhu, Dong and Wang 2022, Proposition 8).
    """
    epsilon = np.asarray(epsilon, dtype=float)
    bound = pure_epsilon(event)
    inside = np.clip(epsilon, -bound, bound)
    if isinstance(event, PureDpEvent):
        delta = -np.expm1(inside - bound) / (1 + np.exp(-bound))
    elif isinstance(event, dp_event.LaplaceDpEvent):
        delta = -np.expm1((inside - bound) / 2)
    elif isinstance(event, dp_event.DiscreteLaplaceDpEvent):
        delta = _discrete_laplace_hockey_stick(event, inside)
    elif isinstance(event, RandomizedResponseDpEvent):
        delta = event.distribution.hockey_stick(event.keep, inside)
    else:
        delta = _table_hockey_stick(event, inside)
    delta = np.where(epsilon < -bound, -np.expm1(np.minimum(epsilon, 0)), delta)
    return np.clip(np.where(epsilon >= bound, 0.0, delta), 0.0, 1.0)


def _discrete_laplace_hockey_stick(
    event: DpEvent, epsilon: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Divergence of two discrete Laplace distributions of rate a, shifted by K.

    The loss at n is a K for n <= 0, falls by 2a a step, and is -a K from K on. The
    divergence sums over the n whose loss exceeds epsilon.
    """
    rate, shift = event.noise_parameter, event.sensitivity
    last = np.ceil((shift - epsilon / rate) / 2) - 1
    last = np.clip(last, 0, max(shift - 1, 0))
    outside = np.exp(-rate * (last + 1)) + np.exp(epsilon - rate * (shift - last))
    return 1 - outside / (1 + np.exp(-rate))


def _table_hockey_stick(
    event: TableDpEvent, epsilon: NDArray[np.float64]
) -> NDArray[np.float64]:
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
def composed_pld(
    pure: _PureReleases, sampled: _SampledReleases, curves: _CurveReleases, mu: float
) -> PrivacyLossDistribution | None:
    """PLD of a composition; None if its losses are too wide for a grid.

    Parameters
    ----------
    pure : frozenset of (event, int)
        Pure events and their counts.
    sampled : frozenset of ((float, float), int)
        Sampling probability and mu of Gaussian noise on Poisson samples, and counts.
    curves : tuple of (a curve, int)
        Curves and their counts.
    mu : float
        Mu of all Gaussian noise on whole data.

    Returns
    -------
    pld : PrivacyLossDistribution or None
    """
    with np.errstate(over="ignore"):
        interval = _loss_interval(pure, sampled, curves, mu)
    if not interval <= 1:
        return None
    releases = []
    for event, count in sorted(pure, key=_order):
        cells = math.ceil(pure_epsilon(event) / interval)
        curve_of_event = partial(hockey_stick, event)
        releases.append((_curve_pld(curve_of_event, -cells, cells, interval), count))
    for curve, count in curves:
        low, high = (math.floor(loss / interval) for loss in curve.losses)
        releases.append((_curve_pld(curve.delta, low, high + 1, interval), count))
    for (rate, sampled_mu), count in sorted(sampled):
        releases.append((_gaussian_pld(sampled_mu, interval, rate), count))
    if mu:
        releases.append((_gaussian_pld(mu, interval, 1.0), 1))
    plds = []
    for pld, count in releases:
        if count > 1:
            # Bounds on the tails may overflow while dp-accounting minimises them.
            with np.errstate(over="ignore"):
                pld = pld.self_compose(count)
        plds.append(pld)
    # Compose in pairs, so that most convolutions have few losses.
    while len(plds) > 1:
        pairs = zip(plds[::2], plds[1::2], strict=False)
        last = plds[-1:] if len(plds) % 2 else []
        plds = [first.compose(second) for first, second in pairs] + last
    return plds[0]


def _order(release: tuple[DpEvent, int]) -> tuple[str, Any]:
    """Sorts releases the same way in every process; a table's `repr` hides weights."""
    return repr(release), getattr(release[0], "weights", ())


def _curve_pld(
    curve: Callable[[ArrayLike], NDArray[np.float64]],
    low: int,
    high: int,
    interval: float,
) -> PrivacyLossDistribution:
    """PLD that dominates a curve, on the grid points from `low` to `high`.

    Losses beyond the last point count as infinite.
    """
    grid = np.arange(low, high + 1)
    deltas = np.minimum.accumulate(np.clip(curve(grid * interval), 0.0, 1.0))
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        interval, low, high, deltas
    )
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def _gaussian_pld(mu: float, interval: float, rate: float) -> PrivacyLossDistribution:
    """PLD of Gaussian noise on a Poisson sample; neighbours add or remove a record."""
    return privacy_loss_distribution.from_gaussian_mechanism(
        standard_deviation=1 / mu,
        value_discretization_interval=interval,
        sampling_prob=rate,
    )


def _loss_interval(
    pure: _PureReleases, sampled: _SampledReleases, curves: _CurveReleases, mu: float
) -> float:
    """Step of the grid of losses: small against the spread of the composed loss."""
    # Sorted, since the order of a set depends on hashes, which differ between
    # processes.
    epsilons = sorted((n, pure_epsilon(event)) for event, n in pure)
    gaussian = mu * mu / 2 + 12 * mu
    largest = sum(n * e for n, e in epsilons)
    drift = sum(n * e * math.tanh(e / 2) for n, e in epsilons)
    spread = 12 * math.sqrt(sum(n * e * e for n, e in epsilons))
    total = gaussian + min(largest, drift + spread)
    widest = 0.0
    for (rate, sampled_mu), n in sorted(sampled):
        mean, variance, largest = _sampled_loss(rate, sampled_mu)
        total += n * mean + 12 * math.sqrt(n * variance)
        # A rare sample adds little to the spread, but its loss may lie far out.
        widest = max(widest, largest)
    for curve, n in curves:
        low, high = curve.losses
        total += min(n * high, n * high * high + 3 * high * math.sqrt(n)) - low
    return max(total / _PLD_CELLS, widest / _MAX_CELLS, 1e-6 / _PLD_CELLS)


def _sampled_loss(rate: float, mu: float) -> tuple[float, float, float]:
    """Mean, variance and maximum of the loss of Gaussian noise on a Poisson sample.

    The loss is log(1 - q + q e^(mu x - mu^2/2)) for x distributed as (1 - q) N(0, 1) +
    q N(mu, 1), cut off at 12 standard deviations.
    """
    x = np.linspace(-12.0, 12.0 + mu, 20_001)
    loss = np.logaddexp(np.log1p(-rate), np.log(rate) + mu * x - mu * mu / 2)
    mass = np.exp(loss - x * x / 2) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    mean = float(mass @ loss)
    return max(mean, 0.0), float(mass @ (loss - mean) ** 2), float(loss[-1])
