"""Events that dp-accounting lacks.

They are frozen, and subclass dp-accounting's `DpEvent` so that its composed events can
contain them. Importing this module imports dp-accounting; the package does so only when
it creates a guarantee.
"""

from fractions import Fraction
from typing import Any

import attrs
from attrs.validators import and_, deep_iterable, ge, instance_of, le, min_len
from dp_accounting import DpEvent, dp_event

from ._randomized_response import LevelDistribution
from ._repetitions import RepetitionDistribution

__all__ = [
    "GroupDpEvent",
    "LatticeLaplaceDpEvent",
    "ParallelDpEvent",
    "PureDpEvent",
    "RandomizedResponseDpEvent",
    "RevealingDpEvent",
    "SamplerResidualDpEvent",
    "SelectionDpEvent",
    "ShuffledDpEvent",
    "TableDpEvent",
    "hashable",
    "kinds_in",
]


@attrs.frozen
class PureDpEvent(DpEvent):
    """A release that is known only by its pure epsilon.

    Its dominating pair is binary randomised response with the same epsilon
    (Kairouz, Oh and Viswanath 2017, Theorem 3.2).

    Attributes
    ----------
    epsilon : float
        The pure epsilon, at least 0.
    """

    epsilon: float = attrs.field(validator=ge(0))


@attrs.frozen
class LatticeLaplaceDpEvent(dp_event.DiscreteLaplaceDpEvent):
    """Discrete Laplace noise on a lattice, with its exact rate.

    Attributes
    ----------
    rate : Fraction
        At most `noise_parameter`, which is `rate` rounded up to a float.
    """

    rate: Fraction = attrs.field(validator=instance_of(Fraction))

    @classmethod
    def from_lattice(cls: Any, lattice: Any, n_steps: Any) -> "LatticeLaplaceDpEvent":
        """The noise of a LaplaceLattice, for values that are `n_steps` apart."""
        rate = Fraction(lattice.numerator, lattice.denominator)
        return cls(lattice.rate, int(n_steps), rate)


@attrs.frozen
class TableDpEvent(DpEvent):
    """One symbol drawn from a secret row of a public table.

    Attributes
    ----------
    weights : tuple of tuple of int
        One row per secret value; the probability of symbol j in row i is
        ``weights[i][j] / sum(weights[i])``. All rows have the same sum.
    """

    weights: tuple[tuple[int, ...], ...] = attrs.field(
        repr=lambda rows: f"<{len(rows)} x {len(rows[0])}>"
    )

    @weights.validator
    def _check_weights(self, _: object, weights: tuple[tuple[int, ...], ...]) -> None:
        if len({sum(row) for row in weights}) != 1 or min(map(min, weights)) < 0:
            raise ValueError(
                "`weights` must be >= 0, and all rows must have the same sum."
            )


@attrs.frozen
class RandomizedResponseDpEvent(DpEvent):
    """One level of a scale, kept or moved at random.

    Attributes
    ----------
    distribution : LevelDistribution
        Distribution of the output if the level is not kept.
    keep : float
        Probability that the level is kept, in [0, 1].
    """

    distribution: LevelDistribution = attrs.field(
        validator=instance_of(LevelDistribution)
    )
    keep: float = attrs.field(validator=and_(ge(0), le(1)))


@attrs.frozen
class RevealingDpEvent(DpEvent):
    """A release that reveals everything with some probability.

    Attributes
    ----------
    probability : float
        Probability of revealing everything, in [0, 1].
    event : DpEvent
        What the release does otherwise.
    """

    probability: float = attrs.field(validator=and_(ge(0), le(1)))
    event: DpEvent = attrs.field(validator=instance_of(DpEvent))


@attrs.frozen
class ParallelDpEvent(DpEvent):
    """Releases about disjoint parts of the data: a record is in at most one part.

    Attributes
    ----------
    events : tuple of DpEvent
        The release about each part; at least one.
    """

    events: tuple[DpEvent, ...] = attrs.field(
        converter=tuple,
        validator=[min_len(1), deep_iterable(instance_of(DpEvent))],
    )


def hashable(event: DpEvent) -> DpEvent:
    """The same event, with tuples in place of lists: dp-accounting composes lists.

    Anything that is not an event stays as it is.
    """
    if not isinstance(event, DpEvent):
        return event
    changes: dict[str, Any] = {}
    for field in attrs.fields(type(event)):
        value = getattr(event, field.name)
        if isinstance(value, list | tuple):
            changes[field.name] = tuple(map(hashable, value))
        elif isinstance(value, DpEvent):
            changes[field.name] = hashable(value)
    return attrs.evolve(event, **changes) if changes else event


@attrs.frozen
class SelectionDpEvent(DpEvent):
    """The best, by score, of a random number of independent tries.

    Only the best try and its score are released.

    Attributes
    ----------
    event : DpEvent
        What one try would release, including its score.
    distribution : RepetitionDistribution
        Distribution of the number of tries, which stays secret.
    """

    event: DpEvent = attrs.field(validator=instance_of(DpEvent), converter=hashable)
    distribution: RepetitionDistribution = attrs.field(
        validator=instance_of(RepetitionDistribution)
    )


@attrs.frozen
class GroupDpEvent(DpEvent):
    """A release, compared on inputs that differ in several units at once.

    Attributes
    ----------
    event : DpEvent
        The release, for inputs that differ in one unit.
    size : int
        Largest number of units that differ, at least 1.
    """

    event: DpEvent = attrs.field(validator=instance_of(DpEvent), converter=hashable)
    size: int = attrs.field(validator=ge(1))


@attrs.frozen
class ShuffledDpEvent(DpEvent):
    """Messages of several people in random order; neighbours replace one value.

    Attributes
    ----------
    event : DpEvent
        The release of one message; everybody uses the same randomizer.
    n_messages : int
        Number of messages, at least 2.
    """

    event: DpEvent = attrs.field(validator=instance_of(DpEvent), converter=hashable)
    n_messages: int = attrs.field(validator=and_(instance_of(int), ge(2)))


@attrs.frozen
class SamplerResidualDpEvent(DpEvent):
    """The distance between a sampler and its ideal distribution.

    With P the distribution that is sampled and Q the ideal one, every set S of outputs
    has P(S) <= e^epsilon Q(S) + delta for every input, and the same with P and Q
    exchanged. Compose it with the event of the ideal distribution.

    Parameters
    ----------
    epsilon, delta : float
        The distance, both at least 0.

    See Also
    --------
    sktensordp.mechanisms.gaussian_event : Both events of Gaussian noise on a lattice.

    Notes
    -----
    If the ideal release has a curve delta(e), the sampled one has, at every e,
    e^epsilon delta(e - 2 epsilon) + delta (1 + e^(e - epsilon)).

    Examples
    --------
    >>> from dp_accounting import dp_event
    >>> from sktensordp.privacy import PrivacyGuarantee, SamplerResidualDpEvent
    >>> residual = SamplerResidualDpEvent(epsilon=1e-3, delta=0.0)
    >>> event = dp_event.ComposedDpEvent([dp_event.LaplaceDpEvent(2.0), residual])
    >>> PrivacyGuarantee.from_event(
    ...     event, unit="sample", statement="Laplace noise, nearly.",
    ...     source="Dwork et al. (2006)").epsilon
    0.502
    """

    epsilon: float = attrs.field(validator=ge(0))
    delta: float = attrs.field(validator=ge(0))


def kinds_in(event: DpEvent) -> set[type[DpEvent]]:
    """The types of an event and of all events that it contains."""
    kinds: set[type[DpEvent]] = set()
    pending: list[Any] = [event]
    while pending:
        value = pending.pop()
        if isinstance(value, list | tuple):
            pending += value
        elif isinstance(value, DpEvent):
            kinds.add(type(value))
            pending += [getattr(value, f.name) for f in attrs.fields(type(value))]
    return kinds
