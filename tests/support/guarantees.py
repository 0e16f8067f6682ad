"""Guarantees of releases that never took place, for tests of what counts them."""

from sktensordp.privacy import PrivacyGuarantee
from sktensordp.privacy.accounting._events import (
    PureDpEvent,
    SamplerResidualDpEvent,
    TableDpEvent,
)

__all__ = [
    "PureDpEvent", "SamplerResidualDpEvent", "TableDpEvent", "guarantee", "pure",
]  # fmt: skip


def guarantee(event, delta=0.0, **fields):
    """The guarantee of an event, for one sample unless the fields say otherwise."""
    said = {"unit": "sample", "statement": "A release.", "source": "A theorem"}
    return PrivacyGuarantee.of(event, delta=delta, **said | fields)


def pure(epsilon, **fields):
    return guarantee(PureDpEvent(epsilon), **fields)
