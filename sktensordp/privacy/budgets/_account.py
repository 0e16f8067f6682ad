"""What was released so far: about the same data, and about disjoint parts of it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from dp_accounting import DpEvent, dp_event

from .._guarantee import PrivacyGuarantee
from ..accounting._events import ParallelDpEvent
from ._filter import Totals


@dataclass
class Account:
    """Releases about the same data, and blocks of releases about disjoint parts of it.

    A block has one branch for each disjoint part of the data. A branch is an account
    itself.
    """

    # Name, guarantee, and how often in a row.
    releases: list[tuple[str, PrivacyGuarantee, int]] = field(default_factory=list)
    blocks: list[list["Account"]] = field(default_factory=list)
    # Totals of `releases`, without the blocks.
    direct_totals: Totals = field(default_factory=Totals)

    def record(self, name: str, guarantee: PrivacyGuarantee, totals: Totals) -> None:
        """Add one release."""
        self.direct_totals = self.direct_totals + totals
        last = self.releases[-1] if self.releases else None
        if last and last[0] == name and last[1] == guarantee:
            self.releases[-1] = (name, guarantee, last[2] + 1)
        else:
            self.releases.append((name, guarantee, 1))

    def total(
        self, account: "Account | None" = None, extra: Totals | None = None
    ) -> Totals:
        """Totals for the record about which most is revealed.

        `extra` is counted as if it had been recorded in `account`: this one, or one of
        its branches.
        """
        total = self.direct_totals
        if self is account and extra is not None:
            total = total + extra
        for branches in self.blocks:
            worst = Totals()
            for branch in branches:
                worst |= branch.total(account, extra)
            total = total + worst
        return total

    def event(
        self, account: "Account | None" = None, extra: DpEvent | None = None
    ) -> DpEvent | None:
        """All releases as one event, with the event `extra` in `account`.

        None if there is no release.
        """
        events = [
            dp_event.SelfComposedDpEvent(guarantee.event, count)
            for _, guarantee, count in self.releases
        ]
        if self is account:
            events.append(extra)
        for branches in self.blocks:
            branch_events = [branch.event(account, extra) for branch in branches]
            parallel = [event for event in branch_events if event is not None]
            if parallel:
                events.append(ParallelDpEvent(parallel))
        return dp_event.ComposedDpEvent(tuple(events)) if events else None

    def guarantees(self) -> Iterator[PrivacyGuarantee]:
        """The guarantee of every release."""
        yield from (guarantee for _, guarantee, _ in self.releases)
        for branches in self.blocks:
            for branch in branches:
                yield from branch.guarantees()

    def lines(self) -> Iterator[tuple[int, int | None, float, str]]:
        """Depth, times, epsilon and name of every release, from top to bottom.

        A branch with releases has a line of its own, with times None and epsilon NaN.
        """
        for name, guarantee, count in self.releases:
            yield 0, count, guarantee.epsilon, name
        for branches in self.blocks:
            nonempty = [branch for branch in branches if any(branch.guarantees())]
            for number, branch in enumerate(nonempty, start=1):
                yield 0, None, math.nan, f"part {number} of {len(nonempty)}, disjoint"
                for depth, times, epsilon, name in branch.lines():
                    yield depth + 1, times, epsilon, name
