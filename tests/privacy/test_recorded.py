"""What each way to release records, when it does, and what it leaves of earlier ones.

The estimator here does nothing but release, so that nothing else can make up for what
`sktensordp.base` forgets.
"""

import math
from contextlib import nullcontext

import pytest
from sklearn.base import BaseEstimator

from sktensordp.base import (
    PrivateEstimatorMixin,
    recorded_call,
    recorded_fit,
    recorded_update,
)
from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import PrivacyBudget
from tests.support.budgets import guarantees_of, n_released
from tests.support.guarantees import pure
from tests.support.seams import counted_by, counting_for, run_reserved

EARLIER, NEW, TOTAL = pure(1.0), pure(0.5), pure(1.5)


class Plain(PrivateEstimatorMixin, BaseEstimator):
    """An estimator whose fit is whatever a test does."""

    model_: str

    def __init__(self, random_state=None):
        self.random_state = random_state


def fitted(random_state=None):
    """An estimator with a model, and with one release behind it."""
    estimator = Plain(random_state)
    with recorded_fit(estimator, EARLIER):
        estimator.model_ = "earlier"
    return estimator


def counts(estimator):
    return dict(estimator.__privacy_releases__())


def word(streams):
    return int(streams.stream(0).random_raw())


def assert_ended(streams):
    with pytest.raises(RuntimeError, match="has ended"):
        streams.stream(0)


INTERRUPTED = pytest.mark.parametrize(
    "error", [None, KeyboardInterrupt], ids=["whole", "interrupted"]
)


def ending(error):
    """Where an action may end with an error."""
    return nullcontext() if error is None else pytest.raises(error)


def end(error):
    if error is not None:
        raise error


# --- fits -----------------------------------------------------------------------------

# Who draws the noise; whether the fit records its release, and whether it draws.
FITS = [
    ("fit", True, True),
    ("nobody", True, False),
    ("others", False, False),
    ("earlier", False, False),
]
of_every_fit = pytest.mark.parametrize(("noise", "records", "draws"), FITS)


@INTERRUPTED
@of_every_fit
def test_a_fit(noise, records, draws, error):
    estimator, budget = fitted(), PrivacyBudget(math.inf)
    recorded = [NEW] * records
    with budget, ending(error), recorded_fit(estimator, NEW, noise) as streams:
        assert guarantees_of(budget) == recorded
        assert counts(estimator) == {EARLIER: 1, NEW: 1}
        # As long as nothing was drawn, the earlier model and guarantee belong together.
        assert hasattr(estimator, "model_") != draws
        assert estimator.privacy_guarantee_ == (NEW if draws else EARLIER)
        assert (streams is not None) == draws
        if draws:
            assert word(streams)
        end(error)
    assert guarantees_of(budget) == recorded
    assert counts(estimator) == {EARLIER: 1, NEW: 1}
    keeps = error is not None and not draws
    assert hasattr(estimator, "model_") == keeps
    assert estimator.privacy_guarantee_ == (EARLIER if keeps else NEW)
    if draws:
        assert_ended(streams)


@of_every_fit
def test_a_refused_fit_changes_nothing(noise, records, draws, keys):
    estimator, began = fitted(), False
    n_keys = len(keys)
    refused = pytest.raises(BudgetExceededError) if records else nullcontext()
    with PrivacyBudget(0.1), refused, recorded_fit(estimator, NEW, noise):
        began = True
    assert began != records
    if records:
        assert counts(estimator) == {EARLIER: 1}
        assert (estimator.model_, estimator.privacy_guarantee_) == ("earlier", EARLIER)
        assert len(keys) == n_keys


@pytest.mark.parametrize(
    ("noise", "n"), [("fit", 2), ("nobody", 2), ("others", 2), ("earlier", 1)]
)
def test_only_what_was_released_earlier_counts_once(noise, n):
    estimator = Plain()
    for _ in range(2):
        with recorded_fit(estimator, NEW, noise):
            pass
    assert counts(estimator) == {NEW: n}


# --- further releases and calls -------------------------------------------------------


@INTERRUPTED
@pytest.mark.parametrize("draws", [True, False])
def test_an_update(draws, error):
    estimator, budget = fitted(), PrivacyBudget(math.inf)

    def check():
        assert guarantees_of(budget) == [NEW]
        assert n_released(budget) == 1
        assert counts(estimator) == {TOTAL: 1}
        assert (estimator.model_, estimator.privacy_guarantee_) == ("earlier", TOTAL)

    update = recorded_update(estimator, NEW, TOTAL, draws=draws)
    with budget, ending(error), update as streams:
        check()
        assert (streams is not None) == draws
        end(error)
    check()
    if draws:
        assert_ended(streams)


def test_an_update_counts_for_one_of_two_releases_that_are_equal():
    estimator = fitted()
    with recorded_fit(estimator, EARLIER):
        pass
    with recorded_update(estimator, NEW, TOTAL, draws=True):
        pass
    assert counts(estimator) == {EARLIER: 1, TOTAL: 1}


@INTERRUPTED
@pytest.mark.parametrize("draws", [True, False])
def test_a_call(draws, error):
    estimator, budget = fitted(), PrivacyBudget(math.inf)

    def check():
        assert guarantees_of(budget) == [NEW]
        assert n_released(budget) == 1
        assert counts(estimator) == {EARLIER: 1, NEW: 1}
        assert (estimator.model_, estimator.privacy_guarantee_) == ("earlier", EARLIER)

    call = recorded_call(estimator, NEW, draws=draws)
    with budget, ending(error), call as streams:
        check()
        assert (streams is not None) == draws
        end(error)
    check()
    if draws:
        assert_ended(streams)


def update(estimator, guarantee):
    return recorded_update(estimator, guarantee, TOTAL, draws=True)


@pytest.mark.parametrize("release", [update, recorded_call])
def test_a_refused_release_changes_nothing(release, keys):
    estimator = fitted()
    n_keys = len(keys)
    refused = pytest.raises(BudgetExceededError)
    with PrivacyBudget(0.1), refused, release(estimator, NEW):
        pytest.fail("It is refused.")
    assert counts(estimator) == {EARLIER: 1}
    assert (estimator.model_, estimator.privacy_guarantee_) == ("earlier", EARLIER)
    assert len(keys) == n_keys


def test_a_release_that_was_recorded_with_others_is_not_recorded_again():
    estimator, budget = fitted(), PrivacyBudget(math.inf)
    with budget:
        run_reserved(NEW, release_once, estimator)
        with pytest.raises(RuntimeError, match="reveal more than was planned"):
            run_reserved(pure(0.25), release_once, estimator)
    assert n_released(budget) == 0
    assert counts(estimator) == {EARLIER: 1, NEW: 1}


def release_once(estimator):
    with recorded_call(estimator, NEW):
        pass


def test_it_may_not_follow_from_an_integer_where_another_process_has_it(tmp_path, keys):
    estimator = Plain(random_state=0)
    budget = PrivacyBudget(math.inf, path=tmp_path / "films.db", create=True)
    with budget, pytest.raises(ValueError, match="integer random_state"):
        run_reserved(NEW, release_once, estimator)
    assert not counts(estimator)
    assert not keys


# --- noise ----------------------------------------------------------------------------


@pytest.mark.parametrize("random_state", [None, 0])
def test_no_two_releases_share_their_noise(random_state):
    estimator, words = Plain(random_state), []
    for release in (recorded_fit, recorded_fit, recorded_call, update, recorded_fit):
        with release(estimator, NEW) as streams:
            words.append(word(streams))
    assert len({*words}) == len(words)


@pytest.mark.parametrize("release", [update, recorded_call])
def test_noise_of_an_integer_is_told_as_long_as_its_release_counts(release):
    estimator = fitted()
    assert not estimator.__privacy_unprotected__()
    estimator.random_state = 0
    with release(estimator, NEW):
        pass
    estimator.random_state = None
    (said,) = estimator.__privacy_unprotected__()
    assert "integer random_state" in said
    assert "earlier" not in said
    for _ in range(2):
        with recorded_fit(estimator, NEW):
            pass
        (said,) = estimator.__privacy_unprotected__()
        assert "an earlier fit" in said


# --- steps ----------------------------------------------------------------------------


@INTERRUPTED
def test_the_owner_of_a_step_counts_what_the_step_releases(error):
    owner, step = fitted(random_state=0), Plain(random_state=0)
    other, words = fitted(random_state=0), []
    with ending(error), counting_for(owner, step):
        with recorded_fit(step, NEW) as streams:
            words.append(word(streams))
        end(error)
    assert counts(owner) == counts(step) == {EARLIER: 1, NEW: 1}
    # The next release of the owner has the noise of its third one.
    for estimator in (owner, other, other):
        with recorded_call(estimator, NEW) as streams:
            words.append(word(streams))
    assert words == [words[2], words[3], *words[2:]]
    assert words[0] != words[1]


def test_a_step_that_releases_nothing_counts_for_nobody():
    owner, step = fitted(), object()
    with counting_for(owner, step):
        pass
    assert counts(owner) == {EARLIER: 1}
    assert counted_by(owner, BaseEstimator()).__dict__ == {}


class Conditioned(Plain):
    """An estimator that states another guarantee for one that it has counted."""

    def _as_told(self, counts):
        return {TOTAL if one == NEW else one: n for one, n in counts.items()}


def test_the_step_of_a_report_has_the_releases_of_its_owner_on_present_conditions():
    owner, step = fitted(), Conditioned()
    with counting_for(owner, step), recorded_fit(step, NEW):
        pass
    with recorded_call(owner, pure(0.25)):
        pass
    found = counted_by(owner, step)
    assert counts(found) == {EARLIER: 1, TOTAL: 1, pure(0.25): 1}
    assert counts(step) == {EARLIER: 1, NEW: 1}
    assert found.privacy_guarantee_ == NEW
