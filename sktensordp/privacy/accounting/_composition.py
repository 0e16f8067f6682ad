"""What happened to one record, sorted by how it composes."""

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from ._events import PureDpEvent
from ._pld import pure_fraction, rounded_up

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["Composition", "mu_of_both"]

# Added to a delta that comes out of a PLD, once and for every composed release.
_PLD_SLACK, _PLD_SLACK_EACH = 1e-12, 1e-15


@dataclass
class Composition:
    """The leaves of an event; not changed once read."""

    pure: Counter["DpEvent"] = field(default_factory=Counter)
    mu: float = 0.0
    # Gaussian noise on Poisson samples, by (sampling probability, mu).
    sampled: Counter[tuple[float, float]] = field(default_factory=Counter)
    # Releases that are known by their curve alone: projections, and private choices.
    curves: Counter["DpEvent"] = field(default_factory=Counter)
    residual_epsilon: float = 0.0
    residual_delta: float = 0.0
    private: bool = True
    # Log of the probability that no release shows everything.
    log_hidden: float = 0.0

    def __hash__(self) -> int:
        kinds = (self.pure, self.sampled, self.curves)
        numbers = (self.mu, self.residual_epsilon, self.residual_delta, self.private)
        return hash((*(frozenset(kind.items()) for kind in kinds), *numbers))

    @cached_property
    def pure_epsilon(self) -> float:
        return _total_epsilon(self.pure)

    @property
    def whole_mu(self) -> float:
        """Mu if every sample were the whole: an upper bound without a PLD."""
        squares = (n * mu * mu for (_, mu), n in self.sampled.items())
        return math.hypot(self.mu, math.sqrt(math.fsum(squares)))

    @property
    def closed_form(self) -> bool:
        """Whether the pure events and the Gaussian mu say it all."""
        return not self.sampled and not self.curves

    @property
    def only_pure(self) -> bool:
        return self.closed_form and self.private and not self.mu

    @property
    def has_residual(self) -> bool:
        return self.residual_epsilon > 0 or self.residual_delta > 0

    @property
    def shown(self) -> float:
        """Probability that some release shows everything."""
        return -math.expm1(self.log_hidden)

    @property
    def revealed(self) -> float:
        """The same, as much as a sampler may raise it."""
        return min(1.0, self.shown * math.exp(min(self.residual_epsilon, 700.0)))

    @property
    def hidden(self) -> float:
        """Probability that nothing is shown, by which other deltas are multiplied.

        Not that of a sampler: it may differ where everything is shown, too.
        """
        return 1.0 if self.residual_delta else 1.0 - self.shown

    @property
    def slack(self) -> float:
        """What is added to a delta that comes out of a PLD: its FFTs are rounded."""
        releases = self.pure + self.sampled + self.curves
        return _PLD_SLACK + _PLD_SLACK_EACH * releases.total()

    def __add__(self, other: "Composition") -> "Composition":
        """Both happened."""
        return Composition(
            self.pure + other.pure,
            mu_of_both(self.mu, other.mu),
            self.sampled + other.sampled,
            self.curves + other.curves,
            self.residual_epsilon + other.residual_epsilon,
            self.residual_delta + other.residual_delta,
            self.private and other.private,
            self.log_hidden + other.log_hidden,
        )

    def __or__(self, other: "Composition") -> "Composition":
        """A ledger that says no less than either."""
        pure = self.pure | other.pure
        if self.only_pure and other.only_pure:
            # Randomised response says as much as any pure release of its epsilon.
            most = max(self.pure_epsilon, other.pure_epsilon)
            pure = min(Counter({PureDpEvent(most): 1}), pure, key=_total_epsilon)
        return Composition(
            pure,
            max(self.mu, other.mu),
            self.sampled | other.sampled,
            self.curves | other.curves,
            max(self.residual_epsilon, other.residual_epsilon),
            max(self.residual_delta, other.residual_delta),
            self.private and other.private,
            min(self.log_hidden, other.log_hidden),
        )

    def covers(self, other: "Composition") -> bool:
        """Whether everything in the other happened here, too."""
        return not self.private or (
            other.pure <= self.pure
            and other.mu <= self.mu
            and other.sampled <= self.sampled
            and other.curves <= self.curves
            and other.residual_epsilon <= self.residual_epsilon
            and other.residual_delta <= self.residual_delta
            and other.private
            and other.log_hidden >= self.log_hidden
        )


def mu_of_both(one: float, other: float) -> float:
    """Mu of two Gaussian releases, rounded up."""
    if one == 0 or other == 0:
        return max(one, other)
    return math.nextafter(math.hypot(one, other), math.inf)


def _total_epsilon(pure: Counter["DpEvent"]) -> float:
    """The exact sum of pure epsilons, rounded up."""
    parts = (n * pure_fraction(event) for event, n in pure.items())
    return rounded_up(sum(parts, Fraction(0)))
