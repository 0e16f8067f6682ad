"""Linear algebra of stacks of small matrices, beside NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.support.seams import STACK, factorise, invert, solve


def stack_of(matrices):
    """Upper triangles of matrices, NaN below, with the number of the matrix last."""
    upper = np.where(np.tri(matrices.shape[1], k=-1, dtype=bool), np.nan, matrices)
    return np.ascontiguousarray(upper.transpose(1, 2, 0))


def solved(matrices, shifts, prior):
    """Solutions, and upper triangles of inverses."""
    stack, x = stack_of(matrices), shifts.T.copy()
    factorise(stack, prior)
    solve(stack, x)
    invert(stack)
    return x.T, stack.transpose(2, 0, 1)


def problem(n, seed=0):
    rng = np.random.default_rng(seed)
    design = rng.standard_normal((STACK, n + 3, n))
    prior = rng.uniform(0.5, 2, n)
    matrices = design.transpose(0, 2, 1) @ design + np.diag(prior)
    return matrices, rng.standard_normal((STACK, n)), prior


@pytest.mark.parametrize("n", [0, 1, 2, 7, 20])
def test_solutions_and_inverses_are_those_of_numpy(n):
    matrices, shifts, prior = problem(n)
    solutions, inverses = solved(matrices, shifts, prior)
    expected = np.linalg.inv(matrices)
    pairs = np.triu_indices(n)
    assert_allclose(inverses[:, *pairs], expected[:, *pairs], rtol=1e-9, atol=1e-12)
    expected = np.linalg.solve(matrices, shifts[..., np.newaxis])[..., 0]
    assert_allclose(solutions, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("place", [0, 1, STACK - 1])
def test_a_matrix_does_not_depend_on_its_stack(place):
    """Not on the others, which are infinite or undefined here, and not on its place."""
    matrices, shifts, prior = problem(6)
    expected = solved(matrices, shifts, prior)
    others = np.full_like(matrices, np.nan), np.full_like(shifts, np.inf)
    for other, own in zip(others, (matrices, shifts), strict=True):
        other[place] = own[5]
    for found, all_expected in zip(solved(*others, prior), expected, strict=True):
        assert_array_equal(found[place], all_expected[5])


@pytest.mark.parametrize("excess", [0.0, -1e-9, 1e-9])
def test_no_pivot_is_less_than_its_prior(excess):
    """A Gram matrix that rounding has left singular, or not even positive."""
    prior = np.array([20.0, 2.0])
    matrix = 1e12 * np.array([[1.0, 1.0], [1.0, 1.0 + excess]]) + np.diag(prior)
    factors = stack_of(np.repeat(matrix[np.newaxis], STACK, axis=0))
    factorise(factors, prior)
    pivots = 1 / np.einsum("aak->ka", factors)
    assert np.all(pivots**2 >= prior * (1 - 1e-12))
