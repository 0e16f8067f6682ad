"""Base classes of the estimators, and the three ways in which they release.

Every release goes through `recorded_fit`, `recorded_update` or `recorded_call`. Each
records the guarantee in all open budgets before it lends streams of random numbers,
and sums over people can be released only with these.
"""

import copy
import functools
import inspect
import itertools
import logging
import pickle
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr

from . import __version__
from ._random import NoiseStreams, ReleaseCounter
from ._sklearn_compat import CallbackSupportMixin, callbacks_of
from ._validation import (
    callers_level,
    check_unmasked,
    described,
)
from ._waiting import ProgressReport
from .privacy import PrivacyGuarantee, PrivacyTags
from .privacy._guarantee import guarantee_line, in_words
from .privacy._protocol import privacy_tags
from .privacy.budgets._budget import check_seed, record
from .privacy.budgets._clones import join_family, warn_of_clones
from .privacy.budgets._open import (
    Markable,
    Marks,
    marks_of_copy,
    marks_of_pickle,
)
from .privacy.budgets._reserved import current_reservation
from .privacy.budgets._stated import as_recorded

__all__ = [
    "EstimatorMixin",
    "PrivateEstimatorMixin",
    "StorableMixin",
    "recorded_call",
    "recorded_fit",
    "recorded_update",
]

LOGGER = logging.getLogger("sktensordp")
"""Says what fits do and what they guarantee; never what depends on raw data."""

# The class that follows the mixins among the bases.
if TYPE_CHECKING:
    from sklearn.base import BaseEstimator as _Estimator
else:
    _Estimator = object

Copy = TypeVar("Copy", bound=Markable)
Step = TypeVar("Step")
_Begun = TypeVar("_Begun")

# Facts about the input that survive when `_forget` discards a fit.
_KEPT = {"n_features_in_", "feature_names_in_"}

_OLDEST = 0, 2
"""Oldest minor version whose pickles this version loads.

tests/test_stored.py loads one pickle of each minor version since then. If it fails,
mend `__setstate__` or raise this version.
"""


@functools.cache
def _documentation() -> str:
    """Address of the documentation from the package's metadata; "" if it has none."""
    from importlib import metadata

    with suppress(metadata.PackageNotFoundError):
        for entry in metadata.metadata("sktensordp").get_all("Project-URL", ()):
            label, _, address = entry.partition(", ")
            if label == "Documentation":
                return address.rstrip("/")
    return ""


class EstimatorMixin(CallbackSupportMixin, _Estimator):
    """Mixin of everything users fit: messages, documentation links, and callbacks."""

    _doc_link_module = "sktensordp"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise NotFittedError for what only a fit sets.

            Python calls this after it has found neither an attribute nor a property.
            """
            if name in _set_by_fit(type(self)) and not _is_fitted(self):
                raise NotFittedError(
                    f"{name} is set by fit, and this {type(self).__name__} is not "
                    f"fitted yet."
                )
            return object.__getattribute__(self, name)

    def __format__(self, spec: str) -> str:
        """Only the name, for messages: the full text may list a whole catalogue."""
        return format(f"{type(self).__name__}(...)", spec)

    def _html_repr(self) -> str:
        """scikit-learn's diagram, below the guarantee if the estimator is fitted."""
        diagram: str = estimator_html_repr(self)
        guarantee = getattr(self, "privacy_guarantee_", None)
        return diagram if guarantee is None else guarantee_line(guarantee) + diagram

    @property
    def _doc_link_template(self) -> str:
        pages = "modules/generated/{estimator_module}.{estimator_name}.html"
        return f"{_documentation()}/{pages}" if _documentation() else ""

    @contextmanager
    def _progress(
        self,
        task: str = "step",
        max_tasks: int | None = 1,
        *,
        has_time: bool = True,
    ) -> Iterator[Callable[..., bool]]:
        """Report the progress of a fit to the log and to callbacks.

        Without callbacks, a fit that takes long shows a bar; see ``_waiting.py``. The
        fit lasts until the block ends. Callbacks never receive data; scikit-learn
        has them from version 1.9 on.

        Parameters
        ----------
        task : str, default="step"
            Name of the tasks that make up the fit.
        max_tasks : int or None, default=1
            Largest number of tasks; None if it is unknown or must stay secret.
        has_time : bool, default=True
            Whether the time may be shown, if `_time_is_public`.

        Yields
        ------
        on_task : callable
            Call it at the end of each task, with at most one argument, which it
            ignores. It returns True if a callback asks the fit to stop.
        """
        has_time = has_time and self._time_is_public
        on_log = self._log_of(task, max_tasks, has_time=has_time)
        if not callbacks_of(self):
            # If the number of tasks or candidates is secret, nothing is shown.
            if max_tasks is None or current_reservation() is not None:
                yield on_log
                return
            name = type(self).__name__
            with ProgressReport(name, task, max_tasks, has_time=has_time) as progress:

                def on_end(_: object = None) -> bool:
                    progress.advance()
                    return on_log()

                yield on_end
            return
        context = self._init_callback_context(max_subtasks=max_tasks)
        context.call_on_fit_task_begin(estimator=self)

        def on_task(_: object = None) -> bool:
            subcontext = context.subcontext(task_name=task)
            subcontext.call_on_fit_task_begin(estimator=self)
            on_log()
            return subcontext.call_on_fit_task_end(estimator=self)

        yield on_task
        context.call_on_fit_task_end(estimator=self)

    @property
    def _time_is_public(self) -> bool:
        """Whether the time that a fit takes depends on public quantities alone.

        No, unless a class says so: the data of a unit may decide it.
        """
        return False

    def _log_of(
        self, task: str, max_tasks: int | None, *, has_time: bool
    ) -> Callable[..., bool]:
        """Write a line to the log at the end of each task, with the time left.

        If the number of tasks must stay secret, it writes nothing.
        """
        quiet = max_tasks is None or current_reservation() is not None
        if quiet or not LOGGER.isEnabledFor(logging.DEBUG):
            return lambda _=None: False
        start, done = time.perf_counter(), itertools.count(1)

        def log(_: object = None) -> bool:
            assert max_tasks is not None
            n, spent = next(done), time.perf_counter() - start
            left = ""
            if has_time:
                left = f", about {spent / n * max(max_tasks - n, 0):.1f} s left"
            name = type(self).__name__
            LOGGER.debug("%s: %s %d of %d%s", name, task, n, max_tasks, left)
            return False

        return log

    def _validate_params(self) -> None:
        """Check the parameters without quoting any that may hold data."""
        try:
            super()._validate_params()
            return
        except ValueError as error:
            refused, message = type(error), str(error)
        for value in self.get_params(deep=False).values():
            message = message.replace(f"Got {value!r} ", f"Got {described(value)} ")
            if " int " in message and isinstance(value, float) and value.is_integer():
                got = f"Got {value!r} instead."
                message = message.replace(got, f"Pass {value:.0f}.")
        # Raised outside the handler, so that the quote does not become the context.
        raise refused(message)


@functools.cache
def _set_by_fit(cls: type) -> frozenset[str]:
    """Names of what a fit sets: annotated attributes and properties of a class."""
    names = {
        name
        for one in cls.__mro__
        for name in (*inspect.get_annotations(one), *vars(one))
        if name.endswith("_") and not name.startswith("_")
    }
    return frozenset(names | _KEPT)


def _is_fitted(estimator: object) -> bool:
    """Whether a fit has set anything."""
    if hasattr(estimator, "__sklearn_is_fitted__"):
        return estimator.__sklearn_is_fitted__()
    return any(n.endswith("_") and not n.startswith("_") for n in vars(estimator))


def _check_version(version: str, name: str) -> None:
    """Refuse a pickle of a version that this one cannot load, and say what to do."""
    stored_by, current = (
        tuple(map(int, re.findall(r"^(\d+)\.(\d+)", v)[0]))
        for v in (version, __version__)
    )
    reason = (
        f"This {name} was stored by sktensordp {version}, and this is {__version__}"
    )
    if stored_by > current:
        raise pickle.UnpicklingError(
            f"{reason}. Install {version} or a later version to load it."
        )
    if stored_by < _OLDEST:
        raise pickle.UnpicklingError(
            f"{reason}, which loads pickles of {_OLDEST[0]}.{_OLDEST[1]} and later. "
            f"Load it with sktensordp {stored_by[0]}.{stored_by[1]}, in a separate "
            f"environment. Fitting it again to the same data would be another release "
            f"and would cost its epsilon again."
        )


class _StoredBy:
    """The version that made a pickle, which is checked before all else in it is read.

    What follows may need classes that another version does not have.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return _loaded_version, (__version__, self._name)


def _loaded_version(version: str, name: str) -> _StoredBy:
    """Check the version of a pickle."""
    _check_version(version, name)
    return _StoredBy(name)


def _begun(_: _StoredBy, kind: type[_Begun]) -> _Begun:
    """An object whose state follows in the pickle."""
    return kind.__new__(kind)


class _ReleaseTally:
    """What an object has released: guarantees, each with its number of releases.

    An object holds one from its first fit on, so that a release changes no attribute.
    """

    counts: dict[PrivacyGuarantee, int]

    def __init__(self, counts: Mapping[PrivacyGuarantee, int]) -> None:
        self.counts = dict(counts)

    def with_one(
        self, guarantee: PrivacyGuarantee, instead_of: PrivacyGuarantee | None = None
    ) -> "_ReleaseTally":
        """A copy with one release more, or with another guarantee for one release."""
        counts = Counter(self.counts)
        counts[guarantee] += 1
        if instead_of is not None:
            counts[instead_of] -= 1
        return _ReleaseTally(+counts)


class StorableMixin(Markable, _Estimator):
    """Mixin of estimators that can be stored or sent to other processes.

    Their pickles record the version that made them. Every copy of an object (a copy,
    clone, pickle, unpickled object, client or party) belongs to the budgets that were
    open where it was made, and to those of the original.
    """

    _releases: ReleaseCounter
    _release_tally: _ReleaseTally

    # Not `__reduce_ex__`, which would go before what a party says in `__reduce__`.
    def __reduce__(self) -> tuple[Any, ...]:
        begun = _begun, (_StoredBy(type(self).__name__), type(self))
        return (*begun, self.__getstate__())

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {**super().__getstate__()}
        state.pop("_budget_marks", None)
        if "_release_tally" in state:
            state["_release_tally"] = _ReleaseTally(self._release_counts)
        marks = marks_of_pickle(marks_of_copy(self._budget_marks))
        return (
            state
            | {"_sktensordp_version": __version__}
            | ({"_budget_marks": marks} if marks else {})
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        _check_version(state.pop("_sktensordp_version", "0.0"), type(self).__name__)
        if marks := marks_of_copy(state.pop("_budget_marks", frozenset())):
            state["_budget_marks"] = marks
        above = super()
        if hasattr(above, "__setstate__"):
            above.__setstate__(state)
        else:
            self.__dict__.update(state)

    def __sklearn_clone__(self) -> Self:
        clone = self._passed_on(super().__sklearn_clone__())
        join_family(self, clone)
        return clone

    def _passed_on(self, other: Copy) -> Copy:
        """Mark a copy or client of this object with the budgets to which it belongs."""
        if marks := marks_of_copy(self._budget_marks):
            other._budget_marks = marks
        return other

    def _marks(self) -> Marks:
        """The budgets to which a release of this object belongs."""
        return self._budget_marks

    def _count_releases(self) -> ReleaseCounter:
        """The count of all releases of this object, with its lock."""
        # One atomic call: otherwise two threads could each count from 0.
        return self.__dict__.setdefault("_releases", ReleaseCounter())

    @property
    def _release_counts(self) -> Mapping[PrivacyGuarantee, int]:
        """Guarantees of all releases so far, each with its number of releases."""
        so_far = vars(self).get("_release_tally")
        return {} if so_far is None else so_far.counts

    @_release_counts.setter
    def _release_counts(self, counts: Mapping[PrivacyGuarantee, int]) -> None:
        self.__dict__.setdefault("_release_tally", _ReleaseTally({})).counts = dict(
            counts
        )


class PrivateEstimatorMixin(StorableMixin):
    """Mixin of estimators that release something computed from private data.

    The estimator has a parameter ``random_state``: None takes entropy from the
    operating system; an int is for tests and papers only. An int and the number of
    earlier releases determine the noise of a release: clones start again from the
    first release, and a copy or pickle continues with the same noise as the original.
    The estimator draws all its noise from the streams that `recorded_fit`,
    `recorded_update` or `recorded_call` lends.

    Several threads may release with one object at the same time. Fits of one object
    wait for each other; its parameters must not change meanwhile.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of this fit or, if calls release something, of each call. Its text
        says which, since what else this estimator and its clones release adds up with
        it.
    """

    random_state: int | None
    release_ids_: tuple[str, ...]
    """Ids of the releases that a model holds, as in the log and in budgets.

    Estimators that release in calls, such as `transform`, have no such attribute.
    """
    _was_seeded: bool = False
    """Whether an earlier fit took noise from an integer: its release still counts."""
    _seeded: Collection[bool] = ()
    """Whether releases since the last fit took their noise from an integer seed."""
    _protected: str = ""
    """What is protected, in the words of the table whose indices are fitted."""

    @property
    def privacy_guarantee_(self) -> PrivacyGuarantee:
        """Guarantee of this fit or, if calls release something, of each call."""
        if "privacy_guarantee_" not in vars(self):
            raise AttributeError(
                f"{type(self).__name__} has no privacy_guarantee_ before its fit."
            )
        tags = privacy_tags(self)
        is_call = tags.released_by not in ("fit", None)
        scope = f"Each call of {tags.released_by}" if is_call else "This fit"
        return in_words(
            vars(self)["privacy_guarantee_"], protected=tags.unit_in_words, scope=scope
        )

    @privacy_guarantee_.setter
    def privacy_guarantee_(self, guarantee: PrivacyGuarantee) -> None:
        self.__dict__["privacy_guarantee_"] = guarantee

    @contextmanager
    def _lend_streams(self) -> Iterator[NoiseStreams]:
        """Lend streams with a fresh key until the block ends.

        No two releases of an object share a key, even if both have the same int as
        random state.
        """
        count = self._count_releases().next()
        # A set, so that a release changes no attribute.
        self.__dict__.setdefault("_seeded", set()).add(self.random_state is not None)
        streams = NoiseStreams(self.random_state, count)
        streams.are_recorded = True
        try:
            yield streams
        finally:
            streams.close()

    def _record(self, guarantee: PrivacyGuarantee) -> tuple[str, ...]:
        """Record a release in all open budgets; raise if one of them refuses it.

        If the release belongs to a reservation, the budgets have recorded that already.
        Otherwise, return its id.
        """
        tags = self.__privacy_tags__()
        released_by = tags.released_by
        assert released_by is not None
        guarantee = in_words(guarantee, protected=tags.unit_in_words)
        reservation = current_reservation()
        if reservation is not None:
            check_seed_of(self)
            reservation.admit(guarantee, released_by)
            return ()
        name = f"{released_by} of {type(self).__name__}"
        unprotected = self.__privacy_unprotected__()
        seeded = self.random_state is not None
        if not marks_of_copy(self._marks()):
            # Before the record: a warning that is an error leaves none.
            warn_of_clones(self, self._count_releases(), guarantee)
        recorded, name, said = as_recorded(guarantee, name, unprotected)
        release = record(recorded, name, said, self._marks(), seeded=seeded)
        LOGGER.info(
            "%s: %s %s Release %s.", name, recorded, recorded.statement, release
        )
        return (release,)

    def __privacy_check_rows__(self, n_rows: int) -> None:
        """Refuse so few rows, if a fit would; their number must be public."""

    def __privacy_check_targets__(self, y: Any) -> None:
        """Refuse targets of a type that a fit would refuse; read no value of them."""

    def _keep(
        self, guarantee: PrivacyGuarantee, instead_of: PrivacyGuarantee | None = None
    ) -> None:
        """Count a release, or state another guarantee for one that was counted.

        Copies and pickles keep the counts; clones start from zero.
        """
        with self._count_releases().lock:
            self._release_counts = (
                _ReleaseTally(self._release_counts)
                .with_one(guarantee, instead_of)
                .counts
            )

    def _forget(self, **replacements: object) -> None:
        """Discard the results of an earlier fit before its guarantee is replaced.

        An interrupted fit then never leaves an earlier model under a later guarantee.
        The count of releases stays: with an int as random state, no later release
        repeats the noise of an earlier one.

        Parameters
        ----------
        **replacements : dict
            Attributes to set in the same step.
        """
        # Without the lock, a release that another thread counts meanwhile would be
        # lost.
        with self._count_releases().lock:
            kept = {
                name: value
                for name, value in vars(self).copy().items()
                if name in _KEPT or not (name.endswith("_") or name in self._of_fit)
            }
            kept.setdefault("_release_tally", _ReleaseTally({}))
            # One assignment, so that interruptions see all of it or nothing.
            was_seeded = self._was_seeded or True in self._seeded
            anew = {"_seeded": set(), "_was_seeded": was_seeded}
            self.__dict__ = {**kept, **anew, **replacements}

    _of_fit: tuple[str, ...] = ()
    """Attributes that a fit sets, but whose names do not end with an underscore."""

    def _validate_params(self) -> None:
        super()._validate_params()
        for name, value in self.get_params(deep=False).items():
            check_unmasked(value, name)
        if getattr(self, "delta", 0) > 0.1:  # hardly intended
            warnings.warn(
                f"delta = {self.delta} lets a release reveal everything about a person "
                f"with this probability. Choose it far below one over the number of "
                f"people, such as 1e-6.",
                UserWarning,
                stacklevel=callers_level(),
            )

    def __privacy_tags__(self) -> PrivacyTags:
        return PrivacyTags(released_by="fit", unit_in_words=self._protected)

    def __privacy_plan__(
        self, fitted: object = None, *, any_shape: bool = False
    ) -> PrivacyGuarantee:
        raise TypeError(
            f"{type(self).__name__} does not say before its release what it will "
            f"guarantee."
        )

    def _as_told(
        self, counts: Mapping[PrivacyGuarantee, int]
    ) -> Mapping[PrivacyGuarantee, int]:
        """Counts of releases, with the conditions that this fit has acquired since."""
        return counts

    def __privacy_releases__(self) -> Mapping[PrivacyGuarantee, int]:
        return self._release_counts

    def __privacy_unprotected__(self) -> list[str]:
        """Sentences that say what the guarantee does not cover."""
        if self.random_state is not None or True in self._seeded:
            return [
                "The noise follows from an integer random_state: anyone who knows or "
                "guesses that integer can remove the noise, and clones repeat it."
            ]
        if self._was_seeded:
            return [
                "The noise of an earlier fit of this object followed from an integer "
                "random_state: anyone who knows or guesses that integer can remove it."
            ]
        return []


NoiseBy = Literal["fit", "nobody", "others", "earlier"]
"""Who draws the noise of a fit: this fit; nobody, since there is none; others, who have
recorded it; or an earlier fit, whose release is used again."""


@contextmanager
def recorded_fit(
    estimator: PrivateEstimatorMixin,
    guarantee: PrivacyGuarantee,
    noise: NoiseBy = "fit",
) -> Iterator[Any]:
    """Record a new fit, then lend its random streams until the block ends.

    The fit discards the results of an earlier one, so that an interrupted fit never
    leaves an earlier model under a later guarantee. It discards them after the budgets
    admit the release and before any noise is drawn; if this fit draws none, when the
    block ends without an error. From then on, the estimator has the attributes
    ``privacy_guarantee_`` and ``release_ids_``, the ids of the releases that the model
    holds.

    Parameters
    ----------
    estimator : PrivateEstimatorMixin
    guarantee : PrivacyGuarantee
        Guarantee of the fit. It is recorded before any noise is drawn, so that an
        interrupted release counts.
    noise : {"fit", "nobody", "others", "earlier"}, default="fit"
        Who draws the noise: this fit; nobody, since epsilon is infinite, which is
        recorded all the same; others, who have recorded the release; or an earlier fit
        to the same released values, so that nothing more is revealed.

    Yields
    ------
    streams : NoiseStreams or None
        Streams with a fresh key; None if this fit draws no noise.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> from dp_accounting.dp_event import DiscreteLaplaceDpEvent
    >>> from sktensordp.base import PrivateEstimatorMixin, recorded_fit
    >>> from sktensordp.noise import discrete_laplace
    >>> from sktensordp.privacy import PrivacyGuarantee
    >>> class PrivateRows(PrivateEstimatorMixin, BaseEstimator):
    ...     def __init__(self, random_state=None):
    ...         self.random_state = random_state
    ...     def fit(self, X, y=None):
    ...         guarantee = PrivacyGuarantee.from_event(
    ...             DiscreteLaplaceDpEvent(1.0, 1), unit="sample",
    ...             relation="add-or-remove", statement="A count with noise.",
    ...             source="Ghosh, Roughgarden and Sundararajan (2009)")
    ...         with recorded_fit(self, guarantee) as streams:
    ...             (noise,) = discrete_laplace(streams.stream(0), 1, 1, 1)
    ...             self.n_rows_ = len(X) + int(noise)
    ...         return self
    >>> print(PrivateRows(random_state=0).fit([[1]] * 100).privacy_guarantee_)
    This fit: (epsilon = 1, delta = 0)-differential privacy for one row of X
    (add-or-remove).
    """
    release_ids: tuple[str, ...] = ()
    if noise in ("fit", "nobody"):
        release_ids = estimator._record(guarantee)
    elif noise == "earlier":
        release_ids = vars(estimator).get("release_ids_", ())
    if noise != "earlier" or guarantee not in estimator._release_counts:
        estimator._keep(guarantee)
    fitted = {"privacy_guarantee_": guarantee, "release_ids_": release_ids}
    if noise == "fit":
        estimator._forget(**fitted)
        with estimator._lend_streams() as streams:
            yield streams
    else:
        yield None
        estimator._forget(**fitted)


@contextmanager
def recorded_update(
    estimator: PrivateEstimatorMixin,
    guarantee: PrivacyGuarantee,
    total: PrivacyGuarantee,
    *,
    draws: bool,
) -> Iterator[Any]:
    """Record a further release of a fitted model, then lend its random streams.

    Parameters
    ----------
    estimator : PrivateEstimatorMixin
        Fitted; it keeps what it has learned.
    guarantee : PrivacyGuarantee
        Guarantee of this release.
    total : PrivacyGuarantee
        Guarantee of this release and those that the model keeps, together. It becomes
        ``privacy_guarantee_`` before any noise is drawn.
    draws : bool
        Whether there is noise. If not, the release is recorded all the same.

    Yields
    ------
    streams : NoiseStreams or None
        Streams with a fresh key; None if there is no noise.
    """
    release_ids = estimator._record(guarantee)
    estimator._keep(total, instead_of=estimator.privacy_guarantee_)
    estimator.privacy_guarantee_ = total
    estimator.release_ids_ = (*estimator.release_ids_, *release_ids)
    with estimator._lend_streams() if draws else nullcontext() as streams:
        yield streams


@contextmanager
def recorded_call(
    estimator: PrivateEstimatorMixin, guarantee: PrivacyGuarantee, *, draws: bool = True
) -> Iterator[Any]:
    """Record a call that is a release by itself, then lend its random streams.

    Parameters
    ----------
    estimator : PrivateEstimatorMixin
        The call changes nothing but the number of releases.
    guarantee : PrivacyGuarantee
        Guarantee of the call.
    draws : bool, default=True
        Whether there is noise. If not, the release is recorded all the same.

    Yields
    ------
    streams : NoiseStreams or None
        Streams with a fresh key; None if there is no noise.
    """
    estimator._record(guarantee)
    estimator._keep(guarantee)
    with estimator._lend_streams() if draws else nullcontext() as streams:
        yield streams


def exchanged(
    counts: Mapping[PrivacyGuarantee, int],
    guarantee: PrivacyGuarantee,
    instead_of: PrivacyGuarantee,
) -> Mapping[PrivacyGuarantee, int]:
    """Counts of releases, with the guarantee of one of them replaced."""
    return _ReleaseTally(counts).with_one(guarantee, instead_of).counts


@contextmanager
def counting_for(owner: StorableMixin, step: object) -> Iterator[None]:
    """Count releases of a step within the block as releases of its owner.

    Both draw keys from one count, so that no two of their releases share noise.
    Releases are counted even if the block ends with an error.
    """
    if not isinstance(step, PrivateEstimatorMixin):
        yield
        return
    step._releases, step._release_counts = (
        owner._count_releases(),
        dict(owner._release_counts),
    )
    try:
        yield
    finally:
        owner._release_counts = dict(step._release_counts)


def counted_by(owner: StorableMixin, step: Step) -> Step:
    """A shallow copy of a fitted step whose releases are all those of its owner.

    They get the conditions that the fit of the step has acquired since.
    """
    step = copy.copy(step)
    if isinstance(step, PrivateEstimatorMixin):
        step._release_counts = step._as_told(owner._release_counts)
    return step


def describe_unit(step: object, protected: str) -> None:
    """Tell a step that is fitted to indices what the table calls what it protects."""
    if isinstance(step, PrivateEstimatorMixin):
        step._protected = protected


def time_is_public(estimator: object) -> bool:
    """Whether the time that a fit takes depends on public quantities alone."""
    return isinstance(estimator, EstimatorMixin) and estimator._time_is_public


def check_seed_of(estimator: PrivateEstimatorMixin) -> None:
    """Refuse an integer random state under a budget with a path."""
    name, seeded = type(estimator).__name__, estimator.random_state is not None
    check_seed(name, estimator._marks(), seeded=seeded)
