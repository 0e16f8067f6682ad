"""Privacy budgets: what may be released in a process, and what was."""

import contextvars
import html
import math
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ...exceptions import BudgetExceededError
from .._guarantee import PrivacyGuarantee, neighbours, sources_of, unit_name
from .._numbers import exact, shown, shown_below

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from ._account import Account
    from ._filter import Totals

    # Where a release is recorded, its sums, and the rule of the filter.
    _Admitted = tuple[Account, Totals, Any]

__all__ = ["PrivacyBudget", "open_budgets", "process_name", "record", "record_ids"]

# Guards the stack and all accounts; a release is recorded in all budgets or in none.
_LOCK = threading.RLock()
_STACK: list["PrivacyBudget"] = []
# The parts that this thread is in.
_PARTS: contextvars.ContextVar[tuple["_Part", ...]] = contextvars.ContextVar(
    "parts", default=()
)
_PROCESS = (0, "")
# Shares of epsilon that what is left may be below the truth: with sums, and where every
# comparison composes all releases.
_PRECISION, _ROUGHLY = 2.0**-20, 2.0**-10
_IDS = (
    "{} publishes the ids that occur, and a budget that protects everything of a user "
    "does not cover that; declare categories."
)


def process_name() -> str:
    """A name of this process; a fork has another."""
    global _PROCESS
    with _LOCK:
        if _PROCESS[0] != os.getpid():
            _PROCESS = os.getpid(), secrets.token_hex(8)
        return _PROCESS[1]


def _renew_lock() -> None:
    global _LOCK
    _LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    # A thread of the parent may have held it.
    os.register_at_fork(after_in_child=_renew_lock)


def open_budgets() -> bool:
    """Whether a budget is open in this process."""
    return bool(_STACK)


def record(guarantee: PrivacyGuarantee, name: str, unprotected: Iterable[str]) -> None:
    """Record a release in all open budgets, or refuse it.

    Raises
    ------
    BudgetExceededError
        If it exceeds one of them.
    ValueError
        If it does not add to what was recorded: another unit or relation.
    RuntimeError
        If a budget was opened by another process, of which this one is a fork.
    """
    with _LOCK:
        _record(tuple(_STACK), guarantee, name, unprotected)


def record_ids(name: str, unprotected: Iterable[str]) -> None:
    """Tell all open budgets that the ids that occur are about to be published.

    No guarantee for everything of a user covers that.

    Raises
    ------
    BudgetExceededError
        If a budget protects everything of a user.
    """
    with _LOCK:
        for budget in _STACK:
            budget._check_process()
            if math.isfinite(budget.epsilon) and any(
                isinstance(one.unit, int) for one in budget._account.guarantees()
            ):
                raise BudgetExceededError(_IDS.format(name))
        for budget in _STACK:
            budget._publishers.append(name)
            budget._left_out.update(dict.fromkeys(unprotected))


def _record(
    budgets: Iterable["PrivacyBudget"],
    guarantee: PrivacyGuarantee,
    name: str,
    unprotected: Iterable[str],
) -> None:
    admitted = [(budget, budget._admit(guarantee, name)) for budget in budgets]
    for budget, (account, totals, limits) in admitted:
        account.record(name, guarantee, totals)
        if budget._filter is not None:
            budget._filter.settle(limits)
        budget._left_out.update(dict.fromkeys(unprotected))


def _open_parts() -> tuple["_Part", ...]:
    return tuple(one for one in _PARTS.get() if one.is_open)


class _Part:
    """One of disjoint parts: what is released in it goes to an account of its own."""

    def __init__(
        self, budget: "PrivacyBudget", block: list["Account"], account: "Account"
    ) -> None:
        self.budget, self.block, self.account = budget, block, account
        self.is_open = True


class PrivacyBudget:
    """A limit on what is released, kept by counting every release.

    Within ``with budget:``, all that the estimators of this package release in this
    process, in any thread, is recorded before its noise is drawn; a release that would
    exceed the budget is refused, and draws nothing. Opened again, it goes on counting.
    Budgets may be nested; a release counts in each.

    What is released next, and whether, may depend on all outcomes so far. Sums of pure
    epsilons hold for that, and so do those of mu^2 of Gaussian noise and of Renyi
    divergences at one order, up to what was fixed before the first release; the whole
    curve of a composition does not. Where all releases and their parameters are fixed
    beforehand, ``adaptive=False`` admits what that curve admits, which is more. Sums
    are exact and may exceed epsilon by its 1e-12th part, and a single release delta by
    as much, so that ten releases of 0.1 fit into 1.

    Printing a budget shows the epsilon that it enforces. `spent` assumes that all
    releases were fixed beforehand and can be smaller; then both are shown.

    Parameters
    ----------
    epsilon : float
        Greater than 0. Infinity only counts.
    delta : float, default=0.0
        In [0, 1).
    adaptive : bool, default=True
        Whether the number of releases, or what they reveal, may depend on outcomes.

    Attributes
    ----------
    spent : PrivacyGuarantee or None
        Composition of all that was recorded, had it been fixed beforehand; None where
        nothing was.
    remaining : float
        Largest epsilon, at delta = 0, of one more release that would be admitted now.
    unprotected : tuple of str
        What the guarantees of the estimators leave out.

    See Also
    --------
    privacy_of : What a pipeline or a search reveals, counted afterwards.

    Notes
    -----
    A budget counts what estimators release. It does not see what they do not: labels,
    scores on raw values, or the output of other libraries, which `spend` records. Each
    fit of a search counts in full, though every record is left out of one.

    Other processes do not share the count: an estimator that is sent to one while a
    budget is open refuses to release there, and so does a fork. What is made there is
    not seen. Use threads.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.exceptions import BudgetExceededError
    >>> from sktensordp.mechanisms import LaplaceMechanism
    >>> from sktensordp.privacy import PrivacyBudget
    >>> X = np.zeros((10, 3))
    >>> noise = LaplaceMechanism(0.5, bounds=(0, 1)).fit(X)
    >>> with PrivacyBudget(1.2) as budget:
    ...     released = [noise.transform(X), noise.transform(X)]
    ...     try:
    ...         noise.transform(X)
    ...     except BudgetExceededError:
    ...         print("refused")
    refused
    >>> print(budget)
    Privacy budget: epsilon = 1.2, delta = 0, for one row of X (replace-one)
    Spent: epsilon = 1 at delta = 0
    Left: epsilon = 0.2 at delta = 0
      2 x epsilon = 0.5: transform of LaplaceMechanism
    Not protected:
      - LaplaceMechanism protects the rows of X, not y.
    """

    def __init__(
        self, epsilon: float, delta: float = 0.0, *, adaptive: bool = True
    ) -> None:
        if not epsilon > 0:
            raise ValueError(f"epsilon must be > 0, got {epsilon}.")
        if not 0 <= delta < 1:
            raise ValueError(f"delta must be in [0, 1), got {delta}.")
        # These import dp-accounting, which importing the package does not.
        from ._account import Account
        from ._filter import AdaptiveFilter

        self._epsilon, self._delta = float(epsilon), float(delta)
        self._adaptive = bool(adaptive)
        self._account = Account()
        self._left_out: dict[str, None] = {}
        self._publishers: list[str] = []
        self._n_open = 0
        self._process = process_name()
        self._filter: AdaptiveFilter | None = None
        if adaptive and math.isfinite(epsilon):
            self._filter = AdaptiveFilter(self._epsilon, self._delta)

    @property
    def epsilon(self) -> float:
        """Epsilon that is kept."""
        return self._epsilon

    @property
    def delta(self) -> float:
        """Delta that is kept."""
        return self._delta

    def __enter__(self) -> Self:
        with _LOCK:
            self._check_process()
            # First of all: interrupted here, it rather counts than forgets.
            if self not in _STACK:
                _STACK.append(self)
            self._n_open += 1
        return self

    def __exit__(self, *_: object) -> None:
        with _LOCK:
            self._n_open -= 1
            if self._n_open == 0:
                _STACK.remove(self)

    def spend(self, guarantee: PrivacyGuarantee, name: str = "release") -> None:
        """Record a release that no estimator of this package makes.

        Before it is made. In this budget alone, open or not.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            What it reveals.
        name : str, default="release"
            What to call it where the budget is printed.

        Raises
        ------
        BudgetExceededError
            If it would exceed the budget; nothing is recorded then.
        ValueError
            If it protects another unit than the releases before.
        """
        with _LOCK:
            _record((self,), guarantee, name, ())

    def admits(self, guarantee: PrivacyGuarantee) -> bool:
        """Whether a release would be admitted now.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            What it reveals.

        Returns
        -------
        admitted : bool
        """
        with _LOCK:
            return self._fits(guarantee) is not None

    @contextmanager
    def parallel(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Releases about disjoint parts of the data: what counts is the worst part.

        Which part a record is in must be fixed or public, as in `compose_parallel`.

        Yields
        ------
        part : callable
            Opens a part of its own at every call: ``with part():``. A release in a
            thread that was started inside of a part, and not in any part, counts as one
            about all data. Do not ``yield`` inside of a part: what the caller releases
            meanwhile would go to it.

        Examples
        --------
        >>> import numpy as np
        >>> from sktensordp.mechanisms import LaplaceMechanism
        >>> from sktensordp.privacy import PrivacyBudget
        >>> parties = [np.zeros((5, 3)), np.zeros((8, 3))]
        >>> noise = LaplaceMechanism(0.5, bounds=(0, 1)).fit(parties[0])
        >>> with PrivacyBudget(0.5) as budget, budget.parallel() as part:
        ...     for X in parties:
        ...         with part():
        ...             released = noise.transform(X)
        >>> budget.spent.epsilon
        0.5
        """
        from ._account import Account

        block: list[Account] = []
        with _LOCK:
            self._check_process()
            self._here().blocks.append(block)
        opened: list[_Part] = []
        ended = False

        @contextmanager
        def part() -> Iterator[None]:
            if ended:
                raise RuntimeError("The block of disjoint parts has ended.")
            if any(one.block is block for one in _open_parts()):
                raise RuntimeError(
                    "Another part of the block is open; parts of a part are those of "
                    "another block of parallel()."
                )
            own = _Part(self, block, Account())
            with _LOCK:
                block.append(own.account)
                opened.append(own)
            try:
                _PARTS.set((*_open_parts(), own))
                yield
            finally:
                # Also where a copy of this context outlives it, as a task's does.
                own.is_open = False
                _PARTS.set(_open_parts())

        try:
            yield part
        finally:
            ended = True
            for own in opened:
                own.is_open = False

    @property
    def spent(self) -> PrivacyGuarantee | None:
        """Composition of all that was recorded, had it been fixed beforehand."""
        from dp_accounting import dp_event

        with _LOCK:
            recorded = list(self._account.guarantees())
            event = self._account.event()
        if not recorded:
            return None
        unit, relation = neighbours(recorded)
        if self._ids_of_users(unit):
            event = dp_event.NonPrivateDpEvent()
        n_releases = sum(count or 0 for _, count, _, _ in self._account.lines())
        return PrivacyGuarantee.of(
            event,
            delta=self._delta,
            unit=unit,
            relation=relation,
            statement=f"All releases of a budget ({n_releases}), had they been fixed "
            f"beforehand.",
            source=sources_of(recorded),
        )

    @property
    def remaining(self) -> float:
        """Largest epsilon, at delta = 0, of one more release that is admitted now.

        Infinity if the budget only counts. A release with a delta may be admitted at
        another epsilon; ask `admits`. Exact to a millionth of epsilon, or to a
        thousandth with ``adaptive=False``.
        """
        if math.isinf(self._epsilon):
            return math.inf
        with _LOCK:
            self._check_process()
            return self._left()

    def _left(self) -> float:
        from ..accounting._curves import event_epsilon
        from ..accounting._events import PureDpEvent
        from ._filter import Totals

        # What is pure adds up, and often nothing else may be kept.
        if self._filter is not None:
            pure = self._account.total(self._here(), Totals()).pure
        else:
            event = self._account.event()
            pure = 0.0 if event is None else event_epsilon(event, 0.0)
        surely = 0.0
        if pure < self._epsilon:
            surely = float(Fraction(self._epsilon) - Fraction(pure))
        return self._largest(PureDpEvent, self._epsilon, surely)

    def _left_by_noise(self) -> float:
        """The mu of Gaussian noise that would be admitted; 0 for none."""
        from dp_accounting import dp_event

        from ..accounting._gaussian import gaussian_mu

        most = gaussian_mu(self._epsilon, self._delta)
        return self._largest(lambda mu: dp_event.GaussianDpEvent(1 / mu), most, 0.0)

    def _largest(
        self, event_of: Callable[[float], "DpEvent"], most: float, surely: float
    ) -> float:
        """Largest size of a release that has room, which `surely` nearly always has."""
        recorded = list(self._account.guarantees())
        if not recorded:
            return most
        if self._ids_of_users(neighbours(recorded)[0]):
            return 0.0

        def fits(size: float) -> bool:
            return self._room(event_of(size)) is not None

        low, high = surely, most
        near = high * (_ROUGHLY if self._filter is None else _PRECISION)
        if low and not fits(low):
            low, high = 0.0, low
        elif not fits(low + near):
            high = low
        while high - low > near:
            middle = (low + high) / 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low if low > most * _PRECISION else 0.0

    @property
    def unprotected(self) -> tuple[str, ...]:
        """What the guarantees of the estimators that released leave out."""
        with _LOCK:
            return tuple(self._left_out)

    def _here(self) -> "Account":
        """The account that this thread's releases go to."""
        inside = [one.account for one in _open_parts() if one.budget is self]
        return inside[-1] if inside else self._account

    def _admit(self, guarantee: PrivacyGuarantee, name: str) -> "_Admitted":
        found = self._fits(guarantee)
        if found is None and self._ids_of_users(guarantee.unit):
            raise BudgetExceededError(_IDS.format(self._publishers[0]))
        if found is None:
            has_none = guarantee.delta > 0 and self._delta == 0
            advice = " This budget admits no delta." if has_none else ""
            raise BudgetExceededError(
                f"{name} would exceed the budget of epsilon = {exact(self._epsilon)} "
                f"and delta = {exact(self._delta)}; nothing was drawn. It asks for "
                f"epsilon = {shown(guarantee.epsilon)} at delta = "
                f"{shown(guarantee.delta)}. {self._left_line()}.{advice}"
            )
        return found

    def _fits(self, guarantee: PrivacyGuarantee) -> "_Admitted | None":
        """Account, sums and rule of a release; None where it does not fit."""
        self._check_process()
        neighbours([guarantee, *self._account.guarantees()])
        if self._ids_of_users(guarantee.unit) and math.isfinite(self._epsilon):
            return None
        return self._room(guarantee.event)

    def _room(self, event: "DpEvent") -> "_Admitted | None":
        """The same of what happens in a release, whatever the unit."""
        from ..accounting._curves import event_delta
        from ._filter import Totals

        here = self._here()
        if self._filter is not None:
            found = self._filter.admit(
                event, lambda more: self._account.total(here, more)
            )
            return None if found is None else (here, *found)
        if math.isfinite(self._epsilon):
            together = self._account.event(here, event)
            epsilon, delta = (x * (1 + 1e-12) for x in (self._epsilon, self._delta))
            if event_delta(together, epsilon) > delta:
                return None
        return here, Totals(), None

    def _ids_of_users(self, unit: str | int) -> bool:
        """Whether ids were published of those of whom everything is protected."""
        return isinstance(unit, int) and bool(self._publishers)

    def _check_process(self) -> None:
        if self._process != process_name():
            raise RuntimeError(
                "This privacy budget was opened by another process, which would not "
                "learn of a release here. Release there, or in threads."
            )

    def __reduce__(self) -> NoReturn:
        raise TypeError("A privacy budget counts in its own process; it is not copied.")

    def _headline(self) -> str:
        recorded = list(self._account.guarantees())
        about = ""
        if recorded:
            unit, relation = neighbours(recorded)
            about = f", for {unit_name(unit)} ({relation})"
        return (
            f"Privacy budget: epsilon = {shown(self._epsilon)}, delta = "
            f"{shown(self._delta)}{about}"
        )

    def _spent_line(self) -> str:
        spent = self.spent
        if spent is None:
            return "Spent: nothing"
        at = f"at delta = {shown(spent.delta)}"
        fixed = counted = shown(spent.epsilon)
        if self._filter is not None and spent.delta > 0 and spent.protects:
            event = self._account.event()
            counted = shown(self._filter.counted(self._account.total(), event))
        if not self._adaptive or spent.delta == 0:
            return f"Spent: epsilon = {fixed} {at}"
        return (
            f"Spent: epsilon = {counted} {at} ({fixed} if all releases had been fixed "
            f"beforehand)"
        )

    def _left_line(self) -> str:
        left = self.remaining
        if math.isinf(left):
            return "Left: any epsilon"
        found = [f"epsilon = {shown_below(left)} at delta = 0"] if left else []
        if self._delta > 0:
            from ..accounting._gaussian import gaussian_epsilon

            with _LOCK:
                mu = self._left_by_noise()
            epsilon = gaussian_epsilon(mu, self._delta) if mu else 0.0
            if epsilon > left * (1 + _PRECISION):
                found.append(
                    f"epsilon = {shown_below(epsilon)} at delta = "
                    f"{exact(self._delta)} with Gaussian noise"
                )
        return f"Left: {', or '.join(found) or 'nothing'}"

    def __str__(self) -> str:
        lines = [self._headline(), self._spent_line(), self._left_line()]
        for depth, count, epsilon, name in self._account.lines():
            often = "" if count is None else f"{count} x epsilon = {shown(epsilon)}: "
            lines.append("  " * (depth + 1) + often + name)
        if self.unprotected:
            lines.append("Not protected:")
            lines += [f"  - {sentence}" for sentence in self.unprotected]
        return "\n".join(lines)

    def __repr__(self) -> str:
        options = "" if self._adaptive else ", adaptive=False"
        return f"PrivacyBudget({exact(self._epsilon)}, {exact(self._delta)}{options})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{'&emsp;' * depth}{html.escape(name)}</td>"
            f"<td>{'' if count is None else count}</td>"
            f"<td>{'' if count is None else shown(epsilon)}</td></tr>"
            for depth, count, epsilon, name in self._account.lines()
        )
        items = "".join(f"<li>{html.escape(s)}</li>" for s in self.unprotected)
        unprotected = f"<p>Not protected:</p><ul>{items}</ul>" if items else ""
        return (
            f"<table><caption>{html.escape(self._headline())}<br>"
            f"{html.escape(self._spent_line())}<br>"
            f"{html.escape(self._left_line())}</caption><tr><th>release</th>"
            f"<th>times</th><th>epsilon</th></tr>{rows}</table>{unprotected}"
        )
