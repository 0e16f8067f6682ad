"""Values that are randomised where they are, and a model of what comes from there.

Guarantee. Whoever holds values randomises each of them, once, before it leaves: two
data sets that differ in the value of one observed entry, at the same coordinates, give
what leaves probabilities within e^epsilon of each other, whatever is asked for, done or
computed elsewhere (see ``_input.py``, which the draws are those of). A model is
computed from what has come: when, how often and of whose values is post-processing.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d

from .._dask import is_dask
from .._sklearn_compat import available_if, fit_context
from .._validation import check_numeric, checked
from ..base import PrivateEstimatorMixin
from ..privacy._guarantee import shown

__all__ = ["PUBLIC_COORDINATES", "ClientMixin", "CompletionClient", "check_values"]

PUBLIC_COORDINATES = (
    "Which entries are observed (the coordinates) is public: it is published who rated "
    "what, not how."
)


def check_values(y):
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
        with self._release(self.privacy_guarantee_) as source:
            return self.randomizer.randomize(values, source)

    def _unprotected(self):
        return [*super()._unprotected(), PUBLIC_COORDINATES]


class ClientMixin:
    """Mixin of completions whose values may be randomised elsewhere."""

    perturbation: str
    unit: str | int
    calibration: str
    value_bounds: Any
    levels: Any
    # Of the completion.
    _check_distributed: Any
    _check_entries: Any
    _declared_shape: Any
    _fit: Any
    _passed_on: Any
    _plan: Any
    _shape_of: Any
    _validate_params: Any

    def _has_client(self):
        asked = self.perturbation in ("auto", "input") and self.calibration == "sound"
        if asked and self.unit == "entry":
            return True
        raise AttributeError(
            'Values are randomised elsewhere with perturbation="auto" or "input", '
            'calibration="sound" and unit="entry" alone.'
        )

    @available_if(_has_client)
    def client(self, random_state: int | None = None) -> CompletionClient:
        """What randomises values where they are, for shipping.

        With ``perturbation="auto"`` it is "input", which alone needs no sums over
        values of others.

        Parameters
        ----------
        random_state : int or None, default=None
            Of the client. An int is for tests and papers alone, and no two clients
            may have the same: their noise would be the same.

        Returns
        -------
        client : CompletionClient
            With `privatize`. It follows from `epsilon`, `levels`, `level_prior` and
            `value_bounds`; the completion need not be fitted.

        Raises
        ------
        ValueError
            If neither `value_bounds` nor `levels` is declared.
        """
        self._validate_params()
        self._check_declared()
        return self._passed_on(CompletionClient(self._plan(), random_state))

    @available_if(_has_client)
    @fit_context(prefer_skip_nested_validation=True)
    def fit_randomized(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the model to values that clients have randomised.

        The same as `fit` with ``perturbation="input"`` to all the clients' values. It
        draws nothing and spends nothing, so that it may be called as often as there
        are new values, or other ranks to try.

        **Guarantee.** That of every value's one pass through `privatize` of a client
        with the same `epsilon`, `levels`, `level_prior` and `value_bounds`; budgets
        count it there. `privacy_guarantee_` states it, and trusts that it was so.

        Parameters
        ----------
        X : array-like of shape (n_observed, n_modes)
            Coordinates, as for `fit`; also of Dask.
        y : array-like of shape (n_observed,)
            What `privatize` returned for the values there.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit`; if neither `value_bounds` nor `levels` is declared; if values are
            not of the table that clients draw from; and, where there is no table, if
            so many values are within the range that they can hardly have noise (with
            noise, at most one set in 1e9 is refused). A few raw values, or noise of
            another epsilon, cannot be told.
        """
        self._check_declared()
        shape = self._declared_shape()
        if is_dask(X):
            where = values = self._check_distributed(X, y, shape)
            shape = values.shape
        else:
            where, values = self._check_entries(X, y, shape)
            shape = self._shape_of(where)
        return self._fit(where, values, shape, streaming=True, received=True)

    def _unprotected(self):
        if not getattr(self, "_received", False):
            return super()._unprotected()
        return [
            *super()._unprotected(),
            "The values came randomised: that clients did so, once, and with these "
            "parameters, is taken for granted.",
        ]

    def _check_declared(self):
        if self.value_bounds is self.levels is None:
            raise ValueError(
                "Declare levels or value_bounds: clients randomise values of a range "
                "that all of them know beforehand."
            )
