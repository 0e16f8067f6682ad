"""The adaptive filter against adversaries, searched exhaustively.

An adversary sees every outcome and chooses the next release, or stops. Where losses are
multiples of a step, all that matters of the outcomes so far is their summed loss and
how often each kind was released: the largest hockey-stick divergence over all of its
strategies is a dynamic programme. Laws are exact on the grid, or say which way they
err. That the search can see is shown by rules which it breaks.
"""

import math
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import PrivacyBudget, gaussian_mu
from tests.support import divergence as D
from tests.support import events as E
from tests.support.guarantees import guarantee
from tests.support.seams import (
    AdaptiveFilter,
    Totals,
    _largest_renyi,
    _squared_mu,
    compositions_of,
    event_delta,
    negative_binomial,
    poisson,
)

pytestmark = pytest.mark.thorough
STEP = 0.05
ROUNDING = 1 + 1e-9
LONGEST = 56  # releases that any filter here admits, and some more


class Kind:
    """One release: its event, and its law as masses on multiples of a step.

    `shown` is the probability that the output is impossible under the other input.
    """

    def __init__(self, event, losses, masses, step=STEP, shown=0.0):
        # Rounded down, with the masses kept: less divergence, whatever is done with it.
        places = np.floor(np.asarray(losses) / step + 1e-9).astype(int)
        self.event, self.step, self.shown = event, step, shown
        self.reach = int(np.abs(places).max())
        kernel = np.zeros(2 * self.reach + 1)
        np.add.at(kernel, self.reach + places, np.asarray(masses) * (1 - shown))
        self._kernel = kernel[::-1]

    def expected(self, values):
        """Mean value after the release; `values` reach further by `reach` places."""
        return np.convolve(values, self._kernel, mode="valid") + self.shown


def response(epsilon, event=None, **options):
    """Binary randomised response: exact on the grid."""
    losses = np.array([epsilon, -epsilon])
    event = event or E.Pure(epsilon)
    return Kind(event, losses, 1 / (1 + np.exp(-losses)), **options)


def gaussian(mu, step=STEP, up=False):
    """Gaussian noise, its outputs pooled into cells whose losses are on the grid.

    Or, `up`, each output going to both ends of its step so that no mass of either law
    changes: then all strategies get more than of the noise itself.
    """
    event = E.Gaussian(1 / mu)
    first, last = (round((mu * mu / 2 + 6 * s * mu) / step) for s in (-1, 1))
    if not up:
        # Nothing is won of the least; the last cell has more than its loss.
        edges = [step * (first - 0.5)]
        for loss in step * np.arange(first, last):
            ends = edges[-1] + step / 10, edges[-1] + 2 * step
            edges.append(brentq(excess, *ends, args=(edges[-1], mu, loss)))
        losses = step * np.append(np.arange(first, last), last - 1)
        return Kind(event, losses, masses(mu, [*edges, np.inf]), step)
    edges = (step / 20) * np.arange(20 * first, 20 * last + 1)
    edges[0], edges[-1] = -np.inf, np.inf
    p, q = masses(mu, edges), masses(-mu, edges)
    below = step * np.repeat(np.arange(first, last), 20)
    above = (p * np.exp(-below) - q) / (np.exp(-below) - np.exp(-below - step))
    above = np.clip(above, 0, p)
    losses = np.append(below, below + step)
    return Kind(event, losses, np.append(p - above, above), step)


def masses(mu, edges):
    """Of losses between edges, under one input; with -mu, under the other."""
    scaled = np.asarray(edges) / abs(mu) - mu / 2
    upper, lower = norm.cdf(scaled), norm.sf(scaled)
    return np.where(scaled[1:] < 0, np.diff(upper), -np.diff(lower))


def excess(end, start, mu, loss):
    """How much more than a loss a cell says."""
    p, q = (float(masses(sign * mu, [start, end])[0]) for sign in (1, -1))
    return p - math.exp(loss) * q


def more(counts, place):
    return tuple(n + (i == place) for i, n in enumerate(counts))


def attack(kinds, keeps, epsilon, start, reach=8.0):
    """Largest hockey-stick divergence over strategies that begin with one release.

    `keeps` says whether so many releases of each kind are admitted.
    """
    step, pad = kinds[0].step, max(kind.reach for kind in kinds)
    n = round((epsilon + reach) / step)
    losses = step * np.arange(-n, n + pad + 1)
    # Whoever stops has this; beyond the grid nothing more is won.
    stopped = np.maximum(-np.expm1(np.minimum(epsilon - losses, 0)), 0)
    stopped, above = stopped[:-pad], stopped[-pad:]
    first = more((0,) * len(kinds), start)
    layers, choices = [{first}], range(len(kinds))
    while layers[-1]:
        together = {more(counts, k) for counts in layers[-1] for k in choices}
        layers.append(set(filter(keeps, together)))
        assert len(layers) < LONGEST, "there is no end to what is admitted"

    def after(values, kind):
        wide = np.concatenate([np.zeros(pad), values, above])
        cut = pad - kind.reach
        return kind.expected(wide[cut : len(wide) - cut])

    values: dict[tuple[int, ...], np.ndarray] = {}
    for layer in reversed(layers):
        known, values = values, {}
        for counts in layer:
            nexts = [(known.get(more(counts, k)), kinds[k]) for k in choices]
            found = [after(*one) for one in nexts if one[0] is not None]
            values[counts] = np.max([stopped, *found], axis=0)
    return float(after(values[first], kinds[start])[n])


def by_the_filter(kinds, epsilon, delta, start):
    """What the filter admits after a first release; None if not even that."""
    keeper, event = AdaptiveFilter(epsilon, delta), kinds[start].event
    found = keeper.admit(event, lambda spending: spending)
    if found is None:
        return None
    keeper.settle(found[1])
    each = [keeper.admit(k.event, lambda _: Totals())[0] for k in kinds]

    def keeps(counts):
        together = (one for one, n in zip(each, counts, strict=True) for _ in range(n))
        total = sum(together, start=Totals())
        return keeper.admit(event, lambda _: total) is not None

    return keeps


def attacks(kinds, epsilon, delta):
    """Divergences won against the filter, for every first release that it admits."""
    rules = [by_the_filter(kinds, epsilon, delta, k) for k in range(len(kinds))]
    return [attack(kinds, rule, epsilon, k) for k, rule in enumerate(rules) if rule]


KINDS = {
    "responses": lambda: [response(1.0), response(0.3), response(0.1)],
    "a large one": lambda: [response(0.2), response(2.0)],
    "integers": lambda: [
        Kind(E.Integers(*law), *D.discrete_laplace(*law))
        for law in ((0.1, 5), (0.2, 1))
    ],
    "Laplace": lambda: [
        Kind(E.Laplace(2.0), *D.laplace(0.5, 10)),
        Kind(E.Laplace(5.0), *D.laplace(0.2, 4)),
    ],
    "tables": lambda: [response(0.2)] + [
        Kind(E.Table(rows), *D.table_pair(*rows))
        for rows in (((5, 3, 2), (3, 3, 4)), ((9, 1), (8, 2)))
    ],
    "Gaussian": lambda: [gaussian(0.5, up=True), gaussian(0.2, up=True)],
    "Gaussian and pure": lambda: [
        gaussian(0.3, up=True), response(0.5), response(0.15),
    ],
    "Gaussian and a large one": lambda: [
        gaussian(0.3, up=True), response(2.0), response(0.2),
    ],
}  # fmt: skip
LIMITS = [(0.5, 0.1), (1.0, 0.05), (2.0, 1e-3), (3.0, 1e-5)]


FIRST = "responses", "tables", "Gaussian and pure"
LATER = [pytest.param(n, marks=pytest.mark.slow) for n in KINDS if n not in FIRST]


@pytest.mark.parametrize("name", [*FIRST, *LATER])
def test_no_strategy_wins(name):
    kinds, used = KINDS[name](), []
    # Where the grid says more than the noise, what is kept for residuals covers it.
    tolerance = 1.005 if "Gaussian" in name else ROUNDING
    for epsilon, delta in LIMITS:
        used.append(max(attacks(kinds, epsilon, delta), default=0) / delta)
        assert used[-1] <= tolerance, (epsilon, delta)
    # Not for being stingy.
    assert max(used) > 0.4


def test_releases_with_residuals_keep_to_their_share():
    """Samplers that are as far from their laws as they say, or show everything."""
    step, epsilon, delta = 0.01, 2.0, 1e-2
    most = 0.01 * delta / (1 + math.exp(epsilon)) / 2
    # Randomised response that is further apart than its ideal law, by 0.02.
    apart = math.log((1 + math.exp(0.32)) / (1 + math.exp(0.3)))
    shows, tilts = (
        E.Composed((E.Pure(epsilon0), E.Residual(*residual)))
        for epsilon0, residual in ((0.5, (0, most / 3)), (0.3, (apart, 0)))
    )
    reveals, much = (E.Revealing(p, E.Pure(0.4)) for p in (most / 4, 6e-3))
    kinds = [
        response(0.5, shows, step=step, shown=most / 3),
        response(0.32, tilts, step=step),
        response(0.4, reveals, step=step, shown=most / 4),
        response(0.4, much, step=step, shown=6e-3),
        gaussian(0.5, step, up=True),
    ]
    found = attacks(kinds, epsilon, delta)
    assert len(found) == 5
    assert 0 < min(found) <= max(found) <= delta


def test_the_composition_of_what_happened_is_not_enough():
    """It admits on one outcome what it need not on another: hence the filter."""
    kinds, epsilon, delta = (response(0.5), response(0.2)), 1.0, 0.05

    @cache
    def keeps(counts):
        pairs = zip(kinds, counts, strict=True)
        happened = E.Composed(tuple(k.event for k, n in pairs for _ in range(n)))
        budget = PrivacyBudget(epsilon, delta, adaptive=False)
        return budget.admits(guarantee(happened))

    assert attack(kinds, keeps, epsilon, 1) > 1.1 * delta
    assert max(attacks(kinds, epsilon, delta)) <= delta
    # Fixed beforehand, whatever is admitted is no more than delta: nothing is wrong
    # with the compositions themselves.
    for line in [(0, 1, 1), (1, 1, 1, 1, 1)]:
        starts = [line[:length] for length in range(len(line) + 1)]
        fixed = {tuple(done.count(k) for k in (0, 1)) for done in starts}
        assert all(map(keeps, fixed))
        assert attack(kinds, fixed.__contains__, epsilon, line[0]) <= delta * ROUNDING


@pytest.mark.slow
def test_the_search_knows_what_a_release_shows():
    """One Gaussian release: its exact curve, from both sides, at a fine step."""
    mu, epsilon = 0.5, 1.0
    exact = float(D.exact_gaussian(mu, epsilon))
    low, high = (
        attack([gaussian(mu, 0.01, up)], lambda _: False, epsilon, 0)
        for up in (False, True)
    )
    assert 0.997 < low / exact < 1 + 1e-6 < high / exact + 2e-6 < 1.003


# What the filter sums.


@pytest.mark.parametrize("epsilon", [1e-15, 1e-3, 1.0, 20.0, 700.0])
def test_squares_of_a_pure_release(epsilon):
    """Its trade-off function is above the Gaussian one, and touches it."""
    mu = math.sqrt(_squared_mu(compositions_of(E.Pure(epsilon))[0]))
    with mpmath.workdps(350):
        corner = 1 / (1 + mpmath.exp(epsilon))
        # Of randomised response: (corner, corner) is on it.
        assert mpmath.ncdf(-mpmath.mpf(mu) / 2) <= corner
        assert mpmath.ncdf(-mpmath.mpf(mu) * (1 - 1e-5) / 2) > corner
    if epsilon < 5:
        alpha = np.linspace(1e-6, 1 - 1e-6, 2001)
        lines = 1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha)
        trade_off = np.maximum(*lines)
        assert np.all(trade_off >= norm.cdf(norm.isf(alpha) - mu) - 1e-15)


@pytest.mark.parametrize(
    "event",
    [
        E.Laplace(0.7),
        E.Integers(0.3, 4),
        E.Table(((7, 2, 1), (3, 3, 4))),
        E.Composed((E.Pure(0.5), E.Pure(0.2), E.Laplace(2))),
        E.Sampled(0.3, E.Gaussian(0.8)),
        E.Composed((E.Gaussian(2), E.Pure(1.0))),
    ],
    ids=str,
)
def test_squares_say_no_less_than_the_release(event):
    """At all epsilons, Gaussian noise of the squares has the larger delta."""
    mu = math.sqrt(_squared_mu(compositions_of(event)[0]))
    for epsilon in np.linspace(0, 4, 21):
        bound = float(D.exact_gaussian(mu, epsilon))
        assert event_delta(event, epsilon) <= bound * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("order", [1.02, 2.0, 2e5])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.3), (1.0, 1e-6), (8.0, 1e-12)])
def test_largest_renyi(order, epsilon, delta):
    """Canonne, Kamath and Steinke (2020), by 40 digits, and what it promises."""
    most = _largest_renyi(epsilon, delta, order)
    with mpmath.workdps(40):
        a, r = mpmath.mpf(order), mpmath.mpf(most)
        log_delta = (a - 1) * (r - epsilon) + a * mpmath.log(1 - 1 / a)
        found = mpmath.exp(log_delta - mpmath.log(a - 1))
        assert abs(found / delta - 1) < 1e-9
    if most > 0:
        mu = math.sqrt(2 * most / order)
        assert D.exact_gaussian(mu, epsilon) <= delta


def largest(fits, low=0.0, high=1.0):
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-2), (2.0, 1e-4), (9.0, 1e-6)])
def test_what_is_kept_for_residuals_suffices(epsilon, delta):
    """The largest admitted next to full sums, in the inequality of the triangle."""
    keeper = AdaptiveFilter(epsilon, delta)
    _, limits = keeper.admit(E.Gaussian(1e3), lambda more: more)
    keeper.settle(limits)

    def keeps(**sums):
        full = Totals(2, math.inf, limits.max_squared_mu, math.inf, **sums)
        return keeper.admit(E.Pure(0.0), lambda _: full) is not None

    most = largest(lambda e: keeps(residual_epsilon=e))
    shown = largest(lambda d: keeps(residual_epsilon=most, residual_delta=d))
    assert most > 1e-3 * epsilon
    mu = math.sqrt(limits.max_squared_mu)
    ideal = float(D.exact_gaussian(mu, epsilon - 2 * most))
    # Half of what is shown is for the outcomes that keep the pure sum.
    used = math.exp(most) * ideal + 2 * shown * (1 + math.exp(epsilon))
    assert 0.98 * delta < used <= delta * ROUNDING


EVENTS = [
    E.Pure(0.2),
    E.Gaussian(5.0),
    E.Integers(0.1, 4),
    E.Composed((E.Laplace(4), E.Residual(1e-4, 1e-12))),
    E.Sampled(0.1, E.Gaussian(1.0)),
    E.Revealing(1e-7, E.Pure(0.3)),
    E.Parallel([E.Pure(0.1), E.Gaussian(4.0)]),
    E.NonPrivate(),
]


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.integers(0, len(EVENTS) - 1), min_size=2, max_size=25),
    st.sampled_from([(1.0, 1e-3), (0.5, 0.0), (3.0, 1e-6)]),
    st.data(),
)
def test_less_is_always_admitted(chosen, limit, data):
    """What was refused stays refused, and without one release no other is refused."""

    def admitted(events):
        keeper, total, kept = AdaptiveFilter(*limit), Totals(), []
        for event in events:
            found = keeper.admit(event, lambda more, total=total: total + more)
            if found is not None:
                total = total + found[0]
                keeper.settle(found[1])
            kept.append(found is not None)
        return kept

    events = [EVENTS[i] for i in chosen]
    kept = admitted(events)
    # The first that was admitted decides what is summed.
    first = kept.index(True) if any(kept) else 0
    left_out = data.draw(st.integers(first + 1, len(events)))
    again = admitted(events[:left_out] + events[left_out + 1 :])
    without = kept[:left_out] + kept[left_out + 1 :]
    if all(kept):
        assert all(again)
    assert again[:left_out] == without[:left_out]
    refused = [e for e, fits in zip(events, kept, strict=True) if not fits]
    if any(kept):
        assert not any(admitted(events + refused)[len(events) :])


def test_residuals_at_a_huge_epsilon():
    """Where e^epsilon overflows, no delta of a sampler is small enough."""
    keeper, event = AdaptiveFilter(900.0, 1e-6), E.Gaussian(10)
    spent, limits = keeper.admit(event, lambda more: more)
    keeper.settle(limits)
    event = E.Composed((event, E.Residual(0, 1e-315)))
    assert keeper.admit(event, lambda more: spent + more) is None


def test_one_release_alone_may_spend_everything():
    """By its own curve, once for every part of the data, and nothing beside it."""
    whole = guarantee(E.Gaussian(1 / gaussian_mu(1.0, 1e-6)), 1e-6)
    little = guarantee(E.Pure(1e-9))
    budget = PrivacyBudget(1.0, 1e-6)
    with budget.parallel() as part:
        for _ in range(2):
            with part():
                budget.spend(whole)
                assert not budget.admits(little)
                assert not budget.admits(whole)
    assert not budget.admits(little)
    budget = PrivacyBudget(1.0, 1e-6)
    budget.spend(little)
    assert not budget.admits(whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "residual"),
    [
        (negative_binomial(10.0, 0.0), (0.0, 1e-3)),
        (poisson(5.0), (0.4, 0.0)),
    ],
)
def test_a_choice_among_samplers_keeps_their_residuals(law, residual):
    """The curve of the choice forbids what ideal laws alone would allow."""
    base = [E.Gaussian(20.0), E.Residual(*residual)]
    choice = guarantee(E.Choice(E.Composed(base), law), 0.5)
    step = E.Sampled(0.01, E.Gaussian(2.0))
    budget = PrivacyBudget(3.0, 1e-5)
    budget.spend(guarantee(step, 1e-6))
    for _ in range(2):
        if budget.admits(choice):
            budget.spend(choice)
    with pytest.raises(BudgetExceededError):
        budget.spend(choice)
    assert budget.spent.delta_at(3.0) <= 1e-5


def test_every_try_of_a_choice_may_be_off_its_law():
    """Samplers have a hundredth of a budget's delta, which ten tries use up."""
    budget, most = PrivacyBudget(1.0, 1e-5), 1e-7 / 2 / (1 + math.e)
    step = E.Sampled(0.01, E.Gaussian(20.0))
    budget.spend(guarantee(step, 1e-6))
    for share, admitted in ((0.5, True), (5.0, False)):
        residual = E.Residual(0.0, share * most / 10)
        base = E.Composed([E.Gaussian(200.0), residual])
        choice = E.Choice(base, negative_binomial(10.0, 0.0))
        assert budget.admits(guarantee(choice, 0.5)) == admitted
