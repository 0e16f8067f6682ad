"""What a composition of events guarantees.

Three regimes, decided by the events alone:

- pure events at delta = 0: their epsilons add up;
- Gaussian events: mu-GDP composes in closed form, mu^2 = sum mu_i^2;
- one release of random projections: its own curve;
- where a release shows everything with some probability, that probability is a delta;
- everything else: one privacy-loss distribution (PLD) per kind of event, built from
  that event's own dominating pair, and then composed by dp-accounting. No
  neighbouring relation is passed through: an event stands for one comparison of
  two inputs, whose sensitivity the mechanism has put into it.

A PLD carries an absolute rounding error near 1e-15 a convolution and cannot see a
tiny delta. Where basic composition (pure epsilons summed, plus the closed Gaussian
curve) or the optimal composition of pure releases is the smaller upper bound, it is
the answer.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np
from dp_accounting import dp_event
from scipy.optimize import minimize_scalar

from ._events import (
    ProjectionDpEvent,
    PureDpEvent,
    RevealingDpEvent,
    SamplerResidualDpEvent,
)
from ._gaussian import gaussian_delta, gaussian_epsilon
from ._johnson_lindenstrauss import projection_delta
from ._pld import (
    PURE_EVENTS,
    composed_pld,
    hockey_stick,
    pure_epsilon,
    refuse_negative,
)
from ._randomized_response import optimal_composition_delta

__all__ = ["compose_events", "event_delta", "event_epsilon", "event_renyi"]

# Added to a delta that comes out of a PLD, once and for every composed release.
_PLD_SLACK, _PLD_SLACK_EACH = 1e-12, 1e-15
# Beyond the largest nothing is protected; below the smallest mu is taken to be it.
_LARGEST_MU, _SMALLEST_MU = 1e6, 1e-150
# The optimal composition is a sum over as many terms as there are releases.
_MOST_TERMS = 2**17


def compose_events(events):
    """One event for several adaptive releases about the same data."""
    return dp_event.ComposedDpEvent(events=tuple(events))


def event_epsilon(event, delta):
    """Smallest epsilon known to hold at `delta`; infinity where there is none."""
    ledger = _read(event)
    left = (delta - ledger.revealed) / (1 - ledger.shown) if ledger.private else -1
    return _epsilon(ledger, left) if left >= 0 else math.inf


@lru_cache(maxsize=256)
def _epsilon(ledger, delta):
    if not ledger.private:
        return math.inf
    ideal = _ideal_epsilon(ledger, delta)
    if math.isinf(ideal) or not ledger.has_residual:
        return ideal
    # The curve of the sampler falls to a minimum a little to the right of the ideal
    # one, and then rises: look for its first passage through delta.
    low = ideal + 2 * ledger.residual_epsilon
    if _sampler_delta(ledger, low) <= delta:
        return low
    for high in low + max(low, 1.0) * np.geomspace(1e-12, 4.0, 130):
        if _sampler_delta(ledger, high) <= delta:
            break
        low = high
    else:
        return math.inf
    while high - low > 1e-13 * high + 1e-15:
        middle = (low + high) / 2
        if _sampler_delta(ledger, middle) <= delta:
            high = middle
        else:
            low = middle
    return float(high)


def event_delta(event, epsilon):
    """Smallest delta known to hold at `epsilon` >= 0."""
    ledger = _read(event)
    if not ledger.private:
        return 1.0
    return min(1.0, ledger.revealed + (1 - ledger.shown) * _delta(ledger, epsilon))


def _delta(ledger, epsilon):
    """Delta at `epsilon` where nothing is shown outright."""
    if not ledger.has_residual:
        return _ideal_delta(ledger, epsilon)
    start = 2 * ledger.residual_epsilon
    if epsilon < start:
        # (a, d)-DP is also (epsilon, d + e^a - e^epsilon)-DP for epsilon < a.
        growth = math.exp(epsilon) * math.expm1(start - epsilon)
        return min(1.0, _sampler_delta(ledger, start) + growth)
    if ledger.residual_delta:
        # The curve falls and then rises; from its minimum on, the minimum holds.
        end = max(start, -math.log(min(ledger.residual_delta, 1.0))) + 1
        lowest = minimize_scalar(
            lambda e: math.log(_sampler_delta(ledger, e)),
            bounds=(start, end), method="bounded", options={"xatol": 1e-4},
        ).x  # fmt: skip
        epsilon = min(epsilon, float(lowest))
    return _sampler_delta(ledger, epsilon)


def _sampler_delta(ledger, epsilon):
    """Delta at `epsilon` >= 2 e1 by the triangle of sampler, ideal law and sampler.

    P <= e^e1 Q + d1 on both sides of Q's (epsilon - 2 e1, delta).
    """
    e1, d1 = ledger.residual_epsilon, ledger.residual_delta
    ideal = _ideal_delta(ledger, max(epsilon - 2 * e1, 0.0))
    if d1 == 0:
        return min(1.0, math.exp(min(e1, 700.0)) * ideal)
    if max(e1, epsilon - e1) > 700:
        return 1.0
    return min(1.0, math.exp(e1) * ideal + d1 * (1 + math.exp(epsilon - e1)))


@dataclass
class _Ledger:
    """The leaves of an event, sorted by how they compose; not changed once read."""

    pure: Counter = field(default_factory=Counter)
    mu: float = 0.0
    # Gaussian noise on Poisson samples, by (sampling probability, mu).
    sampled: Counter = field(default_factory=Counter)
    projections: Counter = field(default_factory=Counter)
    residual_epsilon: float = 0.0
    residual_delta: float = 0.0
    private: bool = True
    # Log of the probability that no release shows everything.
    log_hidden: float = 0.0

    def __hash__(self):
        kinds = (self.pure, self.sampled, self.projections)
        numbers = (self.mu, self.residual_epsilon, self.residual_delta, self.private)
        return hash((*(frozenset(kind.items()) for kind in kinds), *numbers))

    @property
    def pure_epsilon(self):
        return math.fsum(n * pure_epsilon(event) for event, n in self.pure.items())

    @property
    def whole_mu(self):
        """Mu if every sample were the whole: an upper bound without a PLD."""
        squares = (n * mu * mu for (_, mu), n in self.sampled.items())
        return math.hypot(self.mu, math.sqrt(math.fsum(squares)))

    @property
    def closed_form(self):
        """Whether the pure events and the Gaussian mu say it all."""
        return not self.sampled and not self.projections

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
    def slack(self):
        """What is added to a delta that comes out of a PLD: its FFTs are rounded."""
        releases = self.pure + self.sampled + self.projections
        return _PLD_SLACK + _PLD_SLACK_EACH * releases.total()


def _read(event):
    ledger = _Ledger()
    _add(ledger, event, 1)
    if ledger.whole_mu > _LARGEST_MU or ledger.revealed == 1:
        ledger.private = False
    return ledger


def _add(ledger, event, count):
    if count == 0 or isinstance(event, dp_event.NoOpDpEvent):
        return
    if isinstance(event, dp_event.ComposedDpEvent):
        for part in event.events:
            _add(ledger, part, count)
    elif isinstance(event, dp_event.SelfComposedDpEvent):
        refuse_negative(event.count)
        _add(ledger, event.event, count * event.count)
    elif isinstance(event, dp_event.NonPrivateDpEvent):
        ledger.private = False
    elif isinstance(event, dp_event.GaussianDpEvent):
        refuse_negative(event.noise_multiplier)
        if event.noise_multiplier == 0:
            ledger.private = False
        elif not math.isinf(event.noise_multiplier):
            mu = max(math.sqrt(count) / event.noise_multiplier, _SMALLEST_MU)
            ledger.mu = math.hypot(ledger.mu, mu)
    elif isinstance(event, dp_event.PoissonSampledDpEvent):
        _add_sampled(ledger, event, count)
    elif isinstance(event, ProjectionDpEvent):
        ledger.projections[event] += count
    elif isinstance(event, RevealingDpEvent):
        if event.probability == 1:
            ledger.private = False
        else:
            ledger.log_hidden += count * math.log1p(-event.probability)
            _add(ledger, event.event, count)
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


def _add_sampled(ledger, event, count):
    """A release about a Poisson sample; neighbours add or remove one record.

    Whatever is close for every sample is close on average, so that a residual stays
    what it is. A pure epsilon becomes ln(1 + q (e^epsilon - 1)). Where Gaussian and
    pure noise are about one sample, both tell whether a record is in it, and their
    amplified laws do not compose as if they were apart: they are not amplified. Nor
    are releases that show everything with some probability.
    """
    rate = event.sampling_probability
    if not 0 <= rate <= 1:
        raise ValueError(f"A sampling probability is in [0, 1], got {rate}.")
    if rate == 0:
        return
    inner = _read(event.event)
    if rate < 1 and not inner.closed_form:
        raise NotImplementedError(
            "There is no privacy accounting for samples of samples or of projections."
        )
    both = inner.mu and inner.pure
    if rate == 1 or not inner.private or both or inner.revealed:
        _add(ledger, event.event, count)
        return
    ledger.residual_epsilon += count * inner.residual_epsilon
    ledger.residual_delta += count * inner.residual_delta
    if inner.mu:
        ledger.sampled[rate, inner.mu] += count
    if inner.pure:
        epsilon = inner.pure_epsilon
        if epsilon < 1:
            amplified = math.log1p(rate * math.expm1(epsilon))
        else:
            amplified = np.logaddexp(math.log1p(-rate), math.log(rate) + epsilon)
            amplified = min(float(amplified) * (1 + 1e-14), epsilon)
        ledger.pure[PureDpEvent(amplified)] += count


def _ideal_epsilon(ledger, delta):
    """Epsilon at `delta` of the composition without its samplers' residuals."""
    pure, mu = ledger.pure_epsilon, ledger.whole_mu
    if ledger.closed_form and mu == 0 and (delta == 0 or not ledger.pure):
        return pure
    if delta == 0:
        return math.inf
    basic = pure + (gaussian_epsilon(mu, delta) if mu else 0.0)
    if ledger.closed_form and mu == 0:
        basic = _optimal_epsilon(ledger, delta)
        if ledger.pure.total() == 1:
            return basic
    if ledger.projections:
        if pure == mu == 0 and ledger.projections.total() == 1:
            return _projection_epsilon(*ledger.projections, delta)
        share = delta / (ledger.projections.total() + 1)
        basic = pure + (gaussian_epsilon(mu, share) if mu else 0.0)
        for event, n in ledger.projections.items():
            basic += n * _projection_epsilon(event, share)
    if delta <= ledger.slack or (ledger.closed_form and not ledger.pure):
        return basic
    composed = _composed_pld(ledger)
    if composed is None:
        return basic
    return min(basic, float(composed.get_epsilon_for_delta(delta - ledger.slack)))


def _ideal_delta(ledger, epsilon):
    """Delta at `epsilon` of the composition without its samplers' residuals."""
    pure, mu = ledger.pure_epsilon, ledger.whole_mu
    if ledger.closed_form:
        if mu == 0 and (epsilon >= pure or ledger.pure.total() == 1):
            return _optimal_delta(ledger, epsilon)
        if not ledger.pure:
            return gaussian_delta(epsilon, mu)
    basic = gaussian_delta(epsilon - pure, mu) if mu and epsilon >= pure else 1.0
    if ledger.closed_form and mu == 0:
        basic = _optimal_delta(ledger, epsilon)
    if ledger.projections:
        if pure == mu == 0 and ledger.projections.total() == 1:
            (event,) = ledger.projections
            return float(projection_delta(epsilon, event.n_projections, event.tau))
        basic = 1.0
    if basic <= ledger.slack:
        return basic
    composed = _composed_pld(ledger)
    if composed is None:
        return basic
    found = max(float(composed.get_delta_for_epsilon(epsilon)), 0.0)
    return min(basic, found + ledger.slack)


def _optimal_delta(ledger, epsilon):
    """Delta at `epsilon` of pure releases: of one exactly, of more by the theorem."""
    n_releases = ledger.pure.total()
    if epsilon >= ledger.pure_epsilon:
        return 0.0
    if n_releases == 1:
        (event,) = ledger.pure
        return float(hockey_stick(event, np.array([epsilon]))[0])
    if n_releases > _MOST_TERMS:
        return 1.0
    largest = max(pure_epsilon(event) for event in ledger.pure)
    return optimal_composition_delta(largest, n_releases, epsilon)


def _optimal_epsilon(ledger, delta):
    """Inverse of that in `epsilon`, from above."""
    low, high = 0.0, ledger.pure_epsilon
    if _optimal_delta(ledger, low) <= delta:
        return low
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if _optimal_delta(ledger, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def event_renyi(event, order):
    """Renyi divergence of ideal noise at `order` > 1, for pure and Gaussian events."""
    ledger = _read(event)
    if not ledger.private or ledger.revealed:
        return math.inf
    if not ledger.closed_form:
        raise NotImplementedError(
            "Renyi divergences are known of pure and of Gaussian releases alone."
        )
    pure = math.fsum(
        n * _pure_renyi(pure_epsilon(e), order) for e, n in ledger.pure.items()
    )
    return pure + (order * ledger.mu**2 / 2 if ledger.mu else 0.0)


def _pure_renyi(epsilon, order):
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


def _projection_epsilon(event, delta):
    """Inverse of the curve of one release of projections, by bisection from above."""
    curve = partial(projection_delta, n_projections=event.n_projections, tau=event.tau)
    if curve(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while curve(high) > delta:
        low, high = high, 2 * high
        if high > 1e12:
            return math.inf
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if curve(middle) > delta:
            low = middle
        else:
            high = middle
    return high


def _composed_pld(ledger):
    """PLD of the composition of all that is not a residual; None if it is too wide."""
    kinds = (ledger.pure, ledger.sampled, ledger.projections)
    return composed_pld(*(frozenset(kind.items()) for kind in kinds), ledger.mu)
