"""The declared domain: clipping reaches it, and bounds how far two points lie apart."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from tests.support.seams import SensitivitySet, declared_set

EPS = float(np.finfo(float).eps)
PROPERTY = settings(max_examples=80, derandomize=True, database=None, deadline=None)
ALL = slice(None)

seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(["box", "ball", "both"])


def random_domain(seed, kind, room=None):
    """A domain, its generator, and the point of it that is nearest to 0.

    Some boxes have equal ranges, some contain 0. A ball's radius is so much larger than
    the norm of that point as `room` says.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    centre, width = rng.normal(size=n), np.exp(rng.normal(size=n))
    if rng.integers(3) == 0:
        centre, width = float(centre[0]), float(width[0])
    low, high = centre - width / 2, centre + width / 2
    nearest = np.clip(np.zeros(n), low, high) if kind != "ball" else np.zeros(n)
    least = np.linalg.norm(nearest)
    if room is None:
        room = 10 ** rng.uniform(-15, 1)
    radius = least * (1 + room) if least else 10 ** rng.uniform(-3, 3)
    domain = declared_set(
        (n,),
        bounds=None if kind == "ball" else (low, high),
        norm_bound=None if kind == "box" else float(radius),
    )
    return domain, rng, nearest


def clipped(domain, samples, columns=ALL):
    return domain.clip(samples[:, columns], columns, domain.segments(samples))


def norms(samples):
    """Euclidean norms, without overflow or rounding to speak of."""
    return np.array([math.hypot(*row) for row in samples.tolist()])


class TestClip:
    @PROPERTY
    @given(seeds, kinds, st.sampled_from([("f4", 37), ("f8", 300)]))
    def test_reaches_the_domain(self, seed, kind, dtype):
        domain, rng, _ = random_domain(seed, kind)
        n = domain.n_entries
        scale = 10 ** rng.uniform(-2, rng.uniform(-1, dtype[1]), (20, 1))
        samples = (rng.uniform(-8, 8, (20, n)) * scale).astype(dtype[0])
        samples[0], samples[1] = 0, samples[1].max()
        given = samples.copy()
        found = clipped(domain, samples)
        assert found.dtype == float
        assert_array_equal(samples, given)
        if domain.has_box:
            assert (found >= domain.low).all()
            assert (found <= domain.high).all()
        if domain.norm_bound is not None:
            largest = domain.norm_bound * (1 + (n + 8) * EPS)
            assert norms(found).max() <= largest
        if kind == "ball":
            # What it moves reaches the sphere, in a straight line unless it is huge.
            outside = norms(samples) > domain.norm_bound
            assert_allclose(norms(found[outside]), domain.norm_bound, rtol=1e-12)
            outside &= norms(samples) < 1e130
            unit = samples[outside] / norms(samples[outside])[:, np.newaxis]
            assert_allclose(found[outside], domain.norm_bound * unit, rtol=1e-12)
        again = clipped(domain, found)
        assert_allclose(again, found, rtol=1e-6, atol=1e-7 * domain.radius)

    @PROPERTY
    @given(seeds, kinds)
    def test_leaves_what_is_inside(self, seed, kind):
        domain, rng, nearest = random_domain(seed, kind, room=0.1)
        # Between the nearest point and points that clipping leads to.
        samples = clipped(domain, 10 * rng.normal(size=(20, domain.n_entries)))
        samples = nearest + rng.uniform(0, 1 - 1e-9, (20, 1)) * (samples - nearest)
        assert_allclose(clipped(domain, samples), samples, rtol=1e-12)

    @PROPERTY
    @given(seeds)
    def test_what_is_outside_goes_to_the_surface(self, seed):
        domain, rng, nearest = random_domain(seed, "both", room=0.1)
        assume(domain.norm_bound is not None)  # the box is not within the ball
        samples = 10 * rng.normal(size=(20, domain.n_entries))
        boxed = np.clip(samples, domain.low, domain.high)
        found, outside = clipped(domain, samples), norms(boxed) > domain.norm_bound
        assert_array_equal(outside, domain.segments(samples)[:, 0] < 1)
        assert_allclose(norms(found[outside]), domain.norm_bound, rtol=1e-12)
        # On the segment from the nearest point of the box.
        way, away = found[outside] - nearest, boxed[outside] - nearest
        lengths = norms(way) / norms(away)
        assert_allclose(way, lengths[:, np.newaxis] * away, atol=1e-9)

    def test_huge_values(self):
        samples = np.array([[1e300, -1e300, 0.0], [1e308, 1.0, -1e308]])
        root = math.sqrt(0.5)
        for radius in (1e-10, 1e-3, 1.0, 1e10, 1e140):
            domain = declared_set((3,), norm_bound=radius)
            expected = radius * np.array([[root, -root, 0], [root, 0, -root]])
            assert_allclose(clipped(domain, samples), expected, atol=1e-12 * radius)
        domain = declared_set((3,), bounds=(-1e150, 1e150), norm_bound=1.0)
        assert_allclose(clipped(domain, samples[:1]), [[root, -root, 0]], atol=1e-12)

    @pytest.mark.parametrize("dtype", ["f4", "f8"])
    @pytest.mark.parametrize("separate", [False, True])
    def test_many_columns(self, dtype, separate):
        n, rng = 2**16 + 5000, np.random.default_rng(0)
        low, high = (0.1, 0.9) if not separate else (rng.uniform(-1, 0.5, n), 1.5)
        samples = rng.normal(size=(3, n)).astype(dtype)
        nearest = math.sqrt(np.sum(np.square(np.clip(np.zeros(n), low, high))))
        for bounds, radius in (((low, high), 1.1 * nearest), (None, 100.0)):
            domain = declared_set((n,), bounds=bounds, norm_bound=radius)
            found = clipped(domain, samples)
            assert_allclose(norms(found), radius, rtol=1e-12)
            if bounds is not None:
                assert ((found >= low) & (found <= high)).all()
            assert norms(np.diff(found, axis=0)).max() <= domain.l2
            for columns in (slice(0, 2**16), slice(2**16, None), slice(7, 99)):
                part = clipped(domain, samples, columns)
                assert_array_equal(part, found[:, columns])


class TestSensitivity:
    @PROPERTY
    @given(seeds, kinds)
    def test_bounds_every_distance(self, seed, kind):
        domain, rng, _ = random_domain(seed, kind)
        n, up = domain.n_entries, 1 + 1e-12
        ends = np.copysign(1e3, rng.normal(size=(20, n)))
        samples = np.concatenate([rng.normal(size=(20, n)), ends, -ends])
        found = clipped(domain, samples)
        gaps = np.reshape(found[:, np.newaxis] - found, (-1, n))
        assert np.linalg.norm(gaps, axis=1).max() <= domain.l2 * up
        assert np.abs(gaps).sum(axis=1).max() <= domain.l1 * up
        assert norms(found).max() <= domain.radius * up
        if kind == "ball":
            assert_allclose(domain.l2, 2 * domain.norm_bound, rtol=1e-12)
            assert_allclose(domain.l1, domain.l2 * math.sqrt(n), rtol=1e-12)
            assert domain.radius == domain.norm_bound
        if kind == "box":
            gap = np.broadcast_to(domain.high - domain.low, n)
            assert_array_equal(domain.widths, gap)
            assert_allclose(domain.l2, np.linalg.norm(gap), rtol=1e-12)
            assert_allclose(domain.l1, np.sum(gap), rtol=1e-12)
            far = np.broadcast_to(np.maximum(-domain.low, domain.high), n)
            assert_allclose(domain.radius, np.linalg.norm(far), rtol=1e-12)

    # Older SLSQPs go beyond the bounds by a rounding, and say so.
    @pytest.mark.filterwarnings("ignore:Values in x were outside bounds")
    @pytest.mark.parametrize("seed", range(10))
    def test_box_and_ball_around_zero(self, seed):
        # Differences are all d with |d_i| <= r_i, |d| <= 2 R, as of d/2 and -d/2.
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 5))
        widths = np.exp(rng.normal(size=n))
        radius = float(rng.uniform(0.1, 1.2) * np.linalg.norm(widths) / 2)
        domain = declared_set((n,), bounds=(-widths / 2, widths / 2), norm_bound=radius)
        best = minimize(
            lambda d: -d.sum(), widths / 9, jac=lambda d: -np.ones(n), method="SLSQP",
            bounds=[(0, r) for r in widths], options={"ftol": 1e-13},
            constraints={"type": "ineq", "fun": lambda d: 4 * radius**2 - d @ d},
        )  # fmt: skip
        assert_allclose(domain.l1, -best.fun, rtol=1e-6)
        found = clipped(domain, np.stack([best.x / 2, -best.x / 2]))
        assert_allclose(np.abs(found[0] - found[1]).sum(), domain.l1, rtol=1e-6)
        half = min(radius, np.linalg.norm(widths) / 2)
        assert_allclose([domain.radius, domain.l2], [half, 2 * half], rtol=1e-12)

    def test_ball_within_rounding_of_the_box(self):
        widths = np.array([2.6, 2.5, 2.7, 1.2])
        domain = declared_set(
            (4,), bounds=(-widths / 2, widths / 2), norm_bound=2.331308645374947
        )
        found = clipped(domain, np.stack([widths, -widths]))
        assert domain.l1 >= np.abs(found[0] - found[1]).sum() * (1 - 1e-12)

    @pytest.mark.parametrize("radius", [None, 1.3])
    def test_equal_ranges(self, radius):
        one = declared_set((2, 3), bounds=(-0.2, 0.9), norm_bound=radius)
        full = np.full((2, 3), -0.2), np.full((2, 1), 0.9)
        many = declared_set((2, 3), bounds=full, norm_bound=radius)
        assert one.n_entries == many.n_entries == 6
        assert np.ndim(one.low) == 0
        assert many.low.shape == many.high.shape == (6,)
        for name in ("l1", "l2", "diameter", "radius", "widths"):
            assert_allclose(getattr(one, name), getattr(many, name), rtol=1e-12)
        samples = np.random.default_rng(0).normal(size=(50, 6))
        assert_allclose(clipped(one, samples), clipped(many, samples), rtol=1e-12)

    def test_vouched_for(self):
        domain = declared_set((2, 3), sensitivity=2.5)
        assert domain == SensitivitySet(6, sensitivity=2.5)
        assert domain.l1 == domain.l2 == domain.diameter == 2.5
        assert domain.radius == math.inf
        samples = np.array([[1e300, 0, 1, 2, 3, -1e300]])
        found = clipped(domain, samples)
        assert_array_equal(found, samples)
        assert not np.shares_memory(found, samples)
        assert declared_set((2, 3)) is None


# Of samples of shape (2, 3).
BAD = [
    *(({"bounds": b}, "finite with low < high") for b in [
        (1, 0), (0, 0), (0, math.nan), (-math.inf, 1), (math.inf, math.inf),
        (-1e308, 1e308), ([0, 0, 1], 1), ([0, math.nan, 0], 1),
    ]),
    *(({"bounds": b}, "must be a pair") for b in [
        0, (0, 1, 2), ("a", 1), (0, 1j), ([[0], [1, 2]], 1),
    ]),
    *(({"bounds": (low, 1)}, r"must broadcast to .* \(2, 3\), got")
      for low in (np.zeros(2), np.zeros((3, 1)), np.zeros((1, 2, 3)))),
    *(({name: value}, f"{name} must be a finite number > 0")
      for name in ("norm_bound", "sensitivity")
      for value in (0, -1.0, math.inf, math.nan, "1", [1.0])),
    *(({"sensitivity": 1.0, **other}, "declare it alone")
      for other in ({"bounds": (0, 1)}, {"norm_bound": 1.0})),
    *(({name: length}, "from 1e-150 to 1e")
      for name in ("norm_bound", "sensitivity") for length in (1e-200, 1e200)),
    *(({"bounds": (0, length)}, r"within 1e\+150") for length in (1e-200, 1e200)),
]  # fmt: skip


class TestErrors:
    @pytest.mark.parametrize(("declared", "message"), BAD)
    def test_bad_domains_are_refused(self, declared, message):
        with pytest.raises(ValueError, match=message):
            declared_set((2, 3), **declared)

    @pytest.mark.parametrize("low", [1.0, [1.0, 1.0, 1.0], -2.0])
    def test_no_common_point(self, low):
        bounds, nearest = (low, np.add(low, 1)), math.sqrt(3)
        declared_set((3,), bounds=bounds, norm_bound=nearest * (1 + 1e-12))
        with pytest.raises(ValueError, match="no point in common"):
            declared_set((3,), bounds=bounds, norm_bound=nearest * (1 - 1e-12))

    @pytest.mark.parametrize("radius", [1e-150, 1e150])
    def test_extreme_radius(self, radius):
        domain = declared_set((3,), bounds=(-1, 1), norm_bound=radius)
        samples = np.array([[0.5, -0.2, 0.0], [0.0, 0.0, 0.0]])
        assert norms(clipped(domain, samples)).max() <= radius * (1 + 1e-15)
        assert_allclose(domain.l2, min(2 * radius, math.sqrt(12)), rtol=1e-12)
