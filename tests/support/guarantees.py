"""Guarantees of releases that never took place, for tests of what counts them."""

from sktensordp.privacy import PrivacyGuarantee
from tests.support.events import Pure


def guarantee(event, delta=0.0, **fields):
    """The guarantee of an event, for one sample unless the fields say otherwise."""
    said = {"unit": "sample", "statement": "A release.", "source": "A theorem"}
    return PrivacyGuarantee.from_event(event, delta=delta, **said | fields)


def pure(epsilon, **fields):
    return guarantee(Pure(epsilon), **fields)
