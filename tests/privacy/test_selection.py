"""Private choices and Renyi divergences, against exact laws of the best of a number.

Of releases with finitely many outputs the law of the best is known exactly: with F the
probability of a lower score, an output of mass p is the best with probability
f(F + p) - f(F), f the generating function of the number of tries. The bounds hold for
all scores and all pairs of laws of one release; here are the worst that were found.
"""

import math
from fractions import Fraction
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import norm
from scipy.stats import poisson as poisson_law

from tests.support import distributions as L
from tests.support import events as E
from tests.support.seams import (
    RepetitionDistribution,
    event_delta,
    event_epsilon,
    event_renyi,
    negative_binomial,
    poisson,
)

pytestmark = pytest.mark.thorough

ETAS, MEANS = (0.0, 0.5, 1.0), (1.2, 4.0, 40.0)
NUMBERS = [negative_binomial(m, eta) for m, eta in product(MEANS, ETAS)]
NUMBERS += [poisson(m) for m in (0.1, 1.0, 5.0, 25.0)]


def name_of(law):
    return f"{'Poisson' if law.eta is None else law.eta} {law.mean:.3g}"


# Laws of the number


@pytest.mark.parametrize("law", NUMBERS, ids=name_of)
def test_weights_keep_the_inequality(law):
    rate = Fraction(law.rate)
    for k in range(1, len(law.weights) - 1):
        factor = rate if law.eta is None else rate * (k + Fraction(law.eta))
        assert (k + 1) * law.weights[k + 1] <= factor * law.weights[k]
    assert law.eta is None or law.weights[0] == 0
    total = sum(law.weights)
    assert total < 2**63
    mean = Fraction(sum(k * w for k, w in enumerate(law.weights)), total)
    assert mean <= Fraction(law.mean) <= mean * (1 + Fraction(1, 10**15))


def closed_form(eta, gamma, size):
    """The truncated negative binomial law, by its definition."""
    k = np.arange(1, size)
    if eta == 0:
        return np.r_[0, (1 - gamma) ** k / (k * -math.log(gamma))]
    rising = np.cumprod((k - 1 + eta) / k) * (1 - gamma) ** k
    return np.r_[0, rising / (gamma**-eta - 1)]


@pytest.mark.parametrize(
    ("mean", "eta"), [*product((1.2, 4.0), (*ETAS, 0.3)), (12.0, 1.0)]
)
def test_closed_forms(mean, eta):
    law = negative_binomial(mean, eta)
    found = np.array([w / sum(law.weights) for w in law.weights])
    exact = closed_form(eta, 1 - law.rate, found.size)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-9)
    assert 1 - exact.sum() < 1e-9
    assert law.mean == pytest.approx(mean, rel=1e-6)
    assert law.mean <= mean * (1 + 1e-9)


@pytest.mark.parametrize("mean", [0.1, 1.0, 5.0, 15.0, 30.0])
def test_closed_form_of_poisson(mean):
    law = poisson(mean)
    found = np.array([w / sum(law.weights) for w in law.weights])
    # Weights are rounded down to integers, of which that of no tries is 2^18.
    rounding = 2.0**-18 * math.exp(-mean) * found.size + 1e-14
    exact = poisson_law.pmf(np.arange(found.size), mean)
    np.testing.assert_allclose(found, exact, rtol=0, atol=rounding)
    assert law.mean == pytest.approx(mean, rel=2e-4)
    assert law.rate == mean


@pytest.mark.parametrize("law", NUMBERS, ids=name_of)
def test_refuses_weights_that_fall_too_slowly(law):
    again = RepetitionDistribution(law.weights, law.eta, law.rate)
    assert again == law
    assert hash(again) == hash(law)
    for k in {2, 3, len(law.weights) // 2, len(law.weights) - 1} - {0, 1}:
        if k < len(law.weights):
            more = (*law.weights[:k], law.weights[k] + 1, *law.weights[k + 1 :])
            with pytest.raises(ValueError, match="fall as fast"):
                RepetitionDistribution(more, law.eta, law.rate)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (((0,), 1.0, 0.5), "number of tries >= 1"),
        (((3, 0, 0), None, 0.5), "number of tries >= 1"),
        (((0, 4, -1), 1.0, 0.5), ">= 0"),
        (((1, 4, 1), 1.0, 0.5), "weight of 0 for no try"),
        (((0, 4, 1), 1.1, 0.5), r"eta in \[0, 1\]"),
        (((0, 4, 1), -0.1, 0.5), r"eta in \[0, 1\]"),
        (((0, 4, 1), math.nan, 0.5), r"eta in \[0, 1\]"),
        (((0, 4, 1), 1.0, 1.0), "out of range"),
        (((0, 4, 1), 1.0, 0.0), "out of range"),
        (((0, 4, 1), None, math.inf), "out of range"),
        (((0, 4, 0, 1), 1.0, 0.9), "fall as fast"),
    ],
)
def test_refuses_laws(arguments, words):
    with pytest.raises(ValueError, match=words):
        RepetitionDistribution(*arguments)


# What the best reveals


def choices(laws, number):
    """Laws of the best: of releases, and of what may be made of them."""
    rng = np.random.default_rng(0)
    for law in laws:
        for one, ties in (
            (law, 1),
            *((L.noised(law, rng), 1 + i // 6) for i in range(8)),
        ):
            for side in (one, one[::-1]):
                yield L.best(side, number.weights, L.orders_of(side, rng), ties)


def understated(event, found, epsilons):
    for epsilon in epsilons:
        delta = L.largest(found, epsilon) * (1 - 1e-9) - 1e-13
        if not event_delta(event, epsilon) >= delta:
            return True
        if delta > 1e-12 and not event_epsilon(event, delta) >= epsilon * (1 - 1e-12):
            return True
    return False


def pairs(rows):
    return [
        L.split([np.array(r) / sum(r) for r in p], 9) for p in permutations(rows, 2)
    ]


KARY = ((8, 1, 1), (1, 8, 1), (1, 1, 8))
TABLE = ((10, 5, 3, 2), (4, 6, 6, 4), (2, 3, 5, 10))
SAMPLE = L.on_sample(0.2, L.gaussian(1.0, 150))
WITH = L.both(L.split(L.response(0.3), 9), L.gaussian(0.3, 60))
# A release, laws that it may have, and a scale of its losses.
BASES = {
    "pure": (E.Pure(0.5), [L.split(L.response(0.5))], 0.5),
    "gaussian": (E.Gaussian(2.0), [L.gaussian(0.5, 150)], 0.5),
    "small gaussian": (E.Gaussian(20.0), [L.gaussian(0.05, 150)], 0.05),
    "large pure": (E.Pure(3.0), [L.split(L.response(3.0))], 3.0),
    "laplace": (E.Laplace(1.0), [L.double_exponential(1.0, 100)], 1.0),
    "k-ary": (E.Table(KARY), pairs(KARY)[:1], 2.0),
    "table": (E.Table(TABLE), pairs(TABLE), 1.0),
    "sample": (E.Sampled(0.2, E.Gaussian(1.0)), [SAMPLE], 0.5),
    "both": (E.Composed([E.Pure(0.3), E.Gaussian(1 / 0.3)]), [WITH], 0.5),
    "revealing": (
        E.Revealing(0.01, E.Pure(0.4)),
        [L.shown(0.01, L.split(L.response(0.4)))], 0.4,
    ),
    "residual": (
        E.Composed([E.Pure(0.4), E.Residual(0.02, 1e-3)]),
        [L.split(L.both(one, L.response(0.4))) for one in L.deviated(0.02, 1e-3)], 0.4,
    ),
    "parallel": (
        E.Parallel((E.Gaussian(2.0), E.Laplace(2.0))),
        [L.gaussian(0.5, 150), L.double_exponential(0.5, 100)], 0.5,
    ),
}  # fmt: skip
SHARES = (0.0, 0.4, 0.9, 1.5, 2.2, 3.5)
FEWER = [NUMBERS[4], NUMBERS[5], NUMBERS[-3]]
# Releases with numbers in turn; later all of them, and all numbers with two of them.
EACH = [(name, FEWER[i % 3]) for i, name in enumerate(BASES)]
CASES = [case for case in EACH if case[0] not in ("both", "k-ary", "table")]
CASES += [("pure", NUMBERS[8]), ("gaussian", NUMBERS[-1])]
LATER = [case for case in product(("pure", "gaussian"), NUMBERS) if case not in CASES]
LATER += [case for case in EACH if case not in CASES]


@pytest.mark.parametrize(
    ("name", "number"),
    CASES + [pytest.param(*case, marks=pytest.mark.slow) for case in LATER],
    ids=lambda x: x if isinstance(x, str) else name_of(x),
)
def test_choices(name, number):
    release, laws, scale = BASES[name]
    # How tight, for Gaussian noise with mu = 0.5: the largest delta that was found at
    # epsilon = 1.75 is stated at 1.80 for one Poisson try, at 2.3 for four tries and at
    # 3.4 for forty, geometric; that of 1.2 tries is stated 1.2 times as large.
    found = list(choices(laws, number))
    assert not understated(
        E.Choice(release, number), found, [scale * s for s in SHARES]
    )


def worst_ratio(number, epsilon):
    """Largest loss of the best of releases of a pure epsilon.

    Its score is below with probabilities t and u: t <= e^epsilon u, and 1 - u at most
    e^epsilon (1 - t), all of which are possible; so is a score of loss epsilon there.
    """
    t = np.concatenate([np.linspace(0, 1, 4001), 1 - np.geomspace(1e-9, 1, 2000)])
    u = np.maximum(1 - math.exp(epsilon) * (1 - t), t * math.exp(-epsilon))
    slope = L.generating(number.weights)[1]
    return epsilon + float(np.log(slope(t) / slope(u)).max())


@pytest.mark.parametrize(
    "epsilon", [0.5, *(pytest.param(e, marks=pytest.mark.slow) for e in (1e-3, 8.0))]
)
def test_pure_choices(epsilon):
    for number in (*NUMBERS, negative_binomial(900.0, 1.0)):
        ours = event_epsilon(E.Choice(E.Pure(epsilon), number), 0.0)
        truth = worst_ratio(number, epsilon)
        # At worst the truth is 0.73 of what is stated: four tries, the geometric law.
        assert truth * (1 - 1e-9) <= ours <= truth / 0.72
        reach = math.tanh(epsilon / 2)
        if number.eta is None:
            # Nothing is lost, but that weights are integers.
            assert ours == pytest.approx(epsilon + number.rate * reach, rel=1e-12)
            assert ours <= truth * (1 + 2e-4)
            continue
        # The line of randomised response: the shift is least at one of its ends.
        lost = number.rate / (1 - number.rate)
        shift = min(epsilon, math.log1p(lost * reach))
        assert ours == pytest.approx(epsilon + (1 + number.eta) * shift, rel=1e-12)
        if lost > 1 + math.exp(epsilon):
            assert ours == pytest.approx((2 + number.eta) * epsilon, rel=1e-12)
        if number.mean > 800 and epsilon < 1:
            assert ours <= truth * (1 + 2e-3)
        thrice = E.Repeated(E.Choice(E.Pure(epsilon), number), 3)
        assert event_epsilon(thrice, 0.0) == pytest.approx(3 * ours, rel=1e-12)


def test_choices_of_choices():
    inner, outer = negative_binomial(3.0, 1.0), poisson(2.0)
    event, rng = (
        E.Choice(E.Choice(E.Gaussian(3.0), inner), outer),
        np.random.default_rng(1),
    )
    found = []
    for law in choices([L.gaussian(1 / 3, 60)], inner):
        one = tuple(side[-1] + 1e-300 for side in law)
        found.append(L.best(one, outer.weights, L.orders_of(one, rng)))
    assert not understated(event, found, (0.0, 0.3, 0.8, 1.5))


def test_choices_compose_through_their_losses():
    """Not by adding up epsilons, and delta falls along with epsilon."""
    choice = E.Choice(E.Gaussian(5.0), negative_binomial(10.0, 0))
    together = E.Repeated(choice, 10)
    assert event_epsilon(together, 1e-3) < 0.8 * 10 * event_epsilon(choice, 1e-4)
    assert event_delta(together, 2.0) < 0.7
    weak = E.Choice(E.Gaussian(1e7), negative_binomial(10.0, 0))
    mixed = E.Composed([weak, weak, E.Laplace(1.0)])
    alone = event_delta(E.Laplace(1.0), 0.9)
    assert alone <= event_delta(mixed, 0.9) < 1.01 * alone + 1e-5


def test_nothing_to_choose_and_nothing_protected():
    for number in NUMBERS:
        for nothing in (E.Nothing(), E.Pure(0.0), E.Composed([])):
            assert event_epsilon(E.Choice(nothing, number), 0.0) == 0.0
            assert event_delta(E.Choice(nothing, number), 0.0) == 0.0
        for shows in (E.NonPrivate(), E.Revealing(0.3, E.Gaussian(1))):
            assert event_epsilon(E.Choice(shows, number), 0.5) == math.inf
            assert event_delta(E.Choice(shows, number), 9.0) == 1.0
            assert event_renyi(E.Choice(shows, number), 2.0) == math.inf
    # Poisson: with no tries nothing is released, which tells the neighbours not apart.
    few = E.Choice(E.Revealing(1e-3, E.Pure(0.4)), poisson(0.1))
    assert event_delta(few, 30.0) == pytest.approx(1e-4, rel=1e-3)


# Renyi divergences

_ORDERS = (1.1, 1.5, 2.0, 4.0, 12.0, 50.0)


def renyi_of(p, q, order):
    """Largest divergence of the rows of p from those of q."""
    with np.errstate(divide="ignore", invalid="ignore"):
        moments = order * np.log(p) + (1 - order) * np.log(q)
    moments = np.where(p > 0, moments, -np.inf)
    return float(logsumexp(moments, axis=1).max()) / (order - 1)


def too_small(event, found):
    """Whether a divergence is below that of an exact law."""
    for order in _ORDERS:
        exact = max(
            renyi_of(*pair, order) for law in found for pair in (law, law[::-1])
        )
        if not event_renyi(event, order) >= exact * (1 - 1e-6) - 1e-7:
            return True
    return False


RENYI = ["pure", "gaussian", "table", "sample", "laplace", "parallel"]


@pytest.mark.parametrize(
    "place", [0, 3, 4, *(pytest.param(i, marks=pytest.mark.slow) for i in (1, 2, 5))]
)
def test_renyi_of_choices(place):
    name, number = RENYI[place], [FEWER[0], NUMBERS[8], NUMBERS[-2]][place % 3]
    release, laws, _ = BASES[name]
    event = E.Choice(release, number)
    assert not too_small(event, list(choices(laws[:2], number)))
    other = E.Composed([event, E.Repeated(E.Gaussian(2.0), 3)])
    parts = event_renyi(event, 3.0) + 3 * 3 / 8
    assert event_renyi(other, 3.0) == pytest.approx(parts, rel=1e-12)


def log_moment(log_p, log_q, order, low, high):
    """Logarithm of the integral of p^order q^(1 - order)."""

    def log_integrand(x):
        return order * log_p(x) + (1 - order) * log_q(x)

    x = np.linspace(low, high, 4001)
    values = log_integrand(x)
    top, peak = values.max(), x[values.argmax()]
    points = sorted({low, peak - 2, peak - 0.2, peak, peak + 0.2, peak + 2, high})
    points = [x for x in points if low <= x <= high]
    parts = (
        quad(lambda x: math.exp(log_integrand(x) - top), *ends, epsabs=0, limit=400)[0]
        for ends in pairwise(points)
    )
    return top + math.log(math.fsum(parts))


@pytest.mark.parametrize("order", [1.01, 2.0, 50.0])
def test_renyi_of_samples_by_quadrature(order):
    for rate, mu in ((1e-3, 4.0), (0.1, 1.0), (0.7, 0.05)):

        def mixture(x, rate=rate, mu=mu):
            pull = np.logaddexp(math.log1p(-rate), math.log(rate) + mu * (x - mu / 2))
            return norm.logpdf(x) + pull

        ends = -13.0 - mu, 13.0 + order * mu
        both = mixture, norm.logpdf
        exact = max(log_moment(*pair, order, *ends) for pair in (both, both[::-1]))
        ours = event_renyi(E.Sampled(rate, E.Gaussian(1 / mu)), order) * (order - 1)
        assert exact * (1 - 1e-9) - 1e-12 <= ours <= exact * (1 + 1e-7) + 1e-11
        five = event_renyi(E.Repeated(E.Sampled(rate, E.Gaussian(1 / mu)), 5), order)
        assert five * (order - 1) == pytest.approx(5 * ours, rel=1e-12)


def test_renyi_of_parts():
    a, b = E.Gaussian(1.5), E.Pure(0.7)
    for order in _ORDERS:
        one, other, third = (event_renyi(x, order) for x in (a, b, E.Laplace(2.0)))
        both = event_renyi(E.Parallel((a, b)), order)
        assert both == max(one, other)
        whole = E.Composed([E.Parallel((a, b)), E.Laplace(2.0)])
        assert event_renyi(whole, order) == pytest.approx(both + third, rel=1e-12)
        assert event_renyi(E.Revealing(1e-9, a), order) == math.inf


# The checker itself: what would be stated if something were forgotten

GEOMETRIC, FIVE = NUMBERS[5], NUMBERS[-2]
WRONG = {
    "all tries but one": ("gaussian", GEOMETRIC, lambda event, _: event),
    "all tries but one, pure": ("pure", GEOMETRIC, lambda event, _: event),
    "all tries but one of those that show": (
        "revealing", GEOMETRIC, lambda event, _: event,
    ),
    "four tries of five": (
        "gaussian", FIVE, lambda event, law: E.Choice(event, poisson(law.mean / 5)),
    ),
    "that there are no two laws": (
        "pure", NUMBERS[8],
        lambda event, law: E.Choice(event, negative_binomial(law.mean, 0.0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("forgotten", WRONG)
def test_checker_sees_mistakes(forgotten):
    base, number, wrong = WRONG[forgotten]
    release, laws, scale = BASES[base]
    epsilons = [scale * share for share in SHARES]
    event = wrong(release, number)
    assert understated(event, list(choices(laws, number)), epsilons)


def test_checker_sees_mistakes_of_renyi():
    found = list(choices(BASES["gaussian"][1], FIVE))
    for wrong in (E.Gaussian(2.0), E.Choice(E.Gaussian(2.0), poisson(4.0))):
        assert too_small(wrong, found)
