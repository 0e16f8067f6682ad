"""What every perturbation, at every level, has in common for a CP and for a Tucker."""

import math
import warnings

import numpy as np
import pytest
import tensorly as tl
from sklearn.metrics import root_mean_squared_error

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.datasets import make_low_rank_tensor, make_ratings
from sktensordp.exceptions import UnsoundClaimWarning

RATINGS = make_ratings(150, 60, 5000, random_state=0)
SEASON = np.random.default_rng(0).integers(0, 3, 5000)
Y = RATINGS.target
DATA = {2: RATINGS.data, 3: np.column_stack([RATINGS.data, SEASON])}
SHAPES = {2: RATINGS.shape, 3: (*RATINGS.shape, 3)}
RANKS = {2: (3, 3), 3: (3, 3, 2)}
MODELS = {
    "CP": lambda order, **params: CPCompletion(3, **params),
    "Tucker": lambda order, **params: TuckerCompletion(RANKS[order], **params),
    "biases": lambda order, **params: TuckerCompletion(0, **params),
}
CASES = [
    *((p, "entry", "sound") for p in ("auto", "input", "gradient", "output")),
    ("statistics", "entry", "sound"),
    ("sums", "entry", "sound"),
    *((p, 0, "sound") for p in ("auto", "sums", "statistics")),
    ("auto", 1, "sound"),
    *((p, "entry", "published") for p in ("input", "gradient", "output")),
]


def fitted(form, order, perturbation, unit, calibration, **params):
    options = {
        "epsilon": 8.0, "delta": 1e-5, "value_bounds": (0.5, 5), "max_iter": 5,
        "shape": SHAPES[order], "random_state": 0, **params,
    }  # fmt: skip
    model = MODELS[form](
        order, perturbation=perturbation, unit=unit, calibration=calibration, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsoundClaimWarning)
        return model.fit(DATA[order], Y)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("form", [*MODELS])
def test_what_is_published(form, order, case):
    perturbation, unit, calibration = case
    if form == "biases" and calibration == "published":
        with pytest.raises(ValueError, match="rank"):
            fitted(form, order, *case)
        return
    model = fitted(form, order, *case, n_pattern_components=0)
    guarantee = model.privacy_guarantee_
    false = calibration == "published" and perturbation != "input"
    assert guarantee.unit == unit
    if false:
        assert math.isinf(guarantee.epsilon)
        assert guarantee.claimed == (8.0, 0.0)
    else:
        assert 7 < guarantee.epsilon <= 8.0
        assert guarantee.delta in (0.0, 1e-5)
    if form == "biases" and unit != "entry":
        assert model.perturbation_ == "sums"
    elif perturbation == "auto":
        assert model.perturbation_ in ("input", "sums", "statistics")
    else:
        assert model.perturbation_ == perturbation
    # The decomposition is what predicts; where users are protected, an unknown one.
    X = DATA[order].copy()
    if unit != "entry":
        X[:, unit] = -1
        assert model.factors_[unit] is None
    kind = tl.cp_to_tensor if form == "CP" else tl.tucker_to_tensor
    tensor = kind(model.decomposition_)
    at = np.where(X < 0, 0, X)
    expected = np.clip(model.offset_ + tensor[tuple(at.T)], 0.5, 5)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("perturbation", ["input", "statistics", "output", "gradient"])
@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_what_is_learned_without_noise(form, perturbation):
    alone = fitted("biases", 3, "sums", "entry", "sound", epsilon=math.inf)
    model = fitted(
        form, 3, perturbation, "entry", "sound", epsilon=math.inf, max_iter=30,
        n_pattern_components=0, gradient_clip=3.0,
    )  # fmt: skip
    error = [root_mean_squared_error(Y, m.predict(DATA[3])) for m in (alone, model)]
    assert error[1] < error[0] - 0.005


@pytest.mark.parametrize("unit", [0, 1])
@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_a_tensor_equals_its_entries(form, unit):
    tensor = np.full(SHAPES[3], np.nan)
    tensor[tuple(DATA[3].T)] = Y
    where = np.argwhere(~np.isnan(tensor))
    options = {"epsilon": 4.0, "value_bounds": (0.5, 5), "shape": SHAPES[3]}
    dense, sparse = (
        MODELS[form](3, unit=unit, random_state=0, **options) for _ in range(2)
    )
    completed = dense.fit(tensor).transform(tensor)
    sparse.fit(where, tensor[tuple(where.T)])
    np.testing.assert_allclose(
        completed[tuple(where.T)], sparse.predict(where), rtol=1e-9
    )
    assert completed.shape == SHAPES[3]


@pytest.mark.parametrize("model", [CPCompletion, TuckerCompletion])
def test_no_biases_and_no_constant(model):
    """A tensor of two terms is found by two, although its mean is far from zero."""
    start = np.random.default_rng(0)
    tensor = np.einsum("ir,jr,kr->ijk", *(start.random((9, 2)) for _ in range(3)))
    fit = model(2, epsilon=math.inf, biases=False, max_iter=100).fit(tensor)
    assert fit.offset_ == 0
    error = np.linalg.norm(fit.transform(tensor) - tensor)
    assert error < 1e-3 * np.linalg.norm(tensor)
    # With noise that hides it, values stay around their mean.
    noisy = model(2, epsilon=0.5, biases=False, value_bounds=(0, 2), random_state=0)
    assert noisy.fit(tensor).offset_ != 0


def test_noise_is_not_taken_for_the_factors_of_a_tucker():
    made = make_low_rank_tensor(decomposition="tucker", random_state=0)
    model = TuckerCompletion(
        4, perturbation="input", biases=False, epsilon=0.5, value_bounds=(0, 1),
        shape=made.truth.shape, random_state=0,
    )  # fmt: skip
    predicted = model.fit(made.data, made.target).predict(made.data)
    truth = made.truth[tuple(made.data.T)]
    error = root_mean_squared_error(truth, predicted)
    assert error < 2 * np.std(truth)
