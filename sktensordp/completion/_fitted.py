"""What a fit leaves: one frozen object, which answers everything that is asked later.

Nothing in it is a value of the data: a model, computed from what was released, the
declared domain, and which entries were observed, where that is public. A further batch,
or a unit's own row, makes a new one.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from .._sklearn_compat import effective_n_threads
from ..privacy import PrivacyGuarantee
from ..tensor import (
    StructuredTucker,
    as_coordinates,
    times_recurring,
    update_structured_cp,
    update_structured_tucker,
)
from ..tensor._unit_entries import UnitEntries
from ._unit_rows import LocalRows, UnitModel

__all__ = ["Domain", "Fitted", "FittedToUnits"]

# Rows of scores that are ranked at once.
_N_RANKED = 256


class Domain(NamedTuple):
    """Where values lie, and the least variance of the noise that each was given."""

    bounds: tuple[float, float]
    levels: tuple[float, ...] | None
    noise_variance: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted:
    """A fitted completion.

    Attributes
    ----------
    model : StructuredCP or StructuredTucker
        Without the offset.
    decomposition : CPTensor or TuckerTensor
        The model in TensorLy's form.
    offset : float
    shape : tuple of int
    domain : Domain
    form : CPForm or TuckerForm
    perturbation : str
        The one taken.
    n_iter : int
    residual_variance : float or None
        Of the values around the model, where it was found.
    is_dense : bool
        Whether the fit was to a tensor.
    was_received : bool
        Whether values came randomised.
    observed : tuple of ndarray or None
        Coordinates or masks of what was observed, call by call; None where it is with
        Dask.
    n_uses : int
        How many calls had the same coordinates, at most.
    single : PrivacyGuarantee
        Of one call.
    """

    model: Any
    decomposition: Any
    offset: float
    shape: tuple[int, ...]
    domain: Domain
    form: Any
    perturbation: str
    n_iter: int
    residual_variance: float | None
    is_dense: bool
    was_received: bool
    observed: tuple[Any, ...] | None
    n_uses: int
    single: PrivacyGuarantee

    unit = None
    """The mode of the protected units; None where entries are protected."""

    @property
    def answering(self) -> Any:
        """The model that predicts."""
        return self.model

    @property
    def factors(self) -> list[Any]:
        """Factors that were released, by mode; None for those of units."""
        return self.decomposition.factors

    @property
    def noise_variance(self) -> float:
        """Variance of what was fitted around the model; NaN where it is not known."""
        return self.model.noise_variance

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Of all calls together."""
        return _repeated(self.single, self.n_uses)

    def warn_of_lost_rows(self, coordinates: np.ndarray) -> None:
        """Nothing is lost with a model of entries."""

    def predict(self, coordinates: np.ndarray) -> np.ndarray:
        """Values at coordinates, within the bounds; -1 for an unknown index."""
        mean = self.offset + self.answering.predict(coordinates)
        return np.clip(mean, *self.domain.bounds, out=mean)

    def standard_deviation(self, coordinates: np.ndarray, mean: np.ndarray) -> Any:
        """Of values, before they are randomised, around their predictions."""
        if self.residual_variance is None:
            raise ValueError(
                "This model gives no standard deviations; they are known after the "
                'sound perturbation="input" alone.'
            )
        variance, _ = self.model.variance(coordinates)
        std = np.sqrt(variance + self.residual_variance)
        # No value is farther from its prediction than the farther bound.
        low, high = self.domain.bounds
        std = np.minimum(std, np.maximum(mean - low, high - mean))
        return std.astype(mean.dtype)

    def dense(self) -> np.ndarray:
        """Values everywhere, within the bounds."""
        return np.clip(self.offset + self.answering.dense(), *self.domain.bounds)

    def recommend(self, asked: np.ndarray, k: int) -> np.ndarray:
        """Best indices of mode 1 for coordinates, without those observed there.

        Parameters
        ----------
        asked : ndarray of shape (n, n_modes), int
            That of mode 1 is not read.
        k : int

        Returns
        -------
        items : ndarray of shape (n, k), int
            Best first; -1 where there is no further item.
        """
        n_items = self.shape[1]
        best = np.full((len(asked), k), -1, dtype=np.int64)
        for start in range(0, len(asked), _N_RANKED):
            rows = asked[start : start + _N_RANKED]
            scores = self.answering.slices(rows, 1)
            for row, item in self._seen_items(rows):
                scores[row, item] = -np.inf
            n_best = min(k, n_items)
            chosen = np.argpartition(-scores, n_best - 1, axis=1)[:, :n_best]
            score = np.take_along_axis(scores, chosen, axis=1)
            order = np.lexsort((chosen, -score))
            chosen = np.take_along_axis(chosen, order, axis=1)
            score = np.take_along_axis(score, order, axis=1)
            best[start : start + _N_RANKED, :n_best] = np.where(
                np.isneginf(score), -1, chosen
            )
        return best

    @property
    def _seen(self) -> tuple[Any, ...]:
        """Where values were observed: coordinates or masks."""
        if self.observed is None:
            raise ValueError(
                "After a fit to Dask collections, which items a unit has values of is "
                "known where the data are. predict is supported, recommend is not."
            )
        return self.observed

    def _seen_items(self, asked: np.ndarray) -> Iterator[tuple[np.intp, np.ndarray]]:
        """Yields positions in `asked` with the items that were observed there.

        Where a unit is protected, those that the asking unit has observed itself.
        """
        keys = sorted({0, self.unit or 0})
        asked, sizes = asked[:, keys], [self.shape[k] for k in keys]
        known = np.flatnonzero(np.all(asked >= 0, axis=1))
        wanted = np.ravel_multi_index(tuple(asked[known].T), sizes)
        for where in self._seen:
            where = as_coordinates(where)
            # An interrupted `partial_fit` may have had others.
            where = where[np.all(where < self.shape, axis=1)]
            places = np.ravel_multi_index(tuple(where[:, keys].T), sizes)
            chosen = np.isin(places, wanted)
            places, items = places[chosen], where[chosen, 1]
            order = np.argsort(places, kind="stable")
            places, items = places[order], items[order]
            first = np.searchsorted(places, wanted)
            last = np.searchsorted(places, wanted, side="right")
            for position, *ends in zip(known, first, last, strict=True):
                yield position, items[slice(*ends)]

    def with_call(self, where: np.ndarray, guarantee: PrivacyGuarantee) -> Self:
        """The same model, with one call more whose release is about to be made."""
        observed = (*(self.observed or ()), where)
        recurring = times_recurring([*map(as_coordinates, observed)])
        return replace(
            self,
            observed=observed,
            n_uses=max(self.n_uses, recurring),
            single=_together(self.single, guarantee),
        )

    def updated(
        self, randomized: np.ndarray, noise_variance: float, max_iter: int
    ) -> Any:
        """The model with the entries of the last call, whose values are overwritten."""
        randomized -= self.offset
        noise = self.noise_variance
        if noise_variance != self.domain.noise_variance:
            # Another epsilon than in the fit.
            noise = noise_variance + (self.residual_variance or 0.0)
        is_tucker = isinstance(self.model, StructuredTucker)
        update = update_structured_tucker if is_tucker else update_structured_cp
        return update(
            self.model, (self.observed or ())[-1], randomized,
            noise_variance=noise, max_iter=max_iter,
            n_threads=effective_n_threads(),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedToUnits(Fitted):
    """A fitted completion that protects everything of a unit.

    Attributes
    ----------
    model : SharedModel
        What was released.
    local : LocalRows
        Rows of units, which are not released.
    """

    local: LocalRows

    @property
    def unit(self) -> int:  # type: ignore[override]
        """The mode of the protected units."""
        return self.model.unit

    @property
    def answering(self) -> Any:
        """The model of all units, put together on first use."""
        local = self.local
        if local.model is None:
            low, high = self.domain.bounds
            rows = self.model.no_rows if local.rows is None else local.rows
            inner = self.model.with_rows(rows, (high - low) / 2)
            local.model = UnitModel(inner, local.units, self.shape, self.unit)
        return local.model

    @property
    def factors(self) -> list[Any]:
        """Factors that were released, by mode; None for those of units."""
        found = list(self.decomposition.factors)
        found[self.unit] = None
        return found

    @property
    def noise_variance(self) -> float:
        """Variance of a value around the model."""
        low, high = self.domain.bounds
        return self.model.noise * ((high - low) / 2) ** 2

    @property
    def _seen(self) -> tuple[Any, ...]:
        return () if self.local.where is None else (self.local.where,)

    def warn_of_lost_rows(self, coordinates: np.ndarray) -> None:
        """Warn once that the rows of the units there did not travel with the model."""
        if not self.local.lost or not np.any(coordinates[:, self.unit] >= 0):
            return
        self.local.lost = False
        warnings.warn(
            "Pickling or copying this model dropped the units' own rows, since rows of "
            "units do not travel. All units are treated as unknown. To restore them, "
            "call fold_in(X, y) with all of their entries.",
            UserWarning,
            stacklevel=3,
        )

    def with_rows_of(self, where: np.ndarray, values: np.ndarray) -> Self:
        """The same, with rows of the units that have these entries.

        Parameters
        ----------
        where : ndarray of shape (n, n_modes), int
        values : ndarray of shape (n,)
            Clipped to the domain.
        """
        others = [mode for mode in range(len(self.shape)) if mode != self.unit]
        low, high = self.domain.bounds
        values = (values - (low + high) / 2) / ((high - low) / 2)
        entries = UnitEntries(where[:, [self.unit, *others]], values)
        rows = self.model.solve(entries)[0]
        local = self.local.replaced(entries.units, rows, where, self.unit)
        return replace(self, local=local)


def _together(one: PrivacyGuarantee, other: PrivacyGuarantee) -> PrivacyGuarantee:
    """What releases of disjoint entries reveal: no more than the worse of the two."""
    from ..privacy.accounting._events import PureDpEvent

    if one.event == other.event:
        return one
    worse = one if one.epsilon >= other.epsilon else other
    if math.isinf(worse.epsilon):
        return worse
    # Below its epsilon, the worse one need not have the larger delta.
    return replace(worse, event=PureDpEvent(worse.epsilon))


def _repeated(guarantee: PrivacyGuarantee, times: int) -> PrivacyGuarantee:
    """What `times` releases with a guarantee reveal together."""
    from dp_accounting import dp_event

    if times == 1:
        return guarantee
    return PrivacyGuarantee.of(
        dp_event.SelfComposedDpEvent(guarantee.event, times),
        unit=guarantee.unit,
        statement=(
            f"{guarantee.statement} Some coordinates were passed in {times} calls, "
            "each of which drew a value for them."
        ),
        source=f"{guarantee.source}; sequential composition",
        claimed=guarantee.claimed,
    )
