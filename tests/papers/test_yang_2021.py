"""The published theorems on directional noise: reference values, and what holds."""

import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sktensordp.mechanisms import GaussianMechanism
from sktensordp.papers import (
    PublishedIndependentDirectionalNoise,
    PublishedMatrixGaussian,
    PublishedMatrixVariateGaussian,
    PublishedTensorVariateGaussian,
    PublishedUnimodalDirectionalNoise,
)
from sktensordp.privacy import gaussian_delta, gaussian_mu
from tests.support.seams import (
    box_mu,
    diagonal_bound,
    matrix_variate_bound,
    published_bound,
    published_variances,
    zeta,
)


def number(value):
    """Decimals as floats and lists of them as arrays; anything else as it is."""
    try:
        return np.array(value, dtype=float)[()]
    except (TypeError, ValueError):
        return value


ORACLE = json.loads(
    Path(__file__).with_name("yang_2021_oracle.json").read_text(encoding="utf-8"),
    object_hook=lambda case: {key: number(value) for key, value in case.items()},
)
close, equal = partial(assert_allclose, rtol=1e-9), partial(assert_allclose, rtol=1e-12)


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
        # With the constant that our copy prints, the claim would be false.
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
        bound = matrix_variate_bound(
            shape, case["eps"], case["delta"], l2, case["gamma"]
        )
        close(bound, case["rhs_eq30"])
        # Identities times v: the spectra of their inverses are ones over v.
        variance = math.sqrt(math.prod(shape)) / bound
        close(math.prod(shape) * variance, case["error_P1_uniform"])
        close(l2 / math.sqrt(variance), case["true_mu_iid_at_bound"])


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


class TestErrorsAndShapes:
    """What the page on soundness says of the corollaries and of the equations."""

    def test_corollaries(self):
        """Weights that factor: the same noise and error in both shapes."""
        rows, columns = np.array([1.0, 0.5, 0.2]), np.array([1.0, 2.0, 3.0, 0.1])
        box = {"delta": 1e-5, "bounds": (0, 1)}
        weights = [rows, columns], [np.kron(rows, columns)]
        matrix, vector = (
            PublishedTensorVariateGaussian(1.0, utility=utility, **box)
            for utility in weights
        )
        matrix.fit(np.zeros((1, 3, 4)))
        vector.fit(np.zeros((1, 12)))
        close(matrix.noise_variance_.ravel(), vector.noise_variance_)
        close(matrix.expected_squared_error_, vector.expected_squared_error_)
        # A tenth of the noise is of the same family.
        tenth = gaussian_delta(1.0, 10 * gaussian_mu(1.0, 1e-5))
        assert_allclose(tenth, 0.72, atol=0.005)

    def test_equation_29_lacks_a_factor(self):
        """Also in noise that is drawn: 160,000 variates, so .05 is 14 deviations."""
        shape = (16, 5, 5)
        udn = PublishedUnimodalDirectionalNoise(
            1.0, delta=1e-5, bounds=(0, 1), random_state=0
        ).fit(np.zeros((1, *shape)))
        bound = np.sum(1 / udn.noise_variance_[:, 0, 0])  # B, which is met
        claimed = 16**2 / bound
        close(udn.expected_squared_error_, 25 * claimed)
        drawn = np.square(udn.transform(np.zeros((400, *shape)))).sum(axis=(1, 2, 3))
        assert_allclose(drawn.mean(), 25 * claimed, rtol=0.05)

    @pytest.mark.parametrize("shape", [(4, 3), (28, 28)])
    def test_equation_31(self, shape):
        """It implies Theorem 1, and is H_r^2 times Eq. 30 for small epsilon alone."""
        n, delta, s, gamma = math.prod(shape), 1e-5, 2.0, 1.5

        def ratio(epsilon):
            of_mvg = matrix_variate_bound(shape, epsilon, delta, s, gamma)
            return published_bound(n, epsilon, delta, s) / math.sqrt(n) / of_mvg

        harmonic = np.sum(1 / np.arange(1, min(shape) + 1))
        half = np.sum(np.arange(1, min(shape) + 1) ** -0.5)
        alpha = (harmonic + half) * gamma**2 + 2 * harmonic * gamma * s
        assert_allclose(ratio(1e-6), harmonic**2, rtol=1e-4)
        assert_allclose(ratio(1e12), alpha / (s**2 * math.sqrt(n)), rtol=1e-3)
        assert ratio(1e12) < 1 or shape == (4, 3)
        # Spectra at the bound of Eq. 31, of which only equal values meet Theorem 1's.
        rng, bound = np.random.default_rng(0), published_bound(n, 1.0, delta, s)
        for rows, columns in [map(np.ones, shape), map(rng.random, shape)]:
            scale = bound / math.sqrt(n)
            scale /= np.linalg.norm(rows) * np.linalg.norm(columns)
            product = scale * rows.sum() * columns.sum()
            assert product <= bound * (1 + 1e-12)
            assert (product > bound * (1 - 1e-12)) == (np.ptp(rows) == 0)

    def test_equation_32_is_twice_the_divergence(self):
        gaussian = GaussianMechanism(1.0, delta=1e-5, norm_bound=1.0)
        gaussian.fit(np.zeros((1, 1)))
        claimed = 3.0 * 2.0**2 / gaussian.noise_variance_  # two values are 2 apart
        divergence = gaussian.privacy_guarantee_.renyi_at(3.0)
        assert_allclose(divergence, claimed / 2, rtol=1e-4)


class TestQuantitiesOfTheTheorems:
    """B, zeta, sigma and P of fitted mechanisms, and what the theorems say of them."""

    COSTS = np.array([4.0, 1.0, 0.25])
    ROTATION = np.linalg.qr(np.arange(9.0).reshape(3, 3) ** 2 + np.eye(3))[0]
    EPSILON, DELTA, N = 2.0, 1e-5, 6

    def fitted(self, kind, **params):
        mechanism = kind(self.EPSILON, delta=self.DELTA, bounds=(0, 2), **params)
        mechanism.fit(np.zeros((1, 3, 2)))
        # Parameters that change after a fit change nothing of it.
        return mechanism.set_params(epsilon=9.0, delta=0.5, bounds=(0, 1))

    def expected(self):
        """Zeta (Lemma 3) and B for s = 2 sqrt(6), as the paper writes them."""
        root = math.sqrt(self.N * math.log(1 / self.DELTA))
        zeta = math.sqrt(self.N + 2 * root + 2 * math.log(1 / self.DELTA))
        t = math.sqrt(zeta**2 + 2 * self.EPSILON) - zeta
        return zeta, (t / (2 * math.sqrt(self.N))) ** 2

    @pytest.mark.parametrize("directions", [None, [ROTATION, None]])
    @pytest.mark.parametrize(
        "kind", [PublishedTensorVariateGaussian, PublishedMatrixGaussian]
    )
    def test_all_modes(self, kind, directions):
        utility = [np.sqrt(self.COSTS), None]
        mechanism = self.fitted(kind, utility=utility, directions=directions)
        zeta, bound = self.expected()
        close(mechanism.zeta_, zeta)
        close(mechanism.bound_, bound)
        # Equation 24, and the costs of Equation 23.
        close(math.prod((s**-2.0).sum() for s in mechanism.sigmas_), bound)
        basis = np.eye(3) if directions is None else self.ROTATION
        close(mechanism.costs_[0], self.COSTS @ basis**2)
        # Equation 26.
        pairs = zip(mechanism.costs_, mechanism.sigmas_, strict=True)
        error = math.prod(float(p @ s**2) for p, s in pairs)
        close(mechanism.expected_squared_error_, error)

    @pytest.mark.parametrize(
        ("kind", "factor"),
        [
            (PublishedUnimodalDirectionalNoise, 1),
            (PublishedIndependentDirectionalNoise, 3),
        ],
    )
    def test_one_mode(self, kind, factor):
        mechanism = self.fitted(kind, utility=np.sqrt(self.COSTS))
        zeta, bound = self.expected()
        close(mechanism.zeta_, zeta)
        close(mechanism.bound_, factor * bound)
        close((mechanism.sigmas_[0] ** -2.0).sum(), factor * bound)
        close(mechanism.sigmas_[1], 1)
        close(mechanism.costs_[0], self.COSTS)
        variances = np.multiply.outer(*(s**2 for s in mechanism.sigmas_))
        close(np.broadcast_to(mechanism.noise_variance_, (3, 2)), variances)

    def test_matrix_variate(self):
        mechanism = self.fitted(
            PublishedMatrixVariateGaussian, row_covariance=np.diag([1.0, 2.0, 4.0])
        )
        close(mechanism.zeta_, self.expected()[0])
        spectra = [np.linalg.norm(s**-2.0) for s in mechanism.sigmas_]
        close(math.prod(spectra), mechanism.bound_)
        first = mechanism.sigmas_[0] ** 2
        close(first / first[0], [1, 2, 4])
        close(mechanism.costs_[0], 1)

    def test_without_noise_there_are_none(self):
        mechanism = self.fitted(PublishedTensorVariateGaussian)
        mechanism.set_params(epsilon=math.inf).fit(np.zeros((1, 3, 2)))
        for name in ("bound_", "zeta_", "sigmas_", "costs_"):
            assert not hasattr(mechanism, name)
