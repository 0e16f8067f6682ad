"""Rows of the first mode whose values are nearer to the model, or farther from it."""

import math

import numpy as np
import pytest

from sktensordp.completion import CPCompletion, TuckerCompletion
from tests.completion.test_uncertainty import normal_values
from tests.support.points import POINTS
from tests.support.tensors import fitted_in

pytestmark = pytest.mark.thorough
SHAPE, BOUNDS = (300, 200), (-4.0, 4.0)
QUIET, LOUD = 0.25, 0.9


def uneven_values(n=24_000, quiet=QUIET, loud=LOUD, shape=SHAPE):
    """Distinct coordinates and values; every other row of mode 0 is loud."""
    by_row = np.where(np.arange(shape[0]) % 2, loud, quiet)
    X, y = normal_values(shape, n, 2, seed=0, residual=by_row)
    return X, np.clip(y, *BOUNDS)


def completion(epsilon=math.inf, **options):
    return CPCompletion(
        2, epsilon=epsilon, value_bounds=BOUNDS, perturbation="input", random_state=0,
        **{"shape": SHAPE, "n_pattern_components": 0, **options},
    )  # fmt: skip


def variances(model):
    """Learned variances of the entries of quiet and of loud rows: their means."""
    fitted = model._fitted.model
    found = fitted.noise / fitted.stated_weights
    return found[::2].mean(), found[1::2].mean()


# The estimates are shrunk to the average.
def test_variances_of_rows_are_learned():
    quiet, loud = variances(completion().fit(*uneven_values()))
    assert QUIET**2 < quiet < 4 * QUIET**2
    assert 0.8 * LOUD**2 < loud < LOUD**2 * 1.1


def test_rows_that_are_alike_have_weights_of_one():
    X, y = uneven_values(quiet=0.5, loud=0.5)
    model = completion().fit(X, y)._fitted.model
    assert model.weights_of(np.array([[-1, 0]])) == 1
    weights = model.stated_weights
    assert weights.std() < 0.12
    assert weights.mean() == pytest.approx(1, abs=0.03)


def test_under_heavy_noise_the_weights_are_one():
    """What the mechanism adds is known, and the same for all rows."""
    weights = completion(0.5).fit(*uneven_values())._fitted.model.stated_weights
    if weights is not None:
        np.testing.assert_allclose(weights, 1, atol=0.05)


def test_weights_lower_the_error(monkeypatch):
    X, y = uneven_values()
    held_out = np.arange(len(y)) >= 12_000
    truth = y[held_out & (X[:, 0] % 2 == 0)]
    where = X[held_out & (X[:, 0] % 2 == 0)]
    errors = []
    for learns in (True, False):
        if not learns:
            monkeypatch.setattr(*POINTS["weighing of rows"], lambda *_: None)
        model = completion().fit(X[~held_out], y[~held_out])
        assert (model._fitted.model.stated_weights is not None) == learns
        errors.append(np.mean((model.predict(where) - truth) ** 2) - QUIET**2)
    assert errors[0] < 0.95 * errors[1]


def coverage(model, X, y):
    """Share of the values within 95 % intervals, of quiet and of loud rows."""
    mean, std = model.predict(X, return_std=True)
    inside = np.abs(y - mean) < 1.96 * std
    return [inside[X[:, 0] % 2 == loud].mean() for loud in (0, 1)]


# Shrunk by 100 entries instead of a learned number, quiet rows had 1.00.
@pytest.mark.parametrize(
    ("kind", "epsilon"),
    [
        ("fit", math.inf), ("fit", 30.0), ("dense", 30.0), ("fit_batches", 30.0),
        ("randomized", 30.0), ("partial_fit", 30.0), ("three modes", math.inf),
    ],
)  # fmt: skip
def test_intervals_hold_for_quiet_and_for_loud_rows(kind, epsilon):
    shape = (150, 80, 12) if kind == "three modes" else SHAPE
    X, y = uneven_values(36_000, shape=shape)
    held_out = X[24_000:], y[24_000:]
    X, y = X[:24_000], y[:24_000]
    model = completion(epsilon, shape=shape)
    if kind == "randomized":
        model.fit_randomized(X, model.client().privatize(y))
    else:
        fitted_in(kind, model, X, y, 20_000 if kind == "partial_fit" else 5000)
    # An update leaves the variances as they were.
    least = 0.90 if kind == "partial_fit" else 0.92
    for found in coverage(model, *held_out):
        assert least < found < 0.99


def test_new_rows_have_weights_of_one():
    X, y = uneven_values(2_000, shape=(30, 80))
    known = X[:, 0] < 20
    model = completion(shape=None).fit(X[known], y[known])
    before = model._fitted.model.stated_weights
    model.partial_fit(X[~known], y[~known])
    after = model._fitted.model.stated_weights
    np.testing.assert_array_equal(after[:20], before[:20])
    np.testing.assert_array_equal(after[20:], 1)
    assert len(after) == 30


def test_a_tucker_learns_them_too():
    X, y = uneven_values(2_000, shape=(30, 20, 6))
    model = TuckerCompletion(2, epsilon=math.inf, value_bounds=BOUNDS).fit(X, y)
    std, is_loud = model.predict(X, return_std=True)[1], X[:, 0] % 2 == 1
    assert std[is_loud].mean() > 1.5 * std[~is_loud].mean()
