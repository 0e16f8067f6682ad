"""Completions that protect everything of a unit: what it moves, and what gets out.

Neighbours are compared along a trajectory: the noisy sums of one run are given to the
other, so that all that is released later is the same function of earlier releases.
"""

import copy
import math
import pickle
import tracemalloc
import warnings
from dataclasses import replace
from unittest import mock

import dask.array as dask_array
import dask.dataframe as dask_frame
import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, train_test_split

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import PrivacyLeakWarning
from sktensordp.model_selection import UserKFold
from sktensordp.noise import GaussianLattice
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support import divergence
from tests.support.goodness import rises
from tests.support.leak_hunt import files_of, pickles_of, texts_of
from tests.support.noise import drawing
from tests.support.points import POINTS, original
from tests.support.refusing import refused
from tests.support.replaying import (
    accounted,
    quick,
    recorded,
    replayed,
    with_a_pattern,
)
from tests.support.seams import Domain, Entries, Problem
from tests.support.tensors import everywhere

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:.* of the values are:UserWarning"),
]
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
    "biases as a Tucker": (TuckerCompletion, {"rank": 0}),
    "Tucker of several ranks": (TuckerCompletion, {"rank": None}),
}
# For several ranks, that of the unit's mode first.
RANKS = {2: (3, 3), 3: (3, 3, 2)}


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
    estimator, options = FORMS[form]
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


def run(model, where, values, follow=None, factor=1.0):
    """The releases of a fit; rows are rough, which is the same along a trajectory."""
    with quick(), recorded(follow, factor) as found:
        found.model = clone(model).fit(where, values)
    if follow is not None:
        assert len(found.exact) == len(follow.exact)
    return found


def bound_of(start):
    """How long all that a unit contributes may be, by what is accounted for."""
    return accounted(start.model.privacy_guarantee_)[1] * start.sigma


def without_each(start, where, values, unit, units=None):
    """Yield units, how far the releases move without one, and those to it alone."""
    for own in np.unique(where[:, unit]) if units is None else units:
        rest = where[:, unit] != own
        other = run(start.model, where[rest], values[rest], follow=start)
        alone = run(start.model, where[~rest], values[~rest], follow=start)
        yield own, start.flat - other.flat, alone


def lengths_of_units(model, where, values, unit, factor=1.0):
    """By unit, how far all releases move without it; nothing else may move at all."""
    start = run(model, where, values, factor=factor)
    lengths, total = {}, 0
    for own, moved, alone in without_each(start, where, values, unit):
        assert_array_equal(moved, alone.flat)
        lengths[int(own)] = float(np.linalg.norm(moved.astype(float)) * start.step)
        # Release by release, too, nothing is longer than what is accounted for.
        total = total + alone.flat
    assert_array_equal(total, start.flat)
    return start, lengths


# --- what one unit moves -------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "factor", "order", "unit"),
    [
        ("biases", 1.0, 2, 0), ("biases", 0.0, 3, 2), ("CP of one term", 1.0, 3, 1),
        ("CP", 1.0, 2, 1), ("CP", 1e3, 3, 0), ("CP without biases", 1.0, 3, 2),
        ("Tucker", 1.0, 3, 0), ("Tucker", 1e3, 2, 1),
        ("Tucker of several ranks", 1.0, 3, 1),
    ],
)  # fmt: skip
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
    usual = 0.8 if form == "Tucker of several ranks" else 0.85
    assert max(lengths.values()) > {0.0: 0.4, 1.0: usual, 1e3: 0.2}[factor]
    assert max(lengths.values()) <= bound_of(start)
    assert all(noise is start.lattices[0] for noise in start.lattices)


PATTERNS = [
    ("CP", 2, 1), ("CP", 3, 0), ("biases", 2, 0), ("CP without biases", 3, 2),
    ("Tucker", 3, 1),
]  # fmt: skip


def lengths_with_a_pattern(form, order, unit, factor=1.0, **params):
    """As `lengths_of_units`, where the sums of products are rounded once, as a whole.

    One step for each of them is allowed between a unit alone and what it moves.
    """
    where, values = tiny(order, unit)
    model = make(form, order, unit, **params)
    lengths = {}
    with with_a_pattern():
        start = run(model, where, values, factor=factor)
        assert len(start.exact[2]) == 1
        n_rows = OTHERS[order][0] if unit else model.shape[1]
        assert start.exact[2][0].shape == (n_rows * (n_rows + 1) // 2,)
        for own, moved, alone in without_each(start, where, values, unit):
            assert np.abs(moved - alone.flat).max() <= 1
            apart = np.flatnonzero(moved != alone.flat)
            first = sum(part.size for release in start.exact[:2] for part in release)
            assert np.all((apart >= first) & (apart < first + start.exact[2][0].size))
            lengths[int(own)] = float(np.linalg.norm(moved.astype(float)) * start.step)
            own_products = alone.exact[2][0].astype(float) * start.step
            # Of the least share, since so little noise is in the way.
            assert np.linalg.norm(own_products) <= math.sqrt(0.02) * (1 + 1e-6)
    return start, lengths


@pytest.mark.parametrize("factor", [0.0, 1.0, 1e3])
@pytest.mark.parametrize(("form", "order", "unit"), PATTERNS)
def test_one_unit_moves_the_pattern_and_all_else_by_one(form, order, unit, factor):
    start, lengths = lengths_with_a_pattern(form, order, unit, factor)
    assert max(lengths.values()) <= bound_of(start)
    assert max(lengths.values()) > {0.0: 0.4, 1.0: 0.7, 1e3: 0.2}[factor]
    # The features are in the model, where units fit weights for them.
    n_features = 4 if "without" not in form else 2
    assert start.model._fitted.model.features.shape[1] >= n_features


def test_longer_products_would_be_noticed(monkeypatch):
    on_lattice = original("products on the lattice")
    twice = lambda sums, limbs: 2 * on_lattice(sums, limbs)  # noqa: E731
    monkeypatch.setattr(*POINTS["products on the lattice"], twice)
    with pytest.raises(AssertionError):
        lengths_with_a_pattern("CP", 2, 0)


def test_a_pattern_is_not_asked_for():
    """With no components, or where no noise could ever be small enough."""
    where, values = tiny(2, 0)
    n_releases = len(run(make("CP"), where, values).exact)
    with with_a_pattern():
        of_none = run(make("CP", n_pattern_components=0), where, values)
        assert len(of_none.exact) == n_releases
        found = run(make("CP", n_pattern_components=1), where, values)
    assert len(found.exact) == n_releases + 1
    assert found.model._fitted.model.features.shape[1] == 3


def test_rounding_of_products_is_accounted_for():
    """What one unit may move is 1, and a step more for the root of their number."""
    where, values = tiny(2, 0)
    with with_a_pattern():
        start = run(make("CP"), where, values)
        plain = run(make("CP", n_pattern_components=0), where, values)
    n_products = start.exact[2][0].size
    assert bound_of(start) >= 1 + start.step * math.sqrt(n_products)
    assert bound_of(plain) < 1 + 1e-8 < bound_of(start)


@pytest.mark.parametrize("form", ["biases", "CP", "Tucker"])
def test_every_release_is_within_its_share(form):
    """The shares of all releases add up to no more than the squared budget."""
    where, values = tiny(3, 0)
    shares, release = [], original("noise of a release")

    def noted(releases, sums, *totals):
        shares.extend(each.share for each in sums)
        return release(releases, sums, *totals)

    with mock.patch.object(*POINTS["noise of a release"], noted):
        start = run(make(form, 3), where, values)
    assert 1 - 1e-9 < math.fsum(shares) <= 1 + 1e-12
    one = where[:, 0] == 5
    alone = run(make(form, 3), where[one], values[one], follow=start)
    parts = [part for release in alone.exact for part in release]
    for part, share in zip(parts, shares, strict=True):
        length = np.linalg.norm(part.astype(float)) * start.step
        assert length <= math.sqrt(share) * (1 + 1e-9)


def test_shares_above_the_budget_are_refused(monkeypatch):
    monkeypatch.setattr(*POINTS["share of counts"], 1.1)
    with pytest.raises(RuntimeError, match="more than the budget"):
        make().fit(*tiny(2, 0))


@pytest.mark.parametrize("chunk", [1, 30])
@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_chunks_and_the_order_of_entries_change_no_bit(form, chunk, monkeypatch):
    where, values = tiny(3, 0)
    start = run(make(form, 3), where, values)
    order = np.random.default_rng(1).permutation(len(values))
    again = run(make(form, 3), where[order], values[order], follow=start)
    assert_array_equal(start.flat, again.flat)
    monkeypatch.setattr(*POINTS["chunk of entries"], chunk)
    assert_array_equal(start.flat, run(make(form, 3), where, values, start).flat)


@pytest.mark.parametrize(("form", "seed"), [("CP", 0), ("Tucker", 1)])
def test_larger_tensors_of_random_units(form, seed):
    """150 units with 1 to 200 entries; one, several and all but one are taken away."""
    rng = np.random.default_rng(seed)
    sizes = rng.geometric(0.05, 150)
    n = int(sizes.sum())
    where = np.column_stack([np.repeat(np.arange(150), sizes), rng.integers(0, 40, n)])
    where = where.astype(np.int32)
    values = np.clip(rng.normal(0.6, 0.4, n), -0.5, 1.2)
    model = make(form, shape=(150, 40))
    start = run(model, where, values)
    largest = 0.0
    gone = [*rng.choice(150, 6, replace=False).tolist(), int(np.argmax(sizes))]
    for _, moved, alone in without_each(start, where, values, 0, gone):
        assert_array_equal(moved, alone.flat)
        length = np.linalg.norm(moved.astype(float)) * start.step
        assert length <= 1 + 1e-9
        largest = max(largest, length)
    assert largest > 0.5
    parts = [rng.random(150) < 0.5]
    parts.append(~parts[0])
    runs = [
        run(model, where[p[where[:, 0]]], values[p[where[:, 0]]], follow=start)
        for p in parts
    ]
    assert_array_equal(runs[0].flat + runs[1].flat, start.flat)


# --- tests of these tests ------------------------------------------------------------


@pytest.mark.parametrize("form", ["biases", "Tucker"])
def test_twice_the_contributions_would_be_noticed(form, monkeypatch):
    on_lattice = original("bounded sums on the lattice")
    twice = lambda sums, totals: 2 * on_lattice(sums, totals)  # noqa: E731
    monkeypatch.setattr(*POINTS["bounded sums on the lattice"], twice)
    where, values = tiny(2, 0)
    start, lengths = lengths_of_units(make(form), where, values, 0)
    assert max(lengths.values()) > 1.5 * bound_of(start)


def without_bounds(sums, starts, *_):
    n = len(starts) - 1
    return np.full(n, math.sqrt(sums.share) / sums.bound), np.zeros(n)


def test_vectors_that_are_not_scaled_down_would_be_noticed(monkeypatch):
    monkeypatch.setattr(*POINTS["bounding"], without_bounds)
    where, values = tiny(2, 0)
    _, lengths = lengths_of_units(make("CP"), where, values, 0, factor=0.0)
    assert max(lengths.values()) > 1.5


WEIGHED = original("bounding")


def too_long(sums, *data):
    weights, lengths = WEIGHED(sums, *data)
    return 2.0**40 * weights, 2.0**40 * lengths


def test_a_vector_beyond_its_limit_becomes_zero_before_it_is_added(
    monkeypatch, as_released
):
    """However the vectors came to be too long."""
    where, values = tiny(2, 0)
    with mock.patch.object(*POINTS["bounding"], too_long):
        found = run(make("CP"), where, values)
        nobody = run(make("CP"), where[:0], values[:0])
    assert_array_equal(found.flat[: len(found.exact[0][0])], 0)
    assert_array_equal(found.flat, nobody.flat)


def test_vectors_that_become_zero_are_noticed_in_all_tests():
    patched = mock.patch.object(*POINTS["bounding"], too_long)
    with patched, pytest.raises(AssertionError, match="longer than its limit"):
        make("CP", epsilon=2.0).fit(*tiny(2, 0))


def test_bounds_of_each_entry_alone_would_be_noticed(monkeypatch):
    """As where a single rating is protected: many of a unit add up."""

    def by_entry(sums, totals, _, starts, order, index, own):
        length = np.maximum(np.linalg.norm(own, axis=1, keepdims=True), sums.bound)
        share = math.sqrt(sums.share)
        added = np.trunc(share / length * own / sums.step)
        np.add.at(totals, index[: len(own)], added)

    monkeypatch.setattr(*POINTS["adding"], by_entry)
    where, values = tiny(2, 0)
    _, lengths = lengths_of_units(make("CP"), where, values, 0)
    assert max(lengths.values()) > 2


def test_weights_that_depend_on_others_would_be_noticed(monkeypatch):
    def weights(run, part):
        return np.full(len(part.units), 1 / math.sqrt(part.sizes.mean()))

    monkeypatch.setattr(*POINTS["weights of units"], weights)
    where, values = tiny(2, 0)
    with pytest.raises(AssertionError):
        lengths_of_units(make("CP"), where, values, 0)


def test_values_that_are_not_clipped_would_be_noticed(monkeypatch):
    """Lengths are bounded all the same, but one unit's share is all of that."""
    where, values = tiny(2, 0)
    near = np.clip(values, 0, 1)
    start = run(make("CP"), where, values)
    assert_array_equal(start.flat, run(make("CP"), where, near, start).flat)
    by_unit = original("entries of units")

    def unclipped(entries, domain, unit):
        clipped = by_unit(entries, domain, unit)
        return type(clipped)(entries.coordinates, 2 * entries.values - 1)

    monkeypatch.setattr(*POINTS["entries of units"], unclipped)
    start = run(make("CP"), where, near)
    two = np.where(values > 1, 2.0, near)
    assert np.any(start.flat != run(make("CP"), where, two, start).flat)


# --- what is accounted for -----------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "order", "unit", "perturbation"),
    [
        ("biases", 2, 1, "sums"), ("CP", 3, 2, "statistics"), ("CP", 2, 0, "auto"),
        ("Tucker", 3, 0, "statistics"), ("Tucker without biases", 2, 1, "statistics"),
    ],
)  # fmt: skip
def test_releases_and_cells_are_those_of_the_plan(form, order, unit, perturbation):
    planned, plan = {}, original("plan of units")

    def recorded_plan(*args, **sizes):
        planned.update(sizes)
        return plan(*args, **sizes)

    where, values = tiny(order, unit)
    with mock.patch.object(*POINTS["plan of units"], recorded_plan):
        found = run(make(form, order, unit, perturbation=perturbation), where, values)
    assert 0 < found.flat.size <= planned["n_cells"]
    # Not lavishly more, since a sampler pays for them.
    if perturbation == "statistics":
        assert planned["n_cells"] < 40 * found.flat.size
    assert planned.get("n_releases", 1) == 1
    assert planned["n_entries"] >= N_UNITS
    # Sums of whole steps are exact: every unit has at most 1 in any of them.
    assert N_UNITS / found.step < 2**52


@pytest.mark.parametrize("perturbation", ["sums", "statistics", "auto"])
def test_every_sum_is_randomised_once_and_nothing_else_is_drawn(perturbation):
    drawn, draw = [], GaussianLattice.randomize

    def note(lattice, part, bits, *args, **options):
        drawn.append(part / lattice.step)
        return draw(lattice, part, bits, *args, **options)

    with (
        mock.patch.object(GaussianLattice, "randomize", note),
        drawing() as streams,
        recorded() as found,
    ):
        make("CP", 3, perturbation=perturbation).fit(*tiny(3, 0))
    assert_array_equal(np.concatenate(drawn), found.flat)
    # No two of the streams are the same, and they are of one key.
    assert len(set(streams)) == len(streams) == len(drawn) == len(found.exact)
    assert len({key for key, _ in streams}) == 1
    # Nothing is released as it is: nearly every sum was moved.
    assert np.mean(found.flat * found.step != found.transcript) > 0.99


def test_noise_has_the_standard_deviation_that_is_accounted_for():
    """Of 4,000 cells and more; the standard deviation is within 8 of its own."""
    rng = np.random.default_rng(0)
    where = np.column_stack([rng.integers(0, 50, 2000), rng.integers(0, 500, 2000)])
    model = make("biases", shape=(50, 500), perturbation="sums", epsilon=1.0)
    noise = []
    for seed in range(3):
        found = run(model.set_params(random_state=seed), where, rng.random(2000))
        noise.append(found.transcript - found.flat * found.step)
    noise = np.concatenate(noise)
    _, mu = accounted(found.model.privacy_guarantee_)
    tolerance = 8 / math.sqrt(2 * noise.size)
    assert noise.std() * mu == pytest.approx(1.0, abs=tolerance)
    # Half the noise would be noticed.
    assert tolerance < 0.25


@pytest.mark.parametrize(
    ("form", "delta", "epsilon"),
    [
        ("biases", 1e-2, 8.0),
        ("CP", 1e-9, 0.1),
        ("CP", 1e-6, 8.0),
        ("Tucker", 1e-2, 1.0),
    ],
)
def test_the_guarantee_is_the_one_asked_for(form, delta, epsilon):
    """Recomputed from the noise by the closed form of Balle and Wang (2018)."""
    where, values = tiny(3, 1)
    model = make(form, 3, 1, epsilon=epsilon, delta=delta)
    with recorded() as found:
        model.fit(where, values)
    guarantee = model.privacy_guarantee_
    assert guarantee.unit == 1
    assert 0.99 * epsilon < guarantee.epsilon <= epsilon
    # Lengths of at most 1, noise of the lattice's sigma.
    mu, stick = 1 / found.sigma, divergence.gaussian_stick
    assert stick(mu, guarantee.epsilon) <= delta
    for at in (0.0, 0.5 * epsilon, 1.5 * epsilon):
        assert guarantee.delta_at(at) >= stick(mu, at) * (1 - 1e-12)
    # Nothing is wasted: two per cent less noise would not do.
    assert stick(1.02 * mu, epsilon) > delta


@pytest.mark.parametrize("undeclared", ["shape", "value_bounds"])
def test_a_search_of_what_is_not_declared_protects_nobody(undeclared):
    where, values = tiny(2, 0)
    values = values.clip(0, 1)
    model, cv = make("biases", perturbation="sums"), UserKFold(2, random_state=0)
    search = GridSearchCV(model, {"rank": [0]}, cv=cv).fit(where, values)
    assert privacy_of(search).guarantee.protects
    search.set_params(**{f"estimator__{undeclared}": None})
    with pytest.warns(PrivacyLeakWarning):
        search.fit(where, values)
    assert not privacy_of(search).guarantee.protects


def test_levels_declare_the_range():
    where, values = tiny(2, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        model = make(value_bounds=None, levels=[0, 0.5, 1]).fit(where, values)
    assert model.privacy_guarantee_.protects
    rounded = make().fit(where, np.round(2 * np.clip(values, 0, 1)) / 2)
    # Halfway between levels, a value may go either way.
    assert_allclose(model.predict(where), rounded.predict(where), atol=0.05)


# --- refusals ------------------------------------------------------------------------

REFUSALS = {
    "unit out of range": ({"unit": 2, "shape": (7, 5)}, "unit = 2 is not a mode"),
    "unit below 0": ({"unit": -1}, "'unit' parameter"),
    "another word": ({"unit": "user"}, "'unit' parameter"),
    "input": ({"perturbation": "input"}, "perturbation must be one of"),
    "gradient": ({"perturbation": "gradient"}, "perturbation must be one of"),
    "output": ({"perturbation": "output"}, "perturbation must be one of"),
    "rank": ({"rank": 20}, "too large|larger than"),
}


@pytest.mark.parametrize("refusal", [*REFUSALS])
@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_parameters_are_refused_before_anything_is_drawn(form, refusal):
    params, message = REFUSALS[refusal]
    where, values = tiny(2, 0)
    model = make(form, **params)
    with refused(message, secret="0.12345"):
        model.fit(where, np.full(len(values), 0.123456789))
    assert not hasattr(model, "privacy_guarantee_")
    assert not hasattr(model, "n_iter_")


@pytest.mark.parametrize("form", ["CP without biases", "Tucker without biases"])
def test_sums_determine_biases_alone(form):
    """Without any there is nothing for them to do, and "auto" knows."""
    where, values = tiny(2, 0)
    model = make(form, perturbation="sums", epsilon=0.1)
    with refused("biases"):
        model.fit(where, values)
    model.set_params(perturbation="auto").fit(where, values)
    assert model.perturbation_ == "statistics"


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[0, 5]], [0.123456789], "outside the tensor"),
        ([[987654, 1]], [0.5], "outside the tensor"),
        ([[0.123456789, 0]], [0.5], "fractional"),
        ([[0, 0]], [np.nan], "NaN"),
        ([[0, 0]], ["12345 is secret"], "must hold numbers"),
        ([[0, 0, 0]], [0.123456789], "features|modes|columns"),
    ],
)
def test_bad_entries_to_fold_in_are_refused_and_not_shown(X, y, message):
    model, where, _ = fitted()
    before, shown = model.predict(where), pickle.dumps(model)
    with refused(message, secret=["12345", "98765"]):
        model.fold_in(X, y)
    assert_array_equal(model.predict(where), before)
    assert pickle.dumps(model) == shown


# --- what gets out -------------------------------------------------------------------


def other_data(order, unit, n_units=N_UNITS):
    """Nothing in common with `tiny` but the shape."""
    rng, n = np.random.default_rng(99), 61
    sizes = n_units, *OTHERS[order]
    where = np.column_stack([rng.integers(0, size, n) for size in sizes])
    return np.column_stack(placed(where.T, unit)), rng.normal(0.4, 0.1, n)


def stored(model):
    """All ways in which a model gets out of the process, by name."""
    yield from (*pickles_of(model), *files_of(model), *texts_of(model))
    yield "deep copy", joblib.hash(vars(copy.deepcopy(model)))
    yield "hash", joblib.hash(model)
    yield "clone", pickle.dumps(vars(clone(model)))
    yield "state", pickle.dumps(model.__getstate__())


@pytest.mark.parametrize(
    ("form", "order", "unit", "perturbation"),
    [
        ("biases", 2, 1, "sums"), ("CP", 3, 2, "auto"), ("CP", 3, 0, "statistics"),
        ("CP without biases", 2, 0, "statistics"), ("Tucker", 3, 1, "statistics"),
        ("Tucker", 2, 1, "auto"), ("Tucker without biases", 3, 2, "statistics"),
    ],
)  # fmt: skip
def test_all_that_is_released_is_a_function_of_the_noisy_sums(
    form, order, unit, perturbation
):
    """Two data sets, the same outputs: not a byte of what is stored differs."""
    where, values = tiny(order, unit)
    model = make(form, order, unit, perturbation=perturbation, informed=True)
    # They are as different as can be.
    one, two = replayed(
        lambda *data: clone(model).fit(*data), (where, values), other_data(order, unit)
    )
    # What answers is made of rows, too.
    for fit in (one, two):
        fit.predict(where)
    for (way, content), other in zip(stored(one), stored(two), strict=True):
        assert (way, content) == other, way
    # Attribute by attribute, as Python objects, not through `__reduce__` of the whole.
    names = set(vars(one))
    assert names == set(vars(two))
    for name in sorted(names):
        shown = (pickle.dumps(getattr(m, name)) for m in (one, two))
        assert len(set(shown)) == 1, name
    # Users see their own.
    known = where[:, unit] == 4
    assert np.any(one.predict(where[known]) != two.predict(where[known]))
    unknown = where.copy()
    unknown[:, unit] = -1
    assert_array_equal(one.predict(unknown), two.predict(unknown))


def test_a_release_that_depends_on_the_data_would_be_noticed(monkeypatch):
    """Such as the number of users, or the largest of all values, as an attribute."""
    measure = original("release of units")

    def leaking(measurement, units, *arguments):
        model, *others = measure(measurement, units, *arguments)
        noise = model.noise + 1e-12 * len(units.values)
        return replace(model, noise=noise), *others

    monkeypatch.setattr(*POINTS["release of units"], leaking)
    one, two = replayed(lambda *data: make().fit(*data), tiny(2, 0), other_data(2, 0))
    assert pickle.dumps(one) != pickle.dumps(two)


@pytest.mark.parametrize("before", ["entry", 1])
def test_a_fit_with_another_unit_leaves_nothing_of_the_first(before):
    """Coordinates are public at the level of entries, and are kept there."""
    where, values = tiny(2, 0)
    where %= 5
    options = {"shape": (5, 5), "perturbation": "sums"}
    with recorded() as start:
        fresh = make("biases", **options).fit(*other_data(2, 0, 5))
    model = make("biases", unit=before, **options).fit(where, values)
    with recorded(start):
        model.set_params(unit=0).fit(*other_data(2, 0, 5))
    assert vars(model).keys() == vars(fresh).keys()
    of_earlier_releases = {"_releases", "_release_tally", "_was_seeded"}
    for name in vars(fresh).keys() - of_earlier_releases:
        assert pickle.dumps(vars(model)[name]) == pickle.dumps(vars(fresh)[name]), name
    model.set_params(unit="entry").fit(where, values)
    assert model._fitted.local.rows is None


# --- rows of units -------------------------------------------------------------------


def fitted(form="CP", order=2, unit=0, **params):
    where, values = tiny(order, unit)
    return make(form, order, unit, **params).fit(where, values), where, values


@pytest.mark.parametrize(
    ("form", "order", "unit"),
    [
        ("biases", 2, 0), ("CP", 3, 1), ("CP without biases", 2, 1), ("Tucker", 3, 2),
        ("Tucker without biases", 3, 0),
    ],
)  # fmt: skip
def test_units_come_back_by_fold_in(form, order, unit):
    model, where, values = fitted(form, order, unit, informed=True)
    before = model.predict(where)
    unknown = where.copy()
    unknown[:, unit] = -1
    assert np.any(before != model.predict(unknown))
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        with pytest.warns(UserWarning, match="never pickled or deep-copied"):
            assert_array_equal(other.predict(where), model.predict(unknown))
        assert_array_equal(other.predict(unknown), model.predict(unknown))
        assert other.fold_in(where, values) is other
        assert_allclose(other.predict(where), before, rtol=1e-12)
        # One after the other as well, and with other values outside the bounds.
        one = pickle.loads(pickle.dumps(model))
        for own in np.unique(where[:, unit]):
            of = where[:, unit] == own
            one.fold_in(where[of], np.clip(values[of], -7, 8))
        assert_allclose(one.predict(where), before, rtol=1e-12)
    assert_array_equal(model.predict(where), before)


def test_fold_in_of_a_new_unit_and_of_one_that_returns():
    with pytest.raises(ValueError, match="not fitted"):
        make().fold_in([[0, 0]], [0.5])
    model, *_ = fitted()
    rows, shown = model._fitted.local.rows.copy(), pickle.dumps(model)
    guarantee = model.privacy_guarantee_
    everything = np.argwhere(np.ones((N_UNITS, 5)))
    before = model.predict(everything)
    # Unit 6 has no entry so far.
    assert_array_equal(
        before[everything[:, 0] == 6], model.predict([[-1, k] for k in range(5)])
    )
    new = np.array([[6, k] for k in range(5)])
    with drawing() as opened:
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
    assert_array_equal(model._fitted.local.rows[:6], rows)
    assert_array_equal(model._fitted.local.units, np.arange(7))
    assert sum(model._fitted.local.where[:, 0] == 6) == 3
    # Nothing is released.
    assert not opened
    assert model.privacy_guarantee_ == guarantee
    assert pickle.dumps(model) == shown


@pytest.mark.parametrize("change", [{"unit": 1}, {"value_bounds": (0, 0.5)}])
def test_fold_in_refuses_to_go_on_with_other_parameters(change):
    """As `partial_fit` does; rows would be of another mode, or of another scale."""
    model, where, values = fitted()
    before = model._fitted.local
    model.set_params(**change)
    with pytest.raises(ValueError, match="of the fit"):
        model.fold_in(where, values)
    assert model._fitted.local is before


def test_a_copy_does_not_see_what_is_folded_in():
    model, *_ = fitted()
    other = copy.deepcopy(model)
    other.fold_in([[6, 0]], [1.0])
    assert 6 not in model._fitted.local.units
    assert_array_equal(other._fitted.local.units, [6])
    assert other.predict([[6, 1]]) != model.predict([[6, 1]])


# --- behaviour -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "order", "unit", "perturbation", "epsilon"),
    [
        ("biases", 2, 1, "sums", 2.0), ("biases", 3, 2, "sums", math.inf),
        ("CP", 3, 1, "statistics", 2.0), ("CP", 2, 1, "statistics", math.inf),
        ("Tucker", 3, 2, "statistics", 2.0), ("Tucker", 3, 1, "sums", 2.0),
    ],
)  # fmt: skip
def test_the_mode_of_the_unit_may_be_any(order, unit, form, perturbation, epsilon):
    where, values = tiny(order, 0)
    options = {"epsilon": epsilon, "perturbation": perturbation, "informed": True}
    first = make(form, order, 0, **options).fit(where, values)
    moved = np.column_stack(placed(where.T, unit))
    other = make(form, order, unit, **options).fit(moved, values)
    at = everywhere((N_UNITS, *OTHERS[order]))
    moved = np.column_stack(placed(at.T, unit))
    assert_allclose(other.predict(moved), first.predict(at), rtol=1e-9, atol=1e-12)
    assert other.factors_[unit] is None
    assert [f is None for f in other.factors_].count(True) == 1


@pytest.mark.parametrize(("order", "unit"), [(3, 1)])
@pytest.mark.parametrize("form", [*FORMS])
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
    # Biases alone need no more than sums.
    assert (model.perturbation_ == "sums") == (FORMS[form][1]["rank"] == 0)
    with pytest.raises(ValueError, match="outside the tensor"):
        model.predict([[0, N_UNITS, 0]])


def test_types_do_not_matter_and_nothing_is_kept():
    where, values = tiny(3, 1)
    values = np.clip(values, -9, 9).astype(np.float32)
    model = make("CP", 3, 1)
    whole = clone(model).fit(where, values)
    for kind in ("i1", "u4", "i8", "f8"):
        other = clone(model).fit(where.astype(kind), values.astype(float))
        assert_array_equal(other.predict(where), whole.predict(where))
    # What the caller passed is not changed, nor kept.
    for array in (where, values):
        array.flags.writeable = False
    clone(model).fit(where, values).fold_in(where, values)


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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_a_rank_too_high_does_not_hurt():
    """Without much noise: the columns that nothing is behind vanish.

    Over 4 data sets, the ratio of the errors was at most 1.002; 1.015 and more with
    factors that have seen the entries that they explain.
    """
    ratings, parts = split(2500, 50, 60_000)
    options = {"epsilon": 50.0, "perturbation": "statistics"}
    fitting, too_many = (rated(ratings, rank=rank, **options) for rank in (5, 12))
    assert error_of(too_many, parts) < 1.007 * error_of(fitting, parts)


EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, math.inf)


@pytest.fixture(scope="module")
def errors_by_budget():
    """Errors of twelve fits with each epsilon, a row for each seed.

    Items differ little, so that noise in their biases is worse than no biases at all.
    """
    rng = np.random.default_rng(0)
    n_users, n_items, n = 600, 300, 12_000
    X = np.column_stack([rng.integers(0, n_users, n), rng.integers(0, n_items, n)])
    of_items = 0.02 * rng.standard_normal(n_items)
    y = 0.2 * rng.standard_normal(n_users)[X[:, 0]] + of_items[X[:, 1]]
    y = np.clip(y + 0.3 * rng.standard_normal(n), -1, 1)
    parts = train_test_split(X, y, random_state=0)
    options = {"value_bounds": (-1, 1), "shape": (n_users, n_items), "unit": 0}
    model = CPCompletion(0, delta=1e-5, **options)
    return np.array([
        [error_of(model.set_params(epsilon=e, random_state=seed), parts)
         for e in EPSILONS]
        for seed in range(12)
    ])  # fmt: skip


# Student's t with 11 degrees of freedom exceeds this once in 8,000 times: for all eight
# comparisons together, a method whose error does not rise fails once in a thousand.
MOST_RISE = 5.2


def test_more_budget_never_hurts(errors_by_budget):
    assert np.all(rises(errors_by_budget) < MOST_RISE)


def test_a_rise_of_two_per_cent_would_be_noticed(errors_by_budget):
    grown = errors_by_budget * 1.02 ** np.arange(len(EPSILONS))
    assert np.any(rises(grown) > MOST_RISE)


def test_rows_are_fitted_to_the_sums_of_all_passes(monkeypatch):
    """Beside a fit to those of the last pass alone, with the same noise.

    Over 8 seeds, the ratio of the errors was 0.987 to 0.995, 0.990 on average.
    """
    ratings, parts = split(2000, 200, 60_000)

    def errors():
        options = {"rank": 5, "epsilon": 4.0, "perturbation": "statistics"}
        return [
            error_of(rated(ratings, random_state=seed, **options), parts)
            for seed in range(3)
        ]

    of_all = errors()
    fit = original("fit of rows to sums over units")

    def forgetful(state, *args, **kwargs):
        return fit(replace(state, information={}), *args, **kwargs)

    monkeypatch.setattr(*POINTS["fit of rows to sums over units"], forgetful)
    assert np.mean(np.divide(of_all, errors())) < 0.997


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


# A data set with one user has a neighbour without any.

NOWHERE, NO_VALUES = np.zeros((0, 2), dtype=int), np.zeros(0)


def without_entries():
    """Every form in which a data set without entries comes."""
    frame = pd.DataFrame({"user": [0, 1], "item": [0, 1], "value": [1.0, 2.0]})
    lazy = dask_frame.from_pandas(frame, npartitions=2)
    lazy = lazy[lazy["user"] > 5]
    return {
        "coordinates": lambda m: m.fit(NOWHERE, NO_VALUES),
        "columns": lambda m: m.fit(frame[:0][["user", "item"]], frame[:0]["value"]),
        "dense": lambda m: m.fit(np.full(m.shape, np.nan)),
        "scipy": lambda m: m.fit(scipy.sparse.csr_array(m.shape)),
        "sparse": lambda m: m.fit(
            sparse.COO(np.zeros((2, 0), int), NO_VALUES, shape=m.shape)
        ),
        "no batch": lambda m: m.fit_batches([]),
        "empty batches": lambda m: m.fit_batches([(NOWHERE, NO_VALUES)] * 2),
        "Dask array": lambda m: m.fit(
            dask_array.zeros((0, 2), dtype=int), dask_array.zeros(0)
        ),
        "Dask frame": lambda m: m.fit(lazy[["user", "item"]], lazy["value"]),
    }


@pytest.mark.parametrize("form", without_entries())
@pytest.mark.parametrize("perturbation", ["auto", "sums", "statistics"])
@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
def test_nobody_is_a_neighbour_of_one_user(kind, perturbation, form):
    """The same releases are made, recorded and answered as with a user."""

    def made(fit, unit):
        model = kind(
            2, epsilon=2.0, unit=unit, levels=[1, 2, 3], shape=(6, 5),
            perturbation=perturbation, max_iter=2,
        )  # fmt: skip
        with PrivacyBudget(math.inf) as budget, recorded() as found:
            fit(model)
        return model, budget.spent, len(found.exact)

    units = (0, 1) if form == "coordinates" else (0,)
    for unit in units:
        nobody, spent, n_releases = made(without_entries()[form], unit)
        one = made(lambda m: m.fit([[1, 2], [1, 2]], [1.0, 3.0]), unit)
        if perturbation != "auto":
            assert (spent, n_releases) == one[1:]
        assert spent.event == one[1].event
        assert nobody.privacy_guarantee_.epsilon == one[0].privacy_guarantee_.epsilon
        vars(nobody).pop("feature_names_in_", None)
        assert nobody.predict([[0, 0], [-1, -1]]).shape == (2,)
        if unit == 0:
            assert nobody.recommend([0, 5], k=2).shape == (2, 2)
        assert np.isfinite(nobody.fold_in([[1, 2]], [3.0]).predict([[1, 0]])).all()


@pytest.mark.parametrize("undeclared", ["shape", "levels"])
def test_nobody_is_refused_where_nothing_is_protected(undeclared):
    declared = {"unit": 0, "shape": (6, 5), "levels": [1, 2, 3], undeclared: None}
    with pytest.raises(ValueError, match="0 sample"):
        CPCompletion(0, **declared).fit(NOWHERE, NO_VALUES)
    with pytest.raises(ValueError, match="no batch holds an entry"):
        CPCompletion(0, **declared).fit_batches([])


@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
def test_users_who_are_declared_and_not_there_cost_no_memory(kind):
    X, y = np.argwhere(np.ones((30, 8))), 1.0 + np.arange(240) % 3

    def peak(n_users):
        model = kind(
            2, unit=0, levels=[1, 2, 3], shape=(n_users, 8), max_iter=2,
            perturbation="statistics", random_state=0,
        )  # fmt: skip
        tracemalloc.start()
        model.fit(X, y).recommend([0, n_users - 1], k=2)
        model.fold_in([[n_users - 1, 3]], [2.0])
        largest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return largest

    peak(100)  # imports
    # One byte for each user would be 100 megabytes.
    assert peak(100_000_000) < peak(100) + 100_000


def test_entries_of_units_are_clipped_to_the_domain_that_is_asked_for():
    entries = Entries(
        np.array([[0, 0], [1, 0]], np.int32), np.array([0.0, 9.0]), (2, 1)
    )
    wide, narrow = Domain((0.0, 9.0)), Domain((0.0, 3.0))
    assert_array_equal(entries.by_unit(wide, 0).values, [-1, 1])
    # Of the narrow range, 9 is the upper end, as 3 is; in half ranges, all end at 1.
    assert_array_equal(entries.by_unit(narrow, 0).values, [-1, 1])
    assert_array_equal(entries.by_unit(Domain((-9.0, 9.0)), 0).values, [0, 1])


@pytest.mark.parametrize("unit", ["entry", 0])
def test_a_problem_holds_no_value_and_of_units_no_coordinate(unit):
    where = np.array([[0, 1], [2, 0]], np.int32)
    model = CPCompletion(1, unit=unit, levels=[1, 2], shape=(3, 2))
    entries = Entries(where, np.array([1.0, 2.0]), (3, 2))
    problem = Problem.from_estimator(model, entries.shape, entries)
    if unit == 0:
        assert problem.entries is problem.features.entries is None
    else:
        assert problem.entries.values is None
        assert_array_equal(problem.entries.coordinates, where)
