"""Values that are randomised where they are, and a model of what comes from there.

Guarantee. Whoever holds values randomises each of them, once, before it leaves: two
data sets that differ in the value of one observed entry, at the same coordinates, give
what leaves probabilities within e^epsilon of each other, whatever is asked for, done or
computed elsewhere (see ``_values.py``, which makes the draws). A model is
computed from what has come: when, how often and of whose values is post-processing.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d

from .._validation import check_numeric, checked
from ..base import PrivateEstimatorMixin
from ..privacy._numbers import shown

__all__ = ["PUBLIC_COORDINATES", "CompletionClient", "check_values"]

PUBLIC_COORDINATES = (
    "Which entries are observed (the coordinates) is public: it is published who rated "
    "what, not how."
)


def check_values(y: Any) -> NDArray[np.floating]:
    """Finite numbers, in single precision if they came so, otherwise in double."""
    check_numeric(y, "y")
    y = checked(column_or_1d, y)
    y = np.asarray(y, dtype=np.float32 if y.dtype == np.float32 else np.float64)
    if not np.all(np.isfinite(y)):
        raise ValueError("Some values in y are NaN, infinite or missing.")
    return y


class CompletionClient(PrivateEstimatorMixin):
    """What runs where the values are: it randomises them, each for itself.

    A completion's `client` makes it, from parameters alone; pickle it to ship it.

    Parameters
    ----------
    randomizer : EntryRandomizer
        What is done with a value.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Of one call of `privatize`.

    Examples
    --------
    >>> from sktensordp.completion import CPCompletion
    >>> client = CPCompletion(2, epsilon=2.0, levels=[1, 2, 3, 4, 5]).client()
    >>> client
    CompletionClient(epsilon=2)
    >>> client.privatize([4, 5, 1]).shape
    (3,)
    """

    _released_by = "privatize"

    def __init__(self, randomizer: Any, random_state: int | None = None) -> None:
        self.randomizer = randomizer
        self.random_state = random_state
        self.privacy_guarantee_ = randomizer.guarantee
        self._count_releases()

    def __repr__(self) -> str:
        return f"CompletionClient(epsilon={shown(self.privacy_guarantee_.epsilon)})"

    def privatize(self, y: ArrayLike) -> NDArray[np.floating]:
        """Randomised values, with fresh noise at every call.

        Keep what it returns, and send that again if it is asked for again: a second
        call for the same values spends their epsilon again.

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
            Before anything is drawn: if values are NaN, infinite or no numbers.
        """
        values = check_values(y)
        if not len(values):
            return values.copy()
        if self.randomizer.mechanism is None:
            self._record(self.privacy_guarantee_)
            return self.randomizer.clip(values)
        with self._release(self.privacy_guarantee_) as streams:
            return self.randomizer.randomize(values, streams)

    def _unprotected(self) -> list[str]:
        return [*super()._unprotected(), PUBLIC_COORDINATES]
