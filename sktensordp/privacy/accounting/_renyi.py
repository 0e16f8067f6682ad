"""Renyi divergences of releases, for accountants that compose them.

Of ideal laws: a sampler's distance from one is no Renyi divergence, since its noise is
bounded.
"""

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from ._composition import Composition
from ._curves import curve_of, read
from ._events import ProjectionDpEvent, SelectionDpEvent
from ._pld import pure_epsilon

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["event_renyi"]

# Beyond, a sample is taken to be the whole.
_LARGEST_REACH = 1e4


def event_renyi(event: "DpEvent", order: float) -> float:
    """Renyi divergence between neighbours at `order` > 1; infinity if there is none."""
    return max(_of_composition(composition, order) for composition in read(event))


def _of_composition(composition: Composition, order: float) -> float:
    if not composition.private or composition.revealed:
        return math.inf
    parts = [
        n * _pure_renyi(pure_epsilon(e), order) for e, n in composition.pure.items()
    ]
    parts += [n * _sampled_renyi(*e, order) for e, n in composition.sampled.items()]
    for event, n in composition.curves.items():
        if isinstance(event, ProjectionDpEvent):
            parts.append(n * _projection_renyi(event, order))
        else:
            parts.append(n * _selection_renyi(event, order))
    return math.fsum(parts) + (order * composition.mu**2 / 2 if composition.mu else 0.0)


@lru_cache(maxsize=1024)
def _sampled_renyi(rate: float, mu: float, order: float) -> float:
    """Of Gaussian noise on a Poisson sample: log E (1 - q + q e^(mu x - mu^2/2))^a.

    Mironov, Talwar and Zhang (2019), Section 3: adding a record is the worse order. The
    trapezoidal rule is exact to rounding for what falls off like a Gaussian density.
    """
    if order * mu > _LARGEST_REACH:
        return order * mu * mu / 2
    reach = 12.0 + order * mu
    x, step = np.linspace(-12.0, reach, int(20 * (12.0 + reach)) + 1, retstep=True)
    loss = np.logaddexp(math.log1p(-rate), math.log(rate) + mu * x - mu * mu / 2)
    log_moment = logsumexp(order * loss - x * x / 2) + math.log(step)
    log_moment -= math.log(2 * math.pi) / 2
    found = max(float(log_moment) + 1e-13, 0.0) / (order - 1)
    return min(found, order * mu * mu / 2)


def _projection_renyi(event: ProjectionDpEvent, order: float) -> float:
    """Of centred normal draws whose variances differ by a factor 1 + tau, both orders.

    Gil, Alajaji and Linder (2013), Table 2.
    """
    found = []
    for above, below in ((1 + event.tau, 1.0), (1.0, 1 + event.tau)):
        mixed = order * below + (1 - order) * above
        if not mixed > 0:
            return math.inf
        # ln(s_b / s_a) + ln(s_b^2 / s*^2) / (2 (order - 1)), s standard deviations.
        found.append(
            math.log(below / above) / 2 + math.log(below / mixed) / (2 * (order - 1))
        )
    return event.n_projections * max(found)


@lru_cache(maxsize=256)
def _selection_renyi(event: SelectionDpEvent, order: float) -> float:
    """Of the best of a number of releases: Papernot and Steinke (2022), Theorem 2.

    Its proof needs of the law of the number what the laws here have: g(t) <= g(1), and
    the bound on g(t) / g(t'), for which any other order may be taken.
    """
    distribution = event.distribution
    own = event_renyi(event.event, order)
    if distribution.eta is None:
        own += curve_of(event).shift
        none = distribution.weights[0] / sum(distribution.weights)
        tries = (order - 1) * own + math.log(distribution.mean)
        return float(np.logaddexp(tries, math.log(none))) / (order - 1)
    own += math.log(distribution.mean) / (order - 1)
    tried = 1 + np.geomspace(1e-2, 1e4, 121)
    log_gamma = math.log1p(-distribution.rate)
    shift = min(
        (1 - 1 / other) * event_renyi(event.event, other) - log_gamma / other
        for other in tried
    )
    return own + (1 + distribution.eta) * shift


def _pure_renyi(epsilon: float, order: float) -> float:
    """Largest Renyi divergence of a pure release: that of randomised response.

    Mironov (2017), Proposition 5: 1/(a - 1) log(p^a q^(1-a) + q^a p^(1-a)).
    """
    if math.isinf(order):
        return epsilon
    if order * epsilon < 500:
        # The moment minus one, by a product of differences that does not cancel.
        product = math.sinh(order * epsilon / 2) * math.sinh((order - 1) * epsilon / 2)
        log_moment = math.log1p(2 * product / math.cosh(epsilon / 2))
    else:
        # cosh((a - 1/2) e) / cosh(e / 2), its exponentials taken out.
        log_moment = (order - 1) * epsilon
        log_moment -= math.log1p(math.exp(-epsilon))
    return min(epsilon, log_moment / (order - 1))
