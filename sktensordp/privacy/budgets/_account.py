"""What was released so far: about the same data, and about disjoint parts of it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from dp_accounting import DpEvent, dp_event

from .._guarantee import PrivacyGuarantee
from ..accounting._events import ParallelDpEvent
from ._filter import Totals

__all__ = ["Account"]


@dataclass
class Account:
    """Releases about the same data, and blocks of accounts of disjoint parts of it."""

    # What was released by what, and how often in a row.
    releases: list[tuple[str, PrivacyGuarantee, int]] = field(default_factory=list)
    blocks: list[list["Account"]] = field(default_factory=list)
    own: Totals = field(default_factory=Totals)

    def record(self, name: str, guarantee: PrivacyGuarantee, totals: Totals) -> None:
        """One release more."""
        self.own = self.own + totals
        last = self.releases[-1] if self.releases else None
        if last and last[0] == name and last[1] == guarantee:
            self.releases[-1] = (name, guarantee, last[2] + 1)
        else:
            self.releases.append((name, guarantee, 1))

    def total(
        self, where: "Account | None" = None, more: Totals | None = None
    ) -> Totals:
        """Sums for the record of which most is revealed, with `more` in one account."""
        found = self.own
        if self is where and more is not None:
            found = found + more
        for parts in self.blocks:
            together = Totals()
            for part in parts:
                together |= part.total(where, more)
            found = found + together
        return found

    def event(
        self, where: "Account | None" = None, more: DpEvent | None = None
    ) -> DpEvent | None:
        """What happened, with one event `more` in one account; None if nothing."""
        events = [
            dp_event.SelfComposedDpEvent(guarantee.event, count)
            for _, guarantee, count in self.releases
        ]
        if self is where:
            events.append(more)
        for parts in self.blocks:
            inside = [part.event(where, more) for part in parts]
            found = [event for event in inside if event is not None]
            if found:
                events.append(ParallelDpEvent(found))
        return dp_event.ComposedDpEvent(tuple(events)) if events else None

    def guarantees(self) -> Iterator[PrivacyGuarantee]:
        """All that were recorded."""
        yield from (guarantee for _, guarantee, _ in self.releases)
        for parts in self.blocks:
            for part in parts:
                yield from part.guarantees()

    def lines(self) -> Iterator[tuple[int, int | None, float, str]]:
        """What was released: depth, times, epsilon and by what, from top to bottom."""
        for name, guarantee, count in self.releases:
            yield 0, count, guarantee.epsilon, name
        for parts in self.blocks:
            inside = [part for part in parts if any(part.guarantees())]
            for number, part in enumerate(inside, start=1):
                yield 0, None, math.nan, f"part {number} of {len(inside)}, disjoint"
                for depth, times, epsilon, name in part.lines():
                    yield depth + 1, times, epsilon, name
