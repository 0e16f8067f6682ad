"""How to randomise levels within a budget: which law, which probability of keeping."""

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

__all__ = ["LevelDesign", "design_levels"]

# A larger budget is not spent on one entry: it would not be told from certainty.
_LARGEST = 20.0
_SMALLEST = 1e-9
# Weights of the table of moves. The probability of keeping is a multiple of 2^-52.
_TOTAL, _KEEP_UNIT = 2**60, 2.0**-52
_RATE_UNIT = 2.0**-44
# Relative error of the probabilities of the moves as floating-point numbers.
_ROUNDING = 1e-13
# Entries with different weights are accounted for in so many groups at most, each by
# the entry that is kept most often.
_MOST_GROUPS = 6
# Bias that rounding leaves, in levels; more means that a system could not be solved.
_UNBIASED = 1e-7
_SHARES = np.linspace(0.0, 1.0, 13)


@dataclass(frozen=True, eq=False)
class LevelDesign:
    """A law for the levels of every entry, and what comes of it.

    Attributes
    ----------
    law : LevelDistribution
        How a level moves that is not kept.
    keep : float
        Probability of keeping an entry of weight 0.
    shares : ndarray of shape (n_kinds,)
        1 - weight, of every kind of entry.
    counts : ndarray of shape (n_kinds,), int
        How many entries of a sample are of each kind.
    debias : bool
        Whether the output stands for another number than its level, so that its mean is
        the level.
    """

    distribution: LevelDistribution
    keep: float
    shares: np.ndarray
    counts: np.ndarray
    debias: bool

    @property
    def keeps(self) -> NDArray[np.float64]:
        """Probability of keeping, of every kind: multiples of 2^-52."""
        return np.floor(self.keep * self.shares / _KEEP_UNIT) * _KEEP_UNIT

    @cached_property
    def _moves(self) -> NDArray[np.float64]:
        return self.distribution.moves()

    @cached_property
    def _rounded(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Weights of the moves rounded down, and what each row lacks."""
        weights = np.floor(self._moves * float(_TOTAL)).astype(np.int64)
        return weights, _TOTAL - weights.sum(axis=1)

    @property
    def moves(self) -> NDArray[np.int64] | None:
        """Integer weights of the moves, of a common sum; None for "geometric"."""
        if self.distribution.noise == "geometric":
            return None
        weights, rest = self._rounded
        weights = weights.copy()
        weights[np.arange(len(weights)), np.argmax(weights, axis=1)] += rest
        return weights

    @property
    def residual(self) -> float:
        """Largest |log ratio| of an integer weight to what it stands for."""
        if self.distribution.noise == "geometric":
            return 0.0
        weights, rest = self._rounded
        least = float(weights.min())
        if least < 2**10:
            return math.inf
        # Rounded down by less than one; the largest weight of a row takes the rest.
        largest = np.abs(rest) / weights.max(axis=1)
        return _ROUNDING + 2 * max(1 / least, float(largest.max()))

    @property
    def event(self) -> "DpEvent":
        """What the release of a whole sample does."""
        from dp_accounting import dp_event

        from ..privacy.accounting._events import (
            RandomizedResponseDpEvent,
            SamplerResidualDpEvent,
        )

        keeps, group = self.keeps, _groups(self.shares)
        parts = [
            dp_event.SelfComposedDpEvent(
                RandomizedResponseDpEvent(
                    self.distribution, float(keeps[group == g].max())
                ),
                int(self.counts[group == g].sum()),
            )
            for g in np.unique(group)
        ]
        total = self.residual * int(self.counts.sum())
        return dp_event.ComposedDpEvent([*parts, SamplerResidualDpEvent(total, 0.0)])

    def keeps_budget(self, epsilon: float, delta: float) -> bool:
        """Whether the release of a whole sample is (epsilon, delta)-DP, both ways."""
        from ..privacy.accounting._curves import event_epsilon

        if self.excess(epsilon, delta) > 0:
            return False
        return event_epsilon(self.event, delta) <= epsilon

    def excess(self, epsilon: float, delta: float) -> float:
        """How far the release of a whole sample is beyond (epsilon, delta)-DP.

        At most 0 where it keeps that; continuous in the parameters of the design.
        """
        from ..privacy.accounting._curves import event_delta, event_epsilon

        if not math.isfinite(self.residual):
            return math.inf
        if delta == 0:
            return event_epsilon(self.event, 0.0) - epsilon
        return math.log(max(event_delta(self.event, epsilon), 1e-300) / delta)

    @cached_property
    def outputs(self) -> NDArray[np.float64]:
        """What an output stands for, in levels, by kind: (n_kinds, n_levels).

        With Q the channel (rows: inputs) they solve Q h = (0, ..., k - 1). The moves
        are D^-1 K with K symmetric and D diagonal, so that one decomposition of
        D^-1/2 K D^-1/2 serves the probabilities of keeping of all kinds.
        """
        levels = np.arange(self.distribution.n_levels, dtype=float)
        if not self.debias:
            return np.broadcast_to(levels, (self.shares.size, levels.size))
        moves = self._moves
        root = np.sqrt(np.diag(moves))  # D^-1/2, but for a factor
        values, vectors = np.linalg.eigh(moves / root[:, None] * root)
        keeps = self.keeps[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            h = (vectors.T @ (levels / root)) / (keeps + (1 - keeps) * values)
            return root * (h @ vectors.T)

    def moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and variance of what is released of each level, by kind, in levels.

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
            # Around the mean of all, so that little cancels.
            middle = outputs.mean(axis=1, keepdims=True)
            squares = (outputs - middle) ** 2
            squares = keeps * squares + (1 - keeps) * (squares @ moves.T)
            return means, squares - (means - middle) ** 2

    def errors(self) -> NDArray[np.float64]:
        """Expected squared error of what is released of each level, by kind.

        Infinite where no output has the level as its mean.
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
    """Law of least expected squared error for a sample under a budget.

    Parameters
    ----------
    noise : {"laplace", "gaussian", "geometric", "wrapped"}
    n_levels : int
    shares : ndarray of shape (n_kinds,)
        1 - weight, of every kind of entry.
    counts : ndarray of shape (n_kinds,), int
        Entries of each kind.
    debias : bool
    epsilon, delta : float
        Budget of the whole sample.
    keep : float, default=None
        Probability of keeping an entry of weight 0, if it is given.
    rate : float, default=None
        Rate of the law, if it is given.

    Returns
    -------
    design : LevelDesign

    Raises
    ------
    ValueError
        If what is given does not fit into the budget, or the budget is too small or
        its moves too rare to be represented.
    """

    def design(
        keep: float,
        rate: float,
        shares: NDArray[np.float64] = shares,
        counts: NDArray[np.int64] = counts,
    ) -> LevelDesign:
        if noise == "geometric":
            # Its sampler takes fractions of integers.
            rate = max(math.floor(rate / _RATE_UNIT), 1) * _RATE_UNIT
        distribution = LevelDistribution(noise, n_levels, rate)
        return LevelDesign(distribution, keep, shares, counts, debias)

    def largest(
        make: Callable[[float], LevelDesign], start: float
    ) -> LevelDesign | None:
        return _largest(make, start, epsilon, delta)

    if epsilon < _SMALLEST:
        raise ValueError(f"epsilon = {epsilon} is too small to be represented.")
    span = LevelDistribution.span_of(noise, n_levels)
    found: LevelDesign | None
    if keep is not None and rate is not None:
        found = design(keep, rate)
        found = found if found.keeps_budget(epsilon, delta) else None
    elif rate is not None:
        found = largest(
            lambda odds: design(odds / (1 + odds), rate), math.exp(_LARGEST)
        )
    elif keep is not None:
        found = largest(lambda rate: design(keep, rate), _LARGEST / span)
    else:

        def shared(share: float, budget: float, *kinds: NDArray[Any]) -> LevelDesign:
            """`share` of an entry's budget for the moves, the rest for keeping."""
            rate = share * budget / span
            keep = design(0.0, rate).distribution.keep(budget)
            return design(keep, rate, *kinds)

        found = _best(shared, noise, n_levels, _few(shares, counts), epsilon, delta)
    if found is None:
        asked = {"keep_probability": keep, "scale": rate}
        given = " and ".join(name for name, value in asked.items() if value is not None)
        raise ValueError(
            f"No randomised response with this {given or 'number of levels'} keeps "
            f"epsilon = {epsilon} and delta = {delta} for {counts.sum()} entries."
        )
    if not np.all(np.isfinite(found.errors())):
        raise ValueError(
            "What these moves leave of an entry cannot be debiased; give it a smaller "
            "weight, or another noise or scale."
        )
    return found


def _groups(shares: NDArray[np.float64]) -> NDArray[np.integer]:
    """Numbers of the groups of kinds that are accounted for together."""
    if shares.size <= _MOST_GROUPS:
        return np.arange(shares.size)
    return np.ceil(shares * (_MOST_GROUPS / shares.max())).astype(int)


def _few(
    shares: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """The average kind of each group, and how many entries are like it."""
    numbers, group = np.unique(_groups(shares), return_inverse=True)
    totals = np.bincount(group, counts, numbers.size)
    return np.bincount(group, counts * shares, numbers.size) / totals, totals


def _largest(
    make: Callable[[float], LevelDesign], start: float, epsilon: float, delta: float
) -> LevelDesign | None:
    """The design of largest parameter up to `start` that keeps the budget, or None."""

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
    at = brentq(lambda x: np.clip(excess(x), -50, 50), low, high, xtol=1e-6)
    for shortfall in (0.0, *1e-6 * 2.0 ** np.arange(20)):
        found = make(math.exp(at - shortfall))
        if found.keeps_budget(epsilon, delta):
            return found
    return None


def _best(
    shared: Callable[..., LevelDesign],
    noise: str,
    n_levels: int,
    kinds: tuple[NDArray[np.float64], NDArray[Any]],
    epsilon: float,
    delta: float,
) -> LevelDesign | None:
    """The design that errs least, of those that a search over shares suggests.

    What an entry may spend depends on the law. To choose the share of the moves, it is
    taken once from the optimal composition theorem, which knows no law, and once from
    the Gaussian limit of the law's losses. Both designs are then given all that the
    accountant grants them.
    """
    n_entries = int(kinds[1].sum())

    def by_theorem(share: float) -> float:
        return spent

    def by_limit(share: float) -> float:
        return _limit_budget(shared, share, n_entries, epsilon, delta)

    spent = min(_theorem_budget(n_entries, epsilon, delta), _LARGEST)
    rules = [by_theorem, by_limit] if delta else [by_theorem]
    found = []
    for rule in rules:

        def error(share: float, rule: Callable[[float], float] = rule) -> float:
            return _total_error(shared(share, rule(share), *kinds))

        tried = _SHARES[1:] if noise == "geometric" else _SHARES
        if n_levels == 2 and noise != "geometric":
            # All shares are the same law; this one heeds weights.
            tried = tried[:1]
        errors = [error(share) for share in tried]
        i = int(np.argmin(errors))
        ends = tried[max(i - 1, 0)], tried[min(i + 1, len(tried) - 1)]
        best = minimize_scalar(
            error, bounds=ends, method="bounded", options={"xatol": 1e-3}
        )
        share = float(best.x) if best.fun < errors[i] else float(tried[i])
        start = min(4 * rule(share), _LARGEST)
        design = _largest(partial(shared, share), start, epsilon, delta)
        if design is not None:
            found.append(design)
    return min(found, key=_total_error, default=None)


def _total_error(design: LevelDesign) -> float:
    return float(design.counts @ design.errors().max(axis=1))


def _theorem_budget(n_entries: int, epsilon: float, delta: float) -> float:
    """Pure epsilon of an entry by the optimal composition theorem."""
    least = epsilon / n_entries
    if delta == 0:
        return least

    def excess(log_budget: float) -> float:
        found = optimal_composition_delta(math.exp(log_budget), n_entries, epsilon)
        return math.log(max(found, 1e-300) / delta)

    low = math.log(least)
    if excess(low) >= 0:
        return least
    most = low + 1
    while excess(most) < 0:
        most += 1
    return math.exp(brentq(excess, low, most))


def _limit_budget(
    shared: Callable[..., LevelDesign],
    share: float,
    n_entries: int,
    epsilon: float,
    delta: float,
) -> float:
    """Pure epsilon of an entry with this law by the Gaussian limit of its losses.

    The symmetric Kullback-Leibler divergence of Gaussian noise is mu^2.
    """
    target = gaussian_mu(epsilon, delta) ** 2 / n_entries

    def excess(log_budget: float) -> float:
        design = shared(share, math.exp(log_budget))
        first, last = design.distribution.extreme_pair(design.keep)
        return math.log((first - last) @ np.log(first / last) / target)

    most = math.log(_LARGEST)
    if excess(most) <= 0:
        return _LARGEST
    # It is at most the square of the pure epsilon.
    least = min(math.log(target) / 2, most) - 1
    return math.exp(brentq(excess, least, most, xtol=1e-6))
