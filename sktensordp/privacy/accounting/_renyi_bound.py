"""Epsilon and delta from Rényi divergences, for releases whose PLD is too coarse.

A PLD cannot resolve a delta below its rounding errors, which grow with the number of
releases. The Rényi divergences of one composition add up, order by order, and give an
epsilon at any delta (Canonne, Kamath and Steinke 2020, Proposition 12).
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from ._composition import Composition
from ._pld import pure_epsilon

# Beyond this, a sample counts as the whole data.
_LARGEST_REACH = 1e4
# Logarithms of the orders that are tried, less 1.
_LOG_ORDERS = np.linspace(math.log(1e-2), math.log(1e8), 36)
# Rounds a divergence up by more than its rounding errors.
_ROUNDED_UP = 1 + 1e-9


def renyi_epsilon(composition: Composition, delta: float) -> float:
    """Epsilon at `delta` > 0 of ideal distributions without curves."""

    def epsilon(order: float) -> float:
        divergence = renyi_without_curves(composition, order) * _ROUNDED_UP
        log_share = (math.log(delta) + math.log(order)) / (order - 1)
        return divergence + math.log1p(-1 / order) - log_share

    return max(_least(epsilon), 0.0)


def renyi_delta(composition: Composition, epsilon: float) -> float:
    """Delta at `epsilon` of ideal distributions without curves."""

    def log_delta(order: float) -> float:
        divergence = renyi_without_curves(composition, order) * _ROUNDED_UP
        excess = divergence - epsilon + math.log1p(-1 / order)
        return (order - 1) * excess - math.log(order)

    return math.exp(min(_least(log_delta), 0.0))


def _least(bound: Callable[[float], float]) -> float:
    """The least bound over the orders, each of which gives a valid bound."""

    def at(log_order: float) -> float:
        return bound(1 + math.exp(log_order))

    bounds = [at(x) for x in _LOG_ORDERS]
    best = int(np.argmin(bounds))
    around = _LOG_ORDERS[max(best - 1, 0)], _LOG_ORDERS[min(best + 1, 35)]
    refined = minimize_scalar(
        at, bounds=around, method="bounded", options={"maxiter": 20}
    )
    return float(min(bounds[best], refined.fun))


def renyi_without_curves(composition: Composition, order: float) -> float:
    """Rényi divergence of pure releases and Gaussian noise, on samples or not."""
    terms = [
        n * pure_renyi(pure_epsilon(e), order) for e, n in composition.pure.items()
    ]
    terms += [n * _sampled_renyi(*e, order) for e, n in composition.sampled.items()]
    terms.append(order * composition.mu**2 / 2 if composition.mu else 0.0)
    return math.fsum(terms)


@lru_cache(maxsize=1024)
def _sampled_renyi(rate: float, mu: float, order: float) -> float:
    """For Gaussian noise on a Poisson sample: log E (1 - q + q e^(mu x - mu^2/2))^a.

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


def pure_renyi(epsilon: float, order: float) -> float:
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
