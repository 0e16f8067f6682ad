"""The published descents against their pseudo-code, written out row by row."""

import itertools
import math

import numpy as np
import pytest

from sktensordp.tensor import TuckerForm
from tests.support.seams import descend

pytestmark = pytest.mark.thorough
SHAPES = {2: (3, 4), 3: (3, 4, 2), 4: (2, 3, 2, 2)}
# Of a Tucker decomposition.
RANKS = {2: (2, 2), 3: (2, 3, 2)}
OF_COST = {"rate": 0.05, "ridge": 0.3}


def problem(order, form="CP", n=9):
    rng = np.random.default_rng(0)
    shape, blocks = SHAPES[order], [(size, 2) for size in SHAPES[order]]
    if form == "Tucker":
        blocks = TuckerForm(RANKS[order]).blocks(shape)
    where = np.column_stack([rng.integers(0, size, n) for size in shape])
    # The same entry twice in a row, too.
    where[1] = where[0]
    blocks = [rng.random(block) for block in blocks]
    return where.astype(np.int32), rng.standard_normal(n), blocks


def options_of(order, form):
    """Of a Tucker; a CP has none."""
    if form == "CP":
        return {}, {}
    return {"core_ridge": 0.2}, {"form": TuckerForm(RANKS[order])}


def reference(
    where, values, blocks, *, rate, ridge, n_passes, clip, noise, core_ridge=None,
    core_first=False,
):  # fmt: skip
    """Algorithm 2 of Wei, Li, Mao and Wang (2022) on the cost of Eq. 6 or 7, in lists.

    Without noise it is the descent of Algorithms 1 and 3. An entry's cost is
    (x - sum_pqt g_pqt a_p b_q c_t)^2 + ridge (|a|^2 + |b|^2 + |c|^2), for Tucker plus
    core_ridge |G|^2; lines 4, 5, 8 and 9 move a, b, c and G, in this order. For a CP,
    G is fixed, with ones on its diagonal. In its turn, each row moves along its own
    gradient, at where the rows before it have moved to.
    """
    factors = blocks[: where.shape[1]]
    rows = [[list(map(float, row)) for row in factor] for factor in factors]
    ranks = [factor.shape[1] for factor in factors]
    if core_ridge is None:
        core = {(r,) * len(ranks): 1.0 for r in range(ranks[0])}
    else:
        cells = itertools.product(*map(range, ranks))
        core = dict(zip(cells, blocks[-1].ravel().tolist(), strict=True))

    def product(met, cell, without=None):
        return math.prod(
            row[r]
            for k, (row, r) in enumerate(zip(met, cell, strict=True))
            if k != without
        )

    def error(met, value):
        return value - sum(g * product(met, cell) for cell, g in core.items())

    def move_core(met, value):
        left = error(met, value)
        for cell in core:
            gradient = -2 * left * product(met, cell) + 2 * core_ridge * core[cell]
            core[cell] -= rate * gradient

    def move_row(met, mode, value, drawn):
        left = error(met, value)
        gradient = [
            -2 * left * sum(
                g * product(met, cell, mode) for cell, g in core.items()
                if cell[mode] == r
            )
            + 2 * ridge * own
            for r, own in enumerate(met[mode])
        ]  # fmt: skip
        if drawn is not None:
            length = math.sqrt(sum(g * g for g in gradient))
            # v / max(1, |v| / m), and then the noise.
            gradient = [g / max(1.0, length / clip) for g in gradient]
            gradient = [g + e for g, e in zip(gradient, drawn, strict=True)]
        for r, g in enumerate(gradient):
            met[mode][r] -= rate * g

    for step in range(n_passes):
        drawn = None if noise is None else noise(step).tolist()
        entries = zip(where.tolist(), values.tolist(), strict=True)
        for entry, (index, value) in enumerate(entries):
            met = [rows[k][i] for k, i in enumerate(index)]
            if core_first and core_ridge is not None:
                move_core(met, value)
            for mode in range(len(met)):
                is_noisy = mode == len(met) - 1 and drawn is not None
                move_row(met, mode, value, drawn[entry] if is_noisy else None)
            if not core_first and core_ridge is not None:
                move_core(met, value)
    moved = [np.array(factor) for factor in rows]
    return moved if core_ridge is None else [*moved, np.array([list(core.values())])]


@pytest.mark.parametrize(
    ("form", "order"),
    [*(("CP", order) for order in (2, 3, 4)), ("Tucker", 2), ("Tucker", 3)],
)
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("clip", [0.05, 0.5, 100.0])
def test_it_is_the_published_descent(form, order, noisy, clip):
    where, values, blocks = problem(order, form)
    rng = np.random.default_rng(1)
    drawn = rng.standard_normal((3, len(values), blocks[order - 1].shape[1]))
    noise = (lambda step: drawn[step]) if noisy else None
    of_core, of_form = options_of(order, form)
    options = {**OF_COST, **of_core, "n_passes": 3, "clip": clip, "noise": noise}
    start = [block.copy() for block in blocks]
    found, n_passes = descend(where, values, blocks, **options, **of_form)
    assert n_passes == 3
    expected = reference(where, values, blocks, **options)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
    # Where it starts is left as it was.
    for one, other in zip(blocks, start, strict=True):
        np.testing.assert_array_equal(one, other)


CHANGES = [
    lambda _: {"clip": 0.6},
    lambda _: {"clip": math.inf},
    lambda _: {"ridge": 0.15},
    lambda _: {"rate": 0.025},
    lambda _: {"n_passes": 1},
    lambda drawn: {"noise": lambda step: drawn[step] / 2},
    lambda drawn: {"noise": lambda step: drawn[0]},
]
OF_CORE = [lambda _: {"core_ridge": 0.1}, lambda _: {"core_first": True}]


@pytest.mark.parametrize(
    ("form", "change"),
    [
        *itertools.product(["CP"], CHANGES),
        *itertools.product(["Tucker"], CHANGES + OF_CORE),
    ],
)
def test_the_comparison_sees_what_is_wrong(form, change):
    where, values, blocks = problem(3, form)
    drawn = np.random.default_rng(1).standard_normal((2, len(values), 2))
    of_core, of_form = options_of(3, form)
    options = {
        **OF_COST, **of_core, "n_passes": 2, "clip": 0.3,
        "noise": lambda step: drawn[step],
    }  # fmt: skip
    found, _ = descend(where, values, blocks, **options, **of_form)
    wrong = reference(where, values, blocks, **{**options, **change(drawn)})
    differences = [
        np.abs(one - other).max() for one, other in zip(found, wrong, strict=True)
    ]
    assert max(differences) > 1e-3


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
