"""What a private search is charged, against formulas made by hand and real runs."""

import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import beta, chisquare, geom, poisson
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, PredefinedSplit, RepeatedKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from sktensordp.base import PrivateEstimatorMixin, recorded_fit
from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism, MatrixMechanism
from sktensordp.model_selection import PrivateSearchCV, UserHoldout, UserKFold
from sktensordp.privacy import PrivacyBudget, gaussian_mu, privacy_of
from tests.support.budgets import n_released, recording
from tests.support.divergence import gaussian_stick
from tests.support.guarantees import pure
from tests.support.noise import drawing
from tests.support.seams import STEPS, Rows, Split, Users, row_score, use_counts

pytestmark = pytest.mark.thorough
X, Y = np.arange(24.0)[:, None], np.arange(24) % 2
MOST = 100.0  # so many tries that no shift but the largest helps


GUARANTEES = {epsilon: pure(epsilon) for epsilon in (0.5, 1.0, 2.0, 3.0)}


class Flip(PrivateEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Releases the first label by randomised response, and predicts it."""

    fits: list = []  # noqa: RUF012 (what all clones were fitted to)

    def __init__(self, epsilon=1.0, which=0, really=None, random_state=None):
        self.epsilon = epsilon
        self.which = which
        self.really = really
        self.random_state = random_state

    def __privacy_plan__(self, fitted=None, *, any_shape=False):
        return GUARANTEES[self.epsilon]

    def fit(self, X, y):
        released = GUARANTEES[self.really or self.epsilon]
        with recorded_fit(self, released) as source:
            uniform = (int(source.stream(0).random_raw()) >> 11) / 2**53
        lies = uniform < 1 / (1 + math.exp(self.epsilon))
        self.bit_ = int(y[0]) ^ int(lies)
        Flip.fits.append((self.which, [int(row) for row in X[:, 0]]))
        return self

    def predict(self, X):
        return np.full(len(X), self.bit_)


def search(estimator=None, params=None, **kwargs):
    kwargs = {"n_iter": 3, "refit": False, **kwargs}
    return PrivateSearchCV(estimator or Flip(), params or {"which": [0]}, **kwargs)


@pytest.fixture
def log():
    """Records of releases, and all that is drawn, in order."""
    happened = []
    with (
        recording(happened.append),
        drawing(after=lambda *_: happened.append("drawn")),
    ):
        yield happened


def planned(search, X=X):
    """What a search would be charged, nothing being fitted."""
    return search.planned_guarantee(X)


HOLDOUT, TWICE = None, RepeatedKFold(n_splits=2, n_repeats=2, random_state=0)
IN_TRAINING = PredefinedSplit([-1] * 4 + [0] * 20)
FOLDS = PredefinedSplit([-1] * 4 + [0, 1] * 10)
# What the record that is charged most takes of fits, and of scores.
CHARGED = [
    (HOLDOUT, lambda fit, score: max(fit, score)),
    (3, lambda fit, score: 2 * fit + score),
    (KFold(4), lambda fit, score: 3 * fit + score),
    (TWICE, lambda fit, score: 2 * fit + score),
    (ShuffleSplit(3, random_state=0), lambda fit, s: max(3 * fit, 2 * fit + s)),
    (IN_TRAINING, lambda fit, score: max(fit, score)),
    (FOLDS, lambda fit, score: max(2 * fit, fit + score)),
]


@pytest.mark.parametrize(
    ("cv", "formula", "score", "eta"),
    [
        pytest.param(*case, score, eta, marks=() if i in (1, 4) else pytest.mark.slow)
        for i, case in enumerate(CHARGED)
        for score, eta in [((0.5, 3.0)[i % 2], i // 2 % 2)]
    ],
)
def test_pure_tries_cost_two_plus_eta_times_one(cv, formula, score, eta):
    one = formula(0.5, score)
    made = search(Flip(0.5), cv=cv, score_epsilon=score, eta=eta, n_iter=1000)
    guarantee = planned(made)
    assert guarantee.delta == 0
    assert guarantee.epsilon <= (2 + eta) * one + 1e-9
    if one <= 2.5:  # or else an even smaller shift holds
        assert guarantee.epsilon == pytest.approx((2 + eta) * one, rel=1e-5)


@pytest.mark.parametrize("cv", [None, 3])
def test_a_last_fit_costs_one_more(cv):
    def cost(refit):
        return planned(search(Flip(0.5), cv=cv, score_epsilon=0.5, refit=refit)).epsilon

    assert cost("keep") == cost(False) == cost(np.False_)
    # It may be said by NumPy, too.
    assert cost(True) == cost(np.True_) == pytest.approx(cost(False) + 0.5)
    made = search(refit=np.True_).fit(X, Y)
    assert made.privacy_guarantee_.epsilon > 2
    assert len(Flip.fits[-1][1]) == len(X)


def odds(mean, eta):
    """a / (1 - a) of the truncated negative binomial law, from its mean."""
    if eta == 1:
        return mean - 1
    return brentq(lambda x: x / math.log1p(x) - mean, 1e-6, 1e6)


@pytest.mark.parametrize(
    ("mean", "eta", "epsilon"), [(1.5, 0.0, 2.0), (3, 1.0, 0.5), (20, 0.0, 0.5)]
)
def test_a_choice_of_few_costs_less(mean, eta, epsilon):
    made = search(Flip(epsilon), n_iter=mean, eta=eta, score_epsilon=epsilon)
    # Neighbours differ by tanh(e / 2) in total variation, at most.
    moved = odds(mean, eta) * math.tanh(epsilon / 2)
    shift = (1 + eta) * min(epsilon, math.log1p(moved))
    assert planned(made).epsilon == pytest.approx(epsilon + shift, rel=1e-5)


@pytest.mark.parametrize("mean", [0.5, 1.0, 5.0])
def test_a_poisson_number_costs_its_mean_times_the_variation(mean):
    made = search(n_iter_distribution="poisson", n_iter=mean, score_epsilon=1.0)
    expected = 1 + mean * math.tanh(0.5)
    assert planned(made).epsilon == pytest.approx(expected, rel=1e-5)


def fitted_or_scored(mu, score):
    """Delta of a fit with Gaussian noise, or of its score if that says more."""

    def curve(h):
        scored = max(0.0, math.exp(score) - math.exp(h)) / (1 + math.exp(score))
        return max(float(gaussian_stick(mu, h)), scored)

    return curve


def shift_of(curve, mean):
    """What a choice among so many tries adds to epsilon, for eta = 1."""
    tried = np.linspace(0, 3, 3001)
    return 2 * min(math.log(math.exp(h) + (mean - 1) * curve(h)) for h in tried)


@pytest.mark.parametrize(
    ("law", "mean"), [("negative_binomial", 4.0), ("poisson", 2.0)]
)
def test_gaussian_tries_follow_the_curve(law, mean):
    epsilon, delta, score = 1.0, 1e-6, 0.8
    noise = GaussianMechanism(epsilon, delta=delta, bounds=(0, 24))
    made = search(
        make_pipeline(noise, Ridge()), {"ridge__alpha": [1.0]}, n_iter=mean,
        n_iter_distribution=law,
        score_epsilon=score, score_bounds=(-1, 0), eta=1.0,
    )  # fmt: skip
    curve = fitted_or_scored(gaussian_mu(epsilon, delta), score)
    shift = mean * curve(0.0) if law == "poisson" else shift_of(curve, mean)
    guarantee = planned(made)
    assert guarantee.delta == pytest.approx(mean * delta, rel=1e-4)
    assert guarantee.epsilon == pytest.approx(epsilon + shift, rel=2e-3)
    for more in (0.0, 0.3, 1.0):
        most = mean * curve(epsilon + more)
        assert guarantee.delta_at(epsilon + shift + more) <= most * 1.01
    again = planned(made.set_params(refit=True))
    assert guarantee.epsilon < again.epsilon < guarantee.epsilon + epsilon
    assert again.delta == pytest.approx((mean + 1) * delta, rel=1e-4)


def test_a_user_is_fitted_or_scored():
    epsilon, delta, score, mean = 0.5, 1e-6, 0.25, 4.0
    model = CPCompletion(0, unit=0, shape=(6, 4), levels=[1, 2, 3], epsilon=epsilon)
    where = np.array([[i % 6, i % 4] for i in range(24)])
    made = search(model, {"max_iter": [2]}, n_iter=mean, eta=1.0, score_epsilon=score)
    guarantee = planned(made, where)
    assert guarantee.unit == 0
    assert guarantee.relation == "add-or-remove"
    curve = fitted_or_scored(gaussian_mu(epsilon, delta), score)
    one = brentq(lambda h: curve(h) - delta, 0, 2)
    assert one == pytest.approx(epsilon, rel=1e-6)
    # The curve is that of a composition on a grid, which is a little larger.
    one += shift_of(curve, mean)
    assert 1 <= guarantee.epsilon_at(mean * delta) / one < 1.05


@pytest.mark.parametrize(
    "cv", [None, 3, KFold(4, shuffle=True), TWICE, ShuffleSplit(3), IN_TRAINING, FOLDS]
)
def test_no_record_is_used_more_often_than_charged(cv):
    tested = []

    def scoring(estimator, X, y):
        tested.append([int(row) for row in X[:, 0]])
        return np.zeros(len(X))

    # One try: another number has a probability below 2e-9.
    options = {"scoring": scoring, "score_bounds": (0, 1), "n_iter": 1 + 1e-9}
    charged = use_counts(Rows(), cv)
    seen = set()
    for _ in range(10):
        Flip.fits.clear(), tested.clear()
        made = search(cv=cv, **options).fit(X, Y)
        assert len(Flip.fits) == len(tested) == made.n_splits_
        trained = Counter(row for _, rows in Flip.fits for row in rows)
        held_out = Counter(row for rows in tested for row in rows)
        seen |= {(trained[row], held_out[row]) for row in range(len(X))}
    for pair in seen:
        assert any(pair[0] <= a and pair[1] <= b for a, b in charged)
    # No case is charged that does not occur; some are rare.
    assert cv is None or isinstance(cv, ShuffleSplit) or set(charged) == seen


def test_one_search_is_one_record_before_anything_is_drawn(log):
    with PrivacyBudget(50) as budget:
        made = search(cv=3, refit=True).fit(X, Y)
    assert log[0] == "fit of PrivateSearchCV"
    assert log.count("drawn") >= 6
    assert set(log) == {"fit of PrivateSearchCV", "drawn"}
    assert log.count("fit of PrivateSearchCV") == 1
    assert budget.spent.epsilon == made.privacy_guarantee_.epsilon
    assert privacy_of(made).guarantee == made.privacy_guarantee_
    # The candidates were not charged; what the best releases later is.
    Flip().fit(X, Y)
    assert log[-2:] == ["fit of Flip", "drawn"]


def test_a_refused_search_draws_nothing(log):
    made = search(refit=True).fit(X, Y)
    before = dict(vars(made))
    log.clear()
    Flip.fits.clear()
    with (
        PrivacyBudget(made.privacy_guarantee_.epsilon - 0.01) as budget,
        pytest.raises(BudgetExceededError, match="nothing was drawn"),
    ):
        made.fit(X, Y)
    assert not log
    assert not Flip.fits
    assert budget.spent is None
    # What was released before is still there.
    assert vars(made) == before


@pytest.mark.slow
def test_a_gaussian_search_is_admitted_by_a_budget():
    noise = GaussianMechanism(1.0, delta=1e-6, bounds=(0, 24))
    made = search(
        make_pipeline(noise, Ridge()), {"ridge__alpha": [1.0]}, score_bounds=(-1, 0)
    )
    with PrivacyBudget(8.0, 1e-4) as budget:
        made.fit(X, Y)
    spent = budget.spent
    assert spent.epsilon == made.privacy_guarantee_.epsilon_at(spent.delta)


def test_a_candidate_that_says_more_is_stopped_before_its_noise(log):
    made = search(Flip(1.0, really=2.0))
    Flip.fits.clear()
    with PrivacyBudget(50) as budget, pytest.raises(RuntimeError, match="planned"):
        made.fit(X, Y)
    # The splits, the number of tries and the first candidate: one stream, no noise.
    assert log == ["fit of PrivateSearchCV", "drawn"]
    assert Flip.fits == []
    assert not hasattr(made, "best_params_")
    assert budget.spent.epsilon == made.privacy_guarantee_.epsilon


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_budget_counts_a_search_in_other_processes(n_jobs):
    rng = np.random.default_rng(0)
    where = np.stack([rng.integers(8, size=200), rng.integers(6, size=200)], axis=1)
    model = CPCompletion(0, levels=[1, 2, 3], max_iter=2)
    made = search(model, {"max_iter": [2, 3]}, n_jobs=n_jobs, refit="keep")
    with PrivacyBudget(10) as budget:
        made.set_params(cv=2).fit(where, rng.integers(1, 4, size=200))
        assert n_released(budget) == 1
        # What came back from there may release here again, and is charged.
        made.best_estimator_.fit(where, np.ones(200))
    assert budget.spent.epsilon == pytest.approx(made.privacy_guarantee_.epsilon + 1)


def tries_of(made, n_runs):
    """The candidates of so many searches, in order."""
    found = []
    for _ in range(n_runs):
        Flip.fits.clear()
        made.fit(X[:6], Y[:6])
        found.append([which for which, _ in Flip.fits])
    return found


def follows(counts, law, rejected=1e-6):
    """Whether numbers of tries have a distribution; false alarms: `rejected`."""
    expected = law.pmf(np.arange(500)) * len(counts)
    edge = int(np.flatnonzero(np.cumsum(expected[::-1])[::-1] >= 8)[-1])
    start = int(expected[0] == 0)
    observed = np.bincount(np.minimum(counts, edge), minlength=edge + 1)
    grouped = np.append(expected[:edge], expected[edge:].sum())
    return bool(chisquare(observed[start:], grouped[start:]).pvalue > rejected)


@pytest.mark.slow
def test_the_number_of_tries_has_its_law_and_candidates_are_independent():
    made = search(params={"which": [0, 1, 2]}, n_iter=4.0, eta=1.0)
    tries = tries_of(made, 350)
    counts = [len(candidates) for candidates in tries]
    assert follows(counts, geom(1 / 4))
    for mean in (2.5, 6.5):
        assert not follows(counts, geom(1 / mean))
    pairs = np.zeros((3, 3))
    for candidates in tries:
        for one, after in zip(candidates[::2], candidates[1::2], strict=False):
            pairs[one, after] += 1
    # Uniform, and with replacement: without, no pair is equal.
    assert pairs.sum() > 300
    assert chisquare(pairs.ravel()).pvalue > 1e-6
    assert chisquare(pairs.ravel() * (1 - np.eye(3)).ravel()).pvalue < 1e-6


def test_a_poisson_number_of_tries_has_its_law():
    counts = [
        len(one)
        for one in tries_of(search(n_iter_distribution="poisson", n_iter=1.5), 150)
    ]
    assert follows(counts, poisson(1.5))
    for mean in (0.9, 2.5):
        assert not follows(counts, poisson(mean))
    assert counts.count(0) > 20


@pytest.mark.slow
def test_audit_of_a_choice_that_is_the_worst_for_its_tries():
    # The score tells whether the flipped bit is 1: the best of all tries seldom is 0
    # where each one seldom is.
    test_rows = 60
    made = search(
        Flip(2.0), cv=PredefinedSplit([-1] + [0] * test_rows), n_iter=3, eta=1.0,
        score_epsilon=2.0, refit="keep",
    )  # fmt: skip
    rows = np.zeros((1 + test_rows, 1))

    def zeros(bit, n_runs):
        y = np.append(bit, np.ones(test_rows, dtype=int))
        return sum(made.fit(rows, y).best_estimator_.bit_ == 0 for _ in range(n_runs))

    n_often, n_seldom = 200, 1000
    often, seldom = zeros(0, n_often), zeros(1, n_seldom)
    # Clopper-Pearson, 97.5% at either end: epsilon is larger with 95% confidence.
    least = beta.ppf(0.025, often, n_often - often + 1)
    most = beta.ppf(0.975, seldom + 1, n_seldom - seldom)
    lower = math.log(least / most)
    # With other keys, in some 3 of 10,000 runs less is shown.
    assert lower > 2.0, "the checker does not see that the choice is not free"
    assert lower <= made.privacy_guarantee_.epsilon <= 6.0
    # Of the geometric law: each try has the bit with probability p, the best with
    exact = [p / (3 - 2 * p) for p in (1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2)))]
    assert often / n_often == pytest.approx(exact[0], abs=0.2)
    assert seldom / n_seldom == pytest.approx(exact[1], abs=0.04)


def test_tries_of_a_mechanism_are_charged_once_though_it_draws_to_score(log):
    noise = LaplaceMechanism(1.0, bounds=(0, 24))
    made = search(
        make_pipeline(noise, Ridge()), {"ridge__alpha": [1.0, 2.0]},
        score_bounds=(-1, 0), refit="keep", n_iter=MOST / 10,
    ).fit(X, Y)  # fmt: skip
    assert log.count("fit of PrivateSearchCV") == len(log) - log.count("drawn") == 1
    made.predict(X)
    assert log.count("transform of LaplaceMechanism") == 1


def test_no_two_tries_share_their_noise():
    with drawing() as streams:
        search(n_iter=20, refit="keep", random_state=1).fit(X, Y)
    assert len(streams) > 10
    assert len(set(streams)) == len(streams)


class Words:
    """Bits of which two objects give the same."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def random_raw(self, size=None):
        return self.rng.integers(2**64, size=size, dtype=np.uint64)


def test_users_are_held_out_by_their_ids_and_rows_by_coins():
    users, rng = Users(0), np.random.default_rng(1)
    n_rows, out, coins = 5000, [], []
    for _ in range(2):
        where = rng.integers(20, size=(n_rows, 2))
        (split,) = users.splits(where, where[:, 0], None, 0.4, Words())
        parts = split.train, split.test, split.history
        assert sorted(np.concatenate(parts)) == list(range(n_rows))
        held_out = np.concatenate(parts[1:])
        assert not set(where[split.train, 0]) & set(where[held_out, 0])
        out.append(set(where[held_out, 0]))
        known = np.full(n_rows, -1)
        known[split.test], known[split.history] = 0, 1
        coins.append(known)
        # False alarms: six standard deviations.
        share = len(split.history) / len(held_out)
        assert share == pytest.approx(0.8, abs=6 * math.sqrt(0.16 / len(held_out)))
    assert out[0] == out[1]
    assert 0 < len(out[0]) < 20
    both = (coins[0] >= 0) & (coins[1] >= 0)
    assert np.array_equal(coins[0][both], coins[1][both])


def test_every_user_who_is_held_out_is_tested():
    """Also one with a single row, whatever the coins."""
    where = np.column_stack([np.repeat(np.arange(300), 2), np.zeros(600, int)])
    where = np.concatenate([where, [[300 + k, 0] for k in range(300)]])
    where = np.random.default_rng(3).permutation(where)
    for cv in (None, UserKFold(3), UserHoldout(n_splits=3)):
        tested = set()
        for split in Users(0).splits(where, None, cv, 0.4, Words()):
            held_out = set(where[np.append(split.test, split.history), 0])
            assert set(where[split.test, 0]) == held_out
            tested |= held_out
        assert len(tested) == 600 or not isinstance(cv, UserKFold)


def test_the_score_is_divided_by_what_was_released():
    """Who is held out enters by the noisy sum alone."""

    class Fit:
        def __init__(self, n_units):
            self._fitted = SimpleNamespace(model=SimpleNamespace(n_units=n_units))

    def splits(n_users, share):
        users = np.repeat(np.arange(n_users), 3)
        no_rows = np.arange(0)
        return [Split(no_rows, users, no_rows, users, share)]

    for n_users in (0, 1, 50, 51):
        mean = Users(0).mean(-25.0 * STEPS, splits(n_users, 0.2), [Fit(400.0)])
        assert mean == pytest.approx(STEPS * (1 - 25 / 100))
        halves = splits(n_users, 0.5) + splits(n_users + 1, 0.5)
        mean = Users(0).mean(-25.0 * STEPS, halves, [Fit(40.0), Fit(60.0)])
        assert mean == pytest.approx(STEPS * (1 - 25 / 100))


def test_the_score_of_users_is_their_mean():
    """Two folds test every user once, and their fits count every user once."""
    ratings = make_ratings(400, 20, 6000, random_state=0)
    model = CPCompletion(
        0, unit=0, epsilon=200.0, levels=ratings.levels, shape=(2**31 - 2, 20)
    )
    made = PrivateSearchCV(
        model, {"rank": [0]}, n_iter=2, cv=UserKFold(2), score_epsilon=200.0
    ).fit(ratings.data, ratings.target)
    spread = np.var(ratings.target)
    # That of a new user, of whom four fifths of some 15 ratings are known.
    assert 0.3 * spread < -made.best_score_ < 1.1 * spread
    assert made.privacy_guarantee_.unit == 0
    assert "divided by the noisy number of users" in made.privacy_guarantee_.statement


def test_all_rows_of_a_user_move_the_sum_by_the_steps_of_one():
    rng = np.random.default_rng(2)
    users, score = Users(0), row_score(lambda e, X, y: y, (-1, 1), None)
    values = [-1.0, 1.0, np.nan, 0.3, 7.0]

    def total(where, y):
        split = Split(*[np.arange(0)] * 3, users=where[:, 0])
        return users.contributions(score.steps(None, where, y), split).sum()

    moves = []
    for _ in range(300):
        n_rows = rng.integers(0, 12)
        where = rng.integers(0, 5, size=(n_rows, 2))
        y = rng.choice(values, size=n_rows)
        others = where[:, 0] != 2
        n_mine = rng.choice([0, 0, 1, 5])
        # Wherever the rows of the user stand: the others keep their coins.
        mine = np.column_stack([np.full(n_mine, 2), rng.integers(0, 5, n_mine)])
        changed = np.concatenate([mine, where[others]])
        new_y = np.concatenate([np.full(n_mine, rng.choice(values)), y[others]])
        moves.append(abs(total(changed, new_y) - total(where, y)))
    assert max(moves) == STEPS
    assert total(np.zeros((0, 2), int), np.zeros(0)) == 0


def test_nan_predictions_are_the_worst_score():
    score = row_score("neg_mean_squared_error", (-4, 0), None)

    class Nan:
        def predict(self, X):
            return np.array([np.nan, 1.0, 3.0, np.inf])

    steps = score.steps(Nan(), np.zeros((4, 1)), np.array([1.0, 1.0, 2.0, 2.0]))
    assert steps.tolist() == [0, STEPS, STEPS * 3 // 4, 0]
    assert score.reported(STEPS / 2) == -2
    root = row_score("neg_root_mean_squared_error", (-4, 0), None)
    assert root.reported(STEPS / 4) == -np.sqrt(3)
    assert row_score(None, None, CPCompletion(0, levels=[1, 2, 3, 4, 5])).bounds == (
        -16,
        0,
    )


@pytest.mark.parametrize("place", ["estimator", "candidate"])
def test_what_may_mix_the_cells_of_a_sample_is_refused(place):
    """Normalizer changes all cells of a sample where one of them changes."""
    model = make_pipeline(Normalizer(), MatrixMechanism(), Ridge())
    grid = {"ridge__alpha": [1.0, 2.0]}
    if place == "candidate":
        model.set_params(normalizer="passthrough")
        grid["normalizer"] = ["passthrough", Normalizer()]
    search = PrivateSearchCV(model, grid, score_bounds=(-1, 1))
    refused = pytest.raises(ValueError, match="Normalizer may mix the cells")
    with PrivacyBudget(99.0, 0.5) as budget, refused:
        search.fit(np.ones((24, 3)), Y.astype(float))
    assert budget.spent is None
