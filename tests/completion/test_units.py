"""Completions that protect everything of a unit: what it moves, and what gets out.

Neighbours are compared along a trajectory: the noisy sums of one run are given to the
other, so that all that is released later is the same function of earlier releases.
"""

import copy
import io
import itertools
import math
import pickle
import warnings
from unittest import mock

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, train_test_split

from sktensordp import _random
from sktensordp.completion import (
    CPCompletion,
    TuckerCompletion,
    _noisy_sums,
    _unit,
    _unit_run,
)
from sktensordp.completion._noisy_sums import NoisySums
from sktensordp.completion._unit_model import LocalRows
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import PrivacyLeakWarning
from sktensordp.noise import GaussianLattice
from sktensordp.privacy import privacy_of
from sktensordp.tensor import _kernels_units, _shared_rows, _unit_entries
from tests.completion import test_noisy_sums as tools
from tests.support import divergence
from tests.support.replaying import recorded

N_UNITS = 7
# Sizes of the other modes.
OTHERS = {2: (5,), 3: (5, 3)}
FORMS = {
    "biases": (CPCompletion, {"rank": 0}),
    "CP of one term": (CPCompletion, {"rank": 1}),
    "CP": (CPCompletion, {"rank": 2}),
    "CP without biases": (CPCompletion, {"rank": 2, "biases": False}),
    "Tucker": (TuckerCompletion, {"rank": 2}),
    "Tucker without biases": (TuckerCompletion, {"rank": 2, "biases": False}),
}
ALL_FORMS = {
    **FORMS,
    "biases as a Tucker": (TuckerCompletion, {"rank": 0}),
    "Tucker of several ranks": (TuckerCompletion, {"rank": None}),
}
# For these, the rank of the unit's mode first.
RANKS = {2: (3, 3), 3: (3, 3, 2)}
PLACES = [(order, unit) for order in (2, 3) for unit in range(order)]


# Every form and place with all that there is, and what else may be asked for.
CASES = [(form, *place, "statistics") for form in FORMS for place in PLACES]
CASES += [
    (form, *place, perturbation)
    for form in ("biases", "CP", "Tucker")
    for place in ((2, 0), (3, 2))
    for perturbation in ("sums", "auto")
]


def placed(columns, unit):
    """Columns whose first is that of the unit, in the order of the tensor's modes."""
    columns = list(columns)
    columns.insert(unit, columns.pop(0))
    return tuple(columns)


def tiny(order, unit, seed=0):
    """Coordinates and values of units of every kind."""
    rng = np.random.default_rng(seed)
    parts = []

    def add(own, others, values):
        rows = np.column_stack([np.full(len(others), own), others])
        parts.append((rows, np.asarray(values, dtype=float)))

    def anywhere(n):
        return np.column_stack([rng.integers(0, size, n) for size in OTHERS[order]])

    # One entry; one that is three times there; some; values far outside the bounds.
    add(0, anywhere(1), [0.7])
    add(1, np.repeat(anywhere(1), 3, axis=0), [0.0, 0.4, 1.0])
    add(2, anywhere(9), rng.uniform(0, 1, 9))
    add(3, anywhere(6), [1e9, -1e9, 1e300, -1e300, 2.0, 0.5])
    # Very many entries: all over, and in a few rows, that are as different as can be.
    add(4, anywhere(400), rng.choice([0.0, 1.0], 400))
    few = anywhere(400)
    few[:, 0] %= 2
    add(5, few, (few[:, 0] == 0).astype(float))
    where, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    shuffled = rng.permutation(len(values))
    where = np.column_stack(placed(where[shuffled].T, unit)).astype(np.int32)
    return where, values[shuffled]


def features(order):
    return np.random.default_rng(5).standard_normal((OTHERS[order][0], 2))


def make(form="CP", order=2, unit=0, *, informed=False, **params):
    estimator, options = ALL_FORMS[form]
    place = unit if isinstance(unit, int) else 0
    options = {
        "epsilon": 4.0, "value_bounds": (0, 1), "random_state": 0,
        "perturbation": "statistics", "unit": unit,
        "shape": placed((N_UNITS, *OTHERS[order]), place),
        **options, **params,
    }  # fmt: skip
    if informed:
        first = min(mode for mode in range(order) if mode != unit)
        options["side_information"] = {first: features(order)}
    rank = options.pop("rank")
    rank = placed(RANKS[order], place) if rank is None else rank
    return estimator(rank, **options)


def solver_of(model, where):
    return model._solver(model._problem(where, None, model.shape), False)


def run(model, where, values, follow=None, factor=1.0):
    source = _random.NoiseSource(0, 0)
    with recorded(follow, factor) as found:
        solver_of(model, where).release(values.copy(), source, lambda _: False)
    if follow is not None:
        assert len(found.exact) == len(follow.exact)
    return found


def of_units(where, unit, units, *, without=False):
    return np.isin(where[:, unit], units) != without


def lengths_of_units(model, where, values, unit, factor=1.0):
    """By unit, how far all releases move without it; nothing else may move at all."""
    start = run(model, where, values, factor=factor)
    lengths, total = {}, 0
    for own in np.unique(where[:, unit]):
        rest = of_units(where, unit, own, without=True)
        other = run(model, where[rest], values[rest], follow=start)
        alone = run(model, where[~rest], values[~rest], follow=start)
        moved = start.flat - other.flat
        assert_array_equal(moved, alone.flat)
        lengths[int(own)] = float(np.linalg.norm(moved.astype(float)) * start.step)
        # Release by release, too, nothing is longer than what is accounted for.
        total = total + alone.flat
    assert_array_equal(total, start.flat)
    return start, lengths


@pytest.fixture
def quick(monkeypatch):
    """Rows are fitted in fewer rounds: along a trajectory, they are the same anyway."""
    monkeypatch.setattr(_shared_rows, "_ROUNDS", 3)


# --- what one unit moves -------------------------------------------------------------


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("factor", "order", "unit"),
    [(1.0, *place) for place in PLACES]
    + [(factor, *place) for factor in (0.0, 1e3) for place in ((2, 1), (3, 0))],
)
@pytest.mark.parametrize("form", [*FORMS])
def test_one_unit_moves_all_releases_by_one(form, order, unit, factor):
    """Add-or-remove, for every unit, in L2, all releases together.

    With the noise of the trajectory left out, as it is, and a thousand times as large.
    """
    where, values = tiny(order, unit)
    model = make(form, order, unit, informed=factor != 1.0)
    start, lengths = lengths_of_units(model, where, values, unit, factor)
    assert set(lengths) == set(range(6))
    assert max(lengths.values()) <= 1 + 1e-9
    assert min(lengths.values()) > 0
    # What is accounted for is about what a heavy unit moves. Without any noise the
    # model fits so well that less is left; beyond all noise there is hardly a model.
    assert max(lengths.values()) > {0.0: 0.4, 1.0: 0.85, 1e3: 0.2}[factor]
    (mu,) = tools.gaussian_mus(start.noise[0].event)
    assert max(lengths.values()) / start.sigma <= mu
    assert all(noise is start.noise[0] for noise in start.noise)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("order", [2, 3])
def test_one_unit_moves_a_tucker_of_several_ranks_by_one(order):
    where, values = tiny(order, 1)
    model = make("Tucker of several ranks", order, 1)
    _, lengths = lengths_of_units(model, where, values, 1)
    assert 0.8 < max(lengths.values()) <= 1 + 1e-9


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("perturbation", ["sums", "auto"])
@pytest.mark.parametrize(("order", "unit"), PLACES)
def test_one_unit_moves_other_perturbations_by_one(order, unit, perturbation):
    where, values = tiny(order, unit)
    for epsilon in (0.3, 30.0):
        model = make("CP", order, unit, perturbation=perturbation, epsilon=epsilon)
        start, lengths = lengths_of_units(model, where, values, unit)
        assert 0.5 < max(lengths.values()) <= 1 + 1e-9
        (mu,) = tools.gaussian_mus(start.noise[0].event)
        assert max(lengths.values()) / start.sigma <= mu


@pytest.mark.usefixtures("quick")
def test_every_release_is_within_its_share():
    """The shares of one release add up to no more than what is left of the budget."""
    where, values = tiny(3, 0)
    for form in FORMS:
        shares = []

        class Recorded(_unit_run._BoundedSums):
            def __init__(self, shape, bound, share, step, shares=shares):
                super().__init__(shape, bound, share, step)
                shares.append(share)

        with mock.patch.object(_unit_run, "_BoundedSums", Recorded):
            start = run(make(form, 3), where, values)
        assert 1 - 1e-9 < math.fsum(shares) <= 1 + 1e-12
        one = of_units(where, 0, 5)
        alone = run(make(form, 3), where[one], values[one], follow=start)
        parts = [part for release in alone.exact for part in release]
        for part, share in zip(parts, shares, strict=True):
            length = np.linalg.norm(part.astype(float)) * start.step
            assert length <= math.sqrt(share) * (1 + 1e-9)


def test_shares_above_the_budget_are_refused(monkeypatch):
    monkeypatch.setattr(_unit_run, "_TOTALS", 1.1)
    where, values = tiny(2, 0)
    with pytest.raises(RuntimeError, match="exceed the budget"):
        run(make(), where, values)


@pytest.mark.parametrize("chunk", [1, 30, 500])
@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_chunks_and_the_order_of_units_change_no_bit(form, chunk, monkeypatch):
    where, values = tiny(3, 0)
    start = run(make(form, 3), where, values)
    # Units in another order among the entries, each of its own in the same order.
    order = np.argsort(-where[:, 0], kind="stable")
    again = run(make(form, 3), where[order], values[order], follow=start)
    assert_array_equal(start.flat, again.flat)
    monkeypatch.setattr(_unit_entries, "_CHUNK", chunk)
    assert_array_equal(start.flat, run(make(form, 3), where, values, start).flat)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_larger_tensors_of_random_units(form, seed):
    """60 units with 1 to 200 entries; one, several and all but one are taken away."""
    rng = np.random.default_rng(seed)
    sizes = rng.geometric(0.05, 60)
    n = int(sizes.sum())
    where = np.column_stack([np.repeat(np.arange(60), sizes), rng.integers(0, 40, n)])
    where = where.astype(np.int32)
    values = np.clip(rng.normal(0.6, 0.4, n), -0.5, 1.2)
    model = make(form, shape=(60, 40))
    start = run(model, where, values)
    largest = 0.0
    for gone in [*rng.choice(60, 6, replace=False).tolist(), int(np.argmax(sizes))]:
        rest = where[:, 0] != gone
        other = run(model, where[rest], values[rest], follow=start)
        alone = run(model, where[~rest], values[~rest], follow=start)
        assert_array_equal(start.flat - other.flat, alone.flat)
        moved = np.linalg.norm(alone.flat.astype(float)) * start.step
        assert moved <= 1 + 1e-9
        largest = max(largest, moved)
    assert largest > 0.5
    parts = [rng.random(60) < 0.5]
    parts.append(~parts[0])
    runs = [
        run(model, where[p[where[:, 0]]], values[p[where[:, 0]]], follow=start)
        for p in parts
    ]
    assert_array_equal(runs[0].flat + runs[1].flat, start.flat)


# --- tests of these tests ------------------------------------------------------------


@pytest.mark.parametrize("form", ["biases", "CP", "Tucker"])
def test_twice_the_contributions_would_be_noticed(form, monkeypatch):
    total = _unit_run._BoundedSums.total.fget
    monkeypatch.setattr(
        _unit_run._BoundedSums, "total", property(lambda sums: 2 * total(sums))
    )
    where, values = tiny(2, 0)
    start, lengths = lengths_of_units(make(form), where, values, 0)
    (mu,) = tools.gaussian_mus(start.noise[0].event)
    assert max(lengths.values()) / start.sigma > 1.5 * mu


def without_bounds(starts, order, index, own, bound, share, step, sums, scales):
    scales[:] = 1.0
    for first, last in itertools.pairwise(starts.tolist()):
        vector = np.zeros_like(sums)
        np.add.at(vector, index[first:last], own[first:last])
        sums += np.trunc(share / bound * vector / step)


def test_vectors_that_are_not_scaled_down_would_be_noticed(monkeypatch):
    monkeypatch.setattr(_kernels_units, "bounded_sums", without_bounds)
    where, values = tiny(2, 0)
    _, lengths = lengths_of_units(make("CP"), where, values, 0, factor=0.0)
    assert max(lengths.values()) > 1.5


def test_bounds_of_each_entry_alone_would_be_noticed(monkeypatch):
    """As where a single rating is protected: many of a unit add up."""

    def by_entry(starts, order, index, own, bound, share, step, sums, scales):
        scales[:] = 1.0
        length = np.maximum(np.linalg.norm(own, axis=1, keepdims=True), bound)
        np.add.at(sums, index[: len(own)], np.trunc(share / length * own / step))

    monkeypatch.setattr(_kernels_units, "bounded_sums", by_entry)
    where, values = tiny(2, 0)
    _, lengths = lengths_of_units(make("CP"), where, values, 0)
    assert max(lengths.values()) > 2


def test_weights_that_depend_on_others_would_be_noticed(monkeypatch):
    def weights(run, part):
        return np.full(len(part.units), 1 / math.sqrt(part.sizes.mean()))

    monkeypatch.setattr(_unit_run.UnitRun, "_weights", weights)
    where, values = tiny(2, 0)
    with pytest.raises(AssertionError):
        lengths_of_units(make("CP"), where, values, 0)


def test_values_that_are_not_clipped_would_be_noticed(monkeypatch):
    """Lengths are bounded all the same, but one unit's share is all of that."""
    where, values = tiny(2, 0)
    near = np.clip(values, 0, 1)
    start = run(make("CP"), where, values)
    assert_array_equal(start.flat, run(make("CP"), where, near, start).flat)
    monkeypatch.setattr(
        _unit.UnitPerturbation, "entries",
        lambda self, values: _unit_entries.UnitEntries(
            self.problem.coordinates, 2 * values - 1
        ),
    )  # fmt: skip
    start = run(make("CP"), where, near)
    two = np.where(values > 1, 2.0, near)
    assert np.any(start.flat != run(make("CP"), where, two, start).flat)


# --- what is accounted for -----------------------------------------------------------


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("form", "order", "unit", "perturbation"), CASES)
def test_releases_and_cells_are_those_of_the_plan(form, order, unit, perturbation):
    planned, plan = {}, _noisy_sums.plan_gaussian_sums

    def recorded_plan(*args, **sizes):
        planned.update(sizes)
        return plan(*args, **sizes)

    where, values = tiny(order, unit)
    with mock.patch.object(_unit, "plan_gaussian_sums", recorded_plan):
        found = run(make(form, order, unit, perturbation=perturbation), where, values)
    assert 0 < found.flat.size <= planned["n_cells"]
    # Not lavishly more, since a sampler pays for them.
    if perturbation == "statistics":
        assert planned["n_cells"] < 40 * found.flat.size
    assert planned["n_releases"] == 1
    assert planned["n_entries"] >= N_UNITS
    # Sums of whole steps are exact: every unit has at most 1 in any of them.
    assert N_UNITS / found.step < 2**52


@pytest.mark.parametrize("perturbation", ["sums", "statistics", "auto"])
def test_every_sum_is_randomised_once_and_nothing_else_is_drawn(perturbation):
    where, values = tiny(3, 0)
    sums, drawn, streams, sources = [], [], [], []
    of_sums, of_lattice = NoisySums.randomize, GaussianLattice.randomize
    stream, begin = _random.NoiseSource.stream, _random.NoiseSource.__init__

    def randomize(noise, parts, source):
        before = np.concatenate([part.ravel() for part in parts])
        found = of_sums(noise, parts, source)
        sums.append((before, np.concatenate([part.ravel() for part in found])))
        return found

    def draw(lattice, part, bits, *args, **options):
        drawn.append(part.copy())
        return of_lattice(lattice, part, bits, *args, **options)

    def opened(source, block):
        streams.append(block)
        return stream(source, block)

    def started(source, *args):
        sources.append(source)
        begin(source, *args)

    with (
        mock.patch.object(NoisySums, "randomize", randomize),
        mock.patch.object(GaussianLattice, "randomize", draw),
        mock.patch.object(_random.NoiseSource, "stream", opened),
        mock.patch.object(_random.NoiseSource, "__init__", started),
    ):
        make("CP", 3, perturbation=perturbation).fit(where, values)
    assert_array_equal(np.concatenate(drawn), np.concatenate([s for s, _ in sums]))
    # No two of the streams are the same, and they are of one key.
    assert len(streams) == len(set(streams)) == len(drawn) == len(sums)
    assert len(sources) == 1
    # Nothing is released as it is: nearly every sum was moved.
    before, after = (np.concatenate(part) for part in zip(*sums, strict=True))
    assert np.mean(before != after) > 0.99


def test_noise_has_the_standard_deviation_that_is_accounted_for():
    """Of 4,000 cells and more; the standard deviation is within 8 of its own."""
    rng = np.random.default_rng(0)
    n_items = 500
    where = np.column_stack([rng.integers(0, 50, 2000), rng.integers(0, n_items, 2000)])
    model = make("biases", shape=(50, n_items), perturbation="sums", epsilon=1.0)
    noise, of_sums = [], NoisySums.randomize

    def randomize(plan, parts, source):
        found = of_sums(plan, parts, source)
        noise.extend((f - p).ravel() for f, p in zip(found, parts, strict=True))
        return found

    with mock.patch.object(NoisySums, "randomize", randomize):
        for seed in range(3):
            clone(model).set_params(random_state=seed).fit(where, rng.random(2000))
    noise = np.concatenate(noise)
    (mu,) = tools.gaussian_mus(
        model.fit(where, rng.random(2000)).privacy_guarantee_.event
    )
    tolerance = 8 / math.sqrt(2 * noise.size)
    assert noise.std() * mu == pytest.approx(1.0, abs=tolerance)
    # Half the noise would be noticed.
    assert tolerance < 0.25


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
@pytest.mark.parametrize("form", ["biases", "CP", "Tucker"])
def test_the_guarantee_is_the_one_asked_for(form, delta, epsilon):
    """Recomputed from the noise by the closed form of Balle and Wang (2018)."""
    where, values = tiny(3, 1)
    model = make(form, 3, 1, epsilon=epsilon, delta=delta)
    with recorded() as found:
        model.fit(where, values)
    guarantee = model.privacy_guarantee_
    assert guarantee.delta == delta
    assert guarantee.unit == 1
    assert guarantee.relation == "add-or-remove"
    assert guarantee.protects
    assert guarantee.claimed is None
    assert 0.99 * epsilon < guarantee.epsilon <= epsilon
    assert privacy_of(model).guarantee == guarantee
    # Lengths of at most 1, noise of the lattice's sigma.
    mu, stick = 1 / found.sigma, divergence.gaussian_stick
    assert stick(mu, guarantee.epsilon) <= delta
    for at in (0.0, 0.5 * epsilon, 1.5 * epsilon):
        assert guarantee.delta_at(at) >= stick(mu, at) * (1 - 1e-12)
    # Nothing is wasted: two per cent less noise would not do.
    assert stick(1.02 * mu, epsilon) > delta


def test_the_plan_is_no_less_than_what_a_fit_reveals():
    where, values = tiny(2, 0)
    for perturbation, epsilon in itertools.product(
        ("sums", "statistics", "auto"), (0.2, 3.0)
    ):
        model = make(perturbation=perturbation, epsilon=epsilon)
        planned = model._planned_guarantee()
        found = model.fit(where, values).privacy_guarantee_
        assert planned.unit == found.unit == 0
        assert planned.relation == found.relation
        for at in (0.0, epsilon / 2, epsilon):
            assert planned.delta_at(at) >= found.delta_at(at)
    assert not make(epsilon=math.inf)._planned_guarantee().protects
    assert not make(shape=None)._planned_guarantee().protects
    assert not make(value_bounds=None)._planned_guarantee().protects


def test_a_search_counts_the_fits_that_a_unit_is_in():
    """Entries of a unit are in the training part of every fold, unless it is a group.

    At the level of entries, one of the three folds does not have a given one.
    """
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 30, 400), rng.integers(0, 20, 400)])
    y = rng.random(400)
    model = make("biases", shape=(30, 20), perturbation="sums")

    def times(unit, cv, groups=None):
        search = GridSearchCV(clone(model).set_params(unit=unit), {"rank": [0]}, cv=cv)
        search.fit(X, y, groups=groups)
        (_, of_folds, _), (_, refit, _) = privacy_of(search).releases
        assert refit == 1
        return of_folds

    assert times("entry", 3) == 2
    assert times(0, 3) == 3
    assert times(0, GroupKFold(3), X[:, 0]) >= 2


def test_no_noise_draws_nothing_and_says_so():
    where, values = tiny(2, 0)

    def refuse(*args):
        raise AssertionError("nothing is to be drawn")

    for perturbation in ("sums", "statistics", "auto"):
        model = make(epsilon=math.inf, perturbation=perturbation)
        with (
            mock.patch.object(_random.NoiseSource, "__init__", refuse),
            mock.patch.object(GaussianLattice, "randomize", refuse),
        ):
            model.fit(where, values)
        guarantee = model.privacy_guarantee_
        assert guarantee.epsilon == math.inf
        assert not guarantee.protects
        assert guarantee.claimed is None
        assert guarantee.unit == 0
        assert "epsilon = inf" in guarantee.statement
        one, two = (clone(model).fit(where, values) for _ in range(2))
        assert_array_equal(one.predict(where), two.predict(where))


def test_two_fits_differ_and_clones_repeat():
    where, values = tiny(2, 0)
    model = make()
    fits = [model.fit(where, values).factors_[1].copy() for _ in range(3)]
    for one, two in itertools.combinations(fits, 2):
        assert np.any(one != two)
    again = clone(model)
    for expected in fits:
        assert_array_equal(again.fit(where, values).factors_[1], expected)
    secret = [make(random_state=None).fit(where, values).factors_[1] for _ in range(2)]
    assert np.any(secret[0] != secret[1])


UNDECLARED = {
    "shape": ({"shape": None}, "shape is read off"),
    "bounds": ({"value_bounds": None}, "range of the values"),
}


@pytest.mark.parametrize("missing", [*UNDECLARED])
@pytest.mark.parametrize("perturbation", ["sums", "statistics", "auto"])
def test_what_is_not_declared_voids_the_guarantee(missing, perturbation):
    where, values = tiny(2, 0)
    params, message = UNDECLARED[missing]
    model = make(perturbation=perturbation, **params)
    with pytest.warns(PrivacyLeakWarning, match=message) as caught:
        model.fit(where, np.clip(values, 0, 1))
    assert len(caught) == 1
    # The line that called fit.
    assert caught[0].filename == __file__
    guarantee = model.privacy_guarantee_
    assert guarantee.epsilon == math.inf
    assert not guarantee.protects
    assert guarantee.claimed == (4.0, 1e-6)
    assert guarantee.unit == 0
    # Noise there is all the same.
    again = make(perturbation=perturbation, **params, random_state=1)
    with pytest.warns(PrivacyLeakWarning):
        again.fit(where, np.clip(values, 0, 1))
    assert np.any(model.factors_[1] != again.factors_[1])


def test_levels_declare_the_range():
    where, values = tiny(2, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = make(value_bounds=None, levels=[0, 0.5, 1]).fit(where, values)
    assert model.privacy_guarantee_.protects
    rounded = make().fit(where, np.round(2 * np.clip(values, 0, 1)) / 2)
    # Halfway between levels, a value may go either way.
    assert_allclose(model.predict(where), rounded.predict(where), atol=0.05)


# --- refusals ------------------------------------------------------------------------

GOOD = np.ones((5, 1))
REFUSALS = {
    "unit out of range": (
        {"unit": 2, "shape": (7, 5)},
        "unit = 2, but there are 2 modes",
    ),
    "unit below 0": ({"unit": -1}, "'unit' parameter"),
    "another word": ({"unit": "user"}, "'unit' parameter"),
    "input": ({"perturbation": "input"}, "perturbation must be one of"),
    "gradient": ({"perturbation": "gradient"}, "perturbation must be one of"),
    "output": ({"perturbation": "output"}, "perturbation must be one of"),
    "published": ({"calibration": "published"}, "calibration"),
    "smooth modes": ({"smooth_modes": (0,)}, "smooth"),
    "delta": ({"delta": 0}, "delta"),
    "rank": ({"rank": 20}, "larger than"),
    "other shape": ({"shape": (7, 5, 3)}, "modes"),
    "small shape": ({"shape": (6, 4)}, "outside the tensor"),
    "rows": ({"side_information": {1: GOOD[:4]}}, "must have shape"),
    "one row more": ({"side_information": {1: np.ones((6, 1))}}, "must have shape"),
    "no table": ({"side_information": {1: np.ones(5)}}, "must have shape"),
    "NaN": ({"side_information": {1: GOOD * np.nan}}, "finite"),
    "infinity": ({"side_information": {1: GOOD * np.inf}}, "finite"),
    "the unit": ({"side_information": {0: np.ones((7, 1))}}, "serves the rows of mode"),
    "no mode": ({"side_information": {1: GOOD, 2: GOOD}}, "serves the rows of mode"),
    "levels": ({"levels": [1, 0], "value_bounds": None}, "ascending"),
}


@pytest.fixture
def streams(monkeypatch):
    """Counts the random streams that are opened."""
    opened, stream = [], _random.NoiseSource.stream

    def count(self, block):
        opened.append(block)
        return stream(self, block)

    monkeypatch.setattr(_random.NoiseSource, "stream", count)
    return opened


@pytest.mark.parametrize("refusal", [*REFUSALS])
@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_parameters_are_refused_before_anything_is_drawn(form, refusal, streams):
    params, message = REFUSALS[refusal]
    where, values = tiny(2, 0)
    model = make(form, **params)
    with pytest.raises(ValueError, match=message) as caught:
        model.fit(where, np.full(len(values), 0.123456789))
    assert not streams
    assert not hasattr(model, "privacy_guarantee_")
    assert not hasattr(model, "n_iter_")
    assert "0.12345" not in str(caught.value)


@pytest.mark.parametrize("perturbation", ["sums", "auto", "statistics"])
@pytest.mark.parametrize("form", ["CP without biases", "Tucker without biases"])
def test_without_biases_all_of_a_fit_works_or_nothing_is_drawn(
    form, perturbation, streams
):
    """Sums determine biases alone: without any there is nothing for them to do."""
    where, values = tiny(2, 0)
    model = make(form, perturbation=perturbation, epsilon=0.1)
    refusal = None
    try:
        model.fit(where, values)
    except ValueError as error:
        refusal = str(error)
    if refusal is None:
        assert np.all(np.isfinite(model.predict(where)))
        assert perturbation != "auto" or model.perturbation_ == "statistics"
    else:
        assert perturbation == "sums"
        assert "biases" in refusal
        assert not streams
        assert not hasattr(model, "privacy_guarantee_")


BAD_DATA = {
    "outside": ([[0, 5]], [0.123456789], "outside the tensor"),
    "unit outside": ([[987654, 1]], [0.5], "outside the tensor"),
    "negative": ([[-1, 0]], [0.5], "Negative values"),
    "fraction": ([[0.123456789, 0]], [0.5], "fractional"),
    "NaN coordinate": ([[np.nan, 0]], [0.5], "NaN"),
    "NaN": ([[0, 0]], [np.nan], "NaN"),
    "infinity": ([[0, 0]], [np.inf], "infinity"),
    "words": ([[0, 0]], ["12345 is secret"], "must hold numbers"),
    "lengths": ([[0, 0]], [0.123456789, 0.123456789], "inconsistent"),
    "columns": ([[0, 0, 0]], [0.123456789], "features|modes|columns"),
}


@pytest.mark.parametrize("bad", [*BAD_DATA])
@pytest.mark.parametrize("way", ["fit", "fit_batches", "fold_in"])
def test_bad_entries_are_refused_and_not_shown(way, bad, streams):
    X, y, message = BAD_DATA[bad]
    where, values = tiny(2, 0)
    model = make()
    if way == "fold_in":
        model.fit(where, values)
        before, shown = model._local, pickle.dumps(model)
        streams.clear()
    with pytest.raises(ValueError, match=message) as caught:
        model.fit_batches([(X, y)]) if way == "fit_batches" else getattr(model, way)(
            X, y
        )
    assert not streams
    assert "12345" not in str(caught.value)
    assert "98765" not in str(caught.value)
    if way == "fold_in":
        assert model._local is before
        assert pickle.dumps(model) == shown
    else:
        assert not hasattr(model, "privacy_guarantee_")


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("perturbation", ["auto", "sums", "statistics"])
def test_there_is_no_partial_fit(perturbation, fitted):
    model = make(perturbation=perturbation)
    if fitted:
        model.fit(*tiny(2, 0))
    assert not hasattr(model, "partial_fit")
    assert hasattr(model, "fold_in")
    assert not hasattr(make(unit="entry", perturbation="auto"), "fold_in")


# --- what gets out -------------------------------------------------------------------


def other_data(order, unit):
    """Nothing in common with `tiny` but the shape."""
    rng = np.random.default_rng(99)
    n = 61
    where = np.column_stack(
        [rng.integers(0, size, n) for size in (N_UNITS, *OTHERS[order])]
    )
    return np.column_stack(placed(where.T, unit)), rng.normal(0.4, 0.1, n)


def given(model, data, follow):
    with recorded(follow) as found:
        model.fit(*data)
    assert len(found.exact) == len(follow.exact)
    return model, found


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("form", "order", "unit", "perturbation"), CASES)
def test_all_that_is_released_is_a_function_of_the_noisy_sums(
    form, order, unit, perturbation
):
    """Two data sets, the same outputs: not a byte of what is stored differs."""
    where, values = tiny(order, unit)
    model = make(form, order, unit, perturbation=perturbation, informed=True)
    with recorded() as start:
        one = clone(model).fit(where, values)
    two, found = given(clone(model), other_data(order, unit), start)
    # They are as different as can be.
    assert np.any(start.flat != found.flat)
    assert pickle.dumps(one) == pickle.dumps(two)
    assert joblib.hash(one) == joblib.hash(two)
    assert repr(one) == repr(two)
    assert str(privacy_of(one)) == str(privacy_of(two))
    # Attribute by attribute, as Python objects, not through `__reduce__` of the whole.
    names = set(vars(one)) - {"_local"}
    assert names == set(vars(two)) - {"_local"}
    for name in sorted(names):
        shown = (pickle.dumps(getattr(m, name)) for m in (one, two))
        assert len(set(shown)) == 1, name
    # Users see their own.
    known = of_units(where, unit, [4])
    assert np.any(one.predict(where[known]) != two.predict(where[known]))
    unknown = where.copy()
    unknown[:, unit] = -1
    assert_array_equal(one.predict(unknown), two.predict(unknown))
    # Another way in: the same.
    batches = clone(model)
    with recorded(start):
        batches.fit_batches([(where[:9], values[:9]), (where[9:], values[9:])])
    assert pickle.dumps(batches) == pickle.dumps(one)


def test_a_release_that_depends_on_the_data_would_be_noticed(monkeypatch):
    """Such as the number of users, or the largest of all values, as an attribute."""
    complete = _unit.UnitPerturbation.complete

    def leaking(solver, released, on_sweep):
        outcome = complete(solver, released, on_sweep)
        outcome.model.noise += 1e-12 * len(solver.problem.coordinates)
        return outcome

    where, values = tiny(2, 0)
    with recorded() as start:
        one = make().fit(where, values)
    monkeypatch.setattr(_unit.UnitPerturbation, "complete", leaking)
    two, _ = given(make(), other_data(2, 0), start)
    assert pickle.dumps(one) != pickle.dumps(two)


RARE_UNIT, RARE_VALUE = 5_913_713, 0.7236067977499789
RARE_ITEMS = [411, 7, 302, 398, 155, 64, 233]
BIG = (6_000_000, 420)


def planted():
    """A unit, a value and coordinates that nobody else has."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(0, 300, 2000), rng.integers(0, 400, 2000)])
    X = np.concatenate([X, [[RARE_UNIT, item] for item in RARE_ITEMS]])
    y = np.append(rng.choice([0.0, 0.25, 0.5, 1.0], 2000), [RARE_VALUE] * 7)
    return X, y


def needles(model, X, y):
    """All that must not be found: numbers and arrays as bytes, by what they are."""
    scaled = 2 * RARE_VALUE - 1
    own = model._local.rows[np.searchsorted(model._local.units, RARE_UNIT)]
    found = {}
    for kind in (np.float64, np.float32, ">f8"):
        found["value", kind] = np.array([RARE_VALUE], kind)
        found["scaled value", kind] = np.array([scaled], kind)
        for column, number in enumerate(own):
            found[f"row {column}", kind] = np.array([number], kind)
        for column, number in enumerate(model._local.rows[17]):
            found[f"row {column} of another", kind] = np.array([number], kind)
    for kind in (np.int32, np.int64, np.float64):
        found["unit", kind] = np.array([RARE_UNIT], kind)
        found["items", kind] = np.array(RARE_ITEMS[:3], kind)
        found["sorted items", kind] = np.array(sorted(RARE_ITEMS)[:3], kind)
        found["units", kind] = np.unique(X[:, 0])[:9].astype(kind)
        found["coordinates", kind] = X[40:44].astype(kind)
        found["coordinates of a mode", kind] = X[40:48, 1].astype(kind)
    found["values", np.float64] = y[40:50]
    return {name: needle.tobytes() for name, needle in found.items()}


def stored(model):
    """All ways in which a model gets out of the process, as bytes."""
    found = {f"pickle {p}": pickle.dumps(model, protocol=p) for p in range(2, 6)}
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    found["joblib"] = buffer.getvalue()
    raw = [pickle.dumps(model, protocol=5, buffer_callback=(bands := []).append)]
    found["out of band"] = b"".join([*raw, *(bytes(band) for band in bands)])
    found["deep copy"] = pickle.dumps(copy.deepcopy(model))
    found["everything in a deep copy"] = pickle.dumps(contents(copy.deepcopy(model)))
    found["clone"] = pickle.dumps(contents(clone(model)))
    found["repr"] = repr(model).encode()
    found["HTML"] = model._repr_html_().encode()
    found["state"] = pickle.dumps(model.__getstate__())
    found["report"] = str(privacy_of(model)).encode()
    return found


def contents(value):
    """Arrays and numbers in an object, however it wants to be stored."""
    if isinstance(value, dict):
        return [contents(part) for part in value.values()]
    if isinstance(value, (list, tuple)):
        return [contents(part) for part in value]
    if hasattr(value, "__dict__") and not callable(value):
        return contents(vars(value))
    return value if isinstance(value, (np.ndarray, int, float, str)) else None


@pytest.mark.parametrize("perturbation", ["sums", "statistics"])
@pytest.mark.parametrize("form", ["CP", "Tucker", "biases"])
def test_nothing_of_a_unit_leaves_the_process(form, perturbation):
    X, y = planted()
    model = make(form, shape=BIG, perturbation=perturbation).fit(X, y)
    # What answers is made of rows, too.
    model.predict(X)
    model.recommend([RARE_UNIT])
    wanted = needles(model, X, y)
    for way, content in stored(model).items():
        for name, needle in wanted.items():
            assert needle not in content, (way, name)
        for text in (str(RARE_VALUE)[:8], str(RARE_UNIT), "5_913_713", "5,913,713"):
            assert text.encode() not in content, way
    # The hunt would find them: they are there.
    there = pickle.dumps(contents(model._local))
    hidden = {name for name, needle in wanted.items() if needle in there}
    assert {("row 0", np.float64), ("row 0 of another", np.float64)} <= hidden
    assert ("unit", np.int32) in hidden
    assert ("items", np.int32) in hidden or (
        "coordinates of a mode",
        np.int32,
    ) in hidden
    # Refitted or folded in, it is the same.
    model.fold_in(X[-7:], y[-7:]).predict(X[-7:])
    for needle in needles(model, X, y).values():
        assert needle not in pickle.dumps(model)


INTERRUPTIONS = {
    "before the sums": (_unit_run.UnitRun, "totals"),
    "between the sums": (_unit_run.UnitRun, "counts"),
    "at the last of them": (_unit_run.UnitRun, "_learn"),
    "while it is completed": (_unit.UnitPerturbation, "complete"),
    "while it is published": (CPCompletion, "_share"),
    "while rows are computed": (CPCompletion, "_keep_rows"),
}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("point", [*INTERRUPTIONS])
def test_an_interrupted_fit_keeps_nothing_of_a_unit(point, again):
    X, y = planted()
    model = make(shape=BIG, perturbation="sums")
    other = clone(model).fit(X, y)
    wanted = needles(other, X, y)
    if again:
        model.fit(X[:100], y[:100])
    with (
        mock.patch.object(*INTERRUPTIONS[point], side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(X, y)
    # It was released, or may have been.
    assert model.privacy_guarantee_.protects
    content = pickle.dumps(model)
    for name, needle in wanted.items():
        assert needle not in content, name


@pytest.mark.parametrize("before", ["entry", 1])
def test_a_fit_with_another_unit_leaves_nothing_of_the_first(before):
    """Coordinates are public at the level of entries, and are kept there."""
    X, y = planted()
    X[:, 0] %= 400
    shape = (400, 420)
    model = make("biases", shape=shape, perturbation="sums", unit=before).fit(X, y)
    model.set_params(unit=0).fit(X[:500], y[:500])
    fresh = make("biases", shape=shape, perturbation="sums")
    assert set(vars(model)) == set(vars(fresh.fit(X[:500], y[:500])))
    content = pickle.dumps(model)
    for kind in (np.int32, np.int64):
        assert X[600:610, 1].astype(kind).tobytes() not in content
    back = clone(model).fit(X, y).set_params(unit="entry")
    back.fit(X, y)
    assert "_local" not in vars(back)


def test_local_rows_copy_and_print_as_nothing():
    rows = LocalRows(np.array([3]), np.ones((1, 2)), np.array([[3, 1]]))
    assert repr(rows) == "LocalRows()"
    for other in (
        pickle.loads(pickle.dumps(rows)),
        copy.copy(rows),
        copy.deepcopy(rows),
    ):
        assert len(other.units) == 0
        assert other.rows is None
        assert other.where is None
        assert other.model is None


# --- rows of units -------------------------------------------------------------------


def fitted(form="CP", order=2, unit=0, **params):
    where, values = tiny(order, unit)
    return make(form, order, unit, **params).fit(where, values), where, values


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("order", "unit"), PLACES)
@pytest.mark.parametrize("form", [*FORMS])
def test_units_come_back_by_fold_in(form, order, unit):
    model, where, values = fitted(form, order, unit, informed=True)
    before = model.predict(where)
    unknown = where.copy()
    unknown[:, unit] = -1
    assert np.any(before != model.predict(unknown))
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_array_equal(other.predict(where), model.predict(unknown))
        assert_array_equal(other.predict(unknown), model.predict(unknown))
        assert other.fold_in(where, values) is other
        assert_allclose(other.predict(where), before, rtol=1e-12)
        # One after the other as well, and with other values outside the bounds.
        one = pickle.loads(pickle.dumps(model))
        for own in np.unique(where[:, unit]):
            of = of_units(where, unit, own)
            one.fold_in(where[of], np.clip(values[of], -7, 8))
        assert_allclose(one.predict(where), before, rtol=1e-12)
    assert_array_equal(model.predict(where), before)


def test_fold_in_of_a_new_unit_and_of_one_that_returns():
    model, *_ = fitted()
    rows, shown = model._local.rows.copy(), pickle.dumps(model)
    guarantee = model.privacy_guarantee_
    everything = np.argwhere(np.ones((N_UNITS, 5)))
    before = model.predict(everything)
    # Unit 6 has no entry so far.
    assert_array_equal(
        before[everything[:, 0] == 6], model.predict([[-1, k] for k in range(5)])
    )
    new = np.array([[6, k] for k in range(5)])
    model.fold_in(new, np.ones(5))
    after = model.predict(everything)
    is_new = everything[:, 0] == 6
    assert np.all(after[is_new] > before[is_new])
    assert_array_equal(after[~is_new], before[~is_new])
    # It comes back, with entries that are lower: as if it had not been there.
    model.fold_in(new[:3], np.zeros(3))
    alone = pickle.loads(shown).fold_in(new[:3], np.zeros(3))
    assert_array_equal(model.predict(new), alone.predict(new))
    assert_array_equal(model.predict(everything)[~is_new], before[~is_new])
    assert_array_equal(model._local.rows[:6], rows)
    assert_array_equal(model._local.units, np.arange(7))
    assert sum(model._local.where[:, 0] == 6) == 3
    # Nothing is released.
    assert model.privacy_guarantee_ == guarantee
    assert pickle.dumps(model) == shown


@pytest.mark.parametrize("change", [{"unit": 1}, {"value_bounds": (0, 0.5)}])
def test_fold_in_refuses_to_go_on_with_other_parameters(change):
    """As `partial_fit` does; rows would be of another mode, or of another scale."""
    model, where, values = fitted()
    before = model._local
    model.set_params(**change)
    with pytest.raises(ValueError, match="of the fit"):
        model.fold_in(where, values)
    assert model._local is before


def test_fold_in_draws_nothing_and_needs_a_fit(streams):
    with pytest.raises(ValueError, match="not fitted"):
        make().fold_in([[0, 0]], [0.5])
    model, where, values = fitted()
    streams.clear()
    count = pickle.dumps(model._releases)
    model.fold_in(where, values)
    assert not streams
    assert pickle.dumps(model._releases) == count


def test_a_copy_does_not_see_what_is_folded_in():
    model, *_ = fitted()
    other = copy.deepcopy(model)
    other.fold_in([[6, 0]], [1.0])
    assert 6 not in model._local.units
    assert_array_equal(other._local.units, [6])
    assert other.predict([[6, 1]]) != model.predict([[6, 1]])


@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_a_row_of_a_unit_is_a_function_of_its_own_entries(form):
    """And of what was released: other users may have anything."""
    where, values = tiny(2, 0)
    with recorded() as start:
        one = make(form).fit(where, values)
    own = where[:, 0] == 2
    X, y = other_data(2, 0)
    X, y = X[X[:, 0] != 2], y[X[:, 0] != 2]
    data = np.concatenate([X, where[own]]), np.concatenate([y, values[own]])
    two, _ = given(make(form), data, start)
    at = [[2, k] for k in range(5)]
    assert_array_equal(one.predict(at), two.predict(at))


# --- behaviour -----------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [2.0, math.inf])
@pytest.mark.parametrize("perturbation", ["sums", "statistics"])
@pytest.mark.parametrize("form", ["CP", "Tucker", "biases"])
@pytest.mark.parametrize(("order", "unit"), [(2, 1), (3, 1), (3, 2)])
def test_the_mode_of_the_unit_may_be_any(order, unit, form, perturbation, epsilon):
    where, values = tiny(order, 0)
    options = {"epsilon": epsilon, "perturbation": perturbation, "informed": True}
    first = make(form, order, 0, **options).fit(where, values)
    moved = np.column_stack(placed(where.T, unit))
    other = make(form, order, unit, **options).fit(moved, values)
    at = np.indices([s + 1 for s in (N_UNITS, *OTHERS[order])]).reshape(order, -1).T - 1
    moved = np.column_stack(placed(at.T, unit))
    assert_allclose(other.predict(moved), first.predict(at), rtol=1e-9, atol=1e-12)
    assert other.privacy_guarantee_.unit == (unit if unit != "entry" else None)
    assert other.factors_[unit] is None
    assert [f is None for f in other.factors_].count(True) == 1


@pytest.mark.parametrize(("order", "unit"), PLACES)
@pytest.mark.parametrize("form", [*ALL_FORMS])
def test_the_decomposition_is_that_of_an_unknown_unit(form, order, unit):
    model, *_ = fitted(form, order, unit, informed=True)
    dense = model.decomposition_.to_tensor()
    shape = list(placed((N_UNITS, *OTHERS[order]), unit))
    assert model.shape_ == tuple(shape)
    shape[unit] = 1
    assert dense.shape == tuple(shape)
    at = np.argwhere(np.ones(shape))
    expected = np.clip(model.offset_ + dense.ravel(), *model.value_bounds_)
    for index in (-1, 6):
        at[:, unit] = index
        assert_allclose(model.predict(at), expected, rtol=1e-9, atol=1e-12)
    assert model.factors_[unit] is None
    for mode, factor in enumerate(model.factors_):
        if mode != unit:
            assert len(factor) == shape[mode]
            assert_array_equal(factor, model.decomposition_[1][mode])


@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_predictions_of_units_and_of_unknown_rows(form):
    model, *_ = fitted(form, 3, informed=True)
    at = np.indices((N_UNITS + 1, 6, 4)).reshape(3, -1).T - 1
    found = model.predict(at)
    assert np.all(np.isfinite(found))
    assert np.all((found >= 0) & (found <= 1))
    assert len(np.unique(found)) > 50
    with pytest.raises(ValueError, match="outside the tensor"):
        model.predict([[N_UNITS, 0, 0]])
    with pytest.raises(ValueError, match="no standard deviations"):
        model.predict(at, return_std=True)


@pytest.mark.parametrize(("order", "unit"), [(2, 0), (3, 0), (3, 2)])
@pytest.mark.parametrize("form", ["CP", "Tucker", "biases"])
def test_recommendations_are_the_largest_predictions(form, order, unit):
    model, where, _ = fitted(form, order, unit)
    n_items = model.shape_[1]
    where = where[: len(where) // 40]
    model = pickle.loads(pickle.dumps(model)).fold_in(where, np.ones(len(where)))
    seen = 0
    for asking in range(-1, N_UNITS):
        context = [0] * (order - 2)
        if unit:
            context[unit - 2] = asking
        for first in range(model.shape_[0]) if unit else [asking]:
            items = model.recommend(first, n_items, context=context).tolist()
            own = (where[:, unit] == asking) & (where[:, 0] == first)
            own = set(where[own, 1].tolist())
            seen += len(own)
            left = [item for item in range(n_items) if item not in own]
            assert items[len(left) :] == [-1] * len(own)
            assert sorted(items[: len(left)]) == left
            if left:
                at = [[first, item, *context] for item in items[: len(left)]]
                inner = model._answering.predict(np.array(at))
                assert np.all(np.diff(inner) <= 1e-12)
    assert seen > 3
    stored = pickle.loads(pickle.dumps(model))
    assert -1 not in stored.recommend([2], k=n_items, context=context)


@pytest.mark.parametrize("epsilon", [2.0, math.inf])
@pytest.mark.parametrize("unit", [0, 1, 2])
@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_a_dense_tensor_is_its_entries(form, unit, epsilon):
    rng = np.random.default_rng(0)
    shape = placed((N_UNITS, *OTHERS[3]), unit)
    tensor = np.where(rng.random(shape) < 0.6, rng.random(shape), np.nan)
    dense = make(form, 3, unit, epsilon=epsilon).fit(tensor)
    where = np.argwhere(~np.isnan(tensor))
    sparse = make(form, 3, unit, epsilon=epsilon).fit(where, tensor[tuple(where.T)])
    everywhere = np.argwhere(np.ones(shape))
    found = dense.predict(everywhere)
    assert_array_equal(found, sparse.predict(everywhere))
    assert_allclose(dense.transform(tensor).ravel(), found, rtol=1e-10, atol=1e-12)
    assert not hasattr(sparse, "transform")
    # And nothing of it is stored.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = pickle.loads(pickle.dumps(dense))
    unknown = everywhere.copy()
    unknown[:, unit] = -1
    assert_allclose(again.transform(tensor).ravel(), dense.predict(unknown), rtol=1e-10)


@pytest.mark.parametrize("epsilon", [2.0, math.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batches_and_types(dtype, epsilon):
    where, values = tiny(3, 1)
    values = np.clip(values, -9, 9).astype(dtype)
    model = make("CP", 3, 1, epsilon=epsilon)
    whole = clone(model).fit(where, values)
    batches = clone(model).fit_batches(
        (where[k : k + 100], values[k : k + 100]) for k in range(0, len(where), 100)
    )
    assert pickle.dumps(whole) == pickle.dumps(batches)
    assert_array_equal(whole.predict(where), batches.predict(where))
    for kind in ("i1", "u4", "i8", "f8"):
        other = clone(model).fit(where.astype(kind), values.astype(float))
        assert_array_equal(other.predict(where), whole.predict(where))
    # What the caller passed is not changed, nor kept.
    for array in (where, values):
        array.flags.writeable = False
    clone(model).fit(where, values).fold_in(where, values)


def test_callbacks_end_a_fit():
    where, values = tiny(2, 0)
    for form, perturbation in (("CP", "statistics"), ("biases", "sums")):
        of, seen = solver_of(make(form, perturbation=perturbation), where), []

        def stop(number, seen=seen):
            seen.append(number)
            return number == 1

        *_, n_iter = of.release(values, _random.NoiseSource(0, 0), stop)
        assert (seen, n_iter) == ([0, 1], 2)
        seen.clear()
        model = make(form, perturbation=perturbation).fit(where, values)
        assert 2 <= model.n_iter_ <= of.n_sweeps


def test_a_search_over_epsilon_and_rank():
    ratings = make_ratings(200, 60, 4000, random_state=0)
    model = CPCompletion(
        0, unit=0, levels=ratings.levels, shape=ratings.shape, random_state=0
    )
    grid = {"epsilon": [0.01, 20.0], "rank": [0, 2]}
    search = GridSearchCV(model, grid, cv=3).fit(ratings.data, ratings.target)
    assert search.best_params_["epsilon"] == 20.0
    assert search.best_estimator_.privacy_guarantee_.unit == 0
    assert search.best_estimator_.predict(ratings.data).shape == (4000,)
    assert privacy_of(search).guarantee.epsilon > 20
    assert privacy_of(search).guarantee.unit == 0


# --- accuracy ------------------------------------------------------------------------


def split(*sizes):
    ratings = make_ratings(*sizes, random_state=0)
    parts = train_test_split(ratings.data, ratings.target, random_state=0)
    return ratings, parts


def error_of(model, parts):
    X, X_test, y, y_test = parts
    return np.sqrt(np.mean((model.fit(X, y).predict(X_test) - y_test) ** 2))


def error_of_means(parts):
    """Every user's mean, which needs no release but that of all means."""
    X, X_test, y, y_test = parts
    sums = np.bincount(X[:, 0], y - y.mean(), X[:, 0].max() + 1)
    means = sums / (np.bincount(X[:, 0], minlength=len(sums)) + 4)
    users = X_test[:, 0]
    known = np.where(users < len(means), means[np.minimum(users, len(means) - 1)], 0)
    return np.sqrt(np.mean((y.mean() + known - y_test) ** 2))


def rated(ratings, **params):
    options = {"epsilon": 8.0, "unit": 0, "random_state": 0, **params}
    return CPCompletion(
        options.pop("rank", 3), levels=ratings.levels, shape=ratings.shape, **options
    )


def test_sums_are_better_than_the_means_of_users():
    ratings, parts = split(600)
    means = error_of_means(parts)
    found = error_of(rated(ratings, perturbation="sums"), parts)
    assert found < means - 0.01
    # As without noise, but for some; and hardly worse where there is nothing but noise.
    exact = error_of(rated(ratings, perturbation="sums", epsilon=math.inf), parts)
    assert exact < found
    noise = error_of(rated(ratings, perturbation="sums", epsilon=1e-2), parts)
    assert noise < means + 0.05


def test_statistics_are_better_than_sums_for_many_users():
    ratings, parts = split(8000, 300, 400_000)
    sums = error_of(rated(ratings, perturbation="sums"), parts)
    auto = rated(ratings)
    assert error_of(auto, parts) < sums - 0.01
    assert auto.perturbation_ == "statistics"
    tucker = TuckerCompletion(3, **{
        key: value for key, value in auto.get_params().items() if key != "rank"
    })  # fmt: skip
    assert error_of(tucker, parts) < sums - 0.01


def test_auto_takes_sums_for_few_users_at_a_small_epsilon():
    ratings, (X, _, y, _) = split(600)
    for epsilon in (0.5, 2.0):
        assert rated(ratings, epsilon=epsilon).fit(X, y).perturbation_ == "sums"


def test_features_of_items_are_put_to_use():
    """Of which values are a function that users weigh differently."""
    rng = np.random.default_rng(0)
    of_items = rng.standard_normal((200, 2))
    weights = rng.standard_normal((2000, 2))
    X = np.column_stack([rng.integers(0, 2000, 60_000), rng.integers(0, 200, 60_000)])
    y = np.einsum("nk,nk->n", weights[X[:, 0]], of_items[X[:, 1]])
    y = np.clip(0.15 * y + 0.1 * rng.standard_normal(len(y)), -1, 1)
    parts = train_test_split(X, y, random_state=0)
    options = {
        "unit": 0, "epsilon": 1.0, "value_bounds": (-1, 1), "shape": (2000, 200),
        "random_state": 0,
    }  # fmt: skip
    plain = error_of(CPCompletion(0, **options), parts)
    informed = error_of(
        CPCompletion(0, **options, side_information={1: of_items}), parts
    )
    # 0.1 is what nobody can explain.
    assert informed < 0.75 * plain
