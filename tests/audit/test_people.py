"""Audits with canaries: neighbours, guesses that stay valid, and what is found."""

import pickle
import re

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from sktensordp.audit import (
    AuditReport,
    audit_mechanism,
    audit_one_run,
    audit_recommender,
    audit_tables,
    audit_training,
)
from sktensordp.completion import CPCompletion, ImplicitCompletion
from sktensordp.datasets import make_choices, make_ratings
from sktensordp.moments import MultilinearRidgeClassifier
from sktensordp.recommend import CoordinateEncoder, Recommender
from tests.support.seams import Bits, Customers, Labels, Ratings, attacks, guessed

CHOICES = make_choices(200, 60, 3000, random_state=0).data
RATINGS = make_ratings(200, 60, 3000, random_state=0)
rng = np.random.default_rng


def popularity(X, accounts, shape):
    counts = np.bincount(X[:, 1], minlength=shape[1]).astype(float)
    return np.tile(counts, (len(np.unique(accounts[:, 0])), 1))


# --- canaries -----------------------------------------------------------------


@pytest.mark.parametrize("canaries", ["customers", "planted"])
@pytest.mark.parametrize("has_ratings", [False, True])
def test_a_bit_adds_or_removes_one_customer(canaries, has_ratings):
    X, y = RATINGS.data, RATINGS.target if has_ratings else None
    people = Customers(X, y, 60, canaries, 30, rng(1))
    bits = rng(2).random(30) < 0.5
    for k in range(30):
        with_it, without = bits.copy(), bits.copy()
        with_it[k], without[k] = True, False
        more, values = people.table(with_it)
        fewer, fewer_values = people.table(without)
        added = np.setdiff1d(np.unique(more[:, 0]), np.unique(fewer[:, 0]))
        assert len(added) == 1
        kept = more[:, 0] != added[0]
        np.testing.assert_array_equal(more[kept], fewer)
        if has_ratings:
            np.testing.assert_array_equal(values[kept], fewer_values)
    # No table holds an account, and all of them fit into the shape.
    everybody = people.table(np.ones(30, dtype=bool))[0]
    assert not np.isin(people.users, everybody[:, 0]).any()
    assert everybody.max(axis=0).tolist() <= [people.users[0] - 1, 59]
    assert people.users[-1] == people.shape[0] - 1


@pytest.mark.parametrize("canaries", ["customers", "planted"])
def test_an_account_holds_all_items_of_its_canary_but_one(canaries):
    people = Customers(CHOICES, None, 60, canaries, 30, rng(1))
    everybody = people.table(np.ones(30, dtype=bool))[0]
    for account in people.users:
        items = everybody[everybody[:, 0] == account - 30, 1]
        own = people.accounts[0][people.accounts[0][:, 0] == account, 1]
        assert set(own) < set(items)
        assert len(own) == len(items) - 1 >= 3


def test_a_bit_replaces_one_rating():
    people = Ratings(RATINGS.data, RATINGS.target, 60, "planted", 30, rng(1))
    X, low = people.table(np.zeros(30, dtype=bool))
    for k in range(30):
        bits = np.arange(30) == k
        changed, y = people.table(bits)
        np.testing.assert_array_equal(changed, X)
        (place,) = np.flatnonzero(y != low)
        assert (low[place], y[place]) == (RATINGS.target.min(), RATINGS.target.max())
        np.testing.assert_array_equal(X[place], people.pairs[k])


@pytest.mark.parametrize("relation", ["add-or-remove", "replace-one"])
def test_a_bit_changes_one_sample(relation):
    X, y = np.arange(100.0)[:, np.newaxis], np.arange(100) % 3
    people = Labels(X, y, relation, 30, rng(1))
    for k in range(30):
        zero, one = (people.table(np.arange(30) == place) for place in (-1, k))
        if relation == "replace-one":
            np.testing.assert_array_equal(zero[0], one[0])
            (place,) = np.flatnonzero(zero[1] != one[1])
            assert zero[1][place] == y[place]
        else:
            (place,) = np.flatnonzero(~np.isin(one[0], zero[0]))
            np.testing.assert_array_equal(np.delete(one[1], place), zero[1])
        assert one[1][place] != y[int(one[0][place, 0])]
        assert one[0][place] == people.samples[k]


# --- guesses --------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 20, 101])
def test_the_number_of_guesses_does_not_depend_on_scores(n):
    of_scores = [np.zeros(n), np.arange(n) ** 9.0, rng(0).random(n), np.r_[0:n] > n / 3]
    for scores in of_scores:
        for n_guesses in {1, n // 2 or 1, n}:
            guesses = guessed(np.asarray(scores, dtype=float), n_guesses)
            assert (guesses >= 0).sum() == n_guesses
            # Those with the most extreme scores are guessed.
            if n_guesses < n and len(set(scores)) == n:
                left_out = scores[guesses < 0]
                assert not ((guesses == 1) & (scores < left_out.max())).any()
                assert not ((guesses == 0) & (scores > left_out.min())).any()


def test_a_gap_between_scores_decides_how_many_are_ones():
    """400 of 400 right prove 4.89; guessing halves would have proved 2.65 at best."""
    report = audit_one_run(lambda bits: bits + 0.01 * rng(1).random(400), 400)
    assert report.epsilon_lower == pytest.approx(4.889, abs=0.01)


def test_bits_of_the_fits_are_independent():
    """Shares and correlations of 10,000 bits: five standard deviations, 1e-5 in all."""
    bits = Bits.drawn(10_000, rng(0))
    pilot, reference, opposite, audited = bits.of_fits
    np.testing.assert_array_equal(reference, ~opposite)
    found = [audited.mean()]
    found += [(audited == other).mean() for other in (pilot, reference)]
    found += [(audited[1:] == audited[:-1]).mean(), (pilot == reference).mean()]
    np.testing.assert_allclose(found, 0.5, atol=0.025)


def simulated(seed, truth, n=200):
    """Attacks on randomised response of bits, which is exactly `truth`-DP."""
    draw = rng(seed)
    bits = Bits.drawn(n, draw)
    keep = 1 / (1 + np.exp(-truth))
    statistics = [
        np.column_stack([(draw.random(n) < keep) == one, draw.random(n)]) * 1.0
        + 1e-3 * draw.random((n, 2))
        for one in bits.of_fits
    ]
    return attacks(statistics, ["response", "nothing"], bits, 0.0, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("truth", [1.0, 2.0])
def test_bounds_are_above_the_truth_as_rarely_as_stated(truth):
    """200 simulated audits: 26 or more would have probability 5e-6 at one in twenty."""
    assert binom.sf(25, 200, 0.05) < 1e-5
    found = [simulated(seed, truth) for seed in range(200)]
    for attacker in zip(*found, strict=True):
        assert sum(attack.epsilon_lower > truth for attack in attacker) <= 25
        # If the mechanism claimed a half of its epsilon, the audits would tell.
        refuted = sum(attack.epsilon_lower > truth / 2 for attack in attacker)
        assert refuted >= (190 if truth == 2.0 else 0)


def test_an_attack_is_a_function_of_the_pilot_and_of_answers():
    """Other bits of the audited fit change how many guesses are right, and no guess."""
    bits = Bits.drawn(60, rng(0))
    values = [one[:, np.newaxis] + 0.1 * rng(1).random((60, 2)) for one in bits.of_fits]
    other = Bits(bits.pilot, bits.reference, ~bits.audited)
    for one, two in zip(
        attacks(values, ["a", "b"], bits, 0.0, 0.05),
        attacks(values, ["a", "b"], other, 0.0, 0.05),
        strict=True,
    ):
        np.testing.assert_array_equal(one.scores, two.scores)
        assert one.n_guesses == two.n_guesses == one.n_right + two.n_right


# --- recommenders -----------------------------------------------------------------


def test_exact_popularity_tells_who_is_in_the_data():
    X = make_choices(200, 500, 3000, random_state=0).data
    report = audit_recommender(
        popularity, X, canaries="planted", n_canaries=100, random_state=0
    )
    assert report.insider.n_right == report.insider.n_guesses
    assert report.account.n_right > 0.6 * report.account.n_guesses
    assert report.epsilon_lower > 2
    assert not report.violated
    assert report.is_repeated
    assert "nothing" not in report.in_words()


def test_a_claim_with_a_fixed_seed_is_neither_kept_nor_broken():
    X = make_choices(200, 500, 3000, random_state=0).data
    report = audit_recommender(
        popularity, X, canaries="planted", n_canaries=100, epsilon=1.0, random_state=0
    )
    assert report.epsilon_lower > report.claimed
    assert not report.violated
    assert "neither kept nor broken" in str(report)


def test_noise_of_its_own_refutes_a_claim():
    noise = rng(0)

    def nearly_popularity(X, accounts, shape):
        scores = popularity(X, accounts, shape)
        return scores + noise.normal(scale=1e-6, size=scores.shape)

    X = make_choices(200, 500, 3000, random_state=0).data
    options = {"canaries": "planted", "n_canaries": 100, "random_state": 0}
    report = audit_recommender(nearly_popularity, X, epsilon=1.0, **options)
    assert report.violated
    assert "VIOLATED" in str(report)
    high = audit_recommender(nearly_popularity, X, epsilon=9.0, **options)
    assert "no attack can refute a claim above 3.4" in " ".join(str(high).split())


@pytest.mark.thorough
def test_private_recommenders_keep_their_claims():
    """At 95% confidence each; with the noise of the test, none fails by chance."""
    model = ImplicitCompletion(epsilon=1.0, random_state=0)
    report = audit_recommender(model, CHOICES, n_canaries=50, random_state=0)
    assert report.claimed == pytest.approx(1.0)
    assert (report.violated, report.is_repeated) == (False, False)
    assert report.guarantee.protects
    model = CPCompletion(
        2, unit=0, epsilon=2.0, levels=RATINGS.levels, shape=(200, 60), max_iter=2
    )
    X, y = RATINGS.data, RATINGS.target
    report = audit_recommender(model, X, y, n_canaries=50, random_state=0)
    assert report.claimed == pytest.approx(2.0)
    assert not report.violated


@pytest.mark.thorough
def test_a_completion_without_its_noise_is_refuted():
    X = make_ratings(300, 300, 6000, random_state=0)
    model = CPCompletion(rank=0, epsilon=float("inf"), levels=X.levels, max_iter=5)
    report = audit_recommender(
        model, X.data, X.target, unit="entry", canaries="planted", n_canaries=100,
        epsilon=1.0, random_state=0,
    )  # fmt: skip
    assert report.violated
    assert report.insider.n_right >= 95


@pytest.mark.parametrize("has_ratings", [False, True])
def test_a_factorisation_of_scikit_learn(has_ratings):
    y = RATINGS.target if has_ratings else None
    report = audit_recommender(
        TruncatedSVD(30), RATINGS.data, y, n_canaries=50, random_state=0
    )
    assert report.insider.n_right > 0.7 * report.insider.n_guesses
    assert report.claimed is None
    assert "No claim to judge" in str(report)


@pytest.mark.thorough
def test_a_recommender_with_ids():
    ids = np.array([f"item {k:02d}" for k in range(60)])
    X = np.column_stack([CHOICES[:, 0].astype(str), ids[CHOICES[:, 1]]])
    model = Recommender(
        ImplicitCompletion(epsilon=float("inf")),
        encoder=CoordinateEncoder(categories=[None, ids]),
    )
    report = audit_recommender(model, X, n_canaries=50, random_state=0)
    plain = ImplicitCompletion(epsilon=float("inf"))
    same = audit_recommender(plain, CHOICES, n_canaries=50, random_state=0)
    assert report.insider.n_right > 0.6 * report.insider.n_guesses
    assert same.insider.n_right > 0.6 * same.insider.n_guesses


def test_lists_are_scores_of_which_the_ranks_are_known():
    people = Customers(CHOICES, None, 60, "customers", 30, rng(1))
    scores = rng(0).random((30, 60))
    lists = np.argsort(-scores, axis=1)
    from_lists, from_scores = people.statistics(lists), people.statistics(scores)
    rank, top = 1, 7
    for column in (rank, top):
        np.testing.assert_allclose(from_lists[:, column], from_scores[:, column])
    # Items that are not listed share the last place.
    short = people.statistics([row[:1] for row in lists])
    assert len(np.unique(short[:, 0])) == 2


def test_minus_infinity_is_the_last_place():
    people = Customers(CHOICES, None, 60, "customers", 30, rng(1))
    scores = rng(0).random((30, 60))
    scores[:, 5] = -np.inf
    kept = scores.copy()
    assert np.isfinite(people.statistics(scores)).all()
    np.testing.assert_array_equal(scores, kept)


def test_tables_for_fits_elsewhere():
    options = {"n_canaries": 50, "random_state": 3}
    tables = pickle.loads(pickle.dumps(audit_tables(CHOICES, **options)))
    answers = [popularity(X, tables.accounts, tables.shape) for X in tables.tables]
    report = audit_recommender(tables, answers=answers)
    direct = audit_recommender(popularity, CHOICES, **options)
    for name in ("account", "insider"):
        one, two = getattr(report, name), getattr(direct, name)
        np.testing.assert_array_equal(one.scores, two.scores)
        assert str(one) == str(two)
    assert not re.search("True|False", repr(tables))


@pytest.mark.parametrize("random_state", [None, 0])
def test_estimators_are_reseeded_at_each_fit(random_state):
    seeds = []

    class Watched(TruncatedSVD):
        def fit(self, X, y=None):
            seeds.append(self.random_state)
            return super().fit(X)

    for _ in range(2):
        audit_recommender(
            Watched(random_state=7), CHOICES, n_canaries=20, random_state=random_state
        )
    first, second = seeds[:4], seeds[4:]
    if random_state is None:
        assert set(seeds) == {None}
    else:
        assert first == second
        assert len(set(first)) == 4
        assert 7 not in first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "item"}, "unit must be one of"),
        ({"canaries": "all"}, "canaries must be one of"),
        ({"n_canaries": 19}, "at least 20, got 19"),
        ({"n_canaries": 201}, "fewer customers have at least 4 rows"),
        ({"unit": "entry"}, "audits ratings. Pass them as y"),
        ({"epsilon": -1.0}, "epsilon must be >= 0"),
        ({"delta": 1.0}, "delta must be in"),
        ({"confidence": 1.0}, "confidence in"),
        ({"answers": [1, 2, 3, 4]}, "belong to the tables"),
    ],
)
def test_wrong_parameters(options, message):
    def never(*arguments):
        raise AssertionError("the recommender was fitted")

    with pytest.raises(ValueError, match=message):
        audit_recommender(never, CHOICES, **options)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.zeros((49, 60)), "answered 49 accounts; it must answer all 50"),
        (np.zeros((50, 59)), r"shape \(50, 60\)"),
        (np.full((50, 60), np.nan), "NaN"),
        (np.zeros((50, 60), dtype=int), "occurs twice"),
        ([[60]] * 50, "from 0 to 59"),
    ],
)
def test_wrong_answers(answer, message):
    with pytest.raises(ValueError, match=message):
        audit_recommender(lambda *_: answer, CHOICES, n_canaries=50)


def test_what_is_no_recommender():
    with pytest.raises(TypeError, match="must be an estimator or a function, got int"):
        audit_recommender(3, CHOICES, n_canaries=20)
    with pytest.raises(TypeError, match=r"neither `fold_in`.*nor `inverse_transform`"):
        audit_recommender(LogisticRegression(), CHOICES, n_canaries=20)
    with pytest.raises(ValueError, match="must have two columns"):
        audit_recommender(popularity, CHOICES[:, :1])
    with pytest.raises(ValueError, match="one finite number for each row"):
        audit_recommender(popularity, CHOICES, CHOICES[1:, 0])
    tables = audit_tables(CHOICES, n_canaries=20)
    with pytest.raises(ValueError, match="pass `answers`"):
        audit_recommender(tables, CHOICES)
    with pytest.raises(ValueError, match="must hold 4 answers"):
        audit_recommender(tables, answers=[1])


def test_a_guarantee_for_another_unit_is_not_judged():
    X, y = RATINGS.data, RATINGS.target
    model = CPCompletion(
        rank=0, epsilon=1.0, levels=RATINGS.levels, unit=0, shape=(200, 60)
    )
    report = audit_recommender(model, X, y, unit="entry", n_canaries=20, random_state=0)
    assert (report.claimed, report.violated) == (None, False)
    assert "not about one rating (replace-one)" in str(report)


def test_a_report_shows_no_ids_and_says_what_it_is():
    ids = np.array([f"secret-{k}" for k in range(200)])
    X = np.column_stack([ids[CHOICES[:, 0]], CHOICES[:, 1].astype(str)])
    report = audit_recommender(popularity, X, n_canaries=50, random_state=0)
    assert isinstance(report, AuditReport)
    assert "secret" not in str(report) + repr(report) + report._repr_html_()
    text = report.in_words()
    assert text.startswith("50 real customers were each left out with probability one")
    assert "Better attacks may find more" in text
    assert "For internal use" in str(report)


# --- classifiers ------------------------------------------------------------------


def test_a_forest_learns_wrong_labels():
    X, y = load_digits(return_X_y=True)
    report = audit_training(
        RandomForestClassifier(20), X, y, n_canaries=100, random_state=0
    )
    assert report.insider.n_right >= 0.95 * report.insider.n_guesses
    assert report.relation == "add-or-remove"


def test_a_private_classifier_is_judged_by_its_relation():
    X, y = load_digits(return_X_y=True)
    model = MultilinearRidgeClassifier(
        epsilon=1.0, norm_bound=60.0, tensor_shape=(8, 8), classes=np.arange(10)
    )
    report = audit_training(model, X, y, n_canaries=100, random_state=0)
    assert report.claimed == pytest.approx(1.0)
    assert not report.violated
    assert report.relation == report.guarantee.relation == "replace-one"


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_classifier_without_probabilities(n_classes):
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    report = audit_training(LinearSVC(), X, y, n_canaries=50, random_state=0)
    assert report.insider.n_right > 0.8 * report.insider.n_guesses


def test_what_cannot_be_trained():
    X, y = load_digits(return_X_y=True)
    with pytest.raises(TypeError, match="must be a classifier, got int"):
        audit_training(3, X, y)
    with pytest.raises(ValueError, match="fewer than twice as many samples"):
        audit_training(LinearSVC(), X, y, n_canaries=1000)
    with pytest.raises(ValueError, match="at least two classes"):
        audit_training(LinearSVC(), X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="one label for each sample"):
        audit_training(LinearSVC(), X, y[1:])


# --- rounded outputs ---------------------------------------------------------------


@pytest.mark.parametrize(("scale", "is_wrong"), [(1.0, False), (0.5, True)])
def test_rounded_outputs_tell_whether_the_scale_is_wrong(scale, is_wrong):
    """Floating-point noise is refuted in any case; its finding says by what.

    At confidence .999, the bound of rounded outputs exceeds a true claim in at most one
    audit of a thousand.
    """
    noise = rng(0)
    report = audit_mechanism(
        lambda x, n: x.sum() + noise.laplace(scale=scale, size=(n, 1)),
        [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], epsilon=1.0, n_trials=4000,
        confidence=0.999, batched=True,
    )  # fmt: skip
    assert report.violated
    assert report.epsilon_lower > 4
    assert ("scale of the noise is wrong" in report.finding) is is_wrong
    assert ("vanishes when outputs are rounded" in report.finding) is not is_wrong
