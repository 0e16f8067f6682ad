"""Mixtures of all kinds of events, against divergences from first principles.

An event has several laws: which rows of a table, which part a record is in, how a
sampler deviates, how the best is chosen. The truth is the largest of their deltas.
"""

import math
import random
from collections import Counter
from fractions import Fraction
from functools import cache, reduce
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest

from sktensordp.privacy import compose, compose_parallel
from tests.support import distributions as L
from tests.support import events as E
from tests.support.divergence import level_rows
from tests.support.guarantees import guarantee
from tests.support.seams import (
    LevelDistribution,
    event_delta,
    event_epsilon,
    negative_binomial,
    poisson,
)

pytestmark = pytest.mark.thorough

# Rounding of what is summed here, relative to delta and absolute.
_ROUNDING, _ABSOLUTE_ROUNDING = 1e-9, 1e-13

THREE_ROWS = ((10, 5, 3, 2), (4, 6, 6, 4), (2, 3, 5, 10))
ROWS = [tuple(np.array(row) / 20 for row in p) for p in permutations(THREE_ROWS, 2)]
GEOMETRIC, FEW = negative_binomial(4.0, 1.0), poisson(2.0)
CUTS = [(-0.4, 0.4), (-0.2, 0.9)]
# An event and its laws.
KINDS = {
    "pure": (E.Pure(0.6), lambda: [L.response(0.6)]),
    "laplace": (E.Laplace(1.25), lambda: [L.double_exponential(0.8)]),
    "integers": (E.Integers(0.3, 4), lambda: [L.integers(0.3, 4)]),
    "lattice": (E.Lattice(0.3, 3, Fraction(0.3)), lambda: [L.integers(0.3, 3)]),
    "table": (E.Table(THREE_ROWS), lambda: ROWS),
    "levels": (
        E.Response(LevelDistribution("laplace", 3, 0.3), 0.1),
        lambda: list(permutations(level_rows("laplace", 3, 0.3, 0.1), 2)),
    ),
    "gaussian": (E.Gaussian(1.25), lambda: [L.gaussian(0.8)]),
    "sample": (
        E.Sampled(0.2, E.Gaussian(1.0)), lambda: [L.on_sample(0.2, L.gaussian(1.0))],
    ),
    "pure sample": (
        E.Sampled(0.3, E.Pure(1.0)), lambda: [L.on_sample(0.3, L.response(1.0))],
    ),
    "revealing": (
        E.Revealing(1e-3, E.Pure(0.5)), lambda: [L.shown(1e-3, L.response(0.5))],
    ),
    "residual": (E.Residual(0.01, 1e-5), lambda: list(L.deviated(0.01, 1e-5))),
    "parallel": (
        E.Parallel((E.Laplace(2.0), E.Gaussian(2.0), E.Pure(0.4))),
        lambda: [L.double_exponential(0.5), L.gaussian(0.5), L.response(0.4)],
    ),
    "choice": (
        E.Choice(E.Gaussian(3.0), FEW),
        lambda: L.choices(L.gaussian(1 / 3, 400), FEW.weights, CUTS),
    ),
    "pure choice": (
        E.Choice(E.Pure(0.3), GEOMETRIC),
        lambda: L.choices(L.response(0.3), GEOMETRIC.weights, [(0, 0), (-1, 0)]),
    ),
    "nothing": (E.Nothing(), lambda: [(np.ones(1), np.ones(1))]),
    "everything": (
        E.NonPrivate(), lambda: [(np.array([1.0, 0.0]), np.array([0.0, 1.0]))],
    ),
}  # fmt: skip
# The package allows samples of pure releases the worse order at every loss, samplers
# the worst deviation at every epsilon, and choices the worst score.
LOOSE = {"pure sample", "residual", "choice", "pure choice"}


# How the accountant keeps what it has read.
CLASSES = {
    "gaussian": "mu", "sample": "sample", "pure sample": "sample",
    "choice": "curve", "pure choice": "curve",
    "revealing": "shown", "residual": "residual", "parallel": "parts",
    "nothing": "end", "everything": "end",
}  # fmt: skip
NAMES = list(KINDS)
TRIPLES = [
    ("gaussian", "sample", "choice"), ("laplace", "parallel", "revealing"),
    ("table", "pure choice"), ("integers", "levels", "gaussian"),
    ("parallel", "choice", "residual"), ("sample", "parallel", "table"),
    ("pure sample", "parallel", "parallel"),
]  # fmt: skip


def by_tier(cases, in_first):
    """Cases as parameters; those of the second tier are marked."""
    slow = pytest.mark.slow
    return [
        pytest.param(case, marks=() if in_first(i, case) else slow)
        for i, case in enumerate(cases)
    ]


def pairs():
    """Pairs of kinds: one for each pair of classes, and half of the others later."""
    found, met = list(combinations_with_replacement(NAMES, 2)), set()
    random.Random(0).shuffle(found)

    def is_new(_, pair):
        classes = tuple(sorted(CLASSES.get(name, "pure") for name in pair))
        return not (classes in met or met.add(classes))

    cases = by_tier(found, is_new)
    later = [case for case in cases if case.marks]
    return [case for case in cases if not case.marks] + later[::2]


@cache
def laws(name):
    return [tuple(map(np.asarray, law)) for law in KINDS[name][1]()]


def understated(event, truth, epsilons):
    """Whether the package claims more privacy than a lower bound of delta allows."""
    for i, epsilon in enumerate(epsilons):
        least = truth(epsilon) * (1 - _ROUNDING) - _ABSOLUTE_ROUNDING
        if not event_delta(event, epsilon) >= least:
            return True
        # Once: it takes many deltas.
        asked = i == len(epsilons) // 2 and least > 1e-12
        if asked and not event_epsilon(event, least) >= epsilon * (1 - 1e-12):
            return True
    return False


def overstated(event, truth, epsilons, relative=0.01):
    return any(
        event_delta(event, e) > truth(e) * (1 + relative) + 1e-5 for e in epsilons
    )


@pytest.mark.parametrize("name", NAMES)
def test_alone(name):
    check_mixture([name])


@pytest.mark.parametrize("names", pairs(), ids=" and ".join)
def test_in_pairs(names):
    check_mixture(names)


@pytest.mark.parametrize("names", by_tier(TRIPLES, lambda i, _: i == 0), ids=" ".join)
def test_triples(names):
    check_mixture(names)


def check_mixture(names):
    event = E.Composed([KINDS[name][0] for name in names])
    found = list(product(*map(laws, names)))
    truth, epsilons = L.worst(found), L.around(found[0])
    assert not understated(event, truth, epsilons), names
    assert LOOSE & {*names} or not overstated(event, truth, epsilons), names
    if "everything" in names:
        assert event_epsilon(event, 0.999) == math.inf


def test_one_of_every_kind():
    names = [name for name in NAMES if name != "everything"]
    event = E.Composed([KINDS[name][0] for name in names])
    found = [laws(name)[0] for name in names]
    truth = L.worst([found])
    for epsilon in L.around(found)[1:]:
        assert event_delta(event, epsilon) >= truth(epsilon) * (1 - _ROUNDING) > 0


SAMPLED = [
    ("levels", "gaussian"), ("choice",), ("parallel",), ("pure choice",),
    ("sample", "laplace"),
]  # fmt: skip


@pytest.mark.parametrize("names", by_tier(SAMPLED, lambda i, _: i == 0), ids=" ".join)
def test_sampler_of_a_mixture(names):
    # What is shown outright is left out: a residual is about the rest of a release.
    found = [reduce(L.both, one, L.ALONE) for one in product(*map(laws, names))]
    for e1, d1 in ((0.02, 1e-4), (0.0, 1e-3), (0.05, 0.0)):
        event = E.Composed([*(KINDS[n][0] for n in names), E.Residual(e1, d1)])
        truths = [L.pulled(one, e1, d1) for law in found for one in (law, law[::-1])]
        epsilons = [e + 2 * e1 for e in L.around([found[0]])]
        assert not understated(
            event, lambda e, t=truths: max(f(e) for f in t), epsilons
        )


# Parts of the data, and compositions of compositions

A, B, C, D = (KINDS[n][0] for n in ("laplace", "gaussian", "integers", "pure"))
S, R = (KINDS[n][0] for n in ("sample", "revealing"))
CHOICE = KINDS["choice"][0]
LEAVES = {event: name for name, (event, _) in KINDS.items() if name != "parallel"}


def outcomes(event):
    """What may have happened to a record: leaves and how often, for all its parts."""
    if isinstance(event, E.Composed):
        return [sum(o, Counter()) for o in product(*map(outcomes, event.events))]
    if isinstance(event, E.Repeated):
        each = combinations_with_replacement(outcomes(event.event), event.count)
        return [sum(o, Counter()) for o in each]
    if isinstance(event, E.Parallel):
        return [outcome for part in event.events for outcome in outcomes(part)]
    return [Counter({LEAVES[event]: 1})]


@cache
def power(name, count):
    half = power(name, count // 2) if count > 1 else L.ALONE
    return reduce(L.both, [half, half, *[laws(name)[0]] * (count % 2)])


def truth_of(event):
    """The largest delta over all parts, and epsilons where it matters."""
    found = {tuple(sorted(outcome.items())) for outcome in outcomes(event)}
    found = [[power(*leaf) for leaf in outcome] for outcome in sorted(found)]
    epsilons = {e for outcome in (found[0], found[-1]) for e in L.around(outcome)}
    return L.worst(found), sorted(epsilons)


NESTED = {
    "composed in repeated in composed": E.Composed(
        [E.Repeated(E.Composed([A, E.Repeated(B, 2), E.Composed([])]), 2), C]
    ),
    "parallel in parallel": E.Parallel((A, E.Parallel((B, E.Parallel((C, D)))))),
    "parallel of composed": E.Parallel(
        (E.Composed([A, B]), E.Repeated(C, 3), E.Repeated(D, 5))
    ),
    "repeated parallel": E.Repeated(E.Parallel((A, B)), 3),
    "repeated composed parallel": E.Repeated(E.Composed([E.Parallel((A, B)), C]), 2),
    "two parallels": E.Composed([E.Parallel((A, B)), E.Parallel((C, D, S)), B]),
    "parallel of repeated parallels": E.Parallel(
        (
            E.Repeated(E.Parallel((A, D)), 4),
            E.Repeated(E.Composed([E.Parallel((B, S)), R]), 2),
        )
    ),
    "a part without anything": E.Composed([E.Parallel((E.Nothing(), A)), B]),
    "a part that shows": E.Composed([E.Parallel((R, A)), E.Parallel((D, R))]),
}


FIRST = [
    "composed in repeated in composed", "parallel in parallel", "a part that shows",
    "repeated composed parallel",
]  # fmt: skip


@pytest.mark.parametrize("name", by_tier(NESTED, lambda _, name: name in FIRST))
def test_nested(name):
    event = NESTED[name]
    truth, epsilons = truth_of(event)
    assert not understated(event, truth, epsilons)
    assert not overstated(event, truth, epsilons)


def test_parts_are_the_worst_of_them():
    for parts in ((A, B, C), (B, E.Composed([A, C])), (R, S), (CHOICE, A)):
        for epsilon in (0.0, 0.4, 0.9, 2.0):
            most = max(event_delta(part, epsilon) for part in parts)
            assert event_delta(E.Parallel(parts), epsilon) == most
            assert event_delta(E.Parallel(parts[::-1]), epsilon) == most
        most = max(event_epsilon(part, 0.01) for part in parts)
        assert event_epsilon(E.Parallel(parts), 0.01) == most
    for whole in (E.Parallel((A, E.NonPrivate())), E.Parallel((C, R))):
        assert event_epsilon(E.Repeated(whole, 2), 1e-4) == math.inf
    # A record may be in the same part each time, or, where parts change, in others.
    assert event_epsilon(E.Repeated(E.Parallel((A, C)), 3), 0.0) == pytest.approx(3.6)


@pytest.mark.slow
def test_more_combinations_than_are_kept():
    """In place of 21 the package keeps one that says no less than any."""
    many = E.Repeated(E.Parallel((D, B)), 20)
    assert not understated(many, *truth_of(many))
    # Of pure parts alone the larger total, however often.
    pure = E.Repeated(E.Parallel((E.Pure(0.5), E.Laplace(2.5))), 40)
    assert event_epsilon(pure, 0.0) == pytest.approx(20, rel=1e-12)
    pure = E.Repeated(E.Parallel((D, A)), 20)
    assert not understated(pure, *truth_of(pure))
    assert event_epsilon(pure, 0.0) == pytest.approx(16, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_trees(seed):
    rng = np.random.default_rng(seed)

    def tree(depth):
        kind = rng.integers(4) if depth else 3
        if kind == 3:
            return [A, B, C, D, S, R][rng.integers(6)]
        if kind == 2:
            return E.Repeated(tree(depth - 1), int(rng.integers(1, 3)))
        return (E.Composed, E.Parallel)[kind]([tree(depth - 1) for _ in range(2)])

    event = E.Composed([tree(3), E.Parallel([tree(2), tree(1)])])
    truth, epsilons = truth_of(event)
    assert not understated(event, truth, epsilons[:4])


# The checker itself: what would be stated if something were forgotten

WRONG = {
    "first part": (E.Parallel((D, A)), D),
    "parts that go together alone": (
        E.Composed([E.Parallel((A, B)), E.Parallel((C, D))]),
        E.Parallel((E.Composed([A, C]), E.Composed([B, D]))),
    ),
    "a sample": (E.Composed([A, E.Repeated(S, 4)]), E.Composed([A, E.Repeated(S, 3)])),
    "a curve": (E.Composed([CHOICE, B]), B),
    "all mu but the largest": (E.Composed([B, E.Parallel((A, B))]), E.Parallel((A, B))),
    "what is shown": (E.Composed([B, E.Parallel((A, R))]), E.Composed([B, A])),
}  # fmt: skip


@pytest.mark.parametrize("forgotten", WRONG)
def test_checker_sees_mistakes(forgotten):
    event, wrong = WRONG[forgotten]
    assert understated(wrong, *truth_of(event))


# Guarantees


def test_guarantees_agree_with_events():
    a, b = guarantee(A), guarantee(B, 1e-6, source="Another")
    c = guarantee(CHOICE, 1e-7, claimed=(0.1, 0.0))
    for found, event, delta in (
        (a + b, E.Composed([A, B]), 1e-6),
        (compose(a, b, c), E.Composed([A, B, CHOICE]), 1.1e-6),
        (a | b, E.Parallel((A, B)), 1e-6),
        (compose_parallel(c, b, a), E.Parallel((CHOICE, B, A)), 1e-6),
        (3 * b, E.Repeated(B, 3), 3e-6),
        (b * np.int64(3), E.Composed([B, B, B]), 3e-6),
        (b.repeated(2, delta=1e-9), E.Repeated(B, 2), 1e-9),
        (
            2 * (a | b) + c,
            E.Composed([E.Repeated(E.Parallel((A, B)), 2), CHOICE]),
            2.1e-6,
        ),
        (
            (a + c) | 4 * a,
            E.Parallel((E.Composed([A, CHOICE]), E.Repeated(A, 4))),
            1e-7,
        ),
        (compose_parallel(a, b, delta=0.01), E.Parallel((A, B)), 0.01),
    ):
        assert found.delta == pytest.approx(delta, rel=1e-12)
        # Sums are rounded up, in whatever order they come.
        exact = event_epsilon(event, found.delta)
        assert found.epsilon == pytest.approx(exact, rel=1e-14)
        assert (found.unit, found.relation) == ("sample", "replace-one")
        for epsilon in (0.0, 0.5, 1.0, 3.0):
            expected = event_delta(event, epsilon)
            assert found.delta_at(epsilon) == pytest.approx(expected, rel=1e-12)
    assert (a + b).source == (b | a).source == "A theorem; Another"
    assert (c | b).claimed == (max(0.1, b.epsilon), 1e-6)
    assert (c + b).claimed == (0.1 + b.epsilon, 1e-6)
    assert (c * 3).claimed == (0.1 * 3, 0.0)
    assert (a | a).epsilon == a.epsilon < (a + a).epsilon == (2 * a).epsilon
