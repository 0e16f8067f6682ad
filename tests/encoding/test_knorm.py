"""K-norm noise on the lattice: its law and the ratio bound, by enumeration.

Statistical tests use fixed seeds; a correct sampler fails one with probability ALPHA
over the seeds, asymptotically.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.support.goodness import chi_square
from tests.support.seams import KNormLattice, knorm_lattice

ALPHA = 1e-6


def cell_masses(lattice, most):
    """Probabilities of the integers within `most` of 0 in every coordinate."""
    n = lattice.n_entries
    nodes, weights = np.polynomial.legendre.leggauss(8)
    # Two panels a cell, since the density has a kink at 0.
    nodes = np.concatenate([(nodes - 1) / 4, (nodes + 1) / 4])
    weights = np.concatenate([weights, weights]) / 4
    cells = np.array(list(itertools.product(range(-most, most + 1), repeat=n)))
    masses = np.zeros(len(cells))
    for which in itertools.product(range(len(nodes)), repeat=n):
        points = (cells + nodes[list(which)]) * lattice.step
        lengths = np.linalg.norm(points, axis=1)
        masses += np.prod(weights[list(which)]) * np.exp(-lengths / lattice.scale)
    sphere = 2 * math.pi ** (n / 2) / math.gamma(n / 2)
    return cells, masses * (lattice.step / lattice.scale) ** n / sphere / math.gamma(n)


def counted(lattice, cells, most, stream, size=40_000):
    released = lattice.randomize(np.zeros((size, lattice.n_entries)), stream)
    steps = np.rint(released / lattice.step).astype(int)
    assert_array_equal(steps * lattice.step, released)
    steps = steps[np.abs(steps).max(axis=1) <= most]
    base = 2 * most + 1
    code = (steps + most) @ base ** np.arange(lattice.n_entries)[::-1]
    return np.append(np.bincount(code, minlength=len(cells)), size - len(steps))


COARSE = [(1, 0.7, 0.5, 12), (2, 0.6, 0.5, 9), (3, 0.4, 0.5, 6)]


@pytest.mark.thorough
@pytest.mark.parametrize(("n", "scale", "step", "most"), COARSE)
def test_law(n, scale, step, most, stream):
    lattice = KNormLattice(n, scale, step)
    cells, masses = cell_masses(lattice, most)
    assert 0.99 < masses.sum() < 1 + 1e-4
    masses = np.append(masses, 1 - masses.sum())
    counts = counted(lattice, cells, most, stream(n))
    assert chi_square(counts, masses) > ALPHA
    half = KNormLattice(n, scale / 2, step)
    assert chi_square(counted(half, cells, most, stream(n)), masses) < ALPHA


@pytest.mark.thorough
@pytest.mark.parametrize(("n", "scale", "step", "most"), COARSE)
def test_ratio_bound(n, scale, step, most):
    """Of all outputs, for all pairs of codes on the lattice; and it is reached."""
    lattice = KNormLattice(n, scale, step)
    _, masses = cell_masses(lattice, most)
    logs = np.log(masses).reshape((2 * most + 1,) * n)
    inside = [
        k
        for k in itertools.product(range(-2, 3), repeat=n)
        if np.linalg.norm(k) * step <= 1
    ]
    core = range(-most + 2, most - 1)
    outputs = np.array(list(itertools.product(core, repeat=n)))
    seen = [logs[tuple((outputs - k + most).T)] for k in inside]
    worst = max(np.max(a - b) for a, b in itertools.permutations(seen, 2))
    assert worst <= lattice.epsilon + 1e-9
    assert worst > 0.95 * lattice.diameter / scale


def test_points_of_the_ball_stay_in_it():
    """Towards zero: no two lattice points are farther apart than two codes."""
    rng = np.random.default_rng(0)
    lattice = knorm_lattice(5, 3.0)
    codes = rng.normal(size=(10_000, 5))
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)
    steps = np.trunc(codes / lattice.step)
    lengths = np.linalg.norm(steps, axis=1) * lattice.step
    assert lengths.max() <= 1 + 1e-15
    assert lengths.min() > 0.99


@pytest.mark.parametrize("n", [1, 3, 64])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 20.0, 1000.0])
def test_calibration(n, epsilon):
    lattice = knorm_lattice(n, epsilon)
    assert 0 < lattice.residual < 0.02 * epsilon
    assert epsilon * (1 - 1e-8) <= lattice.epsilon <= epsilon
    # Of two codes at a distance of 2, to the last digit.
    assert Fraction(2) / Fraction(lattice.scale) + Fraction(lattice.residual) <= epsilon
    assert_allclose(
        lattice.variance,
        4 * (n + 1) / (epsilon - lattice.residual) ** 2,
        rtol=1e-7,
    )


@pytest.mark.parametrize(
    ("n", "epsilon"), [(1, 1e-99), (2, 1e-5), (500, 1e-3), (3, 1e15)]
)
def test_what_cannot_be_honoured_is_refused(n, epsilon):
    with pytest.raises(ValueError, match="cannot be honoured"):
        knorm_lattice(n, epsilon)
