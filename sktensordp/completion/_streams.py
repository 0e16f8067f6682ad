"""What several releases of one object reveal together, and where they were observed."""

import math
from dataclasses import replace

import numpy as np

from ..privacy import PrivacyGuarantee

__all__ = ["as_coordinates", "repeated", "together"]


def as_coordinates(where):
    """Coordinates, also of what a mask marks."""
    if where.dtype != bool:
        return where
    return np.stack(np.nonzero(where), axis=1, dtype=np.int32)


def together(one, other):
    """What releases of disjoint entries reveal: no more than the worse of the two."""
    from ..privacy._events import PureDpEvent

    if one.event == other.event:
        return one
    worse = one if one.epsilon >= other.epsilon else other
    if math.isinf(worse.epsilon):
        return worse
    # Below its epsilon, the worse one need not have the larger delta.
    return replace(worse, event=PureDpEvent(worse.epsilon))


def repeated(guarantee, times):
    """What `times` releases with a guarantee reveal together."""
    from dp_accounting import dp_event

    if times == 1:
        return guarantee
    return PrivacyGuarantee.of(
        dp_event.SelfComposedDpEvent(guarantee.event, times),
        unit=guarantee.unit,
        statement=(
            f"{guarantee.statement} Some coordinates were passed in {times} calls, "
            "each of which drew a value for them."
        ),
        source=f"{guarantee.source}; sequential composition",
        claimed=guarantee.claimed,
    )
