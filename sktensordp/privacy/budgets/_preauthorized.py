"""Releases that were authorised together, and recorded, before they are made."""

import contextvars
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .._guarantee import PrivacyGuarantee, unit_and_relation
from ._budget import process_name

_CURRENT: contextvars.ContextVar["_Preauthorization | None"] = contextvars.ContextVar(
    "preauthorization", default=None
)


class _Preauthorization:
    """The most that the releases of a function may reveal together."""

    def __init__(self, planned: PrivacyGuarantee | None) -> None:
        self._planned = planned
        self._process = process_name()
        self._events: list[Any] = []

    def admit(self, guarantee: PrivacyGuarantee, released_by: str) -> None:
        """Admit a release before its noise is drawn.

        Raises
        ------
        RuntimeError
            If the releases together would reveal more than was planned.
        """
        from ..accounting._curves import compose_events, event_delta

        if self._process != process_name():
            raise RuntimeError(
                "These releases were planned and recorded by another process. Make "
                "them there, or in threads."
            )
        if self._planned is None:
            if released_by != "transform":
                raise RuntimeError(
                    "Nothing may be fitted here, because no budget would count it."
                )
            return
        # Raises if they differ.
        unit_and_relation([self._planned, guarantee])
        events = [*self._events, guarantee.event]
        composed = compose_events(events)
        for epsilon in _checked_epsilons(self._planned):
            planned_delta = self._planned.delta_at(epsilon)
            if event_delta(composed, epsilon) > planned_delta * (1 + 1e-9) + 1e-14:
                raise RuntimeError(
                    "A release would reveal more than was planned and recorded for it."
                )
        self._events = events


def _checked_epsilons(planned: PrivacyGuarantee) -> Iterable[float]:
    """Epsilons at which the deltas of releases are compared with the planned ones."""
    if not planned.protects:
        return []
    return planned.epsilon * np.array([0.5, 0.9, 1.0, 1.1])


def current_preauthorization() -> _Preauthorization | None:
    """The preauthorization under which this thread makes releases, if any."""
    return _CURRENT.get()


def run_preauthorized(
    planned: PrivacyGuarantee | None, function: Callable[..., Any], *args: Any
) -> Any:
    """Call a function whose releases were planned and recorded beforehand.

    Parameters
    ----------
    planned : PrivacyGuarantee or None
        The most that the releases may reveal together. None if no release leaves the
        function, and nothing is fitted in it.
    function : callable
        Called with `args`.

    Returns
    -------
    result : object
        What the function returns.
    """
    # An interruption cannot leave the preauthorization behind: it lives in a context of
    # its own.
    context = contextvars.copy_context()
    context.run(_CURRENT.set, _Preauthorization(planned))
    return context.run(function, *args)
