"""Tables, responses, directions and samplers keep epsilon at extreme parameters."""

import math
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sktensordp import mechanisms
from sktensordp._random import NoiseSource
from sktensordp.encoding._knorm import knorm_lattice
from sktensordp.mechanisms._privunit import calibrated_cap
from sktensordp.noise import _lattice
from sktensordp.noise._discrete import _below
from sktensordp.noise._piecewise import hybrid_law
from sktensordp.privacy._table import level_table

often = partial(settings, deadline=None, derandomize=True, database=None)


def powers(low, high):
    return st.floats(math.log10(low), math.log10(high)).map(lambda x: 10.0**x)


# Laws that are known exactly


def log_ratio(one, other):
    with mpmath.workdps(80):
        ratio = Fraction(one) / Fraction(other)
        return mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)


@pytest.mark.parametrize(
    "epsilon", [1e-9, 1e-8, 1e-3, 1.0, 8.0, 34.9, 35.1, 700.0, 1e300]
)
@pytest.mark.parametrize("levels", [
    (0.0, 1.0), tuple(map(float, range(20))), (0.0, 1e-40, 1.0), (-1e49, 0.0, 1e49),
    (1e16, 1e16 + 2, 1e16 + 4),
])  # fmt: skip
def test_tables_keep_epsilon(epsilon, levels):
    try:
        table = level_table(levels, epsilon)
    except ValueError:
        assert epsilon <= 1e-8
        return
    assert len({sum(row) for row in table.weights}) == 1
    for column in zip(*table.weights, strict=True):
        if any(column):
            assert log_ratio(max(column), min(column)) <= mpmath.mpf(epsilon)
    assert np.all(np.isfinite(table.outputs))


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "wrapped"])
@pytest.mark.parametrize("epsilon", [1e-7, 1e-3, 1.0, 19.9, 30.0, 745.0, 1e16])
@pytest.mark.parametrize("weights", [None, [0.0, 1.0, 1e-300], [0.5, 0.999999, 0.0]])
def test_randomised_response_keeps_epsilon(noise, epsilon, weights):
    response = mechanisms.TensorRandomizedResponse(
        epsilon, n_levels=4, noise=noise, bounds=(0, 1), weights=weights
    )
    try:
        plan = response.fit(np.zeros((1, 3)))._plan
    except ValueError as error:
        assert epsilon < 1e-2 or weights is not None, error  # noqa: PT017
        return
    total = mpmath.mpf(0)
    for kind in np.broadcast_to(plan.kinds, 3):
        keep = Fraction(int(plan.thresholds[kind]), 2**52)
        law = [
            [(1 - keep) * Fraction(int(w), 2**60) + keep * (x == y)
             for y, w in enumerate(row)] for x, row in enumerate(plan.moves)
        ]  # fmt: skip
        assert all(sum(row) == 1 for row in law)
        total += max(log_ratio(max(c), min(c)) for c in zip(*law, strict=True))
    assert total <= epsilon


@often(max_examples=100)
@given(epsilon=powers(1e-15, 1e300), n_steps=st.sampled_from([1, 7, 2**40]))
def test_the_hybrid_law_keeps_epsilon(epsilon, n_steps):
    try:
        law = hybrid_law(epsilon, n_steps)
    except ValueError:
        assert epsilon < 1e-9
        return
    unit = 2**62
    assert 0 < law.focus < unit
    assert 0 < law.honesty < unit
    focus, honesty = Fraction(law.focus, unit), Fraction(law.honesty, unit)
    anywhere = (1 - focus) / law.n_positions
    ratios = [(1 + honesty) / (1 - honesty)]
    if law.mixture:
        ratios.append((focus / law.window + anywhere) / anywhere)
    assert log_ratio(max(ratios), 1) <= law.epsilon <= epsilon


@pytest.mark.parametrize("dimension", [2, 3, 50, 10**3, 10**5])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 20.0, 300.0])
def test_the_cap_keeps_epsilon(dimension, epsilon):
    try:
        cap = calibrated_cap(dimension, epsilon)
    except ValueError:
        assert dimension <= 3 or dimension > 10**4 or epsilon < 0.01
        return
    sampler = cap.sampler
    with mpmath.workdps(50):
        cosine, gap = map(mpmath.mpf, sampler.inner)
        assert cosine > 0
        # Either is the more precise one somewhere.
        most = 1 - cosine**2 if cosine < 0.5 else gap * (1 + cosine)
        inside = mpmath.betainc(
            mpmath.mpf(dimension - 1) / 2, 0.5, 0, most, regularized=True
        ) / 2  # fmt: skip
        odds = mpmath.mpf(sampler.weight) / (2**62 - sampler.weight)
        truth = mpmath.log(odds * (1 - inside) / inside) + sampler.residual
        assert truth <= cap.epsilon <= epsilon


@pytest.mark.parametrize("n_entries", [1, 10, 1000])
@pytest.mark.parametrize("epsilon", [1e-99, 1e-3, 1.0, 100.0, 1e10])
def test_ball_noise_keeps_epsilon(n_entries, epsilon):
    try:
        lattice = knorm_lattice(n_entries, epsilon)
    except ValueError:
        assert not 0.01 < epsilon < 1e3
        return
    ideal = Fraction(2) / Fraction(lattice.scale)
    assert ideal + Fraction(lattice.residual) <= Fraction(epsilon)


class Words:
    """A stream of the same word, a few times, and of true ones afterwards."""

    def __init__(self, word, times):
        self._word, self._left = word, times
        self._bits = NoiseSource(0, 0).stream(0)

    def random_raw(self, size):
        words = self._bits.random_raw(size)
        if self._left > 0:
            words[:] = self._word
            self._left -= 1
        return words


@pytest.mark.parametrize("word", [0, 2**64 - 1, 2**63, 1])
@pytest.mark.parametrize("bound", [1, 2, 3, 5, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_extreme_words_stay_in_range(word, bound):
    drawn = _lattice.discrete_laplace(Words(np.uint64(word), 6), 1, 2**49, 100)
    assert np.all(np.abs(drawn) < 2**62)
    below = _below(Words(np.uint64(word), 3), bound, 10)
    assert all(int(value) < bound for value in below)
    uniform = _lattice._dense_uniform(Words(np.uint64(word), 4), 10)
    assert np.all((uniform > 0) & (uniform < 1))
