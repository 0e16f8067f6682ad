"""Perturbation of sums: what one value changes, the law of the noise, the posterior."""

import itertools
import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sktensordp import _random
from sktensordp.completion import CPCompletion, _sums
from sktensordp.completion._sums import SumsPerturbation
from sktensordp.datasets import make_ratings
from sktensordp.privacy import privacy_of
from sktensordp.tensor import fit_biases_to_sums
from tests.support import divergence

DOMAINS = {
    "levels": {"levels": [1, 2, 3, 4, 5]},
    "uneven levels": {"levels": [0.0, 1.0, 4.0]},
    "bounds": {"value_bounds": (-1.0, 3.0)},
    "many levels": {"levels": range(60)},
}


def make(**params):
    options = {"epsilon": 1.0, "perturbation": "sums", "random_state": 0, **params}
    return CPCompletion(0, **options)


def randomizer_of(model, where, shape):
    problem = model._problem(np.array(where, dtype=np.int32), None, shape)
    return SumsPerturbation(problem).randomizer


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2)])
@pytest.mark.parametrize("domain", [*DOMAINS])
def test_one_value_changes_one_sum_of_a_mode_by_the_range(domain, shape, monkeypatch):
    """By brute force over the entries and over values within and beyond the range."""
    monkeypatch.setattr(_sums, "discrete_laplace", lambda *_: 0)
    rng = np.random.default_rng(0)
    where = np.column_stack([rng.integers(0, n, 12) for n in shape]).astype(np.int32)
    model = make(**DOMAINS[domain])
    plan = randomizer_of(model, where, shape)
    source = _random.NoiseSource(0, 0)
    values = rng.uniform(-2, 70, 12)
    low, high = plan.values.bounds

    def steps(values):
        sums = plan.randomize(values, source) - plan.lattice.low * plan.counts
        return np.rint(sums / plan.lattice.step).astype(np.int64)

    before, largest = steps(values), 0
    ends = np.cumsum([0, *shape])
    for entry, value in itertools.product(range(12), [-1e9, low, 0.3, 2.5, high, 1e9]):
        changed = values.copy()
        changed[entry] = value
        difference = np.abs(steps(changed) - before)
        for mode, (first, last) in enumerate(itertools.pairwise(ends)):
            touched = np.flatnonzero(difference[first:last])
            assert set(touched) <= {where[entry, mode]}
        largest = max(largest, difference.max())
        assert difference.max() <= plan.lattice.n_steps
    # The bound is reached, so that it is not wasted.
    assert largest >= 0.9 * plan.lattice.n_steps


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("domain", ["levels", "uneven levels"])
@pytest.mark.parametrize("n_modes", [2, 3])
def test_the_guarantee_is_no_less_than_the_truth(n_modes, domain, epsilon):
    """Hockey-stick divergence of independent discrete Laplace laws, convolved."""
    tools = divergence
    shape = (3,) * n_modes
    where = np.zeros((2, n_modes), dtype=np.int32)
    model = make(epsilon=epsilon, **DOMAINS[domain])
    plan = randomizer_of(model, where, shape)
    assert plan.guarantee.epsilon <= epsilon
    assert plan.guarantee.epsilon > epsilon * (1 - 1e-6)
    assert plan.guarantee.delta == 0
    # The loss of one sum depends on the noise in units of the change alone, so that the
    # lattice may be coarsened to its ends: noise in [0, K] in 64 parts.
    rate, width = plan.lattice.rate, plan.lattice.n_steps
    parts = min(width, 64)
    n = np.arange(parts + 1)
    # P(noise <= 0), the points between, P(noise >= K), seen from the shifted law.
    p = np.diff(np.r_[0, laplace_cdf(n / parts * width, rate)[:-1], 1])
    q = np.diff(np.r_[0, laplace_cdf((n / parts - 1) * width, rate)[:-1], 1])
    law = np.log(p / q), p
    total = law
    for _ in range(n_modes - 1):
        losses = np.add.outer(total[0], law[0]).ravel()
        total = losses, np.multiply.outer(total[1], law[1]).ravel()
    half = randomizer_of(model.set_params(epsilon=epsilon / 2), where, shape)
    for at in (0.0, 0.3 * epsilon, 0.6 * epsilon, 0.9 * epsilon):
        truth = tools.stick(total, at)
        assert plan.guarantee.delta_at(at) >= truth * (1 - 1e-9)
        # A guarantee of half the epsilon would be refuted.
        assert half.guarantee.delta_at(at) < truth


def laplace_cdf(x, rate):
    """Of the law P(n) ~ exp(-rate |n|), at the integers below x."""
    n = np.floor(x)
    tail = 1 / (1 + np.exp(-rate))
    below = np.exp(rate * np.minimum(n, 0)) * tail
    above = 1 - np.exp(-rate * (np.maximum(n, 0) + 1)) * tail
    return np.where(n < 0, below, above)


def noise_score(n_modes, budget):
    """Standard score of the mean absolute noise of 40,000 sums, for one epsilon."""
    shape = (40_000 // n_modes,) * n_modes
    where = np.zeros((1, n_modes), dtype=np.int32)
    plan = randomizer_of(make(epsilon=budget, levels=[0, 1, 2]), where, shape)
    values = np.array([0.0])
    noise = plan.randomize(values, _random.NoiseSource(3, 0))
    # For epsilon = 1, whatever it was drawn for: the share of a mode is 1 / n_modes.
    rate = 1 / n_modes / 2
    mean = 2 * math.exp(-rate) / (1 - math.exp(-2 * rate))
    second = 2 * math.exp(-rate) / math.expm1(-rate) ** 2
    deviation = math.sqrt((second - mean**2) / len(noise))
    return (np.mean(np.abs(noise)) - mean) / deviation


@pytest.mark.parametrize("n_modes", [2, 4])
def test_noise_has_the_scale_of_a_share_of_the_budget(n_modes):
    # False alarm: 6 standard deviations, 2e-9; the seed is fixed.
    assert abs(noise_score(n_modes, 1.0)) < 6
    # Half the noise, or that of a budget that is not shared, is found out.
    assert abs(noise_score(n_modes, 2.0)) > 50


def dense_posterior(coordinates, sums, shape, variances, residual, noise, offset):
    """Posterior means by the covariance matrix of sums and biases."""
    n_rows = sum(shape)
    incidence = np.zeros((len(coordinates), n_rows))
    for mode, start in enumerate(np.cumsum([0, *shape[:-1]])):
        incidence[np.arange(len(coordinates)), coordinates[:, mode] + start] = 1
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
    sums = [
        np.bincount(c, values, n) for c, n in zip(coordinates.T, shape, strict=True)
    ]
    sums = np.concatenate(sums) + np.sqrt(noise) * rng.standard_normal(sum(shape))
    offset, model = fit_biases_to_sums(
        coordinates.astype(np.int32), sums, noise, shape, 2.0
    )
    variances = 1 / model.precision[:, 0]
    expected = dense_posterior(
        coordinates, sums, shape, variances, model.noise_variance, noise, 4 / 3
    )
    assert offset == pytest.approx(expected[0], abs=1e-3)
    found = [f[:, mode] for mode, f in enumerate(model.factors)]
    np.testing.assert_allclose(np.concatenate(found), expected[1], atol=1e-3)


def test_variances_are_learned():
    """Without noise, within a factor of what the values were made with."""
    rng = np.random.default_rng(0)
    shape = 400, 300
    where = np.column_stack([rng.integers(0, n, 30_000) for n in shape])
    biases = [0.7 * rng.standard_normal(400), 0.3 * rng.standard_normal(300)]
    values = sum(b[c] for b, c in zip(biases, where.T, strict=True))
    values += 0.8 * rng.standard_normal(30_000)
    sums = [np.bincount(c, values, n) for c, n in zip(where.T, shape, strict=True)]
    _, model = fit_biases_to_sums(
        where.astype(np.int32), np.concatenate(sums), 0.0, shape, 2.0
    )
    assert 1 / model.precision[:, 0] == pytest.approx([0.49, 0.09], rel=0.25)
    assert model.noise_variance == pytest.approx(0.64, rel=0.35)


@pytest.fixture(scope="module")
def ratings():
    return make_ratings(600, 900, 40_000, random_state=0)


def error(ratings, **params):
    test = np.random.default_rng(0).random(len(ratings.target)) < 0.2
    model = CPCompletion(
        4, levels=ratings.levels, shape=ratings.shape, random_state=0, **params
    ).fit(ratings.data[~test], ratings.target[~test])
    return np.sqrt(
        np.mean((model.predict(ratings.data[test]) - ratings.target[test]) ** 2)
    )


def test_sums_are_better_below_epsilon_two_and_worse_far_above(ratings):
    for epsilon, better in ((0.5, True), (1.0, True), (16.0, False)):
        sums = error(ratings, epsilon=epsilon, perturbation="sums")
        values = error(ratings, epsilon=epsilon, perturbation="input")
        assert (sums < values) == better
        assert abs(sums - values) > 0.01
    # Without noise, sums are as good as the biases of a fit to the values.
    sums = error(ratings, epsilon=math.inf, perturbation="sums")
    biases = CPCompletion(0, epsilon=math.inf, levels=ratings.levels)
    test = np.random.default_rng(0).random(len(ratings.target)) < 0.2
    biases.set_params(shape=ratings.shape)
    biases.fit(ratings.data[~test], ratings.target[~test])
    rest = biases.predict(ratings.data[test]) - ratings.target[test]
    assert sums == pytest.approx(np.sqrt(np.mean(rest**2)), abs=0.005)


@pytest.mark.parametrize("dtype", [float, np.float32])
def test_the_fitted_object(ratings, dtype):
    y = ratings.target.astype(dtype)
    model = make(levels=ratings.levels).fit(ratings.data, y)
    assert model.perturbation_ == "sums"
    assert model.predict(ratings.data[:5]).dtype == dtype
    assert [f.shape for f in model.factors_] == [(600, 2), (900, 2)]
    rebuilt = model.offset_ + sum(
        f[ratings.data[:, mode], mode] for mode, f in enumerate(model.factors_)
    )
    low, high = model.value_bounds_
    np.testing.assert_allclose(
        model.predict(ratings.data), np.clip(rebuilt, low, high), rtol=1e-5
    )
    assert len(model.recommend(0, 5)) == 5
    assert privacy_of(model).guarantee.epsilon <= 1
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        copy.predict(ratings.data[:9]), model.predict(ratings.data[:9])
    )


def test_batches_and_dense_tensors_give_the_same_sums():
    rng = np.random.default_rng(0)
    tensor = rng.uniform(0, 1, (7, 6, 4))
    tensor[rng.random(tensor.shape) < 0.3] = np.nan
    where = np.argwhere(~np.isnan(tensor))
    values = tensor[tuple(where.T)]
    model = make(value_bounds=(0, 1), shape=(7, 6, 4))
    one = clone(model).fit(where, values)
    two = clone(model).fit_batches(
        zip(np.array_split(where, 5), np.array_split(values, 5), strict=True)
    )
    dense = clone(model).fit(tensor)
    for other in (two, dense):
        for a, b in zip(one.factors_, other.factors_, strict=True):
            np.testing.assert_array_equal(a, b)
    assert dense.transform(tensor).shape == tensor.shape


def test_two_fits_never_share_their_noise(ratings):
    for random_state in (None, 0):
        model = make(levels=ratings.levels, random_state=random_state)
        first = model.fit(ratings.data, ratings.target).factors_[0]
        second = model.fit(ratings.data, ratings.target).factors_[0]
        assert not np.array_equal(first, second)


def test_no_sum_survives_without_its_noise(ratings):
    """No exact sum or mean of a row is in the object, as a double."""
    model = make(levels=ratings.levels, random_state=None)
    stored = pickle.dumps(model.fit(ratings.data, ratings.target))
    sums = np.bincount(ratings.data[:, 0], ratings.target - 2.75)
    counts = np.bincount(ratings.data[:, 0])
    # Those that no level, bound or count could be by chance.
    means = (sums / np.maximum(counts, 1))[counts > 20]
    for exact in (sums[np.abs(sums) > 6], means[means % 0.5 != 0]):
        assert len(exact) > 100
        assert not any(value.tobytes() in stored for value in exact)
    assert (model.factors_[0].ravel()[0]).tobytes() in stored


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"biases": False}, "nothing to fit|determine biases"),
        ({"smooth_modes": [1]}, "no smooth modes"),
        ({"smooth_modes": [7]}, "numbers of modes"),
        ({"epsilon": 1e-12}, "too small to be represented"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_drawn(
    params, message, ratings, monkeypatch
):
    def draw(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(_random.NoiseSource, "stream", draw)
    with pytest.raises(ValueError, match=message):
        make(levels=ratings.levels, **params).fit(ratings.data, ratings.target)


def test_what_sums_do_not_give_is_refused(ratings):
    model = make(levels=ratings.levels).fit(ratings.data, ratings.target)
    before = model.privacy_guarantee_
    with pytest.raises(ValueError, match="standard deviations"):
        model.predict(ratings.data, return_std=True)
    with pytest.raises(AttributeError, match="partial_fit"):
        model.partial_fit(ratings.data, ratings.target)
    with pytest.raises(AttributeError, match="partial_fit"):
        model.set_params(perturbation="input").partial_fit(ratings.data, ratings.target)
    assert model.privacy_guarantee_ == before


def test_a_range_read_off_the_values_voids_the_guarantee(ratings):
    with pytest.warns(UserWarning, match="read off the private values"):
        model = make().fit(ratings.data, ratings.target)
    assert model.privacy_guarantee_.epsilon == math.inf
    assert model.privacy_guarantee_.claimed == (1.0, 0.0)


def test_no_noise_protects_nothing(ratings):
    model = make(epsilon=math.inf, levels=ratings.levels)
    model.fit(ratings.data, ratings.target)
    assert model.privacy_guarantee_.epsilon == math.inf
