"""Perturbation of statistics and output: what one value moves, and what is fitted."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.datasets import make_low_rank_tensor
from sktensordp.tensor import TuckerForm
from tests.measure.test_noisy_sums import (
    SHAPES,
    VALUES,
    WHERE,
    moved_by_one_value,
)
from tests.measure.test_noisy_sums import make as make_any
from tests.support.points import POINTS, original
from tests.support.replaying import leaves, quick, recorded

pytestmark = pytest.mark.thorough
NAMES = ["statistics", "output"]
# Of the four rows of the second mode. One row is zero, so that an entry may have no
# weight at all, and they are of very different lengths.
FEATURES = np.array([[0.3, -1.0], [0.0, 0.0], [20.0, 0.5], [0.01, 0.02]])


def make(name, form="CP", order=2, **params):
    return make_any(form, order, perturbation=name, **params)


# --- what one value moves ----------------------------------------------------------

DOMAINS = {
    "biases": {},
    "no biases": {"biases": False},
    "levels": {"value_bounds": None, "levels": [0.0, 0.25, 1.0]},
    "features": {"side_information": {1: FEATURES}},
}


@quick()
def shares_used(model, order, factor=1.0, wrong=1):
    """By block, the largest distance in L1 over all neighbours, in what is counted."""
    with recorded(factor=factor, wrong=wrong) as start:
        model.fit(WHERE[order], VALUES)
    largest = 0.0
    for entry, first, moved in moved_by_one_value(model, order, start, wrong):
        # One sum of each mode.
        assert np.count_nonzero(first) <= (order if model.biases else 1)
        for number, (part,) in enumerate(moved):
            # Of the row of the entry alone; the core has one.
            row = [*WHERE[order][entry], 0][number % (order + 1)]
            by_row = part.reshape([*SHAPES[order], 1][number % (order + 1)], -1)
            assert set(np.flatnonzero(by_row.any(axis=1))) <= {row}
        largest = np.maximum(largest, [part.sum() for (part,) in moved])
    (event, count) = [*leaves(model.privacy_guarantee_.event)][-1]
    assert count == len(moved)
    noise = start.lattices[-1]
    assert all(one is noise for one in start.lattices[1:])
    assert event.noise_parameter == noise.rate
    # Contributions one apart in L1, and one step for every sum that is rounded.
    rows = [*SHAPES[order], 1]
    n_columns = max(p.size // rows[k % (order + 1)] for k, (p,) in enumerate(moved))
    assert event.sensitivity >= 1 / noise.step + n_columns
    assert event.sensitivity < 1.01 / noise.step + n_columns + 2
    return largest / event.sensitivity


@pytest.mark.parametrize(
    ("name", "form", "domain", "order", "factor"),
    [
        *(("statistics", "CP", domain, 2, 0.0) for domain in DOMAINS),
        ("output", "CP", "biases", 3, 0.0), ("output", "CP", "features", 2, 0.0),
        *((name, "Tucker", "biases", 3, 0.0) for name in NAMES),
        ("output", "Tucker", "no biases", 2, 1.0), ("output", "CP", "levels", 2, 1.0),
        ("statistics", "CP", "features", 3, 1e3), ("output", "CP", "no biases", 3, 1e3),
    ],
)  # fmt: skip
def test_one_value_moves_the_sums_by_one(name, form, domain, order, factor):
    """In L1, for all entries and trajectories; of the row of the value alone.

    With the noise of the trajectory left out, as it is, and a thousand times as large.
    """
    used = shares_used(make(name, form, order, **DOMAINS[domain]), order, factor)
    # Every mode, and the core; of features, one release of the first mode's rows.
    assert len(used) == (1 if domain == "features" else order + (form == "Tucker"))
    assert np.all(used <= 1)
    # So that nothing is wasted. Noise may put all residuals on one side; and around
    # their mean alone, those of one side do not reach the clip.
    if factor == 0.0:
        assert np.all(used > (0.7 if domain == "no biases" else 0.9))


@pytest.mark.parametrize("name", NAMES)
def test_twice_the_contributions_would_be_noticed(name):
    for params in ({}, DOMAINS["features"]):
        assert shares_used(make(name, **params), 2, 0.0, wrong=2).max() > 1.5
    # In every block of a Tucker, the core included.
    assert shares_used(make(name, "Tucker", 3), 3, 0.0, wrong=2).min() > 1.5


@pytest.mark.parametrize("name", NAMES)
def test_lengths_in_the_wrong_norm_would_be_noticed(name, monkeypatch):
    """Of L2, which Laplace noise in every sum does not hide."""

    def length(x):
        # A vector whose entries all are its share of the L2 norm.
        size = np.linalg.norm(x, axis=-1, keepdims=True)
        return np.broadcast_to(size / x.shape[-1], x.shape)

    numpy = SimpleNamespace(**{**vars(np), "abs": length})
    monkeypatch.setattr(*POINTS["lengths of a block"], numpy)
    with pytest.raises(AssertionError, match="longer than its limit"):
        make(name, rank=3).fit(WHERE[2], VALUES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_what_rounding_adds_to_weights_is_cut_off(name, form, monkeypatch):
    """Weights that come out longer than the largest that was found."""
    point, scales = POINTS["bounds of a block"], original("bounds of a block")
    monkeypatch.setattr(*point, lambda longest: scales(longest) / 1.7)
    assert 0.8 < shares_used(make(name, form, 3), 3, 0.0).max() <= 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("form", "biases", "order"), [("CP", True, 3), ("Tucker", False, 3)]
)
def test_releases_are_those_of_the_event(form, biases, order, name):
    with recorded() as found:
        model = make(name, form, order, biases=biases).fit(WHERE[order], VALUES)
    _, *blocks = found.exact
    columns = [2] * order + [4 if form == "Tucker" else 0]
    sizes = [*zip((*SHAPES[order], 1), columns, strict=True)]
    if form == "Tucker":
        sizes[-1] = (1, 8)
    sizes = [n_rows * n_columns for n_rows, n_columns in sizes]
    assert [sums.size for (sums,) in blocks] == sizes[: len(blocks)]
    (before, n_first), (event, count) = leaves(model.privacy_guarantee_.event)
    assert count == len(blocks) == order + (form == "Tucker")
    assert event.noise_parameter == found.lattices[1].rate
    # The sums of each mode, or the one of all.
    assert n_first == (order if biases else 1)
    assert before.noise_parameter == found.lattices[0].rate
    assert before.sensitivity == found.lattices[0].l1_steps
    # Pure, and all of it spent.
    spent = count * event.sensitivity * event.noise_parameter
    spent += n_first * before.sensitivity * before.noise_parameter
    assert 0.999 < spent <= 1.0
    assert spent * (1 - 1e-9) <= model.privacy_guarantee_.epsilon <= 1.0


@pytest.mark.parametrize("name", NAMES)
def test_biases_alone_have_all_of_the_budget(name):
    with recorded() as found:
        model = make(name, rank=0).fit(WHERE[2], VALUES)
    assert len(found.exact) == 1
    assert [count for _, count in leaves(model.privacy_guarantee_.event)] == [2]
    assert model.privacy_guarantee_.epsilon == pytest.approx(1.0, rel=1e-3)


def test_solutions_are_those_of_ridge_regressions():
    """What "output" releases, without noise, by the normal equations of each row."""
    with recorded(factor=0.0) as found:
        make("output").fit(WHERE[2], VALUES)
    # The biases, from the same sums.
    with recorded(found, factor=0.0):
        first = make("sums", rank=0, epsilon=0.75).fit(WHERE[2], VALUES)
    left = VALUES - np.array(
        [first.offset_ + first.factors_[0][i, 0] + first.factors_[1][j, 1]
         for i, j in WHERE[2]]
    )  # fmt: skip
    left = np.clip(left / 0.25, -1, 1)
    ridge = first.model_variance_ / 0.5**2 / 0.05
    start = np.random.default_rng(0)
    start.standard_normal((3, 2))
    columns = start.standard_normal((4, 2))
    for row in range(3):
        own = WHERE[2][:, 0] == row
        h = columns[WHERE[2][own, 1]]
        inverse = np.linalg.inv(h.T @ h + ridge * np.eye(2))
        unit = 2 * np.abs(h @ inverse).sum(axis=1).max()
        np.testing.assert_allclose(
            found.exact[1][0].reshape(3, 2)[row] * found.step * unit,
            inverse @ h.T @ left[own],
            atol=1e-5,
        )  # fmt: skip


# --- the estimator -----------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_rounds_come_with_epsilon(name):
    """Every mode is fitted again for every 16 of it, eight times at most."""
    for epsilon, rounds in ((0.1, 1), (31.9, 1), (32, 2), (1000, 8), (math.inf, 8)):
        model = make(name, order=3, epsilon=epsilon)
        assert model.fit(WHERE[3], VALUES).n_iter_ == rounds * 3
    # In ranks, rows of a Tucker's core are longer: 8 numbers, not 2, for a rank of two.
    for epsilon, rounds in ((0.1, 1), (127.0, 1), (128.0, 2), (math.inf, 8)):
        model = make(name, "Tucker", 3, epsilon=epsilon)
        assert model.fit(WHERE[3], VALUES).n_iter_ == rounds * 4


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [1e4, math.inf])
def test_a_tucker_tensor_is_found(name, epsilon):
    """By blocks alone, from a start at random, with little noise and without."""
    shares = []
    for seed in range(2):
        made = make_low_rank_tensor(decomposition="tucker", random_state=seed)
        model = TuckerCompletion(
            3, perturbation=name, epsilon=epsilon, biases=False, value_bounds=(0, 1),
            shape=made.shape, random_state=0,
        )  # fmt: skip
        found = model.fit(made.data, made.target).predict(made.data)
        truth = made.truth[tuple(made.data.T)]
        shares.append(np.std(found - truth) / np.std(truth))
    assert np.mean(shares) < 0.5
    assert max(shares) < 0.95


@pytest.mark.parametrize("name", NAMES)
def test_a_tensor_of_low_rank_is_found_without_noise(name):
    """By blocks alone, from factors that start at random; not always all of it."""
    shares = []
    for seed in range(6):
        made = make_low_rank_tensor(random_state=seed)
        model = CPCompletion(
            3, perturbation=name, epsilon=math.inf, biases=False, value_bounds=(0, 1)
        ).fit(made.data, made.target)
        found = model.predict(np.argwhere(np.ones(made.shape)))
        shares.append(np.std(found - made.truth.ravel()) / np.std(made.truth))
    assert np.mean(shares) < 0.55
    assert max(shares) < 0.75


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [1e-4, 1000.0])
def test_tuckers_stay_finite(name, epsilon):
    """Also of values that are all the same, without biases, and of one entry."""
    for values in (np.full(5, 0.5), np.ones(1)):
        model = make(name, "Tucker", 3, epsilon=epsilon, biases=False)
        model.fit(WHERE[3][: len(values)], values)
        assert np.all(np.isfinite(model.predict(WHERE[3])))


@pytest.mark.parametrize("name", NAMES)
def test_delta_is_not_used(name):
    one = make(name, delta=0).fit(WHERE[2], VALUES)
    two = make(name, delta=1e-3).fit(WHERE[2], VALUES)
    np.testing.assert_array_equal(one.predict(WHERE[2]), two.predict(WHERE[2]))
    assert one.privacy_guarantee_.delta == two.privacy_guarantee_.delta == 0


# --- the blocks of a Tucker decomposition ------------------------------------------


def test_regressors_do_not_depend_on_what_they_are_computed_with():
    """Bit for bit, where they cancel: lengths are known from other slices."""
    rng, form = np.random.default_rng(0), TuckerForm((2, 3, 4, 2))
    shape = (5, 6, 4, 3)
    blocks = [rng.standard_normal(block) for block in form.blocks(shape)]
    for own in blocks:
        own[:, -1] = -own[:, :-1].sum(axis=1)
    where = np.column_stack([rng.integers(0, n, 50) for n in shape])
    rows = form.rows(where)
    for block in range(5):
        whole = form.regressors(block, blocks, rows)
        for size in (1, 7):
            parts = [
                form.regressors(block, blocks, [own[at : at + size] for own in rows])
                for at in range(0, 50, size)
            ]
            np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_normalizing_a_tucker_leaves_its_direction():
    """Its values but for their scale; and columns are orthogonal, of mean square 1."""
    rng = np.random.default_rng(0)
    form, where = TuckerForm((2, 3, 2)), WHERE[3]
    blocks = [rng.standard_normal(block) for block in form.blocks(SHAPES[3])]
    # Of two directions alone.
    blocks[1][:, 2] = blocks[1][:, 0] + 1e-3 * blocks[1][:, 1]
    rows = form.rows(where)

    def values():
        return np.sum(form.regressors(3, blocks, rows) * blocks[3], axis=1)

    before = values()
    for block in range(4):
        form.normalize(block, blocks)
        scale = np.linalg.norm(values()) / np.linalg.norm(before)
        np.testing.assert_allclose(values(), scale * before, rtol=1e-6, atol=1e-9)
        assert np.sum(blocks[3] ** 2) == pytest.approx(2)
    for block, n_directions in enumerate((2, 2, 2)):
        gram = blocks[block].T @ blocks[block] / SHAPES[3][block]
        expected = np.r_[np.zeros(len(gram) - n_directions), np.ones(n_directions)]
        np.testing.assert_allclose(gram, np.diag(expected), atol=1e-6)
