"""Lower bounds on epsilon and mu from counts, valid at a stated confidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import beta, binom

from ..privacy import gaussian_delta

_NUISANCE_POINTS = 25
# A stage whose event never happens must not outweigh all others.
_LEAST_Z = -1.0
# No number of trials proves a larger bound; beyond it, the search has failed.
_LARGEST_BOUND = 2.0**9


def _lower(hits: ArrayLike, n: int, alpha: float) -> NDArray[np.float64]:
    """Clopper-Pearson lower bound on a rate, with confidence 1 - alpha."""
    hits = np.asarray(hits)
    return np.where(hits == 0, 0.0, beta.ppf(alpha, np.maximum(hits, 1), n - hits + 1))


def _upper(hits: ArrayLike, n: int, alpha: float) -> NDArray[np.float64]:
    """Clopper-Pearson upper bound on a rate, with confidence 1 - alpha."""
    hits = np.asarray(hits)
    bound = beta.ppf(1 - alpha, hits + 1, np.maximum(n - hits, 1))
    return np.where(hits == n, 1.0, bound)


def quick_bound(
    hits: ArrayLike,
    false_hits: ArrayLike,
    n: int,
    claim: Pure | Gaussian,
    alpha: float,
) -> Any:
    """Lower bound on a privacy parameter from counts of an event in two arms.

    The two rates have Clopper-Pearson bounds, at alpha / 2 each. Arrays of counts give
    the bounds of many events at once.

    Parameters
    ----------
    hits, false_hits : int or ndarray
        How often the event happened in arm 1 and in arm 0.
    n : int
        Number of trials in each arm.
    claim : Pure or Gaussian
        The parameter to bound.
    alpha : float
        Chance that the bound is above the truth.

    Returns
    -------
    bound : float or ndarray
        At least 0.
    """
    rates = _lower(hits, n, alpha / 2), _upper(false_hits, n, alpha / 2)
    return np.maximum(claim.parameter(*rates), 0.0)


def certified_bound(
    stages: Sequence[tuple[int, int, int]], claim: Pure | Gaussian, alpha: float
) -> float:
    """Lower bound on a privacy parameter from the counts of one or more stages.

    The bound is above the truth with probability at most alpha. The event of a stage
    may depend on the outputs of all earlier stages; it must be chosen before the
    outputs of its own stage are seen.

    One stage: a value of the parameter is refuted if, under that value, counts that the
    quick bound ranks at least as high as the observed ones have probability at most
    alpha (Buehler 1957). This must hold for every rate of arm 0 in an interval of
    confidence 1 - alpha / 50; the error of that interval is subtracted from alpha
    (Berger and Boos 1994). The probabilities are exact, from the two binomials. In
    other words, p(parameter) = the largest probability + alpha / 50 is a p-value.

    Several stages: let z = max(Phi^-1(1 - p), -1). A value of the parameter is refuted
    if the sum of z sqrt(n) over the stages is so large that independent uniform p would
    reach it with probability at most alpha (the inverse normal method, for stages that
    depend on earlier ones as in Bauer and Köhne 1994).

    Proof. Take the true value of the parameter. Given all earlier stages, the event is
    fixed, so the counts are two binomials whose rates satisfy the claim, and the p of
    this stage is below any u with probability at most u. By induction over the stages,
    the sum is stochastically at most that of independent uniform p. Hence the truth is
    refuted with probability at most alpha. Since p grows with the parameter, the values
    that are refuted are those below the bound.

    Parameters
    ----------
    stages : sequence of (hits, false_hits, n)
        How often the event of the stage happened in arm 1 and in arm 0, and the number
        of trials in each arm.
    claim : Pure or Gaussian
        The parameter to bound.
    alpha : float
        Chance that the bound is above the truth.

    Returns
    -------
    bound : float
        At least 0.
    """
    p_values = [_p_value(*stage, claim, alpha) for stage in stages]
    weights = tuple(math.sqrt(n) for *_, n in stages)
    needed = _critical_sum(weights, alpha)

    def excess(parameter: float) -> float:
        z = [max(-ndtri(p(parameter)), _LEAST_Z) for p in p_values]
        return needed - float(np.dot(weights, z))

    bound = _crossing(excess)
    return bound if bound < _LARGEST_BOUND else 0.0


def _crossing(excess: Callable[[float], float]) -> float:
    """Where an increasing function reaches 0, from 0 to the largest bound."""
    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0:
        if high >= _LARGEST_BOUND:
            return _LARGEST_BOUND
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-9))


def _p_value(
    hits: int, false_hits: int, n: int, claim: Pure | Gaussian, alpha: float
) -> Callable[[float], float]:
    """The p-value of one stage, as a function of the parameter."""
    rates = _lower(hits, n, alpha / 2), _upper(false_hits, n, alpha / 2)
    observed = float(claim.parameter(*rates))
    if not np.isfinite(observed):
        return lambda parameter: 1.0
    gamma = alpha / 50
    least = float(_lower(false_hits, n, gamma / 2))
    most = float(_upper(false_hits, n, gamma / 2))
    spread = 7 * math.sqrt(n * most * (1 - least)) + 7
    counts = np.arange(max(0, int(n * least - spread)), min(n, n * most + spread) + 1)
    # For each number of false hits, the fewest hits that rank at least as high as the
    # observed counts. The margin of 1e-7 ensures that those rank high enough too.
    boundary = claim.rate(_upper(counts, n, alpha / 2), observed - 1e-7)
    needed = binom.isf(alpha / 2, n, boundary) + 1
    grid = np.linspace(least, most, _NUISANCE_POINTS)
    weights = binom.pmf(counts, n, grid[:, np.newaxis])

    def p_value(parameter: float) -> float:
        corner = np.clip(claim.corner(parameter), least, most)
        rates = claim.rate(np.append(grid, corner), parameter)
        chances = np.vstack([weights, binom.pmf(counts, n, corner)])
        tails = binom.sf(needed - 1, n, rates[:, np.newaxis])
        return min(1.0, float(np.max(np.sum(chances * tails, axis=1))) + gamma)

    return p_value


@lru_cache(maxsize=64)
def _critical_sum(weights: tuple[float, ...], alpha: float) -> float:
    """Sum of weighted z that independent uniform p reach with probability <= alpha.

    Each z is rounded up to a grid, which can only enlarge the sum.
    """
    step = sum(weights) * 1e-3
    chances, low = np.ones(1), 0
    for weight in weights:
        first, last = math.ceil(_LEAST_Z * weight / step), math.ceil(9 * weight / step)
        reached = ndtr(np.arange(first, last) * step / weight)
        chances = np.convolve(chances, np.diff(reached, prepend=0.0, append=1.0))
        low += first
    tails = np.cumsum(chances[::-1])[::-1]
    return (low + int(np.argmax(tails <= alpha))) * step


class Pure:
    """Epsilon at a given delta: P(event | 1) <= e^epsilon P(event | 0) + delta."""

    def __init__(self, delta: float) -> None:
        self.delta = delta

    def rate(
        self, rate: float | NDArray[np.float64], parameter: float
    ) -> NDArray[np.float64]:
        """Largest possible rate of arm 1, given the rate of arm 0."""
        return np.minimum(1.0, np.exp(parameter) * rate + self.delta)

    def corner(self, parameter: float) -> float:
        """Least rate of arm 0 at which the rate of arm 1 can be one."""
        return (1 - self.delta) * math.exp(-parameter)

    def parameter(
        self, rate: NDArray[np.float64], false_rate: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Least parameter that allows these rates; minus infinity if every one does."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(rate - self.delta, 0) / false_rate)

    def evidence(
        self, hits: ArrayLike, false_hits: ArrayLike, n: int, parameter: float
    ) -> NDArray[np.float64]:
        """By how many standard deviations the counts exceed what is possible.

        It is shrunk for rare events: the best of many rare events may be due to chance.
        A normal prior of standard deviation 0.1 on the log ratio has this effect.
        """
        hits, false_hits = np.asarray(hits), np.asarray(false_hits)
        factor = math.exp(parameter)
        excess = hits - factor * false_hits - n * self.delta
        variance = hits * (1 - hits / n) + factor**2 * false_hits * (1 - false_hits / n)
        seen = (hits + false_hits) / 2
        deviation = np.sqrt(np.maximum(variance, 0.0) + 1 + factor**2)
        return excess / deviation * seen / (seen + 200)

    def least_false_rate(self, rate: float, parameter: float) -> float:
        """Smallest rate of arm 0, given that of arm 1; in either order of the arms."""
        return max(
            0.0,
            (rate - self.delta) * math.exp(-parameter),
            1 - self.delta - (1 - rate) * math.exp(parameter),
        )


class Gaussian:
    """Mu of a Gaussian mechanism: Phi^-1(P(event | 1)) <= Phi^-1(P(event | 0)) + mu.

    Dong, Roth and Su (2022), Definition 3.
    """

    def rate(
        self, rate: float | NDArray[np.float64], parameter: float
    ) -> NDArray[np.float64]:
        """Largest possible rate of arm 1, given the rate of arm 0."""
        return ndtr(ndtri(rate) + parameter)

    def corner(self, parameter: float) -> float:
        """Least rate of arm 0 at which the rate of arm 1 can be one: one itself."""
        return 1.0

    def parameter(
        self, rate: NDArray[np.float64], false_rate: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Least parameter that allows these rates; minus infinity if every one does."""
        with np.errstate(invalid="ignore"):
            bound = ndtri(rate) - ndtri(false_rate)
        return np.where(np.isfinite(bound), bound, -np.inf)

    def evidence(
        self, hits: ArrayLike, false_hits: ArrayLike, n: int, parameter: float
    ) -> NDArray[np.float64]:
        """Like `Pure.evidence`, with the standard deviations of quantiles."""
        counts = np.asarray([hits, false_hits])
        rates = np.clip((counts + 0.5) / (n + 1), 1e-9, 1 - 1e-9)
        quantiles = ndtri(rates)
        densities = np.exp(-(quantiles**2) / 2) / math.sqrt(2 * math.pi)
        variance = np.sum(rates * (1 - rates) / (n * densities**2), axis=0)
        seen = counts.mean(axis=0)
        excess = quantiles[0] - quantiles[1] - parameter
        return excess / np.sqrt(variance) * seen / (seen + 200)

    def least_false_rate(self, rate: float, parameter: float) -> float:
        """Smallest rate of arm 0, given that of arm 1."""
        return float(ndtr(ndtri(rate) - parameter))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Epsilon at `delta` of mu-Gaussian differential privacy."""
    if mu == 0 or gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if delta == 0:
        return math.inf
    return _crossing(lambda e: delta - gaussian_delta(e, mu))


def lower_epsilon_of_guesses(
    correct: int, guesses: int, n_canaries: int, delta: float, alpha: float
) -> float:
    """Lower bound on epsilon from guesses of the bits of many canaries in one run.

    Under (epsilon, delta)-DP, a binomial with success probability
    e^epsilon / (1 + e^epsilon) dominates the number of right guesses, up to a term in
    delta (Steinke, Nasr and Jagielski 2023, Theorem 5.2).

    Parameters
    ----------
    correct, guesses : int
        Numbers of right guesses and of all guesses.
    n_canaries : int
        Number of canaries, guessed or not.
    delta : float
        The delta of the claim.
    alpha : float
        Chance that the bound is above the truth.

    Returns
    -------
    epsilon : float
    """

    def p_value(epsilon: float) -> float:
        rate = 1 / (1 + math.exp(-epsilon))
        chance = binom.sf(correct - 1, guesses, rate)
        if delta == 0:
            return chance
        steps = np.arange(1, correct + 1)
        mass = np.cumsum(binom.pmf(correct - steps, guesses, rate))
        slack = np.max(mass / steps, initial=0.0)
        return min(1.0, chance + 2 * n_canaries * delta * slack)

    return _crossing(lambda epsilon: p_value(epsilon) - alpha)


def curve_bound_of_guesses(
    correct: int,
    guesses: int,
    n_canaries: int,
    claim: Pure | Gaussian,
    alpha: float,
) -> float:
    """Lower bound on a parameter from guesses of many canaries' bits in one run.

    The bound rejects trade-off functions. Let p_t be the chance that t guesses of g
    are right, for m canaries and a mechanism with trade-off function f. Take a run with
    at least i right guesses and flip the bit of a canary that is guessed rightly: this
    guess is now wrong, and at least i - 1 are right. Averaged over the canaries, with f
    convex, this gives for every i (Mahloujifar, Melis and Chaudhuri 2024)

        sum_{t >= i} t / m p_t  <=  1 - f(sum_{t >= i - 1} (g - t) / m p_t).

    Suppose that `correct` or more guesses are right with chance alpha. The inequalities
    then demand some chance of `correct` - 1 right guesses, of `correct` - 2, and so on.
    Moving chance from t to t - 1 tightens no later inequality, so the least total meets
    each with as little as possible. If it exceeds one, the parameter is rejected.

    Parameters
    ----------
    correct, guesses : int
        Right guesses, and guesses made.
    n_canaries : int
        Number of canaries, guessed or not.
    claim : Pure or Gaussian
        The trade-off functions that are rejected, by their parameter.
    alpha : float
        Chance that the bound is above the truth.

    Returns
    -------
    bound : float
        At least 0.
    """

    def excess(parameter: float) -> float:
        right = alpha * correct / n_canaries
        wrong = alpha * (guesses - correct) / n_canaries
        total = alpha
        for i in range(correct, 0, -1):
            share = (guesses - i + 1) / n_canaries
            needed = claim.least_false_rate(min(right, 1.0), parameter)
            chance = max(0.0, (needed - wrong) / share)
            total += chance
            if total > 1:
                break
            wrong += share * chance
            right += (i - 1) / n_canaries * chance
        return 1 - total

    return _crossing(excess)
