"""The norm bound that a fit finds: what that reveals, and what it costs."""

import itertools
import logging
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, KFold

from sktensordp.exceptions import BudgetExceededError
from sktensordp.model_selection import (
    PrivateSearchCV,
    check_samples,
    epsilon_needed,
    expected_error,
)
from sktensordp.moments import (
    MultilinearPCA,
    MultilinearRidge,
    MultilinearRidgeClassifier,
    fit_aggregated,
    party,
)
from sktensordp.privacy import PrivacyBudget, planned_guarantee, privacy_of
from tests.support import divergence
from tests.support.budgets import n_released
from tests.support.noise import drawing, source_of
from tests.support.seams import (
    Chunk,
    Samples,
    bin_counts,
    found_bound,
    moments_norm,
    scores_of,
)
from tests.support.selection import law, selections

DIGITS = load_digits()
IMAGES, LABELS = DIGITS.images[:1200], DIGITS.target[:1200]
make = partial(MultilinearPCA, n_components=(2, 2), random_state=0)
EPSILON = 0.5


def in_memory(X):
    return Samples([Chunk(X.reshape(len(X), -1))])


# --- what it reveals ------------------------------------------------------------------


def law_of(norms, epsilon=EPSILON):
    """Probabilities of all bounds, from what the search passes to the sampler."""
    samples = in_memory(np.array(norms, dtype=float))
    with selections() as asked:
        found_bound(samples, epsilon, source_of(0))
    ((numerators, denominator),) = asked
    return law(numerators, denominator)


@pytest.fixture
def small_grid(monkeypatch):
    """Four bins, and samples of zeros."""
    monkeypatch.setattr(moments_norm, "_GRID", np.array([1.0, 2.0, 4.0, 8.0]))
    return 0.0, 0.5, 2.0, 3.0, 9.0


def largest_ratio(laws, pairs):
    return max(np.abs(np.log(laws[a] / laws[b])).max() for a, b in pairs)


def test_no_world_is_more_than_epsilon_from_its_neighbours(small_grid):
    """Half the noise, twice the rate, has a ratio of 1.8 epsilon here."""
    sizes = range(1, 5)
    worlds = {
        n: list(itertools.combinations_with_replacement(small_grid, n)) for n in sizes
    }
    laws = {world: law_of(world) for n in sizes for world in worlds[n]}
    added = [
        (world, tuple(sorted([*world, one])))
        for n in sizes[:-1]
        for world in worlds[n]
        for one in small_grid
    ]
    replaced = [
        pair
        for _, same in itertools.groupby(sorted(added), key=lambda pair: pair[0])
        for pair in itertools.combinations([longer for _, longer in same], 2)
    ]
    # The fit is for data sets of equally many samples, which replace one.
    assert 0.95 * EPSILON < largest_ratio(laws, replaced) <= EPSILON
    assert 0.95 * EPSILON < largest_ratio(laws, added) <= EPSILON


def test_scores_change_by_at_most_one():
    rng = np.random.default_rng(0)
    for _ in range(300):
        counts = rng.integers(0, rng.integers(1, 5), size=9)
        before, moved = scores_of(counts), counts.copy()
        moved[rng.integers(9)] += 1
        assert np.abs(scores_of(moved) - before).max() <= 1
        if (more := np.flatnonzero(counts)).size:
            moved[rng.choice(more)] -= 1
            assert np.abs(scores_of(moved) - before).max() <= 1


def test_scores_are_distances_from_the_rank_of_the_median():
    rng = np.random.default_rng(1)
    for _ in range(100):
        counts = rng.integers(0, 4, size=7)
        n, ends = counts.sum(), np.cumsum(counts)
        rank = math.ceil(n / 2)
        for score, first, last in zip(
            scores_of(counts), ends - counts + 1, ends, strict=True
        ):
            inside = [abs(rank - r) for r in range(first, last + 1)]
            if inside:
                assert score == -min(inside)
            else:
                assert score <= 0


def test_a_sample_has_the_same_bin_whoever_else_is_there():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6, 7)) * np.exp(rng.normal(0, 9, (200, 1, 1)))
    # At the ends of bins, as far as floats tell.
    X[:50] *= 2.0 ** rng.integers(-3, 4, (50, 1, 1)) / np.linalg.norm(
        X[:50], axis=(1, 2), keepdims=True
    )
    rows = X.reshape(200, -1)
    alone = [bin_counts(row[np.newaxis]) for row in rows]
    for order in (np.arange(200), rng.permutation(200)):
        for size in (200, 3, 64):
            parts = [rows[order][k : k + size] for k in range(0, 200, size)]
            expected = [
                sum(alone[k] for k in order[k : k + size]) for k in range(0, 200, size)
            ]
            for part, counts in zip(parts, expected, strict=True):
                assert (bin_counts(part) == counts).all()
                assert (bin_counts(np.asfortranarray(part)) == counts).all()


@pytest.mark.parametrize("n_cells", [1, 2, 63, 64, 65, 2**11])
def test_norms_are_those_of_exact_arithmetic(n_cells):
    rng = np.random.default_rng(n_cells)
    rows = rng.standard_normal((3, n_cells)) * [[1e-9], [1.0], [1e9]]
    rows[0, : n_cells // 2] = 0
    grid = [Fraction(end) ** 2 for end in moments_norm._GRID.tolist()]
    for row in rows:
        squared = sum(Fraction(x) ** 2 for x in row.tolist())
        (place,) = np.flatnonzero(bin_counts(row[np.newaxis]))
        assert grid[place - 1] < squared <= grid[place] * Fraction(103, 100)


def test_several_samples_of_a_person_count_once():
    """As one vector, whoever else is there, and in any order of people."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, 60)
    people = [
        rng.standard_normal((n, 6)) * np.exp(rng.normal(0, 9, (n, 1))) for n in sizes
    ]
    people[3][:], people[4][:], people[5][:] = 0, 1e308, 5e-324
    alone = [bin_counts(one, np.array([len(one)])) for one in people]
    for one, counts in zip(people, alone, strict=True):
        joint = bin_counts(one.reshape(1, -1))
        assert (counts == joint).all()
        assert counts.sum() == (one != 0).any()
    for order in (np.arange(60), rng.permutation(60)):
        rows = np.concatenate([people[k] for k in order])
        assert (bin_counts(rows, sizes[order]) == sum(alone)).all()


def test_the_shortest_and_the_longest_samples():
    last = len(moments_norm._GRID) - 1
    for row, place in (
        ([0.0, 5e-324], 0), ([1e-300, 0.0], 0), ([1e308, 1e308], last),
        ([0.0, -1e20], last),
    ):  # fmt: skip
        assert np.flatnonzero(bin_counts(np.array([row]))).tolist() == [place]
    assert not bin_counts(np.zeros((5, 2))).any()


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.0012, 0.1])
def test_the_guarantee_is_that_of_the_search_and_of_the_noise(share):
    """Randomised response composed with a Gaussian, from first principles."""
    n = round(120 / share)
    guarantee = plan_of(n)
    pure, noise = guarantee.event.events
    assert pure.epsilon == pytest.approx(share)
    mu = 1 / noise.events[0].noise_multiplier
    both = divergence.response(pure.epsilon)
    for epsilon in (0.2, 0.5, 0.9, 1.0):
        least = divergence.stick_with_gaussian(both, mu, epsilon)
        assert guarantee.delta_at(epsilon) >= least * (1 - 1e-9)
    assert divergence.stick_with_gaussian(both, mu, 1.0) <= 1e-6
    # Nearly all that is left goes to the noise.
    assert divergence.stick_with_gaussian(both, mu, 0.95 - share) > 1e-6


def plan_of(n_samples):
    """Guarantee of a fit to so many samples, nearly all of them of zeros."""
    X = np.zeros((n_samples, 2, 1), np.float32)
    X[:600] = 1
    return make(n_components=(1, 1)).fit(X).privacy_guarantee_


# --- what it finds --------------------------------------------------------------------


@pytest.mark.thorough
def test_equal_norms_are_found():
    """At the smallest budget; a miss has a chance of about 1 in 1,000."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 4, 3))
    X /= np.linalg.norm(X, axis=(1, 2), keepdims=True)
    for length, bound in ((1.0, 1.0), (7.3, 8.0), (1e-6, 2.0**-19.75)):
        samples = in_memory(length * X)
        found = [found_bound(samples, 0.1, source_of(seed)) for seed in range(100)]
        assert found.count(bound) >= 98


def test_the_median_of_the_samples_that_are_not_zero_is_found():
    rng = np.random.default_rng(0)
    norms = np.exp(rng.normal(3, 1, 2000))
    zeros = np.zeros(7000)
    outliers = np.full(20, 1e40)
    for others in ([], zeros, outliers):
        samples = in_memory(np.concatenate([norms, others]))
        for seed in range(5):
            bound = found_bound(samples, 0.06, source_of(seed))
            assert math.exp(3) / 1.4 < bound < math.exp(3) * 1.4


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "y", "declared"),
    [
        (MultilinearPCA, None, {}),
        (MultilinearRidge, LABELS, {"target_bounds": (0, 9)}),
        (MultilinearRidgeClassifier, LABELS, {"classes": range(10)}),
    ],
)
def test_found_norms_hold_and_are_said(kind, y, declared, caplog):
    model = kind((8, 8), random_state=0, **declared)
    with caplog.at_level(logging.INFO, "sktensordp"), PrivacyBudget(1.0, 1e-6):
        model.fit(IMAGES, y)
        with pytest.raises(BudgetExceededError):
            clone(model).fit(IMAGES, y)
    assert model.norm_bound_ in (64.0, 64 * 2**0.25)
    guarantee = model.privacy_guarantee_
    assert guarantee.epsilon == 1.0
    assert guarantee.protects
    assert "norm_bound was found among public numbers with epsilon = 0.1;" in (
        guarantee.statement
    )
    assert any("norm_bound_ = " in said for said in caplog.messages)
    known = clone(model).set_params(norm_bound=80.0).fit(IMAGES, y)
    assert known.norm_bound_ == 80.0
    assert "found" not in known.privacy_guarantee_.statement
    if y is not None:
        assert model.score(IMAGES, y) > known.score(IMAGES, y)


def test_without_noise_samples_are_not_scaled_down():
    model = make(epsilon=math.inf).fit(IMAGES)
    assert model.norm_bound_ == math.inf
    assert not model.privacy_guarantee_.protects


@pytest.mark.thorough
def test_norms_are_of_samples_in_public_units_before_a_mean_is_taken_off():
    X = np.full((1200, 2, 2), 36.0) + np.eye(2)
    y = np.zeros(1200)
    ridge = partial(MultilinearRidge, (2, 2), target_bounds=(-1, 1), random_state=0)
    assert ridge().fit(X, y).norm_bound_ > 70
    units = {"offset": 36.0, "scale": 2.0**0.5}
    assert ridge(**units).fit(X, y).norm_bound_ == 1.0
    assert ridge(center=True, epsilon=20.0).fit(X, y).norm_bound_ > 70


@pytest.mark.parametrize(("length", "end"), [(1e-30, "smallest"), (1e30, "largest")])
def test_norms_beyond_the_grid_are_told(length, end):
    X = np.full((1000, 2, 1), length)
    with pytest.warns(UserWarning, match=f"is the {end} one"):
        make(n_components=(1, 1)).fit(X)


# --- where samples lie ----------------------------------------------------------------


@pytest.mark.thorough
def test_chunks_and_batches_find_the_same():
    dask_array = pytest.importorskip("dask.array")
    options = {"offset": 4.0, "scale": 2.0}
    expected = make(**options).fit(IMAGES)
    assert expected.norm_bound_ < 32
    for name, data in (
        ("fit", IMAGES[::-1]),
        ("fit_batches", [IMAGES[:3], IMAGES[3:4], IMAGES[4:]]),
        ("fit", dask_array.from_array(IMAGES, chunks=(500, 4, 8))),
    ):
        found = getattr(make(**options), name)(data)
        assert found.norm_bound_ == expected.norm_bound_
        assert (found.components_[0] == expected.components_[0]).all()
        assert found.privacy_guarantee_ == expected.privacy_guarantee_


def test_batches_that_are_read_once_need_a_bound():
    with PrivacyBudget(1, 1e-6) as budget:
        with pytest.raises(ValueError, match="Or declare norm_bound"):
            make().fit_batches(iter([IMAGES]))
        with pytest.raises(ValueError, match=r"begins anew\.$"):
            make(n_components=5).fit_batches(iter([IMAGES]))
    assert budget.spent is None
    make(norm_bound=60.0).fit_batches(iter([IMAGES]))


def test_parties_must_know_it():
    model = make(tensor_shape=(8, 8))
    for refused in (
        lambda: party(model, IMAGES),
        lambda: fit_aggregated(model, lambda request: None, n_samples=1200),
    ):
        with pytest.raises(ValueError, match=r"Pass norm_bound: all parties.*norm_bo"):
            refused()


# --- what it costs --------------------------------------------------------------------


@pytest.mark.parametrize(("n", "epsilon"), [(500, 1.0), (1000, 0.5), (50, 10.0)])
def test_too_few_samples_are_refused_before_anything_is_spent(n, epsilon):
    X = IMAGES[:n]
    model = make(epsilon=epsilon)
    assert clone(model).fit(X).privacy_guarantee_.epsilon == epsilon
    with (
        PrivacyBudget(100, 1e-3) as budget,
        drawing() as drawn,
        pytest.raises(
            ValueError,
            match=rf"{n - 1} samples are too few .* takes {n}\. .*PCA\(norm_bound=1.0",
        ),
    ):
        model.fit(X[:-1])
    assert budget.spent is None
    assert not drawn


@pytest.mark.thorough
def test_plans_state_epsilon_and_hold_for_any_number_of_samples():
    for tensor_shape in (None, (8, 8)):
        model = make(tensor_shape=tensor_shape)
        planned = planned_guarantee(model)
        assert planned.epsilon == 1.0
        assert "Declare norm_bound" in planned.statement
        fitted = model.fit(IMAGES).privacy_guarantee_
        for delta in (0.0, 1e-9, 1e-6, 1e-3):
            assert planned.epsilon_at(delta) >= fitted.epsilon_at(delta)
    # Of a fitted one, plans compose as its fits do: searches plan with it.
    planned = planned_guarantee(make().fit(IMAGES))
    assert 1 < planned.epsilon < 1.1
    assert planned.event.events[0].epsilon == 0.1  # the largest search
    for n in (501, 1200, 1200 * 3):
        X = np.concatenate([IMAGES] * 3)[:n]
        fitted = make().fit(X).privacy_guarantee_
        for epsilon in (0.0, 0.1, 0.5, 1.0):
            assert planned.delta_at(epsilon) >= fitted.delta_at(epsilon)
        for delta in (1e-9, 1e-6, 1e-3):
            assert planned.epsilon_at(delta) >= fitted.epsilon_at(delta)
            several = (5 * planned).epsilon_at(delta), (5 * fitted).epsilon_at(delta)
            assert several[1] <= several[0]
    assert (5 * planned).epsilon_at(1e-3) < 2.5
    for ask in (
        partial(expected_error, epsilons=[1.0]),
        partial(epsilon_needed, error=0.1),
    ):
        with pytest.raises(ValueError, match=r"needs norm_bound"):
            ask(make(), IMAGES)


@pytest.mark.filterwarnings("ignore:check_samples is not private")
def test_the_owner_is_told_what_a_fit_finds():
    found = check_samples(make(), IMAGES).found
    assert found["norm_bound"] == "not declared"
    lengths = np.linalg.norm(IMAGES, axis=(1, 2))
    assert found["median length of a sample"] == np.median(lengths)
    few = check_samples(make(), IMAGES[:499])
    assert any("499 samples are too few" in said for said in few.likely_mistakes)
    assert not check_samples(make(), IMAGES[:500]).likely_mistakes


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning")
def test_searches_find_it_in_each_fit():
    model = MultilinearRidgeClassifier((8, 8), classes=range(10), random_state=None)
    grid = {"alpha": ["auto", 1.0]}
    folds = KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(model, grid, cv=folds)
    with PrivacyBudget(6, 1e-4) as budget:
        search.fit(IMAGES, LABELS)
    assert n_released(budget) == 5
    assert budget.spent.protects
    assert privacy_of(search).guarantee.epsilon < 2.5
    assert 60 < search.best_estimator_.norm_bound_ < 80
    private = PrivateSearchCV(model, grid, n_iter=2)
    planned = private.planned_guarantee(IMAGES)
    private.fit(IMAGES, LABELS)
    assert private.privacy_guarantee_.epsilon == planned.epsilon < 5
    assert 60 < private.best_estimator_.norm_bound_ < 80
