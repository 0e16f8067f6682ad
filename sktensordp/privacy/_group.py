"""Guarantees of groups: what holds for several units that change together."""

import math
import re
from typing import Any

from ._numbers import checked_integer

_GROUP = re.compile(r"(.*), any (\d+) together")
_SOURCE = "Dong, Roth and Su (2022), group privacy"


def split_relation(relation: str) -> tuple[str, int]:
    """The relation of one unit, and the number of units that change together."""
    match = _GROUP.fullmatch(relation)
    return (match[1], int(match[2])) if match else (relation, 1)


def group_relation(relation: str, size: int) -> str:
    """The relation of data sets that differ in up to `size` units."""
    return relation if size == 1 else f"{relation}, any {size} together"


def for_group(guarantee: Any, size: int, *, local: bool, delta: float | None) -> Any:
    """The guarantee of `size` units together: see `PrivacyGuarantee.for_group`."""
    from dp_accounting import dp_event

    from .accounting._curves import event_epsilon
    from .accounting._events import GroupDpEvent, ShuffledDpEvent, kinds_in

    size = checked_integer(size, "size")
    if not 1 <= size < 2**31:
        raise ValueError(f"size must be from 1 to 2**31 - 1, got {size}.")
    relation, size_of_one = split_relation(guarantee.relation)
    if local and not (
        relation == "replace-one" and guarantee.unit in ("sample", "entry")
    ):
        raise ValueError(
            f"local=True is for units that are randomised one by one, which unit="
            f"{guarantee.unit!r} with relation {relation!r} does not allow. Leave it "
            f"out."
        )
    if local and guarantee.local is False:
        raise ValueError(
            "local=True is for units that are randomised one by one, but this release "
            "has noise on what several units have in common, such as a sum. Leave it "
            "out."
        )
    if local and ShuffledDpEvent in kinds_in(guarantee.event):
        raise ValueError(
            "local=True is for messages that are randomised one by one. These were "
            "shuffled together, and several units in one shuffle are a group. Leave it "
            "out."
        )
    if size == 1 and delta is None:
        return guarantee
    how = ", each randomised by itself" if local else ""
    if local:
        event = dp_event.SelfComposedDpEvent(guarantee.event, size)
    else:
        event = GroupDpEvent(guarantee.event, size)
    if delta is None:
        delta = guarantee.delta
        if guarantee.protects and math.isinf(event_epsilon(event, delta)):
            larger = _group_delta(guarantee.epsilon, delta, size, local)
            # A little more, so that rounding does not lose the epsilon.
            delta = larger * (1 + 1e-6) if larger < 0.999 else delta
    claimed = guarantee.claimed
    if claimed is not None:
        epsilon, claim = claimed
        claim = _group_delta(epsilon, claim, size, local)
        claimed = size * epsilon, min(claim, math.nextafter(1.0, 0.0))
    source = guarantee.source
    if not local and _SOURCE not in source.split("; "):
        source = f"{source}; {_SOURCE}"
    return guarantee.derived(
        event,
        delta=delta,
        relation=group_relation(relation, size * size_of_one),
        statement=f"{guarantee.statement} For any {size * size_of_one} units{how}.",
        source=source,
        claimed=claimed,
    )


def _group_delta(epsilon: float, delta: float, size: int, local: bool) -> float:
    """Delta at size * epsilon, by basic composition or by the steps of a group."""
    if local or epsilon == 0 or delta == 0:
        return size * delta
    if size * epsilon > 700:
        return math.inf
    return delta * math.expm1(size * epsilon) / math.expm1(epsilon)
