"""The adaptive filter against adversaries, searched exhaustively.

An adversary sees every outcome and chooses the next release, or stops. Where losses are
multiples of a step, all that matters of the outcomes so far is their summed loss and
how often each kind was released: the largest hockey-stick divergence over all of its
strategies is a dynamic programme. Laws are exact on the grid, or say which way they
err. That the search can see is shown by rules which it breaks.
"""

import math

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import PrivacyBudget, PrivacyGuarantee, _filter
from sktensordp.privacy._accounting import event_delta
from sktensordp.privacy._events import (
    ParallelDpEvent,
    PureDpEvent,
    RevealingDpEvent,
    SamplerResidualDpEvent,
    TableDpEvent,
)
from sktensordp.privacy._filter import AdaptiveFilter, Spending
from sktensordp.privacy._gaussian import gaussian_mu
from sktensordp.privacy._ledger import read
from sktensordp.privacy._renyi import event_renyi

STEP = 0.05
ROUNDING = 1 + 1e-9


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


def response(epsilon, **options):
    """Binary randomised response: exact on the grid."""
    losses = np.array([epsilon, -epsilon])
    masses = 1 / (1 + np.exp(-losses))
    return Kind(PureDpEvent(epsilon), losses, masses, **options)


def gaussian(mu, step=STEP, up=False):
    """Gaussian noise, its outputs pooled into cells whose losses are on the grid.

    Or, `up`, each output going to both ends of its step so that no mass of either law
    changes: then all strategies get more than of the noise itself.
    """
    event = dp_event.GaussianDpEvent(1 / mu)
    first, last = (round((mu * mu / 2 + 6 * s * mu) / step) for s in (-1, 1))
    if not up:
        # Nothing is won of the least; the last cell has more than its loss.
        edges = [step * (first - 0.5)]
        for loss in step * np.arange(first, last):
            ends = edges[-1] + step / 10, edges[-1] + 2 * step
            edges.append(brentq(ratio_over(mu, loss, edges[-1]), *ends))
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


def ratio_over(mu, loss, start):
    """How much a cell from `start` on says more than a loss, by where it ends."""

    def excess(end):
        p, q = (float(masses(sign * mu, [start, end])[0]) for sign in (1, -1))
        return p - math.exp(loss) * q

    return excess


def counted(kinds, place):
    return tuple(int(i == place) for i in range(len(kinds)))


def attack(kinds, admitted, epsilon, start, reach=8.0):
    """Largest hockey-stick divergence over strategies that begin with one release.

    Parameters
    ----------
    admitted : callable
        Whether one more release of a kind is, after so many of each.
    """
    step, pad = kinds[0].step, max(kind.reach for kind in kinds)
    n = round((epsilon + reach) / step)
    losses = step * np.arange(-n, n + pad + 1)
    # Whoever stops has this; beyond the grid nothing more is won.
    stopped = np.maximum(-np.expm1(np.minimum(epsilon - losses, 0)), 0)
    stopped, above = stopped[:-pad], stopped[-pad:]
    layers, edges = [{counted(kinds, start)}], {}
    while layers[-1]:
        for counts in layers[-1]:
            edges[counts] = [k for k in range(len(kinds)) if admitted(counts, k)]
        layers.append({more(c, k) for c in layers[-1] for k in edges[c]})

    def after(values, kind):
        wide = np.concatenate([np.zeros(pad), values, above])
        cut = pad - kind.reach
        return kind.expected(wide[cut : len(wide) - cut])

    values: dict[tuple[int, ...], np.ndarray] = {}
    for layer in reversed(layers):
        known, values = values, {}
        for counts in layer:
            found = [after(known[more(counts, k)], kinds[k]) for k in edges[counts]]
            values[counts] = np.max([stopped, *found], axis=0)
    return float(after(values[counted(kinds, start)], kinds[start])[n])


def more(counts, place):
    return tuple(n + (i == place) for i, n in enumerate(counts))


def by_the_filter(kinds, epsilon, delta, start):
    """What the filter admits after a first release; None if not even that."""
    keeper, event = AdaptiveFilter(epsilon, delta), kinds[start].event
    found = keeper.admit(event, lambda spending: spending)
    if found is None:
        return None
    totals = {counted(kinds, start): found[0]}
    keeper.settle(found[1])

    def admitted(counts, place):
        before = totals[counts]
        after = keeper.admit(kinds[place].event, lambda spending: before + spending)
        if after is not None:
            totals[more(counts, place)] = before + after[0]
        return after is not None

    return admitted


def by_sums(kinds, keeps):
    """What a rule admits that looks at the number of every kind alone."""
    memory = {}

    def admitted(counts, place):
        counts = more(counts, place)
        if counts not in memory:
            memory[counts] = keeps(counts)
        return memory[counts]

    return admitted


def attacks(kinds, epsilon, delta):
    """Divergences won against the filter, for every first release that it admits."""
    rules = [by_the_filter(kinds, epsilon, delta, k) for k in range(len(kinds))]
    return [
        attack(kinds, rule, epsilon, k) for k, rule in enumerate(rules) if rule
    ]  # fmt: skip


def discrete_laplace(divergence, rate, shift):
    event = dp_event.DiscreteLaplaceDpEvent(rate, shift)
    return Kind(event, *divergence.discrete_laplace(rate, shift))


def laplace(divergence, epsilon):
    event = dp_event.LaplaceDpEvent(1 / epsilon)
    return Kind(event, *divergence.laplace(epsilon, round(epsilon / STEP)))


def table(divergence, rows):
    return Kind(TableDpEvent(rows), *divergence.table_pair(*rows[:2]))


PURE = {
    "responses": lambda d: [response(1.0), response(0.3), response(0.1)],
    "a large one": lambda d: [response(0.2), response(2.0)],
    "integers": lambda d: [discrete_laplace(d, 0.1, 5), discrete_laplace(d, 0.2, 1)],
    "Laplace": lambda d: [laplace(d, 0.5), laplace(d, 0.2)],
    "tables": lambda d: [
        table(d, ((5, 3, 2), (3, 3, 4))), table(d, ((9, 1), (8, 2))), response(0.2),
    ],
}  # fmt: skip
MIXED = {
    "Gaussian": lambda up: [gaussian(0.5, up=up), gaussian(0.2, up=up)],
    "with responses": lambda up: [gaussian(0.3, up=up), response(0.5), response(0.15)],
    "with a large one": lambda up: [gaussian(0.3, up=up), response(2.0), response(0.2)],
}
LIMITS = [(0.5, 0.1), (1.0, 0.05), (2.0, 1e-3), (4.0, 1e-3), (3.0, 1e-5)]


@pytest.mark.parametrize("name", PURE)
def test_no_strategy_with_pure_releases_wins(name, divergence):
    kinds = PURE[name](divergence)
    used = []
    for epsilon, delta in LIMITS:
        found = attacks(kinds, epsilon, delta)
        assert max(found, default=0) <= delta * ROUNDING, (epsilon, delta)
        used.append(max(found, default=0) / delta)
    # Not for being stingy.
    assert max(used) > 0.5


@pytest.mark.parametrize("name", MIXED)
def test_no_strategy_with_gaussian_noise_wins(name):
    """Even where the grid says more than the noise; the share kept covers that."""
    used = []
    for epsilon, delta in LIMITS:
        found = attacks(MIXED[name](up=True), epsilon, delta)
        assert max(found, default=0) <= delta * 1.005, (epsilon, delta)
        used.append(max(found, default=0) / delta)
    assert max(used) > 0.9


def test_releases_with_residuals_keep_to_their_share():
    """Samplers that are as far from their laws as they say, or show everything."""
    step, epsilon, delta = 0.01, 2.0, 1e-2
    most = 0.01 * delta / (1 + math.exp(epsilon)) / 2
    shows = Composed((PureDpEvent(0.5), SamplerResidualDpEvent(0, most / 3)))
    # Randomised response that is further apart than its ideal law, by 0.02.
    apart = math.log((1 + math.exp(0.32)) / (1 + math.exp(0.3)))
    shifted = Composed((PureDpEvent(0.3), SamplerResidualDpEvent(apart, 0)))
    reveals = RevealingDpEvent(most / 4, PureDpEvent(0.4))
    kinds = [
        response(0.5, step=step, shown=most / 3),
        response(0.32, step=step),
        response(0.4, step=step, shown=most / 4),
        gaussian(0.5, step, up=True),
    ]
    for kind, event in zip(kinds, (shows, shifted, reveals), strict=False):
        kind.event = event
    found = attacks(kinds, epsilon, delta)
    assert len(found) == 4
    assert max(found) <= delta
    assert min(found) > 0


Composed = dp_event.ComposedDpEvent
NATURAL = (response(0.5), response(0.2)), 1.0, 0.05


def test_the_composition_of_what_happened_is_not_enough():
    """It admits on one outcome what it need not on another: hence the filter."""
    kinds, epsilon, delta = NATURAL

    def keeps(counts):
        budget = PrivacyBudget(epsilon, delta, adaptive=False)
        events = [k.event for k, n in zip(kinds, counts, strict=True) for _ in range(n)]
        try:
            for event in events:
                budget.spend(guarantee_of(event))
        except BudgetExceededError:
            return False
        return budget.spent.delta_at(epsilon) <= delta * ROUNDING

    won = attack(kinds, by_sums(kinds, keeps), epsilon, 1)
    assert won > 1.1 * delta
    assert max(attacks(kinds, epsilon, delta)) <= delta
    # Fixed beforehand, whatever is admitted is no more than delta: nothing is wrong
    # with the compositions themselves.
    for counts in [(2, 2), (1, 4), (0, 6)]:
        line = [k for k, n in enumerate(counts) for _ in range(n)]

        def fixed(done, place, line=line):
            return sum(done) < len(line) and place == line[sum(done)]

        if keeps(counts):
            assert attack(kinds, fixed, epsilon, line[0]) <= delta * ROUNDING


def sums_of(kinds):
    """Pure epsilons, squares and Renyi divergences at all orders."""
    ledgers = [read(kind.event)[0] for kind in kinds]
    pure = [one.pure_epsilon if one.only_pure else math.inf for one in ledgers]
    squares = [_filter._squares(one) for one in ledgers]
    renyi = [[event_renyi(k.event, a) for a in _filter._ORDERS] for k in kinds]
    return np.array(pure), np.array(squares), np.array(renyi)


def limits(epsilon, delta):
    orders = _filter._ORDERS
    renyi = [_filter._largest_renyi(epsilon, delta, order) for order in orders]
    return gaussian_mu(epsilon, delta) ** 2, np.array(renyi)


def weighted(counts, sums):
    """Sums over releases, none of which is released 0 times infinity."""
    used = np.array(counts) > 0
    return np.array(counts)[used] @ sums[used]


def any_order(kinds, epsilon, delta):
    """The best order for what happened: on every outcome another one."""
    (pure, _, renyi), (_, most) = sums_of(kinds), limits(epsilon, delta)
    return lambda c: (
        weighted(c, pure) <= epsilon * ROUNDING or np.any(weighted(c, renyi) <= most)
    )


def either_sum(kinds, epsilon, delta):
    """The Gaussian sum on some outcomes, Renyi's at one order on others."""
    (_, squares, renyi), (most, most_renyi) = sums_of(kinds), limits(epsilon, delta)
    order = np.argmin(np.abs(np.array(_filter._ORDERS) - 11))
    return lambda c: (
        weighted(c, squares) <= most
        or weighted(c, renyi[:, order]) <= most_renyi[order]
    )


def squared_epsilons(kinds, epsilon, delta):
    """Squares of pure epsilons as if they were those of mu."""
    (pure, *_), (most, _) = sums_of(kinds), limits(epsilon, delta)
    return lambda c: weighted(c, pure**2) <= most


def own_curves(kinds, epsilon, delta):
    """One release more by its own curve, whatever was released before."""
    (pure, *_), fits = sums_of(kinds), [delta_of(k, epsilon) <= delta for k in kinds]
    return lambda c: (
        weighted(c, pure) <= epsilon * ROUNDING
        or any(fit and n and sum(c) == 2 for n, fit in zip(c, fits, strict=True))
    )


def no_share(kinds, epsilon, delta):
    """The whole delta for ideal laws, and residuals besides."""
    (_, squares, _), (most, _) = sums_of(kinds), limits(epsilon, delta)
    return lambda c: weighted(c, squares) <= most * ROUNDING


def delta_of(kind, epsilon):
    return event_delta(kind.event, epsilon)


def with_residual(kind, shown):
    kind.event = Composed((kind.event, SamplerResidualDpEvent(0, shown)))
    kind.shown = shown
    return kind


RESPONSES = [response(1.0), response(0.3), response(0.1)]
FINE = [*(gaussian(mu, 0.02) for mu in (0.16, 0.3)), response(0.5, step=0.02)]
WHOLE = with_residual(gaussian(gaussian_mu(0.2, 0.1)), 0.04)
# Kinds, the first of them, epsilon, delta, and what at least is won beside delta.
MISTAKES = {
    any_order: (RESPONSES, 2, 4.0, 1e-3, 1.3),
    either_sum: (FINE, 0, 2.0, 1e-3, 1.2),
    squared_epsilons: ([response(0.7), *RESPONSES[1:]], 2, 1.0, 0.1, 1.1),
    own_curves: ([response(0.5), response(1.0)], 0, 1.0, 0.05, 2.0),
    no_share: ([WHOLE], 0, 0.2, 0.1, 1.3),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_search_would_notice(mistake):
    kinds, start, epsilon, delta, least = MISTAKES[mistake]
    keeps = mistake(kinds, epsilon, delta)
    assert keeps(counted(kinds, start))
    won = attack(kinds, by_sums(kinds, keeps), epsilon, start)
    assert won > least * delta
    assert max(attacks(kinds, epsilon, delta), default=0) <= delta


def test_the_search_knows_what_a_release_shows():
    """One Gaussian release: its exact curve, from both sides, at a fine step."""
    for mu, epsilon in ((0.3, 0.5), (0.5, 1.0)):
        exact = float(gaussian_curve(mu, epsilon))
        low, high = (
            attack([gaussian(mu, 0.01, up)], lambda *_: False, epsilon, 0)
            for up in (False, True)
        )
        assert 0.997 * exact < low <= exact <= high < 1.003 * exact


def gaussian_curve(mu, epsilon):
    upper = mpmath.ncdf(mu / 2 - epsilon / mu)
    return upper - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


# What the filter sums.


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, 4.0, 20.0, 700.0])
def test_squares_of_a_pure_release(epsilon):
    """Its trade-off function is above the Gaussian one, and touches it."""
    mu = math.sqrt(_filter._squares(read(PureDpEvent(epsilon))[0]))
    with mpmath.workdps(350):
        corner = 1 / (1 + mpmath.exp(epsilon))
        # Of randomised response: (corner, corner) is on it.
        assert mpmath.ncdf(-mpmath.mpf(mu) / 2) <= corner
        assert mpmath.ncdf(-mpmath.mpf(mu) * (1 - 1e-10) / 2) > corner
    if epsilon < 5:
        alpha = np.linspace(1e-6, 1 - 1e-6, 2001)
        lines = 1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha)
        trade_off = np.maximum(*lines)
        assert np.all(trade_off >= norm.cdf(norm.isf(alpha) - mu) - 1e-15)


@pytest.mark.parametrize(
    "event",
    [
        dp_event.LaplaceDpEvent(0.7),
        dp_event.DiscreteLaplaceDpEvent(0.3, 4),
        TableDpEvent(((7, 2, 1), (3, 3, 4))),
        Composed((PureDpEvent(0.5), PureDpEvent(0.2), dp_event.LaplaceDpEvent(2))),
        dp_event.PoissonSampledDpEvent(0.3, dp_event.GaussianDpEvent(0.8)),
        Composed((dp_event.GaussianDpEvent(2), PureDpEvent(1.0))),
    ],
    ids=str,
)
def test_squares_say_no_less_than_the_release(event):
    """At all epsilons, Gaussian noise of the squares has the larger delta."""
    mu = math.sqrt(_filter._squares(read(event)[0]))
    for epsilon in np.linspace(0, 4, 41):
        bound = float(gaussian_curve(mu, epsilon))
        assert event_delta(event, epsilon) <= bound * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("order", [1.02, 1.5, 2.0, 9.0, 300.0, 2e5])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.3), (1.0, 1e-6), (8.0, 1e-12)])
def test_largest_renyi(order, epsilon, delta):
    """Canonne, Kamath and Steinke (2020), by 40 digits, and what it promises."""
    most = _filter._largest_renyi(epsilon, delta, order)
    with mpmath.workdps(40):
        a, r = mpmath.mpf(order), mpmath.mpf(most)
        log_delta = (a - 1) * (r - epsilon) + a * mpmath.log(1 - 1 / a)
        found = mpmath.exp(log_delta - mpmath.log(a - 1))
        assert abs(found / delta - 1) < 1e-9
    if most > 0:
        mu = math.sqrt(2 * most / order)
        assert gaussian_curve(mu, epsilon) <= delta


def largest(fits, low=0.0, high=1.0):
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-2), (2.0, 1e-4), (9.0, 1e-6)])
def test_what_is_kept_for_residuals_suffices(epsilon, delta):
    """The largest admitted next to full sums, in the inequality of the triangle."""
    keeper = AdaptiveFilter(epsilon, delta)
    _, rule = keeper.admit(dp_event.GaussianDpEvent(1e3), lambda more: more)
    keeper.settle(rule)

    def keeps(**sums):
        full = Spending(2, math.inf, rule.most_squares, math.inf, **sums)
        return keeper.admit(PureDpEvent(0.0), lambda _: full) is not None

    most = largest(lambda e: keeps(residual_epsilon=e))
    shown = largest(lambda d: keeps(residual_epsilon=most, residual_delta=d))
    assert most > 1e-3 * epsilon
    ideal = float(gaussian_curve(math.sqrt(rule.most_squares), epsilon - 2 * most))
    # Half of what is shown is for the outcomes that keep the pure sum.
    used = math.exp(most) * ideal + 2 * shown * (1 + math.exp(epsilon))
    assert 0.98 * delta < used <= delta * ROUNDING


EVENTS = [
    PureDpEvent(0.2),
    dp_event.GaussianDpEvent(5.0),
    dp_event.DiscreteLaplaceDpEvent(0.1, 4),
    Composed((dp_event.LaplaceDpEvent(4), SamplerResidualDpEvent(1e-4, 1e-12))),
    dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.0)),
    RevealingDpEvent(1e-7, PureDpEvent(0.3)),
    ParallelDpEvent([PureDpEvent(0.1), dp_event.GaussianDpEvent(4.0)]),
    dp_event.NonPrivateDpEvent(),
]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, len(EVENTS) - 1), min_size=2, max_size=25),
    st.sampled_from([(1.0, 1e-3), (0.5, 0.0), (3.0, 1e-6)]),
    st.data(),
)
def test_less_is_always_admitted(chosen, limit, data):
    """What was refused stays refused, and without one release no other is refused."""

    def admitted(events):
        keeper, total, kept = AdaptiveFilter(*limit), Spending(), []
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


def test_one_release_alone_may_spend_everything():
    """By its own curve, once for every part of the data, and nothing beside it."""
    whole = guarantee_of(dp_event.GaussianDpEvent(1 / gaussian_mu(1.0, 1e-6)), 1e-6)
    little = guarantee_of(PureDpEvent(1e-9))
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


def guarantee_of(event, delta=0.0):
    return PrivacyGuarantee.of(
        event, delta=delta, unit="sample", statement="A release.", source="test"
    )
