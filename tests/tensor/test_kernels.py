"""Groupings, sums and row solutions against slow references."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.tensor import DenseEntries, SparseEntries, group_by_mode
from sktensordp.tensor._algebra import diagonal, packed_squares
from sktensordp.tensor._grouped import _BLOCK
from sktensordp.tensor.kernels._cp import solve_rows
from sktensordp.tensor.kernels._stacks import STACK
from tests.support.tensors import entries_of

# Entries of the rows: none, one, and around the boundaries of the kernels' chunks.
COUNTS = [0, 1, 255, 256, 257, 1000]
SHAPES = {2: (6, 1200), 3: (6, 40, 30), 4: (6, 12, 10, 10)}
DTYPES = [np.float32, np.float64]
# Of the sum of the absolute values that are summed.
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-13}


def slices(shape):
    ends = np.cumsum([0, *shape]).tolist()
    return [slice(*pair) for pair in itertools.pairwise(ends)]


def random_rows(shape, n_columns, dtype, seed=0):
    """Means of the rows of all modes and, packed, second moments that fit to them."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((sum(shape), n_columns))
    roots = rng.standard_normal((sum(shape), n_columns, n_columns))
    covariances = (roots @ roots.transpose(0, 2, 1))[:, *np.triu_indices(n_columns)]
    means = means.astype(dtype)
    return means, (packed_squares(means) + covariances).astype(dtype)


def counted_entries(n_modes, at, dtype):
    """Distinct entries in random order; `COUNTS` are those of the rows of a mode."""
    rng = np.random.default_rng(n_modes)
    _, *others = SHAPES[n_modes]
    coordinates = np.empty((sum(COUNTS), n_modes), dtype=np.int32, order="F")
    cells = [rng.permutation(np.prod(others))[:count] for count in COUNTS]
    columns = np.column_stack(np.unravel_index(np.concatenate(cells), others))
    coordinates[:, at] = np.repeat(np.arange(len(COUNTS)), COUNTS)
    coordinates[:, np.arange(n_modes) != at] = columns
    shape = (*others[:at], len(COUNTS), *others[at:])
    rng.shuffle(coordinates)
    return coordinates, rng.standard_normal(len(coordinates)).astype(dtype), shape


def on_the_diagonal(moments):
    """The diagonals of packed matrices."""
    return moments[:, diagonal((math.isqrt(8 * moments.shape[1] + 1) - 1) // 2)].copy()


def with_variances_alone(means, moments):
    """Packed second moments without the covariances of different columns."""
    thin, at = packed_squares(means), diagonal(means.shape[1])
    thin[:, at] = moments[:, at]
    return thin


def reference_sums(mode, coordinates, values, rows, means, moments, weights=None):
    """Sums of E[b b^T] and of y E[b], and of their absolute values, entry by entry."""
    n_rows = rows[mode].stop - rows[mode].start
    found = [np.zeros((n_rows, size.shape[1])) for size in (moments, means) * 2]
    for coordinate, value in zip(coordinates.tolist(), values.tolist(), strict=True):
        at = [r.start + c for r, c in zip(rows, coordinate, strict=True)]
        weight = 1.0 if weights is None else np.prod(weights[at].astype(float))
        del at[mode]
        second = weight * np.prod(moments[at].astype(float), axis=0)
        first = weight * value * np.prod(means[at].astype(float), axis=0)
        for total, term in zip(
            found, (second, first, abs(second), abs(first)), strict=True
        ):
            total[coordinate[mode]] += term
    return found


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(7, 5), (4, 6, 3), (3, 4, 2, 5), (1, 6, 4)])
def test_entries_are_grouped_by_the_row_of_every_mode(shape, order):
    rng = np.random.default_rng(0)
    # The last row of every mode of at least two stays empty, and entries are repeated.
    drawn = [rng.integers(0, max(size - 1, 1), 200) for size in shape]
    coordinates = np.column_stack(drawn).astype(np.int32, order=order)
    seen = []
    for mode, starts, positions in group_by_mode(coordinates, shape):
        seen.append(mode)
        assert positions.dtype == np.int32
        counts = np.bincount(coordinates[:, mode], minlength=shape[mode])
        assert_array_equal(starts, np.concatenate([[0], np.cumsum(counts)]))
        # By the row, then by that of the largest other mode, then by position.
        other = max((size, m) for m, size in enumerate(shape) if m != mode)[1]
        keys = [coordinates[:, other], coordinates[:, mode]]
        assert_array_equal(positions, np.lexsort(keys))
    assert sorted(seen) == list(range(len(shape)))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_grouping_few_entries(n):
    coordinates = np.full((n, 2), [2, 0], dtype=np.int32)
    (zero, starts, order), (one, one_starts, one_order) = group_by_mode(
        coordinates, (4, 1)
    )
    assert (one, zero) == (1, 0)
    assert_array_equal(one_starts, [0, n])
    assert_array_equal(starts, [0, 0, 0, n, n])
    assert_array_equal(one_order, np.arange(n))
    assert_array_equal(order, np.arange(n))


@pytest.mark.parametrize(
    ("n_modes", "last", "dtype", "dense"),
    [
        (2, False, np.float32, False),
        (2, True, np.float64, True),
        (3, True, np.float32, False),
        (3, False, np.float32, True),
        (4, False, np.float64, False),
        (4, True, np.float32, True),
    ],
)
@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_equal_the_reference(n_modes, last, dtype, dense, weighted, independent):
    at = n_modes - 1 if last else 0
    coordinates, values, shape = counted_entries(n_modes, at, dtype)
    entries = entries_of(dense, coordinates, values, shape)
    rows = slices(shape)
    means, moments = random_rows(shape, 3, dtype)
    given = moments
    if independent:
        given = on_the_diagonal(moments)
        moments = with_variances_alone(means, moments)
    weights = None
    if weighted:
        weights = np.random.default_rng(1).uniform(0.3, 3, len(means)).astype(dtype)
    assert entries.dtype == dtype
    assert entries.n_entries == sum(COUNTS)
    assert_allclose(entries.energy, np.sum(values.astype(float) ** 2), rtol=1e-6)
    for mode, size in enumerate(shape):
        counts = np.bincount(coordinates[:, mode], minlength=size)
        assert_array_equal(entries.observed(mode), counts > 0)
        gram, projection, total, absolute = reference_sums(
            mode, coordinates, values, rows, means, moments, weights
        )
        found = entries.sums(mode, 0, size, rows, means, given, weights)
        assert found[0].dtype == found[1].dtype == np.float64
        assert np.all(abs(found[0] - gram) <= TOLERANCE[dtype] * total)
        assert np.all(abs(found[1] - projection) <= TOLERANCE[dtype] * absolute)


@pytest.mark.parametrize("n_modes", [2, 3, 4])
@pytest.mark.parametrize("independent", [False, True])
def test_a_long_row_is_summed_accurately_in_single_precision(n_modes, independent):
    n = 300_000
    rng = np.random.default_rng(0)
    shape = (2, *[3] * (n_modes - 1))
    coordinates = rng.integers(0, 3, (n, n_modes)).astype(np.int32, order="F")
    coordinates[:, 0] = 0
    values = rng.uniform(0.9, 1.1, n).astype(np.float32)
    rows = slices(shape)
    means = rng.uniform(0.69, 0.71, (sum(shape), 2)).astype(np.float32)
    moments = packed_squares(means)
    moments[:, diagonal(2)] += np.float32(0.01)
    second = moments.astype(float)
    wide = values.astype(float)
    met = np.ones((n, 3)), wide[:, np.newaxis] * np.ones((n, 2))
    for mode in range(1, n_modes):
        at = coordinates[:, mode] + rows[mode].start
        met = met[0] * second[at], met[1] * means[at].astype(float)
    # What must not happen: adding one entry after the other in single precision.
    naive = np.cumsum(met[0].astype(np.float32), axis=0, dtype=np.float32)[-1]
    assert np.any(abs(naive / met[0].sum(axis=0) - 1) > 1e-5)
    entries = SparseEntries(coordinates, values, shape)
    if independent:
        moments = on_the_diagonal(moments)
    gram, projection = entries.sums(0, 0, 2, rows, means, moments)
    assert_allclose(gram[0], met[0].sum(axis=0), rtol=1e-5)
    assert_allclose(projection[0], met[1].sum(axis=0), rtol=1e-5)
    assert_array_equal(gram[1], 0)
    assert_array_equal(projection[1], 0)
    assert_allclose(entries.energy, wide @ wide, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_columns", [1, 5, 20])
@pytest.mark.parametrize("independent", [False, True])
def test_ranges_do_not_change_the_sums(n_columns, dtype, independent):
    coordinates, values, shape = counted_entries(3, 0, dtype)
    entries = SparseEntries(coordinates, values, shape)
    rows = slices(shape)
    means, moments = random_rows(shape, n_columns, dtype)
    if independent:
        moments = on_the_diagonal(moments)
    for mode, size in enumerate(shape):
        whole = entries.sums(mode, 0, size, rows, means, moments)
        for first, last in [(0, 1), (1, 5), (3, size), (size - 1, size), (2, 2)]:
            part = entries.sums(mode, first, last, rows, means, moments)
            for found, expected in zip(part, whole, strict=True):
                assert_array_equal(found, expected[first:last])


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize("shape", [(1, 3), (600, 5), (2000, 1)])
def test_ranges_cover_all_rows_once(shape, n_threads):
    rng = np.random.default_rng(0)
    coordinates = rng.integers(0, shape, (4000, 2)).astype(np.int32)
    entries = SparseEntries(coordinates, np.ones(4000), shape)
    for mode, size in enumerate(shape):
        ends = entries.ranges(mode, n_threads)
        assert ends[0] == 0
        assert ends[-1] == size
        assert np.all(np.diff(ends) > 0)
        assert np.all(np.diff(ends) <= _BLOCK)


def solved(gram, projection, precision, noise, dtype=np.float64):
    """`solve_rows` with all columns free and a prior mean of zero."""
    n_rows, n_columns = projection.shape
    free = np.arange(n_columns)
    means, moments = np.empty((n_rows, n_columns), dtype), np.empty(gram.shape, dtype)
    covariances, fitted = np.empty(gram.shape, dtype), np.empty(n_rows)
    zero = np.zeros(n_columns)
    solve_rows(
        gram, projection, free, zero, precision, noise, means, covariances, moments,
        fitted,
    )  # fmt: skip
    return means, moments, fitted


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_entries", [1.0, 1e6, 1e15])
@pytest.mark.parametrize("noise", [1e-9, 1.0])
def test_nearly_singular_rows_stay_finite(n_entries, noise, dtype):
    # All entries meet the same row: one direction of six is seen, and prior is weak.
    rng = np.random.default_rng(0)
    met = rng.standard_normal((20, 6))
    met[10:] = np.round(met[10:])
    gram = n_entries * packed_squares(met)
    precision = np.full(6, 1e-6)
    means, moments, fitted = solved(gram, n_entries * met, precision, noise, dtype)
    first, second = np.triu_indices(6)
    variances = moments[:, first == second] - means.astype(float) ** 2
    assert np.all(np.isfinite(means))
    assert np.all(np.isfinite(moments))
    assert np.all(np.isfinite(fitted))
    rounding = np.finfo(dtype).eps * (1 + means.astype(float) ** 2)
    assert np.all(variances >= -4 * rounding)


def test_a_row_without_information_but_its_prior():
    gram, projection = np.zeros((3, 10)), np.zeros((3, 4))
    precision = np.array([1e-6, 1.0, 20.0, 1e6])
    means, moments, fitted = solved(gram, projection, precision, 1e-3)
    assert_array_equal(means, 0)
    assert_array_equal(fitted, 0)
    expected = np.diag(1 / precision)[np.triu_indices(4)]
    assert_allclose(moments, np.tile(expected, (3, 1)), rtol=1e-12)


@pytest.mark.parametrize("n_rows", [1, STACK, STACK + 3])
def test_a_row_does_not_depend_on_the_rows_beside_it(n_rows):
    rng = np.random.default_rng(0)
    gram = packed_squares(rng.standard_normal((n_rows, 5)))
    projection, precision = rng.standard_normal((n_rows, 5)), np.ones(5)
    together = solved(gram, projection, precision, 0.3)
    for r in {0, n_rows // 2, n_rows - 1}:
        alone = solved(gram[[r]], projection[[r]], precision, 0.3)
        for found, expected in zip(alone, together, strict=True):
            assert_array_equal(found[0], expected[r])


@pytest.mark.parametrize("held", [(), (1,), (0, 3), (0, 1, 2)])
def test_rows_are_solved_with_columns_that_are_held(held):
    rng = np.random.default_rng(0)
    free = np.setdiff1d(np.arange(5), held)
    mean, precision = rng.standard_normal(5), rng.uniform(0.5, 2, 5)
    design = rng.standard_normal((4, 12, 5))
    values = rng.standard_normal((4, 12))
    gram = (design.transpose(0, 2, 1) @ design)[:, *np.triu_indices(5)]
    projection = np.einsum("rea,re->ra", design, values)
    held_at, covariances = rng.standard_normal((4, 5)), np.zeros((4, 15))
    means, moments, fitted = held_at.copy(), np.empty((4, 15)), np.empty(4)
    solve_rows(
        gram, projection, free, mean, precision, 0.3, means, covariances, moments,
        fitted,
    )  # fmt: skip
    for r in range(4):
        left = values[r] - design[r][:, list(held)] @ held_at[r, list(held)]
        seen = design[r][:, free]
        inverse = np.linalg.inv(seen.T @ seen / 0.3 + np.diag(precision[free]))
        shift = seen.T @ left / 0.3 + precision[free] * mean[free]
        row, covariance = held_at[r].copy(), np.zeros((5, 5))
        row[free] = inverse @ shift
        covariance[np.ix_(free, free)] = inverse
        second = (np.outer(row, row) + covariance)[np.triu_indices(5)]
        error = np.sum((values[r] - design[r] @ row) ** 2)
        error += np.trace(design[r].T @ design[r] @ covariance)
        assert_allclose(means[r], row, rtol=1e-10)
        assert_allclose(moments[r], second, rtol=1e-10, atol=1e-12)
        assert_allclose(
            covariances[r], covariance[np.triu_indices(5)], rtol=1e-10, atol=1e-12
        )
        assert fitted[r] + values[r] @ values[r] == pytest.approx(error, rel=1e-10)
    # With one moment for each column, only those on the diagonal are written.
    again, squares = held_at.copy(), np.empty((4, 5))
    solve_rows(
        gram, projection, free, mean, precision, 0.3, again, covariances, squares,
        fitted,
    )  # fmt: skip
    assert_array_equal(again, means)
    assert_array_equal(squares, on_the_diagonal(moments))


@pytest.mark.parametrize("shape", [(2, 300_000), (3000, 2, 100)])
def test_a_long_dense_row_is_summed_accurately_in_single_precision(shape):
    rng = np.random.default_rng(0)
    values = rng.uniform(0.9, 1.1, shape).astype(np.float32)
    means = rng.uniform(0.69, 0.71, (sum(shape), 2)).astype(np.float32)
    sums = [
        DenseEntries(values.astype(dtype), np.ones(shape, dtype=bool)).sums(
            shape.index(2),
            0,
            2,
            slices(shape),
            means.astype(dtype),
            packed_squares(means.astype(dtype)),
        )
        for dtype in DTYPES
    ]
    for found, expected in zip(*sums, strict=True):
        assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rescaled_entries_are_those_of_rescaled_values(dtype):
    """Whether they are stored as coordinates or as an array."""
    rng = np.random.default_rng(0)
    shape, tolerance = (6, 5, 4), 1e-5 if dtype == np.float32 else 1e-12
    mask = rng.random(shape) < 0.6
    coordinates = np.argwhere(mask).astype(np.int32)
    values = rng.normal(3, 1, len(coordinates)).astype(dtype)
    signs = rng.choice(np.array([-1, 1], np.int8), len(values))
    tensor = np.zeros(shape, dtype)
    tensor[mask] = values
    stored = SparseEntries(coordinates, values, shape, signs)
    array = DenseEntries(tensor.copy(), mask, signs)
    for offset, scale, move in [(3.0, 2.0, 0.0), (0.0, 2.0, 0.0), (2.5, 1.0, 0.7)]:
        expected = (values + move * signs - offset) / scale
        fresh = SparseEntries(coordinates, expected.astype(dtype), shape)
        for entries in (stored, array):
            assert entries.row_energies.shape == (6,)  # Kept until values change.
            entries.rescale(offset, scale, move)
            np.testing.assert_allclose(
                entries.row_energies, fresh.row_energies, rtol=tolerance
            )
            assert entries.energy == pytest.approx(fresh.energy, rel=tolerance)
        for found, wanted in zip(stored.groups, fresh.groups, strict=True):
            np.testing.assert_array_equal(found[1], wanted[1])
            np.testing.assert_allclose(found[2], wanted[2], atol=10 * tolerance)
        dense = np.zeros(shape)
        dense[mask] = expected
        np.testing.assert_allclose(array.values, dense, atol=10 * tolerance)
