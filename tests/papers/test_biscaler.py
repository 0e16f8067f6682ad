"""Bi-scaling: the published moments, what one value changes, how noise is spread."""

import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import Pipeline

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_low_rank_tensor
from sktensordp.exceptions import PrivacyLeakWarning
from sktensordp.papers import BiScaler
from sktensordp.privacy import privacy_of
from tests.support.noise import drawing
from tests.support.refusing import refused
from tests.support.replaying import recorded

SHAPE = 60, 40
BOUNDS = -3.0, 9.0


def problem(n=6000, seed=0):
    """Entries with means and scales of rows and columns, and the truth of both."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, size, n) for size in SHAPE])
    means = [0.6 * rng.standard_normal(size) for size in SHAPE]
    scales = [np.exp(0.3 * rng.standard_normal(size)) for size in SHAPE]
    center = 3.0 + sum(m[c] for m, c in zip(means, X.T, strict=True))
    scale = 0.7 * np.prod([s[c] for s, c in zip(scales, X.T, strict=True)], axis=0)
    return X, center + scale * rng.standard_normal(n), center, scale


X, Y, CENTER, SCALE = problem()
TENSOR = np.where(np.random.default_rng(1).random((9, 8, 5)) < 0.8, 1.0, np.nan)
TENSOR *= np.random.default_rng(2).uniform(0, 5, TENSOR.shape)


def make(epsilon=1.0, **params):
    options = {"value_bounds": BOUNDS, "random_state": 0, **params}
    return BiScaler(epsilon, **options)


def published(**params):
    return make(None, **{"value_bounds": None, "clip": 100.0, **params})


def fit_published(*data, **params):
    with pytest.warns(PrivacyLeakWarning, match="epsilon is None"):
        return published(**params).fit(*data)


def moments(column, z):
    n = np.bincount(column)
    return np.bincount(column, z) / n, np.bincount(column, z**2) / n


def parts(model, X):
    """Centre and scale of entries, from the attributes."""
    center = model.offset_ + sum(m[c] for m, c in zip(model.means_, X.T, strict=True))
    return center, np.prod([s[c] for s, c in zip(model.scales_, X.T, strict=True)], 0)


# The published procedure.


@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e150])
def test_published_moments_are_zero_and_one(unit):
    model = fit_published(X, Y * unit)
    z = model.scale_values(X, Y * unit)
    for column in X.T:
        mean, square = moments(column, z)
        np.testing.assert_allclose(mean, 0, atol=1e-8)
        np.testing.assert_allclose(square, 1, atol=1e-8)
    center, scale = parts(model, X)
    np.testing.assert_allclose((Y * unit - center) / scale, z, atol=1e-10)
    assert np.sqrt(np.mean((center / unit - CENTER) ** 2)) < 0.2
    assert np.sqrt(np.mean(np.log(scale / unit / SCALE) ** 2)) < 0.15


def test_published_moments_of_a_tensor():
    with pytest.warns(PrivacyLeakWarning):
        z = published(modes=(0, 2)).fit_transform(TENSOR)
    np.testing.assert_array_equal(np.isnan(z), np.isnan(TENSOR))
    for axes in ((1, 2), (0, 1)):
        np.testing.assert_allclose(np.nanmean(z, axes), 0, atol=1e-8)
        np.testing.assert_allclose(np.nanmean(z**2, axes), 1, atol=1e-8)
    # The mode in between is not standardised.
    assert np.ptp(np.nanmean(z**2, (0, 2))) > 0.1


def test_rows_that_determine_no_scale_keep_the_common_one():
    """A row of one value, one of equal values, and one of none."""
    where = np.vstack([X, [[60, 0]], [[61, 1]] * 3])
    values = np.concatenate([Y, [4.0], [2.0] * 3])
    model = fit_published(where, values, shape=(63, 40))
    common = math.sqrt(model.scale_)
    np.testing.assert_allclose(model.scales_[0][60:], common, rtol=1e-12)
    assert model.means_[0][62] == 0
    assert np.all(np.isfinite(model.scale_values(where, values)))
    # As the geometric mean of all others.
    levels = [np.exp(np.mean(np.log(s[:40]))) for s in model.scales_]
    assert levels[1] == pytest.approx(common, rel=1e-9)


@pytest.mark.parametrize("y", [[2.0] * 4, [1.0, 2.0, 2.0, 3.0]])
def test_values_without_variance(y):
    """Constant values, and values that means explain."""
    where = [[0, 0], [0, 1], [1, 0], [1, 1]]
    model = fit_published(where, y)
    np.testing.assert_allclose(model.scale_values(where, y), 0, atol=1e-9)
    np.testing.assert_allclose(model.unscale_values(where, np.zeros(4)), y)


def test_a_fit_that_does_not_settle_says_so():
    """With hardly an entry a row, scales run off."""
    rng = np.random.default_rng(0)
    where = np.column_stack([rng.integers(0, size, 70) for size in SHAPE])
    with (
        pytest.warns(PrivacyLeakWarning),
        pytest.warns(ConvergenceWarning, match="sweeps"),
    ):
        published().fit(where, rng.standard_normal(70))


# The guarantee.


@pytest.mark.parametrize("epsilon", [0.4, 3.0])
def test_one_value_changes_four_sums_within_the_budget(epsilon):
    """By brute force over the entries, and over values within and beyond the range."""
    rng = np.random.default_rng(0)
    where = np.column_stack([rng.integers(0, 3, 9), rng.integers(0, 4, 9)])
    values = rng.uniform(-4, 10, 9)

    def releases(values, follow=None):
        with recorded(follow) as found:
            model = make(epsilon, shape=(3, 4)).fit(where, values)
        return found, model.privacy_guarantee_

    before, guarantee = releases(values)
    largest = np.zeros(4)
    for entry in range(9):
        for value in (-1e9, 2.9, 1e300):
            changed = values.copy()
            changed[entry] = value
            # Given the same means, the sums of squares are one release.
            after, stated = releases(changed, before)
            assert stated == guarantee
            moves = [np.split(one, [3]) for (one,) in before.moved(after)]
            for k, part in enumerate(part for both in moves for part in both):
                assert set(np.flatnonzero(part)) <= {where[entry, k % 2]}
                largest[k] = max(largest[k], part.max())
    lattices = np.repeat(before.lattices, 2)
    assert all(n <= lattice.l1_steps for n, lattice in zip(largest, lattices, strict=1))
    spent = sum(n * lattice.rate for n, lattice in zip(largest, lattices, strict=True))
    # No budget is wasted, but for values that are not as far apart as they may be.
    assert 0.8 * epsilon < spent <= epsilon


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 29.0])
def test_the_guarantee_counts_four_sums_and_does_not_exceed_the_budget(epsilon):
    guarantee = make(epsilon).fit(X, Y).privacy_guarantee_
    rates = [
        (each.event.noise_parameter * each.event.sensitivity, each.count)
        for each in guarantee.event.events
    ]
    assert [count for _, count in rates] == [2, 2]
    total = sum(rate * count for rate, count in rates)
    assert guarantee.epsilon == pytest.approx(total, rel=1e-12)
    assert epsilon * (1 - 1e-5) < guarantee.epsilon <= epsilon
    assert (guarantee.delta, guarantee.unit) == (0, "entry")


def test_every_sum_has_its_own_noise_for_its_share_of_the_budget():
    """Rows without entries show it; more of them than a stream serves.

    Values have 0.8 of epsilon and squares 0.2, of which rows and columns have a half
    each. In units of the range the absolute noise is exponential with mean 2 / share.
    False alarm: 6 standard deviations of four means and of six correlations, 1e-8.
    """
    n, sizes = 33_000 - 60, (33_000, 33_000)
    with recorded() as found, drawing() as streams:
        make(1.0, shape=sizes).fit(X, Y)
    assert len(set(streams)) == len(streams) == 4
    noise = []
    for lattice, (sums,) in zip(found.lattices, found.outputs, strict=True):
        for part in np.split(sums, 2):
            noise.append(part[60:] / lattice.l1_steps)
    scores = [np.mean(np.abs(part)) for part in noise] / np.repeat([2.5, 10.0], 2) - 1
    assert np.all(np.abs(scores) * math.sqrt(n) < 6)
    together = np.corrcoef(np.sign(noise))[np.triu_indices(4, 1)]
    assert np.all(np.abs(together) * math.sqrt(n) < 6)


def test_nothing_raw_survives():
    """Nor of what is standardised; values and sums are searched for elsewhere."""
    model = make(random_state=None).fit(X, Y)
    stored, z = pickle.dumps(model), model.scale_values(X, Y)
    center, _ = parts(model, X)
    squares = np.bincount(X[:, 0], ((Y - center) / 6) ** 2)
    for raw in (z[:500], squares, squares / np.bincount(X[:, 0])):
        assert not any(value.tobytes() in stored for value in raw)
    assert model.means_[0][0].tobytes() in stored


# What warns, and what the guarantee then says.


def test_raw_statistics_are_no_guarantee():
    guarantee = fit_published(X, Y).privacy_guarantee_
    assert guarantee.epsilon == math.inf
    assert "raw values" in guarantee.statement


def test_a_range_read_off_the_values_voids_the_guarantee():
    with pytest.warns(PrivacyLeakWarning, match="read off the private values"):
        model = make(value_bounds=None).fit(X, Y)
    assert model.privacy_guarantee_.epsilon == math.inf
    assert model.privacy_guarantee_.claimed == (1.0, 0.0)
    assert model.offset_ == pytest.approx(make().fit(X, Y).offset_, abs=0.1)
    # The range is not kept, so that nothing is clipped to it.
    assert model.unscale_values([[0, 0]], [100.0]) > Y.max()


def test_no_noise_protects_nothing():
    model = make(math.inf).fit(X, Y)
    assert model.privacy_guarantee_.epsilon == math.inf
    assert "without noise" in model.privacy_guarantee_.statement
    make(math.inf, value_bounds=None).fit(X, Y)


def test_what_is_unprotected():
    sentences = privacy_of(make(random_state=None).fit(X, Y)).unprotected
    assert len(sentences) == 2
    assert "standardised values" in sentences[0]
    assert "coordinates" in sentences[1]


# How close it comes.


def errors(model, X=X, center=CENTER, scale=SCALE):
    found = parts(model, X)
    return (
        np.sqrt(np.mean((found[0] - center) ** 2)),
        np.sqrt(np.mean(np.log(found[1] / scale) ** 2)),
    )


def test_without_noise_it_is_close_to_the_truth():
    model = make(math.inf).fit(X, Y)
    of_means, of_scales = errors(model)
    # By sampling alone, means of 100 and 150 values are off by 0.09 together.
    assert of_means < 0.2
    assert of_scales < 0.15
    z = model.scale_values(X, Y)
    assert abs(z.mean()) < 0.02
    assert 0.9 < z.std() < 1.1
    for column in X.T:
        mean, square = moments(column, z)
        assert np.max(np.abs(mean)) < 0.5
        assert square.min() > 0.6
        assert square.max() < 1.4


def test_the_smaller_the_budget_the_closer_to_common():
    spreads, mistakes = [], []
    for epsilon in (math.inf, 30.0, 3.0, 1e-3):
        models = [make(epsilon, random_state=seed).fit(X, Y) for seed in range(3)]
        spreads.append(np.mean([np.log(m.scales_[0]).std() for m in models]))
        mistakes.append(np.mean([errors(m) for m in models], axis=0))
        assert all(np.all(s > 0) for m in models for s in m.scales_)
        assert all(BOUNDS[0] <= m.offset_ <= BOUNDS[1] for m in models)
    assert np.all(np.diff(spreads[1:]) < 0)
    assert spreads[-1] < 1e-3
    assert np.all(np.diff([of_means for of_means, _ in mistakes[1:]]) > 0)
    # Better than without means or scales.
    assert mistakes[2][0] < CENTER.std()
    assert mistakes[1][1] < np.log(SCALE).std()


# The interface.


@pytest.mark.parametrize(
    ("epsilon", "dtype"), [(2.0, np.float32), (math.inf, np.float64)]
)
def test_round_trip(epsilon, dtype):
    y = Y.astype(dtype)
    model = make(epsilon, clip=2.0).fit(X, y)
    assert model.value_bounds_ == (-2.0, 2.0)
    z = model.scale_values(X, y)
    assert z.dtype == dtype
    assert np.max(np.abs(z)) <= 2
    inside = np.abs(z) < 2
    assert 0.9 < inside.mean() < 1
    back = model.unscale_values(X, z)
    assert back.dtype == dtype
    np.testing.assert_allclose(back[inside], y[inside], rtol=1e-4, atol=1e-5)
    assert np.all((back >= BOUNDS[0]) & (back <= BOUNDS[1]))


def test_unknown_indices():
    model = make(shape=(61, 41)).fit(X, Y)
    where = [[-1, -1], [60, 40], [-1, 40], [60, -1]]
    z = model.scale_values(where, [model.offset_ + 0.5] * 4)
    np.testing.assert_allclose(z, 0.5 / model.scale_)
    np.testing.assert_allclose(
        model.unscale_values(where, np.ones(4)), model.offset_ + model.scale_
    )
    half = model.unscale_values([[-1, 3]], [1.0])
    expected = math.sqrt(model.scale_) * model.scales_[1][3]
    assert half == pytest.approx(model.offset_ + model.means_[1][3] + expected)


@pytest.mark.parametrize(("epsilon", "modes"), [(2.0, (-1, 1)), (math.inf, (0, 1))])
def test_a_tensor_is_its_coordinates(epsilon, modes):
    where = np.argwhere(~np.isnan(TENSOR))
    values = TENSOR[tuple(where.T)]
    model = make(epsilon, value_bounds=(0, 5), modes=modes, shape=TENSOR.shape)
    dense, sparse = clone(model).fit(TENSOR), clone(model).fit(where, values)
    for name in ("means_", "scales_"):
        for a, b in zip(getattr(dense, name), getattr(sparse, name), strict=True):
            np.testing.assert_array_equal(a, b)
    assert dense.privacy_guarantee_ == sparse.privacy_guarantee_
    assert dense.n_features_in_ == sparse.n_features_in_ == 3
    sizes = [TENSOR.shape[mode] for mode in sorted(m % 3 for m in modes)]
    assert [len(m) for m in dense.means_] == sizes
    z = dense.transform(TENSOR)
    np.testing.assert_allclose(
        z[tuple(where.T)], sparse.scale_values(where, values), rtol=1e-12
    )
    filled = np.clip(np.nan_to_num(z, nan=0.5), -2, 2)
    np.testing.assert_allclose(
        dense.inverse_transform(filled).ravel(),
        sparse.unscale_values(np.argwhere(np.ones(TENSOR.shape)), filled.ravel()),
    )
    with pytest.raises(ValueError, match="another shape than"):
        dense.transform(TENSOR[:-1])


def test_transform_is_there_unless_the_fit_was_to_coordinates():
    model = make()
    with pytest.raises(NotFittedError):
        model.transform(TENSOR)
    with pytest.raises(NotFittedError):
        model.scale_values(X, Y)
    model.fit(X, Y)
    assert not hasattr(model, "transform")
    assert not hasattr(model, "inverse_transform")
    assert hasattr(model.fit(TENSOR), "transform")


def test_pipeline():
    made = make_low_rank_tensor((20, 15, 6), 2, snr=10, random_state=0)
    model = Pipeline(
        [
            ("scale", BiScaler(1.0, value_bounds=(-0.5, 1.5))),
            ("cp", CPCompletion(2, epsilon=2.0, value_bounds=(-3, 3))),
        ]
    ).set_output(transform="default")
    completed = model.fit(made.tensor).transform(made.tensor)
    assert completed.shape == made.shape
    restored = model["scale"].inverse_transform(completed)
    assert np.all((restored >= -0.5) & (restored <= 1.5))
    report = privacy_of(model)
    assert [one.epsilon for _, _, one in report.releases] == pytest.approx([1, 2])
    assert report.guarantee.epsilon == pytest.approx(3)
    assert report.guarantee.epsilon <= 3
    assert any("standardised values" in each for each in report.unprotected)
    model.set_params(scale__epsilon=None)
    with pytest.warns(PrivacyLeakWarning):
        model.fit(made.tensor)
    assert privacy_of(model).guarantee.epsilon == math.inf


SECRET = 4.25


@pytest.mark.parametrize(
    ("data", "params", "message"),
    [
        ((X, Y), {"epsilon": -1.0}, "epsilon"),
        ((X, Y), {"epsilon": 1e-13}, "too small to be represented"),
        ((X, Y), {"clip": 0.0}, "clip"),
        ((X, Y), {"clip": math.inf}, "clip"),
        ((X, Y), {"value_bounds": (1, 1)}, "low < high"),
        ((X, Y), {"value_bounds": 3}, "value_bounds"),
        ((X, Y), {"shape": (10, 10)}, "outside the tensor"),
        ((X, Y), {"shape": (100, 100, 3)}, "has 2 columns"),
        ((X, Y), {"modes": (0,)}, "must be two different modes"),
        ((X, Y), {"modes": (0, 2)}, "numbers of modes"),
        ((X - 1, Y), {}, "Negative values in data"),
        ((X + 0.5, Y), {}, "some are fractional"),
        ((X, [SECRET, np.nan, *Y[2:]]), {}, "NaN"),
        ((X, [SECRET, math.inf, *Y[2:]]), {}, "infinity"),
        ((X, [str(SECRET), "x", *Y[2:]]), {}, "must hold numbers"),
        ((X, Y + SECRET * 1j), {}, "Complex data"),
        ((X, Y[1:]), {}, "same length"),
        ((X[:, :1], Y), {}, "minimum of 2 is required"),
        ((np.full((3, 4), SECRET),), {"shape": (4, 3)}, "another shape than"),
    ],
)
def test_bad_input_is_refused_before_anything_is_drawn(data, params, message):
    model = make(**params)
    with refused(message, secret=str(SECRET)):
        model.fit(*data)
    assert not hasattr(model, "privacy_guarantee_")


@pytest.mark.parametrize(
    ("where", "values", "message"),
    [
        ([[0, 60]], [1.0], "outside the tensor"),
        ([[0, -2]], [1.0], "only -1 stands for"),
        ([[0.5, 1]], [1.0], "fractional"),
        ([[0, 1]], [np.nan], "NaN"),
        ([[0, 1]], ["4.25x"], "must hold numbers"),
        ([[0, 1, 2]], [1.0], "features"),
    ],
)
def test_bad_entries_are_refused(where, values, message):
    model = make().fit(X, Y)
    for method in (model.scale_values, model.unscale_values):
        with pytest.raises(ValueError, match=message) as caught:
            method(where, values)
        assert "4.25" not in str(caught.value)
