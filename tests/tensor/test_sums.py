"""Biases from noisy sums of rows, beside dense matrices of small tensors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sktensordp.tensor import fit_biases_to_sums
from tests.support.seams import (
    OWN_BIAS_VARIANCE,
    _most_likely_variances,
    _Prior,
    shared_entries,
)

SHAPE = (5, 4, 3)
RESIDUAL, NOISE, SCALE = 0.2, 0.5, 1.5


def entries(n=30):
    """Coordinates, and which rows of all modes each entry is in."""
    rng = np.random.default_rng(0)
    where = np.column_stack([rng.integers(0, size, n) for size in SHAPE])
    blocks = [np.eye(size)[column] for size, column in zip(SHAPE, where.T, strict=True)]
    return where, np.concatenate(blocks, axis=1)


def test_shared_entries_act_as_the_matrix_of_their_numbers():
    where, incidence = entries()
    gram, matrix = shared_entries(where, SHAPE), incidence.T @ incidence
    assert_allclose(gram.diagonal(), np.diag(matrix))
    vectors = np.random.default_rng(1).standard_normal((12, 2))
    assert_allclose(gram @ vectors, matrix @ vectors)
    assert_allclose(gram @ vectors[:, 0], matrix @ vectors[:, 0])


@pytest.mark.parametrize("n_without", [0, SHAPE[0]])
@pytest.mark.parametrize("n_features", [0, 2])
def test_biases_are_posterior_means_given_the_sums(n_features, n_without):
    """By the covariance of sums and biases; the offset is anywhere in the range.

    Without the sums of the first mode, too.
    """
    rng = np.random.default_rng(2)
    where, incidence = entries()
    gram = incidence.T @ incidence
    variances = np.repeat([0.3, 0.1, 0.05], SHAPE)
    features = np.zeros((12, n_features))
    features[5:9] = rng.standard_normal((4, n_features))
    of_offset, of_weights = SCALE**2 / 3, 0.1 * SCALE**2
    prior = np.diag(variances) + of_weights * features @ features.T
    counts = np.diag(gram)
    covariance = gram @ prior @ gram + RESIDUAL * gram + NOISE * np.eye(12)
    covariance += of_offset * np.outer(counts, counts)
    sums, has_sum = 5 * rng.standard_normal(12), np.arange(12) >= n_without
    sums[~has_sum], solution = 0.0, np.zeros(12)
    given = np.ix_(has_sum, has_sum)
    solution[has_sum] = np.linalg.solve(covariance[given], sums[has_sum])
    found = _Prior(features, variances, SCALE, has_sum).posterior(
        shared_entries(where, SHAPE), sums, RESIDUAL, NOISE, None
    )
    _, offset, weights, biases = found
    largest = np.abs(prior @ gram @ solution).max()
    assert offset == pytest.approx(of_offset * counts @ solution, abs=1e-4)
    assert_allclose(weights, of_weights * features.T @ gram @ solution, atol=1e-4)
    assert_allclose(biases, prior @ gram @ solution, atol=1e-4 * max(largest, 1))


def test_variances_are_those_of_the_sums():
    """Of many rows with 1 to 80 entries, with what is known beside them."""
    rng, n = np.random.default_rng(3), 20_000
    counts, known = rng.integers(1, 80, n).astype(float), rng.uniform(0, 2, n)
    truth = np.array([0.04, 0.7])
    deviations = np.sqrt(truth[0] * counts**2 + truth[1] * counts + known)
    rest = deviations * rng.standard_normal(n)
    start = np.log([0.3, 0.3])
    found = _most_likely_variances(rest, counts, known, start, start)
    # Over 20 seeds, standard deviations are .024 and .050 of the truth.
    assert_allclose(found, truth, rtol=0.2)
    # Or that of the bias alone, if the other is known.
    known = known + truth[1] * counts
    found = _most_likely_variances(rest, counts, known, start[:1], start[:1])
    assert_allclose(found, truth[:1], rtol=0.2)


def test_rows_without_sums_are_those_of_the_average():
    """Sums of items determine items; biases of users have the prior that is stated."""
    rng = np.random.default_rng(4)
    shape, n = (300, 40), 6000
    where = np.column_stack([rng.integers(0, size, n) for size in shape])
    users, items = rng.normal(0, 0.5, 300), rng.normal(0, 0.3, 40)
    values = 0.7 + users[where[:, 0]] + items[where[:, 1]] + rng.normal(0, 0.4, n)
    sums = np.bincount(where[:, 1], values, 40)
    offset, model = fit_biases_to_sums(
        shared_entries(where, shape), sums, 1e-3, shape, SCALE, first_has_sums=False
    )
    assert not model.means[0][:, 0].any()
    assert not model.unknown[0, 0]
    assert 1 / model.precision[0, 0] == pytest.approx(OWN_BIAS_VARIANCE * SCALE**2)
    assert offset == pytest.approx(values.mean(), abs=0.02)
    centred = items - np.bincount(where[:, 1], minlength=40) @ items / n
    # An item has 150 values, whose deviation is .64 with users' biases.
    assert_allclose(model.means[1][:, 1], centred, atol=5 * 0.64 / 150**0.5)
    assert np.corrcoef(model.means[1][:, 1], centred)[0, 1] > 0.95
