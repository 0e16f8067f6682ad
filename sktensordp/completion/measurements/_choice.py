"""The choice of a solver, and the guarantee that is known before any fit."""

import math
from collections.abc import Callable

from ...measure import planned_event
from ...privacy import PrivacyGuarantee
from .._domain import Domain
from .._noise_shares import SharedNoise
from .._problem import Problem
from .._values import (
    entry_guarantee,
    guarantee_without_noise,
    plan_entry_randomizer,
)
from ._auto import choose_perturbation
from ._blocks import BlockPerturbation
from ._gradient import GradientPerturbation
from ._input import InputPerturbation
from ._solver import Solver
from ._sums import SumsPerturbation
from ._units import UnitPerturbation, unit_guarantee, unit_guarantee_without_noise

_PLANNED = "upper bound from the budget"
_SOLVERS: dict[str, Callable[[Problem], Solver]] = {
    "input": InputPerturbation,
    "gradient": GradientPerturbation,
    "sums": SumsPerturbation,
}


def choose_solver(
    problem: Problem,
    perturbation: str,
    *,
    unit: int | None,
    streaming: bool,
    shared_noise: SharedNoise | None = None,
) -> Solver:
    """The solver that randomises and fits a problem.

    Parameters
    ----------
    problem : Problem
    perturbation : str
        The estimator's parameter; "auto" takes the least expected error.
    unit : int or None
        Mode of the protected units; None protects single entries.
    streaming : bool
        Whether more entries will come, or the values were randomised elsewhere. Then
        "auto" is "input".
    shared_noise : SharedNoise, default=None
        Noise that parties add; None if the solver does.

    Returns
    -------
    solver : Solver

    Raises
    ------
    ValueError
        If the solver does not support the problem.
    """
    if unit is not None:
        return UnitPerturbation(problem, unit, perturbation, shared_noise)
    if not problem.entries.is_local and problem.entries.mode in problem.smooth_modes:
        raise ValueError(
            f"For Dask input, smooth_modes must not contain mode "
            f"{problem.entries.mode}: the rows of the larger of the first two modes "
            f"are divided among workers."
        )
    if perturbation == "auto":
        if not streaming:
            return choose_perturbation(problem)
        perturbation = "input"
    if perturbation in ("statistics", "output"):
        solver = BlockPerturbation(problem, perturbation)
        if not problem.entries.is_local and not solver.uses_features:
            raise ValueError(
                "For Dask input, perturbation='statistics' needs features: "
                "side_information, or a pattern (n_pattern_components > 0)."
            )
        return solver
    return _SOLVERS[perturbation](problem)


def planned_guarantee(
    domain: Domain,
    perturbation: str,
    *,
    epsilon: float,
    delta: float,
    unit: int | None,
    has_shape: bool,
) -> PrivacyGuarantee:
    """Guarantee of any fit, stated before any data are seen.

    Parameters
    ----------
    domain : Domain
    perturbation : str
    epsilon, delta : float
    unit : int or None
    has_shape : bool
        Whether the shape was declared.

    Returns
    -------
    guarantee : PrivacyGuarantee
    """
    from ...privacy.accounting._events import PureDpEvent

    if unit is not None:
        if math.isinf(epsilon):
            return unit_guarantee_without_noise(unit)
        return unit_guarantee(
            planned_event(epsilon, delta, within=epsilon),
            unit,
            "sums" if perturbation == "sums" else "statistics",
            delta=delta,
            domain=domain,
            void_for=None if has_shape and domain.is_declared else epsilon,
        )
    if math.isinf(epsilon):
        return guarantee_without_noise()
    if perturbation == "input":
        return plan_entry_randomizer(epsilon, domain).guarantee
    event, stated = PureDpEvent(epsilon), 0.0
    if perturbation == "gradient":
        event, stated = GradientPerturbation.planned_event(epsilon, delta), delta
    return entry_guarantee(
        event,
        "Everything computed from the values is randomised, whatever the values are.",
        _PLANNED,
        delta=stated,
        void_for=None if domain.is_declared else epsilon,
    )
