"""Mixtures of all kinds of events, against divergences from first principles.

A law is a pair (p, q) of masses of the same outputs under two neighbours. Continuous
outputs are cut into cells, and products into bins of their losses: both forget where
in them an output lies, which is post-processing, so that a delta computed here is at
most the true one. An event has several laws: which rows of a table, which part a
record is in, how a sampler deviates, how the best is chosen. The truth is the largest.
"""

import math
from collections import Counter
from functools import lru_cache, reduce
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.stats import chi2, laplace, norm

from sktensordp.privacy import (
    PrivacyGuarantee,
    _accounting,
    _ledger,
    _pld,
    _renyi,
    _selection,
    compose,
    compose_parallel,
)
from sktensordp.privacy._accounting import event_delta, event_epsilon
from sktensordp.privacy._events import (
    ParallelDpEvent,
    ProjectionDpEvent,
    PureDpEvent,
    RandomizedResponseDpEvent,
    RevealingDpEvent,
    SamplerResidualDpEvent,
    SelectionDpEvent,
    TableDpEvent,
)
from sktensordp.privacy._guarantee import CALLERS_RELATION
from sktensordp.privacy._ledger import Ledger
from sktensordp.privacy._randomized_response import LevelLaw
from sktensordp.privacy._renyi import event_renyi
from sktensordp.privacy._repetitions import RepetitionLaw, negative_binomial, poisson

Composed, Repeated = dp_event.ComposedDpEvent, dp_event.SelfComposedDpEvent
Gaussian, Laplace = dp_event.GaussianDpEvent, dp_event.LaplaceDpEvent
Sampled, Parallel = dp_event.PoissonSampledDpEvent, ParallelDpEvent
Choice, Residual = SelectionDpEvent, SamplerResidualDpEvent

_BINS = 1200
# Rounding of what is summed here, relative to delta and absolute.
_ROUNDING, _ABSOLUTE_ROUNDING = 1e-9, 1e-13


# Laws


def cells(law, edges, middle=0.0):
    """Masses between edges, each from the tail that it is in."""
    low, high = edges[:-1], edges[1:]
    upper = law.sf(low) - law.sf(high)
    return np.where(low > middle, upper, law.cdf(high) - law.cdf(low))


def gaussian(mu, size=1500):
    edges = np.r_[-np.inf, np.linspace(-8.5, 8.5 + mu, size), np.inf]
    return cells(norm, edges - mu), cells(norm, edges)


def double_exponential(bound, size=400):
    edges = np.r_[-np.inf, np.linspace(0, bound, size), np.inf]
    return cells(laplace, edges - bound), cells(laplace, edges)


def integers(rate, shift):
    n = np.arange(-int(40 / rate), shift + int(40 / rate) + 1)
    masses = np.exp(-rate * np.abs(n)), np.exp(-rate * np.abs(n - shift))
    return tuple(side / side.sum() for side in masses)


def projected(r, tau):
    edges = np.linspace(max(0, r**0.5 - 9), (r**0.5 + 9) * (1 + tau) ** 0.5, 2500)
    edges = np.r_[edges**2, np.inf]
    return cells(chi2(r), edges / (1 + tau), r), cells(chi2(r), edges, r)


def response(epsilon):
    p = np.array([1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))])
    return p, p[::-1]


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


def level_rows(n_levels, rate, keep):
    levels = np.arange(n_levels)
    moves = np.exp(-rate * np.abs(np.subtract.outer(levels, levels)))
    moves /= moves.sum(axis=1, keepdims=True)
    return list(permutations((1 - keep) * moves + keep * np.eye(n_levels), 2))


def losses_of(law):
    with np.errstate(divide="ignore"):
        return np.log(law[0]) - np.log(law[1])


def chosen(law, weights, low, high):
    """The best of a random number, whose score puts high losses below the lowest.

    The highest scores have losses below `low`, the next ones those above `high`:
    the former are likelier under q, so that under p the latter are the best oftener.
    With F the probability of what scores less, the mass p of a cell becomes
    f(F + p) - f(F), f the generating function of the number.
    """
    tries = np.array([float(w) for w in weights]) / float(sum(weights))
    slope = np.polynomial.Polynomial((tries * np.arange(tries.size))[1:])
    loss = losses_of(law)
    order = np.argsort(np.where(loss < low, 2, np.where(loss > high, 1, 0)))
    nodes, parts = np.polynomial.legendre.leggauss(40)
    sides = []
    for side in law:
        mass = side[order]
        below = np.cumsum(mass) - mass
        mean = slope(below[:, None] + mass[:, None] * (1 + nodes) / 2) @ parts / 2
        sides.append(np.r_[tries[0], mass * mean] if tries[0] else mass * mean)
    return tuple(sides)


def choices(law, weights, cuts):
    """Laws of the best, for several scores and both orders of the neighbours."""
    for low, high in cuts:
        for one in (law, law[::-1]):
            yield chosen(one, weights, low, high)


THREE_ROWS = ((10, 5, 3, 2), (4, 6, 6, 4), (2, 3, 5, 10))
ROWS = [tuple(np.array(row) / 20 for row in p) for p in permutations(THREE_ROWS, 2)]
GEOMETRIC, FEW = negative_binomial(4.0, 1.0), poisson(2.0)
# An event and its laws, and whether the package is tight for it: it allows projections
# and samples of pure releases the worse order at every loss, samplers the worst
# deviation at every epsilon, and choices the worst score.
KINDS = {
    "pure": (PureDpEvent(0.6), lambda: [response(0.6)], True),
    "laplace": (Laplace(1.25), lambda: [double_exponential(0.8)], True),
    "integers": (
        dp_event.DiscreteLaplaceDpEvent(0.3, 4), lambda: [integers(0.3, 4)], True,
    ),
    "table": (TableDpEvent(THREE_ROWS), lambda: ROWS, True),
    "levels": (
        RandomizedResponseDpEvent(LevelLaw("laplace", 3, 0.3), 0.1),
        lambda: level_rows(3, 0.3, 0.1), True,
    ),
    "gaussian": (Gaussian(1.25), lambda: [gaussian(0.8)], True),
    "sample": (
        Sampled(0.2, Gaussian(1.0)), lambda: [on_sample(0.2, gaussian(1.0))], True,
    ),
    "pure sample": (
        Sampled(0.3, PureDpEvent(1.0)), lambda: [on_sample(0.3, response(1.0))], False,
    ),
    "projection": (ProjectionDpEvent(4, 0.3), lambda: [projected(4, 0.3)], False),
    "revealing": (
        RevealingDpEvent(1e-3, PureDpEvent(0.5)),
        lambda: [shown(1e-3, response(0.5))], True,
    ),
    "residual": (Residual(0.01, 1e-5), lambda: list(deviated(0.01, 1e-5)), False),
    "parallel": (
        Parallel((Laplace(2.0), Gaussian(2.0), PureDpEvent(0.4))),
        lambda: [double_exponential(0.5), gaussian(0.5), response(0.4)], True,
    ),
    "choice": (
        Choice(Gaussian(3.0), GEOMETRIC),
        lambda: list(choices(gaussian(1 / 3, 500), GEOMETRIC.weights,
                             [(-0.4, 0.0), (0.0, 0.4), (-9, 0)])), False,
    ),
    "pure choice": (
        Choice(PureDpEvent(0.3), FEW),
        lambda: list(choices(response(0.3), FEW.weights, [(0, 0), (-1, 0)])), False,
    ),
    "nothing": (dp_event.NoOpDpEvent(), lambda: [(np.ones(1), np.ones(1))], True),
    "everything": (
        dp_event.NonPrivateDpEvent(),
        lambda: [(np.array([1.0, 0.0]), np.array([0.0, 1.0]))], True,
    ),
}  # fmt: skip


@lru_cache(maxsize=None)
def laws(name):
    return [tuple(map(np.asarray, law)) for law in KINDS[name][1]()]


# Their products


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


def understated(event, truth, epsilons):
    """Whether the package claims more privacy than a lower bound of delta allows."""
    for i, epsilon in enumerate(epsilons):
        least = truth(epsilon) * (1 - _ROUNDING) - _ABSOLUTE_ROUNDING
        if not event_delta(event, epsilon) >= least:
            return True
        # Of the smallest epsilon delta is too near 1, or the same as of the next.
        asked = i and least > 1e-12
        if asked and not event_epsilon(event, least) >= epsilon * (1 - 1e-12):
            return True
    return False


def overstated(event, truth, epsilons, relative=0.01):
    return any(
        event_delta(event, e) > truth(e) * (1 + relative) + 1e-5 for e in epsilons
    )


NAMES = list(KINDS)
TRIPLES = [
    ("gaussian", "sample", "choice"), ("table", "projection", "pure choice"),
    ("laplace", "parallel", "revealing"), ("integers", "levels", "gaussian"),
    ("parallel", "choice", "residual"), ("sample", "parallel", "table"),
    ("projection", "revealing", "choice"), ("pure sample", "parallel", "parallel"),
]  # fmt: skip


@pytest.mark.parametrize("names", [(name,) for name in NAMES], ids="".join)
def test_alone(names):
    check_mixture(names)


@pytest.mark.parametrize("first", NAMES)
def test_pairs(first):
    for second in NAMES[NAMES.index(first) :]:
        check_mixture((first, second))


@pytest.mark.parametrize("names", TRIPLES, ids=" ".join)
def test_triples(names):
    check_mixture(names)


def check_mixture(names):
    events, tight = zip(*((KINDS[n][0], KINDS[n][2]) for n in names), strict=True)
    event, found = Composed(events), list(product(*map(laws, names)))
    truth, epsilons = worst(found), around(found[0])
    assert not understated(event, truth, epsilons), names
    if all(tight):
        assert not overstated(event, truth, epsilons), names
    if "everything" in names:
        assert event_epsilon(event, 0.999) == math.inf


def test_one_of_every_kind():
    names = [name for name in NAMES if name != "everything"]
    event = Composed([KINDS[name][0] for name in names])
    # One law of each: the last of some, so that parts and scores take their turns.
    for which in (0, -1):
        found = [laws(name)[which] for name in names]
        assert not understated(event, worst([found]), around(found))


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


@pytest.mark.parametrize(("e1", "d1"), [(0.02, 1e-4), (0.0, 1e-3), (0.05, 0.0)])
def test_sampler_of_a_mixture(e1, d1):
    # What is shown outright is left out: a residual is about the rest of a release.
    mixtures = [("table", "gaussian"), ("parallel",), ("projection",), ("choice",)]
    for names in [*mixtures, ("sample", "laplace"), ("pure choice", "integers")]:
        event = Composed([*(KINDS[n][0] for n in names), Residual(e1, d1)])
        found = [reduce(both, one, ALONE) for one in product(*map(laws, names))]
        truths = [pulled(one, e1, d1) for law in found for one in (law, law[::-1])]
        epsilons = [e + 2 * e1 for e in around([found[0]])]
        assert not understated(
            event, lambda e, t=truths: max(f(e) for f in t), epsilons
        )


# Parts of the data, and compositions of compositions

A, B, C, D = (KINDS[n][0] for n in ("laplace", "gaussian", "integers", "pure"))
S, R, P = (KINDS[n][0] for n in ("sample", "revealing", "projection"))
LEAVES = {event: name for name, (event, _, _) in KINDS.items() if name != "parallel"}


def outcomes(event):
    """What may have happened to a record: leaves and how often, for all its parts."""
    if isinstance(event, Composed):
        return [sum(o, Counter()) for o in product(*map(outcomes, event.events))]
    if isinstance(event, Repeated):
        each = combinations_with_replacement(outcomes(event.event), event.count)
        return [sum(o, Counter()) for o in each]
    if isinstance(event, Parallel):
        return [outcome for part in event.events for outcome in outcomes(part)]
    return [Counter({LEAVES[event]: 1})]


@lru_cache(maxsize=None)
def power(name, count):
    half = power(name, count // 2) if count > 1 else ALONE
    return reduce(both, [half, half, *[laws(name)[0]] * (count % 2)])


def truth_of(event):
    """The largest delta over all parts, and epsilons where it matters."""
    found = {tuple(sorted(outcome.items())) for outcome in outcomes(event)}
    found = [[power(*leaf) for leaf in outcome] for outcome in found]
    epsilons = {e for outcome in (found[0], found[-1]) for e in around(outcome)}
    return worst(found), sorted(epsilons)


def test_outcomes():
    three = outcomes(Repeated(Parallel((A, Composed([B, C]))), 2))
    words = [" ".join(sorted(outcome.elements())) for outcome in three]
    both_parts = "gaussian integers laplace"
    twice = "gaussian gaussian integers integers"
    assert words == ["laplace laplace", both_parts, twice]
    assert len(outcomes(Composed([Parallel((A, B)), Parallel((C, D, A))]))) == 6


NESTED = {
    "composed in repeated in composed": Composed(
        [Repeated(Composed([A, Repeated(B, 2), Composed([])]), 2), C]
    ),
    "parallel in parallel": Parallel((A, Parallel((B, Parallel((C, D)))))),
    "parallel of composed": Parallel(
        (Composed([A, B]), Repeated(C, 3), Repeated(D, 5))
    ),
    "repeated parallel": Repeated(Parallel((A, B)), 3),
    "repeated composed parallel": Repeated(Composed([Parallel((A, B)), C]), 2),
    "two parallels": Composed([Parallel((A, B)), Parallel((C, D, S)), B]),
    "parallel of repeated parallels": Parallel(
        (Repeated(Parallel((A, D)), 4), Repeated(Composed([Parallel((B, S)), R]), 2))
    ),
    "repeated in repeated": Repeated(Repeated(Parallel((C, Repeated(B, 2))), 2), 2),
    "one part": Composed([Parallel((Composed([A, B]),)), Parallel((S,))]),
    "a part without anything": Composed([Parallel((dp_event.NoOpDpEvent(), A)), B]),
    "a part that shows": Composed([Parallel((R, A)), Parallel((D, R))]),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested(name):
    event = NESTED[name]
    truth, epsilons = truth_of(event)
    assert not understated(event, truth, epsilons)
    assert not overstated(event, truth, epsilons)


def test_more_combinations_than_are_kept():
    # 21 combinations: in place of them one that says no less than any.
    event = Repeated(Parallel((Laplace(5.0), Gaussian(3.0))), 20)
    parts = double_exponential(0.2), gaussian(1 / 3)
    found = []
    for n in range(0, 21, 4):
        found.append([reduce(both, [parts[0]] * n, ALONE)])
        found[-1].append(gaussian(math.sqrt(20 - n) / 3) if n < 20 else ALONE)
    assert not understated(event, worst(found), around(found[0]))
    # Pure parts alone: the larger of the two totals, however often.
    event = Repeated(Parallel((PureDpEvent(0.5), Laplace(2.5))), 40)
    assert event_epsilon(event, 0.0) == pytest.approx(20, rel=1e-12)
    for e in around([power("pure", 1)]):
        exact = max(stick(ALONE, law, e) for law in (power("pure", 1),))
        assert event_delta(Repeated(Parallel((D, PureDpEvent(0.3))), 40), e) >= exact


@pytest.mark.parametrize("seed", range(6))
def test_random_trees(seed):
    rng = np.random.default_rng(seed)

    def tree(depth):
        kind = rng.integers(4) if depth else 3
        if kind == 3:
            return [A, B, C, D, S, R, P][rng.integers(7)]
        if kind == 2:
            return Repeated(tree(depth - 1), int(rng.integers(1, 3)))
        return (Composed, Parallel)[kind]([tree(depth - 1) for _ in range(2)])

    event = Composed([tree(3), Parallel([tree(2), tree(1)])])
    truth, epsilons = truth_of(event)
    assert not understated(event, truth, epsilons[:4])
