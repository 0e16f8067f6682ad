"""The closed form: against values of many digits, naive references and brute force."""

import json
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad
from scipy.spatial.distance import pdist

from tests.support.seams import (
    LinearProblem,
    best_clip,
    clipped_code,
    code_noise,
    l1_diameter,
    linear_problem,
    loss_and_gradient,
    noise_shares,
    refined,
    scaled_basis,
    search_scaling,
    unclipped_code,
    whitening,
)

ORACLE = json.loads((Path(__file__).parent / "oracle.json").read_text())


def numbers(value):
    return np.array(value, dtype=float)


def problem_of(task):
    """A problem whose h is given: P is the task, the data do not matter."""
    _, singular, right = np.linalg.svd(task, full_matrices=False)
    kept = singular > 1e-12
    return LinearProblem(None, task, None, singular[kept] ** 2, right[kept].T)


def random_problem(n=400, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_t(5, size=(n, n_features)) @ rng.normal(size=(n_features,) * 2)
    task = rng.normal(size=(4, n_features))
    return linear_problem(rows, task, whitening(rows))


def test_proposition_1():
    case = ORACLE["prop1"]
    code = unclipped_code(
        problem_of(numbers(case["P"])), numbers(case["E"]), float(case["sigma_w2"])
    )
    assert_allclose(code.decoder, numbers(case["D"]), rtol=1e-12)
    assert_allclose(code.loss, float(case["loss_eq7"]), rtol=1e-12)


@pytest.mark.parametrize("case", ORACLE["prop4"])
def test_proposition_4(case):
    values = numbers(case["lam"])
    shares, loss = noise_shares(values[values > 0], float(case["c"]))
    assert len(shares) == case["Zprime"]
    assert_allclose(shares, numbers(case["sigma2_over_M"])[: len(shares)], rtol=1e-12)
    assert_allclose(shares.sum(), 1.0)
    assert_allclose(loss, float(case["loss"]), rtol=1e-12)


def test_theorem_1():
    case = ORACLE["theorem1"]
    for bound, radius in (("lower", "r_min"), ("upper", "r_max")):
        c = 8 * (float(case[radius]) / float(case["eps"])) ** 2
        _, loss = noise_shares(numbers(case["lam"]), c)
        assert_allclose(loss, float(case[bound]), rtol=1e-12)


def test_pipeline():
    """The encoder and the estimate in the original columns, which no L changes."""
    known = ORACLE["pipeline"]
    root = numbers(known["L"])
    rows = np.vstack([2 * root.T, -2 * root.T])
    white = whitening(rows)
    problem = linear_problem(rows, numbers(known["K"]), white)
    assert_allclose(problem.values, numbers(known["lam"])[:3], rtol=1e-12)
    for case in known["cases"]:
        c = 8 * (float(case["r"]) / float(case["eps"])) ** 2
        shares, loss = noise_shares(problem.values, c)
        assert_allclose(loss, float(case["loss"]), rtol=1e-12)
        encoder = scaled_basis(problem, shares)
        code = unclipped_code(problem, encoder, float(case["sigma_w2"]))
        assert_allclose(code.loss, float(case["loss"]), rtol=1e-12)
        on_x = encoder @ white.inverse / white.scale
        close = {"rtol": 1e-9, "atol": 1e-13}
        assert_allclose(on_x.T @ on_x, numbers(case["encoder_on_x_gram"]), **close)
        estimate = white.scale[:, None] * (white.root @ code.decoder) @ on_x
        assert_allclose(estimate, numbers(case["x_map_LDELinv"]), **close)


def test_variances_of_the_mechanisms():
    for case in ORACLE["privunit"]:
        if case["d"] <= 65 and float(case["eps"]) >= 0.1:
            noise = code_noise("privunit", case["d"] - 1, float(case["eps"]), 0.0)
            # The sampler takes some of epsilon for itself.
            assert_allclose(noise.variance, float(case["cov_a"]), rtol=2e-3)
            assert noise.variance > float(case["cov_a"])
            assert_allclose(float(case["cov_b"]), 1.0)
    assert_allclose(code_noise("l2", 3, 2.0, 0.0).variance, 4.0, rtol=1e-5)
    assert_allclose(code_noise("l2", 24, 10.0, 0.0).variance, 1.0, rtol=1e-5)
    assert_allclose(code_noise("laplace", 5, 2.0, 0.0).variance, 2.0, rtol=1e-4)


class TestDiameter:
    @pytest.mark.parametrize("shape", [(50, 1), (50, 3), (50, 6), (50, 7), (700, 12)])
    def test_equals_all_pairs(self, shape):
        points = np.random.default_rng(0).normal(size=shape)
        assert_allclose(l1_diameter(points), pdist(points, "cityblock").max())

    def test_of_an_ellipsoid(self):
        """Proposition 3: 2 r |sigma| for diag(sigma), at least 2 r |E| for every E."""
        diagonal, other = ORACLE["prop3"]
        rng = np.random.default_rng(0)
        ball = rng.normal(size=(200_000, 3))
        ball *= 1.5 / np.linalg.norm(ball, axis=1, keepdims=True)
        found = l1_diameter(ball * numbers(diagonal["sigma"]))
        assert_allclose(found, float(diagonal["delta1"]), rtol=1e-3)
        found = l1_diameter(ball @ numbers(other["E"]).T)
        assert_allclose(found, float(other["delta1_exact_ball"]), rtol=1e-3)
        assert found > float(other["lower_bound_2r_frobenius"])


class TestWhitening:
    def test_a_singular_covariance(self, low_rank):
        rows = np.hstack([low_rank, low_rank[:, :2] @ [[1.0], [2.0]]])
        white = whitening(rows)
        assert white.inverse.shape == (6, 8)
        h = white.standardize(rows) @ white.inverse.T
        assert_allclose(h.T @ h / len(h), np.eye(6), atol=1e-9)
        back = white.mean + white.scale * (h @ white.root.T)
        assert_allclose(back, rows, rtol=1e-7)

    @pytest.mark.parametrize("scale", [1e-200, 1e200])
    def test_scales_do_not_matter(self, low_rank, scale):
        h = [
            white.standardize(rows) @ white.inverse.T
            for rows in (low_rank, low_rank * scale)
            for white in [whitening(rows)]
        ]
        assert_allclose(h[0] @ h[0].T, h[1] @ h[1].T, rtol=1e-5, atol=1e-8)

    def test_refusals(self):
        with pytest.raises(ValueError, match="equal"):
            whitening(np.full((5, 3), 0.1))
        with pytest.raises(ValueError, match="too large"):
            whitening(np.array([[1.7e308], [-1.7e308]]))
        rows = np.random.default_rng(0).normal(size=(9, 3))
        with pytest.raises(ValueError, match="does not vary"):
            linear_problem(rows, np.zeros((2, 3)), whitening(rows))


@pytest.mark.parametrize("order", [1, 2])
def test_the_decoder_is_optimal(order):
    """Its loss is what it says, and every other decoder loses more."""
    problem = random_problem()
    encoder = scaled_basis(problem, np.array([0.5, 0.3, 0.2]))
    variance = 0.2
    code = clipped_code(problem, encoder, 0.6, order, variance)
    f = problem.h @ encoder.T
    norms = np.linalg.norm(f, ord=order, axis=1)
    f /= np.maximum(norms, 0.6)[:, None]
    assert 0.2 < np.mean(norms > 0.6) < 0.9

    def loss(decoder, centre):
        missing = ((f - centre) @ decoder.T - problem.h) @ problem.task.T
        noise = variance * np.sum((problem.task @ decoder) ** 2)
        return np.mean(np.sum(missing**2, axis=1)) + noise

    assert_allclose(code.loss, loss(code.decoder, code.centre), rtol=1e-10)
    rng = np.random.default_rng(0)
    for _ in range(50):
        step = 1e-2 * rng.normal(size=code.decoder.shape)
        assert loss(code.decoder + step, code.centre) > code.loss
        moved = code.centre + 1e-2 * rng.normal(size=3)
        assert loss(code.decoder, moved) > code.loss


class TestSearch:
    @pytest.mark.thorough_after_one
    @pytest.mark.parametrize("name", ["laplace", "l2", "privunit"])
    @pytest.mark.parametrize("epsilon", [2.0, 20.0])
    def test_is_near_the_best_of_a_fine_grid(self, name, epsilon):
        problem = random_problem()
        noise = cache(partial(code_noise, name, epsilon=epsilon, delta=0.0))
        shares, levels = search_scaling(problem, noise, None, None)
        chosen = noise(len(shares))
        encoder = scaled_basis(problem, shares)
        code = best_clip(problem, encoder, chosen, levels)
        best = np.inf
        for ratio in np.geomspace(1e-4, 10, 40):
            shares, _ = noise_shares(problem.values, ratio)
            encoder, one = (
                scaled_basis(problem, shares),
                noise(len(shares)),
            )
            grid = np.linspace(0.05, 1, 30)
            best = min(best, best_clip(problem, encoder, one, grid).loss)
        assert code.loss < 1.02 * best
        assert refined(problem, code, chosen).loss <= code.loss

    @pytest.mark.parametrize("order", [1, 2])
    def test_gradient(self, order):
        rng = np.random.default_rng(1)
        scores, values = rng.normal(size=(60, 4)), np.array([4.0, 3, 2, 1])
        args = scores, values, order, 0.1
        error = check_grad(
            lambda s: loss_and_gradient(s, *args)[0],
            lambda s: loss_and_gradient(s, *args)[1],
            np.array([0.8, 0.5, 0.3]),
        )
        assert error < 1e-5
