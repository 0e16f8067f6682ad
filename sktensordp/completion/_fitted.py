"""The result of a fit: one frozen object, which answers all later calls.

It holds no value of the data. It holds a model, which was computed from the released
values, the declared domain and, if the coordinates are public, the coordinates of the
observed entries. A further batch or new rows of units make a new object.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator

from .._sklearn_compat import effective_n_threads
from ..privacy import PrivacyGuarantee
from ..tensor import (
    CPForm,
    Evidence,
    FittedModel,
    Rows,
    TuckerForm,
    add_entries,
    occurring,
    own_rows,
    padded,
    times_recurring,
)
from ..tensor._choices import Choices
from ..tensor._observations import places_of
from ..tensor._rows import ModeRows
from ..tensor._unit_entries import UnitEntries
from ._choices import ByUser, items_by_place, places_at
from ._domain import Domain
from ._entries import Entries
from ._local import LocalRows, Lookups, UnitsElsewhere
from ._own_rows import TIED, OwnModel, UnitModel, kept_values, with_own_answers
from ._problem import Problem
from ._ranking import Wanted, item_vectors, similar_to
from ._sources import EntrySource
from .measurements._measurement import Outcome
from .measurements.units._shared_model import SharedModel


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted:
    """A fitted completion.

    Attributes
    ----------
    model : Rows
        The model without the offset.
    offset : float
    shape : tuple of int
    domain : Domain
    form : CPForm or TuckerForm
    perturbation : str
        The perturbation used.
    n_iter : int
    residual_variance : float or None
        Variance of the values around the model, if it is estimated.
    noise_of_value : float
        Least variance of the noise on a single value; 0 without such noise.
    is_dense : bool
        Whether the model was fitted to a tensor.
    observed : tuple of Entries or None
        The observed entries of each call, without their values. Empty where they are
        private; None if they are in Dask collections.
    n_uses : int
        Largest number of calls with entries at the same coordinates.
    guarantee_of_call : PrivacyGuarantee
        Guarantee of one call.
    columns : tuple or None
        Names of the columns of the wide frame in the fit, which are public.
    local : LocalRows
        Rows of users or other units, computed from their own entries and not released.
    noisy : tuple of NoisyValues, LocalValues or None
        For each call, the values that the model was fitted to, if there are any.
    is_personal : bool
        Whether the fit computes the rows of users from their own entries.
    lookups : Lookups
        Tables that speed up answers; not stored.
    has_public_lengths : bool
        Whether synthetic users were drawn with numbers of items that the caller passed.
    has_estimated_variance : bool
        Whether the variance of values around the model is estimated.
    """

    model: Rows
    offset: float
    shape: tuple[int, ...]
    domain: Domain
    form: CPForm | TuckerForm
    perturbation: str
    n_iter: int
    residual_variance: float | None
    noise_of_value: float
    is_dense: bool
    observed: tuple[Entries, ...] | None
    n_uses: int
    guarantee_of_call: PrivacyGuarantee
    columns: tuple[Any, ...] | None = None
    local: LocalRows = field(default_factory=LocalRows)
    noisy: tuple[Any, ...] = ()
    is_personal: bool = False
    lookups: Lookups = field(default_factory=Lookups)
    has_public_lengths: bool = False
    has_estimated_variance: bool = True

    unit = None
    """The mode of the protected units; None if entries are protected."""

    @property
    def answering(self) -> FittedModel:
        """The model for predictions, with users' own rows; built on first use."""
        local = self.local
        if local.rows is None:
            return self.model
        model = local.model
        if not isinstance(model, OwnModel) or model.released is not self.model:
            model = local.model = OwnModel.from_local_rows(self.model, local)
        return model

    @property
    def released(self) -> Rows | UnitModel:
        """The model of `decomposition_`, with all terms that the user requested."""
        model = self.model
        return padded(model, self.form.rank) if isinstance(model, Rows) else model

    @property
    def noise_variance(self) -> float:
        """Variance of the fitted values around the model; NaN if it is not known."""
        return self.model.noise

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Guarantee of all calls together."""
        guarantee = _repeated(self.guarantee_of_call, self.n_uses)
        return guarantee if self.local.rows is None else with_own_answers(guarantee)

    @property
    def shared(self) -> Self:
        """The object as copies get it, without the rows of users or other units."""
        return replace(self, local=LocalRows())

    @property
    def extent(self) -> tuple[int, ...]:
        """Sizes of the modes, with room for new users; all coordinates are smaller."""
        return (2**31 - 1, *self.shape[1:])

    @property
    def new_units(self) -> np.ndarray:
        """Users with rows beyond the shape."""
        units = self.local.units
        return units[np.searchsorted(units, self.shape[0]) :]

    def check_own_rows(self) -> None:
        """Refuse to compute rows of users if the prior ties them to one another."""
        if self.model.is_smooth[0]:
            raise ValueError(TIED)

    def warn_of_lost_rows(self, coordinates: np.ndarray) -> None:
        """Warn once if the rows of users at these coordinates were lost in a copy."""
        # The message does not reveal whether anybody was folded in.
        if self.is_personal and np.any(coordinates[:, 0] >= 0):
            self.local.warn_if_lost(
                "This model was deep-copied or pickled. The users' own rows are never "
                "pickled or deep-copied, so all users are answered from what was "
                "released. To restore them, call fold_in(X, y) with all of their "
                "entries."
            )

    def predict(self, coordinates: np.ndarray) -> np.ndarray:
        """Predict values at coordinates, within the bounds; -1 is an unknown index."""
        mean = self.offset + self.answering.predict(coordinates)
        return np.clip(mean, *self.domain.bounds, out=mean)

    def standard_deviation(
        self, coordinates: np.ndarray, mean: np.ndarray
    ) -> np.ndarray:
        """Standard deviations of the values, before randomisation, around `mean`."""
        if self.residual_variance is None:
            raise ValueError(
                'return_std=True needs a fit with perturbation="input"; this model '
                "has no standard deviations."
            )
        answering = self.answering
        assert isinstance(answering, Rows | OwnModel)
        variance, _ = answering.variance(coordinates)
        std = np.sqrt(variance + self._residual_variances(coordinates))
        # A value is at most as far from its prediction as the farther bound.
        low, high = self.domain.bounds
        std = np.minimum(std, np.maximum(mean - low, high - mean))
        return std.astype(mean.dtype)

    def _residual_variances(self, coordinates: np.ndarray) -> np.ndarray | float:
        """Variances of the values around the model; they depend on the row of mode 0.

        The share of a row comes from its randomised values, less the mechanism's noise.
        """
        assert self.residual_variance is not None
        known = self.noise_of_value
        average = self.noise_variance - known
        weights = self.model.weights_of(coordinates)
        if not average > 0:
            return self.residual_variance
        share = (self.noise_variance / weights - known) / average
        return self.residual_variance * share

    def dense(self) -> np.ndarray:
        """Predict all values of the tensor, within the bounds, from released rows.

        If `unit` is a mode, units are answered from their own rows.
        """
        return np.clip(self.offset + self.answering.dense(), *self.domain.bounds)

    def recommend(self, coordinates: np.ndarray, wanted: Wanted) -> np.ndarray:
        """Rank the indices of mode 1 at coordinates.

        Parameters
        ----------
        coordinates : ndarray of shape (n, n_modes), int
            The column of mode 1 is not read.
        wanted : Wanted

        Returns
        -------
        items : ndarray of shape (n, k), int
            Best first, padded with -1 if fewer than `k` items are left.
        """
        observed = [*self._observed_at(coordinates)] if wanted.exclude_observed else []
        answering = self.answering
        # Column by column, which is fastest for a single row.
        every = self.lookups.get(
            "items", self.model, lambda: np.asfortranarray(answering.every_row(1))
        )

        def scores_of(rows: slice) -> np.ndarray:
            return answering.slices(coordinates[rows], 1, every)

        return wanted.best(len(coordinates), self.shape[1], scores_of, observed)

    def similar_items(self, items: np.ndarray, k: int) -> np.ndarray:
        """The k items most similar to each of the items; see `similar_to`."""
        vectors = self.lookups.get("vectors", self.model, self._item_vectors)
        return similar_to(items, vectors, k)

    def _item_vectors(self) -> np.ndarray:
        # These are released rows; nobody's own row is read.
        people = self.model
        if len(people.used[0]):
            return item_vectors(people, 1, people.means[0].mean(axis=0))
        # There are none of users: the prior says how users differ.
        average, deviations = people.unknown[0], people.prior_variance(0) ** 0.5
        directions = average + np.diag(deviations)[people.free[0]]
        people = replace(people, means=(directions, *people.means[1:]))
        return item_vectors(people, 1, average)

    def _observed_at(self, coordinates: np.ndarray) -> Iterator[Choices]:
        """Yield the items that were observed at each of the coordinates.

        Public ones come first, then those that only this process knows. If units are
        protected, the latter are the items for which the unit itself has entries.
        """
        if self.observed is None:
            raise ValueError(
                "After a fit to Dask collections, recommend cannot leave out the "
                "observed items, which are not stored. Pass exclude_observed=False."
            )
        keys, extent, own = sorted({0, self.unit or 0}), self.extent, self.local.where
        places = places_at(coordinates, keys, extent)

        def build(parts: list[np.ndarray]) -> Choices:
            where = np.concatenate(parts)
            # An interrupted `partial_fit` may have had entries outside the shape.
            where = where[np.all(where < extent, axis=1)]
            return items_by_place(where, keys, extent)

        if self.observed:
            every = self.lookups.get(
                "observed",
                self.observed,
                lambda: build([entries.coordinates for entries in self.observed or ()]),
            )
            yield every.of_users(places)
        if own is not None:
            of_local = self.lookups.get("own", own, lambda: build([own]))
            yield of_local.of_users(places)

    def pairs_known(self) -> np.ndarray | None:
        """The indices of the first two modes of entries that this process knows.

        None if it does not know all, such as those on workers.
        """
        if self.observed is None or self.local.elsewhere is not None:
            return None
        parts = [entries.coordinates[:, :2] for entries in self.observed]
        if self.local.where is not None:
            parts.append(self.local.where[:, :2])
        return np.concatenate(parts) if parts else np.empty((0, 2), np.int64)

    def with_call(self, entries: Entries, guarantee: PrivacyGuarantee) -> Self:
        """The same model, counting one more call whose release is about to happen."""
        observed = (*(self.observed or ()), entries.without_values())
        recurring = times_recurring([each.coordinates for each in observed])
        return replace(
            self,
            observed=observed,
            noisy=(*self.noisy, None),
            n_uses=max(self.n_uses, recurring),
            guarantee_of_call=_worse(self.guarantee_of_call, guarantee),
        )

    def with_call_values(
        self,
        randomized: np.ndarray,
        noise_variance: float,
        max_iter: int,
        raw: np.ndarray | None = None,
    ) -> Self:
        """Update the model with the entries of the last call.

        Parameters
        ----------
        randomized : ndarray of shape (n,)
            Their randomised values, which are overwritten.
        noise_variance : float
            Least variance of a value's noise.
        max_iter : int
        raw : ndarray of shape (n,), default=None
            The original values, if users are answered from their own.

        Returns
        -------
        fitted : Fitted
        """
        randomized -= self.offset
        noise = self.noise_variance
        if noise_variance != self.noise_of_value:
            # This call has another epsilon than the fit.
            noise = noise_variance + (self.residual_variance or 0.0)
        where = (self.observed or ())[-1].coordinates
        model = add_entries(
            self.model,
            where,
            randomized,
            noise=noise,
            n_sweeps=max_iter,
            n_threads=effective_n_threads(),
        )
        is_noisy, scale = noise_variance > 0, self.domain.scale
        kept = kept_values(randomized, noise, scale, is_noisy=is_noisy)
        after = replace(
            self,
            model=model,
            shape=model.shape,
            noisy=(*self.noisy[:-1], kept),
            n_iter=max_iter,
        )
        if raw is None:
            return after._with_later(Evidence(where, randomized, noise))
        own, had_rows = self._own(where, raw), np.isin(where[:, 0], self.local.units)
        after = after._with_later(own)
        return after if had_rows.all() else after._with_own(own.taken(~had_rows))

    def with_all_own(self, entries: Entries) -> Self:
        """Compute the rows of all users from the entries of the fit."""
        own = self._own(entries.coordinates, entries.values)
        of_mode = own_rows(self.model, own, n_threads=effective_n_threads())
        return self._with_rows(of_mode, own.coordinates[:0])

    def fold_in(self, entries: Entries) -> Self:
        """Compute the rows of users from their own values.

        A raw value replaces randomised ones at the same coordinates. The other
        randomised values of these users count too, with their known noise.
        """
        return self._with_own(self._own(entries.coordinates, entries.values))

    def forget(self, units: np.ndarray) -> Self:
        """Drop the own rows of users or other units, and all caches."""
        local = self.local.without(units, self.unit or 0)
        return replace(self, local=local, lookups=Lookups())

    def _own(self, where: np.ndarray, raw: np.ndarray) -> Evidence:
        """Raw values as evidence about the rows of their users."""
        noise = self.residual_variance
        noise = self.noise_variance if noise is None else noise
        return Evidence(where, self.domain.clip(raw.astype(float)) - self.offset, noise)

    def _with_own(self, own: Evidence) -> Self:
        others = [each for each in self._others(own) if len(each.values)]
        of_mode = own_rows(self.model, own, others, effective_n_threads())
        return self._with_rows(of_mode, own.coordinates)

    def _others(self, own: Evidence) -> Iterator[Evidence]:
        """Randomised values of the same users at other coordinates, call by call."""
        # After a fit to Dask collections, they are not in this process.
        pairs = zip(self.observed or (), self.noisy, strict=False)
        for number, (entries, kept) in enumerate(pairs):
            if kept is not None and kept.values is not None:
                where = entries.coordinates
                by_user = self.lookups.get(
                    f"users of call {number}",
                    entries,
                    partial(ByUser.from_coordinates, where),
                )
                chosen = by_user.places(np.unique(own.coordinates[:, 0]))
                chosen = chosen[~occurring(where[chosen], own.coordinates)]
                yield Evidence(where[chosen], kept.values[chosen], kept.noise)

    def _with_later(self, evidence: Evidence) -> Self:
        """Update the users' own rows with later values of these users."""
        local = self.local
        later = evidence.taken(np.isin(evidence.coordinates[:, 0], local.units))
        if not len(later.values):
            return self
        users = np.unique(later.coordinates[:, 0])
        rows = add_entries(
            OwnModel.from_local_rows(self.model, local).own,
            later.coordinates,
            later.values,
            n_sweeps=1,
            noise=later.noise,
            modes=[0],
        )
        of_mode = rows.of_mode(0).taken(places_of(users, rows.used[0]))
        where = local.where[np.isin(local.where[:, 0], users)]
        return self._with_rows(of_mode, where)

    def _with_rows(self, of_mode: ModeRows, where: np.ndarray) -> Self:
        """Store own rows of users, and the coordinates of their entries."""
        rows = np.concatenate([of_mode.means, of_mode.covariances], axis=1)
        local = self.local.replaced(of_mode.used, rows, where, 0)
        return replace(self, local=local)


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedToUnits(Fitted):
    """A fitted completion that protects all entries of a unit.

    Attributes
    ----------
    model : SharedModel
        The released part of the model.
    """

    model: SharedModel  # type: ignore[assignment]

    @property
    def unit(self) -> int:  # type: ignore[override]
        """The mode of the protected units."""
        return self.model.unit

    @property
    def extent(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return self.shape

    def check_own_rows(self) -> None:
        """Do nothing: the prior does not tie rows of units."""

    @property
    def answering(self) -> UnitModel:
        """The model of all units, built on first use."""
        local, model = self.local, self.local.model
        if not isinstance(model, UnitModel):
            rows = self.model.no_rows if local.rows is None else local.rows
            inner = self.model.with_rows(rows, self.domain.scale)
            model = local.model = UnitModel(inner, local.units, self.shape, self.unit)
        return model

    @property
    def released(self) -> UnitModel:
        """The model without rows of units."""
        return self.shared.answering

    @property
    def noise_variance(self) -> float:
        """Variance of a value around the model."""
        return self.model.noise * self.domain.scale**2

    def predict(self, coordinates: np.ndarray) -> np.ndarray:
        """Predict values; see `Fitted.predict`. Workers answer for their units."""
        return self._with_answers("predict", super().predict(coordinates), coordinates)

    def recommend(self, coordinates: np.ndarray, wanted: Wanted) -> np.ndarray:
        """Rank items; see `Fitted.recommend`. Workers answer for their units."""
        best = super().recommend(coordinates, wanted)
        return self._with_answers("recommend", best, coordinates, wanted)

    def _item_vectors(self) -> np.ndarray:
        # No row of a unit is read: the prior says how units differ.
        people = self.model.directions(self.domain.scale)
        return item_vectors(people, 1 + (self.unit > 0), people.means[0][-1])

    def dense(self) -> np.ndarray:
        """Predict all values; see `Fitted.dense`."""
        self.warn_of_lost_rows(np.zeros((1, len(self.shape))))
        return super().dense()

    def _with_answers(
        self, method: str, answers: np.ndarray, coordinates: np.ndarray, *wanted: Wanted
    ) -> np.ndarray:
        """Let the workers answer for the units whose entries they have."""
        local, units = self.local, coordinates[:, self.unit]
        if local.elsewhere is not None:
            asked = np.flatnonzero((units >= 0) & ~np.isin(units, local.units))
            each = (one.at(asked) for one in wanted)
            found = local.elsewhere.answers(
                self.shared, method, coordinates[asked], *each
            )
            for places, own_answers in found:
                answers[asked[places]] = own_answers
        return answers

    def warn_of_lost_rows(self, coordinates: np.ndarray) -> None:
        """Warn once if the rows of units at these coordinates were lost in a copy."""
        if np.any(coordinates[:, self.unit] >= 0):
            self.local.warn_if_lost(
                "This model was deep-copied or pickled. The rows of units are never "
                "pickled or deep-copied, so all units are treated as unknown. To "
                "restore them, call fold_in(X, y) with all of their entries."
            )

    def with_units(self, entries: UnitEntries) -> Self:
        """Compute the rows of units.

        Parameters
        ----------
        entries : UnitEntries
            All entries of these units.

        Returns
        -------
        fitted : FittedToUnits
            The same model with these rows.
        """
        # In chunks, so that the regressors of only one chunk are in memory at a time.
        solved = (self.model.solve(chunk).rows for chunk in entries.chunks())
        rows = np.concatenate([self.model.no_rows, *solved])
        where = entries.coordinates(self.unit)
        local = self.local.replaced(entries.units, rows, where, self.unit)
        return replace(self, local=local)

    def with_units_elsewhere(self, units: UnitsElsewhere) -> Self:
        """Let units elsewhere, whose rows are not here, answer for themselves."""
        return replace(self, local=LocalRows(elsewhere=units))

    def fold_in(self, entries: Entries) -> Self:
        """Compute the rows of these units; `entries` holds all of their entries."""
        return self.with_units(entries.by_unit(self.domain, self.unit))


def fitted_to(
    entries: EntrySource[Any] | Entries,
    data: object,
    problem: Problem,
    outcome: Outcome,
    perturbation: str,
    guarantee: PrivacyGuarantee,
) -> Fitted:
    """The result of a fit.

    Parameters
    ----------
    entries : object
        The entries that were fitted; see `observed_entries`.
    data : object
        The entries as the measurement read them: grouped by unit if units are
        protected.
    problem : Problem
    outcome : Outcome
    perturbation : str
    guarantee : PrivacyGuarantee
    """
    kept: dict[str, Any] = {
        "model": outcome.model,
        "offset": outcome.offset,
        "shape": entries.shape,
        "domain": outcome.domain or problem.domain,
        "form": problem.form,
        "perturbation": perturbation,
        "n_iter": outcome.n_iter,
        "residual_variance": outcome.residual_variance,
        "noise_of_value": outcome.noise_of_value,
        "has_estimated_variance": outcome.has_estimated_variance,
        "is_dense": entries.is_dense,
        "n_uses": 1,
        "guarantee_of_call": guarantee,
        "columns": getattr(entries, "columns", None),
    }
    if problem.entries is not None:
        kept_values = () if outcome.kept_values is None else (outcome.kept_values,)
        observed = cast("Entries", entries)  # or partitions, which have the same
        fitted = Fitted(
            observed=observed.observed,
            noisy=kept_values,
            is_personal=problem.is_personal,
            **kept,
        )
        return fitted.with_all_own(observed) if problem.is_personal else fitted
    # The coordinates of a protected unit are private too.
    return entries.with_rows_of(data, FittedToUnits(observed=(), **kept))


def _worse(first: PrivacyGuarantee, second: PrivacyGuarantee) -> PrivacyGuarantee:
    """Guarantee of two releases of disjoint entries: that of the weaker one."""
    from ..privacy.accounting._events import PureDpEvent

    worse = first if first.epsilon >= second.epsilon else second
    worse = worse.with_conditions(*first.conditions, *second.conditions)
    if first.event == second.event or math.isinf(worse.epsilon):
        return worse
    # At a smaller epsilon, the other release may have the larger delta.
    return replace(worse, event=PureDpEvent(worse.epsilon))


def _repeated(guarantee: PrivacyGuarantee, times: int) -> PrivacyGuarantee:
    """Guarantee of `times` releases, each with the given guarantee."""
    from dp_accounting import dp_event

    if times == 1:
        return guarantee
    return guarantee.derived(
        dp_event.SelfComposedDpEvent(guarantee.event, times),
        statement=(
            f"{guarantee.statement} Some coordinates were passed in {times} calls, "
            "each of which released a randomised value for them."
        ),
        source=f"{guarantee.source}; sequential composition",
        claimed=guarantee.claimed,
    )


@contextmanager
def keeping_names_if_refused(estimator: BaseEstimator) -> Iterator[None]:
    """Restore the feature names of an earlier fit if the new fit is refused."""
    names, attributes = {"n_features_in_", "feature_names_in_"}, vars(estimator)
    before = {name: attributes[name] for name in names & attributes.keys()}
    fitted = attributes.get("_fitted")
    try:
        yield
    finally:
        # If the release was admitted, it has replaced at least `_fitted`.
        attributes = vars(estimator)
        if fitted is not None and attributes.get("_fitted") is fitted:
            for name in names - before.keys():
                attributes.pop(name, None)
            attributes.update(before)


def released_model(completion: Any) -> Any:
    """The model that a fitted completion has released, without users' own rows."""
    return completion._fitted.released


def released_n_units(completion: Any) -> float:
    """The noisy number of units that a fitted completion has released."""
    return float(completion._fitted.model.n_units)
