"""Mode products against einsum and TensorLy; columns of packed matrices."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tensorly.tenalg import multi_mode_dot

from sktensordp.tensor import mode_products

SHAPES = [(5,), (3, 4), (2, 5, 3), (3, 2, 4, 2), (1, 4), (4, 1), (3, 1, 1), (1, 1, 1)]


def naive(tensors, matrices):
    for axis, matrix in enumerate(matrices, start=1):
        if matrix is not None:
            moved = np.einsum("ji,...i->...j", matrix, np.moveaxis(tensors, axis, -1))
            tensors = np.moveaxis(moved, -1, axis)
    return tensors


def close(found, expected):
    assert found.shape == expected.shape
    assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def random_case(shape, n_tensors=3):
    """A batch of tensors and, for every mode, a matrix with 1, as many or more rows."""
    rng = np.random.default_rng(0)
    rows = [(1, size, size + 2)[(k + len(shape)) % 3] for k, size in enumerate(shape)]
    matrices = [rng.normal(size=(j, i)) for j, i in zip(rows, shape, strict=True)]
    return rng.normal(size=(n_tensors, *shape)), matrices


@pytest.mark.parametrize("shape", SHAPES)
def test_every_choice_of_modes(shape):
    tensors, matrices = random_case(shape)
    given = tensors.copy()
    for chosen in itertools.product((True, False), repeat=len(shape)):
        some = [m if c else None for m, c in zip(matrices, chosen, strict=True)]
        found = mode_products(tensors, some)
        close(found, naive(tensors, some))
        modes = np.flatnonzero(chosen).tolist()
        for tensor, product in zip(tensors, found, strict=True):
            close(product, multi_mode_dot(tensor, [some[k] for k in modes], modes))
    assert_array_equal(tensors, given)


@pytest.mark.parametrize("n_modes", [1, 3])
def test_no_matrix(n_modes):
    tensors, _ = random_case((2, 3, 4)[:n_modes])
    assert mode_products(tensors, [None] * n_modes) is tensors


@pytest.mark.parametrize("shape", SHAPES)
def test_not_contiguous(shape):
    tensors, matrices = random_case(shape)
    expected = mode_products(tensors, matrices)
    backwards = [m[::-1, ::-1] for m in matrices]
    flipped = tensors[(slice(None), *[slice(None, None, -1)] * len(shape))]
    found = mode_products(flipped, backwards)
    close(found[(slice(None), *[slice(None, None, -1)] * len(shape))], expected)
    close(mode_products(np.asfortranarray(tensors), matrices), expected)
    close(mode_products(np.repeat(tensors, 2, axis=0)[::2], matrices), expected)
    columns = [np.asfortranarray(m) for m in matrices]
    close(mode_products(tensors, columns), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_tensors(shape):
    tensors, matrices = random_case(shape, n_tensors=0)
    found = mode_products(tensors, matrices)
    assert found.shape == (0, *[len(m) for m in matrices])


def test_types():
    tensors, matrices = random_case((2, 5, 3))
    single = [m.astype(np.float32) for m in matrices]
    found = mode_products(tensors.astype(np.float32), single)
    assert found.dtype == np.float32
    assert_allclose(found, mode_products(tensors, matrices), rtol=1e-4, atol=1e-4)
    read_only = tensors.copy()
    read_only.flags.writeable = False
    close(mode_products(read_only, matrices), naive(tensors, matrices))
