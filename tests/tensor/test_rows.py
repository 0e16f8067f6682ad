"""Gaussian rows beside a slow and obvious reference, and what fits of them promise."""

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.datasets import make_ratings
from sktensordp.tensor import (
    Evidence,
    Observations,
    TableLikelihood,
    add_entries,
    fit_cp,
    own_rows,
    pattern_of,
)
from tests.support.seams import (
    Fit,
    as_sums,
    leading_terms,
    places_of,
    row_moments,
    row_weighting,
    solve_mode,
    started,
    sums,
    tensor_cp_rows,
    tensor_observations,
    tensor_rows,
    unpacked,
    update_prior,
    with_terms,
    with_terms_that_stand_out,
)
from tests.support.tensors import (
    chain_by_hand,
    covariance_of,
    moment_of,
    row_by_hand,
    with_random_rows,
)

# --- the reference -------------------------------------------------------------------


def moments_of(rows, mode, at):
    """E[b] and E[b b^T] of the regressors of an entry in a mode."""
    others = [m for m in range(rows.n_modes) if m != mode]
    mean, square = 1.0, 1.0
    for m in others:
        mean = mean * rows.means[m][at[m]].astype(float)
        square = square * moment_of(rows, m, at[m])
    return mean, square


def reference(rows, places, values, mode, r):
    """Mean, covariance and error of a row, from the normal equations of its entries."""
    n_columns = rows.fixed.shape[1]
    gram, projection, energy = np.zeros((n_columns,) * 2), np.zeros(n_columns), 0.0
    weights = np.ones(len(rows.means[0])) if rows.weights is None else rows.weights
    own_weight = weights[r] if mode == 0 else 1.0
    for at, y in zip(places, values.astype(float), strict=True):
        if at[mode] == r:
            mean, square = moments_of(rows, mode, at)
            gram += weights[at[0]] * square
            projection += weights[at[0]] * y * mean
            energy += y**2
    row, covariance = row_by_hand(rows, mode, r, gram, projection)
    fitted = np.sum(gram * (np.outer(row, row) + covariance)) - 2 * projection @ row
    return row, covariance, energy + fitted / own_weight


# --- problems ------------------------------------------------------------------------

SHAPES = {"matrix": (7, 6), "three": (6, 5, 4), "four": (4, 3, 5, 3)}


def random_state(shape, n_features=0, rank=2, biases=True, dtype=float, seed=0, n=60):
    """Entries, whose indices have gaps, and rows with covariances of all sorts."""
    rng = np.random.default_rng(seed)
    places = np.column_stack([rng.integers(0, s, n) for s in shape])
    places[: max(shape)] = np.column_stack([np.arange(max(shape)) % s for s in shape])
    index = [np.sort(rng.choice(10 * s, s, replace=False)) for s in shape]
    coordinates = np.column_stack([i[p] for i, p in zip(index, places.T, strict=True)])
    values = rng.standard_normal(n).astype(dtype)
    features = rng.standard_normal((10 * shape[1] + 1, n_features))
    entries = Observations.from_arrays(coordinates, values)
    rows = started(entries, rank=rank, biases=biases, noise=0.3, features=features)
    rows = with_random_rows(rows, rng, dtype)
    return rows, entries, places, coordinates, values


CASES = [
    ("matrix", {}),
    ("matrix", {"biases": False}),
    ("matrix", {"n_features": 4}),
    # Most columns are known exactly: Gram matrices of means are products of matrices.
    ("matrix", {"n_features": 40}),
    ("matrix", {"n_features": 40, "rank": 0}),
    ("three", {}),
    ("three", {"biases": False}),
    ("three", {"n_features": 60}),
    ("four", {"n_features": 3}),
]


@pytest.fixture(params=["few", "many", "in fibers"])
def loops(request, monkeypatch):
    """Whether entries count as many, so that loops are compiled, and fibers as long."""
    if request.param != "few":
        monkeypatch.setattr(tensor_observations, "_MANY_ENTRIES", 0)
        monkeypatch.setattr(tensor_observations, "_MANY_IN_TENSOR", 0)
    if request.param == "in fibers":
        monkeypatch.setattr(tensor_observations, "_LONG_FIBER", 0)


@pytest.mark.thorough_after_one
@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shape", "options"), CASES)
def test_rows_are_those_of_the_reference(shape, options, weighted):
    rows, entries, places, _, values = random_state(SHAPES[shape], **options)
    if weighted:
        weights = np.random.default_rng(1).uniform(0.3, 3, len(rows.means[0]))
        rows = replace(rows, weights=weights)
    for mode in range(rows.n_modes):
        found, _ = solve_mode(rows, entries, mode, n_threads=2)
        for r in range(len(rows.means[mode])):
            mean, covariance, error = reference(rows, places, values, mode, r)
            assert_allclose(found.means[mode][r], mean, rtol=1e-8, atol=1e-9)
            own = covariance_of(found, mode)[r]
            assert_allclose(own, covariance, rtol=1e-8, atol=1e-9)
            if mode == 0:
                assert_allclose(found.errors[r], error, rtol=1e-8)


@pytest.mark.thorough
def test_most_columns_known_takes_products_of_matrices(monkeypatch):
    taken = []
    monkeypatch.setattr(
        Observations, "squares", lambda *_, **__: taken.append(1) or 1 / 0
    )
    rows, entries, *_ = random_state(SHAPES["matrix"], n_features=40)
    with pytest.raises(ZeroDivisionError):
        sums(rows, entries, 0)
    rows, entries, *_ = random_state(SHAPES["matrix"])
    sums(rows, entries, 0)
    assert len(taken) == 1


def days_of_users(n_users=6, n_items=7):
    """Coordinates in which every user has entries on one day alone."""
    users, items = (index.ravel() for index in np.indices((n_users, n_items)))
    return np.column_stack([users, items, users % 3])


def test_entries_are_taken_by_fiber_where_fibers_are_long(monkeypatch):
    X = days_of_users()
    assert Observations.from_arrays(X, np.ones(len(X))).fibers is None  # they are few
    monkeypatch.setattr(tensor_observations, "_MANY_IN_TENSOR", 0)
    fibers = Observations.from_arrays(X, np.ones(len(X))).fibers
    assert fibers.mode == 1
    assert_array_equal(np.unique(fibers.entries.coordinates[:, [0, 2]], axis=0),
                       np.unique(X[:, [0, 2]], axis=0))  # fmt: skip
    X[:, 2] = np.arange(len(X)) % 5
    assert Observations.from_arrays(X, np.ones(len(X))).fibers is None


@pytest.mark.parametrize("swap", [[0, 1, 2], [1, 0, 2]], ids=["items", "users"])
def test_sums_of_fibers_are_kept_until_what_they_add_up_changes(monkeypatch, swap):
    """In these fibers, items differ, or users, whose weights are in the sums."""
    X, rng = days_of_users()[:, swap], np.random.default_rng(5)
    values, other_values = rng.standard_normal((2, len(X)))
    alone = Observations.from_arrays(X, values)
    monkeypatch.setattr(tensor_observations, "_MANY_IN_TENSOR", 0)
    entries = Observations.from_arrays(X, values)
    features = rng.standard_normal((8, 2))
    rows = started(entries, rank=2, biases=True, noise=0.3, features=features)
    rows = with_random_rows(rows, rng, float)
    for k in range(2):
        for mode in (1, 2, 0, 1, 2, 0):
            found, by_hand = (sums(rows, each, mode) for each in (entries, alone))
            for one, other in zip(found, by_hand, strict=True):
                n_needed = found.gram.shape[1]
                assert_allclose(one[:, :n_needed], other[:, :n_needed], atol=1e-12)
            rows, _ = solve_mode(rows, entries, mode)
            if mode == 0:
                weights = rng.uniform(0.3, 3, len(rows.means[0]))
                rows = replace(rows, weights=weights)
        if k == 0:
            entries = entries.with_values(other_values)
            alone = alone.with_values(other_values)


@pytest.mark.thorough
def test_a_smooth_mode_is_one_gaussian():
    rows, entries, places, _, values = random_state(SHAPES["three"])
    rng = np.random.default_rng(2)
    tie = np.zeros(rows.tie.shape)
    tie[2] = np.where(rows.fixed[2], 0, rng.uniform(1, 3, tie.shape[1]))
    smooth = replace(rows, tie=tie)
    found, cross = solve_mode(smooth, entries, 2)
    n_rows, free = len(rows.means[2]), rows.free[2]
    blocks, shifts = [], []
    for r in range(n_rows):
        mean, covariance, _ = reference(rows, places, values, 2, r)
        blocks.append(np.linalg.inv(covariance[np.ix_(free, free)]))
        shifts.append(blocks[-1] @ mean[free])
    mean, whole = chain_by_hand(blocks, np.array(shifts), tie[2, free])
    assert_allclose(found.means[2][:, free], mean, rtol=1e-8)
    for r in range(n_rows):
        own = covariance_of(found, 2)[r][np.ix_(free, free)]
        assert_allclose(own, whole[r, :, r], rtol=1e-7)
    for r in range(n_rows - 1):
        assert_allclose(cross[r], np.diag(whole[r, :, r + 1]), rtol=1e-7)


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES)
def test_the_variance_of_a_prediction(shape):
    rows, _, places, coordinates, _ = random_state(SHAPES[shape], n_features=2)
    variance, _ = rows.variance(coordinates)
    for k, at in enumerate(places):
        mean, square = moments_of(rows, 0, at)
        total = np.sum(square * moment_of(rows, 0, at[0]))
        predicted = mean @ rows.means[0][at[0]]
        assert_allclose(rows.predict(coordinates[[k]]), predicted)
        assert_allclose(variance[k], total - predicted**2)


# --- parts, and what comes later -----------------------------------------------------


@pytest.mark.thorough
def test_sums_over_parts_add_up():
    rows, entries, _, coordinates, values = random_state((9, 6, 4), n_features=3)
    part = np.random.default_rng(3).integers(0, 3, len(coordinates))
    parts = [
        Observations.from_arrays(coordinates[part == k], values[part == k], rows.used)
        for k in range(3)
    ]
    for mode in range(3):
        whole = sums(rows, entries, mode)
        found = [sums(rows, p, mode) for p in parts]
        assert_allclose(sum(f.gram for f in found), whole.gram, atol=1e-10)
        assert_allclose(sum(f.projection for f in found), whole.projection, atol=1e-10)
        halves = [np.arange(len(rows.means[mode])) % 2 == k for k in range(2)]
        for one, two, all_rows in zip(
            *(row_moments(rows, mode, half) for half in halves),
            row_moments(rows, mode, halves[0] | halves[1]),
            strict=True,
        ):
            assert_allclose(one + two, all_rows)


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_alone_is_the_row_among_others(shape):
    # So it is at home: the other modes' rows, and one user's own entries.
    rows, entries, places, coordinates, values = random_state(
        SHAPES[shape], n_features=3
    )
    whole, _ = solve_mode(rows, entries, 0)
    own = places[:, 0] == 2
    alone = Observations.from_arrays(
        coordinates[own], values[own], [rows.used[0][[2]], *rows.used[1:]]
    )
    at_home = replace(
        rows.with_mode(0, rows.means[0][[2]], rows.covariances[0][[2]]),
        used=alone.used,
    )
    found, _ = solve_mode(at_home, alone, 0)
    assert_allclose(found.means[0][0], whole.means[0][2])
    assert_allclose(found.covariances[0][0], whole.covariances[0][2])


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [float, np.float32])
def test_the_posterior_is_the_prior_of_what_comes_later(dtype):
    rows, entries, _, coordinates, values = random_state((5, 4), n=80, dtype=dtype)
    early = np.arange(80) < 50
    flat = np.zeros_like(rows.precision)
    for mode in range(2):
        whole, _ = solve_mode(rows, entries, mode)
        first = Observations.from_arrays(coordinates[early], values[early], rows.used)
        second = Observations.from_arrays(
            coordinates[~early], values[~early], rows.used
        )
        before, _ = solve_mode(rows, first, mode)
        later = replace(before, precision=flat)
        found, _ = solve_mode(later, second, mode, before=as_sums(before, mode))
        rtol = 1e-7 if dtype is float else 1e-3
        assert_allclose(found.means[mode], whole.means[mode], rtol=rtol, atol=rtol)
        assert_allclose(
            found.covariances[mode], whole.covariances[mode], rtol=rtol, atol=rtol
        )


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_users_from_their_own_entries(shape):
    rows, _, _, coordinates, values = random_state(SHAPES[shape], n_features=2)
    rows = replace(rows, precision=np.full_like(rows.precision, 2.0))
    at = coordinates[:6].copy()
    at[:, 0] = 10**8
    found = add_entries(rows, at, values[:6], n_sweeps=1, modes=[0])
    # As for a new row among all, whose prior is that of the others.
    entries = Observations.from_arrays(
        at, values[:6], [np.array([10**8]), *rows.used[1:]]
    )
    alone = replace(
        rows.with_mode(0, rows.rows_at(0, at[:1, 0]), rows.covariances[0][:1]),
        prior_mean=np.where(rows.fixed, rows.prior_mean, rows.unknown),
        used=entries.used,
    )
    alone, _ = solve_mode(alone, entries, 0)
    assert_allclose(found.means[0][-1], alone.means[0][0], rtol=1e-7)
    assert_array_equal(found.used[0], [*rows.used[0], 10**8])
    for mode in range(1, rows.n_modes):
        assert_array_equal(found.means[mode], rows.means[mode])
    assert_array_equal(found.means[0][:-1], rows.means[0])


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES)
def test_own_rows_have_the_prior_of_all_and_read_no_row_of_their_own(shape):
    """Values of two variances: as in a regression on second moments of the others."""
    rows, _, _, coordinates, values = random_state(SHAPES[shape], n_features=2)
    rows = replace(rows, precision=np.full_like(rows.precision, 2.0), weights=None)
    user = rows.used[0][2]
    at = coordinates[:9].copy()
    at[:, 0] = user
    own, other = Evidence(at[:6], values[:6], 0.3), Evidence(at[6:], values[6:9], 1.7)
    found = own_rows(rows, own, [other])
    assert_array_equal(found.used, [user])
    free, fixed = rows.free[0], np.flatnonzero(rows.fixed[0])
    precision = np.diag(rows.precision[0, free])
    shift = rows.precision[0, free] * rows.prior_mean[0, free]
    for where, value, noise in zip(at, values, [0.3] * 6 + [1.7] * 3, strict=False):
        pairs = zip(where, rows.used, strict=True)
        places = [places_of(index[np.newaxis], used)[0] for index, used in pairs]
        mean, square = moments_of(rows, 0, places)
        precision += square[np.ix_(free, free)] / noise
        shift += (mean[free] * value - square[np.ix_(free, fixed)].sum(axis=1)) / noise
    assert_allclose(found.means[0, free], np.linalg.solve(precision, shift), rtol=1e-6)
    assert_allclose(
        unpacked(found.covariances, len(free))[0], np.linalg.inv(precision), rtol=1e-6,
        atol=1e-12,
    )  # fmt: skip
    # Whatever the released row of the user is.
    other_rows = rows.with_mode(0, rows.means[0] + 1, rows.covariances[0] * 2)
    free_of_row = own_rows(other_rows, own, [other])
    assert_array_equal(free_of_row.means, found.means)
    assert_array_equal(free_of_row.covariances, found.covariances)


@pytest.mark.thorough
def test_threads_and_blocks_do_not_change_rows(monkeypatch):
    rows, entries, *_ = random_state((40, 9, 3), n=400)
    for mode in range(3):
        alone, _ = solve_mode(rows, entries, mode)
        shared, _ = solve_mode(rows, entries, mode, n_threads=3)
        monkeypatch.setattr(tensor_rows, "_BLOCK", 2**8)
        blocks, _ = solve_mode(rows, entries, mode, n_threads=2)
        monkeypatch.undo()
        assert_allclose(shared.means[mode], alone.means[mode], rtol=1e-12)
        assert_allclose(blocks.means[mode], alone.means[mode], rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 2)])
def test_sums_of_single_precision_are_in_double(shape):
    # Single precision would lose the ones beside the large value.
    n = 20_000
    coordinates = np.zeros((n, len(shape)), dtype=int)
    values = np.ones(n, np.float32)
    values[0] = 2.0**25
    entries = Observations.from_arrays(coordinates, values)
    rows = started(entries, rank=0, biases=True, noise=1.0)
    assert rows.means[0].dtype == np.float32
    assert sums(rows, entries, 0).projection[0, 0] == 2.0**25 + n - 1


# --- learning ------------------------------------------------------------------------


@pytest.mark.thorough
def test_precisions_are_learned_from_how_rows_vary():
    rows, entries, *_ = random_state((30, 6), rank=1)
    found = row_moments(rows, 0, entries.counts[0])
    columns = np.ones(3, dtype=bool)
    em = update_prior(rows, 0, found, columns, prunes=np.zeros(3, bool)).precision[0]
    mackay = update_prior(rows, 0, found, columns, prunes=np.ones(3, bool)).precision[0]
    free = rows.free[0]
    means = rows.means[0][:, free]
    variances = np.einsum("raa->a", covariance_of(rows, 0))[free]
    squares, before = (means**2).sum(axis=0), rows.precision[0, free]
    assert_allclose(em[free], 30 / (squares + variances))
    expected = before * np.maximum(30 / before - variances, 30e-9 / before) / squares
    assert_allclose(mackay[free], np.maximum(expected, 1e-6))
    kept = update_prior(rows, 0, found, ~columns, prunes=columns).precision
    assert_array_equal(kept, rows.precision)


@pytest.mark.thorough
def test_rows_with_larger_errors_weigh_less():
    rng = np.random.default_rng(4)
    users, items = np.divmod(np.arange(60 * 50), 50)
    scale = np.where(np.arange(60) < 30, 0.1, 0.4)
    values = scale[users] * rng.standard_normal(len(users))
    entries = Observations.from_arrays(np.column_stack([users, items]), values)
    rows, _ = fit_cp(entries, rank=0, biases=True, noise_floor=0.0, max_iter=10)
    assert rows.weights[:30].min() > 1.2 * rows.weights[30:].max()
    # What the model states is shrunk less.
    stated = rows.stated_weights
    assert stated[:30].min() > 2 * stated[30:].max()
    # What is left of noise that is known says nothing about rows.
    found = row_moments(rows, 0, entries.counts[0])
    assert row_weighting(rows.noise, found, entries.counts[0], 0.0) is not None
    assert row_weighting(rows.noise, found, entries.counts[0], rows.noise) is None


# --- indices without entries ---------------------------------------------------------


@pytest.mark.thorough
def test_an_unknown_index_has_the_row_of_the_average_entry():
    rows, entries, places, *_ = random_state(SHAPES["matrix"], n_features=2)
    rows = rows.with_average_rows(entries.counts)
    # Biases make up for the value of the average rows, which is not zero.
    average = [rows.means[m][places[:, m]].mean(axis=0) for m in range(2)]
    average[1][rows.of_features] = rows.features[-1]
    correction = np.sum(average[0] * average[1])
    assert abs(correction) > 0.01
    for mode in range(2):
        free = rows.free[mode]
        average = rows.means[mode][places[:, mode]][:, free].mean(axis=0)
        unknown = rows.unknown[mode].copy()
        unknown[mode] += correction
        assert_allclose(unknown[free], average)
    index = np.setdiff1d(np.arange(60), rows.used[1])[:3]
    found = rows.rows_at(1, np.append(index, [-1, 10**6]))
    # Declared features are known without entries; beyond them, the last row is.
    of_features = rows.features[np.append(index, [-1, -1])]
    assert_array_equal(found[:, rows.of_features], of_features)
    assert_array_equal(
        found[:, rows.free[1]], np.tile(rows.unknown[1, rows.free[1]], (5, 1))
    )


# --- terms ---------------------------------------------------------------------------


def ratings(noise=True, seed=0):
    data = make_ratings(100, 150, 4000, random_state=seed)
    X, y = data.data, data.target.astype(float)
    if not noise:
        y = np.random.default_rng(seed).permutation(y)
    test = np.arange(len(y)) % 5 == 0
    return X, (y - y[~test].mean()) / 2, test


@pytest.mark.thorough
def test_terms_without_evidence_go_and_only_those_that_stand_out_come():
    X, y, _ = ratings(noise=False)
    entries = Observations.from_arrays(X, y)
    rows, _ = fit_cp(entries, rank=20, biases=True, noise_floor=0.0, max_iter=25)
    assert np.count_nonzero(rows.terms) <= 1
    # A term that is planted beside the noise stands out.
    rng = np.random.default_rng(5)
    u, v = rng.standard_normal((100, 1)), rng.standard_normal((150, 1))
    planted = y + 0.5 * u[X[:, 0], 0] * v[X[:, 1], 0]
    fit = Fit(rows, entries.with_values(planted), 1e-9, terms_since=0.0)
    found = leading_terms(fit.entries.residuals(rows), 5, stand_out=True)
    assert found[0].shape[1] == 1
    grown = with_terms_that_stand_out(fit, 20, True)
    assert grown.rows.terms.sum() == rows.terms.sum() + 1
    assert with_terms_that_stand_out(fit, 20, False).rows.terms.sum() <= 1


@pytest.mark.thorough
def test_terms_that_stay_keep_their_rows():
    rows, *_ = random_state(SHAPES["three"], n_features=2, rank=3)
    new = [np.full((len(m), 1), 7.0) for m in rows.means]
    changed = with_terms(rows, np.array([0, 2]), new)
    terms = np.flatnonzero(rows.terms)
    kept = np.setdiff1d(np.arange(rows.fixed.shape[1]), terms[1])
    same = np.flatnonzero(np.arange(changed.fixed.shape[1]) != terms[2])
    for mode in range(3):
        assert_array_equal(changed.means[mode][:, same], rows.means[mode][:, kept])
        assert np.all(changed.means[mode][:, terms[2]] == 7)
        before, after = (covariance_of(each, mode) for each in (rows, changed))
        assert_array_equal(after[:, same][:, :, same], before[:, kept][:, :, kept])
        assert np.all(after[:, terms[2]] == 0)


@pytest.mark.thorough
def test_tries_end_where_values_have_noise(monkeypatch):
    # Of 24 tries of 200 sweeps, each ends when it makes no progress.
    rng = np.random.default_rng(6)
    X = np.argwhere(np.ones((6, 6, 6)))
    entries = Observations.from_arrays(X, rng.standard_normal(len(X)))
    n_sweeps = []
    swept = tensor_cp_rows.swept
    monkeypatch.setattr(
        tensor_cp_rows, "swept", lambda fit: n_sweeps.append(1) or swept(fit)
    )
    fit_cp(entries, rank=2, biases=True, noise_floor=0.0, max_iter=10)
    assert len(n_sweeps) < 24 * 50


# --- whole fits ----------------------------------------------------------------------


@pytest.mark.thorough
def test_features_and_weights_of_a_fit():
    X, y, test = ratings()
    features = pattern_of(X[~test], (100, 150), None).features
    fit = partial(fit_cp, biases=True, noise_floor=0.0, max_iter=25)
    entries = Observations.from_arrays(X[~test], y[~test])
    rows, n_iter = fit(entries, rank=5, features=features)
    assert 17 <= n_iter <= 25
    single = entries.with_values(y[~test].astype(np.float32))
    close, _ = fit(single, rank=5, features=features)
    assert close.predict(X).dtype == np.float32
    error = [
        np.sqrt(np.mean((r.predict(X[test]) - y[test]) ** 2)) for r in (rows, close)
    ]
    assert_allclose(error[1], error[0], rtol=0.01)


@pytest.mark.thorough
@pytest.mark.parametrize("n_modes", [2, 3])
def test_few_entries_need_nothing_compiled(n_modes, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in [n for n in sys.modules if ".tensor.kernels" in n]:
        monkeypatch.delitem(sys.modules, name)
    X, y, test = ratings()
    X = np.column_stack([X, np.arange(len(X)) % 4])[:, :n_modes]
    levels = np.unique(y)
    channel = np.full((len(levels),) * 2, 0.5 / (len(levels) - 1))
    np.fill_diagonal(channel, 0.5)
    drawn = np.searchsorted(levels, y[~test])
    features = pattern_of(X[~test], (100, 150, 4)[:n_modes], None).features
    rows, _ = fit_cp(
        Observations.from_arrays(X[~test], y[~test], outputs=drawn), rank=3,
        biases=True,
        noise_floor=0.1, max_iter=8, features=features,
        likelihood=TableLikelihood(levels, channel),
    )  # fmt: skip
    found = add_entries(rows, X[test][:50], y[test][:50], n_sweeps=1)
    variance, linear = found.variance(X[test])
    assert np.all(variance > 0)
    assert np.all(linear <= variance * (1 + 1e-9))
