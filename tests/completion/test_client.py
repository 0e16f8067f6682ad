"""Values that are randomised where they are, and models of what comes from there."""

import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sktensordp.completion import CompletionClient, CPCompletion, TuckerCompletion
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support.noise import drawing
from tests.support.refusing import assert_hostile_texts_are_refused, refused

RATINGS = make_ratings(n_users=80, n_items=50, n_ratings=2000, random_state=0)
X, Y = RATINGS.data, RATINGS.target
TABLE, RANGE = {"levels": RATINGS.levels}, {"value_bounds": (0.0, 6.0)}


def model(kind=CPCompletion, **options):
    return kind(2, **{"epsilon": 2.0, "max_iter": 4, **options})


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "dtype", "epsilon", "domain"),
    [
        (CPCompletion, np.float64, 2.0, TABLE),
        (CPCompletion, np.float32, 2.0, RANGE),
        (CPCompletion, np.float32, math.inf, TABLE),
        (TuckerCompletion, np.float64, 2.0, RANGE),
        (TuckerCompletion, np.float64, math.inf, RANGE),
    ],
)
def test_the_same_as_a_fit_with_the_same_draws(kind, dtype, epsilon, domain):
    y = Y.astype(dtype)
    one = model(kind, epsilon=epsilon, **domain, random_state=3, perturbation="input")
    client = pickle.loads(pickle.dumps(one.client(3)))
    shipped = CompletionClient.from_json(client.to_json())
    assert shipped.privacy_guarantee_ == client.privacy_guarantee_
    assert shipped.random_state is None
    noisy = client.privatize(y)
    assert noisy.dtype == dtype
    assert np.array_equal(noisy, y) == (epsilon == math.inf)
    sent = noisy.copy()
    other = clone(one).fit_randomized(X, noisy)
    # The model is fitted in place; what was sent is not touched.
    np.testing.assert_array_equal(noisy, sent)
    one.fit(X, y)
    np.testing.assert_array_equal(other.predict(X), one.predict(X))
    assert np.std(one.predict(X)) > 0.05
    sent_once = "if clients randomised each value once, with these parameters"
    assert other.privacy_guarantee_ == one.privacy_guarantee_.with_conditions(sent_once)
    assert other.residual_variance_ == one.residual_variance_
    assert other.perturbation_ == "input"


def test_late_messages_make_the_model_of_all():
    first = X[:, 0] < 40
    parties = [first, ~first]
    noisy = [model(**TABLE).client().privatize(Y[own]) for own in parties]
    one = model(**TABLE, shape=RATINGS.shape)
    early = one.fit_randomized(X[first], noisy[0]).predict(X)
    late = one.fit_randomized(
        np.concatenate([X[own] for own in parties]), np.concatenate(noisy)
    ).predict(X)
    together = np.empty_like(Y)
    for own, sent in zip(parties, noisy, strict=True):
        together[own] = sent
    np.testing.assert_allclose(late, one.fit_randomized(X, together).predict(X))
    assert np.abs(late - early).max() > 0.01


def test_the_client_spends_and_the_server_does_not():
    one = model(**TABLE)
    with PrivacyBudget(3.0) as budget:
        noisy = one.client().privatize(Y)
        assert budget.spent.epsilon == pytest.approx(2.0)
        with drawing() as streams:
            for rank in (0, 1):
                one.set_params(rank=rank).fit_randomized(X, noisy)
        assert not streams
        assert budget.spent.epsilon == pytest.approx(2.0)
        for client in (one.client(), model(epsilon=math.inf, **TABLE).client()):
            with pytest.raises(BudgetExceededError):
                client.privatize(Y)
    found = privacy_of(one)
    assert found.guarantee.epsilon == pytest.approx(2.0)
    assert "clients" in str(found)
    assert "clients" not in str(privacy_of(clone(one).fit(X, Y)))


def test_a_stream_goes_on_after_it():
    one = model(**TABLE)
    one.fit_randomized(X, one.client().privatize(Y))
    assert len(np.unique(one.recommend([0], k=2)[0])) == 2
    one.partial_fit(X[:10], Y[:10])
    # The values may be those of before.
    assert one.privacy_guarantee_.epsilon == pytest.approx(4.0)
    assert "if clients" in str(one.privacy_guarantee_)


def test_what_was_rounded_on_the_way_is_what_was_drawn():
    noisy = model(**TABLE).client().privatize(Y)
    one = model(**TABLE).fit_randomized(X, noisy).predict(X)
    # As a file may hold it: written in single precision, read in double.
    sent = noisy.astype(np.float32).astype(float)
    assert not np.array_equal(sent, noisy)
    np.testing.assert_array_equal(
        model(**TABLE).fit_randomized(X, sent).predict(X), one
    )


def test_values_that_no_client_drew_are_refused():
    noisy = model(**TABLE).client().privatize(Y)
    raw, other = noisy.copy(), model(**TABLE, epsilon=1.0).client().privatize(Y)
    raw[7] = Y[7]
    for wrong in (Y, raw, other):
        with refused("not in the table", secret=str(Y[7])):
            model(**TABLE).fit_randomized(X, wrong)
    fitted = model(**TABLE).fit(X, Y)
    before, said = fitted.predict(X), fitted.privacy_guarantee_
    fitted.set_params(epsilon=1.0)
    for wrong, message in (
        (noisy, "not in the table"),
        (np.where(noisy > 3, np.nan, noisy), "NaN"),
        (noisy[:-1], "same length"),
        (None, "requires y"),
    ):
        with refused(message):
            fitted.fit_randomized(X, wrong)
    # What is refused leaves the earlier fit as it was.
    np.testing.assert_array_equal(fitted.predict(X), before)
    assert fitted.privacy_guarantee_ == said


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [0.5, 6.0])
def test_values_without_noise_are_refused(epsilon):
    one = model(**RANGE, epsilon=epsilon)
    fitted = one.fit_randomized(X, one.client(0).privatize(Y)).predict(X)
    with pytest.raises(ValueError, match="not in the table"):
        one.fit_randomized(X, Y)
    np.testing.assert_array_equal(one.predict(X), fitted)


@pytest.mark.parametrize("bad", [[1.0, np.nan], [[1.0], [2.0, 3.0]], ["a"], [1j]])
def test_clients_refuse_what_is_no_number_before_they_draw(bad):
    client = model(**TABLE).client()
    with refused(r"NaN|1d|shape|must hold|must be an array"):
        client.privatize(bad)
    with PrivacyBudget(3.0) as budget:
        assert len(client.privatize([])) == 0
    assert budget.spent is None


@pytest.mark.parametrize(
    "other",
    [
        {"unit": 0},
        {"perturbation": "sums"},
        {"perturbation": "gradient"},
    ],
)
def test_there_for_values_that_are_randomised_alone(other):
    one = model(**TABLE, **other)
    for name in ("client", "fit_randomized"):
        assert not hasattr(one, name)
        with pytest.raises(AttributeError):
            getattr(one, name)


@pytest.mark.parametrize("domain", [TABLE, RANGE])
@pytest.mark.parametrize("epsilon", [0.5, math.inf])
def test_a_client_made_of_text_draws_from_the_same_distribution(domain, epsilon):
    client = model(**domain, epsilon=epsilon).client(random_state=5)
    text = client.to_json()
    assert "random" not in text
    shipped = CompletionClient.from_json(text)
    assert shipped.to_json() == text
    assert shipped.randomizer == client.randomizer
    shipped.random_state = 5
    np.testing.assert_array_equal(shipped.privatize(Y), client.privatize(Y))


def test_texts_that_are_no_client_are_refused():
    assert_hostile_texts_are_refused(
        model(**TABLE, level_prior=np.full(10, 0.1)).client(),
        lambda found: found.privatize(found.randomizer.domain.bounds),
    )


def test_a_device_accepts_no_larger_epsilon():
    text = CPCompletion(epsilon=2.0, levels=[1, 2, 3]).client().to_json()
    client = CompletionClient.from_json(text, max_epsilon=2.0)
    assert client.privacy_guarantee_.epsilon <= 2
    with pytest.raises(ValueError, match="but this device accepts at most max_epsil"):
        CompletionClient.from_json(text, max_epsilon=1.0)
    open_text = CPCompletion(epsilon=math.inf, levels=[1, 2, 3]).client().to_json()
    with pytest.raises(ValueError, match="epsilon = inf, but this device accepts"):
        CompletionClient.from_json(open_text, max_epsilon=100.0)


def test_a_range_has_to_be_declared():
    for call in (model().client, lambda: model().fit_randomized(X, Y)):
        with pytest.raises(ValueError, match="Declare `levels` or `value_bounds`"):
            call()
    with pytest.raises(ValueError, match="epsilon"):
        model(**TABLE, epsilon=-1).client()
