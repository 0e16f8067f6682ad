"""The variance around a model, from randomised values: each part by its formula."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import laplace, norm

from sktensordp.completion import CPCompletion
from tests.support.seams import (
    E_FOLDS,
    _least,
    _most_likely,
    _restated,
    _squared_distances,
    level_table,
)

LIMITS = (1e-4, 50.0)


def biased_values(seed, residual=0.4, shape=(40, 25), n=700):
    """Values of rows and columns that differ, around which they vary."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, size, n) for size in shape])
    biases = [0.5 * rng.normal(size=size) for size in shape]
    y = sum(own[index] for own, index in zip(biases, X.T, strict=True))
    return X, y + residual * rng.normal(size=n)


def fitted(X, y, epsilon, **domain):
    model = CPCompletion(
        0, epsilon=epsilon, perturbation="input", shape=(40, 25), max_iter=6,
        n_pattern_components=0, random_state=0, **domain,
    )  # fmt: skip
    return model.fit(X, y)


def test_values_without_noise_tell_it_by_leaving_each_out():
    """Over 20 seeds .136 to .180 of .16, and .117 to .146 with each in its own fit."""
    X, y = biased_values(0)
    found = fitted(X, 1 + y, math.inf, value_bounds=(-3, 5)).residual_variance_
    assert found == pytest.approx(0.4**2, rel=0.15)


def test_values_with_laplace_noise_tell_it_in_any_unit():
    """Although its variance is six times as large. Over 20 seeds, .116 to .167."""
    X, y = biased_values(0, n=4000)
    found = [
        fitted(X, scale * (1 + y), 110.0, value_bounds=(-50 * scale, 50 * scale))
        for scale in (1, 128)
    ]
    one, other = (model.residual_variance_ for model in found)
    assert one == pytest.approx(0.4**2, rel=0.3)
    assert found[0].model_variance_ > 5 * one
    assert other == pytest.approx(128**2 * one, rel=1e-3)


def test_randomised_levels_tell_it():
    """Although most of the variance of what was randomised is noise."""
    X, y = biased_values(0, n=4000)
    levels = np.linspace(-3, 3, 7)
    y = levels[np.clip(np.rint(y + 3), 0, 6).astype(int)]
    model = fitted(X, y, 4.0, levels=levels)
    # Rounding to levels adds about a twelfth. Over 20 seeds, .247 to .308.
    assert model.residual_variance_ == pytest.approx(0.4**2 + 1 / 12, rel=0.3)
    assert model.model_variance_ > 0.3


def test_squared_distances_of_randomised_levels_are_unbiased():
    """Their expectation over the outputs of a table, at every level."""
    table = level_table((1.0, 2.0, 3.0, 5.0), 1.0)
    x, ranks = np.array(table.levels), np.argsort(np.argsort(table.outputs))
    for mean in (-1.0, 2.3, 6.0):
        means = np.full(len(ranks), mean)
        squares = _squared_distances(table, ranks, means)
        expected = (x - mean) ** 2
        assert_allclose(table.probabilities @ squares, expected, atol=1e-9)


@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_the_variance_under_laplace_noise_is_the_most_likely(scale):
    """By a sum over the noise, with the prior, for every variance of a grid."""
    rng = np.random.default_rng(0)
    variance, usual = rng.uniform(0, 0.3, 40), 0.2
    distance = rng.normal(size=40) * np.sqrt(variance + 0.5)
    distance += rng.laplace(scale=scale, size=40)
    noise = np.linspace(-12, 12, 601) * scale
    weights = laplace.pdf(noise, scale=scale)
    logs = np.linspace(math.log(0.02), math.log(5), 61)
    costs = []
    for log in logs:
        deviations = np.sqrt(variance + math.exp(log))
        z = (distance[:, np.newaxis] - noise) / deviations[:, np.newaxis]
        density = norm.pdf(z) @ weights / deviations
        of_prior = ((log - math.log(usual)) / E_FOLDS) ** 2 / 2
        costs.append(of_prior - np.log(density).sum())
    assert 3 < np.argmin(costs) < 57
    found = _most_likely(scale, distance, variance, usual, LIMITS)
    # To the tolerance of either search.
    assert math.log(found) == pytest.approx(logs[np.argmin(costs)], abs=0.08)


def test_an_estimate_is_drawn_to_the_usual_variance_by_its_error():
    """The mean of two normal distributions of the logarithm, by their precisions."""
    centre, spread, usual = math.log(3.0), 0.7, 0.5

    def cost(log):
        return ((log - centre) / spread) ** 2 / 2

    found = _least(cost, usual, LIMITS, 1e-9)
    weights = np.array([spread, E_FOLDS]) ** -2.0
    expected = weights @ [centre, math.log(usual)] / weights.sum()
    assert math.log(found) == pytest.approx(expected, abs=1e-6)


@dataclass(frozen=True)
class Noise:
    noise: float
    stated_weights: np.ndarray | None = None


def test_stated_noise_keeps_the_shares_of_rows():
    """Of what is not known of the noise."""
    before, known = 0.2, 0.9
    model = Noise(0.5, 0.5 / np.array([0.4, 0.5, 0.8]))
    found = _restated(model, before, known, 1.5)
    shares = (model.noise / model.stated_weights - before) / (0.5 - before)
    again = (found.noise / found.stated_weights - known) / (1.5 - known)
    assert found.noise == 1.5
    assert_allclose(again, shares)
    assert _restated(Noise(0.5), before, known, 1.5) == Noise(1.5)
    # It is no less than what is known.
    assert _restated(Noise(0.5), before, known, 0.1) == Noise(0.9)
