"""Rows tied to their neighbours: posterior, learned precisions, and what they gain."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import block_diag

from sktensordp.tensor import SparseEntries, fit_structured_cp
from sktensordp.tensor._chain import path_eigenvalues, solve_chain
from sktensordp.tensor._cp import cp_columns
from sktensordp.tensor._row_fit import RowFit
from tests.support.tensors import entries_of, unpacked

pytestmark = pytest.mark.thorough


def laplacian(n):
    """Of a path: the matrix of the sum of squared differences of neighbours."""
    differences = np.diff(np.eye(n), axis=0)
    return differences.T @ differences


def gaussian(precision, shift, tie):
    """Mean and covariance of all rows, by the inverse of the whole matrix."""
    n_rows, n_columns = shape = shift.shape
    whole = block_diag(*precision) + np.kron(laplacian(n_rows), np.diag(tie))
    covariance = np.linalg.inv(whole)
    mean = (covariance @ shift.ravel()).reshape(shape)
    return mean, covariance.reshape(n_rows, n_columns, n_rows, n_columns)


def assert_chain(found, expected, rtol=1e-9):
    mean, covariance, cross = found
    whole_mean, whole = expected
    rows, columns = (np.arange(n) for n in mean.shape)
    assert_allclose(mean, whole_mean, rtol=rtol, atol=1e-12)
    assert_allclose(covariance, whole[rows, :, rows], rtol=rtol, atol=1e-12)
    neighbours = whole[rows[:-1], :, rows[1:]][:, columns, columns]
    assert_allclose(cross, neighbours, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("n_rows", [1, 2, 7])
@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize("strength", [0.0, 1.0, 1e4])
def test_solve_chain_inverts_the_whole_matrix(n_rows, n_columns, strength):
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((n_rows, n_columns, n_columns))
    precision = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(n_columns)
    shift = rng.standard_normal((n_rows, n_columns))
    tie = strength * rng.uniform(0.5, 2, n_columns)
    given = precision.copy(), shift.copy(), tie.copy()
    found = solve_chain(precision, shift, tie)
    assert [f.shape for f in found] == [
        (n_rows, n_columns), (n_rows, n_columns, n_columns), (n_rows - 1, n_columns),
    ]  # fmt: skip
    # Strong ties leave fewer digits to any algorithm.
    assert_chain(found, gaussian(*given), rtol=1e-9 if strength < 1e3 else 1e-6)
    for before, after in zip(given, (precision, shift, tie), strict=True):
        assert_array_equal(before, after)


def test_a_column_without_tie_passes_nothing_on():
    precision, shift = np.array([[[2.0]], [[4.0]]]), np.array([[1.0], [2.0]])
    mean, covariance, cross = solve_chain(precision, shift, np.zeros(1))
    assert_array_equal(mean, [[0.5], [0.5]])
    assert_array_equal(covariance, [[[0.5]], [[0.25]]])
    assert_array_equal(cross, 0)


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_path_eigenvalues(n):
    expected = np.linalg.eigvalsh(laplacian(n)) if n > 1 else [0.0]
    assert_allclose(np.sort(path_eigenvalues(n)), expected, atol=1e-12)


def smooth_fit(shape, mode, *, rank=2, biases=True, dense=False, dtype=float, n=70):
    """A fit before its first sweep, with covariances, and its entries."""
    rng = np.random.default_rng(3)
    cells = rng.permutation(np.prod(shape))[:n]
    coordinates = np.column_stack(np.unravel_index(cells, shape)).astype(np.int32)
    # An empty bin, in the middle.
    coordinates = coordinates[coordinates[:, mode] != shape[mode] // 2]
    values = rng.standard_normal(len(coordinates)).astype(dtype)
    fit = RowFit(
        entries_of(dense, coordinates, values, shape),
        *cp_columns(len(shape), rank, biases, (mode,)),
    )
    fit.start_at_prior()
    free = ~fit.fixed
    fit.precision = rng.uniform(0.5, 2, fit.fixed.shape)
    fit.prior_mean = np.where(free, rng.standard_normal(fit.fixed.shape), 1.0)
    fit.tie[mode] = np.where(free[mode], rng.uniform(1, 9, len(free[mode])), 0.0)
    fit.noise = 0.6
    diagonal = np.flatnonzero(np.equal(*np.triu_indices(free.shape[1])))
    for r, columns in zip(fit.rows, free, strict=True):
        fit.covariances[r, diagonal[columns]] = 0.3
    fit.start([fit.means], [fit.covariances], fit.noise)
    return fit, coordinates, values.astype(float)


def whole_mode(fit, mode, coordinates, values):
    """Sums of b b^T, of y b and of y^2, entry by entry: all rows, all columns."""
    rows, moments = fit.rows, unpacked(fit.moments)
    n_rows, size = fit.entries.shape[mode], fit.fixed.shape[1]
    gram, right = np.zeros((n_rows, size, size)), np.zeros((n_rows, size))
    for coordinate, value in zip(coordinates, values, strict=True):
        at = [r.start + c for r, c in zip(rows, coordinate, strict=True)]
        del at[mode]
        gram[coordinate[mode]] += np.prod(moments[at], axis=0)
        right[coordinate[mode]] += value * np.prod(fit.means[at].astype(float), axis=0)
    return gram, right


@pytest.mark.parametrize(
    ("shape", "mode", "rank", "biases", "dense", "dtype"),
    [
        ((8, 5), 0, 2, True, False, np.float64),
        ((8, 5), 0, 0, True, True, np.float32),
        ((4, 3, 9), 2, 2, True, True, np.float64),
        ((4, 3, 9), 2, 2, False, False, np.float32),
        ((9, 1), 0, 2, False, True, np.float64),
        ((9, 1), 0, 0, True, False, np.float64),
    ],
)
def test_update_of_a_smooth_mode(shape, mode, rank, biases, dense, dtype):
    fit, coordinates, values = smooth_fit(
        shape, mode, rank=rank, biases=biases, dense=dense, dtype=dtype
    )
    gram, right = whole_mode(fit, mode, coordinates, values)
    free, held = np.flatnonzero(~fit.fixed[mode]), np.flatnonzero(fit.fixed[mode])
    own = fit.precision[mode, free]
    precision = gram[:, free][:, :, free] / fit.noise + np.diag(own)
    shift = (right[:, free] - gram[:, free][:, :, held].sum(axis=2)) / fit.noise
    shift += own * fit.prior_mean[mode, free]
    mean, covariance = gaussian(precision, shift, fit.tie[mode, free])
    before = fit.means.copy()
    with fit.threads(2) as pool:
        error, cross = fit.update(mode, pool, 2)
    tolerance = 1e-10 if dtype == np.float64 else 1e-4
    r, rows = fit.rows[mode], np.arange(shape[mode])
    expected = np.ones(right.shape)
    expected[:, free] = mean
    assert_allclose(fit.means[r], expected, atol=tolerance)
    second = expected[:, :, np.newaxis] * expected[:, np.newaxis]
    second[:, free[:, np.newaxis], free] += covariance[rows, :, rows]
    assert_allclose(unpacked(fit.moments)[r], second, atol=tolerance)
    by_the_book = values @ values - 2 * np.sum(right * expected)
    by_the_book += np.sum(gram * second)
    assert error == pytest.approx(by_the_book, rel=tolerance)
    assert_array_equal(cross[:, held], 0)
    neighbours = covariance[rows[:-1], :, rows[1:]][:, *[np.arange(len(free))] * 2]
    assert_allclose(cross[:, free], neighbours, atol=tolerance)
    # The other modes are left alone.
    before[r] = fit.means[r]
    assert_array_equal(before, fit.means)


def test_a_tie_of_zero_is_a_mode_that_is_not_smooth():
    tied, _, _ = smooth_fit((4, 3, 9), 2)
    loose, _, _ = smooth_fit((4, 3, 9), 2)
    # One column of almost no tie keeps the solution by the chain.
    tied.tie[2] = np.where(tied.tie[2] > 0, 1e-12, 0.0)
    loose.tie[2] = 0.0
    for fit in (tied, loose):
        with fit.threads(1) as pool:
            fit.update(2, pool, 1)
    assert_allclose(tied.means, loose.means, atol=1e-9)
    assert_allclose(tied.moments, loose.moments, atol=1e-9)


def posterior(fit, mode):
    """Update a mode; its means, variances and covariances of neighbours."""
    with fit.threads(1) as pool:
        _, cross = fit.update(mode, pool, 1)
    r = fit.rows[mode]
    second = np.diagonal(unpacked(fit.moments)[r], axis1=1, axis2=2)
    return fit.means[r], second - fit.means[r] ** 2, cross


def test_precisions_of_a_mode_that_is_not_smooth():
    fit, _, _ = smooth_fit((11, 4, 5), 1, n=9)
    mean, variance, cross = posterior(fit, 0)
    seen = fit.entries.observed(0)
    assert 2 < seen.sum() < 11
    before = fit.precision.copy()
    fit.learn_prior(0, cross)
    squares = (mean[seen] - fit.prior_mean[0]) ** 2
    # Column 0 is the bias of mode 0; 1 and 2 are held; 3 and 4 are terms.
    maximised = 1 / np.mean(squares[:, 3:] + variance[seen, 3:], axis=0)
    assert_allclose(fit.precision[0, 3:], maximised, rtol=1e-9)
    well_determined = seen.sum() - before[0] * variance[seen].sum(axis=0)
    fixed_point = well_determined[0] / squares[:, 0].sum()
    assert fit.precision[0, 0] == pytest.approx(fixed_point, rel=1e-9)
    assert_array_equal(fit.precision[0, 1:3], before[0, 1:3])
    assert_array_equal(fit.precision[1:], before[1:])
    assert_array_equal(fit.tie[0], 0)


def test_precisions_of_a_smooth_mode():
    fit, _, _ = smooth_fit((4, 3, 9), 2)
    mean, variance, cross = posterior(fit, 2)
    own, tie = fit.precision[2].copy(), fit.tie[2].copy()
    fit.learn_prior(2, cross)
    free = np.flatnonzero(~fit.fixed[2])
    assert free.tolist() == [2, 3, 4]
    for q in free:
        deviation = mean[:, q] - fit.prior_mean[2, q]
        prior = np.linalg.inv(own[q] * np.eye(9) + tie[q] * laplacian(9))
        spread = variance[1:, q] + variance[:-1, q] - 2 * cross[:, q]
        squares = deviation @ deviation, deviation @ laplacian(9) @ deviation
        variances = variance[:, q].sum(), spread.sum()
        expected = np.trace(prior), np.trace(prior @ laplacian(9))
        found = fit.precision[2, q], fit.tie[2, q]
        for k, old in enumerate((own[q], tie[q])):
            if q == 2:  # the bias
                ratio = (expected[k] - variances[k]) / squares[k]
            else:
                ratio = expected[k] / (squares[k] + variances[k])
            assert found[k] == pytest.approx(old * ratio, rel=1e-8)
    assert_array_equal(fit.tie[2, :2], 0)
    assert_array_equal(fit.tie[:2], 0)


def bound(precision, tie, squares, differences, n_rows):
    """What the precisions of a term contribute to the evidence's lower bound."""
    strength = precision + tie * path_eigenvalues(n_rows)[:, np.newaxis]
    return (np.log(strength).sum(axis=0) - precision * squares - tie * differences) / 2


@pytest.mark.parametrize(("start", "tie_start"), [(1e-3, 1e3), (1e3, 1e-3)])
def test_learning_a_tie_increases_the_bound(start, tie_start):
    fit, _, _ = smooth_fit((4, 3, 9), 2, biases=False, n=100)
    mean, variance, cross = posterior(fit, 2)
    deviation = mean - fit.prior_mean[2]
    squares = (deviation**2 + variance).sum(axis=0)
    spread = variance[1:] + variance[:-1] - 2 * cross
    differences = (np.diff(deviation, axis=0) ** 2 + spread).sum(axis=0)
    fit.precision[2], fit.tie[2] = start, tie_start
    bounds = []
    for _ in range(3000):
        bounds.append(bound(fit.precision[2], fit.tie[2], squares, differences, 9))
        fit.learn_prior(2, cross)
    assert np.all(np.diff(bounds, axis=0) >= -1e-12)
    assert np.all(bounds[1] > bounds[0])
    # At last, the bound has its maximum: a step to either side makes it smaller.
    own, tie = fit.precision[2], fit.tie[2]
    for step in (0.97, 1.03):
        assert np.all(bound(step * own, tie, squares, differences, 9) < bounds[-1])
        assert np.all(bound(own, step * tie, squares, differences, 9) < bounds[-1])


def chain_of_biases(tied):
    """Biases alone, in one mode alone: their evidence has a closed form."""
    rng = np.random.default_rng(5)
    n_rows, noise = 40, 0.5
    own, tie = (2.0, 30.0) if tied else (2.0, 0.0)
    prior = np.linalg.inv(own * np.eye(n_rows) + tie * laplacian(n_rows))
    truth = rng.multivariate_normal(np.zeros(n_rows), prior)
    row = rng.integers(0, n_rows, 150)
    values = truth[row] + np.sqrt(noise) * rng.standard_normal(150)
    coordinates = np.column_stack([row, np.zeros_like(row)]).astype(np.int32)
    held = np.array([[False], [True]])
    fit = RowFit(
        SparseEntries(coordinates, values, (n_rows, 1)), held,
        held.astype(float), np.ones((2, 1)), np.array([[float(tied)], [0.0]]),
    )  # fmt: skip
    fit.start_at_prior()
    fit.noise = noise
    return fit, row, values


def evidence(fit, row, values, log_precision, log_tie):
    seen = fit.entries.observed(0)
    n_rows = len(seen)
    tie = np.exp(log_tie) if fit.tie[0].any() else 0.0
    prior = np.linalg.inv(
        np.exp(log_precision) * np.eye(n_rows) + tie * laplacian(n_rows)
    )
    covariance = prior[np.ix_(row, row)] + fit.noise * np.eye(len(row))
    _, logarithm = np.linalg.slogdet(covariance)
    return -(logarithm + values @ np.linalg.solve(covariance, values)) / 2


@pytest.mark.parametrize("tied", [False, True])
def test_the_precisions_of_biases_have_the_largest_evidence(tied):
    fit, row, values = chain_of_biases(tied)
    with fit.threads(1) as pool:
        for _ in range(300):
            _, cross = fit.update(0, pool, 1)
            fit.learn_prior(0, cross)
    at = np.log([fit.precision[0, 0], fit.tie[0, 0] if tied else 1.0])
    best = evidence(fit, row, values, *at)
    for step in ([0.1, 0], [-0.1, 0], [0, 0.1], [0, -0.1]):
        other = evidence(fit, row, values, *(at + step))
        assert other < best or (step[1] and not tied)
    # The slope vanishes, by central differences.
    for step in ([1e-3, 0], [0, 1e-3]):
        ends = [evidence(fit, row, values, *(at + s * np.array(step))) for s in (1, -1)]
        assert abs(ends[0] - ends[1]) / 2e-3 < 1e-3


def test_the_unknown_row_of_a_smooth_mode_has_the_average_prior_variance():
    rng = np.random.default_rng(0)
    coordinates = rng.integers(0, (5, 8), (60, 2)).astype(np.int32)
    model, _ = fit_structured_cp(
        SparseEntries(coordinates, rng.standard_normal(60), (5, 8)),
        rank=0, biases=True, value_scale=2.0, noise_floor=0.0, max_iter=30,
        smooth_modes=(1,),
    )  # fmt: skip
    prior = model.precision[1, 1] * np.eye(8) + model.tie[1, 1] * laplacian(8)
    expected = np.trace(np.linalg.inv(prior)) / 8 + 1 / model.precision[0, 0]
    unknown = np.array([[-1, -1]], dtype=np.int32)
    assert model.variance(unknown)[0][0] == pytest.approx(expected, rel=1e-9)


def test_a_smooth_mode_of_one_row_is_like_any_other():
    rng = np.random.default_rng(0)
    coordinates = np.column_stack([rng.integers(0, 9, 50), np.zeros(50)])
    one, other = (
        fit_structured_cp(
            SparseEntries(coordinates.astype(np.int32), values, (9, 1)), rank=1,
            biases=True, value_scale=1.0, noise_floor=0.0, max_iter=20,
            smooth_modes=smooth_modes,
        )[0]
        for values in [rng.standard_normal(50)]
        for smooth_modes in ((), (1,))
    )  # fmt: skip
    assert_allclose(one.means, other.means, atol=1e-9)
    assert_allclose(one.covariances, other.covariances, atol=1e-9)


def smooth_problem(seed):
    """Two terms and a bias that change smoothly over 60 bins; as much noise as signal.

    About 67 entries a bin, of standard deviation 1.2 to 2 and noise 1.
    """
    rng = np.random.default_rng(seed)
    shape = (15, 12, 60)
    coordinates = rng.integers(0, shape, (4000, 3)).astype(np.int32)
    angle = np.linspace(0, 2 * np.pi, 60)
    factors = [rng.standard_normal((size, 2)) for size in shape[:2]]
    factors.append(1 + 0.8 * np.column_stack([np.sin(angle), np.cos(angle)]))
    truth = np.einsum("ir,jr,kr->ijk", *factors) + np.sin(2 * angle)
    return coordinates, truth[tuple(coordinates.T)] + rng.standard_normal(4000), truth


def errors(coordinates, values, truth, bins):
    """Root mean squared errors without and with ties, over some of the bins."""
    everywhere = np.argwhere(np.ones(truth.shape)).astype(np.int32)
    everywhere = everywhere[np.isin(everywhere[:, 2], bins)]
    found = []
    for smooth_modes in ((), (2,)):
        model, _ = fit_structured_cp(
            SparseEntries(coordinates, values / 2, truth.shape), rank=2, biases=True,
            value_scale=2.0, noise_floor=0.0, max_iter=60, smooth_modes=smooth_modes,
        )  # fmt: skip
        difference = model.predict(everywhere) - truth[tuple(everywhere.T)]
        found.append(np.sqrt(np.mean(difference**2)))
    return found


# Over 4 seeds, ties brought the error from 0.24 to 0.27 down to 0.15 to 0.18 (ratios of
# 0.62 to 0.70), and in missing bins from 0.88 to 1.25 to 0.14 to 0.16 (0.12 to 0.16).
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0])
def test_ties_help_smooth_data_under_heavy_noise(seed):
    without, tied = errors(*smooth_problem(seed), np.arange(60))
    assert tied < 0.85 * without


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0])
def test_ties_interpolate_missing_bins(seed):
    coordinates, values, truth = smooth_problem(seed)
    missing = np.arange(20, 60, 6)
    kept = ~np.isin(coordinates[:, 2], missing)
    without, tied = errors(coordinates[kept], values[kept], truth, missing)
    assert tied < 0.3 * without
