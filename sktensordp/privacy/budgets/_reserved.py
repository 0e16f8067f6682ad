"""Releases that were recorded together before they are made: a reservation of them."""

import contextvars
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .._guarantee import PrivacyGuarantee, unit_and_relation
from ._open import process_name

_P = ParamSpec("_P")
_T = TypeVar("_T")
# Shares of the planned epsilon at which deltas are compared with the planned ones.
_CHECKED = 0.5, 0.9, 1.0, 1.1

_CURRENT: contextvars.ContextVar["Reservation | None"] = contextvars.ContextVar(
    "reservation", default=None
)


class Reservation:
    """An account of the releases that a function makes, up to what was planned.

    Parameters
    ----------
    planned : PrivacyGuarantee or None
        The most that they may reveal together. None if none of them leaves the
        function, and nothing is fitted in it.
    """

    def __init__(self, planned: PrivacyGuarantee | None) -> None:
        from ._filter import Account, CurveLimit

        self._planned, self._process = planned, process_name()
        self._account, points = Account(), []
        self._lock = threading.Lock()
        if planned is not None and planned.protects:
            epsilons = [share * planned.epsilon for share in _CHECKED]
            points = [(e, planned.delta_at(e) * (1 + 1e-9) + 1e-14) for e in epsilons]
        self._limit = CurveLimit(tuple(points))

    def admit(self, guarantee: PrivacyGuarantee, released_by: str) -> None:
        """Admit a release before its noise is drawn.

        Raises
        ------
        RuntimeError
            If the releases together would reveal more than was planned.
        """
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
        # This raises if they differ.
        unit_and_relation([self._planned, guarantee])
        account, event = self._account, guarantee.event
        with self._lock:
            admitted = self._limit.admit_to(account, account, event)
            if admitted is None:
                raise RuntimeError(
                    "A release would reveal more than was planned and recorded for it."
                )
            account.record(released_by, guarantee, admitted[0])


def current_reservation() -> Reservation | None:
    """The reservation from which this thread makes releases, if any."""
    return _CURRENT.get()


def run_reserved(
    planned: PrivacyGuarantee | None,
    function: Callable[_P, _T],
    *args: _P.args,
    **options: _P.kwargs,
) -> _T:
    """Call a function whose releases were planned and recorded beforehand.

    Parameters
    ----------
    planned : PrivacyGuarantee or None
        As in `Reservation`.
    function : callable
        Called with the arguments that follow.

    Returns
    -------
    result : object
        What the function returns.
    """
    # An interruption cannot leave the reservation behind: it lives in a context of its
    # own.
    context = contextvars.copy_context()
    context.run(_CURRENT.set, Reservation(planned))
    return context.run(function, *args, **options)
