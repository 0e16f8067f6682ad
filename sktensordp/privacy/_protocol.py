"""What `privacy_of`, budgets and plans ask of an estimator: one public protocol.

The methods have names of their own, like scikit-learn's ``__sklearn_tags__``, so that
they are not listed among those that users call.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeGuard

from numpy.typing import ArrayLike

from ._guarantee import PrivacyGuarantee


@dataclass
class PrivacyTags:
    """What an estimator does with data, whatever the data are.

    Parameters
    ----------
    released_by : str or None, default=None
        Name of the method that releases: "fit", or one whose every call is a release,
        such as "transform". None if the estimator itself releases nothing.
    protects : {"X", "y", "Xy"}, default="X"
        The data whose values the guarantee protects.
    learns_from : {"", "X", "Xy"}, default=""
        The data from which `fit` learns without noise, and publishes the result.
    publishes_ids : bool, default=False
        Whether the fitted estimator tells which ids occur in the data.
    conditions : tuple of str, default=()
        Conditions that the guarantees of earlier releases have acquired since.
    notes : tuple of str, default=()
        Sentences for a report of what was released: where a guarantee may be looser
        than need be, and what to do.
    unit_in_words : str, default=""
        What the guarantee protects, in the words of the table that is fitted: the
        `protected` of guarantees.

    Notes
    -----
    Like scikit-learn's tags, a class changes those of the class before it::

        def __privacy_tags__(self):
            tags = super().__privacy_tags__()
            tags.released_by = "transform"
            return tags
    """

    released_by: str | None = None
    protects: Literal["X", "y", "Xy"] = "X"
    learns_from: Literal["", "X", "Xy"] = ""
    publishes_ids: bool = False
    conditions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unit_in_words: str = ""


class PrivateEstimator(Protocol):
    """An estimator that states what it releases.

    Inherit from :class:`~sktensordp.base.PrivateEstimatorMixin`, which has all of these
    methods, and override `__privacy_plan__`.
    """

    def __privacy_tags__(self) -> PrivacyTags:
        """What the estimator does with data."""

    def __privacy_plan__(
        self, fitted: object = None, *, any_shape: bool = False
    ) -> PrivacyGuarantee:
        """Guarantee of a release with the present parameters, before any data is seen.

        Parameters
        ----------
        fitted : estimator, default=None
            Fitted estimator of the same kind, perhaps with other parameters, which
            supplies the shape of the data. If it is this estimator, one fit is
            planned; otherwise the guarantee may have to hold for several candidates.
        any_shape : bool, default=False
            Whether it must hold for samples of any shape, too.

        Raises
        ------
        TypeError, ValueError
            If parameters are wrong, or the guarantee depends on what is not known
            before a fit; the message says on what.
        """

    def __privacy_releases__(self) -> Mapping[PrivacyGuarantee, int]:
        """Guarantees of all releases so far, each with its number of releases."""

    def __privacy_unprotected__(self) -> Sequence[str]:
        """Sentences that say what the guarantee does not cover."""


class CompositeEstimator(Protocol):
    """An estimator whose steps make its releases, each from the previous output."""

    def __privacy_steps__(self, *, planned: bool) -> Sequence[Any]:
        """Its steps.

        Parameters
        ----------
        planned : bool
            Whether to return the steps that a fit would fit with the present
            parameters. Otherwise, the steps that are fitted; an empty sequence if none
            are.
        """


class ForeseeableEstimator(Protocol):
    """An estimator whose expected error is known before its release."""

    def __expected_error__(
        self, X: ArrayLike, y: ArrayLike | None = None, n_users: int | None = None
    ) -> tuple[str, Callable[[float], float]]:
        """A description of the error, and its expectation as a function of epsilon.

        Nothing protects what is read of the data, so it must be public. The estimator
        is a clone, so that its parameters may be changed.
        """


class ChoosingEstimator(ForeseeableEstimator, Protocol):
    """An estimator whose fit takes one of several perturbations."""

    def __expected_perturbation__(
        self, X: ArrayLike, n_users: int | None = None
    ) -> Callable[[float], tuple[str, bool]]:
        """The perturbation that a fit is expected to take, as a function of epsilon.

        Beside it stands whether averages alone are learned. See `ForeseeableEstimator`.
        """


def foresees_perturbation(obj: object) -> TypeGuard[ChoosingEstimator]:
    """Whether the perturbation of a fit can be foreseen."""
    return hasattr(type(obj), "__expected_perturbation__")


def states_guarantee(obj: object) -> TypeGuard[PrivateEstimator]:
    """Whether the class of an object states what it releases."""
    return hasattr(type(obj), "__privacy_plan__")


def is_composite(obj: object) -> TypeGuard[CompositeEstimator]:
    """Whether the steps of an estimator make its releases."""
    return hasattr(type(obj), "__privacy_steps__")


def privacy_tags(obj: Any) -> PrivacyTags:
    """The tags of an estimator; if it has none, those of one that releases nothing."""
    has_tags = hasattr(type(obj), "__privacy_tags__")
    return obj.__privacy_tags__() if has_tags else PrivacyTags()
