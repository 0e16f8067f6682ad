"""Base class of clients, which are shipped to where the private data are."""

import math
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._random import NoiseStreams
from ._validation import check_noise_seed
from .base import PrivateEstimatorMixin, recorded_call
from .privacy import PrivacyGuarantee, PrivacyTags
from .privacy._numbers import check_number, exact, shown


class Randomizes(Protocol):
    """What clips and randomises data that a client has checked.

    `EntryRandomizer` of completions, and the randomizer of encoders.
    """

    def randomize(self, data: Any, streams: NoiseStreams, /) -> NDArray[Any]:
        """Draw what leaves the client."""


class Client(PrivateEstimatorMixin):
    """Randomises data where they are recorded; only the result leaves.

    A subclass offers `privatize`, which calls `_privatize`, and checks the input in
    `_checked`. `make_client` makes one.
    """

    if TYPE_CHECKING:
        randomizer: Randomizes
    _made_by: str
    """What makes one for users, besides `from_json`."""

    def __init__(self, *_: Any, **__: Any) -> None:
        name = type(self).__name__
        raise TypeError(
            f"{name} is not called. Get one from {self._made_by}, or from the text of "
            f"another one by {name}.from_json."
        )

    def _set_up(
        self,
        randomizer: Randomizes,
        guarantee: PrivacyGuarantee,
        random_state: int | None,
    ) -> None:
        check_noise_seed(random_state)
        self.randomizer, self.random_state = randomizer, random_state
        self.privacy_guarantee_ = guarantee
        self._count_releases()

    def __privacy_tags__(self) -> PrivacyTags:
        tags = super().__privacy_tags__()
        tags.released_by = "privatize"
        return tags

    def _privatize(self, data: ArrayLike) -> NDArray[Any]:
        """Check the data, then randomise them; without data, nothing is released."""
        # A NumPy warning, or the error into which users turn it, would reveal data.
        with np.errstate(all="ignore"):
            checked = self._checked(data)
            if not len(checked):
                return checked.copy()
            with recorded_call(self, self.privacy_guarantee_) as streams:
                return self.randomizer.randomize(checked, streams)

    def _checked(self, data: ArrayLike) -> NDArray[Any]:
        """The data as an array that `randomizer` takes; raises if they are invalid."""
        raise NotImplementedError


AnyClient = TypeVar("AnyClient", bound=Client)


def make_client(
    kind: type[AnyClient],
    randomizer: Randomizes,
    guarantee: PrivacyGuarantee,
    random_state: int | None = None,
    **fields: Any,
) -> AnyClient:
    """Make a client.

    Parameters
    ----------
    kind : class
    randomizer : object
        ``randomizer.randomize(data, streams)`` clips and randomises checked data.
    guarantee : PrivacyGuarantee
        Guarantee of one call of `privatize`.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An int
        is for tests and papers.
    **fields
        Further attributes.
    """
    client = kind.__new__(kind)
    client._set_up(randomizer, guarantee, random_state)
    for name, value in fields.items():
        setattr(client, name, value)
    return client


def check_ceiling(
    client: Client, max_epsilon: float | None, max_delta: float = 0.0
) -> None:
    """Refuse a client whose calls spend more than a device accepts."""
    if max_epsilon is None:
        return
    check_number(max_epsilon, "max_epsilon")
    if not max_epsilon > 0:
        raise ValueError(f"max_epsilon must be positive, got {max_epsilon!r}.")
    guarantee = client.privacy_guarantee_
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if not (math.isfinite(epsilon) and epsilon <= max_epsilon):
        raise ValueError(
            f"This client would release with epsilon = {shown(epsilon)}, but this "
            f"device accepts at most max_epsilon = {exact(max_epsilon)}."
        )
    if not delta <= max_delta:
        raise ValueError(
            f"This client would release with delta = {shown(delta)}, but this "
            f"device accepts at most max_delta = {exact(max_delta)}."
        )
