"""Privacy budgets: limits on what a process releases, and a record of it."""

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
from .._guarantee import (
    PrivacyGuarantee,
    check_guarantee,
    sources_of,
    unit_and_relation,
    unit_name,
)
from .._numbers import check_number, epsilon_line, exact, shown, shown_below

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from ._account import Account
    from ._filter import Totals

    # The account that records a release, its totals, and the limits of the filter.
    _Admission = tuple[Account, Totals, Any]

__all__ = ["PrivacyBudget", "open_budgets", "process_name", "record", "record_ids"]

# Guards the stack and all accounts: all open budgets record a release, or none does.
_LOCK = threading.RLock()
_STACK: list["PrivacyBudget"] = []
# The branches of `PrivacyBudget.parallel` that this thread is in, outermost first.
_BRANCHES: contextvars.ContextVar[tuple["_Branch", ...]] = contextvars.ContextVar(
    "branches", default=()
)
_PROCESS = (0, "")
# How far below the truth the printed remainder may be, as shares of epsilon: with sums,
# and where every comparison composes all releases.
_PRECISION, _ROUGH_PRECISION = 2.0**-20, 2.0**-10
_PUBLISHES_IDS = (
    "{} publishes the ids that occur in the data, and a budget for all data of a user "
    "does not cover that. Declare all ids in `categories`."
)


def process_name() -> str:
    """A name of this process, which a fork does not share."""
    global _PROCESS
    with _LOCK:
        if _PROCESS[0] != os.getpid():
            _PROCESS = os.getpid(), secrets.token_hex(8)
        return _PROCESS[1]


def _renew_lock() -> None:
    global _LOCK
    _LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    # A thread of the parent may hold the lock while it forks.
    os.register_at_fork(after_in_child=_renew_lock)


def open_budgets() -> bool:
    """Whether a budget is open in this process."""
    return bool(_STACK)


def record(guarantee: PrivacyGuarantee, name: str, unprotected: Iterable[str]) -> None:
    """Record a release in all open budgets, or refuse it.

    Raises
    ------
    BudgetExceededError
        If the release would exceed one of them.
    ValueError
        If its unit or relation differs from those of the recorded releases, so that
        they do not compose.
    RuntimeError
        If a budget belongs to another process, of which this one is a fork.
    """
    with _LOCK:
        _record(tuple(_STACK), guarantee, name, unprotected)


def record_ids(name: str, unprotected: Iterable[str]) -> None:
    """Tell all open budgets that the ids in the data are about to be published.

    A guarantee for all data of a user does not cover that.

    Raises
    ------
    BudgetExceededError
        If an open budget protects all data of a user.
    """
    with _LOCK:
        for budget in _STACK:
            budget._check_process()
            if math.isfinite(budget.epsilon) and any(
                isinstance(guarantee.unit, int)
                for guarantee in budget._account.guarantees()
            ):
                raise BudgetExceededError(_PUBLISHES_IDS.format(name))
        for budget in _STACK:
            budget._publishers.append(name)
            budget._sentences.update(dict.fromkeys(unprotected))


def _record(
    budgets: Iterable["PrivacyBudget"],
    guarantee: PrivacyGuarantee,
    name: str,
    unprotected: Iterable[str],
) -> None:
    admissions = [(budget, budget._admit(guarantee, name)) for budget in budgets]
    for budget, (account, totals, limits) in admissions:
        account.record(name, guarantee, totals)
        if budget._filter is not None:
            budget._filter.settle(limits)
        budget._sentences.update(dict.fromkeys(unprotected))


def _open_branches() -> tuple["_Branch", ...]:
    return tuple(branch for branch in _BRANCHES.get() if branch.is_open)


class _Branch:
    """The releases about one of several disjoint parts, in an account of their own."""

    def __init__(
        self, budget: "PrivacyBudget", block: list["Account"], account: "Account"
    ) -> None:
        self.budget, self.block, self.account = budget, block, account
        self.is_open = True


class PrivacyBudget:
    """A limit on what is released: counts every release, and refuses any beyond it.

    Within ``with budget:``, the budget records every release by an estimator of this
    package, in any thread of this process, before its noise is drawn. It refuses a
    release that would exceed it, and then nothing is drawn. You can enter a budget
    again; it keeps counting. You can nest budgets; a release counts in all of them.

    By default, all results so far may decide which release you make next, and whether
    you make one. Three sums remain valid then, each up to a limit that is fixed before
    the first release: pure epsilons, mu^2 of Gaussian noise (see `gaussian_mu`), and
    Rényi divergences at one order. The whole privacy curve of a composition does not
    remain valid. If all releases and their parameters are fixed beforehand, pass
    ``adaptive=False``: the budget then admits what that curve admits, which is more.

    Sums are exact. They may exceed epsilon by a relative 1e-12, and a single release
    may exceed delta by as much, so that ten releases of 0.1 fit into 1.

    Printing a budget shows the epsilon that it enforces. `spent` assumes that all
    releases were fixed beforehand and can be smaller; then both are shown.

    Parameters
    ----------
    epsilon : float
        Greater than 0. An infinite budget counts every release and refuses none.
    delta : float, default=0.0
        In [0, 1).
    adaptive : bool, default=True
        Whether earlier results may decide the number of releases, or how much they
        reveal.

    Attributes
    ----------
    spent : PrivacyGuarantee or None
        Composition of all recorded releases, as if they had been fixed beforehand.
        None if there is none.
    remaining : float
        Largest epsilon, at delta = 0, of one more release that would be admitted now.
    unprotected : tuple of str
        What the guarantees of the estimators leave out.

    See Also
    --------
    privacy_of : What a fitted pipeline or search has revealed.

    Notes
    -----
    A budget counts what estimators release. It does not see labels, scores on raw
    values or the output of other libraries; record those with `spend`. Each fit of a
    search counts in full, although every record is held out of some of the fits.

    It holds if no record decides which other records a release gets, what is in them
    (scaling, renumbered ids), or whether and how often a release happens. A budget does
    not see the splitter of a cross-validation: where all data of a user are protected,
    use `UserKFold`.

    Other processes do not share the count. An estimator that is sent to another process
    while a budget is open refuses to release there, and so does a forked process. The
    budget does not see estimators that other processes create. Use threads.

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
        check_number(epsilon, "epsilon")
        check_number(delta, "delta")
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
        self._sentences: dict[str, None] = {}
        self._publishers: list[str] = []
        self._n_open = 0
        self._process = process_name()
        self._filter: AdaptiveFilter | None = None
        if adaptive and math.isfinite(epsilon):
            self._filter = AdaptiveFilter(self._epsilon, self._delta)

    @property
    def epsilon(self) -> float:
        """Epsilon of the budget."""
        return self._epsilon

    @property
    def delta(self) -> float:
        """Delta of the budget."""
        return self._delta

    def __enter__(self) -> Self:
        with _LOCK:
            self._check_process()
            # An interruption after this line leaves the budget open: it may count too
            # much, never too little.
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

        Call this before you make the release. Only this budget records it, open or not.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            What the release reveals.
        name : str, default="release"
            Its name when the budget is printed.

        Raises
        ------
        BudgetExceededError
            If the release would exceed the budget; nothing is recorded then.
        ValueError
            If its unit or relation differs from those of the recorded releases.
        TypeError
            If `guarantee` is no `PrivacyGuarantee`.
        """
        check_guarantee(guarantee)
        with _LOCK:
            _record((self,), guarantee, name, ())

    def admits(self, guarantee: PrivacyGuarantee) -> bool:
        """Whether a release would be admitted now.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            What the release reveals.

        Returns
        -------
        admitted : bool
        """
        check_guarantee(guarantee)
        with _LOCK:
            return self._admission(guarantee) is not None

    @contextmanager
    def parallel(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Count only the worst of several disjoint parts of the data.

        The part to which a record belongs must be fixed or public, as in
        `compose_parallel`.

        Yields
        ------
        part : callable
            Each call opens a new part: ``with part():``. A thread that you start
            inside a part is not in that part: unless it opens a part itself, its
            releases count as releases about all data. Do not ``yield`` inside a part:
            the caller's releases would then count for that part.

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
            self._current_account().blocks.append(block)
        opened: list[_Branch] = []
        ended = False

        @contextmanager
        def part() -> Iterator[None]:
            if ended:
                raise RuntimeError(
                    "This block of disjoint parts has ended. Open its parts inside "
                    "`with budget.parallel() as part:`."
                )
            if any(branch.block is block for branch in _open_branches()):
                raise RuntimeError(
                    "Another part of this block is open. Close it first, or call "
                    "`parallel()` again to divide that part."
                )
            branch = _Branch(self, block, Account())
            with _LOCK:
                block.append(branch.account)
                opened.append(branch)
            try:
                _BRANCHES.set((*_open_branches(), branch))
                yield
            finally:
                # A copy of this context, such as that of a task, may outlive it.
                branch.is_open = False
                _BRANCHES.set(_open_branches())

        try:
            yield part
        finally:
            ended = True
            for branch in opened:
                branch.is_open = False

    @property
    def spent(self) -> PrivacyGuarantee | None:
        """Composition of all recorded releases, as if they had been fixed beforehand.

        None if there is none.
        """
        from dp_accounting import dp_event

        with _LOCK:
            recorded = list(self._account.guarantees())
            event = self._account.event()
        if not recorded:
            return None
        unit, relation = unit_and_relation(recorded)
        if self._user_ids_published(unit):
            event = dp_event.NonPrivateDpEvent()
        n_releases = sum(count or 0 for _, count, _, _ in self._account.lines())
        return PrivacyGuarantee.of(
            event,
            delta=self._delta,
            unit=unit,
            relation=relation,
            statement=f"All releases of a budget ({n_releases}), as if they had been "
            f"fixed beforehand.",
            source=sources_of(recorded),
        )

    @property
    def remaining(self) -> float:
        """Largest epsilon, at delta = 0, of one more release that would be admitted.

        Infinite if the budget is. A release with a positive delta may be admitted at
        another epsilon: ask `admits`. Accurate to a millionth of the budget's epsilon,
        or to a thousandth with ``adaptive=False``.
        """
        if math.isinf(self._epsilon):
            return math.inf
        with _LOCK:
            self._check_process()
            return self._remaining_epsilon()

    def _remaining_epsilon(self) -> float:
        from ..accounting._curves import event_epsilon
        from ..accounting._events import PureDpEvent
        from ._filter import Totals

        # Try first what the sum of pure epsilons leaves: often that is the answer.
        if self._filter is not None:
            spent = self._account.total(self._current_account(), Totals()).pure_epsilon
        else:
            event = self._account.event()
            spent = 0.0 if event is None else event_epsilon(event, 0.0)
        guess = 0.0
        if spent < self._epsilon:
            guess = float(Fraction(self._epsilon) - Fraction(spent))
        return self._largest_admitted(PureDpEvent, self._epsilon, guess)

    def _remaining_mu(self) -> float:
        """Largest mu of Gaussian noise that would be admitted now; 0 for none."""
        from dp_accounting import dp_event

        from ..accounting._gaussian import gaussian_mu

        largest = gaussian_mu(self._epsilon, self._delta)
        return self._largest_admitted(
            lambda mu: dp_event.GaussianDpEvent(1 / mu), largest, 0.0
        )

    def _largest_admitted(
        self, event_of: Callable[[float], "DpEvent"], largest: float, guess: float
    ) -> float:
        """Largest size, up to `largest`, of a release that would be admitted now.

        `guess` is a size that nearly always fits.
        """
        recorded = list(self._account.guarantees())
        if not recorded:
            return largest
        if self._user_ids_published(unit_and_relation(recorded)[0]):
            return 0.0

        def fits(size: float) -> bool:
            return self._admission_of(event_of(size)) is not None

        low, high = guess, largest
        near = high * (_ROUGH_PRECISION if self._filter is None else _PRECISION)
        if low and not fits(low):
            low, high = 0.0, low
        elif not fits(low + near):
            high = low
        while high - low > near:
            middle = (low + high) / 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low if low > largest * _PRECISION else 0.0

    @property
    def unprotected(self) -> tuple[str, ...]:
        """What the guarantees of the recorded estimators leave out, in sentences."""
        with _LOCK:
            return tuple(self._sentences)

    def _current_account(self) -> "Account":
        """The account that records the releases of this thread."""
        accounts = [
            branch.account for branch in _open_branches() if branch.budget is self
        ]
        return accounts[-1] if accounts else self._account

    def _admit(self, guarantee: PrivacyGuarantee, name: str) -> "_Admission":
        admission = self._admission(guarantee)
        if admission is None and self._user_ids_published(guarantee.unit):
            raise BudgetExceededError(_PUBLISHES_IDS.format(self._publishers[0]))
        if admission is None:
            lacks_delta = guarantee.delta > 0 and self._delta == 0
            advice = " This budget admits no delta." if lacks_delta else ""
            raise BudgetExceededError(
                f"{name} would exceed the budget of epsilon = {exact(self._epsilon)} "
                f"and delta = {exact(self._delta)}; nothing was drawn. It asks for "
                f"epsilon = {shown(guarantee.epsilon)} at delta = "
                f"{shown(guarantee.delta)}. {self._left_line()}.{advice}"
            )
        return admission

    def _admission(self, guarantee: PrivacyGuarantee) -> "_Admission | None":
        """Account, totals and limits of a release; None if it does not fit."""
        self._check_process()
        # Raises if they differ.
        unit_and_relation([guarantee, *self._account.guarantees()])
        if self._user_ids_published(guarantee.unit) and math.isfinite(self._epsilon):
            return None
        return self._admission_of(guarantee.event)

    def _admission_of(self, event: "DpEvent") -> "_Admission | None":
        """The same for an event, whatever its unit."""
        from ..accounting._curves import event_delta
        from ._filter import Totals

        account = self._current_account()
        if self._filter is not None:
            admitted = self._filter.admit(
                event, lambda totals: self._account.total(account, totals)
            )
            return None if admitted is None else (account, *admitted)
        if math.isfinite(self._epsilon):
            composed = self._account.event(account, event)
            epsilon, delta = (x * (1 + 1e-12) for x in (self._epsilon, self._delta))
            if event_delta(composed, epsilon) > delta:
                return None
        return account, Totals(), None

    def _user_ids_published(self, unit: str | int) -> bool:
        """Whether `unit` is all data of a user, and ids of users were published."""
        return isinstance(unit, int) and bool(self._publishers)

    def _check_process(self) -> None:
        if self._process != process_name():
            raise RuntimeError(
                "This privacy budget belongs to another process, which would not learn "
                "of a release made here. Make the release there, or use threads."
            )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A privacy budget counts in its own process, so it cannot be copied or "
            "pickled."
        )

    def _headline(self) -> str:
        recorded = list(self._account.guarantees())
        protected = ""
        if recorded:
            unit, relation = unit_and_relation(recorded)
            protected = f", for {unit_name(unit)} ({relation})"
        return (
            f"Privacy budget: epsilon = {shown(self._epsilon)}, delta = "
            f"{shown(self._delta)}{protected}"
        )

    def _spent_line(self) -> str:
        spent = self.spent
        if spent is None:
            return "Spent: nothing"
        if not spent.protects:
            return "Spent: no finite epsilon holds"
        at_delta = f"at delta = {shown(spent.delta)}"
        fixed = adaptive = shown(spent.epsilon)
        if self._filter is not None and spent.delta > 0:
            event = self._account.event()
            adaptive = shown(self._filter.spent_epsilon(self._account.total(), event))
        if not self._adaptive or spent.delta == 0:
            return f"Spent: epsilon = {fixed} {at_delta}"
        return (
            f"Spent: epsilon = {adaptive} {at_delta} ({fixed} if all releases had been "
            f"fixed beforehand)"
        )

    def _left_line(self) -> str:
        left = self.remaining
        if math.isinf(left):
            return "Left: any epsilon"
        options = [f"epsilon = {shown_below(left)} at delta = 0"] if left else []
        if self._delta > 0:
            from ..accounting._gaussian import gaussian_epsilon

            with _LOCK:
                mu = self._remaining_mu()
            epsilon = gaussian_epsilon(mu, self._delta) if mu else 0.0
            if epsilon > left * (1 + _PRECISION):
                options.append(
                    f"epsilon = {shown_below(epsilon)} at delta = "
                    f"{exact(self._delta)} with Gaussian noise"
                )
        return f"Left: {', or '.join(options) or 'nothing'}"

    def __str__(self) -> str:
        lines = [self._headline(), self._spent_line(), self._left_line()]
        for depth, count, epsilon, name in self._account.lines():
            times = "" if count is None else f"{count} x {epsilon_line(epsilon)}: "
            lines.append("  " * (depth + 1) + times + name)
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
