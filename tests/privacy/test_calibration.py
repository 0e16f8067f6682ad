"""Calibration of Gaussian noise: reference values and optimality."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag

from tests.support.seams import (
    box_mu,
    diagonal_bound,
    floored,
    least_cost_variances,
    water_filling,
)

close, equal = partial(assert_allclose, rtol=1e-9), partial(assert_allclose, rtol=1e-12)


def random_problem(seed):
    """Widths, weights, standard deviations and l2, none of them special."""
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 7)
    widths, weights, sigma = np.exp(rng.normal(size=(3, n)))
    l2 = math.inf if seed % 4 == 0 else rng.uniform(0.1, 1.2) * np.linalg.norm(widths)
    return widths, weights, sigma, float(l2)


class TestBox:
    @pytest.mark.parametrize("seed", range(15))
    def test_mu_is_the_vertex_that_pays_most(self, seed):
        # sum y_i / sigma_i^2 over 0 <= y_i <= r_i^2, sum y_i <= s^2: at a vertex, all
        # y_i but one are at an end.
        widths, _, sigma, l2 = random_problem(seed)
        caps, gains, best = widths**2, sigma**-2.0, 0.0
        for ends in itertools.product((0, 1), repeat=len(caps)):
            y = caps * ends
            left = l2**2 - y.sum()
            if left >= 0:
                others = np.where(ends, 0.0, gains * np.minimum(caps, left))
                best = max(best, gains @ y + others.max())
        equal(box_mu(widths, sigma, l2), math.sqrt(best))

    @pytest.mark.parametrize("seed", range(15))
    def test_least_cost(self, seed):
        widths, weights, _, l2 = random_problem(seed)
        variances = least_cost_variances(widths, weights, 0.7, l2)
        equal(box_mu(widths, np.sqrt(variances), l2), 0.7)
        # No noise costs less: for every q in the set, by Cauchy and Schwarz, the cost
        # is at least (sum sqrt(P q))^2 / mu^2.
        q = water_filling(widths, weights, l2)
        assert np.all((q > 0) & (q <= widths**2))
        equal(q.sum(), min(l2**2, widths @ widths))
        bound = np.sqrt(weights * q).sum() ** 2 / 0.7**2
        equal(weights @ variances, bound)
        # And none was found; the cost is convex, so that none near means none at all.
        rng = np.random.default_rng(seed)
        for scale in (1e-3, 0.03, 1.0):
            for other in variances * np.exp(scale * rng.normal(size=(50, len(q)))):
                cost = (weights @ other) * box_mu(widths, np.sqrt(other), l2) ** 2
                assert cost >= bound * 0.7**2 * (1 - 1e-12)

    def test_ball_within_rounding_of_the_box(self):
        rng = np.random.default_rng(0)
        for _ in range(500):
            widths = rng.integers(1, 40, 5) / 10
            l2 = math.nextafter(np.linalg.norm(widths), rng.integers(2) * 99.0)
            close(water_filling(widths, np.ones(5), l2), widths**2)

    def test_invariances(self):
        for seed in range(20):
            widths, weights, sigma, l2 = random_problem(seed)
            order = np.random.default_rng(seed).permutation(len(widths))
            mu = box_mu(widths, sigma, l2)
            best = least_cost_variances(widths, weights, 0.7, l2)
            widths, weights, sigma = 1e3 * widths, 7 * weights[order], 1e3 * sigma
            same = least_cost_variances(widths[order], weights, 0.7, 1e3 * l2)
            equal(same, 1e6 * best[order])
            equal(
                least_cost_variances(widths[order], weights, 700, 1e3 * l2), best[order]
            )
            equal(box_mu(widths[order], sigma[order], 1e3 * l2), mu)

    def test_weights_of_zero(self):
        assert_allclose(floored([4, 0, 1e-7, 2]), [4, 4e-6, 4e-6, 2])
        variances = least_cost_variances(np.ones(2), [4, 0], 1.0)
        assert_allclose(variances, least_cost_variances(np.ones(2), [4, 4e-6], 1.0))


def cycle(n):
    """Laplacian of a cycle, whose programme is solved by a constant diagonal."""
    ahead = np.roll(np.eye(n), 1, axis=0)
    return 2 * np.eye(n) - ahead - ahead.T, n * (2 + 2 * math.cos(math.pi / n))


class TestDiagonalBound:
    @pytest.mark.parametrize("seed", range(15))
    def test_bound(self, seed):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 11))
        factor = rng.normal(size=(rng.integers(1, n + 1), n))
        matrix = factor.T @ factor
        costs = np.ones(n) if seed % 2 else np.exp(rng.normal(size=n))
        diagonal = diagonal_bound(matrix, costs)
        assert np.linalg.eigvalsh(np.diag(diagonal) - matrix)[0] > -1e-14 * n
        signs = np.array(list(itertools.product((-1, 1), repeat=n))) * np.sqrt(costs)
        exact, found = np.sum((signs @ factor.T) ** 2, axis=1).max(), diagonal @ costs
        assert exact <= found <= exact * math.pi / 2
        scaled = matrix * np.sqrt(np.outer(costs, costs))
        assert found <= np.abs(scaled).sum() * (1 + 1e-12)
        assert found <= n * np.linalg.eigvalsh(scaled)[-1] * (1 + 1e-12)
        same = diagonal_bound(5 * matrix, 3 * costs)
        assert_allclose(same, 5 * diagonal, rtol=1e-6)

    def test_least(self):
        matrices, values = zip(cycle(5), cycle(3), cycle(7), strict=True)
        for matrix, value in zip(matrices, values, strict=True):
            equal(diagonal_bound(matrix, np.ones(len(matrix))).sum(), value)
        matrix = block_diag(matrices[0], 3 * matrices[1], 0.2 * matrices[2])
        matrix += 0.5 * np.eye(15)
        costs = np.random.default_rng(0).uniform(0.1, 9, 15)
        found = diagonal_bound(matrix / np.sqrt(np.outer(costs, costs)), costs) @ costs
        assert 1 <= found / (np.dot([1, 3, 0.2], values) + 7.5) < 1 + 1e-4
        assert found < 0.9 * np.abs(matrix).sum()

    @pytest.mark.parametrize("diagonal", [[1.0, 1e-6, 3.0], [0.0, 0.0, 0.0]])
    def test_diagonal_matrices_are_their_own_bound(self, diagonal):
        found = diagonal_bound(np.diag(diagonal), np.array([0.3, 5.0, 1.0]))
        assert_allclose(found, diagonal, atol=1e-12)
