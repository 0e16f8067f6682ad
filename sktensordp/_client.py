"""The base of clients: what is shipped to where the private data are."""

import math
from typing import Any

import numpy as np

from ._validation import check_noise_seed
from .base import PrivateEstimatorMixin, recorded_call
from .privacy import PrivacyGuarantee, PrivacyTags
from .privacy._numbers import check_number, exact, shown


class Client(PrivateEstimatorMixin):
    """Randomises data where they are recorded; only the result leaves.

    A subclass offers `privatize`, which calls `_privatize`, and checks the input in
    `_checked`.

    Parameters
    ----------
    randomizer : object
        ``randomizer.randomize(data, streams)`` clips and randomises checked data.
    guarantee : PrivacyGuarantee
        Of one call of `privatize`.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers.
    """

    def __init__(
        self,
        randomizer: Any,
        guarantee: PrivacyGuarantee,
        random_state: int | None = None,
    ) -> None:
        check_noise_seed(random_state)
        self.randomizer = randomizer
        self.random_state = random_state
        self.privacy_guarantee_ = guarantee
        self._count_releases()

    def __privacy_tags__(self) -> PrivacyTags:
        tags = super().__privacy_tags__()
        tags.released_by = "privatize"
        return tags

    def _privatize(self, data: Any) -> Any:
        """Check the data, then randomise them; no data, no release."""
        # A warning of NumPy, which may be an error here, would tell of the data.
        with np.errstate(all="ignore"):
            checked = self._checked(data)
            if not len(checked):
                return checked.copy()
            with recorded_call(self, self.privacy_guarantee_) as streams:
                return self.randomizer.randomize(checked, streams)

    def _checked(self, data: Any) -> Any:
        """The data as an array that `randomizer` takes; raises if they are invalid."""
        raise NotImplementedError


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
