"""Which messages may be shuffled, and what shuffling guarantees."""

import math
from typing import TYPE_CHECKING, Any

from ._numbers import check_number, checked_integer, exact, shown

if TYPE_CHECKING:
    from .accounting._events import ShuffledDpEvent

_BLANKET = "Balle, Bell, Gascón and Nissim (2019), Lemmas 5.1 to 5.3"
_BITS = "the theorem for two messages in doc/shuffling.md"
_CLONES = "Feldman, McMillan and Talwar (2021), Theorem 3.2"
_APPROXIMATE = "Dwork and Roth (2014), Lemma 3.17"
# Shuffling that saves less than this share of epsilon is refused.
_LEAST_GAIN = 1e-3


def shuffled_event(guarantee: Any, n_messages: int) -> "ShuffledDpEvent":
    """The event of shuffling messages that each have this guarantee.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
    n_messages : int

    Raises
    ------
    TypeError
        If `n_messages` is not an integer.
    ValueError
        If `n_messages` is less than 2, or if no theorem covers the guarantee.
    """
    from .accounting._events import ShuffledDpEvent

    n_messages = checked_integer(n_messages, "n_messages")
    if not 2 <= n_messages < 2**53:
        raise ValueError(
            f"n_messages must be from 2 to 2**53 - 1, got {n_messages}. One message "
            f"hides among at least one other."
        )
    if isinstance(guarantee.event, ShuffledDpEvent):
        raise ValueError(
            "These messages are already shuffled. For several rounds, each with fresh "
            "noise and a shuffle of its own, call repeated or compose."
        )
    if guarantee.unit == "entry":
        raise ValueError(
            "Shuffling does not help values that are sent with their coordinates: "
            "coordinates are public and show who sent which value, in any order. "
            "Shuffle messages that carry nothing but a randomised value."
        )
    if guarantee.relation != "replace-one":
        raise ValueError(
            f"Shuffling needs a guarantee for replacing one person's value, but this "
            f"one has relation {guarantee.relation!r}. Let each person randomise their "
            f"own value, by a mechanism with `bounds` or `norm_bound`."
        )
    if not guarantee.protects:
        raise ValueError(
            "Shuffling needs messages with a finite epsilon of their own, but these "
            "have none: pass the mechanism a finite epsilon, and declare its domain by "
            "`bounds` or `norm_bound`."
        )
    if not guarantee.local:
        raise ValueError(
            "Shuffling needs the guarantee of one message per person, randomised by "
            "itself: one of a mechanism with declared `bounds` or `norm_bound`, or of "
            "an encoder's client. This guarantee is not known to be of that kind. "
            "Shuffle before you compose: guarantee.shuffled(n_messages).repeated(3), "
            "not guarantee.repeated(3).shuffled(n_messages)."
        )
    return ShuffledDpEvent(guarantee.event, n_messages)


def shuffled(guarantee: Any, n_messages: int, delta: float) -> Any:
    """The guarantee that `PrivacyGuarantee.shuffled` returns."""
    from .accounting._curves import curve_of, event_epsilon
    from .accounting._shuffling import added_delta

    check_number(delta, "delta")
    event = shuffled_event(guarantee, n_messages)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta}.")
    curve = curve_of(event)
    is_pure = math.isfinite(curve.pure_epsilon)
    least = (1 - _LEAST_GAIN) * guarantee.epsilon_at(delta)
    if not is_pure and not event_epsilon(event, delta) < least:
        if delta == 0:
            raise ValueError("A message has a delta of its own, so pass delta > 0.")
        needed = delta / 2 / added_delta(guarantee.epsilon, event.n_messages, 0.0)
        raise ValueError(
            f"At delta = {exact(delta)}, shuffling {event.n_messages:,} messages gains "
            f"nothing: the delta of all messages adds up. At epsilon = "
            f"{shown(guarantee.epsilon)}, a message needs a delta of at most "
            f"{needed:.1g}. Use more noise, or a mechanism with delta = 0."
        )
    sources = [_BITS if curve.bits else _BLANKET if curve.pairs else _CLONES]
    sources += [] if is_pure else [_APPROXIMATE]
    return guarantee.derived(
        event,
        delta=delta,
        statement=(
            f"Shuffled messages, one a person: they are passed on in random order, "
            f"with nothing that shows who sent which, and at least "
            f"{event.n_messages:,} of them, the person's own included, are randomised "
            f"as agreed. Each message: {guarantee.statement}"
        ),
        source="; ".join([*sources, guarantee.source]),
    )
