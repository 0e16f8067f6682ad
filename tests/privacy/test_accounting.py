"""What a composition guarantees, against divergences computed from first principles.

Two kinds of assertion: the package never reports less than the independent value
(`understated`, to rounding), and hardly more (`overstated`). The independent value is
exact for finite outputs and integers. Laplace noise is cut into cells, which can only
lower it; how much the cells and the package's grid of losses may differ is said at
_RELATIVE.
"""

import math
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, permutations, product

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.integrate import quad
from scipy.stats import binom, laplace

from tests.support import divergence as D
from tests.support import events as E
from tests.support.processes import in_spawned
from tests.support.seams import (
    LevelDistribution,
    compose_events,
    event_delta,
    event_epsilon,
    level_table,
)

NOTHING = np.zeros(1), np.ones(1)
KARY = ((8, 1, 1), (1, 8, 1), (1, 1, 8))
THREE_ROWS = ((10, 5, 3, 2), (4, 6, 6, 4), (2, 3, 5, 10))
TWO_ROWS = ((7, 2, 1), (3, 3, 4))
LEVELS = level_table((1.0, 2.0, 3.0, 4.0, 5.0), 1.0).weights


def response(noise, n_levels, rate, keep):
    """Randomised response on levels, and one law for each ordered pair of levels."""
    event = E.Response(LevelDistribution(noise, n_levels, rate), keep)
    return event, lambda: D.table_pairs(D.level_rows(noise, n_levels, rate, keep))


# An event and the laws that it may follow: one, or one for each ordered pair of rows.
RELEASES = {
    "pure 0.001": (E.Pure(1e-3), lambda: [D.response(1e-3)]),
    "pure 0.5": (E.Pure(0.5), lambda: [D.response(0.5)]),
    "pure 3": (E.Pure(3.0), lambda: [D.response(3.0)]),
    "laplace 0.1": (E.Laplace(10.0), lambda: [D.laplace(0.1)]),
    "laplace 1": (E.Laplace(1.0), lambda: [D.laplace(1.0)]),
    "laplace 4": (E.Laplace(0.25), lambda: [D.laplace(4.0)]),
    "integers 1.2": (E.Integers(0.3, 4), lambda: [D.discrete_laplace(0.3, 4)]),
    "integers 0.85": (
        E.Integers(0.05, 17),
        lambda: [D.discrete_laplace(0.05, 17)],
    ),
    "integers 3": (E.Integers(1.0, 3), lambda: [D.discrete_laplace(1.0, 3)]),
    "k-ary": (E.Table(KARY), lambda: D.table_pairs(KARY)),
    "three rows": (E.Table(THREE_ROWS), lambda: D.table_pairs(THREE_ROWS)),
    "levels": (E.Table(LEVELS), lambda: D.table_pairs(LEVELS)),
    "two rows": (E.Table(TWO_ROWS), lambda: D.table_pairs(TWO_ROWS)),
    "truncated Laplace": response("laplace", 3, 0.3, 0.1),
    "truncated Gaussian": response("gaussian", 3, 0.2, 0.02),
    "wrapped": response("wrapped", 3, 0.4, 0.3),
    "two-sided geometric": response("geometric", 3, 0.7, 0.05),
}
# The steps of the losses that lie on a lattice, by which to compose twenty of them.
STEPS = {
    "pure 0.001": 1e-3,
    "pure 0.5": 0.5,
    "pure 3": 3.0,
    "laplace 0.1": 0.1 / 500,
    "laplace 1": 1 / 500,
    "laplace 4": 4 / 500,
    "integers 1.2": 0.3,
    "integers 0.85": 0.05,
    "integers 3": 1.0,
}
PARTNERS = ["pure 0.5", "laplace 1", "integers 0.85", "k-ary", "three rows", "levels"]
PARTNERS += ["truncated Laplace"]
TIGHT = [name for name in RELEASES if name != "two rows"]

_SHARES = (0.0, 0.1, 0.6, 0.99)
_DELTAS = (0.3, 1e-5, 1e-10)
# Rounding: 1e-9 of delta, and the 1e-13 by which 1 - 0.99... is uncertain.
_ROUNDING, _ABSOLUTE_ROUNDING = 1e-9, 1e-13
# Looseness: the package joins a curve on a grid of 40,000 losses by chords. Over a
# kink inside a step, a chord is too high by up to a quarter of the step: _CHORD times
# the total epsilon. Laplace noise in 500 cells is low by an order of the square of a
# cell's losses, (4 / 500)^2 = 6e-5 at most, and twenty of them together by some 5e-4.
# The package also adds 1e-12 to delta, one hundredth of the smallest delta here, which
# moves epsilon by 3e-4 of itself.
_RELATIVE, _CHORD, _EPSILON = 1e-3, 1 / 160_000, 1e-3


def understated(event, independent_delta, epsilons):
    """Whether the package claims more privacy than an independent value allows."""
    for epsilon in epsilons:
        delta = independent_delta(epsilon)
        floor = delta * (1 - _ROUNDING) - _ABSOLUTE_ROUNDING
        if not event_delta(event, epsilon) >= floor:
            return True
        # Near delta = 1 the curve is flat, and delta does not fix epsilon.
        if 0 < delta < 0.999:
            least = epsilon - _ROUNDING * max(epsilon, 1e-3)
            if not event_epsilon(event, delta) >= least:
                return True
    return False


def overstated(event, independent_delta, epsilons, absolute=1e-5):
    """Whether the package's delta is larger than it need be."""
    return any(
        event_delta(event, epsilon)
        > independent_delta(epsilon) * (1 + _RELATIVE) + absolute
        for epsilon in epsilons
    )


def check(event, laws, mu=0.0):
    """Both assertions, at many epsilons and deltas, for a composition of laws."""
    curve = D.worst(laws, mu)
    top = max(law[0].max() for law in laws) + mu * mu / 2 + 8 * mu
    epsilons = [top * share for share in _SHARES]
    assert not understated(event, curve, epsilons)
    assert not overstated(event, curve, epsilons, absolute=top * _CHORD + 1e-9)
    for delta in _DELTAS:
        exact = D.epsilon_of(curve, delta, top)
        ours = event_epsilon(event, delta)
        assert ours >= exact * (1 - _ROUNDING)
        assert ours <= exact * (1 + _EPSILON) + 1e-6
        # The grid of losses answers both questions, up to its last digits.
        assert event_delta(event, ours) <= delta * (1 + 1e-6) + 2e-12


def split(cases, remainder):
    """Every third case for the first tier, the rest for the second."""
    slow = pytest.mark.slow
    return [
        pytest.param(case, marks=slow if i % 3 - remainder else ())
        for i, case in enumerate(cases)
    ]


def assignments(groups):
    """Laws of one release from each group: every combination of pairs of rows."""
    return [D.product(*laws) for laws in product(*groups)]


@pytest.mark.parametrize("name", RELEASES)
def test_alone(name):
    event, laws = RELEASES[name]
    check(event, laws())


@pytest.mark.thorough
@pytest.mark.parametrize("name", split(TIGHT, 0))
def test_three_times(name):
    event, laws = RELEASES[name]
    check(
        E.Repeated(event, 3),
        [D.product(*chosen) for chosen in combinations_with_replacement(laws(), 3)],
    )
    assert event_delta(E.Composed([event] * 3), 0.1) == (
        event_delta(E.Repeated(event, 3), 0.1)
    )


@pytest.mark.parametrize("name", split(TIGHT, 1))
def test_twenty_times(name):
    event, laws = RELEASES[name]
    # The package is as tight as this only for the worst assignment of pairs of rows
    # to releases; in these tables some pair is the worst throughout.
    laws = [D.power(law, 20, STEPS.get(name)) for law in laws()[:6]]
    check(E.Repeated(event, 20), laws)


BESIDE_NOISE = [
    ("pure 0.5", 0.2), ("laplace 1", 1.0), ("integers 0.85", 4.0), ("three rows", 1.0),
    ("truncated Laplace", 0.2),
]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "mu"),
    BESIDE_NOISE + [pytest.param(n, 1.0, marks=pytest.mark.slow) for n in TIGHT],
)
def test_composed_with_gaussian_noise(name, mu):
    event, laws = RELEASES[name]
    noise = E.Gaussian(noise_multiplier=1 / mu)
    check(E.Composed([event, noise]), laws(), mu=mu)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *zip(PARTNERS, PARTNERS[1:] + PARTNERS[:1], strict=True),
        ("pure 0.001", "laplace 4"),
        ("pure 3", "integers 1.2"),
    ],
)
def test_composed_with_each_other(first, second):
    (one, laws), (two, others) = RELEASES[first], RELEASES[second]
    both = assignments([laws(), others()])
    check(E.Composed([one, two]), both)


@pytest.mark.thorough
def test_four_kinds_and_gaussian_noise():
    names = ["pure 0.5", "integers 1.2", "three rows"]
    laws = assignments([RELEASES[n][1]() for n in names])
    laws = [D.product(law, D.laplace(1.0, 60)) for law in laws]
    events = [RELEASES[n][0] for n in names] + [E.Laplace(1.0), E.Gaussian(1.25)]
    check(E.Composed(events), laws, mu=0.8)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
def test_random_tables(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 30, size=(3, 4))
    rows[:, 0] += rows.sum(axis=1).max() - rows.sum(axis=1)
    weights = tuple(tuple(row) for row in rows.tolist())
    event, pairs = E.Table(weights), D.table_pairs(weights)
    for count in (1, 2, 3):
        laws = [D.product(*c) for c in combinations_with_replacement(pairs, count)]
        top = max(law[0].max() for law in laws)
        epsilons = np.linspace(0, top, 7).tolist()
        assert not understated(E.Repeated(event, count), D.worst(laws), epsilons)


def laplace_integral(scale, epsilon):
    def excess(x):
        p, q = laplace.pdf(x, 0, scale), laplace.pdf(x, 1, scale)
        return max(p - math.exp(epsilon) * q, 0)

    kink = min(max((1 - epsilon * scale) / 2, 0), 1)
    ends, kinks = (-40 * scale, 1 + 40 * scale), sorted({0.0, kink, 1.0})
    return quad(excess, *ends, points=kinks, epsabs=1e-14, epsrel=1e-12, limit=500)[0]


@pytest.mark.parametrize("scale", [0.2, 1.0, 8.0])
def test_laplace_by_quadrature(scale):
    epsilons = [share / scale for share in _SHARES]
    curve = [laplace_integral(scale, e) for e in epsilons]
    ours = [event_delta(E.Laplace(scale), e) for e in epsilons]
    # quad is asked for 1e-14 and stops at about 1e-13 in sum.
    np.testing.assert_allclose(ours, curve, rtol=1e-10, atol=1e-12)


@pytest.mark.thorough
def test_gaussians_compose_in_closed_form():
    events = [E.Gaussian(2.0), E.Repeated(E.Gaussian(5.0), 7), E.Gaussian(0.9)]
    mu = mpmath.sqrt(mpmath.mpf(1) / 4 + mpmath.mpf(7) / 25 + 1 / mpmath.mpf(0.9) ** 2)
    for epsilon in (0.0, 0.5, 3.0, 9.0):
        exact = D.exact_gaussian(mu, epsilon)
        ours = event_delta(E.Composed(events), epsilon)
        assert ours == pytest.approx(float(exact), rel=1e-9)
        back = event_epsilon(E.Composed(events), float(exact))
        assert back == pytest.approx(epsilon, rel=1e-9, abs=1e-12)
    tiny = event_epsilon(E.Gaussian(1.0), 1e-300)
    assert event_delta(E.Gaussian(1.0), tiny) == pytest.approx(1e-300, rel=1e-9)


def fine_lattice(rate, shift):
    """Law of discrete Laplace noise with both tails summed as geometric series."""
    inner = np.arange(1, shift)
    masses = math.tanh(rate / 2) * np.exp(-rate * inner)
    left = 1 / (1 + math.exp(-rate))
    return (
        rate * np.concatenate([[shift], shift - 2.0 * inner, [-shift]]),
        np.concatenate([[left], masses, [left * math.exp(-rate * shift)]]),
    )


@pytest.mark.slow
def test_a_million_steps():
    steps = 2**20
    law, event = fine_lattice(4 / steps, steps), E.Integers(4 / steps, steps)
    for epsilon in (0.0, 0.5, 1.0, 2.5, 3.9, 3.999999):
        ours = event_delta(event, epsilon)
        # The running error of a million summands of size 1e-6.
        assert ours == pytest.approx(D.stick(law, epsilon), abs=1e-12)
        # The lattice is 4e-6 of the noise scale.
        assert ours == pytest.approx(laplace_integral(0.25, epsilon), abs=1e-5)
    assert event_epsilon(event, 0.0) == 4.0
    assert event_delta(event, 4.0) == 0.0

    def twice(epsilon):
        return float(law[1] @ D.sticks(law, epsilon - law[0]))

    def lower(epsilon):
        return twice(epsilon) - 1e-10  # the running sums of `sticks` are off by 1e-11

    assert not understated(E.Repeated(event, 2), lower, [0.0, 2.0, 6.0])
    assert not overstated(E.Repeated(event, 2), twice, [0.0, 2.0, 6.0])
    noisy, beside = D.worst([law], 1.0), E.Composed([event, E.Gaussian(1.0)])
    assert not understated(beside, noisy, [0.5, 5.0])
    assert not overstated(beside, noisy, [0.5, 5.0])


@pytest.mark.parametrize("name", ["pure 0.5", "laplace 4", "three rows"])
def test_strong_gaussian_with_a_pure_release(name):
    # Losses near 450 + 30 z, where e^-loss is about 1e-195 and further out is 0.
    event, laws = RELEASES[name]
    curve = D.worst(laws(), 30.0)
    composed = E.Composed([event, E.Gaussian(1 / 30)])
    epsilons = [300.0, 420.0, 450.0, 480.0, 540.0, 600.0, 640.0]
    assert not understated(composed, curve, epsilons)
    assert not overstated(composed, curve, epsilons)


@pytest.mark.parametrize("mu", [60.0, 100.0])
def test_losses_that_overflow(mu):
    # e^epsilon is no double: only basic composition is left, within 1 of the truth.
    curve = D.worst([D.response(1.0)], mu)
    composed = E.Composed([E.Pure(1.0), E.Gaussian(1 / mu)])
    for z in (-1, 0, 2, 5):
        epsilon = mu * mu / 2 + z * mu
        assert not understated(composed, curve, [epsilon])
        assert event_epsilon(composed, curve(epsilon)) < epsilon + 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("count", "single", "epsilons"),
    [
        pytest.param(1000, 1e-3, (0.0, 0.02, 0.06, 0.1, 0.14), marks=pytest.mark.slow),
        (784, 0.0095876, (0.0, 0.5, 1.0, 1.5)),
        (16, 0.25631677540268316, (0.0, 1.0, 4.0)),
    ],
)
def test_optimal_composition_theorem(count, single, epsilons):
    event = E.Repeated(E.Pure(single), count)
    curve = partial(D.responses, count, single)
    assert not understated(event, curve, epsilons)
    assert not overstated(event, curve, epsilons)
    # Values of the theorem's own inverse: 784 at (1, 1e-5) and 16 at (4, 1e-5).
    if count != 1000:
        stated = 1.0 if count == 784 else 4.0
        # The 784 are given to five digits, which move epsilon by as much.
        assert event_epsilon(event, 1e-5) == pytest.approx(stated, rel=1e-4)


@pytest.mark.slow
def test_very_many_releases():
    single, count, i = 1e-2, 100_000, np.arange(100_001)
    masses = binom.pmf(i, count, 1 / (1 + math.exp(-single)))
    law, event = ((2 * i - count) * single, masses), E.Repeated(E.Pure(single), count)
    mean, spread = count * single * math.tanh(single / 2), single * math.sqrt(count)
    epsilons = [mean + z * spread for z in (4.0, 5.5, 6.0, 6.5, 7.0)]
    assert not understated(event, D.worst([law]), epsilons)


def test_pure_epsilons_add_up_at_delta_zero():
    events = [E.Pure(0.1), E.Laplace(4.0), E.Integers(0.25, 3)]
    events += [E.Repeated(E.Table(KARY), 3), E.Repeated(E.Pure(0.1), 10)]
    total = 0.1 + 0.25 + 0.75 + 3 * math.log(8) + 1.0
    ours = event_epsilon(E.Composed(events), 0.0)
    # Logarithms of tables are rounded up by some 1e-15 each.
    assert total - 1e-15 <= ours <= total + 1e-14
    assert event_delta(E.Composed(events), ours) == 0.0
    assert event_epsilon(E.Composed([*events, E.Gaussian(1.0)]), 0.0) == math.inf
    # The float 0.1 is more than a tenth, and 0.725 is less than the sum.
    events = [E.Pure(0.1), E.Laplace(4.0), E.Integers(0.125, 3)]
    assert event_epsilon(E.Composed(events), 0.0) == math.nextafter(0.725, 1)
    ten = event_epsilon(E.Repeated(E.Pure(0.1), 10), 0.0)
    assert ten == math.nextafter(1.0, 2.0)


@pytest.mark.thorough
def test_sums_of_epsilons_are_rounded_up():
    # At a delta that no grid of losses can see, the two epsilons are added up.
    noise = event_epsilon(E.Gaussian(1.0), 1e-13)
    for pure in (0.1, 0.2, 0.3, 0.7, 1.1):
        found = event_epsilon(E.Composed([E.Pure(pure), E.Gaussian(1.0)]), 1e-13)
        assert Fraction(found) >= Fraction(pure) + Fraction(noise)
        assert found == pytest.approx(pure + noise, rel=1e-14)


def test_table_epsilon_is_never_rounded_down():
    for weights in (KARY, THREE_ROWS, TWO_ROWS, LEVELS):
        columns = list(zip(*weights, strict=True))
        ratio = max(Fraction(max(c), min(c)) for c in columns)
        with mpmath.workdps(40):
            exact = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
            ours = mpmath.mpf(event_epsilon(E.Table(weights), 0.0))
            assert exact <= ours <= exact * (1 + mpmath.mpf(10) ** -14)


def test_nothing_happened():
    for event in (
        E.Nothing(),
        E.Composed([]),
        E.Repeated(E.Pure(3.0), 0),
        E.Repeated(E.NonPrivate(), 0),
        E.Pure(0.0),
        E.Laplace(math.inf),
        E.Gaussian(math.inf),
        E.Integers(1.0, 0),
    ):
        for value in (0.0, 1e-9, 0.5):
            assert event_epsilon(event, value) == 0.0
            assert event_delta(event, value) == 0.0
        noise = E.Gaussian(1.0)
        both = E.Composed([event, noise, E.Nothing()])
        assert event_epsilon(both, 1e-5) == pytest.approx(
            event_epsilon(noise, 1e-5), rel=1e-12
        )


@pytest.mark.parametrize(
    "event",
    [
        E.NonPrivate(),
        E.Laplace(0.0),
        E.Gaussian(0.0),
        E.Pure(math.inf),
        E.Table(((0, 2), (1, 1))),
        E.Composed([E.Pure(1.0), E.Repeated(E.NonPrivate(), 2)]),
    ],
)
def test_no_privacy(event):
    for delta in (0.0, 1e-5, 0.9):
        assert event_epsilon(event, delta) == math.inf
    for epsilon in (0.0, 1.0, 1e6, math.inf):
        assert event_delta(event, epsilon) == 1.0


@pytest.mark.parametrize(
    "event",
    [
        dp_event.UnsupportedDpEvent(),
        dp_event.ZCDpEvent(rho=1.0),
        dp_event.RandomizedResponseDpEvent(noise_parameter=0.5, num_buckets=2),
        dp_event.SampledWithReplacementDpEvent(100, 10, E.Gaussian(1.0)),
        "an event",
    ],
)
def test_unknown_events(event):
    for whole in (event, E.Composed([E.Pure(1.0), E.Repeated(event, 2)])):
        with pytest.raises(NotImplementedError, match="no privacy accounting"):
            event_epsilon(whole, 1e-5)
        with pytest.raises(NotImplementedError, match="no privacy accounting"):
            event_delta(whole, 1.0)


# Samplers that differ from the ideal law


def furthest(ideal, partner, inside, e1, d1):
    """The two laws within (e1, d1) of a pair that tell it apart best by one event."""
    p, q = ideal[inside].sum(), partner[inside].sum()
    up = min(math.exp(e1) * p + d1, 1 - math.exp(-e1) * (1 - p - d1), 1)
    down = max(math.exp(-e1) * (q - d1), 1 - math.exp(e1) * (1 - q) - d1, 0)
    return [
        np.where(
            inside,
            law * share / law[inside].sum(),
            law * (1 - share) / law[~inside].sum(),
        )
        for law, share in ((ideal, up), (partner, down))
    ]


def within(law, ideal, e1, d1):
    """Whether two finite laws are (e1, d1)-close on every event."""
    factor = math.exp(e1)
    ahead = np.maximum(law - factor * ideal, 0).sum()
    behind = np.maximum(ideal - factor * law, 0).sum()
    return max(ahead, behind) <= d1 + 1e-15


RESIDUALS = [(0.0, 0.0), (0.05, 0.0), (0.0, 1e-3), (0.05, 1e-3), (0.3, 0.02)]
RARE_ROWS = ((90, 8, 1, 1), (80, 1, 8, 11), (85, 4, 4, 7))


@pytest.mark.parametrize(("e1", "d1"), RESIDUALS)
@pytest.mark.parametrize("weights", [KARY, THREE_ROWS, RARE_ROWS])
def test_residual_covers_every_nearby_law(weights, e1, d1):
    event = E.Composed([E.Table(weights), E.Residual(e1, d1)])
    rows = np.array(weights) / np.sum(weights[0])
    size = rows.shape[1]
    worst = dict.fromkeys((0.0, 0.3, 0.9, 1.6, 2.2, 3.0), 0.0)
    for ideal, partner in permutations(rows, 2):
        for bits in range(1, 2**size - 1):
            inside = (bits >> np.arange(size)) % 2 == 1
            laws = furthest(ideal, partner, inside, e1, d1)
            assert within(laws[0], ideal, e1, d1)
            assert within(laws[1], partner, e1, d1)
            for epsilon in worst:
                delta = np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0).sum()
                worst[epsilon] = max(worst[epsilon], float(delta))
    ours = {e: event_delta(event, e) for e in worst}
    for epsilon, delta in worst.items():
        assert delta <= ours[epsilon] + 1e-14
        if delta > 1e-6 and d1 <= 1e-3:
            back = event_epsilon(event, delta)
            assert back >= epsilon * (1 - 1e-9)
    # The transform is attained: by a rare output, as the last table has.
    if weights is RARE_ROWS:
        assert max(worst[e] / ours[e] for e in (0.9, 1.6)) == pytest.approx(1, rel=1e-9)


@pytest.mark.thorough
def test_residuals_of_two_releases():
    e1, d1 = 0.1, 5e-3
    rows = np.array(RARE_ROWS) / 100
    residual = E.Residual(e1, d1)
    event = E.Repeated(E.Composed([E.Table(RARE_ROWS), residual]), 2)
    added = E.Composed([E.Repeated(E.Table(RARE_ROWS), 2), E.Residual(2 * e1, 2 * d1)])
    for ideal, partner in permutations(rows, 2):
        for bits in range(1, 15):
            inside = (bits >> np.arange(4)) % 2 == 1
            p, q = furthest(ideal, partner, inside, e1, d1)
            for epsilon in (0.5, 1.5, 3.0, 5.0):
                excess = np.outer(p, p) - math.exp(epsilon) * np.outer(q, q)
                delta = np.maximum(excess, 0).sum()
                assert delta <= event_delta(event, epsilon) + 1e-14
    for epsilon in (0.5, 1.5, 3.0):
        assert event_delta(event, epsilon) == pytest.approx(
            event_delta(added, epsilon), rel=1e-12
        )


@pytest.mark.parametrize(
    "ideal",
    [E.Laplace(1.0), E.Gaussian(1.0), E.Composed([E.Laplace(2.0), E.Gaussian(2.0)])],
)
def test_residual_is_the_documented_transform(ideal):
    e1, d1 = 1e-3, 1e-8
    event = E.Composed([ideal, E.Residual(e1, d1)])
    for epsilon in (0.1, 0.6, 0.95):
        expected = math.exp(e1) * event_delta(ideal, epsilon - 2 * e1)
        expected += d1 * (1 + math.exp(epsilon - e1))
        ours = event_delta(event, epsilon)
        assert ours == pytest.approx(expected, rel=1e-12)
        # The root of that equation; the package stops within 1e-12, and the slack of
        # 1e-12 moves epsilon by far less than a millionth here.
        back = event_epsilon(event, ours)
        assert back == pytest.approx(epsilon, rel=1e-6)
        assert event_delta(event, back) <= ours * (1 + 1e-6) + 2e-12


def test_residual_alone():
    # Nothing depends on the data, but the sampler may: 2 e1, and d1 (1 + e^e1).
    assert event_epsilon(E.Residual(1e-3, 0.0), 0.0) == 2e-3
    event = E.Residual(1e-3, 1e-6)
    assert event_epsilon(event, 0.0) == math.inf
    assert event_epsilon(event, 1.9e-6) == math.inf
    assert event_epsilon(event, 2.1e-6) == pytest.approx(2e-3, rel=1e-12)
    assert event_delta(event, 2e-3) == pytest.approx(
        1e-6 * (1 + math.exp(1e-3)), rel=1e-12
    )


@pytest.mark.parametrize(
    "event",
    [
        E.Gaussian(1e160),
        E.Gaussian(1e-170),
        E.Composed([E.Integers(0.0, 1), E.Gaussian(1.0)]),
    ],
)
def test_extreme_noise(event):
    assert event_epsilon(event, 1e-5) >= 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: E.Pure(-5.0),
        lambda: E.Laplace(-0.2),
        lambda: E.Integers(-5.0, 1),
        lambda: E.Integers(5.0, -1),
        lambda: E.Gaussian(-1.0),
        lambda: E.Residual(-2.5, 0.0),
        lambda: E.Residual(0.0, -1e-9),
        lambda: E.Repeated(E.Pure(5.0), -1),
        lambda: E.Table(((-1, 3), (1, 1))),
        lambda: E.Table(((1, 3), (1, 1))),
    ],
)
def test_negative_parameters_lower_nothing(make):
    with pytest.raises(ValueError, match=r"negative|>= 0"):
        event_epsilon(E.Composed([E.Pure(5.0), make()]), 0.0)


# The checker itself

# What is stated, and what happened: a law, and mu of Gaussian noise beside it.
WRONG = {
    "Laplace scale doubled": (E.Laplace(2.0), D.laplace(1.0), 0),
    "Laplace scale up by a millionth": (E.Laplace(1.000001), D.laplace(1.0), 0),
    "integers off by one": (E.Integers(0.3, 3), D.discrete_laplace(0.3, 4), 0),
    "Gaussian multiplier up by a hundred-thousandth": (
        E.Composed([E.Pure(0.5), E.Gaussian(1.00001)]), D.response(0.5), 1.0,
    ),
    "Gaussian sensitivity halved": (E.Gaussian(2.0), NOTHING, 1.0),
    "Gaussian forgotten": (E.Pure(0.5), D.response(0.5), 0.2),
    "pure epsilon halved": (E.Pure(0.5), D.response(1.0), 0),
    "one release forgotten": (
        E.Repeated(E.Pure(0.5), 2), D.power(D.response(0.5), 3), 0,
    ),
    "log weights": (
        E.Table(((300, 100), (100, 300))), D.table_pair((20, 1), (1, 20)), 0,
    ),
    "first rows only": (
        E.Table(THREE_ROWS[:2]), D.table_pair(THREE_ROWS[0], THREE_ROWS[2]), 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_checker_sees_wrong_parameters(name):
    event, law, mu = WRONG[name]
    assert understated(event, D.worst([law], mu), (0.0, 0.3, 0.6, 0.9, 1.1))


def test_checker_sees_looseness():
    # Basic composition in place of the sharp bound, and a bound of one.
    curve = D.worst([D.power(D.response(0.5), 20, 0.5)])
    assert overstated(E.Pure(10.0), curve, [1.0, 5.0])
    assert overstated(E.Repeated(E.Pure(0.51), 20), curve, [1.0, 5.0])
    assert overstated(E.NonPrivate(), curve, [1.0])
    assert not overstated(E.Repeated(E.Pure(0.5), 20), curve, [1.0, 5.0])


def deltas_of_many():
    """Of releases whose sums and compositions tell their order by the last digits."""
    noise = [E.Gaussian(s) for s in (2.0, 3.0, 1.5)]
    sampled = [E.Sampled(0.1, one) for one in noise]
    tables = [E.Table(((a, 99 - a), (99 - a, a))) for a in (53, 58, 64)]

    def pure(*places):
        return [E.Pure(k**0.5 / 50) for k in range(*places)]

    return [
        event_delta(compose_events(events), 0.3)
        for events in (
            [*pure(1, 13), E.Laplace(1.7), *sampled], pure(20, 34) + noise,
            pure(50, 59) + noise[:1], tables + noise,
        )
    ]  # fmt: skip


@pytest.mark.slow
def test_curves_do_not_depend_on_hashes(monkeypatch):
    """Hashes of strings differ between processes, and so does the order of sets.

    The last digits tell: releases in another order add up to another step of the grid,
    or are composed in another order. Of tables, `repr` shows no more than the size.
    """
    found = []
    for seed in range(5):
        monkeypatch.setenv("PYTHONHASHSEED", str(seed))
        found.append(in_spawned(deltas_of_many))
    assert found == [found[0]] * 5
