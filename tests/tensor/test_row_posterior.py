"""Rows from noisy weighted sums: the posterior, and how the prior is learned."""

import numpy as np
import pytest

from sktensordp.tensor import row_posterior


def problem(n_rows, noise, width, seed=0, n_entries=30, n_columns=3):
    """Rows with sums of their values, weighted by vectors of their own."""
    rng = np.random.default_rng(seed)
    rows = width * rng.standard_normal((n_rows, n_columns))
    h = rng.standard_normal((n_rows, n_entries, n_columns))
    q = h @ rng.standard_normal((n_columns, n_columns))
    values = np.einsum("iec,ic->ie", h, rows) + 0.5 * rng.standard_normal(h.shape[:2])
    sums = np.einsum("iec,ie->ic", q, values)
    sums += noise * rng.standard_normal(sums.shape)
    design = np.einsum("iea,ieb->iab", q, h)
    return rows, sums, design, np.einsum("iea,ieb->iab", q, q)


@pytest.mark.parametrize("noise", [0.0, 3.0, 30.0])
@pytest.mark.parametrize("width", [0.3, 1.0])
def test_error_is_that_of_the_posterior_with_the_true_prior(noise, width):
    rows, sums, design, weights = problem(3000, noise, width)
    found = row_posterior(sums, design, weights, np.full(3000, noise**2), 0.25)
    covariance = 0.25 * weights + noise**2 * np.eye(3)
    gain = np.linalg.solve(covariance, design)
    precision = np.einsum("iab,iac->ibc", design, gain) + np.eye(3) / width**2
    shift = np.einsum("iab,ia->ib", gain, sums)
    best = np.linalg.solve(precision, shift[:, :, np.newaxis])[:, :, 0]
    error, least = (np.mean((f - rows) ** 2) for f in (found, best))
    assert error < 1.03 * least
    if noise == 0:
        np.testing.assert_allclose(found, best, atol=0.02)


def test_noise_alone_is_shrunk_to_nothing():
    rng = np.random.default_rng(0)
    _, _, design, weights = problem(2000, 0.0, 1.0)
    sums = 50 * rng.standard_normal((2000, 3))
    found = row_posterior(sums, design, weights, np.full(2000, 2500.0), 0.25)
    assert np.sqrt(np.mean(found**2)) < 0.03
    # Were the noise thought to be half as large, it would be taken for rows.
    naive = row_posterior(sums, design, weights, np.full(2000, 625.0), 0.25)
    assert np.sqrt(np.mean(naive**2)) > 0.3


def test_rows_without_values_are_zero():
    _, sums, design, weights = problem(50, 1.0, 1.0)
    sums[7], design[7], weights[7] = 5.0, 0.0, 0.0
    found = row_posterior(sums, design, weights, np.ones(50), 0.25)
    np.testing.assert_array_equal(found[7], 0.0)
    assert np.all(found[8] != 0)
    nothing = row_posterior(sums, 0 * design, 0 * weights, np.ones(50), 0.25)
    np.testing.assert_array_equal(nothing, 0.0)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_a_row_does_not_matter(unit):
    """Sums in other units, with their weights and their noise."""
    _, sums, design, weights = problem(200, 3.0, 1.0)
    noise = np.full(200, 9.0)
    factor = np.where(np.arange(200) % 2, unit, 1.0)
    found = row_posterior(
        sums * factor[:, None], design * factor[:, None, None],
        weights * factor[:, None, None] ** 2, noise * factor**2, 0.25,
    )  # fmt: skip
    expected = row_posterior(sums, design, weights, noise, 0.25)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
