"""Releases that are part of one which was recorded beforehand."""

import contextvars
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .._guarantee import PrivacyGuarantee, neighbours
from ._budget import process_name

__all__ = ["current_preauthorization", "run_preauthorized"]

_CURRENT: contextvars.ContextVar["_Preauthorization | None"] = contextvars.ContextVar(
    "preauthorization", default=None
)


class _Preauthorization:
    """What the releases of a function may reveal together, at most."""

    def __init__(self, planned: PrivacyGuarantee | None) -> None:
        self._planned = planned
        self._process = process_name()
        self._events: list[Any] = []

    def admit(self, guarantee: PrivacyGuarantee, released_by: str) -> None:
        """Refuse a release, before it is drawn, that says more than was planned."""
        from ..accounting._curves import compose_events, event_delta

        if self._process != process_name():
            raise RuntimeError("What was planned was recorded by another process.")
        if self._planned is None:
            if released_by != "transform":
                raise RuntimeError("Nothing is fitted here: it would not be counted.")
            return
        neighbours([self._planned, guarantee])
        events = [*self._events, guarantee.event]
        together = compose_events(events)
        for epsilon in _tried(self._planned):
            most = self._planned.delta_at(epsilon)
            if event_delta(together, epsilon) > most * (1 + 1e-9) + 1e-14:
                raise RuntimeError(
                    "A release reveals more than was planned for it and accounted for."
                )
        self._events = events


def _tried(planned: PrivacyGuarantee) -> Iterable[float]:
    if not planned.protects:
        return []
    return planned.epsilon * np.array([0.5, 0.9, 1.0, 1.1])


def current_preauthorization() -> _Preauthorization | None:
    """The preauthorization under which this thread releases, if any."""
    return _CURRENT.get()


def run_preauthorized(
    planned: PrivacyGuarantee | None, function: Callable[..., Any], *args: Any
) -> Any:
    """Call a function whose releases, all together, are part of one recorded before.

    Parameters
    ----------
    planned : PrivacyGuarantee or None
        What they reveal together, at most; None where nothing of them leaves the
        function, and nothing is fitted in it.
    function : callable
        Of `args`.

    Returns
    -------
    result : object
        Of the function.
    """
    # In a context of its own, which no interruption leaves behind.
    context = contextvars.copy_context()
    context.run(_CURRENT.set, _Preauthorization(planned))
    return context.run(function, *args)
