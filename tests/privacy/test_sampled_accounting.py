"""Poisson samples and Renyi divergences, from first principles.

A law is a pair (p, q) of masses of the same cells of outputs under two neighbours.
Cells forget where in them the output lies, so that no delta of a law is above the
true one. `bracket` composes laws by FFT on a lattice of losses, and encloses theirs:

- below by drawing for every cell one of the two nearest lattice points, which is
  post-processing, and rounding the losses that this gives down;
- above by the chords of the curve, which is the same draw with the points' losses.
"""

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy import fft
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from sktensordp.mechanisms import GaussianMechanism
from sktensordp.privacy import PrivacyGuarantee, compose
from tests.support import distributions as L
from tests.support import events as E
from tests.support.seams import event_delta, event_epsilon, event_renyi

pytestmark = pytest.mark.thorough
# What the package adds to a delta, and as much again.
_SLACK, _SLACK_EACH = 2e-12, 2e-15
_SHARE = 1 / 64  # of a step: losses this little below a point count as the point


def gaussian(mu):
    return L.gaussian(mu, 2**16, 12)


def spread(law):
    """Mean, deviation and reach of the loss."""
    p, q = (side[(law[0] > 0) & (law[1] > 0)] for side in law)
    losses = np.log(p) - np.log(q)
    mean = float((p * losses).sum())
    deviation = math.sqrt((p * (losses - mean) ** 2).sum())
    return mean, deviation, float(np.ptp(losses[np.maximum(p, q) > 1e-17]))


def lattice(law, step):
    """First index and masses on the lattice of losses step * index, from both sides.

    From below, the losses are step * (index - _SHARE).
    """
    p, q = (side[(law[0] > 0) & (law[1] > 0)] for side in law)
    losses = np.log(p) - np.log(q)
    index = np.floor(losses / step)
    share = np.expm1(np.minimum(index * step - losses, 0)) / math.expm1(-step)
    first = int(index.min())
    place = index.astype(int) - first
    size = int(place.max()) + 2
    up, down = np.bincount(place + 1, p * share, size), p * (1 - share)
    masses = up + np.bincount(place, down, size)
    relative = np.exp(index * step - losses)  # q e^loss of the point, over p
    others = np.bincount(place + 1, p * share * relative * math.exp(step), size)
    others += np.bincount(place, down * relative, size)
    some = np.flatnonzero((masses > 0) & (others > 0))
    excess = np.log(masses[some] / others[some]) / step
    rounded = some + np.floor(excess + _SHARE).astype(int)
    least = int(rounded.min())
    below = np.bincount(rounded - least, masses[some])
    return (first + least, below), (first, masses)


def exponent(tilt, parts, step, epsilon):
    """Logarithm of E e^(tilt (loss - epsilon)); parts: (first index, masses, count)."""
    total = -tilt * epsilon
    for first, masses, count in parts:
        losses = step * (first + np.arange(masses.size))
        top = tilt * losses[masses > 0][-1]
        tilted = masses * np.exp(tilt * losses - top)
        total += count * (top + math.log(tilted.sum()))
    return total


def lattice_delta(parts, step, epsilon, length, tilt):
    """Delta of the composed parts. A tilt that puts epsilon amid them keeps digits."""
    middle, transform = 0, 1.0
    for first, masses, count in parts:
        tilted = masses * np.exp(tilt * step * np.arange(1 - masses.size, 1))
        tilted /= tilted.sum()
        mean = round(float((tilted * np.arange(tilted.size)).sum()))
        padded = np.roll(np.pad(tilted, (0, length - tilted.size)), -mean)
        transform = transform * fft.rfft(padded) ** count
        middle += count * (first + mean)
    total = np.roll(fft.irfft(transform, length), length // 2)
    excess = step * (middle + np.arange(length) - length // 2) - epsilon
    total, excess = total[excess > 0], excess[excess > 0]
    gain = (total * np.exp(-tilt * excess) * -np.expm1(-excess)).sum()
    return math.exp(min(exponent(tilt, parts, step, epsilon), 700.0)) * float(gain)


def bracket(laws, epsilons, unit=None, bins=2**15):
    """Bounds on the larger delta of both orders for (law, count), at each epsilon.

    The losses of finite laws are multiples of `unit`.
    """
    widths = [(*spread(law)[1:], n) for law, n in laws]
    width = sum(min(n * r, r + 24 * d * math.sqrt(n)) for d, r, n in widths)
    step = unit / math.ceil(unit * bins / width) if unit else width / bins
    slip = step * _SHARE * sum(n for _, n in laws)
    sides = np.zeros((2, 2, len(epsilons)))
    for order in (0, 1):
        pairs = [(lattice(law[:: 1 - 2 * order], step), n) for law, n in laws]
        lows, tops = ([(*pair[i], n) for pair, n in pairs] for i in (0, 1))
        longest = max(width / step, *(masses.size for _, masses, _ in lows + tops))
        length = 2 * fft.next_fast_len(int(longest), real=True)
        for i, e in enumerate(epsilons):
            tilt = minimize_scalar(
                lambda t, e=e, tops=tops: exponent(math.exp(t), tops, step, e),
                bounds=(-7, 9), method="bounded", options={"xatol": 0.05},
            ).x  # fmt: skip
            at = length, math.exp(tilt)
            sides[order, 0, i] = lattice_delta(lows, step, e + slip, *at)
            sides[order, 1, i] = lattice_delta(tops, step, e, *at)
    return sides.max(axis=0)


def integrate(function, low, high):
    nodes, weights = np.polynomial.legendre.leggauss(24)
    edges = np.linspace(low, high, 65)
    half = np.diff(edges)[:, None] / 2
    values = function(edges[:-1, None] + half * (1 + nodes))
    return float((values * half * weights).sum())


def sampled_delta(rate, mu, epsilon):
    """Both orders of (1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1), integrated.

    With k where the loss is epsilon, the excess is c e^(-x^2 / 2) (e^(mu (x - k)) - 1).
    """

    def excess(x):
        slope = mu * (x - k)
        return np.exp(np.maximum(slope, 0) - x * x / 2) * -np.expm1(-abs(slope))

    c = math.expm1(epsilon) + rate
    k = mu / 2 + math.log(c / rate) / mu
    remove, add = c * integrate(excess, k, max(k, mu) + 12), 0.0
    c = math.expm1(-epsilon) + rate
    if c > 0:
        k = mu / 2 + math.log(c / rate) / mu
        add = c * integrate(excess, min(k, 0) - 12 if k < 60 else -12, min(k, 60))
    return max(remove, math.exp(epsilon) * add) / math.sqrt(2 * math.pi)


def understated(event, lower, epsilons):
    """Whether the package claims more privacy than a lower bound of delta allows."""
    for epsilon, delta in zip(epsilons, lower, strict=True):
        if not event_delta(event, epsilon) >= delta * (1 - 1e-9) - 1e-13:
            return True
        # What FFTs lose, 1e-13 of delta, moves epsilon by less than 1e-9.
        least = epsilon * (1 - 1e-9) - 1e-9
        if 1e-20 < delta < 0.99 and not event_epsilon(event, delta) >= least:
            return True
    return False


def sampled(rate, mu, count=1):
    event = E.Sampled(rate, E.Gaussian(1 / mu))
    return E.Repeated(event, count), L.on_sample(rate, gaussian(mu)), count


def answers(rate, epsilon, count):
    event = E.Sampled(rate, E.Pure(epsilon))
    return E.Repeated(event, count), L.on_sample(rate, L.response(epsilon)), count


WEIGHTS = np.array([[8, 1, 1], [1, 8, 1], [1, 1, 8]])
NOISE = {
    "gaussian": (E.Gaussian(2.0), gaussian(0.5), 1),
    "laplace": (E.Laplace(2.0), L.double_exponential(0.5, 501), 1),
    "pure": (E.Repeated(E.Pure(0.7), 2), L.response(0.7), 2),
    "table": (E.Table(tuple(map(tuple, WEIGHTS.tolist()))), WEIGHTS[:2] / 10, 1),
}
# How far delta may be above the truth, a unit of which the losses of finite laws are
# multiples, and releases. The package allows a sampled pure release both signs of its
# largest loss.
COMPOSITIONS = {
    "hundred": (1e-3, None, (sampled, 0.01, 1.0, 100)),
    "thousand": (1e-3, None, (sampled, 0.01, 1.0, 1000)),
    "ten large": (1e-2, None, (sampled, 0.01, 4.0, 10)),
    "tiny mu": (1e-2, None, (sampled, 0.01, 1e-4, 1000)),
    "large mu": (1e-3, None, (sampled, 0.01, 30.0, 2)),
    "rare": (1e-2, None, (sampled, 1e-6, 0.5, 1000)),
    "often": (1e-3, None, (sampled, 0.999, 0.3, 5)),
    "two rates": (1e-3, None, (sampled, 0.01, 1.0, 99), (sampled, 0.2, 0.5, 20)),
    "with gaussian": (1e-3, None, (sampled, 0.05, 1.0, 30), "gaussian"),
    "with laplace": (1e-3, 1e-3, (sampled, 0.05, 1.0, 30), "laplace"),
    "with pure": (1e-3, 0.7, (sampled, 0.05, 1.0, 30), "pure"),
    "with table": (1e-3, math.log(8), (sampled, 0.1, 1.0, 5), "table"),
    "with answers": (9, None, (sampled, 0.05, 1.0, 30), (answers, 0.05, 1.0, 30)),
    "answers": (1.0, None, (answers, 0.01, 0.1, 20)),
}


def composed(*parts):
    """The event, the laws, and epsilons where its delta is neither 0 nor 1."""
    parts = [NOISE[p] if isinstance(p, str) else p[0](*p[1:]) for p in parts]
    spreads = [(*spread(law)[:2], n) for _, law, n in parts]
    mean = sum(n * m for m, _, n in spreads)
    deviation = math.sqrt(sum(n * d * d for _, d, n in spreads))
    epsilons = [max(mean + z * deviation, 0.0) for z in (-1, 1, 3, 5)]
    return E.Composed([part[0] for part in parts]), [p[1:] for p in parts], epsilons


FIRST = ["two rates", "with gaussian", "with answers", "with laplace"]
OTHERS = [n for n in COMPOSITIONS if n not in FIRST]


@pytest.mark.parametrize(
    "name", [*FIRST, *(pytest.param(n, marks=pytest.mark.slow) for n in OTHERS)]
)
def test_compositions(name):
    relative, unit, *parts = COMPOSITIONS[name]
    event, laws, epsilons = composed(*parts)
    lower, upper = bracket(laws, epsilons, unit)
    assert not understated(event, lower, epsilons)
    slack = _SLACK + _SLACK_EACH * sum(n for _, n in laws)
    for epsilon, delta in zip(epsilons, upper, strict=True):
        assert event_delta(event, epsilon) <= delta * (1 + relative) + slack


@pytest.mark.parametrize(
    "parts",
    [
        [(sampled, 1e-3, 1.0, 10_000)], [(sampled, 0.01, 0.9, 10_000)],
        [(sampled, 0.05, 1.0, 300), "gaussian"], [(sampled, 0.05, 1.0, 30), "pure"],
    ],
)  # fmt: skip
def test_deltas_that_no_grid_of_losses_resolves(parts):
    """Down to 1e-25, where Renyi divergences give a bound that is not far off."""
    unit = 0.7 if "pure" in parts else None
    event, laws, epsilons = composed(*parts)
    start, deviation = epsilons[1], (epsilons[3] - epsilons[1]) / 4
    epsilons = [start + k * deviation for k in (5, 7, 9)]
    lower, _ = bracket(laws, epsilons, unit)
    assert 0 < lower[-1] < 1e-11
    for epsilon, delta in zip(epsilons, lower, strict=True):
        assert event_delta(event, epsilon) >= delta * (1 - 1e-9)
        found = event_epsilon(event, delta)
        assert epsilon * (1 - 1e-9) <= found <= 4 * epsilon


def test_checker_sees_small_mistakes():
    _, laws, epsilons = composed((sampled, 0.01, 1.0, 100), "gaussian")
    lower, _ = bracket(laws, epsilons)
    wrong = E.Composed([sampled(0.01, 1.0, 99)[0], E.Gaussian(2.0)])
    assert understated(wrong, lower, epsilons)


@pytest.mark.parametrize(
    ("rate", "mu"),
    [(0.05, 0.3)] + [
        pytest.param(rate, mu, marks=pytest.mark.slow)
        for rate, mu in ((1 - 1e-6, 3.0), (0.5, 1e-4), (0.05, 30.0), (1 - 1e-6, 30.0))
    ],
)  # fmt: skip
def test_one_release_by_quadrature(rate, mu):
    event, whole, worst = E.Sampled(rate, E.Gaussian(1 / mu)), E.Gaussian(1 / mu), 1.0
    for epsilon in sorted([0.0, mu * mu / 2, *(rate * mu * z for z in (0.1, 1, 3, 8))]):
        delta, ours = sampled_delta(rate, mu, epsilon), event_delta(event, epsilon)
        assert delta * (1 - 1e-9) - 1e-13 <= ours <= delta * 1.01 + _SLACK
        worst = min(event_delta(whole, epsilon), worst) * (1 + 1e-9)
        assert ours <= worst
        if 1e-300 < delta < 0.9 * event_delta(event, 0.0):
            assert event_epsilon(event, delta) >= epsilon * (1 - 1e-9)
    for delta in (1e-13, 1e-12, 1.1e-12):
        epsilon = event_epsilon(event, delta)
        assert 0 <= epsilon <= event_epsilon(whole, delta)
        assert sampled_delta(rate, mu, epsilon) <= delta + 1e-25


@pytest.mark.parametrize(
    ("rate", "mu", "count"),
    [(1e-3, 1.0, 1)] + [
        pytest.param(*case, marks=pytest.mark.slow)
        for case in ((1e-3, 0.3, 10), (1e-6, 3.0, 1), (1e-300, 3.0, 10))
    ],
)  # fmt: skip
def test_small_rates(rate, mu, count):
    # Whose losses are nearly always nearly 0 and in rare cases large.
    event = sampled(rate, mu, count)[0]
    for delta in (1e-5, 1e-9):
        epsilon = event_epsilon(event, delta)
        assert sampled_delta(rate, mu, epsilon) <= delta
        assert epsilon <= event_epsilon(E.Gaussian(1 / mu / count**0.5), delta)
        # The record is in no sample but for a probability of count * rate.
        assert epsilon == 0 or delta < count * rate


def test_one_sample_of_several_releases():
    # Both are about one sample: whether a record is in it is seen in both together.
    for rate, mu, epsilon in ((0.01, 1.0, 1.0), (0.5, 2.0, 2.0)):
        sides = zip(gaussian(mu), L.response(epsilon), strict=True)
        law = [np.outer(*pair).ravel() for pair in sides]
        p, q = L.on_sample(rate, law)
        both = E.Sampled(rate, E.Composed([E.Gaussian(1 / mu), E.Pure(epsilon)]))
        for e in (0.0, 0.5, 2.0):
            removed = np.maximum(p - math.exp(e) * q, 0).sum()
            added = np.maximum(q - math.exp(e) * p, 0).sum()
            assert not understated(both, [max(removed, added) * (1 - 1e-6)], [e])
    both = E.Sampled(0.1, E.Composed([E.Gaussian(0.6), E.Gaussian(0.8)]))
    mu = math.hypot(1 / 0.6, 1 / 0.8)
    assert not understated(both, [sampled_delta(0.1, mu, 1.0)], [1.0])
    both = E.Sampled(0.1, E.Composed([E.Pure(0.3), E.Laplace(1 / 0.4)]))
    expected = math.log1p(0.1 * math.expm1(0.7))
    assert event_epsilon(both, 0.0) == pytest.approx(expected, rel=1e-12)


def test_pure_amplification_by_enumeration():
    # Randomised response about any property of a sample of three records.
    samples = np.array(list(product((0, 1), repeat=3)))
    for rate, epsilon in product((1e-6, 0.2, 0.9), (0.1, 2.0, 9.0)):
        masses = np.where(samples, rate, 1 - rate)
        of, without = masses.prod(axis=1), masses[:, :2].prod(axis=1)
        without[samples[:, 2] == 1] = 0
        worst = 0.0
        for says_no in product((0, 1), repeat=8):
            yes = L.response(epsilon)[0][list(says_no)]
            worst = max(worst, abs(math.log((of @ yes) / (without @ yes))))
        event = E.Sampled(rate, E.Pure(epsilon))
        # 2e-15: sums are rounded; their logarithm is as small as 1e-7 here.
        # And it is rounded up, never down.
        found = event_epsilon(event, 0.0)
        assert worst - 2e-15 <= found <= worst * (1 + 2e-12) + 2e-15
        assert event_delta(event, event_epsilon(event, 0.0)) == 0.0
        assert event_epsilon(event, 0.0) <= epsilon
    large = event_epsilon(E.Sampled(0.5, E.Pure(720.0)), 0.0)
    assert large == pytest.approx(720 - math.log(2), rel=2e-12)


def test_residual_inside_a_sample():
    residual = E.Residual(0.05, 1e-3)
    for ideal in (E.Gaussian(1.0), E.Pure(1.0)):
        inside = E.Sampled(0.2, E.Composed([ideal, residual]))
        outside = E.Composed([E.Sampled(0.2, ideal), residual])
        for e in (0.0, 0.05, 0.2, 0.5, 1.0):
            assert event_delta(inside, e) == event_delta(outside, e)
    # Binary responses that the sampler moves as far as it may, in each branch.
    far = math.exp(0.05)
    moved = [
        (u, min(far * u + 1e-3, 1 - (1 - u - 1e-3) / far), (u - 1e-3) / far)
        for u in L.response(1.0)[0]
    ]
    for with_it, without in product(*moved):
        p, q = (np.array([u, 1 - u]) for u in (0.2 * with_it + 0.8 * without, without))
        for e in (0.0, 0.1, 0.2, 0.3):
            worst = max(*(p - math.exp(e) * q), *(q - math.exp(e) * p))
            assert worst <= event_delta(inside, e) + 1e-14


def test_ends_of_the_rate():
    for inner in (
        E.Gaussian(1.3),
        E.Pure(0.4),
        E.Composed([E.Gaussian(2), E.Laplace(3)]),
    ):
        for value in (0.0, 1e-13, 1e-5, 0.1):
            assert event_epsilon(E.Sampled(0.0, inner), value) == 0.0
            assert event_delta(E.Sampled(0, inner), value) == 0.0
            whole = event_epsilon(inner, value)
            assert event_epsilon(E.Sampled(1.0, inner), value) == whole
    assert event_epsilon(E.Sampled(0.5, E.NonPrivate()), 0.1) == math.inf
    for rate in (-1e-9, 1.0 + 1e-9, math.nan, math.inf):
        with pytest.raises(ValueError, match="probability"):
            event_epsilon(E.Sampled(rate, E.Gaussian(1.0)), 1e-5)
    inner = E.Sampled(0.5, E.Gaussian(1.0))
    for whole in (inner, E.Composed([E.Gaussian(1.0), E.Repeated(inner, 2)])):
        with pytest.raises(NotImplementedError, match="no privacy accounting"):
            event_epsilon(E.Sampled(0.5, whole), 1e-5)


EXTREMES = [
    E.Composed([E.Pure(800.0), E.Sampled(0.1, E.Gaussian(1.0))]),
    E.Sampled(1e-310, E.Pure(705.0)),
    E.Composed([E.Pure(1e-12), E.Sampled(0.1, E.Gaussian(1.0))]),
    E.Composed([E.Sampled(0.1, E.Gaussian(1e9)), E.Sampled(0.1, E.Gaussian(0.3))]),
    E.Repeated(E.Sampled(0.5, E.Gaussian(1e170)), 10),
]
LATER = [pytest.param(event, marks=pytest.mark.slow) for event in EXTREMES[2:]]


@pytest.mark.parametrize("event", EXTREMES[:2] + LATER)
def test_extremes(event):
    assert 0 <= event_epsilon(event, 1e-7) < 1e10
    assert 0 <= event_delta(event, 0.5) <= 1


NUMBERS = (1e-300, 1e-30, 1e-9, 1e-3, 0.5, 3.0, 700.0, 1e4, 1e30, 1e300, math.inf)
COUNTS = (1, 2, 1000, 10**30, 10**400)
RATES = (0, 5e-324, 1e-30, 1e-3, 0.5, 1 - 2**-53, 1)


def extreme_events(rng, n):
    """Events of all kinds with parameters from the ends of their ranges."""
    table = E.Table(((10**9, 1), (1, 10**9)))
    for _ in range(n):
        number, rate = rng.choice(NUMBERS), RATES[rng.integers(len(RATES))]
        count = COUNTS[rng.integers(len(COUNTS))]
        simple = [
            E.Gaussian(number), E.Laplace(number), E.Pure(number), table,
            E.Integers(number, min(count, 10**30)),
            E.Residual(number, min(number, 0.5)),
        ]  # fmt: skip
        one = simple[rng.integers(len(simple))]
        yield (
            [
                lambda one=one: one,
                lambda one=one, rate=rate: E.Revealing(rate, one),
                lambda one=one, rate=rate: E.Sampled(rate, one),
                lambda one=one, count=count: E.Group(one, count),
                lambda one=one: E.Parallel([one, E.Pure(0.5)]),
            ][rng.integers(5)](),
            count,
        )


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_parameters_an_event_has_a_guarantee(seed):
    """Infinite, or no smaller than the guarantees of what it is composed of."""
    rng = np.random.default_rng(seed)
    fields = {"unit": "sample", "statement": "-", "source": "-"}
    previous = E.Pure(0.0)
    for event, count in extreme_events(rng, 25):
        delta = float(rng.choice([0.0, 1e-300, 1e-11, 1e-6, 0.3]))
        epsilons = []
        try:
            for whole in (
                event,
                E.Repeated(event, count),
                E.Composed([event, previous]),
            ):
                found = PrivacyGuarantee.from_event(whole, delta=delta, **fields)
                epsilons.append(found.epsilon)
                assert 0 <= found.delta_at(1.0) <= 1
                assert 0 <= found.delta_at(1e300) <= 1
        except NotImplementedError:
            continue
        assert min(epsilons) == epsilons[0] >= 0
        previous = event


def test_renyi_of_pure_releases():
    for epsilon, order in product((1e-8, 1e-3, 1.0, 800.0), (1 + 1e-6, 2.0, 64.0, 1e6)):
        with mpmath.workdps(60):
            e, a = mpmath.mpf(epsilon), mpmath.mpf(order)
            moment = mpmath.cosh((a - 0.5) * e) / mpmath.cosh(e / 2)
            exact = float(mpmath.log(moment) / (a - 1))
        ours = event_renyi(E.Pure(epsilon), order)
        assert exact * (1 - 1e-9) <= ours <= min(exact * (1 + 1e-6), epsilon)
    assert event_renyi(E.Pure(2.0), math.inf) == 2.0
    for scale, order in product((0.3, 1.0, 5.0), (1.01, 1.5, 4.0, 40.0)):

        def integrand(x, order=order, scale=scale):
            p, q = -abs(x) / scale, -abs(x - 1) / scale
            return math.exp(order * p + (1 - order) * q) / (2 * scale)

        ends = [-40 * scale, 0, 1, 1 + 40 * scale]
        total = sum(quad(integrand, *ends[i : i + 2])[0] for i in range(3))
        assert math.log(total) / (order - 1) <= event_renyi(E.Laplace(scale), order)


@pytest.fixture(scope="module")
def step():
    mechanism = GaussianMechanism(2.0, delta=1e-6, sensitivity=1.0)
    return mechanism.fit(np.zeros((1, 3))).privacy_guarantee_


def test_subsampled_guarantee(step):
    mu = math.sqrt(step.renyi_at(2.0))
    assert step.renyi_at(7.0) == pytest.approx(7 * mu * mu / 2, rel=1e-12)
    for order in (1.0, math.nan):
        with pytest.raises(ValueError, match="order"):
            step.renyi_at(order)
    one = step.subsampled(0.01)
    assert (one.relation, one.delta, one.unit) == ("add-or-remove", 1e-6, "sample")
    assert step.subsampled(0.01, delta=1e-4).epsilon < one.epsilon < step.epsilon / 20
    assert one.subsampled(1.0).epsilon == one.epsilon
    assert step.subsampled(1.0).epsilon == pytest.approx(step.epsilon, rel=1e-9)
    for rate in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="rate"):
            step.subsampled(rate)
    words = {"unit": "sample", "statement": "A sum.", "source": "None."}
    replacing = PrivacyGuarantee.from_event(E.Gaussian(1.0), delta=1e-6, **words)
    with pytest.raises(ValueError, match="replace-one"):
        replacing.subsampled(0.1)
    with pytest.raises(ValueError, match="relation"):
        compose(one, replacing)
    with pytest.raises(NotImplementedError, match="samples of samples"):
        one.subsampled(0.5)
