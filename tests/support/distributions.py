"""Laws of releases under two neighbours, and of their products; none of the package.

A law is a pair (p, q) of masses of the same outputs under two neighbours. Continuous
outputs are cut into cells, and products into bins of their losses: both forget where
in them an output lies, which is post-processing, so that a delta computed here is at
most the true one.
"""

import math
from functools import reduce
from itertools import product

import numpy as np
from scipy.stats import laplace, norm

_BINS = 1200


def cells(law, edges, middle=0.0):
    """Masses between edges, each from the tail that it is in."""
    low, high = edges[:-1], edges[1:]
    upper = law.sf(low) - law.sf(high)
    return np.where(low > middle, upper, law.cdf(high) - law.cdf(low))


def gaussian(mu, size=1500, reach=8.5):
    edges = np.r_[-np.inf, np.linspace(-reach, reach + mu, size), np.inf]
    return cells(norm, edges - mu), cells(norm, edges)


def double_exponential(bound, size=400):
    edges = np.r_[-np.inf, np.linspace(0, bound, size), np.inf]
    return cells(laplace, edges - bound), cells(laplace, edges)


def integers(rate, shift):
    n = np.arange(-int(40 / rate), shift + int(40 / rate) + 1)
    masses = np.exp(-rate * np.abs(n)), np.exp(-rate * np.abs(n - shift))
    return tuple(side / side.sum() for side in masses)


def response(epsilon):
    p = np.array([1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))])
    return p, p[::-1]


def split(law, n_labels=40):
    """The same outputs, each with a label that is drawn without the data."""
    return tuple(np.repeat(side / n_labels, n_labels) for side in law)


def on_sample(rate, law):
    return (1 - rate) * law[1] + rate * law[0], law[1]


def shown(probability, law):
    """Two more outputs, each of which tells the neighbours apart."""
    kept, none = ((1 - probability) * side for side in law), np.zeros(1)
    p, q = kept
    return np.r_[probability, none, p], np.r_[none, probability, q]


def deviated(e1, d1):
    """An output that is the same for all, and samplers that pull it either way."""
    for u in (d1, 1e-4, 1e-3, 1e-2, 0.1, 0.5):
        up = min(math.exp(e1) * u + d1, 1 - math.exp(-e1) * (1 - u - d1))
        down = max(math.exp(-e1) * (u - d1), 1 - math.exp(e1) * (1 - u) - d1, 0.0)
        yield np.array([up, 1 - up]), np.array([down, 1 - down])


def pulled(law, e1, d1):
    """Delta where samplers within (e1, d1) pull both laws apart, by one event each.

    Every output in the event is drawn more often by one factor, and all others less
    often by another one, so that no event is further than (e1, d1) from its law.
    """
    order = np.argsort(losses_of(law))
    upper, lower = (np.append(np.cumsum(s[order][::-1])[::-1], 0.0) for s in law)
    up = np.minimum(math.exp(e1) * upper + d1, 1 - math.exp(-e1) * (1 - upper - d1))
    down = np.maximum(math.exp(-e1) * (lower - d1), 1 - math.exp(e1) * (1 - lower) - d1)
    up, down = np.minimum(up, 1.0), np.maximum(down, 0.0)
    return lambda epsilon: float(np.max(up - math.exp(epsilon) * down))


def losses_of(law):
    with np.errstate(divide="ignore"):
        return np.log(law[0]) - np.log(law[1])


def generating(weights):
    """The generating function of the number of tries, and its derivative."""
    tries = np.array([float(w) for w in weights]) / float(sum(weights))
    whole = np.polynomial.Polynomial(tries)
    return whole, whole.deriv()


def best(law, weights, orders, ties=1):
    """Laws of the best of a random number; one row for each order of the scores.

    With F the probability of a lower score, and f the generating function of the
    number, a score of mass p is the best one with probability f(F + p) - f(F). So many
    outputs, one after the other, have the same score.
    """
    whole, slope = generating(weights)
    starts, sides = np.arange(0, orders.shape[1], ties), []
    for side in law:
        mass = side[orders]
        score = np.add.reduceat(mass, starts, axis=1)
        above = np.minimum(np.cumsum(score, axis=1), 1.0)
        below = np.maximum(above - score, 0.0)
        # Where the difference would lose its digits, the middle is as good.
        mean = np.where(
            score > 1e-6,
            (whole(above) - whole(below)) / np.maximum(score, 1e-6),
            slope((above + below) / 2),
        )
        each = mass * np.repeat(mean, ties, axis=1)[:, : mass.shape[1]]
        nothing = np.full((len(orders), 1), whole(0.0))
        sides.append(np.hstack([nothing, each]) if whole(0.0) else each)
    return tuple(sides)


def noised(law, rng):
    """At most six outputs that are drawn from what was released: post-processing."""
    size = rng.integers(2, 7)
    channel = rng.dirichlet(np.full(size, rng.choice([0.1, 0.3, 1.0])), law[0].size)
    sides = [side @ channel for side in law]
    kept = np.minimum(*sides) > 1e-12
    return tuple(np.append(s[kept], s[~kept].sum() + 1e-300) for s in sides)


def orders_of(law, rng):
    """Orders of the scores, some of which make the choice reveal much.

    The best scores are given to outputs that are likelier under q, the next ones to
    those that are likeliest under p: these are then the best the oftener under p.
    """
    upwards = np.argsort(losses_of(law), kind="stable")
    found = [upwards, upwards[::-1], *(rng.permutation(upwards) for _ in range(3))]
    high = np.cumsum(law[0][upwards][::-1])[::-1]
    low = np.cumsum(law[1][upwards])
    for top, near in product((1e-3, 0.03, 0.2, 0.5, 0.8), (1e-6, 1e-3, 0.03, 0.3)):
        on_top = low <= top
        likely = (high <= near) & ~on_top
        rest = ~(on_top | likely)
        found.append(np.r_[upwards[rest], upwards[likely], upwards[on_top]])
    return np.array(found)


def choices(law, weights, cuts):
    """Laws of the best, for several scores and both orders of the neighbours.

    The highest scores are those of losses below a first cut, the next ones those of
    losses above a second.
    """
    for one in (law, law[::-1]):
        loss = losses_of(one)
        places = [np.where(loss < a, 2, np.where(loss > b, 1, 0)) for a, b in cuts]
        orders = np.argsort(places, axis=1, kind="stable")
        yield from zip(*best(one, weights, orders), strict=True)


def both(first, second):
    """The product of two laws, in bins of losses."""
    p, q = (np.multiply.outer(*sides).ravel() for sides in zip(first, second, strict=1))
    some = (p > 0) | (q > 0)
    p, q = p[some], q[some]
    if p.size < 64:
        return p, q
    loss = losses_of((p, q))
    finite = np.isfinite(loss)
    counted = loss[finite & (np.maximum(p, q) > 1e-19)]
    low, high = counted.min(), counted.max() + 1e-9
    place = np.clip((loss[finite] - low) / (high - low), 0, 1)
    index = np.where(loss > 0, _BINS + 1, _BINS)
    index[finite] = (place * (_BINS - 1)).astype(int)
    p, q = (np.bincount(index, side, _BINS + 2) for side in (p, q))
    some = (p > 0) | (q > 0)
    return p[some], q[some]


def stick(first, second, epsilon):
    """Sum of (p - e^epsilon q)+ over the product of two laws, by running sums."""
    loss, other = losses_of(first), losses_of(second)
    order = np.argsort(other)
    upper, lower = (
        np.append(np.cumsum(side[order][::-1])[::-1], 0.0) for side in second
    )
    start = np.searchsorted(other[order], epsilon - loss, side="right")
    return first[0] @ upper[start] - math.exp(epsilon) * (first[1] @ lower[start])


ALONE = np.ones(1), np.ones(1)


def worst(combinations):
    """The largest delta of several products of laws, both orders."""
    pairs = []
    for combination in combinations:
        *some, last = sorted(combination, key=lambda law: law[0].size)
        first = reduce(both, some, ALONE)
        pairs += [(first, last), (first[::-1], last[::-1])]
    return lambda epsilon: max(stick(*pair, epsilon) for pair in pairs)


def around(combination):
    """Epsilons where the delta of a product is neither 0 nor 1."""
    mean = variance = 0.0
    for p, q in combination:
        loss = losses_of((p, q))
        some = np.isfinite(loss)
        mean += p[some] @ loss[some]
        variance += p[some] @ loss[some] ** 2
    return [max(mean + z * math.sqrt(variance), 0.0) for z in (-1, 1, 4)]


def largest(found, epsilon):
    factor = math.exp(epsilon)
    return max(
        float(np.maximum(p - factor * q, 0).sum(axis=1).max())
        for law in found
        for p, q in (law, law[::-1])
    )
