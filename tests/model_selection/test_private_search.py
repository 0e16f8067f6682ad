"""A private search: its interface, refusals, and what it keeps secret."""

import itertools
import pickle
import struct
from numbers import Real

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import gamma, uniform
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    RandomizedSearchCV,
    RepeatedKFold,
    StratifiedKFold,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sktensordp.base import PrivateEstimatorMixin, recorded_fit
from sktensordp.completion import CPCompletion
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV, UserKFold
from sktensordp.noise import LaplaceLattice
from sktensordp.privacy import privacy_of
from sktensordp.recommend import make_fold_in_scorer, make_ranking_scorer
from tests.support.guarantees import pure
from tests.support.leak_hunt import walk
from tests.support.refusing import refused

RNG = np.random.default_rng(0)
X = RNG.random((40, 3))
LABELS = (X[:, 0] > 0.5).astype(int)
WHERE = np.stack([RNG.integers(8, size=200), RNG.integers(6, size=200)], axis=1)
RATINGS = RNG.integers(1, 6, size=200)
LEVELS = [1, 2, 3, 4, 5]
STEPS = 2**20  # of the range of a row's score


class Constant(PrivateEstimatorMixin, RegressorMixin, BaseEstimator):
    """Says that it releases something, and predicts 0."""

    def __init__(self, which=0, unit="sample", random_state=None):
        self.which = which
        self.unit = unit
        self.random_state = random_state

    def __privacy_plan__(self, fitted=None, *, any_shape=False):
        return pure(1.0, unit=self.unit)

    def fit(self, X, y):
        with recorded_fit(self, self.__privacy_plan__()):
            self.n_rows_ = len(X)
        return self

    def predict(self, X):
        return np.zeros(np.shape(X)[0])


def labelled(**kwargs):
    """Search of a classifier that learns from rows with noise."""
    noise = LaplaceMechanism(1.0, bounds=(0, 1))
    estimator = Pipeline([("noise", noise), ("model", LogisticRegression())])
    kwargs = {"param_distributions": {"model__C": [0.5, 1.5]}, "n_iter": 2, **kwargs}
    return PrivateSearchCV(estimator, **kwargs)


def rated(model=None, params=None, **kwargs):
    if model is None:
        model = CPCompletion(0, levels=LEVELS, max_iter=2)
    return PrivateSearchCV(
        model, params or {"max_iter": [2, 3]}, **{"n_iter": 2, **kwargs}
    )


def constant(**kwargs):
    kwargs = {
        "param_distributions": {"which": [0, 1]}, "score_bounds": (-1, 0), "n_iter": 2,
        **kwargs,
    }  # fmt: skip
    return PrivateSearchCV(Constant(), **kwargs)


def test_it_serves_as_a_randomized_search():
    search = labelled().fit(X, LABELS)
    assert isinstance(search, RandomizedSearchCV)
    assert set(search.predict(X)) <= {0, 1}
    assert search.predict_proba(X).shape == (40, 2)
    assert search.decision_function(X).shape == (40,)
    assert 0 <= search.score(X, LABELS) <= 1
    assert search.classes_.tolist() == [0, 1]
    assert search.n_features_in_ == 3
    assert not hasattr(search, "feature_names_in_")
    assert (search.best_index_, search.n_splits_, search.multimetric_) == (0, 1, False)
    results = search.cv_results_
    assert results["params"] == [search.best_params_]
    assert results["mean_test_score"] == [search.best_score_]
    assert results["param_model__C"].tolist() == [search.best_params_["model__C"]]
    assert set(results) == {
        "params", "param_model__C", "mean_test_score", "rank_test_score",
    }  # fmt: skip
    fitted = search.best_estimator_.get_params()
    assert fitted["model__C"] == search.best_params_["model__C"]
    assert "LaplaceMechanism" in search._repr_html_()
    again = clone(search.set_params(eta=1.0))
    assert again.get_params()["eta"] == 1.0
    assert not hasattr(again, "best_params_")
    with pytest.raises(AttributeError):
        _ = again.n_features_in_
    with pytest.raises(NotFittedError):
        again.predict(X)


def test_transform_and_the_last_step_of_a_pipeline():
    noise = GaussianMechanism(1.0, delta=1e-6, bounds=(0, 1))
    estimator = Pipeline([("noise", noise)])
    search = PrivateSearchCV(
        estimator, {"noise__tensor_shape": [None, (3,)]}, score_bounds=(0, 1),
        scoring=lambda e, X, y: X[:, 0], refit="keep", n_iter=2,
    ).fit(X, LABELS)  # fmt: skip
    assert search.transform(X).shape == X.shape
    pipeline = make_pipeline(StandardScaler(), labelled()).fit(X, LABELS)
    assert pipeline.predict(X).shape == (40,)
    assert "PrivateSearchCV" in pipeline._repr_html_()


def test_frames_lists_sparse_and_tensors():
    frame = pd.DataFrame(X, columns=list("abc"), index=np.arange(40)[::-1])
    y = pd.Series(LABELS, index=frame.index)
    search = labelled().fit(frame, y)
    assert search.feature_names_in_.tolist() == list("abc")
    assert search.predict(frame).shape == (40,)
    search.fit(X.tolist(), LABELS.tolist())
    assert not hasattr(search, "feature_names_in_")
    with pytest.raises(TypeError, match=r"(?i)sparse"):
        labelled().fit(sparse.csr_matrix(X), LABELS)
    tensors = X.reshape(-1, 1, 3).repeat(2, axis=1)
    assert constant().fit(tensors, LABELS).predict(tensors).shape == (40,)
    assert constant(cv=2).fit(tensors.tolist(), LABELS).n_splits_ == 2


def test_an_integer_repeats_the_whole_and_none_does_not():
    spread = {"which": uniform(0, 1)}

    def outcome(search):
        search.fit(X, LABELS)
        return search.best_score_, search.best_params_["which"]

    seeded = constant(param_distributions=spread, random_state=3)
    first = outcome(seeded)
    assert first == outcome(clone(seeded))
    # The same object draws afresh: noise that is repeated could be taken away.
    assert first != outcome(seeded)
    assert any("integer random_state" in s for s in privacy_of(seeded).unprotected)
    search = constant(param_distributions=spread)
    assert len({outcome(search) for _ in range(2)} | {outcome(clone(search))}) == 3
    assert not any("random_state" in s for s in privacy_of(search).unprotected)


def test_the_report_is_of_the_search_and_names_what_it_leaves_out():
    search = labelled().fit(X, LABELS)
    report = privacy_of(search)
    assert report.guarantee == search.privacy_guarantee_
    assert len(report.releases) == 1
    named = " ".join(report.unprotected)
    assert "protects the rows of X, not y" in named
    assert "The duration of the search" in named
    for refit in (True, "keep", False):
        scaled = labelled(refit=refit)
        frozen = FrozenEstimator(StandardScaler().fit(RNG.random((9, 3))))
        scaled.estimator.steps.insert(0, ("scale", frozen))
        named = privacy_of(scaled.fit(X, LABELS)).unprotected
        # That it was fitted to public data cannot be seen.
        assert "What StandardScaler learned in its fit; it gives no guarantee." in named
        assert any(
            "LogisticRegression learned from the labels y" in one for one in named
        )


@pytest.mark.parametrize("outer", [GridSearchCV, RandomizedSearchCV])
def test_a_search_over_private_searches_is_not_undercounted(outer):
    options = {"n_iter": 2} if outer is RandomizedSearchCV else {}
    search = outer(constant(scoring="neg_mean_squared_error"), {"eta": [0, 1]}, cv=2,
                   **options)  # fmt: skip
    search.fit(X, LABELS)
    assert privacy_of(search).guarantee.epsilon == np.inf


# Another number has a probability below 2e-9.
ONE_TRY = {"n_iter": 1 + 1e-9}
NO_TRY = {"n_iter": 1e-9, "n_iter_distribution": "poisson"}


@pytest.fixture
def scores(monkeypatch):
    """(sum, noisy sum, its noise) of the scores of all that were tried."""
    seen, randomize = [], LaplaceLattice.randomize

    def observed(lattice, values, *args, **options):
        noisy = randomize(lattice, values, *args, **options)
        if lattice.n_steps is None:
            seen.append((float(values[0]), float(noisy[0]), lattice))
        return noisy

    monkeypatch.setattr(LaplaceLattice, "randomize", observed)
    return seen


def numbers_in(obj):
    """All numbers that are reached from an object, whole ones too."""
    found = set()
    for _, item in walk(obj):
        if isinstance(item, Real):
            found.add(float(item))
        elif isinstance(item, np.ndarray) and item.dtype.kind in "biuf":
            found.update(map(float, item.ravel().tolist()))
    return found


def seeds_of(*numbers, scores, **options):
    """Seeds of searches that try so many candidates, found out by quick ones."""
    left, seed = list(numbers), 100
    while left:
        scores.clear()
        constant(random_state=seed, **options).fit(X, LABELS)
        if len(scores) == left[0]:
            yield seed
            del left[0]
        seed += 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n_jobs", "refit"), [(None, "keep"), pytest.param(2, True, marks=pytest.mark.slow)]
)
def test_losers_and_their_number_stay_secret(scores, tmp_path, n_jobs, refit):
    def scoring(estimator, X, y):
        with (tmp_path / "tried").open("a") as file:
            file.write(f"{float(estimator[-1].C)!r}\n")
        return y == estimator.predict(X)

    found, number = {}, {"n_iter_distribution": "poisson", "n_iter": 12.5}
    for seed in seeds_of(11, 13, scores=scores, cv=2, **number):
        (tmp_path / "tried").unlink(missing_ok=True)
        scores.clear()
        search = labelled(
            param_distributions={"model__C": uniform(0.5, 1)}, n_jobs=n_jobs, cv=2,
            scoring=scoring, score_bounds=(0, 1), refit=refit, random_state=seed,
            **number,
        )  # fmt: skip
        # One iteration: their number is none of those that are looked for.
        search.estimator.set_params(model__tol=1e3)
        search.fit(X, LABELS)
        n_tries = len(scores)
        tried = {float(line) for line in (tmp_path / "tried").read_text().split()}
        assert len(tried) == n_tries
        best = search.best_params_["model__C"]
        assert best in tried
        search.set_params(scoring=None, n_iter=2)
        stored, shown = pickle.dumps(search), f"{search!r} {vars(search)}"
        found[n_tries] = numbers_in(search)
        assert struct.pack("<d", best) in stored
        for value in tried - {best}:
            assert struct.pack("<d", value) not in stored
            assert struct.pack(">d", value) not in stored
            assert repr(value) not in shown
            assert value not in found[n_tries]
        # No two tries have the same noise, but by chance.
        assert len({noisy - total for total, noisy, _ in scores}) > n_tries / 2
        step = search.best_score_ / max(noisy for _, noisy, _ in scores)
        left = np.array([*found[n_tries] - {search.best_score_}])
        for _, noisy, _ in scores:
            assert not np.isclose(left[:, None], [noisy, noisy * step], 1e-9, 0).any()
    # Whatever numbers there are do not tell how many were tried.
    assert [*found] == [11, 13]
    assert 11 not in found[11] - found[13]
    search.n_tried_ = 11
    assert 11 in numbers_in(search) - found[13]
    assert not [name for name in vars(search) if "_time" in name]


def unit_zero(**kwargs):
    return CPCompletion(0, unit=0, levels=LEVELS, **kwargs)


NOISE = LaplaceMechanism(1.0, bounds=(0, 1))


def of_ridge(*steps, **kwargs):
    model = make_pipeline(*map(clone, steps), Ridge(), **kwargs)
    return PrivateSearchCV(model, {"ridge__alpha": [1.0]}, score_bounds=(-4, 0))


SECRET = ["SECRET-7919", "SECRET-7907"] * 20
GIVEN = {
    "epsilon": (labelled(param_distributions={"noise__epsilon": [1.0]}), "epsilon"),
    "in a list": (rated(params=[{"rank": [0]}, {"epsilon": [1, 2]}]), "'epsilon'"),
    "delta": (rated(params={"delta": uniform()}), "'delta' cannot be searched"),
    "no dict": (rated(params=[["rank"]]), "a list of dicts"),
    "seed": (rated(params={"random_state": [0, 1]}), "random_state cannot be"),
    "stratified": (labelled(cv=StratifiedKFold(2)), "must not depend on the values"),
    "groups": (labelled(cv=GroupKFold(2)), "pass `groups` to fit"),
    "unknown cv": (labelled(cv=LeaveOneOut()), "cv must be"),
    "generator": (labelled(cv=KFold(2).split(X)), "cv must be"),
    "listed cv": (labelled(cv=list(KFold(2).split(X))), "cv must be"),
    "boolean cv": (labelled(cv=True), "cv must be"),
    "scoring": (labelled(scoring="f1"), "scoring must be one of"),
    "R2": (rated(scoring="r2"), "scoring must be one of"),
    "a scorer": (labelled(scoring=get_scorer("accuracy")), "scoring must be one of"),
    "of histories": (
        rated(scoring=make_fold_in_scorer(), score_bounds=(-9, 0)),
        "scoring must be one of",
    ),
    "of rankings": (
        rated(scoring=make_ranking_scorer(), score_bounds=(0, 1)),
        "scoring must be one of",
    ),
    "no bounds": (constant(score_bounds=None), "score_bounds is not declared"),
    "callable": (rated(scoring=lambda e, X, y: y), "score_bounds is not declared"),
    "undeclared": (rated(CPCompletion(0)), "score_bounds is not declared"),
    "reversed": (constant(score_bounds=(0, -1)), "the lower first"),
    "equal": (constant(score_bounds=(0, 0)), "the lower first"),
    "infinite": (constant(score_bounds=(-np.inf, 0)), "two finite"),
    "nan": (constant(score_bounds=(np.nan, 0)), "two finite"),
    # Their distance is infinite: NaN steps, as integers, have no sensitivity.
    "too wide": (constant(score_bounds=(-1e308, 1e308)), "two finite"),
    "very wide": (rated(CPCompletion(0, value_bounds=(0, 1e300))), "two finite"),
    "root": (
        constant(scoring="neg_root_mean_squared_error", score_bounds=(-1, 1)),
        "at most 0",
    ),
    "no guarantee": (
        rated(Ridge(), {"alpha": [1.0]}, score_bounds=(-1, 0)), "No step of this Ridge"
    ),
    "bagging": (
        rated(BaggingRegressor(Constant()), {"max_samples": [2]}, score_bounds=(-1, 0)),
        "How often BaggingRegressor fits",
    ),
    "nested": (
        rated(constant(), {"n_iter": [2]}, score_bounds=(-1, 0)),
        "a search cannot be searched",
    ),
    "another perturbation": (
        rated(CPCompletion(1, levels=LEVELS, perturbation="gradient"),
              {"perturbation": ["gradient", "input"]}),
        "another guarantee",
    ),
    "another unit": (
        constant(param_distributions={"unit": ["sample", "entry"]}), "another guarantee"
    ),
    "one try": (constant(n_iter=1), "above 1"),
    "too many": (constant(n_iter_distribution="poisson", n_iter=31), "at most 30"),
    "no shape": (rated(unit_zero()), "declared shape"),
    "user folds": (rated(unit_zero(shape=(8, 6)), cv=3), "cv=None"),
    "no such mode": (
        rated(CPCompletion(0, unit=4, shape=(8, 6), levels=LEVELS)), "has modes 0 to 1"
    ),
    "users in a pipeline": (
        rated(make_pipeline(unit_zero(shape=(8, 6))), {"cpcompletion__rank": [0]},
              score_bounds=(-16, 0)),
        "a completion with a declared shape or a Recommender",
    ),
    "n_iter": (constant(n_iter=0), "n_iter"),
    "infinite score epsilon": (constant(score_epsilon=np.inf), "score_epsilon"),
    "test_size": (constant(test_size=1.0), "test_size"),
    "refit": (constant(refit="accuracy"), "refit"),
    "name": (constant(param_distributions={"what": [1]}), "what"),
    **{
        f"{name} out of range": (
            rated(CPCompletion(1, levels=LEVELS), {name: [value]}), "must be",
        )
        for name, value in (
            ("max_iter", -3), ("perturbation", "foo"), ("n_pattern_components", -1),
        )
    },
    "other users": (rated(unit_zero(shape=(8, 6)), {"unit": [1]}), "another guarantee"),
    "a cache that would repeat noise": (of_ridge(NOISE, memory="cache"), "memory"),
    "codes of another shape": (
        of_ridge(NOISE, TaskAwareEncoder(1.0, output="code", n_components=2), NOISE),
        "not known beforehand",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GIVEN)
def test_refused_before_anything_is_drawn(case):
    search, match = GIVEN[case]
    completes = isinstance(search.estimator, (CPCompletion, Pipeline))
    data = (WHERE, RATINGS) if completes and case != "epsilon" else (X, SECRET)
    with refused(match, secret="SECRET"):
        search.fit(*data)
    assert not hasattr(search, "privacy_guarantee_")


def test_targets_are_needed():
    with pytest.raises(ValueError, match="scores predictions of y"):
        constant().fit(X, None)
    with pytest.raises(ValueError, match="same length"):
        constant().fit(X, LABELS[:-1])


def test_messages_about_scores_quote_no_value():
    search = labelled(scoring="neg_mean_squared_error", score_bounds=(-1, 0))
    with pytest.raises(ValueError, match="needs numeric targets") as raised:
        search.fit(X, SECRET)
    assert raised.value.__context__ is None
    constant_scores = constant(scoring=lambda e, X, y: np.array(["SECRET"] * len(X)))
    with pytest.raises(ValueError, match="Scores must be numbers"):
        constant_scores.fit(X, SECRET)
    with pytest.raises(ValueError, match="one score for each row"):
        constant(scoring=lambda e, X, y: 0.5).fit(X, LABELS)


def test_a_drawn_candidate_of_another_guarantee_is_refused():
    class Perturbations:
        def rvs(self, random_state=None):
            return "input"

    model = CPCompletion(1, levels=LEVELS, perturbation="gradient")
    search = rated(model, {"perturbation": Perturbations()})
    with pytest.raises(ValueError, match="another guarantee"):
        search.fit(WHERE, RATINGS)
    assert not hasattr(search, "best_params_")


def test_only_pipelines_of_scikit_learn_are_looked_into():
    class Resampling(Pipeline):
        pass

    steps = labelled().estimator.steps
    search = labelled().set_params(estimator=Resampling(steps))
    with pytest.raises(ValueError, match="How often Resampling fits"):
        search.fit(X, LABELS)


@pytest.mark.parametrize("refit", [True, "keep", False])
def test_nothing_may_be_tried(refit):
    search = rated(refit=refit, **NO_TRY).fit(WHERE, RATINGS)
    assert search.best_params_ == {}
    assert np.isnan(search.best_score_)
    assert search.cv_results_["params"] == [{}]
    if refit is True:
        assert search.best_estimator_.get_params() == search.estimator.get_params()
        assert search.predict(WHERE).shape == (200,)
        return
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(AttributeError):
        search.predict(WHERE)


@pytest.mark.parametrize(
    ("cv", "n_rows"), [(None, 32), (PredefinedSplit([0, -1] * 20), 20)]
)
def test_the_best_is_kept_as_it_was_fitted_to_the_first_part(cv, n_rows):
    search = constant(cv=cv, refit="keep").fit(X, LABELS)
    assert search.best_estimator_.n_rows_ == n_rows
    assert constant(cv=cv).fit(X, LABELS).best_estimator_.n_rows_ == 40
    with pytest.raises(AttributeError, match="predict"):
        constant(refit=False).fit(X, LABELS).predict(X)


def test_coordinates_that_only_the_held_out_part_has():
    where = np.concatenate([WHERE, [[30, 6]]])
    test = PredefinedSplit([-1] * 200 + [0])
    search = rated(cv=test, refit="keep").fit(where, np.append(RATINGS, 5))
    assert search.best_estimator_.shape_ == (31, 7)
    assert search.estimator.shape is None


@pytest.mark.thorough
def test_room_for_users_who_do_not_come_changes_no_score():
    """It was half of the range, -8, since all who did not come were scored."""
    scores = [
        rated(
            unit_zero(shape=(room, 6), max_iter=2, epsilon=200.0), cv=UserKFold(2),
            refit=False, score_epsilon=1e6, random_state=0,
        ).fit(WHERE, RATINGS).best_score_
        for room in (8, 10**6, 2**31 - 2)
    ]  # fmt: skip
    # The error is about 2.2, divided by a noisy number of users.
    assert -5 < min(scores) < max(scores) < -1


def test_a_kept_completion_keeps_the_rows_of_users():
    model = unit_zero(shape=(8, 6), max_iter=2, epsilon=50.0)
    search = rated(model, refit="keep").fit(WHERE, RATINGS)
    everybody = np.column_stack([np.arange(8), np.zeros(8, int)])
    assert len(set(search.predict(everybody))) > 1


def test_a_scoring_function_serves_an_estimator_without_a_score():
    class Bare(Constant):
        score = None

        def __getattribute__(self, name):
            if name == "score":
                raise AttributeError(name)
            return super().__getattribute__(name)

    search = PrivateSearchCV(
        Bare(), {"which": [0]}, scoring=lambda e, X, y: y, score_bounds=(0, 1), n_iter=2
    )
    with pytest.raises(ValueError, match="No score function"):
        search.fit(X, LABELS).score(X, LABELS)


# Scores are clipped, of known sensitivity, and have the stated noise


@pytest.mark.parametrize(
    "cv",
    [KFold(4), RepeatedKFold(n_splits=2, n_repeats=3), PredefinedSplit([0, -1, 0] * 3)],
)
def test_one_record_moves_the_sum_of_scores_by_its_steps(scores, cv):
    times = 3 if isinstance(cv, RepeatedKFold) else 1
    largest, rng = 0, np.random.default_rng(1)
    search = constant(
        cv=cv, score_bounds=(-2, 1), scoring=lambda e, X, y: X[:, 0], **ONE_TRY
    )
    special = [np.nan, np.inf, -1e300, -2.0, 1.0, 0.1]
    for one, other in itertools.combinations(special, 2):
        rows = rng.normal(size=(9, 1))
        totals = []
        for value in (one, other):
            rows[5] = value
            scores.clear()
            search.fit(rows, np.zeros(9))
            totals.append(scores[0][0])
        largest = max(largest, abs(totals[1] - totals[0]))
        assert abs(totals[1] - totals[0]) <= times * STEPS
    assert largest == times * STEPS
    # What the noise was made for, up to the rounding of its own rate.
    assert times * STEPS <= scores[0][2].l1_steps <= times * STEPS + 4


@pytest.mark.thorough
def test_noise_of_the_score_has_the_stated_scale():
    # Each record is tested twice; the range is 3, of 20 scores.
    search = constant(
        cv=RepeatedKFold(n_splits=2, n_repeats=2), score_bounds=(-3, 0),
        score_epsilon=0.5, refit=False, **ONE_TRY,
    )  # fmt: skip
    noise = [
        search.fit(np.zeros((10, 1)), np.zeros(10)).best_score_ for _ in range(200)
    ]

    def follows(scale):
        # A sum of n absolute Laplace variates; false alarms: one in a million.
        low, high = gamma.ppf([5e-7, 1 - 5e-7], len(noise), scale=scale)
        return low < np.sum(np.abs(noise)) < high

    scale = 2 * 3 / 0.5 / 20
    assert follows(scale)
    assert not follows(scale / 2)
    assert not follows(scale * 2)
    # Three quarters of the range: the mean is on the scale of the scores.
    far = search.fit(np.zeros((10, 1)), np.full(10, np.sqrt(0.75))).best_score_
    assert far == pytest.approx(-0.75, abs=20 * scale)
