"""The fit of the structured CP against slow references and known truths."""

import dataclasses
import math

import numpy as np
import pytest

from sktensordp.tensor import (
    SparseEntries,
    _cp_fit,
    fit_structured_cp,
    max_cp_rank,
)
from sktensordp.tensor._cp import cp_columns
from sktensordp.tensor._row_fit import RowFit
from tests.support.points import POINTS
from tests.support.tensors import as_dense, random_problem, unpacked

pytestmark = pytest.mark.thorough


def reference_update(mode, coordinates, values, means, covariances, fit):
    """Row posteriors by the book: one row, one matrix inverse at a time."""
    n_rows, n_columns = means[mode].shape
    held, mu, lam, v = fit.fixed, fit.prior_mean, fit.precision, fit.noise
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


def started_fit(shape, rank, biases, *, dense=False, dtype=float):
    """A fit before its first sweep, with a prior that is not the default."""
    coordinates, values = random_problem(shape, 60)
    if dense:
        coordinates, first = np.unique(coordinates, axis=0, return_index=True)
        values = values[first]
    values = values.astype(dtype)
    entries = (as_dense if dense else SparseEntries)(coordinates, values, shape)
    fit = RowFit(entries, *cp_columns(len(shape), rank, biases, ()))
    fit.start_at_prior()
    rng = np.random.default_rng(1)
    fit.precision = rng.uniform(0.5, 2, fit.fixed.shape)
    fit.prior_mean = np.where(fit.fixed, 1.0, rng.standard_normal(fit.fixed.shape))
    fit.noise = 0.7
    return fit, coordinates, values.astype(float)


def random_covariances(fit):
    """Packed; zero where a column is held."""
    rng = np.random.default_rng(2)
    roots = 0.5 * rng.standard_normal((len(fit.means), *[fit.fixed.shape[1]] * 2))
    for held, r in zip(fit.fixed, fit.rows, strict=True):
        roots[r, held] = 0
    full = roots @ roots.transpose(0, 2, 1)
    return full[:, *np.triu_indices(fit.fixed.shape[1])].astype(fit.means.dtype)


# Every pair of a form, a number of modes and a kind of entries.
@pytest.mark.parametrize(
    ("rank", "biases", "shape", "dense", "dtype"),
    [
        (3, True, (5, 7), False, "f4"),
        (3, True, (4, 3, 6), True, "f8"),
        (3, True, (2, 3, 2, 4), False, "f8"),
        (2, False, (5, 7), True, "f8"),
        (2, False, (4, 3, 6), False, "f4"),
        (0, True, (5, 7), False, "f8"),
        (0, True, (2, 3, 2, 4), True, "f4"),
    ],
)
@pytest.mark.parametrize("independent", [False, True])
def test_update_equals_the_reference(shape, rank, biases, dense, dtype, independent):
    fit, coordinates, values = started_fit(
        shape, rank, biases, dense=dense, dtype=dtype
    )
    fit.independent_columns = independent
    fit.start([fit.means], [random_covariances(fit)], fit.noise)
    seen = np.eye(fit.fixed.shape[1]) if independent else 1.0
    tolerance = 1e-10 if dtype == "f8" else 1e-4
    with fit.threads(2) as pool:
        for mode, r in enumerate(fit.rows):
            means = [fit.means[r].astype(float) for r in fit.rows]
            covariances = seen * unpacked(fit.covariances)
            expected = reference_update(
                mode, coordinates, values, means,
                [covariances[r] for r in fit.rows], fit,
            )  # fmt: skip
            error, cross = fit.update(mode, pool, 2)
            assert cross is None
            found = unpacked(fit.covariances)[r]
            np.testing.assert_allclose(fit.means[r], expected[0], atol=tolerance)
            np.testing.assert_allclose(found, expected[1], atol=tolerance)
            np.testing.assert_allclose(error, expected[2].sum(), rtol=tolerance)


def low_rank_problem(dtype=float):
    rng = np.random.default_rng(0)
    shape, tensor = (12, 9, 7), np.zeros((12, 9, 7))
    for _ in range(2):
        tensor += np.multiply.outer(
            np.multiply.outer(rng.normal(size=12), rng.normal(size=9)),
            rng.uniform(0.5, 1.5, 7),
        )
    coordinates = np.argwhere(rng.random(shape) < 0.6).astype(np.int32)
    values = tensor[tuple(coordinates.T)] + 0.1 * rng.standard_normal(len(coordinates))
    return coordinates, values.astype(dtype), shape


def everywhere(shape):
    """All coordinates of a tensor, and those that have unknown rows."""
    return np.argwhere(np.ones(np.array(shape) + 1)).astype(np.int32) - 1


def fit_to(entries, **options):
    options = {
        "rank": 2, "biases": True, "value_scale": 1.0, "noise_floor": 0.0,
        "max_iter": 40, **options,
    }  # fmt: skip
    return fit_structured_cp(entries, **options)[0]


def fit(coordinates, values, shape, **options):
    scaled = values / options.get("value_scale", 1.0)
    return fit_to(SparseEntries(coordinates, scaled, shape), **options)


@pytest.mark.parametrize("smooth_modes", [(), (1,)])
@pytest.mark.parametrize("least_independent", [0, math.inf])
def test_dense_and_sparse_fits_agree(least_independent, smooth_modes, monkeypatch):
    monkeypatch.setattr(
        *POINTS["least entries for independent columns"], least_independent
    )
    coordinates, values, shape = low_rank_problem()
    options = {"rank": 3, "value_scale": 2.0, "max_iter": 15}
    options["smooth_modes"] = smooth_modes
    one, other = (
        fit_to(make(coordinates, values / 2.0, shape), **options)
        for make in (SparseEntries, as_dense)
    )
    at = everywhere(shape)
    for a, b in zip(
        (one.predict(at), *one.variance(at)),
        (other.predict(at), *other.variance(at)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    assert one.noise_variance == pytest.approx(other.noise_variance, rel=1e-8)


@pytest.mark.parametrize("least_independent", [0, math.inf])
@pytest.mark.parametrize("make", [SparseEntries, as_dense])
def test_single_and_double_precision_agree(make, least_independent, monkeypatch):
    monkeypatch.setattr(
        *POINTS["least entries for independent columns"], least_independent
    )
    at = everywhere((12, 9, 7))
    single, double = (
        fit_to(make(*low_rank_problem(dtype)), rank=2) for dtype in ("f4", "f8")
    )
    assert single.means.dtype == single.covariances.dtype == np.float32
    assert single.predict(at).dtype == np.float32
    scale = double.predict(at).std()
    np.testing.assert_allclose(
        single.predict(at), double.predict(at), atol=1e-3 * scale
    )
    np.testing.assert_allclose(
        single.variance(at)[0], double.variance(at)[0], rtol=1e-2
    )
    assert single.noise_variance == pytest.approx(double.noise_variance, rel=1e-3)


@pytest.mark.parametrize(
    ("n_threads", "dtype", "smooth_modes"),
    [(2, "f8", ()), (3, "f4", ()), (7, "f8", (1,))],
)
@pytest.mark.parametrize("least_independent", [0, math.inf])
def test_threads_do_not_change_the_fit(
    n_threads, dtype, smooth_modes, least_independent, monkeypatch
):
    monkeypatch.setattr(
        *POINTS["least entries for independent columns"], least_independent
    )
    coordinates, values = random_problem((600, 20), 3000)
    one, more = (
        fit(
            coordinates, values.astype(dtype), (600, 20), n_threads=n, max_iter=14,
            smooth_modes=smooth_modes,
        )
        for n in (1, n_threads)
    )  # fmt: skip
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(more, field.name)
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("n", "independent"), [(199_999, False), (200_000, True)])
def test_many_entries_take_columns_as_independent(n, independent, monkeypatch):
    """The same by both rules, but for the number of entries at which one is taken."""
    coordinates, values = random_problem((300, 200), n)
    found = []
    for least in (None, 0, math.inf):
        if least is not None:
            monkeypatch.setattr(*POINTS["least entries for independent columns"], least)
        found.append(fit(coordinates, values, (300, 200), max_iter=3).means)
    rule, fast, full = found
    assert np.array_equal(rule, fast) == independent
    assert np.array_equal(rule, full) != independent


def test_noise_is_shrunk_away():
    coordinates, values = random_problem((50, 40), 1000)
    model = fit(coordinates, values, (50, 40), rank=5)
    # Pure noise of variance one: anything fitted beyond zero is overfitting.
    assert np.mean(model.predict(coordinates) ** 2) < 0.05
    assert 0.8 < model.noise_variance < 1.2


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_fit_does_not_depend_on_units(scale):
    coordinates, values = random_problem((30, 20), 400)
    values = values + 0.5 * coordinates[:, 0] % 7
    values -= values.mean()
    one = fit(coordinates, values, (30, 20))
    other = fit(coordinates, scale * values, (30, 20), value_scale=scale)
    at = everywhere((30, 20))
    np.testing.assert_allclose(other.predict(at), scale * one.predict(at), rtol=1e-8)
    np.testing.assert_allclose(
        other.variance(at)[0], scale**2 * one.variance(at)[0], rtol=1e-6
    )
    expected = scale**2 * one.noise_variance
    assert other.noise_variance == pytest.approx(expected, rel=1e-8, abs=0)


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 4)])
def test_rows_without_observation_are_their_prior(shape):
    coordinates, values = random_problem(shape, 40)
    coordinates[coordinates[:, 0] == 5, 0] = 0
    model = fit(coordinates, values, shape, value_scale=3.0)
    np.testing.assert_allclose(model.factors[0][5], model.prior_mean[0], atol=1e-12)
    at = model.rows[0].start + 5
    prior = np.diag(np.where(model.fixed[0], 0, 1 / model.precision[0]))
    found = unpacked(model.covariances)[at]
    # The row was solved before the last update of the prior, but the unknown one after.
    np.testing.assert_allclose(found, prior, rtol=0.3)
    unseen, unknown = coordinates[:1].copy(), coordinates[:1].copy()
    unseen[0, 0], unknown[0, 0] = 5, -1
    np.testing.assert_allclose(model.predict(unseen), model.predict(unknown))
    last = model.rows[0].stop - 1
    np.testing.assert_allclose(unpacked(model.covariances)[last], prior, rtol=1e-12)


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


@pytest.mark.parametrize("smooth_modes", [(), (0, 1)])
@pytest.mark.parametrize(
    "options",
    [{"on_sweep": lambda i: i == 0}, {"on_sweep": lambda i: i == 5}]
    + [{"max_iter": n} for n in (1, 3, 4)],
)
def test_a_short_fit_has_covariances(options, smooth_modes):
    coordinates, values = random_problem((8, 9), 60)
    model = fit(coordinates, values, (8, 9), smooth_modes=smooth_modes, **options)
    model = model.padded(2, smooth_modes)
    assert model.covariances.shape == (8 + 9 + 2, 10)
    assert np.all(np.isfinite(model.covariances))
    for held, r in zip(model.fixed, model.rows, strict=True):
        blocks = unpacked(model.covariances[r])
        assert np.all(blocks[:, held] == 0)
        assert np.all(np.linalg.eigvalsh(blocks[:, ~held][:, :, ~held]) > 0)
    assert np.all(model.variance(everywhere((8, 9)))[0] > 0)


@pytest.mark.parametrize("value", [0.0, 1e-200, 1e150])
@pytest.mark.parametrize("smooth_modes", [(), (0,)])
def test_degenerate_values_stay_finite(value, smooth_modes):
    coordinates, _ = random_problem((4, 3), 30)
    model = fit(
        coordinates, np.full(30, value), (4, 3), value_scale=max(value, 1.0),
        smooth_modes=smooth_modes,
    )  # fmt: skip
    assert all(np.all(np.isfinite(f)) for f in model.factors)
    assert np.all(np.isfinite(model.covariances))


def reference_variance(model, coordinates):
    """Sums over pairs of columns: products of moments less those of means; linear part.

    The linear part takes one mode's covariance at a time, and the others' means.
    """
    covariances, variance, linear = unpacked(model.covariances.astype(float)), [], []
    for coordinate in coordinates:
        at = [
            r.stop - 1 if c < 0 else r.start + c
            for r, c in zip(model.rows, coordinate, strict=True)
        ]
        outer = np.array([np.outer(u, u) for u in model.means[at].astype(float)])
        moments = outer + covariances[at]
        variance.append(np.sum(np.prod(moments, axis=0) - np.prod(outer, axis=0)))
        linear.append(0.0)
        for mode, own in enumerate(covariances[at]):
            linear[-1] += np.sum(own * np.prod(np.delete(outer, mode, 0), axis=0))
    return np.array(variance), np.array(linear)


@pytest.mark.parametrize(
    ("rank", "biases", "shape", "dtype"),
    [
        (3, True, (6, 5), "f8"), (3, True, (3, 2, 4, 3), "f4"),
        (2, False, (4, 5, 3), "f8"), (0, True, (6, 5), "f4"),
    ],
)  # fmt: skip
def test_variance_equals_the_exact_formula(shape, rank, biases, dtype):
    coordinates, values = random_problem(shape, 30)
    model = fit(
        coordinates, values.astype(dtype), shape, rank=rank, biases=biases,
        value_scale=2.0,
    )  # fmt: skip
    at = everywhere(shape)
    assert len(at) == np.prod(np.array(shape) + 1)
    variance, linear = model.variance(at)
    expected, expected_linear = reference_variance(model, at)
    assert np.all(expected > 0)
    np.testing.assert_allclose(variance, expected, rtol=1e-7)
    tiny = 1e-12 * expected_linear.max()
    np.testing.assert_allclose(linear, expected_linear, rtol=1e-7, atol=tiny)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_variance_is_never_negative(dtype):
    coordinates, values = random_problem((6, 5), 30)
    model = fit(coordinates, values.astype(dtype), (6, 5))
    # As rounding may leave them where a row is known exactly.
    rounded = dataclasses.replace(
        model, covariances=np.full_like(model.covariances, -1e-9)
    )
    for exact, found in zip(
        reference_variance(rounded, coordinates),
        rounded.variance(coordinates),
        strict=True,
    ):
        assert np.all(exact < 0)
        assert np.all(found == 0)


def test_the_prediction_of_an_unknown_row_is_that_of_its_prior():
    coordinates, values = random_problem((6, 5, 4), 60)
    model = fit(coordinates, values, (6, 5, 4))
    at = everywhere((6, 5, 4))
    factors = [
        np.vstack([f, prior])
        for f, prior in zip(model.factors, model.prior_mean, strict=True)
    ]
    expected = np.prod([f[c] for f, c in zip(factors, at.T, strict=True)], axis=0)
    np.testing.assert_allclose(model.predict(at), expected.sum(axis=1), atol=1e-12)


def test_max_cp_rank():
    assert max_cp_rank((3, 5)) == 3
    assert max_cp_rank((2, 3, 4)) == 6
    assert max_cp_rank((1, 7)) == 1
    assert math.prod((20, 20)) == max_cp_rank((20, 20, 20))


@pytest.mark.parametrize(("share", "independent"), [(0.0, True), (0.6, False)])
def test_columns_are_independent_only_with_little_noise(
    share, independent, monkeypatch
):
    """A fit and its continuation decide alike, by the share of known noise."""
    monkeypatch.setattr(*POINTS["least entries for independent columns"], 0)
    found = []
    sweep = RowFit.sweep

    def seen(fit, *args):
        found.append(fit.independent_columns)
        return sweep(fit, *args)

    monkeypatch.setattr(RowFit, "sweep", seen)
    coordinates, values, shape = low_rank_problem()
    entries = SparseEntries(coordinates, values, shape)
    floor = share * entries.energy / entries.n_entries
    model = fit_to(entries, rank=2, noise_floor=floor, max_iter=4)
    n_fit = len(found)
    _cp_fit.continue_structured_cp(model, entries, max_iter=2, noise_floor=floor)
    assert len(found) == n_fit + 2
    assert set(found) == {independent}
