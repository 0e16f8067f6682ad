"""Privacy budgets: limits on what is released, and a record of it."""

import html
import math
import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from sklearn.base import BaseEstimator

from ..._validation import warn
from ...exceptions import BudgetExceededError
from .._conditions import clauses
from .._guarantee import (
    PrivacyGuarantee,
    check_guarantee,
    conditions_of,
    hides_ids,
    local_of,
    sources_of,
    unit_and_relation,
    unit_in_words,
)
from .._html import coloured, releases_table
from .._numbers import check_number, epsilon_line, exact, shown, shown_below
from ._open import (
    BRANCHES,
    OPEN,
    Branch,
    Marks,
    mark,
    marked,
    open_branches,
    patient,
)
from ._stated import as_recorded, reveals_nothing

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from ._file import FileLedger
    from ._filter import Account, Limits, Totals
    from ._ledger import Ledger

# How far below the truth the printed remainder may be, as shares of epsilon: with sums,
# and where every comparison composes all releases.
_PRECISION, _ROUGH_PRECISION = 2.0**-20, 2.0**-10
# Share of the budget below which a release should not use up all of it unnoticed.
# Larger budgets protect nobody, and are for tests.
_MUCH, _LARGEST_WARNED = 0.75, 100.0
_PUBLISHES_IDS = (
    "{} publishes the ids that occur in the data, which a budget for all data of a "
    "user, or for counted rows, does not cover. Declare all ids in `categories`."
)
_SENT = (
    "This estimator was sent by a process with an open privacy budget, which cannot "
    "record a release made here. Release in that process, or in its threads; send the "
    "estimator while no budget is open; or give the budget a path."
)
_NO_FILE = (
    "This estimator belongs to the budget with the id {}, whose file is not known in "
    "this process; nothing was drawn. Open that budget first, with "
    "`PrivacyBudget(..., path=...)`. If it need not count this release, use "
    "`detach_from_budgets(estimator)`."
)
REQUIRED = "SKTENSORDP_REQUIRE_BUDGET"
"""The environment variable that refuses releases outside of a budget."""
_OUTSIDE = (
    "{} would be outside of any privacy budget, and the environment variable "
    f"{REQUIRED} is set; nothing was drawn. Open the budget that counts it, `with "
    "PrivacyBudget(..., path=...):`."
)
_OF_FOLDS = (
    "{} may be those of a search or cross-validation, which the budget cannot tell "
    "from others. Then scores on the raw values held out, and the choice by them, are "
    "not covered; and if a record decided which others a fold gets, as with KFold "
    "where users are protected, no finite epsilon holds for the fits to folds "
    "together: ask privacy_of(search)."
)
_CLOSED = (
    "A privacy budget covers this estimator, or was open where this copy of it was "
    "made, or where this thread was started. That budget is closed now and would not "
    "count this release, so nothing was drawn. Open the same budget again, or give it "
    "a path. If it need not count this release, use `detach_from_budgets(estimator)`, "
    "in a thread that you start after the block."
)


@patient
def record(
    guarantee: PrivacyGuarantee,
    name: str,
    unprotected: Iterable[str],
    marks: Marks,
    *,
    seeded: bool,
) -> str:
    """Record a release in all open budgets, or refuse it; return its new id.

    The id is random, whatever the seed, and follows from no data.

    Budgets that cover certain objects record only the releases of those. Budgets with a
    path also record releases by copies that were made while the budget was open,
    wherever and whenever these copies release. `marks` name the budgets to which the
    object belongs.

    Raises
    ------
    BudgetExceededError
        If the release would exceed one of them.
    ValueError
        If its unit or relation differs from those of the recorded releases, so that
        they do not compose; or if its noise is `seeded` and a budget has a path.
    RuntimeError
        If a budget belongs to another process, which would not learn of the release;
        or if a budget without a path is closed now, but covers the estimator, was open
        where the estimator was copied, or was open where the thread was started; or if
        no budget counts the release although the environment requires one.
    OSError
        If a budget has a path, and its file cannot record the release.
    """
    with OPEN.lock:
        marks = OPEN.located(marks | OPEN.marks_of_thread())
        check_seed(name, marks, seeded=seeded)
        return _record(_concerned(marks, name), guarantee, name, unprotected)


def check_seed(name: str, marks: Marks, *, seeded: bool) -> None:
    """Refuse a release with an integer seed if a budget that counts it has a path.

    Raises
    ------
    ValueError
        Every process counts the releases of a seed from 0, so that two would share
        their noise.
    """
    marks |= {budget._ledger.mark for budget in _counting(OPEN.located(marks))}
    if seeded and any(mark.path is not None for mark in marks):
        raise ValueError(
            f"{name} has an integer random_state, and a budget with a path is open. "
            f"Another process with this integer would draw the same noise. Pass "
            f"random_state=None; nothing was drawn."
        )


@patient
def record_ids(name: str, unprotected: Iterable[str], marks: Marks) -> None:
    """Record in all open budgets that the ids in the data are about to be published.

    A guarantee for all data of a user does not cover that.

    Raises
    ------
    BudgetExceededError
        If an open budget protects all data of a user.
    RuntimeError, OSError
        As in `record`.
    """
    said = as_recorded(None, name, unprotected)
    with OPEN.lock:
        marks = OPEN.located(marks | OPEN.marks_of_thread())
        _record(_concerned(marks, name), *said)


def _counting(marks: Marks) -> "list[PrivacyBudget]":
    """The open budgets that count a release of an object with these marks."""
    files = {mark[1:] for mark in marks}
    return [
        budget
        for budget in OPEN.stack
        if not budget._covers_some or budget._ledger.mark[1:] in files
    ]


def _concerned(marks: Marks, name: str) -> "list[PrivacyBudget]":
    """The budgets that must record a release, in the order in which they are locked.

    Two objects for the same file are one budget. If the environment requires a budget,
    there is at least one.
    """
    is_open = {budget._ledger.mark[1:] for budget in OPEN.stack}
    closed = {mark for mark in marks if mark[1:] not in is_open}
    if lost := {mark.process for mark in closed if mark.path is None}:
        raise RuntimeError(_CLOSED if lost == {OPEN.process_name()} else _SENT)
    if nowhere := [mark.id for mark in closed if mark.path == ""]:
        raise RuntimeError(_NO_FILE.format(nowhere[0]))
    found = _counting(marks)
    found += [_stored(mark.path, mark.id) for mark in closed if mark.path is not None]
    distinct = {budget._ledger.mark[1:]: budget for budget in found}
    for budget in distinct.values():
        budget._ledger.check_process()
    if not distinct and os.environ.get(REQUIRED, "") not in ("", "0"):
        raise RuntimeError(_OUTSIDE.format(name))
    return sorted(distinct.values(), key=lambda b: (b.path is None, b.path or ""))


def _stored(path: str, number: str) -> "PrivacyBudget":
    """The budget of this id in an existing file."""
    if (path, number) not in OPEN.files:
        budget = budget_of_file(path)
        if budget._ledger.mark.id != number:
            raise OSError(
                f"{path} is not the budget that was open where this was made; nothing "
                f"was drawn."
            )
        OPEN.files[path, number] = budget
    return OPEN.files[path, number]


@patient
def _opened(path: str, number: str) -> "PrivacyBudget":
    """The budget that a pickle or copy of a budget turns into."""
    return _stored(path, number)


def budget_of_file(path: str) -> "PrivacyBudget":
    """The budget in an existing file, with the parameters that the file states."""
    from ._file import FileLedger

    ledger = FileLedger(path)
    budget = PrivacyBudget(**ledger.parameters)
    budget._ledger = ledger
    return budget


def _new_id() -> str:
    """The id of a release, random whatever the seed and the data."""
    return uuid.uuid4().hex


def _record(
    budgets: "list[PrivacyBudget]",
    guarantee: PrivacyGuarantee | None,
    name: str,
    unprotected: Iterable[str],
) -> str:
    """Record a release in these budgets, or in none; None stands for published ids.

    If this stops half-way, some budgets count too much. Return the id of the release.
    """
    from ._ledger import Record

    unprotected, release = tuple(unprotected), _new_id()

    def admit() -> "list[tuple[PrivacyBudget, Limits | None]]":
        return [(budget, budget._admit(guarantee, name)) for budget in budgets]

    for budget in budgets:
        budget._read()
    # Before a file is locked, since this may take longer than writing.
    admitted = admit()
    for budget in budgets:
        budget._warn_of_last_release(guarantee, name)
    with ExitStack() as stack:
        for budget in budgets:
            stack.enter_context(budget._ledger.locked())
        are_news = [budget._read() for budget in budgets]
        if any(are_news):
            admitted = admit()
        for budget, limits in admitted:
            new = tuple(each for each in unprotected if each not in budget._sentences)
            budget._ledger.add(Record(name, guarantee, new, limits, release))
        for budget in budgets:
            budget._ledger.commit()
        for budget in budgets:
            budget._read()
    return release


class PrivacyBudget:
    """A limit on what is released: counts releases, and refuses those beyond it.

    Within ``with budget:``, the budget records every release by an estimator of this
    package, in any thread of this process, before its noise is drawn. It refuses a
    release that would exceed it, and then nothing is drawn. With a `path`, the budget
    counts in a file, which any number of processes may open, now or next year.

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
        Whether to make a new file. If False, the file must exist, so that a mistyped
        path does not start a fresh budget, and the other parameters must be those with
        which it was created.
    note : str, default=""
        What the file stores with every release that is recorded by this object, such as
        the team and the purpose. It must hold no data.
    head : str, default=None
        What `head` was when somebody looked last, at most. A file that lacks this
        release is refused: somebody restored an older copy of it.

    Attributes
    ----------
    head : str
        Number and hash of the last release, which the file of the budget holds. Keep it
        elsewhere to notice a restored backup.
    spent : PrivacyGuarantee or None
        Composition of all recorded releases, as if they had been fixed beforehand.
        None if there is none.
    remaining : float
        Largest epsilon, at delta = 0, of one more release that would be admitted now.
    unprotected : tuple of str
        What the guarantees of the estimators leave out.

    Raises
    ------
    ValueError
        If a parameter is out of range, or differs from that of the file.
    FileNotFoundError, FileExistsError
        If there is no such file; with ``create=True``, if there is one.
    OSError
        If the file is damaged, cannot be opened, or is of a newer version.

    See Also
    --------
    already_released : State that data had been released before.
    detach_from_budgets : Copy an estimator for use after the block of a budget.
    privacy_of : What a fitted pipeline or search has revealed.

    Notes
    -----
    You can enter a budget again; it keeps counting. If budgets are nested, a release
    counts in all of them.

    By default, all results so far may decide which release you make next, and whether
    you make one. Three sums then remain valid, each up to a limit that is fixed before
    the first release: pure epsilons, mu^2 of Gaussian noise (see `gaussian_mu`), and
    Rényi divergences at one order. If all releases and their parameters are fixed
    beforehand, pass ``adaptive=False``: the budget then admits what the whole privacy
    curve of the composition admits, which is more. Sums are exact, and may exceed the
    budget by a relative 1e-12, so that ten releases of 0.1 fit into 1. Printing a
    budget shows the epsilon that it enforces; `spent` can be smaller.

    A budget counts what estimators release. It does not see labels, scores on raw
    values or the output of other libraries; record those with `spend`. Each fit of a
    search counts in full, although every record is held out of some of the fits.

    The limit holds if no record decides which other records a release uses, what these
    contain (by scaling, or renumbered ids), or whether and how often a release happens.
    A budget does not see the splitter of a cross-validation: where all data of a user
    are protected, use `UserKFold`.

    A copy of an estimator (a clone, a client, a pickle, ...) that is made while budgets
    are open belongs to them. Once a budget without a path is closed, the copy refuses
    to release until that budget is open again. An estimator that is not a copy is
    counted only while the budget is open: wait for the threads that use it. See
    `detach_from_budgets`.

    Without a path, an estimator that is sent to another process while the budget is
    open refuses to release there, and so does a forked process. With a path, the
    release is recorded in the file, if it is made on the same machine. A budget with a
    path refuses every release with an integer `random_state`, since two processes would
    share their noise. No budget sees estimators that other processes create.

    The file holds guarantees, times and names, but no data. It is trusted: whoever can
    write to it can remove releases. Damage is noticed. If a backup is restored, later
    releases are lost, and only processes that have the budget open notice it.

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
        note: str = "",
        head: str | None = None,
    ) -> None:
        check_number(epsilon, "epsilon")
        check_number(delta, "delta")
        if not epsilon > 0:
            raise ValueError(f"epsilon must be > 0, got {epsilon}.")
        if not 0 <= delta < 1:
            raise ValueError(f"delta must be in [0, 1), got {delta}.")
        if create and path is None:
            raise ValueError("create=True makes a file: pass its path.")
        if head is not None and (path is None or create):
            raise ValueError("head is that of an existing file: pass its path.")
        if not isinstance(note, str):
            raise TypeError(f"note must be a str, got {type(note).__name__}.")
        if note and path is None:
            raise ValueError("A note is stored in a file: pass a path.")
        # These import dp-accounting, which importing the package does not.
        from ._filter import Account, AdaptiveFilter, CurveLimit
        from ._ledger import Ledger

        self._epsilon, self._delta = float(epsilon), float(delta)
        self._adaptive = bool(adaptive)
        self._account = Account()
        self._sentences: dict[str, None] = {}
        self._publishers: list[str] = []
        self._n_open = 0
        self._covers_some = False
        self._older_threads: WeakSet[threading.Thread] = WeakSet()
        # Ten releases of 0.1 fit into 1, although ten times the float 0.1 is more.
        limit = self._epsilon * (1 + 1e-12), self._delta * (1 + 1e-12)
        self._limit: AdaptiveFilter | CurveLimit = CurveLimit((limit,))
        if math.isinf(epsilon):
            self._limit = CurveLimit()
        elif adaptive:
            self._limit = AdaptiveFilter(self._epsilon, self._delta)
        self._ledger = Ledger() if path is None else self._open(path, create)
        self._ledger.note = note
        if head is not None:
            patient(self._file().check_head)(head)

    def _open(self, path: "str | os.PathLike[str]", create: bool) -> "Ledger":
        from ._file import FileLedger

        parameters = {
            "epsilon": self._epsilon,
            "delta": self._delta,
            "adaptive": self._adaptive,
        }
        if create:
            FileLedger.create(path, parameters)
        ledger = patient(FileLedger)(path)
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
        return self._ledger.path

    @property
    @patient
    def head(self) -> str:
        """Number and hash of the last release in the file of the budget.

        Raises
        ------
        ValueError
            If the budget has no path.
        OSError
            If its file cannot be read.
        """
        ledger = self._file()
        with OPEN.lock:
            self._read()
            return ledger.head

    def _file(self) -> "FileLedger":
        """The file of the budget; an error if it has none."""
        from ._file import FileLedger

        if not isinstance(self._ledger, FileLedger):
            raise ValueError("Only a budget with a path keeps a history: pass a path.")
        return self._ledger

    @property
    def epsilon(self) -> float:
        """Epsilon of the budget."""
        return self._epsilon

    @property
    def delta(self) -> float:
        """Delta of the budget."""
        return self._delta

    def __enter__(self) -> Self:
        with OPEN.lock:
            self._ledger.check_process()
            # An interruption after this line leaves the budget open: it may count too
            # much, never too little.
            if self not in OPEN.stack:
                self._older_threads = WeakSet(threading.enumerate())
                OPEN.stack.append(self)
            self._n_open += 1
        return self

    def __exit__(self, *_: object) -> None:
        with OPEN.lock:
            self._n_open -= 1
            if self._n_open == 0:
                if not self._covers_some:
                    OPEN.mark_threads(self._ledger.mark, set(self._older_threads))
                OPEN.stack.remove(self)

    def covers(self, estimator: BaseEstimator) -> Self:
        """Count releases of this object and of its copies, and of no others.

        A budget counts every release that is made while it is open, in any thread. If
        two threads work on two data sets, each with a budget of its own, call this for
        both, so that neither charges the other's releases.

        The object belongs to the budget from now on, and with it every clone, copy,
        client and pickle of it, whenever these are made. If the budget is closed, they
        refuse to release; if it has a path, it counts them all the same. The budget
        counts nothing else: call this again for an estimator that you make inside its
        block, or put into the object later.

        A budget that covers nothing in particular counts what others cover, too, if it
        is open.

        Parameters
        ----------
        estimator : object
            An estimator, pipeline or search, or a container of such. All estimators of
            this package in it are covered.

        Returns
        -------
        budget : PrivacyBudget
            This one.

        Raises
        ------
        TypeError
            If no estimator of this package is in the object.
        RuntimeError
            If the budget is open, and has counted everything so far.

        Examples
        --------
        >>> import numpy as np
        >>> from sktensordp.mechanisms import LaplaceMechanism
        >>> from sktensordp.privacy import PrivacyBudget
        >>> X = np.zeros((10, 3))
        >>> patients, staff = (
        ...     LaplaceMechanism(0.5, bounds=(0, 1)).fit(X) for _ in range(2))
        >>> with PrivacyBudget(1.0).covers(patients) as budget:
        ...     released = patients.transform(X), staff.transform(X)
        >>> budget.spent.epsilon
        0.5
        """
        with OPEN.lock:
            self._ledger.check_process()
            if self in OPEN.stack and not self._covers_some:
                raise RuntimeError(
                    "This budget is open, and counts every release. Call covers "
                    "before you open it."
                )
            found = list(marked(estimator))
            if not found:
                raise TypeError(
                    f"Nothing in this {type(estimator).__name__} can make a release: "
                    f"pass an estimator of this package, or an object that holds one."
                )
            # Do this first: an interruption in between leaves objects that release
            # nothing.
            for item in found:
                mark(item, frozenset({self._ledger.mark}))
            self._covers_some = True
        return self

    @patient
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
            If `guarantee` is not a `PrivacyGuarantee`, or `name` not a string.
        OSError
            If the file of the budget cannot record the release.
        """
        check_guarantee(guarantee)
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, got {type(name).__name__}.")
        with OPEN.lock:
            _record([self], guarantee, name, ())

    @patient
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
        with OPEN.lock:
            self._read()
            return self._admission(guarantee) is not None

    @patient
    def history(self, *, as_frame: bool = True) -> Any:
        """Every release in the file of the budget, in the order of recording.

        Parameters
        ----------
        as_frame : bool, default=True
            Whether to return a data frame, if pandas is installed. Otherwise, a list of
            records that ``json.dumps`` takes.

        Returns
        -------
        releases : pandas.DataFrame or list of dict
            `number`, from 1; `time` in UTC; `release`, the id that the model has in
            `release_ids_`; `label`, the name of the release; `unit`, `relation`,
            `epsilon` and `delta` of its guarantee; `event`, what was done; `note`,
            `user`, `host` and `process`, who recorded it; `versions` of the packages,
            and `build`, the hash of this one; and `hash`, of this release and all
            before it. Published ids have a label and no guarantee. What is not known is
            None. In records, an epsilon is None if no finite one holds, and an event is
            a dict.

        Raises
        ------
        ValueError
            If the budget has no path.
        OSError
            If its file cannot be read.

        Examples
        --------
        >>> import json, tempfile
        >>> from sktensordp.mechanisms import LaplaceMechanism
        >>> from sktensordp.privacy import PrivacyBudget
        >>> noise = LaplaceMechanism(0.5, bounds=(0, 1)).fit([[0.0, 0.5]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = f"{folder}/films.db"
        ...     budget = PrivacyBudget(1.0, path=path, create=True, note="survey, ada")
        ...     with budget:
        ...         answers = noise.transform([[0.0, 0.5]])
        ...     (row,) = json.loads(json.dumps(budget.history(as_frame=False)))
        >>> row["number"], row["label"], row["epsilon"], row["note"]
        (1, 'transform of LaplaceMechanism', 0.5, 'survey, ada')
        """
        from ._file import SHOWN

        frame: Any = None
        if as_frame:
            with suppress(ImportError):
                import pandas as pd

                frame = pd.DataFrame
        ledger, as_json = self._file(), frame is None
        with OPEN.lock:
            self._read()
            found = [row.shown(as_json=as_json) for row in ledger.history()]
        return found if as_json else frame(found, columns=SHOWN)

    def _read(self) -> bool:
        """Count records since the last call; return whether there were any.

        They may have been made here or in other processes.
        """
        is_news = False
        for label, guarantee, sentences, limits, _ in self._ledger.news():
            self._limit.settle(limits)
            if guarantee is None:
                self._publishers.append(label)
            elif reveals_nothing(guarantee):
                self._current_account().record(label, guarantee)
            else:
                totals = self._limit.totals(guarantee.event)
                self._current_account().record(label, guarantee, totals)
            self._sentences.update(dict.fromkeys(sentences))
            is_news = True
        return is_news

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

        if self.path is not None:
            raise ValueError(
                "A budget with a path does not know which part of the data a release "
                "of another process is about, so it cannot count the worst part only. "
                "Use a budget without a path, and record its `spent` here."
            )
        block: list[Account] = []
        with OPEN.lock:
            self._ledger.check_process()
            self._current_account().blocks.append(block)
        opened: list[Branch] = []
        ended = False

        @contextmanager
        def part() -> Iterator[None]:
            if ended:
                raise RuntimeError(
                    "This block of disjoint parts has ended. Open its parts inside "
                    "`with budget.parallel() as part:`."
                )
            if any(branch.block is block for branch in open_branches()):
                raise RuntimeError(
                    "Another part of this block is open. Close it first, or call "
                    "`parallel()` again to divide that part."
                )
            branch = Branch(self, block, Account())
            with OPEN.lock:
                block.append(branch.account)
                opened.append(branch)
            try:
                BRANCHES.set((*open_branches(), branch))
                yield
            finally:
                # A copy of this context, such as that of a task, may outlive it.
                branch.is_open = False
                BRANCHES.set(open_branches())

        try:
            yield part
        finally:
            ended = True
            for branch in opened:
                branch.is_open = False

    @property
    @patient
    def spent(self) -> PrivacyGuarantee | None:
        """Composition of all recorded releases, as if they had been fixed beforehand.

        None if there is none.
        """
        with OPEN.lock:
            self._read()
            return self._spent()

    def _spent(self) -> PrivacyGuarantee | None:
        from dp_accounting import dp_event

        recorded = list(self._account.guarantees())
        event = self._account.event()
        if not recorded:
            return None
        unit, relation = unit_and_relation(recorded)
        if self._hidden_ids_published(unit, relation):
            event = dp_event.NonPrivateDpEvent()
        n_releases = sum(count or 0 for _, count, _, _ in self._account.lines())
        return PrivacyGuarantee.from_event(
            event,
            delta=self._delta,
            unit=unit,
            relation=relation,
            statement=f"All releases of a budget ({n_releases}), as if they had been "
            f"fixed beforehand.",
            source=sources_of(recorded),
            conditions=conditions_of(recorded),
            local=local_of(recorded),
        )

    @property
    @patient
    def remaining(self) -> float:
        """Largest epsilon, at delta = 0, of one more release that would be admitted.

        Infinite if the budget is. A release with a positive delta may be admitted at
        another epsilon: see `admits`. Accurate to a millionth of the budget's epsilon,
        or to a thousandth with ``adaptive=False``.
        """
        with OPEN.lock:
            self._read()
            return self._remaining_epsilon()

    def _remaining_epsilon(self) -> float:
        if math.isinf(self._epsilon):
            return math.inf
        self._ledger.check_process()
        from ..accounting._events import PureDpEvent

        # Try first what is left of the spent epsilon: often that is the answer.
        spent = self._limit.spent_pure(self._account)
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
        if self._hidden_ids_published(*unit_and_relation(recorded)):
            return 0.0

        def fits(size: float) -> bool:
            return self._admitted(event_of(size)) is not None

        low, high = guess, largest
        near = high * (_PRECISION if self._adaptive else _ROUGH_PRECISION)
        if low and not fits(low):
            low, high = 0.0, low
        elif not fits(low + near):
            high = low
        while high - low > near:
            middle = (low + high) / 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low if low > largest * _PRECISION else 0.0

    @property
    @patient
    def unprotected(self) -> tuple[str, ...]:
        """What the guarantees of the recorded estimators leave out, in sentences."""
        with OPEN.lock:
            self._read()
            return tuple(self._sentences)

    def _current_account(self) -> "Account":
        """The account that records the releases of this thread."""
        accounts = [
            branch.account for branch in open_branches() if branch.budget is self
        ]
        return accounts[-1] if accounts else self._account

    def _admit(self, guarantee: PrivacyGuarantee | None, name: str) -> "Limits | None":
        """The limits that a release decides, or an error if it does not fit."""
        recorded = list(self._account.guarantees())
        if guarantee is None:
            of_users = any(hides_ids(one.unit, one.relation) for one in recorded)
            if of_users and math.isfinite(self._epsilon):
                raise BudgetExceededError(_PUBLISHES_IDS.format(name))
            return None
        if reveals_nothing(guarantee):
            return None
        admission = self._admission(guarantee)
        of_whom = guarantee.unit, guarantee.relation
        if admission is None and self._hidden_ids_published(*of_whom):
            raise BudgetExceededError(_PUBLISHES_IDS.format(self._publishers[0]))
        if admission is None:
            lacks_delta = guarantee.delta > 0 and self._delta == 0
            advice = " This budget admits no delta." if lacks_delta else ""
            if self._limit.counts_none_of(guarantee.event):
                advice = (
                    " The first release decided how this budget adds up releases, and "
                    "this one has no such sum. Give it a budget of its own; begin a "
                    "budget with it; or, if all releases are fixed beforehand, pass "
                    "adaptive=False."
                )
            raise BudgetExceededError(
                f"{name} would exceed the budget of epsilon = {exact(self._epsilon)} "
                f"and delta = {exact(self._delta)}; nothing was drawn. It asks for "
                f"epsilon = {shown(guarantee.epsilon)} at delta = "
                f"{shown(guarantee.delta)}. {self._left_line()}.{advice}"
            )
        return None if recorded else admission[1]

    def _warn_of_last_release(
        self, guarantee: PrivacyGuarantee | None, name: str
    ) -> None:
        """Warn if the first release of a budget would use up far more than it needs."""
        from ._filter import AdaptiveFilter

        if guarantee is None or not isinstance(self._limit, AdaptiveFilter):
            return
        if reveals_nothing(guarantee):
            return
        if any(True for _ in self._account.guarantees()):
            return
        epsilon = guarantee.epsilon_at(self._delta)
        small = epsilon < _MUCH * self._epsilon <= _MUCH * _LARGEST_WARNED
        if small and self._limit.is_used_up_by(guarantee.event):
            warn(
                f"{name} has epsilon = {shown(epsilon)}, but nothing else will be "
                f"admitted to this budget of {exact(self._epsilon)} after it: while "
                f"results may decide what comes next, such a release does not add up "
                f"with others. Give it a budget of its own or, if all releases are "
                f"fixed beforehand, pass adaptive=False."
            )

    def _admission(
        self, guarantee: PrivacyGuarantee
    ) -> "tuple[Totals, Limits | None] | None":
        """Totals and limits of a release; None if it does not fit."""
        self._ledger.check_process()
        # This raises if they differ.
        unit_and_relation([guarantee, *self._account.guarantees()])
        of_whom = guarantee.unit, guarantee.relation
        if self._hidden_ids_published(*of_whom) and math.isfinite(self._epsilon):
            return None
        return self._admitted(guarantee.event)

    def _admitted(self, event: "DpEvent") -> "tuple[Totals, Limits | None] | None":
        """Totals and limits of an event, whatever its unit; None if it does not fit."""
        return self._limit.admit_to(self._account, self._current_account(), event)

    def _hidden_ids_published(self, unit: str | int, relation: str) -> bool:
        """Whether ids were published that a guarantee covers."""
        return hides_ids(unit, relation) and bool(self._publishers)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise TypeError(
                "A privacy budget without a path counts in its own process, so it "
                "cannot be copied or pickled."
            )
        return _opened, (self.path, self._ledger.mark.id)

    def _headline(self) -> str:
        recorded = list(self._account.guarantees())
        protected = ""
        if recorded:
            _, relation = unit_and_relation(recorded)
            conditions = clauses(sorted({*conditions_of(recorded)}))
            protected = f", for {unit_in_words(recorded)} ({relation}){conditions}"
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
        fixed = shown(spent.epsilon)
        if not self._adaptive or spent.delta == 0:
            return f"Spent: epsilon = {fixed} {at_delta}"
        from ._filter import AdaptiveFilter

        if not isinstance(self._limit, AdaptiveFilter):
            return f"Spent: epsilon = {fixed} {at_delta} if planned in advance"
        event, total = self._account.event(), self._account.total()
        return (
            f"Spent: epsilon = {shown(self._limit.spent_epsilon(total, event))} "
            f"{at_delta} ({fixed} if planned in advance)\n"
            f"To quote: epsilon = {shown(self._epsilon)}, the limit, which holds "
            f"whatever you decide on the way; {fixed} only if all releases were fixed "
            f"beforehand"
        )

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

    @patient
    def __str__(self) -> str:
        with OPEN.lock:
            self._read()
            return self._text()

    def _text(self) -> str:
        lines = [self._headline(), self._spent_line(), self._left_line()]
        for depth, count, epsilon, name in self._account.lines():
            times = "" if count is None else f"{count} x {epsilon_line(epsilon)}: "
            lines.append("  " * (depth + 1) + times + name)
        if sentences := self._not_protected():
            lines.append("Not protected:")
            lines += [f"  - {sentence}" for sentence in sentences]
        return "\n".join(lines)

    def _not_protected(self) -> list[str]:
        """Sentences on what the budget does not cover."""
        counts: dict[str, int] = {}
        for _, count, _, name in self._account.lines():
            if count is not None and name.startswith("fit of "):
                counts[name] = counts.get(name, 0) + count
        repeated = [f"the {n} releases {name!r}" for name, n in counts.items() if n > 1]
        if not repeated:
            return list(self._sentences)
        text = _OF_FOLDS.format(", ".join(repeated))
        return [*self._sentences, text[0].upper() + text[1:]]

    def __repr__(self) -> str:
        options = "" if self._adaptive else ", adaptive=False"
        options += "" if self.path is None else f", path={self.path!r}"
        return f"PrivacyBudget({exact(self._epsilon)}, {exact(self._delta)}{options})"

    @patient
    def _repr_html_(self) -> str:
        with OPEN.lock:
            self._read()
            return self._html()

    def _html(self) -> str:
        lines = [*self._spent_line().split("\n"), self._left_line()]
        said = "<br>".join(map(html.escape, lines))
        line = coloured(self._headline(), holds=math.isfinite(self._epsilon))
        caption = f"<caption>{said}</caption>"
        return line + releases_table(
            self._account.lines(), self._not_protected(), caption
        )
