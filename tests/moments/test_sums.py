"""Sums of samples' moments: whole numbers, exact, and no longer than the proof says."""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from sktensordp.moments import MultilinearPCA, fit_aggregated
from sktensordp.privacy import planned_guarantee
from tests.support.noise import source_of
from tests.support.samples import STEP, asked, steps_of, summed, weights_of
from tests.support.seams import (
    BASIS_BITS,
    CAPACITY,
    LARGEST_CORE,
    LARGEST_SAMPLE,
    Chunk,
    moments_sums,
    shares_of_modes,
    whole_basis,
)

SHAPES = [(5,), (3, 4), (2, 3, 4)]
LARGEST = np.finfo(float).max


def samples(shape, n=40, seed=0):
    """Short and long samples, and some at the ends of what floats can hold."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, math.prod(shape))) * rng.uniform(0, 1.5, (n, 1))
    X[:5] = [
        np.resize(row, X.shape[1])
        for row in ([0.0], [LARGEST, -LARGEST], [5e-324], [1.0, 0, 0], [-1e-3, 1e300])
    ]
    return X


def whole(rows, question, further=None):
    """Samples as lists of Python integers."""
    found = moments_sums._cells(Chunk(rows, further), question)
    assert np.array_equal(found, np.trunc(found))
    return found.astype(int).tolist()


def exact_moments(rows, shape):
    """Upper triangles of the sums of moments, in Python's integers."""
    cells = list(itertools.product(*map(range, shape)))
    found = []
    for mode, side in enumerate(shape):
        others = {}
        for place, cell in enumerate(cells):
            others.setdefault(cell[:mode] + cell[mode + 1 :], {})[cell[mode]] = place
        for i in range(side):
            for j in range(i, side):
                found.append(
                    sum(row[g[i]] * row[g[j]] for row in rows for g in others.values())
                )
    return found


def joined(limbs):
    return [int(high) * 2**32 + int(low) for high, low in limbs.T]


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_exact_whatever_the_chunks(shape, monkeypatch):
    X, question = samples(shape), asked(shape, 1.0, (1 / len(shape),) * len(shape))
    found = summed(X, question)
    assert joined(found) == exact_moments(whole(X, question), shape)
    order = np.random.default_rng(1).permutation(len(X))
    parts = [summed(X[part], question) for part in np.array_split(order, 7)]
    assert joined(sum(parts)) == joined(found)
    # In blocks of one sample, of another layout, and of another data type.
    monkeypatch.setattr(moments_sums, "length_bits_of", lambda n: 26)
    blocks = asked(shape, 1.0, question.shares)
    assert joined(summed(np.asfortranarray(X), blocks)) == exact_moments(
        whole(X, blocks), shape
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bound", [1e-100, 0.3, 1.0, 1e60])
@pytest.mark.parametrize("further", [0.0, 0.5, 2.0])
def test_no_sample_is_longer_than_the_bound(shape, bound, further):
    X = np.concatenate([samples(shape), samples(shape)[5:] * bound])
    mean = np.resize([0.0, bound, -0.3 * bound], X.shape[1])
    beside = np.resize([further, -2 * further, 1e300, 0.0], (len(X), 2))
    rng = np.random.default_rng(2)
    bases = tuple(
        whole_basis(np.linalg.qr(rng.standard_normal((n, n)))[0]) for n in shape
    )
    for m, b in itertools.product((None, mean), (None, bases)):
        options = {"n_further": 2, "further": further} if further else {}
        question = asked(shape, bound, (1.0,), m, b, is_joint=True, **options)
        rows = whole(X, question, beside if further else None)
        assert all(sum(x * x for x in row) <= 4**question.length_bits for row in rows)
        # And little is lost: a long sample stays nearly as long.
        longest = max(sum(x * x for x in row) for row in rows)
        assert longest > 0.99 * 4**question.length_bits


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bound", [1e-50, 1.0, 1e50])
@pytest.mark.parametrize("step", [STEP, 0.0])
def test_a_long_sample_keeps_its_direction(shape, bound, step):
    """One of ordinary length, others of which single cells are beyond the bound."""
    rng = np.random.default_rng(0)
    unit = rng.uniform(0, 16, (20, math.prod(shape)))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    question = asked(shape, bound, (1.0,), is_mean=True, step=step)
    lengths = [bound, 3 * bound, 1e6 * bound, 1e250, LARGEST]
    for length in lengths:
        cells = moments_sums._cells(Chunk(unit * length), question)
        cells = cells / (2.0**question.length_bits if step else bound)
        assert np.abs(cells - unit).max() < 1e-4
    # Less a mean, too, even where the difference is no number of floating point.
    question = asked(shape, bound, (1.0,), np.full(len(unit[0]), -LARGEST), step=step)
    cells = moments_sums._cells(Chunk(np.full((1, len(unit[0])), LARGEST)), question)
    assert np.ptp(cells) == 0 < cells.min()


def extremes(n_cells):
    """Samples of which every cell is at its bound, and others beyond it."""
    signs = np.resize([1.0, -1.0, 1.0], n_cells)
    return np.stack([np.ones(n_cells), 1e300 * signs, signs / n_cells**0.5])


@pytest.mark.thorough
@pytest.mark.parametrize("n_cells", [LARGEST_SAMPLE, LARGEST_SAMPLE - 1])
@pytest.mark.parametrize("offset", [None, 1.0])
def test_the_largest_samples_are_no_longer_than_the_bound(n_cells, offset):
    """Squares of all cells at their bound add up to 2^64, which is 0 in 64 bits."""
    mean = None if offset is None else np.full(n_cells, -offset)
    question = asked((n_cells,), 1.0, (1.0,), mean, is_mean=True)
    rows = moments_sums._cells(Chunk(extremes(n_cells)), question)
    assert np.array_equal(rows, np.trunc(rows))
    squares = np.square(rows).sum(axis=1)  # exact below 2^53
    assert squares.max() <= 4**question.length_bits
    assert squares[0] > 0.999 * 4**question.length_bits
    high, low = summed(extremes(n_cells), question)
    assert np.array_equal(high * 2.0**32 + low, rows.sum(axis=0))


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("shape", [(128, 128, 64), (1024, 1024)])
def test_the_largest_sample_moves_moments_by_its_share(shape):
    question = asked(shape, 1.0, shares_of_modes(shape, 1.0), step=2.0**-25)
    ones = summed(np.ones((1, LARGEST_SAMPLE)), question)
    moved = steps_of(question, ones) * question.step
    # Of zeros and this sample; two of any samples are at a distance of at most 1.
    assert 0.49 < np.square(moved).sum() < 0.501


def test_the_largest_core_is_no_longer_than_the_bound():
    """Of all columns the same, as a server's basis may have them, and too long."""
    column = math.floor(math.sqrt(1.09) * 2.0**BASIS_BITS / 8)
    bases = tuple(np.full((64, rank), float(column)) for rank in (64, 32))
    assert LARGEST_CORE == 64 * 32
    question = asked((64, 64), 1.0, (1.0,), bases=bases, is_joint=True)
    rows = whole(extremes(64 * 64), question)
    squares = [sum(x * x for x in row) for row in rows]
    assert 0.99 * 4**question.length_bits < max(squares) <= 4**question.length_bits


@pytest.mark.parametrize("wrong", [1 + 2**-20, 1e9, math.nan, math.inf])
def test_a_sample_that_clipping_left_long_enters_no_sum(
    wrong, monkeypatch, as_released
):
    monkeypatch.setattr(moments_sums, "_cells", lambda *_: cells)
    question = asked((3, 4), 1.0, (0.5, 0.5))
    cells = np.zeros((9, 12))
    cells[4, 5] = 2.0**question.length_bits
    assert np.any(summed(np.zeros((9, 12)), question))
    cells[4, 5] *= wrong
    assert not np.any(summed(np.zeros((9, 12)), question))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sample_does_not_depend_on_the_others(shape):
    X = samples(shape)
    bases = tuple(
        whole_basis(np.linalg.qr(np.ones((n, n)) + np.eye(n))[0]) for n in shape
    )
    question = asked(shape, 0.7, (1.0,), np.resize([0.1, 0.2], X.shape[1]), bases)
    together = whole(X, question)
    assert together == [whole(X[k : k + 1], question)[0] for k in range(len(X))]
    assert together[::-1] == whole(np.asfortranarray(X[::-1]), question)


def neighbours(shape):
    """Pairs of samples of length 1, the worst ones among them."""
    n = math.prod(shape)
    units = [np.eye(n)[k] for k in (0, n - 1)]
    turned = [units[0] + units[1], units[0] - units[1]]
    rng = np.random.default_rng(3)
    others = list(rng.standard_normal((12, n)))
    others = [x / np.linalg.norm(x) for x in (*units, *turned, *others)]
    yield from itertools.permutations([*others, np.zeros(n), -others[0]], 2)


def distance(question, one, other):
    """Squared length of the difference of two samples' sums, in units of 1."""
    parts = [summed(x[np.newaxis], question) for x in (one, other)]
    n_bits = question.length_bits * (1 if question.is_mean else 2)
    squared = Fraction(0)
    for a, b, w in zip(*map(joined, parts), weights_of(question).tolist(), strict=True):
        squared += Fraction((a - b) * w, 2 ** (n_bits + 20)) ** 2
    return squared


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_mean", [False, True])
def test_one_sample_moves_sums_by_its_share(shape, is_mean):
    """For the worst of these pairs, by nearly all of it."""
    shares = (0.4,) if is_mean else tuple(0.4 / len(shape) for _ in shape)
    question = asked(shape, 1.0, shares, is_mean=is_mean)
    found = [distance(question, *pair) for pair in neighbours(shape)]
    assert 0.39 < max(found) <= 0.4


def test_rounding_is_to_the_nearest_step():
    shape, step = (2, 3), 2.0**-15
    question = asked(shape, 1.0, (0.5, 0.5), step=step)
    X = samples(shape, 3000)
    sums = joined(summed(X, question))
    steps = steps_of(question, summed(X, question))
    for exact, weight, found in zip(sums, weights_of(question), steps, strict=True):
        value = Fraction(exact * int(weight), 2 ** (2 * question.length_bits + 20))
        assert abs(value / Fraction(step) - Fraction(found)) <= Fraction(1, 2)


@pytest.mark.parametrize("one", [2**44, 2**44 - 1, -(2**44), 1 - 2**44])
@pytest.mark.parametrize("is_mean", [False, True])
def test_sums_of_many_samples_do_not_wrap(one, is_mean, monkeypatch):
    """Limbs of as many samples as there may be, all as long as they may be."""
    monkeypatch.setattr(moments_sums, "length_bits_of", lambda n: 22)
    one = one >> 22 if is_mean else one
    at = lambda step: asked((1,), 1.0, (1.0,), is_mean=is_mean, step=step)  # noqa: E731
    question = at(STEP)
    # Low limbs of blocks of one sample each.
    limbs = np.array(
        [[(one >> 32) * CAPACITY], [(one & moments_sums._LIMB) * CAPACITY]]
    )
    noise = MultilinearPCA(epsilon=600)._planned_noise((1,), 0)
    assert noise.step == 2.0**-25  # the finest
    value = Fraction(one * CAPACITY * int(weights_of(question)[0]), 2**64)
    value *= 2**22 if is_mean else 1
    for step in (noise.step, 2.0**-6):
        exact, found = value / Fraction(step), steps_of(at(step), limbs)[0]
        assert abs(exact - Fraction(found)) <= Fraction(1, 2)
    # Noise is added to the sum, not to what floating point makes of it.
    steps = steps_of(at(noise.step), limbs)
    (noisy,) = noise.randomize([steps * noise.step], source_of(0))
    drawn = noisy / noise.step - steps
    assert np.array_equal(drawn, np.rint(drawn))
    assert 0 < abs(drawn) < 7 * noise.lattice.sigma / noise.step


@pytest.mark.parametrize("n_samples", [CAPACITY, CAPACITY + 1])
def test_more_samples_than_sums_hold_are_refused(n_samples):
    model = MultilinearPCA((1,), tensor_shape=(1,), norm_bound=1.0, random_state=0)
    limbs = np.array([2**34, 0])
    if n_samples == CAPACITY:
        fit_aggregated(model, lambda _: limbs, n_samples=n_samples)
    else:
        with pytest.raises(ValueError, match=f"n_samples must be .* to {CAPACITY}"):
            fit_aggregated(model, lambda _: limbs, n_samples=n_samples)


def test_larger_samples_are_refused():
    make = partial(MultilinearPCA, (1, 1), norm_bound=1.0)
    planned_guarantee(make(tensor_shape=(1024, 1024)))
    with pytest.raises(ValueError, match=f"more than {LARGEST_SAMPLE} cells"):
        planned_guarantee(make(tensor_shape=(17, 61681)))  # one more


def test_a_basis_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="unit vectors"):
        asked((2,), 1.0, (1.0,), bases=(np.full((2, 1), 2.0**24),))
