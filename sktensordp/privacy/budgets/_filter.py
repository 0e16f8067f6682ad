"""Whether one more release still fits, where releases are chosen on the way.

Composition adds up what was fixed beforehand. Where it depends on earlier outcomes how
much the next release reveals, or whether there is one, the composition of what happened
may be smaller than the truth (Rogers, Roth, Ullman and Vadhan 2016): on some outcomes
the one curve is spent, on others another. What holds then are sums that never exceed a
number fixed in advance:

- pure epsilons, up to epsilon;
- mu^2 of Gaussian noise, up to that of (epsilon, delta) (Koskela, Tobaben and Honkela
  2022; Smith and Thakurta 2022), a pure release counting as the Gaussian one that
  says no less;
- Renyi divergences at one order, up to what gives (epsilon, delta) (Feldman and Zrnic
  2021; Lecuyer 2021).

The first may be kept on some outcomes, and one of the others on the rest: where pure
epsilons keep within epsilon, no outcome adds to delta. Which of the others, and at
which order, is decided by the first release, of which nothing depends on an outcome.
One release alone may spend everything, by its own curve.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri_exp

from ..accounting._composition import Composition
from ..accounting._curves import (
    event_delta,
    event_epsilon,
    read,
    selection_residual,
)
from ..accounting._gaussian import gaussian_epsilon, gaussian_mu
from ..accounting._pld import pure_epsilon
from ..accounting._renyi import event_renyi

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["AdaptiveFilter", "Totals"]

_ORDERS = tuple((1 + np.geomspace(0.02, 2e5, 100)).tolist())
# Shares of epsilon and delta that are kept for what samplers are away from their laws.
_SHARE_OF_EPSILON, _SHARE_OF_DELTA = 0.005, 0.01
# Ten releases of 0.1 fit into 1, although ten times the float 0.1 is more.
_ALLOWANCE = 1 + Fraction(1, 10**12)


@dataclass(frozen=True)
class Totals:
    """Sums over releases; all of them only grow.

    Attributes
    ----------
    n_releases : int
    pure : Fraction or float
        Pure epsilons, exactly; or infinity.
    squares : float
        mu^2 of the Gaussian noise that says no less.
    renyi : float
        Renyi divergences at the order of the filter.
    residual_epsilon, residual_delta : float
        What samplers are away from these; the second also counts the probability
        that everything is shown.
    """

    n_releases: int = 0
    pure: Fraction | float = 0.0
    squares: float = 0.0
    renyi: float = 0.0
    residual_epsilon: float = 0.0
    residual_delta: float = 0.0

    def __add__(self, other: "Totals") -> "Totals":
        """Of both, about the same data."""
        return self._joined(other, lambda a, b: a + b)

    def __or__(self, other: "Totals") -> "Totals":
        """Of both, about disjoint data: no less than either."""
        return self._joined(other, max)

    def _joined(self, other: "Totals", how: Callable[[Any, Any], Any]) -> "Totals":
        names = [field.name for field in fields(self)]
        return Totals(*(how(getattr(self, n), getattr(other, n)) for n in names))


class AdaptiveFilter:
    """Admits releases as long as (epsilon, delta) holds, whoever chooses them.

    Parameters
    ----------
    epsilon : float
        Greater than 0, finite.
    delta : float
        In [0, 1).
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.delta = epsilon, delta
        self._limits: _Limits | None = None

    def admit(
        self, event: "DpEvent", total_with: Callable[[Totals], Totals]
    ) -> "tuple[Totals, _Limits] | None":
        """Sums of a release if it fits, and the rule by which they were made.

        Parameters
        ----------
        event : DpEvent
            The release.
        total_with : callable
            From the sums of the release to those of all, with it, for the record of
            which most is revealed.

        Returns
        -------
        found : tuple of (Totals, rule) or None
            None where it does not fit. The rule of the first release is to be kept, by
            `settle`.
        """
        limits = self._limits or self._limits_for(event)
        totals = limits.totals(event)
        total = total_with(totals)
        if not self._keeps(total, limits):
            alone = total.n_releases <= 1
            if not alone or event_delta(event, self.epsilon) > self.delta * (1 + 1e-12):
                return None
        return totals, limits

    def counted(self, total: Totals, event: "DpEvent") -> float:
        """The epsilon that is counted as spent, at the delta of the budget.

        Parameters
        ----------
        total : Totals
            Of all releases; at least one.
        event : DpEvent
            All releases.

        Returns
        -------
        epsilon : float
            The least of those that may be kept; one release counts by its own curve.
        """
        limits, (epsilon, delta) = self._limits, self._left
        reserve = self.epsilon - epsilon
        found = [float(total.pure + _exact(2 * total.residual_epsilon))]
        if math.isfinite(total.squares):
            mu = math.sqrt(total.squares)
            found.append(reserve + (gaussian_epsilon(mu, delta) if mu else 0.0))
        if math.isfinite(total.renyi):
            assert limits is not None
            spare = _largest_renyi(0.0, delta, limits.order)
            found.append(reserve + max(total.renyi - spare, 0.0))
        if total.n_releases <= 1:
            found.append(event_epsilon(event, self.delta))
        return min(*found, self.epsilon)

    def settle(self, limits: "_Limits") -> None:
        """Keep to a rule from now on."""
        self._limits = limits

    @property
    def _left(self) -> tuple[float, float]:
        """Epsilon and delta for ideal laws, without what is kept for samplers."""
        reserve = _SHARE_OF_EPSILON * self.epsilon
        delta = self.delta * (1 - _SHARE_OF_DELTA) * math.exp(-reserve)
        return self.epsilon - 2 * reserve, delta

    def _limits_for(self, event: "DpEvent") -> "_Limits":
        left = self._left
        # At delta = 0 no sum may be kept in place of the pure one.
        if left[1] == 0:
            return _Limits()
        compositions = read(event)
        if all(composition.mu and not composition.pure for composition in compositions):
            return _Limits(most_squares=gaussian_mu(*left) ** 2)
        most = {order: _largest_renyi(*left, order) for order in _ORDERS}
        found = {a: event_renyi(event, a) for a in most if most[a] > 0}
        order = min(found, key=lambda a: found[a] / most[a], default=None)
        return (
            _Limits() if order is None else _Limits(order=order, most_renyi=most[order])
        )

    def _keeps(self, total: Totals, limits: "_Limits") -> bool:
        # Once for the outcomes that keep the pure sum, and once for all others.
        residual = 2 * total.residual_delta
        growth = math.exp(self.epsilon) if self.epsilon < 700 else math.inf
        if residual and residual * (1 + growth) > self.delta * _SHARE_OF_DELTA:
            return False
        spent = total.pure + _exact(2 * total.residual_epsilon)
        if spent <= Fraction(self.epsilon) * _ALLOWANCE:
            return True
        if total.residual_epsilon > self.epsilon * _SHARE_OF_EPSILON:
            return False
        return total.squares <= limits.most_squares or total.renyi <= limits.most_renyi


@dataclass(frozen=True)
class _Limits:
    """What is summed besides pure epsilons, and up to where; the rest is infinite."""

    most_squares: float = -1.0
    order: float = 2.0
    most_renyi: float = -1.0

    def totals(self, event: "DpEvent") -> Totals:
        together = Totals()
        renyi = event_renyi(event, self.order) if self.most_renyi > 0 else math.inf
        for composition in read(event):
            chosen = [
                selection_residual(one, n) for one, n in composition.curves.items()
            ]
            together |= Totals(
                1,
                _exact(composition.pure_epsilon) if composition.only_pure else math.inf,
                _squares(composition) if self.most_squares > 0 else math.inf,
                renyi,
                # Where nothing is shown, the law is the other one, renormalised.
                composition.residual_epsilon
                - composition.log_hidden
                + sum(e for e, _ in chosen),
                composition.residual_delta
                + composition.revealed
                + sum(d for _, d in chosen),
            )
        return together


def _exact(value: float) -> Fraction | float:
    return Fraction(value) if math.isfinite(value) else value


def _squares(composition: Composition) -> float:
    """mu^2 of the Gaussian noise that says no less than the ideal releases.

    A pure release says no more than randomised response, whose trade-off function
    is above that of Gaussian noise if it is at its corner, 1 / (1 + e^epsilon).
    """
    if not composition.private or composition.curves:
        return math.inf
    squares = [composition.whole_mu**2]
    for event, count in composition.pure.items():
        epsilon = pure_epsilon(event)
        # Its limit at 0 is above, and has the digits that the corner loses.
        square = math.pi / 2 * epsilon**2
        if epsilon > 0.01:
            square = 4 * float(ndtri_exp(-np.logaddexp(0.0, epsilon))) ** 2
        squares.append(count * square * (1 + 1e-12))
    return math.fsum(squares)


def _largest_renyi(epsilon: float, delta: float, order: float) -> float:
    """Largest Renyi divergence at an order that gives (epsilon, delta).

    A divergence of r at order a gives delta = e^((a - 1)(r - epsilon)) (1 - 1/a)^a /
    (a - 1) (Canonne, Kamath and Steinke 2020, Proposition 12).
    """
    spare = math.log(delta) + math.log(order - 1) - order * math.log1p(-1 / order)
    return epsilon + spare / (order - 1)
