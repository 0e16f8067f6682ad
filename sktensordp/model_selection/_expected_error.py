"""Which epsilon is needed: the error to expect of an estimator, before it releases."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

__all__ = ["ExpectedError", "epsilon_needed", "expected_error"]

# Where an epsilon is looked for, and how near to the least one that is found.
_SMALLEST, _LARGEST = 2.0**-10, 2.0**10
_PRECISION = 1e-3


@dataclass(frozen=True, eq=False)
class ExpectedError:
    """Expected errors over epsilon.

    Attributes
    ----------
    epsilons : ndarray of shape (n_epsilons,)
        As they were asked for.
    errors : ndarray of shape (n_epsilons,)
        What is expected at each of them.
    what : str
        What the errors are, and their unit.
    """

    epsilons: NDArray[np.float64]
    errors: NDArray[np.float64]
    what: str


def expected_error(
    estimator: Any, X: ArrayLike, y: ArrayLike | None = None, *, epsilons: ArrayLike
) -> ExpectedError:
    """Expected error of an estimator at several epsilons, before any budget is spent.

    No noise is drawn, so what is returned is as private as what is read of `X` and `y`:
    the shape of a sample for a mechanism, but all of `X` and `y` for an encoder.

    Parameters
    ----------
    estimator : estimator
        A mechanism, an encoder or a completion. Its parameters declare all that has
        to be declared, such as `bounds`. It is not changed, and its own epsilon does
        not matter.
    X : array-like
        For a mechanism, samples: only the shape of one is read, and zeros will do.
        For an encoder, public samples or those of people who consent: a copy of it is
        fitted to them. For a completion, coordinates of shape (n_observed, n_modes).
        With ``unit="entry"`` all of them are read; they are public there. Where `unit`
        is a mode, only their number is read; it is private there, so pass as many rows
        as you may disclose. The numbers in them can be zeros.
    y : array-like, default=None
        For an encoder, what its `fit` takes, as public as `X`. Others do not read it.
    epsilons : array-like of shape (n_epsilons,)
        Positive; infinity for no noise.

    Returns
    -------
    expected : ExpectedError
        Of a mechanism, the expected squared error of a sample summed over its entries
        (weighted by `utility`, where there is one), for the sample of the domain for
        which it is largest. Of an encoder, `expected_task_loss_` over
        `task_variance_`. Of a completion, the root mean squared error of predictions
        of values like the observed ones that are held out.

    Raises
    ------
    TypeError
        If the estimator is none of these, such as a Pipeline: ask for its step.
    ValueError
        If the domain of a mechanism or a completion is not declared, if nothing is
        known to be expected of a completion with these parameters, if epsilons are not
        positive, or as in the estimator's own `fit`.

    See Also
    --------
    epsilon_needed : The least epsilon for an error.

    Notes
    -----
    What is expected of a completion is for values that are imagined, the same for all
    data: biases, an interaction of low rank and a residual, in proportions and with a
    variance (0.22 half ranges squared) that are close to those of ratings. Where the
    values have another variance that is public, declare it by `level_prior`. Where
    `unit` is a mode, the numbers of entries of the rows are imagined too. It is known
    of the perturbations "input", "sums" and "statistics", and of "auto" as the best of
    them, with biases and without smooth modes.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import LaplaceMechanism
    >>> from sktensordp.model_selection import expected_error
    >>> shape_alone = np.zeros((1, 2, 2))
    >>> mechanism = LaplaceMechanism(bounds=(0, 1))
    >>> found = expected_error(mechanism, shape_alone, epsilons=[1, 4, np.inf])
    >>> found.errors.round(2)
    array([128.,   8.,   0.])
    >>> found.what
    'largest expected squared error of a sample'
    """
    wanted = np.array(epsilons, dtype=float)
    if wanted.ndim != 1 or not np.all(wanted > 0):
        raise ValueError("epsilons must be a list of positive numbers.")
    at = _error_by_epsilon(estimator, X, y)
    errors = np.array([at(epsilon) for epsilon in wanted.tolist()], dtype=float)
    return ExpectedError(wanted, errors, estimator._error_name)


def epsilon_needed(
    estimator: Any, X: ArrayLike, y: ArrayLike | None = None, *, error: float
) -> float:
    """The least epsilon at which an error is expected that is not larger.

    No noise is drawn, so what is returned is as private as what is read of `X` and `y`.

    Parameters
    ----------
    estimator : estimator
        As for `expected_error`.
    X, y : array-like
        As for `expected_error`; the same of them is read.
    error : float
        In the unit of ``expected_error(...).what``, positive.

    Returns
    -------
    epsilon : float
        From 2**-10 to 2**10; the error expected there is at most `error`, and at one
        thousandth less it is larger.

    Raises
    ------
    TypeError
        As `expected_error`.
    ValueError
        If no such epsilon is large enough, or the least is; and as `expected_error`.

    See Also
    --------
    expected_error : The expected errors themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import LaplaceMechanism
    >>> from sktensordp.model_selection import epsilon_needed
    >>> mechanism = LaplaceMechanism(bounds=(0, 1))
    >>> round(epsilon_needed(mechanism, np.zeros((1, 2, 2)), error=8.0), 2)
    4.0
    """
    if not 0 < error < math.inf:
        raise ValueError(f"error must be a positive number, got {error!r}.")
    at = _error_by_epsilon(estimator, X, y)
    high = 1.0
    while at(high) > error:
        if high >= _LARGEST:
            raise ValueError(f"An error of {error:g} asks for more than {high:g}.")
        high *= 2
    low = high / 2
    while at(low) <= error:
        if low <= _SMALLEST:
            raise ValueError(f"For an error of {error:g} every epsilon will do.")
        high, low = low, low / 2
    while high > low * (1 + _PRECISION):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if at(middle) <= error else (middle, high)
    return high


def _error_by_epsilon(
    estimator: Any, X: ArrayLike, y: ArrayLike | None
) -> Callable[[float], float]:
    """Expected error as a function of epsilon."""
    if not hasattr(estimator, "_error_by_epsilon"):
        raise TypeError(
            f"The expected error is known of mechanisms, encoders and completions, not "
            f"of {type(estimator).__name__}; of a pipeline or a search, ask for the "
            f"step that releases."
        )
    return clone(estimator)._error_by_epsilon(X, y)
