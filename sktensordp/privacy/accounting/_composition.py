"""The releases about one record, sorted by how they compose."""

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from ._events import PureDpEvent
from ._pld import group_of_pure, pure_fraction, rounded_up

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# What is added to a delta from a PLD: once, and for every composed release.
_PLD_SLACK, _PLD_SLACK_EACH = 1e-12, 1e-15


@dataclass
class Composition:
    """Releases about the same data; filled while an event is read, constant after it.

    Attributes
    ----------
    pure : Counter of DpEvent
        Releases with a finite pure epsilon.
    mu : float
        Mu of all Gaussian noise on whole data.
    sampled : Counter of (float, float)
        Gaussian noise on Poisson samples, by (sampling probability, mu).
    curves : Counter of DpEvent
        Releases that are known only by their curves: private choices, shuffled
        messages, and some releases as a group of units sees them.
    residual_epsilon, residual_delta : float
        Distance of the samplers from their ideal distributions.
    private : bool
        Whether any guarantee can hold at all.
    log_hidden : float
        Log of the probability that no release reveals everything.
    """

    pure: Counter["DpEvent"] = field(default_factory=Counter)
    mu: float = 0.0
    sampled: Counter[tuple[float, float]] = field(default_factory=Counter)
    curves: Counter["DpEvent"] = field(default_factory=Counter)
    residual_epsilon: float = 0.0
    residual_delta: float = 0.0
    private: bool = True
    log_hidden: float = 0.0

    def __hash__(self) -> int:
        counters = (self.pure, self.sampled, self.curves)
        numbers = (self.mu, self.residual_epsilon, self.residual_delta, self.private)
        return hash((*(frozenset(c.items()) for c in counters), *numbers))

    @cached_property
    def pure_epsilon(self) -> float:
        """Sum of the pure epsilons."""
        return _total_epsilon(self.pure)

    @property
    def unsampled_mu(self) -> float:
        """Mu as if every sample were the whole data: an upper bound without a PLD."""
        squares = (n * mu * mu for (_, mu), n in self.sampled.items())
        return math.hypot(self.mu, math.sqrt(math.fsum(squares)))

    @property
    def closed_form(self) -> bool:
        """Whether all releases are pure or Gaussian noise on whole data."""
        return not self.sampled and not self.curves

    @property
    def only_pure(self) -> bool:
        """Whether all releases are pure."""
        return self.closed_form and self.private and not self.mu

    @property
    def has_residual(self) -> bool:
        """Whether a sampler differs from its ideal distribution."""
        return self.residual_epsilon > 0 or self.residual_delta > 0

    @property
    def reveal_probability(self) -> float:
        """Probability that some release reveals everything."""
        return -math.expm1(self.log_hidden)

    @property
    def reveal_delta(self) -> float:
        """The delta due to that: its probability, raised as far as samplers may."""
        factor = math.exp(min(self.residual_epsilon, 700.0))
        return min(1.0, self.reveal_probability * factor)

    @property
    def hidden_probability(self) -> float:
        """Factor for the other deltas: the probability that nothing is revealed.

        It is 1 if samplers have a residual delta, because a sampler may also differ
        where everything is revealed.
        """
        return 1.0 if self.residual_delta else 1.0 - self.reveal_probability

    @property
    def slack(self) -> float:
        """What is added to a delta from a PLD, because its FFTs are rounded."""
        releases = self.pure + self.sampled + self.curves
        return _PLD_SLACK + _PLD_SLACK_EACH * releases.total()

    def __add__(self, other: "Composition") -> "Composition":
        """The releases of both."""
        return Composition(
            self.pure + other.pure,
            composed_mu(self.mu, other.mu),
            self.sampled + other.sampled,
            self.curves + other.curves,
            self.residual_epsilon + other.residual_epsilon,
            self.residual_delta + other.residual_delta,
            self.private and other.private,
            self.log_hidden + other.log_hidden,
        )

    def __or__(self, other: "Composition") -> "Composition":
        """A composition that reveals no less than either."""
        pure = self.pure | other.pure
        if self.only_pure and other.only_pure:
            # No pure release reveals more than randomised response of its epsilon.
            largest = max(self.pure_epsilon, other.pure_epsilon)
            pure = min(Counter({PureDpEvent(largest): 1}), pure, key=_total_epsilon)
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

    def for_group(self, size: int) -> "Composition | None":
        """The releases as `size` units together see them; None if only a curve tells.

        Each release is compared on inputs that differ in all these units. By the
        theorem in `_group_curve`,

        - Gaussian noise of mu becomes size mu;
        - Laplace noise, discrete or not, is as if its sensitivity were size times as
          large: two shifts have the same best tests, so that F_s(F_t) = F_{s+t};
        - a pure release becomes discrete Laplace noise of rate epsilon on integers that
          are `size` apart, because for randomised response F(a) = min(e^epsilon a,
          1 - e^-epsilon (1 - a)), whose iterates are the curves of that noise.

        What holds for each release of the group composes. A residual may count only the
        part of the output that one unit changes, so there are `size` of them.
        """
        if not self.closed_form or self.log_hidden:
            return None
        pure: Counter[DpEvent] = Counter()
        for event, count in self.pure.items():
            pure[group_of_pure(event, size)] += count
        return Composition(
            pure,
            math.nextafter(size * self.mu, math.inf) if self.mu else 0.0,
            residual_epsilon=size * self.residual_epsilon,
            residual_delta=size * self.residual_delta,
            private=self.private,
        )

    def covers(self, other: "Composition") -> bool:
        """Whether this contains every release of `other`."""
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


def composed_mu(first: float, second: float) -> float:
    """Mu of two Gaussian releases, rounded up."""
    if first == 0 or second == 0:
        return max(first, second)
    return math.nextafter(math.hypot(first, second), math.inf)


def _total_epsilon(pure: Counter["DpEvent"]) -> float:
    """The exact sum of pure epsilons, rounded up."""
    terms = (n * pure_fraction(event) for event, n in pure.items())
    return rounded_up(sum(terms, Fraction(0)))
