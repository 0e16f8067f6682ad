"""What an adversarial reading of the completion found, once and for all."""

import math

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline

from sktensordp import _random
from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.privacy import privacy_of
from sktensordp.privacy._table import _realised_epsilon, level_table

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.integers(0, 20, 200), RNG.integers(0, 15, 200)])
Y = RNG.uniform(0, 5, 200)


def make(**params):
    options = {"perturbation": "input", "value_bounds": (0, 5), "max_iter": 3}
    return CPCompletion(2, **options, **params)


def draws_nothing(monkeypatch):
    def draw(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(_random.NoiseSource, "stream", draw)


@pytest.mark.parametrize("missing", [None, np.nan])
@pytest.mark.parametrize("how", ["fit", "fit_batches", "partial_fit"])
@pytest.mark.parametrize("finite", [False, True])
def test_missing_values_are_refused(how, missing, finite, monkeypatch):
    model = make().fit(X, Y)
    before = model.privacy_guarantee_
    draws_nothing(monkeypatch)
    y = [missing, *Y[1:]]
    argument = ([(X, y)],) if how == "fit_batches" else (X, y)
    with (
        config_context(assume_finite=finite),
        pytest.raises(ValueError, match=r"NaN|missing"),
    ):
        getattr(model, how)(*argument)
    assert model.privacy_guarantee_ == before
    assert np.isfinite(model.predict(X)).all()


def test_a_source_may_use_its_memory_again():
    def batches():
        where, values = np.empty((100, 2), dtype=int), np.empty(100)
        for part in (slice(100), slice(100, 200)):
            where[:], values[:] = X[part], Y[part]
            yield where, values

    one = make(random_state=0).fit_batches(batches())
    other = make(random_state=0).fit(X, Y)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_empty_batches_are_passed_over():
    parts = [(X[:0], Y[:0]), (X[:90], Y[:90]), (X[:0], Y[:0]), (X[90:], Y[90:])]
    one = make(random_state=0).fit_batches(parts)
    other = make(random_state=0).fit(X, Y)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    with pytest.raises(ValueError, match="pair of X and y"):
        make().fit_batches((X, Y))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.array([4.25, 1.5, np.nan]),), "two or more modes"),
        ((np.float64(4.25),), "two or more modes"),
        ((X, Y.astype(complex)), "Complex data"),
        ((np.full((2, 2), 4.25 + 0j),), "Complex data"),
        ((X, Y.astype("datetime64[s]")), "must hold numbers"),
        ((X, np.full(200, b"4.2x")), "must hold numbers"),
    ],
)
def test_no_message_shows_a_value(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        make().fit(*arguments)
    shown = f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"
    assert "4.2" not in shown


def test_a_pipeline_may_be_asked_for_data_frames():
    pytest.importorskip("pandas")
    model = make_pipeline(CoordinateEncoder(), make(epsilon=math.inf))
    framed = model.set_output(transform="pandas").fit(X, Y)
    assert np.isfinite(framed.predict(X)).all()


def test_a_seeded_release_is_not_forgotten():
    seeded = make(random_state=0).fit(X, Y).set_params(random_state=None)
    assert any("integer random_state" in u for u in privacy_of(seeded).unprotected)
    again = seeded.fit(X, Y)
    assert not any("integer random_state" in u for u in privacy_of(again).unprotected)
    mixed = make(random_state=0).fit(X, Y).set_params(random_state=None)
    mixed.partial_fit(X + 30, Y)
    assert any("integer random_state" in u for u in privacy_of(mixed).unprotected)


@pytest.mark.parametrize("n_levels", [2, 4, 5, 10])
def test_a_table_never_exceeds_a_tiny_budget(n_levels):
    for epsilon in np.geomspace(1e-8, 1e-2, 25):
        table = level_table(tuple(map(float, range(n_levels))), float(epsilon))
        assert 0.99 * epsilon < _realised_epsilon(table.weights) <= epsilon
    with pytest.raises(ValueError, match="too small to be represented"):
        level_table((0.0, 1.0), 1e-12)


def test_deviations_end_at_the_bounds():
    model = make(epsilon=0.1, random_state=0).fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    assert np.all(std <= np.maximum(mean, 5 - mean))


@pytest.mark.parametrize("smooth_modes", [[0], [0, 1], None])
@pytest.mark.parametrize("spread", [0.0, 1e-7, 1e-3])
def test_nearly_constant_values_in_single_precision(smooth_modes, spread):
    y = (2.5 + spread * RNG.standard_normal(200)).astype(np.float32)
    for where in (X, np.zeros((200, 2), dtype=int)):
        model = make(epsilon=math.inf, smooth_modes=smooth_modes)
        model.set_params(rank=1, max_iter=25).fit(where, y)
        mean, std = model.predict(where, return_std=True)
        assert np.all(np.abs(mean - y) < 0.01 + 5 * spread)
        assert np.all(np.isfinite(std))


def test_levels_of_a_tiny_scale_are_not_taken_for_even():
    levels = 1e-10 * np.arange(25) ** 2
    model = CPCompletion(0, epsilon=1.0, levels=levels)
    lattice = model._plan().mechanism
    index = (levels - lattice.low) / lattice.step
    assert np.max(np.abs(index - np.rint(index))) * lattice.step < 1e-3 * levels[1]


LARGE = 2**53


def test_large_ids_stay_apart():
    ids = np.array([[LARGE, 1], [LARGE + 1, 2], [LARGE + 2, 3]])
    encoder = CoordinateEncoder().fit(ids)
    assert encoder.shape_ == (3, 3)
    # Signed and unsigned integers are the same ids.
    unsigned = ids.astype(np.uint64)
    np.testing.assert_array_equal(encoder.transform(unsigned), encoder.transform(ids))
    encoder.partial_fit(unsigned + np.uint64(2))
    assert encoder.shape_ == (5, 5)
    assert encoder.transform(ids)[:, 0].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="told apart as floats"):
        CoordinateEncoder(freq="D").fit(np.column_stack([ids[:, 0], [0.0, 1, 2]]))


def test_ids_keep_their_kind():
    encoder = CoordinateEncoder().fit([[1, 1], [2, 2]])
    with pytest.raises(ValueError, match="must stay numbers"):
        encoder.partial_fit([["a", "b"]])
    assert encoder.transform([[1, 1], [2, 2]]).tolist() == [[0, 0], [1, 1]]


def test_bins_keep_their_kind():
    encoder = CoordinateEncoder(freq="h").fit([["a", 0], ["a", 7200]])
    for params in ({"freq": "D"}, {"freq": None}, {"freq": None, "time_bins": 2}):
        changed = CoordinateEncoder(freq="h").fit([["a", 0], ["a", 7200]])
        with pytest.raises(ValueError, match="those of the first call"):
            changed.set_params(**params).partial_fit([["a", 9000]])
    assert encoder.shape_ == (1, 3)
