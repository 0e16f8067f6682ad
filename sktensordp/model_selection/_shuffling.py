"""The local epsilon for a central guarantee, when messages are shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from ._bisection import narrowed

if TYPE_CHECKING:
    from ..mechanisms._base import NoiseMechanism

# Largest epsilon of a message in the search, and the search's relative precision.
_LARGEST, _PRECISION = 2.0**6, 1e-3


def epsilon_before_shuffling(
    mechanism: NoiseMechanism,
    X: ArrayLike,
    *,
    epsilon: float,
    delta: float = 1e-6,
    n_messages: int,
) -> float:
    """The largest epsilon of a message that gives a guarantee once it is shuffled.

    Use it to plan a collection in which a trusted shuffler stands between people's
    devices and the server: declare the guarantee against the server, and randomise
    every message with the returned epsilon. No noise is drawn.

    Parameters
    ----------
    mechanism : estimator
        A mechanism that randomises every sample by itself: with `bounds` or
        `norm_bound`. It is not changed, and its own epsilon does not matter.
    X : array-like
        Samples. Only the shape of one is read, so zeros will do.
    epsilon : float
        Epsilon of the guarantee of the shuffled messages; positive.
    delta : float, default=1e-6
        Delta of the same guarantee, in (0, 1).
    n_messages : int
        Number of messages that are randomised as agreed and shuffled together, one from
        each person; at least 2.

    Returns
    -------
    local : float
        From `epsilon` to 64. With this epsilon, the shuffled messages are
        (`epsilon`, `delta`)-differentially private; with an epsilon that is a
        thousandth larger, they are not known to be, unless it is 64.

    Raises
    ------
    TypeError
        If `mechanism` is of another kind, or `n_messages` is not an integer.
    ValueError
        If a number is out of range; if the messages of this mechanism cannot be
        shuffled, for example because its domain is not declared; or if its own `delta`
        adds up to more than the guarantee allows.

    See Also
    --------
    sktensordp.privacy.PrivacyGuarantee.shuffled : The guarantee after the shuffle.
    expected_error : The error at the returned epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import PrivUnit
    >>> from sktensordp.model_selection import epsilon_before_shuffling
    >>> zeros = np.zeros((1, 28, 28))  # only the shape of a sample is read
    >>> mechanism = PrivUnit(bounds=(-1, 1))
    >>> round(epsilon_before_shuffling(
    ...     mechanism, zeros, epsilon=1.0, delta=1e-6, n_messages=10_000), 2)
    4.8
    """
    from ..mechanisms._base import NoiseMechanism, is_domain_declared
    from ..privacy._shuffled import shuffled_event
    from ..privacy.accounting._curves import event_delta

    if not isinstance(mechanism, NoiseMechanism):
        raise TypeError(
            f"mechanism must be a mechanism with `bounds` or `norm_bound`, such as "
            f"PrivUnit, got {type(mechanism).__name__}. For an encoder, try "
            f"epsilons and call `shuffled` of its guarantee."
        )
    if not 0 < epsilon <= _LARGEST:
        raise ValueError(f"epsilon must be in (0, {_LARGEST:g}], got {epsilon}.")
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}.")
    if not is_domain_declared(mechanism):
        raise ValueError(
            f"The domain of {type(mechanism).__name__} is not declared. Pass `bounds` "
            f"or `norm_bound`."
        )
    mechanism = clone(mechanism)
    zeros = np.zeros((1, *np.shape(X)[1:]))

    def is_enough(local: float) -> bool:
        message = mechanism.set_params(epsilon=local).fit(zeros).privacy_guarantee_
        return event_delta(shuffled_event(message, n_messages), epsilon) <= delta

    low, high = float(epsilon), float(epsilon)
    if not is_enough(low):
        raise ValueError(
            f"Messages of {type(mechanism).__name__} with epsilon = {epsilon:g} and "
            f"their own delta are not ({epsilon:g}, {delta:g})-differentially private "
            f"once shuffled. Pass a mechanism with a smaller `delta`."
        )
    while is_enough(high):
        if high >= _LARGEST:
            return _LARGEST
        low, high = high, min(2 * high, _LARGEST)
    low, _ = narrowed(low, high, is_enough, _PRECISION)
    return low
