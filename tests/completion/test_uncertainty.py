"""Standard deviations of predictions: do they hold of values that were held out?"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from tests.support.seams import _most_likely, _squared_distances, level_table
from tests.support.tensors import fitted_in

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings(
        "ignore:The declared scale, .* times as wide:UserWarning"
    ),
]
SHARES = np.array([0.5, 0.8, 0.95])
BOUNDS = (-3.0, 3.0)
RESIDUAL = 0.5


def normal_values(shape, n, rank, seed, residual=RESIDUAL):
    """Distinct coordinates and values: a CP of spread 0.8, and a normal residual.

    Its standard deviation may be one for each row.
    """
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(size, rank)) for size in shape[:2]]
    factors += [1 + 0.3 * rng.normal(size=(size, rank)) for size in shape[2:]]
    cells = rng.choice(math.prod(shape), n, replace=False)
    X = np.column_stack(np.unravel_index(cells, shape))
    truth = np.prod([f[X[:, m]] for m, f in enumerate(factors)], axis=0).sum(axis=1)
    spread = np.broadcast_to(residual, shape[0])[X[:, 0]]
    return X, 0.8 * truth / truth.std() + spread * rng.normal(size=n)


def coverage(model, X, y):
    """Share of the values within the central intervals, less what it should be."""
    mean, std = model.predict(X, return_std=True)
    inside = np.abs(y - mean) / std <= norm.ppf(0.5 + SHARES / 2)[:, np.newaxis]
    return inside.mean(axis=1) - SHARES


def completion(rank, shape, epsilon, **domain):
    domain = domain or {"value_bounds": BOUNDS}
    return CPCompletion(
        rank,
        epsilon=epsilon,
        perturbation="input",
        shape=shape,
        random_state=0,
        **domain,
    )


# --- values that were held out -------------------------------------------------------


def allowed(epsilon, n, share=SHARES):
    """3 points, and three times what the noise does to the estimated variance.

    The variance of n values with noise of variance D is known to about D / sqrt(n),
    of a total of residual and model. Half of its relative error is that of the standard
    deviation; times 2 z phi(z) it is that of the coverage at the quantile z.
    """
    noise = 0.0 if math.isinf(epsilon) else 2 * ((BOUNDS[1] - BOUNDS[0]) / epsilon) ** 2
    z = norm.ppf(0.5 + share / 2)
    return 0.03 + 3 * z * norm.pdf(z) * noise / math.sqrt(n) / RESIDUAL**2


SIZES = {
    "large": ((800, 600), 100_000, 3),
    "usual": ((400, 300), 20_000, 3),
    "three modes": ((80, 60, 12), 20_000, 2),
}


# Over 3 seeds the largest deviation was 0.8 points with epsilon inf, 1.9 with 16, 2.9
# with 8 (2.1 for "usual"), 3.9 with 4, where up to 7.7 are allowed. 20,000 are held
# out, which adds up to 0.4 points as a standard deviation.
@pytest.mark.parametrize(
    ("epsilon", "size"),
    [
        (math.inf, "usual"), (8.0, "usual"), (math.inf, "three modes"),
        (16.0, "three modes"),
        *(pytest.param(e, "large", marks=pytest.mark.slow) for e in (math.inf, 4.0)),
    ],
)  # fmt: skip
def test_values_fall_into_the_intervals_as_often_as_stated(epsilon, size):
    shape, n, rank = SIZES[size]
    X, y = normal_values(shape, n + 20_000, rank, seed=0)
    model = completion(rank, shape, epsilon).fit(X[:n], y[:n])
    found = coverage(model, X[n:], y[n:])
    assert np.all(np.abs(found) < allowed(epsilon, n)), found
    assert math.isinf(epsilon) or allowed(16.0, n).max() < 0.04


# Fine levels and dense fits: at most 0.7 and 2.1 points with epsilon 16 or more, over
# 2 seeds, and 1.1 and 2.6 with 8.
@pytest.mark.parametrize(
    ("kind", "epsilon"),
    [
        ("fine levels", math.inf), ("fine levels", 8.0), ("fit_batches", 8.0),
        ("dense", 16.0), pytest.param("float32", 16.0, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_intervals_hold_for_every_kind_of_input(kind, epsilon):
    shape, n = (400, 300), 20_000
    X, y = normal_values(shape, 2 * n, 3, seed=0)
    model = completion(3, shape, epsilon)
    if kind == "fine levels":
        levels = np.linspace(*BOUNDS, 31)
        y = levels[np.clip(np.rint((y + 3) / 0.2), 0, 30).astype(int)]
        model = completion(3, shape, epsilon, levels=levels).fit(X[:n], y[:n])
    elif kind == "float32":
        model.fit(X[:n], y[:n].astype(np.float32))
    else:
        fitted_in(kind, model, X[:n], y[:n], 5000)
    found = coverage(model, X[n:], y[n:])
    assert np.all(np.abs(found) < allowed(epsilon, n)), found


# Deviations at 50, 80 and 95 %: with epsilon inf, -1.6, 0.4 and 0.5 points, 4: -1.5,
# 0.5 and 0.9, 2: -3.0, -0.6 and 0.7. Ratings are bounded, so that their law is
# flatter than a normal one; under much noise that is seen in the middle. The standard
# deviation itself was right to 1.4 %.
@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [math.inf, 4.0, 2.0])
def test_ratings_fall_into_the_intervals_as_often_as_stated(epsilon):
    data = make_ratings(1000, 2000, 80_000, random_state=0)
    X, y = data.data[:64_000], data.target[:64_000]
    model = completion(5, data.shape, epsilon, levels=data.levels).fit(X, y)
    held_out = data.data[64_000:], data.target[64_000:]
    found = coverage(model, *held_out)
    middle = 0.06 if epsilon == 2 else 0.03
    assert np.all(np.abs(found) < [middle, 0.03, 0.03]), found
    mean, std = model.predict(held_out[0], return_std=True)
    error = np.mean((held_out[1] - mean) ** 2)
    assert math.sqrt(np.mean(std**2) / error) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("epsilon", [4.0, 1.0])
def test_the_noise_variance_is_that_of_randomised_values(epsilon):
    """Over 4 seeds the ratio was 0.99 to 1.01; of what replaces them, 0.67 to 0.89."""
    levels = np.linspace(-3, 3, 11)
    X, y = normal_values((400, 300), 60_000, 3, seed=1)
    y = levels[np.clip(np.rint((y + 3) / 0.6), 0, 10).astype(int)]
    model = completion(3, (400, 300), epsilon, levels=levels)
    noisy = model.client().privatize(y)
    n = 40_000
    model.fit_randomized(X[:n], noisy[:n])
    mean, std = model.predict(X[n:], return_std=True)
    error = np.mean((noisy[n:] - mean) ** 2)
    unexplained = np.mean(std**2) - model.residual_variance_
    stated = model.model_variance_ + unexplained
    assert stated == pytest.approx(error, rel=0.05)


@pytest.mark.parametrize("epsilon", [math.inf, 8.0])
def test_intervals_hold_where_an_index_is_unknown(epsilon):
    """Of a user without entries all that is known is the law of the others.

    Over 4 seeds, -1.3 to 1.0 points at 95 %, and -2.8 to 2.1 at 50 %, where the values
    are not normal, being products. Without the posterior variance of the unknown row
    95 % would be 71 to 74 %.
    """
    shape, n = (400, 300), 30_000
    X, y = normal_values(shape, n, 3, seed=0)
    known = X[:, 0] < 340
    model = completion(3, shape, epsilon).fit(X[known], y[known])
    for where in (X[~known], np.column_stack([np.full(sum(~known), -1), X[~known, 1]])):
        mean, std = model.predict(where, return_std=True)
        inside = np.abs(y[~known] - mean) < norm.ppf(0.975) * std
        assert 0.92 < inside.mean() < 0.98
        alone = norm.ppf(0.975) * math.sqrt(model.residual_variance_)
        assert np.mean(np.abs(y[~known] - mean) < alone) < 0.85


# --- what the standard deviation is --------------------------------------------------


@pytest.fixture(scope="module")
def uneven():
    """A model of rows with 2 to 200 entries each."""
    rng = np.random.default_rng(0)
    counts = np.geomspace(2, 200, 60).astype(int)
    X = np.concatenate(
        [
            np.column_stack([np.full(c, u), rng.permutation(200)[:c]])
            for u, c in enumerate(counts)
        ]
    )
    factors = rng.normal(size=(60, 2)), rng.normal(size=(200, 2))
    y = (factors[0][X[:, 0]] * factors[1][X[:, 1]]).sum(axis=1)
    return X, np.clip(y + 0.3 * rng.normal(size=len(X)), *BOUNDS)


@pytest.mark.parametrize(
    ("epsilon", "dtype"), [(math.inf, np.float64), (8.0, np.float32)]
)
def test_shape_type_and_parts(uneven, epsilon, dtype):
    X, y = uneven
    model = completion(2, (60, 200), epsilon).fit(X, y.astype(dtype))
    asked = np.array([[0, 0], [59, 3], [-1, 3], [4, -1], [-1, -1]])
    mean, std = model.predict(asked, return_std=True)
    assert mean.shape == std.shape == (5,)
    assert mean.dtype == std.dtype == dtype
    np.testing.assert_array_equal(mean, model.predict(asked))
    assert np.all(np.isfinite(std) & (std > 0))
    # Beside the residual, what is not known of the model.
    assert np.all(std**2 > model.residual_variance_)
    assert isinstance(model.residual_variance_, float)


@pytest.mark.parametrize("epsilon", [math.inf, 8.0])
def test_it_is_larger_where_less_is_known(uneven, epsilon):
    model = completion(2, (60, 200), epsilon).fit(*uneven)
    items = np.arange(200)

    def mean_std(user):
        where = np.column_stack([np.full(200, user), items])
        return model.predict(where, return_std=True)[1].mean()

    fewest, middle, most = (
        np.mean([mean_std(u) for u in users])
        for users in (range(12), range(24, 36), range(48, 60))
    )
    assert mean_std(-1) > fewest > middle > most
    no_item = model.predict([[59, -1]], return_std=True)[1]
    assert no_item > mean_std(59)
    noisier = completion(2, (60, 200), 3.0).fit(*uneven)
    std = [m.predict(uneven[0], return_std=True)[1].mean() for m in (model, noisier)]
    assert std[0] < std[1]


# Over 4 seeds to 0.60 to 0.68 on average, and in at least 97 % of the entries: a row
# that grows makes the products with it more uncertain.
def test_new_entries_make_it_smaller():
    X, y = normal_values((100, 80), 3000, 2, seed=0)
    late = X[:, 0] >= 90
    model = completion(2, (100, 80), 20.0).fit(X[~late], y[~late])
    before = model.predict(X[late], return_std=True)[1]
    residual = model.residual_variance_
    model.partial_fit(X[late], y[late])
    after = model.predict(X[late], return_std=True)[1]
    assert np.mean(after < before) > 0.93
    assert after.mean() < 0.8 * before.mean()
    assert model.residual_variance_ == residual


@pytest.mark.parametrize("epsilon", [0.01, math.inf])
@pytest.mark.parametrize("domain", [{"levels": [0, 1]}, {"value_bounds": (0, 1)}])
@pytest.mark.parametrize("n", [1, 5])
def test_few_entries_give_finite_deviations_within_the_range(n, domain, epsilon):
    X = np.column_stack([np.arange(n), np.arange(n)])
    model = completion(1, (6, 6), epsilon, **domain).fit(X, np.ones(n))
    std = model.predict([[0, 0], [-1, -1]], return_std=True)[1]
    assert np.all(np.isfinite(std) & (std > 0))
    assert 0 < model.residual_variance_ <= 1
    mean, std = model.predict(X, return_std=True)
    assert np.all(std <= np.maximum(mean, 1 - mean) + 1e-12)


# --- its estimate --------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("levels", [range(1, 6), np.arange(1, 11) / 2])
def test_squared_distances_are_unbiased(levels, epsilon):
    """Their exact expectation over the channel, at every level and for many means."""
    table = level_table(tuple(float(level) for level in levels), epsilon)
    x, ranks = np.array(table.levels), np.argsort(np.argsort(table.outputs))
    for mean in (x[0] - 2, x[0], x.mean(), x[1] + 0.3, x[-1] + 0.7):
        squares = _squared_distances(table, ranks, np.full(len(ranks), mean))
        expected = table.probabilities @ squares
        np.testing.assert_allclose(expected, (x - mean) ** 2, atol=1e-9)


# Over 6 seeds: 0.245 to 0.251, 0.231 to 0.25 and 0.994 to 1.004. The bounds are six
# times D / sqrt(n), D = 2 scale^2, plus 3 % for the tolerance of the optimum and the
# sampling of the normal part.
@pytest.mark.parametrize(("scale", "residual"), [(0.1, 1.0), (1.0, 0.25), (1.0, 4.0)])
def test_the_variance_under_laplace_noise_is_recovered(scale, residual):
    rng, n = np.random.default_rng(0), 50_000
    variance = rng.uniform(0, 0.2, n)
    distance = rng.normal(size=n) * np.sqrt(variance + residual)
    distance += rng.laplace(scale=scale, size=n)
    found = _most_likely(scale, distance, variance, 1.0, (1e-5, 36.0))
    limit = 6 * 2 * scale**2 / math.sqrt(n) + 0.03 * residual
    assert abs(found - residual) < limit


def test_noise_that_hides_the_variance_leaves_a_usual_one():
    """Without a prior, three of these four are almost 0, and one is 4.2."""
    ratings = make_ratings(40, 30, 300, random_state=0)
    for seed in range(4):
        model = CPCompletion(
            1, epsilon=0.5, value_bounds=(0.5, 5), perturbation="input", max_iter=5,
            n_pattern_components=0, random_state=seed,
        )  # fmt: skip
        model.fit(ratings.data, ratings.target)
        assert 0.2 < model.residual_variance_ < 2


def classical(X, y, shape):
    """Sum of squared residuals of a two-way layout over its degrees of freedom."""
    design = np.zeros((len(X), sum(shape)))
    design[np.arange(len(X)), X[:, 0]] = 1
    design[np.arange(len(X)), shape[0] + X[:, 1]] = 1
    gram = design.T @ design
    solution, rank = (
        np.linalg.pinv(gram, hermitian=True) @ (design.T @ y),
        sum(shape) - 1,
    )
    assert np.linalg.matrix_rank(gram, hermitian=True) == rank
    return np.sum((y - design @ solution) ** 2) / (len(X) - rank), rank


# Over 12 seeds the ratio was 0.944 to 1.065, its mean 1.001, its standard deviation
# 0.034 (the response is read off one random move); the mean of 8 is within 5 % by four
# of its standard deviations. Dividing by the number of entries would give 0.88.
@pytest.mark.slow
def test_biases_alone_have_the_classical_variance():
    shape, ratios = (80, 40), []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.integers(0, size, 1000) for size in shape])
        biases = [rng.normal(size=size) for size in shape]
        y = 0.5 * biases[0][X[:, 0]] + 0.5 * biases[1][X[:, 1]]
        y = y + 0.4 * rng.normal(size=len(X))
        model = completion(0, shape, math.inf, value_bounds=(-4, 4)).fit(X, y)
        expected, rank = classical(X, y, shape)
        assert rank > 0.11 * len(X)
        ratios.append(model.residual_variance_ / expected)
    assert np.mean(ratios) == pytest.approx(1, abs=0.05)
    np.testing.assert_allclose(ratios, 1, atol=0.17)


# With epsilon inf and the truth at 0.25: 0.226 to 0.247 over 4 seeds; not leaving an
# entry out of its own prediction, 0.140 to 0.174. With epsilon 30, 0.230 to 0.233, and
# 0.134 to 0.154.
@pytest.mark.parametrize(("epsilon", "seed"), [(math.inf, 0), (30.0, 1)])
def test_a_model_with_too_many_parameters_is_not_flattered(seed, epsilon):
    X, y = normal_values((60, 60), 1500, 2, seed)
    model = completion(6, (60, 60), epsilon).fit(X, y)
    assert model.residual_variance_ == pytest.approx(RESIDUAL**2, rel=0.2)


@pytest.mark.parametrize("smooth_modes", [[0, 1], None])
@pytest.mark.parametrize("spread", [0.0, 1e-3])
def test_nearly_constant_values_in_single_precision(smooth_modes, spread):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, size, 200) for size in (20, 15)])
    y = (2.5 + spread * rng.standard_normal(200)).astype(np.float32)
    for where in (X, np.zeros_like(X)):
        model = completion(1, (20, 15), math.inf, value_bounds=(0, 5))
        model.set_params(smooth_modes=smooth_modes).fit(where, y)
        mean, std = model.predict(where, return_std=True)
        assert np.all(np.abs(mean - y) < 0.01 + 5 * spread)
        assert np.all(np.isfinite(std))


@pytest.mark.parametrize(
    ("options", "has_variance"),
    [
        ({"perturbation": "sums"}, True),
        ({"perturbation": "statistics"}, True),
        ({"perturbation": "gradient"}, False),
        # Without biases, one sum is released.
        ({"perturbation": "statistics", "biases": False}, False),
    ],
)
def test_a_variance_that_is_not_estimated_is_not_stated(options, has_variance):
    X, y = normal_values((30, 20), 400, 1, seed=1)
    model = CPCompletion(
        1, epsilon=5.0, delta=1e-6, value_bounds=(-3, 3), shape=(30, 20), **options
    ).fit(X, y)
    assert hasattr(model, "model_variance_") == has_variance
    if not has_variance:
        with pytest.raises(AttributeError, match="model_variance_ is not estimated"):
            _ = model.model_variance_
