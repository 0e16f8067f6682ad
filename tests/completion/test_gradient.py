"""Perturbation of gradients: what one value moves, along any trajectory."""

import math
from unittest import mock

import numpy as np
import pytest

from tests.measure.test_noisy_sums import (
    SHAPES,
    VALUES,
    WHERE,
    moved_by_one_value,
)
from tests.measure.test_noisy_sums import make as make_any
from tests.support.points import POINTS, original
from tests.support.replaying import accounted, leaves, quick, recorded
from tests.support.seams import Entries, Problem, _Blocks, _Descent

pytestmark = pytest.mark.thorough


def make(form="CP", order=2, **params):
    return make_any(form, order, perturbation="gradient", **params)


# --- what one value moves ----------------------------------------------------------

DOMAINS = {
    "biases": {},
    "biases alone": {"rank": 0},
    "no biases": {"biases": False},
    "levels": {"value_bounds": None, "levels": [0.0, 0.25, 1.0]},
    "wide clip": {},
}
CLIPS = {"no biases": 0.03, "wide clip": 3.0}


def shapes_of(model, order):
    """Shapes of the blocks of sums, in the order in which they are released."""
    entries = Entries(WHERE[order].astype(np.int32), None, SHAPES[order])
    return _Blocks.from_problem(
        Problem.from_estimator(model, SHAPES[order], entries)
    ).shapes


def blocks_of(sums, shapes):
    """Sums by block."""
    ends = np.cumsum([n_rows * n_columns for n_rows, n_columns in shapes])[:-1]
    return [
        part.reshape(shape)
        for part, shape in zip(np.split(sums, ends), shapes, strict=True)
    ]


@quick()
def largest_distances(model, order, factor=1.0, wrong=1):
    """The run, and by release how far a neighbour's is in L2, all blocks together."""
    with recorded(factor=factor, wrong=wrong) as start:
        model.fit(WHERE[order], VALUES)
    largest, entries, shapes = 0.0, range(0, 5, 2), shapes_of(model, order)
    for entry, _, moved in moved_by_one_value(model, order, start, wrong, entries):
        for (release,) in moved:
            # Of the rows of the entry alone, in every mode, and the core.
            own = [*WHERE[order][entry], 0]
            for part, row in zip(blocks_of(release, shapes), own, strict=False):
                assert set(np.flatnonzero(part.any(axis=1))) <= {row}
        found = [np.linalg.norm(release) for (release,) in moved]
        largest = np.maximum(largest, np.array(found) * start.step)
    return start, largest


@pytest.mark.parametrize(
    ("form", "domain", "order", "factor"),
    [
        *(("CP", domain, 2, 0.0) for domain in DOMAINS), ("Tucker", "biases", 3, 0.0),
        ("Tucker", "biases", 3, 1.0), ("CP", "no biases", 2, 1.0),
        ("CP", "wide clip", 2, 1e3),
    ],
)  # fmt: skip
def test_one_value_moves_the_sums_by_one(monkeypatch, form, domain, order, factor):
    """In L2, all blocks of a release together, for all entries and trajectories.

    With the noise of the trajectory left out, as it is, and a thousand times as large.
    """
    monkeypatch.setattr(
        *POINTS["clip of gradients"], CLIPS.get(domain, original("clip of gradients"))
    )
    model = make(form, order, **DOMAINS[domain])
    start, largest = largest_distances(model, order, factor)
    assert len(largest) == model.max_iter
    shapes = shapes_of(model, order)
    assert len(shapes) == order + (form == "Tucker" and domain != "biases alone")
    n_moved = sum(n_columns for _, n_columns in shapes)
    assert np.all(largest <= 1 + start.step * math.sqrt(n_moved) + 1e-12)
    # Each release is about as sensitive as it may be, so that nothing is wasted; with
    # noise, the mean may be at an end of the range, where residuals have one sign.
    if domain != "wide clip" and factor == 0.0:
        assert np.all(largest > 0.9)
    # What is accounted for is no less: of all iterations, and of one sum for the mean.
    guarantee = model.privacy_guarantee_
    _, mu = accounted(guarantee)
    assert np.linalg.norm(largest) / start.sigma <= mu
    ((first, count),) = [
        leaf for leaf in leaves(guarantee.event) if hasattr(leaf[0], "sensitivity")
    ]
    assert (count, first.sensitivity) == (1, start.lattices[0].l1_steps)
    assert first.noise_parameter == start.lattices[0].rate


@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_twice_the_contributions_would_be_noticed(form):
    model = make(form)
    start, largest = largest_distances(model, 2, 0.0, wrong=2)
    _, mu = accounted(model.privacy_guarantee_)
    assert np.linalg.norm(largest) / start.sigma > 1.5 * mu


def test_clipping_each_mode_for_itself_would_be_noticed(monkeypatch):
    """As is usual for each layer; the whole is then longer."""
    contributions = original("contributions of a descent")

    def by_mode(descent, chunk, values):
        return [
            own * (0.5 / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-9))
            for own in contributions(descent, chunk, values)
        ]

    monkeypatch.setattr(*POINTS["contributions of a descent"], by_mode)
    with pytest.raises(AssertionError, match="longer than its limit"):
        largest_distances(make("Tucker", 3), 3)


def test_a_core_that_is_left_out_of_the_clipping_would_be_noticed(monkeypatch):
    """Its gradient is no part of the length, and released all the same."""
    contributions = original("contributions of a descent")

    def without_core(descent, chunk, values):
        derivative = descent._derivative
        with mock.patch.object(
            descent, "_derivative", lambda block, p: derivative(block, p) * (block < 3)
        ):
            *of_modes, _ = contributions(descent, chunk, values)
        weights = of_modes[0][:, :1] / derivative(0, chunk)[:, :1]
        return [*of_modes, derivative(3, chunk) * weights]

    monkeypatch.setattr(*POINTS["scale of a descent's start"], 1.5)
    _, right = largest_distances(make("Tucker", 3, biases=False), 3)
    assert right.max() < 1 + 1e-3
    monkeypatch.setattr(*POINTS["contributions of a descent"], without_core)
    with pytest.raises(AssertionError, match="longer than its limit"):
        largest_distances(make("Tucker", 3, biases=False), 3)


def test_fits_take_no_more_than_was_accounted_for():
    """No more than was asked for, and all that was asked for but for rounding."""
    epsilon, delta = 10.0, 1e-14
    model = make(epsilon=epsilon, delta=delta, max_iter=40).fit(WHERE[2], np.zeros(5))
    assert 0.9 * epsilon < model.privacy_guarantee_.epsilon <= epsilon
    assert model.privacy_guarantee_.delta == delta


# --- the estimator -----------------------------------------------------------------


def descent_of(form, order, **params):
    """The descent itself, before its first step."""
    model = make(form, order, epsilon=math.inf, **params)
    entries = Entries(WHERE[order].astype(np.int32), None, SHAPES[order])
    problem = Problem.from_estimator(model, SHAPES[order], entries)
    return _Descent(problem, 0.0)


def test_a_tucker_starts_as_a_cp_of_two_modes():
    """Its core has ones on its diagonal."""
    one, two = descent_of("CP", 2), descent_of("Tucker", 2)
    values = np.linspace(-1, 1, 5)
    for mine, theirs in zip(one.parameters, two.parameters, strict=False):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_allclose(one._predicted(slice(None)), two._predicted(slice(None)))
    mine, theirs = (of.contributions(slice(None), values) for of in (one, two))
    assert (len(mine), len(theirs)) == (2, 3)
    for block in range(2):
        a, b = mine[block], theirs[block]
        # In the same direction; those of the core shorten all others where they clip.
        share = np.linalg.norm(b, axis=1) / np.linalg.norm(a, axis=1)
        np.testing.assert_allclose(a * share[:, np.newaxis], b, rtol=1e-9)
        assert np.all(share <= 1 + 1e-12)


def test_gradients_are_those_of_the_cost(monkeypatch):
    """By differences in every number of every block, where nothing is clipped."""
    monkeypatch.setattr(*POINTS["clip of gradients"], 1e6)
    descent = descent_of("Tucker", 3)
    values = np.linspace(-1, 1, len(WHERE[3]))
    descent.move([np.ones_like(own) * 1e-7 for own in descent.parameters])

    def cost():
        return np.sum((values - descent._predicted(slice(None))) ** 2)

    for block, part in enumerate(descent.contributions(slice(None), values)):
        own = descent.parameters[block]
        gradient = np.zeros(own.shape)
        np.add.at(gradient, descent.rows[block], 2 * descent.clip * part)
        for index in np.ndindex(own.shape):
            before, costs = own[index], []
            for step in (1e-6, -1e-6):
                own[index] = before + step
                costs.append(cost())
            own[index] = before
            slope = (costs[0] - costs[1]) / 2e-6
            assert -2 * gradient[index] == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize(("form", "clip"), [("CP", 1e-12), ("Tucker", 1e6)])
def test_models_stay_finite(monkeypatch, form, clip):
    monkeypatch.setattr(*POINTS["clip of gradients"], clip)
    for epsilon in (1e-4, math.inf):
        model = make(form, 3, epsilon=epsilon, max_iter=30)
        model.fit(WHERE[3], np.linspace(0, 1, 5))
        assert all(np.all(np.isfinite(f)) for f in model.factors_)


def test_it_learns(monkeypatch):
    """Without noise it explains what rows and columns explain, clipped or not."""
    rng = np.random.default_rng(0)
    rows, columns = rng.standard_normal((2, 40))
    where = np.argwhere(rng.random((40, 40)) < 0.6)
    values = np.clip(0.5 + 0.1 * (rows[where[:, 0]] + columns[where[:, 1]]), 0, 1)
    for clip in (0.5, 5.0):
        monkeypatch.setattr(*POINTS["clip of gradients"], clip)
        model = make(epsilon=math.inf, rank=1, max_iter=40, shape=(40, 40))
        left = np.var(values - model.fit(where, values).predict(where))
        assert left < 0.1 * np.var(values)
