"""What happened, sorted by how it composes.

An event is read into ledgers. Where releases were about disjoint parts of the data
there are several, one for every part that a record may be in; what holds for each of
them holds for the event.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from dp_accounting import dp_event

from ._events import (
    ParallelDpEvent,
    ProjectionDpEvent,
    PureDpEvent,
    RevealingDpEvent,
    SamplerResidualDpEvent,
    SelectionDpEvent,
)
from ._pld import (
    PURE_EVENTS,
    pure_epsilon,
    pure_fraction,
    refuse_negative,
    rounded_up,
)

__all__ = ["Ledger", "read"]

# Added to a delta that comes out of a PLD, once and for every composed release.
_PLD_SLACK, _PLD_SLACK_EACH = 1e-12, 1e-15
# Beyond the largest nothing is protected; below the smallest mu is taken to be it.
_LARGEST_MU, _SMALLEST_MU = 1e6, 1e-150
# Where a record may be in so many combinations of parts, they are taken together.
_MOST_LEDGERS = 16


@dataclass
class Ledger:
    """The leaves of an event; not changed once read."""

    pure: Counter = field(default_factory=Counter)
    mu: float = 0.0
    # Gaussian noise on Poisson samples, by (sampling probability, mu).
    sampled: Counter = field(default_factory=Counter)
    # Releases that are known by their curve alone: projections, and private choices.
    curves: Counter = field(default_factory=Counter)
    residual_epsilon: float = 0.0
    residual_delta: float = 0.0
    private: bool = True
    # Log of the probability that no release shows everything.
    log_hidden: float = 0.0

    def __hash__(self):
        kinds = (self.pure, self.sampled, self.curves)
        numbers = (self.mu, self.residual_epsilon, self.residual_delta, self.private)
        return hash((*(frozenset(kind.items()) for kind in kinds), *numbers))

    @cached_property
    def pure_epsilon(self):
        return _total_epsilon(self.pure)

    @property
    def whole_mu(self):
        """Mu if every sample were the whole: an upper bound without a PLD."""
        squares = (n * mu * mu for (_, mu), n in self.sampled.items())
        return math.hypot(self.mu, math.sqrt(math.fsum(squares)))

    @property
    def closed_form(self):
        """Whether the pure events and the Gaussian mu say it all."""
        return not self.sampled and not self.curves

    @property
    def only_pure(self):
        return self.closed_form and self.private and not self.mu

    @property
    def has_residual(self):
        return self.residual_epsilon > 0 or self.residual_delta > 0

    @property
    def shown(self):
        """Probability that some release shows everything."""
        return -math.expm1(self.log_hidden)

    @property
    def revealed(self):
        """The same, as much as a sampler may raise it."""
        return min(1.0, self.shown * math.exp(min(self.residual_epsilon, 700.0)))

    @property
    def hidden(self):
        """Probability that nothing is shown, by which other deltas are multiplied.

        Not that of a sampler: it may differ where everything is shown, too.
        """
        return 1.0 if self.residual_delta else 1.0 - self.shown

    @property
    def slack(self):
        """What is added to a delta that comes out of a PLD: its FFTs are rounded."""
        releases = self.pure + self.sampled + self.curves
        return _PLD_SLACK + _PLD_SLACK_EACH * releases.total()

    def __add__(self, other):
        """Both happened."""
        return Ledger(
            self.pure + other.pure,
            _mu_of_both(self.mu, other.mu),
            self.sampled + other.sampled,
            self.curves + other.curves,
            self.residual_epsilon + other.residual_epsilon,
            self.residual_delta + other.residual_delta,
            self.private and other.private,
            self.log_hidden + other.log_hidden,
        )

    def __or__(self, other):
        """A ledger that says no less than either."""
        pure = self.pure | other.pure
        if self.only_pure and other.only_pure:
            # Randomised response says as much as any pure release of its epsilon.
            most = max(self.pure_epsilon, other.pure_epsilon)
            pure = min(Counter({PureDpEvent(most): 1}), pure, key=_total_epsilon)
        return Ledger(
            pure,
            max(self.mu, other.mu),
            self.sampled | other.sampled,
            self.curves | other.curves,
            max(self.residual_epsilon, other.residual_epsilon),
            max(self.residual_delta, other.residual_delta),
            self.private and other.private,
            min(self.log_hidden, other.log_hidden),
        )

    def covers(self, other):
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


def _mu_of_both(one, other):
    """Mu of two Gaussian releases, rounded up."""
    if one == 0 or other == 0:
        return max(one, other)
    return math.nextafter(math.hypot(one, other), math.inf)


def _total_epsilon(pure):
    """The exact sum of pure epsilons, rounded up."""
    parts = (n * pure_fraction(event) for event, n in pure.items())
    return rounded_up(sum(parts, Fraction(0)))


def read(event):
    """Ledgers of an event.

    Parameters
    ----------
    event : DpEvent

    Returns
    -------
    ledgers : tuple of Ledger
        One for every combination of parts that a record may be in, but those that
        another one covers.

    Raises
    ------
    NotImplementedError
        For an event that is not known.
    """
    ledgers = tuple(_read(event, 1))
    for ledger in ledgers:
        if ledger.whole_mu > _LARGEST_MU or ledger.revealed == 1:
            ledger.private = False
    return ledgers


def _read(event, count):
    ledger, parallel = Ledger(), []
    _add(ledger, parallel, event, count)
    found = [ledger]
    for blocks, times in parallel:
        parts = [one for part in blocks.events for one in _read(part, 1)]
        found = _combined(found, _repeated(_undominated(parts), times))
    return found


def _combined(ledgers, others):
    """Ledgers in which one of each has happened."""
    return _few([one + other for one in ledgers for other in others])


def _repeated(ledgers, times):
    """Ledgers of so many releases, each about any of the parts."""
    found, power = [Ledger()], ledgers
    while times:
        if times % 2:
            found = _combined(found, power)
        times //= 2
        if times:
            power = _combined(power, power)
    return found


def _few(ledgers):
    """The same, or one in place of too many."""
    found = _undominated(ledgers)
    if len(found) <= _MOST_LEDGERS:
        return found
    together = found[0]
    for one in found[1:]:
        together = together | one
    return [together]


def _undominated(ledgers):
    kept: list[Ledger] = []
    for one in ledgers:
        if not any(other.covers(one) for other in kept):
            kept = [other for other in kept if not one.covers(other)] + [one]
    return kept


def _add(ledger, parallel, event, count):
    if count == 0 or isinstance(event, dp_event.NoOpDpEvent):
        return
    if isinstance(event, dp_event.ComposedDpEvent):
        for part in event.events:
            _add(ledger, parallel, part, count)
    elif isinstance(event, dp_event.SelfComposedDpEvent):
        refuse_negative(event.count)
        _add(ledger, parallel, event.event, count * event.count)
    elif isinstance(event, ParallelDpEvent):
        parallel.append((event, count))
    elif isinstance(event, dp_event.NonPrivateDpEvent):
        ledger.private = False
    elif isinstance(event, dp_event.GaussianDpEvent):
        refuse_negative(event.noise_multiplier)
        if event.noise_multiplier == 0:
            ledger.private = False
        elif not math.isinf(event.noise_multiplier):
            mu = max(math.sqrt(count) / event.noise_multiplier, _SMALLEST_MU)
            ledger.mu = _mu_of_both(ledger.mu, mu)
    elif isinstance(event, dp_event.PoissonSampledDpEvent):
        _add_sampled(ledger, parallel, event, count)
    elif isinstance(event, SelectionDpEvent):
        _add_selection(ledger, event, count)
    elif isinstance(event, ProjectionDpEvent):
        ledger.curves[event] += count
    elif isinstance(event, RevealingDpEvent):
        if event.probability == 1:
            ledger.private = False
        else:
            ledger.log_hidden += count * math.log1p(-event.probability)
            _add(ledger, parallel, event.event, count)
    elif isinstance(event, SamplerResidualDpEvent):
        ledger.residual_epsilon += count * event.epsilon
        ledger.residual_delta += count * event.delta
    elif isinstance(event, PURE_EVENTS):
        epsilon = pure_epsilon(event)
        if math.isinf(epsilon):
            ledger.private = False
        elif epsilon > 0:
            ledger.pure[event] += count
    else:
        raise NotImplementedError(
            f"There is no privacy accounting for events of type {type(event).__name__}."
        )


def _add_sampled(ledger, parallel, event, count):
    """A release about a Poisson sample; neighbours add or remove one record.

    Whatever is close for every sample is close on average, so that a residual stays
    what it is. A pure epsilon becomes ln(1 + q (e^epsilon - 1)). Where Gaussian and
    pure noise are about one sample, both tell whether a record is in it, and their
    amplified laws do not compose as if they were apart: they are not amplified. Nor
    are releases that show everything with some probability, or about parts.
    """
    rate = event.sampling_probability
    if not 0 <= rate <= 1:
        raise ValueError(f"A sampling probability is in [0, 1], got {rate}.")
    if rate == 0:
        return
    inner, *others = read(event.event)
    if rate < 1 and not all(one.closed_form for one in (inner, *others)):
        raise NotImplementedError(
            "There is no privacy accounting for samples of samples, of projections or "
            "of private choices."
        )
    both = inner.mu and inner.pure
    if rate == 1 or others or not inner.private or both or inner.revealed:
        _add(ledger, parallel, event.event, count)
        return
    ledger.residual_epsilon += count * inner.residual_epsilon
    ledger.residual_delta += count * inner.residual_delta
    if inner.mu:
        ledger.sampled[rate, inner.mu] += count
    if inner.pure:
        epsilon = inner.pure_epsilon
        if epsilon < 700:
            amplified = math.log1p(rate * math.expm1(epsilon))
        else:
            amplified = np.logaddexp(math.log1p(-rate), math.log(rate) + epsilon)
        amplified = math.nextafter(float(amplified) * (1 + 1e-12), math.inf)
        amplified = min(amplified, epsilon)
        ledger.pure[PureDpEvent(amplified)] += count


def _add_selection(ledger, event, count):
    """The best of releases that are pure is pure: what it shows of which is a shift."""
    from ._selection import pure_selection, selection_curve

    if not selection_curve(event).protects:
        ledger.private = False
        return
    epsilon = pure_selection(event)
    if math.isfinite(epsilon):
        ledger.pure[PureDpEvent(epsilon)] += count
    else:
        ledger.curves[event] += count
