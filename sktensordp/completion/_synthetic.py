"""Synthetic users, drawn only from what a fit has released.

The number of a user's items is drawn from the released histogram. The items are then
drawn one after the other, without repetition: by weight, or by their similarity to the
items before. The weights and similarities are fitted to what was released, on users
drawn with fixed seeds. So a table is a function of the releases and of the caller's
seed.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from .._validation import (
    LARGEST_INDEX,
    as_numpy,
    check_integer,
    check_noise_seed,
)
from ..tensor._shared_rows import expected_counts
from ._domain import Domain
from .measurements.units._cooccurrence import ItemSums
from .measurements.units._item_model import ItemModel, product_weights
from .measurements.units._population import Population
from .measurements.units._shared_model import SharedModel

# Number of rounds of the fit of a sampler; number of the last rounds, which fit only
# counts; and number of items drawn in each round.
_ROUNDS, _ROUNDS_OF_COUNTS, _N_DRAWN = 48, 12, 100_000
# Largest share of the items that are drawn by weight. A fit begins with it.
_MOST_BY_WEIGHT = 0.2
# Number of uniform numbers that are in memory at once.
_N_AT_ONCE = 2**20


@dataclass(frozen=True, eq=False)
class _Draws:
    """How items are drawn; see `draw_items`."""

    weights: NDArray[np.float64]
    factors: NDArray[np.float64]
    similarity: NDArray[np.float32]
    by_weight: float


@dataclass(frozen=True, eq=False)
class UserSampler:
    """Draws users' items.

    Attributes
    ----------
    population : Population
    error : float
        Standard deviation of the noise in the model's counts; 0 takes the counts as
        they are. Each item of a user with n items counts 1 / sqrt(max(n, least_size)).
    least_size : float
    model : ItemModel
    """

    population: Population
    error: float
    least_size: float
    model: ItemModel

    @classmethod
    def of_choices(cls, sums: ItemSums, model: ItemModel) -> Self:
        """The sampler of a model of choices."""
        return cls(sums.population, sums.counts_noise, 1.0, model)

    @classmethod
    def of_entries(cls, population: Population, counts: NDArray[np.float64]) -> Self:
        """The sampler of the items of ratings, whose similarities are unknown."""
        size = population.typical_size
        return cls(population, 0.0, size, ItemModel.from_counts(counts))

    @property
    def n_items(self) -> int:
        """Number of items in the catalogue."""
        return len(self.model.counts)

    def sizes(
        self,
        n_users: int,
        items_per_user: NDArray[np.int64] | None,
        rng: np.random.Generator,
    ) -> NDArray[np.int64]:
        """Draw users' numbers of items: from those given, or the released histogram."""
        if items_per_user is not None:
            return rng.choice(items_per_user, n_users)
        cumulative = np.cumsum(self._chances)
        drawn = np.searchsorted(cumulative, rng.random(n_users), side="right")
        return np.minimum(drawn + 1, self.n_items)

    def draw(
        self, sizes: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.int32]:
        """Draw each user's items, as many as `sizes` says, distinct and ascending."""
        starts = np.append(0, np.cumsum(sizes))
        # Only the uniform numbers of some users are in memory at a time.
        ends = np.searchsorted(starts, np.arange(0, starts[-1], _N_AT_ONCE))
        parts = [
            self._drawn(self._fitted, sizes[first:last], rng)[0]
            for first, last in pairwise(np.unique([*ends, len(sizes)]))
        ]
        items = np.concatenate(parts)
        return items[np.lexsort((items, np.repeat(np.arange(len(sizes)), sizes)))]

    @cached_property
    def _chances(self) -> NDArray[np.float64]:
        return self.population.chances(self.n_items)

    @cached_property
    def _rates(self) -> NDArray[np.float64]:
        """Counts per user. Rare items share the choices that the other items leave."""
        counts = self.model.counts
        # Counts above this many standard deviations are taken as they are.
        is_rare = counts <= 3 * self.error
        expected = expected_counts(counts, self.error)
        rates = np.where(is_rare, expected, counts)
        rates /= self.population.n_users
        sizes = np.arange(1, self.n_items + 1)
        whole = self._chances @ (sizes / np.sqrt(np.maximum(sizes, self.least_size)))
        left, rare = whole - rates[~is_rare].sum(), rates[is_rare].sum()
        if left > 0 and rare > 0:
            rates[is_rare] *= left / rare
        return np.maximum(rates, 1e-9 * max(float(rates.max()), 1e-300))

    @cached_property
    def _place(self) -> NDArray[np.int32]:
        place = np.full(self.n_items, -1, np.int32)
        place[self.model.items] = np.arange(len(self.model.items))
        return place

    @cached_property
    def _fitted(self) -> _Draws:
        """The draws whose counts and products agree best with the released ones."""
        model, rates = self.model, self._rates
        draws = _Draws(
            rates / rates.sum(),
            np.ones(len(model.items)),
            model.similarity.astype(np.float32),
            _MOST_BY_WEIGHT,
        )
        rng = np.random.default_rng(0)
        mean = float(self._chances @ np.arange(1, self.n_items + 1))
        n_users, n_pairs = math.ceil(_N_DRAWN / mean), len(model.products)
        n_rounds = _ROUNDS if n_pairs else _ROUNDS_OF_COUNTS
        for number in range(n_rounds):
            # The first twelve steps are whole; later steps become shorter.
            sizes, step = self.sizes(n_users, None, rng), min(1.0, 12 / (1 + number))
            drawn, counts = self._drawn(draws, sizes, rng, counts=True)
            counts *= rates.sum() / counts.sum()
            change = np.clip(rates / np.maximum(counts, 1e-300), 0.25, 4.0)
            change **= max(step, 0.3)
            weights = draws.weights * change
            weights = np.maximum(weights / weights.sum(), 1e-9 / self.n_items)
            factors = draws.factors * change[model.items]
            draws = replace(draws, weights=weights, factors=factors)
            if n_pairs and number < n_rounds - _ROUNDS_OF_COUNTS:
                starts = np.append(0, np.cumsum(sizes))
                products = products_of(model, self._place, starts, drawn)
                draws = _closer(draws, model, products, step)
        return draws

    def _drawn(
        self,
        draws: _Draws,
        sizes: NDArray[np.int64],
        rng: np.random.Generator,
        *,
        counts: bool = False,
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Draw items; if requested, also compute their expected counts per user."""
        from ..tensor.kernels._drawn import draw_items

        starts = np.append(0, np.cumsum(sizes))
        items = np.empty(starts[-1], np.int32)
        of_head = np.zeros(len(self.model.items))
        of_all = np.zeros(self.n_items if counts else 0)
        common = draw_items(
            starts,
            rng.random((len(items), 2)),
            draws.weights,
            np.cumsum(draws.weights),
            self._place,
            self.model.items.astype(np.int32),
            draws.factors.astype(np.float32),
            draws.similarity,
            draws.by_weight,
            1 / np.sqrt(np.maximum(sizes, self.least_size)),
            items,
            of_head,
            of_all,
        )
        if counts:
            of_all += common * draws.weights
            of_all[self.model.items] += of_head
            of_all /= len(sizes)
        return items, of_all


def products_of(
    model: ItemModel,
    place: NDArray[np.int32],
    starts: NDArray[np.int64],
    items: NDArray[Any],
) -> NDArray[np.float64]:
    """The products of a model's pairs for some users, given the place of each item."""
    rows = place[items]
    kept = rows >= 0
    starts = np.append(0, np.cumsum(kept))[starts]
    q, sizes = model.shares, np.diff(starts)
    chosen = sparse.csr_array(
        (np.ones(starts[-1]), rows[kept], starts), shape=(len(sizes), len(q))
    )
    weights = product_weights(chosen, q)
    weighted = sparse.csr_array(chosen * weights[:, np.newaxis])
    left, right = model.pairs
    both = (weighted.T @ chosen)[left, right]
    along = weighted.T @ sizes
    everything = np.sum(weights * sizes.astype(float) ** 2)
    found = both - q[left] * along[right] - q[right] * along[left]
    return (found + q[left] * q[right] * everything) / len(sizes)


def _closer(
    draws: _Draws, model: ItemModel, products: NDArray[np.float64], step: float
) -> _Draws:
    """Move draws towards the released products, given those of drawn users."""
    wanted = model.products
    slope = float((products @ wanted) / (wanted @ wanted))
    by_similarity = (1 - draws.by_weight) * max(slope, 0.2) ** -step
    by_weight = np.clip(1 - by_similarity, 0.02, _MOST_BY_WEIGHT)
    # Products of a smaller share of users hardly move.
    least = 2e-4
    ratio = (wanted + least) / (np.maximum(products, 0.0) + least)
    change = 0.3 * step * np.log(np.clip(ratio, 0.5, 2.0))
    similarity = draws.similarity.copy()
    for left, right in (model.pairs, model.pairs[::-1]):
        start = np.abs(model.similarity[left, right])
        # Smaller similarities move as much as this one.
        similarity[left, right] += change * np.maximum(start, 0.05)
    return replace(draws, similarity=similarity, by_weight=float(by_weight))


@dataclass(frozen=True)
class Request:
    """The checked arguments of `sample_users`.

    Attributes
    ----------
    n_users : int
    items_per_user : ndarray of int or None
        Public numbers of items to draw from.
    rng : numpy.random.Generator
    """

    n_users: int
    items_per_user: NDArray[np.int64] | None
    rng: np.random.Generator

    @classmethod
    def from_arguments(
        cls,
        n_users: int | None,
        items_per_user: ArrayLike | None,
        random_state: int | None,
        population: Population,
        n_items: int,
    ) -> Self:
        """Check the arguments of `sample_users`.

        Raises
        ------
        ValueError
            If one is out of range.
        """
        if n_users is None:
            n_users = max(round(population.n_users), 1)
        n_users = check_integer(n_users, "n_users", 1, LARGEST_INDEX)
        check_noise_seed(random_state)
        if items_per_user is not None:
            items_per_user = as_numpy(items_per_user, "items_per_user")
            are_integers = (
                items_per_user.ndim == 1 and items_per_user.dtype.kind in "iu"
            )
            if not are_integers or not items_per_user.size:
                raise ValueError(
                    "items_per_user must be a list of integers, such as [3, 5]."
                )
            if items_per_user.min() < 1 or items_per_user.max() > n_items:
                raise ValueError(
                    f"items_per_user must be between 1 and the number of items, "
                    f"{n_items}."
                )
            items_per_user = items_per_user.astype(np.int64)
        seed = None if random_state is None else int(random_state)
        return cls(n_users, items_per_user, np.random.default_rng(seed))


def sample_choices(sampler: UserSampler, request: Request) -> NDArray[np.int64]:
    """Draw choices: a user and an item in every row."""
    sizes = sampler.sizes(request.n_users, request.items_per_user, request.rng)
    users = np.repeat(np.arange(len(sizes)), sizes)
    return np.column_stack([users, sampler.draw(sizes, request.rng)])


def sample_entries(
    model: SharedModel, domain: Domain, request: Request
) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """Draw entries of users: coordinates and values."""
    assert model.population is not None
    rng = request.rng
    sampler = UserSampler.of_entries(model.population, model.counts[0])
    choices = sample_choices(sampler, request)
    columns = [choices]
    for counts in model.counts[1:]:
        cumulative = np.cumsum(np.maximum(counts, 1e-9 * max(counts.max(), 1e-300)))
        at = rng.random(len(choices)) * cumulative[-1]
        drawn = np.searchsorted(cumulative, at, side="right")
        columns.append(np.minimum(drawn, len(counts) - 1)[:, np.newaxis])
    where = np.concatenate(columns, axis=1)
    rows = rng.standard_normal((request.n_users, model.no_rows.shape[1]))
    rows *= model.prior_deviations
    values = np.empty(len(where))
    for start in range(0, len(where), _N_AT_ONCE // 8):
        part = slice(start, start + _N_AT_ONCE // 8)
        users, others = where[part, 0], where[part, 1:]
        values[part] = model.baseline(others)
        values[part] += np.sum(model.regressors(others) * rows[users], axis=1)
    values += math.sqrt(model.noise) * rng.standard_normal(len(values))
    return where, domain.clip(domain.middle + domain.scale * values)
