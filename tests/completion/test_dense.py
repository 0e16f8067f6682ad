"""Dense tensors with NaN for the unobserved."""

import math
import pickle

import numpy as np
import pytest
import tensorly
from sklearn.base import clone

from sktensordp.completion import CPCompletion
from sktensordp.exceptions import PrivacyLeakWarning

SHAPE = (14, 11, 6)


def problem(share=0.7, seed=0):
    """A tensor of rank two, and the same with NaN for the unobserved."""
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(n, 2)) for n in SHAPE[:2]]
    factors.append(rng.uniform(0.5, 1.5, size=(SHAPE[2], 2)))
    truth = np.clip(np.einsum("ia,ja,ka->ijk", *factors), -3, 3)
    return truth, np.where(rng.random(SHAPE) < share, truth, np.nan)


MODEL = CPCompletion(2, epsilon=20.0, value_bounds=(-3, 3), random_state=0)


@pytest.mark.parametrize("share", [0.7, 0.03])
@pytest.mark.parametrize("epsilon", [20.0, math.inf])
def test_equals_a_fit_to_coordinates(share, epsilon):
    _, X = problem(share)
    where = np.argwhere(~np.isnan(X))
    options = {"epsilon": epsilon, "shape": SHAPE, "max_iter": 10}
    dense = clone(MODEL).set_params(**options).fit(X)
    sparse = clone(MODEL).set_params(**options).fit(where, X[tuple(where.T)])
    assert dense.privacy_guarantee_ == sparse.privacy_guarantee_
    assert dense.offset_ == sparse.offset_
    assert dense.n_features_in_ == sparse.n_features_in_ == 3
    everywhere = np.argwhere(np.ones(SHAPE))
    np.testing.assert_allclose(
        dense.predict(everywhere), sparse.predict(everywhere), rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(
        dense.transform(X).ravel(), dense.predict(everywhere), atol=1e-12
    )


def test_completes():
    truth, X = problem()
    completed = clone(MODEL).set_params(max_iter=200).fit_transform(X)
    missing = np.isnan(X)
    error = np.sqrt(np.mean((completed - truth)[missing] ** 2))
    assert error < 0.4 * truth[missing].std()
    assert completed.min() >= -3
    assert completed.max() <= 3


def test_observed_cells_are_not_passed_through():
    _, X = problem()
    model = clone(MODEL).fit(X)
    completed = model.transform(X)
    assert not np.any((completed == X) & (np.abs(X) < 3))
    poisoned = np.full(SHAPE, np.nan)
    poisoned[0, 0, 0] = 3.0
    np.testing.assert_array_equal(model.transform(poisoned), completed)
    with pytest.raises(ValueError, match="the tensor of the fit"):
        model.transform(X[:-1])


def test_transform_is_there_after_a_dense_fit_alone():
    _, X = problem()
    model = clone(MODEL)
    assert not hasattr(model, "transform")
    model.fit(X)
    assert hasattr(model, "transform")
    where = np.argwhere(~np.isnan(X))
    model.fit(where, X[tuple(where.T)])
    assert not hasattr(model, "transform")


def test_a_tensor_of_tensorly():
    _, X = problem()
    model = clone(MODEL).fit(X)
    decomposition = model.decomposition_
    tensorly.cp_tensor._validate_cp_tensor(decomposition)
    dense = tensorly.cp_to_tensor(decomposition)
    np.testing.assert_allclose(
        np.clip(model.offset_ + dense, -3, 3), model.transform(X), atol=1e-12
    )
    norm = tensorly.cp_tensor.cp_norm(decomposition)
    assert norm == pytest.approx(np.linalg.norm(dense), rel=1e-10)
    weights, factors = tensorly.cp_tensor.cp_normalize(decomposition)
    np.testing.assert_allclose(tensorly.cp_to_tensor((weights, factors)), dense)


def test_guarantee_and_leaks():
    _, X = problem()
    rare = 2.718281828459
    X[3, 3, 3] = rare
    model = clone(MODEL).set_params(random_state=None).fit(X)
    assert (model.privacy_guarantee_.epsilon, model.privacy_guarantee_.unit) == (
        pytest.approx(20.0, rel=1e-6), "entry",
    )  # fmt: skip
    assert np.float64(rare).tobytes() not in pickle.dumps(model)
    with pytest.warns(PrivacyLeakWarning, match="range of the values"):
        leaky = CPCompletion(1, max_iter=2).fit(X)
    assert leaky.privacy_guarantee_.epsilon == math.inf


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (np.full((3, 4), np.nan), {}, "all are NaN"),
        (np.array([[1.0, math.inf], [0, 1]]), {}, "infinity"),
        (np.zeros((3, 4)), {"shape": (4, 3)}, "but shape is"),
        (np.zeros((3, 4)), {"rank": 4}, "larger than can be fitted"),
        (np.array([["1", "secret"], ["2", "3"]]), {}, "must hold numbers"),
        (np.zeros(4), {}, "1D array"),
    ],
)
def test_bad_tensors(X, options, message):
    model = clone(MODEL).set_params(**options)
    with pytest.raises(ValueError, match=message) as caught:
        model.fit(X)
    assert "secret" not in str(caught.value)
    assert not hasattr(model, "_releases")
