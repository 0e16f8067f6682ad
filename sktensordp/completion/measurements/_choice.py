"""The choice of a measurement, and its expected error before any fit."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..._validation import check_coordinates, shape_of
from ...measure import SharedNoise, planned_event
from ...privacy import PrivacyGuarantee
from .._checks import check_input
from .._domain import TO_BE_FOUND, Domain
from .._entries import Entries, extent
from .._own_rows import with_own_answers
from .._problem import Problem, declared_shape, domain_of, unit_of
from .._sources import CompletionParameters
from .._values import entry_guarantee, guarantee_without_noise, plan_entry_randomizer
from ._checked_scale import CheckedScale, without_check
from ._expectation import Expectation, Expected, Variances, n_features_of
from ._found_scale import FoundScale, guarantee_of_any_scale
from ._gradient import GradientPerturbation
from ._input import InputPerturbation
from ._measurement import Measurement
from ._statistics import OutputPerturbation, StatisticsPerturbation
from ._sums import SharedSumsPerturbation, SumsPerturbation
from .units._units import UnitPerturbation, unit_guarantee, unit_guarantee_without_noise

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

_PLANNED = "upper bound from the budget"
_OF_ENTRIES: dict[str, type[Measurement]] = {
    "input": InputPerturbation,
    "gradient": GradientPerturbation,
    "output": OutputPerturbation,
    "statistics": StatisticsPerturbation,
    "sums": SumsPerturbation,
}
# In place of these, if users are answered from their own values.
_OF_PERSONAL: dict[str, type[Measurement]] = {"sums": SharedSumsPerturbation}
# The perturbations with a known expected error.
_WITH_EXPECTATION = ("auto", "input", "sums", "statistics")


def choose_measurement(
    problem: Problem,
    perturbation: str,
    *,
    unit: int | None,
    shared_noise: SharedNoise | None = None,
) -> Measurement:
    """Choose the measurement that randomises the values of a problem.

    Parameters
    ----------
    problem : Problem
    perturbation : str
        "auto" chooses the least expected error.
    unit : int or None
        Mode of the protected units; None protects single entries.
    shared_noise : SharedNoise, default=None
        Noise that parties add; None if it is added here.

    Returns
    -------
    measurement : Measurement

    Raises
    ------
    ValueError
        If the measurement does not support the problem.
    """
    if unit is not None:
        return UnitPerturbation(problem, unit, perturbation, shared_noise)
    if problem.domain is TO_BE_FOUND:
        return FoundScale(
            problem,
            choose=partial(choose_measurement, perturbation=perturbation, unit=None),
            eligible=partial(_eligible, perturbation=perturbation),
            name=perturbation,
        )
    if problem.checks_scale:
        rest = choose_measurement(without_check(problem), perturbation, unit=None)
        return CheckedScale(problem, rest)
    eligible = _eligible(problem, perturbation)
    measurement = eligible[0]
    if len(eligible) > 1:
        variances = Variances.of_terms(problem, n_features_of(problem))
        expectation = Expectation(problem, variances)
        # If several have the least error, the first.
        measurement = min(eligible, key=lambda each: each.expected_error(expectation))
    problem.entries.check_supported(measurement)
    return measurement


def _eligible(problem: Problem, perturbation: str) -> list[Measurement]:
    """The measurement with this name, or those that "auto" chooses from."""
    of_entries = _OF_ENTRIES | _OF_PERSONAL if problem.is_personal else _OF_ENTRIES
    if perturbation != "auto":
        return [of_entries[perturbation](problem)]
    found: list[Measurement] = [InputPerturbation(problem)]
    if math.isfinite(problem.epsilon) and problem.biases and not problem.smooth_modes:
        found.append(of_entries["sums"](problem))
    return found


def expected_of_entries(
    problem: Problem, perturbation: str, variance: float | None = None
) -> Expected:
    """What is expected of predictions for held-out values.

    Parameters
    ----------
    problem : Problem
        With biases, without smooth modes.
    perturbation : {"auto", "input", "sums", "statistics"}
        "auto" is the perturbation with the least expected error.
    variance : float, default=None
        Variance of the values, in their units squared, if it is public. None takes the
        variance of ratings.

    Returns
    -------
    expected : Expected

    Raises
    ------
    ValueError
        If `perturbation` is "statistics" and there are no features.
    """
    variances = Variances.of_values(problem, n_features_of(problem), variance)
    expectation = Expectation(problem, variances)
    eligible = _eligible(problem, perturbation)
    errors = [each.expected_error(expectation) for each in eligible]
    least = min(errors)
    taken = eligible[errors.index(least)]
    error = problem.domain.scale * math.sqrt(least + variances.residual)
    only_averages = taken.name == "sums" and not taken.uses_features
    return Expected(error, taken.name, only_averages)


def expected_by_epsilon(
    estimator: CompletionParameters, X: ArrayLike, n_units: int | None = None
) -> Callable[[float], Expected]:
    """What is expected of a completion, by epsilon; no value is read.

    Parameters
    ----------
    estimator : BaseCompletion
    X : array-like of shape (n, n_modes)
        Coordinates. If a unit is protected, only their number is read.
    n_units : int, default=None
        Number of protected units that have entries; None for as many as the shape has,
        or as there are rows of `X`.

    Returns
    -------
    expected : callable
        Takes epsilon.
    """
    _check_expectation(estimator)
    if estimator.unit != "entry":
        shape = declared_shape(estimator)
        assert shape is not None
        entries = None

        def expected(
            problem: Problem, perturbation: str, variance: float | None
        ) -> Expected:
            measurement = UnitPerturbation(problem, 0, perturbation)
            return measurement.expected(n_entries, variance, n_units)

        n_entries, *n_columns = shape_of(X, "X") or (0,)
        if n_columns != [len(shape)]:
            raise ValueError(
                f"X must have shape (n_entries, {len(shape)}), a column for each mode."
            )
    else:
        given = check_input(estimator, X, ensure_min_features=2)
        name, declared = type(estimator).__name__, declared_shape(estimator)
        where = check_coordinates(given, shape=declared, name=name)
        shape, expected = declared or extent(where), expected_of_entries
        entries = Entries(where, None, shape)
    problem = Problem.from_estimator(estimator, shape, entries)
    name, variance = estimator.perturbation, _declared_variance(problem.domain)

    def at(epsilon: float) -> Expected:
        planned = replace(problem, epsilon=float(epsilon))
        planned = without_check(planned) if planned.checks_scale else planned
        return expected(planned, name, variance)

    return at


def _check_expectation(estimator: CompletionParameters) -> None:
    """Refuse estimators without a known expectation, or with undeclared quantities."""
    name = type(estimator).__name__
    if estimator.perturbation not in _WITH_EXPECTATION:
        raise ValueError(
            f"The expected error of {name} is known only for perturbation in "
            f"{_WITH_EXPECTATION}."
        )
    if not estimator.biases or estimator.smooth_modes:
        raise ValueError(
            f"The expected error of {name} is known only with biases=True and "
            f"smooth_modes=None."
        )
    if estimator.value_bounds is estimator.levels is None:
        raise ValueError(
            f"The domain of {name} is not declared, and the expected error depends on "
            f"it. Declare value_bounds or levels."
        )
    if estimator.unit != "entry" and estimator.shape is None:
        raise ValueError(
            "`shape` is not declared, and with this `unit` the coordinates are "
            "private. Pass shape=(n_users, n_items)."
        )


def _declared_variance(domain: Domain) -> float | None:
    """Variance of the values under the prior of their levels; None without one."""
    if domain.prior is None:
        return None
    prior, levels = np.array(domain.prior), np.array(domain.levels)
    return float(prior @ (levels - prior @ levels) ** 2)


def planned_guarantee(completion: CompletionParameters) -> PrivacyGuarantee:
    """Guarantee of any fit with these parameters, before any data are seen."""
    from ...privacy.accounting._events import PureDpEvent, RevealingDpEvent

    event: DpEvent
    domain, unit = domain_of(completion), unit_of(completion)
    epsilon, delta = float(completion.epsilon), float(completion.delta)
    perturbation = completion.perturbation
    is_public = domain.is_declared and (unit is None or completion.shape is not None)
    claimed_epsilon = None if is_public else epsilon
    if unit is not None:
        if math.isinf(epsilon):
            return unit_guarantee_without_noise(unit)
        return unit_guarantee(
            planned_event(epsilon, delta, total_epsilon=epsilon),
            unit,
            "sums" if perturbation == "sums" else "statistics",
            delta=delta,
            domain=domain,
            claimed_epsilon=claimed_epsilon,
        )
    if math.isinf(epsilon):
        return guarantee_without_noise()
    if domain is TO_BE_FOUND:
        guarantee = guarantee_of_any_scale(perturbation, epsilon, delta)
    elif perturbation == "input" and not completion.check_scale:
        guarantee = plan_entry_randomizer(epsilon, domain).guarantee
    else:
        event, stated = PureDpEvent(epsilon), 0.0
        if perturbation == "gradient" and completion.check_scale:
            event, stated = RevealingDpEvent(delta, event), delta
        elif perturbation == "gradient":
            event, stated = GradientPerturbation.planned_event(epsilon, delta), delta
        guarantee = entry_guarantee(
            event,
            "Everything computed from the values is randomised, whatever the values "
            "are.",
            _PLANNED,
            delta=stated,
            claimed_epsilon=claimed_epsilon,
        )
    return with_own_answers(guarantee) if completion.personal else guarantee
