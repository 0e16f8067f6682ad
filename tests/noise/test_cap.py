"""Lattice directions in caps: their law by enumeration, the caps' masses, supports.

Statistical tests use fixed seeds; a correct sampler fails one with probability ALPHA
over the seeds, asymptotically.
"""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, norm

from tests.support.goodness import chi_square
from tests.support.seams import (
    CapSampler,
    _dots,
    _draws_in_cap,
    cap_log_odds,
    noise_cap,
)

ALPHA = 1e-6
ALWAYS, NEVER = 2**62, 0
# Dimension, angle of the cap and fineness of lattices that can be enumerated.
COARSE = [(2, 0.4, 1), (2, 0.3, 2), (3, 0.6, 1), (4, 0.8, 1)]


def sampler(dimension, angle, fineness, *, weight=ALWAYS, aimed=True):
    gap = 2 * math.sin(angle / 2) ** 2
    return CapSampler(dimension, 1 - gap, gap, weight, fineness, aimed)


def units(n, dimension, seed=0):
    normal = np.random.default_rng(seed).normal(size=(n, dimension))
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)


def ideal_lattice(dimension, fineness):
    """Supported points, and the probability of each under rounded ideal normals."""
    most = int(2 * math.sqrt(dimension) * 2**fineness)
    line = np.arange(-most, most + 1)
    points = np.array(list(itertools.product(line, repeat=dimension)), dtype=float)
    squares = np.square(points).sum(axis=1) / 4.0**fineness
    points = points[(squares >= dimension / 4) & (squares <= 4 * dimension)]
    edges = norm.cdf((np.arange(-most, most + 2) - 0.5) / 2**fineness)
    cells = np.diff(edges)[points.astype(int) + most]
    return points, np.prod(cells, axis=1)


def codes(points):
    """A number for every lattice point."""
    return (points + 1000) @ 2001.0 ** np.arange(points.shape[1])


def p_value(drawn, u, cap, inside=True):
    """Of the counts of points against the law of candidates in or outside the cap."""
    points, cells = ideal_lattice(cap.dimension, cap.fineness)
    kept = (points @ u / np.linalg.norm(points, axis=1) >= cap.cosine) == inside
    points, cells = points[kept], cells[kept]
    order = np.argsort(codes(points))
    expected = codes(points)[order]
    found = np.searchsorted(expected, codes(drawn)).clip(max=len(expected) - 1)
    assert_array_equal(expected[found], codes(drawn))
    counts = np.bincount(found, minlength=len(expected))
    return chi_square(counts, cells[order] / cells.sum())


class TestLaw:
    @pytest.mark.parametrize(
        ("case", "aimed"), [*zip(COARSE, [True, False, False, True], strict=True)]
    )
    def test_inside(self, case, aimed, stream):
        cap = sampler(*case, aimed=aimed)
        u = units(1, case[0])[0]
        drawn = cap.draw(np.tile(u, (50_000, 1)), stream(1))
        assert p_value(drawn, u, cap) > ALPHA

    @pytest.mark.parametrize("case", COARSE)
    def test_outside(self, case, stream):
        cap = sampler(*case, weight=NEVER)
        u = units(1, case[0])[0]
        drawn = cap.draw(np.tile(u, (50_000, 1)), stream(2))
        assert p_value(drawn, u, cap, inside=False) > ALPHA

    def test_rows_have_their_own_caps_and_the_weight_holds(self, stream):
        u, odds = units(40_000, 5), 3
        cap = sampler(5, 0.7, 12, weight=2**62 * odds // (odds + 1))
        drawn = cap.draw(u, stream(3))
        cosines = (u * drawn).sum(axis=1) / np.linalg.norm(drawn, axis=1)
        share = np.mean(cosines >= cap.cosine)
        # A normal variate is beyond 4.9 deviations with probability ALPHA.
        assert abs(share - 0.75) < 4.9 * math.sqrt(0.75 * 0.25 / len(u))

    @pytest.mark.thorough
    @pytest.mark.parametrize(("dimension", "share"), [(2, 1e-9), (785, 0.12)])
    def test_angles_of_caps(self, dimension, share, stream):
        odds, low, high = math.log(share / (1 - share)), 0.0, math.pi / 2
        for _ in range(60):
            angle = (low + high) / 2
            gap = 2 * math.sin(angle / 2) ** 2
            if cap_log_odds(dimension, 1 - gap, gap) < odds:
                low = angle
            else:
                high = angle
        t, s = _draws_in_cap(stream(4), dimension, 1 - gap, gap, 20_000)
        assert_allclose(t**2 + s**2, 1, rtol=1e-15)

        def cdf(sine):
            # The mass within a sine, over that of the whole cap.
            inner = np.array([2 * math.sin(math.asin(x) / 2) ** 2 for x in sine])
            log_odds = [cap_log_odds(dimension, 1 - x, x) for x in inner]
            return np.exp(-np.logaddexp(0, -np.array(log_odds))) / share

        assert kstest(s, cdf).pvalue > ALPHA
        assert kstest(s * 0.98, cdf).pvalue < ALPHA


def masses_of_caps(cap, n):
    """Of caps around some directions; and whether each point is inside of each."""
    points, cells = ideal_lattice(cap.dimension, cap.fineness)
    directions = points / np.linalg.norm(points, axis=1, keepdims=True)
    inside = directions @ units(n, cap.dimension).T >= cap.cosine
    return cells @ inside / cells.sum(), inside


class TestGuarantee:
    """What the proof claims, by summing over whole lattices."""

    @pytest.mark.parametrize("case", [*COARSE, (2, 1.2, 4), (2, 0.2, 5), (3, 1, 2)])
    def test_masses_lie_between_those_of_the_two_caps(self, case):
        cap = sampler(*case)
        masses, _ = masses_of_caps(cap, 500)
        half = math.exp(cap._cell_error(0.0) + sampler(*case, aimed=False).residual)
        bounds = []
        for cosine, gap in (cap.inner, cap.outer):
            bounds.append(1 / (1 + math.exp(-cap_log_odds(case[0], cosine, gap))))
        assert bounds[0] / half <= masses.min()
        assert masses.max() <= bounds[1] * half
        # The enlargement is needed: the caps' masses differ, and by no rounding.
        assert np.ptp(masses) > 1e-3 * masses.mean()

    @pytest.mark.parametrize("case", [(2, 1.2, 3), (2, 0.3, 5), (3, 1.0, 2)])
    def test_exact_epsilon(self, case):
        """The largest ratio of two rows' laws, by enumeration, is what is said."""
        cap, epsilon = sampler(*case, aimed=False), 3.0
        masses, inside = masses_of_caps(cap, 300)
        log_odds = epsilon + cap_log_odds(case[0], cap.cosine, cap.gap)
        p = 1 / (1 + math.exp(-log_odds))
        # Cells cancel: only the masses differ between two rows.
        high, low = np.log(p / masses), np.log((1 - p) / (1 - masses))
        logs = np.where(inside, high, low)
        exact = np.max(logs.max(axis=1) - logs.min(axis=1))
        outer, inner = (cap_log_odds(case[0], *c) for c in (cap.outer, cap.inner))
        claimed = epsilon + outer - inner + cap.residual
        assert epsilon * (1 + 1e-4) < exact <= claimed

    def test_residual(self):
        # Plain rejection answers for no cell, and fine lattices cost it nothing.
        for dimension in (2, 785, 10**6):
            plain = [sampler(dimension, 1.5, k, aimed=False).residual for k in (20, 40)]
            assert 0 <= plain[1] <= plain[0] < 1e-5
        # Aimed draws answer for their errors, relative to the step.
        errors = [sampler(785, 1.4, k).residual for k in range(14, 22)]
        assert_allclose(np.diff(np.log2(errors)), 1, atol=0.02)
        assert sampler(785, 1.4, 40).residual == math.inf

    @pytest.mark.parametrize("dimension", [2, 785])
    def test_draws_err_less_than_is_allowed(self, dimension, stream, monkeypatch):
        """The floats of an aimed draw against quadruple precision, before rounding."""
        cap = sampler(dimension, 0.3 if dimension == 2 else 1.3, 20)
        u, drawn = units(50, dimension), {}
        for name in ("_dense_normal", "_draws_in_cap"):
            original = getattr(noise_cap, name)

            def kept(*args, original=original, name=name):
                drawn[name] = original(*args)
                copy = drawn[name]
                return copy.copy() if isinstance(copy, np.ndarray) else copy

            monkeypatch.setattr(noise_cap, name, kept)
        monkeypatch.setattr(np, "rint", lambda x, out=None: x)
        found = cap._aimed_at(u, stream(5)) / np.longdouble(2**20)
        monkeypatch.undo()
        z = drawn["_dense_normal"].reshape(u.shape).astype(np.longdouble)
        exact = u.astype(np.longdouble)
        exact /= np.sqrt(np.square(exact).sum(axis=1, keepdims=True))
        along = (z * exact).sum(axis=1, keepdims=True)
        rest = z - along * exact
        across = np.sqrt(np.square(rest).sum(axis=1, keepdims=True))
        t, s = (x.astype(np.longdouble)[:, None] for x in drawn["_draws_in_cap"])
        length = np.sqrt(np.square(z).sum(axis=1, keepdims=True))
        ideal = length * (t * exact + s * rest / across)
        good = (np.abs(along) <= across)[:, 0]
        assert good.mean() > 0.3
        errors = np.abs(found - ideal)[good]
        # The allowance is mostly for NumPy's normals, which are exact here.
        floats = 80 * cap._dot_error
        assert errors.sum(axis=1).max() <= floats * dimension / 4
        lengths = np.sqrt(np.square(errors).sum(axis=1))
        assert lengths.max() <= floats * math.sqrt(dimension) / 4
        assert np.all(found[~good] == 0)


class TestSupport:
    def test_one_support_for_all(self, stream):
        """Whatever u, what is drawn are the supported points, all of them."""
        cap = sampler(2, 0.8, 1, weight=2**61)
        expected = np.sort(codes(ideal_lattice(2, 1)[0]))
        for i, u in enumerate(units(3, 2)):
            drawn = cap.draw(np.tile(u, (100_000, 1)), stream(6, i))
            assert_array_equal(np.unique(codes(drawn)), expected)

    @pytest.mark.parametrize("fineness", [8, 20, 40])
    @pytest.mark.parametrize("dimension", [2, 50, 785])
    def test_points_are_whole_and_support_is_exact(self, dimension, fineness, stream):
        cap = sampler(dimension, 1.55, fineness, weight=2**61, aimed=False)
        drawn = cap.draw(units(20, dimension), stream(7))
        assert_array_equal(drawn, np.rint(drawn))
        # Points at the border, and next to it, against Python's integers.
        coarse = min(fineness, int(50 - math.log2(dimension)) // 2)
        radii = np.outer([0.5, 2.0], 1 + np.arange(-2, 3) * 1e-9).ravel()
        scaled = radii * math.sqrt(dimension) * 2**fineness
        near = np.rint(np.kron(scaled[:, np.newaxis], units(10, dimension)))
        shift = fineness - coarse
        for point, found in zip(near, cap._is_supported(near), strict=True):
            whole = [int(x) for x in np.rint(point / 2**shift)]
            squares = sum(x * x for x in whole)
            unit = dimension * 4**coarse
            assert found == (unit <= 4 * squares <= 16 * unit)
        # In any batch.
        alone = [cap._is_supported(point[np.newaxis])[0] for point in near]
        assert_array_equal(cap._is_supported(near), alone)

    def test_sums_are_pairwise(self):
        """Else their error would grow with the dimension, and the bound be wrong."""
        for dimension in (7, 130, 10**6):
            x = np.full((1, dimension), 0.1)
            exact = dimension * 0.1 * 0.1
            cap = sampler(dimension, 1.4, 20)
            assert abs(_dots(x, x)[0] / exact - 1) < cap._dot_error / 4
