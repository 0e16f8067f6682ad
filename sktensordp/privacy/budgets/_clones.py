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

from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from ..._validation import warn
from .._guarantee import PrivacyGuarantee
from .._numbers import shown
from ._open import Markable, contents

Clone = TypeVar("Clone")


class Family:
    """An estimator and its clones, of which it holds none.

    It needs no lock, which a fork could leave locked: every step is one atomic call.
    """

    def admit(self, releaser: object, guarantee: PrivacyGuarantee) -> str:
        """Count a release; what to warn of, or "".

        Parameters
        ----------
        releaser : object
            The same for all releases of one object, and of its copies.
        guarantee : PrivacyGuarantee
        """
        this = (ref(releaser), guarantee)
        of_first, first = vars(self).setdefault("_first", this)
        is_alike = (first.unit, first.relation) == (guarantee.unit, guarantee.relation)
        if of_first() is releaser or not is_alike:
            return ""
        if vars(self).setdefault("_warned_of", this) is not this:
            return ""
        epsilon = first.epsilon + guarantee.epsilon
        delta = first.delta + guarantee.delta
        return (
            f"have released while no budget is open, as in a cross-validation or a "
            f"search. The guarantee of each is of its own release alone. If they are "
            f"about the same people, they add up: to epsilon = {shown(epsilon)}"
            + f", delta = {shown(delta)}"
            * (delta > 0)
            + " for the first two of them, and to more with each that follows. "
            "privacy_of(...) of the search adds up its fits; open a PrivacyBudget to "
            "count and limit all releases."
        )


_FAMILIES: "WeakKeyDictionary[Any, Family]" = WeakKeyDictionary()


def join_family(original: object, clone: object) -> None:
    """Let a clone belong to the family of its original."""
    try:
        _FAMILIES[clone] = _FAMILIES.setdefault(original, Family())
    except TypeError:
        return  # An estimator of others that is compared by its values has no family.


def on_its_own(clone: Clone) -> Clone:
    """Let a clone, with all that it holds, belong to no family from now on.

    For audits: they fit many clones to show what one fit reveals, and keep no model.
    """
    for item in contents(clone):
        if isinstance(item, Markable):
            with suppress(TypeError):
                _FAMILIES.pop(item, None)
    return clone


def warn_of_clones(
    estimator: object, releaser: object, guarantee: PrivacyGuarantee
) -> None:
    """Warn, once, if several clones of one estimator release what no budget counts."""
    if not guarantee.protects:
        return
    try:
        family = _FAMILIES.get(estimator)
    except TypeError:
        return
    if family is not None and (said := family.admit(releaser, guarantee)):
        warn(f"Clones of one {type(estimator).__name__} {said}")
