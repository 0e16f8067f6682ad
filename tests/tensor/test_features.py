"""Features of the second mode's rows in a structured CP, and in biases from sums."""

import numpy as np
import pytest

from sktensordp.tensor import (
    CPForm,
    DenseEntries,
    SparseEntries,
    fit_biases_to_sums,
    fit_structured_cp,
    point_model,
    update_structured_cp,
)
from sktensordp.tensor._sums import shared_entries

SHAPE = 120, 60


def problem(seed=0, n=3000, mean=0.0, shape=SHAPE):
    """Values that are weights of users times features of items, and noise."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((shape[1] + 1, 2))
    weights = mean + 0.5 * rng.standard_normal((shape[0], 2))
    where = np.column_stack([rng.integers(0, size, n) for size in shape])
    where = np.asfortranarray(where.astype(np.int32))
    truth = np.einsum("er,er->e", weights[where[:, 0]], features[where[:, 1]])
    return where, truth + 0.3 * rng.standard_normal(n), truth, features, weights


def fit(where, values, shape=SHAPE, **options):
    options = {"rank": 0, "biases": True, "max_iter": 30, **options}
    return fit_structured_cp(
        SparseEntries(where, values, shape), value_scale=1.0, noise_floor=0.0, **options
    )[0]


def error(model, where, truth):
    return np.sqrt(np.mean((model.predict(where) - truth) ** 2))


def test_weights_of_features_are_fitted():
    where, values, truth, features, weights = problem()
    model = fit(where, values, features=features)
    # About 25 values a user determine two weights and a bias.
    assert (
        error(model, where, truth)
        < 0.15
        < 0.5
        < error(fit(where, values), where, truth)
    )
    np.testing.assert_allclose(model.factors[0][:, 2:], weights, atol=0.45)
    np.testing.assert_array_equal(model.factors[1][:, 2:], features[:-1])
    np.testing.assert_array_equal(model.fixed[:, 2:], [[False] * 2, [True] * 2])


def test_mean_weights_are_learned_from_few_values():
    """A user of whom nothing is known has the mean of all."""
    where, values, _, features, weights = problem(n=400, mean=2.0)
    model = fit(where, values, features=features)
    unknown = model.predict(np.array([[-1, 3], [-1, -1]]))
    expected = features[[3, -1]] @ weights.mean(axis=0)
    np.testing.assert_allclose(unknown, expected, atol=0.5)
    assert model.prior_mean[0, 2:] == pytest.approx(weights.mean(axis=0), abs=0.3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_entries_and_smooth_modes_take_features(dtype):
    where, values, _, features, _ = problem(n=2000, shape=(30, 20))
    tensor, mask = np.zeros((30, 20), dtype), np.zeros((30, 20), bool)
    tensor[*where.T], mask[*where.T] = values, True
    at = np.argwhere(mask).astype(np.int32)
    options = {
        "rank": 1, "biases": True, "value_scale": 1.0, "noise_floor": 0.0,
        "max_iter": 10, "features": features,
    }  # fmt: skip
    dense, _ = fit_structured_cp(DenseEntries(tensor, mask), **options)
    sparse, _ = fit_structured_cp(
        SparseEntries(np.asfortranarray(at), tensor[mask], (30, 20)), **options
    )
    tolerance = 1e-3 if dtype == np.float32 else 1e-8
    np.testing.assert_allclose(dense.predict(at), sparse.predict(at), atol=tolerance)
    smooth, _ = fit_structured_cp(
        SparseEntries(np.asfortranarray(at), tensor[mask], (30, 20)),
        **options, smooth_modes=(1,),
    )  # fmt: skip
    np.testing.assert_allclose(smooth.factors[1][:, -2:], features[:-1], rtol=1e-6)


def test_updates_leave_features_and_grow_with_the_unknown_one():
    where, values, _, features, _ = problem()
    model = fit(where, values, features=features)
    new = np.asfortranarray(np.array([[3, 7], [120, 60]], dtype=np.int32))
    updated = update_structured_cp(model, new, np.array([2.0, 0.5]), max_iter=2)
    np.testing.assert_array_equal(updated.factors[1][:-1, 2:], features[:-1])
    np.testing.assert_array_equal(updated.factors[1][-1, 2:], features[-1])
    moved = updated.factors[0][:-1] != model.factors[0]
    assert moved[3, 2:].all()
    assert not np.delete(moved, 3, axis=0).any()


def test_biases_from_sums_follow_features():
    """Item biases that are linear in features are seen through noise, others not."""
    rng = np.random.default_rng(0)
    shape = 300, 400
    features = rng.standard_normal((401, 2))
    where = np.column_stack([rng.integers(0, n, 8000) for n in shape]).astype(np.int32)
    biases = features[:-1] @ np.array([0.4, -0.3])
    values = 1.0 + biases[where[:, 1]] + 0.3 * rng.standard_normal(8000)
    sums = np.concatenate(
        [np.bincount(c, values, n) for c, n in zip(where.T, shape, strict=True)]
    )
    sums += 20 * rng.standard_normal(700)
    errors = []
    for known in (features, None):
        gram = shared_entries(where, shape)
        offset, model = fit_biases_to_sums(gram, sums, 400.0, shape, 2.0, float, known)
        errors.append(error(model, where, biases[where[:, 1]] + 1.0 - offset))
        if known is not None:
            unknown = model.predict(np.array([[-1, -1]]))[0]
            assert unknown == pytest.approx(features[-1] @ [0.4, -0.3], abs=0.15)
    assert errors[0] < 0.15 < 0.3 < errors[1]


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


@pytest.mark.parametrize("smooth_modes", [(), (1,)])
@pytest.mark.parametrize("biases", [True, False])
def test_terms_that_are_missing_are_added_before_the_features(biases, smooth_modes):
    """A fit to noise switches its terms off."""
    rng = np.random.default_rng(0)
    where = np.argwhere(rng.random((40, 30)) < 0.3).astype(np.int32)
    entries = SparseEntries(where, rng.normal(size=len(where)), (40, 30))
    features = rng.normal(size=(31, 2))
    lean, _ = fit_structured_cp(
        entries, rank=4, biases=biases, value_scale=1.0, noise_floor=0.0,
        max_iter=30, smooth_modes=smooth_modes, features=features,
    )  # fmt: skip
    assert not lean.has_columns(CPForm(4), biases, smooth_modes)
    model = lean.padded(4, smooth_modes)
    assert model.has_columns(CPForm(4), biases, smooth_modes)
    np.testing.assert_array_equal(model.means[model.rows[1], -2:], features)
    np.testing.assert_allclose(model.predict(where), lean.predict(where))
    found, expected = (each.variance(where)[0] for each in (model, lean))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-11)
    assert model.padded(4, smooth_modes) is model
