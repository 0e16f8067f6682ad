"""The scale of values, found privately: what is selected, counted and refused."""

import itertools
import logging
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import beta
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    Recommender,
    TuckerCompletion,
    check_table,
)
from sktensordp.exceptions import BudgetExceededError, PrivacyLeakWarning
from sktensordp.measure import select
from sktensordp.model_selection import PrivateSearchCV, expected_error
from sktensordp.papers import PublishedCPCompletion
from sktensordp.privacy import (
    PrivacyBudget,
    gaussian_mu,
    planned_guarantee,
    privacy_of,
)
from tests.support.divergence import stick_with_gaussian
from tests.support.noise import source_of
from tests.support.seams import Entries, cells_of, family, log_priors, scale_scores
from tests.support.selection import law, selections

N = 1200
RNG = np.random.default_rng(0)
X = np.column_stack(np.divmod(RNG.permutation(40 * 50)[:N], 50))
STARS = RNG.integers(1, 6, N).astype(float)


def model(**parameters):
    return CPCompletion(
        **{"rank": 0, "epsilon": 2.0, "max_iter": 2, "random_state": 0} | parameters
    )


class Selected(Exception):
    """Ends a fit as soon as it has selected a scale."""


def asked_by(values, epsilon):
    """What a fit passes to permute-and-flip: numerators and their denominator."""
    where = np.arange(2 * len(values)).reshape(-1, 2)
    with selections(stop=Selected) as asked, pytest.raises(Selected):
        model(epsilon=epsilon).fit(where, np.array(values, dtype=float))
    (found,) = asked
    return found


# --- which scale is selected, and with what probability -------------------------------


def held_by(scale, value):
    """Whether a scale holds a value: a slow reference."""
    low, high, step = scale
    margins = [1e-6 * max(abs(end), 1e-3) for end in (low, high)]
    inside = low - margins[0] <= value <= high + margins[1]
    return inside and (not step or abs(value / step - round(value / step)) <= 1e-3)


def test_a_fit_selects_by_scores_as_a_slow_reference_counts_them():
    values = [2, 2, 3.5, 0.1 * 3, 1950, 1e300]
    n, epsilon = len(values), 200.0
    numerators, denominator = asked_by(values, epsilon)
    known = family()
    spent = Fraction(min(600 / n, epsilon / 10))
    expected = []
    for scale, price, log_prior in zip(
        known.scales.tolist(), known.prices, known.log_priors, strict=True
    ):
        n_held = sum(held_by(scale, value) for value in values)
        score = 1000 * (n_held - n) - int(price) * n
        expected.append(score * spent / 2000 + int(log_prior))
    expected.append(-750 * n * spent / 2000)
    found = [Fraction(numerator, denominator) for numerator in numerators]
    # The rate is rounded down to a multiple of 2^-48, and no score exceeds 2^21.
    errors = np.array([a - b for a, b in zip(found, expected, strict=True)], float)
    assert 0 <= errors.min() <= errors.max() < 2**-27


def test_prices_are_of_widths_and_of_numbers_of_levels():
    known = family()
    price = dict(zip(map(tuple, known.scales.tolist()), known.prices, strict=True))
    assert len(price) == len(known.scales) > 4_000
    assert known.prices.min() == 0
    # Twice the width costs 10; so many levels as 1 to 5 against half stars cost 20.
    assert price[0, 10, 0] - price[0, 5, 0] == pytest.approx(10, abs=1)
    assert price[0.5, 5, 0.5] - price[1, 5, 1] == pytest.approx(
        20 + 10 * math.log2(4.5 / 4), abs=1
    )
    # No scale that holds all values loses to none, and none wins over 40% of them.
    assert known.prices.max() < 750
    assert np.all(np.diff(known.edges) > 0)


WORLD = [1.0, 2.0, 5.0, 0.5, -1.0, 1e9, 37.3]


def laws_of(n, epsilon, world):
    """Law of the selected scale for all data sets of n values, by their values."""
    sets = itertools.combinations_with_replacement(range(len(world)), n)
    return {which: law(*asked_by([world[k] for k in which], epsilon)) for which in sets}


def largest_ratio(laws, spent):
    """Largest log ratio of neighbours, as a share of the epsilon of the search."""
    worst = 0.0
    for first, second in itertools.combinations(laws, 2):
        unshared = list(second)
        for value in first:
            if value in unshared:
                unshared.remove(value)
        if len(unshared) == 1:
            ratios = np.log(laws[first]) - np.log(laws[second])
            worst = max(worst, np.abs(ratios).max() / spent)
    return worst


@pytest.mark.parametrize(
    ("n", "world"),
    [
        (1, WORLD),
        pytest.param(2, WORLD, marks=pytest.mark.thorough),
        pytest.param(3, WORLD, marks=pytest.mark.slow),
    ],
)
def test_no_value_changes_the_selection_by_more_than_its_epsilon(n, world):
    epsilon = 1000 / n * (1 + 1e-12)
    spent = min(600 / n, epsilon / 10)
    # Twice the epsilon would be found.
    assert 0.6 < largest_ratio(laws_of(n, epsilon, world), spent) <= 1


def scores_among(values):
    """Scores of all scales for some values."""
    entries = Entries(np.zeros((len(values), 2), np.int32), np.array(values), (1, 1))
    return scale_scores(cells_of(entries), len(values))


def test_no_odd_value_is_held_twice_or_half():
    known, tiny = family(), 5e-324
    ends = RNG.choice(np.unique(known.scales[:, :2]), 60)
    odd = [np.nan, np.inf, -np.inf, tiny, -tiny, 0.0, -0.0, 1e308, -1e308]
    odd += [*ends, *np.nextafter(ends, np.inf), *np.nextafter(ends, -np.inf)]
    for value in odd:
        scores = np.array(scores_among([value])[:-1]) + known.prices
        assert set(scores.tolist()) <= {-1000, 0}
        assert np.isfinite(value) or np.all(scores == -1000)


@pytest.mark.thorough
def test_one_value_more_changes_scores_by_at_most_one_and_the_largest_price():
    """Of the selection at a fixed rate; the rate of a fit depends on the number."""
    spread, epsilon, worst = 1000 + int(family().prices.max()), 2.0, 0.0
    laws = {}
    for n in (1, 2):
        for which in itertools.combinations_with_replacement(range(len(WORLD)), n):
            with selections() as asked:
                select(
                    scores_among([WORLD[k] for k in which]), spread=spread,
                    epsilon=epsilon, streams=source_of(0), log_priors=log_priors(),
                )  # fmt: skip
            laws[which] = law(*asked[0])
    for which, found in laws.items():
        for k in range(len(which)):
            fewer = laws.get(which[:k] + which[k + 1 :])
            if fewer is not None:
                worst = max(worst, np.abs(np.log(found / fewer)).max())
    assert 0.5 * epsilon < worst <= epsilon


@pytest.mark.thorough
def test_an_audit_finds_half_the_noise():
    """A search with twice its epsilon: the certified bound is above what is claimed.

    With probability 1e-6, chance alone would give such a bound for the right noise.
    """
    n_draws, claimed = 1500, 1.0
    scores = ([1000, 0], [0, 1000])
    for factor, is_found in ((1, False), (2, True)):
        rates = []
        for number, own in enumerate(scores):
            drawn = [
                select(own, spread=2000, epsilon=factor * claimed,
                       streams=source_of(2 * seed + number))
                for seed in range(n_draws)
            ]  # fmt: skip
            rates.append(drawn.count(0))
        low = beta.ppf(5e-7, rates[0], n_draws - rates[0] + 1)
        high = beta.isf(5e-7, rates[1] + 1, n_draws - rates[1])
        assert (math.log(low / high) > claimed) == is_found


KINDS = {
    "stars": (np.arange(1.0, 6), [1, 2, 3, 4, 5], (1, 5)),
    "half stars": (np.arange(0.5, 5.5, 0.5), np.arange(0.5, 5.5, 0.5), (0.5, 5)),
    "1 to 10": (np.arange(1.0, 11), np.arange(1, 11), (1, 10)),
    "two levels": (np.arange(2.0), [0, 1], (0, 1)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_clipped_at_20_000_values_and_epsilon_1(kind):
    """In 40 draws; the scale itself is found in most."""
    (world, levels, bounds), rng = KINDS[kind], np.random.default_rng(0)
    values = rng.choice(world, 20_000)
    where = np.column_stack([np.arange(20_000) % 200, np.arange(20_000) // 200])
    hits = 0
    for seed in range(40):
        fitted = model(epsilon=1.0, perturbation="sums", random_state=seed)
        fitted.fit(where, values)
        low, high = fitted.value_bounds_
        assert low <= world[0] < world[-1] <= high
        assert fitted.levels_ is None or np.all(np.isin(world, fitted.levels_))
        same = fitted.levels_ is not None and len(fitted.levels_) == len(levels)
        hits += same and fitted.value_bounds_ == bounds
    assert hits >= 32


@pytest.mark.parametrize(
    ("values", "bounds", "levels"),
    [
        (STARS, (1, 5), [1, 2, 3, 4, 5]),
        (STARS / 2, None, None),
        (STARS * 20, None, None),
        (STARS.astype(np.float32), (1, 5), [1, 2, 3, 4, 5]),
        (-STARS, None, None),
        (1950.3 + STARS, None, None),
    ],
    ids=["stars", "halves", "per cent", "single", "negative", "years"],
)
def test_scales_that_hold_the_values_are_found(values, bounds, levels):
    fitted = model(epsilon=20.0).fit(X, values)
    low, high = fitted.value_bounds_
    assert low <= values.min() < values.max() <= high
    assert high - low < 13 * np.ptp(values)
    if bounds is not None:
        assert fitted.value_bounds_ == bounds
        assert_array_equal(fitted.levels_, levels)
    assert fitted.predict(X).min() >= low
    assert fitted.predict(X).max() <= high


# --- the guarantee --------------------------------------------------------------------


@pytest.mark.parametrize("perturbation", ["auto", "input", "sums", "statistics"])
def test_pure_noise_has_the_whole_epsilon_whatever_is_found(perturbation):
    fitted = model(perturbation=perturbation).fit(X, STARS)
    found = fitted.privacy_guarantee_
    assert (found.epsilon, found.delta) == (2.0, 0.0)
    assert found.unit == "entry"
    assert found.local is False
    assert found.statement == (
        "The scale of the values was found among public ones with epsilon = 0.2; all "
        "else was computed with the rest."
    )
    # A curve that depends on the scale would be below that of pure epsilon-DP.
    pure = (math.exp(2) - math.exp(0.5)) / (1 + math.exp(2))
    assert found.delta_at(0.5) == pytest.approx(pure, rel=1e-3)
    planned = planned_guarantee(model(perturbation=perturbation))
    assert planned_guarantee(fitted) == planned
    assert planned.epsilon == 2.0
    assert privacy_of(fitted).guarantee.epsilon == 2.0
    assert "found among public ones" in privacy_of(fitted).guarantee.statement


def test_gaussian_noise_is_composed_with_the_search():
    epsilon, delta = 2.0, 1e-6
    fitted = model(rank=1, perturbation="gradient", delta=delta).fit(X, STARS)
    found = fitted.privacy_guarantee_
    assert 1.8 < found.epsilon <= epsilon
    # From first principles: binary responses (the search, and the mean with a share of
    # .05 of the rest), and one Gaussian.
    search, left = 0.2, 1.8
    mu = gaussian_mu(0.95 * left, delta)
    losses, masses = np.zeros(1), np.ones(1)
    for part in (search, 0.05 * left):
        own = np.array([part, -part])
        chance = 1 / (1 + np.exp(-own))
        losses = np.add.outer(losses, own).ravel()
        masses = np.outer(masses, chance).ravel()
    for at in (0.5, 1.0, 1.6):
        true = stick_with_gaussian((losses, masses), mu, at)
        assert true <= found.delta_at(at) <= 1.2 * true
    # What is planned without data holds for every number of values, too.
    planned = planned_guarantee(fitted)
    assert (planned.epsilon, planned.delta) == (epsilon, delta)
    for at in (0.0, 0.5, 1.0, 1.9, 2.0):
        assert planned.delta_at(at) >= found.delta_at(at) * (1 - 1e-9)


def test_the_rest_of_epsilon_is_what_the_noise_has():
    """The model is that of a fit that declares the scale, with the rest of epsilon."""
    found = model(perturbation="input").fit(X, STARS)
    left = math.nextafter(2.0 - 0.2, 0)
    declared = model(perturbation="input", epsilon=left, levels=[1, 2, 3, 4, 5])
    declared.fit(X, STARS)
    assert_array_equal(found.predict(X), declared.predict(X))
    assert declared.privacy_guarantee_.epsilon <= left


def test_a_budget_counts_the_search_and_admits_no_more(keys):
    with PrivacyBudget(2.0) as budget:
        model().fit(X, STARS)
        assert budget.spent.epsilon == 2.0
        with pytest.raises(BudgetExceededError):
            model(epsilon=1.0).fit(X, STARS)
    assert len(keys) == 1


# --- refusals -------------------------------------------------------------------------


def test_too_few_values_are_refused_before_anything_is_spent(keys):
    few = X[:999], STARS[:999]
    with PrivacyBudget(1.0) as budget:
        with pytest.raises(ValueError, match=r"999 values .* takes 1000") as got:
            model(epsilon=1.0).fit(*few)
        assert "levels=[1, 2, 3, 4, 5]" in str(got.value)
        with pytest.raises(ValueError, match="too few"):
            model(epsilon=1.0).partial_fit(*few)
        assert budget.spent is None
        # The limit itself is enough.
        model(epsilon=1.0).fit(X[:1000], STARS[:1000])
    assert len(keys) == 1


def test_no_usual_scale_is_an_error_that_has_cost_its_epsilon():
    values = 1e12 * (1 + RNG.random(N))
    estimator = model().fit(X, STARS)
    with (
        PrivacyBudget(2.0) as budget,
        pytest.raises(ValueError, match="has spent the budget") as got,
    ):
        estimator.fit(X, values)
    assert budget.spent.epsilon == 2.0
    assert not any(character.isdigit() for character in str(got.value))
    # Nothing is left of the fit before.
    assert not hasattr(estimator, "value_bounds_")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_refused_first(bad, keys):
    values = STARS.copy()
    values[3] = bad
    with (
        PrivacyBudget(2.0) as budget,
        pytest.raises(ValueError, match=r"NaN|infinity"),
    ):
        model().fit(X, values)
    assert budget.spent is None
    assert not keys


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"smooth_modes": [0], "perturbation": "sums"}, "smooth_modes"),
        ({"rank": 100}, "rank"),
        ({"perturbation": "gradient", "delta": 0.0}, "delta"),
        ({"level_prior": [0.5, 0.5]}, "level_prior needs levels"),
    ],
)
def test_what_no_scale_would_make_possible_costs_nothing(parameters, message, keys):
    with PrivacyBudget(4.0, 0.1) as budget, pytest.raises(ValueError, match=message):
        model(**parameters).fit(X, STARS)
    assert budget.spent is None
    assert not keys


def test_those_who_cannot_search_ask_for_the_scale():
    for ask in (lambda m: m.client(), lambda m: m.fit_randomized(X, STARS)):
        with pytest.raises(ValueError, match=r"Declare.*levels=model\.levels_"):
            ask(model())
    with pytest.raises(ValueError, match="Declare value_bounds or levels"):
        expected_error(model(perturbation="sums"), X, epsilons=[1.0])
    with pytest.raises(ValueError, match="score_bounds"):
        PrivateSearchCV(model(), {"epsilon": [1.0]}, n_iter=2).fit(X, STARS)
    for estimator in (
        model(unit=0, shape=(40, 50)),
        PublishedCPCompletion(1, max_iter=1, random_state=0),
    ):
        with pytest.warns(PrivacyLeakWarning, match="read off the private values"):
            estimator.fit(X, STARS)
        assert estimator.privacy_guarantee_.epsilon == math.inf


def test_without_noise_the_range_is_that_of_the_values():
    fitted = model(epsilon=math.inf).fit(X, STARS)
    assert fitted.value_bounds_ == (1, 5)
    assert fitted.levels_ is None


# --- wherever values come from --------------------------------------------------------


def test_batches_select_as_one_fit_does():
    whole = model().fit(X, STARS)
    parts = model().fit_batches([(X[:500], STARS[:500]), (X[500:], STARS[500:])])
    assert_array_equal(whole.predict(X), parts.predict(X))
    assert_array_equal(whole.levels_, parts.levels_)


def test_dense_tensors_and_tucker_models():
    tensor = np.full((20, 10, 8), np.nan)
    places = RNG.choice(tensor.size, 900, replace=False)
    tensor.ravel()[places] = RNG.integers(0, 2, 900)
    fitted = TuckerCompletion(0, epsilon=8.0, random_state=0).fit(tensor)
    assert fitted.value_bounds_ == (0, 1)
    assert fitted.privacy_guarantee_.epsilon == 8
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.transform(tensor), fitted.transform(tensor))
    assert_array_equal(again.levels_, [0, 1])


def test_later_batches_keep_the_scale_and_its_share():
    first = model(perturbation="input").partial_fit(X[:800], STARS[:800])
    assert first.privacy_guarantee_.epsilon == 2
    before = first.levels_
    with PrivacyBudget(4.0) as budget:
        # These may be as few as one likes, and on any scale.
        first.partial_fit(X[800:803], [1e6, -3.0, 2.5])
    # min(600 / 800, 2 / 10) was the search's.
    assert budget.spent.epsilon == pytest.approx(1.8)
    assert_array_equal(first.levels_, before)
    assert first.privacy_guarantee_.epsilon == 2
    # As much of a smaller epsilon, and never all of it.
    first.set_params(epsilon=0.1)
    with PrivacyBudget(4.0) as budget:
        first.partial_fit(X[803:806], STARS[803:806])
    assert budget.spent.epsilon == pytest.approx(0.09)
    # Without noise, nothing is subtracted.
    clear = pickle.loads(pickle.dumps(first)).set_params(epsilon=math.inf)
    assert clear.partial_fit(X[1000:1002], STARS[1000:1002]).n_iter_ > 0
    # The scale may be declared from now on, but no other one.
    first.set_params(levels=before).partial_fit(X[806:808], STARS[806:808])
    with pytest.raises(ValueError, match="must be those of the fit"):
        first.set_params(levels=[1, 2, 3]).partial_fit(X[808:], STARS[808:])


def test_users_are_folded_in_on_the_scale_that_was_found():
    fitted = model(rank=1, personal=True, epsilon=4.0).fit(X, STARS)
    assert "that person only" in str(fitted.privacy_guarantee_)
    with pytest.warns(UserWarning, match="scale of the fit, 1 to 5, to which they"):
        fitted.fold_in([[40, 0], [40, 1]], [1e6, -1e6])
    declared = pickle.loads(pickle.dumps(fitted))
    declared.fold_in([[40, 0], [40, 1]], [5.0, 1.0])
    at = [[40, item] for item in range(5)]
    assert_array_equal(fitted.predict(at), declared.predict(at))


def test_pipelines_tables_and_searches():
    table = np.column_stack([X[:, 0] + 1000, X[:, 1] + 7])
    pipeline = make_pipeline(CoordinateEncoder(), model()).fit(table, STARS)
    assert privacy_of(pipeline).guarantee.epsilon == 2
    table_model = Recommender(model()).fit(table, STARS)
    assert_array_equal(table_model.completion_.levels_, pipeline[-1].levels_)
    search = GridSearchCV(model(), {"epsilon": [2.0, 4.0]}, cv=2).fit(X, STARS)
    # Each candidate is fitted to one of two training parts; then the best, to all.
    best = search.best_params_["epsilon"]
    assert privacy_of(search).guarantee.epsilon == pytest.approx(2 + 4 + best)


def test_a_private_search_needs_the_range_of_its_scores_alone():
    search = PrivateSearchCV(
        model(perturbation="sums"), {"rank": [0, 1]}, n_iter=2, random_state=0,
        score_bounds=(-16, 0),
    ).fit(X, STARS)  # fmt: skip
    assert search.best_estimator_.levels_ is not None
    assert math.isfinite(search.privacy_guarantee_.epsilon)


def test_the_report_and_the_table_for_the_owner_say_so(capsys):
    report = str(privacy_of(model(epsilon=20.0).fit(X, STARS)))
    assert "The scale of the values was found" in report
    assert "5 levels from 1 to 5" in report
    declared = model(levels=[1, 2, 3, 4, 5]).fit(X, STARS)
    assert "was found" not in str(privacy_of(declared))
    for unit, told in (("entry", "found by the fit"), (0, "not declared")):
        with pytest.warns(PrivacyLeakWarning, match="check_table is not private"):
            assert check_table(model(unit=unit), X, STARS)["range"] == told


def test_the_log_says_what_was_found(caplog):
    with caplog.at_level(logging.INFO, logger="sktensordp"):
        model(epsilon=20.0).fit(X, STARS)
    assert "found privately: 5 levels from 1 to 5" in caplog.text


def test_clones_and_unfitted_estimators():
    fitted = model().fit(X, STARS)
    assert clone(fitted).levels is None
    with pytest.raises(AttributeError):
        _ = model().levels_
