"""Conditions of guarantees: whom one has to trust, and who may see what.

They are clauses of a closed vocabulary, so that the file of a budget can store them.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

# Shuffled messages, sampled records and selected tries are protected because something
# stays secret, so their events imply these conditions.
SHUFFLER = "if the shuffler is trusted"
SECRET_SAMPLE = "if the sample stays secret"
SECRET_TRIES = "if the number of tries stays secret"
# For units whose answers are also computed from their own entries.
OWN_ANSWERS = "if answers for a person are shown to that person only"
# For models that project samples without noise.
PROJECTIONS = "if projections of the samples are not shown without noise"
# For fits to what clients send.
CLIENTS = "if clients randomised each value once, with these parameters"
EXACT_SUMS = "if nobody but a trusted server sees the exact sums"
ONE_SUM = "if each request reveals one sum only, of no fewer answers than planned"
COLLUDERS = "if no more parties collude than planned"
VOCABULARY = (
    SHUFFLER,
    SECRET_SAMPLE,
    SECRET_TRIES,
    OWN_ANSWERS,
    PROJECTIONS,
    CLIENTS,
    EXACT_SUMS,
    ONE_SUM,
    COLLUDERS,
)


def united(conditions: Iterable[str], event: "DpEvent") -> tuple[str, ...]:
    """Conditions and those that an event implies, each once, sorted.

    Raises
    ------
    ValueError
        If one of them is not in the vocabulary.
    """
    from dp_accounting import dp_event

    from .accounting._events import SelectionDpEvent, ShuffledDpEvent, kinds_in

    conditions = (conditions,) if isinstance(conditions, str) else tuple(conditions)
    for condition in conditions:
        if condition not in VOCABULARY:
            raise ValueError(
                f"conditions must be among {list(VOCABULARY)}, got {condition!r}."
            )
    implied = {
        ShuffledDpEvent: SHUFFLER,
        dp_event.PoissonSampledDpEvent: SECRET_SAMPLE,
        SelectionDpEvent: SECRET_TRIES,
    }
    kinds = kinds_in(event)
    found = {text for kind, text in implied.items() if kind in kinds}
    return tuple(sorted(found.union(conditions)))


def clauses(conditions: Sequence[str]) -> str:
    """Conditions at the end of a sentence; "" if there are none."""
    return f", {' and '.join(conditions)}" if conditions else ""
