"""Design of a randomised response: the moves of levels, and how often one is kept."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from ..privacy import gaussian_mu
from ..privacy.accounting._randomized_response import (
    LevelDistribution,
    optimal_composition_delta,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# The largest budget spent on one entry: more would be indistinguishable from certainty.
_LARGEST = 20.0
_SMALLEST = 1e-9
# Sum of the integer weights of a row of moves; unit of the probability of keeping.
_TOTAL, _KEEP_UNIT = 2**60, 2.0**-52
_RATE_UNIT = 2.0**-44
# Relative error of the floating-point probabilities of the moves.
_ROUNDING = 1e-13
# Entries with different weights are accounted for in at most this many groups, each by
# the entry that is kept most often.
_MOST_GROUPS = 6
# Largest bias that rounding may leave, as a share of the number of levels. More means
# that the outputs could not be solved for.
_UNBIASED = 1e-7
_SHARES = np.linspace(0.0, 1.0, 13)


@dataclass(frozen=True, eq=False)
class LevelDesign:
    """A randomised response for the entries of a sample, its budget and its error.

    Entries with the same weight are of one kind.

    Attributes
    ----------
    distribution : LevelDistribution
        Distribution of the moves of a level that is not kept.
    keep : float
        Probability of keeping an entry of weight 0.
    shares : ndarray of shape (n_kinds,)
        1 - weight, for each kind of entry.
    counts : ndarray of shape (n_kinds,), int
        Number of entries of each kind in a sample.
    debias : bool
        Whether each output is replaced by a number that makes the mean of the release
        the true level.
    """

    distribution: LevelDistribution
    keep: float
    shares: np.ndarray
    counts: np.ndarray
    debias: bool

    @property
    def keeps(self) -> NDArray[np.float64]:
        """Probability of keeping an entry of each kind: a multiple of 2^-52."""
        return np.floor(self.keep * self.shares / _KEEP_UNIT) * _KEEP_UNIT

    @cached_property
    def _moves(self) -> NDArray[np.float64]:
        return self.distribution.moves()

    @cached_property
    def _rounded(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Weights of the moves, rounded down, and the shortfall of each row's sum."""
        weights = np.floor(self._moves * float(_TOTAL)).astype(np.int64)
        return weights, _TOTAL - weights.sum(axis=1)

    @property
    def moves(self) -> NDArray[np.int64] | None:
        """Integer weights of the moves, with equal row sums; None for "geometric"."""
        if self.distribution.noise == "geometric":
            return None
        weights, rest = self._rounded
        weights = weights.copy()
        weights[np.arange(len(weights)), np.argmax(weights, axis=1)] += rest
        return weights

    @property
    def residual(self) -> float:
        """Largest |log ratio| of an integer weight to the exact one."""
        if self.distribution.noise == "geometric":
            return 0.0
        weights, rest = self._rounded
        least = float(weights.min())
        if least < 2**10:
            return math.inf
        # Weights are rounded down by less than 1; the largest of a row takes the rest.
        largest = np.abs(rest) / weights.max(axis=1)
        return _ROUNDING + 2 * max(1 / least, float(largest.max()))

    @property
    def event(self) -> "DpEvent":
        """Event of the release of a whole sample."""
        from dp_accounting import dp_event

        from ..privacy.accounting._events import (
            RandomizedResponseDpEvent,
            SamplerResidualDpEvent,
        )

        keeps, group = self.keeps, _group_numbers(self.shares)
        group_events = [
            dp_event.SelfComposedDpEvent(
                RandomizedResponseDpEvent(
                    self.distribution, float(keeps[group == g].max())
                ),
                int(self.counts[group == g].sum()),
            )
            for g in np.unique(group)
        ]
        residual = self.residual * int(self.counts.sum())
        return dp_event.ComposedDpEvent(
            [*group_events, SamplerResidualDpEvent(residual, 0.0)]
        )

    def keeps_budget(self, epsilon: float, delta: float) -> bool:
        """Whether the release of a whole sample is (epsilon, delta)-DP."""
        from ..privacy.accounting._curves import event_epsilon

        if self.excess(epsilon, delta) > 0:
            return False
        return event_epsilon(self.event, delta) <= epsilon

    def excess(self, epsilon: float, delta: float) -> float:
        """By how much the release of a whole sample exceeds (epsilon, delta)-DP.

        At most 0 if it keeps the budget; continuous in the parameters of the design.
        """
        from ..privacy.accounting._curves import event_delta, event_epsilon

        if not math.isfinite(self.residual):
            return math.inf
        if delta == 0:
            return event_epsilon(self.event, 0.0) - epsilon
        return math.log(max(event_delta(self.event, epsilon), 1e-300) / delta)

    @cached_property
    def outputs(self) -> NDArray[np.float64]:
        """Released number of each output level, by kind: shape (n_kinds, n_levels).

        The numbers h solve Q h = (0, ..., k - 1), where row i of the channel Q holds
        the probabilities of the outputs of level i. The moves are D^-1 K with K
        symmetric and D diagonal, so that one decomposition of D^-1/2 K D^-1/2 serves
        all kinds, whatever their probability of keeping.
        """
        levels = np.arange(self.distribution.n_levels, dtype=float)
        if not self.debias:
            return np.broadcast_to(levels, (self.shares.size, levels.size))
        moves = self._moves
        root = np.sqrt(np.diag(moves))  # D^-1/2 up to a factor
        values, vectors = np.linalg.eigh(moves / root[:, None] * root)
        keeps = self.keeps[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            h = (vectors.T @ (levels / root)) / (keeps + (1 - keeps) * values)
            return root * (h @ vectors.T)

    def moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and variance of the release of each level, by kind, in levels.

        Returns
        -------
        means, variances : ndarray of shape (n_kinds, n_levels)
        """
        levels = np.arange(self.distribution.n_levels, dtype=float)
        keeps = self.keeps[:, None]
        if self.distribution.noise == "geometric":
            spread = 0.5 / math.sinh(self.distribution.rate / 2) ** 2
            means = np.broadcast_to(levels, (keeps.size, levels.size))
            return means, np.broadcast_to((1 - keeps) * spread, means.shape)
        moves, outputs = self._moves, self.outputs
        with np.errstate(invalid="ignore", over="ignore"):
            means = keeps * outputs + (1 - keeps) * (outputs @ moves.T)
            # Centring avoids cancellation.
            middle = outputs.mean(axis=1, keepdims=True)
            squares = (outputs - middle) ** 2
            squares = keeps * squares + (1 - keeps) * (squares @ moves.T)
            return means, squares - (means - middle) ** 2

    def errors(self) -> NDArray[np.float64]:
        """Expected squared error of the release of each level, by kind.

        Infinite if the outputs cannot be debiased.
        """
        means, variances = self.moments()
        bias = np.abs(means - np.arange(self.distribution.n_levels))
        if self.debias and not bias.max() < _UNBIASED * self.distribution.n_levels:
            return np.full(means.shape, math.inf)
        return variances + bias**2


def design_levels(
    noise: str,
    n_levels: int,
    shares: NDArray[np.float64],
    counts: NDArray[np.int64],
    debias: bool,
    epsilon: float,
    delta: float,
    keep: float | None = None,
    rate: float | None = None,
) -> LevelDesign:
    """Randomised response of least expected squared error for a sample's budget.

    Parameters
    ----------
    noise : {"laplace", "gaussian", "geometric", "wrapped"}
    n_levels : int
    shares : ndarray of shape (n_kinds,)
        1 - weight, for each kind of entry.
    counts : ndarray of shape (n_kinds,), int
        Number of entries of each kind.
    debias : bool
    epsilon, delta : float
        Budget of the whole sample.
    keep : float, default=None
        Probability of keeping an entry of weight 0. None chooses it.
    rate : float, default=None
        Rate of the distribution of the moves. None chooses it.

    Returns
    -------
    design : LevelDesign

    Raises
    ------
    ValueError
        If `keep` or `rate` do not fit into the budget, the budget is too small to be
        represented, or the moves cannot be debiased.
    """

    def design(
        keep: float,
        rate: float,
        shares: NDArray[np.float64] = shares,
        counts: NDArray[np.int64] = counts,
    ) -> LevelDesign:
        if noise == "geometric":
            # The sampler takes the rate as a fraction of integers.
            rate = max(math.floor(rate / _RATE_UNIT), 1) * _RATE_UNIT
        distribution = LevelDistribution(noise, n_levels, rate)
        return LevelDesign(distribution, keep, shares, counts, debias)

    def largest(
        make: Callable[[float], LevelDesign], start: float
    ) -> LevelDesign | None:
        return _largest_in_budget(make, start, epsilon, delta)

    if epsilon < _SMALLEST:
        raise ValueError(f"epsilon = {epsilon} is too small to be represented.")
    span = LevelDistribution.span_of(noise, n_levels)
    best: LevelDesign | None
    if keep is not None and rate is not None:
        best = design(keep, rate)
        best = best if best.keeps_budget(epsilon, delta) else None
    elif rate is not None:
        best = largest(lambda odds: design(odds / (1 + odds), rate), math.exp(_LARGEST))
    elif keep is not None:
        best = largest(lambda rate: design(keep, rate), _LARGEST / span)
    else:

        def shared(share: float, budget: float, *kinds: NDArray[Any]) -> LevelDesign:
            """Spend `share` of an entry's budget on the moves, the rest on keeping."""
            rate = share * budget / span
            keep = design(0.0, rate).distribution.keep(budget)
            return design(keep, rate, *kinds)

        kinds = _group_averages(shares, counts)
        best = _best_share(shared, noise, n_levels, kinds, epsilon, delta)
    if best is None:
        parameters = {"keep_probability": keep, "scale": rate}
        given = [name for name, value in parameters.items() if value is not None]
        raise ValueError(
            f"No randomised response with this {' and '.join(given) or 'n_levels'} "
            f"keeps epsilon = {epsilon} and delta = {delta} for {counts.sum()} entries."
        )
    if not np.all(np.isfinite(best.errors())):
        raise ValueError(
            "The bias of these moves cannot be removed. Pass smaller weights, another "
            "noise or scale, or debias=False."
        )
    return best


def _group_numbers(shares: NDArray[np.float64]) -> NDArray[np.integer]:
    """Number of the group in which each kind of entry is accounted for."""
    if shares.size <= _MOST_GROUPS:
        return np.arange(shares.size)
    return np.ceil(shares * (_MOST_GROUPS / shares.max())).astype(int)


def _group_averages(
    shares: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Average share and number of entries of each group."""
    numbers, group = np.unique(_group_numbers(shares), return_inverse=True)
    totals = np.bincount(group, counts, numbers.size)
    return np.bincount(group, counts * shares, numbers.size) / totals, totals


def _largest_in_budget(
    make: Callable[[float], LevelDesign], start: float, epsilon: float, delta: float
) -> LevelDesign | None:
    """Design with the largest parameter up to `start` in the budget; None if none."""

    def excess(log_parameter: float) -> float:
        return make(math.exp(log_parameter)).excess(epsilon, delta)

    high = math.log(start)
    if make(start).keeps_budget(epsilon, delta):
        return make(start)
    for low in high - math.log(2) * np.arange(1, 80):
        if excess(low) <= 0:
            break
        high = low
    else:
        return None
    root = brentq(lambda x: np.clip(excess(x), -50, 50), low, high, xtol=1e-6)
    for shortfall in (0.0, *1e-6 * 2.0 ** np.arange(20)):
        design = make(math.exp(root - shortfall))
        if design.keeps_budget(epsilon, delta):
            return design
    return None


def _best_share(
    shared: Callable[..., LevelDesign],
    noise: str,
    n_levels: int,
    kinds: tuple[NDArray[np.float64], NDArray[Any]],
    epsilon: float,
    delta: float,
) -> LevelDesign | None:
    """Design of least error over the share of the budget that the moves get.

    The budget of an entry depends on the distribution of the moves. To choose the
    share, we take the budget once from the optimal composition theorem, which holds
    for every distribution, and once from the Gaussian limit of the privacy losses.
    Each choice is then enlarged until it spends the budget exactly.
    """
    n_entries = int(kinds[1].sum())
    theorem_budget = min(_theorem_budget(n_entries, epsilon, delta), _LARGEST)

    def by_theorem(share: float) -> float:
        return theorem_budget

    def by_limit(share: float) -> float:
        return _limit_budget(shared, share, n_entries, epsilon, delta)

    rules = [by_theorem, by_limit] if delta else [by_theorem]
    designs = []
    for rule in rules:

        def error(share: float, rule: Callable[[float], float] = rule) -> float:
            return _total_error(shared(share, rule(share), *kinds))

        grid = _SHARES[1:] if noise == "geometric" else _SHARES
        if n_levels == 2 and noise != "geometric":
            # All shares give the same distribution; with share 0, weights matter.
            grid = grid[:1]
        errors = [error(share) for share in grid]
        i = int(np.argmin(errors))
        ends = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
        best = minimize_scalar(
            error, bounds=ends, method="bounded", options={"xatol": 1e-3}
        )
        share = float(best.x) if best.fun < errors[i] else float(grid[i])
        start = min(4 * rule(share), _LARGEST)
        design = _largest_in_budget(partial(shared, share), start, epsilon, delta)
        if design is not None:
            designs.append(design)
    return min(designs, key=_total_error, default=None)


def _total_error(design: LevelDesign) -> float:
    """Largest expected squared error of a sample."""
    return float(design.counts @ design.errors().max(axis=1))


def _theorem_budget(n_entries: int, epsilon: float, delta: float) -> float:
    """Pure epsilon of an entry by the optimal composition theorem."""
    least = epsilon / n_entries
    if delta == 0:
        return least

    def excess(log_budget: float) -> float:
        composed = optimal_composition_delta(math.exp(log_budget), n_entries, epsilon)
        return math.log(max(composed, 1e-300) / delta)

    low = math.log(least)
    if excess(low) >= 0:
        return least
    high = low + 1
    while excess(high) < 0:
        high += 1
    return math.exp(brentq(excess, low, high))


def _limit_budget(
    shared: Callable[..., LevelDesign],
    share: float,
    n_entries: int,
    epsilon: float,
    delta: float,
) -> float:
    """Pure epsilon of an entry by the Gaussian limit of its privacy losses.

    The symmetric Kullback-Leibler divergence of Gaussian noise is mu^2.
    """
    target = gaussian_mu(epsilon, delta) ** 2 / n_entries

    def excess(log_budget: float) -> float:
        design = shared(share, math.exp(log_budget))
        first, last = design.distribution.extreme_pair(design.keep)
        return math.log((first - last) @ np.log(first / last) / target)

    high = math.log(_LARGEST)
    if excess(high) <= 0:
        return _LARGEST
    # The divergence is at most the square of the pure epsilon.
    low = min(math.log(target) / 2, high) - 1
    return math.exp(brentq(excess, low, high, xtol=1e-6))
