"""Privacy budgets: limits on what is released, and a record of it."""

import contextvars
import html
import math
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import astuple
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from ...exceptions import BudgetExceededError
from .._conditions import clauses
from .._guarantee import (
    PrivacyGuarantee,
    check_guarantee,
    conditions_of,
    sources_of,
    unit_and_relation,
    unit_name,
)
from .._numbers import check_number, epsilon_line, exact, shown, shown_below

if TYPE_CHECKING:
    from sqlite3 import Connection

    from dp_accounting import DpEvent

    from ._filter import Account, Totals
    from ._ledger import Ledger, Row

    # The account that records a release, its totals, and the limits of the filter.
    _Admission = tuple[Account, Totals, Any]

# Guards the stack and all accounts: all open budgets record a release, or none does.
_LOCK = threading.RLock()
_STACK: list["PrivacyBudget"] = []
# The branches of `PrivacyBudget.parallel` that this thread is in, outermost first.
_BRANCHES: contextvars.ContextVar[tuple["_Branch", ...]] = contextvars.ContextVar(
    "branches", default=()
)
_PROCESS = (0, "")
# The processes that sent an estimator while budgets were open there: by name, the path
# and id of each budget's file, or None if one of the budgets has no path.
Senders = Mapping[str, tuple[tuple[str, str], ...] | None]
# Budgets of files that were opened on behalf of such a process.
_OPENED: dict[tuple[str, str], "PrivacyBudget"] = {}
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


def senders() -> Senders:
    """Name of this process with its open budgets, for what it sends; or {}."""
    with _LOCK:
        if not _STACK:
            return {}
        ledgers = [budget._ledger for budget in _STACK]
        files = [(each.path, each.id) for each in ledgers if each is not None]
        is_counted = len(files) == len(ledgers)
        return {process_name(): tuple(files) if is_counted else None}


def record(
    guarantee: PrivacyGuarantee,
    name: str,
    unprotected: Iterable[str],
    sent_by: Senders,
    *,
    seeded: bool,
) -> None:
    """Record a release in all open budgets, or refuse it.

    Open budgets are those of this process, and those of the processes that sent the
    estimator.

    Raises
    ------
    BudgetExceededError
        If the release would exceed one of them.
    ValueError
        If its unit or relation differs from those of the recorded releases, so that
        they do not compose; or if its noise is `seeded` and a budget has a path.
    RuntimeError
        If a budget belongs to another process, which would not learn of the release.
    OSError
        If a budget has a path, and its file cannot record the release.
    """
    with _LOCK:
        check_seed(name, sent_by, seeded=seeded)
        _record(_concerned(sent_by), guarantee, name, unprotected)


def check_seed(name: str, sent_by: Senders, *, seeded: bool) -> None:
    """Refuse a release with an integer seed if an open budget has a path.

    Raises
    ------
    ValueError
        Every process counts the releases of a seed from 0, so that two would share
        their noise.
    """
    has_path = any(budget._ledger is not None for budget in _STACK)
    if seeded and (has_path or any(sent_by.values())):
        raise ValueError(
            f"{name} has an integer random_state, and a budget with a path is open. "
            f"Another process with this integer would draw the same noise. Pass "
            f"random_state=None; nothing was drawn."
        )


def record_ids(name: str, unprotected: Iterable[str], sent_by: Senders) -> None:
    """Tell all open budgets that the ids in the data are about to be published.

    A guarantee for all data of a user does not cover that.

    Raises
    ------
    BudgetExceededError
        If an open budget protects all data of a user.
    RuntimeError, OSError
        As `record`.
    """
    with _LOCK, _locked_files(_concerned(sent_by)) as budgets:
        for budget in budgets:
            if math.isfinite(budget.epsilon) and any(
                isinstance(guarantee.unit, int)
                for guarantee in budget._account.guarantees()
            ):
                raise BudgetExceededError(_PUBLISHES_IDS.format(name))
        for budget in budgets:
            budget._write(name, None, unprotected)
        _commit(budgets)
        for budget in budgets:
            if budget._ledger is None:
                budget._publishers.append(name)
                budget._sentences.update(dict.fromkeys(unprotected))


def _concerned(sent_by: Senders) -> list["PrivacyBudget"]:
    """The budgets that must record a release, in the order in which they are locked.

    Two objects for the same file are one budget.
    """
    found = list(_STACK)
    for files in sent_by.values():
        if files is None:
            raise RuntimeError(
                "This estimator was sent by a process with an open privacy budget, "
                "which cannot record a release made here. Release in that process, or "
                "in its threads; send the estimator while no budget is open; or give "
                "the budget a path."
            )
        found += [_opened(path, number) for path, number in files]
    for budget in found:
        budget._check_process()
    stored = {b._ledger.path: b for b in found if b._ledger is not None}
    return [
        *(stored[path] for path in sorted(stored)),
        *(budget for budget in found if budget._ledger is None),
    ]


def _opened(path: str, number: str) -> "PrivacyBudget":
    """The budget of this id in an existing file."""
    if (path, number) not in _OPENED:
        budget = budget_of_file(path)
        assert budget._ledger is not None
        if budget._ledger.id != number:
            raise OSError(
                f"{path} is another budget than the one that was open where this was "
                f"made; nothing was drawn."
            )
        _OPENED[path, number] = budget
    return _OPENED[path, number]


def budget_of_file(path: str) -> "PrivacyBudget":
    """The budget in an existing file, with the parameters that the file states."""
    from ._ledger import Ledger

    stated = Ledger(path).parameters
    parameters = {name: stated[name] for name in ("epsilon", "delta", "adaptive")}
    return PrivacyBudget(**parameters, path=path)


def _guarantee_of(row: "Row") -> PrivacyGuarantee | None:
    """The guarantee of a recorded release; None if ids were published."""
    from sqlite3 import DatabaseError

    from ._stored import guarantee_from_json

    try:
        return None if row.guarantee is None else guarantee_from_json(row.guarantee)
    except (ValueError, TypeError, KeyError) as error:
        raise DatabaseError("a release is unreadable") from error


@contextmanager
def _locked_files(
    budgets: list["PrivacyBudget"],
) -> Iterator[list["PrivacyBudget"]]:
    """Lock the files of budgets, and read what others have recorded meanwhile."""
    with ExitStack() as stack:
        try:
            for budget in budgets:
                if budget._ledger is not None:
                    budget._writer = stack.enter_context(budget._ledger.writing())
                    budget._read_rows(budget._writer)
            yield budgets
        finally:
            for budget in budgets:
                budget._writer = None


def _commit(budgets: Iterable["PrivacyBudget"]) -> None:
    """Put a release on the disk; if this stops half-way, some budgets overcount."""
    for budget in budgets:
        if budget._ledger is not None:
            budget._ledger.commit(budget._writer)


def _record(
    budgets: list["PrivacyBudget"],
    guarantee: PrivacyGuarantee,
    name: str,
    unprotected: Iterable[str],
) -> None:
    with _locked_files(budgets):
        admissions = [(budget, budget._admit(guarantee, name)) for budget in budgets]
        for budget, (_, _, limits) in admissions:
            budget._write(name, guarantee, unprotected, limits)
        _commit(budgets)
        for budget, (account, totals, limits) in admissions:
            if budget._ledger is not None:
                continue  # Its account is what the file says.
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
    With a `path`, the budget counts in a file, which any number of processes may open,
    now or next year.

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
    path : str or path-like, default=None
        The file that records the releases, on a local disk. None keeps the count in
        this process.
    create : bool, default=False
        Whether to make a new file. Otherwise it must exist, so that a mistyped path is
        no fresh budget, and the other parameters must be those of its creation.

    Raises
    ------
    ValueError
        If a parameter is out of range, or differs from that of the file.
    FileNotFoundError, FileExistsError
        If there is no such file; with ``create=True``, if there is one.
    OSError
        If the file is damaged, cannot be opened, or is of a newer version.

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

    Without a path, other processes do not share the count. An estimator that is sent to
    another process while such a budget is open refuses to release there, and so does a
    forked process. With a path, the estimator takes the path along, and a release made
    elsewhere on the same machine is recorded in the file. Neither sees estimators that
    other processes create.

    The file is trusted: whoever can write to it can forget releases, and a restored
    backup forgets all later ones. It holds guarantees, times and names, and no data. A
    release with an integer `random_state` is refused, since each process counts the
    releases of a seed from 0, so that two would share their noise.

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

    A budget that outlives the process:

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = f"{folder.name}/films-2026.db"
    >>> with PrivacyBudget(1.2, path=path, create=True):
    ...     january = noise.transform(X)
    >>> with PrivacyBudget(1.2, path=path) as budget:  # next month
    ...     february = noise.transform(X)
    >>> len(budget.history()), budget.spent.epsilon
    (2, 1.0)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        adaptive: bool = True,
        path: "str | os.PathLike[str] | None" = None,
        create: bool = False,
    ) -> None:
        check_number(epsilon, "epsilon")
        check_number(delta, "delta")
        if not epsilon > 0:
            raise ValueError(f"epsilon must be > 0, got {epsilon}.")
        if not 0 <= delta < 1:
            raise ValueError(f"delta must be in [0, 1), got {delta}.")
        if create and path is None:
            raise ValueError("create=True makes a file: pass its path.")
        # These import dp-accounting, which importing the package does not.
        from ._filter import Account, AdaptiveFilter

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
        self._ledger = None if path is None else self._open(path, create)
        self._n_rows = 0
        self._writer: Any = None  # the connection that locks the file

    def _open(self, path: Any, create: bool) -> "Ledger":
        from ._ledger import Ledger

        parameters = {
            "epsilon": self._epsilon,
            "delta": self._delta,
            "adaptive": self._adaptive,
        }
        if create:
            Ledger.create(path, parameters)
        ledger = Ledger(path)
        stored = [
            f"{name} = {ledger.parameters[name]}, not {value}"
            for name, value in parameters.items()
            if ledger.parameters[name] != value
        ]
        if stored:
            raise ValueError(
                f"The budget in {ledger.path} has {'; '.join(stored)}. A budget keeps "
                f"the parameters with which it was created."
            )
        return ledger

    @property
    def path(self) -> str | None:
        """Absolute path of the file of the budget; None if it has none."""
        return None if self._ledger is None else self._ledger.path

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
            Its name when the budget is printed. With a path, it is stored: it must
            hold no data.

        Raises
        ------
        BudgetExceededError
            If the release would exceed the budget; nothing is recorded then.
        ValueError
            If its unit or relation differs from those of the recorded releases.
        TypeError
            If `guarantee` is no `PrivacyGuarantee`, or `name` no text.
        OSError
            If the file of the budget cannot record the release.
        """
        check_guarantee(guarantee)
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, got {type(name).__name__}.")
        with _LOCK:
            _record([self], guarantee, name, ())

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
            self._read()
            return self._admission(guarantee) is not None

    def history(self) -> Any:
        """Every release in the file of the budget, in the order of recording.

        Returns
        -------
        releases : pandas.DataFrame or list of dict
            A data frame if pandas is installed. `time` in UTC; `label`, the name of
            the release; `unit`, `epsilon` and `delta` of its guarantee; `event`, what
            was done; `versions` of the packages that recorded it. Published ids have a
            label and no guarantee.

        Raises
        ------
        ValueError
            If the budget has no path.
        OSError
            If its file cannot be read.
        """
        if self._ledger is None:
            raise ValueError("Only a budget with a path keeps a history: pass a path.")
        names = ("unit", "epsilon", "delta", "event")
        found: list[dict[str, Any]] = []
        with _LOCK, self._ledger.reading() as connection:
            self._read_rows(connection)
            for row in self._ledger.rows(connection):
                guarantee = _guarantee_of(row)
                stated = {name: getattr(guarantee, name, None) for name in names}
                found.append(
                    {"time": row.time, "label": row.label, **stated}
                    | {"versions": row.versions}
                )
        with suppress(ImportError):
            import pandas as pd

            columns = ["time", "label", *names, "versions"]
            return pd.DataFrame(found, columns=columns)
        return found

    def _read(self) -> None:
        """Read what other processes have recorded, unless the file is locked here."""
        if self._ledger is not None and self._writer is None:
            with self._ledger.reading() as connection:
                self._read_rows(connection)

    def _read_rows(self, connection: "Connection") -> None:
        from ._filter import Limits, Totals

        ledger: Any = self._ledger
        if ledger.last(connection) < self._n_rows:
            raise OSError(
                f"{ledger.path} has lost releases that were recorded in it, as if a "
                f"backup had been restored; nothing was drawn."
            )
        limits = ledger.facts(connection).get("limits")
        if self._filter is not None and limits is not None:
            self._filter.settle(Limits(*limits))
        for row in ledger.rows(connection, after=self._n_rows):
            guarantee = _guarantee_of(row)
            if guarantee is None:
                self._publishers.append(row.label)
            else:
                event = guarantee.event
                totals = (
                    Totals() if self._filter is None else self._filter.totals(event)
                )
                self._account.record(row.label, guarantee, totals)
            self._sentences.update(dict.fromkeys(row.sentences))
            # Last: an interruption before it makes this process count too much.
            self._n_rows = row.number

    def _write(
        self,
        name: str,
        guarantee: PrivacyGuarantee | None,
        unprotected: Iterable[str],
        limits: Any = None,
    ) -> None:
        """Write a release into the file, if there is one; None publishes ids."""
        if self._ledger is None:
            return
        from ._stored import guarantee_to_json

        text = None if guarantee is None else guarantee_to_json(guarantee)
        if guarantee is not None and not any(self._account.guarantees()):
            unit, relation = guarantee.unit, guarantee.relation
            fixed: dict[str, Any] = {"unit": unit, "relation": relation}
            if limits is not None:
                fixed["limits"] = astuple(limits)
            self._ledger.add_facts(self._writer, fixed)
        new = [each for each in unprotected if each not in self._sentences]
        self._ledger.add(self._writer, name, text, new)

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
        from ._filter import Account

        if self._ledger is not None:
            raise ValueError(
                "A budget with a path does not know which part of the data a release "
                "of another process is about, so it cannot count the worst part only. "
                "Use a budget without a path, and record its `spent` here."
            )
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
        with _LOCK:
            self._read()
            return self._spent()

    def _spent(self) -> PrivacyGuarantee | None:
        from dp_accounting import dp_event

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
            conditions=conditions_of(recorded),
        )

    @property
    def remaining(self) -> float:
        """Largest epsilon, at delta = 0, of one more release that would be admitted.

        Infinite if the budget is. A release with a positive delta may be admitted at
        another epsilon: ask `admits`. Accurate to a millionth of the budget's epsilon,
        or to a thousandth with ``adaptive=False``.
        """
        with _LOCK:
            self._read()
            return self._remaining_epsilon()

    def _remaining_epsilon(self) -> float:
        if math.isinf(self._epsilon):
            return math.inf
        self._check_process()
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
            self._read()
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
        if self._ledger is None and self._process != process_name():
            raise RuntimeError(
                "This privacy budget belongs to another process, which would not learn "
                "of a release made here. Make the release there, use threads, or give "
                "the budget a path."
            )

    def __reduce__(self) -> Any:
        if self._ledger is not None:
            return _opened, (self._ledger.path, self._ledger.id)
        raise TypeError(
            "A privacy budget without a path counts in its own process, so it cannot "
            "be copied or pickled."
        )

    def _headline(self) -> str:
        recorded = list(self._account.guarantees())
        protected = ""
        if recorded:
            unit, relation = unit_and_relation(recorded)
            conditions = clauses(sorted({*conditions_of(recorded)}))
            protected = f", for {unit_name(unit)} ({relation}){conditions}"
        return (
            f"Privacy budget: epsilon = {shown(self._epsilon)}, delta = "
            f"{shown(self._delta)}{protected}"
        )

    def _spent_line(self) -> str:
        spent = self._spent()
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
        return f"Spent: epsilon = {adaptive} {at_delta} ({fixed} if planned in advance)"

    def _left_line(self) -> str:
        left = self._remaining_epsilon()
        if math.isinf(left):
            return "Left: any epsilon"
        options = [f"epsilon = {shown_below(left)} at delta = 0"] if left else []
        if self._delta > 0:
            from ..accounting._gaussian import gaussian_epsilon

            mu = self._remaining_mu()
            epsilon = gaussian_epsilon(mu, self._delta) if mu else 0.0
            if epsilon > left * (1 + _PRECISION):
                options.append(
                    f"epsilon = {shown_below(epsilon)} at delta = "
                    f"{exact(self._delta)} with Gaussian noise"
                )
        return f"Left: {', or '.join(options) or 'nothing'}"

    def __str__(self) -> str:
        with _LOCK:
            self._read()
            return self._text()

    def _text(self) -> str:
        lines = [self._headline(), self._spent_line(), self._left_line()]
        for depth, count, epsilon, name in self._account.lines():
            times = "" if count is None else f"{count} x {epsilon_line(epsilon)}: "
            lines.append("  " * (depth + 1) + times + name)
        if self._sentences:
            lines.append("Not protected:")
            lines += [f"  - {sentence}" for sentence in self._sentences]
        return "\n".join(lines)

    def __repr__(self) -> str:
        options = "" if self._adaptive else ", adaptive=False"
        options += "" if self._ledger is None else f", path={self._ledger.path!r}"
        return f"PrivacyBudget({exact(self._epsilon)}, {exact(self._delta)}{options})"

    def _repr_html_(self) -> str:
        with _LOCK:
            self._read()
            return self._html()

    def _html(self) -> str:
        rows = "".join(
            f"<tr><td>{'&emsp;' * depth}{html.escape(name)}</td>"
            f"<td>{'' if count is None else count}</td>"
            f"<td>{'' if count is None else shown(epsilon)}</td></tr>"
            for depth, count, epsilon, name in self._account.lines()
        )
        items = "".join(f"<li>{html.escape(s)}</li>" for s in self._sentences)
        unprotected = f"<p>Not protected:</p><ul>{items}</ul>" if items else ""
        return (
            f"<table><caption>{html.escape(self._headline())}<br>"
            f"{html.escape(self._spent_line())}<br>"
            f"{html.escape(self._left_line())}</caption><tr><th>release</th>"
            f"<th>times</th><th>epsilon</th></tr>{rows}</table>{unprotected}"
        )
