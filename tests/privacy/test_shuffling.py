"""Shuffled messages, against all that an adversary can see, counted out.

`Crowd` is the independent side: it multiplies out the distribution of the numbers of
messages of each kind, for every choice of what the other people hold, and knows nothing
of blankets, clones or FFTs.
"""

import math
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, permutations

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from sktensordp.audit import audit_mechanism
from sktensordp.completion import CPCompletion
from sktensordp.mechanisms import (
    GaussianMechanism,
    HybridMechanism,
    LaplaceMechanism,
    PrivUnit,
    TensorRandomizedResponse,
)
from sktensordp.privacy import PrivacyBudget, PrivacyGuarantee, compose
from tests.support import divergence as D
from tests.support import events as E
from tests.support.seams import (
    BlanketPair,
    ShuffledBits,
    ShuffledCurve,
    accounting_shuffled_bits,
    blanket_divergence,
    curve_of,
    delta_of_clones,
    event_delta,
    event_epsilon,
    event_renyi,
    level_table,
    shuffled_renyi,
)

pytestmark = pytest.mark.thorough
SHARES = (0.2, 0.4, 0.6, 0.8, 0.9)
# The independent side multiplies floats: its errors are below this.
ROUNDING = 1e-11


def pair_of(rows, first=0, second=1):
    table = np.array(rows, dtype=float)
    table /= table.sum(axis=1, keepdims=True)
    return BlanketPair(table.min(axis=0), table[first], table[second])


def kary(k, kept, other=1):
    """Rows of k-ary response: epsilon is log(kept / other)."""
    return tuple(tuple(kept if x == y else other for y in range(k)) for x in range(k))


def histograms(rows, values):
    """Distribution of the numbers of messages of all kinds but the last.

    ``histograms(rows, values)[i, j, ...]`` is the probability that i messages are of
    kind 0, j of kind 1 and so on, if the people hold `values`.
    """
    n_kinds = len(rows[0])
    found = np.ones((1,) * (n_kinds - 1))
    for value in values:
        longer = np.zeros(tuple(n + 1 for n in found.shape))
        for kind in range(n_kinds):
            place = [slice(0, n) for n in found.shape]
            if kind < n_kinds - 1:
                place[kind] = slice(1, found.shape[kind] + 1)
            longer[tuple(place)] += rows[value][kind] / sum(rows[value]) * found
        found = longer
    return found


def held_by(n_people, n_values):
    """All multisets of values that some people may hold."""
    if n_values == 1:
        yield (0,) * n_people
        return
    for n_last in range(n_people + 1):
        for rest in held_by(n_people - n_last, n_values - 1):
            yield rest + (n_values - 1,) * n_last


@cache
def crowd(rows, n, pairs=None):
    """What an adversary compares: for all other people and ordered pairs of values."""
    values = range(len(rows))
    return [
        (histograms(rows, (first, *others)), histograms(rows, (second, *others)))
        for others in held_by(n - 1, len(rows))
        for first, second in pairs or permutations(values, 2)
    ]


def exact_delta(compared, epsilon):
    """Largest hockey-stick divergence."""
    factor = math.exp(epsilon)
    return max(float(np.maximum(p - factor * q, 0).sum()) for p, q in compared)


# k, weight, n: k-ary response is symmetric, so one ordered pair is all pairs.
ENUMERATED = [
    (k, weight, n)
    for k in (2, 3, 4)
    for weight in (1.6, 3, 8)
    for n in (2, 3, 5, 8, 12)
]


def integers(k, weight):
    """Integer weights of k-ary response."""
    return kary(k, int(10 * weight), 10)


@pytest.mark.parametrize(("k", "weight", "n"), ENUMERATED)
def test_no_delta_is_below_the_exact_one(k, weight, n):
    rows = integers(k, weight)
    compared = crowd(rows, n, ((0, 1),))
    epsilon0 = math.log(weight)
    for share in SHARES:
        exact = exact_delta(compared, share * epsilon0)
        for event in (E.Table(rows), E.Pure(epsilon0)):
            stated = event_delta(E.Shuffled(event, n), share * epsilon0)
            assert stated >= exact * (1 - ROUNDING)


@pytest.mark.parametrize(
    ("k", "weight", "share"),
    [(k, w, s) for k in (3, 4) for w in (1.6, 3, 8) for s in SHARES],
)
def test_kary_response_is_tight(k, weight, share):
    rows, epsilon0 = integers(k, weight), math.log(weight)
    compared = crowd(rows, 8, ((0, 1),))
    epsilon = share * epsilon0
    delta = exact_delta(compared, epsilon)
    stated = event_epsilon(E.Shuffled(E.Table(rows), 8), delta)
    assert epsilon * (1 - ROUNDING) <= stated <= 1.05 * epsilon


def test_the_largest_gap_of_kary_response_that_the_guide_states():
    rows, delta = integers(4, 3.67), 0.007
    compared = crowd(rows, 8, ((0, 1),))
    exact = D.epsilon_of(lambda epsilon: exact_delta(compared, epsilon), delta, 1.3)
    stated = event_epsilon(E.Shuffled(E.Table(rows), 8), delta)
    assert 1.05 * exact < stated < 1.0605 * exact


@pytest.mark.parametrize("weight", [1.6, 3, 8])
@pytest.mark.parametrize("n", [2, 3, 8, 12])
def test_binary_response_is_exact(weight, n):
    rows, epsilon0 = integers(2, weight), math.log(weight)
    compared = crowd(rows, n, ((0, 1),))
    shuffled = E.Shuffled(E.Table(rows), n)
    for share in (0.02, *SHARES):
        exact = exact_delta(compared, share * epsilon0)
        stated = event_delta(shuffled, share * epsilon0)
        assert exact * (1 - ROUNDING) <= stated <= exact * (1 + 1e-6)
    # The blanket of two rows, with 2 / (e^epsilon0 + 1) of all messages, is exact near
    # the epsilon of a message. Its adversary also sees whose message comes from the
    # blanket, which helps at smaller epsilons.
    pair = pair_of(rows)
    for share, most in ((0.9, 1e-6), (0.2, math.inf)):
        exact = exact_delta(compared, share * epsilon0)
        blanket = blanket_divergence(pair, n, share * epsilon0)
        assert exact * (1 - ROUNDING) <= blanket <= exact * (1 + most)


def bits_of_all_mixes(p, n, epsilons):
    """Exact deltas of binary response that tells the truth with probability p.

    One row for each j from 0 to n - 1: j of the other people hold 1.
    """
    own, deltas = np.array([1 - p, p]), []
    factors = np.exp(epsilons)[:, np.newaxis]
    for j in range(n):
        ones = binom.pmf(np.arange(j + 1), j, p)
        others = np.convolve(ones, binom.pmf(np.arange(n - j), n - 1 - j, 1 - p))
        first, second = np.convolve(others, own), np.convolve(others, own[::-1])
        deltas.append(np.maximum(first - factors * second, 0).sum(axis=1))
    return np.array(deltas)


@pytest.mark.parametrize("weight", [1.6, 8, 300])
@pytest.mark.parametrize("n", [40, 256, 600])
def test_bits_of_many_people(weight, n):
    rows, p = integers(2, weight), weight / (weight + 1)
    shuffled, epsilon0 = E.Shuffled(E.Table(rows), n), math.log(weight)
    epsilons = np.array([0.02, 0.05, 0.1, 0.2, 0.5]) * epsilon0
    deltas = bits_of_all_mixes(p, n, epsilons)
    exact = deltas.max(axis=0)
    stated = np.array([event_delta(shuffled, e) for e in epsilons.tolist()])
    assert np.all(stated >= exact * (1 - 1e-9))
    # All numbers of others who hold 1 are tried among up to 256 people. Among 600, two
    # people are left out of each range of these numbers.
    fewer = exact if n <= 256 else bits_of_all_mixes(p, n - 2, epsilons).max(axis=0)
    assert np.all(stated <= fewer * (1 + 1e-6) + 1e-30)
    # To try people who all hold the same would not do.
    assert np.any(exact > np.maximum(deltas[0], deltas[-1]) * (1 + 1e-6))


def test_people_left_out_of_very_many(monkeypatch):
    # What holds for those whom the bound uses holds for all, and so does the blanket.
    monkeypatch.setattr(accounting_shuffled_bits, "_MOST_VARIANCE", 20.0)
    bits = ShuffledBits((4 / 9, 4 / 9), 900)
    assert bits.n_counted == 82
    few = ShuffledBits((4 / 9, 4 / 9), 82)
    stated = event_delta(E.Shuffled(E.Table(((5, 4), (4, 5))), 900), 0.02)
    assert stated < bits.delta(0.02) == few.delta(0.02)


BITS = {
    "unequal": ((9, 1), (4, 6)),
    "three values": ((9, 1), (4, 6), (7, 3)),
    "nearly certain": ((999, 1), (1, 999)),
}


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("n", [2, 5, 9])
def test_messages_of_two_kinds(name, n):
    rows = BITS[name]
    compared = crowd(rows, n)
    event = E.Shuffled(E.Table(rows), n)
    epsilon0 = event_epsilon(E.Table(rows), 0.0)
    for share in (0.0, 0.05, *SHARES):
        exact = exact_delta(compared, share * epsilon0)
        stated = event_delta(event, share * epsilon0)
        assert exact * (1 - ROUNDING) <= stated <= exact * (1 + 1e-6) + 1e-14


def clone_law(epsilon0, n):
    """Losses and masses of the pair that bounds any randomizer, by its definition."""
    q, p = 1 / (math.exp(epsilon0) + 1), math.exp(-epsilon0)
    losses, masses = [], []
    for c in range(n):
        a = binom.pmf(np.arange(c + 1), c, 0.5)
        ahead, behind = np.append(0, a), np.append(a, 0)
        first, second = (1 - q) * ahead + q * behind, q * ahead + (1 - q) * behind
        losses.append(np.log(first / second))
        masses.append(binom.pmf(c, n - 1, p) * first)
    return D.merge(np.concatenate(losses), np.concatenate(masses))


@pytest.mark.parametrize("n", [2, 3, 8, 50, 400])
@pytest.mark.parametrize("epsilon0", [0.5, 2.0, 4.0])
def test_the_bound_for_any_randomizer_is_the_one_defined(epsilon0, n):
    law = clone_law(epsilon0, n)
    for share in (0.0, 0.05, *SHARES):
        epsilon = share * epsilon0
        defined = D.stick(law, epsilon)
        ours = delta_of_clones(epsilon0, n, epsilon)
        assert ours >= defined * (1 - ROUNDING)
        # A grid of sums adds two thousandths to a variance, some 1e-3 to an epsilon.
        assert ours <= defined * 1.02 or defined < 1e-12
    # Far out, where delta is 1e-30, the share of the added variance grows.
    assert delta_of_clones(epsilon0, n, 0.9 * epsilon0) < 1.1 * defined


@pytest.mark.parametrize("residual", [0.0, 0.02, 0.2])
def test_the_pair_that_counts_is_the_worst_of_all(residual):
    """Also where the distance of the sampler changes which pair that is."""
    rows = np.array([(15, 9, 6), (10, 5, 15), (6, 12, 12)]) / 30
    pairs = tuple(
        BlanketPair(rows.min(axis=0), first, second, residual)
        for first, second in permutations(rows, 2)
    )
    for epsilon in (0.2, 0.6, 1.0):
        worst = max(blanket_divergence(pair, 3, epsilon) for pair in pairs)
        curve = ShuffledCurve(3, pairs, lambda _: 9.0, lambda _: 1.0)
        assert curve.delta(epsilon) >= worst * (1 - ROUNDING)


def test_the_blanket_divergence_is_the_one_of_the_theorem():
    # Three kinds of message, counted in fractions: what the theorem's adversary sees.
    first, second = (Fraction(5, 8), Fraction(2, 8), Fraction(1, 8)), (
        Fraction(1, 8), Fraction(4, 8), Fraction(3, 8)
    )  # fmt: skip
    blanket = [min(p, q) for p, q in zip(first, second, strict=True)]
    n, factor, mass = 4, Fraction(13, 10), sum(blanket)
    delta = Fraction(0)
    for c in range(n):
        weight = math.comb(n - 1, c) * mass**c * (1 - mass) ** (n - 1 - c)
        for i in range(c + 2):
            for j in range(c + 2 - i):
                counts = (i, j, c + 1 - i - j)

                def seen(row, counts=counts, c=c):
                    total = Fraction(0)
                    for kind in range(3):
                        rest = [m - (kind == z) for z, m in enumerate(counts)]
                        if min(rest) >= 0:
                            ways = math.factorial(c)
                            for z, m in enumerate(rest):
                                ways = ways / Fraction(math.factorial(m))
                                ways *= (blanket[z] / mass) ** m
                            total += row[kind] * ways
                    return total

                delta += weight * max(seen(first) - factor * seen(second), 0)
    pair = BlanketPair(
        *(np.array(row, dtype=float) for row in (blanket, first, second))
    )
    ours = blanket_divergence(pair, n, math.log(1.3))
    assert float(delta) * (1 - ROUNDING) <= ours <= float(delta) * 1.001


def summed(pair, n, epsilon):
    """The expectation in the theorem, over the numbers of messages of each kind."""
    values = (pair.first - math.exp(epsilon) * pair.second) / pair.blanket
    values, masses = np.append(values, 0), np.append(pair.blanket, 0)
    masses[-1] = max(0.0, 1 - masses.sum())
    total = 0.0
    for kinds in combinations_with_replacement(range(len(values)), n):
        counts = np.bincount(kinds, minlength=len(values))
        ways = math.factorial(n) / math.prod(map(math.factorial, counts.tolist()))
        total += ways * np.prod(masses**counts) * max(counts @ values, 0.0) / n
    return total


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0, 8.0])
def test_the_grid_and_the_fft_never_fall_below_the_sum(spread):
    # The largest spread has tables of an epsilon near 30, where probabilities of 1e-12
    # decide, and where the rounding errors of an FFT are larger than most sums.
    rng, below, checked = np.random.default_rng(0), [], 0
    for _ in range(60):
        n = int(rng.integers(2, 7))
        table = np.exp(spread * rng.normal(size=(3, rng.integers(2, 5))))
        table /= table.sum(axis=1, keepdims=True)
        epsilon0 = np.log(table.max(axis=0) / table.min(axis=0)).max()
        epsilon = epsilon0 * rng.choice([0, 0.01, 0.3, 0.7, 0.95, 0.999])
        pair = BlanketPair(table.min(axis=0), table[0], table[1])
        exact = summed(pair, n, epsilon)
        checked += exact > 0
        # The sum itself is rounded.
        if blanket_divergence(pair, n, epsilon) < exact * (1 - 1e-10):
            below.append((n, epsilon, table))
    assert checked > 20
    assert not below


@pytest.mark.parametrize("epsilon0", [5.0, 20.0, 50.0, 299.0, 301.0])
@pytest.mark.parametrize("n", [2, 1000, 10**6])
def test_messages_that_stand_out(epsilon0, n):
    # With probability (1 - e^-epsilon0)^(n - 1), no other message hides the person's.
    alone = math.exp((n - 1) * math.log1p(-math.exp(-epsilon0)))
    for epsilon in (0.0, 0.5 * epsilon0, 0.99 * epsilon0):
        local = -math.expm1(epsilon - epsilon0) / (1 + math.exp(-epsilon0))
        stated = delta_of_clones(epsilon0, n, epsilon)
        assert alone * local * (1 - 1e-9) <= stated <= local * (1 + 1e-9)


def test_one_message_more_would_be_too_few():
    # n in place of n - 1 other people: below the truth.
    rows = integers(3, 3)
    pair = pair_of(rows)
    epsilon = 0.9 * math.log(3)
    exact = exact_delta(crowd(rows, 3, ((0, 1),)), epsilon)
    assert blanket_divergence(pair, 3, epsilon) >= exact * (1 - ROUNDING)
    assert blanket_divergence(pair, 4, epsilon) < exact


def test_three_outcomes_would_be_too_few():
    # Others send one of the two values at hand with 1 / (e + 2) each, and a third
    # message otherwise: that hides what they do not send, and is below the truth.
    weight, k, n, epsilon = math.e, 3, 3, 0.9
    rows = kary(k, weight)
    third = [(weight, 1, k - 2), (1, weight, k - 2), (1, 1, weight + k - 3)]
    pair = [histograms(third, (x, 2, 2)) for x in (0, 1)]
    exact = exact_delta(crowd(rows, n, ((0, 1),)), epsilon)
    assert exact_delta([pair], epsilon) / exact == pytest.approx(0.135, abs=0.001)
    stated = event_delta(E.Shuffled(E.Pure(1.0), n), epsilon)
    assert stated >= exact * (1 - ROUNDING)


ASYMMETRIC = ((14, 5, 1), (3, 7, 10))


def test_an_asymmetric_pair_is_bounded_in_both_directions():
    n, epsilon0 = 5, math.log(10)
    for first, second in permutations(range(2)):
        compared = crowd(ASYMMETRIC, n, ((first, second),))
        pair = pair_of(ASYMMETRIC, first, second)
        for share in SHARES:
            epsilon = share * epsilon0
            exact = exact_delta(compared, epsilon)
            assert blanket_divergence(pair, n, epsilon) >= exact * (1 - ROUNDING)
            stated = event_delta(E.Shuffled(E.Table(ASYMMETRIC), n), epsilon)
            assert stated >= exact * (1 - ROUNDING)
    # One direction alone would be below the truth.
    epsilon = 0.6 * epsilon0
    truth = exact_delta(crowd(ASYMMETRIC, n), epsilon)
    both = [
        blanket_divergence(pair_of(ASYMMETRIC, *order), n, epsilon)
        for order in permutations(range(2))
    ]
    assert min(both) < truth <= max(both)


TABLES = {
    "asymmetric": ASYMMETRIC,
    "levels": level_table((1.0, 2.0, 4.0), 1.5).weights,
    "three rows": ((10, 5, 3, 2), (4, 6, 6, 4), (2, 3, 5, 10)),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_with_any_other_people(name):
    rows = TABLES[name]
    n = 4 if len(rows[0]) < 5 else 3
    event = E.Shuffled(E.Table(rows), n)
    compared = crowd(rows, n)
    epsilon0 = event_epsilon(E.Table(rows), 0.0)
    for share in (0.0, 0.05, *SHARES):
        exact = exact_delta(compared, share * epsilon0)
        stated = event_delta(event, share * epsilon0)
        assert stated >= exact * (1 - ROUNDING)


@pytest.mark.parametrize("rounds", [2, 3])
def test_rounds_compose(rounds):
    n, rows = 4, ASYMMETRIC
    event = E.Repeated(E.Shuffled(E.Table(rows), n), rounds)
    seen = [(p[p > 0], q[p > 0]) for p, q in crowd(rows, n)]
    exact = D.worst([D.power(D.merge(np.log(p / q), p), rounds) for p, q in seen])
    for epsilon in (0.0, 0.3, 1.0, 2.0, 3.0):
        assert exact(epsilon) * (1 - 1e-9) <= event_delta(event, epsilon)
    for delta in (0.1, 1e-2):
        stated = event_epsilon(event, delta)
        assert D.epsilon_of(exact, delta, 10.0) * (1 - 1e-9) <= stated


@pytest.mark.parametrize(
    ("epsilon0", "n", "rounds"), [(1.0, 30, 1), (1.0, 20, 2), (2.0, 20, 2)]
)
@pytest.mark.parametrize("mu", [0.0, 0.5])
def test_the_bound_composes_with_itself_and_with_gaussian_noise(
    epsilon0, n, rounds, mu
):
    curve = D.worst([D.power(clone_law(epsilon0, n), rounds)], mu)
    events = [E.Shuffled(E.Pure(epsilon0), n)] * rounds
    if mu:
        events.append(E.Gaussian(1 / mu))
    for epsilon in (0.0, 0.2, 0.5, 1.0, 1.5):
        exact = curve(epsilon)
        stated = event_delta(E.Composed(events), epsilon)
        assert stated >= exact * (1 - 1e-9) - 1e-13
        assert stated <= 1.05 * exact + 1e-9
    for delta in (1e-2, 1e-5):
        exact = D.epsilon_of(curve, delta, 10.0)
        assert exact * (1 - 1e-9) <= event_epsilon(E.Composed(events), delta)
        assert event_epsilon(E.Composed(events), delta) <= 1.02 * exact


@pytest.mark.parametrize("order", [1 + 1e-7, 1.02, 2.0, 30.0])
@pytest.mark.parametrize(("epsilon0", "n"), [(1e-6, 1000), (1e-4, 10**6), (0.5, 100)])
def test_renyi_divergences_of_weak_messages(epsilon0, n, order):
    """Chords of the curve, integrated with many digits: rounding never loses."""
    curve = curve_of(E.Shuffled(E.Pure(epsilon0), n))
    epsilons = np.linspace(0.0, curve.losses[1], 60)
    deltas = [mpmath.mpf(curve.delta(e)) for e in epsilons.tolist()]
    with mpmath.workdps(60):
        factors, a = [mpmath.exp(mpmath.mpf(e)) for e in epsilons], mpmath.mpf(order)

        def integral(power):
            total = mpmath.mpf(0)
            for g, h, d, e in zip(
                factors[:-1], factors[1:], deltas[:-1], deltas[1:], strict=True
            ):
                slope, p = (e - d) / (h - g), power
                total += (d - slope * g) * (h ** (p + 1) - g ** (p + 1)) / (p + 1)
                total += slope * (h ** (p + 2) - g ** (p + 2)) / (p + 2)
            return total

        moment = a * (a - 1) * (integral(a - 2) + integral(-a - 1))
        coarse = mpmath.log1p(moment) / (a - 1)
        # Fewer chords lie higher, but not by much.
        assert 0.97 * coarse < shuffled_renyi(curve, order) < 1.001 * coarse


@pytest.mark.parametrize(("epsilon0", "n"), [(1.0, 30), (3.0, 200)])
def test_renyi_divergences(epsilon0, n):
    losses, masses = clone_law(epsilon0, n)
    event = E.Shuffled(E.Pure(epsilon0), n)
    for order in (1.02, 1.5, 2.0, 3.0, 8.0, 30.0):
        exact = math.log(masses @ np.exp((order - 1) * losses)) / (order - 1)
        stated = event_renyi(event, order)
        assert exact * (1 - 1e-9) <= stated <= 1.03 * exact
    assert event_renyi(event, 1e4) <= epsilon0


def test_a_budget_admits_many_rounds():
    shuffled = local_guarantee(4.0).shuffled(100_000)
    with PrivacyBudget(epsilon=1.0, delta=1e-5) as budget:
        for _ in range(20):
            budget.spend(shuffled)
        assert budget.spent.epsilon < 1.0
        assert not budget.admits(30 * shuffled)


@pytest.mark.parametrize("n", [3, 6])
def test_messages_that_reveal_with_some_probability(n):
    # Binary response, except that one message in a hundred thousand shows its value.
    rows = ((66_666, 33_333, 1, 0), (33_333, 66_666, 0, 1))
    event = E.Revealing(1e-5, E.Pure(math.log(2.0)))
    compared = crowd(rows, n)
    for epsilon in (0.1, 0.3, 0.5, 0.6):
        exact = exact_delta(compared, epsilon)
        for local in (event, E.Table(rows)):
            stated = event_delta(E.Shuffled(local, n), epsilon)
            assert exact * (1 - ROUNDING) <= stated <= 1
        # What is revealed about others may not be left out.
        alone = delta_of_clones(math.log(2), n, epsilon)
        stated = event_delta(E.Shuffled(event, n), epsilon)
        assert stated > alone or stated == event_delta(event, epsilon)


def test_the_delta_of_every_message_counts():
    # The proof, in numbers: 1 / (e^epsilon0 + 1) of the own message's delta, and
    # e^-epsilon0 (1 + 1 / (e^epsilon0 + 1)) of that of each other.
    n, epsilon0, delta0, epsilon = 1000, 2.0, 1e-9, 0.5
    event = E.Revealing(delta0, E.Pure(epsilon0))
    share = 1 / (math.exp(epsilon0) + 1)
    added = share + (n - 1) * math.exp(-epsilon0) * (1 + share)
    added *= (1 + math.exp(epsilon)) * delta0
    pure = delta_of_clones(epsilon0, n, epsilon)
    stated = event_delta(E.Shuffled(event, n), epsilon)
    assert pure + 0.99 * added <= stated
    # A message is tried at some tens of deltas, which are up to ten times too large.
    assert stated <= pure + 11 * added


def test_a_sampler_that_is_off_its_table():
    # The table has an epsilon of 0.85, and the sampler one of 1.23.
    table, true = (np.array([[p, 1 - p], [1 - p, p]]) for p in (0.7, 0.7736))
    residual = float(np.abs(np.log(true / table)).max())
    pair = BlanketPair(table.min(axis=0), table[0], table[1], residual)
    compared = crowd(tuple(map(tuple, true)), 5, ((0, 1),))
    curve = ShuffledCurve(5, (pair,), lambda delta: 1.23, lambda epsilon: 1.0)
    for epsilon in (0.0, 0.3, 0.8, 1.0, 1.2):
        exact = exact_delta(compared, epsilon)
        assert 0 < exact * (1 - ROUNDING) <= blanket_divergence(pair, 5, epsilon)
        assert exact * (1 - ROUNDING) <= curve.bits.delta(epsilon)


def test_a_hundred_thousand_people():
    message = HybridMechanism(4.0, bounds=(-1, 1)).fit(np.zeros((1, 3)))
    shuffled = message.privacy_guarantee_.shuffled(100_000, delta=1e-6)
    assert shuffled.epsilon == pytest.approx(0.170, abs=5e-4)
    assert shuffled.delta == 1e-6
    assert shuffled.relation == "replace-one"
    assert shuffled.conditions == ("if the shuffler is trusted",)
    assert "trusted" not in shuffled.statement
    assert "at least 100,000" in shuffled.statement
    assert "Feldman" in shuffled.source


def test_shuffling_never_hurts_and_more_messages_help():
    event = E.Pure(2.0)
    deltas = [event_delta(E.Shuffled(event, n), 0.5) for n in (2, 5, 20, 100, 1000)]
    assert event_delta(event, 0.5) >= deltas[0]
    assert all(np.diff(deltas) < 0)
    assert event_epsilon(E.Shuffled(event, 100), 0.0) == 2.0
    assert event_epsilon(E.Repeated(E.Shuffled(event, 100), 3), 0.0) == 6.0
    shuffled = E.Shuffled(event, 100)
    assert event_renyi(shuffled, 4.0) <= event_renyi(event, 4.0)


def test_gaussian_messages():
    # The bound holds for the pure randomizer that noise is close to, with the rest in
    # delta: more than for a pure epsilon, less than without a shuffle.
    mechanism = GaussianMechanism(2.0, delta=1e-10, bounds=(0, 1))
    message = mechanism.fit(np.zeros((1, 2))).privacy_guarantee_
    shuffled = message.shuffled(10_000, delta=1e-6)
    pure = event_epsilon(E.Shuffled(E.Pure(1.0), 10_000), 1e-6)
    assert pure < shuffled.epsilon < message.epsilon_at(1e-6)
    assert "Dwork and Roth" in shuffled.source


def local_guarantee(epsilon=2.0):
    return (
        HybridMechanism(epsilon, bounds=(0, 1)).fit(np.zeros((1, 2))).privacy_guarantee_
    )


def test_guarantees_that_no_theorem_covers_are_refused():
    message = local_guarantee()
    X = np.zeros((1, 2))
    query = LaplaceMechanism(1.0, sensitivity=1.0).fit(X).privacy_guarantee_
    with pytest.raises(ValueError, match="replacing one person's value"):
        query.shuffled(100)
    with pytest.raises(ValueError, match="replacing one person's value"):
        query.subsampled(0.1).shuffled(100)
    for several in (message.repeated(2), compose(message, message), message | message):
        with pytest.raises(ValueError, match="one message per person"):
            several.shuffled(100)
    with PrivacyBudget(epsilon=10.0, delta=1e-6) as budget:
        HybridMechanism(1.0, bounds=(0, 1)).fit_transform(X)
    with pytest.raises(ValueError, match="one message per person"):
        budget.spent.shuffled(100)
    with pytest.raises(ValueError, match="already shuffled"):
        message.shuffled(100).shuffled(100)
    central = PrivacyGuarantee.from_event(
        E.Pure(1.0), unit="sample", statement="A mean.", source="a theorem"
    )
    with pytest.raises(ValueError, match="one message per person"):
        central.shuffled(100)
    ratings = CPCompletion(2, epsilon=2.0, levels=[1, 2, 3]).client()
    with pytest.raises(ValueError, match="coordinates are public"):
        ratings.privacy_guarantee_.shuffled(100)
    nothing = HybridMechanism(np.inf, bounds=(0, 1)).fit(X).privacy_guarantee_
    with pytest.raises(ValueError, match="pass the mechanism a finite epsilon"):
        nothing.shuffled(100)


def test_numbers_of_messages_that_are_refused():
    for n in (1, 0, -5, 2**60):
        with pytest.raises(ValueError, match="n_messages must be from 2"):
            local_guarantee().shuffled(n)
    for n in (2.0, "100", None, True):
        with pytest.raises(TypeError, match="n_messages must be an integer"):
            local_guarantee().shuffled(n)


def test_a_delta_that_adds_up_is_refused():
    mechanism = GaussianMechanism(4.0, delta=0.01, bounds=(0, 1))
    message = mechanism.fit(np.zeros((1, 2))).privacy_guarantee_
    with pytest.raises(ValueError, match="a message needs a delta of at most 3e-09"):
        message.shuffled(4, delta=1e-9)
    with pytest.raises(ValueError, match="has a delta of its own, so pass delta > 0"):
        message.shuffled(4, delta=0)


@pytest.mark.parametrize("mechanism", [LaplaceMechanism, PrivUnit, GaussianMechanism])
def test_messages_of_every_kind_of_mechanism(mechanism):
    message = mechanism(1.0, bounds=(0, 1)).fit(np.zeros((1, 2))).privacy_guarantee_
    assert message.local
    assert message.shuffled(10_000).epsilon < 0.5 * message.epsilon
    assert not message.shuffled(10_000).local


def test_shuffled_rounds_in_a_report():
    shuffled = local_guarantee().shuffled(10_000, delta=1e-7)
    together = 3 * shuffled
    assert shuffled.epsilon < together.epsilon < 3 * shuffled.epsilon
    both = compose(shuffled, local_guarantee(0.5))
    assert 0.5 < both.epsilon < 0.5 + shuffled.epsilon + 1e-6


# The audits below state no more than they can: each is wrong with probability 1e-3.
CONFIDENCE, N_TRIALS = 0.999, 100_000


def shuffler(mechanism, others, rng):
    """Sorted outputs of a binary response: all that an adversary sees."""

    def release(x, n):
        data = np.tile(np.append(x, others), n).reshape(-1, 1)
        released = mechanism.transform(data).reshape(n, -1)
        return rng.permuted(released, axis=1).sum(axis=1, keepdims=True)

    return release


# Over 10 seeds, 0.88 to 0.95 and 0.38 to 0.41 of the stated epsilon.
@pytest.mark.parametrize(
    ("others", "seen"), [([0.0] * 19, 0.85), ([1.0] * 9 + [0.0] * 10, 0.35)]
)
def test_an_audit_of_a_shuffler_stays_below(others, seen):
    mechanism = TensorRandomizedResponse(2.0, bounds=(0, 1), random_state=0)
    message = mechanism.fit(np.zeros((1, 1))).privacy_guarantee_
    n, delta = len(others) + 1, 0.03
    stated = message.shuffled(n, delta=delta).epsilon
    assert stated < 0.8 * message.epsilon_at(delta)
    report = audit_mechanism(
        shuffler(mechanism, others, np.random.default_rng(0)), [0.0], [1.0],
        epsilon=stated, delta=delta, n_trials=N_TRIALS, batched=True,
        confidence=CONFIDENCE,
    )  # fmt: skip
    assert not report.violated
    # The audit sees much of it, and would not miss ten times as many people.
    assert seen * stated < report.epsilon_lower <= stated
    assert report.epsilon_lower > message.shuffled(10 * n, delta=delta).epsilon


# --- groups --------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "weight"), [(2, 3), (3, 8)])
@pytest.mark.parametrize("size", [2, 3])
def test_several_people_in_one_shuffle(k, weight, size):
    rows, n = integers(k, weight), 6
    compared = [
        (histograms(rows, (*before, *others)), histograms(rows, (*after, *others)))
        for others in held_by(n - size, k)
        for before in held_by(size, k)
        for after in held_by(size, k)
    ]
    event = E.Group(E.Shuffled(E.Table(rows), n), size)
    stated_by_rounds = E.Repeated(E.Shuffled(E.Table(rows), n), size)
    too_small = False
    for share in SHARES:
        epsilon = size * share * math.log(weight)
        exact = exact_delta(compared, epsilon)
        assert event_delta(event, epsilon) >= exact * (1 - ROUNDING)
        too_small |= event_delta(stated_by_rounds, epsilon) < exact
    # Taken for rounds of their own, they would be told too little in some cases.
    if (k, weight, size) == (2, 3, 3):
        assert too_small


def test_people_in_one_shuffle_are_a_group():
    shuffled = local_guarantee().shuffled(1000)
    assert shuffled.for_group(3).epsilon_at(1e-6) > shuffled.epsilon
    for some in (shuffled, shuffled.repeated(2), shuffled.for_group(2)):
        with pytest.raises(ValueError, match="shuffled together"):
            some.for_group(3, local=True)
    local = local_guarantee().for_group(3, local=True)
    for several in (local, shuffled.for_group(3)):
        with pytest.raises(ValueError, match="replacing one person's value"):
            several.shuffled(1000)


def test_more_messages_than_can_be_counted_are_left_out():
    many, more = (event_delta(E.Shuffled(E.Pure(0.5), n), 1e-6) for n in (10**9, 2**50))
    assert 0 < more == many
