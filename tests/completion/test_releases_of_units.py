"""What fits that protect units ask for, and what they make of noisy answers."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.completion import CPCompletion, TuckerCompletion
from tests.support.seams import (
    INTERACTION_VARIANCE,
    BlockTotals,
    Problem,
    UnitEntries,
    UnitTotals,
    units_first,
    units_rounds,
)


@dataclass
class Answering:
    """Releases whose answers are known; they keep the questions."""

    answer: Callable
    sigma: float = 0.0
    step: float = 0.0
    left: float = 1.0
    questions: list = field(default_factory=list)

    def ask(self, _, question):
        self.questions.append(question)
        return self.answer(question)


def totals_of(n_units=50.0, typical_size=4.0):
    return UnitTotals(n_units, 0.0, typical_size)


# --- totals and counts ---------------------------------------------------------------


def first_totals(*total, error=2.0):
    """What follows from noisy totals: of units, their means and logarithms."""
    histogram = np.arange(16.0)
    answers = [(np.array([total]), error), (histogram[np.newaxis], 0.5)]
    releases = Answering(lambda _: answers)
    noisy, found, population = units_first.release_totals(None, releases)
    assert (noisy.number, noisy.mean_values, noisy.logs, noisy.error) == (*total, error)
    assert_array_equal(population.histogram, histogram)
    return found, releases.questions[0].sums


def test_totals_are_divided_by_the_number_of_units():
    found, sums = first_totals(100.0, 30.0, -20.0)
    assert found.n_units == 100
    assert found.offset == pytest.approx(0.3)
    assert found.typical_size == pytest.approx(math.exp(4 - 3 * 0.2))
    assert [one.shape for one in sums] == [(1, 3), (1, 16)]
    assert [one.bound for one in sums] == [pytest.approx(math.sqrt(3)), 1]
    of_counts, of_rounds = units_first.COUNTS, units_first.LEFT
    assert sum(one.share for one in sums) + of_counts + of_rounds == pytest.approx(1)


def test_totals_within_their_noise_are_those_of_few_units():
    found, _ = first_totals(0.1, -30.0, 20.0)
    assert (found.n_units, found.offset) == (2, -1)
    assert found.typical_size == pytest.approx(math.exp(7))
    # Without noise, nobody is one unit.
    assert first_totals(0.0, 0.0, 0.0, error=0.0)[0].n_units == 1


def test_counts_are_scaled_to_what_all_units_add():
    """They share a part of the budget, and rows within their noise are unknown."""
    noisy = [[400.0], [100.0], [4.0], [-3.0]], [[300.0], [200.0]]
    releases = Answering(lambda _: [(np.array(each), 5.0) for each in noisy])
    found = units_first.release_counts(None, releases, (4, 2), totals_of(80.0, 25.0))
    assert [one.shape for one in releases.questions[0].sums] == [(4, 1), (2, 1)]
    for sums in releases.questions[0].sums:
        assert (sums.bound, sums.share) == (1, pytest.approx(units_first.COUNTS / 2))
    for counts in found:
        # 80 units with 25 entries each, which count a fifth.
        assert counts.counts.sum() == pytest.approx(80 * 5)
        assert counts.shares.sum() == pytest.approx(1)
        assert counts.counts.min() >= 0
    items, days = found
    assert items.counts[0] == pytest.approx(4 * items.counts[1])
    assert days.counts[0] == pytest.approx(1.5 * days.counts[1])
    unknown = units_first._UNKNOWN
    assert_array_equal(items.unknown, [0, 0, unknown, unknown])
    assert_array_equal(days.unknown, [0, 0])
    # Logarithms of very small counts are those of a twentieth of the noise, or of a
    # thousandth of the largest count.
    assert_allclose(items.logs, np.log(np.maximum(items.counts, 0.05 * 5)))
    releases = Answering(lambda _: [(np.array([[400.0], [0.0]]), 0.0)])
    (exact,) = units_first.release_counts(None, releases, (2,), totals_of(80.0, 25.0))
    assert_allclose(exact.logs, np.log([400, 0.4]))
    assert_array_equal(exact.unknown, [0, 1])


def test_rows_with_few_entries_have_larger_gains():
    """By a power of released counts, and no entry's contribution grows on average."""
    counts = np.array([1e4, 100.0, 1.0, 1e-3, 0.0])
    gains = units_first.RowCounts(counts, np.zeros(5), np.zeros(5)).gains
    assert gains[1] / gains[0] == pytest.approx(100**units_first._EVENED)
    # Fewer entries than one count as one.
    assert_allclose(gains[2:], gains[2])
    counted = np.maximum(counts, 1)
    assert counted @ gains**2 == pytest.approx(counted.sum())
    # Whatever was released, gains are finite.
    for extreme in (np.zeros(3), np.array([0.0, 1e300, 5e-324])):
        found = units_first.RowCounts(extreme, np.zeros(3), np.zeros(3)).gains
        assert np.all((found > 0) & (found < 1e40))


# --- the pattern ---------------------------------------------------------------------


def test_no_more_products_than_cost_a_hundredth_of_a_unit():
    for sigma in (10.0, 100.0, 600.0):
        most = units_first.most_rows(5000, sigma)
        # Their number is rounded, and m (m + 1) taken for a square.
        moved = math.sqrt(most * (most + 1) / 2) * 2.0**-20 * sigma
        assert moved == pytest.approx(0.01, rel=0.05)
    assert [units_first.most_rows(5000, sigma) for sigma in (1000.0, 1e9)] == [0, 0]
    assert [units_first.most_rows(n, 1.0) for n in (19, 20, 5000)] == [0, 20, 3000]
    assert units_first.most_rows(700, 0.0) == 700


def asked_pattern(n_units=10_000.0, sigma=1.0, most=3000, products=None):
    """The sums and the rows that are asked for, and features, of 60 rows.

    Later ones have more entries, and all units together 10,000 times 3.
    """
    counts = 1e4 * 3 * np.arange(1.0, 61) / np.arange(1.0, 61).sum()
    row_counts = units_first.RowCounts(counts, np.log(counts), np.zeros(60))

    def answer(question):
        (sums,) = question.sums
        if products is None:
            return [(np.zeros(sums.shape), 1.0)]
        return [(products(len(question.rows)), 1.0)]

    releases = Answering(answer, sigma=sigma)
    totals = totals_of(n_units, 9.0)
    features = units_first.release_pattern(
        None, releases, totals, row_counts, most, None
    )
    return releases.questions, features


@pytest.mark.parametrize(("sigma", "most"), [(0.5, 3000), (2.0, 3000), (2.0, 30)])
def test_a_pattern_takes_what_it_needs_to_stand_out(sigma, most):
    (question,), features = asked_pattern(sigma=sigma, most=most)
    assert features.shape == (60, 0)
    rows, (sums,) = question.rows, question.sums
    # Of the rows with the most entries.
    assert_array_equal(rows, np.arange(59, 59 - len(rows), -1))
    assert len(rows) == min(60, most)
    # The leading eigenvalue is .02 for every unit, of the share of entries in the rows.
    covered = (rows + 1).sum() / np.arange(61).sum()
    eigenvalue = 0.02 * 10_000 * covered
    of_noise = sigma * math.sqrt(2 * len(rows) / sums.share)
    if sums.share > 0.02:
        assert eigenvalue == pytest.approx(3 * of_noise)
    else:
        assert eigenvalue > 3 * of_noise
    assert 0.02 <= sums.share <= 0.15
    assert sums.shares.sum() == pytest.approx(2**14, abs=len(rows) / 2)
    assert_allclose(sums.shares, 2**14 * (rows + 1) / (rows + 1).sum(), atol=0.5)
    assert sums.least == pytest.approx(9 / math.sqrt(2))


def test_a_pattern_that_would_not_stand_out_costs_nothing():
    for options in ({"sigma": 20.0}, {"n_units": 100.0}, {"most": 19}):
        questions, features = asked_pattern(**options)
        assert not questions
        assert features.shape == (60, 0)


@pytest.mark.parametrize("second", [1.05, 1.15, 2.0])
def test_features_are_eigenvectors_that_stand_out(second):
    """From the noise, and from what chance makes of the products on the diagonal."""
    n, error, n_units = 60, 0.5, 9.0
    camps = np.ones((2, n))
    camps[0, ::3] = -1
    camps[1, 1::3] = -1
    camps[1] -= camps[0] * (camps[0] @ camps[1]) / n
    camps *= np.sqrt(n) / np.linalg.norm(camps, axis=1, keepdims=True)
    diagonal = np.where(np.arange(n) % 2, 4.0, -7.0)
    scatter = np.maximum(diagonal, 0).mean()
    # The largest eigenvalue of such products is twice the root of the rows times their
    # deviation, and the smallest that counts is half as large again.
    least = 1.5 * 2 * math.sqrt(n * (error**2 + scatter**2 / n_units))
    values = np.array([4.0, second]) * least
    products = (camps.T * values) @ camps / n
    np.fill_diagonal(products, 0.0)
    exact, vectors = np.linalg.eigh(products)
    exact, vectors = exact[[-1, -2]], vectors[:, [-1, -2]]
    # Those of products without a diagonal are a little smaller.
    assert (exact[1] > least) == (second > 1.1)
    np.fill_diagonal(products, diagonal)
    found = units_first._leading(products, error, n_units, 8)
    n_kept = 1 + (second > 1.1)
    assert found.shape == (n, n_kept)
    exact, vectors = exact[:n_kept], vectors[:, :n_kept]
    rows = vectors * np.sign(vectors.sum(axis=0)) * np.sqrt(exact)
    squares = np.sum(rows**2, axis=1, keepdims=True)
    clear = np.maximum(squares - np.sum(error**2 / exact), 0)
    # Rows are as long as what the noise leaves of their direction.
    assert_allclose(found, rows * np.sqrt(clear) / squares, atol=1e-9)
    assert units_first._leading(products, error, n_units, 1).shape == (n, 1)


def test_units_that_all_have_all_rows_have_no_pattern():
    """Without noise, their products are zero where shares are whole numbers."""
    assert units_first._leading(np.zeros((32, 32)), 0.0, 100.0, 8).shape == (32, 0)


def test_features_are_those_of_the_rows_that_were_asked_for():
    camp = np.where(np.arange(30) % 3, 1.0, -1.0)
    products = (100 / 30 * np.outer(camp, camp))[np.triu_indices(30)]
    (question,), features = asked_pattern(most=30, products=lambda _: products)
    assert features.shape == (60, 1)
    assert_array_equal(np.sign(features[question.rows, 0]), camp)
    assert not features[:30].any()


# --- rounds --------------------------------------------------------------------------


def first_of(kind=CPCompletion, rank=2, shape=(50, 6, 3), **params):
    """What is known before the rounds, of rows whose counts differ."""
    model = kind(
        rank, unit=0, shape=shape, value_bounds=(0, 1), perturbation="statistics",
        **params,
    )  # fmt: skip
    problem = Problem.from_estimator(model, shape)
    rows = [1e3 * np.arange(1.0, size + 1) / size for size in shape[1:]]
    counts = [
        units_first.RowCounts(each, np.log(each), np.zeros(len(each))) for each in rows
    ]
    return units_rounds.FirstResults(
        problem, totals_of(), counts, np.zeros((shape[1], 0))
    )


@pytest.mark.parametrize("name", ["sums", "statistics"])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
def test_all_passes_together_take_what_is_left(kind, biases, name):
    rank = 2 if kind is CPCompletion else (2, 2, 2)
    problem = first_of(kind, rank, biases=biases or name == "sums").problem
    planned = units_rounds.planned_shares(problem, name, 0.8)
    assert math.fsum(sum(shares.values()) for shares in planned) == pytest.approx(0.8)
    only_biases = 4 if name == "sums" else int(biases)
    assert len(planned) == (4 if name == "sums" else 7 + biases)
    for number, shares in enumerate(planned):
        sizes = [6, 3]
        if number >= only_biases:
            # The rows of both modes, of two numbers each, and the core.
            sizes = [12, 6, 8] if kind is TuckerCompletion else [12, 6]
        roots = np.sqrt(sizes) / np.sqrt(sizes).sum()
        assert [*shares] == [*range(1, len(sizes) + 1)]
        found = np.array([*shares.values()])
        assert_allclose(found / found.sum(), roots)
    if name == "statistics" and biases:
        assert sum(planned[0].values()) == pytest.approx(0.2 * 0.8)


def test_a_block_takes_its_share_for_rows_and_totals():
    """Over their lengths, the regressors of a row have a mean square of one."""
    state = units_rounds._with_factors(units_rounds._start(first_of()))
    question = units_rounds._question(state, 1, 0.3, 0.25)
    rows, totals = question.sums
    assert (rows.shape, totals.shape) == ((6, 3), (1, 3 + 2 + 6))
    assert rows.share + totals.share == pytest.approx(0.3)
    assert totals.share == pytest.approx(0.05 * 0.3)
    assert rows.step == totals.step == 0.25
    variance = state.model.noise + 0.05
    assert rows.bound == pytest.approx(0.7 * math.sqrt(3 * variance))
    assert totals.bound == pytest.approx(2.5 + 1 / 4 + 2 / 2)
    # Of a unit's factors, whose mean square is .5 before any is known, times the
    # factors of the third mode, over its entries.
    squares = state.model.factors[1] ** 2
    shares = np.arange(1.0, 4) / 6
    assert_allclose(question.lengths**2, [1, *(0.5 * shares @ squares)], rtol=1e-5)


def test_biases_are_those_of_the_sums_where_these_have_no_noise():
    """Of sums of residuals around zero, over counts; the average entry has none."""
    first = first_of(rank=0, shape=(50, 6))
    state = units_rounds._start(first)
    counts = 1e4 * first.counts[0].counts
    first.counts[0] = units_first.RowCounts(counts, np.log(counts), np.zeros(6))
    truth = np.array([0.3, -0.2, 0.1, 0.0, -0.1, 0.2])
    found = units_rounds._with_biases(state, 1, counts * truth, 1e-3, 1e-6)
    assert_allclose(found.model.biases[0][:-1], truth, atol=1e-3)
    # The next pass sees residuals around these biases, and has as much noise as what
    # the biases may have changed by since.
    error = 1e5
    again = units_rounds._with_biases(found, 1, np.zeros(6), error, 1e-6)
    sums, noise = again.information[1]
    assert_allclose(sums, counts * truth, rtol=1e-3, atol=1e-3)
    drift = 0.03 * found.model.uncertainty[0][-1] * counts**2
    assert_allclose(1 / noise, 1 / drift + 1 / error**2)
    assert 0.01 < np.median(drift) / error**2 < 100
    # Residuals vary, too: their energy adds to the noise of the sums.
    energy = 1e6
    model = units_rounds._with_biases(state, 1, counts * truth, error, energy).model
    of_sums = error**2 + energy * counts
    spread = model.uncertainty[0][-1]
    expected = 1 / (1 / spread + counts**2 / of_sums)
    assert_allclose(model.uncertainty[0][:-1], expected)


def test_contributions_have_the_gains_of_their_rows_before_they_are_bounded():
    rng = np.random.default_rng(0)
    where = np.column_stack([rng.integers(0, 9, 60), rng.integers(0, 6, 60)])
    chunk = UnitEntries(where, rng.uniform(-1, 1, 60))
    first = first_of(rank=0, shape=(50, 6))
    question = units_rounds._question(units_rounds._start(first), 1, 0.3, 0.0)
    gains = first.counts[0].gains
    assert_array_equal(question.gains, gains)
    for gained in (gains, 1e-3 * gains, 1e3 * gains):
        asked = replace(question, gains=gained)
        of_rows, of_totals = asked.sums
        totals = [one.zeros() for one in asked.sums]
        asked.add(chunk, *totals)
        solved, expected, energy = asked.model.solve(chunk), 0, 0
        for start, end in itertools.pairwise(chunk.starts):
            rows = chunk.others[start:end, 0]
            weight = 1 / math.sqrt(max(end - start, first.totals.typical_size))
            each = weight * gained[rows] * solved.residuals[start:end]
            vector = np.bincount(rows, each, 6)
            longest = min(of_rows.bound / np.linalg.norm(vector), 1)
            expected = expected + longest * vector
            energy += min(np.sum(each**2) / asked.model.noise, 2)
        assert_allclose(totals[0][:, 0] * of_rows.unit, expected, rtol=1e-9)
        # Few vectors of totals are so long that they are scaled down.
        assert totals[1][0, 2] * of_totals.unit == pytest.approx(energy, rel=0.1)


def test_what_bounds_took_is_known_from_the_lengths():
    question = units_rounds._question(
        units_rounds._start(first_of(rank=0, shape=(50, 6))), 1, 0.3, 0.0
    )
    n_units, noise = question.totals.n_units, question.model.noise
    bound = question.sums[0].bound

    def kept(length, error=0.0):
        totals = np.zeros((1, BlockTotals.size(question.model)))
        totals[0, 2] = n_units * length**2 / noise
        return units_rounds._kept(question, totals, error)

    assert kept(bound) == pytest.approx(1)
    assert [kept(length) for length in (0.0, 0.5 * bound)] == [1, 1]
    assert kept(1.25 * bound) == pytest.approx(0.8)
    # Lengths that noise hides say nothing.
    energy = n_units * (1.25 * bound) ** 2 / noise
    assert kept(1.25 * bound, 1.01 * energy) == 1 > kept(1.25 * bound, 0.99 * energy)


def test_gains_and_bounds_are_undone_in_the_sums():
    """Biases are those of the units, if all vectors are scaled down alike."""
    first = first_of(rank=0, shape=(50, 6))
    counts = replace(first.counts[0], counts=1e4 * first.counts[0].counts)
    first.counts[0] = counts
    truth = np.array([0.3, -0.2, 0.1, 0.0, -0.1, 0.2])
    kept = 0.8

    def answer(question):
        residuals = truth - question.model.biases[0][:-1]
        sums = kept * question.gains * counts.counts * residuals
        totals = np.zeros(question.sums[1].shape)
        length = question.sums[0].bound / kept
        totals[0, :3] = question.model.noise, 1, length**2 / question.model.noise
        totals *= question.totals.n_units
        return [(sums[:, np.newaxis], 1e-3), (totals, 0.0)]

    model, _ = units_rounds.fit(
        None, Answering(answer, left=0.5), first, "sums", lambda number: number == 0
    )
    assert_allclose(model.biases[0][:-1], truth, atol=1e-3)


# Of units: mean squares of residuals, degrees of freedom, and energy; then squares and
# shares of the biases' prior; then the moments of one and two factors.
TOTALS = np.array([0.09, 0.9, 1.4, 0.6, 0.5, 1, 0.1, 0.2, 0.8, 0.3, 0.9])


def learned(totals, error_of_mean):
    """The noise and the moment that follow, and by how much energy and prior change."""
    state = units_rounds._with_factors(units_rounds._start(first_of()))
    n_units = state.first.totals.n_units
    found, energy = units_rounds._learned(
        state, n_units * totals[np.newaxis], n_units * error_of_mean
    )
    ((size, variance),) = found.model.groups
    ((_, before),) = state.model.groups
    assert size == 1
    per_count = n_units / state.first.counts[0].counts.sum()
    energy /= per_count * state.model.noise
    return found.model.noise, energy, variance / before, found.moment


def test_totals_without_noise_are_taken_as_they_are():
    noise, energy, factor, moment = learned(TOTALS, 0.0)
    assert noise == pytest.approx(0.09 / 0.9)
    assert energy == pytest.approx(1.4)
    assert factor == pytest.approx(0.6 / 0.5)
    expected = [[1, 0.1, 0.2], [0.1, 0.8, 0.3], [0.2, 0.3, 0.9]]
    assert_allclose(moment, expected, atol=1e-12)


def test_totals_of_noise_change_nothing():
    noise, energy, factor, moment = learned(TOTALS, 1e6)
    assert noise == pytest.approx(units_rounds._NOISE)
    assert (energy, factor) == (pytest.approx(1), pytest.approx(1))
    assert_allclose(moment, np.diag([1, 0.5, 0.5]), atol=1e-9)


def test_totals_count_by_their_noise_and_by_how_far_they_usually_vary():
    """A total is usually within a tenth of what is expected."""
    noise, energy, factor, moment = learned(TOTALS, 0.1)
    prior = units_rounds._NOISE
    # Over the degrees of freedom, and the shares, the noise is larger.
    assert noise == pytest.approx(prior + (0.1 - prior) / (1 + 0.9**-2))
    assert energy == pytest.approx(1 + 0.4 / 2)
    assert factor == pytest.approx(1 + 0.2 / (1 + 2**2))
    expected = [[1, 0.05, 0.1], [0.05, 0.65, 0.15], [0.1, 0.15, 0.7]]
    assert_allclose(moment, expected, atol=1e-12)


def test_totals_beyond_all_bounds_are_cut_off():
    low, high = TOTALS.copy(), TOTALS.copy()
    low[:5] = [-1, 0.9, -9, -1, 0.5]
    high[:5] = [9, 0.9, 9, 9, 0.5]
    assert learned(low, 0.0)[:3] == pytest.approx((1e-4, 0.1, 0.1))
    assert learned(high, 0.0)[:3] == pytest.approx((1, 9, 4))


def test_features_of_rows_are_their_counts_their_biases_and_the_pattern():
    """Centred over the entries, of which an unknown row has the average."""
    first = first_of(rank=0, shape=(50, 6))
    pattern = np.random.default_rng(0).standard_normal((6, 2))
    first = replace(first, pattern=pattern)
    biases = np.linspace(-0.3, 0.4, 7)
    state = units_rounds._start(first)
    state = replace(state, model=replace(state.model, biases=[biases]))
    model = units_rounds._with_features(state).model
    assert model.groups == (*state.model.groups, (1, 0.003), (1, 0.1), (2, 0.01))
    counts, features = first.counts[0].counts, model.features
    shares = counts / counts.sum()
    logs = np.log(counts) - shares @ np.log(counts)
    expected = [logs / np.sqrt(shares @ logs**2), biases[:-1] - shares @ biases[:-1]]
    assert_allclose(features[:-1], np.column_stack([*expected, pattern]), atol=1e-12)
    assert_allclose(features[-1], [0, 0, *(shares @ pattern)], atol=1e-12)
    # A row that counts as unknown, as far as it does, has those of the average entry.
    unknown = np.array([1, 0.3, 0, 0, 0, 0])
    known = replace(first, counts=[replace(first.counts[0], unknown=unknown)])
    moved = units_rounds._with_features(replace(state, first=known)).model.features
    assert_allclose(moved[0], moved[-1], atol=1e-12)
    assert_allclose(moved[1], 0.7 * features[1] + 0.3 * features[-1], atol=1e-12)
    assert_allclose(moved[2:], features[2:], atol=1e-12)
    # Later, variances stay what has been learned.
    later = replace(model, groups=tuple((n, 0.5) for n, _ in model.groups))
    again = units_rounds._with_features(replace(state, model=later)).model
    assert again.groups == later.groups


@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
def test_factors_start_near_their_prior_means(kind):
    first = first_of(kind, 2 if kind is CPCompletion else (2, 2, 2), (50, 600, 300))
    state = units_rounds._start(first)
    model = units_rounds._with_factors(state).model
    items, days, *core = model.factors
    form = first.problem.form
    # Interactions have a variance of their own, which the terms of an item share.
    for factor, block, size, variance in (
        (items, 1, 600, INTERACTION_VARIANCE / 2), (days, 2, 300, 0.04),
    ):  # fmt: skip
        assert factor.shape == (size, 2)
        moved = factor - form.centre(block)
        assert np.mean(moved**2) == pytest.approx(variance, rel=0.2)
    for one in core:
        assert_array_equal(one, form.centre(3)[np.newaxis])
    assert len(core) == (kind is TuckerCompletion)
    covariances = units_rounds._with_factors(state).covariances
    expected = {1: INTERACTION_VARIANCE / 2, 2: 0.04, 3: 0.02}
    for block in range(1, 3 + len(core)):
        variances = np.diag(covariances[block])
        assert_allclose(variances, expected[block])


@pytest.mark.parametrize(
    ("kind", "block", "biases"),
    [
        (CPCompletion, 1, True), (CPCompletion, 2, False), (TuckerCompletion, 1, True),
        (TuckerCompletion, 3, True),
    ],
)  # fmt: skip
def test_rows_are_those_that_the_sums_suggest_where_these_have_no_noise(
    kind, block, biases
):
    """Sums of residuals around the rows before, by the moment of the regressors."""
    rank = 2 if kind is CPCompletion else (2, 2, 2)
    first = first_of(kind, rank, (50, 8, 5), biases=biases)
    state = units_rounds._start(first)
    uncertain = [np.linspace(0.03, 0.05, size + 1) for size in (8, 5) if biases]
    biases = [np.linspace(-0.4, 0.05 * size, size + 1) for size in (8, 5) if biases]
    model = replace(state.model, noise=1e-9, uncertainty=uncertain, biases=biases)
    state = units_rounds._with_factors(replace(state, model=model))
    question = units_rounds._question(state, block, 0.1, 0.0)
    n_biases, lengths = question.n_biases, question.lengths
    assert n_biases == (len(biases) > 0 and block < 3)
    before = state.model.factors[block - 1]
    rng = np.random.default_rng(0)
    factors = before + 0.3 * rng.standard_normal(before.shape)
    own = 0.2 * rng.standard_normal((len(before), n_biases))
    moved = np.concatenate([own, factors - before], axis=1)
    moment = units_rounds._moment(state, block)[1 - n_biases :, 1 - n_biases :]
    weights = np.array([first.totals.n_units * math.sqrt(first.totals.typical_size)])
    if block < 3:
        weights = first.counts[block - 1].counts
    sums = weights[:, np.newaxis] * (moved @ moment) / lengths
    found = units_rounds._with_rows(state, question, sums, 1e-4).model
    assert_allclose(found.factors[block - 1], factors, atol=0.01)
    for other, (one, same) in enumerate(
        zip(found.factors, state.model.factors, strict=True), start=1
    ):
        assert other == block or one is same
    if n_biases:
        expected = biases[block - 1][:-1] + own[:, 0]
        assert_allclose(found.biases[block - 1][:-1], expected, atol=0.01)
        assert found.biases[block - 1][-1] == biases[block - 1][-1]
        assert found.uncertainty[block - 1][:-1].max() < 1e-3
        assert found.uncertainty[block - 1][-1] == 0.05


def test_totals_are_those_of_every_unit_by_itself():
    """Of its fit, prior and factors, each of which is cut off where it is large."""
    rng = np.random.default_rng(0)
    where = np.column_stack([rng.integers(0, size, 60) for size in (9, 6, 3)])
    where = np.concatenate([where, np.tile([[9, 0, 0]], (40, 1))])
    values = np.append(rng.uniform(-1, 1, 60), np.resize([1.0, -1.0, 1.0], 40))
    chunk = UnitEntries(where, values)
    first = replace(first_of(), pattern=rng.standard_normal((6, 2)))
    state = units_rounds._with_features(
        units_rounds._with_factors(units_rounds._start(first))
    )
    model = replace(state.model, noise=0.15)
    question = units_rounds._question(replace(state, model=model), 1, 0.3, 0.0)
    _, of_totals = question.sums
    totals = [one.zeros() for one in question.sums]
    question.add(chunk, *totals)
    solved, expected, energies = model.solve(chunk), 0, []
    squares = solved.residuals**2 - model.uncertainty_of(chunk.others)
    groups = np.repeat(np.arange(len(model.groups)), [n for n, _ in model.groups])
    variances = np.array([variance for _, variance in model.groups])
    for unit, (start, end) in enumerate(itertools.pairwise(chunk.starts)):
        own, n = slice(start, end), end - start
        residuals, row, known = (
            solved.residuals[own],
            solved.rows[unit],
            solved.explained[unit],
        )
        weight = 1 / math.sqrt(max(n, first.totals.typical_size))
        of_fit = [
            np.mean(squares[own]), 1 - known.sum() / n,
            np.sum((weight * residuals) ** 2) / 0.15,
        ]  # fmt: skip
        energies.append(of_fit[2])
        vector = [*np.clip(of_fit, [-1, 0, 0], [1, 1, 2])]
        for group, variance in enumerate(variances):
            at = np.flatnonzero(groups == group)
            vector += [min(np.mean(row[at] ** 2) / variance, 4), np.mean(known[at])]
        free = 1 - np.clip(solved.leverages[own], 0, 1)
        factors = np.insert(solved.held_out[own], 0, 1.0, axis=1)
        moment = (factors.T * free) @ factors / free.sum()
        vector = np.array([*vector, *moment[np.triu_indices(len(moment))]])
        expected = expected + vector * min(of_totals.bound / np.linalg.norm(vector), 1)
    assert_allclose(totals[1][0] * of_totals.unit, expected, rtol=1e-6)
    assert min(energies) < 1 < 2 < max(energies)


def test_a_moment_of_noise_is_made_one_of_numbers():
    found = units_rounds._positive(np.diag([2.0, -1.0, 1.0]))
    assert_allclose(found, np.diag([1.0, 1e-3, 0.5]), atol=1e-12)
    assert_array_equal(units_rounds._positive(np.zeros((2, 2))), np.diag([1.0, 0.5]))


def test_what_is_known_after_a_drift():
    """The variance, relative to the prior's, grows by three hundredths."""
    for known in (0.1, 1.0, 100.0):
        found = units_rounds.after_drift(np.array([known]))
        assert 1 / found == pytest.approx(1 / known + 0.03)


def test_a_fit_asks_every_block_once_a_pass_and_stops_when_told_to():
    first, asked = first_of(rank=0, shape=(50, 6, 3)), []

    def answer(question):
        asked.append(question.block)
        return [(np.zeros(one.shape), 1.0) for one in question.sums]

    for most, n_passes in ((9, 4), (2, 2)):
        asked.clear()
        releases = Answering(answer, left=0.5)
        model, found = units_rounds.fit(
            None, releases, first, "sums", lambda number, most=most: number + 1 == most
        )
        assert found == n_passes
        assert asked == n_passes * [1, 2]
        shares = [one.share for question in releases.questions for one in question.sums]
        assert sum(shares) == pytest.approx(0.5 * n_passes / 4)
        assert_allclose(np.concatenate(model.biases), 0, atol=1e-12)


@pytest.mark.parametrize("epsilon", [4.0, math.inf])
def test_a_tucker_of_protected_units_has_a_decomposition(epsilon):
    """Although what was released of it is a CP."""
    where = np.argwhere(np.ones((6, 5)))
    values = np.random.default_rng(0).uniform(1, 5, 30)
    model = TuckerCompletion(2, epsilon=epsilon, unit=0, shape=(6, 5), random_state=0,
                             value_bounds=(1, 5)).fit(where, values)  # fmt: skip
    assert {"decomposition_", "factors_"} <= set(dir(model))
    assert model.decomposition_.core.ndim == 2
