"""Noisy sums: exact before the noise, and what they reveal, by independent means."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy import stats
from sklearn.base import clone

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.measure import (
    EntrySums,
    Releases,
    plan_gaussian_sums,
    plan_laplace_sums,
    planned_event,
)
from sktensordp.privacy import PrivacyGuarantee
from tests.support import divergence
from tests.support.noise import drawing, source_of
from tests.support.people import Asking, Summed
from tests.support.points import POINTS
from tests.support.replaying import accounted, quick, recorded

pytestmark = pytest.mark.thorough
SHAPES = {2: (3, 4), 3: (3, 4, 2)}
WHERE = {
    order: np.array([[0, 0, 0], [0, 1, 1], [1, 2, 0], [2, 3, 1], [1, 1, 1]])[:, :order]
    for order in SHAPES
}
VALUES = np.array([0.0, 0.2, 0.9, 1.0, 0.0])


def make(form="CP", order=2, **params):
    estimator, rank = CPCompletion, 2
    if form == "Tucker":
        estimator, rank = TuckerCompletion, (2, 2, 2)[:order]
    options = {
        "epsilon": 1.0, "value_bounds": (0, 1), "max_iter": 3, "random_state": 0,
        "shape": SHAPES[order], "n_pattern_components": 0, **params,
    }  # fmt: skip
    return estimator(options.pop("rank", rank), **options)


def moved_by_one_value(model, order, start, wrong, entries=range(5)):
    """Yield entries, and by release how far a fit moves where one has another value."""
    for entry in entries:
        # Within the bounds, at them, and far beyond.
        for value in (-1e9, 0.3, 1e9):
            changed = VALUES.copy()
            changed[entry] = value
            with recorded(start, wrong=wrong) as other:
                clone(model).fit(WHERE[order], changed)
            (first,), *moved = start.moved(other)
            # What comes first: sums by the range at most.
            assert first.max() <= start.lattices[0].l1_steps
            yield entry, first, moved


# --- sums before the noise ---------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
def test_sums_of_whole_steps_are_exact(chunk):
    rng = np.random.default_rng(0)
    step, n = 2.0**-21, 300
    rows = rng.integers(0, 5, n)
    # Of very different sizes, and halves of a step, which are rounded to even.
    own = rng.standard_normal((n, 2)) * 10.0 ** rng.integers(-9, 0, (n, 2))
    own[:40] = (rng.integers(-99, 99, (40, 2)) + 0.5) * step
    # So that none of them is too long.
    sums = EntrySums(((5, 2),), "l2", step, share=100.0)
    total = sums.zeros()
    for start in range(0, n, chunk):
        part = slice(start, start + chunk)
        sums.add(total, [rows[part]], [own[part].copy()])
    (found,) = sums.parts(sums.on_lattice(total))
    expected = [[0, 0] for _ in range(5)]
    for row, pair in zip(rows.tolist(), own.tolist(), strict=True):
        for column, value in enumerate(pair):
            expected[row][column] += round(Fraction(value) / Fraction(step))
    for row, column in itertools.product(range(5), range(2)):
        assert Fraction(found[row, column]) == expected[row][column] * Fraction(step)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_a_release_is_whole_steps_and_its_order_does_not_matter(kind):
    noise = plan_of(kind, 1.0)
    rng = np.random.default_rng(0)
    rows, own = rng.integers(0, 4, 50), rng.uniform(-0.1, 0.1, (50, 3))
    order = rng.permutation(50)
    one = released(noise, rows, own, (4, 3))
    two = released(noise, rows[order], own[order], (4, 3))
    np.testing.assert_array_equal(one, two)
    assert np.all(one % noise.lattice.step == 0)


def released(noise, rows, own, shape, seed=0):
    """What goes through the door of entries that contribute `own` to these rows."""
    sums = EntrySums((shape,), noise.norm, noise.step)
    total = sums.zeros()
    sums.add(total, [rows], [own.copy()])
    ((noisy, _),) = Releases(noise, source_of(seed)).ask(
        Summed((total,)), Asking((sums,))
    )
    return noisy


def plan_of(kind, epsilon, n_releases=3, n_entries=100, n_cells=10**4):
    sizes = {"n_releases": n_releases, "n_entries": n_entries}
    if kind == "laplace":
        return plan_laplace_sums(epsilon, n_cells_per_entry=4, **sizes)
    return plan_gaussian_sums(
        epsilon, 1e-6, total_epsilon=epsilon, n_cells=n_cells, n_moved=4, **sizes
    )


def noise_of(kind, epsilon):
    """Noise of 40,000 sums, where nothing contributes."""
    sums = np.zeros((1, 1))
    noise = plan_of(kind, epsilon, n_cells=40_000)
    return noise, released(noise, np.zeros(1, int), sums, (40_000, 1), seed=3)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_noise_has_the_law_that_is_accounted_for(kind):
    """Kolmogorov and Smirnov; a false alarm in 1e-9, for a fixed seed."""
    planned = plan_of(kind, 1.0)
    if kind == "gaussian":
        # The law that leaves mu = 1/sigma a release, for contributions 1 apart.
        mu = accounted(planned)[1]
        law = stats.norm(scale=math.sqrt(3) / mu)
    else:
        law = stats.laplace(scale=3.0)
    assert stats.kstest(noise_of(kind, 1.0)[1], law.cdf).pvalue > 1e-9
    # Half the noise is found out, and so is the noise of a budget that is not shared.
    assert stats.kstest(noise_of(kind, 2.0)[1], law.cdf).pvalue < 1e-9
    assert stats.kstest(noise_of(kind, 3.0)[1], law.cdf).pvalue < 1e-9


# --- plans -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "n_releases", "n_cells"),
    [
        (0.01, 1e-12, 1, 1), (0.01, 0.1, 400, 10**6), (1.0, 1e-6, 7, 1),
        (1.0, 0.1, 1, 10**6), (40.0, 1e-12, 400, 10**6), (40.0, 0.1, 7, 1),
    ],
)  # fmt: skip
def test_gaussian_plans_keep_their_budget(epsilon, delta, n_releases, n_cells):
    n_moved = 9
    plan = plan_gaussian_sums(
        epsilon, delta, total_epsilon=epsilon, n_releases=n_releases, n_cells=n_cells,
        n_moved=n_moved, n_entries=1000,
    )  # fmt: skip
    guarantee = PrivacyGuarantee.from_event(
        plan.event, delta=delta, unit="entry", statement="", source=""
    )
    # To the last digit, since a fit promises it; and nothing is wasted.
    assert guarantee.epsilon_at(delta) <= epsilon
    assert guarantee.epsilon_at(delta) > epsilon * (1 - 1e-3)
    # From the step, sigma and the numbers of sums and releases alone.
    lattice = plan.lattice
    mu = (1 + lattice.step * math.sqrt(n_moved)) / lattice.sigma
    found = accounted(plan)[1]
    assert mu * math.sqrt(n_releases) <= found
    assert found < 1.001 * mu * math.sqrt(n_releases)
    truth = divergence.gaussian_stick(mu * math.sqrt(n_releases), 0.9 * epsilon)
    assert guarantee.delta_at(0.9 * epsilon) >= truth
    assert plan.noise_variance == pytest.approx(lattice.sigma**2)


@pytest.mark.parametrize(("epsilon", "n_releases"), [(1e-4, 1), (0.5, 3), (40.0, 50)])
@pytest.mark.parametrize("n_moved", [1, 40])
def test_laplace_plans_keep_their_budget(epsilon, n_releases, n_moved):
    plan = plan_laplace_sums(
        epsilon, n_releases=n_releases, n_cells_per_entry=n_moved, n_entries=1000
    )
    lattice = plan.lattice
    # Contributions 1 apart in L1 are so many whole steps apart, each sum being rounded.
    steps = 1 / Fraction(lattice.step) + n_moved
    spent = n_releases * steps * Fraction(lattice.numerator, lattice.denominator)
    assert spent <= Fraction(epsilon)
    assert spent > Fraction(epsilon) * Fraction(99, 100)
    guarantee = PrivacyGuarantee.from_event(
        plan.event, unit="entry", statement="", source=""
    )
    assert float(spent) * (1 - 1e-12) <= guarantee.epsilon <= epsilon


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_sums_of_many_entries_are_exact(kind):
    """Below 2**53 steps, where floats represent every integer, with room for noise."""
    steps = []
    for n_entries in (2**20, 2**30, 2**40):
        for epsilon in (1.0, 100.0):
            step = plan_of(kind, epsilon, n_entries=n_entries).lattice.step
            assert n_entries / step <= 2**51
            steps.append(step)
    # Many entries coarsen the lattice, and no more than that needs.
    assert steps[-1] == 2.0**-11 > steps[0]


@pytest.mark.parametrize("step", [0.3, 2.0**-4])
def test_rounding_adds_what_the_plans_say(step):
    """With coarse steps, where it is seen, for the distances of both kinds."""
    rng = np.random.default_rng(0)
    one = rng.uniform(-1, 1, (20_000, 4))
    change = rng.standard_normal((20_000, 4))
    for order, extra in ((1, 4), (2, 2)):
        size = np.linalg.norm(change, order, axis=1, keepdims=True)
        other = one + change / size
        apart = step * (np.rint(one / step) - np.rint(other / step))
        found = np.linalg.norm(apart, order, axis=1).max()
        assert found <= 1 + step * extra
        assert found > 1 + 0.3 * step


def test_what_cannot_be_kept_is_refused():
    gaussian = {"total_epsilon": 1.0, "n_releases": 2, "n_moved": 3}
    laplace = {"n_releases": 2, "n_cells_per_entry": 3}
    with pytest.raises(ValueError, match="delta > 0"):
        plan_gaussian_sums(1.0, 0, n_cells=10, n_entries=9, **gaussian)
    with pytest.raises(ValueError, match="delta"):
        plan_gaussian_sums(1.0, 1e-300, n_cells=10, n_entries=9, **gaussian)
    with pytest.raises(ValueError, match="summed exactly"):
        plan_gaussian_sums(1.0, 1e-6, n_cells=10, n_entries=2**52, **gaussian)
    with pytest.raises(ValueError, match="summed exactly"):
        plan_laplace_sums(100.0, n_entries=2**52, **laplace)
    # No noise needs no delta.
    assert (
        plan_gaussian_sums(math.inf, 0, n_cells=1, n_entries=1, **gaussian).event
        is None
    )
    assert plan_laplace_sums(math.inf, n_entries=1, **laplace).noise_variance == 0


# --- what all releases of a fit reveal ----------------------------------------------


def laplace_cdf(x, rate):
    """Of the law P(n) ~ exp(-rate |n|), at the integers below x."""
    n = np.floor(x)
    tail = 1 / (1 + np.exp(-rate))
    below = np.exp(rate * np.minimum(n, 0)) * tail
    above = 1 - np.exp(-rate * (np.maximum(n, 0) + 1)) * tail
    return np.where(n < 0, below, above)


def coarse_law(rate, width, parts):
    """Losses of discrete Laplace noise between 0 and `width`, in so many parts.

    Forgetting where in a part the noise lies is post-processing: never too large.
    """
    parts = min(width, parts)
    n = np.arange(parts + 1)
    p = np.diff(np.r_[0, laplace_cdf(n / parts * width, rate)[:-1], 1])
    q = np.diff(np.r_[0, laplace_cdf((n / parts - 1) * width, rate)[:-1], 1])
    return np.log(p / q), p


def binned(law, step=1e-3):
    """The law with outputs of like losses joined: post-processing, and smaller."""
    losses, masses = law
    other = masses * np.exp(-losses)
    _, index = np.unique(np.floor(losses / step), return_inverse=True)
    p, q = np.bincount(index, masses), np.bincount(index, other)
    return np.log(p / q), p


def truth_at(found, n_sums, epsilon):
    """Divergence of what two neighbours can release, without dp-accounting.

    Everything that is released is as far apart as one value of [0, 1] can move it: the
    first release has `n_sums` sums that it is in.
    """
    first, *others = found.lattices
    laws = [coarse_law(first.rate, first.l1_steps, 64)] * n_sums
    gaussian = [noise for noise in others if hasattr(noise, "sigma")]
    # In L1, all of the distance may be in one sum.
    laws += [
        coarse_law(noise.rate, round(1 / noise.step), 64)
        for noise in others
        if not hasattr(noise, "sigma")
    ]
    law = laws[0]
    for other in laws[1:]:
        law = binned(divergence.product(law, other))
    if not gaussian:
        return divergence.stick(law, epsilon)
    mu = math.sqrt(len(gaussian)) / gaussian[0].sigma
    return divergence.stick_with_gaussian(law, mu, epsilon)


@pytest.mark.parametrize(
    ("perturbation", "form", "biases", "order", "epsilon"),
    [
        ("gradient", "CP", True, 2, 0.4),
        pytest.param("gradient", "Tucker", False, 3, 3.0, marks=pytest.mark.slow),
        ("statistics", "CP", True, 3, 3.0), ("output", "Tucker", False, 2, 0.4),
        ("sums", "CP", True, 2, 4.0), ("sums", "CP", True, 3, 0.3),
    ],
)  # fmt: skip
def test_the_guarantee_is_no_less_than_the_truth(
    perturbation, form, biases, order, epsilon
):
    """Of sums or the mean, and of all releases, composed."""
    model = make(
        form, order, perturbation=perturbation, biases=biases, epsilon=epsilon,
        delta=1e-4,
    )  # fmt: skip
    y = np.linspace(0, 1, len(WHERE[order]))
    with recorded() as found:
        guarantee = model.fit(WHERE[order], y).privacy_guarantee_
    half = model.set_params(epsilon=epsilon / 2).fit(WHERE[order], y)
    half = half.privacy_guarantee_
    assert guarantee.epsilon <= epsilon
    assert half.epsilon <= epsilon / 2
    n_sums = order if biases and perturbation != "gradient" else 1
    refuted = []
    for at in np.array([0.0, 0.2, 0.4, 0.6, 0.8]) * epsilon:
        truth = truth_at(found, n_sums, at)
        assert guarantee.delta_at(at) >= truth * (1 - 1e-9)
        refuted.append(half.delta_at(at) < truth)
    assert all(refuted[:2])
    if (perturbation, form) == ("gradient", "CP"):
        # So that the comparison means something.
        for at in (0.2, 0.4):
            assert guarantee.delta_at(at) < 1.01 * truth_at(found, n_sums, at)


# --- streams -----------------------------------------------------------------------


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("perturbation", ["gradient", "statistics", "output"])
def test_no_two_draws_of_a_fit_share_a_stream(perturbation, biases, monkeypatch):
    # Several blocks a release.
    monkeypatch.setattr(*POINTS["block of noisy sums"], 4)
    model = make("CP", 3, perturbation=perturbation, biases=biases)
    with drawing() as opened, quick():
        model.fit(WHERE[3], np.zeros(5))
    blocks = [block for _, block in opened]
    assert len(set(blocks)) == len(blocks)
    # Every part of a release, from zero on; that of the sums or of the mean, too.
    parts = {block >> 32 for block in blocks}
    assert parts == set(range(1 + 3))
    assert len(blocks) > len(parts)


def test_parts_of_a_source_are_apart():
    source = source_of(0)
    words = [
        tuple(source.step(number).stream(block).random_raw(4).tolist())
        for number, block in itertools.product([0, 1, 2, 2**31], [0, 1, 2**31])
    ]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("n_cells", [100, 10**8])
def test_what_is_planned_dominates_a_hundred_million_sums(n_cells):
    """Alone, and composed as in a search."""
    event = planned_event(0.95, 1e-6, total_epsilon=1.0)
    real = plan_gaussian_sums(
        0.95, 1e-6, total_epsilon=1.0, n_releases=25, n_cells=n_cells, n_moved=20,
        n_entries=10**6,
    ).event  # fmt: skip
    fields = {"delta": 1e-6, "unit": "entry", "statement": "", "source": ""}
    for count in (1, 10, 100):
        planned, found = (
            PrivacyGuarantee.from_event(
                dp_event.SelfComposedDpEvent(e, count), **fields
            )
            for e in (event, real)
        )
        for delta in (1e-9, 1e-6, 1e-3):
            assert found.epsilon_at(delta) <= planned.epsilon_at(delta)
