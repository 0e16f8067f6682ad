"""Perturbation of sums: what one value changes, the noise, the posterior."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.measure import RangeSums
from sktensordp.tensor import fit_biases_to_sums
from tests.support.replaying import quick, recorded
from tests.support.seams import (
    Domain,
    Entries,
    ValueQuestion,
    plan_sums_randomizer,
    shared_entries,
)
from tests.support.tensors import error_on

pytestmark = pytest.mark.thorough
DOMAINS = {
    "levels": {"levels": [1, 2, 3, 4, 5]},
    "uneven levels": {"levels": [0.0, 1.0, 4.0]},
    "bounds": {"value_bounds": (-1.0, 3.0)},
    "many levels": {"levels": range(60)},
}


def make(**params):
    options = {"epsilon": 1.0, "perturbation": "sums", "random_state": 0, **params}
    return CPCompletion(0, **options)


@pytest.mark.parametrize(
    ("domain", "shape"), [*zip(DOMAINS, [(3, 4), (2, 3, 2)] * 2, strict=True)]
)
def test_one_value_changes_one_sum_of_a_mode_by_the_range(domain, shape):
    """By brute force over the entries and over values within and beyond the range."""
    rng = np.random.default_rng(0)
    where = np.column_stack([rng.integers(0, n, 12) for n in shape])
    model = make(**DOMAINS[domain], shape=shape)
    values = rng.uniform(-2, 70, 12)
    with recorded() as before:
        low, high = model.fit(where, values).value_bounds_
    largest, domain_of = 0, Domain((low, high), model.levels and tuple(model.levels))
    lattice = plan_sums_randomizer(domain_of, 1.0, Entries(where, None, shape)).lattice
    (of_noise,) = before.lattices
    assert of_noise.rate == lattice.rate
    assert lattice.n_steps == round((high - low) / lattice.step)
    ends = np.cumsum([0, *shape])
    for entry, value in itertools.product(
        range(0, 12, 3), [-1e9, low, 0.3, 2.5, high, 1e9]
    ):
        changed = values.copy()
        changed[entry] = value
        with recorded(before) as after:
            clone(model).fit(where, changed)
        (((difference,),),) = [before.moved(after)]
        for mode, (first, last) in enumerate(itertools.pairwise(ends)):
            touched = np.flatnonzero(difference[first:last])
            assert set(touched) <= {where[entry, mode]}
        largest = max(largest, difference.max())
        assert difference.max() <= lattice.n_steps
    # The bound is reached, so that it is not wasted.
    assert largest >= 0.9 * lattice.n_steps


@pytest.mark.parametrize(
    ("domain", "raw", "kept"),
    [
        ("uneven levels", [0.4, 0.6, 2.4, 2.6, -3, 9], [0, 1, 1, 4, 0, 4]),
        ("levels", [0, 1.4, 1.6, 3.1, 4.6, 9], [1, 1, 2, 3, 5, 5]),
        ("bounds", [-9, -1, 0, 2.5, 3, 9], [-1, -1, 0, 2.5, 3, 3]),
    ],
)
def test_sums_are_of_clipped_and_rounded_values(domain, raw, kept):
    where = np.column_stack([np.arange(6) % 3, np.arange(6) % 2])
    fits = []
    for values in (raw, kept):
        with recorded() as found:
            make(**DOMAINS[domain], shape=(3, 2)).fit(where, np.array(values, float))
        fits.append(found)
    np.testing.assert_array_equal(fits[0].flat, fits[1].flat)
    assert np.any(fits[0].flat > 0)


def test_no_value_counts_for_more_steps_than_the_noise_is_for():
    """Whatever the clip of the values makes of them."""
    domain = SimpleNamespace(clip=lambda values: values)
    lattice = SimpleNamespace(low=-1.0, step=0.5, n_steps=4)
    values = np.array([-9.0, -1.0, 0.6, 1.3, 9.0])
    sums = RangeSums((5,), 0, 4, times=1, step=1.0)
    question, total = (
        ValueQuestion(domain, lattice, (0,), (sums,)),
        sums.zeros(),
    )
    question.add(Entries(np.arange(5)[:, np.newaxis], values, (5,)), total)
    np.testing.assert_array_equal(total, [0, 0, 3, 4, 4])


def noise_score(n_modes, budget, personal=False):
    """Standard score of the mean absolute noise of 12,000 sums, for one epsilon."""
    n_modes_with_sums = n_modes - personal
    shape = (12_000 // n_modes_with_sums,) * n_modes
    model = make(epsilon=budget, levels=[0, 1, 2], shape=shape, personal=personal)
    with recorded() as found, quick():
        model.fit(np.zeros((1, n_modes), dtype=int), [0.0])
    noise = found.transcript
    assert len(noise) == 12_000
    # For epsilon = 1, whatever it was drawn for: the modes with sums have equal shares.
    rate = 1 / n_modes_with_sums / 2
    mean = 2 * math.exp(-rate) / (1 - math.exp(-2 * rate))
    second = 2 * math.exp(-rate) / math.expm1(-rate) ** 2
    deviation = math.sqrt((second - mean**2) / len(noise))
    return (np.mean(np.abs(noise)) - mean) / deviation


@pytest.mark.parametrize(
    ("n_modes", "personal"), [(2, False), (4, False), (2, True), (4, True)]
)
def test_noise_has_the_scale_of_a_share_of_the_budget(n_modes, personal):
    # False alarm: 6 standard deviations, 2e-9; the seed is fixed.
    assert abs(noise_score(n_modes, 1.0, personal)) < 6
    # Half the noise, or that of a budget that is not shared, is found out.
    assert abs(noise_score(n_modes, 2.0, personal)) > 50


def privacy_loss(moved, rate):
    """The largest log likelihood ratio of sums that moved by these steps.

    Outcomes are enumerated: a sum plus n has a probability of exp(-rate |n|), up to a
    constant. Beyond the two sums, all outcomes have the same ratio.
    """
    total = 0.0
    for steps in np.abs(moved[moved != 0]).tolist():
        outcomes = np.arange(-2, steps + 3)
        ratios = rate * (np.abs(outcomes - steps) - np.abs(outcomes))
        total += np.abs(ratios).max()
    return total


@pytest.mark.parametrize("shape", [(4, 3), (3, 2, 2), (2, 3, 2, 2)])
def test_no_sum_of_users_is_released_if_they_are_answered_from_their_own(shape):
    """By brute force over entries and values; the other modes share all of epsilon."""
    where, epsilon = np.argwhere(np.ones(shape)), 0.9
    values = np.random.default_rng(0).choice([1.0, 2.0, 5.0], len(where))
    model = make(epsilon=epsilon, levels=[1, 2, 5], shape=shape, personal=True)
    with recorded() as before:
        model.fit(where, values)
    (((exact,),), (lattice,)) = before.exact, before.lattices
    assert len(exact) == sum(shape[1:])
    ends, losses = np.cumsum([0, *shape[1:]]), []
    for entry, value in itertools.product(range(len(where)), [-1e9, 1, 2, 5, 1e9]):
        changed = values.copy()
        changed[entry] = value
        with recorded(before) as after:
            clone(model).fit(where, changed)
        (((difference,),),) = [before.moved(after)]
        touched = np.flatnonzero(difference)
        rows = ends[:-1] + where[entry, 1:]
        assert set(touched) in (set(), set(rows))
        # Half the noise has twice the rate.
        rates = lattice.rate, 2 * lattice.rate
        losses.append([privacy_loss(difference, rate) for rate in rates])
    claimed = model.privacy_guarantee_.epsilon
    assert claimed == pytest.approx(epsilon, rel=1e-6)
    largest, of_half_the_noise = np.max(losses, axis=0)
    # What is claimed is reached, too.
    assert 0.999 * claimed < largest <= claimed * (1 + 1e-12) < of_half_the_noise


def sums_of(coordinates, values, shape):
    """Sums of values over the rows of all modes, one after the other."""
    by_mode = zip(shape, coordinates.T, strict=True)
    return np.hstack([np.bincount(column, values, size) for size, column in by_mode])


def incidence_of(coordinates, shape):
    """Which rows of all modes, one after the other, each entry is in."""
    by_mode = zip(shape, coordinates.T, strict=True)
    return np.hstack([np.eye(size)[column] for size, column in by_mode])


def dense_posterior(coordinates, sums, shape, variances, residual, noise, offset):
    """Posterior means by the covariance matrix of sums and biases."""
    n_rows, incidence = sum(shape), incidence_of(coordinates, shape)
    prior = np.repeat(variances, shape)
    values = incidence * prior @ incidence.T + residual * np.eye(len(coordinates))
    values += offset
    covariance = incidence.T @ values @ incidence + noise * np.eye(n_rows)
    weights = np.linalg.solve(covariance + 1e-9 * residual * np.eye(n_rows), sums)
    return (
        offset * incidence.sum(axis=0) @ weights,
        prior * (incidence.T @ incidence @ weights),
    )


@pytest.mark.parametrize("shape", [(6, 5), (4, 3, 5)])
@pytest.mark.parametrize("noise", [0.0, 0.5, 40.0])
def test_posterior_is_that_of_the_joint_normal_law(shape, noise):
    rng = np.random.default_rng(0)
    coordinates = np.column_stack([rng.integers(0, n, 40) for n in shape])
    values = 1 + rng.standard_normal(40)
    sums = sums_of(coordinates, values, shape)
    sums = sums + np.sqrt(noise) * rng.standard_normal(sum(shape))
    gram = shared_entries(coordinates.astype(np.int32), shape)
    offset, model = fit_biases_to_sums(gram, sums, noise, shape, 2.0)
    variances = 1 / model.precision[:, 0]
    expected = dense_posterior(
        coordinates, sums, shape, variances, model.noise, noise, 4 / 3
    )
    # The offset takes the means of the biases over the entries.
    by_mode = np.split(expected[1], np.cumsum(shape)[:-1])
    means = [b[c].mean() for b, c in zip(by_mode, coordinates.T, strict=True)]
    assert offset == pytest.approx(expected[0] + sum(means), abs=1e-3)
    for mode, factor in enumerate(model.factors):
        seen = np.unique(coordinates[:, mode])
        centred = by_mode[mode] - means[mode]
        np.testing.assert_allclose(factor[seen, mode], centred[seen], atol=1e-3)


def test_variances_are_learned():
    """Without noise, within a factor of what the values were made with."""
    rng = np.random.default_rng(0)
    shape = 400, 300
    where = np.column_stack([rng.integers(0, n, 30_000) for n in shape])
    where = where.astype(np.int32)
    biases = [0.7 * rng.standard_normal(400), 0.3 * rng.standard_normal(300)]
    values = sum(b[c] for b, c in zip(biases, where.T, strict=True))
    values += 0.8 * rng.standard_normal(30_000)
    sums, gram = sums_of(where, values, shape), shared_entries(where, shape)
    _, model = fit_biases_to_sums(gram, sums, 0.0, shape, 2.0)
    assert 1 / model.precision[:, 0] == pytest.approx([0.49, 0.09], rel=0.25)
    assert model.noise == pytest.approx(0.64, rel=0.35)


@pytest.fixture(scope="module")
def ratings():
    return make_ratings(600, 900, 40_000, random_state=0)


def error(ratings, rank=4, **params):
    test = np.random.default_rng(0).random(len(ratings.target)) < 0.2
    model = CPCompletion(
        rank, levels=ratings.levels, shape=ratings.shape, random_state=0, **params
    )
    return error_on(test, model, ratings.data, ratings.target)


@pytest.mark.slow
def test_sums_are_better_below_epsilon_two_and_worse_far_above(ratings):
    for epsilon, better in ((0.5, True), (1.0, True), (16.0, False)):
        sums = error(ratings, epsilon=epsilon, perturbation="sums")
        values = error(ratings, epsilon=epsilon, perturbation="input")
        assert (sums < values) == better
        assert abs(sums - values) > 0.01
    # Without noise, sums are as good as the biases of a fit to the values.
    sums = error(ratings, epsilon=math.inf, perturbation="sums")
    biases = error(ratings, rank=0, epsilon=math.inf)
    assert sums == pytest.approx(biases, abs=0.005)


def test_what_sums_do_not_give_is_refused(ratings):
    with pytest.raises(ValueError, match="does not support smooth_modes"):
        make(levels=ratings.levels, smooth_modes=[1]).fit(ratings.data, ratings.target)
    model = make(levels=ratings.levels).fit(ratings.data, ratings.target)
    assert [f.shape for f in model.factors_] == [(600, 2), (900, 2)]
    before = model.privacy_guarantee_
    # Not even where the parameters have been changed since.
    with pytest.raises(AttributeError, match="partial_fit"):
        model.set_params(perturbation="input").partial_fit(ratings.data, ratings.target)
    assert model.privacy_guarantee_ == before


def test_biases_from_sums_follow_features():
    """Item biases that are linear in features are seen through noise, others not."""
    rng = np.random.default_rng(0)
    shape = 300, 400
    features = rng.standard_normal((401, 2))
    where = np.column_stack([rng.integers(0, n, 8000) for n in shape]).astype(np.int32)
    biases = features[:-1] @ np.array([0.4, -0.3])
    values = 1.0 + biases[where[:, 1]] + 0.3 * rng.standard_normal(8000)
    sums = sums_of(where, values, shape) + 20 * rng.standard_normal(700)
    errors = []
    for known in (features, None):
        gram = shared_entries(where, shape)
        offset, model = fit_biases_to_sums(gram, sums, 400.0, shape, 2.0, float, known)
        found = model.predict(where) - biases[where[:, 1]] - 1.0 + offset
        errors.append(np.sqrt(np.mean(found**2)))
        if known is not None:
            unknown = model.predict(np.array([[-1, -1]]))[0]
            assert unknown == pytest.approx(features[-1] @ [0.4, -0.3], abs=0.15)
    assert errors[0] < 0.15 < 0.3 < errors[1]


@pytest.mark.parametrize("shape", [(7, 5), (6, 5, 4)])
def test_numbers_of_shared_entries_are_those_of_incidences(shape):
    rng = np.random.default_rng(0)
    where = np.column_stack([rng.integers(size, size=40) for size in shape])
    incidence = incidence_of(where, shape)
    dense, gram = incidence.T @ incidence, shared_entries(where, shape)
    vectors = rng.normal(size=(sum(shape), 3))
    np.testing.assert_allclose(gram @ vectors, dense @ vectors, atol=1e-12)
    np.testing.assert_allclose(gram @ vectors[:, 0], dense @ vectors[:, 0], atol=1e-12)
    np.testing.assert_array_equal(gram.diagonal(), np.diag(dense))
