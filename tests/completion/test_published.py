"""The published algorithms: to the letter, and what of their claims is true."""

import itertools
import math
import pickle
import struct
import warnings
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sktensordp import _random
from sktensordp.audit import audit_estimator
from sktensordp.completion import CPCompletion, _published
from sktensordp.datasets import make_low_rank_tensor
from sktensordp.exceptions import PrivacyLeakWarning, UnsoundClaimWarning
from sktensordp.noise import LaplaceLattice
from sktensordp.privacy import privacy_of
from sktensordp.tensor import TuckerForm, descend
from tests.tensor.test_descent import reference

NAMES = ["input", "gradient", "output"]
FALSE = ["gradient", "output"]
RNG = np.random.default_rng(0)
SHAPES = {2: (5, 6), 3: (5, 6, 4)}
WHERE = {
    order: np.column_stack([RNG.integers(0, n, 25) for n in shape])
    for order, shape in SHAPES.items()
}
VALUES = RNG.uniform(0, 1, 25)
# Audits of this file raise a false alarm with probability at most 1e-3 together.
CONFIDENCE = 1 - 1e-4

expected_warning = pytest.mark.filterwarnings(
    "ignore::sktensordp.exceptions.UnsoundClaimWarning"
)


def make(name, rank=2, **params):
    options = {
        "epsilon": 1.0, "value_bounds": (0, 1), "max_iter": 3, "random_state": 0,
        "calibration": "published", **params,
    }  # fmt: skip
    return CPCompletion(rank, perturbation=name, **options)


# --- to the letter -----------------------------------------------------------------


def drawn_by(model, where, values):
    """What a fit drew: the start, the values' noise, and that of rows, in their order.

    With the generators as they are; nothing is put in their place.
    """
    starts, noisy, rows = [], [], []
    generator, spherical = _published._generator, _published._spherical
    randomize = LaplaceLattice.randomize

    class Noted:
        def __init__(self, inner):
            self._inner = inner

        def random(self, size):
            starts.append(self._inner.random(size))
            return starts[-1].copy()

        def __getattr__(self, name):
            return getattr(self._inner, name)

    def note_values(lattice, values, bits, **options):
        noisy.append(randomize(lattice, values, bits, **options))
        return noisy[-1].copy()

    def note_rows(*args):
        rows.append((spherical(*args), args[1:]))
        return rows[-1][0].copy()

    with (
        mock.patch.object(_published, "_generator", lambda *a: Noted(generator(*a))),
        mock.patch.object(LaplaceLattice, "randomize", note_values),
        mock.patch.object(_published, "_spherical", note_rows),
    ):
        model.fit(where, values)
    return starts, noisy, rows


@pytest.mark.parametrize("order", [2, 3])
@expected_warning
def test_algorithm_1(order):
    """Laplace noise of the range over epsilon on the values; the descent of Eq. 6."""
    model = make("input", regularization=0.05, learning_rate=0.02)
    starts, noisy, rows = drawn_by(model, WHERE[order], VALUES)
    assert len(noisy) == 1
    assert not rows
    expected = reference(
        WHERE[order], noisy[0], starts, rate=0.02, ridge=0.05, n_passes=3, clip=1.0,
        noise=None,
    )  # fmt: skip
    for found, factor in zip(model.factors_, expected, strict=True):
        np.testing.assert_allclose(found, factor, rtol=1e-9)
    assert model.offset_ == 0


@pytest.mark.parametrize("order", [2, 3])
@expected_warning
def test_algorithm_2(order):
    """Clipped and noisy gradients of the last factor, of scale 2 m / epsilon."""
    model = make(
        "gradient", regularization=0.05, learning_rate=0.02, gradient_clip=0.1,
        epsilon=0.5,
    )  # fmt: skip
    starts, noisy, rows = drawn_by(model, WHERE[order], VALUES)
    assert not noisy
    # A vector for every entry in every iteration.
    assert [shape for _, (shape, _) in rows] == [(25, 2)] * 3
    assert {scale for _, (_, scale) in rows} == {2 * 0.1 / 0.5}
    expected = reference(
        WHERE[order], VALUES, starts, rate=0.02, ridge=0.05, n_passes=3, clip=0.1,
        noise=lambda step: rows[step][0],
    )  # fmt: skip
    for found, factor in zip(model.factors_, expected, strict=True):
        np.testing.assert_allclose(found, factor, rtol=1e-9)


@pytest.mark.parametrize("order", [2, 3])
@expected_warning
def test_algorithm_3(order):
    """The descent on the values; then, on the last factor, scale 2 tau L eta / eps."""
    model = make(
        "output", regularization=0.05, learning_rate=0.02, gradient_clip=0.1,
        epsilon=0.5, max_iter=4,
    )  # fmt: skip
    starts, noisy, rows = drawn_by(model, WHERE[order], VALUES)
    assert not noisy
    ((noise, (shape, scale)),) = rows
    assert shape == (SHAPES[order][-1], 2)
    assert scale == pytest.approx(2 * 4 * 0.1 * 0.02 / 0.5, rel=1e-14)
    expected = reference(
        WHERE[order], VALUES, starts, rate=0.02, ridge=0.05, n_passes=4, clip=0.1,
        noise=None,
    )  # fmt: skip
    expected[-1] += noise
    for found, factor in zip(model.factors_, expected, strict=True):
        np.testing.assert_allclose(found, factor, rtol=1e-9)


def noise_of(model):
    """Noise that a fit of a tensor with many rows took, for nothing but zeros."""
    where = np.column_stack([np.arange(4000) % 5, np.arange(4000)])
    _, noisy, rows = drawn_by(model, where, np.zeros(4000))
    return noisy[0] if noisy else rows[0][0]


def score(model, law):
    """P-value of Kolmogorov and Smirnov for the lengths of the noise's rows."""
    noise = noise_of(model)
    lengths = noise if noise.ndim == 1 else np.linalg.norm(noise, axis=1)
    return stats.kstest(lengths, law.cdf).pvalue


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("name", FALSE)
@expected_warning
def test_lengths_follow_the_exponential_mechanism(name, rank):
    """Density exp(-eps |n| / Delta) of vectors: lengths are Gamma(d, Delta / eps).

    A false alarm in 1e-6 for each; the seed is fixed.
    """
    params = {"rank": rank, "gradient_clip": 0.3, "learning_rate": 0.01, "max_iter": 2}
    sensitivity = 2 * 0.3 if name == "gradient" else 2 * 2 * 0.3 * 0.01
    law = stats.gamma(rank, scale=sensitivity / 0.5)
    assert score(make(name, epsilon=0.5, **params), law) > 1e-6
    # Half and twice the scale are found out, and so are normal rows of that variance.
    assert score(make(name, epsilon=1.0, **params), law) < 1e-6
    assert score(make(name, epsilon=0.25, **params), law) < 1e-6
    normal = law.std() * np.random.default_rng(0).standard_normal((4000, rank))
    assert stats.kstest(np.linalg.norm(normal, axis=1), law.cdf).pvalue < 1e-6


@expected_warning
def test_directions_are_uniform():
    """Sum of unit vectors, a false alarm in 1e-9; and angles, in 1e-6."""
    noise = noise_of(make("gradient"))
    units = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    # The squared sum over n/2 is about chi-squared with two degrees of freedom.
    assert np.sum(units.sum(axis=0) ** 2) / 2000 < stats.chi2(2).isf(1e-9)
    angles = np.arctan2(*units.T) / (2 * np.pi) + 0.5
    assert stats.kstest(angles, "uniform").pvalue > 1e-6
    # Rows do not depend on those of another pass.
    _, _, rows = drawn_by(make("gradient"), WHERE[2], VALUES)
    assert not np.any(np.isin(rows[0][0], rows[1][0]))


def test_noise_of_values_is_that_of_laplace():
    """A false alarm in 1e-6, also for a range of two and for declared levels."""
    law = stats.laplace(scale=2 / 0.5)
    for domain in (
        {"value_bounds": (-1, 1)},
        {"levels": [-1, 0, 1], "value_bounds": None},
    ):
        # So slow that it does not diverge.
        model = make("input", **{"epsilon": 0.5, "learning_rate": 1e-6, **domain})
        assert score(model, law) > 1e-6
        assert score(model.set_params(epsilon=1.0), law) < 1e-6


@expected_warning
def test_starts_are_uniform():
    starts, _, _ = drawn_by(make("output", rank=4), WHERE[3], VALUES)
    together = np.concatenate([start.ravel() for start in starts])
    assert stats.kstest(together, "uniform").pvalue > 1e-6
    assert [start.shape for start in starts] == [(n, 4) for n in SHAPES[3]]


# --- to the letter, for Tucker -----------------------------------------------------

RANKS = {2: (2, 3), 3: (2, 3, 2)}


def tucker_reference(
    where, values, blocks, *, rate, ridge, core_ridge, n_passes, clip, noise,
    core_first=False,
):  # fmt: skip
    """Algorithm 2 of Wei, Li, Mao and Wang (2022) on the cost of Eq. 7, in lists.

    Without noise it is the descent of Algorithms 1 and 3. An entry's cost is
    (x - sum_pqt g_pqt a_p b_q c_t)^2 + ridge (|a|^2 + |b|^2 + |c|^2) plus
    core_ridge |G|^2; lines 4, 5, 8 and 9 move a, b, c and G, in this order.
    """
    *factors, core = blocks
    rows = [[list(map(float, row)) for row in factor] for factor in factors]
    ranks = [factor.shape[1] for factor in factors]
    cells = list(itertools.product(*map(range, ranks)))
    core = dict(zip(cells, core.ravel().tolist(), strict=True))

    def product(met, cell, without=None):
        return math.prod(
            row[r]
            for k, (row, r) in enumerate(zip(met, cell, strict=True))
            if k != without
        )

    def error(met, value):
        return value - sum(core[cell] * product(met, cell) for cell in cells)

    def move_core(met, value):
        left = error(met, value)
        for cell in cells:
            gradient = -2 * left * product(met, cell) + 2 * core_ridge * core[cell]
            core[cell] -= rate * gradient

    for step in range(n_passes):
        drawn = None if noise is None else noise(step).tolist()
        entries = zip(where.tolist(), values.tolist(), strict=True)
        for entry, (index, value) in enumerate(entries):
            met = [rows[k][i] for k, i in enumerate(index)]
            if core_first:
                move_core(met, value)
            for mode, own in enumerate(met):
                left = error(met, value)
                gradient = [
                    -2 * left * sum(
                        core[cell] * product(met, cell, mode)
                        for cell in cells
                        if cell[mode] == r
                    )
                    + 2 * ridge * own[r]
                    for r in range(ranks[mode])
                ]  # fmt: skip
                if mode == len(met) - 1 and drawn is not None:
                    length = math.sqrt(sum(g * g for g in gradient))
                    gradient = [g / max(1.0, length / clip) for g in gradient]
                    gradient = [
                        g + e for g, e in zip(gradient, drawn[entry], strict=True)
                    ]
                for r in range(ranks[mode]):
                    own[r] -= rate * gradient[r]
            if not core_first:
                move_core(met, value)
    core = np.array([[core[cell] for cell in cells]])
    return [*(np.array(factor) for factor in rows), core]


def tucker_start(order, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.random(b) for b in TuckerForm(RANKS[order]).blocks(SHAPES[order])]


TUCKER_OPTIONS = {
    "rate": 0.05, "ridge": 0.3, "core_ridge": 0.2, "n_passes": 2, "clip": 0.3
}  # fmt: skip


def largest_difference(found, expected):
    return max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("order", [2, 3])
def test_every_step_of_a_tucker_is_the_published_one(order, noisy):
    start = tucker_start(order)
    drawn = np.random.default_rng(1).standard_normal((2, 25, RANKS[order][-1]))
    # One entry more at a time; and all of them again.
    for n, n_passes in [*((n, 1) for n in range(1, 26)), (25, 2)]:
        options = {
            **TUCKER_OPTIONS, "n_passes": n_passes,
            "noise": (lambda step, n=n: drawn[step, :n]) if noisy else None,
        }  # fmt: skip
        where, values = WHERE[order][:n], VALUES[:n]
        found, _ = descend(
            where, values, start, form=TuckerForm(RANKS[order]), **options
        )
        expected = tucker_reference(where, values, start, **options)
        assert largest_difference(found, expected) < 1e-11
    # Where it starts is left as it was.
    assert largest_difference(start, tucker_start(order)) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"core_ridge": 0.1},
        {"ridge": 0.15},
        {"rate": 0.025},
        {"clip": 0.6},
        {"n_passes": 1},
        {"core_first": True},
        {"noise": lambda _: np.zeros((25, 2))},
    ],
)
def test_the_comparison_of_tuckers_sees_what_is_wrong(change):
    drawn = np.random.default_rng(1).standard_normal((2, 25, 2))
    options = {**TUCKER_OPTIONS, "noise": lambda step: drawn[step]}
    start = tucker_start(3)
    found, _ = descend(WHERE[3], VALUES, start, form=TuckerForm(RANKS[3]), **options)
    wrong = tucker_reference(WHERE[3], VALUES, start, **{**options, **change})
    assert largest_difference(found, wrong) > 1e-3


class TuckerFit:
    """A solver for a Tucker decomposition, to be fitted as an estimator is."""

    def __init__(self, name, order, **params):
        core = params.pop("core_regularization", 0.02)
        self.model, self.order = make(name, **params), order
        self._change = {"core_regularization": core, "form": TuckerForm(RANKS[order])}

    def solver(self, where):
        problem = self.model._problem(where.astype(np.int32), None, SHAPES[self.order])
        return _published.PublishedPerturbation(
            replace(problem, **self._change), self.model.perturbation
        )

    def fit(self, where, values):
        solver, source = self.solver(where), _random.NoiseSource(0, 0)
        released = solver.release(values, source, lambda _: False)
        self.blocks, self.n_iter, _ = released
        self.outcome = solver.complete(released, None)
        return self


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_algorithms_for_tucker(name, order):
    """What gets noise is the values, gradients of the last factor, or that factor."""
    fit = TuckerFit(
        name, order, regularization=0.05, learning_rate=0.02, gradient_clip=0.1,
        epsilon=0.5, core_regularization=0.2,
    )  # fmt: skip
    starts, noisy, rows = drawn_by(fit, WHERE[order], VALUES)
    rank = RANKS[order][-1]
    assert [start.shape for start in starts] == fit._change["form"].blocks(
        SHAPES[order]
    )
    assert len(noisy) == (name == "input")
    drawn = {
        "input": [],
        "gradient": 3 * [((25, rank), 2 * 0.1 / 0.5)],
        "output": [((SHAPES[order][-1], rank), 2 * 3 * 0.1 * 0.02 / 0.5)],
    }
    assert [shape for _, (shape, _) in rows] == [shape for shape, _ in drawn[name]]
    for (_, (_, scale)), (_, expected) in zip(rows, drawn[name], strict=True):
        assert scale == pytest.approx(expected, rel=1e-14)
    expected = tucker_reference(
        WHERE[order], noisy[0] if noisy else VALUES, starts, rate=0.02, ridge=0.05,
        core_ridge=0.2, n_passes=3, clip=0.1,
        noise=(lambda step: rows[step][0]) if name == "gradient" else None,
    )  # fmt: skip
    if name == "output":
        expected[order - 1] += rows[0][0]
    for found, block in zip(fit.blocks, expected, strict=True):
        np.testing.assert_allclose(found, block, rtol=1e-9)
    assert fit.outcome.offset == 0


def test_starts_of_tuckers_are_uniform():
    starts, _, _ = drawn_by(TuckerFit("input", 3), WHERE[3], VALUES)
    together = np.concatenate([start.ravel() for start in starts])
    assert stats.kstest(together, "uniform").pvalue > 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_the_model_of_a_tucker_is_its_blocks(name):
    fit = TuckerFit(name, 3).fit(WHERE[3], VALUES)
    *factors, core = fit.blocks
    rows = [f[i] for f, i in zip(factors, WHERE[3].T, strict=True)]
    expected = np.einsum("pqt,ep,eq,et->e", core.reshape(RANKS[3]), *rows)
    np.testing.assert_allclose(fit.outcome.model.predict(WHERE[3]), expected)


@pytest.mark.parametrize("name", NAMES)
def test_infinite_epsilon_is_a_tucker_without_noise(name):
    free = TuckerFit(name, 3, epsilon=math.inf)
    starts, noisy, rows = drawn_by(free, WHERE[3], VALUES)
    assert not noisy
    assert not rows
    expected = tucker_reference(
        WHERE[3], VALUES, starts, rate=0.005, ridge=0.01, core_ridge=0.02, n_passes=3,
        clip=1.0, noise=None,
    )  # fmt: skip
    for found, block in zip(free.blocks, expected, strict=True):
        np.testing.assert_allclose(found, block, rtol=1e-9)
    with (
        mock.patch.object(
            _published, "_spherical", lambda _, shape, __: np.zeros(shape)
        ),
        mock.patch.object(LaplaceLattice, "randomize", lambda _, values, __: values),
    ):
        silent = TuckerFit(name, 3, gradient_clip=1e9).fit(WHERE[3], VALUES)
    for one, two in zip(free.blocks, silent.blocks, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", NAMES)
def test_claims_for_tuckers_are_those_for_cps(name):
    """What is false leaves the core without noise, too."""
    solver = TuckerFit(name, 3).solver(WHERE[3])
    cp = _published.published_guarantee(name, 1.0, solver._lattice)
    assert solver.guarantee == cp
    assert solver.unsound == (name in FALSE)
    assert (solver.guarantee.epsilon == math.inf) == (name in FALSE)
    assert ("the core of a Tucker" in solver.guarantee.statement) == (name in FALSE)


@pytest.mark.parametrize("name", FALSE)
def test_one_pass_of_a_tucker_reveals_the_value(name):
    """Exactly, from the first factor."""
    fit = TuckerFit(
        name, 3, max_iter=1, epsilon=1e-3, regularization=0.0, core_regularization=0.0
    )
    where = np.array([[2, 3, 1]])
    starts, _, _ = drawn_by(fit, where, np.array([0.7234567]))
    a, b, c = (start[i] for start, i in zip(starts[:3], where[0], strict=True))
    h = np.einsum("pqt,q,t->p", starts[3].reshape(RANKS[3]), b, c)
    moved = (fit.blocks[0][2] - a) / 0.005
    np.testing.assert_allclose(moved / (2 * h) + h @ a, 0.7234567, atol=1e-9)


@pytest.mark.parametrize("rate", [1e3, 1e150])
@pytest.mark.parametrize("name", NAMES)
def test_a_tucker_that_diverges_ends_finite_and_warns(name, rate):
    clip = 0.5 if name == "output" else 1e300 / rate
    fit = TuckerFit(name, 3, learning_rate=rate, gradient_clip=clip, max_iter=20)
    with pytest.warns(ConvergenceWarning, match="smaller learning_rate"):
        fit.fit(WHERE[3], VALUES)
    assert all(np.all(np.isfinite(block)) for block in fit.blocks)
    assert fit.n_iter >= 1


def test_a_tucker_can_be_stopped():
    solver = TuckerFit("input", 3, max_iter=9, epsilon=math.inf).solver(WHERE[3])
    asked = []

    def stop(step):
        asked.append(step)
        return step == 1

    source = _random.NoiseSource(0, 0)
    blocks, n_iter, _ = solver.release(VALUES, source, stop)
    assert asked == [0, 1]
    assert n_iter == 2
    two = TuckerFit("input", 3, max_iter=2, epsilon=math.inf).fit(WHERE[3], VALUES)
    assert largest_difference(blocks, two.blocks) == 0


def test_a_tucker_finds_a_tensor_of_low_rank():
    """The simulation of Section 5.1 without noise, in four times as many passes."""
    made = make_low_rank_tensor(decomposition="tucker", snr=math.inf, random_state=0)
    form = TuckerForm((3, 3, 3))
    rng = np.random.default_rng(0)
    blocks, _ = descend(
        made.data, made.target, [rng.random(b) for b in form.blocks(made.shape)],
        rate=0.005, ridge=0.001, core_ridge=0.0001, n_passes=400, form=form,
    )  # fmt: skip
    found = np.sum(form.regressors(3, blocks, form.rows(made.data)) * blocks[3], axis=1)
    assert np.std(found - made.target) < 0.7 * np.std(made.target)


# --- claims ------------------------------------------------------------------------


@pytest.mark.parametrize("name", FALSE)
def test_false_claims_are_named(name):
    model = make(name)
    with pytest.warns(UnsoundClaimWarning, match="does not hold"):
        model.fit(WHERE[3], VALUES)
    guarantee = model.privacy_guarantee_
    assert guarantee.epsilon == math.inf
    assert guarantee.claimed == (1.0, 0.0)
    assert guarantee.delta_at(100.0) == 1
    assert privacy_of(model).guarantee.epsilon == math.inf
    assert "no finite epsilon holds" in str(guarantee)
    assert "Claimed: (epsilon = 1, delta = 0)" in str(guarantee)


def test_the_true_claim_holds():
    model = make("input").fit(WHERE[3], VALUES)
    guarantee = model.privacy_guarantee_
    assert 1 - 1e-3 < guarantee.epsilon <= 1
    assert guarantee.delta == 0
    assert guarantee.claimed is None
    for epsilon in (0.01, 30.0):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnsoundClaimWarning)
            found = make("input", epsilon=epsilon, learning_rate=1e-6)
            found.fit(WHERE[3], VALUES)
        assert found.privacy_guarantee_.epsilon <= epsilon


@pytest.mark.parametrize("name", NAMES)
def test_without_noise_nothing_is_claimed(name):
    model = make(name, epsilon=math.inf).fit(WHERE[3], VALUES)
    assert model.privacy_guarantee_.epsilon == math.inf
    assert model.privacy_guarantee_.claimed is None
    # All three are the same descent then, from a random start.
    other = make("input", epsilon=math.inf).fit(WHERE[3], VALUES)
    for one, two in zip(model.factors_, other.factors_, strict=True):
        np.testing.assert_array_equal(one, two)
    starts, noisy, rows = drawn_by(clone(model), WHERE[3], VALUES)
    assert not noisy
    assert not rows
    expected = reference(
        WHERE[3], VALUES, starts, rate=0.005, ridge=0.01, n_passes=3, clip=1.0,
        noise=None,
    )  # fmt: skip
    for found, factor in zip(model.factors_, expected, strict=True):
        np.testing.assert_allclose(found, factor, rtol=1e-9)


@pytest.mark.parametrize("name", ["input", "output"])
@expected_warning
def test_noise_switched_off_is_infinite_epsilon(name):
    """For "gradient", infinite epsilon is the descent without clipping, too."""
    free = make(name, epsilon=math.inf).fit(WHERE[3], VALUES)
    with (
        mock.patch.object(
            _published, "_spherical", lambda _, shape, __: np.zeros(shape)
        ),
        mock.patch.object(LaplaceLattice, "randomize", lambda _, values, __: values),
    ):
        silent = make(name).fit(WHERE[3], VALUES)
    for one, two in zip(free.factors_, silent.factors_, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("name", NAMES)
@expected_warning
def test_a_range_read_off_the_values_voids_what_is_true(name):
    with pytest.warns(PrivacyLeakWarning, match="read off the private values"):
        model = make(name, value_bounds=None).fit(WHERE[2], VALUES)
    assert model.privacy_guarantee_.epsilon == math.inf
    assert model.privacy_guarantee_.claimed == (1.0, 0.0)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("auto", {}, "published"),
        ("sums", {}, "published"),
        ("statistics", {}, "published"),
        *[(name, {"rank": 0}, "rank of 1|rank 1") for name in NAMES],
        *[(name, {"smooth_modes": [1]}, "smooth modes") for name in NAMES],
    ],
)
def test_what_was_not_published_is_refused_before_anything_is_drawn(
    name, params, message, monkeypatch
):
    def draw(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(_random.NoiseSource, "stream", draw)
    with pytest.raises(ValueError, match=message):
        make(name, **params).fit(WHERE[2], VALUES)


@pytest.mark.parametrize("rate", [1e3, 1e150])
@pytest.mark.parametrize("name", NAMES)
@expected_warning
def test_what_diverges_ends_finite_and_warns(name, rate):
    # A clip as large as the gradients, so that noise does not hold them back.
    model = make(name, learning_rate=rate, gradient_clip=1e300 / rate, max_iter=20)
    if name == "output":
        model.set_params(gradient_clip=0.5)
    with pytest.warns(ConvergenceWarning, match="smaller learning_rate"):
        model.fit(WHERE[3], VALUES)
    assert all(np.all(np.isfinite(factor)) for factor in model.factors_)
    assert np.all(np.isfinite(model.predict(WHERE[3])))
    assert model.n_iter_ >= 1


# --- attacks -----------------------------------------------------------------------

# One entry in a row and a column of its own, and another.
X, LOW, HIGH = [[0, 0, 0], [1, 1, 1]], [0.0, 0.5], [1.0, 0.5]


def attack(name, *, n_trials=250, release=None, **params):
    """The un-noised row of the first factor that the entry is in; a random start."""
    model = make(
        name, rank=1, max_iter=60, random_state=None,
        **{"learning_rate": 0.1, **params},
    )  # fmt: skip
    return audit_estimator(
        model, X, X, LOW, HIGH, epsilon=params["epsilon"], delta=0.0,
        release=release or (lambda m: m.factors_[0][0]), n_trials=n_trials,
        confidence=CONFIDENCE,
    )  # fmt: skip


# Starts and noise are those of the operating system here: a rare fit may diverge.
may_diverge = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning"
)


@pytest.mark.parametrize("name", FALSE)
@expected_warning
@may_diverge
def test_false_claims_are_refuted(name):
    report = attack(name, epsilon=0.1, gradient_clip=1e-3)
    assert report.violated, report
    assert report.epsilon_lower > 1.0, report


@may_diverge
def test_the_true_claim_is_not():
    # So slow that values of a hundred times the range leave it in the range of numbers.
    report = attack("input", epsilon=0.1, n_trials=200, learning_rate=1e-3)
    assert not report.violated, report


@may_diverge
def test_the_attack_finds_values_that_have_no_noise():
    """Of Algorithm 1, too, with a hundredth of its noise."""
    randomize = LaplaceLattice.randomize

    def too_little(lattice, values, bits, **options):
        return values + (randomize(lattice, values.copy(), bits) - values) / 100

    with mock.patch.object(LaplaceLattice, "randomize", too_little):
        report = attack("input", epsilon=0.1, n_trials=200)
    assert report.violated, report


@expected_warning
def test_one_pass_from_a_known_start_reveals_the_value():
    """Not to a small error: exactly, from the first factor of Algorithms 2 and 3."""
    for name in FALSE:
        model = make(name, rank=1, max_iter=1, epsilon=1e-3, regularization=0.0)
        starts, _, _ = drawn_by(model, np.array([[2, 3, 1]]), np.array([0.7234567]))
        a, b, c = (s[i, 0] for s, i in zip(starts, (2, 3, 1), strict=True))
        moved = (model.factors_[0][2, 0] - a) / 0.005
        assert moved / (2 * b * c) + a * b * c == pytest.approx(0.7234567, abs=1e-9)


# --- the estimator -----------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@expected_warning
def test_the_fitted_object(name, dtype):
    model = make(name, shape=SHAPES[3]).fit(WHERE[3], VALUES.astype(dtype))
    assert model.perturbation_ == name
    assert model.predict(WHERE[3]).dtype == dtype
    assert [f.shape for f in model.factors_] == [(n, 2) for n in SHAPES[3]]
    assert not hasattr(model, "noise_variance_")
    assert not hasattr(model, "residual_variance_")
    rebuilt = np.sum(
        np.prod([f[c] for f, c in zip(model.factors_, WHERE[3].T, strict=True)], 0), 1
    )
    np.testing.assert_allclose(
        model.predict(WHERE[3]), np.clip(rebuilt, 0, 1), rtol=1e-5, atol=1e-6
    )
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(WHERE[3]), model.predict(WHERE[3]))
    with pytest.raises(ValueError, match="standard deviations"):
        model.predict(WHERE[3], return_std=True)
    with pytest.raises(AttributeError, match="partial_fit"):
        model.partial_fit(WHERE[3], VALUES)
    assert clone(model).get_params()["calibration"] == "published"


@pytest.mark.parametrize("name", NAMES)
@expected_warning
def test_no_value_is_stored(name):
    values = VALUES.copy()
    values[3] = 0.7234567
    model = make(name, random_state=None).fit(WHERE[3], values)
    stored = pickle.dumps(model)
    for value in (*values, values.sum(), values.mean()):
        assert struct.pack("<d", value) not in stored
        assert repr(float(value)).encode() not in stored


@pytest.mark.parametrize("name", NAMES)
@expected_warning
def test_dense_tensors(name):
    tensor = np.full(SHAPES[3], np.nan)
    tensor[tuple(WHERE[3].T)] = VALUES
    where = np.argwhere(~np.isnan(tensor))
    model = make(name, shape=SHAPES[3])
    dense = clone(model).fit(tensor)
    one = clone(model).fit(where, tensor[tuple(where.T)])
    for a, b in zip(one.factors_, dense.factors_, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.all(np.isfinite(dense.transform(tensor)))


@pytest.mark.parametrize("name", NAMES)
@expected_warning
def test_two_fits_never_share_their_noise(name):
    for random_state in (None, 0):
        model = make(name, random_state=random_state)
        first = model.fit(WHERE[3], VALUES).factors_[-1]
        second = model.fit(WHERE[3], VALUES).factors_[-1]
        assert not np.array_equal(first, second)


@pytest.mark.parametrize("name", NAMES)
@expected_warning
def test_an_interrupted_fit_counts_and_leaves_no_model(name):
    model = make(name).fit(WHERE[3], VALUES)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with (
        mock.patch.object(_published, "descend", interrupted),
        pytest.raises(KeyboardInterrupt),
    ):
        model.set_params(epsilon=3.0).fit(WHERE[3], VALUES)
    assert (
        model.privacy_guarantee_
        == make(name, epsilon=3.0).fit(WHERE[3], VALUES).privacy_guarantee_
    )
    assert not hasattr(model, "factors_")


@expected_warning
def test_a_search_counts_what_is_true():
    model = make("input", shape=SHAPES[2])
    search = GridSearchCV(model, {"epsilon": [0.5, 2.0]}, cv=3)
    search.fit(WHERE[2], VALUES)
    spent = 2 * (0.5 + 2.0) + search.best_params_["epsilon"]
    assert privacy_of(search).guarantee.epsilon == pytest.approx(spent, rel=1e-3)
    grid = {"perturbation": ["input", "output"]}
    search = GridSearchCV(model, grid, cv=3).fit(WHERE[2], VALUES)
    assert privacy_of(search).guarantee.epsilon == math.inf


def test_a_sound_stream_does_not_go_on_from_a_published_fit():
    """Also where the columns are the same and the parameters have been changed."""
    model = CPCompletion(
        1, perturbation="input", calibration="published", biases=False,
        value_bounds=(0, 1), learning_rate=1e-3, max_iter=2,
    )  # fmt: skip
    model.fit([[0, 0], [1, 1]], [0.2, 0.8]).set_params(calibration="sound")
    before = model.privacy_guarantee_
    with pytest.raises(AttributeError, match="partial_fit"):
        model.partial_fit([[0, 1]], [0.5])
    assert model.privacy_guarantee_ == before
