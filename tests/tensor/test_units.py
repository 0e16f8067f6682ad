"""Kernels over units, entries by unit, and what noisy sums say of rows and counts.

Everything is compared with plain NumPy, one unit or row at a time. What is computed for
a unit is the same to the last bit whoever else is there.
"""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.measure import BoundedSums
from tests.support.points import POINTS
from tests.support.seams import (
    BlockTotals,
    UnitEntries,
    biases_from_sums,
    drifted,
    expected_counts,
    moments_of,
    row_information,
    rows_from_information,
    rows_of_units,
)

# Entries of the units, around the widths of vector instructions; one has very many.
SIZES = [1, 2, 3, 5, 8, 17, 600]
N_ROWS = 9


def starts_of(sizes):
    return np.cumsum([0, *sizes])


def regression(n_columns, sizes=SIZES, seed=0):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    regressors = (
        rng.standard_normal((n, n_columns))
        * 10.0 ** rng.integers(-2, 2, n)[:, np.newaxis]
    )
    precision = rng.uniform(0.1, 30, n_columns)
    return starts_of(sizes), regressors, rng.standard_normal(n), precision


def solved(starts, regressors, targets, noise, precision, n_last):
    found = rows_of_units(
        entries_of(np.diff(starts)), regressors, targets,
        np.broadcast_to(noise, len(targets)), precision, n_last,
    )  # fmt: skip
    return tuple(vars(found).values())


def by_unit(starts):
    return [slice(*pair) for pair in itertools.pairwise(np.asarray(starts).tolist())]


# --- rows of units -------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("noise", [1e-3, 0.2, 7.0, "its own"])
@pytest.mark.parametrize(("n_columns", "n_last"), [(1, 0), (1, 1), (4, 2), (6, 6)])
def test_rows_of_units_are_ridge_regressions(n_columns, n_last, noise):
    starts, regressors, targets, precision = regression(n_columns)
    if noise == "its own":
        noise = np.random.default_rng(2).uniform(0.1, 2, len(targets))
    noise = np.broadcast_to(noise, len(targets))
    found = solved(starts, regressors, targets, noise, precision, n_last)
    rows, known, residuals, leverages, held_out = found
    for unit, part in enumerate(by_unit(starts)):
        own, target, weights = regressors[part], targets[part], 1 / noise[part]
        covariance = np.linalg.inv(np.diag(precision) + (own.T * weights) @ own)
        row = covariance @ own.T @ (weights * target)
        assert_allclose(rows[unit], row, rtol=1e-6, atol=1e-9)
        expected = 1 - np.diag(covariance) * precision
        assert_allclose(known[unit], expected, rtol=1e-6, atol=1e-9)
        assert_allclose(residuals[part], target - own @ row, rtol=1e-6, atol=1e-8)
        hat = np.diag(own @ covariance @ own.T) * weights
        assert_allclose(leverages[part], hat, rtol=1e-6, atol=1e-9)
        # Without each entry, fitted anew; unless little is left without it.
        for e in np.flatnonzero(hat < 1 - 1e-6)[:20]:
            rest = np.arange(len(target)) != e
            without = np.diag(precision) + (own[rest].T * weights[rest]) @ own[rest]
            others = np.linalg.solve(without, own[rest].T @ (weights * target)[rest])
            found = held_out[part][e]
            assert_allclose(found, others[n_columns - n_last :], rtol=1e-4, atol=1e-6)


def test_singular_regressors_leave_finite_rows():
    """A unit with a million-fold copies of one entry, far from any prior."""
    regressors = np.full((1000, 2), 1e6)
    found = solved(
        np.array([0, 1000]), regressors, np.ones(1000), 1e-6, np.full(2, 1e-3), 2
    )
    assert all(np.all(np.isfinite(part)) for part in found)


ORDERS = {
    "alone": lambda n: [[k] for k in range(n)],
    "reversed": lambda n: [range(n)[::-1]],
    "rotated": lambda n: [[*range(k, n), *range(k)] for k in range(n)],
    "one is not there": lambda n: [[j for j in range(n) if j != k] for k in range(n)],
    "in several stacks": lambda n: [[*range(n)] * 20],
}


@pytest.mark.parametrize("order", [*ORDERS])
@pytest.mark.parametrize("n_columns", [1, 3, 9])
def test_a_unit_is_solved_the_same_whoever_else_is_there(n_columns, order):
    starts, regressors, targets, precision = regression(n_columns)
    whole = solved(starts, regressors, targets, 0.3, precision, n_columns - 1)
    for chosen in ORDERS[order](len(SIZES)):
        at = np.concatenate([np.arange(starts[k], starts[k + 1]) for k in chosen])
        part = solved(
            starts_of([SIZES[k] for k in chosen]), regressors[at], targets[at], 0.3,
            precision, n_columns - 1,
        )  # fmt: skip
        places = [list(chosen), list(chosen), at, at, at]
        for one, other, place in zip(part, whole, places, strict=True):
            assert_array_equal(one, other[place])


def entries_of(sizes):
    """Entries of units of these sizes, one a row."""
    n = sum(sizes)
    units = np.repeat(np.arange(len(sizes)), sizes)
    return UnitEntries(np.column_stack([units, np.arange(n)]), np.zeros(n))


@pytest.mark.parametrize(("n_columns", "n_last"), [(1, 0), (3, 0), (7, 3), (13, 10)])
def test_two_hundred_ranges_of_units_get_the_bits_that_they_get_among_all(
    n_columns, n_last
):
    """Rows, moments and bounded sums: of some units alone, and of 400 units."""
    rng = np.random.default_rng(n_columns)
    sizes = rng.integers(1, 90, 400)
    starts, n = starts_of(sizes), sizes.sum()
    regressors, targets = rng.standard_normal((n, n_columns)), rng.standard_normal(n)
    noise, precision = rng.uniform(0.1, 0.4, n), rng.uniform(0.5, 2, n_columns)
    index = rng.integers(0, N_ROWS, n)

    def results(first, last):
        units, part = slice(first, last), slice(starts[first], starts[last])
        entries = entries_of(sizes[units])
        found = rows_of_units(
            entries, regressors[part].copy(), targets[part].copy(),
            noise[part].copy(), precision, n_last,
        )  # fmt: skip
        order = np.lexsort((index[part], entries.numbers))
        own, sums = regressors[part].copy(), np.zeros((N_ROWS, n_columns))
        kind = BoundedSums(sums.shape, 3.0, 0.81, 2.0**-30)
        kind.add(sums, entries.starts, order, index[part], own)
        of_units = found.rows, found.explained, moments_of(entries, found)
        of_entries = found.residuals, found.leverages, found.held_out
        return of_units, of_entries, sums

    of_units, of_entries, _ = results(0, len(sizes))
    for _ in range(200):
        first = int(rng.integers(len(sizes)))
        last = min(first + int(rng.integers(1, 4)), len(sizes))
        units, part = slice(first, last), slice(starts[first], starts[last])
        alone_of_units, alone_of_entries, sums = results(first, last)
        for alone, among_all in zip(alone_of_units, of_units, strict=True):
            assert_array_equal(alone, among_all[units])
        for alone, among_all in zip(alone_of_entries, of_entries, strict=True):
            assert_array_equal(alone, among_all[part])
        one_by_one = [results(unit, unit + 1)[2] for unit in range(first, last)]
        assert_array_equal(sums, sum(one_by_one))


@pytest.mark.parametrize("n_factors", [0, 1, 4])
def test_moments_of_units_are_means_over_their_entries(n_factors):
    rng = np.random.default_rng(3)
    n, upper = sum(SIZES), np.triu_indices(n_factors + 1)
    weights, factors = rng.uniform(0, 1, n), rng.standard_normal((n, n_factors))
    solved = SimpleNamespace(leverages=1 - weights, held_out=factors)
    found = moments_of(entries_of(SIZES), solved)
    for unit, part in enumerate(by_unit(starts_of(SIZES))):
        own = np.insert(factors[part], 0, 1.0, axis=1)
        expected = (own.T * weights[part]) @ own / weights[part].sum()
        assert_allclose(found[unit], expected[upper], rtol=1e-9, atol=1e-12)
    # Of no weight at all: nothing.
    solved.leverages = np.ones(n)
    assert_array_equal(moments_of(entries_of(SIZES), solved), 0)


@pytest.mark.parametrize("n_groups", [0, 1, 3])
def test_totals_are_read_where_units_put_them(n_groups):
    rng = np.random.default_rng(4)
    of_units = BlockTotals(
        *rng.standard_normal((3, 5)),
        *rng.standard_normal((2, 5, n_groups)),
        moments=rng.standard_normal((5, 6)),
    )
    found = BlockTotals.of_vector(of_units.vectors.sum(axis=0), n_groups)
    for name, own in vars(of_units).items():
        assert_allclose(getattr(found, name), own.sum(axis=0), err_msg=name)
    a, b, c, d, e, f = found.moments
    assert_array_equal(found.moment, [[a, b, c], [b, d, e], [c, e, f]])


# --- sums of vectors of bounded length -----------------------------------------------


def contributed(n_columns, seed=0, scale=1.0):
    """Entries sorted by unit, their rows, and what they contribute."""
    rng = np.random.default_rng(seed)
    n = sum(SIZES)
    index = rng.integers(0, N_ROWS, n)
    numbers = np.repeat(np.arange(len(SIZES)), SIZES)
    order = np.lexsort((index, numbers))
    own = scale * rng.standard_normal((n, n_columns))
    return SimpleNamespace(
        starts=starts_of(SIZES), order=order, index=index, own=own, numbers=numbers
    )


def summed(of, bound, share, step, sums=None):
    found = np.zeros((N_ROWS, of.own.shape[1])) if sums is None else sums
    sums = BoundedSums(found.shape, bound, share**2, step)
    data = of.starts, of.order, of.index, of.own
    sums.add(found, *data)
    _, lengths = sums._weighed(*data)
    assert np.all(lengths * (step or 1) <= share * (1 + 1e-12))
    return found, lengths


def only(of, units):
    """The same with some of the units, in this order."""
    at = np.concatenate([np.flatnonzero(of.numbers == unit) for unit in units])
    numbers = np.repeat(np.arange(len(units)), [SIZES[unit] for unit in units])
    return SimpleNamespace(
        starts=starts_of([SIZES[unit] for unit in units]),
        order=np.lexsort((of.index[at], numbers)), index=of.index[at],
        own=of.own[at], numbers=numbers,
    )  # fmt: skip


def vectors_of(of):
    """The vector of every unit: the sum of its contributions by row."""
    vectors = np.zeros((len(of.starts) - 1, N_ROWS, of.own.shape[1]))
    np.add.at(vectors, (of.numbers, of.index), of.own)
    return vectors


@pytest.mark.parametrize("share", [0.2, 1.0])
@pytest.mark.parametrize("bound", [0.5, 6.0, 1e3])
@pytest.mark.parametrize("n_columns", [1, 3])
def test_vectors_are_scaled_down_to_the_bound(n_columns, bound, share):
    of = contributed(n_columns)
    found, of_units = summed(of, bound, share, 0.0)
    vectors = vectors_of(of)
    lengths = np.sqrt(np.sum(vectors**2, axis=(1, 2)))
    expected = np.minimum(1, bound / lengths)
    assert_allclose(of_units, expected * share / bound * lengths, rtol=1e-12)
    expected = np.tensordot(expected * share / bound, vectors, 1)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    # What was there is added to.
    again, _ = summed(of, bound, share, 0.0, sums=found.copy())
    assert_allclose(again, 2 * found, rtol=1e-12)


@pytest.mark.parametrize("bound", [0.01, 6.0])
@pytest.mark.parametrize("step", [2.0**-30, 2.0**-10, 0.06])
@pytest.mark.parametrize("n_columns", [1, 3])
def test_whole_steps_are_never_longer(n_columns, step, bound):
    of, share = contributed(n_columns), 0.7
    every = vectors_of(of)
    for unit in range(len(SIZES)):
        steps, _ = summed(only(of, [unit]), bound, share, step)
        exact, _ = summed(only(of, [unit]), bound, share, 0.0)
        assert_array_equal(steps, np.rint(steps))
        # Towards zero, by less than a step.
        assert np.all(np.abs(steps) * step <= np.abs(exact) * (1 + 1e-12))
        assert np.all(np.abs(steps * step - exact) < step * (1 + 1e-9))
        assert np.all(steps * every[unit] >= 0)
        assert np.linalg.norm(steps) * step <= share * (1 + 1e-12)


@pytest.mark.parametrize("order", [*ORDERS])
@pytest.mark.parametrize("n_columns", [1, 5])
def test_sums_of_whole_steps_are_those_of_the_units_to_the_last_bit(n_columns, order):
    of, step = contributed(n_columns), 2.0**-24
    alone = [summed(only(of, [unit]), 2.0, 1.0, step) for unit in range(len(SIZES))]
    for chosen in ORDERS[order](len(SIZES)):
        found, lengths = summed(only(of, chosen), 2.0, 1.0, step)
        assert_array_equal(found, sum(alone[unit][0] for unit in chosen))
        assert_array_equal(lengths, np.concatenate([alone[unit][1] for unit in chosen]))


def test_entries_of_a_row_are_one_number_of_the_vector():
    """A unit with ten entries of one row is as long as their sum, not as their norm."""
    ten = SimpleNamespace(
        starts=np.array([0, 10]), order=np.arange(10), index=np.zeros(10, dtype=int),
        own=np.ones((10, 1)),
    )  # fmt: skip
    found, lengths = summed(ten, 2.0, 1.0, 0.0)
    assert found[0, 0] == pytest.approx(1.0, rel=1e-15)
    assert lengths[0] == pytest.approx(1.0, rel=1e-15)


def test_numbers_in_single_precision_are_bounded_in_double_precision():
    of, n = contributed(1), sum(SIZES)
    of.own = of.own.astype(np.float32)
    # Every entry is in a row of its own.
    of.index, of.order = np.arange(n), np.arange(n)
    single, double = (
        summed(
            SimpleNamespace(**vars(of) | {"own": of.own.astype(dtype)}),
            0.5, 1.0, 2.0**-30, sums=np.zeros((n, 1)),
        )
        for dtype in (np.float32, np.float64)
    )  # fmt: skip
    for one, other in zip(single, double, strict=True):
        assert_array_equal(one, other)


def test_vectors_of_length_nothing():
    of = contributed(2, scale=0.0)
    found, lengths = summed(of, 1.0, 1.0, 2.0**-20)
    assert_array_equal(found, 0)
    assert_array_equal(lengths, 0)


@pytest.mark.parametrize("n_columns", [1, 4])
def test_unit_sums(n_columns):
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((sum(SIZES), n_columns))
    found = entries_of(SIZES).sums(numbers)
    for unit, part in enumerate(by_unit(starts_of(SIZES))):
        assert_allclose(found[unit], numbers[part].sum(axis=0), rtol=1e-11, atol=1e-12)
        alone = entries_of([SIZES[unit]]).sums(numbers[part].copy())
        assert_array_equal(alone[0], found[unit])


# --- entries by unit -----------------------------------------------------------------


def entries(n=500, n_modes=3, seed=0):
    rng = np.random.default_rng(seed)
    where = rng.integers(0, [40, 7, 4][:n_modes], (n, n_modes)).astype(np.int32)
    # One unit has very many, and its coordinates recur.
    where[: n // 3, 0] = 11
    rng.shuffle(where)
    return np.asfortranarray(where), rng.standard_normal(n)


@pytest.mark.parametrize("n_modes", [2, 3])
def test_entries_are_sorted_by_unit_and_by_row(n_modes):
    where, values = entries(n_modes=n_modes)
    found = UnitEntries(where, values)
    assert_array_equal(found.units, np.unique(where[:, 0]))
    assert_array_equal(found.sizes, np.bincount(where[:, 0])[found.units])
    assert_array_equal(found.units[found.numbers], np.sort(where[:, 0]))
    for unit, part in zip(found.units, by_unit(found.starts), strict=True):
        # In the order of coordinates, and of values where these recur.
        own = where[:, 0] == unit
        rows = zip(where[own, 1:].tolist(), values[own].tolist(), strict=True)
        others, sorted_values = zip(*sorted(rows), strict=True)
        assert_array_equal(found.others[part], others)
        assert_array_equal(found.values[part], sorted_values)
        for rows, order in zip(found.others.T, found.orders, strict=True):
            at = order[part]
            assert_array_equal(np.sort(at), np.arange(part.start, part.stop))
            assert np.all(np.diff(rows[at]) >= 0)
            same = np.diff(rows[at]) == 0
            assert np.all(np.diff(at)[same] > 0)


@pytest.mark.parametrize("n_modes", [2, 3])
@pytest.mark.parametrize("n_bits", [0, 64, 65])
def test_numbers_of_levels_stand_for_their_values(n_modes, n_bits):
    """Sorted as one integer, or column by column if that has too many bits."""
    where, _ = entries(n_modes=n_modes)
    n_others = 2 + sum(int(rows.max()).bit_length() for rows in where.T[1:])
    first = 2 ** (n_bits - n_others - 1) if n_bits else 0
    where = where.astype(np.int64) + np.array([first] + [0] * (n_modes - 1))
    levels = np.array([-1.0, -0.25, 0.5, 1.0])
    numbers = np.random.default_rng(4).integers(0, 4, len(where)).astype(np.uint8)
    found = UnitEntries(where, numbers, levels)
    expected = UnitEntries(where, levels[numbers])
    some = first + np.array([3, 11, 39])
    for one, other in (
        (found, expected),
        (found.only_of(some), expected.only_of(some)),
    ):
        for name in ("units", "starts", "others", "values", "orders"):
            assert_array_equal(getattr(one, name), getattr(other, name))
    assert_array_equal(found.only_of(some).units, some)
    assert found.__sizeof__() < expected.__sizeof__()


@pytest.mark.parametrize("chunk", [1, 7, 60, 499, 10_000])
def test_chunks_are_parts_of_whole_units(chunk, monkeypatch):
    found = UnitEntries(*entries())
    monkeypatch.setattr(*POINTS["chunk of entries"], chunk)
    parts = list(found.chunks())
    for name in ("units", "others", "values", "sizes"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        assert_array_equal(joined, getattr(found, name))
    first = np.cumsum([0, *(len(part.values) for part in parts)])
    for mode, order in enumerate(found.orders):
        joined = [p.orders[mode] + f for p, f in zip(parts, first[:-1], strict=True)]
        assert_array_equal(np.concatenate(joined), order)
    for part in parts:
        assert part.starts[0] == 0
        assert part.starts[-1] == len(part.values) == len(part.numbers)
        # No larger than asked for, unless it is a single unit.
        assert len(part.values) <= chunk or len(part.units) == 1
    assert (len(parts) > 1) == (chunk < 500)


# --- counts --------------------------------------------------------------------------


def test_counts_without_noise_are_themselves():
    counts = np.array([0.0, 1e-9, 3.0, 1e5])
    assert_array_equal(expected_counts(counts, 0.0), counts)
    assert_allclose(expected_counts(counts, 1e-3), counts, atol=5e-3, rtol=1e-2)


@pytest.mark.parametrize("noise", [0.3, 3.0, 300.0])
def test_counts_of_noise_alone(noise):
    """Nothing but noise, as where nobody has a row, is known to be next to nothing."""
    noisy = noise * np.random.default_rng(0).standard_normal(500)
    found = expected_counts(noisy, noise)
    assert np.all(found >= 0)
    assert np.all(np.isfinite(found))
    assert np.sqrt(np.mean(found**2)) < 0.5 * noise
    # None at all above the noise, and far below zero.
    for extreme in (np.full(4, -1e6 * noise), np.zeros(3), np.array([-noise])):
        found = expected_counts(extreme, noise)
        assert np.all(np.isfinite(found))
        assert np.all((found >= 0) & (found <= 4 * noise))


def popularity(noise):
    """Counts by a power law, and the same with noise."""
    rng = np.random.default_rng(0)
    counts = rng.permutation(200 * (1 + np.arange(2000.0)) ** -0.8)
    return counts, counts + noise * rng.standard_normal(2000)


# With levels of other sizes than the noise, twice these shares.
@pytest.mark.parametrize(("noise", "share"), [(3.0, 0.4), (20.0, 0.08)])
def test_counts_are_better_than_clipping_at_zero(noise, share):
    counts, noisy = popularity(noise)
    found = expected_counts(noisy, noise)
    assert np.all(found >= 0)
    error = np.mean((found - counts) ** 2)
    assert error < share * np.mean((np.maximum(noisy, 0) - counts) ** 2)
    # A larger noisy count is never thought smaller.
    order = np.argsort(noisy)
    assert np.all(np.diff(found[order]) >= -1e-9 * found.max())


@pytest.mark.parametrize("noise", [0.01, 0.5, 3.0])
def test_counts_that_are_known_well_stay_what_they_are(noise):
    """Far above the noise a count is not moved by more than some of the noise."""
    counts, noisy = popularity(noise)
    found = expected_counts(noisy, noise)
    assert np.max(np.abs(found - noisy)[noisy > 10 * noise]) < 3 * noise
    clipped = np.mean((np.maximum(noisy, 0) - counts) ** 2)
    assert np.mean((found - counts) ** 2) < 1.02 * clipped


# --- rows from sums ------------------------------------------------------------------


def bias_example(n=400, *, variance=0.05, noise=1.0, seed=0, slope=(0.1, 0.05)):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 20, n)
    explaining = np.column_stack([np.ones(n), rng.standard_normal(n)])
    truth = explaining @ slope + math.sqrt(variance) * rng.standard_normal(n)
    noise = np.full(n, noise)
    sums = weights * truth + np.sqrt(noise) * rng.standard_normal(n)
    return sums, weights, noise, explaining, truth


def biases_of(sums, weights, noise, explaining):
    """Rows with entries are known, and so are their counts."""
    unknown = np.equal(weights, 0).astype(float)
    return biases_from_sums(sums, weights, noise, explaining, explaining, unknown)


def test_biases_are_posterior_means_given_what_was_learned():
    sums, weights, noise, explaining, _ = bias_example()
    found = biases_of(sums, weights, noise, explaining)
    prior = 1 / (1 / found.variances - weights**2 / noise)
    assert_allclose(prior, found.spread, rtol=1e-8)
    # By generalised least squares. The coefficients are averaged over all variances
    # that were tried, and hardly depend on them.
    total = noise + weights**2 * prior
    design = explaining * weights[:, np.newaxis]
    precision = design.T @ np.diag(1 / total) @ design + 200 * np.eye(2)
    coefficients = np.linalg.solve(precision, design.T @ (sums / total))
    assert found.centre == pytest.approx(weights @ found.means / weights.sum())
    around = explaining @ coefficients
    expected = around + found.variances * weights / noise * (sums - weights * around)
    assert_allclose(found.means, expected, atol=0.002)


def test_biases_with_much_and_with_no_information():
    sums, weights, noise, explaining, _ = bias_example()
    found = biases_of(sums, weights, 1e-9 * noise, explaining)
    assert_allclose(found.means, sums / weights, atol=1e-5)
    assert np.all(found.variances < 1e-7)
    found = biases_of(sums, weights, 1e12 * noise, explaining)
    assert_allclose(found.means, 0, atol=1e-3)
    assert abs(found.centre) < 1e-3
    # All variances that are tried are equally likely.
    assert found.spread == pytest.approx(math.sqrt(0.0005 * 0.25), rel=0.1)
    # A row without entries is what explains it.
    weights[0] = sums[0] = 0.0
    found = biases_of(sums, weights, noise, explaining[:, :1])
    assert found.means[0] == pytest.approx(found.centre, rel=1e-12)
    assert found.variances[0] == pytest.approx(found.spread)


@pytest.mark.parametrize("variance", [0.002, 0.01, 0.2])
def test_the_variance_of_biases_is_learned(variance):
    """Of so many rows that what is usual does not count, within 20 per cent."""
    sums, weights, noise, explaining, truth = bias_example(20_000, variance=variance)
    found = biases_of(sums, weights, noise, explaining)
    assert found.spread == pytest.approx(variance, rel=0.2)
    assert found.centre == pytest.approx(0.1, abs=0.03)
    # They are as far off as they say.
    away = (found.means - truth) ** 2
    assert np.mean(away / found.variances) == pytest.approx(1.0, abs=0.15)
    assert np.mean(away) < 0.9 * np.mean((sums / weights - truth) ** 2)


def test_noise_does_not_enter_biases_that_differ_little():
    """The reason why more budget helps: the variance is not pinned to a usual one."""
    sums, weights, noise, explaining, truth = bias_example(
        2_000, variance=0.002, noise=4.0
    )
    found = biases_of(sums, weights, noise, explaining)
    usual = 1 / (1 / 0.02 + weights**2 / noise)
    prior = explaining @ [0.1, 0.05]
    pinned = prior + usual * weights / noise * (sums - weights * prior)
    assert np.mean((found.means - truth) ** 2) < 0.8 * np.mean((pinned - truth) ** 2)


def rows_example(n=200, *, n_biases=1, noise=0.5, seed=0, size=3, covariance=None):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((size, size))
    moment = root @ root.T + 0.5 * np.eye(size)
    weights = rng.uniform(1, 30, n)
    residual = rng.uniform(0.1, 2, n)
    own = np.full((n, n_biases), 0.05)
    if covariance is None:
        covariance = 0.05 * np.eye(size - n_biases)
    centre = np.append(np.zeros(n_biases), np.linspace(0.5, 1, size - n_biases))
    prior = np.zeros((size, size))
    prior[range(n_biases), range(n_biases)] = 0.05
    prior[n_biases:, n_biases:] = covariance
    truth = centre + rng.multivariate_normal(np.zeros(size), prior, n)
    sums = np.empty((n, size))
    for j in range(n):
        error = noise * np.eye(size) + residual[j] * moment
        mean = weights[j] * moment @ truth[j]
        sums[j] = rng.multivariate_normal(mean, error)
    return sums, weights, moment, noise, residual, centre, own, covariance, truth


def rows_from_sums(
    sums,
    weights,
    moment,
    noise,
    residual,
    centre,
    own,
    covariance,
    *,
    update_covariance=True,
):
    """Rows from the sums of one release, around rows of zeros."""
    known = row_information(sums, weights, moment, noise, residual, np.zeros_like(sums))
    centre = np.broadcast_to(centre, sums.shape)
    return rows_from_information(
        *known, centre, own, covariance, update_covariance=update_covariance
    )


@pytest.mark.parametrize("n_biases", [0, 1])
def test_rows_are_gaussian_posteriors(n_biases):
    """By conditioning the joint Gaussian law of a row and its sums."""
    *of, truth = rows_example(n_biases=n_biases)
    means, stated, covariance = rows_from_sums(*of, update_covariance=False)
    sums, weights, moment, noise, residual, centre, _, given = of
    assert_array_equal(covariance, given)
    prior = np.zeros((3, 3))
    prior[range(n_biases), range(n_biases)] = 0.05
    prior[n_biases:, n_biases:] = given
    spread = np.empty((len(sums), 3, 3))
    for j in range(len(sums)):
        design = weights[j] * moment
        error = noise * np.eye(3) + residual[j] * moment
        total = design @ prior @ design.T + error
        gain = prior @ design.T @ np.linalg.inv(total)
        expected = centre + gain @ (sums[j] - design @ centre)
        assert_allclose(means[j], expected, rtol=1e-7, atol=1e-9)
        spread[j] = prior - gain @ design @ prior
    assert_allclose(stated, spread, rtol=1e-6, atol=1e-9)
    # The truth is as far away as is said.
    away = means - truth
    z = np.einsum("ja,jab,jb->j", away, np.linalg.inv(spread), away)
    assert z.mean() == pytest.approx(3, abs=5 * math.sqrt(6 / len(z)))


def test_rows_with_much_and_with_no_information():
    sums, weights, moment, _, residual, centre, own, covariance, _ = rows_example()
    least = np.linalg.solve(moment, sums.T).T / weights[:, np.newaxis]
    exact = rows_from_sums(
        sums, weights, moment, 0.0, 1e-10 * residual, centre, own, covariance,
        update_covariance=False,
    )  # fmt: skip
    assert_allclose(exact[0], least, rtol=1e-4, atol=1e-5)
    none = rows_from_sums(
        sums,
        weights,
        moment,
        1e14,
        residual,
        centre,
        own,
        covariance,
        update_covariance=True,
    )
    assert_allclose(none[0], np.broadcast_to(centre, sums.shape), atol=1e-4)
    assert_allclose(none[2], covariance, rtol=0.05, atol=1e-3)
    empty = rows_from_sums(
        0 * sums, 0 * weights, moment, 1.0, 0 * residual, centre, own, covariance,
        update_covariance=False,
    )  # fmt: skip
    assert_allclose(empty[0], np.broadcast_to(centre, sums.shape), rtol=1e-12)


@pytest.mark.parametrize("n_biases", [0, 1])
def test_the_covariance_of_rows_is_learned(n_biases):
    """From a start that is ten times too small; within a quarter of the truth.

    With 3,000 rows the estimate errs by some per cent.
    """
    truth = np.array([[0.3, 0.15], [0.15, 0.2]])
    sums, weights, moment, noise, residual, centre, own, _, rows = rows_example(
        3000, n_biases=n_biases, size=2 + n_biases, covariance=truth
    )
    of = sums, weights, moment, noise, residual, centre, own
    means, _, found = rows_from_sums(*of, 0.03 * np.eye(2))
    assert_allclose(found, truth, rtol=0.25)
    # And is put to use: rows are nearer to the truth than with the prior at the start.
    fixed, *_ = rows_from_sums(*of, 0.03 * np.eye(2), update_covariance=False)
    assert np.mean((means - rows) ** 2) < np.mean((fixed - rows) ** 2)


def test_a_wrong_moment_leaves_rows_without_residuals_where_they_are():
    """The sums of residuals around the right rows are zero, whatever the moment."""
    rows = np.random.default_rng(0).standard_normal((4, 3))
    wrong = np.diag([1.0, 5.0, 0.1])
    precision, shift = row_information(
        np.zeros((4, 3)), np.full(4, 9.0), wrong, 0.0, np.full(4, 0.1), rows
    )
    assert_allclose(np.linalg.solve(precision, shift[..., None])[..., 0], rows)


def test_information_drifts_as_in_a_kalman_filter():
    """The covariance grows by the drift, and the mean stays."""
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((5, 3, 4))
    covariance = roots @ roots.transpose(0, 2, 1)
    means, drift = rng.standard_normal((5, 3)), np.diag([0.0, 0.4, 7.0])
    precision = np.linalg.inv(covariance)
    shift = np.einsum("jab,jb->ja", precision, means)
    found, found_shift = drifted(precision, shift, drift)
    assert_allclose(np.linalg.inv(found), covariance + drift, rtol=1e-6, atol=1e-9)
    assert_array_equal(found, found.transpose(0, 2, 1))
    expected = np.einsum("jab,jb->ja", found, means)
    assert_allclose(found_shift, expected, rtol=1e-6, atol=1e-9)
    # Nothing known stays nothing.
    for part in drifted(0 * precision, 0 * shift, drift):
        assert_array_equal(part, 0)


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, -1)])
def test_a_moment_that_noise_made_indefinite_is_no_obstacle(signs):
    sums, weights, _, noise, residual, centre, own, covariance, _ = rows_example()
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    moment = (axes * [1.0, 0.1 * signs[0], 0.3 * signs[1]]) @ axes.T
    for part in rows_from_sums(
        sums, weights, moment, noise, residual, centre, own, covariance
    ):
        assert np.all(np.isfinite(part))


@pytest.mark.parametrize("bad", [np.inf, np.nan, 1e200])
def test_a_vector_of_no_finite_length_adds_nothing(bad):
    starts, places = np.array([0, 1, 2]), np.arange(2)
    sums, own = np.zeros((2, 1)), np.array([[bad], [0.5]])
    BoundedSums((2, 1), 1.0, 1.0, 2.0**-4).add(sums, starts, places, places, own)
    assert_array_equal(sums[:, 0], [0.0, 8.0])
