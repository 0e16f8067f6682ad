"""Objects keep count of their releases, and reports compose them.

What a budget without a limit records is the oracle: the same releases, counted
elsewhere.
"""

import copy
import math
import pickle
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    NoiseShares,
    Recommender,
    fit_aggregated,
    party,
)
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
from sktensordp.privacy import PrivacyBudget, PrivacyGuarantee, privacy_of
from tests.support.every_estimator import (
    RELEASING,
    ROWS,
    TASK,
    USERS,
    VALUES,
    WHERE,
    items,
)
from tests.support.seams import completion_base
from tests.support.threads import in_threads

LAPLACE = LaplaceMechanism(1.0, bounds=(0, 1))
ENTRIES = CPCompletion(0, value_bounds=(0, 1), shape=(4, 3), perturbation="input")
DELTA = 1e-2


def unlimited():
    return PrivacyBudget(math.inf, delta=0.5)


def counts(estimator):
    """Of every release; a table spends a ten-millionth less than its budget."""
    releases = privacy_of(estimator).releases
    return [(n, round(one.epsilon, 6)) for _, n, one in releases]


def assert_agree(estimator, budget):
    """The report and the budget, on the whole curve."""
    found, expected = privacy_of(estimator).guarantee, budget.spent
    for delta in (0.0, 1e-6, DELTA):
        assert found.epsilon_at(delta) == pytest.approx(
            expected.epsilon_at(delta), rel=1e-9
        )


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("case", RELEASING)
def test_every_release_of_every_estimator(case):
    with unlimited() as budget:
        estimator, _ = case.release()
        estimator.fit(*case.data)
        if hasattr(estimator, "transform") and case.private == "samples":
            for _ in range(3):
                estimator.transform(*case.data)
        assert_agree(estimator, budget)
        if case.has_epsilon:
            params = {"epsilon": 0.25}
            fresh = case.fresh(**params)
            estimator.set_params(**fresh.get_params())
            estimator.fit(*case.data)
            if case.private == "samples":
                estimator.transform(*case.data)
            assert_agree(estimator, budget)


@pytest.mark.thorough_after_one
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [p for p in RELEASING if p.values[0].has_epsilon])
def test_a_release_without_noise_counts(case):
    with unlimited() as budget:
        estimator, _ = case.release(epsilon=math.inf)
    assert budget.spent is not None
    assert budget.spent.epsilon == privacy_of(estimator).guarantee.epsilon == math.inf


def test_two_fits_are_not_twice_the_last():
    model = clone(ENTRIES).set_params(epsilon=10.0).fit(WHERE, VALUES)
    model.set_params(epsilon=0.1).fit(WHERE, VALUES)
    report = privacy_of(model)
    assert counts(model) == [(1, pytest.approx(10.0)), (1, pytest.approx(0.1))]
    assert report.guarantee.epsilon == pytest.approx(10.1)
    assert str(report).startswith(
        "All releases of this object together: (epsilon = 10.1"
    )
    # What this fit alone guarantees.
    assert model.privacy_guarantee_.epsilon == pytest.approx(0.1)


def test_every_transform_counts():
    noise = clone(LAPLACE).fit(ROWS)
    # The report is about one call, before there is any.
    assert counts(noise) == [(1, 1.0)]
    for _ in range(11):
        noise.transform(ROWS)
    assert counts(noise) == [(11, 1.0)]
    assert "11 x epsilon = 1: transform of LaplaceMechanism" in str(privacy_of(noise))
    assert privacy_of(noise).guarantee.epsilon == 11.0
    noise.set_params(epsilon=0.5).fit(ROWS)
    assert counts(noise) == [(11, 1.0)]
    noise.transform(ROWS)
    assert counts(noise) == [(11, 1.0), (1, 0.5)]


@pytest.mark.thorough
def test_gaussian_releases_compose_as_such():
    noise = GaussianMechanism(1.0, delta=1e-6, bounds=(0, 1)).fit(ROWS)
    with unlimited() as budget:
        for _ in range(20):
            noise.transform(ROWS)
    assert_agree(noise, budget)
    assert privacy_of(noise).guarantee.epsilon < 10


def test_clients_count_too():
    sample = np.ones((1, 3))
    for client, data in (
        (ENTRIES.client(), VALUES),
        (TaskAwareEncoder(2.0, **TASK).fit(ROWS).client(), sample),
    ):
        with unlimited() as budget:
            for _ in range(3):
                client.privatize(data)
        assert privacy_of(client).releases[0][1] == 3
        assert_agree(client, budget)


def test_what_is_undeclared_stays_in_the_report():
    noise = LaplaceMechanism(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noise.fit(ROWS)
    # The fit has released the range.
    noise.set_params(bounds=(0, 1)).fit(ROWS).transform(ROWS)
    assert privacy_of(noise).guarantee.epsilon == math.inf


def test_refused_releases_do_not_count():
    noise, model = clone(LAPLACE).fit(ROWS), clone(ENTRIES).fit(WHERE, VALUES)
    noise.transform(ROWS)
    before = counts(noise), counts(model)
    with PrivacyBudget(0.5):
        for release in (
            lambda: noise.transform(ROWS),
            lambda: model.fit(WHERE, VALUES),
            lambda: model.partial_fit(WHERE, VALUES),
        ):
            with pytest.raises(BudgetExceededError):
                release()
    for wrong in (ROWS * math.nan, ROWS[:, :2]):
        with pytest.raises(ValueError, match=r"NaN|features"):
            noise.transform(wrong)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(WHERE, VALUES * math.nan)
    assert (counts(noise), counts(model)) == before


def test_interrupted_releases_count():
    def fails(request):
        raise ConnectionError("the network is down")

    for shares in (None, NoiseShares(1)):
        server = CPCompletion(0, perturbation="sums", **USERS)
        with pytest.raises(ConnectionError):
            fit_aggregated(server, fails, noise_shares=shares)
        assert privacy_of(server).releases[0][1] == 1


# Copies


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))],
    ids=["copy", "deep copy", "pickle"],
)
@pytest.mark.parametrize("kind", ["transform", "fit"])
def test_copies_take_the_count_along_and_go_on_alone(copied, kind):
    one = clone(LAPLACE).fit(ROWS) if kind == "transform" else clone(ENTRIES)

    def release(estimator):
        if kind == "transform":
            estimator.transform(ROWS)
        else:
            estimator.fit(WHERE, VALUES)

    for _ in range(2):
        release(one)
    other = copied(one)
    assert counts(other) == counts(one) == [(2, 1.0)]
    for _ in range(3):
        release(other)
    release(one)
    assert (counts(one), counts(other)) == ([(3, 1.0)], [(5, 1.0)])


def test_clones_begin_anew():
    noise = clone(LAPLACE).fit(ROWS)
    for _ in range(3):
        noise.transform(ROWS)
    fresh = clone(noise)
    with pytest.raises(TypeError, match="has not been fitted"):
        privacy_of(fresh)
    fresh.fit(ROWS).transform(ROWS)
    assert counts(fresh) == [(1, 1.0)]
    refitted = clone(clone(ENTRIES).fit(WHERE, VALUES)).fit(WHERE, VALUES)
    assert counts(refitted) == [(1, 1.0)]


@pytest.mark.thorough
def test_equal_releases_take_no_memory():
    noise = clone(LAPLACE).fit(ROWS)
    noise.transform(ROWS)
    before = len(pickle.dumps(noise))
    for _ in range(300):
        noise.transform(ROWS)
    assert len(privacy_of(noise).releases) == 1
    assert len(pickle.dumps(noise)) <= before + 16


@pytest.mark.thorough
def test_threads_lose_no_release(monkeypatch):
    noise, hashed = clone(LAPLACE).fit(ROWS), PrivacyGuarantee.__hash__

    def slow_hash(guarantee):
        time.sleep(1e-4)  # between the count before and the count after
        return hashed(guarantee)

    def work():
        for _ in range(20):
            noise.transform(ROWS)

    monkeypatch.setattr(PrivacyGuarantee, "__hash__", slow_hash)
    in_threads(*[work] * 4)
    assert counts(noise) == [(80, 1.0)]


def test_a_fit_loses_no_release_of_another_thread():
    """Not even if both threads fit an object that neither has fitted before."""
    noise, discards, is_released = clone(LAPLACE), threading.Event(), threading.Event()

    def slowly(frame, *_):
        """Let others run between what a fit keeps and what it discards."""
        if frame.f_code.co_name != "_forget":
            return None
        if "kept" in frame.f_locals:
            discards.set()
            is_released.wait(0.1)  # in vain: the other thread waits for this one
        return slowly

    def fit():
        sys.settrace(slowly)
        try:
            noise.fit(ROWS)
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=fit)
    thread.start()
    assert discards.wait(30)
    noise.fit(ROWS)
    for _ in range(2):
        noise.transform(ROWS)
    is_released.set()
    thread.join()
    assert counts(noise) == [(2, 1.0)]


# Several calls that are not several releases


def test_totals_of_partial_fit_count_once():
    model = clone(ENTRIES).fit(WHERE[:6], VALUES[:6])
    model.partial_fit(WHERE[6:], VALUES[6:])
    assert counts(model) == [(1, 1.0)]
    # The values of before, perhaps: both calls are about them.
    model.partial_fit(WHERE[6:], VALUES[6:])
    assert privacy_of(model).guarantee.epsilon == pytest.approx(2.0)
    assert privacy_of(model).guarantee == model.privacy_guarantee_
    model.partial_fit(WHERE[:6], VALUES[:6])
    assert privacy_of(model).guarantee.epsilon == pytest.approx(2.0)
    # Another fit discards the model, and not what it has released.
    model.fit(WHERE, VALUES)
    assert model.privacy_guarantee_.epsilon == pytest.approx(1.0)
    assert privacy_of(model).guarantee.epsilon == pytest.approx(3.0)


def test_what_clients_sent_counts_once():
    model = clone(ENTRIES)
    noisy = model.client().privatize(VALUES)
    for rank in (0, 1, 0):
        model.set_params(rank=rank).fit_randomized(WHERE, noisy)
    assert counts(model) == [(1, 1.0)]
    model.fit(WHERE, VALUES)
    model.fit_randomized(WHERE, noisy)
    assert privacy_of(model).guarantee.epsilon == pytest.approx(2.0)


def test_what_clients_sent_anew_counts_again():
    """Also in a copy, and after a pickle: they may be about the same values."""
    model, client = clone(ENTRIES), clone(ENTRIES).client()
    first, second = client.privatize(VALUES), client.privatize(VALUES)
    assert not np.array_equal(first, second)
    model.fit_randomized(WHERE, first).fit_randomized(WHERE, second)
    assert counts(model) == [(2, 1.0)]
    for same in (model, pickle.loads(pickle.dumps(model))):
        same.fit_randomized(WHERE, first)
        assert counts(same) == [(2, 1.0)]
        same.fit_randomized(WHERE[::-1], first)
        assert counts(same) == [(3, 1.0)]


@pytest.mark.parametrize("shares", [None, NoiseShares(1)])
def test_every_fit_to_sums_of_parties_counts(shares):
    server = CPCompletion(0, perturbation="sums", **USERS)
    with unlimited() as budget:
        for _ in range(2):
            one = party(server, WHERE, VALUES, noise_shares=shares)

            def ask(request, one=one):
                answer = one.answer(request)
                return answer if shares is None else (answer, 1)

            fit_aggregated(server, ask, noise_shares=shares)
            if shares is not None:
                assert privacy_of(one).releases[0][1] == 1
    assert [n for n, _ in counts(server)] == [2]
    assert_agree(server, budget)


# What contains them


def test_a_pipeline_counts_every_call():
    model = make_pipeline(clone(LAPLACE), Ridge())
    target = ROWS[:, 0]
    with unlimited() as budget:
        model.fit(ROWS, target).predict(ROWS)
        model.set_params(laplacemechanism__epsilon=0.25).fit(ROWS, target)
    assert privacy_of(model).releases[0][1:2] == (2,)
    assert [n for _, n, _ in privacy_of(model).releases] == [2, 1]
    assert_agree(model, budget)


def test_a_search_counts_its_refit_once_and_later_calls_too():
    pipeline = make_pipeline(clone(LAPLACE), Ridge())
    search = GridSearchCV(pipeline, {"ridge__alpha": [1.0, 2.0]}, cv=KFold(4))
    search.fit(ROWS, ROWS[:, 0])
    # A row is in three training sets and one test set, twice; and in the refit.
    assert privacy_of(search).guarantee.epsilon == 2 * 4 + 1
    search.predict(ROWS)
    assert privacy_of(search).guarantee.epsilon == 2 * 4 + 2
    again = GridSearchCV(clone(ENTRIES), {"rank": [0, 1]}, cv=KFold(3))
    again.fit(WHERE, VALUES)
    assert privacy_of(again).guarantee.epsilon == pytest.approx(2 * 2 + 1)


def test_what_is_frozen_is_shared_by_all_fits_of_a_search():
    encoder = TaskAwareEncoder(1.0, mechanism="laplace", **TASK).fit(ROWS)
    encoder.transform(ROWS)
    pipeline = make_pipeline(FrozenEstimator(encoder), Ridge())
    search = GridSearchCV(pipeline, {"ridge__alpha": [1.0, 2.0]}, cv=KFold(4))
    search.fit(ROWS, ROWS[:, 0])
    assert privacy_of(search).guarantee.epsilon == 2 * 4 + 1
    # All that it has released itself, in this process.
    n_fits = 2 * 4 * 2 + 1
    assert counts(encoder) == [(1 + n_fits, 1.0)]


def recommender(completion, **options):
    encoder = CoordinateEncoder(categories=[range(4), range(3)])
    return Recommender(completion, encoder, **options)


def test_fits_of_a_recommender_add_up():
    model = recommender(clone(ENTRIES).set_params(shape=None))
    with unlimited() as budget:
        model.fit(WHERE, VALUES)
        model.set_params(completion__epsilon=0.5).fit(WHERE, VALUES)
    assert privacy_of(model).guarantee.epsilon == pytest.approx(1.5)
    assert_agree(model, budget)
    assert privacy_of(
        pickle.loads(pickle.dumps(model))
    ).guarantee.epsilon == pytest.approx(1.5)
    assert privacy_of(
        clone(model).fit(WHERE, VALUES)
    ).guarantee.epsilon == pytest.approx(0.5)


def test_a_recommender_whose_first_fit_was_refused_can_be_stored():
    model = recommender(clone(ENTRIES).set_params(shape=None))
    with PrivacyBudget(0.5), pytest.raises(BudgetExceededError):
        model.fit(WHERE, VALUES)
    again = pickle.loads(pickle.dumps(model)).fit(WHERE, VALUES)
    assert privacy_of(again).guarantee.epsilon == pytest.approx(1.0)


def test_an_interrupted_fit_of_a_recommender_counts(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    completion = CPCompletion(0, **{**USERS, "shape": None})
    model = Recommender(completion, items(3)).fit(WHERE, VALUES)
    monkeypatch.setattr(completion_base, "fitted_to", interrupted)
    with unlimited() as budget, pytest.raises(KeyboardInterrupt):
        model.fit(WHERE, VALUES)
    assert budget.spent is not None
    assert [n for _, n, _ in privacy_of(model).releases] == [2]
