"""Clones of one estimator that release while no budget counts them.

A cross-validation or a search fits clones. Each has the guarantee of its own fit, and
nothing that it says tells of the others. So the second release warns, once, if no
budget is open. Which objects are clones of one is known without a look at data: every
clone is told at its birth. Guarantees are public.

**What it does not see.** Releases of other processes, such as joblib's workers with
processes: what a worker gets is a pickle, which is nobody's clone. Copies by
``copy.deepcopy``, and estimators that were made twice with the same parameters. And
whether the releases are about the same people, which nobody but the caller knows.
"""

import threading
from typing import Any
from weakref import WeakKeyDictionary, ref

from ..._validation import warn
from .._guarantee import PrivacyGuarantee
from .._numbers import shown
from ._open import OPEN


class Family:
    """An estimator and its clones, of which it holds none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: tuple[ref[object], PrivacyGuarantee] | None = None
        self._has_warned = False

    def admit(self, releaser: object, guarantee: PrivacyGuarantee) -> str:
        """Count a release; what to warn of, or "".

        Parameters
        ----------
        releaser : object
            The same for all releases of one object, and of its copies.
        guarantee : PrivacyGuarantee
        """
        with self._lock:
            if self._first is None:
                self._first = ref(releaser), guarantee
            of_first, first = self._first
            is_same = of_first() is releaser or first.unit != guarantee.unit
            if is_same or self._has_warned:
                return ""
            self._has_warned = True
        epsilon = first.epsilon + guarantee.epsilon
        delta = first.delta + guarantee.delta
        return (
            f"have released while no budget is open, as in a cross-validation or a "
            f"search. The guarantee of each is of one fit alone. If they are about the "
            f"same people, they add up: to at most epsilon = {shown(epsilon)}"
            + f", delta = {shown(delta)}" * (delta > 0)
            + " so far, for two of them. privacy_of(...) of the search adds up its "
            "fits; open a PrivacyBudget to count and limit all of them."
        )


_FAMILIES: "WeakKeyDictionary[Any, Family]" = WeakKeyDictionary()
_LOCK = threading.Lock()


def join_family(original: object, clone: object) -> None:
    """Let a clone belong to the family of its original."""
    try:
        with _LOCK:
            _FAMILIES[clone] = _FAMILIES.setdefault(original, Family())
    except TypeError:
        return  # An estimator of others that is compared by its values has no family.


def warn_of_clones(
    estimator: object, releaser: object, guarantee: PrivacyGuarantee
) -> None:
    """Warn, once, if several clones of one estimator release and no budget is open."""
    if OPEN.stack or not guarantee.protects:
        return
    try:
        family = _FAMILIES.get(estimator)
    except TypeError:
        return
    if family is not None and (said := family.admit(releaser, guarantee)):
        warn(f"Clones of one {type(estimator).__name__} {said}")
