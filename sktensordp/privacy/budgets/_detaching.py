"""Copies of estimators and the budgets that were open where they were made."""

import contextvars
from copy import deepcopy
from typing import TypeVar

from ._budget import Marks, open_budgets

_Estimator = TypeVar("_Estimator")
_DETACHING: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "detaching", default=False
)


def marks_of_copy(marks: Marks) -> Marks:
    """The budgets of a copy that is made now, given those of the original."""
    return open_budgets() | (frozenset() if _DETACHING.get() else marks)


def detach_from_budgets(estimator: _Estimator) -> _Estimator:
    """Copy an estimator that was made in the block of a budget, for use after it.

    A copy that is made while a `PrivacyBudget` is open (a clone, a copy, a client, a
    pickle and what is loaded from it) belongs to that budget: so threads that outlive
    the block release nothing that it does not count. After the block, a budget with a
    path still counts what the copy releases. Without a path, the copy refuses to
    release. The best estimator of a search is such a copy, and so are the fitted steps
    of a ``ColumnTransformer``. They still predict if that draws no noise.

    To release with such a copy, open the same budget again. If that budget need not
    count the release, for example because it is about other people, detach the copy.

    Parameters
    ----------
    estimator : object
        An estimator, pipeline, search or client, or a container of such.

    Returns
    -------
    copy : object
        A deep copy. It belongs to the budgets that are open now, and to no others.

    See Also
    --------
    PrivacyBudget : Counts releases.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import clone
    >>> from sktensordp.mechanisms import LaplaceMechanism
    >>> from sktensordp.privacy import PrivacyBudget, detach_from_budgets
    >>> X = np.zeros((10, 3))
    >>> with PrivacyBudget(1.0):
    ...     noise = clone(LaplaceMechanism(0.5, bounds=(0, 1))).fit(X)
    >>> try:
    ...     noise.transform(X)
    ... except RuntimeError:
    ...     print("refused")
    refused
    >>> with PrivacyBudget(1.0) as other:
    ...     released = detach_from_budgets(noise).transform(X)
    >>> other.spent.epsilon
    0.5
    """
    context = contextvars.copy_context()
    context.run(_DETACHING.set, True)
    return context.run(deepcopy, estimator)
