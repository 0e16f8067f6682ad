"""The fit of the structured CP against slow references and known truths."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sktensordp.tensor import (
    DenseEntries,
    SparseEntries,
    fit_structured_cp,
    group_by_index,
    max_cp_rank,
)
from sktensordp.tensor._structured_cp import _columns, _start


def random_problem(shape, n, seed=0):
    rng = np.random.default_rng(seed)
    coordinates = np.column_stack([rng.integers(0, s, n) for s in shape])
    return coordinates, rng.standard_normal(n)


def reference_update(mode, coordinates, values, means, covariances, held, mu, lam, v):
    """Row posteriors by the book: one row, one matrix inverse at a time."""
    n_rows, n_columns = means[mode].shape
    free = np.flatnonzero(~held[mode])
    fixed = np.flatnonzero(held[mode])
    mean, covariance = means[mode].copy(), np.zeros((n_rows, n_columns, n_columns))
    error = np.zeros(n_rows)
    for r in range(n_rows):
        gram, right = np.zeros((n_columns, n_columns)), np.zeros(n_columns)
        entries = np.flatnonzero(coordinates[:, mode] == r)
        for e in entries:
            second, first = np.ones((n_columns, n_columns)), np.ones(n_columns)
            for m in range(len(means)):
                if m != mode:
                    u = means[m][coordinates[e, m]]
                    second *= np.outer(u, u) + covariances[m][coordinates[e, m]]
                    first *= u
            gram += second
            right += values[e] * first
        precision = gram[np.ix_(free, free)] / v + np.diag(lam[mode, free])
        shift = (right[free] - gram[np.ix_(free, fixed)].sum(axis=1)) / v
        shift += lam[mode, free] * mu[mode, free]
        posterior = np.linalg.inv(precision)
        mean[r, free] = posterior @ shift
        covariance[r][np.ix_(free, free)] = posterior
        moment = np.outer(mean[r], mean[r]) + covariance[r]
        error[r] = values[entries] @ values[entries] - 2 * right @ mean[r]
        error[r] += np.sum(gram * moment)
    return mean, covariance, error


def as_dense(coordinates, values, shape):
    """The same entries as an array with a mask; duplicated coordinates are refused."""
    assert len(np.unique(coordinates, axis=0)) == len(coordinates)
    tensor, mask = np.zeros(shape), np.zeros(shape, dtype=bool)
    tensor[tuple(coordinates.T)] = values
    mask[tuple(coordinates.T)] = True
    return DenseEntries(tensor, mask)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("shape", [(5, 7), (4, 3, 6), (2, 3, 2, 4)])
@pytest.mark.parametrize(("rank", "biases"), [(3, True), (2, False), (0, True)])
def test_update_equals_the_reference(shape, rank, biases, dense):
    coordinates, values = random_problem(shape, 60)
    if dense:
        coordinates, first = np.unique(coordinates, axis=0, return_index=True)
        values = values[first]
    held, mu, lam = _columns(len(shape), rank, biases)
    entries = (as_dense if dense else SparseEntries)(coordinates, values, shape)
    assert entries.n_entries == len(values)
    assert entries.mean_square == pytest.approx(np.mean(values**2), rel=1e-12)
    means, moments = _start(shape, held, mu)
    ends = np.concatenate([[0], np.cumsum(shape)])
    rows = [slice(*pair) for pair in itertools.pairwise(ends)]
    with ThreadPoolExecutor(2) as pool:
        for mode, r in enumerate(rows):
            seen = np.bincount(coordinates[:, mode], minlength=shape[mode]) > 0
            np.testing.assert_array_equal(entries.observed(mode), seen)
            before = [means[r].copy() for r in rows]
            outer = [m[:, :, None] * m[:, None, :] for m in before]
            covariances = [moments[r] - o for r, o in zip(rows, outer, strict=True)]
            expected = reference_update(
                mode, coordinates, values, before, covariances, held, mu, lam, 0.7
            )
            error = entries.update(
                mode, rows, means, moments, np.flatnonzero(~held[mode]),
                mu[mode], lam[mode], 0.7, pool, 2,
            )  # fmt: skip
            np.testing.assert_allclose(means[r], expected[0], atol=1e-10)
            square = means[r][:, :, None] * means[r][:, None, :]
            np.testing.assert_allclose(moments[r] - square, expected[1], atol=1e-10)
            np.testing.assert_allclose(error, expected[2].sum(), rtol=1e-9, atol=1e-9)


def test_dense_and_sparse_fits_agree():
    rng = np.random.default_rng(0)
    shape, tensor = (12, 9, 7), np.zeros((12, 9, 7))
    for _ in range(2):
        tensor += np.multiply.outer(
            np.multiply.outer(rng.normal(size=12), rng.normal(size=9)),
            rng.uniform(0.5, 1.5, 7),
        )
    coordinates = np.argwhere(rng.random(shape) < 0.6)
    values = tensor[tuple(coordinates.T)] + 0.1 * rng.standard_normal(len(coordinates))
    options = {
        "rank": 3, "biases": True, "value_scale": 2.0, "noise_floor": 0.0,
        "max_iter": 15,
    }  # fmt: skip
    one, other = (
        fit_structured_cp(make(coordinates, values / 2.0, shape), **options)[0]
        for make in (SparseEntries, as_dense)
    )
    everywhere = np.argwhere(np.ones(shape))
    np.testing.assert_allclose(
        one.predict(everywhere), other.predict(everywhere), rtol=1e-6, atol=1e-8
    )
    assert one.noise_variance == pytest.approx(other.noise_variance, rel=1e-8)


def fit(coordinates, values, shape, **options):
    options = {
        "rank": 2, "biases": True, "value_scale": 1.0, "noise_floor": 0.0,
        "max_iter": 40, **options,
    }  # fmt: skip
    entries = SparseEntries(coordinates, values / options["value_scale"], shape)
    return fit_structured_cp(entries, **options)[0]


@pytest.mark.parametrize("n_threads", [2, 3, 7])
def test_threads_do_not_change_the_fit(n_threads):
    coordinates, values = random_problem((30, 20), 300)
    one = fit(coordinates, values, (30, 20), n_threads=1)
    more = fit(coordinates, values, (30, 20), n_threads=n_threads)
    for a, b in zip(one.factors, more.factors, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("rank", [3, 4])
def test_a_low_rank_tensor_is_recovered_whatever_the_rank(rank):
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((20, 3)) for _ in range(3)]
    truth = np.einsum("ir,jr,kr->ijk", *factors)
    observed = rng.random(truth.shape) < 0.3
    scale = np.ptp(truth[observed]) / 2
    model = fit(
        np.argwhere(observed), truth[observed], truth.shape, rank=rank,
        value_scale=scale,
    )  # fmt: skip
    predicted = model.predict(np.argwhere(~observed))
    error = np.sqrt(np.mean((predicted - truth[~observed]) ** 2))
    assert error < 0.02 * truth.std()


def test_noise_is_shrunk_away():
    coordinates, values = random_problem((50, 40), 1000)
    model = fit(coordinates, values, (50, 40), rank=5)
    # Pure noise of variance one: anything fitted beyond zero is overfitting.
    assert np.mean(model.predict(coordinates) ** 2) < 0.05
    assert 0.8 < model.noise_variance < 1.2


def test_the_fit_does_not_depend_on_units():
    coordinates, values = random_problem((30, 20), 400)
    values = values + 0.5 * coordinates[:, 0] % 7
    values -= values.mean()
    small = fit(coordinates, values, (30, 20))
    large = fit(coordinates, 1e6 * values, (30, 20), value_scale=1e6)
    np.testing.assert_allclose(
        large.predict(coordinates), 1e6 * small.predict(coordinates), rtol=1e-8
    )
    assert large.noise_variance == pytest.approx(1e12 * small.noise_variance)


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 4)])
def test_rows_without_observation_are_their_prior_mean(shape):
    coordinates, values = random_problem(shape, 40)
    coordinates[coordinates[:, 0] == 5, 0] = 0
    model = fit(coordinates, values, shape)
    np.testing.assert_allclose(model.factors[0][5], model.prior_means[0], atol=1e-12)
    unseen, unknown = coordinates[:1].copy(), coordinates[:1].copy()
    unseen[0, 0], unknown[0, 0] = 5, -1
    np.testing.assert_allclose(model.predict(unseen), model.predict(unknown))


def test_noise_floor_is_kept():
    coordinates, values = random_problem((5, 5), 20)
    assert fit(coordinates, 0.01 * values, (5, 5), noise_floor=4.0).noise_variance == 4


def test_on_sweep_counts_and_stops():
    coordinates, values = random_problem((5, 5), 20)
    seen = []
    _, n_iter = fit_structured_cp(
        SparseEntries(coordinates, values, (5, 5)),
        rank=1, biases=True, value_scale=1.0,
        noise_floor=0.0, max_iter=9, on_sweep=lambda i: seen.append(i) or i == 3,
    )  # fmt: skip
    assert seen == [0, 1, 2, 3]
    assert n_iter == 4


@pytest.mark.parametrize("value", [0.0, 1e-200, 1e150])
def test_degenerate_values_stay_finite(value):
    coordinates, _ = random_problem((4, 3), 30)
    model = fit(coordinates, np.full(30, value), (4, 3), value_scale=max(value, 1.0))
    assert all(np.all(np.isfinite(f)) for f in model.factors)


def test_group_by_index_is_a_stable_grouping():
    index = np.array([2, 0, 2, 4, 0, 2])
    order, starts = group_by_index(index, 5)
    np.testing.assert_array_equal(order, np.argsort(index, kind="stable"))
    np.testing.assert_array_equal(np.diff(starts), np.bincount(index, minlength=5))


def test_max_cp_rank():
    assert max_cp_rank((3, 5)) == 3
    assert max_cp_rank((2, 3, 4)) == 6
    assert max_cp_rank((1, 7)) == 1
    assert math.prod((20, 20)) == max_cp_rank((20, 20, 20))
