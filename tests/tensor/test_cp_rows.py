"""What fits of biases, terms and weights of features promise."""

from dataclasses import replace

import numpy as np
import pytest

from sktensordp.tensor import CPForm, max_cp_rank, padded, point_model
from tests.support.tensors import covariance_of, everywhere, fit_of, random_problem

# --- units, noise and degenerate values ----------------------------------------------


def test_noise_is_shrunk_away():
    coordinates, values = random_problem((50, 40), 1000)
    model, _ = fit_of(coordinates, values, (50, 40), rank=5)
    # Pure noise of variance one: anything fitted beyond zero is overfitting.
    assert np.mean(model.predict(coordinates) ** 2) < 0.05
    assert 0.8 < model.noise < 1.2


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_fit_does_not_depend_on_units(scale):
    coordinates, values = random_problem((30, 20), 400)
    values = values + 0.5 * coordinates[:, 0] % 7
    values -= values.mean()
    one, _ = fit_of(coordinates, values, (30, 20))
    other, _ = fit_of(coordinates, scale * values, (30, 20), scale=scale)
    at = everywhere((30, 20))
    np.testing.assert_allclose(other.predict(at), scale * one.predict(at), rtol=1e-8)
    np.testing.assert_allclose(
        other.variance(at)[0], scale**2 * one.variance(at)[0], rtol=1e-6
    )
    assert other.noise == pytest.approx(scale**2 * one.noise, rel=1e-8, abs=0)


def test_noise_floor_is_kept():
    coordinates, values = random_problem((5, 5), 20)
    assert fit_of(coordinates, 0.01 * values, (5, 5), noise_floor=4.0)[0].noise == 4


@pytest.mark.parametrize("smooth_modes", [(), (0, 1)])
@pytest.mark.parametrize(
    "options", [{"on_sweep": lambda i: i == 0}, {"max_iter": 1}, {"max_iter": 4}]
)
def test_a_short_fit_has_covariances(options, smooth_modes):
    coordinates, values = random_problem((8, 9), 60)
    model, _ = fit_of(coordinates, values, (8, 9), smooth_modes=smooth_modes, **options)
    for mode, covariances in enumerate(model.covariances):
        n_free = len(model.free[mode])
        assert covariances.shape == (8 + mode, n_free * (n_free + 1) // 2)
        free = model.free[mode]
        blocks = covariance_of(model, mode)[:, free][:, :, free]
        assert np.all(np.linalg.eigvalsh(blocks) > 0)
    assert np.all(model.variance(everywhere((8, 9)))[0] > 0)


@pytest.mark.parametrize("value", [0.0, 1e-200, 1e150])
@pytest.mark.parametrize("smooth_modes", [(), (0,)])
def test_degenerate_values_stay_finite(value, smooth_modes):
    coordinates, _ = random_problem((4, 3), 30)
    model, _ = fit_of(
        coordinates, np.full(30, value), (4, 3), scale=max(value, 1.0),
        smooth_modes=smooth_modes,
    )  # fmt: skip
    for rows in (*model.means, *model.covariances):
        assert np.all(np.isfinite(rows))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_variance_is_never_negative(dtype):
    coordinates, values = random_problem((6, 5), 30)
    model, _ = fit_of(coordinates, values.astype(dtype), (6, 5))
    # As rounding may leave them where a row is known exactly.
    rounded = replace(
        model, covariances=tuple(np.full_like(c, -1e-9) for c in model.covariances)
    )
    for found in rounded.variance(coordinates):
        assert np.all(found == 0)


def test_max_cp_rank():
    assert max_cp_rank((3, 5)) == 3
    assert max_cp_rank((2, 3, 4)) == 6
    assert max_cp_rank((1, 7)) == 1
    assert max_cp_rank((20, 20, 20)) == 400


# --- indices without entries ---------------------------------------------------------


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 4)])
def test_an_index_without_entries_is_an_unknown_one(shape):
    coordinates, values = random_problem(shape, 40)
    coordinates[coordinates[:, 0] == 5, 0] = 0
    model, _ = fit_of(coordinates, values, shape)
    assert model.used[0].tolist() == [0, 1, 2, 3, 4]
    unseen, unknown = coordinates[:1].copy(), coordinates[:1].copy()
    unseen[0, 0], unknown[0, 0] = 5, -1
    np.testing.assert_array_equal(model.predict(unseen), model.predict(unknown))
    for one, other in zip(model.variance(unseen), model.variance(unknown), strict=True):
        np.testing.assert_array_equal(one, other)
    found = model.slices(coordinates, 0, model.every_row(0))
    assert found.shape == (40, 6)
    np.testing.assert_allclose(
        found[:, 5], model.predict(np.insert(coordinates[:, 1:], 0, -1, axis=1))
    )
    np.testing.assert_allclose(model.dense().ravel(), model.predict(np.argwhere(
        np.ones(shape)
    )))  # fmt: skip


def test_time_and_memory_do_not_follow_the_shape():
    # 10^8 rows of three columns would take 2.4 GB; the first mode has all there can be.
    shape = 2**31 - 1, 10**8, 10**9
    where = np.array([[2**31 - 2, 3, 5], [7, 10**8 - 1, 9], [1, 3, 10**9 - 1]])
    model, _ = fit_of(where, np.array([1.0, 2.0, 3.0]), shape, max_iter=8)
    assert [len(m) for m in model.means] == [3, 2, 3]
    assert np.all(np.isfinite(model.predict(np.append(where, [[5, 5, 5]], axis=0))))


def test_a_smooth_mode_of_one_row_is_like_any_other():
    rng = np.random.default_rng(0)
    coordinates = np.column_stack([rng.integers(0, 9, 50), np.zeros(50, int)])
    values = rng.standard_normal(50)
    one, other = (
        fit_of(coordinates, values, (9, 1), rank=1, max_iter=20, smooth_modes=modes)[0]
        for modes in ((), (1,))
    )
    for found, expected in zip(one.means, other.means, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)


# --- features ------------------------------------------------------------------------

SHAPE = 120, 60


def problem(seed=0, n=3000, mean=0.0, shape=SHAPE):
    """Values that are weights of users times features of items, and noise."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((shape[1] + 1, 2))
    weights = mean + 0.5 * rng.standard_normal((shape[0], 2))
    where = np.column_stack([rng.integers(0, size, n) for size in shape])
    truth = np.einsum("er,er->e", weights[where[:, 0]], features[where[:, 1]])
    return where, truth + 0.3 * rng.standard_normal(n), truth, features, weights


def error(model, where, truth):
    return np.sqrt(np.mean((model.predict(where) - truth) ** 2))


def test_weights_of_features_are_fitted():
    where, values, truth, features, weights = problem()
    model, _ = fit_of(where, values, SHAPE, rank=0, features=features)
    plain, _ = fit_of(where, values, SHAPE, rank=0)
    # About 25 values a user determine two weights and a bias.
    assert error(model, where, truth) < 0.15 < 0.5 < error(plain, where, truth)
    np.testing.assert_allclose(model.factors[0][:, 2:], weights, atol=0.45)
    np.testing.assert_array_equal(model.factors[1][:, 2:], features[:-1])
    np.testing.assert_array_equal(model.fixed[:, 2:], [[False] * 2, [True] * 2])


def test_mean_weights_are_learned_from_few_values():
    """A user of whom nothing is known has the mean of all."""
    where, values, _, features, weights = problem(n=400, mean=2.0)
    features[-1] = features[where[:, 1]].mean(axis=0)
    offset = values.mean()
    model, _ = fit_of(where, values - offset, SHAPE, rank=0, features=features)
    known = weights.mean(axis=0)
    found = offset + model.predict(np.array([[-1, 3]]))[0]
    assert found == pytest.approx(features[3] @ known, abs=0.7)
    assert model.prior_mean[0, 2:] == pytest.approx(known, abs=0.3)


def test_a_smooth_mode_takes_features():
    where, values, _, features, _ = problem(n=2000, shape=(30, 20))
    model, _ = fit_of(
        where, values, (30, 20), rank=1, max_iter=10, features=features,
        smooth_modes=(1,),
    )  # fmt: skip
    np.testing.assert_array_equal(model.factors[1][:, -2:], features[:-1])


# --- models that are given -----------------------------------------------------------


def test_a_point_model_is_the_sum_of_its_parts():
    rng = np.random.default_rng(0)
    shape = 4, 5, 3
    biases = [rng.standard_normal(n + 1) for n in shape]
    factors = [rng.standard_normal((n, 2)) for n in shape]
    features, weights = rng.standard_normal((6, 3)), rng.standard_normal((4, 3))
    model = point_model(
        shape, 0.5, float, biases=biases, factors=factors, features=features,
        weights=weights,
    )  # fmt: skip
    where = np.argwhere(np.ones(shape))
    expected = sum(b[w] for b, w in zip(biases, where.T, strict=True))
    expected += np.prod([f[w] for f, w in zip(factors, where.T, strict=True)], 0).sum(1)
    expected += np.einsum("er,er->e", weights[where[:, 0]], features[where[:, 1]])
    np.testing.assert_allclose(model.predict(where), expected)
    # An unknown row has its own bias, the mean of the factors, and no weights.
    unknown = model.predict(np.array([[-1, 2, 1]]))[0]
    mean = factors[0].mean(axis=0) * factors[1][2] * factors[2][1]
    assert unknown == pytest.approx(
        biases[0][-1] + biases[1][2] + biases[2][1] + mean.sum()
    )
    variance, _ = model.variance(where)
    np.testing.assert_array_equal(variance, 0.0)
    assert point_model(shape, 0.5, np.float32).predict(where).dtype == np.float32


@pytest.mark.parametrize("keeps_biases", [False, True])
def test_rows_without_entries_get_the_average_row(keeps_biases):
    rng = np.random.default_rng(0)
    shape, counts = (3, 4), [np.array([2, 0, 1]), np.array([1.0, 0.5, 0, 1.5])]
    biases = [rng.standard_normal(n + 1) for n in shape]
    factors = [rng.standard_normal((n, 2)) for n in shape]
    model = point_model(shape, 0.5, float, biases=biases, factors=factors)
    for array in (*model.means, model.unknown):
        array.flags.writeable = False
    fill = model.with_average_factors if keeps_biases else model.with_average_rows
    found = fill(counts)
    averages = [c @ f / c.sum() for c, f in zip(counts, factors, strict=True)]
    own = [c @ b[:-1] / c.sum() for c, b in zip(counts, biases, strict=True)]
    if keeps_biases:
        own = [biases[0][[1, -1]], biases[1][[2, -1]]]
    # Biases make up for the value of the average rows.
    excess = averages[0] @ averages[1]
    excess += 0 if keeps_biases else own[0] + own[1]
    if keeps_biases:
        excess += biases[0][-1] + biases[1][-1]
    for row, k in ((1, 0), (-1, 1)):
        bias = own[0][k] if keeps_biases else own[0]
        for column in (0, 3):
            expected = bias - excess + biases[1][column]
            expected += averages[0] @ factors[1][column]
            at = np.array([[row, column]])
            assert found.predict(at)[0] == pytest.approx(expected)
    # What has entries stays, and a mode without counts stays whole.
    seen = np.array([[0, 0], [2, 1]])
    np.testing.assert_allclose(found.predict(seen), model.predict(seen))
    half = model.with_average_rows([None, counts[1]])
    np.testing.assert_allclose(half.means[0], model.means[0])
    np.testing.assert_allclose(half.unknown[0], model.unknown[0])


@pytest.mark.parametrize("smooth_modes", [(), (1,)])
@pytest.mark.parametrize("biases", [True, False])
def test_terms_that_are_missing_are_added_before_the_features(biases, smooth_modes):
    """A fit to noise switches its terms off."""
    rng = np.random.default_rng(0)
    where = np.argwhere(rng.random((40, 30)) < 0.3)
    features = rng.normal(size=(31, 2))
    lean, _ = fit_of(
        where, rng.normal(size=len(where)), (40, 30), rank=4, biases=biases,
        max_iter=30, smooth_modes=smooth_modes, features=features,
    )  # fmt: skip
    assert lean.terms.sum() < 4
    assert lean.has_columns(CPForm(4), biases, smooth_modes)
    assert not lean.has_columns(CPForm(4), not biases, smooth_modes)
    assert not lean.has_columns(CPForm(4), biases, (0,))
    model = padded(lean, 4)
    assert model.terms.sum() == 4
    np.testing.assert_array_equal(model.factors[1][:, -2:], features[:-1])
    np.testing.assert_allclose(model.predict(where), lean.predict(where))
    found, expected = (each.variance(where)[0] for each in (model, lean))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-11)
