"""PrivUnit's parameters: oracles computed apart, the optimum, and extreme sizes."""

import math

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import betainc

from tests.support.seams import cap_log_odds, privunit_design


def ideal_scale(dimension, epsilon, cosine):
    """m by the formula of the paper, for the p that exhausts epsilon."""
    a = (dimension - 1) / 2
    q = betainc(a, 0.5, 1 - cosine**2) / 2
    p = math.exp(epsilon) * q / (1 - q + math.exp(epsilon) * q)
    height = (1 - cosine**2) ** a / (2 * a * float(mp.beta(0.5, a)))
    return height * (p / q - (1 - p) / (1 - q))


@pytest.mark.parametrize("dimension", [2, 3, 10, 785])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_the_cosine_maximises_the_scale(dimension, epsilon):
    design = privunit_design(dimension, epsilon)
    best = ideal_scale(dimension, epsilon, design.cosine)
    assert_allclose(best, design.cosine, rtol=1e-10)
    others = design.cosine * np.array([0.5, 0.9, 0.99, 1.01, 1.1])
    others = np.append(others[others < 1], (1 + design.cosine) / 2)
    assert max(ideal_scale(dimension, epsilon, g) for g in others) < best


@pytest.mark.parametrize("dimension", [4, 30])
@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_moments_by_quadrature(dimension, epsilon):
    design = privunit_design(dimension, epsilon)
    q, p = math.exp(design.log_mass), 1 / (1 + math.exp(-design.log_odds))
    area = float(mp.beta(0.5, (dimension - 1) / 2))

    def moment(power):
        def term(t):
            return t**power * (1 - t * t) ** ((dimension - 3) / 2) / area

        inside, outside = quad(term, design.cosine, 1), quad(term, -1, design.cosine)
        return p / q * inside[0] + (1 - p) / (1 - q) * outside[0]

    assert_allclose([moment(0), moment(1)], [1, design.scale], rtol=1e-8)
    # Along u and across it, the variance of v / m is the same.
    along = moment(2) / design.scale**2 - 1
    across = (1 - moment(2)) / (dimension - 1) / design.scale**2
    assert_allclose([along, across], design.variance, rtol=1e-7)


@pytest.mark.parametrize("dimension", [2, 3, 5, 7, 200, 1000])
def test_log_odds_of_caps(dimension):
    """Also where the cosine is small: SciPy's complement of betainc is off by 3e-9."""
    for cosine in np.geomspace(1e-12, 1.0, 121)[:-1]:
        log_odds = cap_log_odds(dimension, cosine, 1 - cosine)
        with mp.workdps(300):  # caps may have a mass of 1e-218
            g = mp.mpf(float(cosine))
            outside = mp.betainc(0.5, (mp.mpf(dimension) - 1) / 2, 0, g * g, True)
            true = mp.log((1 - outside) / (1 + outside))
        assert_allclose(log_odds, float(true), rtol=2e-13, atol=2e-13)
        # What is left of the sphere is a cap, too.
        rest = cap_log_odds(dimension, -cosine, 1 + cosine)
        assert_allclose(rest, -log_odds, rtol=1e-13)
    assert cap_log_odds(dimension, -1, 2) == math.inf
    assert cap_log_odds(dimension, 1, 0) == -math.inf


@pytest.mark.parametrize("dimension", [2, 3, 785, 10**6])
@pytest.mark.parametrize("epsilon", [1e-6, 4.0, 500.0])
def test_extremes_against_arbitrary_precision(dimension, epsilon):
    design = privunit_design(dimension, epsilon)
    with mp.workdps(350):  # 1 - g may be 1e-145
        a, small = mp.mpf(dimension - 1) / 2, design.cosine < 0.5
        g = mp.mpf(design.cosine) if small else 1 - mp.mpf(design.gap)
        y = 1 - g * g

        def term(w):
            squared = y * mp.exp(-w * w / a)
            t = mp.sqrt(1 - squared)
            return 2 * w * mp.exp(-w * w) * (squared / y) / (t * (1 + t))

        # E[1 / t - 1] / Y, for which 40 digits are enough.
        with mp.workdps(40):
            width = mp.sqrt(a) * g
            points = [0, *(s * width for s in (1, 4) if s * width < 12), 3, 12]
            mean = mp.quad(term, sorted(points))
        mean = 1 + y * mean
        log_q = a * mp.log(y) - mp.log(2 * a * mp.beta(a, 0.5)) + mp.log(mean)
        odds = mp.exp(log_q) * mp.expm1(epsilon)
        m = odds / (1 + odds) / mean
        ratio = m / g if small else (1 - m) / (1 - g)
    assert_allclose(design.log_mass, float(log_q), rtol=1e-13, atol=1e-13)
    assert_allclose(float(ratio), 1, rtol=1e-11)
    assert design.variance > 0


def test_what_has_no_design():
    for dimension, epsilon in [(1, 1.0), (3, 0.0), (3, math.inf), (3, math.nan)]:
        with pytest.raises(ValueError, match="needs a dimension"):
            privunit_design(dimension, epsilon)
    with pytest.raises(ValueError, match="cap a point"):
        privunit_design(2, 1e6)
    # In many dimensions, the cap is no point.
    assert privunit_design(10**6, 1e5).cosine < 0.5
