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

from ..accounting._curves import (
    event_delta,
    event_epsilon,
    read,
    selection_residual,
)
from ..accounting._gaussian import gaussian_epsilon, gaussian_mu
from ..accounting._ledger import Ledger
from ..accounting._pld import pure_epsilon
from ..accounting._renyi import event_renyi

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["AdaptiveFilter", "Spending"]

_ORDERS = tuple((1 + np.geomspace(0.02, 2e5, 100)).tolist())
# Shares of epsilon and delta that are kept for what samplers are away from their laws.
_SHARE_OF_EPSILON, _SHARE_OF_DELTA = 0.005, 0.01
# Ten releases of 0.1 fit into 1, although ten times the float 0.1 is more.
_ALLOWANCE = 1 + Fraction(1, 10**12)


@dataclass(frozen=True)
class Spending:
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

    def __add__(self, other: "Spending") -> "Spending":
        """Of both, about the same data."""
        return self._joined(other, lambda a, b: a + b)

    def __or__(self, other: "Spending") -> "Spending":
        """Of both, about disjoint data: no less than either."""
        return self._joined(other, max)

    def _joined(self, other: "Spending", how: Callable[[Any, Any], Any]) -> "Spending":
        names = [field.name for field in fields(self)]
        return Spending(*(how(getattr(self, n), getattr(other, n)) for n in names))


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
        self._rule: _Rule | None = None

    def admit(
        self, event: "DpEvent", total_with: Callable[[Spending], Spending]
    ) -> "tuple[Spending, _Rule] | None":
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
        found : tuple of (Spending, rule) or None
            None where it does not fit. The rule of the first release is to be kept, by
            `settle`.
        """
        rule = self._rule or self._rule_for(event)
        spending = rule.spending(event)
        total = total_with(spending)
        if not self._keeps(total, rule):
            alone = total.n_releases <= 1
            if not alone or event_delta(event, self.epsilon) > self.delta * (1 + 1e-12):
                return None
        return spending, rule

    def counted(self, total: Spending, event: "DpEvent") -> float:
        """The epsilon that is counted as spent, at the delta of the budget.

        Parameters
        ----------
        total : Spending
            Of all releases; at least one.
        event : DpEvent
            All releases.

        Returns
        -------
        epsilon : float
            The least of those that may be kept; one release counts by its own curve.
        """
        rule, (epsilon, delta) = self._rule, self._left
        reserve = self.epsilon - epsilon
        found = [float(total.pure + _exact(2 * total.residual_epsilon))]
        if math.isfinite(total.squares):
            mu = math.sqrt(total.squares)
            found.append(reserve + (gaussian_epsilon(mu, delta) if mu else 0.0))
        if math.isfinite(total.renyi):
            assert rule is not None
            spare = _largest_renyi(0.0, delta, rule.order)
            found.append(reserve + max(total.renyi - spare, 0.0))
        if total.n_releases <= 1:
            found.append(event_epsilon(event, self.delta))
        return min(*found, self.epsilon)

    def settle(self, rule: "_Rule") -> None:
        """Keep to a rule from now on."""
        self._rule = rule

    @property
    def _left(self) -> tuple[float, float]:
        """Epsilon and delta for ideal laws, without what is kept for samplers."""
        reserve = _SHARE_OF_EPSILON * self.epsilon
        delta = self.delta * (1 - _SHARE_OF_DELTA) * math.exp(-reserve)
        return self.epsilon - 2 * reserve, delta

    def _rule_for(self, event: "DpEvent") -> "_Rule":
        left = self._left
        # At delta = 0 no sum may be kept in place of the pure one.
        if left[1] == 0:
            return _Rule()
        ledgers = read(event)
        if all(ledger.mu and not ledger.pure for ledger in ledgers):
            return _Rule(most_squares=gaussian_mu(*left) ** 2)
        most = {order: _largest_renyi(*left, order) for order in _ORDERS}
        found = {a: event_renyi(event, a) for a in most if most[a] > 0}
        order = min(found, key=lambda a: found[a] / most[a], default=None)
        return _Rule() if order is None else _Rule(order=order, most_renyi=most[order])

    def _keeps(self, total: Spending, rule: "_Rule") -> bool:
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
        return total.squares <= rule.most_squares or total.renyi <= rule.most_renyi


@dataclass(frozen=True)
class _Rule:
    """What is summed besides pure epsilons, and up to where; the rest is infinite."""

    most_squares: float = -1.0
    order: float = 2.0
    most_renyi: float = -1.0

    def spending(self, event: "DpEvent") -> Spending:
        together = Spending()
        renyi = event_renyi(event, self.order) if self.most_renyi > 0 else math.inf
        for ledger in read(event):
            chosen = [selection_residual(one, n) for one, n in ledger.curves.items()]
            together |= Spending(
                1,
                _exact(ledger.pure_epsilon) if ledger.only_pure else math.inf,
                _squares(ledger) if self.most_squares > 0 else math.inf,
                renyi,
                # Where nothing is shown, the law is the other one, renormalised.
                ledger.residual_epsilon - ledger.log_hidden + sum(e for e, _ in chosen),
                ledger.residual_delta + ledger.revealed + sum(d for _, d in chosen),
            )
        return together


def _exact(value: float) -> Fraction | float:
    return Fraction(value) if math.isfinite(value) else value


def _squares(ledger: Ledger) -> float:
    """mu^2 of the Gaussian noise that says no less than the ideal releases.

    A pure release says no more than randomised response, whose trade-off function
    is above that of Gaussian noise if it is at its corner, 1 / (1 + e^epsilon).
    """
    if not ledger.private or ledger.curves:
        return math.inf
    squares = [ledger.whole_mu**2]
    for event, count in ledger.pure.items():
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
