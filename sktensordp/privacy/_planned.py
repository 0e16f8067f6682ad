"""Guarantees of fits that are still to come, and the epsilon of each in a plan."""

import math
import operator
from typing import Any

from ..exceptions import BudgetExceededError
from ._guarantee import PrivacyGuarantee
from ._numbers import check_number
from ._parts import collect
from ._report import report_of
from ._searches import Context, Findings
from .budgets._budget import PrivacyBudget

# How far below the largest epsilon the answer may be, as a share of it.
_PRECISION = 1e-4
# The share of an equal part of the budget below which delta must be what is in the way.
_SMALLEST = 1e-3


def planned_guarantee(estimator: Any) -> PrivacyGuarantee:
    """Tell what a fit will guarantee, without data and without a release.

    Parameters
    ----------
    estimator : estimator
        Of this package, or a pipeline with one; fitted or not. A noise mechanism must
        be fitted, since its guarantee depends on the shape of the samples. Of a
        mechanism, this is the guarantee of one call of `transform`.

    Returns
    -------
    guarantee : PrivacyGuarantee
        That of the fit; or an upper bound, and then its `source` says so. It is exact
        for completions of whole users with a declared shape, and for mechanisms. For
        single entries, it is a bound unless ``perturbation="input"``: the noise of the
        others follows from the coordinates.

    Raises
    ------
    TypeError
        If nothing in `estimator` gives a guarantee.
    ValueError
        If the guarantee depends on what is not known before a fit; the message says on
        what.

    See Also
    --------
    privacy_of : What has been released.
    PrivacyBudget.admits : Whether a release would fit into a budget.

    Examples
    --------
    >>> from sktensordp.completion import CPCompletion
    >>> from sktensordp.privacy import planned_guarantee
    >>> model = CPCompletion(
    ...     5, unit=0, epsilon=2.0, levels=[1, 2, 3, 4, 5], shape=(10_000, 200))
    >>> print(planned_guarantee(model))
    (epsilon = 2, delta = 1e-06)-differential privacy for everything at one index of
    mode 0 (add-or-remove), if answers for a person are shown to that person only.
    """
    planned = Context(planned=True, like=estimator)
    findings = (
        Findings() if isinstance(estimator, type) else collect(estimator, planned)
    )
    for release in findings.releases:
        if release.guarantee is None:
            raise ValueError(f"{release.name}: {release.why}")
    return report_of(estimator, findings).guarantee


def epsilon_per_release(
    epsilon: float,
    delta: float,
    n_releases: int,
    estimator: Any,
    *,
    adaptive: bool = True,
) -> float:
    """Find the largest epsilon at which so many fits stay within a budget.

    Parameters
    ----------
    epsilon : float
        Of the budget, greater than 0 and finite.
    delta : float
        Of the budget, in [0, 1).
    n_releases : int
        How often the estimator will be fitted; of a mechanism, how often it will
        transform. At least 1.
    estimator : estimator
        As for `planned_guarantee`, with one parameter `epsilon`, its own or that of a
        step. The value does not matter; all other parameters, delta among them, are
        those of the fits.
    adaptive : bool, default=True
        That of the budget: whether earlier results may decide whether there is another
        fit, or with which parameters.

    Returns
    -------
    epsilon : float
        A `PrivacyBudget` with these parameters admits all the fits. The largest such
        epsilon is at most .01% larger.

    Raises
    ------
    TypeError
        If a number is of another type.
    ValueError
        If a number is out of range; if the estimator has no `epsilon`, or several; if
        its guarantee is not known before a fit; or if no epsilon is small enough, for
        example because the fits have a delta and the budget has none.

    Examples
    --------
    A year of twelve fits:

    >>> from sktensordp.completion import CPCompletion
    >>> from sktensordp.privacy import epsilon_per_release
    >>> model = CPCompletion(
    ...     5, unit=0, levels=[1, 2, 3, 4, 5], shape=(10_000, 200))
    >>> round(epsilon_per_release(4.0, 1e-6, 12, model), 2)
    1.01
    >>> round(epsilon_per_release(4.0, 1e-6, 12, model, adaptive=False), 2)
    1.02
    """
    from sklearn.base import clone

    check_number(epsilon, "epsilon")
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be > 0 and finite, got {epsilon}.")
    try:
        n_releases = operator.index(n_releases)
    except TypeError:
        raise TypeError(
            f"n_releases must be an integer, got {type(n_releases).__name__}."
        ) from None
    if n_releases < 1:
        raise ValueError(f"n_releases must be at least 1, got {n_releases}.")
    PrivacyBudget(epsilon, delta)  # raises if delta is out of range
    planned = clone(estimator)
    names = [
        name for name in planned.get_params() if name.rpartition("__")[2] == "epsilon"
    ]
    if len(names) != 1:
        raise ValueError(
            f"The estimator must have one parameter epsilon, and has {len(names)}: "
            f"{names}."
        )
    like = estimator if hasattr(estimator, "sample_shape_") else None

    def fits(one: float) -> bool:
        planned.set_params(**{names[0]: one})
        if like is not None:
            planned.sample_shape_ = like.sample_shape_
        guarantee = planned_guarantee(planned)
        budget = PrivacyBudget(epsilon, delta, adaptive=adaptive)
        try:
            for _ in range(n_releases):
                budget.spend(guarantee)
        except BudgetExceededError:
            return False
        return True

    if fits(float(epsilon)):
        return float(epsilon)
    low, high = float(epsilon) / n_releases, float(epsilon)
    while not fits(low):
        low, high = low / 2, low
        if low < epsilon / n_releases * _SMALLEST:
            raise ValueError(
                "No epsilon is small enough: the deltas of the fits exceed that of the "
                "budget. Give the estimator a smaller delta."
            )
    while high - low > _PRECISION * low:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
