from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.datasets import make_ratings
from tests.support.points import POINTS
from tests.support.seams import _draw_values, draw_cells


@pytest.fixture(scope="module")
def ratings():
    return make_ratings(random_state=0)


def n_distinct(data, shape):
    return len(np.unique(data[:, 0] * shape[1] + data[:, 1]))


def test_types(ratings):
    assert ratings.data.shape == (60_000, 2)
    assert ratings.data.dtype == np.int64
    assert ratings.data.flags.c_contiguous
    assert ratings.target.shape == (60_000,)
    assert ratings.target.dtype == np.float64
    assert ratings.shape == (600, 2000)
    assert ratings.feature_names == ["user", "item"]
    assert_array_equal(ratings.levels, np.arange(1, 11) / 2)
    assert "60000 ratings of 2000 items by 600 users" in ratings.DESCR


def test_pairs_are_distinct_and_within_the_shape(ratings):
    assert n_distinct(ratings.data, ratings.shape) == 60_000
    assert (ratings.data >= 0).all()
    assert (ratings.data < ratings.shape).all()


def test_dense_draws_are_the_same_on_every_processor():
    """A partition would order the cells by the processor's vector instructions."""
    dense = make_ratings(100, 150, 4000, random_state=0).data
    assert dense[:4].tolist() == [[41, 5], [66, 12], [81, 63], [15, 132]]


def test_all_levels_occur_and_nothing_else(ratings):
    assert_array_equal(np.unique(ratings.target), ratings.levels)


def test_rows_are_in_random_order(ratings):
    position = np.arange(60_000)
    for column in (*ratings.data.T, ratings.target):
        assert abs(np.corrcoef(position, column)[0, 1]) < 0.02


def share_of_top_tenth(column, n):
    counts = np.sort(np.bincount(column, minlength=n))
    return counts[-n // 10 :].sum() / counts.sum()


def test_activity_and_popularity_follow_power_laws(ratings):
    assert 0.30 < share_of_top_tenth(ratings.data[:, 0], 600) < 0.45
    assert 0.35 < share_of_top_tenth(ratings.data[:, 1], 2000) < 0.50


def test_popularity_has_the_slope_of_the_exponent():
    n_users, n_items = 200_000, 500
    ratings = make_ratings(
        n_users, n_items, 300_000, user_exponent=0, item_exponent=0.8, random_state=0
    )
    counts = np.sort(np.bincount(ratings.data[:, 1], minlength=n_items))[::-1]
    rank = np.arange(1, n_items + 1)
    slope = np.polyfit(np.log(rank[:100]), np.log(counts[:100]), 1)[0]
    assert_allclose(slope, -0.8, atol=0.05)


def test_index_carries_no_order(ratings):
    for column, n in zip(ratings.data.T, ratings.shape, strict=True):
        counts = np.bincount(column, minlength=n)
        assert abs(np.corrcoef(np.arange(n), np.log1p(counts))[0, 1]) < 0.15


def residual_of_biases(ratings):
    """Least squares fit of the biases by alternating projections."""
    residual = ratings.target - ratings.target.mean()
    for _ in range(20):
        for column, n in zip(ratings.data.T, ratings.shape, strict=True):
            counts = np.maximum(np.bincount(column, minlength=n), 1)
            means = np.bincount(column, residual, n) / counts
            residual = residual - means[column]
    return residual


def test_spread_is_like_that_of_real_ratings():
    spread, unexplained = [], []
    for seed in range(3):
        ratings = make_ratings(random_state=seed)
        spread.append(ratings.target.std())
        n_parameters = sum(ratings.shape) - 1
        squares = (residual_of_biases(ratings) ** 2).sum()
        unexplained.append(np.sqrt(squares / (60_000 - n_parameters)))
        assert 3.3 < ratings.target.mean() < 3.8
    assert 1.0 < np.mean(spread) < 1.1
    assert 0.85 < np.mean(unexplained) < 0.91


def full_matrix(**params):
    ratings = make_ratings(300, 400, 120_000, random_state=0, **params)
    matrix = np.empty(ratings.shape)
    matrix[tuple(ratings.data.T)] = ratings.target
    return matrix


def interaction(matrix):
    """Take the biases off a full matrix."""
    return (
        matrix
        - matrix.mean(axis=0)
        - matrix.mean(axis=1, keepdims=True)
        + matrix.mean()
    )


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_interaction_has_the_rank(rank):
    grid = np.argwhere(np.ones((30, 40)))
    rng = np.random.RandomState(0)
    values = _draw_values(grid, 30, 40, rank, 0, rng).reshape(30, 40)
    assert np.linalg.matrix_rank(values) == rank + 2
    assert np.linalg.matrix_rank(interaction(values), tol=1e-9) == rank


def test_the_rank_explains_more_than_the_biases():
    matrix = interaction(full_matrix())
    shares = np.linalg.svd(matrix, compute_uv=False) ** 2 / (matrix**2).sum()
    assert 0.2 < shares[:5].sum() < 0.5
    assert shares[4] > 2 * shares[5]


def test_noise_sets_the_residual():
    quiet, loud = (interaction(full_matrix(rank=0, noise=s)).std() for s in (0.05, 0.1))
    rounding = 0.5**2 / 12
    assert_allclose(quiet, np.sqrt((0.05 * 4.5) ** 2 + rounding), rtol=0.1)
    assert_allclose(loud, np.sqrt((0.1 * 4.5) ** 2 + rounding), rtol=0.1)


@pytest.mark.parametrize("levels", [(0.0, 0.5, 1.0), (0.0, 0.6, 0.7, 1.0)])
def test_values_are_rounded_to_the_nearest_level(levels):
    fine = make_ratings(levels=np.linspace(0, 1, 10_001), random_state=0).target
    coarse = make_ratings(levels=levels, random_state=0).target
    distance = np.abs(fine[:, None] - levels)
    assert (np.abs(fine - coarse) <= distance.min(axis=1) + 2e-4).all()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n_users", "n_items", "n_ratings"),
    [(5, 4, 20), (5, 4, 19), (1, 1, 1), (1, 50, 25), (600, 2000, 1_200_000)],
)
def test_dense(n_users, n_items, n_ratings):
    ratings = make_ratings(n_users, n_items, n_ratings, random_state=0)
    assert len(ratings.data) == n_ratings
    assert n_distinct(ratings.data, ratings.shape) == n_ratings


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6])
def test_exponents_that_exhaust_the_likely_pairs(share):
    n_ratings = int(share * 200 * 300)
    ratings = make_ratings(
        200, 300, n_ratings, user_exponent=4, item_exponent=60, random_state=0
    )
    assert n_distinct(ratings.data, ratings.shape) == n_ratings


@pytest.mark.thorough
def test_many_more_pairs_than_memory_could_hold():
    ratings = make_ratings(2_000_000, 3_000_000, 50_000, random_state=0)
    assert n_distinct(ratings.data, ratings.shape) == 50_000


WEIGHTS = np.log([0.7, 0.3]), np.log([0.5, 0.3, 0.2])


def chances_of_sets(n_draws):
    """Enumerate the weighted draws without replacement of the six cells."""
    p = np.exp(np.add.outer(*WEIGHTS)).ravel()
    chances = {}
    for order in permutations(range(6), n_draws):
        left, chance = 1.0, 1.0
        for cell in order:
            chance *= p[cell] / left
            left -= p[cell]
        key = tuple(sorted(order))
        chances[key] = chances.get(key, 0.0) + chance
    return chances


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("cost", [0, 2, 1000])
@pytest.mark.parametrize("n_draws", [1, 2, 4])
def test_chances_are_those_of_a_draw_without_replacement(monkeypatch, cost, n_draws):
    # By cost, all cells come from batches of draws, or from both ways, or from one
    # pass over the cells.
    monkeypatch.setattr(*POINTS["cost of drawing a cell"], cost)
    monkeypatch.setattr(*POINTS["least batch of cells"], 3)
    rng = np.random.RandomState(0)
    n_repeats = 4000
    counts = dict.fromkeys(chances_of_sets(n_draws), 0)
    for _ in range(n_repeats):
        cells = draw_cells(n_draws, *WEIGHTS, rng)
        counts[tuple(sorted(cells.tolist()))] += 1
    for key, chance in chances_of_sets(n_draws).items():
        sigma = np.sqrt(chance * (1 - chance) / n_repeats)
        assert abs(counts[key] / n_repeats - chance) < 4.5 * sigma


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_users": 0}, "n_users must be an integer of at least 1, got 0"),
        ({"n_items": 2.0}, "n_items must be an integer of at least 1, got 2.0"),
        ({"n_ratings": -1}, "n_ratings must be an integer of at least 1, got -1"),
        ({"rank": -1}, "rank must be an integer of at least 0, got -1"),
        ({"n_users": 5, "n_items": 4, "n_ratings": 21}, "21 must be at most .* 20,"),
        ({"n_users": 2**32, "n_items": 2**32}, r"below 2\*\*63"),
        ({"user_exponent": -0.1}, "user_exponent must be a finite number"),
        ({"item_exponent": np.nan}, "item_exponent must be a finite number"),
        ({"noise": np.inf}, "noise must be a finite number"),
        ({"noise": "0.1"}, "noise must be a finite number"),
        ({"levels": (1.0,)}, "levels must hold at least two"),
        ({"levels": (1.0, 1.0)}, "levels must hold .* increasing"),
        ({"levels": (1.0, np.inf)}, "levels must hold .* finite"),
        ({"levels": ((1.0, 2.0),)}, "levels must hold"),
    ],
)
def test_invalid_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        make_ratings(**params)
