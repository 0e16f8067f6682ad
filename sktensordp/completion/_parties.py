"""Completions whose units are with several parties; see ``measure/_parties.py``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .._sklearn_compat import validate_params
from ..measure import PartySums, SharedNoise
from ..tensor._unit_entries import UnitEntries
from ._checks import is_empty_list
from ._domain import Domain
from ._entries import Entries, entries_of
from ._problem import Problem, declared_shape, domain_of, unit_of
from ._raw_scale import warn_before_sending
from ._requests import UnitTerms
from ._sources import Answering, CompletionParameters
from .measurements.units._units import UnitPerturbation


@dataclass(frozen=True, eq=False)
class PartyEntries:
    """Entries of which a server learns only sums; see `Entries`.

    Attributes
    ----------
    shape : tuple of int
    sums : PartySums
    """

    shape: tuple[int, ...]
    sums: PartySums

    is_dense, received = False, False

    @property
    def noise(self) -> SharedNoise | None:
        """Noise that the sums contain."""
        return self.sums.noise

    @property
    def conditions(self) -> tuple[str, ...]:
        """Further conditions of the guarantee of a fit to these sums."""
        return self.sums.conditions

    def by_unit(self, domain: Domain, unit: int) -> PartySums:
        """The sums over units; a party holds all entries of a unit."""
        return self.sums

    def with_rows_of(self, units: object, fitted: Answering) -> Answering:
        """The fitted model; parties compute the rows of their own units."""
        return fitted


def declared_shape_and_unit(
    completion: CompletionParameters,
) -> tuple[tuple[int, ...], int]:
    """The declared shape and the mode of the units; raise if they are not declared."""
    unit, shape = unit_of(completion), declared_shape(completion)
    if unit is None:
        raise ValueError(
            "Parties add up contributions of protected units: set unit=0, or another "
            "mode."
        )
    if shape is None:
        raise ValueError("Declare `shape`: all parties must know it beforehand.")
    return shape, unit


def terms_of(completion: CompletionParameters) -> UnitTerms:
    """Check the public parameters of a completion on which its parties must agree."""
    shape, unit = declared_shape_and_unit(completion)
    validate_params(completion)
    completion._check_declared()
    problem = Problem.from_estimator(completion, shape)
    form, domain = problem.form, problem.domain
    settings = {
        "estimator": type(completion).__name__,
        "rank": getattr(form, "ranks", form.rank),
        "epsilon": problem.epsilon,
        "delta": problem.delta,
        "perturbation": completion.perturbation,
        "biases": problem.biases,
        "unit": unit,
        "shape": shape,
        "value_bounds": domain.bounds,
        "levels": domain.levels,
    }
    measurement = UnitPerturbation(problem, unit, completion.perturbation)
    return UnitTerms(settings, measurement)


def units_of(
    completion: CompletionParameters, X: ArrayLike, y: ArrayLike | None
) -> UnitEntries:
    """All entries of the units of a party, checked."""
    shape, unit = declared_shape_and_unit(completion)
    if y is None:
        raise ValueError("y is missing: pass the values of the entries.")
    X = np.zeros((0, len(shape))) if is_empty_list(X) else X
    name, missing = type(completion).__name__, completion.missing_values
    where, own = entries_of(X, y, shape, name, missing)
    domain = domain_of(completion)
    warn_before_sending(own, domain)
    return Entries(where, own, shape).by_unit(domain, unit)
