"""The published descent against its pseudo-code, written out row by row."""

import math

import numpy as np
import pytest

from sktensordp.papers._descent import descend

pytestmark = pytest.mark.thorough
SHAPES = {2: (3, 4), 3: (3, 4, 2), 4: (2, 3, 2, 2)}


def problem(order, rank=2, n=9, seed=0):
    rng = np.random.default_rng(seed)
    shape = SHAPES[order]
    where = np.column_stack([rng.integers(0, size, n) for size in shape])
    # The same entry twice in a row, too.
    where[1] = where[0]
    factors = [rng.random((size, rank)) for size in shape]
    return where.astype(np.int32), rng.standard_normal(n), factors


def reference(where, values, factors, *, rate, ridge, n_passes, clip, noise):
    """Algorithm 2 of Wei, Li, Mao and Wang (2022) on the cost of Eq. 6, in lists.

    Without noise it is the descent of Algorithms 1 and 3. An entry's cost is
    (x - sum_r a_r b_r c_r)^2 + ridge (|a|^2 + |b|^2 + |c|^2); in its turn, each of its
    rows moves along its own gradient, at where the rows before it have moved to.
    """
    rows = [[list(map(float, row)) for row in factor] for factor in factors]
    rank = len(rows[0][0])
    for step in range(n_passes):
        drawn = None if noise is None else noise(step).tolist()
        entries = zip(where.tolist(), values.tolist(), strict=True)
        for entry, (index, value) in enumerate(entries):
            for mode in range(len(rows)):
                met = [rows[k][i] for k, i in enumerate(index)]
                model = sum(math.prod(row[r] for row in met) for r in range(rank))
                gradient = []
                for r in range(rank):
                    others = math.prod(row[r] for k, row in enumerate(met) if k != mode)
                    gradient.append(
                        -2 * (value - model) * others + 2 * ridge * met[mode][r]
                    )
                if mode == len(rows) - 1 and drawn is not None:
                    length = math.sqrt(sum(g * g for g in gradient))
                    # v / max(1, |v| / m), and then the noise.
                    gradient = [g / max(1.0, length / clip) for g in gradient]
                    gradient = [
                        g + e for g, e in zip(gradient, drawn[entry], strict=True)
                    ]
                for r in range(rank):
                    met[mode][r] -= rate * gradient[r]
    return [np.array(factor) for factor in rows]


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("clip", [0.05, 0.5, 100.0])
def test_it_is_the_published_descent(order, noisy, clip):
    where, values, factors = problem(order)
    rng = np.random.default_rng(1)
    drawn = rng.standard_normal((3, len(values), 2))
    noise = (lambda step: drawn[step]) if noisy else None
    options = {"rate": 0.05, "ridge": 0.3, "n_passes": 3, "clip": clip, "noise": noise}
    start = [factor.copy() for factor in factors]
    found, n_passes = descend(where, values, factors, **options)
    assert n_passes == 3
    expected = reference(where, values, factors, **options)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
    # Where it starts is left as it was.
    for one, other in zip(factors, start, strict=True):
        np.testing.assert_array_equal(one, other)


def mutant(change):
    """The reference with one thing wrong, to show that the comparison sees it."""
    where, values, factors = problem(3)
    drawn = np.random.default_rng(1).standard_normal((2, len(values), 2))
    options = {
        "rate": 0.05, "ridge": 0.3, "n_passes": 2, "clip": 0.3,
        "noise": lambda step: drawn[step],
    }  # fmt: skip
    found, _ = descend(where, values, factors, **options)
    wrong = reference(where, values, factors, **{**options, **change(drawn)})
    return max(
        np.abs(one - other).max() for one, other in zip(found, wrong, strict=True)
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda _: {"clip": 0.6},
        lambda _: {"clip": math.inf},
        lambda _: {"ridge": 0.15},
        lambda _: {"rate": 0.025},
        lambda _: {"n_passes": 1},
        lambda drawn: {"noise": lambda step: drawn[step] / 2},
        lambda drawn: {"noise": lambda step: drawn[0]},
    ],
)
def test_the_comparison_sees_what_is_wrong(change):
    assert mutant(change) > 1e-3


def test_rows_move_one_after_the_other():
    """The second sees where the first has moved to."""
    where, values = np.zeros((1, 2), dtype=np.int32), np.array([1.0])
    factors = [np.array([[0.5]]), np.array([[0.5]])]
    (a, b), _ = descend(where, values, factors, rate=0.1, ridge=0.0, n_passes=1)
    first = 0.5 + 0.1 * 2 * (1 - 0.25) * 0.5
    assert a[0, 0] == pytest.approx(first, rel=1e-14)
    assert b[0, 0] == pytest.approx(0.5 + 0.2 * (1 - first * 0.5) * first, rel=1e-14)


def test_passes_can_be_ended():
    where, values, factors = problem(2)
    asked = []

    def on_pass(step):
        asked.append(step)
        return step == 1

    options = {"rate": 0.05, "ridge": 0.1}
    found, n_passes = descend(
        where, values, factors, n_passes=9, on_pass=on_pass, **options
    )
    assert asked == [0, 1]
    assert n_passes == 2
    expected, _ = descend(where, values, factors, n_passes=2, **options)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("rate", [3.0, 1e200])
def test_what_diverges_ends_at_the_last_finite_pass(rate):
    where, values, factors = problem(3)
    options = {"rate": rate, "ridge": 0.1}
    found, n_passes = descend(where, values, factors, n_passes=50, **options)
    assert n_passes < 50
    assert all(np.all(np.isfinite(factor)) for factor in found)
    expected, _ = descend(where, values, factors, n_passes=n_passes, **options)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("value", "goes_on"), [(100.0, True), (1e6, False)])
def test_factors_whose_products_would_overflow_have_diverged(value, goes_on):
    """Every factor stays finite; the values of the model need not."""
    where, factors = np.zeros((1, 3), dtype=np.int32), [np.ones((1, 1))] * 3
    options = {"rate": 1.0, "ridge": 0.0, "n_passes": 1}
    after = reference(
        where, np.array([value]), factors, clip=1.0, noise=None, **options
    )
    assert np.all(np.isfinite(after))
    # Single precision ends at 3e38.
    assert (np.prod(after) < 1e30) == goes_on
    found, n_passes = descend(where, np.array([value]), factors, **options)
    assert n_passes == goes_on
    for one, other in zip(found, after if goes_on else factors, strict=True):
        np.testing.assert_array_equal(one, other)
