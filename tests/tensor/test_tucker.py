"""Tuckers on rows: updates against enumeration, the model by the book, and fits."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.tensor import (
    Observations,
    TuckerForm,
    add_entries,
    fit_tucker,
    mode_products,
    rescaled,
)
from tests.support.points import POINTS
from tests.support.seams import solve_mode, started, tensor_observations, tensor_tucker
from tests.support.tensors import (
    covariance_of,
    low_rank,
    moment_of,
    row_by_hand,
    with_random_rows,
)

SHAPES = {
    "matrix": ((7, 5), (2, 3), 2),
    "three": ((4, 6, 5), (2, 3, 2), 2),
    "uneven": ((3, 5, 4), (3, 1, 3), 0),
    "four": ((4, 3, 5, 3), (2, 1, 2, 2), 1),
}


def random_state(shape, ranks, n_features, *, biases=True, n=60):
    """Rows and a core with covariances of all sorts, and entries."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(n) % s for s in shape])
    X[:, 1:] = [[rng.integers(0, s) for s in shape[1:]] for _ in X]
    y, used = rng.standard_normal(n), [np.arange(s) for s in shape]
    entries = Observations.from_arrays(X, y, used)
    features = rng.standard_normal((shape[1] + 1, n_features))
    rows = started(
        entries, rank=max(ranks), biases=biases, noise=0.3, features=features
    )
    n_core = int(np.prod(ranks))
    root = 0.1 * rng.standard_normal((n_core, n_core + 1))
    mean, centre = rng.standard_normal((2, *ranks))
    core = tensor_tucker.Core(mean, centre, 2.0, (root @ root.T,))
    rows = tensor_tucker.combined(rows, core)
    return with_random_rows(rows, rng), X, y


def whole_core(rows):
    """The core that contracts all columns, and the mean of its outer square."""
    n_modes, n_columns = rows.fixed.shape
    core, block = np.zeros((n_columns,) * n_modes), rows.posterior_core
    for column in np.flatnonzero(rows.in_one_mode):
        core[(column,) * n_modes] = 1.0
    at = tuple(rows.terms_of(mode) for mode in range(n_modes))
    core[at] = block.mean
    square = np.multiply.outer(core, core)
    square[at + at] += block.covariances[0].reshape(*block.mean.shape * 2)
    return core, square


def expected(rows, at, kept=()):
    """Means of the value, and of its outer square, with some modes left open."""
    (core, square), n = whole_core(rows), rows.n_modes
    one, two = [core, [*range(n)]], [square, [*range(2 * n)]]
    for mode, r in enumerate(at):
        if mode not in kept:
            one += [rows.means[mode][r], [mode]]
            two += [moment_of(rows, mode, r), [mode, mode + n]]
    axes = [*kept, *(m + n for m in kept)]
    return np.einsum(*one, [*kept]), np.einsum(*two, axes)


@pytest.fixture(params=[False, True], ids=["alone", "in fibers"])
def in_fibers(request, monkeypatch):
    """Whether entries that differ in one mode alone are taken together."""
    if request.param:
        monkeypatch.setattr(tensor_observations, "_MANY_IN_TENSOR", 0)
        monkeypatch.setattr(tensor_observations, "_LONG_FIBER", 0)


@pytest.mark.thorough
@pytest.mark.usefixtures("in_fibers")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("case", SHAPES)
def test_rows_and_core_are_those_of_enumeration(case, biases, weighted, monkeypatch):
    if weighted:  # and in many small chunks
        monkeypatch.setattr(tensor_observations, "_CHUNK", 7)
        monkeypatch.setattr(tensor_observations, "_BLOCK", 40)
    rows, X, y = random_state(*SHAPES[case], biases=biases)
    weights = np.ones(len(rows.means[0]))
    if weighted:
        weights = np.random.default_rng(1).uniform(0.3, 3, len(weights))
        rows = replace(rows, weights=weights)
    entries = Observations.from_arrays(X, y, rows.used)
    own_weights = weights[X[:, 0]]
    for mode in range(rows.n_modes):
        found, _ = solve_mode(rows, entries, mode, n_threads=2)
        pairs = [expected(rows, at, (mode,)) for at in X]
        for r, known in enumerate(rows.means[mode]):
            here = X[:, mode] == r
            some = [
                (w, v, *p)
                for w, v, p, h in zip(own_weights, y, pairs, here, strict=True)
                if h
            ]
            gram = sum((w * two for w, _, _, two in some), np.zeros((len(known),) * 2))
            right = sum((w * v * one for w, v, one, _ in some), np.zeros(len(known)))
            row, covariance = row_by_hand(rows, mode, r, gram, right)
            assert_allclose(found.means[mode][r], row, atol=1e-9)
            fixed = rows.fixed[mode]
            assert_array_equal(found.means[mode][r, fixed], known[fixed])
            assert_allclose(covariance_of(found, mode)[r], covariance, atol=1e-9)
            if mode == 0:
                square = np.sum(gram * moment_of(found, 0, r)) - 2 * right @ row
                error = np.sum(y[here] ** 2) + square / weights[r]
                assert_allclose(found.errors[r], error)
    n_core = rows.posterior_core.mean.size
    gram, right = np.zeros((n_core, n_core)), np.zeros(n_core)
    for at, value, weight in zip(X, y, own_weights, strict=True):
        square, mean, others = np.ones((1, 1)), np.ones(1), 0.0
        for column in [None, *np.flatnonzero(rows.in_one_mode)]:
            cross = np.ones(1)
            for mode, r in enumerate(at):
                terms, second = rows.terms_of(mode), moment_of(rows, mode, r)
                if column is None:
                    square = np.kron(square, second[terms, terms])
                    mean = np.kron(mean, rows.means[mode][r, terms])
                else:
                    cross = np.kron(cross, second[terms, column])
            others = others + cross if column is not None else np.zeros(n_core)
        gram += weight * square
        right += weight * (value * mean - others)
    precision = gram / rows.noise + 2.0 * np.eye(n_core)
    prior = rows.posterior_core.prior_mean.ravel()
    for is_learned in (False, True):
        core = rows.with_core(entries, is_learned, 2).posterior_core
        mean = np.linalg.solve(precision, right / rows.noise + 2.0 * prior)
        assert_allclose(core.mean.ravel(), mean, atol=1e-9)
        (covariance,) = core.covariances
        assert_allclose(covariance, np.linalg.inv(precision), atol=1e-9)
    learned = n_core / (np.sum((mean - prior) ** 2) + np.trace(covariance))
    assert core.precision == pytest.approx(learned)


def test_a_core_in_blocks_comes_to_the_same_mean(monkeypatch):
    rows, X, y = random_state(*SHAPES["three"])
    entries = Observations.from_arrays(X, y, rows.used)
    whole = rows.with_core(entries, False).posterior_core.mean
    monkeypatch.setattr(*POINTS["block of the core"], 5)
    for _ in range(200):
        rows = rows.with_core(entries, False)
    assert len(rows.posterior_core.covariances) == 3
    assert_allclose(rows.posterior_core.mean, whole, atol=1e-8)


@pytest.mark.parametrize("case", SHAPES)
def test_sums_over_parts_add_up(case):
    rows, X, y = random_state(*SHAPES[case])
    halves = [Observations.from_arrays(X[k::2], y[k::2], rows.used) for k in range(2)]
    whole = Observations.from_arrays(X, y, rows.used)
    for mode in range(rows.n_modes):
        every = slice(0, len(rows.means[mode]))
        parts = [rows.summing(half, mode)(every) for half in halves]
        found = rows.summing(whole, mode)(every)
        for total, *some in zip(found, *parts, strict=True):
            assert_allclose(sum(some), total, atol=1e-10)
    parts = [tensor_tucker._core_sums(rows, half, 1) for half in halves]
    found = tensor_tucker._core_sums(rows, whole, 1)
    for total, *some in zip(found, *parts, strict=True):
        assert_allclose(sum(some), total, atol=1e-10)


@pytest.mark.thorough
@pytest.mark.parametrize("case", SHAPES)
def test_variance_is_that_of_enumeration(case):
    rows, X, _ = random_state(*SHAPES[case])
    variance, linear = rows.variance(X)
    for number, at in enumerate(X[:8]):
        value, square = expected(rows, at)
        assert variance[number] == pytest.approx(square - value**2)
        tangent = 0.0
        for mode, r in enumerate(at):
            own = rows.means[mode][r]
            regressors, _ = expected(rows, at, (mode,))
            covariance = moment_of(rows, mode, r) - np.outer(own, own)
            tangent += regressors @ covariance @ regressors
        assert linear[number] == pytest.approx(tangent)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("case", SHAPES)
def test_a_model_is_the_contraction_of_its_core(case, biases):
    shape, ranks, n_features = SHAPES[case]
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal(pair) for pair in zip(shape, ranks, strict=True)]
    core, features = rng.standard_normal(ranks), None
    own = [rng.standard_normal(n + 1) for n in shape] if biases else None
    terms = {"biases": own}
    if n_features:
        features = rng.standard_normal((shape[1] + 1, n_features))
        weights = rng.standard_normal((shape[0], n_features))
        terms |= {"features": features, "weights": weights}
    blocks = [*factors, core.reshape(1, -1)]
    model = TuckerForm(ranks).point_model(shape, 0.1, float, blocks, **terms)
    # The last index of every mode stands for the unknown row.
    means = [np.vstack([f, f.mean(axis=0)]) for f in factors]
    truth = mode_products(core[np.newaxis], means)[0]
    if biases:
        truth = truth + sum(np.ix_(*own))
    if n_features:
        product = np.vstack([weights, np.zeros(n_features)]) @ features.T
        truth = truth + product.reshape(*product.shape, *[1] * (len(shape) - 2))
    where = np.argwhere(np.ones(truth.shape))
    asked = np.where(where == shape, -1, where)
    assert_allclose(model.predict(asked), truth.ravel(), atol=1e-12)
    known = truth[tuple(slice(n) for n in shape)]
    assert_allclose(model.dense(), known, atol=1e-12)
    for mode in range(len(shape)):
        first = np.moveaxis(truth, mode, -1)[..., :-1]
        found = model.slices(asked, mode, model.every_row(mode))
        found = found.reshape(*truth.shape, -1)
        assert_allclose(found.take(0, mode), first, atol=1e-12)
    ten = rescaled(model, 10.0)
    assert_allclose(ten.dense(), 10 * known, atol=1e-11)
    assert ten.noise == pytest.approx(10.0)
    assert model.has_columns(TuckerForm(ranks), biases, ())
    assert not model.has_columns(TuckerForm(ranks), not biases, ())
    assert not model.has_columns(TuckerForm((*ranks, 1)), biases, ())


# --- fits ----------------------------------------------------------------------------


def largest_one(shape, ranks, share, seed):
    """A tensor of largest absolute value one."""
    truth, seen = low_rank(shape, ranks, share, seed)
    return truth / np.abs(truth).max(), seen


def entries_at(mask, tensor):
    used = [np.arange(size) for size in mask.shape]
    return Observations.from_arrays(np.argwhere(mask), tensor[mask], used)


def fitted(mask, tensor, ranks, **options):
    options = {"biases": True, "noise_floor": 0.0, "max_iter": 25, **options}
    return fit_tucker(entries_at(mask, tensor), ranks=ranks, **options)[0]


@pytest.mark.thorough
@pytest.mark.parametrize("ranks", [(3, 3, 3), (2, 2, 2)])
def test_noise_free_tensors_are_recovered_with_biases(ranks):
    for seed in range(3):
        truth, seen = largest_one((6, 8, 7), ranks, 0.85, seed)
        found = fitted(seen, truth, ranks).dense()
        gap = np.linalg.norm((found - truth)[~seen])
        assert gap < 0.01 * np.linalg.norm(truth[~seen])


@pytest.mark.thorough
def test_different_ranks_are_recovered_but_not_with_less():
    truth, seen = largest_one((12, 10, 8), (4, 3, 2), 0.9, 0)
    found = fitted(seen, truth, (4, 3, 2), biases=False).dense()
    assert np.abs(found - truth).max() < 1e-4
    found = fitted(seen, truth, (3, 3, 2), biases=False).dense()
    assert np.abs(found - truth).max() > 0.02


def test_noisy_tensors_start_at_leading_vectors(monkeypatch):
    truth, seen = largest_one((15, 15, 15), (3, 3, 3), 0.3, 0)
    noise = truth.std()
    noisy = truth + noise * np.random.default_rng(1).standard_normal(truth.shape)

    def error():
        model = fitted(seen, noisy, (3, 3, 3), noise_floor=0.9 * noise**2)
        return np.sqrt(np.mean((model.dense() - truth)[~seen] ** 2)) / noise

    from_vectors = error()
    monkeypatch.setattr(tensor_tucker, "_LARGEST_START", 0)
    assert from_vectors < min(0.6, 0.9 * error())


@pytest.mark.thorough
def test_a_smooth_mode_follows_its_neighbours():
    rng, shape = np.random.default_rng(0), (12, 10, 40)
    left, right = rng.standard_normal((12, 1, 1)), rng.standard_normal((1, 10, 1))
    truth = left * right * np.sin(np.arange(40) / 6)
    mask = rng.random(shape) < 0.2
    noisy = truth + 0.7 * rng.standard_normal(shape)
    errors = []
    for smooth_modes in ((2,), ()):
        model = fitted(mask, noisy, (1, 1, 1), smooth_modes=smooth_modes)
        assert model.has_columns(TuckerForm((1, 1, 1)), True, smooth_modes)
        errors.append(np.mean((model.dense() - truth) ** 2))
    assert errors[0] < 0.8 * errors[1]


def test_new_entries_are_taken_in():
    truth, _ = largest_one((12, 10, 8), (2, 2, 2), 1.0, 0)
    early = np.zeros(truth.shape, dtype=bool)
    early[:11] = True
    model = fitted(early[:11], truth[:11], (2, 2, 2))
    late = np.argwhere(~early)
    values = truth[tuple(late[::2].T)]
    grown = add_entries(model, late[::2], values, n_sweeps=5)
    assert_allclose(grown.predict(late[1::2]), truth[tuple(late[1::2].T)], atol=1e-3)
    # What the new entries do not touch stays as it is.
    assert_array_equal(grown.means[0][:11], model.means[0])
    assert_array_equal(grown.core, model.core)


def test_a_fit_stops_where_it_is_told_to():
    truth, seen = largest_one((6, 5, 4), (2, 2, 2), 0.9, 0)
    for last in (0, 7):
        calls = []
        _, n_iter = fit_tucker(
            entries_at(seen, truth + 0.3),
            ranks=(2, 2, 2),
            biases=False,
            noise_floor=0.1,
            max_iter=25,
            on_sweep=lambda k, last=last, calls=calls: calls.append(k) or k == last,
        )
        assert calls == list(range(last + 1))
        assert n_iter == last + 1
