"""The adaptive filter: whether another release fits if results decide what comes next.

Composition adds up releases that were fixed beforehand. If earlier results decide how
much the next release reveals, or whether there is one, composing what was released may
understate what it reveals (Rogers, Roth, Ullman and Vadhan 2016): some results use up
one point of the privacy curve, and others another point. Three sums remain valid, each
as long as it never exceeds a limit that was fixed in advance:

- pure epsilons, up to epsilon;
- mu^2 of Gaussian noise, up to the mu^2 that gives (epsilon, delta) (Koskela, Tobaben
  and Honkela 2022; Smith and Thakurta 2022), where a pure release counts as Gaussian
  noise that reveals no less;
- Rényi divergences at one order, up to the divergence that gives (epsilon, delta)
  (Feldman and Zrnic 2021; Lecuyer 2021).

The filter limits the first sum and one of the other two, and admits a release while
either stays within its limit. Some results may keep the first limit and the rest the
other one: where pure epsilons stay within epsilon, the result adds nothing to delta.
The first release, which depends on no result, decides which of the other two sums is
limited, and at which order. A single release may also use up the whole budget by its
own curve.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any

import numpy as np
from dp_accounting import DpEvent, dp_event
from scipy.special import ndtri_exp

from .._guarantee import PrivacyGuarantee
from ..accounting._composition import Composition
from ..accounting._curves import (
    compositions_of,
    event_delta,
    event_epsilon,
    selection_residual,
)
from ..accounting._events import ParallelDpEvent
from ..accounting._gaussian import gaussian_epsilon, gaussian_mu
from ..accounting._pld import pure_epsilon
from ..accounting._renyi import event_renyi
from ._stated import reveals_nothing

_ORDERS = tuple((1 + np.geomspace(0.02, 2e5, 100)).tolist())
# Shares of epsilon and delta reserved for the residuals: the distances between samplers
# and their ideal distributions.
_SHARE_OF_EPSILON, _SHARE_OF_DELTA = 0.005, 0.01
# Ten releases of 0.1 fit into 1, although ten times the float 0.1 is more.
_ALLOWANCE = 1 + Fraction(1, 10**12)


@dataclass(frozen=True)
class Totals:
    """Sums over releases; they only grow.

    Attributes
    ----------
    n_releases : int
    pure_epsilon : Fraction or float
        Sum of the pure epsilons, exact; infinite if a release has none.
    squared_mu : float
        Sum of mu^2 of Gaussian noise that reveals no less than the releases.
    renyi : float
        Sum of the Rényi divergences at the order of the filter.
    residual_epsilon, residual_delta : float
        Distance of the samplers from their ideal distributions. The second also counts
        the probability that a release reveals everything.
    """

    n_releases: int = 0
    pure_epsilon: Fraction | float = 0.0
    squared_mu: float = 0.0
    renyi: float = 0.0
    residual_epsilon: float = 0.0
    residual_delta: float = 0.0

    def __add__(self, other: "Totals") -> "Totals":
        """Totals of both, about the same data."""
        return self._combined(other, lambda a, b: a + b)

    def __or__(self, other: "Totals") -> "Totals":
        """Totals that bound both, about disjoint data."""
        return self._combined(other, max)

    def times(self, n: int) -> "Totals":
        """At least the totals of `n` such releases, added one by one."""
        scale = n * (1 + n * 2.0**-52)  # adding up rounds
        pure, *rest = (getattr(self, field.name) for field in fields(self)[1:])
        return Totals(n * self.n_releases, n * pure, *(scale * x for x in rest))

    def _combined(
        self, other: "Totals", operation: Callable[[Any, Any], Any]
    ) -> "Totals":
        names = [field.name for field in fields(self)]
        return Totals(*(operation(getattr(self, n), getattr(other, n)) for n in names))


class AdaptiveFilter:
    """Admits releases while (epsilon, delta) holds, however they are chosen.

    Parameters
    ----------
    epsilon : float
        Greater than 0, finite.
    delta : float
        In [0, 1).
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.delta = epsilon, delta
        self._limits: Limits | None = None

    def admit(
        self, event: "DpEvent", total_with: Callable[[Totals], Totals]
    ) -> "tuple[Totals, Limits] | None":
        """Totals of a release if it fits, and the limits that were applied.

        This changes nothing: once the first release has been recorded, pass its limits
        to `settle`.

        Parameters
        ----------
        event : DpEvent
            The release.
        total_with : callable
            Maps the totals of this release to the totals of all releases including it,
            for the record about which most is revealed.

        Returns
        -------
        admission : tuple of (Totals, Limits) or None
            None if the release does not fit.
        """
        limits = self._limits or self._limits_for(event)
        totals = limits.totals(event)
        total = total_with(totals)
        if not self._is_within(total, limits):
            alone = total.n_releases <= 1
            if not alone or event_delta(event, self.epsilon) > self.delta * (1 + 1e-12):
                return None
        return totals, limits

    def spent_epsilon(self, total: Totals, event: "DpEvent") -> float:
        """The epsilon that counts as spent, at the delta of the budget.

        Parameters
        ----------
        total : Totals
            Totals of all releases; at least one.
        event : DpEvent
            All releases.

        Returns
        -------
        epsilon : float
            The smallest that one of the limited sums gives; a single release may also
            count by its own curve.
        """
        limits, (epsilon, delta) = self._limits, self._ideal_budget
        reserve = self.epsilon - epsilon
        epsilons = [float(total.pure_epsilon + _fraction(2 * total.residual_epsilon))]
        if math.isfinite(total.squared_mu):
            mu = math.sqrt(total.squared_mu)
            epsilons.append(reserve + (gaussian_epsilon(mu, delta) if mu else 0.0))
        if math.isfinite(total.renyi):
            assert limits is not None
            spare = _largest_renyi(0.0, delta, limits.order)
            epsilons.append(reserve + max(total.renyi - spare, 0.0))
        if total.n_releases <= 1:
            epsilons.append(event_epsilon(event, self.delta))
        return min(*epsilons, self.epsilon)

    def admit_to(
        self, recorded: "Account", account: "Account", event: DpEvent
    ) -> "tuple[Totals, Limits] | None":
        """`admit`, for a release in `account`, which is `recorded` or a part of it."""
        return self.admit(event, lambda totals: recorded.total(account, totals))

    def is_used_up_by(self, event: DpEvent) -> bool:
        """Whether an empty budget admits a release by its own curve alone."""
        limits = self._limits_for(event)
        return not self._is_within(limits.totals(event), limits)

    def counts_none_of(self, event: DpEvent) -> bool:
        """Whether no sum that is limited has a finite term for a release."""
        totals = (self._limits or Limits()).totals(event)
        sums = totals.pure_epsilon, totals.squared_mu, totals.renyi
        return self._limits is not None and not any(map(math.isfinite, sums))

    def admits_all(self, event: DpEvent, n: int) -> bool:
        """Whether an empty budget admits `n` such releases."""
        limits = self._limits_for(event)
        return self.admit(event, lambda totals: totals) is not None and (
            n == 1 or self._is_within(limits.totals(event).times(n), limits)
        )

    def share(self, event: DpEvent, n: int) -> float:
        """Approximate share of an empty budget that `n` such releases use up."""
        limits = self._limits_for(event)
        total = limits.totals(event).times(n)
        shares = [float(total.pure_epsilon) / self.epsilon]
        if limits.max_squared_mu > 0:
            shares.append(total.squared_mu / limits.max_squared_mu)
        if limits.max_renyi > 0:
            shares.append(total.renyi / limits.max_renyi)
        return min(shares)

    @staticmethod
    def spent_pure(recorded: "Account") -> Fraction | float:
        """The epsilon that counts as spent if the remainder is a pure epsilon."""
        return recorded.total().pure_epsilon

    def settle(self, limits: "Limits | None") -> None:
        """Apply the limits of the first release from now on."""
        if limits is not None:
            self._limits = limits

    def totals(self, event: "DpEvent") -> Totals:
        """Totals of a release that was admitted, under the limits that are settled."""
        assert self._limits is not None
        return self._limits.totals(event)

    @property
    def _ideal_budget(self) -> tuple[float, float]:
        """Epsilon and delta for ideal distributions, less what residuals reserve."""
        reserve = _SHARE_OF_EPSILON * self.epsilon
        delta = self.delta * (1 - _SHARE_OF_DELTA) * math.exp(-reserve)
        return self.epsilon - 2 * reserve, delta

    def _limits_for(self, event: "DpEvent") -> "Limits":
        budget = self._ideal_budget
        # At delta = 0, only the sum of pure epsilons gives a guarantee.
        if budget[1] == 0:
            return Limits()
        compositions = compositions_of(event)
        if all(one.mu and not (one.pure or one.curves) for one in compositions):
            return Limits(max_squared_mu=gaussian_mu(*budget) ** 2)
        largest = {order: _largest_renyi(*budget, order) for order in _ORDERS}
        spent = {a: event_renyi(event, a) for a in largest if largest[a] > 0}
        order = min(spent, key=lambda a: spent[a] / largest[a], default=None)
        if order is None:
            return Limits()
        return Limits(order=order, max_renyi=largest[order])

    def _is_within(self, total: Totals, limits: "Limits") -> bool:
        # Counted twice: where results keep the limit of pure epsilons, and elsewhere.
        residual = 2 * total.residual_delta
        growth = math.exp(self.epsilon) if self.epsilon < 700 else math.inf
        if residual and residual * (1 + growth) > self.delta * _SHARE_OF_DELTA:
            return False
        spent = total.pure_epsilon + _fraction(2 * total.residual_epsilon)
        if spent <= Fraction(self.epsilon) * _ALLOWANCE:
            return True
        if total.residual_epsilon > self.epsilon * _SHARE_OF_EPSILON:
            return False
        return (
            total.squared_mu <= limits.max_squared_mu or total.renyi <= limits.max_renyi
        )


@dataclass(frozen=True)
class CurveLimit:
    """Admits releases, fixed beforehand, while their privacy curve is low enough.

    Parameters
    ----------
    points : tuple of (float, float)
        Epsilons, and the largest delta at each. Without any, everything is admitted.
    """

    points: tuple[tuple[float, float], ...] = ()

    def admit_to(
        self, recorded: "Account", account: "Account", event: DpEvent
    ) -> tuple[Totals, None] | None:
        """Like `AdaptiveFilter.admit_to`; there are no limits to settle."""
        if self.points:
            composed = recorded.event(account, event)
            if any(event_delta(composed, at) > most for at, most in self.points):
                return None
        return Totals(), None

    def admits_all(self, event: DpEvent, n: int) -> bool:
        """See `AdaptiveFilter.admits_all`."""
        composed = dp_event.SelfComposedDpEvent(event, n)
        return all(event_delta(composed, at) <= most for at, most in self.points)

    def share(self, event: DpEvent, n: int) -> float:
        """See `AdaptiveFilter.share`."""
        composed = dp_event.SelfComposedDpEvent(event, n)
        return max(event_epsilon(composed, most) / at for at, most in self.points)

    @staticmethod
    def counts_none_of(event: DpEvent) -> bool:
        """The curve of the composition counts every release."""
        return False

    @staticmethod
    def spent_pure(recorded: "Account") -> float:
        """See `AdaptiveFilter.spent_pure`."""
        event = recorded.event()
        return 0.0 if event is None else event_epsilon(event, 0.0)

    def settle(self, limits: "Limits | None") -> None:
        """There is nothing to settle."""

    def totals(self, event: "DpEvent") -> Totals:
        """No sums are kept."""
        return Totals()


@dataclass(frozen=True)
class Limits:
    """The sum that is limited besides pure epsilons, and its limit.

    A negative limit means that the sum is not in use; its total is then infinite.
    """

    max_squared_mu: float = -1.0
    order: float = 2.0
    max_renyi: float = -1.0

    def totals(self, event: "DpEvent") -> Totals:
        """Totals of one release."""
        totals = Totals()
        renyi = event_renyi(event, self.order) if self.max_renyi > 0 else math.inf
        for composition in compositions_of(event):
            residuals = [
                selection_residual(one, n) for one, n in composition.curves.items()
            ]
            totals |= Totals(
                1,
                _fraction(composition.pure_epsilon)
                if composition.only_pure
                else math.inf,
                _squared_mu(composition) if self.max_squared_mu > 0 else math.inf,
                renyi,
                # If nothing is revealed, the distribution is ideal. Conditioning
                # on it divides by its probability: a residual of -log_hidden.
                composition.residual_epsilon
                - composition.log_hidden
                + sum(e for e, _ in residuals),
                composition.residual_delta
                + composition.reveal_delta
                + sum(d for _, d in residuals),
            )
        return totals


def _fraction(value: float) -> Fraction | float:
    """The exact value of a float; infinity stays a float."""
    return Fraction(value) if math.isfinite(value) else value


def _squared_mu(composition: Composition) -> float:
    """mu^2 of Gaussian noise that reveals no less than the ideal releases.

    A pure release reveals no more than randomised response. The trade-off function of
    randomised response lies above that of Gaussian noise if it does so at its corner,
    1 / (1 + e^epsilon).
    """
    if not composition.private or composition.curves:
        return math.inf
    squares = [composition.unsampled_mu**2]
    for event, count in composition.pure.items():
        epsilon = pure_epsilon(event)
        # The limit at epsilon = 0 is an upper bound, and is accurate where the corner
        # loses digits.
        square = math.pi / 2 * epsilon**2
        if epsilon > 0.01:
            square = 4 * float(ndtri_exp(-np.logaddexp(0.0, epsilon))) ** 2
        squares.append(count * square * (1 + 1e-12))
    return math.fsum(squares)


def _largest_renyi(epsilon: float, delta: float, order: float) -> float:
    """Largest Rényi divergence at `order` that gives (epsilon, delta).

    A divergence of r at order a gives delta = e^((a - 1)(r - epsilon)) (1 - 1/a)^a /
    (a - 1) (Canonne, Kamath and Steinke 2020, Proposition 12).
    """
    spare = math.log(delta) + math.log(order - 1) - order * math.log1p(-1 / order)
    return epsilon + spare / (order - 1)


@dataclass
class Account:
    """Releases about the same data, and blocks of releases about disjoint parts of it.

    A block has one branch for each disjoint part of the data. A branch is an account
    itself.
    """

    # Name, guarantee, and how often in a row.
    releases: list[tuple[str, PrivacyGuarantee, int]] = field(default_factory=list)
    blocks: list[list["Account"]] = field(default_factory=list)
    # Totals of `releases`, without the blocks.
    direct_totals: Totals = field(default_factory=Totals)

    def record(
        self, name: str, guarantee: PrivacyGuarantee, totals: Totals = Totals()
    ) -> None:
        """Add one release; without totals, one that reveals nothing."""
        self.direct_totals = self.direct_totals + totals
        last = self.releases[-1] if self.releases else None
        if last and last[0] == name and last[1] == guarantee:
            self.releases[-1] = (name, guarantee, last[2] + 1)
        else:
            self.releases.append((name, guarantee, 1))

    def total(
        self, account: "Account | None" = None, extra: Totals | None = None
    ) -> Totals:
        """Totals for the record about which most is revealed.

        `extra` is counted as if it had been recorded in `account`: this one, or one of
        its branches.
        """
        total = self.direct_totals
        if self is account and extra is not None:
            total = total + extra
        for branches in self.blocks:
            worst = Totals()
            for branch in branches:
                worst |= branch.total(account, extra)
            total = total + worst
        return total

    def event(
        self, account: "Account | None" = None, extra: DpEvent | None = None
    ) -> DpEvent | None:
        """All releases as one event, with the event `extra` in `account`.

        None if there is no release.
        """
        events = [
            dp_event.SelfComposedDpEvent(guarantee.event, count)
            for _, guarantee, count in self.releases
            if not reveals_nothing(guarantee)
        ]
        if self is account:
            events.append(extra)
        for branches in self.blocks:
            branch_events = [branch.event(account, extra) for branch in branches]
            parallel = [event for event in branch_events if event is not None]
            if parallel:
                events.append(ParallelDpEvent(parallel))
        return dp_event.ComposedDpEvent(tuple(events)) if events else None

    def guarantees(self) -> Iterator[PrivacyGuarantee]:
        """The guarantee of every release that reveals something."""
        all_of_them = (guarantee for _, guarantee, _ in self.releases)
        yield from (one for one in all_of_them if not reveals_nothing(one))
        for branches in self.blocks:
            for branch in branches:
                yield from branch.guarantees()

    def lines(self) -> Iterator[tuple[int, int | None, float, str]]:
        """Depth, times, epsilon and name of every release, from top to bottom.

        A branch with releases has a line of its own, with times None and epsilon NaN.
        """
        for name, guarantee, count in self.releases:
            yield 0, count, guarantee.epsilon, name
        for branches in self.blocks:
            nonempty = [branch for branch in branches if any(branch.lines())]
            for number, branch in enumerate(nonempty, start=1):
                yield 0, None, math.nan, f"part {number} of {len(nonempty)}, disjoint"
                for depth, times, epsilon, name in branch.lines():
                    yield depth + 1, times, epsilon, name
