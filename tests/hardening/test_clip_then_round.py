"""Clipped and rounded, two samples are no further apart than the noise is made for.

Everything is compared in exact arithmetic, on samples that are hard to round.
"""

import math
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    PrivUnit,
    TensorVariateGaussian,
    UnimodalDirectionalNoise,
)
from sktensordp.noise import gaussian_lattice, laplace_lattice
from sktensordp.papers import (
    MatrixVariateGaussian,
    PublishedTensorVariateGaussian,
)
from tests.support.every_estimator import VALUED, slow_repeats
from tests.support.noise import source_of
from tests.support.points import POINTS, original
from tests.support.seams import (
    BallNoise,
    SphereChannel,
    calibrated_cap,
    code_noise,
    declared_set,
    knorm_lattice,
)

EPS = float(np.finfo(float).eps)
LARGEST, LEAST = np.finfo(float).max, 5e-324
SOURCE = source_of(0)


def squares(row):
    """The squared Euclidean norm, exactly."""
    return sum(Fraction(x) ** 2 for x in np.ravel(row).tolist())


def adversarial(size, step, radius=1.0, low=None, high=None):
    """Samples at the ends, at spheres, half-way between lattice points, and beyond."""
    rng = np.random.default_rng(size)
    signs = np.resize([1.0, -1.0], size)
    rows = [np.zeros(size), np.full(size, LEAST), signs * LARGEST, signs * 1e300]
    for n in range(1, size + 1):
        # Of equal entries, on the sphere and one float within and beyond.
        for length in (radius, np.nextafter(radius, 0), np.nextafter(radius, np.inf)):
            rows.append(np.where(np.arange(size) < n, length / math.sqrt(n), 0.0))
    rows += [radius * r / np.linalg.norm(r) for r in rng.normal(size=(6, size))]
    steps = np.round(rng.uniform(0.1, 0.9, (6, size)) * radius / step / size**0.5)
    rows += list((steps + 0.5) * step) + list(np.nextafter((steps + 0.5) * step, 0))
    rows += [rng.choice([1e-320, 1e-160, 1.0, 1e160, LARGEST], size)]
    if low is not None:
        low, high = np.broadcast_to(low, size), np.broadcast_to(high, size)
        rows += [low, high, np.where(signs > 0, low, high), np.nextafter(high, low)]
        whole = np.floor((high - low) / step * rng.uniform(0, 1, size))
        rows += [low + (whole + 0.5) * step, high - (whole + 0.5) * step]
    rows = np.array(rows)
    return np.concatenate([rows, -rows])


def lattice_indices(mechanism, samples):
    """The whole numbers of steps that samples become, before noise is added."""
    found, index = [], original("points of a lattice")

    def seen(*arguments):
        found.append(index(*arguments).copy())
        return index(*arguments)

    def nothing(bits, *arguments):
        return np.zeros(samples.size, dtype=int)

    with (
        mock.patch.object(*POINTS["points of a lattice"], seen),
        mock.patch.object(
            *POINTS["normal noise of a lattice"],
            lambda bits, size, clip: np.zeros(size),
        ),
        mock.patch.object(*POINTS["Laplace noise of a lattice"], nothing),
    ):
        mechanism.transform(samples)
    index = np.concatenate([np.reshape(part, (len(samples), -1)) for part in found], 1)
    return [[int(i) for i in row] for row in index.tolist()]


def pairs(rows):
    """Every row with every other, once."""
    distinct = sorted(set(map(tuple, rows)))
    for number, row in enumerate(distinct):
        yield from ((row, other) for other in distinct[:number])


def largest_of(mechanism, size, **ends):
    """The largest distance of two samples in whole steps, over what is allowed."""
    step = mechanism._randomizer.lattice.step
    domain = mechanism._randomizer.domain
    ends |= {"low": domain.low, "high": domain.high} if domain.has_box else {}
    rows = adversarial(size, np.min(step), domain.norm_bound or 1.0, **ends)
    shape = mechanism.sample_shape_
    indices = lattice_indices(mechanism, rows.reshape(-1, *shape))
    lattice = mechanism._randomizer.lattice
    if hasattr(lattice, "l1_steps"):
        each = None
        if lattice.n_steps is not None:
            each = np.broadcast_to(lattice.n_steps, size).tolist()
        largest = 0
        for one, other in pairs(indices):
            moved = [abs(i - j) for i, j in zip(one, other, strict=True)]
            largest = max(largest, sum(moved))
            assert each is None or all(m <= n for m, n in zip(moved, each, strict=True))
        return largest / lattice.l1_steps
    noise = mechanism.privacy_guarantee_.event.events[0]
    mu = 1 / Fraction(noise.noise_multiplier)
    sigma = np.broadcast_to(lattice.sigma, size)
    weights = [
        (Fraction(h) / Fraction(s)) ** 2
        for h, s in zip(np.broadcast_to(step, size), sigma.tolist(), strict=True)
    ]
    largest = Fraction(0)
    for one, other in pairs(indices):
        parts = zip(weights, one, other, strict=True)
        largest = max(largest, sum(w * (i - j) ** 2 for w, i, j in parts))
    return math.sqrt(largest / mu**2)


RANGES = [-1e3, 0.0, 1.0, 1e-3, -3.0], [1.0, 1e-3, 1.0 + 2.0**-10, 2e-3, 3.0]
FAR = [-1e9, 0.0, 1.0, 1e-9, -3.0], [1.0, 1e-6, 1.0 + 2.0**-20, 2e-9, 3.0]
BOX, BALL = {"bounds": (-0.3, 0.9)}, {"norm_bound": 0.7}
BOTH = {"bounds": (-0.3, 0.9), "norm_bound": 0.7}
# Its ball alone is known to be far too large for it.
AWAY = {"bounds": ([0.3] * 5, [0.9] * 5), "norm_bound": 0.7}
DOMAINS = [(params, n) for params in (BOX, BALL, BOTH) for n in (1, 2, 5)]
DOMAINS += [({"bounds": RANGES}, 5), (AWAY, 5)]
TURN = [[0.6, -0.8], [0.8, 0.6]]
COVARIANCE = [[2.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("epsilon", [0.01, 30.0])
@pytest.mark.parametrize(
    ("make", "params", "size"),
    [
        *((LaplaceMechanism, *domain) for domain in DOMAINS),
        *((GaussianMechanism, *domain) for domain in DOMAINS),
        (LaplaceMechanism, {"bounds": FAR}, 5),
    ],
)
def test_no_two_samples_are_further_apart_than_the_noise_is_for(
    make, params, size, epsilon
):
    mechanism = make(epsilon, **params).fit(np.zeros((1, size)))
    least = 0.05 if params is AWAY else 0.9
    assert least < largest_of(mechanism, size) <= 1


@pytest.mark.parametrize("params", [{"bounds": (0, 1)}, BALL, BOTH])
@pytest.mark.parametrize(
    "make",
    [
        lambda **params: TensorVariateGaussian(
            1.0, utility=[[1, 0.1], None], directions=[TURN, None], **params
        ),
        lambda **params: MatrixVariateGaussian(
            1.0, row_covariance=COVARIANCE, **params
        ),
        lambda **params: UnimodalDirectionalNoise(1.0, utility=[1, 0.2], **params),
        lambda **params: PublishedTensorVariateGaussian(
            1.0, utility=[[1, 0.1], None], **params
        ),
    ],
    ids=["turned", "correlated", "one mode", "published"],
)
def test_nor_in_the_coordinates_that_the_noise_is_added_in(make, params):
    mechanism = make(**params).fit(np.zeros((1, 2, 2)))
    assert 0.2 < largest_of(mechanism, 4) <= 1


@pytest.mark.parametrize("size", [1, 3, 50])
@pytest.mark.parametrize("radius", [1e-150, 1.0, 1 / 3, 1e150])
def test_clipped_samples_are_in_the_ball(radius, size):
    domain = declared_set((size,), norm_bound=radius)
    rows = adversarial(size, radius * 2.0**-20, radius)
    found = domain.clip(rows, slice(None), domain.segments(rows))
    bound = Fraction(domain.diameter / 2) ** 2
    assert all(squares(row) <= bound for row in found)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("size", [1, 3, 50])
def test_clipped_codes_are_in_the_unit_ball(order, size):
    class Shown:
        def randomize(self, values, bits):
            return values

    found = BallNoise(order, Shown()).randomize(adversarial(size, 2.0**-20), SOURCE)
    bound = 1 + Fraction((size + 8) * EPS)
    for row in found:
        norm = sum(abs(Fraction(x)) for x in row.tolist()) if order == 1 else None
        assert squares(row) <= bound**2 if norm is None else norm <= bound


@pytest.mark.parametrize("size", [1, 3, 50])
@pytest.mark.parametrize(
    "params", [{"norm_bound": 0.7}, {"bounds": (-0.3, 0.9)}, {"bounds": (1e9, 1e9 + 1)}]
)
def test_lifted_samples_are_unit_vectors(params, size):
    plan = PrivUnit(1.0, **params).fit(np.zeros((1, size)))._randomizer
    low, high = params.get("bounds", (None, None))
    rows = adversarial(size, 2.0**-20, plan.radius, low, high)
    clipped = plan.domain.clip(rows, slice(None), plan.domain.segments(rows))
    sphere = SphereChannel(calibrated_cap(size + 1, 1.0).design)
    for units in (plan._lifted(clipped), sphere.inputs(np.clip(rows, -1e100, 1e100))):
        # The proof has c 2^-53 (doc/privunit.md).
        error = Fraction((32 + math.log2(size + 1)) * 2.0**-53)
        assert all((1 - error) ** 2 <= squares(u) <= (1 + error) ** 2 for u in units)


@pytest.mark.thorough
@pytest.mark.parametrize("step", [2.0**-20, 1.0, 0.0])
def test_what_a_unit_adds_is_no_longer_than_its_share(step):
    from sktensordp.measure import BoundedSums

    share, bound = 0.6, 0.7
    rows = np.concatenate([adversarial(4, 2.0**-20, bound), np.full((1, 4), np.nan)])
    places = np.arange(5)
    for row in rows:
        sums = np.zeros((4, 1))
        kind = BoundedSums((4, 1), bound, share**2, step)
        data = places[[0, 4]], places[:4], places[:4], row[:, np.newaxis]
        kind.add(sums, *data)
        (length,) = kind._weighed(*data)[1]
        limit = Fraction(share) * (1 + Fraction(1e-9))
        assert squares(sums) * Fraction(step or 1.0) ** 2 <= limit**2
        if np.isfinite(length):
            assert length == pytest.approx(np.linalg.norm(sums), rel=1e-12)


# What is beyond the domain is released as its end is, bit by bit.


RANGED = [
    param
    for param in VALUED
    if param.values[0].private not in ("samples", "people")
    or getattr(param.values[0].estimator, "bounds", None)
]


@pytest.mark.parametrize("case", slow_repeats(RANGED))
def test_what_is_clipped_is_released_as_the_end(case):
    dtype = ("f4", "f8")[len(case.label) % 2]
    most = float(np.finfo(dtype).max)
    for end, beyond in ((1.0, most), (1.0, 1 + 1e-6), (0.0, -most), (0.0, -1e-40)):
        assert released(case, end, dtype) == released(case, beyond, dtype)


def released(case, value, dtype="f8"):
    """What leaves, in bytes, with a known key, where all that is private is `value`."""
    seeds = case.seeded()
    X, *y = case.data
    if case.private == "people":
        model = case.fresh(**seeds).fit(np.full(X.shape, value, dtype), *y)
        if y:
            return model.coef_.tobytes()
        return model.inverse_transform(np.eye(model.n_components_)).tobytes()
    if y:
        model = case.fresh(**seeds).fit(X, np.full(len(y[0]), value, dtype))
        if not hasattr(model, "predict"):
            return np.concatenate([*model.means_, *model.scales_]).tobytes()
        return model.predict(X).tobytes()
    model = case.fresh(**seeds).fit(X)
    return model.transform(np.full(X.shape, value, dtype)).tobytes()


@pytest.mark.parametrize("noise", [0.0, None])
@pytest.mark.parametrize("case", slow_repeats(VALUED))
def test_the_sign_of_zero_is_not_released(case, noise):
    with almost_no_noise(noise):
        assert len({released(case, zero) for zero in (0.0, -0.0, LEAST)}) == 1


def almost_no_noise(value):
    """Gaussian noise that is rounded to 0 or to -0; None leaves it as it is."""
    normal = original("normal noise of a lattice")
    return mock.patch.object(
        *POINTS["normal noise of a lattice"],
        normal if value is None else lambda bits, size, clip: np.full(size, value),
    )


def wrong_zeros(values, low, step, n_steps, out=None):
    return np.rint(np.subtract(values, low, out=out) / step)


def test_a_sign_of_zero_that_is_released_would_be_noticed(monkeypatch):
    monkeypatch.setattr(*POINTS["points of a lattice"], wrong_zeros)
    case = next(p.values[0] for p in VALUED if "Gaussian" in p.id and "ball" in p.id)
    with almost_no_noise(-1e-12):
        assert released(case, 0.0) != released(case, -0.0)


def negative_zeros(values):
    return np.count_nonzero(np.signbit(values) & (values == 0))


def test_no_sampler_returns_a_negative_zero():
    values = np.tile([-1e-5, -1e-7], (2**17, 1))
    found = knorm_lattice(2, 1.0).randomize(values, SOURCE.stream(0))
    assert np.count_nonzero(found == 0) > 10
    assert negative_zeros(found) == 0
    units = np.tile([1.0] + [0.0] * 4, (2**13, 1))
    for epsilon in (1.0, 12.0):
        # On a coarse lattice, zeros are not rare.
        sampler = replace(calibrated_cap(5, epsilon).sampler, fineness=8)
        propose = sampler._aimed_at if sampler.aimed else sampler._candidates
        assert negative_zeros(propose(units, SOURCE.stream(1))) > 10
        points = sampler.draw(units, SOURCE.stream(2))
        assert np.count_nonzero(points == 0) > 10
        assert negative_zeros(points) == 0
    noise = code_noise("gaussian", 2, 1.0, 1e-5).randomizer
    with almost_no_noise(-1e-12):
        assert negative_zeros(noise.randomize(-LEAST * np.ones((9, 2)), SOURCE)) == 0


def test_a_lattice_whose_step_has_no_reciprocal_is_refused():
    """Otherwise the value at the end, and no other, would be an exception."""
    for width in (1e-303, 1e-310):
        with pytest.raises(ValueError, match="too small"):
            laplace_lattice(0.0, width, 1.0)
    with pytest.raises(ValueError, match="not subnormal"):
        gaussian_lattice(1e-303, 1, 1.0, 1e-5)
    ends = np.array([0.0, 1e-301, 1e-300, LARGEST])
    noisy = laplace_lattice(0.0, 1e-300, 1.0).randomize(ends, SOURCE.stream(0))
    assert np.all(np.isfinite(noisy))
