"""Observations in place of values that a table has randomised."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_less

from sktensordp.tensor import (
    Observations,
    TableLikelihood,
    fit_cp,
    fit_tucker,
    rescaled,
)
from tests.support.seams import Domain, plan_entry_randomizer

pytestmark = pytest.mark.thorough
LEVELS = np.arange(0.5, 5.5, 0.5)
BOUNDS = (0.5, 5.0)


def randomizer(epsilon):
    return plan_entry_randomizer(epsilon, Domain(BOUNDS, tuple(LEVELS)))


def channel_of(randomizer):
    table = randomizer.mechanism
    order = np.argsort(table.outputs)
    return table.probabilities[:, order], np.array(table.outputs)[order]


def tilted(weights, mean):
    """Probabilities of the levels with a given mean: weights times an exponential."""
    low, high = -60.0, 60.0
    for _ in range(100):
        tilt = (low + high) / 2
        p = weights * np.exp(tilt * (LEVELS - mean))
        p /= p.sum()
        low, high = (tilt, high) if p @ LEVELS < mean else (low, tilt)
    return p


# Three of ten levels are rare, as half stars are.
WEIGHTS = np.array([2, 3, 1, 6, 2, 9, 5, 9, 2, 4.0])


@functools.cache
def learned(epsilon, n_rounds=400):
    """A likelihood that has learned from exact expectations of counts."""
    plan = randomizer(epsilon)
    likelihood = plan.likelihood(0.0, 1.0)
    channel, _ = channel_of(plan)
    fitted = np.linspace(0.75, 4.75, 30)
    counts = 0.0
    for mean in fitted:
        met = tilted(WEIGHTS, mean) @ channel
        for output, probability in enumerate(met):
            here = np.array([mean]), np.array([output], np.uint8)
            counts = counts + probability * likelihood.observe(*here)[1]
    for _ in range(n_rounds):
        likelihood.update_weights(1e4 * counts)
    return likelihood, channel


def observations(likelihood, mean, n_outputs):
    outputs = np.arange(n_outputs, dtype=np.uint8)
    return likelihood.observe(np.full(n_outputs, mean), outputs)[0]


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_an_observation_is_proportional_to_the_score(epsilon):
    likelihood, channel = learned(epsilon)
    for mean in (1.3, 2.6, 3.4, 4.1):
        z = observations(likelihood, mean, channel.shape[1])
        step = 1e-4
        below, at, above = (
            tilted(WEIGHTS, mean + k * step) @ channel for k in (-1, 0, 1)
        )
        score = (above - below) / (2 * step) / at
        # A step along the score whose length does not depend on the output.
        ratio = (z - mean) @ (at * score) / (score @ (at * score))
        assert_allclose(z - mean, ratio * score, atol=0.03 * np.abs(z - mean).max())


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_observations_are_unbiased_and_vary_less_than_outputs(epsilon):
    likelihood, channel = learned(epsilon)
    _, outputs = channel_of(randomizer(epsilon))
    means = np.linspace(1.2, 4.2, 13)
    variances = []
    for mean in means:
        levels = tilted(WEIGHTS, mean)
        met = levels @ channel
        z = observations(likelihood, mean, channel.shape[1])
        assert_allclose(met @ z, mean, atol=0.02)
        variances.append((met @ (z - mean) ** 2, met @ (outputs - mean) ** 2))
    of_z, of_outputs = np.mean(variances, axis=0)
    assert of_z < (0.97 if epsilon > 3 else 0.9) * of_outputs


def test_the_known_share_is_what_the_table_causes():
    for epsilon in (1.0, 4.0):
        likelihood, channel = learned(epsilon)
        total = raw = 0.0
        for mean in np.linspace(0.75, 4.75, 30):
            levels = tilted(WEIGHTS, mean)
            z = observations(likelihood, mean, channel.shape[1])
            total += levels @ channel @ (z - mean) ** 2
            raw += levels @ (LEVELS - mean) ** 2
        assert_allclose(likelihood.known_share, 1 - raw / total, atol=0.02)


def test_without_noise_an_observation_is_the_level():
    likelihood = TableLikelihood(LEVELS, np.eye(len(LEVELS)))
    assert likelihood.known_share is None
    z = observations(likelihood, 3.1, len(LEVELS))
    assert_allclose(z, LEVELS, atol=1e-6)
    assert_allclose(likelihood.expected_noise(0.5), 0.0, atol=1e-6)


def test_predictions_outside_the_grid_are_taken_as_its_ends():
    likelihood = randomizer(2.0).likelihood(0.0, 1.0)
    n = channel_of(randomizer(2.0))[0].shape[1]
    for beyond, end in ((-7.0, 0.5 + 0.04 * 4.5), (11.0, 5.0 - 0.04 * 4.5)):
        here = observations(likelihood, beyond, n)
        assert_allclose(here, observations(likelihood, end, n), atol=1e-6)


def test_expected_noise_is_less_than_that_of_the_table():
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        plan = randomizer(epsilon)
        least, table = plan.noise_around(0.6), np.mean(plan.mechanism.level_variances)
        assert 0.4 * table < least < 0.9 * table


@pytest.mark.parametrize("epsilon", [1e-8, 1e-6, 1e-3])
def test_expected_noise_at_the_smallest_epsilons(epsilon):
    """The share of the levels is then too small to be one less another number."""
    plan = randomizer(epsilon)
    ratio = plan.noise_around(0.6) / np.mean(plan.mechanism.level_variances)
    assert 0.5 < ratio < 2


def ratings(epsilon, seed=0, n=9_000, shape=(150, 120)):
    """Coordinates, means, and randomised values of ratings of rank 2."""
    rng = np.random.default_rng(seed)
    where = np.unique(rng.integers(0, shape, (n, 2)), axis=0)
    factors = [rng.normal(size=(size, 2)) for size in shape]
    means = 2.9 + 0.6 * np.einsum(
        "nr,nr->n", *(f[c] for f, c in zip(factors, where.T, strict=True))
    )
    noisy = means + 0.6 * rng.normal(size=len(means))
    level = np.clip(np.rint(2 * noisy), 1, 10).astype(int) - 1
    plan = randomizer(epsilon)
    channel, outputs = channel_of(plan)
    ends = np.cumsum(channel[level], axis=1)
    symbol = (ends < rng.random((len(level), 1))).sum(axis=1)
    return where.astype(np.int32), means, outputs[symbol], plan


def fitted(kind, where, values, plan, likelihood):
    """A model of rank two, from which predictions less the offset are taken."""
    drawn = np.searchsorted(plan.outputs, values)
    entries = Observations.from_arrays(where, (values - 2.9) / 2.25, None, drawn)
    fit, size = fit_cp, {"rank": 2}
    if kind == "tucker":
        fit, size = fit_tucker, {"ranks": (2, 2)}
    rows, _ = fit(
        entries, **size, biases=True, noise_floor=plan.noise_variance / 2.25**2,
        max_iter=20, likelihood=likelihood,
    )  # fmt: skip
    return rescaled(rows, 2.25)


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_a_fit_to_observations_has_less_error(kind):
    """Errors at epsilon 2: 0.82 to 0.92 of those of a fit to the outputs."""
    ratios = []
    for seed in range(2):
        where, means, values, plan = ratings(2.0, seed)
        errors = []
        for likelihood in (plan.likelihood(2.9, 2.25), None):
            model = fitted(kind, where, values, plan, likelihood)
            errors.append(np.mean((2.9 + model.predict(where) - means) ** 2))
        ratios.append(errors[0] / errors[1])
    assert_array_less(ratios, 0.95)
