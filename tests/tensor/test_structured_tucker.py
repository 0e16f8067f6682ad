"""The fit of the structured Tucker against slow references and known truths."""

import itertools

import numpy as np
import pytest

from sktensordp.tensor import (
    DenseEntries,
    SparseEntries,
    TuckerForm,
    continue_structured_tucker,
    fit_structured_tucker,
    point_tucker_model,
    update_structured_tucker,
)
from sktensordp.tensor._algebra import packed_squares
from sktensordp.tensor._priors import CORE_PRECISION
from sktensordp.tensor._tucker import TuckerColumns, core_of_squares
from sktensordp.tensor._tucker_fit import TuckerFit
from tests.support.points import POINTS
from tests.support.tensors import as_dense, fit_of, random_problem, unpacked

pytestmark = pytest.mark.thorough
OPTIONS = {"value_scale": 1.0, "noise_floor": 0.0, "max_iter": 5}
SHAPES = [((5, 7), (2, 3)), ((4, 3, 6), (2, 3, 2)), ((2, 3, 2, 4), (1, 2, 2, 2))]


def letters(n, start):
    return "".join(chr(ord(start) + k) for k in range(n))


def contracted(core, factors):
    """A Tucker by the book."""
    n = len(factors)
    ranks, sizes = letters(n, "a"), letters(n, "A")
    pairs = ",".join(s + r for s, r in zip(sizes, ranks, strict=True))
    return np.einsum(f"{ranks},{pairs}->{sizes}", core, *factors)


def everywhere(shape):
    return np.argwhere(np.ones(shape)).astype(np.int32)


def features_of(shape, n=2):
    return np.random.default_rng(5).standard_normal((shape[1] + 1, n))


def started_fit(shape, ranks, *, biases=True, n_features=2, dense=False, dtype=float):
    """A fit before its first sweep, with a posterior and a prior of no special form."""
    coordinates, values = random_problem(shape, 60)
    if dense:
        coordinates, first = np.unique(coordinates, axis=0, return_index=True)
        values = values[first]
    values = values.astype(dtype)
    entries = (as_dense if dense else SparseEntries)(coordinates, values, shape)
    columns = TuckerColumns(ranks, biases, n_features)
    features = features_of(shape, n_features) if n_features else None
    rng = np.random.default_rng(1)
    core = rng.standard_normal(ranks)
    fit = TuckerFit(entries, columns, *columns.prior((), features), core)
    fit.start_at_prior(features)
    fit.precision = [rng.uniform(0.5, 2, size) for size in columns.sizes]
    covariances = []
    for held, size, n in zip(fit.fixed, columns.sizes, shape, strict=True):
        roots = 0.5 * rng.standard_normal((n, size, size))
        roots[:, held] = 0.0
        full = roots @ roots.transpose(0, 2, 1)
        covariances.append(full[:, *np.triu_indices(size)].astype(dtype))
    fit.start(fit.means, covariances, 0.7)
    return fit, coordinates, values.astype(float)


def moments_of_entry(fit, index):
    """E[x x^T] and E[x] of the rows that an entry meets, mode by mode."""
    for mode, row in enumerate(index):
        mean = fit.means[mode][row].astype(float)
        covariance = unpacked(fit.covariances[mode][row : row + 1].astype(float))[0]
        yield np.outer(mean, mean) + covariance, mean


def expected_error(fit, coordinates, values):
    """Of all entries, by enumeration of all pairs of elements of the core."""
    total = 0.0
    core = fit.core.ravel()
    for index, value in zip(coordinates, values, strict=True):
        second, first = np.ones((1, 1)), np.ones(1)
        for moment, mean in moments_of_entry(fit, index):
            second, first = np.kron(second, moment), np.kron(first, mean)
        total += value**2 - 2 * value * first @ core + core @ second @ core
    return total


@pytest.mark.parametrize(("shape", "ranks"), SHAPES)
@pytest.mark.parametrize("biases", [True, False])
def test_model_equals_the_contraction(shape, ranks, biases):
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal(pair) for pair in zip(shape, ranks, strict=True)]
    core = rng.standard_normal(ranks)
    own = [rng.standard_normal(n + 1) for n in shape] if biases else None
    model = point_tucker_model(
        shape, 0.1, float, biases=own, factors=factors, core=core
    )
    means = [np.vstack([f, f.mean(axis=0)]) for f in factors]
    expected = contracted(core, means)
    if biases:
        expected = expected + sum(np.ix_(*own))
    where = np.stack(np.meshgrid(*[np.arange(n + 1) for n in shape], indexing="ij"), -1)
    where = where.reshape(-1, len(shape))
    # The last index of every mode stands for the unknown row.
    asked = np.where(where == shape, -1, where)
    np.testing.assert_allclose(model.predict(asked), expected.ravel(), atol=1e-12)
    known = expected[tuple(slice(n) for n in shape)]
    np.testing.assert_allclose(model.dense(), known, atol=1e-12)
    for mode in range(len(shape)):
        first = np.moveaxis(expected, mode, -1)[..., :-1]
        found = model.slices(asked, mode).reshape(*expected.shape, -1)
        np.testing.assert_allclose(found.take(0, mode), first, atol=1e-12)
    np.testing.assert_allclose(model.variance(asked), 0.0, atol=1e-12)
    assert [f.shape[0] for f in model.factors] == list(shape)


def test_a_model_of_nothing_is_zero():
    model = point_tucker_model((3, 4), 0.1, float)
    assert np.all(model.dense() == 0)
    assert np.all(model.predict(np.array([[0, -1]])) == 0)


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (3, 1, 2), (2, 2, 2, 2)])
def test_core_of_squares(sizes):
    rng = np.random.default_rng(0)
    core = rng.standard_normal(sizes)
    rows = [rng.standard_normal((1, n)) for n in sizes]
    value = contracted(core, rows)
    squares = [packed_squares(r) for r in rows]
    np.testing.assert_allclose(contracted(core_of_squares(core), squares), value**2)


@pytest.mark.parametrize(
    ("of", "biases", "n_features", "dense", "dtype"),
    [
        (0, True, 2, False, "f8"),
        (0, False, 0, True, "f4"),
        (1, True, 2, True, "f8"),
        (1, True, 0, False, "f4"),
        (2, True, 0, True, "f8"),
        (2, False, 0, False, "f4"),
    ],
)
def test_update_equals_enumeration(of, biases, n_features, dense, dtype):
    shape, ranks = SHAPES[of]
    fit, coordinates, values = started_fit(
        shape, ranks, biases=biases, n_features=n_features, dense=dense, dtype=dtype
    )
    tolerance = 1e-9 if dtype == "f8" else 2e-3
    n_modes = len(shape)
    with fit.threads(2) as pool:
        for mode in range(n_modes):
            unfolded = np.moveaxis(fit.core, mode, 0).reshape(fit.core.shape[mode], -1)
            size, free = len(unfolded), np.flatnonzero(~fit.fixed[mode])
            grams = np.zeros((shape[mode], size, size))
            rights = np.zeros((shape[mode], size))
            for index, value in zip(coordinates, values, strict=True):
                second, first = np.ones((1, 1)), np.ones(1)
                for k, (moment, mean) in enumerate(moments_of_entry(fit, index)):
                    if k != mode:
                        second, first = np.kron(second, moment), np.kron(first, mean)
                grams[index[mode]] += unfolded @ second @ unfolded.T
                rights[index[mode]] += value * unfolded @ first
            before = fit.means[mode].astype(float)
            own = fit.precision[mode][free]
            error, cross = fit.update(mode, pool, 2)
            assert cross is None
            for row, (gram, right) in enumerate(zip(grams, rights, strict=True)):
                fixed = np.setdiff1d(np.arange(size), free)
                precision = gram[np.ix_(free, free)] / fit.noise + np.diag(own)
                shift = right[free] - gram[np.ix_(free, fixed)] @ before[row, fixed]
                shift = shift / fit.noise + own * fit.prior_mean[mode][free]
                covariance = unpacked(fit.covariances[mode][row : row + 1])[0]
                posterior = np.linalg.inv(precision)
                np.testing.assert_allclose(
                    fit.means[mode][row, free], posterior @ shift, atol=tolerance
                )
                np.testing.assert_allclose(
                    covariance[np.ix_(free, free)], posterior, atol=tolerance
                )
                held = fit.means[mode][row, fixed]
                np.testing.assert_array_equal(held, before[row, fixed])
            expected = expected_error(fit, coordinates, values)
            assert error == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize(
    ("block", "dense"),
    [(1000, False), pytest.param(3, True, marks=pytest.mark.slow)],
)
def test_core_minimises_the_expected_error(dense, block, monkeypatch):
    monkeypatch.setattr(*POINTS["block of the core"], block)
    fit, coordinates, values = started_fit((4, 3, 6), (2, 3, 2), dense=dense)

    def cost(core):
        fit._set_core(core)
        penalty = CORE_PRECISION * np.sum((core - fit.core_mean) ** 2)
        return expected_error(fit, coordinates, values) / fit.noise + penalty

    before = fit.core[fit.columns.free_core].copy()
    with fit.threads(2) as pool:
        for _ in range(1 if block == 1000 else 200):
            error = fit.update_core(pool, 2)
    assert error == pytest.approx(expected_error(fit, coordinates, values), rel=1e-9)
    found = fit.core[fit.columns.free_core].copy()
    least = cost(found)
    assert least < cost(before)
    for position in np.ndindex(found.shape):
        for step in (-1e-3, 1e-3):
            moved = found.copy()
            moved[position] += step
            assert cost(moved) > least


def negative_bound(fit, coordinates, values):
    """What the updates of rows and core decrease, while noise and prior are fixed."""
    total = expected_error(fit, coordinates, values) / fit.noise
    change = fit.core[fit.columns.free_core] - fit.core_mean
    total += CORE_PRECISION * np.sum(change**2)
    for mode, held in enumerate(fit.fixed):
        free = np.flatnonzero(~held)
        own = fit.precision[mode][free]
        away = fit.means[mode][:, free] - fit.prior_mean[mode][free]
        covariances = unpacked(fit.covariances[mode])[:, free[:, None], free]
        total += np.sum(own * away**2)
        total += np.sum(own * np.einsum("raa->ra", covariances))
        total -= np.linalg.slogdet(covariances)[1].sum()
    return total


def test_every_update_increases_the_bound():
    fit, coordinates, values = started_fit((4, 3, 6), (2, 3, 2))
    last = negative_bound(fit, coordinates, values)
    with fit.threads(1) as pool:
        for _ in range(3):
            for update in (0, 1, 2, None):
                if update is None:
                    fit.update_core(pool, 1)
                else:
                    fit.update(update, pool, 1)
                now = negative_bound(fit, coordinates, values)
                assert now < last
                last = now


def test_variance_equals_enumeration():
    fit, coordinates, _ = started_fit((4, 3, 6), (2, 3, 2))
    model = fit.model(1.0)
    variance, linear = model.variance(coordinates)
    core = fit.core.ravel()
    for number, index in enumerate(coordinates):
        rows = list(moments_of_entry(fit, index))
        second, first = np.ones((1, 1)), np.ones(1)
        for moment, mean in rows:
            second, first = np.kron(second, moment), np.kron(first, mean)
        expected = core @ second @ core - (first @ core) ** 2
        assert variance[number] == pytest.approx(expected, rel=1e-9)
        tangent = 0.0
        for mode, (moment, mean) in enumerate(rows):
            parts = [m[np.newaxis] for _, m in rows]
            parts[mode] = np.eye(len(mean))
            regressors = contracted(fit.core, parts).ravel()
            tangent += regressors @ (moment - np.outer(mean, mean)) @ regressors
        assert linear[number] == pytest.approx(tangent, rel=1e-9)


def test_variance_of_an_unknown_row_is_that_of_the_prior():
    entries = SparseEntries(*random_problem((4, 5), 60), (4, 5))
    model, _ = fit_structured_tucker(entries, ranks=(0, 0), biases=True, **OPTIONS)
    variance, _ = model.variance(np.array([[-1, 2]]))
    known = unpacked(model.covariances[1])[2, 1, 1]
    assert variance[0] == pytest.approx(1 / model.precision[0][1] + known)


@pytest.mark.parametrize(
    ("superdiagonal", "biases", "fraction"),
    [(False, True, 0.5), pytest.param(True, False, 1.0, marks=pytest.mark.slow)],
)
def test_noise_free_tensors_are_reproduced(fraction, biases, superdiagonal):
    rng = np.random.default_rng(3)
    shape, ranks = (20, 20, 20), (3, 3, 3)
    core = rng.standard_normal(ranks)
    if superdiagonal:
        core = np.zeros(ranks)
        core[range(3), range(3), range(3)] = 1.0
    tensor = contracted(core, [rng.standard_normal((n, 3)) for n in shape])
    if biases:
        tensor += sum(np.ix_(*[rng.standard_normal(n) for n in shape]))
    tensor /= np.abs(tensor).max()
    coordinates = everywhere(shape)
    coordinates = coordinates[rng.random(len(coordinates)) < fraction]
    values = tensor[tuple(coordinates.T)]
    options = {**OPTIONS, "max_iter": 100, "ranks": ranks, "biases": biases}
    model, _ = fit_structured_tucker(
        SparseEntries(coordinates, values, shape), **options
    )
    error = np.linalg.norm(model.dense() - tensor) / np.linalg.norm(tensor)
    assert error < 1e-6


def test_different_ranks_are_reproduced():
    rng = np.random.default_rng(4)
    shape, ranks = (12, 10, 8), (4, 3, 2)
    factors = [rng.standard_normal(pair) for pair in zip(shape, ranks, strict=True)]
    tensor = contracted(rng.standard_normal(ranks), factors)
    entries = DenseEntries(tensor, np.ones(shape, dtype=bool))
    options = {**OPTIONS, "max_iter": 100, "biases": False}
    model, _ = fit_structured_tucker(entries, ranks=ranks, **options)
    np.testing.assert_allclose(model.dense(), tensor, atol=1e-5)
    # Not by chance: with a column less in one mode it is not.
    model, _ = fit_structured_tucker(entries, ranks=(3, 3, 2), **options)
    assert np.abs(model.dense() - tensor).max() > 0.1


def test_a_matrix_is_fitted_as_well_as_by_a_cp():
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((2, 40, 3))
    tensor = left @ right.T
    mask = rng.random(tensor.shape) < 0.5
    noisy = np.where(mask, tensor + rng.standard_normal(tensor.shape), 0.0)
    entries = DenseEntries(noisy, mask)
    options = {**OPTIONS, "max_iter": 40, "biases": True}
    tucker, _ = fit_structured_tucker(entries, ranks=(3, 3), **options)
    where = np.argwhere(mask)
    cp, _ = fit_of(where, noisy[mask], mask.shape, rank=3)
    errors = [np.mean((m.dense() - tensor)[~mask] ** 2) for m in (tucker, cp)]
    assert errors[0] < 1.1 * errors[1] < 0.5 * np.var(tensor)


@pytest.mark.parametrize("ranks", [(2, 3, 2), (0, 0, 0)])
def test_an_array_equals_coordinates(ranks):
    shape = (6, 5, 4)
    coordinates = everywhere(shape)[::2]
    values = np.random.default_rng(0).standard_normal(len(coordinates))
    features = features_of(shape)
    models = [
        fit_structured_tucker(
            entries, ranks=ranks, biases=True, features=features, n_threads=n_threads,
            smooth_modes=(2,), **OPTIONS,
        )[0]
        for entries, n_threads in (
            (SparseEntries(coordinates, values, shape), 1),
            (SparseEntries(coordinates, values, shape), 2),
            (as_dense(coordinates, values, shape), 1),
        )
    ]  # fmt: skip
    for model in models[1:]:
        np.testing.assert_allclose(model.dense(), models[0].dense(), atol=1e-9)
        assert model.noise_variance == pytest.approx(models[0].noise_variance)


def test_ties_make_neighbours_alike():
    rng = np.random.default_rng(0)
    shape = (40, 30)
    slow = np.sin(np.arange(40) / 6)
    tensor = slow[:, np.newaxis] + np.zeros(shape)
    mask = rng.random(shape) < 0.1
    entries = DenseEntries(np.where(mask, tensor + rng.standard_normal(shape), 0), mask)
    errors = []
    for smooth_modes in ((0,), ()):
        model, _ = fit_structured_tucker(
            entries, ranks=(0, 0), biases=True, smooth_modes=smooth_modes,
            **{**OPTIONS, "max_iter": 20},
        )  # fmt: skip
        assert model.has_columns(TuckerForm((0, 0)), True, smooth_modes)
        errors.append(np.mean((model.dense() - tensor) ** 2))
    assert errors[0] < 0.6 * errors[1]


def test_scale_of_the_values():
    shape = (5, 6, 4)
    coordinates, values = random_problem(shape, 100)
    options = {"ranks": (2, 2, 1), "biases": True, "features": features_of(shape)}
    one, _ = fit_structured_tucker(
        SparseEntries(coordinates, values, shape), **options, **OPTIONS
    )
    ten, _ = fit_structured_tucker(
        SparseEntries(coordinates, values, shape), **options,
        **{**OPTIONS, "value_scale": 10.0},
    )  # fmt: skip
    np.testing.assert_allclose(ten.dense(), 10 * one.dense())
    for found, expected in zip(
        ten.variance(coordinates), one.variance(coordinates), strict=True
    ):
        np.testing.assert_allclose(found, 100 * expected)
    assert ten.noise_variance == pytest.approx(100 * one.noise_variance)


@pytest.mark.slow
def test_going_on_changes_little_at_the_fixed_point():
    shape = (8, 6, 5)
    entries = SparseEntries(*random_problem(shape, 400), shape)
    model, _ = fit_structured_tucker(
        entries, ranks=(2, 2, 2), biases=True, **{**OPTIONS, "max_iter": 300}
    )
    further = continue_structured_tucker(model, entries, max_iter=3)
    np.testing.assert_allclose(further.dense(), model.dense(), atol=1e-3)
    moved = continue_structured_tucker(
        model, SparseEntries(*random_problem(shape, 400, seed=1), shape), max_iter=3
    )
    assert np.abs(moved.dense() - model.dense()).max() > 1e-2


def test_new_observations_are_taken_in():
    rng = np.random.default_rng(0)
    shape, ranks = (12, 10, 8), (2, 2, 2)
    factors = [rng.standard_normal(pair) for pair in zip(shape, ranks, strict=True)]
    tensor = contracted(rng.standard_normal(ranks), factors)
    coordinates = everywhere(shape)
    early = coordinates[coordinates[:, 0] < 11]
    values = tensor[tuple(early.T)]
    model, _ = fit_structured_tucker(
        SparseEntries(early, values, (11, 10, 8)), ranks=ranks, biases=True,
        **{**OPTIONS, "max_iter": 60},
    )  # fmt: skip
    late = coordinates[coordinates[:, 0] == 11]
    shown, hidden = late[::2], late[1::2]
    grown = update_structured_tucker(model, shown, tensor[tuple(shown.T)], max_iter=5)
    assert grown.shape == shape
    found = grown.predict(hidden)
    np.testing.assert_allclose(found, tensor[tuple(hidden.T)], atol=1e-3)
    # What the new entries do not touch stays as it is.
    np.testing.assert_array_equal(grown.means[0][:11], model.means[0][:11])
    np.testing.assert_array_equal(grown.core, model.core)


def test_two_updates_give_the_posterior_of_all():
    """Of biases of one mode, whose posterior is exact."""
    shape = (3, 1)
    coordinates = np.zeros((40, 2), dtype=np.int32)
    coordinates[:, 0] = np.arange(40) % 3
    values = np.random.default_rng(0).standard_normal(40)
    model = point_tucker_model(shape, 0.5, float, biases=[np.zeros(4), np.zeros(2)])
    # Of the biases with themselves; those of the second mode are known to be zero.
    model.covariances[0][:, 2], model.covariances[1][:, 2] = 2.0, 1e-12
    for part in (slice(20), slice(20, None)):
        model = update_structured_tucker(
            model, coordinates[part], values[part], max_iter=1
        )
    for row in range(3):
        own = values[coordinates[:, 0] == row]
        precision = 1 / 2.0 + len(own) / 0.5
        assert model.covariances[0][row, 2] == pytest.approx(1 / precision, rel=1e-6)
        expected = own.sum() / 0.5 / precision
        assert model.means[0][row, 1] == pytest.approx(expected, rel=1e-6)


def test_has_columns():
    shape = (6, 5, 4)
    entries = SparseEntries(*random_problem(shape, 100), shape)
    model, _ = fit_structured_tucker(
        entries, ranks=(2, 3, 2), biases=True, smooth_modes=(2,), **OPTIONS
    )
    asked = itertools.product([(2, 3, 2), (2, 2, 2)], [True, False], [(2,), (0,), ()])
    found = [options for options in asked if model.has_columns(
        TuckerForm(options[0]), *options[1:]
    )]  # fmt: skip
    assert found == [((2, 3, 2), True, (2,))]
