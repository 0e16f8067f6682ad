"""Guarantees of fits that are still to come, and the epsilon of each in a plan."""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from sklearn.base import BaseEstimator

from ._collect import Context, collect
from ._guarantee import PrivacyGuarantee, compose
from ._numbers import check_number, checked_integer
from ._report import composed, counted, report_of
from .budgets._budget import PrivacyBudget

# How far below the largest epsilon the answer may be, as a share of it.
_PRECISION = 9e-5
# The search ends here: some guarantees stay finite at any epsilon.
_LARGEST_EPSILON = 1e6
# If even this share of an equal part of the budget is too much, delta must be the
# reason.
_SMALLEST = 1e-3
# The largest share that counts, and the least logarithm of one.
_MOST, _LEAST = 1e4, 1e-12


def planned_guarantee(estimator: BaseEstimator) -> PrivacyGuarantee:
    """Tell what a fit will guarantee, without data and without a release.

    Parameters
    ----------
    estimator : estimator
        An estimator of this package, or a pipeline with one; fitted or not. A noise
        mechanism must be fitted or declare its `tensor_shape`, since its guarantee
        depends on the shape of the samples. For a mechanism, this is the guarantee of
        one call of `transform`. A fitted estimator is planned for data of the same
        shape.

    Returns
    -------
    guarantee : PrivacyGuarantee
        Guarantee of the fit; if it is an upper bound, its `source` says so. For single
        entries, it is a bound unless ``perturbation="input"``, because the noise
        follows from the coordinates; for encoders, because `fit` chooses the code; for
        mechanisms after a step whose output may have another shape next time, because
        it holds for all shapes.

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
    findings = collect(estimator, Context("plan", like=estimator, fixed=True))
    for release in findings.releases:
        if release.guarantee is None:
            raise ValueError(f"{release.name}: {release.why}")
    return report_of(estimator, findings).guarantee


def guarantee_of_candidate(
    estimator: BaseEstimator, params: Mapping[str, Any], like: object
) -> PrivacyGuarantee | None:
    """Guarantee of one fit of a candidate; None if it is not known.

    Parameters
    ----------
    estimator : estimator
        Estimator that is searched, or fitted at several epsilons.
    params : dict
        Parameters of the candidate.
    like : object or None
        Object that knows the shape of the data: the fitted estimator, perhaps with
        other parameters, or an object with the `sample_shape_` of a mechanism.

    Returns
    -------
    guarantee : PrivacyGuarantee or None
    """
    from sklearn.base import clone

    candidate = clone(estimator).set_params(**clone(params, safe=False))
    findings = collect(candidate, Context("plan", like=like, fixed=True))
    guarantees = [release.guarantee for release in findings.releases]
    if not guarantees or None in guarantees:
        return None
    try:
        return composed(counted(findings))
    except ValueError:  # the steps protect different units
        return None


def epsilon_per_release(
    epsilon: float,
    delta: float,
    n_releases: int,
    estimator: BaseEstimator | Sequence[BaseEstimator],
    *,
    adaptive: bool = True,
) -> float:
    """Find the largest epsilon at which a number of fits stay within a budget.

    The fits may be those of different estimators, which then share the budget.

    Parameters
    ----------
    epsilon : float
        Epsilon of the budget, greater than 0 and finite.
    delta : float
        Delta of the budget, in [0, 1).
    n_releases : int
        Number of fits of each estimator or, for a mechanism, of calls of `transform`;
        at least 1.
    estimator : estimator, or list of estimators
        As for `planned_guarantee`, with one parameter `epsilon`, its own or that of a
        step. The value does not matter; all other parameters, delta among them, are
        those of the fits. All estimators of a list get the same epsilon, and are fitted
        in this order.
    adaptive : bool, default=True
        As for the budget: whether earlier results may decide whether there is another
        fit, or its parameters.

    Returns
    -------
    epsilon : float
        A `PrivacyBudget` with these parameters admits all the fits. The largest such
        epsilon, of those up to a million that the estimator admits, is at most .01%
        larger. It exceeds the epsilon of the budget if one fit reveals less than its
        epsilon says, as with some algorithms of :mod:`sktensordp.papers`, or if the
        budget has the larger delta.

    Raises
    ------
    TypeError
        If a number is of another type.
    ValueError
        If a number is out of range; if the list is empty; if an estimator has no
        `epsilon`, or several; if its guarantee is not known before a fit; if estimators
        protect different units; or if no epsilon is small enough, for example because
        the fits have a delta and the budget has none.

    Examples
    --------
    A year of twelve fits:

    >>> from sktensordp.completion import CPCompletion
    >>> from sktensordp.privacy import epsilon_per_release
    >>> model = CPCompletion(
    ...     rank=5, unit=0, levels=[1, 2, 3, 4, 5], shape=(10_000, 200))
    >>> round(epsilon_per_release(4.0, 1e-6, 12, model), 2)
    1.01
    >>> round(epsilon_per_release(4.0, 1e-6, 12, model, adaptive=False), 2)
    1.02

    Components of images and a classifier on them, from one total; each keeps its own
    delta:

    >>> from sktensordp.moments import MultilinearPCA, MultilinearRidgeClassifier
    >>> pca = MultilinearPCA(4, norm_bound=1.0, tensor_shape=(8, 8))
    >>> classifier = MultilinearRidgeClassifier(
    ...     norm_bound=1.0, classes=[0, 1], tensor_shape=(8, 8))
    >>> round(epsilon_per_release(2.0, 1e-6, 1, [pca, classifier]), 2)
    1.36
    """
    check_number(epsilon, "epsilon")
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be > 0 and finite, got {epsilon}.")
    n_releases = checked_integer(n_releases, "n_releases")
    if n_releases < 1:
        raise ValueError(f"n_releases must be at least 1, got {n_releases}.")
    PrivacyBudget(epsilon, delta)  # raises if delta is out of range
    # A fitted one knows the shape of the data, as a clone does not.
    is_list = isinstance(estimator, (list, tuple))
    planned = deepcopy(list(estimator) if is_list else [estimator])
    if not planned:
        raise ValueError("The list of estimators is empty.")
    names = [_name_of_epsilon(each) for each in planned]

    def plans(one: float) -> list[PrivacyGuarantee]:
        """What the estimators would guarantee with this epsilon."""
        found = [
            planned_guarantee(each.set_params(**{name: one}))
            for each, name in zip(planned, names, strict=True)
        ]
        for guarantee in found:
            if not guarantee.protects:
                raise ValueError(
                    f"No epsilon is small enough: one fit gives no finite guarantee. "
                    f"{guarantee.statement}"
                )
        return found

    budget = PrivacyBudget(epsilon, delta, adaptive=adaptive)

    def excess(one: float) -> float:
        """Logarithm of the share of the budget that the fits use up: above 0 if any."""
        event = plans(one)[0].event
        share = budget._limit.share(event, n_releases)
        # Bounded, since the share may be 0 or infinite.
        found = math.log(min(max(share, 1 / _MOST), _MOST))
        if budget._limit.admits_all(event, n_releases):
            return min(found, -_LEAST)
        return max(found, _LEAST)

    def excess_of_all(one: float) -> float:
        """1 if fits of all estimators exceed the budget; else -1."""
        found = plans(one)
        compose(*found)  # raises if their units differ
        return -1.0 if _admitted(found, n_releases, epsilon, delta, adaptive) else 1.0

    n_fits = n_releases * len(planned)
    first, start = float(epsilon), float(epsilon) / n_fits
    found = _largest(excess if len(planned) == 1 else excess_of_all, first, start)
    if found is None:
        raise ValueError(
            "No epsilon is small enough: what the fits reveal besides, such as their "
            "deltas, exceeds the budget. Give the estimator a smaller delta."
        )
    return found


def _name_of_epsilon(estimator: BaseEstimator) -> str:
    """Name of the one parameter `epsilon` of an estimator or of a step."""
    names = [
        name for name in estimator.get_params() if name.rpartition("__")[2] == "epsilon"
    ]
    if len(names) != 1:
        raise ValueError(
            f"The estimator must have one parameter epsilon, and has {len(names)}: "
            f"{names}."
        )
    return names[0]


def _admitted(
    guarantees: list[PrivacyGuarantee],
    n_releases: int,
    epsilon: float,
    delta: float,
    adaptive: bool,
) -> bool:
    """Whether an empty budget admits all of them, in this order, so many times."""
    from .budgets._filter import Account

    limit, account = PrivacyBudget(epsilon, delta, adaptive=adaptive)._limit, Account()
    for guarantee in guarantees * n_releases:
        admission = limit.admit_to(account, account, guarantee.event)
        if admission is None:
            return False
        totals, limits = admission
        limit.settle(limits)
        account.record("", guarantee, totals)
    return True


def _largest(
    excess: Callable[[float], float], first: float, start: float
) -> float | None:
    """Largest epsilon without an excess; None if there is none.

    The search begins at `first` or, if that is too large, at `start`.
    """
    from scipy.optimize import brentq

    low = high = math.log(first)
    known = {low: excess(first)}

    def at(log: float) -> float:
        if log not in known:
            try:
                known[log] = excess(math.exp(log))
            except ValueError:
                if log <= math.log(first):
                    raise
                known[log] = math.log(_MOST)  # which the estimator does not admit
        return known[log]

    if at(low) <= 0:
        high = low + _PRECISION
        if at(high) > 0:
            return first
        most = max(math.log(_LARGEST_EPSILON), high)
        while at(high) <= 0:
            if high == most:
                return math.exp(most)
            low, high = high, min(high + math.log(2), most)
    else:
        low = math.log(start)
        while at(low) > 0:
            low -= math.log(2)
            if low < math.log(start * _SMALLEST):
                return None
    # Every bracket that it leaves has one end that is admitted and one that is not.
    brentq(at, low, high, xtol=_PRECISION)
    return max(math.exp(log) for log, found in known.items() if found <= 0)
