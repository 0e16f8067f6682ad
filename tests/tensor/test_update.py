"""New observations taken into a fitted model, and fits that go on."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.tensor import (
    SparseEntries,
    fit_structured_cp,
    update_structured_cp,
)
from sktensordp.tensor._cp_fit import continue_structured_cp
from tests.support.tensors import entries_of, random_problem, unpacked

pytestmark = pytest.mark.thorough


def fitted(shape, *, rank=2, biases=True, scale=1.0, dtype=float, **options):
    """A model of noise around two terms and biases."""
    coordinates, values = random_problem(shape, 20 * sum(shape), seed=1)
    values = values + coordinates[:, 0] % 3 - coordinates[:, 1] % 2
    entries = SparseEntries(coordinates, values.astype(dtype), shape)
    model = fit_structured_cp(
        entries, rank=rank, biases=biases, value_scale=scale, noise_floor=0.0,
        max_iter=20, **options,
    )[0]  # fmt: skip
    # Clearly unequal variances of rows; that of an unknown row is the average.
    weights = np.append(np.random.default_rng(3).uniform(0.3, 3, shape[0]), 1.0)
    return dataclasses.replace(model, row_weights=weights)


def touched_rows(model, coordinates):
    """By mode, the rows among those of all modes that a batch touches."""
    return [
        np.unique(c) + r.start
        for c, r in zip(coordinates.T.tolist(), model.rows, strict=True)
    ]


def with_known_modes(model, mode):
    """The model as if the rows of all modes but one were known almost exactly."""
    covariances = 1e-12 * model.covariances
    r = model.rows[mode]
    covariances[r] = model.covariances[r]
    return dataclasses.replace(model, covariances=covariances)


def entry_variances(model, coordinates):
    """Noise variances of entries, by their rows of the first mode."""
    return model.noise_variance / model.row_weights[coordinates[:, 0]]


def regression(model, mode, row, coordinates, values, factors):
    """Bayesian linear regression of one row, with its old posterior as the prior."""
    at, free = model.rows[mode].start + row, ~model.fixed[mode]
    hit = coordinates[:, mode] == row
    others = [m for m in range(len(model.shape)) if m != mode]
    design = np.prod([factors[m][coordinates[hit, m]] for m in others], axis=0)
    left = values[hit] - design[:, ~free].sum(axis=1)
    old = np.linalg.inv(unpacked(model.covariances[at : at + 1])[0][np.ix_(free, free)])
    b, noise = design[:, free], entry_variances(model, coordinates[hit])
    covariance = np.linalg.inv(old + (b.T / noise) @ b)
    shift = old @ model.means[at, free] + (b.T / noise) @ left
    return covariance @ shift, covariance


@pytest.mark.parametrize(("rank", "biases"), [(2, True), (3, False), (0, True)])
@pytest.mark.parametrize(("shape", "mode"), [((7, 6), 0), ((7, 6), 1), ((4, 5, 6), 2)])
def test_a_batch_given_the_other_modes_is_bayesian_regression(
    shape, mode, rank, biases
):
    model = with_known_modes(fitted(shape, rank=rank, biases=biases), mode)
    coordinates, values = random_problem(shape, 25)
    coordinates[coordinates[:, mode] == 1, mode] = 2
    updated = update_structured_cp(model, coordinates, values, max_iter=2)
    free = ~model.fixed[mode]
    for row in np.unique(coordinates[:, mode]):
        mean, covariance = regression(
            model, mode, row, coordinates, values, model.factors
        )
        at = model.rows[mode].start + row
        found = unpacked(updated.covariances[at : at + 1])[0][np.ix_(free, free)]
        # The known modes are known to a variance of about 1e-12, not exactly.
        assert_allclose(updated.means[at, free], mean, atol=1e-7)
        assert_allclose(found, covariance, atol=1e-7)
        assert np.all(updated.means[at, ~free] == 1)


def assert_fixed_point(model, updated, coordinates, values, atol):
    """Every touched row satisfies the update of mean-field, given the other rows."""
    moments = unpacked(updated.covariances) + np.einsum(
        "ra,rb->rab", updated.means, updated.means
    )
    before, after = unpacked(model.covariances), unpacked(updated.covariances)
    starts = np.array([r.start for r in model.rows])
    met, noise = coordinates + starts, entry_variances(model, coordinates)
    for mode, rows in enumerate(touched_rows(model, coordinates)):
        free, held = np.flatnonzero(~model.fixed[mode]), model.fixed[mode]
        others = np.delete(met, mode, axis=1)
        second = np.prod(moments[others], axis=1) / noise[:, np.newaxis, np.newaxis]
        first = np.prod(updated.means[others], axis=1) * (values / noise)[:, np.newaxis]
        for row in rows:
            hit = met[:, mode] == row
            gram, right = second[hit].sum(axis=0), first[hit].sum(axis=0)
            old = np.linalg.inv(before[row][np.ix_(free, free)])
            covariance = np.linalg.inv(old + gram[np.ix_(free, free)])
            shift = old @ model.means[row, free]
            shift += right[free] - gram[free][:, held].sum(axis=1)
            assert_allclose(updated.means[row, free], covariance @ shift, atol=atol)
            assert_allclose(after[row][np.ix_(free, free)], covariance, atol=atol)


@pytest.mark.parametrize("smooth_modes", [(), (1,)])
@pytest.mark.parametrize("shape", [(7, 6), (4, 5, 6)])
@pytest.mark.parametrize(("rank", "biases"), [(2, True), (2, False), (0, True)])
def test_sweeps_converge_to_the_mean_field_equations(shape, rank, biases, smooth_modes):
    model = fitted(shape, rank=rank, biases=biases, smooth_modes=smooth_modes)
    coordinates, values = random_problem(shape, 30)
    updated = update_structured_cp(model, coordinates, values, max_iter=300)
    assert_fixed_point(model, updated, coordinates, values, atol=1e-8)


def test_a_single_sweep_updates_the_last_mode_given_the_others():
    model = fitted((7, 6), rank=0)
    coordinates, values = random_problem((7, 6), 30)
    updated = update_structured_cp(model, coordinates, values, max_iter=1)
    # Biases enter each other's rows by their means alone.
    first = regression(model, 0, 3, coordinates, values, model.factors)
    second = regression(model, 1, 3, coordinates, values, updated.factors)
    assert_allclose(updated.factors[0][3, 0], first[0][0], rtol=1e-9)
    assert_allclose(updated.factors[1][3, 1], second[0][0], rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("smooth_modes", [(), (2,)])
def test_rows_without_news_stay_as_they_are(dtype, smooth_modes):
    model = fitted((9, 8, 7), dtype=dtype, smooth_modes=smooth_modes)
    copies = model.means.copy(), model.covariances.copy()
    coordinates, values = random_problem((3, 8, 5), 6)
    updated = update_structured_cp(model, coordinates, values, max_iter=3)
    touched = np.concatenate(touched_rows(model, coordinates))
    others = np.setdiff1d(np.arange(len(model.means)), touched)
    assert len(others) > 9
    for before, after in zip(copies, (updated.means, updated.covariances), strict=True):
        assert_array_equal(after[others], before[others])
        assert after.dtype == dtype
        assert np.all(np.any(after[touched] != before[touched], axis=1))
    # The model that was given is left alone.
    assert_array_equal(model.means, copies[0])
    assert_array_equal(model.covariances, copies[1])
    for name in ("fixed", "prior_mean", "precision", "tie", "noise_variance", "shape"):
        assert_array_equal(getattr(updated, name), getattr(model, name))


def test_grown_rows_start_at_the_prior():
    model = fitted((7, 6), scale=2.0)
    coordinates = np.array([[9, 2], [3, 8]], dtype=np.int32)
    updated = update_structured_cp(model, coordinates, np.ones(2), max_iter=2)
    assert updated.shape == (10, 9)
    for mode in (0, 1):
        old, new = model.rows[mode], updated.rows[mode]
        assert new.stop - new.start == updated.shape[mode] + 1
        held, free = model.fixed[mode], ~model.fixed[mode]
        # Between the old rows and the one that was seen, and the unknown one, last.
        fresh = [*range(new.start + model.shape[mode], new.stop - 2), new.stop - 1]
        assert len(fresh) == 3
        expected = np.diag(np.where(held, 0.0, 1 / model.precision[mode]))
        for row in fresh:
            assert_array_equal(updated.means[row], model.prior_mean[mode])
            found = unpacked(updated.covariances[row : row + 1])[0]
            assert_allclose(found, expected, rtol=1e-12)
        assert np.any(updated.means[new.stop - 2] != model.prior_mean[mode])
        kept = np.setdiff1d(np.arange(model.shape[mode]), coordinates[:, mode])
        for field in ("means", "covariances"):
            before, after = getattr(model, field), getattr(updated, field)
            assert_array_equal(after[new.start + kept], before[old.start + kept])
        # The row that was seen is no longer as the prior has it.
        seen = unpacked(updated.covariances[new.stop - 2 : new.stop - 1])[0]
        assert np.all(np.diag(seen)[free] < np.diag(expected)[free])


def test_grown_rows_of_a_smooth_mode_continue_it():
    model = fitted((7, 9), smooth_modes=(1,), scale=2.0)
    coordinates = np.array([[3, 12]], dtype=np.int32)
    updated = update_structured_cp(model, coordinates, np.ones(1), max_iter=2)
    held, mu = model.fixed[1], model.prior_mean[1]
    total = model.precision[1] + model.tie[1]
    weight = model.tie[1] / total
    last = model.rows[1].stop - 2
    own = np.diag(np.where(held, 0, 1 / total))
    start = updated.rows[1].start
    mean, covariance = (
        model.means[last],
        unpacked(model.covariances[last : last + 1])[0],
    )
    for row in range(9, 12):
        mean = np.where(held, 1.0, mu + weight * (mean - mu))
        covariance = np.outer(weight, weight) * covariance + own
        at = start + row
        assert_allclose(updated.means[at], mean, rtol=1e-12)
        found = unpacked(updated.covariances[at : at + 1])[0]
        assert_allclose(found, covariance, rtol=1e-12, atol=1e-15)
    # The row before them, and the unknown one after, are as they were.
    for before, after in ((last, start + 8), (last + 1, updated.rows[1].stop - 1)):
        assert_array_equal(updated.means[after], model.means[before])
        assert_array_equal(updated.covariances[after], model.covariances[before])


@pytest.mark.parametrize("n_threads", [7])
def test_threads_do_not_change_the_update(n_threads):
    model = fitted((300, 8))
    coordinates, values = random_problem((320, 9), 3000)
    one, more = (
        update_structured_cp(model, coordinates, values, max_iter=3, n_threads=n)
        for n in (1, n_threads)
    )
    assert_array_equal(one.means, more.means)
    assert_array_equal(one.covariances, more.covariances)


# The scale is on the columns of one mode each, so that the variances of a row differ by
# its square.
@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_update_does_not_depend_on_units(scale):
    coordinates, values = random_problem((7, 6), 30)
    at = np.array(list(itertools.product(range(-1, 7), range(-1, 6))), dtype=np.int32)
    one, other = (
        update_structured_cp(
            fitted((7, 6), scale=s), coordinates, s * values, max_iter=5
        )
        for s in (1.0, scale)
    )
    assert_allclose(other.predict(at), scale * one.predict(at), rtol=1e-5)
    assert_allclose(other.variance(at)[0], scale**2 * one.variance(at)[0], rtol=1e-5)


def split_problem(seed):
    """A low-rank tensor, and which of its entries come late.

    Nearly all entries of the last five rows of the first mode are among them: before,
    these rows have three each.
    """
    rng = np.random.default_rng(seed)
    shape, n = (60, 40, 6), 6000
    factors = [rng.standard_normal((size, 2)) for size in shape[:2]]
    factors.append(1 + 0.3 * rng.standard_normal((6, 2)))
    truth = np.einsum("ir,jr,kr->ijk", *factors)
    cells = rng.permutation(truth.size)[:n]
    coordinates = np.column_stack(np.unravel_index(cells, shape)).astype(np.int32)
    values = truth[tuple(coordinates.T)] + 0.3 * rng.standard_normal(n)
    late = coordinates[:, 0] >= 55
    for row in range(55, 60):
        late[np.flatnonzero(coordinates[:, 0] == row)[:3]] = False
    late[rng.permutation(n)[: n // 10 - late.sum()]] = True
    held_out = np.delete(np.arange(truth.size), cells)
    held_out = np.column_stack(np.unravel_index(held_out, shape)).astype(np.int32)
    return coordinates, values, late, truth, held_out


def errors_of_updating(seed, dtype):
    """On held-out cells, of the fit on 90 %, that plus an update, and on everything.

    Once over all of them, and once over the rows that had been seen hardly before.
    """
    coordinates, values, late, truth, at = split_problem(seed)
    values = values.astype(dtype)
    early, everything = (
        fit_structured_cp(
            SparseEntries(coordinates[given], values[given] / 2, truth.shape), rank=2,
            biases=True, value_scale=2.0, noise_floor=0.0, max_iter=100,
        )[0]
        for given in (~late, np.ones_like(late))
    )  # fmt: skip
    updated = update_structured_cp(early, coordinates[late], values[late], max_iter=5)
    hardly, found = at[:, 0] >= 55, []
    for model in (early, updated, everything):
        square = (model.predict(at) - truth[tuple(at.T)]) ** 2
        found.append((math.sqrt(square.mean()), math.sqrt(square[hardly].mean())))
    return np.array(found).T


# Over 5 seeds, held-out errors of the fit on 90 % were 0.08 to 0.17 (0.23 to 0.57 in
# the late rows); of the update and of the fit on everything alike, 0.05 to 0.06 (0.04
# to 0.07).
@pytest.mark.slow
@pytest.mark.parametrize(("seed", "dtype"), [(0, np.float32), (1, np.float64)])
def test_an_update_is_nearly_as_good_as_a_fit_to_everything(seed, dtype):
    overall, late_rows = errors_of_updating(seed, dtype)
    for early, updated, everything in (overall, late_rows):
        assert updated < 1.05 * everything
        assert updated < 0.8 * early
    assert late_rows[1] < 0.3 * late_rows[0]


@pytest.mark.parametrize("smooth_modes", [(), (1,)])
def test_many_updates_stay_finite_and_shrink_the_variance(smooth_modes):
    model = fitted((7, 6), dtype=np.float32, smooth_modes=smooth_modes)
    coordinates, _ = random_problem((3, 3), 20)
    values = model.predict(coordinates)
    start = model.variance(coordinates)[0]
    for _ in range(100):
        model = update_structured_cp(model, coordinates, values, max_iter=2)
    assert np.all(np.isfinite(model.means))
    assert np.all(np.isfinite(model.covariances))
    assert np.all(model.variance(coordinates)[0] < 0.25 * start)
    # What was seen again and again is what is predicted.
    assert_allclose(model.predict(coordinates), values, atol=0.1)


def distinct_batch(shape, n):
    """Entries without repetition; the first row of the first mode has none."""
    rng = np.random.default_rng(2)
    cells = rng.permutation(np.prod(shape))[:n]
    coordinates = np.column_stack(np.unravel_index(cells, shape)).astype(np.int32)
    coordinates = coordinates[coordinates[:, 0] > 0]
    values = coordinates[:, 0] % 3 - coordinates[:, 1] % 2
    return coordinates, values + rng.standard_normal(len(coordinates))


def at_the_prior(model):
    """The model before any observation, for modes that are not smooth."""
    covariances, size = np.zeros_like(model.covariances), model.fixed.shape[1]
    means, diagonal = np.empty_like(model.means), np.equal(*np.triu_indices(size))
    for mode, r in enumerate(model.rows):
        means[r] = model.prior_mean[mode]
        variance = np.where(model.fixed[mode], 0, 1 / model.precision[mode])
        covariances[r, np.flatnonzero(diagonal)] = variance
    return dataclasses.replace(model, means=means, covariances=covariances)


@pytest.mark.parametrize(
    ("rank", "biases", "shape", "dense"),
    [(2, True, (7, 6), True), (2, False, (4, 5, 6), False), (0, True, (7, 6), False)],
)
def test_going_on_converges_to_the_mean_field_equations(shape, rank, biases, dense):
    model = fitted(shape, rank=rank, biases=biases)
    copies = model.means.copy(), model.covariances.copy()
    coordinates, values = distinct_batch(shape, 35)
    entries = entries_of(dense, coordinates, values, shape)
    found = continue_structured_cp(model, entries, max_iter=500)
    prior = at_the_prior(model)
    assert_fixed_point(prior, found, coordinates, values, atol=1e-5)
    # Rows without entry, and the unknown one, are at the prior.
    for row in (0, model.rows[0].stop - 1, model.rows[1].stop - 1):
        assert_allclose(found.means[row], prior.means[row], atol=1e-12)
        assert_allclose(found.covariances[row], prior.covariances[row], atol=1e-12)
    for name in ("fixed", "prior_mean", "precision", "tie", "noise_variance", "shape"):
        assert_array_equal(getattr(found, name), getattr(model, name))
    assert_array_equal(model.means, copies[0])
    assert_array_equal(model.covariances, copies[1])


@pytest.mark.parametrize("smooth_modes", [(), (1,)])
def test_going_on_is_the_same_for_all_entries_and_threads(smooth_modes):
    model = fitted((300, 9), smooth_modes=smooth_modes)
    coordinates, values = distinct_batch((300, 9), 2000)
    one, more, dense = (
        continue_structured_cp(
            model, entries_of(dense, coordinates, values, (300, 9)), max_iter=4,
            n_threads=n_threads,
        )
        for dense, n_threads in ((False, 1), (False, 3), (True, 1))
    )  # fmt: skip
    assert_array_equal(one.means, more.means)
    assert_array_equal(one.covariances, more.covariances)
    assert_allclose(one.means, dense.means, atol=1e-9)
    assert_allclose(one.covariances, dense.covariances, atol=1e-9)


@pytest.mark.parametrize("smooth_modes", [(), (1,)])
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_sweeps_can_be_divided(scale, smooth_modes):
    model = fitted((7, 6), scale=scale, smooth_modes=smooth_modes)
    coordinates, values = distinct_batch((7, 6), 30)
    entries = SparseEntries(coordinates, scale * values, (7, 6))
    at_once = continue_structured_cp(model, entries, max_iter=7)
    first = continue_structured_cp(model, entries, max_iter=3)
    then = continue_structured_cp(first, entries, max_iter=4)
    tiny = 1e-12 * abs(at_once.means).max()
    assert_allclose(then.means, at_once.means, rtol=1e-9, atol=tiny)
    assert np.max(abs(at_once.means - first.means)) > 1e3 * tiny
