"""Noisy sums: exact before the noise, and what they reveal, by independent means.

The other tests of perturbations with several releases borrow what is here: a run whose
sums are seen without their noise, and runs on neighbours along the same trajectory.
"""

import itertools
import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy import stats

from sktensordp import _random
from sktensordp.completion import CPCompletion, _noisy_sums, _problem, _sums
from sktensordp.completion._blocks import BlockPerturbation
from sktensordp.completion._gradient import GradientPerturbation
from sktensordp.completion._noisy_sums import (
    NoisySums,
    plan_gaussian_sums,
    plan_laplace_sums,
    planned_event,
)
from sktensordp.noise import GaussianLattice, LaplaceLattice
from sktensordp.privacy import PrivacyGuarantee
from sktensordp.tensor import TuckerForm
from tests.support import divergence

PERTURBATIONS = ["gradient", "statistics", "output"]
# Fewer would not meet every row; two entries share their coordinates.
WHERE = {
    2: np.array(
        [[0, 0], [0, 1], [1, 2], [2, 0], [2, 3], [1, 1], [0, 0], [2, 2]], dtype=np.int32
    ),
    3: np.array(
        [[0, 0, 0], [0, 1, 1], [1, 2, 0], [2, 0, 1], [2, 3, 0], [1, 1, 1], [0, 0, 0]],
        dtype=np.int32,
    ),
}
SHAPES = {2: (3, 4), 3: (3, 4, 2)}
# Of a Tucker decomposition.
RANKS = {2: (2, 3), 3: (2, 3, 2)}
# Within the bounds (0, 1), at them, and far beyond.
VALUES = [-1e9, 0.0, 0.3, 0.7, 1.0, 1e9]


def make(perturbation="gradient", rank=2, **params):
    options = {
        "epsilon": 1.0, "value_bounds": (0, 1), "max_iter": 3, "random_state": 0,
        **params,
    }  # fmt: skip
    return CPCompletion(rank, perturbation=perturbation, **options)


def solver_of(model, where, shape, ranks=None):
    """The solver of a model; of a Tucker decomposition where its ranks are given."""
    problem = model._problem(np.array(where, dtype=np.int32), None, shape)
    if ranks is not None:
        problem = replace(problem, form=TuckerForm(ranks))
    if model.perturbation == "gradient":
        return GradientPerturbation(problem)
    return BlockPerturbation(problem, model.perturbation)


def predicted(solver, values, seed=0):
    """What the model of a fit predicts for its own entries, without any clipping."""
    released = solver.release(values, _random.NoiseSource(seed, 0), lambda _: False)
    outcome = solver.complete(released, lambda _: False)
    return outcome.offset + outcome.model.predict(solver.problem.coordinates)


def features_are(given):
    """The features of the pattern replaced by given ones."""
    return mock.patch.object(_problem, "pattern_features", return_value=given.copy())


@dataclass
class Trajectory:
    """A run whose sums are seen without noise, and what it went on with instead.

    Attributes
    ----------
    noise : list of NoisySums
        Of every release.
    exact : list of (list of ndarray of int)
        For every release and mode, sums in whole steps.
    outputs : list of (list of ndarray)
        What was taken for the released sums.
    first : ndarray
        Sums, in whole steps, that come before the releases.
    first_lattice : LaplaceLattice
    first_output : ndarray
    first_outcome : Outcome
        The biases that were computed from it.
    """

    noise: list = field(default_factory=list)
    exact: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    first: np.ndarray = None
    first_lattice: LaplaceLattice = None
    first_output: np.ndarray = None
    first_outcome: object = None


def run(solver, values, *, follow=None, factor=1.0, wrong=1.0):
    """What a solver would release, summed here by other means than its own.

    Parameters
    ----------
    follow : Trajectory, default=None
        An earlier run, whose outputs this one is given.
    factor : float, default=1.0
        How many times larger than it is the noise of the trajectory is made.
    wrong : float, default=1.0
        Makes contributions larger, as a mistaken clipping would.
    """
    found, rng = Trajectory(), np.random.default_rng(1)

    def release(noise, parts, source):
        step = noise.lattice.step
        exact = []
        for rows, shape, contributions in parts:
            total = np.zeros(shape, dtype=np.int64)
            own = wrong * contributions(slice(0, len(rows)))
            np.add.at(total, rows, np.rint(own / step).astype(np.int64))
            exact.append(total)
        found.noise.append(noise)
        found.exact.append(exact)
        if follow is None:
            sigma = factor * math.sqrt(noise.noise_variance)
            output = [e * step + sigma * rng.standard_normal(e.shape) for e in exact]
        else:
            output = follow.outputs[len(found.exact) - 1]
        found.outputs.append([part.copy() for part in output])
        return [part.copy() for part in output]

    def randomize(sums, values, source):
        lattice = sums.lattice
        steps = np.rint((sums.values.clip(values) - lattice.low) / lattice.step)
        exact = sums._sums(steps, np.array).astype(np.int64)
        found.first, found.first_lattice = exact, lattice
        if follow is None:
            sigma = factor * math.sqrt(sums.noise_variance)
            noisy = exact * lattice.step + lattice.low * sums.counts
            found.first_output = noisy + sigma * rng.standard_normal(len(exact))
        else:
            found.first_output = follow.first_output
        return found.first_output.copy()

    def complete(first, released, on_sweep):
        # Slow, and the same along a trajectory.
        if follow is None:
            found.first_outcome = fit_biases(first, released, on_sweep)
            return found.first_outcome
        np.testing.assert_array_equal(released[0], follow.first_output)
        return follow.first_outcome

    fit_biases = _sums.SumsPerturbation.complete
    with (
        mock.patch.object(_sums.SumsPerturbation, "complete", complete),
        mock.patch.object(NoisySums, "release", release),
        mock.patch.object(_sums.SumsRandomizer, "randomize", randomize),
    ):
        solver.release(np.array(values), _random.NoiseSource(0, 0), lambda _: False)
    return found


def distances(one, other, order):
    """For every release, the distance of the sums of two runs, all modes together."""
    found = []
    for noise, mine, theirs in zip(one.noise, one.exact, other.exact, strict=True):
        flat = np.concatenate(
            [(a - b).ravel() for a, b in zip(mine, theirs, strict=True)]
        )
        found.append(np.linalg.norm(flat.astype(float), order) * noise.lattice.step)
    return found


def neighbours_of(values):
    """All data sets in which one entry has another of some values."""
    for entry, value in itertools.product(range(len(values)), VALUES):
        changed = values.copy()
        changed[entry] = value
        yield entry, changed


def largest_distance(solver, where, order, *, factor=1.0, wrong=1.0):
    """Over all neighbours and releases; sums of unrelated rows must not move at all."""
    rng = np.random.default_rng(0)
    values = rng.choice([0.0, 0.2, 0.9, 1.0], len(where))
    start = run(solver, values, factor=factor, wrong=wrong)
    largest = np.zeros(len(start.exact))
    for entry, changed in neighbours_of(values):
        other = run(solver, changed, follow=start, wrong=wrong)
        largest = np.maximum(largest, distances(start, other, order))
        # What comes first: one sum of each mode, by the range at most.
        moved = np.abs(start.first - other.first)
        assert moved.max() <= start.first_lattice.n_steps
        modes = where.shape[1] if len(moved) > 1 else 1
        assert np.count_nonzero(moved) <= modes
        for mine, theirs in zip(start.exact, other.exact, strict=True):
            rows = [
                set(np.flatnonzero((a != b).any(axis=1)))
                for a, b in zip(mine, theirs, strict=True)
            ]
            if len(rows) > 1:
                # All modes, and the core where there is one.
                own = [{index} for index in [*where[entry], 0]][: len(rows)]
                assert all(r <= o for r, o in zip(rows, own, strict=True))
            else:
                assert len(rows) == 1
                assert len(rows[0]) <= 1
    return start, largest


def leaves(event):
    """(event, how often) of a composition."""
    name = type(event).__name__
    if name == "ComposedDpEvent":
        for part in event.events:
            yield from leaves(part)
    elif name == "SelfComposedDpEvent":
        for leaf, count in leaves(event.event):
            yield leaf, count * event.count
    else:
        yield event, 1


# --- sums before the noise ---------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
def test_sums_of_whole_steps_are_exact(chunk, monkeypatch):
    monkeypatch.setattr(_noisy_sums, "_CHUNK", chunk)
    rng = np.random.default_rng(0)
    step, n = 2.0**-21, 300
    rows = rng.integers(0, 5, n)
    # Of very different sizes, and halves of a step, which are rounded to even.
    own = rng.standard_normal((n, 2)) * 10.0 ** rng.integers(-9, 0, (n, 2))
    own[:40] = (rng.integers(-99, 99, (40, 2)) + 0.5) * step
    found = _noisy_sums.row_sums(rows, (5, 2), lambda part: own[part], step)
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
    source = _random.NoiseSource(0, 0)
    one = noise.release([(rows, (4, 3), lambda p: own[p])], source)
    two = noise.release([(rows[order], (4, 3), lambda p: own[order][p])], source)
    np.testing.assert_array_equal(one[0], two[0])
    assert np.all(one[0] % noise.lattice.step == 0)


def plan_of(kind, epsilon, n_releases=3):
    if kind == "laplace":
        return plan_laplace_sums(
            epsilon, n_releases=n_releases, n_changed=4, n_entries=100
        )
    return plan_gaussian_sums(
        epsilon, 1e-6, within=epsilon, n_releases=n_releases, n_cells=10**4,
        n_changed=4, n_entries=100,
    )  # fmt: skip


def noise_of(kind, epsilon):
    """Noise of 40,000 sums, where nothing contributes."""
    parts = [(np.zeros(1, dtype=int), (40_000, 1), lambda _: np.zeros((1, 1)))]
    noise = plan_of(kind, epsilon)
    return noise, noise.release(parts, _random.NoiseSource(3, 0))[0].ravel()


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_noise_has_the_law_that_is_accounted_for(kind):
    """Kolmogorov and Smirnov; a false alarm in 1e-9, for a fixed seed."""
    planned = plan_of(kind, 1.0)
    if kind == "gaussian":
        # The law that leaves mu = 1/sigma a release, for contributions 1 apart.
        (mu,) = gaussian_mus(planned.event)
        law = stats.norm(scale=math.sqrt(3) / mu)
    else:
        law = stats.laplace(scale=3.0)
    assert stats.kstest(noise_of(kind, 1.0)[1], law.cdf).pvalue > 1e-9
    # Half the noise is found out, and so is the noise of a budget that is not shared.
    assert stats.kstest(noise_of(kind, 2.0)[1], law.cdf).pvalue < 1e-9
    assert stats.kstest(noise_of(kind, 3.0)[1], law.cdf).pvalue < 1e-9


def gaussian_mus(event):
    return [
        1 / leaf.noise_multiplier * math.sqrt(count)
        for leaf, count in leaves(event)
        if type(leaf).__name__ == "GaussianDpEvent"
    ]


# --- plans -------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 40.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
@pytest.mark.parametrize(("n_releases", "n_cells"), [(1, 1), (7, 1), (400, 10**6)])
def test_gaussian_plans_keep_their_budget(epsilon, delta, n_releases, n_cells):
    n_changed = 9
    plan = plan_gaussian_sums(
        epsilon, delta, within=epsilon, n_releases=n_releases, n_cells=n_cells,
        n_changed=n_changed, n_entries=1000,
    )  # fmt: skip
    guarantee = PrivacyGuarantee.of(
        plan.event, delta=delta, unit="entry", statement="", source=""
    )
    # To the last digit, since a fit promises it; and nothing is wasted.
    assert guarantee.epsilon_at(delta) <= epsilon
    assert guarantee.epsilon_at(delta) > epsilon * (1 - 1e-3)
    # From the step, sigma and the numbers of sums and releases alone.
    lattice = plan.lattice
    mu = (1 + lattice.step * math.sqrt(n_changed)) / lattice.sigma
    (found,) = gaussian_mus(plan.event)
    assert mu * math.sqrt(n_releases) <= found
    assert found < 1.001 * mu * math.sqrt(n_releases)
    truth = divergence.gaussian_stick(mu * math.sqrt(n_releases), 0.9 * epsilon)
    assert guarantee.delta_at(0.9 * epsilon) >= truth
    assert plan.noise_variance == pytest.approx(lattice.sigma**2)


@pytest.mark.parametrize("epsilon", [1e-4, 0.5, 4.0, 40.0])
@pytest.mark.parametrize("n_releases", [1, 3, 50])
@pytest.mark.parametrize("n_changed", [1, 40])
def test_laplace_plans_keep_their_budget(epsilon, n_releases, n_changed):
    plan = plan_laplace_sums(
        epsilon, n_releases=n_releases, n_changed=n_changed, n_entries=1000
    )
    lattice = plan.lattice
    # Contributions 1 apart in L1 are so many whole steps apart, each sum being rounded.
    steps = 1 / Fraction(lattice.step) + n_changed
    spent = n_releases * steps * Fraction(lattice.numerator, lattice.denominator)
    assert spent <= Fraction(epsilon)
    assert spent > Fraction(epsilon) * Fraction(99, 100)
    guarantee = PrivacyGuarantee.of(plan.event, unit="entry", statement="", source="")
    assert float(spent) * (1 - 1e-12) <= guarantee.epsilon <= epsilon


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
    sizes = {"n_releases": 2, "n_changed": 3}
    gaussian = {"within": 1.0, **sizes}
    with pytest.raises(ValueError, match="delta > 0"):
        plan_gaussian_sums(1.0, 0, n_cells=10, n_entries=9, **gaussian)
    with pytest.raises(ValueError, match="delta"):
        plan_gaussian_sums(1.0, 1e-300, n_cells=10, n_entries=9, **gaussian)
    with pytest.raises(ValueError, match="summed exactly"):
        plan_gaussian_sums(1.0, 1e-6, n_cells=10, n_entries=2**52, **gaussian)
    with pytest.raises(ValueError, match="summed exactly"):
        plan_laplace_sums(100.0, n_entries=2**52, **sizes)
    # No noise needs no delta.
    assert (
        plan_gaussian_sums(math.inf, 0, n_cells=1, n_entries=1, **gaussian).event
        is None
    )
    assert plan_laplace_sums(math.inf, n_entries=1, **sizes).noise_variance == 0


@pytest.mark.parametrize("rank", [0, 2])
def test_without_delta_nothing_is_drawn(rank, monkeypatch):
    model = make(rank=rank, delta=0).set_params(delta=1e-6).fit(WHERE[2], np.zeros(8))
    before = model.privacy_guarantee_

    def draw(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(_random.NoiseSource, "stream", draw)
    with pytest.raises(ValueError, match="delta > 0"):
        model.set_params(delta=0).fit(WHERE[2], np.zeros(8))
    assert model.privacy_guarantee_ == before
    assert model.predict(WHERE[2]).shape == (8,)


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


def truth_at(solver, epsilon):
    """Divergence of the laws that two neighbours can have, without dp-accounting.

    Everything that is released is as far apart as one value can move it.
    """
    tools = divergence
    first = getattr(solver, "_mean", None) or solver.sums
    lattice = first.randomizer.lattice
    n_sums = 1 if solver.name == "gradient" or not solver.problem.biases else (
        len(solver.problem.shape)
    )  # fmt: skip
    # Whole ranges, whatever the accounting calls them.
    low, high = solver.problem.values.bounds
    width = round((high - low) / lattice.step)
    laws = [coarse_law(lattice.rate, width, 64)] * n_sums
    noise = solver._noise.lattice
    if isinstance(noise, GaussianLattice):
        law = laws[0]
        for other in laws[1:]:
            law = binned(tools.product(law, other))
        mu = math.sqrt(solver.problem.max_iter) / noise.sigma
        return tools.stick_with_gaussian(law, mu, epsilon)
    # In L1, all of the distance may be in one sum.
    laws += [coarse_law(noise.rate, round(1 / noise.step), 64)] * len(solver._blocks)
    law = laws[0]
    for other in laws[1:]:
        law = binned(tools.product(law, other))
    return tools.stick(law, epsilon)


@pytest.mark.parametrize("epsilon", [0.4, 3.0])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("form", ["cp", "tucker"])
@pytest.mark.parametrize("perturbation", PERTURBATIONS)
def test_the_guarantee_is_no_less_than_the_truth(
    perturbation, form, biases, order, epsilon
):
    """Of sums or the mean, and of all releases, composed."""
    model = make(
        perturbation, biases=biases, epsilon=epsilon, delta=1e-4,
        n_pattern_components=0 if form == "tucker" else 8,
    )  # fmt: skip
    ranks = RANKS[order] if form == "tucker" else None
    solver = solver_of(model, WHERE[order], SHAPES[order], ranks)
    model.set_params(epsilon=epsilon / 2)
    half = solver_of(model, WHERE[order], SHAPES[order], ranks).guarantee
    assert solver.guarantee.epsilon <= epsilon
    assert half.epsilon <= epsilon / 2
    refuted = []
    for at in np.array([0.0, 0.2, 0.4, 0.6, 0.8]) * epsilon:
        truth = truth_at(solver, at)
        assert solver.guarantee.delta_at(at) >= truth * (1 - 1e-9)
        refuted.append(half.delta_at(at) < truth)
    assert all(refuted[:2])


def test_the_truth_is_near_the_guarantee_of_gradients():
    """So that the comparison above means something."""
    solver = solver_of(make(epsilon=2.0, delta=1e-4), WHERE[2], SHAPES[2])
    for at in (0.2, 1.0):
        assert solver.guarantee.delta_at(at) < 1.01 * truth_at(solver, at)


# --- streams -----------------------------------------------------------------------


def streams_of(model, where, values):
    """Numbers of the streams that a fit opened, one key a fit."""
    opened, keys = [], set()
    stream = _random.NoiseSource.stream

    def note(source, block):
        opened.append(block)
        keys.add(source._key)
        return stream(source, block)

    with mock.patch.object(_random.NoiseSource, "stream", note):
        model.fit(where, values)
    assert len(keys) == 1
    return opened


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("perturbation", PERTURBATIONS)
def test_no_two_draws_of_a_fit_share_a_stream(perturbation, biases, monkeypatch):
    # Several blocks a release.
    monkeypatch.setattr(_noisy_sums, "_BLOCK", 4)
    monkeypatch.setattr(_sums, "_BLOCK", 4)
    # Without features of the pattern, three modes are fitted one after the other.
    model = make(perturbation, biases=biases, n_pattern_components=0)
    opened = streams_of(model, WHERE[3], np.zeros(7))
    assert len(set(opened)) == len(opened)
    # Every part of a release, from zero on; that of the sums or of the mean, too.
    parts = {block >> 32 for block in opened}
    assert parts == set(range(1 + 3))
    assert len(opened) > len(parts)


@pytest.mark.parametrize("perturbation", ["input", "gradient", "output"])
@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.UnsoundClaimWarning")
def test_nor_do_those_of_the_published_algorithms(perturbation):
    model = make(perturbation, calibration="published")
    opened = streams_of(model, WHERE[3], np.zeros(7))
    assert len(set(opened)) == len(opened)
    # The start; and the values, three passes, or the end.
    assert len(opened) == 1 + (3 if perturbation == "gradient" else 1)


def test_parts_of_a_source_are_apart():
    source = _random.NoiseSource(0, 0)
    words = [
        tuple(source.part(number).stream(block).random_raw(4).tolist())
        for number, block in itertools.product([0, 1, 2, 2**31], [0, 1, 2**31])
    ]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("n_cells", [100, 10**7, 10**8])
def test_what_is_planned_dominates_a_hundred_million_sums(n_cells):
    """Alone, and composed as in a search."""
    event = planned_event(0.95, 1e-6, within=1.0)
    real = plan_gaussian_sums(
        0.95, 1e-6, within=1.0, n_releases=25, n_cells=n_cells, n_changed=20,
        n_entries=10**6,
    ).event  # fmt: skip
    fields = {"delta": 1e-6, "unit": "entry", "statement": "", "source": ""}
    for count in (1, 10, 100):
        planned, found = (
            PrivacyGuarantee.of(dp_event.SelfComposedDpEvent(e, count), **fields)
            for e in (event, real)
        )
        for delta in (1e-9, 1e-6, 1e-3):
            assert found.epsilon_at(delta) <= planned.epsilon_at(delta)
