"""Expected error of an estimator before any release, and the epsilon for an error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone

from .._validation import (
    LARGEST_INDEX,
    check_container,
    check_integer,
    described,
    shape_of,
)
from ..moments import MultilinearRidge, MultilinearRidgeClassifier
from ..privacy._guarantee import unit_name
from ..privacy._html import coloured, rows
from ..privacy._numbers import shown
from ..privacy._protocol import foresees_perturbation, privacy_tags
from ..recommend import Recommender
from ._bisection import narrowed
from ._plan import fit_guarantee

# Range of the search for an epsilon, and its relative precision.
_SMALLEST, _LARGEST = 2.0**-10, 2.0**10
_PRECISION = 1e-3
# Relative precision of the epsilon of one unit, given the epsilon of a group.
_GROUP_PRECISION = 1e-6
# Assumptions of answers from own rows, and of protecting all entries of a unit.
_OWN_ASSUMPTIONS = (
    "The row of a unit is computed from its raw entries, without noise: it serves that "
    "unit alone and stays where they are."
)
_ASSUMPTIONS = f"{_OWN_ASSUMPTIONS} Delta is not 0."
# Estimators whose fit is rehearsed on public samples, and what that assumes.
_REHEARSED = MultilinearRidge, MultilinearRidgeClassifier
_PUBLIC_ASSUMPTIONS = (
    "X and y are public or generated: the rehearsal reads them without protection, and "
    "its error shows them. Your own samples are like them."
)


@dataclass(frozen=True, eq=False)
class ExpectedError:
    """Expected errors at several epsilons.

    Attributes
    ----------
    epsilons : ndarray of shape (n_epsilons,)
        Epsilons in the order in which they were passed.
    errors : ndarray of shape (n_epsilons,)
        Expected error at each epsilon.
    what : str
        Kind and unit of the errors.
    unit_epsilons : ndarray of shape (n_epsilons,)
        The parameter `epsilon` of the estimator. It is smaller than `epsilons` if
        these are for a group of units.
    assumptions : str
        Further assumptions of the guarantee or the error, in words; empty if there are
        none.
    protects : str
        Whom the epsilons protect, and from which change, in words.
    perturbations : tuple of str
        For a completion, the perturbation that a fit is expected to take at each
        epsilon, such as the choice of "auto"; empty for other estimators.
    """

    epsilons: NDArray[np.float64]
    errors: NDArray[np.float64]
    what: str
    unit_epsilons: NDArray[np.float64]
    assumptions: str = ""
    protects: str = ""
    perturbations: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        pairs = zip(self.epsilons.tolist(), self.errors.tolist(), strict=True)
        cells = [(f"epsilon = {shown(e)}", f"{error:.4g}") for e, error in pairs]
        if self.perturbations:
            cells = [
                (label, f'{error} (perturbation="{name}")')
                for (label, error), name in zip(cells, self.perturbations, strict=True)
            ]
        line = f"Each epsilon would protect {self.protects}. Nothing is released yet."
        texts = [
            f"<p>{escape(text)}</p>" for text in (self.what, self.assumptions) if text
        ]
        return coloured(line, holds=True) + "".join(texts) + rows(cells)


def expected_error(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    epsilons: ArrayLike,
    group: int = 1,
    n_users: int | None = None,
) -> ExpectedError:
    """Expected error of an estimator at several epsilons, before any budget is spent.

    Nothing protects the result, so it is only as public as the input it depends on: for
    a mechanism the shape of a sample, but for an encoder or a ridge all of `X` and `y`.

    Parameters
    ----------
    estimator : estimator
        A mechanism, an encoder, a completion, an estimator of
        :mod:`sktensordp.moments`, or a `Recommender` that protects users. Its
        parameters must declare the domain, such as `bounds`. It is not changed, and its
        own epsilon does not matter.
    X : array-like
        For a mechanism, samples. Only the shape of one is read, so zeros will do.

        For an encoder, public samples, or samples from people who consent: a copy of
        the encoder is fitted to them.

        For a `MultilinearRidge` or its classifier, public or generated samples of the
        shape of yours, with targets `y`: the fit is rehearsed on them. For a
        `MultilinearPCA`, zeros of the shape of all of your samples.

        For a completion, coordinates of shape (n_observed, n_modes). With
        ``unit="entry"``, coordinates are public, and all of them are read. If `unit` is
        a mode, only the number of rows is read. That number is private, so pass any
        number of rows that you may disclose; the coordinates can be zeros. The same
        holds for a `Recommender`.
    y : array-like, default=None
        For an encoder or a ridge, the `y` of its `fit`, which must be as public as `X`.
        Other estimators do not read it.
    epsilons : array-like of shape (n_epsilons,)
        Positive; infinity for no noise.
    group : int, default=1
        Number of units, such as the people of a household, for whom the epsilons hold
        together, at the `delta` of the estimator. Mechanisms with `bounds` or
        `norm_bound`, and encoders, randomise each row by itself, so a group of size g
        counts as g releases; otherwise, it shares one release. ``unit_epsilons`` of the
        result are the epsilons to pass to the estimator.
    n_users : int, default=None
        If `unit` is a mode, the number of users, or other units, that you expect to
        have entries. The true number is private, too, so pass one that you may
        disclose. None means as many as the `shape` of a completion declares, at most
        one for each row of `X`. A `Recommender` has room for any number of users, so
        you have to pass it.

        For a ridge, how many samples you will fit it to; None means as many as `X` has.

    Returns
    -------
    expected : ExpectedError
        For a mechanism, the expected squared error of a sample, summed over its
        entries (weighted by `utility`, if set), for the sample of the domain with the
        largest such error. For an encoder, `expected_task_loss_` divided by
        `task_variance_`. For a completion, the root mean squared error of predictions
        of held-out values that are like the observed ones. For a ridge, the mean
        squared error of predictions over the variance of the targets; for its
        classifier, the share of wrong predictions; for a PCA, the share of energy that
        noise costs.

    Raises
    ------
    TypeError
        If the estimator is of another kind, such as a Pipeline; pass its step instead.
    ValueError
        If the domain of a mechanism or a completion is not declared, if `n_users` is
        missing or does not fit the estimator, if there is no formula for the expected
        error of a completion with these parameters, if epsilons are not positive, if no
        noise protects the group at an epsilon, or for the reasons of the estimator's
        own `fit`.

    See Also
    --------
    epsilon_needed : The least epsilon for an error.

    Notes
    -----
    The expected error of a completion assumes the same model of the values for all
    data, which is close to ratings: biases, an interaction of low rank and a residual,
    with a variance of 0.22 times the square of half the range. If another variance is
    publicly known, declare it by `level_prior`. If `unit` is a mode, the numbers of
    entries of the rows are modelled, too. The error is available with biases and
    without smooth modes, for the perturbations "input", "sums" and "statistics"; for
    "auto", it is that of the perturbation that a fit is expected to choose, which
    `perturbations` of the result names. `assumptions` says at which epsilons averages
    alone are expected to be learned.

    The rehearsal of a ridge fits it to four fifths of `X` and predicts the others, ten
    times, with simulated noise: for each sample as much as in a fit to `n_users`. The
    same draws serve all epsilons. Each epsilon takes ten fits: seconds, if a core has a
    thousand cells. What few samples cost besides noise is the cost of those in `X`, so
    the error is too large if you will have many more.

    If `unit` is a mode, or with ``personal=True``, the error assumes that answers for a
    user are shown to that user only; `assumptions` of the result states this.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import LaplaceMechanism
    >>> from sktensordp.model_selection import expected_error
    >>> zeros = np.zeros((1, 2, 2))  # only the shape of a sample is read
    >>> mechanism = LaplaceMechanism(bounds=(0, 1))
    >>> expected = expected_error(mechanism, zeros, epsilons=[1, 4, np.inf])
    >>> expected.errors.round(2)
    array([128.,   8.,   0.])
    >>> expected.what
    'largest expected squared error of a sample'

    A household of four, with epsilon 4 for all of them together:

    >>> household = expected_error(mechanism, zeros, epsilons=[4], group=4)
    >>> household.errors.round(2), household.unit_epsilons.round(2)
    (array([128.]), array([1.]))
    """
    grid = _positive(epsilons)
    estimator, X = step_that_releases(estimator, X, n_users)
    name, error_at = _error_by_epsilon(estimator, X, y, n_users)
    group_epsilon = _group_epsilon_by_epsilon(estimator, X, group)
    of_unit = np.array([_unit_epsilon(group_epsilon, e) for e in grid.tolist()])
    errors = np.array([error_at(epsilon) for epsilon in of_unit.tolist()], dtype=float)
    assumptions = ""
    if isinstance(getattr(estimator, "unit", None), Integral):
        assumptions = _ASSUMPTIONS
    elif getattr(estimator, "personal", False):
        assumptions = _OWN_ASSUMPTIONS
    elif isinstance(estimator, _REHEARSED):
        assumptions = _PUBLIC_ASSUMPTIONS
    names: tuple[str, ...] = ()
    copied = clone(estimator)
    if foresees_perturbation(copied):
        perturbation_at = copied.__expected_perturbation__(X, n_users)
        taken = [perturbation_at(epsilon) for epsilon in of_unit.tolist()]
        names = tuple(perturbation for perturbation, _ in taken)
        pairs = zip(grid.tolist(), taken, strict=True)
        averages = [epsilon for epsilon, (_, is_average) in pairs if is_average]
        assumptions = f"{assumptions} {_averages_at(averages)}".strip()
    protects = _protects(estimator, X, of_unit, group)
    return ExpectedError(grid, errors, name, of_unit, assumptions, protects, names)


def epsilon_needed(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    error: float,
    group: int = 1,
    n_users: int | None = None,
) -> float:
    """The least epsilon at which the expected error is at most `error`.

    Nothing protects the result, so it is only as public as the input it depends on, as
    for `expected_error`.

    Parameters
    ----------
    estimator : estimator
        As for `expected_error`.
    X, y : array-like
        As for `expected_error`, which says how much of them is read.
    error : float
        Positive, in the unit of ``expected_error(...).what``.
    group : int, default=1
        Number of units, such as the people of a household, for whom the epsilon holds
        together, at the `delta` of the estimator.
    n_users : int, default=None
        As for `expected_error`.

    Returns
    -------
    epsilon : float
        At this epsilon, the expected error is at most `error`; at an epsilon that is
        one thousandth smaller, the error is larger. For one unit, the epsilon is from
        2**-10 to 2**10. For a group, it is the group's epsilon if the estimator gets
        the epsilon of one unit.

    Raises
    ------
    TypeError
        As `expected_error`.
    ValueError
        If no epsilon in that range is large enough, or every epsilon is; and as
        `expected_error`.

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
    >>> round(epsilon_needed(mechanism, np.zeros((1, 2, 2)), error=8.0, group=4), 2)
    16.0
    """
    is_number = isinstance(error, Real) and not isinstance(error, bool | np.bool_)
    if not is_number or not 0 < error < math.inf:
        raise ValueError(
            f"error must be a positive number, in the unit of "
            f"expected_error(...).what, got {error!r}."
        )
    estimator, X = step_that_releases(estimator, X, n_users)
    _, error_at = _error_by_epsilon(estimator, X, y, n_users)
    group_epsilon = _group_epsilon_by_epsilon(estimator, X, group)
    if isinstance(estimator, _REHEARSED) and (least := error_at(math.inf)) > error:
        raise ValueError(
            f"Even without noise, the error is {least:.3g}. Pass a larger error."
        )
    high = 1.0
    while error_at(high) > error:
        if high >= _LARGEST:
            raise ValueError(
                f"An error of {error:g} needs an epsilon above {high:g}, where the "
                f"search ends. Pass a larger error."
            )
        high *= 2
    low = high / 2
    while error_at(low) <= error:
        if low <= _SMALLEST:
            raise ValueError(
                f"Every epsilon from {low:g} on gives an error of at most {error:g}: "
                f"predicting the mean is nearly enough for that. Pass a smaller "
                f"error; if the values vary more than ratings usually do, declare "
                f"level_prior."
            )
        high, low = low, low / 2
    _, high = narrowed(low, high, lambda e: error_at(e) > error, _PRECISION)
    return group_epsilon(high)


def _positive(epsilons: ArrayLike) -> NDArray[np.float64]:
    """The epsilons as an array, or an error."""
    values = np.asarray(epsilons)
    are_numbers = values.dtype.kind in "iuf" and values.ndim == 1 and values.size
    if not are_numbers or not np.all(values > 0):
        raise ValueError(
            f"epsilons must be a list of positive numbers, such as [0.5, 1, 2], got "
            f"{described(epsilons)}."
        )
    return values.astype(float)


def _averages_at(epsilons: list[float]) -> str:
    """Say at which epsilons averages alone are expected to be learned; "" at none."""
    if not epsilons:
        return ""
    listed = ", ".join(map(shown, epsilons))
    return (
        f"At epsilon {listed}, averages alone are expected to be learned: everybody "
        f"gets nearly the same ranking."
    )


def _protects(
    estimator: BaseEstimator, X: ArrayLike, epsilons: NDArray[np.float64], group: int
) -> str:
    """Whom the epsilons protect, and from which change."""
    epsilon = next((e for e in epsilons.tolist() if math.isfinite(e)), 1.0)
    model = clone(estimator).set_params(epsilon=epsilon)
    one = fit_guarantee(model, np.shape(X)[1:])
    text = f"{unit_name(one.unit)} ({one.relation}), at delta = {shown(one.delta)}"
    return text if group == 1 else f"{group} units together: each is {text}"


def _group_epsilon_by_epsilon(
    estimator: BaseEstimator, X: ArrayLike, group: int
) -> Callable[[float], float]:
    """Epsilon of `group` units together as a function of the estimator's epsilon."""
    check_integer(group, "group", 1)
    if group == 1:
        return float
    model, sample_shape = clone(estimator), np.shape(X)[1:]

    def epsilon_of_group(epsilon: float) -> float:
        if math.isinf(epsilon):
            return epsilon
        of_one = fit_guarantee(model.set_params(epsilon=epsilon), sample_shape)
        # Mechanisms for declared samples, and encoders, randomise each row by itself.
        # A fit may spend less than the requested epsilon.
        local = of_one.unit == "sample" and of_one.relation == "replace-one"
        local = local and privacy_tags(model).released_by != "fit"
        of_group = of_one.for_group(group, local=local, delta=of_one.delta)
        return max(of_group.epsilon, epsilon)

    return epsilon_of_group


def _unit_epsilon(group_epsilon: Callable[[float], float], epsilon: float) -> float:
    """The largest epsilon of one unit at which the group has at most `epsilon`."""
    if math.isinf(epsilon):
        return epsilon
    high = low = epsilon
    while group_epsilon(low) > epsilon:
        if low < _SMALLEST * epsilon:
            raise ValueError(
                f"No noise keeps epsilon = {epsilon:g} for the group at the delta of "
                f"the estimator. Pass a larger epsilon or a smaller group."
            )
        high, low = low, low / 2
    low, _ = narrowed(
        low, high, lambda e: group_epsilon(e) <= epsilon, _GROUP_PRECISION
    )
    return low


def step_that_releases(
    estimator: BaseEstimator, X: ArrayLike, n_users: int | None
) -> tuple[Any, ArrayLike]:
    """The completion of a recommender that protects users, and zeros for its table.

    Other estimators, and their `X`, are returned unchanged.

    Raises
    ------
    TypeError
        If a recommender protects entries: their ids are not encoded yet.
    ValueError
        If `n_users` is missing, out of range or without effect.
    """
    check_container(X, "X")
    if len(shape_of(X, "X")) < 2:
        raise ValueError(
            "X is the X of a fit, such as samples or coordinates, but it has no rows "
            "and columns. Pass X before y."
        )
    if isinstance(estimator, Recommender):
        _, completion = estimator.__privacy_steps__(planned=True)
        if not isinstance(completion.unit, Integral):
            raise TypeError(
                "The expected error of a Recommender is known only where users are "
                "protected. Otherwise, encode ids with a CoordinateEncoder, and pass "
                "the completion and the coordinates."
            )
        if n_users is None:
            raise ValueError(
                "A Recommender has room for any number of users. Pass n_users, the "
                "number of users that you expect."
            )
        where = np.zeros((np.shape(X)[0], len(completion.shape)), dtype=np.int8)
        estimator, X = completion, where
    if n_users is None:
        return estimator, X
    unit = getattr(estimator, "unit", None)
    if not isinstance(unit, Integral) and not isinstance(estimator, _REHEARSED):
        raise ValueError(
            "n_users is the number of protected users, but `unit` is not a mode. Leave "
            "n_users=None."
        )
    check_integer(n_users, "n_users", 1, LARGEST_INDEX)
    return estimator, X


def _error_by_epsilon(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike | None, n_users: int | None
) -> tuple[str, Callable[[float], float]]:
    """The kind of the expected error, and the error as a function of epsilon."""
    if not hasattr(type(estimator), "__expected_error__"):
        raise TypeError(
            f"The expected error is known for mechanisms, encoders, completions and "
            f"moments, but not for {type(estimator).__name__}. From a pipeline or a "
            f"search, pass the step that releases."
        )
    found: tuple[str, Callable[[float], float]]
    found = clone(estimator).__expected_error__(X, y, n_users)
    return found
