"""Calibration of Gaussian noise: reference values, optimality, published theorems."""

import itertools
import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag

from sktensordp.privacy import gaussian_delta, gaussian_mu
from sktensordp.privacy.calibration import _gaussian as _calibration
from sktensordp.privacy.calibration._gaussian import (
    box_mu,
    diagonal_bound,
    least_cost_variances,
    published_bound,
    published_variances,
    water_filling,
    zeta,
)


def number(value):
    """Decimals as floats and lists of them as arrays; anything else as it is."""
    try:
        return np.array(value, dtype=float)[()]
    except (TypeError, ValueError):
        return value


ORACLE = json.loads(
    Path(__file__).with_name("mechanisms_oracle.json").read_text(encoding="utf-8"),
    object_hook=lambda case: {key: number(value) for key, value in case.items()},
)
close, equal = partial(assert_allclose, rtol=1e-9), partial(assert_allclose, rtol=1e-12)


def random_problem(seed):
    """Widths, weights, standard deviations and l2, none of them special."""
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 7)
    widths, weights, sigma = np.exp(rng.normal(size=(3, n)))
    l2 = math.inf if seed % 4 == 0 else rng.uniform(0.1, 1.2) * np.linalg.norm(widths)
    return widths, weights, sigma, float(l2)


class TestReferences:
    @pytest.mark.parametrize("case", ORACLE["zeta"])
    def test_zeta_and_t(self, case):
        n, delta = case["I"], case["delta"]
        close(zeta(n, delta), case["zeta"])
        close(zeta(n, delta) ** 2, case["zeta2"])
        for epsilon, t in case["t"].items():
            close(published_bound(n, float(epsilon), delta, 1.0), t**2)

    @pytest.mark.parametrize("case", ORACLE["paper_B"])
    def test_published_bounds(self, case):
        width, epsilon, delta = case["a_minus_b_width"], case["eps"], case["delta"]
        n, first = case["shape"].prod(), int(case["shape"][0])
        l2 = width * math.sqrt(n)
        close(l2, case["s2"])
        bound = published_bound(n, epsilon, delta, l2)
        close(bound, case["B_TVG_UDN"])
        close(first * bound, case["B_IDN_003"])
        mu, truth = l2 * math.sqrt(bound), case["true_eps_if_tight"]
        close(mu, case["mu_if_TVG_bound_tight"])
        close(gaussian_mu(truth, delta), mu)
        assert gaussian_delta(truth, mu) == pytest.approx(delta, rel=1e-7)
        assert truth < epsilon
        # With the constant that the journal prints, the claim is false.
        printed = first * published_bound(n, epsilon, delta, width / math.sqrt(n))
        close(printed, case["B_IDN_000_unsound"])
        (variances,) = published_variances([np.ones(first)], printed)
        widths = np.full(first, width * math.sqrt(n / first))
        mu, truth = box_mu(widths, np.sqrt(variances)), case["true_eps_IDN_000"]
        close(mu, case["mu_IDN_000"])
        close(gaussian_mu(truth, delta), mu)
        assert truth > 100 * epsilon

    def test_published_variances(self):
        case = ORACLE["udn_eq28"]
        (variances,) = published_variances([case["P"]], case["B"])
        close(variances, case["sigma2"])
        close(case["P"] @ variances, case["error"])
        equal(np.sum(1 / variances), case["B"])
        case = ORACLE["eq25_explicit"]
        weights = [case["P1"], case["P2"]]
        variances = published_variances(weights, case["B"])
        close(variances[0], case["sigma2_mode1"])
        close(variances[1], case["sigma2_mode2"])
        error = math.prod(p @ v for p, v in zip(weights, variances, strict=True))
        close(error, case["error"])
        equal([np.sum(1 / v) for v in variances], math.sqrt(case["B"]))

    @pytest.mark.parametrize("case", ORACLE["mvg"])
    @pytest.mark.parametrize("axes", [["m", "n"], ["n", "m"]])
    def test_matrix_variate(self, case, axes):
        shape, l2 = tuple(int(case[axis]) for axis in axes), case["s2"]
        bound = _calibration.matrix_variate_bound(
            shape, case["eps"], case["delta"], l2, case["gamma"]
        )
        close(bound, case["rhs_eq30"])
        # Identities times v: the spectra of their inverses are ones over v.
        variance = math.sqrt(math.prod(shape)) / bound
        close(math.prod(shape) * variance, case["error_P1_uniform"])
        close(l2 / math.sqrt(variance), case["true_mu_iid_at_bound"])


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
        assert_allclose(_calibration.floored([4, 0, 1e-7, 2]), [4, 4e-6, 4e-6, 2])
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


class TestPublishedDesigns:
    @pytest.mark.parametrize("shape", [(16,), (3, 4), (2, 5, 3), (1, 6)])
    @pytest.mark.parametrize("width", [1.0, 0.02])
    def test_true_along_the_axes(self, shape, width):
        rng = np.random.default_rng(0)
        n, epsilon, delta = math.prod(shape), 1.3, 1e-5
        t = math.sqrt(published_bound(n, epsilon, delta, 1.0))
        l2, widths = width * math.sqrt(n), np.full(n, width)
        bound, most = (t / l2) ** 2, t * (1 + 1e-12)
        for _ in range(15):
            weights = [np.exp(4 * rng.normal(size=size)) for size in shape]
            variances = np.ones(1)
            for mode in published_variances(weights, bound):
                variances = np.multiply.outer(variances, mode).ravel()
            assert box_mu(widths, np.sqrt(variances)) <= most
            assert box_mu(widths * 99, np.sqrt(variances), l2) <= most
            # One mode: B for a ball, I_1 B for a box, which is then exact.
            (one,) = published_variances(weights[:1], bound)
            sigma = np.sqrt(np.repeat(one, n // len(one)))
            assert box_mu(widths * 99, sigma, l2) <= most
            equal(box_mu(widths, sigma / math.sqrt(len(one))), t)
        assert gaussian_delta(epsilon, t) < delta

    def test_false_for_rotations(self):
        # One column of 16 entries in [0, 1]. With ||U^-1||_F^2 <= I_1 t^2 / s^2 and
        # s = sqrt(16), U^-1 may be t along one corner of the box, and little elsewhere.
        n, epsilon, delta = 16, 1.0, 1e-5
        t = math.sqrt(published_bound(n, epsilon, delta, 1.0))
        corner = np.full(n, 0.25)
        inverse = 1e-3 * np.eye(n) + np.outer(corner, corner)
        inverse *= t / np.linalg.norm(inverse)
        mu = np.linalg.norm(inverse @ np.ones(n))
        assert 3.99 * t < mu <= 4 * t
        assert gaussian_delta(1.8 * epsilon, mu) > delta
        # The noise that is drawn for rotations is calibrated by this bound instead.
        diagonal = diagonal_bound(inverse.T @ inverse, np.ones(n))
        assert_allclose(math.sqrt(diagonal.sum()), mu, rtol=1e-6)
