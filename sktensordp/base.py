"""What every private estimator shares: the one place through which releases pass."""

import functools
import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sklearn.callback import CallbackSupportMixin

from . import __version__
from ._random import NoiseStreams, ReleaseCounter
from ._sklearn_compat import has_callbacks
from ._validation import check_unmasked
from .privacy import PrivacyGuarantee
from .privacy.budgets._budget import open_budgets, process_name, record
from .privacy.budgets._preauthorized import current_preauthorization

__all__ = ["EstimatorMixin", "PrivateEstimatorMixin", "SentMixin"]

# What is known of the input stays when a fit is forgotten.
_KEPT = {"n_features_in_", "feature_names_in_"}

_OLDEST = 0, 1
"""Minor version whose pickles are the oldest that are read.

tests/test_stored.py loads one of each minor version since. Where it fails, mend
`__setstate__`, or raise this.
"""


@functools.cache
def _documentation() -> str:
    """Address of the documentation, as the package's metadata have it; "" if not."""
    from importlib import metadata

    with suppress(metadata.PackageNotFoundError):
        for entry in metadata.metadata("sktensordp").get_all("Project-URL", ()):
            label, _, address = entry.partition(", ")
            if label == "Documentation":
                return address.rstrip("/")
    return ""


class EstimatorMixin(CallbackSupportMixin):
    """Mixin of what users fit: links in its diagram, and callbacks."""

    _doc_link_module = "sktensordp"

    @property
    def _doc_link_template(self) -> str:
        pages = "modules/generated/{estimator_module}.{estimator_name}.html"
        return f"{_documentation()}/{pages}" if _documentation() else ""

    @contextmanager
    def _progress(
        self, task: str = "step", max_tasks: int | None = 1
    ) -> Iterator[Callable[..., bool]]:
        """Tell callbacks of a fit, until the block ends; data are never passed.

        Parameters
        ----------
        task : str, default="step"
            What the fit consists of.
        max_tasks : int or None, default=1
            How many of them at most; None where it is not known or told.

        Yields
        ------
        on_task : callable
            To call at the end of each, with an argument or none. It returns whether a
            callback asks for the fit to end.
        """
        if not has_callbacks(self):
            yield lambda _=None: False
            return
        context = self._init_callback_context(max_subtasks=max_tasks)
        context.call_on_fit_task_begin(estimator=self)

        def on_task(_: Any = None) -> bool:
            one = context.subcontext(task_name=task)
            one.call_on_fit_task_begin(estimator=self)
            return one.call_on_fit_task_end(estimator=self)

        yield on_task
        context.call_on_fit_task_end(estimator=self)


def _check_version(version: str, name: str) -> None:
    """Refuse what another version stored and this one does not read; say what to do."""
    made, here = (
        tuple(map(int, re.findall(r"^(\d+)\.(\d+)", v)[0]))
        for v in (version, __version__)
    )
    what = f"This {name} was stored by sktensordp {version}, and this is {__version__}"
    if made > here:
        raise pickle.UnpicklingError(
            f"{what}: install that version, or a later one, to load it."
        )
    if made < _OLDEST:
        raise pickle.UnpicklingError(
            f"{what}, which reads what {_OLDEST[0]}.{_OLDEST[1]} and later stored. "
            f"Load it with sktensordp {made[0]}.{made[1]}, in an environment of its "
            f"own. To fit it again to the same data would be a further release, which "
            f"costs its epsilon once more."
        )


class SentMixin:
    """Mixin of estimators that are stored and sent to other processes.

    Their pickles carry the version that made them, and remember if they left a process
    with an open budget.
    """

    def _check_sent(self) -> None:
        """Refuse what the budgets of the process that sent it would not learn of."""
        if hasattr(self, "_sent_by"):
            raise RuntimeError(
                f"This {type(self).__name__} was sent by a process with an open "
                f"privacy budget, which would not learn of a release here. Release "
                f"there, or in threads; or send it when no budget is open."
            )

    def __getstate__(self) -> dict[str, Any]:
        above: Any = super()
        state: dict[str, Any] = above.__getstate__()
        state = {**state, "_sktensordp_version": __version__}
        if not open_budgets():
            return state
        senders = state.get("_sent_by", frozenset()) | {process_name()}
        return {**state, "_sent_by": senders}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        _check_version(state.pop("_sktensordp_version", "0.0"), type(self).__name__)
        senders = state.pop("_sent_by", frozenset()) - {process_name()}
        if senders:
            state["_sent_by"] = senders
        above: Any = super()
        if hasattr(above, "__setstate__"):
            above.__setstate__(state)
        else:
            vars(self).update(state)

    def __sklearn_clone__(self) -> Any:
        above: Any = super()
        return self._passed_on(above.__sklearn_clone__())

    def _passed_on(self, other: Any) -> Any:
        """Another object that releases the same, which has come as far."""
        if hasattr(self, "_sent_by"):
            other._sent_by = self._sent_by
        return other


class PrivateEstimatorMixin(SentMixin):
    """Mixin of estimators that release something computed from private data.

    The estimator has a parameter ``random_state``: None for entropy of the
    operating system, or an int, for tests and papers alone. With an int, the noise of
    a release follows from it and the number of releases before: clones repeat that
    from the first one on, and a copy or pickle goes on with the same noise as the
    original. Whatever the estimator draws, it draws inside
    ``with self._release(guarantee) as streams``.

    Threads may release with one object at once. Fits of one object wait for each
    other; its parameters must not change meanwhile.
    """

    random_state: int | None
    privacy_guarantee_: PrivacyGuarantee
    _releases: ReleaseCounter

    @contextmanager
    def _release(
        self,
        guarantee: PrivacyGuarantee,
        total: PrivacyGuarantee | None = None,
        *,
        anew: bool = False,
    ) -> Iterator[NoiseStreams]:
        """Record a release, then lend its random streams until the block ends.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            What the release reveals. It is recorded before anything is drawn, so
            that an interrupted release counts.
        total : PrivacyGuarantee, default=None
            What the object reveals with this release and earlier ones, where it keeps
            what came of them.
        anew : bool, default=False
            Whether it is a fit, and what an earlier one left is forgotten: once the
            release has been admitted, and before anything is drawn.

        Yields
        ------
        streams : NoiseStreams
            A fresh key: no two releases share one, also not two with the same int
            as random state.
        """
        self._record(guarantee)
        if anew:
            self._forget()
        count = self._count_releases().next(seeded=self.random_state is not None)
        # What other methods release, the fit has said.
        if self._released_by == "fit":
            self.privacy_guarantee_ = guarantee if total is None else total
        streams = NoiseStreams(self.random_state, count)
        try:
            yield streams
        finally:
            streams.close()

    def _record(self, guarantee: PrivacyGuarantee) -> None:
        """Count a release in all open budgets; raise where one refuses it."""
        authorized = current_preauthorization()
        if authorized is not None:
            authorized.admit(guarantee, self._released_by)
            return
        self._check_sent()
        name = f"{self._released_by} of {type(self).__name__}"
        record(guarantee, name, self._unprotected())

    def _count_releases(self) -> ReleaseCounter:
        # At once: two threads would count from 0 each.
        return vars(self).setdefault("_releases", ReleaseCounter())

    def _forget(self, **found: Any) -> None:
        """Remove what an earlier fit left, before its guarantee is replaced.

        An interrupted fit then leaves no model of an earlier release under the
        guarantee of a later one. The count of releases stays: with an int as random
        state, no later release repeats the noise of an earlier one.

        Parameters
        ----------
        **found : dict
            Attributes that take the place of those.
        """
        self._count_releases()
        left = {
            name: value
            for name, value in vars(self).copy().items()
            if name in _KEPT or not (name.endswith("_") or name in self._of_fit)
        }
        # All at once, for threads and interruptions.
        self.__dict__ = {**left, **found}
        self._releases.seeded = False

    _of_fit: tuple[str, ...] = ()
    """What a fit leaves in names that do not end with an underscore."""

    def _validate_params(self: Any) -> None:
        above: Any = super()
        above._validate_params()
        for name, value in self.get_params(deep=False).items():
            check_unmasked(value, name)

    _released_by = "fit"
    """The method that releases: "fit", or "transform" at every call."""

    def _planned_guarantee(self, fitted: Any = None) -> PrivacyGuarantee:
        """Guarantee of a release with the present parameters, before any data is seen.

        Parameters
        ----------
        fitted : estimator, default=None
            The same estimator with other parameters, fitted, for what depends on the
            shape of the data.
        """
        raise NotImplementedError

    def _unprotected(self) -> list[str]:
        """What the guarantee does not cover: a list of sentences."""
        releases = getattr(self, "_releases", None)
        if self.random_state is None and not (releases and releases.seeded):
            return []
        return [
            "The noise follows from an integer random_state: whoever knows or guesses "
            "it can take the noise away, and clones repeat it."
        ]
