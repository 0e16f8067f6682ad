"""Expected errors of a completion, beside Gaussian conditioning row by row."""

import numpy as np
import pytest

from sktensordp.completion import CPCompletion
from tests.support.seams import Entries, Expectation, Problem, Variances

SHAPE = (6, 5, 3)
OF = Variances(bias=0.1, first_bias=0.2, interaction=0.05, weights=0.0, residual=0.15)
BIASES = (0.2, 0.1, 0.1)


def expectation_of(variances=OF, n_features=0):
    rng = np.random.default_rng(0)
    where = np.column_stack([rng.integers(0, size, 40) for size in SHAPE])
    features = rng.standard_normal((SHAPE[1], n_features))
    declared = {"side_information": {1: features}} if n_features else {}
    model = CPCompletion(
        2, shape=SHAPE, value_bounds=(0, 1), n_pattern_components=0, **declared
    )
    entries = Entries(where.astype(np.int32), None, SHAPE)
    counts = [np.bincount(column, minlength=6) for column in where.T]
    return Expectation(Problem.from_estimator(model, SHAPE, entries), variances), counts


def left(prior, covariance, variance):
    """Variance of a normal number that is known with another one."""
    return prior - covariance**2 / variance


@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_the_error_of_biases_from_sums_is_what_is_left_of_them(noise):
    """A row's sum has its bias, residuals, what no bias explains, and noise."""
    expectation, counts = expectation_of()
    expected = OF.interaction
    for prior, n in zip(BIASES, counts, strict=True):
        n = n[n > 0]
        variance = n**2 * prior + n * (OF.residual + OF.interaction) + noise
        expected += n @ left(prior, n * prior, variance) / n.sum()
    assert expectation.of_sums(noise) == pytest.approx(expected)


@pytest.mark.parametrize("n_features", [0, 2])
def test_the_error_of_shared_sums_is_what_is_left_of_them(n_features):
    """Users' rows follow from values; items' sums hold the biases of users, too."""
    variances = Variances(0.1, 0.2, 0.05, 0.03 * (n_features > 0), 0.15)
    expectation, counts = expectation_of(variances, n_features=n_features)
    counts = [n[n > 0] for n in counts]
    users, *others = counts
    around = 0.15 + 0.05
    expected = 0.05 + users @ left(0.2, 0.2, 0.2 + around / users) / users.sum()
    for n in others:
        variance = n**2 * 0.1 + n * (around + variances.weights + 0.2) + 3.0
        expected += n @ left(0.1, n * 0.1, variance) / n.sum()
    if n_features:
        of_weights = around / (users / n_features)
        expected += users @ left(0.03, 0.03, 0.03 + of_weights) / users.sum()
    assert expectation.of_shared_sums(3.0) == pytest.approx(expected)


def test_the_error_of_weights_from_sums_is_what_is_left_of_them():
    """Of two features, each of which gets half of the entries of a user."""
    variances = Variances(0.1, 0.2, 0.05, 0.03, 0.15)
    expectation, counts = expectation_of(variances, n_features=2)
    around = 0.15 + 0.05
    expected = 0.05
    for prior, n in zip(BIASES, counts, strict=True):
        n = n[n > 0]
        variance = n**2 * prior + n * (around + 0.03) + 3.0
        expected += n @ left(prior, n * prior, variance) / n.sum()
    n = counts[0][counts[0] > 0]
    of_weights = n / 2
    variance = of_weights**2 * 0.03 + of_weights * around + 4.0
    expected += n @ left(0.03, of_weights * 0.03, variance) / n.sum()
    assert expectation.of_sums(3.0, 4.0) == pytest.approx(expected)
    # Weights that are not released stay unknown.
    unknown = expectation.of_sums(3.0) - expectation.of_sums(3.0, 1e12)
    assert unknown == pytest.approx(0, abs=1e-9)


def test_the_error_of_values_of_biases_alone():
    """The mean of a row's values has its bias, residuals and noise."""
    alone = Variances(0.1, 0.2, 0.0, 0.0, 0.15)
    expectation, counts = expectation_of(alone)
    expected = 0.0
    for prior, n in zip(BIASES, counts, strict=True):
        n = n[n > 0]
        expected += n @ left(prior, prior, prior + (0.15 + 0.7) / n) / n.sum()
    assert expectation.of_values(0.7) == pytest.approx(expected)


def test_terms_add_up_to_the_variance_of_the_values():
    """In half ranges: of a mode more than two, there is one more bias."""
    expectation, _ = expectation_of()
    for variance, total in ((0.01, 0.04), (None, 0.22)):
        found = Variances.of_values(expectation.problem, 0, variance)
        whole = 2 * found.bias + found.first_bias + found.interaction + found.residual
        assert whole + found.weights == pytest.approx(total)
        assert found.residual / found.interaction == pytest.approx(0.15 / 0.045)
