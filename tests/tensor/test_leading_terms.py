"""Leading terms of residuals, beside dense singular value decompositions."""

import numpy as np
import pytest
from scipy import sparse

from tests.support.seams import (
    LocalMatrix,
    leading_terms,
    leading_vectors,
)


def counts_of(matrix):
    """Number of entries of every row and every column of a sparse array."""
    columns = np.bincount(matrix.indices, minlength=matrix.shape[1])
    return [np.diff(matrix.indptr), columns]


def residuals(shape, rank, share, seed=0, strength=1.0):
    """Entries of a matrix of low rank with noise of variance one."""
    rng = np.random.default_rng(seed)
    signal = strength * rng.standard_normal((shape[0], rank))
    signal = signal @ rng.standard_normal((rank, shape[1]))
    values = signal + rng.standard_normal(shape)
    matrix = sparse.csr_array(np.where(rng.random(shape) < share, values, 0.0))
    return LocalMatrix(matrix, counts_of(matrix)), signal


def test_terms_are_the_leading_singular_vectors_of_the_scaled_residuals():
    found, _ = residuals((60, 40), 3, 0.5)
    rows = leading_terms(found, 3)
    weights = [1 / np.sqrt(n + n.mean()) for n in found.counts]
    scaled = weights[0][:, np.newaxis] * found.matrix.toarray() * weights[1]
    left, values, right = np.linalg.svd(scaled, full_matrices=False)
    best = (left[:, :3] * values[:3]) @ right[:3]
    best = weights[0][:, np.newaxis] * best * weights[1] * found.matrix.nnz
    np.testing.assert_allclose(rows[0] @ rows[1].T, best, atol=1e-6 * best.max())
    squares = [np.sum(each**2, axis=0) for each in rows]
    assert np.all(np.diff(squares[0] * squares[1]) < 0)


def test_no_more_terms_than_the_matrix_has():
    found, _ = residuals((5, 3), 1, 0.9)
    rows = leading_terms(found, 6)
    assert [each.shape for each in rows] == [(5, 6), (3, 6)]
    assert np.isfinite(rows[0]).all()
    assert not rows[1][:, 3:].any()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rank", [1, 3])
def test_structure_stands_out_and_noise_does_not(rank, seed):
    rows = leading_terms(residuals((200, 150), rank, 0.5, seed)[0], 8, stand_out=True)
    assert [each.shape for each in rows] == [(200, rank), (150, rank)]
    noise = residuals((200, 150), rank, 0.5, seed, strength=0.0)[0]
    assert leading_terms(noise, 8, stand_out=True)[0].shape == (200, 0)


def test_rows_without_entries_have_zeros():
    found, _ = residuals((30, 20), 1, 0.5)
    matrix = sparse.csr_array(np.pad(found.matrix.toarray(), ((0, 1), (0, 2))))
    rows = leading_terms(LocalMatrix(matrix, counts_of(matrix)), 2)
    assert np.abs(rows[0][-1]).max() < 1e-9
    assert np.abs(rows[1][-2:]).max() < 1e-9


@pytest.mark.parametrize("rank", [0, 3, 40])
@pytest.mark.parametrize("size", [5, 25, 117])
def test_leading_vectors_are_orthonormal_and_those_of_a_decomposition(size, rank):
    """Also where passes find nothing new, or fill the whole space."""
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(150, rank)) @ rng.normal(size=(rank, size))
    n = min(size, 20)
    values, vectors = leading_vectors(
        lambda x: matrix.T @ (matrix @ x), size, n, n_vectors=10, n_passes=12
    )
    exact = np.linalg.svd(matrix, compute_uv=False)[:n]
    # A value of zero is the root of a rounding error.
    np.testing.assert_allclose(values, exact, atol=1e-6 * max(exact[0], 1), rtol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n), atol=1e-12)


def test_rows_without_entries_change_no_term():
    """The typical number of entries is that of rows that have any."""
    found, _ = residuals((30, 20), 2, 0.5)
    rows = leading_terms(found, 2)
    matrix = sparse.csr_array(np.pad(found.matrix.toarray(), ((0, 40), (0, 50))))
    more = leading_terms(LocalMatrix(matrix, counts_of(matrix)), 2)
    terms = rows[0] @ rows[1].T
    largest = np.abs(terms).max()
    np.testing.assert_allclose(
        more[0][:30] @ more[1][:20].T, terms, atol=1e-6 * largest
    )
