"""The public information that a measurement has before it reads a value."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._sklearn_compat import effective_n_threads
from .._validation import check_modes, check_shape, declared_array, warn
from ..exceptions import PrivacyLeakWarning
from ..ids import in_order_of
from ..tensor import CPForm, Pattern, TuckerForm
from ..tensor._average_row import average_row
from ..tensor._pattern import FIRST_COMPONENTS
from ._domain import TO_BE_FOUND, Domain, declared_domain
from ._entries import check_missing_values
from ._own_rows import TIED
from ._sources import CompletionParameters, EntrySource, HasUnit, ObservedEntries

_PERTURBATIONS_OF_UNITS = ("auto", "sums", "statistics")


@dataclass(frozen=True, eq=False)
class Features:
    """Public features of the rows of the second mode and, last, of an unknown row.

    They are the declared features and those of the pattern of the coordinates. An
    unknown row has the features of the average entry.

    Attributes
    ----------
    declared : ndarray of shape (n_rows, n_features)
    entries : Entries, PartitionedEntries or None
        Entries with public coordinates; None if the coordinates are private.
    n_components : int or None
        Largest number of components of the pattern; None for as many as stand out.
    """

    declared: NDArray[np.float64]
    entries: "ObservedEntries"
    n_components: int | None

    @cached_property
    def all(self) -> NDArray[np.float64]:
        """The features, for fits to values."""
        return self._with(self._pattern and self._pattern.features)

    @cached_property
    def clear(self) -> NDArray[np.float64]:
        """The features, with only those pattern components that stand out clearly.

        In a release of sums every feature gets noise, and the core of a Tucker model
        grows with every feature.
        """
        return self._with(self._pattern and self._pattern.clear_features)

    def _with(self, of_pattern: NDArray[np.float64] | None) -> NDArray[np.float64]:
        average = np.zeros(0)
        if self.declared.shape[1]:
            average = average_row(self.declared, self.entries.counts[1])
        found = np.append(self.declared, average[np.newaxis], axis=0)
        if of_pattern is None:
            return found
        return np.concatenate([found, of_pattern], axis=1)

    @cached_property
    def _pattern(self) -> Pattern | None:
        """The pattern of the coordinates, if the model uses features of it."""
        if self.n_components == 0:
            return None
        return self.entries.pattern(self.n_components)


@dataclass(frozen=True, eq=False)
class Problem:
    """A tensor to complete, without its values.

    Parameters
    ----------
    shape : tuple of int
        The mode of protected units comes first.
    entries : Entries, PartitionedEntries or None
        The entries, if their coordinates are public.
    domain : Domain
        Range and levels of the values.
    epsilon, delta : float
        Budget of one unit; Gaussian noise uses `delta`.
    form : CPForm or TuckerForm
    biases : bool
    smooth_modes : tuple of int
    n_components : int or None
        Largest number of components of the pattern; None for as many as stand out.
    max_iter : int
    n_threads : int
    features : Features
        Public features of the rows of the second mode.
    has_public_shape : bool, default=True
        False if the shape was read off coordinates that are private.
    is_personal : bool, default=False
        Whether users are answered from rows that are computed from their raw values,
        although single values are protected.
    checks_scale : bool, default=False
        Whether values off the declared scale are counted first.
    """

    shape: tuple[int, ...]
    entries: "ObservedEntries"
    domain: Domain
    epsilon: float
    delta: float
    form: CPForm | TuckerForm
    biases: bool
    smooth_modes: tuple[int, ...]
    n_components: int | None
    max_iter: int
    n_threads: int
    features: Features
    has_public_shape: bool = True
    is_personal: bool = False
    checks_scale: bool = False

    @classmethod
    def from_estimator(
        cls,
        estimator: CompletionParameters,
        shape: tuple[int, ...],
        entries: EntrySource[Any] | ObservedEntries | None = None,
    ) -> Self:
        """Collect what a measurement needs besides the values; a unit's mode is first.

        Parameters
        ----------
        estimator : BaseCompletion
            Its parameters are checked.
        shape : tuple of int
            Shape of the tensor.
        entries : object, default=None
            The entries to fit, if there are any; see `observed_entries`.
        """
        n_modes, unit = len(shape), unit_of(estimator)
        if unit is not None and unit >= n_modes:
            raise ValueError(
                f"unit = {unit} is not a mode: the tensor has modes 0 to {n_modes - 1}."
            )
        smooth_modes = check_modes(estimator.smooth_modes, n_modes, "smooth_modes")
        order = [unit or 0, *(mode for mode in range(n_modes) if mode != (unit or 0))]
        form = estimator._form(order, shape)
        check_combination(estimator, smooth_modes)
        has_public_shape = _is_shape_public(estimator)
        declared = side_features(estimator.side_information, order[1], shape)
        is_personal = unit is None and bool(estimator.personal)
        of_parameter = estimator.n_pattern_components
        n_components = None if of_parameter == "auto" else int(of_parameter)
        # Parties protect whole units and declare the range, so their entries are not
        # read.
        observed = cast("ObservedEntries | None", entries)
        places = None
        if unit is None and observed is not None:
            places = observed.without_values()
        of_pattern = n_components if estimator.biases else 0
        if of_pattern is None and estimator.perturbation == "sums" and not is_personal:
            of_pattern = FIRST_COMPONENTS  # no others are clear
        return cls(
            shape=tuple(shape[mode] for mode in order),
            # If units are protected, nothing reads the coordinates.
            entries=cast("ObservedEntries", places),
            domain=domain_of(estimator, observed),
            epsilon=float(estimator.epsilon),
            delta=float(estimator.delta),
            form=form,
            biases=bool(estimator.biases),
            smooth_modes=smooth_modes,
            n_components=n_components,
            max_iter=estimator.max_iter,
            n_threads=effective_n_threads(),
            features=Features(declared, cast("ObservedEntries", places), of_pattern),
            has_public_shape=has_public_shape,
            is_personal=is_personal,
            checks_scale=estimator.check_scale and math.isfinite(estimator.epsilon),
        )

    @property
    def claimed_epsilon(self) -> float | None:
        """The epsilon if the domain or the shape was read off the data, otherwise None.

        If it was, no finite epsilon holds.
        """
        is_public = self.domain.is_declared and self.has_public_shape
        return None if is_public else float(self.epsilon)


def declared_shape(estimator: CompletionParameters) -> tuple[int, ...] | None:
    """The shape that a completion declares, checked; None if it declares none."""
    return None if estimator.shape is None else check_shape(estimator.shape)


def unit_of(estimator: HasUnit) -> int | None:
    """The mode of the units that a completion protects; None if it protects entries."""
    return None if estimator.unit == "entry" else int(estimator.unit)


def check_parameters(estimator: CompletionParameters) -> Problem | None:
    """Refuse the parameters that a fit would refuse, before there are data.

    Returns
    -------
    problem : Problem or None
        The problem of a fit, if its shape is declared.
    """
    shape = declared_shape(estimator)
    if shape is not None:
        return Problem.from_estimator(estimator, shape)
    check_combination(estimator, estimator.smooth_modes)
    side_features(estimator.side_information, _mode_of_features(estimator))
    domain_of(estimator)
    return None


def check_combination(
    estimator: CompletionParameters, smooth_modes: Sequence[int] | None
) -> None:
    """Refuse combinations of parameters that no fit admits, whatever the shape.

    Raises
    ------
    ValueError
        If they contradict each other.
    """
    unit, perturbation = unit_of(estimator), estimator.perturbation
    smooth_modes = () if smooth_modes is None else smooth_modes
    is_smooth = len(smooth_modes) > 0
    if unit is not None and perturbation not in _PERTURBATIONS_OF_UNITS:
        raise ValueError(
            f"With unit = {unit}, perturbation must be one of "
            f"{_PERTURBATIONS_OF_UNITS}."
        )
    if perturbation == "sums" and not estimator.biases:
        raise ValueError('perturbation="sums" fits biases alone: set biases=True.')
    if is_smooth and unit is not None:
        raise ValueError(
            "unit as a mode does not support smooth_modes; pass smooth_modes=None."
        )
    if is_smooth and perturbation not in ("auto", "input"):
        raise ValueError(
            f'perturbation="{perturbation}" does not support smooth_modes; pass None.'
        )
    check_missing_values(estimator.missing_values)
    if estimator.check_scale and unit is not None:
        raise ValueError('check_scale=True needs unit="entry".')
    if estimator.check_scale and finds_scale(estimator):
        raise ValueError(
            "check_scale=True checks a declared scale: declare levels or value_bounds, "
            "or pass check_scale=False to find the scale."
        )
    if estimator.rank is not None and not (np.any(estimator.rank) or estimator.biases):
        raise ValueError("There is nothing to fit: rank is 0 and biases is False.")
    if is_smooth and estimator.personal and 0 in smooth_modes:
        raise ValueError(TIED)


def _is_shape_public(estimator: CompletionParameters) -> bool:
    """Whether the shape is public wherever it must be; warn if it is not."""
    is_public = unit_of(estimator) is None or estimator.shape is not None
    if not is_public and math.isfinite(estimator.epsilon):
        warn(
            "`shape` is not declared, so it is read off the private coordinates, "
            "and no finite epsilon holds for this fit. Pass the public shape, such "
            "as shape=(n_users, n_items), or shape=encoder.declared_shape of a "
            "CoordinateEncoder with categories.",
            PrivacyLeakWarning,
        )
    return is_public


def _mode_of_features(estimator: CompletionParameters) -> int:
    """The only mode whose rows may have declared features."""
    return 0 if unit_of(estimator) else 1


def domain_of(
    estimator: CompletionParameters,
    entries: ObservedEntries | None = None,
    earlier: Domain | None = None,
) -> Domain:
    """The domain of the values for the current parameters of a completion.

    If the parameters declare none, it is that of an earlier fit. Without one, a fit
    finds it privately (`TO_BE_FOUND`) or, if it cannot, takes the range of the values
    of `entries`.
    """
    declared = declared_domain(
        estimator.value_bounds, estimator.levels, estimator.level_prior
    )
    if declared is not None:
        missing = check_missing_values(estimator.missing_values)
        if missing is not None and missing in (declared.levels or ()):
            raise ValueError(
                f"missing_values={missing:g} is one of the levels, so no entry could "
                f"have that value. Leave it out of levels, or pass missing_values=None."
            )
        return declared
    if earlier is not None:
        return earlier
    if finds_scale(estimator):
        return TO_BE_FOUND
    if entries is None:
        return Domain((0.0, 1.0), is_declared=False)
    if math.isfinite(estimator.epsilon):
        warn(
            "Neither value_bounds nor levels is given, so the range of the values "
            "is read off the private values. No finite epsilon holds for this "
            "fit; declare the range to protect the values.",
            PrivacyLeakWarning,
        )
    return Domain(entries.value_range, is_declared=False)


def finds_scale(estimator: CompletionParameters) -> bool:
    """Whether a fit finds the scale of the values within its epsilon."""
    is_declared = not estimator.value_bounds is estimator.levels is None
    protects_entries = unit_of(estimator) is None and math.isfinite(estimator.epsilon)
    return protects_entries and estimator._may_find_scale and not is_declared


def side_features(
    declared: Mapping[int, ArrayLike] | Sequence[ArrayLike | None] | None,
    mode: int,
    shape: Sequence[int] | None = None,
) -> NDArray[np.float64]:
    """Centre and scale the declared features of a mode's rows.

    Parameters
    ----------
    declared : dict, list, tuple or None
        See `side_information` of a completion.
    mode : int
        The only mode that may have features.
    shape : sequence of int, default=None
        None if it is not known yet.

    Returns
    -------
    features : ndarray of shape (n_rows, n_features)

    Raises
    ------
    ValueError
        If features are of another mode, of another size, or not finite.
    """
    declared = declared or {}
    if not isinstance(declared, dict):
        if shape is not None and len(declared) != len(shape):
            raise ValueError(
                f"side_information must have one item for each of the {len(shape)} "
                f"modes, got {len(declared)}."
            )
        declared = {k: rows for k, rows in enumerate(declared) if rows is not None}
    declared = dict(declared)
    rows = np.zeros((0 if shape is None else shape[mode], 0))
    if mode in declared:
        name, given = f"side_information of mode {mode}", declared.pop(mode)
        size = np.shape(given)[0] if shape is None else shape[mode]
        given = in_order_of(given, int(size), name, f"range({size})")
        given = declared_array(given, name)
        try:
            rows = given.astype(float)
        except (TypeError, ValueError):
            # Raised outside the handler, since the error handled there may show data.
            rows = np.array(np.nan)
        if rows.ndim == 0:
            raise ValueError(f"{name} must be an array of numbers.")
        size = len(rows) if shape is None else shape[mode]
        if rows.ndim != 2 or len(rows) != size:
            is_vector = rows.shape == (size,)
            advice = " Pass rows.reshape(-1, 1)." * is_vector
            raise ValueError(
                f"{name} must have shape ({size}, n_features), got "
                f"{rows.shape}.{advice}"
            )
        if not np.all(np.isfinite(rows)):
            raise ValueError(f"{name} must be finite.")
    if declared:
        raise ValueError(
            f"side_information must describe the rows of mode {mode} alone; leave out "
            f"the features of modes {list(declared)}."
        )
    if not len(rows):
        return rows
    rows = rows / np.maximum(np.abs(rows).max(axis=0, initial=0.0), 1e-300)
    rows -= rows.mean(axis=0)
    # Unit variance, but less for rare features, so that no row is an outlier.
    scale = np.maximum(rows.std(axis=0), np.ptp(rows, axis=0) / 4)
    return rows / np.where(scale > 0, scale, 1.0)
