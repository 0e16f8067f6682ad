"""The client, which randomises values before they leave their owner.

Guarantee. The client randomises each value once and independently. Take two data sets
that differ in the value of one observed entry, at the same coordinates. The
probabilities of anything that the client sends are within e^epsilon of each other under
the two, whatever is computed elsewhere (`_values.py` draws the values). Fitting a model
to what was sent is post-processing, at any time, any number of times, and to anybody's
values.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._client import Client, check_ceiling, make_client
from .._json import Fields
from ..base import recorded_call
from ..privacy import PrivacyTags
from ..privacy._numbers import shown
from ._domain import Domain, declared_domain
from ._entries import check_values
from ._raw_scale import warn_before_sending
from ._values import EntryRandomizer, plan_entry_randomizer

_FORMAT, _WHAT = 2, "a CompletionClient of this version"

PUBLIC_COORDINATES = (
    "Which entries are observed (the coordinates) is public: anyone may learn who "
    "rated what, but not the ratings."
)


class CompletionClient(Client):
    """Randomises values before they leave their owner, each one independently.

    Get one from the `client` method of a completion, which need not be fitted. Ship it
    as the text of `to_json`, which is read as data; a pickle could run code.

    Attributes
    ----------
    epsilon : float
        Budget of one value.
    random_state : int or None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers.
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of one call of `privatize`.

    Examples
    --------
    >>> from sktensordp.completion import CompletionClient, CPCompletion
    >>> client = CPCompletion(rank=2, epsilon=2.0, levels=[1, 2, 3, 4, 5]).client()
    >>> client
    CompletionClient(epsilon=2)
    >>> client.privatize([4, 5, 1]).shape
    (3,)
    >>> CompletionClient.from_json(client.to_json())
    CompletionClient(epsilon=2)
    """

    if TYPE_CHECKING:
        randomizer: EntryRandomizer
    epsilon: float

    _made_by = "the `client` method of a completion"

    @classmethod
    def _of_domain(
        cls, epsilon: float, domain: Domain, random_state: int | None = None
    ) -> Self:
        """The client for values of a range, with levels and a prior, all declared."""
        randomizer = plan_entry_randomizer(epsilon, domain)
        return make_client(
            cls, randomizer, randomizer.guarantee, random_state, epsilon=epsilon
        )

    def to_json(self) -> str:
        """The client as text: its parameters, but no seed."""
        domain = self.randomizer.domain
        return json.dumps(
            {
                "kind": "CompletionClient",
                "format": _FORMAT,
                "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
                "value_bounds": domain.bounds,
                "levels": domain.levels,
                "level_prior": domain.prior,
            }
        )

    @classmethod
    def from_json(cls, text: str, *, max_epsilon: float | None = None) -> Self:
        """Make a client from the text of another one.

        The text is checked, and nothing in it is executed. The new client computes its
        guarantee itself: pass `max_epsilon`, or read its `privacy_guarantee_` before
        you use it.

        Parameters
        ----------
        text : str
            What `to_json` returned.
        max_epsilon : float, default=None
            Largest epsilon of one call of `privatize` that this device accepts. None
            accepts any, even a client that adds no noise.

        Returns
        -------
        client : CompletionClient
            It draws from the operating system's entropy, whatever seed the other had.

        Raises
        ------
        ValueError
            If the text is damaged, if its parameters make no sense, or if its client
            would have a larger epsilon than `max_epsilon`, or none that is finite.
        TypeError
            If `text` is not a str.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, got {type(text).__name__}.")
        fields = Fields.of_text(text, _WHAT, longest=2**20)
        fields.constant("kind", "CompletionClient")
        fields.constant("format", _FORMAT)
        epsilon = fields.number_or_none("epsilon", 5e-324, 1e308)
        lists = [
            fields.numbers_or_none(name, -1e308, 1e308)
            for name in ("value_bounds", "levels", "level_prior")
        ]
        fields.end()
        domain = declared_domain(*lists)
        if domain is None:
            fields.refuse("value_bounds")
        client = cls._of_domain(math.inf if epsilon is None else epsilon, domain)
        check_ceiling(client, max_epsilon)
        return client

    def __repr__(self) -> str:
        return f"CompletionClient(epsilon={shown(self.privacy_guarantee_.epsilon)})"

    def privatize(self, y: ArrayLike) -> NDArray[np.floating]:
        """Randomise values, with fresh noise at every call.

        Keep the result, and send it again if you are asked again: a second call for
        the same values spends their epsilon again.

        Parameters
        ----------
        y : array-like of shape (n,)
            Values, finite.

        Returns
        -------
        noisy : ndarray of shape (n,)
            For `fit_randomized`, in the same order.

        Raises
        ------
        ValueError
            If a value is NaN, infinite or not a number; nothing has been drawn then.
        """
        return self._privatize(y)

    def _privatize(self, data: ArrayLike) -> NDArray[np.floating]:
        if self.randomizer.mechanism is not None:
            return super()._privatize(data)
        values = self._checked(data)
        if not len(values):
            return self.randomizer.domain.clip(values)
        # Without noise, returning the values is still a release.
        with recorded_call(self, self.privacy_guarantee_, draws=False):
            return self.randomizer.domain.clip(values)

    def _checked(self, data: ArrayLike) -> NDArray[np.floating]:
        values = check_values(data)
        warn_before_sending(values, self.randomizer.domain)
        return values

    def __privacy_tags__(self) -> PrivacyTags:
        tags = super().__privacy_tags__()
        tags.protects = "y"
        return tags

    def __privacy_unprotected__(self) -> list[str]:
        return [*super().__privacy_unprotected__(), PUBLIC_COORDINATES]
