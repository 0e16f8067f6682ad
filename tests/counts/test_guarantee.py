"""What one record or person moves, computed from matrices of whole numbers alone."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from sktensordp.audit import audit_estimator
from sktensordp.counts import TensorCounts
from sktensordp.measure import Releases
from sktensordp.privacy import compose, planned_guarantee
from tests.support.seams import (
    CountsQuestion,
    Records,
    TableSums,
    Workload,
    counts_plan,
    plan_tables,
)


def released_by(rows, plan):
    """The residual tables of rows, by matrices, each as a vector of integers."""
    shape, found = plan.workload.shape, []
    for one in plan.workload.residuals:
        table = np.zeros(math.prod(one.sizes), dtype=object)
        for row in rows:
            vector = np.ones(1, dtype=object)
            for i, centred in zip(one.modes, one.is_centred, strict=True):
                n = shape[i]
                matrix = np.eye(n, dtype=object)
                if centred:
                    matrix = n * matrix - np.ones((n, n), dtype=object)
                vector = np.kron(vector, matrix[:, row[i]])
            table = table + vector
        found.append(table)
    return found


def squared_distance(first, second, plan):
    """Exact, in units of the noise."""
    total = Fraction(0)
    for a, b, sigma in zip(first, second, plan.sigmas, strict=True):
        square = sum(int(x) ** 2 for x in a - b)
        total += Fraction(square) / Fraction(sigma) ** 2
    return total


def mu_of(plan):
    return Fraction(1 / math.sqrt(plan.noise.noise_variance))


def planned(shape, margins, k=1, weights=None, epsilon=1.0, delta=1e-6):
    tables = tuple(margins)
    weights = weights or tuple(
        math.sqrt(math.prod(shape[i] for i in B)) for B in tables
    )
    return plan_tables(Workload(shape, tables, weights), epsilon, delta, k)


def all_tables(n_modes, most):
    sizes = range(most + 1)
    return [B for k in sizes for B in itertools.combinations(range(n_modes), k)]


def worlds(shape):
    return list(itertools.product(*map(range, shape)))


# --- one record -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_stated_mu_is_that_of_every_record(seed, monkeypatch):
    """Ten workloads for each seed: random shapes, tables, weights and limits."""
    rng = np.random.default_rng(seed)
    for _ in range(10):
        factor = int(rng.choice([1, 4, 12, 4096]))
        monkeypatch.setattr(counts_plan, "_LARGEST_FACTOR", factor)
        shape = tuple(map(int, rng.integers(1, 6, rng.integers(1, 5))))
        every = all_tables(len(shape), len(shape))
        chosen = rng.choice(len(every), rng.integers(1, len(every) + 1), replace=False)
        tables = [every[i] for i in chosen]
        weights = tuple(map(float, rng.choice([0.1, 1.0, 5.0], len(tables))))
        plan = planned(
            shape, tables, weights=weights, epsilon=float(rng.choice([0.1, 1, 8]))
        )
        mu, nobody = mu_of(plan), released_by([], plan)
        rows = worlds(shape)
        for index in rng.choice(len(rows), min(4, len(rows)), replace=False):
            exact = squared_distance(released_by([rows[index]], plan), nobody, plan)
            assert exact <= mu**2
            assert float(mu**2 / exact) < (1 + 1e-9) ** 2


SMALL = [
    ((2,), 1), ((3,), 1), ((2, 3), 2), ((3, 4), 1), ((2, 2, 2), 2), ((2, 3, 2), 3),
    ((1, 4), 2), ((2, 1, 3), 2),
]  # fmt: skip


@pytest.mark.parametrize("factor", [1, 6, 4096])
@pytest.mark.parametrize(("shape", "most"), SMALL)
def test_small_worlds_of_both_relations(shape, most, factor, monkeypatch):
    monkeypatch.setattr(counts_plan, "_LARGEST_FACTOR", factor)
    plan = planned(shape, all_tables(len(shape), most))
    mu, nobody = mu_of(plan), released_by([], plan)
    alone = [released_by([row], plan) for row in worlds(shape)]
    assert all(squared_distance(one, nobody, plan) <= mu**2 for one in alone)
    replacing = Fraction(plan.workload.replacing(plan.sigmas))
    pairs = itertools.combinations(alone, 2)
    most_apart = max(squared_distance(a, b, plan) for a, b in pairs)
    assert most_apart <= (replacing * mu) ** 2
    assert replacing < 2
    if replacing > 1:
        assert float((replacing * mu) ** 2 / most_apart) < 1 + 1e-8


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_small_worlds_of_people(shape, k):
    """All multisets of up to k records, and pairs of them."""
    plan = planned(shape, all_tables(len(shape), 2), k=k)
    mu, nobody = mu_of(plan), released_by([], plan)
    people = [
        released_by(rows, plan)
        for n in range(k + 1)
        for rows in itertools.combinations_with_replacement(worlds(shape), n)
    ]
    furthest = max(squared_distance(one, nobody, plan) for one in people)
    assert furthest <= mu**2
    assert float(mu**2 / furthest) < 1 + 1e-8
    replacing = Fraction(plan.workload.replacing(plan.sigmas))
    rng = np.random.default_rng(k)
    pairs = list(itertools.combinations(range(len(people)), 2))
    some = rng.permutation(len(pairs))[:1500]
    for a, b in (pairs[i] for i in some):
        assert squared_distance(people[a], people[b], plan) <= (replacing * mu) ** 2


def test_replacement_by_a_record_that_does_not_count():
    """The total alone does not change if a record is replaced; removed, it does."""
    assert planned((4,), [()]).workload.replacing([1.0]) == 1
    eight = TensorCounts(margins=1, shape=(2,) * 8).fit([])
    mu = mu_of(eight._fitted.plan)
    ratio = eight.replace_one_guarantee_.event.events[0].noise_multiplier * mu
    assert 1 / float(ratio) == pytest.approx(1.68, abs=0.005)


def test_many_modes_have_a_bound():
    plan = planned((2,) * 17, [(i,) for i in range(17)])
    assert plan.workload.replacing(plan.sigmas) == 2


# --- the divergence -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning")
@pytest.mark.parametrize("k", [None, 3])
def test_curve_alone_and_composed(k, divergence):
    shape = (2, 3, 4)
    who = {} if k is None else {"unit": 0, "max_records": k}
    model = TensorCounts(shape=shape, epsilon=2.0, **who).fit([])
    plan, guarantee = model._fitted.plan, model.privacy_guarantee_
    person = released_by([(0, 0, 0)] * (k or 1), plan)
    exact = squared_distance(person, released_by([], plan), plan)
    mu = math.sqrt(exact)
    two = compose(guarantee, guarantee)
    for at in np.linspace(0, 6, 13):
        for said, times in ((guarantee, 1), (two, 2)):
            true = float(divergence.gaussian_stick(mu * math.sqrt(times), at))
            assert true <= said.delta_at(at) < true + 1e-6
    assert guarantee.epsilon_at(1e-6) <= 2.0
    assert planned_guarantee(model) == guarantee
    residual = guarantee.event.events[1]
    assert residual.epsilon == max(x.residual_epsilon for x in plan.noise.of_tables)
    assert residual.epsilon > 0
    n_cells = sum(math.prod(one.sizes) for one in plan.workload.residuals)
    assert all(one.n_cells == n_cells for one in plan.noise.of_tables)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_random_choice_of_records_is_a_mixture(k, divergence):
    """Somebody with five records of one mode; all of the noise is in two numbers."""
    plan = planned((2,), [(), (0,)], k=k, epsilon=3.0)
    rows = [(0,), (0,), (0,), (1,), (1,)]
    total, centred = plan.sigmas
    steps = np.linspace(-40, 40, 1201)
    a, b = np.meshgrid(steps, steps, indexing="ij")
    cell = (steps[1] - steps[0]) ** 2

    def density(kept):
        shift = len(kept) / total
        # The table is (t, -t): along this line, twice the square.
        other = math.sqrt(2) * sum(1 - 2 * row[0] for row in kept) / centred
        return norm.pdf(a - shift) * norm.pdf(b - other)

    kept = list(itertools.combinations(rows, k))
    mixture, none = sum(map(density, kept)) / len(kept), density([])
    mu = float(mu_of(plan))
    for at in (0.0, 0.5, 1.0, 2.0):
        bound = float(divergence.gaussian_stick(mu, at))
        for p, q in ((mixture, none), (none, mixture)):
            stick = float(np.maximum(p - math.exp(at) * q, 0).sum() * cell)
            assert stick <= bound + 1e-6


def half_the_noise(monkeypatch):
    noisy = Releases._noisy

    def halved(self, sums, totals, *more):
        released, sigma = noisy(self, sums, totals, *more)
        exact = [s.on_lattice(t) for s, t in zip(sums, totals, strict=True)]
        return [e + (r - e) / 2 for e, r in zip(exact, released, strict=True)], sigma

    monkeypatch.setattr(Releases, "_noisy", halved)


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning")
@pytest.mark.parametrize("halved", [False, True])
def test_audit(halved, monkeypatch):
    """False alarms: 1e-4. One record of two modes, under the claim of epsilon 1."""
    X = [[0, 0], [1, 2], [1, 1]]
    model = TensorCounts(shape=(2, 3), delta=0.1, random_state=0)
    plan = model.fit(X)._fitted.plan
    person = released_by([(0, 0)], plan)
    if halved:
        half_the_noise(monkeypatch)

    def along(fitted):
        """What is released, along the record and in units of the noise."""
        parts = zip(fitted._fitted.released.values(), person, plan.workload.residuals,
                    plan.sigmas, strict=True)  # fmt: skip
        return [
            sum(float(np.ravel(r * one.factor) @ p.astype(float)) / sigma**2
                for r, p, one, sigma in parts)
        ]  # fmt: skip

    report = audit_estimator(
        model, X, X[1:], epsilon=1.0, delta=0.1, release=along, n_trials=450,
        confidence=1 - 1e-4, random_state=0,
        log_likelihood_ratio=lambda rows: rows[:, 0],
    )  # fmt: skip
    assert report.violated == halved, report
    assert report.epsilon_lower > 0.05


# --- whole numbers --------------------------------------------------------------------


def sums_of(shape, modes, k=1):
    plan = planned(shape, [modes], k=k)
    number = [one.modes for one in plan.workload.residuals].index(modes)
    step, scale = plan.noise.lattices(len(plan.sigmas))[number]
    one = plan.workload.residuals[number]
    return TableSums(one, k**2 * one.square / scale**2, step, scale)


def records_of(rows, n_records):
    return Records(np.array(rows).T.reshape(-1, len(rows)), np.array(n_records))


@pytest.mark.parametrize("k", [1, 3])
def test_a_person_with_too_many_records_adds_nothing(k, as_released):
    one = sums_of((3, 4), (0, 1), k)
    totals = one.zeros()
    one.add(totals, records_of([[1, 2]] * k, [k]))
    assert totals.sum() == totals[1, 2] == k
    one.add(totals, records_of([[1, 2]] * (k + 1) + [[0, 0]], [k + 1, 1]))
    assert totals.sum() == k + 1
    assert totals[0, 0] == 1


def test_largest_whole_numbers():
    """Exact up to 2^52, and clipped there: one record more moves nothing further."""
    one = sums_of((4096,), (0,))
    counts = one.zeros()
    counts[5] = 2**40
    at_limit = one.on_lattice(counts)
    assert at_limit[5] == 2**52 - 2**40
    assert np.array_equal(np.delete(at_limit, 5), np.full(4095, -(2.0**40)))
    counts[5] += 2**30
    more = one.on_lattice(counts)
    assert more[5] == 2**52
    counts[7] += 1
    moved = one.on_lattice(counts) - more
    assert moved[5] == 0
    assert moved[7] == 4095
    assert np.linalg.norm(moved) <= math.sqrt(4096 * 4095)


def test_whole_numbers_lie_on_the_lattices():
    for shape, epsilon in (((3, 4), 1e-3), ((1000, 24), 1.0), ((2, 2), 50.0)):
        plan = planned(shape, all_tables(2, 2), epsilon=epsilon)
        for lattice in plan.noise.of_tables:
            assert lattice.step <= 1
            assert math.frexp(lattice.step)[0] == 0.5
            assert lattice.step <= lattice.sigma * 2.0**-10


def test_the_door_knows_the_lattice_of_each_table(monkeypatch):
    """Tables in another order, or one more, are refused before data are read."""
    question = CountsQuestion.of

    def swapped(plan):
        return CountsQuestion(question(plan).sums[::-1])

    monkeypatch.setattr(CountsQuestion, "of", swapped)
    with pytest.raises(RuntimeError, match="another lattice"):
        TensorCounts(shape=(3, 4)).fit([[0, 0]])

    def doubled(plan):
        return CountsQuestion(question(plan).sums * 2)

    monkeypatch.setattr(CountsQuestion, "of", doubled)
    with pytest.raises(RuntimeError, match="shares that add up to more"):
        TensorCounts(shape=(3, 4)).fit([[0, 0]])


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning")
def test_no_two_tables_share_their_noise():
    fitted = TensorCounts(1, shape=(50, 50), random_state=0).fit([])._fitted
    first, second = fitted.released[0,], fitted.released[1,]
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.6
    assert not np.isin(first, second).any()
