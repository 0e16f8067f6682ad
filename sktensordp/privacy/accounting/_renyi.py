"""Rényi divergences of releases, for accountants that compose them.

They are those of ideal distributions. A sampler's distance from its ideal distribution
is no Rényi divergence, since its noise is bounded.
"""

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from ._composition import Composition
from ._curves import compositions_of, curve_of
from ._events import (
    GroupDpEvent,
    ProjectionDpEvent,
    SelectionDpEvent,
    ShuffledDpEvent,
)
from ._pld import pure_epsilon
from ._shuffling import shuffled_renyi

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# Beyond this, a sample counts as the whole data.
_LARGEST_REACH = 1e4


def event_renyi(event: "DpEvent", order: float) -> float:
    """Rényi divergence between neighbours at `order` > 1; infinite if there is none."""
    return max(
        _composition_renyi(composition, order) for composition in compositions_of(event)
    )


def _composition_renyi(composition: Composition, order: float) -> float:
    if not composition.private or composition.reveal_delta:
        return math.inf
    terms = [
        n * _pure_renyi(pure_epsilon(e), order) for e, n in composition.pure.items()
    ]
    terms += [n * _sampled_renyi(*e, order) for e, n in composition.sampled.items()]
    for event, n in composition.curves.items():
        if isinstance(event, ProjectionDpEvent):
            terms.append(n * _projection_renyi(event, order))
        elif isinstance(event, GroupDpEvent):
            # Only the curve of a group is known.
            return math.inf
        elif isinstance(event, ShuffledDpEvent):
            # At most that of the one message that differs.
            local = event_renyi(event.event, order)
            terms.append(n * min(local, shuffled_renyi(curve_of(event), order)))
        else:
            terms.append(n * _selection_renyi(event, order))
    return math.fsum(terms) + (order * composition.mu**2 / 2 if composition.mu else 0.0)


@lru_cache(maxsize=1024)
def _sampled_renyi(rate: float, mu: float, order: float) -> float:
    """Of Gaussian noise on a Poisson sample: log E (1 - q + q e^(mu x - mu^2/2))^a.

    Adding a record is the worse direction (Mironov, Talwar and Zhang 2019, Section 3).
    The integrand falls off like a Gaussian density, so the trapezoidal rule is exact
    up to rounding.
    """
    if order * mu > _LARGEST_REACH:
        return order * mu * mu / 2
    reach = 12.0 + order * mu
    x, step = np.linspace(-12.0, reach, int(20 * (12.0 + reach)) + 1, retstep=True)
    loss = np.logaddexp(math.log1p(-rate), math.log(rate) + mu * x - mu * mu / 2)
    log_moment = logsumexp(order * loss - x * x / 2) + math.log(step)
    log_moment -= math.log(2 * math.pi) / 2
    divergence = max(float(log_moment) + 1e-13, 0.0) / (order - 1)
    return min(divergence, order * mu * mu / 2)


def _projection_renyi(event: ProjectionDpEvent, order: float) -> float:
    """Of centred normal draws with variances 1 and 1 + tau, in the worse direction.

    Gil, Alajaji and Linder (2013), Table 2: with r = s_a^2 / s_b^2 - 1 for standard
    deviations s_a and s_b, it is -(k log(1 + r) + log(1 - k r)) / (2 k), k = order - 1.
    """
    k, divergences = order - 1, []
    for r in (event.tau, -event.tau / (1 + event.tau)):
        if not k * r < 1:
            return math.inf
        # The terms linear in r cancel, and the rest has one sign.
        divergences.append((k * _log1p_gap(r) + _log1p_gap(-k * r)) / (2 * k))
    return event.n_projections * max(divergences) * (1 + 1e-13)


def _log1p_gap(x: float) -> float:
    """How far log(1 + x) is below x, to nearly all digits."""
    if abs(x) > 0.05:
        return x - math.log1p(x)
    return x * x * math.fsum((-x) ** i / (i + 2) for i in range(12))


@lru_cache(maxsize=256)
def _selection_renyi(event: SelectionDpEvent, order: float) -> float:
    """Of the best of a number of tries: Papernot and Steinke (2022), Theorem 2.

    The proof needs two facts about the number of tries, which hold for all
    distributions here: g(t) <= g(1), and the bound on g(t) / g(t'). The latter may be
    taken from any other order.
    """
    distribution = event.distribution
    divergence = event_renyi(event.event, order)
    if distribution.eta is None:
        divergence += curve_of(event).shift
        no_try = distribution.weights[0] / sum(distribution.weights)
        log_tries = (order - 1) * divergence + math.log(distribution.mean)
        return float(np.logaddexp(log_tries, math.log(no_try))) / (order - 1)
    divergence += math.log(distribution.mean) / (order - 1)
    other_orders = 1 + np.geomspace(1e-2, 1e4, 121)
    log_gamma = math.log1p(-distribution.rate)
    shift = min(
        (1 - 1 / other) * event_renyi(event.event, other) - log_gamma / other
        for other in other_orders
    )
    return divergence + (1 + distribution.eta) * shift


def _pure_renyi(epsilon: float, order: float) -> float:
    """Largest Rényi divergence of a pure release: that of randomised response.

    Mironov (2017), Proposition 5: 1/(a - 1) log(p^a q^(1-a) + q^a p^(1-a)).
    """
    if math.isinf(order):
        return epsilon
    if order * epsilon < 500:
        # The moment minus one, as a product in which nothing cancels.
        product = math.sinh(order * epsilon / 2) * math.sinh((order - 1) * epsilon / 2)
        log_moment = math.log1p(2 * product / math.cosh(epsilon / 2))
    else:
        # cosh((a - 1/2) e) / cosh(e / 2), without its largest exponentials.
        log_moment = (order - 1) * epsilon
        log_moment -= math.log1p(math.exp(-epsilon))
    return min(epsilon, log_moment / (order - 1))
